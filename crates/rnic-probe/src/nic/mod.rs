//! Datagrams (UD) and reliable messages (RC) over a real RDMA NIC. `libibverbs.so.1` is loaded at run time, so a
//! program can be built and started without libibverbs.
//!
//! [`Nic::open`] opens the device with a RoCE v2 GID of an IP address. [`Nic::send`] posts a datagram, and
//! [`Nic::poll`] reports sent and received datagrams. An idle thread calls [`Nic::arm`], polls once more, and calls
//! [`Nic::sleep`].
//!
//! # Unsafe code
//!
//! This module has the only `unsafe` code of the crate: it calls C functions ([decision
//! 29](../../../../docs/adr/0029-a-nic-at-run-time.md)). It relies on three properties of libibverbs: the functions
//! have the types in the header `infiniband/verbs.h` of rdma-core; an object stays valid until this module destroys it;
//! the NIC does not access the memory of a work request after the request has completed. Memory that the NIC may write
//! at any time is read and written only through raw pointers.

#![allow(unsafe_code)]

mod find;
mod library;
mod memory;
mod pairs;
mod stamps;

use crate::connections::{self, CONNECTED, PROBES};
use find::{Found, find, gid};
use library::Functions;
use memory::Memory;
use nix::errno::Errno;
use nix::poll::{PollFd, PollFlags, PollTimeout, poll};
use nix::sys::eventfd::{EfdFlags, EventFd};
pub use pairs::Pair;
use pairs::RECEIVES as SHARED_RECEIVES;
use pairs::Reliable;
use rnic_cabi::verbs::*;
pub use stamps::{StampClock, Stamps};
use std::collections::BTreeMap;
use std::net::IpAddr;
use std::os::fd::{AsFd, BorrowedFd};
use std::ptr::null_mut;
use std::sync::Arc;

/// Number of posted receives.
const RECEIVES: usize = 512;
/// Maximum number of outstanding sends of datagrams.
const SENDS: usize = 256;
/// Maximum payload bytes of a datagram.
pub const MAX_DATAGRAM: usize = 4_096;
/// Bytes in front of a received datagram: the global routing header, or an IPv4 header in its last 20 bytes.
const GRH: usize = 40;
/// Length of a receive buffer in bytes.
const RECEIVE: usize = GRH + MAX_DATAGRAM;
/// Number of payload bytes that are copied from a received datagram.
pub const HEAD: usize = 64;
/// Maximum number of address handles. Each combination of recipient, flow label and DSCP needs one.
const HANDLES: usize = 16_384;
/// Bit in the identifier of a work request that marks a send.
const SEND: u64 = 1 << 32;

/// Maximum number of completions that have not been polled.
const COMPLETIONS: usize = RECEIVES + SENDS + SHARED_RECEIVES + PROBES;

/// The reason why no NIC can be used, or why the NIC failed.
#[derive(Debug, thiserror::Error)]
pub enum NicError {
    /// No NIC has the address, for this reason.
    #[error("{0}")]
    Absent(String),
    /// The NIC's driver refused an operation.
    #[error("{device}: {doing}: {error}")]
    Failed {
        /// Name of the device.
        device: String,
        /// The operation.
        doing: &'static str,
        /// The reason.
        error: Errno,
    },
}

/// The destination of a datagram.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug)]
pub struct Destination {
    /// IP address, of the same family as the NIC's address.
    pub ip: IpAddr,
    /// Queue pair number.
    pub qpn: u32,
    /// Q_Key.
    pub qkey: u32,
    /// Flow label, 0 to 2^20 - 1, from which NICs derive the UDP source port ([`source_port`]).
    pub flow: u32,
    /// Differentiated services code point, 0 to 63.
    pub dscp: u8,
}

/// A received datagram.
#[derive(Clone, Copy, Debug)]
pub struct Received {
    /// IP address of the sender.
    pub source: IpAddr,
    /// Queue pair number of the sender.
    pub qpn: u32,
    /// Payload bytes.
    pub len: usize,
    /// The first bytes of the payload, followed by zeros if the payload is shorter.
    pub head: [u8; HEAD],
    /// Hardware time stamp ([`Nic::clock`]); `None` if completions have none.
    pub stamp: Option<u64>,
}

