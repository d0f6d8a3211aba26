//! From control flow to data flow: every statement runs under a predicate.

use super::RtlError;
use super::net::{Access, Netlist, NodeId, What};
use crate::hir::BinaryOp;
use crate::hir::{Expr, ExprKind, ExternCall, HeaderId, Instance, Pattern, Pipeline, SlotId, Stmt, Target, Transition};
use crate::source::Span;
use std::collections::BTreeMap;

/// A pipeline as data flow.
#[derive(Debug, Default)]
pub(super) struct Flow {
    pub(super) net: Netlist,
    /// Whether the parser accepted the packet.
    pub(super) accepted: NodeId,
    /// The pipeline's outputs, as (name, value).
    pub(super) outputs: Vec<(String, NodeId)>,
    /// The headers that the deparser emits, in order.
    pub(super) emitted: Vec<Emission>,
}

/// A header that the deparser emits.
#[derive(Debug)]
pub(super) struct Emission {
    /// Whether the packet has the header; `None`: every packet has it.
    pub(super) present: Option<NodeId>,
    /// The fields of the header, from the first bit on.
    pub(super) fields: Vec<NodeId>,
}

/// Maximum number of emitted headers whose presence depends on the packet: a stage shifts the bytes behind each of
/// them.
const MAX_OPTIONAL: usize = 12;

/// Positions in the packet in bits, each with the predicates under which the parser comes there.
type Arrivals = BTreeMap<u32, Vec<NodeId>>;

/// The end of a branch: the predicate after it, and the positions in the packet.
type Ended = (NodeId, Vec<(u32, NodeId)>);

pub(super) struct Builder<'p> {
    pub(super) pipeline: &'p Pipeline,
    instances: &'p [Instance],
    pub(super) net: Netlist,
    /// The value of each slot.
    slots: Vec<NodeId>,
    /// The predicate of the current statement.
    pub(super) alive: NodeId,
    /// For each enclosing scope: the predicate under which it was left.
    left: Vec<NodeId>,
    emitted: Vec<Emission>,
    modified: Vec<u32>,
    /// In the parser: the numbers of bits that may be consumed so far, each with the predicate under which it is. A
    /// single number holds for every packet.
    position: Vec<(u32, NodeId)>,
    /// The branches around the current statement: the number of the branching, and that of the branch.
    pub(super) branches: Vec<(u32, u32)>,
    branchings: u32,
    /// The calls of `get_rx_msg_info`.
    requests: Vec<Request>,
    /// First stage in which `get_rx_msg_info` may be called.
    earliest: u32,
    /// The first bytes of the packet, which the parser sees.
    room: u32,
    /// The name of the parser's state.
    state: String,
    /// Where the parser's state, or the table that is applied, is in the source text.
    pub(super) span: Option<Span>,
}

/// The calls of `get_rx_msg_info` at places of which a packet reaches at most one: they share a port of the pipeline.
struct Request {
    /// Number of the call in the data flow.
    number: usize,
    results: Vec<NodeId>,
    places: Vec<Place>,
}

/// A place at which [`INFO`] is called: the branches around it, its predicate and its arguments.
type Place = (Vec<(u32, u32)>, NodeId, Vec<NodeId>);

/// The function of the NIC that has results.
const INFO: &str = "get_rx_msg_info";
/// Widths of the results of [`INFO`] in bits.
const INFO_RESULTS: [u32; 6] = [1, 16, 1, 1, 1, 32];

/// Maximum number of positions in the packet at which a state of the parser may begin. Each needs a multiplexer for
/// every field that the state extracts.
const MAX_POSITIONS: usize = 8;

/// Whether a packet that is in the branches `a` is never in the branches `b`.
fn exclude(a: &[(u32, u32)], b: &[(u32, u32)]) -> bool {
    a.iter().any(|(branching, branch)| b.iter().any(|other| other.0 == *branching && other.1 != *branch))
}

/// Bytes of a header buffer, which limits where a parser may extract headers.
const HEADER_PORT: &str = "header";
const LENGTH_PORT: &str = "header_bytes";

/// Builds the data flow of a pipeline whose parser sees the first `room` bytes of a packet.
pub(super) fn build(pipeline: &Pipeline, instances: &[Instance], room: u32) -> Result<Flow, RtlError> {
    let mut earliest = 0;
    loop {
        // The results of a call have a stage before the arguments of its later places are known. If one of these has a
        // later stage, the flow is built again with it.
        match build_from(pipeline, instances, room, earliest)? {
            Ok(flow) => return Ok(flow),
            Err(stage) => earliest = stage,
        }
    }
}

