//! A typed reader over a scenario's tree of TOML values. A value that is missing or invalid becomes an error that
//! points at its position in the text.

use super::error::ScenarioError;
use super::renamed;
use super::tree::{At, Documents, Entry, Node, Repair, Value};
use rnic_transport::{BitRate, Bytes, Time};
use std::ops::RangeInclusive;
use std::path::Path;
use std::str::FromStr;

pub(super) type Result<T> = std::result::Result<T, ScenarioError>;

/// Maximum of every time in a scenario; sums of a few such times still fit into [`Time`].
const LONGEST: Time = Time::from_ms(30 * 24 * 3_600 * 1_000);
/// Maximum of every rate in a scenario.
const FASTEST: BitRate = BitRate::from_gbps(10_000);

/// A value in the tree of a scenario, and the key to which it belongs.
#[derive(Clone, Copy)]
pub(super) struct Item<'a> {
    documents: &'a Documents,
    key: &'a str,
    node: &'a Node,
}

/// A table in the tree of a scenario.
#[derive(Clone)]
pub(super) struct Table<'a> {
    documents: &'a Documents,
    /// Name of the table in error messages, for example `[fabric]` or `run "IRN"`.
    label: String,
    at: &'a At,
    entries: &'a [Entry],
}

/// One of several forms of a table: the value of one key, such as `topology`, determines which other keys the table
/// has.
pub(super) struct Variant<'k> {
    /// The value of the selecting key (such as `topology`) for this form of the table.
    pub(super) name: &'static str,
    /// The further keys that a table of this form has.
    pub(super) keys: &'k [&'static str],
}

