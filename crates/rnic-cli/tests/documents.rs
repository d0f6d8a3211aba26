//! Tests of the commands that print schemas, shell completions and manual pages.

use serde_json::Value;
use std::fs;
use std::process::{Command, Output, Stdio};

fn rnic(arguments: &[&str]) -> Output {
    Command::new(env!("CARGO_BIN_EXE_rnic")).args(arguments).stdin(Stdio::null()).output().unwrap()
}

fn stdout(arguments: &[&str]) -> String {
    let output = rnic(arguments);
    assert!(output.status.success(), "{arguments:?}: {}", String::from_utf8_lossy(&output.stderr));
    String::from_utf8(output.stdout).unwrap()
}

#[test]
fn schemas_are_json() {
    let scenario: Value = serde_json::from_str(&stdout(&["schema"])).unwrap();
    assert_eq!(scenario["title"], "rnic scenario");
    assert!(scenario["definitions"]["run"]["properties"]["dcqcn"]["properties"]["g"].is_object());
    for of in ["spec", "event"] {
        assert_eq!(stdout(&["schema", of]), stdout(&["exec", "--schema", of]));
    }
}

/// The file in the documentation is the output of `rnic schema`.
#[test]
fn the_documentation_has_the_schema_of_scenarios() {
    let file = concat!(env!("CARGO_MANIFEST_DIR"), "/../../docs/reference/scenario.schema.json");
    let text = fs::read_to_string(file).unwrap();
    assert!(text == stdout(&["schema"]), "write it anew: rnic schema > docs/reference/scenario.schema.json");
}

#[test]
fn completions_know_commands_and_options() {
    for (shell, part) in [("bash", "complete -F"), ("zsh", "#compdef rnic"), ("fish", "complete -c rnic")] {
        let script = stdout(&["completions", shell]);
        for text in [part, "print-spec", "topologies"] {
            assert!(script.contains(text), "{shell}: no {text}");
        }
    }
    let bash = stdout(&["completions", "bash"]);
    let test = "_init_completion() { return 1; }; COMP_WORDS=(rnic che); COMP_CWORD=1; _rnic rnic che rnic; echo ${COMPREPLY[@]}";
    match Command::new("bash").args(["-c", &format!("{bash}\n{test}")]).output() {
        Ok(output) => assert_eq!(String::from_utf8_lossy(&output.stdout), "check\n"),
        Err(_) => eprintln!("bash is not installed: the script is not run"),
    }
}

#[test]
fn every_command_has_a_manual_page() {
    let folder = tempfile::tempdir().unwrap();
    let folder = folder.path().join("man1");
    stdout(&["man", folder.to_str().unwrap()]);
    for page in ["rnic", "rnic-run", "rnic-model-buffers", "rnic-p4-check", "rnic-schema"] {
        let text = fs::read_to_string(folder.join(format!("{page}.1"))).unwrap();
        assert!(text.contains(".SH SYNOPSIS"), "{page}: {text}");
    }
    let unwritable = rnic(&["man", "/dev/null/man1"]);
    let message = String::from_utf8(unwritable.stderr).unwrap();
    assert!(message.starts_with("error: cannot write to `/dev/null/man1`: "), "{message}");
    assert_eq!(unwritable.status.code(), Some(1));
}
