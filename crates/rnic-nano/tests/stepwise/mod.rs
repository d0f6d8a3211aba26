//! Runs a checked program step by step, as its documentation says: slow, and without anything but that.

use rnic_nano::hir::{
    BinaryOp, Expr, ExprKind, ExternCall, MatchKind, Pattern, Pipeline, Program, SlotId, Stmt, Table, Target,
    Transition, UnaryOp,
};

/// One of a program's pipelines at work.
pub(crate) struct Run<'p> {
    pub(crate) pipeline: &'p Pipeline,
    pub(crate) slots: Vec<u128>,
    /// Calls of the architecture, with what went in.
    pub(crate) calls: Vec<(String, Vec<u128>)>,
    /// What the calls give, in turn; then zeros.
    pub(crate) answers: Vec<Vec<u128>>,
    /// Bytes of the packet: what is still to be extracted, or has been emitted.
    pub(crate) packet: Vec<u8>,
}

/// How statements ended.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Flow {
    On,
    Leave(u32),
    Exit,
    /// The packet was too short.
    Short,
}

fn mask(width: u32) -> u128 {
    u128::MAX >> (128 - width)
}

fn signed(value: u128, width: u32) -> i128 {
    ((value << (128 - width)) as i128) >> (128 - width)
}

impl<'p> Run<'p> {
    pub(crate) fn ingress(program: &'p Program) -> Run<'p> {
        Run::new(&program.ingress)
    }

    pub(crate) fn new(pipeline: &'p Pipeline) -> Run<'p> {
        let slots = vec![0; pipeline.slots.len()];
        Run { pipeline, slots, calls: Vec::new(), answers: Vec::new(), packet: Vec::new() }
    }

    fn find(&self, name: &str) -> SlotId {
        let found = self.pipeline.slots.iter().position(|slot| slot.name == name);
        SlotId(found.unwrap_or_else(|| panic!("no slot {name}")) as u32)
    }

    /// The value of the first slot of that name.
    pub(crate) fn get(&self, name: &str) -> u128 {
        self.slots[self.find(name).0 as usize]
    }

    pub(crate) fn set(&mut self, name: &str, value: u128) {
        let slot = self.find(name);
        self.put(slot, value);
    }

    fn put(&mut self, slot: SlotId, value: u128) {
        assert!(value <= mask(self.pipeline.slots[slot.0 as usize].width), "{value} does not fit");
        self.slots[slot.0 as usize] = value;
    }

    /// The control.
    pub(crate) fn control(&mut self) -> Flow {
        self.body(&self.pipeline.control)
    }

    /// The parser: `Accept` or `Reject`.
    pub(crate) fn parser(&mut self) -> Target {
        let mut state = &self.pipeline.states[0];
        for _ in 0..1000 {
            if self.body(&state.body) == Flow::Short {
                return Target::Reject;
            }
            let target = match &state.transition {
                Transition::To(target) => *target,
                Transition::Select { keys, cases } => {
                    let keys: Vec<u128> = keys.iter().map(|key| self.value(key)).collect();
                    let fits = |patterns: &[Pattern]| patterns.iter().zip(&keys).all(|(p, key)| matches(*p, *key));
                    cases.iter().find(|(p, _)| fits(p)).map_or(Target::Reject, |(_, target)| *target)
                }
            };
            match target {
                Target::State(next) => state = &self.pipeline.states[next.0 as usize],
                end => return end,
            }
        }
        panic!("the parser does not end")
    }

    pub(crate) fn body(&mut self, body: &[Stmt]) -> Flow {
        for statement in body {
            match self.statement(statement) {
                Flow::On => {}
                other => return other,
            }
        }
        Flow::On
    }

    fn statement(&mut self, statement: &Stmt) -> Flow {
        match statement {
            Stmt::Assign { slot, value } => {
                let value = self.value(value);
                self.put(*slot, value);
            }
            Stmt::AssignSlice { slot, low, value } => {
                let (bits, old) = (mask(value.width) << low, self.slots[slot.0 as usize]);
                let value = self.value(value) << low;
                self.put(*slot, old & !bits | value);
            }
            Stmt::If { condition, then, otherwise } => {
                let chosen = if self.value(condition) == 1 { then } else { otherwise };
                return self.body(chosen);
            }
            Stmt::Switch { value, cases, default } => {
                let value = self.value(value);
                let case = cases.iter().find(|(labels, _)| labels.contains(&value));
                return self.body(case.map_or(default, |(_, body)| body));
            }
            Stmt::Scope(body) => {
                return match self.body(body) {
                    Flow::Leave(0) => Flow::On,
                    Flow::Leave(count) => Flow::Leave(count - 1),
                    other => other,
                };
            }
            Stmt::Leave(count) => return Flow::Leave(*count),
            Stmt::Exit => return Flow::Exit,
            Stmt::Apply { table, hit, action } => {
                return self.apply(&self.pipeline.tables[table.0 as usize], *hit, *action);
            }
            Stmt::Extern(call) => self.call(call),
            Stmt::Extract(header) => return self.extract(header.0 as usize),
            Stmt::Advance(bits) => {
                if self.packet.len() < *bits as usize / 8 {
                    return Flow::Short;
                }
                self.packet.drain(..*bits as usize / 8);
            }
            Stmt::Emit(header) => self.emit(header.0 as usize),
        }
        Flow::On
    }

    fn apply(&mut self, table: &Table, hit: Option<SlotId>, action: Option<SlotId>) -> Flow {
        let keys: Vec<u128> = table.keys.iter().map(|(key, _)| self.value(key)).collect();
        let entry = table.entries.iter().find(|entry| entry.keys.iter().zip(&keys).all(|(p, key)| matches(*p, *key)));
        assert!(
            table.keys.iter().all(|(_, kind)| matches!(kind, MatchKind::Exact | MatchKind::Ternary | MatchKind::Lpm))
        );
        let chosen = entry.map(|entry| (entry.action, &entry.arguments));
        let chosen = chosen.or(table.default.as_ref().map(|(action, arguments)| (*action, arguments)));
        if let Some(slot) = hit {
            self.put(slot, u128::from(entry.is_some()));
        }
        if let Some(slot) = action {
            self.put(slot, chosen.map_or(table.actions.len(), |(action, _)| action) as u128);
        }
        let Some((action, arguments)) = chosen else { return Flow::On };
        let action = &table.actions[action];
        for (slot, argument) in action.parameters.iter().zip(arguments) {
            self.put(*slot, *argument);
        }
        self.body(&action.body)
    }

    fn call(&mut self, call: &ExternCall) {
        let arguments = call.arguments.iter().map(|argument| self.value(argument)).collect();
        self.calls.push((call.function.clone(), arguments));
        let answer = if self.answers.is_empty() { Vec::new() } else { self.answers.remove(0) };
        for (number, slot) in call.results.iter().enumerate() {
            if let Some(slot) = slot {
                self.put(*slot, answer.get(number).copied().unwrap_or(0));
            }
        }
    }

    fn extract(&mut self, header: usize) -> Flow {
        let header = &self.pipeline.headers[header];
        let widths = header.fields.iter().map(|field| self.pipeline.slots[field.0 as usize].width);
        let bytes = widths.clone().sum::<u32>() as usize / 8;
        if self.packet.len() < bytes {
            return Flow::Short;
        }
        let taken: Vec<u8> = self.packet.drain(..bytes).collect();
        let mut at = 0;
        for (field, width) in header.fields.iter().zip(widths.collect::<Vec<_>>()) {
            let bit = |at: u32| u128::from(taken[at as usize / 8] >> (7 - at % 8) & 1);
            let value = (at..at + width).fold(0, |value, at| value << 1 | bit(at));
            self.put(*field, value);
            at += width;
        }
        self.put(header.valid, 1);
        Flow::On
    }

    fn emit(&mut self, header: usize) {
        let header = &self.pipeline.headers[header];
        if self.slots[header.valid.0 as usize] == 0 {
            return;
        }
        let mut bits = Vec::new();
        for field in &header.fields {
            let (value, width) = (self.slots[field.0 as usize], self.pipeline.slots[field.0 as usize].width);
            bits.extend((0..width).rev().map(|at| (value >> at & 1) as u8));
        }
        self.packet.extend(bits.chunks(8).map(|byte| byte.iter().fold(0, |value, bit| value << 1 | bit)));
    }

    pub(crate) fn value(&self, expr: &Expr) -> u128 {
        let width = expr.width;
        let value = match &expr.kind {
            ExprKind::Const(value) => *value,
            ExprKind::Slot(slot) => self.slots[slot.0 as usize],
            ExprKind::Unary(UnaryOp::Negate, a) => self.value(a).wrapping_neg(),
            ExprKind::Unary(UnaryOp::Not, a) => !self.value(a),
            ExprKind::Binary(op, a, b) => binary(*op, self.value(a), self.value(b), a.width, b.width),
            ExprKind::Slice { of, low } => self.value(of) >> low,
            ExprKind::ZeroExtend(a) => self.value(a),
            ExprKind::SignExtend(a) => signed(self.value(a), a.width) as u128,
            ExprKind::Conditional(c, a, b) => self.value(if self.value(c) == 1 { a } else { b }),
        };
        value & mask(width)
    }
}

fn binary(op: BinaryOp, a: u128, b: u128, width: u32, width_b: u32) -> u128 {
    let (x, y) = (signed(a, width), signed(b, width_b));
    let (least, most) = (signed(1 << (width - 1), width), (mask(width) >> 1) as i128);
    match op {
        BinaryOp::Add => a.wrapping_add(b),
        BinaryOp::Sub => a.wrapping_sub(b),
        BinaryOp::Mul => a.wrapping_mul(b),
        BinaryOp::SatAdd => a.saturating_add(b).min(mask(width)),
        BinaryOp::SatSub => a.saturating_sub(b),
        BinaryOp::SatAddSigned => x.saturating_add(y).clamp(least, most) as u128,
        BinaryOp::SatSubSigned => x.saturating_sub(y).clamp(least, most) as u128,
        BinaryOp::Shl => {
            if b >= u128::from(width) {
                0
            } else {
                a << b
            }
        }
        BinaryOp::Shr => {
            if b >= u128::from(width) {
                0
            } else {
                a >> b
            }
        }
        BinaryOp::ShrSigned => (x >> b.min(127)) as u128,
        BinaryOp::And => a & b,
        BinaryOp::Or => a | b,
        BinaryOp::Xor => a ^ b,
        BinaryOp::Concat => a << width_b | b,
        BinaryOp::Eq => (a == b).into(),
        BinaryOp::Ne => (a != b).into(),
        BinaryOp::Lt => (a < b).into(),
        BinaryOp::Le => (a <= b).into(),
        BinaryOp::LtSigned => (x < y).into(),
        BinaryOp::LeSigned => (x <= y).into(),
    }
}

fn matches(pattern: Pattern, key: u128) -> bool {
    match pattern {
        Pattern::Masked { value, mask } => key & mask == value,
        Pattern::Range { low, high } => (low..=high).contains(&key),
    }
}
