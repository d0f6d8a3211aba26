//! Tests of a controller in this process, with a clock that the test sets.

use opentelemetry_proto::tonic::collector::metrics::v1::{
    ExportMetricsPartialSuccess, ExportMetricsServiceRequest, ExportMetricsServiceResponse,
};
use opentelemetry_proto::tonic::metrics::v1::{metric, number_data_point};
use prost::Message;
use rnic_endpoint::DatagramAddress;
use rnic_mesh::controller::{Clock, Event, Options, Reload, run};
use rnic_mesh::credentials::{Files, Issue, issue, make};
use rnic_mesh::host::{Client, ClientError};
use rnic_mesh::inventory::Inventory;
use rnic_mesh::record::{Batch, Health, PROTOCOL, ProbeRecord, ProbeResult, Registration};
use serde_json::Value;
use std::io::{BufRead, BufReader, Read, Write};
use std::net::{SocketAddr, TcpListener, TcpStream};
use std::path::Path;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Arc, mpsc};
use std::thread::JoinHandle;
use std::time::{Duration, Instant};

const HOUR: u64 = 3_600_000_000;
/// 2026-01-01 at 10:30.
const START: u64 = 1_767_225_600_000_000 + 10 * HOUR + HOUR / 2;

const INVENTORY: &str = "[mesh]\nevaluate = \"500 ms\"\nrefresh = \"300 ms\"\nreport = \"300 ms\"\nretention_hours = 100\n\
    [[host]]\nname = \"a\"\naddress = \"127.0.0.1\"\ntor = \"t1\"\n\
    [[host]]\nname = \"b\"\naddress = \"127.0.0.2\"\ntor = \"t2\"\n";

/// A controller in a thread.
struct Controller {
    stop: Arc<AtomicBool>,
    thread: Option<JoinHandle<()>>,
    events: mpsc::Receiver<Event>,
    seen: Vec<Event>,
    agents: SocketAddr,
    page: SocketAddr,
    reload: Arc<AtomicBool>,
}

impl Controller {
    fn start(folder: &Path, now: &Arc<AtomicU64>, otlp: Option<String>) -> Controller {
        let any = SocketAddr::from(([127, 0, 0, 1], 0));
        let shown = now.clone();
        let (requested, text) = (Arc::new(AtomicBool::new(false)), folder.join("inventory.toml"));
        let denied = Some(folder.join("keys/denied.txt")).filter(|path| path.exists());
        let options = Options {
            denied,
            reload: Reload::new(requested.clone(), move || {
                Inventory::parse(&std::fs::read_to_string(&text).map_err(|error| error.to_string())?)
            }),
            inventory: Arc::new(Inventory::parse(INVENTORY).unwrap()),
            folder: folder.join("data"),
            listen: any,
            page: any,
            files: files(folder, "controller"),
            otlp,
            clock: Clock::new(move || shown.load(Ordering::Relaxed)),
        };
        let stop = Arc::new(AtomicBool::new(false));
        let (sender, events) = mpsc::channel();
        let ending = stop.clone();
        let thread = std::thread::spawn(move || {
            run(&options, &ending, |event| {
                let _ = sender.send(event);
            })
            .unwrap();
        });
        let mut seen = Vec::new();
        let (agents, page) = loop {
            match events.recv_timeout(Duration::from_secs(30)).unwrap() {
                Event::Open(agents, page) => break (agents, page),
                event => seen.push(event),
            }
        };
        Controller { stop, thread: Some(thread), events, seen, agents, page, reload: requested }
    }

    fn client(&self, folder: &Path) -> Client {
        self.client_of(folder, "a")
    }

    fn client_of(&self, folder: &Path, host: &str) -> Client {
        Client::new(&format!("https://{}", self.agents), &files(folder, host)).unwrap()
    }

    fn event(&mut self, wanted: impl Fn(&Event) -> bool) -> Event {
        wait_for("an event", || {
            self.seen.extend(self.events.try_iter());
            self.seen.iter().find(|event| wanted(event)).cloned()
        })
    }

