//! Warnings about programs that the compiler accepts.

use rnic_nano::source::SourceFile;
use rnic_nano::{compile, compile_file};
use std::path::Path;

const PROGRAM: &str = r"#include <core.p4>
#include <nanotransport.p4>
header h_t { bit<32> a; }
struct headers_t { h_t first; h_t second; }
struct metadata_t { }
IfElseRaw<bit<32>>(16) counters;
parser P(packet_in packet, out headers_t hdr, inout metadata_t meta, in arrival_t arrival, in nic_t nic) {
    bit<32> seen;
    state start {
        packet.extract(hdr.first);
        transition select(hdr.first.a) {
            0: more;
            default: accept;
        }
    }
    state more {
        seen = hdr.first.a;
        transition last;
    }
    state last {
        hdr.first.a = seen;
        transition accept;
    }
}
control I(inout headers_t hdr, inout metadata_t meta, in arrival_t arrival, in nic_t nic, inout reassembly_t reassembly) {
    action count(in bit<32> index) {
        bit<32> now = counters.execute(index, true, reg_op_t.ADD, 1, reg_op_t.READ, 0);
        hdr.first.a = now;
    }
    apply {
        bit<32> x;
        if (arrival.trimmed) {
            x = 1;
        } else {
            x = 2;
        }
        count(15);
        hdr.first.a = x;
    }
}
control E(inout headers_t hdr, inout metadata_t meta, in departure_t departure, in nic_t nic, inout link_t link) {
    apply {
        h_t local;
        local.setValid();
        local.a = departure.credit;
        hdr.first = local;
        hdr.second.setValid();
    }
}
control D(packet_out packet, in headers_t hdr) {
    apply {
        packet.emit(hdr.first);
        packet.emit(hdr.second);
    }
}
NanoTransport(P(), I(), E(), D()) main;
";

/// The warnings about the program in which `from` is replaced.
fn warnings(from: &str, to: &str) -> Vec<String> {
    assert!(PROGRAM.contains(from), "{from}");
    let main = SourceFile { name: "main.p4".into(), text: PROGRAM.replacen(from, to, 1) };
    let program = compile(main, &|_| None, &[]).unwrap_or_else(|error| panic!("{error}"));
    program.hir().warnings.iter().map(|warning| warning.render(program.sources())).collect()
}

#[test]
fn each_mistake_has_a_warning_with_its_position() {
    assert_eq!(warnings("count(15)", "count(15)"), [""; 0]);
    assert_eq!(
        warnings("        packet.emit(hdr.second);\n", ""),
        ["warning: the header `hdr.second` is made valid, and the deparser never emits it
  --> main.p4:47:9
47 |         hdr.second.setValid();
   |         ^^^^^^^^^^^^^^^^^^^^^ no packet has this header
  help: add `packet.emit(hdr.second);` to the deparser, or remove this call
"]
    );
    assert_eq!(
        warnings("            x = 2;\n", ""),
        ["warning: the variable `x` may be read before it is written
  --> main.p4:31:17
31 |         bit<32> x;
   |                 ^ its value is then 0
  help: give it a value where it is declared
"]
    );
    // The header is that of the caller of an action.
    let action = warnings("        packet.emit(hdr.second);\n", "").remove(0);
    let inlined = PROGRAM.replace("        hdr.second.setValid();", "        show(hdr.second);").replace(
        "    apply {\n        h_t local;",
        "    action show(inout h_t shown) {\n        shown.setValid();\n    }\n    apply {\n        h_t local;",
    );
    let main = SourceFile { name: "main.p4".into(), text: inlined.replace("        packet.emit(hdr.second);\n", "") };
    let program = compile(main, &|_| None, &[]).unwrap_or_else(|error| panic!("{error}"));
    let found: Vec<String> = program.hir().warnings.iter().map(|one| one.render(program.sources())).collect();
    assert_eq!(found.len(), 1, "{found:?}");
    assert_eq!(found[0].lines().next(), action.lines().next());
    // In a parser, all ways to a state count.
    let parser = warnings("            default: accept;", "            default: last;");
    assert!(parser.len() == 1 && parser[0].contains("the variable `seen` may be read before"), "{parser:?}");
    assert!(parser[0].contains("--> main.p4:8:13"), "{parser:?}");
    // The index is a constant after the action was inlined; twice at the same place is one warning.
    let index = warnings("count(15);", "count(16); count(16);");
    assert_eq!(index.len(), 1, "{index:?}");
    assert!(
        index[0].starts_with("warning: the index 16 is beyond the end of `counters`, which has 16 registers\n"),
        "{index:?}"
    );
    assert!(index[0].contains("--> main.p4:27:23") && index[0].contains("help: the indices are 0 to 15"), "{index:?}");
}

/// What leaves a block early, or is written by a call, is taken into account.
#[test]
fn other_ways_to_write_a_variable_are_known() {
    let declared = "        bit<32> x;\n        if (arrival.trimmed) {\n            x = 1;\n        } else {\n            x = 2;\n        }\n";
    for (text, count) in [
        ("bit<32> x; if (arrival.trimmed) { return; } x = 3;", 0),
        ("bit<32> x; if (arrival.trimmed) { x = 3; } else { exit; }", 0),
        ("bit<32> x; switch (arrival.frame_bytes) { 1: { x = 1; } default: { x = 2; } }", 0),
        ("bit<32> x; switch (arrival.frame_bytes) { 1: { x = 1; } }", 1),
        ("bit<32> x; x[7:0] = 3;", 0),
        ("rx_msg_info_t i = get_rx_msg_info({0, 0, 0, 0, 0, false}); bit<32> x = i.ack_no;", 0),
        ("bit<32> y; bit<32> x = y + 1;", 1),
    ] {
        let found = warnings(declared, text);
        assert_eq!(found.len(), count, "{text}: {found:?}");
    }
}

#[test]
fn the_programs_of_this_repository_have_no_warnings() {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR"));
    for name in ["window", "ndp", "homa", "homa-tr", "hpcc", "dcqcn", "swift", "ndp-dcqcn"] {
        let path = folder.join(format!("../../p4/{name}.p4"));
        let program = compile_file(&path, &[]).unwrap_or_else(|error| panic!("{name}: {error}"));
        let found: Vec<String> = program.hir().warnings.iter().map(|one| one.render(program.sources())).collect();
        assert_eq!(found, [""; 0], "{name}");
    }
}
