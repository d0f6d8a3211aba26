//! Tests of the model of a program's cost in hardware. The expected pipeline stages are derived by hand.

use rnic_nano::compile;
use rnic_nano::cost::{Cost, Hardware, analyse};
use rnic_nano::source::SourceFile;

fn cost_of(text: &str, hardware: &Hardware) -> Cost {
    let main = SourceFile { name: "test.p4".to_string(), text: text.to_string() };
    let program = compile(main, &|_: &str| None, &[]).unwrap_or_else(|rejected| panic!("{rejected}"));
    analyse(&program, hardware)
}

const RECEIVER_DRIVEN: &str = include_str!("programs/receiver-driven.p4");
const SCHEDULED: &str = include_str!("programs/scheduled.p4");

/// Returns a program with the given statements in ingress and egress. The program declares two register arrays of each
/// kind, a scheduler and a table.
fn program(ingress: &str, egress: &str) -> String {
    format!(
        "#include <core.p4>
        #include <nanotransport.p4>
        header h_t {{ bit<32> a; bit<32> b; bit<32> c; }}
        struct headers_t {{ h_t h; }}
        struct metadata_t {{ }}
        DualPort<bit<32>>(100) two;
        DualPort<bit<32>>(100) other;
        IfElseRaw<bit<32>>(100) one;
        IfElseRaw<bit<32>>(100) more;
        PriorityScheduler() scheduler;
        parser P(packet_in packet, out headers_t hdr, inout metadata_t meta, in arrival_t arrival, in nic_t nic) {{
            state start {{ packet.extract(hdr.h); transition accept; }}
        }}
        control I(inout headers_t hdr, inout metadata_t meta, in arrival_t arrival, in nic_t nic, inout reassembly_t reassembly) {{
            action set(bit<32> value) {{ hdr.h.b = value; }}
            table free {{ key = {{ hdr.h.a: exact; }} actions = {{ set; }} default_action = set(0); size = 10; }}
            table fixed {{ key = {{ hdr.h.a: exact; }} actions = {{ set; }} default_action = set(0); const entries = {{ 1: set(3); }} }}
            apply {{ {ingress} }}
        }}
        control E(inout headers_t hdr, inout metadata_t meta, in departure_t departure, in nic_t nic, inout link_t link) {{
            apply {{ hdr.h.setValid(); {egress} }}
        }}
        control D(packet_out packet, in headers_t hdr) {{ apply {{ packet.emit(hdr.h); }} }}
        NanoTransport(P(), I(), E(), D()) main;"
    )
}

/// Returns the names of the memory accesses in each stage of an ingress with the given statements. The last stage has
/// the events.
fn stages(ingress: &str) -> Vec<String> {
    let cost = cost_of(&program(ingress, ""), &Hardware::default());
    cost.ingress.stages.iter().map(|stage| stage.join(" ")).collect()
}

#[test]
fn stages_of_the_documents_transports() {
    let cost = cost_of(RECEIVER_DRIVEN, &Hardware::default());
    let events = ["credit_to_btx_event", "ctrl_pkt_event", "delivered_event"];
    assert_eq!(cost.ingress.stages, [&["get_rx_msg_info"][..], &["pulls.execute"], &events]);
    assert_eq!(cost.egress.stages.len(), 1);
    let cost = cost_of(SCHEDULED, &Hardware::default());
    let expected: [&[&str]; 5] = [
        // The rank of a GRANT is known after parsing, so ingress writes it in the first stage.
        &["get_rx_msg_info", "granted_ranks.write"],
        &["messages.write", "remaining.execute"],
        &["scheduler.schedule"],
        &["messages.read"],
        &events,
    ];
    assert_eq!(cost.ingress.stages, expected);
    assert_eq!(cost.egress.stages, [&["granted_ranks.read"][..], &[]]);
    assert_eq!(cost.notes, Vec::<String>::new());
}

#[test]
fn independent_accesses_share_a_stage() {
    assert_eq!(stages(""), [""]);
    let apart = "hdr.h.b = two.read(hdr.h.a); hdr.h.c = other.read(hdr.h.a);";
    assert_eq!(stages(apart), ["other.read two.read", ""]);
    assert_eq!(
        stages("hdr.h.b = two.read(hdr.h.a); hdr.h.c = other.read(hdr.h.b + 1);"),
        ["two.read", "other.read", ""]
    );
    // The program overwrites the value that it has read, so the second access does not depend on the first.
    assert_eq!(
        stages("hdr.h.b = two.read(hdr.h.a); hdr.h.b = 7; hdr.h.c = other.read(hdr.h.b);"),
        ["other.read two.read", ""]
    );
}

