//! Checks IRN event by event. Every expected trace was derived by hand from sections 3.1 and 3.2 of the paper, and is
//! the same for every first PSN.

use crate::common::{Pipe, STARTS, Script, Source, Totals, assert_trace, run_traced, sender_view};
use rnic_transport::congestion::{LossSignal, NoCongestionControl};
use rnic_transport::recovery::Irn;
use rnic_transport::rto::RttEstimator;
use rnic_transport::{FlowConfig, Pdu, Psn, Sender, Time, Timeouts, Timer, TimerRestart};

fn cap(bdp_cap: u32) -> FlowConfig {
    FlowConfig { bdp_cap, ..FlowConfig::default() }
}

/// The events at the sender of a flow with the default configuration.
fn view(packets: u32, script: &Script) -> (String, Totals) {
    let (trace, totals) = run_traced::<Irn>(&FlowConfig::default(), packets, Pipe::SHORT, script);
    assert_eq!((totals.accepted, totals.completions), (u64::from(packets), 1));
    (sender_view(&trace), totals)
}

#[test]
fn nothing_lost() {
    let (trace, _) = run_traced::<Irn>(&FlowConfig::default(), 3, Pipe::SHORT, &Script::default());
    assert_trace(
        &trace,
        "t=0us send #0
         t=1us send #1
         t=2us send #2
         t=3us recv #0, ACK 1
         t=4us recv #1, ACK 2
         t=5us recv #2, ACK 3, complete
         t=5us ACK 1 arrives
         t=6us ACK 2 arrives
         t=7us ACK 3 arrives, complete",
    );
}

#[test]
fn first_packet_lost() {
    let script = Script::default().lose(0, 1);
    let (trace, _) = run_traced::<Irn>(&FlowConfig::default(), 4, Pipe::SHORT, &script);
    assert_trace(
        &trace,
        "t=0us send #0 (lost)
         t=1us send #1
         t=2us send #2
         t=3us send #3
         t=4us recv #1, NACK 0/1
         t=5us recv #2, NACK 0/2
         t=6us recv #3, NACK 0/3
         t=6us NACK 0/1 arrives
         t=6us resend #0
         t=7us NACK 0/2 arrives
         t=8us NACK 0/3 arrives
         t=9us recv #0, ACK 4, complete
         t=11us ACK 4 arrives, complete",
    );
}

#[test]
fn middle_packet_lost() {
    let (seen, totals) = view(5, &Script::default().lose(2, 1));
    assert_trace(
        &seen,
        "t=0us send #0
         t=1us send #1
         t=2us send #2 (lost)
         t=3us send #3
         t=4us send #4
         t=5us ACK 1 arrives
         t=6us ACK 2 arrives
         t=8us NACK 2/3 arrives
         t=8us resend #2
         t=9us NACK 2/4 arrives
         t=13us ACK 5 arrives, complete",
    );
    assert_eq!((totals.losses, totals.timeouts), (1, 0));
}

/// The last packet is lost, so no later packet reveals the loss. One packet is in flight, so `RTO_low` runs from the
/// last cumulative acknowledgement at 8 us.
#[test]
fn last_packet_lost() {
    let (seen, totals) = view(5, &Script::default().lose(4, 1));
    assert_trace(
        &seen,
        "t=0us send #0
         t=1us send #1
         t=2us send #2
         t=3us send #3
         t=4us send #4 (lost)
         t=5us ACK 1 arrives
         t=6us ACK 2 arrives
         t=7us ACK 3 arrives
         t=8us ACK 4 arrives
         t=108us timeout
         t=108us resend #4
         t=113us ACK 5 arrives, complete",
    );
    assert_eq!((totals.losses, totals.timeouts), (0, 1));
}

#[test]
fn single_packet_flow_lost() {
    let (seen, _) = view(1, &Script::default().lose(0, 1));
    assert_trace(
        &seen,
        "t=0us send #0 (lost)
         t=100us timeout
         t=100us resend #0
         t=105us ACK 1 arrives, complete",
    );
}

