//! Whole flows: the setup of a connection, and a loss.

use super::{config, us};
use crate::common::{Pipe, SYN, Script, assert_trace, run_traced, sender_view};
use rnic_transport::recovery::{ReceiveRecovery, SendRecovery, Tcp, TcpReceiver, TcpSender};
use rnic_transport::{Pdu, TcpConfig, Time};

/// Runs a connection over a pipe with 1 us per segment and a one-way delay of 2 us. Returns the trace and the number of
/// SYNs.
fn connection(tcp: TcpConfig, packets: u32, script: &Script) -> (String, u64) {
    let (trace, totals) = run_traced::<Tcp>(&config(tcp), packets, Pipe::SHORT, script);
    assert_eq!((totals.accepted, totals.completions), (u64::from(packets), 1));
    (trace, totals.syns)
}

const HANDSHAKE: TcpConfig = TcpConfig {
    sack: true,
    delayed_acks: None,
    initial_window: Some(2),
    receive_window: 4_000_000,
    rto_min: Time::from_us(100),
    rto_initial: Time::from_us(100),
    rto_max: Time::from_us(300),
    handshake: true,
    dup_thresh: 3,
};

#[test]
fn setup_takes_a_round_trip() {
    let (trace, _) = connection(HANDSHAKE, 3, &Script::default());
    assert_trace(
        &trace,
        "t=0us send SYN
         t=3us recv SYN, SYN-ACK 0
         t=5us SYN-ACK 0 arrives
         t=5us send #0
         t=6us send #1
         t=8us recv #0, ACK 1
         t=9us recv #1, ACK 2
         t=10us ACK 1 arrives
         t=10us send #2
         t=11us ACK 2 arrives
         t=13us recv #2, ACK 3, complete
         t=15us ACK 3 arrives, complete",
    );
}

/// The timeout of the SYN doubles up to the maximum; the initial window is then one segment (RFC 5681 section 3.1).
#[test]
fn lost_syns() {
    let script = Script::default().lose(SYN, 1).lose(SYN, 2).lose(SYN, 3);
    let (trace, syns) = connection(HANDSHAKE, 3, &script);
    assert_eq!(syns, 4);
    assert_trace(
        &sender_view(&trace),
        "t=0us send SYN (lost)
         t=100us timeout
         t=100us send SYN (lost)
         t=300us timeout
         t=300us send SYN (lost)
         t=600us timeout
         t=600us send SYN
         t=605us SYN-ACK 0 arrives
         t=605us send #0
         t=610us ACK 1 arrives
         t=610us send #1
         t=611us send #2
         t=615us ACK 2 arrives
         t=616us ACK 3 arrives, complete",
    );
}

/// A connected receiver responds to a second SYN with another SYN-ACK.
#[test]
fn lost_syn_ack() {
    let (trace, _) = connection(HANDSHAKE, 1, &Script::default().lose_reply(1));
    assert_trace(
        &trace,
        "t=0us send SYN
         t=3us recv SYN, SYN-ACK 0 (lost)
         t=100us timeout
         t=100us send SYN
         t=103us recv SYN discarded, SYN-ACK 0
         t=105us SYN-ACK 0 arrives
         t=105us send #0
         t=108us recv #0, ACK 1, complete
         t=110us ACK 1 arrives, complete",
    );
}

/// A late SYN-ACK, which arrives after the timer fired, establishes the connection; the second SYN-ACK has no effect.
#[test]
fn late_syn_ack() {
    let script = Script::default().delay_reply(1, us(97));
    let (trace, _) = connection(HANDSHAKE, 2, &script);
    assert_trace(
        &trace,
        "t=0us send SYN
         t=3us recv SYN, SYN-ACK 0
         t=100us timeout
         t=100us send SYN
         t=102us SYN-ACK 0 arrives
         t=102us send #0
         t=103us recv SYN discarded, SYN-ACK 0
         t=105us recv #0, ACK 1
         t=105us SYN-ACK 0 arrives
         t=107us ACK 1 arrives
         t=107us send #1
         t=110us recv #1, ACK 2, complete
         t=112us ACK 2 arrives, complete",
    );
}

#[test]
fn setup_measures_and_cannot_be_faked() {
    let cfg = config(HANDSHAKE);
    let mut sender = TcpSender::new(&cfg, 10);
    let first = cfg.first_psn;
    assert_eq!(sender.deadline(&cfg), None, "nothing was sent yet");
    let stamp = rnic_transport::pdu::Stamp::at(us(10));
    let answer = Pdu::ack(first, stamp).with_syn();
    sender.on_reply(&cfg, us(10), answer);
    assert!(sender.poll(&cfg, us(10), u32::MAX).is_some_and(|pick| pick.syn), "no answer before the question");
    assert_eq!(sender.deadline(&cfg), Some(us(110)));
    for other in [
        Pdu::ack(first, stamp),
        Pdu::ack(first.plus(1), stamp).with_syn(),
        Pdu::nack(first, first.plus(1), stamp).with_syn(),
    ] {
        sender.on_reply(&cfg, us(30), other);
        assert!(!sender.has_work(&cfg, u32::MAX), "{other:?}");
    }
    sender.on_reply(&cfg, us(40), answer);
    assert_eq!(sender.rtt().smoothed(), Some(us(30)));
    assert_eq!((sender.deadline(&cfg), sender.congestion_window()), (None, 2_000));
    // The receiver discards data without a connection, and a SYN if handshakes are off, without a response.
    let mut receiver = TcpReceiver::new(&cfg, 10, Time::ZERO);
    let data = Pdu::data(first, false, Time::ZERO);
    let outcome = receiver.on_data(&cfg, Time::ZERO, data);
    assert_eq!((outcome.reply, outcome.discarded), (None, true));
    assert_eq!(receiver.on_data(&cfg, Time::ZERO, data.with_syn()).reply.map(Pdu::is_syn), Some(true));
    assert_eq!(receiver.on_data(&cfg, Time::ZERO, data).reply, Some(Pdu::ack(first.plus(1), data.stamp())));
    let cfg = config(TcpConfig { handshake: false, ..HANDSHAKE });
    let mut receiver = TcpReceiver::new(&cfg, 10, Time::ZERO);
    assert_eq!(receiver.on_data(&cfg, Time::ZERO, data.with_syn()).reply, None);
}

/// The trace of a whole flow: segments 3, 4 and 5 prove the loss of segment 2, and the window becomes half of the data
/// in flight.
#[test]
fn a_loss_in_the_pipe() {
    let tcp = TcpConfig { initial_window: Some(6), handshake: false, ..HANDSHAKE };
    let (trace, _) = connection(tcp, 8, &Script::default().lose(2, 1));
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
         t=6us recv #3, NACK 2/3
         t=6us ACK 2 arrives
         t=6us send #6
         t=7us recv #4, NACK 2/4
         t=7us send #7
         t=8us recv #5, NACK 2/5
         t=8us NACK 2/3 arrives
         t=9us recv #6, NACK 2/6
         t=9us NACK 2/4 arrives
         t=10us recv #7, NACK 2/7
         t=10us NACK 2/5 arrives
         t=10us resend #2
         t=11us NACK 2/6 arrives
         t=12us NACK 2/7 arrives
         t=13us recv #2, ACK 8, complete
         t=15us ACK 8 arrives, complete",
    );
}
