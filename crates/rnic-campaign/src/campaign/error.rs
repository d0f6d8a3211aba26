use std::io;
use std::path::Path;

/// The reason why a campaign cannot be read, executed or shown.
#[derive(Debug, thiserror::Error)]
pub enum CampaignError {
    /// The input is wrong; the sentence says what, where, and what would be accepted.
    #[error("{0}")]
    Input(String),
    /// A file cannot be read or written.
    #[error("{doing}: {error}")]
    Io {
        /// What failed, with the path.
        doing: String,
        /// The error of the operating system.
        error: io::Error,
    },
}

impl CampaignError {
    pub(crate) fn reading(path: &Path) -> impl Fn(io::Error) -> CampaignError + '_ {
        move |error| CampaignError::Io { doing: format!("cannot read `{}`", path.display()), error }
    }

    pub(crate) fn writing(path: &Path) -> impl Fn(io::Error) -> CampaignError + '_ {
        move |error| CampaignError::Io { doing: format!("cannot write into `{}`", path.display()), error }
    }
}
