//! Tests of `rnic run --print-spec` and `rnic exec`, which write and execute runs as JSON documents.

use serde_json::Value;
use std::io::Write;
use std::path::{Path, PathBuf};
use std::process::{Command, Output, Stdio};

fn rnic(arguments: &[&str], input: &str) -> Output {
    let mut child = Command::new(env!("CARGO_BIN_EXE_rnic"))
        .args(arguments)
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .spawn()
        .unwrap();
    // A command that rejects its arguments does not read its input, so writing the input may fail.
    let _ = child.stdin.take().unwrap().write_all(input.as_bytes());
    child.wait_with_output().unwrap()
}

fn text(bytes: &[u8]) -> &str {
    std::str::from_utf8(bytes).unwrap()
}

fn printed(arguments: &[&str], input: &str) -> String {
    let output = rnic(arguments, input);
    assert!(output.status.success(), "{arguments:?}: {}", text(&output.stderr));
    text(&output.stdout).to_string()
}

fn refused(arguments: &[&str], input: &str) -> String {
    let output = rnic(arguments, input);
    assert_eq!(output.status.code(), Some(2), "{}", text(&output.stderr));
    assert_eq!(text(&output.stderr).lines().count(), 1, "{}", text(&output.stderr));
    text(&output.stderr).trim().to_string()
}

const SCENARIO: &str = r#"
    title = "two runs"
    [fabric]
    topology = "single-switch"
    hosts = 4
    rate = "40 Gbps"
    delay = "1 us"
    [traffic]
    pattern = "poisson"
    load = 0.5
    sizes = "fixed 10 KB"
    flows = 40
    [watch]
    interval = "5 us"
    queues = "all"
    flows = true
    pauses = true
    [[run]]
    name = "RoCE"
    transport = "roce"
    pfc = true
    cc = "dcqcn"
    dcqcn = { g = 0.01 }
    [[run]]
    name = "IRN"
    transport = "irn"
    rto_low = "90 us"
"#;

fn folder() -> (tempfile::TempDir, String) {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("two.toml");
    std::fs::write(&path, SCENARIO).unwrap();
    (folder, path.to_str().unwrap().to_string())
}

/// The results of a run without its cost (time and memory), which differs between two executions.
fn without_cost(mut run: Value) -> Value {
    for key in ["wall_s", "cpu_s", "peak_rss_bytes"] {
        run.as_object_mut().unwrap().remove(key);
    }
    run
}

#[test]
fn executing_the_documents_gives_the_results_of_the_scenario() {
    let (folder, path) = folder();
    let out = folder.path().join("out");
    let whole = printed(&["run", &path, "--format", "json", "--quiet", "--out", out.to_str().unwrap()], "");
    let whole: Value = serde_json::from_str(&whole).unwrap();
    let specs = printed(&["run", &path, "--print-spec"], "");
    assert_eq!(specs.lines().count(), 2, "a document for each run");
    for (index, spec) in specs.lines().enumerate() {
        let result = printed(&["exec", "-", "--quiet"], spec);
        let mut result: Value = serde_json::from_str(&result).unwrap();
        assert_eq!(without_cost(result["runs"][0].take()), without_cost(whole["runs"][index].clone()));
    }
    assert!(!folder.path().join("out/two/unfinished").exists());
}

#[test]
fn events_come_as_json_lines_from_started_to_finished() {
    let (folder, path) = folder();
    let spec = printed(&["run", &path, "--run", "RoCE", "--print-spec"], "");
    let file = folder.path().join("spec.json");
    std::fs::write(&file, &spec).unwrap();
    let lines = printed(&["exec", file.to_str().unwrap(), "--events", "--threads", "2"], "");
    let events: Vec<Value> = lines.lines().map(|line| serde_json::from_str(line).unwrap()).collect();
    let names: Vec<&str> = events.iter().map(|event| event["event"].as_str().unwrap()).collect();
    assert_eq!((names[0], names[names.len() - 1]), ("started", "finished"));
    assert!(names.contains(&"sample"), "{names:?}");
    assert_eq!(events[0]["run"], "RoCE");
    assert_eq!(events[events.len() - 1]["flows_done"], 40);
    let sample = events.iter().find(|event| event["event"] == "sample").unwrap();
    assert_eq!(sample["queue_bytes"].as_array().unwrap().len(), 4);
}

