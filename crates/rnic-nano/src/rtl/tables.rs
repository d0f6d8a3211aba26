//! Match tables: which entry matches the keys, and the action that it selects.

use super::RtlError;
use super::flow::Builder;
use super::net::NodeId;
use crate::arithmetic;
use crate::hir::{BinaryOp, Entry, Pattern, SlotId, Table};
use std::collections::BTreeSet;

/// Minimum number of entries of a table in a memory of constants. Each entry of a smaller table has a comparison.
const MIN_ENTRIES: usize = 16;
/// Maximum width in bits of all keys of a table in a memory of constants: the memory has 4,096 words.
const MAX_KEY: u32 = 12;

/// How the entries of a table are found.
enum Matching {
    /// For each entry, the predicate that it matches first.
    Compared(Vec<NodeId>),
    /// In memories of constants, whose address is the table's keys one behind the other: the address, and that of each
    /// entry.
    Stored(NodeId, Vec<u128>),
}

impl Builder<'_> {
    pub(super) fn apply(&mut self, table: usize, hit: Option<SlotId>, action: Option<SlotId>) -> Result<(), RtlError> {
        let table = &self.pipeline.tables[table];
        let around = self.span.replace(table.span);
        let keys: Vec<NodeId> = table.keys.iter().map(|(key, _)| self.value(key)).collect();
        let matching = self.matching(table, &keys);
        let entries = |of: &dyn Fn(&Entry) -> u128| table.entries.iter().map(of).collect::<Vec<u128>>();
        let unmatched = self.net.constant(0, 1);
        let matched = self.of_entry(&matching, &entries(&|_| 1), (unmatched, 0), 1);
        let open = self.net.not(matched);
        if let Some(slot) = hit {
            self.assign(slot, matched);
        }
        if let Some(slot) = action {
            let width = self.pipeline.slots[slot.0 as usize].width;
            let otherwise = table.default.as_ref().map_or(table.actions.len(), |(action, _)| *action);
            let value =
                self.of_entry(&matching, &entries(&|entry| entry.action as u128), (open, otherwise as u128), width);
            self.assign(slot, value);
        }
        let none = if table.default.is_some() { self.net.constant(0, 1) } else { open };
        let mut after = self.net.and(self.alive, none);
        let branching = self.branching();
        for (index, action) in table.actions.iter().enumerate() {
            let default = table.default.as_ref().filter(|(action, _)| *action == index);
            let runs = entries(&|entry| u128::from(entry.action == index));
            let runs = self.of_entry(&matching, &runs, (open, u128::from(default.is_some())), 1);
            let before = self.alive;
            self.alive = self.net.and(before, runs);
            for (number, slot) in action.parameters.iter().enumerate() {
                let width = self.pipeline.slots[slot.0 as usize].width;
                let argument = |arguments: &[u128]| arguments.get(number).copied().unwrap_or_default();
                let mine = |entry: &Entry| if entry.action == index { argument(&entry.arguments) } else { 0 };
                let otherwise = default.map_or(0, |(_, arguments)| argument(arguments));
                let value = self.of_entry(&matching, &entries(&mine), (open, otherwise), width);
                self.assign(*slot, value);
            }
            self.branches.push((branching, index as u32));
            self.body(&action.body)?;
            self.branches.pop();
            after = self.net.or(after, self.alive);
            self.alive = before;
        }
        self.alive = after;
        self.span = around;
        Ok(())
    }

    /// Finds the entries of a table. Different exact entries never match together, so they need no order, and many of
    /// them with short keys are in memories.
    fn matching(&mut self, table: &Table, keys: &[NodeId]) -> Matching {
        let widths: Vec<u32> = keys.iter().map(|key| self.net.width(*key)).collect();
        let exact = exact(table, &widths);
        let is_short = widths.iter().sum::<u32>() <= MAX_KEY;
        if let (Some(values), Some((first, rest))) = (&exact, keys.split_first())
            && is_short
            && values.len() >= MIN_ENTRIES
        {
            let key = rest.iter().fold(*first, |all, key| self.net.binary(BinaryOp::Concat, all, *key));
            let address = |values: &Vec<u128>| {
                values
                    .iter()
                    .zip(&widths)
                    .fold(0, |all, (value, width)| all << width | value & arithmetic::ones(*width))
            };
            return Matching::Stored(key, values.iter().map(address).collect());
        }
        let mut open = self.net.constant(1, 1);
        let mut taken = Vec::new();
        for entry in &table.entries {
            let matches = self.all_match(&entry.keys, keys);
            if exact.is_some() {
                taken.push(matches);
                continue;
            }
            taken.push(self.net.and(open, matches));
            let other = self.net.not(matches);
            open = self.net.and(open, other);
        }
        Matching::Compared(taken)
    }

    /// The value of the entry that matches, of `values`, one for each entry; `otherwise` has the predicate that no
    /// entry matches, and the value then.
    fn of_entry(&mut self, matching: &Matching, values: &[u128], otherwise: (NodeId, u128), width: u32) -> NodeId {
        match matching {
            Matching::Compared(taken) => {
                let choices = taken.iter().copied().zip(values.iter().copied()).chain([otherwise]);
                self.one_of(&choices.collect::<Vec<_>>(), width)
            }
            Matching::Stored(key, addresses) => {
                let rows = addresses.iter().copied().zip(values.iter().copied()).collect();
                let stored = self.net.lookup(*key, rows, width);
                let other = self.one_of(&[otherwise], width);
                self.net.or(stored, other)
            }
        }
    }

    /// Whether any of some conditions holds: a tree, so that its depth grows with the logarithm of their number.
    pub(super) fn any(&mut self, mut conditions: Vec<NodeId>) -> NodeId {
        while conditions.len() > 1 {
            let pairs = conditions.chunks(2).map(|pair| match *pair {
                [a, b] => self.net.or(a, b),
                _ => pair[0],
            });
            conditions = pairs.collect();
        }
        conditions.pop().unwrap_or_else(|| self.net.constant(0, 1))
    }

    /// The value of the choice that holds, of which at most one does; 0 if none does.
    fn one_of(&mut self, choices: &[(NodeId, u128)], width: u32) -> NodeId {
        let zero = self.net.constant(0, width);
        let chosen: Vec<NodeId> = choices
            .iter()
            .map(|(holds, value)| {
                let value = self.net.constant(*value, width);
                self.net.mux(*holds, value, zero)
            })
            .filter(|value| *value != zero)
            .collect();
        if chosen.is_empty() { zero } else { self.any(chosen) }
    }
}

/// The values of the keys of each entry, if each entry compares all bits of all keys with other values: then at most
/// one of them matches.
fn exact(table: &Table, widths: &[u32]) -> Option<Vec<Vec<u128>>> {
    let value = |(pattern, width): (&Pattern, &u32)| match *pattern {
        Pattern::Masked { value, mask } if mask & arithmetic::ones(*width) == arithmetic::ones(*width) => Some(value),
        Pattern::Range { low, high } if low == high => Some(low),
        _ => None,
    };
    let values = |entry: &Entry| entry.keys.iter().zip(widths).map(value).collect::<Option<Vec<u128>>>();
    let all = table.entries.iter().map(values).collect::<Option<Vec<_>>>()?;
    let different: BTreeSet<&Vec<u128>> = all.iter().collect();
    let are_different = different.len() == all.len();
    are_different.then_some(all)
}
