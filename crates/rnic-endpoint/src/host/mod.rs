//! Channels to a peer whose congestion control, and whose loss recovery beyond the NIC's, run in this host's software:
//! RoGUE, and multipath over unreliable connections. The page `docs/concepts/host-transports.md` describes both; the
//! crate `rnic-host` has their code, which this module runs on the device's sockets.
//!
//! A [`Channel`] takes the place of a queue pair: the application posts Sends, Writes and Reads, and polls its own
//! completions. It survives failures that end a queue pair: an outage of the network that is longer than the NIC's
//! retries, an interface that goes down, a peer that stops for seconds.
//!
//! ```
//! use rnic_endpoint::host::{self, Channel, PathOptions};
//! use rnic_endpoint::{Access, Config, Device, SendOp, Time};
//!
//! # fn main() -> Result<(), Box<dyn std::error::Error>> {
//! // Two devices of this process; usually they are on two hosts.
//! let open = || Device::open_at("127.0.0.1:0".parse().unwrap(), Config::default());
//! let (here, there) = (open()?, open()?);
//! let (domain, other) = (here.protection_domain(), there.protection_domain());
//! let from = domain.register(vec![7; 200_000], Access::LOCAL)?;
//! let to = other.register(vec![0; 200_000], Access::ALL)?;
//!
//! let channel = Channel::rogue(&domain, host::RogueConfig::default())?;
//! let peer = Channel::rogue(&other, host::RogueConfig::default())?;
//! channel.connect(&peer.address(), &PathOptions::default())?;
//! peer.connect(&channel.address(), &PathOptions::default())?;
//!
//! let op = SendOp::Write { addr: to.addr(), rkey: to.rkey() };
//! channel.post(1, op, &[from.slice(0, 200_000)?])?;
//! channel.wait_one(Time::from_ms(10_000))?;
//! to.with(|bytes| assert!(bytes.iter().all(|byte| *byte == 7)));
//! # Ok(())
//! # }
//! ```
//!
//! # Progress
//!
//! With a progress thread ([`Mode::Thread`]) each channel has its own thread, which sleeps while it has no work and
//! while the application polls. Without a progress thread ([`Mode::Polled`]) the application must poll or wait at both
//! ends. This includes an end that only receives, because the peer waits for its acknowledgements.

mod address;
mod credit;
mod nic;

pub use address::Address;
pub use rnic_host::multipath::{Builtin, Config as MultipathConfig, Credit, Hooks, PathPolicy};
pub use rnic_host::rogue::Config as RogueConfig;
pub use rnic_host::{Control, Failure, HostError};
pub use rnic_transport::congestion::RogueDelay;

use crate::config::{Mode, Security};
use crate::device::{Device, Error, MemoryRegion, ProtectionDomain};
use crate::sync::lock;
use address::{Kind, of_multipath, of_rogue};
use credit::Granter;
use nic::Nic;
use rnic_host::{Frames, Link, multipath, rogue};
use rnic_transport::Time;
use rnic_verbs::{
    Completion, CqId, Data, RecvRequest, SendFlags, SendOp, SendRequest, Service, Sge, Status, Verbs, VerbsError,
};
use std::net::SocketAddr;
use std::ops::Range;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex};
use std::thread::JoinHandle;
use std::time::Duration;

/// Why an operation on a channel failed.
#[derive(Debug, thiserror::Error)]
pub enum ChannelError {
    /// The layer above the NIC refused it, or the channel has ended.
    #[error(transparent)]
    Host(#[from] HostError),
    /// The device refused it, or is closed.
    #[error(transparent)]
    Device(#[from] Error),
    /// The two sides do not fit together. The text says why.
    #[error("{0}")]
    Unfit(String),
}

impl From<VerbsError> for ChannelError {
    fn from(error: VerbsError) -> ChannelError {
        ChannelError::Host(HostError::Verbs(error))
    }
}

/// The attributes of the path to the peer.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct PathOptions {
    /// Path MTU in payload bytes. With `None` it is the maximum that the path and the service of the channel's queue
    /// pairs admit. Both ends must use the same value.
    pub mtu: Option<u32>,
    /// Differentiated services code point (DSCP) of the packets sent, 0 to 63.
    pub dscp: u8,
}

/// Counts of a channel. What a kind of channel does not have is 0.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct Counters {
    /// Number of requests that the layer posted to the NIC: chunks, and whole requests shorter than a chunk.
    pub parts: u64,
    /// Number of the parts that it posted once more: replayed (RoGUE) or retransmitted (multipath).
    pub repeated: u64,
    /// Number of times a queue pair was replaced (RoGUE) or a path reset (multipath).
    pub recoveries: u64,
    /// Number of round-trip times measured.
    pub samples: u64,
    /// Number of acknowledged chunks that a switch CE-marked (multipath with `ecn`).
    pub marked: u64,
}

