//! Errors of the command: their messages and exit codes.

#[cfg(feature = "p4")]
use crate::drawn;
use miette::{Diagnostic, LabeledSpan, NamedSource, SourceCode};
#[cfg(feature = "p4")]
use rnic_nano::{Program, Rejected, rtl};
use rnic_scenario::{Mistake, ScenarioError};
use rnic_untrusted::text::{escaped, escaped_lines, masked};
use std::fmt;
use std::io::{self, IsTerminal, Write};

/// An error of the command.
#[derive(Debug, thiserror::Error)]
pub enum CliError {
    /// The scenario contains a mistake or cannot be read.
    #[error(transparent)]
    Scenario(#[from] ScenarioError),
    /// A P4 program contains mistakes.
    #[cfg(feature = "p4")]
    #[error(transparent)]
    Program(Box<Rejected>),
    /// The input is invalid, and the command has already printed the reasons on standard output.
    #[error("the input is invalid")]
    Told,
    /// The input is invalid in another way; the text is the message.
    #[error("{0}")]
    Input(String),
    /// The input is invalid in several ways, one sentence for each.
    #[error("{}", .0.join("\n"))]
    Inputs(Vec<String>),
    /// Runs failed; the message has one sentence for each run.
    #[error("{}", .0.join("\n"))]
    Failed(Vec<String>),
    /// Ctrl-C or SIGTERM interrupted the command, which has printed and stored its partial results.
    #[error("interrupted: {message}")]
    Interrupted {
        /// Exit code: 128 + number of the signal.
        code: u8,
        /// The results so far, and how to continue.
        message: String,
    },
    /// A file or stream cannot be read or written.
    #[error("{doing}: {error}")]
    Io {
        /// Description of the operation that failed.
        doing: String,
        /// The error of the operating system.
        error: io::Error,
    },
    /// The hardware differs from the core, or a tool for hardware fails.
    #[cfg(feature = "hardware")]
    #[error(transparent)]
    Hardware(#[from] rnic_hw::HwError),
    /// The reader of standard output has closed it, as `head` does. The command ends without a message and with code 0.
    #[error("the reader has closed the output")]
    NobodyReads,
}

impl CliError {
    /// The exit code of the command for this error.
    pub fn code(&self) -> u8 {
        match self {
            CliError::Scenario(_) | CliError::Told | CliError::Input(_) | CliError::Inputs(_) => 2,
            #[cfg(feature = "p4")]
            CliError::Program(_) => 2,
            #[cfg(feature = "hardware")]
            CliError::Hardware(rnic_hw::HwError::Parameter(_)) => 2,
            #[cfg(feature = "hardware")]
            CliError::Hardware(_) => 1,
            CliError::Failed(_) | CliError::Io { .. } => 1,
            CliError::Interrupted { code, .. } => *code,
            CliError::NobodyReads => 0,
        }
    }

    /// Prints the error on standard error and returns the exit code.
    pub fn report(self) -> u8 {
        let code = self.code();
        let text = match self {
            CliError::NobodyReads | CliError::Told => return code,
            #[cfg(feature = "p4")]
            CliError::Program(rejected) if io::stderr().is_terminal() => drawn::draw(&rejected),
            #[cfg(feature = "p4")]
            CliError::Program(rejected) => rejected.to_string(),
            CliError::Scenario(ScenarioError::Mistake(mistake)) if io::stderr().is_terminal() => {
                format!("{:?}", miette::Report::new(Drawn::new(*mistake)))
            }
            CliError::Scenario(ScenarioError::Mistakes(mistakes)) if io::stderr().is_terminal() => {
                let drawn =
                    mistakes.into_iter().map(|mistake| format!("{:?}", miette::Report::new(Drawn::new(mistake))));
                drawn.collect::<Vec<_>>().join("\n")
            }
            CliError::Scenario(ScenarioError::Mistakes(mistakes)) => {
                mistakes.iter().map(|mistake| plain(&mistake.to_string())).collect::<Vec<_>>().join("\n")
            }
            CliError::Failed(sentences) | CliError::Inputs(sentences) => {
                sentences.iter().map(|sentence| plain(sentence)).collect::<Vec<_>>().join("\n")
            }
            CliError::Interrupted { .. } => escaped(&self.to_string()).into_owned(),
            error => plain(&error.to_string()),
        };
        // An error here means that standard error is closed.
        let _ = writeln!(io::stderr(), "{text}");
        code
    }
}

/// The error of a program for which Verilog cannot be generated, with its position if the position is known.
#[cfg(feature = "p4")]
pub fn no_hardware(file: &str, program: &Program, error: &rtl::RtlError) -> CliError {
    match error.rejected(program) {
        Some(rejected) => CliError::Program(Box::new(rejected)),
        None => CliError::Input(format!("{file} has no hardware form: {error}")),
    }
}

/// The error message on one line, with the prefix `error: `.
fn plain(sentence: &str) -> String {
    let line = sentence.split_whitespace().collect::<Vec<_>>().join(" ");
    format!("error: {}", escaped(&line))
}

/// A mistake in a scenario, printed with the line that contains it.
#[derive(Debug)]
struct Drawn {
    mistake: Mistake,
    source: NamedSource<String>,
}

impl Drawn {
    fn new(mistake: Mistake) -> Drawn {
        // For a mistake in `--set`, the source text is the whole override, so the name of the source need not repeat
        // it.
        let name = if mistake.is_override { "--set" } else { &mistake.file };
        let source = NamedSource::new(escaped(name), masked(&mistake.text).into_owned());
        let mistake = Mistake {
            message: escaped_lines(&mistake.message),
            help: mistake.help.as_deref().map(escaped_lines),
            text: masked(&mistake.text).into_owned(),
            ..mistake
        };
        Drawn { mistake, source }
    }
}

impl fmt::Display for Drawn {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.mistake.message)
    }
}

