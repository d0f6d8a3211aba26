//! The module between a NIC's blocks and the pipelines of a P4 program: `nt_program`.

use crate::tools::HwError;
use rnic_nano::NicParameters;
use rnic_nano::rtl::{CallSite, INFO_CYCLES, PipelineRtl, Port, Rtl};
use std::fmt::Write as _;

/// Ports of the module, besides the clock.
const PORTS: &str = "\
    input  wire         rst,
    input  wire [63:0]  now_ns,
    input  wire [31:0]  nic_ip,
    input  wire [31:0]  nic_rtt_pkts,
    output wire [7:0]   period,            // cycles between two arriving packets
    output wire [7:0]   info_stage,        // cycles from ingress_valid to the packet's call of get_rx_msg_info
    input  wire         ingress_valid,
    input  wire [@-1:0] ingress_header,    // the words of headers, the first one in the highest bits
    input  wire [15:0]  ingress_frame_bytes,
    input  wire         ingress_trimmed,
    // get_rx_msg_info: the results arrive 5 cycles after the request, with what reassembly has marked.
    output wire         info_valid,
    output wire [144:0] info_request,
    input  wire [51:0]  info_results,
    input  wire [48:0]  marked_now,
    output wire         delivered_valid,
    output wire [159:0] delivered,
    input  wire         delivered_pop,
    output wire         credit_valid,
    output wire [160:0] credit,
    input  wire         credit_pop,
    output wire         control_valid,
    output wire [215:0] control,
    input  wire         control_pop,
    output wire         full,              // too many calls wait
    output wire         ingress_done,
    output wire         ingress_store,
    output wire [15:0]  ingress_rx_msg_id,
    output wire [31:0]  ingress_pkt_offset,
    output wire         ingress_is_last,
    output wire [48:0]  marked,            // of the packet that is done
    input  wire         egress_valid,
    input  wire [225:0] departure,
    output wire         egress_done,
    output wire [@-1:0] egress_header,
    output wire [7:0]   egress_priority";

/// Limits of the counters in the NIC: cycles between two arriving packets, and the stage of a request to reassembly.
const MAX_PERIOD: u32 = 254;
const MAX_INFO_STAGE: u32 = 60;
/// Longest headers of a program, in words of 64 bytes.
const MAX_HEADER_WORDS: u32 = 8;

/// Minimum number of cycles between two arriving packets: the minimum distance between two packets in the pipeline, and
/// at least 7. Reassembly then has a cycle for the request of a packet, and after two further cycles at least two
/// cycles for verdicts and messages that end.
pub fn period(rtl: &Rtl) -> u32 {
    rtl.ingress.distance.max(7)
}

/// Bits of the longest headers that the program parses or emits.
fn header_bits(rtl: &Rtl) -> u32 {
    let parsed = rtl.ingress.inputs.iter().find(|port| port.name == "header").map_or(0, |port| port.width);
    let emitted = rtl.egress.outputs.iter().find(|port| port.name == "out_header").map_or(0, |port| port.width);
    parsed.max(emitted)
}

/// Number of words of 64 bytes for the headers of a frame: as many as the longest headers of the program need, and the
/// same number in every frame. The payload begins with the next word.
pub fn header_words(rtl: &Rtl) -> u32 {
    header_bits(rtl).div_ceil(512).max(1)
}

