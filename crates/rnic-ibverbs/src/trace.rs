//! The trace of the verbs that a program calls (`RNIC_TRACE`), line by line.

use crate::environment::{Environment, TraceTo};
use rnic_cabi::entry::lock;
use std::fmt::Arguments;
use std::fs::{File, OpenOptions};
use std::io::Write;
use std::sync::{Mutex, OnceLock};

/// Returns the target of the trace lines; `None` if no trace is written.
fn target() -> Option<&'static Mutex<Option<File>>> {
    static TARGET: OnceLock<Option<Mutex<Option<File>>>> = OnceLock::new();
    let open = || match &Environment::get().as_ref().ok()?.trace {
        TraceTo::Nowhere => None,
        TraceTo::Stderr => Some(Mutex::new(None)),
        TraceTo::File(path) => {
            let file = OpenOptions::new().create(true).append(true).open(path);
            match file {
                Ok(file) => Some(Mutex::new(Some(file))),
                Err(error) => {
                    eprintln!("rnic: RNIC_TRACE: cannot write {}: {error}", path.display());
                    None
                }
            }
        }
    };
    TARGET.get_or_init(open).as_ref()
}

/// Whether lines are written.
pub(crate) fn is_on() -> bool {
    target().is_some()
}

/// Writes a line, if the program is traced.
pub(crate) fn line(text: Arguments<'_>) {
    let Some(target) = target() else { return };
    let line = format!("rnic[{}] {text}\n", std::process::id());
    // A trace that cannot be written must not stop the program.
    let _ = match &mut *lock(target) {
        Some(file) => file.write_all(line.as_bytes()),
        None => std::io::stderr().write_all(line.as_bytes()),
    };
}
