//! Counters of a host: files of sysfs for RDMA devices and network interfaces, and the statistics of `ethtool -S`.

use super::{Paused, Priority, Reading};
use crate::dump::Dump;
use crate::input::{InputError, read_limited};
use crate::lint::parse_ethtool_statistics;
use rnic_metrics::exposition::Kind;
use rnic_transport::BitRate;
use std::collections::BTreeMap;
use std::path::Path;
use std::process::{Command, Stdio};
use std::sync::mpsc;
use std::thread;
use std::time::Duration;

const INFINIBAND: &str = "sys/class/infiniband";
const NET: &str = "sys/class/net";
/// Maximum time for which the command `ethtool` may run.
const COMMAND_TIMEOUT: Duration = Duration::from_secs(3);
/// Maximum number of counters of an RDMA port that are exported.
const MAX_COUNTERS: usize = 512;

/// The names of node_exporter for counters of RDMA devices: (file, name without `node_infiniband_`, factor). The factor
/// is 4 for files that count data in units of 4 bytes.
const NODE_EXPORTER: [(&str, &str, u64); 54] = [
    ("excessive_buffer_overrun_errors", "excessive_buffer_overrun_errors_total", 1),
    ("link_downed", "link_downed_total", 1),
    ("link_error_recovery", "link_error_recovery_total", 1),
    ("local_link_integrity_errors", "local_link_integrity_errors_total", 1),
    ("multicast_rcv_packets", "multicast_packets_received_total", 1),
    ("multicast_xmit_packets", "multicast_packets_transmitted_total", 1),
    ("port_rcv_constraint_errors", "port_constraint_errors_received_total", 1),
    ("port_rcv_data", "port_data_received_bytes_total", 4),
    ("port_rcv_discards", "port_discards_received_total", 1),
    ("port_rcv_errors", "port_errors_received_total", 1),
    ("port_rcv_packets", "port_packets_received_total", 1),
    ("port_rcv_remote_physical_errors", "port_receive_remote_physical_errors_total", 1),
    ("port_rcv_switch_relay_errors", "port_receive_switch_relay_errors_total", 1),
    ("port_xmit_constraint_errors", "port_constraint_errors_transmitted_total", 1),
    ("port_xmit_data", "port_data_transmitted_bytes_total", 4),
    ("port_xmit_discards", "port_discards_transmitted_total", 1),
    ("port_xmit_packets", "port_packets_transmitted_total", 1),
    ("port_xmit_wait", "port_transmit_wait_total", 1),
    ("symbol_error", "symbol_error_total", 1),
    ("unicast_rcv_packets", "unicast_packets_received_total", 1),
    ("unicast_xmit_packets", "unicast_packets_transmitted_total", 1),
    ("VL15_dropped", "vl15_dropped_total", 1),
    ("duplicate_request", "duplicate_requests_packets_total", 1),
    ("implied_nak_seq_err", "implied_nak_seq_errors_total", 1),
    ("local_ack_timeout_err", "local_ack_timeout_errors_total", 1),
    ("np_cnp_sent", "np_cnp_packets_sent_total", 1),
    ("np_ecn_marked_roce_packets", "np_ecn_marked_roce_packets_received_total", 1),
    ("out_of_buffer", "out_of_buffer_drops_total", 1),
    ("out_of_sequence", "out_of_sequence_packets_received_total", 1),
    ("packet_seq_err", "packet_sequence_errors_total", 1),
    ("req_cqe_error", "req_cqes_errors_total", 1),
    ("req_cqe_flush_error", "req_cqes_flush_errors_total", 1),
    ("req_remote_access_errors", "req_remote_access_errors_total", 1),
    ("req_remote_invalid_request", "req_remote_invalid_request_errors_total", 1),
    ("resp_cqe_error", "resp_cqes_errors_total", 1),
    ("resp_cqe_flush_error", "resp_cqes_flush_errors_total", 1),
    ("resp_local_length_error", "resp_local_length_errors_total", 1),
    ("resp_remote_access_errors", "resp_remote_access_errors_total", 1),
    ("rnr_nak_retry_err", "rnr_nak_retry_packets_received_total", 1),
    ("roce_adp_retrans", "roce_adp_retransmits_total", 1),
    ("roce_adp_retrans_to", "roce_adp_retransmits_timeout_total", 1),
    ("roce_slow_restart", "roce_slow_restart_used_total", 1),
    ("roce_slow_restart_cnps", "roce_slow_restart_cnps_total", 1),
    ("roce_slow_restart_trans", "roce_slow_restart_total", 1),
    ("rp_cnp_handled", "rp_cnp_packets_handled_total", 1),
    ("rp_cnp_ignored", "rp_cnp_packets_ignored_total", 1),
    ("rx_atomic_requests", "rx_atomic_requests_total", 1),
    ("rx_dct_connect", "rx_dct_connect_requests_total", 1),
    ("rx_icrc_encapsulated", "rx_icrc_encapsulated_errors_total", 1),
    ("rx_read_requests", "rx_read_requests_total", 1),
    ("rx_write_requests", "rx_write_requests_total", 1),
    ("port_multicast_rcv_packets", "legacy_multicast_packets_received_total", 1),
    ("port_rcv_data_64", "legacy_data_received_bytes_total", 4),
    ("port_xmit_data_64", "legacy_data_transmitted_bytes_total", 4),
];

