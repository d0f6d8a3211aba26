//! Tests rnic's implementation of `ibv_rc_pingpong`'s protocol: its client against its server.

use rnic_endpoint::{Config, Device, Mode, Security};
use rnic_perf::ibverbs::{Options, Pingpong};
use rnic_verbs::Service;
use std::net::{SocketAddr, TcpListener, TcpStream};

/// Opens a device on an address of the loopback network. The two devices of a test have different addresses, so that
/// both can use the same UDP port.
fn device(address: &str, mode: Mode) -> Device {
    let address: SocketAddr = format!("{address}:14791").parse().unwrap();
    Device::open_at(address, Config { mode, security: Security::None, ..Config::default() }).unwrap()
}

#[test]
fn a_client_and_a_server_play() {
    for (service, mode, size) in [
        (Service::Rc, Mode::Polled, 4_096),
        (Service::Rc, Mode::Thread, 4_096),
        (Service::Uc, Mode::Polled, 4_096),
        (Service::Ud, Mode::Polled, 1_001),
    ] {
        let options = Options { service, size, iterations: 200, check: true, ..Options::default() };
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let to = listener.local_addr().unwrap();
        let server = std::thread::spawn(move || {
            let side = Pingpong::new(&device("127.0.7.1", mode), options).unwrap();
            side.serve(listener.accept().unwrap().0).unwrap()
        });
        let side = Pingpong::new(&device("127.0.7.2", mode), options).unwrap();
        let client = side.dial(TcpStream::connect(to).unwrap()).unwrap();
        let server = server.join().unwrap();
        for outcome in [client, server] {
            assert_eq!(
                (outcome.bytes, outcome.iterations, outcome.checked),
                (2 * 200 * size as u64, 200, 200 * size as u64)
            );
        }
    }
}

#[test]
fn a_client_that_says_nonsense_is_told_so() {
    use std::io::Write;
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let mut stream = TcpStream::connect(listener.local_addr().unwrap()).unwrap();
    stream.write_all(&[b'x'; 52]).unwrap();
    let side = Pingpong::new(&device("127.0.7.3", Mode::Polled), Options::default()).unwrap();
    let why = side.serve(listener.accept().unwrap().0).unwrap_err().to_string();
    assert!(why.contains("the peer's address is \"xxxx"), "{why}");
    drop(stream);
    let gone = TcpStream::connect(listener.local_addr().unwrap()).unwrap();
    drop(gone);
    let side = Pingpong::new(&device("127.0.7.4", Mode::Polled), Options::default()).unwrap();
    let why = side.serve(listener.accept().unwrap().0).unwrap_err().to_string();
    assert!(why.contains("closed the connection"), "{why}");
}
