//! The verbs of a [`Device`] (one RDMA NIC): functions that create, modify and destroy objects, post work requests and
//! poll completions.

use crate::backing::{Backing, Buffer, ForeignMemory, Virtual};
use crate::common::Common;
use crate::device::Device;
use crate::flow::Congestion;
use crate::memory::{Memory, Spans, total};
use crate::packet::Route;
use crate::qp::ud::NO_CONNECTION;
use crate::qp::{Engine, MAX_IN_FLIGHT, Qp};
use crate::queue::{CompletionQueue, Notify, Receive, ReceiveQueue, SharedReceiveQueue};
use crate::send_queue::{Local, Wqe};
use crate::types::{
    Access, Completion, Connection, CqId, Data, DatagramAttributes, Event, Extras, MAX_MTU, MrId, MrInfo, Pd, QpChange,
    QpInfo, QpInit, Qpn, Recipient, RecvRequest, SendAttributes, SendOp, SendRequest, Service, Sge, SrqId, SrqInfo,
    State, Status, VerbsError, range,
};
use rnic_transport::{BitRate, FlowConfig, GoBack, NackPolicy, Psn, Time, headers};
use std::net::SocketAddr;

/// Why rights do not fit the memory.
const READ_ONLY: &str = "read-only memory admits neither local_write nor remote_write nor remote_atomic";
/// Why rights do not fit each other.
const NEEDS_LOCAL_WRITE: &str = "remote_write and remote_atomic need local_write";

/// Verbs for protection domains and memory regions.
impl Device {
    /// Creates a protection domain.
    pub fn create_pd(&mut self) -> Pd {
        Pd(self.domains.insert(()))
    }

    /// Destroys a protection domain.
    ///
    /// # Errors
    /// [`VerbsError::Busy`] while a memory region, a queue pair or a shared receive queue belongs to the protection
    /// domain.
    pub fn destroy_pd(&mut self, pd: Pd) -> Result<(), VerbsError> {
        let busy = |by| Err(VerbsError::Busy { what: "protection domain", by });
        if self.ctx.memory.has_domain(pd) {
            return busy("a memory region");
        }
        if self.qps.values().any(|qp| qp.common.pd == pd) {
            return busy("a queue pair");
        }
        if self.ctx.srqs.values().any(|srq| srq.pd == pd) {
            return busy("a shared receive queue");
        }
        self.domains.remove(pd.0).ok_or(VerbsError::Unknown("such protection domain"))
    }

    fn domain(&self, pd: Pd) -> Result<(), VerbsError> {
        self.domains.get(pd.0).copied().ok_or(VerbsError::Unknown("such protection domain"))
    }

    /// Registers memory for local and remote access. The device owns the memory until [`Device::deregister`] returns
    /// it.
    ///
    /// `addr` is the virtual address of the first byte, as in the work requests of this side and of the peer. With
    /// `None` the device chooses an address.
    ///
    /// # Errors
    /// If a limit of the device is reached, or the region would not end below 2^64.
    pub fn register(
        &mut self, pd: Pd, bytes: Vec<u8>, addr: Option<u64>, access: Access,
    ) -> Result<MrInfo, VerbsError> {
        self.register_backing(pd, Backing::Owned(bytes), addr, access)
    }

    /// Registers a buffer of any type like the vector of [`Device::register`]. The device owns the buffer until
    /// [`Device::deregister_buffer`] returns it.
    ///
    /// # Errors
    /// As [`Device::register`].
    pub fn register_buffer(
        &mut self, pd: Pd, buffer: Box<dyn Buffer>, addr: Option<u64>, access: Access,
    ) -> Result<MrInfo, VerbsError> {
        let len = (*buffer).bytes().len();
        self.register_backing(pd, Backing::Held(buffer, len), addr, access)
    }

    /// Registers memory that the application owns. The device accesses the memory until [`Device::deregister`]
    /// returns, or the device is dropped.
    ///
    /// `addr` is the virtual address of the first byte, as in the work requests of this side and of the peer. With
    /// `None` it is the memory's address in this process. The two addresses may differ only by a multiple of 8, so that
    /// an aligned virtual address of an atomic operation is aligned in memory too.
    ///
    /// # Errors
    /// The errors of [`Device::register`]. Also if `access` allows writes to memory that is read-only, or if the
    /// virtual address and the address in this process differ by a number that is not a multiple of 8.
    pub fn register_foreign(
        &mut self, pd: Pd, memory: ForeignMemory, addr: Option<u64>, access: Access,
    ) -> Result<MrInfo, VerbsError> {
        let writes = access.local_write || access.remote_write || access.remote_atomic;
        if writes && !memory.is_writable() {
            return Err(VerbsError::Unsupported(READ_ONLY));
        }
        let addr = addr.unwrap_or(memory.addr());
        if !memory.is_empty() && addr % 8 != memory.addr() % 8 {
            let possible = "the memory's own address plus or minus a multiple of 8".into();
            return Err(VerbsError::Range { name: "the address", value: addr, possible });
        }
        self.register_backing(pd, Backing::Foreign(memory), Some(addr), access)
    }

    /// Registers `len` bytes of memory without bytes, for simulations: packets carry the lengths of its data, but the
    /// data of what is read from it is undefined, and what is written to it is discarded. All checks of keys, rights
    /// and bounds apply. Atomics fail.
    ///
    /// # Errors
    /// As [`Device::register`].
    pub fn register_virtual(
        &mut self, pd: Pd, len: u64, addr: Option<u64>, access: Access,
    ) -> Result<MrInfo, VerbsError> {
        let possible = || format!("0 to {}", usize::MAX).into();
        let range = |_| VerbsError::Range { name: "the length of virtual memory", value: len, possible: possible() };
        let len = usize::try_from(len).map_err(range)?;
        self.register_backing(pd, Backing::Virtual(Virtual { len, written: None }), addr, access)
    }

