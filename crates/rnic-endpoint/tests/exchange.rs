//! Tests the out-of-band exchange: authentication of the two ends, and messages of a peer that must have no effect.

use rcgen::{BasicConstraints, CertificateParams, IsCa, Issuer, KeyPair};
use rnic_endpoint::exchange::{Channel, Credentials, ExchangeError, connect};
use rnic_endpoint::{Config, Device, PathOptions, QpOptions, QueuePair};
use std::io::{Read, Write};
use std::net::{Ipv4Addr, Shutdown, SocketAddr, TcpListener, TcpStream};
use std::path::PathBuf;
use std::time::Duration;
use tempfile::TempDir;

/// The results of both ends, which connect to each other over TCP with these credentials.
struct Sides<T> {
    client: Result<T, ExchangeError>,
    server: Result<T, ExchangeError>,
}

impl<T: std::fmt::Debug> Sides<T> {
    /// The error messages of both ends, without the addresses of the peers.
    fn errors(self) -> [String; 2] {
        [self.client, self.server].map(|side| {
            let text = side.unwrap_err().to_string();
            let words = text.split(' ').map(|word| if word.starts_with("127.0.0.1:") { "PEER" } else { word });
            words.collect::<Vec<_>>().join(" ")
        })
    }
}

/// Opens channels with these credentials, and runs `then` on both ends.
fn meet<T: Send>(
    client: Option<&Credentials>, server: Option<&Credentials>,
    then: impl Fn(&mut Channel) -> Result<T, ExchangeError> + Sync,
) -> Sides<T> {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let address = listener.local_addr().unwrap();
    std::thread::scope(|scope| {
        let server = scope.spawn(|| {
            let (stream, _) = listener.accept().unwrap();
            let mut channel = match server {
                None => Channel::over(stream),
                Some(credentials) => Channel::accept_secured(stream, credentials),
            }?;
            then(&mut channel)
        });
        let client = match client {
            None => Channel::connect(address),
            Some(credentials) => Channel::connect_secured(address, credentials),
        };
        let client = client.and_then(|mut channel| then(&mut channel));
        Sides { client, server: server.join().unwrap() }
    })
}

fn queue_pair() -> QueuePair {
    let device = Device::open_at("127.0.0.1:0".parse().unwrap(), Config::default()).unwrap();
    let cq = device.completion_queue(4).unwrap();
    device.protection_domain().queue_pair(&QpOptions::new(&cq)).unwrap()
}

fn connect_queue_pair(channel: &mut Channel) -> Result<u32, ExchangeError> {
    connect(channel, &queue_pair(), &PathOptions::default())
}

fn secret(byte: u8) -> Credentials {
    Credentials::from_secret(&[byte; 32]).unwrap()
}

#[test]
fn queue_pairs_connect_over_tcp_and_over_tls_with_one_secret() {
    for credentials in [None, Some(secret(1))] {
        let sides = meet(credentials.as_ref(), credentials.as_ref(), connect_queue_pair);
        assert_eq!(sides.client.unwrap(), sides.server.unwrap());
    }
}

#[test]
fn long_messages_pass_over_tls_in_both_directions() {
    let text = "x".repeat(900_000);
    let sides = meet(Some(&secret(1)), Some(&secret(1)), |channel| {
        // The messages do not fit in the buffers of the sockets, so each end sends while its peer receives.
        let mut speaker = channel.speaker();
        let (sent, received) = std::thread::scope(|scope| {
            let sent = scope.spawn(|| speaker.send(&text));
            let received = channel.receive::<String>();
            (sent.join().unwrap(), received)
        });
        sent.and(received)
    });
    assert!(sides.client.unwrap() == text && sides.server.unwrap() == text);
}

#[test]
fn another_secret_is_refused_on_both_sides() {
    let errors = meet(Some(&secret(1)), Some(&secret(2)), connect_queue_pair).errors();
    for error in errors {
        assert!(error.starts_with("no secured connection with PEER "), "{error}");
        assert!(error.ends_with("; do both sides have the same secret, or certificates of one authority?"), "{error}");
    }
}

#[test]
fn tls_on_one_side_only_is_an_error_that_says_so_on_both() {
    let with = secret(1);
    let uses = "it uses TLS, and this side does not";
    let lacks = "it does not use TLS";
    for (client, server, expected) in [(Some(&with), None, [lacks, uses]), (None, Some(&with), [uses, lacks])] {
        let errors = meet(client, server, connect_queue_pair).errors();
        for (error, expected) in errors.iter().zip(expected) {
            assert!(error.starts_with(&format!("no secured connection with PEER {expected}; ")), "{error}");
        }
    }
}

/// A certificate authority, and a folder for its files.
struct Authority {
    folder: TempDir,
    issuer: Issuer<'static, KeyPair>,
    pem: String,
}

impl Authority {
    fn new() -> Authority {
        let key = KeyPair::generate().unwrap();
        let mut params = CertificateParams::new(Vec::<String>::new()).unwrap();
        params.is_ca = IsCa::Ca(BasicConstraints::Unconstrained);
        let pem = params.self_signed(&key).unwrap().pem();
        Authority { folder: TempDir::new().unwrap(), issuer: Issuer::new(params, key), pem }
    }

    fn file(&self, name: &str, text: &str) -> PathBuf {
        let path = self.folder.path().join(name);
        std::fs::write(&path, text).unwrap();
        path
    }

