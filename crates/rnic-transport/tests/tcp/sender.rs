//! The sender: windows, loss recovery, retransmission timer.

use super::{config, us};
use crate::common::Source;
use rnic_transport::congestion::LossSignal;
use rnic_transport::recovery::{SendRecovery, Tcp, TcpSender};
use rnic_transport::{FlowConfig, Pdu, Psn, TcpConfig, Time};

fn with_sack(initial_window: u32) -> FlowConfig {
    config(TcpConfig { initial_window: Some(initial_window), ..TcpConfig::default() })
}

fn new_reno(initial_window: u32) -> FlowConfig {
    config(TcpConfig { initial_window: Some(initial_window), sack: false, ..TcpConfig::default() })
}

/// A sender that the test drives step by step.
struct Bench {
    cfg: FlowConfig,
    sender: Source<Tcp>,
    now: Time,
    losses: u32,
}

impl Bench {
    fn new(cfg: FlowConfig, packets: u64) -> Bench {
        let sender = Source::new(&cfg, &(), packets * 1_000, Time::ZERO);
        Bench { cfg, sender, now: Time::ZERO, losses: 0 }
    }

    /// Sends all segments that may be sent now; returns their positions.
    fn send(&mut self) -> Vec<u32> {
        let mut sent = Vec::new();
        while let Some(tx) = self.sender.poll_transmit(&self.cfg, &(), self.now) {
            sent.push(tx.pdu.psn().since(self.cfg.first_psn));
        }
        assert_eq!(self.sender.next_transmit(&self.cfg), None);
        sent
    }

    fn reply(&mut self, pdu: Pdu) -> &mut Bench {
        let progress = self.sender.handle(&self.cfg, &(), self.now, pdu);
        self.losses += u32::from(progress.loss == Some(LossSignal::Nack));
        self
    }

    fn psn(&self, position: u32) -> Psn {
        self.cfg.first_psn.plus(position)
    }

    /// Delivers an ACK of all segments before `expected`.
    fn ack(&mut self, expected: u32) -> &mut Bench {
        let pdu = Pdu::ack(self.psn(expected), Default::default());
        self.reply(pdu)
    }

    /// Delivers an ACK of all segments before `expected`, with a SACK block of the segments `first..=last`.
    fn sack(&mut self, expected: u32, first: u32, last: u32) -> &mut Bench {
        let pdu = Pdu::nack(self.psn(expected), self.psn(last), Default::default());
        self.reply(pdu.with_below(last - first))
    }

    fn cwnd(&self) -> u32 {
        self.sender.recovery().congestion_window()
    }

    /// The congestion window in bytes, the slow start threshold in bytes, and `pipe` in segments.
    fn state(&self) -> (u32, u32, u32) {
        let tcp = self.sender.recovery();
        (tcp.congestion_window(), tcp.slow_start_threshold(), tcp.pipe())
    }

    fn deadline(&self) -> Option<Time> {
        self.sender.deadline(&self.cfg).map(|(at, _)| at)
    }

    /// Advances the time until the timer fires.
    fn timeout(&mut self) -> &mut Bench {
        self.now = self.deadline().expect("the timer runs");
        assert!(self.sender.on_deadline(&self.cfg, &(), self.now).is_some());
        self
    }
}

const NEVER: u32 = u32::MAX;

/// RFC 5681 section 3.1: the initial window is 4, 3 or 2 segments, depending on the segment size.
#[test]
fn initial_window() {
    for (mss, segments) in [(500, 4), (1_095, 4), (1_096, 3), (2_190, 3), (2_191, 2), (9_000, 2)] {
        let tcp = TcpConfig::default();
        assert_eq!(tcp.initial_window_bytes(mss), segments * mss, "{mss}");
        let ten = TcpConfig { initial_window: Some(10), ..tcp };
        assert_eq!(ten.initial_window_bytes(mss), 10 * mss);
    }
    let mut flow = Bench::new(config(TcpConfig::default()), 100);
    assert_eq!(flow.state(), (4_000, NEVER, 0));
    assert_eq!(flow.send(), [0, 1, 2, 3]);
    assert_eq!(flow.state(), (4_000, NEVER, 4));
}

