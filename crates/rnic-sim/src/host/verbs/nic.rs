//! The host of a run with a transport in host software: an RDMA NIC, which is the device of `rnic-verbs` over memory
//! without bytes, and the channels of `rnic-host` above it.

use super::VerbsNics;
use super::channel::HostChannel;
use super::packet::{Segment, address, host_of};
use super::view::{Arrived, NicTiming, Posted, Spent, View};
use crate::host::config::DATA_PRIORITY;
use crate::host::ids::EndSlot;
use crate::host::partition::{Host, NicPartition, Notice, Start};
use rnic_fabric::rng::{Purpose, mix};
use rnic_fabric::{HostId, HostPartition, MIN_FRAME, Packet, SlotId};
use rnic_host::{HostError, multipath};
use rnic_transport::Time;
use rnic_verbs::{
    Access, Batch, Completion, Counters, Data, Device, DeviceConfig, MrInfo, Opcode, Pd, Qpn, SendFlags, SendOp,
    SendRequest, Sge, Status,
};
use rnic_wire::Operation;
use std::cmp::Reverse;
use std::collections::{BTreeMap, BinaryHeap, VecDeque};

/// Bytes of virtual memory for each message that a host receives, at least the longest possible flow.
const PER_MESSAGE: u64 = 1 << 40;
/// Number of messages for which the virtual memory of a host has room; then slots share it, which only affects samples.
const MESSAGES: u64 = 1 << 20;
/// Maximum bytes of one request; longer flows are several requests.
const MAX_REQUEST: u64 = 1 << 30;
/// Bit of the `wr_id` of a request that is not the last one of its flow.
const PIECE: u64 = 1 << 63;
/// Bit of the `wr_id` of the empty Write that asks for a completion of all messages before it.
const FLUSHES: u64 = 1 << 62;
/// Time without a new message after which the software asks for a completion of the messages that it has posted without
/// asking.
const FLUSH: Time = Time::from_us(20);
/// Shortest time between two steps of a channel's software that nothing but time causes.
const POLL: Time = Time::from_ns(100);

/// A run's settings of hosts with a transport in host software.
#[derive(Clone)]
pub(crate) struct VerbsShared<X: HostChannel> {
    pub(super) settings: X::Settings,
    pub(super) timing: NicTiming,
    /// Length of the headers and trailers of a data packet, in bytes.
    pub(super) header: u32,
    /// Length of a control packet of the NIC, in bytes.
    pub(super) ack: u32,
    /// Receives that a host keeps posted for each channel.
    pub(super) receives: u32,
    pub(super) mtu: u32,
    pub(super) seed: u64,
    /// Bytes of a chunk, for the count of retransmitted packets.
    pub(super) chunk: u32,
    /// Messages of up to this length have a channel of their own.
    pub(super) small: u64,
    /// Whether a flow is a Read of its receiver.
    pub(super) reads: bool,
    /// Bytes of messages for which a sender asks for one completion; 0: it asks for a completion of each message.
    pub(super) signal_every: u64,
    /// Whether NICs tell their software of trimmed packets.
    pub(super) trim: bool,
    /// The packet that the device of a host writes.
    pub(super) batch: Batch,
    /// The first error of a host: the run cannot continue.
    pub(super) error: Option<String>,
}

/// One end of a channel.
pub(super) struct ChannelEnd<X> {
    pub(super) channel: X,
    pub(super) arrived: Arrived,
    /// The peer's memory.
    pub(super) target: MrInfo,
    /// Messages that the channel has not taken, and messages that it has, both in order: their sending ends, or their
    /// receiving ends if a flow is a Read.
    waiting: VecDeque<EndSlot>,
    open: VecDeque<EndSlot>,
    /// Bytes that were posted after the last message of which the software wants a completion, and when the software
    /// asks for a completion of them; [`Time::MAX`] if there are none.
    unsignaled: u64,
    flush: Time,
    /// When the software takes its next step; [`Time::MAX`] for never.
    wake: Time,
    repeated: u64,
}