/// A completion.
#[derive(Clone, Copy, Debug)]
pub enum Event {
    /// The send of the datagram with this token has completed, with a hardware time stamp ([`Nic::clock`]) if the NIC
    /// supports them; `false`: the NIC failed to send it.
    Sent(u64, bool, Option<u64>),
    /// A datagram was received.
    Received(Received),
    /// The message with this identifier was acknowledged; `false`: it was not acknowledged, and its queue pair has
    /// failed.
    Acknowledged(u64, bool),
}

/// The UDP source port that drivers derive from a flow label (`rdma_flow_label_to_udp_sport` of Linux). A NIC that
/// ignores the flow label, such as `rdma_rxe`, uses the same port for all flow labels.
pub const fn source_port(flow: u32) -> u16 {
    (((flow & 0x3fff) ^ ((flow & 0xf_c000) >> 14)) | 0xc000) as u16
}

/// The flow label of a path. Drivers do not derive a source port from flow label 0.
pub const fn flow(path: u32) -> u32 {
    path + 1
}

/// Objects of libibverbs, destroyed in reverse order of their creation.
struct Objects {
    functions: Functions,
    context: *mut ibv_context,
    pd: *mut ibv_pd,
    mr: *mut ibv_mr,
    channel: *mut ibv_comp_channel,
    cq: *mut ibv_cq,
    qp: *mut ibv_qp,
    handles: BTreeMap<(IpAddr, u32, u8), *mut ibv_ah>,
    memory: Memory,
    reliable: Option<Reliable>,
}

impl Drop for Objects {
    fn drop(&mut self) {
        let f = &self.functions;
        // SAFETY: each object exists or is null, and is destroyed once, after the objects that use it. The memory is
        // freed afterwards.
        unsafe {
            if let Some(reliable) = self.reliable.take() {
                reliable.destroy(f);
            }
            if !self.qp.is_null() {
                (f.destroy_qp)(self.qp);
            }
            for handle in self.handles.values() {
                (f.destroy_ah)(*handle);
            }
            if !self.cq.is_null() {
                (f.destroy_cq)(self.cq);
            }
            if !self.channel.is_null() {
                (f.destroy_comp_channel)(self.channel);
            }
            if !self.mr.is_null() {
                (f.dereg_mr)(self.mr);
            }
            if !self.pd.is_null() {
                (f.dealloc_pd)(self.pd);
            }
            if !self.context.is_null() {
                (f.close_device)(self.context);
            }
        }
    }
}

/// Wakes a thread that sleeps in [`Nic::sleep`].
#[derive(Clone)]
pub struct Waker(Arc<EventFd>);

impl Waker {
    /// Wakes the thread now, or makes its next call of [`Nic::sleep`] return at once.
    pub fn wake(&self) {
        // The write fails only if the counter is at its maximum, and then the thread will wake anyway.
        let _ = self.0.write(1);
    }
}

/// A NIC with one UD queue pair, and reliable queue pairs.
pub struct Nic {
    objects: Objects,
    name: String,
    local: IpAddr,
    port: u8,
    gid_index: u8,
    mtu: usize,
    qkey: u32,
    waker: Waker,
    /// Token of each outstanding send.
    sends: Vec<u64>,
    free: Vec<usize>,
    /// Clock of the time stamps of completions; `None` if completions have no time stamps.
    clock: Option<StampClock>,
    /// Recipients for which no address handle could be created, each with the number of datagrams to drop before the
    /// next attempt.
    unreachable: BTreeMap<IpAddr, u32>,
}

// SAFETY: objects of libibverbs are not bound to a thread: any thread may use them, and only one thread at a time uses
// a `Nic`.
unsafe impl Send for Nic {}

impl Nic {
    /// Opens the device that has a RoCE v2 GID of this IP address. `qkey` is the Q_Key of the queue pair, below 2^31;
    /// `stamps` selects the time stamps of completions.
    ///
    /// # Errors
    /// [`NicError::Absent`] if libibverbs or such a device does not exist, and [`NicError::Failed`] if the device
    /// cannot be used.
    pub fn open(ip: IpAddr, qkey: u32, stamps: Stamps) -> Result<Nic, NicError> {
        let functions = Functions::load().map_err(NicError::Absent)?;
        let found = find(&functions, ip)?;
        Nic::on(functions, found, (ip, qkey), stamps)
    }

