//! HPCC as a message transport, in fixed-point arithmetic: in-band telemetry about queues and rates controls the
//! sender's window.
//!
//! Source: Y. Li et al., "HPCC: high precision congestion control", SIGCOMM 2019, algorithm 1. Fractions are
//! fixed-point numbers with 16 fractional bits (1.0 is 65,536). A division is a multiplication by a reciprocal from a
//! table of 256 entries, which is indexed by the leading bits of the divisor; its relative error is at most 0.2 %.

use super::NativeHeader;
use crate::message::PacketHeader;
use crate::message::flags::{ACK, DATA, NACK};
use crate::message::primitives::DualPort;
use crate::message::{
    Arrival, Blocks, CreditToBtxEvent, CtrlPktEvent, DeliveredEvent, Departure, Framed, Pipeline, Verdict, slot,
};
use crate::telemetry::{HopRecord, Records, Telemetry};
use serde::{Deserialize, Serialize};

/// The number 1.0 in fixed-point arithmetic with 16 fractional bits.
const ONE: u64 = 1 << 16;

/// Reciprocals of the divisors from 1.0 to 2.0 in 256 intervals: entry n is 2^16 divided by the middle of interval n.
const RECIPROCALS: [u32; 256] = {
    let mut table = [0; 256];
    let mut at = 0;
    while at < 256 {
        let twice = 513 + 2 * at as u32; // the middle of the interval, times 512
        table[at] = ((1 << 25) + twice / 2) / twice;
        at += 1;
    }
    table
};

/// `a` / `b` as a fixed-point number; `b` must not be 0. The P4 program uses tables to find the exponent of `b` and the
/// eight bits after the leading 1 bit of `b`.
#[inline]
fn quotient(a: u64, b: u32) -> u64 {
    let exponent = b.ilog2();
    let leading = (u64::from(b) << 32 >> exponent >> 24) as usize & 0xff;
    (a * u64::from(RECIPROCALS[leading])) >> exponent
}

/// The settings of HPCC, which are the same for all NICs of a simulation run.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct HpccSettings {
    /// Payload of a full packet in bytes.
    pub mtu: u32,
    /// Number of packets that a message sends before the receiver's first response, and maximum window in packets.
    pub rtt_pkts: u32,
    /// Round-trip time without queueing (T), in nanoseconds; at least 1.
    pub base_rtt_ns: u32,
    /// Additive increase of the window per step (W_AI), in bytes.
    pub additive_bytes: u32,
    /// Target utilization (eta), as a fixed-point number: 0.95 is 62,259.
    pub target: u32,
    /// Maximum number of consecutive additive steps (maxStage).
    pub max_stages: u32,
}

/// The header of HPCC packets.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default, Serialize, Deserialize)]
pub struct HpccHeader<const N: usize = { Telemetry::MAX_HOPS }> {
    /// The header fields that the packets of all Rust programs have.
    pub native: NativeHeader,
    /// Data packet: the records of the switches that it has passed. ACK and NACK: the telemetry of the data packet that
    /// caused the ACK or NACK.
    pub echo: Records<N>,
}

impl<const N: usize> PacketHeader for HpccHeader<N> {
    const TELEMETRY: bool = true;

    #[inline]
    fn stamp(&mut self, hop: HopRecord) {
        self.echo.push(hop);
    }
}

/// Length in bytes of a header without telemetry: Ethernet, IPv4, and 23 bytes of HPCC, as in the equivalent P4
/// program.
const HEADER_BYTES: u32 = 57;

/// Length in bytes of a telemetry record in an ACK or NACK.
const RECORD_BYTES: u32 = 16;

/// Telemetry that the receiver keeps from the arrival of a data packet (ingress) until its ACK or NACK departs
/// (egress), and the identity of this ACK or NACK.
#[derive(Clone, Copy, Debug, Default)]
struct Echo<const N: usize> {
    dst_ip: u32,
    tx_msg_id: u32,
    telemetry: Records<N>,
}

/// Number of ACKs and NACKs whose telemetry the NIC can store until they are sent. If more ACKs and NACKs wait for the
/// link, the oldest lose their telemetry.
const ECHOES: usize = 256;

