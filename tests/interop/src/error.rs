//! Why a case of the test bed failed.

use std::io;
use std::path::Path;
use std::time::Duration;

/// Why a case failed, in one sentence. Output of the guest follows on further lines.
#[derive(Debug, thiserror::Error)]
pub enum Error {
    /// A call of the operating system failed.
    #[error("{what}: {source}")]
    Io {
        /// The operation or file that the call was for.
        what: String,
        /// The error of the system.
        source: io::Error,
    },
    /// The guest's image could not be built.
    #[error("the guest cannot be built: {0}")]
    Image(String),
    /// A guest ended although its case was still running.
    #[error("guest {guest} ended: {reason}")]
    GuestEnded {
        /// The guest's name.
        guest: String,
        /// The reason, from the guest's console and qemu's messages.
        reason: String,
    },
    /// An awaited event did not happen in time.
    #[error("{what} did not happen within {} s{detail}", after.as_secs_f32())]
    Timeout {
        /// The awaited event.
        what: String,
        /// The timeout.
        after: Duration,
        /// Further information, such as output of the guest, on separate lines; empty if there is none.
        detail: String,
    },
    /// A command in the guest ended with another exit code than 0.
    #[error("guest {guest}: `{command}` ended with code {code}:\n{output}")]
    Command {
        /// The guest's name.
        guest: String,
        /// The command.
        command: String,
        /// The exit code as the shell gives it: 128 plus the signal's number for a killed program.
        code: i32,
        /// The output of the command.
        output: String,
    },
    /// A result was not as expected; the text says which.
    #[error("{0}")]
    Check(String),
    /// The machine lacks something that the case needs, so the case is skipped.
    #[error("{0}")]
    Unavailable(String),
}

/// The result type of the test bed's functions.
pub type Result<T, E = Error> = std::result::Result<T, E>;

impl Error {
    /// Returns a function that turns an error of the operating system into [`Error::Io`]. `what` names the operation.
    pub fn io(what: impl Into<String>) -> impl FnOnce(io::Error) -> Error {
        let what = what.into();
        move |source| Error::Io { what, source }
    }

    /// Returns a function that turns an error of the operating system about the file `path` into [`Error::Io`].
    pub fn file(path: &Path) -> impl FnOnce(io::Error) -> Error {
        Error::io(path.display().to_string())
    }
}

impl From<io::Error> for Error {
    fn from(source: io::Error) -> Error {
        Error::Io { what: "the link".to_owned(), source }
    }
}

/// Ends a case with an error if a condition does not hold. The error's text is the given sentence.
#[macro_export]
macro_rules! ensure {
    ($condition:expr, $($sentence:tt)+) => {
        if !$condition {
            return Err($crate::Error::Check(format!($($sentence)+)));
        }
    };
}
