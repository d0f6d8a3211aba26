//! Message transports: what the NanoTransport architecture has in common for all of them, and the programs that differ.
//!
//! A NIC of this kind takes messages and delivers messages: one-way, reliable, without connections. Fixed-function blocks keep the
//! state of each message (packetization, reassembly, timers, packet generator, arbiter). A [`Pipeline`] decides what
//! an arriving packet means (ingress) and what a departing one says (egress). It is written in Rust or in P4.
//!
//! Everything is a state machine without sockets, clocks or payload bytes, in the pull style of the whole crate.

mod bits;
pub mod buffers;
mod generator;
pub mod nic;
mod packetization;
pub mod primitives;
pub mod programs;
mod reassembly;
mod slots;
mod timers;

pub use buffers::{BufferClass, NoBuffer};
pub use nic::{Completed, Counters, Message, MessageNic, NicConfig, NicEvent, Order, Outgoing, Received};

use crate::Time;
use crate::telemetry::Telemetry;

/// What a packet is, as bits; those of the public NanoTransport prototype.
pub mod flags {
    /// It carries a segment of a message.
    pub const DATA: u8 = 1;
    /// It acknowledges.
    pub const ACK: u8 = 2;
    /// It says that a packet was lost.
    pub const NACK: u8 = 4;
    /// NDP: it asks for more packets (PULL). Homa: it allows more packets (GRANT).
    pub const PULL: u8 = 8;
    /// A switch has cut off its payload.
    pub const CHOP: u8 = 16;
    /// It asks for a packet to be sent again.
    pub const RESEND: u8 = 32;
    /// Its sender is busy with other messages.
    pub const BUSY: u8 = 64;
    /// It makes no sense.
    pub const BOGUS: u8 = 128;
}

/// What the NIC knows of a packet that arrives, beside its header.
#[derive(Clone, Copy, Debug)]
pub struct Arrival<'a> {
    /// When its last bit arrived.
    pub now: Time,
    /// Frame length in bytes, after trimming.
    pub frame_bytes: u16,
    /// A switch has cut off its payload.
    pub trimmed: bool,
    /// A switch sends it back: it is this NIC's own packet, without payload.
    pub returned: bool,
    /// A switch marked it "congestion experienced".
    pub marked: bool,
    /// What switches wrote into it, if they did.
    pub telemetry: Option<&'a Telemetry>,
}

/// `GetRxMsgInfo`: which message a packet belongs to.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct RxMsgInfoRequest {
    /// Address of the sending NIC.
    pub src_ip: u32,
    /// Its context (port).
    pub src_context: u16,
    /// The number that it gave the message: the same for all packets of the message, and different from those of its other messages.
    pub tx_msg_id: u32,
    /// Length of the message in bytes.
    pub msg_len: u32,
    /// Number of the packet in the message.
    pub pkt_offset: u32,
    /// Whether the packet counts as received.
    pub mark_received: bool,
}

/// What `GetRxMsgInfo` says.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct RxMsgInfo {
    /// There is no buffer for the message, or it was given up: the other fields mean nothing.
    pub fail: bool,
    /// Local number of the message, below the number of messages that can be received at once; [`RxMsgInfo::COMPLETE`] for a message
    /// that has been delivered.
    pub rx_msg_id: u16,
    /// This packet is the first one of its message.
    pub is_new_msg: bool,
    /// This packet has not been received before.
    pub is_new_pkt: bool,
    /// With this packet the message is complete.
    pub is_last_pkt: bool,
    /// First packet of the message that has not been received; the number of its packets if there is none.
    pub ack_no: u32,
}

impl RxMsgInfo {
    /// `rx_msg_id` of a message that has been delivered and has no state any more.
    pub const COMPLETE: u16 = u16::MAX;
}

/// `DeliveredEvent`: packets of a message are known to have arrived.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct DeliveredEvent {
    /// The message.
    pub tx_msg_id: u32,
    /// Every packet before this one has arrived: a cumulative acknowledgement; 0 says nothing.
    pub before: u32,
    /// Number of the packet that bit 0 of `bitmap` stands for.
    pub pkt_offset: u32,
    /// Packets that have arrived.
    pub bitmap: u64,
}

/// `CreditToBtxEvent`: packets of a message may be sent, for the first time or again.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct CreditToBtxEvent {
    /// The message.
    pub tx_msg_id: u32,
    /// This packet is to be sent again, unless it is known to have arrived.
    pub rtx: Option<u32>,
    /// Packets before this one may be sent; less than what was allowed before changes nothing.
    pub credit: Option<u32>,
}

