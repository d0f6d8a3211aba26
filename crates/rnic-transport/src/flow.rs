//! The sender and receiver of a reliable flow, which combine loss recovery with congestion control.
//!
//! The interface of a flow is *pull*. The flow's owner, for example the simulator, passes received packets to
//! [`Sender::handle`] and [`Receiver::handle`], and takes the next packet from [`Sender::poll_transmit`] when the link
//! is idle. The owner also keeps a timer for each sender and each receiver: it calls `on_deadline` at the time that
//! `deadline` returns.

use crate::config::FlowConfig;
use crate::congestion::{AckSample, CongestionControl, LossSignal};
use crate::recovery::{GoBackN, Pick, Progress, Protocol, ReceiveRecovery, SendRecovery, StreamReceiver, StreamSender};
use crate::telemetry::Telemetry;
use crate::{Pdu, PduKind, RxMeta, RxOutcome, Time, TxDesc};

/// Which of a sender's two timers fires next; see [`Sender::deadline`].
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Timer {
    /// The retransmission timer.
    Retransmit,
    /// The timer of the loss recovery fired, but not because of a timeout: it looked for packets that are later than
    /// the reordering tolerance of a sprayed flow allows ([`FlowConfig::reorder`]). Only
    /// [`Sender::on_deadline`] returns this variant.
    Reorder,
    /// The timer of the congestion control, such as the rate timer of DCQCN.
    Congestion,
}

/// The congestion control of a flow, and the pacing at its rate: the part of a [`Sender`] that does not depend on loss
/// recovery. Packets without loss recovery, such as those of an unreliable connection (UC), use a `Regulator` without a
/// [`Sender`].
#[derive(Clone, Debug)]
pub struct Regulator<C: CongestionControl> {
    congestion: C,
    /// Pacing allows the flow to send no packet before this time.
    not_before: Time,
}

impl<C: CongestionControl> Regulator<C> {
    /// The congestion control and pacing state of a flow that begins at `now`.
    pub fn new(cfg: &FlowConfig, params: &C::Params, now: Time) -> Self {
        Regulator { congestion: C::new(params, cfg, now), not_before: now }
    }

    /// The earliest time at which pacing allows the flow to send its next packet.
    #[inline]
    pub fn not_before(&self) -> Time {
        self.not_before
    }

    /// Handles the transmission, at `now`, of a packet of `bytes` bytes, headers included: updates congestion control
    /// and pacing.
    #[inline]
    pub fn sent(&mut self, cfg: &FlowConfig, params: &C::Params, now: Time, bytes: u32) {
        self.congestion.on_send(params, now, bytes);
        if C::PACED || cfg.max_rate.is_some() {
            let rate = self.congestion.rate();
            // At line rate the link itself paces the packets.
            match cfg.max_rate {
                Some(max) => self.not_before = now + rate.min(max).time_for(u64::from(bytes)),
                None if rate < cfg.line_rate => self.not_before = now + rate.time_for(u64::from(bytes)),
                None => {}
            }
        }
    }

    /// Lets the next packet leave earlier by `late`: the last one left that much later than pacing allowed, because its
    /// owner was late. Without this, a paced flow falls below its rate by every delay of its owner.
    pub fn make_up_for(&mut self, late: Time) {
        self.not_before = self.not_before.saturating_sub(late);
    }

    /// The congestion control.
    pub fn congestion(&self) -> &C {
        &self.congestion
    }

    /// Fires all congestion control timers that were due before `now`, each with its due time.
    pub fn catch_up(&mut self, params: &C::Params, now: Time) {
        while let Some(at) = self.congestion.next_timer().filter(|at| *at < now) {
            self.congestion.on_timer(params, at);
        }
    }

    /// Counts all stored times from an origin that is later by `by` ([`Time::rebased`]); `now` counts from the new
    /// origin. The congestion control begins again, because its implementation knows its own times only.
    pub fn rebase(&mut self, cfg: &FlowConfig, params: &C::Params, now: Time, by: Time) {
        self.not_before = self.not_before.rebased(by);
        self.congestion = C::new(params, &FlowConfig { max_rate: None, ..cfg.clone() }, now);
    }