/// HPCC's state of a message at its sender.
#[derive(Clone, Copy, Debug, Default)]
struct Flow<const N: usize> {
    /// Id of the message.
    tx_msg_id: u32,
    /// Whether the first response (ACK or NACK) to the message has arrived. From the second on the sender can compute
    /// the utilisation of a link, because this takes the difference of two telemetry records.
    started: bool,
    /// The reference window (W_c), in bytes.
    reference: u32,
    /// The utilization (U), as a fixed-point number.
    utilization: u32,
    /// Number of additive steps since the last multiplicative step.
    stage: u32,
    /// All packets before this index may be sent.
    credit: u32,
    /// The round trip ends when all packets before this index have arrived.
    round_ends: u32,
    /// Telemetry in the latest ACK or NACK of the message, with which the next is compared.
    last: Records<N>,
}

/// The computation of HPCC's window, with its constants.
#[derive(Clone, Copy, Debug)]
struct Algorithm {
    settings: HpccSettings,
    /// 2^32 / T, where T is the round-trip time in nanoseconds: a multiplication by this number replaces a division by
    /// T.
    per_rtt: u64,
    /// 2^40 / mtu, rounded up: a multiplication by this number replaces a division by the MTU. Quotients are exact
    /// while window times MTU is below 2^40.
    per_mtu: u64,
}

impl Algorithm {
    fn new(settings: HpccSettings) -> Algorithm {
        Algorithm {
            settings,
            per_rtt: (1 << 32) / u64::from(settings.base_rtt_ns.max(1)),
            per_mtu: (1u64 << 40).div_ceil(settings.mtu.into()),
        }
    }

    /// The maximum window in bytes, limited so that its products with fixed-point numbers fit into 64 bits.
    #[inline]
    fn max_window(&self) -> u64 {
        (u64::from(self.settings.rtt_pkts.min(1 << 22)) * u64::from(self.settings.mtu)).min(1 << 28)
    }

    /// Handles the telemetry of an ACK or NACK; returns the message's new credit.
    fn on_reply<const N: usize>(&self, flow: &mut Flow<N>, tx_msg_id: u32, ack_no: u32, echo: &Records<N>) -> u32 {
        let mut window = self.max_window();
        if !flow.started || flow.tx_msg_id != tx_msg_id {
            *flow = Flow {
                tx_msg_id,
                started: true,
                reference: window as u32,
                utilization: ONE as u32,
                credit: self.settings.rtt_pkts,
                round_ends: self.settings.rtt_pkts,
                last: *echo,
                ..Flow::default()
            };
        } else {
            self.measure(flow, echo);
            window = self.window(flow, ack_no);
        }
        let packets = ((window * self.per_mtu) >> 40).max(1) as u32;
        flow.credit = flow.credit.max(ack_no.saturating_add(packets));
        flow.credit
    }

    /// `MeasureInflight` of algorithm 1 in the HPCC paper: updates the moving average of the utilization of the most
    /// utilized link. The average spans about one round trip.
    fn measure<const N: usize>(&self, flow: &mut Flow<N>, echo: &Records<N>) {
        let (mut max, mut span) = (0, 0);
        let same_path = echo.hops().len() == flow.last.hops().len();
        for (now, before) in echo.hops().iter().zip(flow.last.hops()).filter(|_| same_path) {
            let elapsed = now.timestamp_ns.wrapping_sub(before.timestamp_ns);
            if elapsed as i32 <= 0 || now.rate_mbps == 0 {
                return; // the record is not newer than the last one, or does not come from a switch
            }
            let hop = self.hop_utilization(now, before, elapsed);
            if hop > max {
                (max, span) = (hop, elapsed);
            }
        }
        // The fraction of a round trip that the measurement covers.
        let share = ((u64::from(span.min(self.settings.base_rtt_ns)) * self.per_rtt) >> 16).min(ONE);
        flow.utilization = ((u64::from(flow.utilization) * (ONE - share) + max * share) >> 16) as u32;
        flow.last = *echo;
    }