/// Builds the data flow, in which no call of [`INFO`] is before the stage `earliest`. The inner error is the stage that
/// such a call needs instead.
fn build_from(
    pipeline: &Pipeline, instances: &[Instance], room: u32, earliest: u32,
) -> Result<Result<Flow, u32>, RtlError> {
    let mut net = Netlist::default();
    let mut slots: Vec<NodeId> = pipeline.slots.iter().map(|slot| net.constant(0, slot.width)).collect();
    for (name, slot) in &pipeline.inputs {
        let width = pipeline.slots[slot.0 as usize].width;
        slots[slot.0 as usize] = net.input(&name.replace('.', "_"), width);
    }
    let alive = net.constant(1, 1);
    let mut builder = Builder {
        pipeline,
        instances,
        net,
        slots,
        alive,
        left: Vec::new(),
        emitted: Vec::new(),
        modified: Vec::new(),
        position: vec![(0, alive)],
        branches: Vec::new(),
        branchings: 0,
        requests: Vec::new(),
        earliest,
        room,
        state: String::new(),
        span: None,
    };
    let accepted = builder.parser()?;
    builder.alive = accepted;
    builder.span = None;
    builder.body(&pipeline.control)?;
    builder.alive = accepted;
    builder.body(&pipeline.deparser)?;
    if let Some(stage) = builder.join_requests() {
        return Ok(Err(stage));
    }
    let output = |(name, slot): &(String, SlotId)| (name.replace('.', "_"), builder.slots[slot.0 as usize]);
    let outputs = pipeline.outputs.iter().map(output).collect();
    Ok(Ok(Flow { net: builder.net, accepted, outputs, emitted: builder.emitted }))
}

