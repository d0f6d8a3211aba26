//! Two NICs in Verilator that run a P4 program and exchange messages with payload over a link.

use super::program::{header_words, program};
use crate::model::{Bench, Design, Model};
use crate::tools::HwError;
use rnic_nano::rtl::Rtl;
use std::path::Path;

/// Cycles per nanosecond of the NanoTransport paper's clock, 3.2 GHz.
pub const CYCLES_PER_NS: f64 = 3.2;
/// Words of a step and of a result of the bench.
const WORDS: (usize, usize) = (3, 16);

/// The NICs and the link between them.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct PairParameters {
    /// log2 of the maximum number of messages that a NIC sends at the same time, and of messages that it receives at
    /// the same time.
    pub log_slots: u32,
    /// Delay of the link: cycles from the departure of a word's first bit to its arrival.
    pub delay: u32,
    /// Frames that the link loses, of 1,024.
    pub loss: u32,
    /// Data frames that the link trims to their header, of 1,024.
    pub trim: u32,
    /// The core's setting of the same name: a retransmission waits for a credit.
    pub rtx_needs_credit: bool,
}

impl Default for PairParameters {
    fn default() -> PairParameters {
        PairParameters { log_slots: 4, delay: 8, loss: 0, trim: 0, rtx_needs_credit: false }
    }
}

/// A message between the two NICs.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct PairMessage {
    /// The sender: NIC 0 or 1.
    pub sender: u32,
    /// Length in bytes, at most 38,912.
    pub bytes: u32,
}

/// A message that has arrived, with times in cycles.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Delivery {
    /// Index of the message.
    pub index: u32,
    /// Whether the delivered payload equals the payload that the sender wrote.
    pub intact: bool,
    /// Length in bytes.
    pub bytes: u32,
    /// Cycle in which the sender accepted the message.
    pub accepted: u32,
    /// Cycle in which the first header of the message left the sender.
    pub departed: u32,
    /// Cycle of the latest arrival of a whole frame at the receiver.
    pub arrived: u32,
    /// Cycle in which the last word of the message left the receiver's buffer.
    pub delivered: u32,
    /// Cycles from the latest arrival of a frame at the receiver to the receiver's next departure of a header.
    pub turned: u32,
    /// Number of frames that both NICs dropped before the delivery because their queues were full.
    pub dropped: u32,
    /// Number of timeouts with a retransmission before the delivery.
    pub timeouts: u32,
    /// Number of words of 64 bytes that the links of both directions carried before the delivery.
    pub words: u32,
}

/// The design of two NICs with the program `rtl`.
///
/// # Errors
/// The program does not fit a NIC.
pub fn pair(rtl: &Rtl, parameters: PairParameters) -> Result<Design, HwError> {
    let mut files = super::sources();
    files.retain(|(name, _)| !matches!(name.as_str(), "nt_block_bench.v" | "nt_place.v"));
    files.extend([("nt_program.v".to_string(), program(rtl)?), ("p4_nic.v".to_string(), rtl.nic.clone())]);
    Ok(Design {
        top: "nt_pair",
        files,
        parameters: vec![
            ("LOG_SLOTS", parameters.log_slots.into()),
            ("HEADS", header_words(rtl).into()),
            ("DELAY", parameters.delay.into()),
            ("LOSS", parameters.loss.into()),
            ("TRIM", parameters.trim.into()),
            ("RTX_NEEDS_CREDIT", parameters.rtx_needs_credit.into()),
        ],
        words: WORDS,
    })
}

/// The design of one NIC, for synthesis.
///
/// # Errors
/// The program does not fit a NIC.
pub fn single(rtl: &Rtl, log_slots: u32) -> Result<Design, HwError> {
    let parameters = PairParameters { log_slots, ..PairParameters::default() };
    let mut design = pair(rtl, parameters)?;
    (design.top, design.parameters) =
        ("nt_nic", vec![("LOG_SLOTS", log_slots.into()), ("HEADS", header_words(rtl).into())]);
    Ok(design)
}

