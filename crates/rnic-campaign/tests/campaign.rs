//! Campaigns: manifests, shards, journals, failures, and the folder of results.

use rnic_campaign::campaign::{
    CampaignError, CampaignListener, Folder, Limits, METRICS, Manifest, Place, Progress, RunState, Shard, Until,
    execute, rows, run_campaign, status, used,
};
use rnic_campaign::{Fingerprint, Ignore, Threads};
use rnic_scenario::{from_str, read_with};
use rnic_sim::Catalogue;
use rnic_spec::{RunEvent, RunSpec};
use rnic_transport::congestion::{AckSample, CongestionControl, Parameter, Settings};
use rnic_transport::{BitRate, FlowConfig, Time};
use std::collections::{BTreeMap, BTreeSet};
use std::ops::ControlFlow;
use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

const TINY: &str = r#"
    [fabric]
    topology = "single-switch"
    hosts = 4
    rate = "40 Gbps"
    delay = "1 us"
    [traffic]
    pattern = "poisson"
    load = 0.5
    sizes = "fixed 10 KB"
    flows = 30
    [[run]]
    name = "RoCE + PFC"
    transport = "roce"
    pfc = true
    [[run]]
    name = "IRN"
    transport = "irn"
    [[run]]
    name = "late"
    transport = "irn"
    set = { "limits.max_time" = "5 us" }
"#;

fn runs() -> Vec<RunSpec> {
    from_str(TINY, "tiny.toml", Path::new(""), &[], Some(7)).unwrap().runs
}

fn manifest(name: &str, points: usize, seeds: u32, until: Option<Until>) -> Arc<Manifest> {
    Arc::new(Manifest::new(name, runs().into_iter().take(points).collect(), seeds, until, false).unwrap())
}

fn place<'p>(folder: &'p Folder, manifest: &'p Manifest) -> Place<'p> {
    Place { folder, campaign: &manifest.name, engine: "threads", records: manifest.records, program: "" }
}

fn simulate(manifest: &Arc<Manifest>, folder: &Folder, limits: Limits) -> Progress {
    let executor = Threads::new(&Catalogue::standard(), 2);
    run_campaign(manifest, &place(folder, manifest), limits, &executor, &Ignore).unwrap()
}

fn until() -> Until {
    Until { max_seeds: 12, .."slowdown.mean ± 3 %".parse().unwrap() }
}

/// A campaign simulates the first seed of all points before the second seed of any point.
#[test]
fn an_early_look_shows_all_points() {
    struct Order(std::sync::Mutex<Vec<(String, u64)>>);
    impl CampaignListener for Order {
        fn started(&self, _key: &str, run: &RunSpec) {
            self.0.lock().unwrap().push((run.name.clone(), run.seed));
        }
    }
    let manifest = manifest("early", 2, 3, None);
    let folder = tempfile::tempdir().unwrap();
    let (folder, order) = (Folder::at(folder.path()), Order(Default::default()));
    let executor = Threads::new(&Catalogue::standard(), 1);
    run_campaign(&manifest, &place(&folder, &manifest), Limits::default(), &executor, &order).unwrap();
    let names = ["RoCE + PFC", "IRN"];
    let expected: Vec<_> = (7..10).flat_map(|seed| names.map(|name| (name.to_string(), seed))).collect();
    assert_eq!(order.0.into_inner().unwrap(), expected);
}

#[test]
fn shards_are_a_partition_of_the_campaign_and_give_the_same_results() {
    for until in [None, Some(until())] {
        let manifest = manifest("shards", 2, 3, until);
        let temporary = tempfile::tempdir().unwrap();
        let (whole, parts) = (Folder::at(&temporary.path().join("whole")), Folder::at(&temporary.path().join("parts")));
        let all = simulate(&manifest, &whole, Limits::default());
        assert_eq!((all.done, all.found, all.failed), (all.wanted, 0, 0));
        let mut done = 0;
        for number in 1..=3 {
            let limits = Limits { shard: Shard { number, of: 3 }, ..Limits::default() };
            let progress = simulate(&manifest, &parts, limits);
            assert_eq!(progress.found, 0, "no run is in two shards");
            done += progress.done;
        }
        assert_eq!(done, all.done);
        let (a, b) = (status(&manifest, &whole, ""), status(&manifest, &parts, ""));
        assert_eq!((a.missing, a.digest), (0, b.digest));
        assert!(rows(&manifest, &whole, "", false).eq(rows(&manifest, &parts, "", false)));
        assert_eq!(simulate(&manifest, &parts, Limits::default()).found, all.done);
    }
}

