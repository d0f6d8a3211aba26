//! What a model refuses.

/// Why a model cannot be computed: one sentence that names the value and what would be accepted.
#[derive(Clone, PartialEq, Eq, Debug, thiserror::Error)]
#[error("{0}")]
pub struct ModelError(pub String);

/// An error unless `holds`.
pub(crate) fn require(holds: bool, sentence: impl FnOnce() -> String) -> Result<(), ModelError> {
    if holds { Ok(()) } else { Err(ModelError(sentence())) }
}
