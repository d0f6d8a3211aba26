//! `rnic run --resume`: a command that was interrupted, in whatever way, ends with the files of one that was not.

use std::fs;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Output, Stdio};
use std::time::Duration;

/// Eight runs of some 100,000 packet transmissions; one transport is a program in P4.
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

/// A folder with the scenario in it.
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

    /// `rnic run a.toml` with all kinds of result files into `out`.
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

    /// Files of runs that are kept.
    fn kept(&self, out: &str) -> Vec<PathBuf> {
        let entries = fs::read_dir(self.path(out).join("a/unfinished")).into_iter().flatten();
        let mut files: Vec<PathBuf> = entries.map(|entry| entry.unwrap().path()).collect();
        files.retain(|path| path.extension().is_some_and(|extension| extension == "run"));
        files.sort();
        files
    }

    /// The result files as (name, bytes).
    fn results(&self, out: &str) -> Vec<(String, Vec<u8>)> {
        let entries = fs::read_dir(self.path(out).join("a")).unwrap().map(Result::unwrap);
        let mut files: Vec<_> =
            entries.map(|entry| (entry.file_name().into_string().unwrap(), fs::read(entry.path()).unwrap())).collect();
        files.sort();
        files
    }

    /// Starts the command and waits until it has kept a run. A command that is faster than this test is tried again.
    fn started(&self, out: &str) -> Child {
        for _ in 0..20 {
            let mut child = self.command(out, &["--threads", "1"]).spawn().unwrap();
            while child.try_wait().unwrap().is_none() {
                if !self.kept(out).is_empty() {
                    return child;
                }
                wait();
            }
        }
        panic!("the command is always faster");
    }

    /// Keeps all eight runs: the results cannot be written, because there is a folder in the way.
    fn keep_all(&self, out: &str) {
        let in_the_way = self.path(out).join("a/summary.json");
        fs::create_dir_all(&in_the_way).unwrap();
        let output = self.command(out, &["--quiet"]).output().unwrap();
        assert_eq!(output.status.code(), Some(1));
        assert!(stderr(&output).starts_with("error: cannot write the result files into"), "{}", stderr(&output));
        assert_eq!(self.kept(out).len(), 8);
        fs::remove_dir(&in_the_way).unwrap();
    }
}

#[expect(clippy::disallowed_methods, reason = "another process is waited for")]
fn wait() {
    std::thread::sleep(Duration::from_millis(2));
}

fn stderr(output: &Output) -> String {
    String::from_utf8(output.stderr.clone()).unwrap()
}

/// What the command says about what is kept.
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
        interrupted = folder.kept("out").len();
    }
    let output = folder.run("out", &["--resume", "--threads", "2"]);
    assert_eq!(said(&output), [format!("{interrupted} of 8 runs are taken over from `out/a/unfinished`")]);
    folder.run("whole", &[]);
    assert_eq!(folder.results("whole").len(), 8);
    assert!(folder.results("out") == folder.results("whole"), "and nothing else is left in the folder");
}

#[test]
fn ctrl_c_says_how_to_go_on() {
    let folder = Folder::new();
    loop {
        let child = folder.started("out");
        let killed = Command::new("kill").args(["-INT", &child.id().to_string()]).status().unwrap();
        let output = child.wait_with_output().unwrap();
        if !killed.success() || output.status.success() {
            continue;
        }
        assert_eq!(output.status.code(), Some(130));
        let kept = folder.kept("out").len();
        let expected =
            format!("interrupted: {kept} of 8 runs have finished and are kept; the same command with --resume goes on");
        assert_eq!(said(&output), [expected]);
        assert!(output.stdout.is_empty());
        return;
    }
}

#[test]
fn what_is_kept_is_used_as_far_as_it_fits() {
    let folder = Folder::new();
    folder.run("whole", &[]);
    folder.keep_all("out");
    let files = folder.kept("out");
    let bytes = fs::read(&files[2]).unwrap();
    fs::write(&files[2], &bytes[..bytes.len() / 2]).unwrap();
    fs::write(folder.path("out/a/unfinished/half.run.1.tmp"), "half").unwrap();
    let output = folder.run("out", &["--resume"]);
    let [taken, damaged] = &said(&output)[..] else { panic!("{}", stderr(&output)) };
    assert_eq!(taken, "7 of 8 runs are taken over from `out/a/unfinished`");
    assert!(
        damaged.starts_with("run \"")
            && damaged.contains("is simulated again: what is kept of it cannot be used: `out/a/unfinished/")
    );
    assert!(damaged.ends_with("is damaged: its checksum is wrong"), "{damaged}");
    assert!(folder.results("out") == folder.results("whole"));
    assert_eq!(said(&folder.run("out", &["--resume", "--run", "IRN"])), ["nothing is kept in `out/a/unfinished`"]);
}

#[test]
fn another_scenario_in_the_same_folder_takes_nothing_over() {
    let folder = Folder::new();
    let more = ["--set", "traffic.flows=401"];
    folder.run("whole", &more);
    folder.keep_all("out");
    let output = folder.run("out", &["--resume", more[0], more[1]]);
    let expected =
        "8 runs, \"IRN, seed=1\" the first of them, are simulated again: what is kept of each is of another [traffic]";
    assert_eq!(said(&output), [expected]);
    assert!(folder.results("out") == folder.results("whole"));
}

#[test]
fn without_the_option_all_is_simulated_and_the_option_is_named() {
    let folder = Folder::new();
    folder.keep_all("out");
    // A part of the runs leaves what is kept of the others.
    let output = folder.run("out", &["--run", "NDP"]);
    let hint = "4 of 4 runs are kept in `out/a/unfinished`; --resume takes them over instead of simulating them again";
    assert_eq!((said(&output), folder.kept("out").len()), (vec![hint.to_string()], 4));
    assert!(said(&folder.run("out", &["--quiet"])).is_empty());
    assert!(!folder.path("out/a/unfinished").exists());
}
