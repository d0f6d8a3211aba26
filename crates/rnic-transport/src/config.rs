//! Settings that all flows of a simulation, or of an endpoint with real sockets, share. The functions of a flow's
//! sender and receiver take these settings by reference, so that each flow's own state stays small.

use crate::paths::PathConfig;
use crate::rto::{RtoBounds, RttEstimator};
use crate::{BitRate, Psn, Time};

/// Retransmission timeouts.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Timeouts {
    /// The timeout while more than `low_packets` packets of the flow are in flight: IRN's `RTO_high`. A protocol with a
    /// single fixed timeout, such as RoCE, has `low` = `high`.
    pub high: Time,
    /// The timeout while at most `low_packets` packets of the flow are in flight: IRN's `RTO_low`.
    pub low: Time,
    /// Maximum number of packets in flight at which the timeout is `low`: IRN's N.
    pub low_packets: u32,
    /// `None`: the timeout is `low` or `high`. `Some(min)`: the timeout is computed from measured round-trip times,
    /// like TCP's (RFC 6298), and is at least `min`. Before the first measurement it is the larger of `high` and `min`.
    /// Each consecutive timeout doubles it.
    pub dynamic: Option<Time>,
}

impl Timeouts {
    /// The timeout while `in_flight` packets are in flight. `rtt` holds the sender's measurements of the round-trip
    /// time.
    #[inline]
    pub fn span(&self, in_flight: u32, rtt: &RttEstimator) -> Time {
        match self.dynamic {
            Some(min) => {
                let initial = self.high.max(min);
                let max = Time::from_ps(initial.as_ps().saturating_mul(Timeouts::MAX_GROWTH));
                rtt.timeout(&RtoBounds { min, initial, max })
            }
            None if in_flight <= self.low_packets => self.low,
            None => self.high,
        }
    }

    /// Maximum ratio of a dynamic timeout to its value before the first measurement.
    const MAX_GROWTH: u64 = 64;
}

/// Which responses restart IRN's retransmission timer.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub enum TimerRestart {
    /// Every ACK or NACK, except those older than the last cumulative acknowledgement. So the timer expires only if no
    /// response arrives for the length of the timeout.
    #[default]
    Response,
    /// Only an ACK or NACK that acknowledges further packets cumulatively, as for TCP's timer (RFC 6298, rule 5.3).
    Progress,
}

/// Which out-of-order packets make a go-back-N receiver send a NACK.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub enum NackPolicy {
    /// Only the first out-of-order packet makes the receiver send a NACK. It sends no other NACK until a packet arrives
    /// in order (InfiniBand).
    #[default]
    First,
    /// Every out-of-order packet makes the receiver send a NACK.
    Every,
}

/// Where a go-back-N sender begins again after a NACK.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub enum GoBack {
    /// At the packet that the receiver expects.
    #[default]
    Expected,
    /// At the first packet of the message, because the receiver discards the part of the message that it has: the
    /// go-back-0 of early RoCE NICs ("RDMA over Commodity Ethernet at Scale", section 4.1). A flow is one message.
    First,
}

/// Settings of TCP (iWARP) connections. The retransmission timer of TCP cannot be turned off.
#[derive(Clone, Copy, PartialEq, Debug)]
pub struct TcpConfig {
    /// `true`: selective acknowledgements and the loss recovery of RFC 6675. `false`: NewReno (RFC 6582).
    pub sack: bool,
    /// `Some(delay)`: delayed acknowledgements (RFC 5681 section 4.2). The receiver acknowledges every second segment.
    /// If no second segment arrives, it acknowledges a single segment after `delay`. `None`: the receiver acknowledges
    /// every segment immediately.
    pub delayed_acks: Option<Time>,
    /// Initial congestion window in segments. `None`: RFC 5681 section 3.1 determines it from the segment size.
    pub initial_window: Option<u32>,
    /// Receive window in bytes, which limits the data in flight. It is rounded down to whole segments, at least one and
    /// at most [`Psn::MAX_WINDOW`].
    pub receive_window: u32,
    /// Minimum retransmission timeout.
    pub rto_min: Time,
    /// Retransmission timeout before the first RTT measurement, and of the first SYN.
    pub rto_initial: Time,
    /// Maximum retransmission timeout.
    pub rto_max: Time,
    /// `true`: each flow begins with a handshake (SYN, SYN-ACK) of one round trip. `false`: the connection exists
    /// already.
    pub handshake: bool,
    /// `DupThresh`: a segment counts as lost after this many duplicate acknowledgements, or once this many segments
    /// after it are selectively acknowledged. At least 1.
    pub dup_thresh: u32,
}

impl TcpConfig {
    /// Delay of acknowledgements that suits data centers: a thousandth of the maximum of 0.5 s that RFC 5681 section
    /// 4.2 allows.
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

    /// The receive window in segments of `mss` bytes.
    pub fn receive_window_segments(&self, mss: u32) -> u32 {
        (self.receive_window / mss).clamp(1, Psn::MAX_WINDOW)
    }

    /// The minimum, initial and maximum retransmission timeout.
    pub fn rto_bounds(&self) -> RtoBounds {
        RtoBounds { min: self.rto_min, initial: self.rto_initial, max: self.rto_max }
    }
}

