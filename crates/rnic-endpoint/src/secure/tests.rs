//! Tests of sealing and opening together.

use super::keys::EPOCH;
use super::{CryptoError, KeyPair, OpenError, Protection, PublicKey, Session};
use proptest::prelude::*;
use rnic_wire::ProtectedHeader;

const BOTH: [Protection; 2] = [Protection::Authenticated, Protection::Encrypted];
const A: u32 = 0x0a_0a0a;
const B: u32 = 0x0b_0b0b;

/// The sessions of A and B with the key pairs of the private keys 1, 2, .. 32 and 33, 34, .. 64.
fn sessions(protection: Protection) -> [Session; 2] {
    let [a, b] = [1, 33].map(|first| KeyPair::of(&std::array::from_fn(|at| first + at as u8)));
    [a.agree(A, b.public(), B, protection).unwrap(), b.agree(B, a.public(), A, protection).unwrap()]
}

/// An IRN SEND First for B with 16 bytes after its BTH, and room around it.
fn packet() -> Vec<u8> {
    let mut bytes = vec![0; ProtectedHeader::LEN];
    bytes.extend([0, 28, 0, 0]);
    bytes.extend([0xca, 0x40, 0xff, 0xff, 0, 0x0b, 0x0b, 0x0b, 0x80, 0, 0, 1]);
    bytes.extend(0..16);
    bytes.extend([0; ProtectedHeader::TAG_LEN]);
    bytes
}

fn hex(bytes: &[u8]) -> String {
    bytes.iter().map(|byte| format!("{byte:02x}")).collect()
}

/// The packets were computed with Python's `hmac` and `cryptography` from the description in `keys.rs`.
#[test]
fn packets_are_those_of_another_implementation() {
    let head = ["e000ffff000b0b0b", "e100ffff000b0b0b"];
    let plain = "001c0000ca40ffff000b0b0b80000001000102030405060708090a0b0c0d0e0f";
    let expected = [
        (0, 0, format!("{plain}c0f1be028418c000d715f678c251a963")),
        (0, 5, format!("{plain}c97158ce19ccf4e2d5f6257113ec6330")),
        (0, EPOCH + 1, format!("{plain}ecb7ab2fe2f7d2519cacfe2e14a78c60")),
        (
            1,
            0,
            "f3be3b03e8e08b8c0a0c971f78844604539f44e947d8d9f6381bf60ef518384a01cd3d5e3f678badf5324d6e2edf0778"
                .to_string(),
        ),
        (
            1,
            5,
            "e17e8168eb6fa4e3070c7c2190e31799b251c17d6b872c17e6de0a40f8287dd65c08202f0ad7f793af4fd73b307e1353"
                .to_string(),
        ),
        (
            1,
            EPOCH + 1,
            "4b1678677b159dcccf6748f7dca835e9e44dd25a8075943472c43c696749be44ea5585b19b0d2d6e5b01f1ece4bb3535"
                .to_string(),
        ),
    ];
    for (protection, number, body) in expected {
        let [mut a, _] = sessions(BOTH[protection]);
        a.sealer.skip_to(number).unwrap();
        let mut packet = packet();
        a.sealer.seal(&mut packet).unwrap();
        assert!(hex(&packet).starts_with(&format!("{}{number:016x}", head[protection])), "{}", hex(&packet));
        assert!(hex(&packet).ends_with(&body), "{protection} {number}: {}", hex(&packet));
    }
}

#[test]
fn packets_pass_once_in_any_order_and_across_a_change_of_keys() {
    for protection in BOTH {
        let [mut a, mut b] = sessions(protection);
        let mut plain = Vec::new();
        let sealed = |a: &mut Session| {
            let mut bytes = packet();
            a.sealer.seal(&mut bytes).unwrap();
            bytes
        };
        a.sealer.skip_to(EPOCH - 10).unwrap();
        let mut packets: Vec<_> = (0..20).map(|_| sealed(&mut a)).collect();
        // Odd packets first: some of the new epoch arrive before some of the old one.
        packets.rotate_left(7);
        packets.sort_by_key(|packet| packet[15] % 2 == 0);
        for bytes in &packets {
            let inner: Vec<&[u8]> = b.opener.open(bytes, &mut plain).unwrap().collect();
            assert_eq!(inner.len(), 1);
            assert_eq!(inner[0][..28], packet()[20..48]);
            assert_eq!(inner[0].len(), 32);
        }
        for bytes in &packets {
            assert_eq!(b.opener.open(bytes, &mut plain).map(drop), Err(OpenError::Replayed));
        }
        // Two epochs at once cannot be skipped, and the attempt changes nothing.
        let [mut later, _] = sessions(protection);
        later.sealer.skip_to(3 * EPOCH).unwrap();
        assert_eq!(b.opener.open(&sealed(&mut later), &mut plain).map(drop), Err(OpenError::Forged));
        assert!(b.opener.open(&sealed(&mut a), &mut plain).is_ok());
    }
}

