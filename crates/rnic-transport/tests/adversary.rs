//! Robustness against malicious peers: senders and receivers get forged packets, mixed with real ones.

use crate::common::Source;
use proptest::prelude::*;
use rnic_transport::recovery::{GoBackN, Irn, Protocol, Sprayed, Tcp};
use rnic_transport::{FlowConfig, NackPolicy, Pdu, PduKind, Psn, Receiver, RxMeta, RxOutcome, TcpConfig, Time};
use std::collections::{BTreeSet, VecDeque};

/// One step of a test against a sender.
#[derive(Clone, Copy, Debug)]
enum Move {
    /// The sender may send a packet, which reaches the receiver or is lost.
    Send { arrives: bool },
    /// The oldest reply in flight arrives.
    Reply,
    /// A forged packet arrives.
    Forge { kind: u8, psn: Near, trigger: Near, extra: u32 },
    /// Time passes, and expired timers fire.
    Wait { us: u64 },
}

/// A PSN of a forged packet: near the PSNs of the flow, or arbitrary.
#[derive(Clone, Copy, Debug)]
enum Near {
    Flow(i32),
    Any(u32),
}

impl Near {
    fn psn(self, first: Psn) -> Psn {
        match self {
            Near::Flow(offset) => first.plus(offset as u32),
            Near::Any(value) => Psn::new(value),
        }
    }
}

fn near() -> impl Strategy<Value = Near> {
    prop_oneof![4 => (-4i32..70).prop_map(Near::Flow), 2 => (0i32..450).prop_map(Near::Flow), 1 => any::<u32>().prop_map(Near::Any)]
}

fn moves() -> impl Strategy<Value = Vec<Move>> {
    let one = prop_oneof![
        8 => prop::bool::weighted(0.8).prop_map(|arrives| Move::Send { arrives }),
        5 => Just(Move::Reply),
        2 => (0u8..4, near(), near(), any::<u32>())
            .prop_map(|(kind, psn, trigger, extra)| Move::Forge { kind, psn, trigger, extra }),
        2 => (0u64..400).prop_map(|us| Move::Wait { us }),
    ];
    prop::collection::vec(one, 1..300)
}

/// Forges a packet. `extra` determines the fields that only TCP reads: the SYN flag and the length of a SACK block.
fn forge(kind: u8, psn: Psn, trigger: Psn, extra: u32) -> Pdu {
    let pdu = match kind {
        0 => Pdu::data(psn, false, Time::ZERO),
        1 => Pdu::ack(psn, Default::default()),
        2 => Pdu::nack(psn, trigger, Default::default()).with_below(extra & 0xff),
        _ => Pdu::cnp(),
    };
    if extra >> 8 & 3 == 0 { pdu.with_syn() } else { pdu }
}