/// The pipelines of a program, for synthesis.
pub fn pipelines_alone(rtl: &Rtl) -> Design {
    let files = vec![("p4_nic.v".to_string(), rtl.nic.clone())];
    Design { top: "p4_nic", files, parameters: Vec::new(), words: (0, 0) }
}

/// The pipelines of a program between shift registers, with four pins. Every path begins and ends in a register, as
/// place and route needs it.
pub fn pipelines_in_registers(rtl: &Rtl) -> Design {
    let mut inputs = 0;
    let mut outputs = 0;
    let mut connections = vec!["        .clk(clk)".to_string(), "        .rst(1'b0)".to_string()];
    let mut input = |name: String, width: u32, connections: &mut Vec<String>| {
        connections.push(format!("        .{name}(in[{inputs} +: {width}])"));
        inputs += width;
    };
    let mut output = |name: String, width: u32, connections: &mut Vec<String>| {
        connections.push(format!("        .{name}(out[{outputs} +: {width}])"));
        outputs += width;
    };
    for pipeline in [&rtl.ingress, &rtl.egress] {
        let name = pipeline.name;
        input(format!("{name}_valid"), 1, &mut connections);
        output(format!("{name}_done"), 1, &mut connections);
        for port in &pipeline.inputs {
            input(format!("{name}_{}", port.name), port.width, &mut connections);
        }
        for port in &pipeline.outputs {
            output(format!("{name}_{}", port.name), port.width, &mut connections);
        }
        for (number, call) in pipeline.calls.iter().enumerate() {
            let call_name = format!("{name}_call{number}");
            output(format!("{call_name}_valid"), 1, &mut connections);
            let arguments = call.arguments.iter().sum::<u32>();
            let results = call.results.iter().sum::<u32>();
            if arguments > 0 {
                output(format!("{call_name}_arguments"), arguments, &mut connections);
            }
            if results > 0 {
                input(format!("{call_name}_results"), results, &mut connections);
            }
        }
    }
    let text = format!(
        "// Generated: the pipelines between shift registers.\nmodule p4_place (\n    input  wire clk,\n    input  wire shift_in,\n    \
         input  wire capture,\n    output wire shift_out\n);\n    reg  [{high_in}:0] in;\n    reg  [{high_out}:0] captured;\n    \
         wire [{high_out}:0] out;\n    p4_nic nic (\n{}\n    );\n    always @(posedge clk) begin\n        \
         in <= {{in, shift_in}};\n        captured <= capture ? out : {{captured, 1'b0}};\n    end\n    \
         assign shift_out = captured[{high_out}];\nendmodule\n",
        connections.join(",\n"),
        high_in = inputs - 1,
        high_out = outputs - 1,
    );
    let files = vec![("p4_place.v".to_string(), text), ("p4_nic.v".to_string(), rtl.nic.clone())];
    Design { top: "p4_place", files, parameters: Vec::new(), words: (0, 0) }
}

/// Two NICs in Verilator.
#[derive(Debug)]
pub struct Pair {
    bench: Bench,
    sent: u32,
}

impl Pair {
    /// Compiles and starts two NICs. With `vcd`, their signals are written into this file.
    ///
    /// # Errors
    /// The program does not fit a NIC; Verilator is not installed or refuses the design.
    pub fn start(rtl: &Rtl, parameters: PairParameters, vcd: Option<&Path>) -> Result<Pair, HwError> {
        Pair::of(&pair(rtl, parameters)?, vcd)
    }

    /// Compiles and starts a design of two NICs, which may be a mutant.
    ///
    /// # Errors
    /// Verilator is not installed or refuses the design.
    pub fn of(design: &Design, vcd: Option<&Path>) -> Result<Pair, HwError> {
        let bench = Model::build(design, vcd.is_some())?.start(vcd)?;
        Ok(Pair { bench, sent: 0 })
    }

