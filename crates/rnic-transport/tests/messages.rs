//! Messages under random faults: each message is delivered exactly once, or its sender aborts it. In the end all
//! buffers are free.

use crate::network::cases::{Case, MTU, RTT_PKTS, cases};
use crate::network::{Network, Outcome, Planned, Weather};
use proptest::prelude::*;
use proptest::strategy::ValueTree as _;
use proptest::test_runner::TestRunner;
use rnic_transport::Time;
use rnic_transport::message::programs::{Homa, HomaSettings, Hpcc, HpccSettings, Ndp};
use rnic_transport::message::{Counters, NicConfig, Pipeline};

fn ndp(ip: u32) -> Ndp {
    Ndp::new(ip, MTU, RTT_PKTS)
}

const HOMA: HomaSettings = HomaSettings {
    mtu: MTU,
    rtt_pkts: RTT_PKTS,
    unscheduled_priorities: 1,
    scheduled_priorities: 3,
    overcommitment: 3,
    trimming: false,
};

fn homa(ip: u32) -> Homa {
    Homa::new(ip, HOMA)
}

fn homa_tr(ip: u32) -> Homa {
    Homa::new(ip, HomaSettings { trimming: true, overcommitment: 1, ..HOMA })
}

fn hpcc(ip: u32) -> Hpcc {
    let settings = HpccSettings {
        mtu: MTU,
        rtt_pkts: RTT_PKTS,
        base_rtt_ns: 525,
        additive_bytes: 80,
        target: 62_259,
        max_stages: 5,
    };
    Hpcc::new(ip, settings)
}

/// Time limit of a case, 10 s. No case takes this long.
const LIMIT: Time = Time::from_ms(10_000);

/// Runs a case to its end and checks the properties that hold under all faults.
fn check<P: Pipeline>(case: &Case, program: impl Fn(u32) -> P) -> Result<(), TestCaseError> {
    let Case { cfg, hosts, plan, weather, seed } = case.clone();
    let unlimited = cfg.rx_buffers.is_empty();
    let patience = cfg.timeout * u64::from(cfg.max_timeouts);
    // Maximum time from the last timeout that got a response to the timeout that aborts the message.
    let silence = (cfg.timeout + cfg.timer_granularity) * u64::from(cfg.max_timeouts + 1);
    let mut network = Network::new(cfg, hosts, program, plan, weather, seed);
    prop_assert!(network.run(LIMIT), "at {}: {:?} {:?}", network.now, network.totals, network.records);
    let mut delivered_bytes = 0;
    for (message, record) in case.plan.iter().zip(&network.records) {
        let (ended, outcome) = record.outcome.expect("everything is over");
        let taken = record.taken.expect("everything is over");
        delivered_bytes += u64::from(record.delivered * message.bytes);
        if outcome == Outcome::Sent {
            prop_assert_eq!(record.delivered, 1, "{:?}: {:?}", message, record);
        } else {
            prop_assert!(record.delivered <= 1, "{:?}: {:?}", message, record);
            prop_assert!(ended >= taken + patience, "{:?}: {:?}", message, record);
            // After the end of the faults a sender gets responses from its receiver, unless the receiver has no buffer
            // or has forgotten the message.
            let clear = ended >= weather.heals_at + silence && unlimited && !record.expired;
            prop_assert!(!clear, "aborted without cause: {:?}: {:?}", message, record);
        }
    }
    prop_assert!(network.totals.new_bytes >= delivered_bytes);
    let errors: u64 = (0..hosts).map(|host| network.nic(host).counters().program_errors).sum();
    prop_assert_eq!(errors, 0);
    Ok(())
}

/// Without faults and without short timers, no packet is retransmitted.
fn check_calm<P: Pipeline>(case: &Case, program: impl Fn(u32) -> P) -> Result<(), TestCaseError> {
    let Case { cfg, hosts, plan, seed, .. } = case.clone();
    let packets: u64 = plan.iter().map(|message| u64::from(message.bytes.div_ceil(MTU).max(1))).sum();
    let cfg = NicConfig { rx_buffers: Vec::new(), timeout: Time::from_ms(10), rx_timeout: Time::from_ms(70), ..cfg };
    let mut network = Network::new(cfg, hosts, program, plan, Weather::default(), seed);
    prop_assert!(network.run(LIMIT), "at {}: {:?} {:?}", network.now, network.totals, network.records);
    prop_assert!(network.records.iter().all(|record| record.delivered == 1));
    let totals = network.totals;
    prop_assert_eq!((totals.data, totals.retransmitted, totals.useless), (packets, 0, 0));
    prop_assert!(totals.control >= packets, "each packet is answered: {:?}", totals);
    Ok(())
}

