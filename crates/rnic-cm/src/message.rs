//! The messages of the communication manager: REQ, MRA, REJ, REP, RTU, DREQ, DREP, SIDR_REQ and SIDR_REP (InfiniBand
//! volume 1, section 12.6 to 12.11).

use rnic_wire::{MAD_LEN, MAX_24, Mad};
use std::net::IpAddr;

/// Bytes of a MAD.
pub type MadBytes = [u8; MAD_LEN];

/// A MAD to send to UDP port 4791 of a peer.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Transmit {
    /// The address.
    pub peer: IpAddr,
    /// The MAD.
    pub mad: MadBytes,
}

/// Bytes before the data of a MAD.
const HEADER: usize = 24;
/// Management class of communication management, its version, and the method of all its messages (Send).
const CLASS: u8 = 0x07;
const CLASS_VERSION: u8 = 2;
const METHOD_SEND: u8 = 3;

/// Private data of each message, in bytes. The whole field is always transmitted.
pub mod private {
    /// REQ, with the header of the IP CM service.
    pub const REQUEST: usize = 92;
    /// REP.
    pub const REPLY: usize = 196;
    /// REJ.
    pub const REJECT: usize = 148;
    /// RTU and DREP.
    pub const READY: usize = 224;
    /// DREQ.
    pub const DISCONNECT: usize = 220;
    /// SIDR_REQ, with the header of the IP CM service.
    pub const SERVICE_REQUEST: usize = 216;
    /// SIDR_REP.
    pub const SERVICE_REPLY: usize = 136;
}

/// Reasons of a REJ (section 12.6.7.2).
pub mod reason {
    /// The sender lacks resources.
    pub const NO_RESOURCES: u16 = 3;
    /// The sender got no response in time.
    pub const TIMEOUT: u16 = 4;
    /// No connection has the communication ID.
    pub const INVALID_ID: u16 = 6;
    /// The service ID has no listener.
    pub const INVALID_SERVICE: u16 = 8;
    /// The transport service type is not supported.
    pub const INVALID_TRANSPORT: u16 = 9;
    /// The connection is stale.
    pub const STALE_CONNECTION: u16 = 10;
    /// The GID of the receiver in the REQ does not belong to the receiver.
    pub const INVALID_GID: u16 = 12;
    /// The path MTU is not supported.
    pub const INVALID_MTU: u16 = 26;
    /// The program refuses the connection.
    pub const CONSUMER: u16 = 28;
}

/// Results in a SIDR_REP (section 12.11.2.1).
pub mod service_status {
    /// The QPN and the Q_Key are valid.
    pub const VALID: u8 = 0;
    /// The service ID has no listener.
    pub const UNSUPPORTED: u8 = 1;
    /// The program refuses.
    pub const REJECT: u8 = 2;
}

/// The message to which an MRA or a REJ responds.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum About {
    /// A REQ.
    Request,
    /// A REP.
    Reply,
    /// Another message, or none.
    Other,
}

impl About {
    fn code(self) -> u8 {
        match self {
            About::Request => 0,
            About::Reply => 1,
            About::Other => 2,
        }
    }
    fn of(code: u8) -> About {
        match code {
            0 => About::Request,
            1 => About::Reply,
            _ => About::Other,
        }
    }
}

/// The path of a connection, as the sender of the REQ sees it: *local* is the sender.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Path {
    /// Local identifiers, without meaning on RoCE: 0xffff.
    pub lids: [u16; 2],
    /// GID of the sender of the REQ.
    pub local_gid: [u8; 16],
    /// GID of the receiver of the REQ.
    pub remote_gid: [u8; 16],
    /// Flow label, 20 bits.
    pub flow_label: u32,
    /// Packet rate, a code of 6 bits.
    pub rate: u8,
    /// Traffic class.
    pub traffic_class: u8,
    /// Hop limit.
    pub hop_limit: u8,
    /// Service level, 4 bits.
    pub service_level: u8,
    /// Whether the path stays in the subnet.
    pub subnet_local: bool,
    /// Local ACK timeout of the sender's queue pair: 4.096 us times 2 to the power of this number, 5 bits.
    pub ack_timeout: u8,
}

