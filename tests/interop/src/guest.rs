//! A guest: one running virtual machine that boots, runs commands for a case, and ends.

use crate::error::{Error, Result};
use crate::host::Host;
use crate::image::GuestImage;
use crate::link::LinkEnd;
use crate::payload::{self, GuestFile};
use rustix::event::{PollFd, PollFlags, Timespec, poll};
use rustix::process::{Signal, set_parent_process_death_signal};
use std::collections::BTreeMap;
use std::fmt::Write as _;
use std::fs::File;
use std::io::{ErrorKind, Read, Write};
use std::net::{IpAddr, Ipv4Addr, SocketAddrV4, TcpListener, TcpStream};
use std::os::fd::OwnedFd;
use std::os::unix::net::UnixStream;
use std::os::unix::process::CommandExt;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};

/// Name of the emulator's program.
pub const QEMU: &str = "qemu-system-x86_64";

/// Address at which a guest reaches the loopback interface of this machine, through the guest's second Ethernet port.
pub const HOST_SEEN_BY_GUEST: Ipv4Addr = Ipv4Addr::new(10, 0, 2, 2);

/// Opens a TCP listener on this machine, which a guest reaches at [`HOST_SEEN_BY_GUEST`]. Returns the listener and its
/// TCP port.
///
/// # Errors
/// If the system cannot open a listener.
pub fn listener() -> Result<(TcpListener, u16)> {
    let listener = TcpListener::bind((Ipv4Addr::LOCALHOST, 0)).map_err(Error::io("the exchange"))?;
    let port = listener.local_addr().map_err(Error::io("the exchange"))?.port();
    Ok((listener, port))
}

/// The TCP port on which the RDMA programs do their out-of-band exchange.
pub const OUT_OF_BAND_PORT: u16 = 18_515;

/// Timeout for the boot of a guest. It takes about four seconds on an idle machine, and far longer on a busy one.
const BOOT_PATIENCE: Duration = Duration::from_secs(120);

/// Timeout of a command in a guest, unless the case sets another one.
pub const COMMAND_PATIENCE: Duration = Duration::from_secs(60);

/// The configuration of a guest.
#[derive(Clone, Debug)]
pub struct GuestOptions {
    /// Number of the guest, from 1, which determines its addresses. Guest N has the name `guestN`.
    pub number: u8,
    /// MTU of the guest's Ethernet port in bytes. It determines rxe's path MTU: 1024 for an MTU of 1500, and 4096 for
    /// an MTU of 9000.
    pub mtu: u32,
    /// Whether the guest has a second Ethernet port for TCP connections to and from this machine.
    pub out_of_band: bool,
    /// Files that the guest has in addition to the files of its image.
    pub files: Vec<GuestFile>,
    /// Memory of the guest in MB. During the boot, the archive of the guest's files and the unpacked files are both in
    /// memory.
    pub memory: u32,
}

impl Default for GuestOptions {
    fn default() -> GuestOptions {
        GuestOptions { number: 1, mtu: 1500, out_of_band: true, files: Vec::new(), memory: 384 }
    }
}

/// A command that runs in a guest.
#[must_use = "a command for which no test waits may end after the case"]
#[derive(Clone, Debug)]
pub struct Job {
    id: u64,
    command: String,
}

/// The result of a command: its exit code and its output.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Outcome {
    /// The exit code as a shell gives it: 128 plus the signal's number for a killed program.
    pub code: i32,
    /// The command's standard output and standard error.
    pub output: String,
}

/// A virtual machine that runs until it is dropped.
///
/// qemu also ends when the thread that started it ends, so that a killed test leaves no virtual machine behind. So a
/// `Guest` must not outlive the thread that started it.
#[derive(Debug)]
pub struct Guest {
    name: String,
    host: Host,
    qemu: Child,
    control: UnixStream,
    received: Vec<u8>,
    next_job: u64,
    answers: BTreeMap<u64, Outcome>,
    directory: PathBuf,
    forwarded: Option<SocketAddrV4>,
}

