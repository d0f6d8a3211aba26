//! Rings of packets in memory that two processes share, and the bells by which a process learns which of its rings
//! contain packets.
//!
//! A ring has one sender and one receiver, in two processes of the same user. The sender appends records of packets,
//! the receiver copies them out. A receiver has a ring for each sender, and one [`Bell`] for all of its rings.
//!
//! # Trust
//!
//! The other process can write any bytes into the memory at any time, even while this process reads them. So each end
//! keeps its own position and reads only the position of the other end, which it checks ([`Broken`]); a receiver copies
//! a record before any code reads its packets; and no position or length of the other end can cause an access outside
//! the memory. The memory cannot shrink ([`SharedMemory`]), so no access to it fails.
//!
//! # Layout of a ring
//!
//! | bytes | content | writer |
//! |---|---|---|
//! | 0 to 7 | `tail`: number of bytes that were ever appended | sender |
//! | 128 to 135 | `head`: number of bytes that were ever taken out | receiver |
//! | 256 to 259 | 1 while the sender waits for room | sender; the receiver sets it to 0 |
//! | 4,096 on | [`CAPACITY`] bytes of records; byte n of all is at n modulo [`CAPACITY`] | sender |
//!
//! A record begins at a multiple of [`ALIGNMENT`], and has a header of [`HEADER`] bytes: the total length of the
//! packets, the length of each packet, the UDP source port and the traffic class. The packets follow. Numbers are in
//! the byte order of the host.
//!
//! # Layout of a bell
//!
//! | bytes | content | writer |
//! |---|---|---|
//! | 0 to 127 | a bit for each slot: whether the ring of the device with this slot has new packets | senders set bits, the owner clears them |
//! | 128 to 131 | 1 while the owner sleeps | owner; a sender sets it to 0 and then wakes the owner |
//!
//! The module has `unsafe` code for accesses to maps, like [`crate::memory`].

#![allow(unsafe_code)]

use crate::memory::{MemoryError, Pages, SharedMemory};
use memmap2::{MmapOptions, MmapRaw};
use std::os::fd::OwnedFd;
use std::sync::atomic::{AtomicU32, AtomicU64, Ordering, fence};

/// Bytes of the records that a ring holds. A connection has at most 1 MiB in flight by default; if the ring is full,
/// the sender waits. A larger ring would not stay in the caches of a processor.
pub(crate) const CAPACITY: usize = 1 << 19;
/// Records begin at multiples of this number of bytes, the length of a cache line on most processors.
pub(crate) const ALIGNMENT: usize = 64;
/// Bytes of the header of a record.
pub(crate) const HEADER: usize = 16;
/// Maximum bytes of the packets of a record. Ports send at most as many in one call.
pub(crate) const MAX_RECORD: usize = 65_535;
/// Number of slots for which a bell has a bit.
pub(crate) const BELL_SLOTS: usize = 1_024;

const TAIL: usize = 0;
const HEAD: usize = 128;
const WANTS_ROOM: usize = 256;
const RECORDS: usize = 4_096;
const RING_LEN: usize = RECORDS + CAPACITY;
const ASLEEP: usize = BELL_SLOTS / 8;
const BELL_LEN: usize = 4_096;

/// The other process has written a position or a record that is not possible.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) struct Broken;

/// The memory of a ring or a bell.
struct Map(MmapRaw);

impl Map {
    /// Maps memory that has exactly `len` bytes; `None` if it has another length.
    fn new(memory: &SharedMemory, len: usize) -> Result<Option<Map>, MemoryError> {
        if memory.len() != len {
            return Ok(None);
        }
        Ok(Some(Map(MmapOptions::new().len(len).map_raw(memory.file())?)))
    }

    fn word(&self, at: usize) -> &AtomicU64 {
        assert!(at.is_multiple_of(8) && at + 8 <= self.0.len());
        // SAFETY: the bytes are within the map, which is readable and writable as long as `self` lives and which the
        // seal of the file keeps valid. Maps begin at a page, so that the address is aligned. This process accesses the
        // bytes only by this function.
        unsafe { AtomicU64::from_ptr(self.0.as_mut_ptr().add(at).cast()) }
    }

    fn flag(&self, at: usize) -> &AtomicU32 {
        assert!(at.is_multiple_of(4) && at + 4 <= self.0.len());
        // SAFETY: as in `word`.
        unsafe { AtomicU32::from_ptr(self.0.as_mut_ptr().add(at).cast()) }
    }

