//! The host of rnic with real sockets: a network namespace whose Ethernet device is one end of the link.

use crate::error::{Error, Result};
use crate::guest::COMMAND_PATIENCE;
use crate::host::Host;
use crate::link::{Frames, LONGEST};
use rnic_netns::{KilledChild, Namespace, NetnsError};
use rustix::event::{PollFd, PollFlags, Timespec, poll};
use rustix::io::Errno;
use rustix::ioctl::{Setter, ioctl, opcode};
use std::fs::{File, OpenOptions};
use std::io::{self, BufRead, BufReader, Read, Write};
use std::net::TcpStream;
use std::os::unix::fs::OpenOptionsExt;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::mpsc::{self, Receiver, RecvTimeoutError, Sender};
use std::time::{Duration, Instant};

/// Name of the Ethernet device in the namespace.
const DEVICE: &str = "roce";

/// Interval at which a relay that waits for frames checks whether the device was shut down.
const LOOK: Duration = Duration::from_millis(100);

/// A network namespace that has the addresses of [`Host::OURS`] on the link. Programs in the namespace reach the guest
/// as from a separate host.
#[derive(Clone, Debug)]
pub struct HostNetwork {
    namespace: Namespace,
}

/// The test bed's end of the TAP device. It receives the frames that the namespace's kernel sends, and sends frames to
/// this kernel.
#[derive(Debug)]
pub struct Tap {
    file: File,
    closed: AtomicBool,
}

impl HostNetwork {
    /// Creates a namespace with an Ethernet device, and returns it with the end of the link that the device represents.
    /// `mtu` is the device's MTU in bytes.
    ///
    /// # Errors
    /// [`Error::Unavailable`] if the system allows no network namespaces or TAP devices.
    pub fn new(mtu: u32) -> Result<(HostNetwork, Tap)> {
        let namespace = Namespace::new().map_err(unavailable)?;
        let file = namespace.run(tap).map_err(|error| {
            Error::Unavailable(format!("no TAP device can be made, for which /dev/net/tun is needed: {error}"))
        })?;
        let mac = Host::OURS.mac().map(|byte| format!("{byte:02x}")).join(":");
        for arguments in [
            format!("link set {DEVICE} address {mac} mtu {mtu} up"),
            format!("address add {}/24 dev {DEVICE}", Host::OURS.ipv4()),
            format!("address add {}/64 dev {DEVICE} nodad", Host::OURS.ipv6()),
        ] {
            namespace.ip(&arguments).map_err(|error| Error::Check(error.to_string()))?;
        }
        Ok((HostNetwork { namespace }, Tap { file, closed: AtomicBool::new(false) }))
    }

    /// Starts the command `rnic` with these arguments in the namespace.
    ///
    /// # Errors
    /// If the command is not built, or cannot be started.
    pub fn rnic(&self, arguments: &str) -> Result<Program> {
        let mut command = Command::new(rnic()?);
        command.args(arguments.split_whitespace());
        self.start(command, format!("rnic {arguments}"))
    }

    /// Starts a program of this machine in the namespace with rnic's libibverbs and librdmacm. The program's verbs are
    /// traced.
    ///
    /// # Errors
    /// As [`HostNetwork::rnic`].
    pub fn verbs(&self, line: &str) -> Result<Program> {
        let mut command = Command::new(rnic()?);
        command.args(["verbs", "run"]).args(line.split_whitespace());
        // Loopback addresses are left out, so that each address family has one device.
        let devices = format!("{},{}", Host::OURS.ipv4(), Host::OURS.ipv6());
        command.env("RNIC_DEVICES", devices).env("RNIC_TRACE", "1");
        self.start(command, line.to_string())
    }

    fn start(&self, mut command: Command, name: String) -> Result<Program> {
        command.stdin(Stdio::null()).stdout(Stdio::piped()).stderr(Stdio::piped());
        let mut child = self.namespace.child(&mut command).map_err(Error::io(&*name))?;
        let (send, lines) = mpsc::channel();
        // The threads that read the pipes end when the program ends.
        if let (Some(stdout), Some(stderr)) = (child.stdout.take(), child.stderr.take()) {
            read(stdout, Stream::Output, send.clone());
            read(stderr, Stream::Messages, send);
        }
        Ok(Program { child, name, lines, output: String::new(), messages: String::new() })
    }
}