/// Packets #1, #2 and #5 are lost. The sender retransmits #1 first, and #2 and #5 when a later packet is selectively
/// acknowledged. The partial acknowledgements ACK 2 and ACK 5 cause no further retransmission, because #2 and #5 have
/// been retransmitted already.
#[test]
fn several_lost_in_one_window() {
    let (seen, totals) = view(8, &Script::default().lose(1, 1).lose(2, 1).lose(5, 1));
    assert_trace(
        &seen,
        "t=0us send #0
         t=1us send #1 (lost)
         t=2us send #2 (lost)
         t=3us send #3
         t=4us send #4
         t=5us ACK 1 arrives
         t=5us send #5 (lost)
         t=6us send #6
         t=7us send #7
         t=8us NACK 1/3 arrives
         t=8us resend #1
         t=9us NACK 1/4 arrives
         t=9us resend #2
         t=11us NACK 1/6 arrives
         t=11us resend #5
         t=12us NACK 1/7 arrives
         t=13us ACK 2 arrives
         t=14us ACK 5 arrives
         t=16us ACK 8 arrives, complete",
    );
    assert_eq!((totals.losses, totals.retransmitted), (1, 3));
}

/// Packet #2 and its retransmission at 8 us are lost. The sender knows of no other loss, so it sends the new packets #8
/// and #9 although the flow is in recovery. Eight packets stay in flight, so `RTO_high` runs from the last NACK at 15
/// us.
#[test]
fn retransmission_lost_with_many_in_flight() {
    let (seen, _) = view(10, &Script::default().lose(2, 1).lose(2, 2));
    assert_trace(
        &seen,
        "t=0us send #0
         t=1us send #1
         t=2us send #2 (lost)
         t=3us send #3
         t=4us send #4
         t=5us ACK 1 arrives
         t=5us send #5
         t=6us ACK 2 arrives
         t=6us send #6
         t=7us send #7
         t=8us NACK 2/3 arrives
         t=8us resend #2 (lost)
         t=9us NACK 2/4 arrives
         t=9us send #8
         t=10us NACK 2/5 arrives
         t=10us send #9
         t=11us NACK 2/6 arrives
         t=12us NACK 2/7 arrives
         t=14us NACK 2/8 arrives
         t=15us NACK 2/9 arrives
         t=335us timeout
         t=335us resend #2
         t=340us ACK 10 arrives, complete",
    );
}

/// The same losses, but NACKs without cumulative progress do not restart the timer: it runs from the retransmission.
#[test]
fn only_progress_restarts_the_timer_if_the_configuration_says_so() {
    let cfg = FlowConfig { timer_restart: TimerRestart::Progress, ..FlowConfig::default() };
    let (trace, _) = run_traced::<Irn>(&cfg, 10, Pipe::SHORT, &Script::default().lose(2, 1).lose(2, 2));
    let seen = sender_view(&trace);
    let end: Vec<&str> = seen.lines().rev().take(3).collect();
    assert_eq!(end, ["t=333us ACK 10 arrives, complete", "t=328us resend #2", "t=328us timeout"]);
}

/// With N = 3 packets in flight the timeout is `RTO_low`. With four packets in flight it is `RTO_high`.
#[test]
fn retransmission_lost_with_few_in_flight() {
    let script = Script::default().lose(2, 1).lose(2, 2);
    let (seen, _) = view(5, &script);
    assert_trace(
        &seen,
        "t=0us send #0
         t=1us send #1
         t=2us send #2 (lost)
         t=3us send #3
         t=4us send #4
         t=5us ACK 1 arrives
         t=6us ACK 2 arrives
         t=8us NACK 2/3 arrives
         t=8us resend #2 (lost)
         t=9us NACK 2/4 arrives
         t=109us timeout
         t=109us resend #2
         t=114us ACK 5 arrives, complete",
    );
    let (_, totals) = view(6, &script);
    assert_eq!(totals.acknowledged_at, Some(Time::from_us(10 + 320 + 5)));
}

