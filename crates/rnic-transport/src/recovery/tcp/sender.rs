//! The TCP sender: congestion window, loss recovery, retransmission timer, connection setup.

use super::super::{Pick, Progress, SendRecovery};
use super::scoreboard::Scoreboard;
use crate::bitmap::BitWindow;
use crate::config::FlowConfig;
use crate::congestion::LossSignal;
use crate::rto::RttEstimator;
use crate::{Pdu, PduKind, Psn, Time};

/// The state of the TCP connection's setup.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
enum Setup {
    /// No SYN has been sent.
    Start,
    /// A SYN has been sent; its SYN-ACK has not arrived.
    SynSent,
    /// The retransmission timer fired, so the SYN must be retransmitted.
    SynAgain,
    /// The connection is established.
    Done,
}

/// The phase of loss recovery that the sender is in.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
enum Phase {
    /// The sender is not in loss recovery.
    Open,
    /// Fast recovery, entered after duplicate or selective acknowledgements.
    Fast,
    /// Slow start after a timeout, until all segments that were in flight at the timeout are acknowledged.
    Timeout,
}

/// The TCP sender.
#[derive(Clone, Debug)]
pub struct TcpSender {
    board: Scoreboard,
    /// The segment after the highest segment that had been sent when recovery began (`recover` of RFC 6582,
    /// `RecoveryPoint` of RFC 6675). After the recovery `recover` moves along with the first unacknowledged segment, so
    /// that PSN comparisons stay valid.
    recover: Psn,
    /// A rescue retransmission (RFC 6675, rule 4 of `NextSeg`) is allowed once the first unacknowledged segment is
    /// after `rescue_after`, which is `RescueRxt` + 1 of the RFC.
    rescue_after: Psn,
    /// Congestion window in bytes.
    cwnd: u32,
    /// Slow start threshold in bytes.
    ssthresh: u32,
    /// NewReno: number of consecutive duplicate acknowledgements. With selective acknowledgements the sender does not
    /// count them.
    duplicates: u32,
    rtt: RttEstimator,
    /// Number of segments of the flow, sent or not, that are not acknowledged cumulatively.
    left: u64,
    /// Time at which the retransmission timer fires if segments or a SYN are outstanding; else the time to which it was
    /// last set.
    expires: Time,
    setup: Setup,
    phase: Phase,
    /// Whether to retransmit the first unacknowledged segment next, even if the congestion window does not allow it.
    retransmit_first: bool,
    /// NewReno: whether this fast recovery has received a partial acknowledgement.
    partial: bool,
}

impl TcpSender {
    /// Congestion window, in bytes.
    pub fn congestion_window(&self) -> u32 {
        self.cwnd
    }

    /// Slow start threshold, in bytes; `u32::MAX` until the first loss.
    pub fn slow_start_threshold(&self) -> u32 {
        self.ssthresh
    }

    /// Estimated number of segments in the network (`pipe` of RFC 6675, section 2).
    pub fn pipe(&self) -> u32 {
        self.board.pipe()
    }

    /// Whether the sender is in fast recovery.
    pub fn in_fast_recovery(&self) -> bool {
        self.phase == Phase::Fast
    }

    /// The round-trip time estimator.
    pub fn rtt(&self) -> &RttEstimator {
        &self.rtt
    }

    fn restart_timer(&mut self, cfg: &FlowConfig, now: Time) {
        self.expires = now.saturating_add(self.rtt.timeout(&cfg.tcp.rto_bounds()));
    }

    /// Handles a packet during connection setup: a SYN-ACK establishes the connection.
    fn on_setup(&mut self, cfg: &FlowConfig, now: Time, pdu: Pdu) {
        let expects_syn_ack = matches!(self.setup, Setup::SynSent | Setup::SynAgain);
        if !expects_syn_ack || !pdu.is_syn() || pdu.kind() != PduKind::Ack || pdu.psn() != self.board.first() {
            return;
        }
        if self.rtt.doublings() > 0 {
            self.cwnd = cfg.mtu; // RFC 5681 section 3.1: one segment after a lost SYN
        }
        self.rtt.sample(pdu.stamp().elapsed(now));
        self.setup = Setup::Done;
    }

