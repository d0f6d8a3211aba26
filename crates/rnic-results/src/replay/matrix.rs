//! The matrix of a recording: bytes from each group of senders to each group of receivers over time. It has the same
//! size for every number of hosts.

use super::recorder::Recorder;
use rnic_transport::Time;

/// Largest number of groups of hosts.
const GROUPS: u32 = 64;
/// Number of instants after which every second one is dropped.
const INSTANTS: usize = 256;
/// Number of instants that stay in any case.
const MIN_INSTANTS: usize = 16;
/// Largest number of units in a cell at the end of the run.
const UNITS: u64 = 1_023;

/// The bytes of the cells. The cell of sending group s and receiving group r is s * groups + r.
#[derive(Clone, Debug)]
pub(super) struct Matrix {
    /// Number of groups of hosts.
    pub(super) groups: u32,
    /// Number of consecutive hosts in a group; the last group may have fewer.
    pub(super) size: u32,
    now: Box<[u64]>,
    /// Bytes since the start of the run at successive instants, about equally distant.
    pub(super) instants: Vec<(Time, Box<[u64]>)>,
    interval: Time,
    next: Time,
}

/// The matrix in units, for a file.
pub(super) struct InUnits {
    /// Bytes of a unit.
    pub(super) unit: u64,
    /// For each instant, its time, and the cells that got more units since the instant before, and how many more.
    pub(super) increments: Vec<(Time, Vec<(u32, u64)>)>,
}

impl Matrix {
    /// The empty matrix of a fabric.
    pub(super) fn new(hosts: u32) -> Matrix {
        let size = hosts.div_ceil(GROUPS).max(1);
        let groups = hosts.div_ceil(size).max(1);
        Matrix {
            groups,
            size,
            now: vec![0; (groups * groups) as usize].into(),
            instants: Vec::new(),
            interval: Recorder::INTERVAL,
            next: Time::ZERO,
        }
    }

    /// Adds bytes that have arrived.
    pub(super) fn add(&mut self, src: u32, dst: u32, bytes: u64) {
        let cell = src / self.size * self.groups + dst / self.size;
        if let Some(sum) = self.now.get_mut(cell as usize) {
            *sum += bytes;
        }
    }

    /// Notes the bytes until `time`, if the latest instant is long enough ago.
    pub(super) fn note(&mut self, time: Time) {
        if time >= self.next {
            self.close(time);
        }
    }

    /// Notes the bytes until `time`, the end of the run.
    pub(super) fn close(&mut self, time: Time) {
        if self.instants.last().is_some_and(|(last, _)| *last >= time) {
            return;
        }
        self.instants.push((time, self.now.clone()));
        if self.instants.len() >= INSTANTS {
            self.thin();
            self.interval = self.interval.saturating_add(self.interval);
        }
        self.next = time.saturating_add(self.interval);
    }

    /// Number of values in all instants.
    pub(super) fn values(&self) -> usize {
        self.instants.len() * self.now.len()
    }

    /// Drops every second instant, but not the last one. Returns whether instants were dropped: a few stay.
    pub(super) fn thin(&mut self) -> bool {
        let count = self.instants.len();
        if count <= MIN_INSTANTS {
            return false;
        }
        let mut index = 0usize;
        self.instants.retain(|_| {
            index += 1;
            (count - index).is_multiple_of(2)
        });
        true
    }

    /// The matrix in units, of which the largest cell has at most [`UNITS`]. The units up to each instant are rounded,
    /// so that errors do not add up.
    pub(super) fn in_units(&self) -> InUnits {
        let most = self.now.iter().max().copied().unwrap_or(0);
        let unit = most.div_ceil(UNITS).max(1);
        let mut before = vec![0; self.now.len()];
        let increments = self.instants.iter().map(|(time, bytes)| {
            let cells = bytes.iter().zip(&mut before).zip(0u32..).filter_map(|((bytes, before), cell)| {
                let units = (bytes + unit / 2) / unit;
                let increment = units - std::mem::replace(before, units);
                (increment > 0).then_some((cell, increment))
            });
            (*time, cells.collect())
        });
        InUnits { unit, increments: increments.collect() }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn us(time: u64) -> Time {
        Time::from_us(time)
    }

    #[test]
    fn instants_have_the_bytes_until_then() {
        let mut matrix = Matrix::new(2);
        for (time, bytes) in [(0, 0), (1, 100), (2, 50), (3, 0)] {
            matrix.add(0, 1, bytes);
            matrix.note(us(time));
        }
        assert_eq!((matrix.groups, matrix.size), (2, 1));
        let InUnits { unit, increments } = matrix.in_units();
        assert_eq!(unit, 1);
        assert_eq!(increments, [(us(0), vec![]), (us(1), vec![(1, 100)]), (us(2), vec![(1, 50)]), (us(3), vec![])]);
    }

    #[test]
    fn instants_become_fewer_as_the_run_becomes_longer() {
        let mut matrix = Matrix::new(2);
        for time in 0..1_000 {
            matrix.add(0, 1, 1);
            matrix.note(us(time));
        }
        matrix.close(us(1_000));
        matrix.close(us(1_000));
        let times: Vec<u64> = matrix.instants.iter().map(|(time, _)| time.as_ps() / 1_000_000).collect();
        // 128 instants until 255 us, 128 more 2 us apart, then 4 us, then 8 us.
        assert!(times.len() < INSTANTS && times.windows(2).all(|pair| pair[1] - pair[0] <= 8), "{times:?}");
        assert_eq!(*times.last().unwrap(), 1_000);
        assert!(matrix.instants.iter().all(|(time, bytes)| bytes[1] == (time.as_ps() / 1_000_000 + 1).min(1_000)));
        while matrix.thin() {}
        assert!(matrix.instants.len() <= MIN_INSTANTS && matrix.instants.last().unwrap().0 == us(1_000));
    }

    #[test]
    fn a_ring_of_many_hosts_is_a_line_beside_the_diagonal() {
        let mut matrix = Matrix::new(16_384);
        (0..16_384).for_each(|host| matrix.add(host, (host + 256) % 16_384, 1_000));
        matrix.close(us(64));
        assert_eq!((matrix.groups, matrix.size), (64, 256));
        let cells = &matrix.instants[0].1;
        for cell in 0..64 * 64 {
            let (from, to) = (cell / 64, cell % 64);
            assert_eq!(cells[cell], if to == (from + 1) % 64 { 256_000 } else { 0 }, "{cell}");
        }
    }

    #[test]
    fn units_bound_large_cells() {
        let mut matrix = Matrix::new(2);
        matrix.add(1, 0, 10_000_000_000);
        matrix.close(us(128));
        let InUnits { unit, increments } = matrix.in_units();
        assert_eq!(unit, 9_775_172); // 10 GB / 1,023, rounded up
        assert_eq!(increments, [(us(128), vec![(2, 1_023)])]);
    }
}
