//! The files that describe one device: a folder, or a tar archive of such a folder, optionally compressed by gzip.

use crate::input::{InputError, MAX_FILE, Place, read_limited};
use flate2::read::GzDecoder;
use std::collections::BTreeMap;
use std::fs::{self, File};
use std::io::{BufReader, Read};
use std::path::{Component, Path, PathBuf};

/// Maximum number of files that are read from an archive.
const MAX_ENTRIES: usize = 200_000;
/// Maximum size of an archive without compression, in bytes.
const MAX_ARCHIVE: u64 = 256 << 20;
/// Extensions of archives.
const ARCHIVES: [&str; 3] = [".tar", ".tar.gz", ".tgz"];

/// The files of one device.
pub(crate) struct Dump {
    /// Name of the device: the name of the folder, or the name of the archive without its extension.
    pub(crate) name: String,
    files: Files,
}

enum Files {
    Folder(PathBuf),
    Archive(BTreeMap<String, Vec<u8>>),
}

/// The name of the device whose archive has this file name; `None` if the file is not an archive.
pub(crate) fn archive_name(file: &str) -> Option<&str> {
    ARCHIVES.iter().rev().find_map(|extension| file.strip_suffix(extension)).filter(|name| !name.is_empty())
}

impl Dump {
    /// Opens the folder or the archive at `path` as the device `name`.
    pub(crate) fn open(path: &Path, name: &str) -> Result<Dump, InputError> {
        let error = |message: String| InputError::new(path.display().to_string(), Place::File, message);
        let unreadable = |cause: std::io::Error| error(format!("cannot be read: {cause}"));
        if path.is_dir() {
            let folder = path.canonicalize().map_err(unreadable)?;
            return Ok(Dump { name: name.to_string(), files: Files::Folder(folder) });
        }
        let file = BufReader::new(File::open(path).map_err(unreadable)?);
        let compressed = !path.to_string_lossy().ends_with(".tar");
        let source: Box<dyn Read> = if compressed { Box::new(GzDecoder::new(file)) } else { Box::new(file) };
        let files = unpack(source, &|message| error(format!("is not a usable tar archive: {message}")))?;
        Ok(Dump { name: name.to_string(), files: Files::Archive(files) })
    }

    /// The name of a file of the device in error messages.
    pub(crate) fn called(&self, path: &str) -> String {
        format!("{}/{path}", self.name)
    }

    /// The sorted names of the files and folders in the folder `path` of the device; `""` is its top folder. Empty if
    /// the folder does not exist.
    pub(crate) fn list(&self, path: &str) -> Vec<String> {
        let mut names: Vec<String> = match &self.files {
            Files::Folder(folder) => {
                let Some(folder) = inside(folder, path) else { return Vec::new() };
                let entries = fs::read_dir(folder).into_iter().flatten().flatten();
                entries.map(|entry| entry.file_name().to_string_lossy().into_owned()).take(MAX_ENTRIES).collect()
            }
            Files::Archive(files) => {
                let prefix = if path.is_empty() { String::new() } else { format!("{path}/") };
                let below = files.range(prefix.clone()..).map(|(name, _)| name);
                let below = below.take_while(|name| name.starts_with(&prefix));
                below.filter_map(|name| name[prefix.len()..].split('/').next()).map(str::to_string).collect()
            }
        };
        names.sort();
        names.dedup();
        names
    }

    /// Whether `path` is a folder of the device.
    pub(crate) fn is_folder(&self, path: &str) -> bool {
        match &self.files {
            Files::Folder(folder) => inside(folder, path).is_some_and(|path| path.is_dir()),
            Files::Archive(_) => !self.list(path).is_empty(),
        }
    }

