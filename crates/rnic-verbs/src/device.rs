//! The device: the state of one RDMA NIC, its received and sent packets, and its timers.

pub use crate::batch::{Batch, Destination};

pub use crate::config::{DeviceConfig, Limits, Shard};

use crate::common::Ctx;
use crate::counters::{Counters, Dropped};
use crate::qp::Qp;
use crate::qps::QueuePairs;
use crate::queue::CompletionQueue;
use crate::table::Table;
use crate::types::{Event, NetworkHeader, Qpn, Service, State, Status, URGENT_DSCP, VerbsError};
use chacha20::ChaCha20Rng;
use rand_core::{Rng, SeedableRng};
use rnic_transport::{Psn, Time};
use rnic_wire::{Bth, BthView, Packet, Reject};
use std::collections::{BTreeSet, VecDeque};
use std::net::SocketAddr;

/// The state of one RDMA NIC, which its owner drives by handing in packets and times. The documentation of
/// [`Verbs`](crate::Verbs) has an example with two devices.
pub struct Device {
    pub(crate) config: DeviceConfig,
    /// Generator of memory keys, first PSNs and queue pair numbers. They are secrets between two peers, so the
    /// generator is cryptographic: its output does not reveal later numbers.
    pub(crate) rng: ChaCha20Rng,
    pub(crate) domains: Table<()>,
    pub(crate) ctx: Ctx,
    pub(crate) qps: QueuePairs,
    /// Queue pairs (their slots in `qps`) that may have packets to send now; each queue pair occurs at most once.
    ready: VecDeque<u32>,
    /// The next timer of each queue pair: its time, and the queue pair's slot in `qps`. A queue pair has at most one
    /// entry. The entry's time may be too early, because a timer that is postponed keeps its entry.
    timers: BTreeSet<(Time, u32)>,
    /// Queue pairs that were reset since the last [`Device::transmit`]. A packet that the batch holds back for one of
    /// them belongs to its old connection.
    pub(crate) reset: Vec<Qpn>,
    /// The time at which the packets arrived that the owner passes now ([`Device::set_arrival`]).
    arrival: Option<Time>,
}

impl Device {
    /// Creates a device without objects (protection domains, memory regions, queues).
    pub fn new(config: DeviceConfig) -> Device {
        let rng = ChaCha20Rng::seed_from_u64(config.seed);
        Device {
            config,
            domains: Table::new(),
            ctx: Ctx::new(),
            qps: QueuePairs::new(),
            rng,
            ready: VecDeque::new(),
            timers: BTreeSet::new(),
            reset: Vec::new(),
            arrival: None,
        }
    }

    /// The settings of the device.
    pub fn config(&self) -> &DeviceConfig {
        &self.config
    }

    /// The latest time that the device's owner has passed to the device, which reads no clock itself.
    pub fn now(&self) -> Time {
        self.ctx.now
    }

    /// Passes the current time to the device, which reads no clock. Some verbs generate completions, such as
    /// [`Device::to_error`]; the timestamp of these completions is the latest time that was passed to the device. A
    /// `now` before this time changes nothing.
    pub fn advance_to(&mut self, now: Time) {
        self.ctx.now = self.ctx.now.max(now);
    }

    /// The time by which [`Device::rebase`] moves the origin of time: 2^52 ns, about 52 days.
    pub const EPOCH: Time = Time::from_ns(1 << 52);

    /// Counts all times from an origin that is later by [`Device::EPOCH`], so that a device can run without end: times
    /// are below 2^63 ps (106 days). The owner calls it when its clock reads at least `EPOCH`, and from then on passes
    /// times that are less by `EPOCH`. It should call it as late as after one and a half epochs, because times before
    /// the new origin become 0. The congestion controls of the connections begin again. The timestamps of completions
    /// that wait in completion queues do not change.
    pub fn rebase(&mut self) {
        let by = Device::EPOCH;
        let now = self.ctx.now.rebased(by);
        self.ctx.now = now;
        self.ctx.next_cnp = self.ctx.next_cnp.rebased(by);
        self.qps.values_mut().for_each(|qp| qp.rebase(now, by));
        self.timers = std::mem::take(&mut self.timers).into_iter().map(|(at, slot)| (at.rebased(by), slot)).collect();
        // A congestion control that begins again has other timers.
        for slot in self.qps.slots() {
            self.wake(slot);
        }
    }