/// The NIC of one host, and the software above it.
pub(crate) struct HostNic<X: HostChannel> {
    pub(super) device: Device,
    pub(super) pd: Pd,
    pub(super) region: MrInfo,
    pub(super) ends: Vec<ChannelEnd<X>>,
    /// Channels by peer and whether they are for small messages, and by queue pair of this host.
    pub(super) by_peer: BTreeMap<(HostId, bool), u32>,
    by_qpn: BTreeMap<Qpn, u32>,
    /// Steps of channels; one is out of date if the channel has another `wake`.
    wakes: BinaryHeap<Reverse<(Time, u32)>>,
    pub(super) doorbells: VecDeque<Posted>,
    /// A packet that waits because PFC pauses its priority.
    held: Option<Packet<X::Segment>>,
    /// Credit for the peers, and when to grant it next.
    pub(super) grants: Option<multipath::Grants>,
    next_grant: Time,
    /// When each core that runs channels is free, and the CPU time that is not in the run's totals yet.
    cores: Vec<Time>,
    spent: Spent,
}

impl<X: HostChannel> HostNic<X> {
    /// The NIC of a host.
    ///
    /// # Errors
    /// The device refuses its memory.
    pub(super) fn new(config: DeviceConfig, cores: u32) -> Result<HostNic<X>, HostError> {
        let mut device = Device::new(config);
        let pd = device.create_pd();
        let region = device.register_virtual(pd, PER_MESSAGE * MESSAGES, None, Access::ALL)?;
        Ok(HostNic {
            device,
            pd,
            region,
            ends: Vec::new(),
            by_peer: BTreeMap::new(),
            by_qpn: BTreeMap::new(),
            wakes: BinaryHeap::new(),
            doorbells: VecDeque::new(),
            held: None,
            grants: None,
            next_grant: Time::MAX,
            cores: vec![Time::ZERO; cores.max(1) as usize],
            spent: Spent::default(),
        })
    }

    /// Opens an end of a channel to a peer, for small messages or for others; returns its number.
    pub(super) fn open(
        &mut self, shared: &VerbsShared<X>, own: HostId, peer: (HostId, bool),
    ) -> Result<u32, HostError> {
        let number = self.ends.len() as u32;
        let entity = [u64::from(own.0), u64::from(peer.0.0) | u64::from(peer.1) << 32];
        let seed = mix(shared.seed, Purpose::FlowHash, &entity);
        let mut arrived = Arrived::default();
        let now = self.device.now();
        let HostNic { device, doorbells, .. } = self;
        let (free, spent, timing, arrived_of) = (now, Spent::default(), &shared.timing, &mut arrived);
        let mut view = View { device, doorbells, arrived: arrived_of, timing, now, free, spent, has_waited: false };
        let channel = X::open(&mut view, self.pd, &shared.settings, seed)?;
        self.by_qpn.extend(arrived.qpns.iter().map(|qpn| (*qpn, number)));
        self.by_peer.insert(peer, number);
        let (waiting, open) = (VecDeque::new(), VecDeque::new());
        let target = self.region;
        let (unsignaled, flush, wake, repeated) = (0, Time::MAX, Time::MAX, 0);
        self.ends.push(ChannelEnd { channel, arrived, target, waiting, open, unsignaled, flush, wake, repeated });
        Ok(number)
    }

    /// Connects the end `number` with the end of `peer`, posts its receives, and lets its software begin at `now`.
    pub(super) fn connect(
        &mut self, shared: &VerbsShared<X>, number: u32, peer: HostId, target: MrInfo, theirs: &X::Address, now: Time,
    ) -> Result<(), HostError> {
        let region = self.region;
        self.ends[number as usize].target = target;
        self.with_channel(shared, number, now, |channel, view| {
            let link = rnic_host::Link::new(address(peer), shared.mtu);
            channel.connect(view, link, theirs, now)?;
            (0..shared.receives).try_for_each(|_| channel.post_recv(view, &region))
        })?;
        self.wake_at(number, now);
        Ok(())
    }

