//! Checks the loss recovery of sprayed flows event by event. Every expected trace was derived by hand from the rules in
//! `recovery/sprayed.rs`: a round trip takes 5 us, and the reordering tolerance is 4 us.

use crate::common::{Pipe, Script, Source, assert_trace, run_traced, sender_view};
use rnic_transport::congestion::LossSignal;
use rnic_transport::paths::{PathConfig, Selection};
use rnic_transport::recovery::{SendRecovery, Sprayed};
use rnic_transport::{FlowConfig, Pdu, Psn, Receiver, RxMeta, Time, Timer};

fn config() -> FlowConfig {
    let paths = PathConfig::new(Selection::Oblivious, 64);
    FlowConfig { paths, reorder: Some(Time::from_us(4)), ..FlowConfig::default() }
}

fn resends(seen: &str) -> Vec<&str> {
    seen.lines().filter(|line| line.contains("resend") || line.contains("timeout")).collect()
}

/// Packet #0 is overtaken by three packets. The tolerance ends at 0 + 5 + 4 = 9 us, and its ACK arrives at 8 us.
#[test]
fn a_late_packet_is_not_lost() {
    let script = Script::default().delay(0, 1, Time::from_us(3));
    let (trace, _) = run_traced::<Sprayed>(&config(), 4, Pipe::SHORT, &script);
    assert_trace(
        &trace,
        "t=0us send #0
         t=1us send #1
         t=2us send #2
         t=3us send #3
         t=4us recv #1, NACK 0/1
         t=5us recv #2, NACK 0/2
         t=6us recv #0, ACK 3
         t=6us recv #3, ACK 4, complete
         t=6us NACK 0/1 arrives
         t=7us NACK 0/2 arrives
         t=8us ACK 3 arrives
         t=8us ACK 4 arrives, complete",
    );
}

/// Packet #2 departs at 2 us. At 8 us the sender learns that #3 has arrived, after 5 us. So #2 counts as lost at
/// 2 + 5 + 4 = 11 us, when the timer fires.
#[test]
fn a_lost_packet_is_retransmitted_after_the_tolerance() {
    let (trace, totals) = run_traced::<Sprayed>(&config(), 5, Pipe::SHORT, &Script::default().lose(2, 1));
    assert_trace(
        &sender_view(&trace),
        "t=0us send #0
         t=1us send #1
         t=2us send #2 (lost)
         t=3us send #3
         t=4us send #4
         t=5us ACK 1 arrives
         t=6us ACK 2 arrives
         t=8us NACK 2/3 arrives
         t=9us NACK 2/4 arrives
         t=11us resend #2
         t=16us ACK 5 arrives, complete",
    );
    assert_eq!(totals.timeouts, 0);
}

/// The retransmission of #2 at 11 us is lost, too. Packet #11, which departs at 12 us, is acknowledged at 17 us, so the
/// retransmission counts as lost at 11 + 5 + 4 = 20 us.
#[test]
fn a_lost_retransmission_is_detected_without_a_timeout() {
    let script = Script::default().lose(2, 1).lose(2, 2);
    let (trace, totals) = run_traced::<Sprayed>(&config(), 20, Pipe::SHORT, &script);
    assert_eq!(resends(&sender_view(&trace)), ["t=11us resend #2 (lost)", "t=20us resend #2"]);
    assert_eq!((totals.timeouts, totals.retransmitted), (0, 2));
}

/// No packet departs after the last one, so only the timeout of 100 us after the last ACK, at 8 us, detects its loss.
#[test]
fn the_loss_of_the_last_packet_needs_a_timeout() {
    let (trace, totals) = run_traced::<Sprayed>(&config(), 5, Pipe::SHORT, &Script::default().lose(4, 1));
    assert_eq!(resends(&sender_view(&trace)), ["t=108us timeout", "t=108us resend #4"]);
    assert_eq!(totals.timeouts, 1);
}

