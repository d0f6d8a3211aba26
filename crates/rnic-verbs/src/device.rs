//! A device: everything that one RDMA NIC has; packets in and out, and time.

pub use crate::batch::{Batch, Destination};
pub use crate::config::{DeviceConfig, Limits};

use crate::common::Ctx;
use crate::counters::{Counters, Dropped};
use crate::memory::Memory;
use crate::qp::Qp;
use crate::queue::{CompletionQueue, SharedReceiveQueue};
use crate::table::Table;
use crate::types::{Event, Qpn, Service, State, Status, VerbsError};
use chacha20::ChaCha20Rng;
use rand_core::{Rng, SeedableRng};
use rnic_transport::{Psn, Time};
use rnic_wire::{Bth, Packet};
use slab::Slab;
use std::collections::{BTreeSet, VecDeque};
use std::net::SocketAddr;

/// A device.
pub struct Device {
    pub(crate) config: DeviceConfig,
    /// Keys and first PSNs are secrets between two peers: a generator that does not give away what comes next.
    pub(crate) rng: ChaCha20Rng,
    pub(crate) domains: Table<()>,
    pub(crate) memory: Memory,
    pub(crate) cqs: Table<CompletionQueue>,
    pub(crate) srqs: Table<SharedReceiveQueue>,
    pub(crate) qps: Slab<Qp>,
    /// Queue pairs made, from a random number on.
    pub(crate) made: u32,
    pub(crate) events: VecDeque<Event>,
    pub(crate) counters: Counters,
    /// Queue pairs that may have something to send at once, each once.
    ready: VecDeque<u32>,
    /// When something is due, by queue pair: at most one entry each, which may be early.
    timers: BTreeSet<(Time, u32)>,
    pub(crate) overflow: bool,
    /// The latest time that it was told.
    pub(crate) now: Time,
}

/// The parts of a device around its queue pairs.
macro_rules! ctx {
    ($device:expr) => {
        $crate::common::Ctx {
            memory: &mut $device.memory,
            cqs: &mut $device.cqs,
            srqs: &mut $device.srqs,
            events: &mut $device.events,
            counters: &mut $device.counters,
            overflow: &mut $device.overflow,
        }
    };
}
pub(crate) use ctx;

impl Device {
    /// A device without anything in it.
    pub fn new(config: DeviceConfig) -> Device {
        let mut rng = ChaCha20Rng::seed_from_u64(config.seed);
        Device {
            config,
            domains: Table::new(),
            memory: Memory::new(),
            cqs: Table::new(),
            srqs: Table::new(),
            qps: Slab::new(),
            made: rng.next_u32(),
            rng,
            events: VecDeque::new(),
            counters: Counters::default(),
            ready: VecDeque::new(),
            timers: BTreeSet::new(),
            overflow: false,
            now: Time::ZERO,
        }
    }

    /// What it was made with.
    pub fn config(&self) -> &DeviceConfig {
        &self.config
    }

    /// What it has counted.
    pub fn counters(&self) -> &Counters {
        &self.counters
    }

    /// A number that a peer cannot guess, below 2^24: for first PSNs.
    pub fn random_psn(&mut self) -> u32 {
        self.rng.next_u32() & (Psn::MODULUS - 1)
    }

    /// The next event, oldest first.
    pub fn poll_event(&mut self) -> Option<Event> {
        self.events.pop_front()
    }

    // Protection domains and memory.

    /// A new protection domain.
    pub fn create_pd(&mut self) -> Pd {
        Pd(self.domains.insert(()) as u32)
    }

    /// Ends a protection domain.
    ///
    /// # Errors
    /// While something belongs to it.
    pub fn destroy_pd(&mut self, pd: Pd) -> Result<(), VerbsError> {
        let busy = |by| Err(VerbsError::Busy { what: "protection domain", by });
        if self.memory.has_domain(pd) {
            return busy("a memory region");
        }
        if self.qps.iter().any(|(_, qp)| qp.common.pd == pd) {
            return busy("a queue pair");
        }
        if self.srqs.iter().any(|(_, srq)| srq.pd == pd) {
            return busy("a shared receive queue");
        }
        self.domains.try_remove(pd.0 as usize).ok_or(VerbsError::Unknown("such protection domain"))
    }