    /// Takes the offset and the length of the last write into a region of [`Device::register_virtual`] since the last
    /// call; `None` if there was none, or if the region is no such region. A received packet causes at most one write.
    pub fn take_written(&mut self, id: MrId) -> Option<(u64, u32)> {
        match self.ctx.memory.backing(id)? {
            Backing::Virtual(memory) => memory.written.take(),
            _ => None,
        }
    }

    fn register_backing(
        &mut self, pd: Pd, backing: Backing, addr: Option<u64>, access: Access,
    ) -> Result<MrInfo, VerbsError> {
        self.domain(pd)?;
        if (access.remote_write || access.remote_atomic) && !access.local_write {
            return Err(VerbsError::Unsupported(NEEDS_LOCAL_WRITE));
        }
        let limits = self.config.limits;
        if self.ctx.memory.count() >= limits.regions as usize {
            return Err(VerbsError::Limit { what: "memory regions", limit: limits.regions.into() });
        }
        if self.ctx.memory.bytes().saturating_add(backing.len() as u64) > limits.bytes {
            return Err(VerbsError::Limit { what: "bytes of registered memory", limit: limits.bytes });
        }
        let info = self.ctx.memory.register(pd, backing, addr, access, &mut self.rng);
        let possible = "low enough for the region to end below 2^64".into();
        info.ok_or(VerbsError::Range { name: "the address", value: addr.unwrap_or(u64::MAX), possible })
    }

    /// Deregisters a memory region. From now on the device does not access the region's memory, and work requests that
    /// still refer to it fail. Returns the region's bytes if the device owned them as a vector; otherwise an empty
    /// vector.
    ///
    /// # Errors
    /// If there is no such region.
    pub fn deregister(&mut self, id: MrId) -> Result<Vec<u8>, VerbsError> {
        match self.ctx.memory.deregister(id).ok_or(VerbsError::Unknown("such memory region"))? {
            Backing::Owned(bytes) => Ok(bytes),
            Backing::Held(..) | Backing::Foreign(_) | Backing::Virtual(_) => Ok(Vec::new()),
        }
    }

    /// Deregisters a memory region like [`Device::deregister`], and returns the buffer of
    /// [`Device::register_buffer`]. For a region of another kind it is the vector that [`Device::deregister`] returns.
    ///
    /// # Errors
    /// If there is no such region.
    pub fn deregister_buffer(&mut self, id: MrId) -> Result<Box<dyn Buffer>, VerbsError> {
        match self.ctx.memory.deregister(id).ok_or(VerbsError::Unknown("such memory region"))? {
            Backing::Held(buffer, _) => Ok(buffer),
            Backing::Owned(bytes) => Ok(Box::new(bytes)),
            Backing::Foreign(_) | Backing::Virtual(_) => Ok(Box::new(Vec::new())),
        }
    }

    /// Changes the rights to a memory region. Its keys stay. Packets that arrive from now on need the new rights, as do
    /// work requests that are posted from now on.
    ///
    /// # Errors
    /// If there is no such region, or the rights do not fit each other or the memory.
    pub fn change_access(&mut self, id: MrId, access: Access) -> Result<(), VerbsError> {
        let writes = access.local_write || access.remote_write || access.remote_atomic;
        match self.backing(id)? {
            Backing::Foreign(memory) if writes && !memory.is_writable() => Err(VerbsError::Unsupported(READ_ONLY)),
            _ if (access.remote_write || access.remote_atomic) && !access.local_write => {
                Err(VerbsError::Unsupported(NEEDS_LOCAL_WRITE))
            }
            _ => {
                self.ctx.memory.change_access(id, access);
                Ok(())
            }
        }
    }

    /// Gives a region of [`Device::register_foreign`] other memory, and other rights or another protection domain, as a
    /// deregistration and a registration would, but the keys stay. The returned handle takes the place of `id`. Work
    /// requests that refer to the old memory fail.
    ///
    /// # Errors
    /// As [`Device::register_foreign`]; the region is as it was then.
    pub fn reregister_foreign(
        &mut self, id: MrId, pd: Pd, memory: ForeignMemory, addr: Option<u64>, access: Access,
    ) -> Result<MrInfo, VerbsError> {
        self.backing(id)?;
        let new = self.register_foreign(pd, memory, addr, access)?;
        Ok(self.ctx.memory.take_keys(id, new))
    }

    /// Copies `out.len()` bytes of a memory region into `out`, beginning with the region's byte `offset`. The device or
    /// the application may own the region's memory.
    ///
    /// # Errors
    /// If no region has this handle, or the region ends before the last of these bytes. Then nothing is copied.
    pub fn read_memory(&mut self, id: MrId, offset: usize, out: &mut [u8]) -> Result<(), VerbsError> {
        let backing = self.backing(id)?;
        if let Backing::Virtual(_) = backing {
            out.fill(0);
        }
        Ok(backing.read(offset, out)?)
    }

    /// Copies `data` into a memory region, beginning at the region's byte `offset`. The device or the application may
    /// own the region's memory.
    ///
    /// # Errors
    /// If no region has this handle, the region ends before the last of these bytes, or the region is read-only foreign
    /// memory. Then nothing is copied.
    pub fn write_memory(&mut self, id: MrId, offset: usize, data: &[u8]) -> Result<(), VerbsError> {
        Ok(self.backing(id)?.write(offset, data)?)
    }

    fn backing(&mut self, id: MrId) -> Result<&mut Backing, VerbsError> {
        self.ctx.memory.backing(id).ok_or(VerbsError::Unknown("such memory region"))
    }