/// Without a tolerance and without timeouts, as in a lossless fabric, nothing is ever retransmitted.
#[test]
fn nothing_is_retransmitted_without_tolerance_and_timeouts() {
    let cfg = FlowConfig { reorder: None, timeouts: None, ..config() };
    let script = Script::default().delay(0, 1, Time::from_ms(5)).delay(7, 1, Time::from_ms(2));
    let (trace, totals) = run_traced::<Sprayed>(&cfg, 200, Pipe::SHORT, &script);
    assert!(resends(&trace).is_empty());
    assert_eq!((totals.accepted, totals.completions), (200, 1));
}

/// The cap limits the packets in flight to 4. Selectively acknowledged packets are not in flight, so a late packet #0
/// does not stop the sender until it is 8 packets, twice the cap, ahead.
#[test]
fn the_cap_counts_packets_in_flight_and_twice_the_cap_the_span() {
    let cfg = FlowConfig { bdp_cap: 4, reorder: None, ..config() };
    let script = Script::default().delay(0, 1, Time::from_us(50));
    let (trace, totals) = run_traced::<Sprayed>(&cfg, 12, Pipe::SHORT, &script);
    let sends: Vec<&str> = trace.lines().filter(|line| line.contains("send #")).collect();
    assert_eq!(
        sends,
        [
            "t=0us send #0",
            "t=1us send #1",
            "t=2us send #2",
            "t=3us send #3",
            // NACKs of #1, #2 and so on, 5 us after each
            "t=6us send #4",
            "t=7us send #5",
            "t=8us send #6",
            "t=11us send #7",
            // #0 arrives at 53 us, and its ACK at 55 us
            "t=55us send #8",
            "t=56us send #9",
            "t=57us send #10",
            "t=58us send #11",
        ]
    );
    assert_eq!(totals.peak_in_flight, 4);
}

/// The receiver returns the entropy of each packet, in an ACK as in a NACK, and the sender takes the next path of its
/// selection for each packet.
#[test]
fn the_receiver_returns_the_entropy() {
    let cfg = config();
    let mut sender = Source::<Sprayed>::new(&cfg, &(), 64 * 1_024, Time::ZERO);
    sender.seed_paths(&cfg, 5);
    let mut receiver = Receiver::<Sprayed>::new(&cfg, 64 * 1_024, Time::ZERO);
    let mut lap = Vec::new();
    for at in 0..64 {
        let data = sender.poll_transmit(&cfg, &(), Time::from_us(at)).unwrap().pdu;
        assert_eq!(data.path(), sender.recovery().path());
        lap.push(data.path());
        if at != 3 {
            let reply = receiver.handle(&cfg, Time::from_us(at), data, RxMeta::default()).reply.unwrap();
            assert_eq!(reply.path(), data.path());
        }
    }
    lap.sort_unstable();
    assert_eq!(lap, (0..64).collect::<Vec<_>>());
}

/// The congestion control learns of a loss once per recovery, from a NACK or from the timer, and of each timeout.
#[test]
fn loss_is_signalled_once_per_recovery() {
    let cfg = config();
    let mut sender = Source::<Sprayed>::new(&cfg, &(), 30 * 1_024, Time::ZERO);
    let us = Time::from_us;
    let sent: Vec<Pdu> = (0..10).map(|at| sender.poll_transmit(&cfg, &(), us(at)).unwrap().pdu).collect();
    let mut nack = |at: u64, expected: u32, trigger: usize| {
        let pdu = Pdu::nack(Psn::new(expected), sent[trigger].psn(), sent[trigger].stamp());
        sender.handle(&cfg, &(), us(at), pdu).loss
    };
    assert_eq!(nack(8, 0, 3), None, "#0 is 8 us old, and counts as lost after 5 + 4 us");
    // #5 departed at 5 us and was acknowledged after 6 us: packets that departed until 11 - 6 - 4 = 1 us are lost.
    assert_eq!(nack(11, 0, 5), Some(LossSignal::Nack), "#0 and #1");
    assert_eq!(nack(12, 0, 6), None, "#2, in the same recovery");
    for _ in 0..3 {
        assert!(sender.poll_transmit(&cfg, &(), us(12)).unwrap().retransmission);
    }
    assert!(!sender.poll_transmit(&cfg, &(), us(12)).unwrap().retransmission);
    // #4 departed at 4 us; the latest round trip is the 6 us of #6.
    assert_eq!(sender.deadline(&cfg), Some((us(4 + 6 + 4), Timer::Retransmit)));
    assert_eq!(sender.on_deadline(&cfg, &(), us(14)), Some(Timer::Reorder));
    assert_eq!(sender.on_deadline(&cfg, &(), us(12 + 320)), Some(Timer::Retransmit));
}

