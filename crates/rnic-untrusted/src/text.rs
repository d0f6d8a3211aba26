//! Text of peers, files and devices, made safe for terminals and logs.
//!
//! Such text may contain control characters that move the cursor, change colours or set the title of a terminal, line
//! feeds that forge a line of a log, and characters that change the direction of text or are invisible. The functions
//! of this module replace all of these characters, and nothing else. Their results do not change if a function is
//! applied again, so that both the reader of a message and the writer of a log can call them.

use std::borrow::Cow;
use std::fmt::Write as _;
use std::io::{self, Write};

/// Maximum length in characters of a text that a peer sent, in a message for users.
pub const MAX_CHARS: usize = 300;

/// Returns `text` on one line: control characters, line feeds, and characters that are invisible or change the
/// direction of text become escapes such as `\n` and `\u{1b}`. Quotation marks and backslashes stay.
///
/// ```
/// use rnic_untrusted::text::escaped;
///
/// assert_eq!(escaped("leaf \"1\"\n\u{1b}[2J"), "leaf \"1\"\\n\\u{1b}[2J");
/// assert_eq!(escaped("Zürich 東京"), "Zürich 東京");
/// ```
pub fn escaped(text: &str) -> Cow<'_, str> {
    if text.chars().all(is_plain) {
        return Cow::Borrowed(text);
    }
    let mut out = String::with_capacity(text.len() + 16);
    text.chars().for_each(|c| push(&mut out, c));
    Cow::Owned(out)
}

/// Returns a text of several lines, each like [`escaped`].
pub fn escaped_lines(text: &str) -> String {
    text.lines().map(escaped).collect::<Vec<_>>().join("\n")
}

/// Returns the beginning of `text` like [`escaped`], and the number of characters that were left out, if `text` has
/// more than `max` characters.
///
/// ```
/// use rnic_untrusted::text::brief;
///
/// assert_eq!(brief("the server is busy", 300), "the server is busy");
/// assert_eq!(brief("abcdef", 4), "abcd... (2 more characters)");
/// ```
pub fn brief(text: &str, max: usize) -> Cow<'_, str> {
    let Some((end, _)) = text.char_indices().nth(max) else { return escaped(text) };
    let more = text[end..].chars().count();
    Cow::Owned(format!("{}... ({more} more characters)", escaped(&text[..end])))
}

/// Returns `text` with its lines and tabs. Each other character that [`escaped`] replaces becomes a character of the
/// same length in bytes, so offsets into the text stay valid, which a drawing of an error needs.
pub fn masked(text: &str) -> Cow<'_, str> {
    let may_stay = |c: char| is_plain(c) || matches!(c, '\n' | '\t');
    if text.chars().all(may_stay) {
        return Cow::Borrowed(text);
    }
    let mut out = String::with_capacity(text.len());
    let mut characters = text.chars().peekable();
    while let Some(c) = characters.next() {
        // A carriage return belongs to the end of a line, if a line feed follows.
        match (may_stay(c) || c == '\r' && characters.peek() == Some(&'\n'), c.len_utf8()) {
            (true, _) => out.push(c),
            (false, 2) => out.push('\u{bf}'),
            (false, 3) => out.push('\u{fffd}'),
            (false, length) => out.extend(std::iter::repeat_n('?', length)),
        }
    }
    Cow::Owned(out)
}

/// A writer for output of several lines, such as tables, that passes text on to another writer. Characters that
/// [`escaped`] replaces, except line feeds and tabs, and bytes that are not UTF-8, become U+FFFD. So documents such as
/// JSON stay valid, in which an escape of another kind would be an error.
pub struct Printable<W> {
    out: W,
    /// The first bytes of a character whose other bytes have not been written.
    begun: Vec<u8>,
}

impl<W: Write> Printable<W> {
    /// A writer that passes text on to `out`.
    pub fn new(out: W) -> Printable<W> {
        Printable { out, begun: Vec::new() }
    }

    /// The other writer.
    pub fn into_inner(self) -> W {
        self.out
    }

    fn pass_on(&mut self, bytes: &[u8]) -> io::Result<()> {
        let may_stay = |c: char| is_plain(c) || matches!(c, '\n' | '\t');
        let mut rest = bytes.len();
        for chunk in bytes.utf8_chunks() {
            let (valid, invalid) = (chunk.valid(), chunk.invalid());
            rest -= valid.len() + invalid.len();
            if valid.chars().all(may_stay) {
                self.out.write_all(valid.as_bytes())?;
            } else {
                let shown: String = valid.chars().map(|c| if may_stay(c) { c } else { '\u{fffd}' }).collect();
                self.out.write_all(shown.as_bytes())?;
            }
            let is_begun = rest == 0 && std::str::from_utf8(invalid).is_err_and(|error| error.error_len().is_none());
            if is_begun {
                self.begun = invalid.to_vec();
            } else if !invalid.is_empty() {
                self.out.write_all("\u{fffd}".as_bytes())?;
            }
        }
        Ok(())
    }
}

