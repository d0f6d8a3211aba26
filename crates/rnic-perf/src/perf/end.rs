//! The state that client and server of `rnic perf` have in common: a device, its queue pairs and their memory.

use super::PerfError;
use super::control::{Introduction, Setup};
use super::counters::{Counts, counts};
use super::lane::{self, Lanes};
use super::live::{Live, Observed};
use super::plan::{
    ChannelPlan, ChannelService, HostTransport, MAX_CHANNELS, MAX_DEPTH, MAX_MEMORY, MAX_PATHS, MAX_QUEUE_PAIRS,
    MAX_SIZE, PlanError, congestion, too_many,
};
use crate::{Op, publish};
use parking_lot::Mutex;
use rnic_endpoint::clock::{Clock, TimeSource};
use rnic_endpoint::config::{Acknowledge, Config, Identification};
use rnic_endpoint::device::{Device, Error, MemoryRegion};
use rnic_endpoint::exchange::RemoteMemory;
use rnic_endpoint::port::{
    Arrival, Batch, CaptureFile, CapturePort, Counters, FaultCounters, Faults, FaultyPort, Interest, Limits, Port,
    SendError, UdpConfig, UdpPort,
};
use rnic_transport::{BitRate, Time};
use rnic_verbs::{Access, Completion, Service, Sge, Status};
use std::io;
use std::net::SocketAddr;
use std::sync::Arc;
use std::task::Waker;

/// The two values in the identifier (`wr_id`) of a work request.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) struct Tag {
    pub(super) queue_pair: usize,
    /// For a send: the number of complete messages when this request completes. For a receive: the slot (place of one
    /// message in the registered memory) that is its buffer.
    pub(super) value: u32,
}

impl Tag {
    pub(super) fn id(queue_pair: usize, value: u32) -> u64 {
        (queue_pair as u64) << 32 | u64::from(value)
    }

    pub(super) fn of(id: u64) -> Tag {
        Tag { queue_pair: (id >> 32) as usize, value: id as u32 }
    }
}

/// One end of a measurement, client or server: its device, queue pairs and registered memory.
pub(super) struct End {
    pub(super) device: Device,
    pub(super) lanes: Lanes,
    pub(super) region: MemoryRegion,
    pub(super) setup: Setup,
    /// The observer of the measurement, if there is one.
    pub(super) live: Option<Arc<Live>>,
    side: u64,
    faults: Arc<Mutex<FaultCounters>>,
}

/// Bytes of memory that each end needs for the messages of a setup.
fn needed(setup: &Setup) -> u64 {
    u64::from(setup.queue_pairs) * u64::from(setup.slots) * u64::from(setup.stride)
}

/// Allocates the memory for the messages of `setup`. A busy system may take many seconds for this, so the caller must
/// not let a peer wait for a message with a timeout in the meantime.
///
/// # Errors
/// If the setup is impossible, needs more than `max_memory` bytes in total, or the system lacks memory.
pub(super) fn memory(setup: &Setup, max_memory: u64) -> Result<Vec<u8>, PerfError> {
    check(setup, max_memory)?;
    Ok(rnic_endpoint::device::zeroed(needed(setup) as usize)?)
}

