//! Transports of messages on the NIC architecture of the NanoTransport paper (SOSR 2021): a NIC with fixed-function
//! blocks, and the transport programs that control it.
//!
//! A NanoTransport NIC sends and delivers one-way, reliable messages without connections. Its fixed-function blocks
//! (packetization, reassembly, timers, packet generator, arbiter) keep the state of each message. A transport program,
//! the [`Pipeline`], processes each arriving packet (ingress) and fills in the header of each departing packet
//! (egress). Programs are written in Rust ([`programs`]) or in P4.
//!
//! Here the NIC is a state machine without sockets, clocks or payload bytes. Its owner, for example the simulator,
//! passes received packets to it and polls it for the next packet to transmit.
//!
//! ```
//! use rnic_transport::Time;
//! use rnic_transport::message::programs::Ndp;
//! use rnic_transport::message::{Arrival, Message, MessageNic, NicConfig, NicEvent};
//!
//! // Two NICs with addresses 0 and 1. NIC 0 sends a message of 3,000 bytes to NIC 1.
//! let cfg = NicConfig::default();
//! let mut nics = [0, 1].map(|ip| MessageNic::new(&cfg, Ndp::new(ip, cfg.mtu, cfg.rtt_pkts)));
//! let message = Message { dst_ip: 1, bytes: 3_000, tag: 42, ..Message::default() };
//! nics[0].send(&cfg, Time::ZERO, &message)?;
//!
//! let mut delivered = None;
//! for ns in 0..1_000 {
//!     let now = Time::from_ns(ns);
//!     for from in [0, 1] {
//!         while let Some(packet) = nics[from].poll_transmit(&cfg, now) {
//!             let frame_bytes = 64 + packet.payload as u16;
//!             let arrival =
//!                 Arrival { now, frame_bytes, trimmed: false, returned: false, marked: false, telemetry: None };
//!             let received = nics[1 - from].receive(&cfg, &packet.header, &arrival);
//!             delivered = delivered.or(received.completed);
//!         }
//!     }
//! }
//! assert_eq!(delivered.map(|message| message.bytes), Some(3_000));
//! assert_eq!(nics[0].poll_event(), Some(NicEvent::Sent { tag: 42 }));
//! # Ok::<(), rnic_transport::message::NoBuffer>(())
//! ```

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
use crate::telemetry::{HopRecord, Telemetry};
use serde::Serialize;
use serde::de::DeserializeOwned;

/// The flags of a packet; their values are those of the public NanoTransport prototype.
pub mod flags {
    /// The packet is a data packet: it carries a segment of a message.
    pub const DATA: u8 = 1;
    /// The packet is an acknowledgement.
    pub const ACK: u8 = 2;
    /// The packet reports that a data packet was lost or trimmed.
    pub const NACK: u8 = 4;
    /// NDP: the packet requests further packets (PULL). Homa: it grants further packets (GRANT).
    pub const PULL: u8 = 8;
    /// A switch has trimmed the packet, that is, removed its payload.
    pub const CHOP: u8 = 16;
    /// The packet requests the retransmission of a packet.
    pub const RESEND: u8 = 32;
    /// The sender is busy with other messages (a control packet of Homa).
    pub const BUSY: u8 = 64;
    /// The packet is invalid.
    pub const BOGUS: u8 = 128;
}

/// Information about a packet that the NIC received, apart from its header.
#[derive(Clone, Copy, Debug)]
pub struct Arrival<'a> {
    /// Arrival time of the packet's last bit.
    pub now: Time,
    /// Frame length in bytes, after trimming.
    pub frame_bytes: u16,
    /// Whether a switch has trimmed the packet, that is, removed its payload.
    pub trimmed: bool,
    /// Whether a switch has returned the packet, without payload, to its sender, which is this NIC (NDP's
    /// return-to-sender).
    pub returned: bool,
    /// Whether a switch CE-marked the packet (ECN "congestion experienced").
    pub marked: bool,
    /// In-band telemetry that switches wrote into the packet; `None` if the simulation run has no in-band telemetry.
    pub telemetry: Option<&'a Telemetry>,
}

/// The input of NanoTransport's extern `GetRxMsgInfo` ([`Blocks::get_rx_msg_info`]): identifies an arrived packet and
/// its message.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct RxMsgInfoRequest {
    /// Address of the sending NIC.
    pub src_ip: u32,
    /// Context at the sending NIC: NanoTransport's name for a port.
    pub src_context: u16,
    /// Message id that the sending NIC assigned. It is the same for all packets of a message, and differs from the ids
    /// of all other messages that this NIC is sending.
    pub tx_msg_id: u32,
    /// Length of the message in bytes.
    pub msg_len: u32,
    /// Index of the packet in the message, from 0.
    pub pkt_offset: u32,
    /// Whether the NIC is to mark the packet as received.
    pub mark_received: bool,
}