impl Builder<'_> {
    pub(super) fn assign(&mut self, slot: SlotId, value: NodeId) {
        let old = self.slots[slot.0 as usize];
        let new = self.net.mux(self.alive, value, old);
        if new != old {
            let name = &self.pipeline.slots[slot.0 as usize].name;
            self.net.notes.entry(new).or_insert_with(|| (name.clone(), self.span));
        }
        self.slots[slot.0 as usize] = new;
    }

    /// The states of the parser in an order in which each follows its predecessors.
    fn order(&self) -> Result<Vec<usize>, RtlError> {
        fn visit(pipeline: &Pipeline, state: usize, marks: &mut [u8], order: &mut Vec<usize>) -> Result<(), RtlError> {
            match marks[state] {
                2 => return Ok(()),
                1 => {
                    let message = format!("the parser's state `{}` leads back to itself", pipeline.states[state].name);
                    return Err(RtlError::new(
                        message,
                        "a pipeline has a fixed length: write one state for each round, or extract into a header stack",
                        Some(pipeline.states[state].span),
                    ));
                }
                _ => {}
            }
            marks[state] = 1;
            let targets: Vec<Target> = match &pipeline.states[state].transition {
                Transition::To(target) => vec![*target],
                Transition::Select { cases, .. } => cases.iter().map(|(_, target)| *target).collect(),
            };
            for target in targets {
                if let Target::State(next) = target {
                    visit(pipeline, next.0 as usize, marks, order)?;
                }
            }
            marks[state] = 2;
            order.push(state);
            Ok(())
        }
        let mut order = Vec::new();
        if !self.pipeline.states.is_empty() {
            visit(self.pipeline, 0, &mut vec![0; self.pipeline.states.len()], &mut order)?;
        }
        order.reverse();
        Ok(order)
    }

    /// Builds the parser and returns whether it accepts the packet.
    fn parser(&mut self) -> Result<NodeId, RtlError> {
        let pipeline = self.pipeline;
        if pipeline.states.is_empty() {
            return Ok(self.alive);
        }
        let never = self.net.constant(0, 1);
        let mut entered = vec![never; pipeline.states.len()];
        // Where each state may begin in the packet.
        let mut positions: Vec<Arrivals> = vec![Arrivals::new(); pipeline.states.len()];
        (entered[0], positions[0]) = (self.alive, Arrivals::from([(0, vec![self.alive])]));
        let mut accepted = never;
        for index in self.order()? {
            let state = &pipeline.states[index];
            self.alive = entered[index];
            self.state.clone_from(&state.name);
            self.span = Some(state.span);
            self.position = self.join_arrivals(std::mem::take(&mut positions[index]));
            self.check_positions()?;
            self.body(&state.body)?;
            let position = std::mem::take(&mut self.position);
            let mut go = |builder: &mut Self, target: Target, predicate: NodeId| match target {
                Target::Reject => Ok(()),
                Target::Accept => {
                    accepted = builder.net.or(accepted, predicate);
                    Ok(())
                }
                Target::State(next) => {
                    let next = next.0 as usize;
                    entered[next] = builder.net.or(entered[next], predicate);
                    builder.add_arrivals(&mut positions[next], &position, predicate);
                    Ok(())
                }
            };
            match &state.transition {
                Transition::To(target) => go(self, *target, self.alive)?,
                Transition::Select { keys, cases } => {
                    let keys: Vec<NodeId> = keys.iter().map(|key| self.value(key)).collect();
                    let mut open = self.alive;
                    for (patterns, target) in cases {
                        let matches = self.all_match(patterns, &keys);
                        let taken = self.net.and(open, matches);
                        go(self, *target, taken)?;
                        let other = self.net.not(matches);
                        open = self.net.and(open, other);
                    }
                }
            }
        }
        Ok(accepted)
    }

    /// Checks the number of positions at which a state of the parser may begin.
    fn check_positions(&self) -> Result<(), RtlError> {
        let count = self.position.len();
        if count <= MAX_POSITIONS {
            return Ok(());
        }
        let message = format!("the parser's state `{}` begins after {count} different numbers of bytes", self.state);
        let help = "each position needs a multiplexer for every field: at most 8 are possible";
        Err(RtlError::new(message, help, self.span))
    }

    /// Adds the positions `from` to those at which a state or statement may begin; `predicate` says whether the parser
    /// comes from them.
    fn add_arrivals(&mut self, to: &mut Arrivals, from: &[(u32, NodeId)], predicate: NodeId) {
        for (bits, held) in from {
            // A single position holds for every packet.
            let holds = if from.len() == 1 { predicate } else { self.net.and(predicate, *held) };
            to.entry(*bits).or_default().push(holds);
        }
    }

    /// The positions at which a state or statement may begin, with one predicate each.
    fn join_arrivals(&mut self, arrivals: Arrivals) -> Vec<(u32, NodeId)> {
        if arrivals.len() == 1 {
            return arrivals.into_keys().map(|bits| (bits, self.alive)).collect();
        }
        arrivals.into_iter().map(|(bits, predicates)| (bits, self.any(predicates))).collect()
    }

    /// The parser has read or skipped `bits` bits.
    fn consume(&mut self, bits: u32) {
        self.position.iter_mut().for_each(|(position, _)| *position += bits);
    }

    /// The packet must have `bits` more bits, or it is rejected.
    fn need(&mut self, bits: u32) -> Result<(), RtlError> {
        let room = self.room;
        let end = bits + self.position.iter().map(|(position, _)| *position).max().unwrap_or_default();
        if end > 8 * room {
            let message = format!("the parser reads {} bytes, and the pipeline sees {room}", end.div_ceil(8));
            return Err(RtlError::new(message, "shorter headers fit", self.span));
        }
        let length = self.net.input(LENGTH_PORT, 16);
        let mut enough = None;
        for (position, holds) in self.position.clone() {
            let bytes = self.net.constant(u128::from((position + bits).div_ceil(8)), 16);
            let fits = self.net.binary(BinaryOp::Le, bytes, length);
            enough = Some(match enough {
                None => fits,
                Some(others) => self.net.mux(holds, fits, others),
            });
        }
        if let Some(enough) = enough {
            self.alive = self.net.and(self.alive, enough);
        }
        Ok(())
    }

    /// Assigns the next bits of the packet to slots.
    fn read(&mut self, fields: &[SlotId]) -> Result<(), RtlError> {
        let bits: u32 = fields.iter().map(|field| self.pipeline.slots[field.0 as usize].width).sum();
        self.need(bits)?;
        let packet = self.net.input(HEADER_PORT, 8 * self.room);
        let mut at = 0;
        for field in fields {
            let width = self.pipeline.slots[field.0 as usize].width;
            at += width;
            let mut value = None;
            for (position, holds) in self.position.clone() {
                let part = self.net.slice(packet, 8 * self.room - position - at, width);
                value = Some(match value {
                    None => part,
                    Some(others) => self.net.mux(holds, part, others),
                });
            }
            if let Some(value) = value {
                self.assign(*field, value);
            }
        }
        Ok(())
    }

    fn extract(&mut self, header: HeaderId) -> Result<(), RtlError> {
        let header = &self.pipeline.headers[header.0 as usize];
        self.read(&header.fields)?;
        self.consume(header.fields.iter().map(|field| self.pipeline.slots[field.0 as usize].width).sum());
        let valid = self.net.constant(1, 1);
        self.assign(header.valid, valid);
        Ok(())
    }

    pub(super) fn all_match(&mut self, patterns: &[Pattern], keys: &[NodeId]) -> NodeId {
        let mut all = self.net.constant(1, 1);
        for (pattern, key) in patterns.iter().zip(keys) {
            let width = self.net.width(*key);
            let matches = match *pattern {
                Pattern::Masked { mask: 0, .. } => continue,
                Pattern::Masked { value, mask } => {
                    let mask = self.net.constant(mask, width);
                    let value = self.net.constant(value, width);
                    let masked = self.net.binary(BinaryOp::And, *key, mask);
                    self.net.binary(BinaryOp::Eq, masked, value)
                }
                Pattern::Range { low, high } => {
                    let low = self.net.constant(low, width);
                    let high = self.net.constant(high, width);
                    let above = self.net.binary(BinaryOp::Le, low, *key);
                    let below = self.net.binary(BinaryOp::Le, *key, high);
                    self.net.and(above, below)
                }
            };
            all = self.net.and(all, matches);
        }
        all
    }

    pub(super) fn body(&mut self, body: &[Stmt]) -> Result<(), RtlError> {
        body.iter().try_for_each(|statement| self.statement(statement))
    }

    /// Begins a branching, of whose branches a packet takes at most one. Returns its number.
    pub(super) fn branching(&mut self) -> u32 {
        self.branchings += 1;
        self.branchings
    }

    /// Runs a body under a further condition, as the branch `place` of a branching. Returns the predicate after it, and
    /// the positions in the packet.
    fn branch(&mut self, place: (u32, u32), condition: NodeId, body: &[Stmt]) -> Result<Ended, RtlError> {
        let before = (self.alive, self.position.clone());
        self.alive = self.net.and(before.0, condition);
        self.branches.push(place);
        self.body(body)?;
        self.branches.pop();
        let after = (self.alive, std::mem::take(&mut self.position));
        (self.alive, self.position) = before;
        Ok(after)
    }

    /// The positions after a branching with these ends of its branches.
    fn join_positions(&mut self, ends: &[Ended]) {
        let first = ends.first().map(|end| &end.1);
        if ends.iter().all(|end| Some(&end.1) == first) {
            self.position = first.cloned().unwrap_or_default();
            return;
        }
        let mut joined = Arrivals::new();
        for (predicate, positions) in ends {
            self.add_arrivals(&mut joined, positions, *predicate);
        }
        self.position = self.join_arrivals(joined);
    }

    fn statement(&mut self, statement: &Stmt) -> Result<(), RtlError> {
        match statement {
            Stmt::Assign { slot, value } => {
                let value = self.value(value);
                self.assign(*slot, value);
            }
            Stmt::AssignSlice { slot, low, value } => {
                let value = self.value(value);
                let old = self.slots[slot.0 as usize];
                let width = self.net.width(value);
                let total = self.net.width(old);
                let mut new = value;
                if *low > 0 {
                    let below = self.net.slice(old, 0, *low);
                    new = self.net.binary(BinaryOp::Concat, new, below);
                }
                if low + width < total {
                    let above = self.net.slice(old, low + width, total - low - width);
                    new = self.net.binary(BinaryOp::Concat, above, new);
                }
                self.assign(*slot, new);
            }
            Stmt::If { condition, then, otherwise } => {
                let condition = self.value(condition);
                let branching = self.branching();
                let yes = self.branch((branching, 0), condition, then)?;
                let opposite = self.net.not(condition);
                let no = self.branch((branching, 1), opposite, otherwise)?;
                self.alive = self.net.or(yes.0, no.0);
                self.join_positions(&[yes, no]);
            }
            Stmt::Switch { value, cases, default } => {
                let value = self.value(value);
                let mut open = self.net.constant(1, 1);
                let mut after = self.net.constant(0, 1);
                let mut ends = Vec::new();
                let branching = self.branching();
                for (index, (labels, body)) in (0..).zip(cases) {
                    let patterns = labels.iter().map(|label| Pattern::Masked { value: *label, mask: u128::MAX });
                    let mut listed = self.net.constant(0, 1);
                    for pattern in patterns {
                        let one = self.all_match(&[pattern], &[value]);
                        listed = self.net.or(listed, one);
                    }
                    let end = self.branch((branching, index), listed, body)?;
                    after = self.net.or(after, end.0);
                    ends.push(end);
                    let other = self.net.not(listed);
                    open = self.net.and(open, other);
                }
                let end = self.branch((branching, u32::MAX), open, default)?;
                self.alive = self.net.or(after, end.0);
                ends.push(end);
                self.join_positions(&ends);
            }
            Stmt::Scope(body) => {
                let never = self.net.constant(0, 1);
                self.left.push(never);
                self.body(body)?;
                let left = self.left.pop().unwrap_or(never);
                self.alive = self.net.or(self.alive, left);
            }
            Stmt::Leave(depth) => {
                let index = self.left.len().saturating_sub(1 + *depth as usize);
                if let Some(left) = self.left.get(index).copied() {
                    self.left[index] = self.net.or(left, self.alive);
                }
                self.alive = self.net.constant(0, 1);
            }
            Stmt::Exit => self.alive = self.net.constant(0, 1),
            Stmt::Apply { table, hit, action } => self.apply(table.0 as usize, *hit, *action)?,
            Stmt::Extern(call) => self.external(call)?,
            Stmt::Emit(header) => self.emit(*header)?,
            Stmt::Extract(header) => self.extract(*header)?,
            Stmt::Advance(bits) => {
                self.need(*bits)?;
                self.consume(*bits);
            }
            Stmt::Lookahead(slots) => self.read(slots)?,
        }
        Ok(())
    }

    fn external(&mut self, call: &ExternCall) -> Result<(), RtlError> {
        let arguments: Vec<NodeId> = call.arguments.iter().map(|argument| self.value(argument)).collect();
        let Some(instance) = call.instance else {
            let results = if call.function == INFO {
                self.request(call, arguments)
            } else {
                self.net.call(&call.function, self.alive, &arguments, &[], (call.span, 0))
            };
            self.store(call, &results);
            return Ok(());
        };
        let Instance { kind, types, name, .. } = &self.instances[instance.0 as usize];
        let predicate = self.alive;
        let access = |what, values| Access { instance, what, predicate, index: arguments[0], values, stage: 0 };
        let results = match (kind.as_str(), call.function.as_str()) {
            ("IfElseRaw", "compare") => {
                self.only_access(instance.0, name, call)?;
                self.net.access(access(What::Modify, arguments[1..].to_vec()), types)
            }
            ("IfElseRaw", _) => {
                self.only_access(instance.0, name, call)?;
                let operation = self.net.mux(arguments[1], arguments[2], arguments[4]);
                let operand = self.net.mux(arguments[1], arguments[3], arguments[5]);
                self.net.access(access(What::Modify, vec![operation, operand]), types)
            }
            ("PriorityScheduler", _) => {
                self.only_access(instance.0, name, call)?;
                self.net.access(access(What::Schedule, arguments.clone()), &[1, 16, 8, 32])
            }
            ("DualPort", "read") => self.net.access(access(What::Read, Vec::new()), types),
            ("DualPort", _) => self.net.access(access(What::Write, arguments[1..].to_vec()), &[]),
            _ => {
                let message = format!("`{name}` is a {kind}");
                let help = "IfElseRaw, DualPort and PriorityScheduler have a hardware form";
                return Err(RtlError::new(message, help, Some(call.span)));
            }
        };
        self.store(call, &results);
        Ok(())
    }

    /// Calls [`INFO`]. Places of which a packet reaches at most one share a call, unless one needs the results of
    /// another.
    fn request(&mut self, call: &ExternCall, arguments: Vec<NodeId>) -> Vec<NodeId> {
        let place = (self.branches.clone(), self.alive, arguments);
        let operands = [&place.2[..], &[place.1]].concat();
        let net = &self.net;
        let fits = |request: &&mut Request| {
            request.places.iter().all(|other| exclude(&other.0, &place.0)) && !net.depends(&operands, request.number)
        };
        if let Some(request) = self.requests.iter_mut().find(fits) {
            self.net.calls[request.number].spans.push(call.span);
            request.places.push(place);
            return request.results.clone();
        }
        let number = self.net.calls.len();
        let results = self.net.call(INFO, place.1, &place.2, &INFO_RESULTS, (call.span, self.earliest));
        self.requests.push(Request { number, results: results.clone(), places: vec![place] });
        results
    }

    /// Gives the calls of [`INFO`] the arguments of all their places. Returns the stage that one of them needs, if it
    /// is later than the stage from which its results were computed.
    fn join_requests(&mut self) -> Option<u32> {
        let mut needed = None;
        for Request { number, places, .. } in std::mem::take(&mut self.requests) {
            let mut places = places.into_iter();
            let (_, mut predicate, mut arguments) = places.next()?;
            for (_, other, values) in places {
                for (argument, value) in arguments.iter_mut().zip(values) {
                    *argument = self.net.mux(other, value, *argument);
                }
                predicate = self.net.or(predicate, other);
            }
            let stage = self.net.latest(&[&arguments[..], &[predicate]].concat());
            let call = &mut self.net.calls[number];
            (call.predicate, call.arguments) = (predicate, arguments);
            needed = needed.max(Some(stage).filter(|stage| *stage > call.stage));
        }
        needed
    }

    /// An object with read-modify-write operations has one port, so a packet accesses it once.
    fn only_access(&mut self, instance: u32, name: &str, call: &ExternCall) -> Result<(), RtlError> {
        if self.modified.contains(&instance) {
            let message = format!("`{name}` has a second read-modify-write operation");
            let help = "one access per packet has a hardware form: select the operation and the operands first";
            return Err(RtlError::new(message, help, Some(call.span)));
        }
        self.modified.push(instance);
        Ok(())
    }

    fn store(&mut self, call: &ExternCall, results: &[NodeId]) {
        for (slot, value) in call.results.iter().zip(results) {
            if let Some(slot) = slot {
                self.assign(*slot, *value);
            }
        }
    }

    fn emit(&mut self, header: HeaderId) -> Result<(), RtlError> {
        let header = &self.pipeline.headers[header.0 as usize];
        let valid = self.net.and(self.slots[header.valid.0 as usize], self.alive);
        let present = match self.net.value(valid) {
            Some(0) => return Ok(()),
            Some(_) => None,
            None => Some(valid),
        };
        let fields = header.fields.iter().map(|field| self.slots[field.0 as usize]).collect();
        self.emitted.push(Emission { present, fields });
        if self.emitted.iter().filter(|emission| emission.present.is_some()).count() > MAX_OPTIONAL {
            let message = format!(
                "whether header `{}` and {MAX_OPTIONAL} before it are emitted depends on the packet",
                header.name
            );
            let help = "one stage aligns them: emit fewer optional headers";
            return Err(RtlError::new(message, help, None));
        }
        Ok(())
    }

    pub(super) fn value(&mut self, expr: &Expr) -> NodeId {
        match &expr.kind {
            ExprKind::Const(value) => self.net.constant(*value, expr.width),
            ExprKind::Slot(slot) => self.slots[slot.0 as usize],
            ExprKind::Unary(op, a) => {
                let a = self.value(a);
                self.net.unary(*op, a)
            }
            ExprKind::Binary(op, a, b) => {
                let a = self.value(a);
                let b = self.value(b);
                self.net.binary(*op, a, b)
            }
            ExprKind::Slice { of, low } => {
                let of = self.value(of);
                self.net.slice(of, *low, expr.width)
            }
            ExprKind::ZeroExtend(a) => {
                let a = self.value(a);
                self.net.extend(a, expr.width, false)
            }
            ExprKind::SignExtend(a) => {
                let a = self.value(a);
                self.net.extend(a, expr.width, true)
            }
            ExprKind::Conditional(condition, yes, no) => {
                let condition = self.value(condition);
                let yes = self.value(yes);
                let no = self.value(no);
                self.net.mux(condition, yes, no)
            }
        }
    }
}
