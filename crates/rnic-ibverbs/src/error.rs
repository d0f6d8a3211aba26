//! Errors of verbs as numbers in C.

use crate::trace;
use libc::c_int;
use rnic_verbs::VerbsError;

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
        trace::line(format_args!("{verb} refused: {error}"));
        number(&error)
    }
}
