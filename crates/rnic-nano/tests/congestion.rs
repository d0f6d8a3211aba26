//! Compares the congestion controls in P4 with the same ones in Rust: both get the same acknowledgements, notifications
//! and round-trip times, and must have the same window within the error of the programs' tables.

use rnic_nano::{NicParameters, P4Header, P4Pipeline, compile_file};
use rnic_transport::congestion::{AckSample, CongestionControl, Dcqcn, LossSignal, Settings, Swift};
use rnic_transport::message::{
    Arrival, Blocks, CreditToBtxEvent, CtrlPktEvent, DeliveredEvent, Departure, Pipeline, RxMsgInfo, RxMsgInfoRequest,
    flags,
};
use rnic_transport::{BitRate, Bytes, FlowConfig, Time};
use std::path::Path;

const RTT_PKTS: u32 = 10_000;
const MTU: u32 = 1_024;
const LINE_MBPS: u32 = 200_000;
const BASE_RTT: Time = Time::from_us(10);
const MESSAGE: u32 = 0x1_0003;
/// Packets between two acknowledgements, more than any window: then the credit is the acknowledgement plus the window,
/// although credit never falls.
const STEP: u32 = 40_000;
/// DCQCN's flag of a notification.
const CNP: u8 = 64;

/// Records the last credit of the message, and the flags of control packets.
#[derive(Default)]
struct Recorder {
    credit: u32,
    sent: Vec<u8>,
    info: RxMsgInfo,
}

impl Blocks for Recorder {
    fn get_rx_msg_info(&mut self, _: &RxMsgInfoRequest) -> RxMsgInfo {
        self.info
    }
    fn delivered(&mut self, _: &DeliveredEvent) {}
    fn credit_to_btx(&mut self, event: &CreditToBtxEvent) {
        self.credit = event.credit.expect("each acknowledgement states a credit");
    }
    fn ctrl_pkt(&mut self, event: &CtrlPktEvent) {
        self.sent.push(event.immediate);
    }
}

/// The sender of one message, which runs a program of `p4/`.
struct Sender {
    program: P4Pipeline<256>,
    header: P4Header<256>,
    ack_no: u32,
}

impl Sender {
    fn new(name: &str, constants: &[(&str, u128)]) -> Sender {
        let file = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../p4").join(name);
        let constants: Vec<_> = constants.iter().map(|(name, value)| ((*name).to_string(), *value)).collect();
        let program = compile_file(&file, &constants).unwrap_or_else(|what| panic!("{what}"));
        let nic = NicParameters {
            ip: 1,
            rtt_pkts: RTT_PKTS,
            mtu: MTU as u16,
            line_rate_mbps: LINE_MBPS,
            base_rtt_ns: (BASE_RTT.as_ps() / 1_000) as u32,
            ..NicParameters::default()
        };
        let mut program = P4Pipeline::new(&program, &nic).unwrap();
        // The header of a data packet, of which tests make acknowledgements.
        let (bytes, payload) = (1 << 30, MTU);
        let first = Departure {
            tx_msg_id: MESSAGE,
            msg_len: bytes,
            flags: flags::DATA,
            is_new_msg: true,
            payload,
            ..Departure::default()
        };
        let header = program.egress(&first).header;
        Sender { program, header, ack_no: 0 }
    }

    /// An acknowledgement at `now` for a packet that was sent at `sent`; returns the window in packets.
    fn ack(&mut self, now: Time, sent: Time, flags: u8) -> u32 {
        self.ack_no += STEP;
        let mut header = self.header;
        let ns = (sent.as_ps() / 1_000) as u32;
        header.bytes[50..54].copy_from_slice(&self.ack_no.to_be_bytes());
        header.bytes[55] = flags;
        if header.len > 56 {
            header.bytes[56..60].copy_from_slice(&ns.to_be_bytes());
        }
        let mut blocks = Recorder::default();
        self.program.ingress(&mut blocks, &header, &arrival(now, false));
        assert_eq!(self.program.counters(), Default::default());
        blocks.credit - self.ack_no
    }
}

fn arrival(now: Time, marked: bool) -> Arrival<'static> {
    Arrival { now, frame_bytes: 1_088, trimmed: false, returned: false, marked, telemetry: None }
}

fn flow() -> FlowConfig {
    FlowConfig {
        mtu: MTU,
        line_rate: BitRate::from_bps(u64::from(LINE_MBPS) * 1_000_000),
        base_rtt: BASE_RTT,
        bdp: RTT_PKTS,
        ..FlowConfig::default()
    }
}

/// A generator of numbers that look random (Knuth's MMIX).
struct Numbers(u64);

impl Numbers {
    fn below(&mut self, limit: u64) -> u64 {
        self.0 = self.0.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
        (self.0 >> 33) % limit
    }
}

