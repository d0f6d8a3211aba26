//! The scenario that the command line names.

use clap::Args;
use std::path::PathBuf;

/// A scenario file, and changes to its settings on the command line.
#[derive(Args, Debug)]
pub struct Selection {
    /// The scenario file, or the name of a built-in scenario such as irn/default
    #[arg(value_name = "SCENARIO.toml")]
    pub scenario: PathBuf,

    /// Change one setting; may be repeated, later changes override earlier ones
    ///
    /// PATH is a dotted path in the scenario. Runs and traffic sources are selected by index, from 0, or by name; a
    /// name with a dot needs quotes. VALUE is TOML, or text if it is not valid TOML, so quantities with units need no
    /// quotes. A run's own `set` table overrides this option.
    #[arg(long, value_name = "PATH=VALUE", value_parser = parse_set)]
    pub set: Vec<(String, String)>,

    /// Seed of the random streams, instead of the scenario's
    #[arg(long, value_name = "N", allow_negative_numbers = true)]
    pub seed: Option<u64>,
}

/// Splits `path=value` at the first equals sign outside quotes.
pub fn parse_set(text: &str) -> Result<(String, String), String> {
    let mut quote = None;
    for (at, character) in text.char_indices() {
        match (quote, character) {
            (None, '=') => return Ok((text[..at].trim().to_string(), text[at + 1..].trim().to_string())),
            (None, '"' | '\'') => quote = Some(character),
            (Some(open), _) if open == character => quote = None,
            _ => {}
        }
    }
    Err("there is no `=`; write a path and a value, for example fabric.switch.buffer=60KB".to_string())
}
