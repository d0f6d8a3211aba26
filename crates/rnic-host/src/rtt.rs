//! Round-trip times from completion timestamps: RoGUE's formula.
//!
//! `RTT_i = T_comp(i) - T_start(i) - bytes_i / rate_limit`, with `T_start(i) = max(time at which request i was
//! enqueued, time at which the last packet of request i - 1 left the NIC)`.
//!
//! Software sees when it enqueued a request and when the request completed, but not when its last packet left the NIC.
//! So the departure is computed: `T_left(i) = T_start(i) + bytes_i / rate_limit`. This choice is a reconstruction. With
//! it the formula becomes `RTT_i = T_comp(i) - T_left(i)`, also for several small requests of which only the last
//! is signalled.

use rnic_transport::{BitRate, Time};

/// The computed departure of a request.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Departure {
    /// `T_start`: when the first packet of the request could leave the NIC.
    pub start: Time,
    /// `T_left`: when the last packet left the NIC.
    pub left: Time,
}

impl Departure {
    /// The round-trip time of a request that completed at `completed`; zero if the completion is earlier than the
    /// computed departure, which happens when the NIC sends faster than its limit.
    pub fn rtt(&self, completed: Time) -> Time {
        completed.saturating_sub(self.left)
    }
}

/// Computes the departures of the requests of one queue pair, in the order in which they are enqueued.
///
/// ```
/// use rnic_host::Departures;
/// use rnic_transport::{BitRate, Time};
///
/// // Two chunks of 62,500 bytes at 10 Gbps, 50 us each, are enqueued at 0 and at 10 us.
/// let mut departures = Departures::default();
/// let rate = BitRate::from_gbps(10);
/// let first = departures.enqueue(Time::ZERO, 62_500, rate);
/// let second = departures.enqueue(Time::from_us(10), 62_500, rate);
/// // The second waits in the NIC until the first has left. Both complete 12 us after their last packets left.
/// assert_eq!(second.start, Time::from_us(50));
/// assert_eq!(first.rtt(Time::from_us(62)), Time::from_us(12));
/// assert_eq!(second.rtt(Time::from_us(112)), Time::from_us(12));
/// ```
#[derive(Clone, Copy, Default, Debug)]
pub struct Departures {
    left: Time,
}

impl Departures {
    /// Handles a request of `bytes` bytes on the wire that is enqueued at `enqueued`, while the rate limit is `rate`.
    pub fn enqueue(&mut self, enqueued: Time, bytes: u64, rate: BitRate) -> Departure {
        let start = enqueued.max(self.left);
        self.left = start + rate.time_for(bytes);
        Departure { start, left: self.left }
    }

    /// Computes the departures of the posted requests again, oldest first, because the NIC changes its rate limit from
    /// `old` to `new` at `now`. `posted` contains the departures and the lengths on the wire. The rest of the request
    /// that is being sent leaves at the new rate, and the requests behind it wait for it.
    pub(crate) fn change_rate<'d>(
        &mut self, now: Time, old: BitRate, new: BitRate, posted: impl Iterator<Item = (&'d mut Departure, u64)>,
    ) {
        let mut left = now;
        for (departure, bytes) in posted.filter(|(departure, _)| departure.left > now) {
            let is_leaving = departure.start < now;
            let rest = if is_leaving { old.bytes_in(departure.left - now) } else { bytes };
            if !is_leaving {
                departure.start = left;
            }
            left += new.time_for(rest);
            departure.left = left;
        }
        if self.left > now {
            self.left = left;
        }
    }

    /// Forgets the requests so far, because the queue pair was reset.
    pub fn reset(&mut self) {
        self.left = Time::ZERO;
    }
}

/// Exponentially weighted moving average of round-trip times, with weight 1/8 for a new value, as in TCP (RFC 6298).
#[derive(Clone, Copy, Default, Debug)]
pub(crate) struct Smoothed(Option<Time>);

