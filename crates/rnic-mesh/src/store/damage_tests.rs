//! Tests of damaged files: every byte of each kind of file is changed in turn.

use super::tests::{append, batch, rows};
use super::*;
use parquet::file::reader::{FileReader, SerializedFileReader};

const LOG: &str = "probes-1970-01-01T00-0.log";

/// Writes a log with three batches to a folder, and returns its bytes.
fn log(folder: &Path) -> Vec<u8> {
    let (mut store, _) = Store::open(folder, 9, |_| ()).unwrap();
    for number in 1..=3 {
        append(&mut store, &batch("a", number, 5), 1_000_000 * number);
    }
    fs::read(folder.join(LOG)).unwrap()
}

/// Converts a log with three batches into a Parquet file in a folder, and returns its path and its bytes.
fn parquet(folder: &Path) -> (std::path::PathBuf, Vec<u8>) {
    log(folder);
    let converter = Converter { folder: folder.to_path_buf(), retention: Arc::new(9.into()) };
    converter.convert(&folder.join(LOG)).unwrap();
    let path = folder.join("probes-1970-01-01T00-0.parquet");
    let bytes = fs::read(&path).unwrap();
    (path, bytes)
}

/// The same log as rnic 0.2.0 wrote it.
fn old_log() -> Vec<u8> {
    let record = |number: u64| {
        let bytes = [&(1_000_000 * number).to_le_bytes()[..], &batch("a", number, 5).emit()].concat();
        [&(bytes.len() as u32 - 8).to_le_bytes()[..], &crc32fast::hash(&bytes).to_le_bytes(), &bytes].concat()
    };
    (1..=3).flat_map(record).collect()
}

fn read(path: &Path) -> (Vec<u64>, Damage) {
    let mut entries = entries(path).unwrap();
    let sequences = entries.by_ref().map(|entry| {
        assert_eq!(entry.batch, batch("a", entry.batch.sequence, 5));
        assert_eq!(entry.received_us, 1_000_000 * entry.batch.sequence);
        entry.batch.sequence
    });
    (sequences.collect(), entries.damage())
}

/// Changes each byte of a log, and returns the number of batches that can still be read.
fn changed(path: &Path, bytes: &[u8], with: u8) -> Vec<usize> {
    let each = (0..bytes.len()).map(|at| {
        let mut bytes = bytes.to_vec();
        bytes[at] ^= with;
        fs::write(path, &bytes).unwrap();
        let (sequences, damage) = read(path);
        assert!(sequences.is_sorted() && damage.places == 1, "byte {at}: {sequences:?}, {damage}");
        assert!((damage.first..damage.first + damage.bytes).contains(&(at as u64)), "byte {at}: {damage}");
        sequences.len()
    });
    each.collect()
}

#[test]
fn a_changed_byte_of_a_log_costs_one_batch_at_most() {
    let folder = tempfile::tempdir().unwrap();
    let bytes = log(folder.path());
    let path = folder.path().join(LOG);
    assert_eq!(read(&path), (vec![1, 2, 3], Damage::default()));
    for with in [1, 0x80, 0xff] {
        let left = changed(&path, &bytes, with);
        assert_eq!(left[..24], [3; 24], "the records of a log with a damaged header are read");
        assert!(left[24..].iter().all(|left| *left == 2), "{left:?}");
        let old = changed(&path, &old_log(), with);
        assert!(old.iter().all(|left| *left == 2), "{old:?}");
    }
    // Bytes are missing or new, within a record and between two.
    let record = (bytes.len() - 24) / 3;
    for at in [24 + record / 2, 24 + record] {
        fs::write(&path, [&bytes[..at], &bytes[at + 7..]].concat()).unwrap();
        assert_eq!(read(&path).0.len(), 2, "{at}");
        fs::write(&path, [&bytes[..at], &[0; 70_000], &bytes[at..]].concat()).unwrap();
        let (sequences, damage) = read(&path);
        assert_eq!((sequences.len(), damage.places), (if at == 24 + record { 3 } else { 2 }, 1), "{at}");
    }
}

/// An agent that knows the format cannot make readers find a record in its batch, because it does not know the marker.
#[test]
fn a_batch_contains_no_record() {
    let folder = tempfile::tempdir().unwrap();
    let bytes = log(folder.path());
    let path = folder.path().join(LOG);
    let forged = Batch { targets: vec![(String::from_utf8_lossy(&old_log()).into_owned(), 1)], ..batch("b", 1, 5) };
    let (mut store, _) = Store::open(folder.path(), 9, |_| ()).unwrap();
    append(&mut store, &forged, 9);
    let log = store.log.as_ref().unwrap().path.clone();
    drop(store);
    let mut forged = fs::read(log).unwrap();
    forged[40] ^= 1;
    fs::write(&path, [&bytes[..], &forged[24..]].concat()).unwrap();
    assert_eq!(read(&path).0, [1, 2, 3]);
}