    /// The congestion control as a mutable reference, so that the caller can pass events, such as a received CNP, to
    /// it.
    pub fn congestion_mut(&mut self) -> &mut C {
        &mut self.congestion
    }
}

/// The sender of a flow, with loss recovery `P` and congestion control `C`.
///
/// ```
/// use rnic_transport::congestion::NoCongestionControl;
/// use rnic_transport::recovery::GoBackN;
/// use rnic_transport::{FlowConfig, Pdu, Sender, Time, Timer};
///
/// let cfg = FlowConfig::default();
/// let mut sender = Sender::<GoBackN, NoCongestionControl>::new(&cfg, &(), 2_000, Time::ZERO);
/// let first = sender.poll_transmit(&cfg, &(), Time::ZERO).unwrap();
/// let last = sender.poll_transmit(&cfg, &(), Time::from_ns(200)).unwrap();
/// assert_eq!((first.payload, last.payload), (1_024, 976));
///
/// // The receiver missed the first packet: go-back-N retransmits both.
/// let nack = Pdu::nack(first.pdu.psn(), last.pdu.psn(), last.pdu.stamp());
/// sender.handle(&cfg, &(), Time::from_us(8), nack);
/// let again = sender.poll_transmit(&cfg, &(), Time::from_us(8)).unwrap();
/// assert!(again.retransmission);
/// assert_eq!(again.pdu.psn(), first.pdu.psn());
/// let rto_low = Time::from_us(100); // applies because few packets are in flight
/// assert_eq!(sender.deadline(&cfg), Some((Time::from_us(8) + rto_low, Timer::Retransmit)));
/// ```
#[derive(Clone, Debug)]
pub struct Sender<P: Protocol, C: CongestionControl> {
    recovery: P::Sender,
    regulator: Regulator<C>,
    /// Length of the last packet's payload in bytes.
    last_payload: u32,
}

impl<P: Protocol, C: CongestionControl> Sender<P, C> {
    /// The sender of a flow with `bytes` bytes of payload (at least 1) that begins at `now`.
    pub fn new(cfg: &FlowConfig, params: &C::Params, bytes: u64, now: Time) -> Self {
        let packets = cfg.packets(bytes);
        Sender {
            recovery: P::Sender::new(cfg, packets),
            regulator: Regulator::new(cfg, params, now),
            last_payload: (bytes - (packets - 1) * u64::from(cfg.mtu)) as u32,
        }
    }

    /// The sender of the next flow on the same connection, with `bytes` bytes of payload (at least 1), that begins at
    /// `now`. The new sender takes over the state of congestion control and pacing and the round-trip time measurements
    /// from `self`, the sender of the previous flow. `cfg.first_psn` must be the PSN after the last PSN of the previous
    /// flow, so that the new flow ignores packets of the previous flow that are still in flight.
    pub fn following(&self, cfg: &FlowConfig, bytes: u64, now: Time) -> Self {
        let packets = cfg.packets(bytes);
        let mut regulator = self.regulator.clone();
        regulator.congestion.forget_credit();
        Sender {
            recovery: self.recovery.following(cfg, packets, now),
            regulator,
            last_payload: (bytes - (packets - 1) * u64::from(cfg.mtu)) as u32,
        }
    }

    /// Fires all expiries of the congestion control's timer that were due before `now`, each as if at its due time. It
    /// is for an owner that keeps no timer for a flow while the flow has nothing to send: the owner then calls this
    /// function before the flow's next packet.
    pub fn catch_up(&mut self, params: &C::Params, now: Time) {
        self.regulator.catch_up(params, now);
    }

