//! Writes the data flow of both pipelines as Verilog-2005.

use super::RtlError;
use super::bench::bench;
use super::flow::{Emission, Flow, build};
use super::net::{Access, Constants, Kind, Netlist, NodeId, Un, What, bin_op};
use crate::Program;
use crate::arithmetic;
use crate::hir::{BinaryOp, Instance};
use crate::source::{SourceMap, Span};
use std::collections::BTreeMap;
use std::fmt::Write as _;

/// The scheduler's module.
const SCHEDULER: &str = include_str!("../../../../hw/nanotransport/nt_scheduler.v");

/// What generated files say about their licence.
pub(super) const LICENCE: &str = "// SPDX-License-Identifier: MIT OR Apache-2.0\n";

/// A port of a pipeline, besides the clock and the reset.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Port {
    /// Name in Verilog, without the name of the pipeline in front.
    pub name: String,
    /// Width in bits.
    pub width: u32,
}

/// A place where a pipeline calls a block of the NIC.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct CallSite {
    /// The function, such as `ctrl_pkt_event`.
    pub function: String,
    /// Where the call is in the source text, as `FILE:LINE`, or the places that share it, with commas; empty if the
    /// source text is not known.
    pub position: String,
    /// Stage in which the call leaves; its results arrive [`INFO_CYCLES`](super::INFO_CYCLES) stages later.
    pub stage: u32,
    /// Widths of the arguments in bits; the first one is in the lowest bits.
    pub arguments: Vec<u32>,
    /// Widths of the results in bits; the first one is in the lowest bits.
    pub results: Vec<u32>,
}

/// A pipeline in Verilog.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct PipelineRtl {
    /// `ingress` or `egress`; the ports begin with it.
    pub name: &'static str,
    /// Number of stages: cycles from a packet to its result.
    pub stages: u32,
    /// Minimum number of cycles between two packets, so that each sees the registers as the previous packet left them.
    pub distance: u32,
    /// The values that come with a packet.
    pub inputs: Vec<Port>,
    /// The values that leave with the result.
    pub outputs: Vec<Port>,
    /// The calls of the NIC's blocks, in the order of the program.
    pub calls: Vec<CallSite>,
}

/// A program in Verilog: the module `p4_nic`, and a bench around it with the module `p4_bench`.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Rtl {
    /// The text of the module `p4_nic`.
    pub nic: String,
    /// The text of the module `p4_bench`.
    pub bench: String,
    /// The ingress pipeline.
    pub ingress: PipelineRtl,
    /// The egress pipeline.
    pub egress: PipelineRtl,
    /// Words of a step and of a result of the bench.
    pub words: (usize, usize),
}

/// Generates Verilog for a program whose packets have at most `room` bytes of headers.
///
/// # Errors
/// The program has a construct without hardware form.
///
/// # Examples
/// ```
/// use rnic_nano::{compile_file, rtl};
/// use std::path::Path;
///
/// let program = compile_file(Path::new(concat!(env!("CARGO_MANIFEST_DIR"), "/../../p4/window.p4")), &[])?;
/// let rtl = rtl::generate(&program, 64)?;
/// assert!(rtl.nic.contains("module p4_nic"));
/// assert_eq!(rtl.egress.distance, 1, "a packet may leave in every cycle");
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
pub fn generate(program: &Program, room: u32) -> Result<Rtl, RtlError> {
    let hir = program.hir();
    let mut parts = Vec::new();
    for (name, pipeline) in [("ingress", &hir.ingress), ("egress", &hir.egress)] {
        parts.push(Part::new(name, build(pipeline, &hir.instances, room)?, program.sources()));
    }
    let nic = module(&parts, &hir.instances, program.sources());
    let [ingress, egress] = [&parts[0], &parts[1]].map(|part| part.rtl.clone());
    let (bench, words) = bench(&ingress, &egress);
    Ok(Rtl { nic, bench, ingress, egress, words })
}

