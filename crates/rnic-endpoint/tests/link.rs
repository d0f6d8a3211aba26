//! Tests UDP ports between two network namespaces: the packets on the link, and the limits that the path MTU sets.

use crate::common::{ANY_CLASS, collect, message, send_all};
use rnic_endpoint::port::{BindError, Ecn, SendError, TrafficClass, UdpConfig};
use rnic_endpoint::{Batch, Port, UdpPort};
use rnic_netns::{Pair, with_pair};
use rnic_transport::Time;
use socket2::{Domain, Protocol, Socket, Type};
use std::io::{IoSlice, Read};
use std::net::{IpAddr, SocketAddr};
use std::time::Duration;

const FAMILIES: [(IpAddr, IpAddr); 2] = [(Pair::A4, Pair::B4), (Pair::A6, Pair::B6)];

fn two(pair: &Pair, (a, b): (IpAddr, IpAddr), config: &UdpConfig) -> (UdpPort, UdpPort) {
    (pair.a.run(|| bind(a, config)), pair.b.run(|| bind(b, config)))
}

/// Binds a port that an earlier part of a test may just have closed. A process that another test is starting at this
/// moment has copies of all sockets until it executes its program, so the address can stay in use for a short time.
#[expect(clippy::disallowed_methods, reason = "no event says that another process has closed its copy")]
fn bind(ip: IpAddr, config: &UdpConfig) -> UdpPort {
    for _ in 0..1_000 {
        match UdpPort::bind(SocketAddr::new(ip, 4_791), config) {
            Err(BindError::InUse { .. }) => std::thread::sleep(Duration::from_millis(5)),
            bound => return bound.unwrap(),
        }
    }
    panic!("UDP port 4791 of {ip} is still in use after five seconds");
}

/// Captures every frame of a network namespace.
struct Capture(Socket);

impl Capture {
    /// ETH_P_ALL in network order.
    const ALL: i32 = 0x0003_u16.to_be() as i32;

    fn start(namespace: &rnic_netns::Namespace) -> Capture {
        let open = || Socket::new(Domain::PACKET, Type::RAW, Some(Protocol::from(Capture::ALL)));
        let socket = namespace.run(open).unwrap();
        socket.set_read_timeout(Some(Duration::from_secs(10))).unwrap();
        Capture(socket)
    }

    /// Waits for the next `count` IPv4 packets with UDP destination port 4791.
    fn roce_packets(&mut self, count: usize) -> Vec<Vec<u8>> {
        let mut packets = Vec::new();
        let mut frame = vec![0; 65_536];
        while packets.len() < count {
            let length = self.0.read(&mut frame).expect("a frame within ten seconds");
            let packet = &frame[14..length];
            let udp = packet[0] == 0x45 && packet[9] == 17;
            if udp && u16::from_be_bytes([packet[22], packet[23]]) == 4_791 {
                packets.push(packet.to_vec());
            }
        }
        packets
    }
}

/// Returns four parts of an IPv4 packet: type of service, identification, flags with fragment offset, and UDP payload.
fn fields(packet: &[u8]) -> (u8, u16, u16, &[u8]) {
    let half = |at: usize| u16::from_be_bytes([packet[at], packet[at + 1]]);
    (packet[1], half(4), half(6), &packet[28..])
}

#[test]
fn the_nth_datagram_of_a_batch_carries_identification_n_and_is_never_fragmented() {
    with_pair(1_500, |pair| {
        // Makes the kernel split batches before the virtual link, which would otherwise carry a batch in one piece.
        pair.a.ip("link set veth gso_max_segs 1").unwrap();
        let class = TrafficClass::new(26, Ecn::Capable0);
        for segmentation in [true, false] {
            let config = UdpConfig { segmentation, ..UdpConfig::default() };
            let (mut a, mut b) = two(pair, FAMILIES[0], &config);
            let mut capture = Capture::start(&pair.b);
            for (segment, bytes) in [(100, 100), (1_024, 40 * 1_024), (1_472, 5 * 1_472 + 1), (64, 64 * 64)] {
                let data = message(bytes, 3);
                send_all(&mut a, b.local_addr(), class, segment, &data);
                let expected: Vec<&[u8]> = data.chunks(segment).collect();
                let packets = capture.roce_packets(expected.len());
                for (index, (packet, payload)) in packets.iter().zip(&expected).enumerate() {
                    let identification = if segmentation { index as u16 } else { 0 };
                    let (tos, id, fragment, data) = fields(packet);
                    assert_eq!((tos, id, fragment), (26 << 2 | 2, identification, 0x4000), "{segment} {bytes}");
                    assert!(data == *payload, "{segment} {bytes}");
                }
                assert!(collect(&mut b, expected.len()).is(&data, class));
            }
        }
    });
}

