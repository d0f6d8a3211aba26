//! Loss recovery of Ultra Ethernet Transport in its mode of reliable unordered delivery (RUD).
//!
//! Packets take many paths and arrive in any order. Every packet is acknowledged by itself, with its entropy. A switch
//! without room for a packet trims it: the receiver learns of the loss at once and sends a NACK for this packet, which
//! the sender retransmits before new packets. Without trimming, a packet counts as lost as soon as so many packets that
//! departed later have arrived that reordering no longer explains its absence: 1.5 windows, at least 5 packets. A
//! timeout is the last resort. In a lossless fabric nothing is lost.
//!
//! Source: the public reference simulator of the Ultra Ethernet Consortium (uet-htsim, 2025). Its receivers acknowledge
//! several packets at once (every 16 KB, and at once for marks), with a bitmap of 64 packets. Here every packet has its
//! ACK, as with the reference's option of an ACK per packet, so no bitmap is needed.
//!
//! The state of sender and receiver is that of [`Sprayed`](super::Sprayed); only the detection of losses differs.

use super::sprayed::{SprayedReceiver, SprayedSender, State};
use super::{Pick, Progress, Protocol, ReceiveRecovery, SendRecovery, StreamReceiver};
use crate::config::FlowConfig;
use crate::congestion::LossSignal;
use crate::paths::{PathConfig, Signal};
use crate::{Pdu, PduKind, Psn, RxOutcome, Time};

/// The loss recovery protocol of Ultra Ethernet Transport: its sender and receiver.
#[derive(Clone, Copy, Debug)]
pub struct Uet;

impl Protocol for Uet {
    type Sender = UetSender;
    type Receiver = UetReceiver;
    const SPRAYS: bool = true;
    const TRIMS: bool = true;
    fn sender_learns_completion(_cfg: &FlowConfig) -> bool {
        true
    }
    fn receiver_has_timer(_cfg: &FlowConfig) -> bool {
        false
    }
}

/// Minimum number of later packets that must have arrived before a packet counts as lost (uet-htsim).
const MIN_LATER: u32 = 5;

/// The sender of a flow with reliable unordered delivery.
#[derive(Clone, Debug)]
pub struct UetSender {
    sprayed: SprayedSender,
    /// The congestion control's window when a packet was last sent, in packets.
    window: u32,
}

impl UetSender {
    /// Removes departures of packets that are no longer in flight from the front of the list.
    fn pass(&mut self) {
        while let Some((at, psn)) = self.sprayed.departures.front().copied() {
            let slot = self.sprayed.slot(psn);
            let waits = slot.is_some_and(|slot| {
                let sent = self.sprayed.sent[slot];
                sent.state == State::InFlight && sent.at == at
            });
            if waits {
                return;
            }
            self.sprayed.departures.pop_front();
        }
    }

    /// Number of packets that departed after the first one in flight, and are not in flight: they have arrived, apart
    /// from those that a timeout declared lost.
    fn later(&self) -> u32 {
        (self.sprayed.departures.len() as u32).saturating_sub(self.sprayed.in_flight)
    }

    /// Counts the packets as lost that too many later packets have overtaken.
    fn infer(&mut self, now: Time) -> bool {
        let enough = (self.window.saturating_mul(3) / 2).max(MIN_LATER);
        let mut found = false;
        while self.later() >= enough {
            let Some((_, psn)) = self.sprayed.departures.front().copied() else { break };
            let Some(slot) = self.sprayed.slot(psn) else { break };
            self.sprayed.lose(now, slot, Signal::Lost);
            self.pass();
            found = true;
        }
        found
    }

    /// Handles a NACK of a trimmed packet.
    fn on_trimmed(&mut self, now: Time, pdu: Pdu) -> Progress {
        let advance = pdu.psn().distance_from(self.sprayed.first_missing).max(0) as u32;
        if advance > self.sprayed.sent_since_missing() {
            return Progress::default();
        }
        let acked = if advance > 0 { self.sprayed.slide(now, advance) } else { 0 };
        // A NACK about an earlier transmission of the packet says nothing about the one in flight.
        let slot = self.sprayed.slot(pdu.trigger()).filter(|slot| {
            let sent = self.sprayed.sent[*slot];
            sent.state == State::InFlight && crate::pdu::Stamp::at(sent.at) == pdu.stamp()
        });
        if let Some(slot) = slot {
            self.sprayed.lose(now, slot, Signal::Trimmed);
        }
        self.pass();
        Progress { acked, loss: slot.map(|_| LossSignal::Nack) }
    }
}