/// The names of node_exporter for statistics of network interfaces: (file, name).
const NETWORK: [(&str, &str); 8] = [
    ("rx_bytes", "node_network_receive_bytes_total"),
    ("rx_packets", "node_network_receive_packets_total"),
    ("rx_errors", "node_network_receive_errs_total"),
    ("rx_dropped", "node_network_receive_drop_total"),
    ("tx_bytes", "node_network_transmit_bytes_total"),
    ("tx_packets", "node_network_transmit_packets_total"),
    ("tx_errors", "node_network_transmit_errs_total"),
    ("tx_dropped", "node_network_transmit_drop_total"),
];

/// The counters of a host.
pub struct Host {
    dump: Dump,
    /// Whether statistics come from the command `ethtool`; otherwise they come from files `ethtool-S-IF.txt`.
    live: bool,
}

impl Host {
    /// Opens the host whose `sys` folder is in `root`. With `/`, which means the local host, statistics come from the
    /// command `ethtool -S`. With another folder, they come from files `ethtool-S-IF.txt` in this folder.
    ///
    /// # Errors
    /// `root` cannot be read.
    pub fn open(root: &Path) -> Result<Host, InputError> {
        let dump = Dump::open(root, &root.display().to_string())?;
        Ok(Host { dump, live: root == Path::new("/") })
    }

    /// Reads all counters.
    pub fn read(&self) -> Reading {
        let mut reading = Reading::default();
        let devices = self.dump.list(INFINIBAND);
        reading.sources.push(("infiniband", !devices.is_empty()));
        for device in &devices {
            for port in self.dump.list(&format!("{INFINIBAND}/{device}/ports")) {
                for folder in ["counters", "hw_counters"] {
                    self.of_port(device, &port, folder, &mut reading);
                }
            }
        }
        let interfaces: Vec<String> = self.dump.list(NET).into_iter().filter(|name| name != "lo").collect();
        reading.sources.push(("net", !interfaces.is_empty()));
        let mut has_statistics = false;
        for interface in &interfaces {
            for (file, name) in NETWORK {
                if let Some(value) =
                    self.number(&format!("{NET}/{interface}/statistics/{file}"), &mut reading.malformed)
                {
                    let help = "Statistic of a network interface, with the name of node_exporter.";
                    reading.other.add(name, Kind::Counter, help, &[("device", interface)], value);
                }
            }
            if let Some(statistics) = self.statistics(interface, &mut reading.malformed) {
                has_statistics = true;
                let mbps = self.number(&format!("{NET}/{interface}/speed"), &mut 0).filter(|mbps| *mbps <= 10_000_000);
                let speed = mbps.map(|mbps| BitRate::from_bps(mbps * 1_000_000)).filter(|speed| speed.as_bps() > 0);
                of_statistics(interface, &statistics, speed, &mut reading);
            }
        }
        reading.sources.push(("ethtool", has_statistics));
        reading
    }