    /// Calls `act` with a channel and the NIC as the channel sees it.
    fn with_channel<R>(
        &mut self, shared: &VerbsShared<X>, number: u32, now: Time, act: impl FnOnce(&mut X, &mut View<'_>) -> R,
    ) -> R {
        let HostNic { device, doorbells, ends, cores, spent, .. } = self;
        let core = number as usize % cores.len();
        let ChannelEnd { channel, arrived, .. } = &mut ends[number as usize];
        let (timing, free) = (&shared.timing, cores[core].max(now));
        let mut view =
            View { device, doorbells, arrived, timing, now, free, spent: Spent::default(), has_waited: false };
        let result = act(channel, &mut view);
        cores[core] = free + view.spent.total();
        spent.send += view.spent.send;
        spent.receive += view.spent.receive;
        result
    }

    /// When the core of a channel is free.
    fn free(&self, number: u32) -> Time {
        self.cores[number as usize % self.cores.len()]
    }

    fn wake_at(&mut self, number: u32, at: Time) {
        let end = &mut self.ends[number as usize];
        if at < end.wake {
            end.wake = at;
            self.wakes.push(Reverse((at, number)));
        }
    }

    /// Takes new completions of a channel from the NIC, and lets its software see them later.
    fn fetch(&mut self, timing: &NicTiming, number: u32) {
        let end = &mut self.ends[number as usize];
        end.arrived.fetch(&mut self.device);
        if let Some(at) = end.arrived.next(timing) {
            self.wake_at(number, at);
        }
    }

    /// After the queue pair `qpn` had an event: takes new completions of its channel.
    #[inline]
    fn follow_up(&mut self, timing: &NicTiming, qpn: Qpn) {
        if self.device.take_news()
            && let Some(number) = self.by_qpn.get(&qpn).copied()
        {
            self.fetch(timing, number);
        }
    }

    /// After an event of several queue pairs: takes all new completions.
    fn follow_up_all(&mut self, timing: &NicTiming) {
        if self.device.take_news() {
            (0..self.ends.len() as u32).for_each(|number| self.fetch(timing, number));
        }
    }

    /// Counters of the device.
    pub(super) fn counters(&self) -> &Counters {
        self.device.counters()
    }

    fn next_wake(&self) -> Time {
        let software = self.wakes.peek().map_or(Time::MAX, |Reverse((at, _))| *at);
        let doorbell = self.doorbells.front().map_or(Time::MAX, |posted| posted.due);
        let device = self.device.next_timer().unwrap_or(Time::MAX);
        software.min(doorbell).min(device).min(self.next_grant)
    }
}

impl<X: HostChannel> Host<VerbsNics<X>> {
    /// Hands the next waiting messages to the channel `number`, as many as it takes.
    fn submit(&mut self, shared: &VerbsShared<X>, number: u32, now: Time) -> Result<(), HostError> {
        let region = self.nic.region;
        let end = &mut self.nic.ends[number as usize];
        while let Some(slot) = end.waiting.front().copied() {
            // Room in the memory of the host that receives the flow.
            let room = |slot: EndSlot| u64::from(slot.0) % MESSAGES * PER_MESSAGE;
            let (bytes, remote, local, imm) = match shared.reads {
                false => (
                    self.senders[slot].bytes,
                    room(self.senders[slot].receive_slot),
                    0,
                    self.senders[slot].receive_slot.0,
                ),
                true => (self.receivers[slot].bytes, 0, room(slot), 0),
            };
            end.unsignaled += bytes;
            let signaled = end.unsignaled >= shared.signal_every;
            let mut done = 0;
            while done < bytes {
                let len = (bytes - done).min(MAX_REQUEST);
                let is_last = done + len == bytes;
                let (addr, rkey) = (end.target.addr + remote + done, end.target.rkey);
                let op = match is_last {
                    _ if shared.reads => SendOp::Read { addr, rkey },
                    true => SendOp::WriteImm { addr, rkey, imm },
                    false => SendOp::Write { addr, rkey },
                };
                let sge = [Sge { addr: region.addr + local + done, len: len as u32, lkey: region.lkey }];
                let flags = if is_last && signaled { SendFlags::SIGNALED } else { SendFlags::default() };
                let wr_id = u64::from(slot.0) | if is_last { 0 } else { PIECE };
                let request = SendRequest { wr_id, op, data: Data::Gather(&sge), flags };
                end.channel.post_send(&request).inspect_err(|_| end.unsignaled -= bytes)?;
                done += len;
            }
            (end.unsignaled, end.flush) = if signaled { (0, Time::MAX) } else { (end.unsignaled, now + FLUSH) };
            end.waiting.pop_front();
            end.open.push_back(slot);
        }
        if end.flush <= now
            && let Some(slot) = end.open.back()
        {
            // Requests complete in order, so the completion of an empty Write is a completion of all messages.
            let op = SendOp::Write { addr: end.target.addr, rkey: end.target.rkey };
            let (wr_id, data) = (FLUSHES | u64::from(slot.0), Data::Inline(&[]));
            end.channel.post_send(&SendRequest { wr_id, op, data, flags: SendFlags::SIGNALED })?;
            (end.unsignaled, end.flush) = (0, Time::MAX);
        }
        Ok(())
    }
}

impl<X: HostChannel> NicPartition<VerbsNics<X>> {
    /// One step of the software of a channel: it posts waiting messages, handles completions, and decides when to look
    /// again.
    fn step(&mut self, index: SlotId, number: u32, now: Time) {
        let nic = &mut self.hosts[index.index()].nic;
        let free = nic.free(number);
        if free > now {
            nic.wake_at(number, free);
            return;
        }
        if let Err(why) = self.try_step(index, number, now) {
            let host = self.hosts[index.index()].id.0;
            self.shared.error.get_or_insert_with(|| format!("the software of host {host} failed: {why}"));
        }
    }

