//! Consecutive flows on a connection: packets of a flow that are still in flight do not disturb the next flow, which
//! takes over the congestion control.

use proptest::prelude::*;
use rnic_transport::congestion::{CongestionControl, Dcqcn, DcqcnParams, NoCongestionControl, Settings};
use rnic_transport::recovery::{GoBackN, Irn, Protocol, Sprayed, Tcp};
use rnic_transport::{BitRate, FlowConfig, Pdu, Psn, Receiver, Regulator, RxMeta, Sender, TcpConfig, Time, Timeouts};
use std::collections::BTreeMap;

/// A random number generator (xorshift64).
struct Chance(u64);

impl Chance {
    fn below(&mut self, bound: u64) -> u64 {
        self.0 ^= self.0 << 13;
        self.0 ^= self.0 >> 7;
        self.0 ^= self.0 << 17;
        self.0 % bound
    }
}

/// A network that loses, delays, duplicates and reorders packets. Packets do not name their flow.
struct Network {
    chance: Chance,
    /// Probability that a packet is lost, in thousandths.
    loss: u64,
    /// Probability that a packet is duplicated, in thousandths.
    twice: u64,
    late_ns: u64,
    /// Packets in flight, sorted by arrival time and order of departure: whether the packet is a data packet, the
    /// packet, and the index of its message.
    under_way: BTreeMap<(Time, u64), (bool, Pdu, usize)>,
    sent: u64,
}

impl Network {
    fn send(&mut self, now: Time, data: bool, pdu: Pdu, message: usize) {
        let copies = if self.chance.below(1_000) < self.twice { 2 } else { 1 };
        for _ in 0..copies {
            if self.chance.below(1_000) >= self.loss {
                let at = now + Time::from_ns(500 + self.chance.below(self.late_ns + 1));
                self.under_way.insert((at, self.sent), (data, pdu, message));
                self.sent += 1;
            }
        }
    }
}

/// Sends messages one after the other. Each message starts as soon as the sender of the previous message is complete.
/// Packets that are in flight at this time arrive at the sender and receiver of the next message. `messages` has the
/// number of packets of each message. Returns the number of packets that arrived after their message.
fn exchange<P: Protocol>(cfg: &FlowConfig, messages: &[u64], network: &mut Network) -> u64 {
    let bytes = |message: usize| messages[message] * u64::from(cfg.mtu);
    let mut now = Time::ZERO;
    let mut sender = Sender::<P, NoCongestionControl>::new(cfg, &(), bytes(0), now);
    let mut receiver = Receiver::<P>::new(cfg, bytes(0), now);
    let (mut first, mut stale) = (cfg.first_psn, 0);
    for message in 0..messages.len() {
        if message > 0 {
            first = first.plus(messages[message - 1] as u32);
            let cfg = FlowConfig { first_psn: first, ..cfg.clone() };
            sender = sender.following(&cfg, bytes(message), now);
            receiver = receiver.following(&cfg, bytes(message), now);
        }
        let (mut accepted, mut completions) = (0, 0);
        loop {
            while let Some(tx) = sender.poll_transmit(cfg, &(), now) {
                network.send(now, true, tx.pdu, message);
            }
            let over = if P::sender_learns_completion(cfg) { sender.is_complete() } else { receiver.is_complete() };
            if over {
                break;
            }
            let arrival = network.under_way.first_key_value().map(|(key, _)| key.0);
            let timers = [sender.deadline(cfg).map(|(at, _)| at), receiver.deadline(cfg)];
            now = timers.into_iter().chain([arrival]).flatten().min().expect("something is to happen").max(now);
            if arrival == Some(now) {
                let Some((_, (data, pdu, of))) = network.under_way.pop_first() else { break };
                stale += u64::from(of != message);
                if !data {
                    let progress = sender.handle(cfg, &(), now, pdu);
                    // NewReno counts every duplicate acknowledgement, even if data of an earlier message caused it.
                    let no_loss = progress.loss.is_none() || !cfg.tcp.sack;
                    assert!(of == message || (progress.acked == 0 && no_loss), "{of} in {message}");
                    continue;
                }
                let outcome = receiver.handle(cfg, now, pdu, RxMeta::default());
                assert!(of == message || outcome.discarded, "a packet of message {of} is taken for one of {message}");
                accepted += u64::from(!outcome.discarded);
                completions += u32::from(outcome.completed);
                if let Some(reply) = outcome.reply {
                    // The response to a packet of an earlier message acknowledges packets of this message.
                    network.send(now, false, reply, message);
                }
                continue;
            }
            if let Some(reply) = receiver.on_deadline(cfg, now) {
                network.send(now, false, reply, message);
            }
            sender.on_deadline(cfg, &(), now);
        }
        assert!(receiver.is_complete(), "the sender knows what is not so");
        assert_eq!((accepted, completions), (messages[message], 1), "message {message}");
    }
    stale
}