impl Guest {
    /// Starts a guest; [`Guest::await_boot`] waits until it has booted. The console, the messages of qemu and a capture
    /// of the link are written to the files `guestN.console`, `guestN.qemu` and `guestN.pcap` in `directory`.
    ///
    /// # Errors
    /// If qemu cannot be started or files cannot be written.
    pub fn start(image: &GuestImage, options: &GuestOptions, link: LinkEnd, directory: &Path) -> Result<Guest> {
        let name = format!("guest{}", options.number);
        let host = Host::guest(options.number);
        let file = |suffix: &str| directory.join(format!("{name}.{suffix}"));
        let (control, control_of_qemu) = UnixStream::pair().map_err(Error::io("the guest's control channel"))?;
        let messages = File::create(file("qemu")).map_err(Error::file(&file("qemu")))?;
        let forwarded = if options.out_of_band { Some(free_port()?) } else { None };

        let mut initramfs = image.initramfs();
        if !options.files.is_empty() {
            payload::append(&image.initramfs(), &options.files, &file("initramfs"))?;
            initramfs = file("initramfs");
        }
        let memory = options.memory.to_string();

        let mut command = Command::new(QEMU);
        command
            .args(["-accel", "tcg", "-cpu", "max", "-smp", "1", "-m", &memory])
            .args(["-nodefaults", "-no-user-config", "-display", "none", "-no-reboot"])
            .arg("-kernel")
            .arg(image.kernel())
            .arg("-initrd")
            .arg(initramfs)
            .args(["-append", &kernel_command_line(&name, host, options)])
            .args(["-serial", &format!("file:{}", escaped(&file("console")))])
            // qemu gets two sockets without names: its standard output is the control channel, and its standard input
            // is the link.
            .args(["-chardev", "socket,id=control,fd=1", "-device", "virtio-serial-pci"])
            .args(["-device", "virtserialport,chardev=control"])
            .args(["-netdev", "dgram,id=link,local.type=fd,local.str=0"])
            .args(["-device", &format!("virtio-net-pci,netdev=link,romfile=,mac={}", mac_text(host.mac()))])
            .args(["-object", &format!("filter-dump,id=capture,netdev=link,file={}", escaped(&file("pcap")))]);
        if let Some(address) = forwarded {
            let forward = format!("hostfwd=tcp:{}:{}-10.0.2.15:{OUT_OF_BAND_PORT}", address.ip(), address.port());
            command.args(["-netdev", &format!("user,id=oob,ipv6=off,{forward}")]);
            let mac = mac_text(host.out_of_band_mac());
            command.args(["-device", &format!("virtio-net-pci,netdev=oob,romfile=,mac={mac}")]);
        }
        command.stdin(Stdio::from(link.into_fd())).stdout(Stdio::from(OwnedFd::from(control_of_qemu))).stderr(messages);
        // SAFETY: between fork and exec only a system call is made, which is safe there and allocates no memory.
        unsafe {
            command.pre_exec(|| Ok(set_parent_process_death_signal(Some(Signal::KILL))?));
        }
        let qemu = command.spawn().map_err(Error::io(QEMU))?;
        // The command still holds qemu's ends of the sockets. They are closed here, so that the channel ends when qemu
        // ends.
        drop(command);
        Ok(Guest {
            name,
            host,
            qemu,
            control,
            received: Vec::new(),
            next_job: 0,
            answers: BTreeMap::new(),
            directory: directory.to_owned(),
            forwarded,
        })
    }

    /// Waits until the guest accepts commands. Its rxe device is then up.
    ///
    /// # Errors
    /// If the guest ends or is not ready within two minutes.
    pub fn await_boot(&mut self) -> Result<()> {
        let line = self.read_line(Instant::now() + BOOT_PATIENCE)?.ok_or_else(|| Error::Timeout {
            what: format!("the boot of {}", self.name),
            after: BOOT_PATIENCE,
            detail: format!(":\n{}", self.console_end(20)),
        })?;
        if line.starts_with("ready ") { Ok(()) } else { Err(self.nonsense(&line)) }
    }

    /// Name of the guest, `guestN`.
    pub fn name(&self) -> &str {
        &self.name
    }

    /// The guest's addresses on the link.
    pub fn host(&self) -> Host {
        self.host
    }

    /// The address on this machine that qemu forwards to the guest's TCP port [`OUT_OF_BAND_PORT`].
    ///
    /// # Panics
    /// If the guest was started without a second port.
    pub fn out_of_band(&self) -> SocketAddrV4 {
        self.forwarded.expect("the guest was started without a second port")
    }

    /// Path of the capture of the guest's end of the link, a pcap file. It is complete up to the last frame sent.
    pub fn capture(&self) -> PathBuf {
        self.directory.join(format!("{}.pcap", self.name))
    }

    /// Runs a shell command and waits for its end; returns its output.
    ///
    /// # Errors
    /// If it fails, takes longer than [`COMMAND_PATIENCE`], or the guest ends.
    pub fn run(&mut self, command: &str) -> Result<String> {
        let job = self.spawn(command)?;
        self.finish(job, COMMAND_PATIENCE)
    }

