//! Runs programs in network namespaces with rnic's libraries.

#![expect(clippy::disallowed_methods, reason = "programs are given time")]

use rnic_ibverbs::library;
use rnic_netns::{KilledChild, Namespace, Pair};
use std::fs;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::sync::atomic::{AtomicU32, Ordering};
use std::time::{Duration, Instant};

/// Time limit in which a program must end. A program that still runs is stopped, and counts as failed.
const PATIENCE: Duration = Duration::from_secs(180);

/// When the client of a server may start.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Ready {
    /// The program has no server.
    Alone,
    /// When the server listens on this TCP port.
    Port(u16),
    /// When the trace of the server shows that it has called this function.
    Called(&'static str),
}

/// The namespaces in which the programs run.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Place {
    /// Both programs run in one namespace, over the loopback interface.
    Loopback,
    /// The programs run in two namespaces that a link connects.
    Link,
    /// The programs run in two namespaces and see files for the devices in `/dev/infiniband` and
    /// `/sys/class/infiniband`, which UCX requires.
    Ucx,
    /// The programs run in two namespaces that a link connects. Each has its own `/sys`, in which UCX looks for network
    /// interfaces.
    Tcp,
    /// The programs run in one namespace with the same files as for UCX, because MPI starts its ranks there.
    Mpi,
}

/// The first argument with which this program runs the program in its other arguments, and shows it files for the
/// devices.
pub const WITH_FILES: &str = "with-files";

/// The environment of a run: the namespaces for the programs, and the libraries that the programs load.
pub struct Host {
    /// Path of this program.
    program: PathBuf,
    /// Folder of the libraries.
    pub libraries: PathBuf,
    /// Folder for the output of programs.
    pub logs: PathBuf,
    /// The namespaces.
    pub pair: Pair,
    /// A library that programs load first, such as the runtime of a sanitizer.
    preload: Option<PathBuf>,
}

/// The result of a pair of programs: the output of the client, or the reason of the failure.
pub type Outcome = Result<String, String>;

/// A setting of the environment.
pub type Setting<'a> = (&'a str, &'a str);

impl Host {
    /// Creates namespaces connected by a link with this MTU, and links the libraries from the static libraries in the
    /// folder `archives`, or else next to this program. Programs load `preload` first.
    ///
    /// # Errors
    /// A sentence with the reason.
    pub fn new(mtu: u32, archives: Option<&Path>, preload: Option<&Path>) -> Result<Host, String> {
        let program = std::env::current_exe().map_err(|error| error.to_string())?;
        let here = archives.unwrap_or(program.parent().unwrap_or(Path::new("/"))).to_path_buf();
        let here = here.canonicalize().map_err(|error| format!("{}: {error}", here.display()))?;
        let folder = here.join("rnic-ladder-files");
        let folders = [here.clone(), here.join("deps")];
        for library in library::ALL {
            let archive = library.find(&folders).ok_or_else(|| {
                format!("{} has no {}.a: build with `cargo build --release` first", here.display(), library.archive)
            })?;
            library.link(&archive, &folder)?;
        }
        let logs = folder.join("logs");
        fs::create_dir_all(&logs).map_err(|error| error.to_string())?;
        let pair = Pair::new(mtu).map_err(|error| error.to_string())?;
        Ok(Host { program, libraries: folder, logs, pair, preload: preload.map(Path::to_path_buf) })
    }

