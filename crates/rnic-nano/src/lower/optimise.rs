//! Optimisation of the generated virtual-machine code: copy propagation, dead-code elimination, jump threading, and
//! grouping of loads and stores.

use super::code::{Code, Load, Op, Role, Store};
use super::constants;

/// A set of registers, as a bitmap.
pub(super) type Set = Vec<u64>;

pub(super) fn has(set: &[u64], register: u32) -> bool {
    set[register as usize / 64] >> (register % 64) & 1 != 0
}

fn put(set: &mut [u64], register: u32, present: bool) {
    let bit = 1 << (register % 64);
    let word = &mut set[register as usize / 64];
    *word = if present { *word | bit } else { *word & !bit };
}

/// Replaces code by shorter code with the same effect.
pub(super) fn optimise(code: &mut Code<u32>) {
    for _ in 0..3 {
        straighten(code);
        propagate_copies(code);
        remove_dead(code);
    }
    straighten(code);
    constants::load_rare(code);
    group(code);
}

/// Returns the number of registers: the largest register number plus one.
pub(super) fn registers(code: &Code<u32>) -> usize {
    let mut most = 0;
    code.map(|r, _| most = most.max(r + 1));
    most as usize
}

/// Liveness analysis: returns, for each instruction, the registers that are live before it. An instruction that can be
/// removed, because its result is not live, does not make its operands live.
pub(super) fn live(code: &Code<u32>) -> Vec<Set> {
    let words = registers(code).div_ceil(64);
    let mut live = vec![vec![0; words]; code.ops.len()];
    let mut changed = true;
    while changed {
        changed = false;
        for index in (0..code.ops.len()).rev() {
            let op = code.ops[index];
            let mut now = vec![0; words];
            if op == Op::End {
                code.outputs.iter().for_each(|r| put(&mut now, *r, true));
            }
            code.successors(index, |next| now.iter_mut().zip(&live[next]).for_each(|(a, b)| *a |= b));
            if !removable(code, op, &now) {
                code.visit(op, |r, role| {
                    if role == Role::Def {
                        put(&mut now, r, false);
                    }
                });
                code.visit(op, |r, role| {
                    if role == Role::Use {
                        put(&mut now, r, true);
                    }
                });
            }
            if live[index] != now {
                live[index] = now;
                changed = true;
            }
        }
    }
    live
}

/// Whether an instruction can be removed; `after` is the set of registers that are live after it.
fn removable(code: &Code<u32>, op: Op<u32>, after: &[u64]) -> bool {
    let mut needed = !op.is_pure();
    code.visit(op, |r, role| needed |= role != Role::Use && has(after, r));
    !needed || matches!(op, Op::Mov { d, a } if d == a)
}

fn remove_dead(code: &mut Code<u32>) {
    let before = live(code);
    let words = registers(code).div_ceil(64);
    let keep = (0..code.ops.len()).map(|index| {
        let mut after = vec![0; words];
        code.successors(index, |next| after.iter_mut().zip(&before[next]).for_each(|(a, b): (&mut u64, _)| *a |= b));
        !removable(code, code.ops[index], &after)
    });
    let keep: Vec<bool> = keep.collect();
    if let Some(start) = before.first() {
        code.inputs.retain(|(_, r)| has(start, *r));
    }
    retain(code, &keep);
}

/// Returns, for each instruction, whether it is the target of a jump.
fn entered(code: &Code<u32>) -> Vec<bool> {
    let mut entered = vec![false; code.ops.len() + 1];
    for (index, op) in code.ops.iter().enumerate() {
        code.successors(index, |next| entered[next] |= next != index + 1 || op.ends());
        if let Some(to) = { *op }.target() {
            entered[*to as usize] = true;
        }
    }
    entered
}

/// The register copies that are valid at an instruction (both registers have the same value), each with its destination
/// and source register.
type Copies = Vec<(u32, u32)>;

/// Maximum number of register copies that copy propagation tracks at a time. It bounds the compiler's work for programs
/// that consist mostly of copies.
const MAX_COPIES: usize = 100;

/// Copy propagation: an instruction that reads the destination of a copy reads the source instead.
fn propagate_copies(code: &mut Code<u32>) {
    // For each instruction, the copies that are valid on all paths to it that have been seen so far. At the target of a
    // backward jump no copies are assumed, because the path through the jump has not been seen.
    let mut holds: Vec<Option<Copies>> = vec![None; code.ops.len() + 1];
    for op in &code.ops {
        if let Op::JumpBack { to } = op {
            holds[*to as usize] = Some(Copies::new());
        }
    }
    for index in 0..code.ops.len() {
        let mut copies = holds[index].take().unwrap_or_default();
        read_sources(code, index, &copies);
        let op = code.ops[index];
        code.visit(op, |r, role| {
            if role != Role::Use {
                copies.retain(|(d, a)| *d != r && *a != r);
            }
        });
        if let Op::Mov { d, a } = op
            && d != a
            && copies.len() < MAX_COPIES
        {
            copies.push((d, a));
        }
        code.successors(index, |next| match &mut holds[next] {
            _ if next <= index => {}
            Some(known) => known.retain(|copy| copies.contains(copy)),
            unknown => *unknown = Some(copies.clone()),
        });
    }
}

/// Replaces the operands of the instruction at `index`: an operand that is the destination of a copy becomes the
/// source.
fn read_sources(code: &mut Code<u32>, index: usize, copies: &[(u32, u32)]) {
    let mut source = |r, role| match copies.iter().find(|(d, _)| *d == r) {
        Some((_, a)) if role == Role::Use => *a,
        _ => r,
    };
    code.ops[index] = code.replace(code.ops[index], &mut source);
}

