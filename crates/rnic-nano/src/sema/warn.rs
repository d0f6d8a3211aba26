//! Warnings about a checked program: headers that are made valid and never emitted, variables that may be read before
//! they are written, and constant indices beyond the end of a register array.

use super::Pipe;
use crate::diagnostic::Diagnostic;
use crate::hir::{Expr, ExprKind, ExternCall, Instance, Pipeline, SlotId, Stmt, Target, Transition};
use crate::source::Span;
use std::collections::{BTreeMap, BTreeSet};
use std::ops::Range;

/// Maximum number of warnings about a program.
const MAX_WARNINGS: usize = 100;

/// What the analyser notes about a pipeline while it translates it, for the warnings.
#[derive(Default)]
pub(super) struct Notes {
    /// The slots of the parameters of the pipeline's two blocks.
    pub(super) shared: Vec<Range<u32>>,
    /// Calls of `setValid`: the slot of the header's validity bit, and the source range of the call.
    pub(super) validated: Vec<(SlotId, Span)>,
    /// The variables that the program declares: their slots, the source range of their names, and whether the
    /// declaration has an initial value.
    pub(super) variables: Vec<(Range<u32>, Span, bool)>,
}

/// The warnings about the two pipelines of a program, in the order of their source ranges.
pub(super) fn warnings(pipes: [&Pipe; 2], instances: &[Instance]) -> Vec<Diagnostic> {
    let mut warnings = Vec::new();
    for pipe in pipes {
        never_emitted(pipe, &mut warnings);
        Reads::new(pipe).find(&mut warnings);
        let constants = constants(&pipe.code);
        for body in bodies(&pipe.code) {
            each_statement(body, &mut |statement| {
                if let Stmt::Extern(call) = statement {
                    beyond_the_end(call, instances, &constants, &mut warnings);
                }
            });
        }
    }
    // An action that is inlined several times, or a copy of a parser's state, has the same warnings.
    warnings.sort_by(|a, b| (a.span.file, a.span.start, &a.message).cmp(&(b.span.file, b.span.start, &b.message)));
    warnings.dedup_by(|a, b| (a.span, &a.message) == (b.span, &b.message));
    warnings.truncate(MAX_WARNINGS);
    warnings
}

/// All lists of statements of a pipeline, without those that statements contain.
fn bodies(pipeline: &Pipeline) -> impl Iterator<Item = &[Stmt]> {
    let states = pipeline.states.iter().map(|state| &state.body[..]);
    let actions = pipeline.tables.iter().flat_map(|table| table.actions.iter().map(|action| &action.body[..]));
    states.chain(actions).chain([&pipeline.control[..], &pipeline.deparser[..]])
}

fn each_statement(body: &[Stmt], see: &mut dyn FnMut(&Stmt)) {
    for statement in body {
        see(statement);
        match statement {
            Stmt::If { then, otherwise, .. } => {
                each_statement(then, see);
                each_statement(otherwise, see);
            }
            Stmt::Switch { cases, default, .. } => {
                cases.iter().for_each(|(_, body)| each_statement(body, see));
                each_statement(default, see);
            }
            Stmt::Scope(body) => each_statement(body, see),
            _ => {}
        }
    }
}

/// Finds headers of the egress pipeline that the control makes valid and the deparser never emits.
fn never_emitted(pipe: &Pipe, warnings: &mut Vec<Diagnostic>) {
    let mut emitted = BTreeSet::new();
    each_statement(&pipe.code.deparser, &mut |statement| {
        if let Stmt::Emit(header) = statement {
            emitted.insert(header.0);
        }
    });
    // The ingress pipeline has no deparser, and emits nothing.
    if emitted.is_empty() {
        return;
    }
    let is_shared = |slot: &SlotId| pipe.notes.shared.iter().any(|slots| slots.contains(&slot.0));
    for (slot, span) in made_valid(pipe).iter().filter(|(slot, _)| is_shared(slot)) {
        let Some(id) = pipe.header_at.get(slot).filter(|id| !emitted.contains(&id.0)) else { continue };
        let name = &pipe.code.headers[id.0 as usize].name;
        let message = format!("the header `{name}` is made valid, and the deparser never emits it");
        let warning = Diagnostic::warning(*span, message, "no packet has this header");
        warnings.push(warning.with_help(format!("add `packet.emit({name});` to the deparser, or remove this call")));
    }
}

/// The validity bits that the control sets, each with the source range of a call of `setValid`. The headers of an
/// action's `inout` parameters are copied back to its caller.
fn made_valid(pipe: &Pipe) -> BTreeMap<SlotId, Span> {
    let mut copies = Vec::new();
    each_statement(&pipe.code.control, &mut |statement| {
        if let Stmt::Assign { slot, value: Expr { kind: ExprKind::Slot(from), .. } } = statement
            && pipe.header_at.contains_key(from)
        {
            copies.push((*from, *slot));
        }
    });
    let mut made: BTreeMap<SlotId, Span> = pipe.notes.validated.iter().copied().collect();
    loop {
        let before = made.len();
        for (from, to) in &copies {
            if let Some(span) = made.get(from).copied() {
                made.entry(*to).or_insert(span);
            }
        }
        if made.len() == before {
            return made;
        }
    }
}