    fn view(&self, window: &str) -> Value {
        let mut stream = TcpStream::connect(self.page).unwrap();
        let path = format!("/api/overview?window={window}&metric=loss");
        write!(stream, "GET {path} HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\n\r\n").unwrap();
        let mut text = String::new();
        stream.read_to_string(&mut text).unwrap();
        serde_json::from_str(text.split_once("\r\n\r\n").unwrap().1).unwrap()
    }

    /// Number of probes from t1 to t2 in a window.
    fn probes(&self, window: &str) -> u64 {
        self.view(window)["cells"][0][3].as_u64().unwrap_or(0)
    }

    fn metrics(&self) -> String {
        let mut stream = TcpStream::connect(self.page).unwrap();
        write!(stream, "GET /metrics HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\n\r\n").unwrap();
        let mut text = String::new();
        stream.read_to_string(&mut text).unwrap();
        text
    }

    /// Reloads, and returns the events up to the one about certificates.
    fn reload(&mut self) -> Vec<Event> {
        self.seen.clear();
        self.reload.store(true, Ordering::Relaxed);
        self.event(|event| matches!(event, Event::Certificates(_)));
        self.seen.clone()
    }

    fn end(mut self) {
        self.stop.store(true, Ordering::Relaxed);
        self.thread.take().unwrap().join().unwrap();
    }
}

#[expect(clippy::disallowed_methods, reason = "a controller runs in real time")]
fn wait_for<T>(what: &str, mut done: impl FnMut() -> Option<T>) -> T {
    let end = Instant::now() + Duration::from_secs(30);
    loop {
        if let Some(found) = done() {
            return found;
        }
        assert!(Instant::now() < end, "{what} did not happen within 30 s");
        std::thread::sleep(Duration::from_millis(20));
    }
}

fn files(folder: &Path, name: &str) -> Files {
    let path = |file: String| folder.join("keys").join(file);
    Files {
        certificate: path(format!("{name}.pem")),
        key: path(format!("{name}-key.pem")),
        ca: path("ca.pem".to_string()),
    }
}

fn folder() -> tempfile::TempDir {
    let folder = tempfile::tempdir().unwrap();
    let hosts = ["a".to_string(), "b".to_string()];
    make(&folder.path().join("keys"), &["127.0.0.1".to_string()], &hosts).unwrap();
    folder
}

fn batch(sequence: u64, probes: usize) -> Vec<u8> {
    let result = ProbeResult::Answered { total_ns: 60_000, prober_ns: 5_000, split_ns: Some((9_000, 20_000)) };
    let probe = ProbeRecord { target: 0, path: 0, at_us: 1, result };
    Batch {
        protocol: PROTOCOL,
        host: "a".to_string(),
        incarnation: 1,
        sequence,
        targets: vec![("b".to_string(), 1)],
        source_ports: vec![50_000],
        probes: vec![probe; probes],
        traces: Vec::new(),
    }
    .emit()
}

fn files_of(data: &Path, end: &str) -> Vec<String> {
    let names = std::fs::read_dir(data).unwrap().map(|entry| entry.unwrap().file_name().into_string().unwrap());
    let mut names: Vec<String> = names.filter(|name| name.ends_with(end)).collect();
    names.sort();
    names
}

