//! Checks alpha and window of DCTCP after each observation window against values computed by hand.

use rnic_transport::congestion::{
    AckSample, CongestionControl, Dctcp, DctcpParams, LossSignal, Marking, Settings, Value,
};
use rnic_transport::{BitRate, Bytes, FlowConfig, Time};

struct Flow {
    params: DctcpParams,
    cc: Dctcp,
}

impl Flow {
    fn new(given: &[(&str, Value)]) -> Flow {
        let flow = FlowConfig::default();
        let mut settings = Settings::new(Dctcp::PARAMETERS);
        for (name, value) in given {
            settings.set(name, value.clone()).unwrap();
        }
        let params = Dctcp::params(&settings, &flow).unwrap();
        Flow { params, cc: Dctcp::new(&params, &flow, Time::ZERO) }
    }
    fn ack(&mut self, acked: u32, in_flight: u32, marked: bool) {
        let sample = AckSample { now: Time::ZERO, rtt: Time::from_us(24), acked, in_flight, marked };
        self.cc.on_ack(&self.params, &sample);
    }
    /// Delivers `packets` ACKs of one packet each, the first `marked` of them with an ECN echo.
    fn acks(&mut self, packets: u32, marked: u32, in_flight: u32) {
        for packet in 0..packets {
            self.ack(1, in_flight, packet < marked);
        }
    }
    fn lose(&mut self, signal: LossSignal) {
        self.cc.on_loss(&self.params, Time::ZERO, signal);
    }
    fn state(&self) -> (f64, u32) {
        (self.cc.alpha(), self.cc.window())
    }
}

/// The gain g is 1/16, and alpha is 1 at first. 100 packets are always in flight, fewer than the window, so the window
/// does not grow. Each observation window after the first has 100 packets.
#[test]
fn alpha_follows_the_marked_fraction() {
    let mut flow = Flow::new(&[("initial_window", Value::Count(1_000))]);
    // 250 of 1000 packets are marked: alpha = 15/16 + 1/64 = 61/64; W = 1000 (1 - 61/128) = 523.4.
    flow.acks(999, 250, 100);
    assert_eq!(flow.state(), (1.0, 1_000));
    flow.acks(1, 0, 100);
    assert_eq!(flow.state(), (61.0 / 64.0, 523));
    // No packet of 100 is marked: alpha = 15/16 * 61/64 = 915/1024, no reduction.
    flow.acks(100, 0, 100);
    assert_eq!(flow.state(), (915.0 / 1_024.0, 523));
    // 50 of 100 packets are marked: alpha = 15/16 * 915/1024 + 1/32 = 14237/16384; W = 523.4375 (1 - 14237/32768) =
    // 296.01.
    flow.acks(99, 50, 100);
    assert_eq!(flow.state(), (915.0 / 1_024.0, 523));
    flow.acks(1, 0, 100);
    assert_eq!(flow.state(), (14_237.0 / 16_384.0, 296));
    // One marked packet is enough for a reduction: alpha = 15/16 * 14237/16384 + 1/1600 = 0.81527...; 296.01 * 0.59236
    // = 175.3.
    flow.acks(100, 1, 100);
    assert_eq!(flow.state().1, 175);
}

/// DCTCP counts ACKs and NACKs, not the packets that they acknowledge. An ACK that closes a gap and acknowledges 10
/// packets counts as one packet, like each of the 9 NACKs before it.
#[test]
fn every_reply_stands_for_one_packet() {
    let mut flow = Flow::new(&[("initial_window", Value::Count(10)), ("initial_alpha", Value::Number(0.0))]);
    for _ in 0..9 {
        flow.ack(0, 9, true);
    }
    assert_eq!(flow.state(), (0.0, 10));
    flow.ack(10, 0, false);
    // F = 9/10; alpha = 0.9/16. Before the reduction the window grows by 1 packet: 11 (1 - 0.028125) = 10.69.
    assert_eq!(flow.state(), (0.9 / 16.0, 10));
}