#[test]
fn a_record_can_be_read_again() {
    let (folder, path) = folder();
    let spec = printed(&["run", &path, "--run", "IRN", "--print-spec"], "");
    let file = folder.path().join("irn.run");
    let result = printed(&["exec", "-", "--quiet", "--record", file.to_str().unwrap()], &spec);
    let result: Value = serde_json::from_str(&result).unwrap();
    let (header, record) = rnic_campaign::read_record(&file).unwrap();
    assert_eq!((header.run.as_str(), header.seed), ("IRN", 1));
    assert_eq!(record.output.flows.len(), 40);
    assert_eq!(result["runs"][0]["packets"]["hops"], record.output.totals.hops);
}

#[test]
fn a_document_that_is_wrong_is_refused_in_a_sentence() {
    let (_folder, path) = folder();
    let spec = printed(&["run", &path, "--run", "IRN", "--print-spec"], "");
    for (from, to, expected) in [
        ("\"version\":1", "\"version\":2", "version 2 is not known; this program reads version 1"),
        (
            "\"name\":\"irn\"",
            "\"name\":\"irnn\"",
            "run.transport.name: there is no transport \"irnn\"; there are: roce, irn",
        ),
        ("\"rto_low\":", "\"delayed_acks\":", "transport \"irn\" has no setting `delayed_acks`; iwarp, tcp have it"),
        (
            "\"rto_low\":\"90 us\"",
            "\"rto_low\":\"90\"",
            "`rto_low` cannot be \"90\"; it takes a time of at least 100 ns",
        ),
        (
            "\"rate\":\"40 Gbps\"",
            "\"rate\":\"0 bps\"",
            "run.fabric.link.rate is 0 bps; accepted: more than zero, at most 10 Tbps",
        ),
        ("\"hosts\":4", "\"hosts\":0", "run.fabric.topology.hosts is 0; accepted: 1 to 1000000"),
        ("\"load\":0.5", "\"load\":-1.0", "run.traffic[0].pattern.load is -1.0; accepted: more than 0, at most 1"),
        ("\"seed\":1", "\"seeds\":1", "unknown field `seeds`"),
        (
            "\"name\":\"none\"",
            "\"name\":\"nine\"",
            "run.transport.cc.name: there is no cc \"nine\"; there are: none, dcqcn",
        ),
    ] {
        assert!(spec.contains(from), "{from} in {spec}");
        let error = refused(&["exec", "-"], &spec.replacen(from, to, 1));
        assert!(error.contains(expected), "{error}");
    }
    assert!(refused(&["exec", "-"], "").contains("standard input is not a run specification"));
    assert!(
        refused(&["exec", "no-such-file.json"], "")
            .contains("cannot read the run specification in `no-such-file.json`")
    );
}

/// Every scenario of this project can be written as documents and read back without a change.
#[cfg(feature = "p4")]
#[test]
fn every_scenario_can_be_printed_and_read() {
    let root = Path::new(env!("CARGO_MANIFEST_DIR")).join("../..");
    let mut files = Vec::new();
    for folder in ["scenarios", "p4"] {
        collect(&root.join(folder), &mut files);
    }
    assert!(files.len() > 20);
    let vocabulary = rnic_sim::Catalogue::standard().vocabulary();
    for file in files {
        let scenario = rnic_scenario::load_with(&vocabulary, &file, &[], None).unwrap();
        for run in &scenario.runs {
            let read = rnic_spec::RunSpec::from_json(&run.to_json(true).unwrap(), &vocabulary);
            assert_eq!(read.as_ref(), Ok(run), "{} {}", file.display(), run.name);
        }
    }
}