/// The clock of a running controller goes back by two hours, then jumps ahead by five, and is then correct again. Every
/// report is stored, the windows are not affected, and a controller that starts afterwards fills its windows from the
/// Parquet files.
#[test]
fn clock_steps_lose_nothing() {
    let folder = folder();
    let (folder, data) = (folder.path(), folder.path().join("data"));
    let now = Arc::new(AtomicU64::new(START));
    let controller = Controller::start(folder, &now, None);
    let client = controller.client(folder);
    for (sequence, (time, probes)) in
        (1..).zip([(START, 10), (START - 2 * HOUR, 20), (START + 3 * HOUR, 40), (START + 60_000_000, 80)])
    {
        now.store(time, Ordering::Relaxed);
        client.report(&batch(sequence, probes)).unwrap();
    }
    assert_eq!((controller.probes("1m"), controller.probes("1h")), (150, 150), "{}", controller.view("1m"));
    let expected =
        ["probes-2026-01-01T08-0.parquet", "probes-2026-01-01T10-0.parquet", "probes-2026-01-01T13-0.parquet"];
    let converted =
        || files_of(&data, ".parquet") == expected && files_of(&data, ".log") == ["probes-2026-01-01T10-1.log"];
    wait_for("the files of three hours and the log of the last reports", || converted().then_some(()));
    controller.end();

    // Five minutes later: the first report is 6 minutes old, the last one 5; the others are not of the last hour.
    now.store(START + 6 * 60_000_000, Ordering::Relaxed);
    let mut controller = Controller::start(folder, &now, None);
    let refilled = controller.event(|event| matches!(event, Event::Refilled(_)));
    let Event::Refilled(earlier) = refilled else { panic!("{refilled:?}") };
    assert_eq!((earlier.results, earlier.left_out, earlier.unreadable.len()), (10, 0, 0));
    assert_eq!([controller.probes("1m"), controller.probes("10m"), controller.probes("1h")], [0, 90, 90]);
    wait_for("the last file", || files_of(&data, ".log").is_empty().then_some(()));
    controller.end();

    // A third one has Parquet files alone, one of them damaged: it reports this, and uses the other files.
    std::fs::write(data.join("probes-2026-01-01T10-7.parquet"), [0; 64]).unwrap();
    let mut controller = Controller::start(folder, &now, None);
    let Event::Refilled(earlier) = controller.event(|event| matches!(event, Event::Refilled(_))) else { panic!() };
    assert_eq!((earlier.results, earlier.unreadable.len()), (90, 1), "{earlier:?}");
    assert_eq!(controller.probes("10m"), 90);
    // The clock shows an hour before all results: their age is not known, and reports continue.
    controller.end();
    now.store(START - 2 * HOUR, Ordering::Relaxed);
    let controller = Controller::start(folder, &now, None);
    assert_eq!(controller.probes("1h"), 20, "those of 08:30, before the clock was right");
    let client = controller.client(folder);
    client.report(&batch(5, 7)).unwrap();
    assert_eq!(controller.probes("1m"), 27);
    // No controller stores a report again that is already on disk.
    client.report(&batch(4, 80)).unwrap();
    assert_eq!(controller.probes("1h"), 27);
    controller.end();
}

/// A controller that starts with a damaged log reports the damage, keeps the log, and uses the intact reports.
#[test]
fn a_damaged_log_is_reported() {
    let folder = folder();
    let (folder, data) = (folder.path(), folder.path().join("data"));
    let now = Arc::new(AtomicU64::new(START));
    let controller = Controller::start(folder, &now, None);
    let client = controller.client(folder);
    (1..=4).for_each(|sequence| client.report(&batch(sequence, 10)).unwrap());
    controller.end();
    let log = data.join("probes-2026-01-01T10-0.log");
    let mut bytes = std::fs::read(&log).unwrap();
    let at = bytes.len() / 3;
    bytes[at] ^= 0x10;
    std::fs::write(&log, bytes).unwrap();
    std::fs::write(data.join("notes.log"), "notes").unwrap();

    let mut controller = Controller::start(folder, &now, None);
    assert_eq!(controller.probes("1h"), 30);
    let Event::Damaged(why) = controller.event(|event| matches!(event, Event::Damaged(_))) else { panic!() };
    assert!(why.contains("T10-0.log: ") && why.contains(" damaged; 30 results are in "), "{why}");
    assert_eq!(files_of(&data, ".damaged"), ["probes-2026-01-01T10-0.log.damaged"]);
    assert_eq!(files_of(&data, ".log"), ["notes.log"]);
    controller.end();
    let controller = Controller::start(folder, &now, None);
    assert_eq!(controller.probes("1h"), 30);
    controller.end();
    assert_eq!(std::fs::read_to_string(data.join("notes.log")).unwrap(), "notes");
}

