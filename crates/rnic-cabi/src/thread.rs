//! Threads of the libraries in a program that does not know them.

use nix::sys::signal::{SigSet, SigmaskHow, Signal};
use std::io;
use std::thread::JoinHandle;

/// Signals that an instruction of a thread causes in the same thread. The library's threads do not block them: the
/// program's handlers handle them, as in the program's own threads. The system ends a process that has blocked such a
/// signal.
const OWN: [Signal; 5] = [Signal::SIGSEGV, Signal::SIGBUS, Signal::SIGFPE, Signal::SIGILL, Signal::SIGTRAP];

/// Starts a thread of this name that receives none of the signals sent to the process.
///
/// A program may block a signal in all threads that it knows, and read it from a descriptor or by `sigwait`: tgt does
/// so after it has opened its devices. The system delivers a signal to any thread that has not blocked it, so a thread
/// of the library would end this program.
///
/// # Errors
/// The system has no more threads.
pub fn spawn(name: &str, run: impl FnOnce() + Send + 'static) -> io::Result<JoinHandle<()>> {
    let mut blocked = SigSet::all();
    for signal in OWN {
        blocked.remove(signal);
    }
    // A new thread inherits the signal mask of the thread that starts it.
    let before = blocked.thread_swap_mask(SigmaskHow::SIG_SETMASK)?;
    let thread = std::thread::Builder::new().name(name.to_string()).spawn(run);
    before.thread_set_mask()?;
    thread
}
