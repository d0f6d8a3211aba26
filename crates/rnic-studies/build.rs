//! Computes `RNIC_MEASUREMENT_CODE`: a hash of the code that turns the record of a run into the measurement that a
//! study stores, which is the module `measurement` and the fluid models. The simulator's code is part of every
//! fingerprint already. Changes of experiments and claims leave the hash, and so the stored measurements, as they are.

#[path = "../rnic-campaign/build/sources.rs"]
mod sources;

use std::path::PathBuf;
use std::{env, fs, io};

#[expect(clippy::disallowed_methods, reason = "Cargo passes folders in environment variables")]
fn main() -> io::Result<()> {
    let own = env::var_os("CARGO_MANIFEST_DIR").map(PathBuf::from).unwrap_or_default();
    let crates = own.parent().unwrap_or(&own);
    let mut files = Vec::new();
    sources::add_files(&own.join("src/measurement.rs"), &mut files)?;
    sources::add_files(&own.join("src/measurement"), &mut files)?;
    for folder in sources::crates(&crates.join("rnic-model"))? {
        files.extend(sources::sources(&folder)?);
    }
    let (hash, names) = sources::hash(&files, crates)?;
    println!("cargo::rustc-env=RNIC_MEASUREMENT_CODE={hash:016x}");
    let out = env::var_os("OUT_DIR").map(PathBuf::from).unwrap_or_default();
    fs::write(out.join("sources.txt"), names)
}
