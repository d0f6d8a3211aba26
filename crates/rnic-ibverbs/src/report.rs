//! Messages to the user, on standard error. A program may repeatedly call a function that fails, for example because it
//! looks for devices every second.

use rnic_cabi::entry::lock;
use std::collections::BTreeSet;
use std::sync::Mutex;

/// Maximum number of different messages of a process.
const MAX_MESSAGES: usize = 64;

/// Prints a message, unless this process has printed it before.
pub(crate) fn once(message: &str) {
    static PRINTED: Mutex<BTreeSet<String>> = Mutex::new(BTreeSet::new());
    let mut printed = lock(&PRINTED);
    if printed.len() < MAX_MESSAGES && printed.insert(message.to_string()) {
        eprintln!("rnic: {message}");
    }
}