impl<W: Write> Write for Printable<W> {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        if self.begun.is_empty() {
            self.pass_on(bytes)?;
        } else {
            let mut all = std::mem::take(&mut self.begun);
            all.extend_from_slice(bytes);
            self.pass_on(&all)?;
        }
        Ok(bytes.len())
    }

    fn flush(&mut self) -> io::Result<()> {
        self.out.flush()
    }
}

/// Whether a character can be printed as it is.
fn is_plain(c: char) -> bool {
    if c.is_ascii() {
        return (' '..='~').contains(&c);
    }
    // The standard library's table of characters that cannot be printed has control characters, format characters
    // (which change the direction of text), unusual spaces, and code points without a character. A combining character
    // counts as printable after another character.
    let mut pair = String::from("a");
    pair.push(c);
    pair.escape_debug().nth(1) == Some(c)
}

fn push(out: &mut String, c: char) {
    if is_plain(c) {
        out.push(c);
    } else {
        // Writing to a string cannot fail.
        let _ = write!(out, "{}", c.escape_debug());
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Texts with every kind of dangerous character: what terminals execute, what forges lines, what deceives readers.
    const HOSTILE: [&str; 12] = [
        "\u{1b}[2J\u{1b}]0;title\u{7}",
        "\r\n[::ffff:10.9.0.9]:1: 1 measurement",
        "\u{9b}31m",
        "\u{7f}\u{8}\u{8}",
        "\0",
        "\u{202e}fdp.exe",
        "\u{2066}a\u{2069}",
        "\u{200b}\u{feff}\u{ad}",
        "\u{2028}\u{2029}\u{85}",
        "\u{e0041}",
        "\u{a0}\u{3000}",
        "\t\u{b}\u{c}",
    ];

    #[test]
    fn dangerous_characters_are_replaced() {
        for text in HOSTILE {
            let (line, kept) = (escaped(text), masked(text));
            assert!(line.chars().all(is_plain), "{line:?}");
            assert!(line.contains('\\'), "{line:?}");
            assert!(kept.replace("\r\n", "\n").chars().all(|c| is_plain(c) || matches!(c, '\n' | '\t')), "{kept:?}");
            assert_eq!(kept.len(), text.len());
            assert_eq!(kept.matches('\n').count(), text.matches('\n').count());
        }
    }

    #[test]
    fn text_of_all_languages_stays() {
        for text in ["", "a b\"c'\\d~", "Zürich", "e\u{301}", "東京", "Ελλάδα", "עברית", "العربية", "🦀", "a-b_c.d/e:f"]
        {
            assert!(matches!(escaped(text), Cow::Borrowed(same) if same == text), "{text}");
            assert!(matches!(masked(text), Cow::Borrowed(same) if same == text), "{text}");
        }
    }

    #[test]
    fn a_second_call_changes_nothing() {
        for text in HOSTILE {
            let once = escaped(text).into_owned();
            assert_eq!(escaped(&once), once);
            assert_eq!(masked(&masked(text)), masked(text));
        }
    }

    #[test]
    fn output_is_harmless_however_it_is_written() {
        let text = format!("table\t1\n{}\nZürich 東京 🦀\n", HOSTILE.concat());
        let written = |size: usize| {
            let mut out = Printable::new(Vec::new());
            text.as_bytes().chunks(size).for_each(|bytes| out.write_all(bytes).unwrap());
            String::from_utf8(out.into_inner()).unwrap()
        };
        let whole = written(usize::MAX);
        assert!(whole.starts_with("table\t1\n\u{fffd}[2J") && whole.ends_with("\nZürich 東京 🦀\n"), "{whole}");
        assert!(whole.chars().all(|c| is_plain(c) || matches!(c, '\n' | '\t' | '\u{fffd}')), "{whole:?}");
        for size in 1..10 {
            assert_eq!(written(size), whole, "{size}");
        }
        let mut out = Printable::new(Vec::new());
        out.write_all(b"a\xff\xc3(b").unwrap();
        assert_eq!(out.into_inner(), "a\u{fffd}\u{fffd}(b".as_bytes());
    }

    #[test]
    fn long_text_is_cut() {
        let long = brief(&"\u{1b}é".repeat(250_000), MAX_CHARS).into_owned();
        assert!(long.chars().all(is_plain) && long.ends_with("... (499700 more characters)"), "{long}");
        assert_eq!(long.matches("\\u{1b}é").count(), MAX_CHARS / 2);
        assert_eq!(brief(&"é".repeat(300), 300), "é".repeat(300));
        assert_eq!(brief("", 0), "");
    }
}
