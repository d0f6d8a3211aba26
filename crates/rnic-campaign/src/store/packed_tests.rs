//! Tests of pack files: damage, cut files, several writers, results of earlier versions, cleaning.

use super::packed::PackedStore;
use super::{Header, Store};
use crate::campaign::{Provenance, RunResult, RunState};
use crate::fingerprint::Fingerprint;
use parking_lot::Mutex;
use rnic_spec::RunSpec;
use std::collections::{BTreeMap, BTreeSet};
use std::fs;
use std::io::{Seek, SeekFrom, Write};
use std::path::{Path, PathBuf};

type Results = PackedStore<RunResult>;

fn run() -> RunSpec {
    let text = "[fabric]\ntopology = \"single-switch\"\nhosts = 4\nrate = \"40 Gbps\"\ndelay = \"1 us\"\n\
                [traffic]\npattern = \"permutation\"\nsizes = \"fixed 1 KB\"\n[[run]]\nname = \"a\"\ntransport = \"irn\"";
    rnic_scenario::from_str(text, "a.toml", Path::new(""), &[], None).unwrap().runs.remove(0)
}

/// The fingerprint of a run of some program. It is computed once, because a test looks up thousands of results.
fn fingerprint(program: &str) -> Fingerprint {
    static KNOWN: Mutex<BTreeMap<String, Fingerprint>> = Mutex::new(BTreeMap::new());
    KNOWN.lock().entry(program.to_string()).or_insert_with(|| Fingerprint::of(&run(), program)).clone()
}

fn result(state: RunState, failure: &str) -> RunResult {
    RunResult::without_record(state, failure.to_string(), Provenance::default())
}

fn put(store: &Results, program: &str, result: &RunResult) {
    let header = Header { run: program.to_string(), seed: 1, cpu_s: 0.5, fingerprint: fingerprint(program) };
    store.put(&header, result).unwrap();
}

fn get(store: &Results, program: &str) -> Option<RunResult> {
    store.get(&fingerprint(program)).map(|(_, result)| result)
}

fn files(folder: &Path) -> Vec<PathBuf> {
    let mut files: Vec<PathBuf> = fs::read_dir(folder).unwrap().map(|entry| entry.unwrap().path()).collect();
    files.sort();
    files
}

const PROGRAMS: [&str; 3] = ["one", "two", "three"];

/// A folder with a pack of three results, and the bytes of the pack.
fn three() -> (tempfile::TempDir, PathBuf, Vec<u8>) {
    let folder = tempfile::tempdir().unwrap();
    let store = Results::at(folder.path());
    for program in PROGRAMS {
        put(&store, program, &result(RunState::Failed, program));
    }
    let [pack] = files(folder.path()).try_into().unwrap();
    assert!(pack.ends_with("000001.results"), "{pack:?}");
    let bytes = fs::read(&pack).unwrap();
    (folder, pack, bytes)
}

/// With any bit of a pack changed, at most one result is missing, and all others are what they were.
#[test]
fn a_changed_bit_costs_one_result() {
    let (folder, pack, bytes) = three();
    // Only the byte is written, because many file systems write a file that was truncated to the disk at once.
    let mut file = fs::OpenOptions::new().write(true).open(&pack).unwrap();
    let mut write = |at: usize, byte: u8| {
        file.seek(SeekFrom::Start(at as u64)).unwrap();
        file.write_all(&[byte]).unwrap();
    };
    let mut damaged = |at: usize, bit: u32| {
        write(at, bytes[at] ^ 1 << bit);
        let store = Results::at(folder.path());
        let found: Vec<Option<RunResult>> = PROGRAMS.iter().map(|program| get(&store, program)).collect();
        for (program, found) in PROGRAMS.iter().zip(&found) {
            assert!(found.as_ref().is_none_or(|found| found.failure == *program), "bit {bit} of byte {at}: {found:?}");
        }
        write(at, bytes[at]);
        found.iter().flatten().count()
    };
    for at in 0..bytes.len() {
        for bit in 0..8 {
            assert_eq!(damaged(at, bit), 2, "bit {bit} of byte {at}");
        }
    }
}

/// A process that is killed while it writes leaves the beginning of a result. All results before it remain, and the
/// next process writes to another pack, because this one is incomplete.
#[test]
fn a_cut_pack_loses_its_last_result() {
    let (folder, pack, bytes) = three();
    // All three names have other lengths, so the entries have as well.
    let ends: Vec<usize> = {
        let scan = super::pack::scan(&pack, 0).unwrap();
        scan.entries.iter().map(|entry| (entry.offset + entry.length + 4) as usize).collect()
    };
    assert_eq!((ends.len(), ends[2]), (3, bytes.len()));
    for length in 0..bytes.len() {
        fs::write(&pack, &bytes[..length]).unwrap();
        let store = Results::at(folder.path());
        let whole = ends.iter().filter(|end| **end <= length).count();
        let found: Vec<bool> = PROGRAMS.iter().map(|program| get(&store, program).is_some()).collect();
        assert_eq!(found, [whole > 0, whole > 1, false], "cut to {length} bytes");
        put(&store, "four", &result(RunState::Completed, ""));
        let continues = length == 0 || ends.contains(&length);
        let packs = files(folder.path());
        assert_eq!(packs.len(), if continues { 1 } else { 2 }, "cut to {length} bytes");
        assert!(get(&Results::at(folder.path()), "four").is_some());
        packs[1..].iter().for_each(|path| fs::remove_file(path).unwrap());
    }
}