/// The output of NanoTransport's extern `GetRxMsgInfo` ([`Blocks::get_rx_msg_info`]): the state of the message that a
/// packet belongs to.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct RxMsgInfo {
    /// Whether the request failed: there is no receive buffer for the message, its reception has expired, or the
    /// request is invalid (an old message id, a wrong length or index). If it failed, the other fields are invalid.
    pub fail: bool,
    /// Id of the message at this NIC, its receiver: less than the maximum number of concurrently received messages, or
    /// [`RxMsgInfo::COMPLETE`] if the message has been delivered.
    pub rx_msg_id: u16,
    /// Whether this packet is the first packet of its message to arrive.
    pub is_new_msg: bool,
    /// Whether this packet had not been received before.
    pub is_new_pkt: bool,
    /// Whether the message is complete with this packet.
    pub is_last_pkt: bool,
    /// Index of the first packet of the message that has not been received; the number of packets if all have been
    /// received.
    pub ack_no: u32,
}

impl RxMsgInfo {
    /// The `rx_msg_id` of a message that has been delivered and whose state has been freed.
    pub const COMPLETE: u16 = u16::MAX;
}

/// NanoTransport's `DeliveredEvent`, the input of [`Blocks::delivered`] at the sender of a message: the receiver has
/// acknowledged packets of this message.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct DeliveredEvent {
    /// Id of the message.
    pub tx_msg_id: u32,
    /// Cumulative acknowledgement: all packets before this index have arrived. The value 0 acknowledges no packet.
    pub before: u32,
    /// Index of the packet that bit 0 of `bitmap` represents.
    pub pkt_offset: u32,
    /// Selective acknowledgement: bit n is set if packet `pkt_offset` + n has arrived.
    pub bitmap: u64,
}

/// NanoTransport's `CreditToBtxEvent`, the input of [`Blocks::credit_to_btx`] at the sender of a message: allows
/// packets of this message to be sent or retransmitted.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct CreditToBtxEvent {
    /// Id of the message.
    pub tx_msg_id: u32,
    /// Index of the packet that bit 0 of `bitmap` represents.
    pub pkt_offset: u32,
    /// Bit n is set if packet `pkt_offset` + n is to be retransmitted, unless it has been acknowledged or not been
    /// sent: the `rtxBitmap` of the paper.
    pub bitmap: u64,
    /// New credit: the sender may send all packets before this index. A value below the current credit has no effect.
    pub credit: Option<u32>,
}

/// NanoTransport's `CtrlPktEvent`, the input of [`Blocks::ctrl_pkt`]: a control packet that the packet generator is to
/// send. The generator passes the fields on to the egress pipeline ([`Departure`]).
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct CtrlPktEvent {
    /// Address of the destination NIC.
    pub dst_ip: u32,
    /// Context at the destination NIC: NanoTransport's name for a port.
    pub dst_context: u16,
    /// Context at this NIC: NanoTransport's name for a port.
    pub src_context: u16,
    /// Id of the message that the control packet refers to, assigned by the message's sender.
    pub tx_msg_id: u32,
    /// Length, in bytes, of the message that the control packet refers to.
    pub msg_len: u32,
    /// Index, in its message, of the data packet that the control packet refers to.
    pub pkt_offset: u32,
    /// A value whose meaning the transport program defines, for example a credit, a pull offset, or the index of the
    /// first missing packet.
    pub credit: u32,
    /// A value whose meaning the transport program defines; in Homa, the granted priority.
    pub rank: u8,
    /// [`flags`] of the control packet to send immediately; 0 if there is none.
    pub immediate: u8,
    /// [`flags`] of the control packet to send at the next turn of the pacer, which limits the rate of such packets
    /// ([`NicConfig::pace`]); 0 if there is none. If the pacer allows a packet now, one packet carries both `immediate`
    /// and `paced`. Otherwise a second packet carries `paced` later.
    pub paced: u8,
}

