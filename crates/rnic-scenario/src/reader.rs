//! A typed reader over a scenario's tree of TOML values. The declarations of settings ([`rnic_spec::settings`]) say
//! which keys a table has, and which values a key takes. A value that is missing or invalid becomes an error that
//! points at its position in the text.

use super::error::ScenarioError;
use super::renamed;
use super::tree::{At, Documents, Entry, Node, Repair, Value};
use rnic_spec::settings::{self, Preset, SECTIONS, Section, Setting};
use rnic_transport::settings::{DefaultValue, Kind, MAX_TIME, Parameter, Value as Declared};
use rnic_transport::{BitRate, Bytes, Time};
use serde::de::DeserializeOwned;
use std::path::Path;
use std::str::FromStr;

pub(super) type Result<T> = std::result::Result<T, ScenarioError>;

/// A value in the tree of a scenario, the key to which it belongs, and what this key takes.
#[derive(Clone, Copy)]
pub(super) struct Item<'a> {
    documents: &'a Documents,
    key: &'a str,
    node: &'a Node,
    kind: Kind,
    example: Example,
}

/// A valid value of a key, for error messages.
#[derive(Clone, Copy)]
enum Example {
    /// This TOML text.
    Text(&'static str),
    /// The default of a parameter.
    Default(DefaultValue),
    /// The value is an element of a list; the TOML text is a valid list.
    Element(&'static str),
}

impl Example {
    /// The example as TOML text.
    fn text(self) -> String {
        match self {
            Example::Text(text) | Example::Element(text) => text.to_string(),
            Example::Default(default) => match Declared::from(default) {
                quantity @ (Declared::Rate(_) | Declared::Time(_) | Declared::Bytes(_)) => format!("\"{quantity}\""),
                value => value.to_string(),
            },
        }
    }
}

/// A table in the tree of a scenario.
#[derive(Clone)]
pub(super) struct Table<'a> {
    documents: &'a Documents,
    /// Name of the table in error messages, for example `[fabric]` or `run "IRN"`.
    label: String,
    at: &'a At,
    entries: &'a [Entry],
    /// The declarations of the table's settings.
    section: &'static Section,
    /// The variant of the table that its selecting setting chooses; empty if the table has no variants.
    variant: &'a str,
}

/// One of several forms of a table: the value of one key, such as `transport`, determines which other keys the table
/// has.
pub(super) struct Variant<'k> {
    /// The value of the selecting key for this form of the table.
    pub(super) name: &'static str,
    /// The further keys that a table of this form has.
    pub(super) keys: &'k [&'static str],
}

/// A table without declared settings.
const UNDECLARED: &Section = &Section { table: "", document: "", selector: None, is_open: true, settings: &[] };

/// The type of a value that a declared setting has.
pub(super) trait Typed: Sized {
    /// The value as this type; `None` if the setting is declared with a kind of another type.
    fn of(value: Declared) -> Option<Self>;
}

impl Typed for Bytes {
    fn of(value: Declared) -> Option<Bytes> {
        if let Declared::Bytes(bytes) = value { Some(bytes) } else { None }
    }
}
impl Typed for Time {
    fn of(value: Declared) -> Option<Time> {
        if let Declared::Time(time) = value { Some(time) } else { None }
    }
}
impl Typed for BitRate {
    fn of(value: Declared) -> Option<BitRate> {
        if let Declared::Rate(rate) = value { Some(rate) } else { None }
    }
}
impl Typed for f64 {
    fn of(value: Declared) -> Option<f64> {
        if let Declared::Number(number) = value { Some(number) } else { None }
    }
}
impl Typed for u64 {
    fn of(value: Declared) -> Option<u64> {
        if let Declared::Count(count) = value { Some(count) } else { None }
    }
}
impl Typed for u32 {
    fn of(value: Declared) -> Option<u32> {
        u64::of(value)?.try_into().ok()
    }
}
impl Typed for u8 {
    fn of(value: Declared) -> Option<u8> {
        u64::of(value)?.try_into().ok()
    }
}
impl Typed for bool {
    fn of(value: Declared) -> Option<bool> {
        if let Declared::Flag(flag) = value { Some(flag) } else { None }
    }
}
impl Typed for String {
    fn of(value: Declared) -> Option<String> {
        if let Declared::Choice(text) = value { Some(text) } else { None }
    }
}