/// Replaces the target of a jump to another jump by the final target (jump threading), and removes unreachable
/// instructions and jumps to the following instruction.
fn straighten(code: &mut Code<u32>) {
    fold_branches(code);
    let ops = code.ops.clone();
    for op in code.ops.iter_mut().filter(|op| !matches!(op, Op::JumpBack { .. })) {
        // This loop ends, because every cycle of jumps contains a `JumpBack`, at which the loop stops.
        while let Some(to) = op.target()
            && let Op::Jump { to: next } = ops[*to as usize]
        {
            *to = next;
        }
    }
    invert_over_jumps(code);
    let mut keep = vec![false; code.ops.len()];
    let mut open = vec![0];
    while let Some(index) = open.pop() {
        if !std::mem::replace(&mut keep[index], true) {
            code.successors(index, |next| open.push(next));
        }
    }
    retain(code, &keep);
    let useless = |(index, op): (usize, &Op<u32>)| matches!(op, Op::Jump { to } if *to as usize == index + 1);
    let keep: Vec<bool> = code.ops.iter().enumerate().map(|op| !useless(op)).collect();
    retain(code, &keep);
}

/// A comparison function, which decides whether a conditional jump with constant operands is taken.
type Comparison = fn(u64, u64) -> bool;

/// Replaces a conditional jump with constant operands by an unconditional jump, or removes it.
fn fold_branches(code: &mut Code<u32>) {
    let value = |r: u32| code.constants.iter().find(|(_, register)| *register == r).map(|(value, _)| *value);
    for (index, op) in code.ops.iter_mut().enumerate() {
        let (a, b, to, holds): (u32, u32, u32, Comparison) = match *op {
            Op::JumpEq { a, b, to } => (a, b, to, |a, b| a == b),
            Op::JumpNe { a, b, to } => (a, b, to, |a, b| a != b),
            Op::JumpLt { a, b, to } => (a, b, to, |a, b| a < b),
            Op::JumpLe { a, b, to } => (a, b, to, |a, b| a <= b),
            Op::JumpAny { a, b, to } => (a, b, to, |a, b| a & b != 0),
            Op::JumpNone { a, b, to } => (a, b, to, |a, b| a & b == 0),
            _ => continue,
        };
        if let (Some(a), Some(b)) = (value(a), value(b)) {
            *op = Op::Jump { to: if holds(a, b) { to } else { index as u32 + 1 } };
        }
    }
}

/// Replaces a conditional jump over an unconditional jump by one jump: the opposite conditional jump to the target of
/// the unconditional jump.
fn invert_over_jumps(code: &mut Code<u32>) {
    let entered = entered(code);
    for index in (1..code.ops.len()).filter(|index| !entered[*index]) {
        let Op::Jump { to: far } = code.ops[index] else { continue };
        let past = index as u32 + 1;
        let inverted = match code.ops[index - 1] {
            Op::JumpEq { a, b, to } if to == past => Op::JumpNe { a, b, to: far },
            Op::JumpNe { a, b, to } if to == past => Op::JumpEq { a, b, to: far },
            Op::JumpLt { a, b, to } if to == past => Op::JumpLe { a: b, b: a, to: far },
            Op::JumpLe { a, b, to } if to == past => Op::JumpLt { a: b, b: a, to: far },
            Op::JumpAny { a, b, to } if to == past => Op::JumpNone { a, b, to: far },
            Op::JumpNone { a, b, to } if to == past => Op::JumpAny { a, b, to: far },
            _ => continue,
        };
        code.ops[index - 1] = inverted;
        code.ops[index] = Op::Jump { to: past };
    }
}

/// Groups consecutive loads of header fields into one [`Op::Loads`] instruction, and consecutive stores into one
/// [`Op::Stores`] instruction.
fn group(code: &mut Code<u32>) {
    let entered = entered(code);
    let mut keep = vec![true; code.ops.len()];
    let mut start = 0;
    while start < code.ops.len() {
        let kind = std::mem::discriminant(&code.ops[start]);
        let same = |at: &usize| std::mem::discriminant(&code.ops[*at]) == kind && !entered[*at];
        let count = 1 + (start + 1..code.ops.len()).take_while(same).count();
        let run = start..start + count;
        let loads = code.loads.len() as u16;
        let stores = code.stores.len() as u16;
        for op in &code.ops[run.clone()] {
            match *op {
                Op::Load { d, at, left, right } if count > 1 => code.loads.push(Load { d, at, left, right }),
                Op::Store { a, at, bytes } if count > 1 => code.stores.push(Store { a, at, bytes }),
                _ => {}
            }
        }
        let grouped = match code.ops[start] {
            Op::Load { .. } if count > 1 => Some(Op::Loads { first: loads, count: count as u16 }),
            Op::Store { .. } if count > 1 => Some(Op::Stores { first: stores, count: count as u16 }),
            _ => None,
        };
        if let Some(grouped) = grouped {
            code.ops[start] = grouped;
            keep[run][1..].fill(false);
        }
        start += count;
    }
    retain(code, &keep);
}

/// Removes the instructions for which `keep` is false. A jump to a removed instruction then goes to the next
/// instruction that remains.
fn retain(code: &mut Code<u32>, keep: &[bool]) {
    let mut new_indices = Vec::with_capacity(keep.len() + 1);
    let mut kept = 0;
    for keep in keep {
        new_indices.push(kept);
        kept += u32::from(*keep);
    }
    new_indices.push(kept);
    code.redirect(&new_indices);
    let mut keep = keep.iter();
    code.ops.retain(|_| keep.next() == Some(&true));
}
