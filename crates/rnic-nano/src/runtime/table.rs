//! Match-action tables of a running P4 program: a table finds the action and its arguments for the key of a packet.
//!
//! Keys and arguments are lists of 64-bit words. A value of up to 64 bits is one word. A wider value is two words, and
//! its lower half comes first.

use crate::arithmetic::ones;
use crate::hir::{self, MatchKind, Pattern};
use std::cmp::Ordering;

/// Returns the 64-bit words of a value that has `width` bits.
pub(crate) fn words(value: u128, width: u32) -> impl Iterator<Item = u64> {
    std::iter::once(value as u64).chain((width > 64).then_some((value >> 64) as u64))
}

/// An entry of a table, in the form that lookups use.
#[derive(Clone, PartialEq, Eq, Debug)]
pub(crate) struct Row {
    /// The patterns of the entry, one for each key, as the program or the control plane gave them.
    pub(crate) keys: Vec<Pattern>,
    /// The priority of the entry. If several entries match, the table uses the entry with the largest priority.
    pub(crate) priority: u32,
    /// The index of the action that runs if the entry matches.
    pub(crate) action: usize,
    /// The arguments that the entry passes to the action.
    pub(crate) arguments: Vec<u128>,
    /// For each 64-bit word of the key, the bits that it must have where the corresponding word of `mask` is 1.
    value: Vec<u64>,
    mask: Vec<u64>,
    /// The patterns of the entry that are ranges. Each has the index of the key's first word, whether the key has two
    /// words, the smallest value and the largest value.
    ranges: Vec<(usize, bool, u128, u128)>,
    /// The arguments of the action as 64-bit words, for the virtual machine.
    pub(crate) words: Vec<u64>,
}

/// The lookup algorithm of a table.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
enum Search {
    /// All keys are `exact`, so the table uses binary search.
    Exact,
    /// One key is `lpm`, and the others are `exact`; the number is the index of the `lpm` key. Entries with longer
    /// prefixes come first, and the table uses the first matching entry.
    Prefix(usize),
    /// Entries are ordered by decreasing priority, and the table uses the first matching entry.
    Ordered,
}

/// A match-action table of the P4 program on one NIC.
#[derive(Clone, PartialEq, Eq, Debug)]
pub(crate) struct Table {
    search: Search,
    /// Whether the key of an entry is also the index of the entry. This is so if the table has a single `exact` key of
    /// one word, and the entries have the keys 0, 1, 2, and so on, as in a table of function values.
    dense: bool,
    pub(crate) rows: Vec<Row>,
    /// The index of the default action and its arguments; `None` if the table has no default action.
    pub(crate) default: Option<(usize, Vec<u128>)>,
    default_words: Vec<u64>,
    widths: Vec<u32>,
    parameters: Vec<Vec<u32>>,
}

/// The result of a lookup.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) struct Found<'a> {
    pub(crate) hit: bool,
    /// The index of the selected action and its arguments as 64-bit words; `None` if no entry matched and the table has
    /// no default action.
    pub(crate) action: Option<(usize, &'a [u64])>,
}

impl Table {
    /// Creates a table with the entries that the program declares. `parameters` has, for each action, the widths of its
    /// parameters in bits.
    pub(crate) fn new(table: &hir::Table, parameters: Vec<Vec<u32>>) -> Table {
        let kinds: Vec<MatchKind> = table.keys.iter().map(|(_, kind)| *kind).collect();
        let inexact: Vec<usize> = (0..kinds.len()).filter(|at| kinds[*at] != MatchKind::Exact).collect();
        let search = match inexact[..] {
            [] => Search::Exact,
            [at] if kinds[at] == MatchKind::Lpm => Search::Prefix(at),
            _ => Search::Ordered,
        };
        let widths = table.keys.iter().map(|(key, _)| key.width).collect();
        let mut made = Table {
            search,
            dense: false,
            rows: Vec::new(),
            default: None,
            default_words: Vec::new(),
            widths,
            parameters,
        };
        for entry in &table.entries {
            made.insert_row(entry.keys.clone(), 0, entry.action, entry.arguments.clone());
        }
        made.settle();
        made.set_default(table.default.clone());
        made
    }

    /// Adds an entry. The table must not have an entry with the same keys.
    pub(crate) fn insert(&mut self, keys: Vec<Pattern>, priority: u32, action: usize, arguments: Vec<u128>) {
        self.insert_row(keys, priority, action, arguments);
        self.settle();
    }

