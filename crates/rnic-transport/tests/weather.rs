//! Safety under random faults, and liveness after the faults end.
//!
//! The random networks lose, delay and duplicate up to 30 % of the packets in each direction until a given time. A
//! packet with a wrong checksum counts as lost, because it is discarded on arrival.

use crate::common::{Faults, Pair, Pipe, Random, Rates};
use proptest::prelude::*;
use rnic_transport::recovery::{GoBackN, Irn, Protocol, Sprayed, Tcp};
use rnic_transport::{BitRate, FlowConfig, NackPolicy, Psn, TcpConfig, Time};

/// A flow, its network and its faults.
#[derive(Clone, Debug)]
struct Case {
    cfg: FlowConfig,
    packets: u32,
    pipe: Pipe,
    rates: Rates,
    seed: u64,
}

fn cases() -> impl Strategy<Value = Case> {
    let flow = (
        prop_oneof![1u32..8, 1u32..300, 1u32..4_000],
        prop_oneof![1u32..8, 1u32..150, 1u32..3_000],
        0..Psn::MODULUS,
        any::<bool>(),
        any::<bool>(),
    );
    let path = (prop::sample::select(vec![40u64, 100, 200, 400, 800]), 0u64..20);
    let weather = (0u32..=300, 0u32..=300, 0u32..=300, 0u64..60, 0u64..4_000);
    (flow, path, weather, any::<u64>()).prop_map(|(flow, path, weather, seed)| {
        let (packets, bdp_cap, first, acks, every) = flow;
        let (gbps, delay_us) = path;
        let (loss, late, twice, late_us, heals_us) = weather;
        let line_rate = BitRate::from_gbps(gbps);
        let cfg = FlowConfig {
            bdp_cap,
            acks,
            line_rate,
            first_psn: Psn::new(first),
            nacks: if every { NackPolicy::Every } else { NackPolicy::First },
            ..FlowConfig::default()
        };
        let pipe = Pipe { packet: line_rate.time_for(u64::from(cfg.mtu + cfg.header)), delay: Time::from_us(delay_us) };
        let rates = Rates { loss, late, twice, late_by: Time::from_us(late_us), heals_at: Time::from_us(heals_us) };
        Case { cfg, packets, pipe, rates, seed }
    })
}

impl Case {
    fn pair<P: Protocol>(&self) -> Pair<P, Random> {
        let faults = Random::new(self.seed, self.rates);
        Pair::new(self.cfg.clone(), self.packets, self.pipe, faults)
    }

    /// A time by which the effects of the faults are over: all packets sent before the end of the faults have arrived,
    /// and every timer that they restarted has expired.
    fn settled(&self) -> Time {
        let timeouts = self.cfg.timeouts.expect("every case has timers");
        self.rates.heals_at + self.rates.late_by + self.pipe.rtt() * 2 + timeouts.high
    }

    /// Transmission time of the whole flow.
    fn whole_flow(&self) -> Time {
        self.pipe.packet * u64::from(self.packets)
    }
}

/// Runs a flow to its end and checks the properties that hold for every protocol. Each packet is accepted exactly once
/// (the pair checks that no packet is accepted twice). The receiver reports completion once, and the sender learns of
/// the completion if the protocol has acknowledgements.
fn check<P: Protocol>(case: &Case, deadline: Time) -> Result<Pair<P, Random>, TestCaseError> {
    let mut pair = case.pair::<P>();
    pair.run();
    let totals = pair.totals;
    prop_assert!(pair.is_over(), "{:?}", totals);
    prop_assert_eq!(totals.accepted, u64::from(case.packets));
    prop_assert_eq!(totals.completions, 1);
    prop_assert_eq!(totals.sent - totals.retransmitted, u64::from(case.packets));
    let over = if P::sender_learns_completion(&case.cfg) { totals.acknowledged_at } else { totals.received_at };
    let over = over.expect("it is over");
    prop_assert!(over <= deadline, "over at {over}, not by {deadline}: {totals:?}");
    Ok(pair)
}

