//! The objects of one kind that exist. A pointer from C is looked up here before it is read, so that one which was
//! freed, or never was an object, is an error and no crash.

use crate::entry::lock;
use std::collections::BTreeSet;
use std::sync::Mutex;

/// The addresses of the objects that exist.
pub struct Live(Mutex<BTreeSet<usize>>);

impl Live {
    /// No object.
    pub const fn new() -> Live {
        Live(Mutex::new(BTreeSet::new()))
    }

    /// An object was made.
    pub fn add<T>(&self, object: *mut T) {
        lock(&self.0).insert(object.addr());
    }

    /// An object is going to be freed; `false` if there is none at this address. Of several threads that free an
    /// object, one gets `true`.
    pub fn remove<T>(&self, object: *mut T) -> bool {
        lock(&self.0).remove(&object.addr())
    }

    /// Whether there is an object at this address.
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
