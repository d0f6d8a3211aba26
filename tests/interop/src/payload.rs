//! Files that a case adds to its guest: a second archive behind the initramfs, which the kernel unpacks too.

use crate::error::{Error, Result};
use std::fs::File;
use std::io::{self, Write};
use std::path::{Path, PathBuf};

/// A file of this machine that the guest has at the path `path`.
#[derive(Clone, Debug)]
pub struct GuestFile {
    /// Absolute path in the guest, in a directory that exists there.
    pub path: String,
    /// The file on this machine.
    pub source: PathBuf,
}

/// Writes `initramfs`, followed by an archive of `files`, to `path`.
///
/// # Errors
/// If a file cannot be read or written.
pub(crate) fn append(initramfs: &Path, files: &[GuestFile], path: &Path) -> Result<()> {
    let mut out = File::create(path).map_err(Error::file(path))?;
    let mut base = File::open(initramfs).map_err(Error::file(initramfs))?;
    let length = io::copy(&mut base, &mut out).map_err(Error::file(path))?;
    // An archive begins at a multiple of four bytes.
    out.write_all(&[0; 4][..(4 - length as usize % 4) % 4]).map_err(Error::file(path))?;
    for file in files {
        let bytes = std::fs::read(&file.source).map_err(Error::file(&file.source))?;
        entry(&mut out, file.path.trim_start_matches('/'), 0o100_755, &bytes).map_err(Error::file(path))?;
    }
    entry(&mut out, "TRAILER!!!", 0, &[]).map_err(Error::file(path))
}

/// Writes an entry of a cpio archive in the format "newc": a header of 110 hexadecimal digits, the name with a zero,
/// and the content, both padded to a multiple of four bytes.
fn entry(out: &mut impl Write, name: &str, mode: u32, bytes: &[u8]) -> io::Result<()> {
    let fields = [0, mode, 0, 0, 1, 0, bytes.len() as u32, 0, 0, 0, 0, name.len() as u32 + 1, 0];
    let header: String = fields.iter().map(|field| format!("{field:08x}")).collect();
    let head = format!("070701{header}{name}\0");
    let padding = |length: usize| &[0_u8; 4][..(4 - length % 4) % 4];
    out.write_all(head.as_bytes())?;
    out.write_all(padding(head.len()))?;
    out.write_all(bytes)?;
    out.write_all(padding(bytes.len()))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_entry_is_padded() {
        let mut out = Vec::new();
        entry(&mut out, "tmp/a", 0o100_644, b"hello").unwrap();
        // 110 bytes of header, six of name, no padding; five of content and three of padding.
        assert_eq!(out.len(), 116 + 8);
        assert_eq!(&out[..22], b"07070100000000000081a4");
        assert_eq!((&out[54..62], &out[94..102]), (&b"00000005"[..], &b"00000006"[..]));
        assert_eq!(&out[110..], b"tmp/a\0hello\0\0\0");
    }
}