    fn on(functions: Functions, found: Found, (ip, qkey): (IpAddr, u32), choice: Stamps) -> Result<Nic, NicError> {
        let Found { context, name, port, gid_index, mtu } = found;
        let memory = Memory::new(RECEIVES * RECEIVE + SENDS * MAX_DATAGRAM);
        let Some(memory) = memory else {
            // SAFETY: the context is open, and no other code uses it.
            unsafe { (functions.close_device)(context) };
            return Err(NicError::Absent("there is no memory for the NIC's buffers".to_string()));
        };
        let (pd, mr, channel, cq, qp) = (null_mut(), null_mut(), null_mut(), null_mut(), null_mut());
        let handles = BTreeMap::new();
        let mut objects = Objects { functions, context, pd, mr, channel, cq, qp, handles, memory, reliable: None };
        let failed = |doing| NicError::Failed { device: name.clone(), doing, error: Errno::last() };
        let (o, len) = (&mut objects, RECEIVES * RECEIVE + SENDS * MAX_DATAGRAM);
        let mut clock;
        // SAFETY: each function gets existing objects, and structures that are valid during the call.
        unsafe {
            let f = o.functions;
            o.pd = (f.alloc_pd)(o.context);
            if o.pd.is_null() {
                return Err(failed("cannot allocate a protection domain"));
            }
            o.mr = (f.reg_mr)(o.pd, o.memory.start.as_ptr().cast(), len, IBV_ACCESS_LOCAL_WRITE as i32);
            if o.mr.is_null() {
                return Err(failed("cannot register memory (is the limit of locked memory too low?)"));
            }
            o.channel = (f.create_comp_channel)(o.context);
            if o.channel.is_null() {
                return Err(failed("cannot create a completion channel"));
            }
            clock = stamps::clock(o.context, choice);
            let stamped = clock.and_then(|_| stamps::create(o.context, o.channel, COMPLETIONS as u32));
            o.cq = match stamped {
                Some(cq) => cq.cast(),
                None => {
                    clock = None;
                    (f.create_cq)(o.context, COMPLETIONS as i32, null_mut(), o.channel, 0)
                }
            };
            if o.cq.is_null() {
                return Err(failed("cannot create a completion queue"));
            }
            let (max_send_wr, max_recv_wr) = (SENDS as u32, RECEIVES as u32);
            let cap = ibv_qp_cap { max_send_wr, max_recv_wr, max_send_sge: 1, max_recv_sge: 1, max_inline_data: 0 };
            let (send_cq, recv_cq) = (o.cq, o.cq);
            let mut attributes = ibv_qp_init_attr {
                qp_context: null_mut(),
                send_cq,
                recv_cq,
                srq: null_mut(),
                cap,
                qp_type: IBV_QPT_UD,
                sq_sig_all: 1,
            };
            o.qp = (f.create_qp)(o.pd, &raw mut attributes);
            if o.qp.is_null() {
                return Err(failed("cannot create a UD queue pair"));
            }
            let init = ibv_qp_attr { qp_state: IBV_QPS_INIT, port_num: port, qkey, ..ibv_qp_attr::default() };
            let rtr = ibv_qp_attr { qp_state: IBV_QPS_RTR, ..ibv_qp_attr::default() };
            let rts = ibv_qp_attr { qp_state: IBV_QPS_RTS, sq_psn: 1, ..ibv_qp_attr::default() };
            let steps = [
                (init, IBV_QP_STATE | IBV_QP_PKEY_INDEX | IBV_QP_PORT | IBV_QP_QKEY),
                (rtr, IBV_QP_STATE),
                (rts, IBV_QP_STATE | IBV_QP_SQ_PSN),
            ];
            for (mut attributes, mask) in steps {
                let error = (f.modify_qp)(o.qp, &raw mut attributes, mask);
                if error != 0 {
                    let (device, doing) = (name.clone(), "cannot open the queue pair");
                    return Err(NicError::Failed { device, doing, error: Errno::from_raw(error) });
                }
            }
        }
        let waker = EventFd::from_value_and_flags(0, EfdFlags::EFD_NONBLOCK | EfdFlags::EFD_CLOEXEC);
        let waker = Waker(Arc::new(waker.map_err(|_| failed("cannot make an event file"))?));
        let (sends, free, unreachable) = (vec![0; SENDS], (0..SENDS).collect(), BTreeMap::new());
        let nic = Nic { objects, name, local: ip, port, gid_index, mtu, qkey, waker, sends, free, clock, unreachable };
        for slot in 0..RECEIVES {
            nic.receive_into(slot)?;
        }
        Ok(nic)
    }