/// Time by which an IRN flow must complete after the faults: one timeout, then at worst one packet per round trip. This
/// happens if the whole window is lost and there is no new data, because only partial acknowledgements reveal the next
/// missing packet. Until the end of recovery a packet may be transmitted twice.
fn irn_deadline(case: &Case) -> Time {
    let window = u64::from(case.cfg.bdp_cap.min(case.packets));
    let rounds = u64::from(case.packets).div_ceil(window) + window;
    case.settled() + case.pipe.rtt() * (rounds + 1) + case.whole_flow() * 2
}

/// Time by which a go-back-N flow must complete after the faults: one timeout, then the whole flow, with one round trip
/// per window if there are ACKs.
fn go_back_n_deadline(case: &Case) -> Time {
    let rounds = if case.cfg.acks { u64::from(case.packets.div_ceil(case.cfg.bdp_cap)) } else { 0 };
    case.settled() + case.pipe.rtt() * (rounds + 1) + case.whole_flow() * 2
}

fn sprayed_deadline(case: &Case) -> Time {
    irn_deadline(case) + case.cfg.timeouts.expect("every case has timers").high * 2
}

/// A sprayed flow retransmits nothing that is acknowledged within the tolerance and the shortest timeout. A packet and
/// the reply to it may both be late.
fn sprayed_flows_wait_for_late_packets(case: &Case) -> Result<(), TestCaseError> {
    let calm = Case { rates: Rates { loss: 0, twice: 0, ..case.rates }, ..case.clone() };
    let (late, timeouts) = (calm.rates.late_by * 2, calm.cfg.timeouts.expect("every case has timers"));
    if Some(late) < calm.cfg.reorder && calm.pipe.rtt() + late < timeouts.low {
        let totals = check::<Sprayed>(&calm, sprayed_deadline(&calm))?.totals;
        prop_assert_eq!((totals.retransmitted, totals.losses), (0, 0));
    }
    Ok(())
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 400, failure_persistence: None, ..ProptestConfig::default() })]

    #[test]
    fn irn_delivers_once_and_in_time(case in cases()) {
        let pair = check::<Irn>(&case, irn_deadline(&case))?;
        prop_assert!(pair.totals.peak_in_flight <= case.cfg.bdp_cap);
    }

    /// A packet that departed less than a round trip before a timeout may need another timeout.
    #[test]
    fn sprayed_flows_deliver_once_and_in_time(case in cases(), tolerance_us in 0u64..150) {
        let cfg = FlowConfig { reorder: Some(Time::from_us(tolerance_us)), ..case.cfg.clone() };
        let case = Case { cfg, ..case };
        let deadline = sprayed_deadline(&case);
        let pair = check::<Sprayed>(&case, deadline)?;
        prop_assert!(pair.totals.peak_in_flight <= case.cfg.bdp_cap);
        sprayed_flows_wait_for_late_packets(&case)?;
    }

    #[test]
    fn go_back_n_delivers_once_and_in_time(case in cases()) {
        let pair = check::<GoBackN>(&case, go_back_n_deadline(&case))?;
        let bound = if case.cfg.acks { case.cfg.bdp_cap } else { case.packets };
        prop_assert!(pair.totals.peak_in_flight <= bound);
        prop_assert!(case.cfg.acks || pair.totals.timeouts == 0, "the sink owns the timer");
        prop_assert!(!case.cfg.acks || pair.totals.receiver_timeouts == 0, "the source owns the timer");
    }

    /// If the network neither loses nor reorders packets, neither protocol retransmits any packet, whatever the other
    /// settings are.
    #[test]
    fn nothing_is_sent_twice_without_cause(case in cases()) {
        let calm = Case { rates: Rates::default(), ..case };
        for totals in [
            check::<Irn>(&calm, irn_deadline(&calm))?.totals,
            check::<GoBackN>(&calm, go_back_n_deadline(&calm))?.totals,
        ] {
            prop_assert_eq!((totals.retransmitted, totals.nacks, totals.losses), (0, 0, 0));
            prop_assert_eq!(totals.timeouts + totals.receiver_timeouts, 0);
        }
    }
}

