//! Links `libibverbs.so.1` and `librdmacm.so.1` for a release, as the command `rnic verbs` does, but with a given C
//! compiler, which may be one for another processor: `link CC ARCHIVES DIR`. `packaging/release` compiles this file.

#![allow(dead_code, missing_docs)]

#[path = "../crates/rnic-ibverbs/src/library.rs"]
mod library;

use std::path::PathBuf;

fn main() -> Result<(), String> {
    let arguments: Vec<PathBuf> = std::env::args_os().skip(1).map(PathBuf::from).collect();
    let [compiler, archives, folder] = arguments.as_slice() else {
        return Err("usage: link CC ARCHIVES DIR".to_string());
    };
    for library in library::ALL {
        let archive = library.find(std::slice::from_ref(archives));
        let archive = archive.ok_or_else(|| format!("{} has no {}.a", archives.display(), library.archive))?;
        library.link_by(compiler, &archive, folder)?;
    }
    Ok(())
}
