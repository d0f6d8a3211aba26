//! Every reason to reject a packet has a test case here, and no input makes the parser panic.

use crate::common::any_packet;
use proptest::prelude::*;
use rnic_wire::{Bth, BthView, Headers, IcrcSeed, Opcode, Packet, ROCE_PORT, Reject};

/// A packet with this opcode, and with the bytes `rest` between base transport header and ICRC.
fn bytes(opcode: u8, flags: u8, rest: &[u8]) -> Vec<u8> {
    [&[opcode, flags, 0xff, 0xff, 0, 0, 0, 1, 0, 0, 0, 1], rest, &[0; 4]].concat()
}

fn reject(bytes: &[u8]) -> (String, &'static str) {
    let reject = Packet::parse(bytes).unwrap_err();
    (reject.to_string(), reject.label())
}

#[test]
fn every_reason_has_a_sentence() {
    let pad = |count: u8| 0x40 | count << 4;
    let mut multicast = bytes(0x01, 0x40, &[0; 4]);
    multicast[5..8].fill(0xff);
    let cases = [
        (vec![], "the packet is 0 B long; base transport header and ICRC alone are 16 B", "too_short"),
        (
            bytes(0x01, 0x40, &[])[..15].to_vec(),
            "the packet is 15 B long; base transport header and ICRC alone are 16 B",
            "too_short",
        ),
        (
            bytes(0x15, 0x40, &[0; 4]),
            "opcode 0x15 is not a supported opcode of RC, UC, UD, CNP or IRN",
            "unknown_opcode",
        ),
        (
            bytes(0x1c, 0x40, &[0; 4]),
            "opcode 0x1c is not a supported opcode of RC, UC, UD, CNP or IRN",
            "unknown_opcode",
        ),
        (bytes(0x04, 0x41, &[0; 4]), "the transport version is 1, not 0", "transport_version"),
        (bytes(0x04, 0x40, &[0; 3]), "the packet is 19 B long, which is not a multiple of 4 B", "not_words"),
        (
            bytes(0x0c, 0x40, &[0; 12]),
            "the headers of RC RDMA READ Request are 28 B long, but the packet has only 24 B for them",
            "headers_truncated",
        ),
        (
            bytes(0xd4, 0x40, &[0; 28]),
            "the headers of IRN FetchAdd are 44 B long, but the packet has only 40 B for them",
            "headers_truncated",
        ),
        (
            bytes(0x04, pad(1), &[]),
            "RC SEND Only has a padding count of 1, but fewer bytes than that after its headers",
            "pad_beyond",
        ),
        (
            bytes(0x0c, 0x40, &[0; 20]),
            "RC RDMA READ Request must not have payload or padding, but 4 B follow the headers",
            "payload_forbidden",
        ),
        (
            bytes(0x11, pad(3), &[0x1f, 0, 0, 0, 0, 0, 0, 0]),
            "RC Acknowledge must not have payload or padding, but 4 B follow the headers",
            "payload_forbidden",
        ),
        (
            bytes(0x14, 0x40, &[0; 32]),
            "RC FetchAdd must not have payload or padding, but 4 B follow the headers",
            "payload_forbidden",
        ),
        (bytes(0x00, 0x40, &[]), "RC SEND First must have at least 1 B of payload, but has none", "payload_missing"),
        (
            bytes(0x28, 0x40, &[]),
            "UC RDMA WRITE Last must have at least 1 B of payload, but has none",
            "payload_missing",
        ),
        (
            bytes(0x0e, pad(1), &[0; 8]),
            "RC RDMA READ Response Middle has a padding count of 1; a packet with a full MTU of payload must not have padding",
            "pad_forbidden",
        ),
        (bytes(0x81, 0x40, &[0; 12]), "12 B follow the header of the CNP, not 16 B", "cnp_length"),
        (bytes(0x81, pad(1), &[0; 16]), "15 B follow the header of the CNP, not 16 B", "cnp_length"),
        (
            multicast,
            "RC SEND Middle is addressed to queue pair 0xffffff, which accepts only UD multicast",
            "multicast_qp",
        ),
        (bytes(0x11, 0x40, &[0x65, 0, 0, 0]), "AETH syndrome 0x65 is reserved", "syndrome"),
    ];
    for (bytes, sentence, label) in cases {
        assert_eq!(reject(&bytes), (sentence.to_string(), label));
    }
}

