//! Connections over TLS, of which the peer's certificate is known. Strangers, who have no certificate of the authority,
//! do not get beyond the handshake; the number of handshakes and of connections, and their time, are bounded.

use axum::extract::connect_info::Connected;
use axum::serve::IncomingStream;
use rustls::ServerConfig;
use rustls::pki_types::CertificateDer;
use std::io;
use std::net::SocketAddr;
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll};
use std::time::Duration;
use tokio::io::{AsyncRead, AsyncWrite, ReadBuf};
use tokio::net::{TcpListener, TcpStream};
use tokio::sync::{OwnedSemaphorePermit, Semaphore, mpsc};
use tokio_rustls::TlsAcceptor;
use tokio_rustls::server::TlsStream;

/// Maximum number of handshakes at the same time.
const HANDSHAKES: usize = 256;
/// Maximum number of connections: agents keep one each.
const CONNECTIONS: usize = 60_000;
/// Maximum time of a handshake.
const PATIENCE: Duration = Duration::from_secs(5);

/// Who is at the other end of a connection.
#[derive(Clone, Debug)]
pub(super) struct Peer {
    /// The certificate, which the authority has signed; `None` without TLS.
    pub(super) certificate: Option<CertificateDer<'static>>,
}

/// A stream after its handshake. It gives its place back when it is dropped.
pub(super) struct Stream {
    tls: TlsStream<TcpStream>,
    _place: OwnedSemaphorePermit,
}

impl AsyncRead for Stream {
    fn poll_read(mut self: Pin<&mut Self>, cx: &mut Context<'_>, buf: &mut ReadBuf<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.tls).poll_read(cx, buf)
    }
}

impl AsyncWrite for Stream {
    fn poll_write(mut self: Pin<&mut Self>, cx: &mut Context<'_>, buf: &[u8]) -> Poll<io::Result<usize>> {
        Pin::new(&mut self.tls).poll_write(cx, buf)
    }

    fn poll_flush(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.tls).poll_flush(cx)
    }

    fn poll_shutdown(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.tls).poll_shutdown(cx)
    }
}

/// Accepts connections over TLS.
pub(super) struct Listener {
    ready: mpsc::Receiver<(Stream, SocketAddr)>,
    local: SocketAddr,
}

impl Listener {
    /// Accepts connections from now on.
    pub(super) fn start(listener: TcpListener, config: ServerConfig) -> Listener {
        let acceptor = TlsAcceptor::from(Arc::new(config));
        let (sender, ready) = mpsc::channel(HANDSHAKES);
        let local = listener.local_addr().unwrap_or(SocketAddr::from(([0, 0, 0, 0], 0)));
        let (handshakes, places) = (Arc::new(Semaphore::new(HANDSHAKES)), Arc::new(Semaphore::new(CONNECTIONS)));
        tokio::spawn(async move {
            loop {
                let Ok((stream, peer)) = listener.accept().await else {
                    // Too many open files, for example: other connections will free some.
                    tokio::time::sleep(Duration::from_millis(50)).await;
                    continue;
                };
                let Ok(handshake) = handshakes.clone().acquire_owned().await else { return };
                let Ok(place) = places.clone().try_acquire_owned() else { continue };
                let (acceptor, sender) = (acceptor.clone(), sender.clone());
                tokio::spawn(async move {
                    let shaken = tokio::time::timeout(PATIENCE, acceptor.accept(stream)).await;
                    drop(handshake);
                    if let Ok(Ok(tls)) = shaken {
                        // The server has ended if nobody receives.
                        let _ = sender.send((Stream { tls, _place: place }, peer)).await;
                    }
                });
            }
        });
        Listener { ready, local }
    }
}

impl axum::serve::Listener for Listener {
    type Io = Stream;
    type Addr = SocketAddr;

    async fn accept(&mut self) -> (Stream, SocketAddr) {
        match self.ready.recv().await {
            Some(next) => next,
            // The thread that accepts ends only with the runtime.
            None => std::future::pending().await,
        }
    }

    fn local_addr(&self) -> io::Result<SocketAddr> {
        Ok(self.local)
    }
}

impl Connected<IncomingStream<'_, Listener>> for Peer {
    fn connect_info(stream: IncomingStream<'_, Listener>) -> Peer {
        let certificates = stream.io().tls.get_ref().1.peer_certificates();
        Peer { certificate: certificates.and_then(|chain| chain.first()).map(|first| first.clone().into_owned()) }
    }
}