    /// Copies `data` to the records, from position `position` on. The ring must have room for it.
    fn copy_in(&self, position: u64, data: &[u8]) {
        let start = position as usize % CAPACITY;
        let (first, second) = data.split_at(data.len().min(CAPACITY - start));
        assert!(second.len() <= start && self.0.len() == RING_LEN);
        // SAFETY: both ranges are within the map: the first ends at the end of the records or before, the second, at
        // their beginning, is not longer than they are. No reference to these bytes exists in this process. Accesses of
        // the other process at the same time are like those of an RDMA peer to a foreign region: the bytes may be any.
        unsafe {
            let records = self.0.as_mut_ptr().add(RECORDS);
            records.add(start).copy_from_nonoverlapping(first.as_ptr(), first.len());
            records.copy_from_nonoverlapping(second.as_ptr(), second.len());
        }
    }

    /// Copies the bytes of the records from position `position` on to `data`, which is not longer than the records.
    fn copy_out(&self, position: u64, data: &mut [u8]) {
        let start = position as usize % CAPACITY;
        let middle = data.len().min(CAPACITY - start);
        let (first, second) = data.split_at_mut(middle);
        assert!(second.len() <= start && self.0.len() == RING_LEN);
        // SAFETY: as in `copy_in`.
        unsafe {
            let records = self.0.as_mut_ptr().add(RECORDS).cast_const();
            records.add(start).copy_to_nonoverlapping(first.as_mut_ptr(), first.len());
            records.copy_to_nonoverlapping(second.as_mut_ptr(), second.len());
        }
    }
}

/// What a record says about its packets.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) struct Record {
    /// Bytes of all packets, 1 to [`MAX_RECORD`].
    pub(crate) length: usize,
    /// Bytes of each packet, at least 1; the last may be shorter.
    pub(crate) segment: usize,
    /// The UDP source port that the sender would have used.
    pub(crate) source_port: u16,
    /// DSCP and ECN codepoint.
    pub(crate) traffic_class: u8,
}

impl Record {
    /// Bytes that a record with packets of `length` bytes takes in the ring.
    fn room(length: usize) -> u64 {
        (HEADER + length).next_multiple_of(ALIGNMENT) as u64
    }

    fn header(&self) -> [u8; HEADER] {
        let mut header = [0; HEADER];
        header[..4].copy_from_slice(&(self.length as u32).to_ne_bytes());
        header[4..8].copy_from_slice(&(self.segment as u32).to_ne_bytes());
        header[8..10].copy_from_slice(&self.source_port.to_ne_bytes());
        header[10] = self.traffic_class;
        header
    }

    fn read(header: [u8; HEADER]) -> Option<Record> {
        let [a, b, c, d, e, f, g, h, i, j, traffic_class, ..] = header;
        let length = u32::from_ne_bytes([a, b, c, d]) as usize;
        let segment = u32::from_ne_bytes([e, f, g, h]) as usize;
        let valid = (1..=MAX_RECORD).contains(&length) && (1..=MAX_RECORD).contains(&segment);
        valid.then_some(Record { length, segment, source_port: u16::from_ne_bytes([i, j]), traffic_class })
    }
}

/// The end of a ring that appends records.
pub(crate) struct RingSender {
    map: Map,
    tail: u64,
    /// The position of the receiver, when it was last read.
    head: u64,
}

impl RingSender {
    /// Creates a ring. The receiver opens the memory that comes with it.
    ///
    /// # Errors
    /// The system has no memory or no descriptor.
    pub(crate) fn create() -> Result<(RingSender, SharedMemory), MemoryError> {
        let memory = SharedMemory::create(RING_LEN, Pages::Usual)?;
        let map = Map::new(&memory, RING_LEN)?.ok_or(MemoryError::Length { len: RING_LEN, unit: 1 })?;
        Ok((RingSender { map, tail: 0, head: 0 }, memory))
    }

    /// Appends a record with the packets `data`; returns `false` if the ring has no room for it.
    pub(crate) fn push(&mut self, record: &Record, data: &[u8]) -> Result<bool, Broken> {
        if data.is_empty() || data.len() > MAX_RECORD || data.len() != record.length {
            return Err(Broken);
        }
        let room = Record::room(data.len());
        if !self.has_room(room)? {
            return Ok(false);
        }
        self.map.copy_in(self.tail, &record.header());
        self.map.copy_in(self.tail + HEADER as u64, data);
        self.tail += room;
        self.map.word(TAIL).store(self.tail, Ordering::Release);
        Ok(true)
    }

