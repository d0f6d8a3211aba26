//! Text of hosts, files and devices of unknown origin never reaches the terminal unescaped. Each place at which the
//! command prints such text has a test.

use rnic_untrusted::text::escaped;
use std::fs;
use std::io::{BufRead, BufReader, Read, Write};
use std::net::{TcpListener, TcpStream};
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Output, Stdio};
use std::time::Duration;

/// Clears the screen, sets the title of the window, rings, forges a line of the log, and reverses the text after it.
const EVIL: &str = "\u{1b}[2J\u{1b}]0;title\u{7}\r\n[::ffff:10.9.0.9]:1: 1 measurement\u{202e}\u{9b}31m";
/// A part of [`EVIL`] in escaped form.
const ESCAPED: &str = "\\u{1b}[2J\\u{1b}]0;title\\u{7}\\r\\n[::ffff:10.9.0.9]:1: 1 measurement\\u{202e}";

fn rnic(arguments: &[&str]) -> Command {
    let mut command = Command::new(env!("CARGO_BIN_EXE_rnic"));
    command.args(arguments).stdin(Stdio::null()).stdout(Stdio::piped()).stderr(Stdio::piped());
    command
}

/// Checks that every line of an output is harmless, and that no line is forged.
fn check(what: &str, output: &str) {
    for line in output.lines() {
        let line = line.replace('\t', " ");
        assert_eq!(escaped(&line), line, "{what}");
        assert!(!line.starts_with("[::ffff:10.9.0.9]"), "{what}: a forged line");
    }
}

/// Checks both outputs of a command; returns them together.
fn harmless(what: &str, output: &Output) -> String {
    let text = |bytes: &[u8]| String::from_utf8(bytes.to_vec()).unwrap();
    let both = text(&output.stdout) + &text(&output.stderr);
    check(what, &both);
    both
}

/// A server of rnic at a free port, and its first line.
struct Server {
    child: Child,
    errors: BufReader<std::process::ChildStderr>,
    port: u16,
}

impl Server {
    fn start(arguments: &[&str]) -> Server {
        let mut child = rnic(arguments).args(["--bind", "127.0.0.1", "-p", "0"]).spawn().unwrap();
        let mut errors = BufReader::new(child.stderr.take().unwrap());
        let mut line = String::new();
        errors.read_line(&mut line).unwrap();
        let port = line.strip_prefix("waiting for clients at TCP port ").and_then(|rest| rest.split(';').next());
        let port = port.and_then(|port| port.parse().ok()).unwrap_or_else(|| panic!("{line}"));
        Server { child, errors, port }
    }

    /// Sends these bytes to the server, waits until it closes the connection, and returns its log about this client.
    fn says_about(&mut self, bytes: &[u8]) -> String {
        let mut stream = TcpStream::connect(("127.0.0.1", self.port)).unwrap();
        stream.write_all(bytes).unwrap();
        let _ = stream.shutdown(std::net::Shutdown::Write);
        let mut line = String::new();
        self.errors.read_line(&mut line).unwrap();
        line
    }
}

