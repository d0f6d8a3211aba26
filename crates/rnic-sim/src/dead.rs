//! Hosts that receive nothing: dead hosts without an entry in the MAC table of their switch (`[[fabric.dead]]`), and
//! hosts whose receive pipeline is stuck and whose NIC has stopped pausing its switch (`[fabric.nic_watchdog]`).

use crate::host::{Observer, RunHosts};
use rnic_fabric::{Body, Fabric, HostId, UnknownMac};
use rnic_spec::{DeadHost, Storm, UnknownMacAction};
use rnic_transport::Time;

/// From the time `at` on, a host's switch treats packets for the host in this way.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) struct DeadStep {
    /// Simulated time of the step.
    pub(crate) at: Time,
    /// The host.
    pub(crate) host: HostId,
    /// What the switch does with packets for the host; `None`: it forwards them.
    pub(crate) what: Option<UnknownMac>,
}

/// The steps of all hosts that receive nothing for a time, in order of time. `storms` are the pause storms of the run,
/// and `detection` is the time after which the watchdog of a NIC ends them.
pub(crate) fn steps(dead: &[DeadHost], storms: &[Storm], detection: Option<Time>) -> Vec<DeadStep> {
    let until = |start: Time, duration: Option<Time>| duration.map_or(Time::MAX, |duration| start + duration);
    let of_dead = dead.iter().map(|dead| {
        let what = match dead.unknown_mac {
            UnknownMacAction::Flood => UnknownMac::Flood,
            UnknownMacAction::Drop => UnknownMac::Drop,
        };
        (dead.host, dead.start, until(dead.start, dead.duration), what)
    });
    let of_storms = storms.iter().filter_map(|storm| {
        let from = storm.start + detection?;
        let until = until(storm.start, storm.duration);
        (from < until).then_some((storm.host, from, until, UnknownMac::Drop))
    });
    let spans: Vec<_> = of_dead.chain(of_storms).collect();
    let mut instants: Vec<(Time, u32)> =
        spans.iter().flat_map(|(host, from, until, _)| [(*from, *host), (*until, *host)]).collect();
    instants.sort_unstable();
    instants.dedup();
    let step = |(at, host): (Time, u32)| {
        let active = spans.iter().filter(|(h, from, until, _)| *h == host && *from <= at && at < *until);
        // Packets that the host's NIC or the switch drops are not flooded.
        let what = active.map(|span| span.3).max_by_key(|what| *what == UnknownMac::Drop);
        DeadStep { at, host: HostId(host), what }
    };
    instants.into_iter().filter(|(at, _)| *at < Time::MAX).map(step).collect()
}

/// Executes the steps during a run.
pub(crate) struct Deaths<'s> {
    later: &'s [DeadStep],
}

impl<'s> Deaths<'s> {
    pub(crate) fn new(steps: &'s [DeadStep]) -> Deaths<'s> {
        Deaths { later: steps }
    }
}

impl<B: Body> Observer<B> for Deaths<'_> {
    fn next(&self) -> Time {
        self.later.first().map_or(Time::MAX, |step| step.at)
    }
    fn observe(&mut self, now: Time, fabric: &mut Fabric<B>, _hosts: &mut dyn RunHosts<B>) {
        while let Some((step, rest)) = self.later.split_first().filter(|(step, _)| step.at <= now) {
            fabric.set_missing_mac(step.host, step.what);
            self.later = rest;
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_host_is_dead_for_its_time_and_deaf_after_its_watchdog_has_acted() {
        let dead = |host, start, duration: Option<u64>, unknown_mac| DeadHost {
            host,
            start: Time::from_ms(start),
            duration: duration.map(Time::from_ms),
            unknown_mac,
        };
        let hosts = [dead(1, 0, Some(5), UnknownMacAction::Flood), dead(2, 3, None, UnknownMacAction::Drop)];
        let storm = Storm { host: 3, start: Time::from_ms(1), duration: Some(Time::from_ms(9)), priority: None };
        let steps: Vec<_> = steps(&hosts, &[storm], Some(Time::from_ms(4)))
            .iter()
            .map(|step| (step.at.as_ps() / 1_000_000_000, step.host.0, step.what))
            .collect();
        let (flood, drop) = (Some(UnknownMac::Flood), Some(UnknownMac::Drop));
        assert_eq!(steps, [(0, 1, flood), (3, 2, drop), (5, 1, None), (5, 3, drop), (10, 3, None)]);
        // A storm that ends before the watchdog acts leaves the host as it was.
        assert!(super::steps(&[], &[storm], Some(Time::from_ms(9))).is_empty());
        assert!(super::steps(&[], &[storm], None).is_empty());
    }
}