    /// Like [`handle`](Sender::handle), for a late ACK, NACK or CNP of this flow: it arrives after the sender of the
    /// connection's next flow, `follower`, was created with [`following`](Sender::following). The packet's congestion
    /// control events go to `follower`, which has taken over the congestion control.
    pub fn handle_after(
        &mut self, follower: &mut Self, cfg: &FlowConfig, params: &C::Params, now: Time, pdu: Pdu,
    ) -> Progress {
        if C::CREDIT && pdu.is_credit() {
            return self.handle(cfg, params, now, pdu); // credit is a flow's own
        }
        follower.catch_up(params, now);
        std::mem::swap(&mut self.regulator, &mut follower.regulator);
        let progress = self.handle(cfg, params, now, pdu);
        std::mem::swap(&mut self.regulator, &mut follower.regulator);
        progress
    }

    /// Like [`handle`](Sender::handle), for an ACK or NACK that returns `telemetry`: the in-band telemetry records that
    /// switches wrote into the data packet that caused the ACK or NACK.
    #[inline]
    pub fn handle_with(
        &mut self, cfg: &FlowConfig, params: &C::Params, now: Time, pdu: Pdu, telemetry: &Telemetry,
    ) -> Progress {
        if matches!(pdu.kind(), PduKind::Ack | PduKind::Nack) {
            self.regulator.congestion.on_telemetry(params, now, telemetry);
        }
        self.handle(cfg, params, now, pdu)
    }

