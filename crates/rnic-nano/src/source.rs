//! Source files of a P4 program, and positions in them.

/// A range of bytes in a source file.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug, Default)]
pub struct Span {
    /// The source file, as an index into [`SourceMap::files`].
    pub file: u16,
    /// The offset of the first byte of the range.
    pub start: u32,
    /// The offset of the first byte after the range.
    pub end: u32,
}

impl Span {
    /// Returns the range from the start of `self` to the end of `last`. Returns `self` if the two ranges are in
    /// different files.
    pub fn to(self, last: Span) -> Span {
        if self.file == last.file { Span { end: last.end.max(self.end), ..self } } else { self }
    }
}

/// A source file.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct SourceFile {
    /// The name of the file, as error messages show it.
    pub name: String,
    /// The text of the file.
    pub text: String,
}

/// All source files of a program.
///
/// # Examples
/// ```
/// use rnic_nano::source::{SourceFile, SourceMap, Span};
///
/// let file = SourceFile { name: "main.p4".into(), text: "#include <core.p4>\nconst bit<8> A = 1;\n".into() };
/// let sources = SourceMap { files: vec![file] };
/// let span = Span { file: 0, start: 32, end: 33 };
/// assert_eq!((sources.text(span), sources.position(span)), ("A", (2, 14)));
/// ```
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub struct SourceMap {
    /// The files, in the order in which the preprocessor read them; the main file is the first one.
    pub files: Vec<SourceFile>,
}

impl SourceMap {
    /// Returns the source text in a span. The text is empty if the span does not lie in one of these files.
    pub fn text(&self, span: Span) -> &str {
        let file = self.files.get(usize::from(span.file));
        file.and_then(|file| file.text.get(span.start as usize..span.end as usize)).unwrap_or_default()
    }

    /// Returns the line and the column at which a span starts. Both count from 1, and columns count characters, not
    /// bytes.
    pub fn position(&self, span: Span) -> (usize, usize) {
        let text = self.files.get(usize::from(span.file)).map_or("", |file| &file.text);
        let before = text.get(..span.start as usize).unwrap_or(text);
        let line_start = before.rfind('\n').map_or(0, |newline| newline + 1);
        (before.matches('\n').count() + 1, before[line_start..].chars().count() + 1)
    }
}