    /// The counters of the device.
    pub fn counters(&self) -> &Counters {
        &self.ctx.counters
    }

    /// Returns a random number below 2^24 that a third party cannot predict, for the first PSN of a connection.
    pub fn random_psn(&mut self) -> u32 {
        self.rng.next_u32() & (Psn::MODULUS - 1)
    }

    /// Returns a random queue key (Q_Key) that a third party cannot predict, for a UD queue pair. Its most significant
    /// bit is 0, because a send request cannot name a Q_Key with this bit set
    /// ([`Recipient::qkey`](crate::Recipient::qkey)).
    pub fn random_qkey(&mut self) -> u32 {
        self.rng.next_u32() >> 1
    }

    /// Takes the oldest asynchronous event; `None` if no event waits. If more than [`MAX_EVENTS`](crate::MAX_EVENTS)
    /// events wait, the oldest are lost, and [`Counters::events_lost`] counts them.
    pub fn poll_event(&mut self) -> Option<Event> {
        self.ctx.events.pop_front()
    }

    /// Whether asynchronous events wait for [`Device::poll_event`].
    pub fn has_events(&self) -> bool {
        !self.ctx.events.is_empty()
    }

    /// Whether an asynchronous event was raised since the last call of this function, even if it was taken since then.
    /// The owner wakes those who wait for events: a thread that takes an event early must not take the wake-up of the
    /// others with it.
    pub fn take_raised(&mut self) -> bool {
        std::mem::take(&mut self.ctx.raised)
    }

    /// Whether the device has generated completions or events since the last call of this function. They need not come
    /// with a packet: a timer may use up the last retry, or the memory of a request may have been deregistered. The
    /// owner wakes those who wait for them.
    pub fn take_news(&mut self) -> bool {
        std::mem::take(&mut self.ctx.news)
    }

    /// Sets the time at which the packets arrived that the owner passes to the device from now on. Completions that
    /// these packets cause have it as their timestamp, also if the owner passes the packets later. `None`: they arrive
    /// when they are passed. All other effects of a packet, such as samples of round-trip times, depend on the time
    /// passed with it. The owner calls this for each batch of packets.
    pub fn set_arrival(&mut self, arrived: Option<Time>) {
        self.arrival = arrived;
    }

    /// Processes a received packet. `bytes` is the payload of a UDP datagram from the address `source`; the caller has
    /// checked its ICRC. `marked` says whether a switch CE-marked the packet. `now` must not be before any time that
    /// was passed to the device earlier.
    ///
    /// # Errors
    /// The reason for which the device dropped the packet. The device has counted the packet, so the caller may ignore
    /// the error.
    pub fn receive(&mut self, now: Time, source: SocketAddr, marked: bool, bytes: &[u8]) -> Result<(), Dropped> {
        self.receive_as(Origin { network: NetworkHeader::from(source, marked), protected: false }, now, bytes)
    }

    /// Processes a received packet like [`Device::receive`], with more of its IP header: UD queue pairs place it in
    /// front of received data ([`GRH_LEN`](crate::GRH_LEN)). After [`Device::receive`] the destination address there is
    /// 0.
    ///
    /// # Errors
    /// As [`Device::receive`].
    #[inline]
    pub fn receive_from(&mut self, now: Time, network: NetworkHeader, bytes: &[u8]) -> Result<(), Dropped> {
        self.receive_as(Origin { network, protected: false }, now, bytes)
    }

    /// Processes a received packet like [`Device::receive`], except that the packet was protected: the caller has
    /// authenticated it with the keys of the queue pair to which it is addressed, and removed the protection. The last
    /// four bytes, where a packet has its ICRC, can have any value.
    ///
    /// # Errors
    /// As [`Device::receive`].
    pub fn receive_protected(
        &mut self, now: Time, source: SocketAddr, marked: bool, bytes: &[u8],
    ) -> Result<(), Dropped> {
        self.receive_as(Origin { network: NetworkHeader::from(source, marked), protected: true }, now, bytes)
    }

