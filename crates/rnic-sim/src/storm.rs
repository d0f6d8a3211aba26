//! Pause storms of a run (`[[fabric.storm]]`): NICs that send PFC pause frames to their switch from a given time on.

use crate::host::{Observer, RunHosts};
use rnic_fabric::{Body, Fabric, HostId};
use rnic_spec::{Storm, WatchdogRecord};
use rnic_transport::Time;

/// A step of a pause storm: from the time `at` on, a host's NIC pauses the priorities in `mask` and no others.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct StormStep {
    /// Simulated time from which the NIC pauses the priorities in `mask`.
    pub at: Time,
    /// The host whose NIC sends the pause frames.
    pub host: HostId,
    /// Bitmap of the paused priorities; the NIC resumes all other priorities.
    pub mask: u8,
}

/// The steps of all pause storms in order of time, for a run with `priorities` priorities. If a host has several storms
/// at the same time, the mask of a step has the priorities of all these storms.
pub(crate) fn steps(storms: &[Storm], priorities: u8) -> Vec<StormStep> {
    let all = ((1u16 << priorities) - 1) as u8;
    let end = |storm: &Storm| storm.duration.map_or(Time::MAX, |duration| storm.start + duration);
    let mut instants: Vec<(Time, u32)> = storms.iter().flat_map(|s| [(s.start, s.host), (end(s), s.host)]).collect();
    instants.sort_unstable();
    instants.dedup();
    let step = |(at, host): (Time, u32)| {
        let active = storms.iter().filter(|s| s.host == host && s.start <= at && at < end(s));
        let mask = active.map(|s| s.priority.map_or(all, |priority| all & (1 << priority))).fold(0, |a, b| a | b);
        StormStep { at, host: HostId(host), mask }
    };
    instants.into_iter().filter(|(at, _)| *at < Time::MAX).map(step).collect()
}

/// The storms as the watchdogs of the NICs leave them, and the records of these watchdogs. A NIC whose receive pipeline
/// has been stopped for `detection`, and that pauses its switch, stops pausing for ever.
pub(crate) fn watched_by_nics(
    storms: &[Storm], detection: Option<Time>, port_of: impl Fn(u32) -> u32,
) -> (Vec<Storm>, Vec<WatchdogRecord>) {
    let Some(detection) = detection else { return (storms.to_vec(), Vec::new()) };
    // The first instant at which a storm of the host has lasted for `detection`.
    let limit = |host: u32| {
        let long = |storm: &&Storm| storm.host == host && storm.duration.is_none_or(|duration| duration > detection);
        storms.iter().filter(long).map(|storm| storm.start + detection).min().unwrap_or(Time::MAX)
    };
    let shorten = |storm: &Storm| {
        let most = limit(storm.host).saturating_sub(storm.start);
        let duration = storm.duration.map_or(most, |duration| duration.min(most));
        let lasts = limit(storm.host) == Time::MAX && storm.duration.is_none();
        (duration > Time::ZERO).then_some(Storm { duration: (!lasts).then_some(duration), ..*storm })
    };
    let mut hosts: Vec<u32> = storms.iter().map(|storm| storm.host).filter(|host| limit(*host) < Time::MAX).collect();
    hosts.sort_unstable_by_key(|host| (limit(*host), *host));
    hosts.dedup();
    let record = |host: u32| WatchdogRecord {
        port: port_of(host),
        priority: None,
        action: None,
        detected: limit(host),
        restored: None,
        dropped: 0,
    };
    (storms.iter().filter_map(shorten).collect(), hosts.into_iter().map(record).collect())
}

/// Executes the steps of pause storms during a run.
pub(crate) struct Storms<'s> {
    /// The steps of storms that are still to be executed, in order of time.
    later: &'s [StormStep],
}

impl<'s> Storms<'s> {
    pub(crate) fn new(steps: &'s [StormStep]) -> Storms<'s> {
        Storms { later: steps }
    }
}

impl<B: Body> Observer<B> for Storms<'_> {
    fn next(&self) -> Time {
        self.later.first().map_or(Time::MAX, |step| step.at)
    }
    fn observe(&mut self, now: Time, fabric: &mut Fabric<B>, _hosts: &mut dyn RunHosts<B>) {
        while let Some((step, rest)) = self.later.split_first().filter(|(step, _)| step.at <= now) {
            fabric.pause_from_host(step.host, step.mask);
            self.later = rest;
        }
    }
    fn acts(&self) -> bool {
        !self.later.is_empty()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn storms_of_one_nic_add_up() {
        let storm = |host, start, duration: Option<u64>, priority| Storm {
            host,
            start: Time::from_us(start),
            duration: duration.map(Time::from_us),
            priority,
        };
        let storms = [storm(3, 10, Some(20), Some(0)), storm(3, 20, None, Some(1)), storm(1, 15, Some(5), None)];
        let steps: Vec<_> = steps(&storms, 2).iter().map(|s| (s.at.as_ps() / 1_000_000, s.host.0, s.mask)).collect();
        assert_eq!(steps, [(10, 3, 0b01), (15, 1, 0b11), (20, 1, 0), (20, 3, 0b11), (30, 3, 0b10)]);
        // A storm does not pause a priority that the run does not use.
        assert_eq!(super::steps(&storms[1..2], 1)[0].mask, 0);
        assert_eq!(super::steps(&[storm(0, 0, None, None)], 8)[0].mask, 0xff);
    }

    #[test]
    fn the_watchdog_of_a_nic_ends_its_first_long_storm_and_prevents_later_ones() {
        let storm = |host, start, duration: Option<u64>| Storm {
            host,
            start: Time::from_ms(start),
            duration: duration.map(Time::from_ms),
            priority: None,
        };
        // Host 2 is stuck from 10 ms on; its watchdog acts 100 ms later. The storms of host 5 are too short.
        let storms = [
            storm(5, 0, Some(99)),
            storm(2, 0, Some(5)),
            storm(2, 10, None),
            storm(2, 400, Some(1)),
            storm(5, 200, Some(100)),
        ];
        let (left, records) = watched_by_nics(&storms, Some(Time::from_ms(100)), |host| host + 1_000);
        assert_eq!(left, [storms[0], storms[1], storm(2, 10, Some(100)), storms[4]]);
        let found: Vec<_> = records.iter().map(|r| (r.port, r.detected, r.priority, r.restored)).collect();
        assert_eq!(found, [(1_002, Time::from_ms(110), None, None)]);
        assert_eq!(watched_by_nics(&storms, None, |host| host), (storms.to_vec(), Vec::new()));
    }
}
