//! One fabric on several ranks: the round of messages at the end of each window of simulated time, and the collection
//! of counters on rank 0 at the end of a run.
//!
//! Every rank has all partitions of the plan, but those of other ranks are empty: a frame for such a partition reaches
//! its mailbox, as between the partitions of one process, and leaves from there for the other rank. In a round, each
//! rank tells all others the time of its next event, what its hosts have to tell, and how many bytes of frames it has
//! for each of them; then the ranks exchange the frames. So every rank knows the time of the earliest event of the
//! whole fabric, and all of them simulate the same windows.

use super::Fabric;
use crate::hosts::{HostPartition, PartitionedHosts};
use crate::ids::PortId;
use crate::packet::Body;
use crate::port::PriorityCounters;
use crate::ranks::{RankCosts, RankError, RankGroup};
use crate::stage::{ProbeResult, Stage};
use rnic_transport::Time;
use rnic_transport::codec::{Reader, put_u32, put_u64};
use std::collections::BTreeMap;
use std::time::{Duration, Instant};

/// What a fabric knows about the other ranks.
pub(super) struct RankState {
    pub(super) group: RankGroup,
    /// Time of the earliest event of any rank, in picoseconds.
    pub(super) next: u64,
    /// Frames that all ranks have transmitted until the latest round.
    pub(super) hops: u64,
    /// Buffers of a round.
    block: Vec<u8>,
    all: Vec<Vec<u8>>,
    outgoing: Vec<Vec<u8>>,
    incoming: Vec<Vec<u8>>,
    windows: u64,
    frame_bytes: u64,
    work: Duration,
    began: Option<Instant>,
    wall: Duration,
    round_s: f64,
    /// On rank 0 at the end of a run: the state of all ranks.
    pub(super) collected: Option<Collected>,
}

/// What rank 0 has collected from all ranks.
#[derive(Default)]
pub(super) struct Collected {
    /// Per port: time for which it was transmitting, in picoseconds.
    pub(super) busy: Vec<u64>,
    pub(super) in_flight: u64,
    pub(super) copies: i64,
    pub(super) probe_packets: (u64, u64),
    pub(super) probe_results: Vec<ProbeResult>,
    pub(super) any_paused: bool,
    /// The ports that are paused, pause their peer, or were paused before.
    pub(super) pauses: BTreeMap<PortId, PausedPort>,
    /// Bytes in switches that arrived on an input in a priority, and of these the bytes for an output.
    pub(super) occupancy: BTreeMap<(PortId, u8), u64>,
    pub(super) held: BTreeMap<(PortId, PortId, u8), u64>,
}

/// State of a port's pauses.
#[derive(Clone, Default)]
pub(super) struct PausedPort {
    pub(super) paused: u8,
    pub(super) wanted: u8,
    /// Per priority: time of the latest pause, and of the latest resume, in picoseconds; 0 if never.
    pub(super) since: Vec<(u64, u64)>,
}

#[expect(clippy::disallowed_methods, reason = "the cost of ranks is measured here, and in no result of a run")]
fn clock() -> Instant {
    Instant::now()
}

impl<B: Body> Fabric<B> {
    /// Makes this fabric the part of rank `group.rank()` in a fabric that the ranks of `group` simulate together. The
    /// plan of the fabric must be that of the rank ([`PartitionPlan::on_rank`](crate::PartitionPlan::on_rank)). Must be
    /// called before the run begins.
    ///
    /// # Errors
    /// Packets of this type cannot go from one rank to another, or a rank cannot be reached.
    pub fn join(&mut self, group: RankGroup) -> Result<(), RankError> {
        if !B::CROSSES_RANKS && group.size() > 1 {
            return Err(RankError("the packets of this transport cannot go from one rank to another".to_string()));
        }
        let round_s = group.measure_round()?;
        let outgoing = vec![Vec::new(); group.size()];
        self.ranks = Some(Box::new(RankState {
            group,
            next: u64::MAX,
            hops: 0,
            block: Vec::new(),
            all: Vec::new(),
            outgoing,
            incoming: Vec::new(),
            windows: 0,
            frame_bytes: 0,
            work: Duration::ZERO,
            began: None,
            wall: Duration::ZERO,
            round_s,
            collected: None,
        }));
        Ok(())
    }

    /// The ranks that simulate this fabric; `None` for a fabric of one process.
    pub fn ranks(&self) -> Option<&RankGroup> {
        self.ranks.as_ref().map(|ranks| &ranks.group)
    }