/// Results after an incomplete one are found, wherever their markers are in the blocks in which the file is searched.
#[test]
fn results_after_an_incomplete_one_are_found() {
    let (folder, pack, bytes) = three();
    let second = super::pack::scan(&pack, 0).unwrap().entries[1].end() as usize;
    for gap in [1, 40, 100, 65_535 - 27, 65_536, 200_000] {
        // 20 of the 48 bytes before the content are there.
        let mut cut = bytes[..second + 20].to_vec();
        cut.resize(cut.len() + gap, 0xf5);
        cut.extend_from_slice(&bytes[second..]);
        fs::write(&pack, &cut).unwrap();
        let scan = super::pack::scan(&pack, 0).unwrap();
        assert_eq!((scan.entries.len(), scan.damaged, scan.end), (3, 1, cut.len() as u64), "{gap}");
        assert_eq!(get(&Results::at(folder.path()), "three").unwrap().failure, "three");
    }
}

#[test]
fn several_writers_have_packs_of_their_own() {
    let folder = tempfile::tempdir().unwrap();
    // Each store has an own lock, as processes do.
    let stores = [Results::at(folder.path()), Results::at(folder.path()), Results::at(folder.path())];
    let reader = Results::at(folder.path());
    assert_eq!(get(&reader, "0 0"), None);
    std::thread::scope(|scope| {
        for (number, store) in stores.iter().enumerate() {
            scope.spawn(move || {
                for count in 0..50 {
                    put(store, &format!("{number} {count}"), &result(RunState::Completed, "x"));
                }
            });
        }
    });
    assert_eq!(files(folder.path()).len(), 3);
    assert_eq!(get(&reader, "0 0"), None, "the reader has not looked again");
    reader.refresh();
    let all = (0..3).flat_map(|number| (0..50).map(move |count| format!("{number} {count}")));
    all.for_each(|program| assert!(get(&reader, &program).is_some(), "{program}"));
    drop(stores);
    put(&reader, "late", &result(RunState::Completed, ""));
    assert_eq!(files(folder.path()).len(), 3, "a pack that nobody writes to is continued");
    assert!(get(&reader, "late").is_some() && get(&Results::at(folder.path()), "late").is_some());
}

#[test]
fn a_completed_run_is_not_replaced_by_a_failed_one() {
    let folder = tempfile::tempdir().unwrap();
    let [one, other] = [Results::at(folder.path()), Results::at(folder.path())];
    put(&one, "a", &result(RunState::Failed, "first"));
    put(&one, "a", &result(RunState::Lost, "second"));
    assert_eq!(get(&one, "a").unwrap().failure, "second", "the later one of the same rank");
    put(&other, "a", &result(RunState::Completed, ""));
    put(&one, "a", &result(RunState::Failed, "third"));
    for store in [Results::at(folder.path()), one, other] {
        store.refresh();
        assert_eq!(get(&store, "a").unwrap().state, RunState::Completed);
    }
}

#[test]
fn results_of_earlier_versions_are_found() {
    let folder = tempfile::tempdir().unwrap();
    let single = Store::<RunResult>::at(folder.path());
    let header = Header { run: "old".to_string(), seed: 1, cpu_s: 0.5, fingerprint: fingerprint("old") };
    single.put(&header, &result(RunState::Failed, "old")).unwrap();
    let store = Results::at(folder.path());
    assert_eq!(get(&store, "old").unwrap().failure, "old");
    assert!(store.contains(&fingerprint("old").key()) && !store.contains(&fingerprint("new").key()));
    put(&store, "old", &result(RunState::Completed, ""));
    assert_eq!(get(&store, "old").unwrap().state, RunState::Completed);
    let mut count = 0;
    store.for_each(|_| count += 1);
    assert_eq!(count, 2);
}

#[test]
fn cleaning_removes_what_is_not_needed() {
    let (folder, pack, bytes) = three();
    let stale = Results::at(folder.path());
    assert!(get(&stale, "three").is_some());
    let store = Results::at(folder.path());
    put(&store, "three", &result(RunState::Failed, "again"));
    let mut changed = fs::read(&pack).unwrap();
    changed[bytes.len() / 2] ^= 1; // in the second result
    fs::write(&pack, &changed).unwrap();
    // A copy of a pack from elsewhere.
    fs::write(folder.path().join("0123456789abcdef.results"), &bytes).unwrap();
    let both = Results::at(folder.path());
    assert_eq!(get(&both, "two").unwrap().failure, "two");
    fs::remove_file(folder.path().join("0123456789abcdef.results")).unwrap();
    fs::write(folder.path().join("notes.results"), "of the user").unwrap();
    let used = BTreeSet::from(["two", "three"].map(|program| fingerprint(program).key()));
    let busy = Results::at(folder.path()).clean(&used, false).unwrap();
    assert_eq!((busy.unused, busy.damaged), (0, 0), "another store appends to the pack");
    let counted = store.clean(&used, true).unwrap();
    assert_eq!((counted.unused, counted.damaged), (2, 1), "the first result and a replaced one; the second one");
    assert_eq!(fs::read(&pack).unwrap(), changed);
    assert_eq!(store.clean(&used, false).unwrap(), counted);
    let left = fs::metadata(&pack).unwrap().len();
    assert_eq!((counted.bytes, changed.len() as u64), (changed.len() as u64 - left, counted.bytes + left));
    for store in [&store, &stale, &Results::at(folder.path())] {
        assert_eq!(get(store, "three").unwrap().failure, "again");
        assert_eq!((get(store, "one"), get(store, "two")), (None, None));
    }
    assert_eq!(store.clean(&used, false).unwrap(), super::packed::Cleaned::default());
    put(&store, "two", &result(RunState::Completed, ""));
    store.clean(&BTreeSet::new(), false).unwrap();
    assert_eq!(files(folder.path()), [folder.path().join("notes.results")]);
}
