//! A histogram of times. Its memory grows with the number of different values, because most windows of a pair of hosts
//! have few probes.

/// Number of buckets per power of two. Values below this number are exact; larger values are exact to 1.6 %.
const STEPS: u64 = 64;

/// Counts of times in nanoseconds.
#[derive(Clone, PartialEq, Eq, Default, Debug)]
pub struct Histogram {
    /// Bucket and count, in order.
    counts: Vec<(u16, u32)>,
}

fn bucket(ns: u64) -> u16 {
    if ns < STEPS {
        return ns as u16;
    }
    let exponent = u64::from(ns.ilog2() - STEPS.ilog2());
    // From STEPS to 2 * STEPS - 1.
    let mantissa = ns >> exponent;
    (STEPS * exponent + mantissa) as u16
}

/// The middle of a bucket.
fn value(bucket: u16) -> f64 {
    let bucket = u64::from(bucket);
    if bucket < 2 * STEPS {
        return bucket as f64;
    }
    let exponent = bucket / STEPS - 1;
    let mantissa = bucket - STEPS * exponent;
    (mantissa as f64 + 0.5) * (1u64 << exponent) as f64
}

impl Histogram {
    /// Adds a time in nanoseconds.
    pub fn add(&mut self, ns: u64) {
        let bucket = bucket(ns);
        match self.counts.binary_search_by_key(&bucket, |(bucket, _)| *bucket) {
            Ok(at) => self.counts[at].1 = self.counts[at].1.saturating_add(1),
            Err(at) => self.counts.insert(at, (bucket, 1)),
        }
    }

    /// Adds all times of another histogram.
    pub fn merge(&mut self, other: &Histogram) {
        if self.counts.is_empty() {
            self.counts = other.counts.clone();
            return;
        }
        let mut merged = Vec::with_capacity(self.counts.len() + other.counts.len());
        let (mut a, mut b) = (&self.counts[..], &other.counts[..]);
        while let (Some(x), Some(y)) = (a.first(), b.first()) {
            let (from_a, from_b) = (x.0 <= y.0, y.0 <= x.0);
            let count = if from_a { x.1 } else { 0 }.saturating_add(if from_b { y.1 } else { 0 });
            merged.push((x.0.min(y.0), count));
            a = &a[usize::from(from_a)..];
            b = &b[usize::from(from_b)..];
        }
        merged.extend(a.iter().chain(b));
        self.counts = merged;
    }

    /// Number of times.
    pub fn len(&self) -> u64 {
        self.counts.iter().map(|(_, count)| u64::from(*count)).sum()
    }

    /// Whether the histogram is empty.
    pub fn is_empty(&self) -> bool {
        self.counts.is_empty()
    }

    /// Quantile in nanoseconds by nearest rank: the share `part` (0 to 1) of all times does not exceed it. `None` if
    /// the histogram is empty.
    pub fn quantile(&self, part: f64) -> Option<f64> {
        let rank = ((self.len() as f64 * part).ceil() as u64).max(1);
        let mut passed = 0;
        let found = self.counts.iter().find(|(_, count)| {
            passed += u64::from(*count);
            passed >= rank
        });
        found.or(self.counts.last()).map(|(bucket, _)| value(*bucket))
    }

    /// Number of times above a bound in nanoseconds.
    pub fn above(&self, bound: u64) -> u64 {
        let bound = bucket(bound);
        self.counts.iter().filter(|(bucket, _)| *bucket > bound).map(|(_, count)| u64::from(*count)).sum()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    #[test]
    fn percentiles() {
        let mut all = Histogram::default();
        let mut halves = [Histogram::default(), Histogram::default()];
        for n in 1..=1_000_u64 {
            all.add(n * 1_000);
            halves[(n % 2) as usize].add(n * 1_000);
        }
        for (part, expected) in [(0.5, 500e3), (0.99, 990e3), (0.999, 999e3), (1.0, 1e6), (0.0, 1e3)] {
            let found = all.quantile(part).unwrap();
            assert!((found / expected - 1.0).abs() < 0.016, "{part}: {found}");
        }
        let [mut a, b] = halves;
        a.merge(&b);
        assert_eq!((&a, a.len(), Histogram::default().quantile(0.5)), (&all, 1_000, None));
        assert!((480..=510).contains(&all.above(500_000)));
    }

    proptest! {
        #[test]
        fn a_value_is_close_to_its_bucket(ns in any::<u64>(), other in any::<u64>()) {
            let found = value(bucket(ns));
            prop_assert!((found - ns as f64).abs() <= ns as f64 / 64.0 + 0.5);
            prop_assert!(ns.cmp(&other).is_eq() || (bucket(ns) <= bucket(other)) == (ns < other) || bucket(ns) == bucket(other));
        }
    }
}