/// A pipeline to write.
struct Part {
    flow: Flow,
    rtl: PipelineRtl,
    /// The last stage in which each node is used.
    used: Vec<u32>,
    last: u32,
}

fn number(value: u128, width: u32) -> String {
    format!("{width}'h{value:x}")
}

pub(super) fn range(width: u32) -> String {
    if width == 1 { String::new() } else { format!("[{}:0] ", width - 1) }
}

/// Bits `low` to `low + width - 1` of a vector of `total` bits.
fn bits(name: &str, total: u32, low: u32, width: u32) -> String {
    if total == 1 { name.to_string() } else { format!("{name}[{}:{low}]", low + width - 1) }
}

/// log2 of the number of entries of an array, at least 1.
fn address_bits(size: u128) -> u32 {
    (128 - size.saturating_sub(1).leading_zeros()).clamp(1, 32)
}

fn operands(kind: &Kind) -> Vec<NodeId> {
    match *kind {
        Kind::Unary(_, a) | Kind::Slice(a, _) | Kind::ZeroExtend(a) | Kind::SignExtend(a) | Kind::Lookup(a, _) => {
            vec![a]
        }
        Kind::Binary(_, a, b) => vec![a, b],
        Kind::Mux(a, b, c) => vec![a, b, c],
        Kind::Input(_) | Kind::Const(_) | Kind::Result(..) | Kind::Read(..) => Vec::new(),
    }
}

/// Minimum number of cycles between packets of one pipeline, from the stages of its accesses to registers.
fn distance(accesses: &[Access]) -> u32 {
    let mut distance = 1;
    for earlier in accesses {
        for later in accesses.iter().filter(|later| later.instance == earlier.instance) {
            // A later packet reads after an earlier one wrote, and writes after it read or wrote.
            let after = match (earlier.what, later.what) {
                (What::Read, What::Read) | (What::Modify, What::Modify) | (What::Schedule, What::Schedule) => 0,
                (What::Read, _) => earlier.stage,
                (What::Write, What::Write) if std::ptr::eq(earlier, later) => 0,
                _ => earlier.stage + 1,
            };
            distance = distance.max(after.saturating_sub(later.stage));
        }
    }
    distance
}

impl Part {
    fn new(name: &'static str, flow: Flow, sources: &SourceMap) -> Part {
        let net = &flow.net;
        let node_stages = net.nodes.iter().map(|node| node.stage);
        let access_stages = net.accesses.iter().map(|access| access.stage + 1);
        let call_stages = net.calls.iter().map(|call| call.stage);
        let last = node_stages.chain(access_stages).chain(call_stages).max().unwrap_or_default();
        let mut used: Vec<u32> = net.nodes.iter().map(|node| node.stage).collect();
        let mut need = |id: NodeId, stage: u32| used[id] = used[id].max(stage);
        for node in &net.nodes {
            operands(&node.kind).into_iter().for_each(|id| need(id, node.stage));
        }
        for call in &net.calls {
            call.arguments.iter().chain([&call.predicate]).for_each(|id| need(*id, call.stage));
        }
        for access in &net.accesses {
            access.values.iter().chain([&access.predicate, &access.index]).for_each(|id| need(*id, access.stage));
        }
        let emitted = flow.emitted.iter().flat_map(|emission| emission.fields.iter().chain(&emission.present));
        let results = flow.outputs.iter().map(|(_, id)| id).chain(emitted).chain([&flow.accepted]);
        results.for_each(|id| need(*id, last));
        let inputs = net.nodes.iter().filter_map(|node| match &node.kind {
            Kind::Input(name) => Some(Port { name: name.clone(), width: node.width }),
            _ => None,
        });
        let port = |(name, id): &(String, NodeId)| Port { name: format!("out_{name}"), width: net.width(*id) };
        let mut outputs = vec![Port { name: "out_accepted".into(), width: 1 }];
        outputs.extend(flow.outputs.iter().map(port));
        let emitted: u32 = flow.emitted.iter().map(|emission| width_of(net, emission)).sum();
        if emitted > 0 {
            outputs.push(Port { name: "out_header".into(), width: emitted });
        }
        if flow.emitted.iter().any(|emission| emission.present.is_some()) {
            outputs.push(Port { name: "out_header_bytes".into(), width: 16 });
        }
        let calls = net.calls.iter().map(|call| CallSite {
            function: call.function.clone(),
            position: places(&call.spans, sources),
            stage: call.stage,
            arguments: call.arguments.iter().map(|id| net.width(*id)).collect(),
            results: call.results.clone(),
        });
        let rtl = PipelineRtl {
            name,
            stages: last + 1,
            distance: distance(&net.accesses),
            inputs: inputs.collect(),
            outputs,
            calls: calls.collect(),
        };
        Part { rtl, used, last, flow }
    }

