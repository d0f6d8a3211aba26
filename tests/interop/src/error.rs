//! Why a case of the test bed failed.

use std::io;
use std::path::Path;
use std::time::Duration;

/// What went wrong, in one sentence; what the guest printed follows on further lines.
#[derive(Debug, thiserror::Error)]
pub enum Error {
    /// The operating system refused something.
    #[error("{what}: {source}")]
    Io {
        /// What was being done.
        what: String,
        /// The reason.
        source: io::Error,
    },
    /// The guest's image could not be built.
    #[error("the guest cannot be built: {0}")]
    Image(String),
    /// A guest ended before it was told to.
    #[error("guest {guest} ended: {reason}")]
    GuestEnded {
        /// The guest's name.
        guest: String,
        /// What its console says about it.
        reason: String,
    },
    /// Something did not happen in time.
    #[error("{what} did not happen within {} s{detail}", after.as_secs_f32())]
    Timeout {
        /// What was awaited.
        what: String,
        /// How long.
        after: Duration,
        /// What is known about it, on lines of its own, or nothing.
        detail: String,
    },
    /// A command in the guest ended with another exit code than 0.
    #[error("guest {guest}: `{command}` ended with code {code}:\n{output}")]
    Command {
        /// The guest's name.
        guest: String,
        /// The command.
        command: String,
        /// Its exit code, as the shell gives it.
        code: i32,
        /// What it printed.
        output: String,
    },
    /// Something was not as expected.
    #[error("{0}")]
    Check(String),
    /// This machine lacks what the case needs: it is skipped.
    #[error("{0}")]
    Unavailable(String),
}

/// The result of anything in the test bed.
pub type Result<T, E = Error> = std::result::Result<T, E>;

impl Error {
    /// An error of the operating system, with what was being done.
    pub fn io(what: impl Into<String>) -> impl FnOnce(io::Error) -> Error {
        let what = what.into();
        move |source| Error::Io { what, source }
    }

    /// An error of the operating system about a file.
    pub fn file(path: &Path) -> impl FnOnce(io::Error) -> Error {
        Error::io(path.display().to_string())
    }
}

impl From<io::Error> for Error {
    fn from(source: io::Error) -> Error {
        Error::Io { what: "the link".to_owned(), source }
    }
}

/// Ends a case with a sentence unless a condition holds.
#[macro_export]
macro_rules! ensure {
    ($condition:expr, $($sentence:tt)+) => {
        if !$condition {
            return Err($crate::Error::Check(format!($($sentence)+)));
        }
    };
}
