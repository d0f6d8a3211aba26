//! Tests of whole studies: their scenarios, rows and figures.

use super::*;
use jobs::execute;
use measurement::operations::{self, Operations};
use rnic_campaign::{Ignore, Store, Threads};
use rnic_sim::Catalogue;
use std::collections::BTreeSet;
use std::path::Path;

fn request(names: &[&str], set: &[(&str, &str)]) -> Request {
    Request {
        experiments: names.iter().map(ToString::to_string).collect(),
        quick: true,
        seeds: Some(1),
        set: set.iter().map(|(key, value)| (key.to_string(), value.to_string())).collect(),
    }
}

/// A simulation result that has a value for every quantity.
fn anything() -> Measurement {
    let flows =
        measurement::Flows { count: 1, slowdown: 2.0, fct_us: 3.0, fct_p99_us: 4.0, fct_p999_us: 5.0, fct_max_us: 6.0 };
    Measurement {
        flows: Some(flows),
        traffic: ["TCP", "background", "permutation"].map(|name| (name.to_string(), flows)).into(),
        tail_us: vec![1.0; measurement::TAIL_PER_MILLE.len()],
        requests_us: vec![5.0],
        long_us: Some(900.0),
        drop_rate: Some(0.01),
        retransmission_rate: Some(0.01),
        each_gbps: vec![9.0; 8],
        goodput: ["", "users", "recovery"]
            .map(|name| (name.to_string(), measurement::Speeds { p50: 3.0, p10: 1.0, mean: 3.0, ..Default::default() }))
            .into(),
        queues: [(
            "s0:h0".to_string(),
            measurement::Queue { p95: 5_000.0, averaged_p95: Some(4_000.0), ..Default::default() },
        )]
        .into(),
        pauses: 7,
        pooled_gbps: Some(2.0),
        fluid: Some(measurement::Fluid {
            rate: 1.0,
            queue: Some(1.0),
            packets_queue_min: Some(1.0),
            at_us: vec![1.0, 2.0],
            packets_gbps: vec![1.0; 2],
            model_gbps: vec![1.0; 2],
            ..Default::default()
        }),
        each_us: (18..=38).map(|packets| (packets * 1024, 9.0)).collect(),
        millions_per_s: Some(380.0),
        queue_course: Some(measurement::QueueCourse {
            at_us: vec![0.0, 1.0],
            bytes: vec![5, 6],
            bursts: vec![[0.0, 1.0], [2.0, 3.0]],
        }),
        course: Some(measurement::Course {
            at_us: (1..=450).map(|ms| f64::from(ms) * 1_000.0).collect(),
            gbps: vec![vec![3.0; 450]; 5],
        }),
        operations: operations(),
        programs: [(
            "collective".to_string(),
            measurement::program::Program {
                time_us: 100.0,
                busbw: Some(40.0),
                parts: [("excess".to_string(), 20.0)].into(),
            },
        )]
        .into(),
        cpu_us: [40.0, 60.0],
        sim_time_us: 1_000.0,
        ..Measurement::default()
    }
}

/// The metrics of a run about the operation of a network.
fn operations() -> Operations {
    let storm = |by_nic| operations::Storm { by_nic, detected_ms: 3.0, dropped: 7 };
    let rtt = operations::Rtt { probes: 9, unanswered: 1, p50: 2.0, p99: 3.0, p999: 4.0, worst_p99: 5.0 };
    Operations {
        delivered_of: BTreeMap::from([("RDMA".to_string(), 1_000)]),
        dropped_in: vec![0; 2],
        data: 10,
        retransmitted: 3,
        dropped: 2,
        delivered_bytes: 9_000,
        finished_bytes: 8_000,
        finished: vec![1; 100],
        busiest_host: 0.9,
        hosts: 4,
        blocked_hosts: 1,
        cycle_ports: 4,
        storms: vec![storm(true), storm(false)],
        meshes: ["probes", "RDMA", "TCP"].map(|name| (name.to_string(), rtt)).into(),
    }
}

