//! All header fields of a packet with their names, for `rnic decode --fields` and JSON.

use super::packet::{Network, Roce};
use rnic_wire::{BthView, Ethernet, Headers, Ip, Mad, Pfc, Service, Syndrome};

/// The value of a header field, which determines how the field is shown.
pub(super) enum Value {
    /// A number, which is shown in decimal.
    Number(u64),
    /// A key, an address or a bit mask, which is shown with this number of hexadecimal digits.
    Hex(u64, usize),
    /// A single bit.
    Flag(bool),
    /// A value that is shown as text.
    Text(String),
}

/// A header: its name, and its fields as (name, value).
pub(super) struct Section {
    pub(super) name: &'static str,
    pub(super) fields: Vec<(&'static str, Value)>,
}

impl Section {
    fn new(name: &'static str, fields: Vec<(&'static str, Value)>) -> Section {
        Section { name, fields }
    }
}

fn number(value: impl Into<u64>) -> Value {
    Value::Number(value.into())
}

fn hex(value: impl Into<u64>, digits: usize) -> Value {
    Value::Hex(value.into(), digits)
}

fn text(value: impl ToString) -> Value {
    Value::Text(value.to_string())
}

/// The headers of a RoCE packet, from the outermost to the innermost.
pub(super) fn sections(roce: &Roce) -> Vec<Section> {
    let mut sections = Vec::new();
    sections.extend(roce.ethernet.iter().flat_map(ethernet));
    match &roce.network {
        Network::V2(datagram) => {
            sections.push(ip(&datagram.ip, roce.id));
            let fields = vec![
                ("source_port", number(datagram.source_port)),
                ("destination_port", number(datagram.destination_port)),
                ("checksum", hex(datagram.udp_checksum, 4)),
            ];
            sections.push(Section::new("udp", fields));
        }
        Network::V1(packet) => {
            sections.push(Section { name: "grh", ..ip(&Ip::V6(packet.grh), 0) });
        }
    }
    if let Some(header) = roce.protected {
        let fields = vec![
            ("encrypted", Value::Flag(header.encrypted)),
            ("dest_qp", hex(header.dest_qp, 6)),
            ("packet_number", number(header.packet_number)),
        ];
        sections.push(Section::new("protected", fields));
    }
    match (&roce.headers, BthView::new(roce.body)) {
        (Some(headers), _) => {
            sections.push(bth(headers));
            sections.extend(extensions(headers));
        }
        (None, Some(view)) if roce.foreign.is_some() => sections.push(foreign_bth(view)),
        (None, _) => {}
    }
    sections.extend(roce.mad.iter().flat_map(mad));
    sections
}

/// The base transport header of a packet whose opcode rnic does not know.
fn foreign_bth(view: BthView<'_>) -> Section {
    let fields = vec![
        ("opcode", hex(view.opcode_byte(), 2)),
        ("name", text(foreign_name(view.opcode_byte()))),
        ("solicited", Value::Flag(view.solicited())),
        ("migrated", Value::Flag(view.migrated())),
        ("pad", number(view.pad())),
        ("pkey", hex(view.pkey(), 4)),
        ("fecn", Value::Flag(view.fecn())),
        ("becn", Value::Flag(view.becn())),
        ("dest_qp", hex(view.dest_qp(), 6)),
        ("psn", number(view.psn())),
    ];
    Section::new("bth", fields)
}

/// A name for an opcode that rnic does not know, from the range in which it lies (InfiniBand volume 1, section 9.2.1).
pub(super) fn foreign_name(opcode: u8) -> String {
    let range = match opcode >> 5 {
        0 => "RC",
        1 => "UC",
        2 => "RD",
        3 => "UD",
        4 => "CNP",
        5 => "XRC",
        _ => "manufacturer's",
    };
    format!("{range} opcode {opcode:#04x}")
}

/// The header of a management datagram, and its message if this is a message of the communication manager.
fn mad(mad: &Mad<'_>) -> Vec<Section> {
    let fields = vec![
        ("class", hex(mad.class, 2)),
        ("method", hex(mad.method, 2)),
        ("status", hex(mad.status, 4)),
        ("transaction", hex(mad.transaction, 16)),
        ("attribute", hex(mad.attribute, 4)),
    ];
    let mut sections = vec![Section::new("mad", fields)];
    if let Some(cm) = mad.communication() {
        let mut fields = vec![("message", text(cm.name)), ("local_id", hex(cm.local_id, 8))];
        fields.extend(cm.remote_id.map(|id| ("remote_id", hex(id, 8))));
        fields.extend(cm.service.map(|service| ("service", hex(service, 16))));
        fields.extend(cm.qpn.map(|qpn| ("qpn", hex(qpn, 6))));
        fields.extend(cm.psn.map(|psn| ("psn", number(psn))));
        fields.extend(cm.reason.map(|reason| ("reason", number(reason))));
        sections.push(Section::new("cm", fields));
    }
    sections
}

/// The headers of a PFC frame: the Ethernet header and the PFC fields.
pub(super) fn pfc_sections(header: Option<&Ethernet>, pfc: &Pfc) -> Vec<Section> {
    let quanta = pfc.quanta.map(|quanta| quanta.to_string()).join(" ");
    let fields = vec![("class_enable", hex(pfc.enabled, 2)), ("quanta", text(quanta))];
    let mut sections: Vec<Section> = header.into_iter().flat_map(ethernet).collect();
    sections.push(Section::new("pfc", fields));
    sections
}

