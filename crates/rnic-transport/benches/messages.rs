//! Measures the time per packet of message transports, for the transport program alone and for the whole NIC.
//!
//! Two NICs exchange messages in memory without losses. `pipeline` records every call of the two programs with the
//! results of the blocks, and measures the replay of these calls: the time per packet, control packets included, is
//! the time of one egress and one ingress. `nic` measures the whole exchange: the time per data packet includes both
//! NICs and the control packets.
//!
//! To count instructions, run `valgrind --tool=callgrind --toggle-collect='*replay*' BENCH --test CASE`, or with
//! `'*exchange*'`.
#![allow(missing_docs, reason = "a program, not a library")]

use divan::Bencher;
use divan::counter::ItemsCount;
use rnic_transport::Time;
use rnic_transport::message::programs::{Homa, HomaSettings, Hpcc, HpccSettings, Ndp};
use rnic_transport::message::{
    Arrival, Blocks, CreditToBtxEvent, CtrlPktEvent, DeliveredEvent, Departure, Framed, Message, MessageNic, NicConfig,
    Pipeline, RxMsgInfo, RxMsgInfoRequest, Verdict,
};
use rnic_transport::telemetry::{HopRecord, Telemetry};
use std::hint::black_box;

/// Number of messages of `pipeline`: small enough for the recorded calls to fit into a cache.
const RECORDED: u32 = 64;
/// Number of messages of `nic`.
const EXCHANGED: u32 = 512;
/// Number of outstanding messages.
const WINDOW: usize = 16;
/// Length of each message: 38 packets, the longest message of the NanoTransport paper.
const BYTES: u32 = 38 * MTU;
pub(crate) const MTU: u32 = 1_024;
pub(crate) const RTT_PKTS: u32 = 9;

fn main() {
    divan::main();
}

/// A program to measure.
pub(crate) trait Case {
    type Program: Pipeline + Clone;
    fn program(ip: u32) -> Self::Program;
}

struct NdpCase;
impl Case for NdpCase {
    type Program = Ndp;
    fn program(ip: u32) -> Ndp {
        Ndp::new(ip, MTU, RTT_PKTS)
    }
}

struct HomaCase;
impl Case for HomaCase {
    type Program = Homa;
    fn program(ip: u32) -> Homa {
        let settings = HomaSettings {
            mtu: MTU,
            rtt_pkts: RTT_PKTS,
            unscheduled_priorities: 1,
            scheduled_priorities: 3,
            overcommitment: 3,
            trimming: false,
        };
        Homa::new(ip, settings)
    }
}

struct HpccCase;
impl Case for HpccCase {
    type Program = Hpcc;
    fn program(ip: u32) -> Hpcc {
        let settings = HpccSettings {
            mtu: MTU,
            rtt_pkts: RTT_PKTS,
            base_rtt_ns: 525,
            additive_bytes: 80,
            target: 62_259,
            max_stages: 5,
        };
        Hpcc::new(ip, settings)
    }
}

/// A recorded call of a pipeline: its arguments, and the result of `GetRxMsgInfo`.
#[derive(Clone)]
enum Step<H> {
    In(H, Time, Telemetry, RxMsgInfo),
    Out(Departure),
}

/// A program whose calls are recorded.
#[derive(Clone)]
struct Recording<P: Pipeline> {
    program: P,
    steps: Vec<Step<P::Header>>,
}

struct Tap<'a, B> {
    blocks: &'a mut B,
    info: RxMsgInfo,
}

impl<B: Blocks> Blocks for Tap<'_, B> {
    fn get_rx_msg_info(&mut self, request: &RxMsgInfoRequest) -> RxMsgInfo {
        self.info = self.blocks.get_rx_msg_info(request);
        self.info
    }
    fn delivered(&mut self, event: &DeliveredEvent) {
        self.blocks.delivered(event);
    }
    fn credit_to_btx(&mut self, event: &CreditToBtxEvent) {
        self.blocks.credit_to_btx(event);
    }
    fn ctrl_pkt(&mut self, event: &CtrlPktEvent) {
        self.blocks.ctrl_pkt(event);
    }
}