/// The default timeouts are a thousandth of the timeouts in RFC 6298: `rto_min` and `rto_initial` 1 ms, `rto_max` 60
/// ms.
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

/// Settings that all flows of a simulation or endpoint share.
///
/// ```
/// use rnic_transport::{BitRate, FlowConfig};
///
/// let cfg = FlowConfig { line_rate: BitRate::from_gbps(100), bdp_cap: 300, ..FlowConfig::default() };
/// assert_eq!(cfg.mtu, 1_024);
/// assert_eq!(cfg.packets(3_000), 3);
/// ```
#[derive(Clone, PartialEq, Debug)]
pub struct FlowConfig {
    /// Payload of a full packet, in bytes.
    pub mtu: u32,
    /// Headers and trailers of a data packet, in bytes.
    pub header: u32,
    /// Rate of the hosts' links (the fastest, if they differ). Flows start at this rate.
    pub line_rate: BitRate,
    /// Round-trip time of the longest path of the fabric without queueing.
    pub base_rtt: Time,
    /// Bandwidth-delay product (BDP) of the longest path, in packets.
    pub bdp: u32,
    /// BDP-FC, IRN's cap on packets in flight: maximum number of packets of a flow in flight; [`Psn::MAX_WINDOW`] turns
    /// BDP-FC off.
    pub bdp_cap: u32,
    /// IRN: whether the sender keeps a bitmap of selectively acknowledged packets. Without it the sender detects one
    /// loss per round trip.
    pub sack: bool,
    /// IRN: which responses restart the retransmission timer.
    pub timer_restart: TimerRestart,
    /// Retransmission timeouts. `None`: no timeouts (for a lossless fabric).
    pub timeouts: Option<Timeouts>,
    /// Go-back-N: `true`: the receiver acknowledges every data packet and the sender has the retransmission timer.
    /// `false`: there are no ACKs, and the receiver has the timer. This is the case of RDMA Reads: the receiver of the
    /// data is the requester, and it has the timer.
    pub acks: bool,
    /// Go-back-N: which out-of-order packets make the receiver send a NACK.
    pub nacks: NackPolicy,
    /// Go-back-N: where the sender begins again after a NACK or a timeout.
    pub go_back: GoBack,
    /// Minimum time between two congestion notification packets (CNPs) that the receiver sends for CE-marked packets.
    /// `None`: the receiver sends no CNPs.
    pub cnp_interval: Option<Time>,
    /// Minimum time between two CNPs that a NIC sends, over all its flows: the capacity of DCQCN's notification point.
    /// Zero: no limit. The NIC itself keeps this interval, and passes [`RxMeta::cnp_held`](crate::RxMeta::cnp_held) to
    /// the receivers of its flows.
    pub nic_cnp_interval: Time,
    /// Maximum rate of a flow. Headers count towards this rate; preamble and inter-frame gap do not. `None`: only the
    /// host's link limits the rate.
    pub max_rate: Option<BitRate>,
    /// PSN of the first packet of every flow; the results of a simulation do not depend on it.
    pub first_psn: Psn,
    /// iWARP: settings of TCP connections.
    pub tcp: TcpConfig,
    /// Sprayed flows: the path selection of the sender.
    pub paths: PathConfig,
    /// Sprayed flows: reordering tolerance, the time that a packet may arrive later than a packet that departed after
    /// it (`reo_wnd` of RACK, RFC 8985). `None`: only a timeout detects losses.
    pub reorder: Option<Time>,
    /// UET: maximum distance of a packet from the first one that is not acknowledged, in packets, which is the size of
    /// the receiver's bitmap; `None`: twice `bdp_cap`, as for other sprayed flows.
    pub psn_range: Option<u32>,
    /// Whether switches trim data packets that they have no room for, so that the receiver learns of every loss in the
    /// fabric.
    pub trims: bool,
    /// UET: number of packets that one ACK acknowledges, at most 16; 1: the receiver acknowledges each packet.
    pub ack_packets: u32,
    /// UET: whether senders treat packets that the last switch before the receiver trimmed differently from others.
    pub last_hop_trims: bool,
    /// UET: time without a response after which the sender probes; `None`: it does not probe.
    pub probe_after: Option<Time>,
}

impl FlowConfig {
    /// Number of packets of a flow with `bytes` bytes of payload, at least 1.
    pub fn packets(&self, bytes: u64) -> u64 {
        bytes.div_ceil(u64::from(self.mtu)).max(1)
    }
}

/// The default case of the IRN paper (section 4.1): 40 Gbps links, an RTT of 24 us, an MTU of 1 KB. Tests and
/// documentation use it.
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
            timer_restart: TimerRestart::default(),
            timeouts: Some(Timeouts {
                high: Time::from_us(320),
                low: Time::from_us(100),
                low_packets: 3,
                dynamic: None,
            }),
            acks: true,
            nacks: NackPolicy::First,
            go_back: GoBack::Expected,
            cnp_interval: None,
            nic_cnp_interval: Time::ZERO,
            max_rate: None,
            first_psn: Psn::new(0),
            tcp: TcpConfig::default(),
            paths: PathConfig::default(),
            reorder: None,
            trims: false,
            ack_packets: 1,
            last_hop_trims: false,
            probe_after: None,
            psn_range: None,
        }
    }
}
