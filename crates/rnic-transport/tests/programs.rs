//! Checks the reactions of each program to single packets against values computed by hand.

use crate::network::{Network, Planned, Weather};
use rnic_transport::Time;
use rnic_transport::message::flags::{ACK, DATA, NACK, PULL};
use rnic_transport::message::programs::{Homa, HomaSettings, Hpcc, HpccHeader, HpccSettings, NativeHeader, Ndp};
use rnic_transport::message::{
    Arrival, Blocks, CreditToBtxEvent, CtrlPktEvent, DeliveredEvent, Departure, NicConfig, Pipeline, RxMsgInfo,
    RxMsgInfoRequest, Verdict,
};
use rnic_transport::telemetry::{HopRecord, Telemetry};

/// Blocks that return results given by the test and record the program's calls.
#[derive(Default)]
struct Recorder {
    info: RxMsgInfo,
    asked: Vec<RxMsgInfoRequest>,
    delivered: Vec<DeliveredEvent>,
    credits: Vec<CreditToBtxEvent>,
    control: Vec<CtrlPktEvent>,
}

impl Blocks for Recorder {
    fn get_rx_msg_info(&mut self, request: &RxMsgInfoRequest) -> RxMsgInfo {
        self.asked.push(*request);
        self.info
    }
    fn delivered(&mut self, event: &DeliveredEvent) {
        self.delivered.push(*event);
    }
    fn credit_to_btx(&mut self, event: &CreditToBtxEvent) {
        self.credits.push(*event);
    }
    fn ctrl_pkt(&mut self, event: &CtrlPktEvent) {
        self.control.push(*event);
    }
}

const SENDER: u32 = 0x0a00_0001;
const MESSAGE: u32 = 5 << 16 | 3;

fn arrival(trimmed: bool, returned: bool) -> Arrival<'static> {
    Arrival { now: Time::ZERO, frame_bytes: 64, trimmed, returned, marked: false, telemetry: None }
}

/// A data packet of a message of `packets` full packets.
fn data(packets: u32, pkt_offset: u32) -> NativeHeader {
    NativeHeader {
        src_ip: SENDER,
        src_context: 9,
        dst_context: 7,
        tx_msg_id: MESSAGE,
        msg_len: packets * 1_024,
        pkt_offset,
        flags: DATA,
        ..NativeHeader::default()
    }
}

fn new_packet(rx_msg_id: u16, is_new_msg: bool, ack_no: u32) -> RxMsgInfo {
    RxMsgInfo { rx_msg_id, is_new_msg, is_new_pkt: true, ack_no, ..RxMsgInfo::default() }
}

fn complete(ack_no: u32) -> RxMsgInfo {
    RxMsgInfo { rx_msg_id: RxMsgInfo::COMPLETE, ack_no, ..RxMsgInfo::default() }
}

/// The reaction of the program to a packet.
fn ingress<P: Pipeline>(
    program: &mut P, header: &P::Header, info: RxMsgInfo, arrival: &Arrival<'_>,
) -> (Verdict, Recorder) {
    let mut blocks = Recorder { info, ..Recorder::default() };
    let verdict = program.ingress(&mut blocks, header, arrival);
    (verdict, blocks)
}

/// The control packets that the program sent, each as `immediate`, `paced`, `pkt_offset`, `credit`, `rank`.
fn control(blocks: &Recorder) -> Vec<(u8, u8, u32, u32, u8)> {
    blocks
        .control
        .iter()
        .map(|event| (event.immediate, event.paced, event.pkt_offset, event.credit, event.rank))
        .collect()
}

/// A message has 11 packets, 9 of them unscheduled. The receiver sends PULLs for packets 9 and 10, but none for packets
/// beyond the end of the message.
#[test]
fn ndp_pulls_while_there_is_something_to_pull() {
    let mut ndp = Ndp::new(1, 1_024, 9);
    let (verdict, blocks) = ingress(&mut ndp, &data(11, 0), new_packet(4, true, 1), &arrival(false, false));
    assert_eq!(verdict, Verdict::Reassemble { rx_msg_id: 4, pkt_offset: 0, is_last_pkt: false });
    assert_eq!(control(&blocks), [(ACK, PULL, 0, 10, 0)]);
    let event = blocks.control[0];
    assert_eq!((event.dst_ip, event.dst_context, event.src_context), (SENDER, 9, 7));
    assert_eq!((event.tx_msg_id, event.msg_len), (MESSAGE, 11 * 1_024));
    assert!(blocks.asked[0].mark_received);

    let (verdict, blocks) = ingress(&mut ndp, &data(11, 3), new_packet(4, false, 1), &arrival(true, false));
    assert_eq!((verdict, control(&blocks)), (Verdict::Consumed, vec![(NACK, PULL, 3, 10, 0)]));
    assert!(!blocks.asked[0].mark_received);

    let (_, blocks) = ingress(&mut ndp, &data(11, 1), new_packet(4, false, 2), &arrival(false, false));
    assert_eq!(control(&blocks), [(ACK, PULL, 1, 11, 0)]);
    let (_, blocks) = ingress(&mut ndp, &data(11, 2), new_packet(4, false, 3), &arrival(false, false));
    assert_eq!(control(&blocks), [(ACK, 0, 2, 12, 0)]);
}

