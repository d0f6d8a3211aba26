//! The trace of the verbs that a program calls (`RNIC_TRACE`), line by line.

use crate::environment::{Environment, TraceTo};
use crate::report;
use rnic_cabi::entry::lock;
use std::fmt::Arguments;
use std::fs::{File, OpenOptions};
use std::io::Write;
use std::sync::{Mutex, Once, OnceLock};

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
                    report::once(&format!("RNIC_TRACE: cannot write {}: {error}", path.display()));
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
    match &mut *lock(target) {
        Some(file) => {
            if let Err(error) = file.write_all(line.as_bytes()) {
                report(&error);
            }
        }
        None => drop(std::io::stderr().write_all(line.as_bytes())),
    }
}

/// Reports once that lines are missing from the trace.
fn report(error: &std::io::Error) {
    static REPORTED: Once = Once::new();
    if let Ok(Environment { trace: TraceTo::File(path), .. }) = Environment::get() {
        let path = path.display();
        REPORTED
            .call_once(|| eprintln!("rnic: RNIC_TRACE: cannot write {path}: {error}; lines are missing from here on"));
    }
}