impl HostNetwork {
    /// Returns the body of a page that a program in the namespace serves at `address`.
    ///
    /// # Errors
    /// If no program responds.
    pub fn get(&self, address: &str, path: &str) -> Result<String> {
        let request = format!("GET {path} HTTP/1.1\r\nHost: {address}\r\nConnection: close\r\n\r\n");
        let answer = self.namespace.run(|| -> io::Result<String> {
            let mut stream = TcpStream::connect(address)?;
            stream.set_read_timeout(Some(COMMAND_PATIENCE))?;
            stream.write_all(request.as_bytes())?;
            let mut text = String::new();
            stream.read_to_string(&mut text)?;
            Ok(text)
        });
        let answer = answer.map_err(Error::io(address))?;
        let body = answer.split_once("\r\n\r\n").map(|(_, body)| body.to_owned());
        body.ok_or_else(|| Error::Check(format!("{address} has no answer for {path}")))
    }
}

/// A program that runs in the namespace until it is dropped.
#[derive(Debug)]
pub struct Program {
    child: KilledChild,
    name: String,
    /// The lines that the program prints; the channel closes when the program ends.
    lines: Receiver<(Stream, String)>,
    output: String,
    messages: String,
}

#[derive(Clone, Copy, PartialEq, Eq, Debug)]
enum Stream {
    Output,
    Messages,
}

fn read(pipe: impl io::Read + Send + 'static, stream: Stream, send: Sender<(Stream, String)>) {
    std::thread::spawn(move || {
        let mut pipe = BufReader::new(pipe);
        let mut line = String::new();
        while pipe.read_line(&mut line).is_ok_and(|count| count > 0) {
            // Sending fails only while the `Program` is being dropped, and then its lines are not needed.
            let _ = send.send((stream, std::mem::take(&mut line)));
        }
    });
}

impl Program {
    /// Waits until the program has printed a line that contains `text`.
    ///
    /// # Errors
    /// If the program ends first, or prints no such line in time.
    pub fn await_message(&mut self, text: &str) -> Result<()> {
        let deadline = Instant::now() + COMMAND_PATIENCE;
        while let Some(line) = self.line(deadline)? {
            if line.contains(text) {
                return Ok(());
            }
        }
        Err(Error::Check(format!("`{}` has ended; {}", self.name, self.said())))
    }

    /// Whether the program is still running.
    ///
    /// # Errors
    /// If the system does not report the state of the process.
    pub fn is_running(&mut self) -> Result<bool> {
        Ok(self.child.try_wait().map_err(Error::io(&*self.name))?.is_none())
    }

    /// Waits for the end of the program, whether it succeeds or fails; returns all that it has written.
    ///
    /// # Errors
    /// If the program does not end in time.
    pub fn ended(mut self) -> Result<String> {
        let deadline = Instant::now() + COMMAND_PATIENCE;
        while self.line(deadline)?.is_some() {}
        Ok(format!("{}{}", self.output, self.messages))
    }

    /// Waits for the end of the program; returns what it has written to standard output.
    ///
    /// # Errors
    /// If the program fails, or does not end in time.
    pub fn finish(mut self) -> Result<String> {
        let deadline = Instant::now() + COMMAND_PATIENCE;
        while self.line(deadline)?.is_some() {}
        let status = self.child.wait().map_err(Error::io(&*self.name))?;
        if status.success() {
            return Ok(self.output);
        }
        Err(Error::Check(format!("`{}` failed with {status}; {}", self.name, self.said())))
    }

