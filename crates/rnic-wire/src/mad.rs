//! Management datagrams (MADs; InfiniBand volume 1, section 13.4), and the messages of the communication manager among
//! them (section 12.6): the packets to queue pair 1 with which `rdma_cm` sets up connections.

use crate::bytes::{array, read_u16};

/// The queue pair of the general services interface, to which MADs other than those of subnet management go.
pub const GSI_QP: u32 = 1;
/// Length of a MAD in bytes.
pub const MAD_LEN: usize = 256;

const HEADER_LEN: usize = 24;
const CLASS_COMMUNICATION: u8 = 0x07;

/// The common header of a management datagram.
///
/// ```
/// use rnic_wire::Mad;
///
/// let mut bytes = [0; 256];
/// bytes[..4].copy_from_slice(&[1, 7, 2, 3]); // base version 1, communication management, class version 2, Send
/// bytes[17] = 0x14; // attribute ReadyToUse
/// bytes[24..32].copy_from_slice(&[0, 0, 0, 5, 0, 0, 0, 9]);
/// let mad = Mad::parse(&bytes).unwrap();
/// let cm = mad.communication().unwrap();
/// assert_eq!((cm.name, cm.local_id, cm.remote_id), ("RTU", 5, Some(9)));
/// ```
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Mad<'a> {
    /// Management class, for example 7 for communication management.
    pub class: u8,
    /// Version of the class.
    pub class_version: u8,
    /// Method; the upper bit is set in responses.
    pub method: u8,
    /// Status; 0 means success.
    pub status: u16,
    /// Transaction identifier, which a response repeats.
    pub transaction: u64,
    /// Attribute: what the datagram is about.
    pub attribute: u16,
    /// Further scope of the attribute.
    pub modifier: u32,
    /// The bytes after the header.
    data: &'a [u8],
}

impl<'a> Mad<'a> {
    /// Parses a MAD from the payload of a packet to queue pair 0 or 1; `None` if the payload is not 256 bytes of base
    /// version 1.
    pub fn parse(payload: &'a [u8]) -> Option<Mad<'a>> {
        if payload.len() != MAD_LEN || payload[0] != 1 {
            return None;
        }
        Some(Mad {
            class: payload[1],
            class_version: payload[2],
            method: payload[3],
            status: read_u16(payload, 4),
            transaction: u64::from_be_bytes(array(payload, 8)),
            attribute: read_u16(payload, 16),
            modifier: u32::from_be_bytes(array(payload, 20)),
            data: &payload[HEADER_LEN..],
        })
    }

    /// The name of the management class; `None` for a class that this crate does not know.
    pub const fn class_name(&self) -> Option<&'static str> {
        match self.class {
            0x01 => Some("SubnLID"),
            0x81 => Some("SubnDirected"),
            0x03 => Some("SubnAdm"),
            0x04 => Some("Perf"),
            0x05 => Some("BM"),
            0x06 => Some("DevMgt"),
            CLASS_COMMUNICATION => Some("CM"),
            0x08 => Some("SNMP"),
            _ => None,
        }
    }

    /// The message of the communication manager; `None` for a MAD of another class, or another attribute.
    pub fn communication(&self) -> Option<Communication> {
        if self.class != CLASS_COMMUNICATION {
            return None;
        }
        let name = match self.attribute {
            0x10 => "REQ",
            0x11 => "MRA",
            0x12 => "REJ",
            0x13 => "REP",
            0x14 => "RTU",
            0x15 => "DREQ",
            0x16 => "DREP",
            0x17 => "SIDR_REQ",
            0x18 => "SIDR_REP",
            0x19 => "LAP",
            0x1a => "APR",
            _ => return None,
        };
        let word = |at: usize| u32::from_be_bytes(array(self.data, at));
        let is_request = name == "REQ";
        let is_service = matches!(name, "SIDR_REQ" | "SIDR_REP");
        Some(Communication {
            name,
            local_id: word(0),
            remote_id: (!is_request && !is_service).then(|| word(4)),
            service: is_request.then(|| u64::from_be_bytes(array(self.data, 8))),
            qpn: match name {
                "REQ" => Some(word(32) >> 8),
                "REP" => Some(word(12) >> 8),
                _ => None,
            },
            psn: match name {
                "REQ" => Some(word(44) >> 8),
                "REP" => Some(word(20) >> 8),
                _ => None,
            },
            reason: (name == "REJ").then(|| read_u16(self.data, 10)),
        })
    }
}

