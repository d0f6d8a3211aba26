//! State primitives: what a program keeps between packets. Native programs and P4 programs use the same ones.
//!
//! Register arrays grow as they are written; what was never written is 0. A simulated NIC that has seen few messages is small.

/// What a predicated register does with its entry.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Op {
    /// Leaves it.
    Read,
    /// Replaces it by the operand.
    Write,
    /// Adds the operand, modulo 2^64.
    Add,
}

#[inline]
fn entry(values: &mut Vec<u64>, at: usize) -> &mut u64 {
    if at >= values.len() {
        values.resize((at + 1).next_power_of_two(), 0);
    }
    &mut values[at]
}

/// `ifElseRaw`: a register array in which a predicate picks one of two operations, and which returns what the entry is then.
#[derive(Clone, Debug, Default)]
pub struct IfElseRaw {
    values: Vec<u64>,
}

impl IfElseRaw {
    /// Does `then` with its operand if `predicate` holds, else `otherwise` with its own; returns the new value.
    #[inline]
    pub fn apply(&mut self, at: usize, predicate: bool, then: (Op, u64), otherwise: (Op, u64)) -> u64 {
        let (op, operand) = if predicate { then } else { otherwise };
        match op {
            Op::Read => self.values.get(at).copied().unwrap_or(0),
            Op::Write => {
                *entry(&mut self.values, at) = operand;
                operand
            }
            Op::Add => {
                let value = entry(&mut self.values, at);
                *value = value.wrapping_add(operand);
                *value
            }
        }
    }
}

/// A register array that two stages, or the two pipelines, use: one reads, one writes.
#[derive(Clone, Debug, Default)]
pub struct DualPort {
    values: Vec<u64>,
}

impl DualPort {
    /// The entry's value.
    #[inline]
    pub fn read(&self, at: usize) -> u64 {
        self.values.get(at).copied().unwrap_or(0)
    }

    /// Replaces the entry's value.
    #[inline]
    pub fn write(&mut self, at: usize, value: u64) {
        *entry(&mut self.values, at) = value;
    }
}

/// What a scheduler compares.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct Entry {
    /// Whose it is: the local number of a message.
    pub id: u16,
    /// The least goes first; of equal ones, the lesser `id`.
    pub rank: u32,
    /// What has been granted.
    pub granted: u32,
    /// What may be granted.
    pub grantable: u32,
}

impl Entry {
    #[inline]
    fn key(&self) -> (u32, u16) {
        (self.rank, self.id)
    }
}

/// What a scheduler chose.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Selected {
    /// Whose entry it is.
    pub id: u16,
    /// Entries that go before it, of those compared.
    pub level: u32,
    /// What is granted now.
    pub credit: u32,
}

/// Where the entry of an id is.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
enum Place {
    #[default]
    Nowhere,
    /// Compared with the others.
    Compared,
    /// In the FIFO.
    Waiting,
}

/// An id's place, and its entry while that waits.
#[derive(Clone, Copy, Debug, Default)]
struct Home {
    place: Place,
    /// The FIFO still holds the id, whether it waits or not.
    in_fifo: bool,
    entry: Entry,
}

/// The priority scheduler: compares up to 16 entries at once; those for which there is no room wait in a FIFO.
#[derive(Clone, Debug, Default)]
pub struct PriorityScheduler {
    /// In order: software has no 16 comparators, but an update seldom moves an entry far.
    compared: [Entry; PriorityScheduler::COMPARED],
    count: usize,
    fifo: std::collections::VecDeque<u16>,
    /// By id.
    homes: Vec<Home>,
}

impl PriorityScheduler {
    /// Entries that are compared at once.
    pub const COMPARED: usize = 16;