    fn domain(&self, pd: Pd) -> Result<(), VerbsError> {
        if self.domains.contains(pd.0 as usize) { Ok(()) } else { Err(VerbsError::Unknown("such protection domain")) }
    }

    /// Registers memory. The device owns the bytes until [`Device::deregister`].
    ///
    /// `addr` is the address of the first byte in work requests and for the peer; without it the device chooses one.
    ///
    /// # Errors
    /// When a limit is reached, or `addr` leaves no room below 2^64.
    pub fn register(
        &mut self, pd: Pd, bytes: Vec<u8>, addr: Option<u64>, access: Access,
    ) -> Result<MrInfo, VerbsError> {
        self.domain(pd)?;
        let limits = self.config.limits;
        if self.memory.count() >= limits.regions as usize {
            return Err(VerbsError::Limit { what: "memory regions", limit: limits.regions.into() });
        }
        if self.memory.bytes() + bytes.len() as u64 > limits.bytes {
            return Err(VerbsError::Limit { what: "bytes of registered memory", limit: limits.bytes });
        }
        if let Some(addr) = addr.filter(|addr| addr.checked_add(bytes.len() as u64).is_none()) {
            return Err(VerbsError::Range {
                name: "the address",
                value: addr,
                possible: "what leaves room for the region",
            });
        }
        Ok(self.memory.register(pd, bytes, addr, access, &mut self.rng))
    }

    /// Ends a region and gives its bytes back. Work that still refers to it fails.
    ///
    /// # Errors
    /// If there is no such region.
    pub fn deregister(&mut self, id: MrId) -> Result<Vec<u8>, VerbsError> {
        self.memory.deregister(id).ok_or(VerbsError::Unknown("such memory region"))
    }

    /// A new remote key for a region; the old one, invalidated or not, is no longer valid.
    ///
    /// # Errors
    /// If there is no such region.
    pub fn rekey(&mut self, id: MrId) -> Result<MrInfo, VerbsError> {
        self.memory.rekey(id, &mut self.rng).ok_or(VerbsError::Unknown("such memory region"))
    }

    /// The bytes of a region.
    pub fn bytes(&self, id: MrId) -> Option<&[u8]> {
        self.memory.bytes_of(id)
    }

    /// The bytes of a region, to change.
    pub fn bytes_mut(&mut self, id: MrId) -> Option<&mut [u8]> {
        self.memory.bytes_of_mut(id)
    }

    // Completion queues.

    /// A completion queue with room for `capacity` completions.
    ///
    /// # Errors
    /// When a limit is reached.
    pub fn create_cq(&mut self, capacity: u32) -> Result<CqId, VerbsError> {
        let limits = self.config.limits;
        if self.cqs.len() >= limits.completion_queues as usize {
            return Err(VerbsError::Limit { what: "completion queues", limit: limits.completion_queues.into() });
        }
        range("the capacity of a completion queue", capacity, 1, limits.completions, "1 up to the device's limit")?;
        Ok(CqId(self.cqs.insert(CompletionQueue::new(capacity)) as u32))
    }

    /// Ends a completion queue.
    ///
    /// # Errors
    /// While a queue pair uses it.
    pub fn destroy_cq(&mut self, cq: CqId) -> Result<(), VerbsError> {
        if self.cq(cq)?.users > 0 {
            return Err(VerbsError::Busy { what: "completion queue", by: "a queue pair" });
        }
        self.cqs.remove(cq.0 as usize);
        Ok(())
    }

    fn cq(&mut self, cq: CqId) -> Result<&mut CompletionQueue, VerbsError> {
        self.cqs.get_mut(cq.0 as usize).ok_or(VerbsError::Unknown("such completion queue"))
    }

    /// Takes completions, oldest first; returns how many.
    ///
    /// # Errors
    /// [`VerbsError::Overflow`] when the last one before an overflow has been taken.
    pub fn poll_cq(&mut self, cq: CqId, out: &mut [Completion]) -> Result<usize, VerbsError> {
        self.cq(cq)?.poll(out)
    }

    /// Completions that wait to be taken.
    pub fn cq_len(&self, cq: CqId) -> usize {
        self.cqs.get(cq.0 as usize).map_or(0, CompletionQueue::len)
    }

