//! The matrix of a replay: bytes from each group of senders to each group of receivers over time. It has the same size
//! for every number of hosts.

use rnic_spec::RunRecord;

/// Largest number of groups of hosts.
const GROUPS: u32 = 64;
/// Number of instants at which the matrix has its bytes.
pub(super) const INSTANTS: usize = 128;
/// Largest number of units in a cell at the end of the run.
const UNITS: u64 = 1_023;

/// The bytes of the cells at [`INSTANTS`] equally distant instants, of which the last is the end of the run.
pub(super) struct Matrix {
    /// Number of groups of hosts.
    pub(super) groups: u32,
    /// Number of consecutive hosts in a group; the last group may have fewer.
    pub(super) size: u32,
    /// Bytes of a unit.
    pub(super) unit: u64,
    /// For each instant, the cells whose units have increased since the previous instant, and the increase. The cell of
    /// sending group s and receiving group r is s * groups + r.
    pub(super) increments: Vec<Vec<(u32, u64)>>,
}

impl Matrix {
    /// The matrix of a run. The bytes of a flow are spread evenly over the time from its start to its finish.
    pub(super) fn of(hosts: u32, report: &RunRecord) -> Matrix {
        let size = hosts.div_ceil(GROUPS).max(1);
        let groups = hosts.div_ceil(size).max(1);
        let cells = (groups * groups) as usize;
        let end = report.output.end.as_ps().max(1);
        let mut bytes = vec![0f64; INSTANTS * cells];
        for flow in report.output.flows.iter() {
            let cell = (flow.src / size * groups + flow.dst / size) as usize;
            if cell >= cells {
                continue;
            }
            let until = flow.finish.unwrap_or(report.output.end).as_ps().clamp(1, end);
            let total = if flow.finish.is_some() { flow.bytes } else { flow.delivered };
            spread(&mut bytes, cells, cell, [flow.start.as_ps().min(until), until], total as f64, end);
        }
        let sums = (0..cells).map(|cell| bytes.iter().skip(cell).step_by(cells).sum::<f64>());
        let most = sums.fold(0.0, f64::max);
        let unit = ((most / UNITS as f64).ceil() as u64).max(1);
        Matrix { groups, size, unit, increments: in_units(&bytes, cells, unit) }
    }

    /// What a cell gets in the interval before each instant.
    #[cfg(test)]
    fn bytes(&self, cell: u32) -> Vec<u64> {
        let at = |instant: &Vec<(u32, u64)>| instant.iter().find(|(c, _)| *c == cell).map_or(0, |(_, units)| *units);
        self.increments.iter().map(|instant| at(instant) * self.unit).collect()
    }
}

/// Adds `total` bytes to a cell, spread evenly over the picoseconds from the first to the second of `times`.
fn spread(bytes: &mut [f64], cells: usize, cell: usize, times: [u64; 2], total: f64, end: u64) {
    let length = end as f64 / INSTANTS as f64;
    let [from, to] = times.map(|time| time as f64);
    let index = |time: f64| ((time / length) as usize).min(INSTANTS - 1);
    let last = index(to);
    for instant in index(from)..=last {
        let (start, stop) = (from.max(instant as f64 * length), to.min((instant + 1) as f64 * length));
        let part =
            if to > from { ((stop - start) / (to - from)).max(0.0) } else { f64::from(u8::from(instant == last)) };
        bytes[instant * cells + cell] += part * total;
    }
}

/// The increments in units. The units up to each instant are rounded, so that errors do not add up.
fn in_units(bytes: &[f64], cells: usize, unit: u64) -> Vec<Vec<(u32, u64)>> {
    let mut sums = vec![(0f64, 0u64); cells];
    let instant = |row: &[f64]| {
        let cells = row.iter().zip(&mut sums).zip(0u32..).filter_map(|((more, (sum, units)), cell)| {
            *sum += more;
            let now = (*sum / unit as f64).round() as u64;
            let increment = now.saturating_sub(*units);
            *units = now.max(*units);
            (increment > 0).then_some((cell, increment))
        });
        cells.collect()
    };
    bytes.chunks(cells).map(instant).collect()
}

#[cfg(test)]
mod tests {
    use super::super::super::fixture;
    use super::*;
    use rnic_spec::FlowRecord;
    use rnic_transport::Time;

    fn report(flows: &[(u32, u32, u64, u64, Option<u64>)], end: u64) -> RunRecord {
        let (_, mut reports) = fixture::empty();
        let flow = |(id, &(src, dst, bytes, start, finish)): (usize, &(u32, u32, u64, u64, Option<u64>))| FlowRecord {
            src,
            dst,
            start: Time::from_us(start),
            finish: finish.map(Time::from_us),
            ..fixture::flow(id as u32, bytes)
        };
        reports[0].output.flows = flows.iter().enumerate().map(flow).collect();
        reports[0].output.end = Time::from_us(end);
        reports.remove(0)
    }

    #[test]
    fn bytes_are_spread_over_the_time_of_a_flow() {
        // Instants of 1 us. 300 bytes from 1 to 4 us, and 50 at the end of the second instant.
        let matrix = Matrix::of(2, &report(&[(0, 1, 300, 1, Some(4)), (0, 1, 50, 2, Some(2))], 128));
        assert_eq!((matrix.groups, matrix.size, matrix.unit), (2, 1, 1));
        let bytes = matrix.bytes(1);
        assert_eq!(bytes[..5], [0, 100, 100 + 50, 100, 0]);
        assert_eq!(bytes.iter().sum::<u64>(), 350);
        assert!([0, 2, 3].iter().all(|cell| matrix.bytes(*cell).iter().sum::<u64>() == 0));
    }

    #[test]
    fn a_ring_of_many_hosts_is_a_line_beside_the_diagonal() {
        let flows: Vec<_> = (0..16_384).map(|host| (host, (host + 256) % 16_384, 1_000, 0, Some(64))).collect();
        let matrix = Matrix::of(16_384, &report(&flows, 128));
        assert_eq!((matrix.groups, matrix.size), (64, 256));
        for cell in 0..64 * 64 {
            let (from, to) = (cell / 64, cell % 64);
            let expected = if to == (from + 1) % 64 { 256_000 } else { 0 };
            let sum: u64 = matrix.bytes(cell).iter().sum();
            assert!(sum.abs_diff(expected) <= matrix.unit, "{cell}: {sum}");
        }
    }

    #[test]
    fn units_bound_large_cells() {
        let matrix = Matrix::of(2, &report(&[(1, 0, 10_000_000_000, 0, Some(128))], 128));
        assert_eq!(matrix.unit, 9_775_172); // 10 GB / 1,023, rounded up
        assert!(matrix.bytes(2).iter().sum::<u64>().abs_diff(10_000_000_000) <= matrix.unit);
    }
}
