//! The HIR verifier: tests that the high-level intermediate representation (HIR) of a program is well-formed. The tests
//! and the debug builds of the compiler call it, to find errors of the compiler itself.

use super::{
    BinaryOp, Expr, ExprKind, ExternCall, HeaderId, Pattern, Pipeline, Program, SlotId, Stmt, Table, TableId, Target,
    Transition,
};

/// Verifies that the widths of operands agree, that all slots, headers, tables, states and instances exist, and that
/// jumps stay within their scopes.
///
/// # Errors
/// A description of the first violation of these rules.
///
/// # Examples
/// ```
/// use rnic_nano::compile_file;
/// use rnic_nano::hir::check::check;
/// use std::path::Path;
///
/// let program = compile_file(Path::new(concat!(env!("CARGO_MANIFEST_DIR"), "/../../p4/ndp.p4")), &[])?;
/// assert_eq!(check(program.hir()), Ok(()));
/// # Ok::<(), rnic_nano::CompileError>(())
/// ```
pub fn check(program: &Program) -> Result<(), String> {
    for pipeline in [&program.ingress, &program.egress] {
        Checker { pipeline, instances: program.instances.len() }.pipeline()?;
    }
    Ok(())
}

struct Checker<'p> {
    pipeline: &'p Pipeline,
    instances: usize,
}

/// The part of a pipeline that contains a statement. Some statements are valid only in one part.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Location {
    State,
    Control,
    Action,
    Deparser,
}

type Checked = Result<(), String>;

fn ensure(holds: bool, what: impl FnOnce() -> String) -> Checked {
    if holds { Ok(()) } else { Err(what()) }
}