    /// Grows the congestion window after `acked` segments were newly acknowledged (RFC 5681, equations 2 and 3).
    fn grow(&mut self, cfg: &FlowConfig, acked: u32) {
        let increment = if self.cwnd < self.ssthresh {
            acked.saturating_mul(cfg.mtu).min(cfg.mtu)
        } else {
            let squared = u64::from(cfg.mtu) * u64::from(cfg.mtu);
            ((squared / u64::from(self.cwnd)) as u32).max(1)
        };
        let limit = cfg.tcp.receive_window.max(cfg.mtu);
        self.cwnd = self.cwnd.max(self.cwnd.saturating_add(increment).min(limit));
    }

    /// Sets the slow start threshold to half of FlightSize (RFC 5681, equation 4).
    fn halve(&mut self, cfg: &FlowConfig) {
        let flight = u64::from(self.board.in_flight()) * u64::from(cfg.mtu);
        let half = match self.phase {
            Phase::Fast => (flight / 2).min(u64::from(self.ssthresh)),
            Phase::Open | Phase::Timeout => flight.min(u64::from(self.cwnd)) / 2,
        };
        self.ssthresh = (half as u32).max(cfg.mtu.saturating_mul(2));
    }

    /// Enters fast recovery (RFC 5681 section 3.2 steps 2 and 3, RFC 6675 section 5 steps 4.1 to 4.3).
    fn enter_fast_recovery(&mut self, cfg: &FlowConfig) {
        self.halve(cfg);
        let left_network = if cfg.tcp.sack { 0 } else { cfg.tcp.dup_thresh.max(1) };
        self.cwnd = self.ssthresh.saturating_add(left_network.saturating_mul(cfg.mtu));
        self.phase = Phase::Fast;
        self.recover = self.board.next();
        self.board.forget_retransmissions();
        self.retransmit_first = true;
        self.rescue_after = self.board.first().plus(1);
        self.partial = false;
    }

    /// Handles a cumulative acknowledgement of all segments before `expected`; returns how many it newly acknowledges.
    fn on_new_ack(&mut self, cfg: &FlowConfig, now: Time, expected: Psn, pdu: Pdu) -> u32 {
        let acked = self.board.slide(expected);
        self.left -= u64::from(acked);
        self.duplicates = 0;
        self.retransmit_first = false;
        self.rtt.sample(pdu.stamp().elapsed(now));
        let recovered = !expected.is_before(self.recover);
        let mut restart = true;
        match self.phase {
            Phase::Open => self.grow(cfg, acked),
            Phase::Timeout => {
                if recovered {
                    self.phase = Phase::Open;
                    self.board.conclude_losses(cfg.tcp.dup_thresh);
                }
                self.grow(cfg, acked);
            }
            Phase::Fast if recovered => {
                self.phase = Phase::Open;
                if !cfg.tcp.sack {
                    // RFC 6582 section 3.2 step 3, full acknowledgement: option 1, which avoids a burst.
                    let flight = self.board.in_flight().max(1).saturating_add(1).saturating_mul(cfg.mtu);
                    self.cwnd = self.ssthresh.min(flight);
                }
            }
            Phase::Fast if !cfg.tcp.sack => {
                // Partial acknowledgement: retransmit the next missing segment. Only the first partial acknowledgement
                // of a recovery restarts the timer.
                self.retransmit_first = true;
                restart = !std::mem::replace(&mut self.partial, true);
                let deflated = self.cwnd.saturating_sub(acked.saturating_mul(cfg.mtu));
                self.cwnd = deflated.saturating_add(cfg.mtu);
            }
            Phase::Fast => {}
        }
        if restart {
            self.restart_timer(cfg, now);
        }
        self.recover = self.recover.later(expected.plus(Psn::MODULUS - 1));
        acked
    }

    /// Handles an acknowledgement with a SACK block; returns whether fast recovery begins.
    fn on_sack(&mut self, cfg: &FlowConfig, pdu: Pdu) -> bool {
        if !self.board.mark(pdu.trigger(), pdu.below()) || self.phase == Phase::Timeout {
            return false;
        }
        self.board.conclude_losses(cfg.tcp.dup_thresh);
        let enters = self.phase == Phase::Open && self.board.first_is_lost();
        if enters {
            self.enter_fast_recovery(cfg);
        }
        enters
    }

