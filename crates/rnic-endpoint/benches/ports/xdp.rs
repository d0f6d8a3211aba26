//! Frames by AF_XDP: rings of frames in memory that the program shares with the kernel. Virtual links have no mode
//! without copies, so the kernel copies each frame at both ends.

use super::{BATCHES, Failure, Receiving, Sending, Shape, device_index};
use nix::libc;
use rnic_netns::Pair;
use std::io;
use std::net::IpAddr;
use std::os::fd::{AsRawFd, FromRawFd, OwnedFd, RawFd};
use std::ptr;
use std::sync::atomic::{AtomicU32, Ordering};

const FRAME: usize = 2_048;
const FRAMES: u32 = 2_048;
/// Ethernet, IPv4 and UDP headers.
const HEADERS: usize = 14 + 20 + 8;

fn check(result: libc::c_long) -> Result<libc::c_long, Failure> {
    if result < 0 { Err(io::Error::last_os_error().into()) } else { Ok(result) }
}

/// Memory that is mapped until the end of the program.
fn map(fd: Option<&OwnedFd>, len: usize, offset: i64) -> Result<*mut u8, Failure> {
    let (flags, fd) = match fd {
        Some(fd) => (libc::MAP_SHARED | libc::MAP_POPULATE, fd.as_raw_fd()),
        None => (libc::MAP_PRIVATE | libc::MAP_ANONYMOUS | libc::MAP_POPULATE, -1),
    };
    // SAFETY: a new mapping at an address that the kernel chooses.
    let at = unsafe { libc::mmap(ptr::null_mut(), len, libc::PROT_READ | libc::PROT_WRITE, flags, fd, offset) };
    if at == libc::MAP_FAILED { Err(io::Error::last_os_error().into()) } else { Ok(at.cast()) }
}

/// One of the four rings of a socket. This program either produces its entries or consumes them.
struct Ring {
    producer: *const AtomicU32,
    consumer: *const AtomicU32,
    entries: *mut u8,
}

impl Ring {
    /// A ring whose entries have `entry` bytes.
    fn new(
        socket: &OwnedFd, option: i32, offset: i64, at: &libc::xdp_ring_offset, entry: usize,
    ) -> Result<Ring, Failure> {
        set(socket, option, &FRAMES)?;
        let len = at.desc as usize + FRAMES as usize * entry;
        let base = map(Some(socket), len, offset)?;
        // SAFETY: the offsets, which the kernel has told, lie within the mapping.
        unsafe {
            Ok(Ring {
                producer: base.add(at.producer as usize).cast(),
                consumer: base.add(at.consumer as usize).cast(),
                entries: base.add(at.desc as usize),
            })
        }
    }

    fn counters(&self) -> (&AtomicU32, &AtomicU32) {
        // SAFETY: both point into a mapping that is never unmapped, and are aligned.
        unsafe { (&*self.producer, &*self.consumer) }
    }

    /// Adds entries; there is room for them.
    fn produce<T: Copy>(&self, entries: impl Iterator<Item = T>) {
        let (producer, _) = self.counters();
        let mut at = producer.load(Ordering::Relaxed);
        for entry in entries {
            // SAFETY: the index is within the ring, whose entries are of this type, and the kernel does not read it.
            unsafe { self.entries.cast::<T>().add((at % FRAMES) as usize).write(entry) };
            at = at.wrapping_add(1);
        }
        producer.store(at, Ordering::Release);
    }

    /// Takes all entries that are there.
    fn consume<T: Copy>(&self, mut each: impl FnMut(T)) -> u32 {
        let (producer, consumer) = self.counters();
        let (start, end) = (consumer.load(Ordering::Relaxed), producer.load(Ordering::Acquire));
        let count = end.wrapping_sub(start);
        for at in 0..count {
            // SAFETY: as in `produce`; the kernel has written these entries.
            each(unsafe { self.entries.cast::<T>().add((start.wrapping_add(at) % FRAMES) as usize).read() });
        }
        consumer.store(end, Ordering::Release);
        count
    }

    /// Whether the consumer has taken all entries.
    fn is_empty(&self) -> bool {
        let (producer, consumer) = self.counters();
        producer.load(Ordering::Relaxed) == consumer.load(Ordering::Acquire)
    }
}

fn set<T>(socket: &OwnedFd, option: i32, value: &T) -> Result<(), Failure> {
    let (at, len) = (ptr::from_ref(value).cast(), size_of::<T>() as u32);
    // SAFETY: `at` points to `len` bytes.
    check(unsafe { libc::setsockopt(socket.as_raw_fd(), libc::SOL_XDP, option, at, len) }.into()).map(drop)
}

/// A socket with its memory and rings, on the first queue of a device.
struct Xsk {
    socket: OwnedFd,
    memory: *mut u8,
    fill: Ring,
    completion: Ring,
    receive: Ring,
    transmit: Ring,
}