/// Replies that no receiver sends do not disturb the sender.
#[test]
fn replies_about_packets_never_sent_are_ignored() {
    let cfg = config();
    let mut sender = Source::<Sprayed>::new(&cfg, &(), 30 * 1_024, Time::ZERO);
    for _ in 0..5 {
        sender.poll_transmit(&cfg, &(), Time::ZERO).unwrap();
    }
    for pdu in [
        Pdu::ack(Psn::new(6), Default::default()).with_path(u16::MAX),
        Pdu::nack(Psn::new(7), Psn::new(9), Default::default()),
        Pdu::nack(Psn::new(0), Psn::new(5), Default::default()).with_path(255),
        Pdu::nack(Psn::new(0), Psn::new(Psn::MODULUS - 1), Default::default()),
        Pdu::ack(Psn::new(Psn::MODULUS - 3), Default::default()),
    ] {
        sender.handle(&cfg, &(), Time::from_us(3), pdu);
        assert_eq!(sender.in_flight(), 5);
    }
}

/// The largest recent round-trip time delays the detection of losses: after one round trip of 30 us, packets count as
/// lost 30 + 4 us after their departure. The next round trip, of 27 us, brings the 30 us nearer by 3 / 256 us.
#[test]
fn a_slow_path_delays_the_detection() {
    let cfg = config();
    let mut sender = Source::<Sprayed>::new(&cfg, &(), 30 * 1_024, Time::ZERO);
    let us = Time::from_us;
    let sent: Vec<Pdu> = (0..10).map(|at| sender.poll_transmit(&cfg, &(), us(at)).unwrap().pdu).collect();
    sender.handle(&cfg, &(), us(30), Pdu::ack(Psn::new(1), sent[0].stamp()));
    let mut nack = |at, trigger: usize| {
        sender.handle(&cfg, &(), at, Pdu::nack(Psn::new(1), sent[trigger].psn(), sent[trigger].stamp()));
        sender.deadline(&cfg)
    };
    assert_eq!(nack(us(30), 3), Some((us(1 + 30 + 4) - Time::from_ps(3_000_000 / 256), Timer::Retransmit)));
}

/// The congestion control learns of each acknowledged packet once, whether it is acknowledged selectively,
/// cumulatively, or both.
#[test]
fn each_packet_is_acknowledged_once() {
    let cfg = config();
    let mut sender = Source::<Sprayed>::new(&cfg, &(), 30 * 1_024, Time::ZERO);
    for _ in 0..10 {
        sender.poll_transmit(&cfg, &(), Time::ZERO).unwrap();
    }
    let stamp = Default::default();
    let mut acked = |pdu| sender.handle(&cfg, &(), Time::from_us(3), pdu).acked;
    assert_eq!(acked(Pdu::nack(Psn::new(0), Psn::new(3), stamp)), 1);
    assert_eq!(acked(Pdu::nack(Psn::new(0), Psn::new(3), stamp)), 0);
    assert_eq!(acked(Pdu::nack(Psn::new(2), Psn::new(6), stamp)), 3, "#0, #1 and #6");
    assert_eq!(acked(Pdu::ack(Psn::new(5), stamp)), 2, "#2 and #4");
    assert_eq!(acked(Pdu::ack(Psn::new(10), stamp)), 4, "#5, #7, #8 and #9");
    assert_eq!(sender.in_flight(), 0);
}