#[test]
fn ndp_answers_what_it_has_already() {
    let mut ndp = Ndp::new(1, 1_024, 9);
    ingress(&mut ndp, &data(30, 0), new_packet(0, true, 1), &arrival(false, false));
    for trimmed in [false, true] {
        let old = RxMsgInfo { is_new_pkt: false, ..new_packet(0, false, 1) };
        let (verdict, blocks) = ingress(&mut ndp, &data(30, 0), old, &arrival(trimmed, false));
        assert_eq!((verdict, control(&blocks)), (Verdict::Consumed, vec![(ACK, PULL, 0, 10, 0)]));
    }
    let (_, blocks) = ingress(&mut ndp, &data(30, 6), complete(30), &arrival(true, false));
    assert_eq!(control(&blocks), [(ACK, 0, 6, 0, 0)]);
    let fail = RxMsgInfo { fail: true, ..RxMsgInfo::default() };
    let (verdict, blocks) = ingress(&mut ndp, &data(30, 6), fail, &arrival(false, false));
    assert_eq!((verdict, control(&blocks)), (Verdict::Consumed, vec![]));
}

#[test]
fn ndp_sender_takes_each_flag_for_itself() {
    let mut ndp = Ndp::new(1, 1_024, 9);
    let mut says = |flags| {
        let header = NativeHeader { flags, credit: 20, ..data(30, 6) };
        let (_, blocks) = ingress(&mut ndp, &header, RxMsgInfo::default(), &arrival(false, false));
        assert!(blocks.asked.is_empty());
        let acked = blocks.delivered.first().map(|event| (event.before, event.pkt_offset, event.bitmap));
        (acked, blocks.credits.first().map(|event| ((event.bitmap == 1).then_some(event.pkt_offset), event.credit)))
    };
    assert_eq!(says(ACK), (Some((0, 6, 1)), None));
    assert_eq!(says(ACK | PULL), (Some((0, 6, 1)), Some((None, Some(20)))));
    assert_eq!(says(NACK), (None, Some((Some(6), None))));
    assert_eq!(says(NACK | PULL), (None, Some((Some(6), Some(20)))));
    let (_, blocks) = ingress(&mut ndp, &data(30, 6), RxMsgInfo::default(), &arrival(true, true));
    assert_eq!(blocks.credits, [CreditToBtxEvent { tx_msg_id: MESSAGE, pkt_offset: 6, bitmap: 1, credit: None }]);
}

const HOMA: HomaSettings = HomaSettings {
    mtu: 1_024,
    rtt_pkts: 9,
    unscheduled_priorities: 1,
    scheduled_priorities: 3,
    overcommitment: 2,
    trimming: true,
};

