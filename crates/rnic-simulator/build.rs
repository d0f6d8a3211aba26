//! Lists the scenarios of the repository and the files that they name, for the built-in scenarios of the command.

#![expect(clippy::disallowed_methods, reason = "a build script takes its folders from Cargo's environment variables")]

use std::path::{Path, PathBuf};
use std::{env, fs, io};

/// Endings of the files that scenarios use.
const ENDINGS: [&str; 4] = ["toml", "csv", "cdf", "p4"];

fn main() -> io::Result<()> {
    let variable = |name| env::var_os(name).map(PathBuf::from).ok_or_else(|| io::Error::other(name));
    let root = variable("CARGO_MANIFEST_DIR")?.join("../..").canonicalize()?;
    let mut files = Vec::new();
    for folder in ["scenarios", "p4"] {
        println!("cargo::rerun-if-changed={}", root.join(folder).display());
        collect(&root.join(folder), &mut files)?;
    }
    let mut lines = Vec::new();
    for file in files {
        let path = file.strip_prefix(&root).map_err(io::Error::other)?;
        let name: Vec<_> = path.iter().map(|part| part.to_string_lossy()).collect();
        lines.push((name.join("/"), file.display().to_string()));
    }
    lines.sort();
    let mut list = String::from("&[\n");
    for (name, file) in lines {
        list += &format!("    ({name:?}, include_str!({file:?})),\n");
    }
    fs::write(variable("OUT_DIR")?.join("builtin.rs"), list + "]\n")
}

fn collect(folder: &Path, files: &mut Vec<PathBuf>) -> io::Result<()> {
    for entry in fs::read_dir(folder)? {
        let (path, kind) = entry.and_then(|entry| Ok((entry.path(), entry.file_type()?)))?;
        if kind.is_dir() {
            collect(&path, files)?;
        } else if path.extension().is_some_and(|ending| ENDINGS.iter().any(|known| ending == *known)) {
            files.push(path);
        }
    }
    Ok(())
}
