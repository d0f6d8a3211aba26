//! Part of the code generation: assigns registers to constants. The constants that most instructions read have a
//! register permanently; other constants are loaded before each use.

use super::code::{Code, Op, Role};
use super::optimise;
use std::collections::BTreeMap;

/// Maximum number of constants that have a register permanently: a quarter of all registers.
const MAX_PERMANENT: usize = super::REGISTERS / 4;

/// Inserts a load before each instruction that reads a constant without a permanent register.
pub(super) fn load_rare(code: &mut Code<u32>) {
    let rare = rare(code);
    if rare.is_empty() {
        return;
    }
    let mut fresh = optimise::registers(code) as u32;
    let old = std::mem::take(&mut code.ops);
    let mut ops = Vec::with_capacity(old.len());
    let mut new_indices = Vec::with_capacity(old.len() + 1);
    for op in old {
        new_indices.push(ops.len() as u32);
        let mut loaded: Vec<(u32, u32)> = Vec::new();
        let mut source = |r: u32, role| {
            let Some(index) = rare.get(&r).filter(|_| role == Role::Use) else { return r };
            if let Some((_, register)) = loaded.iter().find(|(constant, _)| *constant == r) {
                return *register;
            }
            ops.push(Op::Const { d: fresh, index: *index });
            loaded.push((r, fresh));
            fresh += 1;
            fresh - 1
        };
        let op = code.replace(op, &mut source);
        ops.push(op);
    }
    new_indices.push(ops.len() as u32);
    code.ops = ops;
    code.redirect(&new_indices);
}

/// Returns the registers of the constants that the fewest instructions read, each with an index into `code.numbers`.
/// This function appends their values to `code.numbers`.
fn rare(code: &mut Code<u32>) -> BTreeMap<u32, u16> {
    let values: BTreeMap<u32, u64> = code.constants.iter().map(|(value, register)| (*register, *value)).collect();
    let mut uses: BTreeMap<u32, usize> = BTreeMap::new();
    for op in &code.ops {
        code.visit(*op, |r, _| *uses.entry(r).or_default() += usize::from(values.contains_key(&r)));
    }
    uses.retain(|r, _| !code.outputs.contains(r));
    let mut used: Vec<(usize, u32)> =
        uses.into_iter().filter(|(_, count)| *count > 0).map(|(r, count)| (count, r)).collect();
    used.sort_by_key(|(count, register)| (std::cmp::Reverse(*count), *register));
    let rare = used.get(MAX_PERMANENT..).unwrap_or_default();
    code.numbers = rare.iter().map(|(_, register)| values[register]).collect();
    rare.iter().enumerate().map(|(index, (_, register))| (*register, index as u16)).collect()
}
