//! Constructs of the language that are translated before code is generated: conditional compilation, functions, default
//! values, constructor parameters, `verify`, `static_assert`, priorities of entries.

use rnic_nano::source::SourceFile;
use rnic_nano::{NicParameters, P4Pipeline, compile};
use rnic_transport::Time;
use rnic_transport::message::{
    Arrival, Blocks, CreditToBtxEvent, CtrlPktEvent, DeliveredEvent, Departure, Pipeline, RxMsgInfo, RxMsgInfoRequest,
};

const TEXT: &str = include_str!("programs/language.p4");

/// The control packets that a program sends.
#[derive(Default)]
struct Sent(Vec<CtrlPktEvent>);

impl Blocks for Sent {
    fn get_rx_msg_info(&mut self, _: &RxMsgInfoRequest) -> RxMsgInfo {
        RxMsgInfo::default()
    }
    fn delivered(&mut self, _: &DeliveredEvent) {}
    fn credit_to_btx(&mut self, _: &CreditToBtxEvent) {}
    fn ctrl_pkt(&mut self, event: &CtrlPktEvent) {
        self.0.push(*event);
    }
}

/// The control packet for a header: (msg_len, pkt_offset, credit); `None` if the parser rejects the packet.
fn response(a: u32, b: u32, kind: u8) -> Option<(u32, u32, u32)> {
    with_more(a, b, kind, 0)
}

/// Like [`response`], for a packet with another number after its header.
fn with_more(a: u32, b: u32, kind: u8, c: u16) -> Option<(u32, u32, u32)> {
    let main = SourceFile { name: "language.p4".into(), text: TEXT.into() };
    let program = compile(main, &|_| None, &[]).unwrap_or_else(|rejected| panic!("{rejected}"));
    let nic = NicParameters {
        mac: 1,
        switch_mac: 2,
        ip: 7,
        rtt_pkts: 9,
        mtu: 1024,
        line_rate_mbps: 200_000,
        base_rtt_ns: 525,
    };
    let mut pipeline = P4Pipeline::<64>::new(&program, &nic).expect("room for its header");
    let departure = Departure { pkt_offset: a, credit: b, rank: kind, src_context: c, ..Departure::default() };
    let header = pipeline.egress(&departure).header;
    let (trimmed, returned, marked, telemetry) = Default::default();
    let arrival = Arrival { now: Time::ZERO, frame_bytes: 64, trimmed, returned, marked, telemetry };
    let mut sent = Sent::default();
    pipeline.ingress(&mut sent, &header, &arrival);
    sent.0.first().map(|event| (event.msg_len, event.pkt_offset, event.credit))
}

/// The parser adds 1 to `b` after the first `verify`; the control swaps `a` and `b`, so a' = b + 1 and b' = a. The
/// first number is a' within 1 to 40, the second 3 b' + 2 a' within 100 to 1,000.
#[test]
fn functions_and_inner_controls_compute() {
    assert_eq!(response(50, 9, 2), Some((10, 170, 5)));
    assert_eq!(response(1_000, 99, 2), Some((40, 1_000, 5)));
    assert_eq!(response(1, u32::MAX, 2), Some((1, 100, 5)));
}

/// Kind 1 matches all three entries, and the one with the smallest priority wins; kind 3 matches two of them.
#[test]
fn priorities_order_entries() {
    assert_eq!(response(50, 9, 1).map(|response| response.2), Some(6));
    assert_eq!(response(50, 9, 3).map(|response| response.2), Some(7));
}

#[test]
fn verify_rejects_packets() {
    assert_eq!(response(50, 9, 7), None);
    assert_eq!(response(u32::MAX, 9, 2), None);
}

/// The inner parser reads a number after the header of kind 9, which must be below 500; the control adds it to a'.
#[test]
fn a_parser_within_a_parser() {
    assert_eq!(with_more(50, 9, 9, 20), Some((30, 210, 7)));
    assert_eq!(with_more(50, 9, 2, 20), Some((10, 170, 5)));
    assert_eq!((with_more(50, 9, 9, 500), with_more(50, 9, 2, 500)), (None, Some((10, 170, 5))));
}

/// One change in the program gives one error.
#[test]
fn mistakes_are_named() {
    let cases = [
        ("#if VERSION >= 2", "#if VERSION >=", "the condition has"),
        ("#define VERSION 2", "#define VERSION 0", "#error an unknown version"),
        ("STEP == 3,", "STEP == 4,", "static_assert failed: the second version has a step of 3"),
        ("    return x * factor;", "    return;", "`return` without the function's result"),
        ("    return x * factor;", "    bit<32> y = x;", "a function with a result has no `return`"),
        ("    return x * factor;", "    exit;", "a function has no `exit`"),
        ("    return kind != 7;", "    return is_known(kind);", "the function `is_known` calls itself"),
        ("    x = y;", "    return y;", "`return` with a value, but there is no result"),
        ("Limit(40) small;", "Limit() small;", "`Limit` takes 2 arguments, found 0"),
        ("Limit(40) small;", "Limit(min = 3) small;", "omits a parameter without a default value"),
        ("Limit(40) small;", "Limit(nic.rtt_pkts) small;", "must be a compile-time constant"),
        ("priority = 20: 1", "1", "some entries of the table have a priority, and others have none"),
        ("in bit<32> factor = STEP", "out bit<32> factor = STEP", "`out` or `inout` parameter with a default value"),
        (
            "verify(hdr.h.a != 0xffffffff, error.NoMatch);",
            "if (true) { verify(true, error.NoMatch); }",
            "`verify` is a statement",
        ),
        ("verify(hdr.h.a != 0xffffffff, error.NoMatch);", "verify(true);", "`verify` takes a condition and an error"),
        ("more.apply(packet, hdr.more", "more.apply(hdr.h, hdr.more", "expected the packet"),
        (
            "more.apply(packet, hdr.more, hdr.h.kind);",
            "if (true) { more.apply(packet, hdr.more, hdr.h.kind); }",
            "a parser is applied in a statement of a state",
        ),
        ("More(500) more;", "More() more;", "`More` takes 1 argument, found 0"),
        ("I(), E()", "I(3), E()", "`I` takes 0 arguments, found 1"),
    ];
    for (from, to, expected) in cases {
        let text = TEXT.replacen(from, to, 1);
        assert_ne!(text, TEXT, "{from}");
        let main = SourceFile { name: "language.p4".into(), text };
        let rejected = compile(main, &|_| None, &[]).expect_err(to).to_string();
        assert!(rejected.contains(expected), "{to}: {rejected}");
    }
}
