//! The output of a run is the same on any number of threads and with any partition of the fabric. Random scenarios
//! cover every transport, congestion control and switch, with samples, pause storms and random loss.

use crate::common::read_scenario;
use crate::common::transport_with;
use proptest::prelude::*;
use proptest::test_runner::{Config, RngAlgorithm, TestRng, TestRunner};
use rnic_fabric::{PartitionPlan, RankGroup, Topology, local_ranks};
use rnic_sim::Catalogue;
use rnic_sim::resolve::resolve;
use rnic_sim::run::{Sharing, check_ranks, simulate_run_shared};
use rnic_spec::RunOutput;
use rnic_spec::Scenario;
use std::cell::Cell;
use std::path::Path;

const TOPOLOGIES: [&str; 11] = [
    "topology = \"leaf-spine-core\"\npods = 2\nleaves_per_pod = 2\nspines_per_pod = 2\ncores_per_plane = 2\nhosts_per_leaf = 2",
    "topology = \"fat-tree\"\nk = 4",
    "topology = \"leaf-spine\"\nleaves = 3\nspines = 2\nhosts_per_leaf = 3\nuplink_delay = \"2 us\"",
    "topology = \"dumbbell\"\nleft = 4\nright = 3\nbottleneck_rate = \"10 Gbps\"",
    "topology = \"single-switch\"\nhosts = 6",
    "topology = \"leaf-spine\"\nleaves = 4\nspines = 2\nhosts_per_leaf = 2\npaths = \"spray\"\nloss = 0.002",
    "topology = \"leaf-spine\"\nleaves = 4\nspines = 3\nhosts_per_leaf = 2\npaths = \"adaptive\"",
    "topology = \"leaf-spine\"\nleaves = 4\nspines = 3\nhosts_per_leaf = 2\npaths = \"flowlet\"\nflowlet_gap = \"2 us\"",
    "topology = \"fat-tree\"\nk = 4\nloss = 0.001\nstorm = [{ host = \"h1\", start = \"20 us\", duration = \"60 us\" }]",
    "topology = \"leaf-spine\"\nleaves = 3\nspines = 2\nhosts_per_leaf = 2\nconvergence = \"30 us\"\nlocal_repair = \"5 us\"\n\
     link = [{ from = \"leaf0\", to = \"spine0\", down_at = \"15 us\", up_at = \"60 us\", flap_every = \"100 us\" }]",
    "topology = \"fat-tree\"\nk = 4\nconvergence = \"40 us\"\n\
     link = [{ from = \"edge0\", to = \"agg0\", down = true }, { from = \"h1\", to = \"edge0\", slow_rate = \"2 Gbps\", \
     slow_at = \"20 us\", slow_until = \"90 us\", down_at = \"30 us\", up_at = \"50 us\" }]",
];

const SWITCHES: [&str; 6] = [
    "buffer = \"100 KB\"",
    "buffer = \"120 KB\"\necn = { kmin = \"5 KB\", kmax = \"20 KB\", pmax = 0.5 }",
    "queueing = \"shared\"\nbuffer = \"900 KB\"",
    "queueing = \"output\"\nbuffer = \"12 KB\"",
    "queueing = \"output\"\nbuffer = \"12 KB\"\ntrim = true",
    "queueing = \"output\"\nbuffer = \"9 KB\"\ntrim = { return_to_sender = true }",
];

const TRAFFIC: [&str; 11] = [
    "pattern = \"list\"\nfile = \"tests/triggers.cm\"",
    "pattern = \"all-to-all\"\nsizes = \"fixed 20 KB\"\noutstanding = 2",
    "pattern = \"incast\"\nsenders = 4\ntotal = \"200 KB\"\nrepeats = 3\ninterval = \"completion\"\npersistent_connections = true",
    "pattern = \"poisson\"\nload = 0.8\nsizes = \"irn-heavy-tailed\"\nflows = 60",
    "pattern = \"poisson\"\nload = 0.6\nsizes = \"uniform 1 B - 60 KB\"\nflows = 120",
    "pattern = \"incast\"\nsenders = 5\ntotal = \"600 KB\"\nrepeats = 2",
    "pattern = \"incast\"\nsenders = 4\ntotal = \"200 KB\"\nrepeats = 3\ninterval = \"completion\"\nconnections = 2",
    "pattern = \"permutation\"\nsizes = \"uniform 1 B - 200 KB\"\nrepeats = 2\ninterval = \"50 us\"",
    "pattern = \"all-to-all\"\nsizes = \"fixed 9 KB\"\nrepeats = 1\ninterval = \"50 us\"",
    "pattern = \"pairs\"\npairs = 8\nsizes = \"uniform 1 B - 60 KB\"\nmessages = 5\nthink_time = \"1 us\"\npersistent_connections = true",
    "pattern = \"pairs\"\npairs = 8\nsizes = \"fixed 30 KB\"\nmessages = 4",
];

const LOOKS: [&str; 5] = [
    "",
    "",
    "[watch]\ninterval = \"3 us\"\nqueues = \"all\"\nflows = true",
    "[watch]\ninterval = \"1700 ns\"\nflows = true\npauses = true",
    "[watch]\ninterval = \"10 us\"\npauses = true",
];