    /// The text of the file `path`; `None` if the file does not exist. A file that exists and cannot be read is an
    /// error, with one exception: some files of sysfs return "invalid argument" or "not supported" if the device lacks
    /// the feature, and the result is then `None`.
    pub(crate) fn read(&self, path: &str) -> Result<Option<String>, InputError> {
        let name = self.called(path);
        match &self.files {
            Files::Archive(files) => files.get(path).map(|bytes| read_limited(bytes.as_slice(), &name)).transpose(),
            Files::Folder(folder) => {
                let Some(path) = inside(folder, path).filter(|path| path.is_file()) else { return Ok(None) };
                let mut bytes = Vec::new();
                let read = File::open(path).and_then(|file| file.take(MAX_FILE + 1).read_to_end(&mut bytes));
                match read {
                    Ok(_) => read_limited(bytes.as_slice(), &name).map(Some),
                    // EINVAL, ENODEV, ENXIO and EOPNOTSUPP.
                    Err(error) if [22, 19, 6, 95].contains(&error.raw_os_error().unwrap_or(0)) => Ok(None),
                    Err(error) => Err(InputError::new(name, Place::File, format!("cannot be read: {error}"))),
                }
            }
        }
    }
}

/// The path below `folder`, with symbolic links resolved; `None` if the path does not exist or leads out of `folder`.
fn inside(folder: &Path, path: &str) -> Option<PathBuf> {
    let plain = Path::new(path).components().all(|part| matches!(part, Component::Normal(_)));
    let path = folder.join(path).canonicalize().ok()?;
    (plain && path.starts_with(folder)).then_some(path)
}

