//! Statistics of the queue pairs of all processes of a host, for `rnic top`.
//!
//! A process *publishes* its devices ([`publish`]). From then on one of its threads listens at a Unix socket, and
//! writes a [`Report`] to each process that connects. The thread sleeps otherwise, and the threads that move packets do
//! nothing for it: they count packets and bytes of each queue pair in any case. [`processes`] reads the reports of all
//! processes.
//!
//! | question | answer |
//! |---|---|
//! | Where is the socket? | In the abstract namespace of Unix sockets: `rnic/stats/VERSION/ID`, with a random ID. The name is free as soon as the process ends, and network namespaces are separate |
//! | Who gets a report? | Processes of the same user, and of root |
//! | How much work can readers cause? | A hundred reports per second, each with at most [`MAX_QUEUE_PAIRS`] queue pairs; the device is locked for 32 queue pairs at a time |
//! | What does a reader take? | At most [`MAX_REPORT`] bytes of each of [`MAX_PROCESSES`] processes, within a time limit; text is escaped |
//!
//! A child that `fork` has made keeps a copy of the socket without a thread that answers until it ends or executes a
//! program. `docs/adr/0094-statistics-by-a-socket.md` compares this design with others.

mod publish;
mod read;

pub use publish::publish;
pub use read::{Process, Processes, Silence, Silent, processes};

use rnic_verbs::{QpStatistics, State};
use serde::{Deserialize, Serialize};
use std::net::IpAddr;

/// Version of the report, which is also part of the sockets' names: readers find reports of their own version only.
pub const VERSION: u32 = 1;
/// Maximum number of queue pairs in a report.
pub const MAX_QUEUE_PAIRS: usize = 1_024;
/// Maximum number of devices in a report.
pub const MAX_DEVICES: usize = 256;
/// Maximum bytes of a report; a report with the maximum numbers of devices and queue pairs has fewer.
pub const MAX_REPORT: usize = 512 << 10;
/// Maximum number of processes whose reports are read.
pub const MAX_PROCESSES: usize = 128;
/// Maximum characters of the name of a program or device.
const MAX_NAME: usize = 64;

/// Beginning of the names of all sockets.
fn prefix() -> String {
    format!("rnic/stats/{VERSION}")
}

/// What a process reports of its devices.
#[derive(Clone, PartialEq, Debug, Serialize, Deserialize)]
pub struct Report {
    /// Name of the program (`/proc/self/comm`).
    pub program: String,
    /// Time of the report on a clock of the process that does not go back, in nanoseconds.
    pub time_ns: u64,
    /// The open devices.
    pub devices: Vec<DeviceReport>,
    /// Whether devices or queue pairs are missing because the process has more than [`MAX_DEVICES`] or
    /// [`MAX_QUEUE_PAIRS`].
    pub is_truncated: bool,
}

/// A device in a [`Report`].
#[derive(Clone, PartialEq, Debug, Serialize, Deserialize)]
pub struct DeviceReport {
    /// Number of the device in its process; no other device of the process has had it.
    pub id: u64,
    /// Name of the device, such as `rnic0`.
    pub name: String,
    /// IP address of the device.
    pub address: IpAddr,
    /// The device's queue pairs.
    pub queue_pairs: Vec<QueuePairReport>,
}

/// A queue pair in a [`Report`]. Counters count from the creation of the queue pair on.
#[derive(Clone, PartialEq, Debug, Serialize, Deserialize)]
pub struct QueuePairReport {
    /// Queue pair number.
    pub qpn: u32,
    /// Transport service: `rc`, `irn`, `uc` or `ud`.
    pub service: String,
    /// State, such as `RTS`.
    pub state: String,
    /// IP address and queue pair number of the peer; `None` without a connection.
    pub peer: Option<(IpAddr, u32)>,
    /// Packets sent, retransmissions and acknowledgements included.
    pub packets_sent: u64,
    /// Payload bytes sent, retransmissions included.
    pub bytes_sent: u64,
    /// Packets received.
    pub packets_received: u64,
    /// Payload bytes received.
    pub bytes_received: u64,
    /// Data packets retransmitted.
    pub retransmitted: u64,
    /// Send requests that are not completed.
    pub sends: u32,
    /// Receives that are not completed.
    pub receives: u32,
    /// The sender of a reliable connection.
    pub sender: Option<SenderReport>,
}

