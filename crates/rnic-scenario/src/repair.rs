//! Finds further mistakes of a scenario after the first one.
//!
//! A reader stops at the first mistake that it finds. [`Repairs`] then repairs this mistake in the scenario's tree, for
//! example by removing an unknown key, and the scenario is read again. So each reading finds one more mistake. A repair
//! is only a stand-in: a mistake that may be the consequence of a repair is repaired too, but not reported.

use super::error::{Mistake, ScenarioError};
use super::tree::{At, Documents, Entry, Node, Repair, Value};
use rnic_spec::settings::SECTIONS;
use std::collections::BTreeSet;

/// Maximum number of readings of a scenario.
const READINGS: usize = 100;

/// The mistakes found so far, and the repairs of the tree.
#[derive(Default)]
pub(super) struct Repairs {
    /// The mistakes to report.
    found: Vec<Found>,
    /// Positions of values that were replaced.
    replaced: Vec<At>,
    /// Keys that are missing because of another mistake.
    excused: BTreeSet<String>,
    readings: usize,
}

/// A mistake to report.
struct Found {
    /// Position of the mistake, by which the mistakes are sorted.
    order: (usize, usize),
    /// If the mistake is that a key is missing: the key.
    missing: Option<String>,
    mistake: Mistake,
}

impl Repairs {
    /// Repairs the mistake `error` in `tree`, so that the scenario can be read again for further mistakes. Otherwise,
    /// returns the error of the whole scenario.
    pub(super) fn repair(
        &mut self, documents: &Documents, tree: &mut Node, error: ScenarioError,
    ) -> Result<(), ScenarioError> {
        let mistake = match error {
            ScenarioError::Mistake(mistake) => mistake,
            error if self.found.is_empty() => return Err(error),
            _ => return Err(self.error()),
        };
        let Some((at, repair)) = documents.repair_of(&mistake) else {
            if self.found.is_empty() {
                self.found.push(Found { order: (0, 0), missing: None, mistake: *mistake });
            }
            return Err(self.error());
        };
        let first = self.readings == 0;
        self.readings += 1;
        let (caused_elsewhere, is_repaired) = match &repair {
            Repair::Conflict => (!first, self.remove_value(tree, &at)),
            Repair::Remove => (false, self.remove_value(tree, &at) || remove_key(tree, &at)),
            // A replacement that is a mistake too is removed.
            Repair::Replace(_) if self.replaced.contains(&at) => (true, self.remove_value(tree, &at)),
            Repair::Replace(text) => (false, self.replace(tree, &at, text)),
            Repair::Forget { selector, meant } => {
                self.excused.extend(meant.iter().cloned());
                let is_stand_in = |at: &At| self.replaced.contains(at) || at.is_nowhere();
                (selector.as_ref().is_some_and(is_stand_in), remove_key(tree, &at))
            }
            Repair::Add { key, line } => {
                let table = find(tree, &at, &|node| matches!(node.value, Value::Table(_)));
                let silent =
                    self.excused.contains(key) || table.as_deref().is_some_and(|table| self.is_of_stand_in(table));
                // Two runs with the same name would be a further mistake.
                let name = format!("name = \"unnamed {}\"", self.readings);
                let line = if key == "name" { &name } else { line };
                (silent, table.is_some_and(|table| add(table, line)))
            }
        };
        if !caused_elsewhere && !at.is_nowhere() {
            if let Repair::Forget { meant, .. } = &repair {
                // A key that was reported as missing is misspelt.
                self.found.retain(|found| found.missing.as_ref().is_none_or(|missing| !meant.contains(missing)));
            }
            let missing = if let Repair::Add { key, .. } = repair { Some(key) } else { None };
            self.found.push(Found { order: at.order(), missing, mistake: *mistake });
        }
        if is_repaired && self.readings < READINGS { Ok(()) } else { Err(self.error()) }
    }

    /// Whether any mistake was found.
    pub(super) fn is_empty(&self) -> bool {
        self.readings == 0
    }

    /// The error of the scenario: all mistakes, in the order of the text.
    pub(super) fn error(&mut self) -> ScenarioError {
        let mut found = std::mem::take(&mut self.found);
        found.sort_by_key(|found| found.order);
        ScenarioError::of(found.into_iter().map(|found| found.mistake).collect())
    }

