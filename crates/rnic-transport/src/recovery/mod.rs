//! Loss recovery: decides which packet the sender sends next, and which ACK or NACK the receiver returns.
//!
//! A loss recovery protocol has two halves: [`SendRecovery`] at the sender and [`ReceiveRecovery`] at the receiver.
//! Both are plain state machines whose inputs and outputs are [`Pdu`]s (packets without payload); the caller passes the
//! current time to their functions.

mod go_back_n;
mod irn;
mod sprayed;
mod tcp;
mod uet;

pub use go_back_n::{GoBackN, GoBackNReceiver, GoBackNSender};
pub use irn::{Irn, IrnReceiver, IrnReceiverRegisters, IrnSender, IrnSenderRegisters};
pub use sprayed::{Sprayed, SprayedReceiver, SprayedSender};
pub use tcp::{Tcp, TcpReceiver, TcpSender};
pub use uet::{Uet, UetReceiver, UetSender};

use crate::bitmap::BitWindow;
use crate::config::FlowConfig;
use crate::congestion::LossSignal;
use crate::paths::PathConfig;
use crate::{Pdu, Psn, RxOutcome, Time};

/// The packet that the sender's loss recovery chose to send next.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Pick {
    /// PSN of the packet.
    pub psn: Psn,
    /// Whether the packet is the last of the flow.
    pub last: bool,
    /// Whether the packet is a retransmission.
    pub retransmission: bool,
    /// Whether the packet is a TCP SYN, which sets up a connection and carries no data.
    pub syn: bool,
}

/// The effect of an ACK or NACK on the sender's loss recovery.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct Progress {
    /// Number of packets that are newly acknowledged cumulatively; of sprayed flows, also selectively.
    pub acked: u32,
    /// How a loss was detected, if the ACK or NACK reports a loss that begins a new recovery episode; else `None`.
    pub loss: Option<LossSignal>,
}

/// The sender's half of a loss recovery protocol: the state of one flow at its sender.
pub trait SendRecovery: Clone + Send + 'static {
    /// The state of a flow with `packets` packets.
    fn new(cfg: &FlowConfig, packets: u64) -> Self;
    /// The state of the next flow on the same connection, with `packets` packets, that begins at `now`. It takes over
    /// this flow's measurements of the path, such as the round-trip time. The first PSN of the next flow is
    /// `cfg.first_psn`.
    fn following(&self, cfg: &FlowConfig, packets: u64, now: Time) -> Self;
    /// Handles the arrival of an ACK or NACK, and returns its effect.
    fn on_reply(&mut self, cfg: &FlowConfig, now: Time, pdu: Pdu) -> Progress;
    /// Whether [`poll`](SendRecovery::poll) with the same `window` would return a packet.
    fn has_work(&self, cfg: &FlowConfig, window: u32) -> bool;
    /// Chooses the next packet to send. The congestion control allows at most `window` packets in flight.
    fn poll(&mut self, cfg: &FlowConfig, now: Time, window: u32) -> Option<Pick>;
    /// The time at which the retransmission timer fires; `None` if the timer does not run.
    fn deadline(&self, cfg: &FlowConfig) -> Option<Time>;
    /// Handles the expiry of the retransmission timer.
    fn on_deadline(&mut self, cfg: &FlowConfig, now: Time);
    /// Handles that the time [`deadline`](SendRecovery::deadline) has come. Returns how a loss was detected; `None` if
    /// no loss was. A loss recovery whose only timer is the retransmission timer need not implement the function.
    fn on_timer(&mut self, cfg: &FlowConfig, now: Time) -> Option<LossSignal> {
        self.on_deadline(cfg, now);
        Some(LossSignal::Timeout)
    }
    /// The entropy of the packet that [`poll`](SendRecovery::poll) chose last; see [`crate::paths`]. Only the senders
    /// of protocols with [`Protocol::SPRAYS`] implement the function.
    fn path(&self) -> u16 {
        0
    }
    /// Restarts the path selection of the flow with this seed, which should differ between flows.
    fn seed_paths(&mut self, _cfg: &PathConfig, _seed: u64) {}
    /// The packet without data that asks the receiver what has arrived, if one is due at `now`
    /// ([`FlowConfig::probe_after`]). Only the senders of transport `uet` implement the function.
    fn probe(&mut self, _now: Time) -> Option<Pdu> {
        None
    }
    /// Number of packets sent and not acknowledged cumulatively.
    fn in_flight(&self) -> u32;
    /// Whether all packets of the flow are acknowledged.
    fn is_complete(&self) -> bool;
    /// Adds `packets` packets to the end of the flow, which carries several messages, one after the other.
    fn extend(&mut self, packets: u64);
    /// Number of packets of the flow that have never been sent.
    fn unsent(&self) -> u64;
    /// Number of packets that wait to be sent, retransmissions included as far as they are known: the credit that the
    /// flow needs.
    fn backlog(&self) -> u64 {
        self.unsent()
    }
    /// Takes `packets` packets off the end of the flow, at most [`unsent`](SendRecovery::unsent).
    fn shorten(&mut self, packets: u64);
    /// PSN of the first packet that is not acknowledged cumulatively, and the number of packets from there to the end.
    fn unacknowledged(&self) -> (Psn, u64);
}