    /// Handles a received ACK, NACK or CNP; returns its effect on the loss recovery. Ignores a data packet, which is
    /// for the receiver.
    #[inline]
    pub fn handle(&mut self, cfg: &FlowConfig, params: &C::Params, now: Time, pdu: Pdu) -> Progress {
        match pdu.kind() {
            PduKind::Ack | PduKind::Nack => {}
            PduKind::Cnp => {
                if C::CREDIT && pdu.is_credit() {
                    self.regulator.congestion.on_credit(params, now, pdu.credit());
                } else {
                    self.regulator.congestion.on_cnp(params, now);
                }
                return Progress::default();
            }
            PduKind::Data => return Progress::default(), // for the receiver
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

    /// The earliest time at which the flow may send its next packet; a time in the past means immediately. `None`: the
    /// flow has nothing to send until a packet arrives or a timer fires.
    #[inline]
    pub fn next_transmit(&self, cfg: &FlowConfig) -> Option<Time> {
        if C::CREDIT && !self.regulator.congestion.has_credit() {
            return None;
        }
        self.recovery.has_work(cfg, self.regulator.congestion.window()).then_some(self.regulator.not_before)
    }

    /// The packet to transmit at `now`, if there is one; the sender's state then counts the packet as sent.
    // The simulator calls it at one place, but compiles this place for two types of packets: those of a run with one
    // transport, and those of a run with several. The compiler does not inline such a function by itself, and the call
    // costs 1 % of the instructions of a run.
    #[inline(always)]
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
        let pdu = if P::SPRAYS { pdu.with_path(self.recovery.path()) } else { pdu };
        let pdu = if C::CREDIT { self.with_credit(params, now, pdu) } else { pdu };
        let pdu = if P::COALESCES { self.with_ack_request(cfg, pick, pdu) } else { pdu };
        Some(TxDesc { pdu, payload, retransmission: pick.retransmission })
    }

    /// First half of [`poll_transmit`](Sender::poll_transmit): chooses the next packet to transmit. It is for an owner
    /// that determines the packet's contents and length itself, and then calls [`sent`](Sender::sent).
    #[inline]
    pub fn poll(&mut self, cfg: &FlowConfig, now: Time) -> Option<Pick> {
        let paced = C::PACED || cfg.max_rate.is_some();
        if paced && now < self.regulator.not_before {
            return None;
        }
        if C::CREDIT && !self.regulator.congestion.has_credit() {
            return None;
        }
        self.recovery.poll(cfg, now, self.regulator.congestion.window())
    }

    /// Second half of [`poll_transmit`](Sender::poll_transmit): the packet that [`poll`](Sender::poll) chose has
    /// `bytes` bytes, headers included.
    #[inline]
    pub fn sent(&mut self, cfg: &FlowConfig, params: &C::Params, now: Time, bytes: u32) {
        self.regulator.sent(cfg, params, now, bytes);
    }

    /// Makes the data packet `pdu` of `pick`, which has just left, ask for an ACK at once if the flow can send no other
    /// packet before one arrives, or if it is a retransmission. It is for protocols whose receivers may acknowledge
    /// several packets at once ([`Protocol::COALESCES`]).
    pub fn with_ack_request(&self, cfg: &FlowConfig, pick: Pick, pdu: Pdu) -> Pdu {
        let asks = cfg.ack_packets > 1 && (pick.retransmission || self.next_transmit(cfg).is_none());
        if asks { pdu.with_ack_request() } else { pdu }
    }

    /// The packet without data that asks the receiver what has arrived, if one is due at `now`.
    pub fn probe(&mut self, now: Time) -> Option<Pdu> {
        self.recovery.probe(now)
    }

    /// Makes the data packet `pdu`, which leaves at `now`, ask for the credit that the flow needs after it. It is for
    /// congestion controls that need credit of receivers ([`CongestionControl::CREDIT`]).
    pub fn with_credit(&mut self, params: &C::Params, now: Time, pdu: Pdu) -> Pdu {
        pdu.with_credit(self.regulator.congestion.ask(params, now, self.recovery.backlog()))
    }

    /// The packet without data that asks for credit, if the flow needs one now: it has packets to send, no credit, and
    /// no data packet that could ask. It is for congestion controls that need credit of receivers.
    pub fn credit_request(&mut self, cfg: &FlowConfig, params: &C::Params, now: Time) -> Option<Pdu> {
        let congestion = &mut self.regulator.congestion;
        if !C::CREDIT || congestion.has_credit() || !self.recovery.has_work(cfg, congestion.window()) {
            return None;
        }
        congestion.ask_alone(params, now, self.recovery.backlog().max(1)).map(Pdu::credit_request)
    }

    /// The pacing and congestion control of the flow.
    pub fn regulator(&self) -> &Regulator<C> {
        &self.regulator
    }

    /// As [`regulator`](Sender::regulator), to be changed.
    pub fn regulator_mut(&mut self) -> &mut Regulator<C> {
        &mut self.regulator
    }

    /// The time at which the sender's next timer fires, and which timer it is; `None` if no timer runs.
    #[inline]
    pub fn deadline(&self, cfg: &FlowConfig) -> Option<(Time, Timer)> {
        let retransmit = self.recovery.deadline(cfg).map(|at| (at, Timer::Retransmit));
        let congestion = self.regulator.congestion.next_timer().map(|at| (at, Timer::Congestion));
        match (retransmit, congestion) {
            (Some(r), Some(c)) => Some(if c.0 < r.0 { c } else { r }),
            (r, c) => r.or(c),
        }
    }

    /// Fires the next timer if it is due at `now`; returns which timer fired.
    pub fn on_deadline(&mut self, cfg: &FlowConfig, params: &C::Params, now: Time) -> Option<Timer> {
        let (at, timer) = self.deadline(cfg)?;
        if at > now {
            return None;
        }
        match timer {
            Timer::Retransmit => {
                let signal = self.recovery.on_timer(cfg, now);
                if let Some(signal) = signal {
                    self.regulator.congestion.on_loss(params, now, signal);
                }
                if signal != Some(LossSignal::Timeout) {
                    return Some(Timer::Reorder);
                }
            }
            Timer::Reorder => {}
            Timer::Congestion => self.regulator.congestion.on_timer(params, now),
        }
        Some(timer)
    }

    /// The sender of a flow that begins at `now` without packets; [`extend`](Sender::extend) adds them. The owner knows
    /// the length of its messages, and sends with [`poll`](Sender::poll) and [`sent`](Sender::sent).
    pub fn idle(cfg: &FlowConfig, params: &C::Params, now: Time) -> Self {
        Sender { recovery: P::Sender::new(cfg, 0), regulator: Regulator::new(cfg, params, now), last_payload: 0 }
    }

    /// Adds `packets` packets to the end of the flow, or of the stream.
    pub fn extend(&mut self, packets: u64) {
        self.recovery.extend(packets);
    }

    /// Takes `packets` packets off the end of the flow, which must not have been sent; the last packet keeps its
    /// length.
    pub fn shorten(&mut self, packets: u64) {
        self.recovery.shorten(packets);
    }

    /// Restarts the path selection of the flow with this seed, which should differ between flows.
    pub fn seed_paths(&mut self, cfg: &FlowConfig, seed: u64) {
        self.recovery.seed_paths(&cfg.paths, seed);
    }

    /// Number of packets sent and not acknowledged.
    pub fn in_flight(&self) -> u32 {
        self.recovery.in_flight()
    }

    /// Whether every packet of the flow is acknowledged.
    #[inline]
    pub fn is_complete(&self) -> bool {
        self.recovery.is_complete()
    }

    /// The state of the flow's loss recovery at the sender.
    pub fn recovery(&self) -> &P::Sender {
        &self.recovery
    }

    /// The state of the flow's congestion control.
    pub fn congestion(&self) -> &C {
        &self.regulator.congestion
    }
}

/// The sender of a stream: a flow without a fixed length, to which packets are added as messages are posted. A reliable
/// queue pair of the endpoint sends its messages on one stream.
impl<P: Protocol<Sender: StreamSender>, C: CongestionControl> Sender<P, C> {
    /// The sender of an empty stream that begins at `now`.
    pub fn stream(cfg: &FlowConfig, params: &C::Params, now: Time) -> Self {
        Sender::idle(cfg, params, now)
    }