impl<'a> Table<'a> {
    /// The root table of a scenario's tree, whose keys are checked.
    pub(super) fn root(documents: &'a Documents, node: &'a Node) -> Result<Table<'a>> {
        let root = Item::new(documents, "the scenario", node).plain_table("the scenario")?;
        root.declared("")
    }

    /// The table `[name]` without keys, so that its settings have their defaults.
    fn empty(documents: &'a Documents, at: &'a At, name: &str) -> Result<Table<'a>> {
        let label = format!("[{name}]");
        Table { documents, label, at, entries: &[], section: UNDECLARED, variant: "" }.declared(name)
    }

    /// The same table with the declarations of the section called `name`, after a check of its keys. The keys of a
    /// section with further keys are not checked.
    pub(super) fn declared(mut self, name: &str) -> Result<Table<'a>> {
        self.section = settings::section(name).unwrap_or(UNDECLARED);
        if let Some(selector) = self.section.selector.filter(|selector| !selector.variants.is_empty()) {
            self.variant = match (self.get(selector.key), self.setting(selector.key).map(|setting| setting.default)) {
                (Some(item), _) => item.choice()?,
                (None, Some(Preset::Value(default))) => default,
                _ => self.require(selector.key)?.choice()?,
            };
        }
        if !self.section.is_open {
            self.accept_declared()?;
        }
        Ok(self)
    }

    /// Name of the table in error messages.
    pub(super) fn label(&self) -> &str {
        &self.label
    }

    /// The variant of the table that its selecting setting chooses, such as `fat-tree`.
    pub(super) fn variant(&self) -> &'a str {
        self.variant
    }

    /// Keys and values of the table, in the order of the text.
    pub(super) fn entries(&self) -> &'a [Entry] {
        self.entries
    }

    /// The declarations of the table's settings.
    pub(super) fn settings(&self) -> impl Iterator<Item = &'static Setting> {
        self.section.settings.iter().filter(|setting| setting.is_of(self.variant))
    }

    /// The declaration of a setting of the table.
    fn setting(&self, key: &str) -> Option<&'static Setting> {
        self.section.setting(key, self.variant)
    }

    /// The value of `key`; `None` if the table does not have the key.
    pub(super) fn get(&self, key: &str) -> Option<Item<'a>> {
        let entry = self.entries.iter().find(|entry| entry.key == key)?;
        let item = Item::new(self.documents, &entry.key, &entry.node);
        Some(self.setting(key).map_or(item, |setting| item.of(setting)))
    }

    /// The value of `key`, which is required.
    pub(super) fn require(&self, key: &str) -> Result<Item<'a>> {
        self.get(key).ok_or_else(|| {
            let line = match self.setting(key) {
                Some(Setting { kind: Kind::Table(table) | Kind::Either([Kind::Table(table), ..]), .. }) => {
                    format!("[{table}]")
                }
                setting => format!("{key} = {}", setting.map_or("", |setting| setting.example)),
            };
            self.missing(key, line)
        })
    }

    /// The error that `key` is missing. The TOML text `line` is a valid line with the key.
    fn missing(&self, key: &str, line: String) -> ScenarioError {
        let message = format!("`{key}` is missing in {}", self.label);
        let error = self.error(message, &format!("write for example `{line}`"));
        self.documents.repaired_by(Repair::Add { key: key.to_string(), line }, error)
    }

    /// The value of a parameter, which is required.
    pub(super) fn parameter(&self, parameter: &Parameter) -> Result<Item<'a>> {
        let missing = || self.missing(parameter.name, format!("{} = {}", parameter.name, parameter.kind.example()));
        self.get(parameter.name).map(|item| item.of_parameter(parameter)).ok_or_else(missing)
    }

    /// The value of a setting: the given value, or the declared default. A setting without either is missing.
    pub(super) fn value<T: Typed>(&self, key: &str) -> Result<T> {
        if let (None, Some(Setting { kind, default: Preset::Value(text), .. })) = (self.get(key), self.setting(key)) {
            let default = kind.parse(text).ok().and_then(T::of);
            return default.ok_or_else(|| self.error(format!("the default of `{key}` is invalid"), "give the key"));
        }
        self.require(key)?.typed()
    }

    /// The given value of a setting; `None` if the table does not have the key.
    pub(super) fn given<T: Typed>(&self, key: &str) -> Result<Option<T>> {
        self.get(key).map(|item| item.typed()).transpose()
    }

    /// The value of a setting that is one of several words, or the declared default, as the type that has these words
    /// in documents.
    pub(super) fn word<T: DeserializeOwned>(&self, key: &str) -> Result<T> {
        let word: String = self.value(key)?;
        serde_json::from_value(word.into())
            .map_err(|error| self.error_at(key, error.to_string(), "choose another word"))
    }

    /// The given value of a setting that is one of several words; `None` if the table does not have the key.
    pub(super) fn given_word<T: DeserializeOwned>(&self, key: &str) -> Result<Option<T>> {
        self.get(key).map(|_| self.word(key)).transpose()
    }

    /// The table of settings at `key`; `None` if the table does not have the key.
    pub(super) fn table(&self, key: &str) -> Result<Option<Table<'a>>> {
        self.get(key).map(|item| item.table()).transpose()
    }

    /// The table of settings at `key`, or a table without keys, whose settings have their defaults.
    pub(super) fn table_or_empty(&self, key: &str) -> Result<Table<'a>> {
        self.table(key)?.map_or_else(|| Table::empty(self.documents, self.at, key), Ok)
    }

    /// The tables of settings at `key`, written as `[[header]]` in the file; none if the table does not have the key.
    pub(super) fn tables(&self, key: &str) -> Result<Vec<Table<'a>>> {
        self.get(key).map_or(Ok(Vec::new()), |item| item.tables())
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

    /// Fails at the first key that is not a declared setting of the table in its variant.
    fn accept_declared(&self) -> Result<()> {
        let Some(selector) = self.section.selector.filter(|selector| !selector.variants.is_empty()) else {
            return self.accept(&self.section.keys(""));
        };
        let keys: Vec<(&'static str, Vec<&'static str>)> =
            selector.variants.iter().map(|variant| (variant.name, self.section.keys(variant.name))).collect();
        let variants: Vec<Variant<'_>> = keys.iter().map(|(name, keys)| Variant { name, keys }).collect();
        self.accept_variant(&[], selector.key, self.variant, &variants)
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
        let is_known = |setting: &Setting| setting.key == entry.key && setting.is_well_known;
        let mut homes = SECTIONS.into_iter().filter(|section| section.settings.iter().any(is_known));
        if let Some(home) = homes.next().filter(|home| format!("[{}]", home.table) != self.label) {
            let message = format!("`{}` is not a key of {}", entry.key, self.label);
            return self.documents.mistake(&entry.key_at, message, Some(format!("write it in [{}]", home.table)));
        }
        let message = format!("unknown key `{}` in {}", entry.key, self.label);
        let help = format!("{}accepted here: {}", did_you_mean(&entry.key, keys), keys.join(", "));
        self.documents.mistake(&entry.key_at, message, Some(help))
    }
}

