//! What a checked program means, executed as it stands: slow, and without anything in common with the code under test
//! but the checked program.

use crate::hir::*;
use std::collections::BTreeMap;

/// How a run ended.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum End {
    Done,
    Rejected,
    /// More states than it was patient for.
    Patience,
}

enum Flow {
    On,
    Leave(u32),
    Exit,
    Reject,
}

/// Registers, by instance, index and scalar.
pub(crate) type Registers = BTreeMap<(u32, u128, usize), u128>;

pub(crate) struct Interpreter<'a> {
    pub(crate) program: &'a Program,
    pub(crate) pipeline: &'a Pipeline,
    pub(crate) slots: Vec<u128>,
    pub(crate) registers: Registers,
    pub(crate) packet: Vec<u8>,
    position: usize,
    /// Emitted, bit by bit.
    pub(crate) emitted: Vec<bool>,
}

fn cut(value: u128, width: u32) -> u128 {
    if width == 128 { value } else { value % (1 << width) }
}

/// As a number with a sign, by the definition of two's complement; for any width.
fn signed(value: u128, width: u32) -> i128 {
    if width == 128 {
        value as i128
    } else if value >> (width - 1) == 1 {
        (value as i128).wrapping_sub(1 << width)
    } else {
        value as i128
    }
}

