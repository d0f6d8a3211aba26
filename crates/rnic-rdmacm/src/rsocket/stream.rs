//! The data path of a connected rsocket: its memory, its queue pair, and its completions. The protocol is in
//! [`rnic_cm::rsocket`].

use super::completions::Completions;
use crate::calls;
use crate::objects::device::Device;
use crate::objects::id::Id;
use crate::objects::qp;
use crate::verbs::*;
use libc::{c_int, c_uint};
use rnic_cabi::get;
use rnic_cabi::pointer::Handle;
use rnic_cabi::verbs::*;
use rnic_cm::rsocket::*;
use std::alloc::{Layout, alloc_zeroed, dealloc};

/// Marks the completion of a receive request.
const RECEIVE: u64 = 1 << 63;
/// Bytes of a page.
const PAGE: usize = 4_096;

/// Memory that is registered until the structure is dropped. Peers may write to the memory at any time, so no Rust
/// reference to its bytes exists: the bytes are copied through raw pointers.
pub(super) struct Memory {
    at: *mut u8,
    layout: Layout,
    mr: *mut ibv_mr,
}

// SAFETY: the memory belongs to the structure, and the region belongs to libibverbs, whose functions may be called from
// all threads.
unsafe impl Send for Memory {}

impl Memory {
    /// # Safety
    /// libibverbs has made the protection domain.
    pub(super) unsafe fn new(pd: *mut ibv_pd, len: usize, access: c_uint) -> Result<Memory, c_int> {
        let layout = Layout::from_size_align(len.max(1), PAGE).map_err(|_| libc::ENOMEM)?;
        // SAFETY: the size is not 0; the region is within the memory.
        unsafe {
            let at = alloc_zeroed(layout);
            if at.is_null() {
                return Err(libc::ENOMEM);
            }
            match made(ibv_reg_mr(pd, at.cast(), len.max(1), access as c_int)) {
                Ok(mr) => Ok(Memory { at, layout, mr }),
                Err(error) => {
                    dealloc(at, layout);
                    Err(error)
                }
            }
        }
    }

    fn key(&self) -> u32 {
        // SAFETY: the region exists as long as the structure.
        unsafe { (*self.mr).rkey }
    }

    pub(super) fn local(&self, offset: u32, length: u32) -> ibv_sge {
        // SAFETY: as in `key`.
        ibv_sge { addr: self.address(offset), length, lkey: unsafe { (*self.mr).lkey } }
    }

    fn address(&self, offset: u32) -> u64 {
        self.at.expose_provenance() as u64 + u64::from(offset)
    }

    /// The bytes from `offset` on. The peer may be writing them.
    fn read<const N: usize>(&self, offset: usize) -> [u8; N] {
        assert!(offset + N <= self.layout.size());
        // SAFETY: within the memory; bytes need no alignment, and any are valid.
        unsafe { self.at.add(offset).cast::<[u8; N]>().read_volatile() }
    }

    /// # Safety
    /// `from` has `len` bytes.
    pub(super) unsafe fn fill(&self, offset: u32, from: *const u8, len: u32) {
        assert!(offset as usize + len as usize <= self.layout.size());
        // SAFETY: within both memories, which do not overlap: the program does not know the memory of the stream.
        unsafe { std::ptr::copy_nonoverlapping(from, self.at.add(offset as usize), len as usize) };
    }

    /// # Safety
    /// `to` has room for `len` bytes.
    pub(super) unsafe fn copy(&self, offset: u32, to: *mut u8, len: u32) {
        assert!(offset as usize + len as usize <= self.layout.size());
        // SAFETY: as in `fill`.
        unsafe { std::ptr::copy_nonoverlapping(self.at.add(offset as usize), to, len as usize) };
    }
}

impl Drop for Memory {
    fn drop(&mut self) {
        // SAFETY: both were made by `new`. The queue pair that used them is destroyed before.
        unsafe {
            ibv_dereg_mr(self.mr);
            dealloc(self.at, self.layout);
        }
    }
}

