//! Several devices on one address and UDP port: each packet reaches the device of its queue pair.

use crate::common::{ANY_CLASS, collect, drain, message};
use rnic_endpoint::clock::{Clock, TimeSource as _};
use rnic_endpoint::port::{Batch, Port as _, UdpConfig};
use rnic_endpoint::{Access, Config, Device, Mode, PathOptions, QpOptions, Security, SendOp, Service, Time, UdpPort};
use std::io::IoSlice;

/// A datagram of 32 bytes for a queue pair, like a packet of RoCEv2.
fn datagram(qpn: u32, number: u8) -> Vec<u8> {
    let mut bytes = vec![number; 32];
    bytes[4..8].copy_from_slice(&qpn.to_be_bytes());
    bytes
}

#[test]
fn datagrams_reach_the_port_of_their_queue_pair() {
    for address in ["127.0.0.1:0", "[::1]:0"] {
        let address = address.parse().unwrap();
        let mut ports = UdpPort::bind_shards(address, 3, &UdpConfig::default()).unwrap();
        let to = ports[0].local_addr();
        assert!(ports.iter().all(|port| port.local_addr() == to));
        let mut sender = UdpPort::bind(address, &UdpConfig::default()).unwrap();
        // One batch for several queue pairs, which the kernel delivers whole to one port, and short datagrams.
        let qpns = [0x3, 0x3, 0x4, 0x5, 0x5, 0x5, 0x4, 0x3, 0xff_fffe];
        let bytes: Vec<u8> = (0..).zip(qpns).flat_map(|(number, qpn)| datagram(qpn, number)).collect();
        let (bytes, short) = ([IoSlice::new(&bytes)], [IoSlice::new(&[7; 3])]);
        let source_port = sender.source_ports().next().unwrap();
        let batch = |data, segment| Batch {
            destination: to,
            source_port,
            source_address: None,
            traffic_class: ANY_CLASS,
            segment,
            data,
        };
        assert_eq!(sender.send(&batch(&bytes, 32)).unwrap(), 9);
        // The port that got the batch hands it out when it receives.
        let mut got: Vec<Vec<Vec<u8>>> = ports.iter_mut().map(|port| drain(port).datagrams).collect();
        for (index, (got, port)) in got.iter_mut().zip(&mut ports).enumerate() {
            got.extend(drain(port).datagrams);
            let own = (0..).zip(qpns).filter(|(_, qpn)| *qpn as usize % 3 == index);
            let own: Vec<Vec<u8>> = own.map(|(number, qpn)| datagram(qpn, number)).collect();
            assert_eq!(*got, own, "port {index}");
        }
        let handed: u64 = ports.iter().map(|port| port.counters().handed_over).sum();
        assert_eq!(handed, 9 - 3, "the batch begins with a datagram of port 0, which has three of the nine");
        assert_eq!(sender.send(&batch(&short, 3)).unwrap(), 1);
        assert_eq!(collect(&mut ports[0], 1).datagrams, [[7; 3]], "a datagram without a number is one of number 0");
    }
}

#[test]
fn an_address_in_use_and_a_wrong_number_are_refused() {
    let local = "127.0.0.1:0".parse().unwrap();
    let first = UdpPort::bind_shards(local, 2, &UdpConfig::default()).unwrap();
    let refusal = UdpPort::bind_shards(first[0].local_addr(), 2, &UdpConfig::default()).unwrap_err();
    assert!(refusal.to_string().contains("is taken by another program"), "{refusal}");
    for count in [0, 65] {
        let refusal = Device::open_shards_at(local, count, Config::default()).err().unwrap().to_string();
        assert_eq!(refusal, format!("{count} devices cannot share one address; the number must be 1 to 64"));
    }
}

#[test]
fn connections_of_all_shards_work() {
    let local = "127.0.0.1:0".parse().unwrap();
    for (mode, security) in [(Mode::Thread, Security::Authenticated), (Mode::Polled, Security::None)] {
        let config = Config { mode, security, ..Config::default() };
        let servers = Device::open_shards_at(local, 3, config.clone()).unwrap();
        let clients = Device::open_shards_at(local, 2, Config { mode: Mode::Thread, ..config }).unwrap();
        assert_eq!(servers[0].local_addr(), servers[2].local_addr());
        for (at, service) in [Service::Irn, Service::Rc].into_iter().cycle().take(12).enumerate() {
            let (server, client) = (&servers[at % 3], &clients[at / 3 % 2]);
            let (pd, cq) = (client.protection_domain(), client.completion_queue(16).unwrap());
            let (other_pd, other_cq) = (server.protection_domain(), server.completion_queue(16).unwrap());
            let bytes = message(30_000, at as u64);
            let from = pd.register(bytes.clone(), Access::LOCAL).unwrap();
            let to = other_pd.register(vec![0; 30_000], Access::ALL).unwrap();
            let qp = pd.queue_pair(&QpOptions { service, ..QpOptions::new(&cq) }).unwrap();
            let other = other_pd.queue_pair(&QpOptions { service, ..QpOptions::new(&other_cq) }).unwrap();
            assert_eq!(other.address().qpn as usize % 3, at % 3);
            let path = PathOptions { mtu: Some(1_024), ..PathOptions::default() };
            qp.connect(&other.address(), &path).unwrap();
            other.connect(&qp.address(), &path).unwrap();
            let op = SendOp::Write { addr: to.addr(), rkey: to.rkey() };
            qp.post(1, op, &[from.slice(0, 30_000).unwrap()]).unwrap();
            let clock = Clock::start();
            while cq.poll_one().unwrap().is_none() {
                server.progress().unwrap();
                assert!(clock.now() < Time::from_ms(20_000), "{service:?} {at}");
            }
            to.with(|written| assert!(written == bytes));
        }
    }
}
