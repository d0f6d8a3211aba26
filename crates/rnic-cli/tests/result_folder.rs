//! Tests of the folder of result files: two commands do not mix their files, and after an error the older files are
//! complete.

use std::collections::BTreeMap;
use std::fs;
use std::path::{Path, PathBuf};
use std::process::{Command, Output, Stdio};
use std::time::{Duration, Instant};

const SCENARIO: &str = r#"fabric = { topology = "single-switch", hosts = 4, rate = "40 Gbps", delay = "1 us" }
traffic = { pattern = "poisson", load = 0.5, sizes = "fixed 10 KB", flows = 200 }
run = [{ name = "IRN", transport = "irn" }]
"#;

fn scenario(folder: &Path) -> PathBuf {
    let file = folder.join("small.toml");
    fs::write(&file, SCENARIO).unwrap();
    file
}

fn command(folder: &Path, arguments: &[&str]) -> Command {
    let mut command = Command::new(env!("CARGO_BIN_EXE_rnic"));
    command.current_dir(folder).args(["run", "small.toml", "--quiet"]).args(arguments).stdin(Stdio::null());
    command
}

#[track_caller]
fn run(folder: &Path, arguments: &[&str]) -> Output {
    let output = command(folder, arguments).output().unwrap();
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    output
}

/// Names and contents of the files in the result folder.
fn files(folder: &Path) -> BTreeMap<String, Vec<u8>> {
    let entries = fs::read_dir(folder.join("out/small")).unwrap().map(|entry| entry.unwrap().path());
    entries.map(|path| (path.file_name().unwrap().to_str().unwrap().to_string(), fs::read(path).unwrap())).collect()
}

#[test]
#[expect(clippy::disallowed_methods, reason = "the test waits for another process")]
fn a_second_command_for_a_folder_is_refused_and_a_killed_one_leaves_no_lock() {
    let folder = tempfile::tempdir().unwrap();
    scenario(folder.path());
    let long = ["--set", "traffic.flows=100000000"];
    let mut first = command(folder.path(), &long).stdout(Stdio::null()).stderr(Stdio::null()).spawn().unwrap();
    let lock = folder.path().join("out/small/.rnic.lock");
    let started = Instant::now();
    while fs::read_to_string(&lock).unwrap_or_default().is_empty() {
        assert!(started.elapsed() < Duration::from_secs(60), "the first command does not begin");
        std::thread::yield_now();
    }
    let second = command(folder.path(), &[]).output().unwrap();
    let text = String::from_utf8(second.stderr).unwrap();
    let holder = format!("process {}, `rnic run small.toml --set traffic.flows=100000000`, is writing", first.id());
    assert!(text.contains(&holder) && text.contains("out/small") && text.lines().count() == 1, "{text}");
    assert_eq!((second.status.code(), second.stdout.len()), (Some(1), 0));
    // Another folder is free.
    run(folder.path(), &["--out", "other"]);
    // SIGKILL: the command cannot release its lock, and the operating system does.
    first.kill().unwrap();
    first.wait().unwrap();
    run(folder.path(), &[]);
    let names: Vec<String> = files(folder.path()).into_keys().collect();
    assert_eq!(names, ["command.json", "ports.csv", "report.html", "summary.json"]);
}

/// A limit on the size of files makes writing the report fail, as a full disk does.
#[cfg(unix)]
#[test]
fn a_full_disk_leaves_the_older_files() {
    let folder = tempfile::tempdir().unwrap();
    scenario(folder.path());
    run(folder.path(), &[]);
    let before = files(folder.path());
    // Without the trap, the signal of the limit would end the process before it can remove its temporary files.
    let script = format!(
        "trap '' XFSZ; ulimit -f 16; exec {} run small.toml --quiet --seed 2 --flows csv",
        env!("CARGO_BIN_EXE_rnic")
    );
    let limited =
        Command::new("sh").args(["-c", &script]).current_dir(folder.path()).stdin(Stdio::null()).output().unwrap();
    let text = String::from_utf8(limited.stderr).unwrap();
    assert_eq!(limited.status.code(), Some(1), "{text}");
    assert!(text.contains("cannot write") && text.contains("report.html"), "{text}");
    assert!(files(folder.path()) == before, "{:?}", files(folder.path()).keys());
    run(folder.path(), &["--seed", "2"]);
    assert!(files(folder.path())["summary.json"] != before["summary.json"]);
}

#[test]
fn all_files_in_a_folder_belong_to_one_command() {
    let folder = tempfile::tempdir().unwrap();
    scenario(folder.path());
    run(folder.path(), &["--flows", "csv", "--metrics"]);
    fs::write(folder.path().join("out/small/notes.txt"), "mine").unwrap();
    run(folder.path(), &[]);
    assert!(files(folder.path()).contains_key("flows.csv"), "the same command keeps what it does not write");
    run(folder.path(), &["--seed", "2"]);
    let names: Vec<String> = files(folder.path()).into_keys().collect();
    assert_eq!(names, ["command.json", "notes.txt", "ports.csv", "report.html", "summary.json"]);
}
