//! ECN marking as in RED, but by the instantaneous queue length instead of an average. Each priority of each output has
//! its own queue; the thresholds are the same for all queues of a switch.

use super::{EcnSpec, MarkOn};
use crate::rng::{Purpose, Stream};

/// The ECN marker of one switch: thresholds in bytes, and a random stream for each output.
pub(crate) struct Marker {
    kmin: u64,
    kmax: u64,
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
            pmax: ecn.marking.pmax * u64::MAX as f64,
            mark_on: ecn.mark_on,
            streams: (0..outputs).map(stream).collect(),
        }
    }

    /// Whether to mark a packet that joins a queue of `queue` bytes, or leaves such a queue behind. The function draws
    /// a random number only if the queue length is between `kmin` and `kmax`.
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
