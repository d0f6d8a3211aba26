//! Tests of `rnic perf --perftest` with rnic at both ends. The test bed in `tests/interop` tests it against perftest
//! itself.

use serde_json::Value;
use std::io::{BufRead, BufReader, Read, Write};
use std::net::TcpListener;
use std::process::{Child, ChildStderr, ChildStdout, Command, Output, Stdio};

fn rnic(arguments: &str) -> Command {
    let mut command = Command::new(env!("CARGO_BIN_EXE_rnic"));
    command.arg("perf").args(arguments.split_whitespace()).stdin(Stdio::null());
    command
}

fn text(bytes: &[u8]) -> &str {
    std::str::from_utf8(bytes).unwrap()
}

/// Runs a command that must fail; returns its message and its exit code.
fn failure(arguments: &str) -> (String, i32) {
    let Output { stdout, stderr, status } = rnic(arguments).output().unwrap();
    assert!(stdout.is_empty(), "{}", text(&stdout));
    (text(&stderr).to_string(), status.code().unwrap())
}

/// A server process for one client. It is killed when this value is dropped before the process has ended.
struct Server {
    child: Child,
    stdout: ChildStdout,
    stderr: BufReader<ChildStderr>,
    port: u16,
}

impl Server {
    fn start(arguments: &str) -> Server {
        let mut command = rnic(&format!("--perftest --bind 127.0.9.1 -p 0 {arguments}"));
        let mut child = command.stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().unwrap();
        let stdout = child.stdout.take().unwrap();
        let mut stderr = BufReader::new(child.stderr.take().unwrap());
        let mut line = String::new();
        stderr.read_line(&mut line).unwrap();
        let port = line.split("TCP port ").nth(1).and_then(|rest| rest.split(';').next()?.parse().ok());
        Server { child, stdout, stderr, port: port.unwrap_or_else(|| panic!("the server says {line:?}")) }
    }

    /// Waits until the server has ended, and returns its standard output. The server must end without an error.
    fn finish(mut self) -> String {
        let (mut out, mut err) = (String::new(), String::new());
        self.stdout.read_to_string(&mut out).unwrap();
        self.stderr.read_to_string(&mut err).unwrap();
        assert!(self.child.wait().unwrap().success() && err.is_empty(), "{err}");
        out
    }
}