impl<'a> Item<'a> {
    /// A reader for the value `node` of the key `key`, which takes any string.
    pub(super) fn new(documents: &'a Documents, key: &'a str, node: &'a Node) -> Item<'a> {
        Item { documents, key, node, kind: Kind::Title, example: Example::Text(Kind::Title.example()) }
    }

    /// The same value, as a value of the setting `setting`.
    pub(super) fn of(self, setting: &Setting) -> Item<'a> {
        Item { kind: setting.kind, example: Example::Text(setting.example), ..self }
    }

    /// The same value, as a value of `parameter` of a transport or congestion control.
    pub(super) fn of_parameter(self, parameter: &Parameter) -> Item<'a> {
        let example = parameter.default.map_or(Example::Text(parameter.kind.example()), Example::Default);
        Item { kind: parameter.kind, example, ..self }
    }

    /// The same value, as a value of `kind`, which narrows the declared kind to what other settings allow.
    pub(super) fn narrowed(self, kind: Kind) -> Item<'a> {
        Item { kind, ..self }
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

    fn kind_error(&self, wanted: &str) -> ScenarioError {
        let message = format!("`{}` must be {wanted}, not {}", self.key, self.node.value.kind());
        let help = format!("write for example `{} = {}`", self.key, self.example.text());
        self.wrong_value(message, help, &self.valid())
    }

    /// TOML text with a value of the declared kind.
    fn valid(&self) -> String {
        match (self.kind, self.example) {
            (Kind::Count { min, .. }, _) => min.to_string(),
            (kind, Example::Element(list)) if list.starts_with('[') => kind.example().to_string(),
            (_, example) => example.text(),
        }
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

    /// Whether the value is a string.
    pub(super) fn is_string(&self) -> bool {
        matches!(self.node.value, Value::String(_))
    }

    /// Whether the value is a table.
    pub(super) fn is_table(&self) -> bool {
        matches!(self.node.value, Value::Table(_))
    }

    /// The value as a string.
    pub(super) fn string(&self) -> Result<&'a str> {
        match &self.node.value {
            Value::String(text) => Ok(text),
            _ => Err(self.kind_error("a string")),
        }
    }

    /// The value as a string that is not empty.
    pub(super) fn name(&self) -> Result<&'a str> {
        let text = self.string()?;
        if text.trim().is_empty() {
            let example = self.valid();
            let (message, help) = (format!("`{}` is empty", self.key), format!("write for example {example}"));
            return Err(self.wrong_value(message, help, &example));
        }
        self.one_line(text)?;
        Ok(text)
    }

    /// Fails if the text has a line break or another control character: it would break tables and files of results.
    fn one_line(&self, text: &str) -> Result<()> {
        match text.chars().find(|character| character.is_control()) {
            None => Ok(()),
            Some(character) => {
                let what = if matches!(character, '\n' | '\r') { "a line break" } else { "a control character" };
                let message = format!("`{}` contains {what}", self.key);
                Err(self.wrong_value(message, "write one line of text", &self.valid()))
            }
        }
    }

    /// The value as one of the words that its setting takes.
    fn choice(&self) -> Result<&'static str> {
        match self.fitting() {
            Kind::Choice(words) => self.one_of(words),
            _ => Err(self.misdeclared()),
        }
    }

    /// The value as one of `names`; any other string is an error that lists them.
    pub(super) fn one_of(&self, names: &[&'static str]) -> Result<&'static str> {
        let example = format!("{:?}", names.first().copied().unwrap_or(""));
        let Value::String(text) = &self.node.value else {
            let message = format!("`{}` must be a string, not {}", self.key, self.node.value.kind());
            return Err(self.wrong_value(message, format!("write for example `{} = {example}`", self.key), &example));
        };
        let unknown = || {
            let quoted: Vec<String> = names.iter().map(|name| format!("\"{name}\"")).collect();
            let suggestion = did_you_mean(text, names);
            self.wrong_value(
                format!("unknown {} \"{text}\"", self.key),
                format!("{suggestion}available: {}", quoted.join(", ")),
                &similar(text, names).map_or(example.clone(), |name| format!("{name:?}")),
            )
        };
        names.iter().copied().find(|name| name == text).ok_or_else(unknown)
    }

    /// The declared kind of the value.
    pub(super) fn kind(&self) -> Kind {
        self.kind
    }

    /// The kind of the value: of several possible kinds the first that the value may be of, or the usual kind.
    fn fitting(&self) -> Kind {
        let Kind::Either(kinds) = self.kind else { return self.kind };
        let fits = |kind: &&Kind| match (&self.node.value, kind) {
            (Value::String(text), Kind::Choice(words)) => words.contains(&text.as_str()),
            (Value::String(_), kind) => {
                matches!(kind, Kind::Text | Kind::Rate) || kind.times().is_some() || kind.sizes().is_some()
            }
            (Value::Integer(_), kind) => matches!(kind, Kind::Count { .. } | Kind::Number { .. }),
            (Value::Boolean(_), kind) => matches!(kind, Kind::Flag),
            (Value::Array(_), kind) => matches!(kind, Kind::List(_) | Kind::Tables(_)),
            (Value::Table(_), kind) => matches!(kind, Kind::Table(_)),
            _ => false,
        };
        kinds.iter().find(fits).or(kinds.first()).copied().unwrap_or(self.kind)
    }

    /// The value as a type that suits its declared kind.
    pub(super) fn typed<T: Typed>(&self) -> Result<T> {
        T::of(self.value()?).ok_or_else(|| self.misdeclared())
    }

    /// The error that the declaration of the setting has another kind than its reader. Tests read every setting.
    fn misdeclared(&self) -> ScenarioError {
        self.error(format!("`{}` cannot be read", self.key), format!("accepted: {}", self.kind.range()))
    }

    /// The value, which must be of the declared kind and in its range.
    pub(super) fn value(&self) -> Result<Declared> {
        let item = self.narrowed(self.fitting());
        let value = match item.kind {
            Kind::Flag => match item.node.value {
                Value::Boolean(flag) => return Ok(Declared::Flag(flag)),
                _ => return Err(item.kind_error("true or false")),
            },
            Kind::Choice(words) => return item.one_of(words).map(Declared::choice),
            Kind::Title => {
                let title = item.string()?;
                item.one_line(title)?;
                return Ok(Declared::choice(title));
            }
            Kind::Text => return item.name().map(Declared::choice),
            Kind::Count { .. } => return item.count().map(Declared::Count),
            Kind::Number { .. } | Kind::NumberAbove { .. } | Kind::NumberBelow { .. } => {
                Declared::Number(item.number()?)
            }
            Kind::Rate => Declared::Rate(item.quantity()?),
            Kind::Bytes | Kind::Size { .. } => Declared::Bytes(item.quantity()?),
            Kind::Time | Kind::Timeout | Kind::Delay | Kind::Span { .. } => Declared::Time(item.quantity()?),
            Kind::Buffers | Kind::List(_) | Kind::Either(_) | Kind::Table(_) | Kind::Tables(_) => {
                return Err(item.misdeclared());
            }
        };
        if item.kind.accepts(&value) { Ok(value) } else { Err(item.out_of_range(&value)) }
    }

    /// The error that a value of the declared kind is out of range.
    fn out_of_range(&self, value: &Declared) -> ScenarioError {
        let (example, accepted) = (self.valid(), format!("accepted: {}", self.kind.range()));
        match (self.kind, value) {
            (Kind::Time | Kind::Timeout, Declared::Time(Time::ZERO)) => {
                let help = format!("write a time of more than zero, for example {example}");
                self.wrong_value(format!("`{}` is zero", self.key), help, &example)
            }
            (Kind::Time | Kind::Timeout | Kind::Delay, Declared::Time(time)) if *time > MAX_TIME => {
                let message = format!("`{}` is too long: {time}", self.key);
                self.wrong_value(message, "accepted: at most 30 days", &example)
            }
            (Kind::Timeout, Declared::Time(time)) => {
                let message = format!("`{}` is too short: {time}", self.key);
                self.wrong(message, format!("{accepted}, for example {example}"))
            }
            (Kind::Bytes | Kind::Size { .. }, _) => {
                let min = self.kind.sizes().map_or(0, |(min, _)| min);
                self.wrong_value(format!("`{}` is out of range: {value}", self.key), accepted, &format!("\"{min} B\""))
            }
            (Kind::Rate, _) => self.wrong_value(format!("`{}` is out of range: {value}", self.key), accepted, &example),
            (Kind::NumberAbove { .. } | Kind::NumberBelow { .. }, _) => {
                let message = format!("`{}` is out of range: {value}", self.key);
                self.wrong(message, format!("{accepted}, for example {example}"))
            }
            _ => self.wrong(format!("`{}` is out of range: {value}", self.key), accepted),
        }
    }

    fn count(&self) -> Result<u64> {
        let number = match self.node.value {
            Value::Integer(number) => number,
            // A whole number in another notation, such as 1e6.
            Value::Float(number) if number.fract() == 0.0 && (0.0..1e18).contains(&number) => {
                let message = format!("`{}` must be an integer, not a decimal number", self.key);
                let help = format!("write `{} = {number}`", self.key);
                return Err(self.wrong_value(message, help, &number.to_string()));
            }
            _ => return Err(self.kind_error("an integer")),
        };
        let accepted = u64::try_from(number).ok().filter(|number| self.kind.accepts(&Declared::Count(*number)));
        accepted.ok_or_else(|| {
            let message = format!("`{}` is out of range: {}", self.key, self.documents.text_at(&self.node.at));
            self.wrong_value(message, format!("accepted: {}", self.kind.range()), &self.valid())
        })
    }

    fn number(&self) -> Result<f64> {
        match self.node.value {
            Value::Integer(number) => Ok(number as f64),
            Value::Float(number) => Ok(number),
            _ => Err(self.kind_error("a number")),
        }
    }

    /// The value as a quantity: a string with a unit, such as `"2 us"`.
    fn quantity<Q: FromStr>(&self) -> Result<Q>
    where
        Q::Err: std::fmt::Display,
    {
        let text = match &self.node.value {
            Value::String(text) => text,
            Value::Integer(_) | Value::Float(_) => {
                let number = self.documents.text_at(&self.node.at);
                let message = format!("`{}` needs a unit, {number} has none", self.key);
                let help = format!("write a string with a unit, for example {}", self.valid());
                return Err(self.wrong_value(message, help, &self.valid()));
            }
            _ => return Err(self.kind_error("a string with a unit")),
        };
        text.parse().map_err(|error: Q::Err| {
            let sentence = error.to_string();
            let (problem, help) = sentence.split_once("; ").unwrap_or((&sentence, ""));
            self.wrong_value(format!("`{}`: {problem}", self.key), help, &self.valid())
        })
    }

    /// The elements of the value, which must be an array.
    pub(super) fn array(&self) -> Result<Vec<Item<'a>>> {
        let Value::Array(nodes) = &self.node.value else {
            return Err(self.kind_error("an array"));
        };
        let list = if let Example::Text(list) = self.example { list } else { "[]" };
        let (kind, example) = match self.fitting() {
            Kind::List(kind) => (*kind, Example::Element(list)),
            kind => (kind, self.example),
        };
        Ok(nodes.iter().map(|node| Item { node, kind, example, ..*self }).collect())
    }

    /// The strings of the value, which must be an array of strings that are not empty.
    pub(super) fn names(&self) -> Result<Vec<String>> {
        let name = |item: &Item<'_>| {
            let refused = || {
                let message = match &item.node.value {
                    Value::String(_) => format!("`{}` has an empty name", self.key),
                    value => format!("`{}` must list names, not {}", self.key, value.kind()),
                };
                item.error(message, format!("write for example `{} = {}`", self.key, self.example.text()))
            };
            let name = item.text().ok_or_else(refused)?;
            item.one_line(name)?;
            Ok(name.to_string())
        };
        self.array()?.iter().map(name).collect()
    }

    /// Name of the table of settings that the value is.
    fn section(&self) -> &'static str {
        let table = |kind: &Kind| match kind {
            Kind::Table(table) | Kind::Tables(table) => Some(*table),
            _ => None,
        };
        match &self.kind {
            Kind::Either(kinds) => kinds.iter().find_map(table),
            kind => table(kind),
        }
        .unwrap_or("")
    }

    /// The tables of settings of the value, which must be an array of tables, written as `[[header]]` in the file.
    pub(super) fn tables(&self) -> Result<Vec<Table<'a>>> {
        let name = self.section();
        let header = format!("[[{name}]]");
        if !self.is_array() {
            let message = format!("`{}` must be an array of tables, not {}", self.key, self.node.value.kind());
            return Err(self.error(message, format!("write `{header}`")));
        }
        self.array()?.iter().map(|item| item.plain_table(&header)?.declared(name)).collect()
    }

    /// The value as a table of settings, whose keys are checked.
    pub(super) fn table(&self) -> Result<Table<'a>> {
        let name = self.section();
        self.plain_table(&format!("[{name}]"))?.declared(name)
    }

    /// The table of settings for a value that turns on what the table describes, such as `trim = true`: a table without
    /// keys. `None` if the value is `false`.
    pub(super) fn table_if_on(&self) -> Result<Option<Table<'a>>> {
        if self.is_table() {
            return self.table().map(Some);
        }
        let is_on: bool = self.typed()?;
        is_on.then(|| Table::empty(self.documents, &self.node.at, self.section())).transpose()
    }

    /// The value as a table with any keys, which error messages call `label`.
    pub(super) fn plain_table(&self, label: &str) -> Result<Table<'a>> {
        match &self.node.value {
            Value::Table(entries) => {
                let (label, section) = (label.to_string(), UNDECLARED);
                Ok(Table { documents: self.documents, label, at: &self.node.at, entries, section, variant: "" })
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
