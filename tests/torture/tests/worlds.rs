//! Runs a few dozen worlds of each kind; the command `rnic-torture` runs more.

use rnic_torture::{Plan, Report, World};

fn run(seed: u64, steps: u64) -> Report {
    World::new(Plan { seed, steps }).run().unwrap_or_else(|what| panic!("{what}"))
}

#[test]
fn what_comes_back_equals_the_model() {
    let sum = (1..=60).map(|seed| run(seed, 1_500)).fold(Report::default(), Report::plus);
    assert_eq!(sum.posted, 60 * 1_500);
    // Each kind of fault must have occurred; otherwise the test would show nothing.
    let troubles =
        [sum.lost, sum.retransmitted, sum.not_ready, sum.failed, sum.flushed, sum.notified, sum.drained, sum.received];
    assert!(troubles.iter().all(|count| *count > 100) && sum.killed > 10, "{sum:?}");
}

#[test]
fn the_same_seed_is_the_same_world() {
    for seed in [7, 8, 9] {
        assert_eq!(run(seed, 3_000), run(seed, 3_000));
    }
    assert_ne!(run(7, 3_000).digest, run(8, 3_000).digest);
}

/// Runs worlds that once failed, so that the errors do not return.
#[test]
fn what_was_wrong_once() {
    // In this world the limit event of a shared receive queue was armed again before the earlier event was polled.
    run(69, 2_000);
    // In this world no packet was in flight, and completions waited in a queue that was not polled.
    run(152, 2_000);
}
