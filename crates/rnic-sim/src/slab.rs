//! Numbered places that are used again.

use std::ops::{Index, IndexMut};

/// Items by number. A number that was given back is the next one to be given out; until then its last item is still there.
#[derive(Clone, Debug)]
pub(crate) struct Slab<T> {
    items: Vec<T>,
    free: Vec<u32>,
}

impl<T> Slab<T> {
    pub(crate) fn new() -> Slab<T> {
        Slab { items: Vec::new(), free: Vec::new() }
    }

    /// Stores an item; returns its number.
    pub(crate) fn insert(&mut self, item: T) -> u32 {
        match self.free.pop() {
            Some(number) => {
                self.items[number as usize] = item;
                number
            }
            None => {
                self.items.push(item);
                self.items.len() as u32 - 1
            }
        }
    }

    /// Gives a number back, which must be in use.
    pub(crate) fn release(&mut self, number: u32) {
        debug_assert!(!self.free.contains(&number));
        self.free.push(number);
    }

    /// The item with a number, in use or not.
    #[inline]
    pub(crate) fn get_mut(&mut self, number: u32) -> Option<&mut T> {
        self.items.get_mut(number as usize)
    }

    /// Two different items.
    pub(crate) fn two_mut(&mut self, one: u32, other: u32) -> Option<[&mut T; 2]> {
        self.items.get_disjoint_mut([one as usize, other as usize]).ok()
    }
}

impl<T> Index<u32> for Slab<T> {
    type Output = T;
    #[inline(always)]
    fn index(&self, number: u32) -> &T {
        &self.items[number as usize]
    }
}

impl<T> IndexMut<u32> for Slab<T> {
    #[inline(always)]
    fn index_mut(&mut self, number: u32) -> &mut T {
        &mut self.items[number as usize]
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_last_number_given_back_is_the_next() {
        let mut slab = Slab::new();
        assert_eq!([slab.insert('a'), slab.insert('b'), slab.insert('c')], [0, 1, 2]);
        slab.release(0);
        slab.release(1);
        assert_eq!(slab[1], 'b', "still there");
        assert_eq!([slab.insert('d'), slab.insert('e'), slab.insert('f')], [1, 0, 3]);
        assert_eq!(slab.two_mut(1, 3), Some([&mut 'd', &mut 'f']));
        assert!(slab.two_mut(1, 1).is_none() && slab.get_mut(4).is_none());
    }
}
