//! Source files and positions in them.

/// A stretch of a source file, in bytes.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug, Default)]
pub struct Span {
    /// Which file: an index into [`SourceMap`].
    pub file: u16,
    /// First byte.
    pub start: u32,
    /// Byte after the last.
    pub end: u32,
}

impl Span {
    /// From the start of this one to the end of `last`; the two are in one file, else this one alone.
    pub fn to(self, last: Span) -> Span {
        if self.file == last.file { Span { end: last.end.max(self.end), ..self } } else { self }
    }
}

/// A file.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct SourceFile {
    /// What a reader calls it.
    pub name: String,
    /// What is in it.
    pub text: String,
}

/// All files of a program.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub struct SourceMap {
    /// In order of inclusion.
    pub files: Vec<SourceFile>,
}

impl SourceMap {
    /// The text of a span, empty if it is not one of these files'.
    pub fn text(&self, span: Span) -> &str {
        let file = self.files.get(usize::from(span.file));
        file.and_then(|file| file.text.get(span.start as usize..span.end as usize)).unwrap_or_default()
    }

    /// Line and column of a span's start, both counted from 1; columns in characters.
    pub fn position(&self, span: Span) -> (usize, usize) {
        let text = self.files.get(usize::from(span.file)).map_or("", |file| &file.text);
        let before = text.get(..span.start as usize).unwrap_or(text);
        let line_start = before.rfind('\n').map_or(0, |newline| newline + 1);
        (before.matches('\n').count() + 1, before[line_start..].chars().count() + 1)
    }
}
