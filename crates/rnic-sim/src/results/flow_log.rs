//! The records of a run's flows.

use super::model::FlowRecord;
use std::fmt;

/// The record of every flow of a run, in order of their numbers. Each number from 0 on is put once, in any order.
#[derive(Clone, Default)]
pub struct FlowLog {
    /// By number; `None` where the record has not come yet.
    records: Vec<Option<FlowRecord>>,
    len: usize,
}

impl FlowLog {
    /// Without a flow.
    pub fn new() -> FlowLog {
        FlowLog::default()
    }

    /// Takes a record that will not change any more.
    pub fn put(&mut self, record: FlowRecord) {
        let index = record.id as usize;
        if self.records.len() <= index {
            self.records.resize(index + 1, None);
        }
        self.len += usize::from(self.records[index].replace(record).is_none());
    }

    /// Records that were put.
    pub fn len(&self) -> usize {
        self.len
    }

    /// Whether there is none.
    pub fn is_empty(&self) -> bool {
        self.len == 0
    }

    /// All records, in order of their numbers.
    pub fn iter(&self) -> Iter<'_> {
        Iter { records: self.records.iter() }
    }

    /// The record of flow `id`, if it was put.
    pub fn get(&self, id: u32) -> Option<FlowRecord> {
        self.records.get(id as usize).copied().flatten()
    }
}

/// The records of a [`FlowLog`], by value.
pub struct Iter<'l> {
    records: std::slice::Iter<'l, Option<FlowRecord>>,
}

impl Iterator for Iter<'_> {
    type Item = FlowRecord;

    fn next(&mut self) -> Option<FlowRecord> {
        self.records.find_map(|record| *record)
    }
}

impl<'l> IntoIterator for &'l FlowLog {
    type Item = FlowRecord;
    type IntoIter = Iter<'l>;

    fn into_iter(self) -> Iter<'l> {
        self.iter()
    }
}

impl FromIterator<FlowRecord> for FlowLog {
    fn from_iter<I: IntoIterator<Item = FlowRecord>>(records: I) -> FlowLog {
        let mut log = FlowLog::new();
        records.into_iter().for_each(|record| log.put(record));
        log
    }
}

/// By content.
impl PartialEq for FlowLog {
    fn eq(&self, other: &FlowLog) -> bool {
        self.len() == other.len() && self.iter().eq(other)
    }
}

impl fmt::Debug for FlowLog {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("FlowLog").field("flows", &self.len()).finish_non_exhaustive()
    }
}

#[cfg(test)]
impl FlowLog {
    /// Changes a record after all.
    pub(crate) fn edit(&mut self, id: u32, change: impl FnOnce(&mut FlowRecord)) {
        let mut change = Some(change);
        let edited = |mut record: FlowRecord| {
            if record.id == id {
                change.take().unwrap()(&mut record);
            }
            record
        };
        *self = self.iter().map(edited).collect();
    }
}