    /// Inserts the entry, or puts it in the place of the one with the same id.
    pub fn upsert(&mut self, entry: Entry) {
        let id = usize::from(entry.id);
        if id >= self.homes.len() {
            self.homes.resize((id + 1).next_power_of_two(), Home::default());
        }
        let home = &mut self.homes[id];
        match home.place {
            Place::Compared => {
                let at = self.find(entry.id);
                self.put(at, entry);
            }
            Place::Waiting => home.entry = entry,
            Place::Nowhere if self.count < Self::COMPARED => {
                home.place = Place::Compared;
                self.count += 1;
                self.put(self.count - 1, entry);
            }
            Place::Nowhere => {
                (home.place, home.entry) = (Place::Waiting, entry);
                if !home.in_fifo {
                    home.in_fifo = true;
                    self.fifo.push_back(entry.id);
                }
            }
        }
    }

    /// The entry of `id`, if there is one.
    pub fn get(&self, id: u16) -> Option<Entry> {
        let home = self.homes.get(usize::from(id))?;
        match home.place {
            Place::Nowhere => None,
            Place::Waiting => Some(home.entry),
            Place::Compared => Some(self.compared[self.find(id)]),
        }
    }

    fn find(&self, id: u16) -> usize {
        let at = self.compared[..self.count].iter().position(|entry| entry.id == id);
        at.expect("an id whose place is among the compared entries has one")
    }

    /// Puts the entry at `at` and moves it to where it belongs.
    fn put(&mut self, mut at: usize, entry: Entry) {
        let compared = &mut self.compared[..self.count];
        while at > 0 && entry.key() < compared[at - 1].key() {
            compared[at] = compared[at - 1];
            at -= 1;
        }
        while at + 1 < compared.len() && compared[at + 1].key() < entry.key() {
            compared[at] = compared[at + 1];
            at += 1;
        }
        compared[at] = entry;
    }

    /// Removes the entry of `id`, if there is one. The first in the FIFO takes the room.
    pub fn remove(&mut self, id: u16) {
        let Some(home) = self.homes.get_mut(usize::from(id)) else { return };
        let place = std::mem::take(&mut home.place);
        if place != Place::Compared {
            return;
        }
        let at = self.find(id);
        self.compared.copy_within(at + 1..self.count, at);
        self.count -= 1;
        while let Some(next) = self.fifo.pop_front() {
            let home = &mut self.homes[usize::from(next)];
            home.in_fifo = false;
            if home.place == Place::Waiting {
                home.place = Place::Compared;
                let entry = home.entry;
                self.count += 1;
                self.put(self.count - 1, entry);
                return;
            }
        }
    }

