//! Loss recovery: which packet to send next, and what a receiver answers.
//!
//! A protocol is two halves: [`SendRecovery`] at the data source and [`ReceiveRecovery`] at the data sink. Both are plain
//! state machines over [`Pdu`]s; time comes in as an argument.

mod go_back_n;
mod irn;
mod tcp;

pub use go_back_n::{GoBackN, GoBackNReceiver, GoBackNSender};
pub use irn::{Irn, IrnReceiver, IrnSender};
pub use tcp::{Tcp, TcpReceiver, TcpSender};

use crate::bitmap::BitWindow;
use crate::config::FlowConfig;
use crate::congestion::LossSignal;
use crate::{Pdu, Psn, RxOutcome, Time};

/// A packet that recovery chose to send.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Pick {
    /// Its sequence number.
    pub psn: Psn,
    /// Whether it is the flow's last packet.
    pub last: bool,
    /// Whether it was sent before.
    pub retransmission: bool,
    /// Whether it sets up the connection, and carries no data.
    pub syn: bool,
}

/// What an ACK or NACK meant to the sender.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct Progress {
    /// Packets newly acknowledged cumulatively.
    pub acked: u32,
    /// A loss was noticed that was not known before.
    pub loss: Option<LossSignal>,
}

/// The data source's half of loss recovery.
pub trait SendRecovery: Clone + Send + 'static {
    /// A flow of `packets` packets begins.
    fn new(cfg: &FlowConfig, packets: u64) -> Self;
    /// A flow of `packets` packets begins at `now` on this one's connection, with what this one has learnt of the path. Its first sequence
    /// number is `cfg`'s, as that of every flow.
    fn following(&self, cfg: &FlowConfig, packets: u64, now: Time) -> Self;
    /// An ACK or NACK arrived.
    fn on_reply(&mut self, cfg: &FlowConfig, now: Time, pdu: Pdu) -> Progress;
    /// Whether [`poll`](SendRecovery::poll) would return a packet, with at most `window` packets in flight.
    fn has_work(&self, cfg: &FlowConfig, window: u32) -> bool;
    /// Takes the next packet to send.
    fn poll(&mut self, cfg: &FlowConfig, now: Time, window: u32) -> Option<Pick>;
    /// When the retransmission timer fires.
    fn deadline(&self, cfg: &FlowConfig) -> Option<Time>;
    /// The deadline has passed.
    fn on_deadline(&mut self, cfg: &FlowConfig, now: Time);
    /// Packets sent and not yet acknowledged cumulatively.
    fn in_flight(&self) -> u32;
    /// Whether every packet is acknowledged.
    fn is_complete(&self) -> bool;
}

/// A source whose flow has no end: it grows.
pub trait StreamSender: SendRecovery {
    /// There are `packets` more to send.
    fn extend(&mut self, packets: u64);
    /// Only the first `keep` packets that are not acknowledged are to be sent; those after them are forgotten, sent or not.
    fn truncate(&mut self, keep: u64);
    /// Packets sent, at any time, and not acknowledged: those that a reply may speak of.
    fn outstanding(&self) -> u32;
    /// Sends the first packet that is not acknowledged again, though neither a loss nor a timeout says so: the receiver was not ready.
    fn resend(&mut self, now: Time);
}

/// The data sink's half of loss recovery.
pub trait ReceiveRecovery: Clone + Send + 'static {
    /// A flow of `packets` packets begins at `now`.
    fn new(cfg: &FlowConfig, packets: u64, now: Time) -> Self;
    /// A data packet arrived.
    fn on_data(&mut self, cfg: &FlowConfig, now: Time, pdu: Pdu) -> RxOutcome;
    /// When the sink's own timer fires, if it has one.
    fn deadline(&self, cfg: &FlowConfig) -> Option<Time>;
    /// The deadline has passed; returns the NACK, or delayed ACK, to send.
    fn on_deadline(&mut self, cfg: &FlowConfig, now: Time) -> Option<Pdu>;
    /// Whether everything has arrived.
    fn is_complete(&self) -> bool;
    /// Packets that have not been accepted, and whether the flow's last one is among them.
    fn missing(&self) -> (u64, bool);
}

/// What a sink misses that waits for `left` packets from `expected` on and has taken those of `arrived` among them.
fn missing(expected: Psn, left: u64, arrived: &BitWindow) -> (u64, bool) {
    let last_arrived =
        left > 0 && left <= u64::from(arrived.capacity()) && arrived.get(expected.plus((left - 1) as u32));
    (left - u64::from(arrived.count()), left > 0 && !last_arrived)
}

/// A sink whose flow has no end.
pub trait StreamReceiver: ReceiveRecovery {
    /// The first packet that has not arrived.
    fn expected(&self) -> Psn;
    /// What [`on_data`](ReceiveRecovery::on_data) would make of packet `psn`.
    fn foresee(&self, psn: Psn) -> Arrival;
}

/// What a packet is to a receiver.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Arrival {
    /// The one that is expected.
    InOrder,
    /// Ahead of it, and kept.
    Ahead,
    /// Ahead of it, and of no use: not kept, or kept already.
    Useless,
    /// Before it: a duplicate.
    Duplicate,
}

/// A pair of halves that belong together.
pub trait Protocol: Clone + Send + 'static {
    /// The data source.
    type Sender: SendRecovery;
    /// The data sink.
    type Receiver: ReceiveRecovery;
    /// Whether the source learns from acknowledgements that everything arrived. If not, its state ends with the sink's.
    fn sender_learns_completion(cfg: &FlowConfig) -> bool;
    /// Whether the sink may have timers of its own.
    fn receiver_has_timer(cfg: &FlowConfig) -> bool;
}
