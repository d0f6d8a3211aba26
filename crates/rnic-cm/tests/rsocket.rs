//! Tests of the rsocket protocol: the bytes of its messages, and two ends that obey its flow control.

use proptest::prelude::*;
use rnic_cm::rsocket::*;
use std::collections::VecDeque;

/// The private data of a REQ of librdmacm 44 with the default options: version 1, mappings, 384 credits.
#[test]
fn connect_data_has_the_bytes_of_rdma_core() {
    let data = ConnectData {
        big_endian: false,
        credits: 384,
        mappings: 0,
        targets: Target { address: 0x0102_0304_0506_0708, key: 0x1112_1314, len: 2 },
        data: Target { address: 0x2122_2324_2526_2728, key: 0x3132_3334, len: 0x1_0000 },
    };
    let bytes = [
        1, 2, 0x01, 0x80, 0, 0, 0, 0, 1, 2, 3, 4, 5, 6, 7, 8, 0x11, 0x12, 0x13, 0x14, 0, 0, 0, 2, 0x21, 0x22, 0x23,
        0x24, 0x25, 0x26, 0x27, 0x28, 0x31, 0x32, 0x33, 0x34, 0, 1, 0, 0,
    ];
    assert_eq!(data.emit(), bytes);
    assert_eq!(ConnectData::parse(&bytes), Some(data));
    // More bytes may follow; fewer, another version, and impossible lists are refused.
    assert_eq!(ConnectData::parse(&[&bytes[..], &[7; 100]].concat()), Some(data));
    assert_eq!(ConnectData::parse(&bytes[..39]), None);
    for (at, value) in [(0, 2), (0, 0), (20, 1), (23, 0)] {
        let mut wrong = bytes;
        wrong[at] = value;
        assert_eq!(ConnectData::parse(&wrong), None, "byte {at} is {value}");
    }
    let mut other = bytes;
    (other[1], other[7]) = (1, 200);
    let other = ConnectData::parse(&other).unwrap();
    assert!(other.big_endian && other.mappings == 0, "without the flag there are no mappings");
}

#[test]
fn numbers_of_mappings_are_one_byte() {
    for (mappings, byte, back) in
        [(0, 0, 0), (1, 1, 1), (128, 128, 128), (129, 0x80, 128), (256, 0x81, 256), (1_000, 0x83, 768)]
    {
        assert_eq!((scale(mappings), unscale(byte)), (byte, back), "{mappings}");
    }
    assert_eq!(scale(u32::MAX), 0xff);
}

#[test]
fn immediate_data_has_the_numbers_of_rdma_core() {
    for (message, number) in [
        (Immediate::Data(65_536), 0x0001_0000),
        (Immediate::Credits(500), 0x8000_01f4),
        (Immediate::Mapping(3), 0xc000_0003),
        (Immediate::Disconnect, 0xe000_0000),
        (Immediate::KeepAlive, 0xe000_0001),
        (Immediate::Shutdown, 0xe000_0002),
    ] {
        assert_eq!((message.number(), Immediate::of(number)), (number, message));
    }
    // librdmacm does not wrap the number of a Write at 16 bits.
    assert_eq!(Immediate::of(0x8001_0001), Immediate::Credits(1));
    for number in [0x2000_0001, 0x4000_0001, 0x6000_0001, 0xa000_0001, 0xe000_0003] {
        assert_eq!(Immediate::of(number), Immediate::Unknown);
    }
}

#[test]
fn a_target_has_the_byte_order_of_its_host() {
    let target = Target { address: 0x0102_0304_0506_0708, key: 0x1112_1314, len: 0x2122_2324 };
    let big = [1, 2, 3, 4, 5, 6, 7, 8, 0x11, 0x12, 0x13, 0x14, 0x21, 0x22, 0x23, 0x24];
    assert_eq!(target.bytes(true), big);
    assert_eq!(target.bytes(false)[..8], [8, 7, 6, 5, 4, 3, 2, 1]);
    assert_eq!(Target::read(&target.bytes(cfg!(target_endian = "big"))), target);
}