    /// Makes the guest resolve the Ethernet address of a host on the link, by a ping. Otherwise a queue pair that moves
    /// to RTR has to resolve its peer's address first. On a busy machine this may fail even though the response to the
    /// neighbour solicitation has just arrived.
    ///
    /// # Errors
    /// If the guest ends.
    pub fn meet(&mut self, address: IpAddr) -> Result<()> {
        // The ping itself may fail; only the address resolution matters.
        self.run(&format!("ping -c 1 -W 1 {address} >/dev/null 2>&1; true")).map(drop)
    }

    /// Waits until a ping to `address` succeeds. A guest that has just booted has IPv6 addresses that it may not use
    /// yet, and a transition of a queue pair to RTR fails in that time.
    ///
    /// # Errors
    /// If the guest ends, or no ping succeeds within 25 attempts.
    pub fn reach(&mut self, address: IpAddr) -> Result<()> {
        let tries = format!(
            "for i in $(seq 25); do ping -c 1 -W 1 {address} >/dev/null 2>&1 && exit; usleep 200000; done; exit 1"
        );
        self.run(&tries).map(drop)
    }

    /// Starts a shell command of one line, without waiting for its end.
    ///
    /// # Errors
    /// If the guest has ended.
    ///
    /// # Panics
    /// If the command has more than one line.
    pub fn spawn(&mut self, command: &str) -> Result<Job> {
        assert!(!command.contains('\n'), "a command is one line");
        let id = self.next_job;
        self.next_job += 1;
        let request = format!("{id} {command}\n");
        self.control.write_all(request.as_bytes()).map_err(|_| self.ended())?;
        Ok(Job { id, command: command.to_owned() })
    }

    /// Waits for the end of a command that must succeed; returns its output.
    ///
    /// # Errors
    /// If it ends with another code than 0, does not end in time, or the guest ends.
    pub fn finish(&mut self, job: Job, patience: Duration) -> Result<String> {
        let command = job.command.clone();
        let Outcome { code, output } = self.outcome(job, patience)?;
        if code == 0 { Ok(output) } else { Err(Error::Command { guest: self.name.clone(), command, code, output }) }
    }

    /// Waits for the end of a command; returns its exit code and output.
    ///
    /// # Errors
    /// If the command does not end in time, or the guest ends. The error of a command that takes too long contains its
    /// output so far.
    pub fn outcome(&mut self, job: Job, patience: Duration) -> Result<Outcome> {
        if let Some(outcome) = self.answer(job.id, patience)? {
            return Ok(outcome);
        }
        Err(self.too_late(&job, "the end", patience)?)
    }

    /// Sends a signal, TERM or KILL, to a command and to the programs that it has started; returns how the command
    /// ended. Commands ignore INT.
    ///
    /// # Errors
    /// As [`Guest::outcome`].
    pub fn kill(&mut self, job: Job, signal: &str) -> Result<Outcome> {
        // The shell must get the signal first. Otherwise it would continue with the next program of the command.
        self.run(&format!(
            "until pid=$(cat /run/jobs/{0}.pid); do usleep 10000; done; children=$(pgrep -P $pid); kill -{signal} $pid $children; true",
            job.id
        ))?;
        self.outcome(job, COMMAND_PATIENCE)
    }

    /// Sends a signal, STOP or CONT, to a command that has replaced its shell (`exec`).
    ///
    /// # Errors
    /// As [`Guest::run`].
    pub fn signal(&mut self, job: &Job, signal: &str) -> Result<()> {
        self.run(&format!("kill -{signal} $(cat /run/jobs/{}.pid)", job.id)).map(drop)
    }

    /// Waits until a command listens on a TCP port.
    ///
    /// # Errors
    /// If the command ends instead, or does not listen within a minute.
    pub fn await_listener(&mut self, job: &Job, port: u16) -> Result<()> {
        let wait = self.spawn(&format!("await-listen {port} {}", job.id))?;
        let Outcome { code, output } = self.outcome(wait, COMMAND_PATIENCE * 2)?;
        let (guest, command) = (self.name.clone(), job.command.clone());
        if code == 0 { Ok(()) } else { Err(Error::Command { guest, command, code, output }) }
    }

    /// Waits until a command listens with `rdma_cm`, which is visible in the kernel's list of identifiers.
    ///
    /// # Errors
    /// If no command listens within about half a minute.
    pub fn await_rdma_listener(&mut self) -> Result<()> {
        self.run(
            "for i in $(seq 150); do rdma resource show cm_id | grep -q 'state LISTEN' && exit; usleep 200000; done; \
             echo nobody listens by rdma_cm; exit 1",
        )
        .map(drop)
    }

