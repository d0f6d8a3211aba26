//! Tests of `rnic perf` as a library: client and server run in one process, over the loopback device.

use rnic_endpoint::exchange::Credentials;
use rnic_endpoint::{Mode, Security};
use rnic_netns::{Pair, with_pair};
use rnic_perf::{
    Amount, Carrier, ChannelPlan, ChannelService, FaultPlan, HostTransport, Op, PerfError, Plan, Report, Row,
    ServeOptions, Unit, run, serve,
};
use rnic_transport::Time;
use rnic_verbs::Service;
use std::io::{BufRead, BufReader, Write};
use std::net::{IpAddr, Ipv4Addr, SocketAddr, TcpListener, TcpStream};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::mpsc::{Receiver, channel};
use std::thread::JoinHandle;

/// A server in a separate thread that ends after one client.
struct Server {
    address: SocketAddr,
    stop: Arc<AtomicBool>,
    thread: JoinHandle<Vec<Result<u32, String>>>,
}

fn server_at(ip: IpAddr) -> Server {
    server_with(ip, ServeOptions::default())
}

/// A server with these options that ends after one client.
fn server_with(ip: IpAddr, options: ServeOptions) -> Server {
    let listener = TcpListener::bind((ip, 0)).unwrap();
    let address = listener.local_addr().unwrap();
    let stop = Arc::new(AtomicBool::new(false));
    let flag = stop.clone();
    let thread = std::thread::spawn(move || {
        let mut results = Vec::new();
        let options = ServeOptions { roce_port: 0, once: true, ..options };
        serve(&listener, options, &flag, |served| results.push(served.result.map_err(|error| error.to_string())))
            .unwrap();
        results
    });
    Server { address, stop, thread }
}

/// What a server reports about each client.
type Results = Receiver<Result<u32, PerfError>>;

/// A server that serves until its flag is set: its address, its reports about each client, its flag and its thread.
fn serving() -> (SocketAddr, Results, Arc<AtomicBool>, JoinHandle<()>) {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let address = listener.local_addr().unwrap();
    let stop = Arc::new(AtomicBool::new(false));
    let flag = stop.clone();
    let (sender, results) = channel();
    let thread = std::thread::spawn(move || {
        let options = ServeOptions { roce_port: 0, ..ServeOptions::default() };
        serve(&listener, options, &flag, |served| sender.send(served.result).unwrap()).unwrap();
    });
    (address, results, stop, thread)
}

fn server() -> Server {
    server_at(Ipv4Addr::LOCALHOST.into())
}

/// A short plan, because many tests run at the same time, perhaps on a slow machine.
fn plan(op: Op) -> Plan {
    Plan {
        op,
        sizes: vec![if op.is_atomic() { 8 } else { 5_000 }],
        amount: Amount::Messages(200),
        depth: 16,
        roce_port: 0,
        ..Plan::default()
    }
}

fn carry_out(plan: &Plan) -> Report {
    let server = server();
    let report = run(server.address, plan, &AtomicBool::new(false), |_, _| {});
    let served = server.thread.join().unwrap();
    let report = report.unwrap_or_else(|error| panic!("{error}; {plan:?}; the server: {served:?}"));
    assert_eq!(served, [Ok(plan.sizes.len() as u32)]);
    report
}

const OPS: [Op; 5] = [Op::Write, Op::Read, Op::Send, Op::FetchAdd, Op::CompareSwap];

#[test]
fn every_operation_is_measured_on_every_service() {
    for op in OPS {
        for (service, mode) in [(Service::Rc, Mode::Polled), (Service::Irn, Mode::Thread)] {
            let plan = Plan { service: service.into(), mode, queue_pairs: 3, ..plan(op) };
            let report = carry_out(&plan);
            let row = &report.rows[0];
            assert_eq!((row.messages, row.arrived), (600, 600), "{op:?} {service:?}");
            let payload = 600 * u64::from(row.bytes);
            assert!((row.bytes_per_second - payload as f64 / row.seconds).abs() < 1.0);
            assert!(row.peak_bytes_per_second >= row.bytes_per_second);
            let mut text = Vec::new();
            report.write_head(&mut text, Unit::MegaBytes).unwrap();
            report.write_row(row, &mut text, Unit::GigaBits).unwrap();
            let text = String::from_utf8(text).unwrap();
            assert!(text.contains("MsgRate[Mpps]") && text.contains("0 bad ICRC"), "{text}");
        }
    }
}

