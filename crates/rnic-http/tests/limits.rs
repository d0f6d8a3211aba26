//! Tests of the limits: hostile and slow clients.

#![expect(clippy::disallowed_methods, reason = "tests of times wait and measure")]

use axum::Router;
use axum::routing::get;
use rnic_http::{Limits, Server};
use std::io::{Read, Write};
use std::net::{TcpListener, TcpStream};
use std::time::{Duration, Instant};

fn server(limits: Limits) -> Server {
    let router = Router::new()
        .route("/metrics", get(|| async { "up 1\n" }))
        .route("/long", get(|| async { "x".repeat(64 << 20) }));
    Server::start(TcpListener::bind("127.0.0.1:0").unwrap(), router, limits).unwrap()
}

fn connect(server: &Server) -> TcpStream {
    let stream = TcpStream::connect(server.address()).unwrap();
    stream.set_read_timeout(Some(Duration::from_secs(20))).unwrap();
    stream
}

/// What the server sends until it closes the connection.
fn rest(stream: &mut TcpStream) -> String {
    let mut response = Vec::new();
    let result = stream.read_to_end(&mut response);
    let timed_out = result.is_err_and(|error| error.kind() == std::io::ErrorKind::WouldBlock);
    assert!(!timed_out, "the server leaves the connection open");
    String::from_utf8(response).unwrap()
}

fn ask(server: &Server, request: &[u8]) -> String {
    let mut stream = connect(server);
    // The server may close the connection before it has read everything.
    let _ = stream.write_all(request);
    rest(&mut stream)
}

const METRICS: &[u8] = b"GET /metrics HTTP/1.1\r\nHost: a\r\n\r\n";

#[test]
fn pages_and_errors() {
    let server = server(Limits::default());
    let response = ask(&server, b"GET /metrics?x=1 HTTP/1.1\r\nHost: a\r\n\r\n");
    assert!(response.starts_with("HTTP/1.1 200 OK\r\n") && response.ends_with("\r\n\r\nup 1\n"), "{response}");
    assert!(ask(&server, b"GET /etc/passwd HTTP/1.1\r\nHost: a\r\n\r\n").starts_with("HTTP/1.1 404 "));
    assert!(ask(&server, b"POST /metrics HTTP/1.1\r\nHost: a\r\n\r\n").starts_with("HTTP/1.1 405 "));
    assert!(ask(&server, b"\x16\x03\x01\x00\x00\x01 \r\n\r\n").starts_with("HTTP/1.1 400 "));
}

#[test]
fn oversize_headers_are_refused() {
    let server = server(Limits::default());
    let long = [&METRICS[..METRICS.len() - 2], b"X: ", &vec![b'a'; 9 << 10][..], b"\r\n\r\n"].concat();
    assert!(ask(&server, &long).starts_with("HTTP/1.1 431 "));
    let endless = [b"GET /metrics HTTP/1.1\r\nX: ".to_vec(), vec![b'a'; 64 << 10]].concat();
    let response = ask(&server, &endless);
    assert!(response.is_empty() || response.starts_with("HTTP/1.1 431 "), "{response}");
    let many = ["GET /metrics HTTP/1.1\r\n".to_string(), "A: b\r\n".repeat(100), "\r\n".to_string()].concat();
    assert!(ask(&server, many.as_bytes()).starts_with("HTTP/1.1 431 "));
    assert!(ask(&server, METRICS).contains("up 1"));
}

/// Whether the server has closed a connection without a response.
fn is_closed(stream: &mut TcpStream) -> bool {
    stream.set_read_timeout(Some(Duration::from_millis(100))).unwrap();
    !stream.read(&mut [0; 16]).is_err_and(|error| error.kind() == std::io::ErrorKind::WouldBlock)
}

/// Sends a request on a connection that remains open, and reads the response.
fn request(stream: &mut TcpStream) {
    stream.write_all(METRICS).unwrap();
    let mut response = Vec::new();
    while !response.ends_with(b"up 1\n") {
        let mut byte = [0];
        stream.read_exact(&mut byte).unwrap();
        response.push(byte[0]);
    }
}

/// A connection that has got a response outlives any number of later connections that send nothing or get an error,
/// although it is the oldest.
#[test]
fn connections_without_a_request_make_room_first() {
    let hour = Duration::from_secs(3_600);
    for of_host in [2, 100] {
        let server =
            server(Limits { connections: 4, of_host, header_time: hour, keep_alive: true, ..Limits::default() });
        let mut proved = connect(&server);
        request(&mut proved);
        let mut idle: Vec<TcpStream> = (0..30).map(|_| connect(&server)).collect();
        for stream in &mut idle[..15] {
            let _ = stream.write_all(b"GET /nothing HTTP/1.1\r\nHost: a\r\n\r\n");
        }
        request(&mut connect(&server));
        request(&mut proved);
        // Of one address, at most this many silent connections remain.
        let open = idle[15..].iter_mut().filter_map(|stream| (!is_closed(stream)).then_some(())).count();
        assert!(open <= of_host.min(3), "{open}");
    }
}

