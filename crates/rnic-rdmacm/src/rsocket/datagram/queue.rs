//! The UD queue pair of a local address: its memory and its completions.

use crate::objects::device::Device;
use crate::rsocket::completions::Completions;
use crate::rsocket::data::Buffer;
use crate::rsocket::stream::{Memory, Sizes};
use crate::verbs::*;
use libc::c_int;
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
/// Hop limit of packets.
const HOP_LIMIT: u8 = 64;

/// The path to a peer's queue pair.
pub(super) struct Path {
    ah: *mut ibv_ah,
    pub(super) qpn: u32,
}

// SAFETY: the pointer belongs to libibverbs, whose functions may be called from all threads.
unsafe impl Send for Path {}

impl Drop for Path {
    fn drop(&mut self) {
        // SAFETY: `Queue::path` made the address handle, and no request with it is outstanding in the library: posting
        // copies the path.
        unsafe { ibv_destroy_ah(self.ah) };
    }
}

/// A queue pair that is destroyed when the structure is dropped.
struct QueuePair(*mut ibv_qp);

impl Drop for QueuePair {
    fn drop(&mut self) {
        // SAFETY: `Queue::new` made the queue pair.
        unsafe { ibv_destroy_qp(self.0) };
    }
}

/// The queue pair for datagrams of a local address. The fields are dropped in their order: the queue pair before its
/// completion queue and the memory.
pub(super) struct Queue {
    pub(super) ip: IpAddr,
    qp: QueuePair,
    context: *mut ibv_context,
    completions: Completions,
    /// The slots of receives, followed by the slots of sends.
    memory: Memory,
    /// Free slots of sends.
    free: Vec<u32>,
    /// Number of slots of sends.
    sends: usize,
    /// Maximum bytes of a datagram, with the header.
    longest: usize,
}

// SAFETY: as for `Path`.
unsafe impl Send for Queue {}

