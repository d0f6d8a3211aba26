//! Compiles arbitrary text as a P4 program: the compiler accepts it or reports errors, and an accepted program runs.
#![no_main]

use libfuzzer_sys::fuzz_target;
use rnic_torture::fuzz::p4;

fuzz_target!(|bytes: &[u8]| {
    if let Err(what) = p4::check(&String::from_utf8_lossy(bytes), bytes.len() as u64) {
        panic!("{what}");
    }
});
