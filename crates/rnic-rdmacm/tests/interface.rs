//! The interface itself: exported symbols, layouts of structures, and what each call answers.

use crate::common::{alone_waiting, command, compile_once, library, start};
use rnic_ibverbs::library::RDMACM;
use std::collections::BTreeSet;
use std::path::{Path, PathBuf};
use std::process::Command;

const HEADER: &str = "/usr/include/rdma/rdma_cma.h";

/// The symbols that a library exports, with their versions.
fn exports(library: &Path) -> Option<BTreeSet<String>> {
    let output = Command::new("readelf").args(["-W", "--dyn-syms"]).arg(library).output().ok()?;
    let text = String::from_utf8(output.stdout).unwrap();
    let symbols = text.lines().filter_map(|line| {
        let fields: Vec<&str> = line.split_whitespace().collect();
        let [.., section, symbol] = fields[..] else { return None };
        (section != "UND" && symbol.contains('@')).then(|| symbol.to_string())
    });
    Some(symbols.collect())
}

#[test]
fn the_library_exports_the_symbols_of_the_distribution() {
    let theirs = Path::new("/usr/lib/x86_64-linux-gnu/librdmacm.so.1");
    if !theirs.exists() {
        eprintln!("skipped: librdmacm1 is not installed");
        return;
    }
    let (Some(ours), Some(theirs)) = (exports(&library().join(RDMACM.name)), exports(theirs)) else {
        eprintln!("skipped: readelf is not installed");
        return;
    };
    assert!(theirs.len() > 60, "{theirs:?}");
    assert_eq!(ours, theirs);
}

/// Compiles a C file; `None`, with a message, if the header is not installed.
pub(crate) fn compile(source: &Path, arguments: &[&str]) -> Option<PathBuf> {
    if !Path::new(HEADER).exists() {
        eprintln!("skipped: librdmacm-dev is not installed");
        return None;
    }
    Some(compile_once(source.file_stem().unwrap().to_str().unwrap(), |cc| {
        cc.args(["-O1", "-g", "-Wall", "-Wextra", "-Werror"]).arg(source).args(arguments);
    }))
}

/// The sizes, offsets and constants of `rnic_cabi::cma` are those of the header.
#[test]
fn structures_and_constants_are_those_of_the_header() {
    let abi = include_str!("../../rnic-cabi/src/cma.rs");
    let mut source = String::from("#include <rdma/rdma_cma.h>\n#include <stddef.h>\n");
    let mut count = 0;
    let between = |text: &str, from: &str, to: &str| {
        let rest = &text[text.find(from)? + from.len()..];
        Some(rest[..rest.find(to)?].trim().to_string())
    };
    for assertion in abi.split("assert!(").skip(1).flat_map(|text| text.split("&&")) {
        let number: String = {
            let rest = &assertion[assertion.find("==").unwrap() + 2..];
            rest.trim_start().chars().take_while(char::is_ascii_digit).collect()
        };
        let condition = if let Some(name) = between(assertion, "size_of::<", ">") {
            format!("sizeof(struct {name}) == {number}")
        } else if let Some(field) = between(assertion, "offset_of!(", ")") {
            format!("offsetof(struct {field}) == {number}")
        } else {
            continue;
        };
        source += &format!("_Static_assert({condition}, \"\");\n");
        count += 1;
    }
    for line in abi.lines().filter(|line| line.starts_with("pub const R")) {
        let (name, value) = (between(line, "const ", ":").unwrap(), between(line, "= ", ";").unwrap());
        source += &format!("_Static_assert({name} == ({}), \"\");\n", value.replace('_', ""));
        count += 1;
    }
    assert!(count > 30, "{count}");
    let file = library().join("cma_layout.c");
    std::fs::write(&file, source + "int main(void) { return 0; }\n").unwrap();
    compile(&file, &[]);
}

/// Runs a C program of the folder `programs`, whose last line must be this.
fn says(program: &str, last: &str) {
    let source = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/programs").join(program);
    let [cm, verbs] = rnic_ibverbs::library::ALL.map(|one| library().join(one.name).to_str().unwrap().to_string());
    let Some(program) = compile(&source, &[&verbs, &cm, "-lpthread"]) else { return };
    alone_waiting(|namespace| {
        let ended = start(namespace, &mut command(program.to_str().unwrap())).end();
        assert_eq!(ended.success().lines().last(), Some(last));
    });
}

/// A C program that calls the functions in right and in wrong ways, and prints which result was not expected.
#[test]
fn calls_answer_as_the_manual_says() {
    says("calls.c", "all answers are right");
}

/// A C program whose threads take events, while other threads destroy the identifiers of these events.
#[test]
fn threads_share_identifiers() {
    says("threads.c", "the threads agree");
}