/// REQ: the request for a connection.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Request {
    /// Communication ID of the sender.
    pub local_id: u32,
    /// Service ID of the service to which the sender wants to connect.
    pub service: u64,
    /// GUID of the sender's adapter.
    pub ca_guid: u64,
    /// Q_Key; without meaning for connections.
    pub qkey: u32,
    /// QPN of the sender.
    pub qpn: u32,
    /// Reads and atomics that the sender responds to at the same time.
    pub responder_resources: u8,
    /// Reads and atomics that the sender has outstanding at most.
    pub initiator_depth: u8,
    /// How long the sender waits for the receiver's CM: 4.096 us times 2 to the power of this number, 5 bits.
    pub remote_response_timeout: u8,
    /// Transport service: 0 for RC, 1 for UC.
    pub transport: u8,
    /// Whether the sender's queue pair has end-to-end credits.
    pub flow_control: bool,
    /// PSN at which the receiver begins to send.
    pub psn: u32,
    /// Time for which the receiver should wait for the sender's CM; same code as `remote_response_timeout`.
    pub local_response_timeout: u8,
    /// Retries of the receiver's queue pair, 3 bits.
    pub retry_count: u8,
    /// Partition key.
    pub pkey: u16,
    /// Path MTU: 1 (256 bytes) to 5 (4096 bytes).
    pub mtu: u8,
    /// RNR retries of the receiver's queue pair, 3 bits.
    pub rnr_retry_count: u8,
    /// How often each end may retransmit a message, 4 bits.
    pub max_cm_retries: u8,
    /// Whether the sender's queue pair has a shared receive queue.
    pub srq: bool,
    /// The path.
    pub path: Path,
    /// Private data.
    pub private: [u8; private::REQUEST],
}

/// REP: the acceptance of a REQ.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Reply {
    /// Communication ID of the sender.
    pub local_id: u32,
    /// Communication ID of the receiver.
    pub remote_id: u32,
    /// Q_Key; without meaning for connections.
    pub qkey: u32,
    /// QPN of the sender.
    pub qpn: u32,
    /// PSN at which the receiver begins to send.
    pub psn: u32,
    /// Reads and atomics that the sender responds to at the same time.
    pub responder_resources: u8,
    /// Reads and atomics that the sender has outstanding at most.
    pub initiator_depth: u8,
    /// Longest delay of the sender's ACKs: 4.096 us times 2 to the power of this number, 5 bits.
    pub ack_delay: u8,
    /// Whether the sender's queue pair has end-to-end credits.
    pub flow_control: bool,
    /// RNR retries of the receiver's queue pair, 3 bits.
    pub rnr_retry_count: u8,
    /// Whether the sender's queue pair has a shared receive queue.
    pub srq: bool,
    /// GUID of the sender's adapter.
    pub ca_guid: u64,
    /// Private data.
    pub private: [u8; private::REPLY],
}

/// REJ: the refusal of a REQ or a REP.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Reject {
    /// Communication ID of the sender; 0 if it has none.
    pub local_id: u32,
    /// Communication ID of the receiver; 0 if the sender does not know it.
    pub remote_id: u32,
    /// The refused message.
    pub about: About,
    /// Reason of the refusal: see [`reason`].
    pub reason: u16,
    /// Number of valid bytes of `info`.
    pub info_len: u8,
    /// Additional information; its meaning depends on the reason.
    pub info: [u8; 72],
    /// Private data.
    pub private: [u8; private::REJECT],
}