// SAFETY: one thread at a time uses the socket and its rings.
unsafe impl std::marker::Send for Xsk {}

impl Xsk {
    /// Opens a socket on the virtual link's device in the namespace of the calling thread.
    fn open() -> Result<Xsk, Failure> {
        // SAFETY: the result is a new descriptor, or an error that is checked first.
        let socket =
            unsafe { OwnedFd::from_raw_fd(check(libc::socket(libc::AF_XDP, libc::SOCK_RAW, 0).into())? as i32) };
        let len = FRAME * FRAMES as usize;
        let memory = map(None, len, 0)?;
        // SAFETY: a registration whose bytes are all zero is valid.
        let mut registration: libc::xdp_umem_reg = unsafe { std::mem::zeroed() };
        (registration.addr, registration.len) = (memory as u64, len as u64);
        registration.chunk_size = FRAME as u32;
        set(&socket, libc::XDP_UMEM_REG, &registration)?;
        // SAFETY: the kernel writes at most `size` bytes to the offsets, and all of them if it succeeds.
        let offsets = unsafe {
            let mut offsets: libc::xdp_mmap_offsets = std::mem::zeroed();
            let mut size = size_of::<libc::xdp_mmap_offsets>() as u32;
            let at = ptr::from_mut(&mut offsets).cast();
            let fd = socket.as_raw_fd();
            check(libc::getsockopt(fd, libc::SOL_XDP, libc::XDP_MMAP_OFFSETS, at, &raw mut size).into())?;
            offsets
        };
        let ring = |option, offset, at, entry| Ring::new(&socket, option, offset, at, entry);
        let (address, frame) = (size_of::<u64>(), size_of::<libc::xdp_desc>());
        let fill = ring(libc::XDP_UMEM_FILL_RING, libc::XDP_UMEM_PGOFF_FILL_RING as i64, &offsets.fr, address)?;
        let completed = libc::XDP_UMEM_PGOFF_COMPLETION_RING as i64;
        let completion = ring(libc::XDP_UMEM_COMPLETION_RING, completed, &offsets.cr, address)?;
        let receive = ring(libc::XDP_RX_RING, libc::XDP_PGOFF_RX_RING, &offsets.rx, frame)?;
        let transmit = ring(libc::XDP_TX_RING, libc::XDP_PGOFF_TX_RING, &offsets.tx, frame)?;
        let address = libc::sockaddr_xdp {
            sxdp_family: libc::AF_XDP as u16,
            sxdp_flags: libc::XDP_COPY,
            sxdp_ifindex: device_index()?,
            sxdp_queue_id: 0,
            sxdp_shared_umem_fd: 0,
        };
        let len = size_of_val(&address) as u32;
        // SAFETY: the address has `len` bytes.
        check(unsafe { libc::bind(socket.as_raw_fd(), (&raw const address).cast(), len) }.into())?;
        Ok(Xsk { socket, memory, fill, completion, receive, transmit })
    }

    /// The memory of a frame.
    fn frame(&mut self, index: usize) -> &mut [u8] {
        // SAFETY: the frame is within the memory, which is never unmapped, and the kernel does not use it yet.
        unsafe { std::slice::from_raw_parts_mut(self.memory.add(index * FRAME), FRAME) }
    }
}

fn bpf(command: i64, attributes: &[u64]) -> Result<OwnedFd, Failure> {
    // SAFETY: the attributes have this length; the kernel takes those behind the ones that a command has for zero.
    let fd = check(unsafe { libc::syscall(libc::SYS_bpf, command, attributes.as_ptr(), size_of_val(attributes)) })?;
    // SAFETY: the commands that this bench uses return a new descriptor, except the update of a map, which returns 0.
    Ok(unsafe { OwnedFd::from_raw_fd(if command == MAP_UPDATE { libc::dup(0) } else { fd as i32 }) })
}

const MAP_CREATE: i64 = 0;
const MAP_UPDATE: i64 = 2;
const PROG_LOAD: i64 = 5;
const LINK_CREATE: i64 = 28;

