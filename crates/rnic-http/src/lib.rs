//! The HTTP server of rnic's services: `rnic counters`, `rnic lint --watch`, and the controller of `rnic mesh`. Clients
//! may be malicious, so [`Limits`] bounds the number of connections, the size of a request's header, and the times.
//!
//! [`serve`] serves the connections of any [`Listener`], for example of one that makes TLS handshakes; [`Server`]
//! serves a TCP listener in its own threads.

#![forbid(unsafe_code)]

mod connections;
pub mod guard;
mod stall;

use axum::Router;
use axum::extract::ConnectInfo;
use axum::serve::Listener;
use connections::{Connection, Connections};
use hyper::body::Incoming;
use hyper::server::conn::http1;
use hyper_util::rt::{TokioIo, TokioTimer};
use stall::WriteTimeout;
use std::io;
use std::net::{IpAddr, SocketAddr};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;
use tokio::io::{AsyncRead, AsyncWrite};
use tokio::runtime::Runtime;
use tower_service::Service;

/// Limits of a server.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Limits {
    /// Maximum number of connections. If a client opens one more, the server closes another one ([`serve`] describes
    /// which).
    pub connections: usize,
    /// Maximum number of unproved connections of one address, at least 1.
    pub of_host: usize,
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
    /// The limits of a server for few clients: 32 connections, of which 8 unproved ones of one address, 8 KiB, 5 s for
    /// each time, one request per connection.
    fn default() -> Limits {
        let time = Duration::from_secs(5);
        Limits {
            connections: 32,
            of_host: 8,
            header_bytes: MIN_HEADER,
            header_time: time,
            write_time: time,
            keep_alive: false,
        }
    }
}

/// Minimum of [`Limits::header_bytes`]: the initial buffer size of a connection.
const MIN_HEADER: usize = 8 << 10;

/// Maximum number of headers of a request. A request with more headers gets the status 431.
const MAX_HEADERS: usize = 64;

/// The client of a connection.
pub trait Client {
    /// Its address; `None` if it is unknown. Clients without an address count as one host.
    fn ip(&self) -> Option<IpAddr>;

    /// Whether it has proved before its first request that it may use the server, for example by a certificate.
    fn is_proved(&self) -> bool;
}

impl Client for SocketAddr {
    fn ip(&self) -> Option<IpAddr> {
        Some(SocketAddr::ip(self).to_canonical())
    }

    fn is_proved(&self) -> bool {
        false
    }
}

/// Serves the connections of `listener`. Each request carries the address of its connection as [`ConnectInfo`]. The
/// future never completes; if it is dropped, open connections continue.
///
/// A connection is *unproved* until its client has proved that it may use the server, or has got a response that is not
/// an error of the client. Unproved connections cost their clients nothing. So if an address has too many of them, its
/// oldest unproved connection is closed; and if there are too many connections, the oldest unproved connection of the
/// address with the most of them is closed. Proved connections are closed only if no connection is unproved: the oldest
/// one of the address with the most connections.
pub async fn serve<L: Listener>(mut listener: L, router: Router, limits: Limits)
where
    L::Addr: Client + Clone + Sync + 'static,
{
    let mut connections = Connections::default();
    loop {
        let (stream, peer) = listener.accept().await;
        let (host, is_proved) = (peer.ip(), Arc::new(AtomicBool::new(peer.is_proved())));
        let proof = is_proved.clone();
        let task = tokio::spawn(connection(stream, ConnectInfo(peer), router.clone(), limits, proof));
        connections.add(Connection { task: task.abort_handle(), host, is_proved }, limits);
    }
}

/// Serves one connection.
async fn connection<A: Clone + Send + Sync + 'static>(
    stream: impl AsyncRead + AsyncWrite + Unpin + Send + 'static, peer: ConnectInfo<A>, router: Router, limits: Limits,
    is_proved: Arc<AtomicBool>,
) {
    let service = hyper::service::service_fn(move |mut request: hyper::Request<Incoming>| {
        request.extensions_mut().insert(peer.clone());
        let (response, is_proved) = (router.clone().call(request), is_proved.clone());
        async move {
            let response = response.await;
            if response.as_ref().is_ok_and(|response| !response.status().is_client_error()) {
                is_proved.store(true, Ordering::Relaxed);
            }
            response
        }
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
