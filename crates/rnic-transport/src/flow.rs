//! A reliable flow: loss recovery and congestion control put together, in the pull style of the whole crate.
//!
//! The owner hands in what arrives ([`Sender::handle`], [`Receiver::handle`]), asks what to send when the wire is free
//! ([`Sender::poll_transmit`]), and keeps one timer per flow ([`Sender::deadline`], [`Sender::on_deadline`]).

use crate::config::FlowConfig;
use crate::congestion::{AckSample, CongestionControl, LossSignal};
use crate::recovery::{GoBackN, Pick, Progress, Protocol, ReceiveRecovery, SendRecovery, StreamReceiver, StreamSender};
use crate::telemetry::Telemetry;
use crate::{Pdu, PduKind, RxMeta, RxOutcome, Time, TxDesc};

/// What the timer of a flow is for.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Timer {
    /// Retransmission.
    Retransmit,
    /// The congestion control's own.
    Congestion,
}

/// Congestion control and the pace that it sets: what a source has that sends without recovery of its own.
#[derive(Clone, Debug)]
pub struct Regulator<C: CongestionControl> {
    congestion: C,
    /// No packet before this time.
    not_before: Time,
}

impl<C: CongestionControl> Regulator<C> {
    /// Begins at `now`.
    pub fn new(cfg: &FlowConfig, params: &C::Params, now: Time) -> Self {
        Regulator { congestion: C::new(params, cfg, now), not_before: now }
    }

    /// No packet may leave before this time.
    #[inline]
    pub fn not_before(&self) -> Time {
        self.not_before
    }

    /// A packet of `bytes`, headers included, leaves now.
    #[inline]
    pub fn sent(&mut self, cfg: &FlowConfig, params: &C::Params, now: Time, bytes: u32) {
        self.congestion.on_send(params, now, bytes);
        if C::PACED || cfg.max_rate.is_some() {
            let rate = self.congestion.rate();
            // At line rate the link itself is the pace.
            match cfg.max_rate {
                Some(most) => self.not_before = now + rate.min(most).time_for(u64::from(bytes)),
                None if rate < cfg.line_rate => self.not_before = now + rate.time_for(u64::from(bytes)),
                None => {}
            }
        }
    }

    /// The congestion control.
    pub fn congestion(&self) -> &C {
        &self.congestion
    }

    /// Lets the timers of the congestion control that were due before `now` fire, each at its time.
    pub fn catch_up(&mut self, params: &C::Params, now: Time) {
        while let Some(at) = self.congestion.next_timer().filter(|at| *at < now) {
            self.congestion.on_timer(params, at);
        }
    }

    /// The congestion control, to tell it what happened.
    pub fn congestion_mut(&mut self) -> &mut C {
        &mut self.congestion
    }
}

/// The data source of a flow.
#[derive(Clone, Debug)]
pub struct Sender<P: Protocol, C: CongestionControl> {
    recovery: P::Sender,
    regulator: Regulator<C>,
    /// Payload bytes of the last packet.
    last_payload: u32,
}

impl<P: Protocol, C: CongestionControl> Sender<P, C> {
    /// A flow of `bytes` payload bytes (at least 1) begins at `now`.
    pub fn new(cfg: &FlowConfig, params: &C::Params, bytes: u64, now: Time) -> Self {
        let packets = cfg.packets(bytes);
        Sender {
            recovery: P::Sender::new(cfg, packets),
            regulator: Regulator::new(cfg, params, now),
            last_payload: (bytes - (packets - 1) * u64::from(cfg.mtu)) as u32,
        }
    }

    /// A flow of `bytes` payload bytes (at least 1) begins at `now` on the connection of this one: with its congestion control, its pace
    /// and what it has learnt of the path. `cfg.first_psn` must be the number after this one's last, so that what is still under way
    /// of this one is stale to the new one.
    pub fn following(&self, cfg: &FlowConfig, bytes: u64, now: Time) -> Self {
        let packets = cfg.packets(bytes);
        Sender {
            recovery: self.recovery.following(cfg, packets, now),
            regulator: self.regulator.clone(),
            last_payload: (bytes - (packets - 1) * u64::from(cfg.mtu)) as u32,
        }
    }