    /// Continues at a position at which no record can begin.
    #[cfg(test)]
    pub(crate) fn corrupt(&mut self) {
        self.tail += 1;
    }

    fn has_room(&mut self, room: u64) -> Result<bool, Broken> {
        if self.tail - self.head + room > CAPACITY as u64 {
            self.read_head()?;
        }
        Ok(self.tail - self.head + room <= CAPACITY as u64)
    }

    /// Reads the position of the receiver; returns it.
    fn read_head(&mut self) -> Result<u64, Broken> {
        let head = self.map.word(HEAD).load(Ordering::Acquire);
        // The position of the receiver only grows, up to that of the sender.
        if head < self.head || head > self.tail {
            return Err(Broken);
        }
        self.head = head;
        Ok(head)
    }

    /// Requests a message from the receiver when it removes a record. Returns the receiver's position: if it changes
    /// before the sender has begun to wait, the ring already has room.
    pub(crate) fn ask_for_room(&mut self) -> Result<u64, Broken> {
        self.map.flag(WANTS_ROOM).store(1, Ordering::SeqCst);
        fence(Ordering::SeqCst);
        self.read_head()
    }
}

/// The end of a ring that takes records out.
pub(crate) struct RingReceiver {
    map: Map,
    head: u64,
}

impl RingReceiver {
    /// Opens the ring in the memory of a descriptor that the sender has passed on; `None` if the memory is not a ring.
    ///
    /// # Errors
    /// The memory can shrink, or cannot be mapped.
    pub(crate) fn open(file: OwnedFd) -> Result<Option<RingReceiver>, MemoryError> {
        let map = Map::new(&SharedMemory::open(file)?, RING_LEN)?;
        Ok(map.map(|map| RingReceiver { map, head: 0 }))
    }

    /// Number of bytes that wait.
    fn waiting(&self) -> Result<u64, Broken> {
        let waiting = self.map.word(TAIL).load(Ordering::Acquire).wrapping_sub(self.head);
        if waiting > CAPACITY as u64 || !waiting.is_multiple_of(ALIGNMENT as u64) {
            return Err(Broken);
        }
        Ok(waiting)
    }

    pub(crate) fn is_empty(&self) -> Result<bool, Broken> {
        Ok(self.waiting()? == 0)
    }

    /// Copies the packets of the oldest record to the beginning of `data`, which grows if it is too short; `None` if
    /// the ring is empty.
    pub(crate) fn pop(&mut self, data: &mut Vec<u8>) -> Result<Option<Record>, Broken> {
        let waiting = self.waiting()?;
        if waiting == 0 {
            return Ok(None);
        }
        let mut header = [0; HEADER];
        self.map.copy_out(self.head, &mut header);
        let record = Record::read(header).ok_or(Broken)?;
        let room = Record::room(record.length);
        if room > waiting {
            return Err(Broken);
        }
        if data.len() < record.length {
            data.resize(MAX_RECORD, 0);
        }
        self.map.copy_out(self.head + HEADER as u64, &mut data[..record.length]);
        self.head += room;
        self.map.word(HEAD).store(self.head, Ordering::Release);
        Ok(Some(record))
    }

    /// Whether the sender waits for room; at most one call returns `true` for each wait.
    pub(crate) fn take_wish_for_room(&self) -> bool {
        fence(Ordering::SeqCst);
        let flag = self.map.flag(WANTS_ROOM);
        flag.load(Ordering::Relaxed) != 0 && flag.swap(0, Ordering::SeqCst) != 0
    }
}

/// The bits by which the senders of a device's rings show which rings have packets, and the flag by which the device
/// shows that it sleeps.
pub(crate) struct Bell(Map);

impl Bell {
    /// Creates a bell. Senders open the memory that comes with it.
    ///
    /// # Errors
    /// The system has no memory or no descriptor.
    pub(crate) fn create() -> Result<(Bell, SharedMemory), MemoryError> {
        let memory = SharedMemory::create(BELL_LEN, Pages::Usual)?;
        let map = Map::new(&memory, BELL_LEN)?.ok_or(MemoryError::Length { len: BELL_LEN, unit: 1 })?;
        Ok((Bell(map), memory))
    }

    /// Opens the bell of another device; `None` if the memory is not a bell.
    ///
    /// # Errors
    /// The memory can shrink, or cannot be mapped.
    pub(crate) fn open(file: OwnedFd) -> Result<Option<Bell>, MemoryError> {
        Ok(Map::new(&SharedMemory::open(file)?, BELL_LEN)?.map(Bell))
    }