/// Directs the frames that arrive at the device to the socket. The result keeps the program attached.
fn redirect(to: RawFd) -> Result<OwnedFd, Failure> {
    const XSKMAP: u64 = 17;
    const XDP_PROGRAM: u64 = 6;
    const XDP_ATTACHMENT: u64 = 37;
    const DRIVER_MODE: u64 = 1 << 2;
    let pair = |low: u64, high: u64| low | high << 32;
    let sockets = bpf(MAP_CREATE, &[pair(XSKMAP, 4), pair(4, 1)])?;
    let (key, value) = (0u32, to);
    let at = [&raw const key as u64, &raw const value as u64];
    bpf(MAP_UPDATE, &[sockets.as_raw_fd() as u64, at[0], at[1], 0])?;
    let instruction =
        |code: u64, registers: u64, offset: u64, immediate: u64| code | registers << 8 | offset << 16 | immediate << 32;
    // return bpf_redirect_map(&sockets, ctx->rx_queue_index, XDP_PASS)
    let program = [
        instruction(0x61, 0x12, 16, 0),
        instruction(0x18, 0x11, 0, sockets.as_raw_fd() as u64),
        0,
        instruction(0xb7, 0x03, 0, 2),
        instruction(0x85, 0, 0, 51),
        instruction(0x95, 0, 0, 0),
    ];
    let license = c"Dual MIT/GPL";
    let attributes = [pair(XDP_PROGRAM, program.len() as u64), program.as_ptr() as u64, license.as_ptr() as u64];
    let program = bpf(PROG_LOAD, &attributes)?;
    let attributes = [pair(program.as_raw_fd() as u64, device_index()?.into()), pair(XDP_ATTACHMENT, DRIVER_MODE)];
    bpf(LINK_CREATE, &attributes)
}

/// Writes the headers of a datagram between the two ends of the link. UDP has no checksum, which IPv4 allows.
fn headers(segment: usize) -> [u8; HEADERS] {
    let mut bytes = [0; HEADERS];
    bytes[..6].copy_from_slice(&[2, 0, 0, 0, 0, 2]);
    bytes[6..12].copy_from_slice(&[2, 0, 0, 0, 0, 1]);
    bytes[12..14].copy_from_slice(&[8, 0]);
    bytes[14..26].copy_from_slice(&[0x45, 0, 0, 0, 0, 0, 0x40, 0, 64, 17, 0, 0]);
    bytes[16..18].copy_from_slice(&((20 + 8 + segment) as u16).to_be_bytes());
    for (at, address) in [(26, Pair::A4), (30, Pair::B4)] {
        let IpAddr::V4(address) = address else { continue };
        bytes[at..at + 4].copy_from_slice(&address.octets());
    }
    let sum: u32 = bytes[14..34].chunks(2).map(|word| u32::from(u16::from_be_bytes([word[0], word[1]]))).sum();
    let sum = (sum & 0xffff) + (sum >> 16);
    bytes[24..26].copy_from_slice(&(!(sum as u16)).to_be_bytes());
    bytes[34..38].copy_from_slice(&[0xc0, 0, 0x12, 0xb7]);
    bytes[38..40].copy_from_slice(&((8 + segment) as u16).to_be_bytes());
    bytes
}

pub(super) fn ways(pair: &Pair, shape: Shape) -> Result<(Sending<'static>, Receiving<'static>), Failure> {
    let mut from = pair.a.run(Xsk::open)?;
    let to = pair.b.run(Xsk::open)?;
    let socket = to.socket.as_raw_fd();
    let link = pair.b.run(|| redirect(socket))?;
    let count = BATCHES * shape.count;
    if count > FRAMES as usize || HEADERS + shape.segment > FRAME {
        return Err("the frames do not fit into the rings".into());
    }
    // The program writes its packets into the frames, so their bytes are there when they are to be sent.
    for index in 0..count {
        let frame = from.frame(index);
        frame[..HEADERS].copy_from_slice(&headers(shape.segment));
        frame[HEADERS..HEADERS + shape.segment].fill(7);
    }
    to.fill.produce((0..u64::from(FRAMES)).map(|index| index * FRAME as u64));

    let send: Sending<'static> = Box::new(move |_, shape| {
        let len = (HEADERS + shape.segment) as u32;
        let entry = |index| libc::xdp_desc { addr: (index * FRAME) as u64, len, options: 0 };
        from.transmit.produce((0..BATCHES * shape.count).map(entry));
        while !from.transmit.is_empty() {
            // SAFETY: a call without buffers, which lets the kernel send the frames of the ring.
            let sent =
                unsafe { libc::sendto(from.socket.as_raw_fd(), ptr::null(), 0, libc::MSG_DONTWAIT, ptr::null(), 0) };
            if sent < 0 {
                let error = io::Error::last_os_error();
                let again = [libc::EAGAIN, libc::EBUSY, libc::ENOBUFS];
                if !error.raw_os_error().is_some_and(|code| again.contains(&code)) {
                    return Err(error.into());
                }
            }
            from.completion.consume(|_: u64| {});
        }
        from.completion.consume(|_: u64| {});
        Ok(())
    });
    let receive: Receiving<'static> = Box::new(move || {
        let _ = &link;
        let mut bytes = 0;
        let mut frames = Vec::with_capacity(FRAMES as usize);
        to.receive.consume(|entry: libc::xdp_desc| {
            // Frames of other protocols, such as neighbour discovery, come too.
            if entry.len as usize == HEADERS + shape.segment {
                bytes += shape.segment;
            }
            frames.push(entry.addr & !(FRAME as u64 - 1));
        });
        to.fill.produce(frames.into_iter());
        Ok(bytes)
    });
    Ok((send, receive))
}
