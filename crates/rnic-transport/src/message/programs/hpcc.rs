//! HPCC on messages: the sender sizes its window by what switches report of their queues and rates, in integers.
//!
//! Y. Li et al.: HPCC: high precision congestion control, SIGCOMM 2019, algorithm 1. Numbers that are fractions there have 16 binary places
//! here (1.0 is 65,536). A quotient is the product with a reciprocal out of a table of 256, found by the divisor's leading bits; it is right to
//! 0.2 %.

use super::NativeHeader;
use crate::message::flags::{ACK, DATA, NACK};
use crate::message::primitives::DualPort;
use crate::message::{
    Arrival, Blocks, CreditToBtxEvent, CtrlPktEvent, DeliveredEvent, Departure, Framed, Pipeline, Verdict, slot,
};
use crate::telemetry::{HopRecord, Telemetry};

/// 1.0 as a fraction.
const ONE: u64 = 1 << 16;

/// Reciprocals of 1.0 to 2.0: that of the middle of each 256th, times 2^16.
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

/// `a` / `b` as a fraction; `b` is not 0. The power of two below `b` and the eight bits behind its leading one are found by tables in P4.
#[inline]
fn quotient(a: u64, b: u32) -> u64 {
    let exponent = b.ilog2();
    let leading = (u64::from(b) << 32 >> exponent >> 24) as usize & 0xff;
    (a * u64::from(RECIPROCALS[leading])) >> exponent
}

/// What is the same for all NICs.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct HpccSettings {
    /// Payload of a packet in bytes.
    pub mtu: u32,
    /// Packets that a message sends before it has an answer; as many bytes are the largest window.
    pub rtt_pkts: u32,
    /// Round trip without queues (T), in nanoseconds; at least 1.
    pub base_rtt_ns: u32,
    /// Bytes that are added to the window at each step (W_AI).
    pub additive_bytes: u32,
    /// Utilisation to aim for (eta), as a fraction: 0.95 is 62,259.
    pub target: u32,
    /// Steps of additive increase in a row (maxStage).
    pub most_stages: u32,
}

/// What HPCC's packets bear.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct HpccHeader {
    /// As other programs' packets.
    pub native: NativeHeader,
    /// ACK, NACK: what switches wrote into the packet that caused it.
    pub echo: Telemetry,
}

/// Telemetry on its way from a data packet (ingress) to the answer (egress), and whose it is.
#[derive(Clone, Copy, Debug, Default)]
struct Echo {
    dst_ip: u32,
    tx_msg_id: u32,
    telemetry: Telemetry,
}

/// Answers that may wait for the wire with their telemetry. In a longer queue the oldest go without.
const ECHOES: usize = 256;

/// A message's state at its sender.
#[derive(Clone, Copy, Debug, Default)]
struct Flow {
    /// The message whose state it is.
    tx_msg_id: u32,
    /// There was an answer.
    started: bool,
    /// The reference window (W_c), in bytes.
    reference: u32,
    /// Utilisation (U), a fraction.
    utilisation: u32,
    /// Steps of additive increase since the last multiplicative one.
    stage: u32,
    /// Packets before this one may be sent.
    credit: u32,
    /// When all packets before this one have arrived, a round trip is over.
    round_ends: u32,
    /// The latest telemetry.
    last: Telemetry,
}

/// The rules of the window, with their constants.
#[derive(Clone, Copy, Debug)]
struct Algorithm {
    settings: HpccSettings,
    /// 2^32 / T.
    per_rtt: u64,
    /// 2^40 / mtu, rounded up: it gives exact quotients while window times mtu is below 2^40.
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

    /// The largest window, in bytes: a product with 2^16 fits 64 bits with room.
    #[inline]
    fn largest_window(&self) -> u64 {
        (u64::from(self.settings.rtt_pkts.min(1 << 22)) * u64::from(self.settings.mtu)).min(1 << 28)
    }