#[test]
fn the_path_mtu() {
    let check = |opcode, len, mtu| {
        let payload = vec![0; len];
        Packet { headers: Headers::new(Bth::new(opcode, 1, 1)), payload: &payload }.check_mtu(mtu)
    };
    for mtu in [256, 512, 1024, 2048, 4096] {
        for opcode in [Opcode::RC_SEND_FIRST, Opcode::UC_WRITE_MIDDLE, Opcode::RC_READ_RESPONSE_FIRST] {
            assert_eq!(check(opcode, mtu, mtu), Ok(()));
            for len in [mtu - 4, mtu + 4] {
                assert_eq!(check(opcode, len, mtu), Err(Reject::NotMtu { opcode, len, mtu }));
            }
        }
        for opcode in [Opcode::RC_SEND_LAST, Opcode::UD_SEND_ONLY, Opcode::IRN_WRITE_ONLY] {
            assert_eq!(check(opcode, 1, mtu), Ok(()));
            assert_eq!(check(opcode, mtu, mtu), Ok(()));
            assert_eq!(check(opcode, mtu + 1, mtu), Err(Reject::OverMtu { opcode, len: mtu + 1, mtu }));
        }
        assert_eq!(check(Opcode::RC_ACKNOWLEDGE, 0, mtu), Ok(()));
        // IRN may divide a message into shorter packets.
        let opcode = Opcode::IRN_READ_RESPONSE_FIRST;
        assert_eq!([4, mtu - 4, mtu].map(|len| check(opcode, len, mtu)), [Ok(()); 3]);
        assert_eq!(
            [0, mtu - 3].map(|len| check(opcode, len, mtu)),
            [0, mtu - 3].map(|len| Err(Reject::NotMtu { opcode, len, mtu }))
        );
        assert_eq!(check(opcode, mtu + 4, mtu), Err(Reject::OverMtu { opcode, len: mtu + 4, mtu }));
    }
    let full = Reject::NotMtu { opcode: Opcode::RC_SEND_FIRST, len: 8, mtu: 256 };
    assert_eq!(
        (full.to_string().as_str(), full.label()),
        ("RC SEND First has 8 B of payload, not exactly the path MTU of 256 B", "not_mtu")
    );
    let over = Reject::OverMtu { opcode: Opcode::RC_SEND_LAST, len: 257, mtu: 256 };
    assert_eq!(
        (over.to_string().as_str(), over.label()),
        ("RC SEND Last has 257 B of payload, more than the path MTU of 256 B", "over_mtu")
    );
}

#[test]
fn multicast_datagrams_are_accepted() {
    let mut datagram = bytes(0x64, 0x40, &[0; 8]);
    datagram[5..8].fill(0xff);
    assert_eq!(Packet::parse(&datagram).unwrap().headers.bth.dest_qp, 0xff_ffff);
}

#[test]
fn headers_without_the_rest_of_their_packet() {
    let whole = bytes(0x0a, 0x40, &[0; 16 + 8]);
    let headers = Packet::parse(&whole).unwrap().headers;
    assert_eq!(Headers::parse(&whole[..28]), Ok(headers));
    assert_eq!(
        Headers::parse(&whole[..27]),
        Err(Reject::HeadersTruncated { opcode: Opcode::RC_WRITE_ONLY, len: 27, needed: 28 })
    );
    assert_eq!(Headers::parse(&whole[..11]), Err(Reject::TooShort { len: 11 }));
}

/// Checks that no parser panics on `bytes`, and that a packet that `Packet::parse` accepts is equal after emitting and
/// parsing it again.
fn holds_for(bytes: &[u8]) {
    let _ = (BthView::new(bytes).map(|view| view.opcode()), Headers::parse(bytes));
    let seed = IcrcSeed::ipv4([1, 2, 3, 4].into(), [5, 6, 7, 8].into(), 9, ROCE_PORT);
    let _ = (seed.check(3, bytes), seed.solve_id(bytes));
    let Ok(packet) = Packet::parse(bytes) else { return };
    let mut out = vec![0; packet.len()];
    packet.emit(&seed, 0, &mut out);
    assert_eq!(out.len(), bytes.len());
    assert_eq!(Packet::parse(&out), Ok(packet));
    assert_eq!(Headers::parse(bytes), Ok(packet.headers));
}

proptest! {
    #[test]
    fn no_bytes_panic(bytes in proptest::collection::vec(any::<u8>(), 0..120)) {
        holds_for(&bytes);
    }

    #[test]
    fn no_damaged_packet_panics(
        packet in any_packet(), cut in 0..400_usize, changes in proptest::collection::vec((0..80_usize, any::<u8>()), 0..4),
    ) {
        let (headers, payload) = packet;
        let packet = Packet::new(headers, &payload);
        let mut bytes = vec![0; packet.len() - 4];
        packet.emit_without_icrc(&mut bytes);
        bytes.extend([0; 4]);
        bytes.truncate(cut);
        for (at, value) in changes {
            if let Some(byte) = bytes.get_mut(at) {
                *byte = value;
            }
        }
        holds_for(&bytes);
    }
}
