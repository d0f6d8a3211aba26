//! A small HTTP server for metrics. Whoever connects is a stranger: the number of connections, the size of a request
//! and the time of an exchange are bounded, and a connection that has waited longest makes room for a new one.

use std::collections::VecDeque;
use std::io::{self, Read, Write};
use std::net::{Shutdown, SocketAddr, TcpListener, TcpStream};
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Arc, Mutex, PoisonError};
use std::thread::{self, JoinHandle};
use std::time::{Duration, Instant};

/// Bounds of a [`Server`].
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Limits {
    /// Maximum number of connections.
    pub connections: usize,
    /// Maximum size of a request with its headers, in bytes.
    pub request: usize,
    /// Maximum time from the connection until the end of the request, and again until the end of the response.
    pub time: Duration,
}

impl Default for Limits {
    fn default() -> Limits {
        Limits { connections: 32, request: 8 << 10, time: Duration::from_secs(5) }
    }
}

/// A response to `GET`.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Page {
    /// Content type.
    pub kind: &'static str,
    /// Content.
    pub body: String,
}

impl Page {
    /// Metrics in the text format of Prometheus.
    pub fn metrics(body: String) -> Page {
        Page { kind: "text/plain; version=0.0.4; charset=utf-8", body }
    }
}

/// Maximum number of headers of a request.
const HEADERS: usize = 64;

type Pages = dyn Fn(&str) -> Option<Page> + Send + Sync;

/// A running server. It stops when it is dropped.
pub struct Server {
    address: SocketAddr,
    shared: Arc<Shared>,
    thread: Option<JoinHandle<()>>,
}

struct Shared {
    pages: Box<Pages>,
    limits: Limits,
    stop: AtomicBool,
    next: AtomicU64,
    /// The open connections, the oldest first.
    open: Mutex<VecDeque<(u64, TcpStream)>>,
}

impl Server {
    /// Starts to serve: `pages` returns the page of a path, or `None` if there is none.
    ///
    /// # Errors
    /// The address of the socket is unknown, or a thread cannot be started.
    ///
    /// ```
    /// use rnic_watch::serve::{Limits, Page, Server};
    /// use std::net::TcpListener;
    ///
    /// let listener = TcpListener::bind("127.0.0.1:0")?;
    /// let pages = |path: &str| (path == "/metrics").then(|| Page::metrics("up 1\n".to_string()));
    /// let server = Server::start(listener, Limits::default(), pages)?;
    /// println!("http://{}/metrics", server.address());
    /// # Ok::<(), std::io::Error>(())
    /// ```
    pub fn start(
        listener: TcpListener, limits: Limits, pages: impl Fn(&str) -> Option<Page> + Send + Sync + 'static,
    ) -> io::Result<Server> {
        let address = listener.local_addr()?;
        let shared = Arc::new(Shared {
            pages: Box::new(pages),
            limits,
            stop: AtomicBool::new(false),
            next: AtomicU64::new(0),
            open: Mutex::default(),
        });
        let accepting = shared.clone();
        let thread = thread::Builder::new().name("http".to_string()).spawn(move || accept(&listener, &accepting))?;
        Ok(Server { address, shared, thread: Some(thread) })
    }

    /// The address at which the server listens.
    pub fn address(&self) -> SocketAddr {
        self.address
    }
}

impl Drop for Server {
    fn drop(&mut self) {
        self.shared.stop.store(true, Ordering::SeqCst);
        // A connection wakes the thread that accepts. A server on all addresses is reached at the loopback address.
        let mut address = self.address;
        if address.ip().is_unspecified() {
            address.set_ip(if address.is_ipv4() { [127, 0, 0, 1].into() } else { [0, 0, 0, 0, 0, 0, 0, 1].into() });
        }
        if TcpStream::connect_timeout(&address, Duration::from_secs(1)).is_ok()
            && let Some(thread) = self.thread.take()
        {
            // A panic of the thread was already reported.
            let _ = thread.join();
        }
    }
}

