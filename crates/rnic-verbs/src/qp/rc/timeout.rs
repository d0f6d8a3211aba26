//! The retransmission timeout of a requester: the program's ACK timeout, or less if round-trip times were measured.

use crate::common::Common;
use rnic_transport::rto::{RtoBounds, RttEstimator};
use rnic_transport::{FlowConfig, Time, Timeouts};

/// Computes the retransmission timeout from round-trip times (RFC 6298), between [`RttTimeout::MIN`] and the ACK
/// timeout of the connection's attributes.
///
/// InfiniBand counts timeouts as retries, so a requester that retransmits earlier would fail earlier. Therefore only a
/// queue pair that fails after a time ([`give_up_after`](crate::SendAttributes::give_up_after)), and not after a number
/// of retries, has this timeout.
pub(super) struct RttTimeout {
    bounds: RtoBounds,
    rtt: RttEstimator,
    /// The timeout that [`RttTimeout::changed`] returned last.
    span: Time,
}

impl RttTimeout {
    /// Minimum timeout: more than the time for which a peer usually waits for a processor.
    const MIN: Time = Time::from_ms(2);
    /// Maximum timeout before the first measurement.
    const INITIAL: Time = Time::from_ms(20);

    /// The timeout of a new connection; `None` if the number of retries limits the connection's life, or if it has no
    /// timeout.
    pub(super) fn new(c: &Common, cfg: &FlowConfig) -> Option<RttTimeout> {
        c.attributes.give_up_after?;
        let max = cfg.timeouts?.high;
        let bounds = RtoBounds { min: RttTimeout::MIN.min(max), initial: RttTimeout::INITIAL.min(max), max };
        Some(RttTimeout { bounds, rtt: RttEstimator::new(), span: Time::ZERO })
    }

    /// Takes over the measurements of `old`, for other attributes of the same connection.
    pub(super) fn continued(self, old: Option<&RttTimeout>) -> RttTimeout {
        RttTimeout { rtt: old.map_or(self.rtt, |old| old.rtt), ..self }
    }

    /// Adds a measured round-trip time, of a packet that was sent once (Karn's algorithm, RFC 6298, section 3).
    pub(super) fn sample(&mut self, rtt: Time) {
        self.rtt.sample(rtt);
    }

    /// The smoothed round-trip time; `None` before the first measurement.
    pub(super) fn smoothed(&self) -> Option<Time> {
        self.rtt.smoothed()
    }

    /// Doubles the timeout after it has expired.
    pub(super) fn back_off(&mut self) {
        self.rtt.back_off();
    }

    /// The timeout, as the flow takes it; `None` if it is the same as after the last call. In a fast network it is the
    /// minimum after nearly every measurement.
    pub(super) fn changed(&mut self) -> Option<Timeouts> {
        let span = self.rtt.timeout(&self.bounds);
        let is_new = span != std::mem::replace(&mut self.span, span);
        is_new.then_some(Timeouts { high: span, low: span, low_packets: 0, dynamic: None })
    }
}

/// What a requester sends after a timeout: only the first unacknowledged packet, until the peer responds. A peer that
/// is slow, and not deaf, would otherwise get all packets in flight repeatedly.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) enum Probe {
    /// No timeout has expired since the last response.
    None,
    /// A timeout has expired, and the packet is to be sent.
    Due,
    /// The packet was sent. No other packet is sent before the peer responds, or the next timeout expires.
    Sent,
}
