//! Agents and controllers of a mesh as processes, for tests.

use serde_json::Value;
use std::fs;
use std::io::{BufRead, BufReader, Read, Write};
use std::net::TcpStream;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::sync::{Arc, Mutex};
use std::time::{Duration, Instant};

/// Waits until `done` returns something.
#[expect(clippy::disallowed_methods, reason = "processes run in real time")]
pub(crate) fn wait_for<T>(what: &str, seconds: u64, mut done: impl FnMut() -> Option<T>) -> T {
    let end = Instant::now() + Duration::from_secs(seconds);
    loop {
        if let Some(found) = done() {
            return found;
        }
        assert!(Instant::now() < end, "{what} did not happen within {seconds} s");
        std::thread::sleep(Duration::from_millis(100));
    }
}

/// A process of `rnic mesh`. It is killed when this value is dropped.
pub(crate) struct Process {
    pub(crate) child: Child,
    lines: Arc<Mutex<Vec<String>>>,
}

impl Process {
    /// Takes over a process whose standard error is a pipe.
    pub(crate) fn new(mut child: Child) -> Process {
        let lines: Arc<Mutex<Vec<String>>> = Arc::default();
        let (errors, kept) = (child.stderr.take().unwrap(), lines.clone());
        std::thread::spawn(move || {
            for line in BufReader::new(errors).lines().map_while(Result::ok) {
                kept.lock().unwrap().push(line);
            }
        });
        Process { child, lines }
    }

    pub(crate) fn lines(&self) -> Vec<String> {
        self.lines.lock().unwrap().clone()
    }

    /// `true` if the process runs and has printed something, `false` if it has ended without output; `None` if neither
    /// has happened yet.
    pub(crate) fn started(&mut self) -> Option<Option<bool>> {
        if self.lines().iter().any(|line| line.contains("agents at ")) {
            return Some(Some(true));
        }
        self.child.try_wait().unwrap().map(|_| Some(false))
    }

    /// The first line that contains `part`, once there is one.
    pub(crate) fn line(&self, part: &str) -> String {
        let what = format!("a line with {part:?}");
        wait_for(&what, 60, || self.lines().into_iter().find(|line| line.contains(part)))
    }

    /// Sends a signal.
    pub(crate) fn signal(&self, signal: &str) {
        assert!(Command::new("kill").args([signal, &self.child.id().to_string()]).status().unwrap().success());
    }
}

impl Drop for Process {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
        if std::thread::panicking() {
            eprintln!("{:?}", self.lines());
        }
    }
}

/// The command `rnic mesh`.
pub(crate) fn mesh(arguments: &[&str]) -> Command {
    let mut command = Command::new(env!("CARGO_BIN_EXE_rnic"));
    command.arg("mesh").args(arguments).stdin(Stdio::null()).stdout(Stdio::null()).stderr(Stdio::piped());
    command
}

/// A folder with an inventory and the certificates of its hosts.
pub(crate) struct Folder {
    pub(crate) path: PathBuf,
    _folder: tempfile::TempDir,
}

impl Folder {
    /// Writes the inventory and makes the certificates; `controller` is the address of the controller.
    pub(crate) fn new(inventory: &str, controller: &str) -> Folder {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().to_path_buf();
        fs::write(path.join("inventory.toml"), inventory).unwrap();
        let keys = path.join("keys");
        let made =
            mesh(&["keys", "--controller", controller, "--out"]).arg(keys).arg(path.join("inventory.toml")).output();
        assert!(made.unwrap().status.success());
        Folder { path, _folder: folder }
    }

    /// The options with the certificate `name`.
    pub(crate) fn files(&self, name: &str) -> Vec<String> {
        let path = |file: String| self.path.join("keys").join(file).display().to_string();
        let pairs =
            [("--certificate", format!("{name}.pem")), ("--key", format!("{name}-key.pem")), ("--ca", "ca.pem".into())];
        pairs.into_iter().flat_map(|(option, file)| [option.to_string(), path(file)]).collect()
    }

    /// The command of a controller.
    pub(crate) fn controller(&self, listen: &str, page: &str) -> Command {
        let mut command = mesh(&["controller", "--listen", listen, "--page", page, "--data"]);
        command.arg(self.path.join("data")).arg(self.path.join("inventory.toml")).args(self.files("controller"));
        command
    }

    /// The command of an agent.
    pub(crate) fn agent(&self, name: &str, address: &str, controller: &str) -> Command {
        let mut command = mesh(&["agent", "--name", name, "--address", address, "--controller", controller]);
        command.args(self.files(name));
        command
    }
}

/// The addresses of a controller, from its first line: for agents and for browsers.
pub(crate) fn addresses(controller: &Process) -> (String, String) {
    let line = controller.line("agents at ");
    let words: Vec<&str> = line.split([' ', ',']).collect();
    (words[2].to_string(), words.last().unwrap().trim_end_matches('/').to_string())
}

/// Status, headers and body of a page. `headers` are lines of the request.
pub(crate) fn get(page: &str, path: &str, headers: &str) -> Option<(u16, String, String)> {
    let host = page.strip_prefix("http://").unwrap();
    let mut stream = TcpStream::connect(host).ok()?;
    stream.set_read_timeout(Some(Duration::from_secs(20))).unwrap();
    let host = if headers.contains("Host:") { String::new() } else { format!("Host: {host}\r\n") };
    write!(stream, "GET {path} HTTP/1.1\r\n{host}{headers}Connection: close\r\n\r\n").ok()?;
    let mut text = String::new();
    stream.read_to_string(&mut text).ok()?;
    let (head, body) = text.split_once("\r\n\r\n")?;
    Some((head.split(' ').nth(1)?.parse().ok()?, head.to_string(), body.to_string()))
}

/// A view of the page as JSON.
pub(crate) fn json(page: &str, path: &str) -> Option<Value> {
    let (status, _, body) = get(page, path, "")?;
    (status == 200).then(|| serde_json::from_str(&body).ok())?
}

/// Names of files in a folder.
pub(crate) fn names(folder: &Path) -> Vec<String> {
    let mut names: Vec<String> =
        fs::read_dir(folder).unwrap().map(|entry| entry.unwrap().file_name().into_string().unwrap()).collect();
    names.sort();
    names
}
