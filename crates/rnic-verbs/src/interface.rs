//! The verbs as a trait: what an RDMA NIC offers to the layers above it.

use crate::backing::ForeignMemory;
use crate::device::Device;
use crate::types::{
    Access, Completion, CqId, DeviceInfo, Event, MrId, MrInfo, Pd, QpInfo, QpInit, Qpn, RecvRequest, SendRequest,
    Transition, VerbsError,
};
use rnic_transport::{BitRate, Time};

/// What an RDMA NIC offers to the layers above it: objects, work requests, completions with timestamps, a rate limit
/// for each queue pair.
///
/// A layer written against this trait, such as a transport in host software, runs on every implementation: on the state
/// machine [`Device`] in virtual time, on the sockets of `rnic_endpoint::Device`, on a simulated NIC.
/// [`crate::conformance`] checks an implementation.
///
/// No method blocks, and none takes the time: [`Verbs::now`] is the NIC's own clock, in which it stamps completions.
/// Who makes packets and time move on (a thread, a simulation, calls of [`Device::receive`] and [`Device::transmit`])
/// is up to the implementation. The trait is object-safe. Objects are handles; one that was destroyed gives
/// [`VerbsError::Unknown`].
///
/// Two NICs in virtual time; an RDMA Write goes from the first to the second:
///
/// ```
/// use rnic_transport::{BitRate, Time};
/// use rnic_verbs::*;
///
/// /// A queue pair with 4 KiB of memory, ready to be connected.
/// fn open(nic: &mut dyn Verbs) -> Result<(Qpn, CqId, MrInfo), VerbsError> {
///     let pd = nic.create_pd()?;
///     let cq = nic.create_cq(16)?;
///     let region = nic.register(pd, vec![0; 4_096], None, Access::ALL)?;
///     let capacities = Capacities::default();
///     let init = QpInit { service: Service::Rc, send_cq: cq, recv_cq: cq, srq: None, capacities, signal_all: false };
///     let qpn = nic.create_qp(pd, init)?;
///     nic.modify_qp(qpn, Transition::Init(Access::ALL))?;
///     Ok((qpn, cq, region))
/// }
///
/// fn connect(nic: &mut dyn Verbs, qpn: Qpn, peer: &str, peer_qpn: Qpn) -> Result<(), VerbsError> {
///     let peer = peer.parse().unwrap();
///     let connection = Connection {
///         peer, peer_qpn, path_mtu: 1_024, recv_psn: 0, max_dest_rd_atomic: 4, min_rnr_timer: 12, dscp: 0,
///     };
///     nic.modify_qp(qpn, Transition::ReadyToReceive(connection))?;
///     nic.modify_qp(qpn, Transition::ReadyToSend(SendAttributes::default()))
/// }
///
/// let mut nics = [1, 2].map(|seed| Device::new(DeviceConfig { seed, ..DeviceConfig::default() }));
/// let [(a, cq, local), (b, _, remote)] = nics.each_mut().map(|nic| open(nic).unwrap());
/// connect(&mut nics[0], a, "10.0.0.2:4791", b)?;
/// connect(&mut nics[1], b, "10.0.0.1:4791", a)?;
///
/// let nic: &mut dyn Verbs = &mut nics[0];
/// nic.set_rate(a, Some(BitRate::from_gbps(10)))?;
/// nic.write_memory(local.id, 0, b"hello")?;
/// let gather = [Sge { addr: local.addr, len: 5, lkey: local.lkey }];
/// let op = SendOp::Write { addr: remote.addr + 100, rkey: remote.rkey };
/// nic.post_send(a, &SendRequest { wr_id: 7, op, data: Data::Gather(&gather), flags: SendFlags::SIGNALED })?;
///
/// // The packets cross a link with a delay of 1 us.
/// let mut batch = Batch::new(16);
/// for (from, to, source, at) in [(0, 1, "10.0.0.1:4791", 0), (1, 0, "10.0.0.2:4791", 1)] {
///     while nics[from].transmit(Time::from_us(at), &mut batch) {
///         for packet in batch.packets_mut() {
///             let _ = nics[to].receive(Time::from_us(at + 1), source.parse().unwrap(), false, packet);
///         }
///     }
/// }
///
/// let mut completions = [Completion::BLANK; 4];
/// assert_eq!(nics[0].poll_cq(cq, &mut completions)?, 1);
/// let [first, ..] = completions;
/// assert_eq!((first.wr_id, first.status, first.time), (7, Status::Success, Time::from_us(2)));
/// assert_eq!(&nics[1].bytes(remote.id).unwrap()[100..105], b"hello");
/// # Ok::<(), VerbsError>(())
/// ```
pub trait Verbs {
    /// The NIC's clock, in which it stamps completions. It never goes back.
    fn now(&self) -> Time;