    /// Lets the timers of the congestion control that were due before `now` fire, each at its time: for an owner that kept no timer of
    /// the flow while it had nothing to send.
    pub fn catch_up(&mut self, params: &C::Params, now: Time) {
        self.regulator.catch_up(params, now);
    }

    /// As [`handle`](Sender::handle), after `follower` has begun on this flow's connection: the congestion control that is told is the
    /// follower's.
    pub fn handle_after(
        &mut self, follower: &mut Self, cfg: &FlowConfig, params: &C::Params, now: Time, pdu: Pdu,
    ) -> Progress {
        follower.catch_up(params, now);
        std::mem::swap(&mut self.regulator, &mut follower.regulator);
        let progress = self.handle(cfg, params, now, pdu);
        std::mem::swap(&mut self.regulator, &mut follower.regulator);
        progress
    }

    /// As [`handle`](Sender::handle), for an ACK or NACK that brings back what switches wrote into its data packet.
    #[inline]
    pub fn handle_with(
        &mut self, cfg: &FlowConfig, params: &C::Params, now: Time, pdu: Pdu, telemetry: &Telemetry,
    ) -> Progress {
        if matches!(pdu.kind(), PduKind::Ack | PduKind::Nack) {
            self.regulator.congestion.on_telemetry(params, now, telemetry);
        }
        self.handle(cfg, params, now, pdu)
    }

    /// An ACK, NACK or CNP arrived; data is for the other half, and ignored.
    #[inline]
    pub fn handle(&mut self, cfg: &FlowConfig, params: &C::Params, now: Time, pdu: Pdu) -> Progress {
        match pdu.kind() {
            PduKind::Ack | PduKind::Nack => {}
            PduKind::Cnp => {
                self.regulator.congestion.on_cnp(params, now);
                return Progress::default();
            }
            PduKind::Data => return Progress::default(), // for the other half; it acknowledges nothing
        }
        let progress = self.recovery.on_reply(cfg, now, pdu);
        let sample = AckSample {
            now,
            rtt: pdu.stamp().elapsed(now),
            acked: progress.acked,
            in_flight: self.recovery.in_flight(),
            marked: pdu.mark_echo(),
        };
        self.regulator.congestion.on_ack(params, &sample);
        if let Some(signal) = progress.loss {
            self.regulator.congestion.on_loss(params, now, signal);
        }
        progress
    }

    /// When the flow may send next: `None` while it is blocked until something arrives or fires; a time not after now: at
    /// once.
    #[inline]
    pub fn next_transmit(&self, cfg: &FlowConfig) -> Option<Time> {
        self.recovery.has_work(cfg, self.regulator.congestion.window()).then_some(self.regulator.not_before)
    }

    /// Takes the packet to put on the wire now, if there is one.
    #[inline]
    pub fn poll_transmit(&mut self, cfg: &FlowConfig, params: &C::Params, now: Time) -> Option<TxDesc> {
        let pick = self.poll(cfg, now)?;
        let payload = match pick {
            Pick { syn: true, .. } => 0,
            Pick { last: true, .. } => self.last_payload,
            _ => cfg.mtu,
        };
        self.sent(cfg, params, now, payload + cfg.header);
        let pdu = Pdu::data(pick.psn, pick.last, now);
        let pdu = if pick.syn { pdu.with_syn() } else { pdu };
        Some(TxDesc { pdu, payload, retransmission: pick.retransmission })
    }

    /// The first half of [`poll_transmit`](Sender::poll_transmit), for an owner that knows what the packet will hold: picks it.
    /// [`sent`](Sender::sent) must follow.
    #[inline]
    pub fn poll(&mut self, cfg: &FlowConfig, now: Time) -> Option<Pick> {
        let paced = C::PACED || cfg.max_rate.is_some();
        if paced && now < self.regulator.not_before {
            return None;
        }
        self.recovery.poll(cfg, now, self.regulator.congestion.window())
    }

