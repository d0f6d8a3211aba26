//! The prober: it decides when probes leave, and computes the outcome of each. It uses neither sockets nor clocks, so a
//! simulation can drive it as well as a device can.
//!
//! The owner of a prober takes the probes to send ([`Prober::poll_send`]), reports when they left ([`Prober::sent`])
//! and which datagrams arrived ([`Prober::received`]), and takes the outcomes ([`Prober::poll_outcome`]). The times
//! that the owner passes must never go back. Each probe has six times, as in R-Pingmesh (SIGCOMM 2024):
//!
//! | time | event | clock |
//! |---|---|---|
//! | T1 | the prober posts the probe | prober |
//! | T2 | the prober's NIC sends the probe | prober |
//! | T3 | the probe arrives at the responder's NIC | responder |
//! | T4 | the responder's NIC sends the response | responder |
//! | T5 | the response arrives at the prober's NIC | prober |
//! | T6 | the prober sees the response | prober |
//!
//! The round-trip time of the network is (T5 - T2) - (T4 - T3), which does not depend on the offset between the two
//! clocks, and the delay of the prober is (T6 - T1) - (T5 - T2). The responder sends T4 - T3 in a second datagram, the
//! report, because it does not know the departure time of the response before the response has left.

use crate::message::{Kind, Message};
use rnic_transport::Time;
use std::collections::VecDeque;

/// Maximum number of outstanding probes, which have been sent and have no outcome yet.
pub const MAX_OUTSTANDING: usize = 4_096;

/// Maximum relative difference of the speeds of two hosts' clocks. Clocks of computers differ by less than 0.02 %.
const CLOCK_TOLERANCE: f64 = 1e-3;

/// Settings of a [`Prober`].
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct ProberConfig {
    /// Number of the session, which the responder assigned.
    pub session: u64,
    /// Number of paths: probe n uses path n modulo `paths`.
    pub paths: u16,
    /// Time between two probes.
    pub interval: Time,
    /// Time after which a probe without a response counts as lost.
    pub timeout: Time,
    /// Number of probes; `None`: unlimited.
    pub count: Option<u64>,
}

/// A probe that is to be sent now.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Probe {
    /// Number of the probe, from 0.
    pub sequence: u64,
    /// Index of its path.
    pub path: u16,
    /// The message to send.
    pub message: Message,
}

/// The times of a probe that was answered.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Times {
    /// Time from posting the probe until the prober saw the response: T6 - T1.
    pub total: Time,
    /// Delay at the prober: (T6 - T1) - (T5 - T2).
    pub prober: Time,
    /// Delay at the responder, T4 - T3, and round-trip time of the network, (T5 - T2) - (T4 - T3). `None` if the report
    /// was lost, or has a delay that is longer than T5 - T2.
    pub split: Option<Split>,
}

/// The parts of the time between the departure of a probe and the arrival of its response.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Split {
    /// Delay at the responder: T4 - T3.
    pub responder: Time,
    /// Round-trip time of the network: (T5 - T2) - (T4 - T3).
    pub network: Time,
}

/// The outcome of a probe.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Outcome {
    /// Number of the probe, from 0.
    pub sequence: u64,
    /// Index of its path.
    pub path: u16,
    /// The times of the probe, or the reason why it has none.
    pub result: Result<Times, ProbeError>,
}

/// The reason why a probe has no response.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug)]
pub enum ProbeError {
    /// No response arrived before the timeout.
    Timeout,
    /// The prober's system could not send the probe: it has no route, or the packet is too long.
    Unreachable,
    /// The responder has ended.
    Gone,
}

impl ProbeError {
    /// All errors.
    pub const ALL: [ProbeError; 3] = [ProbeError::Timeout, ProbeError::Unreachable, ProbeError::Gone];

    /// The code in output: `timeout`, `unreachable` or `gone`.
    pub const fn code(self) -> &'static str {
        match self {
            ProbeError::Timeout => "timeout",
            ProbeError::Unreachable => "unreachable",
            ProbeError::Gone => "gone",
        }
    }
}

struct Outstanding {
    sequence: u64,
    path: u16,
    posted: Time,
    sent: Option<Time>,
    /// T5 and T6; `None` until the response has arrived.
    answered: Option<(Time, Time)>,
    responder: Option<Time>,
}

