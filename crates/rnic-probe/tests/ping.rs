//! Tests of pings between a prober and a responder on this host, and of hosts without a session that send messages to a
//! responder.

use rnic_endpoint::clock::{Clock, TimeSource as _};
use rnic_endpoint::exchange::{Channel, Credentials};
use rnic_endpoint::port::ROCE_PORT;
use rnic_endpoint::{
    Access, CompletionQueue, Config, Data, DatagramAddress, DatagramOptions, Device, GRH_LEN, MemoryRegion, QpOptions,
    QueuePair, Security, SendFlags, SendOp, SendRequest, Service, Time,
};
use rnic_probe::message::{Kind, Message, response_len};
use rnic_probe::{
    Outcome, PingError, PingEvent, PingOptions, ProbeError, RespondEvent, RespondOptions, ResponderCounters, Summary,
    ping, respond,
};
use serde_json::{Value, json};
use std::net::{IpAddr, Ipv4Addr, SocketAddr, TcpListener, TcpStream};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::mpsc::{self, Receiver};
use std::thread::JoinHandle;
use std::time::Duration;

/// A responder on this host, in a thread.
struct Side {
    host: String,
    stop: Arc<AtomicBool>,
    events: Receiver<String>,
    thread: Option<JoinHandle<ResponderCounters>>,
}

impl Side {
    fn start(address: &str, credentials: Option<Credentials>) -> Side {
        let listener = TcpListener::bind(address).unwrap();
        let host = listener.local_addr().unwrap().to_string();
        let (stop, (told, events)) = (Arc::new(AtomicBool::new(false)), mpsc::channel());
        let theirs = stop.clone();
        let thread = std::thread::spawn(move || {
            let options = RespondOptions { roce_port: 0, credentials };
            let tell = |event| {
                let text = match event {
                    RespondEvent::Opened(_) => "opened".to_string(),
                    RespondEvent::Closed(_) => "closed".to_string(),
                    RespondEvent::Failed(_, why) => why.to_string(),
                    RespondEvent::NoArrivalTimes(_, why) => why,
                };
                let _ = told.send(text);
            };
            respond(&listener, options, &theirs, tell).unwrap()
        });
        Side { host, stop, events, thread: Some(thread) }
    }

    fn event(&self) -> String {
        self.events.recv_timeout(Duration::from_secs(20)).unwrap()
    }

    fn end(mut self) -> ResponderCounters {
        self.stop.store(true, Ordering::Relaxed);
        self.thread.take().unwrap().join().unwrap()
    }
}

fn options(count: u64) -> PingOptions {
    let interval = Time::from_ms(2);
    PingOptions { count: Some(count), interval, timeout: Time::from_ms(5_000), roce_port: 0, ..PingOptions::default() }
}

fn probe(host: &str, options: &PingOptions) -> Result<(Summary, Vec<(Outcome, u16)>), PingError> {
    let mut outcomes = Vec::new();
    let summary = ping(host, options, &AtomicBool::new(false), |event, port| {
        if let PingEvent::Outcome(outcome) = event {
            outcomes.push((*outcome, port));
        }
    })?;
    Ok((summary, outcomes))
}

#[test]
fn every_probe_is_answered_and_its_time_separated() {
    for (address, size) in [("127.0.0.1:0", 512), ("[::1]:0", 512), ("127.0.0.1:0", 136), ("127.0.0.1:0", 4_096)] {
        let side = Side::start(address, None);
        let (summary, outcomes) = probe(&side.host, &PingOptions { size, ..options(50) }).unwrap();
        assert_eq!((summary.probes, summary.answered, summary.without_report), (50, 50, 0), "{address} {size}");
        assert_eq!((summary.loss, summary.stray, summary.size), (0.0, 0, size));
        for (outcome, _) in &outcomes {
            let times = outcome.result.unwrap();
            let split = times.split.unwrap();
            // The three parts are the whole, and each takes some time.
            let sum = times.prober + split.responder + split.network;
            assert_eq!(sum, times.total, "{times:?}");
            assert!(split.network > Time::ZERO && split.responder > Time::ZERO, "{times:?}");
        }
        let network = summary.network_us.unwrap();
        assert!(0.0 < network.min && network.min <= network.p50 && network.p50 <= network.max, "{network:?}");
        assert_eq!([side.event(), side.event()], ["opened", "closed"]);
        let counters = side.end();
        assert_eq!(counters, ResponderCounters { answered: 50, limited: 0, unexpected: 0 });
    }
}

