//! The exceptions of the package. Their positions are positions in the input of the user: a file, a text, the keyword
//! arguments of `Scenario`, or a change.

use pyo3::create_exception;
use pyo3::exceptions::{PyOSError, PyRuntimeError, PyValueError};
use pyo3::prelude::*;
use pyo3::types::PyList;
use rnic_scenario::Mistake;
use std::ops::Range;
use std::path::PathBuf;
use toml::Spanned;
use toml::de::{DeTable, DeValue};

create_exception!(
    rnic,
    ScenarioError,
    PyValueError,
    "A scenario has mistakes, or describes something that cannot be simulated.\n\n\
     The attributes describe the first mistake: `file` (str: the file, the name of the scenario, or the change), \
     `path` (str: the dotted path of the value in the arguments of `Scenario` or in a change, as `with_` accepts it, or None \
     if the mistake is in a file or a text), `line` and `column` (int from 1, or None if the mistake is not in a file \
     or a text), `message` (what is wrong) and `accepted` (what would be accepted, or None). `mistakes` has all \
     mistakes as exceptions of this class."
);
create_exception!(
    rnic,
    RunError,
    PyRuntimeError,
    "At least one run of a scenario failed. The attribute `results` has the results of all runs."
);

/// The input of the user, where it differs from the texts that the reader of scenarios has seen.
#[derive(Debug, Default)]
pub(crate) struct Written<'w> {
    /// The text that was made of the keyword arguments of `Scenario`.
    pub(crate) arguments: Option<&'w str>,
    /// The changes, as (path, value).
    pub(crate) changes: &'w [(String, String)],
    /// The files in which flows from Python are, with a header line and a line for each flow.
    pub(crate) flows: Vec<PathBuf>,
}

/// A mistake as the user sees it.
struct Shown {
    file: String,
    path: Option<String>,
    at: Option<(usize, usize)>,
    message: String,
    accepted: Option<String>,
}

impl Shown {
    fn of(mistake: &Mistake, written: &Written<'_>) -> Shown {
        let mut shown = Shown {
            file: mistake.file.clone(),
            path: None,
            at: (!mistake.is_override).then(|| mistake.line_column()),
            message: written.without_files(&mistake.message),
            accepted: mistake.help.as_deref().map(|help| written.without_files(help)),
        };
        if mistake.is_override {
            // Python's users write changes as arguments and not as `--set`.
            shown.file = mistake.file.strip_prefix("--set ").unwrap_or(&mistake.file).to_string();
            let change = written.changes.iter().find(|(path, value)| format!("{path}={value}") == mistake.text);
            shown.path = change.map(|(path, _)| path.clone());
            if written.flows.iter().any(|file| mistake.text.contains(&*file.to_string_lossy())) {
                (shown.file, shown.path) = ("flows".to_string(), Some("flows".to_string()));
            }
        } else if written.arguments == Some(mistake.text.as_str()) {
            (shown.path, shown.at) = (path_at(&mistake.text, &mistake.span), None);
        }
        shown
    }

    /// The mistake on one line: `position: message; accepted`.
    fn line(&self) -> String {
        let mut line = match (&self.path, self.at) {
            (_, Some((line, column))) => format!("{}:{line}:{column}", self.file),
            (Some(path), None) if !self.file.starts_with(path.as_str()) => path.clone(),
            _ => self.file.clone(),
        };
        line.push_str(": ");
        line.push_str(&self.message);
        if let Some(accepted) = &self.accepted {
            line.push_str("; ");
            line.push_str(accepted);
        }
        line
    }
}

impl Written<'_> {
    /// A sentence without the temporary files of flows: `FILE:5: ` is the flow with the index 3, because the header
    /// is the first line.
    fn without_files(&self, sentence: &str) -> String {
        let mut text = sentence.to_string();
        for file in &self.flows {
            let file = file.to_string_lossy();
            while let Some(start) = text.find(&*file) {
                let rest = &text[start + file.len()..];
                let digits =
                    rest.strip_prefix(':').map_or(0, |rest| rest.bytes().take_while(u8::is_ascii_digit).count());
                let line: Option<u64> = rest.get(1..1 + digits).and_then(|digits| digits.parse().ok());
                let (name, length) = match line {
                    Some(line) if line >= 2 => (format!("flow {}", line - 2), 1 + digits),
                    _ => ("the flows".to_string(), 0),
                };
                text.replace_range(start..start + file.len() + length, &name);
            }
        }
        text
    }
}