enum Layer {
    Rogue(Box<rogue::Channel>),
    Multipath(Box<multipath::Channel>),
}

/// The credit of a channel: not before it is connected, and only with the setting `credit`.
enum Grants {
    Without,
    /// Bytes of one grant.
    Unconnected(u32),
    Running(Granter),
}

/// Calls the same function of either kind of channel.
macro_rules! layer {
    ($layer:expr, $channel:ident => $call:expr) => {
        match $layer {
            Layer::Rogue($channel) => $call,
            Layer::Multipath($channel) => $call,
        }
    };
}

struct State {
    layer: Layer,
    nic: Nic,
    grants: Grants,
    /// The error of the NIC that ended the layer's work.
    broken: Option<HostError>,
    /// When the channel's thread will look again, and when the application last did.
    planned: Time,
    polled: Time,
}

struct Inner {
    /// Keeps the protection domain, and with it the device, alive.
    domain: ProtectionDomain,
    state: Mutex<State>,
    cq: CqId,
    /// What the peer must know, except the keys of queue pairs.
    kind: Kind,
    service: Service,
    closing: AtomicBool,
}

/// A channel to one peer: see the [module](self).
///
/// Its functions can be called from any thread.
pub struct Channel {
    inner: Arc<Inner>,
    thread: Option<JoinHandle<()>>,
}

/// Time for which a channel's thread leaves the work to an application that polls.
const COURTESY: Time = Time::from_ms(1);
/// Maximum time for which the thread of a channel sleeps.
const NAP: Time = Time::from_ms(100);
/// A channel ends at this age, because times are picoseconds in 64 bits.
const LIFETIME: Time = Time::from_ms(200 * 86_400_000);

impl Channel {
    /// Opens a channel whose queue pairs are reliable connections: RoGUE. The layer draws its own seed.
    ///
    /// # Errors
    /// If a setting is out of range, a limit of the device is reached, or the system has no random numbers or threads.
    pub fn rogue(domain: &ProtectionDomain, config: RogueConfig) -> Result<Channel, ChannelError> {
        let mut nic = Nic::new(domain.0.device.clone());
        let (service, config) = (config.service, RogueConfig { seed: seed()?, ..config });
        let channel = rogue::Channel::open(&mut nic, domain.0.id, config)?;
        let (cq, kind) = (channel.completion_queue(), Kind::rogue(&channel.address(), service));
        Channel::over(domain, nic, Layer::Rogue(Box::new(channel)), Grants::Without, (cq, kind, service))
    }

    /// Opens a channel over many unreliable connections: multipath. `hooks` are the decisions of the transport;
    /// [`Builtin`] has the usual ones. The layer draws its own seed.
    ///
    /// # Errors
    /// As [`Channel::rogue`].
    pub fn multipath(
        domain: &ProtectionDomain, config: MultipathConfig, hooks: Box<dyn Hooks>,
    ) -> Result<Channel, ChannelError> {
        let mut nic = Nic::new(domain.0.device.clone());
        let (credit, config) = (config.credit.is_some(), MultipathConfig { seed: seed()?, ..config });
        let grants = if credit { Grants::Unconnected(config.chunk) } else { Grants::Without };
        let channel = multipath::Channel::open(&mut nic, domain.0.id, config, hooks)?;
        let (cq, kind) = (channel.completion_queue(), Kind::multipath(&channel.address(), credit));
        Channel::over(domain, nic, Layer::Multipath(Box::new(channel)), grants, (cq, kind, Service::Uc))
    }

