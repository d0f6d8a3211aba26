//! The bench around the pipelines: a packet and its result are vectors of 32-bit words.

use super::PipelineRtl;
use super::net::INFO_CYCLES;
use super::verilog::{LICENCE, range};
use std::fmt::Write as _;

/// The words of a result of the bench. A value of more than 32 bits takes several words, the lowest first.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct OutputWords {
    /// First word of each output.
    pub outputs: Vec<usize>,
    /// For each call: the word that says whether it was made, and the first word of each argument.
    pub calls: Vec<(usize, Vec<usize>)>,
    /// Number of words.
    pub total: usize,
}

/// Words of a value of `width` bits.
const fn words_of(width: u32) -> usize {
    width.div_ceil(32) as usize
}

impl PipelineRtl {
    /// Word of each input in a step of the bench; then the word of the results of `get_rx_msg_info`.
    pub fn input_words(&self) -> Vec<usize> {
        let mut at = 1;
        let mut words: Vec<usize> = Vec::new();
        for port in &self.inputs {
            words.push(at);
            at += words_of(port.width);
        }
        words.push(at);
        words
    }

    /// Words of a step.
    fn step_words(&self) -> usize {
        self.input_words().last().copied().unwrap_or(1) + 2
    }

    /// Where the bench puts the outputs and calls of a packet.
    pub fn output_words(&self) -> OutputWords {
        let mut at = 1;
        let mut outputs = Vec::new();
        for port in &self.outputs {
            outputs.push(at);
            at += words_of(port.width);
        }
        let mut calls = Vec::new();
        for call in &self.calls {
            let valid = at;
            at += 1;
            let mut arguments = Vec::new();
            for width in &call.arguments {
                arguments.push(at);
                at += words_of(*width);
            }
            calls.push((valid, arguments));
        }
        OutputWords { outputs, calls, total: at }
    }
}

/// The bench: both pipelines between two vectors of words, whose word 0 says which pipeline a step is for (1: egress).
pub(super) fn bench(ingress: &PipelineRtl, egress: &PipelineRtl) -> (String, (usize, usize)) {
    let pipelines = [ingress, egress];
    let words_in = pipelines.iter().map(|pipeline| pipeline.step_words()).max().unwrap_or(1).max(3);
    let words_out = pipelines.iter().map(|pipeline| pipeline.output_words().total).max().unwrap_or(1).max(3);
    let mut text = format!(
        "// Generated: both pipelines between two vectors of words.\n{LICENCE}`default_nettype none\nmodule p4_bench (\n    input  wire clk,\n    \
         input  wire in_valid,\n    output wire in_ready,\n    input  wire [{}:0] in,\n    output wire out_valid,\n    \
         output wire [{}:0] out\n);\n",
        32 * words_in - 1,
        32 * words_out - 1
    );
    // A packet of the other pipeline waits until the previous packet has left.
    let drain = ingress.stages.max(egress.stages) + 2;
    let _ = write!(
        text,
        "    reg rst, last;\n    initial {{rst, last}} = 2'b10;\n    always @(posedge clk) rst <= 1'b0;\n    \
         reg [15:0] since = 16'hffff;\n    \
         wire [15:0] wait_for = in[0] != last ? 16'd{drain} : in[0] ? 16'd{} : 16'd{};\n    \
         assign in_ready = !rst && since >= wait_for;\n    wire accept = in_valid && in_ready;\n    \
         always @(posedge clk) begin\n        since <= accept ? 16'd1 : &since ? since : since + 16'd1;\n        \
         if (accept) last <= in[0];\n    end\n",
        egress.distance, ingress.distance
    );
    let mut connections = vec!["        .clk(clk)".to_string(), "        .rst(rst)".to_string()];
    let mut results = Vec::new();
    for (kind, pipeline) in pipelines.into_iter().enumerate() {
        let name = pipeline.name;
        let condition = if kind == 1 { "in[0]" } else { "!in[0]" };
        connections.push(format!("        .{name}_valid(accept && {condition})"));
        let inputs = pipeline.input_words();
        for (port, word) in pipeline.inputs.iter().zip(&inputs) {
            connections.push(format!("        .{name}_{}(in[{} +: {}])", port.name, 32 * word, port.width));
        }
        let OutputWords { outputs, calls, .. } = pipeline.output_words();
        let mut fields: Vec<(usize, u32, String)> = vec![(0, 1, format!("1'b{kind}"))];
        let _ = writeln!(text, "    wire {name}_done;");
        connections.push(format!("        .{name}_done({name}_done)"));
        for (port, word) in pipeline.outputs.iter().zip(outputs) {
            let _ = writeln!(text, "    wire {}{name}_{};", range(port.width), port.name);
            connections.push(format!("        .{name}_{0}({name}_{0})", port.name));
            fields.push((word, port.width, format!("{name}_{}", port.name)));
        }
        let rx_word = inputs.last().copied().unwrap_or(1);
        for (number, (call, (valid_word, words))) in pipeline.calls.iter().zip(calls).enumerate() {
            let prefix = format!("{name}_call{number}");
            let arguments = call.arguments.iter().sum::<u32>();
            let returned = call.results.iter().sum::<u32>();
            let width = arguments + 1;
            // The call leaves in its stage; the bench delays it until the packet's result leaves.
            let delay = pipeline.stages - call.stage;
            let _ = write!(
                text,
                "    wire {prefix}_valid;\n    wire {}{prefix}_arguments;\n    reg [{}:0] {prefix}_later;\n    \
                 always @(posedge clk) {prefix}_later <= {{{prefix}_later, {prefix}_arguments, {prefix}_valid}};\n",
                range(arguments.max(1)),
                width * delay - 1
            );
            connections.push(format!("        .{prefix}_valid({prefix}_valid)"));
            connections.push(format!("        .{prefix}_arguments({prefix}_arguments)"));
            let base = width * (delay - 1);
            fields.push((valid_word, 1, format!("{prefix}_later[{base}]")));
            let mut offset = base + 1;
            for (word, bits) in words.into_iter().zip(&call.arguments) {
                fields.push((word, *bits, format!("{prefix}_later[{offset} +: {bits}]")));
                offset += bits;
            }
            if returned > 0 {
                let delay = call.stage + INFO_CYCLES;
                let _ = write!(
                    text,
                    "    reg [{}:0] {prefix}_results;\n    \
                     always @(posedge clk) {prefix}_results <= {{{prefix}_results, in[{} +: {returned}]}};\n",
                    returned * delay - 1,
                    32 * rx_word
                );
                let low = returned * (delay - 1);
                connections.push(format!("        .{prefix}_results({prefix}_results[{low} +: {returned}])"));
            }
        }
        fields.sort();
        let mut parts = Vec::new();
        let mut at = 0;
        for (word, width, value) in fields {
            let word = word as u32;
            if 32 * word > at {
                parts.push(format!("{}'d0", 32 * word - at));
            }
            parts.push(value);
            at = 32 * word + width;
        }
        if (at as usize) < 32 * words_out {
            parts.push(format!("{}'d0", 32 * words_out - at as usize));
        }
        parts.reverse();
        results.push(format!("{{{}}}", parts.join(", ")));
    }
    let _ = write!(
        text,
        "    assign out_valid = ingress_done || egress_done;\n    assign out = egress_done ? {}\n        : {};\n    \
         p4_nic nic (\n{}\n    );\nendmodule\n`default_nettype wire\n",
        results[1],
        results[0],
        connections.join(",\n")
    );
    (text, (words_in, words_out))
}
