//! A generator of random P4 programs. The test provides the random numbers, so that proptest can shrink a failing
//! program.

use crate::arithmetic::ones;
use crate::hir::*;
use crate::source::Span;

/// The slots (scalar variables) of a random program: each pair has a width in bits and the number of slots of that
/// width.
const WIDTHS: [(u32, usize); 10] =
    [(1, 4), (3, 2), (8, 3), (13, 2), (32, 4), (33, 2), (64, 3), (65, 1), (100, 2), (128, 2)];

pub(crate) struct Generator {
    dice: Vec<u32>,
    at: usize,
    pub(crate) pipeline: Pipeline,
    pub(crate) instances: Vec<Instance>,
}

fn expr(width: u32, kind: ExprKind) -> Expr {
    Expr { width, kind }
}

impl Generator {
    pub(crate) fn new(dice: Vec<u32>) -> Generator {
        let mut generator = Generator { dice, at: 0, pipeline: Pipeline::default(), instances: Vec::new() };
        for (width, count) in WIDTHS {
            for number in 0..count {
                generator.slot(format!("s{width}.{number}"), width);
            }
        }
        let instance = |kind: &str, types: &[u32], size| Instance {
            name: kind.to_string(),
            kind: kind.to_string(),
            types: types.to_vec(),
            arguments: vec![size],
            span: Default::default(),
        };
        generator.instances = vec![
            instance("IfElseRaw", &[13], 3),
            instance("IfElseRaw", &[64], 5),
            instance("DualPort", &[8, 100, 32], 4),
        ];
        generator
    }

    fn slot(&mut self, name: String, width: u32) -> SlotId {
        self.pipeline.slots.push(Slot { name, width, signed: false });
        SlotId(self.pipeline.slots.len() as u32 - 1)
    }

    /// Returns a random number less than `n`, or 0 when the test's random numbers are used up.
    fn roll(&mut self, n: u32) -> u32 {
        self.at += 1;
        self.dice.get(self.at - 1).map_or(0, |value| value % n)
    }

    fn spent(&self) -> bool {
        self.at >= self.dice.len()
    }

    fn number(&mut self, width: u32) -> u128 {
        let value = match self.roll(4) {
            0 => u128::from(self.roll(5)),
            1 => u128::MAX - u128::from(self.roll(5)),
            2 => 1 << self.roll(128),
            _ => (0..4).fold(0, |value, _| value << 32 | u128::from(self.roll(u32::MAX))),
        };
        value & ones(width)
    }

    fn any_slot(&mut self) -> SlotId {
        SlotId(self.roll(WIDTHS.iter().map(|(_, count)| *count as u32).sum()))
    }

    fn width_of(&self, slot: SlotId) -> u32 {
        self.pipeline.slots[slot.0 as usize].width
    }

    fn slot_of(&mut self, width: u32) -> Option<SlotId> {
        let of: Vec<usize> =
            (0..self.pipeline.slots.len()).filter(|s| self.pipeline.slots[*s].width == width).collect();
        (!of.is_empty()).then(|| SlotId(of[self.roll(of.len() as u32) as usize] as u32))
    }

