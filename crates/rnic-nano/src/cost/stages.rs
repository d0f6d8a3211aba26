//! How many stages a pipeline needs: which accesses of memory wait for which.

use crate::hir::{Expr, ExprKind, ExternCall, Pipeline, Program, SlotId, Stmt, TableId};
use std::collections::{BTreeMap, BTreeSet};

/// A memory, or one of its ports: it lies in one stage.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug)]
pub(super) enum Port {
    /// The table of messages that arrive.
    Messages,
    /// An IfElseRaw or a PriorityScheduler, by its instance.
    Whole(u32),
    /// The port of a DualPort that reads.
    Read(u32),
    /// The one that writes.
    Write(u32),
    /// A table that the control plane can change.
    Table(u32),
}

/// What is found.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub(super) struct Stages {
    /// What is accessed in each stage; the last one hands over.
    pub(super) accesses: Vec<Vec<String>>,
    /// Most accesses that one packet makes by each port.
    pub(super) ports: BTreeMap<Port, u32>,
    /// Branches access two memories in opposite orders: each memory lies in several stages here.
    pub(super) contradictory: bool,
}

/// What is known where the analysis stands. A level is the number of the stage after which a value is there, 0 before all.
#[derive(Clone)]
struct Known {
    slots: Vec<u32>,
    /// Level of what decides whether this is executed.
    guard: u32,
    /// Per port: accesses so far, and the level of the last one.
    ports: BTreeMap<Port, (u32, u32)>,
}

impl Known {
    /// Where two ways meet.
    fn join(mut self, other: Known) -> Known {
        self.slots.iter_mut().zip(other.slots).for_each(|(a, b)| *a = b.max(*a));
        self.guard = self.guard.max(other.guard);
        for (port, (count, level)) in other.ports {
            let of = self.ports.entry(port).or_default();
            *of = (of.0.max(count), of.1.max(level));
        }
        self
    }
}

fn join(a: Option<Known>, b: Option<Known>) -> Option<Known> {
    match (a, b) {
        (Some(a), Some(b)) => Some(a.join(b)),
        (a, b) => a.or(b),
    }
}

struct Analysis<'a> {
    program: &'a Program,
    pipeline: &'a Pipeline,
    /// Stage of each port's first, second, ... access: all first accesses lie in one stage, whichever branch they are in.
    stages: BTreeMap<(Port, u32), u32>,
    names: BTreeMap<u32, BTreeSet<String>>,
    events: BTreeSet<String>,
    /// What arrives at the end of each enclosing scope by leaving it.
    scopes: Vec<Option<Known>>,
    exit: Option<Known>,
    /// The outermost scope that was left so far, as often as one was.
    left: Vec<usize>,
    /// Memories cannot each lie in one stage.
    contradictory: bool,
}

/// Stages of a pipeline.
pub(super) fn stages(program: &Program, pipeline: &Pipeline) -> Stages {
    let (stages, names, events, scopes, exit, left) = Default::default();
    let contradictory = false;
    let mut analysis = Analysis { program, pipeline, stages, names, events, scopes, exit, left, contradictory };
    loop {
        let before = analysis.stages.clone();
        (analysis.names, analysis.exit) = (BTreeMap::new(), None);
        let mut known = Some(Known { slots: vec![0; pipeline.slots.len()], guard: 0, ports: BTreeMap::new() });
        for state in &pipeline.states {
            known = analysis.body(&state.body, known);
        }
        let end = analysis.body(&pipeline.control, known);
        let end = join(end, analysis.exit.take());
        if analysis.stages == before {
            return analysis.finish(end.map(|end| end.ports).unwrap_or_default());
        }
        // A chain of accesses is as long as there are places for them, at most.
        analysis.contradictory |= analysis.stages.values().any(|level| *level as usize > analysis.stages.len());
    }
}

