//! Checks which source files the code hash in a fingerprint covers.

use std::collections::BTreeSet;
use std::path::{Path, PathBuf};
use std::process::Command;

/// The files that the build script hashed, relative to `crates`.
const SOURCES: &str = include_str!(concat!(env!("OUT_DIR"), "/sources.txt"));

fn hashed() -> BTreeSet<&'static str> {
    SOURCES.lines().collect()
}

/// These files determine results, so the hash must cover them: otherwise a stored result could be stale. An earlier,
/// handwritten list of files had omitted them.
#[test]
fn statistics_and_transports_are_covered() {
    for file in [
        "rnic-campaign/build/sources.rs",
        "rnic-results/src/samples.rs",
        "rnic-results/src/summary.rs",
        "rnic-transport/src/transports/irn.rs",
        "rnic-nano/p4include/nanotransport.p4",
    ] {
        assert!(hashed().contains(file), "{file}");
    }
}

/// The hash covers every source of every workspace crate that cargo links into this crate, independent of the crates'
/// names.
#[test]
fn every_source_of_every_linked_crate_is_covered() {
    let own = Path::new(env!("CARGO_MANIFEST_DIR"));
    let crates = own.parent().unwrap();
    let tree = Command::new(env!("CARGO"))
        .args(["tree", "--offline", "--locked", "-p", "rnic-campaign", "-e", "normal,build", "--prefix", "none"])
        .args(["--format", "{p}"])
        .current_dir(own)
        .output()
        .unwrap();
    assert!(tree.status.success(), "{}", String::from_utf8_lossy(&tree.stderr));
    let tree = String::from_utf8(tree.stdout).unwrap();
    let linked: BTreeSet<&str> = tree.lines().filter_map(|line| line.split(' ').next()).collect();
    let linked: Vec<&str> = linked.into_iter().filter(|name| crates.join(name).join("Cargo.toml").exists()).collect();
    assert!(linked.contains(&"rnic-sim") && linked.contains(&"rnic-results"), "{linked:?}");
    let hashed = hashed();
    for name in linked {
        let mut sources = Vec::new();
        collect(&crates.join(name).join("src"), &mut sources);
        assert!(!sources.is_empty());
        for source in sources {
            let relative = source.strip_prefix(crates).unwrap().to_string_lossy().into_owned();
            assert!(hashed.contains(relative.as_str()), "{relative} is linked, but not part of the fingerprint");
        }
    }
}

fn collect(folder: &Path, files: &mut Vec<PathBuf>) {
    for entry in std::fs::read_dir(folder).unwrap() {
        let path = entry.unwrap().path();
        if path.is_dir() {
            collect(&path, files);
        } else {
            files.push(path);
        }
    }
}
