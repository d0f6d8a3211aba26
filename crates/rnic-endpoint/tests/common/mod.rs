//! Functions that several tests of ports use.
#![allow(dead_code, reason = "each test program uses a part")]

pub(crate) mod ends;

use nix::libc;
use nix::{setsockopt_impl, sockopt_impl};
use rnic_endpoint::port::{Ecn, Interest, TrafficClass};
use rnic_endpoint::{Batch, Port};
use rnic_transport::Time;
use std::io::IoSlice;
use std::net::{IpAddr, SocketAddr};

sockopt_impl!(
    /// `UDP_NO_CHECK6_TX`: the socket sends IPv6 datagrams without a UDP checksum, as the kernel's RoCE in software
    /// does.
    NoCheck6Send,
    SetOnly,
    libc::IPPROTO_UDP,
    libc::UDP_NO_CHECK6_TX,
    bool
);

pub(crate) const ANY_CLASS: TrafficClass = TrafficClass::new(26, Ecn::Capable0);

/// Received datagrams, with the address and traffic class of each.
#[derive(Debug, Default)]
pub(crate) struct Gathered {
    pub(crate) datagrams: Vec<Vec<u8>>,
    pub(crate) classes: Vec<TrafficClass>,
    pub(crate) sources: Vec<SocketAddr>,
    pub(crate) destinations: Vec<IpAddr>,
}

impl Gathered {
    /// Whether the datagrams together are `message`, and all have the traffic class `class`.
    pub(crate) fn is(&self, message: &[u8], class: TrafficClass) -> bool {
        self.datagrams.concat() == message && self.classes.iter().all(|&c| c == class)
    }
}

/// Returns `bytes` pseudorandom bytes, which `salt` determines.
pub(crate) fn message(bytes: usize, salt: u64) -> Vec<u8> {
    let mut state = salt;
    (0..bytes)
        .map(|_| {
            state = state.wrapping_mul(0x5851_f42d_4c95_7f2d).wrapping_add(1);
            (state >> 56) as u8
        })
        .collect()
}

/// Receives all datagrams that have arrived, without waiting.
pub(crate) fn drain(port: &mut impl Port) -> Gathered {
    let mut got = Gathered::default();
    while let Some(arrival) = port.receive().unwrap() {
        for datagram in arrival.segments() {
            got.datagrams.push(datagram.to_vec());
            got.classes.push(arrival.meta.traffic_class);
            got.sources.push(arrival.meta.source);
            got.destinations.push(arrival.meta.destination);
        }
    }
    got
}

/// Waits for `count` datagrams, until nothing arrives for three seconds.
pub(crate) fn collect(port: &mut impl Port, count: usize) -> Gathered {
    let mut got = Gathered::default();
    let mut idle = 0;
    loop {
        let more = drain(port);
        idle = if more.datagrams.is_empty() { idle + 1 } else { 0 };
        got.datagrams.extend(more.datagrams);
        got.classes.extend(more.classes);
        got.sources.extend(more.sources);
        got.destinations.extend(more.destinations);
        if got.datagrams.len() >= count || idle > 30 {
            return got;
        }
        port.wait(Interest::Arrival, Some(Time::from_ms(100))).unwrap();
    }
}

/// Sends `data` in datagrams of `segment` bytes, in batches as large as the port takes.
pub(crate) fn send_all(
    port: &mut impl Port, destination: SocketAddr, class: TrafficClass, segment: usize, data: &[u8],
) {
    let mut rest = data;
    while !rest.is_empty() {
        let limits = port.limits();
        let most = (limits.bytes / segment).min(limits.segments) * segment;
        let part = &rest[..rest.len().min(most)];
        let sent = port.send(&Batch {
            destination,
            source_port: port.source_port(0),
            source_address: None,
            traffic_class: class,
            segment,
            data: &[IoSlice::new(part)],
        });
        match sent.unwrap() {
            0 => port.wait(Interest::ArrivalOrRoom, Some(Time::from_ms(100))).unwrap(),
            sent => rest = &rest[(sent * segment).min(part.len())..],
        }
    }
}
