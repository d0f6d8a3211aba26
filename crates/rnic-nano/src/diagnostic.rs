//! Diagnostics of the P4 compiler: the errors of a program, warnings about it, and their positions.

use crate::source::{SourceMap, Span};
use std::fmt::Write;

/// Whether the compiler refuses a program because of a diagnostic.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Severity {
    /// The compiler refuses the program.
    Error,
    /// The program is probably not what its author wants.
    Warning,
}

/// One error or warning of the compiler.
///
/// # Examples
/// ```
/// use rnic_nano::diagnostic::Diagnostic;
/// use rnic_nano::source::{SourceFile, SourceMap, Span};
///
/// let file = SourceFile { name: "main.p4".into(), text: "const bit<8> A = 1;\n".into() };
/// let sources = SourceMap { files: vec![file] };
/// let error = Diagnostic::new(Span { file: 0, start: 13, end: 14 }, "`A` is too short", "one letter");
/// let rendered = error.with_help("choose a longer name").render(&sources);
/// assert_eq!(
///     rendered,
///     "error: `A` is too short
///  --> main.p4:1:14
/// 1 | const bit<8> A = 1;
///   |              ^ one letter
///   help: choose a longer name
/// "
/// );
/// ```
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Diagnostic {
    /// Whether the compiler refuses the program.
    pub severity: Severity,
    /// The error in one sentence, without a full stop at its end.
    pub message: String,
    /// The source range in which the error lies.
    pub span: Span,
    /// The label printed below the source range: it says what the compiler found or expected there.
    pub label: String,
    /// Other source ranges that explain the error, each with a label. For a name that is declared twice, this is the
    /// first declaration.
    pub related: Vec<(Span, String)>,
    /// Advice: what the compiler would accept, or what to write instead.
    pub help: Option<String>,
}

impl Diagnostic {
    /// Creates an error without related source ranges and without advice.
    pub fn new(span: Span, message: impl Into<String>, label: impl Into<String>) -> Diagnostic {
        let (message, label) = (message.into(), label.into());
        Diagnostic { severity: Severity::Error, message, span, label, related: Vec::new(), help: None }
    }

    /// Creates a warning without related source ranges and without advice.
    pub fn warning(span: Span, message: impl Into<String>, label: impl Into<String>) -> Diagnostic {
        Diagnostic { severity: Severity::Warning, ..Diagnostic::new(span, message, label) }
    }

    /// Creates an error for a construct of P4_16 that this compiler does not support. `what` names the construct, and
    /// `instead` is advice on what to write instead.
    pub fn unsupported(span: Span, what: &str, instead: Option<&str>) -> Diagnostic {
        let help = instead.map(str::to_string);
        Diagnostic { help, ..Diagnostic::new(span, format!("not supported: {what}"), "not part of the subset") }
    }

    /// Adds a source range that helps to explain the error, with a label.
    pub fn with_related(mut self, span: Span, label: impl Into<String>) -> Diagnostic {
        self.related.push((span, label.into()));
        self
    }

    /// Adds advice to the error, which is printed in its last line.
    pub fn with_help(mut self, help: impl Into<String>) -> Diagnostic {
        self.help = Some(help.into());
        self
    }

    /// The error or warning in one line: the position as `file:line:column`, the message, and the advice.
    ///
    /// ```
    /// use rnic_nano::diagnostic::Diagnostic;
    /// use rnic_nano::source::{SourceFile, SourceMap, Span};
    ///
    /// let file = SourceFile { name: "main.p4".into(), text: "const bit<8> A = 1;\n".into() };
    /// let warning = Diagnostic::warning(Span { file: 0, start: 13, end: 14 }, "`A` is not used", "declared here");
    /// assert_eq!(warning.in_one_line(&SourceMap { files: vec![file] }), "main.p4:1:14: `A` is not used");
    /// ```
    pub fn in_one_line(&self, sources: &SourceMap) -> String {
        let help = self.help.as_ref().map_or(String::new(), |help| format!("; {help}"));
        let Some(file) = sources.files.get(usize::from(self.span.file)) else { return self.message.clone() + &help };
        let (line, column) = sources.position(self.span);
        format!("{}:{line}:{column}: {}{help}", file.name, self.message)
    }

    /// Renders the error or warning as plain text. The text has the message, the position as `file:line:column`, the
    /// source line with `^` under the source range, the related source ranges in the same form, and the advice.
    pub fn render(&self, sources: &SourceMap) -> String {
        let severity = match self.severity {
            Severity::Error => "error",
            Severity::Warning => "warning",
        };
        let mut text = format!("{severity}: {}\n", self.message);
        self.render_span(&mut text, sources, self.span, &self.label);
        for (span, label) in &self.related {
            self.render_span(&mut text, sources, *span, label);
        }
        if let Some(help) = &self.help {
            let _ = writeln!(text, "  help: {help}");
        }
        text
    }

    fn render_span(&self, out: &mut String, sources: &SourceMap, span: Span, label: &str) {
        let Some(file) = sources.files.get(usize::from(span.file)) else { return };
        let (line, column) = sources.position(span);
        let shown = file.text.lines().nth(line - 1).unwrap_or_default();
        let (shown, before) = truncate_line(shown, column - 1);
        // The indentation repeats the tabs of the source line, so that each `^` stands exactly under the source range.
        let indent: String = shown.chars().take(before).map(|c| if c == '\t' { '\t' } else { ' ' }).collect();
        let max_width = shown.chars().count().saturating_sub(before).max(1);
        let width = sources.text(span).chars().take_while(|c| *c != '\n').count().clamp(1, max_width);
        let margin = " ".repeat(line.to_string().len());
        let _ = writeln!(out, "{margin}--> {}:{line}:{column}", file.name);
        let _ = writeln!(out, "{line} | {shown}");
        let _ = writeln!(out, "{margin} | {indent}{} {label}", "^".repeat(width));
    }
}

/// Truncates a long source line to the text around the column `before`. Returns the truncated text and the position of
/// the column in it.
fn truncate_line(line: &str, before: usize) -> (String, usize) {
    const MAX_CHARS: usize = 200;
    const CONTEXT_CHARS: usize = 80;
    if line.chars().count() <= MAX_CHARS {
        return (line.to_string(), before);
    }
    let skipped = before.saturating_sub(CONTEXT_CHARS);
    let start = if skipped > 0 { "..." } else { "" };
    let shown: String = line.chars().skip(skipped).take(2 * CONTEXT_CHARS).collect();
    (format!("{start}{shown}..."), before - skipped + start.len())
}

/// Returns the name in `known` that is most similar to `name`, for the advice `did you mean ...?`.
///
/// The edit distance between the two names must be at most a third of the characters of `name`; for a name of two
/// characters it must be at most 1. Among equally similar names, the first in alphabetical order is chosen.
pub(crate) fn nearest<'a>(name: &str, known: impl IntoIterator<Item = &'a str>) -> Option<&'a str> {
    let max_distance = match name.chars().count() {
        0 | 1 => return None,
        length => (length / 3).max(1),
    };
    let ranked = known.into_iter().map(|known| (strsim::osa_distance(name, known), known));
    ranked.filter(|(distance, _)| (1..=max_distance).contains(distance)).min().map(|(_, known)| known)
}