impl Smoothed {
    pub(crate) fn sample(&mut self, rtt: Time) {
        let ps = rtt.as_ps().max(1);
        self.0 = Some(self.0.map_or(Time::from_ps(ps), |old| Time::from_ps((old.as_ps() * 7 + ps) / 8)));
    }
    /// The average; `None` before the first sample.
    pub(crate) fn get(self) -> Option<Time> {
        self.0
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A known queue: a bottleneck of 5 Gbps behind a NIC that sends at its limit of 10 Gbps. Chunks of 62,500 bytes
    /// leave every 50 us and drain in 100 us, so each waits 50 us longer than the previous chunk. The ACK takes 2 us.
    #[test]
    fn the_rtt_is_the_queue_of_a_known_bottleneck() {
        let mut departures = Departures::default();
        for chunk in 0..6_u64 {
            let departure = departures.enqueue(Time::ZERO, 62_500, BitRate::from_gbps(10));
            assert_eq!(departure.start, Time::from_us(50 * chunk));
            let drained = Time::from_us(100 * (chunk + 1));
            let expected = Time::from_us(50 * (chunk + 1) + 2);
            assert_eq!(departure.rtt(drained + Time::from_us(2)), expected, "chunk {chunk}");
        }
    }

    /// The rate changes while a chunk of 62,500 bytes is half sent at 10 Gbps, and a second one waits: at 5 Gbps the
    /// rest takes 50 us, and the second chunk 100 us. Then the rate is 10 Gbps again when the second chunk is half
    /// sent.
    #[test]
    fn a_change_of_the_rate_moves_the_departures() {
        let (fast, slow) = (BitRate::from_gbps(10), BitRate::from_gbps(5));
        let mut departures = Departures::default();
        let mut posted = [0, 1].map(|_| departures.enqueue(Time::ZERO, 62_500, fast));
        let change = |departures: &mut Departures, posted: &mut [Departure; 2], us, from, to| {
            departures.change_rate(Time::from_us(us), from, to, posted.iter_mut().map(|one| (one, 62_500)));
            posted.map(|one| (one.start.as_ps() / 1_000_000, one.left.as_ps() / 1_000_000))
        };
        assert_eq!(change(&mut departures, &mut posted, 25, fast, slow), [(0, 75), (75, 175)]);
        assert_eq!(change(&mut departures, &mut posted, 125, slow, fast), [(0, 75), (75, 150)]);
        let third = departures.enqueue(Time::from_us(130), 62_500, fast);
        assert_eq!((third.start, third.left), (Time::from_us(150), Time::from_us(200)));
        // When all have left, a change moves nothing.
        assert_eq!(change(&mut departures, &mut posted, 300, fast, slow), [(0, 75), (75, 150)]);
        assert_eq!(departures.enqueue(Time::from_us(300), 62_500, slow).start, Time::from_us(300));
    }

    /// After a pause of the application, the time of the pause does not count: `T_start` is the time of enqueuing.
    #[test]
    fn an_idle_queue_pair_starts_when_the_request_is_enqueued() {
        let mut departures = Departures::default();
        departures.enqueue(Time::ZERO, 1_250, BitRate::from_gbps(10));
        let departure = departures.enqueue(Time::from_us(500), 1_250, BitRate::from_gbps(1));
        assert_eq!((departure.start, departure.left), (Time::from_us(500), Time::from_us(510)));
        assert_eq!(departure.rtt(Time::from_us(517)), Time::from_us(7));
        // A change of the rate applies to the requests after it.
        let departure = departures.enqueue(Time::from_us(500), 1_250, BitRate::from_gbps(10));
        assert_eq!((departure.start, departure.left), (Time::from_us(510), Time::from_us(511)));
        assert_eq!(departure.rtt(Time::from_us(510)), Time::ZERO, "earlier than computed");
    }

    #[test]
    fn the_average_begins_with_the_first_sample() {
        let mut smoothed = Smoothed::default();
        assert_eq!(smoothed.get(), None);
        smoothed.sample(Time::from_us(80));
        smoothed.sample(Time::from_us(160));
        assert_eq!(smoothed.get(), Some(Time::from_us(90)));
    }
}
