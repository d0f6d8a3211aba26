//! Tests the measurement of plain datagrams: its counts are right, and faulty clients and servers cause errors only.

use rnic_endpoint::port::SendError;
use rnic_netns::{Pair, with_pair};
use rnic_perf::raw::{Case, Mode, RawError, round_trips, serve, throughput};
use rnic_transport::Time;
use std::io::{BufRead, BufReader, Write};
use std::net::{SocketAddr, TcpListener, TcpStream};
use std::sync::mpsc::{Receiver, channel};

/// Starts a server in a thread that ends with the process; returns its address, and a channel with its errors.
fn server(address: &str) -> (SocketAddr, Receiver<RawError>) {
    let listener = TcpListener::bind(address).unwrap();
    let address = listener.local_addr().unwrap();
    let (sender, errors) = channel();
    std::thread::spawn(move || serve(&listener, |error| sender.send(error).unwrap()));
    (address, errors)
}

fn case(mode: Mode, size: usize) -> Case {
    Case { mode, size, duration: Time::from_ms(30), window: Some(100_000) }
}

#[test]
fn with_a_window_everything_arrives_and_is_counted() {
    for address in ["127.0.0.1:0", "[::1]:0"] {
        let (address, errors) = server(address);
        for mode in Mode::ALL {
            for size in [1, 64, 1_056, 8_224] {
                let result = throughput(address, &case(mode, size)).unwrap();
                assert!(result.sent > 0, "{mode} {size}");
                assert_eq!(result.received, result.sent, "{mode} {size}");
                assert_eq!(result.received_bytes, result.received * size as u64);
                assert!(result.sender_cpu > Time::ZERO && result.receiver_cpu > Time::ZERO);
            }
        }
        assert!(errors.try_recv().is_err(), "no complaints");
    }
}

/// `rnic perf raw` without `--bind` listens on the IPv6 address `::`, and clients connect over IPv4 too.
#[test]
fn a_server_for_ipv6_and_ipv4_serves_both() {
    let (address, errors) = server("[::]:0");
    for host in ["127.0.0.1", "::1", "::ffff:127.0.0.1"] {
        let address = SocketAddr::new(host.parse().unwrap(), address.port());
        let result = throughput(address, &case(Mode::Merged, 1_000)).unwrap();
        assert!(result.sent > 0 && result.received == result.sent, "{host}");
        let trips = round_trips(address, 64, 50).unwrap();
        // A busy machine may need more than the 0.1 s after which a datagram counts as lost.
        assert_eq!(trips.count() as u64 + trips.lost, 50, "{host}");
        assert!(trips.count() > 0, "{host}");
    }
    assert!(errors.try_recv().is_err(), "no complaints");
}

#[test]
fn round_trips_are_counted_and_in_order() {
    let (address, _errors) = server("127.0.0.1:0");
    let trips = round_trips(address, 64, 500).unwrap();
    assert_eq!(trips.count() as u64 + trips.lost, 500);
    let quantiles = [0.0, 0.5, 0.99, 1.0].map(|fraction| trips.quantile(fraction).unwrap());
    assert!(quantiles.is_sorted() && quantiles[0] > Time::ZERO, "{quantiles:?}");
}

#[test]
fn rates_follow_from_counts_and_time() {
    let (sent, received, received_bytes) = (5_000, 4_000, 4_000_000);
    let (sender_cpu, receiver_cpu) = (Time::from_us(2_500), Time::from_us(1_000));
    let elapsed = Time::from_ms(2);
    let result = rnic_perf::raw::Throughput { sent, received, received_bytes, elapsed, sender_cpu, receiver_cpu };
    assert_eq!(result.million_per_second(), 2.0); // 4,000 in 2 ms
    assert_eq!(result.gigabytes_per_second(), 2.0); // 4 MB in 2 ms
    assert_eq!(result.cpu_ns_per_datagram(), (500.0, 250.0));
}

#[test]
fn what_the_path_does_not_carry_is_an_error_before_anything_is_sent() {
    with_pair(1_500, |pair| {
        let listener = pair.b.run(|| TcpListener::bind((Pair::B4, 0))).unwrap();
        let address = listener.local_addr().unwrap();
        pair.b.spawn(move || serve(&listener, |_| {}));
        pair.a.run(|| {
            let error = throughput(address, &case(Mode::Merged, 1_473)).unwrap_err();
            assert!(matches!(error, RawError::Send(SendError::TooLong { length: 1_473, .. })), "{error}");
            assert!(throughput(address, &case(Mode::Merged, 1_472)).unwrap().received > 0);
        });
    });
}

#[test]
fn bad_clients_are_reported_and_do_not_stop_the_server() {
    let (address, errors) = server("127.0.0.1:0");
    let long = "x".repeat(1_000);
    let (short, unknown) = ("throughput mode=gso\n", "throughput mode=fast every=0 port=1\n");
    for request in
        ["hello\n", long.as_str(), short, unknown, "throughput mode=gso every=-1 port=1\n", "round-trips port=99999\n"]
    {
        TcpStream::connect(address).unwrap().write_all(request.as_bytes()).unwrap();
        let error = errors.recv().unwrap();
        assert!(matches!(error, RawError::Protocol(_) | RawError::Connection { .. }), "{request}: {error}");
    }
    // A client that closes the connection in the middle of a measurement.
    let mut client = TcpStream::connect(address).unwrap();
    client.write_all(b"throughput mode=gso every=0 port=9\n").unwrap();
    let mut line = String::new();
    BufReader::new(&client).read_line(&mut line).unwrap();
    assert!(line.starts_with("ready port="), "{line}");
    drop(client);
    assert!(matches!(errors.recv().unwrap(), RawError::Protocol(_) | RawError::Connection { .. }));
    assert!(throughput(address, &case(Mode::Merged, 100)).unwrap().received > 0);
}

/// Clients that send nothing, and a client that begins a measurement and then does nothing, do not prevent other
/// clients from being served.
#[test]
fn a_silent_client_does_not_hold_the_server() {
    let (address, errors) = server("127.0.0.1:0");
    let silent: Vec<TcpStream> = (0..20).map(|_| TcpStream::connect(address).unwrap()).collect();
    assert!(throughput(address, &case(Mode::Plain, 100)).unwrap().received > 0);
    let mut idle = TcpStream::connect(address).unwrap();
    idle.write_all(b"throughput mode=gso every=0 port=9\n").unwrap();
    let mut line = String::new();
    BufReader::new(&idle).read_line(&mut line).unwrap();
    assert!(line.starts_with("ready port="), "{line}");
    let waiting = std::thread::spawn(move || throughput(address, &case(Mode::Plain, 100)).unwrap().received);
    let error = errors.iter().find(|error| matches!(error, RawError::Idle { .. })).unwrap();
    assert!(error.to_string().ends_with("sent neither a datagram nor a message for 4 s"), "{error}");
    assert!(waiting.join().unwrap() > 0);
    drop((silent, idle));
}

#[test]
fn a_server_that_is_none_is_an_error() {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let address = listener.local_addr().unwrap();
    let thread = std::thread::spawn(move || {
        for answer in ["HTTP/1.1 400 Bad Request\n", ""] {
            listener.accept().unwrap().0.write_all(answer.as_bytes()).unwrap();
        }
        address
    });
    for _ in 0..2 {
        let error = throughput(address, &case(Mode::Plain, 100)).unwrap_err();
        assert!(matches!(error, RawError::Protocol(_) | RawError::Connection { .. }), "{error}");
    }
    thread.join().unwrap();
    assert!(matches!(throughput(address, &case(Mode::Plain, 100)), Err(RawError::Connection { .. })));
}
