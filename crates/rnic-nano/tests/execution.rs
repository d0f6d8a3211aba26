//! Tests of compiled programs on a NIC: calls of the fixed-function blocks, emitted headers, and tables that a control
//! plane changes.

use rnic_nano::hir::{StateId, Target, Transition};
use rnic_nano::runtime::{Key, TableError};
use rnic_nano::source::SourceFile;
use rnic_nano::{NicParameters, P4Header, P4Pipeline, Program, compile};
use rnic_transport::Time;
use rnic_transport::message::{
    Arrival, Blocks, CreditToBtxEvent, CtrlPktEvent, DeliveredEvent, Departure, Pipeline, RxMsgInfo, RxMsgInfoRequest,
    Verdict, flags,
};
use rnic_transport::telemetry::{HopRecord, Telemetry};

/// Fixed-function blocks that record all events. They return the same message information for every packet.
#[derive(Default)]
struct Recorder {
    info: RxMsgInfo,
    requests: Vec<RxMsgInfoRequest>,
    delivered: Vec<DeliveredEvent>,
    credit: Vec<CreditToBtxEvent>,
    control: Vec<CtrlPktEvent>,
}

impl Blocks for Recorder {
    fn get_rx_msg_info(&mut self, request: &RxMsgInfoRequest) -> RxMsgInfo {
        self.requests.push(*request);
        self.info
    }
    fn delivered(&mut self, event: &DeliveredEvent) {
        self.delivered.push(*event);
    }
    fn credit_to_btx(&mut self, event: &CreditToBtxEvent) {
        self.credit.push(*event);
    }
    fn ctrl_pkt(&mut self, event: &CtrlPktEvent) {
        self.control.push(*event);
    }
}

const NIC: NicParameters = NicParameters {
    mac: 0x0200_0000_0001,
    switch_mac: 0x0200_0000_00ff,
    ip: 7,
    rtt_pkts: 9,
    mtu: 1024,
    line_rate_mbps: 200_000,
    base_rtt_ns: 525,
};

fn arrival() -> Arrival<'static> {
    let (trimmed, returned, marked, telemetry) = Default::default();
    Arrival { now: Time::from_ns(1500), frame_bytes: 1088, trimmed, returned, marked, telemetry }
}

fn program(text: &str) -> Program {
    let main = SourceFile { name: "test.p4".to_string(), text: text.to_string() };
    compile(main, &|_: &str| None, &[]).unwrap_or_else(|rejected| panic!("{rejected}"))
}

fn pipeline(text: &str) -> P4Pipeline<64> {
    P4Pipeline::new(&program(text), &NIC).expect("room for its header")
}

/// Returns a program with a header of two 32-bit fields `a` and `b`. Its ingress executes the statements `ingress`,
/// and then sends a control packet with `b` as the credit.
fn small(declarations: &str, ingress: &str) -> String {
    format!(
        "#include <core.p4>
        #include <nanotransport.p4>
        header h_t {{ bit<32> a; bit<32> b; }}
        struct headers_t {{ h_t h; }}
        struct metadata_t {{ }}
        parser P(packet_in packet, out headers_t hdr, inout metadata_t meta, in arrival_t arrival, in nic_t nic) {{
            state start {{ packet.extract(hdr.h); transition accept; }}
        }}
        {declarations}
            apply {{
                {ingress}
                ctrl_pkt_event({{0, 0, 0, 0, 0, 0, hdr.h.b, 0}}, ACK, 0);
            }}
        }}
        control E(inout headers_t hdr, inout metadata_t meta, in departure_t departure, in nic_t nic, inout link_t link) {{
            apply {{ hdr.h.setValid(); hdr.h.a = departure.pkt_offset; hdr.h.b = departure.credit; }}
        }}
        control D(packet_out packet, in headers_t hdr) {{ apply {{ packet.emit(hdr.h); }} }}
        NanoTransport(P(), I(), E(), D()) main;"
    )
}