/// The retransmissions of #2 and #4 are lost. The timer runs from the last NACK at 16 us. After the timeout the bitmap
/// still shows that #4 is missing.
#[test]
fn two_retransmissions_lost() {
    let script = Script::default().lose(2, 1).lose(2, 2).lose(4, 1).lose(4, 2);
    let (seen, totals) = view(10, &script);
    assert_trace(
        &seen,
        "t=0us send #0
         t=1us send #1
         t=2us send #2 (lost)
         t=3us send #3
         t=4us send #4 (lost)
         t=5us ACK 1 arrives
         t=5us send #5
         t=6us ACK 2 arrives
         t=6us send #6
         t=7us send #7
         t=8us NACK 2/3 arrives
         t=8us resend #2 (lost)
         t=9us send #8
         t=10us NACK 2/5 arrives
         t=10us resend #4 (lost)
         t=11us NACK 2/6 arrives
         t=11us send #9
         t=12us NACK 2/7 arrives
         t=14us NACK 2/8 arrives
         t=16us NACK 2/9 arrives
         t=336us timeout
         t=336us resend #2
         t=337us resend #4
         t=341us ACK 4 arrives
         t=342us ACK 10 arrives, complete",
    );
    assert_eq!(totals.retransmitted, 4);
}

#[test]
fn lost_ack_in_the_middle_is_harmless() {
    let (seen, _) = view(3, &Script::default().lose_reply(2));
    assert_trace(
        &seen,
        "t=0us send #0
         t=1us send #1
         t=2us send #2
         t=5us ACK 1 arrives
         t=7us ACK 3 arrives, complete",
    );
}

#[test]
fn last_ack_lost() {
    let script = Script::default().lose_reply(3);
    let (trace, totals) = run_traced::<Irn>(&FlowConfig::default(), 3, Pipe::SHORT, &script);
    assert_trace(
        &trace,
        "t=0us send #0
         t=1us send #1
         t=2us send #2
         t=3us recv #0, ACK 1
         t=4us recv #1, ACK 2
         t=5us recv #2, ACK 3 (lost), complete
         t=5us ACK 1 arrives
         t=6us ACK 2 arrives
         t=106us timeout
         t=106us resend #2
         t=109us recv #2 discarded, ACK 3
         t=111us ACK 3 arrives, complete",
    );
    assert_eq!((totals.accepted, totals.completions), (3, 1));
}

/// All packets are lost, and there are no new packets to send. Each partial acknowledgement requests the next packet,
/// so the sender retransmits one packet per round trip.
#[test]
fn whole_flow_lost() {
    let script = (0..3).fold(Script::default(), |script, n| script.lose(n, 1));
    let (seen, _) = view(3, &script);
    assert_trace(
        &seen,
        "t=0us send #0 (lost)
         t=1us send #1 (lost)
         t=2us send #2 (lost)
         t=100us timeout
         t=100us resend #0
         t=105us ACK 1 arrives
         t=105us resend #1
         t=110us ACK 2 arrives
         t=110us resend #2
         t=115us ACK 3 arrives, complete",
    );
    let four = (0..4).fold(Script::default(), |script, n| script.lose(n, 1));
    let (_, totals) = view(4, &four);
    assert_eq!(totals.acknowledged_at, Some(Time::from_us(320 + 4 * 5)), "RTO_high");
}

/// The first four packets, a whole window, are lost. The first partial acknowledgement allows a new packet. Its NACK
/// reveals that all other packets of the window are lost.
#[test]
fn new_packet_reveals_a_lost_window() {
    let script = (0..4).fold(Script::default(), |script, n| script.lose(n, 1));
    let (trace, totals) = run_traced::<Irn>(&cap(4), 5, Pipe::SHORT, &script);
    assert_trace(
        &sender_view(&trace),
        "t=0us send #0 (lost)
         t=1us send #1 (lost)
         t=2us send #2 (lost)
         t=3us send #3 (lost)
         t=320us timeout
         t=320us resend #0
         t=325us ACK 1 arrives
         t=325us resend #1
         t=326us send #4
         t=330us ACK 2 arrives
         t=330us resend #2
         t=331us NACK 2/4 arrives
         t=331us resend #3
         t=335us ACK 3 arrives
         t=336us ACK 5 arrives, complete",
    );
    assert_eq!(totals.retransmitted, 4);
}

#[test]
fn cap_reached_then_one_packet_for_each_ack() {
    let (trace, totals) = run_traced::<Irn>(&cap(4), 6, Pipe::SHORT, &Script::default());
    assert_trace(
        &sender_view(&trace),
        "t=0us send #0
         t=1us send #1
         t=2us send #2
         t=3us send #3
         t=5us ACK 1 arrives
         t=5us send #4
         t=6us ACK 2 arrives
         t=6us send #5
         t=7us ACK 3 arrives
         t=8us ACK 4 arrives
         t=10us ACK 5 arrives
         t=11us ACK 6 arrives, complete",
    );
    assert_eq!(totals.peak_in_flight, 4);
}

