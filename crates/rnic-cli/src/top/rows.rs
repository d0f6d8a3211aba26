//! The queue pairs of all processes, with rates between two readings.

use super::Key;
use rnic_endpoint::statistics::{Process, Processes, QueuePairReport};
use std::collections::BTreeMap;
use std::net::IpAddr;

/// A queue pair.
#[derive(Clone, PartialEq, Debug)]
pub(super) struct Row {
    /// The process ID; `None` for a process of a PID namespace that this command does not see.
    pub(super) pid: Option<u32>,
    /// ID of the process's user.
    pub(super) user: u32,
    /// Name of the program, escaped.
    pub(super) program: String,
    /// Name of the device, escaped.
    pub(super) device: String,
    pub(super) address: IpAddr,
    /// The counters and the state. Text is escaped.
    pub(super) qp: QueuePairReport,
    /// Rates since the last reading; `None` if the queue pair was not there then.
    pub(super) rates: Option<Rates>,
}

/// Rates per second.
#[derive(Clone, Copy, PartialEq, Debug)]
pub(super) struct Rates {
    pub(super) packets_sent: f64,
    pub(super) bytes_sent: f64,
    pub(super) packets_received: f64,
    pub(super) bytes_received: f64,
    pub(super) retransmitted: f64,
}

impl Rates {
    fn of([packets_sent, bytes_sent, packets_received, bytes_received, retransmitted]: [f64; 5]) -> Rates {
        Rates { packets_sent, bytes_sent, packets_received, bytes_received, retransmitted }
    }
}

/// A queue pair of all processes: the process's socket, the device's number in the process, and the QPN.
type Identity = (String, u64, u32);

/// Remembers the counters of the last reading.
#[derive(Default)]
pub(super) struct Meter {
    before: BTreeMap<Identity, (u64, [u64; 5])>,
}

impl Meter {
    /// The queue pairs of a reading, in order of processes.
    pub(super) fn rows(&mut self, all: &Processes) -> Vec<Row> {
        let before = std::mem::take(&mut self.before);
        let mut rows = Vec::new();
        for process in &all.found {
            for device in &process.report.devices {
                for qp in &device.queue_pairs {
                    let identity = (process.id.clone(), device.id, qp.qpn);
                    let now = (process.report.time_ns, counters(qp));
                    let rates = before.get(&identity).and_then(|before| rates(*before, now));
                    self.before.insert(identity, now);
                    rows.push(row(process, &device.name, device.address, qp, rates));
                }
            }
        }
        rows
    }
}

fn row(process: &Process, device: &str, address: IpAddr, qp: &QueuePairReport, rates: Option<Rates>) -> Row {
    Row {
        pid: process.pid,
        user: process.user,
        program: process.report.program.clone(),
        device: device.to_string(),
        address,
        qp: qp.clone(),
        rates,
    }
}

fn counters(qp: &QueuePairReport) -> [u64; 5] {
    [qp.packets_sent, qp.bytes_sent, qp.packets_received, qp.bytes_received, qp.retransmitted]
}

/// The rates between two readings, each with its time in nanoseconds. `None` if a counter or the time went back: then
/// another queue pair has the number.
fn rates((time, before): (u64, [u64; 5]), (now, after): (u64, [u64; 5])) -> Option<Rates> {
    let seconds = now.checked_sub(time).filter(|ns| *ns > 0)? as f64 / 1e9;
    let mut rates = [0.0; 5];
    for (rate, (before, after)) in rates.iter_mut().zip(before.into_iter().zip(after)) {
        *rate = after.checked_sub(before)? as f64 / seconds;
    }
    Some(Rates::of(rates))
}

/// Sorts by a column, the highest value first. Rows with equal values stay in the order of processes.
pub(super) fn sort(rows: &mut [Row], key: Key) {
    let rate = |row: &Row, of: fn(&Rates) -> f64| row.rates.as_ref().map_or(-1.0, of);
    let value = |row: &Row| match key {
        Key::Traffic => rate(row, |rates| rates.bytes_sent + rates.bytes_received),
        Key::Send => rate(row, |rates| rates.bytes_sent),
        Key::Receive => rate(row, |rates| rates.bytes_received),
        Key::Retransmissions => rate(row, |rates| rates.retransmitted),
        Key::Rtt => row.qp.sender.as_ref().and_then(|sender| sender.rtt_ns).map_or(-1.0, |ns| ns as f64),
        Key::Outstanding => row.qp.sends.into(),
        Key::Process => 0.0,
    };
    rows.sort_by(|a, b| value(b).total_cmp(&value(a)).then(a.pid.cmp(&b.pid)));
}