#[test]
fn paths_have_source_ports_of_their_own() {
    let side = Side::start("127.0.0.1:0", None);
    let (summary, outcomes) = probe(&side.host, &PingOptions { paths: 5, ..options(20) }).unwrap();
    let mut ports: Vec<u16> = summary.paths.iter().map(|path| path.source_port).collect();
    assert!(summary.paths.iter().all(|path| (path.probes, path.answered) == (4, 4)));
    for (outcome, port) in outcomes {
        assert_eq!((u64::from(outcome.path), port), (outcome.sequence % 5, ports[usize::from(outcome.path)]));
    }
    ports.sort_unstable();
    ports.dedup();
    assert_eq!(ports.len(), 5);
    side.end();
}

/// Several probers at the same time, each with its own session.
#[test]
fn several_probers_share_a_responder() {
    let side = Side::start("127.0.0.1:0", None);
    let probers: Vec<_> = (0..4)
        .map(|_| {
            let host = side.host.clone();
            std::thread::spawn(move || probe(&host, &options(30)).unwrap().0.answered)
        })
        .collect();
    assert!(probers.into_iter().all(|prober| prober.join().unwrap() == 30));
    assert_eq!(side.end().answered, 120);
}

#[test]
fn a_secret_keeps_others_out() {
    let file = |secret: &str| {
        let path = std::env::temp_dir().join(format!("rnic-ping-{}-{secret}", std::process::id()));
        std::fs::write(&path, secret.repeat(8)).unwrap();
        let credentials = Credentials::from_secret_file(&path).unwrap();
        std::fs::remove_file(path).unwrap();
        Some(credentials)
    };
    let side = Side::start("127.0.0.1:0", file("0123456789"));
    let secured = |credentials| probe(&side.host, &PingOptions { credentials, ..options(3) });
    assert_eq!(secured(file("0123456789")).unwrap().0.answered, 3);
    assert!(secured(file("9876543210")).unwrap_err().to_string().contains("same secret"));
    assert!(secured(None).is_err());
    side.end();
}

#[test]
fn a_responder_that_ends_is_noticed() {
    let side = Side::start("127.0.0.1:0", None);
    let host = side.host.clone();
    let prober = std::thread::spawn(move || {
        let endless = PingOptions { count: None, ..options(1) };
        probe(&host, &endless).unwrap()
    });
    assert_eq!(side.event(), "opened");
    pause(50);
    side.end();
    let (summary, _) = prober.join().unwrap();
    assert!(summary.answered > 0 && !summary.interrupted && summary.responder_ended);
    assert_eq!(summary.probes, summary.answered + summary.errors[ProbeError::Gone.code()]);
}

#[test]
fn an_interrupted_ping_has_a_summary() {
    let side = Side::start("127.0.0.1:0", None);
    let stop = AtomicBool::new(false);
    let endless = PingOptions { count: None, ..options(1) };
    let summary = ping(&side.host, &endless, &stop, |event, _| {
        if let PingEvent::Outcome(Outcome { sequence: 9, .. }) = event {
            stop.store(true, Ordering::Relaxed);
        }
    });
    let summary = summary.unwrap();
    assert!(
        summary.interrupted && !summary.responder_ended && summary.answered >= 9 && summary.probes == summary.answered,
        "{summary:?}"
    );
    side.end();
}

#[test]
fn what_is_not_possible_gets_a_sentence() {
    let sentence = |options: PingOptions| probe("127.0.0.1:1", &options).unwrap_err().to_string();
    let usual = options(1);
    for (options, expected) in [
        (PingOptions { size: 135, ..usual.clone() }, "a probe of 135 bytes is not possible; it must have 136 to 4096"),
        (PingOptions { paths: 257, ..usual.clone() }, "257 paths are not possible; there must be 1 to 256"),
        (PingOptions { dscp: 64, ..usual.clone() }, "a DSCP of 64 is not possible; it must be 0 to 63"),
        (PingOptions { count: Some(0), ..usual.clone() }, "0 probes are not possible; there must be at least 1"),
        (
            PingOptions { interval: Time::from_us(999), ..usual.clone() },
            "an interval of 999 us is not possible; it must be 1 ms to 1 hour",
        ),
    ] {
        assert_eq!(sentence(options), expected);
    }
    let nobody = sentence(usual);
    assert!(nobody.starts_with("cannot connect to 127.0.0.1:1 over TCP: "), "{nobody}");
}

