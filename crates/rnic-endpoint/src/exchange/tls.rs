//! TLS 1.3 for the out-of-band exchange: authentication of the two ends ([`Credentials`]), and the encrypted
//! connection.

use super::deadline::Deadline;
use crate::sync::lock;
use aws_lc_rs::hkdf::{HKDF_SHA256, Salt};
use rustls::client::danger::{HandshakeSignatureValid, ServerCertVerified, ServerCertVerifier};
use rustls::client::{AlwaysResolvesClientRawPublicKeys, WebPkiServerVerifier};
use rustls::crypto::{CryptoProvider, aws_lc_rs as provider, verify_tls13_signature_with_raw_key};
use rustls::pki_types::pem::PemObject;
use rustls::pki_types::{
    CertificateDer, PrivateKeyDer, PrivatePkcs8KeyDer, ServerName, SubjectPublicKeyInfoDer, UnixTime,
};
use rustls::server::danger::{ClientCertVerified, ClientCertVerifier};
use rustls::server::{AlwaysResolvesServerRawPublicKeys, WebPkiClientVerifier};
use rustls::sign::CertifiedKey;
use rustls::version::TLS13;
use rustls::{
    CertificateError, ClientConfig, ClientConnection, Connection, DigitallySignedStruct, DistinguishedName,
    RootCertStore, ServerConfig, ServerConnection, SignatureScheme,
};
use std::fmt;
use std::io::{self, Read, Write};
use std::net::{Shutdown, TcpStream};
use std::path::Path;
use std::sync::{Arc, Mutex};
use std::time::Duration;

/// Why credentials cannot be used.
#[derive(Debug, thiserror::Error)]
pub enum CredentialsError {
    /// The secret is too short.
    #[error("the secret has {len} bytes; it needs at least {}, all random", Credentials::SECRET_LEN)]
    ShortSecret {
        /// Length in bytes.
        len: usize,
    },
    /// A file cannot be used.
    #[error("{path}: {why}")]
    File {
        /// The file's path.
        path: String,
        /// What is wrong with it.
        why: String,
    },
    /// The certificate, its key and the certificate authority do not fit together.
    #[error("the certificate cannot be used: {0}")]
    Unfit(String),
}

/// The credentials with which the two ends of an exchange authenticate each other. Both ends prove over TLS 1.3 that
/// they know the same secret, or have a certificate of the same authority.
///
/// ```
/// use rnic_endpoint::exchange::Credentials;
///
/// assert!(Credentials::from_secret(b"too short").is_err());
/// let secret = [7; 32]; // from a file that `openssl rand -hex 32` wrote, for example
/// assert!(Credentials::from_secret(&secret).is_ok());
/// ```
#[derive(Clone)]
pub struct Credentials {
    client: Arc<ClientConfig>,
    server: Arc<ServerConfig>,
}

impl fmt::Debug for Credentials {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Credentials")
    }
}

impl Credentials {
    /// Minimum length of a secret in bytes.
    pub const SECRET_LEN: usize = 16;

