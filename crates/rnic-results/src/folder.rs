//! The folder of a command's result files: a lock that prevents two commands from using the folder at the same time,
//! and sets of files that appear together or not at all.

use std::fs::{self, File, TryLockError};
use std::io::{self, BufWriter, ErrorKind, Read, Write};
use std::path::{Path, PathBuf};

/// Name of the file that is locked. It exists only while a command uses the folder, or after a command was killed.
const LOCK: &str = ".rnic.lock";
/// Maximum number of bytes of the locked file that an error quotes.
const QUOTED: u64 = 300;
/// Maximum number of attempts to lock a file that other commands remove at the same time.
const ATTEMPTS: u32 = 100;

/// The lock of a folder, released when the value is dropped, and by the operating system if the process is killed.
#[derive(Debug)]
pub struct FolderLock {
    path: PathBuf,
    /// The locked file; `None` if the file system has no locks.
    file: Option<File>,
}

impl FolderLock {
    /// Creates the folder if it does not exist, locks it, and removes temporary files that killed processes left there.
    /// `holder` says which command holds the lock, for the error of other commands.
    ///
    /// # Errors
    /// Another process holds the lock ([`ErrorKind::ResourceBusy`]; the error names the holder), or the folder cannot
    /// be created or written.
    ///
    /// ```
    /// use rnic_results::folder::FolderLock;
    ///
    /// let folder = tempfile::tempdir()?;
    /// let lock = FolderLock::take(folder.path(), "the first command")?;
    /// let error = FolderLock::take(folder.path(), "the second command").unwrap_err().to_string();
    /// assert!(error.contains("the first command"));
    /// drop(lock);
    /// assert!(FolderLock::take(folder.path(), "the second command").is_ok());
    /// # Ok::<(), std::io::Error>(())
    /// ```
    pub fn take(folder: &Path, holder: &str) -> io::Result<FolderLock> {
        FolderLock::lock(folder, holder, |file| match file.try_lock() {
            Err(TryLockError::WouldBlock) => Err(busy(file)),
            Err(TryLockError::Error(error)) => Err(error),
            Ok(()) => Ok(()),
        })
    }

    /// Does the same as [`FolderLock::take`], but waits until no other process holds the lock.
    ///
    /// # Errors
    /// The folder cannot be created or written.
    pub fn wait(folder: &Path, holder: &str) -> io::Result<FolderLock> {
        FolderLock::lock(folder, holder, File::lock)
    }

    fn lock(folder: &Path, holder: &str, lock: fn(&File) -> io::Result<()>) -> io::Result<FolderLock> {
        fs::create_dir_all(folder)?;
        let path = folder.join(LOCK);
        for _ in 0..ATTEMPTS {
            let file = File::options().read(true).write(true).create(true).truncate(false).open(&path)?;
            match lock(&file) {
                Ok(()) => {}
                Err(error) if error.kind() == ErrorKind::Unsupported => return Ok(FolderLock { path, file: None }),
                Err(error) => return Err(error),
            }
            // The command that held the lock may have removed the file after it was opened here.
            if is_same_file(&file, &path) {
                let mut lock = FolderLock { path, file: Some(file) };
                lock.sign(holder)?;
                remove_abandoned(folder);
                return Ok(lock);
            }
        }
        Err(io::Error::new(ErrorKind::ResourceBusy, "other commands lock the folder repeatedly"))
    }

    /// Writes the holder into the locked file.
    fn sign(&mut self, holder: &str) -> io::Result<()> {
        let Some(file) = &mut self.file else { return Ok(()) };
        file.set_len(0)?;
        write!(file, "process {}, {holder}", std::process::id())
    }
}

impl Drop for FolderLock {
    fn drop(&mut self) {
        if self.file.is_some() {
            // The file is removed while it is locked, so no other process can hold its lock.
            let _ = fs::remove_file(&self.path);
        }
    }
}

/// The error that another process holds the lock, with the text that this process has written into the file.
fn busy(file: &File) -> io::Error {
    let mut text = Vec::new();
    // A file that cannot be read does not name its holder.
    let _ = file.take(QUOTED).read_to_end(&mut text);
    let text: String = String::from_utf8_lossy(&text).chars().filter(|c| !c.is_control()).collect();
    let holder = if text.is_empty() { "another process" } else { text.as_str() };
    io::Error::new(
        ErrorKind::ResourceBusy,
        format!("{holder} is writing into this folder; wait until it ends, or use another folder"),
    )
}