    /// Asks that the next completion of this kind be notified ([`Device::take_notification`]), once.
    ///
    /// # Errors
    /// If there is no such queue.
    pub fn arm_cq(&mut self, cq: CqId, notify: Notify) -> Result<(), VerbsError> {
        self.cq(cq)?.arm(notify);
        Ok(())
    }

    /// Whether the notification that was asked for has come; then it is forgotten.
    pub fn take_notification(&mut self, cq: CqId) -> bool {
        self.cqs.get_mut(cq.0 as usize).is_some_and(CompletionQueue::take_notification)
    }

    // Shared receive queues.

    /// A shared receive queue for `capacity` receives of up to `max_sge` elements.
    ///
    /// # Errors
    /// When a limit is reached.
    pub fn create_srq(&mut self, pd: Pd, capacity: u32, max_sge: u32) -> Result<SrqId, VerbsError> {
        self.domain(pd)?;
        let limits = self.config.limits;
        if self.srqs.len() >= limits.shared_receive_queues as usize {
            let limit = limits.shared_receive_queues.into();
            return Err(VerbsError::Limit { what: "shared receive queues", limit });
        }
        range("the capacity of a receive queue", capacity, 1, limits.work_requests, "1 up to the device's limit")?;
        range("the number of elements", max_sge, 0, limits.scatter_gather, "0 up to the device's limit")?;
        let receives = ReceiveQueue::new(capacity, max_sge);
        Ok(SrqId(self.srqs.insert(SharedReceiveQueue { pd, receives, limit: 0, users: 0 }) as u32))
    }

    /// Raises an event, once, when fewer than `limit` receives are left.
    ///
    /// # Errors
    /// If there is no such queue.
    pub fn arm_srq(&mut self, srq: SrqId, limit: u32) -> Result<(), VerbsError> {
        self.srq(srq)?.limit = limit;
        Ok(())
    }

    /// Ends a shared receive queue; what was posted to it is gone.
    ///
    /// # Errors
    /// While a queue pair uses it.
    pub fn destroy_srq(&mut self, srq: SrqId) -> Result<(), VerbsError> {
        if self.srq(srq)?.users > 0 {
            return Err(VerbsError::Busy { what: "shared receive queue", by: "a queue pair" });
        }
        self.srqs.remove(srq.0 as usize);
        Ok(())
    }

    fn srq(&mut self, srq: SrqId) -> Result<&mut SharedReceiveQueue, VerbsError> {
        self.srqs.get_mut(srq.0 as usize).ok_or(VerbsError::Unknown("such shared receive queue"))
    }

    /// Posts a receive for whichever queue pair needs one next.
    ///
    /// # Errors
    /// If the queue is full or an element is not within memory that admits it.
    pub fn post_srq_recv(&mut self, srq: SrqId, request: &RecvRequest<'_>) -> Result<(), VerbsError> {
        let (pd, max_sge) = {
            let srq = self.srq(srq)?;
            (srq.pd, srq.receives.max_sge)
        };
        let receive = self.receive_request(pd, max_sge, request)?;
        self.srq(srq)?.receives.post(receive, 0)
    }

    fn receive_request(&self, pd: Pd, max_sge: u32, request: &RecvRequest<'_>) -> Result<Receive, VerbsError> {
        self.check_sges(pd, request.scatter, max_sge, true)?;
        Ok(Receive { wr_id: request.wr_id, scatter: request.scatter.into(), room: total(request.scatter) })
    }

    fn check_sges(&self, pd: Pd, sges: &[Sge], most: u32, write: bool) -> Result<(), VerbsError> {
        if sges.len() > most as usize {
            return Err(VerbsError::Limit { what: "scatter-gather elements", limit: most.into() });
        }
        for (index, sge) in sges.iter().enumerate() {
            self.memory.local(pd, sge, write).map_err(|why| VerbsError::Memory { index, why })?;
        }
        Ok(())
    }

    // Queue pairs.

