//! Memory that several processes share, for registration with an RDMA device: [`SharedMemory`].
//!
//! The memory is a file without a name (`memfd_create`) that cannot shrink, so that no access to a mapped page fails.
//! The module has `unsafe` code for the registration of a map; only the module of rings has `unsafe` code too.

#![allow(unsafe_code)]

use memmap2::MmapOptions;
use nix::errno::Errno;
use nix::fcntl::{FallocateFlags, FcntlArg, SealFlag, fallocate, fcntl};
use nix::sys::memfd::{MFdFlags, memfd_create};
use rnic_verbs::ForeignMemory;
use std::fs::File;
use std::io;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::os::unix::fs::MetadataExt;

/// Why memory cannot be shared.
#[derive(Debug, thiserror::Error)]
pub enum MemoryError {
    /// The length cannot be that of shared memory.
    #[error("{len} bytes of shared memory are not possible: the length must be a multiple of {unit}, and not 0")]
    Length {
        /// The length in bytes.
        len: usize,
        /// Length of a page in bytes; 1 for pages of the usual size.
        unit: usize,
    },
    /// There is too little memory.
    #[error("{len} bytes of shared memory are too many: the system has {available} bytes available")]
    NoMemory {
        /// The length in bytes.
        len: usize,
        /// Number of bytes that the system could give to programs.
        available: usize,
    },
    /// There are too few huge pages.
    #[error("the system has no {len} bytes of huge pages left; `sysctl vm.nr_hugepages` sets their number")]
    NoHugePages {
        /// The length in bytes.
        len: usize,
    },
    /// A process could truncate the file, which would make accesses to its memory fail.
    #[error("the file can shrink; only a memfd with the seal F_SEAL_SHRINK can be shared memory")]
    CanShrink,
    /// A system call failed.
    #[error("shared memory: {0}")]
    Io(#[from] io::Error),
}

impl From<Errno> for MemoryError {
    fn from(error: Errno) -> MemoryError {
        MemoryError::Io(error.into())
    }
}

/// The size of the pages of [`SharedMemory`].
#[derive(Clone, Copy, PartialEq, Eq, Default, Debug)]
pub enum Pages {
    /// Pages of the usual size, 4 KiB on most systems.
    #[default]
    Usual,
    /// Huge pages of 2 MiB. The system must have reserved them (`sysctl vm.nr_hugepages`).
    Huge2M,
    /// Huge pages of 1 GiB. The system must have reserved them.
    Huge1G,
}

impl Pages {
    /// Number of bytes of which the length must be a multiple.
    const fn unit(self) -> usize {
        match self {
            Pages::Usual => 1,
            Pages::Huge2M => 2 << 20,
            Pages::Huge1G => 1 << 30,
        }
    }
}

/// Memory that processes share. Each process that has its file descriptor can map it, register it with a device, or
/// read and write the file.
///
/// A process passes the descriptor on by inheritance, or over a Unix socket, and the other process calls
/// [`SharedMemory::open`]. Without a device it reads and writes the bytes with `FileExt::read_at` and `write_at` of the
/// standard library. The processes must agree which process accesses which bytes at which time, as they must with a
/// peer: RDMA gives no guarantee for bytes that several parties access at the same time.
///
/// ```
/// use rnic_endpoint::{Pages, SharedMemory};
/// use rnic_verbs::{Access, Device, DeviceConfig};
/// use std::os::unix::fs::FileExt;
///
/// # fn main() -> Result<(), Box<dyn std::error::Error>> {
/// let memory = SharedMemory::create(1 << 20, Pages::Usual)?;
/// let mut device = Device::new(DeviceConfig::default());
/// let pd = device.create_pd();
/// let region = device.register_foreign(pd, memory.map()?, None, Access::ALL)?;
/// device.write_memory(region.id, 0, b"hello")?;
///
/// // Another process has inherited the descriptor.
/// let theirs = SharedMemory::open(memory.file().try_clone()?.into())?;
/// let mut bytes = [0; 5];
/// theirs.file().read_at(&mut bytes, 0)?;
/// assert_eq!(&bytes, b"hello");
/// # Ok(())
/// # }
/// ```
#[derive(Debug)]
pub struct SharedMemory {
    file: File,
    len: usize,
}

impl SharedMemory {
    /// Creates shared memory of `len` zero bytes. The system reserves all of it now, so that no later access fails for
    /// lack of memory, unless a process takes pages out of the file.
    ///
    /// # Errors
    /// If `len` is 0 or not a multiple of the size of huge pages, or the system has too little memory or too few huge
    /// pages.
    pub fn create(len: usize, pages: Pages) -> Result<SharedMemory, MemoryError> {
        let unit = pages.unit();
        if len == 0 || !len.is_multiple_of(unit) || i64::try_from(len).is_err() {
            return Err(MemoryError::Length { len, unit });
        }
        if pages == Pages::Usual {
            check_room(len, available_now())?;
        }
        let huge = match pages {
            Pages::Usual => MFdFlags::empty(),
            Pages::Huge2M => MFdFlags::MFD_HUGETLB | MFdFlags::MFD_HUGE_2MB,
            Pages::Huge1G => MFdFlags::MFD_HUGETLB | MFdFlags::MFD_HUGE_1GB,
        };
        let none = |error: Errno| match error {
            Errno::ENOMEM | Errno::ENOSPC | Errno::ENOENT | Errno::ENODEV if pages != Pages::Usual => {
                MemoryError::NoHugePages { len }
            }
            error => error.into(),
        };
        let flags = MFdFlags::MFD_CLOEXEC | MFdFlags::MFD_ALLOW_SEALING | huge;
        let file = File::from(memfd_create("rnic", flags).map_err(none)?);
        file.set_len(len as u64)?;
        fcntl(&file, FcntlArg::F_ADD_SEALS(SealFlag::F_SEAL_SHRINK | SealFlag::F_SEAL_GROW))?;
        fallocate(&file, FallocateFlags::empty(), 0, len as i64).map_err(none)?;
        Ok(SharedMemory { file, len })
    }

