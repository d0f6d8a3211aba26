//! Locking of a mutex.

use std::sync::{Mutex, MutexGuard, PoisonError};

/// Locks a mutex, even if another thread panicked while it held the mutex.
pub(crate) fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}