    /// Name of the device.
    pub fn name(&self) -> &str {
        &self.name
    }

    /// Number of the queue pair, and its Q_Key.
    pub fn address(&self) -> (u32, u32) {
        // SAFETY: the queue pair exists, and its number does not change.
        (unsafe { (*self.objects.qp).qp_num }, self.qkey)
    }

    /// The clock of the hardware time stamps; `None` if completions have none.
    pub fn clock(&self) -> Option<StampClock> {
        self.clock
    }

    /// Maximum payload bytes of a datagram.
    pub fn mtu(&self) -> usize {
        self.mtu
    }

    /// A handle that wakes the thread in [`Nic::sleep`].
    pub fn waker(&self) -> Waker {
        self.waker.clone()
    }

    fn failed(&self, doing: &'static str, error: i32) -> NicError {
        NicError::Failed { device: self.name.clone(), doing, error: Errno::from_raw(error) }
    }

    fn receive_into(&self, slot: usize) -> Result<(), NicError> {
        let Objects { context, qp, mr, memory, .. } = &self.objects;
        // SAFETY: the context, the queue pair and the region exist. The list is valid during the call, and the NIC
        // writes only into the memory of this slot, which is inside the region.
        let error = unsafe {
            let length = RECEIVE as u32;
            let mut sge = ibv_sge { addr: memory.address(slot * RECEIVE), length, lkey: (**mr).lkey };
            let mut request = ibv_recv_wr { wr_id: slot as u64, next: null_mut(), sg_list: &raw mut sge, num_sge: 1 };
            let mut bad = null_mut();
            match (**context).ops.post_recv {
                Some(post) => post(*qp, &raw mut request, &raw mut bad),
                None => libc::ENOSYS,
            }
        };
        if error == 0 { Ok(()) } else { Err(self.failed("cannot post a receive", error)) }
    }

    /// Posts a datagram of `len` bytes: `bytes`, followed by zeros. [`Event::Sent`] will carry `token`. Returns whether
    /// the datagram was posted. It is not posted if it is too long, too many sends are outstanding, or the recipient
    /// has no link-layer address.
    ///
    /// # Errors
    /// If the NIC fails.
    pub fn send(&mut self, token: u64, to: &Destination, bytes: &[u8], len: usize) -> Result<bool, NicError> {
        if len > self.mtu || bytes.len() > len || to.ip.is_ipv4() != self.local.is_ipv4() {
            return Ok(false);
        }
        let Some(handle) = self.handle(to) else { return Ok(false) };
        let Some(slot) = self.free.pop() else { return Ok(false) };
        let Objects { context, qp, mr, memory, .. } = &self.objects;
        let at = RECEIVES * RECEIVE + slot * MAX_DATAGRAM;
        memory.write(at, bytes);
        memory.clear(at + bytes.len(), len - bytes.len());
        // SAFETY: all objects exist. The list is valid during the call, and this slot is not written before the send
        // has completed.
        let error = unsafe {
            let mut sge = ibv_sge { addr: memory.address(at), length: len as u32, lkey: (**mr).lkey };
            let mut request: ibv_send_wr = std::mem::zeroed();
            request.wr_id = SEND | slot as u64;
            request.sg_list = &raw mut sge;
            request.num_sge = 1;
            request.opcode = IBV_WR_SEND;
            request.send_flags = IBV_SEND_SIGNALED;
            request.wr.ud = wr_ud { ah: handle, remote_qpn: to.qpn, remote_qkey: to.qkey };
            let mut bad = null_mut();
            match (**context).ops.post_send {
                Some(post) => post(*qp, &raw mut request, &raw mut bad),
                None => libc::ENOSYS,
            }
        };
        match error {
            0 => {
                self.sends[slot] = token;
                Ok(true)
            }
            libc::ENOMEM => {
                self.free.push(slot);
                Ok(false)
            }
            error => Err(self.failed("cannot post a datagram", error)),
        }
    }