    fn insert_row(&mut self, keys: Vec<Pattern>, priority: u32, action: usize, arguments: Vec<u128>) {
        let row = self.row(keys, priority, action, arguments);
        let at = self.rows.partition_point(|other| self.order(other, &row) != Ordering::Greater);
        self.rows.insert(at, row);
    }

    /// Removes the entry at index `at`.
    pub(crate) fn remove(&mut self, at: usize) {
        self.rows.remove(at);
        self.settle();
    }

    /// Sets the table's default action and its arguments.
    pub(crate) fn set_default(&mut self, default: Option<(usize, Vec<u128>)>) {
        self.default_words = match &default {
            Some((action, arguments)) => self.argument_words(*action, arguments),
            None => Vec::new(),
        };
        self.default = default;
    }

    /// Replaces the action and the arguments of the entry at index `at`.
    pub(crate) fn modify(&mut self, at: usize, action: usize, arguments: Vec<u128>) {
        let words = self.argument_words(action, &arguments);
        let row = &mut self.rows[at];
        (row.action, row.arguments, row.words) = (action, arguments, words);
    }

    fn argument_words(&self, action: usize, arguments: &[u128]) -> Vec<u64> {
        let widths = &self.parameters[action];
        arguments.iter().zip(widths).flat_map(|(value, width)| words(*value, *width)).collect()
    }

    fn row(&self, keys: Vec<Pattern>, priority: u32, action: usize, arguments: Vec<u128>) -> Row {
        let mut value = Vec::new();
        let mut mask = Vec::new();
        let mut ranges = Vec::new();
        for (pattern, width) in keys.iter().zip(&self.widths) {
            let (of_value, of_mask) = match *pattern {
                Pattern::Masked { value, mask } => (value & mask, mask & ones(*width)),
                Pattern::Range { low, high } => {
                    ranges.push((value.len(), *width > 64, low, high));
                    (0, 0)
                }
            };
            value.extend(words(of_value, *width));
            mask.extend(words(of_mask, *width));
        }
        let words = self.argument_words(action, &arguments);
        Row { keys, priority, action, arguments, value, mask, ranges, words }
    }

    /// Compares two entries by the order in which the table must keep them.
    fn order(&self, a: &Row, b: &Row) -> Ordering {
        match self.search {
            Search::Exact => a.value.cmp(&b.value),
            Search::Prefix(at) => prefix(&b.keys[at]).cmp(&prefix(&a.keys[at])),
            Search::Ordered => b.priority.cmp(&a.priority),
        }
    }

    /// Looks up a key, given as 64-bit words.
    #[inline]
    pub(crate) fn find(&self, key: &[u64]) -> Found<'_> {
        let row = match self.search {
            Search::Exact => self.exact(key),
            _ => self.rows.iter().find(|row| row.matches(key)),
        };
        match row {
            Some(row) => Found { hit: true, action: Some((row.action, &row.words)) },
            None => Found {
                hit: false,
                action: self.default.as_ref().map(|(action, _)| (*action, &self.default_words[..])),
            },
        }
    }

    #[inline]
    fn exact(&self, key: &[u64]) -> Option<&Row> {
        if self.dense {
            return self.rows.get(usize::try_from(*key.first()?).ok()?);
        }
        self.rows.binary_search_by(|row| row.value[..].cmp(key)).ok().map(|at| &self.rows[at])
    }

    /// Updates the table's data structures for lookups after an entry was added or removed.
    fn settle(&mut self) {
        self.dense = self.search == Search::Exact && (0u64..).zip(&self.rows).all(|(at, row)| row.value == [at]);
    }
}

impl Row {
    #[inline]
    fn matches(&self, key: &[u64]) -> bool {
        let wrong = |((key, value), mask): ((&u64, &u64), &u64)| (key ^ value) & mask != 0;
        let inside = |&(at, wide, low, high): &(usize, bool, u128, u128)| {
            let upper = if wide { u128::from(key[at + 1]) << 64 } else { 0 };
            (low..=high).contains(&(upper | u128::from(key[at])))
        };
        !key.iter().zip(&self.value).zip(&self.mask).any(wrong) && self.ranges.iter().all(inside)
    }
}