#[test]
fn accesses_depend_on_their_conditions() {
    let guarded = "if (two.read(hdr.h.a) == 1) { other.write(hdr.h.a, 1); }";
    assert_eq!(stages(guarded), ["two.read", "other.write", ""]);
    let value = "bit<32> x = 1; if (two.read(hdr.h.a) == 1) { x = 2; } other.write(x, 1);";
    assert_eq!(stages(value), ["two.read", "other.write", ""]);
    // Statements after an `if` depend on its condition only if a branch may not reach them.
    let after = "if (two.read(hdr.h.a) == 1) { hdr.h.b = 2; } other.write(hdr.h.a, 1);";
    assert_eq!(stages(after), ["other.write two.read", ""]);
    let left = "if (two.read(hdr.h.a) == 1) { return; } other.write(hdr.h.a, 1);";
    assert_eq!(stages(left), ["two.read", "other.write", ""]);
    let exited = "if (two.read(hdr.h.a) == 1) { exit; } other.write(hdr.h.a, 1);";
    assert_eq!(stages(exited), ["two.read", "other.write", ""]);
}

#[test]
fn all_accesses_to_a_port_share_a_stage() {
    // Both branches access the same memory. It is in a stage after all accesses on which one of the branches depends.
    let branches = "bit<32> x;
        if (hdr.h.c == 0) { x = one.execute(hdr.h.a, true, reg_op_t.READ, 0, reg_op_t.READ, 0); }
        else { x = one.execute(two.read(hdr.h.a), true, reg_op_t.READ, 0, reg_op_t.READ, 0); }
        other.write(x, 1);";
    assert_eq!(stages(branches), ["two.read", "one.execute", "other.write", ""]);
    // A read and a write of a `DualPort` may share a stage if the read comes first.
    assert_eq!(stages("hdr.h.b = two.read(hdr.h.a); two.write(hdr.h.a, 1);"), ["two.read two.write", ""]);
    assert_eq!(stages("two.write(hdr.h.a, 1); hdr.h.b = two.read(hdr.h.a);"), ["two.write", "two.read", ""]);
    assert_eq!(stages("two.write(hdr.h.a, two.read(hdr.h.a) + 1);"), ["two.read", "two.write", ""]);
}

#[test]
fn tables_without_const_entries_are_memory() {
    assert_eq!(stages("free.apply(); two.write(hdr.h.b, 1);"), ["free", "two.write", ""]);
    assert_eq!(stages("fixed.apply(); two.write(hdr.h.b, 1);"), ["two.write", ""]);
}

fn notes(ingress: &str, egress: &str) -> Vec<String> {
    cost_of(&program(ingress, egress), &Hardware::default()).notes
}

#[test]
fn unsupported_accesses_are_noted() {
    let once = "one.execute(hdr.h.a, true, reg_op_t.ADD, 1, reg_op_t.READ, 0);";
    let twice = notes(&format!("{once} {once}"), "");
    assert_eq!(
        twice,
        ["'one' is used 2 times for one packet in ingress; the hardware supports one such access per packet"]
    );
    assert_eq!(stages(&format!("{once} {once}")), ["one.execute", "one.execute", ""]);
    assert_eq!(notes(&format!("if (hdr.h.b == 0) {{ {once} }} else {{ {once} }}"), ""), Vec::<String>::new());
    assert_eq!(notes(&format!("if (hdr.h.b == 0) {{ {once} return; }} {once}"), ""), Vec::<String>::new());
    assert_eq!(notes(once, once), ["'one' is used in both pipelines; only a DualPort supports this"]);
    let read = "hdr.h.b = two.read(1);";
    assert_eq!(notes(read, read), ["'two' is read in both pipelines; it has one read port"]);
    assert_eq!(notes("two.write(hdr.h.a, 1);", read), Vec::<String>::new());
    let other = "more.execute(hdr.h.b, true, reg_op_t.ADD, 1, reg_op_t.READ, 0);";
    let read = |array: &str| format!("hdr.h.b = {array}.execute(hdr.h.b, true, reg_op_t.ADD, 1, reg_op_t.READ, 0);");
    let both = format!("if (hdr.h.c == 0) {{ {} {} }} else {{ {} {} }}", read("one"), other, read("more"), read("one"));
    let opposite = notes(&both, "");
    assert_eq!(
        opposite,
        ["branches of ingress access the same memories in different orders, so no order of stages suits all branches"]
    );
}