#[cfg(unix)]
fn is_same_file(file: &File, path: &Path) -> bool {
    use std::os::unix::fs::MetadataExt;
    let id = |metadata: fs::Metadata| (metadata.dev(), metadata.ino());
    matches!((file.metadata().map(id), fs::metadata(path).map(id)), (Ok(a), Ok(b)) if a == b)
}

/// Other systems do not remove an open file.
#[cfg(not(unix))]
fn is_same_file(_file: &File, _path: &Path) -> bool {
    true
}

/// Removes the temporary files of processes that no longer exist. The caller holds the lock of the folder.
fn remove_abandoned(folder: &Path) {
    let Ok(entries) = fs::read_dir(folder) else { return };
    for entry in entries.flatten() {
        let name = entry.file_name();
        if name.to_str().and_then(process_of).is_some_and(is_gone) {
            // A file that cannot be removed does no harm.
            let _ = fs::remove_file(entry.path());
        }
    }
}

/// The number of the process to which a temporary file belongs, by its name such as `ports.csv.4242-0.tmp`.
fn process_of(name: &str) -> Option<u32> {
    let (_, suffix) = name.strip_suffix(".tmp")?.rsplit_once('.')?;
    let (process, number) = suffix.split_once('-')?;
    number.parse::<u32>().ok()?;
    process.parse().ok()
}

/// Whether no process has this number; false where this cannot be known.
fn is_gone(process: u32) -> bool {
    Path::new("/proc/self").exists() && !Path::new("/proc").join(process.to_string()).exists()
}

/// Result files that replace older files of the same names together. Each file is first written under a temporary name;
/// [`FileSet::commit`] renames all of them. If an error occurs before, the older files stay as they are.
#[derive(Debug)]
pub struct FileSet {
    folder: PathBuf,
    /// Temporary and final path of each written file.
    written: Vec<(PathBuf, PathBuf)>,
}

impl FileSet {
    /// An empty set for files in `folder`, which is created if it does not exist.
    ///
    /// # Errors
    /// The folder cannot be created.
    pub fn new(folder: &Path) -> io::Result<FileSet> {
        fs::create_dir_all(folder)?;
        Ok(FileSet { folder: folder.to_path_buf(), written: Vec::new() })
    }

    /// Adds a file: `write` writes its contents to a temporary file, which is then synced to the disk.
    ///
    /// # Errors
    /// The file cannot be written; the error names it.
    pub fn add(&mut self, name: &str, write: impl FnOnce(&mut BufWriter<File>) -> io::Result<()>) -> io::Result<()> {
        let path = self.folder.join(name);
        let (temporary, file) = create_temporary(&path)?;
        self.written.push((temporary, path.clone()));
        let result = (|| {
            let mut out = BufWriter::new(file);
            write(&mut out)?;
            out.into_inner()?.sync_all()
        })();
        result.map_err(|error| named_error(&path, &error))
    }

    /// Renames all files to their final names, and returns their paths in the order in which they were added.
    ///
    /// # Errors
    /// A file cannot be renamed, for example because a folder has its name.
    pub fn commit(mut self) -> io::Result<Vec<PathBuf>> {
        // Checked before the first file is renamed, so that the older files stay together.
        if let Some((_, path)) = self.written.iter().find(|(_, path)| path.is_dir()) {
            return Err(named_error(path, &io::Error::from(ErrorKind::IsADirectory)));
        }
        let mut paths = Vec::new();
        for (temporary, path) in &self.written {
            fs::rename(temporary, path).map_err(|error| named_error(path, &error))?;
            paths.push(path.clone());
        }
        self.written.clear();
        Ok(paths)
    }
}

impl Drop for FileSet {
    /// Removes the temporary files of a set that was not committed.
    fn drop(&mut self) {
        for (temporary, _) in &self.written {
            // Files that were renamed before an error no longer have their temporary name.
            let _ = fs::remove_file(temporary);
        }
    }
}

/// The error of a file that cannot be written, with the name of the file.
pub(super) fn named_error(path: &Path, error: &io::Error) -> io::Error {
    io::Error::new(error.kind(), format!("cannot write {}: {error}", path.display()))
}