    fn over(
        domain: &ProtectionDomain, nic: Nic, layer: Layer, grants: Grants, (cq, kind, service): (CqId, Kind, Service),
    ) -> Result<Channel, ChannelError> {
        let state = State { layer, nic, grants, broken: None, planned: Time::MAX, polled: Time::ZERO };
        let (state, closing) = (Mutex::new(state), AtomicBool::new(false));
        let inner = Arc::new(Inner { domain: domain.clone(), state, cq, kind, service, closing });
        let mut channel = Channel { inner, thread: None };
        if domain.0.device.mode() == Mode::Thread {
            let theirs = Arc::clone(&channel.inner);
            let run = move || theirs.run();
            let thread = std::thread::Builder::new().name("rnic-host".to_string()).spawn(run);
            channel.thread = Some(thread.map_err(Error::Io)?);
        }
        Ok(channel)
    }

    /// The address that the peer passes to [`Channel::connect`].
    pub fn address(&self) -> Address {
        let shared = self.device().shared();
        Address {
            addr: self.device().local_addr(),
            security: shared.security,
            in_flight: shared.in_flight,
            queue_pairs: lock(&self.inner.state).nic.introduction(),
            kind: self.inner.kind.clone(),
        }
    }

    /// The largest path MTU, in payload bytes, that the path to `peer` and the queue pairs' service admit.
    ///
    /// # Errors
    /// When the host has no route to `peer`.
    pub fn path_mtu(&self, peer: SocketAddr) -> Result<u32, ChannelError> {
        Ok(self.device().path_mtu(self.inner.service, peer)?)
    }

    /// Connects the channel to the peer's channel. Messages that one end sends before the other end is connected are
    /// retransmitted.
    ///
    /// # Errors
    /// If the channel is connected, the two ends are channels of different kinds, only one device protects packets, or
    /// an attribute is out of range. After an error the channel can only be dropped.
    pub fn connect(&self, peer: &Address, options: &PathOptions) -> Result<(), ChannelError> {
        let protection = match (self.device().shared().security, peer.security) {
            (Security::None, Security::None) => None,
            (own, theirs) if own != Security::None && theirs != Security::None => own.max(theirs).protection(),
            (own, theirs) => {
                return Err(ChannelError::Unfit(format!(
                    "this device has the security `{}` and the peer `{}`; either both protect packets or neither does",
                    own.name(),
                    theirs.name()
                )));
            }
        };
        let unfit = || {
            let (own, theirs) = (self.inner.kind.name(), peer.kind.name());
            ChannelError::Unfit(format!("this side has {own} and the peer {theirs}; both must be the same"))
        };
        let own = self.device().local_addr();
        if own.is_ipv4() != peer.addr.is_ipv4() {
            let why = format!("the peer's device is at {} and this one at {own}; both must be IPv4 or IPv6", peer.addr);
            return Err(ChannelError::Unfit(why));
        }
        let mtu = options.mtu.map_or_else(|| self.path_mtu(peer.addr), Ok)?;
        let link = Link { dscp: options.dscp, protected: protection.is_some(), ..Link::new(peer.addr, mtu) };
        let mut state = lock(&self.inner.state);
        let State { layer, nic, grants, .. } = &mut *state;
        nic.meet(&peer.queue_pairs, peer.in_flight.clamp(1, rnic_verbs::MAX_IN_FLIGHT), protection);
        let now = nic.read();
        match (layer, &peer.kind, &self.inner.kind) {
            (Layer::Rogue(channel), Kind::Rogue { service, qpns, control, salt }, Kind::Rogue { service: own, .. })
                if service == own =>
            {
                channel.connect(nic, link, of_rogue(*qpns, *control, *salt), now)?;
            }
            (Layer::Multipath(channel), Kind::Multipath { credit, .. }, Kind::Multipath { credit: own, .. })
                if credit == own =>
            {
                channel.connect(nic, link, &of_multipath(&peer.kind).ok_or_else(unfit)?, now)?;
                if let Grants::Unconnected(chunk) = *grants {
                    let frames = Frames { mtu, header: rnic_transport::headers::ROCE_DATA };
                    *grants = Grants::Running(Granter::new(nic.query_device().line_rate, chunk, frames));
                }
            }
            _ => return Err(unfit()),
        }
        drop(state);
        self.wake();
        Ok(())
    }

    /// Posts a request. It generates a completion if it is signalled or fails. Requests complete in the order of
    /// posting.
    ///
    /// # Errors
    /// If the channel is not connected or has ended, its queue is full, or the channel does not support the operation.
    pub fn post_send(&self, request: &SendRequest<'_>) -> Result<(), ChannelError> {
        self.post_sends(std::slice::from_ref(request)).map(|_| ())
    }