    /// Takes in an answer; returns the credit that follows from it.
    fn answered(&self, flow: &mut Flow, tx_msg_id: u32, ack_no: u32, echo: &Telemetry) -> u32 {
        let mut window = self.largest_window();
        if !flow.started || flow.tx_msg_id != tx_msg_id {
            *flow = Flow {
                tx_msg_id,
                started: true,
                reference: window as u32,
                utilisation: ONE as u32,
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

    /// `MeasureInflight`: the utilisation of the busiest hop since the last answer, averaged over a round trip.
    fn measure(&self, flow: &mut Flow, echo: &Telemetry) {
        let (mut busiest, mut span) = (0, 0);
        let same_path = echo.hops().len() == flow.last.hops().len();
        for (now, before) in echo.hops().iter().zip(flow.last.hops()).filter(|_| same_path) {
            let elapsed = now.timestamp_ns.wrapping_sub(before.timestamp_ns);
            if elapsed as i32 <= 0 || now.rate_mbps == 0 {
                return; // not later than what is known already, or not from a switch
            }
            let used = self.used(now, before, elapsed);
            if used > busiest {
                (busiest, span) = (used, elapsed);
            }
        }
        // The share of a round trip that the measurement covers.
        let share = ((u64::from(span.min(self.settings.base_rtt_ns)) * self.per_rtt) >> 16).min(ONE);
        flow.utilisation = ((u64::from(flow.utilisation) * (ONE - share) + busiest * share) >> 16) as u32;
        flow.last = *echo;
    }

    /// A hop's rate and its queue's worth of rate, as a fraction of its link's: at most 256.
    #[inline]
    fn used(&self, now: &HopRecord, before: &HopRecord, elapsed: u32) -> u64 {
        let sent = now.tx_bytes.wrapping_sub(before.tx_bytes);
        let queue = now.queue_bytes.min(before.queue_bytes);
        // Bytes per nanosecond; at most 2 Tbit/s.
        let per_ns = (quotient(sent.into(), elapsed) + ((u64::from(queue) * self.per_rtt) >> 16)).min(256 * ONE);
        // One byte per nanosecond is 8,000 Mbit/s.
        (quotient(per_ns * 8_000, now.rate_mbps) >> 16).min(256 * ONE)
    }

    /// `ComputeWind`: the window in bytes. Once per round trip it becomes the reference.
    fn window(&self, flow: &mut Flow, ack_no: u32) -> u64 {
        let HpccSettings { target, most_stages, additive_bytes, .. } = self.settings;
        let is_cut = flow.utilisation >= target || flow.stage >= most_stages;
        let mut window = u64::from(flow.reference);
        if is_cut {
            // Not more than 64 times the window, however idle the path is.
            window = (window * quotient(target.into(), flow.utilisation.max(ONE as u32 / 64))) >> 16;
        }
        window = (window + u64::from(additive_bytes)).min(self.largest_window());
        if ack_no > flow.round_ends {
            flow.stage = if is_cut { 0 } else { flow.stage + 1 };
            flow.reference = window as u32;
            flow.round_ends = flow.credit;
        }
        window
    }
}

/// The program. In its ACKs and NACKs `pkt_offset` is the packet that arrived or lost its payload, `credit` the first packet missing, and `rank`
/// the place of its telemetry.
#[derive(Clone, Debug)]
pub struct Hpcc {
    ip: u32,
    algorithm: Algorithm,
    echoes: Vec<Echo>,
    next_echo: u8,
    /// By slot: the message that it holds. Egress writes it, ingress reads it: an answer to another one is an old one.
    current: DualPort,
    /// By slot. In P4, a register for each field.
    flows: Vec<Flow>,
}

impl Hpcc {
    /// The program of the NIC with address `ip`.
    pub fn new(ip: u32, settings: HpccSettings) -> Hpcc {
        Hpcc {
            ip,
            algorithm: Algorithm::new(settings),
            echoes: Vec::new(),
            next_echo: 0,
            current: DualPort::default(),
            flows: Vec::new(),
        }
    }

    fn data<B: Blocks>(&mut self, blocks: &mut B, header: &NativeHeader, arrival: &Arrival<'_>) -> Verdict {
        let info = blocks.get_rx_msg_info(&header.request(!arrival.trimmed));
        if info.fail {
            return Verdict::Consumed;
        }
        let is_missing = arrival.trimmed && info.is_new_pkt;
        blocks.ctrl_pkt(&CtrlPktEvent {
            credit: info.ack_no,
            rank: self.keep(header, arrival.telemetry),
            immediate: if is_missing { NACK } else { ACK },
            ..header.reply()
        });
        if !info.is_new_pkt || arrival.trimmed {
            return Verdict::Consumed;
        }
        Verdict::Reassemble { rx_msg_id: info.rx_msg_id, pkt_offset: header.pkt_offset, is_last_pkt: info.is_last_pkt }
    }

    /// Keeps telemetry for the answer; returns its place.
    #[inline]
    fn keep(&mut self, header: &NativeHeader, telemetry: Option<&Telemetry>) -> u8 {
        if self.echoes.is_empty() {
            self.echoes.resize(ECHOES, Echo::default());
        }
        let place = self.next_echo;
        self.next_echo = place.wrapping_add(1);
        self.echoes[usize::from(place)] = Echo {
            dst_ip: header.src_ip,
            tx_msg_id: header.tx_msg_id,
            telemetry: telemetry.copied().unwrap_or_default(),
        };
        place
    }

    fn control<B: Blocks>(&mut self, blocks: &mut B, header: &HpccHeader) -> Verdict {
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
        let credit = self.algorithm.answered(&mut self.flows[slot], tx_msg_id, ack_no, &header.echo);
        blocks.credit_to_btx(&CreditToBtxEvent { tx_msg_id, rtx: is_nack.then_some(pkt_offset), credit: Some(credit) });
        Verdict::Consumed
    }
}

impl Pipeline for Hpcc {
    type Header = HpccHeader;

    fn ingress<B: Blocks>(&mut self, blocks: &mut B, header: &HpccHeader, arrival: &Arrival<'_>) -> Verdict {
        if arrival.returned {
            header.native.came_back(blocks)
        } else if header.native.has(DATA) {
            self.data(blocks, &header.native, arrival)
        } else {
            self.control(blocks, header)
        }
    }

    /// Control in priority 0, data in 1.
    #[inline]
    fn egress(&mut self, departure: &Departure) -> Framed<HpccHeader> {
        let is_data = departure.flags & DATA != 0;
        let mut header = HpccHeader { native: NativeHeader::of(self.ip, departure), echo: Telemetry::default() };
        if departure.is_new_msg {
            self.current.write(slot(departure.tx_msg_id), departure.tx_msg_id.into());
        }
        if let Some(echo) = self.echoes.get(usize::from(departure.rank)).filter(|_| !is_data)
            && (echo.dst_ip, echo.tx_msg_id) == (departure.dst_ip, departure.tx_msg_id)
        {
            header.echo = echo.telemetry;
        }
        Framed { header, band: u8::from(is_data) }
    }
}
