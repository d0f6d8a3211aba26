//! Values of Python as TOML.

use pyo3::exceptions::{PyTypeError, PyValueError};
use pyo3::prelude::*;
use pyo3::types::{PyBool, PyDict, PyFloat, PyInt, PyList, PyString, PyTuple};
use rnic_scenario::write::Toml;

/// Maximum depth of nested values.
const DEPTH: usize = 32;

/// The TOML value of a Python value; `at` is its name for error messages. Dictionaries become tables with a heading.
pub(crate) fn toml(value: &Bound<'_, PyAny>, at: &str) -> PyResult<Toml> {
    convert(value, at, 0)
}

fn convert(value: &Bound<'_, PyAny>, at: &str, depth: usize) -> PyResult<Toml> {
    const ACCEPTED: &str = "accepted: str, int, float, bool, a list or a dict of these";
    if depth > DEPTH {
        return Err(PyValueError::new_err(format!("`{at}` is nested more than {DEPTH} levels deep")));
    }
    if value.is_instance_of::<PyBool>() {
        return Ok(Toml::Scalar(value.extract::<bool>()?.to_string()));
    }
    if let Ok(text) = value.cast::<PyString>() {
        return Ok(Toml::string(text.to_str()?));
    }
    if value.is_instance_of::<PyInt>() {
        let number: i64 =
            value.extract().map_err(|_| PyValueError::new_err(format!("`{at}` does not fit into 64 bits: {value}")))?;
        return Ok(Toml::Scalar(number.to_string()));
    }
    if value.is_instance_of::<PyFloat>() {
        return Ok(Toml::Scalar(toml::Value::Float(value.extract()?).to_string()));
    }
    if let Ok(table) = value.cast::<PyDict>() {
        let mut entries = Vec::with_capacity(table.len());
        for (key, value) in table {
            let Ok(key) = key.cast::<PyString>() else {
                return Err(PyTypeError::new_err(format!("`{at}` has the key {}; a key is a str", key.repr()?)));
            };
            let key = key.to_str()?.to_string();
            let below = if at.is_empty() { key.clone() } else { format!("{at}.{key}") };
            entries.push((key, convert(&value, &below, depth + 1)?));
        }
        return Ok(Toml::Table { entries, inline: false });
    }
    if value.is_instance_of::<PyList>() || value.is_instance_of::<PyTuple>() {
        let elements = value
            .try_iter()?
            .enumerate()
            .map(|(index, element)| convert(&element?, &format!("{at}.{index}"), depth + 1));
        return Ok(Toml::Array(elements.collect::<PyResult<_>>()?));
    }
    // Scalars and arrays of numpy and pandas.
    for method in ["tolist", "item"] {
        if let Ok(plain) = value.call_method0(method)
            && !plain.is(value)
            && !plain.is_none()
        {
            return convert(&plain, at, depth + 1);
        }
    }
    Err(PyTypeError::new_err(format!("`{at}` is of the type {}; {ACCEPTED}", value.get_type().name()?)))
}
