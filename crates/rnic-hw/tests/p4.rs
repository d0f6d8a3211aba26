//! Pipelines of P4 programs in Verilog against the virtual machine. Without Verilator the tests say that they are
//! skipped.

use rnic_hw::HwError;
use rnic_hw::p4::{bench, verify};
use rnic_hw::tools::Tool;
use rnic_nano::{Program, compile_file, rtl};
use std::path::Path;

fn program(name: &str) -> Program {
    let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../p4").join(name);
    compile_file(&path, &[]).unwrap_or_else(|error| panic!("{name}: {error}"))
}

/// Whether Verilator and its compiler are installed; says so if not.
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
    // Stages of the ingress pipeline and the distance of its packets; the same of the egress pipeline.
    let shapes = [
        ("window.p4", (3, 1, 1, 1)),
        ("ndp.p4", (7, 1, 1, 1)),
        ("homa.p4", (10, 7, 3, 1)),
        ("homa-tr.p4", (10, 7, 3, 1)),
    ];
    for (name, expected) in shapes {
        let program = program(name);
        let rtl = rtl::generate(&program, 64).unwrap_or_else(|error| panic!("{name}: {error}"));
        let verified =
            verify(&program, &rtl, &bench(&rtl, None), 20_000, 1, None).unwrap_or_else(|e| panic!("{name}: {e}"));
        let (ingress, egress) = (&rtl.ingress, &rtl.egress);
        let shape = (ingress.stages, ingress.distance, egress.stages, egress.distance);
        assert_eq!(shape, expected, "{name}");
        assert!(verified.accepted > 5_000 && verified.calls > 5_000, "{name}: {verified:?}");
    }
}

/// Functions, inner controls and parsers, `verify` and priorities of entries have a hardware form.
#[test]
fn constructs_of_the_language_do_what_the_machine_does() {
    if !verilator() {
        return;
    }
    let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("../rnic-nano/tests/programs/language.p4");
    let program = compile_file(&path, &[]).unwrap_or_else(|error| panic!("{error}"));
    let rtl = rtl::generate(&program, 64).unwrap_or_else(|error| panic!("{error}"));
    let verified = verify(&program, &rtl, &bench(&rtl, None), 10_000, 1, None).unwrap_or_else(|e| panic!("{e}"));
    assert!(verified.accepted > 3_000 && verified.calls > 3_000, "{verified:?}");
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

/// What has no hardware form is refused with a sentence.
#[test]
fn optional_headers_are_refused() {
    let error = rtl::generate(&program("hpcc.p4"), 192).unwrap_err().to_string();
    assert!(error.starts_with("whether header `hdr.hop0` is emitted depends on the packet; "), "{error}");
}