impl End {
    /// Opens a device at `local`, creates its queue pairs and registers `memory`, which [`memory`] returned. `side` (0
    /// for the client, 1 for the server) makes the random faults of the two ends differ. With `live` the faults can
    /// change while the device runs. The packets of the device are captured in the file `capture`.
    pub(super) fn open(
        local: SocketAddr, setup: &Setup, side: u64, memory: Vec<u8>,
        (live, capture): (Option<Arc<Live>>, Option<CaptureFile>),
    ) -> Result<End, PerfError> {
        let udp = UdpConfig { source_ports: source_ports(setup), ..UdpConfig::default() };
        let port = UdpPort::bind(local, &udp).map_err(Error::from)?;
        let mut config = Config { mode: lane::mode(setup), ..Config::default() };
        if Service::named(&setup.service).is_some() {
            config.verbs.congestion = congestion(&setup.congestion, &setup.settings)?;
        }
        if let Some(bps) = setup.line_rate {
            config.verbs.line_rate = BitRate::from_bps(bps);
        }
        config.acknowledge = Acknowledge::WithNextPoll;
        config.security = setup.security;
        // Only the ICRC detects corruption of packets without protection. Both ends are rnic, so the ICRC can exclude
        // the IPv4 identification, which a UDP socket does not show; it then detects more corruption (see
        // `Identification`).
        config.identification = Identification::Excluded;
        let mut config = config.fitted_to(&port).map_err(Error::from)?;
        if let Some(in_flight) = setup.in_flight {
            (config.verbs.in_flight, config.verbs.in_flight_bytes) = (in_flight, u64::MAX);
        }
        let faults = Arc::<Mutex<FaultCounters>>::default();
        let mut port: Box<dyn Port> = if setup.faults.is_none() && live.is_none() {
            Box::new(port)
        } else {
            let seed = setup.faults.seed.wrapping_mul(2).wrapping_add(side);
            let port = FaultyPort::new(port, Faults::default(), setup.faults.faults()?, seed);
            Box::new(Watched { port, faults: faults.clone(), live: live.clone(), version: 0 })
        };
        if let Some(file) = capture {
            port = Box::new(CapturePort::new(port, file));
        }
        let device = Device::on_port(port, config)?;
        publish(&device);
        let receives = receives(setup);
        let domain = device.protection_domain();
        let region = domain.register(memory, Access::ALL)?;
        let lanes = Lanes::open(&device, &domain, setup, receives)?;
        if let Some(live) = &live {
            live.observe(side, Observed { device: device.clone(), faults: faults.clone() });
        }
        Ok(End { device, lanes, region, setup: setup.clone(), live, side, faults })
    }

    /// Returns the maximum path MTU to `peer` in payload bytes.
    pub(super) fn path_mtu(&self, peer: SocketAddr) -> Result<u32, PerfError> {
        self.lanes.path_mtu(peer)
    }

    pub(super) fn introduction(&self, mtu: u32) -> Introduction {
        let (peers, channels, in_flight) = self.lanes.addresses();
        Introduction {
            roce_port: self.device.local_addr().port(),
            peers,
            channels,
            in_flight,
            memory: RemoteMemory::of(&self.region),
            mtu,
        }
    }

    /// Connects all queue pairs to the peer's queue pairs, whose addresses are in `theirs`. The peer's device has the
    /// IP address of `peer`.
    pub(super) fn connect(&self, peer: SocketAddr, theirs: &Introduction, mtu: u32) -> Result<(), PerfError> {
        let has_memory = theirs.memory.len >= needed(&self.setup);
        if theirs.peers.len() + theirs.channels.len() != self.lanes.count() || !has_memory {
            return Err(
                PlanError("the peer has fewer queue pairs or less memory than the plan needs".to_string()).into()
            );
        }
        let mut addr = peer;
        addr.set_port(theirs.roce_port);
        self.lanes.connect(addr, (&theirs.peers, &theirs.channels), theirs.in_flight, mtu, &self.setup)
    }

    /// Returns the offset of a slot (place of one message) in the registered memory, which has the same layout at both
    /// ends.
    pub(super) fn offset(&self, queue_pair: usize, slot: u32) -> usize {
        (queue_pair * self.setup.slots as usize + slot as usize) * self.setup.stride as usize
    }

    pub(super) fn sge(&self, queue_pair: usize, slot: u32, len: u32) -> Result<Sge, PerfError> {
        Ok(self.region.slice(self.offset(queue_pair, slot), len as usize)?)
    }

    /// The number of receives that each queue pair keeps posted.
    pub(super) fn receives(&self) -> u32 {
        receives(&self.setup)
    }

    /// Posts a receive whose buffer is the given slot (place of one message in the registered memory). A slot is large
    /// enough for every message size of the plan.
    pub(super) fn post_recv(&self, queue_pair: usize, slot: u32) -> Result<(), PerfError> {
        let start = self.offset(queue_pair, slot);
        let range = start..start + self.setup.stride as usize;
        self.lanes.post_recv(queue_pair, Tag::id(queue_pair, slot), &self.region, range)
    }

    /// Polls the completion queue, and fails if a completion has an error status. On a device without a progress thread
    /// it first sends and receives packets.
    pub(super) fn poll<'c>(&self, out: &'c mut [Completion]) -> Result<&'c [Completion], PerfError> {
        let count = self.lanes.poll(out)?;
        succeeded(&out[..count])
    }

    /// Polls completions like [`End::poll`], but sleeps for up to 1 ms if the queue is empty.
    pub(super) fn wait<'c>(&self, out: &'c mut [Completion]) -> Result<&'c [Completion], PerfError> {
        let count = self.lanes.wait(&self.device, out, Time::from_ms(1))?;
        succeeded(&out[..count])
    }

    pub(super) fn counts(&self) -> Counts {
        let counters = self.device.counters();
        counts(&counters, &self.faults.lock(), self.lanes.counts())
    }
}

