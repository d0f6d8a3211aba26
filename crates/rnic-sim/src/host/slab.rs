//! A vector of items such as flows, whose ids (indices) are used again for new items after they have been released.

use super::ids::Id;
use std::ops::{Index, IndexMut};

/// A vector of items by id. The id that was released last is assigned next. The item of a released id stays readable
/// until the id is assigned again.
#[derive(Clone, Debug)]
pub(crate) struct Slab<I, T> {
    items: Vec<T>,
    free: Vec<I>,
}

impl<I: Id, T> Slab<I, T> {
    pub(crate) fn new() -> Slab<I, T> {
        Slab { items: Vec::new(), free: Vec::new() }
    }

    /// The id that [`Slab::insert`] will return next.
    pub(crate) fn next_id(&self) -> I {
        self.free.last().copied().unwrap_or(I::new(self.items.len()))
    }

    /// Stores an item under a free id or a new one; returns the id.
    pub(crate) fn insert(&mut self, item: T) -> I {
        match self.free.pop() {
            Some(id) => {
                self.items[id.index()] = item;
                id
            }
            None => {
                self.items.push(item);
                I::new(self.items.len() - 1)
            }
        }
    }

    /// Assigns a free id without storing an item: the old item stays under this id. `None` if no id is free.
    pub(crate) fn reuse(&mut self) -> Option<I> {
        self.free.pop()
    }

    /// Releases an id, which must be in use, so that it can be assigned again.
    pub(crate) fn release(&mut self, id: I) {
        debug_assert!(!self.free.contains(&id));
        self.free.push(id);
    }

    /// The item of an id, whether the id is in use or free; `None` if the id was never assigned.
    #[inline]
    pub(crate) fn get_mut(&mut self, id: I) -> Option<&mut T> {
        self.items.get_mut(id.index())
    }

    /// Mutable references to two items; `None` if the ids are equal or unknown.
    pub(crate) fn two_mut(&mut self, one: I, other: I) -> Option<[&mut T; 2]> {
        self.items.get_disjoint_mut([one.index(), other.index()]).ok()
    }
}

impl<I: Id, T> Index<I> for Slab<I, T> {
    type Output = T;
    #[inline(always)]
    fn index(&self, id: I) -> &T {
        &self.items[id.index()]
    }
}

impl<I: Id, T> IndexMut<I> for Slab<I, T> {
    #[inline(always)]
    fn index_mut(&mut self, id: I) -> &mut T {
        &mut self.items[id.index()]
    }
}

#[cfg(test)]
mod tests {
    use super::super::ids::EndSlot;
    use super::*;

    #[test]
    fn the_id_released_last_is_assigned_next() {
        let mut slab = Slab::new();
        assert_eq!([slab.insert('a'), slab.insert('b'), slab.insert('c')], [0, 1, 2].map(EndSlot));
        slab.release(EndSlot(0));
        slab.release(EndSlot(1));
        assert_eq!(slab[EndSlot(1)], 'b', "still there");
        assert_eq!(slab.next_id(), EndSlot(1));
        assert_eq!([slab.insert('d'), slab.insert('e'), slab.insert('f')], [1, 0, 3].map(EndSlot));
        assert_eq!((slab.next_id(), slab.reuse()), (EndSlot(4), None));
        assert_eq!(slab.two_mut(EndSlot(1), EndSlot(3)), Some([&mut 'd', &mut 'f']));
        assert!(slab.two_mut(EndSlot(1), EndSlot(1)).is_none() && slab.get_mut(EndSlot(4)).is_none());
        slab.release(EndSlot(0));
        assert_eq!((slab.reuse(), slab[EndSlot(0)]), (Some(EndSlot(0)), 'e'));
    }
}