#[cfg(feature = "p4")]
fn collect(folder: &Path, files: &mut Vec<PathBuf>) {
    for entry in std::fs::read_dir(folder).unwrap() {
        let path = entry.unwrap().path();
        if path.is_dir() {
            collect(&path, files);
        } else if path.extension().is_some_and(|extension| extension == "toml") {
            files.push(path);
        }
    }
}

/// The schemas in the documentation equal the schemas that are generated from the types.
#[test]
fn the_documented_schemas_are_those_of_the_types() {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../docs/reference");
    for (what, file) in [("spec", "run-spec.schema.json"), ("event", "run-event.schema.json")] {
        let schema = printed(&["exec", "--schema", what], "");
        let path = folder.join(file);
        let documented = std::fs::read_to_string(&path).unwrap_or_default();
        assert!(
            documented == schema,
            "docs/reference/{file} differs from the types: `rnic exec --schema {what} > docs/reference/{file}` updates it"
        );
    }
}

/// If a campaign has more tasks than Slurm allows in a job array, it is divided into several arrays. Together their
/// tasks cover the campaign.
#[test]
fn many_tasks_of_slurm_are_several_arrays() {
    use std::os::unix::fs::PermissionsExt;
    let folder = tempfile::tempdir().unwrap();
    let path = |name: &str| folder.path().join(name).to_str().unwrap().to_string();
    std::fs::write(path("tiny.toml"), SCENARIO).unwrap();
    printed(&["campaign", "plan", &path("tiny.toml"), "--out", &path("tiny.jsonl")], "");
    let manifest = path("tiny.jsonl");
    let submit = |arguments: &[&str]| {
        let all = [&["campaign", "submit", manifest.as_str(), "--command", "echo"][..], arguments].concat();
        printed(&all, "")
    };
    let slurm = ["--engine", "slurm", "--mem", "4G", "--max-parallel", "50"];
    let one = submit(&[&slurm[..], &["--shards", "1000"]].concat());
    assert!(one.contains("\n#SBATCH --array=1-1000%50\n") && one.contains("\n#SBATCH --mem=4G\n"), "{one}");
    let several = submit(&[&slurm[..], &["--shards", "25", "--array-size", "10"]].concat());
    // A command `sbatch` that executes the first and the last task of each array.
    let sbatch = "#!/bin/bash\nscript=$(cat)\necho \"$1\"\nexport \"${2#--export=ALL,}\"\nlast=${1#--array=1-}\n\
                  for SLURM_ARRAY_TASK_ID in 1 \"${last%\\%*}\"; do export SLURM_ARRAY_TASK_ID; bash -c \"$script\"; done\n";
    std::fs::create_dir(folder.path().join("bin")).unwrap();
    std::fs::write(path("bin/sbatch"), sbatch).unwrap();
    std::fs::set_permissions(path("bin/sbatch"), PermissionsExt::from_mode(0o755)).unwrap();
    let output = Command::new("bash")
        .args(["-c", &several])
        .env("PATH", format!("{}:/usr/bin:/bin", path("bin")))
        .output()
        .unwrap();
    let lines: Vec<&str> = text(&output.stdout).lines().collect();
    let shard = |line: &str| line.split("--shard ").nth(1).unwrap().split(' ').next().unwrap().to_string();
    let seen: Vec<String> =
        lines.iter().map(|line| if line.starts_with("--array") { line.to_string() } else { shard(line) }).collect();
    let expected =
        ["--array=1-10%50", "1/25", "10/25", "--array=1-10%50", "11/25", "20/25", "--array=1-5%50", "21/25", "25/25"];
    assert_eq!(seen, expected, "{several}");
    let why = refused(
        &["campaign", "submit", &path("tiny.jsonl"), "--engine", "hq", "--shards", "2", "--max-parallel", "9"],
        "",
    );
    assert!(why.contains("--max-parallel has no effect with the engine hq"), "{why}");
}