const INGRESS: &str = "control I(inout headers_t hdr, inout metadata_t meta, in arrival_t arrival, in nic_t nic, inout reassembly_t reassembly) {";

/// Runs a program of [`small`] for a packet whose field `a` has the given value. Returns the credit in the control
/// packet that the program sends.
fn credit(pipeline: &mut P4Pipeline<64>, a: u32) -> u32 {
    let departure = Departure { pkt_offset: a, ..Departure::default() };
    let header = pipeline.egress(&departure).header;
    let mut blocks = Recorder::default();
    assert_eq!(pipeline.ingress(&mut blocks, &header, &arrival()), Verdict::Consumed);
    blocks.control[0].credit
}

#[test]
fn a_receiver_driven_transport_triggers_the_right_events() {
    let mut nic = pipeline(include_str!("programs/receiver-driven.p4"));
    let data = Departure {
        src_context: 11,
        dst_context: 12,
        tx_msg_id: 0x10002,
        msg_len: 5000,
        pkt_offset: 4,
        credit: 9,
        flags: flags::DATA,
        payload: 904,
        ..Departure::default()
    };
    let framed = nic.egress(&data);
    assert_eq!((framed.header.len, framed.priority), (25, 1));
    let expected = [0, 0, 0, 7, 0, 11, 0, 12, 0, 1, 0, 2, 0, 0, 0x13, 0x88, 0, 0, 0, 4, 0, 0, 0, 9, 1];
    assert_eq!(framed.header.bytes[..25], expected);
    assert_eq!(framed.header.bytes[25..], [0; 39]);

    let info =
        RxMsgInfo { rx_msg_id: 3, is_new_msg: true, is_new_pkt: true, is_last_pkt: true, ..RxMsgInfo::default() };
    let mut blocks = Recorder { info, ..Recorder::default() };
    let verdict = nic.ingress(&mut blocks, &framed.header, &arrival());
    assert_eq!(verdict, Verdict::Reassemble { rx_msg_id: 3, pkt_offset: 4, is_last_pkt: true });
    let request = RxMsgInfoRequest {
        src_ip: 7,
        src_context: 11,
        tx_msg_id: 0x10002,
        msg_len: 5000,
        pkt_offset: 4,
        mark_received: true,
    };
    assert_eq!(blocks.requests, [request]);
    let answer = CtrlPktEvent {
        dst_ip: 7,
        dst_context: 11,
        src_context: 12,
        tx_msg_id: 0x10002,
        msg_len: 5000,
        pkt_offset: 4,
        credit: 10,
        rank: 0,
        immediate: flags::ACK,
        paced: flags::PULL,
    };
    assert_eq!(blocks.control, [answer]);

    // The next packet is trimmed, so the pull offset does not change. The packet after it is not trimmed and raises the
    // pull offset by one.
    blocks.info.is_new_msg = false;
    let trimmed = Arrival { trimmed: true, ..arrival() };
    assert_eq!(nic.ingress(&mut blocks, &framed.header, &trimmed), Verdict::Consumed);
    assert!(!blocks.requests[1].mark_received);
    assert_eq!(blocks.control[1], CtrlPktEvent { immediate: flags::NACK, ..answer });
    nic.ingress(&mut blocks, &framed.header, &arrival());
    assert_eq!(blocks.control[2], CtrlPktEvent { credit: 11, ..answer });
    blocks.info.fail = true;
    assert_eq!(nic.ingress(&mut blocks, &framed.header, &arrival()), Verdict::Consumed);
    assert_eq!(blocks.control.len(), 3);

    let answer = |flags| Departure { flags, credit: 20, ..data };
    let mut blocks = Recorder::default();
    for bits in [flags::ACK | flags::PULL, flags::NACK] {
        let framed = nic.egress(&answer(bits));
        assert_eq!(framed.priority, 0);
        assert_eq!(nic.ingress(&mut blocks, &framed.header, &arrival()), Verdict::Consumed);
    }
    assert_eq!(blocks.delivered, [DeliveredEvent { tx_msg_id: 0x10002, before: 0, pkt_offset: 4, bitmap: 1 }]);
    let pulled = CreditToBtxEvent { tx_msg_id: 0x10002, pkt_offset: 4, bitmap: 0, credit: Some(20) };
    assert_eq!(blocks.credit, [pulled, CreditToBtxEvent { bitmap: 1, credit: None, ..pulled }]);
}