/// The bytes that a Write sends.
struct Source {
    parts: [ibv_sge; 2],
    count: c_int,
    /// Flags of the request.
    flags: c_uint,
}

const NO_BYTES: ibv_sge = ibv_sge { addr: 0, length: 0, lkey: 0 };

impl Source {
    const NOTHING: Source = Source { parts: [NO_BYTES; 2], count: 0, flags: 0 };

    /// Bytes that posting the request copies.
    fn inline(data: *const u8, length: u32) -> Source {
        let bytes = ibv_sge { addr: data.expose_provenance() as u64, length, lkey: 0 };
        Source { parts: [bytes, NO_BYTES], count: 1, flags: IBV_SEND_INLINE }
    }

    fn is_inline(&self) -> bool {
        self.flags != 0
    }
}

/// Sizes that the program may choose before it connects.
#[derive(Clone, Copy)]
pub(super) struct Sizes {
    /// Bytes of the send buffer and of the ring for received bytes.
    pub(super) send: u32,
    pub(super) receive: u32,
    /// Send and receive requests.
    pub(super) send_queue: u16,
    pub(super) receive_queue: u16,
    /// Bytes up to which data is copied into the send request.
    pub(super) inline: u32,
    /// Entries of the list of mappings.
    pub(super) mappings: u32,
}

/// Minimum requests of a queue.
const MIN_REQUESTS: u16 = 16;

/// A change of a connection.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) enum News {
    /// The peer sends no more data.
    Shutdown,
    /// The peer has ended the connection, or has received the message by which this end ends the connection.
    Disconnected,
    /// The connection is broken.
    Broken,
}

/// The queue pair of an identifier. It is destroyed when the structure is dropped.
struct QueuePair {
    id: Handle<Id>,
    qp: *mut ibv_qp,
}

impl QueuePair {
    /// Makes the queue pair of an identifier. The identifier must not have a queue pair yet, and must exist longer than
    /// the structure. Sets `sizes.inline` to the size that the queue pair has.
    fn new(id: Handle<Id>, pd: *mut ibv_pd, completions: &Completions, sizes: &mut Sizes) -> Result<QueuePair, c_int> {
        let mut attributes = ibv_qp_init_attr {
            qp_context: std::ptr::null_mut(),
            send_cq: completions.cq(),
            recv_cq: completions.cq(),
            srq: std::ptr::null_mut(),
            cap: ibv_qp_cap {
                max_send_wr: sizes.send_queue.into(),
                max_recv_wr: sizes.receive_queue.into(),
                max_send_sge: 2,
                max_recv_sge: 1,
                max_inline_data: sizes.inline,
            },
            qp_type: IBV_QPT_RC,
            sq_sig_all: 1,
        };
        // SAFETY: the domain and the queue exist.
        unsafe { calls::qp::create(id, pd, &mut attributes) }?;
        sizes.inline = attributes.cap.max_inline_data;
        Ok(QueuePair { id, qp: get!(id.qp) })
    }
}

impl Drop for QueuePair {
    fn drop(&mut self) {
        qp::destroy(self.id);
    }
}

/// The data path of a connection. The fields are dropped in their order: the queue pair before its completion queue and
/// the memory.
pub(super) struct Stream {
    qp: QueuePair,
    context: *mut ibv_context,
    completions: Completions,
    pub(super) sizes: Sizes,
    /// The send buffer, followed by slots for messages to the peer's lists that do not fit into a request.
    sending: Memory,
    /// The ring for received bytes.
    pub(super) receiving: Memory,
    /// The target list, followed by the list of mappings.
    lists: Memory,
    pub(super) inbox: Inbox,
    pub(super) outbox: Outbox,
    /// Number of messages without data that may be sent now.
    controls: u8,
    /// The most recently used slot after the send buffer. The messages in these slots complete in order.
    control_slot: u32,
    peer: ConnectData,
    /// The index of the latest target that was taken from the target list.
    target_index: usize,
    /// The target for the next Write: the part of the latest target that is not filled.
    target: Target,
    /// Number of targets that the peer has written into the target list and that this end has not taken yet.
    new_targets: usize,
    /// The peer's mappings. Each was copied from the list after the completion of its Write.
    mappings: Vec<[u8; MAPPING_LEN]>,
    /// Index of the entry in the peer's target list that this end writes next.
    peer_target: u32,
}

