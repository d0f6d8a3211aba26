//! State that queue pairs of several transport services use: the earliest of several times, pending CNPs, times of
//! transmission, retries.

use crate::common::{Common, Ctx};
use crate::types::SendAttributes;
use rnic_transport::pdu::Stamp;
use rnic_transport::{FlowConfig, Notifier, Psn, RxMeta, Time, Timeouts};
use rnic_wire::Bth;

/// The earliest of the times that were passed to it: when a timer fires or a packet is to be sent. [`Due::never`]
/// begins without a time.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) struct Due(Option<Time>);

impl Due {
    pub(crate) fn never() -> Due {
        Due(None)
    }
    pub(crate) fn at(&mut self, time: Time) {
        self.0 = Some(self.0.map_or(time, |due| due.min(time)));
    }
    pub(crate) fn immediately(&mut self) {
        self.0 = Some(Time::ZERO);
    }
    pub(crate) fn maybe(&mut self, time: Option<Time>) {
        if let Some(time) = time {
            self.at(time);
        }
    }
    pub(crate) fn time(self) -> Option<Time> {
        self.0
    }
}

/// Decides when a queue pair sends congestion notification packets (CNPs). CE-marked packets trigger CNPs, with a
/// minimum interval between two CNPs.
#[derive(Debug)]
pub(crate) struct CnpState {
    notifier: Notifier,
    /// Minimum time between two CNPs; `None`: the queue pair sends no CNPs.
    interval: Option<Time>,
    /// Minimum time between two CNPs of the device, of whichever queue pairs.
    nic_interval: Time,
    due: bool,
}

impl CnpState {
    pub(crate) fn new(cfg: &FlowConfig) -> CnpState {
        let (interval, nic_interval) = (cfg.cnp_interval, cfg.nic_cnp_interval);
        CnpState { notifier: Notifier::new(), interval, nic_interval, due: false }
    }

    /// Handles the arrival of a request or response packet, for which a CNP may be due; `marked` says whether it was
    /// CE-marked.
    pub(crate) fn on_packet(&mut self, ctx: &mut Ctx, now: Time, marked: bool) {
        let Some(interval) = self.interval else { return };
        let meta = RxMeta { marked, cnp_held: now < ctx.next_cnp };
        if self.notifier.on_packet(interval, now, meta) {
            ctx.next_cnp = now + self.nic_interval;
            self.due = true;
        }
    }

    /// Whether a CNP is to be sent now.
    pub(crate) fn is_due(&self) -> bool {
        self.due
    }

    pub(crate) fn rebase(&mut self, by: Time) {
        self.notifier.rebase(by);
    }

    /// Returns whether a CNP is to be sent now. If so, the caller sends it, and it is no longer due.
    pub(crate) fn take_due(&mut self) -> bool {
        std::mem::take(&mut self.due)
    }
}

/// When and how often each packet in flight was transmitted, for the measurement of round-trip times.
pub(crate) struct SendTimes {
    /// An entry for each packet in flight; the index is the PSN modulo the number of entries, which is a power of two.
    packets: Vec<Transmissions>,
}

#[derive(Clone, Copy, Debug, Default)]
struct Transmissions {
    first: Stamp,
    last: Stamp,
    /// Number of transmissions before the last transmission, at most [`Bth::MAX_ATTEMPTS`].
    attempt: u8,
}

impl SendTimes {
    /// Creates room for at least `window` packets in flight.
    pub(crate) fn new(window: u32) -> SendTimes {
        SendTimes { packets: vec![Transmissions::default(); window.max(1).next_power_of_two() as usize] }
    }

    fn slot(&self, psn: Psn) -> usize {
        psn.value() as usize & (self.packets.len() - 1)
    }

    /// Records that the packet with PSN `psn` is sent now, as a `retransmission` or for the first time. Returns the
    /// number of its earlier transmissions, at most [`Bth::MAX_ATTEMPTS`].
    pub(crate) fn record(&mut self, psn: Psn, retransmission: bool, now: Time) -> u8 {
        let (slot, now) = (self.slot(psn), Stamp::at(now));
        let packet = &mut self.packets[slot];
        *packet = match retransmission {
            false => Transmissions { first: now, last: now, attempt: 0 },
            true => Transmissions { last: now, attempt: (packet.attempt + 1).min(Bth::MAX_ATTEMPTS), ..*packet },
        };
        packet.attempt
    }

    /// The time of the last transmission of the packet with PSN `psn`. If this packet is no longer in flight, a later
    /// packet may have taken its entry; then the result is the time of the later packet.
    pub(crate) fn last_sent(&self, psn: Psn) -> Stamp {
        self.packets[self.slot(psn)].last
    }

