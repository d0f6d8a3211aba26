//! Processes that end with the handle that their starter holds, or all together.

use nix::sys::signal::{Signal, kill, killpg};
use nix::unistd::Pid;
use parking_lot::{Mutex, MutexGuard};
use std::collections::BTreeMap;
use std::io;
use std::ops::{Deref, DerefMut};
use std::os::unix::process::CommandExt;
use std::process::{Child, Command};

/// The processes of all handles: whether each is the leader of a group of its own. `None` once all were killed.
static CHILDREN: Mutex<Option<BTreeMap<u32, bool>>> = Mutex::new(Some(BTreeMap::new()));

fn children() -> MutexGuard<'static, Option<BTreeMap<u32, bool>>> {
    CHILDREN.lock()
}

/// Kills the processes and groups of all [`KilledChild`]ren of this process. From then on no other one can be started.
/// It is for a program that a signal ends: `exit` drops no handles, and Ctrl-C does not reach process groups.
pub fn kill_children() {
    for (number, has_group) in children().take().into_iter().flatten() {
        end(number, has_group);
    }
}

/// Sends SIGKILL to a process, or to its group. It fails if the processes have ended already. No other group can have
/// the number of this one while one of its processes lives, and before `wait` this holds for the process itself. A
/// process that was waited for may have left others behind.
fn end(number: u32, has_group: bool) {
    let pid = Pid::from_raw(number as i32);
    if has_group {
        let _ = killpg(pid, Signal::SIGKILL);
    } else if is_child(number) {
        let _ = kill(pid, Signal::SIGKILL);
    }
}

/// Whether the process with this number is a child of this one: the number of a process that was waited for may be that
/// of another one.
fn is_child(number: u32) -> bool {
    // PID (NAME) STATE PARENT ...; the name may contain spaces and parentheses.
    let stat = std::fs::read_to_string(format!("/proc/{number}/stat")).unwrap_or_default();
    let parent = stat.rsplit(')').next().and_then(|rest| rest.split_whitespace().nth(1));
    parent.and_then(|parent| parent.parse().ok()) == Some(std::process::id())
}

/// The handle of a process, or of a process group. When the handle is dropped, it kills the process, or the group.
#[derive(Debug)]
pub struct KilledChild {
    child: Child,
    has_group: bool,
}

impl KilledChild {
    /// Starts a process, as the leader of a group of its own if `has_group`.
    pub(crate) fn start(command: &mut Command, has_group: bool) -> io::Result<KilledChild> {
        if has_group {
            command.process_group(0);
        }
        // Locked until the process is in the map, so that `kill_children` misses none.
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
        // Locked until they are killed, so that `kill_children` and an end of this process leave none of them.
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
