//! Checks HPCC after each ACK against values computed by hand.

use rnic_transport::congestion::{AckSample, CongestionControl, Hpcc, HpccParams, Settings, Value};
use rnic_transport::recovery::Irn;
use rnic_transport::telemetry::{HopRecord, Telemetry};
use rnic_transport::{BitRate, Bytes, FlowConfig, Pdu, Psn, Sender, Time};

/// A flow at 80 Gbps (10 bytes per nanosecond) with T = 10 us. Its maximum window is 100,000 bytes, or 100 packets of
/// 1,000 bytes.
struct Flow {
    params: HpccParams,
    cc: Hpcc,
}

fn config() -> FlowConfig {
    let (line_rate, base_rtt) = (BitRate::from_gbps(80), Time::from_us(10));
    FlowConfig { mtu: 900, header: 100, line_rate, base_rtt, ..FlowConfig::default() }
}

/// A link of 80 Gbps.
fn link(timestamp_ns: u32, tx_bytes: u32, queue_bytes: u32) -> HopRecord {
    HopRecord { timestamp_ns, tx_bytes, queue_bytes, rate_mbps: 80_000 }
}

impl Flow {
    /// Creates a flow with W_AI = 1,000 bytes and a target utilization `eta` of one half.
    fn new(given: &[(&str, Value)]) -> Flow {
        let mut settings = Settings::new(Hpcc::PARAMETERS);
        let usual = [("w_ai", Value::Bytes(Bytes(1_000))), ("eta", Value::Number(0.5))];
        for (name, value) in usual.iter().chain(given) {
            settings.set(name, value.clone()).unwrap();
        }
        let params = Hpcc::params(&settings, &config()).unwrap();
        Flow { params, cc: Hpcc::new(&params, &config(), Time::ZERO) }
    }
    /// Delivers an ACK of `acked` packets, after which `in_flight` packets are in flight, and checks the window in
    /// packets.
    #[track_caller]
    fn ack(&mut self, hops: &[HopRecord], acked: u32, in_flight: u32, window: u32) {
        let mut telemetry = Telemetry::default();
        hops.iter().for_each(|hop| telemetry.push(*hop));
        self.cc.on_telemetry(&self.params, Time::ZERO, &telemetry);
        let (now, rtt) = (Time::ZERO, Time::from_us(10));
        self.cc.on_ack(&self.params, &AckSample { now, rtt, acked, in_flight, marked: false });
        assert_eq!(self.cc.window(), window);
    }
    #[track_caller]
    fn uses(&self, usage: f64) {
        assert!((self.cc.utilization() - usage).abs() < 1e-9, "{}", self.cc.utilization());
    }
}

#[test]
fn a_flow_begins_at_line_rate() {
    let flow = Flow::new(&[]);
    assert_eq!((flow.cc.window(), flow.cc.rate()), (100, BitRate::from_gbps(80)));
    let capped = FlowConfig { max_rate: Some(BitRate::from_gbps(8)), ..config() };
    let params = Hpcc::params(&Settings::new(Hpcc::PARAMETERS), &capped).unwrap();
    let cc = Hpcc::new(&params, &capped, Time::ZERO);
    assert_eq!((cc.window(), cc.rate()), (10, BitRate::from_gbps(8)));
}

/// In 5 us the link sends 50,000 bytes, which is its full rate. Its queue has 20,000 and then 30,000 bytes, of which
/// the minimum counts: u = 20,000 / 100,000 + 1. The moving average is U = 1 / 2 + 1.2 / 2.
#[test]
fn the_window_follows_the_use_of_a_link() {
    let mut flow = Flow::new(&[]);
    flow.ack(&[link(0, 0, 20_000)], 1, 99, 100);
    flow.ack(&[link(5_000, 50_000, 30_000)], 1, 99, 47);
    flow.uses(1.1);
    // W = 100,000 * 0.5 / 1.1 + 1,000 = 46,454.5: 37.16 Gbps.
    assert_eq!(flow.cc.rate().as_bps() / 1_000, 37_163_636);
    // Within the round trip the reference window stays. After 10 us or more, U is the new measurement alone: 1 + 0.3. W
    // = 39,461.5.
    flow.ack(&[link(15_000, 150_000, 40_000)], 1, 90, 40);
    flow.uses(1.3);
    // The acknowledgement of 98 more packets ends the round trip. The link has sent at half of its rate, and its queue
    // is empty. W = 100,000 * 0.5 / 0.5 + 1,000 exceeds the maximum window, which applies.
    flow.ack(&[link(25_000, 200_000, 0)], 98, 40, 100);
    flow.uses(0.5);
    // The maximum window is the reference window now. A quarter of the link is in use, so an additive step follows, but
    // the window stays at its maximum.
    flow.ack(&[link(35_000, 225_000, 0)], 1, 40, 100);
    flow.uses(0.25);
}

