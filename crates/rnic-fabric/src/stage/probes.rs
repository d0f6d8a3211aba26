//! Probes of the network in the manner of an RDMA Pingmesh: a host sends a packet to another host, which responds at
//! once with a packet of the same length, and the host measures the round-trip time.

use crate::ids::HostId;
use crate::packet::{Body, Packet};
use rnic_transport::Time;
use std::cmp::Reverse;
use std::collections::{BTreeMap, BinaryHeap, VecDeque};
use std::sync::Arc;

/// The probes from one host to another.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct ProbeSpec {
    /// The host that sends the probes.
    pub src: HostId,
    /// The host that responds.
    pub dst: HostId,
    /// Frame length of probes and responses, in bytes.
    pub bytes: u16,
    /// Priority of probes and responses.
    pub priority: u8,
    /// Simulated time of the first probe.
    pub start: Time,
    /// Time between two probes, more than zero.
    pub interval: Time,
    /// Time, more than zero, after which the prober sends a probe without a response again; it doubles with each
    /// transmission. `None`: no probe is retransmitted.
    pub resend: Option<Time>,
}

/// The result of one probe.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug)]
pub struct ProbeResult {
    /// Simulated time at which the prober posted the probe.
    pub at: Time,
    /// Index of the probe's [`ProbeSpec`].
    pub pair: u32,
    /// Time from `at` to the arrival of the response; `None` if no response has arrived.
    pub rtt: Option<Time>,
}

/// The probes of one host.
pub(super) struct Prober<B> {
    all: Arc<[ProbeSpec]>,
    /// The next probe of each pair: time, and id. The id is the pair's index plus a multiple of the number of pairs.
    due: BinaryHeap<Reverse<(u64, u32)>>,
    /// Posted probes without a response, by id.
    waiting: BTreeMap<u32, u64>,
    /// Time at which a probe that then still has no response is retransmitted, its id, and how often it was sent.
    resends: BinaryHeap<Reverse<(u64, u32, u32)>>,
    /// Probes and responses that wait for the transmitter.
    queue: VecDeque<Packet<B>>,
    done: Vec<ProbeResult>,
    /// Packets sent and received.
    pub(super) sent: u64,
    pub(super) received: u64,
}

impl<B: Body> Prober<B> {
    pub(super) fn new(all: Arc<[ProbeSpec]>, own: &[u32]) -> Prober<B> {
        let due = own.iter().map(|pair| Reverse((all[*pair as usize].start.as_ps(), *pair))).collect();
        Prober {
            all,
            due,
            waiting: BTreeMap::new(),
            resends: BinaryHeap::new(),
            queue: VecDeque::new(),
            done: Vec::new(),
            sent: 0,
            received: 0,
        }
    }

    pub(super) fn next(&self) -> u64 {
        let resend = self.resends.peek().map_or(u64::MAX, |Reverse((at, _, _))| *at);
        resend.min(self.next_due())
    }

    fn next_due(&self) -> u64 {
        self.due.peek().map_or(u64::MAX, |Reverse((at, _))| *at)
    }

    fn pair(&self, id: u32) -> (u32, &ProbeSpec) {
        let pair = id % self.all.len() as u32;
        (pair, &self.all[pair as usize])
    }

    /// Posts the probes that are due at `now`, first those that are retransmitted.
    pub(super) fn post(&mut self, now: u64) {
        while let Some(Reverse((at, id, times))) = self.resends.peek().copied()
            && at <= now
        {
            self.resends.pop();
            if self.waiting.contains_key(&id) {
                self.send(id, at, times);
            }
        }
        while self.next_due() <= now
            && let Some(Reverse((at, id))) = self.due.pop()
        {
            let (_, spec) = self.pair(id);
            let next = at.saturating_add(spec.interval.as_ps());
            self.waiting.insert(id, at);
            self.send(id, at, 0);
            // A pair stops when its ids are used up.
            if let Some(id) = id.checked_add(self.all.len() as u32) {
                self.due.push(Reverse((next, id)));
            }
        }
    }

    /// Queues the probe `id`, which was sent `times` times before, at the time `at`.
    fn send(&mut self, id: u32, at: u64, times: u32) {
        let spec = *self.pair(id).1;
        self.queue.push_back(Prober::packet(&spec, spec.dst, id, Packet::<B>::PROBE));
        if let Some(resend) = spec.resend {
            let wait = resend.as_ps().saturating_mul(1 << times.min(32));
            self.resends.push(Reverse((at.saturating_add(wait), id, times + 1)));
        }
    }

    fn packet(spec: &ProbeSpec, dst: HostId, id: u32, flags: u8) -> Packet<B> {
        let flags = flags | Packet::<B>::CONTROL;
        Packet { dst, flow_hash: id, bytes: spec.bytes, priority: spec.priority, flags, body: B::default() }
    }

    pub(super) fn can_send(&self, paused: u8) -> bool {
        self.queue.iter().any(|packet| paused & (1 << packet.priority) == 0)
    }

    /// The next packet to send, if the switch does not pause its priority.
    pub(super) fn transmit(&mut self, paused: u8) -> Option<Packet<B>> {
        let index = self.queue.iter().position(|packet| paused & (1 << packet.priority) == 0)?;
        self.sent += 1;
        self.queue.remove(index)
    }

    pub(super) fn receive(&mut self, now: u64, packet: &Packet<B>) {
        self.received += 1;
        let id = packet.flow_hash;
        let (pair, spec) = self.pair(id);
        let spec = *spec;
        if packet.flags & Packet::<B>::RESPONSE == 0 {
            self.queue.push_back(Prober::packet(&spec, spec.src, id, Packet::<B>::PROBE | Packet::<B>::RESPONSE));
        } else if let Some(at) = self.waiting.remove(&id) {
            let rtt = Some(Time::from_ps(now - at));
            self.done.push(ProbeResult { at: Time::from_ps(at), pair, rtt });
        }
    }

    /// Appends the results of the probes that were posted before `end`.
    pub(super) fn results(&self, end: Time, results: &mut Vec<ProbeResult>) {
        results.extend(&self.done);
        let open = self.waiting.iter().map(|(id, at)| (Time::from_ps(*at), self.pair(*id).0));
        results.extend(open.filter(|(at, _)| *at < end).map(|(at, pair)| ProbeResult { at, pair, rtt: None }));
    }
}
