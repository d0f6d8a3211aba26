//! The errors in a P4 program, printed with the source lines that they refer to.

use miette::{Diagnostic, LabeledSpan, NamedSource, Severity, SourceCode};
use rnic_nano::Rejected;
use rnic_nano::diagnostic::Diagnostic as Wrong;
use rnic_nano::source::{SourceMap, Span};
use rnic_untrusted::text::{escaped, escaped_lines, masked};
use std::fmt;

/// All errors of a P4 program that the compiler rejected, as the terminal shows them.
pub(crate) fn draw(rejected: &Rejected) -> String {
    let drawn =
        rejected.errors.iter().map(|error| format!("{:?}", miette::Report::new(Drawn::new(error, &rejected.sources))));
    drawn.collect::<Vec<_>>().join("\n").trim_end().to_string()
}

/// One error in a P4 program, or a related note, with its positions in one source file. Positions in other files are in
/// `elsewhere`.
#[derive(Debug)]
struct Drawn {
    message: String,
    severity: Severity,
    source: NamedSource<String>,
    labels: Vec<LabeledSpan>,
    help: Option<String>,
    elsewhere: Vec<Drawn>,
}

impl Drawn {
    fn new(error: &Wrong, sources: &SourceMap) -> Drawn {
        let (here, elsewhere): (Vec<_>, Vec<_>) =
            error.related.iter().partition(|(span, _)| span.file == error.span.file);
        let mut labels = vec![LabeledSpan::new_primary_with_span(Some(escaped_lines(&error.label)), range(error.span))];
        labels.extend(
            here.iter().map(|(span, label)| LabeledSpan::new_with_span(Some(escaped_lines(label)), range(*span))),
        );
        Drawn {
            message: escaped_lines(&error.message),
            severity: Severity::Error,
            source: source(error.span, sources),
            labels,
            help: error.help.as_deref().map(escaped_lines),
            elsewhere: elsewhere.iter().map(|(span, label)| Drawn::place(*span, label, sources)).collect(),
        }
    }

    /// A note about a related position that is in another file than the error.
    fn place(span: Span, label: &str, sources: &SourceMap) -> Drawn {
        Drawn {
            message: escaped_lines(label),
            severity: Severity::Advice,
            source: source(span, sources),
            labels: vec![LabeledSpan::new_primary_with_span(None, range(span))],
            help: None,
            elsewhere: Vec::new(),
        }
    }
}

fn source(span: Span, sources: &SourceMap) -> NamedSource<String> {
    let file = sources.files.get(usize::from(span.file));
    let (name, text) = file.map_or(("", ""), |file| (&file.name, &file.text));
    NamedSource::new(escaped(name), masked(text).into_owned())
}

fn range(span: Span) -> (usize, usize) {
    (span.start as usize, (span.end.saturating_sub(span.start)) as usize)
}

impl fmt::Display for Drawn {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.message)
    }
}

impl std::error::Error for Drawn {}

impl Diagnostic for Drawn {
    fn severity(&self) -> Option<Severity> {
        Some(self.severity)
    }

    fn help<'a>(&'a self) -> Option<Box<dyn fmt::Display + 'a>> {
        self.help.as_ref().map(|help| Box::new(help) as Box<dyn fmt::Display>)
    }

    fn source_code(&self) -> Option<&dyn SourceCode> {
        Some(&self.source)
    }

    fn labels(&self) -> Option<Box<dyn Iterator<Item = LabeledSpan> + '_>> {
        Some(Box::new(self.labels.iter().cloned()))
    }

    fn related<'a>(&'a self) -> Option<Box<dyn Iterator<Item = &'a dyn Diagnostic> + 'a>> {
        if self.elsewhere.is_empty() {
            return None;
        }
        Some(Box::new(self.elsewhere.iter().map(|place| place as &dyn Diagnostic)))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use rnic_nano::source::SourceFile;

    #[test]
    fn places_are_drawn_in_their_files() {
        let file = |name: &str, text: &str| SourceFile { name: name.into(), text: text.into() };
        let files = vec![file("a.p4", "const int A = 1;\nconst int A = 2;\n"), file("b.p4", "const int B = 3;\n")];
        let sources = SourceMap { files };
        let span = |file, start, end| Span { file, start, end };
        let error = Wrong::new(span(0, 27, 28), "`A` is declared twice", "again here")
            .with_related(span(0, 10, 11), "first here")
            .with_related(span(1, 10, 11), "a like one")
            .with_help("choose another name");
        let handler = miette::GraphicalReportHandler::new_themed(miette::GraphicalTheme::unicode_nocolor());
        let mut text = String::new();
        handler.render_report(&mut text, &Drawn::new(&error, &sources)).unwrap();
        let parts = [
            "× `A` is declared twice",
            "a.p4:2:11",
            "1 │ const int A = 1;",
            "first here",
            "again here",
            "choose another name",
            "a like one",
            "b.p4:1:11",
        ];
        for part in parts {
            assert!(text.contains(part), "{part} is missing in\n{text}");
        }
    }

    #[test]
    fn a_place_at_the_end_and_one_nowhere_are_drawn() {
        let sources = SourceMap { files: vec![SourceFile { name: "a.p4".into(), text: "ab".into() }] };
        let rejected = |span| Rejected { errors: vec![Wrong::new(span, "it ends", "here")], sources: sources.clone() };
        for span in [Span { file: 0, start: 2, end: 2 }, Span { file: 3, start: 0, end: 0 }] {
            assert!(draw(&rejected(span)).contains("it ends"));
        }
    }
}