/// Below the target the window grows by one additive step per round trip, `max_stage` times, and then by a
/// multiplicative step.
#[test]
fn stages() {
    let mut flow = Flow::new(&[("max_stage", Value::Count(2))]);
    flow.ack(&[link(0, 0, 0)], 1, 0, 100);
    // Each of the following ACKs ends a round trip. The link is fully used, at first without a queue: W = 100,000 * 0.5
    // / 1 + 1,000 = 51,000.
    flow.ack(&[link(10_000, 100_000, 60_000)], 1, 0, 51);
    flow.ack(&[link(20_000, 200_000, 60_000)], 1, 0, 17);
    // The queue had 60,000 bytes in both records: W = 51,000 * 0.5 / 1.6 + 1,000 = 16,937.5. Then a fifth of the link
    // is in use, which gives additive steps 1 and 2.
    flow.ack(&[link(30_000, 220_000, 0)], 1, 0, 18);
    flow.ack(&[link(40_000, 240_000, 0)], 1, 0, 19);
    // A multiplicative step follows: W = 18,937.5 * 0.5 / 0.2 + 1,000 = 48,343.75. Then additive step 1 again.
    flow.ack(&[link(50_000, 260_000, 0)], 1, 0, 49);
    flow.ack(&[link(60_000, 280_000, 0)], 1, 0, 50);
}

/// The second link has half the rate of the first. The same traffic uses a quarter of the first link and half of the
/// second. Timestamps and byte counters wrap.
#[test]
fn the_most_used_link_counts() {
    let slow = |timestamp_ns, tx_bytes| HopRecord { rate_mbps: 40_000, ..link(timestamp_ns, tx_bytes, 0) };
    let mut flow = Flow::new(&[]);
    flow.ack(&[link(u32::MAX, u32::MAX - 9, 0), slow(u32::MAX - 99, 7)], 1, 99, 100);
    flow.ack(&[link(9_999, 24_990, 0), slow(9_900, 25_007)], 1, 98, 100);
    flow.uses(0.5);
}

#[test]
fn records_that_say_nothing_change_nothing() {
    let mut flow = Flow::new(&[]);
    flow.ack(&[link(1_000, 0, 90_000)], 1, 99, 100);
    // The ACKs carry records of another path, then of the same instant, then of an earlier instant. None of them
    // changes the window.
    flow.ack(&[link(2_000, 10_000, 90_000), link(2_000, 10_000, 90_000)], 1, 98, 100);
    flow.ack(&[link(3_000, 20_000, 90_000)], 1, 97, 100);
    flow.ack(&[link(3_000, 20_000, 90_000)], 1, 96, 100);
    flow.ack(&[link(2_500, 20_000, 90_000)], 1, 95, 100);
    flow.uses(1.0);
    // The sender stored the records of each ACK. Since the last records, 10 us have passed with a queue of 90,000
    // bytes.
    flow.ack(&[link(12_500, 120_000, 90_000)], 1, 94, 28);
    flow.uses(1.9);
}

#[test]
fn the_additive_step_follows_from_the_flows() {
    let step = |given: &[(&str, Value)]| {
        let mut settings = Settings::new(Hpcc::PARAMETERS);
        given.iter().for_each(|(name, value)| settings.set(name, value.clone()).unwrap());
        let params = Hpcc::params(&settings, &config()).unwrap();
        let mut flow = Flow { params, cc: Hpcc::new(&params, &config(), Time::ZERO) };
        // The link is fully used and has a queue of 9 windows: W is 100,000 * 0.95 / 10 + W_AI.
        flow.cc.on_telemetry(&params, Time::ZERO, &of(link(0, 0, 900_000)));
        flow.cc.on_telemetry(&params, Time::ZERO, &of(link(10_000, 100_000, 900_000)));
        let (now, rtt) = (Time::ZERO, Time::from_us(10));
        flow.cc.on_ack(&params, &AckSample { now, rtt, acked: 1, in_flight: 9, marked: false });
        flow.cc.rate().as_bps() as f64 * 1e-5 / 8.0 - 9_500.0
    };
    // W_AI = 100,000 * 0.05 / N for N flows.
    for (given, expected) in [
        (&[][..], 312.5),
        (&[("flows", Value::Count(5))], 1_000.0),
        (&[("w_ai", Value::Bytes(Bytes(80)))], 80.0),
        (&[("flows", Value::Count(1_000_000))], 1.0),
    ] {
        assert!((step(given) - expected).abs() < 0.01, "{given:?}: {}", step(given));
    }
}

fn of(hop: HopRecord) -> Telemetry {
    let mut telemetry = Telemetry::default();
    telemetry.push(hop);
    telemetry
}

/// A flow passes the telemetry of an ACK to its congestion control before the ACK itself. It ignores the telemetry of
/// other packets.
#[test]
fn a_flow_passes_telemetry_on() {
    let cfg = config();
    let params = Hpcc::params(&Settings::new(Hpcc::PARAMETERS), &cfg).unwrap();
    let mut sender = Sender::<Irn, Hpcc>::new(&cfg, &params, 1_000_000, Time::ZERO);
    let stamps: Vec<Pdu> = (0..3).map(|_| sender.poll_transmit(&cfg, &params, Time::from_us(1)).unwrap().pdu).collect();
    let ack = |index: u32| Pdu::ack(Psn::new(index + 1), stamps[index as usize].stamp());
    sender.handle_with(&cfg, &params, Time::from_us(9), ack(0), &of(link(0, 0, 50_000)));
    sender.handle_with(&cfg, &params, Time::from_us(9), Pdu::cnp(), &of(link(4_000, 0, 0)));
    sender.handle_with(&cfg, &params, Time::from_us(9), ack(1), &of(link(10_000, 100_000, 50_000)));
    assert!((sender.congestion().utilization() - 1.5).abs() < 1e-9);
    assert_eq!(sender.congestion().window(), 64, "95,000 / 1.5 and the step of 312.5");
}