    /// Gives a memory region a new remote key. The old remote key is no longer valid. The new key is valid even if a
    /// peer had invalidated the old key.
    ///
    /// # Errors
    /// If there is no such region.
    pub fn rekey(&mut self, id: MrId) -> Result<MrInfo, VerbsError> {
        self.ctx.memory.rekey(id, &mut self.rng).ok_or(VerbsError::Unknown("such memory region"))
    }

    /// The bytes of a memory region that the device owns; `None` for memory of the application, which
    /// [`Device::read_memory`] can read.
    pub fn bytes(&self, id: MrId) -> Option<&[u8]> {
        self.ctx.memory.bytes_of(id)
    }

    /// The bytes of a memory region that the device owns, as a mutable slice; `None` for memory of the application,
    /// which [`Device::write_memory`] can write.
    pub fn bytes_mut(&mut self, id: MrId) -> Option<&mut [u8]> {
        self.ctx.memory.bytes_of_mut(id)
    }

    fn check_sges(&self, pd: Pd, sges: &[Sge], max: u32, write: bool) -> Result<Spans, VerbsError> {
        if sges.len() > max as usize {
            return Err(VerbsError::Limit { what: "scatter-gather elements", limit: max.into() });
        }
        match self.ctx.memory.check(pd, sges, write) {
            Ok(spans) => Ok(spans),
            Err(_) if self.config.late_memory_checks => Ok(Memory::unusable(sges)),
            Err((index, why)) => Err(VerbsError::Memory { index, why }),
        }
    }
}

/// Verbs for completion queues.
impl Device {
    /// Creates a completion queue with room for `capacity` completions.
    ///
    /// # Errors
    /// If a limit of the device is reached.
    pub fn create_cq(&mut self, capacity: u32) -> Result<CqId, VerbsError> {
        let limits = self.config.limits;
        if self.ctx.cqs.len() >= limits.completion_queues as usize {
            return Err(VerbsError::Limit { what: "completion queues", limit: limits.completion_queues.into() });
        }
        range("the capacity of a completion queue", capacity, 1, limits.completions)?;
        Ok(CqId(self.ctx.cqs.insert(CompletionQueue::new(capacity)?)))
    }

    /// Gives a completion queue room for `capacity` completions. The completions in it stay.
    ///
    /// # Errors
    /// If the queue does not exist or has overflowed, `capacity` is above the limit of the device or less than the
    /// number of completions that wait, or the system has no memory.
    pub fn resize_cq(&mut self, cq: CqId, capacity: u32) -> Result<(), VerbsError> {
        let most = self.config.limits.completions;
        let queue = self.cq(cq)?;
        if queue.overflowed() {
            return Err(VerbsError::Overflow);
        }
        let least = (queue.len() as u32).max(1);
        range("the capacity of a completion queue", capacity, least, most)?;
        queue.resize(capacity)
    }

    /// Removes the completions of a queue pair that wait in a completion queue, as NICs do when a queue pair is reset
    /// or destroyed: the application might mix them up with those of the next connection.
    ///
    /// # Errors
    /// If there is no such queue.
    pub fn forget_completions(&mut self, cq: CqId, qpn: Qpn) -> Result<(), VerbsError> {
        self.cq(cq)?.forget(qpn);
        Ok(())
    }

    /// Destroys a completion queue.
    ///
    /// # Errors
    /// [`VerbsError::Busy`] while a queue pair uses the completion queue.
    pub fn destroy_cq(&mut self, cq: CqId) -> Result<(), VerbsError> {
        if self.cq(cq)?.users > 0 {
            return Err(VerbsError::Busy { what: "completion queue", by: "a queue pair" });
        }
        self.ctx.cqs.remove(cq.0);
        Ok(())
    }

    fn cq(&mut self, cq: CqId) -> Result<&mut CompletionQueue, VerbsError> {
        self.ctx.cqs.get_mut(cq.0).ok_or(VerbsError::Unknown("such completion queue"))
    }

    /// Moves up to `out.len()` completions into `out`, oldest first, and returns their number.
    ///
    /// # Errors
    /// [`VerbsError::Overflow`] if completions were lost because the queue was full. The error comes only after the
    /// completions before the loss have been polled.
    pub fn poll_cq(&mut self, cq: CqId, out: &mut [Completion]) -> Result<usize, VerbsError> {
        self.cq(cq)?.poll(out)
    }

    /// The number of completions that wait in the completion queue; 0 if no queue has this handle.
    pub fn cq_len(&self, cq: CqId) -> usize {
        self.ctx.cqs.get(cq.0).map_or(0, CompletionQueue::len)
    }

    /// Requests one notification of the next completion of the kind `notify`, or of an overflow of the completion
    /// queue. [`Device::take_notification`] tells whether the notification has come.
    ///
    /// # Errors
    /// If there is no such queue.
    pub fn arm_cq(&mut self, cq: CqId, notify: Notify) -> Result<(), VerbsError> {
        self.cq(cq)?.arm(notify);
        Ok(())
    }

    /// Whether the notification that [`Device::arm_cq`] requested has come; clears the notification.
    pub fn take_notification(&mut self, cq: CqId) -> bool {
        self.ctx.cqs.get_mut(cq.0).is_some_and(CompletionQueue::take_notification)
    }
}

/// Verbs for shared receive queues.
impl Device {
    /// Creates a shared receive queue for `capacity` receives of up to `max_sge` scatter-gather elements.
    ///
    /// # Errors
    /// If a limit of the device is reached.
    pub fn create_srq(&mut self, pd: Pd, capacity: u32, max_sge: u32) -> Result<SrqId, VerbsError> {
        self.domain(pd)?;
        let limits = self.config.limits;
        if self.ctx.srqs.len() >= limits.shared_receive_queues as usize {
            let limit = limits.shared_receive_queues.into();
            return Err(VerbsError::Limit { what: "shared receive queues", limit });
        }
        range("the capacity of a receive queue", capacity, 1, limits.work_requests)?;
        range("the number of scatter-gather elements", max_sge, 0, limits.scatter_gather)?;
        let receives = ReceiveQueue::new(capacity, max_sge)?;
        Ok(SrqId(self.ctx.srqs.insert(SharedReceiveQueue { pd, receives, limit: 0, users: 0 })))
    }