    /// Opens shared memory that another process has created, by its file descriptor.
    ///
    /// # Errors
    /// If the descriptor does not belong to shared memory, that is, to a memfd that cannot shrink and is not empty.
    pub fn open(fd: OwnedFd) -> Result<SharedMemory, MemoryError> {
        let file = File::from(fd);
        // Other files have no seals.
        let seals = fcntl(&file, FcntlArg::F_GET_SEALS).map_err(|_| MemoryError::CanShrink)?;
        if !SealFlag::from_bits_truncate(seals).contains(SealFlag::F_SEAL_SHRINK) {
            return Err(MemoryError::CanShrink);
        }
        let metadata = file.metadata()?;
        let len = metadata.len() as usize;
        if len == 0 {
            return Err(MemoryError::Length { len, unit: 1 });
        }
        // The creator may have reserved only some of the memory, or none. A block of the system call has 512 bytes.
        let missing = len.saturating_sub(metadata.blocks() as usize * 512);
        if missing > 0 {
            check_room(missing, available_now())?;
            fallocate(&file, FallocateFlags::empty(), 0, len as i64)?;
        }
        Ok(SharedMemory { file, len })
    }

    /// Length in bytes.
    pub fn len(&self) -> usize {
        self.len
    }

    /// Whether the memory has length 0. It never has.
    pub fn is_empty(&self) -> bool {
        self.len == 0
    }

    /// The file that holds the bytes.
    pub fn file(&self) -> &File {
        &self.file
    }

    /// Maps the memory, for the registration with a device. Each call returns another map of the same bytes, which
    /// stays until the region is deregistered.
    ///
    /// # Errors
    /// When the process has no room in its address space, or the file admits no writes.
    pub fn map(&self) -> Result<ForeignMemory, MemoryError> {
        let map = MmapOptions::new().len(self.len).map_raw(&self.file)?;
        // SAFETY: the map is readable and writable for `len` bytes, from any thread, as long as its owner lives: the
        // file has been this long, and its seal keeps it from shrinking. No code of this process has a pointer to this
        // map, so it neither makes references to the bytes nor accesses them through it. Accesses through other maps
        // and by other processes are like those of an RDMA peer: the bytes may change at any time.
        let memory = unsafe { ForeignMemory::new(map.as_mut_ptr(), self.len) };
        Ok(memory.with_owner(map))
    }
}

/// Refuses a length that exceeds the available memory, if this is known. The system itself would not refuse it, but end
/// other programs to free memory.
fn check_room(len: usize, available: Option<usize>) -> Result<(), MemoryError> {
    match available {
        Some(available) if len > available => Err(MemoryError::NoMemory { len, available }),
        _ => Ok(()),
    }
}

fn available_now() -> Option<usize> {
    available(&std::fs::read_to_string("/proc/meminfo").ok()?)
}

/// The bytes of memory that the system could give to programs, from the text of `/proc/meminfo`.
fn available(meminfo: &str) -> Option<usize> {
    let kibibytes = meminfo.lines().find_map(|line| line.strip_prefix("MemAvailable:")?.strip_suffix("kB"))?;
    kibibytes.trim().parse::<usize>().ok()?.checked_mul(1_024)
}

impl AsFd for SharedMemory {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.file.as_fd()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use rnic_verbs::{Access, Device, DeviceConfig};
    use std::os::unix::fs::FileExt;

