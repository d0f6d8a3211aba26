//! Parses arbitrary UDP payloads: nothing panics, and an accepted packet is emitted with the same bytes, except
//! reserved bits and padding.
#![no_main]

use libfuzzer_sys::fuzz_target;
use rnic_wire::{Headers, IcrcSeed, Packet, ROCE_PORT};

fuzz_target!(|bytes: &[u8]| {
    let seed = IcrcSeed::ipv4([1, 2, 3, 4].into(), [5, 6, 7, 8].into(), 9, ROCE_PORT);
    let _ = (seed.check(3, bytes), seed.solve_id(bytes));
    let headers = Headers::parse(bytes);
    let Ok(packet) = Packet::parse(bytes) else { return };
    assert_eq!(headers, Ok(packet.headers));
    let mut out = vec![0; packet.len()];
    packet.emit(&seed, 3, &mut out);
    assert_eq!(out.len(), bytes.len());
    assert_eq!(Packet::parse(&out), Ok(packet));
    assert_eq!(seed.solve_id(&out), Some(3));
});
