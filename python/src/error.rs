//! The exceptions of the package.

use pyo3::create_exception;
use pyo3::exceptions::{PyOSError, PyRuntimeError, PyValueError};
use pyo3::prelude::*;
use pyo3::types::PyList;
use rnic_scenario::Mistake;

create_exception!(
    rnic,
    ScenarioError,
    PyValueError,
    "A scenario has mistakes, or describes something that cannot be simulated.\n\n\
     The attributes describe the first mistake: `file` (str), `line` and `column` (int from 1, or None if the mistake \
     is not in a file), `message` (what is wrong) and `accepted` (what would be accepted, or None). `mistakes` has \
     all mistakes as exceptions of this class."
);
create_exception!(
    rnic,
    RunError,
    PyRuntimeError,
    "At least one run of a scenario failed. The attribute `results` has the results of all runs."
);

/// The exception for an error of the scenario reader.
pub(crate) fn scenario(py: Python<'_>, error: &rnic_scenario::ScenarioError) -> PyErr {
    let raised = match error {
        rnic_scenario::ScenarioError::Io { path, error } => {
            let message = format!("cannot read `{}`: {error}", path.display());
            return match error.raw_os_error() {
                Some(errno) => PyOSError::new_err((errno, message, path.clone().into_os_string())),
                None => plain(py, &path.to_string_lossy(), &message),
            };
        }
        rnic_scenario::ScenarioError::Mistake(mistake) => of(py, std::slice::from_ref(&**mistake)),
        rnic_scenario::ScenarioError::Mistakes(mistakes) => of(py, mistakes),
    };
    raised.unwrap_or_else(|error| error)
}

/// The exception for a mistake without a position: the name of the scenario, and a sentence.
pub(crate) fn plain(py: Python<'_>, file: &str, message: &str) -> PyErr {
    let error = ScenarioError::new_err(message.to_string());
    let set = || -> PyResult<()> {
        describe(&error, py, file, None, message, None)?;
        error.value(py).setattr("mistakes", PyList::new(py, [error.value(py)])?)
    };
    set().err().unwrap_or_else(|| error.clone_ref(py))
}

fn describe(
    error: &PyErr, py: Python<'_>, file: &str, at: Option<(usize, usize)>, message: &str, accepted: Option<&str>,
) -> PyResult<()> {
    let value = error.value(py);
    value.setattr("file", file)?;
    value.setattr("line", at.map(|(line, _)| line))?;
    value.setattr("column", at.map(|(_, column)| column))?;
    value.setattr("message", message)?;
    value.setattr("accepted", accepted)
}

fn of(py: Python<'_>, mistakes: &[Mistake]) -> PyResult<PyErr> {
    let one = |mistake: &Mistake, text: String| -> PyResult<PyErr> {
        let error = ScenarioError::new_err(text);
        let at = (!mistake.is_override).then(|| mistake.line_column());
        let file = mistake.file.strip_prefix("--set ").unwrap_or(&mistake.file);
        describe(&error, py, file, at, &mistake.message, mistake.help.as_deref())?;
        Ok(error)
    };
    // Python's users write changes as keyword arguments and not as `--set`.
    let shown = |mistake: &Mistake| {
        let text = mistake.to_string();
        text.strip_prefix("--set ").map_or(text.clone(), str::to_string)
    };
    let each: Vec<PyErr> = mistakes.iter().map(|mistake| one(mistake, shown(mistake))).collect::<PyResult<_>>()?;
    let all = mistakes.iter().map(shown).collect::<Vec<_>>().join("\n");
    let Some(first) = mistakes.first() else { return Ok(plain(py, "", "the scenario has mistakes")) };
    let error = one(first, all)?;
    error.value(py).setattr("mistakes", PyList::new(py, each.iter().map(|error| error.value(py)))?)?;
    Ok(error)
}
