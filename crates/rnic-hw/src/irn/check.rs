//! Co-simulation: the same steps for the core and for the Verilated blocks.

use super::trace::{Batch, Batches, EventCounts, Flow, Random};
use super::{Block, Parameters, record};
use crate::model::{Bench, Design, Model};
use crate::tools::HwError;
use rand_pcg::Pcg64Mcg;
use std::path::Path;
use std::sync::mpsc::{Receiver, SyncSender, sync_channel};
use std::thread;

/// Number of queue pairs in a trace. They take turns, so consecutive steps belong to different queue pairs.
const QUEUE_PAIRS: u32 = 1 << super::LOG_QUEUE_PAIRS;
/// Number of steps that enter a block in consecutive cycles, without a pause.
const BATCH: usize = 4_096;

/// The result of a comparison of one block.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Checked {
    /// The block.
    pub block: Block,
    /// Steps without a difference.
    pub steps: u64,
    /// Cycles from a step to its result.
    pub latency: u32,
    /// Average number of cycles between the entries of two steps, in thousandths and rounded up, over all batches. It
    /// is above 1,000 if a step had to wait for an earlier step of the same queue pair.
    pub interval_per_mille: u64,
}

/// How often each kind of step occurred in a trace, by its name.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Coverage(pub Vec<(&'static str, u64)>);

/// The length of a comparison and its seed.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Trace {
    /// Minimum number of steps of each block.
    pub steps: u64,
    /// Seed of the random trace.
    pub seed: u64,
    /// Number of queue pairs, 1 to 64.
    pub queue_pairs: u32,
}

impl Trace {
    /// A trace of 64 queue pairs.
    pub fn new(steps: u64, seed: u64) -> Trace {
        Trace { steps, seed, queue_pairs: QUEUE_PAIRS }
    }
}

/// Runs a random and adversarial trace through each of `blocks`, and compares the results with the core (or with the
/// model of the published logic). With `vcd`, which needs a single block, writes the block's signals into this file.
///
/// # Errors
/// A difference, with the step and the field; a parameter out of range; a program that is not installed.
pub fn check(
    parameters: Parameters, blocks: &[Block], trace: Trace, vcd: Option<&Path>,
) -> Result<(Vec<Checked>, Coverage), HwError> {
    let parameters = parameters.validate()?;
    let designs: Vec<(Block, Design)> = blocks.iter().map(|block| (*block, parameters.bench(*block))).collect();
    check_designs(parameters, &designs, trace, vcd)
}

/// Does the same as [`check`], for benches with other source files.
pub(super) fn check_designs(
    parameters: Parameters, designs: &[(Block, Design)], trace: Trace, vcd: Option<&Path>,
) -> Result<(Vec<Checked>, Coverage), HwError> {
    if vcd.is_some() && designs.len() > 1 {
        let message = "waveforms need one block: add for example --block receiveAck".to_string();
        return Err(HwError::Parameter(message));
    }
    let models: Vec<Model> =
        designs.iter().map(|(_, design)| Model::build(design, vcd.is_some())).collect::<Result<_, _>>()?;
    thread::scope(|scope| {
        let mut workers = Vec::new();
        let mut senders: [Option<SyncSender<Batch>>; 6] = [const { None }; 6];
        for ((block, _), model) in designs.iter().zip(&models) {
            let (sender, batches) = sync_channel(2);
            let block = *block;
            let bench = model.start(vcd)?;
            senders[block as usize] = Some(sender);
            workers.push(scope.spawn(move || compare(block, parameters, trace.seed, bench, &batches)));
        }
        let counts = generate(parameters, trace, senders);
        let results =
            workers.into_iter().map(|worker| worker.join().unwrap_or_else(|panic| std::panic::resume_unwind(panic)));
        let checked = results.collect::<Result<Vec<Checked>, HwError>>()?;
        Ok((checked, Coverage(counts.into_iter().collect())))
    })
}