    /// Reports that the ring of the device with this slot has packets. Returns whether the owner sleeps, so that the
    /// caller must wake it; at most one sender gets `true` for each sleep.
    pub(crate) fn ring(&self, slot: u32) -> bool {
        self.0.word(slot as usize / 64 * 8).fetch_or(1 << (slot % 64), Ordering::AcqRel);
        // Pairs with the fence in `fall_asleep`: either the owner sees the bit, or this thread sees that it sleeps.
        fence(Ordering::SeqCst);
        let asleep = self.0.flag(ASLEEP);
        asleep.load(Ordering::Relaxed) != 0 && asleep.swap(0, Ordering::AcqRel) != 0
    }

    /// Moves the bits to `ready`. Returns whether any bit was set.
    pub(crate) fn take(&self, ready: &mut [u64; BELL_SLOTS / 64]) -> bool {
        let mut any = false;
        for (index, ready) in ready.iter_mut().enumerate() {
            let word = self.0.word(index * 8);
            if word.load(Ordering::Relaxed) != 0 {
                *ready |= word.swap(0, Ordering::AcqRel);
                any = true;
            }
        }
        any
    }

    /// The owner calls this before it sleeps. Returns `false` if a ring has packets; in this case the owner must not
    /// sleep.
    pub(crate) fn fall_asleep(&self) -> bool {
        self.0.flag(ASLEEP).store(1, Ordering::SeqCst);
        fence(Ordering::SeqCst);
        let quiet = (0..BELL_SLOTS / 64).all(|index| self.0.word(index * 8).load(Ordering::Acquire) == 0);
        if !quiet {
            self.wake_up();
        }
        quiet
    }

