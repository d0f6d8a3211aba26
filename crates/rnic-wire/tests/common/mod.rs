//! Generators of packets with every opcode.
#![allow(dead_code, reason = "no test uses all of these functions")]

use proptest::prelude::*;
use rnic_wire::{
    Aeth, AtomicAckEth, AtomicEth, Bth, Deth, Headers, Ieth, ImmDt, MAX_24, Opcode, Operation, PayloadRule, ReadEth,
    RecvEth, Reth, SackEth, SendEth, Service, Syndrome,
};

/// Headers with this opcode and with extension headers filled from `words`. The choice of extension headers repeats the
/// specification's table of operations instead of using the code under test.
pub(crate) fn headers_of(opcode: Opcode, words: [u32; 14]) -> Headers {
    let [a, b, c, d, e, f, g, h, i, j, k, l, m, n] = words;
    let long = |high: u32, low: u32| u64::from(high) << 32 | u64::from(low);
    let irn = opcode.service() == Service::Irn;
    let operation = opcode.operation();
    let has_reth = match operation {
        Operation::Write => irn || opcode.starts_message(),
        Operation::ReadRequest => true,
        _ => false,
    };
    let has_aeth = match operation {
        Operation::ReadResponse => irn || !opcode.is_middle(),
        Operation::Acknowledge | Operation::AtomicAcknowledge | Operation::ReadAcknowledge => true,
        _ => false,
    };
    let syndrome = Syndrome::from_byte(i as u8).unwrap_or(Syndrome::ACK);
    Headers {
        deth: (opcode.service() == Service::Ud).then_some(Deth { qkey: a, src_qp: b & MAX_24 }),
        reth: has_reth.then_some(Reth { va: long(a, b), rkey: c, dma_len: d }),
        atomic: operation.is_atomic().then_some(AtomicEth {
            va: long(a, b),
            rkey: c,
            swap_add: long(d, e),
            compare: long(f, g),
        }),
        aeth: has_aeth.then_some(Aeth { syndrome, msn: h & MAX_24 }),
        atomic_ack: (operation == Operation::AtomicAcknowledge).then_some(AtomicAckEth { original: long(j, k) }),
        send: (irn && operation == Operation::Send).then_some(SendEth { recv_wqe_sn: j & MAX_24, offset: k }),
        imm: opcode.has_imm().then_some(ImmDt(l)),
        ieth: opcode.has_invalidate().then_some(Ieth { rkey: l }),
        recv: (irn && operation == Operation::Write && opcode.has_imm()).then_some(RecvEth { recv_wqe_sn: m & MAX_24 }),
        read: (irn && (operation.is_atomic() || operation == Operation::ReadRequest))
            .then_some(ReadEth { read_wqe_sn: m & MAX_24 }),
        sack: (irn && matches!(operation, Operation::Acknowledge | Operation::ReadAcknowledge))
            .then_some(SackEth { psn: n & MAX_24, before: (n >> 3) as u8 }),
        ..Headers::new(Bth::new(opcode, 0, 0))
    }
}

/// The payload length nearest to `wish` that the opcode allows.
pub(crate) fn payload_len(opcode: Opcode, wish: usize) -> usize {
    match opcode.payload_rule() {
        PayloadRule::Empty => 0,
        PayloadRule::Reserved => 16,
        PayloadRule::Full => (wish.max(1)).next_multiple_of(4),
        PayloadRule::Some => wish.max(1),
        PayloadRule::Any => wish,
    }
}

/// Arbitrary headers with a payload that their opcode allows.
pub(crate) fn any_packet() -> impl Strategy<Value = (Headers, Vec<u8>)> {
    let opcode = (0..Opcode::ALL.len()).prop_map(|at| Opcode::ALL[at]);
    let flags = any::<[bool; 5]>();
    let numbers = (any::<u16>(), 0..MAX_24, 0..=MAX_24);
    (opcode, any::<[u32; 14]>(), flags, numbers, proptest::collection::vec(any::<u8>(), 0..300)).prop_map(
        |(opcode, words, [solicited, migrated, fecn, becn, ack_request], (pkey, dest_qp, psn), mut payload)| {
            let mut headers = headers_of(opcode, words);
            let attempt = if opcode.service() == Service::Irn { words[0] as u8 & Bth::MAX_ATTEMPTS } else { 0 };
            headers.bth =
                Bth { opcode, solicited, migrated, pad: 0, pkey, fecn, becn, dest_qp, ack_request, attempt, psn };
            payload.resize(payload_len(opcode, payload.len()), 7);
            headers.bth.pad = (payload.len().wrapping_neg() % 4) as u8;
            (headers, payload)
        },
    )
}
