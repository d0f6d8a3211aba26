//! Tests of `rnic run --pcap`: the captured packets of a link agree with the run's port counters, and unsuitable runs
//! and links are rejected.

use serde_json::Value;
use std::collections::BTreeMap;
use std::fs;
use std::path::Path;
use std::process::{Command, Output, Stdio};

const FABRIC: &str = r#"title = "a link"
[fabric]
topology = "single-switch"
hosts = 4
rate = "40 Gbps"
delay = "1 us"
"#;

/// Traffic of three requests, 1 ms apart. In each request three hosts send to host 0 at the same time.
const INCAST: &str = r#"
[traffic]
pattern = "incast"
senders = 3
receiver = 0
total = "601 KB"
repeats = 3
interval = "1 ms"
"#;

const POISSON: &str = r#"
[traffic]
pattern = "poisson"
load = 0.5
sizes = "uniform 1 B - 4 KB"
flows = 200
warmup = 5
"#;

fn rnic(folder: &Path, arguments: &[&str]) -> Output {
    let mut command = Command::new(env!("CARGO_BIN_EXE_rnic"));
    command.current_dir(folder).args(arguments).stdin(Stdio::null()).output().unwrap()
}

fn stderr(output: &Output) -> String {
    String::from_utf8(output.stderr.clone()).unwrap()
}

/// Runs a scenario with a capture of the link. The returned folder contains `a.pcapng` and `out/a/ports.csv`.
fn capture(scenario: &str, link: &str, more: &[&str]) -> (tempfile::TempDir, Output) {
    let folder = tempfile::tempdir().unwrap();
    fs::write(folder.path().join("a.toml"), scenario).unwrap();
    let pcap = format!("{link}=a.pcapng");
    let output = rnic(folder.path(), &[&["run", "a.toml", "--quiet", "--pcap", &pcap], more].concat());
    (folder, output)
}

/// The packets that `rnic decode` finds in the capture.
fn decode(folder: &Path) -> Vec<Value> {
    let output = rnic(folder, &["decode", "a.pcapng", "--format", "json"]);
    assert_eq!(output.status.code(), Some(0), "{}", stderr(&output));
    String::from_utf8(output.stdout).unwrap().lines().map(|line| serde_json::from_str(line).unwrap()).collect()
}

/// Counters by name, summed over priorities, of the port of `node` that leads to `peer`.
fn counters(folder: &Path, node: &str, peer: &str) -> BTreeMap<String, u64> {
    let text = fs::read_to_string(folder.join("out/a/ports.csv")).unwrap();
    let mut lines = text.lines().map(|line| line.split(',').collect::<Vec<&str>>());
    let head = lines.next().unwrap();
    let mut sums = BTreeMap::new();
    for line in lines.filter(|line| line[1] == node && line[3] == peer) {
        for (name, value) in head.iter().zip(line) {
            if let Ok(value) = value.parse::<u64>() {
                *sums.entry(name.to_string()).or_default() += value;
            }
        }
    }
    sums
}

/// Length in bytes that the simulator's counters have for a decoded packet. It excludes padding, the RETH of an RC
/// Write and the SackEth of an ACK. It includes the frame check sequence, and is at least 64 bytes.
fn simulated_bytes(packet: &Value) -> u64 {
    let (opcode, bytes) = (packet["bth"]["name"].as_str().unwrap(), packet["frame_bytes"].as_u64().unwrap());
    let reth = if opcode.starts_with("RC") && packet.get("reth").is_some() { 16 } else { 0 };
    let is_ack = packet["aeth"]["syndrome"] == "0x1f";
    let sack = if is_ack && packet.get("sack_eth").is_some() { 4 } else { 0 };
    (bytes + 4 - packet["bth"]["pad"].as_u64().unwrap() - reth - sack).max(64)
}

/// Compares a capture of the link between the nodes `a` and `b` with the counters of the two ports.
fn agrees(folder: &Path, packets: &[Value], a: &str, b: &str) {
    for (node, peer) in [(a, b), (b, a)] {
        let counters = counters(folder, node, peer);
        let sent: Vec<&Value> = packets
            .iter()
            .filter(|packet| {
                let interface = packet["interface"].as_str().unwrap();
                interface.starts_with(&format!("{node}:")) && interface.ends_with(&format!("->{peer}"))
            })
            .collect();
        let roce: Vec<&Value> = sent.iter().copied().filter(|packet| packet["kind"] == "RoCEv2").collect();
        assert_eq!(roce.len() as u64, counters["tx_packets"], "{node}");
        assert_eq!(roce.iter().map(|packet| simulated_bytes(packet)).sum::<u64>(), counters["tx_bytes"], "{node}");
        let pauses =
            sent.iter().filter(|packet| packet["kind"] == "PFC" && packet["pfc"]["quanta"] != "0 0 0 0 0 0 0 0");
        assert_eq!(pauses.count() as u64, counters["pause_sent"], "{node}");
    }
}