fn attack_sender<P: Protocol>(cfg: &FlowConfig, packets: u32, moves: &[Move], cap: u32) -> Result<(), TestCaseError> {
    let bytes = u64::from(packets * cfg.mtu);
    let mut now = Time::ZERO;
    let mut sender = Source::<P>::new(cfg, &(), bytes, now);
    let mut receiver = Receiver::<P>::new(cfg, bytes, now);
    let end = cfg.first_psn.plus(packets);
    let mut replies = VecDeque::new();
    // Whether some ACK or NACK has acknowledged all packets.
    let mut claimed = false;
    let mut highest = 0;
    for step in moves {
        match *step {
            Move::Send { arrives } => {
                let can = sender.next_transmit(cfg).is_some();
                let tx = sender.poll_transmit(cfg, &(), now);
                prop_assert_eq!(tx.is_some(), can, "next_transmit and poll_transmit disagree");
                let Some(tx) = tx else { continue };
                if tx.pdu.is_syn() {
                    prop_assert_eq!((tx.payload, highest), (0, 0), "no setup once there is data");
                    if arrives {
                        replies.extend(receiver.handle(cfg, now, tx.pdu, RxMeta::default()).reply);
                    }
                    continue;
                }
                let position = tx.pdu.psn().since(cfg.first_psn);
                prop_assert!(position < packets, "#{} is not of the flow", position);
                prop_assert!(position <= highest, "#{} before all packets below it", position);
                prop_assert_eq!(tx.retransmission, position < highest);
                prop_assert_eq!(tx.pdu.is_last(), position + 1 == packets);
                highest = highest.max(position + 1);
                if arrives {
                    let outcome = receiver.handle(cfg, now, tx.pdu, RxMeta::default());
                    replies.extend(outcome.reply);
                }
            }
            Move::Reply => {
                let Some(reply) = replies.pop_front() else {
                    continue;
                };
                claimed |= reply.psn() == end;
                sender.handle(cfg, &(), now, reply);
            }
            Move::Forge { kind, psn, trigger, extra } => {
                let pdu = forge(kind, psn.psn(cfg.first_psn), trigger.psn(cfg.first_psn), extra);
                let acknowledges = matches!(pdu.kind(), PduKind::Ack | PduKind::Nack);
                claimed |= acknowledges && pdu.psn() == end;
                let before = sender.in_flight();
                let progress = sender.handle(cfg, &(), now, pdu);
                if !acknowledges {
                    prop_assert_eq!(progress, Default::default(), "{:?} acknowledges nothing", pdu);
                    prop_assert_eq!(sender.in_flight(), before);
                }
            }
            Move::Wait { us } => {
                now += Time::from_us(us);
                sender.on_deadline(cfg, &(), now);
                replies.extend(receiver.on_deadline(cfg, now));
            }
        }
        prop_assert!(sender.in_flight() <= cap);
        prop_assert!(!sender.is_complete() || claimed, "complete, and no response said so");
        if sender.is_complete() {
            prop_assert_eq!(sender.in_flight(), 0);
            prop_assert_eq!(sender.next_transmit(cfg), None);
            prop_assert_eq!(sender.deadline(cfg), None);
        }
    }
    Ok(())
}

/// A reference model of the receivers: sets of packet numbers, and the required responses.
struct Model {
    arrived: BTreeSet<i64>,
    expected: i64,
    packets: i64,
    nack_sent: bool,
}

impl Model {
    fn new(packets: u32) -> Model {
        Model { arrived: BTreeSet::new(), expected: 0, packets: i64::from(packets), nack_sent: false }
    }

    /// The IRN receiver. Returns the reply (expected PSN, and trigger if it is a NACK), whether the packet is newly
    /// accepted, and whether it completes the flow.
    fn irn(&mut self, position: i64, reach: i64) -> (Option<(i64, Option<i64>)>, bool, bool) {
        if position > self.expected && (position >= self.packets || position >= self.expected + reach) {
            let answer = (self.expected == self.packets).then_some((self.expected, None));
            return (answer, false, false);
        }
        let new = position >= self.expected && position < self.packets && self.arrived.insert(position);
        let before = self.expected;
        while self.arrived.contains(&self.expected) {
            self.expected += 1;
        }
        let trigger = (position > self.expected).then_some(position);
        let completed = self.expected == self.packets && before < self.packets;
        (Some((self.expected, trigger)), new, completed)
    }

    /// The TCP receiver, which responds to every packet and accepts packets less than `reach` after the expected
    /// packet.
    fn tcp(&mut self, position: i64, reach: i64, sack: bool) -> (Option<(i64, Option<i64>)>, bool, bool) {
        let out = position >= self.packets || position >= self.expected + reach;
        if out {
            return (Some((self.expected, None)), false, false);
        }
        let (answer, new, completed) = self.irn(position, reach);
        let answer = answer.map(|(expected, trigger)| (expected, trigger.filter(|_| sack)));
        (answer, new, completed)
    }

