//! Part of the semantic analysis of P4: translates parsers with their states.

use super::scope::Symbol;
use super::stack::Counts;
use super::types::Type;
use super::{Analyser, Context};
use crate::ast::{self, Ident, KeySet};
use crate::diagnostic::{Diagnostic, nearest};
use crate::hir::{self, Pattern, StateId, Stmt, Target, Transition};
use crate::source::Span;
use std::collections::BTreeMap;

/// The index of each state in its parser, by name.
type Names<'a> = BTreeMap<&'a str, usize>;

/// The states of a parser that is being translated. A state has a copy for each number of elements that its header
/// stacks may have.
struct Copies<'a> {
    names: Names<'a>,
    /// The index of each copy, by state and numbers of elements.
    indices: BTreeMap<(usize, Counts), usize>,
    /// The translated states: the copies, and the parts of states that follow a `verify` or a sub-parser. `None`: not
    /// translated yet.
    states: Vec<Option<hir::State>>,
    /// The state of the program from which each of them comes.
    origins: Vec<usize>,
    /// Copies that are not translated yet, as (state, numbers of elements, index).
    open: Vec<(usize, Counts, usize)>,
    /// The numbers of elements where the parser accepts.
    exit: Option<Counts>,
    /// Whether it accepts with different numbers of elements.
    exits_differ: bool,
}

impl Copies<'_> {
    /// The index of the copy of a state.
    fn copy(&mut self, state: usize, counts: &Counts) -> usize {
        if let Some(index) = self.indices.get(&(state, counts.clone())) {
            return *index;
        }
        let index = self.reserve(state);
        self.indices.insert((state, counts.clone()), index);
        self.open.push((state, counts.clone(), index));
        index
    }

    fn reserve(&mut self, state: usize) -> usize {
        self.states.push(None);
        self.origins.push(state);
        self.states.len() - 1
    }

    /// Notes the numbers of elements with which the parser accepts.
    fn accepts(&mut self, counts: &Counts) {
        match &self.exit {
            None => self.exit = Some(counts.clone()),
            Some(exit) => self.exits_differ |= exit != counts,
        }
    }
}

impl<'a> Analyser<'a> {
    /// Checks a parser and declares its name.
    pub(super) fn declare_parser(&mut self, parser: &'a ast::Parser) {
        let before = self.errors.len();
        self.scratch(|this| {
            let parameters = this.fresh_parameters(&parser.parameters, "");
            let constants = parser.constructor.iter().map(|parameter| this.some_constant(parameter)).collect();
            this.parser(parser, parameters, constants, Counts::new());
        });
        let broken = self.errors.len() > before;
        self.declare(&parser.name, if broken { Symbol::Broken } else { Symbol::Parser(parser) });
    }

    /// Translates a parser whose header stacks have the given numbers of elements at first, and returns its reachable
    /// states. The state `start` comes first. Afterwards the stacks have the numbers of elements where the parser
    /// accepts; false: they depend on the packet.
    pub(super) fn parser(
        &mut self, parser: &'a ast::Parser, parameters: Vec<Symbol<'a>>, constants: Vec<Symbol<'a>>, counts: Counts,
    ) -> (Vec<hir::State>, bool) {
        self.pipe.counts = counts;
        let before = self.open_scope(0, self.declarations);
        let context = std::mem::replace(&mut self.context, Context::Parser);
        self.declare_parameters(&parser.parameters, parameters);
        for (parameter, constant) in parser.constructor.iter().zip(constants) {
            self.declare(&parameter.name, constant);
        }
        let (first, ()) = self.collected(|this| {
            for local in &parser.locals {
                this.local(local, &parser.name.name, "");
            }
        });
        let again = std::mem::replace(&mut self.again, true);
        let names = self.state_names(parser);
        let start = names.get("start").copied();
        let entry = self.pipe.counts.clone();
        let mut copies = Copies {
            names,
            indices: BTreeMap::new(),
            states: Vec::new(),
            origins: Vec::new(),
            open: Vec::new(),
            exit: None,
            exits_differ: false,
        };
        // The copies that are reached come first. Then the mistakes in the other states are found, too.
        let rest = (0..parser.states.len()).map(|state| (state, entry.clone()));
        for (state, counts) in start.map(|start| (start, entry.clone())).into_iter().chain(rest) {
            if self.stopped || copies.origins.contains(&state) {
                continue;
            }
            let reached = copies.exit.clone().map(|exit| (exit, copies.exits_differ));
            copies.copy(state, &counts);
            while let Some((state, counts, index)) = copies.open.pop() {
                self.pipe.counts = counts;
                let translated = self.state(&mut copies, &parser.states[state], state);
                copies.states[index] = Some(translated);
                if self.stopped {
                    break;
                }
            }
            // What states do that are never reached does not count.
            if start.is_some_and(|start| start != state) {
                (copies.exit, copies.exits_differ) =
                    reached.map_or((None, false), |(exit, differ)| (Some(exit), differ));
            }
        }
        self.again = again;
        self.context = context;
        self.close_scope(before);
        let states: Vec<hir::State> =
            copies.states.iter_mut().map(|state| state.take().unwrap_or_else(empty_state)).collect();
        self.check_loops(parser, &states, &copies.origins);
        self.pipe.counts = copies.exit.unwrap_or_default();
        let start = start.and_then(|start| copies.indices.get(&(start, entry)).copied());
        match start {
            Some(start) => (reached(states, start, first), !copies.exits_differ),
            None if self.stopped => (Vec::new(), true),
            None => {
                let what = Diagnostic::new(
                    parser.name.span,
                    format!("the parser `{}` has no state `start`", parser.name.name),
                    "`start` is missing",
                );
                self.report(what.with_help("a parser begins in `state start { ... }`"));
                (Vec::new(), true)
            }
        }
    }