    /// Requests one [`Event::SharedReceiveLimit`] as soon as the shared receive queue holds fewer than `limit`
    /// receives. If the queue already holds fewer receives, the event comes immediately. A `limit` of 0 withdraws the
    /// request.
    ///
    /// # Errors
    /// If there is no such queue.
    pub fn arm_srq(&mut self, srq: SrqId, limit: u32) -> Result<(), VerbsError> {
        let queue = self.srq(srq)?;
        queue.limit = limit;
        if queue.reaches_limit() {
            self.ctx.raise(Event::SharedReceiveLimit(srq));
        }
        Ok(())
    }

    /// Returns the sizes, the limit and the number of receives of a shared receive queue.
    ///
    /// # Errors
    /// If there is no such queue.
    pub fn query_srq(&mut self, srq: SrqId) -> Result<SrqInfo, VerbsError> {
        let SharedReceiveQueue { receives, limit, .. } = self.srq(srq)?;
        let (capacity, max_sge) = (receives.capacity, receives.max_sge);
        Ok(SrqInfo { capacity, max_sge, limit: *limit, receives: receives.queue.len() as u32 })
    }

    /// Destroys a shared receive queue with the receives in it.
    ///
    /// # Errors
    /// [`VerbsError::Busy`] while a queue pair uses the shared receive queue.
    pub fn destroy_srq(&mut self, srq: SrqId) -> Result<(), VerbsError> {
        if self.srq(srq)?.users > 0 {
            return Err(VerbsError::Busy { what: "shared receive queue", by: "a queue pair" });
        }
        self.ctx.srqs.remove(srq.0);
        Ok(())
    }

    fn srq(&mut self, srq: SrqId) -> Result<&mut SharedReceiveQueue, VerbsError> {
        self.ctx.srqs.get_mut(srq.0).ok_or(VerbsError::Unknown("such shared receive queue"))
    }

    /// Posts a receive to a shared receive queue. Each queue pair that needs a receive takes the oldest receive of the
    /// queue.
    ///
    /// # Errors
    /// If the queue is full, or the memory of a scatter-gather element cannot be used.
    pub fn post_srq_recv(&mut self, srq: SrqId, request: &RecvRequest<'_>) -> Result<(), VerbsError> {
        let (pd, max_sge) = {
            let srq = self.srq(srq)?;
            (srq.pd, srq.receives.max_sge)
        };
        let receive = self.receive_request(pd, max_sge, request)?;
        self.srq(srq)?.receives.post(receive, 0)
    }

    fn receive_request(&self, pd: Pd, max_sge: u32, request: &RecvRequest<'_>) -> Result<Receive, VerbsError> {
        let scatter = self.check_sges(pd, request.scatter, max_sge, true)?;
        Ok(Receive { wr_id: request.wr_id, scatter, room: total(request.scatter) })
    }
}

/// Verbs for queue pairs (InfiniBand volume 1, section 10.3) and their work requests.
impl Device {
    /// Creates a queue pair in state RESET.
    ///
    /// # Errors
    /// If a limit of the device is reached, a completion queue has overflowed, or the shared receive queue belongs to
    /// another protection domain.
    pub fn create_qp(&mut self, pd: Pd, init: QpInit) -> Result<Qpn, VerbsError> {
        self.domain(pd)?;
        let limits = self.config.limits;
        if self.qps.len() >= limits.queue_pairs.min(1 << 16) as usize {
            return Err(VerbsError::Limit { what: "queue pairs", limit: limits.queue_pairs.min(1 << 16).into() });
        }
        let sizes = init.capacities;
        range("the number of sends", sizes.send_wr, 1, limits.work_requests)?;
        range("the number of receives", sizes.recv_wr, 0, limits.work_requests)?;
        let max = sizes.send_sge.max(sizes.recv_sge);
        range("the number of scatter-gather elements", max, 0, limits.scatter_gather)?;
        range("the length of inline data", sizes.inline, 0, limits.inline)?;
        for cq in [init.send_cq, init.recv_cq] {
            if self.cq(cq)?.overflowed() {
                return Err(VerbsError::Overflow);
            }
        }
        if let Some(srq) = init.srq
            && self.srq(srq)?.pd != pd
        {
            return Err(VerbsError::OtherDomain("shared receive queue"));
        }
        let queues = Common::queues(&init)?;
        for cq in [init.send_cq, init.recv_cq] {
            self.cq(cq)?.users += 1;
        }
        if let Some(srq) = init.srq {
            self.srq(srq)?.users += 1;
        }
        let (congestion, cfg) = (self.config.congestion.clone(), FlowConfig::default());
        let make = |qpn| {
            let common = Common::new(qpn, pd, init, queues);
            Qp {
                common,
                engine: Engine::None,
                congestion,
                cfg,
                rate: None,
                ready: false,
                armed: None,
                last_sent: None,
                last_cnp: None,
            }
        };
        let qpn = self.qps.insert(&mut self.rng, self.config.shard, make);
        Ok(qpn)
    }

    /// Destroys a queue pair. Its outstanding work requests disappear without completions.
    ///
    /// # Errors
    /// If there is no such queue pair.
    pub fn destroy_qp(&mut self, qpn: Qpn) -> Result<(), VerbsError> {
        let (at, qp) = self.qps.remove(qpn).ok_or(VerbsError::Unknown("such queue pair"))?;
        self.forget(at, &qp);
        for cq in [qp.common.init.send_cq, qp.common.init.recv_cq] {
            self.cq(cq)?.users -= 1;
        }
        if let Some(srq) = qp.common.init.srq {
            self.srq(srq)?.users -= 1;
        }
        Ok(())
    }

