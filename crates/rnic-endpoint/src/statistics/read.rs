//! The side of a process that reads the reports of others. Other processes may write anything.

#![expect(clippy::disallowed_methods, reason = "other processes have a limited time to answer")]

use super::{MAX_NAME, MAX_PROCESSES, MAX_REPORT, Report, prefix};
use crate::port::shared_address::{owners, socket};
use nix::errno::Errno;
use nix::poll::{PollFd, PollFlags, PollTimeout, poll};
use nix::unistd::Uid;
use rnic_untrusted::text::brief;
use std::collections::BTreeSet;
use std::io;
use std::os::fd::{AsFd, OwnedFd};
use std::time::{Duration, Instant};

/// Maximum number of processes that are counted and not read.
const MAX_COUNTED: usize = 10_000;

/// The report of a process.
#[derive(Clone, PartialEq, Debug)]
pub struct Process {
    /// Identity of the process's socket, which no other process has: process IDs are used again.
    pub id: String,
    /// The process ID; `None` if the process is in a PID namespace that this one does not see.
    pub pid: Option<u32>,
    /// ID of the process's user.
    pub user: u32,
    /// The report. Its text is short and escaped for a terminal.
    pub report: Report,
}

/// A process that has not sent a report that can be read.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Silent {
    /// The process ID, as in [`Process`].
    pub pid: Option<u32>,
    /// Why the process has no report.
    pub why: Silence,
}

/// Why a process has no report.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Silence {
    /// The process did not answer in time: it is stopped, or is a child that `fork` has made.
    NoAnswer,
    /// The report is longer than [`MAX_REPORT`].
    TooLong,
    /// The report cannot be read.
    Invalid,
}

impl Silence {
    /// The reason as a text.
    pub const fn text(self) -> &'static str {
        match self {
            Silence::NoAnswer => "does not answer",
            Silence::TooLong => "has sent a report that is too long",
            Silence::Invalid => "has sent a report that cannot be read",
        }
    }
}

/// The processes that publish statistics.
#[derive(Clone, PartialEq, Debug, Default)]
pub struct Processes {
    /// Those with a report, in order of process IDs.
    pub found: Vec<Process>,
    /// Those without a report.
    pub silent: Vec<Silent>,
    /// Number of processes of other users, which this user may not read.
    pub of_others: usize,
    /// Number of processes that were left out because there are more than [`MAX_PROCESSES`].
    pub omitted: usize,
}

/// A process that has not sent its whole report.
struct Pending {
    id: String,
    pid: Option<u32>,
    user: u32,
    socket: OwnedFd,
    bytes: Vec<u8>,
}

/// Reads the reports of all processes of this network namespace that publish statistics and belong to this user; root
/// reads those of all users. Processes that have not sent their reports within `timeout` are silent.
///
/// # Errors
/// The kernel does not list Unix sockets.
pub fn processes(timeout: Duration) -> io::Result<Processes> {
    let end = Instant::now() + timeout;
    let mut all = Processes::default();
    let mut pending = connect(&mut all)?;
    let mut buffer = vec![0; 1 << 16];
    while !pending.is_empty() {
        let left = end.saturating_duration_since(Instant::now());
        if left.is_zero() {
            break;
        }
        let mut fds: Vec<_> = pending.iter().map(|one| PollFd::new(one.socket.as_fd(), PollFlags::POLLIN)).collect();
        match poll(&mut fds, PollTimeout::try_from(left).unwrap_or(PollTimeout::ZERO)) {
            Ok(_) | Err(Errno::EINTR) => {}
            Err(error) => return Err(error.into()),
        }
        let ready: Vec<bool> = fds.iter().map(|fd| fd.any().unwrap_or(false)).collect();
        let mut ready = ready.into_iter();
        pending = pending
            .into_iter()
            .filter_map(|one| if ready.next() == Some(true) { receive(one, &mut buffer, &mut all) } else { Some(one) })
            .collect();
    }
    all.silent.extend(pending.into_iter().map(|one| Silent { pid: one.pid, why: Silence::NoAnswer }));
    all.found.sort_by(|a, b| (a.pid, &a.id).cmp(&(b.pid, &b.id)));
    all.silent.sort_by_key(|one| one.pid);
    Ok(all)
}

/// Connects to the processes that publish statistics.
fn connect(all: &mut Processes) -> io::Result<Vec<Pending>> {
    let own = nix::unistd::geteuid();
    let may_read = |user: u32| own.is_root() || Uid::from_raw(user) == own;
    let prefix = format!("\0{}/", prefix());
    // A socket that a process has accepted has the same name.
    let (mut names, mut omitted, mut of_others) = (BTreeSet::new(), BTreeSet::new(), BTreeSet::new());
    owners::each_socket(|name, user| {
        let Some(id) = name.strip_prefix(prefix.as_bytes()) else { return };
        let id = String::from_utf8_lossy(id).into_owned();
        let (set, max) = match user.is_some_and(|user| !may_read(user)) {
            true => (&mut of_others, MAX_COUNTED),
            false if names.len() < MAX_PROCESSES || names.contains(&id) => (&mut names, MAX_PROCESSES),
            false => (&mut omitted, MAX_COUNTED),
        };
        if set.len() < max {
            set.insert(id);
        }
    })?;
    (all.of_others, all.omitted) = (of_others.len(), omitted.len());
    let mut pending = Vec::new();
    for id in names {
        let name = format!("{}{id}", &prefix[1..]);
        match socket::connect_to_any(&name) {
            // The kernel says who listens; before Linux 5.3 only here.
            Ok((_, user, _)) if !may_read(user) => all.of_others += 1,
            Ok((_, _, Some(pid))) if has_ended(pid) => {}
            Ok((socket, user, pid)) => pending.push(Pending { id, pid, user, socket, bytes: Vec::new() }),
            Err(Errno::EAGAIN) => all.silent.push(Silent { pid: None, why: Silence::NoAnswer }),
            // The process has ended.
            Err(_) => {}
        }
    }
    Ok(pending)
}

/// Whether a process has ended, while a child has a copy of its socket.
fn has_ended(pid: u32) -> bool {
    let signal = nix::sys::signal::kill(nix::unistd::Pid::from_raw(pid as i32), None);
    signal == Err(Errno::ESRCH)
}

/// Receives a piece of a report. Returns the process if its report is not complete.
fn receive(mut one: Pending, buffer: &mut [u8], all: &mut Processes) -> Option<Pending> {
    let why = match socket::receive(&one.socket, buffer) {
        Ok(0) => match read(&one.bytes) {
            Some(report) => {
                all.found.push(Process { id: one.id, pid: one.pid, user: one.user, report });
                return None;
            }
            None if one.bytes.is_empty() => return None,
            None => Silence::Invalid,
        },
        Ok(len) if one.bytes.len() + len > MAX_REPORT => Silence::TooLong,
        Ok(len) => {
            one.bytes.extend_from_slice(&buffer[..len]);
            return Some(one);
        }
        Err(Errno::EAGAIN) => return Some(one),
        Err(_) => return None,
    };
    all.silent.push(Silent { pid: one.pid, why });
    None
}

/// Reads a report, whose text is made short and escaped. `None` if it is not a report.
fn read(bytes: &[u8]) -> Option<Report> {
    let mut report: Report = serde_json::from_slice(bytes).ok()?;
    let tame = |text: &mut String| *text = brief(text, MAX_NAME).into_owned();
    tame(&mut report.program);
    for device in &mut report.devices {
        tame(&mut device.name);
        for qp in &mut device.queue_pairs {
            tame(&mut qp.service);
            tame(&mut qp.state);
        }
    }
    Some(report)
}