    fn go_back_n(&mut self, position: i64, cfg: &FlowConfig) -> (Option<(i64, Option<i64>)>, bool, bool) {
        let over = self.expected == self.packets;
        if position == self.expected && !over {
            self.expected += 1;
            self.nack_sent = false;
            let reply = cfg.acks.then_some((self.expected, None));
            return (reply, true, self.expected == self.packets);
        }
        if position < self.expected || over {
            return (cfg.acks.then_some((self.expected, None)), false, false);
        }
        let silent = self.nack_sent && cfg.nacks == NackPolicy::First;
        self.nack_sent = true;
        ((!silent).then_some((self.expected, Some(position))), false, false)
    }
}

fn attack_receiver<P: Protocol>(
    cfg: &FlowConfig, packets: u32, attack: &[Near],
    mut model: impl FnMut(i64) -> (Option<(i64, Option<i64>)>, bool, bool),
) -> Result<(), TestCaseError> {
    let mut receiver = Receiver::<P>::new(cfg, u64::from(packets * cfg.mtu), Time::ZERO);
    let mut completions = 0;
    let mut expected = 0i64;
    let absolute = |psn: Psn, near: i64| near + i64::from(psn.distance_from(cfg.first_psn.plus(near as u32)));
    for near in attack {
        let psn = near.psn(cfg.first_psn);
        let position = absolute(psn, expected);
        let outcome = receiver.handle(cfg, Time::ZERO, Pdu::data(psn, false, Time::ZERO), RxMeta::default());
        let RxOutcome { reply, completed, discarded, notify: _ } = outcome;
        let said = reply.map(|reply| {
            let expected = absolute(reply.psn(), expected);
            let trigger = (reply.kind() == PduKind::Nack).then(|| absolute(reply.trigger(), expected));
            (expected, trigger)
        });
        let (reply, new, complete) = model(position);
        prop_assert_eq!(said, reply, "position {}", position);
        prop_assert_eq!((completed, !discarded), (complete, new));
        if let Some((now_expected, _)) = said {
            expected = now_expected;
        } else if new {
            expected += 1; // go-back-N without ACKs accepts the packet without a response
        }
        completions += u32::from(completed);
        prop_assert!(completions <= 1);
        prop_assert_eq!(receiver.is_complete(), completions == 1);
    }
    Ok(())
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 500, failure_persistence: None, ..ProptestConfig::default() })]

    #[test]
    fn a_sender_survives_forged_replies(
        packets in 1u32..60, bdp_cap in 1u32..80, acks: bool, first: u32, moves in moves(),
    ) {
        let first_psn = Psn::new(first);
        let cfg = FlowConfig { bdp_cap, acks, first_psn, ..FlowConfig::default() };
        attack_sender::<Irn>(&cfg, packets, &moves, bdp_cap)?;
        let sprayed = FlowConfig { reorder: Some(Time::from_us(u64::from(packets))), ..cfg.clone() };
        attack_sender::<Sprayed>(&sprayed, packets, &moves, bdp_cap)?;
        attack_sender::<GoBackN>(&cfg, packets, &moves, packets)?;
    }

    #[test]
    fn a_connection_survives_forged_replies(
        packets in 1u32..200, segments in 1u32..300, sack: bool, handshake: bool, delayed: bool, first: u32,
        initial in 1u32..200, dup_thresh in 0u32..5, moves in moves(),
    ) {
        let tcp = TcpConfig {
            sack, handshake, dup_thresh,
            initial_window: Some(initial),
            receive_window: segments * 1_024,
            delayed_acks: delayed.then_some(Time::from_us(100)),
            rto_min: Time::from_us(200),
            rto_initial: Time::from_us(200),
            ..TcpConfig::default()
        };
        let cfg = FlowConfig { tcp, first_psn: Psn::new(first), ..FlowConfig::default() };
        attack_sender::<Tcp>(&cfg, packets, &moves, segments)?;
    }

    #[test]
    fn a_receiver_survives_arbitrary_data(
        packets in prop_oneof![1u32..60, 100u32..400], bdp_cap in 1u32..80, acks: bool, every: bool, first: u32,
        attack in prop::collection::vec(near(), 1..600),
    ) {
        let nacks = if every { NackPolicy::Every } else { NackPolicy::First };
        let cfg = FlowConfig { bdp_cap, acks, nacks, first_psn: Psn::new(first), ..FlowConfig::default() };
        let mut irn = Model::new(packets);
        attack_receiver::<Irn>(&cfg, packets, &attack, |position| irn.irn(position, 128))?;
        for sack in [true, false] {
            let tcp = TcpConfig { sack, receive_window: bdp_cap * 1_024, ..TcpConfig::default() };
            let cfg = FlowConfig { tcp, ..cfg.clone() };
            let mut model = Model::new(packets);
            attack_receiver::<Tcp>(&cfg, packets, &attack, |position| model.tcp(position, i64::from(bdp_cap), sack))?;
        }
        let mut go_back_n = Model::new(packets);
        attack_receiver::<GoBackN>(&cfg, packets, &attack, |position| go_back_n.go_back_n(position, &cfg))?;
    }
}