    fn net(&self) -> &Netlist {
        &self.flow.net
    }

    /// The name of a node's value in a stage.
    fn at(&self, id: NodeId, stage: u32) -> String {
        let node = &self.net().nodes[id];
        let name = self.rtl.name;
        match &node.kind {
            Kind::Const(value) => number(*value, node.width),
            Kind::Input(port) if stage == 0 => format!("{name}_{port}"),
            _ if stage == node.stage => format!("{name}_n{id}"),
            _ => format!("{name}_n{id}_s{stage}"),
        }
    }

    /// A bit slice of a node's value in a stage.
    fn slice(&self, id: NodeId, stage: u32, low: u32, width: u32) -> String {
        if let Some(value) = self.net().value(id) {
            return number((value >> low) & arithmetic::ones(width), width);
        }
        bits(&self.at(id, stage), self.net().width(id), low, width)
    }

    fn valid(&self, stage: u32) -> String {
        let name = self.rtl.name;
        if stage == 0 { format!("{name}_valid") } else { format!("{name}_v{stage}") }
    }

    fn expression(&self, id: NodeId) -> String {
        let node = &self.net().nodes[id];
        let name = self.rtl.name;
        let stage = node.stage;
        let width = node.width;
        let at = |id: NodeId| self.at(id, stage);
        match &node.kind {
            Kind::Input(_) | Kind::Const(_) => self.at(id, 0),
            Kind::Unary(Un::Negate, a) => format!("-{}", at(*a)),
            Kind::Unary(Un::Not, a) => format!("~{}", at(*a)),
            Kind::Slice(a, low) => self.slice(*a, stage, *low, width),
            Kind::ZeroExtend(a) => format!("{{{}'d0, {}}}", width - self.net().width(*a), at(*a)),
            Kind::SignExtend(a) => {
                let from = self.net().width(*a);
                format!("{{{{{}{{{}}}}}, {}}}", width - from, self.slice(*a, stage, from - 1, 1), at(*a))
            }
            Kind::Mux(c, a, b) => format!("{} ? {} : {}", at(*c), at(*a), at(*b)),
            Kind::Lookup(key, number) => format!("{name}_constants{number}({})", at(*key)),
            Kind::Result(call, offset) => {
                let total = self.net().calls[*call].results.iter().sum();
                bits(&format!("{name}_call{call}_results"), total, *offset, width)
            }
            Kind::Read(access, offset) => {
                let total = self.read_width(*access);
                bits(&format!("{name}_read{access}"), total, *offset, width)
            }
            Kind::Binary(op, a, b) => self.binary(bin_op(*op), *a, *b, stage),
        }
    }

    /// Width of what an access reads.
    fn read_width(&self, access: usize) -> u32 {
        let of_access = |node: &&super::net::Node| matches!(node.kind, Kind::Read(number, _) if number == access);
        self.net().nodes.iter().filter(of_access).map(|node| node.width).sum()
    }

