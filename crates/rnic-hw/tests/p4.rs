//! Compares pipelines of P4 programs in Verilog with the virtual machine. Without Verilator the tests are skipped, with
//! a message.

mod expressions;

use rnic_hw::HwError;
use rnic_hw::p4::{bench, verify};
use rnic_hw::tools::Tool;
use rnic_nano::source::SourceFile;
use rnic_nano::{Program, compile, compile_file, rtl};
use std::path::Path;

fn program(name: &str) -> Program {
    let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../p4").join(name);
    compile_file(&path, &[]).unwrap_or_else(|error| panic!("{name}: {error}"))
}

/// Whether Verilator and its compiler are installed; prints a message if not.
fn verilator() -> bool {
    let missing = [Tool::Verilator, Tool::Compiler].into_iter().find_map(|tool| tool.find().err());
    if let Some(error) = &missing {
        eprintln!("skipped: {error}");
    }
    missing.is_none()
}

#[test]
fn pipelines_do_what_the_machine_does() {
    if !verilator() {
        return;
    }
    // Stages of the ingress pipeline and the distance of its packets; the same of the egress pipeline. The headers of
    // HPCC are longer, and some are emitted conditionally.
    let shapes = [
        ("window.p4", (7, 1, 1, 1)),
        ("ndp.p4", (11, 1, 1, 1)),
        ("homa.p4", (14, 7, 3, 1)),
        ("homa-tr.p4", (14, 7, 3, 1)),
        ("hpcc.p4", (40, 35, 4, 1)),
    ];
    for (name, expected) in shapes {
        let program = program(name);
        let room = program.header_room() as u32;
        let rtl = rtl::generate(&program, room).unwrap_or_else(|error| panic!("{name}: {error}"));
        // HPCC has many stages, and takes a packet in every 35 cycles only.
        let packets = if name == "hpcc.p4" { 1_000 } else { 20_000 };
        let verified =
            verify(&program, &rtl, &bench(&rtl, None), packets, 1, None).unwrap_or_else(|e| panic!("{name}: {e}"));
        let (ingress, egress) = (&rtl.ingress, &rtl.egress);
        let shape = (ingress.stages, ingress.distance, egress.stages, egress.distance);
        assert_eq!(shape, expected, "{name}");
        assert!(verified.accepted > packets / 4 && verified.calls > packets / 4, "{name}: {verified:?}");
    }
}

/// Functions, inner controls and parsers, `verify`, priorities of entries, header stacks, `lookahead` and operations of
/// registers can be translated to hardware.
#[test]
fn constructs_of_the_language_do_what_the_machine_does() {
    if !verilator() {
        return;
    }
    for name in ["language.p4", "stacks.p4", "registers.p4"] {
        let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("../rnic-nano/tests/programs").join(name);
        let program = compile_file(&path, &[]).unwrap_or_else(|error| panic!("{error}"));
        let rtl = rtl::generate(&program, 64).unwrap_or_else(|error| panic!("{error}"));
        let verified =
            verify(&program, &rtl, &bench(&rtl, None), 10_000, 1, None).unwrap_or_else(|e| panic!("{name}: {e}"));
        assert!(verified.accepted > 3_000 && verified.calls > 3_000, "{name}: {verified:?}");
    }
}

/// A state of the parser at several positions, and requests for messages in branches that exclude each other, which
/// share a port.
#[test]
fn positions_and_branches_do_what_the_machine_does() {
    let text = include_str!("../../rnic-nano/tests/programs/branches.p4");
    let compiled = |text: String| {
        let main = SourceFile { name: "branches.p4".into(), text };
        compile(main, &|_| None, &[]).unwrap_or_else(|error| panic!("{error}"))
    };
    let requests = |program: &Program| {
        let rtl = rtl::generate(program, 64).unwrap_or_else(|error| panic!("{error}"));
        let requests = rtl.ingress.calls.iter().filter(|call| call.function == "get_rx_msg_info");
        requests.map(|call| call.position.clone()).collect::<Vec<_>>()
    };
    let program = compiled(text.to_string());
    let found = requests(&program);
    let lines = (1..).zip(text.lines()).filter(|(_, line)| line.contains("get_rx_msg_info"));
    let mut lines: Vec<String> = lines.map(|(number, _)| format!("branches.p4:{number}")).collect();
    assert_eq!((found.len(), lines.len()), (1, 3));
    // In the order of execution: the action is behind the branch of its table.
    lines.rotate_left(1);
    assert_eq!(found[0], lines.join(", "));
    // A place after the branches can be reached by the same packet, and so can one that needs the results of another.
    let after = text.replace(
        "        }\n    }\n}\n\ncontrol E",
        "        }\n        get_rx_msg_info({ 4, 0, 0, 0, 0, false });\n    }\n}\n\ncontrol E",
    );
    assert_eq!(requests(&compiled(after)).len(), 2);
    let one_after_the_other = text.replace(
        "answer(DATA, info.ack_no);",
        "rx_msg_info_t next = get_rx_msg_info({ 3, 0, 0, info.ack_no, 0, false });\nanswer(DATA, next.ack_no);",
    );
    assert_eq!(requests(&compiled(one_after_the_other)).len(), 2);
    if !verilator() {
        return;
    }
    let rtl = rtl::generate(&program, 64).unwrap_or_else(|error| panic!("{error}"));
    let verified = verify(&program, &rtl, &bench(&rtl, None), 30_000, 1, None).unwrap_or_else(|e| panic!("{e}"));
    assert!(verified.accepted > 5_000 && verified.calls > 5_000, "{verified:?}");
}