#[test]
fn every_scenario_reads_and_every_row_and_figure_finds_its_runs() {
    for study in STUDIES {
        for quick in [false, true] {
            let plan = Plan::new(study, &Request { quick, ..Request::default() }).unwrap();
            assert_eq!(plan.experiments.len(), study.experiments.len());
            for planned in &plan.experiments {
                let name = planned.experiment.name;
                assert!(planned.jobs.as_ref().is_ok_and(|jobs| !jobs.is_empty()), "{name}: {:?}", planned.jobs);
            }
            let results = vec![anything(); plan.jobs.len()];
            for verdict in plan.conclude(&results) {
                let values = verdict.row.sample.as_ref();
                let name = &verdict.experiment;
                let metric = &verdict.row.metric;
                let seeds =
                    plan.experiments.iter().find(|e| e.experiment.name == *name).map_or(2, |e| e.seeds as usize);
                let min = if verdict.row.note.starts_with("one value over all seeds") { 1 } else { seeds.min(2) };
                assert!(values.is_ok_and(|values| values.len() >= min), "{name}: {metric}: {values:?}");
                assert!(!verdict.row.note.contains("no result"), "{name}: {metric}: {}", verdict.row.note);
            }
            for planned in &plan.experiments {
                let measured = plan.measured(planned, &results);
                for board in planned.experiment.charts.iter().map(|chart| chart.board(&measured)) {
                    assert_complete(planned.experiment.name, &board);
                }
            }
        }
    }
}

#[track_caller]
fn assert_complete(name: &str, board: &rnic_results::report::figure::Board) {
    use rnic_results::report::figure::Figure;
    for figure in board.figures() {
        match figure {
            Figure::Bars(bars) => {
                let all: Vec<_> = bars.groups.iter().flat_map(|group| &group.bars).collect();
                assert!(!all.is_empty() && all.iter().all(|bar| bar.value.is_some()), "{name}: {}", bars.title);
            }
            Figure::Spans(spans) => assert!(!spans.rows.is_empty(), "{name}: {}", spans.title),
            Figure::Lines(lines) => {
                let mut curves = lines.views.iter().flat_map(|view| &view.lines);
                assert!(curves.all(|line| line.points.len() >= 2), "{name}: {}", lines.title);
            }
        }
    }
}

#[test]
fn every_embedded_file_is_used_and_every_file_is_embedded() {
    for study in STUDIES {
        let names: BTreeSet<&str> = study.files.iter().map(|(name, _)| *name).collect();
        // The transports in P4 are in another folder, so their paths start with `../`.
        let own: BTreeSet<&str> = names.iter().copied().filter(|name| !name.starts_with("../")).collect();
        let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../scenarios").join(study.name);
        let on_disk: BTreeSet<String> = std::fs::read_dir(folder)
            .unwrap()
            .map(|entry| entry.unwrap().file_name().to_string_lossy().into_owned())
            .collect();
        assert_eq!(on_disk.iter().map(String::as_str).collect::<BTreeSet<_>>(), own);
        for source in study.experiments.iter().flat_map(|experiment| experiment.sources) {
            assert!(names.contains(source.file), "{}", source.file);
        }
    }
}

#[test]
fn experiments_share_simulations() {
    let plan = |names: &[&str]| Plan::new(&irn::STUDY, &request(names, &[])).unwrap();
    assert_eq!(plan(&["fig1"]).jobs.len(), 2);
    assert_eq!(plan(&["fig2"]).jobs.len(), 2);
    assert_eq!(plan(&["fig1", "fig2", "fig3"]).jobs.len(), 4);
    let both = plan(&["takeaways", "fig1", "fig8"]);
    assert_eq!(both.jobs.len(), 12);
    let names: Vec<&str> = both.experiments.iter().map(|planned| planned.experiment.name).collect();
    assert_eq!(names, ["fig1", "takeaways", "fig8"], "in the paper's order");
}

#[test]
fn the_error_of_an_unknown_experiment_names_the_most_similar_one() {
    let error = Plan::new(&irn::STUDY, &request(&["fig1", "fgi2"], &[])).unwrap_err();
    assert!(
        error.starts_with("irn has no experiment `fgi2` (did you mean `fig2`?); there are: fig1, fig2,"),
        "{error}"
    );
}

#[test]
fn an_unavailable_experiment_does_not_affect_the_others() {
    let plan = Plan::new(&irn::STUDY, &request(&["fig1", "fig11"], &[("run.iWARP.bdp_cap", "5")])).unwrap();
    let unavailable: Vec<bool> = plan.experiments.iter().map(|planned| planned.jobs.is_err()).collect();
    assert_eq!(unavailable, [true, true], "only iwarp.toml has such a run");
    let verdicts = plan.conclude(&[]);
    assert!(verdicts.iter().all(|v| v.outcome == Outcome::NoResult && v.row.note.starts_with("not available")));
}