/// Returns the length of the prefix in a pattern, in bits.
fn prefix(pattern: &Pattern) -> u32 {
    match pattern {
        Pattern::Masked { mask, .. } => mask.count_ones(),
        Pattern::Range { .. } => 0,
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::hir::{Expr, ExprKind};
    use proptest::prelude::*;

    /// Creates the declaration of a table. Its entries pass one argument of eight bits to their action.
    pub(crate) fn table(keys: &[(u32, MatchKind)], entries: Vec<hir::Entry>) -> hir::Table {
        let key = |&(width, kind): &(u32, MatchKind)| (Expr { width, kind: ExprKind::Const(0) }, kind);
        hir::Table {
            name: "t".into(),
            keys: keys.iter().map(key).collect(),
            actions: Vec::new(),
            default: None,
            default_const: false,
            entries,
            entries_const: false,
            size: 1024,
            span: Default::default(),
        }
    }

    fn entry(keys: Vec<Pattern>, number: usize) -> hir::Entry {
        hir::Entry { keys, action: 0, arguments: vec![number as u128] }
    }

    /// Reference implementation of a lookup: compares the entries in the given order, and returns the argument of the
    /// first matching entry.
    fn naive(entries: &[hir::Entry], keys: &[u128]) -> Option<u128> {
        let matches = |(pattern, key): (&Pattern, &u128)| match pattern {
            Pattern::Masked { value, mask } => key & mask == *value,
            Pattern::Range { low, high } => low <= key && key <= high,
        };
        let hit = entries.iter().find(|entry| entry.keys.iter().zip(keys).all(matches));
        hit.map(|entry| entry.arguments[0])
    }

    fn found(table: &Table, widths: &[u32], keys: &[u128]) -> Option<u128> {
        let key: Vec<u64> = keys.iter().zip(widths).flat_map(|(key, width)| words(*key, *width)).collect();
        let found = table.find(&key);
        assert_eq!(found.hit, found.action.is_some());
        found.action.map(|(_, arguments)| u128::from(arguments[0]))
    }

    /// Generates small numbers, so that entries often match. Some numbers lie in the upper bits of the key, to test the
    /// second word of a wide key.
    fn number(width: u32) -> impl Strategy<Value = u128> {
        (0u128..6, any::<bool>()).prop_map(move |(low, high)| if high { low << (width - 3) } else { low } & ones(width))
    }

    proptest! {
        #[test]
        fn exact_lookup_finds_the_equal_entry(
            entries in prop::collection::btree_set((number(8), number(100)), 0..30),
            keys in prop::collection::vec((number(8), number(100)), 1..30),
        ) {
            let exact = |value, width| Pattern::Masked { value, mask: ones(width) };
            let entries: Vec<_> = entries.iter().enumerate()
                .map(|(number, (a, b))| entry(vec![exact(*a, 8), exact(*b, 100)], number)).collect();
            let spec = table(&[(8, MatchKind::Exact), (100, MatchKind::Exact)], entries.clone());
            let table = Table::new(&spec, vec![vec![8]]);
            for (a, b) in keys {
                prop_assert_eq!(found(&table, &[8, 100], &[a, b]), naive(&entries, &[a, b]));
            }
        }

        #[test]
        fn ternary_lookup_finds_the_first_match(
            entries in prop::collection::vec((number(8), number(8), any::<bool>(), number(100)), 0..30),
            keys in prop::collection::vec((number(8), number(100)), 1..30),
        ) {
            let entries: Vec<_> = entries.iter().enumerate().map(|(number, &(a, b, range, c))| {
                let first = if range {
                    Pattern::Range { low: a.min(b), high: a.max(b) }
                } else {
                    Pattern::Masked { value: a & b, mask: b }
                };
                entry(vec![first, Pattern::Range { low: 1, high: c }], number)
            }).collect();
            let spec = table(&[(8, MatchKind::Ternary), (100, MatchKind::Ternary)], entries.clone());
            let table = Table::new(&spec, vec![vec![8]]);
            for (a, b) in keys {
                prop_assert_eq!(found(&table, &[8, 100], &[a, b]), naive(&entries, &[a, b]));
            }
        }

        #[test]
        fn the_longest_prefix_wins(
            entries in prop::collection::btree_map((any::<u8>(), 0u32..=8), any::<u8>(), 0..30),
            keys in prop::collection::vec(any::<u8>(), 1..30),
        ) {
            let prefix = |value: u8, length: u32| {
                let mask = ones(8) & !ones(8 - length);
                Pattern::Masked { value: u128::from(value) & mask, mask }
            };
            let mut entries: Vec<_> = entries.iter()
                .map(|((value, length), number)| entry(vec![prefix(*value, *length)], usize::from(*number))).collect();
            entries.dedup_by_key(|entry| entry.keys.clone());
            let spec = table(&[(8, MatchKind::Lpm)], entries.clone());
            let table = Table::new(&spec, vec![vec![8]]);
            entries.sort_by_key(|entry| std::cmp::Reverse(super::prefix(&entry.keys[0])));
            for key in keys {
                prop_assert_eq!(found(&table, &[8], &[key.into()]), naive(&entries, &[key.into()]));
            }
        }
    }
}