fn accept(listener: &TcpListener, shared: &Arc<Shared>) {
    for stream in listener.incoming() {
        if shared.stop.load(Ordering::SeqCst) {
            return;
        }
        // An error concerns one connection, or a lack of file descriptors, which other connections will free.
        let Ok(stream) = stream else { continue };
        let Ok(copy) = stream.try_clone() else { continue };
        let id = shared.next.fetch_add(1, Ordering::Relaxed);
        let oldest = {
            let mut open = shared.open.lock().unwrap_or_else(PoisonError::into_inner);
            open.push_back((id, copy));
            if open.len() > shared.limits.connections { open.pop_front() } else { None }
        };
        if let Some((_, oldest)) = oldest {
            let _ = oldest.shutdown(Shutdown::Both);
        }
        let serving = shared.clone();
        let spawned = thread::Builder::new().name("http client".to_string()).spawn(move || {
            let _ = exchange(stream, &serving);
            serving.close(id);
        });
        if spawned.is_err() {
            shared.close(id);
        }
    }
}

impl Shared {
    fn close(&self, id: u64) {
        self.open.lock().unwrap_or_else(PoisonError::into_inner).retain(|(other, _)| *other != id);
    }
}

#[expect(clippy::disallowed_methods, reason = "a server measures how long its clients take")]
fn now() -> Instant {
    Instant::now()
}

/// The time that is left until `end`; an error if there is none.
fn left(end: Instant) -> io::Result<Duration> {
    let left = end.saturating_duration_since(now());
    if left.is_zero() { Err(io::ErrorKind::TimedOut.into()) } else { Ok(left) }
}

/// Reads a request, sends the response and closes the connection.
fn exchange(mut stream: TcpStream, shared: &Shared) -> io::Result<()> {
    let (status, page) = match read_request(&mut stream, shared)? {
        Request::Get(path) => match (shared.pages)(&path) {
            Some(page) => ("200 OK", page),
            None => plain("404 Not Found", "no such page; try /metrics\n"),
        },
        Request::Refused(status) => plain(status, ""),
    };
    let Page { kind, body } = page;
    let head = format!(
        "HTTP/1.1 {status}\r\nContent-Type: {kind}\r\nContent-Length: {}\r\nConnection: close\r\n\r\n",
        body.len()
    );
    let end = now() + shared.limits.time;
    for mut bytes in [head.as_bytes(), body.as_bytes()] {
        while !bytes.is_empty() {
            stream.set_write_timeout(Some(left(end)?))?;
            match stream.write(bytes)? {
                0 => return Err(io::ErrorKind::WriteZero.into()),
                written => bytes = &bytes[written..],
            }
        }
    }
    stream.shutdown(Shutdown::Write)
}

fn plain(status: &'static str, body: &str) -> (&'static str, Page) {
    (status, Page { kind: "text/plain; charset=utf-8", body: body.to_string() })
}

