//! Transport programs for the NanoTransport NIC in Rust. Each program has an equivalent P4 program, so it uses only the
//! operations of a P4 pipeline: no unbounded loop, no division by a variable, and state only in the
//! [primitives](super::primitives).
//!
//! Message lengths are in bytes, and credits in packets. To compare a length with a credit, a program multiplies the
//! number of packets by the constant segment size; it never divides a number of bytes.

mod homa;
mod hpcc;
mod ndp;

pub use homa::{Homa, HomaSettings};
pub use hpcc::{Hpcc, HpccHeader, HpccSettings};
pub use ndp::Ndp;

use super::flags::DATA;
use super::{Blocks, CreditToBtxEvent, CtrlPktEvent, Departure, PacketHeader, RxMsgInfoRequest, Verdict};
use serde::{Deserialize, Serialize};

/// The packet header of transport programs in Rust.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default, Serialize, Deserialize)]
pub struct NativeHeader {
    /// Address of the sending NIC.
    pub src_ip: u32,
    /// Context at the sending NIC: NanoTransport's name for a port.
    pub src_context: u16,
    /// Context at the destination NIC: NanoTransport's name for a port.
    pub dst_context: u16,
    /// Id of the message that the packet belongs or refers to, assigned by the message's sender.
    pub tx_msg_id: u32,
    /// Length, in bytes, of the message that the packet belongs or refers to.
    pub msg_len: u32,
    /// Data packet: the index of the packet in its message. Control packet: the index of the data packet to which the
    /// control packet refers.
    pub pkt_offset: u32,
    /// Control packet: a value whose meaning the program defines, for example the granted credit in packets.
    pub credit: u32,
    /// Control packet: a value whose meaning the program defines, for example a priority.
    pub rank: u8,
    /// The [`flags`](super::flags) of the packet.
    pub flags: u8,
}

impl PacketHeader for NativeHeader {}

impl NativeHeader {
    /// The header of a packet that departs from the NIC with address `ip`.
    #[inline]
    pub fn of(ip: u32, departure: &Departure) -> NativeHeader {
        NativeHeader {
            src_ip: ip,
            src_context: departure.src_context,
            dst_context: departure.dst_context,
            tx_msg_id: departure.tx_msg_id,
            msg_len: departure.msg_len,
            pkt_offset: departure.pkt_offset,
            credit: departure.credit,
            rank: departure.rank,
            flags: departure.flags,
        }
    }

    #[inline]
    fn has(&self, flags: u8) -> bool {
        self.flags & flags != 0
    }

    /// The [`RxMsgInfoRequest`] with which the receiver's program looks up this data packet; `mark_received` says
    /// whether to mark the packet as received.
    #[inline]
    fn request(&self, mark_received: bool) -> RxMsgInfoRequest {
        RxMsgInfoRequest {
            src_ip: self.src_ip,
            src_context: self.src_context,
            tx_msg_id: self.tx_msg_id,
            msg_len: self.msg_len,
            pkt_offset: self.pkt_offset,
            mark_received,
        }
    }

    /// A control packet to the sender of this packet that refers to this packet; its flags are still 0.
    #[inline]
    fn reply(&self) -> CtrlPktEvent {
        CtrlPktEvent {
            dst_ip: self.src_ip,
            dst_context: self.src_context,
            src_context: self.dst_context,
            tx_msg_id: self.tx_msg_id,
            msg_len: self.msg_len,
            pkt_offset: self.pkt_offset,
            ..CtrlPktEvent::default()
        }
    }

    /// Handles a packet of this NIC that a switch returned: retransmits it if it is a data packet.
    #[inline]
    fn on_returned<B: Blocks>(&self, blocks: &mut B) -> Verdict {
        if self.has(DATA) {
            blocks.credit_to_btx(&CreditToBtxEvent {
                tx_msg_id: self.tx_msg_id,
                pkt_offset: self.pkt_offset,
                bitmap: 1,
                credit: None,
            });
        }
        Verdict::Consumed
    }
}
