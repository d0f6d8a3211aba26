//! The state of flows as fluids: how much of each is left, and when it ends.

use super::shares::Hop;
use rnic_fabric::HostId;
use rnic_workload::Loops;
use std::cmp::Reverse;
use std::collections::BinaryHeap;

/// A flow under way.
#[derive(Clone, Debug)]
pub(super) struct Fluid {
    /// Bytes on a link, frame gaps included: of the whole flow, left to send, and left to count on the links.
    pub(super) work: f64,
    pub(super) left: f64,
    pub(super) uncounted: f64,
    /// Bytes per picosecond since `since`.
    pub(super) rate: f64,
    pub(super) since: u64,
    /// Time from the end of sending until the last byte has arrived, in picoseconds.
    pub(super) latency: u64,
    /// Number of data packets, and of ACKs.
    pub(super) packets: u64,
    pub(super) acks: u64,
    /// Hashes of the data packets and of the ACKs.
    pub(super) hashes: (u32, u32),
    /// The ends of the flow.
    pub(super) ends: (HostId, HostId),
    /// Maximum rate in bytes per picosecond.
    pub(super) limit: f64,
    /// The stream that carries the flow; [`Loops::NONE`] if it has a connection of its own.
    pub(super) stream: u32,
    /// The earliest time in picoseconds for which the agenda has this flow.
    pub(super) queued: u64,
    pub(super) state: State,
}

/// How far a flow is.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub(super) enum State {
    /// No flow has this number.
    #[default]
    Free,
    /// The flow waits for an earlier flow of its stream.
    Waiting,
    /// Bytes are left to send.
    Sending,
    /// The last bytes are on their way.
    Arriving,
}

impl Fluid {
    /// A flow of `work` bytes on a link that starts at `now`.
    pub(super) fn new(work: f64, now: u64) -> Fluid {
        Fluid { work, left: work, uncounted: work, since: now, queued: u64::MAX, ..Fluid::free() }
    }

    /// The entry of a number that no flow has.
    fn free() -> Fluid {
        Fluid {
            work: 0.0,
            left: 0.0,
            uncounted: 0.0,
            rate: 0.0,
            since: 0,
            latency: 0,
            packets: 0,
            acks: 0,
            hashes: (0, 0),
            ends: (HostId(0), HostId(0)),
            limit: f64::INFINITY,
            stream: Loops::NONE,
            queued: 0,
            state: State::Free,
        }
    }

    /// Bytes left to send at `now`.
    pub(super) fn left_at(&self, now: u64) -> f64 {
        (self.left - self.rate * now.saturating_sub(self.since) as f64).max(0.0)
    }

    /// The time at which nothing is left to send; `u64::MAX` at rate 0.
    fn end(&self) -> u64 {
        match self.rate > 0.0 {
            true => self.since.saturating_add(span(self.left, self.rate)),
            false => u64::MAX,
        }
    }

    /// The part of the flow that has been sent and not yet been counted on the links, from 0 to 1.
    pub(super) fn take_uncounted(&mut self, left: f64) -> f64 {
        let part = (self.uncounted - left).max(0.0) / self.work;
        self.uncounted = left;
        part
    }
}

/// Time in picoseconds in which a flow sends `bytes` at `rate` bytes per picosecond.
pub(super) fn span(bytes: f64, rate: f64) -> u64 {
    (bytes / rate).round() as u64
}

/// All flows under way, and when each of them ends.
#[derive(Debug, Default)]
pub(super) struct Flows {
    pub(super) all: Vec<Fluid>,
    free: Vec<u32>,
    /// Number of flows under way.
    pub(super) open: usize,
    /// (Time, flow): the flow may have sent everything at this time.
    ends: BinaryHeap<Reverse<(u64, u32)>>,
    /// (Time, flow): the last byte of the flow arrives at this time.
    arrivals: BinaryHeap<Reverse<(u64, u32)>>,
}

impl Flows {
    /// Adds a flow, and returns its number, which is free again after [`Flows::remove`].
    pub(super) fn add(&mut self, flow: Fluid) -> u32 {
        self.open += 1;
        match self.free.pop() {
            Some(number) => {
                self.all[number as usize] = flow;
                number
            }
            None => {
                self.all.push(flow);
                self.all.len() as u32 - 1
            }
        }
    }