#[test]
fn latency_is_measured_message_by_message() {
    for op in OPS {
        for (service, mode, size) in [
            (Service::Irn, Mode::Polled, 64),
            (Service::Irn, Mode::Thread, 20_000),
            (Service::Rc, Mode::Polled, 20_000),
        ] {
            let size = if op.is_atomic() { 8 } else { size };
            let amount = Amount::Messages(50);
            let plan = Plan { latency: true, service: service.into(), mode, amount, sizes: vec![size], ..plan(op) };
            let report = carry_out(&plan);
            let row = &report.rows[0];
            let latency = row.latency.unwrap();
            assert_eq!(row.messages, 50);
            assert!(
                latency.min > 0.0 && latency.min <= latency.typical && latency.typical <= latency.max,
                "{latency:?}"
            );
            let parts = if op.is_fetching() { 1.0 } else { 2.0 };
            assert!((latency.average * parts * 50.0 / 1e6 - row.seconds).abs() < 1e-6, "{latency:?} {}", row.seconds);
        }
    }
}

/// On an unreliable connection messages may be lost; the report must count the messages that arrived.
#[test]
fn an_unreliable_connection_counts_what_arrived() {
    for op in [Op::Write, Op::Send] {
        let faults = FaultPlan { loss: 30.0, ..FaultPlan::default() };
        // Without protection each message is one datagram.
        let security = Security::None;
        let plan = Plan { service: Service::Uc.into(), faults, sizes: vec![100], security, ..plan(op) };
        let row = &carry_out(&plan).rows[0];
        let server = row.server.as_ref().unwrap();
        let lost = server.counts["injected_losses"];
        assert_eq!(row.messages, 200);
        // Each message is one packet, so each lost packet is a lost message.
        let unwanted = server.counts["dropped_no_receive"] + server.counts["port_overflowed"];
        assert_eq!(row.arrived, 200 - lost - unwanted, "{:?}", server);
        assert!((20..=100).contains(&lost), "{lost} of 200 lost");
    }
}

#[test]
fn every_byte_is_right_whatever_the_network_does() {
    let faults = FaultPlan { loss: 2.0, reorder: 5.0, duplicate: 2.0, corrupt: 1.0, seed: 42, ..FaultPlan::default() };
    let (mut struck, mut all_corrupted, mut all_noticed) = (0, 0, 0);
    for (op, size) in OPS.iter().flat_map(|op| {
        let sizes: &[u32] = if op.is_atomic() { &[8] } else { &[1, 4_000, 70_001] };
        sizes.iter().map(move |size| (*op, *size))
    }) {
        let every =
            [Service::Irn, Service::Rc].into_iter().flat_map(|service| Security::ALL.map(|kind| (service, kind)));
        for (service, security) in every {
            let plan = Plan {
                service: service.into(),
                security,
                faults,
                // One, so that each counter starts at 0: between two sizes late packets arrive, which no row counts.
                sizes: vec![size],
                amount: Amount::Messages(40),
                verify: true,
                queue_pairs: 2,
                depth: 7,
                ..plan(op)
            };
            let report = carry_out(&plan);
            assert!(report.is_right(), "{report:?}");
            assert_eq!(report.rows[0].verified.unwrap().bytes, u64::from(size) * 2 * 40);
            for side in [&report.rows[0].client, &report.rows[0].server].into_iter().flatten() {
                let count = |name: &str| side.counts[name];
                let noticed = count("bad_icrc") + count("forged") + count("replayed");
                let corrupted = count("injected_corruptions");
                // A protected packet has a number: its copy is noticed too, unless the packet itself was corrupted.
                let copies = if security == Security::None { 0 } else { count("injected_duplicates") };
                assert!(noticed <= corrupted + copies, "{security:?} {:?}", side.counts);
                struck += count("injected_losses") + count("injected_reorderings");
                if security == Security::None {
                    (all_corrupted, all_noticed) = (all_corrupted + corrupted, all_noticed + noticed);
                }
            }
        }
    }
    assert!(struck > 100, "the faults did not happen: {struck}");
    // Single packets are missing: the counters are read while late packets are on their way from the injection to the
    // check, and the ICRC leaves out one byte of each packet.
    assert!(all_corrupted > 100 && all_noticed * 20 > all_corrupted * 19, "{all_noticed} of {all_corrupted}");
}

/// A plan for channels of a host transport.
fn channels(op: Op, kind: HostTransport) -> Plan {
    let (service, mode) = (Carrier::Channels(kind), Mode::Thread);
    let congestion = if kind == HostTransport::Rogue { "rogue" } else { "timely" };
    Plan { service, mode, congestion: congestion.to_string(), depth: 7, ..plan(op) }
}

