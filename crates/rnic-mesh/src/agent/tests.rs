//! Tests of the agent.

use super::*;
use crate::record::{Admit, MAX_PATHS, ProbeResult};
use crate::rotation;
use rnic_probe::message::Kind;

const SECOND: Time = Time::from_ms(1_000);

fn address(last: u8) -> DatagramAddress {
    DatagramAddress { addr: ([10, 0, 0, last], 4_791).into(), qpn: last.into(), qkey: 9 }
}

fn list(targets: &[u8], interval_ms: u64) -> Pinglist {
    let target = |last: &u8| Target {
        host: format!("h{last}"),
        incarnation: 1,
        address: address(*last),
        session: u64::from(*last),
        interval_ms,
    };
    Pinglist {
        version: 3,
        digest: 4,
        refresh_ms: 1_000,
        report_ms: 1_000,
        trace_ms: 1_000,
        timeout_ms: 500,
        size: 512,
        paths: 2,
        rotation: 0,
        transport: Carrier::Ud,
        dscp: 0,
        targets: targets.iter().map(target).collect(),
        admit: vec![Admit { session: 77, prober: address(9) }],
    }
}

fn agent(limits: Limits) -> Agent {
    Agent::new("h1", 5, vec![50_000, 50_001], limits, Time::ZERO)
}

/// Runs the agent until `end`; every probe leaves immediately, and `answers` decides which probes get a response.
fn run(agent: &mut Agent, end: Time, answers: impl Fn(&Outgoing) -> bool) -> Vec<(Time, Outgoing)> {
    let mut sent = Vec::new();
    while let Some(now) = agent.next_time().filter(|next| *next < end) {
        while let Some(probe) = agent.poll_send(now) {
            agent.sent(probe.id, now);
            if answers(&probe) {
                let source = (probe.to.addr.ip(), probe.to.qpn);
                for kind in [Kind::Response, Kind::Report { delay: Time::from_us(3) }] {
                    let bytes = Message { kind, ..probe.message }.emit();
                    assert_eq!(agent.received(now + Time::from_us(10), now + Time::from_us(11), source, &bytes), None);
                }
            }
            sent.push((now, probe));
        }
    }
    sent
}

#[test]
fn probes_are_sent_and_reported() {
    let mut agent = agent(Limits::default());
    agent.set_pinglist(list(&[2, 3], 100), Time::ZERO, || 0.5).unwrap();
    let sent = run(&mut agent, SECOND, |probe| probe.to.qpn == 2);
    assert_eq!(sent.len(), 20);
    agent.close_batch(|time| time.as_ps() / 1_000_000 + 7);
    let batch = agent.batch().unwrap().clone();
    let of = |target: u16| batch.probes.iter().filter(move |probe| probe.target == target).collect::<Vec<_>>();
    let answered = ProbeResult::Answered { total_ns: 11_000, prober_ns: 1_000, split_ns: Some((3_000, 7_000)) };
    assert_eq!(of(0).len(), 10);
    assert!(of(0).iter().all(|probe| probe.result == answered));
    assert!(of(1).len() >= 4 && of(1).iter().all(|probe| probe.result == ProbeResult::Timeout));
    assert_eq!((batch.sequence, batch.targets[1].0.as_str()), (1, "h3"));
    assert_eq!(Batch::parse(&batch.emit()), Ok(batch));
    agent.confirmed(1);
    assert_eq!((agent.batch(), agent.health().waiting), (None, 0));
}

#[test]
fn an_agent_without_controller_stops_and_resumes() {
    let mut agent = agent(Limits::default());
    agent.set_pinglist(list(&[2], 100), Time::ZERO, || 0.0).unwrap();
    agent.fetch_failed();
    agent.fetch_failed();
    assert!(agent.next_time().is_some(), "two failures are no reason to stop");
    agent.fetch_failed();
    assert!(agent.stopped() && agent.next_time().is_none() && agent.poll_send(SECOND).is_none());
    agent.unchanged(9, SECOND);
    assert!(agent.poll_send(SECOND).is_some());
    assert_eq!(agent.current_list(), (9, 4));
}

/// Numbers of probes in each twentieth of a second.
fn histogram(sent: &[(Time, Outgoing)]) -> [usize; 20] {
    let mut counts = [0; 20];
    for (at, _) in sent {
        counts[(at.as_ps() / 1_000_000_000 % 1_000 / 50) as usize] += 1;
    }
    counts
}

/// After an outage of the controller, or of the agent itself, the probes leave as spread out as before.
#[test]
fn probes_stay_spread_after_an_outage() {
    let targets: Vec<u8> = (2..42).collect();
    let mut number = 0_u32;
    let phase = || {
        number += 1;
        f64::from(number * 27 % 40) / 40.0
    };
    let mut agent = agent(Limits::default());
    agent.set_pinglist(list(&targets, 1_000), Time::ZERO, phase).unwrap();
    let before = histogram(&run(&mut agent, Time::from_ms(10_000), |_| true));
    assert!(before.iter().all(|count| *count == 20), "{before:?}");
    for _ in 0..MAX_FAILED_FETCHES {
        agent.fetch_failed();
    }
    // The fetch succeeds at 30.33 s: no burst, and in the first second each target is probed once.
    agent.unchanged(9, Time::from_ms(30_330));
    let first = histogram(&run(&mut agent, Time::from_ms(31_330), |_| true));
    assert!(first.iter().all(|count| (1..=3).contains(count)) && first.iter().sum::<usize>() == 40, "{first:?}");
    assert_eq!(histogram(&run(&mut agent, Time::from_ms(41_330), |_| true)), before);
    // The same with a new list for the same targets.
    for _ in 0..MAX_FAILED_FETCHES {
        agent.fetch_failed();
    }
    let again = Pinglist { digest: 5, ..list(&targets, 1_000) };
    agent.set_pinglist(again, Time::from_ms(60_070), || panic!("no target is new")).unwrap();
    assert_eq!(histogram(&run(&mut agent, Time::from_ms(70_070), |_| true)), before);
    // The process was stopped: each target is probed once now, then at its phase.
    let late = Time::from_ms(95_110);
    let burst = std::iter::from_fn(|| agent.poll_send(late)).count();
    assert_eq!(burst, 40);
    assert_eq!(histogram(&run(&mut agent, Time::from_ms(105_110), |_| true)), before);
}