    fn try_step(&mut self, index: SlotId, number: u32, now: Time) -> Result<(), HostError> {
        let mut found = [Completion::BLANK; 16];
        let mut seen = 0;
        loop {
            let host = &mut self.hosts[index.index()];
            match host.submit(&self.shared, number, now) {
                // The channel takes the rest when requests have completed.
                Ok(()) | Err(HostError::Full { .. }) => {}
                Err(HostError::Ended(_)) => self.abort_all(index, number),
                Err(why) => return Err(why),
            }
            let host = &mut self.hosts[index.index()];
            host.nic.with_channel(&self.shared, number, now, |channel, view| channel.progress(view, now))?;
            let count = host.nic.ends[number as usize].channel.poll(&mut found);
            for completion in &found[..count] {
                self.completed(index, number, completion, now)?;
            }
            seen += count;
            if count == 0 {
                break;
            }
        }
        self.count_repeated(index, number);
        let timing = self.shared.timing;
        let nic = &mut self.hosts[index.index()].nic;
        // Posting to a failed queue pair may have flushed requests.
        nic.fetch(&timing, number);
        let end = &nic.ends[number as usize];
        let timer = end.channel.next_time().map(|at| at.max(now + POLL));
        let arrival = end.arrived.next(&timing).map(|at| at.max(now + POLL));
        let flush = (end.flush < Time::MAX).then(|| end.flush.max(now + POLL));
        for at in [timer, arrival, flush].into_iter().flatten() {
            nic.wake_at(number, at);
        }
        let Spent { send, receive } = std::mem::take(&mut nic.spent);
        self.totals.cpu_send += send.as_ps();
        self.totals.cpu_receive += receive.as_ps();
        if nic.grants.is_some() || seen > 0 {
            self.grant(index, now)?;
        }
        Ok(())
    }

    /// Handles a completion of a channel's own application.
    fn completed(&mut self, index: SlotId, number: u32, completion: &Completion, now: Time) -> Result<(), HostError> {
        let host = &mut self.hosts[index.index()];
        let success = completion.status == Status::Success;
        if matches!(completion.opcode, Opcode::Write | Opcode::Read) {
            if completion.wr_id & PIECE != 0 || completion.wr_id & FLUSHES != 0 && !success {
                return Ok(()); // its flow's last request fails too, and so do the messages before an empty Write
            }
            let slot = EndSlot(completion.wr_id as u32);
            let end = &mut host.nic.ends[number as usize];
            // Requests complete in the order of posting, and some without a completion of their own.
            while let Some(done) = end.open.pop_front() {
                if self.shared.reads {
                    let receiver = &mut host.receivers[done];
                    (receiver.done, receiver.delivered) = (success, if success { receiver.bytes } else { 0 });
                    let (flow, at) = (receiver.flow, now);
                    if success {
                        self.notices.push((host.id, Notice::Finished { flow, at }));
                    }
                    self.notices
                        .push((host.id, if success { Notice::Sent { flow } } else { Notice::Aborted { flow } }));
                } else {
                    let flow = host.senders[done].flow;
                    // A message without a completion of its own precedes the one that failed, and has succeeded.
                    let has_failed = !success && done == slot;
                    let notice = if has_failed { Notice::Aborted { flow } } else { Notice::Sent { flow } };
                    self.notices.push((host.id, notice));
                }
                if done == slot {
                    break;
                }
            }
            return Ok(());
        }
        let Some(slot) = completion.imm.filter(|_| success).map(EndSlot) else { return Ok(()) };
        if let Some(end) = host.receivers.get_mut(slot)
            && !end.done
        {
            (end.done, end.delivered) = (true, end.bytes);
            self.notices.push((host.id, Notice::Finished { flow: end.flow, at: now }));
        }
        let region = host.nic.region;
        host.nic.with_channel(&self.shared, number, now, |channel, view| channel.post_recv(view, &region))
    }

