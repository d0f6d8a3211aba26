//! The file in which a communication manager lists its connections ([`rnic_cm::ledger`]). It has no name: other
//! processes get its descriptor, so that it exists until the last of them has closed it, also if its writer is killed.

use nix::errno::Errno;
use nix::fcntl::{FcntlArg, fcntl};
use nix::sys::memfd::{MFdFlags, memfd_create};
use rnic_cm::ledger::{LEN, MAX};
use std::fs::File;
use std::io;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::os::unix::fs::FileExt;

/// A ledger, of this process or of another one.
#[derive(Debug)]
pub(crate) struct Ledger(File);

impl Ledger {
    /// # Errors
    /// The system has no files in memory, or no descriptors.
    pub(crate) fn create() -> nix::Result<Ledger> {
        memfd_create(c"rnic-connections", MFdFlags::MFD_CLOEXEC).map(|file| Ledger(file.into()))
    }

    /// A descriptor that another process has sent; `None` if it is not one of a file in memory. Others could make their
    /// reader wait.
    pub(super) fn received(file: OwnedFd) -> Option<Ledger> {
        let is_memory: Result<_, Errno> = fcntl(&file, FcntlArg::F_GET_SEALS);
        is_memory.is_ok().then(|| Ledger(file.into()))
    }

    /// Writes a slot. One system call does it, so that it is written as a whole or not at all.
    ///
    /// # Errors
    /// There is no memory, or no such slot.
    pub(crate) fn write(&self, slot: u32, entry: &[u8; LEN]) -> io::Result<()> {
        if slot as usize >= MAX {
            return Err(io::ErrorKind::InvalidInput.into());
        }
        self.0.write_all_at(entry, u64::from(slot) * LEN as u64)
    }

    /// All slots, whatever the length of the file.
    pub(super) fn read(&self) -> Vec<u8> {
        let mut bytes = vec![0; MAX * LEN];
        let mut len = 0;
        while len < bytes.len() {
            match self.0.read_at(&mut bytes[len..], len as u64) {
                Ok(0) | Err(_) => break,
                Ok(more) => len += more,
            }
        }
        bytes.truncate(len);
        bytes
    }
}

impl AsFd for Ledger {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.0.as_fd()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_ledger_outlives_its_writer_and_is_bounded() {
        let ledger = Ledger::create().unwrap();
        let other = Ledger::received(ledger.as_fd().try_clone_to_owned().unwrap()).unwrap();
        ledger.write(3, &[7; LEN]).unwrap();
        assert!(ledger.write(MAX as u32, &[7; LEN]).is_err(), "a slot that does not exist");
        drop(ledger);
        assert_eq!(other.read()[3 * LEN..], [7; LEN]);
        // A writer that makes its file larger does not make its readers read more.
        other.0.set_len(1 << 40).unwrap();
        assert_eq!(other.read().len(), MAX * LEN);
        other.0.set_len(5).unwrap();
        assert_eq!(other.read().len(), 5);
    }

    #[test]
    fn other_descriptors_are_no_ledgers() {
        let (pipe, _other) = nix::unistd::pipe().unwrap();
        assert!(Ledger::received(pipe).is_none());
        assert!(Ledger::received(File::open("/dev/zero").unwrap().into()).is_none());
        assert!(Ledger::received(File::open("/proc/self/mem").unwrap().into()).is_none());
    }
}