// SAFETY: the pointers belong to libibverbs, whose functions may be called from all threads.
unsafe impl Send for Stream {}

impl Stream {
    /// Makes the queue pair of an identifier, and the memory. The identifier has no queue pair, and exists longer than
    /// the stream.
    ///
    /// # Errors
    /// The errors of libibverbs.
    pub(super) fn new(id: Handle<Id>, device: &'static Device, sizes: Sizes) -> Result<Stream, c_int> {
        let mut sizes = Sizes {
            send: sizes.send.max(2 * LOW_WATER),
            receive: (sizes.receive & !1).max(2 * LOW_WATER),
            send_queue: sizes.send_queue.clamp(MIN_REQUESTS, device.max_requests),
            receive_queue: sizes.receive_queue.clamp(MIN_REQUESTS, device.max_requests),
            ..sizes
        };
        let unknown_peer = ConnectData {
            big_endian: false,
            credits: 0,
            mappings: 0,
            targets: Target { len: 1, ..Target::default() },
            data: Target::default(),
        };
        let pd = device.pd()?;
        let entries = c_int::from(sizes.send_queue) + c_int::from(sizes.receive_queue);
        // SAFETY: the device stays open.
        let completions = unsafe { Completions::new(device.context, entries) }?;
        let qp = QueuePair::new(id, pd, &completions, &mut sizes)?;
        let (read, write) = (IBV_ACCESS_LOCAL_WRITE, IBV_ACCESS_LOCAL_WRITE | IBV_ACCESS_REMOTE_WRITE);
        let control_slots = usize::from(CONTROLS) * MAPPING_LEN;
        let lists = TARGETS * TARGET_LEN + sizes.mappings as usize * MAPPING_LEN;
        // SAFETY: the protection domain of the device stays.
        let memory = |len, access| unsafe { Memory::new(pd, len, access) };
        let stream = Stream {
            qp,
            context: device.context,
            completions,
            sending: memory(sizes.send as usize + control_slots, read)?,
            receiving: memory(sizes.receive as usize, write)?,
            lists: memory(lists, write)?,
            inbox: Inbox::new(sizes.receive, sizes.receive_queue),
            outbox: Outbox::new(sizes.send, sizes.send_queue - u16::from(CONTROLS), 0),
            controls: CONTROLS,
            control_slot: 0,
            peer: unknown_peer,
            target_index: 0,
            // The length of this target is not 0 before `set_peer`, so that no target is taken from the target list.
            target: unknown_peer.targets,
            new_targets: 0,
            mappings: vec![[0; MAPPING_LEN]; sizes.mappings as usize],
            peer_target: 1,
            sizes,
        };
        for _ in 0..sizes.receive_queue {
            stream.post_receive()?;
        }
        Ok(stream)
    }

    /// The protection domain of the queue pair.
    pub(super) fn pd(&self) -> *mut ibv_pd {
        // SAFETY: the queue pair exists.
        unsafe { (*self.qp.qp).pd }
    }

    /// The private data for the peer.
    pub(super) fn connect_data(&self) -> ConnectData {
        let (receiving, lists) = (&self.receiving, &self.lists);
        ConnectData {
            big_endian: cfg!(target_endian = "big"),
            credits: self.sizes.receive_queue,
            mappings: self.sizes.mappings,
            targets: Target { address: lists.address(0), key: lists.key(), len: TARGETS as u32 },
            data: Target { address: receiving.address(0), key: receiving.key(), len: self.sizes.receive / 2 },
        }
    }