    /// The address handle of a recipient; `None` if it cannot be created.
    fn handle(&mut self, to: &Destination) -> Option<*mut ibv_ah> {
        let key = (to.ip, to.flow, to.dscp);
        if let Some(handle) = self.objects.handles.get(&key) {
            return Some(*handle);
        }
        // Creating an address handle resolves a link-layer address, which takes long if no host has the IP address.
        if let Some(rest) = self.unreachable.get_mut(&to.ip) {
            *rest -= 1;
            if *rest > 0 {
                return None;
            }
            self.unreachable.remove(&to.ip);
        }
        if self.objects.handles.len() >= HANDLES {
            // Outstanding datagrams may use the address handles, so the handles are destroyed only when no datagram is
            // outstanding.
            if self.free.len() < SENDS {
                return None;
            }
            for handle in std::mem::take(&mut self.objects.handles).into_values() {
                // SAFETY: the handle exists, and no outstanding datagram uses it.
                unsafe { (self.objects.functions.destroy_ah)(handle) };
            }
        }
        let route = ibv_global_route {
            dgid: gid(to.ip),
            flow_label: to.flow & 0xf_ffff,
            sgid_index: self.gid_index,
            hop_limit: 64,
            traffic_class: to.dscp << 2,
        };
        let mut attributes = ibv_ah_attr { grh: route, is_global: 1, port_num: self.port, ..ibv_ah_attr::default() };
        // SAFETY: the protection domain exists, and the attributes are valid during the call.
        let handle = unsafe { (self.objects.functions.create_ah)(self.objects.pd, &raw mut attributes) };
        if handle.is_null() {
            self.unreachable.insert(to.ip, 16);
            return None;
        }
        self.objects.handles.insert(key, handle);
        Some(handle)
    }

    /// Reports the completions since the last call.
    ///
    /// # Errors
    /// If the NIC fails.
    pub fn poll(&mut self, mut report: impl FnMut(Event)) -> Result<(), NicError> {
        loop {
            let mut found = [(ibv_wc::default(), 0); 32];
            let count = self.poll_queue(&mut found)?;
            for (wc, stamp) in &found[..count] {
                let stamp = self.clock.filter(|_| wc.status == IBV_WC_SUCCESS).map(|_| *stamp);
                self.completed(wc, stamp, &mut report)?;
            }
            if count < found.len() {
                return Ok(());
            }
        }
    }

    /// Polls completions from the queue; returns their number.
    fn poll_queue(&mut self, found: &mut [(ibv_wc, u64)]) -> Result<usize, NicError> {
        let Objects { context, cq, .. } = self.objects;
        if self.clock.is_some() {
            // SAFETY: the queue exists, and because the NIC has a clock, it was created with time stamps.
            let taken = unsafe { stamps::poll(cq.cast(), found) };
            return taken.map_err(|error| self.failed("cannot poll the completion queue", error));
        }
        let mut plain = [ibv_wc::default(); 32];
        let most = plain.len().min(found.len());
        // SAFETY: the context and the queue exist, and the array has at least this length.
        let count = unsafe {
            match (*context).ops.poll_cq {
                Some(poll) => poll(cq, most as i32, plain.as_mut_ptr()),
                None => -libc::ENOSYS,
            }
        };
        if count < 0 {
            return Err(self.failed("cannot poll the completion queue", -count));
        }
        let count = (count as usize).min(most);
        for (to, wc) in found.iter_mut().zip(&plain[..count]) {
            *to = (*wc, 0);
        }
        Ok(count)
    }

    fn completed(&mut self, wc: &ibv_wc, stamp: Option<u64>, report: &mut impl FnMut(Event)) -> Result<(), NicError> {
        let slot = (wc.wr_id & 0xffff_ffff) as usize;
        if wc.wr_id & connections::RECEIVE != 0 {
            let posted = self.objects.reliable.as_ref().map(|own| own.receive_into(self.objects.context, slot));
            let refused = posted.filter(|error| *error != 0);
            return refused.map_or(Ok(()), |error| Err(self.failed("cannot post a receive", error)));
        }
        if wc.wr_id & CONNECTED != 0 {
            report(Event::Acknowledged(wc.wr_id, wc.status == IBV_WC_SUCCESS));
            return Ok(());
        }
        if wc.wr_id & SEND != 0 {
            if slot < SENDS {
                self.free.push(slot);
                report(Event::Sent(self.sends[slot], wc.status == IBV_WC_SUCCESS, stamp));
            }
            return Ok(());
        }
        if slot >= RECEIVES || wc.status == IBV_WC_WR_FLUSH_ERR {
            return Err(self.failed("the queue pair has failed", libc::EIO));
        }
        let len = (wc.byte_len as usize).clamp(GRH, RECEIVE) - GRH;
        if wc.status == IBV_WC_SUCCESS && wc.wc_flags & IBV_WC_GRH != 0 {
            let mut header = [0; GRH];
            self.objects.memory.read(slot * RECEIVE, &mut header);
            let mut head = [0; HEAD];
            self.objects.memory.read(slot * RECEIVE + GRH, &mut head[..len.min(HEAD)]);
            let source = source(&header, self.local.is_ipv4());
            report(Event::Received(Received { source, qpn: wc.src_qp & 0xff_ffff, len, head, stamp }));
        }
        self.receive_into(slot)
    }