    fn number(&self, path: &str, malformed: &mut u64) -> Option<u64> {
        let text = self.dump.read(path).ok().flatten()?;
        let number = text.trim().parse().ok();
        // -1 is the speed of a link that is down, and some other files contain "N/A (no PMA)".
        *malformed += u64::from(number.is_none() && !text.starts_with("N/A") && text.trim() != "-1");
        number
    }

    fn of_port(&self, device: &str, port: &str, folder: &str, reading: &mut Reading) {
        let path = format!("{INFINIBAND}/{device}/ports/{port}/{folder}");
        let labels = [("device", device), ("port", port)];
        for file in self.dump.list(&path).into_iter().take(MAX_COUNTERS) {
            let Some(value) = self.number(&format!("{path}/{file}"), &mut reading.malformed) else { continue };
            if file == "lifespan" {
                let help = "Time for which counters may be old.";
                reading.other.add("node_infiniband_lifespan_seconds", Kind::Gauge, help, &labels, value as f64 / 1e3);
            } else if let Some((_, name, factor)) = NODE_EXPORTER.iter().find(|(known, _, _)| *known == file) {
                let help = "Counter of an RDMA device, with the name of node_exporter.";
                let name = format!("node_infiniband_{name}");
                reading.other.add(&name, Kind::Counter, help, &labels, value.wrapping_mul(*factor));
            } else {
                let plain: String = file
                    .chars()
                    .take(64)
                    .map(|c| if c.is_ascii_alphanumeric() { c.to_ascii_lowercase() } else { '_' })
                    .collect();
                let help = "Counter of an RDMA device for which node_exporter has no name, such as those of rdma_rxe.";
                let name = format!("rnic_infiniband_{plain}_total");
                reading.other.add(&name, Kind::Counter, help, &labels, value);
            }
        }
    }

    /// The statistics of an interface; `None` if the interface has none.
    fn statistics(&self, interface: &str, malformed: &mut u64) -> Option<BTreeMap<String, u64>> {
        let text = if self.live {
            // Virtual interfaces have no `device` folder. They have statistics, but no counters per priority.
            self.dump.list(&format!("{NET}/{interface}/device")).first()?;
            ethtool(interface)?
        } else {
            self.dump.read(&format!("ethtool-S-{interface}.txt")).ok().flatten()?
        };
        let parsed = parse_ethtool_statistics(&text);
        *malformed += parsed.as_ref().map_or(1, |(_, skipped)| *skipped);
        parsed.map(|(counters, _)| counters)
    }
}

/// The output of `ethtool -S`; `None` if the command is not installed, fails, or takes longer than [`COMMAND_TIMEOUT`].
fn ethtool(interface: &str) -> Option<String> {
    let mut command = Command::new("ethtool");
    command.args(["-S", interface]).stdin(Stdio::null()).stdout(Stdio::piped()).stderr(Stdio::null());
    let mut child = command.spawn().ok()?;
    let stdout = child.stdout.take()?;
    let (sender, receiver) = mpsc::channel();
    let reading = thread::Builder::new().name("ethtool".to_string()).spawn(move || {
        // This fails if the output arrives after the timeout.
        let _ = sender.send(read_limited(stdout, "ethtool").ok());
    });
    let text = reading.ok().and_then(|_| receiver.recv_timeout(COMMAND_TIMEOUT).ok().flatten());
    if text.is_none() {
        // This fails if the command has ended in the meantime.
        let _ = child.kill();
    }
    let status = child.wait().ok()?;
    text.filter(|_| status.success())
}

