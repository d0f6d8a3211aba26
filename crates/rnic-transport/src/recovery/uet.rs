//! Loss recovery of Ultra Ethernet Transport in its mode of reliable unordered delivery (RUD).
//!
//! Packets take many paths and arrive in any order. Every packet is acknowledged by itself, with its entropy. A switch
//! without room for a packet trims it: the receiver learns of the loss at once and sends a NACK for this packet, which
//! the sender retransmits before new packets. Without trimming, a packet counts as lost as soon as so many packets that
//! departed later have arrived that reordering no longer explains its absence: 1.5 windows, at least 5 packets. A
//! timeout is the last resort. In a lossless fabric nothing is lost.
//!
//! Source: the public reference simulator of the Ultra Ethernet Consortium (uet-htsim, 2025). Three of its mechanisms
//! are options here:
//!
//! - **ACKs of several packets** ([`FlowConfig::ack_packets`]; the reference acknowledges every 16 KB). The receiver
//!   acknowledges at once: the first packet, a marked one, a duplicate, one that asks for it, and the end of a message.
//!   A packet asks for an ACK if it is a retransmission, or if its sender can send no other before an ACK. After such a
//!   request the receiver acknowledges again when no gap is left. An ACK has a bitmap of 16 packets (the reference's
//!   has 64); a packet that is too far from those that wait for an ACK gets its own.
//! - **Trimming by the last switch** ([`FlowConfig::last_hop_trims`]): it is no fault of the path, so the path
//!   selection learns nothing bad, and a window beside credit does not shrink.
//! - **Probes** ([`FlowConfig::probe_after`]): a sender that has packets in flight and hears nothing asks what has
//!   arrived. If the response comes without much delay, the packets lost are those that departed before the probe and
//!   are not acknowledged.
//!
//! The state of sender and receiver is that of [`Sprayed`](super::Sprayed); only the detection of losses differs.

use super::sprayed::{self, SprayedReceiver, SprayedSender, State};
use super::{Pick, Progress, Protocol, ReceiveRecovery, SendRecovery, StreamReceiver};
use crate::config::FlowConfig;
use crate::congestion::LossSignal;
use crate::paths::{PathConfig, Signal};
use crate::pdu::Stamp;
use crate::{Pdu, PduKind, Psn, RxOutcome, Time};

/// The loss recovery protocol of Ultra Ethernet Transport: its sender and receiver.
#[derive(Clone, Copy, Debug)]
pub struct Uet;

impl Protocol for Uet {
    type Sender = UetSender;
    type Receiver = UetReceiver;
    const SPRAYS: bool = true;
    const TRIMS: bool = true;
    const COALESCES: bool = true;
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
    /// When the last response arrived, or the first packet in flight left, and the number of probes since.
    heard: Time,
    probes: u32,
    /// Whether a probe is due.
    is_probing: bool,
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

    /// When the next probe is due: the first after `probe_after` without a response, each other after 5/3 of it.
    fn probe_at(&self, cfg: &FlowConfig) -> Option<Time> {
        let after = cfg.probe_after.filter(|_| self.sprayed.in_flight > 0)?;
        let thirds = u64::from(self.probes).saturating_mul(5).saturating_add(3);
        Some(self.heard.saturating_add(Time::from_ps(after.as_ps().saturating_mul(thirds) / 3)))
    }

    fn hear(&mut self, now: Time) {
        (self.heard, self.probes, self.is_probing) = (now, 0, false);
    }

