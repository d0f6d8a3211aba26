//! State primitives of the NanoTransport NIC: the registers and schedulers in which a transport program keeps state
//! between packets. Programs in Rust and in P4 use the same primitives.
//!
//! Register arrays grow when they are written, and an entry that was never written is 0. So a simulated NIC needs
//! little memory before it has processed many messages.

/// An operation that the register array [`IfElseRaw`] applies to one of its entries.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Op {
    /// Leaves the entry unchanged.
    Read,
    /// Sets the entry to the operand.
    Write,
    /// Adds the operand to the entry, modulo 2^64.
    Add,
    /// Subtracts the operand from the entry, modulo 2^64.
    Subtract,
}

impl Op {
    #[inline]
    fn apply(self, old: u64, operand: u64) -> u64 {
        match self {
            Op::Read => old,
            Op::Write => operand,
            Op::Add => old.wrapping_add(operand),
            Op::Subtract => old.wrapping_sub(operand),
        }
    }
}

/// A comparison of a register with an operand, as numbers without sign.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Comparison {
    /// The register equals the operand.
    Equal,
    /// The register differs from the operand.
    NotEqual,
    /// The register is less than the operand.
    Less,
    /// The register is at most the operand.
    LessEqual,
    /// The register is greater than the operand.
    Greater,
    /// The register is at least the operand.
    GreaterEqual,
}

impl Comparison {
    /// Whether the comparison of `register` with `operand` holds.
    #[inline]
    pub fn holds(self, register: u64, operand: u64) -> bool {
        match self {
            Comparison::Equal => register == operand,
            Comparison::NotEqual => register != operand,
            Comparison::Less => register < operand,
            Comparison::LessEqual => register <= operand,
            Comparison::Greater => register > operand,
            Comparison::GreaterEqual => register >= operand,
        }
    }
}

#[inline]
fn entry(values: &mut Vec<u64>, at: usize) -> &mut u64 {
    if at >= values.len() {
        values.resize((at + 1).next_power_of_two(), 0);
    }
    &mut values[at]
}

/// `ifElseRaw`, an extern of NanoTransport: a register array with predicated read-modify-write operations. A predicate
/// selects which of two operations is applied to an entry.
///
/// ```
/// use rnic_transport::message::primitives::{IfElseRaw, Op};
///
/// // A counter per message, which the first packet sets to 1 and later packets increment.
/// let mut packets = IfElseRaw::default();
/// assert_eq!(packets.apply(3, true, (Op::Write, 1), (Op::Add, 1)), 1);
/// assert_eq!(packets.apply(3, false, (Op::Write, 1), (Op::Add, 1)), 2);
/// ```
#[derive(Clone, Debug, Default)]
pub struct IfElseRaw {
    values: Vec<u64>,
}

impl IfElseRaw {
    /// Applies an operation with its operand to entry `at`: `then` if `predicate` holds, else `otherwise`. Returns the
    /// entry's new value.
    #[inline]
    pub fn apply(&mut self, at: usize, predicate: bool, then: (Op, u64), otherwise: (Op, u64)) -> u64 {
        let (op, operand) = if predicate { then } else { otherwise };
        match op {
            Op::Read => self.values.get(at).copied().unwrap_or(0),
            Op::Write => {
                *entry(&mut self.values, at) = operand;
                operand
            }
            Op::Add | Op::Subtract => {
                let value = entry(&mut self.values, at);
                *value = op.apply(*value, operand);
                *value
            }
        }
    }
}

/// The left side of the comparison of a pair of registers ([`Pairs`]).
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum PairOperand {
    /// The first register.
    First,
    /// The second register.
    Second,
    /// The first register minus the second one, modulo the registers' range.
    Difference,
}