/// The metadata of a departing packet. The block that creates the packet (packetization for data, the packet generator
/// for control packets) passes it to the egress pipeline.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct Departure {
    /// Departure time of the packet's first bit.
    pub now: Time,
    /// Address of the destination NIC.
    pub dst_ip: u32,
    /// Context at the destination NIC: NanoTransport's name for a port.
    pub dst_context: u16,
    /// Context at this NIC: NanoTransport's name for a port.
    pub src_context: u16,
    /// Id of the message.
    pub tx_msg_id: u32,
    /// Length of the message in bytes.
    pub msg_len: u32,
    /// Index of the packet in the message, from 0.
    pub pkt_offset: u32,
    /// Data packet: the message's credit, the index before which its packets may be sent. Control packet:
    /// [`CtrlPktEvent::credit`].
    pub credit: u32,
    /// Data packet: 0. Control packet: [`CtrlPktEvent::rank`].
    pub rank: u8,
    /// The [`flags`] of the packet.
    pub flags: u8,
    /// Whether the packet is the first transmission of its message.
    pub is_new_msg: bool,
    /// Whether the packet is a retransmission.
    pub is_rtx: bool,
    /// Payload in bytes; 0 in a control packet.
    pub payload: u32,
}

/// The ingress pipeline's decision about an arrived packet.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Verdict {
    /// The NIC does not need the packet's payload: it is a control packet, trimmed, a duplicate, or to be discarded.
    Consumed,
    /// The NIC writes the packet's payload to the receive buffer of the message. The program must have called
    /// `GetRxMsgInfo` with `mark_received` for this packet.
    Reassemble {
        /// The `rx_msg_id` of the message: its local id at the receiver.
        rx_msg_id: u16,
        /// Index of the packet in the message.
        pkt_offset: u32,
        /// Whether the message is complete with this packet.
        is_last_pkt: bool,
    },
}

/// The result of the egress pipeline for a departing packet: its header and its priority.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct Framed<H> {
    /// Header of the packet.
    pub header: H,
    /// Priority of the packet in the network; switches serve priority 0 first.
    pub priority: u8,
}

/// The functions of the fixed-function blocks that the ingress pipeline can call: the externs of NanoTransport.
pub trait Blocks {
    /// Finds the message that an arrived packet belongs to, or begins the reception of this message.
    fn get_rx_msg_info(&mut self, request: &RxMsgInfoRequest) -> RxMsgInfo;
    /// Tells packetization, the block that sends messages, that packets of a message have arrived at the receiver.
    fn delivered(&mut self, event: &DeliveredEvent);
    /// Allows packetization, the block that sends messages, to send or retransmit packets of a message.
    fn credit_to_btx(&mut self, event: &CreditToBtxEvent);
    /// Makes the packet generator send a control packet.
    fn ctrl_pkt(&mut self, event: &CtrlPktEvent);
}

/// The header of a transport's packets. It implements serde's traits, so that processes which simulate one fabric
/// together can exchange packets.
pub trait PacketHeader: Copy + Default + Send + Serialize + DeserializeOwned {
    /// Whether switches write their telemetry records into the headers of data packets ([`PacketHeader::stamp`]),
    /// instead of into a field of its own.
    const TELEMETRY: bool = false;

    /// Adds the telemetry record of a switch that forwards the data packet.
    fn stamp(&mut self, _hop: HopRecord) {}

    /// The bytes of the headers, from the Ethernet header on; `None` if the header has no bytes.
    fn bytes(&self) -> Option<&[u8]> {
        None
    }
}

/// A transport program: the ingress and egress pipelines of a NIC, and the state that they share.
///
/// Each NIC has its own value of the program's type, which contains the program's registers. A program indexes its
/// state of sent messages by the low 16 bits of `tx_msg_id` ([`slot`]), and its state of received messages by
/// `rx_msg_id`. Both indices begin at 0, and the NIC gives a new message the lowest free index.
pub trait Pipeline: Send {
    /// The header of the transport's packets.
    type Header: PacketHeader;

    /// Processes an arriving packet.
    fn ingress<B: Blocks>(&mut self, blocks: &mut B, header: &Self::Header, arrival: &Arrival<'_>) -> Verdict;
    /// Length of `header` in bytes, if the length differs between packets; else 0. The simulator adds to the payload of
    /// a packet either this length or the configured header size, whichever is larger.
    #[inline]
    fn header_bytes(_header: &Self::Header) -> u32 {
        0
    }
    /// Errors of the program, which the simulator reports to the program's author: the number of occurrences of each
    /// error, and its description, which begins with "packets".
    fn faults(&self) -> Vec<(u64, &'static str)> {
        Vec::new()
    }
    /// Fills in the header of a departing packet and chooses its priority.
    fn egress(&mut self, departure: &Departure) -> Framed<Self::Header>;
    /// Handles the expiry of an incompletely received message: the NIC no longer waits for the message and will reuse
    /// its id. A program with a scheduler of messages must remove the message from the scheduler.
    fn expired(&mut self, _rx_msg_id: u16) {}
}

/// The slot of a message at its sender: the low 16 bits of its id. All messages that a NIC is currently sending have
/// different slots.
#[inline]
pub fn slot(tx_msg_id: u32) -> usize {
    (tx_msg_id & 0xffff) as usize
}
