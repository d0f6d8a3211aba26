//! RoGUE: congestion control by completion times, and loss recovery by a shadow queue pair.

mod ack;
mod config;
mod counted;
mod pacing;
mod post;
mod queue;
mod recovery;
mod replay;
mod sync;

pub use config::{Address, Config, Counters};
pub use replay::{PartKind, Verdict, verdicts};

use crate::chunk::{Frames, Local, Sges};
use crate::control::Allowance;
use crate::error::{Failure, HostError};
use crate::link::{self, Link};
use crate::mailbox::Mailbox;
use crate::objects::Objects;
use counted::{Counted, PARTS};
use pacing::Pacing;
use queue::Queue;
use recovery::{Phase, Recovery};
use rnic_transport::Time;
use rnic_verbs::{
    Capacities, Completion, CqId, Opcode, Pd, QpInit, Qpn, RecvRequest, SendOp, SendRequest, Service, Status, Verbs,
    VerbsError,
};
use std::collections::VecDeque;

/// Number of receives of the control queue pair; over UC this queue pair also carries the acknowledgements.
const MAILBOX: u32 = 16;
const COUNTED_MAILBOX: u32 = 64;
/// Set in the work request ids of receives.
const RECEIVE: u64 = 1 << 63;

/// A receive that the application posted and that no message has completed.
#[derive(Debug)]
struct Receive {
    wr_id: u64,
    scatter: Sges,
}

/// What connects a channel to its peer.
#[derive(Clone, Copy, Debug)]
struct Peer {
    link: Link,
    address: Address,
}

/// A RoGUE channel to one peer: reliable, in order, with the operations of a reliable connection; over UC, only Writes
/// and Writes with Immediate are supported.
///
/// The application posts requests and receives as to a queue pair, and polls their completions. It calls
/// [`Channel::progress`] whenever completions may have arrived, and at [`Channel::next_time`]. The NIC is an argument
/// of every function, so many channels can use one NIC.
///
/// A request that succeeds was executed exactly once. Only Writes and Reads may be executed repeatedly, which has no
/// visible effect as long as the rules of [`verdicts`] hold. Completions come in the order of posting.
///
/// ```
/// use rnic_host::Link;
/// use rnic_host::rogue::{Channel, Config};
/// use rnic_transport::Time;
/// use rnic_verbs::*;
///
/// let mut nics = [1, 2].map(|seed| Device::new(DeviceConfig { seed, ..DeviceConfig::default() }));
/// let mut open = |side: usize| {
///     let pd = Verbs::create_pd(&mut nics[side])?;
///     let region = nics[side].register(pd, vec![0; 200_000], None, Access::ALL)?;
///     let config = Config { seed: side as u64, ..Config::default() };
///     Ok::<_, rnic_host::HostError>((Channel::open(&mut nics[side], pd, config)?, region))
/// };
/// let ((mut a, local), (mut b, remote)) = (open(0)?, open(1)?);
/// // The two sides tell each other their addresses, for instance over TCP.
/// let (of_a, of_b) = (a.address(), b.address());
/// a.connect(&mut nics[0], Link::new("10.0.0.2:4791".parse().unwrap(), 1_024), of_b, Time::ZERO)?;
/// b.connect(&mut nics[1], Link::new("10.0.0.1:4791".parse().unwrap(), 1_024), of_a, Time::ZERO)?;
///
/// // A Write of 200,000 bytes becomes four chunks.
/// let gather = [Sge { addr: local.addr, len: 200_000, lkey: local.lkey }];
/// let op = SendOp::Write { addr: remote.addr, rkey: remote.rkey };
/// a.post_send(&SendRequest { wr_id: 7, op, data: Data::Gather(&gather), flags: SendFlags::SIGNALED })?;
///
/// // The packets cross a link with a delay of 1 us.
/// let mut batch = Batch::new(16);
/// let mut now = Time::ZERO;
/// let mut completions = [Completion::BLANK; 4];
/// let found = loop {
///     a.progress(&mut nics[0], now)?;
///     for (from, to, source) in [(0, 1, "10.0.0.1:4791"), (1, 0, "10.0.0.2:4791")] {
///         now += Time::from_us(1);
///         nics[from].on_time(now);
///         while nics[from].transmit(now, &mut batch) {
///             for packet in batch.datagrams_mut() {
///                 let _ = nics[to].receive(now, source.parse().unwrap(), false, packet);
///             }
///         }
///     }
///     let found = a.poll(&mut completions);
///     if found > 0 {
///         break found;
///     }
/// };
/// let [first, ..] = completions;
/// assert_eq!((found, first.wr_id, first.status), (1, 7, Status::Success));
/// assert_eq!(a.counters().parts, 4);
/// # Ok::<(), rnic_host::HostError>(())
/// ```
pub struct Channel {
    config: Config,
    objects: Objects,
    cq: CqId,
    qpns: [Qpn; 2],
    mailbox: Mailbox<{ sync::LEN }>,
    peer: Option<Peer>,
    pacing: Option<Pacing>,
    phase: Phase,
    recovery: Recovery,
    /// Number of failed primaries so far. The primary is queue pair `epoch % 2`.
    epoch: u32,
    /// The epoch for which each queue pair is connected.
    connected: [u32; 2],
    queue: Queue,
    receives: VecDeque<Receive>,
    /// Number of the first receive in `receives`, and number of the first receive that is not posted to the primary.
    first_receive: u64,
    next_receive: u64,
    /// Number of messages received.
    received: u64,
    /// Number of the next part.
    next_part: u64,
    /// Bytes and number of parts since the last signalled one.
    unsignaled: (u64, u32),
    /// Over UC: which parts have arrived.
    counted: Option<Counted>,
    /// Whether a part of this epoch has failed.
    has_failed: bool,
    /// Recoveries since a part last completed.
    fruitless: u32,
    /// When congestion control allows the next read, if a read waits for this time.
    next_read: Option<Time>,
    done: VecDeque<Completion>,
    counters: Counters,
}

