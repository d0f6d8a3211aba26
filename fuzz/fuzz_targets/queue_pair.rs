//! Feeds connected queue pairs with nearly valid packets: nothing panics, only permitted bytes change, and no work
//! request completes twice.
#![no_main]

use libfuzzer_sys::fuzz_target;
use rnic_torture::{fuzz::packets, network::Dice};

fuzz_target!(|bytes: &[u8]| {
    if let Err(what) = packets::run(Dice::of(bytes.to_vec()), u64::MAX) {
        panic!("{what}");
    }
});