/// Tables with many exact entries of short keys become memories of constants.
#[test]
fn tables_in_memories_do_what_the_machine_does() {
    let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("../rnic-nano/tests/programs/tables.p4");
    let program = compile_file(&path, &[]).unwrap_or_else(|error| panic!("{error}"));
    let rtl = rtl::generate(&program, 64).unwrap_or_else(|error| panic!("{error}"));
    // Of `pairs`: whether an entry matches, the number of its action, whether each action runs, both arguments of
    // `pick`, and that of `mark`. Of `squares`: the argument. Every key has an entry in `squares`, so that one always
    // matches.
    assert_eq!(rtl.nic.matches(" function ").count(), 8);
    assert!(rtl.nic.contains("8'h0: ") && rtl.nic.contains("5'h1f: "), "a row has the width of its keys");
    if !verilator() {
        return;
    }
    let verified = verify(&program, &rtl, &bench(&rtl, None), 30_000, 1, None).unwrap_or_else(|e| panic!("{e}"));
    assert!(verified.accepted > 10_000 && verified.calls > 10_000, "{verified:?}");
    // A wrong word is noticed.
    let word = rtl.nic.find("5'h1f: ").map(|at| at + "5'h1f: ".len()).unwrap_or_default();
    let line_end = word + rtl.nic[word..].find(';').unwrap_or_default();
    let changed = format!("{} ^ 8'h1{}", &rtl.nic[..line_end], &rtl.nic[line_end..]);
    let result = verify(&program, &rtl, &bench(&rtl, Some(&changed)), 30_000, 1, None);
    assert!(matches!(result, Err(HwError::Differs(_))), "{result:?}");
}

/// A changed operator in the generated Verilog is noticed.
#[test]
fn a_changed_operator_is_noticed() {
    if !verilator() {
        return;
    }
    let program = program("ndp.p4");
    let rtl = rtl::generate(&program, 64).unwrap();
    let mut noticed = 0;
    let changes = [(" ? ", " == 0 ? "), (" + ", " - "), (" == ", " != "), ("_kept && ", "_kept || ")];
    for (from, to) in changes {
        let places: Vec<usize> = rtl.nic.match_indices(from).map(|(at, _)| at).collect();
        let at = places[places.len() / 2];
        let changed = format!("{}{to}{}", &rtl.nic[..at], &rtl.nic[at + from.len()..]);
        let result = verify(&program, &rtl, &bench(&rtl, Some(&changed)), 20_000, 1, None);
        noticed += usize::from(matches!(result, Err(HwError::Differs(_))));
    }
    assert_eq!(noticed, changes.len());
}

/// What has no hardware form is refused with its position and what would do.
#[test]
fn what_has_no_hardware_form_is_refused() {
    let text = include_str!("../../rnic-nano/tests/programs/stacks.p4").replace("hdr.items.last.", "hdr.items[0].");
    let refused = |from: &str, to: &str| {
        let text = text.replace(from, to);
        let main = SourceFile { name: "stacks.p4".into(), text };
        let program = compile(main, &|_| None, &[]).unwrap_or_else(|error| panic!("{to}: {error}"));
        let error = rtl::generate(&program, 64).expect_err(to);
        error.rejected(&program).map_or_else(|| error.to_string(), |rejected| rejected.to_string())
    };
    let error = refused("hdr.items.next", "hdr.items[0]");
    assert!(error.contains("leads back to itself") && error.contains("--> stacks.p4:"), "{error}");
    assert!(error.contains("help: a pipeline has a fixed length"), "{error}");
}