/// An acknowledgement each microsecond for 30 ms. Notifications come in bursts; the pauses are long enough for additive
/// and hyper increase, because both counters pass fast recovery.
#[test]
fn dcqcn_has_the_rate_of_the_control_in_rust() {
    const BYTE_COUNTER: u64 = 2_000_000_000;
    let mut settings = Settings::new(Dcqcn::PARAMETERS);
    settings.set("byte_counter", Bytes(BYTE_COUNTER).into()).unwrap();
    let params = Dcqcn::params(&settings, &flow()).unwrap();
    let mut native = Dcqcn::new(&params, &flow(), Time::ZERO);
    let mut sender = Sender::new("dcqcn.p4", &[("BYTE_COUNTER", BYTE_COUNTER.into())]);
    let mut numbers = Numbers(7);
    let (mut next_cnp, mut lowest, mut cnps) = (500, u32::MAX, 0);
    for us in 1..30_000 {
        let now = Time::from_us(us);
        while native.next_timer().is_some_and(|at| at < now) {
            let at = native.next_timer().unwrap();
            native.on_timer(&params, at);
        }
        native.on_send(&params, now, STEP * MTU);
        let notified = us == next_cnp;
        if notified {
            native.on_cnp(&params, now);
            next_cnp += if numbers.below(12) == 0 { 5_000 } else { 50 + numbers.below(400) };
            cnps += 1;
        }
        let window = sender.ack(now, now, flags::ACK | if notified { CNP } else { 0 });
        let expected = native.rate().as_bps() as f64 / 200e9 * f64::from(RTT_PKTS);
        let error = (f64::from(window) - expected).abs();
        assert!(error <= 0.004 * expected + 1.0, "{us} us: {window} packets, {expected} in Rust");
        lowest = lowest.min(window);
    }
    assert!(cnps > 30 && lowest < RTT_PKTS / 2, "{cnps} notifications, {lowest} packets");
}

/// The receiver notifies at most once in 50 us, and a new message at once.
#[test]
fn dcqcn_notifies_once_per_interval() {
    let mut receiver = Sender::new("dcqcn.p4", &[]);
    let header = receiver.header;
    let mut at = |us: u64, marked: bool, is_new_msg: bool| {
        let info = RxMsgInfo { rx_msg_id: 5, is_new_msg, is_new_pkt: true, ..RxMsgInfo::default() };
        let mut blocks = Recorder { info, ..Recorder::default() };
        receiver.program.ingress(&mut blocks, &header, &arrival(Time::from_us(us), marked));
        blocks.sent == [flags::ACK | CNP]
    };
    assert_eq!([at(1, true, true), at(2, true, false), at(50, true, false)], [true, false, false]);
    assert_eq!([at(51, false, false), at(52, true, false), at(101, true, false)], [false, true, false]);
    assert_eq!([at(102, true, false), at(103, true, true), at(104, true, false)], [true, true, false]);
}

/// Swift's target of the round-trip time in nanoseconds for a window in packets, with its default parameters.
fn swift_target(window: f64) -> f64 {
    let base = 2.0 * BASE_RTT.as_us() * 1e3;
    let alpha = 4.0 * base / (1.0 / 0.1_f64.sqrt() - 1.0 / 100.0_f64.sqrt());
    base + (alpha / window.sqrt() - alpha / 100.0_f64.sqrt()).clamp(0.0, 4.0 * base)
}

/// Round-trip times between a half and fifteen of the base, which change slowly and fast, with losses. None is within
/// 3 % of the target: there the error of the program's table of roots decides whether the window grows or falls.
#[test]
fn swift_has_the_window_of_the_control_in_rust() {
    let params = Swift::params(&Settings::new(Swift::PARAMETERS), &flow()).unwrap();
    let mut native = Swift::new(&params, &flow(), Time::ZERO);
    let mut sender = Sender::new("swift.p4", &[]);
    let mut numbers = Numbers(3);
    let (mut lowest, mut highest) = (f64::MAX, 0.0_f64);
    let mut rtt_ns = 15_000;
    for step in 1..60_000_u64 {
        let now = Time::from_us(200 + step);
        // Phases of 2 ms each: short delays, long delays, random ones.
        rtt_ns = match step / 2_000 % 3 {
            0 => 5_000 + numbers.below(12_000),
            1 => (rtt_ns + 70).min(150_000),
            _ => 5_000 + numbers.below(75_000),
        };
        let target = swift_target(native.exact_window());
        if (rtt_ns as f64 / target - 1.0).abs() < 0.03 {
            rtt_ns = (target * 1.04) as u64;
        }
        let rtt = Time::from_ns(rtt_ns);
        let is_loss = numbers.below(1_000) == 0;
        let window = if is_loss {
            native.on_loss(&params, now, LossSignal::Nack);
            sender.ack(now, now.saturating_sub(rtt), flags::NACK)
        } else {
            native.on_ack(&params, &AckSample { now, rtt, acked: 1, in_flight: 1 << 20, marked: false });
            sender.ack(now, now.saturating_sub(rtt), flags::ACK)
        };
        let expected = native.exact_window();
        (lowest, highest) = (lowest.min(expected), highest.max(expected));
        let error = (f64::from(window) - expected.max(1.0)).abs();
        assert!(error <= 0.02 * expected + 1.0, "step {step}: {window} packets, {expected} in Rust");
    }
    assert!(lowest < 3.0 && highest > 5_000.0, "{lowest} to {highest} packets");
}
