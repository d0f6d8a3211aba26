//! Mutants of IRN's blocks.

use super::check::{Trace, check_designs};
use super::{Block, Parameters};
use crate::mutation::Change;
use crate::tools::HwError;

/// A block with one change.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Mutant {
    /// The block.
    pub block: Block,
    /// The change in the block's source file.
    pub change: Change,
}

/// All mutants of a block.
pub fn mutants(block: Block) -> Vec<Mutant> {
    let changes = Change::all(super::FILES[block as usize].1);
    changes.into_iter().map(|change| Mutant { block, change }).collect()
}

/// Returns true if a comparison does not detect the mutant.
///
/// # Errors
/// A program is not installed, or refuses the mutant.
pub fn survives(mutant: &Mutant, parameters: Parameters, trace: Trace) -> Result<bool, HwError> {
    let mut design = parameters.bench(mutant.block);
    mutant.change.apply(&mut design.files[mutant.block as usize].1);
    match check_designs(parameters, &[(mutant.block, design)], trace, None) {
        Ok(_) => Ok(true),
        Err(HwError::Differs(_) | HwError::Io { .. }) => Ok(false),
        Err(error) => Err(error),
    }
}