    /// Removes a flow.
    pub(super) fn remove(&mut self, number: u32) {
        self.open -= 1;
        self.all[number as usize] = Fluid::free();
        self.free.push(number);
    }

    /// Gives a flow another rate from `now` on.
    pub(super) fn set_rate(&mut self, number: u32, rate: f64, now: u64) {
        let flow = &mut self.all[number as usize];
        flow.left = flow.left_at(now);
        (flow.rate, flow.since) = (rate, now);
        let end = flow.end();
        // A later end needs no entry: the earlier one leads to it.
        if end < flow.queued {
            flow.queued = end;
            self.ends.push(Reverse((end, number)));
        }
        if self.ends.len() > 64 + 4 * self.open {
            self.forget_old_ends();
        }
    }

    /// Removes entries that belong to no flow any more, or to an earlier end.
    fn forget_old_ends(&mut self) {
        let Flows { all, ends, .. } = self;
        ends.retain(|Reverse((end, number))| {
            let flow = &all[*number as usize];
            flow.state == State::Sending && flow.queued == *end
        });
    }

    /// Time of the next end or arrival; `u64::MAX` if there is none.
    pub(super) fn next(&mut self) -> u64 {
        while let Some(Reverse((time, number))) = self.ends.peek().copied() {
            let flow = &mut self.all[number as usize];
            if flow.state != State::Sending || flow.queued != time {
                self.ends.pop();
                continue;
            }
            let end = flow.end();
            if end <= time {
                break;
            }
            self.ends.pop();
            flow.queued = end;
            if end < u64::MAX {
                self.ends.push(Reverse((end, number)));
            }
        }
        let first = |heap: &BinaryHeap<Reverse<(u64, u32)>>| heap.peek().map_or(u64::MAX, |Reverse((time, _))| *time);
        first(&self.ends).min(first(&self.arrivals))
    }

    /// Takes a flow that has sent everything by `now`; its last bytes arrive after its latency.
    pub(super) fn take_end(&mut self, now: u64) -> Option<u32> {
        while let Some(Reverse((time, number))) = self.ends.peek().copied().filter(|Reverse((time, _))| *time <= now) {
            self.ends.pop();
            let flow = &mut self.all[number as usize];
            if flow.state != State::Sending || flow.queued != time {
                continue;
            }
            let end = flow.end();
            if end > now {
                flow.queued = end;
                if end < u64::MAX {
                    self.ends.push(Reverse((end, number)));
                }
                continue;
            }
            (flow.left, flow.rate, flow.since, flow.state) = (0.0, 0.0, now, State::Arriving);
            self.arrivals.push(Reverse((now.saturating_add(flow.latency), number)));
            return Some(number);
        }
        None
    }

    /// Takes a flow whose last byte has arrived by `now`.
    pub(super) fn take_arrival(&mut self, now: u64) -> Option<u32> {
        self.arrivals.peek().filter(|Reverse((time, _))| *time <= now)?;
        self.arrivals.pop().map(|Reverse((_, number))| number)
    }

    /// The numbers of the flows that send.
    pub(super) fn sending(&self) -> impl Iterator<Item = u32> + use<> {
        let numbers = (0..).zip(&self.all).filter(|(_, flow)| flow.state == State::Sending);
        numbers.map(|(number, _)| number).collect::<Vec<u32>>().into_iter()
    }
}

/// What links have carried.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Carried {
    /// Packets, and their bytes with frame gaps.
    pub(super) packets: f64,
    pub(super) bytes: f64,
    /// Sending time in picoseconds.
    pub(super) busy: f64,
}

/// What all links have carried, with their current rates in bytes per picosecond.
#[derive(Debug, Default)]
pub(super) struct Counters {
    pub(super) links: Vec<Carried>,
    pub(super) rates: Vec<f64>,
}

impl Counters {
    /// Counts a part of a flow on its way: `packets` of `bytes` bytes; a hop's share is that of `scale`.
    pub(super) fn count(&mut self, way: &[Hop], packets: f64, bytes: f64, scale: f64) {
        for hop in way {
            let (link, share) = (hop.link as usize, hop.share / scale);
            let carried = &mut self.links[link];
            carried.packets += packets * share;
            carried.bytes += bytes * share;
            if self.rates[link] > 0.0 {
                carried.busy += bytes * share / self.rates[link];
            }
        }
    }
}
