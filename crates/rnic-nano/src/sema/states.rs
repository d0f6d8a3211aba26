//! Parsers.

use super::scope::{Symbol, nearest};
use super::types::Type;
use super::{Analyser, Context};
use crate::ast::{self, Ident, KeySet};
use crate::diagnostic::Diagnostic;
use crate::hir::{self, Pattern, StateId, Stmt, Target, Transition};

impl<'a> Analyser<'a> {
    /// Takes note of a parser, and checks it.
    pub(super) fn declare_parser(&mut self, parser: &'a ast::Parser) {
        let before = self.errors.len();
        self.scratch(|this| {
            let parameters = this.fresh_parameters(&parser.parameters, "");
            this.parser(parser, parameters);
        });
        let broken = self.errors.len() > before;
        self.declare(&parser.name, if broken { Symbol::Broken } else { Symbol::Parser(parser) });
    }

    /// The states of a parser, `start` first; without those that are never reached.
    pub(super) fn parser(&mut self, parser: &'a ast::Parser, parameters: Vec<Symbol<'a>>) -> Vec<hir::State> {
        let before = self.open_scope(0, self.declarations);
        let context = std::mem::replace(&mut self.context, Context::Parser);
        self.declare_parameters(&parser.parameters, parameters);
        let (first, ()) = self.collected(|this| {
            for local in &parser.locals {
                this.local(local, &parser.name.name, "");
            }
        });
        let again = std::mem::replace(&mut self.again, true);
        self.check_names(parser);
        let states: Vec<hir::State> = parser.states.iter().map(|state| self.state(parser, state)).collect();
        self.again = again;
        self.context = context;
        self.close_scope(before);
        self.check_loops(parser, &states);
        match parser.states.iter().position(|state| &*state.name.name == "start") {
            Some(start) => reached(states, start, first),
            None => {
                let what = Diagnostic::new(
                    parser.name.span,
                    format!("the parser `{}` has no state `start`", parser.name.name),
                    "begins nowhere",
                );
                self.report(what.with_help("a parser begins at `state start { ... }`"));
                Vec::new()
            }
        }
    }

    fn check_names(&mut self, parser: &'a ast::Parser) {
        for (number, state) in parser.states.iter().enumerate() {
            let name = &state.name;
            if matches!(&*name.name, "accept" | "reject") {
                self.error(name.span, format!("the state `{}` is there already", name.name), "choose another name");
            }
            if let Some(first) = parser.states[..number].iter().find(|first| first.name.name == name.name) {
                let what =
                    Diagnostic::new(name.span, format!("the state `{}` is declared twice", name.name), "here again");
                self.report(what.with_related(first.name.span, "declared here first"));
            }
        }
    }

    fn state(&mut self, parser: &'a ast::Parser, state: &'a ast::State) -> hir::State {
        let before = self.open_block();
        let (body, transition) = self.collected(|this| {
            for statement in &state.body {
                this.statement(statement);
            }
            this.transition(parser, state.transition.as_ref())
        });
        self.close_scope(before);
        hir::State { name: state.name.name.to_string(), body, transition }
    }

    fn transition(&mut self, parser: &'a ast::Parser, transition: Option<&'a ast::Transition>) -> Transition {
        match transition {
            None => Transition::To(Target::Reject),
            Some(ast::Transition::To(name)) => Transition::To(self.target_state(parser, name)),
            Some(ast::Transition::Select { keys, cases, .. }) => self.select(parser, keys, cases),
        }
    }

    fn target_state(&mut self, parser: &'a ast::Parser, name: &Ident) -> Target {
        match &*name.name {
            "accept" => return Target::Accept,
            "reject" => return Target::Reject,
            _ => {}
        }
        match parser.states.iter().position(|state| state.name.name == name.name) {
            Some(number) => Target::State(StateId(number as u32)),
            None => {
                let names = parser.states.iter().map(|state| &*state.name.name).chain(["accept", "reject"]);
                let what = Diagnostic::new(name.span, format!("there is no state `{}`", name.name), "unknown state");
                self.report(match nearest(&name.name, names) {
                    Some(near) => what.with_help(format!("did you mean `{near}`?")),
                    None => what,
                });
                Target::Reject
            }
        }
    }

