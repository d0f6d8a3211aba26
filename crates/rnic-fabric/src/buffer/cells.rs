//! The packet queues of a switch buffer: first-in first-out queues, stored as linked lists in one pool of memory per
//! switch.

use crate::prefetch::prefetch;

/// Index that stands for "no cell", as at the end of a linked list.
const NONE: u32 = u32::MAX;

#[derive(Clone, Copy)]
struct Cell<T> {
    item: T,
    next: u32,
}

/// A first-in first-out queue: a linked list of cells (list elements) in the pool of a [`Cells`].
#[derive(Clone, Copy)]
pub(super) struct Queue {
    head: u32,
    tail: u32,
}

impl Queue {
    pub(super) const EMPTY: Queue = Queue { head: NONE, tail: NONE };

    #[inline(always)]
    pub(super) fn is_empty(&self) -> bool {
        self.head == NONE
    }

    /// Whether the queue holds exactly one item; the queue must not be empty.
    #[inline(always)]
    pub(super) fn is_single(&self) -> bool {
        self.head == self.tail
    }
}

/// A pool of cells (list elements), which holds the items of all queues of a switch.
pub(super) struct Cells<T> {
    pool: Vec<Cell<T>>,
    /// Index of the first free cell; the free cells form a linked list.
    free: u32,
    used: usize,
}

impl<T: Copy> Cells<T> {
    pub(super) fn new() -> Cells<T> {
        Cells { pool: Vec::new(), free: NONE, used: 0 }
    }

    /// Number of items in all queues.
    pub(super) fn used(&self) -> usize {
        self.used
    }

    #[inline(always)]
    pub(super) fn push(&mut self, queue: &mut Queue, item: T) {
        let cell = self.allocate(item);
        if queue.head == NONE {
            queue.head = cell;
        } else {
            self.pool[queue.tail as usize].next = cell;
        }
        queue.tail = cell;
    }

    /// Removes and returns the first item; the queue must not be empty.
    #[inline(always)]
    pub(super) fn pop(&mut self, queue: &mut Queue) -> T {
        let index = queue.head;
        let cell = &mut self.pool[index as usize];
        let (next, item) = (cell.next, cell.item);
        cell.next = self.free;
        queue.head = next;
        self.free = index;
        self.used -= 1;
        if let Some(next) = self.pool.get(next as usize) {
            prefetch(next);
        }
        item
    }

    /// The first item; the queue must not be empty.
    #[inline(always)]
    pub(super) fn first(&self, queue: &Queue) -> &T {
        &self.pool[queue.head as usize].item
    }

    /// The items of a queue, first to last.
    pub(super) fn iter(&self, queue: &Queue) -> impl Iterator<Item = &T> {
        let cell = |index: u32| self.pool.get(index as usize);
        std::iter::successors(cell(queue.head), move |last| cell(last.next)).map(|cell| &cell.item)
    }

    #[inline(always)]
    fn allocate(&mut self, item: T) -> u32 {
        self.used += 1;
        if self.free == NONE {
            self.pool.push(Cell { item, next: NONE });
            return self.pool.len() as u32 - 1;
        }
        let index = self.free;
        let cell = &mut self.pool[index as usize];
        self.free = cell.next;
        *cell = Cell { item, next: NONE };
        index
    }
}