/// One packet is late by almost 16 us, and so is the reply to it.
#[test]
fn sprayed_flows_wait_for_a_late_packet_and_its_late_reply() {
    let cfg = FlowConfig { bdp_cap: 19, acks: false, ..FlowConfig::default() };
    let pipe = Pipe { packet: Time::from_ps(86_880), delay: Time::from_us(1) };
    let rates = Rates { late: 43, late_by: Time::from_us(16), heals_at: Time::from_us(326), ..Rates::default() };
    let case = |reorder| {
        let cfg =
            FlowConfig { reorder: Some(Time::from_us(reorder)), line_rate: BitRate::from_gbps(100), ..cfg.clone() };
        Case { cfg, packets: 1_366, pipe, rates, seed: 15265043248481601767 }
    };
    sprayed_flows_wait_for_late_packets(&case(33)).unwrap();
    let mut pair = case(17).pair::<Sprayed>();
    pair.run();
    assert_eq!(pair.totals.retransmitted, 1, "the tolerance covers one of the two delays");
}

/// A case for TCP, with all options of its configuration, and windows down to one segment.
fn connections() -> impl Strategy<Value = Case> {
    let options = (any::<bool>(), any::<bool>(), any::<bool>(), 0u32..20, 1u32..5);
    let window = prop_oneof![0u32..20_000, 20_000u32..5_000_000];
    (cases(), options, window).prop_map(|(case, options, receive_window)| {
        let (sack, delayed, handshake, initial, dup_thresh) = options;
        let tcp = TcpConfig {
            sack,
            handshake,
            receive_window,
            dup_thresh,
            delayed_acks: delayed.then_some(TcpConfig::DELAYED_ACK),
            initial_window: (initial > 0).then_some(initial),
            ..TcpConfig::default()
        };
        // TCP's timer does not use these timeouts.
        let cfg = FlowConfig { tcp, timeouts: None, ..case.cfg };
        Case { cfg, ..case }
    })
}

/// Time by which a TCP flow must complete after the faults: one timeout of maximum length, then at worst one segment
/// per round trip and delayed acknowledgement.
fn tcp_deadline(case: &Case) -> Time {
    let round = case.pipe.rtt() + case.cfg.tcp.delayed_acks.unwrap_or_default();
    let settled = case.rates.heals_at + case.rates.late_by + round * 2 + case.cfg.tcp.rto_max;
    settled + round * (u64::from(case.packets) + 2) + case.whole_flow() * 2
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 400, failure_persistence: None, ..ProptestConfig::default() })]

    #[test]
    fn tcp_delivers_once_and_in_time(case in connections()) {
        let pair = check::<Tcp>(&case, tcp_deadline(&case))?;
        let window = (case.cfg.tcp.receive_window / case.cfg.mtu).max(1);
        prop_assert!(pair.totals.peak_in_flight <= window);
        prop_assert!(case.cfg.tcp.sack || pair.totals.nacks == 0);
        prop_assert_eq!(pair.totals.syns > 0, case.cfg.tcp.handshake);
        prop_assert!(case.cfg.tcp.delayed_acks.is_some() || pair.totals.receiver_timeouts == 0);
    }

    /// The shortest timeout, 1 ms, is longer than a round trip (up to 41 us) and a delayed acknowledgement (500 us), so
    /// no timer fires.
    #[test]
    fn tcp_sends_nothing_twice_without_cause(case in connections()) {
        let calm = Case { rates: Rates::default(), ..case };
        let totals = check::<Tcp>(&calm, tcp_deadline(&calm))?.totals;
        prop_assert_eq!((totals.retransmitted, totals.nacks, totals.losses, totals.timeouts), (0, 0, 0, 0));
        prop_assert_eq!(totals.syns, u64::from(calm.cfg.tcp.handshake));
    }
}

/// If data packets are lost but not reordered, and no ACK or NACK is lost, IRN never retransmits a packet that has
/// arrived, unless its timer fired.
struct DataLoss(Random);