impl<'a> Table<'a> {
    /// The root table of a scenario's tree.
    pub(super) fn root(documents: &'a Documents, node: &'a Node) -> Result<Table<'a>> {
        Item { documents, key: "the scenario", node }.table("the scenario")
    }

    /// Name of the table in error messages.
    pub(super) fn label(&self) -> &str {
        &self.label
    }

    /// Keys and values of the table, in the order of the text.
    pub(super) fn entries(&self) -> &'a [Entry] {
        self.entries
    }

    /// The value of `key`; `None` if the table does not have the key.
    pub(super) fn get(&self, key: &str) -> Option<Item<'a>> {
        let entry = self.entries.iter().find(|entry| entry.key == key)?;
        Some(Item { documents: self.documents, key: &entry.key, node: &entry.node })
    }

    /// The value of `key`, which is required. If the key is missing, the error suggests `example`.
    pub(super) fn require(&self, key: &str, example: &str) -> Result<Item<'a>> {
        let missing = || {
            let error =
                self.error(format!("`{key}` is missing in {}", self.label), &format!("write for example `{example}`"));
            self.documents.repaired_by(Repair::Add { key: key.to_string(), line: example.to_string() }, error)
        };
        self.get(key).ok_or_else(missing)
    }

    /// An error that points at the whole table in the scenario's text.
    pub(super) fn error(&self, message: impl Into<String>, help: &str) -> ScenarioError {
        self.documents.mistake(self.at, message, Some(help.to_string()))
    }

    /// An error that points at the value of `key` in the scenario's text, or at the whole table if the key is missing.
    pub(super) fn error_at(&self, key: &str, message: impl Into<String>, help: &str) -> ScenarioError {
        match self.get(key) {
            Some(item) => item.error(message, help),
            None => self.error(message, help),
        }
    }

    /// If both keys are given, checks that the value of `low` is at most the value of `high`. The arguments `low` and
    /// `high` are a key and its value each. The error points at the value that was written later.
    pub(super) fn ordered<Q>(&self, low: (&str, Option<Q>), high: (&str, Option<Q>), remedy: &str) -> Result<()>
    where
        Q: PartialOrd + std::fmt::Display,
    {
        let ((low_key, Some(low)), (high_key, Some(high))) = (low, high) else {
            return Ok(());
        };
        if low <= high {
            return Ok(());
        }
        let message = format!("`{low_key}` of {low} is above `{high_key}` of {high}");
        let at = match (self.get(low_key), self.get(high_key)) {
            (Some(low), Some(high)) => self.documents.later(&low.node.at, &high.node.at),
            (Some(item), None) | (None, Some(item)) => &item.node.at,
            (None, None) => self.at,
        };
        Err(self.documents.mistake(at, message, Some(format!("`{low_key}` can be at most `{high_key}`{remedy}"))))
    }

    /// Fails if the table has a key that is not among `keys`; the error points at the first such key.
    pub(super) fn accept(&self, keys: &[&str]) -> Result<()> {
        match self.entries.iter().find(|entry| !keys.contains(&entry.key.as_str())) {
            Some(entry) => Err(self.unknown_key(entry, keys, None)),
            None => Ok(()),
        }
    }

    /// Fails at the first key that is neither in `common` nor in the chosen variant of the table. `chosen` names the
    /// variant; it is the value of the key `selector`. The error says if the key belongs to another variant.
    pub(super) fn accept_variant(
        &self, common: &[&str], selector: &str, chosen: &str, variants: &[Variant<'_>],
    ) -> Result<()> {
        let own = variants.iter().find(|variant| variant.name == chosen).map_or(&[][..], |variant| variant.keys);
        let accepted = [common, own].concat();
        let Some(entry) = self.entries.iter().find(|entry| !accepted.contains(&entry.key.as_str())) else {
            return Ok(());
        };
        let owners = variants.iter().filter(|variant| variant.keys.contains(&entry.key.as_str()));
        let owners: Vec<String> = owners.map(|variant| format!("\"{}\"", variant.name)).collect();
        if owners.is_empty() {
            return Err(self.unknown_key(entry, &accepted, self.get(selector).as_ref()));
        }
        let owners = owners.join(" or ");
        let message = format!("`{}` belongs to {selector} {owners}, not to \"{chosen}\"", entry.key);
        let help = format!("accepted here: {}", accepted.join(", "));
        let error = self.documents.mistake(&entry.key_at, message, Some(help));
        let selector = self.get(selector).map(|item| item.node.at.clone());
        Err(self.documents.repaired_by(Repair::Forget { selector, meant: vec![entry.key.clone()] }, error))
    }

    /// The error that the table has no such key. `selector` is the value that determines which keys the table has.
    fn unknown_key(&self, entry: &Entry, keys: &[&str], selector: Option<&Item<'_>>) -> ScenarioError {
        let error = self.unknown_key_error(entry, keys);
        let mut meant = vec![entry.key.clone()];
        meant.extend(renamed::find(&self.label, &entry.key).map(|row| row.new.to_string()));
        meant.extend(similar(&entry.key, keys).map(str::to_string));
        let selector = selector.map(|item| item.node.at.clone());
        self.documents.repaired_by(Repair::Forget { selector, meant }, error)
    }

    fn unknown_key_error(&self, entry: &Entry, keys: &[&str]) -> ScenarioError {
        if let Some(row) = renamed::find(&self.label, &entry.key) {
            let value = if let Value::String(text) = &entry.node.value { Some(text.as_str()) } else { None };
            return self.documents.mistake(&entry.key_at, row.message(&self.label), Some(row.help(value)));
        }
        let home = HOMES.iter().find(|(table, homes)| *table != self.label && homes.contains(&entry.key.as_str()));
        if let Some((table, _)) = home {
            let message = format!("`{}` is not a key of {}", entry.key, self.label);
            return self.documents.mistake(&entry.key_at, message, Some(format!("write it in {table}")));
        }
        let message = format!("unknown key `{}` in {}", entry.key, self.label);
        let help = format!("{}accepted here: {}", did_you_mean(&entry.key, keys), keys.join(", "));
        self.documents.mistake(&entry.key_at, message, Some(help))
    }
}

