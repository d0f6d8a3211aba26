//! Checks that a pair of ports in memory behaves like two ports on a link.

use crate::common::{ANY_CLASS, collect, drain, message, send_all};
use rnic_endpoint::port::loopback::{LoopbackConfig, pair};
use rnic_endpoint::port::{Interest, Limits, SendError};
use rnic_endpoint::{Batch, Port};
use rnic_transport::Time;
use std::io::IoSlice;

#[test]
fn each_receives_what_the_other_sends() {
    let (mut a, mut b) = pair(LoopbackConfig::default());
    let data = message(10_000, 1);
    send_all(&mut a, b.local_addr(), ANY_CLASS, 999, &data);
    send_all(&mut b, a.local_addr(), ANY_CLASS, 1_000, &data);
    let got = drain(&mut b);
    assert!(got.datagrams == data.chunks(999).collect::<Vec<_>>());
    assert_eq!(got.classes, [ANY_CLASS; 11]);
    assert_eq!((got.sources[0].ip(), got.destinations[0]), (a.local_addr().ip(), b.local_addr().ip()));
    assert_eq!(got.sources[0].port(), a.source_port(0));
    assert_eq!(drain(&mut a).datagrams.len(), 10);
    let (sent, received) = (a.counters(), b.counters());
    assert_eq!((sent.sent_batches, sent.sent_segments, sent.sent_bytes), (1, 11, 10_000));
    assert_eq!((received.received_batches, received.received_segments, received.received_bytes), (1, 11, 10_000));
}

#[test]
fn memory_is_bounded_and_losses_are_counted() {
    let (mut a, mut b) = pair(LoopbackConfig { receive_buffer: 1_000, ..LoopbackConfig::default() });
    for _ in 0..7 {
        send_all(&mut a, b.local_addr(), ANY_CLASS, 100, &[0; 300]);
    }
    assert_eq!(drain(&mut b).datagrams.len(), 9);
    assert_eq!(b.counters().overflowed, 12);
    send_all(&mut a, b.local_addr(), ANY_CLASS, 100, &[0; 300]);
    assert_eq!(drain(&mut b).datagrams.len(), 3);
}

#[test]
fn what_a_cable_would_refuse_is_refused() {
    let limits = Limits { segments: 4, bytes: 10_000 };
    let (mut a, b) = pair(LoopbackConfig { limits, longest_datagram: 1_000, ..LoopbackConfig::default() });
    let (destination, source_port) = (b.local_addr(), a.source_port(5));
    let data = vec![0; 10_001];
    let mut send = |destination, segment, bytes: usize| {
        let data = [IoSlice::new(&data[..bytes])];
        a.send(&Batch {
            destination,
            source_port,
            source_address: None,
            traffic_class: ANY_CLASS,
            segment,
            data: &data,
        })
    };
    assert_eq!(send(destination, 1_000, 4_000).unwrap(), 4);
    assert!(matches!(send(destination, 1_000, 4_001), Err(SendError::TooMany { segments: 5, .. })));
    assert!(matches!(send(destination, 9_000, 10_001), Err(SendError::TooMany { bytes: 10_001, .. })));
    assert!(matches!(send(destination, 1_001, 1_001), Err(SendError::TooLong { length: 1_001, .. })));
    assert!(matches!(send(destination, 100, 0), Err(SendError::Empty)));
    assert!(matches!(send("[::1]:1".parse().unwrap(), 1, 1), Err(SendError::OtherFamily { .. })));
    assert!(matches!(send("10.9.9.9:4791".parse().unwrap(), 1, 1), Err(SendError::System { .. })));
    assert!(a.longest_datagram("10.9.9.9:4791".parse().unwrap()).is_err());
    assert_eq!(a.longest_datagram(destination).unwrap(), 1_000);
    assert_eq!(a.counters().refused, 6);
}

#[test]
fn arrivals_wakers_and_timeouts_end_a_wait() {
    let (mut a, mut b) = pair(LoopbackConfig::default());
    let (address, waker) = (b.local_addr(), b.waker());
    b.wait(Interest::Arrival, Some(Time::from_us(1))).unwrap();
    for _ in 0..100 {
        std::thread::scope(|threads| {
            threads.spawn(|| send_all(&mut a, address, ANY_CLASS, 10, &[0; 10]));
            b.wait(Interest::Arrival, None).unwrap();
        });
        assert_eq!(collect(&mut b, 1).datagrams.len(), 1);
        std::thread::scope(|threads| {
            threads.spawn(|| waker.wake_by_ref());
            b.wait(Interest::Arrival, None).unwrap();
        });
        waker.wake_by_ref();
        b.wait(Interest::Arrival, None).unwrap();
    }
}