/// A receiver of 8 KiB with 4 receive requests, by hand.
#[test]
fn credits_are_given_by_halves() {
    let mut inbox = Inbox::new(8_192, 4);
    // The peer knows the first half; the second one is free as well.
    assert_eq!(inbox.grant(), Some(Grant { half: Some(4_096), credits: 4 }));
    assert_eq!(inbox.grant(), None);
    inbox.arrived(4_000).unwrap();
    inbox.arrived(96).unwrap();
    inbox.arrived(100).unwrap();
    assert_eq!((inbox.unread(), inbox.ranges(5_000)), (4_196, [(0, 4_196), (0, 0)]));
    inbox.consume(4_000);
    // One Write was read; half of the ring is not yet free, and half of the requests neither.
    assert_eq!(inbox.grant(), None);
    inbox.consume(50);
    assert_eq!(inbox.grant(), None);
    inbox.consume(46);
    assert_eq!(inbox.grant(), Some(Grant { half: Some(0), credits: 6 }));
    // Small Writes use up requests, not bytes.
    for _ in 0..3 {
        inbox.arrived(1).unwrap();
    }
    inbox.consume(102);
    assert_eq!(inbox.grant(), Some(Grant { half: None, credits: 9 }));
}

#[test]
fn a_peer_that_writes_too_much_is_found() {
    assert_eq!(Inbox::new(8_192, 4).arrived(0), Err(Violation));
    assert_eq!(Inbox::new(8_192, 4).arrived(4_097), Err(Violation));
    assert_eq!(Inbox::new(8_192, 4).arrived((1 << 29) - 1), Err(Violation));
    let mut many = Inbox::new(8_192, 4);
    assert!((0..4).all(|_| many.arrived(1).is_ok()));
    assert_eq!(many.arrived(1), Err(Violation));
}

#[test]
fn the_send_buffer_is_a_ring() {
    let mut outbox = Outbox::new(10_000, 8, 8);
    assert_eq!((outbox.room(), outbox.ranges(9_990)), (10_000, [(0, 9_990), (0, 0)]));
    outbox.sent(9_990, true, true);
    outbox.done(9_990);
    assert_eq!((outbox.room(), outbox.ranges(64)), (10_000, [(9_990, 10), (0, 54)]));
    // Bytes that are copied into the request take no place, but count.
    outbox.sent(64, false, true);
    assert_eq!((outbox.room(), outbox.ranges(20_000)), (9_936, [(9_990, 10), (0, 9_926)]));
}

proptest! {
    /// All bytes arrive in order, whatever the sizes of the program's calls, and neither end waits for ever.
    #[test]
    fn bytes_arrive_in_order(
        half in 1_u32..40, queue in 2_u16..20, calls in proptest::collection::vec((1_usize..9_000, 1_usize..9_000), 1..40)
    ) {
        let size = half * 512;
        let mut inbox = Inbox::new(size, queue);
        let mut ring = vec![0_u8; size as usize];
        let mut outbox = Outbox::new(8_192, 8, queue);
        // The entries of the target list: offset and length.
        let mut targets = [(0, size / 2), (0, 0)];
        let (mut target, mut entry) = (0, 1);
        let mut in_flight = VecDeque::new();
        let (mut sent, mut received) = (0_u64, 0_u64);
        let byte = |at: u64| (at * 7 + at / 251) as u8;
        for (want, take) in calls {
            let until = sent + want as u64;
            let mut idle = 0;
            while sent < until {
                prop_assert!(idle < 3, "both wait");
                idle += 1;
                while outbox.is_ready() && targets[target].1 > 0 && sent < until {
                    let len = (until - sent).min(2_048) as u32;
                    let len = len.min(outbox.room()).min(targets[target].1);
                    for at in 0..len {
                        ring[(targets[target].0 + at) as usize] = byte(sent + u64::from(at));
                    }
                    targets[target].0 += len;
                    targets[target].1 -= len;
                    target = if targets[target].1 == 0 { 1 - target } else { target };
                    outbox.sent(len, true, true);
                    in_flight.push_back(len);
                    sent += u64::from(len);
                    idle = 0;
                }
                for len in in_flight.drain(..) {
                    inbox.arrived(len).unwrap();
                    outbox.done(len);
                }
                let mut left = take;
                while inbox.unread() > 0 && left > 0 {
                    idle = 0;
                    let ranges = inbox.ranges(left);
                    let mut count = 0;
                    for (offset, len) in ranges {
                        for at in offset..offset + len {
                            prop_assert_eq!(ring[at as usize], byte(received));
                            received += 1;
                        }
                        count += len;
                    }
                    inbox.consume(count);
                    left -= count as usize;
                }
                while let Some(grant) = inbox.grant() {
                    outbox.credit(grant.credits);
                    if let Some(offset) = grant.half {
                        prop_assert_eq!(targets[entry].1, 0, "the entry is in use");
                        targets[entry] = (offset, size / 2);
                        entry = 1 - entry;
                    }
                }
            }
        }
        prop_assert!(received <= sent);
    }
}
