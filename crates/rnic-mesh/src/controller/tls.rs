//! TLS connections, with the peer's certificate. The handshake rejects clients without a certificate of the certificate
//! authority; the number of concurrent handshakes and the time of each are limited.

use crate::credentials::{Fingerprint, end_of, fingerprint};
use parking_lot::RwLock;
use rnic_http::Client;
use rnic_untrusted::admission::{Admissions, Limit};
use rustls::ServerConfig;
use rustls::pki_types::CertificateDer;
use std::io;
use std::net::IpAddr;
use std::sync::Arc;
use std::time::Duration;
use tokio::net::{TcpListener, TcpStream};
use tokio::sync::{mpsc, oneshot};
use tokio_rustls::TlsAcceptor;
use tokio_rustls::server::TlsStream;

/// Maximum number of concurrent handshakes. If a limit is reached, the server ends another handshake and begins the new
/// one, so that hosts without a certificate do not keep agents out ([`Admissions`]).
const HANDSHAKES: Limit = Limit { of_all: 256, of_host: 32 };
/// Maximum number of connections whose handshake is complete, and that the server has not taken yet.
const COMPLETE: usize = 64;
/// Maximum time of a handshake.
const HANDSHAKE_TIME: Duration = Duration::from_secs(5);

/// The client of a connection.
#[derive(Clone, Debug)]
pub(super) struct Peer {
    /// The certificate, which the authority has signed; `None` without TLS.
    pub(super) certificate: Option<CertificateDer<'static>>,
    /// The certificate's fingerprint, and its end in seconds since 1970.
    pub(super) identity: Option<(Fingerprint, i64)>,
    /// Its address.
    pub(super) ip: Option<IpAddr>,
}

impl Client for Peer {
    fn ip(&self) -> Option<IpAddr> {
        self.ip
    }

    fn is_proved(&self) -> bool {
        self.certificate.is_some()
    }
}

/// The TLS configuration of new connections, which a reload replaces.
pub(super) type Config = Arc<RwLock<Arc<ServerConfig>>>;

/// Accepts connections over TLS.
pub(super) struct Listener {
    connections: mpsc::Receiver<TlsStream<TcpStream>>,
}

impl Listener {
    /// Accepts connections from now on.
    pub(super) fn start(listener: TcpListener, config: Config) -> Listener {
        let (sender, connections) = mpsc::channel(COMPLETE);
        // An admission ends with its handshake, so no connection is proved.
        let handshakes = Admissions::new(HANDSHAKES, HANDSHAKES);
        tokio::spawn(async move {
            loop {
                let Ok((stream, peer)) = listener.accept().await else {
                    // The system refused the connection, for example because too many files are open. Retry later, when
                    // other connections may have been closed.
                    tokio::time::sleep(Duration::from_millis(50)).await;
                    continue;
                };
                let (evict, evicted) = oneshot::channel();
                let evict = move || {
                    // This fails if the handshake has ended.
                    let _ = evict.send(());
                };
                let Some(admission) = handshakes.admit(peer.ip(), evict) else { continue };
                let (acceptor, sender) = (TlsAcceptor::from(config.read().clone()), sender.clone());
                tokio::spawn(async move {
                    let accepted = tokio::select! {
                        accepted = tokio::time::timeout(HANDSHAKE_TIME, acceptor.accept(stream)) => accepted,
                        _ = evicted => return,
                    };
                    // A complete handshake is not evicted, but occupies a place until the server takes the connection.
                    admission.on_eviction(|| {});
                    if let Ok(Ok(stream)) = accepted {
                        // This fails if the server has ended.
                        let _ = sender.send(stream).await;
                    }
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
                let identity = |certificate| (fingerprint(certificate), end_of(certificate).unwrap_or(i64::MAX));
                let identity = certificate.as_ref().map(identity);
                let ip = stream.get_ref().0.peer_addr().ok().map(|address| address.ip().to_canonical());
                (stream, Peer { certificate, identity, ip })
            }
            // The task that accepts ends only with the runtime.
            None => std::future::pending().await,
        }
    }

    fn local_addr(&self) -> io::Result<Peer> {
        Err(io::ErrorKind::Unsupported.into())
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use axum::serve::Listener as _;
    use rcgen::{CertificateParams, KeyPair};
    use rustls::pki_types::{PrivateKeyDer, PrivatePkcs8KeyDer, ServerName};
    use rustls::{ClientConfig, RootCertStore};
    use tokio_rustls::TlsConnector;

    /// A server and a client that trusts it.
    fn configurations() -> (ServerConfig, ClientConfig) {
        let key = KeyPair::generate().unwrap();
        let certificate = CertificateParams::new(vec!["localhost".to_string()]).unwrap().self_signed(&key).unwrap();
        let der = certificate.der().clone();
        let mut roots = RootCertStore::empty();
        roots.add(der.clone()).unwrap();
        let key = PrivateKeyDer::from(PrivatePkcs8KeyDer::from(key.serialize_der()));
        let provider = Arc::new(rustls::crypto::aws_lc_rs::default_provider());
        let server = ServerConfig::builder_with_provider(provider.clone());
        let server = server.with_safe_default_protocol_versions().unwrap().with_no_client_auth();
        let client = ClientConfig::builder_with_provider(provider).with_safe_default_protocol_versions().unwrap();
        let client = client.with_root_certificates(roots).with_no_client_auth();
        (server.with_single_cert(vec![der], key).unwrap(), client)
    }

    /// 400 connections that send nothing, which is more than the maximum number of handshakes. A new client does not
    /// wait until these connections time out.
    #[test]
    fn silent_connections_make_room() {
        let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
        runtime.block_on(async {
            let (server, client) = configurations();
            let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
            let address = listener.local_addr().unwrap();
            let mut accepted = Listener::start(listener, Arc::new(RwLock::new(Arc::new(server))));
            let mut silent = Vec::new();
            for _ in 0..400 {
                silent.push(TcpStream::connect(address).await.unwrap());
            }
            let connect = async {
                let stream = TcpStream::connect(address).await.unwrap();
                let name = ServerName::try_from("localhost").unwrap();
                TlsConnector::from(Arc::new(client)).connect(name, stream).await.unwrap()
            };
            let both = async { tokio::join!(accepted.accept(), connect) };
            let (_, connected) = tokio::time::timeout(HANDSHAKE_TIME / 2, both).await.expect("an early handshake");
            drop((silent, connected));
        });
    }
}
