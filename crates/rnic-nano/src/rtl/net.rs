//! The data flow of a pipeline: operations, each with a stage of the pipeline in which it is computed.

use crate::arithmetic;
use crate::hir::{BinaryOp, InstanceId, UnaryOp};
use crate::source::Span;
use std::collections::{BTreeMap, BTreeSet};

/// Identifies a node by its index.
pub(super) type NodeId = usize;

/// Longest chain of operations between two registers. Additions and comparisons count as `HEAVY`, multiplications as
/// the whole chain.
const DEPTH: u32 = 12;
const HEAVY: u32 = 4;
/// Cycles from a request to the reassembly block (`get_rx_msg_info`) to its results.
pub const INFO_CYCLES: u32 = 5;

#[derive(Clone, PartialEq, Eq, PartialOrd, Ord, Debug)]
pub(super) enum Kind {
    /// A port of the pipeline.
    Input(String),
    Const(u128),
    Unary(Un, NodeId),
    Binary(Bin, NodeId, NodeId),
    Slice(NodeId, u32),
    ZeroExtend(NodeId),
    SignExtend(NodeId),
    Mux(NodeId, NodeId, NodeId),
    /// A word of a memory of constants: the address, and the number of the memory.
    Lookup(NodeId, usize),
    /// A result of a call of the NIC's blocks: number of the call and bit offset among its results.
    Result(usize, u32),
    /// A result of an access to registers: number of the access and bit offset among its results.
    Read(usize, u32),
}

/// Operators in an order, so that nodes can be compared.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug)]
pub(super) enum Un {
    Negate,
    Not,
}

/// A binary operator by its name, for the order; the operator itself is in [`bin_op`].
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug)]
pub(super) struct Bin(pub(super) u8);

const BINARY: [BinaryOp; 20] = [
    BinaryOp::Add,
    BinaryOp::Sub,
    BinaryOp::SatAdd,
    BinaryOp::SatSub,
    BinaryOp::SatAddSigned,
    BinaryOp::SatSubSigned,
    BinaryOp::Mul,
    BinaryOp::Shl,
    BinaryOp::Shr,
    BinaryOp::ShrSigned,
    BinaryOp::And,
    BinaryOp::Or,
    BinaryOp::Xor,
    BinaryOp::Concat,
    BinaryOp::Eq,
    BinaryOp::Ne,
    BinaryOp::Lt,
    BinaryOp::Le,
    BinaryOp::LtSigned,
    BinaryOp::LeSigned,
];

pub(super) fn bin(op: BinaryOp) -> Bin {
    Bin(BINARY.iter().position(|other| *other == op).unwrap_or_default() as u8)
}

pub(super) fn bin_op(bin: Bin) -> BinaryOp {
    BINARY[usize::from(bin.0)]
}

#[derive(Clone, Debug)]
pub(super) struct Node {
    pub(super) kind: Kind,
    pub(super) width: u32,
    pub(super) stage: u32,
    depth: u32,
}

/// A call of the NIC's blocks.
#[derive(Clone, Debug)]
pub(super) struct Call {
    pub(super) function: String,
    pub(super) predicate: NodeId,
    pub(super) arguments: Vec<NodeId>,
    /// Widths of the results in bits.
    pub(super) results: Vec<u32>,
    /// The places in the program that share the call.
    pub(super) spans: Vec<Span>,
    /// Stage in which the arguments leave; the results arrive [`INFO_CYCLES`] stages later.
    pub(super) stage: u32,
}

/// An access to a register array.
#[derive(Clone, Debug)]
pub(super) struct Access {
    pub(super) instance: InstanceId,
    pub(super) what: What,
    pub(super) predicate: NodeId,
    pub(super) index: NodeId,
    /// Values: of a write, the scalars of the entry; of a read-modify-write operation, its operation and operand; of a
    /// request to a scheduler, its arguments.
    pub(super) values: Vec<NodeId>,
    /// Stage at whose end the memory is read or written; a read-modify-write operation writes at the end of the next.
    pub(super) stage: u32,
}

#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) enum What {
    Read,
    Write,
    Modify,
    /// A request to a scheduler.
    Schedule,
}

