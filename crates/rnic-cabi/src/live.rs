//! The objects of one kind that exist. A library looks up each pointer from C here before it uses the pointer, so that
//! a pointer to a freed object, or a pointer that never was an object, causes an error and not a crash.

use crate::entry::lock;
use std::collections::BTreeSet;
use std::sync::Mutex;

/// The addresses of the objects that exist.
pub struct Live(Mutex<BTreeSet<usize>>);

impl Live {
    /// Makes an empty set.
    pub const fn new() -> Live {
        Live(Mutex::new(BTreeSet::new()))
    }

    /// Adds a new object.
    pub fn add<T>(&self, object: *mut T) {
        lock(&self.0).insert(object.addr());
    }

    /// Removes an object that is going to be freed. Returns `false` if no object exists at this address: if several
    /// threads free the same object, only one of them gets `true`.
    pub fn remove<T>(&self, object: *mut T) -> bool {
        lock(&self.0).remove(&object.addr())
    }

    /// Whether an object exists at this address.
    pub fn has<T>(&self, object: *mut T) -> bool {
        lock(&self.0).contains(&object.addr())
    }
}

impl Default for Live {
    fn default() -> Live {
        Live::new()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn objects_exist_until_they_are_removed() {
        let (live, mut object) = (Live::new(), 7_u8);
        let object = &raw mut object;
        assert!(!live.has(object) && !live.remove(object) && !live.has(std::ptr::null_mut::<u8>()));
        live.add(object);
        assert!(live.has(object) && live.remove(object));
        assert!(!live.has(object) && !live.remove(object));
    }
}