    #[test]
    fn two_maps_and_the_file_have_the_same_bytes() {
        let memory = SharedMemory::create(10_000, Pages::Usual).unwrap();
        let mut devices = [(); 2].map(|()| Device::new(DeviceConfig::default()));
        let regions = devices.each_mut().map(|device| {
            let pd = device.create_pd();
            device.register_foreign(pd, memory.map().unwrap(), None, Access::ALL).unwrap()
        });
        assert_ne!(regions[0].addr, regions[1].addr);
        devices[0].write_memory(regions[0].id, 9_995, b"12345").unwrap();
        let mut bytes = [0; 5];
        devices[1].read_memory(regions[1].id, 9_995, &mut bytes).unwrap();
        assert_eq!(&bytes, b"12345");
        memory.file().write_at(b"abc", 0).unwrap();
        devices[1].read_memory(regions[1].id, 0, &mut bytes).unwrap();
        assert_eq!(&bytes, b"abc\0\0");
        // The maps outlive the handle of the memory, and end with the regions.
        drop(memory);
        devices[1].read_memory(regions[1].id, 0, &mut bytes).unwrap();
        devices[0].deregister(regions[0].id).unwrap();
        assert!(devices[0].read_memory(regions[0].id, 0, &mut bytes).is_err());
        assert!(devices[1].read_memory(regions[1].id, 10_000, &mut bytes[..1]).is_err());
    }

    #[test]
    fn the_memory_cannot_shrink() {
        let memory = SharedMemory::create(4_096, Pages::Usual).unwrap();
        assert!(memory.file().set_len(0).is_err() && memory.file().set_len(8_192).is_err());
        assert_eq!(memory.file().metadata().unwrap().len(), 4_096);
    }

    #[test]
    fn a_file_that_can_shrink_is_refused_and_one_without_pages_gets_them() {
        let unsealed = memfd_create("test", MFdFlags::MFD_CLOEXEC | MFdFlags::MFD_ALLOW_SEALING).unwrap();
        File::from(unsealed.try_clone().unwrap()).set_len(10).unwrap();
        assert!(matches!(SharedMemory::open(unsealed), Err(MemoryError::CanShrink)));
        let null = File::open("/dev/null").unwrap();
        let error = SharedMemory::open(null.into()).unwrap_err().to_string();
        assert_eq!(error, "the file can shrink; only a memfd with the seal F_SEAL_SHRINK can be shared memory");
        let sparse = File::from(memfd_create("test", MFdFlags::MFD_ALLOW_SEALING).unwrap());
        sparse.set_len(1 << 20).unwrap();
        fcntl(&sparse, FcntlArg::F_ADD_SEALS(SealFlag::F_SEAL_SHRINK)).unwrap();
        assert_eq!(sparse.metadata().unwrap().blocks(), 0);
        let opened = SharedMemory::open(sparse.into()).unwrap();
        assert_eq!((opened.len(), opened.file().metadata().unwrap().blocks()), (1 << 20, 2_048));
        let empty = memfd_create("test", MFdFlags::MFD_CLOEXEC | MFdFlags::MFD_ALLOW_SEALING).unwrap();
        fcntl(&empty, FcntlArg::F_ADD_SEALS(SealFlag::F_SEAL_SHRINK)).unwrap();
        assert!(matches!(SharedMemory::open(empty), Err(MemoryError::Length { len: 0, unit: 1 })));
    }

    #[test]
    fn wrong_lengths_are_refused() {
        for (len, pages, unit) in [(0, Pages::Usual, 1), (4_096, Pages::Huge2M, 2 << 20), (0, Pages::Huge2M, 2 << 20)] {
            let error = SharedMemory::create(len, pages).unwrap_err().to_string();
            let expected = format!(
                "{len} bytes of shared memory are not possible: the length must be a multiple of {unit}, and not 0"
            );
            assert_eq!(error, expected);
        }
        assert!(matches!(SharedMemory::create(usize::MAX, Pages::Usual), Err(MemoryError::Length { .. })));
    }

    #[test]
    fn more_than_the_available_memory_is_refused() {
        let meminfo = "MemTotal:       1000 kB\nMemFree:          10 kB\nMemAvailable:    500 kB\nSwapFree: 100 kB\n";
        assert_eq!(available(meminfo), Some(512_000));
        assert_eq!(available("MemTotal: 1 kB\nMemAvailable: x kB\n"), None);
        assert!(check_room(512_000, Some(512_000)).is_ok() && check_room(usize::MAX, None).is_ok());
        let error = check_room(512_001, Some(512_000)).unwrap_err().to_string();
        assert_eq!(error, "512001 bytes of shared memory are too many: the system has 512000 bytes available");
        let actual = std::fs::read_to_string("/proc/meminfo").unwrap();
        assert!(available(&actual).unwrap() > 1 << 20);
    }

    /// Most machines have no huge pages reserved.
    #[test]
    fn huge_pages_are_used_or_missed_with_a_sentence() {
        for pages in [Pages::Huge2M, Pages::Huge1G] {
            match SharedMemory::create(pages.unit(), pages) {
                Ok(memory) => assert_eq!(memory.map().unwrap().len(), pages.unit()),
                Err(error) => assert!(matches!(error, MemoryError::NoHugePages { .. }), "{error}"),
            }
        }
    }
}