    /// Posts several requests, in order; returns their number.
    ///
    /// # Errors
    /// The error of the first request that is refused. The requests before it are posted.
    pub fn post_sends(&self, requests: &[SendRequest<'_>]) -> Result<usize, ChannelError> {
        let mut state = lock(&self.inner.state);
        let refused = requests.iter().find_map(|request| layer!(&mut state.layer, c => c.post_send(request)).err());
        self.inner.work(&mut state);
        let is_late = state.planned > state.next_time();
        drop(state);
        if is_late {
            self.wake();
        }
        refused.map_or(Ok(requests.len()), |why| Err(why.into()))
    }

    /// Posts a request that generates a completion and whose data are in registered memory.
    ///
    /// # Errors
    /// As [`Channel::post_send`].
    pub fn post(&self, wr_id: u64, op: SendOp, local: &[Sge]) -> Result<(), ChannelError> {
        self.post_send(&SendRequest { wr_id, op, data: Data::Gather(local), flags: SendFlags::SIGNALED })
    }

    /// Posts a receive into a range of a region. Messages of the peer complete receives in the order of posting. On a
    /// multipath channel the region must allow remote writes.
    ///
    /// # Errors
    /// If the channel has ended, too many receives are posted, or the range is not in the region.
    pub fn post_recv<B>(&self, wr_id: u64, region: &MemoryRegion<B>, range: Range<usize>) -> Result<(), ChannelError> {
        let sge = region.slice(range.start, range.len())?;
        let mut state = lock(&self.inner.state);
        let State { layer, nic, .. } = &mut *state;
        match layer {
            Layer::Rogue(channel) => channel.post_recv(nic, &RecvRequest { wr_id, scatter: &[sge] })?,
            Layer::Multipath(channel) => {
                channel.post_recv(wr_id, &region.info(), range.start as u64, sge.len)?;
            }
        }
        self.inner.work(&mut state);
        Ok(())
    }

    /// Moves up to `out.len()` completions, oldest first, into `out`; returns their number.
    ///
    /// # Errors
    /// If the device is closed.
    pub fn poll(&self, out: &mut [Completion]) -> Result<usize, ChannelError> {
        let mut state = lock(&self.inner.state);
        self.inner.work(&mut state);
        state.polled = state.nic.read();
        match layer!(&mut state.layer, c => c.poll(out)) {
            0 => state.broken.clone().map_or(Ok(0), |why| Err(why.into())),
            count => Ok(count),
        }
    }

    /// Waits until the channel has completions, and moves them to `out`; returns their number. The number is 0 if none
    /// arrived within `timeout`.
    ///
    /// # Errors
    /// As [`Channel::poll`].
    pub fn wait(&self, out: &mut [Completion], timeout: Time) -> Result<usize, ChannelError> {
        let clock = crate::clock::Clock::start();
        loop {
            let count = self.poll(out)?;
            let spent = crate::clock::TimeSource::now(&clock);
            if count > 0 || out.is_empty() || spent >= timeout {
                return Ok(count);
            }
            let left = self.inner.sleep(&mut lock(&self.inner.state)).min(timeout - spent);
            self.device().shared().progress_or_wait(Some(self.inner.cq), left)?;
        }
    }

    /// Waits until the channel has a completion, and takes the oldest one.
    ///
    /// # Errors
    /// As [`Channel::wait`]; [`Error::Failed`] if the request failed, [`Error::TimedOut`] if no request completed
    /// within `timeout`.
    pub fn wait_one(&self, timeout: Time) -> Result<Completion, ChannelError> {
        let mut out = [Completion::BLANK];
        match self.wait(&mut out, timeout)? {
            0 => Err(Error::TimedOut(timeout).into()),
            _ if out[0].status != Status::Success => {
                Err(Error::Failed { wr_id: out[0].wr_id, status: out[0].status }.into())
            }
            _ => Ok(out[0]),
        }
    }

    /// The reason for which the channel has ended; `None` if it has not.
    pub fn failure(&self) -> Option<Failure> {
        layer!(&lock(&self.inner.state).layer, c => c.failure())
    }

    /// Smoothed round-trip time of the channel's chunks; `None` before the first measurement.
    pub fn rtt(&self) -> Option<Time> {
        layer!(&lock(&self.inner.state).layer, c => c.rtt())
    }

    /// Counts of the channel.
    pub fn counters(&self) -> Counters {
        match &lock(&self.inner.state).layer {
            Layer::Rogue(channel) => {
                let rogue::Counters { parts, replayed, recoveries, samples, .. } = channel.counters();
                Counters { parts, repeated: replayed, recoveries, samples, marked: 0 }
            }
            Layer::Multipath(channel) => {
                let multipath::Counters { transmitted, retransmitted, resets, samples, marked, .. } =
                    channel.counters();
                Counters { parts: transmitted, repeated: retransmitted, recoveries: resets, samples, marked }
            }
        }
    }

    /// Ends the channel and notifies the peer. Outstanding requests and receives complete as flushed.
    ///
    /// # Errors
    /// If the device is closed.
    pub fn close(&self) -> Result<(), ChannelError> {
        let mut state = lock(&self.inner.state);
        let State { layer, nic, .. } = &mut *state;
        let now = nic.read();
        Ok(layer!(layer, c => c.close(nic, now))?)
    }

    fn device(&self) -> &Device {
        &self.inner.domain.0.device
    }

    /// Wakes the channel's thread, which then asks again when to look next.
    fn wake(&self) {
        if self.thread.is_some() {
            self.device().shared().wake_all();
        }
    }
}

impl Drop for Channel {
    fn drop(&mut self) {
        self.inner.closing.store(true, Ordering::Release);
        if let Some(thread) = self.thread.take() {
            thread.thread().unpark();
            self.device().shared().wake_all();
            // A panic was already reported in that thread.
            let _ = thread.join();
        }
        let _ = self.close();
        // The peer gets what waits to be sent, as far as it leaves at once.
        self.device().shared().flush();
    }
}

impl Drop for State {
    fn drop(&mut self) {
        let State { layer, nic, grants, .. } = self;
        if let Grants::Running(granter) = grants {
            granter.claim(false, &nic.device.shared().claims);
        }
        // If the device is closed, it destroys the queue pairs itself.
        let _ = layer!(layer, c => c.destroy(nic));
    }
}

impl State {
    /// When the layer wants to look again, by the channel's clock.
    fn next_time(&self) -> Time {
        let credit = match &self.grants {
            Grants::Running(granter) => granter.next_time(),
            Grants::Without | Grants::Unconnected(_) => None,
        };
        let layer = layer!(&self.layer, c => c.next_time());
        [layer, credit].into_iter().flatten().min().unwrap_or(Time::MAX)
    }
}

impl Inner {
    /// Lets the layer do what is due.
    fn work(&self, state: &mut State) {
        let State { layer, nic, grants, broken, .. } = state;
        if broken.is_some() {
            return;
        }
        let now = nic.read();
        let mut worked = layer!(&mut *layer, c => c.progress(nic, now));
        if let (Layer::Multipath(channel), Grants::Running(granter), true) = (&mut *layer, grants, worked.is_ok()) {
            worked = granter.run(nic, now, channel, &self.domain.0.device.shared().claims);
        }
        if now > LIFETIME && worked.is_ok() {
            worked = layer!(layer, c => c.close(nic, now));
        }
        *broken = worked.err();
    }

    /// How long to sleep, at most, until the layer wants to look again.
    fn sleep(&self, state: &mut State) -> Time {
        let now = state.nic.read();
        state.next_time().saturating_sub(now).min(NAP)
    }

    /// The body of the channel's thread.
    fn run(&self) {
        while !self.closing.load(Ordering::Acquire) {
            let mut state = lock(&self.state);
            let now = state.nic.read();
            if state.polled != Time::ZERO && now < state.polled + COURTESY {
                state.planned = now + COURTESY;
                drop(state);
                std::thread::park_timeout(Duration::from_nanos(COURTESY.as_ps() / 1_000));
                continue;
            }
            self.work(&mut state);
            if state.broken.is_some() {
                return;
            }
            let left = self.sleep(&mut state);
            state.planned = now + left;
            drop(state);
            if self.domain.0.device.shared().progress_or_wait(Some(self.cq), left).is_err() {
                return;
            }
        }
    }
}

/// Random numbers of the operating system, of which a channel derives its first PSNs.
fn seed() -> Result<u64, Error> {
    Ok(crate::device::random_seed()?)
}
