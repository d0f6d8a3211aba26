//! The kernel and initramfs of the guest, which `build_guest.py` builds.

use crate::error::{Error, Result};
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

/// The directory of a built guest.
#[derive(Clone, Debug)]
pub struct GuestImage {
    directory: PathBuf,
}

impl GuestImage {
    /// Builds the guest, or finds it if it is already built. `build_guest.py` prints its progress on standard error.
    ///
    /// # Errors
    /// If Python is missing or `build_guest.py` fails. It prints the reason on standard error.
    pub fn build() -> Result<GuestImage> {
        GuestImage::build_with(&[])
    }

    /// As [`GuestImage::build`], for the larger guest that has the programs of the ladder (`tests/ladder`).
    ///
    /// # Errors
    /// As [`GuestImage::build`].
    pub fn build_for_ladder() -> Result<GuestImage> {
        GuestImage::build_with(&["--ladder"])
    }

    fn build_with(arguments: &[&str]) -> Result<GuestImage> {
        let program = Path::new(env!("CARGO_MANIFEST_DIR")).join("build_guest.py");
        let output = Command::new("python3")
            .arg(&program)
            .args(arguments)
            .stdin(Stdio::null())
            .stderr(Stdio::inherit())
            .output()
            .map_err(|error| Error::Image(format!("python3 cannot be run: {error}")))?;
        let text = String::from_utf8_lossy(&output.stdout);
        match text.lines().last() {
            Some(directory) if output.status.success() => Ok(GuestImage { directory: directory.into() }),
            _ => Err(Error::Image(format!("{} failed", program.display()))),
        }
    }

    /// Path of the kernel's ELF image.
    pub fn kernel(&self) -> PathBuf {
        self.directory.join("vmlinux")
    }

    /// Path of the initramfs.
    pub fn initramfs(&self) -> PathBuf {
        self.directory.join("initramfs.cpio")
    }
}