impl Checker<'_> {
    fn pipeline(&self) -> Checked {
        let pipeline = self.pipeline;
        for slot in &pipeline.slots {
            ensure((1..=128).contains(&slot.width), || format!("slot {} has {} bits", slot.name, slot.width))?;
        }
        for header in &pipeline.headers {
            ensure(self.width(header.valid)? == 1, || format!("validity of {}", header.name))?;
            let mut bits = 0;
            for field in &header.fields {
                bits += self.width(*field)?;
            }
            ensure(bits % 8 == 0, || format!("{} has {bits} bits", header.name))?;
        }
        for (_, slot) in pipeline.inputs.iter().chain(&pipeline.outputs) {
            self.width(*slot)?;
        }
        for table in &pipeline.tables {
            self.table(table).map_err(|what| format!("table {}: {what}", table.name))?;
        }
        for state in &pipeline.states {
            self.body(&state.body, 0, Location::State)?;
            self.transition(&state.transition).map_err(|what| format!("state {}: {what}", state.name))?;
        }
        self.body(&pipeline.control, 0, Location::Control)?;
        self.body(&pipeline.deparser, 0, Location::Deparser)
    }

    fn width(&self, slot: SlotId) -> Result<u32, String> {
        let slot = self.pipeline.slots.get(slot.0 as usize).ok_or(format!("no slot {}", slot.0))?;
        Ok(slot.width)
    }

    fn table(&self, table: &Table) -> Checked {
        for (key, _) in &table.keys {
            self.expr(key)?;
        }
        for action in &table.actions {
            for slot in &action.parameters {
                self.width(*slot)?;
            }
            self.body(&action.body, 0, Location::Action)?;
        }
        ensure(table.entries.len() <= table.size as usize, || "too many entries".to_string())?;
        let entries = table.entries.iter().map(|entry| (entry.action, &entry.arguments));
        for (action, arguments) in entries.chain(table.default.iter().map(|(action, arguments)| (*action, arguments))) {
            let action = table.actions.get(action).ok_or(format!("no action {action}"))?;
            ensure(action.parameters.len() == arguments.len(), || format!("arguments of {}", action.name))?;
            for (slot, argument) in action.parameters.iter().zip(arguments) {
                fits(*argument, self.width(*slot)?)?;
            }
        }
        for entry in &table.entries {
            ensure(entry.keys.len() == table.keys.len(), || "keys of an entry".to_string())?;
            for (pattern, (key, _)) in entry.keys.iter().zip(&table.keys) {
                matches_width(*pattern, key.width)?;
            }
        }
        Ok(())
    }

    fn transition(&self, transition: &Transition) -> Checked {
        match transition {
            Transition::To(target) => self.target(*target),
            Transition::Select { keys, cases } => {
                for key in keys {
                    self.expr(key)?;
                }
                for (patterns, target) in cases {
                    self.target(*target)?;
                    ensure(patterns.len() == keys.len(), || "keys of a case".to_string())?;
                    for (pattern, key) in patterns.iter().zip(keys) {
                        matches_width(*pattern, key.width)?;
                    }
                }
                Ok(())
            }
        }
    }

    fn target(&self, target: Target) -> Checked {
        match target {
            Target::State(state) => {
                ensure((state.0 as usize) < self.pipeline.states.len(), || format!("no state {}", state.0))
            }
            Target::Accept | Target::Reject => Ok(()),
        }
    }

    fn body(&self, body: &[Stmt], scopes: u32, location: Location) -> Checked {
        body.iter().try_for_each(|statement| self.statement(statement, scopes, location))
    }

    fn statement(&self, statement: &Stmt, scopes: u32, location: Location) -> Checked {
        match statement {
            Stmt::Assign { slot, value } => {
                self.expr(value)?;
                let width = self.width(*slot)?;
                ensure(width == value.width, || format!("{} bits into slot {} of {width}", value.width, slot.0))
            }
            Stmt::AssignSlice { slot, low, value } => {
                self.expr(value)?;
                let width = self.width(*slot)?;
                ensure(low + value.width <= width, || format!("bits {low}+{} of slot {}", value.width, slot.0))
            }
            Stmt::If { condition, then, otherwise } => {
                self.expr(condition)?;
                ensure(condition.width == 1, || "width of a condition".to_string())?;
                self.body(then, scopes, location)?;
                self.body(otherwise, scopes, location)
            }
            Stmt::Switch { value, cases, default } => {
                self.expr(value)?;
                let mut seen = std::collections::BTreeSet::new();
                for (labels, body) in cases {
                    for label in labels {
                        fits(*label, value.width)?;
                        ensure(seen.insert(*label), || format!("case {label} twice"))?;
                    }
                    self.body(body, scopes, location)?;
                }
                self.body(default, scopes, location)
            }
            Stmt::Scope(body) => self.body(body, scopes + 1, location),
            Stmt::Leave(count) => ensure(*count < scopes, || format!("leaves {count} of {scopes} scopes")),
            Stmt::Exit => ensure(location != Location::State, || "exit in a parser".to_string()),
            Stmt::Apply { table, hit, action } => self.apply(*table, *hit, *action, location),
            Stmt::Extern(call) => self.call(call),
            Stmt::Extract(header) => {
                ensure(location == Location::State, || "extract outside of a parser".to_string())?;
                self.header(*header)
            }
            Stmt::Advance(bits) => {
                ensure(location == Location::State && bits % 8 == 0, || format!("advance by {bits}"))
            }
            Stmt::Lookahead(slots) => {
                ensure(location == Location::State, || "lookahead outside of a parser".to_string())?;
                slots.iter().try_for_each(|slot| self.width(*slot).map(|_| ()))
            }
            Stmt::Emit(header) => {
                ensure(location == Location::Deparser, || "emit outside of a deparser".to_string())?;
                self.header(*header)
            }
        }
    }

    fn header(&self, header: HeaderId) -> Checked {
        ensure((header.0 as usize) < self.pipeline.headers.len(), || format!("no header {}", header.0))
    }

    fn apply(&self, table: TableId, hit: Option<SlotId>, action: Option<SlotId>, location: Location) -> Checked {
        ensure(matches!(location, Location::Control | Location::Deparser), || {
            "apply outside of a control".to_string()
        })?;
        let found = self.pipeline.tables.get(table.0 as usize).ok_or(format!("no table {}", table.0))?;
        if let Some(hit) = hit {
            ensure(self.width(hit)? == 1, || "width of hit".to_string())?;
        }
        match action {
            Some(slot) => fits(found.actions.len() as u128, self.width(slot)?),
            None => Ok(()),
        }
    }

    fn call(&self, call: &ExternCall) -> Checked {
        if let Some(instance) = call.instance {
            ensure((instance.0 as usize) < self.instances, || format!("no instance {}", instance.0))?;
        }
        call.arguments.iter().try_for_each(|argument| self.expr(argument))?;
        call.results.iter().flatten().try_for_each(|slot| self.width(*slot).map(|_| ()))
    }

    fn expr(&self, expr: &Expr) -> Checked {
        let width = expr.width;
        ensure((1..=128).contains(&width), || format!("an expression of {width} bits"))?;
        let same = |other: &Expr| ensure(other.width == width, || format!("{} bits for {width}", other.width));
        match &expr.kind {
            ExprKind::Const(value) => fits(*value, width),
            ExprKind::Slot(slot) => ensure(self.width(*slot)? == width, || format!("width of slot {}", slot.0)),
            ExprKind::Unary(_, a) => self.expr(a).and_then(|()| same(a)),
            ExprKind::Binary(op, a, b) => {
                self.expr(a)?;
                self.expr(b)?;
                binary(*op, width, a.width, b.width)
            }
            ExprKind::Slice { of, low } => {
                self.expr(of)?;
                ensure(low + width <= of.width, || format!("bits {low}+{width} of {}", of.width))
            }
            ExprKind::ZeroExtend(a) | ExprKind::SignExtend(a) => {
                self.expr(a)?;
                ensure(a.width < width, || format!("{} bits extended to {width}", a.width))
            }
            ExprKind::Conditional(condition, a, b) => {
                [condition, a, b].into_iter().try_for_each(|location| self.expr(location))?;
                ensure(condition.width == 1, || "width of a condition".to_string())?;
                same(a).and_then(|()| same(b))
            }
        }
    }
}