    /// The owner calls this after it slept.
    pub(crate) fn wake_up(&self) {
        self.0.flag(ASLEEP).store(0, Ordering::SeqCst);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn record(length: usize) -> Record {
        Record { length, segment: 1_040, source_port: 50_000, traffic_class: 0x6a }
    }

    fn ring() -> (RingSender, RingReceiver) {
        let (sender, memory) = RingSender::create().unwrap();
        (sender, RingReceiver::open(memory.file().try_clone().unwrap().into()).unwrap().unwrap())
    }

    fn bytes(length: usize, seed: u8) -> Vec<u8> {
        (0..length).map(|index| (index as u8).wrapping_mul(7).wrapping_add(seed)).collect()
    }

    /// Lengths of which none divides the capacity, over several times the capacity: records wrap at the end.
    #[test]
    fn records_come_out_as_they_went_in() {
        let (mut sender, mut receiver) = ring();
        let (mut out, mut total) = (Vec::new(), 0);
        assert_eq!(receiver.pop(&mut out), Ok(None));
        for turn in 0..200_u32 {
            let lengths = [1, 48, 49, 4_113, MAX_RECORD].map(|length: usize| length - (turn as usize % length.min(64)));
            for (index, length) in lengths.into_iter().enumerate() {
                assert_eq!(sender.push(&record(length), &bytes(length, turn as u8 + index as u8)), Ok(true));
                total += length;
            }
            for (index, length) in lengths.into_iter().enumerate() {
                assert_eq!(receiver.is_empty(), Ok(false));
                assert_eq!(receiver.pop(&mut out), Ok(Some(record(length))));
                assert!(out[..length] == bytes(length, turn as u8 + index as u8), "{turn} {length}");
            }
            assert_eq!(receiver.is_empty(), Ok(true));
        }
        assert!(total > 10 * CAPACITY);
    }

    /// A record of 48 bytes takes 64 bytes: 8,192 of them fill the ring, and a removed record makes room for one more.
    #[test]
    fn a_full_ring_takes_no_more() {
        let (mut sender, mut receiver) = ring();
        let data = bytes(48, 1);
        for _ in 0..CAPACITY / 64 {
            assert_eq!(sender.push(&record(48), &data), Ok(true));
        }
        assert_eq!(sender.push(&record(48), &data), Ok(false));
        assert!(!receiver.take_wish_for_room());
        assert_eq!(sender.ask_for_room(), Ok(0));
        let mut out = Vec::new();
        assert!(receiver.pop(&mut out).unwrap().is_some());
        assert!(receiver.take_wish_for_room() && !receiver.take_wish_for_room());
        assert_eq!(sender.ask_for_room(), Ok(64));
        assert_eq!(sender.push(&record(49), &bytes(49, 1)), Ok(false), "it needs 128 bytes");
        assert_eq!(sender.push(&record(48), &data), Ok(true));
    }

    #[test]
    fn impossible_positions_and_records_are_refused() {
        let mut out = Vec::new();
        for tail in [1, 63, CAPACITY as u64 + 64, u64::MAX, 1 << 63] {
            let (sender, mut receiver) = ring();
            sender.map.word(TAIL).store(tail, Ordering::Relaxed);
            assert_eq!(receiver.pop(&mut out), Err(Broken), "{tail}");
            assert_eq!(receiver.is_empty(), Err(Broken), "{tail}");
        }
        for (length, segment) in [(0, 1), (1, 0), (MAX_RECORD + 1, 1), (u32::MAX as usize, 1), (1, 1 << 31), (49, 49)] {
            let (sender, mut receiver) = ring();
            sender.map.copy_in(0, &Record { length, segment, ..record(1) }.header());
            // 64 bytes wait: a record of 49 bytes would take 128.
            sender.map.word(TAIL).store(64, Ordering::Relaxed);
            assert_eq!(receiver.pop(&mut out), Err(Broken), "{length} {segment}");
        }
        let (mut sender, receiver) = ring();
        assert_eq!(sender.push(&record(48), &bytes(48, 0)), Ok(true));
        for head in [65, u64::MAX] {
            receiver.map.word(HEAD).store(head, Ordering::Relaxed);
            assert_eq!(sender.ask_for_room(), Err(Broken), "{head}");
        }
        for wrong in [0, MAX_RECORD + 1] {
            assert_eq!(sender.push(&record(wrong), &bytes(wrong, 0)), Err(Broken));
        }
        assert_eq!(sender.push(&record(2), &[0]), Err(Broken));
    }

    #[test]
    fn other_memory_is_neither_a_ring_nor_a_bell() {
        for len in [1, BELL_LEN - 1, RING_LEN - 4_096] {
            let memory = SharedMemory::create(len, Pages::Usual).unwrap();
            let file = || memory.file().try_clone().unwrap().into();
            assert!(RingReceiver::open(file()).unwrap().is_none() && Bell::open(file()).unwrap().is_none(), "{len}");
        }
        let null = || std::fs::File::open("/dev/null").unwrap().into();
        assert!(RingReceiver::open(null()).is_err() && Bell::open(null()).is_err());
    }

    #[test]
    fn a_bell_reports_slots_and_sleep() {
        let (owner, memory) = Bell::create().unwrap();
        let sender = Bell::open(memory.file().try_clone().unwrap().into()).unwrap().unwrap();
        let mut ready = [0; BELL_SLOTS / 64];
        assert!(!owner.take(&mut ready));
        assert!(!sender.ring(0) && !sender.ring(65) && !sender.ring(1_023));
        assert!(!owner.fall_asleep(), "packets wait");
        assert!(owner.take(&mut ready) && !owner.take(&mut ready));
        assert_eq!((ready[0], ready[1], ready[15]), (1, 2, 1 << 63));
        assert!(owner.fall_asleep());
        assert!(sender.ring(7) && !sender.ring(8), "one sender wakes the owner");
        owner.wake_up();
        assert!(!sender.ring(9));
    }

    /// The sender and the receiver run at the same time. The receiver gets all records, in order: the sum of all
    /// lengths is the sum of the sent lengths.
    #[test]
    fn two_threads_exchange_records() {
        let (mut sender, mut receiver) = ring();
        let count = 20_000_u32;
        let thread = std::thread::spawn(move || {
            for number in 0..count {
                let length = 4 + (number as usize * 37) % 3_000;
                let mut data = bytes(length, number as u8);
                data[..4].copy_from_slice(&number.to_ne_bytes());
                while sender.push(&record(length), &data) != Ok(true) {
                    std::thread::yield_now();
                }
            }
        });
        let mut out = Vec::new();
        for number in 0..count {
            let found = loop {
                match receiver.pop(&mut out).unwrap() {
                    Some(found) => break found,
                    None => std::thread::yield_now(),
                }
            };
            let length = 4 + (number as usize * 37) % 3_000;
            assert_eq!((found.length, &out[..4]), (length, &number.to_ne_bytes()[..]));
            assert!(out[4..length] == bytes(length, number as u8)[4..]);
        }
        thread.join().unwrap();
    }
}