    /// Sets the private data of the peer.
    pub(super) fn set_peer(&mut self, peer: ConnectData) {
        self.peer = peer;
        self.outbox.credit(peer.credits);
        self.target = peer.data;
        self.take_target();
    }

    /// The number of mappings that the peer keeps.
    pub(super) fn peer_mappings(&self) -> u32 {
        self.peer.mappings
    }

    /// The descriptor of the completion queue's channel.
    pub(super) fn fd(&self) -> c_int {
        self.completions.fd()
    }

    fn post_receive(&self) -> Result<(), c_int> {
        let mut request =
            ibv_recv_wr { wr_id: RECEIVE, next: std::ptr::null_mut(), sg_list: std::ptr::null_mut(), num_sge: 0 };
        let mut bad = std::ptr::null_mut();
        // SAFETY: the queue pair exists, and the request and the result are local variables.
        unsafe {
            let post = (*self.context).ops.post_recv.ok_or(libc::EOPNOTSUPP)?;
            check(post(self.qp.qp, &mut request, &mut bad))
        }
    }

    /// Posts a Write of `from` to the peer. `message` identifies its completion, and is its immediate data if
    /// `with_immediate`.
    fn post_write(&self, mut from: Source, to: Target, message: Immediate, with_immediate: bool) -> Result<(), c_int> {
        let number = message.number();
        // SAFETY: all zeros are a valid value.
        let mut request: ibv_send_wr = unsafe { std::mem::zeroed() };
        request.wr_id = number.into();
        request.opcode = if with_immediate { IBV_WR_RDMA_WRITE_WITH_IMM } else { IBV_WR_RDMA_WRITE };
        request.send_flags = from.flags;
        request.imm_data = number.to_be();
        request.wr.rdma = wr_rdma { remote_addr: to.address, rkey: to.key };
        (request.sg_list, request.num_sge) = (from.parts.as_mut_ptr(), from.count);
        let mut bad = std::ptr::null_mut();
        // SAFETY: the queue pair exists, and the request and the result are local variables. The bytes of `from` are in
        // the memory of the stream, or inline data that exists.
        unsafe {
            let post = (*self.context).ops.post_send.ok_or(libc::EOPNOTSUPP)?;
            check(post(self.qp.qp, &mut request, &mut bad))
        }
    }

    /// Takes the next target from the target list when the current target is full. The peer writes targets into the
    /// target list. An entry is read only after the completion of the Write that carries it, because only a part of the
    /// entry may be written before this completion.
    fn take_target(&mut self) {
        while self.target.len == 0 && self.new_targets > 0 {
            self.new_targets -= 1;
            self.target_index = (self.target_index + 1) % TARGETS;
            self.target = Target::read(&self.lists.read(self.target_index * TARGET_LEN));
        }
    }

    /// Whether data can be sent.
    pub(super) fn can_send(&self) -> bool {
        self.outbox.is_ready() && self.target.len != 0
    }

    /// Whether a message without data can be sent.
    pub(super) fn can_control(&self) -> bool {
        self.controls > 0
    }

    /// Sends at most `len` bytes of the program, if [`Stream::can_send`]; returns the number of sent bytes.
    ///
    /// # Safety
    /// `data` has `len` bytes.
    pub(super) unsafe fn send(&mut self, data: *const u8, len: u32) -> Result<u32, c_int> {
        let len = len.min(self.outbox.room()).min(self.target.len);
        // SAFETY: the caller promises the conditions of this function.
        let from = unsafe { self.prepare(data, len) };
        let to = self.target;
        (self.target.address, self.target.len) = (to.address.wrapping_add(len.into()), to.len - len);
        self.take_target();
        self.outbox.sent(len, !from.is_inline(), true);
        self.post_write(from, to, Immediate::Data(len), true)?;
        Ok(len)
    }

