//! Tests of `rnic run --resume`: a command that is interrupted in any way and then resumed writes the same files as an
//! uninterrupted command.

use std::fs;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Output, Stdio};
use std::time::Duration;

/// A scenario of eight runs of about 100,000 packet transmissions each. One of its transports is a program in P4.
fn sweep() -> String {
    let p4 = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../p4/ndp.p4");
    format!(
        r#"
        [fabric]
        topology = "fat-tree"
        k = 4
        rate = "40 Gbps"
        delay = "1 us"
        [traffic]
        pattern = "poisson"
        load = 0.5
        sizes = "fixed 100 KB"
        flows = 400
        [watch]
        interval = "20 us"
        queues = ["edge0:h0"]
        [sweep]
        seed = [1, 2, 3, 4]
        [[run]]
        name = "IRN"
        transport = "irn"
        [[run]]
        name = "NDP"
        transport = "p4:{}"
        "#,
        p4.display()
    )
}

/// A temporary folder that contains the scenario.
struct Folder {
    folder: tempfile::TempDir,
}

impl Folder {
    fn new() -> Folder {
        let folder = tempfile::tempdir().unwrap();
        fs::write(folder.path().join("a.toml"), sweep()).unwrap();
        Folder { folder }
    }

    fn path(&self, name: &str) -> PathBuf {
        self.folder.path().join(name)
    }

    /// The command `rnic run a.toml`, which writes all kinds of result files into the folder `out`.
    fn command(&self, out: &str, arguments: &[&str]) -> Command {
        let mut command = Command::new(env!("CARGO_BIN_EXE_rnic"));
        command
            .current_dir(self.folder.path())
            .args(["run", "a.toml", "--flows", "csv", "--flows", "parquet", "--out", out]);
        command.args(arguments).stdin(Stdio::null()).stdout(Stdio::piped()).stderr(Stdio::piped());
        command
    }

    #[track_caller]
    fn run(&self, out: &str, arguments: &[&str]) -> Output {
        let output = self.command(out, arguments).output().unwrap();
        assert!(output.status.success(), "{}", stderr(&output));
        output
    }

    /// The files of stored runs in the result folder `out`.
    fn stored(&self, out: &str) -> Vec<PathBuf> {
        let entries = fs::read_dir(self.path(out).join("a/unfinished")).into_iter().flatten();
        let mut files: Vec<PathBuf> = entries.map(|entry| entry.unwrap().path()).collect();
        files.retain(|path| path.extension().is_some_and(|extension| extension == "run"));
        files.sort();
        files
    }

    /// The result files in the folder `out`, as (name, bytes).
    fn results(&self, out: &str) -> Vec<(String, Vec<u8>)> {
        let entries = fs::read_dir(self.path(out).join("a")).unwrap().map(Result::unwrap);
        let mut files: Vec<_> =
            entries.map(|entry| (entry.file_name().into_string().unwrap(), fs::read(entry.path()).unwrap())).collect();
        files.sort();
        files
    }

    /// Starts the command and waits until it has stored a run. If the command ends before that, starts it again.
    fn started(&self, out: &str) -> Child {
        for _ in 0..20 {
            let mut child = self.command(out, &["--threads", "1"]).spawn().unwrap();
            while child.try_wait().unwrap().is_none() {
                if !self.stored(out).is_empty() {
                    return child;
                }
                wait();
            }
        }
        panic!("the command always ends before the test sees a stored run");
    }

    /// Stores all eight runs without completing the command: a folder with the name of a result file prevents the
    /// command from writing this file.
    fn store_all(&self, out: &str) -> Output {
        let in_the_way = self.path(out).join("a/summary.json");
        fs::create_dir_all(&in_the_way).unwrap();
        let output = self.command(out, &["--quiet", "--format", "json"]).output().unwrap();
        assert_eq!(output.status.code(), Some(1));
        assert!(stderr(&output).starts_with("error: cannot write the result files into"), "{}", stderr(&output));
        assert_eq!(self.stored(out).len(), 8);
        fs::remove_dir(&in_the_way).unwrap();
        output
    }
}

#[expect(clippy::disallowed_methods, reason = "another process is waited for")]
fn wait() {
    std::thread::sleep(Duration::from_millis(2));
}

fn stderr(output: &Output) -> String {
    String::from_utf8(output.stderr.clone()).unwrap()
}

/// The messages of the command about stored runs.
fn said(output: &Output) -> Vec<String> {
    stderr(output).lines().filter(|line| !line.starts_with("wrote ")).map(str::to_string).collect()
}