/// A memory of constants.
#[derive(Clone, PartialEq, Eq, Debug)]
pub(super) struct Constants {
    /// Width of an address in bits.
    pub(super) key: u32,
    /// Width of a word in bits.
    pub(super) width: u32,
    /// The words that are not 0, as (address, word), in the order of their addresses.
    pub(super) rows: Vec<(u128, u128)>,
}

/// The operations of a pipeline.
#[derive(Clone, Debug, Default)]
pub(super) struct Netlist {
    pub(super) nodes: Vec<Node>,
    known: BTreeMap<(Kind, u32), NodeId>,
    pub(super) calls: Vec<Call>,
    pub(super) accesses: Vec<Access>,
    /// The memories of constants, all different.
    pub(super) constants: Vec<Constants>,
    /// Of nodes that are values of variables: the name of the variable, and the source range of the state, table or
    /// call that assigned it.
    pub(super) notes: BTreeMap<NodeId, (String, Option<Span>)>,
}

impl Netlist {
    fn add(&mut self, kind: Kind, width: u32, stage: u32, depth: u32) -> NodeId {
        if let Some(id) = self.known.get(&(kind.clone(), width)) {
            return *id;
        }
        self.nodes.push(Node { kind: kind.clone(), width, stage, depth });
        self.known.insert((kind, width), self.nodes.len() - 1);
        self.nodes.len() - 1
    }

    /// Adds an operation of `cost` after its operands.
    fn operation(&mut self, kind: Kind, width: u32, operands: &[NodeId], cost: u32) -> NodeId {
        let stage = operands.iter().map(|id| self.nodes[*id].stage).max().unwrap_or_default();
        let same = operands.iter().filter(|id| self.nodes[**id].stage == stage);
        let depth = same.map(|id| self.nodes[*id].depth).max().unwrap_or_default() + cost;
        if depth > DEPTH { self.add(kind, width, stage + 1, cost) } else { self.add(kind, width, stage, depth) }
    }

    pub(super) fn input(&mut self, name: &str, width: u32) -> NodeId {
        self.add(Kind::Input(name.to_string()), width, 0, 0)
    }

    pub(super) fn constant(&mut self, value: u128, width: u32) -> NodeId {
        self.add(Kind::Const(value & arithmetic::ones(width.min(128))), width, 0, 0)
    }

    pub(super) fn value(&self, id: NodeId) -> Option<u128> {
        match self.nodes[id].kind {
            Kind::Const(value) => Some(value),
            _ => None,
        }
    }

    pub(super) fn width(&self, id: NodeId) -> u32 {
        self.nodes[id].width
    }

    pub(super) fn unary(&mut self, op: UnaryOp, a: NodeId) -> NodeId {
        let width = self.width(a);
        if let Some(a) = self.value(a) {
            return self.constant(arithmetic::unary(op, width, a), width);
        }
        let (kind, cost) = match op {
            UnaryOp::Negate => (Kind::Unary(Un::Negate, a), HEAVY),
            UnaryOp::Not => (Kind::Unary(Un::Not, a), 0),
        };
        self.operation(kind, width, &[a], cost)
    }

    pub(super) fn binary(&mut self, op: BinaryOp, a: NodeId, b: NodeId) -> NodeId {
        use BinaryOp as B;
        let first = self.width(a);
        let second = self.width(b);
        let width = match op {
            B::Concat => first + second,
            B::Eq | B::Ne | B::Lt | B::Le | B::LtSigned | B::LeSigned => 1,
            _ => first,
        };
        if let (Some(x), Some(y)) = (self.value(a), self.value(b)) {
            let operands = if matches!(op, B::Concat) { width } else { first };
            return self.constant(arithmetic::binary(op, operands, second, x, y), width);
        }
        // Predicates: and, or with a constant.
        for (constant, other) in [(self.value(a), b), (self.value(b), a)] {
            match (op, constant) {
                (B::And, Some(0)) => return self.constant(0, width),
                (B::Or, Some(0)) => return other,
                (B::And, Some(ones)) if ones == arithmetic::ones(first) => return other,
                (B::Or, Some(ones)) if ones == arithmetic::ones(first) => return self.constant(ones, width),
                _ => {}
            }
        }
        // Predicates of both branches of a condition together.
        if matches!(op, B::And | B::Or) && first == 1 {
            if a == b {
                return a;
            }
            if self.opposite(a, b) {
                return self.constant(u128::from(op == B::Or), 1);
            }
            if let (B::Or, Some(common)) = (op, self.both_branches(a, b)) {
                return common;
            }
        }
        let cost = match op {
            B::And | B::Or | B::Xor => 1,
            B::Concat => 0,
            B::Eq | B::Ne => 2,
            B::Mul => DEPTH,
            B::Shl | B::Shr | B::ShrSigned if self.value(b).is_some() => 0,
            _ => HEAVY,
        };
        self.operation(Kind::Binary(bin(op), a, b), width, &[a, b], cost)
    }

