//! Mutants of the blocks: copies with one changed condition. A comparison that does not notice one is too weak.

use super::check::{Trace, check_designs};
use super::{Block, Parameters};
use crate::tools::HwError;

/// A block with one change.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Mutant {
    /// The block.
    pub block: Block,
    /// Line of the change in the block's source file, from 1.
    pub line: usize,
    /// Byte of the change in the source file.
    at: usize,
    /// The text that is replaced.
    pub from: &'static str,
    /// The text instead.
    pub to: &'static str,
}

/// What a mutant changes: an operator, a condition, a constant. The first of these texts that fits is taken.
const CHANGES: [(&str, &str); 12] = [
    (" && ", " || "),
    (" || ", " && "),
    (" >= ", " > "),
    (" < ", " <= "),
    (" == ", " != "),
    (" != ", " == "),
    (" + ", " - "),
    (" - 24'd1", ""),
    ("!", ""),
    ("~|", "|"),
    (" ? ", " == 0 ? "),
    (" & ~", " & "),
];

/// All mutants of a block: each place in its source after the ports where one of the changes applies.
pub fn mutants(block: Block) -> Vec<Mutant> {
    let text = source(block);
    let body = text.find(");\n").unwrap_or_default();
    let mut found = Vec::new();
    for (from, to) in CHANGES {
        for (at, _) in text.match_indices(from).filter(|(at, _)| *at > body) {
            let line = &text[text[..at].rfind('\n').map_or(0, |newline| newline + 1)..at];
            let after = text.as_bytes().get(at + from.len()).copied();
            // Comments, loops over constants, and `!=` are not conditions.
            let comment = line.contains("//") || line.trim_start().starts_with("for");
            if comment || (from == "!" && after == Some(b'=')) {
                continue;
            }
            found.push(Mutant { block, line: text[..at].matches('\n').count() + 1, at, from, to });
        }
    }
    found.sort_by_key(|mutant| mutant.at);
    found
}

fn source(block: Block) -> &'static str {
    super::FILES[block as usize].1
}

/// Whether a comparison does not notice a mutant.
///
/// # Errors
/// A program is not installed, or refuses the mutant.
pub fn survives(mutant: &Mutant, parameters: Parameters, trace: Trace) -> Result<bool, HwError> {
    let mut design = parameters.bench(mutant.block);
    let text = &mut design.files[mutant.block as usize].1;
    text.replace_range(mutant.at..mutant.at + mutant.from.len(), mutant.to);
    match check_designs(parameters, &[(mutant.block, design)], trace, None) {
        Ok(_) => Ok(true),
        Err(HwError::Differs(_) | HwError::Io { .. }) => Ok(false),
        Err(error) => Err(error),
    }
}