    /// Limits, link rate and granularities of the NIC.
    fn query_device(&self) -> DeviceInfo;

    // Protection domains and memory.

    /// A new protection domain.
    ///
    /// # Errors
    /// When the NIC has no more of them, or is closed.
    fn create_pd(&mut self) -> Result<Pd, VerbsError>;

    /// Destroys a protection domain.
    ///
    /// # Errors
    /// [`VerbsError::Busy`] while a memory region or a queue pair belongs to it.
    fn destroy_pd(&mut self, pd: Pd) -> Result<(), VerbsError>;

    /// Registers memory that the NIC owns until [`Verbs::deregister`] gives it back.
    ///
    /// `addr` is the address of the first byte in work requests, here and at the peer; without it the NIC chooses one.
    ///
    /// # Errors
    /// When a limit is reached, or `addr` leaves no room for the region below 2^64.
    fn register(&mut self, pd: Pd, bytes: Vec<u8>, addr: Option<u64>, access: Access) -> Result<MrInfo, VerbsError>;

    /// Registers memory that stays with the application; without `addr` at its own address. The NIC accesses it until
    /// [`Verbs::deregister`] has returned, or the NIC is dropped.
    ///
    /// # Errors
    /// As [`Verbs::register`]; when `access` admits writes to memory that is read-only, or `addr` differs from the
    /// memory's own address by no multiple of 8.
    fn register_foreign(
        &mut self, pd: Pd, memory: ForeignMemory, addr: Option<u64>, access: Access,
    ) -> Result<MrInfo, VerbsError>;

    /// Ends a region. Work that still refers to it fails. Returns the bytes that the NIC owned; of foreign memory there
    /// are none.
    ///
    /// # Errors
    /// If there is no such region.
    fn deregister(&mut self, id: MrId) -> Result<Vec<u8>, VerbsError>;

    /// Copies `out.len()` bytes from byte `offset` of a region on.
    ///
    /// # Errors
    /// If there is no such region or it is shorter; nothing is copied then.
    fn read_memory(&mut self, id: MrId, offset: usize, out: &mut [u8]) -> Result<(), VerbsError>;

    /// Copies `data` to byte `offset` of a region and those that follow.
    ///
    /// # Errors
    /// If there is no such region, it is shorter, or it is read-only; nothing is copied then.
    fn write_memory(&mut self, id: MrId, offset: usize, data: &[u8]) -> Result<(), VerbsError>;

    // Completion queues.

    /// A completion queue with room for `capacity` completions.
    ///
    /// # Errors
    /// When a limit is reached.
    fn create_cq(&mut self, capacity: u32) -> Result<CqId, VerbsError>;

    /// Destroys a completion queue.
    ///
    /// # Errors
    /// [`VerbsError::Busy`] while a queue pair uses it.
    fn destroy_cq(&mut self, cq: CqId) -> Result<(), VerbsError>;

    /// Takes up to `out.len()` completions, oldest first, and returns how many. Timestamps ([`Completion::time`]) of
    /// one queue never decrease.
    ///
    /// # Errors
    /// [`VerbsError::Overflow`] once completions were lost because the queue was full, and those before have been
    /// taken.
    fn poll_cq(&mut self, cq: CqId, out: &mut [Completion]) -> Result<usize, VerbsError>;