/// Selectively acknowledged packets count as in flight: the cap limits the distance from the cumulative
/// acknowledgement.
#[test]
fn cap_holds_in_recovery() {
    let (trace, totals) = run_traced::<Irn>(&cap(4), 6, Pipe::SHORT, &Script::default().lose(0, 1));
    assert_trace(
        &sender_view(&trace),
        "t=0us send #0 (lost)
         t=1us send #1
         t=2us send #2
         t=3us send #3
         t=6us NACK 0/1 arrives
         t=6us resend #0
         t=7us NACK 0/2 arrives
         t=8us NACK 0/3 arrives
         t=11us ACK 4 arrives
         t=11us send #4
         t=12us send #5
         t=16us ACK 5 arrives
         t=17us ACK 6 arrives, complete",
    );
    assert_eq!(totals.peak_in_flight, 4);
}

#[test]
fn the_cap_is_met_exactly() {
    for bdp_cap in [1, 2, 3, 63, 64, 65, 111, 128, 129, 1_000] {
        let pipe = Pipe { packet: Time::from_ns(10), delay: Time::from_us(12) };
        let (_, totals) = run_traced::<Irn>(&cap(bdp_cap), 2_500, pipe, &Script::default());
        assert_eq!(totals.peak_in_flight, bdp_cap);
        assert_eq!((totals.sent, totals.completions), (2_500, 1));
    }
}

/// The sender retransmits #1 at 7 us, after #6, so 6 is the recovery sequence. ACK 7 ends the recovery. The loss of #9
/// begins another recovery.
#[test]
fn recovery_ends_past_the_recovery_sequence() {
    let (seen, totals) = view(14, &Script::default().lose(1, 1).lose(9, 1));
    let after_recovery: String =
        seen.lines().skip_while(|line| !line.contains("resend #1")).map(|line| format!("{line}\n")).collect();
    assert_trace(
        &after_recovery,
        "t=7us resend #1
         t=8us NACK 1/3 arrives
         t=8us send #7
         t=9us NACK 1/4 arrives
         t=9us send #8
         t=10us NACK 1/5 arrives
         t=10us send #9 (lost)
         t=11us NACK 1/6 arrives
         t=11us send #10
         t=12us ACK 7 arrives
         t=12us send #11
         t=13us ACK 8 arrives
         t=13us send #12
         t=14us ACK 9 arrives
         t=14us send #13
         t=16us NACK 9/10 arrives
         t=16us resend #9
         t=17us NACK 9/11 arrives
         t=18us NACK 9/12 arrives
         t=19us NACK 9/13 arrives
         t=21us ACK 14 arrives, complete",
    );
    assert_eq!((totals.losses, totals.retransmitted), (2, 2));
}

/// The last packet, #5, is lost too, and no later packet reveals this loss. ACK 5 does not pass the recovery sequence
/// 5, so it is a partial acknowledgement: the sender retransmits #5 without a timeout.
#[test]
fn partial_ack_retransmits_the_lost_tail() {
    let (seen, totals) = view(6, &Script::default().lose(1, 1).lose(5, 1));
    let tail: Vec<&str> = seen.lines().skip_while(|line| !line.contains("ACK 5 arrives")).collect();
    assert_eq!(tail, ["t=12us ACK 5 arrives", "t=12us resend #5", "t=17us ACK 6 arrives, complete"]);
    assert_eq!(totals.timeouts, 0);
}