/// The NanoTransport paper states 5 and 2 stages for Homa, and latencies of 7.2 and 3.8 ns at 3.2 GHz. A packet of 65
/// bytes takes 2.6 ns at 200 Gbps.
#[test]
fn latency_and_interval() {
    let cost = cost_of(SCHEDULED, &Hardware::default());
    assert_eq!((cost.word_bytes, cost.header_bytes), (8, 64));
    assert_eq!((cost.ingress.cycles, cost.egress.cycles), (23, 12)); // 8 + 2 * 5 + 5, 8 + 2 * 2
    assert_eq!((cost.ingress.picoseconds, cost.egress.picoseconds), (7187, 3750));
    assert_eq!((cost.link_interval, cost.pipeline_interval, cost.interval()), (2600, 625, 2600));
    let cost = cost_of(RECEIVER_DRIVEN, &Hardware::default());
    assert_eq!((cost.ingress.cycles, cost.egress.cycles), (19, 10)); // 8 + 2 * 3 + 5, 8 + 2
    // With this slow clock the link delivers 200 bits per cycle. So the data path is 256 bits wide, and a header has 2
    // words.
    let slow = Hardware { clock_hz: 1_000_000_000, ..Hardware::default() };
    let cost = cost_of(RECEIVER_DRIVEN, &slow);
    assert_eq!((cost.word_bytes, cost.ingress.cycles, cost.ingress.picoseconds), (32, 13, 13_000));
    // Two accesses of a packet to one memory use its port twice, which doubles the interval between packets.
    let once = "one.execute(hdr.h.a, true, reg_op_t.ADD, 1, reg_op_t.READ, 0);";
    let slower = Hardware { clock_hz: 500_000_000, ..Hardware::default() };
    assert_eq!(cost_of(&program(&format!("{once} {once}"), ""), &slower).interval(), 8000);
}

/// The NanoTransport paper states 1.2 MB for 16 messages of 39 kB, and less than 100 bytes of state for each message.
#[test]
fn memory_of_messages_and_of_the_program() {
    let memory = cost_of(RECEIVER_DRIVEN, &Hardware::default()).memory;
    assert_eq!(memory.buffers, 2 * 16 * 38 * 1024);
    // Packetization keeps 2 * 38 + 305 bits per message, which are 48 bytes. Reassembly keeps 38 + 217 bits, which are
    // 32 bytes.
    assert_eq!(memory.message_state, 16 * 80);
    assert_eq!(memory.registers, 16 * 4);
    assert_eq!(memory.tables, 0);
    // The headers have 200 bits of fields and one validity bit, in 3 stages of ingress and 1 stage of egress.
    assert_eq!(memory.headers, (3u64 * 201).div_ceil(8) + 201u64.div_ceil(8));
    assert_eq!(memory.total(), 1_245_184 + 1_280 + 64 + 76 + 26);
    let many = Hardware { messages: 128, message_bytes: 1500, ..Hardware::default() };
    let memory = cost_of(RECEIVER_DRIVEN, &many).memory;
    assert_eq!((memory.buffers, memory.registers), (2 * 128 * 2048, 128 * 4));
    let memory = cost_of(&program("free.apply(); fixed.apply();", ""), &many).memory;
    // The registers are two arrays of each kind with 100 entries, and a scheduler with 16 compared and 128 waiting
    // entries of 113 bits. The table has 10 entries of 64 bits, with one action.
    assert_eq!((memory.registers, memory.tables), (4 * 400 + (16 + 128) * 113 / 8, 80));
}

#[test]
fn as_text() {
    let text = cost_of(SCHEDULED, &Hardware::default()).to_string();
    let expected = "           stages  cycles     latency  at 3.20 GHz
ingress         5      23      7.2 ns
egress          2      12      3.8 ns

ingress stage 1: get_rx_msg_info, granted_ranks.write
ingress stage 2: messages.write, remaining.execute
ingress stage 3: scheduler.schedule
ingress stage 4: messages.read
ingress stage 5: reassembly, credit_to_btx_event, ctrl_pkt_event, delivered_event

egress stage 1: granted_ranks.read
egress stage 2: header

minimum interval between packets: 2.6 ns
  link: 2.6 ns, 65 bytes at 200 Gbps; pipelines: 0.6 ns

memory for 16 messages of 38912 bytes each way: 1247500 bytes
  buffers                1245184
";
    assert!(text.starts_with(expected), "{text}");
}