/// The dotted path of the key or value at `span` of a TOML text, as `with_` accepts it: the smallest one that contains
/// the span. Empty for the whole text.
fn path_at(text: &str, span: &Range<usize>) -> Option<String> {
    let table = DeTable::parse(text).ok()?;
    let mut found = (usize::MAX, String::new());
    visit_table(table.get_ref(), "", span, &mut found);
    Some(found.1)
}

fn visit_table(table: &DeTable<'_>, path: &str, wanted: &Range<usize>, found: &mut (usize, String)) {
    for (key, value) in table {
        let name: &str = key.get_ref();
        let name = if name.contains('.') { format!("\"{name}\"") } else { name.to_string() };
        let below = if path.is_empty() { name } else { format!("{path}.{name}") };
        consider(&key.span(), &below, wanted, found);
        visit(value, &below, wanted, found);
    }
}

fn visit(value: &Spanned<DeValue<'_>>, path: &str, wanted: &Range<usize>, found: &mut (usize, String)) {
    consider(&value.span(), path, wanted, found);
    match value.get_ref() {
        DeValue::Table(table) => visit_table(table, path, wanted, found),
        DeValue::Array(values) => {
            values
                .iter()
                .enumerate()
                .for_each(|(index, value)| visit(value, &format!("{path}.{index}"), wanted, found));
        }
        _ => {}
    }
}

fn consider(span: &Range<usize>, path: &str, wanted: &Range<usize>, found: &mut (usize, String)) {
    if span.start <= wanted.start && wanted.end <= span.end && span.len() < found.0 {
        *found = (span.len(), path.to_string());
    }
}

/// The exception for an error of the scenario reader.
pub(crate) fn scenario(py: Python<'_>, error: &rnic_scenario::ScenarioError, written: &Written<'_>) -> PyErr {
    let raised = match error {
        rnic_scenario::ScenarioError::Io { path, error } => {
            let message = format!("cannot read `{}`: {error}", path.display());
            return match error.raw_os_error() {
                Some(errno) => PyOSError::new_err((errno, message, path.clone().into_os_string())),
                None => plain(py, &path.to_string_lossy(), &message),
            };
        }
        rnic_scenario::ScenarioError::Mistake(mistake) => of(py, std::slice::from_ref(&**mistake), written),
        rnic_scenario::ScenarioError::Mistakes(mistakes) => of(py, mistakes, written),
    };
    raised.unwrap_or_else(|error| error)
}

/// The exception for a mistake without a position: the name of the scenario, and a sentence.
pub(crate) fn plain(py: Python<'_>, file: &str, message: &str) -> PyErr {
    let shown = Shown { file: file.to_string(), path: None, at: None, message: message.to_string(), accepted: None };
    let error = ScenarioError::new_err(message.to_string());
    let set = || -> PyResult<()> {
        describe(&error, py, &shown)?;
        error.value(py).setattr("mistakes", PyList::new(py, [error.value(py)])?)
    };
    set().err().unwrap_or_else(|| error.clone_ref(py))
}

fn describe(error: &PyErr, py: Python<'_>, shown: &Shown) -> PyResult<()> {
    let value = error.value(py);
    value.setattr("file", &shown.file)?;
    value.setattr("path", &shown.path)?;
    value.setattr("line", shown.at.map(|(line, _)| line))?;
    value.setattr("column", shown.at.map(|(_, column)| column))?;
    value.setattr("message", &shown.message)?;
    value.setattr("accepted", &shown.accepted)
}

fn of(py: Python<'_>, mistakes: &[Mistake], written: &Written<'_>) -> PyResult<PyErr> {
    let shown: Vec<Shown> = mistakes.iter().map(|mistake| Shown::of(mistake, written)).collect();
    let Some(first) = shown.first() else { return Ok(plain(py, "", "the scenario has mistakes")) };
    let one = |shown: &Shown, text: String| -> PyResult<PyErr> {
        let error = ScenarioError::new_err(text);
        describe(&error, py, shown)?;
        Ok(error)
    };
    let each: Vec<PyErr> = shown.iter().map(|shown| one(shown, shown.line())).collect::<PyResult<_>>()?;
    let error = one(first, shown.iter().map(Shown::line).collect::<Vec<_>>().join("\n"))?;
    error.value(py).setattr("mistakes", PyList::new(py, each.iter().map(|error| error.value(py)))?)?;
    Ok(error)
}