    /// The utilization of a link as a fixed-point number, at most 256: the link's transmission rate plus its queue
    /// length per round-trip time, divided by its capacity.
    #[inline]
    fn hop_utilization(&self, now: &HopRecord, before: &HopRecord, elapsed: u32) -> u64 {
        let sent = now.tx_bytes.wrapping_sub(before.tx_bytes);
        let queue = now.queue_bytes.min(before.queue_bytes);
        // Transmission rate plus queue per round trip, in bytes per nanosecond; at most 256 (2 Tbit/s).
        let per_ns = (quotient(sent.into(), elapsed) + ((u64::from(queue) * self.per_rtt) >> 16)).min(256 * ONE);
        // Converts the rate of the link: one byte per nanosecond is 8,000 Mbit/s.
        (quotient(per_ns * 8_000, now.rate_mbps) >> 16).min(256 * ONE)
    }

    /// `ComputeWind` of algorithm 1 in the HPCC paper: returns the window in bytes. Once per round trip the window
    /// becomes the reference window, from which the next windows are computed.
    fn window<const N: usize>(&self, flow: &mut Flow<N>, ack_no: u32) -> u64 {
        let HpccSettings { target, max_stages, additive_bytes, .. } = self.settings;
        let multiplicative = flow.utilization >= target || flow.stage >= max_stages;
        let mut window = u64::from(flow.reference);
        if multiplicative {
            // The minimum utilization of 1/64 limits the growth of the window on an idle path.
            window = (window * quotient(target.into(), flow.utilization.max(ONE as u32 / 64))) >> 16;
        }
        window = (window + u64::from(additive_bytes)).min(self.max_window());
        if ack_no > flow.round_ends {
            flow.stage = if multiplicative { 0 } else { flow.stage + 1 };
            flow.reference = window as u32;
            flow.round_ends = flow.credit;
        }
        window
    }
}

/// The transport program of HPCC. In its ACKs and NACKs `pkt_offset` is the index of the packet that arrived, whole or
/// trimmed. `credit` is the index of the first missing packet, and `rank` is the index of the stored telemetry to echo.
///
/// ```
/// use rnic_transport::Time;
/// use rnic_transport::message::programs::{Hpcc, HpccSettings};
/// use rnic_transport::message::{Message, MessageNic, NicConfig};
///
/// let cfg = NicConfig::default();
/// let settings = HpccSettings {
///     mtu: cfg.mtu,
///     rtt_pkts: cfg.rtt_pkts,
///     base_rtt_ns: 525,
///     additive_bytes: 80,
///     target: 62_259, // 0.95
///     max_stages: 5,
/// };
/// let mut nic = MessageNic::new(&cfg, Hpcc::new(0, settings));
/// nic.send(&cfg, Time::ZERO, &Message { dst_ip: 1, bytes: 20_000, ..Message::default() })?;
/// let data = nic.poll_transmit(&cfg, Time::ZERO).unwrap();
/// assert_eq!((data.priority, data.payload), (1, 1_024));
/// # Ok::<(), rnic_transport::message::NoBuffer>(())
/// ```
#[derive(Clone, Debug)]
pub struct Hpcc<const N: usize = { Telemetry::MAX_HOPS }> {
    ip: u32,
    algorithm: Algorithm,
    /// Telemetry of the ACKs and NACKs that wait for the link.
    echoes: Vec<Echo<N>>,
    /// Index in `echoes` of the next ACK or NACK.
    next_echo: u8,
    /// Id of the message that is sent from each slot. Egress writes it; ingress reads it to detect responses to an
    /// earlier message in the same slot.
    current: DualPort,
    /// HPCC's state of the message that is sent from each slot. The equivalent P4 program has a register array for each
    /// field.
    flows: Vec<Flow<N>>,
}

impl Hpcc {
    /// The program of the NIC with address `ip`.
    pub fn new(ip: u32, settings: HpccSettings) -> Hpcc {
        Hpcc::for_paths(ip, settings)
    }
}

impl<const N: usize> Hpcc<N> {
    /// The program of the NIC with address `ip`, in a network whose paths have at most `N` switches: fewer than in
    /// general make packets smaller.
    pub fn for_paths(ip: u32, settings: HpccSettings) -> Hpcc<N> {
        Hpcc {
            ip,
            algorithm: Algorithm::new(settings),
            echoes: Vec::new(),
            next_echo: 0,
            current: DualPort::default(),
            flows: Vec::new(),
        }
    }

