//! Tells the program which code simulates: a hash over the sources on which a result depends. Results on disk belong to it.

use std::path::{Path, PathBuf};
use std::{fs, io};

/// Files and folders, from this crate's folder.
const SOURCES: [&str; 26] = [
    "../rnic-transport/src",
    "../rnic-fabric/src",
    "../rnic-nano/src",
    "../rnic-nano/p4include",
    "src/catalogue.rs",
    "src/flow_book.rs",
    "src/hosts.rs",
    "src/in_band.rs",
    "src/message_hosts.rs",
    "src/nic.rs",
    "src/pauses.rs",
    "src/resolve.rs",
    "src/resolve",
    "src/run.rs",
    "src/slab.rs",
    "src/storm.rs",
    "src/watch.rs",
    "src/workload",
    "src/results/groups.rs",
    "src/results/model.rs",
    "src/results/pauses.rs",
    "src/results/ranks.rs",
    "src/results/stats.rs",
    "src/results/summary.rs",
    "src/results/text.rs",
    "src/reproduce/jobs.rs",
];

fn main() -> io::Result<()> {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR"));
    let mut hash: u64 = 0xcbf2_9ce4_8422_2325;
    for source in SOURCES {
        println!("cargo::rerun-if-changed={source}");
        let path = folder.join(source);
        // As a package of its own this crate has no neighbours; their versions are in the lock file then.
        if path.exists() {
            absorb(&path, &mut hash)?;
        }
    }
    println!("cargo::rustc-env=RNIC_SIMULATOR={} {hash:016x}", env!("CARGO_PKG_VERSION"));
    Ok(())
}

/// FNV-1a over a file, or over the files of a folder in order of their names.
fn absorb(path: &Path, hash: &mut u64) -> io::Result<()> {
    if path.is_dir() {
        let mut entries: Vec<PathBuf> = fs::read_dir(path)?.map(|e| e.map(|e| e.path())).collect::<Result<_, _>>()?;
        entries.sort();
        return entries.iter().try_for_each(|entry| absorb(entry, hash));
    }
    for byte in fs::read(path)? {
        *hash = (*hash ^ u64::from(byte)).wrapping_mul(0x0000_0100_0000_01b3);
    }
    Ok(())
}