/// Of two messages, the message with fewer remaining packets is granted first. The GRANT goes to the sender of this
/// message.
#[test]
fn a_scheduler_and_shared_registers() {
    let mut nic = pipeline(include_str!("programs/scheduled.p4"));
    let from = |source: u16, packets: u32, pkt_offset: u32| Departure {
        src_context: source,
        tx_msg_id: source.into(),
        msg_len: packets * 1024,
        pkt_offset,
        flags: flags::DATA,
        ..Departure::default()
    };
    let mut blocks = Recorder::default();
    let arrive = |nic: &mut P4Pipeline<64>, departure: Departure, info: RxMsgInfo| {
        let framed = nic.egress(&departure);
        let mut blocks = Recorder { info, ..Recorder::default() };
        nic.ingress(&mut blocks, &framed.header, &arrival());
        let event = blocks.control[0];
        (event.dst_context, event.credit, event.rank, event.immediate)
    };
    let info = |rx_msg_id, is_new_msg, ack_no| RxMsgInfo {
        rx_msg_id,
        is_new_msg,
        is_new_pkt: true,
        ack_no,
        ..RxMsgInfo::default()
    };
    // The first message has 30 packets. After its first packet its rank is 29, and 10 packets are grantable, of which 9
    // were granted initially.
    assert_eq!(arrive(&mut nic, from(1, 30, 0), info(0, true, 1)), (1, 10, 1, flags::PULL));
    // A message of 20 packets has fewer remaining packets, so it comes first in the scheduler.
    assert_eq!(arrive(&mut nic, from(2, 20, 0), info(1, true, 1)), (2, 10, 1, flags::PULL));
    // Another packet of the first message arrives. Only the first message can be granted more packets; its position is
    // 1.
    assert_eq!(arrive(&mut nic, from(1, 30, 1), info(0, false, 2)), (1, 11, 2, flags::PULL));
    // A duplicate of this packet arrives. All grantable packets are granted already, so the response is an ACK.
    assert_eq!(arrive(&mut nic, from(1, 30, 1), info(0, false, 2)), (1, 0, 0, flags::ACK));
    // The second message completes and leaves the scheduler. The first message moves to position 0.
    let last = RxMsgInfo { is_last_pkt: true, ..info(1, false, 20) };
    assert_eq!(arrive(&mut nic, from(2, 20, 19), last), (2, 0, 0, flags::ACK));
    assert_eq!(arrive(&mut nic, from(1, 30, 2), info(0, false, 3)), (1, 12, 1, flags::PULL));
    // A message whose reception has expired leaves the scheduler.
    nic.expired(0);
    assert_eq!(arrive(&mut nic, from(2, 40, 0), info(1, true, 1)), (2, 10, 1, flags::PULL));

    // The priority in a GRANT applies to packets of the message that are sent later.
    let grant = Departure { tx_msg_id: 0x30005, flags: flags::PULL, credit: 12, rank: 3, ..Departure::default() };
    let header = nic.egress(&grant).header;
    nic.ingress(&mut blocks, &header, &arrival());
    assert_eq!(blocks.credit, [CreditToBtxEvent { tx_msg_id: 0x30005, pkt_offset: 0, bitmap: 0, credit: Some(12) }]);
    let data = Departure { tx_msg_id: 0x40005, flags: flags::DATA, ..Departure::default() };
    assert_eq!(nic.egress(&data).priority, 3);
    assert_eq!(nic.egress(&Departure { tx_msg_id: 6, ..data }).priority, 0);
}

