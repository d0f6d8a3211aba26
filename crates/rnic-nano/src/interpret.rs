//! An interpreter of the high-level intermediate representation (HIR). It executes a pipeline as the documentation of
//! the HIR says, in a simple and slow way. Tests compare the virtual machine with it, and [`trace`](crate::trace) shows
//! what a program does.
//!
//! The interpreter shares only the definition of the HIR with the compiler and the virtual machine; in particular it
//! has its own operators.

use crate::hir::{
    BinaryOp, Expr, ExprKind, ExternCall, HeaderId, Pattern, Pipeline, SlotId, StateId, Stmt, TableId, Target,
    Transition, UnaryOp,
};

/// Maximum number of states that a parser may enter for one packet.
const MAX_STATES: usize = 5000;

/// The functions and objects of the NIC that the interpreted program calls.
pub trait Externs {
    /// Executes a call and returns its scalar results. If there are fewer results than the call has, the others are 0.
    fn call(&mut self, call: &ExternCall, arguments: &[u128]) -> Vec<u128>;
}

/// The way in which a statement ended.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Flow {
    /// Execution continues at the next statement.
    Next,
    /// Execution continues after the end of an enclosing scope; the number has the same meaning as in [`Stmt::Leave`].
    Leave(u32),
    /// Execution of the control ends.
    Exit,
    /// Execution ends, because the packet has too few bytes.
    TooShort,
}

/// A pipeline that is being interpreted.
#[derive(Debug)]
pub struct Interpreter<'p, E> {
    /// The pipeline.
    pub pipeline: &'p Pipeline,
    /// The values of the slots (scalar variables).
    pub slots: Vec<u128>,
    /// The functions and objects of the NIC.
    pub externs: E,
    /// The bytes of the arriving packet.
    pub packet: Vec<u8>,
    /// Number of bits that the parser has consumed.
    position: usize,
    /// The states of the parser that were entered, in order.
    pub visited: Vec<StateId>,
    /// The bytes that the deparser has emitted.
    pub emitted: Vec<u8>,
}

/// Truncates a value to `width` bits.
fn truncate(value: u128, width: u32) -> u128 {
    if width == 128 { value } else { value % (1 << width) }
}

/// Interprets the lowest `width` bits of a value as a number, by the definition of two's complement.
fn signed(value: u128, width: u32) -> i128 {
    if width < 128 && value >> (width - 1) == 1 { (value as i128).wrapping_sub(1 << width) } else { value as i128 }
}