    /// NewReno: handles a duplicate acknowledgement; returns whether fast recovery begins.
    fn on_duplicate(&mut self, cfg: &FlowConfig) -> bool {
        if self.board.in_flight() == 0 {
            return false;
        }
        self.duplicates = self.duplicates.saturating_add(1);
        if self.phase == Phase::Fast {
            self.cwnd = self.cwnd.saturating_add(cfg.mtu);
            return false;
        }
        let covers_more = self.board.first().distance_from(self.recover) > 0;
        let enters = self.duplicates == cfg.tcp.dup_thresh.max(1) && covers_more;
        if enters {
            self.enter_fast_recovery(cfg);
        }
        enters
    }

    /// Whether the congestion window, and the `window` of a separate congestion control, allow one more segment in the
    /// network.
    fn fits(&self, cfg: &FlowConfig, window: u32) -> bool {
        let pipe = self.board.pipe();
        // Limited transmit (RFC 3042). With SACK, each selective acknowledgement reduces `pipe`, which has the same
        // effect.
        let extra = match self.phase {
            Phase::Open if !cfg.tcp.sack => self.duplicates.min(cfg.tcp.dup_thresh.max(1) - 1),
            _ => 0,
        };
        let allowed = u64::from(self.cwnd) + u64::from(extra) * u64::from(cfg.mtu);
        pipe < window && (u64::from(pipe) + 1) * u64::from(cfg.mtu) <= allowed
    }

    fn can_send_new(&self, cfg: &FlowConfig, window: u32) -> bool {
        let in_flight = self.board.in_flight();
        in_flight < cfg.tcp.receive_window_segments(cfg.mtu).min(window) && u64::from(in_flight) < self.left
    }

    /// Whether a rescue retransmission of the highest unacknowledged segment is allowed (rule 4 of `NextSeg` in RFC
    /// 6675).
    fn can_rescue(&self) -> bool {
        self.rescue_after.is_before(self.board.first()) && self.board.has_missing()
    }

    fn pick(&self, psn: Psn, retransmission: bool) -> Pick {
        let last = u64::from(psn.since(self.board.first())) + 1 == self.left;
        Pick { psn, last, retransmission, syn: false }
    }
}

impl SendRecovery for TcpSender {
    fn new(cfg: &FlowConfig, packets: u64) -> TcpSender {
        let first = cfg.first_psn;
        let sacked = if cfg.tcp.sack { super::window(cfg, packets) } else { BitWindow::new(1) };
        TcpSender {
            board: Scoreboard::new(first, sacked),
            recover: first.plus(Psn::MODULUS - 1),
            rescue_after: first,
            cwnd: cfg.tcp.initial_window_bytes(cfg.mtu),
            ssthresh: u32::MAX,
            duplicates: 0,
            rtt: RttEstimator::new(),
            left: packets,
            expires: Time::MAX,
            setup: if cfg.tcp.handshake { Setup::Start } else { Setup::Done },
            phase: Phase::Open,
            retransmit_first: false,
            partial: false,
        }
    }

    /// The connection stays established and keeps its congestion window and slow start threshold. If it was idle for
    /// more than the retransmission timeout, the congestion window is reduced to at most the initial window (RFC 5681
    /// section 4.1).
    fn following(&self, cfg: &FlowConfig, packets: u64, now: Time) -> TcpSender {
        let new = TcpSender::new(cfg, packets);
        let window = if self.phase == Phase::Fast { self.cwnd.min(self.ssthresh) } else { self.cwnd };
        let idle = self.board.in_flight() == 0 && now > self.expires;
        let cwnd = if idle { window.min(new.cwnd) } else { window };
        TcpSender { cwnd, ssthresh: self.ssthresh, rtt: self.rtt, setup: Setup::Done, ..new }
    }