fn names(packets: &[Value]) -> BTreeMap<&str, usize> {
    let mut counts = BTreeMap::new();
    for packet in packets {
        *counts.entry(packet["bth"]["name"].as_str().unwrap_or("PFC")).or_default() += 1;
    }
    counts
}

/// Number of bytes that were written with each remote key. Each flow has its own key, and its Writes contain the
/// addresses.
fn written(packets: &[Value]) -> BTreeMap<String, u64> {
    let mut ends: BTreeMap<String, u64> = BTreeMap::new();
    for packet in packets.iter().filter(|packet| packet.get("reth").is_some()) {
        let va = u64::from_str_radix(&packet["reth"]["va"].as_str().unwrap()[2..], 16).unwrap();
        let end = ends.entry(packet["reth"]["rkey"].as_str().unwrap().to_string()).or_default();
        *end = (*end).max(va + packet["reth"]["dma_len"].as_u64().unwrap());
    }
    ends
}

#[test]
fn irn_with_losses() {
    let loss = "loss = 0.01\n[[run]]\nname = \"IRN\"\ntransport = \"irn\"\n";
    let (scenario, flows) = (format!("{FABRIC}{loss}").replace("[[run]]", &format!("{POISSON}[[run]]")), "csv");
    let (folder, output) = capture(&scenario, "h1:s0", &["--flows", flows]);
    assert_eq!(output.status.code(), Some(0), "{}", stderr(&output));
    let packets = decode(folder.path());
    agrees(folder.path(), &packets, "h1", "s0");
    let names = names(&packets);
    for name in ["IRN RDMA WRITE First", "IRN RDMA WRITE Middle", "IRN RDMA WRITE Last", "IRN RDMA WRITE Only"] {
        assert!(names[name] > 10, "{names:?}");
    }
    let nacks = packets.iter().filter(|packet| packet["aeth"]["syndrome"] == "0x60").count();
    assert!(nacks > 0 && names["IRN Acknowledge"] > nacks, "{names:?}");
    // The expected bytes are those of every flow from or to host 1.
    let text = fs::read_to_string(folder.path().join("out/a/flows.csv")).unwrap();
    let lines: Vec<Vec<&str>> = text.lines().map(|line| line.split(',').collect()).collect();
    let column = |name: &str| lines[0].iter().position(|other| *other == name).unwrap();
    let (id, src, dst, bytes) = (column("flow"), column("src"), column("dst"), column("bytes"));
    let of_h1 = lines[1..].iter().filter(|line| line[src] == "1" || line[dst] == "1");
    let expected: BTreeMap<String, u64> = of_h1
        .map(|line| (format!("{:#010x}", 17 + 2 * line[id].parse::<u32>().unwrap()), line[bytes].parse().unwrap()))
        .collect();
    assert!(expected.len() > 50);
    assert_eq!(written(&packets), expected);
}

#[test]
fn roce_with_pauses() {
    let run = "[[run]]\nname = \"RoCE + PFC\"\ntransport = \"roce\"\npfc = true\n";
    let (folder, output) = capture(&format!("{FABRIC}{INCAST}{run}"), "s0:h1", &[]);
    assert_eq!(output.status.code(), Some(0), "{}", stderr(&output));
    let packets = decode(folder.path());
    agrees(folder.path(), &packets, "h1", "s0");
    assert!(counters(folder.path(), "s0", "h1")["pause_sent"] > 0, "the test wants pauses");
    let names = names(&packets);
    assert!(names["PFC"] > 0 && names["RC RDMA WRITE First"] == 3 && names["RC RDMA WRITE Last"] == 3, "{names:?}");
    let pause = packets.iter().find(|packet| packet["kind"] == "PFC").unwrap();
    assert_eq!(
        (&pause["pfc"]["class_enable"], &pause["pfc"]["quanta"]),
        (&"0x01".into(), &"65535 0 0 0 0 0 0 0".into())
    );
}

#[test]
fn notifications_and_marks() {
    let run = "[[run]]\nname = \"DCQCN\"\ntransport = \"irn\"\ncc = \"dcqcn\"\n";
    let (folder, output) = capture(&format!("{FABRIC}{INCAST}{run}"), "h0:s0", &[]);
    assert_eq!(output.status.code(), Some(0), "{}", stderr(&output));
    let packets = decode(folder.path());
    agrees(folder.path(), &packets, "h0", "s0");
    assert!(names(&packets)["CNP"] > 0);
    let data = packets.iter().filter(|packet| packet.get("reth").is_some());
    let ecn: BTreeMap<&str, usize> = data.fold(BTreeMap::new(), |mut counts, packet| {
        *counts.entry(packet["ip"]["ecn"].as_str().unwrap()).or_default() += 1;
        counts
    });
    assert!(ecn["CE"] > 0 && ecn["ECT(0)"] > 0 && ecn.len() == 2, "{ecn:?}");
}