    /// Handles a packet that the caller has parsed, and that was not protected. Simulations use it: their packets have
    /// no bytes of payload in memory. `packet` must be what [`Packet::parse`] returns for some bytes.
    ///
    /// # Errors
    /// The reason for which the packet is dropped.
    pub fn receive_packet(
        &mut self, now: Time, source: SocketAddr, marked: bool, packet: &Packet<'_>,
    ) -> Result<(), Dropped> {
        let origin = Origin { network: NetworkHeader::from(source, marked), protected: false };
        self.counted(now, marked, |device| device.take_packet(now, &origin, packet))
    }

    /// Handles the headers of a packet whose payload a switch has trimmed, for owners whose networks trim. An
    /// unreliable connection drops the packet's message; if the message's last packet arrives, trimmed or not, and has
    /// immediate data, a receive completes with [`Completion::trimmed`](crate::Completion::trimmed), so that software
    /// learns of the loss at once. All other queue pairs drop the packet, as if the network had lost it.
    ///
    /// Nothing authenticates a trimmed packet, so the device's owner must not call this for protected connections.
    ///
    /// # Errors
    /// The reason for which the packet is dropped, which it always is.
    pub fn receive_trimmed(&mut self, now: Time, source: SocketAddr, packet: &Packet<'_>) -> Result<(), Dropped> {
        let origin = Origin { network: NetworkHeader::from(source, false), protected: false };
        self.counted(now, false, |device| {
            let bth = &packet.headers.bth;
            let (_, qp) = addressed(&mut device.qps, Qpn(bth.dest_qp), &origin, bth.pkey)?;
            qp.check(packet).map_err(|(why, _)| why)?;
            qp.handle_trimmed(&mut device.ctx, packet)
        })
    }

    #[inline]
    fn receive_as(&mut self, origin: Origin, now: Time, bytes: &[u8]) -> Result<(), Dropped> {
        self.counted(now, origin.network.is_marked(), |device| device.take(now, &origin, bytes))
    }

    #[inline]
    fn counted(
        &mut self, now: Time, marked: bool, take: impl FnOnce(&mut Device) -> Result<(), Dropped>,
    ) -> Result<(), Dropped> {
        self.ctx.now = now;
        self.ctx.counters.packets_received += 1;
        self.ctx.counters.marked += u64::from(marked);
        self.ctx.arrived = self.arrival;
        let result = take(self);
        if let Err(why) = result {
            self.ctx.counters.dropped[why as usize] += 1;
        }
        self.settle();
        self.ctx.arrived = None;
        result
    }

    fn take(&mut self, now: Time, origin: &Origin, bytes: &[u8]) -> Result<(), Dropped> {
        match Packet::parse(bytes) {
            Ok(packet) => self.take_packet(now, origin, &packet),
            Err(reject) => Err(self.refuse_reserved(origin, bytes, reject)),
        }
    }

    #[inline]
    fn take_packet(&mut self, now: Time, origin: &Origin, packet: &Packet<'_>) -> Result<(), Dropped> {
        let bth = &packet.headers.bth;
        let qpn = Qpn(bth.dest_qp);
        let (at, qp) = addressed(&mut self.qps, qpn, origin, bth.pkey)?;
        qp.common.counters.received(packet.payload.len());
        if let Err((why, is_invalid_request)) = qp.check(packet) {
            if is_invalid_request && qp.refuse(&mut self.ctx, Psn::new(bth.psn)) {
                self.touch_at(at);
            }
            return Err(why);
        }
        let result = qp.handle(&mut self.ctx, now, packet, &origin.network);
        if !qp.common.established {
            self.establish(at, packet, &result);
        }
        self.touch_at(at);
        result
    }

    /// Handles a packet that cannot be parsed. A reserved opcode of the queue pair's own service is an invalid request,
    /// which the queue pair refuses if it expects its PSN. Any other malformed packet may be anything, so it is
    /// dropped. Returns the reason for which the packet is dropped.
    #[cold]
    fn refuse_reserved(&mut self, origin: &Origin, bytes: &[u8], reject: Reject) -> Dropped {
        let (Reject::UnknownOpcode(code), Some(view)) = (reject, BthView::new(bytes)) else {
            return Dropped::Malformed;
        };
        let qpn = Qpn(view.dest_qp());
        match addressed(&mut self.qps, qpn, origin, view.pkey()) {
            Ok((at, qp)) if view.transport_version() == 0 && qp.owns_reserved_opcode(code) => {
                if qp.refuse(&mut self.ctx, Psn::new(view.psn())) {
                    self.touch_at(at);
                }
                Dropped::Opcode
            }
            _ => Dropped::Malformed,
        }
    }