/// In slow start each acknowledged segment allows two new segments, so the window doubles in a round trip.
#[test]
fn slow_start_doubles() {
    let mut flow = Bench::new(config(TcpConfig::default()), 1_000);
    let mut next = flow.send().len() as u32;
    let mut acked = 0;
    for round in 1..=6 {
        while acked < next {
            acked += 1;
            flow.ack(acked);
            assert_eq!(flow.cwnd(), 4_000 + acked * 1_000);
            assert_eq!(flow.send().len(), 2);
        }
        next += 4 << round;
        assert_eq!(flow.state(), (4_000 << round, NEVER, 4 << round));
    }
}

/// Equation 2 adds one segment per acknowledgement, however many segments it acknowledges.
#[test]
fn slow_start_adds_at_most_a_segment() {
    let mut flow = Bench::new(config(TcpConfig::default()), 100);
    flow.send();
    assert_eq!(flow.ack(2).cwnd(), 5_000);
    assert_eq!(flow.send(), [4, 5, 6]);
    assert_eq!(flow.ack(7).cwnd(), 6_000);
    assert_eq!(flow.ack(7).cwnd(), 6_000, "an old one adds nothing");
}

/// A timeout sets ssthresh to half of the segments in flight. Below ssthresh the window grows by one segment per
/// acknowledgement, above it by SMSS * SMSS / cwnd.
#[test]
fn slow_start_ends_at_the_threshold() {
    for cfg in [with_sack(8), new_reno(8)] {
        let mut flow = Bench::new(cfg, 100);
        assert_eq!(flow.send(), [0, 1, 2, 3, 4, 5, 6, 7]);
        flow.timeout();
        assert_eq!(flow.state(), (1_000, 4_000, 0));
        assert_eq!(flow.send(), [0]);
        flow.ack(1);
        assert_eq!(flow.state(), (2_000, 4_000, 0));
        assert_eq!(flow.send(), [1, 2]);
        flow.ack(2);
        assert_eq!(flow.state(), (3_000, 4_000, 1));
        assert_eq!(flow.send(), [3, 4]);
        assert_eq!(flow.ack(3).cwnd(), 4_000);
        assert_eq!(flow.send(), [5, 6]);
        // 1,000,000 / 4,000 = 250; / 4,250 = 235; / 4,485 = 222; / 4,707 = 212; / 4,919 = 203
        for (expected, cwnd, sent) in [
            (4, 4_250, vec![7]),
            (5, 4_485, vec![8]),
            (6, 4_707, vec![9]),
            (7, 4_919, vec![10]),
            (8, 5_122, vec![11, 12]),
        ] {
            assert_eq!(flow.ack(expected).state().0, cwnd);
            assert_eq!(flow.send(), sent);
        }
        assert_eq!(flow.losses, 0);
    }
}

/// The window grows by at least one byte per acknowledgement, and not beyond the receive window.
#[test]
fn congestion_avoidance_at_its_limits() {
    let tcp = TcpConfig { initial_window: Some(8), receive_window: 4_500, ..TcpConfig::default() };
    let mut flow = Bench::new(config(tcp), 100);
    assert_eq!(flow.send(), [0, 1, 2, 3], "the receive window takes four segments");
    assert_eq!(flow.timeout().state(), (1_000, 2_000, 0));
    flow.send();
    for (expected, cwnd) in [(1, 2_000), (2, 2_500), (3, 2_900), (4, 3_244), (5, 3_552), (6, 3_833), (7, 4_093)] {
        assert_eq!(flow.ack(expected).cwnd(), cwnd);
        flow.send();
    }
    for (expected, cwnd) in [(8, 4_337), (9, 4_500), (10, 4_500)] {
        assert_eq!(flow.ack(expected).cwnd(), cwnd);
        flow.send();
    }
    let tcp = TcpConfig { initial_window: Some(4_000_000), receive_window: u32::MAX, ..TcpConfig::default() };
    let mut flow = Bench::new(config(tcp), 1 << 30);
    assert_eq!(flow.send().len(), 4_000_000);
    flow.timeout().send();
    let mut expected = 0;
    while flow.cwnd() < 2_000_000_000 {
        expected += 1;
        flow.ack(expected);
    }
    assert_eq!(flow.ack(expected + 1).cwnd(), 2_000_000_001);
}

