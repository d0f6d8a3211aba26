//! Marking as by RED with the queue of the moment instead of an average, with thresholds for each output and priority
//! (WRED).

use super::{EcnSpec, MarkOn};
use crate::rng::{Purpose, Stream};

/// Thresholds of a switch, and the random stream of each of its outputs.
pub(crate) struct Marker {
    kmin: u64,
    kmax: u64,
    /// Probability at `kmax` in units of 2^-64.
    pmax: f64,
    pub(crate) mark_on: MarkOn,
    /// Per output.
    streams: Vec<Stream>,
}

impl Marker {
    /// For a switch of `outputs` ports, the first of which is port `first_port` of the topology.
    pub(crate) fn new(ecn: &EcnSpec, first_port: usize, outputs: usize, seed: u64) -> Marker {
        let stream = |output: usize| Stream::new(seed, Purpose::Marking, &[(first_port + output) as u64]);
        Marker {
            kmin: ecn.marking.kmin.0,
            kmax: ecn.marking.kmax.0,
            pmax: ecn.marking.pmax * u64::MAX as f64,
            mark_on: ecn.mark_on,
            streams: (0..outputs).map(stream).collect(),
        }
    }

    /// Whether to mark a packet that joins a queue of `queue` bytes, or leaves such a queue behind. A random number is
    /// drawn only between the thresholds.
    #[inline]
    pub(crate) fn marks(&mut self, output: usize, queue: u64) -> bool {
        if queue <= self.kmin {
            return false;
        }
        if queue > self.kmax {
            return true;
        }
        let share = (queue - self.kmin) as f64 / (self.kmax - self.kmin) as f64;
        self.streams[output].next_u64() < (self.pmax * share) as u64
    }
}
