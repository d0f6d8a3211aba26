//! Tests of the run cache: valid and refused records, and interrupted scenarios.

use super::*;
use crate::executor::{Ignore, RunListener, execute_remaining};
use parking_lot::Mutex;
use proptest::prelude::*;
use rnic_results::{FlowFormat, fixture, summarise, write_all};
use rnic_scenario::from_str;
use rnic_sim::Catalogue;
use rnic_spec::{
    BufferCycle, FlowSamples, LinkSamples, PauseRecords, PauseRoot, PauseRow, PauseSpan, PauseTreeRecord, QueueSamples,
    RootKind, Samples, TreePort, Victim,
};
use rnic_spec::{RunEvent, RunStatus, Truncation};
use rnic_transport::Time;
use std::fs;
use std::ops::ControlFlow;
use std::path::PathBuf;

/// A sweep of three transports at two loads, with two traffic sources; the runs sample queues, flows and pauses.
const SWEEP: &str = r#"
    [fabric]
    topology = "single-switch"
    hosts = 4
    rate = "40 Gbps"
    delay = "1 us"
    [[traffic]]
    pattern = "poisson"
    load = 0.5
    sizes = "fixed 10 KB"
    flows = 60
    [[traffic]]
    pattern = "incast"
    senders = 3
    total = "300 KB"
    repeats = 2
    [watch]
    interval = "5 us"
    queues = "all"
    flows = true
    pauses = true
    [sweep]
    "traffic.0.load" = [0.3, 0.6]
    [[run]]
    name = "RoCE + PFC"
    transport = "roce"
    pfc = true
    [[run]]
    name = "IRN"
    transport = "irn"
    [[run]]
    name = "NDP"
    transport = "ndp"
"#;

fn scenario(changes: &[(&str, &str)]) -> Scenario {
    let text = changes.iter().fold(SWEEP.to_string(), |text, (from, to)| {
        assert!(text.contains(from), "{from}");
        text.replace(from, to)
    });
    from_str(&text, "a.toml", Path::new(""), &[], None).unwrap()
}

fn cache(scenario: &Scenario, folder: &Path) -> RunCache {
    RunCache::of(scenario, &folder.join("unfinished"), "test")
}

/// A listener that stores the first `max` runs that finish, and lists all runs that finish.
struct Storing<'k> {
    cache: &'k RunCache,
    max: usize,
    finished: Mutex<Vec<usize>>,
}

impl<'k> Storing<'k> {
    fn of(cache: &'k RunCache, max: usize) -> Storing<'k> {
        Storing { cache, max, finished: Mutex::new(Vec::new()) }
    }
}

impl RunListener for Storing<'_> {
    fn finished(&self, run: usize, report: &RunRecord) -> ControlFlow<()> {
        let mut finished = self.finished.lock();
        if finished.len() < self.max {
            self.cache.put(run, report).unwrap();
        }
        finished.push(run);
        ControlFlow::Continue(())
    }
}

/// Executes the runs that have no record yet.
fn run_remaining(
    scenario: &Scenario, found: Vec<Option<RunRecord>>, listener: &dyn RunListener,
) -> Result<Vec<RunRecord>, (String, rnic_sim::resolve::SetupError)> {
    let records = execute_remaining(&Catalogue::standard(), scenario, found, 2, listener)?;
    Ok(records.into_iter().map(|record| record.expect("no run is interrupted")).collect())
}

/// All result files of a scenario, as (name, bytes).
fn files(scenario: &Scenario, reports: &[RunRecord]) -> Vec<(String, Vec<u8>)> {
    let folder = tempfile::tempdir().unwrap();
    let formats = [FlowFormat::Csv, FlowFormat::Parquet];
    let paths = write_all(folder.path(), scenario, reports, &summarise(scenario, reports), &formats).unwrap();
    let name = |path: &PathBuf| path.file_name().unwrap().to_string_lossy().to_string();
    paths.iter().map(|path| (name(path), fs::read(path).unwrap())).collect()
}

/// Interrupts the run with this index at its first progress event.
struct Interrupt(usize);