/// Segment 0 of ten is lost. Each of the first two selective acknowledgements reduces `pipe` by one, so limited
/// transmit sends a new segment for each. These two segments do not count when ssthresh is set. The third selective
/// acknowledgement proves the loss.
#[test]
fn fast_retransmit_with_sack() {
    let mut flow = Bench::new(with_sack(10), 100);
    assert_eq!(flow.send().len(), 10);
    assert_eq!(flow.sack(0, 1, 1).state(), (10_000, NEVER, 9));
    assert_eq!(flow.send(), [10]);
    assert_eq!(flow.sack(0, 1, 2).state(), (10_000, NEVER, 9));
    assert_eq!(flow.send(), [11]);
    assert_eq!(flow.losses, 0);
    // Twelve segments are in flight; the window allowed ten of them. `pipe` is 12 - 3 selectively acknowledged - 1
    // lost.
    assert_eq!(flow.sack(0, 1, 3).state(), (5_000, 5_000, 8));
    assert!(flow.sender.recovery().in_fast_recovery());
    assert_eq!(flow.send(), [0]);
    assert_eq!(flow.state().2, 9);
    for (last, pipe) in [(4, 8), (5, 7), (6, 6), (7, 5)] {
        assert_eq!(flow.sack(0, 1, last).state(), (5_000, 5_000, pipe));
        assert_eq!(flow.send(), [0_u32; 0]);
    }
    for (last, new) in [(8, 12), (9, 13), (10, 14), (11, 15)] {
        assert_eq!(flow.sack(0, 1, last).state(), (5_000, 5_000, 4));
        assert_eq!(flow.send(), [new]);
    }
    assert_eq!(flow.losses, 1, "once per recovery");
    // The end of recovery does not change the window; congestion avoidance follows.
    assert_eq!(flow.ack(12).state(), (5_000, 5_000, 4));
    assert!(!flow.sender.recovery().in_fast_recovery());
    assert_eq!(flow.send(), [16]);
    assert_eq!(flow.ack(13).state(), (5_200, 5_000, 4));
    assert_eq!(flow.losses, 1);
}

/// Segments 0, 3 and 4 of ten are lost. After each acknowledgement `pipe` is as RFC 6675 section 4 defines it.
#[test]
fn several_losses_in_a_window_with_sack() {
    let mut flow = Bench::new(with_sack(10), 100);
    flow.send();
    flow.sack(0, 1, 1).send();
    flow.sack(0, 1, 2).send();
    // Segments 1, 2 and 5 of 12 are selectively acknowledged. Segment 0 is lost; `pipe` counts 3, 4 and 6 to 11.
    assert_eq!(flow.sack(0, 5, 5).state(), (5_000, 5_000, 8));
    assert_eq!(flow.send(), [0]);
    // Segments 1, 2, 5 and 6 are selectively acknowledged. Only segment 0 is proved lost; `pipe` counts 3, 4, 7 to 11,
    // and the retransmission of 0.
    assert_eq!(flow.sack(0, 5, 6).state().2, 8);
    assert_eq!(flow.send(), [0_u32; 0]);
    // Segments 1, 2, 5, 6 and 7 are selectively acknowledged, so 3 and 4 are lost. `pipe` counts 8 to 11 and the
    // retransmission of 0. The window is full.
    assert_eq!(flow.sack(0, 5, 7).state().2, 5);
    assert_eq!(flow.send(), [0_u32; 0]);
    // Each further selective acknowledgement allows one segment: first the lost segments, then new segments.
    for (last, sent) in [(8, 3), (9, 4), (10, 12), (11, 13)] {
        assert_eq!(flow.sack(0, 5, last).state().2, 4);
        assert_eq!(flow.send(), [sent]);
        assert_eq!(flow.state(), (5_000, 5_000, 5));
    }
    // `pipe` counts segments 3, 4, 12 and 13.
    assert_eq!(flow.ack(3).state(), (5_000, 5_000, 4));
    assert_eq!(flow.send(), [14]);
    assert_eq!(flow.ack(4).state().2, 4);
    assert_eq!(flow.send(), [15]);
    assert_eq!(flow.ack(12).state(), (5_000, 5_000, 4));
    assert_eq!(flow.send(), [16]);
    assert_eq!((flow.losses, flow.deadline()), (1, Some(Time::from_ms(1))));
}

