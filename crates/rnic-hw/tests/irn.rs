//! Compares IRN's blocks in Verilog with the transport core. Without Verilator the tests are skipped, with a message.

use rnic_hw::irn::{Block, Coverage, Logic, Mutant, Parameters, Trace, check, compare_logics, mutants, survives};
use rnic_hw::tools::Tool;

/// Whether Verilator and its compiler are installed; prints a message if not.
fn verilator() -> bool {
    let missing = [Tool::Verilator, Tool::Compiler].into_iter().find_map(|tool| tool.find().err());
    if let Some(error) = &missing {
        eprintln!("skipped: {error}");
    }
    missing.is_none()
}

fn seen(coverage: &Coverage, what: &str) -> u64 {
    coverage.0.iter().find(|(name, _)| *name == what).map_or(0, |(_, count)| *count)
}

/// Every block has the same results as the core, with the BDP cap of the paper and with other caps, and the trace
/// contains every kind of step.
#[test]
fn the_blocks_follow_the_core() {
    if !verilator() {
        return;
    }
    for (cap, steps) in [(111, 100_000), (1, 10_000), (300, 20_000)] {
        let parameters = Parameters { cap, logic: Logic::Core };
        let (checked, coverage) =
            check(parameters, &Block::ALL, Trace::new(steps, 1), None).unwrap_or_else(|e| panic!("{e}"));
        for (block, checked) in Block::ALL.into_iter().zip(&checked) {
            assert_eq!((checked.block, checked.latency), (block, block.latency()));
            assert!(block.has_contexts() || checked.interval_per_mille == 1_000, "a step in every cycle: {checked:?}");
            assert!(checked.steps >= steps);
        }
        if cap == 111 {
            let rare: Vec<_> = coverage.0.iter().filter(|(_, count)| *count < 5).collect();
            assert!(rare.is_empty(), "{rare:?}");
            assert_eq!(coverage.0.len(), 29, "{:?}", coverage.0);
        }
        assert!(cap == 1 || seen(&coverage, "PSN wrap at the sender") > 0);
    }
}

/// The blocks with the published logic do what the model of this logic does.
#[test]
fn the_blocks_follow_the_published_logic() {
    if !verilator() {
        return;
    }
    let parameters = Parameters { logic: Logic::Published, ..Parameters::default() };
    let blocks = [Block::TxFree, Block::ReceiveAck, Block::Timeout, Block::Senders];
    let (_, coverage) = check(parameters, &blocks, Trace::new(50_000, 2), None).unwrap_or_else(|e| panic!("{e}"));
    assert!(seen(&coverage, "timer extended") > 5);
}

/// Operations of one queue pair wait for each other, and still have the core's results.
#[test]
fn one_queue_pair_waits_for_itself() {
    if !verilator() {
        return;
    }
    let trace = Trace { queue_pairs: 1, ..Trace::new(5_000, 4) };
    let (checked, _) = check(Parameters::default(), &[Block::Senders, Block::Receivers], trace, None).unwrap();
    let intervals: Vec<u64> = checked.iter().map(|checked| checked.interval_per_mille.div_ceil(100)).collect();
    assert_eq!(intervals, [70, 70], "seven cycles, but for the last steps of batches: {checked:?}");
}

/// Changes that no comparison can detect, because they change no output of a block: (block, line, changed text).
///
/// The packet at distance `below` is the highest selectively acknowledged one, so the search never finds it.
const EQUIVALENT: [(Block, usize, &str); 1] = [(Block::TxFree, 144, " < ")];

fn is_equivalent(mutant: &Mutant) -> bool {
    EQUIVALENT.contains(&(mutant.block, mutant.change.line, mutant.change.from))
}

/// A flipped condition in each block is noticed.
#[test]
fn a_flipped_condition_in_each_block_is_noticed() {
    if !verilator() {
        return;
    }
    for block in Block::PAPER {
        let candidates = mutants(block);
        let flipped: Vec<_> =
            candidates.iter().filter(|mutant| mutant.change.from == " && " && !is_equivalent(mutant)).collect();
        let mutant = flipped[flipped.len() / 2];
        assert!(
            !survives(mutant, Parameters::default(), Trace::new(20_000, 3)).unwrap_or_else(|e| panic!("{e}")),
            "{mutant:?}"
        );
    }
}

/// Every change of every condition, operator and constant is detected, except changes without an effect.
#[test]
#[ignore = "compiles more than a hundred models: about ten minutes"]
fn every_mutant_is_noticed() {
    assert!(verilator(), "this test needs Verilator");
    let mut survivors = Vec::new();
    let mut count = 0;
    for block in Block::PAPER {
        for mutant in mutants(block) {
            count += 1;
            let noticed = [Logic::Core, Logic::Published].into_iter().any(|logic| {
                let parameters = Parameters { logic, ..Parameters::default() };
                !survives(&mutant, parameters, Trace::new(40_000, 3)).unwrap_or_else(|e| panic!("{mutant:?}: {e}"))
            });
            if noticed == is_equivalent(&mutant) {
                eprintln!("noticed {noticed}: {mutant:?}");
                survivors.push(mutant);
            }
        }
    }
    eprintln!("{count} mutants, {} of them equivalent", EQUIVALENT.len());
    assert!(survivors.is_empty(), "{survivors:?}");
}

/// The retransmissions of the two logics after one lost packet, one lost NACK and one late packet: the core retransmits
/// little more than the lost packets, the published logic whole windows.
#[test]
fn the_logics_differ_where_the_documentation_says() {
    let rows = compare_logics();
    let counts: Vec<(u32, u32, u32)> = rows.iter().map(|row| (row.lost, row.core, row.published)).collect();
    assert_eq!(counts, [(1, 1, 1), (1, 2, 101), (0, 1, 100)], "{rows:?}");
}