impl Queue {
    /// Makes the queue pair of a device, with these sizes.
    ///
    /// # Errors
    /// The errors of libibverbs.
    pub(super) fn new(device: &'static Device, sizes: &Sizes) -> Result<Queue, c_int> {
        let slots = |bytes: u32, requests: u16| {
            (bytes / datagram::LONGEST as u32).clamp(4, requests.clamp(4, device.max_requests).into())
        };
        let (receives, sends) = (slots(sizes.receive, sizes.receive_queue), slots(sizes.send, sizes.send_queue));
        let pd = device.pd()?;
        // SAFETY: the device, its context and its protection domain stay.
        let (completions, qp, memory) = unsafe {
            let completions = Completions::new(device.context, (receives + sends) as c_int)?;
            let mut attributes = ibv_qp_init_attr {
                qp_context: std::ptr::null_mut(),
                send_cq: completions.cq(),
                recv_cq: completions.cq(),
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
            let qp = QueuePair(made(ibv_create_qp(pd, &mut attributes))?);
            let bytes = (receives + sends) as usize * SLOT as usize;
            let memory = Memory::new(pd, bytes, IBV_ACCESS_LOCAL_WRITE)?;
            for (state, mask) in [
                (IBV_QPS_INIT, IBV_QP_PKEY_INDEX | IBV_QP_PORT | IBV_QP_QKEY),
                (IBV_QPS_RTR, 0),
                (IBV_QPS_RTS, IBV_QP_SQ_PSN),
            ] {
                let mut change =
                    ibv_qp_attr { qp_state: state, port_num: 1, qkey: RDMA_UDP_QKEY, ..ibv_qp_attr::default() };
                check(ibv_modify_qp(qp.0, &mut change, mask | IBV_QP_STATE))?;
            }
            (completions, qp, memory)
        };
        let queue = Queue {
            ip: device.ip,
            qp,
            context: device.context,
            completions,
            memory,
            free: (receives..receives + sends).rev().collect(),
            sends: sends as usize,
            longest: datagram::LONGEST.min(128 << device.mtu),
        };
        for slot in 0..receives {
            queue.post_receive(slot)?;
        }
        Ok(queue)
    }

    pub(super) fn qpn(&self) -> u32 {
        // SAFETY: the queue pair exists.
        unsafe { (*self.qp.0).qp_num }
    }

    /// The path to a peer.
    ///
    /// # Errors
    /// `EINVAL` if the address is not possible.
    pub(super) fn path(&self, peer: IpAddr, qpn: u32) -> Result<Path, c_int> {
        let grh = ibv_global_route {
            dgid: ibv_gid { raw: ip::gid(peer) },
            hop_limit: HOP_LIMIT,
            ..ibv_global_route::default()
        };
        let mut attributes = ibv_ah_attr { grh, is_global: 1, port_num: 1, ..ibv_ah_attr::default() };
        // SAFETY: the queue pair exists, and its protection domain with it.
        let ah = unsafe { made(ibv_create_ah((*self.qp.0).pd, &mut attributes))? };
        Ok(Path { ah, qpn })
    }

    /// Posts the slot of a receive.
    pub(super) fn post_receive(&self, slot: u32) -> Result<(), c_int> {
        let mut element = self.memory.local(slot * SLOT, SLOT);
        let mut request = ibv_recv_wr {
            wr_id: RECEIVE | u64::from(slot),
            next: std::ptr::null_mut(),
            sg_list: &mut element,
            num_sge: 1,
        };
        let mut bad = std::ptr::null_mut();
        // SAFETY: the queue pair exists, and the request and the result are local variables.
        unsafe {
            let post = (*self.context).ops.post_recv.ok_or(libc::EOPNOTSUPP)?;
            check(post(self.qp.0, &mut request, &mut bad))
        }
    }

    /// Whether a slot for another datagram is free.
    pub(super) fn can_send(&self) -> bool {
        !self.free.is_empty()
    }

    /// Whether all datagrams have departed.
    pub(super) fn is_all_sent(&self) -> bool {
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
            // SAFETY: the caller promises the conditions of this function. `fill` checks the bounds of the memory.
            unsafe { self.memory.fill(begin + len, *from, *bytes as u32) };
            len += *bytes as u32;
        }
        let mut element = self.memory.local(begin, len);
        // SAFETY: all zeros are a valid value.
        let mut request: ibv_send_wr = unsafe { std::mem::zeroed() };
        request.wr_id = slot.into();
        request.opcode = IBV_WR_SEND;
        (request.sg_list, request.num_sge) = (&mut element, 1);
        request.wr.ud = wr_ud { ah: to.ah, remote_qpn: to.qpn, remote_qkey: RDMA_UDP_QKEY };
        let mut bad = std::ptr::null_mut();
        // SAFETY: the queue pair exists, and the request and the result are local variables.
        unsafe {
            let post = (*self.context).ops.post_send.ok_or(libc::EOPNOTSUPP)?;
            check(post(self.qp.0, &mut request, &mut bad))?;
        }
        self.free.pop();
        Ok(())
    }

    /// Takes all completions. `arrived` gets the slot of each received datagram, and its bytes.
    pub(super) fn poll(&mut self, mut arrived: impl FnMut(u32, u32)) {
        while let Ok(batch) = self.completions.poll() {
            for completion in batch.completions() {
                let slot = completion.wr_id as u32;
                if completion.wr_id & RECEIVE == 0 {
                    self.free.push(slot);
                } else if completion.status == IBV_WC_SUCCESS && completion.byte_len >= GRH {
                    arrived(slot, completion.byte_len - GRH);
                }
            }
            if !batch.is_full() {
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
        unsafe { self.memory.copy(slot * SLOT + GRH, head.as_mut_ptr(), some) };
        datagram::parse_source(&head[..some as usize])
    }

    /// Copies bytes of a received datagram, beginning with byte `from`.
    ///
    /// # Safety
    /// `to` has room for `len` bytes.
    pub(super) unsafe fn copy(&self, slot: u32, from: u32, to: *mut u8, len: u32) {
        // SAFETY: the caller promises the conditions of this function.
        unsafe { self.memory.copy(slot * SLOT + GRH + from, to, len) };
    }

    /// Arms the descriptor, which becomes readable at the next completion. Returns whether the descriptor was not armed
    /// before; in this case completions may have arrived already.
    pub(super) fn arm(&mut self) -> bool {
        self.completions.arm()
    }

    pub(super) fn fd(&self) -> c_int {
        self.completions.fd()
    }

    /// Takes the events of the descriptor. Returns whether the descriptor had any events.
    pub(super) fn take_events(&mut self) -> bool {
        self.completions.take_events()
    }
}