/// A single acknowledgement proves a loss if its SACK block is long enough (RFC 6675 section 5, step 2).
#[test]
fn a_block_proves_a_loss_at_once() {
    let mut flow = Bench::new(with_sack(10), 100);
    flow.send();
    assert_eq!(flow.sack(0, 1, 2).losses, 0);
    let mut flow = Bench::new(with_sack(10), 100);
    flow.send();
    flow.sack(2, 3, 6);
    assert_eq!((flow.losses, flow.send()), (1, vec![2]));
    // The cumulative part of the acknowledgement raised the window to 11 segments, but only 8 are in flight, so the
    // threshold is 4.
    assert_eq!(flow.state(), (4_000, 4_000, 4));
    assert_eq!(flow.sack(2, 3, 6).losses, 1, "no news");
}

/// DupThresh is configurable.
#[test]
fn another_threshold() {
    for sack in [true, false] {
        for dup_thresh in [1, 2, 5] {
            let tcp = TcpConfig { sack, dup_thresh, initial_window: Some(10), ..TcpConfig::default() };
            let mut flow = Bench::new(config(tcp), 100);
            flow.send();
            for duplicate in 1..dup_thresh {
                flow.sack(0, 1, duplicate);
                assert_eq!(flow.send(), [9 + duplicate], "limited transmit");
                assert_eq!(flow.losses, 0);
            }
            flow.sack(0, 1, dup_thresh);
            assert_eq!((flow.losses, flow.send()), (1, vec![0]));
            assert_eq!(flow.state().1, 5_000);
        }
    }
}

/// NextSeg rule 3: if no lost segment and no new data remain to be sent, the sender retransmits a missing segment
/// before its loss is proved. This segment then counts twice in `pipe`.
#[test]
fn a_hole_is_filled_as_a_last_resort() {
    let mut flow = Bench::new(with_sack(6), 6);
    flow.send();
    assert_eq!(flow.sack(0, 1, 3).state(), (3_000, 3_000, 2));
    assert_eq!(flow.send(), [0]);
    assert_eq!(flow.sack(0, 5, 5).state(), (3_000, 3_000, 2));
    assert_eq!(flow.send(), [4]);
    assert_eq!(flow.state(), (3_000, 3_000, 3));
    flow.ack(6);
    assert!(flow.sender.is_complete() && flow.deadline().is_none());
}

/// NextSeg rule 4: the last segments were lost too, and no later segment can prove their loss. The sender makes one
/// rescue retransmission after the cumulative acknowledgement has passed the first retransmission.
#[test]
fn the_tail_is_rescued_once() {
    let mut flow = Bench::new(with_sack(8), 8);
    flow.send();
    flow.sack(0, 1, 3);
    assert_eq!(flow.send(), [0]);
    assert_eq!(flow.sack(0, 1, 5).state(), (4_000, 4_000, 3));
    assert_eq!(flow.send(), [0_u32; 0], "there is room, but the rescue has to wait");
    assert_eq!(flow.ack(6).state().2, 2);
    assert_eq!(flow.send(), [7]);
    assert_eq!(flow.sack(6, 7, 7).send(), [6], "a hole now");
    flow.ack(8);
    assert!(flow.sender.is_complete());
}