/// Generates a trace, until each block with a sender has enough steps or the comparison of the block has ended.
fn generate(parameters: Parameters, trace: Trace, mut senders: [Option<SyncSender<Batch>>; 6]) -> EventCounts {
    let mut random = Random(Pcg64Mcg::new((u128::from(trace.seed) << 64 | 0x1a2b_3c4d_5e6f_7788) | 1));
    let mut batches: Batches = std::array::from_fn(|block| senders[block].as_ref().map(|_| Batch::default()));
    let queue_pairs = trace.queue_pairs.clamp(1, QUEUE_PAIRS);
    let mut flows: Vec<Flow> =
        (0..queue_pairs).map(|number| Flow::new(parameters, number, &mut random, &mut batches)).collect();
    let mut passed = [0_u64; 6];
    let mut counts = EventCounts::new();
    while senders.iter().any(Option::is_some) {
        for (flow, number) in flows.iter_mut().zip(0..) {
            flow.step(&mut random, &mut batches, &mut counts);
            if flow.is_over() {
                *flow = Flow::new(parameters, number, &mut random, &mut batches);
            }
        }
        for ((waiting, sender), passed) in batches.iter_mut().zip(&mut senders).zip(&mut passed) {
            let Some(batch) = waiting else { continue };
            if batch.count < BATCH && *passed + (batch.count as u64) < trace.steps {
                continue;
            }
            *passed += batch.count as u64;
            let batch = std::mem::take(batch);
            let alive = sender.as_ref().is_some_and(|sender| sender.send(batch).is_ok());
            if !alive || *passed >= trace.steps {
                (*sender, *waiting) = (None, None);
            }
        }
    }
    counts
}

/// Compares the results of a bench with the expected results.
fn compare(
    block: Block, parameters: Parameters, seed: u64, mut bench: Bench, batches: &Receiver<Batch>,
) -> Result<Checked, HwError> {
    let words = record::words(parameters);
    let mut steps = 0_u64;
    let mut cycles = 0_u64;
    let mut latency = None;
    for batch in batches {
        // The very first step enters alone, to measure the latency.
        let first = latency.map_or(words, |_| 0);
        let (alone, mut results) = bench.run(&batch.steps[..first])?;
        let latency = *latency.get_or_insert(alone);
        let (took, others) = bench.run(&batch.steps[first..])?;
        results.extend(others);
        if results != batch.expected {
            return Err(HwError::Differs(difference(block, parameters, seed, steps, &batch, &results, words)));
        }
        let together = batch.count - first / words;
        let busy = if together == 0 { 0 } else { took + 1 - latency };
        if latency != block.latency() || (busy as usize != together && !block.has_contexts()) {
            let name = block.name();
            let message = format!("{name}: a step takes {latency} cycles, and {together} steps take {took} cycles");
            return Err(HwError::Differs(message));
        }
        steps += batch.count as u64;
        cycles += u64::from(busy) + u64::from(first > 0);
    }
    let interval_per_mille = (cycles * 1_000).div_ceil(steps.max(1));
    Ok(Checked { block, steps, latency: latency.unwrap_or_default(), interval_per_mille })
}

/// Describes the first difference in a batch. `before` is the index in the trace of the batch's first step.
fn difference(
    block: Block, parameters: Parameters, seed: u64, before: u64, batch: &Batch, results: &[u32], words: usize,
) -> String {
    let at = results.iter().zip(&batch.expected).position(|(result, expected)| result != expected).unwrap_or_default();
    let step = at / words;
    let word = at % words;
    let inputs: Vec<String> = batch.steps[step * words..(step + 1) * words]
        .iter()
        .enumerate()
        .filter(|(_, value)| **value != 0)
        .map(|(word, value)| format!("{word}: {value:#x}"))
        .collect();
    format!(
        "{}: in step {} of seed {seed}, {} is {:#x} in hardware and {:#x} in the model; words of the step: {}",
        block.name(),
        before + step as u64,
        record::name(block, parameters, word),
        results[at],
        batch.expected[at],
        inputs.join(", ")
    )
}