impl RunListener for Interrupt {
    fn event(&self, run: usize, event: &RunEvent) -> ControlFlow<()> {
        match event {
            RunEvent::Progress(_) if run == self.0 => ControlFlow::Break(()),
            _ => ControlFlow::Continue(()),
        }
    }
    fn finished(&self, run: usize, _report: &RunRecord) -> ControlFlow<()> {
        if run == self.0 { ControlFlow::Break(()) } else { ControlFlow::Continue(()) }
    }
}

#[test]
fn the_record_of_an_interrupted_run_is_partial_and_never_used() {
    let scenario = scenario(&[("flows = 60", "flows = 2000")]);
    let folder = tempfile::tempdir().unwrap();
    let cache = cache(&scenario, folder.path());
    let records = execute_remaining(&Catalogue::standard(), &scenario, Vec::new(), 1, &Interrupt(1)).unwrap();
    let whole = run_remaining(&scenario, Vec::new(), &Ignore).unwrap();
    assert_eq!(
        (records.len(), records[0].as_ref().map(|record| &record.output)),
        (whole.len(), Some(&whole[0].output))
    );
    assert!(records.len() > 2 && records[2..].iter().all(Option::is_none), "later runs do not start");
    let partial = records[1].clone().unwrap();
    let output = &partial.output;
    let complete = &whole[1].output;
    assert_eq!(output.status, RunStatus::Interrupted);
    assert!(output.end > Time::ZERO && output.end < complete.end && output.truncated.is_some());
    assert_eq!(output.truncated.unwrap().not_started, Some(complete.offered - output.flows.len() as u64));

    let error = cache.put(1, &partial).unwrap_err();
    assert_eq!(error.to_string(), "the record of an interrupted run is partial");
    assert_eq!(cache.count(), 0);
    // The record of `rnic exec --record` may be partial too.
    let header = Header { cpu_s: 0.0, ..cache.headers[1].clone() };
    cache.store.put(&header, &partial).unwrap();
    let cached = cache.load();
    assert_eq!((cached.count(), cached.refused), (0, vec![(1, "is partial, because the run was interrupted".into())]));
}

#[test]
fn an_interrupted_scenario_ends_with_the_same_files() {
    let scenario = scenario(&[]);
    let folder = tempfile::tempdir().unwrap();
    let cache = cache(&scenario, folder.path());
    assert_eq!((cache.count(), cache.load().count()), (0, 0), "there is no folder yet");
    let whole = run_remaining(&scenario, Vec::new(), &Storing::of(&cache, 3)).unwrap();
    assert_eq!((whole.len(), cache.count()), (6, 3));
    let cached = cache.load();
    assert_eq!((cached.count(), &cached.refused), (3, &vec![]));
    let rest = Storing::of(&cache, 6);
    let resumed = run_remaining(&scenario, cached.records.clone(), &rest).unwrap();
    let mut again = rest.finished.into_inner();
    again.sort_unstable();
    let missing: Vec<usize> = (0..6).filter(|run| cached.records[*run].is_none()).collect();
    assert_eq!(again, missing, "stored runs are not simulated again");
    let names: Vec<String> = files(&scenario, &whole).into_iter().map(|(name, _)| name).collect();
    assert_eq!(names.len(), 11, "{names:?}");
    assert!(files(&scenario, &resumed) == files(&scenario, &whole));
    for (run, (resumed, whole)) in resumed.iter().zip(&whole).enumerate() {
        assert_eq!(resumed.output, whole.output, "{run}");
        assert!(missing.contains(&run) || resumed == whole, "a stored run keeps its times");
    }
    assert_eq!(cache.load().records.into_iter().flatten().collect::<Vec<_>>(), {
        let of = |run: usize| cached.records[run].clone().unwrap_or(resumed[run].clone());
        (0..6).map(of).collect::<Vec<_>>()
    });
    cache.clear(true).unwrap();
    assert!(!cache.folder().exists());
}

