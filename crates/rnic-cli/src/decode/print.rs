//! Prints packets as lines of text or as JSON.

use super::capture::Captured;
use super::fields::{Section, Value, ecn, foreign_name, pfc_sections, sections, syndrome};
use super::packet::{Checked, Network, Roce};
use rnic_wire::{BthView, Ethernet, Headers, Mad, Pfc, ProtectedHeader};
use serde_json::{Map, json};
use std::fmt::Write as _;
use std::io::{self, Write};

/// A time, given in nanoseconds, as seconds with nine decimals.
fn seconds(ns: i128) -> String {
    let (sign, ns) = (if ns < 0 { "-" } else { "" }, ns.unsigned_abs());
    format!("{sign}{}.{:09}", ns / 1_000_000_000, ns % 1_000_000_000)
}

/// Prints a packet as a line of text, and with `fields` a further line for each header. Times are relative to `start`.
pub(super) fn text(out: &mut dyn Write, captured: &Captured, start: i128, roce: &Roce, fields: bool) -> io::Result<()> {
    let ip = roce.network.ip();
    let mut line = begin(captured, start);
    let _ = write!(line, "{} > {}  ", ip.source(), ip.destination());
    if matches!(roce.network, Network::V1(_)) {
        line += "RoCEv1 ";
    }
    match (&roce.headers, roce.opcode, &roce.protected) {
        (Some(headers), ..) => line += &summary(headers),
        (None, Some(opcode), _) => line += &opcode.to_string(),
        (None, None, Some(header)) => {
            let inside = roce.body.len() - ProtectedHeader::LEN - ProtectedHeader::TAG_LEN;
            let _ = write!(line, "encrypted  qp {:#x}  {inside} B inside", header.dest_qp);
        }
        (None, None, None) => match BthView::new(roce.body) {
            Some(view) => line += &foreign_name(view.opcode_byte()),
            None => line += "no RoCE packet",
        },
    }
    if let (Some(why), Some(view)) = (&roce.foreign, BthView::new(roce.body)) {
        let _ = write!(line, "  qp {:#x} psn {}  ({why})", view.dest_qp(), view.psn());
    }
    if let Some(mad) = &roce.mad {
        line += &management(mad);
    }
    if ip.traffic_class() & 3 == 3 {
        let _ = write!(line, "  ecn {}", ecn(ip.traffic_class()));
    }
    if let Some(payload) = roce.payload {
        let _ = write!(line, "  len {payload}");
    }
    if let Some((index, of)) = roce.batch {
        let _ = write!(line, "  batch {index}/{of}");
    }
    line += match roce.icrc {
        Checked::Right(_) => "  icrc ok",
        Checked::RightWithoutId(_) => "  icrc ok without id",
        Checked::Wrong { .. } => "  icrc BAD",
        Checked::Unknown => "  icrc ?",
        Checked::Tag => "",
    };
    if let Some(header) = &roce.protected {
        let name = if header.encrypted { "number" } else { "authenticated, number" };
        let _ = write!(line, "  {name} {}", header.packet_number);
    }
    if roce.missing > 0 && roce.bad.is_none() {
        let _ = write!(line, "  truncated: {} of {} B captured", captured.bytes.len(), captured.original);
    }
    if let Some(why) = &roce.bad {
        let _ = write!(line, "  BAD: {why}");
    }
    writeln!(out, "{line}")?;
    if fields { lines(out, &sections(roce)) } else { Ok(()) }
}

/// Prints a PFC frame as a line of text.
pub(super) fn pfc_text(
    out: &mut dyn Write, captured: &Captured, start: i128, ethernet: Option<&Ethernet>, pfc: &Pfc, fields: bool,
) -> io::Result<()> {
    let mut line = begin(captured, start);
    if let Some(ethernet) = ethernet {
        let _ = write!(line, "{}  ", ethernet.source);
    }
    line += "PFC";
    for priority in 0..8 {
        match pfc.quanta_of(priority) {
            Some(0) => drop(write!(line, "  priority {priority} resume")),
            Some(quanta) => drop(write!(line, "  priority {priority} pause {quanta}")),
            None => {}
        }
    }
    writeln!(out, "{line}")?;
    if fields { lines(out, &pfc_sections(ethernet, pfc)) } else { Ok(()) }
}