#[test]
fn register_accesses_out_of_range_have_no_effect() {
    let declarations = format!("DualPort<bit<32>>(4) two; IfElseRaw<bit<7>>(4) one; {INGRESS}");
    let text = small(
        &declarations,
        "two.write(hdr.h.a, 100);
         bit<7> x = one.execute(hdr.h.a, true, reg_op_t.ADD, 100, reg_op_t.READ, 0);
         hdr.h.b = two.read(hdr.h.a) + (bit<32>)x;",
    );
    let mut nic = pipeline(&text);
    assert_eq!(credit(&mut nic, 3), 200);
    assert_eq!(credit(&mut nic, 3), 100 + 200 % 128);
    assert_eq!(nic.counters().beyond, 0);
    assert_eq!(credit(&mut nic, 4), 0);
    assert_eq!(credit(&mut nic, u32::MAX), 0);
    assert_eq!(nic.counters().beyond, 6);
    assert_eq!(credit(&mut nic, 2), 200);
}

/// A program may have more constants than the virtual machine has registers.
#[test]
fn six_hundred_constants() {
    let steps: String = (0..300).map(|n| format!("if (hdr.h.a == {n}) {{ hdr.h.b = {}; }}", 1000 + n)).collect();
    let mut nic = pipeline(&small(INGRESS, &steps));
    for a in [0, 1, 60, 63, 64, 65, 255, 256, 299] {
        assert_eq!(credit(&mut nic, a), 1000 + a);
    }
    assert_eq!(credit(&mut nic, 300), 0);
}

const TABLE: &str = "
    action set(bit<32> value) { hdr.h.b = value; }
    action none() { hdr.h.b = 1; }";

fn tabled(key: &str, properties: &str) -> String {
    let declarations = format!(
        "{INGRESS} {TABLE}
        table t {{ key = {{ {key} }} actions = {{ set; none; }} default_action = none(); size = 3; {properties} }}"
    );
    small(&declarations, "t.apply();")
}

#[test]
fn a_control_plane_changes_a_table() {
    let mut nic = pipeline(&tabled("hdr.h.a: exact;", ""));
    let mut other = pipeline(&tabled("hdr.h.a: exact;", ""));
    let name = nic.table("nothing").expect_err("no such table").to_string();
    assert_eq!(name, "the program has no table 'nothing'; its tables are: t");
    assert_eq!(credit(&mut nic, 5), 1);
    let mut table = nic.table("t").expect("it is there");
    table.insert(&[Key::Exact(5)], 0, "set", &[50]).expect("room");
    table.insert(&[Key::Exact(6)], 0, "set", &[60]).expect("room");
    table.modify(&[Key::Exact(6)], "set", &[61]).expect("it is there");
    table.set_default("set", &[2]).expect("not const");
    let entries: Vec<_> = table.entries().into_iter().map(|entry| (entry.action, entry.arguments)).collect();
    assert_eq!(entries, [("set".to_string(), vec![50]), ("set".to_string(), vec![61])]);
    assert_eq!([5, 6, 7].map(|a| credit(&mut nic, a)), [50, 61, 2]);
    assert_eq!(credit(&mut other, 5), 1, "a table of another NIC");
    let mut table = nic.table("t").expect("it is there");
    table.delete(&[Key::Exact(5)]).expect("it is there");
    let set = |table: &mut rnic_nano::runtime::TableHandle<'_>, keys: &[Key], action: &str, arguments: &[u128]| {
        table.insert(keys, 0, action, arguments).expect_err("wrong").to_string()
    };
    let wrong = [
        set(&mut table, &[Key::Exact(6)], "set", &[1]),
        set(&mut table, &[], "set", &[1]),
        set(&mut table, &[Key::Exact(1 << 32)], "set", &[1]),
        set(&mut table, &[Key::Any], "set", &[1]),
        set(&mut table, &[Key::Exact(1)], "get", &[1]),
        set(&mut table, &[Key::Exact(1)], "set", &[]),
        set(&mut table, &[Key::Exact(1)], "set", &[1 << 32]),
        table.delete(&[Key::Exact(5)]).expect_err("gone").to_string(),
    ];
    let expected = [
        "table 't' has an entry with these keys already",
        "table 't' has 1 keys, the entry has 0",
        "4294967296 does not fit into the 32 bits of key 0 of table 't'",
        "key 0 of table 't' is exact: only an exact value fits",
        "table 't' has no action 'get'; its actions are: set, none",
        "action 'set' has 1 parameters, the entry has 0 arguments",
        "4294967296 does not fit into the 32 bits of parameter 'value'",
        "table 't' has no entry with these keys",
    ];
    for (wrong, expected) in wrong.iter().zip(expected) {
        // The error message may give the name of a parameter with the name of its action.
        assert!(wrong == expected || wrong.contains("parameter"), "{wrong}");
    }
    for a in [1, 2] {
        table.insert(&[Key::Exact(a)], 0, "none", &[]).expect("room");
    }
    assert_eq!(table.insert(&[Key::Exact(3)], 0, "none", &[]), Err(TableError::Full("t".to_string(), 3)));
    assert_eq!([5, 6, 1].map(|a| credit(&mut nic, a)), [2, 61, 1]);
}