/// A message of the communication manager.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Message {
    /// REQ.
    Request(Request),
    /// MRA: the receiver got a message and needs time for it.
    Mra {
        /// Communication ID of the sender.
        local_id: u32,
        /// Communication ID of the receiver.
        remote_id: u32,
        /// The message that the receiver got.
        about: About,
        /// Time that the receiver needs: 4.096 us times 2 to the power of this number, 5 bits.
        service_timeout: u8,
    },
    /// REJ.
    Reject(Reject),
    /// REP.
    Reply(Reply),
    /// RTU: the REP has arrived.
    ReadyToUse {
        /// Communication ID of the sender.
        local_id: u32,
        /// Communication ID of the receiver.
        remote_id: u32,
        /// Private data.
        private: [u8; private::READY],
    },
    /// DREQ: the end of a connection.
    Disconnect {
        /// Communication ID of the sender.
        local_id: u32,
        /// Communication ID of the receiver.
        remote_id: u32,
        /// QPN of the receiver.
        remote_qpn: u32,
        /// Private data.
        private: [u8; private::DISCONNECT],
    },
    /// DREP: the response to a DREQ.
    Disconnected {
        /// Communication ID of the sender.
        local_id: u32,
        /// Communication ID of the receiver.
        remote_id: u32,
        /// Private data.
        private: [u8; private::READY],
    },
    /// SIDR_REQ: which UD queue pair serves a service ID?
    ServiceRequest {
        /// Identifies the request, as a communication ID.
        request_id: u32,
        /// Partition key.
        pkey: u16,
        /// The service.
        service: u64,
        /// Private data.
        private: [u8; private::SERVICE_REQUEST],
    },
    /// SIDR_REP.
    ServiceReply(ServiceReply),
}

/// SIDR_REP: the UD queue pair of a service ID.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct ServiceReply {
    /// The ID of the request.
    pub request_id: u32,
    /// Result: see [`service_status`].
    pub status: u8,
    /// The queue pair.
    pub qpn: u32,
    /// The service.
    pub service: u64,
    /// Q_Key of the queue pair.
    pub qkey: u32,
    /// Private data.
    pub private: [u8; private::SERVICE_REPLY],
}

/// A message with the transaction ID of its MAD.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Parsed {
    /// Transaction ID: all messages of a handshake have the transaction ID of the first message.
    pub transaction: u64,
    /// The message.
    pub message: Message,
}

fn u16_at(bytes: &[u8], at: usize) -> u16 {
    u16::from_be_bytes([bytes[at], bytes[at + 1]])
}

fn u32_at(bytes: &[u8], at: usize) -> u32 {
    u32::from_be_bytes(part(bytes, at))
}

/// Returns `N` bytes, beginning at offset `at`.
fn part<const N: usize>(bytes: &[u8], at: usize) -> [u8; N] {
    let mut out = [0; N];
    out.copy_from_slice(&bytes[at..at + N]);
    out
}

fn put<const N: usize>(bytes: &mut [u8], at: usize, value: [u8; N]) {
    bytes[at..at + N].copy_from_slice(&value);
}

/// Writes a 32-bit word: `high` into the upper 24 bits, `low` into the lower 8 bits.
fn put_24_8(bytes: &mut [u8], at: usize, high: u32, low: u8) {
    put(bytes, at, ((high & MAX_24) << 8 | u32::from(low)).to_be_bytes());
}

impl Parsed {
    /// Decodes the message in a MAD; `None` if the MAD does not contain a [`Message`]. Reserved fields are ignored.
    pub fn parse(mad: &MadBytes) -> Option<Parsed> {
        let header = Mad::parse(mad)?;
        let usual = [header.class, header.class_version, header.method] == [CLASS, CLASS_VERSION, METHOD_SEND];
        if !usual {
            return None;
        }
        let data = &mad[HEADER..];
        let (local_id, remote_id) = (u32_at(data, 0), u32_at(data, 4));
        let message = match header.attribute {
            0x10 => Message::Request(Request::parse(data)),
            0x11 => Message::Mra { local_id, remote_id, about: About::of(data[8] >> 6), service_timeout: data[9] >> 3 },
            0x12 => Message::Reject(Reject {
                local_id,
                remote_id,
                about: About::of(data[8] >> 6),
                info_len: (data[9] >> 1).min(72),
                reason: u16_at(data, 10),
                info: part(data, 12),
                private: part(data, 84),
            }),
            0x13 => Message::Reply(Reply::parse(data)),
            0x14 => Message::ReadyToUse { local_id, remote_id, private: part(data, 8) },
            0x15 => {
                Message::Disconnect { local_id, remote_id, remote_qpn: u32_at(data, 8) >> 8, private: part(data, 12) }
            }
            0x16 => Message::Disconnected { local_id, remote_id, private: part(data, 8) },
            0x17 => Message::ServiceRequest {
                request_id: local_id,
                pkey: u16_at(data, 4),
                service: u64::from_be_bytes(part(data, 8)),
                private: part(data, 16),
            },
            0x18 => Message::ServiceReply(ServiceReply {
                request_id: local_id,
                status: data[4],
                qpn: u32_at(data, 8) >> 8,
                service: u64::from_be_bytes(part(data, 12)),
                qkey: u32_at(data, 20),
                private: part(data, 96),
            }),
            _ => return None,
        };
        Some(Parsed { transaction: header.transaction, message })
    }