    /// What this rank has spent so far.
    pub fn rank_costs(&self) -> Option<RankCosts> {
        let ranks = self.ranks.as_ref()?;
        let (rounds, spent) = ranks.group.spent();
        Some(RankCosts {
            windows: ranks.windows,
            rounds,
            frame_bytes: ranks.frame_bytes,
            work_s: ranks.work.as_secs_f64(),
            rounds_s: spent.as_secs_f64(),
            wall_s: ranks.wall.as_secs_f64(),
            round_s: ranks.round_s,
        })
    }

    /// Whether this fabric has lost another rank, so that the run cannot go on.
    pub(super) fn has_lost_a_rank(&self) -> bool {
        self.ranks.as_ref().is_some_and(|ranks| ranks.group.error().is_some())
    }

    /// Notes that the simulation of a window begins; `None` without ranks.
    pub(super) fn begin_work(&mut self) -> Option<Instant> {
        self.ranks.as_mut().map(|ranks| {
            let now = clock();
            ranks.began.get_or_insert(now);
            now
        })
    }

    /// Meets the other ranks after this rank has simulated its partitions from `began` on. `closes` says whether the
    /// window has ended; if not, it continues after an observation.
    pub(super) fn meet<E: PartitionedHosts>(&mut self, hosts: &mut E, began: Option<Instant>, closes: bool)
    where
        E::Partition: HostPartition<Body = B>,
    {
        let Some(ranks) = &mut self.ranks else { return };
        if let Some(began) = began {
            let now = clock();
            ranks.work += now - began;
            ranks.windows += u64::from(closes);
        }
        // The group remembers an error, and the engine asks for it.
        let _ = self.round(closes.then_some(hosts));
        if let Some(RankState { began: Some(began), wall, .. }) = self.ranks.as_deref_mut() {
            *wall = clock() - *began;
        }
    }

    /// One round: agrees on the time of the earliest event and exchanges frames. With `hosts`, their messages are
    /// exchanged too.
    fn round<E: PartitionedHosts>(&mut self, mut hosts: Option<&mut E>) -> Result<(), RankError>
    where
        E::Partition: HostPartition<Body = B>,
    {
        let Some(mut ranks) = self.ranks.take() else { return Ok(()) };
        let result = self.round_of(&mut ranks, &mut hosts);
        self.ranks = Some(ranks);
        result
    }

    fn round_of<E: PartitionedHosts>(
        &mut self, ranks: &mut RankState, hosts: &mut Option<&mut E>,
    ) -> Result<(), RankError>
    where
        E::Partition: HostPartition<Body = B>,
    {
        let RankState { group, next, hops, block, all, outgoing, incoming, frame_bytes, .. } = ranks;
        let (size, own) = (group.size(), group.rank());
        *next = self.write_frames(size, outgoing);
        block.clear();
        put_u64(block, *next);
        put_u64(block, self.partitions.iter().map(|partition| partition.links.hops).sum());
        for message in outgoing.iter() {
            put_u32(block, u32::try_from(message.len()).map_err(|_| group.fail("4 GiB of frames in a window"))?);
            *frame_bytes += message.len() as u64;
        }
        if let Some(hosts) = hosts {
            hosts.tell(block);
        }
        group.gather(block, all)?;
        let mut lengths = vec![0; size];
        (*next, *hops) = (u64::MAX, 0);
        for (rank, message) in all.iter().enumerate() {
            let mut message = Reader::new(message);
            let mut head = || {
                let (next, hops) = (message.u64()?, message.u64()?);
                let lengths: Option<Vec<u32>> = (0..size).map(|_| message.u32()).collect();
                Some((next, hops, *lengths?.get(own)? as usize))
            };
            let (its_next, its_hops, length) = head().ok_or_else(|| group.fail("the head of a round"))?;
            (*next, *hops, lengths[rank]) = ((*next).min(its_next), *hops + its_hops, length);
            if let Some(hosts) = hosts
                && !hosts.hear(rank, message.rest())
            {
                return Err(group.fail("the notes of hosts"));
            }
        }
        // Ranks without a common link have nothing for each other, and ranks without frames do not wait.
        group.exchange(outgoing, &lengths, incoming)?;
        for message in incoming.iter() {
            self.read_frames(message).ok_or_else(|| group.fail("frames"))?;
        }
        Ok(())
    }

    /// Moves the frames for other ranks into one message for each; returns the time of the earliest event of this rank
    /// or of a frame that it sends.
    fn write_frames(&mut self, size: usize, outgoing: &mut [Vec<u8>]) -> u64 {
        outgoing.iter_mut().for_each(Vec::clear);
        let mut next = u64::MAX;
        for (number, partition) in self.partitions.iter_mut().enumerate() {
            if self.plan.is_here(number as u32) {
                next = next.min(partition.next);
                continue;
            }
            partition.next = u64::MAX;
            let message = &mut outgoing[self.plan.rank_of(number, size)];
            for (from, mailbox) in (0..).zip(&mut partition.links.inbox) {
                if mailbox.first_at < u64::MAX {
                    put_u32(message, from);
                    put_u32(message, number as u32);
                    next = next.min(mailbox.write(message));
                }
            }
        }
        next
    }

