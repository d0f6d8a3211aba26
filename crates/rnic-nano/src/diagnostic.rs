//! What is wrong with a program, and where.

use crate::source::{SourceMap, Span};
use std::fmt::Write;

/// One thing that is wrong.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Diagnostic {
    /// One sentence without a full stop: what is wrong.
    pub message: String,
    /// Where.
    pub span: Span,
    /// A few words beside the place: what was found there or expected.
    pub label: String,
    /// Other places that matter, each with a few words: a first declaration, say.
    pub related: Vec<(Span, String)>,
    /// What would be accepted, or what to do instead.
    pub help: Option<String>,
}

impl Diagnostic {
    /// Without related places and help.
    pub fn new(span: Span, message: impl Into<String>, label: impl Into<String>) -> Diagnostic {
        Diagnostic { message: message.into(), span, label: label.into(), related: Vec::new(), help: None }
    }

    /// Something of P4 that this compiler does not have; `instead` may say what to do.
    pub fn unsupported(span: Span, what: &str, instead: Option<&str>) -> Diagnostic {
        let help = instead.map(str::to_string);
        Diagnostic { help, ..Diagnostic::new(span, format!("not supported: {what}"), "not part of the subset") }
    }

    /// With one more place that matters.
    pub fn with_related(mut self, span: Span, label: impl Into<String>) -> Diagnostic {
        self.related.push((span, label.into()));
        self
    }

    /// With advice.
    pub fn with_help(mut self, help: impl Into<String>) -> Diagnostic {
        self.help = Some(help.into());
        self
    }

    /// As plain text: `file:line:column: message`, the line, a mark under the place, the related places and the advice.
    pub fn render(&self, sources: &SourceMap) -> String {
        let mut text = format!("error: {}\n", self.message);
        self.render_place(&mut text, sources, self.span, &self.label);
        for (span, label) in &self.related {
            self.render_place(&mut text, sources, *span, label);
        }
        if let Some(help) = &self.help {
            let _ = writeln!(text, "  help: {help}");
        }
        text
    }

    fn render_place(&self, out: &mut String, sources: &SourceMap, span: Span, label: &str) {
        let Some(file) = sources.files.get(usize::from(span.file)) else { return };
        let (line, column) = sources.position(span);
        let shown = file.text.lines().nth(line - 1).unwrap_or_default();
        let (shown, before) = cut(shown, column - 1);
        // Tabs keep their width under the line.
        let indent: String = shown.chars().take(before).map(|c| if c == '\t' { '\t' } else { ' ' }).collect();
        let most = shown.chars().count().saturating_sub(before).max(1);
        let width = sources.text(span).chars().take_while(|c| *c != '\n').count().clamp(1, most);
        let margin = " ".repeat(line.to_string().len());
        let _ = writeln!(out, "{margin}--> {}:{line}:{column}", file.name);
        let _ = writeln!(out, "{line} | {shown}");
        let _ = writeln!(out, "{margin} | {indent}{} {label}", "^".repeat(width));
    }
}

/// A line, or of a long one what is around a place, and how many characters of it stand before that place.
fn cut(line: &str, before: usize) -> (String, usize) {
    const MOST: usize = 200;
    const AROUND: usize = 80;
    if line.chars().count() <= MOST {
        return (line.to_string(), before);
    }
    let skipped = before.saturating_sub(AROUND);
    let start = if skipped > 0 { "..." } else { "" };
    let shown: String = line.chars().skip(skipped).take(2 * AROUND).collect();
    (format!("{start}{shown}..."), before - skipped + start.len())
}