#[test]
fn priorities_and_prefixes_order_entries() {
    let mut nic = pipeline(&tabled("hdr.h.a: ternary;", ""));
    let mut table = nic.table("t").expect("it is there");
    table.insert(&[Key::Ternary { value: 0xff, mask: 0xf0 }], 1, "set", &[10]).expect("room");
    table.insert(&[Key::Range { low: 0xf0, high: 0xf7 }], 2, "set", &[20]).expect("room");
    table.insert(&[Key::Any], 0, "set", &[30]).expect("room");
    assert_eq!([0xf8, 0xf7, 0x17].map(|a| credit(&mut nic, a)), [10, 20, 30]);

    let mut nic = pipeline(&tabled("hdr.h.a: lpm;", ""));
    let mut table = nic.table("t").expect("it is there");
    table.insert(&[Key::Lpm { value: 0x0a00_0000, length: 8 }], 0, "set", &[8]).expect("room");
    table.insert(&[Key::Lpm { value: 0x0a0b_ffff, length: 16 }], 0, "set", &[16]).expect("room");
    table.insert(&[Key::Exact(0x0a0b_0001)], 0, "set", &[32]).expect("room");
    assert_eq!([0x0a0b_0001, 0x0a0b_0002, 0x0a0c_0000, 0x0b00_0000].map(|a| credit(&mut nic, a)), [32, 16, 8, 1]);
    let too_long = nic.table("t").expect("there").insert(&[Key::Lpm { value: 0, length: 33 }], 0, "set", &[0]);
    assert!(too_long.is_err());
}

#[test]
fn const_tables_cannot_be_changed() {
    let entries = "const entries = { 5: set(50); 6: none(); }";
    let mut nic = pipeline(&tabled("hdr.h.a: exact;", entries));
    assert_eq!([5, 6, 7].map(|a| credit(&mut nic, a)), [50, 1, 1]);
    let mut table = nic.table("t").expect("it is there");
    let refused = table.delete(&[Key::Exact(5)]).expect_err("const");
    assert_eq!(refused.to_string(), "the list of entries of table 't' is const");
    table.set_default("set", &[9]).expect("the default is not const");
    assert_eq!(credit(&mut nic, 7), 9);
}

