//! Compares the Verilog pipelines of a P4 program with the virtual machine, packet by packet.

use crate::model::{Design, Model};
use crate::tools::HwError;
use rand_core::Rng;
use rand_pcg::Pcg64Mcg;
use rnic_nano::rtl::{OutputWords, Rtl};
use rnic_nano::source::SourceFile;
use rnic_nano::{NicParameters, P4Header, P4Pipeline, Program, compile};
use rnic_transport::Time;
use rnic_transport::message::{
    Arrival, Blocks, CreditToBtxEvent, CtrlPktEvent, DeliveredEvent, Departure, Pipeline, RxMsgInfo, RxMsgInfoRequest,
    Verdict,
};
use rnic_transport::random::below;
use rnic_transport::telemetry::{HopRecord, Telemetry};
use std::collections::BTreeMap;
use std::path::Path;

/// The programs in the folder `p4` for which Verilog can be generated, and the files that they include.
const PROGRAMS: [(&str, &str); 5] = [
    ("window", include_str!("../../../p4/window.p4")),
    ("ndp", include_str!("../../../p4/ndp.p4")),
    ("homa", include_str!("../../../p4/homa.p4")),
    ("homa-tr", include_str!("../../../p4/homa-tr.p4")),
    ("hpcc", include_str!("../../../p4/hpcc.p4")),
];
const INCLUDED: [(&str, &str); 5] = [
    ("include/frame.p4", include_str!("../../../p4/include/frame.p4")),
    ("include/quotient.p4", include_str!("../../../p4/include/quotient.p4")),
    ("include/reciprocals.p4", include_str!("../../../p4/include/reciprocals.p4")),
    ("include/parser.p4", include_str!("../../../p4/include/parser.p4")),
    ("homa.p4", include_str!("../../../p4/homa.p4")),
];

/// The programs that this crate contains, each with its name. Arrays that are indexed by message have `messages`
/// registers.
///
/// # Errors
/// A program does not compile. A test checks that this does not happen.
pub fn programs(messages: u128) -> Result<Vec<(&'static str, Program)>, HwError> {
    let include = |path: &str| INCLUDED.iter().find(|(name, _)| *name == path).map(|(_, text)| (*text).to_string());
    let constants = [("MESSAGES".to_string(), messages)];
    let compiled = |name: &str, text: &str, constants: &[(String, u128)]| {
        let main = SourceFile { name: format!("{name}.p4"), text: text.to_string() };
        compile(main, &include, constants).map_err(|error| HwError::Parameter(error.to_string()))
    };
    let sized = PROGRAMS.iter().map(|(name, text)| {
        let program = compiled(name, text, &[])?;
        let has_size = program.hir().constants.iter().any(|(constant, _)| constant == "MESSAGES");
        Ok((*name, if has_size { compiled(name, text, &constants)? } else { program }))
    });
    sized.collect()
}

/// Number of packets that enter without a pause before the results are read.
const BATCH: u64 = 1_000;
/// log2 of the longest time between two packets in nanoseconds. The machine's clock has 64 bits of picoseconds.
const LONG_PAUSE_BITS: u32 = 44;
/// Size of the machine's header buffer in bytes.
const ROOM: usize = 256;

/// The result of a comparison.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Verified {
    /// Packets without a difference, of (ingress, egress).
    pub packets: (u64, u64),
    /// Arriving packets that the parser accepted.
    pub accepted: u64,
    /// Calls of the NIC's blocks.
    pub calls: u64,
    /// Cycles in which these packets were processed.
    pub cycles: u64,
}