/// An array of pairs of registers: the read-modify-write operation `Pairs` of Sivaraman and others ("Packet
/// Transactions", SIGCOMM 2016), which updates two registers together.
///
/// ```
/// use rnic_transport::message::primitives::{Comparison, Op, PairOperand, Pairs};
///
/// // The first register counts packets, the second one packets until the next ACK: each third packet is acknowledged.
/// let mut pairs = Pairs::default();
/// let mut packet = || {
///     let condition = (PairOperand::Second, Comparison::GreaterEqual, 2);
///     let count = [(Op::Add, 1); 2];
///     pairs.apply(0, u64::MAX, condition, count, [(Op::Write, 0), (Op::Add, 1)])
/// };
/// assert_eq!([packet(), packet(), packet(), packet()], [[1, 1], [2, 2], [3, 0], [4, 1]]);
/// ```
#[derive(Clone, Debug, Default)]
pub struct Pairs {
    values: Vec<u64>,
}

impl Pairs {
    /// Compares a register of pair `at`, or their difference, with a number. Then applies to each register one of two
    /// operations: the first if the comparison holds, else the second. Returns the new values. `mask` has the bits of a
    /// register.
    #[inline]
    pub fn apply(
        &mut self, at: usize, mask: u64, (left, comparison, than): (PairOperand, Comparison, u64),
        first: [(Op, u64); 2], second: [(Op, u64); 2],
    ) -> [u64; 2] {
        let last = entry(&mut self.values, 2 * at + 1);
        let y = *last;
        let x = self.values[2 * at];
        let left = match left {
            PairOperand::First => x,
            PairOperand::Second => y,
            PairOperand::Difference => x.wrapping_sub(y) & mask,
        };
        let chosen = usize::from(!comparison.holds(left, than));
        let new = [(x, first[chosen]), (y, second[chosen])].map(|(old, (op, operand))| op.apply(old, operand) & mask);
        self.values[2 * at..2 * at + 2].copy_from_slice(&new);
        new
    }
}

/// A register array with two ports: one pipeline stage reads entries, and another stage writes entries. The two stages
/// may belong to different pipelines, ingress and egress.
#[derive(Clone, Debug, Default)]
pub struct DualPort {
    values: Vec<u64>,
}

impl DualPort {
    /// The value of entry `at`.
    #[inline]
    pub fn read(&self, at: usize) -> u64 {
        self.values.get(at).copied().unwrap_or(0)
    }

    /// Sets the value of entry `at`.
    #[inline]
    pub fn write(&mut self, at: usize, value: u64) {
        *entry(&mut self.values, at) = value;
    }
}

/// An entry of a [`PriorityScheduler`]: a message that waits for grants of its receiver, as in Homa.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct Entry {
    /// Id of the message at its receiver (`rx_msg_id`).
    pub id: u16,
    /// Rank of the entry. The entry with the smallest rank is first; of equal ranks, the entry with the smallest `id`.
    pub rank: u32,
    /// Credit that has been granted to the message, in packets: the sender may send all packets before this index.
    pub granted: u32,
    /// Maximum credit that may be granted to the message now, in packets.
    pub grantable: u32,
}

impl Entry {
    #[inline]
    fn key(&self) -> (u32, u16) {
        (self.rank, self.id)
    }
}

/// The message that a [`PriorityScheduler`] selected for a grant.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Selected {
    /// Id of the selected message at its receiver (`rx_msg_id`).
    pub id: u16,
    /// Number of the scheduler's entries that precede the selected message in the order of ranks; 0 for the first.
    pub level: u32,
    /// Credit that is granted to the message now, in packets: the sender may send all packets before this index.
    pub credit: u32,
}

/// Where the priority scheduler holds the entry of a message id.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
enum Location {
    /// The scheduler has no entry of this id.
    #[default]
    Absent,
    /// The entry is among the up to 16 entries that the scheduler compares.
    Compared,
    /// The entry waits in the FIFO for its place among the compared entries.
    Queued,
}