    pub(crate) fn expr(&mut self, width: u32, depth: u32) -> Expr {
        if depth == 0 || self.spent() {
            return match self.slot_of(width) {
                Some(slot) if self.roll(4) != 0 => expr(width, ExprKind::Slot(slot)),
                _ => {
                    let number = self.number(width);
                    expr(width, ExprKind::Const(number))
                }
            };
        }
        let below = depth - 1;
        match self.roll(10) {
            0 => {
                let op = if self.roll(2) == 0 { UnaryOp::Not } else { UnaryOp::Negate };
                expr(width, ExprKind::Unary(op, self.expr(width, below).into()))
            }
            1 if width < 128 => {
                let of = width + 1 + self.roll(128 - width);
                let low = self.roll(of - width + 1);
                expr(width, ExprKind::Slice { of: self.expr(of, below).into(), low })
            }
            2 if width > 1 => {
                let from = 1 + self.roll(width - 1);
                expr(width, ExprKind::ZeroExtend(self.expr(from, below).into()))
            }
            3 if width > 1 => {
                let from = 1 + self.roll(width - 1);
                expr(width, ExprKind::SignExtend(self.expr(from, below).into()))
            }
            4 if width > 1 => {
                let upper = 1 + self.roll(width - 1);
                let a = self.expr(upper, below).into();
                let b = self.expr(width - upper, below).into();
                expr(width, ExprKind::Binary(BinaryOp::Concat, a, b))
            }
            5 => {
                let condition = self.expr(1, below).into();
                let a = self.expr(width, below).into();
                let b = self.expr(width, below).into();
                expr(width, ExprKind::Conditional(condition, a, b))
            }
            6 => {
                let op = [BinaryOp::Shl, BinaryOp::Shr, BinaryOp::ShrSigned][self.roll(3) as usize];
                let by = [3, 8, 32, 100][self.roll(4) as usize];
                let a = self.expr(width, below).into();
                let b = self.expr(by, below.min(1)).into();
                expr(width, ExprKind::Binary(op, a, b))
            }
            7 | 8 if width == 1 => {
                use BinaryOp::{Eq, Le, LeSigned, Lt, LtSigned, Ne};
                let op = [Eq, Ne, Lt, Le, LtSigned, LeSigned][self.roll(6) as usize];
                let of = WIDTHS[self.roll(10) as usize].0;
                expr(1, ExprKind::Binary(op, self.expr(of, below).into(), self.expr(of, below).into()))
            }
            _ => {
                use BinaryOp::*;
                let op =
                    [Add, Sub, SatAdd, SatSub, SatAddSigned, SatSubSigned, Mul, And, Or, Xor][self.roll(10) as usize];
                expr(width, ExprKind::Binary(op, self.expr(width, below).into(), self.expr(width, below).into()))
            }
        }
    }

    pub(crate) fn body(&mut self, depth: u32, scopes: u32) -> Vec<Stmt> {
        let count = 1 + self.roll(5);
        (0..count).map(|_| self.stmt(depth, scopes)).collect()
    }

    fn stmt(&mut self, depth: u32, scopes: u32) -> Stmt {
        let kind = if self.spent() { 0 } else { self.roll(if depth == 0 { 5 } else { 12 }) };
        match kind {
            3 => {
                let slot = self.any_slot();
                let width = self.width_of(slot);
                let part = 1 + self.roll(width);
                let low = self.roll(width - part + 1);
                Stmt::AssignSlice { slot, low, value: self.expr(part, 2) }
            }
            4 => Stmt::Extern(self.call()),
            5 | 6 => Stmt::If {
                condition: self.expr(1, 3),
                then: self.body(depth - 1, scopes),
                otherwise: if self.roll(2) == 0 { Vec::new() } else { self.body(depth - 1, scopes) },
            },
            7 => {
                let width = [8, 13, 100][self.roll(3) as usize];
                let case = |g: &mut Generator, values: Vec<u128>| (values, g.body(depth - 1, scopes));
                let first = case(self, vec![0, 1]);
                let second = case(self, vec![ones(width)]);
                let default = self.body(depth - 1, scopes);
                Stmt::Switch { value: self.expr(width, 2), cases: vec![first, second], default }
            }
            8 => Stmt::Scope(self.body(depth - 1, scopes + 1)),
            9 if scopes > 0 => Stmt::Leave(self.roll(scopes)),
            10 if self.roll(4) == 0 => Stmt::Exit,
            11 if self.pipeline.tables.len() < 4 => self.apply(scopes),
            _ => {
                let slot = self.any_slot();
                Stmt::Assign { slot, value: self.expr(self.width_of(slot), 3) }
            }
        }
    }

    fn call(&mut self) -> ExternCall {
        let index = self.expr(32, 0);
        // Most of the generated register indices are small, so that they lie within the array.
        let index = if self.roll(4) == 0 { index } else { expr(32, ExprKind::Const(u128::from(self.roll(5)))) };
        let number = self.roll(3);
        let (function, mut arguments, results) = match number {
            0 | 1 => {
                let width = [13, 64][number as usize];
                let mut arguments = vec![index, self.expr(1, 1)];
                for _ in 0..2 {
                    arguments.extend([self.expr(2, 1), self.expr(width, 1)]);
                }
                ("execute", arguments, vec![width])
            }
            _ if self.roll(2) == 0 => ("read", vec![index], vec![8, 100, 32]),
            _ => ("write", vec![index, self.expr(8, 1), self.expr(100, 1), self.expr(32, 1)], vec![]),
        };
        arguments.truncate(6);
        let results = results.iter().map(|width| if self.roll(3) == 0 { None } else { self.slot_of(*width) }).collect();
        let instance = Some(InstanceId(number));
        ExternCall { function: function.to_string(), instance, arguments, results, span: Default::default() }
    }

