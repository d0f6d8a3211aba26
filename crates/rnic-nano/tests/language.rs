//! Constructs of the language that are translated before code is generated: conditional compilation, functions, default
//! values, constructor parameters, `verify`, `static_assert`, priorities of entries, header stacks, lookahead, tuples,
//! generic structs.

use rnic_nano::source::SourceFile;
use rnic_nano::{NicParameters, P4Pipeline, compile};
use rnic_transport::Time;
use rnic_transport::message::{
    Arrival, Blocks, CreditToBtxEvent, CtrlPktEvent, DeliveredEvent, Departure, Pipeline, RxMsgInfo, RxMsgInfoRequest,
};

const TEXT: &str = include_str!("programs/language.p4");
const STACKS: &str = include_str!("programs/stacks.p4");

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
    let departure = Departure { pkt_offset: a, credit: b, rank: kind, src_context: c, ..Departure::default() };
    sent(TEXT, &departure).map(|event| (event.msg_len, event.pkt_offset, event.credit))
}

/// The control packet that a program sends when the packet of a departure arrives.
fn sent(text: &str, departure: &Departure) -> Option<CtrlPktEvent> {
    let main = SourceFile { name: "main.p4".into(), text: text.into() };
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
    let header = pipeline.egress(departure).header;
    let (trimmed, returned, marked, telemetry) = Default::default();
    let arrival = Arrival { now: Time::ZERO, frame_bytes: 64, trimmed, returned, marked, telemetry };
    let mut sent = Sent::default();
    pipeline.ingress(&mut sent, &header, &arrival);
    sent.0.first().copied()
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

/// For a packet with `items` items of the values 10, 11 and so on: their sum, the item that `b` selects, the item that
/// ends at index 1 after the selected one became 9 and all moved by -1, and which items were valid in between.
fn items(b: u32, items: u8) -> Option<(u32, u16, u32, u8)> {
    let departure = Departure { credit: b, rank: items, src_context: 10, ..Departure::default() };
    let event = sent(STACKS, &departure)?;
    assert_eq!(event.credit, 4, "the size of the stack");
    Some((event.msg_len, event.dst_context, event.pkt_offset, event.rank))
}

#[test]
fn stacks_have_elements() {
    assert_eq!(items(1, 3), Some((33, 11, 12, 3)));
    assert_eq!(items(2, 3), Some((33, 12, 9, 3)));
    assert_eq!(items(2, 2), Some((21, 0, 9, 2)));
    assert_eq!(items(0, 4), Some((46, 10, 12, 1)));
    assert_eq!(items(3, 0), Some((0, 0, 0, 0)));
}

/// Five items do not fit in a stack of four.
#[test]
fn a_full_stack_rejects_packets() {
    assert_eq!(items(1, 4).map(|found| found.0), Some(46));
    assert_eq!(items(1, 5), None);
}

/// The third item begins with 0xff.
#[test]
fn lookahead_consumes_nothing() {
    assert_eq!(items(0x88, 4).map(|found| found.0), Some(21));
}

/// One change in the program with stacks gives one error.
#[test]
fn mistakes_with_stacks_are_named() {
    let index = "hdr.items[index].value = 9;";
    let next = "packet.extract(hdr.items.next);";
    let cases = [
        ("item_t[ITEMS] items", "item_t[0] items", "a stack of 0 headers"),
        ("item_t[ITEMS] items", "bit<8>[ITEMS] items", "not supported: an array of `bit<8>`"),
        ("hdr.items[3].isValid()) { sum", "hdr.items[4].isValid()) { sum", "`item_t[4]` has no element 4"),
        (index, "hdr.items[hdr.h.a > 3].value = 9;", "the index of a header stack cannot be of type `bool`"),
        (index, "hdr.items.next.value = 9;", "`next` of a header stack outside of a parser"),
        (index, "hdr.items.first.value = 9;", "`item_t[4]` has no member `first` here"),
        (index, "hdr.items.push_front(index);", "must be a compile-time constant"),
        (index, "both[index] = 9;", "cannot be assigned to"),
        ("both[1], 0, 0", "both[index], 0, 0", "the index of a tuple must be a compile-time constant"),
        ("both[1], 0, 0", "both[2], 0, 0", "has no element 2"),
        ("both[1], 0, 0", "index[1], 0, 0", "`bit<2>` has no elements"),
        (next, "if (hdr.h.a > 1) { packet.extract(hdr.items.next); }", "a branch takes an element of a header stack"),
        ("lookahead<bit<8>>()", "lookahead<error>()", "`lookahead` cannot read `error`"),
        ("lookahead<bit<8>>()", "lookahead()", "`lookahead` takes a type and no arguments"),
        ("lookahead<bit<8>>()", "length()", "not supported: `packet_in.length`"),
        ("pair_t<bit<32>, bit<16>> found", "pair_t<bit<32>> found", "`pair_t` takes 2 type arguments, found 1"),
        ("pair_t<bit<32>, bit<16>> found", "pair_t found", "`pair_t` takes 2 type arguments, found 0"),
        ("T first;", "T<bit<8>> first;", "`T`"),
    ];
    for (from, to, expected) in cases {
        let text = STACKS.replacen(from, to, 1);
        assert_ne!(text, STACKS, "{from}");
        let main = SourceFile { name: "stacks.p4".into(), text };
        let rejected = compile(main, &|_| None, &[]).expect_err(to).to_string();
        assert!(rejected.contains(expected), "{to}: {rejected}");
    }
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