/// The `[[run]]` keys of every transport alone, and of every congestion control with the transports that support it.
fn runs() -> Vec<String> {
    let mut runs: Vec<String> = [
        "transport = \"roce\"",
        "transport = \"roce\"\npfc = true",
        "transport = \"roce\"\npfc = true\ncontrol_priority = true",
        "transport = \"irn\"",
        "transport = \"irn\"\npfc = true",
        "transport = \"irn\"\npath_selection = \"reps\"\npaths = 9",
        "transport = \"roce\"\npath_selection = \"mixed\"",
        "transport = \"irn\"\nrecovery = \"go-back-n\"",
        "transport = \"iwarp\"\ndelayed_acks = true\nhandshake = true",
        "transport = \"iwarp\"\nrecovery = \"newreno\"",
        "transport = \"ndp\"",
        "transport = \"homa\"",
        "transport = \"homa-tr\"",
        "transport = \"hpcc\"",
        "transport = \"ndp\"\npfc = true",
        "transport = \"ndp\"\nmax_timeouts = 1\nrto_high = \"10 us\"",
        "transport = \"homa\"\nmax_timeouts = 1\nrto_high = \"10 us\"",
        "transport = \"p4:../../p4/window.p4\"",
        "transport = \"p4:../../p4/ndp.p4\"",
        "transport = \"p4:../../p4/hpcc.p4\"",
    ]
    .map(String::from)
    .into();
    runs.retain(|run: &String| cfg!(feature = "p4") || !run.contains("p4:"));
    for cc in rnic_spec::Vocabulary::standard().congestion_controls().iter().filter(|cc| !cc.host_only) {
        let (irn, roce) = (transport_with(cc, "irn"), transport_with(cc, "roce"));
        runs.push(format!("transport = \"{irn}\"\ncc = \"{}\"", cc.name));
        runs.push(format!("transport = \"{roce}\"\npfc = true\ncc = \"{}\"", cc.name));
    }
    runs
}

/// One random case: a scenario with one run, the partition of each node, and the number of threads.
#[derive(Clone, Debug)]
struct Case {
    text: String,
    /// Partition of each node: node i has the entry at i modulo the length. If the list is empty, the partitions are
    /// balanced.
    parts: Vec<u32>,
    threads: usize,
}

prop_compose! {
    fn case()(
        topology in prop::sample::select(TOPOLOGIES.to_vec()),
        switch in prop::sample::select(SWITCHES.to_vec()),
        traffic in prop::sample::select(TRAFFIC.to_vec()),
        looks in prop::sample::select(LOOKS.to_vec()),
        keys in prop::sample::select(runs()),
        duration in prop_oneof![3 => Just(None), 1 => (20u32..400).prop_map(Some)],
        (gbps, delay_ns, seed) in (5u64..60, 200u64..3_000, 1u64..1_000),
        parts in prop_oneof![2 => prop::collection::vec(0u32..6, 2..40), 1 => Just(Vec::new())],
        threads in 2usize..4,
    ) -> Case {
        let duration = duration.map_or(String::new(), |us| format!("duration = \"{us} us\"\n"));
        let (fabric, loops) = (format!("rate = \"{gbps} Gbps\"\ndelay = \"{delay_ns} ns\""), "stall_time = \"5 ms\"");
        let text = format!(
            "title = \"t\"\nseed = {seed}\n[fabric]\n{topology}\n{fabric}\n[fabric.switch]\n{switch}\n[traffic]\n{traffic}\n\
             {looks}\n[limits]\nmax_time = \"20 ms\"\n{loops}\n{duration}[[run]]\nname = \"r\"\n{keys}\n"
        );
        Case { text, parts, threads }
    }
}

fn load(text: &str) -> Result<Scenario, String> {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR"));
    read_scenario(text, folder)
}

fn output(scenario: &Scenario, sharing: &Sharing<'_>) -> Option<RunOutput> {
    let run = &scenario.runs[0];
    let resolved = resolve(&Catalogue::standard(), run).ok()?;
    Some(simulate_run_shared(&Catalogue::standard(), run, &resolved, sharing))
}

fn cut(case: &Case, topology: &Topology) -> PartitionPlan {
    if case.parts.is_empty() {
        return PartitionPlan::balanced(topology, case.threads * 2);
    }
    let parts: Vec<u32> = case.parts.iter().copied().cycle().take(topology.nodes() as usize).collect();
    PartitionPlan::of_nodes(topology, &parts)
}

