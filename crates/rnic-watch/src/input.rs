//! Reads files of untrusted origin: errors have positions, and sizes are limited.

use rnic_untrusted::text::escaped;
use std::fmt;
use std::fs::File;
use std::io::Read;
use std::path::Path;

/// Maximum length of a file that this crate reads, in bytes. The configuration of a switch with 512 ports has about
/// 1 MB.
pub const MAX_FILE: u64 = 64 << 20;

/// A mistake in a file, or a file that cannot be read: one sentence with the position.
#[derive(Clone, PartialEq, Eq, Debug, thiserror::Error)]
pub struct InputError {
    /// Name of the file as the user typed it, such as `leaf1/config_db.json`.
    pub file: String,
    /// Place in the file.
    pub place: Place,
    /// What is wrong and what would be accepted, without a full stop.
    pub message: String,
}

/// A place in a file.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum Place {
    /// The file as a whole.
    File,
    /// A line, from 1.
    Line(usize),
    /// A line and a column, both from 1.
    Column(usize, usize),
    /// The path of a value, such as `PORT|Ethernet0|mtu`.
    Path(String),
}

impl InputError {
    /// An error about `file` at `place`.
    pub fn new(file: impl Into<String>, place: Place, message: impl Into<String>) -> InputError {
        InputError { file: file.into(), place, message: message.into() }
    }

    /// An error about a line of `file`, counted from 1.
    pub fn line(file: &str, line: usize, message: impl Into<String>) -> InputError {
        InputError::new(file, Place::Line(line), message)
    }
}

impl fmt::Display for InputError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.file)?;
        match &self.place {
            Place::File => {}
            Place::Line(line) => write!(f, ":{line}")?,
            Place::Column(line, column) => write!(f, ":{line}:{column}")?,
            Place::Path(path) => write!(f, ": {}", shown(path))?,
        }
        write!(f, ": {}", self.message)
    }
}

/// Quotes a part of an input for an error message: at most 60 characters, with escaped control characters.
pub fn shown(text: &str) -> String {
    match text.char_indices().nth(60) {
        Some((end, _)) => format!("{}...", escaped(&text[..end])),
        None => escaped(text).into_owned(),
    }
}

/// Reads at most [`MAX_FILE`] bytes of UTF-8 text. `name` is the name of the source in errors.
///
/// # Errors
/// The source is longer, is not UTF-8, or cannot be read.
pub fn read_limited(source: impl Read, name: &str) -> Result<String, InputError> {
    let mut bytes = Vec::new();
    source
        .take(MAX_FILE + 1)
        .read_to_end(&mut bytes)
        .map_err(|error| InputError::new(name, Place::File, format!("cannot be read: {error}")))?;
    if bytes.len() as u64 > MAX_FILE {
        return Err(InputError::new(name, Place::File, format!("is longer than {} MiB", MAX_FILE >> 20)));
    }
    String::from_utf8(bytes).map_err(|error| {
        let before = &error.as_bytes()[..error.utf8_error().valid_up_to()];
        let line = before.iter().filter(|byte| **byte == b'\n').count() + 1;
        InputError::line(name, line, "is not UTF-8 text")
    })
}

/// Reads a text file of at most [`MAX_FILE`] bytes.
///
/// # Errors
/// The file is longer, is not UTF-8, or cannot be read.
pub fn read_file(path: &Path) -> Result<String, InputError> {
    let name = path.display().to_string();
    let file = File::open(path)
        .map_err(|error| InputError::new(name.as_str(), Place::File, format!("cannot be read: {error}")))?;
    read_limited(file, &name)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn errors_name_the_place() {
        let place = |place| InputError::new("a", place, "is wrong").to_string();
        assert_eq!(place(Place::File), "a: is wrong");
        assert_eq!(place(Place::Line(3)), "a:3: is wrong");
        assert_eq!(place(Place::Column(3, 7)), "a:3:7: is wrong");
        assert_eq!(place(Place::Path("PORT|Ethernet0".into())), "a: PORT|Ethernet0: is wrong");
    }

    #[test]
    fn quotations_are_short_and_printable() {
        assert_eq!(shown("a\u{1b}[31m"), "a\\u{1b}[31m");
        assert_eq!(shown(&"x".repeat(60)), "x".repeat(60));
        assert_eq!(shown(&"é".repeat(1_000)), format!("{}...", "é".repeat(60)));
    }

    #[test]
    fn text_that_is_not_utf8_is_refused_with_its_line() {
        assert_eq!(read_limited(&b"a\nb\n\xff"[..], "f").unwrap_err().to_string(), "f:3: is not UTF-8 text");
    }
}