impl SendRecovery for UetSender {
    fn new(cfg: &FlowConfig, packets: u64) -> UetSender {
        UetSender { sprayed: SprayedSender::new(cfg, packets), window: cfg.bdp_cap }
    }

    fn following(&self, cfg: &FlowConfig, packets: u64, now: Time) -> UetSender {
        UetSender { sprayed: self.sprayed.following(cfg, packets, now), window: self.window }
    }

    fn on_reply(&mut self, cfg: &FlowConfig, now: Time, pdu: Pdu) -> Progress {
        if pdu.kind() == PduKind::Nack && pdu.is_trimmed() {
            return self.on_trimmed(now, pdu);
        }
        let Progress { acked, .. } = self.sprayed.on_reply(cfg, now, pdu);
        self.pass();
        // Without timeouts the fabric is lossless, and a missing packet is only late.
        let lost = !cfg.trims && cfg.timeouts.is_some() && self.infer(now);
        Progress { acked, loss: lost.then_some(LossSignal::Nack) }
    }

    fn has_work(&self, cfg: &FlowConfig, window: u32) -> bool {
        self.sprayed.in_flight < window.min(cfg.bdp_cap) && self.sprayed.has_work(cfg, window)
    }

    fn poll(&mut self, cfg: &FlowConfig, now: Time, window: u32) -> Option<Pick> {
        self.window = window.min(cfg.bdp_cap);
        // The window limits retransmissions too: after a NACK a packet does not leave at once.
        if self.sprayed.in_flight >= self.window {
            return None;
        }
        self.sprayed.poll(cfg, now, window)
    }

    fn deadline(&self, cfg: &FlowConfig) -> Option<Time> {
        self.sprayed.deadline(cfg)
    }

    fn on_deadline(&mut self, cfg: &FlowConfig, now: Time) {
        self.sprayed.on_deadline(cfg, now);
        self.pass();
    }

    fn path(&self) -> u16 {
        self.sprayed.path()
    }

    fn seed_paths(&mut self, cfg: &PathConfig, seed: u64) {
        self.sprayed.seed_paths(cfg, seed);
    }

    /// Number of packets that are neither acknowledged nor known to be lost.
    fn in_flight(&self) -> u32 {
        self.sprayed.in_flight
    }

    fn is_complete(&self) -> bool {
        self.sprayed.is_complete()
    }

    fn extend(&mut self, packets: u64) {
        self.sprayed.extend(packets);
    }

    fn unsent(&self) -> u64 {
        self.sprayed.unsent()
    }

    fn backlog(&self) -> u64 {
        self.sprayed.backlog()
    }

    fn shorten(&mut self, packets: u64) {
        self.sprayed.shorten(packets);
    }

    fn unacknowledged(&self) -> (Psn, u64) {
        self.sprayed.unacknowledged()
    }
}

/// The receiver of a flow with reliable unordered delivery.
#[derive(Clone, Debug)]
pub struct UetReceiver(SprayedReceiver);

impl ReceiveRecovery for UetReceiver {
    fn new(cfg: &FlowConfig, packets: u64, now: Time) -> UetReceiver {
        UetReceiver(SprayedReceiver::new(cfg, packets, now))
    }

    fn on_data(&mut self, cfg: &FlowConfig, now: Time, pdu: Pdu) -> RxOutcome {
        self.0.on_data(cfg, now, pdu)
    }

    fn on_trimmed(&mut self, _cfg: &FlowConfig, _now: Time, pdu: Pdu) -> Option<Pdu> {
        let expected = StreamReceiver::expected(&self.0.0);
        Some(Pdu::nack(expected, pdu.psn(), pdu.stamp()).with_path(pdu.path()).with_trimmed())
    }

    fn deadline(&self, cfg: &FlowConfig) -> Option<Time> {
        self.0.deadline(cfg)
    }

    fn on_deadline(&mut self, cfg: &FlowConfig, now: Time) -> Option<Pdu> {
        self.0.on_deadline(cfg, now)
    }

    fn is_complete(&self) -> bool {
        self.0.is_complete()
    }