#[test]
fn a_failed_run_is_a_result_and_is_repeated_only_on_demand() {
    let temporary = tempfile::tempdir().unwrap();
    let (folder, manifest) = (Folder::at(temporary.path()), manifest("fails", 3, 1, None));
    let progress = simulate(&manifest, &folder, Limits::default());
    assert_eq!((progress.done, progress.failed), (3, 1));
    let state = status(&manifest, &folder, "");
    assert_eq!((state.completed, state.missing, state.failures.len()), (2, 0, 1));
    assert_eq!((state.failures[0].run.as_str(), state.failures[0].state), ("late", RunState::Failed));
    assert_eq!(simulate(&manifest, &folder, Limits::default()).found, 3);
    let again = simulate(&manifest, &folder, Limits { retry_failed: true, ..Limits::default() });
    assert_eq!((again.found, again.done, again.failed), (2, 3, 1));
}

/// The journal of a worker that was killed while it executed the run `key`.
fn killed(folder: &Folder, number: u32, key: &str) {
    std::fs::create_dir_all(folder.workers()).unwrap();
    let lines = format!(
        "{{\"worker\":{{\"host\":\"h\",\"pid\":1,\"engine\":\"threads\"}}}}\n\
         {{\"start\":{{\"key\":\"{key}\",\"run\":\"IRN\",\"seed\":7,\"at_s\":1.0}}}}\n{{\"end\":{{\"key\":\"{}",
        &key[..5]
    );
    std::fs::write(folder.workers().join(format!("h-1-threads-{number}.jsonl")), lines).unwrap();
}

#[test]
fn a_run_whose_workers_are_killed_counts_as_lost_after_the_retries() {
    let temporary = tempfile::tempdir().unwrap();
    let (folder, manifest) = (Folder::at(temporary.path()), manifest("lost", 2, 1, None));
    folder.register(&manifest, false).unwrap();
    let key = Fingerprint::of(&manifest.runs[1], "").key();
    let limits = Limits { retries: 1, ..Limits::default() };
    killed(&folder, 0, &key);
    assert_eq!(folder.lost(), BTreeMap::from([(key.clone(), 1)]));
    killed(&folder, 1, &key);
    let progress = simulate(&manifest, &folder, limits);
    assert_eq!((progress.done, progress.failed), (2, 1));
    let state = status(&manifest, &folder, "");
    assert_eq!(state.failures[0].state, RunState::Lost);
    assert!(state.failures[0].reason.starts_with("2 workers were killed"), "{}", state.failures[0].reason);
    assert_eq!(state.workers.iter().filter(|worker| !worker.is_alive).count(), 2);
    // Its journals are removed, because the run has a result now; those of this process live.
    let removed = folder.clean(&used(&folder, &Catalogue::standard().vocabulary(), "").unwrap(), false).unwrap();
    assert_eq!((removed.unused, removed.damaged, removed.journals), (0, 0, 2));
    let again = simulate(&manifest, &folder, Limits { retry_failed: true, ..limits });
    assert_eq!((again.done, again.failed), (2, 0));
}

/// A congestion control with an error in its code.
#[derive(Clone, Debug)]
struct Panics;

impl CongestionControl for Panics {
    type Params = ();
    const NAME: &'static str = "panics";
    const ABOUT: &'static str = "panics at the first ACK";
    const PARAMETERS: &'static [Parameter] = &[];

    fn params(_settings: &Settings, _flow: &FlowConfig) -> Result<(), String> {
        Ok(())
    }
    fn new((): &(), _flow: &FlowConfig, _now: Time) -> Panics {
        Panics
    }
    fn on_ack(&mut self, (): &(), _sample: &AckSample) {
        panic!("an ACK that was not expected");
    }
    fn rate(&self) -> BitRate {
        BitRate::from_gbps(1)
    }
    fn window(&self) -> u32 {
        u32::MAX
    }
}

