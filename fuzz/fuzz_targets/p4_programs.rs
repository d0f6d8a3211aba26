//! Compiles mutated P4 programs: the compiler accepts a program or reports errors, and an accepted program runs.
#![no_main]

use libfuzzer_sys::fuzz_target;
use rnic_torture::{fuzz::p4, network::Dice};

fuzz_target!(|bytes: &[u8]| {
    if let Err(what) = p4::run(Dice::of(bytes.to_vec()), u64::MAX) {
        panic!("{what}");
    }
});
