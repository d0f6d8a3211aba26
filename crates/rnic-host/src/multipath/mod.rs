//! Multipath: chunks over many unreliable connections, and loss recovery in software.
//!
//! | module | contents |
//! |---|---|
//! | `connect` | connects a channel and its paths |
//! | `hooks` | the eight hooks, and the built-in path selections |
//! | `header`, `record`, `note` | what the two layers exchange: headers of chunks, records, acknowledgements |
//! | `sender`, `path` | requests and chunks; what was transmitted on each path, and what of it is lost |
//! | `transmit` | transmits chunks as window, rate, credit and hooks allow |
//! | `losses` | which losses are a sign of congestion; chunks that are lost repeatedly |
//! | `receiver` | which chunks have arrived |
//! | `events` | completions of the NIC, acknowledgements, resets of paths, timers |
//! | `credit` | grants credit to several senders at the rate of a link |

mod config;
mod connect;
mod credit;
mod events;
mod header;
mod hooks;
mod losses;
mod note;
mod path;
mod receiver;
mod record;
mod sender;
mod transmit;

pub use config::{Address, Config, Counters, Credit};
pub use credit::Grants;
pub use header::{Header, Kind};
pub use hooks::{AckView, Builtin, ChunkView, Hooks, PathPolicy, PathView, View};

use crate::chunk::{Frames, Local};
use crate::control::{Allowance, window_bytes};
use crate::error::{Failure, HostError};
use crate::link::{self, Link};
use crate::mailbox::Mailbox;
use crate::objects::Objects;
use crate::rtt::{Departures, Smoothed};
use losses::{ChunkLength, Losses};
use note::{Topic, WINDOW};
use path::Path;
use receiver::Receiver;
use record::Record;
use rnic_transport::congestion::Law;
use rnic_transport::{BitRate, Time};
use rnic_verbs::{
    Access, Capacities, Completion, CqId, Extras, MrInfo, Opcode, Pd, QpInit, Qpn, SendOp, SendRequest, Service,
    Status, Verbs,
};
use sender::{Room, Sender};
use std::collections::{BTreeMap, VecDeque};

/// Number of receives of the control queue pair.
const MAILBOX: u32 = 256;
/// Set in the work request ids of receives.
const RECEIVE: u64 = 1 << 63;

/// What a channel knows of its peer once it is connected.
struct Peer {
    link: Link,
    frames: Frames,
    line: BitRate,
    connection: u8,
    ring: Room,
    law: Box<dyn Law>,
    /// Queue pairs of the peer on which it receives and sends.
    inbound: Vec<Qpn>,
    outbound: Vec<Qpn>,
    salt: u64,
}

