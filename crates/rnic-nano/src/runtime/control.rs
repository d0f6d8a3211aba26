//! The control plane's access to the match-action tables of a P4 program that runs on a NIC.

use super::table::{Row, Table};
use crate::arithmetic::ones;
use crate::hir::{self, MatchKind, Pattern};
use std::sync::Arc;

/// The pattern with which an entry matches one key of a table, as the control plane gives it.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Key {
    /// The entry matches a single value. This pattern is allowed for every match kind.
    Exact(u128),
    /// The entry matches all values that have the given bits under the mask. This pattern is allowed for `ternary`
    /// keys.
    Ternary {
        /// The bits that the key must have under the mask. Bits outside the mask are ignored.
        value: u128,
        /// The mask: the bits that are 1 in it are compared.
        mask: u128,
    },
    /// The entry matches all values with the given prefix. This pattern is allowed for `lpm` keys.
    Lpm {
        /// The prefix, in the upper bits of the key's width. The bits after the prefix are ignored.
        value: u128,
        /// The length of the prefix in bits.
        length: u32,
    },
    /// The entry matches the values from `low` to `high`, inclusive. This pattern is allowed for `ternary` keys.
    Range {
        /// The smallest matching value.
        low: u128,
        /// The largest matching value.
        high: u128,
    },
    /// The entry matches every value. This pattern is allowed for `ternary` and `lpm` keys.
    Any,
}

/// An entry of a table, as the control plane reads it: a copy that does not change with the table.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Entry {
    /// The patterns that the entry matches, one for each key of the table.
    pub keys: Vec<Pattern>,
    /// The priority of the entry, in a table with a `ternary` key or several `lpm` keys. If several entries match, the
    /// table uses the entry with the largest priority and, among equal priorities, the oldest entry. In other tables
    /// the priority is 0.
    pub priority: u32,
    /// The name of the action that runs if the entry matches.
    pub action: String,
    /// The arguments that the entry passes to the action.
    pub arguments: Vec<u128>,
}

/// The reason why a table was not found or not changed.
#[derive(Clone, PartialEq, Eq, Debug, thiserror::Error)]
pub enum TableError {
    /// The program has no table of this name. Fields: the name, and the names of the program's tables.
    #[error("the program has no table '{0}'; its tables are: {1}")]
    UnknownTable(String, String),
    /// The table has no action of this name. Fields: the table, the name of the action, and the names of the table's
    /// actions.
    #[error("table '{0}' has no action '{1}'; its actions are: {2}")]
    UnknownAction(String, String, String),
    /// The entry has the wrong number of keys. Fields: the table, its number of keys, and the number of keys of the
    /// entry.
    #[error("table '{0}' has {1} keys, the entry has {2}")]
    KeyCount(String, usize, usize),
    /// The pattern for a key is not allowed for the match kind of the key. Fields: the table, the index of the key, its
    /// match kind, and the reason.
    #[error("key {1} of table '{0}' is {2}: {3}")]
    KeyKind(String, usize, &'static str, &'static str),
    /// A value has more bits than the key or parameter. Fields: the value, the width in bits, and a description of the
    /// key or parameter.
    #[error("{0} does not fit into the {1} bits of {2}")]
    TooWide(u128, u32, String),
    /// The entry has the wrong number of arguments. Fields: the action, its number of parameters, and the number of
    /// arguments of the entry.
    #[error("action '{0}' has {1} parameters, the entry has {2} arguments")]
    ArgumentCount(String, usize, usize),
    /// The table already has an entry with these keys. Field: the table.
    #[error("table '{0}' has an entry with these keys already")]
    Duplicate(String),
    /// The table has no entry with these keys. Field: the table.
    #[error("table '{0}' has no entry with these keys")]
    Missing(String),
    /// The table already has its maximum number of entries. Fields: the table, and that number.
    #[error("table '{0}' is full: it has {1} entries")]
    Full(String, u32),
    /// The program declares the entries or the default action of the table `const`, so they cannot change. Fields: the
    /// table, and which of the two is `const`.
    #[error("the {1} of table '{0}' is const")]
    Const(String, &'static str),
}

/// Read and write access to a match-action table of the P4 program on one NIC.
///
/// # Examples
/// A control plane removes an entry of a table; later packets with this key run the default action:
/// ```
/// use rnic_nano::runtime::Key;
/// use rnic_nano::source::SourceFile;
/// use rnic_nano::{NicParameters, P4Pipeline, compile};
///
/// let text = std::fs::read_to_string(concat!(env!("CARGO_MANIFEST_DIR"), "/../../p4/window.p4"))?;
/// let text = text.replace("const entries", "entries"); // entries that the control plane may change
/// let program = compile(SourceFile { name: "window.p4".into(), text }, &|_path| None, &[])?;
/// let mut pipeline = P4Pipeline::<64>::new(&program, &NicParameters::default())?;
///
/// let mut table = pipeline.table("kind")?;
/// assert_eq!(table.entries()[0].action, "data");
/// table.delete(&[Key::Exact(1)])?;
/// assert_eq!(table.entries().len(), 1);
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
#[derive(Debug)]
pub struct TableHandle<'a> {
    pub(crate) spec: &'a hir::Table,
    pub(crate) slots: &'a [hir::Slot],
    pub(crate) table: &'a mut Arc<Table>,
}