/// The record in this test has a value in every field, so that no lost field is overlooked.
#[test]
fn a_record_survives_storing_and_loading() {
    let (mut scenario, mut reports) = fixture::two_runs();
    scenario.runs[1].seed = 8;
    let us = Time::from_us;
    let ps = Time::from_ps;
    let root = PauseRoot { kind: RootKind::Nic, port: 1, priority: 2, first: ps(3), samples: 4, max_ports: 5 };
    let port = TreePort {
        port: 1,
        priority: 0,
        paused: true,
        since: ps(9),
        held: 77,
        waits_for: None,
        depth: 1,
        root: Some(2),
    };
    let victim = Victim { flow: 1, src: 2, dst: 3, samples: 4, root: 0, finished: false, goodput: 0.1 + 0.2 };
    reports[0].output.pauses = Some(PauseRecords {
        start: us(1),
        interval: us(2),
        samples: 3,
        roots: vec![
            root,
            PauseRoot { kind: RootKind::Cycle, ..root },
            PauseRoot { kind: RootKind::Congestion, ..root },
        ],
        max_paused: 4,
        worst: Some(PauseTreeRecord {
            at: us(5),
            paused: 6,
            ports: vec![port, TreePort { waits_for: Some(4), root: None, ..port }],
        }),
        cycle: Some(BufferCycle { first: us(7), ports: vec![1, 2], at_end: true, truncated: false }),
        victims: vec![victim, Victim { goodput: f64::MAX, ..victim }],
        victim_count: u64::MAX,
        log: vec![
            PauseRow { port: 1, priority: 2, from: us(1), to: Some(us(2)), root: Some(0) },
            PauseRow { port: 1, priority: 2, from: us(3), to: None, root: None },
        ],
        pauses_left_out: 1,
        spans: vec![PauseSpan { port: 1, priority: 2, from: us(1), to: Time::MAX, root: None }],
        spans_left_out: 2,
    });
    reports[0].output.samples = Some(Samples {
        start: us(1),
        interval: us(2),
        count: 2,
        queues: vec![QueueSamples { name: "s0:h1".into(), bytes: vec![0, u32::MAX] }],
        links: vec![LinkSamples { name: "h0:s0".into(), transmitters: 2, busy_ps: vec![0, u64::MAX] }],
        flows: vec![FlowSamples { flow: 3, first: 1, delivered: vec![u64::MAX] }],
    });
    reports[0].output.truncated = Some(Truncation { at: us(600), not_started: Some(3) });
    reports[1].output.truncated = Some(Truncation { at: us(600), not_started: None });
    reports[1].output.status = RunStatus::Failed("stuck: \"h0\" \u{2192} h1".into());
    reports[1].output.flows.edit(2, |flow| flow.finish = None);
    reports[1].output.flows = reports[1].output.flows.in_file();
    let folder = tempfile::tempdir().unwrap();
    let cache = cache(&scenario, folder.path());
    for (run, report) in reports.iter().enumerate() {
        cache.put(run, report).unwrap();
    }
    let cached = cache.load();
    assert_eq!(cached.refused, []);
    assert_eq!(cached.records.into_iter().flatten().collect::<Vec<_>>(), reports);
    assert!(cache.put(2, &reports[0]).is_err(), "there is no such run");
}

#[test]
fn unreadable_records_are_not_stored() {
    let (scenario, mut reports) = fixture::two_runs();
    reports[0].output.flows = reports[0].output.flows.unreadable();
    let folder = tempfile::tempdir().unwrap();
    let cache = cache(&scenario, folder.path());
    let error = cache.put(0, &reports[0]).unwrap_err().to_string();
    assert!(error.contains("cannot be read"), "{error}");
    assert_eq!(fs::read_dir(cache.folder()).unwrap().count(), 0, "no partial file either");
}

/// A cache that stores the first run of the test scenario, and the path of this run's file.
fn one_stored() -> (tempfile::TempDir, RunCache, PathBuf) {
    let (mut scenario, reports) = fixture::two_runs();
    scenario.runs[1].seed = 8;
    let folder = tempfile::tempdir().unwrap();
    let cache = cache(&scenario, folder.path());
    cache.put(0, &reports[0]).unwrap();
    let file = cache.store.path(&cache.headers[0].fingerprint);
    (folder, cache, file)
}