/// A multipath channel to one peer: Sends, Writes and Writes with Immediate over many unreliable connections.
///
/// The application posts requests and receives, and polls their completions. It calls [`Channel::progress`] whenever
/// completions of the NIC may have arrived, and at [`Channel::next_time`].
///
/// Guarantees: requests complete in the order of posting, each exactly once, when all their bytes are in the peer's
/// memory. Messages complete receives in the order of posting, after all earlier Writes. Two requests on the same bytes
/// need the fence flag on the later one, because chunks overtake each other. Sends and Writes with Immediate wait until
/// the peer has posted a receive.
///
/// ```
/// use rnic_host::Link;
/// use rnic_host::multipath::{Builtin, Channel, Config, PathPolicy};
/// use rnic_transport::Time;
/// use rnic_verbs::*;
///
/// let mut nics = [1, 2].map(|seed| Device::new(DeviceConfig { seed, ..DeviceConfig::default() }));
/// let mut open = |side: usize| {
///     let pd = Verbs::create_pd(&mut nics[side])?;
///     let region = nics[side].register(pd, vec![side as u8; 200_000], None, Access::ALL)?;
///     let config = Config { paths: 4, seed: side as u64, ..Config::default() };
///     let hooks = Box::new(Builtin::new(PathPolicy::RoundRobin));
///     Ok::<_, rnic_host::HostError>((Channel::open(&mut nics[side], pd, config, hooks)?, region))
/// };
/// let ((mut a, local), (mut b, remote)) = (open(0)?, open(1)?);
/// // The two sides tell each other their addresses, for instance over TCP.
/// let (of_a, of_b) = (a.address(), b.address());
/// a.connect(&mut nics[0], Link::new("10.0.0.2:4791".parse().unwrap(), 1_024), &of_b, Time::ZERO)?;
/// b.connect(&mut nics[1], Link::new("10.0.0.1:4791".parse().unwrap(), 1_024), &of_a, Time::ZERO)?;
///
/// // B receives into its region; A sends 200,000 bytes, which are seven chunks.
/// b.post_recv(1, &remote, 0, 200_000)?;
/// let gather = [Sge { addr: local.addr, len: 200_000, lkey: local.lkey }];
/// let (op, data) = (SendOp::SendImm(42), Data::Gather(&gather));
/// a.post_send(&SendRequest { wr_id: 7, op, data, flags: SendFlags::SIGNALED })?;
///
/// // The packets cross a link with a delay of 1 us.
/// let mut batch = Batch::new(16);
/// let mut now = Time::ZERO;
/// let mut completions = [Completion::BLANK; 4];
/// while a.poll(&mut completions) == 0 {
///     a.progress(&mut nics[0], now)?;
///     b.progress(&mut nics[1], now)?;
///     for (from, to, source) in [(0, 1, "10.0.0.1:4791"), (1, 0, "10.0.0.2:4791")] {
///         now += Time::from_us(1);
///         nics[from].on_time(now);
///         while nics[from].transmit(now, &mut batch) {
///             for packet in batch.datagrams_mut() {
///                 let _ = nics[to].receive(now, source.parse().unwrap(), false, packet);
///             }
///         }
///     }
/// }
/// assert_eq!((completions[0].wr_id, completions[0].status), (7, Status::Success));
/// assert_eq!(b.poll(&mut completions), 1);
/// assert_eq!((completions[0].byte_len, completions[0].imm), (200_000, Some(42)));
/// assert!(nics[1].bytes(remote.id).unwrap().iter().all(|byte| *byte == 0));
/// # Ok::<(), rnic_host::HostError>(())
/// ```
pub struct Channel {
    config: Config,
    hooks: Box<dyn Hooks>,
    objects: Objects,
    cq: CqId,
    paths: Vec<Path>,
    views: Vec<PathView>,
    inbound: Vec<Qpn>,
    /// Path of each queue pair, by number: outbound ones and inbound ones.
    by_qpn: BTreeMap<Qpn, (bool, u32)>,
    /// Generation of each inbound queue pair.
    generations: Vec<u32>,
    mailbox: Mailbox<{ note::LEN }>,
    ring: MrInfo,
    peer: Option<Peer>,
    ended: Option<Failure>,
    sender: Sender,
    receiver: Receiver,
    /// Work request ids of the posted receives, with the lengths of their memory.
    receives: VecDeque<u64>,
    departures: Departures,
    rtt: Smoothed,
    losses: Losses,
    chunk_length: ChunkLength,
    /// The time at which the rate allows the next chunk, and the time at which a waiting chunk is due by a hook or the
    /// rate.
    not_before: Time,
    wake: Option<Time>,
    /// No path has a deadline before this time.
    path_deadline: Option<Time>,
    /// When the peer last acknowledged something, or nothing was outstanding.
    heard: Time,
    next_probe: u32,
    random: u64,
    /// Numbers of received chunks and of CE-marked chunks among them, modulo 2^32; and the same numbers of the peer,
    /// from its last note.
    marks: (u32, u32),
    told_marks: (u32, u32),
    /// The newest chunk received and its time, if it is not acknowledged.
    newest: Option<(u64, Time)>,
    /// Notes to send when all completions are polled.
    answers: Vec<Topic>,
    /// Transmitted bytes, the peer's grant, and the demand in the last note to the peer.
    transmitted: u64,
    granted: u64,
    told_demand: u64,
    is_starved: bool,
    next_request: Option<Time>,
    /// Bytes granted to the peer, and its demand.
    own_granted: u64,
    peer_demand: u64,
    done: VecDeque<Completion>,
    counters: Counters,
}