    fn binary(&self, op: BinaryOp, a: NodeId, b: NodeId, stage: u32) -> String {
        let x = self.at(a, stage);
        let y = self.at(b, stage);
        let width = self.net().width(a);
        let second = self.net().width(b);
        let simple = |symbol: &str| format!("{x} {symbol} {y}");
        let signed = |symbol: &str| format!("$signed({x}) {symbol} $signed({y})");
        let ones = format!("{{{width}{{1'b1}}}}");
        let sign = |id: NodeId| self.slice(id, stage, self.net().width(id) - 1, 1);
        // A shift count of more than eight bits: its upper bits shift everything out.
        let shift = |symbol: &str, out: String| {
            // An operand of a conditional is unsigned if the other one is, unless a function call encloses it.
            let shifted = |count: &str| match symbol {
                ">>>" => format!("$unsigned($signed({x}) >>> {count})"),
                _ => format!("{x} {symbol} {count}"),
            };
            if second <= 8 {
                return shifted(&y);
            }
            let high = self.slice(b, stage, 8, second - 8);
            let low = self.slice(b, stage, 0, 8);
            match self.net().value(b) {
                Some(count) if count < 256 => shifted(&count.to_string()),
                Some(_) => out,
                None => format!("|{high} ? {out} : {}", shifted(&low)),
            }
        };
        // Signed saturation: the sign of the result with `width` bits says whether it overflowed. It is the bit that a
        // shift of the sum leaves, because Verilog has no bit select of an expression.
        let saturate = |symbol: &str, differ: &str| {
            let negative = sign(a);
            let lowest = if width == 1 { negative.clone() } else { format!("{{{}'d0, {negative}}}", width - 1) };
            let bound = match width {
                1 => negative.clone(),
                _ => format!("{{{negative}, {{{}{{~{negative}}}}}}}", width - 1),
            };
            let result_sign = format!("(({x} {symbol} {y}) >> {})", width - 1);
            let overflow = format!("{negative} {differ} {} && {result_sign} != {lowest}", sign(b));
            format!("({overflow}) ? {bound} : {x} {symbol} {y}")
        };
        match op {
            BinaryOp::Add => simple("+"),
            BinaryOp::Sub => simple("-"),
            BinaryOp::SatAdd => format!("({x} > {ones} - {y}) ? {ones} : {x} + {y}"),
            BinaryOp::SatSub => format!("({x} < {y}) ? {{{width}{{1'b0}}}} : {x} - {y}"),
            BinaryOp::SatAddSigned => saturate("+", "=="),
            BinaryOp::SatSubSigned => saturate("-", "!="),
            BinaryOp::Mul => simple("*"),
            BinaryOp::Shl => shift("<<", format!("{{{width}{{1'b0}}}}")),
            BinaryOp::Shr => shift(">>", format!("{{{width}{{1'b0}}}}")),
            BinaryOp::ShrSigned => shift(">>>", format!("{{{width}{{{}}}}}", sign(a))),
            BinaryOp::And => simple("&"),
            BinaryOp::Or => simple("|"),
            BinaryOp::Xor => simple("^"),
            BinaryOp::Concat => format!("{{{x}, {y}}}"),
            BinaryOp::Eq => simple("=="),
            BinaryOp::Ne => simple("!="),
            BinaryOp::Lt => simple("<"),
            BinaryOp::Le => simple("<="),
            BinaryOp::LtSigned => signed("<"),
            BinaryOp::LeSigned => signed("<="),
        }
    }

    /// The ports of the pipeline, a line each.
    fn ports(&self) -> Vec<String> {
        let name = self.rtl.name;
        let mut ports = vec![format!("input  wire {name}_valid")];
        ports.extend(
            self.rtl.inputs.iter().map(|port| format!("input  wire {}{name}_{}", range(port.width), port.name)),
        );
        for (number, call) in self.rtl.calls.iter().enumerate() {
            ports.push(format!("output wire {name}_call{number}_valid"));
            let arguments = call.arguments.iter().sum::<u32>();
            let results = call.results.iter().sum::<u32>();
            if arguments > 0 {
                ports.push(format!("output wire {}{name}_call{number}_arguments", range(arguments)));
            }
            if results > 0 {
                ports.push(format!("input  wire {}{name}_call{number}_results", range(results)));
            }
        }
        ports.push(format!("output reg  {name}_done"));
        ports.extend(
            self.rtl.outputs.iter().map(|port| format!("output reg  {}{name}_{}", range(port.width), port.name)),
        );
        ports
    }