    /// Accepts the TCP connection that a command in the guest makes to `listener`.
    ///
    /// # Errors
    /// If no connection comes in time. The error contains the output of the command so far.
    pub fn accept(&mut self, listener: &TcpListener, job: &Job) -> Result<TcpStream> {
        let patience = Timespec { tv_sec: COMMAND_PATIENCE.as_secs() as i64, tv_nsec: 0 };
        let came = poll(&mut [PollFd::new(listener, PollFlags::IN)], Some(&patience));
        if came.map_err(|error| Error::io("the exchange")(error.into()))? == 0 {
            return Err(self.too_late(job, "a connection", COMMAND_PATIENCE)?);
        }
        let (stream, _) = listener.accept().map_err(Error::io("the exchange"))?;
        stream.set_read_timeout(Some(COMMAND_PATIENCE)).map_err(Error::io("the exchange"))?;
        Ok(stream)
    }

    /// Opens a TCP connection to the command that listens on the guest's port [`OUT_OF_BAND_PORT`].
    ///
    /// # Errors
    /// If the connection cannot be opened.
    ///
    /// # Panics
    /// As [`Guest::out_of_band`].
    pub fn connect(&self) -> Result<TcpStream> {
        let stream = TcpStream::connect_timeout(&self.out_of_band().into(), COMMAND_PATIENCE);
        let stream = stream.map_err(Error::io("the exchange"))?;
        stream.set_read_timeout(Some(COMMAND_PATIENCE)).map_err(Error::io("the exchange"))?;
        Ok(stream)
    }

    /// Returns the error for an event `what` of a command that did not happen in time, with the output of the command
    /// so far.
    fn too_late(&mut self, job: &Job, what: &str, after: Duration) -> Result<Error> {
        let look = self.spawn(&format!("cat /run/jobs/{}.out", job.id))?;
        let output =
            self.answer(look.id, COMMAND_PATIENCE)?.map_or("nothing: the guest is stuck".to_owned(), |o| o.output);
        let what = format!("{what} of `{}` in {}", job.command, self.name);
        Ok(Error::Timeout { what, after, detail: format!("; it has printed:\n{output}") })
    }

    /// Returns the lines of the guest's console that report an error of the kernel, such as a panic or a warning.
    pub fn kernel_complaints(&self) -> Vec<String> {
        const SIGNS: [&str; 6] = ["Kernel panic", "BUG:", "WARNING:", "Oops", "general protection", "rcu: INFO"];
        let console = self.console();
        console.lines().filter(|line| SIGNS.iter().any(|sign| line.contains(sign))).map(str::to_owned).collect()
    }

    fn console(&self) -> String {
        let file = self.directory.join(format!("{}.console", self.name));
        std::fs::read(file).map(|bytes| String::from_utf8_lossy(&bytes).replace('\r', "")).unwrap_or_default()
    }

    /// Returns the last `lines` lines of the console.
    fn console_end(&self, lines: usize) -> String {
        let console = self.console();
        let all: Vec<&str> = console.lines().collect();
        all[all.len().saturating_sub(lines)..].join("\n")
    }

    /// Waits for the agent's response to request `id`; returns `None` if it does not come in time.
    fn answer(&mut self, id: u64, patience: Duration) -> Result<Option<Outcome>> {
        let deadline = Instant::now() + patience;
        loop {
            if let Some(outcome) = self.answers.remove(&id) {
                return Ok(Some(outcome));
            }
            let Some(line) = self.read_line(deadline)? else { return Ok(None) };
            let numbers: Vec<i64> = line.split(' ').filter_map(|word| word.parse().ok()).collect();
            let &[id, code, length] = &numbers[..] else { return Err(self.nonsense(&line)) };
            // The output follows immediately after this line.
            let bytes = self.read_bytes(length as usize, Instant::now() + COMMAND_PATIENCE)?;
            let output = String::from_utf8_lossy(&bytes).into_owned();
            self.answers.insert(id as u64, Outcome { code: code as i32, output });
        }
    }

    fn read_line(&mut self, deadline: Instant) -> Result<Option<String>> {
        loop {
            if let Some(end) = self.received.iter().position(|&byte| byte == b'\n') {
                let line = self.received.drain(..=end).collect::<Vec<u8>>();
                return Ok(Some(String::from_utf8_lossy(&line[..end]).into_owned()));
            }
            if !self.read_some(deadline)? {
                return Ok(None);
            }
        }
    }

