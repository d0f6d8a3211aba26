//! A shell in a temporary folder with the files that the guides expect: the command `rnic`, `scenarios/`, `p4/` and
//! `examples/`.

use super::repository;
use std::fs;
use std::io::{BufRead, BufReader, Write};
use std::os::unix::fs::PermissionsExt;
use std::os::unix::process::CommandExt;
use std::path::{Path, PathBuf};
use std::process::{Child, ChildStdin, ChildStdout, Command, Stdio};
use std::time::Duration;

/// How long the test waits for the text of a background command.
const PATIENCE: Duration = Duration::from_secs(30);

/// A shell that runs the commands of a guide one after another.
pub(crate) struct Session {
    folder: Folder,
    shell: Child,
    input: ChildStdin,
    answers: BufReader<ChildStdout>,
    commands: usize,
    /// The text of each running background command, with its process ID.
    background: Vec<(String, u32)>,
}

/// The folder above the shell's.
enum Folder {
    /// Removed at the end.
    Temporary(tempfile::TempDir),
    /// Always the same, so that Cargo builds there only what has changed.
    Kept(PathBuf),
}

impl Folder {
    fn path(&self) -> &Path {
        match self {
            Folder::Temporary(folder) => folder.path(),
            Folder::Kept(path) => path,
        }
    }
}

impl Session {
    /// Starts a shell.
    pub(crate) fn start() -> Session {
        Session::with_prefix(&[], Folder::Temporary(tempfile::tempdir().unwrap())).expect("a shell starts")
    }

    /// Starts a shell in a folder with this name. The folder keeps the files that Cargo builds for the template.
    pub(crate) fn start_keeping_builds(name: &str) -> Session {
        let folder = Path::new(env!("CARGO_TARGET_TMPDIR")).join(name);
        for old in ["rnic", "my-congestion-control"] {
            let _ = fs::remove_dir_all(folder.join(old));
        }
        fs::create_dir_all(folder.join("target")).unwrap();
        let session = Session::with_prefix(&[], Folder::Kept(folder.clone())).expect("a shell starts");
        // Copies of the template have this link, too.
        let target = session.root().join("examples/congestion-control/target");
        std::os::unix::fs::symlink(folder.join("target"), target).unwrap();
        session
    }

    /// Starts a shell in its own network and mount namespaces; `None` if the system does not allow these.
    pub(crate) fn start_in_namespace() -> Option<Session> {
        // Without root a user namespace gives the rights, but there tcpdump cannot drop its own.
        let unshare = ["unshare", "--mount", "--net"];
        let with_user = [&unshare[..], &["--user", "--map-root-user"]].concat();
        [unshare.to_vec(), with_user].iter().find_map(|prefix| {
            let mut session = Session::with_prefix(prefix, Folder::Temporary(tempfile::tempdir().unwrap()))?;
            let prepare = "mount -t tmpfs none /run && mkdir /run/netns && ip link set lo up";
            matches!(session.run(prepare, ""), Ok((_, 0))).then_some(session)
        })
    }

    fn with_prefix(prefix: &[&str], folder: Folder) -> Option<Session> {
        let root = folder.path().join("rnic");
        for copied in ["scenarios", "p4", "examples"] {
            copy(&repository().join(copied), &root.join(copied));
        }
        fs::create_dir_all(root.join("crates")).unwrap();
        for krate in fs::read_dir(repository().join("crates")).unwrap().map(|entry| entry.unwrap()) {
            std::os::unix::fs::symlink(krate.path(), root.join("crates").join(krate.file_name())).unwrap();
        }
        for file in ["Cargo.toml", "Cargo.lock"] {
            fs::copy(repository().join(file), root.join(file)).unwrap();
        }
        let binary = Path::new(env!("CARGO_BIN_EXE_rnic"));
        let built = root.join("target/release");
        fs::create_dir_all(&built).unwrap();
        let wrapper = format!("#!/bin/sh\nexec \"{}\" \"$@\" $RNIC_SHORTER\n", binary.display());
        fs::write(built.join("rnic"), wrapper).unwrap();
        fs::set_permissions(built.join("rnic"), fs::Permissions::from_mode(0o755)).unwrap();
        std::os::unix::fs::symlink(binary.parent().unwrap().join("examples"), built.join("examples")).unwrap();

        let program = [prefix, &["bash"]].concat();
        let mut command = Command::new(program[0]);
        command.args(&program[1..]).stderr(Stdio::null());
        command.current_dir(&root).stdin(Stdio::piped()).stdout(Stdio::piped()).process_group(0);
        command.env("COLUMNS", "100").env_remove("CARGO_TARGET_DIR");
        // What the guides build simulates little, so the time is in the compiler.
        command.env("CARGO_PROFILE_RELEASE_OPT_LEVEL", "1");
        let mut shell = command.spawn().ok()?;
        let (input, answers) = (shell.stdin.take().unwrap(), BufReader::new(shell.stdout.take().unwrap()));
        let mut session = Session { folder, shell, input, answers, commands: 0, background: Vec::new() };
        // `.ci/run` installs Python packages in the second folder.
        let python = repository().join("target/python/bin");
        let path = format!("PATH='{}':'{}':$PATH", built.display(), python.display());
        let prepare = format!("{path}; shopt -s expand_aliases; set -o pipefail");
        matches!(session.run(&prepare, ""), Ok((_, 0))).then_some(session)
    }