fn config(first: u32, acks: bool, bdp_cap: u32, sack: bool) -> FlowConfig {
    let timeouts = Timeouts { high: Time::from_us(30), low: Time::from_us(10), low_packets: 3, dynamic: None };
    let tcp = TcpConfig { sack, rto_min: Time::from_us(20), rto_initial: Time::from_us(30), ..TcpConfig::default() };
    let first_psn = Psn::new(first);
    FlowConfig { first_psn, acks, bdp_cap, sack, timeouts: Some(timeouts), tcp, ..FlowConfig::default() }
}

fn weather(seed: u64, loss: u64, twice: u64, late_ns: u64) -> Network {
    Network { chance: Chance(seed | 1), loss, twice, late_ns, under_way: BTreeMap::new(), sent: 0 }
}

proptest! {
    #[test]
    fn each_message_is_delivered_once(
        messages in prop::collection::vec(prop_oneof![1u64..4, 1u64..200], 1..12), seed: u64, loss in 0u64..200,
        twice in 0u64..400, late_ns in 0u64..60_000, first in prop_oneof![0..Psn::MODULUS, Psn::MODULUS - 200..Psn::MODULUS],
        acks: bool, sack: bool, bdp_cap in 1u32..150,
    ) {
        let cfg = config(first, acks, bdp_cap, sack);
        exchange::<GoBackN>(&cfg, &messages, &mut weather(seed, loss, twice, late_ns));
        exchange::<Irn>(&cfg, &messages, &mut weather(seed, loss, twice, late_ns));
        let sprayed = FlowConfig { reorder: Some(cfg.base_rtt), ..cfg.clone() };
        exchange::<Sprayed>(&sprayed, &messages, &mut weather(seed, loss, twice, late_ns));
        exchange::<Tcp>(&cfg, &messages, &mut weather(seed, loss, twice, late_ns));
    }
}

#[test]
fn some_packets_arrive_after_their_flow() {
    let (cfg, messages) = (config(0xff_fff0, true, 20, true), [3, 1, 40, 2, 2, 90, 1, 1, 7]);
    let mut stale = [0; 3];
    for seed in 1..20 {
        let network = || weather(seed, 50, 300, 20_000);
        stale[0] += exchange::<GoBackN>(&cfg, &messages, &mut network());
        stale[1] += exchange::<Irn>(&cfg, &messages, &mut network());
        stale[2] += exchange::<Tcp>(&cfg, &messages, &mut network());
    }
    assert!(stale.iter().all(|stale| *stale > 100), "{stale:?}");
}

fn dcqcn() -> (FlowConfig, DcqcnParams) {
    let cfg = FlowConfig { acks: false, timeouts: None, ..FlowConfig::default() };
    let params = Dcqcn::params(&Settings::new(Dcqcn::PARAMETERS), &cfg).unwrap();
    (cfg, params)
}

