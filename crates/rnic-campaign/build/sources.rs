//! Hashes of source code, for the build scripts of this crate and of `rnic-studies`.

use std::collections::BTreeSet;
use std::path::{Path, PathBuf};
use std::{fs, io};

/// The folder of the crate in `own`, and of every workspace crate on which it depends.
///
/// The list comes from the manifests, so a new dependency is part of the hash automatically.
pub(crate) fn crates(own: &Path) -> io::Result<BTreeSet<PathBuf>> {
    let mut crates = BTreeSet::new();
    add_crate(own, &mut crates)?;
    Ok(crates)
}

/// Adds the crate in `folder` and, recursively, the workspace crates on which its manifest depends.
fn add_crate(folder: &Path, crates: &mut BTreeSet<PathBuf>) -> io::Result<()> {
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
                add_crate(&neighbour, crates)?;
            }
        }
    }
    Ok(())
}

/// The files of the crate in `folder` that determine its behaviour. Cargo executes the build script again after a
/// change of one of them.
pub(crate) fn sources(folder: &Path) -> io::Result<Vec<PathBuf>> {
    let mut files = Vec::new();
    for part in ["src", "p4include", "Cargo.toml", "build.rs", "build"] {
        add_files(&folder.join(part), &mut files)?;
    }
    Ok(files)
}

/// Appends the file `path`, or all files below it in order of file name, if it exists.
pub(crate) fn add_files(path: &Path, files: &mut Vec<PathBuf>) -> io::Result<()> {
    if path.exists() {
        println!("cargo::rerun-if-changed={}", path.display());
        list(path, files)?;
    }
    Ok(())
}

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

/// The hash of the names and contents of `files`, and the names, a line each. Names are relative to `root`, because the
/// location on this machine does not influence results.
pub(crate) fn hash(files: &[PathBuf], root: &Path) -> io::Result<(u64, String)> {
    let mut hash: u64 = 0xcbf2_9ce4_8422_2325;
    let mut names = String::new();
    for file in files {
        let name = file.strip_prefix(root).unwrap_or(file).to_string_lossy().replace('\\', "/");
        absorb(name.as_bytes(), &mut hash);
        absorb(&fs::read(file)?, &mut hash);
        names += &name;
        names.push('\n');
    }
    Ok((hash, names))
}

/// Adds bytes to a 64-bit FNV-1a hash.
fn absorb(bytes: &[u8], hash: &mut u64) {
    for byte in bytes {
        *hash = (*hash ^ u64::from(*byte)).wrapping_mul(0x0000_0100_0000_01b3);
    }
}