    fn missing(&self) -> (u64, bool) {
        self.0.missing()
    }

    fn post(&mut self, packets: u64, waiting: bool) {
        self.0.post(packets, waiting);
    }

    fn next_message(&mut self, packets: u64) -> bool {
        self.0.next_message(packets)
    }

    fn left_of_message(&self) -> u64 {
        self.0.left_of_message()
    }

    fn shorten(&mut self, packets: u64) {
        self.0.shorten(packets);
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::paths::Selection;

    fn cfg(trims: bool) -> FlowConfig {
        let paths = PathConfig::new(Selection::Oblivious, 4);
        FlowConfig { paths, trims, bdp_cap: 20, timeouts: None, reorder: None, ..FlowConfig::default() }
    }

    /// Sends `count` packets, one each microsecond, and returns their data packets.
    fn send(sender: &mut UetSender, cfg: &FlowConfig, count: u64) -> Vec<Pdu> {
        let packet = |at| {
            let now = Time::from_us(at);
            let pick = sender.poll(cfg, now, 20).unwrap();
            Pdu::data(pick.psn, pick.last, now).with_path(sender.path())
        };
        (0..count).map(packet).collect()
    }

    #[test]
    fn each_packet_is_acknowledged_once_in_any_order() {
        let cfg = cfg(true);
        let (mut sender, mut receiver) = (UetSender::new(&cfg, 4), UetReceiver::new(&cfg, 4, Time::ZERO));
        let data = send(&mut sender, &cfg, 4);
        let mut acked = |at: usize| {
            let reply = receiver.on_data(&cfg, Time::from_us(9), data[at]).reply.unwrap();
            let progress = sender.on_reply(&cfg, Time::from_us(10), reply);
            (progress.acked, progress.loss, sender.in_flight())
        };
        assert_eq!(acked(2), (1, None, 3));
        assert_eq!(acked(0), (1, None, 2), "cumulative up to packet 0");
        assert_eq!(acked(3), (1, None, 1));
        assert_eq!(acked(1), (1, None, 0), "packets 2 and 3 are not counted again");
        assert!(sender.is_complete() && receiver.is_complete());
    }

    #[test]
    fn a_trimmed_packet_is_retransmitted_before_new_ones_and_only_once() {
        let cfg = cfg(true);
        let (mut sender, mut receiver) = (UetSender::new(&cfg, 9), UetReceiver::new(&cfg, 9, Time::ZERO));
        let data = send(&mut sender, &cfg, 4);
        let nack = receiver.on_trimmed(&cfg, Time::from_us(9), data[1]).unwrap();
        assert_eq!((nack.psn(), nack.trigger(), nack.path()), (Psn::new(0), Psn::new(1), data[1].path()));
        let progress = sender.on_reply(&cfg, Time::from_us(10), nack);
        assert_eq!((progress.loss, sender.in_flight()), (Some(LossSignal::Nack), 3));
        let again = sender.poll(&cfg, Time::from_us(11), 20).unwrap();
        assert!(again.retransmission && again.psn == Psn::new(1));
        // The same NACK again is about the first transmission.
        assert_eq!(sender.on_reply(&cfg, Time::from_us(12), nack), Progress::default());
        assert_eq!(sender.poll(&cfg, Time::from_us(13), 20).unwrap().psn, Psn::new(4));
    }

    #[test]
    fn without_trimming_many_later_packets_show_a_loss() {
        let cfg = FlowConfig { timeouts: FlowConfig::default().timeouts, ..cfg(false) };
        let (mut sender, mut receiver) = (UetSender::new(&cfg, 40), UetReceiver::new(&cfg, 40, Time::ZERO));
        // The window is 4 packets, so 1.5 windows are 6.
        let data = send(&mut sender, &cfg, 10);
        sender.window = 4;
        let mut losses = Vec::new();
        for packet in &data[1..8] {
            let reply = receiver.on_data(&cfg, Time::from_us(20), *packet).reply.unwrap();
            losses.push(sender.on_reply(&cfg, Time::from_us(21), reply).loss);
        }
        let nack = Some(LossSignal::Nack);
        assert_eq!(losses, [None, None, None, None, None, nack, None], "with the sixth later packet");
        let again = sender.poll(&cfg, Time::from_us(22), 4).unwrap();
        assert!(again.retransmission && again.psn == Psn::new(0));
    }
}