impl<'p, E: Externs> Interpreter<'p, E> {
    /// A pipeline before it processes a packet. All slots are zero; the caller sets the inputs.
    pub fn new(pipeline: &'p Pipeline, externs: E, packet: &[u8]) -> Interpreter<'p, E> {
        let slots = vec![0; pipeline.slots.len()];
        Interpreter {
            pipeline,
            slots,
            externs,
            packet: packet.to_vec(),
            position: 0,
            visited: Vec::new(),
            emitted: Vec::new(),
        }
    }

    fn find(&self, name: &str) -> SlotId {
        let found = self.pipeline.slots.iter().position(|slot| slot.name == name);
        SlotId(found.expect("the pipeline has a slot of this name") as u32)
    }

    /// Returns the value of the first slot that has this name. Such a slot must exist.
    pub fn get(&self, name: &str) -> u128 {
        self.slots[self.find(name).0 as usize]
    }

    /// Sets the value of the first slot that has this name. Such a slot must exist.
    pub fn set(&mut self, name: &str, value: u128) {
        let slot = self.find(name);
        self.assign(slot, value);
    }

    fn assign(&mut self, slot: SlotId, value: u128) {
        let width = self.pipeline.slots[slot.0 as usize].width;
        debug_assert_eq!(value, truncate(value, width), "{value} does not fit in slot {}", slot.0);
        self.slots[slot.0 as usize] = value;
    }

    /// Returns the number of bytes of the packet that the parser has not consumed.
    pub fn remaining_bytes(&self) -> usize {
        self.packet.len() - self.position / 8
    }

    /// Runs the parser and returns `Accept` or `Reject`; `None` if the parser does not end within `MAX_STATES` states.
    pub fn parser(&mut self) -> Option<Target> {
        if self.pipeline.states.is_empty() {
            return Some(Target::Accept);
        }
        let mut id = StateId(0);
        for _ in 0..MAX_STATES {
            let state = &self.pipeline.states[id.0 as usize];
            self.visited.push(id);
            if self.body(&state.body) == Flow::TooShort {
                return Some(Target::Reject);
            }
            match self.target(&state.transition) {
                Target::State(next) => id = next,
                end => return Some(end),
            }
        }
        None
    }

    /// Executes the control and returns the way in which it ended.
    pub fn control(&mut self) -> Flow {
        self.body(&self.pipeline.control)
    }

    /// Executes the deparser and returns the way in which it ended.
    pub fn deparser(&mut self) -> Flow {
        self.body(&self.pipeline.deparser)
    }

    fn target(&self, transition: &Transition) -> Target {
        match transition {
            Transition::To(target) => *target,
            Transition::Select { keys, cases } => {
                let keys: Vec<u128> = keys.iter().map(|key| self.value(key)).collect();
                let case = cases.iter().find(|(patterns, _)| all_match(patterns, &keys));
                case.map_or(Target::Reject, |(_, target)| *target)
            }
        }
    }

    fn body(&mut self, body: &[Stmt]) -> Flow {
        for statement in body {
            match self.statement(statement) {
                Flow::Next => {}
                other => return other,
            }
        }
        Flow::Next
    }

    fn statement(&mut self, statement: &Stmt) -> Flow {
        match statement {
            Stmt::Assign { slot, value } => {
                let value = self.value(value);
                self.assign(*slot, value);
            }
            Stmt::AssignSlice { slot, low, value } => {
                let (bits, mut new) = (self.value(value), self.slots[slot.0 as usize]);
                for bit in 0..value.width {
                    let mask = 1 << (low + bit);
                    new = if bits >> bit & 1 == 1 { new | mask } else { new & !mask };
                }
                self.assign(*slot, new);
            }
            Stmt::If { condition, then, otherwise } => {
                return if self.value(condition) == 1 { self.body(then) } else { self.body(otherwise) };
            }
            Stmt::Switch { value, cases, default } => {
                let value = self.value(value);
                let case = cases.iter().find(|(labels, _)| labels.contains(&value));
                return self.body(case.map_or(default, |(_, body)| body));
            }
            Stmt::Scope(body) => {
                return match self.body(body) {
                    Flow::Leave(0) => Flow::Next,
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
                if self.position + *bits as usize > 8 * self.packet.len() {
                    return Flow::TooShort;
                }
                self.position += *bits as usize;
            }
            Stmt::Lookahead(slots) => {
                let bits: u32 = slots.iter().map(|slot| self.pipeline.slots[slot.0 as usize].width).sum();
                if self.position + bits as usize > 8 * self.packet.len() {
                    return Flow::TooShort;
                }
                let mut at = self.position;
                for slot in slots {
                    let width = self.pipeline.slots[slot.0 as usize].width as usize;
                    let value = self.bits(at, width);
                    self.assign(*slot, value);
                    at += width;
                }
            }
            Stmt::Emit(header) => self.emit(*header),
        }
        Flow::Next
    }

    fn apply(&mut self, id: TableId, hit: Option<SlotId>, action: Option<SlotId>) -> Flow {
        let table = &self.pipeline.tables[id.0 as usize];
        let keys: Vec<u128> = table.keys.iter().map(|(key, _)| self.value(key)).collect();
        let entry = table.entries.iter().find(|entry| all_match(&entry.keys, &keys));
        let chosen = match entry {
            Some(entry) => Some((entry.action, &entry.arguments)),
            None => table.default.as_ref().map(|(action, arguments)| (*action, arguments)),
        };
        if let Some(slot) = hit {
            self.assign(slot, u128::from(entry.is_some()));
        }
        if let Some(slot) = action {
            self.assign(slot, chosen.map_or(table.actions.len(), |(action, _)| action) as u128);
        }
        let Some((action, arguments)) = chosen else { return Flow::Next };
        let action = &table.actions[action];
        for (slot, argument) in action.parameters.iter().zip(arguments) {
            self.assign(*slot, *argument);
        }
        self.body(&action.body)
    }

    fn call(&mut self, call: &ExternCall) {
        let arguments: Vec<u128> = call.arguments.iter().map(|argument| self.value(argument)).collect();
        let results = self.externs.call(call, &arguments);
        for (index, slot) in call.results.iter().enumerate() {
            if let Some(slot) = slot {
                self.assign(*slot, results.get(index).copied().unwrap_or(0));
            }
        }
    }

    fn extract(&mut self, header: HeaderId) -> Flow {
        let header = &self.pipeline.headers[header.0 as usize];
        let widths = header.fields.iter().map(|field| self.pipeline.slots[field.0 as usize].width as usize);
        if self.position + widths.sum::<usize>() > 8 * self.packet.len() {
            return Flow::TooShort;
        }
        for field in &header.fields {
            let width = self.pipeline.slots[field.0 as usize].width as usize;
            let value = self.bits(self.position, width);
            self.position += width;
            self.assign(*field, value);
        }
        self.assign(header.valid, 1);
        Flow::Next
    }

    /// Bits of the packet from bit `at` on.
    fn bits(&self, at: usize, width: usize) -> u128 {
        let bit = |at: usize| u128::from(self.packet[at / 8] >> (7 - at % 8) & 1);
        (at..at + width).fold(0, |value, at| value << 1 | bit(at))
    }

    fn emit(&mut self, header: HeaderId) {
        let header = &self.pipeline.headers[header.0 as usize];
        if self.slots[header.valid.0 as usize] == 0 {
            return;
        }
        let mut bits = Vec::new();
        for field in &header.fields {
            let (value, width) = (self.slots[field.0 as usize], self.pipeline.slots[field.0 as usize].width);
            bits.extend((0..width).rev().map(|bit| (value >> bit & 1) as u8));
        }
        debug_assert_eq!(bits.len() % 8, 0, "the header {} has whole bytes", header.name);
        self.emitted.extend(bits.chunks(8).map(|byte| byte.iter().fold(0, |value, bit| value << 1 | bit)));
    }

    fn value(&self, expr: &Expr) -> u128 {
        let value = match &expr.kind {
            ExprKind::Const(value) => *value,
            ExprKind::Slot(slot) => self.slots[slot.0 as usize],
            ExprKind::Unary(UnaryOp::Negate, a) => (!self.value(a)).wrapping_add(1),
            ExprKind::Unary(UnaryOp::Not, a) => !self.value(a),
            ExprKind::Binary(op, a, b) => binary(*op, self.value(a), self.value(b), a.width, b.width),
            ExprKind::Slice { of, low } => self.value(of) >> low,
            ExprKind::ZeroExtend(a) => self.value(a),
            ExprKind::SignExtend(a) => signed(self.value(a), a.width) as u128,
            ExprKind::Conditional(c, a, b) => self.value(if self.value(c) == 1 { a } else { b }),
        };
        truncate(value, expr.width)
    }
}

/// Computes a binary operator on operands of `width` and `second` bits. The caller truncates the result to its width.
fn binary(op: BinaryOp, a: u128, b: u128, width: u32, second: u32) -> u128 {
    let max = truncate(u128::MAX, width);
    let (x, y) = (signed(a, width), signed(b, second));
    let (min_signed, max_signed) = (-((max >> 1) as i128) - 1, (max >> 1) as i128);
    let too_far = b >= width.into();
    match op {
        BinaryOp::Add => a.wrapping_add(b),
        BinaryOp::Sub => a.wrapping_sub(b),
        BinaryOp::Mul => a.wrapping_mul(b),
        BinaryOp::SatAdd if a > max - b => max,
        BinaryOp::SatAdd => a + b,
        BinaryOp::SatSub => a.saturating_sub(b),
        BinaryOp::SatAddSigned => x.saturating_add(y).clamp(min_signed, max_signed) as u128,
        BinaryOp::SatSubSigned => x.saturating_sub(y).clamp(min_signed, max_signed) as u128,
        BinaryOp::Shl | BinaryOp::Shr if too_far => 0,
        BinaryOp::Shl => a << b,
        BinaryOp::Shr => a >> b,
        BinaryOp::ShrSigned => (if too_far { x >> 127 } else { x >> b }) as u128,
        BinaryOp::And => a & b,
        BinaryOp::Or => a | b,
        BinaryOp::Xor => a ^ b,
        BinaryOp::Concat => a << second | b,
        BinaryOp::Eq => (a == b).into(),
        BinaryOp::Ne => (a != b).into(),
        BinaryOp::Lt => (a < b).into(),
        BinaryOp::Le => (a <= b).into(),
        BinaryOp::LtSigned => (x < y).into(),
        BinaryOp::LeSigned => (x <= y).into(),
    }
}

fn all_match(patterns: &[Pattern], keys: &[u128]) -> bool {
    patterns.iter().zip(keys).all(|(pattern, key)| match *pattern {
        Pattern::Masked { value, mask } => key & mask == value,
        Pattern::Range { low, high } => low <= *key && *key <= high,
    })
}