    /// Credentials from a secret that both ends know. The secret must be random, such as the output of
    /// `openssl rand -hex 32`: an attacker who has connected to one end once can test guesses of the secret on his own
    /// machine.
    ///
    /// TLS libraries support certificates, but not secrets of this kind. So an Ed25519 key pair is derived from the
    /// secret, and each end proves that it has the private key, with the public key in the place of a certificate (RFC
    /// 7250).
    ///
    /// # Errors
    /// If the secret is shorter than [`Credentials::SECRET_LEN`].
    pub fn from_secret(secret: &[u8]) -> Result<Credentials, CredentialsError> {
        if secret.len() < Credentials::SECRET_LEN {
            return Err(CredentialsError::ShortSecret { len: secret.len() });
        }
        let unfit = |why: &dyn fmt::Display| CredentialsError::Unfit(why.to_string());
        // The private key in the format PKCS #8 (RFC 8410, section 7): a fixed beginning, and 32 bytes.
        let mut pkcs8 =
            *b"\x30\x2e\x02\x01\x00\x30\x05\x06\x03\x2b\x65\x70\x04\x22\x04\x20................................";
        let extracted = Salt::new(HKDF_SHA256, b"rnic exchange identity 1").extract(secret);
        let key = extracted.expand(&[b"ed25519"], HKDF_SHA256).and_then(|okm| okm.fill(&mut pkcs8[16..]));
        key.map_err(|error| unfit(&error))?;
        let key = PrivateKeyDer::from(PrivatePkcs8KeyDer::from(pkcs8.to_vec()));
        let key = provider::sign::any_eddsa_type(&PrivatePkcs8KeyDer::from(key.secret_der().to_vec()));
        let key = key.map_err(|error| unfit(&error))?;
        let public = key.public_key().ok_or_else(|| unfit(&"no public key"))?.to_vec();
        let certified = Arc::new(CertifiedKey::new(vec![CertificateDer::from(public.clone())], key));
        let verifier = Arc::new(SameKey { public, provider: Arc::new(provider::default_provider()) });
        let client = ClientConfig::builder_with_provider(verifier.provider.clone())
            .with_protocol_versions(&[&TLS13])
            .map_err(|error| unfit(&error))?
            .dangerous()
            .with_custom_certificate_verifier(verifier.clone())
            .with_client_cert_resolver(Arc::new(AlwaysResolvesClientRawPublicKeys::new(certified.clone())));
        let server = ServerConfig::builder_with_provider(verifier.provider.clone())
            .with_protocol_versions(&[&TLS13])
            .map_err(|error| unfit(&error))?
            .with_client_cert_verifier(verifier)
            .with_cert_resolver(Arc::new(AlwaysResolvesServerRawPublicKeys::new(certified)));
        Ok(Credentials::of(client, server))
    }

    /// Credentials of the secret in a file. White space at the beginning and end of the file is ignored.
    ///
    /// # Errors
    /// If the file cannot be read, or [`Credentials::from_secret`] refuses the secret.
    pub fn from_secret_file(path: &Path) -> Result<Credentials, CredentialsError> {
        let bytes = std::fs::read(path).map_err(|error| in_file(path, &error))?;
        Credentials::from_secret(bytes.trim_ascii())
    }

    /// Credentials of a certificate: PEM files with the certificate chain of this end, its private key, and the
    /// certificates of the authorities of which one must have issued the peer's certificate. The certificate of a
    /// server must be for the host name or IP address by which clients call it.
    ///
    /// # Errors
    /// If a file cannot be read, or the private key does not belong to the certificate.
    pub fn from_pem_files(chain: &Path, key: &Path, authorities: &Path) -> Result<Credentials, CredentialsError> {
        let unfit = |why: &dyn fmt::Display| CredentialsError::Unfit(why.to_string());
        let certificates = |path: &Path| -> Result<Vec<CertificateDer<'static>>, CredentialsError> {
            let read = CertificateDer::pem_file_iter(path).and_then(Iterator::collect);
            let read: Vec<_> = read.map_err(|error| in_file(path, &error))?;
            if read.is_empty() { Err(in_file(path, &"it has no certificate in the format PEM")) } else { Ok(read) }
        };
        let mut roots = RootCertStore::empty();
        for authority in certificates(authorities)? {
            roots.add(authority).map_err(|error| in_file(authorities, &error))?;
        }
        let chain = certificates(chain)?;
        let key = PrivateKeyDer::from_pem_file(key).map_err(|error| in_file(key, &error))?;
        let (roots, provider) = (Arc::new(roots), Arc::new(provider::default_provider()));
        let servers = WebPkiServerVerifier::builder_with_provider(roots.clone(), provider.clone()).build();
        let clients = WebPkiClientVerifier::builder_with_provider(roots, provider.clone()).build();
        let client = ClientConfig::builder_with_provider(provider.clone())
            .with_protocol_versions(&[&TLS13])
            .map_err(|error| unfit(&error))?
            .with_webpki_verifier(servers.map_err(|error| unfit(&error))?)
            .with_client_auth_cert(chain.clone(), key.clone_key())
            .map_err(|error| unfit(&error))?;
        let server = ServerConfig::builder_with_provider(provider)
            .with_protocol_versions(&[&TLS13])
            .map_err(|error| unfit(&error))?
            .with_client_cert_verifier(clients.map_err(|error| unfit(&error))?)
            .with_single_cert(chain, key)
            .map_err(|error| unfit(&error))?;
        Ok(Credentials::of(client, server))
    }

    fn of(mut client: ClientConfig, mut server: ServerConfig) -> Credentials {
        // Each exchange is one connection, so there is nothing to resume.
        client.resumption = rustls::client::Resumption::disabled();
        server.send_tls13_tickets = 0;
        Credentials { client: Arc::new(client), server: Arc::new(server) }
    }

    /// The client's side of a connection to `host`, a name or an IP address.
    pub(super) fn client(&self, host: &str) -> io::Result<Connection> {
        let name = ServerName::try_from(host.to_string()).map_err(io::Error::other)?;
        Ok(ClientConnection::new(self.client.clone(), name).map_err(io::Error::other)?.into())
    }

    /// The server's side of a connection.
    pub(super) fn server(&self) -> io::Result<Connection> {
        Ok(ServerConnection::new(self.server.clone()).map_err(io::Error::other)?.into())
    }
}