#[test]
fn host_transports_are_measured() {
    let faults = FaultPlan { loss: 0.5, reorder: 1.0, corrupt: 0.5, seed: 42, ..FaultPlan::default() };
    for (kind, op) in HostTransport::ALL.into_iter().flat_map(|kind| OPS.map(|op| (kind, op))) {
        let usual = channels(op, kind);
        if kind == HostTransport::Multipath && !matches!(op, Op::Write | Op::Send) {
            assert!(usual.check().unwrap_err().to_string().starts_with("a multipath channel has no "));
            continue;
        }
        for security in [Security::None, Security::Encrypted] {
            let sizes = if op.is_atomic() { vec![8] } else { vec![1, 4_000, 170_001] };
            let amount = Amount::Messages(25);
            // A corrupted packet must not take part, and a queue pair may fail, except under atomics, whose outcome
            // would be unknown.
            let faults = if op.is_atomic() { FaultPlan::default() } else { faults };
            let checked: u64 = sizes.iter().map(|size| u64::from(*size) * 2 * 25).sum();
            let report =
                carry_out(&Plan { sizes, amount, faults, security, verify: true, queue_pairs: 2, ..usual.clone() });
            assert!(report.is_right(), "{report:?}");
            assert_eq!(report.rows.iter().map(|row| row.verified.unwrap().bytes).sum::<u64>(), checked);
            let parts = report.rows[0].client.as_ref().unwrap().counts["channel_parts"];
            assert!(parts >= 50, "{kind:?} {op:?}: {parts} parts");
        }
        if !op.is_fetching() {
            let report = carry_out(&Plan { latency: true, sizes: vec![64], ..usual });
            assert!(report.rows[0].latency.is_some());
        }
    }
}

/// Each end damages a twentieth of the packets that it receives, and loses, delays or duplicates other packets.
#[test]
fn multipath_survives_corruption() {
    let faults = FaultPlan { loss: 1.0, reorder: 1.0, duplicate: 1.0, corrupt: 5.0, seed: 42, ..FaultPlan::default() };
    let (sizes, amount) = (vec![1 << 20], Amount::Messages(30));
    let usual = channels(Op::Write, HostTransport::Multipath);
    let congestion = "rogue".to_string();
    let report = carry_out(&Plan { sizes, amount, faults, verify: true, congestion, ..usual });
    assert!(report.is_right(), "{report:?}");
}

/// Over UC nothing but the layer recovers losses, and every byte arrives right.
#[test]
fn rogue_over_unreliable_connections_is_measured() {
    let faults = FaultPlan { loss: 0.5, reorder: 0.5, corrupt: 0.5, seed: 42, ..FaultPlan::default() };
    let channel = ChannelPlan { over: Some(ChannelService::Uc), ..ChannelPlan::default() };
    let usual = Plan { channel, ..channels(Op::Write, HostTransport::Rogue) };
    for security in [Security::None, Security::Encrypted] {
        let (sizes, amount) = (vec![1, 4_000, 170_001], Amount::Messages(25));
        let report =
            carry_out(&Plan { sizes, amount, faults, security, verify: true, queue_pairs: 2, ..usual.clone() });
        assert!(report.is_right(), "{report:?}");
        let recoveries = |row: &Row| row.client.as_ref().unwrap().counts["channel_recoveries"];
        assert!(report.rows.iter().map(recoveries).sum::<u64>() > 0, "{report:?}");
    }
    let report = carry_out(&Plan { latency: true, sizes: vec![64], ..usual });
    assert!(report.rows[0].latency.is_some());
}

#[test]
fn impossible_plans_for_host_transports_are_refused() {
    let refusal = |kind, change: &dyn Fn(&mut Plan)| {
        let mut plan = channels(Op::Write, kind);
        change(&mut plan);
        plan.check().unwrap_err().to_string()
    };
    let (rogue, multipath) = (HostTransport::Rogue, HostTransport::Multipath);
    assert_eq!(
        refusal(rogue, &|plan| plan.mode = Mode::Polled),
        "rogue needs progress threads on both sides (--thread)"
    );
    assert_eq!(
        refusal(rogue, &|plan| plan.channel.paths = Some(4)),
        "rogue has one path; several go with the service multipath"
    );
    let over_uc = |plan: &mut Plan| plan.channel.over = Some(ChannelService::Uc);
    assert_eq!(
        refusal(multipath, &over_uc),
        "multipath uses unreliable connections; --over goes with the service rogue"
    );
    let sends = Plan { op: Op::Send, ..channels(Op::Send, rogue) };
    let sends = Plan { channel: ChannelPlan { over: Some(ChannelService::Uc), ..sends.channel }, ..sends };
    let error = sends.check().unwrap_err().to_string();
    assert_eq!(error, "rogue over uc has no send; use write, or leave out --over uc");
    assert_eq!(refusal(multipath, &|plan| plan.queue_pairs = 65), "65 channels are too many: at most 64");
    assert_eq!(
        refusal(multipath, &|plan| (plan.queue_pairs, plan.channel.paths) = (64, Some(64))),
        "64 channels with 64 paths are too many: at most 2048 paths together"
    );
    assert_eq!(
        refusal(multipath, &|plan| plan.congestion = "bbr".to_string()).split("; ").next(),
        Some("unknown congestion control `bbr`")
    );
    let plain = Plan { channel: ChannelPlan { chunk: Some(4_096), ..ChannelPlan::default() }, ..plan(Op::Write) };
    assert_eq!(
        plain.check().unwrap_err().to_string(),
        "irn has neither chunks nor paths; they go with the services rogue and multipath"
    );
}