/// Segments 0 and 4 of ten are lost. The test checks the window inflation and the partial acknowledgement of RFC 6582
/// section 3.2.
#[test]
fn new_reno_partial_acknowledgement() {
    let mut flow = Bench::new(new_reno(10), 100);
    flow.send();
    assert_eq!((flow.ack(0).send(), flow.cwnd()), (vec![10], 10_000));
    assert_eq!((flow.ack(0).send(), flow.cwnd()), (vec![11], 10_000));
    assert_eq!(flow.ack(0).state(), (8_000, 5_000, 12));
    assert_eq!(flow.send(), [0]);
    for cwnd in [9_000, 10_000, 11_000, 12_000] {
        assert_eq!(flow.ack(0).cwnd(), cwnd);
        assert_eq!(flow.send(), [0_u32; 0]);
    }
    for (cwnd, new) in [(13_000, 12), (14_000, 13), (15_000, 14)] {
        assert_eq!(flow.ack(0).cwnd(), cwnd);
        assert_eq!(flow.send(), [new]);
    }
    assert_eq!(flow.losses, 1);
    // A partial acknowledgement of four segments: the window is 15 - 4 + 1 segments. The sender retransmits the next
    // missing segment and sends one new segment, because eleven segments are in flight.
    assert_eq!(flow.ack(4).state(), (12_000, 5_000, 11));
    assert_eq!(flow.send(), [4, 15]);
    for (cwnd, new) in [(13_000, 16), (14_000, 17)] {
        assert_eq!(flow.ack(4).cwnd(), cwnd);
        assert_eq!(flow.send(), [new]);
    }
    // The full acknowledgement passes the recovery point; five segments are in flight.
    assert_eq!(flow.ack(13).state(), (5_000, 5_000, 5));
    assert!(!flow.sender.recovery().in_fast_recovery());
    assert_eq!(flow.ack(14).state(), (5_200, 5_000, 4));
    assert_eq!((flow.send(), flow.losses), (vec![18], 1));
}

/// After a full acknowledgement the window is at most one segment larger than the data in flight, so there is no burst.
#[test]
fn new_reno_full_acknowledgement_avoids_a_burst() {
    let mut flow = Bench::new(new_reno(10), 12);
    flow.send();
    flow.ack(0).ack(0).ack(0);
    assert_eq!(flow.state(), (8_000, 5_000, 10));
    assert_eq!(flow.send(), [0]);
    assert_eq!(flow.ack(10).state(), (2_000, 5_000, 0));
    assert_eq!(flow.send(), [10, 11]);
}

/// Only the first partial acknowledgement restarts the timer.
#[test]
fn new_reno_is_impatient() {
    let mut flow = Bench::new(new_reno(10), 100);
    flow.send();
    flow.ack(0).ack(0).ack(0).send();
    assert_eq!(flow.deadline(), Some(us(1_000)));
    let stamped = |flow: &Bench, expected| Pdu::ack(flow.psn(expected), rnic_transport::pdu::Stamp::at(flow.now));
    for (now, expected, deadline) in [(100, 2, 1_100), (200, 4, 1_100), (300, 6, 1_100), (400, 10, 1_400)] {
        flow.now = us(now);
        let pdu = stamped(&flow, expected);
        flow.reply(pdu).send();
        assert_eq!(flow.deadline(), Some(us(deadline)), "at {now} us");
    }
    // In the next recovery the first partial acknowledgement restarts the timer again.
    flow.ack(11).send();
    flow.ack(11).ack(11).ack(11);
    assert_eq!(flow.losses, 2);
    flow.send();
    flow.now = us(500);
    let pdu = stamped(&flow, 12);
    assert_eq!(flow.reply(pdu).deadline(), Some(us(1_500)));
    assert!(flow.sender.recovery().in_fast_recovery(), "the acknowledgement was partial");
}

/// After a timeout, duplicate acknowledgements caused by retransmissions must not start fast retransmit; the cumulative
/// acknowledgement must first pass the recovery point.
#[test]
fn new_reno_ignores_duplicates_after_a_timeout() {
    let mut flow = Bench::new(new_reno(4), 100);
    flow.send();
    flow.timeout().send();
    flow.ack(4).send();
    for _ in 0..5 {
        flow.ack(4);
    }
    assert_eq!(flow.losses, 0);
    flow.send();
    flow.ack(5).ack(5).ack(5);
    assert_eq!(flow.losses, 0);
    assert_eq!(flow.ack(5).losses, 1);
}