impl Channel {
    /// Creates the queue pairs of a channel. Memory of requests must be registered in `pd`.
    ///
    /// # Errors
    /// If a setting is out of range, or a limit of the NIC is reached.
    pub fn open(nic: &mut dyn Verbs, pd: Pd, config: Config, hooks: Box<dyn Hooks>) -> Result<Channel, HostError> {
        let limits = nic.query_device().limits;
        config.check(&limits)?;
        let (send_sge, inline) = (config.sges, config.inline);
        let (send_wr, recv_wr) = config.depths(&limits);
        let extras = Extras { ecn: config.ecn, spread: config.spread, ..Extras::default() };
        let sending = Capacities { send_wr, recv_wr: 0, send_sge, recv_sge: 0, inline };
        let receiving = Capacities { send_wr: 1, recv_wr, send_sge: 0, recv_sge: 0, inline: 0 };
        let ((cq, outbound, inbound, mailbox, ring), objects) = Objects::create(nic, |nic, objects| {
            let cq = objects.cq(nic, config.queue_pairs() * (send_wr + recv_wr + 1) + 2 * MAILBOX)?;
            let init = |capacities| {
                let (service, signal_all) = (Service::Uc, false);
                QpInit { service, send_cq: cq, recv_cq: cq, srq: None, capacities, signal_all }
            };
            let (mut outbound, mut inbound) = (Vec::new(), Vec::new());
            for _ in 0..config.queue_pairs() {
                outbound.push(objects.qp(nic, pd, init(sending))?);
                inbound.push(objects.qp(nic, pd, init(receiving))?);
            }
            for qpn in outbound.iter().chain(&inbound) {
                nic.set_extras(*qpn, extras)?;
            }
            let mailbox = Mailbox::open(nic, objects, pd, cq, MAILBOX)?;
            let ring = objects.region(nic, pd, WINDOW as usize * record::LEN, Access::ALL)?;
            Ok((cq, outbound, inbound, mailbox, ring))
        })?;
        let by_qpn = (0..).zip(&outbound).map(|(at, qpn)| (*qpn, (true, at)));
        let by_qpn = by_qpn.chain((0..).zip(&inbound).map(|(at, qpn)| (*qpn, (false, at)))).collect();
        let salt = salt(&config);
        let first = |at: u32| link::first_psn(salt, at);
        let path = |at: u32| Path::new(outbound[at as usize % outbound.len()], first(at));
        let paths: Vec<Path> = (0..config.paths).map(path).collect();
        Ok(Channel {
            hooks,
            objects,
            cq,
            views: paths.iter().map(Path::view).collect(),
            paths,
            generations: vec![0; inbound.len()],
            inbound,
            by_qpn,
            mailbox,
            ring,
            peer: None,
            ended: None,
            sender: Sender::default(),
            receiver: Receiver::default(),
            receives: VecDeque::new(),
            departures: Departures::default(),
            rtt: Smoothed::default(),
            losses: Losses::default(),
            chunk_length: ChunkLength::new(config.chunk),
            not_before: Time::ZERO,
            wake: None,
            path_deadline: None,
            heard: Time::ZERO,
            next_probe: 0,
            random: config.seed,
            marks: (0, 0),
            told_marks: (0, 0),
            newest: None,
            answers: Vec::new(),
            transmitted: 0,
            granted: 0,
            told_demand: 0,
            is_starved: false,
            next_request: None,
            own_granted: 0,
            peer_demand: 0,
            done: VecDeque::new(),
            counters: Counters::default(),
            config,
        })
    }

    /// The address that the peer needs to connect.
    pub fn address(&self) -> Address {
        Address {
            outbound: self.paths.iter().take(self.inbound.len()).map(|path| path.qpn).collect(),
            inbound: self.inbound.clone(),
            control: self.mailbox.qpn,
            connection: self.config.connection,
            ring: self.ring.addr,
            ring_rkey: self.ring.rkey,
            salt: salt(&self.config),
        }
    }

    /// Posts a request, which [`Channel::progress`] transmits. The fields are those of a queue pair's request. A
    /// request that is not signalled generates no completion unless it fails.
    ///
    /// # Errors
    /// If the channel is not connected or has ended, its queue is full, the operation is not one of Send, Send with
    /// Immediate, Write and Write with Immediate, or no NIC accepts the request.
    pub fn post_send(&mut self, request: &SendRequest<'_>) -> Result<(), HostError> {
        self.usable()?;
        if request.op.is_fetching() || matches!(request.op, SendOp::SendInv(_)) {
            return Err(HostError::Unsupported(
                "a multipath channel uses unreliable connections, which have Sends and RDMA Writes, but no reads, atomics or Send with Invalidate",
            ));
        }
        if self.sender.len() >= self.config.requests as usize {
            return Err(HostError::Full { what: "queue of requests", limit: self.config.requests });
        }
        let (local, len) = Local::of(request, self.config.inline)?;
        if let Local::Gather(sges) = &local
            && sges.len() > self.config.sges as usize
        {
            let possible = format!("0 to {}", self.config.sges);
            return Err(HostError::range("the number of scatter-gather elements", sges.len() as u64, possible));
        }
        self.sender.push(request.wr_id, request.op, local, request.flags, len);
        Ok(())
    }

    /// Posts a receive of up to `len` bytes into `region`, from its byte `offset` on. The peer writes the message
    /// directly there, so the region must allow remote writes. Messages complete receives in order.
    ///
    /// # Errors
    /// If the channel has ended, too many receives are posted, or the bytes are not in the region.
    pub fn post_recv(&mut self, wr_id: u64, region: &MrInfo, offset: u64, len: u32) -> Result<(), HostError> {
        if let Some(why) = self.ended {
            return Err(HostError::Ended(why));
        }
        if self.receives.len() >= self.config.receives as usize {
            return Err(HostError::Full { what: "queue of receives", limit: self.config.receives });
        }
        if offset.checked_add(len.into()).is_none_or(|end| end > region.len) {
            let possible = format!("at most the {} bytes of the region minus the length", region.len);
            return Err(HostError::range("the offset of the receive", offset, possible));
        }
        self.receives.push_back(wr_id);
        self.sender.push_receive(Record::Receive { addr: region.addr + offset, rkey: region.rkey, len });
        Ok(())
    }

