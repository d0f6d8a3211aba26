//! What a control plane does with a NIC's tables while it runs.

use super::table::{Row, Table};
use crate::arithmetic::ones;
use crate::hir::{self, MatchKind, Pattern};
use std::sync::Arc;

/// What a key of an entry matches.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Key {
    /// This value. For every kind of key.
    Exact(u128),
    /// The values with these bits under the mask. For ternary keys.
    Ternary {
        /// The bits; those outside the mask do not matter.
        value: u128,
        /// Which bits matter.
        mask: u128,
    },
    /// The values that begin with these bits. For lpm keys.
    Lpm {
        /// The bits; those after the prefix do not matter.
        value: u128,
        /// How many of the first bits matter.
        length: u32,
    },
    /// The values from `low` to `high`. For ternary keys.
    Range {
        /// Least.
        low: u128,
        /// Greatest.
        high: u128,
    },
    /// Every value. For ternary and lpm keys.
    Any,
}

/// An entry, as it is read.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Entry {
    /// What it matches.
    pub keys: Vec<Pattern>,
    /// The greater goes first; of equal ones, the older. Only in tables with a ternary key or several lpm keys.
    pub priority: u32,
    /// Its action.
    pub action: String,
    /// The action's arguments.
    pub arguments: Vec<u128>,
}

/// Why a table was not changed.
#[derive(Clone, PartialEq, Eq, Debug, thiserror::Error)]
pub enum TableError {
    /// There is none of this name.
    #[error("the program has no table '{0}'; its tables are: {1}")]
    UnknownTable(String, String),
    /// The table has none of this name.
    #[error("table '{0}' has no action '{1}'; its actions are: {2}")]
    UnknownAction(String, String, String),
    /// Number of keys.
    #[error("table '{0}' has {1} keys, the entry has {2}")]
    KeyCount(String, usize, usize),
    /// A key of a kind that does not fit.
    #[error("key {1} of table '{0}' is {2}: {3}")]
    KeyKind(String, usize, &'static str, &'static str),
    /// A value that has no room.
    #[error("{0} does not fit into the {1} bits of {2}")]
    TooWide(u128, u32, String),
    /// Number of arguments.
    #[error("action '{0}' has {1} parameters, the entry has {2} arguments")]
    ArgumentCount(String, usize, usize),
    /// There is one already.
    #[error("table '{0}' has an entry with these keys already")]
    Duplicate(String),
    /// There is none.
    #[error("table '{0}' has no entry with these keys")]
    Missing(String),
    /// As many entries as it may have.
    #[error("table '{0}' is full: it has {1} entries")]
    Full(String, u32),
    /// The program forbids it.
    #[error("the {1} of table '{0}' is const")]
    Const(String, &'static str),
}

/// A table of one NIC, to be read and changed.
#[derive(Debug)]
pub struct TableHandle<'a> {
    pub(crate) spec: &'a hir::Table,
    pub(crate) slots: &'a [hir::Slot],
    pub(crate) table: &'a mut Arc<Table>,
}

impl TableHandle<'_> {
    /// Its entries, in the order in which they are looked at.
    pub fn entries(&self) -> Vec<Entry> {
        let entry = |row: &Row| Entry {
            keys: row.keys.clone(),
            priority: row.priority,
            action: self.spec.actions[row.action].name.clone(),
            arguments: row.arguments.clone(),
        };
        self.table.rows.iter().map(entry).collect()
    }

    /// Adds an entry. `priority`: see [`Entry::priority`]; the program's own entries have 0.
    pub fn insert(&mut self, keys: &[Key], priority: u32, action: &str, arguments: &[u128]) -> Result<(), TableError> {
        let (keys, action) = (self.changeable(keys)?, self.action(action, arguments)?);
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

    /// Gives the entry with these keys another action.
    pub fn modify(&mut self, keys: &[Key], action: &str, arguments: &[u128]) -> Result<(), TableError> {
        let (keys, action) = (self.changeable(keys)?, self.action(action, arguments)?);
        let at = self.position(&keys).ok_or_else(|| TableError::Missing(self.spec.name.clone()))?;
        Arc::make_mut(self.table).modify(at, action, arguments.to_vec());
        Ok(())
    }

    /// Removes the entry with these keys.
    pub fn delete(&mut self, keys: &[Key]) -> Result<(), TableError> {
        let keys = self.changeable(keys)?;
        let at = self.position(&keys).ok_or_else(|| TableError::Missing(self.spec.name.clone()))?;
        Arc::make_mut(self.table).remove(at);
        Ok(())
    }

    /// Says what runs when no entry matches.
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

    /// The keys as patterns, if the table may be changed.
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

    /// The index of an action that takes these arguments.
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