    fn apply(&mut self, scopes: u32) -> Stmt {
        // These slots are reserved before the actions are generated, because an action may apply other tables, which
        // reserve slots of their own.
        let hit = self.slot_of(1);
        let chosen = self.slot_of(8);
        let action = |g: &mut Generator, parameters: &[u32]| Action {
            name: format!("a{}", parameters.len()),
            parameters: parameters.iter().filter_map(|width| g.slot_of(*width)).collect(),
            body: g.body(1, scopes),
        };
        let actions = vec![action(self, &[]), action(self, &[8, 100])];
        let id = TableId(self.pipeline.tables.len() as u32);
        let run = |g: &mut Generator| match g.roll(2) {
            0 => (0, vec![]),
            _ => (1, vec![g.number(8), g.number(100)]),
        };
        let mut entries = Vec::new();
        for _ in 0..self.roll(5) {
            let mask = self.number(8);
            let first = Pattern::Masked { value: self.number(8) & mask, mask };
            let second = Pattern::Range { low: self.number(100), high: self.number(100) };
            let (action, arguments) = run(self);
            entries.push(Entry { keys: vec![first, second], action, arguments });
        }
        let default = (self.roll(2) == 0).then(|| run(self));
        let keys = vec![(self.expr(8, 1), MatchKind::Ternary), (self.expr(100, 1), MatchKind::Ternary)];
        self.pipeline.tables.push(Table {
            name: format!("t{}", id.0),
            keys,
            actions,
            default,
            default_const: false,
            entries,
            entries_const: false,
            size: 16,
            span: Default::default(),
        });
        Stmt::Apply { table: id, hit, action: chosen }
    }

    /// Generates headers that have fields of odd widths and a whole number of bytes.
    pub(crate) fn headers(&mut self, count: u32) {
        for number in 0..count {
            let valid = self.slot(format!("h{number}.valid"), 1);
            let mut fields = Vec::new();
            let mut bits = 0;
            for field in 0..1 + self.roll(5) {
                let most = if self.roll(3) == 0 { 128 } else { 20 };
                let width = 1 + self.roll(most);
                fields.push(self.slot(format!("h{number}.f{field}"), width));
                bits += width;
            }
            if bits % 8 != 0 {
                fields.push(self.slot(format!("h{number}.rest"), 8 - bits % 8));
            }
            self.pipeline.headers.push(Header { name: format!("h{number}"), valid, fields });
        }
    }

    /// Generates parser states that extract the headers. A state may transition to any state, also to an earlier one,
    /// so that parsers have loops.
    pub(crate) fn states(&mut self, count: u32) {
        for number in 0..count {
            let mut body = Vec::new();
            if self.roll(4) != 0 {
                body.push(Stmt::Extract(HeaderId(self.roll(self.pipeline.headers.len() as u32))));
            }
            if self.roll(4) == 0 {
                body.push(Stmt::Advance(8 * self.roll(4)));
            }
            if self.roll(4) == 0 {
                let count = 1 + self.roll(2);
                body.push(Stmt::Lookahead(
                    (0..count).map(|_| SlotId(self.roll(self.pipeline.slots.len() as u32))).collect(),
                ));
            }
            body.extend((0..self.roll(3)).map(|_| self.stmt(0, 0)));
            let transition = match self.roll(3) {
                0 => Transition::To(self.target(count)),
                _ => {
                    let keys = vec![self.expr(8, 1), self.expr(100, 1)];
                    let case = |g: &mut Generator| {
                        let mask = g.number(8) & 3;
                        let first = Pattern::Masked { value: g.number(8) & mask, mask };
                        let second = match g.roll(3) {
                            0 => Pattern::Range { low: g.number(100), high: g.number(100) },
                            _ => Pattern::Masked { value: 0, mask: 0 },
                        };
                        (vec![first, second], g.target(count))
                    };
                    let cases = (0..self.roll(4)).map(|_| case(self)).collect();
                    Transition::Select { keys, cases }
                }
            };
            self.pipeline.states.push(State { name: format!("p{number}"), span: Span::default(), body, transition });
        }
    }

    fn target(&mut self, states: u32) -> Target {
        match self.roll(states + 3) {
            0 => Target::Reject,
            1 | 2 => Target::Accept,
            state => Target::State(StateId(state - 3)),
        }
    }
}
