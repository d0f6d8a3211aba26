//! Tests of `rnic perf --pcap`: both ends capture the packets of a measurement.

use serde_json::Value;
use std::collections::BTreeSet;
use std::io::{BufRead, BufReader, Read};
use std::path::Path;
use std::process::{Command, Output, Stdio};

fn rnic(folder: &Path, arguments: &str) -> Command {
    let mut command = Command::new(env!("CARGO_BIN_EXE_rnic"));
    command.current_dir(folder).args(arguments.split_whitespace()).stdin(Stdio::null());
    command
}

fn text(output: &Output) -> String {
    format!("{}{}", String::from_utf8_lossy(&output.stdout), String::from_utf8_lossy(&output.stderr))
}

/// Measures with a server and a client that capture their packets in `server.pcapng` and `client.pcapng`.
fn measure(folder: &Path, server: &str, client: &str) {
    let mut command = rnic(folder, &format!("perf --bind 127.0.10.1 -p 0 --once --pcap server.pcapng {server}"));
    let mut served = command.stdout(Stdio::null()).stderr(Stdio::piped()).spawn().unwrap();
    let mut stderr = BufReader::new(served.stderr.take().unwrap());
    let mut line = String::new();
    stderr.read_line(&mut line).unwrap();
    let port = line.split("TCP port ").nth(1).and_then(|rest| rest.split(';').next()).unwrap().to_string();
    let options = format!("perf 127.0.10.1 -p {port} --pcap client.pcapng {client}");
    let measured = rnic(folder, &options).output().unwrap();
    assert!(measured.status.success(), "{}", text(&measured));
    let mut rest = String::new();
    stderr.read_to_string(&mut rest).unwrap();
    assert!(served.wait().unwrap().success(), "{rest}");
}

/// The packets in a capture, all of which must be valid.
fn decode(folder: &Path, file: &str) -> Vec<Value> {
    let output = rnic(folder, &format!("decode {file} --format json")).output().unwrap();
    assert!(output.status.success(), "{}", text(&output));
    let lines = String::from_utf8(output.stdout).unwrap();
    lines.lines().map(|line| serde_json::from_str(line).unwrap()).collect()
}

/// 20 Writes of 4,096 bytes on one connection: both files have the 20 packets and their acknowledgements, in both
/// directions.
#[test]
fn both_ends_capture_the_packets_of_a_measurement() {
    let folder = tempfile::tempdir().unwrap();
    for (port, options) in [(15_797, "--security none"), (15_798, "--perftest")] {
        let both = if options == "--perftest" { "--perftest -n 20 -s 4096 --mtu 4096" } else { "" };
        let client = format!("--roce-port {port} --service rc --mtu 4096 -n 20 -s 4096 {options}");
        measure(folder.path(), &format!("--roce-port {port} {both}"), &client);
        let packets = |file: &str| -> BTreeSet<[String; 3]> {
            let packet = |packet: &Value| ["name", "psn", "dest_qp"].map(|field| packet["bth"][field].to_string());
            decode(folder.path(), file).iter().map(packet).collect()
        };
        let (client, server) = (packets("client.pcapng"), packets("server.pcapng"));
        let count = |all: &BTreeSet<[String; 3]>, part| all.iter().filter(|[name, ..]| name.contains(part)).count();
        assert!(count(&client, "WRITE") >= 20 && count(&server, "WRITE") >= 20, "{options}: {client:?}");
        assert!(count(&client, "cknowledge") > 0 && count(&server, "cknowledge") > 0, "{options}: {client:?}");
        assert!(client.intersection(&server).count() >= 21, "{options}");
    }
}

/// Protected packets are captured as they are.
#[test]
fn protected_packets_are_captured() {
    let folder = tempfile::tempdir().unwrap();
    measure(folder.path(), "--roce-port 15799", "--roce-port 15799 --security encrypted -n 5 -s 4096");
    let output = rnic(folder.path(), "decode client.pcapng").output().unwrap();
    // The five Writes of 4,096 bytes share datagrams.
    let encrypted = text(&output).lines().filter(|line| line.contains("encrypted")).count();
    assert!(encrypted >= 3 && text(&output).contains("bad: 0"), "{}", text(&output));
}

#[test]
fn a_capture_that_cannot_be_written_is_refused() {
    let folder = tempfile::tempdir().unwrap();
    for arguments in ["perf --pcap missing/a.pcapng", "perf 127.0.10.2 --pcap missing/a.pcapng"] {
        let output = rnic(folder.path(), arguments).output().unwrap();
        assert!(!output.status.success() && text(&output).contains("--pcap: cannot write missing/a.pcapng"));
    }
    let output = rnic(folder.path(), "perf --serve --pcap a.pcapng").output().unwrap();
    assert_eq!(output.status.code(), Some(2), "{}", text(&output));
}