/// A call of a block of the NIC: the function and its arguments.
type Call = (&'static str, Vec<u64>);

/// Records the machine's calls, and responds to each request for a message with the same information.
#[derive(Default)]
struct Recorder {
    info: RxMsgInfo,
    calls: Vec<Call>,
}

impl Blocks for Recorder {
    fn get_rx_msg_info(&mut self, r: &RxMsgInfoRequest) -> RxMsgInfo {
        let numbers = [r.src_ip, r.src_context.into(), r.tx_msg_id, r.msg_len, r.pkt_offset, r.mark_received.into()];
        self.calls.push(("get_rx_msg_info", numbers.map(u64::from).to_vec()));
        self.info
    }
    fn delivered(&mut self, e: &DeliveredEvent) {
        let numbers = [e.tx_msg_id, e.before, e.pkt_offset].map(u64::from);
        self.calls.push(("delivered_event", [&numbers[..], &[e.bitmap]].concat()));
    }
    fn credit_to_btx(&mut self, e: &CreditToBtxEvent) {
        // If the bitmap is empty, the number of its first packet has no meaning.
        let offset = if e.bitmap == 0 { 0 } else { e.pkt_offset.into() };
        let (more, credit) = (u64::from(e.credit.is_some()), e.credit.unwrap_or_default().into());
        self.calls.push(("credit_to_btx_event", vec![e.tx_msg_id.into(), offset, e.bitmap, more, credit]));
    }
    fn ctrl_pkt(&mut self, e: &CtrlPktEvent) {
        let numbers = [
            e.dst_ip,
            e.dst_context.into(),
            e.src_context.into(),
            e.tx_msg_id,
            e.msg_len,
            e.pkt_offset,
            e.credit,
            e.rank.into(),
            e.immediate.into(),
            e.paced.into(),
        ];
        self.calls.push(("ctrl_pkt_event", numbers.map(u64::from).to_vec()));
    }
}

/// The result of the machine for a packet.
#[derive(Clone, PartialEq, Eq, Debug)]
enum Expected {
    Ingress { reassemble: Option<(u64, u64, u64)>, calls: Vec<Call> },
    Egress { priority: u64, header: Vec<u8> },
}

/// The bench of a program; `nic` replaces the text of its module, for mutants.
pub fn bench(rtl: &Rtl, nic: Option<&str>) -> Design {
    let files = [("p4_nic.v", nic.unwrap_or(&rtl.nic)), ("p4_bench.v", &rtl.bench)];
    Design {
        top: "p4_bench",
        files: files.map(|(name, text)| (name.to_string(), text.to_string())).to_vec(),
        parameters: Vec::new(),
        words: rtl.words,
    }
}

/// Runs `packets` random packets through the pipelines of `rtl`, in the bench `design`, and through the machine with
/// the program `program`, and compares the results. Headers come from the egress pipeline, and many are altered or
/// truncated. Few messages share the registers, so consecutive packets often use the same entries.
///
/// # Errors
/// A difference, with the packet; Verilator is not installed or refuses the Verilog.
pub fn verify(
    program: &Program, rtl: &Rtl, design: &Design, packets: u64, seed: u64, vcd: Option<&Path>,
) -> Result<Verified, HwError> {
    let nic = NicParameters {
        mac: 0x0250_0000_0001,
        switch_mac: 0x0250_0000_00fe,
        ip: 0x0a00_0001,
        rtt_pkts: 9,
        mtu: 1_024,
        line_rate_mbps: 200_000,
        base_rtt_ns: 525,
    };
    let machine = P4Pipeline::<ROOM>::new(program, &nic).map_err(|error| HwError::Parameter(error.to_string()))?;
    let model = Model::build(design, vcd.is_some())?;
    let mut bench = model.start(vcd)?;
    let random = Pcg64Mcg::new((u128::from(seed) << 64 | 0x0f1e_2d3c_4b5a_6978) | 1);
    let schedules = program.hir().instances.iter().any(|instance| instance.kind == "PriorityScheduler");
    let mut source = Source { random, machine, nic, rtl, schedules, headers: Vec::new(), now: 0 };
    let mut verified = Verified { packets: (0, 0), accepted: 0, calls: 0, cycles: 0 };
    let mut done = 0;
    while done < packets {
        let count = BATCH.min(packets - done);
        let mut steps = Vec::new();
        let expected: Vec<Expected> = (0..count).map(|_| source.packet(&mut steps)).collect();
        let (cycles, results) = bench.run(&steps)?;
        verified.cycles += u64::from(cycles);
        for (index, (expected, words)) in expected.iter().zip(results.chunks(rtl.words.1)).enumerate() {
            let found = decode(rtl, words, &mut verified);
            if *expected != found {
                let number = done + index as u64;
                let step = &steps[index * rtl.words.0..(index + 1) * rtl.words.0];
                return Err(HwError::Differs(format!(
                    "packet {number} of seed {seed}: the machine has {expected:?}, the hardware {found:?}; words of the \
                     step: {step:x?}"
                )));
            }
        }
        done += count;
    }
    Ok(verified)
}

/// Reads a value of `width` bits from the words of a result.
fn read(words: &[u32], at: usize, width: u32) -> u64 {
    let low = u64::from(words[at]);
    if width > 32 { low | u64::from(words[at + 1]) << 32 } else { low }
}

/// Writes a value of `width` bits into the words of a step.
fn write(words: &mut [u32], at: usize, width: u32, value: u64) {
    words[at] = value as u32;
    if width > 32 {
        words[at + 1] = (value >> 32) as u32;
    }
}

/// Decodes the result of the hardware from its words.
fn decode(rtl: &Rtl, words: &[u32], verified: &mut Verified) -> Expected {
    let pipeline = if words[0] & 1 == 1 { &rtl.egress } else { &rtl.ingress };
    let OutputWords { outputs, calls, .. } = pipeline.output_words();
    let output = |name: &str| {
        let at = pipeline.outputs.iter().position(|port| port.name == name);
        at.map_or(0, |at| read(words, outputs[at], pipeline.outputs[at].width))
    };
    if words[0] & 1 == 1 {
        verified.packets.1 += 1;
        let header = egress_header(rtl, words);
        return Expected::Egress { priority: output("out_link_priority") & 0xff, header };
    }
    verified.packets.0 += 1;
    verified.accepted += output("out_accepted");
    let mut made: Vec<Call> = Vec::new();
    for (site, (valid, places)) in pipeline.calls.iter().zip(&calls) {
        if words[*valid] == 0 {
            continue;
        }
        let mut values: Vec<u64> =
            places.iter().zip(&site.arguments).map(|(at, width)| read(words, *at, *width)).collect();
        let function = match site.function.as_str() {
            "get_rx_msg_info" => "get_rx_msg_info",
            "delivered_event" => "delivered_event",
            "ctrl_pkt_event" => "ctrl_pkt_event",
            function => {
                // The event for one packet has a flag and a number, the other one a number and a bitmap. If they are
                // empty, the number has no meaning.
                if function == "credit_to_btx_event" {
                    values.swap(1, 2);
                }
                values[1] *= u64::from(values[2] != 0);
                values[4] *= values[3];
                "credit_to_btx_event"
            }
        };
        made.push((function, values));
    }
    verified.calls += made.len() as u64;
    in_order(&mut made);
    let consumed = output("out_accepted") == 0 || output("out_reassembly_drop") == 1;
    let place = ["out_reassembly_rx_msg_id", "out_reassembly_pkt_offset", "out_reassembly_is_last_pkt"].map(output);
    Expected::Ingress { reassemble: (!consumed).then_some((place[0], place[1], place[2])), calls: made }
}

/// Sorts calls by their functions. The order of calls of different functions has no meaning, because each block of the
/// NIC has its own state; calls of one function keep their order.
fn in_order(calls: &mut [Call]) {
    calls.sort_by_key(|(function, _)| *function);
}

/// The inputs of a pipeline by name, as words of a step.
fn step(rtl: &Rtl, kind: u32, values: &BTreeMap<&str, u64>, header: &[u8], info: u64) -> Vec<u32> {
    let pipeline = if kind == 1 { &rtl.egress } else { &rtl.ingress };
    let mut words = vec![0; rtl.words.0];
    words[0] = kind;
    let places = pipeline.input_words();
    for (port, at) in pipeline.inputs.iter().zip(&places) {
        if port.name == "header" {
            let total = port.width as usize / 8;
            for (index, byte) in header.iter().take(total).enumerate() {
                let bit = 8 * (total - 1 - index);
                words[at + bit / 32] |= u32::from(*byte) << (bit % 32);
            }
        } else {
            write(&mut words, *at, port.width, values.get(port.name.as_str()).copied().unwrap_or_default());
        }
    }
    write(&mut words, places[places.len() - 1], 64, info);
    words
}

/// The NIC's parameters by the names of ports.
fn named(nic: &NicParameters) -> BTreeMap<&'static str, u64> {
    let name = |name: &'static str| match name {
        "nic.mac" => "nic_mac",
        "nic.switch_mac" => "nic_switch_mac",
        "nic.ip" => "nic_ip",
        "nic.rtt_pkts" => "nic_rtt_pkts",
        "nic.mtu" => "nic_mtu",
        "nic.line_rate_mbps" => "nic_line_rate_mbps",
        "nic.base_rtt_ns" => "nic_base_rtt_ns",
        "nic.per_mtu" => "nic_per_mtu",
        "nic.per_rtt" => "nic_per_rtt",
        other => other,
    };
    nic.named().into_iter().map(|(key, value)| (name(key), value)).collect()
}

