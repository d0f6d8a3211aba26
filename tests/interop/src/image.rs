//! The guest's kernel and initramfs, as `build_guest.py` leaves them.

use crate::error::{Error, Result};
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

/// Where a built guest lies.
#[derive(Clone, Debug)]
pub struct GuestImage {
    directory: PathBuf,
}

impl GuestImage {
    /// Builds the guest, or finds it built. Progress goes to standard error.
    ///
    /// # Errors
    /// If Python is missing or the program fails; it has said why on standard error.
    pub fn build() -> Result<GuestImage> {
        let program = Path::new(env!("CARGO_MANIFEST_DIR")).join("build_guest.py");
        let output = Command::new("python3")
            .arg(&program)
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

    /// The kernel.
    pub fn kernel(&self) -> PathBuf {
        self.directory.join("vmlinux")
    }

    /// The initramfs.
    pub fn initramfs(&self) -> PathBuf {
        self.directory.join("initramfs.cpio")
    }
}