/// An agent does not exceed its own limits, even if its pinglist demands more probes.
#[test]
fn no_list_exceeds_the_limits() {
    let mut agent = agent(Limits { rate: 50.0, ..Limits::default() });
    let targets: Vec<u8> = (2..102).collect();
    agent.set_pinglist(list(&targets, 0), Time::ZERO, || 0.0).unwrap();
    let sent = run(&mut agent, Time::from_ms(2_000), |_| true);
    assert!((90..=110).contains(&sent.len()), "{}", sent.len());
    assert!(agent.health().throttled > 0);
    for wrong in [Pinglist { size: 100, ..list(&[2], 1) }, Pinglist { paths: 3, ..list(&[2], 1) }] {
        assert!(agent.set_pinglist(wrong, SECOND, || 0.0).unwrap_err().contains("the pinglist has"));
    }
}

#[test]
fn only_admitted_probers_are_answered() {
    let mut agent = agent(Limits::default());
    let mut probe = Message { kind: Kind::Probe, path: 0, session: 77, sequence: 0 }.emit().to_vec();
    probe.resize(512, 0);
    let from = |last: u8| (address(last).addr.ip(), u32::from(last));
    assert_eq!(agent.received(SECOND, SECOND, from(9), &probe), None, "without a list no probe gets a response");
    agent.set_pinglist(list(&[], 100), Time::ZERO, || 0.0).unwrap();
    assert!(agent.received(SECOND, SECOND, from(9), &probe).is_some());
    assert_eq!(agent.received(SECOND, SECOND, from(8), &probe), None);
    let empty = Pinglist { admit: Vec::new(), ..list(&[], 100) };
    agent.set_pinglist(empty, SECOND, || 0.0).unwrap();
    assert_eq!(agent.received(SECOND, SECOND, from(9), &probe), None);
    assert_eq!(agent.health().unexpected, 3);
}

/// If the controller cannot be reached, the agent keeps a bounded number of results. It discards the oldest first, and
/// counts them.
#[test]
fn what_waits_is_bounded() {
    let mut agent = agent(Limits { waiting: 50, rate: 1_000.0, ..Limits::default() });
    agent.set_pinglist(list(&[2], 10), Time::ZERO, || 0.0).unwrap();
    for turn in 1..=5 {
        run(&mut agent, Time::from_ms(200 * turn), |_| true);
        agent.close_batch(|_| 0);
    }
    let health = agent.health();
    assert_eq!((health.probes, health.waiting + health.discarded), (100, 100));
    assert!(health.waiting <= 50 && agent.batch().unwrap().sequence > 1);
}

/// A rotation changes only the paths of a target: outstanding probes keep their paths.
#[test]
fn a_rotation_changes_the_paths() {
    let ports: Vec<u16> = (0..MAX_PATHS).map(|path| 50_000 + path).collect();
    let mut agent = Agent::new("h1", 5, ports, Limits::default(), Time::ZERO);
    let mut used = std::collections::BTreeSet::new();
    for rotation in 1..=10 {
        let list = Pinglist { rotation, digest: rotation, ..list(&[2], 100) };
        agent.set_pinglist(list, Time::from_ms(1_000 * rotation), || 0.0).unwrap();
        let expected = rotation::paths("h1", "h2", rotation, 2);
        let sent = run(&mut agent, Time::from_ms(1_000 * rotation + 400), |_| true);
        assert!(!sent.is_empty() && sent.iter().all(|(_, probe)| expected.contains(&probe.path)));
        assert!(sent.iter().all(|(_, probe)| probe.message.path == probe.path));
        used.extend(expected);
    }
    assert!(used.len() >= 4, "{used:?}");
    agent.close_batch(|_| 0);
    let batch = agent.batch().unwrap();
    assert!(batch.probes.iter().all(|probe| probe.result != ProbeResult::Gone), "nothing was interrupted");
    assert!(Batch::parse(&batch.emit()).is_ok());
    let mut small = Agent::new("h1", 5, vec![1, 2], Limits::default(), Time::ZERO);
    let refused = small.set_pinglist(Pinglist { rotation: 1, ..list(&[2], 100) }, Time::ZERO, || 0.0);
    assert!(refused.unwrap_err().contains("changes source ports"));
}

/// A target that restarts is a new target; outstanding probes to the old incarnation do not count as losses.
#[test]
fn a_new_incarnation_ends_the_old_probes() {
    let mut agent = agent(Limits::default());
    agent.set_pinglist(list(&[2], 100), Time::ZERO, || 0.0).unwrap();
    run(&mut agent, Time::from_ms(150), |_| false);
    let mut new = list(&[2], 100);
    new.targets[0].incarnation = 2;
    new.targets[0].session = 99;
    agent.set_pinglist(new, Time::from_ms(200), || 0.0).unwrap();
    agent.close_batch(|_| 0);
    let batch = agent.batch().unwrap();
    assert!(batch.probes.iter().all(|probe| probe.result == ProbeResult::Gone) && batch.probes.len() == 2);
    assert_eq!(batch.targets, [("h2".to_string(), 1), ("h2".to_string(), 2)]);
}