    /// The second half: the packet takes `bytes`, headers included.
    #[inline]
    pub fn sent(&mut self, cfg: &FlowConfig, params: &C::Params, now: Time, bytes: u32) {
        self.regulator.sent(cfg, params, now, bytes);
    }

    /// The flow's next timer and what it is for.
    #[inline]
    pub fn deadline(&self, cfg: &FlowConfig) -> Option<(Time, Timer)> {
        let retransmit = self.recovery.deadline(cfg).map(|at| (at, Timer::Retransmit));
        let congestion = self.regulator.congestion.next_timer().map(|at| (at, Timer::Congestion));
        match (retransmit, congestion) {
            (Some(r), Some(c)) => Some(if c.0 < r.0 { c } else { r }),
            (r, c) => r.or(c),
        }
    }

    /// The deadline has come; returns which timer fired.
    pub fn on_deadline(&mut self, cfg: &FlowConfig, params: &C::Params, now: Time) -> Option<Timer> {
        let (at, timer) = self.deadline(cfg)?;
        if at > now {
            return None;
        }
        match timer {
            Timer::Retransmit => {
                self.recovery.on_deadline(cfg, now);
                self.regulator.congestion.on_loss(params, now, LossSignal::Timeout);
            }
            Timer::Congestion => self.regulator.congestion.on_timer(params, now),
        }
        Some(timer)
    }

    /// Packets sent and not acknowledged.
    pub fn in_flight(&self) -> u32 {
        self.recovery.in_flight()
    }

    /// Whether every packet is known to have arrived.
    #[inline]
    pub fn is_complete(&self) -> bool {
        self.recovery.is_complete()
    }

    /// The flow's loss recovery.
    pub fn recovery(&self) -> &P::Sender {
        &self.recovery
    }

    /// The flow's congestion control.
    pub fn congestion(&self) -> &C {
        &self.regulator.congestion
    }
}

/// A flow without an end, which grows as messages are posted: what a queue pair sends on.
impl<P: Protocol<Sender: StreamSender>, C: CongestionControl> Sender<P, C> {
    /// A stream that holds nothing yet begins at `now`.
    pub fn stream(cfg: &FlowConfig, params: &C::Params, now: Time) -> Self {
        let regulator = Regulator::new(cfg, params, now);
        Sender { recovery: P::Sender::new(cfg, 0), regulator, last_payload: 0 }
    }

    /// There are `packets` more to send.
    pub fn extend(&mut self, packets: u64) {
        self.recovery.extend(packets);
    }

    /// See [`StreamSender::truncate`].
    pub fn truncate(&mut self, keep: u64) {
        self.recovery.truncate(keep);
    }

    /// See [`StreamSender::outstanding`].
    pub fn outstanding(&self) -> u32 {
        self.recovery.outstanding()
    }

    /// See [`StreamSender::resend`].
    pub fn resend(&mut self, now: Time) {
        self.recovery.resend(now);
    }
}

impl<C: CongestionControl> Sender<GoBackN, C> {
    /// See [`GoBackNSender::claim`](crate::recovery::GoBackNSender::claim).
    pub fn claim(&mut self, packets: u32) {
        self.recovery.claim(packets);
    }
}

/// The data sink of a flow.
#[derive(Clone, Debug)]
pub struct Receiver<P: Protocol> {
    recovery: P::Receiver,
    notifier: Notifier,
}

/// The NP of DCQCN (section 3.1): a marked packet is answered with a congestion notification at once if there was none in the last
/// interval. Whatever marks fall into the interval after one earn one more when it is over: with the next packet, marked or not.
///
/// One word, to keep flows small: the picosecond from which on a notification may follow, and in the lowest bit whether one is due.
#[derive(Clone, Copy, Debug, Default)]
pub struct Notifier(u64);

impl Notifier {
    /// Nothing was marked yet.
    pub const fn new() -> Notifier {
        Notifier(0)
    }

