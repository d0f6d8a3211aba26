//! Path selection of senders and switches in whole runs.

use crate::common::*;
use rnic_sim::Catalogue;
use rnic_sim::resolve::resolve;
use rnic_spec::{RunOutput, RunStatus};

/// A permutation on 32 hosts below 4 leaves, with `fabric` in `[fabric]` and `switch` in `[fabric.switch]`.
fn permutation(fabric: &str, switch: &str) -> String {
    format!(
        "title = \"t\"\nseed = 3\n[fabric]\ntopology = \"leaf-spine\"\nleaves = 4\nspines = 8\nhosts_per_leaf = 8\n\
         rate = \"40 Gbps\"\ndelay = \"1 us\"\n{fabric}\n[fabric.switch]\n{switch}\n[traffic]\npattern = \"permutation\"\n\
         sizes = \"fixed 200 KB\"\nrepeats = 2\ninterval = \"100 us\""
    )
}

fn run(text: &str, transport: &str, keys: &str) -> RunOutput {
    let [output] = <[RunOutput; 1]>::try_from(outputs(&scenario(text, &[transport], keys).unwrap(), 1)).unwrap();
    assert!(matches!(output.status, RunStatus::Completed), "{:?}", output.status);
    assert_accounts(&output);
    output
}

/// Why the run cannot be set up.
fn refusal(text: &str, transport: &str, keys: &str) -> String {
    match scenario(text, &[transport], keys) {
        Err(error) => error,
        Ok(scenario) => resolve(&Catalogue::standard(), &scenario.runs[0]).err().unwrap().to_string(),
    }
}

const SPRAYS: [&str; 5] = ["oblivious", "bitmap", "reps", "mixed", "plb"];

#[test]
fn one_path_is_ecmp() {
    let text = permutation("", "buffer = \"60 KB\"");
    for transport in ["irn", "roce"] {
        let ecmp = run(&text, transport, "");
        assert_eq!(run(&text, transport, "path_selection = \"ecmp\""), ecmp);
        for name in SPRAYS {
            assert_eq!(run(&text, transport, &format!("path_selection = \"{name}\"\npaths = 1")), ecmp, "{name}");
        }
    }
}

/// Sprayed packets overtake each other, and no switch drops any. No packet is retransmitted: with IRN's cap the queues
/// stay short, and a lossless fabric has no limit of reordering.
#[test]
fn a_sprayed_permutation_without_drops_has_no_retransmissions() {
    let (shared, lossless) = ("queueing = \"shared\"\nbuffer = \"16 MB\"", "buffer = \"240 KB\"");
    for (transport, switch, pfc) in
        [("irn", shared, ""), ("irn", lossless, "pfc = true\n"), ("roce", lossless, "pfc = true\n")]
    {
        let text = permutation("", switch);
        let ecmp = run(&text, transport, pfc);
        for name in SPRAYS {
            let output = run(&text, transport, &format!("{pfc}path_selection = \"{name}\""));
            assert_eq!((output.totals.dropped, output.totals.retransmitted), (0, 0), "{transport} {name} {switch}");
            assert_ne!(output, ecmp);
        }
    }
}

/// Lost packets are retransmitted, and every flow finishes, also the ones whose retransmissions are lost.
#[test]
fn sprayed_flows_recover_from_losses() {
    let text = permutation("loss = 0.01", "queueing = \"shared\"\nbuffer = \"16 MB\"");
    for transport in ["irn", "roce"] {
        for name in SPRAYS {
            let totals = run(&text, transport, &format!("path_selection = \"{name}\"\npaths = 16")).totals;
            assert!(totals.lost > 100 && totals.retransmitted > 100, "{totals:?}");
        }
    }
}

#[test]
fn the_number_of_threads_does_not_matter() {
    for (fabric, keys) in [
        ("", "path_selection = \"reps\""),
        ("loss = 0.005", "path_selection = \"mixed\"\npaths = 9"),
        ("paths = \"adaptive\"", "reorder_tolerance = \"20 us\""),
        ("paths = \"flowlet\"\nflowlet_gap = \"1 us\"", "reorder_tolerance = \"20 us\"\ncc = \"dcqcn\""),
    ] {
        let scenario = scenario(&permutation(fabric, "buffer = \"60 KB\""), &["irn", "roce"], keys).unwrap();
        assert_eq!(outputs(&scenario, 1), outputs(&scenario, 2), "{fabric} {keys}");
    }
}

/// Adaptive routing and flowlets forward with every kind of buffer.
#[test]
fn switches_adapt_with_every_buffer() {
    for switch in
        ["buffer = \"60 KB\"", "queueing = \"shared\"\nbuffer = \"2 MB\"", "queueing = \"output\"\nbuffer = \"60 KB\""]
    {
        let ecmp = run(&permutation("", switch), "irn", "reorder_tolerance = \"20 us\"");
        for fabric in ["paths = \"adaptive\"", "paths = \"flowlet\"\nflowlet_gap = \"500 ns\""] {
            let output = run(&permutation(fabric, switch), "irn", "reorder_tolerance = \"20 us\"");
            assert_ne!(output, ecmp, "{fabric} {switch}");
        }
    }
}

#[test]
fn settings_without_effect_are_refused() {
    let text = permutation("", "buffer = \"60 KB\"");
    let has = |message: String, part: &str| assert!(message.contains(part), "{message}");
    has(refusal(&text, "irn", "paths = 8"), "`paths` has no effect");
    has(refusal(&text, "irn", "path_selection = \"reps\"\npaths = 257"), "256");
    has(refusal(&text, "irn", "path_selection = \"reps\"\npaths = 0"), "256");
    has(refusal(&text, "irn", "path_selection = \"rps\""), "reps");
    has(refusal(&text, "irn", "path_selection = \"bitmap\"\nreps_freeze = \"1 ms\""), "`reps_freeze` has no effect");
    has(refusal(&text, "roce", "path_selection = \"reps\"\ngo_back = \"0\""), "`go_back` has no effect");
    has(refusal(&text, "roce", "path_selection = \"reps\"\nacks = false"), "needs acknowledgements");
    has(refusal(&text, "irn", "path_selection = \"reps\"\nrecovery = \"go-back-n\""), "recovery = \"selective\"");
    has(refusal(&text, "irn", "path_selection = \"reps\"\nrecovery = \"no-sack\""), "recovery = \"selective\"");
    for transport in ["iwarp", "ndp"] {
        has(refusal(&text, transport, "path_selection = \"reps\""), "path_selection");
    }
    let spray = permutation("paths = \"spray\"", "buffer = \"60 KB\"");
    has(refusal(&spray, "irn", "path_selection = \"reps\""), "ignores what the sender chooses");
    has(
        refusal(&permutation("flowlet_gap = \"1 us\"", "buffer = \"60 KB\""), "irn", ""),
        "`flowlet_gap` has no effect",
    );
}