/// The names of a driver's counters of a priority, in which `#` stands for the number of the priority. Each pair is a
/// counter of the receiver and of the transmitter; an empty name is a counter that the driver does not have.
struct Names {
    frames: [&'static str; 2],
    pauses: &'static str,
    /// Time in microseconds for which the transmitter was paused, and time for which this port paused its peer.
    duration: [&'static str; 2],
    packets: [&'static str; 2],
    bytes: [&'static str; 2],
}

/// The drivers whose counters of priorities are read: mlx5 (NVIDIA), ice (Intel), bnxt_en (Broadcom), ionic (AMD).
const DRIVERS: [Names; 4] = [
    Names {
        frames: ["rx_prio#_pause", "tx_prio#_pause"],
        pauses: "rx_prio#_pause_transition",
        duration: ["rx_prio#_pause_duration", "tx_prio#_pause_duration"],
        packets: ["rx_prio#_packets", "tx_prio#_packets"],
        bytes: ["rx_prio#_bytes", "tx_prio#_bytes"],
    },
    Names {
        frames: ["rx_priority_#_xoff.nic", "tx_priority_#_xoff.nic"],
        pauses: "",
        duration: ["", ""],
        packets: ["", ""],
        bytes: ["", ""],
    },
    Names {
        frames: ["rx_pfc_ena_frames_pri#", "tx_pfc_ena_frames_pri#"],
        pauses: "pfc_pri#_rx_transitions",
        duration: ["pfc_pri#_rx_duration_us", "pfc_pri#_tx_duration_us"],
        packets: ["rx_packets_pri#", "tx_packets_pri#"],
        bytes: ["rx_bytes_pri#", "tx_bytes_pri#"],
    },
    Names {
        frames: ["", ""],
        pauses: "",
        duration: ["rx_pripause_#_1us_count", "tx_pripause_#_1us_count"],
        packets: ["frames_rx_pri_#", "frames_tx_pri_#"],
        bytes: ["", ""],
    },
];

/// The counters of all priorities of an interface.
fn of_statistics(interface: &str, statistics: &BTreeMap<String, u64>, speed: Option<BitRate>, reading: &mut Reading) {
    for number in 0..8_u8 {
        let get = |name: &str| match name {
            "" => None,
            name => statistics.get(&name.replace('#', &number.to_string())).copied(),
        };
        // An interface has one driver, and the drivers have different names.
        let first = |name: fn(&Names) -> &'static str| DRIVERS.iter().find_map(|names| get(name(names)));
        let drops = ["buf_discard", "cong_discard", "discards"].map(|what| get(&format!("rx_prio#_{what}")));
        let priority = Priority {
            port: interface.to_string(),
            priority: number,
            speed,
            frames_received: first(|names| names.frames[0]),
            frames_sent: first(|names| names.frames[1]),
            pauses: first(|names| names.pauses),
            paused: first(|names| names.duration[0]).map_or(Paused::Unknown, |us| Paused::Measured(us as f64)),
            pausing_us: first(|names| names.duration[1]).map(|us| us as f64),
            packets: [first(|names| names.packets[0]), first(|names| names.packets[1])],
            bytes: [first(|names| names.bytes[0]), first(|names| names.bytes[1])],
            dropped: drops.iter().flatten().copied().reduce(u64::saturating_add),
        };
        let is_paused = priority.paused != Paused::Unknown;
        if priority.frames_received.is_some() || is_paused || priority.packets[0].is_some() {
            reading.priorities.push(priority);
        }
    }
    for (name, severity) in [("tx_pause_storm_warning_events", "warning"), ("tx_pause_storm_error_events", "error")] {
        if let Some(count) = statistics.get(name) {
            let help = "Times at which the receive pipeline of the NIC was stuck while it sent pauses.";
            let labels = [("device", interface), ("severity", severity)];
            reading.other.add("rnic_pause_storm_events_total", Kind::Counter, help, &labels, *count);
        }
    }
}
