//! A checked program put together by hand: the receiver-driven NDP of the NanoTransport document.

use rnic_nano::hir::*;

/// Slots and headers of a pipeline as they are added.
#[derive(Default)]
pub struct Builder {
    /// The pipeline so far.
    pub pipeline: Pipeline,
}

pub fn expr(width: u32, kind: ExprKind) -> Expr {
    Expr { width, kind }
}

pub fn number(width: u32, value: u128) -> Expr {
    expr(width, ExprKind::Const(value))
}

pub fn binary(op: BinaryOp, a: Expr, b: Expr) -> Expr {
    let compares = matches!(op, BinaryOp::Eq | BinaryOp::Ne | BinaryOp::Lt | BinaryOp::Le);
    expr(if compares { 1 } else { a.width }, ExprKind::Binary(op, a.into(), b.into()))
}

pub fn when(condition: Expr, then: Vec<Stmt>, otherwise: Vec<Stmt>) -> Stmt {
    Stmt::If { condition, then, otherwise }
}

pub fn assign(slot: SlotId, value: Expr) -> Stmt {
    Stmt::Assign { slot, value }
}

pub fn call(function: &str, instance: Option<u32>, arguments: Vec<Expr>, results: &[Option<SlotId>]) -> Stmt {
    Stmt::Extern(ExternCall {
        function: function.to_string(),
        instance: instance.map(InstanceId),
        arguments,
        results: results.to_vec(),
        span: Default::default(),
    })
}

pub fn instance(kind: &str, types: &[u32], arguments: &[u128]) -> Instance {
    let name = kind.to_lowercase();
    Instance {
        name,
        kind: kind.to_string(),
        types: types.to_vec(),
        arguments: arguments.to_vec(),
        span: Default::default(),
    }
}

impl Builder {
    pub fn slot(&mut self, name: &str, width: u32) -> SlotId {
        self.pipeline.slots.push(Slot { name: name.to_string(), width, signed: false });
        SlotId(self.pipeline.slots.len() as u32 - 1)
    }

    pub fn input(&mut self, name: &str, width: u32) -> SlotId {
        let slot = self.slot(name, width);
        self.pipeline.inputs.push((name.to_string(), slot));
        slot
    }

    pub fn output(&mut self, name: &str, width: u32) -> SlotId {
        let slot = self.slot(name, width);
        self.pipeline.outputs.push((name.to_string(), slot));
        slot
    }

    /// An output that begins with a value of the architecture's.
    pub fn in_out(&mut self, name: &str, width: u32) -> SlotId {
        let slot = self.output(name, width);
        self.pipeline.inputs.push((name.to_string(), slot));
        slot
    }

    pub fn header(&mut self, name: &str, fields: &[(&str, u32)]) -> Vec<SlotId> {
        let valid = self.slot(&format!("{name}.valid"), 1);
        let fields: Vec<SlotId> =
            fields.iter().map(|(field, width)| self.slot(&format!("{name}.{field}"), *width)).collect();
        self.pipeline.headers.push(Header { name: name.to_string(), valid, fields: fields.clone() });
        fields
    }

    pub fn of(&self, slot: SlotId) -> Expr {
        expr(self.pipeline.slots[slot.0 as usize].width, ExprKind::Slot(slot))
    }
}

/// A parser of one state that extracts the first header.
pub fn start() -> Vec<State> {
    let body = vec![Stmt::Extract(HeaderId(0))];
    vec![State { name: "start".to_string(), body, transition: Transition::To(Target::Accept) }]
}

pub fn program(ingress: Pipeline, egress: Pipeline, instances: Vec<Instance>) -> Program {
    Program { ingress, egress, instances, annotations: Vec::new(), constants: Vec::new() }
}

const FIELDS: [(&str, u32); 8] = [
    ("src_ip", 32),
    ("src_context", 16),
    ("dst_context", 16),
    ("tx_msg_id", 32),
    ("msg_len", 32),
    ("pkt_offset", 32),
    ("pull_offset", 32),
    ("flags", 8),
];

/// The whole program: 3 stages and 1.
pub fn ndp() -> Program {
    program(ndp_ingress(), ndp_egress(), vec![instance("IfElseRaw", &[32], &[1 << 16])])
}