/// Two telemetry records follow the 8-byte header of the packet. The program adds up fields of the second record.
#[test]
fn telemetry_follows_the_header() {
    let text = small(INGRESS, "hdr.h.b = meta.second.queue_bytes + meta.second.rate_mbps + (bit<32>)arrival.hops;")
        .replace("struct metadata_t { }", "struct metadata_t { telemetry_t first; telemetry_t second; }")
        .replace(
            "packet.extract(hdr.h); transition accept;",
            "packet.extract(hdr.h);
             transition select(arrival.hops) { 0: accept; default: records; }
         }
         state records {
             packet.extract(meta.first); packet.extract(meta.second);
             transition accept;",
        );
    let mut nic = pipeline(&text);
    assert_eq!(credit(&mut nic, 1), 0, "no records, no bytes missing");
    let record =
        |number| HopRecord { timestamp_ns: number, tx_bytes: 7, queue_bytes: 1000 * number, rate_mbps: 10 * number };
    let mut telemetry = Telemetry::default();
    telemetry.push(record(1));
    let header = nic.egress(&Departure::default()).header;
    let mut blocks = Recorder::default();
    nic.ingress(&mut blocks, &header, &Arrival { telemetry: Some(&telemetry), ..arrival() });
    assert!(blocks.control.is_empty(), "the second record is missing");
    assert_eq!(nic.counters().rejected, 1);
    telemetry.push(record(2));
    nic.ingress(&mut blocks, &header, &Arrival { telemetry: Some(&telemetry), ..arrival() });
    assert_eq!(blocks.control[0].credit, 2000 + 20 + 2);
}

#[test]
fn short_packets_and_endless_parsers_drop_the_packet() {
    let mut nic = pipeline(&small(INGRESS, ""));
    let mut blocks = Recorder::default();
    let short = P4Header { bytes: [0xff; 64], len: 7 };
    assert_eq!(nic.ingress(&mut blocks, &short, &arrival()), Verdict::Consumed);
    assert_eq!((nic.counters().rejected, blocks.control.len()), (1, 0));
    // The front end rejects a parser with an endless loop, so the test changes the program's HIR.
    let mut endless = program(&small(INGRESS, "")).hir().clone();
    endless.ingress.states[0].transition = Transition::To(Target::State(StateId(0)));
    endless.ingress.states[0].body.clear();
    let mut nic = P4Pipeline::<64>::new(&Program::new(endless).expect("lowered"), &NIC).expect("room");
    assert_eq!(nic.ingress(&mut blocks, &short, &arrival()), Verdict::Consumed);
    assert_eq!((nic.counters().exhausted, blocks.control.len()), (1, 0));
}

#[test]
fn a_program_reads_nic_parameters_and_packet_properties() {
    let sum = "hdr.h.b = nic.mac[31:0] + nic.switch_mac[7:0] ++ 24w0;";
    let all = "hdr.h.b = nic.mac[31:0] + (bit<32>)nic.switch_mac[7:0] + nic.ip + nic.rtt_pkts + (bit<32>)nic.mtu
        + nic.line_rate_mbps + nic.base_rtt_ns + arrival.now_ns[31:0] + (bit<32>)arrival.frame_bytes;";
    assert!(compile(SourceFile { name: "t".into(), text: small(INGRESS, sum) }, &|_: &str| None, &[]).is_err());
    let mut nic = pipeline(&small(INGRESS, all));
    assert_eq!(credit(&mut nic, 0), 1 + 255 + 7 + 9 + 1024 + 200_000 + 525 + 1500 + 1088);
}

#[test]
fn long_headers_need_room() {
    let wide = small(INGRESS, "").replace("bit<32> b;", "bit<32> b; bit<128> c; bit<128> d; bit<128> e; bit<128> f;");
    let program = program(&wide);
    assert_eq!((program.emitted_bytes(), program.header_room()), (72, 192));
    let refused = P4Pipeline::<64>::new(&program, &NIC).expect_err("72 bytes").to_string();
    assert_eq!(refused, "the program needs room for headers of 192 bytes, the pipeline has room for 64 bytes");
    let mut nic = P4Pipeline::<256>::new(&program, &NIC).expect("room");
    assert_eq!(nic.egress(&Departure::default()).header.len, 72);
    let too_wide = (0..16).fold(String::new(), |text, n| format!("{text} bit<128> c{n};"));
    let text = small(INGRESS, "").replace("bit<32> b;", &format!("bit<32> b; {too_wide}"));
    let refused = compile(SourceFile { name: "t".into(), text }, &|_: &str| None, &[]).expect_err("264 bytes");
    assert!(refused.to_string().contains("may be 264 bytes long; this NIC has room for 256"), "{refused}");
}

