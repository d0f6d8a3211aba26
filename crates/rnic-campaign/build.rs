//! Tells the program which code determines the results of a run: a hash over the sources of this crate and of every crate of the
//! workspace that it depends on, and over the lock file. Results on disk belong to it.
//!
//! The list of crates comes from the manifests, so a crate that becomes part of a simulation becomes part of the hash.

use std::collections::BTreeSet;
use std::path::{Path, PathBuf};
use std::{env, fs, io};

fn main() -> io::Result<()> {
    let own = PathBuf::from(env!("CARGO_MANIFEST_DIR"));
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
    let lock = own.join("../../Cargo.lock");
    if lock.exists() {
        println!("cargo::rerun-if-changed={}", lock.display());
        files.push(lock);
    }
    let mut hash: u64 = 0xcbf2_9ce4_8422_2325;
    let mut names = String::new();
    for file in &files {
        // Relative to the workspace: where it lies on this machine determines nothing.
        let name = file.strip_prefix(own.join("..")).unwrap_or(file).to_string_lossy().replace('\\', "/");
        absorb(name.as_bytes(), &mut hash);
        absorb(&fs::read(file)?, &mut hash);
        names += &name;
        names.push('\n');
    }
    println!("cargo::rustc-env=RNIC_CODE={} {hash:016x}", env!("CARGO_PKG_VERSION"));
    let out = env::var_os("OUT_DIR").map(PathBuf::from).unwrap_or_default();
    fs::write(out.join("sources.txt"), names)
}

/// Adds the crate in `folder` and the crates of the workspace that its manifest names as dependencies, and theirs.
fn closure(folder: &Path, crates: &mut BTreeSet<PathBuf>) -> io::Result<()> {
    if !crates.insert(folder.to_path_buf()) {
        return Ok(());
    }
    let manifest = fs::read_to_string(folder.join("Cargo.toml"))?;
    let manifest: toml::Table = manifest.parse().map_err(io::Error::other)?;
    for table in ["dependencies", "build-dependencies"] {
        for name in manifest.get(table).and_then(toml::Value::as_table).into_iter().flat_map(toml::Table::keys) {
            let neighbour = folder.parent().unwrap_or(folder).join(name);
            // As a package of its own this crate has no neighbours; their versions are in the lock file then.
            if neighbour.join("Cargo.toml").exists() {
                closure(&neighbour, crates)?;
            }
        }
    }
    Ok(())
}

/// All files below a path, in order of their names.
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

/// FNV-1a, 64 bits.
fn absorb(bytes: &[u8], hash: &mut u64) {
    for byte in bytes {
        *hash = (*hash ^ u64::from(*byte)).wrapping_mul(0x0000_0100_0000_01b3);
    }
}