#[test]
fn a_capture_is_the_same_every_time_and_changes_no_result() {
    let runs = "[[run]]\nname = \"A\"\ntransport = \"irn\"\n[[run]]\nname = \"B\"\ntransport = \"roce\"\npfc = true\n";
    let scenario = format!("{FABRIC}{POISSON}{runs}");
    let (one, _) = capture(&scenario, "h1:s0", &["--run", "A"]);
    let (other, _) = capture(&scenario, "s0:h1", &["--run", "A", "--threads", "3"]);
    let read = |folder: &tempfile::TempDir, name: &str| fs::read(folder.path().join(name)).unwrap();
    assert_eq!(read(&one, "a.pcapng"), read(&other, "a.pcapng"));
    let plain = rnic(other.path(), &["run", "a.toml", "--quiet", "--run", "A", "--out", "plain"]);
    assert_eq!(plain.status.code(), Some(0));
    for name in ["summary.json", "ports.csv"] {
        assert_eq!(read(&one, &format!("out/a/{name}")), read(&other, &format!("plain/a/{name}")), "{name}");
    }
}

/// The packets of the simulated NICs below transports in host software, as they are on the wire. The counters have the
/// lengths of all frames, of ACKs and of data.
#[test]
fn transports_in_host_software() {
    for (transport, opcodes) in [
        ("rogue", ["RC RDMA WRITE First", "RC RDMA WRITE Last with Immediate", "RC Acknowledge"]),
        ("multipath", ["UC RDMA WRITE First", "UC RDMA WRITE Last with Immediate", "UC SEND Only"]),
    ] {
        let run = format!("[[run]]\nname = \"A\"\ntransport = \"{transport}\"\n");
        let (folder, output) = capture(&format!("{FABRIC}{INCAST}{run}"), "h1:s0", &[]);
        assert_eq!(output.status.code(), Some(0), "{}", stderr(&output));
        let packets = decode(folder.path());
        for (node, peer) in [("h1", "s0"), ("s0", "h1")] {
            let sent =
                packets.iter().filter(|packet| packet["interface"].as_str().unwrap().starts_with(&format!("{node}:")));
            assert_eq!(sent.count() as u64, counters(folder.path(), node, peer)["tx_packets"], "{transport} {node}");
        }
        let names = names(&packets);
        assert!(opcodes.iter().all(|name| names.contains_key(name)), "{transport}: {names:?}");
        // Host 1 sends a third of 601 KB in each of three requests to host 0, and a few packets again.
        let data = packets.iter().filter(|packet| packet["ip"]["source"] == "10.0.0.2");
        let bytes: u64 = data.filter_map(|packet| packet["payload_bytes"].as_u64()).sum();
        assert!((601_000..2_000_000).contains(&bytes), "{transport}: {bytes}");
        // The same bytes again, and the life of packets needs flows.
        let (again, _) = capture(&format!("{FABRIC}{INCAST}{run}"), "h1:s0", &[]);
        let read = |folder: &tempfile::TempDir| fs::read(folder.path().join("a.pcapng")).unwrap();
        assert!(read(&folder) == read(&again), "{transport}");
        let life = rnic(folder.path(), &["run", "a.toml", "--quiet", "--trace-packets", "link=h1:s0"]);
        assert_eq!(life.status.code(), Some(2));
        assert!(stderr(&life).contains("belong to connections of NICs, not to flows; --pcap captures them"));
    }
}

/// The frames in a capture, without the decoder, which reads RoCE only: the bytes of each enhanced packet block.
#[cfg(feature = "p4")]
fn frames(bytes: &[u8]) -> Vec<&[u8]> {
    let word = |at: usize| u32::from_le_bytes(bytes[at..at + 4].try_into().unwrap()) as usize;
    let (mut at, mut frames) = (0, Vec::new());
    while at < bytes.len() {
        if word(at) == 6 {
            frames.push(&bytes[at + 28..at + 28 + word(at + 20)]);
        }
        at += word(at + 4);
    }
    frames
}