fn in_file(path: &Path, why: &dyn fmt::Display) -> CredentialsError {
    CredentialsError::File { path: path.display().to_string(), why: why.to_string() }
}

/// Admits a peer that has the same key pair.
#[derive(Debug)]
struct SameKey {
    public: Vec<u8>,
    provider: Arc<CryptoProvider>,
}

impl SameKey {
    fn check(&self, presented: &CertificateDer<'_>) -> Result<(), rustls::Error> {
        let same = presented.as_ref() == self.public;
        if same { Ok(()) } else { Err(CertificateError::ApplicationVerificationFailure.into()) }
    }

    fn verify(
        &self, message: &[u8], key: &CertificateDer<'_>, signature: &DigitallySignedStruct,
    ) -> Result<HandshakeSignatureValid, rustls::Error> {
        let key = SubjectPublicKeyInfoDer::from(key.as_ref());
        let schemes = &self.provider.signature_verification_algorithms;
        verify_tls13_signature_with_raw_key(message, &key, signature, schemes)
    }

    /// The error for TLS 1.2, which neither end offers.
    fn too_old() -> rustls::Error {
        rustls::Error::General("TLS 1.2 is not supported".to_string())
    }
}

impl ServerCertVerifier for SameKey {
    fn verify_server_cert(
        &self, end: &CertificateDer<'_>, _: &[CertificateDer<'_>], _: &ServerName<'_>, _: &[u8], _: UnixTime,
    ) -> Result<ServerCertVerified, rustls::Error> {
        self.check(end).map(|()| ServerCertVerified::assertion())
    }

    fn verify_tls12_signature(
        &self, _: &[u8], _: &CertificateDer<'_>, _: &DigitallySignedStruct,
    ) -> Result<HandshakeSignatureValid, rustls::Error> {
        Err(SameKey::too_old())
    }

    fn verify_tls13_signature(
        &self, message: &[u8], key: &CertificateDer<'_>, signature: &DigitallySignedStruct,
    ) -> Result<HandshakeSignatureValid, rustls::Error> {
        self.verify(message, key, signature)
    }

    fn supported_verify_schemes(&self) -> Vec<SignatureScheme> {
        vec![SignatureScheme::ED25519]
    }

    fn requires_raw_public_keys(&self) -> bool {
        true
    }
}

impl ClientCertVerifier for SameKey {
    fn root_hint_subjects(&self) -> &[DistinguishedName] {
        &[]
    }

    fn verify_client_cert(
        &self, end: &CertificateDer<'_>, _: &[CertificateDer<'_>], _: UnixTime,
    ) -> Result<ClientCertVerified, rustls::Error> {
        self.check(end).map(|()| ClientCertVerified::assertion())
    }

    fn verify_tls12_signature(
        &self, _: &[u8], _: &CertificateDer<'_>, _: &DigitallySignedStruct,
    ) -> Result<HandshakeSignatureValid, rustls::Error> {
        Err(SameKey::too_old())
    }

    fn verify_tls13_signature(
        &self, message: &[u8], key: &CertificateDer<'_>, signature: &DigitallySignedStruct,
    ) -> Result<HandshakeSignatureValid, rustls::Error> {
        self.verify(message, key, signature)
    }

    fn supported_verify_schemes(&self) -> Vec<SignatureScheme> {
        vec![SignatureScheme::ED25519]
    }

    fn requires_raw_public_keys(&self) -> bool {
        true
    }
}