/// A host with a certificate cannot report times that no clock can measure, nor targets that do not exist.
#[test]
fn an_agent_that_lies_is_refused() {
    let folder = folder();
    let (folder, data) = (folder.path(), folder.path().join("data"));
    let now = Arc::new(AtomicU64::new(START));
    let controller = Controller::start(folder, &now, None);
    let client = controller.client(folder);
    let with = |sequence: u64, result: ProbeResult| {
        let mut batch = Batch::parse(&batch(sequence, 10)).unwrap();
        batch.probes[5].result = result;
        batch.emit()
    };
    let answered = |total_ns, prober_ns, split_ns| ProbeResult::Answered { total_ns, prober_ns, split_ns };
    for result in [
        answered(u64::MAX, 0, None),
        answered(60_000, u64::MAX, None),
        answered(60_000, 5_000, Some((u64::MAX, 20_000))),
        answered(60_000, 5_000, Some((9_000, u64::MAX))),
    ] {
        let why = client.report(&with(1, result)).unwrap_err();
        assert!(matches!(&why, ClientError::Invalid(why) if why.contains("(400): a result has a ")), "{why}");
        assert!(client.show(&with(1, result)).is_err());
    }
    assert_eq!(controller.probes("1h"), 0, "nothing of a refused report counts");
    let mut other = Batch::parse(&batch(1, 10)).unwrap();
    other.targets = vec![("\u{1b}[2J".to_string(), 1), ("b".to_string(), 1)];
    other.probes.iter_mut().skip(4).for_each(|probe| probe.target = 1);
    client.report(&other.emit()).unwrap();
    assert_eq!(controller.probes("1h"), 6);
    controller.end();
    let mut stored = rnic_mesh::store::entries(&data.join("probes-2026-01-01T10-0.log")).unwrap();
    let entry = stored.next().unwrap();
    assert_eq!((entry.batch.targets, entry.batch.probes.len()), (vec![("b".to_string(), 1)], 6));
    assert_eq!(stored.next(), None);
}

/// If a target was down when the controller was restarted, probes to it do not count as losses of the network, neither
/// in new reports nor in reports that an earlier controller has stored. Lost probes to a target that is up count.
#[test]
fn a_target_that_was_down_at_a_restart_is_no_loss() {
    let folder = folder();
    let folder = folder.path();
    let now = Arc::new(AtomicU64::new(START));
    let register = |controller: &Controller, host: &str| {
        let address = if host == "a" { [127, 0, 0, 1] } else { [127, 0, 0, 2] };
        let address = DatagramAddress { addr: (address, 4_791).into(), qpn: 5, qkey: 6 };
        let (protocol, incarnation, list_version, digest, health) = (PROTOCOL, 1, 0, 0, Health::default());
        let registration =
            Registration { protocol, host: host.to_string(), incarnation, address, list_version, digest, health };
        controller.client_of(folder, host).fetch(&registration).unwrap();
    };
    let report = |controller: &Controller, host: &str, sequence: u64, timeouts: usize| {
        let mut batch = Batch::parse(&batch(sequence, 1)).unwrap();
        batch.host = host.to_string();
        batch.targets[0].0 = if host == "a" { "b" } else { "a" }.to_string();
        batch.probes.extend(vec![ProbeRecord { result: ProbeResult::Timeout, ..batch.probes[0] }; timeouts]);
        controller.client_of(folder, host).report(&batch.emit()).unwrap();
    };
    // Lost probes from t1 to t2, and results that say nothing.
    let counts = |controller: &Controller| {
        let view = controller.view("1h");
        let cells = view["cells"].as_array().unwrap();
        let lost = cells.iter().find(|cell| cell[0] == 0).map_or(0, |cell| cell[4].as_u64().unwrap());
        (lost, view["gone"].as_u64().unwrap())
    };
    let controller = Controller::start(folder, &now, None);
    register(&controller, "a");
    register(&controller, "b");
    report(&controller, "b", 1, 0);
    report(&controller, "a", 1, 5);
    assert_eq!(counts(&controller), (5, 0));
    // Both hosts are known, and b goes down: after three fetches its silence says nothing.
    wait_for("the end of b", || {
        report(&controller, "a", 2, 0);
        (controller.view("1h")["agents"]["up"] == 0).then_some(())
    });
    register(&controller, "a");
    now.store(START + 10_000_000, Ordering::Relaxed);
    report(&controller, "a", 3, 7);
    assert_eq!(counts(&controller), (5, 7));
    controller.end();

    now.store(START + 20_000_000, Ordering::Relaxed);
    let controller = Controller::start(folder, &now, None);
    assert_eq!(counts(&controller), (5, 7), "as the earlier controller has counted");
    // It has restored both, and only a speaks.
    register(&controller, "a");
    report(&controller, "a", 4, 11);
    assert_eq!(counts(&controller).0, 5, "it is not known yet whether b is up");
    wait_for("the end of the patience with b", || (counts(&controller) == (5, 18)).then_some(()));
    controller.end();

    // The same with b, which speaks in time.
    let controller = Controller::start(folder, &now, None);
    register(&controller, "a");
    report(&controller, "a", 5, 13);
    register(&controller, "b");
    wait_for("losses", || (counts(&controller) == (18, 18)).then_some(()));
    controller.end();
}