    /// The folder in which the commands of a guide start.
    pub(crate) fn root(&self) -> PathBuf {
        self.folder.path().join("rnic")
    }

    fn write_command(&mut self, command: &str) -> (PathBuf, PathBuf) {
        self.commands += 1;
        let (script, output) = (
            self.folder.path().join(format!("{}.sh", self.commands)),
            self.folder.path().join(format!("{}.out", self.commands)),
        );
        fs::write(&script, format!("{command}\n")).unwrap();
        (script, output)
    }

    /// Runs a command in the shell, with `shorter` appended to the arguments of `rnic`. Returns its output and its exit
    /// code.
    pub(crate) fn run(&mut self, command: &str, shorter: &str) -> std::io::Result<(String, i32)> {
        let (script, output) = self.write_command(command);
        let (script, printed) = (script.display(), output.display());
        writeln!(self.input, "export RNIC_SHORTER='{shorter}'; . '{script}' > '{printed}' 2>&1 < /dev/null; echo $?")?;
        let mut answer = String::new();
        self.answers.read_line(&mut answer)?;
        let code = answer.trim().parse().map_err(|_| std::io::Error::other("the shell has ended"))?;
        Ok((fs::read_to_string(output).unwrap_or_default(), code))
    }

    /// Starts a command and returns when it has printed `text`.
    ///
    /// # Errors
    /// The output of the command, if it does not print the text in time.
    pub(crate) fn start_background(&mut self, command: &str, text: &str) -> Result<(), String> {
        let (script, output) = self.write_command(&format!("exec {command}"));
        let (script, printed) = (script.display(), output.display());
        writeln!(self.input, "(. '{script}') > '{printed}' 2>&1 < /dev/null & echo $!").unwrap();
        let mut answer = String::new();
        self.answers.read_line(&mut answer).unwrap();
        self.background.push((command.to_string(), answer.trim().parse().unwrap()));
        let step = Duration::from_millis(20);
        for _ in 0..PATIENCE.as_millis() / step.as_millis() {
            std::thread::park_timeout(step);
            if !text.is_empty() && fs::read_to_string(&output).unwrap_or_default().contains(text) {
                return Ok(());
            }
            if text.is_empty() && self.listens() {
                return Ok(());
            }
        }
        Err(fs::read_to_string(output).unwrap_or_default())
    }

    /// Whether any process listens on the TCP port of the guide's servers, in one of the network namespaces.
    fn listens(&mut self) -> bool {
        // `grep -q` would end at the first match, and `cat`, which then cannot write, would make the pipeline fail.
        let ports = "ip netns exec right cat /proc/net/tcp /proc/net/tcp6 2>/dev/null | grep ':4853 ' >/dev/null";
        matches!(self.run(ports, ""), Ok((_, 0)))
    }

    /// Ends the latest background command that contains `part`, as Ctrl-C does; does nothing if no such command is
    /// running.
    pub(crate) fn interrupt(&mut self, part: &str) {
        let Some(at) = self.background.iter().rposition(|(command, _)| command.contains(part)) else { return };
        let (_, process) = self.background.remove(at);
        // A shell without a terminal starts background commands with SIGINT ignored, so SIGTERM takes its place. The
        // wait is that of a person: `tcpdump` gets packets from the kernel up to one second late.
        let _ = self.run(&format!("sleep 1.2; kill {process}; wait {process}"), "");
    }
}

impl Drop for Session {
    fn drop(&mut self) {
        // The process group has the shell and its background commands.
        let _ = Command::new("kill").args(["-KILL", "--", &format!("-{}", self.shell.id())]).status();
        let _ = self.shell.wait();
    }
}

/// Copies a folder, without folders of builds.
fn copy(from: &Path, to: &Path) {
    fs::create_dir_all(to).unwrap();
    for entry in fs::read_dir(from).unwrap().map(|entry| entry.unwrap()) {
        let (path, name) = (entry.path(), entry.file_name());
        match path.is_dir() {
            true if name == "target" => {}
            true => copy(&path, &to.join(name)),
            false => drop(fs::copy(&path, to.join(name)).unwrap()),
        }
    }
}