#[test]
fn killed_and_resumed_ends_with_the_same_bytes() {
    let folder = Folder::new();
    let mut interrupted = 0;
    while interrupted == 0 {
        let mut child = folder.started("out");
        child.kill().unwrap();
        child.wait().unwrap();
        interrupted = folder.stored("out").len();
    }
    let output = folder.run("out", &["--resume", "--threads", "2"]);
    assert_eq!(said(&output), [format!("using {interrupted} of 8 runs stored in `out/a/unfinished`")]);
    folder.run("whole", &[]);
    assert_eq!(folder.results("whole").len(), 9);
    assert!(folder.results("out") == folder.results("whole"), "no other file is left in the folder");
}

#[test]
fn ctrl_c_prints_partial_results_and_how_to_continue() {
    let folder = Folder::new();
    loop {
        let child = folder.started("out");
        let killed = Command::new("kill").args(["-INT", &child.id().to_string()]).status().unwrap();
        let output = child.wait_with_output().unwrap();
        if !killed.success() || output.status.success() {
            continue;
        }
        assert_eq!(output.status.code(), Some(130));
        let kept = folder.stored("out").len();
        let expected = format!(
            "interrupted: {kept} of 8 runs have finished and are stored; the same command with --resume continues"
        );
        assert_eq!(said(&output), [expected]);
        let text = String::from_utf8(output.stdout).unwrap();
        assert!(text.starts_with("PARTIAL RESULTS: of 8 runs, "), "{text}");
        // The partial results replace nothing that `--resume` needs, and the resumed command replaces them.
        let resumed = folder.run("out", &["--resume"]);
        assert_eq!(said(&resumed), [format!("using {kept} of 8 runs stored in `out/a/unfinished`")]);
        folder.run("whole", &[]);
        assert!(folder.results("out") == folder.results("whole"), "the partial run is simulated again");
        return;
    }
}

#[test]
fn valid_stored_runs_are_used() {
    let folder = Folder::new();
    folder.run("whole", &[]);
    folder.store_all("out");
    let files = folder.stored("out");
    let bytes = fs::read(&files[2]).unwrap();
    fs::write(&files[2], &bytes[..bytes.len() / 2]).unwrap();
    fs::write(folder.path("out/a/unfinished/half.run.1.tmp"), "half").unwrap();
    let output = folder.run("out", &["--resume"]);
    let [taken, damaged] = &said(&output)[..] else { panic!("{}", stderr(&output)) };
    assert_eq!(taken, "using 7 of 8 runs stored in `out/a/unfinished`");
    assert!(
        damaged.starts_with("run \"")
            && damaged.contains("is simulated again: the stored result cannot be used: `out/a/unfinished/")
    );
    assert!(damaged.ends_with("is damaged: the checksum is wrong"), "{damaged}");
    assert!(folder.results("out") == folder.results("whole"));
    assert_eq!(said(&folder.run("out", &["--resume", "--run", "IRN"])), ["no runs are stored in `out/a/unfinished`"]);
}

/// The JSON document contains the time that each run took, which is different if the run is simulated again.
#[test]
fn stored_runs_are_not_simulated_again() {
    let folder = Folder::new();
    let kept = folder.store_all("out");
    let output = folder.run("out", &["--resume", "--quiet", "--format", "json"]);
    assert!(kept.stdout.len() > 1_000 && output.stdout == kept.stdout);
    assert_eq!(stderr(&output), "");
    let again = folder.run("out", &["--quiet", "--format", "json"]);
    assert!(again.stdout != kept.stdout, "the document does not have the time that each run took");
}

#[test]
fn stored_runs_of_another_scenario_are_not_used() {
    let folder = Folder::new();
    let more = ["--set", "traffic.flows=401"];
    folder.run("whole", &more);
    folder.store_all("out");
    let output = folder.run("out", &["--resume", more[0], more[1]]);
    let expected =
        "8 runs (the first is \"IRN, seed=1\") are simulated again: the stored result has a different [traffic]";
    assert_eq!(said(&output), [expected]);
    assert!(folder.results("out") == folder.results("whole"));
}

#[test]
fn without_resume_all_runs_are_simulated_and_a_hint_is_printed() {
    let folder = Folder::new();
    folder.store_all("out");
    // With `--run`, the stored files of the runs that are not selected remain.
    let output = folder.run("out", &["--run", "NDP"]);
    let hint = "4 of 4 runs are stored in `out/a/unfinished`; --resume uses them instead of simulating them again";
    assert_eq!((said(&output), folder.stored("out").len()), (vec![hint.to_string()], 4));
    assert!(said(&folder.run("out", &["--quiet"])).is_empty());
    assert!(!folder.path("out/a/unfinished").exists());
}
