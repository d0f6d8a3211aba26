//! Tokens of the pages of the command.

use subtle::ConstantTimeEq;

/// A token of 128 random bits.
///
/// # Errors
/// The system has no random numbers; the error is a sentence.
pub(crate) fn token() -> Result<String, String> {
    let mut bytes = [0; 16];
    getrandom::fill(&mut bytes).map_err(|error| format!("no random token: {error}"))?;
    Ok(bytes.iter().map(|byte| format!("{byte:02x}")).collect())
}

/// Whether `given` is the token. The time of the comparison does not depend on the token's characters.
pub(crate) fn is_token(given: &[u8], token: &str) -> bool {
    given.ct_eq(token.as_bytes()).into()
}
