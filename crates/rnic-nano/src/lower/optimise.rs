//! Copies and what nobody needs are taken out.

use super::code::{Code, Load, Op, Role, Store};

/// Sets of registers, one bit each.
pub(super) type Set = Vec<u64>;

pub(super) fn has(set: &[u64], register: u32) -> bool {
    set[register as usize / 64] >> (register % 64) & 1 != 0
}

fn put(set: &mut [u64], register: u32, present: bool) {
    let bit = 1 << (register % 64);
    let word = &mut set[register as usize / 64];
    *word = if present { *word | bit } else { *word & !bit };
}

/// Makes code shorter that does the same.
pub(super) fn optimise(code: &mut Code<u32>) {
    for _ in 0..3 {
        straighten(code);
        propagate_copies(code);
        remove_dead(code);
    }
    straighten(code);
    group(code);
}

/// One more than the greatest number of a register.
pub(super) fn registers(code: &Code<u32>) -> usize {
    let mut most = 0;
    code.map(|r, _| most = most.max(r + 1));
    most as usize
}

/// Which registers are needed before each instruction. What a removable instruction reads counts only if its result does.
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

/// Whether an instruction may go, given what is needed after it.
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

/// Which instructions are entered otherwise than from the one before.
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

/// Copies that hold at a place: target and source.
type Copies = Vec<(u32, u32)>;

/// Copies that are remembered at once. It bounds the work for a program of nothing but copies.
const MOST_COPIES: usize = 100;

/// Reads the source of a copy where the copy is read.
fn propagate_copies(code: &mut Code<u32>) {
    // What holds on all ways to an instruction that were seen. Where a jump back leads to, not all were.
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
            && copies.len() < MOST_COPIES
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

/// Replaces what an instruction reads by the sources of copies.
fn read_sources(code: &mut Code<u32>, index: usize, copies: &[(u32, u32)]) {
    let mut source = |r, role| match copies.iter().find(|(d, _)| *d == r) {
        Some((_, a)) if role == Role::Use => *a,
        _ => r,
    };
    let op = code.ops[index].map(&mut source);
    code.ops[index] = op;
    match op {
        Op::Wide(at) => code.wide[usize::from(at)] = code.wide[usize::from(at)].map(&mut source),
        Op::Call(at) => code.calls[usize::from(at)] = code.calls[usize::from(at)].map(&mut source),
        Op::Apply(at) => code.applies[usize::from(at)] = code.applies[usize::from(at)].map(&mut source),
        _ => {}
    }
}

/// Jumps go where they end up; what cannot be reached and jumps to the next instruction go away.
fn straighten(code: &mut Code<u32>) {
    fold_branches(code);
    let ops = code.ops.clone();
    for op in code.ops.iter_mut().filter(|op| !matches!(op, Op::JumpBack { .. })) {
        // A cycle of jumps has a jump back in it.
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
    let keep: Vec<bool> = code.ops.iter().enumerate().map(|place| !useless(place)).collect();
    retain(code, &keep);
}

/// What a branch asks of its operands.
type Comparison = fn(u64, u64) -> bool;

/// A branch whose operands are constants is none.
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

/// A branch over a jump becomes the opposite branch.
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

/// Loads that follow each other become one instruction; so do stores.
fn group(code: &mut Code<u32>) {
    let entered = entered(code);
    let mut keep = vec![true; code.ops.len()];
    let mut start = 0;
    while start < code.ops.len() {
        let kind = std::mem::discriminant(&code.ops[start]);
        let same = |at: &usize| std::mem::discriminant(&code.ops[*at]) == kind && !entered[*at];
        let count = 1 + (start + 1..code.ops.len()).take_while(same).count();
        let run = start..start + count;
        let (loads, stores) = (code.loads.len() as u16, code.stores.len() as u16);
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

/// Leaves instructions out. A jump to one of those goes to what follows it.
fn retain(code: &mut Code<u32>, keep: &[bool]) {
    let mut places = Vec::with_capacity(keep.len() + 1);
    let mut kept = 0;
    for keep in keep {
        places.push(kept);
        kept += u32::from(*keep);
    }
    places.push(kept);
    let mut index = 0;
    code.ops.retain_mut(|op| {
        index += 1;
        op.target().into_iter().for_each(|to| *to = places[*to as usize]);
        keep[index - 1]
    });
    for apply in &mut code.applies {
        apply.actions.iter_mut().for_each(|(to, _)| *to = places[*to as usize]);
        apply.end = places[apply.end as usize];
    }
}