/// TCP works, but the server's host drops what it sends to UDP port 4791.
#[test]
fn blocked_udp_is_named() {
    with_pair(1_500, |pair| {
        pair.b.ip("rule add ipproto udp dport 4791 blackhole").unwrap();
        for (service, op, latency) in [
            (Service::Irn, Op::Write, false),
            (Service::Rc, Op::Read, false),
            (Service::Irn, Op::Read, true),
            (Service::Rc, Op::Send, true),
        ] {
            let server = pair.b.run(|| server_at(Pair::B4));
            let plan = Plan { service: service.into(), latency, give_up_after: Some(Time::from_ms(100)), ..plan(op) };
            let plan = Plan { roce_port: 4_791, ..plan };
            let error = pair.a.run(|| run(server.address, &plan, &AtomicBool::new(false), |_, _| {})).unwrap_err();
            let PerfError::Blocked { server: device } = error else { panic!("{service:?} {op:?}: {error}") };
            let expected = format!(
                "the TCP connection to 10.77.0.2 works, but nothing came back on UDP port {}: does a firewall drop it?",
                device.port()
            );
            assert_eq!(PerfError::Blocked { server: device }.to_string(), expected);
            assert!(server.thread.join().unwrap()[0].is_err());
        }
    });
}

/// What was measured before an interruption is in the report, with the server's counters.
#[test]
fn an_interruption_leaves_what_was_measured() {
    for (op, latency, verify, service) in [
        (Op::Write, false, false, Service::Irn),
        (Op::Write, false, true, Service::Rc),
        (Op::Read, false, true, Service::Irn),
        (Op::Send, true, false, Service::Rc),
        (Op::Read, true, false, Service::Irn),
        (Op::Write, false, false, Service::Uc),
    ] {
        let server = server();
        let stop = Arc::new(AtomicBool::new(false));
        let client = endless(&server, Plan { latency, verify, service: service.into(), ..plan(op) }, stop.clone());
        stop.store(true, Ordering::Relaxed);
        let report = client.join().unwrap().unwrap();
        assert!(report.interrupted && report.is_right() && !report.rows.is_empty(), "{report:?}");
        for row in &report.rows {
            assert!(row.messages > 0 && row.seconds > 0.0, "{op:?} {row:?}");
            assert!(row.server.is_some(), "{op:?} {row:?}");
            assert_eq!(row.verified.is_some_and(|verified| verified.bytes > 0), verify, "{op:?} {row:?}");
        }
        assert_eq!(server.thread.join().unwrap(), [Err("the peer refuses: interrupted".to_string())]);
    }
}

#[test]
fn a_duration_ends_the_measurement() {
    let plan = Plan { amount: Amount::Duration(Time::from_ms(50)), sizes: vec![64, 100_000], ..plan(Op::Write) };
    for verify in [false, true] {
        let report = carry_out(&Plan { verify, ..plan.clone() });
        assert_eq!(report.rows.len(), 2);
        assert!(report.rows.iter().all(|row| row.seconds >= 0.05 && row.messages > 0), "{report:?}");
    }
}

#[test]
fn ipv6_works() {
    let server = server_at("::1".parse().unwrap());
    let report = run(server.address, &plan(Op::Write), &AtomicBool::new(false), |_, _| {}).unwrap();
    assert!(report.client.is_ipv6() && report.server.is_ipv6());
    server.thread.join().unwrap();
}

#[test]
fn a_report_is_a_json_document_with_both_sides() {
    let report = carry_out(&plan(Op::Write));
    let json = serde_json::to_value(&report).unwrap();
    assert_eq!((&json["rnic_perf"], &json["op"], &json["service"]), (&1.into(), &"write".into(), &"irn".into()));
    assert_eq!(json["rows"][0]["bytes"], 5_000);
    for side in ["client", "server"] {
        assert!(json["rows"][0][side]["counts"]["packets_sent"].as_u64().unwrap() > 0);
    }
}

fn refusal(plan: &Plan) -> String {
    let server = server();
    let error = run(server.address, plan, &AtomicBool::new(false), |_, _| {}).unwrap_err().to_string();
    server.stop.store(true, Ordering::Relaxed);
    server.thread.join().unwrap();
    error
}

#[test]
fn impossible_mtus_and_absent_servers_are_refused_with_a_sentence() {
    let error = refusal(&Plan { mtu: Some(65_536), ..plan(Op::Write) });
    assert_eq!(error, "an MTU of 65536 is too large: the path to 127.0.0.1 carries at most 8960");
    let error = refusal(&Plan { mtu: Some(1_002), ..plan(Op::Write) });
    assert!(error.contains("the path MTU is 1002; it must be 256 to 8960, a multiple of 4"), "{error}");
    let nobody = TcpListener::bind("127.0.0.1:0").unwrap().local_addr().unwrap();
    let error = run(nobody, &plan(Op::Write), &AtomicBool::new(false), |_, _| {}).unwrap_err().to_string();
    assert!(error.starts_with(&format!("cannot connect to {nobody} over TCP: ")), "{error}");
}

