//! Statistics of single queue pairs, for tools that show what the queue pairs of a device do.

use super::{Qpn, Service, State};
use rnic_transport::{BitRate, Time};
use std::net::SocketAddr;

/// Counters of a queue pair, from its creation on. A reset of the queue pair does not change them.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct QpCounters {
    /// Packets sent, retransmissions and acknowledgements included.
    pub packets_sent: u64,
    /// Payload bytes sent, retransmissions included.
    pub bytes_sent: u64,
    /// Packets received for the queue pair from its peer, including those that it dropped.
    pub packets_received: u64,
    /// Payload bytes of the packets received.
    pub bytes_received: u64,
    /// Data packets retransmitted.
    pub retransmitted: u64,
}

impl QpCounters {
    /// Counts a received packet with `bytes` bytes of payload.
    #[inline]
    pub(crate) fn received(&mut self, bytes: usize) {
        self.packets_received += 1;
        self.bytes_received += bytes as u64;
    }
}

/// The sender of requests of a reliable connection.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct SenderState {
    /// Maximum number of packets in flight: the smaller of the congestion control's window and the device's limit.
    pub window: u32,
    /// Packets sent and not acknowledged.
    pub in_flight: u32,
    /// Maximum sending rate: the smaller of the congestion control's rate and the application's limit.
    pub rate: BitRate,
    /// Round-trip time, smoothed with weight 1/8 of each measurement; on a connection with RC that has no
    /// [`give_up_after`](crate::SendAttributes::give_up_after), the last measurement. `None` before the first one.
    pub rtt: Option<Time>,
}

/// Statistics of a queue pair; see [`Device::qp_statistics`](crate::Device::qp_statistics).
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct QpStatistics {
    /// Queue pair number.
    pub qpn: Qpn,
    /// Transport service.
    pub service: Service,
    /// State of the queue pair.
    pub state: State,
    /// The peer's address and queue pair number; `None` before the connection, and for UD.
    pub peer: Option<(SocketAddr, Qpn)>,
    /// Counters of packets and bytes.
    pub counters: QpCounters,
    /// The sender of requests; `None` without a reliable connection.
    pub sender: Option<SenderState>,
    /// Number of send requests that are not completed, unsignalled requests included.
    pub sends: u32,
    /// Number of receives that are not completed, as in [`QpInfo`](crate::QpInfo).
    pub receives: u32,
}