#[test]
fn a_damaged_log_is_kept_and_named() {
    let folder = tempfile::tempdir().unwrap();
    let bytes = log(folder.path());
    let path = folder.path().join(LOG);
    let mut damaged = bytes.clone();
    damaged[24 + (bytes.len() - 24) / 3 + 40] ^= 4;
    fs::write(&path, &damaged).unwrap();
    let converter = Converter { folder: folder.path().to_path_buf(), retention: Arc::new(1.into()) };
    let why = converter.convert(&path).unwrap().unwrap();
    assert!(why.contains("T00-0.log: ") && why.contains("are damaged; 10 results are in "), "{why}");
    assert!(why.ends_with("T00-0.log.damaged"), "{why}");
    assert_eq!(rows(&path.with_extension("parquet")), 10);
    assert_eq!((path.exists(), fs::read(path.with_extension("log.damaged")).unwrap()), (false, damaged));
    // Bytes that are not a log at all.
    let other = folder.path().join("probes-1970-01-01T05-0.log");
    fs::write(&other, [7; 3_000]).unwrap();
    let why = converter.convert(&other).unwrap().unwrap();
    assert!(why.contains("3000 bytes from byte 0 on are damaged; no result can be read; "), "{why}");
    assert_eq!((other.exists(), other.with_extension("parquet").exists()), (false, false));
    assert_eq!(fs::read(other.with_extension("log.damaged")).unwrap(), [7; 3_000]);
    // A new log of the hour gets another name, and later hours do not remove the damaged logs.
    let (mut store, _) = Store::open(folder.path(), 1, |_| ()).unwrap();
    append(&mut store, &batch("a", 9, 1), 5 * 3_600_000_000);
    let log = append(&mut store, &batch("a", 10, 1), 6 * 3_600_000_000).unwrap();
    assert!(log.ends_with("probes-1970-01-01T05-1.log"), "{}", log.display());
    assert_eq!(store.converter().convert(&log).unwrap(), None);
    assert!(path.with_extension("log.damaged").exists() && other.with_extension("log.damaged").exists());
}

#[test]
fn files_of_the_user_remain() {
    let folder = tempfile::tempdir().unwrap();
    let own = ["notes.log", "notes.tmp", "probes-old.log", "probes-2026-backup-copy.parquet", "probes-.parquet.tmp"];
    for name in own {
        fs::write(folder.path().join(name), name).unwrap();
    }
    let (mut store, _) = Store::open(folder.path(), 1, |_| panic!("no file is a log")).unwrap();
    assert_eq!(store.passed().unwrap(), Vec::<PathBuf>::new());
    for number in 0..3 {
        if let Some(log) = append(&mut store, &batch("a", number + 1, 1), number * 3_600_000_000) {
            store.converter().convert(&log).unwrap();
        }
    }
    for name in own {
        assert_eq!(fs::read_to_string(folder.path().join(name)).unwrap(), name);
    }
}

#[test]
fn a_log_of_a_later_version_is_refused() {
    let folder = tempfile::tempdir().unwrap();
    let mut bytes = log(folder.path());
    bytes[8] = 2;
    let sum = crc32fast::hash(&bytes[..20]);
    bytes[20..24].copy_from_slice(&sum.to_le_bytes());
    fs::write(folder.path().join(LOG), bytes).unwrap();
    let why = Store::open(folder.path(), 9, |_| ()).err().unwrap().to_string();
    assert!(why.ends_with("T00-0.log: this is a log of version 2; this rnic reads version 1"), "{why}");
}

#[test]
fn a_changed_byte_of_a_parquet_file_is_noticed() {
    let folder = tempfile::tempdir().unwrap();
    let (path, bytes) = parquet(folder.path());
    let unreadable = |bytes: &[u8]| {
        fs::write(&path, bytes).unwrap();
        earlier(folder.path(), (0, 3_600_000_000), 1_000, |_| ()).unwrap().unreadable
    };
    assert_eq!(unreadable(&bytes), Vec::<String>::new());
    for at in 0..bytes.len() {
        let mut changed = bytes.clone();
        changed[at] ^= 1 << (at % 8);
        let unreadable = unreadable(&changed);
        assert!(unreadable.len() == 1 && unreadable[0].contains("T00-0.parquet: "), "byte {at}: {unreadable:?}");
    }
    for len in [0, 7, 8, 19, 20, bytes.len() / 2, bytes.len() - 1] {
        assert_eq!(unreadable(&bytes[..len]).len(), 1, "{len} bytes");
    }
}

/// Every page has the checksum of its bytes, so other readers of Parquet detect damaged values too.
#[test]
fn pages_have_checksums() {
    let folder = tempfile::tempdir().unwrap();
    let (path, bytes) = parquet(folder.path());
    let reader = SerializedFileReader::new(File::open(&path).unwrap()).unwrap();
    let mut pages = 0;
    for column in reader.metadata().row_group(0).columns() {
        let (start, len) = column.byte_range();
        let (mut at, end) = (start as usize, (start + len) as usize);
        while at < end {
            let (header, data, sum) = pages::tests::header(&bytes[at..end]);
            assert_eq!(sum, Some(crc32fast::hash(&bytes[at + header..at + header + data])));
            at += header + data;
            pages += 1;
        }
        assert_eq!(at, end);
    }
    assert!(pages >= reader.metadata().row_group(0).num_columns(), "{pages}");
}

#[test]
fn a_changed_byte_of_the_state_is_noticed() {
    let folder = tempfile::tempdir().unwrap();
    let state = State { stored: [("a".to_string(), (4, 77))].into(), secret: vec![7; 32], ..State::default() };
    let open = || Store::open(folder.path(), 9, |_| ()).map(|(_, state)| state);
    let converter = Converter { folder: folder.path().to_path_buf(), retention: Arc::new(9.into()) };
    converter.save(&state).unwrap();
    assert_eq!(open().unwrap(), state);
    let path = folder.path().join("state.json");
    let bytes = fs::read(&path).unwrap();
    for at in 0..bytes.len() {
        let mut changed = bytes.clone();
        changed[at] ^= 1 << (at % 8);
        fs::write(&path, &changed).unwrap();
        let why = open().err().map(|error| error.to_string()).unwrap_or_default();
        assert!(why.contains("state.json: ") && why.contains("register again"), "byte {at}: {why}");
    }
    // A state of rnic 0.2.0.
    fs::write(&path, serde_json::to_vec(&state).unwrap()).unwrap();
    assert_eq!(open().unwrap(), state);
}