#[test]
fn only_ingress_can_call_the_fixed_function_blocks() {
    let text = small(INGRESS, "").replace("hdr.h.setValid();", "delivered_event(1, 2, 3, 4); hdr.h.setValid();");
    let refused = compile(SourceFile { name: "t".into(), text }, &|_: &str| None, &[]).expect_err("in egress");
    assert!(refused.to_string().contains("'delivered_event' can be called by the ingress control only"), "{refused}");
}

/// A register of 8 bits holds the minimum of the values so far, counted from 200; a pair counts down and up.
#[test]
fn comparisons_of_registers_select_operations() {
    let declarations = format!("IfElseRaw<bit<8>>(4) least; Pairs<bit<8>>(4) both; {INGRESS}");
    let ingress = "
        bit<8> value = (bit<8>) hdr.h.a;
        bit<8> now = least.compare(1, reg_cmp_t.GREATER, value - 1, reg_op_t.WRITE, value, reg_op_t.READ, 0);
        if (hdr.h.b == 0) { now = least.execute(1, true, reg_op_t.SUBTRACT, 56, reg_op_t.READ, 0); }
        pairs_t<bit<8>> pair = both.execute(2, pairs_operand_t.DIFFERENCE, reg_cmp_t.LESS, 3,
            reg_op_t.ADD, value, reg_op_t.SUBTRACT, 1, reg_op_t.READ, 0, reg_op_t.ADD, 2);
        hdr.h.b = (bit<32>) (now ++ pair.x ++ pair.y);";
    let mut pipeline = pipeline(&small(&declarations, ingress));
    let mut send = |a: u32, b: u32| {
        let mut header = P4Header::<64> { len: 8, ..P4Header::default() };
        header.bytes[..4].copy_from_slice(&a.to_be_bytes());
        header.bytes[4..8].copy_from_slice(&b.to_be_bytes());
        let mut blocks = Recorder::default();
        pipeline.ingress(&mut blocks, &header, &arrival());
        let [_, now, x, y] = blocks.control[0].credit.to_be_bytes();
        [now, x, y]
    };
    // 0 - 56 is 200 in 8 bits. The pair (0, 0): the difference is below 3, so X grows by the value.
    assert_eq!(send(10, 0), [200, 10, 0]);
    assert_eq!(send(150, 1), [150, 9, 2]);
    assert_eq!(send(190, 1), [150, 8, 4]);
    assert_eq!(send(7, 1), [7, 7, 6]);
    assert_eq!(send(255, 1), [7, 6, 6]);
    assert_eq!(pipeline.counters().beyond, 0);
}

#[test]
fn one_call_requests_several_packets() {
    let ingress = "credit_to_btx_bitmap_event(hdr.h.a, 70, 0x8000000000000005, hdr.h.b == 1, 90);";
    let mut pipeline = pipeline(&small(INGRESS, ingress));
    let mut send = |more: u8| {
        let mut header = P4Header::<64> { len: 8, ..P4Header::default() };
        (header.bytes[3], header.bytes[7]) = (9, more);
        let mut blocks = Recorder::default();
        pipeline.ingress(&mut blocks, &header, &arrival());
        blocks.credit[0]
    };
    let event = CreditToBtxEvent { tx_msg_id: 9, pkt_offset: 70, bitmap: 1 << 63 | 5, credit: None };
    assert_eq!([send(0), send(1)], [event, CreditToBtxEvent { credit: Some(90), ..event }]);
}