impl Outstanding {
    fn times(&self) -> Option<Times> {
        let ((arrived, seen), sent) = (self.answered?, self.sent?);
        let (total, trip) = (seen.saturating_sub(self.posted), arrived.saturating_sub(sent));
        let possible = trip + trip.scale(CLOCK_TOLERANCE) + Time::from_us(1);
        let responder = self.responder.filter(|responder| *responder <= possible);
        let split = responder.map(|responder| Split { responder, network: trip.saturating_sub(responder) });
        Some(Times { total, prober: total.saturating_sub(trip), split })
    }
}

/// The state of one series of probes.
pub struct Prober {
    config: ProberConfig,
    /// Numbers of the paths to use; empty: 0, 1, 2 and so on.
    paths: Vec<u16>,
    next: u64,
    /// Time at which the next probe leaves.
    due: Time,
    /// Probes without an outcome, in order.
    outstanding: VecDeque<Outstanding>,
    outcomes: VecDeque<Outcome>,
    /// Number of datagrams that do not belong to an outstanding probe.
    unexpected: u64,
}

impl Prober {
    /// A prober whose first probe leaves at `now`.
    pub fn new(config: ProberConfig, now: Time) -> Prober {
        let (outstanding, outcomes) = (VecDeque::new(), VecDeque::new());
        Prober { config, paths: Vec::new(), next: 0, due: now, outstanding, outcomes, unexpected: 0 }
    }

    /// The probe to be sent at `now`, if one is due. If more than [`MAX_OUTSTANDING`] probes would be outstanding, the
    /// oldest counts as lost.
    pub fn poll_send(&mut self, now: Time) -> Option<Probe> {
        if self.config.count.is_some_and(|count| self.next >= count) || now < self.due {
            return None;
        }
        // After a delay the prober does not send the missed probes, because the probes of a burst would delay each
        // other.
        self.due += self.config.interval;
        self.skip_missed(now);
        if self.outstanding.len() >= MAX_OUTSTANDING {
            self.finish_first(ProbeError::Timeout);
        }
        let sequence = self.next;
        self.next += 1;
        let path = match self.paths.len() {
            0 => (sequence % u64::from(self.config.paths.max(1))) as u16,
            count => self.paths[(sequence % count as u64) as usize],
        };
        self.outstanding.push_back(Outstanding {
            sequence,
            path,
            posted: now,
            sent: None,
            answered: None,
            responder: None,
        });
        let message = Message { kind: Kind::Probe, path, session: self.config.session, sequence };
        Some(Probe { sequence, path, message })
    }

    /// Leaves out the probes that were due before `now`. The next probe leaves a whole number of intervals after the
    /// first one, so that several probers that were delayed together do not send at the same times afterwards.
    pub fn skip_missed(&mut self, now: Time) {
        let (late, interval) = (now.saturating_sub(self.due).as_ps(), self.config.interval.as_ps());
        if late > 0 {
            let rest = late.checked_rem(interval).map_or(0, |over| if over > 0 { interval - over } else { 0 });
            self.due = now + Time::from_ps(rest);
        }
    }

    /// The NIC sent probe number `sequence` at T2 = `at`.
    pub fn sent(&mut self, sequence: u64, at: Time) {
        if let Some(outstanding) = self.find(sequence) {
            outstanding.sent = Some(at);
        }
    }

    /// Ends a probe that cannot be sent, with the outcome `error`.
    pub fn failed(&mut self, sequence: u64, error: ProbeError) {
        if let Ok(at) = self.outstanding.binary_search_by_key(&sequence, |outstanding| outstanding.sequence) {
            self.finish(at, Err(error));
        }
    }

