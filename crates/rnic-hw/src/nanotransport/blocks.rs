//! Co-simulation: compares NanoTransport's fixed-function blocks in Verilog with the same blocks of the transport core.

use super::steps::{Step, StepSource, WORDS};
use crate::model::{Design, Model};
use crate::mutation::Change;
use crate::tools::HwError;
use std::path::Path;

/// Number of steps that are sent to the Verilog model before its results are read.
const BATCH: usize = 4_096;

/// A fixed-function block.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug)]
pub enum Block {
    /// The state of the messages that are being sent, with its timers and buffers.
    Packetization,
    /// The state of the messages that are being received, with its timers and buffers.
    Reassembly,
    /// The packet generator with its pacer.
    Generator,
    /// The arbiter with strict priorities.
    Arbiter,
}

impl Block {
    /// All blocks, in the order of their numbers in the bench.
    pub const ALL: [Block; 4] = [Block::Packetization, Block::Reassembly, Block::Generator, Block::Arbiter];

    /// The name of the block in the NanoTransport paper.
    pub const fn name(self) -> &'static str {
        match self {
            Block::Packetization => "packetization",
            Block::Reassembly => "reassembly",
            Block::Generator => "generator",
            Block::Arbiter => "arbiter",
        }
    }

    /// Cycles from an operation to its result.
    pub const fn latency(self) -> u32 {
        match self {
            Block::Packetization | Block::Reassembly => 5,
            Block::Generator | Block::Arbiter => 1,
        }
    }

    /// The block alone, for synthesis, with 2^`log_slots` messages.
    pub fn module(self, log_slots: u32) -> Design {
        let slots = [("LOG_SLOTS", u64::from(log_slots)), ("LOG_SMALL", 3), ("LOG_LARGE", u64::from(log_slots) - 1)];
        let (top, parameters) = match self {
            Block::Packetization => ("nt_packetization", slots.to_vec()),
            Block::Reassembly => ("nt_reassembly", slots.to_vec()),
            Block::Generator => ("nt_generator", Vec::new()),
            Block::Arbiter => ("nt_arbiter", Vec::new()),
        };
        Design { top, files: super::sources(), parameters, words: (0, 0) }
    }

    /// The block with 16 messages between registers, for place and route.
    pub fn place(self) -> Design {
        Design { top: "nt_place", words: (0, 0), ..self.bench(false) }
    }

    /// The bench of the block. `rtx_needs_credit` is the core's setting of the same name.
    fn bench(self, rtx_needs_credit: bool) -> Design {
        Design {
            top: "nt_block_bench",
            files: super::sources(),
            parameters: vec![("BLOCK", self as u64), ("RTX_NEEDS_CREDIT", u64::from(rtx_needs_credit))],
            words: (WORDS, WORDS),
        }
    }
}

/// The result of a comparison of one block.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Checked {
    /// The block.
    pub block: Block,
    /// Steps without a difference.
    pub steps: u64,
    /// Cycles from a step to its result.
    pub latency: u32,
    /// Cycles during which the steps entered: one per step, and the cycles in which a step waited for earlier ones.
    pub cycles: u64,
    /// How often each kind of step occurred.
    pub seen: Vec<(&'static str, u64)>,
}

/// Runs at least `steps` steps of a random trace through a block, and compares the results with the core. With `vcd`,
/// writes the block's signals into this file.
///
/// # Errors
/// A difference, with the step; Verilator is not installed.
pub fn check(block: Block, steps: u64, seed: u64, vcd: Option<&Path>) -> Result<Checked, HwError> {
    // For even seeds, a retransmission needs a credit.
    let rtx_needs_credit = seed.is_multiple_of(2);
    check_design(block, &block.bench(rtx_needs_credit), rtx_needs_credit, steps, seed, vcd)
}

fn check_design(
    block: Block, design: &Design, rtx_needs_credit: bool, steps: u64, seed: u64, vcd: Option<&Path>,
) -> Result<Checked, HwError> {
    let mut bench = Model::build(design, vcd.is_some())?.start(vcd)?;
    let mut source = StepSource::new(block, rtx_needs_credit, seed);
    let mut checked = Checked { block, steps: 0, latency: 0, cycles: 0, seen: Vec::new() };
    let mut pending: Vec<Step> = Vec::new();
    while checked.steps < steps {
        while pending.len() < BATCH.min((steps - checked.steps) as usize) {
            source.extend(&mut pending);
        }
        // The very first step enters alone, to measure the latency.
        let now = if checked.steps == 0 { 1 } else { pending.len() };
        let batch: Vec<Step> = pending.drain(..now).collect();
        let words: Vec<u32> = batch.iter().flat_map(|step| step.words).collect();
        let (cycles, results) = bench.run(&words)?;
        if checked.steps == 0 {
            checked.latency = cycles;
        }
        for (step, result) in batch.iter().zip(results.chunks(WORDS)) {
            if result != step.expected {
                return Err(HwError::Differs(format!(
                    "{}: step {} of seed {seed} ({}) gives {result:x?} in hardware and {:x?} in the core; words of the step: {:x?}",
                    block.name(),
                    checked.steps,
                    step.kind,
                    step.expected,
                    step.words
                )));
            }
            checked.steps += 1;
        }
        checked.cycles += u64::from(cycles + 1 - checked.latency);
    }
    checked.seen = source.counts();
    Ok(checked)
}

/// All mutants of a block's source file.
pub fn mutants(block: Block) -> Vec<Change> {
    Change::all(super::FILES[block as usize].1)
}

/// Returns true if a comparison of `steps` steps with each of the two values of `rtx_needs_credit` does not detect a
/// mutant.
///
/// # Errors
/// A program is not installed, or refuses the mutant.
pub fn survives(block: Block, mutant: &Change, steps: u64, seed: u64) -> Result<bool, HwError> {
    for rtx_needs_credit in [false, true] {
        let mut design = block.bench(rtx_needs_credit);
        mutant.apply(&mut design.files[block as usize].1);
        match check_design(block, &design, rtx_needs_credit, steps, seed, None) {
            Ok(_) => {}
            Err(HwError::Differs(_) | HwError::Io { .. }) => return Ok(false),
            Err(error) => return Err(error),
        }
        if block != Block::Packetization {
            break;
        }
    }
    Ok(true)
}
