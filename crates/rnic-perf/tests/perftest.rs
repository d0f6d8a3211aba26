//! Tests rnic's implementation of perftest's protocol: its client against its server.

use rnic_endpoint::{Config, Device, Mode, Security};
use rnic_perf::ibverbs::perftest::{Op, Options, Outcome, Role, Session, pattern};
use std::io::Write;
use std::net::{SocketAddr, TcpListener, TcpStream};
use std::sync::atomic::{AtomicU8, Ordering};

/// Opens a device on a new address of the loopback network, so that all devices can use the same UDP port.
fn device() -> Device {
    static NEXT: AtomicU8 = AtomicU8::new(1);
    let address = SocketAddr::from(([127, 0, 8, NEXT.fetch_add(1, Ordering::Relaxed)], 14_792));
    Device::open_at(address, Config { mode: Mode::Polled, security: Security::None, ..Config::default() }).unwrap()
}

fn side(options: Options, role: Role, stream: TcpStream, look: impl FnOnce(&Session)) -> Outcome {
    let mut session = Session::start(&device(), options, role, stream).unwrap();
    session.traffic().unwrap();
    look(&session);
    session.finish().unwrap()
}

/// Runs a test between a client and a server. Calls `look` with the server's end after the traffic.
fn run(options: Options, look: impl FnOnce(&Session) + Send + 'static) -> (Outcome, Outcome) {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let to = listener.local_addr().unwrap();
    let server = std::thread::spawn(move || side(options, Role::Server, listener.accept().unwrap().0, look));
    let client = side(options, Role::Client, TcpStream::connect(to).unwrap(), |_| {});
    (client, server.join().unwrap())
}

fn word(bytes: &[u8]) -> u64 {
    u64::from_ne_bytes(bytes[..8].try_into().unwrap())
}

#[test]
fn every_test_runs() {
    for op in [Op::Write, Op::Read, Op::Send, Op::FetchAdd, Op::CompareSwap] {
        for latency in [false, true] {
            let size = if op.is_atomic() { 8 } else { 1_500 };
            let queue_pairs = if latency { 1 } else { 3 };
            let options = Options { size, queue_pairs, messages: 300, ..Options::new(op, latency) };
            let (client, server) = run(options, |_| {});
            assert_eq!((client.messages, client.size), (300 * u64::from(queue_pairs), size), "{op:?}");
            assert_eq!(client.report, server.report, "{op:?}");
            assert_eq!(client.report.is_some(), op != Op::Send && !latency, "{op:?}");
            let in_turn = matches!(op, Op::Write | Op::Send);
            let expected = if !latency {
                0
            } else if in_turn {
                299
            } else {
                300
            };
            assert_eq!(client.latencies.len(), expected, "{op:?}");
        }
    }
}

#[test]
fn writes_lie_where_they_should() {
    let options = Options { size: 1_000, messages: 3, queue_pairs: 2, ..Options::new(Op::Write, false) };
    run(options, |session| {
        // Messages are 1024 bytes apart in the part. The third one follows the second one, and the place of a fourth
        // one is not written.
        let part = session.layout().part;
        for index in 0..2 {
            let bytes = session.remote(index);
            for (at, byte) in bytes.iter().enumerate() {
                let written = at % 1_024 < 1_000 && at < 3 * 1_024;
                let from = if written { index * part } else { (2 + index) * part };
                assert_eq!(*byte, pattern(from + at), "byte {at} of queue pair {index}");
            }
        }
    });
}

#[test]
fn sends_and_sums_come_whole() {
    let options = Options { size: 777, messages: 10, receives: 4, ..Options::new(Op::Send, false) };
    run(options, |session| {
        // The last four messages are in the four places of the cycle buffer. The layout has 832 bytes for each message.
        for number in 6..10 {
            let start = number as usize % 4 * 832;
            let expected: Vec<u8> = (start..start + 777).map(pattern).collect();
            assert_eq!(session.received(0, number), expected, "message {number}");
        }
    });
    let options = Options { messages: 130, ..Options::new(Op::FetchAdd, false) };
    run(options, |session| {
        // 130 operations go to 64 places in turn: three to each of the first two places, and two to each other place.
        let bytes = session.remote(0);
        let start: Vec<u8> = (4_096..8_192).map(pattern).collect();
        for slot in 0..64 {
            let added = word(&bytes[slot * 64..]).wrapping_sub(word(&start[slot * 64..]));
            assert_eq!(added, if slot < 2 { 3 } else { 2 }, "place {slot}");
        }
    });
}

#[test]
fn errors_name_the_fault() {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let start = |options, message: &[u8]| {
        let mut stream = TcpStream::connect(listener.local_addr().unwrap()).unwrap();
        stream.write_all(message).unwrap();
        let (ours, _) = listener.accept().unwrap();
        drop(stream);
        Session::start(&device(), options, Role::Server, ours).err().unwrap().to_string()
    };
    let options = Options::new(Op::Write, false);
    assert!(start(options, b"").contains("closed the connection"));
    assert!(start(options, &[b'x'; 16]).contains("not one of perftest"));
    let odd = Options { size: 4, ..Options::new(Op::FetchAdd, false) };
    assert_eq!(start(odd, b""), "the size of an atomic operation must be 8 bytes");
}