/// Each of the first two duplicate acknowledgements allows one new segment beyond the window (limited transmit).
#[test]
fn limited_transmit() {
    let mut flow = Bench::new(new_reno(4), 100);
    assert_eq!(flow.send(), [0, 1, 2, 3]);
    assert_eq!(flow.ack(0).send(), [4]);
    assert_eq!(flow.ack(0).send(), [5]);
    assert_eq!(flow.ack(0).send(), [0], "fast retransmit");
    assert_eq!(flow.state(), (5_000, 2_000, 6));
    // The receive window limits limited transmit, too.
    for sack in [true, false] {
        let tcp = TcpConfig { sack, initial_window: Some(4), receive_window: 5_000, ..TcpConfig::default() };
        let mut flow = Bench::new(config(tcp), 100);
        flow.send();
        assert_eq!(flow.sack(0, 1, 1).send(), [4]);
        assert_eq!(flow.sack(0, 1, 2).send(), [0_u32; 0]);
        assert_eq!(flow.sack(0, 1, 3).send(), [0]);
    }
}

/// RFC 6298, rule 5.5: each timeout doubles the next timeout. Only the first timeout sets the threshold. An
/// acknowledgement of new data gives a measurement and ends the back-off.
#[test]
fn back_off_doubles_and_ends() {
    for cfg in [with_sack(10), new_reno(10)] {
        let mut flow = Bench::new(cfg, 100);
        assert_eq!(flow.deadline(), None, "nothing is outstanding");
        flow.now = us(7);
        flow.send();
        for at_us in [1_007, 3_007, 7_007, 15_007, 31_007, 63_007, 123_007, 183_007] {
            assert_eq!(flow.deadline(), Some(us(at_us)));
            assert_eq!(flow.timeout().state(), (1_000, 5_000, 0));
            assert_eq!(flow.send(), [0]);
        }
        let sent = flow.now;
        flow.now += us(400);
        let ack = Pdu::ack(flow.psn(1), rnic_transport::pdu::Stamp::at(sent));
        flow.reply(ack);
        // 400 + 4 * 200 = 1,200 us
        assert_eq!(flow.deadline(), Some(flow.now + us(1_200)));
        assert_eq!(flow.sender.recovery().rtt().smoothed(), Some(us(400)));
        // Another segment is lost: ssthresh is half of the window that slow start has reached, at least two segments.
        assert_eq!(flow.send(), [1, 2]);
        assert_eq!(flow.timeout().state(), (1_000, 2_000, 0));
        assert_eq!(flow.deadline(), Some(flow.now + us(2_400)));
    }
}

/// RFC 6298, rule 5.3: an acknowledgement of new data restarts the timer; other acknowledgements do not. Rule 5.2: the
/// timer stops when all data are acknowledged.
#[test]
fn what_restarts_the_timer() {
    let mut flow = Bench::new(with_sack(3), 4);
    flow.send();
    flow.now = us(100);
    assert_eq!(flow.sack(0, 2, 2).deadline(), Some(us(1_000)));
    flow.send();
    assert_eq!(flow.deadline(), Some(us(1_000)));
    flow.now = us(200);
    let ack = Pdu::ack(flow.psn(1), rnic_transport::pdu::Stamp::at(us(100)));
    assert_eq!(flow.reply(ack).deadline(), Some(us(1_200)));
    assert_eq!(flow.ack(4).deadline(), None);
    assert!(flow.sender.is_complete());
}