/// A TCP server that sends `lines` instead of the protocol of `rnic perf`; returns its address.
fn impostor(lines: &'static [&'static str]) -> SocketAddr {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let address = listener.local_addr().unwrap();
    std::thread::spawn(move || {
        let (mut stream, _) = listener.accept().unwrap();
        let mut reader = BufReader::new(stream.try_clone().unwrap());
        for line in lines {
            reader.read_line(&mut String::new()).unwrap();
            writeln!(stream, "{line}").unwrap();
        }
        // Keep the connection until the client closes it, so that the client can send its messages.
        while reader.read_line(&mut String::new()).is_ok_and(|read| read > 0) {}
    });
    address
}

#[test]
fn a_client_reports_the_error_of_its_server() {
    let failure =
        |lines| run(impostor(lines), &plan(Op::Write), &AtomicBool::new(false), |_, _| {}).unwrap_err().to_string();
    let error = failure(&["{\"rnic_perf\":99}"]);
    assert!(error.contains("has version 99") && error.contains("use the same rnic on both sides"), "{error}");
    let error = failure(&["HTTP/1.1 400 Bad Request"]);
    assert!(error.contains("it is not `rnic perf`; it sent `HTTP/1.1 400 Bad Request`"), "{error}");
    let error = failure(&["{\"rnic_perf\":5}", "{\"say\":\"refused\",\"why\":\"no room\"}"]);
    assert_eq!(error, "the peer refuses: no room");
    let error = failure(&["{\"rnic_perf\":5}", "{\"say\":\"began\"}"]);
    assert!(error.ends_with("`began` is not due"), "{error}");
}

/// Starts a client that measures until it is stopped; returns when the measurement has begun.
fn endless(server: &Server, plan: Plan, stop: Arc<AtomicBool>) -> JoinHandle<Result<Report, PerfError>> {
    let (sender, begun) = channel();
    let address = server.address;
    let plan = Plan { amount: Amount::Duration(Time::from_ms(20)), sizes: vec![8; 100_000], ..plan };
    let row = move |_: &Report, _: &_| {
        let _ = sender.send(());
    };
    let client = std::thread::spawn(move || run(address, &plan, &stop, row));
    begun.recv().unwrap();
    client
}

#[test]
fn a_client_ends_when_its_server_closes_the_connection() {
    for mode in [Mode::Polled, Mode::Thread] {
        for (op, latency) in [(Op::Write, false), (Op::Send, true), (Op::Read, true)] {
            let server = server();
            let client = endless(&server, Plan { mode, latency, ..plan(op) }, Arc::default());
            server.stop.store(true, Ordering::Relaxed);
            assert_eq!(server.thread.join().unwrap(), [Err("interrupted".to_string())]);
            let error = client.join().unwrap().unwrap_err();
            assert!(matches!(error, PerfError::Refused(_) | PerfError::Exchange(_)), "{error}");
        }
    }
}

#[test]
fn a_server_survives_what_clients_say() {
    let (address, results, stop, server) = serving();
    const GREETING: &str = "{\"rnic_perf\":5}\n";
    let setup = |queue_pairs: u64, stride: u64, service: &str| {
        format!(
            "{GREETING}{{\"say\":\"hello\",\"setup\":{{\"op\":\"write\",\"latency\":false,\"service\":\"{service}\",\"channel\":{{}},\
             \"queue_pairs\":{queue_pairs},\"depth\":1,\"slots\":1,\"stride\":{stride},\"congestion\":\"none\",\
             \"settings\":[],\"in_flight\":null,\"verify\":false,\"seed\":1,\"polled\":true,\"security\":\"none\",\
             \"faults\":{{\"loss\":0,\"reorder\":0,\"duplicate\":0,\"corrupt\":0,\"corrupt_kind\":\"mixed\",\"seed\":1}}}},\
             \"client\":{{\"roce_port\":1,\"peers\":[],\"channels\":[],\"in_flight\":64,\"memory\":{{\"addr\":0,\"rkey\":0,\"len\":0}},\"mtu\":1024}},\
             \"mtu_fixed\":false}}\n"
        )
    };
    let cases = [
        ("GET / HTTP/1.1\r\n".to_string(), ""),
        (String::new(), ""),
        (format!("{GREETING}{{\"say\":\"ready\"}}\n"), ""),
        (setup(1 << 20, 64, "irn"), "1048576 queue pairs are too many: at most 1024"),
        (setup(1_000, 1 << 30, "irn"), "1073741824000 bytes of memory are too many: at most 2147483648"),
        (setup(1, 64, "rd"), "unknown service `rd`; there are rc, irn, uc, rogue and multipath"),
        (setup(65, 64, "rogue"), "65 channels are too many: at most 64"),
        (setup(64, 64, "multipath").replace("{}", "{\"paths\":4294967295}"), "paths are too many: at most 2048"),
        (setup(1, 64, "multipath"), "multipath needs progress threads"),
        (setup(1, 64, "irn"), "the peer has fewer queue pairs or less memory than the plan needs"),
    ];
    for (text, answer) in &cases {
        let mut stream = TcpStream::connect(address).unwrap();
        stream.write_all(text.as_bytes()).unwrap();
        stream.shutdown(std::net::Shutdown::Write).unwrap();
        let heard = BufReader::new(stream).lines().map_while(Result::ok).last().unwrap_or_default();
        assert!(heard.contains(answer), "{heard}");
        assert!(results.recv().unwrap().is_err());
    }
    let report = run(address, &plan(Op::Write), &AtomicBool::new(false), |_, _| {}).unwrap();
    assert_eq!(report.rows.len(), 1);
    assert!(matches!(results.recv().unwrap(), Ok(1)));
    stop.store(true, Ordering::Relaxed);
    server.join().unwrap();
}

