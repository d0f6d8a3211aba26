//! The verbs as a trait, [`Verbs`], for software above an RDMA NIC.

use crate::backing::ForeignMemory;
use crate::device::Device;
use crate::types::{
    Access, Completion, CqId, DeviceInfo, Event, Extras, MrId, MrInfo, Pd, QpInfo, QpInit, Qpn, Recipient, RecvRequest,
    SendRequest, Transition, VerbsError,
};
use rnic_transport::{BitRate, Time};

/// The verbs of an RDMA NIC: memory regions, queues, work requests, completions with timestamps, and a rate limit for
/// each queue pair.
///
/// Software that uses this trait, such as a transport on the host, runs on every implementation: on the state machine
/// [`Device`] in virtual time, on the sockets of `rnic_endpoint::Device`, or on a simulated NIC. The module
/// [`crate::conformance`] tests an implementation.
///
/// No method blocks, and no method takes the current time as an argument: [`Verbs::now`] reads the NIC's own clock,
/// from which completions get their timestamps. Each implementation decides how packets move and time passes: by a
/// thread, by a simulation, or by calls of [`Device::receive`] and [`Device::transmit`]. The trait is object-safe.
/// Methods identify objects such as queue pairs by handles; with the handle of a destroyed object they return
/// [`VerbsError::Unknown`].
///
/// In this example two NICs run in virtual time, and the first NIC writes into the memory of the second NIC:
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
///         peer, peer_qpn, peer_source_port: None, peer_in_flight: 8_192, protected: false,
///         path_mtu: 1_024, recv_psn: 0, max_dest_rd_atomic: 4, min_rnr_timer: 12, dscp: 0,
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
///         for packet in batch.datagrams_mut() {
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
    /// The time of the NIC's clock, from which completions get their timestamps. The clock never goes back.
    fn now(&self) -> Time;

    /// Returns the limits and the link rate of the NIC, and the granularities of its rate limits and timestamps.
    fn query_device(&self) -> DeviceInfo;

    // Protection domains and memory.

    /// Creates a protection domain.
    ///
    /// # Errors
    /// If the NIC can create no further protection domain, or is closed.
    fn create_pd(&mut self) -> Result<Pd, VerbsError>;

    /// Destroys a protection domain.
    ///
    /// # Errors
    /// [`VerbsError::Busy`] while a memory region or a queue pair belongs to the protection domain.
    fn destroy_pd(&mut self, pd: Pd) -> Result<(), VerbsError>;

    /// Registers memory for local and remote access. The NIC owns the memory until [`Verbs::deregister`] returns it.
    ///
    /// `addr` is the virtual address of the first byte, as in the work requests of this side and of the peer. With
    /// `None` the NIC chooses an address.
    ///
    /// # Errors
    /// If a limit of the NIC is reached, or the region would not end below 2^64.
    fn register(&mut self, pd: Pd, bytes: Vec<u8>, addr: Option<u64>, access: Access) -> Result<MrInfo, VerbsError>;

    /// Registers memory that the application owns. The NIC accesses the memory until [`Verbs::deregister`] has
    /// returned, or the NIC is dropped. `addr` is as in [`Verbs::register`]; with `None` it is the memory's address in
    /// this process.
    ///
    /// # Errors
    /// The errors of [`Verbs::register`]. Also if `access` allows writes to memory that is read-only, or if `addr`
    /// differs from the memory's address in this process by a number that is not a multiple of 8.
    fn register_foreign(
        &mut self, pd: Pd, memory: ForeignMemory, addr: Option<u64>, access: Access,
    ) -> Result<MrInfo, VerbsError>;

    /// Deregisters a memory region. Work requests that still refer to the region fail. Returns the region's bytes if
    /// the NIC owned them; an empty vector for foreign memory.
    ///
    /// # Errors
    /// If there is no such region.
    fn deregister(&mut self, id: MrId) -> Result<Vec<u8>, VerbsError>;

    /// Copies `out.len()` bytes of a memory region into `out`, beginning with the region's byte `offset`.
    ///
    /// # Errors
    /// If no region has this handle, or the region ends before the last of these bytes. Then nothing is copied.
    fn read_memory(&mut self, id: MrId, offset: usize, out: &mut [u8]) -> Result<(), VerbsError>;

    /// Copies `data` into a memory region, beginning at the region's byte `offset`.
    ///
    /// # Errors
    /// If no region has this handle, the region ends before the last of these bytes, or the region is read-only. Then
    /// nothing is copied.
    fn write_memory(&mut self, id: MrId, offset: usize, data: &[u8]) -> Result<(), VerbsError>;

    // Completion queues.

    /// Creates a completion queue with room for `capacity` completions.
    ///
    /// # Errors
    /// If a limit of the NIC is reached.
    fn create_cq(&mut self, capacity: u32) -> Result<CqId, VerbsError>;

    /// Destroys a completion queue.
    ///
    /// # Errors
    /// [`VerbsError::Busy`] while a queue pair uses the completion queue.
    fn destroy_cq(&mut self, cq: CqId) -> Result<(), VerbsError>;

    /// Moves up to `out.len()` completions into `out`, oldest first, and returns their number. The timestamps
    /// ([`Completion::time`]) in one queue never decrease.
    ///
    /// # Errors
    /// [`VerbsError::Overflow`] if completions were lost because the queue was full. The error comes only after the
    /// completions before the loss have been polled.
    fn poll_cq(&mut self, cq: CqId, out: &mut [Completion]) -> Result<usize, VerbsError>;

    // Queue pairs.

    /// Creates a queue pair, in state RESET.
    ///
    /// # Errors
    /// If a limit of the NIC is reached, or `init` names an object that does not exist or belongs to another protection
    /// domain.
    fn create_qp(&mut self, pd: Pd, init: QpInit) -> Result<Qpn, VerbsError>;

    /// Changes the state of a queue pair.
    ///
    /// # Errors
    /// [`VerbsError::WrongState`] if the transition is not possible from the present state; [`VerbsError::Range`] if an
    /// attribute of the transition is out of range. After an error the state is unchanged.
    fn modify_qp(&mut self, qpn: Qpn, transition: Transition) -> Result<(), VerbsError>;

    /// Returns state, connection, rate limit and outstanding work of a queue pair.
    ///
    /// # Errors
    /// If there is no such queue pair.
    fn query_qp(&self, qpn: Qpn) -> Result<QpInfo, VerbsError>;

    /// Limits the rate at which a queue pair sends requests, and separately the rate at which it sends responses to
    /// RDMA Reads. Returns the limit in effect. `None`: only the link limits the rate.
    ///
    /// The limit takes effect with the next packet, and stays in effect in every state until the next call of this
    /// function. The NIC rounds the limit down to a multiple of [`DeviceInfo::rate_granularity`], but not to 0. The
    /// limited rate counts whole Ethernet frames, without preamble and inter-frame gap.
    ///
    /// # Errors
    /// If there is no such queue pair, or the rate is 0.
    fn set_rate(&mut self, qpn: Qpn, rate: Option<BitRate>) -> Result<Option<BitRate>, VerbsError>;

    /// Gives a queue pair abilities that commodity NICs lack; see [`Device::set_extras`].
    ///
    /// # Errors
    /// If the NIC does not have them. Also as [`Device::set_extras`].
    fn set_extras(&mut self, qpn: Qpn, extras: Extras) -> Result<(), VerbsError> {
        let _ = qpn;
        match extras == Extras::default() {
            true => Ok(()),
            false => Err(VerbsError::Unsupported("the NIC has no extras: ECN in completions, requests on many paths")),
        }
    }

    /// Posts a send request on the path that `entropy` chooses; see [`Device::post_spread`].
    ///
    /// # Errors
    /// As [`Verbs::post_send`]. Also if the queue pair or the NIC has one path for all requests.
    fn post_spread(&mut self, qpn: Qpn, request: &SendRequest<'_>, entropy: u16) -> Result<(), VerbsError> {
        let _ = (qpn, request, entropy);
        Err(VerbsError::Unsupported("the NIC sends all requests of a queue pair on one path"))
    }

    /// Destroys a queue pair. Its outstanding work requests disappear without completions.
    ///
    /// # Errors
    /// If there is no such queue pair.
    fn destroy_qp(&mut self, qpn: Qpn) -> Result<(), VerbsError>;

    // Work requests.

    /// Posts a send request. The request generates a completion if it is signalled or if it fails.
    ///
    /// # Errors
    /// [`VerbsError::Full`] if the send queue is full. Other errors if the request is not possible in the queue pair's
    /// state or with its transport service, or if the access to a scatter-gather element's memory is not allowed. After
    /// an error nothing is posted.
    fn post_send(&mut self, qpn: Qpn, request: &SendRequest<'_>) -> Result<(), VerbsError>;

    /// Posts a Send, or a Send with Immediate, of a UD queue pair to the recipient `to`. It completes when the NIC has
    /// sent the packet, whether or not the packet arrives.
    ///
    /// # Errors
    /// As [`Verbs::post_send`]. Also if the queue pair's service is not UD, the message is longer than the path MTU, or
    /// the NIC has no UD.
    fn post_datagram(&mut self, qpn: Qpn, request: &SendRequest<'_>, to: &Recipient) -> Result<(), VerbsError> {
        let _ = (qpn, request, to);
        Err(VerbsError::Unsupported("this NIC has no UD queue pairs"))
    }

    /// Posts send requests in order until the send queue is full; returns the number of posted requests.
    ///
    /// # Errors
    /// The error of the first request that is refused for another reason than a full queue. The requests before it are
    /// posted.
    fn post_sends(&mut self, qpn: Qpn, requests: &[SendRequest<'_>]) -> Result<usize, VerbsError> {
        until_full(requests, |request| self.post_send(qpn, request))
    }

    /// Posts a receive request.
    ///
    /// # Errors
    /// The errors of [`Verbs::post_send`], for the receive queue. After an error nothing is posted.
    fn post_recv(&mut self, qpn: Qpn, request: &RecvRequest<'_>) -> Result<(), VerbsError>;

    /// Posts receive requests in order until the receive queue is full; returns the number of posted requests.
    ///
    /// # Errors
    /// The error of the first request that is refused for another reason than a full queue. The requests before it are
    /// posted.
    fn post_recvs(&mut self, qpn: Qpn, requests: &[RecvRequest<'_>]) -> Result<usize, VerbsError> {
        until_full(requests, |request| self.post_recv(qpn, request))
    }

    /// Takes the oldest asynchronous event; `None` if no event waits.
    fn poll_event(&mut self) -> Option<Event>;
}

/// Calls `post` for each of `requests`, in order, until a queue is full; returns the number of posted requests.
///
/// # Errors
/// The error of the first request that `post` refuses for another reason than a full queue. The requests before it are
/// posted.
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

/// A [`Device`] has no clock: [`Verbs::now`] is the latest time that its owner passed to [`Device::receive`],
/// [`Device::transmit`], [`Device::on_time`] or [`Device::advance_to`].
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
        self.create_limited_pd()
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
            Transition::ReceiveDatagrams(attributes) => self.to_datagrams(qpn, attributes, now),
            Transition::ReadyToSend(attributes) => self.to_rts(qpn, attributes, now),
            Transition::Change(change) => self.change(qpn, change),
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
    fn set_extras(&mut self, qpn: Qpn, extras: Extras) -> Result<(), VerbsError> {
        Device::set_extras(self, qpn, extras)
    }
    fn post_spread(&mut self, qpn: Qpn, request: &SendRequest<'_>, entropy: u16) -> Result<(), VerbsError> {
        Device::post_spread(self, qpn, request, entropy)
    }
    fn destroy_qp(&mut self, qpn: Qpn) -> Result<(), VerbsError> {
        Device::destroy_qp(self, qpn)
    }
    fn post_send(&mut self, qpn: Qpn, request: &SendRequest<'_>) -> Result<(), VerbsError> {
        Device::post_send(self, qpn, request)
    }
    fn post_datagram(&mut self, qpn: Qpn, request: &SendRequest<'_>, to: &Recipient) -> Result<(), VerbsError> {
        Device::post_datagram(self, qpn, request, to)
    }
    fn post_recv(&mut self, qpn: Qpn, request: &RecvRequest<'_>) -> Result<(), VerbsError> {
        Device::post_recv(self, qpn, request)
    }
    fn poll_event(&mut self) -> Option<Event> {
        Device::poll_event(self)
    }
}
