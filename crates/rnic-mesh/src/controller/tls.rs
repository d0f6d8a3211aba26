//! TLS connections, with the peer's certificate. The handshake rejects clients without a certificate of the authority;
//! the number of concurrent handshakes and the time of each are limited.

use rustls::ServerConfig;
use rustls::pki_types::CertificateDer;
use std::io;
use std::sync::Arc;
use std::time::Duration;
use tokio::net::{TcpListener, TcpStream};
use tokio::sync::{Semaphore, mpsc};
use tokio_rustls::TlsAcceptor;
use tokio_rustls::server::TlsStream;

/// Maximum number of concurrent handshakes.
const HANDSHAKES: usize = 256;
/// Maximum time of a handshake.
const HANDSHAKE_TIME: Duration = Duration::from_secs(5);

/// The client of a connection.
#[derive(Clone, Debug)]
pub(super) struct Peer {
    /// The certificate, which the authority has signed; `None` without TLS.
    pub(super) certificate: Option<CertificateDer<'static>>,
}

/// Accepts connections over TLS.
pub(super) struct Listener {
    connections: mpsc::Receiver<TlsStream<TcpStream>>,
}

impl Listener {
    /// Accepts connections from now on.
    pub(super) fn start(listener: TcpListener, config: ServerConfig) -> Listener {
        let acceptor = TlsAcceptor::from(Arc::new(config));
        let (sender, connections) = mpsc::channel(HANDSHAKES);
        let handshakes = Arc::new(Semaphore::new(HANDSHAKES));
        tokio::spawn(async move {
            loop {
                let Ok((stream, _)) = listener.accept().await else {
                    // The system refused the connection, for example because too many files are open. Retry later, when
                    // other connections may have been closed.
                    tokio::time::sleep(Duration::from_millis(50)).await;
                    continue;
                };
                let Ok(handshake) = handshakes.clone().acquire_owned().await else { return };
                let (acceptor, sender) = (acceptor.clone(), sender.clone());
                tokio::spawn(async move {
                    let accepted = tokio::time::timeout(HANDSHAKE_TIME, acceptor.accept(stream)).await;
                    if let Ok(Ok(stream)) = accepted {
                        // This fails if the server has ended.
                        let _ = sender.send(stream).await;
                    }
                    drop(handshake);
                });
            }
        });
        Listener { connections }
    }
}

impl axum::serve::Listener for Listener {
    type Io = TlsStream<TcpStream>;
    type Addr = Peer;

    async fn accept(&mut self) -> (TlsStream<TcpStream>, Peer) {
        match self.connections.recv().await {
            Some(stream) => {
                let certificates = stream.get_ref().1.peer_certificates();
                let first = certificates.and_then(|chain| chain.first());
                let certificate = first.map(|first| first.clone().into_owned());
                (stream, Peer { certificate })
            }
            // The task that accepts ends only with the runtime.
            None => std::future::pending().await,
        }
    }

    fn local_addr(&self) -> io::Result<Peer> {
        Err(io::ErrorKind::Unsupported.into())
    }
}