    /// Shortens the stream to the first `keep` unacknowledged packets; see [`StreamSender::truncate`].
    pub fn truncate(&mut self, keep: u64) {
        self.recovery.truncate(keep);
    }

    /// Number of packets that have ever been sent and are not acknowledged, including packets that wait for their
    /// retransmission; see [`StreamSender::outstanding`].
    pub fn outstanding(&self) -> u32 {
        self.recovery.outstanding()
    }

    /// Counts all stored times from an origin that is later by `by`; see [`Regulator::rebase`]. `by` must be a multiple
    /// of 2^32 ns, the period of a [`Stamp`](crate::pdu::Stamp).
    pub fn rebase(&mut self, cfg: &FlowConfig, params: &C::Params, now: Time, by: Time) {
        self.recovery.rebase(by);
        self.regulator.rebase(cfg, params, now, by);
    }

    /// Retransmits the first unacknowledged packet once more; see [`StreamSender::lost_again`].
    pub fn lost_again(&mut self) {
        self.recovery.lost_again();
    }

    /// Retransmits from the first unacknowledged packet on, after an RNR NAK; see [`StreamSender::resend`].
    pub fn resend(&mut self, now: Time) {
        self.recovery.resend(now);
    }
}

impl<C: CongestionControl> Sender<GoBackN, C> {
    /// Reserves `packets` PSNs for the responses to the RDMA Read request that was just sent; see
    /// [`GoBackNSender::claim`](crate::recovery::GoBackNSender::claim).
    pub fn claim(&mut self, packets: u32) {
        self.recovery.claim(packets);
    }
}

/// The receiver of a flow, with loss recovery `P`.
///
/// ```
/// use rnic_transport::recovery::Irn;
/// use rnic_transport::{FlowConfig, Pdu, PduKind, Psn, Receiver, RxMeta, Time};
///
/// let cfg = FlowConfig::default();
/// let mut receiver = Receiver::<Irn>::new(&cfg, 3 * 1_024, Time::ZERO);
/// let mut arrive = |psn| {
///     let data = Pdu::data(Psn::new(psn), psn == 2, Time::ZERO);
///     receiver.handle(&cfg, Time::ZERO, data, RxMeta::default())
/// };
///
/// let nack = arrive(1).reply.unwrap(); // packet 0 is missing
/// assert_eq!((nack.kind(), nack.psn(), nack.trigger()), (PduKind::Nack, Psn::new(0), Psn::new(1)));
/// let ack = arrive(0).reply.unwrap();
/// assert_eq!((ack.kind(), ack.psn()), (PduKind::Ack, Psn::new(2)));
/// assert!(arrive(2).completed);
/// ```
#[derive(Clone, Debug)]
pub struct Receiver<P: Protocol> {
    recovery: P::Receiver,
    notifier: Notifier,
}

/// Decides when a receiver sends a congestion notification packet (CNP): the notification point (NP) of DCQCN (section
/// 3.1).
///
/// A CE-marked packet triggers a CNP immediately if the last CNP was sent at least one interval ago. If packets are
/// CE-marked within the interval after a CNP, the first packet after that interval, marked or not, triggers one more
/// CNP. If the NIC cannot send a CNP at this time ([`RxMeta::cnp_held`]), the CNP is due at the flow's first packet for
/// which it can.
///
/// To keep the state of a flow small, a `Notifier` is one 64-bit word. The lowest bit says whether a CNP is due; the
/// other bits are the earliest time of the next CNP in picoseconds, so times must be below 2^63 ps (106 days).
#[derive(Clone, Copy, Debug, Default)]
pub struct Notifier(u64);

impl Notifier {
    /// The state before the first CE-marked packet.
    pub const fn new() -> Notifier {
        Notifier(0)
    }

