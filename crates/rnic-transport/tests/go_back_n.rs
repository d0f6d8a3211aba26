//! Checks go-back-N event by event. Every expected trace was derived by hand, and is the same for every first PSN.

use crate::common::{Pipe, Script, Source, Totals, assert_trace, run_traced, sender_view};
use rnic_transport::recovery::GoBackN;
use rnic_transport::{FlowConfig, GoBack, NackPolicy, Pdu, Psn, Time, Timeouts, Timer};

fn run(cfg: &FlowConfig, packets: u32, script: &Script) -> (String, Totals) {
    run_traced::<GoBackN>(cfg, packets, Pipe::SHORT, script)
}

/// The configuration of RoCE NICs: a single timeout, and no limit on the number of packets in flight.
fn roce() -> FlowConfig {
    let high = Time::from_us(320);
    let timeouts = Some(Timeouts { high, low: high, low_packets: 0, dynamic: None });
    FlowConfig { bdp_cap: Psn::MAX_WINDOW, timeouts, ..FlowConfig::default() }
}

fn without_acks() -> FlowConfig {
    FlowConfig { acks: false, ..roce() }
}

/// #3 triggers a NACK; #4 and #5 are discarded without a NACK. The sender retransmits all packets from #2 on.
#[test]
fn middle_packet_lost() {
    let (trace, totals) = run(&roce(), 6, &Script::default().lose(2, 1));
    assert_trace(
        &trace,
        "t=0us send #0
         t=1us send #1
         t=2us send #2 (lost)
         t=3us recv #0, ACK 1
         t=3us send #3
         t=4us recv #1, ACK 2
         t=4us send #4
         t=5us ACK 1 arrives
         t=5us send #5
         t=6us recv #3 discarded, NACK 2/3
         t=6us ACK 2 arrives
         t=7us recv #4 discarded
         t=8us recv #5 discarded
         t=8us NACK 2/3 arrives
         t=8us resend #2
         t=9us resend #3
         t=10us resend #4
         t=11us recv #2, ACK 3
         t=11us resend #5
         t=12us recv #3, ACK 4
         t=13us recv #4, ACK 5
         t=13us ACK 3 arrives
         t=14us recv #5, ACK 6, complete
         t=14us ACK 4 arrives
         t=15us ACK 5 arrives
         t=16us ACK 6 arrives, complete",
    );
    assert_eq!((totals.nacks, totals.losses, totals.completions), (1, 1, 1));
}

/// Packet k is lost. Its NACK arrives (k + 2) packet times and two delays after the start. Until this time the sender
/// transmits one packet per packet time. So it must retransmit ceil(2 delay / packet) + 2 packets from k on, or the
/// rest of the flow.
#[test]
fn retransmissions_follow_from_the_round_trip() {
    let flow = 400;
    for (packet_ns, delay_ns) in [(1_000, 2_000), (217, 12_000), (1_000, 1_250), (500, 0), (300, 100)] {
        let pipe = Pipe { packet: Time::from_ns(packet_ns), delay: Time::from_ns(delay_ns) };
        for lost in [0, 1, 57, 200, 393, 397, 398] {
            let expected = (2 * delay_ns).div_ceil(packet_ns).saturating_add(2).min(u64::from(flow - lost));
            let script = Script::default().lose(lost, 1);
            let (_, totals) = run_traced::<GoBackN>(&roce(), flow, pipe, &script);
            assert_eq!(totals.retransmitted, expected, "{pipe:?}, #{lost} lost: one round trip of packets");
            assert_eq!((totals.nacks, totals.timeouts), (1, 0));
        }
    }
}