/// The packets of a program in P4 are those that its deparser emits: Ethernet, IPv4 with the protocol of the program,
/// and a payload whose length the IPv4 header has.
#[cfg(feature = "p4")]
#[test]
fn programs_in_p4() {
    let program = concat!(env!("CARGO_MANIFEST_DIR"), "/../../p4/ndp.p4");
    let run = format!("[[run]]\nname = \"A\"\ntransport = \"p4:{program}\"\n");
    let (folder, output) = capture(&format!("{FABRIC}{INCAST}{run}"), "h1:s0", &[]);
    assert_eq!(output.status.code(), Some(0), "{}", stderr(&output));
    let bytes = fs::read(folder.path().join("a.pcapng")).unwrap();
    let frames = frames(&bytes);
    let sent = |node, peer| counters(folder.path(), node, peer)["tx_packets"];
    assert_eq!(frames.len() as u64, sent("h1", "s0") + sent("s0", "h1"));
    let mut data = 0;
    for frame in &frames {
        assert_eq!((&frame[12..14], frame[23]), (&[8, 0][..], 0x99), "IPv4, and the protocol of NDP");
        let length = usize::from(u16::from_be_bytes([frame[16], frame[17]]));
        assert_eq!(frame.len(), 14 + length);
        // Ethernet, IPv4 and the program's header have 56 bytes. Host 1 has the address 10.0.0.1.
        data += if frame[26..30] == [10, 0, 0, 1] { frame.len() - 56 } else { 0 };
    }
    // A third of 601 KB in each of three requests.
    assert!((600_000..700_000).contains(&data), "{data}");
}

#[test]
fn the_file_is_named_with_the_others() {
    let folder = tempfile::tempdir().unwrap();
    let run = "[[run]]\nname = \"A\"\ntransport = \"irn\"\n";
    fs::write(folder.path().join("a.toml"), format!("{FABRIC}{POISSON}{run}")).unwrap();
    let output = rnic(folder.path(), &["run", "a.toml", "--pcap", "h1:s0=link.pcapng"]);
    assert!(stderr(&output).ends_with(", link.pcapng\n"), "{}", stderr(&output));
}

#[test]
fn what_cannot_be_captured() {
    let irn = "[[run]]\nname = \"A\"\ntransport = \"irn\"\n";
    let two = format!("{irn}[[run]]\nname = \"B\"\ntransport = \"roce\"\npfc = true\n");
    let iwarp = "[[run]]\nname = \"A\"\ntransport = \"iwarp\"\n";
    let cases: [(&str, &str, &str, &[&str]); 7] = [
        (&two, "h0:s0", "--pcap captures the frames of one run; choose one with --run: \"A\", \"B\"", &[]),
        (irn, "h9:s0", "--pcap h9:s0: no node is called \"h9\"; ports.csv and `rnic topology` name the nodes", &[]),
        (irn, "h0:s9", "--pcap h0:s9: no node is called \"s9\"; ports.csv and `rnic topology` name the nodes", &[]),
        (irn, "h0:h1", "--pcap h0:h1: no link joins h0 and h1; h0 has links to s0", &[]),
        (irn, "h0", "--pcap h0: \"h0\" names no link; write two nodes with a colon between them, like h0:s0", &[]),
        (iwarp, "h0:s0", "--pcap h0:s0: a capture has RoCE frames, and transport = \"iwarp\" sends none", &[]),
        (
            irn,
            "h0:s0",
            "--pcap h0:s0: a capture needs an mtu that is a multiple of 4 bytes and at most 4096 bytes, not 1001 bytes",
            &["--set", "fabric.mtu=1001 B"],
        ),
    ];
    for (runs, link, error, more) in cases {
        let (folder, output) = capture(&format!("{FABRIC}{POISSON}{runs}"), link, more);
        assert_eq!((stderr(&output), output.status.code()), (format!("error: {error}\n"), Some(2)));
        assert!(!folder.path().join("a.pcapng").exists(), "{link}: a file that will not be written is not begun");
    }
    let (_, output) = capture(&format!("{FABRIC}{POISSON}{irn}"), "h0:s0=no/such/folder/x", &[]);
    assert_eq!(output.status.code(), Some(1), "{}", stderr(&output));
    let folder = tempfile::tempdir().unwrap();
    assert_eq!(rnic(folder.path(), &["run", "a.toml", "--pcap", "h0:s0"]).status.code(), Some(2));
}

#[test]
fn wireshark_reads_it() {
    let run = "[[run]]\nname = \"RoCE + PFC\"\ntransport = \"roce\"\npfc = true\n";
    let (folder, _) = capture(&format!("{FABRIC}{INCAST}{run}"), "s0:h1", &[]);
    let packets = decode(folder.path());
    let mut command = Command::new("tshark");
    let filter = "infiniband.bth.opcode <= 10 || macc.opcode == 0x0101";
    let Ok(output) = command.current_dir(folder.path()).args(["-r", "a.pcapng", "-Y", filter]).output() else {
        eprintln!("SKIPPED: tshark is not installed (Debian: tshark)");
        return;
    };
    let text = String::from_utf8_lossy(&output.stdout).into_owned();
    assert_eq!(text.lines().count(), packets.len());
    assert!(!text.contains("Malformed"), "{text}");
}