    /// Handles the arrival of a data packet. Returns whether to send a CNP now. Two CNPs are at least `interval` apart.
    #[inline]
    pub fn on_packet(&mut self, interval: Time, now: Time, meta: RxMeta) -> bool {
        self.0 |= u64::from(meta.marked);
        if self.0 & 1 == 0 || now.as_ps() < self.0 >> 1 || meta.cnp_held {
            return false;
        }
        self.0 = (now + interval).as_ps() << 1;
        true
    }

    /// Counts the stored time from an origin that is later by `by`; see [`Time::rebased`].
    pub fn rebase(&mut self, by: Time) {
        self.0 = (self.0 >> 1).saturating_sub(by.as_ps()) << 1 | self.0 & 1;
    }
}

impl<P: Protocol> Receiver<P> {
    /// The receiver of a flow with `bytes` bytes of payload that begins at `now`.
    pub fn new(cfg: &FlowConfig, bytes: u64, now: Time) -> Self {
        Receiver { recovery: P::Receiver::new(cfg, cfg.packets(bytes), now), notifier: Notifier::new() }
    }

    /// The receiver of the next flow on the same connection, with `bytes` bytes of payload, that begins at `now`; see
    /// [`Sender::following`]. The new receiver remembers when this flow sent its last CNP, so that the minimum time
    /// between CNPs holds across the two flows.
    pub fn following(&self, cfg: &FlowConfig, bytes: u64, now: Time) -> Self {
        Receiver { notifier: self.notifier, ..Receiver::new(cfg, bytes, now) }
    }

    /// The receiver of a flow that begins at `now` without packets; [`ReceiveRecovery::post`] adds messages.
    pub fn idle(cfg: &FlowConfig, now: Time) -> Self {
        Receiver { recovery: P::Receiver::new(cfg, 0, now), notifier: Notifier::new() }
    }

    /// Handles a received data packet. Discards a packet of another kind, which is for the sender.
    #[inline]
    pub fn handle(&mut self, cfg: &FlowConfig, now: Time, pdu: Pdu, meta: RxMeta) -> RxOutcome {
        if pdu.kind() != PduKind::Data {
            return RxOutcome { discarded: true, ..RxOutcome::default() };
        }
        let pdu = if P::COALESCES { pdu.with_mark_echo(meta.marked) } else { pdu };
        let mut outcome = self.recovery.on_data(cfg, now, pdu);
        outcome.reply = outcome.reply.map(|reply| reply.with_mark_echo(meta.marked));
        if let Some(interval) = cfg.cnp_interval {
            outcome.notify = self.notifier.on_packet(interval, now, meta);
        }
        outcome
    }

    /// The time at which the receiver's timer fires; `None` if the timer does not run.
    pub fn deadline(&self, cfg: &FlowConfig) -> Option<Time> {
        self.recovery.deadline(cfg)
    }

    /// Fires the receiver's timer if it is due at `now`; returns the NACK or delayed ACK to send.
    pub fn on_deadline(&mut self, cfg: &FlowConfig, now: Time) -> Option<Pdu> {
        self.recovery.deadline(cfg).filter(|at| *at <= now)?;
        self.recovery.on_deadline(cfg, now)
    }