/// Three messages of 30, 20 and 40 packets send their first packets. The overcommitment allows grants to two messages.
#[test]
fn homa_grants_to_those_with_the_least_left() {
    let mut homa = Homa::new(1, HOMA);
    let mut whole = |packets, number, info| {
        let header = NativeHeader { tx_msg_id: packets, ..data(packets, number) };
        let (_, blocks) = ingress(&mut homa, &header, info, &arrival(false, false));
        let to: Vec<_> = blocks.control.iter().map(|event| event.tx_msg_id).collect();
        (to, control(&blocks))
    };
    // 29 packets of the first message are missing. It is the only message, so it has level 0 and priority 1.
    assert_eq!(whole(30, 0, new_packet(0, true, 1)), (vec![30], vec![(PULL, 0, 1, 10, 1)]));
    // 19 packets of the second message are missing, fewer than of the first, so it gets level 0.
    assert_eq!(whole(20, 0, new_packet(1, true, 1)), (vec![20], vec![(PULL, 0, 1, 10, 1)]));
    // 39 packets of the third message are missing. It is the third in order and gets no grant, so the receiver sends an
    // ACK with its old credit.
    assert_eq!(whole(40, 0, new_packet(2, true, 1)), (vec![40], vec![(ACK, 0, 1, 9, 0)]));
    // The first message has level 1 now.
    assert_eq!(whole(30, 1, new_packet(0, false, 2)), (vec![30], vec![(PULL, 0, 2, 11, 2)]));
    // A duplicate packet of the third message triggers an ACK for this message.
    let again = RxMsgInfo { is_new_pkt: false, ..new_packet(2, false, 1) };
    assert_eq!(whole(40, 0, again), (vec![40], vec![(ACK, 0, 1, 9, 0)]));
    // The second message gets grants up to its end. After that its packets trigger grants to other messages.
    for number in 1..11 {
        assert_eq!(whole(20, number, new_packet(1, false, number + 1)).1, [(PULL, 0, number + 1, 10 + number, 1)]);
    }
    assert_eq!(whole(20, 11, new_packet(1, false, 12)), (vec![40], vec![(PULL, 0, 1, 10, 2)]));
    assert_eq!(whole(20, 12, new_packet(1, false, 13)), (vec![20], vec![(ACK, 0, 13, 20, 0)]));
    let last = RxMsgInfo { is_last_pkt: true, ..new_packet(1, false, 20) };
    assert_eq!(whole(20, 19, last), (vec![20], vec![(ACK, 0, 20, 20, 0)]));
    assert_eq!(whole(20, 19, complete(20)), (vec![20], vec![(ACK, 0, 20, 0, 0)]));
}

/// The overcommitment allows grants to two messages, and both senders stop sending. The third message gets a grant only
/// when the reception of one of the two expires.
#[test]
fn homa_forgets_messages_that_expire() {
    let mut homa = Homa::new(1, HOMA);
    for (number, packets) in [(0, 20), (1, 30), (2, 40)] {
        ingress(&mut homa, &data(packets, 0), new_packet(number, true, 1), &arrival(false, false));
    }
    let again = RxMsgInfo { is_new_pkt: false, ..new_packet(2, false, 1) };
    let (_, blocks) = ingress(&mut homa, &data(40, 0), again, &arrival(false, false));
    assert_eq!(control(&blocks), [(ACK, 0, 1, 9, 0)]);
    homa.expired(0);
    let (_, blocks) = ingress(&mut homa, &data(40, 0), again, &arrival(false, false));
    assert_eq!(control(&blocks), [(PULL, 0, 1, 10, 2), (ACK, 0, 1, 9, 0)]);
}

#[test]
fn homa_tr_asks_for_trimmed_packets_and_homa_does_not() {
    let mut homa = Homa::new(1, HOMA);
    let (verdict, blocks) = ingress(&mut homa, &data(30, 4), new_packet(0, true, 0), &arrival(true, false));
    assert_eq!((verdict, control(&blocks)), (Verdict::Consumed, vec![(NACK, 0, 4, 0, 0)]));
    // A trimmed packet does not raise the credit. The first whole packet raises it to 9 + 1.
    let (_, blocks) = ingress(&mut homa, &data(30, 0), new_packet(0, false, 1), &arrival(false, false));
    assert_eq!(control(&blocks), [(PULL, 0, 1, 10, 1)]);
    let header = NativeHeader { flags: NACK, credit: 2, ..data(30, 4) };
    let (_, blocks) = ingress(&mut homa, &header, RxMsgInfo::default(), &arrival(false, false));
    assert_eq!((blocks.delivered[0].before, blocks.delivered[0].bitmap), (2, 0));
    assert_eq!(blocks.credits, [CreditToBtxEvent { tx_msg_id: MESSAGE, pkt_offset: 4, bitmap: 1, credit: None }]);

    let mut homa = Homa::new(1, HomaSettings { trimming: false, ..HOMA });
    let (verdict, blocks) = ingress(&mut homa, &data(30, 4), new_packet(0, true, 0), &arrival(true, false));
    assert_eq!((verdict, blocks.asked.len(), blocks.control.len()), (Verdict::Consumed, 0, 0));
}