    fn read_bytes(&mut self, count: usize, deadline: Instant) -> Result<Vec<u8>> {
        while self.received.len() < count {
            if !self.read_some(deadline)? {
                return Err(self.nonsense("half an answer"));
            }
        }
        Ok(self.received.drain(..count).collect())
    }

    /// Reads the available bytes of the control channel; returns `false` if none arrive before the deadline.
    fn read_some(&mut self, deadline: Instant) -> Result<bool> {
        let left = deadline.saturating_duration_since(Instant::now());
        if left.is_zero() {
            return Ok(false);
        }
        self.control.set_read_timeout(Some(left)).map_err(Error::io("the guest's control channel"))?;
        let mut buffer = [0; 4096];
        match self.control.read(&mut buffer) {
            Ok(0) => Err(self.ended()),
            Ok(length) => {
                self.received.extend(&buffer[..length]);
                Ok(true)
            }
            Err(error) if matches!(error.kind(), ErrorKind::WouldBlock | ErrorKind::TimedOut) => Ok(false),
            Err(error) if error.kind() == ErrorKind::Interrupted => Ok(true),
            Err(_) => Err(self.ended()),
        }
    }

    fn nonsense(&self, line: &str) -> Error {
        Error::Check(format!("guest {}: the agent said `{line}`", self.name))
    }

    /// Returns the error for a guest that has ended, with the reason from its console and qemu's messages.
    fn ended(&mut self) -> Error {
        // qemu closes the control channel before its files, so wait for its end before reading them.
        let status = self.qemu.wait().map_or_else(|error| error.to_string(), |status| status.to_string());
        let console = self.console();
        let lines: Vec<&str> = console.lines().collect();
        // The first sign of trouble is the cause: an oops comes some lines before the panic that it leads to.
        let sign = |line: &&str| {
            ["BUG:", "Oops", "general protection", "Kernel panic", "init:"].iter().any(|s| line.contains(s))
        };
        let mut reason = match lines.iter().position(sign) {
            Some(at) => format!("its kernel says:\n{}", lines[at..lines.len().min(at + 40)].join("\n")),
            None => format!("qemu has ended ({status})"),
        };
        let messages = std::fs::read_to_string(self.directory.join(format!("{}.qemu", self.name))).unwrap_or_default();
        if !messages.trim().is_empty() {
            let _ = write!(reason, "\nqemu says: {}", messages.trim());
        }
        Error::GuestEnded { guest: self.name.clone(), reason }
    }
}

impl Drop for Guest {
    fn drop(&mut self) {
        // An error means that qemu has already ended.
        let _ = self.qemu.kill();
        let _ = self.qemu.wait();
    }
}

/// Builds the kernel's command line: the console, the options that end the guest at the first error, and the settings
/// that the guest's `init` reads.
fn kernel_command_line(name: &str, host: Host, options: &GuestOptions) -> String {
    [
        "console=ttyS0 loglevel=5 panic=-1 oops=panic mitigations=off nokaslr random.trust_cpu=on".to_owned(),
        // A busy machine may stop the guest for a while. The guest's kernel must not report that as broken timers or as
        // a stall.
        "no_timer_check tsc=reliable nowatchdog rcupdate.rcu_cpu_stall_suppress=1".to_owned(),
        format!("rnic.name={name}"),
        format!("rnic.number={}", options.number),
        format!("rnic.roce_mac={}", mac_text(host.mac())),
        format!("rnic.oob_mac={}", mac_text(host.out_of_band_mac())),
        format!("rnic.mtu={}", options.mtu),
        format!("rnic.ip4={}/24", host.ipv4()),
        format!("rnic.ip6={}/64", host.ipv6()),
    ]
    .join(" ")
}

fn mac_text(mac: [u8; 6]) -> String {
    mac.map(|byte| format!("{byte:02x}")).join(":")
}

/// Escapes a path for qemu's options: commas are doubled.
fn escaped(path: &Path) -> String {
    path.display().to_string().replace(',', ",,")
}

/// Finds a free TCP port of this machine. Another program could take the port before qemu does.
fn free_port() -> Result<SocketAddrV4> {
    let listener = TcpListener::bind((Ipv4Addr::LOCALHOST, 0)).map_err(Error::io("a TCP port"))?;
    let port = listener.local_addr().map_err(Error::io("a TCP port"))?.port();
    Ok(SocketAddrV4::new(Ipv4Addr::LOCALHOST, port))
}
