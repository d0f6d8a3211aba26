//! The HTTP server of rnic's services: `rnic counters`, `rnic lint --watch`, and the controller of `rnic mesh`. Clients
//! may be malicious, so [`Limits`] bounds the number of connections, the size of a request's header, and the times.
//!
//! [`serve`] serves the connections of any [`Listener`], for example of one that makes TLS handshakes; [`Server`]
//! serves a TCP listener in its own threads.

#![forbid(unsafe_code)]

mod stall;

use axum::Router;
use axum::extract::ConnectInfo;
use axum::serve::Listener;
use hyper::body::Incoming;
use hyper::server::conn::http1;
use hyper_util::rt::{TokioIo, TokioTimer};
use stall::WriteTimeout;
use std::collections::VecDeque;
use std::io;
use std::net::SocketAddr;
use std::time::Duration;
use tokio::io::{AsyncRead, AsyncWrite};
use tokio::runtime::Runtime;
use tokio::task::AbortHandle;
use tower_service::Service;

/// Limits of a server.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Limits {
    /// Maximum number of connections. If a client opens one more, the server closes the oldest.
    pub connections: usize,
    /// Maximum size of the request line and the headers in bytes, at least 8,192. A larger request gets the status 431.
    pub header_bytes: usize,
    /// Maximum time from the connection, or from the previous response, until the end of the request's headers.
    pub header_time: Duration,
    /// Maximum time for which the client accepts no byte of a response.
    pub write_time: Duration,
    /// Whether a connection can carry several requests. If not, the server also closes it when the sum of the two times
    /// has passed.
    pub keep_alive: bool,
}

impl Default for Limits {
    /// The limits of a server for few clients: 32 connections, 8 KiB, 5 s for each time, one request per connection.
    fn default() -> Limits {
        let time = Duration::from_secs(5);
        Limits { connections: 32, header_bytes: MIN_HEADER, header_time: time, write_time: time, keep_alive: false }
    }
}

/// Minimum of [`Limits::header_bytes`]: the initial buffer size of a connection.
const MIN_HEADER: usize = 8 << 10;

/// Maximum number of headers of a request. A request with more headers gets the status 431.
const MAX_HEADERS: usize = 64;

/// Serves the connections of `listener`. Each request carries the address of its connection as [`ConnectInfo`]. The
/// future never completes; if it is dropped, open connections continue.
pub async fn serve<L: Listener>(mut listener: L, router: Router, limits: Limits)
where
    L::Addr: Clone + Sync + 'static,
{
    // The open connections, the oldest first, and some connections that have already ended.
    let mut connections: VecDeque<AbortHandle> = VecDeque::new();
    loop {
        let (stream, peer) = listener.accept().await;
        let task = tokio::spawn(connection(stream, ConnectInfo(peer), router.clone(), limits));
        connections.push_back(task.abort_handle());
        if connections.len() > limits.connections {
            connections.retain(|connection| !connection.is_finished());
        }
        if connections.len() > limits.connections
            && let Some(oldest) = connections.pop_front()
        {
            oldest.abort();
        }
    }
}

/// Serves one connection.
async fn connection<A: Clone + Send + Sync + 'static>(
    stream: impl AsyncRead + AsyncWrite + Unpin + Send + 'static, peer: ConnectInfo<A>, router: Router, limits: Limits,
) {
    let service = hyper::service::service_fn(move |mut request: hyper::Request<Incoming>| {
        request.extensions_mut().insert(peer.clone());
        router.clone().call(request)
    });
    let connection = http1::Builder::new()
        .timer(TokioTimer::new())
        .keep_alive(limits.keep_alive)
        .header_read_timeout(limits.header_time)
        .max_buf_size(limits.header_bytes.max(MIN_HEADER))
        .max_headers(MAX_HEADERS)
        .serve_connection(TokioIo::new(WriteTimeout::new(stream, limits.write_time)), service);
    // An error ends only this connection; the client notices it.
    if limits.keep_alive {
        let _ = connection.await;
    } else {
        let _ = tokio::time::timeout(limits.header_time + limits.write_time, connection).await;
    }
}

/// A running server on a TCP listener. It stops when it is dropped.
pub struct Server {
    address: SocketAddr,
    runtime: Option<Runtime>,
}

impl Server {
    /// Starts to serve in new threads, which belong to the server.
    ///
    /// # Errors
    /// The address of the socket is unknown, or a thread cannot be started.
    ///
    /// ```
    /// use axum::{Router, routing::get};
    /// use rnic_http::{Limits, Server};
    /// use std::net::TcpListener;
    ///
    /// let listener = TcpListener::bind("127.0.0.1:0")?;
    /// let router = Router::new().route("/metrics", get(|| async { "up 1\n" }));
    /// let server = Server::start(listener, router, Limits::default())?;
    /// println!("http://{}/metrics", server.address());
    /// # Ok::<(), std::io::Error>(())
    /// ```
    pub fn start(listener: std::net::TcpListener, router: Router, limits: Limits) -> io::Result<Server> {
        let address = listener.local_addr()?;
        listener.set_nonblocking(true)?;
        let mut runtime = tokio::runtime::Builder::new_multi_thread();
        let runtime = runtime.worker_threads(1).thread_name("http").enable_all().build()?;
        let listener = {
            let _runtime = runtime.enter();
            tokio::net::TcpListener::from_std(listener)?
        };
        runtime.spawn(serve(listener, router, limits));
        Ok(Server { address, runtime: Some(runtime) })
    }

    /// The address at which the server listens.
    pub fn address(&self) -> SocketAddr {
        self.address
    }
}

impl Drop for Server {
    fn drop(&mut self) {
        if let Some(runtime) = self.runtime.take() {
            runtime.shutdown_timeout(Duration::from_secs(1));
        }
    }
}
