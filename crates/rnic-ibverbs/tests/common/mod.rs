//! The library, and programs that run with it in namespaces of their own.

use rnic_ibverbs::library;
use rnic_netns::{KilledChild, Namespace, Pair};
use std::collections::BTreeSet;
use std::fs;
use std::path::{Path, PathBuf};
use std::process::{Command, ExitStatus, Stdio};
use std::sync::{Mutex, OnceLock, PoisonError, RwLock};
use std::time::{Duration, Instant};

/// Time after which a program that is still running has failed. A program takes a second; a busy machine takes longer.
const TIMEOUT: Duration = Duration::from_secs(120);

/// The folder with the libraries, which are linked once per test run: from the static libraries next to this program,
/// or from the folder `$RNIC_TEST_ARCHIVES`, whose static libraries a sanitizer has instrumented.
pub(crate) fn library() -> &'static Path {
    static FOLDER: OnceLock<PathBuf> = OnceLock::new();
    FOLDER.get_or_init(|| {
        let folder = Path::new(env!("CARGO_TARGET_TMPDIR")).join(format!("verbs-{}", std::process::id()));
        let here = match std::env::var_os("RNIC_TEST_ARCHIVES") {
            Some(folder) => folder.into(),
            None => std::env::current_exe().unwrap().parent().unwrap().to_path_buf(),
        };
        for library in crate::LIBRARIES {
            let archive = library.find(std::slice::from_ref(&here));
            let archive = archive.expect("Cargo builds the static library before the tests");
            library.link(&archive, &folder).unwrap();
        }
        // Folders of earlier test runs, whose processes have ended.
        for old in fs::read_dir(env!("CARGO_TARGET_TMPDIR")).unwrap().flatten() {
            let name = old.file_name().to_string_lossy().to_string();
            let pid = name.strip_prefix("verbs-").and_then(|pid| pid.parse::<u32>().ok());
            if pid.is_some_and(|pid| !Path::new(&format!("/proc/{pid}")).exists()) {
                let _ = fs::remove_dir_all(old.path());
            }
        }
        folder
    })
}

/// Whether a program is installed. Says that the test is skipped if not.
pub(crate) fn has(program: &str) -> bool {
    let found = std::env::var("PATH").unwrap_or_default().split(':').any(|dir| Path::new(dir).join(program).exists());
    if !found {
        eprintln!("skipped: {program} is not installed");
    }
    found
}

/// Runs `test` in its own network namespace, so that no other program uses the test's ports and devices.
pub(crate) fn alone(test: impl FnOnce(&Namespace)) {
    linked(|pair| test(&pair.a));
}

/// A lock that each test holds while its programs run: one test at a time if the programs poll, several tests if they
/// mostly wait.
static CORES: RwLock<()> = RwLock::new(());

/// Runs `test` with two namespaces that a link joins, while no other test runs: if programs of several tests polled,
/// they would not have enough cores.
pub(crate) fn linked(test: impl FnOnce(&Pair)) {
    let _all = CORES.write().unwrap_or_else(PoisonError::into_inner);
    rnic_netns::with_pair(1_500, test);
}

/// As [`alone`], beside other tests whose programs mostly wait.
#[allow(dead_code, reason = "the tests of librdmacm use it")]
pub(crate) fn alone_waiting(test: impl FnOnce(&Namespace)) {
    linked_waiting(|pair| test(&pair.a));
}

/// As [`linked`], beside other such tests: most of the time the programs wait.
#[allow(dead_code, reason = "the tests of librdmacm use it")]
pub(crate) fn linked_waiting(test: impl FnOnce(&Pair)) {
    let _some = CORES.read().unwrap_or_else(PoisonError::into_inner);
    rnic_netns::with_pair(1_500, test);
}

/// A program that runs with the library.
pub(crate) struct Running {
    child: KilledChild,
    log: PathBuf,
}

/// What a program has left.
#[derive(Debug)]
pub(crate) struct Ended {
    pub(crate) status: ExitStatus,
    pub(crate) output: String,
}

/// A command with the library, and with the libraries `$RNIC_TEST_PRELOAD`: the runtime of a sanitizer. `line` contains
/// the program and its arguments, separated by spaces.
pub(crate) fn command(line: &str) -> Command {
    let mut words = line.split_whitespace();
    let mut command = Command::new(words.next().unwrap());
    command.args(words).env("LD_LIBRARY_PATH", library()).env("RNIC_DEVICES", "127.0.0.1");
    if let Some(preload) = std::env::var_os("RNIC_TEST_PRELOAD") {
        command.env("LD_PRELOAD", preload);
    }
    command
}

/// Starts a command in a namespace.
pub(crate) fn start(namespace: &Namespace, command: &mut Command) -> Running {
    start_by(|command| namespace.child(command), command)
}

/// As [`start`], for a command that starts others: they are killed with it.
#[allow(dead_code, reason = "the tests of librdmacm use it")]
pub(crate) fn start_group(namespace: &Namespace, command: &mut Command) -> Running {
    start_by(|command| namespace.child_group(command), command)
}

