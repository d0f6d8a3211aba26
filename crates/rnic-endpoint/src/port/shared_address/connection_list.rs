//! The file in memory with the connection list of a manager ([`rnic_cm::connection_list`]). The file has no name: other
//! processes receive its descriptor, so that it exists until the last of them closes it, also if its writer is killed.

use super::SharedAddressError;
use nix::errno::Errno;
use nix::fcntl::{FcntlArg, fcntl};
use nix::sys::memfd::{MFdFlags, memfd_create};
use rnic_cm::connection_list::{ENTRY_LEN, MAX_CONNECTIONS};
use std::fs::File;
use std::io;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::os::unix::fs::FileExt;

/// The connection list of a manager of this process or of another process. Only the process of the manager writes the
/// list until it ends; afterwards only the process that ends the manager's connections writes it.
#[derive(Debug)]
pub struct ConnectionList(File);

impl ConnectionList {
    /// Makes an empty list.
    ///
    /// # Errors
    /// The system has no files in memory, or no descriptors.
    pub fn create() -> Result<ConnectionList, SharedAddressError> {
        match memfd_create(c"rnic-connections", MFdFlags::MFD_CLOEXEC) {
            Ok(file) => Ok(ConnectionList(file.into())),
            Err(error) => Err(SharedAddressError::ConnectionList(error as i32)),
        }
    }

    /// Makes a connection list from a descriptor that another process has sent. `None` if the descriptor is not a file
    /// in memory, because reading from another kind of descriptor could block.
    pub(super) fn from_descriptor(file: OwnedFd) -> Option<ConnectionList> {
        let is_memory: Result<_, Errno> = fcntl(&file, FcntlArg::F_GET_SEALS);
        is_memory.is_ok().then(|| ConnectionList(file.into()))
    }

    /// Writes a slot by one system call, so that the whole slot is written or nothing.
    ///
    /// # Errors
    /// The system has no memory, or the slot does not exist.
    pub fn write(&self, slot: u32, entry: &[u8; ENTRY_LEN]) -> io::Result<()> {
        if slot as usize >= MAX_CONNECTIONS {
            return Err(io::ErrorKind::InvalidInput.into());
        }
        self.0.write_all_at(entry, u64::from(slot) * ENTRY_LEN as u64)
    }

    /// Reads the bytes of all slots. The maximum number of bytes does not depend on the length of the file, because the
    /// writer of the file can change its length.
    pub(super) fn read(&self) -> Vec<u8> {
        let mut bytes = vec![0; MAX_CONNECTIONS * ENTRY_LEN];
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

impl AsFd for ConnectionList {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.0.as_fd()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_list_outlives_its_writer_and_is_bounded() {
        let list = ConnectionList::create().unwrap();
        let other = ConnectionList::from_descriptor(list.as_fd().try_clone_to_owned().unwrap()).unwrap();
        list.write(3, &[7; ENTRY_LEN]).unwrap();
        assert!(list.write(MAX_CONNECTIONS as u32, &[7; ENTRY_LEN]).is_err(), "a slot that does not exist");
        drop(list);
        assert_eq!(other.read()[3 * ENTRY_LEN..], [7; ENTRY_LEN]);
        // A writer that makes its file larger does not make its readers read more.
        other.0.set_len(1 << 40).unwrap();
        assert_eq!(other.read().len(), MAX_CONNECTIONS * ENTRY_LEN);
        other.0.set_len(5).unwrap();
        assert_eq!(other.read().len(), 5);
    }

    #[test]
    fn other_descriptors_are_refused() {
        let (pipe, _other) = nix::unistd::pipe().unwrap();
        assert!(ConnectionList::from_descriptor(pipe).is_none());
        assert!(ConnectionList::from_descriptor(File::open("/dev/zero").unwrap().into()).is_none());
        assert!(ConnectionList::from_descriptor(File::open("/proc/self/mem").unwrap().into()).is_none());
    }
}