/// The sender of a reliable connection in a [`Report`].
#[derive(Clone, PartialEq, Debug, Serialize, Deserialize)]
pub struct SenderReport {
    /// Maximum number of packets in flight.
    pub window: u32,
    /// Packets sent and not acknowledged.
    pub in_flight: u32,
    /// Maximum sending rate in bits per second.
    pub rate_bps: u64,
    /// Round-trip time in nanoseconds; `None` before the first measurement.
    pub rtt_ns: Option<u64>,
}

impl From<&QpStatistics> for QueuePairReport {
    fn from(qp: &QpStatistics) -> QueuePairReport {
        let QpStatistics { qpn, service, state, peer, counters, sender, sends, receives } = *qp;
        QueuePairReport {
            qpn: qpn.0,
            service: service.name().to_string(),
            state: state_name(state).to_string(),
            peer: peer.map(|(address, qpn)| (address.ip(), qpn.0)),
            packets_sent: counters.packets_sent,
            bytes_sent: counters.bytes_sent,
            packets_received: counters.packets_received,
            bytes_received: counters.bytes_received,
            retransmitted: counters.retransmitted,
            sends,
            receives,
            sender: sender.map(|sender| SenderReport {
                window: sender.window,
                in_flight: sender.in_flight,
                rate_bps: sender.rate.as_bps(),
                rtt_ns: sender.rtt.map(|rtt| rtt.as_ps() / 1_000),
            }),
        }
    }
}

/// The name of a state, as the specification has it.
fn state_name(state: State) -> &'static str {
    match state {
        State::Reset => "RESET",
        State::Init => "INIT",
        State::ReadyToReceive => "RTR",
        State::ReadyToSend => "RTS",
        State::SendQueueDrain => "SQD",
        State::SendQueueError => "SQE",
        State::Error => "ERR",
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A report with the longest devices and queue pairs is one that readers accept.
    #[test]
    fn the_longest_report_is_short_enough() {
        let address: IpAddr = "fe80:1111:2222:3333:4444:5555:6666:7777".parse().unwrap();
        let sender = SenderReport { window: u32::MAX, in_flight: u32::MAX, rate_bps: u64::MAX, rtt_ns: Some(u64::MAX) };
        let qp = QueuePairReport {
            qpn: (1 << 24) - 1,
            service: "irn".to_string(),
            state: "RESET".to_string(),
            peer: Some((address, (1 << 24) - 1)),
            packets_sent: u64::MAX,
            bytes_sent: u64::MAX,
            packets_received: u64::MAX,
            bytes_received: u64::MAX,
            retransmitted: u64::MAX,
            sends: u32::MAX,
            receives: u32::MAX,
            sender: Some(sender),
        };
        let device = |queue_pairs| DeviceReport { id: u64::MAX, name: "n".repeat(MAX_NAME), address, queue_pairs };
        let mut devices: Vec<DeviceReport> = (1..MAX_DEVICES).map(|_| device(Vec::new())).collect();
        devices.push(device(vec![qp; MAX_QUEUE_PAIRS]));
        let report = Report { program: "p".repeat(16), time_ns: u64::MAX, devices, is_truncated: true };
        let bytes = serde_json::to_vec(&report).unwrap();
        assert!(bytes.len() <= MAX_REPORT, "{}", bytes.len());
        assert_eq!(serde_json::from_slice::<Report>(&bytes).unwrap(), report);
    }

    #[test]
    fn every_state_has_a_name() {
        use State::*;
        let states = [Reset, Init, ReadyToReceive, ReadyToSend, SendQueueDrain, SendQueueError, Error];
        assert_eq!(states.map(state_name), ["RESET", "INIT", "RTR", "RTS", "SQD", "SQE", "ERR"]);
    }
}