    // Queue pairs.

    /// A queue pair, in state RESET.
    ///
    /// # Errors
    /// When a limit is reached, or `init` names an object that does not exist or belongs to another protection domain.
    fn create_qp(&mut self, pd: Pd, init: QpInit) -> Result<Qpn, VerbsError>;

    /// Changes the state of a queue pair.
    ///
    /// # Errors
    /// [`VerbsError::WrongState`] if there is no such transition from the present state; if an attribute is out of
    /// range. The state is as before then.
    fn modify_qp(&mut self, qpn: Qpn, transition: Transition) -> Result<(), VerbsError>;

    /// State, connection, rate limit and outstanding work of a queue pair.
    ///
    /// # Errors
    /// If there is no such queue pair.
    fn query_qp(&self, qpn: Qpn) -> Result<QpInfo, VerbsError>;

    /// Limits the rate at which a queue pair sends requests, and that at which it sends responses to RDMA Reads, from
    /// the next packet on; `None`: the link's rate. The limit holds in every state until it is set anew. The NIC rounds
    /// it down to a multiple of [`DeviceInfo::rate_granularity`], but not to 0, and counts whole Ethernet frames
    /// without preamble and gap. Returns the limit in effect.
    ///
    /// # Errors
    /// If there is no such queue pair, or the rate is 0.
    fn set_rate(&mut self, qpn: Qpn, rate: Option<BitRate>) -> Result<Option<BitRate>, VerbsError>;

    /// Destroys a queue pair. Its outstanding work disappears without completions.
    ///
    /// # Errors
    /// If there is no such queue pair.
    fn destroy_qp(&mut self, qpn: Qpn) -> Result<(), VerbsError>;

    // Work requests.