/// The slots that have the same constant value wherever they are written, such as parameters of an inlined action.
fn constants(pipeline: &Pipeline) -> BTreeMap<SlotId, u128> {
    let mut known: BTreeMap<SlotId, Option<u128>> = BTreeMap::new();
    // The NIC or an entry of a table writes these.
    let parameters =
        pipeline.tables.iter().flat_map(|table| table.actions.iter().flat_map(|action| &action.parameters));
    known.extend(pipeline.inputs.iter().map(|(_, slot)| slot).chain(parameters).map(|slot| (*slot, None)));
    for body in bodies(pipeline) {
        each_statement(body, &mut |statement| match statement {
            Stmt::Assign { slot, value: Expr { kind: ExprKind::Const(value), .. } } => {
                let before = known.entry(*slot).or_insert(Some(*value));
                *before = before.filter(|before| before == value);
            }
            Stmt::Assign { slot, .. } | Stmt::AssignSlice { slot, .. } => _ = known.insert(*slot, None),
            Stmt::Apply { hit, action, .. } => {
                known.extend([hit, action].into_iter().flatten().map(|slot| (*slot, None)))
            }
            Stmt::Extern(call) => known.extend(call.results.iter().flatten().map(|slot| (*slot, None))),
            Stmt::Extract(header) => {
                let header = &pipeline.headers[header.0 as usize];
                known.extend(header.fields.iter().chain([&header.valid]).map(|slot| (*slot, None)));
            }
            Stmt::Lookahead(slots) => known.extend(slots.iter().map(|slot| (*slot, None))),
            _ => {}
        });
    }
    known.into_iter().filter_map(|(slot, value)| Some((slot, value?))).collect()
}

/// Finds a register access whose index is a constant beyond the end of the array.
fn beyond_the_end(
    call: &ExternCall, instances: &[Instance], constants: &BTreeMap<SlotId, u128>, warnings: &mut Vec<Diagnostic>,
) {
    let Some(instance) = call.instance.and_then(|id| instances.get(id.0 as usize)) else { return };
    let index = call.arguments.first().and_then(|argument| match &argument.kind {
        ExprKind::Const(index) => Some(index),
        ExprKind::Slot(slot) => constants.get(slot),
        _ => None,
    });
    let (Some(index), [size]) = (index, &instance.arguments[..]) else { return };
    if index >= size {
        let message = format!("the index {index} is beyond the end of `{}`, which has {size} registers", instance.name);
        let warning = Diagnostic::warning(call.span, message, "reads 0 and writes nothing");
        let help = format!("the indices are 0 to {}", size.saturating_sub(1));
        warnings.push(warning.with_related(instance.span, "the array").with_help(help));
    }
}

/// The slots that have certainly been written; `None` at a place that no packet reaches.
type Written = Option<BTreeSet<u32>>;

/// The slots that are written on both ways to a place.
fn join(a: Written, b: Written) -> Written {
    match (a, b) {
        (Some(a), Some(b)) => Some(&a & &b),
        (a, b) => a.or(b),
    }
}

/// Finds variables that may be read before they are written.
struct Reads<'p> {
    pipe: &'p Pipe,
    /// The variable of each slot, as an index of the notes.
    variables: BTreeMap<u32, usize>,
    /// For each enclosing scope: what is written where it is left early.
    scopes: Vec<Written>,
    /// The variables that may be read too early.
    found: BTreeSet<usize>,
}

