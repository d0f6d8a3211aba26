//! One run on several ranks (threads of this process with channels between them): the output equals the output of one
//! process, and what cannot run on ranks is refused.

use crate::common::read_scenario;
use rnic_fabric::{RankGroup, Ranks, local_ranks};
use rnic_sim::Catalogue;
use rnic_sim::resolve::{Resolved, resolve};
use rnic_sim::run::{RankEfficiency, RankReport, Sharing, check_ranks, simulate_run_shared};
use rnic_spec::{RunOutput, RunSpec, RunStatus};
use std::path::Path;

const FABRIC: &str = "topology = \"fat-tree\"\nk = 4\nrate = \"40 Gbps\"\ndelay = \"1 us\"\n";
const LOAD: &str = "pattern = \"poisson\"\nload = 0.7\nsizes = \"irn-heavy-tailed\"\nflows = 150\n";
const COLLECTIVE: &str = "pattern = \"collective\"\noperation = \"all-reduce\"\nsize = \"100 KB\"\n";
const CONNECTIONS: &str =
    "pattern = \"pairs\"\npairs = 20\nsizes = \"uniform 1 B - 60 KB\"\nmessages = 6\npersistent_connections = true\n";

fn spec(fabric: &str, traffic: &str, rest: &str, run: &str) -> RunSpec {
    let text = format!("[fabric]\n{FABRIC}{fabric}[traffic]\n{traffic}{rest}[[run]]\nname = \"r\"\n{run}\n");
    let folder = Path::new(env!("CARGO_MANIFEST_DIR"));
    read_scenario(&text, folder).unwrap_or_else(|error| panic!("{error}\n{text}")).runs.remove(0)
}

fn set_up(spec: &RunSpec) -> Resolved {
    resolve(&Catalogue::standard(), spec).unwrap()
}

/// The outputs of all ranks, and the reports of rank 0.
fn on_ranks(spec: &RunSpec, ranks: Vec<Box<dyn Ranks>>, threads: usize) -> (Vec<RunOutput>, Vec<RankReport>) {
    let (catalogue, resolved) = (Catalogue::standard(), set_up(spec));
    std::thread::scope(|scope| {
        let rank = |ranks| {
            let (catalogue, resolved) = (&catalogue, &resolved);
            scope.spawn(move || {
                let sharing = Sharing::among(threads).on_ranks(RankGroup::new(ranks));
                let output = simulate_run_shared(catalogue, spec, resolved, &sharing);
                (output, sharing.reports())
            })
        };
        let threads: Vec<_> = ranks.into_iter().map(rank).collect();
        let (outputs, mut reports): (Vec<_>, Vec<_>) = threads.into_iter().map(|thread| thread.join().unwrap()).unzip();
        (outputs, reports.swap_remove(0))
    })
}

#[test]
fn the_output_is_that_of_one_process() {
    let watch = "[watch]\ninterval = \"5 us\"\nqueues = \"all\"\nlinks = \"all\"\nflows = true\n";
    let storm = "loss = 0.001\nstorm = [{ host = \"h1\", start = \"20 us\", duration = \"60 us\" }]\n";
    let mesh = "[[fabric.mesh]]\nname = \"probes\"\npairs = 20\ninterval = \"10 us\"\n";
    let cases = [
        spec(storm, LOAD, watch, "transport = \"roce\"\npfc = true\ncc = \"dcqcn\""),
        spec(mesh, LOAD, "", "transport = \"irn\""),
        spec("", CONNECTIONS, watch, "transport = \"irn\"\ncc = \"hpcc\""),
        spec("loss = 0.002\n", CONNECTIONS, "", "transport = \"roce\""),
        spec(
            "[fabric.switch]\nqueueing = \"output\"\nbuffer = \"9 KB\"\ntrim = true\n",
            LOAD,
            watch,
            "transport = \"ndp\"",
        ),
        #[cfg(feature = "p4")]
        spec("", LOAD, "", "transport = \"p4:../../p4/hpcc.p4\""),
        spec("", LOAD, "[limits]\nduration = \"60 us\"\n", "transport = \"roce\"\npfc = true"),
    ];
    for spec in &cases {
        let alone = simulate_run_shared(&Catalogue::standard(), spec, &set_up(spec), &Sharing::among(1));
        assert_eq!(alone.status, RunStatus::Completed);
        for ranks in 1..=4 {
            for threads in [1, 2] {
                let (outputs, reports) = on_ranks(spec, local_ranks(ranks), threads);
                assert_eq!(outputs[0].totals, alone.totals, "{ranks} ranks of {threads} threads: {spec:?}");
                assert!(outputs[0] == alone, "{ranks} ranks of {threads} threads: {spec:?}");
                assert!(outputs[1..].iter().all(|output| output.flows.is_empty() && output.ports.is_empty()));
                // Each host is on one rank, and each rank has some.
                assert_eq!((reports.len(), reports.iter().map(|report| report.hosts).sum::<u64>()), (ranks, 16));
                assert!(reports.iter().all(|report| report.hosts > 0 && report.hops == alone.totals.hops));
                let efficiency = RankEfficiency::of(&reports).unwrap();
                assert!(efficiency.predicted > 0.0 && efficiency.predicted <= 1.0 && efficiency.reached > 0.0);
            }
        }
    }
}

#[test]
fn a_lost_rank_ends_the_run_with_a_reason() {
    let spec = spec("", LOAD, "", "transport = \"irn\"");
    let mut ranks = local_ranks(3);
    drop(ranks.remove(1));
    for output in on_ranks(&spec, ranks, 1).0 {
        let RunStatus::Failed(reason) = output.status else { panic!("{:?}", output.status) };
        assert!(reason.starts_with("rank ") && reason.ends_with(" has ended before the run"), "{reason}");
    }
}

#[test]
fn what_needs_the_whole_fabric_is_refused() {
    let watchdog = "watchdog = {}\n";
    let pauses = "[watch]\ninterval = \"5 us\"\npauses = true\n";
    let cases = [
        (spec("", LOAD, pauses, "transport = \"roce\"\npfc = true"), "`[watch] pauses` needs"),
        (spec(watchdog, LOAD, "", "transport = \"roce\"\npfc = true"), "`[fabric.watchdog]` needs"),
        (spec("", LOAD, "", "transport = \"rogue\""), "a transport in host software opens"),
        (spec("", COLLECTIVE, "", "transport = \"roce\""), "collective operations send messages"),
    ];
    for (spec, beginning) in cases {
        let why = check_ranks(&set_up(&spec)).unwrap_err();
        assert!(why.starts_with(beginning) && why.ends_with("; this run needs one process, without mpirun"), "{why}");
        let (outputs, _) = on_ranks(&spec, local_ranks(2), 1);
        assert!(outputs.iter().all(|output| output.status == RunStatus::Failed(why.clone())));
    }
}