    /// The comment behind a wire: the variable of the P4 program whose value it is, and where the variable got it.
    fn note(&self, id: NodeId, sources: &SourceMap) -> String {
        let Some((variable, span)) = self.net().notes.get(&id) else { return String::new() };
        let place = span.map_or(String::new(), |span| place(span, sources));
        if place.is_empty() { format!(" // {variable}") } else { format!(" // {variable}, {place}") }
    }

    fn body(&self, text: &mut String, instances: &[Instance], sources: &SourceMap) {
        let name = self.rtl.name;
        let _ = writeln!(
            text,
            "\n    // {name}: {} stages, a packet in every {} cycles.",
            self.rtl.stages, self.rtl.distance
        );
        for stage in 1..=self.last {
            let before = self.valid(stage - 1);
            let _ = writeln!(
                text,
                "    reg {name}_v{stage};\n    always @(posedge clk) {name}_v{stage} <= !rst && {before};"
            );
        }
        self.constants(text);
        for access in 0..self.net().accesses.len() {
            self.declare_access(text, access, instances);
        }
        for (id, node) in self.net().nodes.iter().enumerate() {
            if matches!(node.kind, Kind::Const(_)) {
                continue;
            }
            let width = range(node.width);
            if !matches!(node.kind, Kind::Input(_)) {
                let note = self.note(id, sources);
                let _ = writeln!(text, "    wire {width}{name}_n{id} = {};{note}", self.expression(id));
            }
            for stage in node.stage + 1..=self.used[id] {
                let register = self.at(id, stage);
                let before = self.at(id, stage - 1);
                let _ = writeln!(text, "    reg {width}{register};\n    always @(posedge clk) {register} <= {before};");
            }
        }
        for (number, call) in self.net().calls.iter().enumerate() {
            let _ = writeln!(text, "    // {} {}", call.function, places(&call.spans, sources));
            let valid = self.valid(call.stage);
            let predicate = self.at(call.predicate, call.stage);
            let _ = writeln!(text, "    assign {name}_call{number}_valid = {valid} && {predicate};");
            let arguments: Vec<String> = call.arguments.iter().rev().map(|id| self.at(*id, call.stage)).collect();
            if !arguments.is_empty() {
                let _ = writeln!(text, "    assign {name}_call{number}_arguments = {{{}}};", arguments.join(", "));
            }
        }
        self.accesses(text, instances);
        let header = self.header(text);
        let _ = writeln!(
            text,
            "    always @(posedge clk) begin\n        {name}_done <= !rst && {};",
            self.valid(self.last)
        );
        let _ = writeln!(text, "        {name}_out_accepted <= {};", self.at(self.flow.accepted, self.last));
        for (output, id) in &self.flow.outputs {
            let _ = writeln!(text, "        {name}_out_{output} <= {};", self.at(*id, self.last));
        }
        for (output, value) in header {
            let _ = writeln!(text, "        {name}_{output} <= {value};");
        }
        text.push_str("    end\n");
    }