#[expect(clippy::disallowed_methods, reason = "another thread is waited for")]
fn pause(ms: u64) {
    std::thread::sleep(Duration::from_millis(ms));
}

/// A stranger with a device of its own, who speaks the exchange by hand.
struct Stranger {
    _device: Device,
    cq: CompletionQueue,
    qp: QueuePair,
    memory: MemoryRegion,
    address: DatagramAddress,
}

impl Stranger {
    fn new() -> Stranger {
        let config = Config { security: Security::None, ..Config::default() };
        let device = Device::open_at(SocketAddr::new(Ipv4Addr::LOCALHOST.into(), 0), config).unwrap();
        let (cq, pd) = (device.completion_queue(64).unwrap(), device.protection_domain());
        let qp = pd.queue_pair(&QpOptions { service: Service::Ud, ..QpOptions::new(&cq) }).unwrap();
        let address = qp.open_datagrams(&DatagramOptions { qkey: None, mtu: 4_096 }).unwrap();
        let memory = pd.register(vec![0; 8_192], Access::LOCAL).unwrap();
        Stranger { _device: device, cq, qp, memory, address }
    }

    fn hello(&self, host: &str, hello: &Value) -> (Channel, Value) {
        let mut channel = Channel::connect(host).unwrap();
        channel.send(hello).unwrap();
        let answer = channel.receive().unwrap();
        (channel, answer)
    }

    fn open(&self, host: &str) -> (Channel, u64, DatagramAddress) {
        let (channel, answer) = self.hello(host, &json!({"hello": {"ping": 1, "prober": self.address}}));
        let welcome = &answer["welcome"];
        let responder = serde_json::from_value(welcome["responder"].clone()).unwrap();
        (channel, welcome["session"].as_u64().unwrap(), responder)
    }

    fn send(&self, bytes: &[u8], to: &DatagramAddress) {
        self.memory.write(4_096, bytes).unwrap();
        let gather = [self.memory.slice(4_096, bytes.len()).unwrap()];
        let (op, data, flags) = (SendOp::Send, Data::Gather(&gather), SendFlags::SIGNALED);
        self.qp.post_datagram(&SendRequest { wr_id: 1, op, data, flags }, &to.recipient()).unwrap();
        self.cq.wait_one(Time::from_ms(5_000)).unwrap();
    }

    /// The lengths of the answers that arrive within 100 ms.
    fn answers(&self) -> Vec<usize> {
        let mut lengths = Vec::new();
        for _ in 0..2 {
            self.qp.post_recv(9, &[self.memory.slice(0, 4_096).unwrap()]).unwrap();
        }
        while let Ok(completion) = self.cq.wait_one(Time::from_ms(100)) {
            lengths.push(completion.byte_len as usize - GRH_LEN as usize);
        }
        lengths
    }
}

fn message(session: u64, len: usize) -> Vec<u8> {
    let mut bytes = Message { kind: Kind::Probe, path: 0, session, sequence: 5 }.emit().to_vec();
    bytes.resize(len, 0);
    bytes
}

/// A responder responds only to probes of an open session: not before the session, not to other datagrams, and not
/// after its end. The responses to a probe have together at most as many bytes as the probe.
#[test]
fn strangers_get_no_answer() {
    let side = Side::start("127.0.0.1:0", None);
    let stranger = Stranger::new();
    let (channel, session, responder) = stranger.open(&side.host);
    stranger.qp.post_recv(7, &[stranger.memory.slice(0, 4_096).unwrap()]).unwrap();
    stranger.qp.post_recv(7, &[stranger.memory.slice(0, 4_096).unwrap()]).unwrap();
    stranger.memory.write(4_096, &message(session, 512)).unwrap();
    let gather = [stranger.memory.slice(4_096, 512).unwrap()];
    let request = SendRequest { wr_id: 1, op: SendOp::Send, data: Data::Gather(&gather), flags: SendFlags::default() };
    stranger.qp.post_datagram(&request, &responder.recipient()).unwrap();
    let lengths: Vec<usize> = (0..2)
        .map(|_| stranger.cq.wait_one(Time::from_ms(5_000)).unwrap().byte_len as usize - GRH_LEN as usize)
        .collect();
    assert_eq!(lengths, [response_len(512), 32]);
    // Another session, too short, an answer instead of a probe, garbage, nothing.
    let mut response = Message { kind: Kind::Response, path: 0, session, sequence: 5 }.emit().to_vec();
    response.resize(512, 0);
    for bytes in [message(session ^ 1, 512), message(session, 135), response, vec![0xff; 512], vec![0; 4]] {
        stranger.send(&bytes, &responder);
    }
    assert!(stranger.answers().is_empty());
    // Another queue pair of the same host has no share in the session.
    let other = Stranger::new();
    other.send(&message(session, 512), &responder);
    assert!(other.answers().is_empty());
    drop(channel);
    assert_eq!([side.event(), side.event()], ["opened", "closed"]);
    stranger.send(&message(session, 512), &responder);
    assert!(stranger.answers().is_empty());
    assert_eq!(side.end(), ResponderCounters { answered: 1, limited: 0, unexpected: 7 });
}