impl Drop for Server {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

#[test]
fn logs_of_servers() {
    let json = serde_json::to_string(EVIL).unwrap();
    let perf = |first: &str| format!("{{\"rnic_perf\":5}}\n{first}\n").into_bytes();
    let clients: [(&[&str], Vec<Vec<u8>>); 4] = [
        (
            &["perf", "--roce-port", "0"],
            vec![
                perf(&format!("{{\"say\":\"refused\",\"why\":{json}}}")),
                perf(&format!("{{\"say\":{json}}}")),
                perf(EVIL),
                format!("{EVIL}\n").into_bytes(),
            ],
        ),
        (
            &["ping", "--listen", "--roce-port", "0"],
            vec![format!("{{{json}: 1}}\n").into_bytes(), format!("{EVIL}\n").into_bytes()],
        ),
        (&["perf", "raw"], vec![format!("{EVIL}\n").into_bytes(), format!("throughput mode={EVIL}").into_bytes()]),
        (&["perf", "--perftest", "--op", "write", "--roce-port", "4799"], vec![EVIL.repeat(40).into_bytes()]),
    ];
    for (arguments, attempts) in clients {
        let mut server = Server::start(arguments);
        for attempt in attempts {
            let line = server.says_about(&attempt);
            let what = format!("{arguments:?} {}", String::from_utf8_lossy(&attempt).escape_debug());
            check(&what, line.trim_end_matches('\n'));
            assert!(line.len() > 20 && line.len() < 2_000, "{what}: {line}");
        }
    }
}

/// A server that sends these bytes to each client, in a thread that ends with the process.
fn hostile(bytes: Vec<u8>) -> String {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let port = listener.local_addr().unwrap().port().to_string();
    std::thread::spawn(move || {
        for stream in listener.incoming() {
            let mut stream = stream.unwrap();
            let _ = stream.write_all(&bytes);
            let _ = stream.set_read_timeout(Some(Duration::from_secs(20)));
            let _ = stream.shutdown(std::net::Shutdown::Write);
            let _ = stream.read_to_end(&mut Vec::new());
        }
    });
    port
}

#[test]
fn errors_of_clients() {
    let json = serde_json::to_string(EVIL).unwrap();
    let refused = format!("{{\"rnic_perf\":5}}\n{{\"say\":\"refused\",\"why\":{json}}}\n");
    let perf = ["perf", "127.0.0.1", "--roce-port", "0", "-n", "1", "-p"];
    let ping = ["ping", "127.0.0.1", "--roce-port", "0", "-c", "1", "-p"];
    let raw = ["perf", "raw", "127.0.0.1", "-D", "100ms", "-p"];
    let pingpong = ["pingpong", "127.0.0.1", "--roce-port", "4798", "-p"];
    let cases: [(&[&str], String, &str); 6] = [
        (&perf, refused, ESCAPED),
        (&perf, format!("{EVIL}\n"), "\\u{1b}[2J"),
        (&ping, format!("{{\"refused\":{{\"why\":{json}}}}}\n"), ESCAPED),
        (&ping, format!("{EVIL}\n"), "\\u{1b}[2J"),
        (&raw, format!("{EVIL}\n"), "\\u{1b}[2J"),
        (&pingpong, EVIL.repeat(2), "\\u{1b}[2J"),
    ];
    for (arguments, answer, part) in cases {
        let port = hostile(answer.into_bytes());
        let output = rnic(arguments).arg(port).output().unwrap();
        let said = harmless(&format!("{arguments:?}"), &output);
        assert_eq!(output.status.code(), Some(1), "{arguments:?}: {said}");
        assert!(said.contains(part), "{arguments:?}: {said}");
    }
}

fn examples() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../../examples/fleet").canonicalize().unwrap()
}

/// Copies a folder. Replaces `from` by `evil` in the names of its files and folders, and in the text of its files.
fn copy(folder: &Path, to: &Path, from: &str, evil: &str, in_text: &str) {
    fs::create_dir_all(to).unwrap();
    for entry in fs::read_dir(folder).unwrap() {
        let entry = entry.unwrap();
        let to = to.join(entry.file_name().to_str().unwrap().replace(from, evil));
        if entry.file_type().unwrap().is_dir() {
            copy(&entry.path(), &to, from, evil, in_text);
        } else {
            let bytes = fs::read(entry.path()).unwrap();
            match String::from_utf8(bytes) {
                Ok(text) => fs::write(to, text.replace(from, in_text)).unwrap(),
                Err(error) => fs::write(to, error.as_bytes()).unwrap(),
            }
        }
    }
}

/// Names of ports and profiles in the configuration of a switch, of devices and files of a host, and of the host
/// itself.
#[test]
fn names_of_a_fleet() {
    let folder = tempfile::tempdir().unwrap();
    // A file name has no slash. In JSON, control characters are escapes.
    let json = serde_json::to_string(EVIL).unwrap();
    let switch = folder.path().join("devices/leaf\u{1b}[2J");
    copy(&examples().join("devices/leaf1"), &switch, "Ethernet0", EVIL, json.trim_matches('"'));
    let host = folder.path().join("devices/gpu\u{202e}");
    copy(&examples().join("devices/gpu1"), &host, "ens1f0np0", EVIL, EVIL);
    let devices = folder.path().join("devices");
    let desired = examples().join("desired.toml");
    let scenario = folder.path().join("out.toml");
    for (name, more) in [
        ("table", vec![]),
        ("json", vec!["--format", "json"]),
        ("desired", vec!["--desired", desired.to_str().unwrap()]),
        ("scenario", vec!["--scenario", scenario.to_str().unwrap()]),
    ] {
        let output = rnic(&["lint", devices.to_str().unwrap()]).args(more).output().unwrap();
        let said = harmless(&format!("lint {name}"), &output);
        assert!(said.contains("\\u{1b}") || said.contains("\\u001b"), "{name}: {said}");
    }
    if let Ok(written) = fs::read_to_string(scenario) {
        check("the scenario", &written);
    }
    let root = host.to_str().unwrap();
    let output = rnic(&["counters", "--once", "--every", "100ms", "--node", EVIL, "--root", root]).output().unwrap();
    let said = harmless("counters", &output);
    assert!(said.contains("\\\\u{1b}[2J"), "{said}");
    // The metrics of other exporters, of which one is hostile.
    let metrics = folder.path().join("metrics.txt");
    fs::write(&metrics, said.replace("\\\\u{1b}[2J", "\u{1b}[2J") + "bad \u{1b}[2J line\n").unwrap();
    let output = rnic(&["counters", "--suspects", metrics.to_str().unwrap()]).output().unwrap();
    harmless("suspects", &output);
    let redis = hostile(format!("-ERR {EVIL}\r\n").into_bytes());
    let output = rnic(&["counters", "--once", "--redis", &format!("redis://127.0.0.1:{redis}")]).output().unwrap();
    harmless("redis", &output);
}

