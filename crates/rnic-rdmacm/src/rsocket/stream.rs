//! The data path of a connected rsocket: its memory, its queue pair, and what completions mean. The protocol is in
//! [`rnic_cm::rsocket`].

use crate::device::Device;
use crate::verbs::*;
use libc::{c_int, c_uint, c_void};
use rnic_cabi::cma::rdma_cm_id;
use rnic_cabi::verbs::*;
use rnic_cm::rsocket::*;
use std::alloc::{Layout, alloc_zeroed, dealloc};

/// Marks the completion of a receive request.
const RECEIVE: u64 = 1 << 63;
/// Completions that are taken at a time.
const BATCH: usize = 16;
/// Bytes of a page.
const PAGE: usize = 4_096;

/// Memory that is registered until it is dropped. Peers write to it at any time, so that no reference to its bytes
/// exists: they are copied by their address.
pub(super) struct Memory {
    at: *mut u8,
    layout: Layout,
    mr: *mut ibv_mr,
}

// SAFETY: the memory belongs to the structure, and the region is one of libibverbs, whose functions may be called from
// all threads.
unsafe impl Send for Memory {}

impl Memory {
    /// # Safety
    /// The protection domain is one of libibverbs.
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
        // SAFETY: as above.
        ibv_sge { addr: self.address(offset), length, lkey: unsafe { (*self.mr).lkey } }
    }

    fn address(&self, offset: u32) -> u64 {
        self.at.expose_provenance() as u64 + u64::from(offset)
    }

    /// The bytes from `offset` on, whatever the peer is writing there.
    fn read<const N: usize>(&self, offset: usize) -> [u8; N] {
        assert!(offset + N <= self.layout.size());
        // SAFETY: within the memory; bytes need no alignment, and any are valid.
        unsafe { self.at.add(offset).cast::<[u8; N]>().read_volatile() }
    }

    /// # Safety
    /// `from` has `len` bytes.
    pub(super) unsafe fn fill(&self, offset: u32, from: *const u8, len: u32) {
        assert!(offset as usize + len as usize <= self.layout.size());
        // SAFETY: within both memories, which do not overlap: the program does not know this one.
        unsafe { std::ptr::copy_nonoverlapping(from, self.at.add(offset as usize), len as usize) };
    }

    /// # Safety
    /// `to` has room for `len` bytes.
    pub(super) unsafe fn copy(&self, offset: u32, to: *mut u8, len: u32) {
        assert!(offset as usize + len as usize <= self.layout.size());
        // SAFETY: as above.
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
    /// Those of the request.
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

/// Fewest requests of a queue.
const SHORTEST: u16 = 16;

/// What has happened to a connection.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) enum News {
    /// The peer sends no more data.
    Shutdown,
    /// The peer has ended the connection, or this side's wish to do so has arrived.
    Disconnected,
    /// It is broken.
    Broken,
}

/// The data path.
pub(super) struct Stream {
    id: *mut rdma_cm_id,
    context: *mut ibv_context,
    qp: *mut ibv_qp,
    cq: *mut ibv_cq,
    channel: *mut ibv_comp_channel,
    pub(super) sizes: Sizes,
    pub(super) sending: Option<Memory>,
    pub(super) receiving: Option<Memory>,
    /// The target list, and behind it the list of mappings.
    lists: Option<Memory>,
    pub(super) inbox: Inbox,
    pub(super) outbox: Outbox,
    /// Messages without data that may be sent now.
    controls: u8,
    /// The place behind the send buffer that the next one takes. They complete in order.
    place: u32,
    peer: ConnectData,
    /// The entry of the target list that was taken last.
    target: usize,
    /// The target that is being filled, from the address of the next Write on.
    goal: Target,
    /// Entries of the target list that the peer has written and that were not taken.
    announced: usize,
    /// The peer's mappings, each copied out of the list when the completion of its Write had told of it.
    mappings: Vec<[u8; MAPPING_LEN]>,
    /// The entry of the peer's target list that is written next.
    peer_target: u32,
    /// Whether the completion queue is going to ring.
    armed: bool,
}

// SAFETY: the pointers are those of libibverbs, whose functions may be called from all threads.
unsafe impl Send for Stream {}