    /// Credentials with a certificate of this authority for `name`, which trust the authority `trusted`.
    fn credentials(&self, name: &str, trusted: &Authority) -> Credentials {
        let key = KeyPair::generate().unwrap();
        let params = CertificateParams::new([name.to_string()]).unwrap();
        let certificate = params.signed_by(&key, &self.issuer).unwrap();
        let chain = self.file("chain.pem", &certificate.pem());
        let key = self.file("key.pem", &key.serialize_pem());
        let authorities = self.file("authorities.pem", &trusted.pem);
        Credentials::from_pem_files(&chain, &key, &authorities).unwrap()
    }
}

#[test]
fn certificates_of_one_authority_are_accepted_and_others_refused() {
    let [one, other] = [Authority::new(), Authority::new()];
    let server = one.credentials("127.0.0.1", &one);
    let client = one.credentials("client", &one);
    let sides = meet(Some(&client), Some(&server), connect_queue_pair);
    assert_eq!(sides.client.unwrap(), sides.server.unwrap());
    // Each case: a client, a server.
    let cases = [
        (client.clone(), other.credentials("127.0.0.1", &one)),
        (client.clone(), other.credentials("127.0.0.1", &other)),
        // The server does not trust the client, which learns it from its first message on.
        (other.credentials("client", &one), server.clone()),
        // The certificate is for another host.
        (client.clone(), one.credentials("127.0.0.2", &one)),
        // A secret is no certificate.
        (secret(1), server.clone()),
        (client.clone(), secret(1)),
    ];
    for (case, (client, server)) in cases.iter().enumerate() {
        for error in meet(Some(client), Some(server), connect_queue_pair).errors() {
            assert!(error.starts_with("no secured connection with PEER "), "case {case}: {error}");
        }
    }
}

#[test]
fn files_that_hold_no_credentials_are_named() {
    let authority = Authority::new();
    let empty = authority.file("empty.pem", "");
    let ca = authority.file("ca.pem", &authority.pem);
    let missing = authority.folder.path().join("missing.pem");
    for (chain, key, authorities, named) in
        [(&empty, &ca, &ca, "empty.pem"), (&ca, &empty, &ca, "empty.pem"), (&ca, &ca, &missing, "missing.pem")]
    {
        let error = Credentials::from_pem_files(chain, key, authorities).unwrap_err().to_string();
        assert!(error.contains(named), "{error}");
    }
    let short = authority.file("short", "  0123456789abcde \n");
    let error = Credentials::from_secret_file(&short).unwrap_err().to_string();
    assert_eq!(error, "the secret has 15 bytes; it needs at least 16, all random");
    assert!(Credentials::from_secret_file(&authority.file("long", " 0123456789abcdef\n")).is_ok());
}

/// A TCP connection of which one end is a channel.
fn raw() -> (TcpStream, Channel) {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let stream = TcpStream::connect(listener.local_addr().unwrap()).unwrap();
    (stream, Channel::over(listener.accept().unwrap().0).unwrap())
}

#[test]
fn a_peer_that_names_a_third_partys_address_is_refused() {
    let (mut peer, mut channel) = raw();
    let theirs = queue_pair().address();
    let third = SocketAddr::from((Ipv4Addr::new(127, 0, 0, 9), theirs.addr.port()));
    let mut address = serde_json::to_value(theirs).unwrap();
    address["addr"] = third.to_string().into();
    let offer = serde_json::json!({"rnic": 2, "service": "rc", "mtu": 1024, "address": address});
    writeln!(peer, "{offer}").unwrap();
    let qp = queue_pair();
    let error = connect(&mut channel, &qp, &PathOptions::default()).unwrap_err();
    assert!(matches!(error, ExchangeError::Disagreement(_)));
    let text = error.to_string();
    assert!(text.ends_with("has its device on 127.0.0.9; it must be on 127.0.0.1"), "{text}");
    assert_eq!(qp.state().unwrap(), rnic_endpoint::State::Init);
}

/// Without an overall deadline the whole message would arrive, byte by byte.
#[test]
#[expect(clippy::disallowed_methods, reason = "a slow peer")]
fn a_message_must_arrive_as_a_whole_in_time_however_its_bytes_drip() {
    let (peer, mut channel) = raw();
    let mut slow = peer.try_clone().unwrap();
    let drip = std::thread::spawn(move || {
        for byte in format!("\"{}\"\n", "x".repeat(500)).bytes() {
            if slow.write_all(&[byte]).is_err() {
                return;
            }
            std::thread::sleep(Duration::from_millis(20));
        }
    });
    let error = channel.receive_within::<String>(Some(Duration::from_millis(150))).unwrap_err();
    assert!(matches!(error, ExchangeError::Silent { .. }), "{error}");
    peer.shutdown(Shutdown::Both).unwrap();
    drip.join().unwrap();
}

#[test]
fn a_message_above_one_mebibyte_is_refused() {
    for (len, fits) in [((1 << 20) - 3, true), (1 << 20, false)] {
        let (mut peer, mut channel) = raw();
        let sender = std::thread::spawn(move || {
            // It fails when the receiver hangs up.
            let _ = peer.write_all(format!("\"{}\"\n", "x".repeat(len)).as_bytes());
            let _ = peer.read(&mut [0]);
        });
        let received = channel.receive::<String>();
        channel.speaker().hang_up();
        sender.join().unwrap();
        match received {
            Ok(text) => assert!(fits && text.len() == len),
            Err(error) => {
                assert!(!fits, "{error}");
                assert!(error.to_string().ends_with("it is longer than 1048576 bytes"), "{error}");
            }
        }
    }
}