    /// Notes whether the peer is connected, which only a request shows that was processed, or that would have been with
    /// a receive.
    #[cold]
    fn establish(&mut self, at: u32, packet: &Packet<'_>, result: &Result<(), Dropped>) {
        let is_request = packet.headers.bth.opcode.operation().is_request();
        let Some(qp) = self.qps.at_mut(at) else { return };
        if is_request && matches!(result, Ok(()) | Err(Dropped::NoReceive)) {
            qp.common.established = true;
            if qp.common.state == State::ReadyToReceive {
                self.ctx.raise(Event::CommunicationEstablished(qp.qpn()));
            }
        }
    }

    /// Fills `batch` with packets of the next queue pair that has packets to send now. Returns `false` if no queue pair
    /// has packets to send. `now` must not be before any time that was passed to the device earlier. The caller passes
    /// the same `batch` every time, because the batch may hold a packet back for the next call.
    pub fn transmit(&mut self, now: Time, batch: &mut Batch) -> bool {
        self.ctx.now = now;
        if !self.reset.is_empty() {
            batch.forget_held(&self.reset);
            self.reset.clear();
        }
        if let Some(to) = batch.begin() {
            // The packet that the previous batch held back comes first. Further packets of the same queue pair follow
            // it.
            let at = self.qps.slot(to.qpn).and_then(|slot| self.ready.iter().position(|at| *at == slot));
            let Some(at) = at.and_then(|at| self.ready.remove(at)) else {
                batch.finish();
                return true;
            };
            self.ready.push_front(at);
        }
        while let Some(at) = self.ready.pop_front() {
            let Some(qp) = self.qps.at_mut(at) else { continue };
            batch.set_alone(self.ready.is_empty());
            qp.ready = false;
            let mut next = qp.destination();
            let each = qp.is_datagram();
            // A batch has one destination. A packet of the queue pair may wait in it already.
            while let Some(to) = next.filter(|to| !each || batch.destination().is_none_or(|other| other == *to))
                && !batch.is_closed()
            {
                let len = qp.emit(&mut self.ctx, now, batch.room(&to));
                if len == 0 || !batch.push(len, to) {
                    break;
                }
                if each {
                    next = qp.destination();
                }
            }
            self.wake(at);
            if !batch.is_empty() {
                break;
            }
        }
        batch.finish();
        self.settle();
        !batch.is_empty()
    }

    /// The time at which the owner should call [`Device::transmit`] and [`Device::on_time`] next. `Time::ZERO` means
    /// immediately; `None` means not before a packet arrives or an application calls a verb.
    pub fn next_time(&self, batch: &Batch) -> Option<Time> {
        if !self.ready.is_empty() || batch.holds() {
            return Some(Time::ZERO);
        }
        self.timers.first().map(|(at, _)| *at)
    }

    /// Time of the earliest timer or paced transmission, apart from what is ready to be transmitted now; `None` if
    /// there is none.
    pub fn next_timer(&self) -> Option<Time> {
        self.timers.first().map(|(at, _)| *at)
    }

    /// Number of queue pairs that may have packets to send now.
    pub fn ready(&self) -> usize {
        self.ready.len()
    }

    /// Whether a queue pair may have a packet to send now.
    pub fn has_ready(&self) -> bool {
        !self.ready.is_empty()
    }

    /// Fires the timers that are due at `now`. A queue pair whose next packet was delayed by pacing until `now` becomes
    /// ready to send it. `now` must not be before any time that was passed to the device earlier.
    pub fn on_time(&mut self, now: Time) {
        self.ctx.now = now;
        while let Some((due, at)) = self.timers.first().copied() {
            if due > now {
                break;
            }
            self.timers.pop_first();
            let Some(qp) = self.qps.at_mut(at) else { continue };
            qp.armed = None;
            if qp.deadline().is_some_and(|deadline| deadline <= now) {
                qp.on_deadline(&mut self.ctx, now);
            }
            self.wake(at);
        }
        self.settle();
    }

