//! Programs that must open a device (`RNIC_REQUIRED`). A program that finds no device often uses TCP without a message,
//! and a test of its RDMA would pass.
//!
//! A process that opens a device writes to a file in memory, the *mark*, whose path is in the variable
//! `RNIC_REQUIRED_MARK`. `rnic verbs run` has the mark of the program that it starts, and of the program's descendants
//! ([`run`]). Without `rnic verbs run` the first process that loads the library makes the mark, and checks it when it
//! ends by `exit`; a script with programs that use RDMA meets the requirement, too.

use nix::sys::memfd::{MFdFlags, memfd_create};
use nix::sys::stat::fstat;
use rnic_cabi::entry::lock;
use std::ffi::{CString, OsString};
use std::fs::{self, OpenOptions};
use std::io::{self, Write};
use std::os::fd::{AsRawFd, OwnedFd};
use std::process::{Command, ExitStatus};
use std::sync::Mutex;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

/// A file in memory to which processes write that open a device.
struct Mark(OwnedFd);

impl Mark {
    fn create() -> nix::Result<Mark> {
        Ok(Mark(memfd_create(c"rnic-required", MFdFlags::MFD_CLOEXEC)?))
    }

    /// The path, which is valid as long as this process and the descriptor exist.
    fn path(&self) -> String {
        format!("/proc/{}/fd/{}", std::process::id(), self.0.as_raw_fd())
    }

    fn is_set(&self) -> bool {
        fstat(&self.0).is_ok_and(|about| about.st_size > 0)
    }
}

/// Runs a program until it ends. Returns its status, and whether the program or one of its descendants has opened a
/// device. The program gets SIGTERM when `terminate` returns true.
///
/// # Errors
/// The program cannot be started, or the system has no descriptors.
pub fn run(command: &mut Command, terminate: impl Fn() -> bool) -> io::Result<(ExitStatus, bool)> {
    /// Interval between two looks at the program.
    const INTERVAL: Duration = Duration::from_millis(5);
    let mark = Mark::create()?;
    let mut child = command.env(MARK_VARIABLE, mark.path()).spawn()?;
    let mut terminated = false;
    loop {
        if let Some(status) = child.try_wait()? {
            return Ok((status, mark.is_set()));
        }
        if !terminated && terminate() {
            terminated = true;
            // SAFETY: the child has not been waited for, so that no other process has its number.
            unsafe { libc::kill(child.id() as libc::pid_t, libc::SIGTERM) };
        }
        #[expect(clippy::disallowed_methods, reason = "a signal or the end of the program may come at any time")]
        std::thread::sleep(INTERVAL);
    }
}

/// Whether this process has opened a device.
static OPENED: AtomicBool = AtomicBool::new(false);

/// The mark of the first process, and the process ID.
static MARK: Mutex<Option<(Mark, u32)>> = Mutex::new(None);

/// Name of the variable with the path of the mark.
const MARK_VARIABLE: &str = "RNIC_REQUIRED_MARK";

#[expect(clippy::disallowed_methods, reason = "the environment is how users set up a library in a program")]
fn variable(name: &str) -> Option<OsString> {
    std::env::var_os(name)
}

/// Whether this process has opened a device.
pub(crate) fn has_opened() -> bool {
    OPENED.load(Ordering::Acquire)
}

/// Records that this process has opened a device.
pub(crate) fn note_device() {
    if OPENED.swap(true, Ordering::AcqRel) {
        return;
    }
    // Without a mark there is no requirement, or the process that has it has ended.
    if let Some(path) = variable(MARK_VARIABLE)
        && let Ok(mut mark) = OpenOptions::new().append(true).open(path)
    {
        let _ = mark.write_all(b"1");
    }
}

/// The process ID in the path of a mark, `/proc/PID/fd/NUMBER`.
fn owner(path: &OsString) -> Option<u32> {
    path.to_str()?.strip_prefix("/proc/")?.split('/').next()?.parse().ok()
}

/// Makes the mark if the environment requires a device and this is the first process. It may have executed another
/// program before, for example a shell, and then has lost the mark of that program. Called when the library is loaded.
pub(crate) fn begin() {
    if variable("RNIC_REQUIRED").is_none_or(|value| value != "1") {
        return;
    }
    let process = std::process::id();
    if variable(MARK_VARIABLE).is_some_and(|path| owner(&path).is_some_and(|owner| owner != process)) {
        return;
    }
    let Ok(mark) = Mark::create() else { return };
    if let (Ok(name), Ok(path)) = (CString::new(MARK_VARIABLE), CString::new(mark.path())) {
        // A program that loads the library later, by `dlopen`, may have threads that read the environment. Then only
        // devices of this process count.
        if fs::read_dir("/proc/self/task").is_ok_and(|threads| threads.count() == 1) {
            // SAFETY: both are C strings, and there is no other thread.
            unsafe { libc::setenv(name.as_ptr(), path.as_ptr(), 1) };
        }
        *lock(&MARK) = Some((mark, process));
    }
}

/// Whether the requirement of this process is not met: neither it nor a descendant has opened a device.
pub(crate) fn is_unmet() -> bool {
    let mark = lock(&MARK);
    match &*mark {
        // A child that was made by `fork` also has the mark.
        Some((mark, process)) if *process == std::process::id() => !has_opened() && !mark.is_set(),
        _ => false,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_owner_of_a_mark_is_in_its_path() {
        assert_eq!(owner(&"/proc/17/fd/3".into()), Some(17));
        for wrong in ["", "/proc/", "/proc/self/fd/3", "/tmp/17/fd/3"] {
            assert_eq!(owner(&wrong.into()), None, "{wrong}");
        }
    }
}