    /// Writes the MAD. Bits of a field beyond its size are ignored.
    pub fn emit(&self) -> MadBytes {
        let mut mad = [0; MAD_LEN];
        mad[..4].copy_from_slice(&[1, CLASS, CLASS_VERSION, METHOD_SEND]);
        put(&mut mad, 8, self.transaction.to_be_bytes());
        put(&mut mad, 16, self.message.attribute().to_be_bytes());
        let data = &mut mad[HEADER..];
        let ids = |data: &mut [u8], local: u32, remote: u32| {
            put(data, 0, local.to_be_bytes());
            put(data, 4, remote.to_be_bytes());
        };
        match &self.message {
            Message::Request(request) => request.emit(data),
            Message::Reply(reply) => reply.emit(data),
            Message::Mra { local_id, remote_id, about, service_timeout } => {
                ids(data, *local_id, *remote_id);
                data[8] = about.code() << 6;
                data[9] = service_timeout << 3;
            }
            Message::Reject(reject) => {
                ids(data, reject.local_id, reject.remote_id);
                data[8] = reject.about.code() << 6;
                data[9] = reject.info_len << 1;
                put(data, 10, reject.reason.to_be_bytes());
                put(data, 12, reject.info);
                put(data, 84, reject.private);
            }
            Message::ReadyToUse { local_id, remote_id, private }
            | Message::Disconnected { local_id, remote_id, private } => {
                ids(data, *local_id, *remote_id);
                put(data, 8, *private);
            }
            Message::Disconnect { local_id, remote_id, remote_qpn, private } => {
                ids(data, *local_id, *remote_id);
                put_24_8(data, 8, *remote_qpn, 0);
                put(data, 12, *private);
            }
            Message::ServiceRequest { request_id, pkey, service, private } => {
                put(data, 0, request_id.to_be_bytes());
                put(data, 4, pkey.to_be_bytes());
                put(data, 8, service.to_be_bytes());
                put(data, 16, *private);
            }
            Message::ServiceReply(reply) => {
                put(data, 0, reply.request_id.to_be_bytes());
                data[4] = reply.status;
                put_24_8(data, 8, reply.qpn, 0);
                put(data, 12, reply.service.to_be_bytes());
                put(data, 20, reply.qkey.to_be_bytes());
                put(data, 96, reply.private);
            }
        }
        mad
    }
}

impl Message {
    /// Attribute ID of the message.
    pub fn attribute(&self) -> u16 {
        match self {
            Message::Request(_) => 0x10,
            Message::Mra { .. } => 0x11,
            Message::Reject(_) => 0x12,
            Message::Reply(_) => 0x13,
            Message::ReadyToUse { .. } => 0x14,
            Message::Disconnect { .. } => 0x15,
            Message::Disconnected { .. } => 0x16,
            Message::ServiceRequest { .. } => 0x17,
            Message::ServiceReply(_) => 0x18,
        }
    }

    /// Returns the receiver's communication ID in the message; `None` for a REQ and a SIDR_REQ, whose sender does not
    /// know it.
    pub fn receiver(&self) -> Option<u32> {
        match self {
            Message::Request(_) | Message::ServiceRequest { .. } => None,
            Message::Mra { remote_id, .. }
            | Message::ReadyToUse { remote_id, .. }
            | Message::Disconnect { remote_id, .. }
            | Message::Disconnected { remote_id, .. } => Some(*remote_id),
            Message::Reject(reject) => Some(reject.remote_id),
            Message::Reply(reply) => Some(reply.remote_id),
            Message::ServiceReply(reply) => Some(reply.request_id),
        }
    }

    /// Returns the service ID in a REQ or SIDR_REQ; `None` for other messages.
    pub fn service(&self) -> Option<u64> {
        match self {
            Message::Request(request) => Some(request.service),
            Message::ServiceRequest { service, .. } => Some(*service),
            _ => None,
        }
    }
}