fn registration(host: &str, last: u8) -> Registration {
    let address = DatagramAddress { addr: ([127, 0, 0, last], 4_791).into(), qpn: 5, qkey: 6 };
    let health = Health::default();
    Registration { protocol: PROTOCOL, host: host.into(), incarnation: 1, address, list_version: 0, digest: 0, health }
}

/// A controller reads its inventory again while it runs: results and agents of hosts that remain are kept, one host is
/// added, one is removed, and a file with a mistake changes nothing.
#[test]
fn the_inventory_is_read_again() {
    let folder = folder();
    let folder = folder.path();
    let now = Arc::new(AtomicU64::new(START));
    let mut controller = Controller::start(folder, &now, None);
    let client = controller.client(folder);
    client.fetch(&registration("a", 1)).unwrap();
    client.report(&batch(1, 10)).unwrap();
    let file = folder.join("inventory.toml");
    std::fs::write(&file, "[[host]]\nname = \"a\"\n").unwrap();
    let events = controller.reload();
    assert!(
        matches!(&events[..], [.., Event::NotReloaded(why), Event::Certificates(0)] if why.contains("missing field"))
    );
    assert_eq!((controller.probes("1h"), &controller.view("1h")["agents"]["known"]), (10, &Value::from(2)));
    let host = |name: &str, last: u8| {
        format!("[[host]]\nname = \"{name}\"\naddress = \"127.0.0.{last}\"\ntor = \"t{last}\"\n")
    };
    let head = INVENTORY.split("[[host]]").next().unwrap();
    // The indices of a and b change.
    std::fs::write(&file, [head, &host("c", 3), &host("b", 2), &host("a", 1)].concat()).unwrap();
    assert!(controller.reload().contains(&Event::Inventory(3, 1, 0)));
    let view = controller.view("1h");
    assert_eq!(
        (&view["agents"]["known"], &view["cells"][0][0], &view["cells"][0][3]),
        (&3.into(), &2.into(), &10.into())
    );
    make(&folder.join("keys"), &[], &["c".to_string()]).unwrap();
    controller.client_of(folder, "c").fetch(&registration("c", 3)).unwrap();
    client.report(&batch(2, 5)).unwrap();
    client.report(&batch(2, 5)).unwrap();
    assert_eq!(controller.view("1h")["cells"][0][3], 15, "numbers of reports are kept too");
    std::fs::write(&file, [head, &host("c", 3), &host("a", 1)].concat()).unwrap();
    assert!(controller.reload().contains(&Event::Inventory(2, 0, 1)));
    let why = controller.client_of(folder, "b").fetch(&registration("b", 2)).unwrap_err();
    assert!(why.to_string().contains("the inventory has no host b"), "{why}");
    assert_eq!(controller.view("1h")["cells"], Value::Array(Vec::new()));
    controller.end();
}