/// The retransmission of #2 is lost. #3, #4 and #5 arrive out of order once more, and the receiver sends no further
/// NACK. The sender's timer runs from the retransmission.
#[test]
fn lost_retransmission_waits_for_the_timeout() {
    let script = Script::default().lose(2, 1).lose(2, 2);
    let (trace, totals) = run(&roce(), 6, &script);
    assert_trace(
        &sender_view(&trace),
        "t=0us send #0
         t=1us send #1
         t=2us send #2 (lost)
         t=3us send #3
         t=4us send #4
         t=5us ACK 1 arrives
         t=5us send #5
         t=6us ACK 2 arrives
         t=8us NACK 2/3 arrives
         t=8us resend #2 (lost)
         t=9us resend #3
         t=10us resend #4
         t=11us resend #5
         t=328us timeout
         t=328us resend #2
         t=329us resend #3
         t=330us resend #4
         t=331us resend #5
         t=333us ACK 3 arrives
         t=334us ACK 4 arrives
         t=335us ACK 5 arrives
         t=336us ACK 6 arrives, complete",
    );
    assert_eq!((totals.nacks, totals.timeouts), (1, 1));
}

/// The timeout is always the same, even for a single packet in flight.
#[test]
fn last_packet_and_last_ack_lost() {
    let (trace, _) = run(&roce(), 1, &Script::default().lose(0, 1));
    assert_trace(
        &sender_view(&trace),
        "t=0us send #0 (lost)
         t=320us timeout
         t=320us resend #0
         t=325us ACK 1 arrives, complete",
    );
    let (trace, totals) = run(&roce(), 2, &Script::default().lose_reply(2));
    assert_trace(
        &trace,
        "t=0us send #0
         t=1us send #1
         t=3us recv #0, ACK 1
         t=4us recv #1, ACK 2 (lost), complete
         t=5us ACK 1 arrives
         t=325us timeout
         t=325us resend #1
         t=328us recv #1 discarded, ACK 2
         t=330us ACK 2 arrives, complete",
    );
    assert_eq!((totals.accepted, totals.completions), (2, 1));
}

/// ACK 2 replaces the lost ACK 1. The receiver does not repeat a lost NACK. The sender's timer runs from the last
/// acknowledgement of new packets, at 6 us.
#[test]
fn lost_replies() {
    let (_, totals) = run(&roce(), 4, &Script::default().lose_reply(1));
    assert_eq!((totals.retransmitted, totals.acknowledged_at), (0, Some(Time::from_us(8))));
    let (trace, totals) = run(&roce(), 4, &Script::default().lose(2, 1).lose_reply(3));
    assert!(trace.contains("t=6us recv #3 discarded, NACK 2/3 (lost)"));
    assert!(trace.contains("t=326us timeout\nt=326us resend #2"));
    assert_eq!((totals.nacks, totals.retransmitted), (1, 2));
}

/// Two losses that are far enough apart trigger a NACK each.
#[test]
fn one_nack_until_order_resumes() {
    let script = Script::default().lose(10, 1).lose(30, 1).lose(31, 1);
    let (_, totals) = run(&roce(), 60, &script);
    assert_eq!((totals.nacks, totals.losses, totals.timeouts), (2, 2, 0));
    assert_eq!(totals.retransmitted, 6 + 7, "#31's loss delays the second NACK by a packet");
}

/// Without ACKs the receiver sends another NACK, one timeout after the last in-order packet (#1 at 4 us).
#[test]
fn the_receiver_requests_a_lost_retransmission() {
    let script = Script::default().lose(2, 1).lose(2, 2);
    let (trace, totals) = run(&without_acks(), 4, &script);
    assert_trace(
        &trace,
        "t=0us send #0
         t=1us send #1
         t=2us send #2 (lost)
         t=3us recv #0
         t=3us send #3
         t=4us recv #1
         t=6us recv #3 discarded, NACK 2/3
         t=8us NACK 2/3 arrives
         t=8us resend #2 (lost)
         t=9us resend #3
         t=12us recv #3 discarded
         t=324us sink timeout, NACK 2/2
         t=326us NACK 2/2 arrives
         t=326us resend #2
         t=327us resend #3
         t=329us recv #2
         t=330us recv #3, complete",
    );
    assert_eq!((totals.timeouts, totals.receiver_timeouts), (0, 1));
}