impl<'a> Interpreter<'a> {
    pub(crate) fn new(program: &'a Program, pipeline: &'a Pipeline, packet: &[u8]) -> Interpreter<'a> {
        let slots = vec![0; pipeline.slots.len()];
        Interpreter {
            program,
            pipeline,
            slots,
            registers: Registers::new(),
            packet: packet.to_vec(),
            position: 0,
            emitted: Vec::new(),
        }
    }

    pub(crate) fn run(&mut self) -> End {
        let mut state = StateId(0);
        for patience in 0.. {
            let Some(now) = self.pipeline.states.get(state.0 as usize) else { break };
            if patience == 5000 {
                return End::Patience;
            }
            if let Flow::Reject = self.body(&now.body) {
                return End::Rejected;
            }
            match self.target(&now.transition) {
                Target::State(next) => state = next,
                Target::Accept => break,
                Target::Reject => return End::Rejected,
            }
        }
        self.body(&self.pipeline.control);
        self.body(&self.pipeline.deparser);
        End::Done
    }

    fn target(&self, transition: &Transition) -> Target {
        match transition {
            Transition::To(target) => *target,
            Transition::Select { keys, cases } => {
                let keys: Vec<u128> = keys.iter().map(|key| self.value(key)).collect();
                let hit = cases.iter().find(|(patterns, _)| patterns.iter().zip(&keys).all(|(p, k)| matches(*p, *k)));
                hit.map_or(Target::Reject, |(_, target)| *target)
            }
        }
    }

    fn body(&mut self, body: &[Stmt]) -> Flow {
        for stmt in body {
            match self.stmt(stmt) {
                Flow::On => {}
                other => return other,
            }
        }
        Flow::On
    }

    fn stmt(&mut self, stmt: &Stmt) -> Flow {
        match stmt {
            Stmt::Assign { slot, value } => self.slots[slot.0 as usize] = self.value(value),
            Stmt::AssignSlice { slot, low, value } => {
                let new = self.value(value);
                for bit in 0..value.width {
                    let place = 1 << (low + bit);
                    let slot = &mut self.slots[slot.0 as usize];
                    *slot = if new >> bit & 1 == 1 { *slot | place } else { *slot & !place };
                }
            }
            Stmt::If { condition, then, otherwise } => {
                return if self.value(condition) == 1 { self.body(then) } else { self.body(otherwise) };
            }
            Stmt::Switch { value, cases, default } => {
                let value = self.value(value);
                let case = cases.iter().find(|(values, _)| values.contains(&value));
                return self.body(case.map_or(default, |(_, body)| body));
            }
            Stmt::Scope(body) => {
                return match self.body(body) {
                    Flow::Leave(0) => Flow::On,
                    Flow::Leave(depth) => Flow::Leave(depth - 1),
                    other => other,
                };
            }
            Stmt::Leave(depth) => return Flow::Leave(*depth),
            Stmt::Exit => return Flow::Exit,
            Stmt::Apply { table, hit, action } => return self.apply(*table, *hit, *action),
            Stmt::Extern(call) => self.call(call),
            Stmt::Extract(header) => return self.extract(*header),
            Stmt::Advance(bits) => {
                self.position += *bits as usize;
                return if self.position > 8 * self.packet.len() { Flow::Reject } else { Flow::On };
            }
            Stmt::Emit(header) => self.emit(*header),
        }
        Flow::On
    }

    fn apply(&mut self, id: TableId, hit: Option<SlotId>, action: Option<SlotId>) -> Flow {
        let pipeline = self.pipeline;
        let table = &pipeline.tables[id.0 as usize];
        let keys: Vec<u128> = table.keys.iter().map(|(key, _)| self.value(key)).collect();
        let entry = table.entries.iter().find(|e| e.keys.iter().zip(&keys).all(|(p, k)| matches(*p, *k)));
        let run = match entry {
            Some(entry) => Some((entry.action, &entry.arguments)),
            None => table.default.as_ref().map(|(action, arguments)| (*action, arguments)),
        };
        hit.iter().for_each(|slot| self.slots[slot.0 as usize] = u128::from(entry.is_some()));
        let index = run.map_or(table.actions.len(), |(action, _)| action);
        action.iter().for_each(|slot| self.slots[slot.0 as usize] = index as u128);
        let Some((action, arguments)) = run else { return Flow::On };
        for (slot, value) in table.actions[action].parameters.iter().zip(arguments) {
            self.slots[slot.0 as usize] = *value;
        }
        self.body(&table.actions[action].body)
    }

    fn call(&mut self, call: &ExternCall) {
        let arguments: Vec<u128> = call.arguments.iter().map(|argument| self.value(argument)).collect();
        let id = call.instance.expect("random programs call objects").0;
        let instance = &self.program.instances[id as usize];
        let known = arguments[0] < instance.arguments[0];
        let results = match call.function.as_str() {
            "execute" => {
                let (op, operand) =
                    if arguments[1] == 1 { (arguments[2], arguments[3]) } else { (arguments[4], arguments[5]) };
                let mut value = *self.registers.get(&(id, arguments[0], 0)).unwrap_or(&0);
                value = match op {
                    1 => operand,
                    2 => cut(value + operand, instance.types[0]),
                    _ => value,
                };
                if known {
                    self.registers.insert((id, arguments[0], 0), value);
                }
                vec![if known { value } else { 0 }]
            }
            "read" => {
                let word = |at| *self.registers.get(&(id, arguments[0], at)).unwrap_or(&0);
                (0..instance.types.len()).map(word).collect()
            }
            _ => {
                for (at, value) in arguments[1..].iter().enumerate().filter(|_| known) {
                    self.registers.insert((id, arguments[0], at), *value);
                }
                Vec::new()
            }
        };
        for (slot, value) in call.results.iter().zip(results) {
            slot.iter().for_each(|slot| self.slots[slot.0 as usize] = value);
        }
    }

    fn extract(&mut self, header: HeaderId) -> Flow {
        let header = &self.pipeline.headers[header.0 as usize];
        let widths = header.fields.iter().map(|slot| self.pipeline.slots[slot.0 as usize].width as usize);
        if self.position + widths.sum::<usize>() > 8 * self.packet.len() {
            return Flow::Reject;
        }
        for slot in &header.fields {
            let mut value = 0;
            for _ in 0..self.pipeline.slots[slot.0 as usize].width {
                value = value << 1 | u128::from(self.packet[self.position / 8] >> (7 - self.position % 8) & 1);
                self.position += 1;
            }
            self.slots[slot.0 as usize] = value;
        }
        self.slots[header.valid.0 as usize] = 1;
        Flow::On
    }

    fn emit(&mut self, header: HeaderId) {
        let header = &self.pipeline.headers[header.0 as usize];
        if self.slots[header.valid.0 as usize] == 1 {
            for slot in &header.fields {
                let (value, width) = (self.slots[slot.0 as usize], self.pipeline.slots[slot.0 as usize].width);
                self.emitted.extend((0..width).rev().map(|bit| value >> bit & 1 == 1));
            }
        }
    }

    fn value(&self, expr: &Expr) -> u128 {
        let width = expr.width;
        match &expr.kind {
            ExprKind::Const(value) => *value,
            ExprKind::Slot(slot) => self.slots[slot.0 as usize],
            ExprKind::Unary(UnaryOp::Not, a) => cut(!self.value(a), width),
            ExprKind::Unary(UnaryOp::Negate, a) => cut((!self.value(a)).wrapping_add(1), width),
            ExprKind::Binary(op, a, b) => self.binary(*op, a, b),
            ExprKind::Slice { of, low } => cut(self.value(of) >> low, width),
            ExprKind::ZeroExtend(a) => self.value(a),
            ExprKind::SignExtend(a) => cut(signed(self.value(a), a.width) as u128, width),
            ExprKind::Conditional(c, a, b) => self.value(if self.value(c) == 1 { a } else { b }),
        }
    }

    fn binary(&self, op: BinaryOp, left: &Expr, right: &Expr) -> u128 {
        let (a, b, width) = (self.value(left), self.value(right), left.width);
        let most = cut(u128::MAX, width);
        let (x, y) = (signed(a, width), signed(b, right.width));
        let (low, high) = (-((most >> 1) as i128) - 1, (most >> 1) as i128);
        let result = match op {
            BinaryOp::Add => a.wrapping_add(b),
            BinaryOp::Sub => a.wrapping_sub(b),
            BinaryOp::SatAdd => {
                if a > most - b {
                    most
                } else {
                    a + b
                }
            }
            BinaryOp::SatSub => a.saturating_sub(b),
            BinaryOp::SatAddSigned => x.saturating_add(y).min(high).max(low) as u128,
            BinaryOp::SatSubSigned => x.saturating_sub(y).min(high).max(low) as u128,
            BinaryOp::Mul => a.wrapping_mul(b),
            BinaryOp::Shl => {
                if b >= width.into() {
                    0
                } else {
                    a << b
                }
            }
            BinaryOp::Shr => {
                if b >= width.into() {
                    0
                } else {
                    a >> b
                }
            }
            BinaryOp::ShrSigned => (if b >= width.into() { x >> 127 } else { x >> b }) as u128,
            BinaryOp::And => a & b,
            BinaryOp::Or => a | b,
            BinaryOp::Xor => a ^ b,
            BinaryOp::Concat => return a << right.width | b,
            BinaryOp::Eq => (a == b).into(),
            BinaryOp::Ne => (a != b).into(),
            BinaryOp::Lt => (a < b).into(),
            BinaryOp::Le => (a <= b).into(),
            BinaryOp::LtSigned => (x < y).into(),
            BinaryOp::LeSigned => (x <= y).into(),
        };
        cut(result, width)
    }
}

fn matches(pattern: Pattern, key: u128) -> bool {
    match pattern {
        Pattern::Masked { value, mask } => key & mask == value,
        Pattern::Range { low, high } => low <= key && key <= high,
    }
}