    /// A packet arrived, `marked` or not: whether to send a notification now, with at least `interval` between two.
    #[inline]
    pub fn on_packet(&mut self, interval: Time, now: Time, marked: bool) -> bool {
        self.0 |= u64::from(marked);
        if self.0 & 1 == 0 || now.as_ps() < self.0 >> 1 {
            return false;
        }
        self.0 = (now + interval).as_ps() << 1;
        true
    }
}

impl<P: Protocol> Receiver<P> {
    /// A flow of `bytes` payload bytes begins at `now`.
    pub fn new(cfg: &FlowConfig, bytes: u64, now: Time) -> Self {
        Receiver { recovery: P::Receiver::new(cfg, cfg.packets(bytes), now), notifier: Notifier::new() }
    }

    /// A flow of `bytes` payload bytes begins at `now` on the connection of this one, and keeps the distance from its last congestion
    /// notification. See [`Sender::following`].
    pub fn following(&self, cfg: &FlowConfig, bytes: u64, now: Time) -> Self {
        Receiver { notifier: self.notifier, ..Receiver::new(cfg, bytes, now) }
    }

    /// A data packet arrived. One of another kind is for the other half, and discarded.
    #[inline]
    pub fn handle(&mut self, cfg: &FlowConfig, now: Time, pdu: Pdu, meta: RxMeta) -> RxOutcome {
        if pdu.kind() != PduKind::Data {
            return RxOutcome { discarded: true, ..RxOutcome::default() };
        }
        let mut outcome = self.recovery.on_data(cfg, now, pdu);
        outcome.reply = outcome.reply.map(|reply| reply.with_mark_echo(meta.marked));
        if let Some(interval) = cfg.cnp_interval {
            outcome.notify = self.notifier.on_packet(interval, now, meta.marked);
        }
        outcome
    }

    /// When the sink's own timer fires, if it has one.
    pub fn deadline(&self, cfg: &FlowConfig) -> Option<Time> {
        self.recovery.deadline(cfg)
    }

    /// The deadline may have come: the NACK, or delayed ACK, to send, if it has.
    pub fn on_deadline(&mut self, cfg: &FlowConfig, now: Time) -> Option<Pdu> {
        self.recovery.deadline(cfg).filter(|at| *at <= now)?;
        self.recovery.on_deadline(cfg, now)
    }

    /// Whether everything has arrived.
    pub fn is_complete(&self) -> bool {
        self.recovery.is_complete()
    }

    /// Payload bytes accepted so far of the flow's `bytes`, those ahead of a gap included.
    pub fn delivered(&self, cfg: &FlowConfig, bytes: u64) -> u64 {
        let (missing, last) = self.recovery.missing();
        let tail = bytes - (cfg.packets(bytes) - 1) * u64::from(cfg.mtu);
        bytes - (missing - u64::from(last)) * u64::from(cfg.mtu) - if last { tail } else { 0 }
    }

    /// The flow's loss recovery.
    pub fn recovery(&self) -> &P::Receiver {
        &self.recovery
    }
}

/// The sink of a flow without an end.
impl<P: Protocol<Receiver: StreamReceiver>> Receiver<P> {
    /// A stream begins at `now`.
    pub fn stream(cfg: &FlowConfig, now: Time) -> Self {
        Receiver { recovery: P::Receiver::new(cfg, u64::MAX, now), notifier: Notifier::new() }
    }
}

impl Receiver<GoBackN> {
    /// See [`GoBackNReceiver::claim`](crate::recovery::GoBackNReceiver::claim).
    pub fn claim(&mut self, packets: u32) {
        self.recovery.claim(packets);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Marks at 0, 10, 60 and 200 us with an interval of 50 us, unmarked packets between.
    #[test]
    fn notifications_keep_their_distance() {
        let mut notifier = Notifier(0);
        let packets = [
            (0, true, true),
            (10, true, false), // within the interval: due when it is over
            (49, false, false),
            (50, false, true),
            (60, true, false),
            (99, false, false),
            (100, true, true),
            (150, false, false), // nothing was marked since
            (200, true, true),
        ];
        for (us, marked, notify) in packets {
            let told = notifier.on_packet(Time::from_us(50), Time::from_us(us), marked);
            assert_eq!(told, notify, "at {us} us");
        }
    }
}