    /// The state of a queue pair.
    ///
    /// # Errors
    /// If there is no such queue pair.
    pub fn state(&self, qpn: Qpn) -> Result<State, VerbsError> {
        self.qps.get(qpn).map(|qp| qp.common.state).ok_or(VerbsError::Unknown("such queue pair"))
    }

    /// Chooses the congestion control of a queue pair that is not connected yet, instead of
    /// [`DeviceConfig::congestion`](crate::DeviceConfig::congestion).
    ///
    /// # Errors
    /// If the state is neither RESET nor INIT.
    pub fn set_congestion(&mut self, qpn: Qpn, congestion: Congestion) -> Result<(), VerbsError> {
        let qp = self.qp(qpn)?;
        if qp.common.init.service == Service::Ud {
            return Err(VerbsError::Unsupported("a UD queue pair has no congestion control, only a rate limit"));
        }
        require(qp.common.state, &[State::Reset, State::Init], "change its congestion control")?;
        qp.congestion = congestion;
        Ok(())
    }

    /// Limits the rate at which a queue pair sends requests, and separately the rate at which it sends responses to
    /// RDMA Reads. `None`: only the link limits the rate. The limit stays in effect in every state until the next call
    /// of this function. The limited rate counts whole Ethernet frames, without preamble and inter-frame gap.
    ///
    /// After each packet the queue pair waits for the packet's serialisation time at this rate, or at the congestion
    /// control's rate if that is lower. If a packet leaves late, the packets after it do not make up for the delay.
    ///
    /// # Errors
    /// If there is no such queue pair, or the rate is 0.
    pub fn set_rate(&mut self, qpn: Qpn, rate: Option<BitRate>) -> Result<(), VerbsError> {
        let qp = self.qp(qpn)?;
        if rate.is_some_and(|rate| rate.as_bps() == 0) {
            return Err(VerbsError::Range {
                name: "the rate limit",
                value: 0,
                possible: "1 bit per second or more".into(),
            });
        }
        qp.set_rate(rate);
        self.touch(qpn);
        Ok(())
    }

    /// Returns state, connection, rate limit and outstanding work of a queue pair.
    ///
    /// # Errors
    /// If there is no such queue pair.
    pub fn query_qp(&self, qpn: Qpn) -> Result<QpInfo, VerbsError> {
        let qp = self.qps.get(qpn).ok_or(VerbsError::Unknown("such queue pair"))?;
        let c = &qp.common;
        Ok(QpInfo {
            state: c.state,
            service: c.init.service,
            capacities: c.init.capacities,
            connection: c.connection,
            datagrams: qp.datagrams(),
            rate: qp.rate,
            sends: c.sends.len() as u32,
            receives: (c.receives.queue.len() + c.inbox_len()) as u32,
        })
    }

    /// RESET to INIT: from now on the application can post receives. `access` holds the rights that the peer has
    /// through this queue pair. In state INIT the function only changes these rights. A UD queue pair gives no rights,
    /// so there `access` has no effect.
    ///
    /// # Errors
    /// If the state is neither RESET nor INIT.
    pub fn to_init(&mut self, qpn: Qpn, access: Access) -> Result<(), VerbsError> {
        let qp = self.qp(qpn)?;
        require(qp.common.state, &[State::Reset, State::Init], "go to INIT")?;
        qp.common.access = access;
        qp.common.state = State::Init;
        Ok(())
    }

    /// INIT to RTR: connects the queue pair. From now on the queue pair receives packets.
    ///
    /// # Errors
    /// If the state is not INIT or an attribute is out of range.
    pub fn to_rtr(&mut self, qpn: Qpn, connection: Connection, now: Time) -> Result<(), VerbsError> {
        let qp = self.qp(qpn)?;
        let service = qp.common.init.service;
        require(qp.common.state, &[State::Init], "go to RTR")?;
        let Connection { path_mtu, recv_psn, min_rnr_timer, dscp, peer_qpn, peer_in_flight, .. } = connection;
        let (fits, possible) = match service {
            Service::Rc => ((256..=4_096).contains(&path_mtu), "256, 512, 1024, 2048 or 4096"),
            Service::Uc => ((256..=8_192).contains(&path_mtu), "256, 512, 1024, 2048, 4096 or 8192"),
            Service::Irn => ((256..=MAX_MTU).contains(&path_mtu), "256 to 8960, a multiple of 4"),
            Service::Ud => return Err(VerbsError::Unsupported(NO_CONNECTION)),
        };
        if !fits || !(path_mtu.is_power_of_two() || service == Service::Irn && path_mtu.is_multiple_of(4)) {
            return Err(VerbsError::Range { name: "the path MTU", value: path_mtu.into(), possible: possible.into() });
        }
        range("the first PSN", recv_psn, 0, Psn::MODULUS - 1)?;
        range("the QPN of the peer", peer_qpn.0, 0, Psn::MODULUS - 2)?;
        range("the peer's number of packets in flight", peer_in_flight, 1, MAX_IN_FLIGHT)?;
        range("the RNR timer", min_rnr_timer.into(), 0, 31)?;
        range("the DSCP", dscp.into(), 0, 63)?;
        let (line_rate, base_rtt, timeouts) = (self.config.line_rate, self.config.base_rtt, self.config.timeouts);
        if line_rate.as_bps() == 0 {
            let possible = "1 bit per second or more".into();
            return Err(VerbsError::Range { name: "the link's rate", value: 0, possible });
        }
        let packets = u32::try_from(self.config.in_flight_bytes / u64::from(path_mtu)).unwrap_or(u32::MAX);
        let cap = self.config.in_flight.min(packets).clamp(1, MAX_IN_FLIGHT);
        let header = if service == Service::Irn { headers::IRN_DATA } else { headers::ROCE_DATA };
        let qp = self.qp(qpn)?;
        let mut cfg = FlowConfig {
            mtu: path_mtu,
            header,
            line_rate,
            base_rtt,
            bdp: cap,
            bdp_cap: cap,
            sack: true,
            timeouts: Some(timeouts),
            acks: true,
            nacks: NackPolicy::First,
            go_back: GoBack::Expected,
            cnp_interval: None,
            max_rate: None,
            ..FlowConfig::default()
        };
        cfg.cnp_interval = qp.congestion.check(&cfg).map_err(VerbsError::Congestion)?;
        qp.cfg = cfg;
        qp.common.connection = Some(connection);
        qp.common.route = Route { service, peer_qpn: peer_qpn.0, mtu: path_mtu };
        qp.connect(now)?;
        qp.common.state = State::ReadyToReceive;
        self.advance_to(now);
        Ok(())
    }

