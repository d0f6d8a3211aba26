//! Benchmarks of P4 programs: nanoseconds per packet in ingress and in egress, with fixed-function blocks that do
//! nothing.
#![allow(missing_docs, reason = "a program, not a library")]

use divan::{Bencher, black_box};
use rnic_nano::{NicParameters, P4Header, P4Pipeline};
use rnic_transport::Time;
use rnic_transport::message::{
    Arrival, Blocks, CreditToBtxEvent, CtrlPktEvent, DeliveredEvent, Departure, Pipeline, RxMsgInfo, RxMsgInfoRequest,
    flags,
};
use std::path::Path;

fn main() {
    divan::main();
}

/// Fixed-function blocks that report every packet as a new packet of a known message.
struct Known;

impl Blocks for Known {
    fn get_rx_msg_info(&mut self, request: &RxMsgInfoRequest) -> RxMsgInfo {
        RxMsgInfo { is_new_pkt: true, ack_no: request.pkt_offset, rx_msg_id: 3, ..RxMsgInfo::default() }
    }
    fn delivered(&mut self, event: &DeliveredEvent) {
        black_box(event);
    }
    fn credit_to_btx(&mut self, event: &CreditToBtxEvent) {
        black_box(event);
    }
    fn ctrl_pkt(&mut self, event: &CtrlPktEvent) {
        black_box(event);
    }
}

fn pipeline(program: &str) -> P4Pipeline<64> {
    let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/programs").join(program);
    let program = rnic_nano::compile_file(&path, &[]).unwrap_or_else(|error| panic!("{error}"));
    let nic = NicParameters { ip: 7, rtt_pkts: 9, mtu: 1024, ..NicParameters::default() };
    P4Pipeline::new(&program, &nic).expect("room for its header")
}

fn departure(kind: &str) -> Departure {
    let flags = if kind == "data" { flags::DATA } else { flags::ACK | flags::PULL };
    let (tx_msg_id, msg_len, pkt_offset) = (2, 38 * 1024, 5);
    Departure { now: Time::from_us(1), dst_ip: 9, tx_msg_id, msg_len, pkt_offset, flags, ..Departure::default() }
}

const CASES: [(&str, &str); 4] = [
    ("receiver-driven.p4", "data"),
    ("receiver-driven.p4", "control"),
    ("scheduled.p4", "data"),
    ("scheduled.p4", "control"),
];

#[divan::bench(args = CASES, sample_size = 64)]
fn ingress(bencher: Bencher, &(program, kind): &(&str, &str)) {
    let mut pipeline = pipeline(program);
    let header: P4Header<64> = pipeline.egress(&departure(kind)).header;
    let arrival = Arrival {
        now: Time::from_us(2),
        frame_bytes: 1088,
        trimmed: false,
        returned: false,
        marked: false,
        telemetry: None,
    };
    bencher.bench_local(|| pipeline.ingress(&mut Known, black_box(&header), black_box(&arrival)));
}

#[divan::bench(args = CASES, sample_size = 64)]
fn egress(bencher: Bencher, &(program, kind): &(&str, &str)) {
    let (mut pipeline, departure) = (pipeline(program), departure(kind));
    bencher.bench_local(|| pipeline.egress(black_box(&departure)));
}