/// A withdrawn certificate is refused, also on a connection that is open; its host's new certificate is accepted. The
/// controller's own certificate is replaced while it runs.
#[test]
fn certificates_are_withdrawn_and_renewed() {
    let folder = folder();
    let folder = folder.path();
    let keys = folder.join("keys");
    std::fs::write(keys.join("denied.txt"), "# withdrawn certificates\n").unwrap();
    let now = Arc::new(AtomicU64::new(START));
    std::fs::write(folder.join("inventory.toml"), INVENTORY).unwrap();
    let mut controller = Controller::start(folder, &now, None);
    let stolen = controller.client(folder);
    stolen.fetch(&registration("a", 1)).unwrap();
    assert!(controller.metrics().contains("\nrpingmesh_certificate_end_seconds{name=\"controller\"} "));
    std::fs::copy(keys.join("controller.pem"), keys.join("old.pem")).unwrap();
    let hosts = ["a".to_string(), "b".to_string()];
    let what = Issue { withdraw: vec!["a".to_string(), "controller".to_string()], ..Issue::default() };
    issue(&keys, &["127.0.0.1".to_string()], &hosts, &what).unwrap();
    assert!(controller.reload().contains(&Event::Certificates(2)));
    for client in [&stolen, &Client::new(&format!("https://{}", controller.agents), &files(folder, "b")).unwrap()] {
        let why = client.fetch(&registration("a", 1)).unwrap_err().to_string();
        assert!(why.contains("(403): the certificate "), "{why}");
    }
    let why = stolen.report(&batch(1, 10)).unwrap_err().to_string();
    assert!(why.contains("(403): the certificate was withdrawn"), "{why}");
    let renewed = controller.client(folder);
    renewed.fetch(&registration("a", 1)).unwrap();
    renewed.report(&batch(1, 10)).unwrap();
    // A list with a mistake changes nothing.
    std::fs::write(keys.join("denied.txt"), "h1\n").unwrap();
    controller.seen.clear();
    controller.reload.store(true, Ordering::Relaxed);
    let Event::NotReloaded(why) = controller.event(|event| matches!(event, Event::NotReloaded(_))) else { panic!() };
    assert!(why.contains("denied.txt: line 1: "), "{why}");
    assert!(stolen.report(&batch(2, 10)).is_err());
    // After the end of the certificate, the open connection is refused, and 30 days before it the controller warns.
    let end = rnic_mesh::credentials::end_of(&files(folder, "a").read().unwrap().chain[0]).unwrap();
    now.store((end - 86_400) as u64 * 1_000_000, Ordering::Relaxed);
    controller.event(|event| *event == Event::CertificateEnds("a".to_string(), end));
    renewed.fetch(&registration("a", 1)).unwrap();
    now.store((end + 1) as u64 * 1_000_000, Ordering::Relaxed);
    let why = renewed.fetch(&registration("a", 1)).unwrap_err().to_string();
    assert!(why.contains("(403): the certificate has ended"), "{why}");
    controller.end();
}

/// A host whose agent stops sending requests becomes a suspect, with the time of its start. When the agent is back, the
/// suspect is in the history.
#[test]
fn a_silent_host_is_a_suspect_until_it_is_back() {
    let folder = folder();
    let folder = folder.path();
    let controller = Controller::start(folder, &Arc::new(AtomicU64::new(START)), None);
    let (a, b) = (controller.client(folder), controller.client_of(folder, "b"));
    let fetch = |client: &Client, host: &str, last: u8| drop(client.fetch(&registration(host, last)).unwrap());
    fetch(&b, "b", 2);
    let view = wait_for("a suspect", || {
        fetch(&a, "a", 1);
        Some(controller.view("1m")).filter(|view| view["findings"][0]["symptom"] == "silent")
    });
    assert_eq!((&view["findings"][0]["parts"][0], &view["state"]["level"]), (&"host b".into(), &"fault".into()));
    assert!(view["state"]["text"].as_str().unwrap().starts_with("Silent: host b"), "{view}");
    assert!(controller.metrics().contains("rpingmesh_suspect_score{symptom=\"silent\",part=\"host b\"} 1"));
    let view = wait_for("the end of the suspect", || {
        fetch(&a, "a", 1);
        fetch(&b, "b", 2);
        Some(controller.view("1m")).filter(|view| view["findings"] == Value::Array(Vec::new()))
    });
    assert!(view["past"][0]["text"].as_str().unwrap().starts_with("Silent: host b"), "{view}");
    controller.end();
}