    /// Puts the queue pair in slot `at` of `qps` into the ring of ready queue pairs, because it may have packets to
    /// send. [`Device::transmit`] takes the queue pairs from this ring.
    fn touch_at(&mut self, at: u32) {
        if let Some(qp) = self.qps.at_mut(at)
            && !qp.ready
        {
            qp.ready = true;
            queue(&mut self.ready, at, qp);
        }
    }

    /// As [`Device::touch_at`], for a queue pair that is given by its number.
    pub(crate) fn touch(&mut self, qpn: Qpn) {
        if let Some((at, _)) = self.qps.get_mut(qpn) {
            self.touch_at(at);
        }
    }

    /// Puts the queue pair in slot `at` of `qps` into the ring of ready queue pairs if it may send now, and sets its
    /// timer. If the timer moves to a later time, its entry in `timers` keeps the earlier time.
    fn wake(&mut self, at: u32) {
        let now = self.ctx.now;
        let Some(qp) = self.qps.at_mut(at) else { return };
        let transmit = qp.next_transmit();
        if transmit.is_some_and(|time| time <= now) && !qp.ready {
            qp.ready = true;
            queue(&mut self.ready, at, qp);
        }
        // A queue pair in the ring needs no timer for its next transmission.
        let later = transmit.filter(|_| !qp.ready);
        let due = match (later, qp.deadline()) {
            (Some(a), Some(b)) => Some(a.min(b)),
            (a, b) => a.or(b),
        };
        if let Some(due) = due
            && qp.armed.is_none_or(|armed| due < armed)
        {
            if let Some(armed) = qp.armed.replace(due) {
                self.timers.remove(&(armed, at));
            }
            self.timers.insert((due, at));
        }
    }

    /// Removes the destroyed queue pair `qp`, which was in slot `at` of `qps`, from the ring of ready queue pairs and
    /// from the timers.
    pub(crate) fn forget(&mut self, at: u32, qp: &Qp) {
        if qp.ready {
            self.ready.retain(|other| *other != at);
        }
        if let Some(armed) = qp.armed {
            self.timers.remove(&(armed, at));
        }
    }

    /// Moves queue pairs whose completion queue overflowed into the error state.
    pub(crate) fn settle(&mut self) {
        while std::mem::take(&mut self.ctx.overflow) {
            for qp in self.qps.values_mut() {
                let lost = [qp.common.init.send_cq, qp.common.init.recv_cq]
                    .iter()
                    .any(|cq| self.ctx.cqs.get(cq.0).is_some_and(CompletionQueue::overflowed));
                if lost {
                    qp.common.fail(&mut self.ctx, Status::LocalQpOperation);
                }
            }
        }
    }

    pub(crate) fn qp(&mut self, qpn: Qpn) -> Result<&mut Qp, VerbsError> {
        self.qp_and_ctx(qpn).map(|(qp, _)| qp)
    }

    /// Returns a queue pair together with the state that all queue pairs of the device share.
    pub(crate) fn qp_and_ctx(&mut self, qpn: Qpn) -> Result<(&mut Qp, &mut Ctx), VerbsError> {
        let (_, qp) = self.qps.get_mut(qpn).ok_or(VerbsError::Unknown("such queue pair"))?;
        Ok((qp, &mut self.ctx))
    }
}

/// Puts the queue pair in slot `at` into the ring of ready queue pairs: at the end, or, with [`URGENT_DSCP`], in front.
#[inline]
fn queue(ready: &mut VecDeque<u32>, at: u32, qp: &Qp) {
    if qp.common.connection.is_some_and(|connection| connection.dscp == URGENT_DSCP) {
        ready.push_front(at);
    } else {
        ready.push_back(at);
    }
}

/// Where a received packet comes from, and whether it was protected.
#[derive(Clone, Copy)]
struct Origin {
    network: NetworkHeader,
    protected: bool,
}