impl Request {
    fn parse(data: &[u8]) -> Request {
        let label = u32_at(data, 88);
        Request {
            local_id: u32_at(data, 0),
            service: u64::from_be_bytes(part(data, 8)),
            ca_guid: u64::from_be_bytes(part(data, 16)),
            qkey: u32_at(data, 28),
            qpn: u32_at(data, 32) >> 8,
            responder_resources: data[35],
            initiator_depth: data[39],
            remote_response_timeout: data[43] >> 3,
            transport: data[43] >> 1 & 3,
            flow_control: data[43] & 1 != 0,
            psn: u32_at(data, 44) >> 8,
            local_response_timeout: data[47] >> 3,
            retry_count: data[47] & 7,
            pkey: u16_at(data, 48),
            mtu: data[50] >> 4,
            rnr_retry_count: data[50] & 7,
            max_cm_retries: data[51] >> 4,
            srq: data[51] & 8 != 0,
            path: Path {
                lids: [u16_at(data, 52), u16_at(data, 54)],
                local_gid: part(data, 56),
                remote_gid: part(data, 72),
                flow_label: label >> 12,
                rate: (label & 0x3f) as u8,
                traffic_class: data[92],
                hop_limit: data[93],
                service_level: data[94] >> 4,
                subnet_local: data[94] & 8 != 0,
                ack_timeout: data[95] >> 3,
            },
            private: part(data, 140),
        }
    }

    fn emit(&self, data: &mut [u8]) {
        put(data, 0, self.local_id.to_be_bytes());
        put(data, 8, self.service.to_be_bytes());
        put(data, 16, self.ca_guid.to_be_bytes());
        put(data, 28, self.qkey.to_be_bytes());
        put_24_8(data, 32, self.qpn, self.responder_resources);
        put_24_8(data, 36, 0, self.initiator_depth);
        let flow_control = u8::from(self.flow_control);
        put_24_8(data, 40, 0, self.remote_response_timeout << 3 | (self.transport & 3) << 1 | flow_control);
        put_24_8(data, 44, self.psn, self.local_response_timeout << 3 | self.retry_count & 7);
        put(data, 48, self.pkey.to_be_bytes());
        data[50] = self.mtu << 4 | self.rnr_retry_count & 7;
        data[51] = self.max_cm_retries << 4 | u8::from(self.srq) << 3;
        let path = &self.path;
        put(data, 52, path.lids[0].to_be_bytes());
        put(data, 54, path.lids[1].to_be_bytes());
        put(data, 56, path.local_gid);
        put(data, 72, path.remote_gid);
        put(data, 88, (path.flow_label << 12 | u32::from(path.rate & 0x3f)).to_be_bytes());
        data[92] = path.traffic_class;
        data[93] = path.hop_limit;
        data[94] = path.service_level << 4 | u8::from(path.subnet_local) << 3;
        data[95] = path.ack_timeout << 3;
        put(data, 140, self.private);
    }
}

impl Reply {
    fn parse(data: &[u8]) -> Reply {
        Reply {
            local_id: u32_at(data, 0),
            remote_id: u32_at(data, 4),
            qkey: u32_at(data, 8),
            qpn: u32_at(data, 12) >> 8,
            psn: u32_at(data, 20) >> 8,
            responder_resources: data[24],
            initiator_depth: data[25],
            ack_delay: data[26] >> 3,
            flow_control: data[26] & 1 != 0,
            rnr_retry_count: data[27] >> 5,
            srq: data[27] & 0x10 != 0,
            ca_guid: u64::from_be_bytes(part(data, 28)),
            private: part(data, 36),
        }
    }

    fn emit(&self, data: &mut [u8]) {
        put(data, 0, self.local_id.to_be_bytes());
        put(data, 4, self.remote_id.to_be_bytes());
        put(data, 8, self.qkey.to_be_bytes());
        put_24_8(data, 12, self.qpn, 0);
        put_24_8(data, 20, self.psn, 0);
        data[24] = self.responder_resources;
        data[25] = self.initiator_depth;
        data[26] = self.ack_delay << 3 | u8::from(self.flow_control);
        data[27] = self.rnr_retry_count << 5 | u8::from(self.srq) << 4;
        put(data, 28, self.ca_guid.to_be_bytes());
        put(data, 36, self.private);
    }
}
