//! Time to seal and to open a packet of each length. Run with `cargo bench -p rnic-endpoint --bench secure`.

use rnic_endpoint::secure::{KeyPair, Protection};
use rnic_wire::ProtectedHeader;
use std::time::Instant;

const ROUNDS: usize = 200_000;

fn main() {
    println!("{:>14} {:>8} {:>10} {:>10}", "protection", "bytes", "seal ns", "open ns");
    for protection in [Protection::Authenticated, Protection::Encrypted] {
        for len in [64, 1_440, 4_096, 8_960] {
            let (seal, open) = measure(protection, len);
            println!("{:>14} {len:>8} {seal:>10.0} {open:>10.0}", format!("{protection:?}"));
        }
    }
}

/// Nanoseconds to seal and to open a packet with `len` bytes inside.
#[expect(clippy::disallowed_methods, reason = "a benchmark measures time")]
fn measure(protection: Protection, len: usize) -> (f64, f64) {
    let [a, b] = [(); 2].map(|()| KeyPair::generate().expect("the system has random numbers"));
    let mut here = a.agree(2, b.public(), 3, protection).expect("the key is valid");
    let mut there = b.agree(3, a.public(), 2, protection).expect("the key is valid");
    let mut packet = vec![0; ProtectedHeader::LEN + len + ProtectedHeader::TAG_LEN];
    let mut plain = Vec::new();
    let (mut sealing, mut opening) = (0, 0);
    for _ in 0..ROUNDS {
        packet[ProtectedHeader::LEN..][..4].copy_from_slice(&ProtectedHeader::length(len - 4));
        packet[ProtectedHeader::LEN + 4..][..12].copy_from_slice(&[4, 0, 255, 255, 0, 0, 0, 3, 0, 0, 0, 0]);
        let start = Instant::now();
        here.sealer.seal(&mut packet).expect("it has room");
        let sealed = Instant::now();
        let packets = there.opener.open(&packet, &mut plain).expect("it is authentic").count();
        assert_eq!(packets, 1);
        sealing += (sealed - start).as_nanos();
        opening += sealed.elapsed().as_nanos();
    }
    [sealing, opening].map(|total| total as f64 / ROUNDS as f64).into()
}