/// A TCP connection of an exchange, with TLS or without. One thread can read while another one writes.
#[derive(Debug)]
pub(super) struct Stream {
    socket: TcpStream,
    tls: Option<Mutex<Connection>>,
}

impl Stream {
    pub(super) fn plain(socket: TcpStream) -> Stream {
        Stream { socket, tls: None }
    }

    /// A connection with TLS; it does the handshake, which must end before `deadline`.
    pub(super) fn secured(socket: TcpStream, tls: Connection, deadline: Deadline) -> io::Result<Stream> {
        let stream = Stream { socket, tls: Some(Mutex::new(tls)) };
        if let Some(tls) = &stream.tls {
            stream.flush(&mut lock(tls))?;
            while lock(tls).is_handshaking() {
                stream.feed(tls, Some(deadline))?;
            }
        }
        Ok(stream)
    }

    /// Reads some bytes; 0 means that the peer closed the connection. Fails with [`io::ErrorKind::TimedOut`] at
    /// `deadline`.
    pub(super) fn read(&self, bytes: &mut [u8], deadline: Option<Deadline>) -> io::Result<usize> {
        let Some(tls) = &self.tls else { return self.read_socket(bytes, deadline) };
        loop {
            match lock(tls).reader().read(bytes) {
                Err(error) if error.kind() == io::ErrorKind::WouldBlock => {}
                // The peer closed TCP without closing TLS. A cut message lacks the end of its line, which is checked.
                Err(error) if error.kind() == io::ErrorKind::UnexpectedEof => return Ok(0),
                read => return read,
            }
            self.feed(tls, deadline)?;
        }
    }

    pub(super) fn write_all(&self, bytes: &[u8]) -> io::Result<()> {
        let Some(tls) = &self.tls else { return (&self.socket).write_all(bytes) };
        let mut tls = lock(tls);
        // TLS stores at most 64 KiB that were not sent.
        for chunk in bytes.chunks(16 << 10) {
            tls.writer().write_all(chunk)?;
            self.flush(&mut tls)?;
        }
        Ok(())
    }

    pub(super) fn close(&self) {
        if let Some(tls) = &self.tls {
            let mut tls = lock(tls);
            tls.send_close_notify();
            let _ = self.flush(&mut tls);
        }
        // The call fails only if the connection is already broken.
        let _ = self.socket.shutdown(Shutdown::Both);
    }

    fn read_socket(&self, bytes: &mut [u8], deadline: Option<Deadline>) -> io::Result<usize> {
        let left = deadline.map(Deadline::left);
        if left == Some(Duration::ZERO) {
            return Err(io::ErrorKind::TimedOut.into());
        }
        self.socket.set_read_timeout(left)?;
        match (&self.socket).read(bytes) {
            Err(error) if error.kind() == io::ErrorKind::WouldBlock => Err(io::ErrorKind::TimedOut.into()),
            Err(error) if error.kind() == io::ErrorKind::Interrupted => self.read_socket(bytes, deadline),
            read => read,
        }
    }

    /// Passes bytes from the socket to TLS. The lock is not held while the thread waits for bytes, so that another
    /// thread can write.
    fn feed(&self, tls: &Mutex<Connection>, deadline: Option<Deadline>) -> io::Result<()> {
        let mut raw = [0; 4_096];
        let read = self.read_socket(&mut raw, deadline)?;
        let mut tls = lock(tls);
        let mut bytes = &raw[..read];
        loop {
            let taken = tls.read_tls(&mut bytes)?;
            let processed = tls.process_new_packets();
            // An alert says to the peer what went wrong.
            self.flush(&mut tls)?;
            processed.map_err(|error| match error {
                rustls::Error::InvalidMessage(_) => io::Error::new(io::ErrorKind::InvalidData, "it does not use TLS"),
                error => io::Error::new(io::ErrorKind::InvalidData, error),
            })?;
            if bytes.is_empty() || taken == 0 {
                break;
            }
        }
        if read == 0 && tls.is_handshaking() {
            return Err(io::ErrorKind::UnexpectedEof.into());
        }
        Ok(())
    }

    fn flush(&self, tls: &mut Connection) -> io::Result<()> {
        while tls.wants_write() {
            tls.write_tls(&mut &self.socket)?;
        }
        Ok(())
    }
}