    /// Returns the index of each state, by name. Reports names that occur twice.
    fn state_names(&mut self, parser: &'a ast::Parser) -> Names<'a> {
        let mut names = Names::new();
        for (number, state) in parser.states.iter().enumerate() {
            let name = &state.name;
            if matches!(&*name.name, "accept" | "reject") {
                self.error(name.span, format!("the state name `{}` is reserved", name.name), "choose another name");
            }
            if let Some(first) = names.insert(&name.name, number) {
                let what = Diagnostic::new(
                    name.span,
                    format!("the state `{}` is declared twice", name.name),
                    "declared again here",
                );
                self.report(what.with_related(parser.states[first].name.span, "declared here first"));
            }
        }
        names
    }

    /// Translates a state up to its first `verify` or sub-parser, and adds the parts after it, and the states of the
    /// sub-parsers, to `copies`.
    fn state(&mut self, copies: &mut Copies<'a>, state: &'a ast::State, origin: usize) -> hir::State {
        let before = self.open_block();
        let mut name = state.name.name.to_string();
        for (slot, count) in &self.pipe.counts {
            let stack = self.pipe.code.slots.get(*slot as usize).map_or("", |slot| slot.name.as_str());
            name = format!("{name}, {count} in {}", stack.trim_end_matches("[0].$valid"));
        }
        self.pipe.overflow = false;
        let (mut body, (cuts, transition)) = self.collected(|this| {
            // Where each `verify` and each sub-parser divides the statements.
            let mut cuts: Vec<(usize, Cut)> = Vec::new();
            for statement in &state.body {
                // The rest of a state that exceeds a stack is never reached.
                if this.pipe.overflow {
                    break;
                }
                if let Some(condition) = this.verified(statement) {
                    cuts.extend(condition.map(|condition| (this.code.len(), Cut::Verify(condition))));
                } else if !this.sub_parser(statement, &mut cuts) {
                    this.statement(statement);
                }
            }
            let overflow = this.pipe.overflow;
            let transition = if overflow {
                Transition::To(Target::Reject)
            } else {
                this.transition(copies, state.transition.as_ref())
            };
            let overflow = std::mem::take(&mut this.pipe.overflow);
            (cuts, if overflow { Transition::To(Target::Reject) } else { transition })
        });
        self.close_scope(before);
        let mut last = transition;
        for (number, (end, cut)) in cuts.into_iter().enumerate().rev() {
            let name = format!("{name}, part {}", number + 2);
            let part = copies.reserve(origin);
            copies.states[part] =
                Some(hir::State { name, span: state.name.span, body: body.split_off(end), transition: last });
            let next = Target::State(StateId(part as u32));
            last = match cut {
                Cut::Verify(condition) => {
                    let holds = vec![Pattern::Masked { value: 1, mask: 1 }];
                    Transition::Select { keys: vec![condition], cases: vec![(holds, next)] }
                }
                Cut::Parser(states) => {
                    let first = copies.states.len() as u32;
                    for state in states {
                        let index = copies.reserve(origin);
                        copies.states[index] = Some(moved(state, first, next));
                    }
                    Transition::To(Target::State(StateId(first)))
                }
            };
        }
        hir::State { name, span: state.name.span, body, transition: last }
    }

    /// Translates a statement `instance.apply(arguments);` of a parser within this parser. False: another statement.
    fn sub_parser(&mut self, statement: &'a ast::Stmt, cuts: &mut Vec<(usize, Cut)>) -> bool {
        let ast::StmtKind::Call(call) = &statement.kind else { return false };
        let ast::ExprKind::Call { function, arguments, .. } = &call.kind else { return false };
        let ast::ExprKind::Member(base, method) = &function.kind else { return false };
        let ast::ExprKind::Name(name) = &base.kind else { return false };
        let Some(Symbol::SubParser(parser, constants)) = self.find(&name.name).cloned() else { return false };
        let span = statement.span;
        if &*method.name != "apply" {
            self.error(method.span, format!("a parser has no method `{}`", method.name), "expected `apply`");
            return true;
        }
        let parameters: Vec<&ast::Parameter> = parser.parameters.iter().collect();
        let Some(bound) = self.bind(&name.name, &parameters, arguments, span) else { return true };
        let symbols = self.fresh_parameters(&parser.parameters, &format!("{}.", name.name));
        // The packet itself is passed on; the other parameters are variables.
        let mut kept = Vec::new();
        let mut lvalues = Vec::new();
        let mut types = Vec::new();
        let mut given = Vec::new();
        for ((parameter, argument), symbol) in parameters.iter().zip(bound).zip(&symbols) {
            match symbol {
                Symbol::Variable(lvalue) => {
                    kept.push(*parameter);
                    lvalues.push(*lvalue);
                    types.push(lvalue.ty);
                    given.push(argument);
                }
                Symbol::Object(object) => {
                    let passed = match argument.value.as_ref().map(|value| &value.kind) {
                        Some(ast::ExprKind::Name(name)) => self.find(&name.name),
                        _ => None,
                    };
                    if !matches!(passed, Some(Symbol::Object(passed)) if passed == object) {
                        self.error(argument.span, "expected the packet", "not the packet of this parser");
                        return true;
                    }
                }
                _ => return true,
            }
        }
        // Inlining a parser is more work for the compiler than a statement, so it counts as 100 statements.
        if !self.spend(100, span) {
            return true;
        }
        let Some(copies) = self.copy_in(&kept, &types, &lvalues, &given) else { return true };
        let end = self.code.len();
        if self.pipe.overflow {
            return true;
        }
        // The header stacks among the parameters have the elements of the arguments, unless they are `out`.
        let outer = self.pipe.counts.clone();
        for ((parameter, lvalue), argument) in kept.iter().zip(&lvalues).zip(&given) {
            let argument = argument.value.as_ref().filter(|_| parameter.direction != ast::Direction::Out);
            if let Some(argument) = argument.and_then(|value| self.lvalue_of(value)) {
                self.copy_counts(argument, *lvalue);
            }
        }
        let counts = self.pipe.counts.clone();
        let (states, same) =
            self.nested(span, (Vec::new(), true), |this| this.parser(parser, symbols, constants, counts));
        if !states.is_empty() {
            cuts.push((end, Cut::Parser(states)));
        }
        if !same {
            let message = format!("`{}` accepts with different numbers of elements in its header stacks", name.name);
            let what = Diagnostic::new(span, message, "the number depends on the packet");
            self.report(what.with_help("write its states in this parser: each state knows the number of elements"));
        }
        let inner = std::mem::replace(&mut self.pipe.counts, outer);
        for (target, parameter) in &copies {
            let size = self.types.size(target.ty);
            self.pipe.counts.retain(|slot, _| !(target.slot..target.slot + size).contains(slot));
            let changed = inner.range(parameter.slot..parameter.slot + size);
            self.pipe.counts.extend(changed.map(|(slot, count)| (slot - parameter.slot + target.slot, *count)));
        }
        self.copy_out(&copies, span);
        true
    }

    /// The condition of a statement `verify(condition, error.NAME);`: the inner `None` if it has an error or always
    /// holds. The outer `None`: another statement.
    fn verified(&mut self, statement: &'a ast::Stmt) -> Option<Option<hir::Expr>> {
        let ast::StmtKind::Call(call) = &statement.kind else { return None };
        let ast::ExprKind::Call { function, arguments, .. } = &call.kind else { return None };
        let ast::ExprKind::Name(name) = &function.kind else { return None };
        if &*name.name != "verify" || self.find("verify").is_some() {
            return None;
        }
        let [ast::Argument { value: Some(condition), .. }, ast::Argument { value: Some(reason), .. }] = &arguments[..]
        else {
            let what = Diagnostic::new(statement.span, "`verify` takes a condition and an error", "wrong arguments");
            self.report(what.with_help("write `verify(condition, error.NAME);`"));
            return Some(None);
        };
        self.discarded(|this| this.expression(reason));
        let value = self.expression(condition);
        let condition = self.converted(value, Type::Bool).into_scalar();
        // The condition is evaluated here, before the statements that follow.
        let condition = condition.map(|condition| {
            let mut condition = condition;
            let mut held = vec![&mut condition];
            self.save(&mut held, None, statement.span);
            condition
        });
        Some(condition.filter(|condition| super::fold::known(condition) != Some(1)))
    }

    fn transition(&mut self, copies: &mut Copies<'a>, transition: Option<&'a ast::Transition>) -> Transition {
        match transition {
            None => Transition::To(Target::Reject),
            Some(ast::Transition::To(name)) => Transition::To(self.target_state(copies, name)),
            Some(ast::Transition::Select { keys, cases, .. }) => self.select(copies, keys, cases),
        }
    }

    fn target_state(&mut self, copies: &mut Copies<'a>, name: &Ident) -> Target {
        match &*name.name {
            "accept" => {
                copies.accepts(&self.pipe.counts);
                return Target::Accept;
            }
            "reject" => return Target::Reject,
            _ => {}
        }
        match copies.names.get(&*name.name) {
            Some(number) => Target::State(StateId(copies.copy(*number, &self.pipe.counts) as u32)),
            None => {
                let names = copies.names.keys().copied().chain(["accept", "reject"]);
                let what = Diagnostic::new(name.span, format!("there is no state `{}`", name.name), "unknown state");
                self.report(match nearest(&name.name, names) {
                    Some(near) => what.with_help(format!("did you mean `{near}`?")),
                    None => what,
                });
                Target::Reject
            }
        }
    }

    fn select(&mut self, copies: &mut Copies<'a>, keys: &'a [ast::Expr], cases: &'a [ast::SelectCase]) -> Transition {
        let mut lowered: Vec<Option<(hir::Expr, Type)>> = Vec::new();
        for expr in keys {
            let position = self.code.len();
            let value = self.expression(expr);
            if self.code.len() > position {
                self.spend(lowered.len() as u32, expr.span);
                let mut earlier: Vec<_> = lowered.iter_mut().flatten().map(|(expr, _)| expr).collect();
                self.save(&mut earlier, Some(position), expr.span);
            }
            let ty = value.ty;
            let scalar = self.types.scalar(ty).and_then(|_| value.into_scalar());
            if scalar.is_none() && ty != Type::Error {
                let what = format!("a key of `select` cannot be of type `{}`", self.types.display(ty));
                self.error(expr.span, what, "expected `bit`, `int`, `bool` or an enumeration");
            }
            lowered.push(scalar.map(|scalar| (scalar, ty)));
        }
        if self.pipe.overflow {
            return Transition::To(Target::Reject);
        }
        let types: Vec<Option<Type>> = lowered.iter().map(|key| key.as_ref().map(|(_, ty)| *ty)).collect();
        let mut result = Vec::new();
        for case in cases {
            let target = self.target_state(copies, &case.next);
            if let Some(patterns) = self.case_patterns(case, &types) {
                result.push((patterns, target));
            }
        }
        let keys = lowered.into_iter().flatten().map(|(expr, _)| expr).collect();
        Transition::Select { keys, cases: result }
    }

    fn case_patterns(&mut self, case: &'a ast::SelectCase, types: &[Option<Type>]) -> Option<Vec<Pattern>> {
        if let [KeySet::Any(_)] = &case.keys[..] {
            return Some(vec![Pattern::Masked { value: 0, mask: 0 }; types.len()]);
        }
        if case.keys.len() != types.len() {
            let keys = super::convert::count(types.len(), "key");
            let message = format!("this `select` has {keys}, found {}", case.keys.len());
            self.error(case.span, message, "wrong number of keys");
            return None;
        }
        let patterns: Vec<_> =
            case.keys.iter().zip(types).map(|(set, ty)| ty.and_then(|ty| self.pattern(set, ty))).collect();
        patterns.into_iter().collect()
    }

    /// Checks that every cycle of states consumes bytes of the packet. Otherwise parsing might never end.
    fn check_loops(&mut self, parser: &'a ast::Parser, states: &[hir::State], origins: &[usize]) {
        if self.stopped {
            return;
        }
        let idle: Vec<bool> = states.iter().map(|state| !self.takes_bytes(&state.body)).collect();
        let Some(first) = loop_within(states, &idle) else { return };
        let Some(ast::State { name, .. }) = parser.states.get(origins[first]) else { return };
        let message = format!("the parser may loop forever through the state `{}`", name.name);
        let what = Diagnostic::new(name.span, message, "an iteration may consume no bytes of the packet");
        self.report(what.with_help("extract a header unconditionally in every iteration"));
    }

    fn takes_bytes(&self, body: &[Stmt]) -> bool {
        body.iter().any(|statement| match statement {
            Stmt::Extract(header) => !self.pipe.code.headers[header.0 as usize].fields.is_empty(),
            Stmt::Advance(bits) => *bits > 0,
            Stmt::If { then, otherwise, .. } => self.takes_bytes(then) && self.takes_bytes(otherwise),
            _ => false,
        })
    }
}

fn empty_state() -> hir::State {
    let transition = Transition::To(Target::Reject);
    hir::State { name: String::new(), span: Span::default(), body: Vec::new(), transition }
}

/// What divides the statements of a state.
enum Cut {
    /// The state after it is reached if the condition holds.
    Verify(hir::Expr),
    /// The state after it is reached if these states of another parser accept the packet.
    Parser(Vec<hir::State>),
}

/// A state of an inlined parser, whose first state gets the index `first`; `accept` becomes `next`.
fn moved(mut state: hir::State, first: u32, next: Target) -> hir::State {
    let place = |target: &mut Target| match target {
        Target::State(id) => id.0 += first,
        Target::Accept => *target = next,
        Target::Reject => {}
    };
    match &mut state.transition {
        Transition::To(target) => place(target),
        Transition::Select { cases, .. } => cases.iter_mut().for_each(|(_, target)| place(target)),
    }
    state
}

/// Returns the indices of the states to which the transition of a state may lead.
fn targets(state: &hir::State) -> impl Iterator<Item = usize> {
    let targets = match &state.transition {
        Transition::To(target) => vec![*target],
        Transition::Select { cases, .. } => cases.iter().map(|(_, target)| *target).collect(),
    };
    targets.into_iter().filter_map(|target| match target {
        Target::State(state) => Some(state.0 as usize),
        Target::Accept | Target::Reject => None,
    })
}

/// Returns a state that is on a cycle of states for which `chosen` is true; `None` if there is no such cycle.
fn loop_within(states: &[hir::State], chosen: &[bool]) -> Option<usize> {
    let next = |state: usize| -> Vec<usize> { targets(&states[state]).filter(|next| chosen[*next]).collect() };
    // This is a depth-first search. An edge to a state that is begun but not finished closes a cycle.
    let mut begun = vec![false; states.len()];
    let mut finished = vec![false; states.len()];
    for first in (0..states.len()).filter(|state| chosen[*state]) {
        let mut open = Vec::new();
        if !std::mem::replace(&mut begun[first], true) {
            open.push((first, next(first)));
        }
        while let Some((state, rest)) = open.last_mut() {
            match rest.pop() {
                None => {
                    finished[*state] = true;
                    open.pop();
                }
                Some(on) if !begun[on] => {
                    begun[on] = true;
                    open.push((on, next(on)));
                }
                Some(on) if !finished[on] => return Some(on),
                Some(_) => {}
            }
        }
    }
    None
}

/// Returns the states that can be reached from the state `start`, with new indices. The statements `first` run once,
/// before the first of these states.
fn reached(mut states: Vec<hir::State>, start: usize, first: Vec<Stmt>) -> Vec<hir::State> {
    let mut numbers = vec![None; states.len()];
    let mut order = vec![start];
    numbers[start] = Some(0);
    let mut next = 0;
    while next < order.len() {
        for target in targets(&states[order[next]]) {
            if numbers[target].is_none() {
                numbers[target] = Some(order.len() as u32);
                order.push(target);
            }
        }
        next += 1;
    }
    let begins_again = order.iter().any(|state| targets(&states[*state]).any(|target| target == start));
    let before = u32::from(begins_again && !first.is_empty());
    let renumber = |target: &mut Target| {
        if let Target::State(state) = target {
            state.0 = numbers[state.0 as usize].map_or(0, |number| number + before);
        }
    };
    let mut result = Vec::new();
    for state in order {
        let mut state = std::mem::replace(&mut states[state], empty_state());
        match &mut state.transition {
            Transition::To(target) => renumber(target),
            Transition::Select { cases, .. } => cases.iter_mut().for_each(|(_, target)| renumber(target)),
        }
        result.push(state);
    }
    if before == 1 {
        let transition = Transition::To(Target::State(StateId(1)));
        let span = result[0].span;
        result.insert(0, hir::State { name: "before start".to_string(), span, body: first, transition });
    } else {
        result[0].body.splice(0..0, first);
    }
    result
}