    /// Writes the alignment of the emitted headers, and returns the outputs with their values. A header that the packet
    /// does not have leaves its place to the bytes behind it.
    fn header(&self, text: &mut String) -> Vec<(&'static str, String)> {
        let name = self.rtl.name;
        let last = self.last;
        let net = self.net();
        let emissions = &self.flow.emitted;
        let fields = |from: usize, to: usize| {
            let ids = emissions[from..to].iter().flat_map(|emission| &emission.fields);
            ids.map(|id| self.at(*id, last)).collect::<Vec<_>>().join(", ")
        };
        let Some(optional) = emissions.iter().rposition(|emission| emission.present.is_some()) else {
            let all = (!emissions.is_empty()).then(|| ("out_header", format!("{{{}}}", fields(0, emissions.len()))));
            return all.into_iter().collect();
        };
        // From the last header to the first: the bytes of the rest, aligned at the left.
        let mut rest =
            (optional + 1 < emissions.len()).then(|| format!("{{{}}}", fields(optional + 1, emissions.len())));
        let mut width: u32 = emissions[optional + 1..].iter().map(|emission| width_of(net, emission)).sum();
        let mut bytes = format!("16'd{}", width / 8);
        for (index, emission) in emissions.iter().enumerate().take(optional + 1).rev() {
            let own = width_of(net, emission);
            let behind = rest.as_ref().map_or(String::new(), |rest| format!(", {rest}"));
            let mut value = format!("{{{}{behind}}}", fields(index, index + 1));
            let mut length = format!("16'd{}", own / 8);
            if let Some(present) = emission.present {
                let present = self.at(present, last);
                let before = rest.as_ref().map_or(String::new(), |rest| format!("{rest}, "));
                value = format!("{present} ? {value} : {{{before}{{{own}{{1'b0}}}}}}");
                length = format!("({present} ? {length} : 16'd0)");
            }
            width += own;
            let wire = format!("{name}_emitted{index}");
            let _ = writeln!(text, "    wire {}{wire} = {value};", range(width));
            rest = Some(wire);
            bytes = format!("{bytes} + {length}");
        }
        vec![("out_header", rest.unwrap_or_default()), ("out_header_bytes", bytes)]
    }

    /// Writes the memories of constants as functions, which synthesis takes for memories.
    fn constants(&self, text: &mut String) {
        for (number, Constants { key, width, rows }) in self.net().constants.iter().enumerate() {
            let name = format!("{}_constants{number}", self.rtl.name);
            let _ = write!(
                text,
                "    function {}{name}(input {}address);\n        case (address)\n",
                range(*width),
                range(*key)
            );
            for (address, word) in rows {
                let _ = writeln!(text, "            {key}'h{address:x}: {name} = {width}'h{word:x};");
            }
            let _ = write!(
                text,
                "            default: {name} = {};\n        endcase\n    endfunction\n",
                number_zero(*width)
            );
        }
    }

    fn declare_access(&self, text: &mut String, number: usize, instances: &[Instance]) {
        let name = self.rtl.name;
        let access = &self.net().accesses[number];
        let width: u32 = instances[access.instance.0 as usize].types.iter().sum();
        match access.what {
            What::Write => {}
            What::Read => {
                let _ = writeln!(text, "    reg {}{name}_read{number};", range(width));
            }
            What::Modify => {
                let _ = writeln!(text, "    wire {}{name}_read{number};", range(width));
            }
            What::Schedule => {
                let _ = writeln!(text, "    wire [56:0] {name}_read{number};");
            }
        }
    }

