//! Child processes that are killed when their handle is dropped, or all together.

use nix::sys::signal::{Signal, kill, killpg};
use nix::unistd::Pid;
use parking_lot::{Mutex, MutexGuard};
use std::collections::BTreeMap;
use std::io;
use std::ops::{Deref, DerefMut};
use std::os::unix::process::CommandExt;
use std::process::{Child, Command};

/// All child processes that have a handle, by process ID; the value says whether the process leads its own process
/// group. `None` after [`kill_children`].
static CHILDREN: Mutex<Option<BTreeMap<u32, bool>>> = Mutex::new(Some(BTreeMap::new()));

fn children() -> MutexGuard<'static, Option<BTreeMap<u32, bool>>> {
    CHILDREN.lock()
}

/// Kills the processes and process groups of all [`KilledChild`]ren of this process. Afterwards, no further child can
/// be started. A program calls it when a signal ends it, because `exit` drops no handles and Ctrl-C does not reach
/// other process groups.
pub fn kill_children() {
    for (number, has_group) in children().take().into_iter().flatten() {
        end(number, has_group);
    }
}

/// Sends SIGKILL to a process, or to its process group. An error means that the processes have already ended. The ID of
/// a group is not reused while one of its processes lives, and the ID of a process is not reused before `wait`.
/// Therefore no other process is killed. After `wait` for the leader, other processes of the group may still run.
fn end(number: u32, has_group: bool) {
    let pid = Pid::from_raw(number as i32);
    if has_group {
        let _ = killpg(pid, Signal::SIGKILL);
    } else if is_child(number) {
        let _ = kill(pid, Signal::SIGKILL);
    }
}

/// Whether the process with this ID is a child of this process. After `wait`, the ID may belong to another process.
fn is_child(number: u32) -> bool {
    // PID (NAME) STATE PARENT ...; the name may contain spaces and parentheses.
    let stat = std::fs::read_to_string(format!("/proc/{number}/stat")).unwrap_or_default();
    let parent = stat.rsplit(')').next().and_then(|rest| rest.split_whitespace().nth(1));
    parent.and_then(|parent| parent.parse().ok()) == Some(std::process::id())
}

/// The handle of a process, or of a process group. Dropping the handle kills the process, or the group.
#[derive(Debug)]
pub struct KilledChild {
    child: Child,
    has_group: bool,
}

impl KilledChild {
    /// Starts a process. With `has_group`, the process leads its own process group.
    pub(crate) fn start(command: &mut Command, has_group: bool) -> io::Result<KilledChild> {
        if has_group {
            command.process_group(0);
        }
        // The lock is held until the process is in the map, so that `kill_children` misses no process.
        let mut children = children();
        let Some(children) = children.as_mut() else {
            return Err(io::Error::other("all processes were killed, and no other one is started"));
        };
        let child = command.spawn()?;
        children.insert(child.id(), has_group);
        Ok(KilledChild { child, has_group })
    }
}

impl Deref for KilledChild {
    type Target = Child;
    fn deref(&self) -> &Child {
        &self.child
    }
}

impl DerefMut for KilledChild {
    fn deref_mut(&mut self) -> &mut Child {
        &mut self.child
    }
}

impl Drop for KilledChild {
    fn drop(&mut self) {
        // The lock is held until the processes are killed, so that a concurrent `kill_children` before an exit misses
        // none of them.
        let mut children = children();
        if self.has_group {
            end(self.child.id(), true);
        }
        let _ = self.child.kill();
        if let Some(children) = children.as_mut() {
            children.remove(&self.child.id());
        }
        drop(children);
        let _ = self.child.wait();
    }
}
