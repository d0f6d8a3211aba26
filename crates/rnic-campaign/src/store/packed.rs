//! A store of results in pack files ([`pack`](super::pack)).

use super::pack::{self, Entry, Scan, Writer};
use super::{Header, Store, Stored, file};
use crate::fingerprint::Fingerprint;
use parking_lot::Mutex;
use rnic_results::files::write_and_rename;
use std::collections::{BTreeMap, BTreeSet};
use std::fs;
use std::io::{self, Write};
use std::path::{Path, PathBuf};
use std::time::{SystemTime, UNIX_EPOCH};

/// Minimum number of digits of a pack's name. The names of processes on one file system are decimal numbers; copies of
/// packs from elsewhere have other hexadecimal names.
const DIGITS: usize = 6;

/// A folder of results of one kind, with many results per file. Results in files of their own, as [`Store`] and earlier
/// versions of rnic write them, are found too.
#[derive(Debug)]
pub(crate) struct PackedStore<V> {
    single: Store<V>,
    state: Mutex<State>,
}

/// What is known of the folder.
#[derive(Default, Debug)]
struct State {
    /// The packs, in order of their names, with the offset up to which each was scanned.
    packs: BTreeMap<PathBuf, u64>,
    /// The valid entry of each key, with its pack.
    entries: BTreeMap<u128, (PathBuf, Entry)>,
    is_read: bool,
    writer: Option<Writer>,
}

/// What [`PackedStore::clean`] removed, or would remove.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub(crate) struct Cleaned {
    /// Results that are not used, or replaced by others.
    pub(crate) unused: usize,
    /// Damaged results, and places with bytes that belong to no result.
    pub(crate) damaged: usize,
    /// Bytes of all of them.
    pub(crate) bytes: u64,
}

impl State {
    fn add(&mut self, path: &Path, entry: Entry) {
        let is_better = self.entries.get(&entry.key).is_none_or(|(_, known)| entry.order >= known.order);
        if is_better {
            self.entries.insert(entry.key, (path.to_path_buf(), entry));
        }
    }
}

impl<V: Stored> PackedStore<V> {
    /// The store in `folder`, which need not exist.
    pub(crate) fn at(folder: &Path) -> PackedStore<V> {
        // The process may change its current folder.
        let folder = std::path::absolute(folder).unwrap_or_else(|_| folder.to_path_buf());
        PackedStore { single: Store::at(&folder), state: Mutex::default() }
    }

    /// The extension of a pack: the plural of the extension of a single result.
    fn ending() -> String {
        format!("{}s", V::ENDING)
    }

    /// The packs in the folder, in order of their names. Files with other names belong to the user.
    fn packs(&self) -> Vec<PathBuf> {
        let is_pack = |path: &PathBuf| {
            let name = path.file_stem().and_then(|name| name.to_str()).unwrap_or_default();
            name.len() >= DIGITS && name.bytes().all(|byte| byte.is_ascii_digit() || matches!(byte, b'a'..=b'f'))
        };
        let mut packs = self.single.files(&PackedStore::<V>::ending());
        packs.retain(is_pack);
        packs
    }

    /// Looks for results that other processes have written since the last call.
    pub(crate) fn refresh(&self) {
        self.read_new(&mut self.state.lock());
    }

    /// Reads the folder from the beginning.
    fn read_again(&self, state: &mut State) {
        (state.packs, state.entries) = (BTreeMap::new(), BTreeMap::new());
        self.read_new(state);
    }

    fn read_new(&self, state: &mut State) {
        state.is_read = true;
        for path in self.packs() {
            let from = state.packs.get(&path).copied().unwrap_or(0);
            let length = fs::metadata(&path).map_or(0, |file| file.len());
            if length == from {
                continue;
            }
            // A shorter file was rewritten, so its entries are elsewhere. Its old entries are not found there, and the
            // store then reads all packs again.
            let from = if length < from { 0 } else { from };
            // A file that cannot be read has no results.
            let Scan { entries, end, .. } = pack::scan(&path, from).unwrap_or_default();
            entries.into_iter().for_each(|entry| state.add(&path, entry));
            state.packs.insert(path, end);
        }
    }

    /// The entry of a key, and its pack.
    fn find(&self, state: &mut State, key: u128) -> Option<(PathBuf, Entry)> {
        if !state.is_read {
            self.read_new(state);
        }
        state.entries.get(&key).cloned()
    }

    /// The stored result with a fingerprint; `None` if none is stored, or it is damaged. Does not see results that
    /// other processes have written since the first call and the last [`PackedStore::refresh`].
    pub(crate) fn get(&self, fingerprint: &Fingerprint) -> Option<(Header, V)> {
        let mut state = self.state.lock();
        let key = fingerprint.number();
        let read = |(path, entry): (PathBuf, Entry)| {
            read_entry::<V>(&path, &entry).filter(|(header, _)| header.fingerprint == *fingerprint)
        };
        let Some(found) = self.find(&mut state, key) else {
            drop(state);
            return self.single.get(fingerprint).ok().flatten();
        };
        if let Some(result) = read(found) {
            return Some(result);
        }
        // The entry is damaged, or another process has rewritten the pack.
        self.read_again(&mut state);
        state.entries.get(&key).cloned().and_then(read)
    }