/// Names in a scenario, in tables and errors.
#[test]
fn names_in_scenarios() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("evil.toml");
    let name = "\\u001b[2J\\u202e\\u0007";
    let scenario = |title: &str, senders: &str, rest: &str| {
        format!(
            "title = \"{title}\"\n[fabric]\ntopology = \"leaf-spine\"\nleaves = 2\nspines = 1\nhosts_per_leaf = 2\n\
             rate = \"10 Gbps\"\ndelay = \"1 us\"\n[traffic]\npattern = \"incast\"\nsenders = {senders}\nreceiver = 0\n\
             total = \"10 KB\"\nrepeats = 1\ninterval = \"1 ms\"\n{rest}\n[[run]]\nname = \"{title}\"\ntransport = \"roce\"\n"
        )
    };
    for (what, text, code) in [
        // Control characters in names are refused; marks of the writing direction are no control characters.
        ("a name of a run", scenario("\\u202e", "2", ""), 0),
        ("a name with control characters", scenario(name, "2", ""), 2),
        ("a wrong key", scenario("a", "2", &format!("\"{name}\" = 1")), 2),
        ("a wrong value", scenario("a", &format!("\"{name}\""), ""), 2),
        ("no TOML", format!("# {EVIL}\n= {EVIL}\n"), 2),
    ] {
        fs::write(&path, text).unwrap();
        for command in [&["check"][..], &["run", "--quiet"]] {
            let output = rnic(command).arg(&path).current_dir(folder.path()).output().unwrap();
            let said = harmless(&format!("{command:?} {what}"), &output);
            assert_eq!(output.status.code(), Some(code), "{command:?} {what}: {said}");
            assert!(!said.is_empty(), "{command:?} {what}");
        }
    }
}

/// The interfaces of a capture file.
#[test]
fn names_in_captures() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("evil.pcapng");
    let mut file = rnic_wire::pcapng::Writer::new(Vec::new(), &[EVIL]).unwrap();
    file.frame(0, 1, &rnic_wire::Pfc::of(3, 100).emit(rnic_wire::MacAddr::default())).unwrap();
    fs::write(&path, file.finish().unwrap()).unwrap();
    for more in [&[][..], &["--fields"], &["--format", "json"]] {
        harmless("decode", &rnic(&["decode", path.to_str().unwrap()]).args(more).output().unwrap());
    }
}

/// A server that is overwhelmed by failing clients reports some of the failures, and serves the next client.
#[test]
fn failing_clients_do_not_fill_the_log() {
    let mut server = Server::start(&["perf", "--roce-port", "0"]);
    for _ in 0..500 {
        let _ = TcpStream::connect(("127.0.0.1", server.port)).map(|mut stream| stream.write_all(b"{\n"));
    }
    let measured = rnic(&["perf", "127.0.0.1", "--roce-port", "0", "-n", "10", "-s", "64", "-p"])
        .arg(server.port.to_string())
        .output()
        .unwrap();
    assert!(measured.status.success(), "{}", String::from_utf8_lossy(&measured.stderr));
    let mut line = String::new();
    while !line.ends_with(": 1 measurement\n") {
        line.clear();
        assert!(server.errors.read_line(&mut line).unwrap() > 0, "the server has ended");
    }
}
