//! ECN marking as in RED, but by the instantaneous queue length instead of an average. Each priority of each output has
//! its own queue; the thresholds are the same for all queues of a switch, unless a slow output has smaller ones.

use super::{EcnSpec, MarkOn};
use crate::rng::{Purpose, Stream};

/// The ECN marker of one switch: thresholds in bytes, and a random stream for each output.
pub(crate) struct Marker {
    kmin: u64,
    kmax: u64,
    /// Both thresholds of each output; empty while all outputs have `kmin` and `kmax`.
    own: Vec<(u64, u64)>,
    /// Marking probability at a queue of `kmax` bytes, in units of 2^-64.
    pmax: f64,
    pub(crate) mark_on: MarkOn,
    /// Per output: its random stream.
    streams: Vec<Stream>,
}

impl Marker {
    /// The marker of a switch with `outputs` ports, the first of which is port `first_port` of the topology.
    pub(crate) fn new(ecn: &EcnSpec, first_port: usize, outputs: usize, seed: u64) -> Marker {
        let stream = |output: usize| Stream::new(seed, Purpose::Marking, &[(first_port + output) as u64]);
        Marker {
            kmin: ecn.marking.kmin.0,
            kmax: ecn.marking.kmax.0,
            own: Vec::new(),
            pmax: ecn.marking.pmax * u64::MAX as f64,
            mark_on: ecn.mark_on,
            streams: (0..outputs).map(stream).collect(),
        }
    }

    /// Changes the thresholds of an output to this share.
    pub(crate) fn scale(&mut self, output: usize, share: f64) {
        if self.own.is_empty() {
            if share == 1.0 {
                return;
            }
            self.own = vec![(self.kmin, self.kmax); self.streams.len()];
        }
        let scaled = |threshold: u64| (threshold as f64 * share) as u64;
        self.own[output] = (scaled(self.kmin), scaled(self.kmax));
    }

    /// Whether to mark a packet that joins a queue of `queue` bytes, or leaves such a queue behind. The function draws
    /// a random number only if the queue length is between `kmin` and `kmax`.
    #[inline]
    pub(crate) fn marks(&mut self, output: usize, queue: u64) -> bool {
        let (kmin, kmax) = if self.own.is_empty() { (self.kmin, self.kmax) } else { self.own[output] };
        if queue <= kmin {
            return false;
        }
        if queue > kmax {
            return true;
        }
        let share = (queue - kmin) as f64 / (kmax - kmin) as f64;
        self.streams[output].next_u64() < (self.pmax * share) as u64
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use rnic_transport::Bytes;
    use rnic_transport::congestion::Marking;

    /// With thresholds of 5 and 200 KB and a probability of 20 %: nothing up to 5 KB, half of 20 % in the middle, 20 %
    /// at 200 KB, everything above. The standard deviation of 100,000 draws is below 0.13 %.
    #[test]
    fn the_probability_rises_from_kmin_to_kmax_and_is_one_above() {
        let marking = Marking { kmin: Bytes(5_000), kmax: Bytes(200_000), pmax: 0.2 };
        let mut marker = Marker::new(&EcnSpec { marking, mark_on: MarkOn::Enqueue }, 0, 2, 1);
        let mut share = |queue| (0..100_000).filter(|_| marker.marks(1, queue)).count() as f64 / 1e5;
        for queue in [0, 5_000] {
            assert_eq!(share(queue), 0.0, "{queue} B");
        }
        for (queue, expected) in [(53_750, 0.05), (102_500, 0.1), (200_000, 0.2)] {
            let measured = share(queue);
            assert!((measured - expected).abs() < 0.006, "{queue} B: {measured} instead of {expected}");
        }
        assert_eq!(share(200_001), 1.0);
    }

    /// Output 1 has a quarter of the thresholds, and the same probability at a quarter of the queue; output 0 keeps its
    /// own, and output 1 gets them back.
    #[test]
    fn an_output_can_have_a_share_of_the_thresholds() {
        let marking = Marking { kmin: Bytes(5_000), kmax: Bytes(200_000), pmax: 1.0 };
        let mut marker = Marker::new(&EcnSpec { marking, mark_on: MarkOn::Enqueue }, 0, 2, 1);
        marker.scale(1, 0.25);
        let mut share = |output, queue| (0..10_000).filter(|_| marker.marks(output, queue)).count() as f64 / 1e4;
        assert_eq!((share(1, 1_250), share(1, 50_001)), (0.0, 1.0));
        assert!((share(1, 25_625) - 0.5).abs() < 0.02);
        assert_eq!((share(0, 5_000), share(0, 200_001)), (0.0, 1.0));
        marker.scale(1, 1.0);
        assert!(!marker.marks(1, 5_000));
    }
}
