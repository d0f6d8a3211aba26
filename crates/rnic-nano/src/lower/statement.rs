//! Part of the code generation: generates virtual-machine instructions for statements.

use super::code::{Apply, Call, Op, Pair};
use super::{Label, Lowering};
use crate::arithmetic;
use crate::hir::{BinaryOp, Expr, ExternCall, SlotId, Stmt, TableId};
use crate::runtime;

impl Lowering<'_> {
    pub(super) fn statements(&mut self, body: &[Stmt]) {
        for stmt in body {
            self.statement(stmt);
        }
    }

    fn statement(&mut self, stmt: &Stmt) {
        match stmt {
            Stmt::Assign { slot, value } => self.assign(*slot, value),
            Stmt::AssignSlice { slot, low, value } => self.assign_slice(*slot, *low, value),
            Stmt::If { condition, then, otherwise } => self.choose(condition, then, otherwise),
            Stmt::Switch { value, cases, default } => self.switch(value, cases, default),
            Stmt::Scope(body) => {
                let end = self.label();
                self.scopes.push(end);
                self.statements(body);
                self.scopes.pop();
                self.bind(end);
            }
            Stmt::Leave(depth) => self.jump(self.scopes[self.scopes.len() - 1 - *depth as usize]),
            Stmt::Exit => self.jump(self.exit),
            Stmt::Apply { table, hit, action } => self.apply(*table, *hit, *action),
            Stmt::Extern(call) => self.call(call),
            Stmt::Extract(header) => self.extract(*header),
            Stmt::Advance(bits) => self.advance(bits / 8),
            Stmt::Lookahead(slots) => self.lookahead(slots),
            Stmt::Emit(header) => self.emit_header(*header),
        }
    }

    fn assign(&mut self, slot: SlotId, value: &Expr) {
        let target = self.slots[slot.0 as usize];
        if value.width <= 64 {
            self.narrow(value, Some(target.lo));
        } else {
            let value = self.value(value);
            self.copy_to(value.lo, Some(target.lo));
            self.copy_to(value.hi, Some(target.hi));
        }
    }

    fn assign_slice(&mut self, slot: SlotId, low: u32, expr: &Expr) {
        let target = self.slots[slot.0 as usize];
        let width = self.pipeline.slots[slot.0 as usize].width;
        if expr.width == width {
            return self.assign(slot, expr);
        }
        let value = self.value(expr);
        let high = low + expr.width;
        let in_lower = high.min(64).saturating_sub(low);
        // The value is split between the two registers of the slot: first the part for the slot's lower half, then the
        // part for its upper half.
        if in_lower > 0 {
            let part = self.bits(value, expr.width, 0, in_lower, None);
            self.insert(target.lo, part, low, in_lower);
        }
        if high > 64 {
            let part = self.bits(value, expr.width, in_lower, expr.width - in_lower, None);
            self.insert(target.hi, part, low.max(64) - 64, expr.width - in_lower);
        }
    }

    fn insert(&mut self, d: u32, a: u32, low: u32, width: u32) {
        self.push(Op::Insert { d, old: d, a, low: low as u8, s: (64 - width) as u8 });
    }

    fn choose(&mut self, condition: &Expr, then: &[Stmt], otherwise: &[Stmt]) {
        let no = self.label();
        let end = self.label();
        self.branch(condition, false, no);
        let before = self.emitted;
        self.statements(then);
        let emitted = std::mem::replace(&mut self.emitted, before);
        if !otherwise.is_empty() {
            self.jump(end);
        }
        self.bind(no);
        self.statements(otherwise);
        self.bind(end);
        self.emitted = self.emitted.max(emitted);
    }

    fn switch(&mut self, expr: &Expr, cases: &[(Vec<u128>, Vec<Stmt>)], default: &[Stmt]) {
        let value = self.value(expr);
        let labels: Vec<Label> = cases.iter().map(|_| self.label()).collect();
        for ((values, _), label) in cases.iter().zip(&labels) {
            for case in values {
                self.jump_if_equal(value, expr.width, *case, *label);
            }
        }
        let end = self.label();
        let before = self.emitted;
        self.statements(default);
        self.jump(end);
        let mut most = self.emitted;
        for ((_, body), label) in cases.iter().zip(labels) {
            self.bind(label);
            self.emitted = before;
            self.statements(body);
            self.jump(end);
            most = most.max(self.emitted);
        }
        self.bind(end);
        self.emitted = most;
    }

    /// Emits a jump to `label` that is taken if the value equals the constant `case`.
    pub(super) fn jump_if_equal(&mut self, value: Pair<u32>, width: u32, case: u128, label: Label) {
        let case = self.constant_pair(case);
        if width <= 64 {
            let to = self.to(label);
            return self.push(Op::JumpEq { a: value.lo, b: case.lo, to });
        }
        let differs = self.label();
        let to = self.to(differs);
        self.push(Op::JumpNe { a: value.hi, b: case.hi, to });
        let to = self.to(label);
        self.push(Op::JumpEq { a: value.lo, b: case.lo, to });
        self.bind(differs);
    }

    /// Emits code that computes whether an unsigned value lies between `low` and `high`, inclusive. Returns the
    /// register with the result, 1 or 0.
    pub(super) fn in_range(&mut self, value: Pair<u32>, width: u32, low: u128, high: u128) -> u32 {
        use crate::hir::ExprKind;
        // The comparison is generated as an expression that reads a temporary slot. So this function needs no separate
        // rules for values of more than 64 bits.
        let slot = SlotId(self.slots.len() as u32);
        self.slots.push(value);
        let of = |kind, width| Expr { width, kind };
        let constant = |value| Box::new(of(ExprKind::Const(value), width));
        let key = || Box::new(of(ExprKind::Slot(slot), width));
        let above = of(ExprKind::Binary(BinaryOp::Le, constant(low), key()), 1);
        let below = of(ExprKind::Binary(BinaryOp::Le, key(), constant(high)), 1);
        let both = of(ExprKind::Binary(BinaryOp::And, Box::new(above), Box::new(below)), 1);
        let register = self.narrow(&both, None);
        self.slots.pop();
        register
    }

    /// Emits code for the bitwise and of a value and a mask.
    pub(super) fn masked(&mut self, value: Pair<u32>, width: u32, mask: u128) -> Pair<u32> {
        if mask == arithmetic::ones(width) {
            return value;
        }
        let mask = self.constant_pair(mask);
        let mut half = |a, b| {
            let d = self.fresh();
            self.push(Op::And { d, a, b });
            d
        };
        let lo = half(value.lo, mask.lo);
        Pair { lo, hi: if width > 64 { half(value.hi, mask.hi) } else { mask.hi } }
    }

    fn apply(&mut self, id: TableId, hit: Option<SlotId>, action: Option<SlotId>) {
        let table = &self.pipeline.tables[id.0 as usize];
        let mut keys = Vec::new();
        for (key, _) in &table.keys {
            let value = self.value(key);
            keys.push(value.lo);
            keys.extend((key.width > 64).then_some(value.hi));
        }
        let labels: Vec<Label> = table.actions.iter().map(|_| self.label()).collect();
        let end = self.label();
        let actions =
            table.actions.iter().zip(&labels).map(|(action, label)| {
                (label.0, action.parameters.iter().flat_map(|slot| self.words(*slot)).collect())
            });
        let register = |slot: SlotId| self.slots[slot.0 as usize].lo;
        let actions = actions.collect();
        let apply = Apply {
            table: id.0 as u16,
            keys,
            hit: hit.map(register),
            action: action.map(register),
            actions,
            end: end.0,
        };
        let index = self.code.applies.len() as u16;
        self.code.applies.push(apply);
        labels.iter().chain([&end]).for_each(|label| self.meet(*label));
        self.push(Op::Apply(index));
        for (action, label) in table.actions.iter().zip(labels) {
            self.bind(label);
            self.statements(&action.body);
            self.jump(end);
        }
        self.bind(end);
    }

    /// Returns the one or two registers that hold a slot (scalar variable).
    fn words(&self, slot: SlotId) -> impl Iterator<Item = u32> + use<> {
        let pair = self.slots[slot.0 as usize];
        let width = self.pipeline.slots[slot.0 as usize].width;
        std::iter::once(pair.lo).chain((width > 64).then_some(pair.hi))
    }

    fn call(&mut self, call: &ExternCall) {
        let bound = runtime::bind(call, self.architecture.instances, self.architecture.blocks);
        let (target, results) = match bound {
            Ok(bound) => bound,
            Err(message) => return self.fail(call.span, message),
        };
        let mut arguments = Vec::new();
        for argument in &call.arguments {
            let value = self.value(argument);
            arguments.push(value.lo);
            arguments.extend((argument.width > 64).then_some(value.hi));
        }
        let mut registers = Vec::new();
        for (slot, width) in call.results.iter().zip(results) {
            let pair = match slot {
                Some(slot) => self.slots[slot.0 as usize],
                None => self.fresh_pair(width),
            };
            registers.push(pair.lo);
            registers.extend((width > 64).then_some(pair.hi));
        }
        let index = self.code.calls.len() as u16;
        self.code.calls.push(Call { target, arguments, results: registers });
        self.push(Op::Call(index));
    }
}
