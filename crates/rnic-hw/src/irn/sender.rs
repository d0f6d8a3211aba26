//! The sender of a trace: the sender of the core, or the model of the published logic.

use super::{Logic, Parameters, Published, record};
use rnic_transport::pdu::Stamp;
use rnic_transport::recovery::{IrnSender, SendRecovery};
use rnic_transport::{FlowConfig, Pdu, Psn, Time};

/// A sender with one of the two logics. Times are in nanoseconds.
#[derive(Clone, Debug)]
pub(super) enum TracedSender {
    Core(Box<IrnSender>),
    Published(Box<Published>),
}

impl TracedSender {
    pub(super) fn new(parameters: Parameters, cfg: &FlowConfig) -> TracedSender {
        match parameters.logic {
            Logic::Core => TracedSender::Core(Box::new(IrnSender::new(cfg, 0))),
            Logic::Published => {
                let (low, high, packets) = timeouts(cfg);
                TracedSender::Published(Box::new(Published::new(
                    cfg.first_psn,
                    cfg.bdp_cap,
                    packets.into(),
                    (low, high),
                )))
            }
        }
    }

    /// The first packet that is not acknowledged, and the number of packets in flight.
    pub(super) fn window(&self) -> (Psn, u32) {
        match self {
            TracedSender::Core(sender) => (sender.registers().first_missing, sender.in_flight()),
            TracedSender::Published(sender) => (sender.first_missing, sender.in_flight()),
        }
    }

    pub(super) fn registers(&self, bits: u32) -> record::Sender {
        match self {
            TracedSender::Core(sender) => record::Sender::of(&sender.registers()),
            TracedSender::Published(sender) => {
                let mut sacked = vec![0_u64; bits as usize / 64];
                for (offset, _) in sender.sacked.iter().enumerate().filter(|(_, sacked)| **sacked) {
                    let bit = sender.first_missing.plus(offset as u32).value() & (bits - 1);
                    sacked[bit as usize / 64] |= 1 << (bit % 64);
                }
                record::Sender {
                    first_missing: sender.first_missing.value(),
                    next: sender.next.value(),
                    retransmit_next: sender.retransmit_next.value(),
                    recover: sender.recover.value(),
                    recover_since: 0,
                    highest_sacked: sender.highest_sacked.value(),
                    in_recovery: sender.in_recovery,
                    retransmit_first: sender.retransmit_first,
                    rto_high: sender.rto_high,
                    timer_start: sender.timer_start,
                    sacked,
                }
            }
        }
    }

    /// Adds packets to the send queue. The published logic does not store the end of the queue: it is an argument of
    /// `tx_free`.
    pub(super) fn extend(&mut self, packets: u32) {
        if let TracedSender::Core(sender) = self {
            sender.extend(packets.into());
        }
    }

    pub(super) fn receive_ack(&mut self, cfg: &FlowConfig, now: u64, response: Response) -> (u32, bool) {
        match self {
            TracedSender::Core(sender) => {
                let stamp = Stamp::at(Time::from_ns(response.stamp.into()));
                let pdu = match response.trigger {
                    Some(trigger) => Pdu::nack(response.expected, trigger, stamp),
                    None => Pdu::ack(response.expected, stamp),
                };
                let progress = sender.on_reply(cfg, Time::from_ns(now), pdu);
                (progress.acked, progress.loss.is_some())
            }
            TracedSender::Published(sender) => sender.receive_ack(now as u32, response.expected, response.trigger),
        }
    }

    /// Chooses the packet to send. Returns its PSN, whether it is the last packet, and whether it is a retransmission.
    pub(super) fn tx_free(&mut self, cfg: &FlowConfig, now: u64, window: u32, end: Psn) -> Option<(Psn, bool, bool)> {
        match self {
            TracedSender::Core(sender) => {
                let pick = sender.poll(cfg, Time::from_ns(now), window)?;
                Some((pick.psn, pick.last, pick.retransmission))
            }
            TracedSender::Published(sender) => {
                let (psn, retransmission) = sender.tx_free(now as u32, window, end)?;
                Some((psn, psn.plus(1) == end, retransmission))
            }
        }
    }

    /// Checks the timer. Returns whether it has expired, and whether it was extended.
    pub(super) fn timeout(&mut self, cfg: &FlowConfig, now: u64) -> (bool, bool) {
        match self {
            TracedSender::Core(sender) => {
                let now = Time::from_ns(now);
                let expired = sender.deadline(cfg).is_some_and(|deadline| deadline <= now);
                if expired {
                    sender.on_deadline(cfg, now);
                }
                (expired, false)
            }
            TracedSender::Published(sender) => sender.timeout(now as u32),
        }
    }
}

/// RTO_low and RTO_high in nanoseconds, and N.
pub(super) fn timeouts(cfg: &FlowConfig) -> (u32, u32, u8) {
    let ns = |time: Time| (time.as_ps() / 1_000) as u32;
    cfg.timeouts.map_or((0, 0, 0), |timeouts| (ns(timeouts.low), ns(timeouts.high), timeouts.low_packets as u8))
}

/// A response in flight.
#[derive(Clone, Copy, Debug)]
pub(super) struct Response {
    pub(super) expected: Psn,
    /// For a NACK: the PSN of the data packet that triggered it.
    pub(super) trigger: Option<Psn>,
    pub(super) stamp: u32,
}