enum Request {
    /// The path, without its query.
    Get(String),
    /// The status of the response.
    Refused(&'static str),
}

fn read_request(stream: &mut TcpStream, shared: &Shared) -> io::Result<Request> {
    let end = now() + shared.limits.time;
    let mut bytes = Vec::new();
    let mut buffer = [0; 1024];
    loop {
        let mut headers = [httparse::EMPTY_HEADER; HEADERS];
        let mut request = httparse::Request::new(&mut headers);
        match request.parse(&bytes) {
            Ok(httparse::Status::Complete(_)) => {
                return Ok(match (request.method, request.path) {
                    (Some("GET"), Some(path)) => Request::Get(path.split('?').next().unwrap_or_default().to_string()),
                    _ => Request::Refused("405 Method Not Allowed"),
                });
            }
            Ok(httparse::Status::Partial) if bytes.len() >= shared.limits.request => {
                return Ok(Request::Refused("431 Request Header Fields Too Large"));
            }
            Ok(httparse::Status::Partial) => {}
            Err(httparse::Error::TooManyHeaders) => {
                return Ok(Request::Refused("431 Request Header Fields Too Large"));
            }
            Err(_) => return Ok(Request::Refused("400 Bad Request")),
        }
        stream.set_read_timeout(Some(left(end)?))?;
        let room = buffer.len().min(shared.limits.request - bytes.len());
        match stream.read(&mut buffer[..room])? {
            0 => return Err(io::ErrorKind::UnexpectedEof.into()),
            count => bytes.extend_from_slice(&buffer[..count]),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn server(limits: Limits) -> Server {
        let pages = |path: &str| (path == "/metrics").then(|| Page::metrics("up 1\n".to_string()));
        Server::start(TcpListener::bind("127.0.0.1:0").unwrap(), limits, pages).unwrap()
    }

    fn ask(server: &Server, request: &[u8]) -> String {
        let mut stream = TcpStream::connect(server.address()).unwrap();
        stream.set_read_timeout(Some(Duration::from_secs(20))).unwrap();
        // The server may close the connection before it has read everything.
        let _ = stream.write_all(request);
        let mut response = Vec::new();
        let _ = stream.read_to_end(&mut response);
        String::from_utf8(response).unwrap()
    }

    #[test]
    fn pages_and_errors() {
        let server = server(Limits::default());
        let response = ask(&server, b"GET /metrics?x=1 HTTP/1.1\r\nHost: a\r\n\r\n");
        assert!(response.starts_with("HTTP/1.1 200 OK\r\n") && response.ends_with("\r\n\r\nup 1\n"), "{response}");
        assert!(ask(&server, b"GET /etc/passwd HTTP/1.1\r\n\r\n").starts_with("HTTP/1.1 404 "));
        assert!(ask(&server, b"POST /metrics HTTP/1.1\r\n\r\n").starts_with("HTTP/1.1 405 "));
        assert!(ask(&server, b"\x16\x03\x01\x00\x00").starts_with("HTTP/1.1 400 "));
    }

    /// Headers that are too long, or too many, end with an error, and the server keeps serving.
    #[test]
    fn huge_requests_are_refused() {
        let server = server(Limits::default());
        let long = [b"GET /metrics HTTP/1.1\r\nX: ".to_vec(), vec![b'a'; 8 << 10]].concat();
        assert!(ask(&server, &long[..8 << 10]).starts_with("HTTP/1.1 431 "));
        let many = ["GET /metrics HTTP/1.1\r\n".to_string(), "A: b\r\n".repeat(100), "\r\n".to_string()].concat();
        assert!(ask(&server, many.as_bytes()).starts_with("HTTP/1.1 431 "));
        assert!(ask(&server, b"GET /metrics HTTP/1.1\r\n\r\n").contains("up 1"));
    }

    /// Clients that send nothing, or a byte now and then, or do not read, neither keep others out nor stay.
    #[test]
    fn slow_clients_make_room() {
        let limits = Limits { connections: 4, ..Limits::default() };
        let server = server(Limits { time: Duration::from_secs(3600), ..limits });
        let mut slow: Vec<TcpStream> = (0..40).map(|_| TcpStream::connect(server.address()).unwrap()).collect();
        for stream in &mut slow {
            let _ = stream.write_all(b"GET /met");
        }
        for _ in 0..10 {
            assert!(ask(&server, b"GET /metrics HTTP/1.1\r\n\r\n").contains("up 1"));
        }
        assert!(server.shared.open.lock().unwrap().len() <= limits.connections);
        // The oldest connection was closed.
        let mut byte = [0];
        slow[0].set_read_timeout(Some(Duration::from_secs(20))).unwrap();
        assert!(matches!(slow[0].read(&mut byte), Ok(0) | Err(_)));
    }

    #[test]
    fn a_request_that_takes_too_long_ends() {
        let server = server(Limits { time: Duration::from_millis(50), ..Limits::default() });
        let mut stream = TcpStream::connect(server.address()).unwrap();
        stream.write_all(b"GET /metrics HTT").unwrap();
        stream.set_read_timeout(Some(Duration::from_secs(20))).unwrap();
        let mut response = Vec::new();
        let _ = stream.read_to_end(&mut response);
        assert_eq!(response, b"", "closed without a response");
    }
}