    /// Waits for the next line that the program prints on either stream; `None` if it has ended.
    fn line(&mut self, deadline: Instant) -> Result<Option<String>> {
        match self.lines.recv_timeout(deadline.saturating_duration_since(Instant::now())) {
            Ok((stream, line)) => {
                let all = if stream == Stream::Output { &mut self.output } else { &mut self.messages };
                all.push_str(&line);
                Ok(Some(line))
            }
            Err(RecvTimeoutError::Disconnected) => Ok(None),
            Err(RecvTimeoutError::Timeout) => Err(Error::Timeout {
                what: format!("the end of `{}`", self.name),
                after: COMMAND_PATIENCE,
                detail: format!("; {}", self.said()),
            }),
        }
    }

    fn said(&self) -> String {
        format!("it has printed:\n{}{}", self.output, self.messages)
    }
}

/// Finds the command `rnic` in the directory of the running program, or in the parent of that directory.
pub(crate) fn rnic() -> Result<PathBuf> {
    let here = std::env::current_exe().map_err(Error::io("this program"))?;
    // Test programs are one directory deeper than commands.
    let found = here.ancestors().skip(1).take(2).map(|directory| directory.join("rnic")).find(|path| path.is_file());
    let directory = here.parent().unwrap_or(Path::new("."));
    found.ok_or_else(|| {
        Error::Check(format!("there is no rnic in {}; `cargo build -p rnic-cli` makes it", directory.display()))
    })
}

fn unavailable(error: NetnsError) -> Error {
    match error {
        NetnsError::Privilege(_) | NetnsError::NoIp(_) => Error::Unavailable(error.to_string()),
        error => Error::Check(error.to_string()),
    }
}

/// Creates a TAP device in the network namespace of the calling thread. The device exists as long as the file is open.
fn tap() -> io::Result<File> {
    /// `struct ifreq` as the ioctl TUNSETIFF takes it: name and flags, padded to the size of the structure.
    #[repr(C)]
    struct Request {
        name: [u8; 16],
        flags: i16,
        rest: [u8; 22],
    }
    const IFF_TAP: i16 = 0x0002;
    const IFF_NO_PI: i16 = 0x1000;
    /// `_IOW('T', 202, int)`.
    const TUNSETIFF: rustix::ioctl::Opcode = opcode::write::<i32>(b'T', 202);

    let file = OpenOptions::new()
        .read(true)
        .write(true)
        .custom_flags(rustix::fs::OFlags::NONBLOCK.bits() as i32)
        .open("/dev/net/tun")?;
    let mut name = [0; 16];
    name[..DEVICE.len()].copy_from_slice(DEVICE.as_bytes());
    let request = Request { name, flags: IFF_TAP | IFF_NO_PI, rest: [0; 22] };
    // SAFETY: TUNSETIFF of a tun file reads a struct ifreq of 40 bytes, and writes the name into it.
    unsafe {
        let setter = Setter::<TUNSETIFF, Request>::new(request);
        ioctl(&file, setter)?;
    }
    Ok(file)
}

impl Frames for Tap {
    fn send(&self, frame: &[u8]) -> io::Result<()> {
        // If the device is not up yet, the kernel drops the frame.
        (&self.file).write(frame).map(|_| ())
    }

    fn receive(&self, timeout: Duration) -> io::Result<Option<Vec<u8>>> {
        if self.closed.load(Ordering::Relaxed) {
            return Err(io::ErrorKind::UnexpectedEof.into());
        }
        let timeout = Timespec::try_from(timeout.min(LOOK)).map_err(|_| io::ErrorKind::InvalidInput)?;
        match poll(&mut [PollFd::new(&self.file, PollFlags::IN)], Some(&timeout)) {
            Ok(0) | Err(Errno::INTR) => return Ok(None),
            Ok(_) => {}
            Err(error) => return Err(error.into()),
        }
        let mut frame = vec![0; LONGEST];
        match (&self.file).read(&mut frame) {
            Ok(length) => {
                frame.truncate(length);
                Ok(Some(frame))
            }
            Err(error) if matches!(error.kind(), io::ErrorKind::WouldBlock | io::ErrorKind::Interrupted) => Ok(None),
            Err(error) => Err(error),
        }
    }

    fn shut_down(&self) {
        self.closed.store(true, Ordering::Relaxed);
    }
}