#[track_caller]
fn assert_refused(cache: &RunCache, why: &str) {
    let cached = cache.load();
    assert_eq!(cached.count(), 0);
    let [(0, reason)] = cached.refused.as_slice() else { panic!("{:?}", cached.refused) };
    assert!(reason.starts_with("cannot be used: `") && reason.ends_with(why), "{reason}");
}

#[test]
fn damaged_and_foreign_files_are_refused_with_a_reason() {
    let (_folder, cache, file) = one_stored();
    let bytes = fs::read(&file).unwrap();
    for length in [0, 7, 11] {
        fs::write(&file, &bytes[..length]).unwrap();
        assert_refused(&cache, "` is damaged: the file ends too early");
    }
    for length in [12, 100, bytes.len() - 70, bytes.len() - 1] {
        fs::write(&file, &bytes[..length]).unwrap();
        assert_refused(&cache, "` is damaged: the checksum is wrong");
    }
    fs::write(&file, b"title = \"a scenario\"").unwrap();
    assert_refused(&cache, "` is not a file of a run's result");
    let mut later = bytes.clone();
    later[8] = 3;
    fs::write(&file, &later).unwrap();
    assert_refused(&cache, "` is in format 3; this version of rnic reads format 2");
    fs::remove_file(&file).unwrap();
    fs::create_dir(&file).unwrap();
    assert!(cache.load().refused[0].1.contains("cannot be used"), "{:?}", cache.load().refused);
    fs::remove_dir(&file).unwrap();
    fs::write(&file, &bytes).unwrap();
    assert_eq!((cache.load().count(), cache.load().refused.len()), (1, 0));
}

proptest! {
    /// A single wrong bit at any position of the file is detected, and causes no panic.
    #[test]
    fn one_wrong_bit_is_found(place in any::<prop::sample::Index>(), bit in 0_u32..8) {
        let (_folder, cache, file) = one_stored();
        let mut bytes = fs::read(&file).unwrap();
        let place = place.index(bytes.len());
        bytes[place] ^= 1_u8 << bit;
        fs::write(&file, &bytes).unwrap();
        let cached = cache.load();
        prop_assert_eq!((cached.count(), cached.refused.len()), (0, 1));
    }

    /// Random bytes with a correct checksum are accepted or refused, and cause no panic.
    #[test]
    fn nonsense_with_a_checksum_is_refused(place in any::<prop::sample::Index>(), new in any::<[u8; 9]>()) {
        let (_folder, cache, file) = one_stored();
        let mut bytes = fs::read(&file).unwrap();
        let end = bytes.len() - 4;
        let place = 12 + place.index(end - 12);
        let changed = &mut bytes[place..(place + 9).min(end)];
        changed.copy_from_slice(&new[..changed.len()]);
        let sum = crc32fast::hash(&bytes[..end]);
        bytes[end..].copy_from_slice(&sum.to_le_bytes());
        fs::write(&file, &bytes).unwrap();
        let cached = cache.load();
        prop_assert!(cached.count() + cached.refused.len() == 1);
    }
}

#[test]
fn a_renamed_file_is_refused() {
    let (_folder, cache, file) = one_stored();
    fs::rename(&file, cache.store.path(&cache.headers[1].fingerprint)).unwrap();
    let cached = cache.load();
    assert_eq!(cached.count(), 0);
    let [(1, why)] = cached.refused.as_slice() else { panic!("{:?}", cached.refused) };
    assert!(why.starts_with("belongs to another run: `"), "{why}");
}