    /// INIT to RTR of a UD queue pair: from now on it receives datagrams.
    ///
    /// # Errors
    /// If the state is not INIT, the service is not UD, or the path MTU is not 256, 512, 1024, 2048 or 4096.
    pub fn to_datagrams(&mut self, qpn: Qpn, attributes: DatagramAttributes, now: Time) -> Result<(), VerbsError> {
        let (line_rate, base_rtt) = (self.config.line_rate, self.config.base_rtt);
        let qp = self.qp(qpn)?;
        let service = qp.common.init.service;
        if service != Service::Ud {
            return Err(VerbsError::Unsupported("only a UD queue pair receives datagrams; others are connected"));
        }
        require(qp.common.state, &[State::Init], "go to RTR")?;
        let path_mtu = attributes.path_mtu;
        if !(256..=4_096).contains(&path_mtu) || !path_mtu.is_power_of_two() {
            let possible = "256, 512, 1024, 2048 or 4096".into();
            return Err(VerbsError::Range { name: "the path MTU", value: path_mtu.into(), possible });
        }
        if line_rate.as_bps() == 0 {
            let possible = "1 bit per second or more".into();
            return Err(VerbsError::Range { name: "the link's rate", value: 0, possible });
        }
        let header = headers::ROCE_DATA;
        qp.cfg = FlowConfig { mtu: path_mtu, header, line_rate, base_rtt, ..FlowConfig::default() };
        qp.common.route = Route { service, peer_qpn: 0, mtu: path_mtu };
        qp.receive_datagrams(attributes, now)?;
        qp.common.state = State::ReadyToReceive;
        self.advance_to(now);
        Ok(())
    }

    /// RTR to RTS: from now on the queue pair sends requests. SQD or SQE to RTS: sending resumes, and `attributes` has
    /// no effect.
    ///
    /// # Errors
    /// If the state is not RTR, SQD or SQE, or an attribute is out of range.
    pub fn to_rts(&mut self, qpn: Qpn, attributes: SendAttributes, now: Time) -> Result<(), VerbsError> {
        let qp = self.qp(qpn)?;
        let from = qp.common.state;
        require(from, &[State::ReadyToReceive, State::SendQueueDrain, State::SendQueueError], "go to RTS")?;
        let SendAttributes { send_psn, timeout, retry_count, rnr_retry, give_up_after, keep_alive, .. } = attributes;
        range("the first PSN", send_psn, 0, Psn::MODULUS - 1)?;
        range("the timeout", timeout.into(), 0, 31)?;
        range("the retry count", retry_count.into(), 0, 7)?;
        range("the RNR retry count", rnr_retry.into(), 0, 7)?;
        span("the time in us after which the queue pair gives up (give_up_after)", give_up_after)?;
        span("the idle time in us after which the queue pair probes its peer (keep_alive)", keep_alive)?;
        match qp.common.init.service {
            Service::Uc if give_up_after.or(keep_alive).is_some() => {
                return Err(VerbsError::Unsupported(
                    "an unreliable connection gets no responses, so it cannot notice a dead peer: leave out give_up_after and keep_alive",
                ));
            }
            Service::Ud if give_up_after.or(keep_alive).is_some() => {
                return Err(VerbsError::Unsupported(
                    "a UD queue pair has no peer that could die: leave out give_up_after and keep_alive",
                ));
            }
            Service::Rc if keep_alive.is_some() && timeout == 0 && give_up_after.is_none() => {
                return Err(VerbsError::Unsupported(
                    "keep_alive needs a timeout or give_up_after, to end the wait for a response",
                ));
            }
            _ => {}
        }
        if from == State::ReadyToReceive {
            qp.common.attributes = attributes;
            if qp.common.init.service == Service::Rc {
                qp.cfg.timeouts = attributes.timeouts();
            }
            qp.start(now)?;
        } else {
            qp.common.state = State::ReadyToSend;
            qp.common.draining = false;
            qp.release();
        }
        self.advance_to(now);
        self.touch(qpn);
        Ok(())
    }

