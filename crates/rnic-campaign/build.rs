//! Computes `RNIC_CODE`: the version, and a hash of the code that determines the results of a run. The hash covers the
//! sources of this crate, the sources of every workspace crate on which it depends, and the lock file. The fingerprint
//! of every stored result contains `RNIC_CODE`.
//!
//! The list of crates comes from the manifests, so a new dependency is part of the hash automatically.

use std::collections::BTreeSet;
use std::path::{Path, PathBuf};
use std::{env, fs, io};

#[expect(clippy::disallowed_methods, reason = "Cargo passes folders in environment variables")]
fn main() -> io::Result<()> {
    // Asked for when the script runs: Cargo does not compile it again in a checkout that has been moved.
    let own = env::var_os("CARGO_MANIFEST_DIR").map(PathBuf::from).unwrap_or_default();
    let neighbours = own.parent().unwrap_or(&own);
    let mut crates = BTreeSet::new();
    closure(&own, &mut crates)?;
    let mut files = Vec::new();
    for folder in &crates {
        for part in ["src", "p4include", "Cargo.toml", "build.rs"] {
            let path = folder.join(part);
            if path.exists() {
                println!("cargo::rerun-if-changed={}", path.display());
                list(&path, &mut files)?;
            }
        }
    }
    let lock = neighbours.join("../Cargo.lock");
    if lock.exists() {
        println!("cargo::rerun-if-changed={}", lock.display());
        files.push(lock);
    }
    let mut hash: u64 = 0xcbf2_9ce4_8422_2325;
    let mut names = String::new();
    for file in &files {
        // File names are relative to the folder of the crates, because the location on this machine does not influence
        // results.
        let name = file.strip_prefix(neighbours).unwrap_or(file).to_string_lossy().replace('\\', "/");
        absorb(name.as_bytes(), &mut hash);
        absorb(&fs::read(file)?, &mut hash);
        names += &name;
        names.push('\n');
    }
    println!("cargo::rustc-env=RNIC_CODE={} {hash:016x}", env!("CARGO_PKG_VERSION"));
    let out = env::var_os("OUT_DIR").map(PathBuf::from).unwrap_or_default();
    fs::write(out.join("sources.txt"), names)
}

/// Adds the crate in `folder` and, recursively, the workspace crates on which its manifest depends.
fn closure(folder: &Path, crates: &mut BTreeSet<PathBuf>) -> io::Result<()> {
    if !crates.insert(folder.to_path_buf()) {
        return Ok(());
    }
    let manifest = fs::read_to_string(folder.join("Cargo.toml"))?;
    let manifest: toml::Table = manifest.parse().map_err(io::Error::other)?;
    for table in ["dependencies", "build-dependencies"] {
        for name in manifest.get(table).and_then(toml::Value::as_table).into_iter().flat_map(toml::Table::keys) {
            let neighbour = folder.parent().unwrap_or(folder).join(name);
            // Dependencies outside the workspace are not in this folder; the lock file has their versions.
            if neighbour.join("Cargo.toml").exists() {
                closure(&neighbour, crates)?;
            }
        }
    }
    Ok(())
}

/// Appends all files below `path` to `files`, in order of file name.
fn list(path: &Path, files: &mut Vec<PathBuf>) -> io::Result<()> {
    if !path.is_dir() {
        files.push(path.to_path_buf());
        return Ok(());
    }
    let mut entries: Vec<PathBuf> =
        fs::read_dir(path)?.map(|entry| entry.map(|e| e.path())).collect::<Result<_, _>>()?;
    entries.sort();
    entries.iter().try_for_each(|entry| list(entry, files))
}

/// Adds bytes to a 64-bit FNV-1a hash.
fn absorb(bytes: &[u8], hash: &mut u64) {
    for byte in bytes {
        *hash = (*hash ^ u64::from(*byte)).wrapping_mul(0x0000_0100_0000_01b3);
    }
}