impl<'p> Reads<'p> {
    fn new(pipe: &'p Pipe) -> Reads<'p> {
        let mut variables = BTreeMap::new();
        for (index, (slots, _, is_initial)) in pipe.notes.variables.iter().enumerate() {
            // A header is invalid until the program makes it valid, as P4 defines.
            let own = slots.clone().filter(|slot| !is_initial && !pipe.header_at.contains_key(&SlotId(*slot)));
            variables.extend(own.map(|slot| (slot, index)));
        }
        Reads { pipe, variables, scopes: Vec::new(), found: BTreeSet::new() }
    }

    fn find(mut self, warnings: &mut Vec<Diagnostic>) {
        if self.variables.is_empty() {
            return;
        }
        self.parser();
        let after = self.body(&self.pipe.code.control, Some(BTreeSet::new()));
        self.body(&self.pipe.code.deparser, after.or_else(|| Some(BTreeSet::new())));
        for index in self.found {
            let (slots, span, _) = &self.pipe.notes.variables[index];
            let name = &self.pipe.code.slots[slots.start as usize].name;
            let name = name.split('.').next().unwrap_or_default();
            let message = format!("the variable `{name}` may be read before it is written");
            let warning = Diagnostic::warning(*span, message, "its value is then 0");
            warnings.push(warning.with_help("give it a value where it is declared"));
        }
    }

    /// Follows the states of the parser until what is written at the beginning of each does not change any more.
    fn parser(&mut self) {
        let states = &self.pipe.code.states;
        let mut before: Vec<Written> = vec![None; states.len()];
        let mut open: Vec<usize> = (0..states.len().min(1)).collect();
        if let Some(first) = before.first_mut() {
            *first = Some(BTreeSet::new());
        }
        while let Some(index) = open.pop() {
            let mut after = self.body(&states[index].body, before[index].clone());
            let targets: Vec<Target> = match &states[index].transition {
                Transition::To(target) => vec![*target],
                Transition::Select { keys, cases } => {
                    keys.iter().for_each(|key| self.read(key, &mut after));
                    cases.iter().map(|(_, target)| *target).collect()
                }
            };
            for target in targets {
                let Target::State(next) = target else { continue };
                let next = next.0 as usize;
                let joined = join(before[next].clone(), after.clone());
                if joined != before[next] {
                    before[next] = joined;
                    open.push(next);
                }
            }
        }
    }

    fn read(&mut self, expr: &Expr, written: &mut Written) {
        let Some(known) = written else { return };
        let mut open = vec![expr];
        while let Some(expr) = open.pop() {
            match &expr.kind {
                ExprKind::Const(_) => {}
                ExprKind::Slot(slot) => {
                    if let Some(variable) = self.variables.get(&slot.0).filter(|_| !known.contains(&slot.0)) {
                        self.found.insert(*variable);
                    }
                }
                ExprKind::Unary(_, a) | ExprKind::ZeroExtend(a) | ExprKind::SignExtend(a) => open.push(a),
                ExprKind::Slice { of, .. } => open.push(of),
                ExprKind::Binary(_, a, b) => open.extend([&**a, &**b]),
                ExprKind::Conditional(a, b, c) => open.extend([&**a, &**b, &**c]),
            }
        }
    }

    fn write(&self, slot: SlotId, written: &mut Written) {
        if let Some(known) = written.as_mut().filter(|_| self.variables.contains_key(&slot.0)) {
            known.insert(slot.0);
        }
    }

    fn body(&mut self, body: &[Stmt], mut written: Written) -> Written {
        for statement in body {
            written = self.statement(statement, written);
        }
        written
    }

    fn statement(&mut self, statement: &Stmt, mut written: Written) -> Written {
        match statement {
            Stmt::Assign { slot, value } | Stmt::AssignSlice { slot, value, .. } => {
                self.read(value, &mut written);
                self.write(*slot, &mut written);
            }
            Stmt::If { condition, then, otherwise } => {
                self.read(condition, &mut written);
                let yes = self.body(then, written.clone());
                let no = self.body(otherwise, written);
                return join(yes, no);
            }
            Stmt::Switch { value, cases, default } => {
                self.read(value, &mut written);
                let mut after = self.body(default, written.clone());
                for (_, body) in cases {
                    after = join(after, self.body(body, written.clone()));
                }
                return after;
            }
            Stmt::Scope(body) => {
                self.scopes.push(None);
                let end = self.body(body, written);
                return join(end, self.scopes.pop().flatten());
            }
            Stmt::Leave(depth) => {
                let index = self.scopes.len().saturating_sub(1 + *depth as usize);
                if let Some(left) = self.scopes.get_mut(index) {
                    *left = join(left.take(), written);
                }
                return None;
            }
            Stmt::Exit => return None,
            Stmt::Apply { table, hit, action } => {
                let table = &self.pipe.code.tables[table.0 as usize];
                table.keys.iter().for_each(|(key, _)| self.read(key, &mut written));
                [hit, action].into_iter().flatten().for_each(|slot| self.write(*slot, &mut written));
                // Without a default action, no action may run.
                let mut after = if table.default.is_none() { written.clone() } else { None };
                for action in &table.actions {
                    let mut inside = written.clone();
                    action.parameters.iter().for_each(|slot| self.write(*slot, &mut inside));
                    after = join(after, self.body(&action.body, inside));
                }
                return after;
            }
            Stmt::Extern(call) => {
                call.arguments.iter().for_each(|argument| self.read(argument, &mut written));
                call.results.iter().flatten().for_each(|slot| self.write(*slot, &mut written));
            }
            Stmt::Extract(header) => {
                let fields = &self.pipe.code.headers[header.0 as usize].fields;
                fields.iter().for_each(|slot| self.write(*slot, &mut written));
            }
            Stmt::Lookahead(slots) => slots.iter().for_each(|slot| self.write(*slot, &mut written)),
            Stmt::Advance(_) | Stmt::Emit(_) => {}
        }
        written
    }
}