#[test]
fn batches_and_signals_cross_in_both_directions() {
    for mtu in [1_500, 9_000] {
        with_pair(mtu, |pair| {
            for family in FAMILIES {
                let (mut a, mut b) = two(pair, family, &UdpConfig::default());
                let segment = a.longest_datagram(b.local_addr()).unwrap();
                let data = message(6 * segment + 11, 9);
                for ecn in [Ecn::NotCapable, Ecn::Capable1, Ecn::Capable0, Ecn::Congestion] {
                    let class = TrafficClass::new(46, ecn);
                    send_all(&mut a, b.local_addr(), class, segment, &data);
                    assert!(collect(&mut b, 7).is(&data, class), "{mtu} {family:?} {class:?}");
                    send_all(&mut b, a.local_addr(), class, segment, &data);
                    assert!(collect(&mut a, 7).is(&data, class), "{mtu} {family:?} {class:?} back");
                }
            }
        });
    }
}

#[test]
fn the_longest_datagram_is_the_mtu_less_the_headers() {
    with_pair(1_500, |pair| {
        for (family, longest) in FAMILIES.into_iter().zip([1_472, 1_452]) {
            let (mut a, b) = two(pair, family, &UdpConfig::default());
            let destination = b.local_addr();
            assert_eq!(a.longest_datagram(destination).unwrap(), longest);
            let data = vec![0; 10_000];
            let mut send = |segment: usize, bytes: usize| {
                let data = [IoSlice::new(&data[..bytes])];
                let (source_port, source_address, traffic_class) = (a.source_port(0), None, ANY_CLASS);
                a.send(&Batch { destination, source_port, source_address, traffic_class, segment, data: &data })
            };
            assert_eq!(send(longest, longest).unwrap(), 1);
            assert_eq!(send(longest, 6 * longest).unwrap(), 6);
            for bytes in [longest + 1, 3 * (longest + 1)] {
                let error = send(longest + 1, bytes).unwrap_err();
                assert!(matches!(error, SendError::TooLong { length, .. } if length == longest + 1), "{error}");
            }
            assert_eq!(a.limits().segments, 64, "that was no refusal of batches");
            assert!(a.longest_datagram("192.0.2.1:4791".parse().unwrap()).is_err(), "no route, or another family");
        }
    });
}

#[test]
fn a_destination_without_a_route_is_refused() {
    with_pair(1_500, |pair| {
        let (mut a, _b) = two(pair, FAMILIES[0], &UdpConfig::default());
        let destination = "192.0.2.1:4791".parse().unwrap();
        let (source_port, source_address, traffic_class) = (a.source_port(0), None, ANY_CLASS);
        let data = [IoSlice::new(&[0; 300])];
        for segment in [100, 300] {
            let batch = Batch { destination, source_port, source_address, traffic_class, segment, data: &data };
            let error = a.send(&batch).unwrap_err().to_string();
            assert_eq!(error, "cannot send to 192.0.2.1:4791: Network is unreachable (os error 101)");
        }
        assert_eq!(a.limits().segments, 64);
    });
}

#[test]
fn a_full_send_buffer_blocks_until_there_is_room() {
    with_pair(1_500, |pair| {
        // Limits the rate to 20 Mbit/s, so that packets wait in a queue where they still fill the sender's socket
        // buffer.
        let shaped = pair.a.run(|| {
            let tc = "qdisc add dev veth root tbf rate 20mbit burst 64kb limit 10mb";
            std::process::Command::new("tc").args(tc.split(' ')).output()
        });
        if !shaped.is_ok_and(|output| output.status.success()) {
            eprintln!("skipped: `tc` or the token bucket filter is missing");
            return;
        }
        let config = UdpConfig { send_buffer: 100_000, ..UdpConfig::default() };
        let (mut a, mut b) = two(pair, FAMILIES[0], &config);
        let data = message(1_000_000, 5);
        send_all(&mut a, b.local_addr(), ANY_CLASS, 1_000, &data);
        assert!(a.counters().blocked > 0);
        assert!(collect(&mut b, 1_000).is(&data, ANY_CLASS));
        a.wait(rnic_endpoint::port::Interest::ArrivalOrRoom, Some(Time::from_ms(1))).unwrap();
    });
}
