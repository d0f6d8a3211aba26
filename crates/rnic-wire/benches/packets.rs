//! Measures the time per packet to parse and emit headers, to compute the ICRC at several payload lengths, and to find
//! the IPv4 identification.
#![allow(missing_docs, reason = "a benchmark program has no public interface")]

use divan::{Bencher, black_box};
use rnic_wire::{AtomicEth, Bth, Headers, IcrcSeed, ImmDt, Opcode, Packet, ROCE_PORT, ReadEth, RecvEth, Reth};

const PAYLOADS: [usize; 3] = [64, 1024, 4096];

fn main() {
    divan::main();
}

fn seed() -> IcrcSeed {
    IcrcSeed::ipv4([10, 0, 0, 1].into(), [10, 0, 0, 2].into(), 49152, ROCE_PORT)
}

fn headers(name: &str) -> Headers {
    let reth = Some(Reth { va: 0x7f00_0000_1000, rkey: 7, dma_len: 1 << 20 });
    let of = |opcode| Headers::new(Bth::new(opcode, 17, 99));
    match name {
        "RC WRITE Middle" => of(Opcode::RC_WRITE_MIDDLE),
        "RC WRITE First" => Headers { reth, ..of(Opcode::RC_WRITE_FIRST) },
        "IRN WRITE Last with Immediate" => Headers {
            reth,
            imm: Some(ImmDt(1)),
            recv: Some(RecvEth { recv_wqe_sn: 4 }),
            ..of(Opcode::IRN_WRITE_LAST_IMM)
        },
        _ => Headers {
            atomic: Some(AtomicEth { va: 8, rkey: 7, swap_add: 1, compare: 0 }),
            read: Some(ReadEth { read_wqe_sn: 3 }),
            ..of(Opcode::IRN_FETCH_ADD)
        },
    }
}

const HEADERS: [&str; 4] = ["RC WRITE Middle", "RC WRITE First", "IRN WRITE Last with Immediate", "IRN FetchAdd"];

#[divan::bench(args = HEADERS)]
fn parse(bencher: Bencher, name: &str) {
    let headers = headers(name);
    let payload: &[u8] = if name == "IRN FetchAdd" { &[] } else { &[7; 64] };
    let mut bytes = [0; 256];
    let len = Packet::new(headers, payload).emit(&seed(), 0, &mut bytes);
    bencher.bench_local(|| Packet::parse(black_box(&bytes[..len])));
}

#[divan::bench(args = HEADERS)]
fn emit_headers(bencher: Bencher, name: &str) {
    let headers = headers(name);
    let mut bytes = [0; 256];
    bencher.bench_local(|| black_box(&headers).emit(black_box(&mut bytes)));
}

#[divan::bench(args = PAYLOADS)]
fn emit_with_icrc(bencher: Bencher, len: usize) {
    let (payload, mut bytes) = (vec![7; len], vec![0; len + 64]);
    let (headers, seed) = (headers("RC WRITE First"), seed());
    bencher.bench_local(|| Packet::new(headers, black_box(&payload)).emit(&seed, 3, &mut bytes));
}

#[divan::bench(args = PAYLOADS)]
fn icrc(bencher: Bencher, len: usize) {
    let (seed, bytes) = (seed(), vec![7; len + 12]);
    bencher.bench_local(|| black_box(&seed).icrc(black_box(3), black_box(&bytes)));
}

#[divan::bench(args = PAYLOADS)]
fn icrc_ipv6(bencher: Bencher, len: usize) {
    let seed = IcrcSeed::ipv6("fd00::1".parse().unwrap(), "fd00::2".parse().unwrap(), 49152, ROCE_PORT);
    let bytes = vec![7; len + 12];
    bencher.bench_local(|| black_box(&seed).icrc(black_box(3), black_box(&bytes)));
}

#[divan::bench(args = PAYLOADS)]
fn solve_id(bencher: Bencher, len: usize) {
    let (payload, mut bytes) = (vec![7; len], vec![0; len + 64]);
    let (headers, seed) = (headers("RC WRITE Middle"), seed());
    let len = Packet::new(headers, &payload).emit(&seed, 3, &mut bytes);
    bencher.bench_local(|| black_box(&seed).solve_id(black_box(&bytes[..len])));
}

#[divan::bench(args = PAYLOADS)]
fn solve_guessed_id(bencher: Bencher, len: usize) {
    let (payload, mut bytes) = (vec![7; len], vec![0; len + 64]);
    let (headers, seed) = (headers("RC WRITE Middle"), seed());
    let len = Packet::new(headers, &payload).emit(&seed, 3, &mut bytes);
    bencher.bench_local(|| black_box(&seed).solve_id_from(black_box(3), black_box(&bytes[..len])));
}
