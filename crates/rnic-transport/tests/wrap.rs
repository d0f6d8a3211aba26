//! PSNs wrap after 2^24 packets; results must not depend on the position of the wrap.

use crate::common::{Pair, Pipe, Random, Rates, Source, Totals};
use proptest::prelude::*;
use rnic_transport::recovery::{GoBackN, Irn, Protocol, Sprayed, Tcp};
use rnic_transport::{FlowConfig, Pdu, Psn, Receiver, RxMeta, TcpConfig, Time};

/// Runs a flow with random faults; returns its trace and its counters.
fn weather<P: Protocol>(cfg: &FlowConfig, first: u32, seed: u64) -> (String, Totals) {
    let rates = Rates { loss: 80, late: 50, twice: 50, late_by: Time::from_us(10), heals_at: Time::MAX };
    let cfg = FlowConfig { first_psn: Psn::new(first), ..cfg.clone() };
    let pair = Pair::<P, Random>::new(cfg, 60, Pipe::SHORT, Random::new(seed, rates));
    let mut pair = pair.traced();
    pair.run();
    (pair.trace().to_string(), pair.totals)
}

/// An arbitrary first PSN, often near the wrap of the PSN or of the sign of PSN differences.
fn anywhere() -> impl Strategy<Value = u32> {
    prop_oneof![0..Psn::MODULUS, Psn::MODULUS - 64..Psn::MODULUS, Psn::MODULUS / 2 - 64..Psn::MODULUS / 2 + 4]
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 200, failure_persistence: None, ..ProptestConfig::default() })]

    #[test]
    fn a_flow_does_not_depend_on_its_first_number(
        first in anywhere(), seed: u64, acks: bool, bdp_cap in 1u32..100,
    ) {
        let cfg = FlowConfig { bdp_cap, acks, ..FlowConfig::default() };
        prop_assert_eq!(weather::<Irn>(&cfg, first, seed), weather::<Irn>(&cfg, 0, seed));
        let sprayed = FlowConfig { reorder: Some(cfg.base_rtt), ..cfg.clone() };
        prop_assert_eq!(weather::<Sprayed>(&sprayed, first, seed), weather::<Sprayed>(&sprayed, 0, seed));
        prop_assert_eq!(weather::<GoBackN>(&cfg, first, seed), weather::<GoBackN>(&cfg, 0, seed));
    }

    #[test]
    fn a_connection_does_not_depend_on_its_first_number(
        first in anywhere(), seed: u64, sack: bool, handshake: bool, receive_window in 1u32..100_000,
    ) {
        let tcp = TcpConfig { sack, handshake, receive_window, ..TcpConfig::default() };
        let cfg = FlowConfig { tcp, ..FlowConfig::default() };
        prop_assert_eq!(weather::<Tcp>(&cfg, first, seed), weather::<Tcp>(&cfg, 0, seed));
    }
}

/// Runs a flow of `packets` in bursts of up to 64 without delay, losing every transmission in `lost` (counted from 0);
/// returns how many packets were sent.
fn burst<P: Protocol>(cfg: &FlowConfig, packets: u64, lost: &[u64]) -> u64 {
    let bytes = packets * u64::from(cfg.mtu);
    let mut now = Time::ZERO;
    let mut sender = Source::<P>::new(cfg, &(), bytes, now);
    let mut receiver = Receiver::<P>::new(cfg, bytes, now);
    let (mut sent, mut accepted, mut completions) = (0u64, 0u64, 0u32);
    let mut replies = Vec::with_capacity(64);
    let mut lost = lost.iter().copied().peekable();
    loop {
        now += Time::from_ns(1);
        for _ in 0..64 {
            let Some(tx) = sender.poll_transmit(cfg, &(), now) else {
                break;
            };
            sent += 1;
            if lost.next_if_eq(&(sent - 1)).is_some() {
                continue;
            }
            let outcome = receiver.handle(cfg, now, tx.pdu, RxMeta::default());
            accepted += u64::from(!outcome.discarded);
            completions += u32::from(outcome.completed);
            replies.extend(outcome.reply);
        }
        for reply in replies.drain(..) {
            sender.handle(cfg, &(), now, reply);
        }
        if sender.next_transmit(cfg).is_some() {
            continue;
        }
        // No packet is pending: the flow is complete, or a timer must fire.
        let sink = receiver.deadline(cfg);
        match (sender.deadline(cfg).map(|(at, _)| at), sink) {
            (None, None) => break,
            (at, None) | (None, at) => now = at.unwrap_or(now),
            (Some(source), Some(sink)) => now = source.min(sink),
        }
        sender.on_deadline(cfg, &(), now);
        replies.extend(receiver.on_deadline(cfg, now));
    }
    assert_eq!((accepted, completions), (packets, 1));
    assert!(receiver.is_complete());
    assert_eq!(sender.is_complete(), P::sender_learns_completion(cfg));
    sent
}

