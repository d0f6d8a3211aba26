//! The receiver: acknowledgements, selective acknowledgements, receive window.

use super::{config, us};
use rnic_transport::recovery::Tcp;
use rnic_transport::{FlowConfig, Pdu, PduKind, Psn, Receiver, RxMeta, TcpConfig, Time};

/// An acknowledgement: the expected position, the first and last position of its SACK block, and the echoed time in us.
type Answer = (u32, Option<(u32, u32)>, u64);

/// A receiver that the test drives step by step.
struct Sink {
    cfg: FlowConfig,
    receiver: Receiver<Tcp>,
}

impl Sink {
    fn new(tcp: TcpConfig, packets: u64) -> Sink {
        let cfg = config(tcp);
        let receiver = Receiver::new(&cfg, packets * 1_000, Time::ZERO);
        Sink { cfg, receiver }
    }

    /// The response to the segment at `position`, which is sent and arrives at `at` us.
    fn data(&mut self, at: u64, position: u32) -> Option<Answer> {
        let pdu = Pdu::data(self.cfg.first_psn.plus(position), false, us(at));
        let outcome = self.receiver.handle(&self.cfg, us(at), pdu, RxMeta::default());
        outcome.reply.map(|reply| self.show(reply))
    }

    fn show(&self, reply: Pdu) -> Answer {
        let position = |psn: Psn| psn.since(self.cfg.first_psn);
        let last = position(reply.trigger());
        let block = (reply.kind() == PduKind::Nack).then(|| (last - reply.below(), last));
        let echo = us(1_000_000).saturating_sub(reply.stamp().elapsed(us(1_000_000)));
        (position(reply.psn()), block, echo.as_ps() / 1_000_000)
    }
}

#[test]
fn every_arrival_is_acknowledged_at_once() {
    let mut sink = Sink::new(TcpConfig::default(), 600);
    assert_eq!(sink.data(1, 0), Some((1, None, 1)));
    assert_eq!(sink.data(2, 2), Some((1, Some((2, 2)), 2)));
    assert_eq!(sink.data(3, 3), Some((1, Some((2, 3)), 3)));
    assert_eq!(sink.data(4, 6), Some((1, Some((6, 6)), 4)));
    assert_eq!(sink.data(5, 3), Some((1, Some((2, 3)), 5)), "a duplicate");
    assert_eq!(sink.data(6, 1), Some((4, None, 6)), "fills a gap");
    assert_eq!(sink.data(7, 0), Some((4, None, 7)), "old");
    assert_eq!(sink.data(8, 4), Some((5, None, 8)));
    assert_eq!(sink.data(9, 5), Some((7, None, 9)));
    // A NACK reports at most 255 segments before the trigger.
    for position in 8..263 {
        assert_eq!(sink.data(10, position), Some((7, Some((8, position)), 10)));
    }
    assert_eq!(sink.data(10, 263), Some((7, Some((8, 263)), 10)));
    assert_eq!(sink.data(10, 264), Some((7, Some((9, 264)), 10)));
    assert_eq!(sink.receiver.deadline(&sink.cfg), None);
}

#[test]
fn without_sack_all_acknowledgements_are_plain() {
    let mut sink = Sink::new(TcpConfig { sack: false, ..TcpConfig::default() }, 10);
    assert_eq!(sink.data(1, 2), Some((0, None, 1)));
    assert_eq!(sink.data(2, 2), Some((0, None, 2)));
    assert_eq!(sink.data(3, 0), Some((1, None, 3)));
    assert_eq!(sink.data(4, 1), Some((3, None, 4)));
}

/// RFC 5681 section 4.2: the receiver acknowledges at least every second segment, after 500 us at the latest, and any
/// out-of-order segment immediately. It echoes the timestamp of the oldest acknowledged segment (RFC 7323 section 4.3).
#[test]
fn delayed_acknowledgements() {
    let tcp = TcpConfig { delayed_acks: Some(TcpConfig::DELAYED_ACK), ..TcpConfig::default() };
    let mut sink = Sink::new(tcp, 12);
    let deadline = |sink: &Sink| sink.receiver.deadline(&sink.cfg);
    assert_eq!((sink.data(10, 0), deadline(&sink)), (None, Some(us(510))));
    assert_eq!((sink.data(20, 1), deadline(&sink)), (Some((2, None, 10)), None));
    // A single segment waits for the timer.
    assert_eq!((sink.data(30, 2), deadline(&sink)), (None, Some(us(530))));
    assert_eq!(sink.receiver.on_deadline(&sink.cfg, us(529)), None);
    let late = sink.receiver.on_deadline(&sink.cfg, us(530)).map(|reply| sink.show(reply));
    assert_eq!((late, deadline(&sink)), (Some((3, None, 30)), None));
    assert_eq!(sink.receiver.on_deadline(&sink.cfg, us(2_000)), None);
    // The receiver acknowledges out-of-order segments, duplicates, and segments that fill a gap or a part of it
    // immediately. After such an acknowledgement no other acknowledgement is pending.
    assert_eq!(sink.data(600, 3), None);
    assert_eq!((sink.data(610, 5), deadline(&sink)), (Some((4, Some((5, 5)), 610)), None));
    assert_eq!(sink.data(620, 7), Some((4, Some((7, 7)), 620)));
    assert_eq!(sink.data(630, 4), Some((6, None, 630)));
    assert_eq!(sink.data(640, 6), Some((8, None, 640)));
    assert_eq!(sink.data(650, 8), None);
    assert_eq!((sink.data(660, 8), deadline(&sink)), (Some((9, None, 660)), None));
    // The last segment is acknowledged immediately.
    assert_eq!(sink.data(670, 9), None);
    assert_eq!(sink.data(680, 10), Some((11, None, 670)));
    assert_eq!((sink.data(690, 11), deadline(&sink)), (Some((12, None, 690)), None));
    assert!(sink.receiver.is_complete());
}

/// The receiver discards a segment beyond the receive window and sends an ACK (RFC 9293 section 3.10.7.4).
#[test]
fn the_receive_window_is_kept() {
    let mut sink = Sink::new(TcpConfig { receive_window: 3_999, ..TcpConfig::default() }, 10);
    assert_eq!(sink.data(1, 3), Some((0, None, 1)));
    assert_eq!(sink.data(2, 2), Some((0, Some((2, 2)), 2)));
    assert_eq!(sink.data(3, 0), Some((1, None, 3)));
    assert_eq!(sink.data(4, 1), Some((3, None, 4)), "3 was not kept");
}