/// The deadline depends on the current number of packets in flight.
#[test]
fn short_timer_extends_while_many_are_in_flight() {
    for first in STARTS {
        let cfg = FlowConfig { first_psn: Psn::new(first), ..FlowConfig::default() };
        let mut sender = Sender::<Irn, NoCongestionControl>::new(&cfg, &(), 10 * 1_024, Time::ZERO);
        let ack = |n| Pdu::ack(cfg.first_psn.plus(n), Default::default());
        let due = |sender: &Sender<Irn, NoCongestionControl>| sender.deadline(&cfg).map(|(at, _)| at);
        assert_eq!(due(&sender), None, "nothing in flight");
        for _ in 0..3 {
            assert!(sender.poll_transmit(&cfg, &(), Time::ZERO).is_some());
        }
        assert_eq!(due(&sender), Some(Time::from_us(100)));
        let late = Time::from_us(90);
        assert!(sender.poll_transmit(&cfg, &(), late).is_some());
        assert_eq!(due(&sender), Some(Time::from_us(320)));
        assert_eq!(sender.on_deadline(&cfg, &(), Time::from_us(100)), None, "extended");
        sender.handle(&cfg, &(), Time::from_us(110), ack(1));
        assert_eq!(due(&sender), Some(Time::from_us(210)), "three in flight, progress at 110");
        sender.handle(&cfg, &(), Time::from_us(120), ack(1));
        assert_eq!(due(&sender), Some(Time::from_us(220)), "a duplicate ACK is a response");
        let fired = sender.on_deadline(&cfg, &(), Time::from_us(220));
        assert_eq!(fired, Some(Timer::Retransmit));
        assert_eq!(due(&sender), Some(Time::from_us(320)));
        sender.handle(&cfg, &(), Time::from_us(230), ack(4));
        assert_eq!(due(&sender), None);
    }
}

/// The sender reports a loss to the congestion control once per recovery, whatever the number of NACKs.
#[test]
fn loss_is_signalled_once_per_recovery() {
    let cfg = FlowConfig::default();
    let mut sender = Sender::<Irn, NoCongestionControl>::new(&cfg, &(), 20 * 1_024, Time::ZERO);
    for _ in 0..10 {
        assert!(sender.poll_transmit(&cfg, &(), Time::ZERO).is_some());
    }
    let mut nack = |expected, trigger| {
        let pdu = Pdu::nack(Psn::new(expected), Psn::new(trigger), Default::default());
        sender.handle(&cfg, &(), Time::from_us(5), pdu).loss
    };
    assert_eq!(nack(0, 10), None, "triggered by a packet never sent");
    assert_eq!(nack(2, 3), Some(LossSignal::Nack), "progress and loss at once");
    assert_eq!(nack(2, 4), None);
    assert_eq!(nack(4, 7), None, "partial");
    assert_eq!(nack(1, 9), None, "stale");
    assert_eq!(nack(11, 12), None, "never sent");
}

/// The bitmap reuses a bit after 128 packets: #140 has the bit of #12, which was selectively acknowledged.
#[test]
fn the_bitmap_forgets_what_it_slid_past() {
    let (seen, totals) = view(300, &Script::default().lose(10, 1).lose(138, 1).lose(140, 1));
    let retransmitted: Vec<&str> = seen.lines().filter(|line| line.contains("resend")).collect();
    assert_eq!(retransmitted, ["t=16us resend #10", "t=145us resend #138", "t=147us resend #140"]);
    assert_eq!(totals.losses, 2);
}

/// The timer of a flow that starts late runs from the transmission of its first packet.
#[test]
fn the_timer_starts_with_the_first_packet() {
    let cfg = FlowConfig::default();
    let start = Time::from_us(50);
    let mut sender = Sender::<Irn, NoCongestionControl>::new(&cfg, &(), 1, start);
    assert!(sender.poll_transmit(&cfg, &(), start).is_some());
    assert_eq!(sender.deadline(&cfg), Some((Time::from_us(150), Timer::Retransmit)));
}

/// The timeout is computed as in RFC 6298. Before the first measurement it is 320 us. A measured round trip of 5 us
/// gives 5 us + 4 x 2.5 us = 15 us, which is above the minimum of 12 us. A timeout doubles it.
#[test]
fn a_dynamic_timeout_follows_the_round_trip() {
    let mut cfg = FlowConfig::default();
    cfg.timeouts = cfg.timeouts.map(|fixed| Timeouts { dynamic: Some(Time::from_us(12)), ..fixed });
    let mut sender = Source::<Irn>::new(&cfg, &(), 10 * 1_024, Time::ZERO);
    let first = sender.poll_transmit(&cfg, &(), Time::ZERO).unwrap().pdu;
    assert_eq!(sender.deadline(&cfg), Some((Time::from_us(320), Timer::Retransmit)));
    sender.poll_transmit(&cfg, &(), Time::from_us(1)).unwrap();
    sender.handle(&cfg, &(), Time::from_us(5), Pdu::ack(Psn::new(1), first.stamp()));
    assert_eq!(sender.deadline(&cfg), Some((Time::from_us(5 + 15), Timer::Retransmit)));
    sender.on_deadline(&cfg, &(), Time::from_us(20));
    assert_eq!(sender.deadline(&cfg), Some((Time::from_us(20 + 30), Timer::Retransmit)));
}

