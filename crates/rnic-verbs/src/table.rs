//! A table that finds the objects of a device by their handles. The handle of a removed object finds no object, even if
//! another object takes its slot in the table.

use slab::Slab;

/// The handle of an entry in a [`Table`]: the entry's slot, and a generation number. No earlier entry in the same slot
/// had this generation number (until 2^32 entries were inserted).
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug)]
pub(crate) struct Id {
    index: u32,
    generation: u32,
}

impl Id {
    /// A handle of no entry: its slot is beyond the largest table.
    pub(crate) const NONE: Id = Id { index: u32::MAX, generation: 0 };
}

/// A table that finds entries by their handles. Each entry has a generation number, with which its handle is compared.
pub(crate) struct Table<T> {
    entries: Slab<(u32, T)>,
    generations: u32,
}

impl<T> Table<T> {
    pub(crate) fn new() -> Table<T> {
        Table { entries: Slab::new(), generations: 0 }
    }

    pub(crate) fn len(&self) -> usize {
        self.entries.len()
    }

    pub(crate) fn insert(&mut self, value: T) -> Id {
        let generation = self.generations;
        self.generations = generation.wrapping_add(1);
        Id { index: self.entries.insert((generation, value)) as u32, generation }
    }

    #[inline]
    pub(crate) fn get(&self, id: Id) -> Option<&T> {
        self.entries.get(id.index as usize).filter(|entry| entry.0 == id.generation).map(|entry| &entry.1)
    }

    #[inline]
    pub(crate) fn get_mut(&mut self, id: Id) -> Option<&mut T> {
        self.entries.get_mut(id.index as usize).filter(|entry| entry.0 == id.generation).map(|entry| &mut entry.1)
    }

    pub(crate) fn remove(&mut self, id: Id) -> Option<T> {
        self.get(id)?;
        self.entries.try_remove(id.index as usize).map(|entry| entry.1)
    }

    pub(crate) fn values(&self) -> impl Iterator<Item = &T> {
        self.entries.iter().map(|(_, entry)| &entry.1)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_handle_of_a_removed_entry_finds_nothing() {
        let mut table = Table::new();
        let old = table.insert('a');
        assert_eq!(table.remove(old), Some('a'));
        let new = table.insert('b');
        assert_eq!(new.index, old.index);
        assert_eq!(table.get(old), None);
        assert_eq!(table.get_mut(old), None);
        assert_eq!(table.remove(old), None);
        assert_eq!((table.get(new), table.len()), (Some(&'b'), 1));
    }
}