impl Stream {
    /// Makes the queue pair of an identifier, and the memory.
    ///
    /// # Errors
    /// Those of libibverbs.
    ///
    /// # Safety
    /// The identifier exists, has no queue pair, and outlives the stream.
    pub(super) unsafe fn new(id: *mut rdma_cm_id, device: &'static Device, sizes: Sizes) -> Result<Stream, c_int> {
        let sizes = Sizes {
            send: sizes.send.max(2 * LOW_WATER),
            receive: (sizes.receive & !1).max(2 * LOW_WATER),
            send_queue: sizes.send_queue.clamp(SHORTEST, device.max_requests),
            receive_queue: sizes.receive_queue.clamp(SHORTEST, device.max_requests),
            ..sizes
        };
        let nobody = ConnectData {
            big_endian: false,
            credits: 0,
            mappings: 0,
            targets: Target { len: 1, ..Target::default() },
            data: Target::default(),
        };
        let mut stream = Stream {
            id,
            context: device.context,
            qp: std::ptr::null_mut(),
            cq: std::ptr::null_mut(),
            channel: std::ptr::null_mut(),
            sizes,
            sending: None,
            receiving: None,
            lists: None,
            inbox: Inbox::new(sizes.receive, sizes.receive_queue),
            outbox: Outbox::new(sizes.send, sizes.send_queue - u16::from(CONTROLS), 0),
            controls: CONTROLS,
            place: 0,
            peer: nobody,
            target: 0,
            // Not full before `set_peer`, so that no entry is taken.
            goal: nobody.targets,
            announced: 0,
            mappings: vec![[0; MAPPING_LEN]; sizes.mappings as usize],
            peer_target: 1,
            armed: false,
        };
        let pd = device.pd()?;
        // SAFETY: the caller's promise. What was made is destroyed with the stream, if a later step fails.
        unsafe {
            stream.channel = made(ibv_create_comp_channel(device.context))?;
            libc::fcntl((*stream.channel).fd, libc::F_SETFL, libc::O_NONBLOCK);
            let entries = c_int::from(sizes.send_queue) + c_int::from(sizes.receive_queue);
            stream.cq = made(ibv_create_cq(device.context, entries, std::ptr::null_mut(), stream.channel, 0))?;
            let mut attributes = ibv_qp_init_attr {
                qp_context: std::ptr::null_mut(),
                send_cq: stream.cq,
                recv_cq: stream.cq,
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
            if crate::qp::rdma_create_qp(id, pd, &mut attributes) != 0 {
                return Err(errno());
            }
            stream.qp = (*id).qp;
            stream.sizes.inline = attributes.cap.max_inline_data;
            let (read, write) = (IBV_ACCESS_LOCAL_WRITE, IBV_ACCESS_LOCAL_WRITE | IBV_ACCESS_REMOTE_WRITE);
            // Messages to the peer's lists that do not fit into a request are behind the send buffer.
            let spare = usize::from(CONTROLS) * MAPPING_LEN;
            stream.sending = Some(Memory::new(pd, sizes.send as usize + spare, read)?);
            stream.receiving = Some(Memory::new(pd, sizes.receive as usize, write)?);
            let lists = TARGETS * TARGET_LEN + sizes.mappings as usize * MAPPING_LEN;
            stream.lists = Some(Memory::new(pd, lists, write)?);
            for _ in 0..sizes.receive_queue {
                stream.post_receive()?;
            }
        }
        Ok(stream)
    }

    fn memories(&self) -> (&Memory, &Memory, &Memory) {
        let [sending, receiving, lists] =
            [&self.sending, &self.receiving, &self.lists].map(|memory| memory.as_ref().expect("`new` makes them"));
        (sending, receiving, lists)
    }

    /// The protection domain of the queue pair.
    pub(super) fn pd(&self) -> *mut ibv_pd {
        // SAFETY: the queue pair exists.
        unsafe { (*self.qp).pd }
    }

    /// What the peer has to know.
    pub(super) fn connect_data(&self) -> ConnectData {
        let (_, receiving, lists) = self.memories();
        ConnectData {
            big_endian: cfg!(target_endian = "big"),
            credits: self.sizes.receive_queue,
            mappings: self.sizes.mappings,
            targets: Target { address: lists.address(0), key: lists.key(), len: TARGETS as u32 },
            data: Target { address: receiving.address(0), key: receiving.key(), len: self.sizes.receive / 2 },
        }
    }

    /// What the peer has said.
    pub(super) fn set_peer(&mut self, peer: ConnectData) {
        self.peer = peer;
        self.outbox.credit(peer.credits);
        self.goal = peer.data;
        self.take_target();
    }

    /// The number of mappings that the peer keeps.
    pub(super) fn peer_mappings(&self) -> u32 {
        self.peer.mappings
    }

    /// Descriptor that is readable when the completion queue has rung.
    pub(super) fn fd(&self) -> c_int {
        // SAFETY: the channel exists.
        unsafe { (*self.channel).fd }
    }

    fn post_receive(&self) -> Result<(), c_int> {
        let mut request =
            ibv_recv_wr { wr_id: RECEIVE, next: std::ptr::null_mut(), sg_list: std::ptr::null_mut(), num_sge: 0 };
        let mut bad = std::ptr::null_mut();
        // SAFETY: all pointers are valid.
        unsafe {
            let post = (*self.context).ops.post_recv.ok_or(libc::EOPNOTSUPP)?;
            check(post(self.qp, &mut request, &mut bad))
        }
    }

    /// Posts a Write of `from` to the peer. `message` is its immediate data, or only what its completion means.
    fn post_write(&self, mut from: Source, to: Target, message: Immediate, is_sent: bool) -> Result<(), c_int> {
        let number = message.number();
        // SAFETY: all zeroes are valid.
        let mut request: ibv_send_wr = unsafe { std::mem::zeroed() };
        request.wr_id = number.into();
        request.opcode = if is_sent { IBV_WR_RDMA_WRITE_WITH_IMM } else { IBV_WR_RDMA_WRITE };
        request.send_flags = from.flags;
        request.imm_data = number.to_be();
        request.wr.rdma = wr_rdma { remote_addr: to.address, rkey: to.key };
        (request.sg_list, request.num_sge) = (from.parts.as_mut_ptr(), from.count);
        let mut bad = std::ptr::null_mut();
        // SAFETY: all pointers are valid.
        unsafe {
            let post = (*self.context).ops.post_send.ok_or(libc::EOPNOTSUPP)?;
            check(post(self.qp, &mut request, &mut bad))
        }
    }

    /// Takes the next target when the current one is full. The peer writes the targets into the target list. An entry
    /// is read only after the completion of its Write, because before it may be half written.
    fn take_target(&mut self) {
        while self.goal.len == 0 && self.announced > 0 {
            self.announced -= 1;
            self.target = (self.target + 1) % TARGETS;
            self.goal = Target::read(&self.memories().2.read(self.target * TARGET_LEN));
        }
    }

    /// Whether data can be sent.
    pub(super) fn can_send(&self) -> bool {
        self.outbox.is_ready() && self.goal.len != 0
    }

    /// Whether a message without data can be sent.
    pub(super) fn can_control(&self) -> bool {
        self.controls > 0
    }

    /// Sends at most `len` bytes of the program, if [`Stream::can_send`]; returns how many.
    ///
    /// # Safety
    /// `data` has `len` bytes.
    pub(super) unsafe fn send(&mut self, data: *const u8, len: u32) -> Result<u32, c_int> {
        let len = len.min(self.outbox.room()).min(self.goal.len);
        // SAFETY: the caller's promise.
        let from = unsafe { self.prepare(data, len) };
        let to = self.goal;
        (self.goal.address, self.goal.len) = (to.address.wrapping_add(len.into()), to.len - len);
        self.take_target();
        self.outbox.sent(len, !from.is_inline(), true);
        self.post_write(from, to, Immediate::Data(len), true)?;
        Ok(len)
    }

    /// The bytes of a request: those of the program if they are copied into it, otherwise those of the send buffer,
    /// which has room for them.
    ///
    /// # Safety
    /// `data` has `len` bytes.
    unsafe fn prepare(&self, data: *const u8, len: u32) -> Source {
        if len <= self.sizes.inline {
            return Source::inline(data, len);
        }
        let sending = self.memories().0;
        let [(at, first), (start, second)] = self.outbox.ranges(len);
        // SAFETY: the caller's promise; both ranges together have `len` bytes.
        unsafe {
            sending.fill(at, data, first);
            sending.fill(start, data.wrapping_add(first as usize), second);
        }
        let parts = [sending.local(at, first), sending.local(start, second)];
        Source { parts, count: if second == 0 { 1 } else { 2 }, flags: 0 }
    }

    /// Writes at most `len` bytes into memory that the peer has mapped, if [`Stream::can_send`]; returns how many.
    ///
    /// # Safety
    /// `data` has `len` bytes.
    pub(super) unsafe fn write(&mut self, to: Target, data: *const u8, len: u32) -> Result<u32, c_int> {
        let len = len.min(self.outbox.room()).min(to.len);
        // SAFETY: the caller's promise.
        let from = unsafe { self.prepare(data, len) };
        self.outbox.sent(len, !from.is_inline(), false);
        // The completion frees as much as that of data.
        self.post_write(from, to, Immediate::Data(len), false)?;
        Ok(len)
    }

    /// Tells the peer of a mapping of this side, if [`Stream::can_send`].
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

    /// The mapping of the peer that has the byte `offset`: where it is, and how much follows it there.
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

    /// Tells the peer what it may send, if there is something new.
    pub(super) fn give_credits(&mut self) -> Result<(), c_int> {
        while self.controls > 0
            && let Some(grant) = self.inbox.grant()
        {
            let message = Immediate::Credits(grant.credits);
            let Some(offset) = grant.half else {
                self.control(message)?;
                continue;
            };
            let receiving = self.memories().1;
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
                self.place = (self.place + 1) % u32::from(CONTROLS);
                let sending = self.memories().0;
                let at = self.sizes.send + self.place * MAPPING_LEN as u32;
                // SAFETY: the array has that many bytes.
                unsafe { sending.fill(at, bytes.as_ptr(), TARGET_LEN as u32) };
                Source { parts: [sending.local(at, TARGET_LEN as u32), NO_BYTES], count: 1, flags: 0 }
            };
            self.post_write(from, to, message, true)?;
        }
        Ok(())
    }