fn ethernet(header: &Ethernet) -> Vec<Section> {
    let fields = vec![("source", text(header.source)), ("destination", text(header.destination))];
    let mut sections = vec![Section::new("ethernet", fields)];
    for (name, tag) in ["vlan", "inner_vlan"].into_iter().zip(header.vlans.iter().flatten()) {
        let fields = vec![
            ("id", number(tag.id())),
            ("priority", number(tag.priority())),
            ("dei", Value::Flag(tag.drop_eligible())),
        ];
        sections.push(Section::new(name, fields));
    }
    sections
}

fn ip(header: &Ip, id: u16) -> Section {
    let class = header.traffic_class();
    let mut fields = vec![
        ("source", text(header.source())),
        ("destination", text(header.destination())),
        ("dscp", number(class >> 2)),
        ("ecn", text(ecn(class))),
    ];
    match header {
        Ip::V4(ip) => fields.extend([
            ("id", number(id)),
            ("dont_fragment", Value::Flag(ip.flags & rnic_wire::icrc::DONT_FRAGMENT != 0)),
            ("ttl", number(ip.ttl)),
        ]),
        Ip::V6(ip) => fields.extend([("flow_label", hex(ip.flow_label, 5)), ("hop_limit", number(ip.hop_limit))]),
    }
    Section::new("ip", fields)
}

/// The name of the ECN codepoint in the two lowest bits of `class`, the traffic class of the IP header.
pub(super) fn ecn(class: u8) -> &'static str {
    ["not-ECT", "ECT(1)", "ECT(0)", "CE"][usize::from(class & 3)]
}

fn bth(headers: &Headers) -> Section {
    let bth = &headers.bth;
    let mut fields = vec![
        ("opcode", hex(bth.opcode.to_u8(), 2)),
        ("name", text(bth.opcode)),
        ("solicited", Value::Flag(bth.solicited)),
        ("migrated", Value::Flag(bth.migrated)),
        ("pad", number(bth.pad)),
        ("pkey", hex(bth.pkey, 4)),
        ("fecn", Value::Flag(bth.fecn)),
        ("becn", Value::Flag(bth.becn)),
        ("dest_qp", hex(bth.dest_qp, 6)),
        ("ack_request", Value::Flag(bth.ack_request)),
        ("psn", number(bth.psn)),
    ];
    if bth.opcode.service() == Service::Irn {
        fields.push(("attempt", number(bth.attempt)));
    }
    Section::new("bth", fields)
}

/// The syndrome of an acknowledgement (AETH) as text, for example `ACK` or the reason of a NAK.
pub(super) fn syndrome(syndrome: Syndrome) -> String {
    match syndrome {
        Syndrome::Ack { credits } => match credits.count() {
            Some(count) => format!("ACK, {count} credits"),
            None => "ACK".to_string(),
        },
        Syndrome::RnrNak { timer } => {
            format!("RNR NAK, {}.{:02} ms", timer.micros() / 1000, timer.micros() % 1000 / 10)
        }
        Syndrome::Nak(code) => format!("NAK, {}", code.name()),
    }
}

/// The extension headers of a packet, in the order in which they follow the base transport header.
fn extensions(headers: &Headers) -> Vec<Section> {
    let mut sections = Vec::new();
    let mut add = |name, fields| sections.push(Section { name, fields });
    if let Some(deth) = headers.deth {
        add("deth", vec![("qkey", hex(deth.qkey, 8)), ("src_qp", hex(deth.src_qp, 6))]);
    }
    if let Some(reth) = headers.reth {
        let fields = vec![("va", hex(reth.va, 16)), ("rkey", hex(reth.rkey, 8)), ("dma_len", number(reth.dma_len))];
        add("reth", fields);
    }
    if let Some(atomic) = headers.atomic {
        let fields = vec![
            ("va", hex(atomic.va, 16)),
            ("rkey", hex(atomic.rkey, 8)),
            ("swap_add", hex(atomic.swap_add, 16)),
            ("compare", hex(atomic.compare, 16)),
        ];
        add("atomic_eth", fields);
    }
    if let Some(aeth) = headers.aeth {
        let fields = vec![
            ("syndrome", hex(aeth.syndrome.to_byte(), 2)),
            ("meaning", text(syndrome(aeth.syndrome))),
            ("msn", number(aeth.msn)),
        ];
        add("aeth", fields);
    }
    if let Some(header) = headers.atomic_ack {
        add("atomic_ack_eth", vec![("original", hex(header.original, 16))]);
    }
    if let Some(header) = headers.send {
        add("send_eth", vec![("recv_wqe_sn", number(header.recv_wqe_sn)), ("offset", number(header.offset))]);
    }
    if let Some(header) = headers.imm {
        add("imm_dt", vec![("immediate", hex(header.0, 8))]);
    }
    if let Some(header) = headers.ieth {
        add("ieth", vec![("rkey", hex(header.rkey, 8))]);
    }
    if let Some(header) = headers.recv {
        add("recv_eth", vec![("recv_wqe_sn", number(header.recv_wqe_sn))]);
    }
    if let Some(header) = headers.read {
        add("read_eth", vec![("read_wqe_sn", number(header.read_wqe_sn))]);
    }
    if let Some(header) = headers.sack {
        add("sack_eth", vec![("psn", number(header.psn)), ("before", number(header.before))]);
    }
    sections
}