#[cfg(test)]
pub(super) mod tests {
    use super::*;
    use rnic_endpoint::statistics::{DeviceReport, Report, SenderReport};

    /// A queue pair that has sent `packets` packets of 1,000 bytes, half of which were retransmissions.
    pub(in super::super) fn pair(qpn: u32, packets: u64) -> QueuePairReport {
        QueuePairReport {
            qpn,
            service: "rc".to_string(),
            state: "RTS".to_string(),
            peer: Some(("10.0.0.2".parse().unwrap(), 0xabc)),
            packets_sent: packets,
            bytes_sent: packets * 1_000,
            packets_received: packets / 4,
            bytes_received: 0,
            retransmitted: packets / 2,
            sends: 3,
            receives: 0,
            sender: Some(SenderReport { window: 64, in_flight: 5, rate_bps: 1 << 30, rtt_ns: Some(12_340) }),
        }
    }

    pub(in super::super) fn process(pid: u32, time_ns: u64, pairs: Vec<QueuePairReport>) -> Process {
        let address = "10.0.0.1".parse().unwrap();
        let device = DeviceReport { id: 1, name: "rnic0".to_string(), address, queue_pairs: pairs };
        let program = format!("program{pid}");
        let report = Report { program, time_ns, devices: vec![device], is_truncated: false };
        Process { id: format!("id{pid}"), pid: Some(pid), user: 0, report }
    }

    fn all(found: Vec<Process>) -> Processes {
        Processes { found, ..Processes::default() }
    }

    #[test]
    fn rates_are_computed_by_hand() {
        let mut meter = Meter::default();
        let first = meter.rows(&all(vec![process(7, 1_000_000_000, vec![pair(1, 100), pair(2, 50)])]));
        assert!(first.len() == 2 && first.iter().all(|row| row.rates.is_none()));
        // After half a second: 40 packets more; the second queue pair was replaced by one with the same number.
        let second = meter.rows(&all(vec![process(7, 1_500_000_000, vec![pair(1, 140), pair(2, 8), pair(3, 1)])]));
        let rates = Rates::of([80.0, 80_000.0, 20.0, 0.0, 40.0]);
        assert_eq!(second.iter().map(|row| row.rates).collect::<Vec<_>>(), [Some(rates), None, None]);
        // Another process with the same process ID and queue pair numbers.
        let other = Process { id: "other".to_string(), ..process(7, 2_000_000_000, vec![pair(1, 200)]) };
        assert_eq!(meter.rows(&all(vec![other]))[0].rates, None);
        assert_eq!(meter.before.len(), 1, "processes that ended are forgotten");
    }

    /// Times and counters of a hostile process.
    #[test]
    fn any_counters_have_rates_or_none() {
        let of = |time, counter| (time, [counter; 5]);
        assert_eq!(rates(of(5, 1), of(5, 2)), None, "no time has passed");
        assert_eq!(rates(of(5, 1), of(4, 2)), None);
        assert_eq!(rates(of(0, u64::MAX), of(u64::MAX, 0)), None);
        let most = rates(of(0, 0), of(1, u64::MAX)).unwrap();
        assert!(most.packets_sent.is_finite() && most.packets_sent > 1e28);
    }

    #[test]
    fn rows_are_sorted_by_any_column() {
        let mut meter = Meter::default();
        let at = |time, counts: [u64; 3]| {
            let pairs = |pid: usize| vec![pair(pid as u32, counts[pid - 1])];
            all((1..=3).map(|pid| process(pid as u32, time, pairs(pid))).collect())
        };
        meter.rows(&at(0, [0, 0, 0]));
        let mut rows = meter.rows(&at(1_000_000_000, [10, 30, 20]));
        rows[0].qp.sender = None;
        rows[2].qp.sends = 9;
        let mut order = |key| {
            sort(&mut rows, Key::Process);
            sort(&mut rows, key);
            rows.iter().map(|row| row.pid.unwrap()).collect::<Vec<_>>()
        };
        for key in [Key::Traffic, Key::Send, Key::Retransmissions] {
            assert_eq!(order(key), [2, 3, 1], "{key:?}");
        }
        assert_eq!(order(Key::Receive), [1, 2, 3], "all are equal");
        assert_eq!(order(Key::Rtt), [2, 3, 1]);
        assert_eq!(order(Key::Outstanding), [3, 1, 2]);
        assert_eq!(order(Key::Process), [1, 2, 3]);
    }
}