    fn opposite(&self, a: NodeId, b: NodeId) -> bool {
        let is_not = |a: NodeId, b: NodeId| self.nodes[a].kind == Kind::Unary(Un::Not, b);
        is_not(a, b) || is_not(b, a)
    }

    /// The common condition x of `x && c` and `x && !c`.
    fn both_branches(&self, a: NodeId, b: NodeId) -> Option<NodeId> {
        let parts = |id: NodeId| match self.nodes[id].kind {
            Kind::Binary(op, x, c) if bin_op(op) == BinaryOp::And => Some((x, c)),
            _ => None,
        };
        let ((x, c), (y, d)) = (parts(a)?, parts(b)?);
        (x == y && self.opposite(c, d)).then_some(x)
    }

    pub(super) fn slice(&mut self, of: NodeId, low: u32, width: u32) -> NodeId {
        if low == 0 && self.width(of) == width {
            return of;
        }
        if let Some(value) = self.value(of) {
            return self.constant(value >> low, width);
        }
        self.operation(Kind::Slice(of, low), width, &[of], 0)
    }

    pub(super) fn extend(&mut self, of: NodeId, width: u32, signed: bool) -> NodeId {
        let from = self.width(of);
        if from == width {
            return of;
        }
        if let Some(value) = self.value(of) {
            let value = if signed { arithmetic::sign_extend(value, from, width) } else { value };
            return self.constant(value, width);
        }
        let kind = if signed { Kind::SignExtend(of) } else { Kind::ZeroExtend(of) };
        self.operation(kind, width, &[of], 0)
    }

    pub(super) fn mux(&mut self, condition: NodeId, yes: NodeId, no: NodeId) -> NodeId {
        match self.value(condition) {
            Some(0) => return no,
            Some(_) => return yes,
            None if yes == no => return yes,
            None => {}
        }
        let width = self.width(yes);
        if width == 1 && self.value(yes) == Some(1) {
            return self.or(condition, no);
        }
        self.operation(Kind::Mux(condition, yes, no), width, &[condition, yes, no], 1)
    }

    /// The word that a memory of constants has at the address `key`; 0 if none of `rows`, as (address, word), is there.
    /// A bit of the address costs as much as a multiplexer.
    pub(super) fn lookup(&mut self, key: NodeId, mut rows: Vec<(u128, u128)>, width: u32) -> NodeId {
        rows.retain(|(_, word)| word & arithmetic::ones(width) != 0);
        rows.sort_unstable();
        let bits = self.width(key);
        let word = match (self.value(key), rows.first()) {
            (_, None) => Some(0),
            (Some(key), _) => Some(rows.iter().find(|(address, _)| *address == key).map_or(0, |(_, word)| *word)),
            (None, Some((_, first))) => {
                let is_everywhere = rows.len() as u128 == 1 << bits && rows.iter().all(|(_, word)| word == first);
                is_everywhere.then_some(*first)
            }
        };
        if let Some(word) = word {
            return self.constant(word, width);
        }
        let constants = Constants { key: bits, width, rows };
        let number = self.constants.iter().position(|known| *known == constants).unwrap_or(self.constants.len());
        if number == self.constants.len() {
            self.constants.push(constants);
        }
        self.operation(Kind::Lookup(key, number), width, &[key], bits)
    }