impl Analysis<'_> {
    fn finish(self, ports: BTreeMap<Port, (u32, u32)>) -> Stages {
        let last = self.names.keys().last().copied().unwrap_or(0);
        let stage = |level| self.names.get(&level).map(|names| names.iter().cloned().collect()).unwrap_or_default();
        let mut accesses: Vec<Vec<String>> = (1..=last).map(stage).collect();
        accesses.push(self.events.into_iter().collect());
        let ports = ports.into_iter().map(|(port, (count, _))| (port, count)).collect();
        Stages { accesses, ports, contradictory: self.contradictory }
    }

    /// What is known after a body; nothing if it is always left.
    fn body(&mut self, body: &[Stmt], mut known: Option<Known>) -> Option<Known> {
        for stmt in body {
            known = self.stmt(stmt, known?);
        }
        known
    }

    fn stmt(&mut self, stmt: &Stmt, mut known: Known) -> Option<Known> {
        match stmt {
            Stmt::Assign { slot, value } => {
                let level = level(value, &known.slots).max(known.guard);
                known.slots[slot.0 as usize] = level;
            }
            Stmt::AssignSlice { slot, value, .. } => {
                let level = level(value, &known.slots).max(known.guard);
                let of = &mut known.slots[slot.0 as usize];
                *of = level.max(*of);
            }
            Stmt::If { condition, then, otherwise } => {
                let decided = level(condition, &known.slots);
                return self.branches(known, decided, &[then, otherwise]);
            }
            Stmt::Switch { value, cases, default } => {
                let decided = level(value, &known.slots);
                let bodies: Vec<&[Stmt]> = cases.iter().map(|(_, body)| &body[..]).chain([&default[..]]).collect();
                return self.branches(known, decided, &bodies);
            }
            Stmt::Scope(body) => return self.scope(body, known),
            Stmt::Leave(depth) => {
                let at = self.scopes.len() - 1 - *depth as usize;
                self.left.push(at);
                self.scopes[at] = join(self.scopes[at].take(), Some(known));
                return None;
            }
            Stmt::Exit => {
                self.left.push(0);
                self.exit = join(self.exit.take(), Some(known));
                return None;
            }
            Stmt::Apply { table, hit, action } => return self.apply(*table, [*hit, *action], known),
            Stmt::Extern(call) => self.call(call, &mut known),
            Stmt::Extract(_) | Stmt::Advance(_) | Stmt::Emit(_) => {}
        }
        Some(known)
    }

    /// Alternatives that something decides between. What follows them depends on it too if one of them may not come back.
    fn branches(&mut self, known: Known, decided: u32, bodies: &[&[Stmt]]) -> Option<Known> {
        let (guard, left) = (known.guard, self.left.len());
        let mut after = None;
        for body in bodies {
            let branch = Known { guard: guard.max(decided), ..known.clone() };
            let end = self.body(body, Some(branch));
            after = join(after, end);
        }
        let all_came_back = self.left.len() == left;
        after.map(|after| Known { guard: if all_came_back { guard } else { after.guard }, ..after })
    }

    fn scope(&mut self, body: &[Stmt], known: Known) -> Option<Known> {
        let (guard, left) = (known.guard, self.left.len());
        self.scopes.push(None);
        let end = self.body(body, Some(known));
        let early = self.scopes.pop().flatten();
        let inside = self.scopes.len();
        let all_came_back = self.left[left..].iter().all(|scope| *scope == inside) && self.exit.is_none();
        join(end, early).map(|after| Known { guard: if all_came_back { guard } else { after.guard }, ..after })
    }

    fn apply(&mut self, id: TableId, results: [Option<SlotId>; 2], mut known: Known) -> Option<Known> {
        let table = &self.pipeline.tables[id.0 as usize];
        let keys = table.keys.iter().map(|(key, _)| level(key, &known.slots)).max().unwrap_or(0);
        let mut decided = keys.max(known.guard);
        if !table.entries_const {
            decided = self.access(Port::Table(id.0), &table.name, decided, 0, &mut known);
        }
        let parameters = table.actions.iter().flat_map(|action| &action.parameters);
        for slot in results.iter().flatten().chain(parameters) {
            known.slots[slot.0 as usize] = decided;
        }
        let bodies: Vec<&[Stmt]> = table.actions.iter().map(|action| &action.body[..]).chain([&[][..]]).collect();
        self.branches(known, decided, &bodies)
    }

    fn call(&mut self, call: &ExternCall, known: &mut Known) {
        let arguments = call.arguments.iter().map(|argument| level(argument, &known.slots)).max().unwrap_or(0);
        let decided = arguments.max(known.guard);
        let (port, least) = match (call.instance, call.function.as_str()) {
            (None, "get_rx_msg_info") => (Port::Messages, 0),
            (None, event) => {
                self.events.insert(event.to_string());
                return;
            }
            // What was written is read in a later stage; what is written over was read in the same stage or before.
            (Some(id), "read") => (Port::Read(id.0), known.ports.get(&Port::Write(id.0)).map_or(0, |port| port.1 + 1)),
            (Some(id), "write") => (Port::Write(id.0), known.ports.get(&Port::Read(id.0)).map_or(0, |port| port.1)),
            (Some(id), _) => (Port::Whole(id.0), 0),
        };
        let name = match call.instance {
            Some(id) => format!("{}.{}", self.program.instances[id.0 as usize].name, call.function),
            None => call.function.clone(),
        };
        let level = self.access(port, &name, decided, least, known);
        for slot in call.results.iter().flatten() {
            known.slots[slot.0 as usize] = level;
        }
    }

    /// The stage of an access: after all that it depends on, where the port is.
    fn access(&mut self, port: Port, name: &str, decided: u32, least: u32, known: &mut Known) -> u32 {
        let (count, last) = known.ports.get(&port).copied().unwrap_or_default();
        let level = (decided + 1).max(last + u32::from(count > 0)).max(least);
        let place = self.stages.entry((port, count)).or_default();
        let level = if self.contradictory { level } else { level.max(*place) };
        *place = level.max(*place);
        known.ports.insert(port, (count + 1, level));
        self.names.entry(level).or_default().insert(name.to_string());
        level
    }
}

/// The greatest level of the slots that an expression reads.
fn level(expr: &Expr, slots: &[u32]) -> u32 {
    match &expr.kind {
        ExprKind::Const(_) => 0,
        ExprKind::Slot(slot) => slots[slot.0 as usize],
        ExprKind::Unary(_, of) | ExprKind::Slice { of, .. } | ExprKind::ZeroExtend(of) | ExprKind::SignExtend(of) => {
            level(of, slots)
        }
        ExprKind::Binary(_, a, b) => level(a, slots).max(level(b, slots)),
        ExprKind::Conditional(c, a, b) => level(c, slots).max(level(a, slots)).max(level(b, slots)),
    }
}