    /// Of the entries compared with `granted` < `grantable`, the one that goes first, if fewer than `levels` of all go before it. What may be
    /// granted to it is granted.
    pub fn select(&mut self, levels: u32) -> Option<Selected> {
        let compared = self.compared[..self.count].iter_mut().take(levels as usize);
        let (level, entry) = compared.enumerate().find(|(_, entry)| entry.granted < entry.grantable)?;
        entry.granted = entry.grantable;
        Some(Selected { id: entry.id, level: level as u32, credit: entry.granted })
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    #[test]
    fn a_predicate_picks_the_operation() {
        let mut register = IfElseRaw::default();
        assert_eq!(register.apply(9, false, (Op::Write, 1), (Op::Read, 5)), 0, "never written");
        assert_eq!(register.apply(9, true, (Op::Write, 10), (Op::Add, 1)), 10);
        assert_eq!(register.apply(9, false, (Op::Write, 10), (Op::Add, 1)), 11);
        assert_eq!(register.apply(9, true, (Op::Read, 7), (Op::Add, 1)), 11);
        assert_eq!(register.apply(9, true, (Op::Add, u64::MAX), (Op::Read, 0)), 10, "modulo 2^64");
        assert_eq!(register.apply(8, true, (Op::Read, 0), (Op::Read, 0)), 0);
    }

    #[test]
    fn two_ports_of_one_memory() {
        let mut register = DualPort::default();
        register.write(65_534, 3);
        assert_eq!((register.read(65_534), register.read(0), register.read(1 << 20)), (3, 0, 0));
    }

    fn entry(id: u16, rank: u32, granted: u32, grantable: u32) -> Entry {
        Entry { id, rank, granted, grantable }
    }

    fn select(scheduler: &mut PriorityScheduler, levels: u32) -> Option<(u16, u32, u32)> {
        scheduler.select(levels).map(|chosen| (chosen.id, chosen.level, chosen.credit))
    }

    #[test]
    fn the_first_that_can_be_granted_within_the_levels() {
        let mut scheduler = PriorityScheduler::default();
        assert_eq!(scheduler.select(3), None);
        scheduler.upsert(entry(5, 20, 9, 10));
        scheduler.upsert(entry(2, 10, 9, 9)); // goes first, but has all that it can get
        scheduler.upsert(entry(7, 20, 9, 12));
        assert_eq!(select(&mut scheduler, 1), None, "the first that can be granted is at level 1");
        assert_eq!(select(&mut scheduler, 2), Some((5, 1, 10)));
        assert_eq!(select(&mut scheduler, 2), None, "the next is at level 2");
        assert_eq!(select(&mut scheduler, 3), Some((7, 2, 12)));
        assert_eq!(select(&mut scheduler, 3), None);
        scheduler.upsert(entry(7, 1, 12, 13));
        assert_eq!(select(&mut scheduler, 1), Some((7, 0, 13)));
        scheduler.remove(2);
        scheduler.remove(7);
        scheduler.upsert(entry(5, 3, 10, 11));
        assert_eq!(select(&mut scheduler, 1), Some((5, 0, 11)));
    }

    /// Ids 0 to 15 are compared, 16 to 19 wait in that order whatever their ranks.
    #[test]
    fn what_finds_no_room_waits_first_in_first_out() {
        let mut scheduler = PriorityScheduler::default();
        for id in 0..20 {
            scheduler.upsert(entry(id, 100 - u32::from(id), 0, 1));
        }
        assert_eq!(select(&mut scheduler, 1), Some((15, 0, 1)), "19 has the least rank, but waits");
        scheduler.upsert(entry(16, 1, 0, 5)); // updated while it waits
        scheduler.remove(17);
        scheduler.remove(3);
        assert_eq!(select(&mut scheduler, 1), Some((16, 0, 5)));
        scheduler.upsert(entry(17, 0, 0, 7)); // waits again; the FIFO still holds its id
        scheduler.remove(4);
        assert_eq!(select(&mut scheduler, 1), Some((17, 0, 7)));
        scheduler.remove(99);
        for id in 0..18 {
            scheduler.remove(id);
        }
        assert_eq!(scheduler.count, 2);
        assert_eq!(select(&mut scheduler, 1), Some((19, 0, 1)));
        assert_eq!(select(&mut scheduler, 2), Some((18, 1, 1)));
        assert!(scheduler.fifo.is_empty());
    }

    proptest! {
        /// With up to 16 ids, the scheduler chooses as a search through all entries does.
        #[test]
        fn agrees_with_a_search(steps in prop::collection::vec((0u16..16, 0u32..6, 0u32..5, 0u32..8), 1..200)) {
            let mut scheduler = PriorityScheduler::default();
            let mut model: Vec<Entry> = Vec::new();
            for (id, rank, levels, what) in steps {
                let other = model.iter().position(|entry| entry.id == id).map(|at| model.swap_remove(at));
                if what == 0 {
                    scheduler.remove(id);
                } else {
                    let granted = other.map_or(0, |entry| entry.granted);
                    let entry = Entry { id, rank, granted, grantable: granted + what / 4 };
                    scheduler.upsert(entry);
                    model.push(entry);
                }
                model.sort_by_key(Entry::key);
                let expected = model.iter().position(|entry| entry.granted < entry.grantable);
                let expected = expected.filter(|level| *level < levels as usize);
                let chosen = select(&mut scheduler, levels);
                prop_assert_eq!(chosen.map(|(id, level, _)| (id, level as usize)), expected.map(|at| (model[at].id, at)));
                if let Some(at) = expected {
                    model[at].granted = model[at].grantable;
                    prop_assert_eq!(chosen.map(|chosen| chosen.2), Some(model[at].grantable));
                }
            }
        }
    }
}
