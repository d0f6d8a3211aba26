//! What either side has: a device, queue pairs, memory.

use super::PerfError;
use super::control::{Introduction, Peer, Setup};
use super::counters::{Counts, counts};
use super::plan::{LONGEST, MOST_DEPTH, MOST_MEMORY, MOST_QUEUE_PAIRS, PlanError, congestion};
use crate::Op;
use rnic_endpoint::config::{Acknowledge, Config, Mode};
use rnic_endpoint::device::{Address, CompletionQueue, Device, Error, MemoryRegion, PathOptions, QpOptions, QueuePair};
use rnic_endpoint::exchange::RemoteMemory;
use rnic_endpoint::port::{
    Arrival, Batch, Counters, FaultCounters, Faults, FaultyPort, Interest, Limits, Port, SendError, UdpConfig, UdpPort,
};
use rnic_transport::{BitRate, Time};
use rnic_verbs::{Access, Capacities, Completion, Service, Sge, Status};
use std::io;
use std::net::SocketAddr;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::task::Waker;

/// Which work request a completion is of.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) struct Tag {
    pub(super) queue_pair: usize,
    /// Sends: how many messages are done with it. Receives: the slot.
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

pub(super) struct End {
    pub(super) device: Device,
    pub(super) cq: CompletionQueue,
    pub(super) queue_pairs: Vec<QueuePair>,
    pub(super) region: MemoryRegion,
    pub(super) setup: Setup,
    faults: Arc<Mutex<FaultCounters>>,
}

impl End {
    /// Opens a device at `local`. The faults of the two sides differ by `side`.
    pub(super) fn open(local: SocketAddr, setup: &Setup, side: u64) -> Result<End, PerfError> {
        let service = check(setup)?;
        let udp = UdpConfig { source_ports: setup.queue_pairs.clamp(1, 16) as usize, ..UdpConfig::default() };
        let port = UdpPort::bind(local, &udp).map_err(Error::from)?;
        let mut config = Config { mode: if setup.polled { Mode::Polled } else { Mode::Thread }, ..Config::default() };
        config.verbs.congestion = congestion(&setup.congestion, &setup.settings)?;
        if let Some(bps) = setup.line_rate {
            config.verbs.line_rate = BitRate::from_bps(bps);
        }
        config.acknowledge = Acknowledge::WithNextPoll;
        let mut config = config.fitted_to(&port).map_err(Error::from)?;
        if let Some(in_flight) = setup.in_flight {
            (config.verbs.in_flight, config.verbs.in_flight_bytes) = (in_flight, u64::MAX);
        }
        let faults = Arc::<Mutex<FaultCounters>>::default();
        let device = if setup.faults.is_none() {
            Device::on_port(Box::new(port), config)?
        } else {
            let seed = setup.faults.seed.wrapping_mul(2).wrapping_add(side);
            let port = FaultyPort::new(port, Faults::default(), setup.faults.faults()?, seed);
            Device::on_port(Box::new(Watched { port, faults: faults.clone() }), config)?
        };
        let receives = receives(setup);
        let cq = device.completion_queue(setup.queue_pairs * (setup.depth + receives) + 16)?;
        let domain = device.protection_domain();
        let bytes = u64::from(setup.queue_pairs) * u64::from(setup.slots) * u64::from(setup.stride);
        let region = domain.register(vec![0; bytes as usize], Access::ALL)?;
        let capacities =
            Capacities { send_wr: setup.depth, recv_wr: receives, send_sge: 1, recv_sge: 1, ..Capacities::default() };
        let options = QpOptions { service, capacities, ..QpOptions::new(&cq) };
        let queue_pairs = (0..setup.queue_pairs).map(|_| domain.queue_pair(&options)).collect::<Result<_, _>>()?;
        Ok(End { device, cq, queue_pairs, region, setup: setup.clone(), faults })
    }

    /// The largest MTU towards `peer`.
    pub(super) fn path_mtu(&self, peer: SocketAddr) -> Result<u32, PerfError> {
        Ok(self.queue_pairs[0].path_mtu(peer)?)
    }

    pub(super) fn introduction(&self, mtu: u32) -> Introduction {
        let peer = |qp: &QueuePair| Peer { qpn: qp.address().qpn, psn: qp.address().psn };
        Introduction {
            roce_port: self.device.local_addr().port(),
            peers: self.queue_pairs.iter().map(peer).collect(),
            memory: RemoteMemory::of(&self.region),
            mtu,
        }
    }

    /// Connects to the other side, whose IP address is that of `peer`.
    pub(super) fn connect(&self, peer: SocketAddr, theirs: &Introduction, mtu: u32) -> Result<(), PerfError> {
        let needed = u64::from(self.setup.queue_pairs) * u64::from(self.setup.slots) * u64::from(self.setup.stride);
        if theirs.peers.len() != self.queue_pairs.len() || theirs.memory.len < needed {
            return Err(PlanError("the other side has other queue pairs or memory than agreed".to_string()).into());
        }
        let mut addr = peer;
        addr.set_port(theirs.roce_port);
        let options = PathOptions { mtu: Some(mtu), ..PathOptions::default() };
        for (qp, peer) in self.queue_pairs.iter().zip(&theirs.peers) {
            qp.connect(&Address { addr, qpn: peer.qpn, psn: peer.psn }, &options)?;
        }
        Ok(())
    }