/// The words of a step of the bench for a departing packet.
pub fn egress_step(rtl: &Rtl, nic: &NicParameters, d: &Departure) -> Vec<u32> {
    let mut values = named(nic);
    values.extend([
        ("departure_now_ns", d.now.as_ps() / 1_000),
        ("departure_dst_ip", d.dst_ip.into()),
        ("departure_dst_context", d.dst_context.into()),
        ("departure_src_context", d.src_context.into()),
        ("departure_tx_msg_id", d.tx_msg_id.into()),
        ("departure_msg_len", d.msg_len.into()),
        ("departure_pkt_offset", d.pkt_offset.into()),
        ("departure_credit", d.credit.into()),
        ("departure_rank", d.rank.into()),
        ("departure_flags", d.flags.into()),
        ("departure_is_new_msg", d.is_new_msg.into()),
        ("departure_is_rtx", d.is_rtx.into()),
        ("departure_payload", d.payload.into()),
    ]);
    step(rtl, 1, &values, &[], 0)
}

/// The header of a departing packet in the words of a result of the bench.
pub fn egress_header(rtl: &Rtl, words: &[u32]) -> Vec<u8> {
    let pipeline = &rtl.egress;
    let OutputWords { outputs, .. } = pipeline.output_words();
    let place = |name: &str| pipeline.outputs.iter().position(|port| port.name == name);
    let Some(at) = place("out_header") else { return Vec::new() };
    let bytes = pipeline.outputs[at].width as usize / 8;
    let byte = |index: usize| (words[outputs[at] + index / 4] >> (8 * (index % 4))) as u8;
    let present = place("out_header_bytes").map_or(bytes, |length| words[outputs[length]] as usize);
    (0..bytes).rev().map(byte).take(present).collect()
}