/// Two packets of a window are lost. Without selective acknowledgements the repair of each loss takes a round trip,
/// because the sender learns of the second loss only when the first is repaired. With selective acknowledgements it
/// retransmits both packets immediately.
#[test]
fn without_sack_each_loss_takes_a_round_trip() {
    let script = Script::default().lose(2, 1).lose(4, 1);
    let cfg = cap(20);
    let (_, with) = run_traced::<Irn>(&cfg, 7, Pipe::SHORT, &script);
    let (_, without) = run_traced::<Irn>(&FlowConfig { sack: false, ..cfg }, 7, Pipe::SHORT, &script);
    for totals in [with, without] {
        assert_eq!((totals.retransmitted, totals.timeouts, totals.completions), (2, 0, 1));
    }
    // #3 arrives at 6 us, its NACK at 8, and the retransmission of #2 at 11. The NACK of #5 arrives at 10, and the
    // ACK of #2 at 13, when the sender retransmits #4.
    assert_eq!(with.received_at, Some(Time::from_us(13)));
    assert_eq!(without.received_at, Some(Time::from_us(16)));
}

/// The NACK of #3 is lost, so #3 looks lost when #4 is reported, and the sender retransmits it unnecessarily. It
/// retransmits no other packet, although the retransmission moves the recovery sequence past packets in flight, because
/// their acknowledgements are caused by packets that departed earlier.
#[test]
fn a_lost_nack_costs_one_packet() {
    let script = Script::default().lose(2, 1).lose_reply(3);
    let (_, totals) = run_traced::<Irn>(&cap(20), 40, Pipe::SHORT, &script);
    assert_eq!((totals.retransmitted, totals.timeouts, totals.completions), (2, 0, 1), "{totals:?}");
}

/// The minimum of a computed timeout also applies to its first value and to its maximum. A very large minimum does not
/// overflow.
#[test]
fn a_dynamic_timeout_keeps_its_bounds() {
    let timeouts = |high, min| Timeouts { high, low: high, low_packets: 3, dynamic: Some(min) };
    let mut rtt = RttEstimator::new();
    let ms = Time::from_ms;
    assert_eq!(timeouts(Time::from_us(10), ms(10)).span(1, &rtt), ms(10));
    rtt.sample(Time::from_us(20));
    assert_eq!(timeouts(Time::from_us(10), ms(10)).span(1, &rtt), ms(10));
    let huge = Time::from_ps(1 << 58);
    assert_eq!(timeouts(huge, ms(1)).span(1, &RttEstimator::new()), huge);
}

/// Packet 0 is late, not lost: its arrival ends nothing that the recovery has retransmitted, because the recovery has
/// retransmitted nothing yet. Then nothing says that packet 2 is lost, whatever the time of day is.
#[test]
fn an_acknowledgement_before_the_first_retransmission_proves_no_loss() {
    use rnic_transport::pdu::Stamp;
    use rnic_transport::recovery::{IrnSender, SendRecovery};
    let cfg = cap(111);
    for start in [0x1000, 0x9000_0000] {
        let at = |ns: u64| Time::from_ns(start + ns);
        let mut sender = IrnSender::new(&cfg, 10);
        for ns in 1..=5 {
            sender.poll(&cfg, at(ns), u32::MAX).unwrap();
        }
        let nack = Pdu::nack(Psn::new(0), Psn::new(1), Stamp::at(at(2)));
        assert_eq!(sender.on_reply(&cfg, at(20), nack).loss, Some(LossSignal::Nack));
        sender.on_reply(&cfg, at(21), Pdu::ack(Psn::new(2), Stamp::at(at(1))));
        let pick = sender.poll(&cfg, at(22), u32::MAX).unwrap();
        assert_eq!((pick.psn, pick.retransmission), (Psn::new(5), false), "at {start:#x} ns");
    }
}