/// Returns the error of a client, and the server's report about the client.
fn failure(options: ServeOptions, plan: &Plan) -> [String; 2] {
    let server = server_with(Ipv4Addr::LOCALHOST.into(), options);
    let error = run(server.address, plan, &AtomicBool::new(false), |_, _| {}).unwrap_err().to_string();
    let [Err(reported)] = &server.thread.join().unwrap()[..] else { panic!("the client was served") };
    [error, reported.clone()]
}

#[test]
fn a_client_cannot_make_the_server_use_more_memory_than_it_admits() {
    let plan = Plan { sizes: vec![1 << 20], ..plan(Op::Write) };
    let options = ServeOptions { max_memory: 1 << 20, ..ServeOptions::default() };
    let [error, reported] = failure(options, &plan);
    let sentence = "bytes of memory on the server, which admits 1048576 (--max-memory)";
    assert!(error.starts_with("the peer refuses: the measurement needs ") && error.ends_with(sentence), "{error}");
    assert!(reported.ends_with(sentence), "{reported}");
    let enough = ServeOptions { max_memory: 64 << 20, ..ServeOptions::default() };
    let server = server_with(Ipv4Addr::LOCALHOST.into(), enough);
    assert_eq!(run(server.address, &plan, &AtomicBool::new(false), |_, _| {}).unwrap().rows.len(), 1);
    assert_eq!(server.thread.join().unwrap(), [Ok(1)]);
}

#[test]
fn client_and_server_with_the_same_secret_measure_and_others_get_an_error() {
    let secret = |byte| Some(Credentials::from_secret(&[byte; 32]).unwrap());
    let options = |credentials| ServeOptions { credentials, ..ServeOptions::default() };
    let with = |credentials| Plan { credentials, ..plan(Op::Write) };
    let server = server_with(Ipv4Addr::LOCALHOST.into(), options(secret(1)));
    assert_eq!(run(server.address, &with(secret(1)), &AtomicBool::new(false), |_, _| {}).unwrap().rows.len(), 1);
    assert_eq!(server.thread.join().unwrap(), [Ok(1)]);
    // Each case: the server's credentials, the client's, and parts of both error messages.
    let cases = [
        (secret(1), None, ["it uses TLS, and this side does not", "it does not use TLS"]),
        (None, secret(1), ["it does not use TLS", "it uses TLS, and this side does not"]),
        (secret(1), secret(2), ["no secured connection with ", "no secured connection with "]),
    ];
    for (server, client, parts) in cases {
        let errors = failure(options(server), &with(client));
        for (error, part) in errors.iter().zip(parts) {
            assert!(error.contains(part), "{error}");
            assert!(
                error.ends_with("do both sides have the same secret, or certificates of one authority?"),
                "{error}"
            );
        }
    }
}

/// Each client that sends nothing, or a byte now and then, has its own thread until its timeout.
#[test]
fn a_dripping_client_does_not_keep_another_one_waiting() {
    let (address, results, stop, server) = serving();
    // One fewer than the first messages that the server receives from one host at the same time.
    let slow: Vec<TcpStream> = (0..7).map(|_| TcpStream::connect(address).unwrap()).collect();
    for mut stream in &slow {
        stream.write_all(b"{").unwrap();
    }
    let report = run(address, &plan(Op::Write), &AtomicBool::new(false), |_, _| {}).unwrap();
    assert_eq!(report.rows.len(), 1);
    // The first result is that of the client which came last, so the server waited for none of the others.
    assert!(matches!(results.recv().unwrap(), Ok(1)));
    drop(slow);
    stop.store(true, Ordering::Relaxed);
    server.join().unwrap();
}

