//! Part of the hardware cost model: assigns the memory accesses of a P4 program to pipeline stages, according to their
//! dependencies.

use crate::hir::{Expr, ExprKind, ExternCall, Pipeline, Program, SlotId, Stmt, TableId};
use std::collections::{BTreeMap, BTreeSet};

/// A memory, or one port of a memory. All accesses through a port are in the same stage.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug)]
pub(super) enum Port {
    /// The table of the messages that are being received, which `get_rx_msg_info` reads.
    Messages,
    /// An `IfElseRaw` or a `PriorityScheduler`, identified by its [`InstanceId`](crate::hir::InstanceId).
    Whole(u32),
    /// The read port of a `DualPort`, identified by its instance id.
    Read(u32),
    /// The write port of a `DualPort`, identified by its instance id.
    Write(u32),
    /// A table that the control plane can change, identified by its [`TableId`].
    Table(u32),
}

/// The memory accesses of a pipeline, assigned to stages.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub(super) struct Stages {
    /// The names of the memories that are accessed in each stage. The last stage passes events to the fixed-function
    /// blocks.
    pub(super) accesses: Vec<Vec<String>>,
    /// For each port, the maximum number of accesses that one packet makes through it.
    pub(super) ports: BTreeMap<Port, u32>,
    /// Whether two branches access two memories in opposite orders. Then the memories cannot each be in a single stage.
    pub(super) contradictory: bool,
}

/// The state of the dependency analysis before a statement. The *level* of a value is the number of the stage after
/// which the value is known; a value that is known before the first stage has level 0.
#[derive(Clone)]
struct FlowState {
    slots: Vec<u32>,
    /// The maximum level of the conditions that decide whether the current statement runs. A level is the number of the
    /// stage after which a value is known.
    guard: u32,
    /// For each port of a memory, the number of accesses so far and the level (stage number) of the latest access.
    ports: BTreeMap<Port, (u32, u32)>,
}

impl FlowState {
    /// Merges the states at the ends of two control-flow paths: every value gets the higher of its levels on the two
    /// paths (a level is the stage after which the value is known).
    fn join(mut self, other: FlowState) -> FlowState {
        self.slots.iter_mut().zip(other.slots).for_each(|(a, b)| *a = b.max(*a));
        self.guard = self.guard.max(other.guard);
        for (port, (count, level)) in other.ports {
            let of = self.ports.entry(port).or_default();
            *of = (of.0.max(count), of.1.max(level));
        }
        self
    }
}

fn join(a: Option<FlowState>, b: Option<FlowState>) -> Option<FlowState> {
    match (a, b) {
        (Some(a), Some(b)) => Some(a.join(b)),
        (a, b) => a.or(b),
    }
}

struct Analysis<'a> {
    program: &'a Program,
    pipeline: &'a Pipeline,
    /// The stage of the first, second, third, ... access through each port of a memory. The n-th accesses on all
    /// control-flow paths are in the same stage.
    stages: BTreeMap<(Port, u32), u32>,
    names: BTreeMap<u32, BTreeSet<String>>,
    events: BTreeSet<String>,
    /// For each enclosing scope (inlined action or control), the merged analysis states of the control-flow paths that
    /// left the scope with [`Stmt::Leave`].
    scopes: Vec<Option<FlowState>>,
    exit: Option<FlowState>,
    /// For each `Leave` or `Exit` statement analysed so far, the index of the scope that it leaves; 0 for `Exit`.
    left: Vec<usize>,
    /// Whether at least one memory cannot be in a single stage, because branches access memories in opposite orders.
    contradictory: bool,
}