impl Faults for DataLoss {
    fn data(&mut self, now: Time, position: u32) -> [Option<Time>; 2] {
        self.0.data(now, position)
    }
    fn reply(&mut self, _now: Time) -> [Option<Time>; 2] {
        [Some(Time::ZERO), None]
    }
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 200, failure_persistence: None, ..ProptestConfig::default() })]

    #[test]
    fn irn_resends_only_what_was_lost(case in cases()) {
        let rates = Rates { late: 0, twice: 0, loss: case.rates.loss / 10, ..case.rates };
        let faults = DataLoss(Random::new(case.seed, rates));
        let mut pair = Pair::<Irn, DataLoss>::new(case.cfg.clone(), case.packets, case.pipe, faults);
        pair.run();
        let totals = pair.totals;
        // Each packet is accepted once, so transmissions beyond the number of packets and losses were unnecessary.
        let useless = totals.sent - totals.data_lost - u64::from(case.packets);
        prop_assert!(useless == 0 || totals.timeouts > 0, "{totals:?}");
    }

    #[test]
    fn tcp_resends_only_what_was_lost(case in connections()) {
        resends_what_was_lost(&case)?;
    }
}

/// TCP with selective acknowledgements retransmits only lost segments, with two exceptions in RFC 6675. A rescue
/// retransmission, at most one per fast recovery, may be unnecessary. And a fast recovery starts without knowledge of
/// the retransmissions of the previous fast recovery (`HighRxt` is set to `HighACK`). So it can retransmit once more a
/// segment that the previous recovery retransmitted beyond its recovery point.
fn resends_what_was_lost(case: &Case) -> Result<(), TestCaseError> {
    let rates = Rates { late: 0, twice: 0, loss: case.rates.loss / 10, ..case.rates };
    let tcp = TcpConfig { sack: true, dup_thresh: 3, ..case.cfg.tcp };
    let cfg = FlowConfig { tcp, ..case.cfg.clone() };
    let faults = DataLoss(Random::new(case.seed, rates));
    let mut pair = Pair::<Tcp, DataLoss>::new(cfg, case.packets, case.pipe, faults);
    pair.run();
    let totals = pair.totals;
    let useless = totals.sent - totals.data_lost - u64::from(case.packets);
    let repeated = if totals.losses > 1 { totals.data_lost } else { 0 };
    prop_assert!(useless <= totals.losses + repeated || totals.timeouts > 0, "{totals:?}");
    Ok(())
}

/// Two fast recoveries, each with a rescue retransmission, and a segment that both retransmit.
#[test]
fn tcp_repeats_what_the_last_recovery_sent_again() {
    let tcp = TcpConfig { receive_window: 74 * 1024, delayed_acks: None, handshake: false, ..TcpConfig::default() };
    let cfg = FlowConfig { tcp, ..FlowConfig::default() };
    let pipe = Pipe { packet: cfg.line_rate.time_for(u64::from(cfg.mtu + cfg.header)), delay: Time::from_us(6) };
    let rates = Rates { loss: 140, heals_at: Time::from_us(121), ..Rates::default() };
    resends_what_was_lost(&Case { cfg, packets: 224, pipe, rates, seed: 17111009721219932464 }).unwrap();
}

#[test]
fn same_seed_same_trace() {
    let rates = Rates { loss: 100, late: 100, twice: 100, late_by: Time::from_us(30), heals_at: Time::MAX };
    fn trace<P: Protocol>(seed: u64, rates: Rates) -> String {
        let faults = Random::new(seed, rates);
        let pair = Pair::<P, Random>::new(FlowConfig::default(), 300, Pipe::SHORT, faults);
        let mut pair = pair.traced();
        pair.run();
        pair.trace().to_string()
    }
    assert_eq!(trace::<Irn>(7, rates), trace::<Irn>(7, rates));
    assert_eq!(trace::<GoBackN>(7, rates), trace::<GoBackN>(7, rates));
    assert_eq!(trace::<Tcp>(7, rates), trace::<Tcp>(7, rates));
    assert_ne!(trace::<Irn>(7, rates), trace::<Irn>(8, rates), "the seed matters");
}
