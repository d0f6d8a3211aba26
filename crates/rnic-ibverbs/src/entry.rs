//! What the functions that C calls have in common: no panic crosses the border, and errors are numbers.

use libc::c_int;
use rnic_verbs::VerbsError;

pub(crate) use rnic_cabi::entry::{Unacknowledged, counted, entry, free_list, lock, object, set_errno, status};

/// The number of an error in C.
pub(crate) fn number(error: &VerbsError) -> c_int {
    match error {
        VerbsError::Busy { .. } => libc::EBUSY,
        VerbsError::Full(_) | VerbsError::NoMemory { .. } => libc::ENOMEM,
        VerbsError::Closed(_) => libc::EIO,
        VerbsError::Overflow => libc::EOVERFLOW,
        _ => libc::EINVAL,
    }
}

/// As [`number`], with a line in the trace that says what is wrong.
pub(crate) fn refused(verb: &str) -> impl Fn(VerbsError) -> c_int + '_ {
    move |error| {
        crate::trace::line(format_args!("{verb} refused: {error}"));
        number(&error)
    }
}