    /// RTS to RTS and SQD to SQD: changes attributes of a connected queue pair. In state RTS only the rights of the
    /// peer and the RNR timer can change, in state SQD all attributes of [`QpChange`], once the send queue is drained.
    ///
    /// # Errors
    /// If the state does not admit the change, or an attribute is out of range. Then no attribute changes.
    pub fn change(&mut self, qpn: Qpn, change: QpChange) -> Result<(), VerbsError> {
        let qp = self.qp(qpn)?;
        require(qp.common.state, &[State::ReadyToSend, State::SendQueueDrain], "change its attributes")?;
        let QpChange { access: _, min_rnr_timer, peer, dscp, timeout, retry_count, rnr_retry, .. } = change;
        match (qp.is_datagram(), change.qkey) {
            (true, qkey) if (QpChange { qkey, ..QpChange::default() }) != change => {
                return Err(VerbsError::Unsupported("a UD queue pair has no connection: only its Q_Key can change"));
            }
            (false, Some(_)) => return Err(VerbsError::Unsupported("only a UD queue pair has a Q_Key")),
            _ => {}
        }
        let path = QpChange { access: None, min_rnr_timer: None, qkey: None, ..change };
        if path != QpChange::default() && (qp.common.state != State::SendQueueDrain || qp.common.draining) {
            return Err(VerbsError::Unsupported(
                "the path, timeouts and retries of a connection change only in state SQD, after the send queue is drained",
            ));
        }
        if timeout.is_some() && qp.common.init.service != Service::Rc {
            return Err(VerbsError::Unsupported("only RC has the attribute `timeout`"));
        }
        let family = |peer: SocketAddr| peer.ip().to_canonical().is_ipv4();
        if peer.is_some_and(|peer| qp.common.connection.is_some_and(|old| family(old.peer) != family(peer))) {
            return Err(VerbsError::Unsupported("the address of the peer must stay of the same family, IPv4 or IPv6"));
        }
        range("the RNR timer", min_rnr_timer.unwrap_or(0).into(), 0, 31)?;
        range("the DSCP", dscp.unwrap_or(0).into(), 0, 63)?;
        range("the timeout", timeout.unwrap_or(0).into(), 0, 31)?;
        range("the retry count", retry_count.unwrap_or(0).into(), 0, 7)?;
        range("the RNR retry count", rnr_retry.unwrap_or(0).into(), 0, 7)?;
        qp.change(&change);
        Ok(())
    }

    /// RTS to SQD: the queue pair finishes messages that it has begun to send, and begins no other.
    /// [`Event::SendQueueDrained`] follows when these messages are completed.
    ///
    /// # Errors
    /// If the state is not RTS.
    pub fn to_sqd(&mut self, qpn: Qpn) -> Result<(), VerbsError> {
        let (qp, ctx) = self.qp_and_ctx(qpn)?;
        require(qp.common.state, &[State::ReadyToSend], "go to SQD")?;
        qp.common.state = State::SendQueueDrain;
        qp.common.draining = true;
        qp.drain();
        qp.common.retire(ctx, 0);
        Ok(())
    }

    /// Any state to ERR: all outstanding work requests complete with [`Status::WorkRequestFlushed`].
    ///
    /// # Errors
    /// If there is no such queue pair.
    pub fn to_error(&mut self, qpn: Qpn) -> Result<(), VerbsError> {
        let (qp, ctx) = self.qp_and_ctx(qpn)?;
        if qp.common.state != State::Error {
            qp.common.state = State::Error;
            qp.common.flush(ctx);
        }
        self.settle();
        Ok(())
    }

    /// Any state to RESET: outstanding work requests disappear without completions, and the connection ends. No packet
    /// of the old connection is written from now on.
    ///
    /// # Errors
    /// If there is no such queue pair.
    pub fn to_reset(&mut self, qpn: Qpn) -> Result<(), VerbsError> {
        let qp = self.qp(qpn)?;
        qp.engine = Engine::None;
        qp.common.reset();
        (qp.last_sent, qp.last_cnp) = (None, None);
        if !self.reset.contains(&qpn) {
            self.reset.push(qpn);
        }
        Ok(())
    }

    /// Posts a send request. In state ERR or SQE the request completes immediately with [`Status::WorkRequestFlushed`].
    ///
    /// # Errors
    /// If the send queue is full, if the request is not possible in the queue pair's state or with its transport
    /// service, or if the memory of a scatter-gather element cannot be used. After an error nothing is posted.
    pub fn post_send(&mut self, qpn: Qpn, request: &SendRequest<'_>) -> Result<(), VerbsError> {
        self.post(qpn, request, None, 0)
    }

    /// Posts a request like [`Device::post_send`], to a queue pair that spreads its requests over paths
    /// ([`Extras::spread`]). Requests with the same `entropy` take the same path.
    ///
    /// # Errors
    /// As [`Device::post_send`]. Also if the queue pair does not spread requests.
    pub fn post_spread(&mut self, qpn: Qpn, request: &SendRequest<'_>, entropy: u16) -> Result<(), VerbsError> {
        if !self.qp(qpn)?.common.extras.spread {
            return Err(VerbsError::Unsupported("the queue pair has one path: `Extras::spread` was not set"));
        }
        self.post(qpn, request, None, entropy)
    }

    /// Gives a queue pair abilities that commodity NICs lack, or takes them away. Those of the receiver take effect
    /// when the queue pair is connected. A reset leaves them.
    ///
    /// # Errors
    /// If there is no such queue pair, it is connected, or its service is not UC and `extras.spread` is set.
    pub fn set_extras(&mut self, qpn: Qpn, extras: Extras) -> Result<(), VerbsError> {
        let c = &mut self.qp(qpn)?.common;
        require(c.state, &[State::Reset, State::Init], "change its extras")?;
        if extras.spread && c.init.service != Service::Uc {
            return Err(VerbsError::Unsupported("only an unreliable connection (UC) spreads requests over paths"));
        }
        c.extras = extras;
        Ok(())
    }

