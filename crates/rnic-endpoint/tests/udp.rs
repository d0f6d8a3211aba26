//! Tests UDP ports over the loopback device: all datagrams arrive, complete, in order and with their traffic class.

use crate::common::{ANY_CLASS, Gathered, collect, message, send_all};
use proptest::prelude::*;
use rnic_endpoint::port::{BindError, Ecn, Interest, SOURCE_PORTS, SendError, TrafficClass, UdpConfig};
use rnic_endpoint::{Batch, Port, UdpPort};
use rnic_transport::Time;
use std::collections::BTreeSet;
use std::io::IoSlice;
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr, UdpSocket};

const LOCALHOSTS: [IpAddr; 2] = [IpAddr::V4(Ipv4Addr::LOCALHOST), IpAddr::V6(Ipv6Addr::LOCALHOST)];

fn open(ip: IpAddr, config: &UdpConfig) -> UdpPort {
    UdpPort::bind(SocketAddr::new(ip, 0), config).unwrap()
}

fn two(ip: IpAddr) -> (UdpPort, UdpPort) {
    (open(ip, &UdpConfig::default()), open(ip, &UdpConfig::default()))
}

fn batch<'a>(from: &UdpPort, to: &UdpPort, segment: usize, data: &'a [IoSlice<'a>]) -> Batch<'a> {
    let (destination, source_port) = (to.local_addr(), from.source_port(0));
    Batch { destination, source_port, source_address: None, traffic_class: ANY_CLASS, segment, data }
}

#[test]
fn a_batch_arrives_as_its_datagrams_in_order() {
    // Pairs of bytes per datagram and bytes per batch: one datagram, several and the maximum, of even and odd lengths,
    // with a shorter last one.
    let shapes =
        [(1, 1), (64, 64), (1_024, 64 * 1_024 - 64 * 30), (1_023, 60 * 1_023 + 1), (7, 7 * 64), (7, 7 * 5 + 3)];
    let long = [(4_096, 15 * 4_096), (4_095, 15 * 4_095 + 4_000), (9_000, 65_507), (65_000, 65_000), (40_001, 60_000)];
    for ip in LOCALHOSTS {
        let (mut a, mut b) = two(ip);
        for (segment, bytes) in shapes.into_iter().chain(long) {
            let data = message(bytes, segment as u64);
            let sent = a.send(&batch(&a, &b, segment, &[IoSlice::new(&data)])).unwrap();
            assert_eq!(sent, bytes.div_ceil(segment));
            let got = collect(&mut b, sent);
            let expected: Vec<&[u8]> = data.chunks(segment).collect();
            assert!(got.datagrams == expected, "{ip} {segment} {bytes}");
        }
    }
}

#[test]
fn segmentation_and_coalescing_are_used_and_can_be_left_out() {
    let data = message(20 * 1_000, 1);
    for (segmentation, coalescing) in [(true, true), (true, false), (false, true), (false, false)] {
        let config = UdpConfig { segmentation, coalescing, ..UdpConfig::default() };
        let (mut a, mut b) = (open(LOCALHOSTS[0], &config), open(LOCALHOSTS[0], &config));
        assert_eq!(a.limits().segments, if segmentation { 64 } else { 1 });
        send_all(&mut a, b.local_addr(), ANY_CLASS, 1_000, &data);
        let got = collect(&mut b, 20);
        assert!(got.datagrams.concat() == data);
        let (sent, received) = (a.counters(), b.counters());
        assert_eq!((sent.sent_segments, sent.sent_bytes), (20, 20_000));
        assert_eq!((received.received_segments, received.received_bytes), (20, 20_000));
        assert_eq!(sent.sent_batches, if segmentation { 1 } else { 20 });
        assert_eq!(received.received_batches, if segmentation && coalescing { 1 } else { 20 });
    }
}

#[test]
fn every_traffic_class_survives_in_both_families() {
    for ip in LOCALHOSTS {
        let (mut a, mut b) = two(ip);
        for byte in 0..=255 {
            let class = TrafficClass::from_byte(byte);
            for segments in [1, 3] {
                let data = message(segments * 100, 1);
                send_all(&mut a, b.local_addr(), class, 100, &data);
                let got = collect(&mut b, segments);
                assert_eq!(got.classes, vec![class; segments], "{ip} {segments}");
            }
        }
        let answer = TrafficClass::new(26, Ecn::Congestion);
        send_all(&mut b, a.local_addr(), answer, 100, &[1; 100]);
        assert_eq!(collect(&mut a, 1).classes, [answer]);
    }
}

#[test]
fn datagrams_of_different_classes_are_not_merged() {
    let (mut a, mut b) = two(LOCALHOSTS[0]);
    let classes = [Ecn::Capable0, Ecn::Congestion, Ecn::Capable0, Ecn::NotCapable].map(|ecn| TrafficClass::new(3, ecn));
    for class in classes {
        send_all(&mut a, b.local_addr(), class, 500, &[0; 1_000]);
    }
    let got = collect(&mut b, 8);
    assert_eq!(got.classes, classes.into_iter().flat_map(|class| [class; 2]).collect::<Vec<_>>());
}

#[test]
fn an_empty_datagram_is_no_datagram() {
    let mut port = open(LOCALHOSTS[0], &UdpConfig::default());
    let peer = UdpSocket::bind("127.0.0.1:0").unwrap();
    for data in [&b"first"[..], b"", b"second"] {
        peer.send_to(data, port.local_addr()).unwrap();
    }
    assert_eq!(collect(&mut port, 2).datagrams, [&b"first"[..], b"second"]);
    assert_eq!(port.counters().received_segments, 2);
}

#[test]
fn source_ports_are_dynamic_ones_and_flows_spread_over_them() {
    for ip in LOCALHOSTS {
        let config = UdpConfig { source_ports: 8, ..UdpConfig::default() };
        let (mut a, mut b) = (open(ip, &config), open(ip, &config));
        let ports: BTreeSet<u16> = (0..1_000).map(|hash| a.source_port(hash)).collect();
        assert_eq!(ports.len(), 8);
        assert_eq!(ports, a.source_ports().collect());
        assert!(ports.iter().all(|port| SOURCE_PORTS.contains(port)), "{ports:?}");
        for &source_port in &ports {
            a.send(&Batch { source_port, ..batch(&a, &b, 10, &[IoSlice::new(&[0; 10])]) }).unwrap();
            assert_eq!(collect(&mut b, 1).sources, [SocketAddr::new(ip, source_port)]);
        }
    }
}

#[test]
fn without_source_ports_everything_leaves_from_the_ports_own() {
    let config = UdpConfig { source_ports: 0, ..UdpConfig::default() };
    let (mut a, mut b) = (open(LOCALHOSTS[0], &config), open(LOCALHOSTS[0], &config));
    a.send(&batch(&a, &b, 10, &[IoSlice::new(&[0; 10])])).unwrap();
    assert_eq!(collect(&mut b, 1).sources, [a.local_addr()]);
    b.send(&batch(&b, &a, 10, &[IoSlice::new(&[1; 10])])).unwrap();
    assert_eq!(collect(&mut a, 1).sources, [b.local_addr()]);
}

#[test]
fn what_is_sent_to_a_source_port_vanishes_without_an_error() {
    let (mut a, mut b) = two(LOCALHOSTS[0]);
    let source = SocketAddr::new(LOCALHOSTS[0], a.source_port(3));
    // A connected socket gets an error if no socket has the destination port, at the latest with its second datagram.
    let stranger = UdpSocket::bind("127.0.0.1:0").unwrap();
    stranger.connect(source).unwrap();
    for _ in 0..1_000 {
        assert_eq!(stranger.send(&[0; 1_000]).unwrap(), 1_000);
    }
    assert!(a.receive().unwrap().is_none());
    // The port still sends after it has dropped these datagrams.
    send_all(&mut a, b.local_addr(), ANY_CLASS, 100, &[7; 300]);
    assert_eq!(collect(&mut b, 3).datagrams.concat(), [7; 300]);
}

#[test]
fn an_open_port_sees_and_picks_its_local_address() {
    let second = [IpAddr::from([127, 0, 0, 9]), IpAddr::V6(Ipv6Addr::LOCALHOST)];
    let open_addresses = [IpAddr::V4(Ipv4Addr::UNSPECIFIED), IpAddr::V6(Ipv6Addr::UNSPECIFIED)];
    for (address, (own, first)) in second.into_iter().zip(open_addresses.into_iter().zip(LOCALHOSTS)) {
        let mut a = open(first, &UdpConfig::default());
        let mut b = open(own, &UdpConfig::default());
        let to_b = SocketAddr::new(address, b.local_addr().port());
        send_all(&mut a, to_b, ANY_CLASS, 10, &[0; 30]);
        let got = collect(&mut b, 3);
        assert_eq!((got.destinations, &got.sources[0].ip()), (vec![address; 3], &first));
        // The reply is sent from the address to which the request went, which the route alone would not have chosen.
        let source_address = Some(address);
        let answer = [IoSlice::new(&[1; 10])];
        b.send(&Batch { destination: a.local_addr(), source_address, ..batch(&b, &a, 10, &answer) }).unwrap();
        assert_eq!(collect(&mut a, 1).sources[0].ip(), address);
    }
}

#[test]
fn ipv6_datagrams_without_a_checksum_are_accepted() {
    use nix::sys::socket::setsockopt;
    let mut port = open(LOCALHOSTS[1], &UdpConfig::default());
    let peer = UdpSocket::bind("[::1]:0").unwrap();
    setsockopt(&peer, crate::common::NoCheck6Send, &true).unwrap();
    peer.send_to(b"no checksum", port.local_addr()).unwrap();
    assert_eq!(collect(&mut port, 1).datagrams, [b"no checksum"]);
    // A socket without the option does not get the datagram, which shows that the datagram had no checksum.
    let strict = UdpSocket::bind("[::1]:0").unwrap();
    strict.set_nonblocking(true).unwrap();
    peer.send_to(b"no checksum", strict.local_addr().unwrap()).unwrap();
    assert_eq!(strict.recv(&mut [0; 32]).unwrap_err().kind(), std::io::ErrorKind::WouldBlock);
}

#[test]
fn batches_that_cannot_be_sent_are_refused_with_a_reason() {
    let (mut a, b) = two(LOCALHOSTS[0]);
    let data = vec![0; 70_000];
    let of = |bytes: usize| [IoSlice::new(&data[..bytes])];
    let too_many = |error| matches!(error, SendError::TooMany { .. });
    assert!(matches!(a.send(&batch(&a, &b, 10, &of(0))), Err(SendError::Empty)));
    assert!(matches!(a.send(&batch(&a, &b, 0, &of(10))), Err(SendError::Empty)));
    assert!(a.send(&batch(&a, &b, 10, &of(641))).is_err_and(too_many));
    assert!(a.send(&batch(&a, &b, 9_000, &of(65_508))).is_err_and(too_many));
    let error = a.send(&Batch { source_port: 80, ..batch(&a, &b, 10, &of(10)) }).unwrap_err();
    assert_eq!(error.to_string(), "UDP port 80 is not one of this port's source ports");
    let six = "[::1]:4791".parse().unwrap();
    let error = a.send(&Batch { destination: six, ..batch(&a, &b, 10, &of(10)) }).unwrap_err();
    let text = "cannot send from 127.0.0.1 to [::1]:4791: the port and both addresses must be all IPv4 or all IPv6";
    assert_eq!(error.to_string(), text);
    let source_address = Some(LOCALHOSTS[1]);
    let error = a.send(&Batch { source_address, ..batch(&a, &b, 10, &of(10)) }).unwrap_err();
    assert!(matches!(error, SendError::OtherFamily { .. }), "{error}");
    let nowhere = SocketAddr::new(b.local_addr().ip(), 0);
    let error = a.send(&Batch { destination: nowhere, ..batch(&a, &b, 10, &of(20)) }).unwrap_err();
    assert!(matches!(error, SendError::System { .. }), "{error}");
    assert_eq!(a.limits().segments, 64, "that was no refusal of batches");
    assert_eq!(a.counters().refused, 8);
    assert_eq!(a.counters().sent_segments, 0);
}

#[test]
fn ports_that_cannot_be_opened_say_why() {
    let first = open(LOCALHOSTS[0], &UdpConfig::default());
    let error = UdpPort::bind(first.local_addr(), &UdpConfig::default()).unwrap_err();
    assert!(matches!(error, BindError::InUse { .. }), "{error}");
    let text = format!("UDP port {} of 127.0.0.1 is taken", first.local_addr().port());
    assert!(error.to_string().starts_with(&text), "{error}");
    let error = UdpPort::bind("192.0.2.1:4791".parse().unwrap(), &UdpConfig::default()).unwrap_err();
    assert_eq!(error.to_string(), "192.0.2.1 is not an address of this host; `ip address` lists them");
    let config = UdpConfig { source_ports: 257, ..UdpConfig::default() };
    let error = UdpPort::bind("127.0.0.1:0".parse().unwrap(), &config).unwrap_err();
    assert_eq!(error.to_string(), "257 source ports are too many; at most 256 are possible");
}

#[test]
fn a_closed_port_leaves_its_address_to_the_next() {
    let config = UdpConfig { source_ports: 256, ..UdpConfig::default() };
    let mut ports = Vec::new();
    for _ in 0..3 {
        let port = UdpPort::bind("127.0.0.77:4791".parse().unwrap(), &config).unwrap();
        ports.push(port.source_ports().collect::<Vec<_>>());
    }
    assert!(ports.iter().all(|found| *found == ports[0] && found.len() == 256));
}

#[test]
fn buffers_are_bounded_and_what_overflows_is_counted() {
    let small = UdpConfig { receive_buffer: 32 << 10, coalescing: false, ..UdpConfig::default() };
    let single = UdpConfig { segmentation: false, ..UdpConfig::default() };
    let (mut a, mut b) = (open(LOCALHOSTS[0], &single), open(LOCALHOSTS[0], &small));
    let buffers = b.buffers().unwrap();
    assert_eq!(buffers.receive, 64 << 10, "the system grants twice what is asked");
    assert!(buffers.send >= 64 << 10, "{buffers:?}");
    const SENT: usize = 500;
    let mut lost = 0;
    for _ in 0..3 {
        for _ in 0..SENT {
            send_all(&mut a, b.local_addr(), ANY_CLASS, 1_000, &[0; 1_000]);
        }
        let kept = crate::common::drain(&mut b).datagrams.len();
        assert!(kept > 0 && kept * 1_000 <= buffers.receive, "{kept} datagrams fitted");
        lost += SENT - kept;
        // The kernel reports the count of lost datagrams with the next datagram that is not lost.
        send_all(&mut a, b.local_addr(), ANY_CLASS, 1_000, &[0; 1_000]);
        collect(&mut b, 1);
        assert_eq!(b.counters().overflowed as usize, lost);
    }
}

#[test]
fn nothing_is_lost_while_the_receiver_keeps_up() {
    let (mut a, mut b) = two(LOCALHOSTS[0]);
    for round in 0..3_000u64 {
        let segment = 1 + (round as usize * 37) % 1_900;
        let data = message(segment * 33 + segment / 2, round);
        send_all(&mut a, b.local_addr(), ANY_CLASS, segment, &data);
        let got = collect(&mut b, data.len().div_ceil(segment));
        assert!(got.datagrams.concat() == data, "round {round}");
    }
    assert_eq!(b.counters().overflowed, 0);
    assert_eq!(b.counters().malformed, 0);
}

#[test]
fn another_thread_ends_a_wait() {
    let (mut a, _b) = two(LOCALHOSTS[0]);
    let waker = a.waker();
    // A wake-up before the wait: the wait does not block.
    waker.wake_by_ref();
    a.wait(Interest::Arrival, None).unwrap();
    // A wake-up during the wait or before it, depending on how the threads run. Without the wake-up this test would not
    // end.
    for _ in 0..200 {
        std::thread::scope(|threads| {
            threads.spawn(|| waker.wake_by_ref());
            let mut waits = 0;
            while waits == 0 {
                a.wait(Interest::Arrival, None).unwrap();
                waits += 1;
            }
        });
    }
}

#[test]
fn an_arrival_ends_a_wait() {
    let (mut a, mut b) = two(LOCALHOSTS[1]);
    let address = b.local_addr();
    for _ in 0..50 {
        std::thread::scope(|threads| {
            threads.spawn(|| send_all(&mut a, address, ANY_CLASS, 100, &[0; 200]));
            let mut got = 0;
            while got < 2 {
                b.wait(Interest::ArrivalOrRoom, None).unwrap();
                while let Some(arrival) = b.receive().unwrap() {
                    got += arrival.segments().len();
                }
            }
        });
    }
}

#[test]
fn a_timeout_ends_a_wait() {
    let (mut a, _b) = two(LOCALHOSTS[0]);
    a.wait(Interest::Arrival, Some(Time::ZERO)).unwrap();
    a.wait(Interest::ArrivalOrRoom, Some(Time::from_us(1))).unwrap();
    assert!(a.receive().unwrap().is_none());
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 64, failure_persistence: None, ..ProptestConfig::default() })]

    /// The slices of a batch may begin and end anywhere: the datagrams are the same.
    #[test]
    fn a_batch_may_be_cut_anywhere(
        segment in 1usize..3_000, segments in 1usize..=20, shorter in 0usize..3_000, cuts in prop::collection::vec(0usize..60_000, 0..40),
        version in 0usize..2,
    ) {
        let bytes = segment * segments - shorter.min(segment - 1);
        let data = message(bytes, cuts.len() as u64);
        let mut cuts: Vec<usize> = cuts.into_iter().map(|cut| cut % (bytes + 1)).collect();
        cuts.extend([0, bytes]);
        cuts.sort_unstable();
        let slices: Vec<IoSlice<'_>> = cuts.windows(2).map(|ends| IoSlice::new(&data[ends[0]..ends[1]])).collect();
        let (mut a, mut b) = two(LOCALHOSTS[version]);
        let sent = a.send(&batch(&a, &b, segment, &slices)).unwrap();
        prop_assert_eq!(sent, segments);
        let Gathered { datagrams, .. } = collect(&mut b, segments);
        prop_assert!(datagrams == data.chunks(segment).collect::<Vec<_>>());
    }
}