#[test]
fn the_next_flow_has_the_rate_and_the_pace_of_the_last() {
    let (cfg, params) = dcqcn();
    let us = Time::from_us;
    let mut first = Sender::<GoBackN, Dcqcn>::new(&cfg, &params, 1_024, Time::ZERO);
    // Alpha is 1, so each CNP halves the rate, from 40 to 20 to 10 Gbps.
    first.handle(&cfg, &params, us(10), Pdu::cnp());
    first.handle(&cfg, &params, us(60), Pdu::cnp());
    assert!(first.poll_transmit(&cfg, &params, us(60)).is_some());
    let next = FlowConfig { first_psn: Psn::new(1), ..cfg.clone() };
    let mut second = first.following(&next, 2_048, us(61));
    assert_eq!(second.congestion().rate(), BitRate::from_gbps(10));
    // After the last packet of 1,086 B at 10 Gbps, the next packet departs at least 868.8 ns later.
    assert_eq!(second.next_transmit(&cfg), Some(us(60) + Time::from_ps(868_800)));
    let tx = second.poll_transmit(&cfg, &params, us(61)).unwrap();
    assert_eq!((tx.pdu.psn(), tx.retransmission), (Psn::new(1), false));
    // The rate timer runs from the last CNP. At 115 us and at 170 us it halves the difference between the rate and 20
    // Gbps.
    second.catch_up(&params, us(115));
    assert_eq!(second.congestion().rate(), BitRate::from_gbps(10), "a timer that is due now has not fired yet");
    second.catch_up(&params, us(116));
    assert_eq!(second.congestion().rate(), BitRate::from_gbps(15));
    // A CNP arrives for the first flow, which is not complete. The congestion control of the second flow handles the
    // CNP. Its alpha is still about 1.
    let before = *first.congestion();
    first.handle_after(&mut second, &cfg, &params, us(171), Pdu::cnp());
    assert_eq!(*first.congestion(), before);
    assert_eq!(second.congestion().target(), BitRate::from_bps(17_500_000_000));
    let alpha = 255.0 / 256.0; // two periods of 55 us have ended since the last CNP, 111 us ago
    let expected = 17.5e9 * (1.0 - alpha * alpha / 2.0);
    assert!((second.congestion().rate().as_bps() as f64 - expected).abs() < 1.0);
}

#[test]
fn the_cnp_interval_spans_flows_of_a_connection() {
    let cfg = FlowConfig { acks: false, cnp_interval: Some(Time::from_us(50)), ..FlowConfig::default() };
    let marked = RxMeta { marked: true, ..RxMeta::default() };
    let packet = |psn: u32, us: u64| (Time::from_us(us), Pdu::data(Psn::new(psn), true, Time::from_us(us)));
    let mut receiver = Receiver::<GoBackN>::new(&cfg, 1_024, Time::ZERO);
    let mut notified = Vec::new();
    for (number, at) in [0, 10, 49, 51, 60].into_iter().enumerate() {
        let (now, pdu) = packet(number as u32, at);
        let outcome = receiver.handle(&cfg, now, pdu, marked);
        assert!(outcome.completed);
        notified.push(outcome.notify);
        let next = FlowConfig { first_psn: Psn::new(number as u32 + 1), ..cfg.clone() };
        receiver = receiver.following(&next, 1_024, now);
    }
    assert_eq!(notified, [true, false, false, true, false]);
}

proptest! {
    /// Catching up on timers has the same result as firing them in time.
    #[test]
    fn timers_are_made_up_for(gaps in prop::collection::vec(1u64..400_000, 1..30)) {
        let (cfg, params) = dcqcn();
        let mut kept = Regulator::<Dcqcn>::new(&cfg, &params, Time::ZERO);
        let mut idle = kept.clone();
        let mut now = Time::ZERO;
        for gap in gaps {
            now += Time::from_ns(gap);
            while let Some(at) = kept.congestion().next_timer().filter(|at| *at < now) {
                kept.congestion_mut().on_timer(&params, at);
            }
            idle.catch_up(&params, now);
            prop_assert_eq!(idle.congestion(), kept.congestion());
            kept.congestion_mut().on_cnp(&params, now);
            idle.congestion_mut().on_cnp(&params, now);
        }
    }
}
