//! Tests how the ladder handles signals.

#![expect(clippy::disallowed_methods, reason = "programs are given time")]

use nix::sys::signal::{Signal, kill};
use nix::unistd::Pid;
use std::fs;
use std::os::unix::fs::PermissionsExt;
use std::path::Path;
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};

const PATIENCE: Duration = Duration::from_secs(120);

/// Waits until `value` returns something.
fn wait_for<T>(what: &str, mut value: impl FnMut() -> Option<T>) -> T {
    let begin = Instant::now();
    loop {
        if let Some(value) = value() {
            return value;
        }
        assert!(begin.elapsed() < PATIENCE, "{what}");
        std::thread::sleep(Duration::from_millis(10));
    }
}

/// Whether a process is running. A process that has ended, but for which its parent has not waited, does not run.
fn runs(number: u32) -> bool {
    // The command line of a process is empty while the process becomes another program.
    let stat = fs::read_to_string(format!("/proc/{number}/stat")).unwrap_or_default();
    stat.rsplit_once(") ").is_some_and(|(_, rest)| !rest.starts_with(['Z', 'X']))
}

/// Makes a folder with a program `ucmatose` that never ends and whose child processes never end, and with libraries
/// that have no functions for programs.
fn prepare(folder: &Path) {
    let _ = fs::remove_dir_all(folder);
    fs::create_dir_all(folder).unwrap();
    let program = folder.join("ucmatose");
    // Servers report that they listen, and all processes report their process IDs.
    let script = format!(
        "#!/bin/sh\necho rdma_listen\nsleep 600 &\nnumbers={}/$$\necho $$ $! >$numbers.new\nmv $numbers.new $numbers.pids\nwait\n",
        folder.display()
    );
    fs::write(&program, script).unwrap();
    fs::set_permissions(&program, fs::Permissions::from_mode(0o755)).unwrap();
    // The only function that the linked library itself calls.
    let source = folder.join("on_load.c");
    fs::write(&source, "void rnic_on_load(void) {}\n").unwrap();
    let object = folder.join("on_load.o");
    assert!(Command::new("cc").args(["-c", "-o"]).args([&object, &source]).status().unwrap().success());
    for (name, objects) in [("librnic_ibverbs.a", &[object][..]), ("librnic_rdmacm.a", &[])] {
        let made = Command::new("ar").arg("cr").arg(folder.join(name)).args(objects).status().unwrap();
        assert!(made.success());
    }
}

/// The processes of the program: a server and a client, each with a child process.
fn processes(folder: &Path, ladder: &mut Child) -> Vec<u32> {
    wait_for("the programs do not start", || {
        assert!(ladder.try_wait().unwrap().is_none(), "the ladder has ended");
        let files = fs::read_dir(folder).unwrap().flatten().map(|entry| entry.path());
        let files = files.filter(|path| path.extension().is_some_and(|extension| extension == "pids"));
        let text: String = files.map(|path| fs::read_to_string(path).unwrap()).collect();
        let numbers: Vec<u32> = text.split_whitespace().map(|number| number.parse().unwrap()).collect();
        (numbers.len() == 4).then_some(numbers)
    })
}

#[test]
fn a_signal_ends_the_programs_of_the_ladder() {
    rnic_netns::with_pair(1_500, |_| {
        let folder = Path::new(env!("CARGO_TARGET_TMPDIR")).join("signals");
        for (signal, code) in [(Signal::SIGINT, 130), (Signal::SIGTERM, 143)] {
            prepare(&folder);
            let path = format!("{}:{}", folder.display(), std::env::var("PATH").unwrap());
            let mut ladder = Command::new(env!("CARGO_BIN_EXE_rnic-ladder"));
            ladder.args(["ucmatose", "--archives"]).arg(&folder).env("PATH", path);
            let mut ladder = ladder.stdout(Stdio::null()).stderr(Stdio::piped()).spawn().unwrap();
            let processes = processes(&folder, &mut ladder);
            assert!(processes.iter().all(|number| runs(*number)));
            kill(Pid::from_raw(ladder.id() as i32), signal).unwrap();
            let ended = ladder.wait_with_output().unwrap();
            assert_eq!(ended.status.code(), Some(code));
            assert_eq!(String::from_utf8_lossy(&ended.stderr), "rnic-ladder: interrupted\n");
            wait_for("a program continues", || processes.iter().all(|number| !runs(*number)).then_some(()));
        }
    });
}