    /// Whether the packet with PSN `psn`, which is in flight, was sent once. Then its ACK yields a round-trip time.
    pub(crate) fn is_sent_once(&self, psn: Psn) -> bool {
        self.packets[self.slot(psn)].attempt == 0
    }

    /// Whether the packet with PSN `psn`, which is in flight, was retransmitted, for the last time before `stamp`.
    pub(crate) fn is_retransmitted_before(&self, psn: Psn, stamp: Stamp) -> bool {
        let packet = self.packets[self.slot(psn)];
        packet.attempt > 0 && !packet.last.is_from(stamp)
    }

    /// The time of the transmission of the packet with PSN `psn` that the peer acknowledges: the transmission after
    /// `attempt` others. Only the times of the first and of the last transmission are stored. For a transmission
    /// between them the result is the time of the first: an earlier time is safe, because the arrival of a packet
    /// proves nothing about packets that were sent later.
    pub(crate) fn sent_at(&self, psn: Psn, attempt: u8) -> Stamp {
        let packet = self.packets[self.slot(psn)];
        if attempt == packet.attempt { packet.last } else { packet.first }
    }
}

/// Counters of the retries that are left after timeouts and after RNR NAKs (InfiniBand volume 1, sections 9.7.5.2.8 and
/// 9.9.2.4.2).
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct RetryState {
    retry_count: u8,
    rnr_retry: u8,
    retries: u8,
    rnr_retries: u8,
    /// Time without a response after which the queue pair gives up, instead of after `retry_count` retries.
    give_up_after: Option<Time>,
    /// Time from which on the peer owes a response: the last response, or the transmission of a packet while no packet
    /// was outstanding.
    silent_since: Time,
    /// Time until which the requester waits because of an RNR NAK; `None` if it is not waiting.
    rnr_wait_end: Option<Time>,
}

impl RetryState {
    /// Value of the attribute `rnr_retry` that means: retry after RNR NAKs without limit.
    const FOREVER: u8 = 7;

    /// All retries are left, and the peer owes a response from `silent_since` on.
    pub(crate) fn new(c: &Common, silent_since: Time) -> RetryState {
        let SendAttributes { retry_count, rnr_retry, give_up_after, .. } = c.attributes;
        RetryState {
            retry_count,
            rnr_retry,
            retries: retry_count,
            rnr_retries: rnr_retry,
            give_up_after,
            silent_since,
            ..RetryState::default()
        }
    }

    /// Called after a change of the connection's attributes, and when they are first known: restores all retries.
    pub(crate) fn change(&mut self, c: &Common) {
        *self = RetryState::new(c, self.silent_since);
    }

    /// Called when the peer has acknowledged a packet for the first time: restores all retries.
    pub(crate) fn on_progress(&mut self, now: Time) {
        self.on_sign_of_life(now);
        self.rnr_retries = self.rnr_retry;
    }

    /// Called when the peer has sent a packet that acknowledges no new packet: restores only the retries after
    /// timeouts.
    pub(crate) fn on_sign_of_life(&mut self, now: Time) {
        self.retries = self.retry_count;
        self.silent_since = now;
    }

    /// Called when a packet is sent and no other is outstanding: from now on the peer owes a response.
    pub(crate) fn on_wait_begins(&mut self, now: Time) {
        self.silent_since = now;
    }

    /// Time from which on the peer owes a response, if anything is outstanding.
    pub(crate) fn silent_since(&self) -> Time {
        self.silent_since
    }

    /// Time at which the queue pair gives up if no response arrives and anything is outstanding; `None`: it gives up
    /// when no retry is left.
    pub(crate) fn gives_up_at(&self) -> Option<Time> {
        self.give_up_after.map(|span| self.silent_since + span)
    }

    /// Handles a retransmission timeout; returns whether to retransmit. `false`: no retry is left.
    pub(crate) fn on_timeout(&mut self) -> bool {
        if self.give_up_after.is_some() {
            return true;
        }
        let again = self.retries > 0;
        self.retries = self.retries.saturating_sub(1);
        again
    }

    pub(crate) fn rebase(&mut self, by: Time) {
        self.silent_since = self.silent_since.rebased(by);
        self.rnr_wait_end = self.rnr_wait_end.map(|end| end.rebased(by));
    }

    /// Handles an RNR NAK that asks the requester to wait for `delay`. Returns whether to retransmit after this time;
    /// `false`: no retry is left.
    pub(crate) fn on_rnr_nak(&mut self, now: Time, delay: Time) -> bool {
        if self.rnr_wait_end.is_some() {
            return true;
        }
        if self.rnr_retry != RetryState::FOREVER {
            if self.rnr_retries == 0 {
                return false;
            }
            self.rnr_retries -= 1;
        }
        self.rnr_wait_end = Some(now + delay);
        true
    }