    /// Removes the value at the position `at`: an element of an array that has others, or a whole entry.
    fn remove_value(&mut self, tree: &mut Node, at: &At) -> bool {
        if remove_element(tree, at) {
            return true;
        }
        let removed = remove(tree, &|entry| match &entry.node.value {
            Value::Table(_) => false,
            Value::Array(nodes) => entry.node.at == *at || nodes.iter().any(|node| is_value(node, at)),
            _ => entry.node.at == *at,
        });
        removed.map(|entry| self.excused.insert(entry.key)).is_some()
    }

    /// Replaces the value at the position `at`.
    fn replace(&mut self, tree: &mut Node, at: &At, text: &str) -> bool {
        let (Some(node), Some(value)) = (find(tree, at, &|_| true), parse(&format!("value = {text}"))) else {
            return false;
        };
        node.value = value.node.value;
        self.replaced.push(at.clone());
        true
    }

    /// Whether a stand-in determines which keys the table has.
    fn is_of_stand_in(&self, table: &Node) -> bool {
        let Value::Table(entries) = &table.value else { return false };
        let selects = |key: &str| SECTIONS.iter().any(|section| section.selector.is_some_and(|one| one.key == key));
        entries
            .iter()
            .any(|entry| selects(&entry.key) && (entry.node.at.is_nowhere() || self.replaced.contains(&entry.node.at)))
    }
}

/// The first entry of a TOML text, with positions that are nowhere.
fn parse(text: &str) -> Option<Entry> {
    let mut documents = Documents::default();
    let document = documents.add_file("", text, "".as_ref());
    let Value::Table(mut entries) = documents.parse(document).ok()?.value else { return None };
    let mut entry = entries.drain(..).next()?;
    entry.key_at = At::nowhere();
    forget_positions(&mut entry.node);
    Some(entry)
}

fn forget_positions(node: &mut Node) {
    node.at = At::nowhere();
    match &mut node.value {
        Value::Array(nodes) => nodes.iter_mut().for_each(forget_positions),
        Value::Table(entries) => entries.iter_mut().for_each(|entry| {
            entry.key_at = At::nowhere();
            forget_positions(&mut entry.node);
        }),
        _ => {}
    }
}

/// Adds a line of TOML text to a table. A line that begins a whole table is not added, because the keys of this table
/// would be missing too.
fn add(table: &mut Node, line: &str) -> bool {
    match (&mut table.value, parse(line)) {
        (Value::Table(entries), Some(entry)) if !matches!(entry.node.value, Value::Table(_)) => {
            entries.push(entry);
            true
        }
        _ => false,
    }
}

/// The first node at the position `at` that `wanted` accepts. An array of tables has the position of its first table.
fn find<'n>(node: &'n mut Node, at: &At, wanted: &dyn Fn(&Node) -> bool) -> Option<&'n mut Node> {
    if node.at == *at && wanted(node) {
        return Some(node);
    }
    match &mut node.value {
        Value::Array(nodes) => nodes.iter_mut().find_map(|node| find(node, at, wanted)),
        Value::Table(entries) => entries.iter_mut().find_map(|entry| find(&mut entry.node, at, wanted)),
        _ => None,
    }
}

/// Whether this is the value at the position `at`, and no table.
fn is_value(node: &Node, at: &At) -> bool {
    node.at == *at && !matches!(node.value, Value::Table(_))
}

/// Removes the value at the position `at` from its array, if the array has other elements.
fn remove_element(node: &mut Node, at: &At) -> bool {
    match &mut node.value {
        Value::Array(nodes) => match nodes.iter().position(|node| is_value(node, at)).filter(|_| nodes.len() > 1) {
            Some(index) => {
                nodes.remove(index);
                true
            }
            None => nodes.iter_mut().any(|node| remove_element(node, at)),
        },
        Value::Table(entries) => entries.iter_mut().any(|entry| remove_element(&mut entry.node, at)),
        _ => false,
    }
}

fn remove_key(tree: &mut Node, at: &At) -> bool {
    remove(tree, &|entry| entry.key_at == *at).is_some()
}

/// Removes the first entry that `wanted` accepts.
fn remove(node: &mut Node, wanted: &dyn Fn(&Entry) -> bool) -> Option<Entry> {
    match &mut node.value {
        Value::Array(nodes) => nodes.iter_mut().find_map(|node| remove(node, wanted)),
        Value::Table(entries) => match entries.iter().position(wanted) {
            Some(index) => Some(entries.remove(index)),
            None => entries.iter_mut().find_map(|entry| remove(&mut entry.node, wanted)),
        },
        _ => None,
    }
}