    /// The source of a request's bytes. Inline data is read directly from `data`. Longer data is first copied into the
    /// send buffer, which must have room for it.
    ///
    /// # Safety
    /// `data` has `len` bytes.
    unsafe fn prepare(&self, data: *const u8, len: u32) -> Source {
        if len <= self.sizes.inline {
            return Source::inline(data, len);
        }
        let sending = &self.sending;
        let [(at, first), (start, second)] = self.outbox.ranges(len);
        // SAFETY: the caller promises the conditions of this function; both ranges together have `len` bytes.
        unsafe {
            sending.fill(at, data, first);
            sending.fill(start, data.wrapping_add(first as usize), second);
        }
        let parts = [sending.local(at, first), sending.local(start, second)];
        Source { parts, count: if second == 0 { 1 } else { 2 }, flags: 0 }
    }

    /// Writes at most `len` bytes into memory that the peer has mapped, if [`Stream::can_send`]; returns the number of
    /// written bytes.
    ///
    /// # Safety
    /// `data` has `len` bytes.
    pub(super) unsafe fn write(&mut self, to: Target, data: *const u8, len: u32) -> Result<u32, c_int> {
        let len = len.min(self.outbox.room()).min(to.len);
        // SAFETY: the caller promises the conditions of this function.
        let from = unsafe { self.prepare(data, len) };
        self.outbox.sent(len, !from.is_inline(), false);
        // The completion frees the same space as the completion of data.
        self.post_write(from, to, Immediate::Data(len), false)?;
        Ok(len)
    }

    /// Sends a mapping of this end to the peer, if [`Stream::can_send`].
    pub(super) fn send_mapping(&mut self, index: u16, offset: u64, mapped: Target) -> Result<(), c_int> {
        let big = self.peer.big_endian;
        let mut bytes = [0; MAPPING_LEN];
        bytes[..8].copy_from_slice(&if big { offset.to_be_bytes() } else { offset.to_le_bytes() });
        bytes[8..].copy_from_slice(&mapped.bytes(big));
        let list = self.peer.targets;
        let before = u64::from(list.len) * TARGET_LEN as u64 + u64::from(index) * MAPPING_LEN as u64;
        let to = Target { address: list.address.wrapping_add(before), ..list };
        let len = MAPPING_LEN as u32;
        if self.outbox.room() < len {
            return Err(libc::EAGAIN);
        }
        // SAFETY: the array has that many bytes.
        let from = unsafe { self.prepare(bytes.as_ptr(), len) };
        self.outbox.sent(len, !from.is_inline(), true);
        self.post_write(from, to, Immediate::Mapping(index), true)
    }

    /// Returns the address of the byte `offset` in the mappings of the peer, and the number of bytes from this byte to
    /// the end of its mapping.
    pub(super) fn mapped(&self, offset: u64) -> Option<Target> {
        self.mappings.iter().find_map(|bytes| {
            let (first, target) = bytes.split_first_chunk().expect("24 bytes");
            let target = Target::read(target.try_into().expect("16 bytes"));
            let inside = offset.checked_sub(u64::from_ne_bytes(*first)).filter(|inside| *inside < target.len.into())?;
            let address = target.address.wrapping_add(inside);
            Some(Target { address, len: target.len - inside as u32, key: target.key })
        })
    }

    /// Sends a message without data, if [`Stream::can_control`].
    pub(super) fn control(&mut self, message: Immediate) -> Result<(), c_int> {
        self.controls -= 1;
        self.post_write(Source::NOTHING, Target::default(), message, true)
    }