    /// Requests an event for the next completion. Earlier completions raise no event, so the caller polls afterwards,
    /// and sleeps only if the poll found nothing.
    ///
    /// # Errors
    /// If the NIC fails.
    pub fn arm(&mut self) -> Result<(), NicError> {
        let Objects { context, cq, .. } = &self.objects;
        // SAFETY: the context and the queue exist.
        let error = unsafe {
            match (**context).ops.req_notify_cq {
                Some(notify) => notify(*cq, 0),
                None => libc::ENOSYS,
            }
        };
        if error == 0 { Ok(()) } else { Err(self.failed("cannot ask for a completion event", error)) }
    }

    /// Sleeps until a work request has completed since [`Nic::arm`], the time has passed, or a [`Waker`] wakes the
    /// thread.
    ///
    /// # Errors
    /// If the NIC fails.
    pub fn sleep(&mut self, milliseconds: u16) -> Result<(), NicError> {
        let Objects { functions, channel, .. } = &self.objects;
        // SAFETY: the channel exists, and its file is open as long as the channel exists.
        let fd = unsafe { BorrowedFd::borrow_raw((**channel).fd) };
        let mut files = [PollFd::new(fd, PollFlags::POLLIN), PollFd::new(self.waker.0.as_fd(), PollFlags::POLLIN)];
        let woken = poll(&mut files, PollTimeout::from(milliseconds));
        let is_ready = |file: &PollFd<'_>| file.revents().is_some_and(|events| events.contains(PollFlags::POLLIN));
        match woken {
            Ok(_) => {}
            Err(Errno::EINTR) => return Ok(()),
            Err(error) => return Err(self.failed("cannot wait for completions", error as i32)),
        }
        if is_ready(&files[1]) {
            // This resets the counter to 0, and fails if the counter is 0 already.
            let _ = self.waker.0.read();
        }
        if is_ready(&files[0]) {
            let (mut queue, mut own) = (null_mut(), null_mut());
            // SAFETY: the channel exists and has one event, which is acknowledged.
            unsafe {
                if (functions.get_cq_event)(*channel, &raw mut queue, &raw mut own) == 0 {
                    (functions.ack_cq_events)(queue, 1);
                }
            }
        }
        Ok(())
    }
}

/// The sender's address, from the bytes in front of a datagram.
fn source(header: &[u8; GRH], is_ipv4: bool) -> IpAddr {
    if is_ipv4 {
        // An IPv4 header without options is in the last 20 bytes.
        let octets: [u8; 4] = [header[32], header[33], header[34], header[35]];
        return octets.into();
    }
    let mut octets = [0; 16];
    octets.copy_from_slice(&header[8..24]);
    IpAddr::from(octets)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn source_ports_follow_linux() {
        // rdma_flow_label_to_udp_sport of include/rdma/ib_verbs.h, by hand.
        assert_eq!((source_port(0), source_port(1), source_port(0x4000)), (0xc000, 0xc001, 0xc001));
        assert_eq!(source_port(0xf_ffff), 0xc000 | (0x3fff ^ 0x3f));
    }

    #[test]
    fn addresses_are_read_from_headers() {
        let mut header = [0; GRH];
        header[32..36].copy_from_slice(&[10, 0, 0, 7]);
        assert_eq!(source(&header, true), IpAddr::from([10, 0, 0, 7]));
        header[8..24].copy_from_slice(&[0xfd; 16]);
        assert_eq!(source(&header, false), IpAddr::from([0xfd; 16]));
        assert_eq!(gid([10, 0, 0, 7].into()).raw[10..], [0xff, 0xff, 10, 0, 0, 7]);
    }
}