    /// Handles all completions. Tells what has happened to the connection.
    pub(super) fn poll(&mut self) -> Vec<News> {
        let mut news = Vec::new();
        loop {
            // SAFETY: all zeroes are valid completions; the array has that many.
            let (count, completions) = unsafe {
                let mut completions: [ibv_wc; BATCH] = std::mem::zeroed();
                let count = match (*self.context).ops.poll_cq {
                    Some(poll) => poll(self.cq, BATCH as c_int, completions.as_mut_ptr()),
                    None => -1,
                };
                (count, completions)
            };
            let Ok(count) = usize::try_from(count) else {
                news.push(News::Broken);
                return news;
            };
            for completion in &completions[..count.min(BATCH)] {
                news.extend(self.complete(completion));
            }
            if count < BATCH {
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
                // Without data, it is about credits only. The peer has no more entries than the list.
                if completion.byte_len as usize >= TARGET_LEN {
                    self.announced = (self.announced + 1).min(TARGETS);
                    self.take_target();
                }
                None
            }
            Immediate::Mapping(index) => {
                let at = TARGETS * TARGET_LEN + usize::from(index) * MAPPING_LEN;
                if usize::from(index) < self.mappings.len() {
                    self.mappings[usize::from(index)] = self.memories().2.read(at);
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

    /// Makes sure that the descriptor becomes readable at the next completion. Returns whether this is new; then there
    /// may be completions already.
    pub(super) fn arm(&mut self) -> bool {
        if self.armed {
            return false;
        }
        self.armed = true;
        // SAFETY: the queue exists.
        unsafe {
            if let Some(notify) = (*self.context).ops.req_notify_cq {
                notify(self.cq, 0);
            }
        }
        true
    }

    /// Takes the events of the descriptor. Returns whether there were any.
    pub(super) fn silence(&mut self) -> bool {
        let mut had_events = false;
        let (mut cq, mut about) = (std::ptr::null_mut(), std::ptr::null_mut::<c_void>());
        // SAFETY: the channel exists and is non-blocking.
        while unsafe { ibv_get_cq_event(self.channel, &mut cq, &mut about) } == 0 {
            (self.armed, had_events) = (false, true);
            // SAFETY: the event is one of this queue.
            unsafe { ibv_ack_cq_events(cq, 1) };
        }
        had_events
    }

    /// Whether all that was sent is complete.
    pub(super) fn is_sent(&self) -> bool {
        self.controls == CONTROLS && self.outbox.requests() == self.sizes.send_queue - u16::from(CONTROLS)
    }
}

impl Drop for Stream {
    fn drop(&mut self) {
        // SAFETY: all were made by `new`, or are null. The memory is freed afterwards, with the fields.
        unsafe {
            if !self.qp.is_null() {
                crate::qp::rdma_destroy_qp(self.id);
            }
            if !self.cq.is_null() {
                ibv_destroy_cq(self.cq);
            }
            if !self.channel.is_null() {
                ibv_destroy_comp_channel(self.channel);
            }
        }
    }
}