/// After a timeout the sender does not retransmit selectively acknowledged segments. No fast recovery begins before the
/// recovery point is acknowledged.
#[test]
fn timeout_with_sack() {
    let mut flow = Bench::new(with_sack(8), 100);
    flow.send();
    flow.sack(0, 2, 3).send();
    assert_eq!(flow.sender.in_flight(), 10, "limited transmit of 8 and 9");
    assert_eq!(flow.timeout().state(), (1_000, 4_000, 0));
    assert_eq!(flow.send(), [0]);
    assert_eq!(flow.ack(1).state(), (2_000, 4_000, 0));
    assert_eq!(flow.send(), [1, 4], "2 and 3 have arrived");
    flow.sack(1, 5, 9);
    assert_eq!((flow.losses, flow.cwnd()), (0, 2_000));
    assert_eq!(flow.send(), [0_u32; 0]);
    assert_eq!(flow.ack(4).state(), (3_000, 4_000, 1));
    assert_eq!(flow.send(), [10, 11], "5..=9 have arrived");
    assert_eq!(flow.ack(10).state(), (4_000, 4_000, 2));
    assert_eq!(flow.send(), [12, 13]);
    // From here on a fast recovery can begin again.
    assert_eq!(flow.sack(10, 11, 13).losses, 1);
}

/// A timeout during fast recovery does not halve ssthresh again, because the recovery has done so for these losses.
#[test]
fn timeout_in_fast_recovery() {
    for cfg in [with_sack(10), new_reno(10)] {
        let mut flow = Bench::new(cfg, 100);
        flow.send();
        flow.sack(0, 1, 1).sack(0, 1, 2).sack(0, 1, 3);
        assert_eq!(flow.send()[0], 0);
        assert_eq!(flow.state().1, 5_000);
        assert_eq!(flow.timeout().state(), (1_000, 5_000, 0));
        assert_eq!(flow.send(), [0]);
        assert!(!flow.sender.recovery().in_fast_recovery());
    }
}

/// A timeout occurs in fast recovery, after new segments were sent. ssthresh is not half of the data in flight, which
/// would be eight segments.
#[test]
fn timeout_in_fast_recovery_after_new_segments() {
    let mut flow = Bench::new(with_sack(10), 100);
    flow.send();
    flow.sack(0, 1, 3).send();
    flow.sack(0, 1, 9);
    assert_eq!(flow.send(), [10, 11, 12, 13]);
    assert_eq!(flow.sack(0, 10, 12).send(), [14, 15, 16]);
    assert_eq!((flow.sender.in_flight(), flow.state().1), (17, 5_000));
    assert_eq!(flow.timeout().state(), (1_000, 5_000, 0));
}

/// The timer fires before the sender could send the segment of a fast retransmit. The sender retransmits the segment
/// only once.
#[test]
fn timeout_before_fast_retransmit_left() {
    for cfg in [with_sack(10), new_reno(10)] {
        let mut flow = Bench::new(cfg, 100);
        flow.send();
        flow.sack(0, 1, 1).sack(0, 1, 2).sack(0, 1, 3);
        assert_eq!(flow.losses, 1);
        assert_eq!(flow.timeout().send(), [0]);
    }
}

/// A segment is lost after the recovery point of a timeout. The sender retransmits it only when the recovery point is
/// acknowledged; until then the segment counts as in flight.
#[test]
fn losses_above_the_recovery_point_of_a_timeout() {
    let mut flow = Bench::new(with_sack(8), 100);
    flow.send();
    assert_eq!(flow.timeout().send(), [0]);
    assert_eq!(flow.ack(1).send(), [1, 2]);
    assert_eq!(flow.ack(3).send(), [3, 4, 5]);
    assert_eq!(flow.ack(6).send(), [6, 7, 8, 9]);
    assert_eq!(flow.ack(7).state(), (4_250, 4_000, 3));
    assert_eq!(flow.send(), [10]);
    // Segment 7 is late, and segment 8 is lost.
    assert_eq!(flow.sack(7, 9, 10).send(), [11, 12]);
    assert_eq!(flow.sack(7, 9, 12).state(), (4_250, 4_000, 2));
    assert_eq!(flow.send(), [13, 14]);
    // Segment 8 is lost, because 9 to 12 are selectively acknowledged; `pipe` counts 13 and 14.
    assert_eq!(flow.ack(8).state(), (4_485, 4_000, 2));
    assert_eq!(flow.send(), [15, 16]);
    assert_eq!(flow.losses, 0);
    assert_eq!(flow.sack(8, 9, 13).send(), [8]);
    assert_eq!((flow.losses, flow.state().1), (1, 2_242));
}

