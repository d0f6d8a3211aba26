//! The peak message rate of a measurement.

use rnic_transport::Time;

/// Minimum time over which a peak rate is measured. Rates over shorter times are mostly noise.
const SPAN: Time = Time::from_ms(10);

/// Finds the highest message rate over intervals of at least 10 ms.
pub(crate) struct Peak {
    since: Time,
    messages: u64,
    best: f64,
}

impl Peak {
    pub(crate) fn new(now: Time) -> Peak {
        Peak { since: now, messages: 0, best: 0.0 }
    }

    /// Records at `now` that `messages` further messages have completed.
    pub(crate) fn add(&mut self, now: Time, messages: u64) {
        self.messages += messages;
        let span = now.saturating_sub(self.since);
        if span >= SPAN {
            self.best = self.best.max(self.messages as f64 / span.as_secs());
            (self.since, self.messages) = (now, 0);
        }
    }

    /// The highest rate in messages per second over an interval of at least 10 ms; 0 if the measurement was shorter.
    pub(crate) fn best(&self) -> f64 {
        self.best
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_fastest_ten_milliseconds_count() {
        let mut peak = Peak::new(Time::ZERO);
        peak.add(Time::from_ms(9), 1_000);
        assert_eq!(peak.best(), 0.0);
        // 1100 messages in 11 ms, then 3000 in 20 ms, then 10 in 10 ms.
        for (ms, messages) in [(11, 100), (31, 3_000), (41, 10)] {
            peak.add(Time::from_ms(ms), messages);
        }
        assert_eq!(peak.best(), 150_000.0);
    }
}