impl Drop for Server {
    fn drop(&mut self) {
        // Killing a process that has already ended fails, which does not matter.
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

/// Runs a server and a client with the same arguments, and returns the outputs of both. No other test may use the same
/// UDP port.
fn both(roce_port: u16, arguments: &str) -> [String; 2] {
    let arguments = format!("--roce-port {roce_port} {arguments}");
    let server = Server::start(&format!("--once {arguments}"));
    let output = rnic(&format!("127.0.9.1 -p {} --perftest {arguments}", server.port)).output().unwrap();
    assert!(output.status.success(), "{arguments}: {}", text(&output.stderr));
    [text(&output.stdout).to_string(), server.finish()]
}

#[test]
fn every_test_has_its_table_on_both_sides() {
    for op in ["write", "read", "send", "fetch-add", "compare-swap"] {
        let size = if op.contains('-') { 8 } else { 3_000 };
        let [client, server] = both(15_792, &format!("--op {op} -s {size} -n 200 -q 2"));
        for (side, out) in [("client", &client), ("server", &server)] {
            let lines: Vec<&str> = out.lines().collect();
            assert_eq!(lines[0], format!(" {op} bandwidth, rc, 127.0.0.1:15792 to 127.0.9.1:15792"));
            assert!(lines[1].contains(", 2 queue pairs, depth 128,"), "{out}");
            assert!(lines[2].starts_with(" #bytes     #iterations    BW peak[MB/sec]    BW average[MB/sec]"), "{out}");
            let row: Vec<f64> = lines[3].split_whitespace().map(|cell| cell.parse().unwrap()).collect();
            assert_eq!(row[..2], [f64::from(size), 400.0]);
            assert!(row[2] >= row[3] && row[3] > 0.0 && row[4] > 0.0, "{out}");
            assert!(lines[4].starts_with(&format!("   {side}: ")) && lines.len() == 5, "{out}");
        }
        // For operations that the server does not measure itself, it prints the values that the client reported.
        let row = |out: &str| out.lines().nth(3).map(str::to_string);
        assert_eq!(row(&client) == row(&server), op != "send", "{client}{server}");

        let [client, server] = both(15_792, &format!("--op {op} --latency -s 8 -n 100"));
        let columns = " #bytes     #iterations    t_min[usec]   t_max[usec]   t_typical[usec]";
        assert!(client.contains(columns) && server.contains(columns), "{client}{server}");
        let row: Vec<f64> =
            client.lines().nth(3).unwrap().split_whitespace().map(|cell| cell.parse().unwrap()).collect();
        assert_eq!(row[..2], [8.0, 100.0]);
        assert!(row[2] > 0.0 && row[2] <= row[4] && row[4] <= row[3], "{client}");
        let told = server.contains(" 8          100            measured by the client");
        assert_eq!(told, op != "write" && op != "send", "{server}");
    }
}

#[test]
fn json_has_the_counters_of_one_side() {
    let [client, server] = both(15_793, "--format json -s 5000 -n 100 -m 512 --thread");
    let [client, server] = [client, server].map(|out| serde_json::from_str::<Value>(&out).unwrap());
    for (report, own, other) in [(&client, "client", "server"), (&server, "server", "client")] {
        assert_eq!((&report["op"], &report["service"], &report["mtu"]), (&"write".into(), &"rc".into(), &512.into()));
        assert_eq!((&report["client"], &report["server"]), (&"127.0.0.1:15793".into(), &"127.0.9.1:15793".into()));
        let row = &report["rows"][0];
        assert_eq!((&row["bytes"], &row["messages"]), (&5_000.into(), &100.into()));
        assert!(row[own]["counts"]["packets_received"].as_u64().unwrap() > 0, "{row}");
        assert!(row.get(other).is_none(), "{row}");
        // The client measured 100 messages of 5,000 bytes.
        let seconds = row["seconds"].as_f64().unwrap();
        assert!((row["bytes_per_second"].as_f64().unwrap() * seconds - 500_000.0).abs() < 1.0, "{row}");
    }
    // Each message consists of ten packets of 512 bytes.
    assert!(client["rows"][0]["client"]["counts"]["packets_sent"].as_u64().unwrap() >= 1_000);
}

#[test]
fn a_server_goes_on_after_a_client_that_fails() {
    let server = Server::start("--roce-port 15794 -s 100 -n 50");
    let client = |size: u32| {
        let arguments = format!("127.0.9.1 -p {} --perftest --roce-port 15794 -n 50 -s {size}", server.port);
        rnic(&arguments).output().unwrap()
    };
    // The server rejects a client that uses another protocol.
    let mut stream = std::net::TcpStream::connect(("127.0.9.1", server.port)).unwrap();
    stream.write_all(b"GET / HTTP/1.1\r\n\r\n").unwrap();
    drop(stream);
    let output = client(100);
    assert!(output.status.success(), "{}", text(&output.stderr));
}

#[test]
fn options_that_perftest_does_not_have_are_refused() {
    for (option, sentence) in [
        ("--all", "--all: a test has one size; use --size"),
        ("-D 1", "--duration: both sides count messages; use --iters"),
        ("--service irn", "--service irn: rnic supports its reliable connections only; leave it out or use rc"),
        ("--cc dcqcn", "--cc: perftest has no congestion control; leave it out"),
        ("--set g=1", "--set: perftest has no congestion control; leave it out"),
        ("--line-rate 1Gbps", "--line-rate: perftest has no congestion control; leave it out"),
        ("--in-flight 5", "--in-flight: the device's default applies; --tx-depth limits the outstanding messages"),
        ("--verify", "--verify: the content of perftest's messages is not defined; leave it out"),
        ("--loss 1%", "--loss: faults are injected on both sides, which perftest cannot do; leave it out"),
        ("--fault-seed 7", "--fault-seed: faults are injected on both sides, which perftest cannot do; leave it out"),
        ("-n 5000000000", "--iters 5000000000: at most 4294967295"),
    ] {
        let (said, code) = failure(&format!("127.0.0.1 --perftest {option}"));
        assert_eq!((said, code), (format!("error: --perftest cannot be combined with {sentence}\n"), 2));
    }
    let (said, code) = failure("127.0.0.1 --perftest --op read --latency -q 2");
    assert_eq!((said.as_str(), code), ("error: a test of latency must have one queue pair\n", 2));
}

#[test]
fn other_peers_are_told() {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let port = listener.local_addr().unwrap().port();
    let peer = std::thread::spawn(move || {
        let (mut stream, _) = listener.accept().unwrap();
        stream.write_all(b"SSH-2.0-OpenSSH_9.2\r\n").unwrap();
        // This peer keeps the connection open until rnic closes it.
        let _ = stream.read_to_end(&mut Vec::new());
    });
    let (said, code) = failure(&format!("127.0.0.1 -p {port} --perftest --roce-port 15795"));
    assert!(said.starts_with("error: the peer's version is \"SSH-2.0-OpenSSH_\", not one of perftest"), "{said}");
    assert_eq!(code, 1);
    peer.join().unwrap();
    // The peer has ended, so nothing listens at the port.
    let (said, code) = failure(&format!("127.0.0.1 -p {port} --perftest --op read --latency"));
    let start = format!(
        "error: no server accepts connections at 127.0.0.1:{port}; start `ib_read_lat` or `rnic perf --perftest` there"
    );
    assert!(said.starts_with(&start) && code == 1, "{said}");
}