    /// Moves up to `out.len()` completions into `out`, oldest first, and returns their number.
    pub fn poll(&mut self, out: &mut [Completion]) -> usize {
        let count = out.len().min(self.done.len());
        for (to, from) in out.iter_mut().zip(self.done.drain(..count)) {
            *to = from;
        }
        count
    }

    /// Handles completions of the NIC, fires timers, transmits the chunks that congestion control, credit and hooks
    /// allow, and acknowledges received chunks. `now` is the time of the NIC's clock.
    ///
    /// # Errors
    /// If the NIC fails. Failures of requests are completions, not errors.
    pub fn progress(&mut self, nic: &mut dyn Verbs, now: Time) -> Result<(), HostError> {
        if self.peer.is_none() {
            return Ok(());
        }
        self.look(nic, now)?;
        if self.ended.is_none() {
            self.on_time(nic, now)?;
            self.transmit(nic, now)?;
            self.complete(now);
            self.request_credit(nic, now)?;
            self.answer(nic, now)?;
        }
        Ok(())
    }

    /// The time at which [`Channel::progress`] must be called next, even if no completion arrives; `None`: not before a
    /// completion.
    pub fn next_time(&self) -> Option<Time> {
        let peer = self.peer.as_ref().filter(|_| self.ended.is_none())?;
        let outstanding = self.sender.open() > 0;
        let patience = outstanding.then(|| self.heard + self.config.patience);
        [self.path_deadline, self.wake, self.next_request, peer.law.next_timer(), patience].into_iter().flatten().min()
    }

    /// The reason for which the channel has ended; `None` if it has not.
    pub fn failure(&self) -> Option<Failure> {
        self.ended
    }

    /// Smoothed round-trip time of chunks; `None` before the first measurement.
    pub fn rtt(&self) -> Option<Time> {
        self.rtt.get()
    }

    /// The paths, as hooks see them.
    pub fn paths(&self) -> &[PathView] {
        &self.views
    }

    /// Window and rate that the congestion control allows; `None` before the channel is connected.
    pub fn allowance(&self) -> Option<Allowance> {
        self.peer.as_ref().map(|peer| self.allowed(peer))
    }

    fn allowed(&self, peer: &Peer) -> Allowance {
        let window = window_bytes(&*peer.law, peer.frames.mtu);
        let rtt = self.rtt.get().unwrap_or(self.config.base_rtt);
        let rate = self.config.max_rate.map_or(peer.law.rate(), |max| max.min(peer.law.rate()));
        Allowance::of(rate, window.min(self.config.max_window), self.config.chunk.into(), rtt, peer.line)
    }

    /// Counts of the channel.
    pub fn counters(&self) -> Counters {
        self.counters
    }

    /// Ends the channel and notifies the peer. Outstanding requests and receives complete as flushed.
    ///
    /// # Errors
    /// If the NIC fails.
    pub fn close(&mut self, nic: &mut dyn Verbs, now: Time) -> Result<(), HostError> {
        self.end(nic, now, Status::WorkRequestFlushed, Failure::Closed)
    }

    /// The completion queue of the channel's queue pairs, whose completions [`Channel::progress`] handles. A program
    /// that sleeps waits for this queue.
    pub fn completion_queue(&self) -> CqId {
        self.cq
    }

    /// Destroys the queue pairs of the channel. The channel cannot be used afterwards.
    ///
    /// # Errors
    /// If the NIC fails.
    pub fn destroy(&mut self, nic: &mut dyn Verbs) -> Result<(), HostError> {
        self.objects.destroy(nic)
    }

    fn usable(&self) -> Result<(), HostError> {
        match (self.ended, &self.peer) {
            (Some(why), _) => Err(HostError::Ended(why)),
            (None, None) => Err(HostError::NotConnected),
            _ => Ok(()),
        }
    }

    fn complete(&mut self, time: Time) {
        while let Some(request) = self.sender.complete() {
            if request.flags.signaled {
                self.finish(request.wr_id, Status::Success, request.op.completion(), 0, None, time);
            }
        }
    }

    fn finish(&mut self, wr_id: u64, status: Status, opcode: Opcode, byte_len: u32, imm: Option<u32>, time: Time) {
        let qpn = self.mailbox.qpn;
        self.done.push_back(Completion { wr_id, status, opcode, byte_len, imm, qpn, time, ..Completion::BLANK });
    }

    /// Returns 64 random bits from the channel's seed (the generator splitmix64).
    fn random(&mut self) -> u64 {
        self.random = self.random.wrapping_add(0x9e37_79b9_7f4a_7c15);
        link::mix(self.random)
    }
}

fn salt(config: &Config) -> u64 {
    link::mix(config.seed ^ 0x6d75_6c74_6970)
}
