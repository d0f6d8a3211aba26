//! Errors of scenario files: what is wrong, and where.

use std::fmt;
use std::io;
use std::ops::Range;
use std::path::PathBuf;

/// Why a scenario file could not be read.
#[derive(Debug, thiserror::Error)]
pub enum ScenarioError {
    /// The text of the scenario is not TOML, or describes something that cannot be simulated.
    #[error(transparent)]
    Mistake(#[from] Box<Mistake>),
    /// The text of the scenario has several mistakes, in the order of the text. Shown with one line for each.
    #[error("{}", .0.iter().map(Mistake::to_string).collect::<Vec<_>>().join("\n"))]
    Mistakes(Vec<Mistake>),
    /// The scenario file could not be read from the file system.
    #[error("cannot read `{}`: {error}", path.display())]
    Io {
        /// Path of the scenario file.
        path: PathBuf,
        /// Error of the operating system when the file was read.
        error: io::Error,
    },
}

impl ScenarioError {
    /// The error of a scenario with these mistakes, of which there must be at least one.
    pub(crate) fn of(mut mistakes: Vec<Mistake>) -> ScenarioError {
        match (mistakes.pop(), mistakes.is_empty()) {
            (Some(only), true) => ScenarioError::Mistake(Box::new(only)),
            (last, _) => {
                mistakes.extend(last);
                ScenarioError::Mistakes(mistakes)
            }
        }
    }
}

/// One mistake in the text of a scenario, with its position.
#[derive(Clone, PartialEq, Eq, Debug, thiserror::Error)]
pub struct Mistake {
    /// Name of the file with the mistake, as the caller gave it, or `--set path=value`.
    pub file: String,
    /// The whole text that contains the mistake: the text of the file, or the `path=value` of an override (`--set`).
    pub text: String,
    /// Range of bytes in `text` that the mistake concerns.
    pub span: Range<usize>,
    /// What is wrong: one sentence without a full stop.
    pub message: String,
    /// What would be accepted instead.
    pub help: Option<String>,
    /// Whether `text` is an override (`--set`) and not a file; error messages then have no line number.
    pub is_override: bool,
}

impl Mistake {
    /// Line and column at which the mistake (`span`) begins. Both count from 1; the column counts characters, not
    /// bytes.
    pub fn line_column(&self) -> (usize, usize) {
        let mut start = self.span.start.min(self.text.len());
        while !self.text.is_char_boundary(start) {
            start -= 1;
        }
        let before = &self.text[..start];
        let line_start = before.rfind('\n').map_or(0, |newline| newline + 1);
        (before.matches('\n').count() + 1, before[line_start..].chars().count() + 1)
    }
}

/// Shows the mistake on one line: `file:line:column: message; help`.
impl fmt::Display for Mistake {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.file)?;
        if !self.is_override {
            let (line, column) = self.line_column();
            write!(f, ":{line}:{column}")?;
        }
        write!(f, ": {}", self.message)?;
        match &self.help {
            Some(help) => write!(f, "; {help}"),
            None => Ok(()),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn mistake(text: &str, span: Range<usize>) -> Mistake {
        let (file, message) = ("a.toml".to_string(), "no".to_string());
        Mistake { file, text: text.to_string(), span, message, help: None, is_override: false }
    }

    #[test]
    fn lines_and_columns_count_from_one_and_columns_in_characters() {
        assert_eq!(mistake("ab\ncd", 0..1).line_column(), (1, 1));
        assert_eq!(mistake("ab\ncd", 4..5).line_column(), (2, 2));
        assert_eq!(mistake("µs x", 4..5).line_column(), (1, 4));
        assert_eq!(mistake("µs", 1..2).line_column(), (1, 1), "inside a character");
        assert_eq!(mistake("ab", 9..9).line_column(), (1, 3), "past the end");
    }
}