impl Channel {
    /// Creates the queue pairs of a channel. Memory of requests and receives must be registered in `pd`.
    ///
    /// # Errors
    /// If a setting is out of range, or a limit of the NIC is reached.
    pub fn open(nic: &mut dyn Verbs, pd: Pd, config: Config) -> Result<Channel, HostError> {
        config.check(&nic.query_device().limits)?;
        let is_counted = config.service == Service::Uc;
        let (receives, mailbox) = if is_counted { (PARTS, COUNTED_MAILBOX) } else { (config.receives, MAILBOX) };
        let capacities = Capacities {
            send_wr: config.send_wr,
            recv_wr: receives,
            send_sge: config.sges,
            recv_sge: config.sges,
            inline: config.inline,
        };
        let ((cq, qpns, mailbox), objects) = Objects::create(nic, |nic, objects| {
            let cq = objects.cq(nic, 2 * (config.send_wr + receives + mailbox))?;
            let (service, signal_all) = (config.service, false);
            let init = QpInit { service, send_cq: cq, recv_cq: cq, srq: None, capacities, signal_all };
            let qpns = [objects.qp(nic, pd, init.clone())?, objects.qp(nic, pd, init)?];
            Ok((cq, qpns, Mailbox::open(nic, objects, pd, cq, mailbox)?))
        })?;
        Ok(Channel {
            config,
            objects,
            cq,
            qpns,
            mailbox,
            peer: None,
            pacing: None,
            phase: Phase::Open,
            recovery: Recovery::default(),
            epoch: 0,
            connected: [0, 1],
            queue: Queue::default(),
            receives: VecDeque::new(),
            first_receive: 0,
            next_receive: 0,
            received: 0,
            next_part: 0,
            unsignaled: (0, 0),
            counted: is_counted.then(Counted::default),
            has_failed: false,
            fruitless: 0,
            next_read: None,
            done: VecDeque::new(),
            counters: Counters::default(),
        })
    }

    /// The address that the peer needs to connect.
    pub fn address(&self) -> Address {
        Address { qpns: self.qpns, control: self.mailbox.qpn, salt: link::mix(self.config.seed ^ 0x0072_6f67_7565) }
    }

