//! Settings that all flows of a run share; passed by reference so that flow state stays small.

use crate::rto::{RtoBounds, RttEstimator};
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
    /// as `high`, if that is not less, and doubles with each timeout in a row.
    pub dynamic: Option<Time>,
}

impl Timeouts {
    /// The timeout that applies with so many packets in flight; `rtt` is what the source has measured.
    #[inline]
    pub fn span(&self, in_flight: u32, rtt: &RttEstimator) -> Time {
        match self.dynamic {
            Some(min) => {
                let initial = self.high.max(min);
                let max = Time::from_ps(initial.as_ps().saturating_mul(Timeouts::MOST));
                rtt.timeout(&RtoBounds { min, initial, max })
            }
            None if in_flight <= self.low_packets => self.low,
            None => self.high,
        }
    }

    /// A dynamic timeout grows to at most this many times its first value.
    const MOST: u64 = 64;
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

/// How a TCP (iWARP) connection behaves. Its retransmission timer always runs.
#[derive(Clone, Copy, PartialEq, Debug)]
pub struct TcpConfig {
    /// Selective acknowledgements and the recovery of RFC 6675; without, NewReno (RFC 6582).
    pub sack: bool,
    /// Longest delay of an acknowledgement, `None`: every segment is acknowledged at once. With it, every second one is
    /// (RFC 5681 section 4.2).
    pub delayed_acks: Option<Time>,
    /// Initial congestion window in segments, `None`: what RFC 5681 section 3.1 makes of the segment size.
    pub initial_window: Option<u32>,
    /// The receiver's buffer in bytes: bounds what is in flight, to at least one segment and at most
    /// [`Psn::MAX_WINDOW`].
    pub receive_window: u32,
    /// Shortest retransmission timeout.
    pub rto_min: Time,
    /// Retransmission timeout before the first RTT measurement, and of a first SYN.
    pub rto_initial: Time,
    /// Longest retransmission timeout.
    pub rto_max: Time,
    /// Set up the connection first, which takes a round trip. Without, it exists already.
    pub handshake: bool,
    /// Duplicate acknowledgements, or segments reported above it, that prove a segment lost; at least 1.
    pub dup_thresh: u32,
}

impl TcpConfig {
    /// A delay of acknowledgements fit for a data center: the 0.5 s that RFC 5681 section 4.2 allows at most, a thousandth of
    /// it.
    pub const DELAYED_ACK: Time = Time::from_us(500);

    /// Initial congestion window in bytes for segments of `mss` bytes.
    pub fn initial_window_bytes(&self, mss: u32) -> u32 {
        let segments = self.initial_window.unwrap_or(match mss {
            0..=1_095 => 4,
            1_096..=2_190 => 3,
            _ => 2,
        });
        segments.max(1).saturating_mul(mss)
    }

    /// Segments of `mss` bytes that the receive window takes.
    pub fn receive_window_segments(&self, mss: u32) -> u32 {
        (self.receive_window / mss).clamp(1, Psn::MAX_WINDOW)
    }

    /// The bounds of the retransmission timeout.
    pub fn rto_bounds(&self) -> RtoBounds {
        RtoBounds { min: self.rto_min, initial: self.rto_initial, max: self.rto_max }
    }
}

/// The timeouts are those of RFC 6298 (1 s, 1 s and 60 s), a thousandth of them.
impl Default for TcpConfig {
    fn default() -> TcpConfig {
        TcpConfig {
            sack: true,
            delayed_acks: None,
            initial_window: None,
            receive_window: 4_000_000,
            rto_min: Time::from_ms(1),
            rto_initial: Time::from_ms(1),
            rto_max: Time::from_ms(60),
            handshake: false,
            dup_thresh: 3,
        }
    }
}

/// What every flow of a run has in common.
#[derive(Clone, PartialEq, Debug)]
pub struct FlowConfig {
    /// Payload bytes of a full packet.
    pub mtu: u32,
    /// Header and trailer bytes of a data packet.
    pub header: u32,
    /// Rate of the hosts' links, the fastest if they differ; flows start at it.
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
    /// TCP: how connections behave.
    pub tcp: TcpConfig,
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
            tcp: TcpConfig::default(),
        }
    }
}