/// Prints a malformed frame as a line of text.
pub(super) fn malformed_text(out: &mut dyn Write, captured: &Captured, start: i128, why: &str) -> io::Result<()> {
    writeln!(out, "{}BAD: {why}", begin(captured, start))
}

fn begin(captured: &Captured, start: i128) -> String {
    format!("{:>5}  {}  ", captured.number, seconds(captured.ns - start))
}

/// The main transport fields of a packet as text: opcode, queue pair, PSN, and the main fields of the extension
/// headers.
fn summary(headers: &Headers) -> String {
    let bth = &headers.bth;
    let mut line = format!("{}  qp {:#x}", bth.opcode, bth.dest_qp);
    let mut add = |text: String| line += &text;
    if let Some(deth) = headers.deth {
        add(format!(" from {:#x} qkey {:#x}", deth.src_qp, deth.qkey));
    }
    add(format!(" psn {}", bth.psn));
    if bth.attempt > 0 {
        add(format!(" attempt {}", bth.attempt + 1));
    }
    if bth.ack_request {
        add(" ack-req".to_string());
    }
    if bth.solicited {
        add(" solicited".to_string());
    }
    if let Some(reth) = headers.reth {
        add(format!("  va {:#x} rkey {:#x} dma_len {}", reth.va, reth.rkey, reth.dma_len));
    }
    if let Some(atomic) = headers.atomic {
        add(format!("  va {:#x} rkey {:#x}", atomic.va, atomic.rkey));
        match bth.opcode.operation() {
            rnic_wire::Operation::FetchAdd => add(format!(" add {:#x}", atomic.swap_add)),
            _ => add(format!(" compare {:#x} swap {:#x}", atomic.compare, atomic.swap_add)),
        }
    }
    if let Some(aeth) = headers.aeth {
        add(format!("  {} msn {}", syndrome(aeth.syndrome), aeth.msn));
    }
    if let Some(header) = headers.atomic_ack {
        add(format!(" original {:#x}", header.original));
    }
    if let Some(header) = headers.send {
        add(format!("  recv {} offset {}", header.recv_wqe_sn, header.offset));
    }
    if let Some(header) = headers.imm {
        add(format!("  imm {:#x}", header.0));
    }
    if let Some(header) = headers.ieth {
        add(format!("  invalidate {:#x}", header.rkey));
    }
    if let Some(header) = headers.recv {
        add(format!("  recv {}", header.recv_wqe_sn));
    }
    if let Some(header) = headers.read {
        add(format!("  read {}", header.read_wqe_sn));
    }
    if let Some(header) = headers.sack {
        let more = if header.before > 0 { format!(" and {} before", header.before) } else { String::new() };
        add(format!("  arrived {}{more}", header.psn));
    }
    line
}

/// A management datagram as text: the message of the communication manager with its identifiers, or class and method.
fn management(mad: &Mad<'_>) -> String {
    let Some(cm) = mad.communication() else {
        let class = mad.class_name().map_or_else(|| format!("class {:#04x}", mad.class), str::to_string);
        return format!("  MAD {class} method {:#04x} attribute {:#06x}", mad.method, mad.attribute);
    };
    let mut line = format!("  CM {} id {:#x}", cm.name, cm.local_id);
    for (name, value) in [("to", cm.remote_id.map(u64::from)), ("service", cm.service), ("qp", cm.qpn.map(u64::from))] {
        if let Some(value) = value {
            let _ = write!(line, " {name} {value:#x}");
        }
    }
    for (name, value) in [("psn", cm.psn), ("reason", cm.reason.map(u32::from))] {
        if let Some(value) = value {
            let _ = write!(line, " {name} {value}");
        }
    }
    line
}