    /// The ports of memories.
    fn accesses(&self, text: &mut String, instances: &[Instance]) {
        let name = self.rtl.name;
        let mut writes: BTreeMap<u32, String> = BTreeMap::new();
        for (number, access) in self.net().accesses.iter().enumerate() {
            let instance = &instances[access.instance.0 as usize];
            let size = instance.arguments.first().copied().unwrap_or_default().min(1 << 32);
            let memory = format!("memory{}", access.instance.0);
            let stage = access.stage;
            let index = self.at(access.index, stage);
            let address = match self.net().value(access.index) {
                Some(value) => format!("{}", value % size.max(1)),
                None => self.slice(access.index, stage, 0, address_bits(size)),
            };
            let inside = format!("{{1'b0, {index}}} < 33'd{size}");
            let enabled = format!("{} && {} && {inside}", self.valid(stage), self.at(access.predicate, stage));
            let width: u32 = instance.types.iter().sum();
            match access.what {
                What::Read => {
                    let zero = number_zero(width);
                    let _ = writeln!(
                        text,
                        "    always @(posedge clk) {name}_read{number} <= {inside} ? {memory}[{address}] : {zero};"
                    );
                }
                What::Write => {
                    let values: Vec<String> = access.values.iter().rev().map(|id| self.at(*id, stage)).collect();
                    let line = format!("        if ({enabled}) {memory}[{address}] <= {{{}}};\n", values.join(", "));
                    writes.entry(access.instance.0).or_default().push_str(&line);
                }
                What::Schedule => {
                    let argument = |at: usize| self.at(access.values[at], stage);
                    let _ = write!(
                        text,
                        "    nt_scheduler {name}_scheduler{number} (\n        .clk(clk), .rst(rst), .request({valid} && {on}), .id({}),\n        \
                         .remove({}), .rank({}), .granted({}), .grantable({}), .levels({}),\n        \
                         .found({read}[0]), .found_id({read}[16:1]), .level({read}[24:17]), .credit({read}[56:25])\n    );\n",
                        argument(0),
                        argument(1),
                        argument(2),
                        argument(3),
                        argument(4),
                        argument(5),
                        valid = self.valid(stage),
                        on = self.at(access.predicate, stage),
                        read = format!("{name}_read{number}")
                    );
                }
                What::Modify => {
                    let a = format!("{name}_a{number}");
                    let bits = address_bits(size);
                    let range = range(width);
                    let zero = number_zero(width);
                    let (condition, operations) = match access.values[..] {
                        [operation, operand] => (None, vec![(operation, operand)]),
                        [how, than, op_true, yes, op_false, no] => {
                            (Some((how, than)), vec![(op_true, yes), (op_false, no)])
                        }
                        _ => continue,
                    };
                    let mut held = String::new();
                    let mut kept = String::new();
                    let mut values = Vec::new();
                    for (at, (operation, operand)) in operations.into_iter().enumerate() {
                        let _ = write!(held, "    reg [1:0] {a}_op{at};\n    reg {range}{a}_operand{at};\n");
                        let (operation, operand) = (self.at(operation, stage), self.at(operand, stage));
                        let _ =
                            write!(kept, "        {a}_op{at} <= {operation};\n        {a}_operand{at} <= {operand};\n");
                        values.push(format!(
                            "({a}_op{at} == 2'd1 ? {a}_operand{at} : {a}_op{at} == 2'd2 ? {a}_old + {a}_operand{at} : \
                             {a}_op{at} == 2'd3 ? {a}_old - {a}_operand{at} : {a}_old)"
                        ));
                    }
                    if let Some((how, than)) = condition {
                        let _ = write!(
                            held,
                            "    reg [2:0] {a}_how;\n    reg {range}{a}_than;\n    \
                             wire {a}_holds = {a}_how == 3'd0 ? {a}_old == {a}_than : {a}_how == 3'd1 ? {a}_old != {a}_than : \
                             {a}_how == 3'd2 ? {a}_old < {a}_than : {a}_how == 3'd3 ? {a}_old <= {a}_than : \
                             {a}_how == 3'd4 ? {a}_old > {a}_than : {a}_old >= {a}_than;\n"
                        );
                        let (how, than) = (self.at(how, stage), self.at(than, stage));
                        let _ = write!(kept, "        {a}_how <= {how};\n        {a}_than <= {than};\n");
                        let chosen = format!("{a}_holds ? {} : {}", values[0], values[1]);
                        values = vec![chosen];
                    }
                    let new = values.concat();
                    // The memory is read at the end of this stage and written at the end of the next. The packet in
                    // the next stage may write the same entry at the moment of the read.
                    let _ = write!(
                        text,
                        "    reg {a}_on, {a}_inside, {a}_kept;\n    reg [{high}:0] {a}_at, {a}_kept_at;\n    \
                         reg {range}{a}_q, {a}_kept_value;\n    \
                         wire {range}{a}_old = {a}_kept && {a}_kept_at == {a}_at ? {a}_kept_value : {a}_q;\n{held}    \
                         wire {range}{a}_new = {new};\n    \
                         assign {name}_read{number} = {a}_inside ? {a}_new : {zero};\n    \
                         always @(posedge clk) begin\n        \
                         {a}_on <= !rst && {enabled};\n        {a}_inside <= {inside};\n        {a}_at <= {address};\n{kept}        \
                         {a}_q <= {memory}[{address}];\n        \
                         {a}_kept <= !rst && {a}_on;\n        {a}_kept_at <= {a}_at;\n        {a}_kept_value <= {a}_new;\n        \
                         if ({a}_on) {memory}[{a}_at] <= {a}_new;\n    end\n",
                        high = bits - 1
                    );
                }
            }
        }
        for lines in writes.values() {
            let _ = write!(text, "    always @(posedge clk) begin\n{lines}    end\n");
        }
    }
}