    /// Handles the response to a probe: counts the packets as lost that departed before it and are not acknowledged.
    /// Returns whether there are any.
    fn on_probed(&mut self, cfg: &FlowConfig, now: Time, stamp: Stamp) -> bool {
        // A delay of a base round trip is the reference's target without trimming.
        if stamp.elapsed(now) >= cfg.base_rtt * 2 {
            return false;
        }
        let mut found = false;
        for slot in 0..self.sprayed.sent.len() {
            let sent = self.sprayed.sent[slot];
            let departed = Stamp::at(sent.at);
            if sent.state == State::InFlight && departed != stamp && stamp.is_from(departed) {
                self.sprayed.lose(now, slot, Signal::Lost);
                found = true;
            }
        }
        self.pass();
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
            sent.state == State::InFlight && Stamp::at(sent.at) == pdu.stamp()
        });
        let (signal, loss) = match pdu.is_last_hop() {
            true => (Signal::Good, LossSignal::LastHop),
            false => (Signal::Trimmed, LossSignal::Nack),
        };
        if let Some(slot) = slot {
            self.sprayed.lose(now, slot, signal);
        }
        self.pass();
        Progress { acked, loss: slot.map(|_| loss) }
    }
}

impl SendRecovery for UetSender {
    fn new(cfg: &FlowConfig, packets: u64) -> UetSender {
        let sprayed = SprayedSender::new(cfg, packets);
        UetSender { sprayed, window: cfg.bdp_cap, heard: Time::ZERO, probes: 0, is_probing: false }
    }

    fn following(&self, cfg: &FlowConfig, packets: u64, now: Time) -> UetSender {
        let sprayed = self.sprayed.following(cfg, packets, now);
        UetSender { sprayed, window: self.window, heard: now, probes: 0, is_probing: false }
    }

    fn on_reply(&mut self, cfg: &FlowConfig, now: Time, pdu: Pdu) -> Progress {
        self.hear(now);
        if pdu.kind() == PduKind::Nack && pdu.is_trimmed() {
            return self.on_trimmed(now, pdu);
        }
        let Some(acked) = self.sprayed.on_acknowledgement(cfg, now, pdu) else { return Progress::default() };
        self.pass();
        let inferred = sprayed::detects(cfg) && self.infer(now);
        let lost = inferred || pdu.is_syn() && self.on_probed(cfg, now, pdu.stamp());
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
        if self.sprayed.in_flight == 0 {
            self.hear(now);
        }
        self.sprayed.poll(cfg, now, window)
    }

    fn deadline(&self, cfg: &FlowConfig) -> Option<Time> {
        let (timeout, probe) = (self.sprayed.deadline(cfg), self.probe_at(cfg));
        timeout.into_iter().chain(probe).min()
    }

    fn on_timer(&mut self, cfg: &FlowConfig, now: Time) -> Option<LossSignal> {
        if self.sprayed.deadline(cfg).is_none_or(|at| at > now) {
            self.probes += 1;
            self.is_probing = true;
            return None;
        }
        self.on_deadline(cfg, now);
        Some(LossSignal::Timeout)
    }

