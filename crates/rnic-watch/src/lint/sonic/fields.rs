//! Reads and converts fields of CONFIG_DB, and collects errors and unknown fields.

use crate::input::{InputError, Place, shown};
use crate::lint::config_db::{ConfigDb, Entry, Value};
use std::cell::RefCell;
use std::collections::BTreeSet;
use std::ops::RangeInclusive;

/// A path in CONFIG_DB, and a description of the problem at this path.
type Remark = (String, String);

/// The fields of a CONFIG_DB, and the problems in the fields that were read so far.
pub(super) struct Fields<'d> {
    file: &'d str,
    db: &'d ConfigDb,
    errors: RefCell<Vec<InputError>>,
    unknown: RefCell<Vec<Remark>>,
    dangling: RefCell<Vec<Remark>>,
}

/// One entry, with its path.
#[derive(Clone, Copy)]
pub(super) struct Row<'d> {
    pub(super) table: &'d str,
    pub(super) key: &'d str,
    pub(super) entry: &'d Entry,
}

impl Row<'_> {
    pub(super) fn path(&self, field: &str) -> String {
        format!("{}|{}|{field}", self.table, self.key)
    }
}

impl<'d> Fields<'d> {
    pub(super) fn new(file: &'d str, db: &'d ConfigDb) -> Fields<'d> {
        Fields { file, db, errors: RefCell::default(), unknown: RefCell::default(), dangling: RefCell::default() }
    }

    pub(super) fn into_parts(self) -> (Vec<InputError>, Vec<Remark>, Vec<Remark>) {
        (self.errors.into_inner(), self.unknown.into_inner(), self.dangling.into_inner())
    }

    /// The rows of a table.
    pub(super) fn rows(&self, table: &'d str) -> impl Iterator<Item = Row<'d>> + use<'d> {
        self.db.table(table).map(move |(key, entry)| Row { table, key, entry })
    }

    /// The rows of a table. Fields other than `known` are reported as unknown.
    pub(super) fn rows_with(&self, table: &'d str, known: &[&str]) -> Vec<Row<'d>> {
        let rows: Vec<Row<'d>> = self.rows(table).collect();
        for row in &rows {
            for field in row.entry.keys().filter(|field| !known.contains(&field.as_str()) && *field != "NULL") {
                self.unknown(&row.path(field), "unknown field");
            }
        }
        rows
    }

    pub(super) fn unknown(&self, path: &str, text: &str) {
        self.unknown.borrow_mut().push((shown(path), text.to_string()));
    }

    pub(super) fn error(&self, path: String, message: String) {
        self.errors.borrow_mut().push(InputError::new(self.file, Place::Path(path), message));
    }

    /// Notes that the field refers to an object of `table` that does not exist.
    pub(super) fn dangling(&self, path: String, table: &str, name: &str) {
        let text = format!("refers to `{}`, which {table} does not have", shown(name));
        self.dangling.borrow_mut().push((path, text));
    }

    pub(super) fn text(&self, row: Row<'d>, field: &str) -> Option<String> {
        match row.entry.get(field)? {
            Value::Other => {
                self.error(row.path(field), "is not text; accepted: text".to_string());
                None
            }
            value => value.text().filter(|text| !text.is_empty()),
        }
    }

    /// Reads a whole number in the given range.
    pub(super) fn number<N: TryFrom<i64>>(&self, row: Row<'d>, field: &str, range: RangeInclusive<i64>) -> Option<N> {
        let text = self.text(row, field)?;
        let parsed = text.trim().parse::<i64>().ok().filter(|value| range.contains(value));
        if parsed.is_none() {
            let (min, max) = (range.start(), range.end());
            let accepted = if *max == i64::MAX { format!("of at least {min}") } else { format!("{min} to {max}") };
            self.error(row.path(field), format!("`{}` is not a whole number {accepted}", shown(&text)));
        }
        parsed.and_then(|value| N::try_from(value).ok())
    }

    /// Reads a number of bytes.
    pub(super) fn bytes(&self, row: Row<'d>, field: &str) -> Option<u64> {
        self.number(row, field, 0..=i64::MAX)
    }

    /// Reads one of the accepted words, in lower case.
    pub(super) fn choice(&self, row: Row<'d>, field: &str, accepted: &[&str]) -> Option<String> {
        let text = self.text(row, field)?;
        let found = accepted.iter().find(|word| word.eq_ignore_ascii_case(&text));
        if found.is_none() {
            self.error(row.path(field), format!("`{}` is unknown; accepted: {}", shown(&text), accepted.join(", ")));
        }
        found.map(|word| (*word).to_string())
    }

    pub(super) fn boolean(&self, row: Row<'d>, field: &str) -> Option<bool> {
        self.choice(row, field, &["true", "false"]).map(|word| word == "true")
    }

    /// Reads a list of priorities such as `3,4`. An empty field is an empty list.
    pub(super) fn priorities(&self, row: Row<'d>, field: &str) -> Option<BTreeSet<u8>> {
        let text = row.entry.get(field)?.text()?;
        let mut priorities = BTreeSet::new();
        for part in text.split(',').map(str::trim).filter(|part| !part.is_empty()) {
            match part.parse::<u8>() {
                Ok(priority) if priority <= 7 => {
                    priorities.insert(priority);
                }
                _ => {
                    let message = format!("`{}` is not a priority; accepted: 0 to 7, separated by commas", shown(part));
                    self.error(row.path(field), message);
                    return None;
                }
            }
        }
        Some(priorities)
    }

    /// The name to which a field refers: `AZURE`, or `[TABLE|AZURE]` in older configurations.
    pub(super) fn reference(&self, row: Row<'d>, field: &str) -> Option<String> {
        let text = self.text(row, field)?;
        let inner = text.strip_prefix('[').and_then(|rest| rest.strip_suffix(']'));
        let name = inner.map_or(text.as_str(), |inner| inner.split_once('|').map_or(inner, |(_, name)| name));
        Some(name.to_string()).filter(|name| !name.is_empty())
    }

    /// Parses the ports and indices of a key such as `Ethernet0,Ethernet4|3-4`; the maximum index is `max`. In keys of
    /// a chassis, the switch and the ASIC precede the port.
    pub(super) fn key(&self, row: Row<'d>, max: u8) -> Vec<(String, u8)> {
        let mut parts = row.key.rsplit('|');
        let (indices, ports) = (parts.next().unwrap_or_default(), parts.next());
        let (from, to) = indices.split_once('-').unwrap_or((indices, indices));
        match (ports, from.parse::<u8>(), to.parse::<u8>()) {
            (Some(ports), Ok(from), Ok(to)) if from <= to && to <= max => ports
                .split(',')
                .flat_map(|port| (from..=to).map(move |index| (port.trim().to_string(), index)))
                .collect(),
            _ => {
                let message = format!("the key is not of the form PORT|N or PORT|N-M with numbers up to {max}");
                self.error(format!("{}|{}", row.table, row.key), message);
                Vec::new()
            }
        }
    }
}