/// No prober can direct responses at a third party, and invalid first messages are refused with a reason.
#[test]
fn sessions_of_others_are_refused() {
    let side = Side::start("127.0.0.1:0", None);
    let stranger = Stranger::new();
    let elsewhere =
        DatagramAddress { addr: SocketAddr::new(IpAddr::from([192, 0, 2, 1]), ROCE_PORT), ..stranger.address };
    let no_port = DatagramAddress { addr: SocketAddr::new(IpAddr::from([127, 0, 0, 1]), 0), ..stranger.address };
    for (hello, why) in [
        (json!({"ping": 1, "prober": elsewhere}), "has its device on 192.0.2.1; it must be on 127.0.0.1"),
        (json!({"ping": 1, "prober": no_port}), "no UDP port"),
        (json!({"ping": 2, "prober": stranger.address}), "version 2 of ping"),
    ] {
        let (_, answer) = stranger.hello(&side.host, &json!({ "hello": hello }));
        assert!(answer["refused"]["why"].as_str().unwrap().contains(why), "{answer}");
        assert!(side.event().contains(why));
    }
    for garbage in ["{}\n", "hello\n", "\u{16}\u{3}\u{1}\n", "{\"welcome\": {}}\n"] {
        use std::io::Write;
        TcpStream::connect(&side.host).unwrap().write_all(garbage.as_bytes()).unwrap();
        assert!(!side.event().is_empty());
    }
    // A connection that sends nothing does not delay other clients.
    let silent: Vec<TcpStream> = (0..20).map(|_| TcpStream::connect(&side.host).unwrap()).collect();
    assert_eq!(probe(&side.host, &options(3)).unwrap().0.answered, 3);
    drop(silent);
    side.end();
}

/// More sessions of one host than the responder admits are refused, and the existing sessions continue.
#[test]
fn connections_are_bounded() {
    let side = Side::start("127.0.0.1:0", None);
    let stranger = Stranger::new();
    let sessions: Vec<_> = (0..64).map(|_| stranger.open(&side.host)).collect();
    let mut channel = Channel::connect(side.host.as_str()).unwrap();
    let _ = channel.send(&json!({"hello": {"ping": 1, "prober": stranger.address}}));
    let refused = channel.receive::<Value>().unwrap()["refused"]["why"].to_string();
    assert!(refused.contains("this host has 64 connections here, and cannot have more"), "{refused}");
    let (.., session, responder) = &sessions[63];
    stranger.qp.post_recv(7, &[stranger.memory.slice(0, 4_096).unwrap()]).unwrap();
    stranger.send(&message(*session, 512), responder);
    assert_eq!(stranger.cq.wait_one(Time::from_ms(5_000)).unwrap().byte_len as usize, response_len(512) + 40);
    drop(sessions);
    side.end();
}

/// Silent connections of one host, many more than the responder receives at the same time, do not prevent other hosts
/// from opening sessions, with and without a secret.
#[test]
fn silent_connections_make_room() {
    for credentials in [None, Some(Credentials::from_secret(&[3; 32]).unwrap())] {
        let side = Side::start("127.0.0.1:0", credentials.clone());
        let silent: Vec<TcpStream> = (0..200).map(|_| TcpStream::connect(&side.host).unwrap()).collect();
        // A server that has not ended the connections that it has evicted takes no others.
        let silent = open_of(silent, 8);
        let options = PingOptions { credentials, ..options(3) };
        assert_eq!(probe(&side.host, &options).unwrap().0.answered, 3);
        drop(silent);
        side.end();
    }
}