    /// Whether a result with the key `key`, as [`Fingerprint::key`] returns it, is stored. It may be damaged.
    pub(crate) fn contains(&self, key: &str) -> bool {
        let number = u128::from_str_radix(key, 16).ok();
        number.is_some_and(|number| self.find(&mut self.state.lock(), number).is_some())
            || self.single.path_of(key).exists()
    }

    /// Stores a result. It replaces results with the same fingerprint and the same or a lower rank.
    ///
    /// # Errors
    /// The pack cannot be written, or a part of the result cannot be read.
    pub(crate) fn put(&self, header: &Header, value: &V) -> io::Result<()> {
        let mut state = self.state.lock();
        let writer = state.writer.take().filter(Writer::is_usable);
        let mut writer = match writer {
            Some(writer) => writer,
            None => Writer::open(self.single.folder(), &self.packs(), &PackedStore::<V>::ending())?,
        };
        let content = |mut out: &mut dyn Write| {
            file::write_value(&mut out, header)?;
            value.write_to(out)
        };
        let key = header.fingerprint.number();
        // After an error the writer is dropped, and the next result goes to another pack.
        let entry = writer.append(key, (value.rank(), now_ms()), &content)?;
        if state.is_read {
            state.add(&writer.path, entry);
        }
        state.writer = Some(writer);
        Ok(())
    }

    /// Calls `see` for each stored result that can be read, in packs and in files of their own.
    pub(crate) fn for_each(&self, mut see: impl FnMut(V)) {
        let entries = {
            let mut state = self.state.lock();
            self.read_new(&mut state);
            state.entries.clone()
        };
        let packed = entries.values().filter_map(|(path, entry)| read_entry::<V>(path, entry));
        let single = self.single.files(V::ENDING).into_iter().filter_map(|path| file::read::<V>(&path).ok());
        packed.chain(single).for_each(|(_, value)| see(value));
    }

    /// Removes from the packs what is not needed: results whose keys are not in `used`, replaced and damaged results. A
    /// pack to which another process appends remains as it is, and so do all packs on a file system without locks. With
    /// `dry`, they are only counted.
    ///
    /// # Errors
    /// A pack cannot be rewritten or removed.
    pub(crate) fn clean(&self, used: &BTreeSet<String>, dry: bool) -> io::Result<Cleaned> {
        let mut state = self.state.lock();
        state.writer = None;
        pack::close_unused();
        self.read_again(&mut state);
        let mut cleaned = Cleaned::default();
        for path in self.packs() {
            let Some(_lock) = pack::lock(&path) else { continue };
            let scan = pack::scan(&path, 0)?;
            let mut kept = Vec::new();
            cleaned.damaged += scan.damaged;
            for entry in &scan.entries {
                let is_valid = state.entries.get(&entry.key) == Some(&(path.clone(), *entry));
                if !is_valid || !used.contains(&format!("{:032x}", entry.key)) {
                    cleaned.unused += 1;
                } else if read_entry::<V>(&path, entry).is_none() {
                    cleaned.damaged += 1;
                } else {
                    kept.push(*entry);
                }
            }
            if kept.len() == scan.entries.len() && scan.damaged == 0 {
                continue;
            }
            let before = fs::metadata(&path)?.len();
            cleaned.bytes += before - kept.iter().map(Entry::whole_length).sum::<u64>();
            match kept.is_empty() {
                _ if dry => {}
                true => fs::remove_file(&path)?,
                false => {
                    let copy = |out: &mut io::BufWriter<fs::File>| pack::copy(&path, &kept, out);
                    write_and_rename(&path, copy, |_| Ok(())).map(drop)?;
                }
            }
        }
        self.read_again(&mut state);
        Ok(cleaned)
    }
}

/// Lets other stores of this process continue the pack.
impl<V> Drop for PackedStore<V> {
    fn drop(&mut self) {
        if let Some(writer) = self.state.get_mut().writer.take() {
            writer.release();
        }
    }
}

/// Reads an entry; `None` if it is damaged.
fn read_entry<V: Stored>(path: &Path, entry: &Entry) -> Option<(Header, V)> {
    let (is_intact, mut input) = entry.open(path).ok()?;
    if !is_intact {
        return None;
    }
    let header = file::read_value(&mut input, entry.length).ok()?;
    Some((header, V::read_from(&mut input, entry.length).ok()?))
}

/// Milliseconds since 1970.
#[expect(clippy::disallowed_methods, reason = "it says which of two results is the later one, and is no part of it")]
fn now_ms() -> u64 {
    SystemTime::now().duration_since(UNIX_EPOCH).map_or(0, |time| time.as_millis() as u64)
}