#[test]
fn homa_priorities() {
    let mut homa = Homa::new(1, HomaSettings { unscheduled_priorities: 2, ..HOMA });
    let mut band = |packets: u32, is_new_msg, is_rtx, flags| {
        let msg_len = packets * 1_024;
        let departure = Departure { tx_msg_id: MESSAGE, msg_len, is_new_msg, is_rtx, flags, ..Departure::default() };
        homa.egress(&departure).priority
    };
    assert_eq!(band(9, true, false, DATA), 0, "all of it is unscheduled");
    assert_eq!(band(9, false, true, DATA), 2, "again: not before unscheduled packets");
    assert_eq!(band(10, true, false, DATA), 1, "the last unscheduled level");
    assert_eq!(band(10, false, false, ACK), 0);
    let grant = NativeHeader { flags: PULL, credit: 12, rank: 4, ..data(30, 3) };
    let (_, blocks) = ingress(&mut homa, &grant, RxMsgInfo::default(), &arrival(false, false));
    assert_eq!((blocks.delivered[0].before, blocks.credits[0].credit), (3, Some(12)));
    let departure = Departure { tx_msg_id: MESSAGE, flags: DATA, ..Departure::default() };
    assert_eq!(homa.egress(&departure).priority, 4);
    assert_eq!(homa.egress(&Departure { is_rtx: true, ..departure }).priority, 4);
}

/// One message of 20 packets crosses two links of 87.5 ns propagation delay and a store-and-forward switch. A data
/// frame takes 43.52 ns per link, a control frame 2.56 ns. A data packet that leaves at t arrives at t + 262.04 ns, and
/// its reply arrives at t + 442.16 ns. PULLs have the same distance as data packets, so the sender's link would never
/// be idle with 11 packets in flight. With 9 packets it is idle for 442.16 - 9 x 43.52 = 50.48 ns per round trip.
#[test]
fn one_message_over_an_idle_network() {
    let plan = vec![Planned { at: Time::ZERO, src: 0, dst: 1, bytes: 20 * 1_024 }];
    let cfg = NicConfig::default();
    let mut ndp = Network::new(cfg.clone(), 2, |ip| Ndp::new(ip, 1_024, 9), plan.clone(), Weather::default(), 1);
    let homa = HomaSettings { trimming: false, overcommitment: 3, ..HOMA };
    let mut homa = Network::new(cfg, 2, |ip| Homa::new(ip, homa), plan, Weather::default(), 1);
    assert!(ndp.run(Time::from_ms(1)) && homa.run(Time::from_ms(1)));
    // Packet 19 is the second packet of the third round trip.
    let done = Time::from_ps(2 * 442_160 + 43_520 + 262_040);
    for (totals, log, record) in [(ndp.totals, &ndp.log, &ndp.records[0]), (homa.totals, &homa.log, &homa.records[0])] {
        assert_eq!((totals.data, totals.retransmitted, totals.control, totals.useless), (20, 0, 20, 0));
        assert_eq!(log[9].0, Time::from_ps(442_160));
        assert_eq!(record.delivered_at, Some(done));
    }
    assert!(ndp.log.iter().all(|packet| packet.2 == 1));
    assert!(homa.log.iter().enumerate().all(|(number, packet)| packet.2 == u8::from(number >= 9)));
}

const HPCC: HpccSettings =
    HpccSettings { mtu: 1_024, rtt_pkts: 20, base_rtt_ns: 1_000, additive_bytes: 80, target: 62_259, max_stages: 5 };

fn hop(timestamp_ns: u32, tx_bytes: u32, queue_bytes: u32) -> Telemetry {
    let mut telemetry = Telemetry::default();
    telemetry.push(HopRecord { timestamp_ns, tx_bytes, queue_bytes, rate_mbps: 100_000 });
    telemetry
}

/// Sends the first packet of a message. Returns a function that delivers an ACK with telemetry and returns the
/// resulting credit.
fn hpcc_sender() -> impl FnMut(u32, Telemetry) -> u32 {
    let mut hpcc = Hpcc::new(1, HPCC);
    hpcc.egress(&Departure { tx_msg_id: MESSAGE, is_new_msg: true, flags: DATA, ..Departure::default() });
    move |ack_no, echo| {
        let native = NativeHeader { flags: ACK, credit: ack_no, ..data(500, ack_no - 1) };
        let header = HpccHeader { native, echo };
        let (_, blocks) = ingress(&mut hpcc, &header, RxMsgInfo::default(), &arrival(false, false));
        assert_eq!((blocks.delivered[0].before, blocks.delivered[0].bitmap), (ack_no, 1));
        blocks.credits[0].credit.unwrap()
    }
}