/// A client that begins a measurement and then does nothing, although its TCP connection stays open.
#[test]
fn an_idle_client_does_not_hold_the_server_for_ever() {
    for latency in [false, true] {
        let options = ServeOptions { idle_timeout: Time::from_ms(300), ..ServeOptions::default() };
        let server = server_with(Ipv4Addr::LOCALHOST.into(), options);
        let mut stream = TcpStream::connect(server.address).unwrap();
        let mut reader = BufReader::new(stream.try_clone().unwrap());
        let mut heard = String::new();
        let mut answer = |reader: &mut BufReader<TcpStream>| {
            heard.clear();
            reader.read_line(&mut heard).unwrap();
            heard.clone()
        };
        let hello = format!(
            "{{\"say\":\"hello\",\"setup\":{{\"op\":\"write\",\"latency\":{latency},\"service\":\"irn\",\"channel\":{{}},\
             \"queue_pairs\":1,\"depth\":1,\"slots\":2,\"stride\":64,\"congestion\":\"none\",\
             \"settings\":[],\"in_flight\":null,\"verify\":false,\"seed\":1,\"polled\":true,\"security\":\"none\",\
             \"faults\":{{\"loss\":0,\"reorder\":0,\"duplicate\":0,\"corrupt\":0,\"corrupt_kind\":\"bit\",\"seed\":1}}}},\
             \"client\":{{\"roce_port\":1,\"peers\":[{{\"qpn\":17,\"psn\":0,\"source_port\":50000,\"key\":null}}],\"channels\":[],\
             \"in_flight\":64,\"memory\":{{\"addr\":0,\"rkey\":0,\"len\":128}},\"mtu\":1024}},\"mtu_fixed\":false}}"
        );
        writeln!(stream, "{{\"rnic_perf\":5}}\n{hello}\n{{\"say\":\"ready\"}}").unwrap();
        for expected in ["rnic_perf", "welcome", "ready"] {
            let heard = answer(&mut reader);
            assert!(heard.contains(expected), "{heard}");
        }
        writeln!(stream, "{{\"say\":\"begin\",\"size\":64}}").unwrap();
        assert!(answer(&mut reader).contains("began"));
        let why = "the client sent neither a packet nor a message for 0.3 s";
        assert_eq!(answer(&mut reader).trim_end(), format!("{{\"say\":\"refused\",\"why\":\"{why}\"}}"));
        assert_eq!(server.thread.join().unwrap(), [Err(why.to_string())]);
    }
}

/// A client whose messages the test writes.
struct ByHand {
    stream: TcpStream,
    reader: BufReader<TcpStream>,
}

impl ByHand {
    /// Connects, and lets the server prepare a verified measurement of Writes with two slots.
    fn begin(address: SocketAddr) -> ByHand {
        let stream = TcpStream::connect(address).unwrap();
        let mut client = ByHand { reader: BufReader::new(stream.try_clone().unwrap()), stream };
        let hello = "{\"say\":\"hello\",\"setup\":{\"op\":\"write\",\"latency\":false,\"service\":\"irn\",\"channel\":{},\
             \"queue_pairs\":1,\"depth\":1,\"slots\":2,\"stride\":64,\"congestion\":\"none\",\
             \"settings\":[],\"in_flight\":null,\"verify\":true,\"seed\":1,\"polled\":true,\"security\":\"none\",\
             \"faults\":{\"loss\":0,\"reorder\":0,\"duplicate\":0,\"corrupt\":0,\"corrupt_kind\":\"bit\",\"seed\":1}},\
             \"client\":{\"roce_port\":1,\"peers\":[{\"qpn\":17,\"psn\":0,\"source_port\":50000,\"key\":null}],\"channels\":[],\
             \"in_flight\":64,\"memory\":{\"addr\":0,\"rkey\":0,\"len\":128},\"mtu\":1024},\"mtu_fixed\":false}";
        client.say(&format!("{{\"rnic_perf\":5}}\n{hello}\n{{\"say\":\"ready\"}}\n{{\"say\":\"begin\",\"size\":64}}"));
        for expected in ["rnic_perf", "welcome", "ready", "began"] {
            client.expect(expected);
        }
        client
    }

    fn say(&mut self, line: &str) {
        writeln!(self.stream, "{line}").unwrap();
    }

    fn expect(&mut self, part: &str) {
        let mut line = String::new();
        self.reader.read_line(&mut line).unwrap();
        assert!(line.contains(part), "{line}");
    }
}

/// The rounds of a verified measurement follow each other. A client cannot make the server verify the same messages
/// repeatedly, or messages whose numbers do not exist.
#[test]
fn rounds_are_due_one_after_another() {
    let (address, results, stop, server) = serving();
    let round = |first: u64, count: u32| format!("{{\"say\":\"round\",\"first\":{first},\"count\":{count}}}");
    for wrong in [round(u64::MAX, 1), round(2, 3), round(2, 0), round(0, 2), round(3, 1)] {
        let mut client = ByHand::begin(address);
        client.say(&round(0, 2));
        client.expect("checked");
        client.say(&wrong);
        let error = results.recv().unwrap().unwrap_err().to_string();
        assert!(error.contains("`round` is not due"), "{wrong}: {error}");
    }
    stop.store(true, Ordering::Relaxed);
    server.join().unwrap();
}