fn start_by(spawn: impl FnOnce(&mut Command) -> std::io::Result<KilledChild>, command: &mut Command) -> Running {
    use std::sync::atomic::{AtomicU32, Ordering};
    static NEXT: AtomicU32 = AtomicU32::new(0);
    let log = library().join(format!("log-{}", NEXT.fetch_add(1, Ordering::Relaxed)));
    let out = fs::File::create(&log).unwrap();
    command.stdin(Stdio::null()).stdout(out.try_clone().unwrap()).stderr(out);
    Running { child: spawn(command).unwrap(), log }
}

impl Running {
    /// What the program has printed until now.
    pub(crate) fn output(&self) -> String {
        String::from_utf8_lossy(&fs::read(&self.log).unwrap()).to_string()
    }

    /// Its number.
    #[allow(dead_code, reason = "the tests of librdmacm use it")]
    pub(crate) fn id(&self) -> u32 {
        self.child.id()
    }

    pub(crate) fn kill(mut self) {
        self.child.kill().unwrap();
        self.child.wait().unwrap();
    }

    /// Waits for the end of the program.
    pub(crate) fn end(mut self) -> Ended {
        let begin = Instant::now();
        loop {
            if let Some(status) = self.child.try_wait().unwrap() {
                return Ended { status, output: self.output() };
            }
            assert!(begin.elapsed() < TIMEOUT, "the program has not ended: {}", self.output());
            std::thread::sleep(Duration::from_millis(5));
        }
    }
}

impl Ended {
    /// The output of a program that has succeeded.
    #[track_caller]
    pub(crate) fn success(self) -> String {
        assert!(self.status.success(), "{}: {}", self.status, self.output);
        self.output
    }
}

/// Waits until a program has printed a text.
#[allow(dead_code, reason = "the tests of librdmacm use it")]
pub(crate) fn await_text(program: &Running, text: &str) {
    let begin = Instant::now();
    while !program.output().contains(text) {
        assert!(begin.elapsed() < TIMEOUT, "the program has not printed \"{text}\": {}", program.output());
        std::thread::sleep(Duration::from_millis(20));
    }
}

/// Waits until a process listens on a TCP port of the namespace.
pub(crate) fn await_port(namespace: &Namespace, port: u16, server: &mut Running) {
    let wanted = format!(":{port:04X} ");
    let begin = Instant::now();
    loop {
        let listens = namespace.run(|| {
            ["tcp", "tcp6"].iter().any(|table| {
                let table = fs::read_to_string(format!("/proc/thread-self/net/{table}")).unwrap_or_default();
                table.lines().any(|line| line.contains(&wanted) && line.contains(" 0A "))
            })
        });
        if listens {
            return;
        }
        assert!(server.child.try_wait().unwrap().is_none(), "the server has ended: {}", server.output());
        assert!(begin.elapsed() < TIMEOUT, "no process listens on port {port}: {}", server.output());
        std::thread::sleep(Duration::from_millis(5));
    }
}

/// Runs a server and its client, whose command ends with the server's address; returns the outputs of server and
/// client.
pub(crate) fn both(namespace: &Namespace, line: &str, port: u16, set: &dyn Fn(&mut Command)) -> [String; 2] {
    let (mut server, mut client) = (command(line), command(&format!("{line} 127.0.0.1")));
    set(&mut server);
    set(&mut client);
    let mut server = start(namespace, &mut server);
    await_port(namespace, port, &mut server);
    let client = start(namespace, &mut client).end().success();
    [server.end().success(), client]
}

/// Compiles a C program of the folder `programs`; `None`, with a message, if the header of libibverbs is not installed.
pub(crate) fn program(name: &str) -> Option<PathBuf> {
    let header = Path::new("/usr/include/infiniband/verbs.h");
    if !header.exists() {
        eprintln!("skipped: libibverbs-dev is not installed");
        return None;
    }
    let source = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/programs").join(format!("{name}.c"));
    Some(compile_once(name, |cc| {
        cc.args(["-O1", "-g", "-Wall", "-Wextra", "-Werror"]);
        cc.arg(source).arg(library().join(library::NAME)).arg("-lpthread");
    }))
}

/// Compiles a C program into the folder of the libraries, unless a test has done so; `arguments` adds those of the
/// compiler. Tests that use the same program wait for it.
pub(crate) fn compile_once(name: &str, arguments: impl FnOnce(&mut Command)) -> PathBuf {
    static COMPILED: Mutex<BTreeSet<String>> = Mutex::new(BTreeSet::new());
    let mut compiled = COMPILED.lock().unwrap_or_else(PoisonError::into_inner);
    let out = library().join(name);
    if !compiled.contains(name) {
        let mut cc = Command::new("cc");
        cc.arg("-o").arg(&out);
        arguments(&mut cc);
        let output = cc.arg("-Wl,-rpath-link,/usr/lib/x86_64-linux-gnu").output().unwrap();
        assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
        compiled.insert(name.to_string());
    }
    out
}