#[test]
fn a_panic_is_the_failure_of_its_run_alone() {
    let catalogue = Catalogue::standard().with::<Panics>();
    let set = [("run.IRN.cc".to_string(), "panics".to_string())];
    let origin = rnic_scenario::Origin::Text { text: TINY, name: "tiny.toml", folder: Path::new("") };
    let runs = read_with(&catalogue.vocabulary(), &origin, &set, None).unwrap().runs;
    let temporary = tempfile::tempdir().unwrap();
    let folder = Folder::at(temporary.path());
    let place = Place { folder: &folder, campaign: "panics", engine: "threads", records: false, program: "panics" };
    let list: Vec<&RunSpec> = runs.iter().collect();
    execute(&place, &list, &BTreeMap::new(), &Threads::new(&catalogue, 1), &Ignore).unwrap();
    let result = |run: &RunSpec| folder.result(&Fingerprint::of(run, "panics")).unwrap();
    let states: Vec<RunState> = runs.iter().map(|run| result(run).state).collect();
    assert_eq!(states, [RunState::Completed, RunState::Failed, RunState::Failed]);
    assert!(result(&runs[1]).failure.ends_with("an ACK that was not expected"), "{}", result(&runs[1]).failure);
}

/// Ends the campaign during its second run.
struct Stop(AtomicUsize);

impl CampaignListener for Stop {
    fn event(&self, _key: &str, event: &RunEvent) -> ControlFlow<()> {
        let before = self.0.fetch_add(usize::from(matches!(event, RunEvent::Started { .. })), Ordering::Relaxed);
        if before >= 2 { ControlFlow::Break(()) } else { ControlFlow::Continue(()) }
    }
}

#[test]
fn an_interrupted_run_leaves_no_result_and_is_not_lost() {
    let temporary = tempfile::tempdir().unwrap();
    let folder = Folder::at(temporary.path());
    // The second run is so long that it can be interrupted.
    let long = TINY.replace("name = \"IRN\"", "name = \"IRN\"\n    set = { \"traffic.flows\" = 5_000_000 }");
    let runs = from_str(&long, "long.toml", Path::new(""), &[], None).unwrap().runs;
    let manifest = Arc::new(Manifest::new("stop", runs, 1, None, false).unwrap());
    let executor = Threads::new(&Catalogue::standard(), 1);
    let stop = Stop(AtomicUsize::new(0));
    let progress = run_campaign(&manifest, &place(&folder, &manifest), Limits::default(), &executor, &stop).unwrap();
    assert_eq!((progress.done, progress.wanted), (1, 3));
    assert!(folder.lost().is_empty());
    assert_eq!(status(&manifest, &folder, "").missing, 2);
}

#[test]
fn a_folder_that_cannot_be_written_is_an_error() {
    let temporary = tempfile::tempdir().unwrap();
    let path = temporary.path().join("file");
    std::fs::write(&path, "").unwrap();
    let (folder, manifest) = (Folder::at(&path), manifest("full", 1, 1, None));
    let executor = Threads::new(&Catalogue::standard(), 1);
    let error = run_campaign(&manifest, &place(&folder, &manifest), Limits::default(), &executor, &Ignore).unwrap_err();
    assert!(error.to_string().starts_with("cannot store a result in `"), "{error}");
    assert!(matches!(folder.register(&manifest, false), Err(CampaignError::Io { .. })));
}

#[test]
fn every_metric_of_a_condition_exists() {
    let incast =
        TINY.replace("pattern = \"poisson\"", "pattern = \"incast\"\ntotal = \"60 KB\"\nsenders = 3\nrepeats = 3");
    let lines =
        incast.lines().filter(|line| !["load", "sizes", "flows"].iter().any(|key| line.trim().starts_with(key)));
    let incast: String = lines.map(|line| format!("{line}\n")).collect();
    let runs = from_str(&incast, "incast.toml", Path::new(""), &[], None).unwrap().runs;
    let manifest = Arc::new(Manifest::new("metrics", runs[..1].to_vec(), 1, None, false).unwrap());
    let temporary = tempfile::tempdir().unwrap();
    let folder = Folder::at(temporary.path());
    simulate(&manifest, &folder, Limits::default());
    let result = folder.result(&Fingerprint::of(&manifest.runs[0], "")).unwrap();
    let missing: BTreeSet<&str> = METRICS.into_iter().filter(|metric| result.metric(metric).is_none()).collect();
    assert!(missing.is_empty(), "{missing:?} in {}", result.summary);
}