impl<'a> Item<'a> {
    /// A reader for the value `node` of the key `key`.
    pub(super) fn new(documents: &'a Documents, key: &'a str, node: &'a Node) -> Item<'a> {
        Item { documents, key, node }
    }

    /// An error that points at this value in the scenario's text.
    pub(super) fn error(&self, message: impl Into<String>, help: impl Into<String>) -> ScenarioError {
        self.documents.mistake(&self.node.at, message, Some(help.into()))
    }

    /// An error that points at this value and follows from nothing else.
    pub(super) fn wrong(&self, message: impl Into<String>, help: impl Into<String>) -> ScenarioError {
        let error = self.error(message, help);
        self.documents.repaired_by(Repair::Remove, error)
    }

    /// An error that points at this value and follows from nothing else. `valid` is TOML text with a valid value.
    fn wrong_value(&self, message: impl Into<String>, help: impl Into<String>, valid: &str) -> ScenarioError {
        let error = self.error(message, help);
        self.documents.repaired_by(Repair::Replace(valid.to_string()), error)
    }

    /// The folder of the file in which this value is written; relative paths start there.
    pub(super) fn folder(&self) -> &'a Path {
        self.documents.folder_at(&self.node.at)
    }

    /// The node of the tree: the value and its position in the text.
    pub(super) fn node(&self) -> &'a Node {
        self.node
    }

    /// An error that points at this value, made from an error sentence of another crate: the part of the sentence after
    /// "; " says what would be accepted.
    pub(super) fn sentence(&self, sentence: &str) -> ScenarioError {
        let (message, help) = match sentence.split_once("; ") {
            Some((message, help)) => (message, Some(help.to_string())),
            None => (sentence, None),
        };
        self.documents.mistake(&self.node.at, message, help)
    }

    /// As [`Item::sentence`], for an error that follows from this value and from nothing else.
    pub(super) fn wrong_sentence(&self, sentence: &str) -> ScenarioError {
        let error = self.sentence(sentence);
        self.documents.repaired_by(Repair::Remove, error)
    }

    fn kind_error(&self, wanted: &str, example: &str) -> ScenarioError {
        let message = format!("`{}` must be {wanted}, not {}", self.key, self.node.value.kind());
        self.wrong_value(message, format!("write for example `{} = {example}`", self.key), example)
    }

    /// The value as a string that is not empty; `None` if it is anything else.
    pub(super) fn text(&self) -> Option<&'a str> {
        match &self.node.value {
            Value::String(text) if !text.trim().is_empty() => Some(text),
            _ => None,
        }
    }

    /// Whether the value is an array.
    pub(super) fn is_array(&self) -> bool {
        matches!(self.node.value, Value::Array(_))
    }

    /// Whether the value is a table.
    pub(super) fn is_table(&self) -> bool {
        matches!(self.node.value, Value::Table(_))
    }

    /// The value as a string; `example` is a valid string for the error message.
    pub(super) fn string(&self, example: &str) -> Result<&'a str> {
        match &self.node.value {
            Value::String(text) => Ok(text),
            _ => Err(self.kind_error("a string", &format!("{example:?}"))),
        }
    }

    /// The value as a string that is not empty; `example` is a valid string for the error message.
    pub(super) fn name(&self, example: &str) -> Result<&'a str> {
        let text = self.string(example)?;
        if text.trim().is_empty() {
            let (message, help) = (format!("`{}` is empty", self.key), format!("write for example {example:?}"));
            return Err(self.wrong_value(message, help, &format!("{example:?}")));
        }
        Ok(text)
    }

    /// The value as one of `names`; any other string is an error that lists them.
    pub(super) fn choice(&self, names: &[&'static str]) -> Result<&'static str> {
        let text = self.string(names.first().copied().unwrap_or(""))?;
        let unknown = || {
            let quoted: Vec<String> = names.iter().map(|name| format!("\"{name}\"")).collect();
            let suggestion = did_you_mean(text, names);
            self.wrong_value(
                format!("unknown {} \"{text}\"", self.key),
                format!("{suggestion}available: {}", quoted.join(", ")),
                &format!("{:?}", similar(text, names).or(names.first().copied()).unwrap_or("")),
            )
        };
        names.iter().copied().find(|name| *name == text).ok_or_else(unknown)
    }

    /// The value as a boolean.
    pub(super) fn boolean(&self) -> Result<bool> {
        match self.node.value {
            Value::Boolean(flag) => Ok(flag),
            _ => Err(self.kind_error("true or false", "true")),
        }
    }

    /// The value as an integer, which must be in `range`.
    pub(super) fn integer(&self, range: RangeInclusive<u64>) -> Result<u64> {
        let Value::Integer(number) = self.node.value else {
            return Err(self.kind_error("an integer", &range.start().to_string()));
        };
        let accepted = u64::try_from(number).ok().filter(|number| range.contains(number));
        accepted.ok_or_else(|| {
            let message = format!("`{}` is out of range: {}", self.key, self.documents.text_at(&self.node.at));
            let help = format!("accepted: {} to {}", range.start(), range.end());
            self.wrong_value(message, help, &range.start().to_string())
        })
    }

    /// The value as an integer from 1 to `most`.
    pub(super) fn count(&self, most: u32) -> Result<u32> {
        self.integer(1..=u64::from(most)).map(|number| number as u32)
    }

    /// The value as an integer or a decimal number; `example` is a valid number for the error message.
    pub(super) fn number(&self, example: &str) -> Result<f64> {
        match self.node.value {
            Value::Integer(number) => Ok(number as f64),
            Value::Float(number) => Ok(number),
            _ => Err(self.kind_error("a number", example)),
        }
    }

    /// The value as a quantity: a string with a unit, such as `"2 us"`.
    fn quantity<Q: FromStr>(&self, example: &str) -> Result<Q>
    where
        Q::Err: std::fmt::Display,
    {
        let text = match &self.node.value {
            Value::String(text) => text,
            Value::Integer(_) | Value::Float(_) => {
                let number = self.documents.text_at(&self.node.at);
                let message = format!("`{}` needs a unit, {number} has none", self.key);
                let help = format!("write a string with a unit, for example {example:?}");
                return Err(self.wrong_value(message, help, &format!("{example:?}")));
            }
            _ => return Err(self.kind_error("a string with a unit", &format!("{example:?}"))),
        };
        text.parse().map_err(|error: Q::Err| {
            let sentence = error.to_string();
            let (problem, help) = sentence.split_once("; ").unwrap_or((&sentence, ""));
            self.wrong_value(format!("`{}`: {problem}", self.key), help, &format!("{example:?}"))
        })
    }

    /// The value as a size such as `"9 KB"`, whose bytes must be in `range`.
    pub(super) fn bytes(&self, range: RangeInclusive<u64>, example: &str) -> Result<Bytes> {
        let bytes: Bytes = self.quantity(example)?;
        if range.contains(&bytes.0) {
            return Ok(bytes);
        }
        let (least, most) = (Bytes(*range.start()), Bytes(*range.end()));
        let message = format!("`{}` is out of range: {bytes}", self.key);
        Err(self.wrong_value(message, format!("accepted: {least} to {most}"), &format!("\"{} B\"", least.0)))
    }

    /// The value as a time of 0 or more, at most 30 days.
    pub(super) fn time(&self, example: &str) -> Result<Time> {
        let time: Time = self.quantity(example)?;
        if time > LONGEST {
            let message = format!("`{}` is too long: {time}", self.key);
            return Err(self.wrong_value(message, "accepted: at most 30 days", &format!("{example:?}")));
        }
        Ok(time)
    }

    /// The value as a time of more than 0, at most 30 days.
    pub(super) fn positive_time(&self, example: &str) -> Result<Time> {
        let time = self.time(example)?;
        if time == Time::ZERO {
            let help = format!("write a time of more than zero, for example {example:?}");
            return Err(self.wrong_value(format!("`{}` is zero", self.key), help, &format!("{example:?}")));
        }
        Ok(time)
    }

    /// The value as a rate of more than 0, at most 10 Tbps.
    pub(super) fn rate(&self) -> Result<BitRate> {
        let rate: BitRate = self.quantity("40 Gbps")?;
        if rate.as_bps() == 0 || rate > FASTEST {
            let message = format!("`{}` is out of range: {rate}", self.key);
            let help = format!("accepted: more than zero, at most {FASTEST}");
            return Err(self.wrong_value(message, help, "\"40 Gbps\""));
        }
        Ok(rate)
    }

    /// The elements of the value, which must be an array; `example` is a valid array for the error message.
    pub(super) fn array(&self, example: &str) -> Result<Vec<Item<'a>>> {
        let Value::Array(nodes) = &self.node.value else {
            return Err(self.kind_error("an array", example));
        };
        Ok(nodes.iter().map(|node| Item { documents: self.documents, key: self.key, node }).collect())
    }

    /// The strings of the value, which must be an array of strings that are not empty.
    pub(super) fn names(&self, example: &str) -> Result<Vec<String>> {
        let name = |item: &Item<'_>| {
            let refused = || {
                let message = match &item.node.value {
                    Value::String(_) => format!("`{}` has an empty name", self.key),
                    value => format!("`{}` must list names, not {}", self.key, value.kind()),
                };
                item.error(message, format!("write for example `{} = {example}`", self.key))
            };
            item.text().map(str::to_string).ok_or_else(refused)
        };
        self.array(example)?.iter().map(name).collect()
    }

    /// The tables of the value, which must be an array of tables, written as `[[header]]` in the file.
    pub(super) fn tables(&self, header: &str) -> Result<Vec<Table<'a>>> {
        let header = format!("[[{header}]]");
        if !self.is_array() {
            let message = format!("`{}` must be an array of tables, not {}", self.key, self.node.value.kind());
            return Err(self.error(message, format!("write `{header}`")));
        }
        self.array("[]")?.iter().map(|item| item.table(&header)).collect()
    }

    /// The value as a table, which error messages call `label`.
    pub(super) fn table(&self, label: &str) -> Result<Table<'a>> {
        match &self.node.value {
            Value::Table(entries) => {
                let label = label.to_string();
                Ok(Table { documents: self.documents, label, at: &self.node.at, entries })
            }
            Value::Array(_) => {
                let message = format!("`{}` must be one table, not an array", self.key);
                Err(self.error(message, table_help(label)))
            }
            other => {
                let message = format!("`{}` must be a table, not {}", self.key, other.kind());
                Err(self.error(message, table_help(label)))
            }
        }
    }
}