/// Creates a temporary file next to `path`. Other threads, and processes of other machines with the same number, may
/// write the same file at the same time, so each of them has its own temporary file.
pub(super) fn create_temporary(path: &Path) -> io::Result<(PathBuf, File)> {
    let mut number = 0_u32;
    loop {
        let mut temporary = path.as_os_str().to_owned();
        temporary.push(format!(".{}-{number}.tmp", std::process::id()));
        match File::create_new(&temporary) {
            Ok(file) => return Ok((PathBuf::from(temporary), file)),
            Err(error) if error.kind() == io::ErrorKind::AlreadyExists && number < u32::MAX => number += 1,
            Err(error) => return Err(named_error(path, &error)),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn names(folder: &Path) -> Vec<String> {
        let entries = fs::read_dir(folder).unwrap().map(|entry| entry.unwrap().file_name());
        let mut names: Vec<String> = entries.map(|name| name.into_string().unwrap()).collect();
        names.sort();
        names
    }

    #[test]
    fn a_set_appears_as_a_whole() {
        let folder = tempfile::tempdir().unwrap();
        let write = |set: &mut FileSet, name: &str, text: &str| set.add(name, |out| out.write_all(text.as_bytes()));
        let mut set = FileSet::new(folder.path()).unwrap();
        write(&mut set, "a", "1").unwrap();
        write(&mut set, "b", "1").unwrap();
        let paths = set.commit().unwrap();
        assert_eq!(paths, [folder.path().join("a"), folder.path().join("b")]);
        let mut set = FileSet::new(folder.path()).unwrap();
        write(&mut set, "a", "2").unwrap();
        let full = set.add("b", |_| Err(io::Error::from(ErrorKind::StorageFull))).unwrap_err().to_string();
        assert!(full.contains("cannot write") && full.contains('b'), "{full}");
        drop(set);
        assert_eq!(
            (names(folder.path()), fs::read_to_string(folder.path().join("a")).unwrap()),
            (vec!["a".into(), "b".into()], "1".into())
        );
    }

    #[test]
    fn a_folder_in_the_place_of_a_file_leaves_the_older_files() {
        let folder = tempfile::tempdir().unwrap();
        fs::write(folder.path().join("a"), "1").unwrap();
        fs::create_dir(folder.path().join("b")).unwrap();
        let mut set = FileSet::new(folder.path()).unwrap();
        for name in ["a", "b"] {
            set.add(name, |out| out.write_all(b"2")).unwrap();
        }
        let error = set.commit().unwrap_err().to_string();
        assert!(error.contains("/b"), "{error}");
        assert_eq!(
            (names(folder.path()), fs::read(folder.path().join("a")).unwrap()),
            (vec!["a".into(), "b".into()], b"1".to_vec())
        );
    }

    #[test]
    fn a_lock_names_its_holder_and_leaves_nothing() {
        let folder = tempfile::tempdir().unwrap();
        let lock = FolderLock::take(folder.path(), "`rnic run a.toml`").unwrap();
        let error = FolderLock::take(folder.path(), "").unwrap_err();
        let expected = format!("process {}, `rnic run a.toml` is writing into this folder;", std::process::id());
        assert!(error.kind() == ErrorKind::ResourceBusy && error.to_string().starts_with(&expected), "{error}");
        drop(lock);
        assert_eq!(names(folder.path()), [""; 0]);
    }

    #[test]
    fn a_file_without_a_lock_is_no_lock() {
        let folder = tempfile::tempdir().unwrap();
        fs::write(folder.path().join(LOCK), "process 1, killed").unwrap();
        drop(FolderLock::take(folder.path(), "next").unwrap());
        assert_eq!(names(folder.path()), [""; 0]);
    }

    #[test]
    fn the_text_of_a_lock_is_not_trusted() {
        let folder = tempfile::tempdir().unwrap();
        let lock = FolderLock::take(folder.path(), &format!("\u{1b}[31m{}\n", "x".repeat(1_000))).unwrap();
        let error = FolderLock::take(folder.path(), "").unwrap_err().to_string();
        assert!(!error.contains('\u{1b}') && error.len() < 450, "{error}");
        drop(lock);
    }

    #[test]
    fn files_of_ended_processes_are_removed() {
        let folder = tempfile::tempdir().unwrap();
        let own = format!("ports.csv.{}-0.tmp", std::process::id());
        for name in ["ports.csv.4294967295-0.tmp", &own, "my.tmp", "notes.1-x.tmp"] {
            fs::write(folder.path().join(name), "").unwrap();
        }
        drop(FolderLock::take(folder.path(), "next").unwrap());
        let mut expected = ["my.tmp", "notes.1-x.tmp", &own].map(String::from);
        expected.sort();
        assert_eq!(names(folder.path()), expected);
    }
}