    /// Handles a datagram that arrived at T5 = `arrived` and that the prober sees at T6 = `now`. Datagrams other than
    /// the response or the report to an outstanding probe are ignored and counted.
    pub fn received(&mut self, arrived: Time, now: Time, datagram: &[u8]) {
        let message = Message::parse(datagram).filter(|message| message.session == self.config.session);
        let Some(message) = message else {
            self.unexpected += 1;
            return;
        };
        let found = self.outstanding.binary_search_by_key(&message.sequence, |outstanding| outstanding.sequence);
        let Some((at, outstanding)) = found.ok().and_then(|at| Some((at, self.outstanding.get_mut(at)?))) else {
            self.unexpected += 1;
            return;
        };
        match message.kind {
            Kind::Response if outstanding.sent.is_some() && outstanding.answered.is_none() => {
                outstanding.answered = Some((arrived, now));
            }
            Kind::Report { delay } if outstanding.sent.is_some() && outstanding.responder.is_none() => {
                outstanding.responder = Some(delay);
            }
            _ => {
                self.unexpected += 1;
                return;
            }
        }
        if outstanding.answered.is_some() && outstanding.responder.is_some() {
            let times = outstanding.times();
            self.finish(at, times.ok_or(ProbeError::Timeout));
        }
    }

    /// Handles the ACK of a probe on a reliable connection. The probe was posted at `posted` and acknowledged at
    /// `arrived`; the prober sees the ACK at `now`. The responder's software is not involved.
    pub fn acknowledged(&mut self, sequence: u64, posted: Time, arrived: Time, now: Time) {
        let found = self.outstanding.binary_search_by_key(&sequence, |outstanding| outstanding.sequence);
        let Some((at, outstanding)) = found.ok().and_then(|at| Some((at, self.outstanding.get_mut(at)?))) else {
            self.unexpected += 1;
            return;
        };
        outstanding.sent = Some(posted);
        outstanding.answered = Some((arrived, now));
        outstanding.responder = Some(Time::ZERO);
        let times = outstanding.times();
        self.finish(at, times.ok_or(ProbeError::Timeout));
    }

    /// The number of a probe's path, if the probe is outstanding.
    pub fn path_of(&self, sequence: u64) -> Option<u16> {
        let at = self.outstanding.binary_search_by_key(&sequence, |outstanding| outstanding.sequence).ok()?;
        self.outstanding.get(at).map(|outstanding| outstanding.path)
    }

    /// Makes further probes use paths with these numbers in turn, instead of 0, 1, 2 and so on.
    pub fn set_paths(&mut self, paths: Vec<u16>) {
        self.paths = paths;
    }

    /// Ends the probes whose timeout has passed at `now`. A probe with a response but without a report is not lost.
    pub fn on_time(&mut self, now: Time) {
        while self.outstanding.front().is_some_and(|first| now.saturating_sub(first.posted) >= self.config.timeout) {
            self.finish_first(ProbeError::Timeout);
        }
    }

    /// Ends the series: no further probe leaves, and outstanding probes get the outcome `error`.
    pub fn end(&mut self, error: ProbeError) {
        self.stop();
        while !self.outstanding.is_empty() {
            self.finish_first(error);
        }
    }

    /// Ends the series immediately: no further probe leaves, and outstanding probes get no outcome.
    pub fn abandon(&mut self) {
        self.stop();
        self.outstanding.clear();
    }

    /// Stops sending probes. Outstanding probes still get an outcome.
    pub fn stop(&mut self) {
        self.config.count = Some(self.next);
    }

    /// Time at which the owner should call [`Prober::poll_send`] and [`Prober::on_time`] next; `None` if no probe is
    /// outstanding or due.
    pub fn next_time(&self) -> Option<Time> {
        let send = self.config.count.is_none_or(|count| self.next < count).then_some(self.due);
        let timeout = self.outstanding.front().map(|first| first.posted + self.config.timeout);
        send.into_iter().chain(timeout).min()
    }

    /// The next outcome, in the order in which they were determined.
    pub fn poll_outcome(&mut self) -> Option<Outcome> {
        self.outcomes.pop_front()
    }

    /// Whether all probes were sent and have an outcome.
    pub fn is_done(&self) -> bool {
        self.next_time().is_none()
    }

    /// Number of probes that were sent.
    pub fn count(&self) -> u64 {
        self.next
    }

    /// Number of datagrams that do not belong to an outstanding probe: late, duplicate, or from other senders.
    pub fn unexpected(&self) -> u64 {
        self.unexpected
    }

    fn find(&mut self, sequence: u64) -> Option<&mut Outstanding> {
        let at = self.outstanding.binary_search_by_key(&sequence, |outstanding| outstanding.sequence).ok()?;
        self.outstanding.get_mut(at)
    }