impl<P: Pipeline> Pipeline for Recording<P> {
    type Header = P::Header;
    fn ingress<B: Blocks>(&mut self, blocks: &mut B, header: &P::Header, arrival: &Arrival<'_>) -> Verdict {
        let mut tap = Tap { blocks, info: RxMsgInfo::default() };
        let verdict = self.program.ingress(&mut tap, header, arrival);
        let telemetry = arrival.telemetry.copied().unwrap_or_default();
        self.steps.push(Step::In(*header, arrival.now, telemetry, tap.info));
        verdict
    }
    fn egress(&mut self, departure: &Departure) -> Framed<P::Header> {
        self.steps.push(Step::Out(*departure));
        self.program.egress(departure)
    }
}

/// Blocks that return the recorded result and ignore all events.
struct Recorded(RxMsgInfo);

impl Blocks for Recorded {
    fn get_rx_msg_info(&mut self, request: &RxMsgInfoRequest) -> RxMsgInfo {
        black_box(request);
        self.0
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

/// Replays recorded calls.
#[inline(never)]
fn replay<P: Pipeline>(program: &mut P, steps: &[Step<P::Header>]) {
    for step in steps {
        match step {
            Step::In(header, now, telemetry, info) => {
                let arrival = Arrival {
                    now: *now,
                    frame_bytes: 0,
                    trimmed: false,
                    returned: false,
                    marked: false,
                    telemetry: Some(telemetry),
                };
                black_box(program.ingress(&mut Recorded(*info), header, &arrival));
            }
            Step::Out(departure) => {
                black_box(program.egress(departure));
            }
        }
    }
}

/// Sends messages from the first NIC to the second until all are acknowledged; returns the number of packets, control
/// packets included.
#[inline(never)]
fn exchange<P: Pipeline>(cfg: &NicConfig, nics: &mut [MessageNic<P>; 2], messages: u32) -> usize {
    let (mut now, mut packets, mut left, mut under_way, mut done) = (Time::ZERO, 0, messages, 0, 0);
    while done < messages {
        while under_way < WINDOW && left > 0 {
            let message = Message { dst_ip: 1, bytes: BYTES, ..Message::default() };
            nics[0].send(cfg, now, &message).expect("there is no limit");
            (under_way, left) = (under_way + 1, left - 1);
        }
        now += cfg.pace;
        // One data packet per step, and the control packets that respond to it.
        for (from, max) in [(0, 1), (1, 2)] {
            for _ in 0..max {
                let Some(packet) = nics[from].poll_transmit(cfg, now) else { break };
                let mut telemetry = Telemetry::default();
                telemetry.push(HopRecord {
                    timestamp_ns: (now.as_ps() / 1_000) as u32,
                    tx_bytes: packets as u32 * 544,
                    queue_bytes: 0,
                    rate_mbps: 200_000,
                });
                let frame_bytes = 64 + packet.payload as u16;
                let telemetry = Some(&telemetry);
                let arrival = Arrival { now, frame_bytes, trimmed: false, returned: false, marked: false, telemetry };
                nics[1 - from].receive(cfg, &packet.header, &arrival);
                packets += 1;
            }
        }
        while nics[0].poll_event().is_some() {
            (under_way, done) = (under_way - 1, done + 1);
        }
    }
    packets
}

fn settings() -> NicConfig {
    NicConfig { mtu: MTU, rtt_pkts: RTT_PKTS, timeout: Time::from_ms(100), ..NicConfig::default() }
}

fn nics<P: Pipeline>(program: impl Fn(u32) -> P) -> [MessageNic<P>; 2] {
    [0, 1].map(|ip| MessageNic::new(&settings(), program(ip)))
}

#[divan::bench(types = [NdpCase, HomaCase, HpccCase])]
pub(crate) fn pipeline<C: Case>(bencher: Bencher) {
    let cfg = settings();
    let mut recorded = nics(|ip| Recording { program: C::program(ip), steps: Vec::new() });
    let packets = exchange(&cfg, &mut recorded, RECORDED);
    let steps = recorded.map(|nic| nic.program().steps.clone());
    bencher.counter(ItemsCount::new(packets)).with_inputs(|| [0, 1].map(C::program)).bench_local_values(
        |mut programs| {
            for (program, steps) in programs.iter_mut().zip(&steps) {
                replay(program, steps);
            }
        },
    );
}

#[divan::bench(types = [NdpCase, HomaCase, HpccCase])]
pub(crate) fn nic<C: Case>(bencher: Bencher) {
    let cfg = settings();
    let packets = ItemsCount::new(EXCHANGED * BYTES.div_ceil(MTU));
    bencher.counter(packets).with_inputs(|| nics(C::program)).bench_local_values(|mut nics| {
        black_box(exchange(&cfg, &mut nics, EXCHANGED));
    });
}