/// Generates random packets, each of which the machine processes first.
struct Source<'r> {
    random: Pcg64Mcg,
    machine: P4Pipeline<ROOM>,
    nic: NicParameters,
    rtl: &'r Rtl,
    /// Whether the program has a scheduler.
    schedules: bool,
    /// Headers that left before.
    headers: Vec<P4Header<ROOM>>,
    now: u64,
}

impl Source<'_> {
    fn below(&mut self, bound: u64) -> u64 {
        below(self.random.next_u64(), bound)
    }

    /// Returns a random number of at most `bits` bits, which is often small.
    fn number(&mut self, bits: u32) -> u64 {
        match self.below(8) {
            0 => self.random.next_u64() >> (64 - bits),
            1 => (u64::MAX >> (64 - bits)) - self.below(3),
            2..5 => self.below(4),
            _ => self.below(50),
        }
    }

    fn packet(&mut self, steps: &mut Vec<u32>) -> Expected {
        // Rarely, the clock runs on by a time of any length.
        self.now += if self.below(500) == 0 { self.number(LONG_PAUSE_BITS) } else { self.below(3_000) };
        if self.headers.is_empty() || self.below(5) == 0 { self.egress(steps) } else { self.ingress(steps) }
    }

    fn egress(&mut self, steps: &mut Vec<u32>) -> Expected {
        let d = Departure {
            now: Time::from_ns(self.now),
            // Some responses go to the sender of an arrived packet, which may be this NIC itself.
            dst_ip: if self.below(2) == 0 { self.nic.ip } else { self.number(32) as u32 },
            dst_context: self.number(16) as u16,
            src_context: self.number(16) as u16,
            tx_msg_id: self.number(32) as u32,
            msg_len: if self.below(2) == 0 { self.below(60_000) as u32 } else { self.number(32) as u32 },
            pkt_offset: self.number(32) as u32,
            credit: self.number(32) as u32,
            rank: self.number(8) as u8,
            // Programs parse packets with one flag; the others are the full range of the field.
            flags: if self.below(4) == 0 { self.number(8) as u8 } else { 1 << self.below(8) },
            is_new_msg: self.below(2) == 0,
            is_rtx: self.below(2) == 0,
            payload: if self.below(2) == 0 { self.below(1_025) as u32 } else { self.number(16) as u32 },
        };
        steps.extend(egress_step(self.rtl, &self.nic, &d));
        let framed = self.machine.egress(&d);
        if self.headers.len() == 64 {
            self.headers.remove(0);
        }
        self.headers.push(framed.header);
        let header = framed.header.bytes[..usize::from(framed.header.len)].to_vec();
        Expected::Egress { priority: framed.priority.into(), header }
    }

    /// Telemetry of a few hops, whose clocks advance from packet to packet.
    fn telemetry(&mut self) -> Telemetry {
        let mut telemetry = Telemetry::default();
        for _ in 0..self.below(9) {
            telemetry.push(HopRecord {
                timestamp_ns: (self.now + self.below(200)) as u32,
                tx_bytes: (20 * self.now + self.number(32)) as u32,
                queue_bytes: self.number(20) as u32,
                rate_mbps: if self.below(10) == 0 { self.number(32) as u32 } else { 200_000 },
            });
        }
        telemetry
    }

    fn ingress(&mut self, steps: &mut Vec<u32>) -> Expected {
        let chosen = self.below(self.headers.len() as u64) as usize;
        let mut header = self.headers[chosen];
        if self.below(6) == 0 {
            header.len = self.below(u64::from(header.len) + 3).min(64) as u16;
        }
        if self.below(6) == 0 && header.len > 0 {
            let at = self.below(header.len.into()) as usize;
            let byte = self.random.next_u64() as u8;
            header.bytes[at] = byte;
        }
        header.bytes[usize::from(header.len)..].fill(0);
        // Switches append telemetry to data packets.
        let takes_telemetry = self.rtl.ingress.inputs.iter().any(|port| port.name == "arrival_hops");
        let telemetry = (takes_telemetry && self.below(4) != 0).then(|| self.telemetry());
        let mut bytes = header.bytes[..usize::from(header.len)].to_vec();
        for hop in telemetry.iter().flat_map(Telemetry::hops) {
            for word in [hop.timestamp_ns, hop.tx_bytes, hop.queue_bytes, hop.rate_mbps] {
                bytes.extend(word.to_be_bytes());
            }
        }
        let info = RxMsgInfo {
            fail: self.below(10) == 0,
            rx_msg_id: match self.below(20) {
                0 | 1 => RxMsgInfo::COMPLETE,
                // A scheduler in hardware has room for 16 messages.
                2 if self.schedules => self.below(16) as u16,
                2 => self.number(16) as u16,
                _ => self.below(4) as u16,
            },
            is_new_msg: self.below(3) == 0,
            is_new_pkt: self.below(4) != 0,
            is_last_pkt: self.below(4) == 0,
            ack_no: self.number(32) as u32,
        };
        let flags = [self.below(4) == 0, self.below(10) == 0, self.below(2) == 0];
        let arrival = Arrival {
            now: Time::from_ns(self.now),
            frame_bytes: if self.below(2) == 0 { self.below(1_200) as u16 } else { self.number(16) as u16 },
            trimmed: flags[0],
            returned: flags[1],
            marked: flags[2],
            telemetry: telemetry.as_ref(),
        };
        let mut values = named(&self.nic);
        values.extend([
            ("arrival_now_ns", self.now),
            ("arrival_frame_bytes", arrival.frame_bytes.into()),
            ("arrival_trimmed", flags[0].into()),
            ("arrival_returned", flags[1].into()),
            ("arrival_marked", flags[2].into()),
            ("reassembly_drop", 1),
            ("arrival_hops", telemetry.as_ref().map_or(0, |telemetry| telemetry.hops().len() as u64)),
            ("header_bytes", bytes.len() as u64),
        ]);
        let packed = u64::from(info.fail)
            | u64::from(info.rx_msg_id) << 1
            | u64::from(info.is_new_msg) << 17
            | u64::from(info.is_new_pkt) << 18
            | u64::from(info.is_last_pkt) << 19
            | u64::from(info.ack_no) << 20;
        steps.extend(step(self.rtl, 0, &values, &bytes, packed));
        let mut blocks = Recorder { info, calls: Vec::new() };
        let reassemble = match self.machine.ingress(&mut blocks, &header, &arrival) {
            Verdict::Consumed => None,
            Verdict::Reassemble { rx_msg_id, pkt_offset, is_last_pkt } => {
                Some((rx_msg_id.into(), pkt_offset.into(), is_last_pkt.into()))
            }
        };
        in_order(&mut blocks.calls);
        Expected::Ingress { reassemble, calls: blocks.calls }
    }
}