    /// Sends messages as fast as the NICs accept them, and returns them in the order of their arrival.
    ///
    /// # Errors
    /// No message arrived for 300,000 cycles, or a payload was wrong.
    pub fn run(&mut self, messages: &[PairMessage]) -> Result<Vec<Delivery>, HwError> {
        let mut steps = Vec::new();
        for message in messages {
            steps.extend([message.sender, message.bytes, self.sent]);
            self.sent += 1;
        }
        let (_, results) = self.bench.run(&steps)?;
        let deliveries: Vec<Delivery> = results.chunks(WORDS.1).map(delivery).collect();
        match deliveries.iter().find(|delivery| !delivery.intact) {
            Some(wrong) => Err(HwError::Differs(format!("the payload of message {} is wrong: {wrong:?}", wrong.index))),
            None => Ok(deliveries),
        }
    }
}

fn delivery(words: &[u32]) -> Delivery {
    Delivery {
        index: words[1],
        intact: words[2] == 1,
        bytes: words[3],
        accepted: words[5],
        departed: words[6],
        arrived: words[7],
        delivered: words[8],
        turned: words[9],
        dropped: words[10],
        timeouts: words[11],
        words: words[12],
    }
}

/// Latencies of a NIC in cycles, from one message of a single header at a time.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Latency {
    /// Cycles from the arrival of a header to the delivery of the message.
    pub rx: u32,
    /// Cycles from the request to send a message to the departure of its header.
    pub tx: u32,
    /// From the arrival of a data packet to the departure of the response.
    pub round_trip: u32,
}

/// How fast messages of one size pass in one direction.
#[derive(Clone, Copy, PartialEq, Debug)]
pub struct Throughput {
    /// Bytes of a message.
    pub bytes: u32,
    /// Millions of messages per second at 3.2 GHz.
    pub million_per_second: f64,
    /// Data frames with their headers, in Gbps.
    pub gbps: f64,
}

/// Measures the latencies and the throughput of NICs with a program.
///
/// # Errors
/// As [`Pair::start`] and [`Pair::run`].
pub fn measure(
    rtl: &Rtl, parameters: PairParameters, sizes: &[(u32, usize)],
) -> Result<(Latency, Vec<Throughput>), HwError> {
    let mut pair = Pair::start(rtl, parameters, None)?;
    let mut alone = Vec::new();
    for _ in 0..3 {
        alone.extend(pair.run(&[PairMessage { sender: 0, bytes: 0 }])?);
    }
    let last = alone[2];
    let latency =
        Latency { rx: last.delivered - last.arrived, tx: last.departed - last.accepted, round_trip: last.turned };
    let mut throughputs = Vec::new();
    for (bytes, count) in sizes {
        let messages = vec![PairMessage { sender: 0, bytes: *bytes }; *count];
        let delivered = pair.run(&messages)?;
        let frames = f64::from(bytes.div_ceil(1_024).max(1));
        let mut ends: Vec<u32> = delivered.iter().map(|message| message.delivered).collect();
        ends.sort_unstable();
        let per_cycle = if frames > 1.0 {
            // Messages of several frames share the link, and several messages end at about the same time. Therefore all
            // messages count, from the departure of the first header on.
            let first = delivered.iter().map(|message| message.departed).min().unwrap_or_default();
            *count as f64 / f64::from(ends[count - 1] - first)
        } else {
            // Leave out the first and the last sixteenth of the messages, during which the link is not full.
            let from = count / 16;
            let to = count - count / 16 - 1;
            (to - from) as f64 / f64::from(ends[to] - ends[from])
        };
        let bits = 8.0 * (f64::from(*bytes) + f64::from(64 * header_words(rtl)) * frames);
        throughputs.push(Throughput {
            bytes: *bytes,
            million_per_second: per_cycle * CYCLES_PER_NS * 1_000.0,
            gbps: per_cycle * bits * CYCLES_PER_NS,
        });
    }
    Ok((latency, throughputs))
}
