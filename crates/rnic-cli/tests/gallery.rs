//! The gallery of replays in `docs/guides/replay.md`: its scenarios run, and its files are small and come from these
//! scenarios.

use serde_json::Value;
use std::fs;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

/// Largest size of a file of the gallery in bytes.
const MAX_BYTES: u64 = 150_000;

fn root() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../..")
}

/// The title of a replay and the names of its runs.
fn contents(file: &Path) -> (String, Vec<String>) {
    let html = fs::read_to_string(file).unwrap_or_else(|error| panic!("{}: {error}", file.display()));
    let between = |from: &str, to: &str| html.split_once(from).unwrap().1.split_once(to).unwrap().0.to_string();
    let data: Value = serde_json::from_str(&between("id=\"data\">", "</script>")).unwrap();
    let runs = data["runs"].as_array().unwrap().iter().map(|run| run["name"].as_str().unwrap().to_string());
    (between("<h1>", "</h1>"), runs.collect())
}

#[test]
fn the_replays_of_the_gallery_are_those_of_their_scenarios() {
    let guide = fs::read_to_string(root().join("docs/guides/replay.md")).unwrap();
    let rows = guide.lines().filter_map(|line| line.split_once("](../replays/"));
    let rows: Vec<(&str, &str)> =
        rows.map(|(_, rest)| (rest.split_once(".html").unwrap().0, rest.split('`').nth(1).unwrap())).collect();
    assert_eq!(rows.len(), 5);
    let folder = tempfile::tempdir().unwrap();
    for (name, scenario) in rows {
        let committed = root().join(format!("docs/replays/{name}.html"));
        assert!(fs::metadata(&committed).unwrap().len() <= MAX_BYTES, "{name}");
        let (title, runs) = contents(&committed);
        let mut command = Command::new(env!("CARGO_BIN_EXE_rnic"));
        command.current_dir(root()).args(["run", scenario, "--quiet", "--replay", "--replay-size", "150 KB", "--out"]);
        command.arg(folder.path());
        command.args(runs.iter().flat_map(|run| ["--run", run]));
        let output = command.stdin(Stdio::null()).output().unwrap();
        // A run in a deadlock counts as failed.
        let code = output.status.code();
        assert!(
            code == Some(0) || (name == "deadlock" && code == Some(1)),
            "{}",
            String::from_utf8_lossy(&output.stderr)
        );
        let stem = Path::new(scenario).file_stem().unwrap();
        let made = folder.path().join(stem).join("replay.html");
        assert!(fs::metadata(&made).unwrap().len() <= MAX_BYTES, "{name}");
        assert_eq!(contents(&made), (title, runs), "write the gallery again: docs/replays/make.sh");
    }
}