/// Names of the counters that [`happenings`] sums over all cases.
const HAPPENINGS: [&str; 9] = [
    "timeouts",
    "probes",
    "messages without a buffer to send from",
    "packets without a buffer to receive into",
    "messages no longer waited for",
    "packets retransmitted",
    "packets that arrive again",
    "messages aborted",
    "messages aborted that had arrived",
];

/// The counters in the order of [`HAPPENINGS`], summed over 300 random cases.
fn happenings<P: Pipeline>(program: impl Fn(u32) -> P) -> [u64; 9] {
    let mut runner = TestRunner::deterministic();
    let mut sum = [0; 9];
    for _ in 0..300 {
        let case = cases().new_tree(&mut runner).expect("every case can be made").current();
        let Case { cfg, hosts, plan, weather, seed } = case;
        let mut network = Network::new(cfg, hosts, &program, plan, weather, seed);
        assert!(network.run(LIMIT));
        let mut seen = [0; 9];
        for counters in (0..hosts).map(|host| network.nic(host).counters()) {
            let Counters { timeouts, probes, tx_failures, rx_failures, expired, .. } = counters;
            for (total, count) in seen.iter_mut().zip([timeouts, probes, tx_failures, rx_failures, expired]) {
                *total += count;
            }
        }
        let gave_up = network.records.iter().filter(|record| matches!(record.outcome, Some((_, Outcome::Aborted))));
        let arrived = gave_up.clone().filter(|record| record.delivered > 0).count();
        seen[5..].copy_from_slice(&[
            network.totals.retransmitted,
            network.totals.useless,
            gave_up.count() as u64,
            arrived as u64,
        ]);
        for (total, count) in sum.iter_mut().zip(seen) {
            *total += count;
        }
    }
    sum
}

/// Checks that the random cases exercise the code; otherwise the property tests would show little.
#[test]
fn the_cases_are_bad_enough() {
    let all = [happenings(ndp), happenings(homa), happenings(homa_tr), happenings(hpcc)];
    for (at, what) in HAPPENINGS.iter().enumerate() {
        let counts = all.map(|seen| seen[at]);
        // Whether a program sends probes in these cases depends on the program.
        let enough = if *what == "probes" { counts.iter().sum::<u64>() > 0 } else { !counts.contains(&0) };
        assert!(enough, "{what}: {counts:?}");
    }
}

/// A long message has received all its granted packets when shorter messages take all grants for 39 us, which is six
/// timeouts. Its sender would abort it after three timeouts without a response, but its probes get responses.
#[test]
fn a_message_that_waits_for_its_turn_asks() {
    let plan = vec![
        Planned { at: Time::ZERO, src: 1, dst: 0, bytes: 1_000 * MTU },
        Planned { at: Time::from_us(2), src: 2, dst: 0, bytes: 900 * MTU },
    ];
    for probe in [true, false] {
        let cfg = NicConfig { probe, max_timeouts: 3, ..NicConfig::default() };
        let one = |ip| Homa::new(ip, HomaSettings { overcommitment: 1, ..HOMA });
        let mut network = Network::new(cfg, 3, one, plan.clone(), Weather::default(), 1);
        network.run(LIMIT);
        let ends = network.records.iter().map(|record| record.outcome.map(|end| end.1));
        let first = if probe { Outcome::Sent } else { Outcome::Aborted };
        assert!(ends.eq([Some(first), Some(Outcome::Sent)]));
        assert_eq!(network.nic(1).counters().probes > 1, probe);
        assert_eq!(network.records[0].delivered, u32::from(probe));
    }
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 400, failure_persistence: None, ..ProptestConfig::default() })]

    #[test]
    fn ndp_delivers_once_or_gives_up(case in cases()) {
        check(&case, ndp)?;
    }

    #[test]
    fn homa_delivers_once_or_gives_up(case in cases()) {
        check(&case, homa)?;
    }

    #[test]
    fn homa_tr_delivers_once_or_gives_up(case in cases()) {
        check(&case, homa_tr)?;
    }

    #[test]
    fn hpcc_delivers_once_or_gives_up(case in cases()) {
        check(&case, hpcc)?;
    }

    #[test]
    fn nothing_is_sent_twice_without_cause(case in cases()) {
        check_calm(&case, ndp)?;
        check_calm(&case, homa)?;
        check_calm(&case, homa_tr)?;
        check_calm(&case, hpcc)?;
    }
}