/// Keys that are sometimes written in another table, by the table that has them.
const HOMES: [(&str, &[&str]); 4] = [
    (
        "[fabric]",
        &["mtu", "rate", "delay", "topology", "paths", "frame_gap", "hosts", "clock_skew_ppm", "clock_jitter"],
    ),
    (
        "[fabric.switch]",
        &["buffer", "queueing", "xoff", "xon", "headroom", "ecn", "arbiter", "arbiter_quantum", "trim"],
    ),
    ("[traffic]", &["load", "sizes", "flows", "warmup", "pattern", "senders"]),
    ("[limits]", &["duration", "max_time", "stall_time"]),
];

fn table_help(label: &str) -> String {
    if label.starts_with('[') { format!("write `{label}`") } else { "write `{ key = value }`".to_string() }
}

/// The text "did you mean `NAME`? " with the name that is most similar to `given`; empty if no name is similar.
pub(super) fn did_you_mean(given: &str, names: &[&str]) -> String {
    similar(given, names).map_or(String::new(), |name| format!("did you mean `{name}`? "))
}

/// The name that is most similar to `given`; `None` if no name is similar.
fn similar<'n>(given: &str, names: &[&'n str]) -> Option<&'n str> {
    let given = given.to_lowercase();
    let likeness = |name: &str| strsim::normalized_damerau_levenshtein(&given, &name.to_lowercase());
    let best = names.iter().map(|name| (likeness(name), *name)).max_by(|a, b| a.0.total_cmp(&b.0));
    best.filter(|(likeness, _)| *likeness >= 0.6).map(|(_, name)| name)
}
