//! Runs a few dozen worlds of each kind; the command `rnic-torture` runs more.

use rnic_torture::{Packets, Plan, Report, World};

fn run(seed: u64, steps: u64) -> Report {
    run_with(seed, steps, Packets::Plain)
}

fn run_with(seed: u64, steps: u64, packets: Packets) -> Report {
    World::new(Plan { seed, steps, packets }).run().unwrap_or_else(|what| panic!("{packets:?}: {what}"))
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

/// Packets are sealed and opened, keys change on the way, and queue pairs are reset and connected again with new keys.
#[test]
fn protected_worlds_equal_the_model_and_an_attacker_changes_nothing() {
    let mut sum = Report::default();
    for seed in 1..=12 {
        let quiet = run_with(seed, 1_000, Packets::Protected);
        let attacked = run_with(seed, 1_000, Packets::Attacked);
        assert_eq!(Report { hostile: 0, ..attacked }, quiet, "seed {seed}");
        sum = sum.plus(attacked);
    }
    assert_eq!(sum.posted, 12 * 1_000);
    let Report { lost, forged, replayed, later_keys, failed, retransmitted, received, hostile, .. } = sum;
    assert!(failed > 20, "{sum:?}");
    let troubles = [lost, forged, replayed, later_keys, retransmitted, received, hostile];
    assert!(troubles.iter().all(|count| *count > 100), "{sum:?}");
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