/// The link sends 12.5 bytes per ns (100 Gbps), and T is 1 us. If telemetry reports 25,000 bytes sent in a round trip,
/// U is 2. The window of 20,480 bytes is multiplied by 0.95 / 2 and grows by 80 bytes to 9,808 bytes, or 9 packets.
/// After another round trip with U = 2 the window is 4,738 bytes, or 4 packets.
#[test]
fn hpcc_window_follows_the_utilisation() {
    let mut ack = hpcc_sender();
    assert_eq!(ack(1, hop(0, 0, 0)), 21, "the first answer is there to compare with");
    assert_eq!(ack(15, hop(1_000, 25_000, 0)), 24);
    assert_eq!(ack(21, hop(2_000, 50_000, 0)), 30, "more than 20 packets: the reference becomes 9,808");
    assert_eq!(ack(28, hop(3_000, 75_000, 0)), 32, "28 + 4");
    // The smaller of two consecutive queue lengths counts. First it is 0 bytes, and U = 1: the window is 0.95 x 4,738 +
    // 80 = 4,581 bytes. Then it is 12,500 bytes, which adds 1.0 to U: the window is 0.475 x 4,738 + 80 = 2,330 bytes.
    assert_eq!(ack(29, hop(4_000, 87_500, 12_500)), 33);
    assert_eq!(ack(32, hop(5_000, 100_000, 12_500)), 34);
}

#[test]
fn hpcc_idle_path_adds_and_then_multiplies() {
    let mut ack = hpcc_sender();
    ack(1, hop(0, 0, 0));
    assert_eq!(ack(21, hop(1_000, 25_000, 0)), 30, "reference: 9,808");
    // From here on U is 0.5. The window grows by 80 bytes in each of five round trips, and is then multiplied by 0.95 /
    // 0.5, up to the maximum of 20,480 bytes.
    let mut at = 1_000;
    let mut bytes = 25_000;
    let mut credit = 30;
    let windows: Vec<u32> = (0..7)
        .map(|_| {
            (at, bytes) = (at + 1_000, bytes + 6_250);
            let acked = credit + 1;
            credit = ack(acked, hop(at, bytes, 0));
            credit - acked
        })
        .collect();
    assert_eq!(windows, [9, 9, 9, 9, 9, 19, 19]);
}

#[test]
fn hpcc_old_answers_and_old_telemetry() {
    let mut ack = hpcc_sender();
    ack(1, hop(5_000, 0, 0));
    // U is 1 at the beginning, so the window is 0.95 x 20,480 + 80 = 19,536 bytes, or 19 packets.
    assert_eq!(ack(12, hop(4_000, 99_000, 0)), 31, "earlier than what is known: not measured");
    assert_eq!(ack(13, hop(5_000, 99_000, 0)), 32);
    let mut hpcc = Hpcc::new(1, HPCC);
    let native = NativeHeader { flags: ACK, credit: 1, ..data(30, 0) };
    let header = HpccHeader { native, echo: hop(0, 0, 0) };
    let (_, blocks) = ingress(&mut hpcc, &header, RxMsgInfo::default(), &arrival(false, false));
    assert!(blocks.delivered.is_empty() && blocks.credits.is_empty(), "not this NIC's message of the moment");
}

#[test]
fn hpcc_echoes_the_telemetry_of_each_packet() {
    let mut hpcc = Hpcc::new(1, HPCC);
    let mut events = Vec::new();
    for number in 0..300u32 {
        let telemetry = hop(number, 0, 0);
        let arrival = Arrival { telemetry: Some(&telemetry), ..arrival(number == 299, false) };
        let header = HpccHeader { native: data(500, number), echo: Telemetry::default() };
        let (_, blocks) = ingress(&mut hpcc, &header, new_packet(0, number == 0, number), &arrival);
        events.push(blocks.control[0]);
    }
    let mut egress = |number: usize| {
        let CtrlPktEvent { dst_ip, tx_msg_id, pkt_offset, credit, rank, immediate, .. } = events[number];
        let departure =
            Departure { dst_ip, tx_msg_id, pkt_offset, credit, rank, flags: immediate, ..Departure::default() };
        let framed = hpcc.egress(&departure);
        (framed.priority, framed.header.native.flags, framed.header.native.credit, framed.header.echo)
    };
    assert_eq!(egress(299), (0, NACK, 299, hop(299, 0, 0)));
    assert_eq!(egress(44), (0, ACK, 44, hop(44, 0, 0)));
    assert_eq!(egress(43).3, hop(299, 0, 0), "256 answers later the place has newer telemetry of the same message");
}
