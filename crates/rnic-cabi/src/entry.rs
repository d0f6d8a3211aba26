//! Wrappers for the bodies of functions that C calls: no panic reaches the C program, and errors become numbers.

use crate::pointer::Out;
use libc::c_int;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::{Condvar, Mutex, MutexGuard, PoisonError};

/// Runs the body of a function that C calls. A panic, which is a bug in this library, becomes the result `failed`.
pub fn entry<R>(failed: R, body: impl FnOnce() -> R) -> R {
    catch_unwind(AssertUnwindSafe(body)).unwrap_or_else(|_| {
        set_errno(libc::EIO);
        failed
    })
}

/// Sets `errno`.
pub fn set_errno(value: c_int) {
    // SAFETY: the function returns the address of this thread's `errno`.
    unsafe { *libc::__errno_location() = value };
}

/// Runs the body of a function that returns a new object, or null and an error in `errno`.
pub fn object<T>(body: impl FnOnce() -> Result<*mut T, c_int>) -> *mut T {
    entry(std::ptr::null_mut(), || {
        body().unwrap_or_else(|error| {
            set_errno(error);
            std::ptr::null_mut()
        })
    })
}

/// Runs the body of a function that returns 0 or an error, as most verbs do.
pub fn status(body: impl FnOnce() -> Result<(), c_int>) -> c_int {
    entry(libc::EIO, || match body() {
        Ok(()) => 0,
        Err(error) => {
            // Some programs check the result, and others check `errno`.
            set_errno(error);
            error
        }
    })
}

/// A list of pointers for C that ends with null; [`free_list`] frees it.
fn list<T>(items: impl Iterator<Item = *mut T>) -> *mut *mut T {
    let list: Box<[*mut T]> = items.chain([std::ptr::null_mut()]).collect();
    Box::into_raw(list).cast()
}

/// Runs the body of a function that returns a list of pointers, and writes the length of the list to `count`. Returns
/// the list, which [`free_list`] frees, or null and an error in `errno`.
pub fn counted<T>(items: impl FnOnce() -> Result<Vec<*mut T>, c_int>, count: Option<Out<c_int>>) -> *mut *mut T {
    entry(std::ptr::null_mut(), || match items() {
        Ok(items) => {
            if let Some(count) = count {
                count.write(items.len() as c_int);
            }
            list(items.into_iter())
        }
        Err(error) => {
            set_errno(error);
            std::ptr::null_mut()
        }
    })
}

/// Frees a list that [`counted`] has made. Null is ignored.
///
/// # Safety
/// The list is null, or was made by [`counted`], still ends with null, and was not freed.
pub unsafe fn free_list<T>(list: *mut *mut T) {
    if list.is_null() {
        return;
    }
    let mut len = 0;
    // SAFETY: the list ends with null, and its memory was a boxed slice with this length.
    unsafe {
        while !(*list.add(len)).is_null() {
            len += 1;
        }
        drop(Box::from_raw(std::ptr::slice_from_raw_parts_mut(list, len + 1)));
    }
}

/// Locks a mutex, even if another thread panicked while it held the lock.
pub fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

/// Counts the events of an object that the program has received and not acknowledged. The library destroys the object
/// only after the program has acknowledged these events.
#[derive(Default)]
pub struct Unacknowledged {
    count: Mutex<u32>,
    acknowledged: Condvar,
}

impl Unacknowledged {
    /// Counts an event that the program gets.
    pub fn add(&self) {
        *lock(&self.count) += 1;
    }

    /// Records that the program has acknowledged this number of events.
    pub fn acknowledge(&self, events: u32) {
        let mut count = lock(&self.count);
        *count = count.saturating_sub(events);
        self.acknowledged.notify_all();
    }

    /// Waits until all events are acknowledged.
    pub fn wait(&self) {
        let count = lock(&self.count);
        drop(self.acknowledged.wait_while(count, |count| *count > 0));
    }
}
