//! The UD queue pair of a local address: its memory, and what completions mean.

use crate::device::Device;
use crate::rsocket::data::Buffer;
use crate::rsocket::stream::{Memory, Sizes};
use crate::verbs::*;
use libc::{c_int, c_void};
use rnic_cabi::cma::RDMA_UDP_QKEY;
use rnic_cabi::verbs::*;
use rnic_cm::{datagram, ip};
use std::net::{IpAddr, SocketAddr};

/// Marks the completion of a receive request.
const RECEIVE: u64 = 1 << 63;
/// Bytes of the network header in front of a received datagram.
const GRH: u32 = 40;
/// Bytes of a slot: the network header, and the longest datagram.
const SLOT: u32 = GRH + datagram::LONGEST as u32;
/// Completions that are taken at a time.
const BATCH: usize = 16;
/// Router hops that a packet may take.
const HOP_LIMIT: u8 = 64;

/// The way to a peer's queue pair.
pub(super) struct Path {
    ah: *mut ibv_ah,
    pub(super) qpn: u32,
}

// SAFETY: the pointer is one of libibverbs, whose functions may be called from all threads.
unsafe impl Send for Path {}

impl Drop for Path {
    fn drop(&mut self) {
        // SAFETY: it was made by `Queue::path`, and is forgotten.
        unsafe { ibv_destroy_ah(self.ah) };
    }
}

pub(super) struct Queue {
    pub(super) ip: IpAddr,
    context: *mut ibv_context,
    qp: *mut ibv_qp,
    cq: *mut ibv_cq,
    channel: *mut ibv_comp_channel,
    /// The slots of receives, and behind them those of sends.
    memory: Option<Memory>,
    /// Free slots of sends, and their number when nothing is being sent.
    free: Vec<u32>,
    sends: usize,
    /// Maximum bytes of a datagram, with the header.
    longest: usize,
    armed: bool,
}

// SAFETY: as for `Path`.
unsafe impl Send for Queue {}

impl Queue {
    /// # Errors
    /// Those of libibverbs.
    pub(super) fn new(device: &'static Device, sizes: &Sizes) -> Result<Queue, c_int> {
        let slots = |bytes: u32, requests: u16| {
            (bytes / datagram::LONGEST as u32).clamp(4, requests.clamp(4, device.max_requests).into())
        };
        let (receives, sends) = (slots(sizes.receive, sizes.receive_queue), slots(sizes.send, sizes.send_queue));
        let mut queue = Queue {
            ip: device.ip,
            context: device.context,
            qp: std::ptr::null_mut(),
            cq: std::ptr::null_mut(),
            channel: std::ptr::null_mut(),
            memory: None,
            free: (receives..receives + sends).rev().collect(),
            sends: sends as usize,
            longest: datagram::LONGEST.min(128 << device.mtu),
            armed: false,
        };
        let pd = device.pd()?;
        // SAFETY: the context and the protection domain stay. What was made is destroyed with the queue, if a later
        // step fails.
        unsafe {
            queue.channel = made(ibv_create_comp_channel(queue.context))?;
            libc::fcntl((*queue.channel).fd, libc::F_SETFL, libc::O_NONBLOCK);
            let entries = (receives + sends) as c_int;
            queue.cq = made(ibv_create_cq(queue.context, entries, std::ptr::null_mut(), queue.channel, 0))?;
            let mut attributes = ibv_qp_init_attr {
                qp_context: std::ptr::null_mut(),
                send_cq: queue.cq,
                recv_cq: queue.cq,
                srq: std::ptr::null_mut(),
                cap: ibv_qp_cap {
                    max_send_wr: sends,
                    max_recv_wr: receives,
                    max_send_sge: 1,
                    max_recv_sge: 1,
                    max_inline_data: 0,
                },
                qp_type: IBV_QPT_UD,
                sq_sig_all: 1,
            };
            queue.qp = made(ibv_create_qp(pd, &mut attributes))?;
            let bytes = (receives + sends) as usize * SLOT as usize;
            queue.memory = Some(Memory::new(pd, bytes, IBV_ACCESS_LOCAL_WRITE)?);
            for (state, mask) in [
                (IBV_QPS_INIT, IBV_QP_PKEY_INDEX | IBV_QP_PORT | IBV_QP_QKEY),
                (IBV_QPS_RTR, 0),
                (IBV_QPS_RTS, IBV_QP_SQ_PSN),
            ] {
                let mut change =
                    ibv_qp_attr { qp_state: state, port_num: 1, qkey: RDMA_UDP_QKEY, ..ibv_qp_attr::default() };
                check(ibv_modify_qp(queue.qp, &mut change, mask | IBV_QP_STATE))?;
            }
        }
        for slot in 0..receives {
            queue.post_receive(slot)?;
        }
        Ok(queue)
    }

    pub(super) fn qpn(&self) -> u32 {
        // SAFETY: the queue pair exists.
        unsafe { (*self.qp).qp_num }
    }

    /// The way to a peer.
    ///
    /// # Errors
    /// `EINVAL` if there is none.
    pub(super) fn path(&self, peer: IpAddr, qpn: u32) -> Result<Path, c_int> {
        let grh = ibv_global_route {
            dgid: ibv_gid { raw: ip::gid(peer) },
            hop_limit: HOP_LIMIT,
            ..ibv_global_route::default()
        };
        let mut attributes = ibv_ah_attr { grh, is_global: 1, port_num: 1, ..ibv_ah_attr::default() };
        // SAFETY: the queue pair exists, and its protection domain with it.
        let ah = unsafe { made(ibv_create_ah((*self.qp).pd, &mut attributes))? };
        Ok(Path { ah, qpn })
    }