    /// Connects the channel to the peer with this address, on the path `link`. Packets of the peer that arrive earlier
    /// are lost, and the peer's NIC retransmits them.
    ///
    /// # Errors
    /// If the channel is connected, or an attribute of the path or a setting of the congestion control is out of range.
    /// After an error of the NIC the channel can only be destroyed.
    pub fn connect(&mut self, nic: &mut dyn Verbs, link: Link, peer: Address, now: Time) -> Result<(), HostError> {
        if !matches!(self.phase, Phase::Open) {
            return Err(HostError::Unsupported("the channel is connected already"));
        }
        let frames = Frames { mtu: link.path_mtu, header: rnic_transport::headers::ROCE_DATA };
        if self.config.service == Service::Rc {
            self.config.check_timeout(frames)?;
        }
        self.pacing = Some(Pacing::new(&self.config, frames, nic.query_device().line_rate, now)?);
        self.peer = Some(Peer { link, address: peer });
        let (own, other) = (self.address().salt, peer.salt);
        let psns = (link::first_psn(own, u32::MAX), link::first_psn(other, u32::MAX));
        self.mailbox.connect(nic, &link, peer.control, psns.0, psns.1)?;
        for epoch in [0, 1] {
            if let Some(counted) = &mut self.counted {
                counted.meet(epoch as usize, link::first_psn(own, epoch), link::first_psn(other, epoch));
            }
            self.join(nic, epoch)?;
        }
        self.phase = Phase::Active;
        self.post_receives(nic)?;
        self.set_rate(nic, now)
    }

    /// Posts a request, which [`Channel::progress`] passes to the NIC. The fields are those of a queue pair's request.
    /// A request that is not signalled generates no completion unless it fails.
    ///
    /// The NIC checks the local memory only when it gets the request: a wrong key ends the channel with a failed
    /// completion.
    ///
    /// # Errors
    /// If the channel is not connected or has ended, its queue is full, or no NIC accepts the request.
    pub fn post_send(&mut self, request: &SendRequest<'_>) -> Result<(), HostError> {
        self.usable()?;
        if self.counted.is_some() && !matches!(request.op, SendOp::Write { .. } | SendOp::WriteImm { .. }) {
            return Err(HostError::Unsupported(
                "a RoGUE channel over UC has Write and Write with Immediate; other operations need RC or IRN",
            ));
        }
        if self.queue.len() >= self.config.requests as usize {
            return Err(HostError::Full { what: "queue of requests", limit: self.config.requests });
        }
        let (local, len) = Local::of(request, self.config.inline)?;
        if let Local::Gather(sges) = &local
            && sges.len() > self.config.sges as usize
        {
            let possible = format!("0 to {}", self.config.sges);
            return Err(HostError::range("the number of scatter-gather elements", sges.len() as u64, possible));
        }
        if let SendOp::FetchAdd { addr, .. } | SendOp::CompareSwap { addr, .. } = request.op
            && !addr.is_multiple_of(8)
        {
            return Err(HostError::range("the address", addr, "a multiple of 8"));
        }
        self.queue.push(request.wr_id, request.op, local, request.flags, len);
        Ok(())
    }

    /// Posts a receive. Messages of the peer complete receives in the order of posting. The completion of a Write with
    /// Immediate has length 0, because only its last chunk comes with the immediate data. Over UC no message uses the
    /// memory of a receive.
    ///
    /// # Errors
    /// If the channel has ended, too many receives are posted, or the NIC refuses the memory.
    pub fn post_recv(&mut self, nic: &mut dyn Verbs, request: &RecvRequest<'_>) -> Result<(), HostError> {
        if let Phase::Ended(why) = self.phase {
            return Err(HostError::Ended(why));
        }
        if self.receives.len() >= self.config.receives as usize {
            return Err(HostError::Full { what: "queue of receives", limit: self.config.receives });
        }
        self.receives.push_back(Receive { wr_id: request.wr_id, scatter: request.scatter.into() });
        if self.counted.is_some() {
            let now = nic.now();
            return if matches!(self.phase, Phase::Open) { Ok(()) } else { self.accept(nic, now, false) };
        }
        if matches!(self.phase, Phase::Open | Phase::Draining) {
            return Ok(());
        }
        self.post_receives(nic).inspect_err(|_| {
            self.receives.pop_back();
        })
    }

    /// Moves up to `out.len()` completions into `out`, oldest first, and returns their number.
    pub fn poll(&mut self, out: &mut [Completion]) -> usize {
        let count = out.len().min(self.done.len());
        for (to, from) in out.iter_mut().zip(self.done.drain(..count)) {
            *to = from;
        }
        count
    }