/// A sender ignores data packets, and a receiver ignores ACKs, NACKs and CNPs.
#[test]
fn packets_for_the_other_half_are_ignored() {
    fn check<P: Protocol>() {
        let cfg = FlowConfig::default();
        let mut receiver = Receiver::<P>::new(&cfg, 1, Time::ZERO);
        let mut sender = Source::<P>::new(&cfg, &(), 1, Time::ZERO);
        assert!(sender.poll_transmit(&cfg, &(), Time::ZERO).is_some());
        let end = cfg.first_psn.plus(1);
        for pdu in [Pdu::data(end, true, Time::ZERO), Pdu::cnp()] {
            assert_eq!(sender.handle(&cfg, &(), Time::ZERO, pdu), Default::default());
            assert!(!sender.is_complete());
        }
        let first = cfg.first_psn;
        let stamp = Default::default();
        for pdu in [Pdu::ack(first, stamp), Pdu::nack(first, end, stamp), Pdu::cnp()] {
            let outcome = receiver.handle(&cfg, Time::ZERO, pdu, RxMeta::default());
            assert_eq!((outcome.reply, outcome.completed, outcome.discarded), (None, false, true));
            assert!(!receiver.is_complete());
        }
    }
    check::<Irn>();
    check::<Sprayed>();
    check::<GoBackN>();
    check::<Tcp>();
}

/// With the maximum number of packets in flight, one ACK can acknowledge all packets.
#[test]
fn the_largest_window_can_be_acknowledged_at_once() {
    for first in [0, Psn::MODULUS - 5] {
        let cfg = FlowConfig { bdp_cap: Psn::MAX_WINDOW, first_psn: Psn::new(first), ..FlowConfig::default() };
        let packets = Psn::MAX_WINDOW + 1;
        let mut sender = Source::<Irn>::new(&cfg, &(), u64::from(packets) * 1_024, Time::ZERO);
        let mut sent = 0;
        while sender.poll_transmit(&cfg, &(), Time::ZERO).is_some() {
            sent += 1;
        }
        assert_eq!(sent, Psn::MAX_WINDOW);
        let all = Pdu::ack(cfg.first_psn.plus(sent), Default::default());
        assert_eq!(sender.handle(&cfg, &(), Time::ZERO, all).acked, sent);
        assert!(sender.poll_transmit(&cfg, &(), Time::ZERO).is_some());
        // Only the last packet arrives: the sender accepts the NACK that it triggers.
        let mut receiver = Receiver::<Irn>::new(&cfg, u64::from(packets) * 1_024, Time::ZERO);
        let last = Pdu::data(cfg.first_psn.plus(sent - 1), false, Time::ZERO);
        let outcome = receiver.handle(&cfg, Time::ZERO, last, RxMeta::default());
        assert_eq!(outcome.reply.map(Pdu::kind), Some(PduKind::Nack));
    }
}