/// Prints a line for each header, with the name and value of each field.
fn lines(out: &mut dyn Write, sections: &[Section]) -> io::Result<()> {
    for section in sections {
        write!(out, "       {:<14}", section.name)?;
        for (at, (name, value)) in section.fields.iter().enumerate() {
            write!(out, "{}{name} ", if at == 0 { "" } else { ", " })?;
            match value {
                Value::Number(value) => write!(out, "{value}")?,
                Value::Hex(value, digits) => write!(out, "0x{value:0digits$x}")?,
                Value::Flag(value) => write!(out, "{}", u8::from(*value))?,
                Value::Text(value) => write!(out, "{value}")?,
            }
        }
        writeln!(out)?;
    }
    Ok(())
}

/// Prints a packet as a JSON document on one line.
pub(super) fn json(out: &mut dyn Write, captured: &Captured, roce: &Roce) -> io::Result<()> {
    let kind = if matches!(roce.network, Network::V1(_)) { "RoCEv1" } else { "RoCEv2" };
    let mut document = document(captured, kind, &sections(roce));
    if let Some((index, of)) = roce.batch {
        document.insert("batch".to_string(), json!({"index": index, "of": of}));
    }
    document.insert("payload_bytes".to_string(), json!(roce.payload));
    let icrc = match roce.icrc {
        Checked::Right(found) => json!({"found": format!("{found:#010x}"), "ok": true}),
        Checked::RightWithoutId(found) => json!({"found": format!("{found:#010x}"), "ok": true, "without_id": true}),
        Checked::Wrong { found, computed } => {
            json!({"found": format!("{found:#010x}"), "computed": format!("{computed:#010x}"), "ok": false})
        }
        Checked::Unknown | Checked::Tag => json!(null),
    };
    document.insert("icrc".to_string(), icrc);
    document.insert("foreign".to_string(), json!(roce.foreign));
    document.insert("missing_bytes".to_string(), json!(roce.missing));
    document.insert("bad".to_string(), json!(roce.bad));
    writeln!(out, "{}", serde_json::Value::Object(document))
}

/// Prints a PFC frame as a JSON document on one line.
pub(super) fn pfc_json(
    out: &mut dyn Write, captured: &Captured, ethernet: Option<&Ethernet>, pfc: &Pfc,
) -> io::Result<()> {
    let mut document = document(captured, "PFC", &pfc_sections(ethernet, pfc));
    document.insert("bad".to_string(), json!(null));
    writeln!(out, "{}", serde_json::Value::Object(document))
}

/// Prints a malformed frame as a JSON document on one line.
pub(super) fn malformed_json(out: &mut dyn Write, captured: &Captured, why: &str) -> io::Result<()> {
    let mut document = document(captured, "malformed", &[]);
    document.insert("bad".to_string(), json!(why));
    writeln!(out, "{}", serde_json::Value::Object(document))
}

fn document(captured: &Captured, kind: &str, sections: &[Section]) -> Map<String, serde_json::Value> {
    let mut document = Map::new();
    document.insert("frame".to_string(), json!(captured.number));
    document.insert("time".to_string(), json!(seconds(captured.ns)));
    document.insert("interface".to_string(), json!(captured.interface));
    document.insert("kind".to_string(), json!(kind));
    document.insert("frame_bytes".to_string(), json!(captured.original));
    for section in sections {
        let fields = section.fields.iter().map(|(name, value)| {
            let value = match value {
                Value::Number(value) => json!(value),
                // Bit patterns are written as text, because many JSON readers lose digits of 64-bit numbers.
                Value::Hex(value, digits) => json!(format!("0x{value:0digits$x}")),
                Value::Flag(value) => json!(value),
                Value::Text(value) => json!(value),
            };
            (name.to_string(), value)
        });
        document.insert(section.name.to_string(), serde_json::Value::Object(fields.collect()));
    }
    document
}
