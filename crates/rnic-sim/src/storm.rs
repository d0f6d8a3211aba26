//! Pause storms of a run (`[[fabric.storm]]`): NICs that send PFC pause frames to their switch from a given time on.

use rnic_fabric::{BodyOf, Fabric, HostId, PartitionedHosts, Watcher};
use rnic_run::Storm;
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

impl<E: PartitionedHosts> Watcher<E> for Storms<'_> {
    fn next(&self) -> Time {
        self.later.first().map_or(Time::MAX, |step| step.at)
    }
    fn observe(&mut self, now: Time, fabric: &mut Fabric<BodyOf<E>>, _endpoint: &mut E) {
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
}
