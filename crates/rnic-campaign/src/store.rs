//! A store of results: a folder with one file per result, whose name is the fingerprint of the result (a hash of
//! everything that determines it).

pub(crate) mod file;
mod pack;
mod packed;
#[cfg(test)]
mod packed_tests;

pub use file::{read_record, read_value, write_record, write_value};
pub(crate) use packed::PackedStore;

use crate::fingerprint::Fingerprint;
use parking_lot::Mutex;
use rnic_results::files::write_and_rename;
use serde::{Deserialize, Serialize};
use std::fs;
use std::io::{self, Read, Write};
use std::marker::PhantomData;
use std::path::{Path, PathBuf};

/// The header of a result file: the run to which the result belongs.
#[derive(Clone, PartialEq, Debug, Serialize, Deserialize)]
pub struct Header {
    /// Name of the run, for messages.
    pub run: String,
    /// Seed of the run, for messages.
    pub seed: u64,
    /// CPU seconds that the run took.
    pub cpu_s: f64,
    /// Fingerprint of everything that determined the result.
    pub fingerprint: Fingerprint,
}

/// A kind of result that a [`Store`] can hold.
pub trait Stored: Sized {
    /// File name extension of this kind of result.
    const ENDING: &'static str;

    /// Of several results with the same fingerprint, one with the highest rank is valid, whichever was stored first.
    fn rank(&self) -> u32 {
        0
    }

    /// Writes the result.
    ///
    /// # Errors
    /// `out` cannot be written, or a part of the result cannot be read.
    fn write_to(&self, out: &mut dyn Write) -> io::Result<()>;

    /// Reads a result that [`Stored::write_to`] wrote. `length` is the length of the whole file in bytes, an upper
    /// bound for every part of it.
    ///
    /// # Errors
    /// `input` cannot be read, or its bytes are not a result that `write_to` can have written.
    fn read_from(input: &mut dyn Read, length: u64) -> io::Result<Self>;
}

/// A folder of results of one kind. Each file is written completely or not at all; damaged and renamed files are
/// detected.
///
/// ```
/// # let text = r#"
/// #     [fabric]
/// #     topology = "single-switch"
/// #     hosts = 4
/// #     rate = "100 Gbps"
/// #     delay = "1 us"
/// #     [traffic]
/// #     pattern = "permutation"
/// #     sizes = "fixed 64 KB"
/// #     [[run]]
/// #     name = "IRN"
/// #     transport = "irn"
/// # "#;
/// # let scenario = rnic_scenario::from_str(text, "example.toml", "".as_ref(), &[], None).unwrap();
/// # let folder = tempfile::tempdir().unwrap();
/// # let folder = folder.path();
/// use rnic_campaign::{Fingerprint, Header, Store, run_scenario};
///
/// let run = &scenario.runs[0];
/// let record = run_scenario(&scenario, 1).unwrap().remove(0);
/// let fingerprint = Fingerprint::of(run, "");
/// let (name, cpu_s) = (run.name.clone(), record.cpu_s);
/// let header = Header { run: name, seed: run.seed, cpu_s, fingerprint: fingerprint.clone() };
/// let store = Store::at(folder);
/// store.put(&header, &record)?;
/// assert_eq!(store.get(&fingerprint), Ok(Some((header, record))));
/// # Ok::<(), std::io::Error>(())
/// ```
#[derive(Debug)]
pub struct Store<V> {
    folder: PathBuf,
    /// A lock with which only one thread writes at a time, because runs that differ only in their names share a file.
    writing: Mutex<()>,
    kind: PhantomData<fn() -> V>,
}

impl<V: Stored> Store<V> {
    /// The store in `folder`; the folder need not exist.
    pub fn at(folder: &Path) -> Store<V> {
        Store { folder: folder.to_path_buf(), writing: Mutex::new(()), kind: PhantomData }
    }

    /// The folder of the store.
    pub fn folder(&self) -> &Path {
        &self.folder
    }

    /// The file of a result, whether it exists or not.
    pub fn path(&self, fingerprint: &Fingerprint) -> PathBuf {
        self.path_of(&fingerprint.key())
    }

    /// The file of the result with the key `key`.
    pub(crate) fn path_of(&self, key: &str) -> PathBuf {
        self.folder.join(format!("{key}.{}", V::ENDING))
    }

    /// Stores a result. It replaces an older result with the same fingerprint. Creates the folder if it does not exist.
    ///
    /// # Errors
    /// The file cannot be written, or a part of the result cannot be read.
    pub fn put(&self, header: &Header, value: &V) -> io::Result<()> {
        let _one = self.writing.lock();
        fs::create_dir_all(&self.folder)?;
        let path = self.path(&header.fingerprint);
        // No fsync: a file that a power failure damages is detected, and its run is simulated again.
        write_and_rename(&path, |out| file::write(out, header, value), |_| Ok(())).map(|_| ())
    }

    /// The stored result with a fingerprint; `Ok(None)` if there is none.
    ///
    /// # Errors
    /// The file exists but cannot be used. The error is the reason, as the end of a sentence that begins with "the
    /// stored result".
    pub fn get(&self, fingerprint: &Fingerprint) -> Result<Option<(Header, V)>, String> {
        let path = self.path(fingerprint);
        if !path.exists() {
            return Ok(None);
        }
        match file::read(&path) {
            Ok((header, value)) if header.fingerprint == *fingerprint => Ok(Some((header, value))),
            Ok(_) => Err(format!("belongs to another run: `{}`", path.display())),
            Err(why) => Err(format!("cannot be used: `{}` {why}", path.display())),
        }
    }

    /// The headers (run, seed, CPU time, fingerprint) of all stored results that can be read, in order of file name.
    pub fn headers(&self) -> Vec<Header> {
        self.files(V::ENDING).iter().filter_map(|path| file::read_header(path).ok()).collect()
    }

    /// Removes the results with the fingerprints `of`; with `None`, all results and incomplete files. Removes the
    /// folder if it is then empty.
    ///
    /// # Errors
    /// A file cannot be removed.
    pub fn remove(&self, of: Option<&[&Fingerprint]>) -> io::Result<()> {
        let chosen = |path: &PathBuf| of.is_none_or(|of| of.iter().any(|fingerprint| self.path(fingerprint) == *path));
        let unfinished = if of.is_none() { self.files("tmp") } else { Vec::new() };
        for path in self.files(V::ENDING).into_iter().filter(chosen).chain(unfinished) {
            fs::remove_file(path)?;
        }
        // This fails if the user has other files in the folder.
        let _ = fs::remove_dir(&self.folder);
        Ok(())
    }

    /// The files in the folder with this extension, in order of file name.
    fn files(&self, ending: &str) -> Vec<PathBuf> {
        let entries = fs::read_dir(&self.folder).into_iter().flatten().flatten();
        let mut files: Vec<PathBuf> = entries.map(|entry| entry.path()).collect();
        files.retain(|path| path.extension().is_some_and(|extension| extension == ending));
        files.sort();
        files
    }
}