    pub(crate) fn rnr_wait_end(&self) -> Option<Time> {
        self.rnr_wait_end
    }

    /// Whether the requester is waiting because of an RNR NAK.
    pub(crate) fn in_rnr_wait(&self) -> bool {
        self.rnr_wait_end.is_some()
    }

    /// Ends the wait after an RNR NAK if its time has come; returns whether it ended.
    pub(crate) fn end_rnr_wait(&mut self, now: Time) -> bool {
        let over = self.rnr_wait_end.is_some_and(|end| end <= now);
        if over {
            self.rnr_wait_end = None;
            self.silent_since = now;
        }
        over
    }
}

/// The probes of an idle requester, by which it notices that its peer is dead ([`SendAttributes::keep_alive`]).
#[derive(Clone, Copy, Debug)]
pub(crate) struct KeepAlive {
    /// Idle time after which the requester sends a probe; `None`: it sends none.
    after: Option<Time>,
    /// Interval between two probes if no response arrives.
    again: Time,
    /// When the last probe was due to which no response has arrived; `None` if there is none.
    sent: Option<Time>,
    /// Whether a probe is to be sent now.
    due: bool,
}

impl KeepAlive {
    /// Number of probes that a requester sends to a dead peer within [`SendAttributes::give_up_after`].
    const PROBES: u64 = 8;

    pub(crate) fn new(c: &Common, timeouts: Option<Timeouts>) -> KeepAlive {
        let SendAttributes { keep_alive, give_up_after, .. } = c.attributes;
        let share = |span: Time| Time::from_ps(span.as_ps() / KeepAlive::PROBES);
        let again = give_up_after.map(share).or(timeouts.map(|timeouts| timeouts.high)).unwrap_or(Time::MAX);
        KeepAlive { after: keep_alive, again, sent: None, due: false }
    }

    /// The time of the next probe of a requester that is idle since `idle_since`.
    pub(crate) fn next(&self, idle_since: Time) -> Option<Time> {
        let after = self.after?;
        Some(self.sent.map_or(idle_since.saturating_add(after), |sent| sent.saturating_add(self.again)))
    }

    /// Whether there is a probe to which no response has arrived.
    pub(crate) fn is_waiting(&self) -> bool {
        self.sent.is_some()
    }

    /// Makes a probe due at `now`.
    pub(crate) fn probe(&mut self, now: Time) {
        (self.sent, self.due) = (Some(now), true);
    }

    pub(crate) fn is_due(&self) -> bool {
        self.due
    }

    /// Returns whether a probe is to be sent now. If so, the caller sends it, and it is no longer due.
    pub(crate) fn take_due(&mut self) -> bool {
        std::mem::take(&mut self.due)
    }

    pub(crate) fn rebase(&mut self, by: Time) {
        self.sent = self.sent.map(|sent| sent.rebased(by));
    }

    /// Called when a response of the peer has arrived; returns whether it may be the response to a probe.
    pub(crate) fn on_response(&mut self) -> bool {
        self.due = false;
        self.sent.take().is_some()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_ack_names_the_transmission_that_it_acknowledges() {
        let mut times = SendTimes::new(3);
        let (psn, us) = (Psn::new(0xff_ffff), Time::from_us);
        assert_eq!(times.record(psn, false, us(10)), 0);
        assert_eq!(times.sent_at(psn, 0), Stamp::at(us(10)));
        assert_eq!([times.record(psn, true, us(20)), times.record(psn, true, us(30))], [1, 2]);
        // The time of the second of three transmissions is not stored, so the result is the time of the first.
        let attempts = [(0, 10), (1, 10), (2, 30)];
        assert!(attempts.iter().all(|(attempt, at)| times.sent_at(psn, *attempt) == Stamp::at(us(*at))));
        assert_eq!(times.last_sent(psn), Stamp::at(us(30)));
        // The packet four PSNs later uses the same entry.
        assert_eq!(times.record(psn.plus(4), false, us(40)), 0);
        assert_eq!(times.sent_at(psn.plus(4), 0), Stamp::at(us(40)));
        assert_eq!((0..200).map(|_| times.record(psn, true, us(50))).last(), Some(127));
    }

    #[test]
    fn each_timeout_counts_unless_a_time_limits_them() {
        let mut retry = RetryState { retry_count: 1, retries: 1, ..RetryState::default() };
        assert!(retry.on_timeout() && !retry.on_timeout());
        assert_eq!(retry.gives_up_at(), None);
        retry.give_up_after = Some(Time::from_ms(5));
        retry.on_progress(Time::from_ms(3));
        assert!((0..100).all(|_| retry.on_timeout()));
        assert_eq!(retry.gives_up_at(), Some(Time::from_ms(8)));
    }
}