    /// A queue pair, in state RESET.
    ///
    /// # Errors
    /// When a limit is reached or a part belongs to another protection domain.
    pub fn create_qp(&mut self, pd: Pd, init: QpInit) -> Result<Qpn, VerbsError> {
        self.domain(pd)?;
        let limits = self.config.limits;
        if self.qps.len() >= limits.queue_pairs.min(1 << 16) as usize {
            return Err(VerbsError::Limit { what: "queue pairs", limit: limits.queue_pairs.min(1 << 16).into() });
        }
        let sizes = init.capacities;
        range("the number of sends", sizes.send_wr, 1, limits.work_requests, "1 up to the device's limit")?;
        range("the number of receives", sizes.recv_wr, 0, limits.work_requests, "0 up to the device's limit")?;
        let most = sizes.send_sge.max(sizes.recv_sge);
        range("the number of elements", most, 0, limits.scatter_gather, "0 up to the device's limit")?;
        range("the length of inline sends", sizes.inline, 0, limits.inline, "0 up to the device's limit")?;
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
        for cq in [init.send_cq, init.recv_cq] {
            self.cq(cq)?.users += 1;
        }
        if let Some(srq) = init.srq {
            self.srq(srq)?.users += 1;
        }
        let entry = self.qps.vacant_entry();
        // The index is in the number, with eight random bits above it: packets for a queue pair of the past find none. Numbers 0 and 1
        // are taken by the specification, 0xffffff is for multicast.
        let salt = self.rng.next_u32() % 0xfe + 1;
        let qpn = Qpn(salt << 16 | entry.key() as u32);
        let (capacity, max_sge) = if init.srq.is_some() { (0, 0) } else { (sizes.recv_wr, sizes.recv_sge) };
        let route = Route { service: init.service, peer_qpn: 0, mtu: 0 };
        let common = Common {
            qpn,
            pd,
            init,
            access: Access::LOCAL_READ,
            state: State::Reset,
            connection: None,
            attributes: SendAttributes::default(),
            route,
            sends: SendQueue::default(),
            receives: ReceiveQueue::new(capacity, max_sge),
            inbox: VecDeque::new(),
            inbox_base: 0,
            draining: false,
            established: false,
        };
        let congestion = self.config.congestion.clone();
        let cfg = FlowConfig::default();
        entry.insert(Qp { common, engine: Engine::None, congestion, cfg, ready: false, armed: None });
        Ok(qpn)
    }

    /// Ends a queue pair. What is outstanding is gone without completions.
    ///
    /// # Errors
    /// If there is no such queue pair.
    pub fn destroy_qp(&mut self, qpn: Qpn) -> Result<(), VerbsError> {
        self.qp(qpn)?;
        let qp = self.qps.remove(index(qpn));
        for cq in [qp.common.init.send_cq, qp.common.init.recv_cq] {
            self.cq(cq)?.users -= 1;
        }
        if let Some(srq) = qp.common.init.srq {
            self.srq(srq)?.users -= 1;
        }
        Ok(())
    }

    fn qp(&mut self, qpn: Qpn) -> Result<&mut Qp, VerbsError> {
        let qp = self.qps.get_mut(index(qpn)).filter(|qp| qp.qpn() == qpn);
        qp.ok_or(VerbsError::Unknown("such queue pair"))
    }

    /// State of a queue pair.
    ///
    /// # Errors
    /// If there is no such queue pair.
    pub fn state(&self, qpn: Qpn) -> Result<State, VerbsError> {
        let qp = self.qps.get(index(qpn)).filter(|qp| qp.qpn() == qpn);
        qp.map(|qp| qp.common.state).ok_or(VerbsError::Unknown("such queue pair"))
    }

    /// Chooses a congestion control for a queue pair that is not connected yet.
    ///
    /// # Errors
    /// If it is connected.
    pub fn set_congestion(&mut self, qpn: Qpn, congestion: Congestion) -> Result<(), VerbsError> {
        let qp = self.qp(qpn)?;
        require(qp.common.state, &[State::Reset, State::Init], "change its congestion control")?;
        qp.congestion = congestion;
        Ok(())
    }

    /// RESET to INIT: from now on receives can be posted. `access` is what the peer may do through this queue pair.
    ///
    /// # Errors
    /// If the state is another.
    pub fn to_init(&mut self, qpn: Qpn, access: Access) -> Result<(), VerbsError> {
        let qp = self.qp(qpn)?;
        require(qp.common.state, &[State::Reset, State::Init], "go to INIT")?;
        qp.common.access = access;
        qp.common.state = State::Init;
        Ok(())
    }

