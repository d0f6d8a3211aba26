//! Counters of a host from a tree of sysfs, and of a switch from a real Redis.

use rnic_metrics::exposition::Metrics;
use rnic_watch::counters::{Host, Paused, Reading, Recorder, Sonic};
use std::fs;
use std::io::{Read, Write};
use std::net::TcpListener;
use std::path::Path;
use std::process::{Child, Command, Stdio};
use std::time::Duration;

fn put(folder: &Path, path: &str, text: &str) {
    let path = folder.join(path);
    fs::create_dir_all(path.parent().unwrap()).unwrap();
    fs::write(path, text).unwrap();
}

fn metrics(reading: &Reading) -> String {
    let mut metrics = Metrics::new();
    Recorder::new("n").record(reading, 0, &mut metrics);
    metrics.prometheus()
}

#[track_caller]
fn has(text: &str, line: &str) {
    assert!(text.lines().any(|found| found == line), "no `{line}` in\n{text}");
}

#[test]
fn a_host_with_mlx5_and_rxe() {
    let folder = tempfile::tempdir().unwrap();
    let f = folder.path();
    let port = "sys/class/infiniband/mlx5_0/ports/1";
    put(f, &format!("{port}/counters/port_rcv_data"), "250\n");
    put(f, &format!("{port}/counters/port_xmit_wait"), "N/A (no PMA)\n");
    put(f, &format!("{port}/hw_counters/np_cnp_sent"), "7\n");
    put(f, &format!("{port}/hw_counters/out_of_sequence"), "8\n");
    put(f, &format!("{port}/hw_counters/lifespan"), "10\n");
    put(f, &format!("{port}/hw_counters/rx_write_requests"), "many\n");
    put(f, "sys/class/infiniband/rxe0/ports/1/hw_counters/sent_pkts", "9\n");
    put(f, "sys/class/net/eth0/statistics/rx_dropped", "3\n");
    put(f, "sys/class/net/eth0/speed", "100000\n");
    put(f, "sys/class/net/eth1/speed", "-1\n");
    put(
        f,
        "ethtool-S-eth0.txt",
        "NIC statistics:\n rx_prio3_pause: 5\n rx_prio3_pause_duration: 1500\n rx_prio3_packets: 4\n rx_prio3_bytes: 4000\n tx_prio3_packets: 2\n tx_prio3_bytes: 200\n tx_prio3_pause: 6\n rx_prio3_buf_discard: 1\n rx_prio3_discards: 2\n tx_pause_storm_error_events: 1\n",
    );
    put(f, "ethtool-S-eth1.txt", "NIC statistics:\n rx_priority_3_xoff.nic: 4\n");
    let reading = Host::open(f).unwrap().read();
    assert_eq!(reading.malformed, 1, "rx_write_requests");
    assert_eq!(reading.sources, [("infiniband", true), ("net", true), ("ethtool", true)]);
    let text = metrics(&reading);
    has(&text, "node_infiniband_port_data_received_bytes_total{device=\"mlx5_0\",port=\"1\"} 1000");
    has(&text, "node_infiniband_np_cnp_packets_sent_total{device=\"mlx5_0\",port=\"1\"} 7");
    has(&text, "node_infiniband_out_of_sequence_packets_received_total{device=\"mlx5_0\",port=\"1\"} 8");
    has(&text, "node_infiniband_lifespan_seconds{device=\"mlx5_0\",port=\"1\"} 0.01");
    has(&text, "rnic_infiniband_sent_pkts_total{device=\"rxe0\",port=\"1\"} 9");
    has(&text, "node_network_receive_drop_total{device=\"eth0\"} 3");
    has(&text, "rnic_pfc_frames_total{node=\"n\",port=\"eth0\",priority=\"3\",direction=\"received\"} 5");
    has(&text, "rnic_pfc_paused_seconds_total{node=\"n\",port=\"eth0\",priority=\"3\",method=\"measured\"} 0.0015");
    has(&text, "rnic_pfc_frames_total{node=\"n\",port=\"eth0\",priority=\"3\",direction=\"sent\"} 6");
    for (direction, packets, bytes) in [("received", 4, 4_000), ("sent", 2, 200)] {
        let labels = format!("{{node=\"n\",port=\"eth0\",priority=\"3\",direction=\"{direction}\"}}");
        has(&text, &format!("rnic_priority_packets_total{labels} {packets}"));
        has(&text, &format!("rnic_priority_bytes_total{labels} {bytes}"));
    }
    has(&text, "rnic_priority_dropped_packets_total{node=\"n\",port=\"eth0\",priority=\"3\"} 3");
    has(&text, "rnic_pause_storm_events_total{device=\"eth0\",severity=\"error\"} 1");
    has(&text, "rnic_pfc_frames_total{node=\"n\",port=\"eth1\",priority=\"3\",direction=\"received\"} 4");
    assert!(!text.contains("port_transmit_wait"), "the device has no such counter");
    // Without any file the reading is empty, and contains a note about this.
    let empty = tempfile::tempdir().unwrap();
    let reading = Host::open(empty.path()).unwrap().read();
    assert!(reading.sources.iter().all(|(_, up)| !up) && reading.priorities.is_empty());
    assert!(Host::open(Path::new("/nonexistent")).is_err());
}