fn binary(op: BinaryOp, width: u32, a: u32, b: u32) -> Checked {
    use BinaryOp::{Concat, Eq, Le, LeSigned, Lt, LtSigned, Ne, Shl, Shr, ShrSigned};
    let holds = match op {
        Eq | Ne | Lt | Le | LtSigned | LeSigned => a == b && width == 1,
        Concat => a + b == width,
        Shl | Shr | ShrSigned => a == width,
        _ => a == b && a == width,
    };
    ensure(holds, || format!("{op:?} of {a} and {b} bits gives {width}"))
}

fn fits(value: u128, width: u32) -> Checked {
    ensure(width == 128 || value >> width == 0, || format!("{value} in {width} bits"))
}

fn matches_width(pattern: Pattern, width: u32) -> Checked {
    match pattern {
        Pattern::Masked { value, mask } => {
            ensure(value & !mask == 0, || format!("{value} outside of mask {mask}"))?;
            fits(mask, width)
        }
        Pattern::Range { low, high } => {
            ensure(low <= high, || format!("range {low} to {high}"))?;
            fits(high, width)
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::hir::{Action, Entry, Header, InstanceId, MatchKind, Slot, State, StateId, UnaryOp};
    use crate::source::Span;

    fn constant(value: u128, width: u32) -> Expr {
        Expr { width, kind: ExprKind::Const(value) }
    }

    fn slot(number: u32, width: u32) -> Expr {
        Expr { width, kind: ExprKind::Slot(SlotId(number)) }
    }

    fn of(op: BinaryOp, a: Expr, b: Expr, width: u32) -> Expr {
        Expr { width, kind: ExprKind::Binary(op, Box::new(a), Box::new(b)) }
    }

    /// Creates a program with three slots, of 8, 1 and 4 bits. The program has a header that consists of slots 1 and 0,
    /// and a table whose action has slot 2 as its parameter.
    fn program() -> Program {
        let slot = |width| Slot { name: String::new(), width, signed: false };
        let table = Table {
            name: "t".into(),
            keys: vec![(super::Expr { width: 8, kind: ExprKind::Slot(SlotId(0)) }, MatchKind::Ternary)],
            actions: vec![Action { name: "a".into(), parameters: vec![SlotId(2)], body: vec![] }],
            default: Some((0, vec![15])),
            default_const: false,
            entries: vec![Entry { keys: vec![Pattern::Range { low: 1, high: 255 }], action: 0, arguments: vec![1] }],
            entries_const: false,
            size: 1,
            span: Span::default(),
        };
        let ingress = Pipeline {
            slots: [8, 1, 4].map(slot).to_vec(),
            headers: vec![Header { name: "h".into(), valid: SlotId(1), fields: vec![SlotId(0)] }],
            tables: vec![table],
            ..Pipeline::default()
        };
        let instances = vec![];
        let annotations = vec![];
        let constants = vec![];
        Program { ingress, egress: Pipeline::default(), instances, annotations, constants, warnings: Vec::new() }
    }

    fn with(change: impl FnOnce(&mut Pipeline)) -> Checked {
        let mut program = program();
        change(&mut program.ingress);
        check(&program)
    }

    fn statement(statement: Stmt) -> Checked {
        with(|pipeline| pipeline.control = vec![statement])
    }

    fn assigned(value: Expr) -> Checked {
        statement(Stmt::Assign { slot: SlotId(0), value })
    }

    #[test]
    fn well_formed_programs_pass() {
        assert_eq!(check(&program()), Ok(()));
        assert_eq!(assigned(of(BinaryOp::Concat, slot(2, 4), constant(15, 4), 8)), Ok(()));
        assert_eq!(assigned(of(BinaryOp::Shl, slot(0, 8), slot(2, 4), 8)), Ok(()));
        assert_eq!(statement(Stmt::Scope(vec![Stmt::Leave(0)])), Ok(()));
        let apply = Stmt::Apply { table: TableId(0), hit: Some(SlotId(1)), action: Some(SlotId(1)) };
        assert_eq!(statement(apply), Ok(()));
    }

    #[test]
    fn malformed_expressions_are_found() {
        let broken = [
            constant(256, 8),
            constant(0, 4),
            slot(2, 8),
            slot(3, 8),
            of(BinaryOp::Add, slot(2, 4), slot(0, 8), 8),
            of(BinaryOp::Eq, slot(0, 8), slot(0, 8), 8),
            of(BinaryOp::Concat, slot(0, 8), slot(2, 4), 8),
            of(BinaryOp::Shl, slot(2, 4), slot(2, 4), 8),
            Expr { width: 8, kind: ExprKind::Unary(UnaryOp::Not, Box::new(slot(2, 4))) },
            Expr { width: 8, kind: ExprKind::Slice { of: Box::new(slot(0, 8)), low: 1 } },
            Expr { width: 8, kind: ExprKind::ZeroExtend(Box::new(slot(0, 8))) },
            Expr {
                width: 8,
                kind: ExprKind::Conditional(Box::new(slot(2, 4)), Box::new(slot(0, 8)), Box::new(slot(0, 8))),
            },
            Expr {
                width: 8,
                kind: ExprKind::Conditional(Box::new(slot(1, 1)), Box::new(slot(0, 8)), Box::new(slot(2, 4))),
            },
        ];
        for expr in broken {
            assert!(assigned(expr.clone()).is_err(), "{expr:?}");
        }
    }

    #[test]
    fn malformed_statements_are_found() {
        let call = |instance, slot| ExternCall {
            function: "f".into(),
            instance,
            arguments: vec![],
            results: vec![Some(SlotId(slot))],
            span: Span::default(),
        };
        let broken = [
            Stmt::Leave(0),
            Stmt::Scope(vec![Stmt::Leave(1)]),
            Stmt::If { condition: slot(0, 8), then: vec![], otherwise: vec![] },
            Stmt::AssignSlice { slot: SlotId(2), low: 1, value: constant(0, 4) },
            Stmt::Switch { value: slot(2, 4), cases: vec![(vec![1, 1], vec![])], default: vec![] },
            Stmt::Switch { value: slot(2, 4), cases: vec![(vec![16], vec![])], default: vec![] },
            Stmt::Apply { table: TableId(1), hit: None, action: None },
            Stmt::Apply { table: TableId(0), hit: Some(SlotId(0)), action: None },
            Stmt::Extern(call(Some(InstanceId(0)), 0)),
            Stmt::Extern(call(None, 3)),
            Stmt::Extract(HeaderId(0)),
            Stmt::Emit(HeaderId(0)),
            Stmt::Advance(8),
            Stmt::Lookahead(vec![SlotId(0)]),
        ];
        for one in broken {
            assert!(statement(one.clone()).is_err(), "{one:?}");
        }
        assert!(with(|pipeline| pipeline.deparser = vec![Stmt::Emit(HeaderId(1))]).is_err());
    }

    #[test]
    fn malformed_tables_headers_and_states_are_found() {
        let changes: [fn(&mut Pipeline); 10] = [
            |pipeline| pipeline.slots[0].width = 129,
            |pipeline| pipeline.headers[0].valid = SlotId(0),
            |pipeline| pipeline.headers[0].fields = vec![SlotId(2)],
            |pipeline| pipeline.outputs = vec![(String::new(), SlotId(3))],
            |pipeline| pipeline.tables[0].default = Some((1, vec![])),
            |pipeline| pipeline.tables[0].default = Some((0, vec![16])),
            |pipeline| pipeline.tables[0].entries[0].keys = vec![Pattern::Masked { value: 2, mask: 1 }],
            |pipeline| pipeline.tables[0].entries[0].keys = vec![Pattern::Range { low: 0, high: 256 }],
            |pipeline| pipeline.tables[0].size = 0,
            |pipeline| {
                let transition = Transition::To(Target::State(StateId(1)));
                pipeline.states = vec![State { name: String::new(), span: Span::default(), body: vec![], transition }];
            },
        ];
        for (number, change) in changes.into_iter().enumerate() {
            assert!(with(change).is_err(), "change {number}");
        }
    }
}