    pub(super) fn and(&mut self, a: NodeId, b: NodeId) -> NodeId {
        self.binary(BinaryOp::And, a, b)
    }

    pub(super) fn or(&mut self, a: NodeId, b: NodeId) -> NodeId {
        self.binary(BinaryOp::Or, a, b)
    }

    pub(super) fn not(&mut self, a: NodeId) -> NodeId {
        self.unary(UnaryOp::Not, a)
    }

    pub(super) fn latest(&self, ids: &[NodeId]) -> u32 {
        ids.iter().map(|id| self.nodes[*id].stage).max().unwrap_or_default()
    }

    /// Whether nodes depend on the results of a call.
    pub(super) fn depends(&self, nodes: &[NodeId], call: usize) -> bool {
        let mut seen = BTreeSet::new();
        let mut open = nodes.to_vec();
        while let Some(id) = open.pop() {
            if !seen.insert(id) {
                continue;
            }
            match &self.nodes[id].kind {
                Kind::Result(number, _) if *number == call => return true,
                Kind::Input(_) | Kind::Const(_) => {}
                Kind::Unary(_, a)
                | Kind::Slice(a, _)
                | Kind::ZeroExtend(a)
                | Kind::SignExtend(a)
                | Kind::Lookup(a, _) => open.push(*a),
                Kind::Binary(_, a, b) => open.extend([*a, *b]),
                Kind::Mux(a, b, c) => open.extend([*a, *b, *c]),
                Kind::Result(number, _) => {
                    let call = &self.calls[*number];
                    open.extend(call.arguments.iter().chain([&call.predicate]));
                }
                Kind::Read(number, _) => {
                    // What the access reads may also depend on earlier accesses of the same object.
                    let instance = self.accesses[*number].instance;
                    let same = self.accesses[..=*number].iter().filter(|access| access.instance == instance);
                    open.extend(same.flat_map(|one| one.values.iter().chain([&one.predicate, &one.index])));
                }
            }
        }
        false
    }

    /// Adds a call of the NIC's blocks, at the place `span` of the program, in the stage `earliest` or later. Returns
    /// its results. Calls keep their order.
    pub(super) fn call(
        &mut self, function: &str, predicate: NodeId, arguments: &[NodeId], results: &[u32],
        (span, earliest): (Span, u32),
    ) -> Vec<NodeId> {
        let operands = [arguments, &[predicate]].concat();
        let stage = self.latest(&operands).max(earliest);
        let number = self.calls.len();
        let function = function.to_string();
        let arguments = arguments.to_vec();
        self.calls.push(Call { function, predicate, arguments, results: results.to_vec(), spans: vec![span], stage });
        let mut offset = 0;
        let mut result = |width: &u32| {
            offset += width;
            self.add(Kind::Result(number, offset - width), *width, stage + INFO_CYCLES, 0)
        };
        results.iter().map(&mut result).collect()
    }

    /// Adds an access to a register array and returns its results. A read sees what an earlier access of the same
    /// packet wrote.
    pub(super) fn access(&mut self, access: Access, results: &[u32]) -> Vec<NodeId> {
        let operands = [&access.values[..], &[access.predicate, access.index]].concat();
        let after = |earlier: &&Access| earlier.instance == access.instance;
        let order = |earlier: &Access| match (earlier.what, access.what) {
            (What::Write, What::Read | What::Modify) => earlier.stage + 1,
            (What::Modify | What::Schedule, _) => earlier.stage + 2,
            _ => earlier.stage,
        };
        let earliest = self.accesses.iter().filter(after).map(order).max().unwrap_or_default();
        let stage = self.latest(&operands).max(earliest);
        let number = self.accesses.len();
        let depth = match access.what {
            What::Schedule => DEPTH,
            What::Modify => HEAVY + 2,
            What::Read | What::Write => 1,
        };
        self.accesses.push(Access { stage, ..access });
        let mut offset = 0;
        let mut result = |width: &u32| {
            offset += width;
            self.add(Kind::Read(number, offset - width), *width, stage + 1, depth)
        };
        results.iter().map(&mut result).collect()
    }
}