    #[inline]
    fn on_reply(&mut self, cfg: &FlowConfig, now: Time, pdu: Pdu) -> Progress {
        if self.setup != Setup::Done {
            self.on_setup(cfg, now, pdu);
            return Progress::default();
        }
        let expected = pdu.psn();
        let advance = expected.distance_from(self.board.first());
        if pdu.is_syn() || advance < 0 || advance as u32 > self.board.in_flight() {
            return Progress::default(); // an old reply, or about segments that were never sent
        }
        let acked = if advance > 0 { self.on_new_ack(cfg, now, expected, pdu) } else { 0 };
        let lost = match cfg.tcp.sack {
            true => pdu.kind() == PduKind::Nack && self.on_sack(cfg, pdu),
            false => acked == 0 && self.on_duplicate(cfg),
        };
        Progress { acked, loss: lost.then_some(LossSignal::Nack) }
    }

    #[inline]
    fn has_work(&self, cfg: &FlowConfig, window: u32) -> bool {
        if self.setup != Setup::Done {
            return self.setup != Setup::SynSent;
        }
        if self.retransmit_first {
            return true;
        }
        if !self.fits(cfg, window) {
            return false;
        }
        let fast_sack = cfg.tcp.sack && self.phase == Phase::Fast;
        self.can_send_new(cfg, window)
            || ((fast_sack || self.phase == Phase::Timeout) && self.board.has_lost())
            || (fast_sack && (self.board.has_hole() || self.can_rescue()))
    }

    #[inline]
    fn poll(&mut self, cfg: &FlowConfig, now: Time, window: u32) -> Option<Pick> {
        if !self.has_work(cfg, window) {
            return None;
        }
        if self.setup != Setup::Done {
            let retransmission = self.setup == Setup::SynAgain;
            self.setup = Setup::SynSent;
            self.restart_timer(cfg, now);
            return Some(Pick { psn: self.board.first(), last: false, retransmission, syn: true });
        }
        if self.retransmit_first {
            self.retransmit_first = false;
            let psn = self.board.first();
            if cfg.tcp.sack {
                self.board.retransmit();
            }
            return Some(self.pick(psn, true));
        }
        let recovering = self.phase == Phase::Timeout || (cfg.tcp.sack && self.phase == Phase::Fast);
        if recovering && self.board.has_lost() {
            let psn = self.board.retransmit();
            return Some(self.pick(psn, true));
        }
        if self.can_send_new(cfg, window) {
            if self.board.in_flight() == 0 {
                self.restart_timer(cfg, now);
            }
            let psn = self.board.send_new();
            return Some(self.pick(psn, false));
        }
        if self.board.has_hole() {
            let psn = self.board.retransmit();
            return Some(self.pick(psn, true));
        }
        self.rescue_after = self.recover;
        self.board.last_missing().map(|psn| self.pick(psn, true))
    }

    fn deadline(&self, _cfg: &FlowConfig) -> Option<Time> {
        let runs = match self.setup {
            Setup::Start => false,
            Setup::SynSent | Setup::SynAgain => true,
            Setup::Done => self.board.in_flight() > 0,
        };
        runs.then_some(self.expires)
    }

    /// Handles a retransmission timeout: RFC 6298 rules 5.4 to 5.6, RFC 5681 section 3.1, RFC 6675 section 5.1.
    fn on_deadline(&mut self, cfg: &FlowConfig, now: Time) {
        let repeated = self.rtt.doublings() > 0; // no new data was acknowledged since the last timeout
        self.rtt.back_off();
        self.restart_timer(cfg, now);
        if self.setup != Setup::Done {
            self.setup = Setup::SynAgain;
            return;
        }
        if !repeated {
            self.halve(cfg);
        }
        self.cwnd = cfg.mtu;
        self.phase = Phase::Timeout;
        self.recover = self.board.next();
        self.board.lose_all();
        self.retransmit_first = false;
    }

    fn in_flight(&self) -> u32 {
        self.board.in_flight()
    }

    fn is_complete(&self) -> bool {
        self.left == 0
    }

    fn extend(&mut self, packets: u64) {
        self.left += packets;
    }

    fn unsent(&self) -> u64 {
        self.left - u64::from(self.in_flight())
    }

    fn shorten(&mut self, packets: u64) {
        self.left -= packets;
    }

    fn unacknowledged(&self) -> (Psn, u64) {
        (self.board.first(), self.left)
    }
}