#[test]
fn the_receiver_requests_a_lost_tail_and_a_lost_flow() {
    let (trace, _) = run(&without_acks(), 1, &Script::default().lose(0, 1));
    assert_trace(
        &trace,
        "t=0us send #0 (lost)
         t=320us sink timeout, NACK 0/0
         t=322us NACK 0/0 arrives
         t=322us resend #0
         t=325us recv #0, complete",
    );
    // The receiver's NACK is lost too. The receiver sends the next NACK one timeout later.
    let script = Script::default().lose(2, 1).lose_reply(1);
    let (_, totals) = run(&without_acks(), 3, &script);
    assert_eq!(totals.receiver_timeouts, 2);
    assert_eq!(totals.received_at, Some(Time::from_us(4 + 640 + 2 + 3)));
}

/// In a lossless fabric timers are off, and a flow stalls forever if it loses a packet that no NACK reports.
#[test]
fn without_timeouts_nothing_times_out() {
    for acks in [false, true] {
        let cfg = FlowConfig { acks, timeouts: None, ..roce() };
        for script in [Script::default().lose(3, 1), Script::default().lose(1, 1).lose(1, 2)] {
            let (trace, totals) = run(&cfg, 4, &script);
            assert_eq!((totals.completions, totals.timeouts, totals.receiver_timeouts), (0, 0, 0));
            assert!(!trace.contains("complete"));
        }
        // A loss that a NACK reports is still repaired.
        let (_, totals) = run(&cfg, 4, &Script::default().lose(1, 1));
        assert_eq!((totals.completions, totals.retransmitted), (1, 3));
    }
}

/// Each of the three NACKs makes the sender go back to #2. The receiver acknowledges the unnecessary copies as
/// duplicates.
#[test]
fn a_nack_for_every_packet() {
    let cfg = FlowConfig { nacks: NackPolicy::Every, ..roce() };
    let (trace, totals) = run(&cfg, 6, &Script::default().lose(2, 1));
    assert_trace(
        &sender_view(&trace),
        "t=0us send #0
         t=1us send #1
         t=2us send #2 (lost)
         t=3us send #3
         t=4us send #4
         t=5us ACK 1 arrives
         t=5us send #5
         t=6us ACK 2 arrives
         t=8us NACK 2/3 arrives
         t=8us resend #2
         t=9us NACK 2/4 arrives
         t=9us resend #2
         t=10us NACK 2/5 arrives
         t=10us resend #2
         t=11us resend #3
         t=12us resend #4
         t=13us ACK 3 arrives
         t=13us resend #5
         t=14us ACK 3 arrives
         t=15us ACK 3 arrives
         t=16us ACK 4 arrives
         t=17us ACK 5 arrives
         t=18us ACK 6 arrives, complete",
    );
    assert_eq!((totals.nacks, totals.accepted), (3, 6));
    // With `NackPolicy::Every` a lost retransmission needs no timeout: the next packet triggers another NACK.
    let cfg = FlowConfig { acks: false, timeouts: None, ..cfg };
    let (_, totals) = run(&cfg, 6, &Script::default().lose(2, 1).lose(2, 2));
    assert_eq!(totals.completions, 1);
}

/// The NACK that the receiver's timer sends counts like any other NACK: no further NACK follows before a packet arrives
/// in order or the timer fires again.
#[test]
fn the_request_of_the_timer_is_the_nack() {
    let script = Script::default().lose(2, 1).lose(3, 1).lose(2, 2);
    let (trace, totals) = run(&without_acks(), 4, &script);
    assert!(trace.contains("t=330us recv #3 discarded\n"), "{trace}");
    assert_eq!((totals.nacks, totals.receiver_timeouts), (2, 2));
    assert_eq!(totals.received_at, Some(Time::from_us(644 + 2 + 3 + 1)));
}

