//! Meshes of probes (`[[fabric.mesh]]`): which host probes which, and the percentiles of the round-trip times.

use rnic_fabric::rng::{Purpose, Stream, mix};
use rnic_fabric::{HostId, MIN_FRAME, ProbeResult, ProbeSpec};
use rnic_spec::{Mesh, MeshPairs, MeshRecord, MeshRow, StackDelay};
use rnic_transport::Time;

/// The probes of all meshes of a run on a fabric with `hosts` hosts, and the length of a probe's headers in bytes. The
/// pairs of a mesh follow those of the mesh before it.
pub(crate) fn probes(meshes: &[Mesh], hosts: u32, header: u32, seed: u64) -> Vec<ProbeSpec> {
    let mut probes = Vec::new();
    for (number, mesh) in (0..).zip(meshes) {
        let bytes = (mesh.payload.0 as u32 + header).min(u32::from(u16::MAX)) as u16;
        for (index, (src, dst)) in (0..).zip(pairs(mesh, number, hosts, seed)) {
            let phase = mix(seed, Purpose::Mesh, &[number, index, 1]) % mesh.interval.as_ps().max(1);
            probes.push(ProbeSpec {
                src: HostId(src),
                dst: HostId(dst),
                bytes: bytes.max(MIN_FRAME),
                priority: mesh.priority,
                start: mesh.start + Time::from_ps(phase),
                interval: mesh.interval,
                resend: mesh.rto,
            });
        }
    }
    probes
}

/// The probing and the responding host of each pair.
fn pairs(mesh: &Mesh, number: u64, hosts: u32, seed: u64) -> Vec<(u32, u32)> {
    match &mesh.pairs {
        MeshPairs::Listed(pairs) => pairs.clone(),
        MeshPairs::Random(count) => {
            let mut stream = Stream::new(seed, Purpose::Mesh, &[number]);
            let hosts = u64::from(hosts);
            let pair = |_| {
                let src = stream.next_u64() % hosts;
                // One of the other hosts: a step of 1 to hosts - 1 from the first.
                let dst = (src + 1 + stream.next_u64() % (hosts - 1)) % hosts;
                (src as u32, dst as u32)
            };
            (0..*count).map(pair).collect()
        }
    }
}

/// Delay of one probe in the software of both hosts.
fn stack_delay(stack: &StackDelay, seed: u64, result: &ProbeResult) -> Time {
    /// The 99th percentile of the standard normal distribution.
    const Z99: f64 = 2.326_347_874;
    let mut stream = Stream::new(seed, Purpose::Stack, &[u64::from(result.pair), result.at.as_ps()]);
    // Numbers from 0 (exclusive) to 1 with 53 random bits, and of these a standard normal number (Box and Muller,
    // 1958).
    let mut unit = || ((stream.next_u64() >> 11) as f64 + 0.5) / (1u64 << 53) as f64;
    let normal = (-2.0 * unit().ln()).sqrt() * (std::f64::consts::TAU * unit()).cos();
    let spread = (stack.p99.as_ps() as f64 / stack.median.as_ps().max(1) as f64).ln() / Z99;
    Time::from_ps((stack.median.as_ps() as f64 * (spread * normal).exp()) as u64)
}

/// The records of all meshes. `pairs_of` has the number of pairs of each, `results` what they measured, in order of
/// time. `tell` gets the index of the mesh and each result, with the delay of the hosts' software in its round-trip
/// time.
pub(crate) fn records(
    meshes: &[Mesh], pairs_of: &[usize], results: &[ProbeResult], seed: u64, tell: &mut dyn FnMut(usize, ProbeResult),
) -> Vec<MeshRecord> {
    let mut first = 0;
    let mut records = Vec::new();
    for (number, (mesh, pairs)) in meshes.iter().zip(pairs_of).enumerate() {
        let range = first..first + pairs;
        first = range.end;
        let own = results.iter().filter(|result| range.contains(&(result.pair as usize)));
        let mut total = Window::default();
        let mut rows: Vec<MeshRow> = Vec::new();
        let mut window = Window::default();
        let mut from = Time::ZERO;
        for result in own {
            let start = Time::from_ps(result.at.as_ps() / mesh.window.as_ps() * mesh.window.as_ps());
            if start != from && window.probes > 0 {
                rows.push(std::mem::take(&mut window).row(from));
            }
            from = start;
            let delay = mesh.stack.as_ref().map_or(Time::ZERO, |stack| stack_delay(stack, seed, result));
            let rtt = result.rtt.map(|rtt| rtt + delay);
            tell(number, ProbeResult { rtt, ..*result });
            window.add(rtt);
            total.add(rtt);
        }
        if window.probes > 0 {
            rows.push(window.row(from));
        }
        records.push(MeshRecord { name: mesh.name.clone(), total: total.row(Time::ZERO), rows });
    }
    records
}