    /// Posts a Send, or a Send with Immediate, of a UD queue pair to the recipient `to`. In state ERR or SQE the
    /// request completes immediately with [`Status::WorkRequestFlushed`]. Otherwise it completes when
    /// [`Device::transmit`](crate::Device::transmit) returns its packet, whether or not the packet arrives.
    ///
    /// # Errors
    /// As [`Device::post_send`]. Also if the service is not UD, the message is longer than the path MTU, or the
    /// recipient is a multicast group or out of range.
    pub fn post_datagram(&mut self, qpn: Qpn, request: &SendRequest<'_>, to: &Recipient) -> Result<(), VerbsError> {
        self.post(qpn, request, Some(to), 0)
    }

    fn post(
        &mut self, qpn: Qpn, request: &SendRequest<'_>, to: Option<&Recipient>, entropy: u16,
    ) -> Result<(), VerbsError> {
        let qp = self.qps.get(qpn).ok_or(VerbsError::Unknown("such queue pair"))?;
        let c = &qp.common;
        let usable = [State::ReadyToSend, State::SendQueueDrain, State::SendQueueError, State::Error];
        require(c.state, &usable, "take sends")?;
        if c.sends.len() >= c.init.capacities.send_wr as usize {
            return Err(VerbsError::Full("send queue"));
        }
        match to {
            Some(to) if c.init.service == Service::Ud => to.check()?,
            None if c.init.service != Service::Ud => {}
            Some(_) => return Err(VerbsError::Unsupported("a connected queue pair sends to its peer: use post_send")),
            None => {
                return Err(VerbsError::Unsupported("a datagram needs a recipient: use post_datagram"));
            }
        }
        let op = request.op;
        let (local, len) = match request.data {
            Data::Inline(bytes) => {
                if op.is_fetching() {
                    return Err(VerbsError::Unsupported(
                        "a read or atomic cannot have inline data: its response needs registered memory",
                    ));
                }
                let max = c.init.capacities.inline;
                if bytes.len() > max as usize {
                    return Err(VerbsError::Limit { what: "bytes of inline data", limit: max.into() });
                }
                (Local::Inline(bytes.into()), bytes.len() as u64)
            }
            Data::Gather(sges) => {
                let (max, write) = (c.init.capacities.send_sge, op.is_fetching());
                // The usual request has one element. What is wrong with another one, `check_sges` says.
                let one = match sges {
                    [sge] if sge.len > 0 && max > 0 => self.ctx.memory.local(c.pd, sge, write).ok(),
                    _ => None,
                };
                let local = match one {
                    Some(span) => Local::One(span),
                    None => Local::Gather(self.check_sges(c.pd, sges, max, write)?),
                };
                (local, total(sges))
            }
        };
        if len > 1 << 31 {
            return Err(VerbsError::Range { name: "the length", value: len, possible: "0 to 2147483648 bytes".into() });
        }
        let len = len as u32;
        if op.is_atomic() && len != 8 {
            let possible = "8 bytes for an atomic".into();
            return Err(VerbsError::Range { name: "the length", value: len.into(), possible });
        }
        if let SendOp::FetchAdd { addr, .. } | SendOp::CompareSwap { addr, .. } = op
            && !addr.is_multiple_of(8)
        {
            return Err(VerbsError::Range { name: "the address", value: addr, possible: "a multiple of 8".into() });
        }
        qp.admits(&op, len)?;
        if op.is_fetching() && c.attributes.max_rd_atomic == 0 {
            return Err(VerbsError::Unsupported("the connection admits no reads and atomics (max_rd_atomic is 0)"));
        }
        let wqe = Wqe { entropy, ..Wqe::new(request.wr_id, op, local, len, request.flags) };
        let (qp, ctx) = self.qp_and_ctx(qpn)?;
        if matches!(qp.common.state, State::Error | State::SendQueueError) {
            qp.common.sent(ctx, &wqe, Status::WorkRequestFlushed);
            self.settle();
            return Ok(());
        }
        qp.push(wqe, to.copied());
        self.touch(qpn);
        Ok(())
    }

    /// Posts a receive request. In state ERR the request completes immediately with [`Status::WorkRequestFlushed`].
    ///
    /// # Errors
    /// If the receive queue is full, the state is RESET, the queue pair has a shared receive queue, or the memory of a
    /// scatter-gather element cannot be used. After an error nothing is posted.
    pub fn post_recv(&mut self, qpn: Qpn, request: &RecvRequest<'_>) -> Result<(), VerbsError> {
        let c = &self.qps.get(qpn).ok_or(VerbsError::Unknown("such queue pair"))?.common;
        if c.init.srq.is_some() {
            return Err(VerbsError::Unsupported("receives of this queue pair come from its shared receive queue"));
        }
        if c.state == State::Reset {
            return Err(VerbsError::WrongState { state: c.state, action: "take receives" });
        }
        let receive = self.receive_request(c.pd, c.receives.max_sge, request)?;
        let (qp, ctx) = self.qp_and_ctx(qpn)?;
        let c = &mut qp.common;
        let taken = c.inbox_len();
        c.receives.post(receive, taken)?;
        if c.state == State::Error {
            c.flush(ctx);
            self.settle();
            return Ok(());
        }
        if c.told_no_credits.get() {
            qp.tell_credits();
            self.touch(qpn);
        }
        Ok(())
    }
}

/// Checks that a time attribute, if it is set, is 1 ms to 1 day.
fn span(name: &'static str, value: Option<Time>) -> Result<(), VerbsError> {
    let (min, max) = (Time::from_ms(1), Time::from_ms(86_400_000));
    match value {
        Some(value) if !(min..=max).contains(&value) => {
            let possible = "1000 (1 ms) to 86400000000 (1 day)".into();
            Err(VerbsError::Range { name, value: value.as_ps() / 1_000_000, possible })
        }
        _ => Ok(()),
    }
}

fn require(state: State, admitted: &[State], action: &'static str) -> Result<(), VerbsError> {
    if admitted.contains(&state) { Ok(()) } else { Err(VerbsError::WrongState { state, action }) }
}