    /// Puts the frames of another rank's message into the mailboxes of this rank's partitions.
    fn read_frames(&mut self, message: &[u8]) -> Option<()> {
        let mut message = Reader::new(message);
        while !message.is_empty() {
            let (from, to) = (message.u32()?, message.u32()?);
            let partition = self.partitions.get_mut(to as usize).filter(|_| self.plan.is_here(to))?;
            let (ports, priorities) = (partition.links.ports.len(), partition.links.priorities);
            let mailbox = partition.links.inbox.get_mut(from as usize)?;
            mailbox.read(&mut message, ports, priorities)?;
            partition.next = partition.next.min(mailbox.first_at);
        }
        Some(())
    }

    /// Collects the counters and the state of all ranks on rank 0, at the end of a run. Afterwards rank 0 can access
    /// the counters and pauses of all ports. Returns whether this is rank 0, or a fabric of one process.
    ///
    /// # Errors
    /// Another rank cannot be reached.
    pub fn collect(&mut self) -> Result<bool, RankError> {
        let Some(group) = self.ranks.as_ref().map(|ranks| ranks.group.clone()) else { return Ok(true) };
        let messages = group.collect(self.state())?;
        if !group.is_root() {
            return Ok(false);
        }
        let priorities = usize::from(self.priorities());
        for partition in 0..self.plan.partitions() as u32 {
            if !self.plan.is_here(partition) {
                let cells = self.plan.port_count(partition) * priorities;
                self.partitions[partition as usize].links.counters = vec![PriorityCounters::default(); cells];
            }
        }
        let mut collected = Collected { busy: vec![0; self.topology.ports.len()], ..Collected::default() };
        for message in messages {
            self.add_state(&mut Reader::new(&message), &mut collected).ok_or_else(|| group.fail("counters"))?;
        }
        collected.probe_results = super::faults::sorted(collected.probe_results);
        if let Some(ranks) = &mut self.ranks {
            ranks.collected = Some(collected);
        }
        Ok(true)
    }

    /// What [`Fabric::collect`] sends to rank 0.
    fn state(&self) -> Vec<u8> {
        let mut out = Vec::new();
        let own = |partition: &(usize, _)| self.plan.is_here(partition.0 as u32);
        let partitions = || self.partitions.iter().enumerate().filter(own).map(|(_, partition)| partition);
        put_u64(&mut out, partitions().map(|partition| partition.in_flight() as u64).sum());
        put_u64(&mut out, partitions().map(|partition| partition.copies()).sum::<i64>() as u64);
        let stages = || partitions().flat_map(|partition| partition.stages());
        put_u64(&mut out, stages().map(|stage| stage.probe_packets().0).sum());
        put_u64(&mut out, stages().map(|stage| stage.probe_packets().1).sum());
        let mut results = Vec::new();
        stages().for_each(|stage: &Stage<B>| stage.results(self.now(), &mut results));
        put_u32(&mut out, results.len() as u32);
        for ProbeResult { at, pair, rtt } in results {
            put_u64(&mut out, at.as_ps());
            put_u32(&mut out, pair);
            put_u64(&mut out, rtt.map_or(u64::MAX, Time::as_ps));
        }
        let here = |port: &PortId| self.plan.is_here(self.plan.port(*port).partition);
        for port in self.topology.port_ids().filter(here) {
            self.write_counters(port, &mut out);
        }
        put_u32(&mut out, u32::MAX);
        for port in self.topology.port_ids().filter(here) {
            self.write_pauses(port, &mut out);
        }
        put_u32(&mut out, u32::MAX);
        for port in self.topology.port_ids().filter(here) {
            self.write_occupancy(port, &mut out);
        }
        put_u32(&mut out, u32::MAX);
        out
    }

    /// Writes the counters of a port that has any.
    fn write_counters(&self, port: PortId, out: &mut Vec<u8>) {
        let counters = self.counters(port);
        if counters.iter().all(|counters| *counters == PriorityCounters::default()) {
            return;
        }
        put_u32(out, port.0);
        put_u64(out, self.busy(port).as_ps());
        for counters in counters {
            counters.write(out);
        }
    }

    fn write_pauses(&self, port: PortId, out: &mut Vec<u8>) {
        let priorities = usize::from(self.priorities());
        let resumed = |priority| self.resumed_at(port, priority).map_or(0, Time::as_ps);
        let since = |priority| self.paused_since(port, priority).as_ps();
        let (paused, wanted) = (self.paused(port), self.pauses_peer(port));
        if paused | wanted == 0 && (0..priorities).all(|priority| since(priority) == 0) {
            return;
        }
        put_u32(out, port.0);
        out.extend([paused, wanted]);
        for priority in 0..priorities {
            put_u64(out, since(priority));
            put_u64(out, resumed(priority));
        }
    }