/// An address with many silent connections loses its own, and not those of another address. If all connections are
/// proved, the address with the most of them makes room.
#[test]
fn the_busiest_address_makes_room() {
    let hour = Duration::from_secs(3_600);
    let server =
        server(Limits { connections: 6, of_host: 100, header_time: hour, keep_alive: true, ..Limits::default() });
    let from = |server: &Server, last: u8| {
        use socket2::{Domain, Socket, Type};
        let socket = Socket::new(Domain::IPV4, Type::STREAM, None).unwrap();
        socket.bind(&std::net::SocketAddr::from(([127, 0, 0, last], 0)).into()).unwrap();
        socket.connect(&server.address().into()).unwrap();
        let stream = TcpStream::from(socket);
        stream.set_read_timeout(Some(Duration::from_secs(20))).unwrap();
        stream
    };
    let mut quiet = from(&server, 2);
    let flood: Vec<TcpStream> = (0..30).map(|_| from(&server, 3)).collect();
    request(&mut quiet);
    drop(flood);

    let server = self::server(Limits { connections: 6, header_time: hour, keep_alive: true, ..Limits::default() });
    let mut quiet = from(&server, 2);
    request(&mut quiet);
    let mut many: Vec<TcpStream> = (0..5).map(|_| from(&server, 4)).collect();
    many.iter_mut().for_each(request);
    let mut other = from(&server, 5);
    request(&mut other);
    request(&mut quiet);
    request(&mut other);
    assert!(is_closed(&mut many[0]), "the oldest connection of the address with the most");
    request(&mut many[1]);
}

/// Clients that send half of a request and wait do not keep others out.
#[test]
fn the_oldest_connection_makes_room() {
    let hour = Duration::from_secs(3_600);
    let server = server(Limits { connections: 4, header_time: hour, keep_alive: true, ..Limits::default() });
    let mut slow: Vec<TcpStream> = (0..40).map(|_| connect(&server)).collect();
    for stream in &mut slow {
        let _ = stream.write_all(b"GET /met");
    }
    for _ in 0..10 {
        let request = b"GET /metrics HTTP/1.1\r\nHost: a\r\nConnection: close\r\n\r\n";
        assert!(ask(&server, request).contains("up 1"));
    }
    for stream in &mut slow[..36] {
        assert_eq!(rest(stream), "");
    }
}

#[test]
fn a_slow_request_ends() {
    for keep_alive in [false, true] {
        let limits = Limits { header_time: Duration::from_millis(100), keep_alive, ..Limits::default() };
        let server = server(limits);
        let mut stream = connect(&server);
        let start = Instant::now();
        // A byte now and then does not extend the time.
        for byte in b"GET /metrics HTT".iter().cycle() {
            if stream.write_all(&[*byte]).is_err() || start.elapsed() > Duration::from_secs(10) {
                break;
            }
            std::thread::sleep(Duration::from_millis(20));
        }
        assert!(start.elapsed() < Duration::from_secs(10), "the connection remains open");
    }
}

/// An idle connection ends as well.
#[test]
fn an_idle_connection_ends() {
    let server = server(Limits { header_time: Duration::from_millis(300), keep_alive: true, ..Limits::default() });
    let mut stream = connect(&server);
    stream.write_all(METRICS).unwrap();
    assert!(rest(&mut stream).ends_with("up 1\n"));
    assert_eq!(rest(&mut connect(&server)), "");
}

#[test]
fn a_client_that_does_not_read_loses_its_connection() {
    let limits = Limits { write_time: Duration::from_millis(200), keep_alive: true, ..Limits::default() };
    let server = server(limits);
    let mut stream = connect(&server);
    stream.write_all(b"GET /long HTTP/1.1\r\nHost: a\r\n\r\n").unwrap();
    std::thread::sleep(Duration::from_secs(2));
    assert!(rest(&mut stream).len() < 64 << 20);
}

#[test]
fn a_connection_carries_several_requests_if_allowed() {
    let server = server(Limits { keep_alive: true, ..Limits::default() });
    let mut stream = connect(&server);
    for _ in 0..3 {
        stream.write_all(METRICS).unwrap();
        let mut response = Vec::new();
        while !response.ends_with(b"up 1\n") {
            let mut byte = [0];
            stream.read_exact(&mut byte).unwrap();
            response.push(byte[0]);
        }
    }
    let server = self::server(Limits::default());
    assert!(ask(&server, &METRICS.repeat(3)).matches("up 1").count() == 1);
}

#[test]
fn a_dropped_server_stops() {
    let server = server(Limits::default());
    let address = server.address();
    assert!(ask(&server, METRICS).contains("up 1"));
    drop(server);
    TcpListener::bind(address).unwrap();
}
