//! Errors of verbs as numbers in C.

use crate::trace;
use libc::c_int;
use rnic_verbs::VerbsError;

/// The number by which C programs know an error.
pub(crate) fn number(error: &VerbsError) -> c_int {
    match error {
        VerbsError::Busy { .. } => libc::EBUSY,
        VerbsError::Full(_) | VerbsError::NoMemory { .. } | VerbsError::Exhausted { .. } => libc::ENOMEM,
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

/// Why a work request is not posted.
pub(crate) enum Refused {
    Verbs(VerbsError),
    Number(c_int, &'static str),
}

impl From<VerbsError> for Refused {
    fn from(error: VerbsError) -> Refused {
        Refused::Verbs(error)
    }
}

impl Refused {
    pub(crate) fn number(&self) -> c_int {
        match self {
            Refused::Verbs(error) => number(error),
            Refused::Number(number, _) => *number,
        }
    }
}

impl std::fmt::Display for Refused {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self {
            Refused::Verbs(error) => write!(f, "{error}"),
            Refused::Number(_, text) => f.write_str(text),
        }
    }
}
