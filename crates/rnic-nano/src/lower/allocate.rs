//! Register allocation by linear scan: assigns the virtual registers of a pipeline to the 256 registers of the virtual
//! machine.
//!
//! The live interval of a virtual register reaches from the first to the last instruction at which its value is live or
//! written. Registers that must be zero when a pipeline begins to process a packet have the lowest numbers, so that one
//! operation clears them. Constants have the highest numbers, and no instruction writes them.

use super::code::{Code, Op, Role};
use super::optimise;
use crate::diagnostic::Diagnostic;
use crate::source::Span;

/// Number of registers of the virtual machine. An 8-bit number can name each of them, so register accesses need no
/// bounds checks.
pub(crate) const REGISTERS: usize = 256;

/// Executable code of an ingress or egress pipeline, for the virtual machine.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Executable {
    /// The instructions.
    pub code: Code<u8>,
    /// Number of registers, starting with register 0, that must be zero when the pipeline begins to process a packet.
    pub zeros: usize,
}

/// The live interval of a virtual register: the numbers of its first and last instruction. Instructions are numbered
/// from 1; the number 0 stands for the entry of the pipeline.
#[derive(Clone, Copy)]
struct Interval {
    register: u32,
    start: usize,
    end: usize,
}

pub(super) fn allocate(code: &Code<u32>) -> Result<Executable, Diagnostic> {
    let count = optimise::registers(code);
    let mut assigned: Vec<Option<u8>> = vec![None; count];
    let used = used_constants(code);
    let mut top = REGISTERS;
    for register in used {
        top = top.checked_sub(1).filter(|top| *top > 0).ok_or_else(too_many)?;
        assigned[register as usize] = Some(top as u8);
    }
    let intervals = intervals(code, &assigned);
    let mut zeros = 0;
    let mut free = vec![true; top];
    let mut active: Vec<(usize, usize)> = Vec::new();
    for interval in intervals {
        active.retain(|(end, machine_register)| {
            let over = *end <= interval.start && *end != 0;
            free[*machine_register] |= over;
            !over
        });
        let machine_register = free.iter().position(|free| *free).ok_or_else(too_many)?;
        free[machine_register] = false;
        active.push((interval.end, machine_register));
        assigned[interval.register as usize] = Some(machine_register as u8);
        let input = code.inputs.iter().any(|(_, r)| *r == interval.register);
        if interval.start == 0 && !input {
            zeros = machine_register + 1;
        }
    }
    let mut code = code.clone();
    code.constants.retain(|(_, r)| assigned[*r as usize].is_some());
    code.pinned.retain(|(_, r)| assigned[*r as usize].is_some());
    Ok(Executable { code: code.map(|r, _| assigned[r as usize].unwrap_or(0)), zeros })
}

fn too_many() -> Diagnostic {
    let message = format!("the program has too many live values: a pipeline has {REGISTERS} registers of 64 bits");
    Diagnostic::new(Span::default(), message, "")
        .with_help("use fewer headers, or fewer variables with overlapping lifetimes")
}

/// Returns the virtual registers of constants and NIC parameters that at least one instruction or output of the
/// pipeline reads.
fn used_constants(code: &Code<u32>) -> Vec<u32> {
    let mut read = vec![false; optimise::registers(code)];
    for op in &code.ops {
        code.visit(*op, |r, _| read[r as usize] = true);
    }
    code.outputs.iter().for_each(|r| read[*r as usize] = true);
    let all = code.constants.iter().map(|(_, r)| *r).chain(code.pinned.iter().map(|(_, r)| *r));
    all.filter(|r| read[*r as usize]).collect()
}