impl TableHandle<'_> {
    /// Returns the entries in the order in which the table compares them with a key.
    pub fn entries(&self) -> Vec<Entry> {
        let entry = |row: &Row| Entry {
            keys: row.keys.clone(),
            priority: row.priority,
            action: self.spec.actions[row.action].name.clone(),
            arguments: row.arguments.clone(),
        };
        self.table.rows.iter().map(entry).collect()
    }

    /// Adds an entry. [`Entry::priority`] describes the argument `priority`. Entries that the program declares have
    /// priority 0.
    ///
    /// # Errors
    /// The table is full, its entries are `const`, it already has an entry with these keys, or the keys, the action or
    /// the arguments do not suit the table.
    pub fn insert(&mut self, keys: &[Key], priority: u32, action: &str, arguments: &[u128]) -> Result<(), TableError> {
        let keys = self.changeable(keys)?;
        let action = self.action(action, arguments)?;
        let name = || self.spec.name.clone();
        if self.position(&keys).is_some() {
            return Err(TableError::Duplicate(name()));
        }
        if self.table.rows.len() >= self.spec.size as usize {
            return Err(TableError::Full(name(), self.spec.size));
        }
        Arc::make_mut(self.table).insert(keys, priority, action, arguments.to_vec());
        Ok(())
    }

    /// Replaces the action of the entry with these keys.
    ///
    /// # Errors
    /// The table has no entry with these keys, its entries are `const`, or the action or its arguments do not suit the
    /// table.
    pub fn modify(&mut self, keys: &[Key], action: &str, arguments: &[u128]) -> Result<(), TableError> {
        let keys = self.changeable(keys)?;
        let action = self.action(action, arguments)?;
        let at = self.position(&keys).ok_or_else(|| TableError::Missing(self.spec.name.clone()))?;
        Arc::make_mut(self.table).modify(at, action, arguments.to_vec());
        Ok(())
    }

    /// Removes the entry with these keys.
    ///
    /// # Errors
    /// The table has no entry with these keys, its entries are `const`, or the keys do not suit the table.
    pub fn delete(&mut self, keys: &[Key]) -> Result<(), TableError> {
        let keys = self.changeable(keys)?;
        let at = self.position(&keys).ok_or_else(|| TableError::Missing(self.spec.name.clone()))?;
        Arc::make_mut(self.table).remove(at);
        Ok(())
    }

    /// Sets the default action, which runs when no entry matches a packet's key.
    ///
    /// # Errors
    /// The default action is `const`, or the action or its arguments do not suit the table.
    pub fn set_default(&mut self, action: &str, arguments: &[u128]) -> Result<(), TableError> {
        if self.spec.default_const {
            return Err(TableError::Const(self.spec.name.clone(), "default action"));
        }
        let action = self.action(action, arguments)?;
        Arc::make_mut(self.table).set_default(Some((action, arguments.to_vec())));
        Ok(())
    }

    fn position(&self, keys: &[Pattern]) -> Option<usize> {
        self.table.rows.iter().position(|row| row.keys == keys)
    }

    /// Converts the keys of an entry to patterns. Returns an error if the entries are `const` or the keys do not suit
    /// the table.
    fn changeable(&self, keys: &[Key]) -> Result<Vec<Pattern>, TableError> {
        let name = || self.spec.name.clone();
        if self.spec.entries_const {
            return Err(TableError::Const(name(), "list of entries"));
        }
        if keys.len() != self.spec.keys.len() {
            return Err(TableError::KeyCount(name(), self.spec.keys.len(), keys.len()));
        }
        let pattern = |(at, (key, (expr, kind))): (usize, (&Key, &(hir::Expr, MatchKind)))| {
            self.pattern(at, *key, expr.width, *kind)
        };
        keys.iter().zip(&self.spec.keys).enumerate().map(pattern).collect()
    }

    fn pattern(&self, at: usize, key: Key, width: u32, kind: MatchKind) -> Result<Pattern, TableError> {
        let fits = |value: u128| match value & !ones(width) {
            0 => Ok(value),
            _ => Err(TableError::TooWide(value, width, format!("key {at} of table '{}'", self.spec.name))),
        };
        let wrong = |what, accepted| Err(TableError::KeyKind(self.spec.name.clone(), at, what, accepted));
        let (value, mask) = match (key, kind) {
            (Key::Exact(value), _) => (value, ones(width)),
            (Key::Ternary { value, mask }, MatchKind::Ternary) => (value, fits(mask)?),
            (Key::Lpm { value, length }, MatchKind::Lpm) if length <= width => {
                (value, ones(width) & !ones(width - length))
            }
            (Key::Range { low, high }, MatchKind::Ternary) if low <= high => {
                return Ok(Pattern::Range { low: fits(low)?, high: fits(high)? });
            }
            (Key::Any, MatchKind::Ternary | MatchKind::Lpm) => (0, 0),
            (Key::Lpm { .. }, MatchKind::Lpm) => return wrong("lpm", "the prefix is longer than the key"),
            (Key::Range { .. }, MatchKind::Ternary) => return wrong("ternary", "the range ends before it begins"),
            (_, MatchKind::Exact) => return wrong("exact", "only an exact value fits"),
            (_, MatchKind::Ternary) => return wrong("ternary", "a prefix does not fit"),
            (_, MatchKind::Lpm) => return wrong("lpm", "only a prefix or an exact value fits"),
        };
        Ok(Pattern::Masked { value: fits(value)? & mask, mask })
    }

    /// Returns the index of the action with this name. Returns an error if the table has no such action or the
    /// arguments do not suit its parameters.
    fn action(&self, name: &str, arguments: &[u128]) -> Result<usize, TableError> {
        let actions = &self.spec.actions;
        let index = actions.iter().position(|action| action.name == name).ok_or_else(|| {
            let names: Vec<&str> = actions.iter().map(|action| action.name.as_str()).collect();
            TableError::UnknownAction(self.spec.name.clone(), name.to_string(), names.join(", "))
        })?;
        let parameters = &actions[index].parameters;
        if parameters.len() != arguments.len() {
            return Err(TableError::ArgumentCount(name.to_string(), parameters.len(), arguments.len()));
        }
        for (slot, value) in parameters.iter().zip(arguments) {
            let slot = &self.slots[slot.0 as usize];
            if value & !ones(slot.width) != 0 {
                return Err(TableError::TooWide(*value, slot.width, format!("parameter '{}'", slot.name)));
            }
        }
        Ok(index)
    }
}
