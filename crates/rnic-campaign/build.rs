//! Computes `RNIC_CODE`: the version, and a hash of the code that determines the results of a run. The hash covers the
//! sources of this crate, the sources of every workspace crate on which it depends, and the lock file. The fingerprint
//! of every stored result contains `RNIC_CODE`.

#[path = "build/sources.rs"]
mod sources;

use std::path::PathBuf;
use std::{env, fs, io};

#[expect(clippy::disallowed_methods, reason = "Cargo passes folders in environment variables")]
fn main() -> io::Result<()> {
    // Asked for when the script runs: Cargo does not compile it again in a checkout that has been moved.
    let own = env::var_os("CARGO_MANIFEST_DIR").map(PathBuf::from).unwrap_or_default();
    let crates = own.parent().unwrap_or(&own);
    let mut files = Vec::new();
    for folder in sources::crates(&own)? {
        files.extend(sources::sources(&folder)?);
    }
    sources::add_files(&crates.join("../Cargo.lock"), &mut files)?;
    let (hash, names) = sources::hash(&files, crates)?;
    println!("cargo::rustc-env=RNIC_CODE={} {hash:016x}", env!("CARGO_PKG_VERSION"));
    let out = env::var_os("OUT_DIR").map(PathBuf::from).unwrap_or_default();
    fs::write(out.join("sources.txt"), names)
}