    /// Aborts the messages that a channel that has ended did not take.
    fn abort_all(&mut self, index: SlotId, number: u32) {
        let host = &mut self.hosts[index.index()];
        for slot in std::mem::take(&mut host.nic.ends[number as usize].waiting) {
            let flow = if self.shared.reads { host.receivers[slot].flow } else { host.senders[slot].flow };
            self.notices.push((host.id, Notice::Aborted { flow }));
        }
    }

    /// Counts what the software has retransmitted: for the oldest open message of the channel, and in packets.
    fn count_repeated(&mut self, index: SlotId, number: u32) {
        let packets = self.shared.chunk.div_ceil(self.shared.mtu);
        let host = &mut self.hosts[index.index()];
        let end = &mut host.nic.ends[number as usize];
        let repeated = end.channel.repeated();
        let more = (repeated - end.repeated) * u64::from(packets);
        end.repeated = repeated;
        if more > 0 {
            self.totals.retransmitted += more;
            if let Some(slot) = end.open.front().filter(|_| !self.shared.reads) {
                host.senders[*slot].retransmitted += more as u32;
            }
        }
    }

    /// Grants credit to the peers of this host, if its channels use credit.
    fn grant(&mut self, index: SlotId, now: Time) -> Result<(), HostError> {
        let nic = &mut self.hosts[index.index()].nic;
        let Some(grants) = &mut nic.grants else { return Ok(()) };
        let mut arrived = Arrived::default();
        let HostNic { device, doorbells, ends, next_grant, .. } = nic;
        let (timing, arrived) = (&self.shared.timing, &mut arrived);
        let (free, spent) = (now, Spent::default());
        let mut view = View { device, doorbells, arrived, timing, now, free, spent, has_waited: false };
        let mut channels: Vec<&mut X> = ends.iter_mut().map(|end| &mut end.channel).collect();
        let next = X::grant(grants, &mut view, now, &mut channels)?;
        *next_grant = next.map_or(Time::MAX, |at| at.max(now + Time::from_ps(1)));
        Ok(())
    }

    /// Takes the next packet from the device.
    #[inline]
    fn next_packet(&mut self, index: SlotId, now: Time) -> Option<Packet<X::Segment>> {
        let host = &mut self.hosts[index.index()];
        if let Some(packet) = host.nic.held.take() {
            return Some(packet);
        }
        let shared = &mut self.shared;
        let before = host.nic.device.counters().retransmitted;
        if !host.nic.device.transmit(now, &mut shared.batch) {
            host.nic.follow_up_all(&shared.timing);
            return None;
        }
        let to = shared.batch.destination()?;
        host.nic.follow_up(&shared.timing, to.qpn);
        if host.nic.device.counters().retransmitted > before {
            self.totals.retransmitted += 1;
            if let Some(number) = host.nic.by_qpn.get(&to.qpn)
                && let Some(slot) = host.nic.ends[*number as usize].open.front().filter(|_| !shared.reads)
            {
                host.senders[*slot].retransmitted += 1;
            }
        }
        let (body, sent) = X::Segment::of(host.id, shared.batch.bytes())?;
        let dst = host_of(to.peer);
        let is_ack = sent.is_control && sent.payload == 0;
        let bytes = if is_ack { shared.ack } else { sent.payload + sent.extended + shared.header };
        let entity = [u64::from(host.id.0), u64::from(dst.0), u64::from(to.flow)];
        Some(Packet {
            dst,
            flow_hash: mix(shared.seed, Purpose::FlowHash, &entity) as u32,
            bytes: (bytes as u16).max(MIN_FRAME),
            priority: DATA_PRIORITY,
            flags: if sent.is_control { Packet::<()>::CONTROL } else { 0 },
            body,
        })
    }
}

impl<X: HostChannel> HostPartition for NicPartition<VerbsNics<X>> {
    type Body = X::Segment;