/// Reads the regular files of a tar archive into memory, by their path. Links and special files are skipped, and
/// nothing is written to the disk. If all files are in one top folder, the name of this folder is removed from the
/// paths.
fn unpack(source: impl Read, error: &dyn Fn(String) -> InputError) -> Result<BTreeMap<String, Vec<u8>>, InputError> {
    let mut archive = tar::Archive::new(source.take(MAX_ARCHIVE + 1));
    let mut files = BTreeMap::new();
    let mut total = 0;
    for entry in archive.entries().map_err(|cause| error(cause.to_string()))? {
        let mut entry = entry.map_err(|cause| error(cause.to_string()))?;
        if !entry.header().entry_type().is_file() {
            continue;
        }
        let path = entry.path().map_err(|cause| error(cause.to_string()))?.into_owned();
        let parts: Vec<String> = path
            .components()
            .filter_map(|part| match part {
                Component::Normal(part) => Some(part.to_string_lossy().into_owned()),
                _ => None,
            })
            .collect();
        let mut bytes = Vec::new();
        entry.by_ref().take(MAX_FILE + 1).read_to_end(&mut bytes).map_err(|cause| error(cause.to_string()))?;
        total += bytes.len() as u64;
        if total > MAX_ARCHIVE || bytes.len() as u64 > MAX_FILE || files.len() >= MAX_ENTRIES {
            return Err(error(format!(
                "it has more than {MAX_ENTRIES} files, a file above {} MiB, or more than {} MiB in all",
                MAX_FILE >> 20,
                MAX_ARCHIVE >> 20
            )));
        }
        // The metadata of files of sysfs state a length of 4096 bytes; some archivers pad the contents with zeros up to
        // it.
        while bytes.last() == Some(&0) {
            bytes.pop();
        }
        files.insert(parts.join("/"), bytes);
    }
    let top: Option<String> = files.keys().next().and_then(|path: &String| Some(path.split_once('/')?.0.to_string()));
    match top.filter(|top| top != "sys" && top != "proc") {
        Some(top) if files.keys().all(|path| path.split_once('/').is_some_and(|(first, _)| first == top)) => {
            Ok(files.into_iter().map(|(path, bytes)| (path[top.len() + 1..].to_string(), bytes)).collect())
        }
        _ => Ok(files),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use flate2::Compression;
    use flate2::write::GzEncoder;
    use std::io::Write;

    fn archive(files: &[(&str, &[u8])]) -> Vec<u8> {
        let mut builder = tar::Builder::new(Vec::new());
        for (path, bytes) in files {
            let mut header = tar::Header::new_gnu();
            // The path is written directly, because the builder refuses paths that lead out of the archive.
            header.as_old_mut().name[..path.len()].copy_from_slice(path.as_bytes());
            header.set_size(bytes.len() as u64);
            header.set_mode(0o644);
            header.set_cksum();
            builder.append(&header, *bytes).unwrap();
        }
        builder.into_inner().unwrap()
    }

    #[test]
    fn folders_and_archives_have_the_same_files() {
        let folder = tempfile::tempdir().unwrap();
        let host = folder.path().join("host1");
        fs::create_dir_all(host.join("sys/class/net/eth0")).unwrap();
        fs::write(host.join("sys/class/net/eth0/mtu"), "9000\n").unwrap();
        fs::write(host.join("mlnx_qos-eth0.txt"), "x").unwrap();
        let bytes = archive(&[("host1/sys/class/net/eth0/mtu", b"9000\n\0\0"), ("host1/mlnx_qos-eth0.txt", b"x")]);
        fs::write(folder.path().join("a.tar"), &bytes).unwrap();
        let mut gz = GzEncoder::new(Vec::new(), Compression::fast());
        gz.write_all(&bytes).unwrap();
        fs::write(folder.path().join("b.tar.gz"), gz.finish().unwrap()).unwrap();
        for path in ["host1", "a.tar", "b.tar.gz"] {
            let dump = Dump::open(&folder.path().join(path), "host1").unwrap();
            assert_eq!(dump.list(""), ["mlnx_qos-eth0.txt", "sys"], "{path}");
            assert_eq!(dump.list("sys/class/net"), ["eth0"], "{path}");
            assert_eq!(dump.read("sys/class/net/eth0/mtu").unwrap().unwrap(), "9000\n", "{path}");
            assert_eq!(dump.read("sys/class/net/eth1/mtu").unwrap(), None, "{path}");
            assert_eq!(dump.read("../secret").unwrap(), None, "{path}");
        }
        assert_eq!(
            (archive_name("h1.tgz"), archive_name("h.1.tar.gz"), archive_name("x.txt")),
            (Some("h1"), Some("h.1"), None)
        );
    }

    #[cfg(unix)]
    #[test]
    fn nothing_outside_the_device_is_read() {
        let folder = tempfile::tempdir().unwrap();
        let host = folder.path().join("host1");
        fs::create_dir(&host).unwrap();
        fs::write(folder.path().join("secret"), "s").unwrap();
        std::os::unix::fs::symlink("../secret", host.join("mlnx_qos-eth0.txt")).unwrap();
        std::os::unix::fs::symlink("..", host.join("sys")).unwrap();
        let dump = Dump::open(&host, "host1").unwrap();
        assert_eq!(dump.read("mlnx_qos-eth0.txt").unwrap(), None);
        assert_eq!(dump.read("sys/secret").unwrap(), None);
        assert!(dump.list("sys").is_empty());
        fs::write(folder.path().join("c.tar"), archive(&[("../../etc/passwd", b"root"), ("/abs", b"x")])).unwrap();
        let dump = Dump::open(&folder.path().join("c.tar"), "c").unwrap();
        assert_eq!(dump.list(""), ["abs", "etc"], "paths stay inside");
    }

    #[test]
    fn an_archive_that_is_none_is_refused() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("h.tar.gz");
        fs::write(&path, "not gzip").unwrap();
        let error = Dump::open(&path, "h").err().unwrap().to_string();
        assert!(error.contains("h.tar.gz: is not a usable tar archive: "), "{error}");
        // gzip compresses zeros to about a thousandth of their size.
        let mut gz = GzEncoder::new(Vec::new(), Compression::fast());
        let mut header = tar::Header::new_gnu();
        header.set_path("big").unwrap();
        header.set_size(66 << 20);
        header.set_cksum();
        gz.write_all(header.as_bytes()).unwrap();
        let zeros = vec![0; 1 << 20];
        (0..66).for_each(|_| gz.write_all(&zeros).unwrap());
        fs::write(&path, gz.finish().unwrap()).unwrap();
        let error = Dump::open(&path, "h").err().unwrap().to_string();
        assert!(error.contains("more than"), "{error}");
    }
}
