//! Calls verbs in any order: nothing panics, and each work request completes at most once and in order.
#![no_main]

use libfuzzer_sys::fuzz_target;
use rnic_torture::{fuzz::verbs, network::Dice};

fuzz_target!(|bytes: &[u8]| {
    if let Err(what) = verbs::run(Dice::of(bytes.to_vec()), u64::MAX) {
        panic!("{what}");
    }
});
