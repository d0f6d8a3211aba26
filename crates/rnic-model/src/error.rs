//! Errors of the analytical models.

/// The reason why a model cannot be computed: one sentence that names the wrong value and what would be accepted.
#[derive(Clone, PartialEq, Eq, Debug, thiserror::Error)]
#[error("{0}")]
pub struct ModelError(pub String);

/// Returns an error with `sentence` if `holds` is false.
pub(crate) fn require(holds: bool, sentence: impl FnOnce() -> String) -> Result<(), ModelError> {
    if holds { Ok(()) } else { Err(ModelError(sentence())) }
}