/// The window grows by one packet per round trip while it limits the flow.
#[test]
fn growth() {
    let mut flow = Flow::new(&[("initial_window", Value::Count(10))]);
    flow.ack(10, 0, false); // 10 + 10/10
    assert_eq!(flow.cc.window(), 11);
    flow.ack(11, 0, false);
    assert_eq!(flow.cc.window(), 12);
    flow.ack(1, 10, false); // 11 packets were in flight, fewer than the window of 12
    flow.ack(11, 0, false);
    assert_eq!(flow.cc.window(), 12);
    flow.ack(12, 0, false);
    assert_eq!(flow.cc.window(), 13);
}

/// The default window is the BDP, so flows start at line rate.
#[test]
fn starts_with_one_bdp() {
    assert_eq!(Flow::new(&[]).state(), (1.0, 111));
    assert_eq!(Flow::new(&[]).cc.rate(), BitRate::from_bps(u64::MAX));
}

#[test]
fn nacks_halve_once_for_what_is_in_flight() {
    let mut flow = Flow::new(&[("initial_window", Value::Count(64))]);
    flow.ack(0, 20, false);
    flow.lose(LossSignal::Nack);
    assert_eq!(flow.cc.window(), 32);
    flow.ack(19, 10, false);
    flow.lose(LossSignal::Nack); // one of the twenty packets is still unacknowledged
    assert_eq!(flow.cc.window(), 32);
    flow.ack(1, 10, false);
    flow.lose(LossSignal::Nack);
    assert_eq!(flow.cc.window(), 16);
}

/// Marks and losses within a window reduce it only once.
#[test]
fn a_loss_and_a_mark_are_one_cut() {
    let mut flow = Flow::new(&[("initial_window", Value::Count(64))]);
    flow.ack(63, 30, true);
    flow.lose(LossSignal::Nack); // 30 packets are in flight
    assert_eq!(flow.cc.window(), 32);
    flow.ack(1, 29, true); // the observation window ends with all packets marked: alpha stays 1
    assert_eq!(flow.state(), (1.0, 32));
    flow.ack(29, 20, true); // the 30 packets that were in flight at the loss are acknowledged
    assert!(flow.cc.window() <= 17, "{}", flow.cc.window());
}

/// A timeout reduces the window to one packet. Slow start follows up to half of the old window, then growth by one
/// packet per round trip.
#[test]
fn timeouts_start_slowly() {
    let mut flow = Flow::new(&[("initial_window", Value::Count(13))]);
    flow.lose(LossSignal::Timeout);
    let mut windows = vec![flow.cc.window()];
    for _ in 0..6 {
        for _ in 0..flow.cc.window() {
            let in_flight = flow.cc.window() - 1;
            flow.ack(1, in_flight, false);
        }
        windows.push(flow.cc.window());
    }
    // The threshold is 13 / 2 = 6. The window doubles up to 6 and then grows by one packet per window.
    assert_eq!(windows, [1, 2, 4, 6, 7, 8, 9]);
    // A second timeout at a window of one packet does not lower the threshold.
    flow.lose(LossSignal::Timeout); // the threshold becomes 4, half of 9
    flow.lose(LossSignal::Timeout);
    flow.ack(1, 0, false);
    assert_eq!(flow.cc.window(), 2);
    flow.ack(2, 0, false); // slow start: an acknowledgement of two packets adds one
    assert_eq!(flow.cc.window(), 3);
    flow.ack(3, 0, false);
    assert_eq!(flow.cc.window(), 4);
    flow.ack(4, 0, false); // 4 + 4/4
    flow.ack(1, 4, false); // one more packet
    assert_eq!(flow.cc.window(), 5);
}

/// K = 160 KB at 40 Gbps, with cut-off marking (Kmin = Kmax).
#[test]
fn marking_scales_with_the_line_rate() {
    for (gbps, k) in [(40, 160_000), (10, 40_000), (400, 1_600_000)] {
        let flow = FlowConfig { line_rate: BitRate::from_gbps(gbps), ..FlowConfig::default() };
        let params = Dctcp::params(&Settings::new(Dctcp::PARAMETERS), &flow).unwrap();
        assert_eq!(Dctcp::marking(&params, &flow), Some(Marking { kmin: Bytes(k), kmax: Bytes(k), pmax: 1.0 }));
    }
}
