//! Tests that compile whole programs: from the source text to executable code.

use rnic_nano::source::SourceFile;
use rnic_nano::{CompileError, compile, compile_file};
use std::path::{Path, PathBuf};

fn file(name: &str) -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("tests").join(name)
}

#[test]
fn a_transport_is_compiled() {
    let program = compile_file(&file("accepted/receiver_driven.p4"), &[]).unwrap_or_else(|what| panic!("{what}"));
    // The program's own header has two addresses of 4 bytes, two contexts of 2 bytes, four words of 4 bytes, and the
    // flags.
    assert_eq!(program.emitted_bytes(), 29);
    let names: Vec<&str> = program.hir().constants.iter().map(|(name, _)| name.as_str()).collect();
    assert!(names.contains(&"REGISTERS") && names.contains(&"DATA_PRIORITY"), "{names:?}");
    let given = compile_file(&file("accepted/receiver_driven.p4"), &[("REGISTERS".into(), 16)]).unwrap();
    assert!(given.hir().constants.contains(&("REGISTERS".to_string(), 16)));
}

#[test]
fn every_construct_is_compiled() {
    let program = compile_file(&file("accepted/every_construct.p4"), &[]).unwrap_or_else(|what| panic!("{what}"));
    let ingress = &program.hir().ingress;
    let tables: Vec<&str> = ingress.tables.iter().map(|table| table.name.as_str()).collect();
    // The compiler removes the unreachable parser state.
    assert_eq!((ingress.states.len(), tables.len()), (3, 3), "{tables:?}");
}

#[test]
fn unreadable_and_rejected_files_are_different_errors() {
    let missing = compile_file(&file("accepted/missing.p4"), &[]).unwrap_err();
    assert!(
        matches!(missing, CompileError::Unreadable { .. }) && missing.to_string().contains("missing.p4"),
        "{missing}"
    );
    let wrong = compile_file(&file("rejected/syntax-cycle.p4"), &[]).unwrap_err().to_string();
    assert!(wrong.contains("includes itself") && wrong.contains("rejected/syntax-cycle.inc:2:10"), "{wrong}");
    let text = "#include <core.p4>\n".to_string();
    let empty = compile(SourceFile { name: "empty.p4".into(), text }, &|_| None, &[]).unwrap_err();
    assert!(!empty.errors.is_empty());
}