    /// Posts a send request. It generates a completion if it is signalled, or fails.
    ///
    /// # Errors
    /// [`VerbsError::Full`] if the send queue is full; if the state or the service does not admit the request, or a
    /// scatter-gather element is not within memory that admits it. Nothing is posted then.
    fn post_send(&mut self, qpn: Qpn, request: &SendRequest<'_>) -> Result<(), VerbsError>;

    /// Posts send requests in order until the send queue is full; returns how many were posted.
    ///
    /// # Errors
    /// Of the first request that is refused for another reason than a full queue; those before it are posted.
    fn post_sends(&mut self, qpn: Qpn, requests: &[SendRequest<'_>]) -> Result<usize, VerbsError> {
        until_full(requests, |request| self.post_send(qpn, request))
    }

    /// Posts a receive.
    ///
    /// # Errors
    /// As [`Verbs::post_send`]. Nothing is posted then.
    fn post_recv(&mut self, qpn: Qpn, request: &RecvRequest<'_>) -> Result<(), VerbsError>;

    /// Posts receives in order until the receive queue is full; returns how many were posted.
    ///
    /// # Errors
    /// As [`Verbs::post_sends`].
    fn post_recvs(&mut self, qpn: Qpn, requests: &[RecvRequest<'_>]) -> Result<usize, VerbsError> {
        until_full(requests, |request| self.post_recv(qpn, request))
    }

    /// Takes the oldest asynchronous event, if there is one.
    fn poll_event(&mut self) -> Option<Event>;
}

/// Posts `requests` in order until a queue is full; returns how many were posted.
///
/// # Errors
/// Of the first request that is refused for another reason; those before it are posted.
pub fn until_full<R>(requests: &[R], mut post: impl FnMut(&R) -> Result<(), VerbsError>) -> Result<usize, VerbsError> {
    for (posted, request) in requests.iter().enumerate() {
        match post(request) {
            Ok(()) => {}
            Err(VerbsError::Full(_)) => return Ok(posted),
            Err(why) => return Err(why),
        }
    }
    Ok(requests.len())
}

/// The time is the latest that the device was told ([`Device::receive`], [`Device::transmit`], [`Device::on_time`],
/// [`Device::advance_to`]).
impl Verbs for Device {
    fn now(&self) -> Time {
        Device::now(self)
    }
    fn query_device(&self) -> DeviceInfo {
        let config = self.config();
        DeviceInfo {
            limits: config.limits,
            line_rate: config.line_rate,
            rate_granularity: BitRate::from_bps(1),
            time_granularity: Time::from_ps(1),
        }
    }
    fn create_pd(&mut self) -> Result<Pd, VerbsError> {
        Ok(Device::create_pd(self))
    }
    fn destroy_pd(&mut self, pd: Pd) -> Result<(), VerbsError> {
        Device::destroy_pd(self, pd)
    }
    fn register(&mut self, pd: Pd, bytes: Vec<u8>, addr: Option<u64>, access: Access) -> Result<MrInfo, VerbsError> {
        Device::register(self, pd, bytes, addr, access)
    }
    fn register_foreign(
        &mut self, pd: Pd, memory: ForeignMemory, addr: Option<u64>, access: Access,
    ) -> Result<MrInfo, VerbsError> {
        Device::register_foreign(self, pd, memory, addr, access)
    }
    fn deregister(&mut self, id: MrId) -> Result<Vec<u8>, VerbsError> {
        Device::deregister(self, id)
    }
    fn read_memory(&mut self, id: MrId, offset: usize, out: &mut [u8]) -> Result<(), VerbsError> {
        Device::read_memory(self, id, offset, out)
    }
    fn write_memory(&mut self, id: MrId, offset: usize, data: &[u8]) -> Result<(), VerbsError> {
        Device::write_memory(self, id, offset, data)
    }
    fn create_cq(&mut self, capacity: u32) -> Result<CqId, VerbsError> {
        Device::create_cq(self, capacity)
    }
    fn destroy_cq(&mut self, cq: CqId) -> Result<(), VerbsError> {
        Device::destroy_cq(self, cq)
    }
    fn poll_cq(&mut self, cq: CqId, out: &mut [Completion]) -> Result<usize, VerbsError> {
        Device::poll_cq(self, cq, out)
    }
    fn create_qp(&mut self, pd: Pd, init: QpInit) -> Result<Qpn, VerbsError> {
        Device::create_qp(self, pd, init)
    }
    fn modify_qp(&mut self, qpn: Qpn, transition: Transition) -> Result<(), VerbsError> {
        let now = Device::now(self);
        match transition {
            Transition::Init(access) => self.to_init(qpn, access),
            Transition::ReadyToReceive(connection) => self.to_rtr(qpn, connection, now),
            Transition::ReadyToSend(attributes) => self.to_rts(qpn, attributes, now),
            Transition::SendQueueDrain => self.to_sqd(qpn),
            Transition::Error => self.to_error(qpn),
            Transition::Reset => self.to_reset(qpn),
        }
    }
    fn query_qp(&self, qpn: Qpn) -> Result<QpInfo, VerbsError> {
        Device::query_qp(self, qpn)
    }
    fn set_rate(&mut self, qpn: Qpn, rate: Option<BitRate>) -> Result<Option<BitRate>, VerbsError> {
        Device::set_rate(self, qpn, rate)?;
        Ok(rate)
    }
    fn destroy_qp(&mut self, qpn: Qpn) -> Result<(), VerbsError> {
        Device::destroy_qp(self, qpn)
    }
    fn post_send(&mut self, qpn: Qpn, request: &SendRequest<'_>) -> Result<(), VerbsError> {
        Device::post_send(self, qpn, request)
    }
    fn post_recv(&mut self, qpn: Qpn, request: &RecvRequest<'_>) -> Result<(), VerbsError> {
        Device::post_recv(self, qpn, request)
    }
    fn poll_event(&mut self) -> Option<Event> {
        Device::poll_event(self)
    }
}