/// The probes of a window of simulated time.
#[derive(Default)]
struct Window {
    probes: u64,
    rtts: Vec<Time>,
}

impl Window {
    fn add(&mut self, rtt: Option<Time>) {
        self.probes += 1;
        self.rtts.extend(rtt);
    }

    fn row(mut self, from: Time) -> MeshRow {
        self.rtts.sort_unstable();
        let count = self.rtts.len();
        // Nearest rank: the smallest value that at least this part of all values does not exceed.
        let rank = |per_mille: usize| (count * per_mille).div_ceil(1_000).saturating_sub(1);
        let at = |per_mille: usize| self.rtts.get(rank(per_mille)).copied().unwrap_or_default();
        MeshRow {
            from,
            probes: self.probes,
            unanswered: self.probes - count as u64,
            p50: at(500),
            p99: at(990),
            p999: at(999),
            max: at(1_000),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use rnic_transport::Bytes;

    fn mesh(pairs: MeshPairs, stack: Option<StackDelay>) -> Mesh {
        Mesh {
            name: "mesh".to_string(),
            pairs,
            interval: Time::from_us(10),
            start: Time::from_us(5),
            payload: Bytes(512),
            priority: 0,
            window: Time::from_us(100),
            rto: None,
            stack,
        }
    }

    #[test]
    fn pairs_have_two_hosts_and_begin_within_the_first_interval() {
        let meshes = [mesh(MeshPairs::Random(200), None), mesh(MeshPairs::Listed(vec![(1, 0)]), None)];
        let probes = probes(&meshes, 3, 62, 7);
        assert_eq!(probes.len(), 201);
        assert!(probes.iter().all(|probe| probe.src != probe.dst && probe.dst.0 < 3 && probe.bytes == 574));
        assert!(probes.iter().all(|probe| (Time::from_us(5)..Time::from_us(15)).contains(&probe.start)));
        assert_eq!((probes[200].src, probes[200].dst), (HostId(1), HostId(0)));
    }

    #[test]
    fn percentiles_by_nearest_rank_and_by_window() {
        let meshes = [mesh(MeshPairs::Listed(vec![(0, 1)]), None)];
        let result = |at, rtt: Option<u64>| ProbeResult { at: Time::from_us(at), pair: 0, rtt: rtt.map(Time::from_us) };
        let mut results: Vec<ProbeResult> = (1..=100).map(|n| result(n - 1, Some(n))).collect();
        results.extend([result(250, None), result(260, Some(7))]);
        let records = records(&meshes, &[1], &results, 1, &mut |_, _| ());
        let us = |row: &MeshRow| [row.p50, row.p99, row.p999, row.max].map(|time| time.as_us());
        let rows = &records[0].rows;
        assert_eq!((rows.len(), us(&rows[0]), rows[0].probes), (2, [50.0, 99.0, 100.0, 100.0], 100));
        assert_eq!(
            (rows[1].from, rows[1].probes, rows[1].unanswered, us(&rows[1])),
            (Time::from_us(200), 2, 1, [7.0; 4])
        );
        assert_eq!((records[0].total.probes, records[0].total.unanswered), (102, 1));
    }

    #[test]
    fn the_stack_delay_has_the_declared_percentiles() {
        let stack = StackDelay { median: Time::from_us(100), p99: Time::from_us(500) };
        let meshes = [mesh(MeshPairs::Listed(vec![(0, 1)]), Some(stack))];
        let result = |at| ProbeResult { at: Time::from_ns(at), pair: 0, rtt: Some(Time::ZERO) };
        let results: Vec<ProbeResult> = (0..50_000).map(result).collect();
        let total = records(&meshes, &[1], &results, 1, &mut |_, _| ())[0].total;
        assert!((total.p50.as_us() / 100.0 - 1.0).abs() < 0.03, "{}", total.p50);
        assert!((total.p99.as_us() / 500.0 - 1.0).abs() < 0.05, "{}", total.p99);
    }
}