/// Where a span is in the source text, as a part of a comment of one line.
fn place(span: Span, sources: &SourceMap) -> String {
    let Some(file) = sources.files.get(usize::from(span.file)) else { return String::new() };
    let name: String = file.name.chars().map(|c| if c.is_ascii_graphic() && c != '\\' { c } else { '_' }).collect();
    format!("{name}:{}", sources.position(span).0)
}

/// The positions of several source ranges.
fn places(spans: &[Span], sources: &SourceMap) -> String {
    spans.iter().map(|span| place(*span, sources)).collect::<Vec<_>>().join(", ")
}

/// Width of an emitted header in bits.
fn width_of(net: &Netlist, emission: &Emission) -> u32 {
    emission.fields.iter().map(|id| net.width(*id)).sum()
}

fn number_zero(width: u32) -> String {
    format!("{{{width}{{1'b0}}}}")
}

/// The module of both pipelines and their registers.
fn module(parts: &[Part], instances: &[Instance], sources: &SourceMap) -> String {
    let mut text = format!(
        "// Generated from a P4 program. Each comment behind a wire names the variable that it holds, and the line of the\n\
         // declaration in which it is assigned.\n\
         {LICENCE}`default_nettype none\nmodule p4_nic (\n    input  wire clk,\n    \
         input  wire rst,                 // synchronous: no packet is in the pipelines; registers keep their values\n"
    );
    let ports: Vec<String> = parts.iter().flat_map(Part::ports).map(|port| format!("    {port}")).collect();
    let _ = writeln!(text, "{}\n);", ports.join(",\n"));
    let used = |number: usize| {
        parts.iter().any(|part| part.net().accesses.iter().any(|access| access.instance.0 as usize == number))
    };
    let arrays = instances.iter().enumerate().filter(|(number, instance)| used(*number) && !instance.types.is_empty());
    for (number, instance) in arrays {
        let size = instance.arguments.first().copied().unwrap_or_default().clamp(1, 1 << 32);
        let width: u32 = instance.types.iter().sum();
        let _ = write!(
            text,
            "    // {name}\n    reg {range}memory{number} [0:{last}];\n    integer entry{number};\n    \
             initial for (entry{number} = 0; entry{number} < {size}; entry{number} = entry{number} + 1) \
             memory{number}[entry{number}] = {zero};\n",
            name = instance.name,
            range = range(width),
            last = size - 1,
            zero = number_zero(width)
        );
    }
    parts.iter().for_each(|part| part.body(&mut text, instances, sources));
    text.push_str("endmodule\n`default_nettype wire\n");
    if instances.iter().enumerate().any(|(number, instance)| used(number) && instance.kind == "PriorityScheduler") {
        text.push('\n');
        text.push_str(SCHEDULER);
    }
    text
}
