//! Transport programs in Rust. Each has a twin in P4, so their decisions are those that a P4 pipeline can take: no unbounded loop, no division
//! by a variable, state in the [primitives](super::primitives).
//!
//! Packets are counted in numbers of segments and messages in bytes; to compare the two, packets are multiplied by the segment size, which is
//! constant, rather than bytes divided.

mod homa;
mod hpcc;
mod ndp;

pub use homa::{Homa, HomaSettings};
pub use hpcc::{Hpcc, HpccHeader, HpccSettings};
pub use ndp::Ndp;

use super::flags::DATA;
use super::{Blocks, CreditToBtxEvent, CtrlPktEvent, Departure, RxMsgInfoRequest, Verdict};

/// The header of native programs.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct NativeHeader {
    /// Address of the NIC that it comes from.
    pub src_ip: u32,
    /// Context (port) there.
    pub src_context: u16,
    /// Context (port) at the NIC that it goes to.
    pub dst_context: u16,
    /// The message that it is part of or about, as numbered by its sender.
    pub tx_msg_id: u32,
    /// Length of that message in bytes.
    pub msg_len: u32,
    /// Packet of that message.
    pub pkt_offset: u32,
    /// Control: what the program says by it.
    pub credit: u32,
    /// Control: what the program says by it.
    pub rank: u8,
    /// What it is: [`flags`](super::flags).
    pub flags: u8,
}

impl NativeHeader {
    /// The header of a departing packet of the NIC with address `ip`.
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

    /// The question about the message that this packet of data is part of.
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

    /// A control packet to where this packet came from, about its message and itself, without flags yet.
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

    /// A switch has sent back this NIC's own packet: if it is data, it goes out again.
    #[inline]
    fn came_back<B: Blocks>(&self, blocks: &mut B) -> Verdict {
        if self.has(DATA) {
            blocks.credit_to_btx(&CreditToBtxEvent {
                tx_msg_id: self.tx_msg_id,
                rtx: Some(self.pkt_offset),
                credit: None,
            });
        }
        Verdict::Consumed
    }
}