    #[inline]
    fn receive(&mut self, host: SlotId, now: Time, packet: &Packet<Self::Body>) {
        self.totals.delivered += 1;
        self.totals.marked += u64::from(packet.is_marked());
        let Host { id, nic, receivers, .. } = &mut self.hosts[host.index()];
        let is_void = packet.is_void();
        if is_void && !(self.shared.trim && packet.dst == *id && packet.body.src() != *id) {
            return; // without a NIC that tells of trimming, a trimmed packet is a lost one
        }
        let Some(parsed) = packet.body.packet() else { return };
        let source = address(packet.body.src());
        if is_void {
            let _ = nic.device.receive_trimmed(now, source, &parsed);
            nic.follow_up(&self.shared.timing, Qpn(parsed.headers.bth.dest_qp));
            return;
        }
        let taken = nic.device.receive_packet(now, source, packet.is_marked(), &parsed);
        if taken.is_ok() && parsed.headers.bth.opcode.operation() == Operation::Write {
            self.last_progress = self.last_progress.max(now);
            if let Some((offset, len)) = nic.device.take_written(nic.region.id)
                && let Some(end) = receivers.get_mut(EndSlot((offset / PER_MESSAGE) as u32))
                && !end.done
            {
                // A chunk may be written twice, so this is only an estimate for samples.
                end.delivered = (end.delivered + u64::from(len)).min(end.bytes);
            }
        }
        nic.follow_up(&self.shared.timing, Qpn(parsed.headers.bth.dest_qp));
    }

    #[inline]
    fn next_wake(&self, host: SlotId) -> Time {
        let host = &self.hosts[host.index()];
        host.next_start().min(host.nic.next_wake())
    }

    fn wake(&mut self, index: SlotId, now: Time) {
        let timing = self.shared.timing;
        let host = &mut self.hosts[index.index()];
        if let Some(Start { slot, receiving, .. }) = host.starts.pop_front_if(|start| start.at <= now) {
            if receiving == self.shared.reads {
                let (peer, bytes, flow) = match receiving {
                    false => (host.senders[slot].dst, host.senders[slot].bytes, host.senders[slot].flow),
                    true => (host.receivers[slot].src, host.receivers[slot].bytes, host.receivers[slot].flow),
                };
                let channel = (peer, bytes <= self.shared.small);
                match host.nic.by_peer.get(&channel).copied() {
                    Some(number) => {
                        host.nic.ends[number as usize].waiting.push_back(slot);
                        self.step(index, number, now);
                    }
                    // The channel could not be opened; the run fails.
                    None => self.notices.push((host.id, Notice::Aborted { flow })),
                }
            }
            return;
        }
        if let Some(posted) = host.nic.doorbells.pop_front_if(|posted| posted.due <= now) {
            host.nic.device.advance_to(now);
            if let Err(why) = posted.post(&mut host.nic.device) {
                let host = host.id.0;
                self.shared.error.get_or_insert_with(|| format!("the NIC of host {host} refused a request: {why}"));
                return;
            }
            host.nic.follow_up(&timing, posted.qpn);
            return;
        }
        if host.nic.device.next_timer().is_some_and(|at| at <= now) {
            let before = host.nic.device.counters().timeouts;
            host.nic.device.on_time(now);
            self.totals.timeouts += host.nic.device.counters().timeouts - before;
            host.nic.follow_up_all(&timing);
            return;
        }
        if let Some(Reverse((at, number))) = host.nic.wakes.peek().copied()
            && at <= now
        {
            host.nic.wakes.pop();
            let end = &mut host.nic.ends[number as usize];
            if end.wake == at {
                end.wake = Time::MAX;
                self.step(index, number, now);
            }
            return;
        }
        if host.nic.next_grant <= now
            && let Err(why) = self.grant(index, now)
        {
            self.shared.error.get_or_insert_with(|| why.to_string());
        }
    }

    #[inline]
    fn wants_to_transmit(&self, host: SlotId) -> bool {
        let nic = &self.hosts[host.index()].nic;
        nic.held.is_some() || nic.device.has_ready()
    }

    #[inline]
    fn transmit(&mut self, index: SlotId, now: Time, paused: u8) -> Option<Packet<Self::Body>> {
        let packet = self.next_packet(index, now)?;
        if paused & (1 << packet.priority) != 0 {
            self.hosts[index.index()].nic.held = Some(packet);
            return None;
        }
        let is_control = packet.flags & Packet::<()>::CONTROL != 0;
        self.totals.control += u64::from(is_control);
        self.totals.data += u64::from(!is_control);
        Some(packet)
    }
}