    fn memory(&self) -> &Memory {
        self.memory.as_ref().expect("`new` makes it")
    }

    /// Gives the slot of a receive back.
    pub(super) fn post_receive(&self, slot: u32) -> Result<(), c_int> {
        let mut element = self.memory().local(slot * SLOT, SLOT);
        let mut request = ibv_recv_wr {
            wr_id: RECEIVE | u64::from(slot),
            next: std::ptr::null_mut(),
            sg_list: &mut element,
            num_sge: 1,
        };
        let mut bad = std::ptr::null_mut();
        // SAFETY: all pointers are valid.
        unsafe {
            let post = (*self.context).ops.post_recv.ok_or(libc::EOPNOTSUPP)?;
            check(post(self.qp, &mut request, &mut bad))
        }
    }

    /// Whether there is room for another datagram.
    pub(super) fn can_send(&self) -> bool {
        !self.free.is_empty()
    }

    /// Whether all that was sent has departed.
    pub(super) fn is_sent(&self) -> bool {
        self.free.len() == self.sends
    }

    /// Whether a datagram of `len` bytes, with its header, fits into one packet.
    pub(super) fn fits(&self, len: usize) -> bool {
        len <= self.longest
    }

    /// Sends a datagram that fits, if [`Queue::can_send`].
    ///
    /// # Safety
    /// The buffers are memory of the program.
    pub(super) unsafe fn send(&mut self, to: &Path, head: &[u8], buffers: &[Buffer<*const u8>]) -> Result<(), c_int> {
        let slot = self.free.last().copied().ok_or(libc::EAGAIN)?;
        let begin = slot * SLOT;
        let mut len = 0;
        for (from, bytes) in std::iter::once(&(head.as_ptr(), head.len())).chain(buffers) {
            // SAFETY: the caller's promise. `fill` checks the bounds of the memory.
            unsafe { self.memory().fill(begin + len, *from, *bytes as u32) };
            len += *bytes as u32;
        }
        let mut element = self.memory().local(begin, len);
        // SAFETY: all zeroes are valid.
        let mut request: ibv_send_wr = unsafe { std::mem::zeroed() };
        request.wr_id = slot.into();
        request.opcode = IBV_WR_SEND;
        (request.sg_list, request.num_sge) = (&mut element, 1);
        request.wr.ud = wr_ud { ah: to.ah, remote_qpn: to.qpn, remote_qkey: RDMA_UDP_QKEY };
        let mut bad = std::ptr::null_mut();
        // SAFETY: all pointers are valid.
        unsafe {
            let post = (*self.context).ops.post_send.ok_or(libc::EOPNOTSUPP)?;
            check(post(self.qp, &mut request, &mut bad))?;
        }
        self.free.pop();
        Ok(())
    }

    /// Takes all completions. `arrived` gets the slot of each received datagram, and its bytes.
    pub(super) fn poll(&mut self, mut arrived: impl FnMut(u32, u32)) {
        loop {
            // SAFETY: all zeroes are valid completions; the array has that many.
            let (count, completions) = unsafe {
                let mut completions: [ibv_wc; BATCH] = std::mem::zeroed();
                let Some(poll) = (*self.context).ops.poll_cq else { return };
                (poll(self.cq, BATCH as c_int, completions.as_mut_ptr()), completions)
            };
            let count = usize::try_from(count).unwrap_or(0).min(BATCH);
            for completion in &completions[..count] {
                let slot = completion.wr_id as u32;
                if completion.wr_id & RECEIVE == 0 {
                    self.free.push(slot);
                } else if completion.status == IBV_WC_SUCCESS && completion.byte_len >= GRH {
                    arrived(slot, completion.byte_len - GRH);
                }
            }
            if count < BATCH {
                return;
            }
        }
    }

    /// The sender of a received datagram of `len` bytes, and the length of the header in front of it; `None` if it has
    /// no header.
    pub(super) fn source(&self, slot: u32, len: u32) -> Option<(SocketAddr, usize)> {
        let mut head = [0; datagram::HEADER];
        let some = len.min(head.len() as u32);
        // SAFETY: the array has that many bytes.
        unsafe { self.memory().copy(slot * SLOT + GRH, head.as_mut_ptr(), some) };
        datagram::parse_source(&head[..some as usize])
    }

    /// Copies bytes of a received datagram, beginning with byte `from`.
    ///
    /// # Safety
    /// `to` has room for `len` bytes.
    pub(super) unsafe fn copy(&self, slot: u32, from: u32, to: *mut u8, len: u32) {
        // SAFETY: the caller's promise.
        unsafe { self.memory().copy(slot * SLOT + GRH + from, to, len) };
    }

    /// Makes sure that the descriptor becomes readable at the next completion. Returns whether this is new; then there
    /// may be completions already.
    pub(super) fn arm(&mut self) -> bool {
        if std::mem::replace(&mut self.armed, true) {
            return false;
        }
        // SAFETY: the queue exists.
        unsafe {
            if let Some(notify) = (*self.context).ops.req_notify_cq {
                notify(self.cq, 0);
            }
        }
        true
    }

    pub(super) fn fd(&self) -> c_int {
        // SAFETY: the channel exists.
        unsafe { (*self.channel).fd }
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
}

impl Drop for Queue {
    fn drop(&mut self) {
        // SAFETY: all were made by `new`, or are null. The memory is freed afterwards, with the fields.
        unsafe {
            if !self.qp.is_null() {
                ibv_destroy_qp(self.qp);
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