#[test]
fn packet_numbers_are_skipped_but_never_used_again() {
    let [mut a, mut b] = sessions(Protection::Authenticated);
    let mut plain = Vec::new();
    // Each pair of numbers: skip to the first one, and send packets up to the second one.
    for (from, to) in
        [(5, 6), (EPOCH - 1, EPOCH), (EPOCH + 1, EPOCH + 1), (2 * EPOCH, 2 * EPOCH), (3 * EPOCH - 1, 3 * EPOCH)]
    {
        a.sealer.skip_to(from).unwrap();
        // A packet without room for a tag uses up neither a number nor a key.
        assert_eq!(a.sealer.seal(&mut [0; 31]), Err(CryptoError));
        while a.sealer.next() <= to {
            let mut bytes = packet();
            a.sealer.seal(&mut bytes).unwrap();
            assert!(b.opener.open(&bytes, &mut plain).is_ok(), "{from} {to}");
        }
        assert_eq!(a.sealer.skip_to(to), Err(CryptoError));
        assert_eq!(a.sealer.next(), to + 1);
    }
}

#[test]
fn what_is_not_for_this_queue_pair_is_refused() {
    for (at, protection) in BOTH.into_iter().enumerate() {
        let [mut a, mut b] = sessions(protection);
        let mut plain = Vec::new();
        // Only the other kind of protection, only one's own packets, and only packets for oneself inside.
        let [mut other, _] = sessions(BOTH[1 - at]);
        let mut bytes = packet();
        other.sealer.seal(&mut bytes).unwrap();
        assert_eq!(b.opener.open(&bytes, &mut plain).map(drop), Err(OpenError::NotProtected));
        bytes[0] ^= 1;
        assert_eq!(b.opener.open(&bytes, &mut plain).map(drop), Err(OpenError::Forged));
        let mut bytes = packet();
        b.sealer.seal(&mut bytes).unwrap();
        assert_eq!(b.opener.open(&bytes, &mut plain).map(drop), Err(OpenError::NotProtected));
        let mut bytes = packet();
        bytes[20 + 7] += 1;
        a.sealer.seal(&mut bytes).unwrap();
        assert_eq!(b.opener.open(&bytes, &mut plain).map(Iterator::count), Ok(0));
        assert!(a.sealer.seal(&mut [0; 31]).is_err());
        // A replaced public key gives other keys.
        let [mine, theirs, stranger] = [1, 33, 65].map(|first| KeyPair::of(&std::array::from_fn(|i| first + i as u8)));
        let mut believes = theirs.agree(B, stranger.public(), A, protection).unwrap();
        let mut honest = mine.agree(A, theirs.public(), B, protection).unwrap();
        let mut bytes = packet();
        honest.sealer.seal(&mut bytes).unwrap();
        assert_eq!(believes.opener.open(&bytes, &mut plain).map(drop), Err(OpenError::Forged));
        // A point of low order would make the shared secret zero.
        assert!(mine.agree(A, PublicKey([0; 32]), B, protection).is_err());
    }
}

#[test]
fn secrets_are_not_printed() {
    let pair = KeyPair::of(&[7; 32]);
    assert_eq!(format!("{pair:?}"), format!("KeyPair {{ public: {:?}, .. }}", pair.public()));
    let text = "ab".repeat(32);
    assert_eq!(String::from(PublicKey([0xab; 32])), text);
    assert_eq!(PublicKey::try_from(text.clone()), Ok(PublicKey([0xab; 32])));
    for wrong in ["", "ab", &text[1..], &format!("{text}a"), &format!("x{}", &text[1..])] {
        assert!(PublicKey::try_from(wrong.to_string()).is_err(), "{wrong}");
    }
}

proptest! {
    /// Every change of one byte, at any place, and every other length is refused, and the packet itself still passes.
    #[test]
    fn no_altered_packet_passes(at in 0..64usize, flip in 1..=255u8, encrypted: bool, cut in 0..64usize) {
        let [mut a, mut b] = sessions(BOTH[usize::from(encrypted)]);
        let mut plain = Vec::new();
        let mut bytes = packet();
        a.sealer.seal(&mut bytes).unwrap();
        let mut altered = bytes.clone();
        altered[at] ^= flip;
        prop_assert!(b.opener.open(&altered, &mut plain).is_err());
        prop_assert!(b.opener.open(&bytes[..cut], &mut plain).is_err());
        altered = bytes.clone();
        altered.extend(vec![flip; cut + 1]);
        prop_assert!(b.opener.open(&altered, &mut plain).is_err());
        prop_assert!(b.opener.open(&bytes, &mut plain).is_ok());
    }

    /// Random bytes never pass and never panic.
    #[test]
    fn no_random_bytes_pass(mut bytes in prop::collection::vec(any::<u8>(), 0..200), header: bool) {
        let [_, mut b] = sessions(Protection::Encrypted);
        if header && bytes.len() >= 8 {
            bytes[..8].copy_from_slice(&[0xe1, 0, 0xff, 0xff, 0, 0x0b, 0x0b, 0x0b]);
        }
        prop_assert!(b.opener.open(&bytes, &mut Vec::new()).is_err());
    }
}
