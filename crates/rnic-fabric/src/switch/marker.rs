//! ECN marking by the length of an egress queue.

use crate::rng::{Purpose, Stream};
use rnic_transport::congestion::Marking;

/// ECN marking: thresholds, and the state of each output.
pub(super) struct Marker {
    kmin: u64,
    kmax: u64,
    /// Probability at `kmax` in units of 2^-64.
    pmax: f64,
    /// Whether packets are marked when they leave, not when they come.
    pub(super) departures: bool,
    /// Per output.
    streams: Vec<Stream>,
}

impl Marker {
    pub(super) fn new(marking: Marking, departures: bool, first_port: usize, ports: usize, seed: u64) -> Marker {
        Marker {
            departures,
            kmin: marking.kmin.0,
            kmax: marking.kmax.0,
            pmax: marking.pmax * u64::MAX as f64,
            streams: (0..ports)
                .map(|port| Stream::new(seed, Purpose::Marking, &[(first_port + port) as u64]))
                .collect(),
        }
    }

    /// Whether a packet that joins a queue of `queue` bytes, or leaves it behind, is to be marked. A random number is drawn only where it matters.
    #[inline]
    pub(super) fn marks(&mut self, output: usize, queue: u64) -> bool {
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
