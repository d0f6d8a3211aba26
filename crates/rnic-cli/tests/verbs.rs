//! The command `rnic verbs`.
#![cfg(all(feature = "endpoint", target_os = "linux"))]

use std::process::{Command, Output};

fn verbs(arguments: &[&str]) -> Command {
    let mut command = Command::new(env!("CARGO_BIN_EXE_rnic"));
    command.arg("verbs").args(arguments).env("RNIC_DEVICES", "127.0.0.1");
    command
}

fn text(output: &Output) -> (String, String) {
    let text = |bytes: &[u8]| String::from_utf8(bytes.to_vec()).unwrap();
    (text(&output.stdout), text(&output.stderr))
}

#[test]
fn the_library_is_found_and_given_to_programs() {
    let output = verbs(&["--path"]).output().unwrap();
    let (path, errors) = text(&output);
    assert!(output.status.success(), "{errors}");
    let folder = std::path::Path::new(path.trim());
    assert!(folder.join("libibverbs.so.1").exists(), "{path}");

    let output =
        verbs(&["run", "sh", "-c", "echo $LD_LIBRARY_PATH"]).env("LD_LIBRARY_PATH", "/other").output().unwrap();
    assert_eq!(text(&output).0.trim(), format!("{}:/other", folder.display()));

    let output = verbs(&["run", "no-such-program"]).output().unwrap();
    assert_eq!(output.status.code(), Some(2));
    assert!(text(&output).1.contains("no-such-program cannot be run"), "{}", text(&output).1);

    let copies = tempfile::tempdir().unwrap();
    let to = copies.path().join("lib/rnic");
    let output = verbs(&["install", to.to_str().unwrap()]).output().unwrap();
    assert!(output.status.success() && to.join("libibverbs.so.1").exists(), "{}", text(&output).1);
}

#[test]
fn the_doctor_says_what_programs_see() {
    let output = verbs(&["doctor"]).output().unwrap();
    let (lines, _) = text(&output);
    assert!(lines.contains("libibverbs.so.1") && lines.contains("rnic0       127.0.0.1 on lo"), "{lines}");

    let output = verbs(&["doctor"]).env("RNIC_DEVICES", "192.0.2.99").output().unwrap();
    assert_eq!(output.status.code(), Some(1));
    let (_, errors) = text(&output);
    assert!(errors.contains("`192.0.2.99` is neither an address nor a network interface"), "{errors}");
}
