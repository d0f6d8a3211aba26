//! Settings that all flows of a run share; passed by reference so that flow state stays small.

use crate::{BitRate, Psn, Time};

/// Retransmission timeouts.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Timeouts {
    /// The timeout: RoCE's only one, IRN's `RTO_high`.
    pub high: Time,
    /// IRN's `RTO_low`, used while few packets are in flight.
    pub low: Time,
    /// IRN's N: `low` applies while at most this many packets are in flight.
    pub low_packets: u32,
    /// Instead of the fixed ones: a timeout computed from round-trip times as TCP does (RFC 6298), at least this long; it begins
    /// as `high` and doubles with each timeout in a row.
    pub dynamic: Option<Time>,
}

impl Timeouts {
    /// The fixed timeout that applies with so many packets in flight.
    pub fn span(&self, in_flight: u32) -> Time {
        if in_flight <= self.low_packets { self.low } else { self.high }
    }
}

/// When a go-back-N receiver sends a NACK.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub enum NackPolicy {
    /// For the first packet out of order; no further one until order resumes (InfiniBand).
    #[default]
    First,
    /// For every packet out of order.
    Every,
}

/// What every flow of a run has in common.
#[derive(Clone, PartialEq, Debug)]
pub struct FlowConfig {
    /// Payload bytes of a full packet.
    pub mtu: u32,
    /// Header and trailer bytes of a data packet.
    pub header: u32,
    /// Rate of the hosts' links, the slowest if they differ; flows start at it.
    pub line_rate: BitRate,
    /// Round-trip time of the longest path on an empty fabric.
    pub base_rtt: Time,
    /// Bandwidth-delay product of the longest path, in packets.
    pub bdp: u32,
    /// BDP-FC: most packets in flight; [`Psn::MAX_WINDOW`] where there is no such cap.
    pub bdp_cap: u32,
    /// IRN: the source keeps a bitmap of what is selectively acknowledged. Without, it learns of one loss per round trip.
    pub sack: bool,
    /// Retransmission timeouts, `None`: off (a lossless fabric).
    pub timeouts: Option<Timeouts>,
    /// Go-back-N: acknowledge every data packet. Without (the all-Reads extreme) the data sink owns the timer.
    pub acks: bool,
    /// Go-back-N: which packets out of order earn a NACK.
    pub nacks: NackPolicy,
    /// The sink sends a congestion notification for marked packets, at most one in this time; `None`: it sends none.
    pub cnp_interval: Option<Time>,
    /// A flow never sends its frames (frame gap not counted) faster than this, `None`: than its host's link.
    pub max_rate: Option<BitRate>,
    /// Sequence number of every flow's first packet; results do not depend on it.
    pub first_psn: Psn,
}

impl FlowConfig {
    /// Packets that `bytes` of payload take.
    pub fn packets(&self, bytes: u64) -> u64 {
        bytes.div_ceil(u64::from(self.mtu)).max(1)
    }
}

/// The default case of the IRN paper (section 4.1), used by tests and documentation.
impl Default for FlowConfig {
    fn default() -> FlowConfig {
        FlowConfig {
            mtu: 1_024,
            header: crate::headers::ROCE_DATA,
            line_rate: BitRate::from_gbps(40),
            base_rtt: Time::from_us(24),
            bdp: 111,
            bdp_cap: 111,
            sack: true,
            timeouts: Some(Timeouts {
                high: Time::from_us(320),
                low: Time::from_us(100),
                low_packets: 3,
                dynamic: None,
            }),
            acks: true,
            nacks: NackPolicy::First,
            cnp_interval: None,
            max_rate: None,
            first_psn: Psn::new(0),
        }
    }
}