impl Drop for End {
    fn drop(&mut self) {
        // The observer holds the device, and the device's port holds the observer.
        if let Some(live) = &self.live {
            live.forget(self.side);
        }
    }
}

/// The server's check that the client is active, which means that the client sends packets or messages.
pub(super) struct Watch<'a> {
    end: &'a End,
    idle_timeout: Time,
    clock: Clock,
    /// Number of packets that the device had accepted at the last check.
    packets: u64,
    /// Time at which the client was last active, and time of the last check.
    active: Time,
    looked: Time,
}

impl Watch<'_> {
    /// Minimum time between two readings of the device's counters.
    const INTERVAL: Time = Time::from_ms(1_000);

    /// Creates the check for the client of `end`. The client may be inactive for at most `idle_timeout`.
    pub(super) fn new(end: &End, idle_timeout: Time) -> Watch<'_> {
        Watch { end, idle_timeout, clock: Clock::start(), packets: 0, active: Time::ZERO, looked: Time::ZERO }
    }

    /// Notes that a message from the client arrived.
    pub(super) fn message_received(&mut self) {
        self.active = self.clock.now();
    }

    /// Fails if the client has been inactive for longer than the timeout.
    pub(super) fn look(&mut self) -> Result<(), PerfError> {
        let now = self.clock.now();
        if now < self.looked + Watch::INTERVAL.min(self.idle_timeout) {
            return Ok(());
        }
        self.looked = now;
        let counters = self.end.device.counters().verbs;
        // Dropped packets do not count, because they may come from hosts other than the client.
        let packets = counters.packets_received - counters.dropped.iter().sum::<u64>();
        if packets != self.packets {
            (self.packets, self.active) = (packets, now);
        }
        if now.saturating_sub(self.active) > self.idle_timeout {
            return Err(PerfError::Idle { seconds: self.idle_timeout.as_secs() });
        }
        Ok(())
    }
}

fn succeeded(completions: &[Completion]) -> Result<&[Completion], PerfError> {
    match completions.iter().find(|completion| completion.status != Status::Success) {
        None => Ok(completions),
        Some(failed) => Err(PerfError::Failed { queue_pair: Tag::of(failed.wr_id).queue_pair, status: failed.status }),
    }
}

/// Number of receives posted on an unreliable connection. A message that arrives when no receive is posted is lost,
/// because the sender does not wait for receives.
const UNRELIABLE_RECEIVES: u32 = 4_096;

fn receives(setup: &Setup) -> u32 {
    match (setup.op, setup.latency, setup.verify) {
        (_, true, _) => 4,
        (Op::Send | Op::Write, ..) if setup.service == "uc" => UNRELIABLE_RECEIVES,
        (Op::Send, _, true) => setup.slots,
        (Op::Send, _, false) => 2 * setup.depth,
        _ => 0,
    }
}

/// Maximum of [`Setup::give_up_after_us`], one day.
const MAX_GIVE_UP_US: u64 = 86_400_000_000;

/// Estimate of the bytes that a work request and its completion take in the queues.
const QUEUE_ENTRY: u64 = 256;

/// Checks whether a setup is within the limits. The check is necessary because the server receives the setup from a
/// client.
fn check(setup: &Setup, max_memory: u64) -> Result<(), PlanError> {
    let limits = [
        (setup.queue_pairs, "queue pairs", MAX_QUEUE_PAIRS),
        (setup.depth, "outstanding messages on a queue pair", MAX_DEPTH),
        (setup.slots, "slots on a queue pair", MAX_DEPTH),
        (setup.stride, "bytes in a slot", MAX_SIZE),
    ];
    for (count, what, max) in limits {
        if !(1..=max).contains(&count) {
            return Err(PlanError(too_many(count.into(), what, max.into())));
        }
    }
    let slots = u64::from(setup.queue_pairs) * u64::from(setup.slots);
    let bytes = slots.saturating_mul(u64::from(setup.stride));
    if bytes > MAX_MEMORY {
        return Err(PlanError(too_many(bytes, "bytes of memory", MAX_MEMORY)));
    }
    // `Time::from_us` of a larger number would overflow.
    if setup.give_up_after_us.is_some_and(|us| us > MAX_GIVE_UP_US) {
        return Err(PlanError("the time after which a side gives up is more than a day".to_string()));
    }
    let entries = u64::from(setup.queue_pairs) * u64::from(setup.depth + receives(setup));
    let needed = bytes + QUEUE_ENTRY * entries + check_channels(setup)?;
    if needed > max_memory {
        return Err(PlanError(format!(
            "the measurement needs {needed} bytes of memory on the server, which admits {max_memory} (--max-memory)"
        )));
    }
    Ok(())
}

