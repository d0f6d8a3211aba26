//! Tests of the UDP port that need its private fields: a system that refuses batches, full buffers, source ports.

use super::*;
use crate::port::{Ecn, TrafficClass};
use nix::{
    libc, setsockopt_impl, sockopt_impl,
    sys::socket::{MsgFlags, setsockopt},
};
use std::io::IoSlice;

sockopt_impl!(
    /// `SO_NO_CHECK`: the socket sends without UDP checksums. Linux then refuses `UDP_SEGMENT` with EINVAL, as it
    /// refuses it with EIO on some network devices.
    NoCheck,
    SetOnly,
    libc::SOL_SOCKET,
    libc::SO_NO_CHECK,
    bool
);

#[test]
fn the_reason_is_known_if_the_kernel_takes_no_time_stamps() {
    let file = std::fs::File::open("/dev/null").unwrap();
    assert_eq!(options::request_arrival_times(&file), ArrivalTimes::Refused(libc::ENOTSOCK));
    let port = |arrival_times| {
        UdpPort::bind("127.0.0.1:0".parse().unwrap(), &UdpConfig { arrival_times, ..UdpConfig::default() }).unwrap()
    };
    assert_eq!(port(true).arrival_times(), ArrivalTimes::Kernel);
    assert_eq!(port(false).arrival_times(), ArrivalTimes::NotRequested);
}

#[test]
fn a_refused_batch_is_sent_one_by_one() {
    let local = "127.0.0.1:0".parse().unwrap();
    let mut a = UdpPort::bind(local, &UdpConfig::default()).unwrap();
    let mut b = UdpPort::bind(local, &UdpConfig::default()).unwrap();
    for sender in &a.senders {
        setsockopt(&sender.socket, NoCheck, &true).unwrap();
    }
    let data: Vec<u8> = (0..25).collect();
    // The two positions at which the data are cut into slices: within the first datagram, at its end, and after it.
    for (at, cuts) in [[2usize, 4], [10, 20], [10, 12], [0, 0]].into_iter().enumerate() {
        a.segmentation = true;
        let (head, rest) = data.split_at(cuts[0]);
        let (middle, tail) = rest.split_at(cuts[1] - cuts[0]);
        let slices = [head, middle, tail].map(IoSlice::new);
        let batch = |data, segment| Batch {
            destination: b.local,
            source_port: a.senders[at].source_port,
            source_address: None,
            traffic_class: TrafficClass::new(1, Ecn::Capable0),
            segment,
            data,
        };
        let (whole, single) = (batch(&slices, 10), [IoSlice::new(&data[10..20])]);
        let second = batch(&single, 10);
        assert_eq!(a.limits().segments, 64);
        assert_eq!(a.send(&whole).unwrap(), 1, "only the first datagram was sent");
        assert_eq!(a.limits().segments, 1);
        assert!(matches!(a.send(&whole), Err(SendError::TooMany { .. })));
        assert_eq!(a.send(&second).unwrap(), 1);
        let mut got = Vec::new();
        while got.len() < 20 {
            match b.receive().unwrap() {
                Some(arrival) => got.extend_from_slice(arrival.data),
                None => b.wait(Interest::Arrival, Some(Time::from_ms(1_000))).unwrap(),
            }
        }
        assert_eq!(got, data[..20]);
        assert!(b.receive().unwrap().is_none());
    }
    assert_eq!(a.counters().sent_segments, 8);
}

#[test]
fn a_socket_that_only_sends_keeps_no_datagrams() {
    let port = UdpPort::bind("127.0.0.1:0".parse().unwrap(), &UdpConfig::default()).unwrap();
    let stranger = std::net::UdpSocket::bind("127.0.0.1:0").unwrap();
    for socket in port.senders.iter().map(|sender| &*sender.socket) {
        stranger.send_to(&[0; 100], socket.local_addr().unwrap().as_socket().unwrap()).unwrap();
        let received =
            nix::sys::socket::recv(std::os::fd::AsRawFd::as_raw_fd(socket), &mut [0; 200], MsgFlags::empty());
        assert_eq!(received, Err(Errno::EAGAIN));
    }
}

#[test]
fn a_wait_for_room_ends_once_and_for_the_full_socket() {
    let mut port = UdpPort::bind("127.0.0.1:0".parse().unwrap(), &UdpConfig::default()).unwrap();
    // The socket has room, although the port believes that it is full: as if the kernel had sent packets in the
    // meantime.
    port.senders[3].blocked = true;
    port.wait(Interest::ArrivalOrRoom, None).unwrap();
    assert!(port.senders.iter().all(|sender| !sender.blocked));
    // The system does not notify when it has memory again, so the wait ends by itself.
    port.starved = true;
    port.wait(Interest::ArrivalOrRoom, None).unwrap();
    assert!(!port.starved);
    // A wait with `Interest::Arrival` does not check for room.
    port.senders[3].blocked = true;
    port.wait(Interest::Arrival, Some(Time::from_us(1))).unwrap();
    assert!(port.senders[3].blocked);
}

#[test]
fn the_candidates_visit_every_source_port() {
    let mut all: Vec<u16> = candidates().collect();
    assert_eq!(all[..3], [49_152, 59_279, 53_022]); // 49152 + 10127, + 20254 - 16384
    all.sort_unstable();
    assert_eq!(all, SOURCE_PORTS.collect::<Vec<u16>>());
}
