//! Runs the examples between two devices of this host, and checks their results.

#[path = "../examples/atomic_counter.rs"]
#[allow(dead_code, reason = "its main")]
mod atomic_counter;
#[path = "../examples/epoll.rs"]
#[allow(dead_code, reason = "its main")]
mod epoll;
#[path = "../examples/key_value.rs"]
#[allow(dead_code, reason = "its main")]
mod key_value;
#[path = "../examples/path_selection.rs"]
#[allow(dead_code, reason = "its main")]
mod path_selection;
#[path = "../examples/pingpong.rs"]
#[allow(dead_code, reason = "its main")]
mod pingpong;

use key_value::Slot;
use rnic_endpoint::port::{Faults, Probability, UdpConfig};
use rnic_endpoint::{Config, Device, FaultyPort, UdpPort};
use std::net::{SocketAddr, TcpListener};

/// Opens a device and a TCP listener for a server; returns them with the listener's address.
fn server(config: Config) -> (Device, TcpListener, SocketAddr) {
    let any = SocketAddr::from(([127, 0, 0, 1], 0));
    let listener = TcpListener::bind(any).unwrap();
    let address = listener.local_addr().unwrap();
    (Device::open_at(any, config).unwrap(), listener, address)
}

#[test]
fn pingpong_has_a_time_for_each_round() {
    let (device, listener, address) = server(pingpong::config());
    let serving = std::thread::spawn(move || pingpong::serve(&device, listener.accept().unwrap().0));
    assert_eq!(pingpong::play(address, 200).unwrap().len(), 200);
    serving.join().unwrap().unwrap();
}

/// Even if the last ACK is lost, neither program exits before both have finished.
#[test]
fn pingpong_ends_well_on_a_path_that_loses() {
    let any = SocketAddr::from(([127, 0, 0, 1], 0));
    let loss = Faults { loss: Probability::new(0.2).unwrap(), ..Faults::default() };
    for seed in 0..20 {
        let listener = TcpListener::bind(any).unwrap();
        let address = listener.local_addr().unwrap();
        let port = UdpPort::bind(any, &UdpConfig::default()).unwrap();
        let port = FaultyPort::new(port, Faults::default(), loss, seed);
        let device = Device::on_port(Box::new(port), pingpong::config()).unwrap();
        let serving = std::thread::spawn(move || pingpong::serve(&device, listener.accept().unwrap().0));
        assert_eq!(pingpong::play(address, 4).unwrap().len(), 4);
        serving.join().unwrap().unwrap();
    }
}

#[test]
fn epoll_serves_several_clients_in_one_thread() {
    let (device, listener, address) = server(Config::default());
    let mut server = epoll::Server::new(device, listener).unwrap();
    std::thread::scope(|scope| {
        let clients: Vec<_> = (0..3).map(|_| scope.spawn(move || epoll::play(address, 200))).collect();
        server.serve(3).unwrap();
        for client in clients {
            client.join().unwrap().unwrap();
        }
    });
    assert_eq!(server.messages, 3 * 200);
}

#[test]
fn key_value_puts_and_gets_while_others_do() {
    let (device, listener, address) = server(Config::default());
    let table = key_value::Table::new(&device).unwrap();
    std::thread::scope(|scope| {
        scope.spawn(|| {
            std::thread::scope(|scope| {
                for _ in 0..2 {
                    let (stream, _) = listener.accept().unwrap();
                    let table = &table;
                    scope.spawn(move || table.serve(stream).unwrap());
                }
            });
        });
        let (writer, reader) =
            (key_value::Client::connect(address).unwrap(), key_value::Client::connect(address).unwrap());
        assert_eq!(reader.get("planet").unwrap(), None);
        writer.put("planet", "Saturn").unwrap();
        writer.put("moon", "Titan").unwrap();
        assert_eq!(reader.get("planet").unwrap().as_deref(), Some("Saturn"));
        assert_eq!(reader.get("moon").unwrap().as_deref(), Some("Titan"));
        let writing = scope.spawn(move || {
            for turn in 0..300 {
                writer.put("planet", ["Saturn", "Uranus"][turn % 2]).unwrap();
            }
            assert!(writer.put("planet", &"x".repeat(28)).is_err(), "one byte too long");
            writer
        });
        for _ in 0..300 {
            let planet = reader.get("planet").unwrap().unwrap();
            assert!(["Saturn", "Uranus"].contains(&&planet[..]), "{planet}");
        }
        let writer = writing.join().unwrap();
        assert_eq!(writer.get("planet").unwrap().as_deref(), Some("Uranus"));
    });
}

#[test]
fn a_slot_half_written_is_torn() {
    let (old, new) = (Slot::write("planet", "Saturn").unwrap(), Slot::write("planet", "Uranus").unwrap());
    let taken = |value: &str| Slot::Taken { key: "planet".to_string(), value: value.to_string() };
    assert_eq!((Slot::read(&old), Slot::read(&new)), (taken("Saturn"), taken("Uranus")));
    assert_eq!(Slot::read(&[0; 64]), Slot::Free);
    // The two slots differ from byte 29 on ("Satu" and "Uran"), so a slot cut at byte 29 or earlier is still equal to
    // the old one.
    for cut in 30..64 {
        let torn = [&new[..cut], &old[cut..]].concat();
        assert_eq!(Slot::read(&torn), Slot::Torn, "cut at {cut}");
    }
}

#[test]
fn atomic_counter_draws_each_number_once() {
    let (device, listener, address) = server(Config::default());
    let counter = atomic_counter::Counter::new(&device).unwrap();
    std::thread::scope(|scope| {
        scope.spawn(|| {
            std::thread::scope(|scope| {
                for _ in 0..3 {
                    let (stream, _) = listener.accept().unwrap();
                    let counter = &counter;
                    scope.spawn(move || counter.serve(stream).unwrap());
                }
            });
        });
        let drawn = atomic_counter::count(address, 3, 100).unwrap();
        assert!(drawn.iter().all(|numbers| numbers.is_sorted()), "each client sees the counter grow");
        let mut all = drawn.concat();
        all.sort_unstable();
        assert_eq!(all, (0..300).collect::<Vec<u64>>());
    });
    assert_eq!(counter.value().unwrap(), (300, 300));
}

/// 4 MB are 128 chunks of 32 KB, besides records.
#[test]
fn a_path_selection_of_ones_own_decides_where_chunks_go() {
    let (counts, _) = path_selection::write(path_selection::Sticky::new(), 4 << 20).unwrap();
    assert!(counts.iter().sum::<u64>() >= 128, "{counts:?}");
    assert!(counts[0] > 0, "it begins on the first path: {counts:?}");
}