/// A new segment that is lost during recovery is retransmitted, and still counts in pipe when recovery ends.
#[test]
fn losses_above_the_recovery_point_of_fast_recovery() {
    let mut flow = Bench::new(with_sack(10), 100);
    flow.send();
    assert_eq!(flow.sack(0, 1, 3).send(), [0]);
    assert_eq!(flow.sack(0, 1, 9).send(), [10, 11, 12, 13]);
    assert_eq!(flow.sack(0, 11, 13).send(), [10, 14, 15, 16]);
    assert_eq!(flow.state(), (5_000, 5_000, 5));
    // `pipe` counts segments 10, 14, 15 and 16.
    assert_eq!(flow.ack(10).state(), (5_000, 5_000, 4));
    assert_eq!(flow.send(), [17]);
}

/// A duplicate SYN-ACK is not a duplicate acknowledgement (RFC 5681 section 2).
#[test]
fn setup_answers_are_no_duplicates() {
    let mut flow = Bench::new(new_reno(4), 100);
    flow.send();
    for _ in 0..5 {
        let pdu = Pdu::ack(flow.psn(0), Default::default()).with_syn();
        flow.reply(pdu);
    }
    assert_eq!((flow.losses, flow.send()), (0, vec![]));
}

/// RFC 7323 section 4.3: the sender takes no round-trip time measurement from duplicate acknowledgements.
#[test]
fn only_new_data_is_measured() {
    let mut flow = Bench::new(with_sack(4), 100);
    flow.send();
    flow.now = us(50);
    flow.sack(0, 1, 1).ack(0);
    assert_eq!(flow.sender.recovery().rtt().smoothed(), None);
    flow.sack(1, 2, 2);
    assert_eq!(flow.sender.recovery().rtt().smoothed(), Some(us(50)));
}

/// The window of a separate congestion control limits new segments in flight, but not a fast retransmit.
#[test]
fn an_outer_window_applies() {
    for sack in [true, false] {
        let tcp = TcpConfig { sack, initial_window: Some(10), ..TcpConfig::default() };
        let cfg = config(tcp);
        let mut sender = TcpSender::new(&cfg, 100);
        let mut sent = 0;
        while sender.has_work(&cfg, 5) {
            assert!(sender.poll(&cfg, Time::ZERO, 5).is_some());
            sent += 1;
        }
        assert_eq!((sent, sender.in_flight()), (5, 5));
        assert!(sender.poll(&cfg, Time::ZERO, 5).is_none());
        assert!(sender.has_work(&cfg, 6));
        for trigger in 1..=3 {
            let psn = cfg.first_psn.plus(trigger);
            sender.on_reply(&cfg, Time::ZERO, Pdu::nack(cfg.first_psn, psn, Default::default()));
        }
        let pick = sender.poll(&cfg, Time::ZERO, 1).expect("fast retransmit");
        assert_eq!((pick.psn, pick.retransmission), (cfg.first_psn, true));
        assert!(!sender.has_work(&cfg, 1));
    }
    // Two segments are lost; the retransmission of the second waits until the window allows it.
    let cfg = with_sack(10);
    let mut sender = TcpSender::new(&cfg, 10);
    while sender.poll(&cfg, Time::ZERO, u32::MAX).is_some() {}
    let sack = Pdu::nack(cfg.first_psn, cfg.first_psn.plus(9), Default::default()).with_below(7);
    sender.on_reply(&cfg, Time::ZERO, sack);
    assert_eq!(sender.poll(&cfg, Time::ZERO, 1).map(|pick| pick.psn), Some(cfg.first_psn));
    assert_eq!(sender.poll(&cfg, Time::ZERO, 1), None);
    assert_eq!(sender.poll(&cfg, Time::ZERO, 2).map(|pick| pick.psn), Some(cfg.first_psn.plus(1)));
}