    /// Whether all packets of the flow have arrived.
    pub fn is_complete(&self) -> bool {
        self.recovery.is_complete()
    }

    /// Number of payload bytes that the receiver has accepted so far, out-of-order packets included. `bytes` is the
    /// length of the flow.
    pub fn delivered(&self, cfg: &FlowConfig, bytes: u64) -> u64 {
        let (missing, last) = self.recovery.missing();
        let tail = bytes - (cfg.packets(bytes) - 1) * u64::from(cfg.mtu);
        bytes - (missing - u64::from(last)) * u64::from(cfg.mtu) - if last { tail } else { 0 }
    }

    /// Takes `packets` packets off the end of the flow, which its sender must not have sent.
    pub fn shorten(&mut self, packets: u64) {
        self.recovery.shorten(packets);
    }

    /// Handles the arrival of a data packet whose payload a switch has trimmed; returns the NACK to send.
    pub fn handle_trimmed(&mut self, cfg: &FlowConfig, now: Time, pdu: Pdu) -> Option<Pdu> {
        self.recovery.on_trimmed(cfg, now, pdu)
    }

    /// The state of the flow's loss recovery at the receiver, for an owner that decides itself about responses.
    pub fn recovery_mut(&mut self) -> &mut P::Receiver {
        &mut self.recovery
    }

    /// The state of the flow's loss recovery at the receiver.
    pub fn recovery(&self) -> &P::Receiver {
        &self.recovery
    }
}

/// The receiver of a stream, a flow without a fixed length.
impl<P: Protocol<Receiver: StreamReceiver>> Receiver<P> {
    /// The receiver of a stream that begins at `now`.
    pub fn stream(cfg: &FlowConfig, now: Time) -> Self {
        Receiver { recovery: P::Receiver::new(cfg, u64::MAX, now), notifier: Notifier::new() }
    }
}

impl Receiver<GoBackN> {
    /// Skips `packets` PSNs that belong to the responses to the RDMA Read request that just arrived; see
    /// [`GoBackNReceiver::claim`](crate::recovery::GoBackNReceiver::claim).
    pub fn claim(&mut self, packets: u32) {
        self.recovery.claim(packets);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// CE-marked packets at 0, 10, 60, 100 and 200 us, unmarked packets between them, and a CNP interval of 50 us.
    #[test]
    fn cnps_are_one_interval_apart() {
        let mut notifier = Notifier(0);
        let packets = [
            (0, true, true),
            (10, true, false), // within the interval: a CNP is due when the interval ends
            (49, false, false),
            (50, false, true),
            (60, true, false),
            (99, false, false),
            (100, true, true),
            (150, false, false), // no packet was marked since the last CNP
            (200, true, true),
        ];
        for (us, marked, notify) in packets {
            let meta = RxMeta { marked, cnp_held: false };
            let sends = notifier.on_packet(Time::from_us(50), Time::from_us(us), meta);
            assert_eq!(sends, notify, "at {us} us");
        }
    }

    /// A NIC that cannot send a CNP at 0 and 2 us: the mark at 0 us causes the CNP at 3 us, the mark at 10 us the CNP
    /// at 54 us, and the interval of the flow begins with the CNP.
    #[test]
    fn a_cnp_that_the_nic_cannot_send_is_due_later() {
        let mut notifier = Notifier(0);
        let packets = [
            (0, true, true, false),
            (2, false, true, false),
            (3, false, false, true),
            (10, true, false, false),
            (50, false, false, false), // 47 us after the flow's CNP
            (53, false, true, false),
            (54, false, false, true),
            (110, false, true, false), // no packet was marked since the last CNP
            (111, false, false, false),
        ];
        for (us, marked, cnp_held, notify) in packets {
            let sends = notifier.on_packet(Time::from_us(50), Time::from_us(us), RxMeta { marked, cnp_held });
            assert_eq!(sends, notify, "at {us} us");
        }
    }
}