    fn write_occupancy(&self, port: PortId, out: &mut Vec<u8>) {
        for priority in 0..self.priorities() {
            let occupancy = self.occupancy(port, usize::from(priority));
            if occupancy == 0 {
                continue;
            }
            put_u32(out, port.0);
            out.push(priority);
            put_u64(out, occupancy);
            let outputs = self.topology.ports_of(self.topology.port(port).node);
            let held = outputs.map(|output| (output, self.held(port, output, usize::from(priority))));
            for (output, bytes) in held.filter(|(_, bytes)| *bytes > 0) {
                put_u32(out, output.0);
                put_u64(out, bytes);
            }
            put_u32(out, u32::MAX);
        }
    }

    fn add_state(&mut self, message: &mut Reader<'_>, collected: &mut Collected) -> Option<()> {
        let (ports, priorities) = (self.topology.ports.len() as u32, self.priorities());
        let port = |message: &mut Reader<'_>| {
            let number = message.u32()?;
            (number < ports || number == u32::MAX).then_some((number != u32::MAX).then_some(PortId(number)))
        };
        collected.in_flight += message.u64()?;
        collected.copies += message.u64()? as i64;
        collected.probe_packets.0 += message.u64()?;
        collected.probe_packets.1 += message.u64()?;
        for _ in 0..message.u32()? {
            let (at, pair, rtt) = (Time::from_ps(message.u64()?), message.u32()?, message.u64()?);
            let rtt = (rtt < u64::MAX).then_some(Time::from_ps(rtt));
            collected.probe_results.push(ProbeResult { at, pair, rtt });
        }
        while let Some(port) = port(message)? {
            collected.busy[port.index()] = message.u64()?;
            let place = self.plan.port(port);
            let links = &mut self.partitions[place.partition as usize].links;
            let first = place.slot.index() * links.priorities;
            for counters in &mut links.counters[first..first + links.priorities] {
                *counters = PriorityCounters::read(message)?;
            }
        }
        while let Some(port) = port(message)? {
            let (paused, wanted) = (message.u8()?, message.u8()?);
            collected.any_paused |= paused != 0;
            let since: Option<Vec<_>> = (0..priorities).map(|_| Some((message.u64()?, message.u64()?))).collect();
            collected.pauses.insert(port, PausedPort { paused, wanted, since: since? });
        }
        while let Some(input) = port(message)? {
            let priority = message.u8()?;
            collected.occupancy.insert((input, priority), message.u64()?);
            while let Some(output) = port(message)? {
                collected.held.insert((input, output, priority), message.u64()?);
            }
        }
        message.is_empty().then_some(())
    }

    /// The state of all ranks, on rank 0 at the end of a run.
    pub(super) fn collected(&self) -> Option<&Collected> {
        self.ranks.as_ref()?.collected.as_ref()
    }
}

impl PriorityCounters {
    /// All counters, for messages between ranks.
    fn fields_mut(&mut self) -> [&mut u64; 12] {
        let PriorityCounters {
            tx_packets,
            tx_bytes,
            drops,
            control_drops,
            lost,
            marked,
            pause_sent,
            pause_received,
            paused_ps,
            queue_high_water,
            trimmed,
            returned,
        } = self;
        [
            tx_packets,
            tx_bytes,
            drops,
            control_drops,
            lost,
            marked,
            pause_sent,
            pause_received,
            paused_ps,
            queue_high_water,
            trimmed,
            returned,
        ]
    }

    fn write(mut self, out: &mut Vec<u8>) {
        self.fields_mut().into_iter().for_each(|field| put_u64(out, *field));
    }

    /// The counters that [`PriorityCounters::write`] has written; `None` if the message is damaged.
    fn read(message: &mut Reader<'_>) -> Option<PriorityCounters> {
        let mut counters = PriorityCounters::default();
        counters.fields_mut().into_iter().try_for_each(|field| {
            *field = message.u64()?;
            Some(())
        })?;
        Some(counters)
    }
}

/// State of a port's pauses that only rank 0 can have, at the end of a run.
impl Collected {
    pub(super) fn pause(&self, port: PortId) -> PausedPort {
        self.pauses.get(&port).cloned().unwrap_or_default()
    }
    pub(super) fn pause_times(&self, port: PortId, priority: usize) -> (u64, u64) {
        self.pauses.get(&port).and_then(|port| port.since.get(priority)).copied().unwrap_or_default()
    }
}