/// The text of the module for a program.
///
/// # Errors
/// The program does not fit a NIC: its headers are longer than 512 bytes, a packet may ask for a message
/// twice, or its egress pipeline takes no packet in every cycle.
pub(super) fn program(rtl: &Rtl) -> Result<String, HwError> {
    let ingress = &rtl.ingress;
    let egress = &rtl.egress;
    let refuse = |message: &str| Err(HwError::Parameter(message.to_string()));
    let header = egress.outputs.iter().find(|port| port.name == "out_header").map_or(0, |port| port.width);
    let bits = 512 * header_words(rtl);
    if header_words(rtl) > MAX_HEADER_WORDS {
        return refuse(&format!(
            "the program parses or emits headers of {} bytes; a NIC in hardware has room for {} bytes, in the first \
             {MAX_HEADER_WORDS} words of a frame",
            header_bits(rtl).div_ceil(8),
            64 * MAX_HEADER_WORDS
        ));
    }
    if let Some(call) = egress.calls.first() {
        let (function, position) = (&call.function, &call.position);
        return refuse(&format!("{position}: the egress pipeline calls {function}: only ingress has the NIC's blocks"));
    }
    if egress.distance > 1 {
        return refuse(&format!(
            "the egress pipeline takes a packet in every {} cycles only, because a later stage writes a register that an \
             earlier one reads; a NIC in hardware needs one in every cycle",
            egress.distance
        ));
    }
    let sites: Vec<&CallSite> = ingress.calls.iter().filter(|call| call.function == "get_rx_msg_info").collect();
    if sites.len() != 1 {
        let positions: Vec<&str> = sites.iter().map(|call| call.position.as_str()).collect();
        return refuse(&format!(
            "the program calls get_rx_msg_info at {} places that a packet may reach one after the other ({}): a NIC in \
             hardware answers once per packet, so call it in branches that exclude each other, or once before the \
             branches that use its result",
            sites.len(),
            positions.join(", ")
        ));
    }
    if period(rtl) > MAX_PERIOD || sites[0].stage > MAX_INFO_STAGE {
        return refuse(&format!(
            "the ingress pipeline takes a packet in every {} cycles and calls get_rx_msg_info in stage {}; a NIC in hardware \
             needs at most {MAX_PERIOD} cycles and at most stage {MAX_INFO_STAGE}",
            period(rtl),
            sites[0].stage
        ));
    }
    let mut text = format!(
        "// Generated: the pipelines of a P4 program between the blocks of a NIC.\n// SPDX-License-Identifier: MIT OR Apache-2.0\n`default_nettype none\nmodule nt_program (\n    input  wire         clk,\n{}\n);\n",
        PORTS.replace('@', &bits.to_string())
    );
    let _ = writeln!(text, "    assign period = 8'd{};\n    assign info_stage = 8'd{};", period(rtl), sites[0].stage);
    let mut connections = vec![
        "        .clk(clk)".to_string(),
        "        .rst(rst)".to_string(),
        "        .ingress_valid(ingress_valid)".to_string(),
        "        .egress_valid(egress_valid)".to_string(),
        "        .ingress_done(ingress_done)".to_string(),
        "        .egress_done(egress_done)".to_string(),
        "        .egress_out_accepted()".to_string(),
    ];
    for pipeline in [ingress, egress] {
        for port in &pipeline.inputs {
            connections.push(format!("        .{}_{}({})", pipeline.name, port.name, input(port, bits)?));
        }
    }
    outputs(
        &mut text,
        &mut connections,
        ingress,
        &[
            ("out_accepted", "accepted", 1),
            ("out_reassembly_drop", "drop", 1),
            ("out_reassembly_rx_msg_id", "ingress_rx_msg_id", 0),
            ("out_reassembly_pkt_offset", "ingress_pkt_offset", 0),
            ("out_reassembly_is_last_pkt", "ingress_is_last", 0),
        ],
    );
    text.push_str("    assign ingress_store = accepted && !drop;\n");
    outputs(&mut text, &mut connections, egress, &[("out_link_priority", "egress_priority", 0)]);
    if header > 0 {
        let _ = writeln!(
            text,
            "    wire [{}:0] header;\n    assign egress_header = {{header, {{{}{{1'b0}}}}}};",
            header - 1,
            bits - header
        );
        connections.push("        .egress_out_header(header)".to_string());
    }
    calls(&mut text, &mut connections, ingress);
    let _ = write!(text, "    p4_nic nic (\n{}\n    );\nendmodule\n`default_nettype wire\n", connections.join(",\n"));
    Ok(text)
}

/// The expression to which an input of a pipeline is connected.
fn input(port: &Port, header_bits: u32) -> Result<String, HwError> {
    let nic = NicParameters {
        mac: 0x0250_0000_0001,
        switch_mac: 0x0250_0000_00fe,
        ip: 0,
        rtt_pkts: 9,
        mtu: 1_024,
        line_rate_mbps: 200_000,
        base_rtt_ns: 525,
    };
    let departure = |low: u32| Ok(format!("departure[{low} +: {}]", port.width));
    match port.name.as_str() {
        "header" => Ok(format!("ingress_header[{} -: {}]", header_bits - 1, port.width)),
        "header_bytes" => Ok(format!("16'd{}", header_bits / 8)),
        "arrival_now_ns" | "departure_now_ns" => Ok("now_ns".into()),
        "arrival_frame_bytes" => Ok("ingress_frame_bytes".into()),
        "arrival_trimmed" => Ok("ingress_trimmed".into()),
        "reassembly_drop" => Ok("1'b1".into()),
        "nic_ip" => Ok("nic_ip".into()),
        "nic_rtt_pkts" => Ok("nic_rtt_pkts".into()),
        "departure_dst_ip" => departure(0),
        "departure_dst_context" => departure(32),
        "departure_src_context" => departure(48),
        "departure_tx_msg_id" => departure(64),
        "departure_msg_len" => departure(96),
        "departure_pkt_offset" => departure(128),
        "departure_credit" => departure(160),
        "departure_rank" => departure(192),
        "departure_flags" => departure(200),
        "departure_payload" => departure(208),
        "departure_is_rtx" => departure(224),
        "departure_is_new_msg" => departure(225),
        name => {
            let of_nic = |(key, _): &(&str, u64)| key.replace('.', "_") == name;
            let value = nic.named().into_iter().find(of_nic).map_or(0, |(_, value)| value);
            Ok(format!("{}'d{value}", port.width))
        }
    }
}