/// The sender of a stream, that is, of a flow to which packets are added over time.
pub trait StreamSender: SendRecovery {
    /// Shortens the stream to the first `keep` unacknowledged packets. The sender forgets all packets after them, even
    /// if it has sent them.
    fn truncate(&mut self, keep: u64);
    /// Number of packets that have ever been sent and are not acknowledged. An ACK or NACK may refer to any of these
    /// packets. Unlike [`in_flight`](SendRecovery::in_flight), the number does not fall when go-back-N returns to an
    /// earlier packet.
    fn outstanding(&self) -> u32;
    /// Retransmits from the first unacknowledged packet on without a loss or timeout, because the receiver was not
    /// ready (RNR NAK).
    fn resend(&mut self, now: Time);
    /// Retransmits the first unacknowledged packet once more, because its retransmission is lost, too. The owner knows
    /// that from the departure times of the packets: one that departed after the retransmission has arrived. Otherwise
    /// only a timeout detects the loss. Only IRN needs the function.
    fn lost_again(&mut self) {}
    /// Counts all stored times from an origin that is later by `by`; see [`Time::rebased`].
    fn rebase(&mut self, by: Time);
}

/// The receiver's half of a loss recovery protocol: the state of one flow at its receiver.
pub trait ReceiveRecovery: Clone + Send + 'static {
    /// The state of a flow with `packets` packets that begins at `now`.
    fn new(cfg: &FlowConfig, packets: u64, now: Time) -> Self;
    /// Handles the arrival of a data packet; returns, among other things, the ACK or NACK to send.
    fn on_data(&mut self, cfg: &FlowConfig, now: Time, pdu: Pdu) -> RxOutcome;
    /// Handles the arrival of a data packet whose payload a switch has trimmed; returns the NACK to send. Only the
    /// receivers of protocols with [`Protocol::TRIMS`] are asked.
    fn on_trimmed(&mut self, _cfg: &FlowConfig, _now: Time, _pdu: Pdu) -> Option<Pdu> {
        None
    }
    /// The time at which the receiver's timer fires; `None` if the timer does not run.
    fn deadline(&self, cfg: &FlowConfig) -> Option<Time>;
    /// Handles the expiry of the receiver's timer; returns the NACK or delayed ACK to send.
    fn on_deadline(&mut self, cfg: &FlowConfig, now: Time) -> Option<Pdu>;
    /// Whether all packets of the flow have arrived.
    fn is_complete(&self) -> bool;
    /// Number of packets that the receiver has not accepted yet, and whether the flow's last packet is among them.
    fn missing(&self) -> (u64, bool);
    /// Adds a message of `packets` packets to the end of the flow, which carries several messages, one after the other.
    /// `waiting` says whether an earlier message is incomplete. [`on_data`](ReceiveRecovery::on_data) reports the
    /// completion of each message; the owner then calls [`next_message`](ReceiveRecovery::next_message) if there is
    /// one.
    fn post(&mut self, packets: u64, waiting: bool);
    /// Makes the message after the one that has just been completed the current one; it has `packets` packets. Returns
    /// whether it is complete, too.
    fn next_message(&mut self, packets: u64) -> bool;
    /// Number of packets of the current message from the first missing one to its end.
    fn left_of_message(&self) -> u64;
    /// Takes `packets` packets off the end of the flow, whose sender has not sent them.
    fn shorten(&mut self, packets: u64);
}

/// The result of [`ReceiveRecovery::missing`] for a receiver that expects `left` packets from `expected` on, of which
/// it has accepted the packets set in `arrived`.
fn missing(expected: Psn, left: u64, arrived: &BitWindow) -> (u64, bool) {
    let last_arrived =
        left > 0 && left <= u64::from(arrived.capacity()) && arrived.get(expected.plus((left - 1) as u32));
    (left - u64::from(arrived.count()), left > 0 && !last_arrived)
}

/// The receiver of a stream, that is, of a flow to which packets are added over time.
pub trait StreamReceiver: ReceiveRecovery {
    /// The expected PSN: the PSN of the first packet that has not arrived.
    fn expected(&self) -> Psn;
    /// Classifies packet `psn` as [`on_data`](ReceiveRecovery::on_data) would treat it, without changing the state.
    fn foresee(&self, psn: Psn) -> Arrival;
}

/// How a receiver treats a packet, by its position relative to the expected PSN.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Arrival {
    /// The packet has the expected PSN.
    InOrder,
    /// The packet is after the expected PSN, and the receiver accepts it.
    Ahead,
    /// The packet is after the expected PSN, and the receiver discards it. Either the receiver accepts no out-of-order
    /// packet at this distance, or it has received the packet before.
    Useless,
    /// The packet is before the expected PSN: a duplicate.
    Duplicate,
}

/// A loss recovery protocol: the types of its sender and receiver.
pub trait Protocol: Clone + Send + 'static {
    /// The sender's half of the protocol.
    type Sender: SendRecovery;
    /// The receiver's half of the protocol.
    type Receiver: ReceiveRecovery;
    /// Whether the packets of a flow have different entropy, so that they take different paths; see [`crate::paths`].
    const SPRAYS: bool = false;
    /// Whether receivers respond to packets that a switch has trimmed ([`ReceiveRecovery::on_trimmed`]).
    const TRIMS: bool = false;
    /// Whether a receiver may acknowledge several packets at once ([`FlowConfig::ack_packets`]). Then data packets say
    /// whether they need an ACK at once, and the receiver is told of marks.
    const COALESCES: bool = false;
    /// Whether the sender learns from acknowledgements that all packets have arrived. If it does not, the owner of both
    /// (the simulator) must drop the sender when the receiver is complete.
    fn sender_learns_completion(cfg: &FlowConfig) -> bool;
    /// Whether the receiver uses a timer, for delayed acknowledgements or for timeouts.
    fn receiver_has_timer(cfg: &FlowConfig) -> bool;
}