/// Number of packets of the long flows: more packets than there are PSNs.
const PACKETS: u64 = Psn::MODULUS as u64 + 300;

fn near_the_end(acks: bool) -> FlowConfig {
    FlowConfig { acks, first_psn: Psn::new(Psn::MODULUS - 5), ..FlowConfig::default() }
}

/// Checks a flow with losses at four critical places: at the first wrap, where the sign of PSN differences wraps, where
/// all PSNs have been used, and where the first PSN is used again.
fn lossy<P: Protocol>(acks: bool, max_retransmissions_per_loss: u64) {
    let all = u64::from(Psn::MODULUS);
    let lost = [4, 5, all / 2 - 1, all / 2 + 200, all - 6, all - 1, all + 100];
    let sent = burst::<P>(&near_the_end(acks), PACKETS, &lost);
    let losses = lost.len() as u64;
    let retransmitted = sent - PACKETS;
    assert!((losses..=losses * max_retransmissions_per_loss).contains(&retransmitted), "{retransmitted}");
}

#[test]
fn irn_flow_longer_than_the_number_space() {
    assert_eq!(burst::<Irn>(&near_the_end(true), PACKETS, &[]), PACKETS);
}

#[test]
fn irn_flow_longer_than_the_number_space_with_losses() {
    lossy::<Irn>(true, 1);
}

#[test]
fn go_back_n_flow_longer_than_the_number_space() {
    assert_eq!(burst::<GoBackN>(&near_the_end(true), PACKETS, &[]), PACKETS);
}

#[test]
fn go_back_n_flow_longer_than_the_number_space_with_losses() {
    lossy::<GoBackN>(true, 64);
}

#[test]
fn go_back_n_flow_longer_than_the_number_space_with_losses_and_without_acks() {
    lossy::<GoBackN>(false, 64);
}

fn tcp_near_the_end(sack: bool) -> FlowConfig {
    let tcp = TcpConfig { sack, ..TcpConfig::default() };
    FlowConfig { tcp, ..near_the_end(true) }
}

/// Duplicate acknowledgements reveal every loss, with or without selective acknowledgements, so each lost segment is
/// retransmitted once. The second and the third loss are more than half the PSN space apart.
#[test]
fn tcp_flow_longer_than_the_number_space() {
    let all = u64::from(Psn::MODULUS);
    let lost = [9, 10, all / 2 + 200, all / 2 + 300, all - 6, all - 1, all + 100];
    for sack in [true, false] {
        let sent = burst::<Tcp>(&tcp_near_the_end(sack), PACKETS, &lost);
        assert_eq!(sent - PACKETS, lost.len() as u64, "sack {sack}");
    }
}

/// A packet was selectively acknowledged at the last loss. When the flow is half of the PSN space further, this packet
/// must not be taken for a packet later than the current packets.
#[test]
fn a_loss_long_after_the_last_one() {
    let cfg = near_the_end(true);
    let mut sender = Source::<Irn>::new(&cfg, &(), PACKETS * u64::from(cfg.mtu), Time::ZERO);
    let psn = |position| cfg.first_psn.plus(position);
    let nack = |expected, trigger| Pdu::nack(psn(expected), psn(trigger), Default::default());
    let mut sent = 0;
    let mut send = |sender: &mut Source<Irn>, count| {
        for _ in 0..count {
            assert!(sender.poll_transmit(&cfg, &(), Time::ZERO).is_some());
        }
        sent += count;
        sent
    };
    send(&mut sender, 64);
    sender.handle(&cfg, &(), Time::ZERO, nack(0, 50));
    let again = sender.poll_transmit(&cfg, &(), Time::ZERO);
    assert_eq!(again.map(|tx| tx.pdu.psn()), Some(psn(0)));
    let hole = loop {
        let sent = send(&mut sender, 64);
        let ack = Pdu::ack(psn(sent - 64), Default::default());
        sender.handle(&cfg, &(), Time::ZERO, ack);
        if sent > Psn::MAX_WINDOW + 200 {
            break sent - 64;
        }
    };
    for (trigger, lost) in [(hole + 1, hole), (hole + 3, hole + 2)] {
        sender.handle(&cfg, &(), Time::ZERO, nack(hole, trigger));
        let tx = sender.poll_transmit(&cfg, &(), Time::ZERO);
        assert_eq!(tx.map(|tx| tx.pdu.psn()), Some(psn(lost)));
        let next = sender.poll_transmit(&cfg, &(), Time::ZERO);
        assert_eq!(next.map(|tx| tx.retransmission), Some(false), "nothing else is lost");
    }
}