/// Connects outputs of a pipeline; an output that the pipeline does not have is 0. If the width is 0, the wire is a
/// port.
fn outputs(text: &mut String, connections: &mut Vec<String>, pipeline: &PipelineRtl, wires: &[(&str, &str, u32)]) {
    for (output, wire, width) in wires {
        if *width > 0 {
            let _ = writeln!(text, "    wire {wire};");
        }
        if pipeline.outputs.iter().any(|port| port.name == *output) {
            connections.push(format!("        .{}_{output}({wire})", pipeline.name));
        } else {
            let _ = writeln!(text, "    assign {wire} = 0;");
        }
    }
}

/// Converts the Verilog expression of a call into that of its request.
type Convert<'a> = &'a dyn Fn(&str) -> String;

/// Connects the calls of the ingress pipeline: each call site has a queue, and an arbiter chooses among the call sites
/// of a function.
fn calls(text: &mut String, connections: &mut Vec<String>, ingress: &PipelineRtl) {
    let mut full = Vec::new();
    // A request for one packet becomes a bitmap of one bit.
    let one_packet = |of: &str| format!("{{{of}[97:65], 63'd0, {of}[32], {of}[64:33], {of}[31:0]}}");
    let as_it_is = |of: &str| of.to_string();
    let functions: [(&str, &str, u32, u32, Convert<'_>); 4] = [
        ("delivered_event", "delivered", 160, 160, &as_it_is),
        ("credit_to_btx_event", "credit", 161, 98, &one_packet),
        ("credit_to_btx_bitmap_event", "credit", 161, 161, &as_it_is),
        ("ctrl_pkt_event", "control", 216, 216, &as_it_is),
    ];
    for (wire, bits) in [("delivered", 160), ("credit", 161), ("control", 216)] {
        let of_wire = functions.iter().filter(|(_, of, ..)| *of == wire);
        let sites = of_wire.flat_map(|(function, _, _, width, convert)| {
            places(&ingress.calls, function).into_iter().map(move |call| (call, *width, convert))
        });
        let places: Vec<(usize, u32, _)> = sites.collect();
        let count = places.len().max(1);
        let _ = writeln!(
            text,
            "    wire [{last}:0] {wire}_waits, {wire}_grants;\n    nt_arbiter #(.N({count})) {wire}_arbiter (.requests({wire}_waits), .grants({wire}_grants));\n    \
             assign {wire}_valid = |{wire}_waits;",
            last = count - 1
        );
        let mut chosen = Vec::new();
        for (index, (call, width, convert)) in places.iter().enumerate() {
            let prefix = format!("ingress_call{call}");
            let _ = writeln!(
                text,
                "    wire {prefix}_valid;\n    wire [{last}:0] {prefix}_arguments;\n    wire [{high}:0] {prefix}_queued;\n    wire [4:0] {prefix}_count;\n    \
                 nt_fifo #(.WIDTH({bits}), .LOG_DEPTH(4)) {prefix}_queue (\n        .clk(clk), .rst(rst), .push({prefix}_valid), \
                 .in({queued}), .pop({wire}_pop && {wire}_grants[{index}]),\n        .valid({wire}_waits[{index}]), \
                 .out({prefix}_queued), .count({prefix}_count)\n    );",
                last = width - 1,
                high = bits - 1,
                queued = convert(&format!("{prefix}_arguments"))
            );
            connections.push(format!("        .{prefix}_valid({prefix}_valid)"));
            connections.push(format!("        .{prefix}_arguments({prefix}_arguments)"));
            chosen.push(format!("({{{bits}{{{wire}_grants[{index}]}}}} & {prefix}_queued)"));
            full.push(format!("{prefix}_count >= 8"));
        }
        if places.is_empty() {
            let _ = writeln!(text, "    assign {wire}_waits = 1'b0;");
            chosen.push(format!("{bits}'d0"));
        }
        let _ = writeln!(text, "    assign {wire} = {};", chosen.join(" | "));
    }
    let _ =
        writeln!(text, "    assign full = {};", if full.is_empty() { "1'b0".to_string() } else { full.join(" || ") });
    for call in places(&ingress.calls, "get_rx_msg_info") {
        let prefix = format!("ingress_call{call}");
        connections.push(format!("        .{prefix}_valid(info_valid)"));
        connections.push(format!("        .{prefix}_arguments(info_request)"));
        connections.push(format!("        .{prefix}_results(info_results)"));
        // The mark of the packet leaves in the same cycle as the verdict.
        let delay = (ingress.stages - ingress.calls[call].stage - INFO_CYCLES) as usize;
        if delay == 0 {
            text.push_str("    assign marked = marked_now;\n");
        } else {
            let _ = writeln!(
                text,
                "    reg [{}:0] marked_later;\n    initial marked_later = 0;\n    \
                 always @(posedge clk) marked_later <= {{marked_later, marked_now}};\n    assign marked = marked_later[{} +: 49];",
                49 * delay - 1,
                49 * (delay - 1)
            );
        }
    }
}

fn places(calls: &[CallSite], function: &str) -> Vec<usize> {
    (0..calls.len()).filter(|call| calls[*call].function == function).collect()
}
