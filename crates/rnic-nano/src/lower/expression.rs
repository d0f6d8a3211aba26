//! Part of the code generation: generates virtual-machine instructions for expressions and conditional jumps.

use super::code::{Op, Pair, Wide};
use super::{Label, Lowering};
use crate::arithmetic;
use crate::hir::{BinaryOp, Expr, ExprKind, UnaryOp};

impl Lowering<'_> {
    /// Emits code for an expression and returns the registers of its value. For an expression that is a slot (scalar
    /// variable), these are the slot's own registers, so the caller must use the value before it assigns the slot.
    pub(super) fn value(&mut self, expr: &Expr) -> Pair<u32> {
        match &expr.kind {
            ExprKind::Const(value) => self.constant_pair(*value),
            ExprKind::Slot(slot) => self.slots[slot.0 as usize],
            _ if expr.width <= 64 => Pair { lo: self.narrow(expr, None), hi: self.constant(0) },
            _ => self.wide_value(expr),
        }
    }

    /// Emits code for an expression of up to 64 bits. The result is in the register `want` if the caller gives one.
    pub(super) fn narrow(&mut self, expr: &Expr, want: Option<u32>) -> u32 {
        let s = (64 - expr.width) as u8;
        match &expr.kind {
            ExprKind::Const(_) | ExprKind::Slot(_) => {
                let register = self.value(expr).lo;
                self.copy_to(register, want)
            }
            ExprKind::Unary(op, of) => {
                let a = self.value(of);
                if let Some(value) = self.value_of(a) {
                    let folded = self.constant(arithmetic::unary(*op, expr.width, value) as u64);
                    return self.copy_to(folded, want);
                }
                let b = self.constant(0);
                self.emit(want, |d| match op {
                    UnaryOp::Not => Op::Not { d, a: a.lo, s },
                    UnaryOp::Negate => Op::Sub { d, a: b, b: a.lo, s },
                })
            }
            ExprKind::Binary(op, a, b) => self.narrow_binary(*op, expr.width, a, b, want),
            ExprKind::Slice { of, low } => {
                let value = self.value(of);
                let register = self.bits(value, of.width, *low, expr.width, want);
                self.copy_to(register, want)
            }
            ExprKind::ZeroExtend(of) => self.narrow(of, want),
            ExprKind::SignExtend(of) => {
                let a = self.narrow(of, None);
                if let Some(value) = self.values.get(&a) {
                    let folded = arithmetic::sign_extend(u128::from(*value), of.width, expr.width) as u64;
                    let folded = self.constant(folded);
                    return self.copy_to(folded, want);
                }
                self.emit(want, |d| Op::Extend { d, a, from: (64 - of.width) as u8, s })
            }
            ExprKind::Conditional(condition, yes, no) => {
                let c = self.narrow(condition, None);
                if let Some(value) = self.values.get(&c) {
                    return self.narrow(if *value != 0 { yes } else { no }, want);
                }
                let a = self.narrow(yes, None);
                let b = self.narrow(no, None);
                self.emit(want, |d| Op::Select { d, c, a, b })
            }
        }
    }

    fn narrow_binary(&mut self, op: BinaryOp, width: u32, a: &Expr, b: &Expr, want: Option<u32>) -> u32 {
        let x = self.value(a);
        let y = self.value(b);
        if let (Some(left), Some(right)) = (self.value_of(x), self.value_of(y)) {
            let folded = self.constant(arithmetic::binary(op, a.width, b.width, left, right) as u64);
            return self.copy_to(folded, want);
        }
        let s = (64 - width) as u8;
        let a64 = x.lo;
        let b64 = y.lo;
        let fast = |d| {
            let a = a64;
            let b = b64;
            Some(match op {
                BinaryOp::Add => Op::Add { d, a, b, s },
                BinaryOp::Sub => Op::Sub { d, a, b, s },
                BinaryOp::Mul => Op::Mul { d, a, b, s },
                BinaryOp::And => Op::And { d, a, b },
                BinaryOp::Or => Op::Or { d, a, b },
                BinaryOp::Xor => Op::Xor { d, a, b },
                BinaryOp::Shl => Op::Shl { d, a, b, s },
                BinaryOp::Shr => Op::Shr { d, a, b },
                BinaryOp::Eq => Op::Eq { d, a, b },
                BinaryOp::Ne => Op::Ne { d, a, b },
                BinaryOp::Lt => Op::Lt { d, a, b },
                BinaryOp::Le => Op::Le { d, a, b },
                _ => return None,
            })
        };
        if op == BinaryOp::Concat {
            return self.emit(want, |d| Op::Concat { d, a: a64, b: b64, low: b.width as u8 });
        }
        if a.width <= 64 && b.width <= 64 && fast(0).is_some() {
            return self.emit(want, |d| fast(d).expect("it has this form"));
        }
        let result = self.general(op, (x, a.width), (y, b.width));
        self.copy_to(result.lo, want)
    }

    /// Emits code for an expression of more than 64 bits.
    fn wide_value(&mut self, expr: &Expr) -> Pair<u32> {
        let zero = self.constant(0);
        match &expr.kind {
            ExprKind::Const(_) | ExprKind::Slot(_) => self.value(expr),
            ExprKind::Unary(UnaryOp::Not, of) => {
                let Pair { lo, hi } = self.value(of);
                let upper = (128 - expr.width) as u8;
                Pair {
                    lo: self.emit(None, |d| Op::Not { d, a: lo, s: 0 }),
                    hi: self.emit(None, |d| Op::Not { d, a: hi, s: upper }),
                }
            }
            ExprKind::Unary(UnaryOp::Negate, of) => {
                let value = self.value(of);
                self.general(BinaryOp::Sub, (Pair { lo: zero, hi: zero }, expr.width), (value, expr.width))
            }
            ExprKind::Binary(op, a, b) => {
                let x = self.value(a);
                let y = self.value(b);
                match op {
                    BinaryOp::And => self.halves(x, y, |d, a, b| Op::And { d, a, b }),
                    BinaryOp::Or => self.halves(x, y, |d, a, b| Op::Or { d, a, b }),
                    BinaryOp::Xor => self.halves(x, y, |d, a, b| Op::Xor { d, a, b }),
                    _ => self.general(*op, (x, a.width), (y, b.width)),
                }
            }
            ExprKind::Slice { of, low } => {
                let value = self.value(of);
                Pair {
                    lo: self.bits(value, of.width, *low, 64, None),
                    hi: self.bits(value, of.width, low + 64, expr.width - 64, None),
                }
            }
            ExprKind::ZeroExtend(of) => self.value(of),
            ExprKind::SignExtend(of) => {
                // Sign extension: a left shift moves the sign bit to bit 127, and an arithmetic right shift moves it
                // back.
                let value = self.value(of);
                let by = self.constant(u64::from(expr.width - of.width));
                let by = (Pair { lo: by, hi: zero }, 8);
                let up = self.general(BinaryOp::Shl, (value, expr.width), by);
                self.general(BinaryOp::ShrSigned, (up, expr.width), by)
            }
            ExprKind::Conditional(condition, yes, no) => {
                let c = self.narrow(condition, None);
                let x = self.value(yes);
                let y = self.value(no);
                self.halves(x, y, |d, a, b| Op::Select { d, c, a, b })
            }
        }
    }

    /// Emits the same instruction twice: once for the lower and once for the upper half of the operands.
    fn halves(&mut self, a: Pair<u32>, b: Pair<u32>, op: impl Fn(u32, u32, u32) -> Op<u32>) -> Pair<u32> {
        Pair { lo: self.emit(None, |d| op(d, a.lo, b.lo)), hi: self.emit(None, |d| op(d, a.hi, b.hi)) }
    }

    /// Emits an operator in its general form. Each operand is given with its width in bits.
    fn general(&mut self, op: BinaryOp, (a, width): (Pair<u32>, u32), (b, second): (Pair<u32>, u32)) -> Pair<u32> {
        let d = Pair { lo: self.fresh(), hi: self.fresh() };
        let index = self.code.wide.len() as u16;
        self.code.wide.push(Wide { op, width: width as u8, second: second as u8, d, a, b });
        self.push(Op::Wide(index));
        d
    }

    /// Emits code for a slice of at most 64 bits from a value of `of` bits. The result is in `want`, in a new register,
    /// or in a register that already holds the slice.
    pub(super) fn bits(&mut self, value: Pair<u32>, of: u32, low: u32, width: u32, want: Option<u32>) -> u32 {
        if let Some(value) = self.value_of(value) {
            return self.constant((value >> low & arithmetic::ones(width)) as u64);
        }
        let s = (64 - width) as u8;
        if low < 64 && low + width > 64 {
            let upper = self.bits(value, of, 64, low + width - 64, None);
            let lower = self.bits(value, of, low, 64 - low, None);
            return self.emit(want, |d| Op::Concat { d, a: upper, b: lower, low: (64 - low) as u8 });
        }
        let (half, of, low) = if low < 64 { (value.lo, of.min(64), low) } else { (value.hi, of - 64, low - 64) };
        if low == 0 && width == of {
            return half;
        }
        self.emit(want, |d| Op::Bits { d, a: half, low: low as u8, s })
    }

    /// Emits an instruction. Its result is in the register `want` if the caller gives one, else in a new register.
    fn emit(&mut self, want: Option<u32>, op: impl FnOnce(u32) -> Op<u32>) -> u32 {
        let d = want.unwrap_or_else(|| self.fresh());
        self.push(op(d));
        d
    }

    /// Emits a copy of a register to `want`, unless `want` is the same register or `None`. Returns the register that
    /// holds the value.
    pub(super) fn copy_to(&mut self, register: u32, want: Option<u32>) -> u32 {
        match want {
            Some(d) if d != register => self.emit(Some(d), |d| Op::Mov { d, a: register }),
            _ => register,
        }
    }

    /// Emits a jump to `to` that is taken if the condition (an expression of width 1) equals `when`.
    pub(super) fn branch(&mut self, condition: &Expr, when: bool, to: Label) {
        match &condition.kind {
            ExprKind::Const(value) => {
                if (*value != 0) == when {
                    self.jump(to);
                }
            }
            ExprKind::Unary(UnaryOp::Not, of) => self.branch(of, !when, to),
            ExprKind::Binary(op @ (BinaryOp::And | BinaryOp::Or), a, b) => {
                // One operand alone can decide whether to jump: an operand that is 1 for `||`, an operand that is 0 for
                // `&&`.
                if (*op == BinaryOp::Or) == when {
                    self.branch(a, when, to);
                    self.branch(b, when, to);
                } else {
                    let past = self.label();
                    self.branch(a, !when, past);
                    self.branch(b, when, to);
                    self.bind(past);
                }
            }
            ExprKind::Binary(op, a, b) if a.width <= 64 && b.width <= 64 => {
                self.branch_on(*op, a, b, when, to, condition)
            }
            _ => self.branch_on_value(condition, when, to),
        }
    }

    /// Emits a jump on a condition for which the virtual machine has no combined compare-and-jump instruction: computes
    /// the condition and compares it with 0.
    fn branch_on_value(&mut self, condition: &Expr, when: bool, to: Label) {
        let a = self.narrow(condition, None);
        let b = self.constant(0);
        let to = self.to(to);
        self.push(if when { Op::JumpNe { a, b, to } } else { Op::JumpEq { a, b, to } });
    }

    /// Emits a combined compare-and-jump instruction for operands of up to 64 bits. `whole` is the comparison as one
    /// expression.
    fn branch_on(&mut self, op: BinaryOp, a: &Expr, b: &Expr, when: bool, to: Label, whole: &Expr) {
        let zero = |expr: &Expr| matches!(expr.kind, ExprKind::Const(0));
        // For unsigned numbers, `0 < b` is the same as `b != 0`.
        let op = if op == BinaryOp::Lt && zero(a) { BinaryOp::Ne } else { op };
        let masked = match (&a.kind, &b.kind) {
            (ExprKind::Binary(BinaryOp::And, x, y), _) if zero(b) => Some((x, y)),
            (_, ExprKind::Binary(BinaryOp::And, x, y)) if zero(a) => Some((x, y)),
            _ => None,
        };
        let compares = matches!(op, BinaryOp::Eq | BinaryOp::Ne | BinaryOp::Lt | BinaryOp::Le);
        if !compares {
            return self.branch_on_value(whole, when, to);
        }
        if let (Some((x, y)), BinaryOp::Eq | BinaryOp::Ne) = (masked, op) {
            let a = self.narrow(x, None);
            let b = self.narrow(y, None);
            let to = self.to(to);
            let any = (op == BinaryOp::Ne) == when;
            return self.push(if any { Op::JumpAny { a, b, to } } else { Op::JumpNone { a, b, to } });
        }
        let a = self.narrow(a, None);
        let b = self.narrow(b, None);
        let to = self.to(to);
        self.push(match (op, when) {
            (BinaryOp::Eq, true) | (BinaryOp::Ne, false) => Op::JumpEq { a, b, to },
            (BinaryOp::Eq, false) | (BinaryOp::Ne, true) => Op::JumpNe { a, b, to },
            (BinaryOp::Lt, true) => Op::JumpLt { a, b, to },
            (BinaryOp::Lt, false) => Op::JumpLe { a: b, b: a, to },
            (_, true) => Op::JumpLe { a, b, to },
            (_, false) => Op::JumpLt { a: b, b: a, to },
        });
    }
}