/// Number of UDP source ports of one end: one for each queue pair, and one for each path of a multipath channel,
/// because the network (ECMP) distinguishes paths by their source ports.
fn source_ports(setup: &Setup) -> usize {
    match HostTransport::named(&setup.service) {
        Some(HostTransport::Multipath) => {
            let paths = setup.channel.paths.unwrap_or(ChannelPlan::PATHS);
            setup.queue_pairs.saturating_mul(paths).clamp(1, 256) as usize
        }
        _ => setup.queue_pairs.clamp(1, 16) as usize,
    }
}

/// Checks the channels of a host transport; returns the bytes of memory that they need in addition to the messages.
fn check_channels(setup: &Setup) -> Result<u64, PlanError> {
    let Some(kind) = HostTransport::named(&setup.service) else { return Ok(0) };
    if setup.queue_pairs > MAX_CHANNELS {
        return Err(PlanError(too_many(setup.queue_pairs.into(), "channels", MAX_CHANNELS.into())));
    }
    let (paths, entries) = match kind {
        // Over UC the layer posts receives of its own.
        HostTransport::Rogue if setup.channel.over == Some(ChannelService::Uc) => (1, 2 * 2 * (256 + 512)),
        HostTransport::Rogue => (1, 2 * 2 * (256 + u64::from(receives(setup)))),
        HostTransport::Multipath => (setup.channel.paths.unwrap_or(ChannelPlan::PATHS), 2 * 2 * 64),
    };
    let paths = u64::from(paths) * u64::from(setup.queue_pairs);
    if paths > MAX_PATHS {
        return Err(PlanError(too_many(paths, "paths", MAX_PATHS)));
    }
    if setup.polled {
        return Err(PlanError(format!("{} needs progress threads", setup.service)));
    }
    Ok(paths * entries * QUEUE_ENTRY)
}

/// A port with fault injection whose counters of faults can be read while the device owns the port, and whose faults an
/// observer can change.
struct Watched {
    port: FaultyPort<UdpPort>,
    faults: Arc<Mutex<FaultCounters>>,
    live: Option<Arc<Live>>,
    /// Version of the faults that the port has; see [`Live::changed`].
    version: u32,
}

impl Watched {
    /// Takes over the faults that the observer has set since the last call.
    fn update(&mut self) {
        if let Some((sending, receiving)) = self.live.as_ref().and_then(|live| live.changed(&mut self.version)) {
            self.port.set_faults(sending, receiving);
        }
    }
}

impl Port for Watched {
    fn local_addr(&self) -> SocketAddr {
        self.port.local_addr()
    }
    fn source_port(&self, hash: u32) -> u16 {
        self.port.source_port(hash)
    }
    fn limits(&self) -> Limits {
        let limits = self.port.limits();
        // Faults on sent datagrams may begin at any time, and then batches have one datagram.
        if self.live.as_ref().is_some_and(|live| live.affects_sent()) {
            Limits { segments: 1, ..limits }
        } else {
            limits
        }
    }
    fn longest_datagram(&self, destination: SocketAddr) -> io::Result<usize> {
        self.port.longest_datagram(destination)
    }
    fn send(&mut self, batch: &Batch<'_>) -> Result<usize, SendError> {
        self.update();
        self.port.send(batch)
    }
    fn receive(&mut self) -> io::Result<Option<Arrival<'_>>> {
        self.update();
        self.port.receive()
    }
    fn wait(&mut self, interest: Interest, timeout: Option<Time>) -> io::Result<()> {
        self.port.wait(interest, timeout)
    }
    fn waker(&self) -> Waker {
        self.port.waker()
    }
    fn counters(&self) -> Counters {
        let (sent, received) = self.port.faults();
        *self.faults.lock() = FaultCounters {
            seen: sent.seen + received.seen,
            lost: sent.lost + received.lost,
            duplicated: sent.duplicated + received.duplicated,
            corrupted: sent.corrupted + received.corrupted,
            reordered: sent.reordered + received.reordered,
            delayed: sent.delayed + received.delayed,
        };
        self.port.counters()
    }
}