    fn select(&mut self, parser: &'a ast::Parser, keys: &'a [ast::Expr], cases: &'a [ast::SelectCase]) -> Transition {
        let mut lowered: Vec<Option<(hir::Expr, Type)>> = Vec::new();
        for expr in keys {
            let position = self.code.len();
            let value = self.expression(expr);
            if self.code.len() > position {
                let mut earlier: Vec<_> = lowered.iter_mut().flatten().map(|(expr, _)| expr).collect();
                self.save(&mut earlier, Some(position), expr.span);
            }
            let ty = value.ty;
            let scalar = self.types.scalar(ty).and_then(|_| value.into_scalar());
            if scalar.is_none() && ty != Type::Error {
                let what = format!("a key of `select` cannot be `{}`", self.types.display(ty));
                self.error(expr.span, what, "expected `bit`, `int`, `bool` or an enumeration");
            }
            lowered.push(scalar.map(|scalar| (scalar, ty)));
        }
        let types: Vec<Option<Type>> = lowered.iter().map(|key| key.as_ref().map(|(_, ty)| *ty)).collect();
        let mut result = Vec::new();
        for case in cases {
            let target = self.target_state(parser, &case.next);
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

    /// A way from a state back to itself must take bytes off the packet, or it might never end.
    fn check_loops(&mut self, parser: &'a ast::Parser, states: &[hir::State]) {
        if self.stopped {
            return;
        }
        // States that take nothing, and that lead to such states only: taken away until none is left.
        let takes: Vec<bool> = states.iter().map(|state| self.takes_bytes(&state.body)).collect();
        let mut idle: Vec<usize> = (0..states.len()).filter(|number| !takes[*number]).collect();
        loop {
            let before = idle.len();
            let stays = |number: &usize| targets(&states[*number]).any(|next| idle.contains(&next));
            let next: Vec<usize> = idle.iter().copied().filter(stays).collect();
            idle = next;
            if idle.len() == before {
                break;
            }
        }
        let Some(&first) = idle.iter().find(|number| reaches(states, &idle, **number)) else { return };
        let name = &parser.states[first].name;
        let message = format!("the parser may never leave a loop through the state `{}`", name.name);
        let what = Diagnostic::new(name.span, message, "no round takes bytes off the packet");
        self.report(what.with_help("extract a header in every round, not only under a condition"));
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

/// States that a state goes to.
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

/// Whether a state comes back to itself within some states.
fn reaches(states: &[hir::State], within: &[usize], from: usize) -> bool {
    let (mut seen, mut open) = (vec![false; states.len()], vec![from]);
    while let Some(state) = open.pop() {
        for next in targets(&states[state]).filter(|next| within.contains(next)) {
            if next == from {
                return true;
            }
            if !std::mem::replace(&mut seen[next], true) {
                open.push(next);
            }
        }
    }
    false
}

/// The states that can be reached from `start`, numbered anew, with `first` done once before all.
fn reached(mut states: Vec<hir::State>, start: usize, first: Vec<Stmt>) -> Vec<hir::State> {
    let (mut numbers, mut order) = (vec![None; states.len()], vec![start]);
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
        let mut state = std::mem::replace(
            &mut states[state],
            hir::State { name: String::new(), body: Vec::new(), transition: Transition::To(Target::Reject) },
        );
        match &mut state.transition {
            Transition::To(target) => renumber(target),
            Transition::Select { cases, .. } => cases.iter_mut().for_each(|(_, target)| renumber(target)),
        }
        result.push(state);
    }
    if before == 1 {
        let transition = Transition::To(Target::State(StateId(1)));
        result.insert(0, hir::State { name: "before start".to_string(), body: first, transition });
    } else {
        result[0].body.splice(0..0, first);
    }
    result
}