    /// Makes a command that runs with the libraries. Spaces separate the words of `line`; `{peer}` stands for the
    /// address of the server.
    fn command(&self, line: &str, place: Place, server: bool, settings: &[Setting<'_>]) -> Command {
        let (device, peer) = match (place, server) {
            (Place::Loopback, _) => ("127.0.0.1".to_string(), "127.0.0.1".to_string()),
            (Place::Link | Place::Ucx | Place::Tcp, true) => (Pair::B4.to_string(), Pair::B4.to_string()),
            (Place::Link | Place::Ucx | Place::Tcp, false) => (Pair::A4.to_string(), Pair::B4.to_string()),
            (Place::Mpi, _) => (Pair::A4.to_string(), Pair::A4.to_string()),
        };
        let line = line.replace("{peer}", &peer);
        let line = match place {
            Place::Ucx | Place::Mpi => format!("{} {WITH_FILES} {line}", self.program.display()),
            Place::Tcp => format!("unshare --mount sh {}/programs/sysfs.sh {line}", env!("CARGO_MANIFEST_DIR")),
            Place::Loopback | Place::Link => line,
        };
        let mut words = line.split_whitespace();
        let mut command = Command::new(words.next().unwrap_or("true"));
        command.args(words).env("LD_LIBRARY_PATH", &self.libraries).env("RNIC_DEVICES", device);
        for (name, value) in settings {
            command.env(name, value);
        }
        if let Some(preload) = &self.preload {
            command.env("LD_PRELOAD", preload);
        }
        command
    }

    fn start(&self, namespace: &Namespace, command: &mut Command) -> Result<Running, String> {
        static NEXT: AtomicU32 = AtomicU32::new(0);
        let log = self.logs.join(format!("{}", NEXT.fetch_add(1, Ordering::Relaxed)));
        let out = fs::File::create(&log).map_err(|error| error.to_string())?;
        let other = out.try_clone().map_err(|error| error.to_string())?;
        command.stdin(Stdio::null()).stdout(out).stderr(other).current_dir(&self.logs);
        let child = namespace.child_group(command).map_err(|error| format!("it cannot be started: {error}"))?;
        Ok(Running { child, log })
    }

    /// Runs a server, if the program has one, and its client. Returns the client's output.
    ///
    /// # Errors
    /// The reason why a program failed, with the last lines of its output.
    pub fn run(
        &self, place: Place, ready: Ready, server: &str, client: &str, settings: &[Setting<'_>], ends: bool,
    ) -> Outcome {
        let (here, there) = match place {
            Place::Loopback | Place::Mpi => (&self.pair.a, &self.pair.a),
            Place::Link | Place::Ucx | Place::Tcp => (&self.pair.a, &self.pair.b),
        };
        let mut serving = None;
        if ready != Ready::Alone {
            let mut command = self.command(server, place, true, settings);
            if matches!(ready, Ready::Called(_)) {
                command.env("RNIC_TRACE", "1");
            }
            let mut running = self.start(there, &mut command)?;
            running.await_ready(there, ready)?;
            serving = Some(running);
        }
        let output = self.start(here, &mut self.command(client, place, false, settings))?.end();
        let Some(serving) = serving else { return output };
        let output = output.map_err(|why| format!("{why}; the server printed: {}", last(&serving.output())))?;
        if !ends {
            // Dropping the handle kills the server and the programs that it has started.
            drop(serving);
            return Ok(output);
        }
        serving.end().map_err(|why| format!("the server: {why}"))?;
        Ok(output)
    }
}

struct Running {
    child: KilledChild,
    log: PathBuf,
}

impl Running {
    fn output(&self) -> String {
        String::from_utf8_lossy(&fs::read(&self.log).unwrap_or_default()).to_string()
    }

    fn end(mut self) -> Outcome {
        let begin = Instant::now();
        loop {
            match self.child.try_wait() {
                Ok(Some(status)) if status.success() => return Ok(self.output()),
                Ok(Some(status)) => return Err(format!("{status}: {}", last(&self.output()))),
                Ok(None) if begin.elapsed() < PATIENCE => std::thread::sleep(Duration::from_millis(5)),
                Ok(None) => return Err(format!("it has not ended after 180 s: {}", last(&self.output()))),
                Err(error) => return Err(error.to_string()),
            }
        }
    }

    fn await_ready(&mut self, namespace: &Namespace, ready: Ready) -> Result<(), String> {
        let begin = Instant::now();
        while begin.elapsed() < Duration::from_secs(60) {
            let is_ready = match ready {
                Ready::Alone => true,
                Ready::Called(name) => self.output().contains(name),
                Ready::Port(port) => {
                    let wanted = format!(":{port:04X} ");
                    let listens = || {
                        ["tcp", "tcp6"].iter().any(|table| {
                            let table =
                                fs::read_to_string(format!("/proc/thread-self/net/{table}")).unwrap_or_default();
                            table.lines().any(|line| line.contains(&wanted) && line.contains(" 0A "))
                        })
                    };
                    namespace.run(listens)
                }
            };
            if is_ready {
                return Ok(());
            }
            if let Ok(Some(status)) = self.child.try_wait() {
                return Err(format!("the server has ended with {status}: {}", last(&self.output())));
            }
            std::thread::sleep(Duration::from_millis(5));
        }
        Err(format!("the server does not listen: {}", last(&self.output())))
    }
}

/// The last lines of an output, joined into one line.
pub fn last(output: &str) -> String {
    let lines: Vec<&str> = output.lines().map(str::trim).filter(|line| !line.is_empty()).collect();
    let from = lines.len().saturating_sub(3);
    lines[from..].join("; ").chars().take(300).collect()
}

/// Whether a program is installed.
pub fn has(program: &str) -> bool {
    let path = std::env::var("PATH").unwrap_or_default();
    path.split(':').any(|folder| Path::new(folder).join(program).exists())
}

/// The version of a Debian package; `None` if it is not installed.
pub fn version(package: &str) -> Option<String> {
    let query = Command::new("dpkg-query").args(["-W", "-f=${Status} ${Version}", package]).output().ok()?;
    let text = String::from_utf8_lossy(&query.stdout).to_string();
    let version = text.strip_prefix("install ok installed ")?;
    Some(version.to_string())
}