/// Experiments without anything random have the same values for every seed.
#[test]
fn exact_experiments_do_not_depend_on_the_seed() {
    let mut rows = 0;
    for study in STUDIES.iter().filter(|study| !study.exact.is_empty()) {
        let request = Request { seeds: Some(2), set: Vec::new(), ..request(study.exact, &[]) };
        let plan = Plan::new(study, &request).unwrap();
        let folder = tempfile::tempdir().unwrap();
        let executor = Threads::new(&Catalogue::standard(), 2);
        let results = execute(&plan.jobs, &Store::at(folder.path()), &executor, false, &Ignore, &|_| {}).unwrap();
        let results: Vec<_> = results.into_iter().flatten().collect();
        for verdict in plan.conclude(&results) {
            let values = verdict.row.sample.unwrap_or_else(|why| panic!("{}: {why}", verdict.row.metric));
            assert!(values.iter().all(|value| *value == values[0]), "{}: {values:?}", verdict.row.metric);
            rows += 1;
        }
    }
    assert!(rows > 100, "{rows}");
}

#[test]
fn results_do_not_depend_on_the_number_of_threads() {
    let few = [("traffic.flows", "120"), ("traffic.warmup", "20"), ("fabric.k", "4")];
    let plan = Plan::new(&irn::STUDY, &Request { seeds: Some(2), ..request(&["fig2", "fig8"], &few) }).unwrap();
    let files = |threads: usize| {
        let folder = tempfile::tempdir().unwrap();
        let store = Store::at(&folder.path().join("runs"));
        let executor = Threads::new(&Catalogue::standard(), threads);
        let results = execute(&plan.jobs, &store, &executor, false, &Ignore, &|_| {}).unwrap();
        let results: Vec<_> = results.into_iter().flatten().collect();
        let paths = write_all(folder.path(), &plan, &results, &plan.conclude(&results)).unwrap();
        paths.iter().map(|path| std::fs::read_to_string(path).unwrap()).collect::<Vec<_>>()
    };
    let one = files(1);
    assert_eq!(one, files(2));
    assert_eq!(one[0].lines().count(), 11, "{}", one[0]);
    assert!(one[3].contains("A quick look, not the reproduction"));
}

#[test]
fn the_table_names_each_experiment_once_and_counts_outcomes() {
    let sample = |values: &[f64]| Ok(values.to_vec());
    let row = |claim, values: &[f64]| Row::new("average FCT", "worse", claim, verdict::Unit::Ratio, sample(values));
    let verdicts = [
        Verdict::of("fig1", false, row(verdict::Claim::Above(1.0), &[1.5, 1.6]).note("at 0.9")),
        Verdict::of("fig1", false, row(verdict::Claim::Above(1.0), &[1.5, 1.7])),
        Verdict::of("fig1", false, row(verdict::Claim::Above(1.0), &[1.58, 1.6])),
        Verdict::of("fig1", false, row(verdict::Claim::AtMost(1.0), &[1.5, 1.5])),
        Verdict::of("fig2", false, row(verdict::Claim::Open, &[1.0])),
        Verdict::of("fig2", false, Row { sample: Err("stuck".into()), ..row(verdict::Claim::Open, &[]) }),
    ];
    let text = table(&verdicts, 120);
    assert_eq!(text.matches("fig1").count(), 1, "{text}");
    for part in
        ["1.60 ± 1.27x", "1.59 ± 0.13x", "inconclusive", "(at 0.9)", "outside: same direction, larger", "(stuck)"]
    {
        assert!(text.contains(part), "{part}: {text}");
    }
    let tally = "1 inside, 1 outside (1 of these in the same direction), 2 inconclusive, \
                 1 without a stated number, 1 without a result";
    assert!(text.ends_with(&format!("{tally}\n")), "{text}");
    assert!(table(&verdicts, 0).lines().all(|line| line.chars().count() <= 80 || line.contains("1 inside")));
}

/// A file that is missing in the hash would make stored measurements stale without notice.
#[test]
fn the_hash_of_measurements_covers_their_code() {
    let hashed: Vec<&str> = include_str!(concat!(env!("OUT_DIR"), "/sources.txt")).lines().collect();
    for file in [
        "rnic-studies/src/measurement.rs",
        "rnic-studies/src/measurement/fluid.rs",
        "rnic-studies/src/measurement/operations.rs",
        "rnic-model/src/dcqcn.rs",
    ] {
        assert!(hashed.contains(&file), "{file}");
    }
    assert!(!hashed.contains(&"rnic-studies/src/irn.rs"), "claims are no part of a measurement");
}
