//! A folder of results, each in a file that its fingerprint names.

pub(crate) mod file;

use crate::fingerprint::Fingerprint;
use rnic_results::files::write_and_rename;
use serde::{Deserialize, Serialize};
use std::fs;
use std::io::{self, Read, Write};
use std::marker::PhantomData;
use std::path::{Path, PathBuf};
use std::sync::{Mutex, PoisonError};

/// Whose result a file has.
#[derive(Clone, PartialEq, Debug, Serialize, Deserialize)]
pub struct Header {
    /// Name of the run, for people.
    pub run: String,
    /// Seed of the run, for people.
    pub seed: u64,
    /// CPU seconds that the run took.
    pub cpu_s: f64,
    /// What determined the result.
    pub fingerprint: Fingerprint,
}

/// A kind of result that a [`Store`] can hold.
pub trait Stored: Sized {
    /// How the names of its files end.
    const ENDING: &'static str;

    /// Writes the result.
    ///
    /// # Errors
    /// Those of `out`, or what of the result cannot be read.
    fn write_to(&self, out: &mut dyn Write) -> io::Result<()>;

    /// Reads what [`Stored::write_to`] wrote; `length` is that of the whole file in bytes: no part of it can be longer.
    ///
    /// # Errors
    /// Those of `input`, or bytes that `write_to` would not have written.
    fn read_from(input: &mut dyn Read, length: u64) -> io::Result<Self>;
}

/// A folder of results of one kind. A file appears whole or not at all, and a damaged or renamed file is not believed.
#[derive(Debug)]
pub struct Store<V> {
    folder: PathBuf,
    /// One file at a time: runs that differ in their names alone share one.
    writing: Mutex<()>,
    kind: PhantomData<fn() -> V>,
}

impl<V: Stored> Store<V> {
    /// The results in `folder`, which need not exist.
    pub fn at(folder: &Path) -> Store<V> {
        Store { folder: folder.to_path_buf(), writing: Mutex::new(()), kind: PhantomData }
    }

    /// Where the results are.
    pub fn folder(&self) -> &Path {
        &self.folder
    }

    /// The file of a result, whether it exists or not.
    pub fn path(&self, fingerprint: &Fingerprint) -> PathBuf {
        self.folder.join(format!("{}.{}", fingerprint.key(), V::ENDING))
    }

    /// Stores a result, in place of one with the same fingerprint. The folder is made if there is none.
    ///
    /// # Errors
    /// The file cannot be written, or the result cannot be read.
    pub fn put(&self, header: &Header, value: &V) -> io::Result<()> {
        let _one = self.writing.lock().unwrap_or_else(PoisonError::into_inner);
        fs::create_dir_all(&self.folder)?;
        let path = self.path(&header.fingerprint);
        // Without waiting for the disk: a file that a power failure damages is not believed, and its run is simulated again.
        write_and_rename(&path, |out| file::write(out, header, value), |_| Ok(())).map(|_| ())
    }

    /// The result with a fingerprint; `Ok(None)` if there is none.
    ///
    /// # Errors
    /// Why the file that there is cannot be used, in words that follow "the stored result".
    pub fn get(&self, fingerprint: &Fingerprint) -> Result<Option<(Header, V)>, String> {
        let path = self.path(fingerprint);
        if !path.exists() {
            return Ok(None);
        }
        match file::read(&path) {
            Ok((header, value)) if header.fingerprint == *fingerprint => Ok(Some((header, value))),
            Ok(_) => Err(format!("is of another run: `{}`", path.display())),
            Err(why) => Err(format!("cannot be used: `{}` {why}", path.display())),
        }
    }

    /// The headers of all results that can be read, in order of the files' names.
    pub fn headers(&self) -> Vec<Header> {
        self.files(V::ENDING).iter().filter_map(|path| file::read_header(path).ok()).collect()
    }

    /// Removes the results of these fingerprints; with `None` all results, and files that were never completed. The folder goes with the
    /// last file.
    ///
    /// # Errors
    /// A file cannot be removed.
    pub fn remove(&self, of: Option<&[&Fingerprint]>) -> io::Result<()> {
        let chosen = |path: &PathBuf| of.is_none_or(|of| of.iter().any(|fingerprint| self.path(fingerprint) == *path));
        let unfinished = if of.is_none() { self.files("tmp") } else { Vec::new() };
        for path in self.files(V::ENDING).into_iter().filter(chosen).chain(unfinished) {
            fs::remove_file(path)?;
        }
        // Somebody's own files may be there too.
        let _ = fs::remove_dir(&self.folder);
        Ok(())
    }

    /// The files in the folder that end so, in order of their names.
    fn files(&self, ending: &str) -> Vec<PathBuf> {
        let entries = fs::read_dir(&self.folder).into_iter().flatten().flatten();
        let mut files: Vec<PathBuf> = entries.map(|entry| entry.path()).collect();
        files.retain(|path| path.extension().is_some_and(|extension| extension == ending));
        files.sort();
        files
    }
}
