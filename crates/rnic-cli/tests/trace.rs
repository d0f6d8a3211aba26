//! Tests of `rnic trace`.

use serde_json::Value;
use std::path::Path;
use std::process::{Command, Output, Stdio};

const PING: &str = "num_ranks 2\nrank 0 {\na: calc 3000\nb: send 4096b to 1 tag 7\nb requires a\nc: recv 10b from 1\n}\n\
    rank 1 {\na: recv 4096b from 0 tag 7\nb: send 10b to 0\nb requires a\n}\n";

fn rnic(folder: &Path, arguments: &[&str]) -> Output {
    let mut command = Command::new(env!("CARGO_BIN_EXE_rnic"));
    command.current_dir(folder).args(arguments).stdin(Stdio::null()).output().unwrap()
}

fn text(bytes: &[u8]) -> String {
    String::from_utf8(bytes.to_vec()).unwrap()
}

#[test]
fn contents_and_conversion() {
    let folder = tempfile::TempDir::new().unwrap();
    std::fs::write(folder.path().join("ping.goal"), PING).unwrap();
    let output = rnic(folder.path(), &["trace", "ping.goal"]);
    let expected = "2 ranks, 5 tasks\n  computations   1, at most 3 us on a rank\n  messages       2 sent, 2 received, \
        4.106 KB\n";
    assert_eq!((output.status.code(), text(&output.stdout).as_str()), (Some(0), expected));
    let csv = rnic(folder.path(), &["trace", "ping.goal", "--format", "csv"]);
    std::fs::write(folder.path().join("ping.csv"), &csv.stdout).unwrap();
    let goal = rnic(folder.path(), &["trace", "ping.csv", "--format", "goal"]);
    std::fs::write(folder.path().join("again.goal"), &goal.stdout).unwrap();
    let again = rnic(folder.path(), &["trace", "again.goal", "--input", "goal", "--format", "csv"]);
    assert_eq!(text(&again.stdout), text(&csv.stdout));
    let output = rnic(folder.path(), &["trace", "again.goal", "--format", "json"]);
    let document: Value = serde_json::from_slice(&output.stdout).unwrap();
    assert_eq!((&document["sent_bytes"], &document["ranks"]), (&4106.into(), &2.into()));
}

#[test]
fn problems_and_mistakes() {
    let folder = tempfile::TempDir::new().unwrap();
    std::fs::write(folder.path().join("ping.goal"), PING.replace("tag 7", "tag 8").replacen("tag 8", "tag 7", 1))
        .unwrap();
    let output = rnic(folder.path(), &["trace", "ping.goal"]);
    let expected = "error: rank 0 sends to rank 1 with tag 7: 1 more messages than rank 1 receives\n";
    assert_eq!((output.status.code(), text(&output.stderr).as_str()), (Some(2), expected));
    let output = rnic(folder.path(), &["trace", "ping.goal", "--ranks", "3", "--format", "csv"]);
    let expected = "error: ping.goal: it has 2 ranks, and `--ranks` is 3; accepted: 2\n";
    assert_eq!((output.status.code(), text(&output.stderr).as_str()), (Some(2), expected));
    std::fs::write(folder.path().join("wrong.goal"), PING.replace("requires a", "requires z")).unwrap();
    let output = rnic(folder.path(), &["trace", "wrong.goal"]);
    let expected = "error: wrong.goal: rank 0: \"z\" is no operation before this line\n";
    assert_eq!((output.status.code(), text(&output.stderr).as_str()), (Some(2), expected));
    let output = rnic(folder.path(), &["trace", "missing"]);
    assert_eq!(output.status.code(), Some(2));
}

const SCENARIO: &str = "[fabric]\ntopology = \"single-switch\"\nhosts = 4\nrate = \"100 Gbps\"\ndelay = \"1 us\"\n\n\
    [traffic]\npattern = \"collective\"\noperation = \"all-reduce\"\nsize = \"4 MB\"\nrepeats = 2\ncompute = \"3 us\"\n\n\
    [[run]]\nname = \"IRN\"\ntransport = \"irn\"\n";

#[test]
fn tasks_of_a_scenario() {
    let folder = tempfile::TempDir::new().unwrap();
    std::fs::write(folder.path().join("ring.toml"), SCENARIO).unwrap();
    let output = rnic(folder.path(), &["trace", "ring.toml", "--format", "json"]);
    let document: Value = serde_json::from_slice(&output.stdout).unwrap();
    assert_eq!(document["collectives"]["all-reduce"]["tasks"], 8);
    assert_eq!((&document["computations"], &document["sends"]), (&8.into(), &0.into()));
    // A ring of 4 ranks: 6 steps with messages of at most 512 KiB, two for each part of 1 MB.
    let output = rnic(folder.path(), &["trace", "ring.toml", "--expand", "--format", "goal"]);
    std::fs::write(folder.path().join("ring.goal"), &output.stdout).unwrap();
    let output = rnic(folder.path(), &["trace", "ring.goal", "--format", "json"]);
    let document: Value = serde_json::from_slice(&output.stdout).unwrap();
    assert_eq!((&document["ranks"], &document["sends"]), (&4.into(), &(2 * 4 * 6 * 2).into()));
    assert_eq!(document["sent_bytes"], 2 * 6 * 4_000_000);
    let set = ["trace", "ring.toml", "--set", "traffic.chunk=2MB", "--expand", "--format", "json"];
    let document: Value = serde_json::from_slice(&rnic(folder.path(), &set).stdout).unwrap();
    assert_eq!(document["sends"], 2 * 4 * 6);
    let error = |arguments: &[&str]| {
        let output = rnic(folder.path(), arguments);
        assert_eq!(output.status.code(), Some(2));
        text(&output.stderr)
    };
    assert_eq!(
        error(&["trace", "ring.goal", "--expand"]),
        "error: `--expand` needs a scenario; accepted: a file that ends in .toml, also one whose traffic is a trace\n"
    );
    assert_eq!(
        error(&["trace", "ring.toml", "--traffic", "no"]),
        "error: no traffic is called \"no\"; accepted: \"collective\"\n"
    );
    assert_eq!(
        error(&["trace", "pfc/deadlock"]),
        "error: traffic `list` has no tasks; accepted: the patterns collective, training and trace\n"
    );
}