    /// Sends new credits to the peer, if the program has read enough.
    pub(super) fn give_credits(&mut self) -> Result<(), c_int> {
        while self.controls > 0
            && let Some(grant) = self.inbox.grant()
        {
            let message = Immediate::Credits(grant.credits);
            let Some(offset) = grant.half else {
                self.control(message)?;
                continue;
            };
            let receiving = &self.receiving;
            let len = self.sizes.receive / 2;
            let target = Target { address: receiving.address(offset), key: receiving.key(), len };
            let bytes = target.bytes(self.peer.big_endian);
            let list = self.peer.targets;
            let entry = u64::from(self.peer_target) * TARGET_LEN as u64;
            self.peer_target = (self.peer_target + 1) % list.len;
            let to = Target { address: list.address.wrapping_add(entry), ..list };
            self.controls -= 1;
            let from = if TARGET_LEN as u32 <= self.sizes.inline {
                Source::inline(bytes.as_ptr(), TARGET_LEN as u32)
            } else {
                self.control_slot = (self.control_slot + 1) % u32::from(CONTROLS);
                let sending = &self.sending;
                let at = self.sizes.send + self.control_slot * MAPPING_LEN as u32;
                // SAFETY: the array has that many bytes.
                unsafe { sending.fill(at, bytes.as_ptr(), TARGET_LEN as u32) };
                Source { parts: [sending.local(at, TARGET_LEN as u32), NO_BYTES], count: 1, flags: 0 }
            };
            self.post_write(from, to, message, true)?;
        }
        Ok(())
    }

    /// Handles all completions. Returns the changes of the connection.
    pub(super) fn poll(&mut self) -> Vec<News> {
        let mut news = Vec::new();
        loop {
            let Ok(batch) = self.completions.poll() else {
                news.push(News::Broken);
                return news;
            };
            for completion in batch.completions() {
                news.extend(self.complete(completion));
            }
            if !batch.is_full() {
                return news;
            }
        }
    }

    fn complete(&mut self, completion: &ibv_wc) -> Option<News> {
        let is_success = completion.status == IBV_WC_SUCCESS;
        if completion.wr_id & RECEIVE == 0 {
            let message = Immediate::of(completion.wr_id as u32);
            match message {
                Immediate::Data(len) => self.outbox.done(len),
                Immediate::Mapping(_) => self.outbox.done(MAPPING_LEN as u32),
                _ => self.controls += 1,
            }
            return match message {
                _ if !is_success => Some(News::Broken),
                Immediate::Disconnect => Some(News::Disconnected),
                _ => None,
            };
        }
        if !is_success {
            return None;
        }
        let message = Immediate::of(u32::from_be(completion.imm_data));
        let news = match message {
            Immediate::Data(len) => self.inbox.arrived(len).err().map(|_| News::Broken),
            Immediate::Credits(limit) => {
                self.outbox.credit(limit);
                // A message without data has credits only. The list bounds the number of the peer's targets.
                if completion.byte_len as usize >= TARGET_LEN {
                    self.new_targets = (self.new_targets + 1).min(TARGETS);
                    self.take_target();
                }
                None
            }
            Immediate::Mapping(index) => {
                let at = TARGETS * TARGET_LEN + usize::from(index) * MAPPING_LEN;
                if usize::from(index) < self.mappings.len() {
                    self.mappings[usize::from(index)] = self.lists.read(at);
                }
                None
            }
            Immediate::Disconnect => Some(News::Disconnected),
            Immediate::Shutdown => Some(News::Shutdown),
            Immediate::KeepAlive | Immediate::Unknown => None,
        };
        if matches!(news, None | Some(News::Shutdown)) && self.post_receive().is_err() {
            return Some(News::Broken);
        }
        news
    }

    /// Arms the descriptor, which becomes readable at the next completion. Returns whether the descriptor was not armed
    /// before; in this case completions may have arrived already.
    pub(super) fn arm(&mut self) -> bool {
        self.completions.arm()
    }

    /// Takes the events of the descriptor. Returns whether the descriptor had any events.
    pub(super) fn take_events(&mut self) -> bool {
        self.completions.take_events()
    }

    /// Whether all requests are complete.
    pub(super) fn is_all_sent(&self) -> bool {
        self.controls == CONTROLS && self.outbox.requests() == self.sizes.send_queue - u16::from(CONTROLS)
    }
}