/// Returns the live intervals of all virtual registers that have no machine register yet, ordered by their starts.
/// Among the intervals that start at the entry of the pipeline, registers that must be zero come first, and inputs
/// follow.
fn intervals(code: &Code<u32>, assigned: &[Option<u8>]) -> Vec<Interval> {
    let mut of: Vec<Option<(usize, usize)>> = vec![None; assigned.len()];
    let mut need = |register: u32, at: usize| {
        let interval = of[register as usize].get_or_insert((at, at));
        *interval = (interval.0.min(at), interval.1.max(at));
    };
    let live = optimise::live(code);
    for (index, op) in code.ops.iter().enumerate() {
        // An instruction writes its result after it has read its operands. The result's register is live at this point
        // even if no instruction reads it; otherwise the write could overwrite another value.
        code.visit(*op, |r, role| need(r, index + if role == Role::Use { 1 } else { 2 }));
        code.visit(*op, |r, _| need(r, index + 1));
        for r in (0..assigned.len() as u32).filter(|r| optimise::has(&live[index], *r)) {
            // A register that is live before this instruction is live after the preceding instructions. For the first
            // instruction, the register is live at the entry of the pipeline.
            need(r, if index == 0 { 0 } else { index + 1 });
        }
        if *op == Op::End {
            code.outputs.iter().for_each(|r| need(*r, code.ops.len() + 1));
        }
    }
    let interval = |(register, of): (usize, &Option<(usize, usize)>)| {
        of.map(|(start, end)| Interval { register: register as u32, start, end })
    };
    let mut intervals: Vec<Interval> = of.iter().enumerate().filter_map(interval).collect();
    intervals.retain(|interval| assigned[interval.register as usize].is_none());
    let input = |r: u32| code.inputs.iter().any(|(_, input)| *input == r);
    intervals.sort_by_key(|interval| (interval.start, input(interval.register), interval.register));
    intervals
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::hir::BinaryOp;
    use crate::lower::code::{Apply, Pair, Wide};

    fn code(ops: Vec<Op<u32>>, inputs: &[u32], outputs: &[u32]) -> Code<u32> {
        let (wide, numbers, loads, stores, calls, applies, pinned, constants) = Default::default();
        let inputs = inputs.iter().map(|r| (*r as u8, *r)).collect();
        Code { ops, wide, numbers, loads, stores, calls, applies, inputs, pinned, outputs: outputs.to_vec(), constants }
    }

    /// In this program a table application reads its key from register 0, writes an action argument that no instruction
    /// reads, and writes the hit bit (whether an entry matched) to register 1. The argument and the hit bit must not
    /// share a register.
    #[test]
    fn arguments_and_the_hit_bit_have_different_registers() {
        let mut code = code(vec![Op::Apply(0), Op::End], &[0], &[1]);
        let actions = vec![(1, vec![0])];
        code.applies = vec![Apply { table: 0, keys: vec![0], hit: Some(1), action: None, actions, end: 1 }];
        let allocated = allocate(&code).expect("few registers").code;
        assert_ne!(allocated.applies[0].hit, Some(allocated.applies[0].actions[0].1[0]));
    }

    /// In this program a comparison in its general form writes the upper half of its result, although no instruction
    /// reads that half.
    #[test]
    fn both_halves_of_a_result_have_registers() {
        let mut code = code(vec![Op::Wide(0), Op::End], &[0], &[3]);
        let a = Pair { lo: 0, hi: 1 };
        let d = Pair { lo: 3, hi: 2 };
        code.wide = vec![Wide { op: BinaryOp::LtSigned, width: 100, second: 100, d, a, b: a }];
        let allocated = allocate(&code).expect("few registers");
        assert_ne!(allocated.code.wide[0].d.lo, allocated.code.wide[0].d.hi);
        assert_eq!(allocated.zeros, 1, "the upper half of the operand, which is not an input");
    }

    #[test]
    fn too_many_live_values_are_rejected() {
        let inputs: Vec<u32> = (0..257).collect();
        let refused = allocate(&code(vec![Op::End], &inputs[..1], &inputs)).expect_err("more than 256");
        assert!(refused.message.contains("256 registers"), "{}", refused.message);
        assert!(allocate(&code(vec![Op::End], &inputs[..1], &inputs[1..])).is_ok());
    }
}