    fn finish_first(&mut self, error: ProbeError) {
        let times = self.outstanding.front().and_then(Outstanding::times);
        self.finish(0, times.ok_or(error));
    }

    fn finish(&mut self, at: usize, result: Result<Times, ProbeError>) {
        if let Some(Outstanding { sequence, path, .. }) = self.outstanding.remove(at) {
            self.outcomes.push_back(Outcome { sequence, path, result });
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    const US: fn(u64) -> Time = Time::from_us;

    fn prober(count: Option<u64>) -> Prober {
        let (interval, timeout) = (US(1_000), US(5_000));
        Prober::new(ProberConfig { session: 7, paths: 3, interval, timeout, count }, US(10))
    }

    fn answer(sequence: u64, kind: Kind) -> [u8; 32] {
        Message { kind, path: 0, session: 7, sequence }.emit()
    }

    #[test]
    fn the_times_are_separated() {
        let mut prober = prober(Some(1));
        let probe = prober.poll_send(US(10)).unwrap();
        assert_eq!(prober.poll_send(US(10)), None);
        prober.sent(0, US(12));
        prober.received(US(52), US(57), &answer(0, Kind::Response));
        assert_eq!(prober.poll_outcome(), None, "the report is missing");
        prober.received(US(60), US(61), &answer(0, Kind::Report { delay: US(15) }));
        let split = Some(Split { responder: US(15), network: US(25) });
        let times = Times { total: US(47), prober: US(7), split };
        assert_eq!(prober.poll_outcome(), Some(Outcome { sequence: probe.sequence, path: 0, result: Ok(times) }));
        assert!(prober.is_done());
    }

    /// On a reliable connection only the ACK ends a probe.
    #[test]
    fn an_ack_ends_a_probe() {
        let mut prober = prober(Some(2));
        prober.set_paths(vec![9, 4]);
        assert_eq!(prober.poll_send(US(10)).map(|probe| probe.path), Some(9));
        assert_eq!(prober.poll_send(US(1_010)).map(|probe| probe.message.path), Some(4));
        prober.acknowledged(1, US(1_012), US(1_030), US(1_033));
        let split = Some(Split { responder: Time::ZERO, network: US(18) });
        let times = Times { total: US(23), prober: US(5), split };
        assert_eq!(prober.poll_outcome(), Some(Outcome { sequence: 1, path: 4, result: Ok(times) }));
        prober.acknowledged(1, US(1_012), US(1_030), US(1_033));
        assert_eq!((prober.unexpected(), prober.path_of(0), prober.path_of(1)), (1, Some(9), None));
    }

    #[test]
    fn probes_take_the_paths_in_turn_and_leave_at_their_interval() {
        let mut prober = prober(None);
        let mut left = Vec::new();
        while left.len() < 5 {
            let now = prober.next_time().unwrap();
            prober.on_time(now);
            left.extend(prober.poll_send(now).map(|probe| (now, probe.path)));
        }
        assert_eq!(left, [(10, 0), (1_010, 1), (2_010, 2), (3_010, 0), (4_010, 1)].map(|(us, path)| (US(us), path)));
        // After an interruption the prober sends no burst, and keeps its phase.
        assert!(prober.poll_send(US(50_000)).is_some());
        assert_eq!(prober.poll_send(US(50_000)), None);
        prober.on_time(US(50_000));
        assert_eq!(prober.next_time(), Some(US(50_010)));
        prober.skip_missed(US(99_999));
        assert_eq!(prober.poll_send(US(99_999)), None);
        assert!(prober.poll_send(US(100_010)).is_some());
    }

    /// A responder cannot claim a delay that is longer than the time in which its response arrived.
    #[test]
    fn an_impossible_delay_is_ignored() {
        for (delay, is_possible) in [(US(40), true), (US(41), true), (US(42), false), (US(1_000_000_000), false)] {
            let mut prober = prober(Some(1));
            prober.poll_send(US(10)).unwrap();
            prober.sent(0, US(12));
            prober.received(US(52), US(57), &answer(0, Kind::Response));
            prober.received(US(60), US(61), &answer(0, Kind::Report { delay }));
            let times = prober.poll_outcome().unwrap().result.unwrap();
            assert_eq!((times.total, times.split.is_some()), (US(47), is_possible), "{delay}");
        }
    }

    #[test]
    fn each_probe_has_one_outcome() {
        let mut prober = prober(Some(4));
        for sequence in 0..4 {
            let now = US(10 + 1_000 * sequence);
            prober.poll_send(now).unwrap();
            prober.sent(sequence, now);
        }
        prober.failed(1, ProbeError::Unreachable);
        // For probe 0 only the report arrives, for probe 2 only the response, and for probe 3 both, twice and in
        // reverse order.
        prober.received(US(3_100), US(3_100), &answer(0, Kind::Report { delay: US(1) }));
        prober.received(US(3_100), US(3_100), &answer(2, Kind::Response));
        for _ in 0..2 {
            prober.received(US(3_100), US(3_100), &answer(3, Kind::Report { delay: US(1) }));
            prober.received(US(3_110), US(3_110), &answer(3, Kind::Response));
        }
        for datagram in [&answer(9, Kind::Response)[..], &[0; 40], &[], &answer(0, Kind::Probe)] {
            prober.received(US(3_200), US(3_200), datagram);
        }
        prober.on_time(US(7_010));
        let outcomes: Vec<_> = std::iter::from_fn(|| prober.poll_outcome())
            .map(|outcome| (outcome.sequence, outcome.result.map(|times| times.split.is_some())))
            .collect();
        let expected =
            [(1, Err(ProbeError::Unreachable)), (3, Ok(true)), (0, Err(ProbeError::Timeout)), (2, Ok(false))];
        assert_eq!(outcomes, expected);
        assert!(prober.is_done());
        assert_eq!(prober.unexpected(), 6);
    }

    /// The number of outstanding probes is limited, whatever the timeout is.
    #[test]
    fn many_unanswered_probes() {
        let mut prober = prober(None);
        prober.config.timeout = Time::from_ms(1_000_000_000);
        for round in 0..2 * MAX_OUTSTANDING as u64 {
            prober.poll_send(US(10 + 1_000 * round)).unwrap();
            assert!(prober.outstanding.len() <= MAX_OUTSTANDING);
            while prober.poll_outcome().is_some() {}
        }
        prober.end(ProbeError::Gone);
        assert!(std::iter::from_fn(|| prober.poll_outcome()).all(|outcome| outcome.result == Err(ProbeError::Gone)));
        assert!(prober.is_done());
    }

    proptest! {
        /// Whatever datagrams arrive, each probe has one outcome, and no partial time is longer than the total.
        #[test]
        fn unexpected_datagrams_change_no_count(
            datagrams in prop::collection::vec((0..6_u64, 0..4_u8, any::<u64>(), 0..3_000_u64), 0..60)
        ) {
            let mut prober = prober(Some(4));
            let mut now = US(10);
            let mut outcomes = Vec::new();
            for (sequence, kind, delay, later) in datagrams {
                if let Some(probe) = prober.poll_send(now) {
                    prober.sent(probe.sequence, now);
                }
                let kind = match kind {
                    0 => Kind::Response,
                    1 => Kind::Report { delay: Time::from_ns(delay % 10_000_000) },
                    _ => Kind::Probe,
                };
                let mut bytes = answer(sequence, kind);
                if delay % 7 == 0 {
                    bytes[(delay % 32) as usize] ^= 1;
                }
                prober.received(now, now, &bytes);
                prober.on_time(now);
                outcomes.extend(std::iter::from_fn(|| prober.poll_outcome()));
                now += US(later);
            }
            prober.end(ProbeError::Timeout);
            outcomes.extend(std::iter::from_fn(|| prober.poll_outcome()));
            let mut sequences: Vec<u64> = outcomes.iter().map(|outcome| outcome.sequence).collect();
            sequences.sort_unstable();
            prop_assert_eq!(sequences, (0..prober.count()).collect::<Vec<_>>());
            for outcome in outcomes {
                if let Ok(Times { total, prober, split }) = outcome.result {
                    prop_assert!(prober <= total && split.is_none_or(|split| split.network <= total));
                }
            }
        }
    }
}