/// A collector that handles one request at a time: it responds with `answer`, and returns the request.
fn collector(answer: impl Fn(usize) -> Vec<u8> + Send + 'static) -> (String, mpsc::Receiver<(String, Vec<u8>)>) {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let url = format!("http://{}/v1/metrics", listener.local_addr().unwrap());
    let (sender, requests) = mpsc::channel();
    std::thread::spawn(move || {
        for (number, stream) in listener.incoming().map_while(Result::ok).enumerate() {
            let mut reader = BufReader::new(stream.try_clone().unwrap());
            let mut head = String::new();
            while reader.read_line(&mut head).is_ok_and(|len| len > 2) {}
            let length =
                head.lines().find_map(|line| line.to_lowercase().strip_prefix("content-length: ")?.parse().ok());
            let mut body = vec![0; length.unwrap_or(0)];
            reader.read_exact(&mut body).unwrap();
            let answer = answer(number);
            let mut stream = stream;
            write!(stream, "HTTP/1.1 200 OK\r\nContent-Length: {}\r\nConnection: close\r\n\r\n", answer.len()).unwrap();
            stream.write_all(&answer).unwrap();
            if sender.send((head, body)).is_err() {
                return;
            }
        }
    });
    (url, requests)
}

/// OpenTelemetry's own message types decode the bytes that a collector gets. If a collector rejects values, the
/// controller reports this.
#[test]
fn a_collector_reads_the_metrics() {
    let folder = folder();
    let folder = folder.path();
    let (url, requests) = collector(|number| {
        let rejected = ExportMetricsPartialSuccess { rejected_data_points: 3, error_message: "too old".to_string() };
        let partial_success = (number > 1).then_some(rejected);
        ExportMetricsServiceResponse { partial_success }.encode_to_vec()
    });
    let now = Arc::new(AtomicU64::new(START));
    let mut controller = Controller::start(folder, &now, Some(url.clone()));
    controller.client(folder).report(&batch(1, 30)).unwrap();
    now.store(START + 1_000_000, Ordering::Relaxed);
    let found = wait_for("the metric", || {
        let (head, body) = requests.recv_timeout(Duration::from_secs(20)).unwrap();
        let head = head.to_lowercase();
        assert!(head.starts_with("post /v1/metrics http/1.1"), "{head}");
        assert!(head.contains("content-type: application/x-protobuf"), "{head}");
        let request = ExportMetricsServiceRequest::decode(&body[..]).unwrap();
        let resource = &request.resource_metrics[0];
        assert_eq!(resource.resource.as_ref().unwrap().attributes[0].key, "service.name");
        let metrics = &resource.scope_metrics[0].metrics;
        let total = metrics.iter().find(|metric| metric.name == "rpingmesh_probe_total")?.clone();
        let rtt = metrics.iter().find(|metric| metric.name == "rpingmesh_network_rtt_ns").unwrap().clone();
        Some((total, rtt))
    });
    let (Some(metric::Data::Sum(total)), Some(metric::Data::Gauge(rtt))) = (found.0.data, found.1.data) else {
        panic!()
    };
    let point = &total.data_points[0];
    assert!(total.is_monotonic && total.aggregation_temporality == 2);
    assert_eq!(point.value, Some(number_data_point::Value::AsInt(30)));
    assert_eq!(point.start_time_unix_nano, START * 1_000);
    let labels: Vec<&str> = point.attributes.iter().map(|attribute| attribute.key.as_str()).collect();
    assert_eq!(labels, ["source_tor", "target_tor"]);
    let Some(number_data_point::Value::AsDouble(ns)) = rtt.data_points[0].value else { panic!("{rtt:?}") };
    assert!((ns / 20_000.0 - 1.0).abs() < 0.02 && found.1.unit == "ns", "{ns}");
    let told = controller.event(|event| matches!(event, Event::Otlp(_)));
    assert_eq!(told, Event::Otlp(format!("{url}: the collector has rejected 3 values: too old")));
    controller.end();
}