/// The priority scheduler's state of a message id: the location of its entry, and the entry itself while it waits in
/// the FIFO.
#[derive(Clone, Copy, Debug, Default)]
struct IdState {
    location: Location,
    /// Whether the FIFO contains this message id. The FIFO may still contain the id after its entry was removed.
    in_fifo: bool,
    entry: Entry,
}

/// A priority scheduler, which selects the message that gets the next grant. It compares the ranks of up to 16
/// messages; further messages wait in a FIFO until a compared message is removed.
///
/// ```
/// use rnic_transport::message::primitives::{Entry, PriorityScheduler};
///
/// let mut scheduler = PriorityScheduler::default();
/// scheduler.upsert(Entry { id: 1, rank: 9_000, granted: 9, grantable: 10 });
/// scheduler.upsert(Entry { id: 2, rank: 2_000, granted: 9, grantable: 12 });
///
/// let selected = scheduler.select(1).unwrap(); // only the first entry may be granted
/// assert_eq!((selected.id, selected.level, selected.credit), (2, 0, 12));
/// assert_eq!(scheduler.select(1), None, "message 2 has all that may be granted");
/// assert_eq!(scheduler.select(2).map(|selected| selected.id), Some(1));
/// ```
#[derive(Clone, Debug, Default)]
pub struct PriorityScheduler {
    /// The compared entries in the order of their ranks. Hardware compares with 16 parallel comparators; this software
    /// moves an updated entry step by step, which is fast because an entry rarely moves far.
    compared: [Entry; PriorityScheduler::COMPARED],
    count: usize,
    fifo: std::collections::VecDeque<u16>,
    /// The state of each message id, indexed by id.
    ids: Vec<IdState>,
}

impl PriorityScheduler {
    /// Maximum number of entries that the scheduler compares; further entries wait in a FIFO.
    pub const COMPARED: usize = 16;

    /// Inserts the entry of a message, or replaces the entry with the same id.
    pub fn upsert(&mut self, entry: Entry) {
        let id = usize::from(entry.id);
        if id >= self.ids.len() {
            self.ids.resize((id + 1).next_power_of_two(), IdState::default());
        }
        let state = &mut self.ids[id];
        match state.location {
            Location::Compared => {
                let at = self.find(entry.id);
                self.put(at, entry);
            }
            Location::Queued => state.entry = entry,
            Location::Absent if self.count < Self::COMPARED => {
                state.location = Location::Compared;
                self.count += 1;
                self.put(self.count - 1, entry);
            }
            Location::Absent => {
                (state.location, state.entry) = (Location::Queued, entry);
                if !state.in_fifo {
                    state.in_fifo = true;
                    self.fifo.push_back(entry.id);
                }
            }
        }
    }

    /// The entry of message `id`; `None` if the scheduler has no such entry.
    pub fn get(&self, id: u16) -> Option<Entry> {
        let state = self.ids.get(usize::from(id))?;
        match state.location {
            Location::Absent => None,
            Location::Queued => Some(state.entry),
            Location::Compared => Some(self.compared[self.find(id)]),
        }
    }

    fn find(&self, id: u16) -> usize {
        let at = self.compared[..self.count].iter().position(|entry| entry.id == id);
        at.expect("an id in state Compared has an entry among the compared entries")
    }

    /// Writes the compared entry at index `at` and moves it to its position in the order of ranks.
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

    /// Removes the entry of message `id`, if there is one. If it was a compared entry, the first entry in the FIFO
    /// replaces it.
    pub fn remove(&mut self, id: u16) {
        let Some(state) = self.ids.get_mut(usize::from(id)) else { return };
        let location = std::mem::take(&mut state.location);
        if location != Location::Compared {
            return;
        }
        let at = self.find(id);
        self.compared.copy_within(at + 1..self.count, at);
        self.count -= 1;
        while let Some(next) = self.fifo.pop_front() {
            let state = &mut self.ids[usize::from(next)];
            state.in_fifo = false;
            if state.location == Location::Queued {
                state.location = Location::Compared;
                let entry = state.entry;
                self.count += 1;
                self.put(self.count - 1, entry);
                return;
            }
        }
    }