/// The queue pair to which a packet of `origin` with this destination and partition key is addressed, and its slot.
#[inline]
fn addressed<'a>(qps: &'a mut QueuePairs, qpn: Qpn, origin: &Origin, pkey: u16) -> Result<(u32, &'a mut Qp), Dropped> {
    let (at, qp) = qps.get_mut(qpn).ok_or(Dropped::UnknownQp)?;
    check_peer(qp, origin)?;
    if pkey & 0x7fff != Bth::DEFAULT_PKEY & 0x7fff {
        return Err(Dropped::Partition);
    }
    if qp.common.receives_packets() { Ok((at, qp)) } else { Err(Dropped::State) }
}

/// Checks that a packet comes from the peer of a connection, protected as the connection is. A UD queue pair takes
/// packets from anyone.
#[inline]
fn check_peer(qp: &Qp, origin: &Origin) -> Result<(), Dropped> {
    let Some(connection) = &qp.common.connection else {
        return match qp.common.init.service {
            Service::Ud if origin.protected => Err(Dropped::Unprotected),
            Service::Ud => Ok(()),
            _ => Err(Dropped::State),
        };
    };
    // A dual-stack socket (IPv4 and IPv6) reports an IPv4 peer by its IPv4-mapped IPv6 address.
    let (ip, from) = (connection.peer.ip(), origin.network.source.ip());
    if ip != from && ip.to_canonical() != from.to_canonical()
        || connection.peer_source_port.is_some_and(|port| port != origin.network.source.port())
    {
        return Err(Dropped::WrongPeer);
    }
    if connection.protected == origin.protected { Ok(()) } else { Err(Dropped::Unprotected) }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{
        Access, Capacities, Congestion, Connection, Data, QpInit, SendAttributes, SendFlags, SendOp, SendRequest,
        Service,
    };

    /// However often the times of its timers change, a queue pair has at most one entry in the device's timers and one
    /// in the ring of ready queue pairs. A destroyed queue pair has neither.
    #[test]
    fn the_ring_and_the_timers_do_not_grow() {
        let congestion = Congestion::named("dcqcn").unwrap();
        let mut device = Device::new(DeviceConfig { congestion, ..DeviceConfig::default() });
        let mut batch = Batch::new(4);
        let pd = device.create_pd();
        let cq = device.create_cq(1_000).unwrap();
        let capacities = Capacities::default();
        let init = QpInit { service: Service::Rc, send_cq: cq, recv_cq: cq, srq: None, capacities, signal_all: false };
        for _ in 0..20 {
            let qpn = device.create_qp(pd, init.clone()).unwrap();
            device.to_init(qpn, Access::ALL).unwrap();
            let connection = Connection {
                peer: "10.0.0.1:4791".parse().unwrap(),
                peer_qpn: Qpn(2),
                peer_source_port: None,
                protected: false,
                peer_in_flight: crate::MAX_IN_FLIGHT,
                path_mtu: 1_024,
                recv_psn: 0,
                max_dest_rd_atomic: 1,
                min_rnr_timer: 0,
                dscp: 0,
            };
            device.to_rtr(qpn, connection, device.now()).unwrap();
            let attributes = SendAttributes { timeout: 31, ..SendAttributes::default() };
            device.to_rts(qpn, attributes, device.now()).unwrap();
            let mut packet = [0; 32];
            let mut now = device.now();
            for _ in 0..100 {
                let (op, data) = (SendOp::Write { addr: 0, rkey: 0 }, Data::Inline(&[0; 100]));
                let request = SendRequest { wr_id: 0, op, data, flags: SendFlags::default() };
                device.post_send(qpn, &request).unwrap();
                now += Time::from_us(60);
                device.on_time(now);
                while device.transmit(now, &mut batch) {}
                // Each round a CNP arrives, so that DCQCN lowers the rate and paces the packets.
                let bytes = rnic_wire::Packet::cnp(qpn.0).emit_without_icrc(&mut packet);
                device.receive(now, connection.peer, false, &packet[..bytes + 4]).unwrap();
                assert!(device.timers.len() <= 1 && device.ready.len() <= 1);
            }
            device.destroy_qp(qpn).unwrap();
            assert_eq!((device.timers.len(), device.ready.len()), (0, 0));
        }
    }
}