fn same(case: &Case, seen: &dyn Fn(&RunOutput)) -> Result<(), String> {
    // Some random scenarios are invalid: keys may exclude each other, and buffers may be too small for the PFC
    // headroom.
    let Ok(scenario) = load(&case.text) else { return Ok(()) };
    let Some(alone) = output(&scenario, &Sharing::among(1)) else { return Ok(()) };
    let whole =
        cut(case, &Topology::build(&resolve(&Catalogue::standard(), &scenario.runs[0]).unwrap().fabric).unwrap());
    for threads in [1, case.threads] {
        let shared = output(&scenario, &Sharing::in_parts(threads, &|topology| cut(case, topology))).unwrap();
        if shared != alone {
            let flow = shared.flows.iter().zip(&alone.flows).find(|(a, b)| a != b);
            return Err(format!(
                "{} parts, {threads} threads: {:?} {:?}; alone {:?} {:?}; first flow: {flow:?}",
                whole.partitions(),
                shared.status,
                shared.totals,
                alone.status,
                alone.totals
            ));
        }
    }
    seen(&alone);
    Ok(())
}

/// The output on `count` ranks, which are threads of this process, with `threads` threads each.
fn on_ranks(scenario: &Scenario, case: &Case, count: usize, threads: usize) -> RunOutput {
    let rank = |ranks| {
        move || {
            let plan = |topology: &Topology| cut(case, topology);
            let sharing = Sharing::in_parts(threads, &plan).on_ranks(RankGroup::new(ranks));
            output(scenario, &sharing)
        }
    };
    std::thread::scope(|scope| {
        let threads: Vec<_> = local_ranks(count).into_iter().map(|ranks| scope.spawn(rank(ranks))).collect();
        let mut outputs = threads.into_iter().map(|thread| thread.join().unwrap().unwrap());
        let first = outputs.next().unwrap();
        assert!(outputs.all(|other| other.flows.is_empty() && other.ports.is_empty()), "rank 0 has the records");
        first
    })
}

fn same_on_ranks(case: &Case, count: usize, seen: &dyn Fn(&RunOutput)) -> Result<(), String> {
    let Ok(scenario) = load(&case.text) else { return Ok(()) };
    let Ok(resolved) = resolve(&Catalogue::standard(), &scenario.runs[0]) else { return Ok(()) };
    if check_ranks(&resolved).is_err() {
        return Ok(());
    }
    let alone = output(&scenario, &Sharing::among(1)).unwrap();
    let shared = on_ranks(&scenario, case, count, case.threads - 1);
    if shared != alone {
        let flow = shared.flows.iter().zip(&alone.flows).find(|(a, b)| a != b);
        return Err(format!(
            "{count} ranks: {:?} {:?} {:?}; alone {:?} {:?} {:?}; first flow: {flow:?}",
            shared.status, shared.totals, shared.warnings, alone.status, alone.totals, alone.warnings
        ));
    }
    seen(&alone);
    Ok(())
}

#[test]
fn no_rank_changes_a_result() {
    let cases = if cfg!(debug_assertions) { 500 } else { 5_000 };
    let config = Config { cases, failure_persistence: None, ..Config::default() };
    let rng = TestRng::from_seed(RngAlgorithm::ChaCha, &[12; 32]);
    let counts: [Cell<u32>; 7] = Default::default();
    let seen = |output: &RunOutput| {
        for (count, happened) in counts.iter().zip([
            true,
            output.totals.pause_frames > 0,
            output.totals.dropped > 0,
            output.totals.retransmitted > 0,
            output.samples.is_some(),
            output.truncated.is_some(),
            output.totals.aborted > 0,
        ]) {
            count.set(count.get() + u32::from(happened));
        }
    };
    let check = |(case, ranks): (Case, usize)| same_on_ranks(&case, ranks, &seen).map_err(TestCaseError::fail);
    TestRunner::new_with_rng(config, rng).run(&(case(), 1usize..5), check).unwrap();
    let counts = counts.map(|count| count.get());
    println!("runs, with pauses, drops, retransmissions, samples, truncated, aborted: {counts:?}");
    assert!(counts.iter().all(|count| *count > cases / 60), "the scenarios are worth it: {counts:?}");
}

#[test]
fn no_partition_changes_a_result() {
    // An optimised build tests many more cases: `cargo test --release -p rnic-sim --test tests partitions`.
    let cases = if cfg!(debug_assertions) { 1_500 } else { 20_000 };
    let config = Config { cases, failure_persistence: None, ..Config::default() };
    let rng = TestRng::from_seed(RngAlgorithm::ChaCha, &[11; 32]);
    let counts: [Cell<u32>; 9] = Default::default();
    let seen = |output: &RunOutput| {
        for (count, happened) in counts.iter().zip([
            true,
            output.totals.pause_frames > 0,
            output.totals.dropped > 0,
            output.totals.trimmed > 0,
            output.totals.marked > 0,
            output.totals.lost > 0,
            output.samples.is_some() || output.pauses.is_some(),
            output.truncated.is_some(),
            output.totals.aborted > 0,
        ]) {
            count.set(count.get() + u32::from(happened));
        }
    };
    let check = |case: Case| same(&case, &seen).map_err(TestCaseError::fail);
    TestRunner::new_with_rng(config, rng).run(&case(), check).unwrap();
    let counts = counts.map(|count| count.get());
    println!("runs, with pauses, drops, trimming, CE marks, lost frames, samples, truncated, aborted: {counts:?}");
    assert!(counts.iter().all(|count| *count > cases / 60), "the scenarios are worth it: {counts:?}");
}