fn ndp_ingress() -> Pipeline {
    let mut b = Builder::default();
    let fields = b.header("hdr.ndp", &FIELDS);
    let [src_ip, src_context, dst_context, tx_msg_id, msg_len, pkt_offset, pull_offset, flags] = fields[..] else {
        unreachable!()
    };
    let trimmed = b.input("arrival.trimmed", 1);
    let rtt_pkts = b.input("nic.rtt_pkts", 32);
    let drop = b.in_out("reassembly.drop", 1);
    let outputs = [("reassembly.rx_msg_id", 16), ("reassembly.pkt_offset", 32), ("reassembly.is_last_pkt", 1)]
        .map(|(n, w)| b.output(n, w));
    let info =
        [("fail", 1), ("rx_msg_id", 16), ("is_new_msg", 1), ("is_new_pkt", 1), ("is_last_pkt", 1), ("ack_no", 32)];
    let info = info.map(|(name, width)| b.slot(name, width));
    let [fail, rx_msg_id, is_new_msg, is_new_pkt, is_last_pkt, _] = info;
    let (diff, pull, immediate) = (b.slot("diff", 32), b.slot("pull", 32), b.slot("immediate", 8));
    let flag =
        |b: &Builder, bit| binary(BinaryOp::Ne, binary(BinaryOp::And, b.of(flags), number(8, bit)), number(8, 0));
    let not = |e: Expr| expr(1, ExprKind::Unary(UnaryOp::Not, e.into()));
    let index = expr(32, ExprKind::ZeroExtend(b.of(rx_msg_id).into()));
    let pulled = vec![
        index,
        b.of(is_new_msg),
        number(2, 1),
        binary(BinaryOp::Add, b.of(rtt_pkts), b.of(diff)),
        number(2, 2),
        b.of(diff),
    ];
    let mut control: Vec<Expr> = [src_ip, src_context, dst_context, tx_msg_id, msg_len, pkt_offset, pull]
        .iter()
        .map(|slot| b.of(*slot))
        .collect();
    control.extend([number(8, 0), b.of(immediate), number(8, 8)]);
    let request = [src_ip, src_context, tx_msg_id, msg_len, pkt_offset].map(|slot| b.of(slot));
    let request = request.into_iter().chain([not(b.of(trimmed))]).collect();
    let keep = binary(BinaryOp::And, not(b.of(trimmed)), b.of(is_new_pkt));
    let deliver = vec![
        assign(drop, number(1, 0)),
        assign(outputs[0], b.of(rx_msg_id)),
        assign(outputs[1], b.of(pkt_offset)),
        assign(outputs[2], b.of(is_last_pkt)),
    ];
    let known = vec![
        when(
            b.of(trimmed),
            vec![assign(diff, number(32, 0)), assign(immediate, number(8, 4))],
            vec![assign(diff, number(32, 1)), assign(immediate, number(8, 2))],
        ),
        call("execute", Some(0), pulled, &[Some(pull)]),
        call("ctrl_pkt_event", None, control, &[]),
        when(keep, deliver, vec![]),
    ];
    let data = vec![call("get_rx_msg_info", None, request, &info.map(Some)), when(not(b.of(fail)), known, vec![])];
    let acknowledged = vec![b.of(tx_msg_id), number(32, 0), b.of(pkt_offset), number(64, 1)];
    let credit = vec![b.of(tx_msg_id), flag(&b, 4), b.of(pkt_offset), flag(&b, 8), b.of(pull_offset)];
    let answers = vec![
        when(flag(&b, 2), vec![call("delivered_event", None, acknowledged, &[])], vec![]),
        when(flag(&b, 12), vec![call("credit_to_btx_event", None, credit, &[])], vec![]),
    ];
    b.pipeline.control = vec![when(flag(&b, 1), data, answers)];
    b.pipeline.states = start();
    b.pipeline
}

fn ndp_egress() -> Pipeline {
    let mut b = Builder::default();
    let fields = b.header("hdr.ndp", &FIELDS);
    let ip = b.input("nic.ip", 32);
    let names = [
        ("departure.src_context", 16),
        ("departure.dst_context", 16),
        ("departure.tx_msg_id", 32),
        ("departure.msg_len", 32),
        ("departure.pkt_offset", 32),
        ("departure.credit", 32),
        ("departure.flags", 8),
    ];
    let departure = names.map(|(name, width)| b.input(name, width));
    let band = b.in_out("link.band", 8);
    let values = [ip].into_iter().chain(departure);
    let mut control = vec![assign(b.pipeline.headers[0].valid, number(1, 1))];
    control.extend(fields.iter().zip(values).map(|(field, value)| assign(*field, b.of(value))));
    let data = binary(BinaryOp::Ne, binary(BinaryOp::And, b.of(departure[6]), number(8, 1)), number(8, 0));
    control.push(when(data, vec![assign(band, number(8, 1))], vec![]));
    b.pipeline.control = control;
    b.pipeline.deparser = vec![Stmt::Emit(HeaderId(0))];
    b.pipeline
}