/// A NACK for the next packet to send, which has not been sent yet, is not a loss.
#[test]
fn a_request_for_the_next_packet_is_no_loss() {
    let cfg = without_acks();
    let mut sender = Source::<GoBackN>::new(&cfg, &(), 4 * 1_024, Time::ZERO);
    for _ in 0..2 {
        assert!(sender.poll_transmit(&cfg, &(), Time::ZERO).is_some());
    }
    let request = Pdu::nack(Psn::new(2), Psn::new(2), Default::default());
    assert_eq!(sender.handle(&cfg, &(), Time::ZERO, request).loss, None);
}

/// The timer of a flow that starts late runs from the transmission of its first packet.
#[test]
fn the_timer_starts_with_the_first_packet() {
    let cfg = roce();
    let start = Time::from_us(50);
    let mut sender = Source::<GoBackN>::new(&cfg, &(), 1, start);
    assert!(sender.poll_transmit(&cfg, &(), start).is_some());
    assert_eq!(sender.deadline(&cfg), Some((Time::from_us(370), Timer::Retransmit)));
}

/// Go-back-N as a variant of IRN has IRN's cap on packets in flight and both of its timeouts: 100 us with three packets
/// in flight, 320 us with four.
#[test]
fn with_the_cap_and_timeouts_of_irn() {
    let cfg = FlowConfig { bdp_cap: 4, ..FlowConfig::default() };
    for (packets, timeout) in [(3, 100), (9, 320)] {
        let mut sender = Source::<GoBackN>::new(&cfg, &(), packets * 1_024, Time::ZERO);
        while sender.poll_transmit(&cfg, &(), Time::from_us(1)).is_some() {}
        assert_eq!(u64::from(sender.in_flight()), packets.min(4));
        assert_eq!(sender.deadline(&cfg), Some((Time::from_us(1 + timeout), Timer::Retransmit)));
    }
}

/// Go-back-0: the receiver discards what it has when it sends the NACK, and the sender begins again with #0.
#[test]
fn go_back_0_begins_again_with_the_first_packet() {
    let cfg = FlowConfig { go_back: GoBack::First, ..roce() };
    let (trace, totals) = run(&cfg, 4, &Script::default().lose(2, 1));
    assert_trace(
        &trace,
        "t=0us send #0
         t=1us send #1
         t=2us send #2 (lost)
         t=3us recv #0, ACK 1
         t=3us send #3
         t=4us recv #1, ACK 2
         t=5us ACK 1 arrives
         t=6us recv #3 discarded, NACK 0/3
         t=6us ACK 2 arrives
         t=8us NACK 0/3 arrives
         t=8us resend #0
         t=9us resend #1
         t=10us resend #2
         t=11us recv #0, ACK 1
         t=11us resend #3
         t=12us recv #1, ACK 2
         t=13us recv #2, ACK 3
         t=13us ACK 1 arrives
         t=14us recv #3, ACK 4, complete
         t=14us ACK 2 arrives
         t=15us ACK 3 arrives
         t=16us ACK 4 arrives, complete",
    );
    assert_eq!((totals.nacks, totals.retransmitted, totals.completions), (1, 4, 1));
    // No NACK reports the loss of the last packet: after the timeout all four packets are retransmitted. The receiver
    // learns from #0 that the sender has begun again. Without ACKs the timer of the receiver does the same.
    for acks in [true, false] {
        let (_, totals) = run(&FlowConfig { acks, ..cfg.clone() }, 4, &Script::default().lose(3, 1));
        assert_eq!((totals.nacks, totals.retransmitted, totals.completions), (u64::from(!acks), 4, 1), "{acks}");
    }
    // A message with a loss in every attempt never completes, however often it is sent.
    let losses = (1..=50).fold(Script::default(), |script, attempt| script.lose(2, attempt));
    let (_, totals) = run(&cfg, 4, &losses);
    assert_eq!((totals.nacks, totals.retransmitted), (50, 200));
}