/// Text of clients becomes part of the server's messages as one short line without control characters.
#[test]
fn names_of_clients_are_harmless() {
    let (address, results, stop, server) = serving();
    let evil = "\u{1b}[2J\u{7}\r\n[::ffff:10.9.0.9]:1: 1 measurement\u{202e}".repeat(5_000);
    let text = serde_json::to_string(&evil).unwrap();
    let setup = |service: &str, congestion: &str| {
        format!(
            "{{\"say\":\"hello\",\"setup\":{{\"op\":\"write\",\"latency\":false,\"service\":{service},\"channel\":{{}},\
             \"queue_pairs\":1,\"depth\":1,\"slots\":1,\"stride\":64,\"congestion\":{congestion},\
             \"settings\":[],\"in_flight\":null,\"verify\":false,\"seed\":1,\"polled\":true,\"security\":\"none\",\
             \"faults\":{{\"loss\":0,\"reorder\":0,\"duplicate\":0,\"corrupt\":0,\"corrupt_kind\":\"mixed\",\"seed\":1}}}},\
             \"client\":{{\"roce_port\":1,\"peers\":[],\"channels\":[],\"in_flight\":64,\"memory\":{{\"addr\":0,\"rkey\":0,\"len\":0}},\"mtu\":1024}},\
             \"mtu_fixed\":false}}"
        )
    };
    for first in [
        format!("{{\"say\":\"refused\",\"why\":{text}}}"),
        format!("{{\"say\":{text}}}"),
        setup(&text, "\"none\""),
        setup("\"irn\"", &text),
        evil.clone(),
    ] {
        let mut stream = TcpStream::connect(address).unwrap();
        stream.write_all(format!("{{\"rnic_perf\":5}}\n{first}\n").as_bytes()).unwrap();
        let error = results.recv().unwrap().unwrap_err().to_string();
        assert!(error.len() < 5_000, "{} bytes", error.len());
        assert!(!error.contains(|c: char| c.is_control() || c == '\u{202e}'), "{error:?}");
        assert!(error.contains("\\u{1b}[2J"), "{error}");
    }
    stop.store(true, Ordering::Relaxed);
    server.join().unwrap();
}

/// 64 silent connections from 8 addresses of one host, opened again as soon as they are closed. A host can open them
/// without the secret.
#[test]
#[expect(clippy::disallowed_methods, reason = "the stranger leaves some time for others")]
fn silent_strangers_do_not_keep_out_who_has_the_secret() {
    let credentials = Some(Credentials::from_secret(&[7; 32]).unwrap());
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let address = listener.local_addr().unwrap();
    let stop = AtomicBool::new(false);
    let options = ServeOptions { roce_port: 0, credentials: credentials.clone(), ..ServeOptions::default() };
    std::thread::scope(|scope| {
        scope.spawn(|| serve(&listener, options, &stop, |_| {}).unwrap());
        scope.spawn(|| {
            let mut silent = Vec::new();
            for number in 0_u32.. {
                let socket = socket2::Socket::new(socket2::Domain::IPV4, socket2::Type::STREAM, None).unwrap();
                socket.bind(&SocketAddr::from(([127, 0, 1, (number % 8) as u8], 0)).into()).unwrap();
                socket.connect(&address.into()).unwrap();
                silent.push(socket);
                if silent.len() > 128 {
                    silent.remove(0);
                    std::thread::sleep(std::time::Duration::from_millis(2));
                }
                if stop.load(Ordering::Relaxed) {
                    return;
                }
            }
        });
        for _ in 0..3 {
            let plan = Plan { credentials: credentials.clone(), ..plan(Op::Write) };
            let report = run(address, &plan, &AtomicBool::new(false), |_, _| {});
            stop.fetch_or(report.is_err(), Ordering::Relaxed);
            assert_eq!(report.unwrap().rows.len(), 1);
        }
        stop.store(true, Ordering::Relaxed);
    });
}

/// A measurement may take longer than the server's idle timeout, even if the server posts nothing during the
/// measurement.
#[test]
fn an_active_client_is_served_as_long_as_it_likes() {
    for (op, latency) in [(Op::Read, false), (Op::Write, true)] {
        let options = ServeOptions { idle_timeout: Time::from_ms(1_500), ..ServeOptions::default() };
        let server = server_with(Ipv4Addr::LOCALHOST.into(), options);
        let plan = Plan { latency, amount: Amount::Duration(Time::from_ms(2_000)), ..plan(op) };
        let report = run(server.address, &plan, &AtomicBool::new(false), |_, _| {}).unwrap();
        assert!(report.rows[0].messages > 0);
        assert_eq!(server.thread.join().unwrap(), [Ok(1)]);
    }
}