    /// INIT to RTR: the connection is known, packets are received.
    ///
    /// # Errors
    /// If the state is another or an attribute is out of range.
    pub fn to_rtr(&mut self, qpn: Qpn, connection: Connection, now: Time) -> Result<(), VerbsError> {
        let Connection { path_mtu, recv_psn, min_rnr_timer, dscp, peer_qpn, .. } = connection;
        let service = self.qp(qpn)?.common.init.service;
        let largest = if service == Service::Rc { 4_096 } else { 8_192 };
        if !path_mtu.is_power_of_two() || !(256..=largest).contains(&path_mtu) {
            let possible = match service {
                Service::Rc => "256, 512, 1024, 2048 or 4096",
                _ => "256, 512, 1024, 2048, 4096 or 8192",
            };
            return Err(VerbsError::Range { name: "the path MTU", value: path_mtu.into(), possible });
        }
        range("the first PSN", recv_psn, 0, Psn::MODULUS - 1, "0 to 16777215")?;
        range("the peer's queue pair", peer_qpn.0, 0, Psn::MODULUS - 2, "0 to 16777214")?;
        range("the RNR timer", min_rnr_timer.into(), 0, 31, "0 to 31")?;
        range("the DSCP", dscp.into(), 0, 63, "0 to 63")?;
        let config = self.config.clone();
        let qp = self.qp(qpn)?;
        require(qp.common.state, &[State::Init], "go to RTR")?;
        let cap = config.in_flight.clamp(1, MOST_IN_FLIGHT);
        let header = if service == Service::Irn { headers::IRN_DATA } else { headers::ROCE_DATA };
        let mut cfg = FlowConfig {
            mtu: path_mtu,
            header,
            line_rate: config.line_rate,
            base_rtt: config.base_rtt,
            bdp: cap,
            bdp_cap: cap,
            sack: true,
            timeouts: Some(config.timeouts),
            acks: true,
            nacks: NackPolicy::First,
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
        Ok(())
    }

    /// RTR to RTS: sends go out. Or SQD to RTS: they go out again, and `attributes` is without effect.
    ///
    /// # Errors
    /// If the state is another or an attribute is out of range.
    pub fn to_rts(&mut self, qpn: Qpn, attributes: SendAttributes, now: Time) -> Result<(), VerbsError> {
        let SendAttributes { send_psn, timeout, retry_count, rnr_retry, .. } = attributes;
        range("the first PSN", send_psn, 0, Psn::MODULUS - 1, "0 to 16777215")?;
        range("the timeout", timeout.into(), 0, 31, "0 to 31")?;
        range("the retry count", retry_count.into(), 0, 7, "0 to 7")?;
        range("the RNR retry count", rnr_retry.into(), 0, 7, "0 to 7")?;
        let qp = self.qp(qpn)?;
        let from = qp.common.state;
        require(from, &[State::ReadyToReceive, State::SendQueueDrain, State::SendQueueError], "go to RTS")?;
        if from == State::ReadyToReceive {
            qp.common.attributes = attributes;
            if qp.common.init.service == Service::Rc {
                let span = Time::from_ns(4_096 << timeout);
                qp.cfg.timeouts =
                    (timeout > 0).then_some(Timeouts { high: span, low: span, low_packets: 0, dynamic: None });
            }
            qp.start(now)?;
        } else {
            qp.common.state = State::ReadyToSend;
            qp.release();
        }
        self.now = self.now.max(now);
        self.wake(index(qpn) as u32);
        Ok(())
    }

    /// RTS to SQD: nothing new is started; [`Event::SendQueueDrained`] tells when all that was is done.
    ///
    /// # Errors
    /// If the state is another.
    pub fn to_sqd(&mut self, qpn: Qpn) -> Result<(), VerbsError> {
        self.qp(qpn)?;
        let qp = &mut self.qps[index(qpn)];
        require(qp.common.state, &[State::ReadyToSend], "go to SQD")?;
        qp.common.state = State::SendQueueDrain;
        qp.common.draining = true;
        qp.common.retire(&mut ctx!(self), 0);
        Ok(())
    }

    /// Any state to ERR: everything outstanding is flushed.
    ///
    /// # Errors
    /// If there is no such queue pair.
    pub fn to_error(&mut self, qpn: Qpn) -> Result<(), VerbsError> {
        self.qp(qpn)?;
        let qp = &mut self.qps[index(qpn)];
        if qp.common.state != State::Error {
            qp.common.state = State::Error;
            qp.common.flush(&mut ctx!(self));
        }
        self.settle();
        Ok(())
    }

    /// Any state to RESET: everything outstanding is gone without completions, the connection is forgotten.
    ///
    /// # Errors
    /// If there is no such queue pair.
    pub fn to_reset(&mut self, qpn: Qpn) -> Result<(), VerbsError> {
        let qp = self.qp(qpn)?;
        qp.engine = Engine::None;
        let c = &mut qp.common;
        c.state = State::Reset;
        c.connection = None;
        c.sends = SendQueue::default();
        c.receives.queue.clear();
        c.inbox.clear();
        c.inbox_base = 0;
        c.draining = false;
        c.established = false;
        Ok(())
    }

    /// Posts a send.
    ///
    /// # Errors
    /// If the queue is full, the state or the service does not admit it, or the local memory does not. Nothing is posted then.
    pub fn post_send(&mut self, qpn: Qpn, request: &SendRequest<'_>) -> Result<(), VerbsError> {
        self.qp(qpn)?;
        let qp = &self.qps[index(qpn)];
        let c = &qp.common;
        let usable = [State::ReadyToSend, State::SendQueueDrain, State::SendQueueError, State::Error];
        require(c.state, &usable, "take sends")?;
        if c.sends.len() >= c.init.capacities.send_wr as usize {
            return Err(VerbsError::Full("send queue"));
        }
        let (local, len) = match request.data {
            Data::Inline(bytes) => {
                if request.op.is_fetching() {
                    return Err(VerbsError::Unsupported("an answer cannot be placed in inline data"));
                }
                let most = c.init.capacities.inline;
                if bytes.len() > most as usize {
                    return Err(VerbsError::Limit { what: "bytes of inline data", limit: most.into() });
                }
                (Local::Inline(bytes.into()), bytes.len() as u64)
            }
            Data::Gather(sges) => {
                self.check_sges(c.pd, sges, c.init.capacities.send_sge, request.op.is_fetching())?;
                (Local::Gather(sges.into()), total(sges))
            }
        };
        if len > 1 << 31 {
            return Err(VerbsError::Range { name: "the length", value: len, possible: "0 to 2147483648 bytes" });
        }
        let len = len as u32;
        if request.op.is_atomic() && len != 8 {
            return Err(VerbsError::Range { name: "the length", value: len.into(), possible: "8 bytes for an atomic" });
        }
        if let SendOp::FetchAdd { addr, .. } | SendOp::CompareSwap { addr, .. } = request.op
            && !addr.is_multiple_of(8)
        {
            return Err(VerbsError::Range { name: "the address", value: addr, possible: "a multiple of 8" });
        }
        qp.admits(&request.op, len)?;
        if request.op.is_fetching() && c.attributes.max_rd_atomic == 0 {
            return Err(VerbsError::Unsupported("the connection admits no reads and atomics (max_rd_atomic is 0)"));
        }
        let wqe = Wqe {
            wr_id: request.wr_id,
            op: request.op,
            local,
            len,
            flags: request.flags,
            first: 0,
            packets: 0,
            answers: 0,
            answered: 0,
            answer: 0,
            serial: 0,
        };
        let qp = &mut self.qps[index(qpn)];
        if matches!(qp.common.state, State::Error | State::SendQueueError) {
            qp.common.sent(&mut ctx!(self), &wqe, Status::WorkRequestFlushed);
            self.settle();
            return Ok(());
        }
        qp.common.sends.push(wqe);
        qp.release();
        self.wake(index(qpn) as u32);
        Ok(())
    }

    /// Posts a receive.
    ///
    /// # Errors
    /// If the queue is full, the state does not admit it, or the memory does not. Nothing is posted then.
    pub fn post_recv(&mut self, qpn: Qpn, request: &RecvRequest<'_>) -> Result<(), VerbsError> {
        self.qp(qpn)?;
        let c = &self.qps[index(qpn)].common;
        if c.init.srq.is_some() {
            return Err(VerbsError::Unsupported("receives of this queue pair come from its shared receive queue"));
        }
        if c.state == State::Reset {
            return Err(VerbsError::WrongState { state: c.state, action: "take receives" });
        }
        let receive = self.receive_request(c.pd, c.receives.max_sge, request)?;
        let c = &mut self.qps[index(qpn)].common;
        let taken = c.inbox.len();
        c.receives.post(receive, taken)?;
        if c.state == State::Error {
            c.flush(&mut ctx!(self));
            self.settle();
        }
        Ok(())
    }

    // Packets.

    /// A packet arrived from `source`: what the UDP datagram carried, its ICRC checked already. `marked`: a switch marked it.
    /// A packet arrived from `source`: what the UDP datagram carried, its ICRC checked already. `marked`: a switch marked it. `now` is
    /// not before any time that the device was told.
    ///
    /// # Errors
    /// Why it was not taken; that is counted too, and needs no action.
    pub fn receive(&mut self, now: Time, source: SocketAddr, marked: bool, bytes: &[u8]) -> Result<(), Dropped> {
        self.now = now;
        self.counters.packets_received += 1;
        self.counters.marked += u64::from(marked);
        let result = self.take(now, source, marked, bytes);
        if let Err(why) = result {
            self.counters.dropped[why as usize] += 1;
        }
        self.settle();
        result
    }

    fn take(&mut self, now: Time, source: SocketAddr, marked: bool, bytes: &[u8]) -> Result<(), Dropped> {
        let packet = Packet::parse(bytes).map_err(|_| Dropped::Malformed)?;
        let bth = &packet.headers.bth;
        let qpn = Qpn(bth.dest_qp);
        let qp = self.qps.get_mut(index(qpn)).filter(|qp| qp.qpn() == qpn).ok_or(Dropped::UnknownQp)?;
        let connection = qp.common.connection.as_ref().ok_or(Dropped::State)?;
        // A socket for both kinds of addresses shows IPv4 addresses as mapped ones.
        if connection.peer.ip() != source.ip() && connection.peer.ip().to_canonical() != source.ip().to_canonical() {
            return Err(Dropped::WrongPeer);
        }
        if bth.pkey & 0x7fff != Bth::DEFAULT_PKEY & 0x7fff {
            return Err(Dropped::Partition);
        }
        if !qp.common.receives_packets() {
            return Err(Dropped::State);
        }
        let service = match bth.opcode.service() {
            rnic_wire::Service::Rc => Some(Service::Rc),
            rnic_wire::Service::Irn => Some(Service::Irn),
            rnic_wire::Service::Uc => Some(Service::Uc),
            rnic_wire::Service::Cnp => None,
            rnic_wire::Service::Ud => return Err(Dropped::Opcode),
        };
        if service.is_some_and(|service| service != qp.common.init.service) {
            return Err(Dropped::Opcode);
        }
        packet.check_mtu(qp.common.route.mtu as usize).map_err(|_| Dropped::Length)?;
        if !qp.common.established {
            qp.common.established = true;
            if qp.common.state == State::ReadyToReceive {
                self.events.push_back(Event::CommunicationEstablished(qpn));
            }
        }
        let result = qp.handle(&mut ctx!(self), now, &packet, marked);
        self.wake(index(qpn) as u32);
        result
    }

    /// Takes packets to send now: all of one queue pair, in turn. Returns whether there are any. `now` is not before any time that the
    /// device was told, and `batch` the same every time: it keeps a packet that did not fit.
    pub fn transmit(&mut self, now: Time, batch: &mut Batch) -> bool {
        self.now = now;
        if let Some(to) = batch.begin() {
            // The packets of its queue pair go on where they stopped.
            let at = self.ready.iter().position(|at| self.qps.get(*at as usize).is_some_and(|qp| qp.qpn() == to.qpn));
            let Some(at) = at.and_then(|at| self.ready.remove(at)) else { return true };
            self.ready.push_front(at);
        }
        while let Some(at) = self.ready.pop_front() {
            let Some(qp) = self.qps.get_mut(at as usize) else { continue };
            qp.ready = false;
            let Some(connection) = &qp.common.connection else { continue };
            let to = Destination {
                qpn: qp.qpn(),
                peer: connection.peer,
                dscp: connection.dscp,
                ecn: qp.congestion.marks(&qp.cfg),
            };
            while !batch.is_closed() {
                let len = qp.emit(&mut ctx!(self), now, batch.room());
                if len == 0 || !batch.append(len, to) {
                    break;
                }
            }
            self.wake(at);
            if batch.count() > 0 {
                break;
            }
        }
        self.settle();
        batch.count() > 0
    }

    /// When [`Device::transmit`] or [`Device::on_time`] has something to do: `Time::ZERO` at once, `None` when a packet or a verb changes
    /// something.
    pub fn next_time(&self, batch: &Batch) -> Option<Time> {
        if !self.ready.is_empty() || batch.holds() {
            return Some(Time::ZERO);
        }
        self.timers.first().map(|(at, _)| *at)
    }

    /// It is `now`, which is not before any time that the device was told: timers that have come fire, and paced queue pairs may send
    /// again.
    pub fn on_time(&mut self, now: Time) {
        self.now = now;
        while let Some((due, at)) = self.timers.first().copied() {
            if due > now {
                break;
            }
            self.timers.pop_first();
            let Some(qp) = self.qps.get_mut(at as usize) else { continue };
            qp.armed = None;
            if qp.deadline().is_some_and(|deadline| deadline <= now) {
                qp.on_deadline(&mut ctx!(self), now);
            }
            self.wake(at);
        }
        self.settle();
    }

    /// Puts a queue pair in the ring, or its next time in the timers. A time that moves back leaves its entry where it is.
    pub(crate) fn wake(&mut self, at: u32) {
        let now = self.now;
        let Some(qp) = self.qps.get_mut(at as usize) else { return };
        let transmit = qp.next_transmit();
        if transmit.is_some_and(|time| time <= now) && !qp.ready {
            qp.ready = true;
            self.ready.push_back(at);
        }
        // What is in the ring anyway needs no timer for it.
        let later = transmit.filter(|_| !qp.ready);
        let due = match (later, qp.deadline()) {
            (Some(a), Some(b)) => Some(a.min(b)),
            (a, b) => a.or(b),
        };
        if let Some(due) = due
            && qp.armed.is_none_or(|armed| due < armed)
        {
            if let Some(armed) = qp.armed.replace(due) {
                self.timers.remove(&(armed, at));
            }
            self.timers.insert((due, at));
        }
    }

    /// A queue pair is gone.
    pub(crate) fn forget(&mut self, at: u32, qp: &Qp) {
        if qp.ready {
            self.ready.retain(|other| *other != at);
        }
        if let Some(armed) = qp.armed {
            self.timers.remove(&(armed, at));
        }
    }

    /// Queue pairs of a completion queue that overflowed go into error.
    pub(crate) fn settle(&mut self) {
        while std::mem::take(&mut self.overflow) {
            for (_, qp) in self.qps.iter_mut() {
                let lost = [qp.common.init.send_cq, qp.common.init.recv_cq]
                    .iter()
                    .any(|cq| self.cqs.get(cq.0).is_some_and(CompletionQueue::overflowed));
                if lost {
                    qp.common.fail(&mut ctx!(self), Status::LocalQpOperation);
                }
            }
        }
    }

    pub(crate) fn qp(&mut self, qpn: Qpn) -> Result<&mut Qp, VerbsError> {
        let qp = self.qps.get_mut(index(qpn)).filter(|qp| qp.qpn() == qpn);
        qp.ok_or(VerbsError::Unknown("such queue pair"))
    }

    /// A queue pair, and what is around it.
    pub(crate) fn qp_and_ctx(&mut self, qpn: Qpn) -> Result<(&mut Qp, Ctx<'_>), VerbsError> {
        let qp = self.qps.get_mut(index(qpn)).filter(|qp| qp.qpn() == qpn);
        Ok((qp.ok_or(VerbsError::Unknown("such queue pair"))?, ctx!(self)))
    }
}

pub(crate) fn index(qpn: Qpn) -> usize {
    (qpn.0 & 0xffff) as usize
}