/// Computes the stages of a pipeline: repeats the analysis of its statements until no memory access moves to a later
/// stage.
pub(super) fn stages(program: &Program, pipeline: &Pipeline) -> Stages {
    let (stages, names, events, scopes, exit, left) = Default::default();
    let contradictory = false;
    let mut analysis = Analysis { program, pipeline, stages, names, events, scopes, exit, left, contradictory };
    loop {
        let before = analysis.stages.clone();
        (analysis.names, analysis.exit) = (BTreeMap::new(), None);
        let mut known = Some(FlowState { slots: vec![0; pipeline.slots.len()], guard: 0, ports: BTreeMap::new() });
        for state in &pipeline.states {
            known = analysis.body(&state.body, known);
        }
        let end = analysis.body(&pipeline.control, known);
        let end = join(end, analysis.exit.take());
        if analysis.stages == before {
            return analysis.finish(end.map(|end| end.ports).unwrap_or_default());
        }
        // A chain of dependent accesses is at most as long as the number of accesses. A longer chain shows that
        // branches access the same memories in contradictory orders.
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

    /// Analyses a list of statements. Returns the state after the last statement, or `None` if execution never reaches
    /// the end of the list.
    fn body(&mut self, body: &[Stmt], mut known: Option<FlowState>) -> Option<FlowState> {
        for stmt in body {
            known = self.stmt(stmt, known?);
        }
        known
    }

    fn stmt(&mut self, stmt: &Stmt, mut known: FlowState) -> Option<FlowState> {
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
            Stmt::Extract(_) | Stmt::Advance(_) | Stmt::Lookahead(_) | Stmt::Emit(_) => {}
        }
        Some(known)
    }

    /// Assigns pipeline stages to the statements in the branches of an `if` or of a table. `decided` is the number of
    /// the stage after which the pipeline knows which branch to execute. A branch may end the control block early
    /// (`return` or `exit`); then the statements after the branches depend on the decision too. Returns the state
    /// behind the branches.
    fn branches(&mut self, known: FlowState, decided: u32, bodies: &[&[Stmt]]) -> Option<FlowState> {
        let guard = known.guard;
        let left = self.left.len();
        let mut after = None;
        for body in bodies {
            let branch = FlowState { guard: guard.max(decided), ..known.clone() };
            let end = self.body(body, Some(branch));
            after = join(after, end);
        }
        let all_came_back = self.left.len() == left;
        after.map(|after| FlowState { guard: if all_came_back { guard } else { after.guard }, ..after })
    }

    fn scope(&mut self, body: &[Stmt], known: FlowState) -> Option<FlowState> {
        let guard = known.guard;
        let left = self.left.len();
        self.scopes.push(None);
        let end = self.body(body, Some(known));
        let early = self.scopes.pop().flatten();
        let inside = self.scopes.len();
        let all_came_back = self.left[left..].iter().all(|scope| *scope == inside) && self.exit.is_none();
        join(end, early).map(|after| FlowState { guard: if all_came_back { guard } else { after.guard }, ..after })
    }

    fn apply(&mut self, id: TableId, results: [Option<SlotId>; 2], mut known: FlowState) -> Option<FlowState> {
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

    fn call(&mut self, call: &ExternCall, known: &mut FlowState) {
        let arguments = call.arguments.iter().map(|argument| level(argument, &known.slots)).max().unwrap_or(0);
        let decided = arguments.max(known.guard);
        let (port, least) = match (call.instance, call.function.as_str()) {
            (None, "get_rx_msg_info") => (Port::Messages, 0),
            (None, event) => {
                self.events.insert(event.to_string());
                return;
            }
            // A read after a write to the same `DualPort` needs a later stage than the write. A write after a read may
            // be in the same stage as the read.
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

    /// Assigns an access to a stage: after the stages of all values that it depends on, and in the stage of the earlier
    /// accesses through the same port. Returns the level (stage number) of the access.
    fn access(&mut self, port: Port, name: &str, decided: u32, least: u32, known: &mut FlowState) -> u32 {
        let (count, last) = known.ports.get(&port).copied().unwrap_or_default();
        let level = (decided + 1).max(last + u32::from(count > 0)).max(least);
        let stage = self.stages.entry((port, count)).or_default();
        let level = if self.contradictory { level } else { level.max(*stage) };
        *stage = level.max(*stage);
        known.ports.insert(port, (count + 1, level));
        self.names.entry(level).or_default().insert(name.to_string());
        level
    }
}

/// Returns the maximum level (stage after which the value is known) of all slots (scalar variables) that an expression
/// reads.
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
