//! Tests of the command `rnic p4` as a process.

use serde_json::Value;
use std::fs;
use std::process::{Command, Output};

fn rnic(arguments: &[&str]) -> (Option<i32>, String, String) {
    let output: Output = Command::new(env!("CARGO_BIN_EXE_rnic")).arg("p4").args(arguments).output().unwrap();
    let text = |bytes: Vec<u8>| String::from_utf8(bytes).unwrap();
    (output.status.code(), text(output.stdout), text(output.stderr))
}

const TRANSPORT: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/../rnic-nano/tests/accepted/receiver_driven.p4");

#[test]
fn a_right_program_is_summed_up() {
    let (code, out, err) = rnic(&["check", TRANSPORT, "--constant", "REGISTERS=0x40"]);
    assert_eq!((code, err.as_str()), (Some(0), ""));
    let mut lines = out.lines();
    assert_eq!(lines.next().unwrap(), format!("{TRANSPORT}: ok"));
    for line in [
        "headers: hdr.frame (29 bytes)",
        "longest emitted header: 29 bytes",
        "parser states: start",
        "ingress tables: kind (2 keys, 3 actions, 2 of 2 entries)",
        "externs: credit_reg (IfElseRaw(64) of 32 bits), nack_reg (DualPort(64) of 32 bits)",
    ] {
        assert!(out.lines().any(|found| found == line), "{line} is missing in\n{out}");
    }
    assert!(out.contains("REGISTERS = 64, CONTROL_PRIORITY = 0, DATA_PRIORITY = 1"), "{out}");
}

#[test]
fn json_says_the_same() {
    let (code, out, err) = rnic(&["check", TRANSPORT, "--format", "json"]);
    assert_eq!((code, err.as_str()), (Some(0), ""));
    let value: Value = serde_json::from_str(&out).unwrap();
    assert_eq!((&value["ok"], &value["emitted_bytes"]), (&Value::Bool(true), &29.into()));
    assert_eq!(value["ingress_tables"][0]["keys"][1]["match"], "exact");
    assert_eq!(value["externs"][0]["arguments"][0], "1024");
    assert!(value["constants"].as_array().unwrap().iter().any(|one| one["name"] == "PULL" && one["value"] == "8"));
}

#[test]
fn the_cost_is_told_on_request() {
    let (code, out, err) = rnic(&["check", TRANSPORT, "--cost"]);
    assert_eq!((code, err.as_str()), (Some(0), ""));
    // The link needs 2.6 ns for 65 bytes at 200 Gbps. The program's header is padded to 64 bytes.
    for part in [": ok\n", "ingress stage 1: ", "link: 2.6 ns, 65 bytes at 200 Gbps"] {
        assert!(out.contains(part), "{part} is missing in\n{out}");
    }
    let (code, out, _) = rnic(&["check", TRANSPORT, "--cost", "--format", "json"]);
    assert_eq!(code, Some(0));
    let value: Value = serde_json::from_str(&out).unwrap();
    assert_eq!((&value["cost"]["link_interval_ps"], &value["cost"]["header_bytes"]), (&2_600.into(), &64.into()));
    // The buffers for sending and for receiving each hold 16 messages of 38 KiB.
    assert_eq!(value["cost"]["memory_bytes"]["buffers"], 2 * 16 * 38 * 1_024);
    let (_, out, _) = rnic(&["check", TRANSPORT]);
    assert!(!out.contains("stage"), "{out}");
}

#[test]
fn what_is_wrong_is_told_with_its_file_and_line() {
    let folder = tempfile::tempdir().unwrap();
    let file = |name: &str, text: &str| {
        let path = folder.path().join(name);
        fs::write(&path, text).unwrap();
        path.to_str().unwrap().to_string()
    };
    let beside = file("beside.p4", "const bit<8> A = 8w256;\n");
    let main = file("main.p4", "#include \"beside.p4\"\nconst bit<8> B = 1\nconst bit<8> C = +;\n");
    let (code, out, err) = rnic(&["check", &main]);
    assert_eq!((code, out.as_str()), (Some(2), ""));
    assert!(err.contains("error: `8w256` does not fit") && err.contains(&format!("--> {beside}:1:18")), "{err}");
    assert!(
        err.contains("error: expected `;` after the constant") && err.contains(&format!("--> {main}:2:19")),
        "{err}"
    );
    assert!(err.contains(&format!("--> {main}:3:19")), "{err}");

    let (code, out, err) = rnic(&["check", &main, "--format", "json"]);
    assert_eq!((code, err.as_str()), (Some(2), ""));
    let value: Value = serde_json::from_str(&out).unwrap();
    assert_eq!(value["ok"], false);
    let at: Vec<_> = value["errors"].as_array().unwrap().iter().map(|error| &error["at"]).collect();
    let places: Vec<_> = at.iter().map(|at| (at["file"].as_str().unwrap(), at["line"].as_u64().unwrap())).collect();
    assert_eq!(places, [(beside.as_str(), 1), (main.as_str(), 2), (main.as_str(), 3)]);
}

#[test]
fn what_is_no_program_is_input_that_is_wrong() {
    let (code, _, err) = rnic(&["check", "/missing.p4"]);
    assert_eq!(code, Some(2));
    assert!(err.starts_with("error: cannot read /missing.p4: ") && err.lines().count() == 1, "{err}");
    let (code, _, err) = rnic(&["check", TRANSPORT, "--constant", "REGISTER=5"]);
    assert_eq!(code, Some(2));
    assert!(err.contains("no constant `REGISTER`") && err.contains("did you mean `REGISTERS`?"), "{err}");
    let (code, _, err) = rnic(&["check", TRANSPORT, "--constant", "REGISTERS"]);
    assert_eq!(code, Some(2));
    assert!(err.contains("REGISTERS=64"), "{err}");
}

/// The compiler's warnings about a program are among the warnings of the runs with it.
#[test]
fn a_run_has_the_warnings_of_its_program() {
    let folder = tempfile::tempdir().unwrap();
    let programs = concat!(env!("CARGO_MANIFEST_DIR"), "/../../p4");
    for file in fs::read_dir(programs).unwrap().flatten().filter(|file| file.path().is_file()) {
        fs::copy(file.path(), folder.path().join(file.file_name())).unwrap();
    }
    let program = folder.path().join("window.p4");
    let text = fs::read_to_string(&program).unwrap();
    fs::write(&program, text.replace("        packet.emit(hdr.window);\n", "")).unwrap();
    let scenario = folder.path().join("warned.toml");
    let toml = "[fabric]\ntopology = \"single-switch\"\nhosts = 2\nrate = \"100 Gbps\"\ndelay = \"1 us\"\n\
                [fabric.switch]\nqueueing = \"output\"\nbuffer = \"200 KB\"\ntrim = true\n\
                [traffic]\npattern = \"permutation\"\nsizes = \"fixed 8 KB\"\nrepeats = 1\ninterval = \"1 ms\"\n\
                [[run]]\nname = \"window\"\ntransport = \"p4:window.p4\"\n";
    fs::write(&scenario, toml).unwrap();
    let output = Command::new(env!("CARGO_BIN_EXE_rnic")).arg("check").arg(&scenario).output().unwrap();
    let text = String::from_utf8(output.stdout).unwrap() + &String::from_utf8(output.stderr).unwrap();
    assert!(output.status.success(), "{text}");
    let warning = "window.p4:121:9: the header `hdr.window` is made valid, and the deparser never emits it";
    assert_eq!(text.matches(warning).count(), 1, "{text}");
}