#[test]
fn changed_runs_are_refused_and_the_change_is_named() {
    let before = scenario(&[]);
    let folder = tempfile::tempdir().unwrap();
    let old = cache(&before, folder.path());
    run_remaining(&before, Vec::new(), &Storing::of(&old, 6)).unwrap();
    let cases = [
        ("delay = \"1 us\"", "delay = \"2 us\"", "[fabric]", 6),
        ("flows = 60", "flows = 61", "[traffic]", 6),
        ("interval = \"5 us\"", "interval = \"6 us\"", "[watch]", 6),
        ("[sweep]", "[limits]\nduration = \"1 ms\"\n[sweep]", "[limits]", 6),
        ("[fabric]", "seed = 9\n[fabric]", "seed", 6),
        ("transport = \"irn\"", "transport = \"irn\"\nbdp_cap = 9", "transport or transport setting", 2),
        (
            "transport = \"irn\"",
            "transport = \"irn\"\ncc = \"dcqcn\"\ndcqcn.g = 0.01",
            "transport or transport setting",
            2,
        ),
    ];
    for (from, to, named, refused) in cases {
        let cached = cache(&scenario(&[(from, to)]), folder.path()).load();
        assert_eq!((cached.count(), cached.refused.len()), (6 - refused, refused), "{to}");
        assert!(
            cached.refused.iter().all(|(_, why)| *why == format!("has a different {named}")),
            "{:?}",
            cached.refused
        );
    }
    let two = cache(&scenario(&[cases[0], cases[4]].map(|(from, to, ..)| (from, to))), folder.path());
    assert_eq!(two.load().refused[0].1, "has a different seed and a different [fabric]");
    let other = RunCache::of(&before, old.folder(), "another").load();
    assert_eq!((other.count(), other.refused[5].1.as_str()), (0, "has a different program"));
}

#[test]
fn a_run_may_be_renamed_and_a_sweep_may_grow() {
    let before = scenario(&[]);
    let folder = tempfile::tempdir().unwrap();
    let old = cache(&before, folder.path());
    run_remaining(&before, Vec::new(), &Storing::of(&old, 6)).unwrap();
    let more = scenario(&[("[0.3, 0.6]", "[0.3, 0.4, 0.6]"), ("name = \"IRN\"", "name = \"ours\"")]);
    let cached = cache(&more, folder.path()).load();
    assert_eq!((more.runs.len(), cached.count(), cached.refused.len()), (9, 6, 0));
    assert_eq!(run_remaining(&more, cached.records, &Storing::of(&old, 0)).unwrap().len(), 9);
}

#[test]
fn a_fingerprint_depends_on_every_flow_of_a_list() {
    let list = |rows: &str| {
        let folder = tempfile::tempdir().unwrap();
        fs::write(folder.path().join("flows.csv"), format!("start_us,src,dst,bytes\n{rows}")).unwrap();
        let text = SWEEP.replace("[sweep]\n    \"traffic.0.load\" = [0.3, 0.6]", "").replace(
            "pattern = \"poisson\"\n    load = 0.5\n    sizes = \"fixed 10 KB\"\n    flows = 60",
            "pattern = \"list\"\n    file = \"flows.csv\"",
        );
        let scenario = from_str(&text, "a.toml", folder.path(), &[], None).unwrap();
        Fingerprint::of(&scenario.runs[0], "test")
    };
    let one = list("1,0,1,1000\n2,1,2,500\n");
    assert_eq!(one, list("1,0,1,1000\n2,1,2,500\n"), "the path of the file does not matter");
    for other in ["1,0,1,1000\n2,1,2,501\n", "1,0,1,1000\n2,1,3,500\n", "1,0,1,1000\n", "1,0,1,1000\n2.5,1,2,500\n"] {
        assert_eq!(one.differences(&list(other)), ["[traffic]"], "{other}");
    }
}

#[test]
fn clearing_leaves_other_files() {
    let (_folder, cache, file) = one_stored();
    let other = cache.folder().join("0123.run");
    let notes = cache.folder().join("notes.txt");
    let half = cache.folder().join("0123.run.77.tmp");
    for path in [&other, &notes, &half] {
        fs::write(path, "?").unwrap();
    }
    cache.clear(false).unwrap();
    assert!(!file.exists() && other.exists() && half.exists());
    cache.clear(true).unwrap();
    assert!(!other.exists() && !half.exists() && notes.exists());
    fs::remove_file(&notes).unwrap();
    cache.clear(true).unwrap();
    assert!(!cache.folder().exists());
    cache.clear(true).unwrap();
}