/// A message of the communication manager, which sets up and ends connections.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Communication {
    /// Name of the message: REQ, MRA, REJ, REP, RTU, DREQ, DREP, SIDR_REQ, SIDR_REP, LAP or APR.
    pub name: &'static str,
    /// Communication ID of the sender; in SIDR_REQ and SIDR_REP the request ID.
    pub local_id: u32,
    /// Communication ID of the receiver, except in a REQ and in SIDR messages.
    pub remote_id: Option<u32>,
    /// Service ID, in a REQ.
    pub service: Option<u64>,
    /// QPN of the sender, in a REQ or REP.
    pub qpn: Option<u32>,
    /// First PSN of the sender, in a REQ or REP.
    pub psn: Option<u32>,
    /// Reason of a rejection, in a REJ.
    pub reason: Option<u16>,
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A MAD of the communication manager with this attribute and these bytes of data at their offsets.
    fn cm(attribute: u16, data: &[(usize, &[u8])]) -> Vec<u8> {
        let mut bytes = vec![0; MAD_LEN];
        bytes[..4].copy_from_slice(&[1, 7, 2, 3]);
        bytes[16..18].copy_from_slice(&attribute.to_be_bytes());
        for (at, value) in data {
            bytes[HEADER_LEN + at..HEADER_LEN + at + value.len()].copy_from_slice(value);
        }
        bytes
    }

    #[test]
    fn a_request_and_its_reply() {
        let service: &[u8] = &[0, 0, 0, 0, 1, 6, 0x4a, 0xb7];
        let bytes = cm(0x10, &[(0, &[0, 0, 0, 7]), (8, service), (32, &[0, 0, 0x11, 0]), (44, &[1, 2, 3, 0xff])]);
        let request = Mad::parse(&bytes).unwrap().communication().unwrap();
        assert_eq!((request.name, request.local_id, request.remote_id), ("REQ", 7, None));
        assert_eq!((request.service, request.qpn, request.psn), (Some(0x0106_4ab7), Some(0x11), Some(0x01_0203)));
        let bytes = cm(0x13, &[(0, &[0, 0, 0, 8]), (4, &[0, 0, 0, 7]), (12, &[0, 0, 0x12, 0]), (20, &[0, 0, 9, 0])]);
        let reply = Mad::parse(&bytes).unwrap().communication().unwrap();
        assert_eq!((reply.name, reply.local_id, reply.remote_id), ("REP", 8, Some(7)));
        assert_eq!((reply.qpn, reply.psn, reply.service), (Some(0x12), Some(9), None));
        let bytes = cm(0x12, &[(10, &[0, 28])]);
        assert_eq!(Mad::parse(&bytes).unwrap().communication().unwrap().reason, Some(28));
    }

    #[test]
    fn other_payloads_are_no_mads_and_other_classes_no_messages() {
        let bytes = cm(0x10, &[]);
        assert_eq!(Mad::parse(&bytes[..255]), None);
        assert_eq!(Mad::parse(&[2; 256]), None);
        let mut performance = bytes.clone();
        performance[1] = 4;
        let mad = Mad::parse(&performance).unwrap();
        assert_eq!((mad.class_name(), mad.communication()), (Some("Perf"), None));
        assert_eq!(Mad::parse(&cm(0x20, &[])).unwrap().communication(), None);
    }
}
