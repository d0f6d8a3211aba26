//! Compiles C and C++ programs with the system's compilers, and runs them with the library.

use std::collections::BTreeSet;
use std::path::{Path, PathBuf};
use std::process::{Command, Output};

const FABRIC: &str = "examples/c/fabric.toml";

fn project() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../..").canonicalize().unwrap()
}

fn read(path: &str) -> String {
    std::fs::read_to_string(project().join(path)).unwrap()
}

/// The folder of the library that Cargo has built for this test.
fn library() -> PathBuf {
    let program = std::env::current_exe().unwrap();
    let mut folders = program.ancestors().skip(1);
    folders.find(|folder| folder.join("librnic_sim_c.so").exists()).expect("the library").to_path_buf()
}

/// Compiles `sources`, paths in the project, to a program in `folder`; `None` without a compiler.
fn compiled(folder: &Path, compiler: &str, sources: &[&str]) -> Option<PathBuf> {
    if Command::new(compiler).arg("--version").output().is_err() {
        eprintln!("skipped: there is no C compiler `{compiler}`");
        return None;
    }
    let program = folder.join("program");
    let mut command = Command::new(compiler);
    command
        .args(["-Wall", "-Wextra", "-Werror", "-Icrates/rnic-sim-c/include", "-Iintegrations/astra-sim"])
        .args(sources);
    command.arg("-L").arg(library()).args(["-lrnic_sim_c", "-o"]).arg(&program).current_dir(project());
    let output = command.output().unwrap();
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    Some(program)
}

fn run(program: &Path, arguments: &[&Path]) -> Output {
    Command::new(program).args(arguments).env("LD_LIBRARY_PATH", library()).current_dir(project()).output().unwrap()
}

#[test]
fn the_header_declares_the_functions_of_the_library() {
    let header = read("crates/rnic-sim-c/include/rnic_sim.h");
    let code: String = header.split("/*").map(|part| part.split_once("*/").map_or(part, |(_, code)| code)).collect();
    let is_name = |c: char| c.is_ascii_alphanumeric() || c == '_';
    let declared: BTreeSet<&str> = code
        .match_indices('(')
        .filter_map(|(at, _)| code[..at].rsplit(|c| !is_name(c)).next())
        .filter(|name| name.starts_with("rnic_sim_"))
        .collect();
    let calls = read("crates/rnic-sim-c/src/calls.rs");
    let exported: BTreeSet<&str> =
        calls.split("extern \"C\" fn ").skip(1).filter_map(|rest| rest.split(|c| !is_name(c)).next()).collect();
    assert_eq!(declared, exported);
    assert!(exported.len() > 10);
}

#[test]
fn a_c_program_drives_a_simulation() {
    let folder = tempfile::tempdir().unwrap();
    let Some(program) = compiled(folder.path(), "cc", &["examples/c/ping_pong.c"]) else { return };
    let results = folder.path().join("results");
    let output = run(&program, &[Path::new(FABRIC), &results]);
    let text = String::from_utf8(output.stdout).unwrap();
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    let lines: Vec<&str> = text.lines().collect();
    // 4 links of 500 ns, and a first message of 4,096 B at 100 Gbps.
    assert_eq!(lines.len(), 6, "{text}");
    assert!(lines[0].starts_with("0 -> 5: 2.") && lines[1].starts_with("5 -> 0: 2."), "{text}");
    let flows = std::fs::read_to_string(results.join("flows.csv")).unwrap();
    assert_eq!(flows.lines().count(), 8, "{flows}");
    assert!(results.join("summary.json").exists() && results.join("report.html").exists());
    // The example says how a wrong scenario is wrong.
    let output = run(&program, &[Path::new("examples/c/missing.toml"), &results]);
    assert!(!output.status.success() && String::from_utf8_lossy(&output.stderr).contains("missing.toml"));
}

#[test]
fn wrong_calls_are_refused() {
    let folder = tempfile::tempdir().unwrap();
    let Some(program) = compiled(folder.path(), "cc", &["crates/rnic-sim-c/tests/misuse.c"]) else { return };
    let output = run(&program, &[]);
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stdout));
}

#[test]
fn the_adapter_for_astra_sim_runs_two_ranks_and_a_ring() {
    let folder = tempfile::tempdir().unwrap();
    let sources = [
        "-std=c++17",
        "-Iintegrations/astra-sim/interface",
        "integrations/astra-sim/rnic_network.cc",
        "integrations/astra-sim/tests/ring.cc",
    ];
    let Some(program) = compiled(folder.path(), "c++", &sources) else { return };
    let output = run(&program, &[Path::new(FABRIC)]);
    let text = String::from_utf8(output.stdout).unwrap();
    assert!(output.status.success(), "{text}");
    let time = |name: &str| -> f64 {
        let line = text.lines().find_map(|line| line.strip_prefix(name)).unwrap();
        line.trim_end_matches(" ns").parse().unwrap()
    };
    // Each step sends 100 KB at 100 Gbps (8 us, and a tenth of headers) over 2 or 4 links of 500 ns; the next begins
    // 100 ns after the program knows of the arrival, at least one link later.
    let (two, ring) = (time("two ranks: "), time("ring: "));
    assert!((2.0 * 9_500.0..2.0 * 12_000.0).contains(&two), "{text}");
    assert!((14.0 * 9_500.0..14.0 * 14_000.0).contains(&ring), "{text}");
    assert!(text.ends_with("rank 8 has no host in the scenario\n"), "{text}");
}