    /// Where a slot lies, from the beginning of the memory of either side.
    pub(super) fn offset(&self, queue_pair: usize, slot: u32) -> usize {
        (queue_pair * self.setup.slots as usize + slot as usize) * self.setup.stride as usize
    }

    pub(super) fn sge(&self, queue_pair: usize, slot: u32, len: u32) -> Result<Sge, PerfError> {
        Ok(self.region.slice(self.offset(queue_pair, slot), len as usize)?)
    }

    /// Receives that a queue pair has posted.
    pub(super) fn receives(&self) -> u32 {
        receives(&self.setup)
    }

    /// Posts a receive for a message of any size into a slot.
    pub(super) fn post_recv(&self, queue_pair: usize, slot: u32) -> Result<(), PerfError> {
        let sge = self.sge(queue_pair, slot, self.setup.stride)?;
        Ok(self.queue_pairs[queue_pair].post_recv(Tag::id(queue_pair, slot), &[sge])?)
    }

    /// Takes completions of successful work. Without a progress thread looks at the socket.
    pub(super) fn poll<'c>(&self, out: &'c mut [Completion]) -> Result<&'c [Completion], PerfError> {
        let count = self.cq.poll(out)?;
        succeeded(&out[..count])
    }

    /// The same, and sleeps for a while if there are none.
    pub(super) fn wait<'c>(&self, out: &'c mut [Completion]) -> Result<&'c [Completion], PerfError> {
        let count = self.cq.wait(out, Time::from_ms(1))?;
        succeeded(&out[..count])
    }

    pub(super) fn counts(&self) -> Counts {
        let counters = self.device.counters();
        counts(&counters, &lock(&self.faults))
    }
}

fn succeeded(completions: &[Completion]) -> Result<&[Completion], PerfError> {
    match completions.iter().find(|completion| completion.status != Status::Success) {
        None => Ok(completions),
        Some(failed) => Err(PerfError::Failed { queue_pair: Tag::of(failed.wr_id).queue_pair, status: failed.status }),
    }
}

/// Nothing holds an unreliable connection back when receives run out: it has many.
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

/// Whether what the other side asks for is possible.
fn check(setup: &Setup) -> Result<Service, PlanError> {
    let bytes = u64::from(setup.queue_pairs) * u64::from(setup.slots);
    let bytes = bytes.saturating_mul(u64::from(setup.stride));
    let possible = (1..=MOST_QUEUE_PAIRS).contains(&setup.queue_pairs)
        && (1..=MOST_DEPTH).contains(&setup.depth)
        && (1..=MOST_DEPTH).contains(&setup.slots)
        && (1..=LONGEST).contains(&setup.stride)
        && bytes <= MOST_MEMORY;
    if !possible {
        return Err(PlanError("so many queue pairs, messages or bytes are not possible".to_string()));
    }
    match setup.service.as_str() {
        "rc" => Ok(Service::Rc),
        "irn" => Ok(Service::Irn),
        "uc" => Ok(Service::Uc),
        other => Err(PlanError(format!("there is no service `{other}` here; there are rc, irn and uc"))),
    }
}

/// Locks the counters of faults, also after a panic of another thread: counters have no invariant that a panic can break.
fn lock(faults: &Mutex<FaultCounters>) -> MutexGuard<'_, FaultCounters> {
    faults.lock().unwrap_or_else(PoisonError::into_inner)
}

/// A port with faults whose counters can be seen from outside the device.
struct Watched {
    port: FaultyPort<UdpPort>,
    faults: Arc<Mutex<FaultCounters>>,
}

impl Port for Watched {
    fn local_addr(&self) -> SocketAddr {
        self.port.local_addr()
    }
    fn source_port(&self, hash: u32) -> u16 {
        self.port.source_port(hash)
    }
    fn limits(&self) -> Limits {
        self.port.limits()
    }
    fn longest_datagram(&self, destination: SocketAddr) -> io::Result<usize> {
        self.port.longest_datagram(destination)
    }
    fn send(&mut self, batch: &Batch<'_>) -> Result<usize, SendError> {
        self.port.send(batch)
    }
    fn receive(&mut self) -> io::Result<Option<Arrival<'_>>> {
        self.port.receive()
    }
    fn wait(&mut self, interest: Interest, timeout: Option<Time>) -> io::Result<()> {
        self.port.wait(interest, timeout)
    }
    fn waker(&self) -> Waker {
        self.port.waker()
    }
    fn counters(&self) -> Counters {
        *lock(&self.faults) = self.port.faults().1;
        self.port.counters()
    }
}
