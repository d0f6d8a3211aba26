//! Random steps of a fixed-function block, with the output of the transport core for each step.
//!
//! Each block has a file with its inputs and outputs as types, their words in the bench, and a generator of random
//! inputs. The generator gives each input to the core and records the core's output.

mod arbiter;
mod core;
mod generator;
mod packetization;
mod random;
mod reassembly;

use self::arbiter::ArbiterSteps;
use self::generator::GeneratorSteps;
use self::packetization::PacketizationSteps;
use self::reassembly::ReassemblySteps;
use super::blocks::Block;
use std::collections::BTreeMap;

/// Number of words of an input, and of an output.
pub(super) const WORDS: usize = 10;

/// An input or output of a block as the words of the bench.
trait Encode {
    fn words(&self) -> [u32; WORDS];
}

/// Pads `first`, which has at most [`WORDS`] words, with zeros to the words that the bench reads.
fn padded(first: &[u32]) -> [u32; WORDS] {
    let mut words = [0; WORDS];
    words[..first.len()].copy_from_slice(first);
    words
}

/// A step of a block and its result in the core.
#[derive(Clone, Debug)]
pub(super) struct Step {
    /// What happens in the step, for statistics and messages.
    pub(super) kind: &'static str,
    /// The input.
    pub(super) words: [u32; WORDS],
    /// The core's output.
    pub(super) expected: [u32; WORDS],
}

impl Step {
    fn new(kind: &'static str, input: &impl Encode, output: &impl Encode) -> Step {
        Step { kind, words: input.words(), expected: output.words() }
    }
}

/// A generator of a block's steps.
trait BlockSteps {
    /// Adds the next steps.
    fn extend(&mut self, steps: &mut Vec<Step>);
}

/// The steps of one block, with statistics.
pub(super) struct StepSource {
    block: Box<dyn BlockSteps>,
    counts: BTreeMap<&'static str, u64>,
}

impl StepSource {
    pub(super) fn new(block: Block, rtx_needs_credit: bool, seed: u64) -> StepSource {
        let block: Box<dyn BlockSteps> = match block {
            Block::Packetization => Box::new(PacketizationSteps::new(rtx_needs_credit, seed)),
            Block::Reassembly => Box::new(ReassemblySteps::new(rtx_needs_credit, seed)),
            Block::Generator => Box::new(GeneratorSteps::new(rtx_needs_credit, seed)),
            Block::Arbiter => Box::new(ArbiterSteps::new(seed)),
        };
        StepSource { block, counts: BTreeMap::new() }
    }

    /// Adds the next steps.
    pub(super) fn extend(&mut self, steps: &mut Vec<Step>) {
        let first = steps.len();
        self.block.extend(steps);
        for step in &steps[first..] {
            *self.counts.entry(step.kind).or_default() += 1;
        }
    }

    /// How often each kind of step occurred.
    pub(super) fn counts(&self) -> Vec<(&'static str, u64)> {
        self.counts.iter().map(|(kind, count)| (*kind, *count)).collect()
    }
}