    /// Handles completions of the NIC, fires timers, and posts the requests that congestion control allows. `now` is
    /// the time of the NIC's clock.
    ///
    /// # Errors
    /// If the NIC fails. Failures of requests are completions, not errors.
    pub fn progress(&mut self, nic: &mut dyn Verbs, now: Time) -> Result<(), HostError> {
        if matches!(self.phase, Phase::Open) {
            return Ok(());
        }
        self.look(nic, now)?;
        self.probe(nic, now)?;
        self.recover(nic, now)?;
        if let Some(pacing) = &mut self.pacing {
            pacing.on_time(now);
        }
        if matches!(self.phase, Phase::Active) {
            self.set_rate(nic, now)?;
            self.pump(nic, now)?;
        }
        Ok(())
    }

    /// The time at which [`Channel::progress`] must be called next, even if no completion arrives; `None`: not before a
    /// completion.
    pub fn next_time(&self) -> Option<Time> {
        let timer = self.pacing.as_ref()?.next_timer();
        let read = self.next_read.filter(|_| matches!(self.phase, Phase::Active));
        [self.recovery_time(), timer, read, self.probe_time()].into_iter().flatten().min()
    }

    /// The reason for which the channel has ended; `None` if it has not.
    pub fn failure(&self) -> Option<Failure> {
        if let Phase::Ended(why) = self.phase { Some(why) } else { None }
    }

    /// Number of failed queue pairs so far from which the channel recovers or has recovered.
    pub fn epoch(&self) -> u32 {
        self.epoch
    }

    /// Window and rate that the congestion control allows; `None` before the channel is connected.
    pub fn allowance(&self) -> Option<Allowance> {
        self.pacing.as_ref().map(Pacing::allowance)
    }

    /// Smoothed round-trip time; `None` before the first measurement.
    pub fn rtt(&self) -> Option<Time> {
        self.pacing.as_ref().and_then(Pacing::smoothed)
    }

    /// Counts of the channel.
    pub fn counters(&self) -> Counters {
        self.counters
    }

    /// The queue pair that carries requests now.
    pub fn primary(&self) -> Qpn {
        self.qpns[self.epoch as usize % 2]
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
        match self.phase {
            Phase::Open => Err(HostError::NotConnected),
            Phase::Ended(why) => Err(HostError::Ended(why)),
            _ => Ok(()),
        }
    }

    fn set_rate(&mut self, nic: &mut dyn Verbs, now: Time) -> Result<(), HostError> {
        let primary = self.primary();
        if let Some(pacing) = &mut self.pacing
            && let Some(rate) = pacing.new_rate()
        {
            pacing.set_rate(now, nic.set_rate(primary, rate)?, self.queue.flight());
            self.counters.rate_changes += 1;
        }
        Ok(())
    }

    /// Posts the receives that the primary does not have yet.
    fn post_receives(&mut self, nic: &mut dyn Verbs) -> Result<(), HostError> {
        let primary = self.primary();
        if let Some(counted) = &mut self.counted {
            while counted.posted < PARTS {
                nic.post_recv(primary, &RecvRequest { wr_id: RECEIVE, scatter: &[] })?;
                counted.posted += 1;
            }
            return Ok(());
        }
        while let Some(receive) = self.receives.get((self.next_receive - self.first_receive) as usize) {
            let request = RecvRequest { wr_id: RECEIVE | self.next_receive, scatter: &receive.scatter };
            match nic.post_recv(primary, &request) {
                Ok(()) => self.next_receive += 1,
                // Messages in progress hold receives of the queue pair; the rest follow later.
                Err(VerbsError::Full(_)) => break,
                Err(why) => return Err(why.into()),
            }
        }
        Ok(())
    }

    /// Completes the requests at the front of the queue whose parts are all done.
    fn complete(&mut self, time: Time) {
        while let Some(request) = self.queue.complete() {
            if request.flags.signaled {
                let byte_len = if request.op.is_fetching() { request.len as u32 } else { 0 };
                self.finish(request.wr_id, Status::Success, request.op.completion(), byte_len, None, None, time);
            }
        }
    }

    #[expect(clippy::too_many_arguments, reason = "the fields of a completion")]
    fn finish(
        &mut self, wr_id: u64, status: Status, opcode: Opcode, byte_len: u32, imm: Option<u32>,
        invalidated: Option<u32>, time: Time,
    ) {
        let qpn = self.primary();
        let done = Completion { wr_id, status, opcode, byte_len, imm, invalidated, qpn, time, ..Completion::BLANK };
        self.done.push_back(done);
    }
}