    fn data<B: Blocks>(&mut self, blocks: &mut B, header: &HpccHeader<N>, arrival: &Arrival<'_>) -> Verdict {
        // Records are in the header, unless the network has a field of its own for them.
        let telemetry = arrival.telemetry.map_or(header.echo, Records::of);
        let header = &header.native;
        let info = blocks.get_rx_msg_info(&header.request(!arrival.trimmed));
        if info.fail {
            return Verdict::Consumed;
        }
        let is_missing = arrival.trimmed && info.is_new_pkt;
        blocks.ctrl_pkt(&CtrlPktEvent {
            credit: info.ack_no,
            rank: self.keep(header, telemetry),
            immediate: if is_missing { NACK } else { ACK },
            ..header.reply()
        });
        if !info.is_new_pkt || arrival.trimmed {
            return Verdict::Consumed;
        }
        Verdict::Reassemble { rx_msg_id: info.rx_msg_id, pkt_offset: header.pkt_offset, is_last_pkt: info.is_last_pkt }
    }

    /// Stores the telemetry of a data packet until its ACK or NACK departs; returns its index in `echoes`.
    #[inline]
    fn keep(&mut self, header: &NativeHeader, telemetry: Records<N>) -> u8 {
        if self.echoes.is_empty() {
            self.echoes.resize(ECHOES, Echo::default());
        }
        let index = self.next_echo;
        self.next_echo = index.wrapping_add(1);
        self.echoes[usize::from(index)] = Echo { dst_ip: header.src_ip, tx_msg_id: header.tx_msg_id, telemetry };
        index
    }

    fn control<B: Blocks>(&mut self, blocks: &mut B, header: &HpccHeader<N>) -> Verdict {
        let NativeHeader { tx_msg_id, pkt_offset, credit: ack_no, .. } = header.native;
        let slot = slot(tx_msg_id);
        if self.current.read(slot) != u64::from(tx_msg_id) {
            return Verdict::Consumed;
        }
        let is_nack = header.native.has(NACK);
        blocks.delivered(&DeliveredEvent { tx_msg_id, before: ack_no, pkt_offset, bitmap: u64::from(!is_nack) });
        if slot >= self.flows.len() {
            self.flows.resize((slot + 1).next_power_of_two(), Flow::default());
        }
        let credit = self.algorithm.on_reply(&mut self.flows[slot], tx_msg_id, ack_no, &header.echo);
        let (bitmap, credit) = (is_nack.into(), Some(credit));
        blocks.credit_to_btx(&CreditToBtxEvent { tx_msg_id, pkt_offset, bitmap, credit });
        Verdict::Consumed
    }
}

impl<const N: usize> Pipeline for Hpcc<N> {
    type Header = HpccHeader<N>;

    fn ingress<B: Blocks>(&mut self, blocks: &mut B, header: &HpccHeader<N>, arrival: &Arrival<'_>) -> Verdict {
        if arrival.returned {
            header.native.on_returned(blocks)
        } else if header.native.has(DATA) {
            self.data(blocks, header, arrival)
        } else {
            self.control(blocks, header)
        }
    }

    /// Length of the header in bytes, which grows with its number of telemetry records.
    #[inline]
    fn header_bytes(header: &HpccHeader<N>) -> u32 {
        HEADER_BYTES + RECORD_BYTES * header.echo.hops().len() as u32
    }

    /// Fills in the header. Control packets have priority 0, data packets priority 1.
    #[inline]
    fn egress(&mut self, departure: &Departure) -> Framed<HpccHeader<N>> {
        let is_data = departure.flags & DATA != 0;
        let mut header = HpccHeader { native: NativeHeader::of(self.ip, departure), echo: Records::default() };
        if departure.is_new_msg {
            self.current.write(slot(departure.tx_msg_id), departure.tx_msg_id.into());
        }
        if let Some(echo) = self.echoes.get(usize::from(departure.rank)).filter(|_| !is_data)
            && (echo.dst_ip, echo.tx_msg_id) == (departure.dst_ip, departure.tx_msg_id)
        {
            header.echo = echo.telemetry;
        }
        Framed { header, priority: u8::from(is_data) }
    }
}