/// Waits until the server has closed all but `max` connections; returns those that are open.
fn open_of(mut streams: Vec<TcpStream>, max: usize) -> Vec<TcpStream> {
    let clock = Clock::start();
    for stream in &streams {
        stream.set_nonblocking(true).unwrap();
    }
    while streams.len() > max {
        assert!(clock.now() < Time::from_ms(60_000), "{} connections are open", streams.len());
        let is_open = |stream: &TcpStream| {
            stream.peek(&mut [0]).is_err_and(|error| error.kind() == std::io::ErrorKind::WouldBlock)
        };
        streams.retain(is_open);
        pause(5);
    }
    streams
}

/// The reason of a hostile responder is a short line without control characters.
#[test]
fn reasons_of_the_responder_are_harmless() {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let host = listener.local_addr().unwrap().to_string();
    let responder = std::thread::spawn(move || {
        let mut channel = Channel::over(listener.accept().unwrap().0).unwrap();
        let why = "\u{1b}]0;title\u{7}\nlost\u{202e}".repeat(10_000);
        channel.send(&json!({"refused": {"why": why}})).unwrap();
        let _ = channel.receive::<Value>();
    });
    let error = probe(&host, &options(1)).unwrap_err().to_string();
    assert!(error.contains("\\u{1b}]0;title\\u{7}\\nlost\\u{202e}") && error.len() < 2_000, "{error}");
    responder.join().unwrap();
}

/// A prober that floods the responder gets responses at the maximum rate of a session, and another prober is not
/// disturbed.
#[test]
fn floods_are_limited() {
    let side = Side::start("127.0.0.1:0", None);
    let stranger = Stranger::new();
    let (_channel, session, responder) = stranger.open(&side.host);
    for _ in 0..3_000 {
        stranger.send(&message(session, 512), &responder);
    }
    assert_eq!(probe(&side.host, &options(20)).unwrap().0.answered, 20);
    let counters = side.end();
    assert!(counters.limited > 0, "{counters:?}");
}

/// Two hosts, joined by a link with Ethernet's MTU, that fails for a while. During this time probes are lost, with a
/// reason; later probes get responses again.
#[test]
fn a_link_that_fails_is_seen_and_returns() {
    rnic_netns::with_pair(1_500, |pair| {
        let listener = pair.b.run(|| TcpListener::bind((rnic_netns::Pair::B4, 0)).unwrap());
        let host = listener.local_addr().unwrap().to_string();
        let stop = Arc::new(AtomicBool::new(false));
        let theirs = stop.clone();
        let responder = pair.b.spawn(move || respond(&listener, RespondOptions::default(), &theirs, |_| {}).unwrap());
        let (summary, after, refused) = pair.a.run(|| {
            let too_long = PingOptions { size: 1_025, roce_port: ROCE_PORT, ..options(1) };
            let refused = probe(&host, &too_long).unwrap_err().to_string();
            let (timeout, count) = (Time::from_ms(100), Some(400));
            let options = PingOptions { timeout, count, roce_port: ROCE_PORT, size: 1_024, paths: 4, ..options(1) };
            let set = |state| {
                let status = std::process::Command::new("ip").args(["link", "set", "veth", state]).status();
                assert!(status.unwrap().success());
            };
            let mut after = 0;
            let summary = ping(&host, &options, &AtomicBool::new(false), |event, _| {
                if let PingEvent::Outcome(outcome) = event {
                    match outcome.sequence {
                        20 => set("down"),
                        120 => set("up"),
                        _ => {}
                    }
                    after += u64::from(outcome.sequence > 300 && outcome.result.is_ok());
                }
            });
            (summary.unwrap(), after, refused)
        });
        stop.store(true, Ordering::Relaxed);
        responder.join().unwrap();
        assert_eq!(refused, "a probe of 1025 bytes is too long: a datagram on the path to 10.77.0.2 has at most 1024");
        assert_eq!(summary.probes, 400);
        let lost = summary.errors[ProbeError::Unreachable.code()] + summary.errors[ProbeError::Timeout.code()];
        assert!(summary.errors[ProbeError::Unreachable.code()] > 0, "{summary:?}");
        assert!(lost >= 50 && lost == summary.probes - summary.answered, "{summary:?}");
        assert!(after > 50, "{after} of the last 99 probes were answered: {summary:?}");
    });
}