    /// Selects the message for the next grant: the first entry in the order of ranks with `granted` < `grantable`, if
    /// it is among the first `levels` entries. Sets its `granted` to its `grantable`.
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
    fn a_predicate_selects_the_operation() {
        let mut register = IfElseRaw::default();
        assert_eq!(register.apply(9, false, (Op::Write, 1), (Op::Read, 5)), 0, "never written");
        assert_eq!(register.apply(9, true, (Op::Write, 10), (Op::Add, 1)), 10);
        assert_eq!(register.apply(9, false, (Op::Write, 10), (Op::Add, 1)), 11);
        assert_eq!(register.apply(9, true, (Op::Read, 7), (Op::Add, 1)), 11);
        assert_eq!(register.apply(9, true, (Op::Add, u64::MAX), (Op::Read, 0)), 10, "modulo 2^64");
        assert_eq!(register.apply(8, true, (Op::Read, 0), (Op::Read, 0)), 0);
        assert_eq!(register.apply(9, true, (Op::Subtract, 11), (Op::Read, 0)), u64::MAX, "modulo 2^64");
    }

    #[test]
    fn comparisons_are_without_sign() {
        use Comparison::{Equal, Greater, GreaterEqual, Less, LessEqual, NotEqual};
        let of = |a, b| [Equal, NotEqual, Less, LessEqual, Greater, GreaterEqual].map(|one| one.holds(a, b));
        assert_eq!(of(3, 3), [true, false, false, true, false, true]);
        assert_eq!(of(3, u64::MAX), [false, true, true, true, false, false]);
        assert_eq!(of(4, 3), [false, true, false, false, true, true]);
    }

    /// Registers of 8 bits: 250 and 3, whose difference is 247, then 4 and 3.
    #[test]
    fn a_pair_is_updated_together() {
        let mut pairs = Pairs::default();
        let always = (PairOperand::First, Comparison::GreaterEqual, 0);
        let write = |value| [(Op::Write, value), (Op::Read, 0)];
        assert_eq!(pairs.apply(5, 0xff, always, write(250), write(3)), [250, 3]);
        let apart = (PairOperand::Difference, Comparison::Greater, 246);
        let steps = [(Op::Add, 10), (Op::Subtract, 1)];
        assert_eq!(pairs.apply(5, 0xff, apart, steps, [(Op::Read, 0), (Op::Write, 9)]), [4, 3]);
        assert_eq!(pairs.apply(5, 0xff, apart, steps, [(Op::Read, 0), (Op::Write, 9)]), [3, 9]);
        assert_eq!(pairs.apply(5, 0xff, apart, steps, [(Op::Subtract, 10), (Op::Read, 0)]), [13, 255]);
        assert_eq!(pairs.apply(4, 0xff, always, [(Op::Read, 0); 2], [(Op::Read, 0); 2]), [0, 0]);
    }

    #[test]
    fn dual_port_reads_what_was_written() {
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
    fn the_first_grantable_entry_within_the_levels_is_selected() {
        let mut scheduler = PriorityScheduler::default();
        assert_eq!(scheduler.select(3), None);
        scheduler.upsert(entry(5, 20, 9, 10));
        scheduler.upsert(entry(2, 10, 9, 9)); // first, but has all that may be granted
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

    /// The scheduler compares the entries of ids 0 to 15. The entries of ids 16 to 19 wait in this order, whatever
    /// their ranks.
    #[test]
    fn excess_entries_wait_first_in_first_out() {
        let mut scheduler = PriorityScheduler::default();
        for id in 0..20 {
            scheduler.upsert(entry(id, 100 - u32::from(id), 0, 1));
        }
        assert_eq!(select(&mut scheduler, 1), Some((15, 0, 1)), "19 has the smallest rank, but waits");
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
        /// With up to 16 message ids, the scheduler selects the same entry as a search through all entries.
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