    fn probe(&mut self, now: Time) -> Option<Pdu> {
        let is_due = std::mem::take(&mut self.is_probing);
        is_due.then(|| Pdu::probe(now).with_path(self.sprayed.paths.next(now)))
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

/// Packets that arrived out of order and are not acknowledged yet: packet `from` + i for each bit i of `map`. Bit 0 is
/// set unless no packet waits.
#[derive(Clone, Copy, Debug, Default)]
struct Waiting {
    from: Psn,
    map: u16,
}

impl Waiting {
    /// Adds a packet; returns whether it fits into the bitmap.
    fn add(&mut self, psn: Psn) -> bool {
        if self.map == 0 {
            *self = Waiting { from: psn, map: 1 };
            return true;
        }
        let after = psn.distance_from(self.from);
        match after {
            0..16 => self.map |= 1 << after,
            -15..0 if self.map.leading_zeros() >= after.unsigned_abs() => {
                *self = Waiting { from: psn, map: self.map << after.unsigned_abs() | 1 };
            }
            _ => return false,
        }
        true
    }

    /// Removes the packets before `expected`, which are acknowledged cumulatively.
    fn advance(&mut self, expected: Psn) {
        let passed = expected.distance_from(self.from).max(0) as u32;
        let map = u32::from(self.map).checked_shr(passed).unwrap_or(0) as u16;
        let empty = if map == 0 { 0 } else { map.trailing_zeros() };
        *self = Waiting { from: self.from.plus(passed + empty), map: map >> empty };
    }
}

/// The receiver of a flow with reliable unordered delivery.
#[derive(Clone, Debug)]
pub struct UetReceiver {
    receiver: SprayedReceiver,
    /// Number of packets that have arrived since the last ACK, and those of them that arrived out of order.
    arrived: u32,
    waiting: Waiting,
    /// Whether a packet has arrived.
    has_begun: bool,
    /// Whether a packet asked for an ACK, and a gap has been there since.
    was_asked: bool,
}

impl UetReceiver {
    /// The ACK of all packets that wait for one, or `own` if they do not fit into it. `pdu` is the packet that caused
    /// it.
    fn acknowledge(&mut self, pdu: Pdu, own: Pdu) -> Pdu {
        let expected = StreamReceiver::expected(&self.receiver.0);
        self.arrived = 0;
        if self.waiting.map == 0 {
            return Pdu::ack(expected, pdu.stamp()).with_path(pdu.path());
        }
        let Ok(offset) = u8::try_from(self.waiting.from.distance_from(expected)) else { return own };
        let map = std::mem::take(&mut self.waiting.map);
        Pdu::nack(expected, pdu.psn(), pdu.stamp()).with_path(pdu.path()).with_map(offset, map)
    }

    /// The response to a data packet if one ACK acknowledges several packets; `outcome` has the packet's own.
    fn coalesce(&mut self, cfg: &FlowConfig, pdu: Pdu, outcome: RxOutcome) -> RxOutcome {
        let Some(own) = outcome.reply.filter(|_| !outcome.discarded) else { return outcome };
        let fits = own.kind() == PduKind::Ack || self.waiting.add(pdu.psn());
        self.waiting.advance(StreamReceiver::expected(&self.receiver.0));
        self.arrived += 1;
        self.was_asked |= pdu.asks_ack();
        let is_first = !std::mem::replace(&mut self.has_begun, true);
        let is_drained = self.was_asked && !self.receiver.0.has_gaps();
        self.was_asked &= !is_drained;
        let at_once = is_first || is_drained || outcome.completed || pdu.mark_echo() || pdu.asks_ack();
        let reply = match () {
            () if !fits => Some(own),
            () if at_once || self.arrived >= cfg.ack_packets => Some(self.acknowledge(pdu, own)),
            () => None,
        };
        RxOutcome { reply, ..outcome }
    }
}

impl ReceiveRecovery for UetReceiver {
    fn new(cfg: &FlowConfig, packets: u64, now: Time) -> UetReceiver {
        let receiver = SprayedReceiver::new(cfg, packets, now);
        UetReceiver { receiver, arrived: 0, waiting: Waiting::default(), has_begun: false, was_asked: false }
    }

    fn on_data(&mut self, cfg: &FlowConfig, now: Time, pdu: Pdu) -> RxOutcome {
        if pdu.is_syn() {
            let expected = StreamReceiver::expected(&self.receiver.0);
            let own = Pdu::ack(expected, pdu.stamp()).with_path(pdu.path());
            let reply = Some(self.acknowledge(pdu, own).with_syn());
            return RxOutcome { reply, discarded: true, ..RxOutcome::default() };
        }
        let outcome = self.receiver.on_data(cfg, now, pdu);
        if cfg.ack_packets > 1 { self.coalesce(cfg, pdu, outcome) } else { outcome }
    }

    fn on_trimmed(&mut self, cfg: &FlowConfig, _now: Time, pdu: Pdu) -> Option<Pdu> {
        let expected = StreamReceiver::expected(&self.receiver.0);
        let nack = Pdu::nack(expected, pdu.psn(), pdu.stamp()).with_path(pdu.path()).with_trimmed();
        Some(if cfg.last_hop_trims && pdu.is_last_hop() { nack.with_last_hop() } else { nack })
    }

    fn deadline(&self, cfg: &FlowConfig) -> Option<Time> {
        self.receiver.deadline(cfg)
    }

    fn on_deadline(&mut self, cfg: &FlowConfig, now: Time) -> Option<Pdu> {
        self.receiver.on_deadline(cfg, now)
    }

    fn is_complete(&self) -> bool {
        self.receiver.is_complete()
    }

    fn missing(&self) -> (u64, bool) {
        self.receiver.missing()
    }

    fn post(&mut self, packets: u64, waiting: bool) {
        self.receiver.post(packets, waiting);
    }

    fn next_message(&mut self, packets: u64) -> bool {
        self.receiver.next_message(packets)
    }

    fn left_of_message(&self) -> u64 {
        self.receiver.left_of_message()
    }

    fn shorten(&mut self, packets: u64) {
        self.receiver.shorten(packets);
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

    /// Packet 0 is late. The others are acknowledged, so the window never stops the sender; the range does.
    #[test]
    fn a_late_packet_stops_the_sender_at_the_end_of_the_range() {
        let sent = |cfg: &FlowConfig| {
            let mut sender = UetSender::new(cfg, 1_000);
            let mut receiver = UetReceiver::new(cfg, 1_000, Time::ZERO);
            for count in 0.. {
                let now = Time::from_us(count);
                let Some(pick) = sender.poll(cfg, now, 20) else { return count };
                let data = Pdu::data(pick.psn, pick.last, now).with_path(sender.path());
                if count > 0 {
                    let reply = receiver.on_data(cfg, now, data).reply.unwrap();
                    assert_eq!(sender.on_reply(cfg, now, reply).acked, 1);
                }
            }
            unreachable!()
        };
        assert_eq!(sent(&cfg(true)), 40, "twice the cap");
        assert_eq!(sent(&FlowConfig { psn_range: Some(300), ..cfg(true) }), 300);
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

    /// Packets that arrive in this order, one each microsecond, and what the receiver acknowledges after each: the
    /// cumulative PSN, and the PSNs of the bitmap.
    fn acknowledged(cfg: &FlowConfig, packets: u64, arrivals: &[Pdu]) -> Vec<Option<(u32, Vec<u32>)>> {
        let mut receiver = UetReceiver::new(cfg, packets, Time::ZERO);
        let mut next = |pdu: &Pdu| {
            let reply = receiver.on_data(cfg, Time::from_us(9), *pdu).reply?;
            let selected = (reply.kind() == PduKind::Nack).then(|| reply.selected().map(Psn::value).collect());
            Some((reply.psn().value(), selected.unwrap_or_default()))
        };
        arrivals.iter().map(&mut next).collect()
    }

    #[test]
    fn an_ack_of_four_packets_has_those_out_of_order_in_its_bitmap() {
        let cfg = FlowConfig { ack_packets: 4, ..cfg(true) };
        let data = |psn| Pdu::data(Psn::new(psn), psn == 29, Time::from_us(1)).with_path(3);
        // The first packet at once. Packets 1 and 5 and 7 wait; with 3, four have arrived.
        let order = [0, 1, 5, 7, 3, 2, 4].map(data);
        let expected = [Some((1, vec![])), None, None, None, Some((2, vec![3, 5, 7])), None, None];
        assert_eq!(acknowledged(&cfg, 30, &order), expected);
        // A marked packet, and one that asks, are acknowledged at once; the latter again when no gap is left.
        let order = [data(0), data(2).with_mark_echo(true), data(4).with_ack_request(), data(1), data(3)];
        let expected = [Some((1, vec![])), Some((1, vec![2])), Some((1, vec![4])), None, Some((5, vec![]))];
        assert_eq!(acknowledged(&cfg, 30, &order), expected);
        // Packet 20 is too far from packet 2, and gets its own ACK. Packet 2 still waits.
        let order = [0, 2, 20, 4, 5].map(data);
        let expected = [Some((1, vec![])), None, Some((1, vec![20])), None, Some((1, vec![2, 4, 5]))];
        assert_eq!(acknowledged(&cfg, 30, &order), expected);
        // The last packet completes the flow, and a duplicate is acknowledged at once.
        let order = [data(0), data(1), data(1), data(29)];
        assert_eq!(acknowledged(&cfg, 30, &order), [Some((1, vec![])), None, Some((2, vec![])), None]);
        assert_eq!(acknowledged(&cfg, 2, &[data(0), data(1)]), [Some((1, vec![])), Some((2, vec![]))]);
    }

    #[test]
    fn the_sender_counts_each_packet_of_a_bitmap_once() {
        let cfg = FlowConfig { ack_packets: 4, ..cfg(true) };
        let mut sender = UetSender::new(&cfg, 12);
        let data = send(&mut sender, &cfg, 8);
        let ack = Pdu::nack(Psn::new(2), Psn::new(7), data[7].stamp()).with_path(1).with_map(1, 0b10101);
        let progress = sender.on_reply(&cfg, Time::from_us(20), ack);
        assert_eq!((progress.acked, progress.loss, sender.in_flight()), (5, None, 3), "0, 1, 3, 5, 7");
        assert_eq!(sender.on_reply(&cfg, Time::from_us(21), ack).acked, 0);
    }

    #[test]
    fn a_trim_at_the_last_hop_is_no_fault_of_the_path() {
        let cfg = FlowConfig { last_hop_trims: true, ..cfg(true) };
        let (mut sender, mut receiver) = (UetSender::new(&cfg, 9), UetReceiver::new(&cfg, 9, Time::ZERO));
        let data = send(&mut sender, &cfg, 3);
        let mut lost = |trimmed: Pdu| {
            let nack = receiver.on_trimmed(&cfg, Time::from_us(9), trimmed).unwrap();
            sender.on_reply(&cfg, Time::from_us(10), nack).loss
        };
        assert_eq!(lost(data[0]), Some(LossSignal::Nack));
        assert_eq!(lost(data[1].with_last_hop()), Some(LossSignal::LastHop));
        let cfg = FlowConfig { last_hop_trims: false, ..cfg };
        let nack = receiver.on_trimmed(&cfg, Time::from_us(9), data[2].with_last_hop()).unwrap();
        assert!(nack.is_trimmed() && !nack.is_last_hop(), "without the setting all trims are alike");
    }

    #[test]
    fn a_sender_that_hears_nothing_probes_and_finds_what_is_lost() {
        let us = Time::from_us;
        let timeouts = FlowConfig::default().timeouts;
        let cfg = FlowConfig { probe_after: Some(us(36)), base_rtt: us(12), timeouts, ..cfg(true) };
        let (mut sender, mut receiver) = (UetSender::new(&cfg, 9), UetReceiver::new(&cfg, 9, Time::ZERO));
        let data = send(&mut sender, &cfg, 3);
        let ack = receiver.on_data(&cfg, us(6), data[1]).reply.unwrap();
        sender.on_reply(&cfg, us(12), ack);
        // Three round trips after the response.
        assert_eq!((sender.deadline(&cfg), sender.probe(us(48))), (Some(us(48)), None));
        assert_eq!(sender.on_timer(&cfg, us(48)), None);
        let probe = sender.probe(us(48)).unwrap();
        assert_eq!(sender.probe(us(48)), None, "one probe");
        // Without a response the next one is due five round trips later; the timeout of 100 us would be due before.
        assert_eq!(sender.probe_at(&cfg), Some(us(108)));
        let slow = receiver.on_data(&cfg, us(60), probe).reply.unwrap();
        assert_eq!((slow.is_syn(), slow.psn()), (true, Psn::new(0)));
        // A response after two base round trips proves nothing: the packets may wait in the same queue.
        assert_eq!(sender.on_reply(&cfg, us(72), slow).loss, None);
        assert_eq!(sender.on_timer(&cfg, us(108)), None);
        let probe = sender.probe(us(108)).unwrap();
        let fast = receiver.on_data(&cfg, us(114), probe).reply.unwrap();
        assert_eq!(sender.on_reply(&cfg, us(120), fast).loss, Some(LossSignal::Nack));
        assert_eq!((sender.in_flight(), sender.sprayed.lost), (0, 2), "packets 0 and 2");
        assert!(sender.poll(&cfg, us(121), 20).unwrap().retransmission);
    }
}