/// `CtrlPktEvent`: what the packet generator is to send. The fields are those of the egress metadata.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct CtrlPktEvent {
    /// Address of the NIC that it goes to.
    pub dst_ip: u32,
    /// Context (port) there.
    pub dst_context: u16,
    /// Context (port) here.
    pub src_context: u16,
    /// Number of the message that it is about, as given by its sender.
    pub tx_msg_id: u32,
    /// Length of that message in bytes.
    pub msg_len: u32,
    /// Packet of that message that it is about.
    pub pkt_offset: u32,
    /// Credit, pull offset, or first packet missing: the program's to say.
    pub credit: u32,
    /// The program's to say; Homa: the priority that it grants.
    pub rank: u8,
    /// Flags to send at once.
    pub immediate: u8,
    /// Flags to send at the pace of the receiving link. If that allows it now, one packet bears both; else a packet of their own does, later.
    pub paced: u8,
}

/// What packetization or the packet generator hands to the egress pipeline with a packet.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct Departure {
    /// When its first bit leaves.
    pub now: Time,
    /// Address of the NIC that it goes to.
    pub dst_ip: u32,
    /// Context (port) there.
    pub dst_context: u16,
    /// Context (port) here.
    pub src_context: u16,
    /// Number of the message.
    pub tx_msg_id: u32,
    /// Length of the message in bytes.
    pub msg_len: u32,
    /// Number of the packet in the message.
    pub pkt_offset: u32,
    /// Data: the message's credit. Control: what the [`CtrlPktEvent`] said.
    pub credit: u32,
    /// Data: 0. Control: what the [`CtrlPktEvent`] said.
    pub rank: u8,
    /// What it is: [`flags`].
    pub flags: u8,
    /// It is the first packet of its message that is sent.
    pub is_new_msg: bool,
    /// It has been sent before.
    pub is_rtx: bool,
    /// Bytes of payload: 0 in a control packet.
    pub payload: u32,
}

/// What the ingress pipeline says of a packet.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Verdict {
    /// It is finished with: a control packet, a trimmed one, a duplicate, or one that is to be forgotten.
    Consumed,
    /// Its payload goes to reassembly: the packet that `GetRxMsgInfo` was asked about with `mark_received`.
    Reassemble {
        /// Local number of its message.
        rx_msg_id: u16,
        /// Number of the packet in the message.
        pkt_offset: u32,
        /// With it the message is complete.
        is_last_pkt: bool,
    },
}

/// What the egress pipeline makes of a packet: its header, and the priority that it travels in.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct Framed<H> {
    /// The header.
    pub header: H,
    /// Priority, 0 served first.
    pub band: u8,
}

/// The fixed-function blocks as the ingress pipeline sees them: the externs of NanoTransport.
pub trait Blocks {
    /// Finds, or begins, the message that a packet belongs to.
    fn get_rx_msg_info(&mut self, request: &RxMsgInfoRequest) -> RxMsgInfo;
    /// Packets of a message being sent have arrived.
    fn delivered(&mut self, event: &DeliveredEvent);
    /// Packets of a message being sent may leave.
    fn credit_to_btx(&mut self, event: &CreditToBtxEvent);
    /// A control packet is to be sent.
    fn ctrl_pkt(&mut self, event: &CtrlPktEvent);
}

/// A transport program: the two programmable pipelines of a NIC, and the state that they share.
///
/// One value per NIC. Registers live in it; what is kept per message is indexed by the low 16 bits of `tx_msg_id`
/// ([`slot`]) on the sending side and by `rx_msg_id` on the receiving side, both dense and small.
pub trait Pipeline: Send {
    /// What a packet bears.
    type Header: Copy + Default + Send;

    /// A packet has arrived.
    fn ingress<B: Blocks>(&mut self, blocks: &mut B, header: &Self::Header, arrival: &Arrival<'_>) -> Verdict;
    /// Bytes of a header, where they differ from packet to packet; frames have room for at least the run's usual header.
    #[inline]
    fn header_bytes(_header: &Self::Header) -> u32 {
        0
    }
    /// How often something went wrong that the program's author should know of, and what: "packets ...".
    fn faults(&self) -> Vec<(u64, &'static str)> {
        Vec::new()
    }
    /// A packet is about to leave.
    fn egress(&mut self, departure: &Departure) -> Framed<Self::Header>;
    /// A message is no longer waited for; its number will be used again. A scheduler must not keep a place for it.
    fn expired(&mut self, _rx_msg_id: u16) {}
}

/// The dense part of a message's number: which of the sender's messages of this moment it is.
#[inline]
pub fn slot(tx_msg_id: u32) -> usize {
    (tx_msg_id & 0xffff) as usize
}