/// A redis-server that ends with the test.
struct Redis {
    child: Child,
    port: u16,
    _folder: tempfile::TempDir,
}

impl Drop for Redis {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

/// Starts Redis; `None`, with a message, if it is not installed.
fn redis() -> Option<Redis> {
    let folder = tempfile::tempdir().unwrap();
    let port = TcpListener::bind("127.0.0.1:0").unwrap().local_addr().unwrap().port();
    let child = Command::new("redis-server")
        .args(["--port", &port.to_string(), "--bind", "127.0.0.1", "--save", "", "--dir"])
        .arg(folder.path())
        .stdout(Stdio::null())
        .spawn();
    match child {
        Ok(child) => Some(Redis { child, port, _folder: folder }),
        Err(error) => {
            eprintln!("skipped: redis-server (Debian: redis-server) cannot be started: {error}");
            None
        }
    }
}

impl Redis {
    fn connect(&self) -> redis::Connection {
        let client = redis::Client::open(format!("redis://127.0.0.1:{}", self.port)).unwrap();
        for _ in 0..500 {
            if let Ok(connection) = client.get_connection() {
                return connection;
            }
            #[expect(clippy::disallowed_methods, reason = "the server needs time to start")]
            std::thread::sleep(Duration::from_millis(20));
        }
        panic!("redis-server does not accept connections");
    }

    fn hash(&self, database: u8, key: &str, fields: &[(&str, &str)]) {
        let mut connection = self.connect();
        redis::cmd("SELECT").arg(database).exec(&mut connection).unwrap();
        redis::cmd("HSET").arg(key).arg(fields).exec(&mut connection).unwrap();
    }