impl std::error::Error for Drawn {}

impl Diagnostic for Drawn {
    fn help<'a>(&'a self) -> Option<Box<dyn fmt::Display + 'a>> {
        self.mistake.help.as_ref().map(|help| Box::new(help) as Box<dyn fmt::Display>)
    }

    fn source_code(&self) -> Option<&dyn SourceCode> {
        Some(&self.source)
    }

    fn labels(&self) -> Option<Box<dyn Iterator<Item = LabeledSpan> + '_>> {
        let end = self.mistake.span.end.min(self.mistake.text.len());
        let start = self.mistake.span.start.min(end);
        let label = LabeledSpan::new_with_span(Some("here".to_string()), (start, end - start));
        Some(Box::new(std::iter::once(label)))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn mistake(text: &str, span: std::ops::Range<usize>) -> Mistake {
        let (file, message) = ("a.toml".to_string(), "`k` is odd: 5".to_string());
        let help = Some("write 6".to_string());
        Mistake { file, text: text.to_string(), span, message, help, is_override: false }
    }

    #[test]
    fn a_drawn_mistake_shows_its_line_and_the_help() {
        let mistake = mistake("[fabric]\nk = 5\nrate = 3\n", 13..14);
        let handler = miette::GraphicalReportHandler::new_themed(miette::GraphicalTheme::unicode_nocolor());
        let mut drawn = String::new();
        handler.render_report(&mut drawn, &Drawn::new(mistake)).unwrap();
        for part in ["`k` is odd: 5", "a.toml:2:5", "2 │ k = 5", "write 6"] {
            assert!(drawn.contains(part), "{part} is missing in\n{drawn}");
        }
    }

    #[test]
    fn a_span_past_the_end_is_drawn_at_the_end() {
        let drawn = format!("{:?}", miette::Report::new(Drawn::new(mistake("k = 5", 40..50))));
        assert!(drawn.contains("`k` is odd: 5"), "{drawn}");
    }

    #[test]
    fn plain_errors_are_one_line() {
        assert_eq!(plain("two\n  lines"), "error: two lines");
        assert_eq!(plain("name \u{1b}[2J\u{202e}"), "error: name \\u{1b}[2J\\u{202e}");
    }

    /// A scenario of unknown origin can contain characters that a terminal executes.
    #[test]
    fn drawn_text_of_a_file_is_harmless() {
        let mut mistake = mistake("# \u{1b}]0;x\u{7} \u{202e}\nk = 5 # \u{9b}2J\n", 15..16);
        mistake.message = "`\u{1b}[2J` is odd".to_string();
        mistake.help = Some("write \r6".to_string());
        let handler = miette::GraphicalReportHandler::new_themed(miette::GraphicalTheme::unicode_nocolor());
        let mut drawn = String::new();
        handler.render_report(&mut drawn, &Drawn::new(mistake)).unwrap();
        assert!(drawn.lines().all(|line| escaped(line) == line), "{drawn:?}");
        assert!(drawn.contains("k = 5") && drawn.contains("\\u{1b}[2J"), "{drawn}");
    }

    #[test]
    fn exit_codes_distinguish_invalid_input_and_failures() {
        let io = CliError::Io { doing: "write".to_string(), error: io::Error::other("full") };
        assert_eq!((CliError::Input(String::new()).code(), io.code()), (2, 1));
        assert_eq!((CliError::Failed(vec![]).code(), CliError::NobodyReads.code()), (1, 0));
    }
}