    fn source(&self) -> Sonic {
        Sonic::new(&format!("redis://127.0.0.1:{}", self.port), Duration::from_secs(20)).unwrap()
    }
}

#[test]
fn a_switch_is_read_from_redis() {
    let Some(redis) = redis() else { return };
    redis.hash(
        2,
        "COUNTERS_PORT_NAME_MAP",
        &[("Ethernet0", "oid:0x1"), ("Ethernet4", "oid:0x2"), ("Ethernet8", "oid:0x9")],
    );
    redis.hash(2, "COUNTERS_QUEUE_NAME_MAP", &[("Ethernet0:3", "oid:0x15"), ("broken", "oid:0x16")]);
    redis.hash(2, "COUNTERS_PG_NAME_MAP", &[("Ethernet0:3", "oid:0x1a")]);
    redis.hash(
        2,
        "COUNTERS:oid:0x1",
        &[
            ("SAI_PORT_STAT_PFC_3_RX_PKTS", "100"),
            ("SAI_PORT_STAT_PFC_3_TX_PKTS", "200"),
            ("SAI_PORT_STAT_PFC_3_RX_PAUSE_DURATION_US", "2500000"),
            ("SAI_PORT_STAT_PFC_3_ON2OFF_RX_PKTS", "50"),
            ("SAI_PORT_STAT_PFC_4_RX_PKTS", "x"),
            ("SAI_PORT_STAT_PFC_4_TX_PKTS", "1"),
        ],
    );
    // Without a measured duration, SONiC estimates one; without that, frames and the speed bound it.
    redis.hash(
        2,
        "COUNTERS:oid:0x2",
        &[("SAI_PORT_STAT_PFC_3_RX_PKTS", "7"), ("EST_PORT_STAT_PFC_3_RX_PAUSE_DURATION_US", "1000000")],
    );
    redis.hash(2, "COUNTERS:oid:0x9", &[("SAI_PORT_STAT_PFC_3_RX_PKTS", "1")]);
    redis.hash(4, "PORT|Ethernet8", &[("speed", "100000")]);
    redis.hash(
        2,
        "COUNTERS:oid:0x15",
        &[
            ("SAI_QUEUE_STAT_PACKETS", "10"),
            ("SAI_QUEUE_STAT_BYTES", "640"),
            ("SAI_QUEUE_STAT_DROPPED_PACKETS", "3"),
            ("SAI_QUEUE_STAT_WRED_ECN_MARKED_PACKETS", "4"),
            ("SAI_QUEUE_STAT_SHARED_WATERMARK_BYTES", "61"),
        ],
    );
    redis.hash(2, "PERIODIC_WATERMARKS:oid:0x15", &[("SAI_QUEUE_STAT_SHARED_WATERMARK_BYTES", "5000")]);
    redis.hash(
        2,
        "COUNTERS:oid:0x1a",
        &[
            ("SAI_INGRESS_PRIORITY_GROUP_STAT_DROPPED_PACKETS", "2"),
            ("SAI_INGRESS_PRIORITY_GROUP_STAT_XOFF_ROOM_WATERMARK_BYTES", "4096"),
        ],
    );
    let mut source = redis.source();
    let reading = source.read().unwrap();
    assert_eq!(reading.malformed, 2, "PFC_4_RX_PKTS and the queue `broken`");
    let text = metrics(&reading);
    has(&text, "rnic_pfc_frames_total{node=\"n\",port=\"Ethernet0\",priority=\"3\",direction=\"sent\"} 200");
    has(&text, "rnic_pfc_paused_seconds_total{node=\"n\",port=\"Ethernet0\",priority=\"3\",method=\"measured\"} 2.5");
    has(&text, "rnic_pfc_paused_seconds_total{node=\"n\",port=\"Ethernet4\",priority=\"3\",method=\"estimated\"} 1");
    has(&text, "rnic_pfc_pauses_total{node=\"n\",port=\"Ethernet0\",priority=\"3\"} 50");
    has(&text, "rnic_queue_packets_total{node=\"n\",port=\"Ethernet0\",queue=\"3\"} 10");
    has(&text, "rnic_queue_bytes_total{node=\"n\",port=\"Ethernet0\",queue=\"3\"} 640");
    has(&text, "rnic_queue_dropped_packets_total{node=\"n\",port=\"Ethernet0\",queue=\"3\"} 3");
    has(&text, "rnic_queue_ecn_marked_packets_total{node=\"n\",port=\"Ethernet0\",queue=\"3\"} 4");
    has(&text, "rnic_queue_watermark_bytes{node=\"n\",port=\"Ethernet0\",queue=\"3\"} 5000");
    has(&text, "rnic_pg_dropped_packets_total{node=\"n\",port=\"Ethernet0\",pg=\"3\"} 2");
    has(&text, "rnic_pg_headroom_watermark_bytes{node=\"n\",port=\"Ethernet0\",pg=\"3\"} 4096");
    let unknown = reading.priorities.iter().find(|of| of.port == "Ethernet8").unwrap();
    assert_eq!((unknown.paused, unknown.speed.unwrap().to_string()), (Paused::Unknown, "100 Gbps".into()));
    // The server goes away and comes back at the same address.
    let port = redis.port;
    drop(redis);
    assert!(source.read().unwrap_err().starts_with("Redis "));
    assert!(source.read().unwrap_err().starts_with("Redis is away: "));
    let listener = TcpListener::bind(("127.0.0.1", port)).unwrap();
    drop(listener);
}

/// A peer that is not a Redis server, and a peer that never responds, each cause an error of one sentence.
#[test]
fn a_hostile_redis_is_an_error() {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let address = format!("redis://{}", listener.local_addr().unwrap());
    let answers: [&'static [u8]; 3] = [b"HTTP/1.1 400 Bad Request\r\n\r\n", b"*99999999999999\r\n", b""];
    let peer = std::thread::spawn(move || {
        for answer in answers {
            let (mut stream, _) = listener.accept().unwrap();
            let _ = stream.read(&mut [0; 1024]);
            let _ = stream.write_all(answer);
            if answer.is_empty() {
                // The client stops first.
                let _ = stream.read_to_end(&mut Vec::new());
            }
        }
    });
    for _ in answers {
        let mut source = Sonic::new(&address, Duration::from_millis(300)).unwrap();
        let error = source.read().unwrap_err();
        assert!(error.starts_with("Redis "), "{error}");
    }
    peer.join().unwrap();
    assert!(Sonic::new("http://x", Duration::from_secs(1)).err().unwrap().contains("is not an address of Redis"));
}
