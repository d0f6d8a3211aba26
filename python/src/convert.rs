//! Values of Python as TOML, and TOML as values of Python.

use pyo3::exceptions::{PyTypeError, PyValueError};
use pyo3::prelude::*;
use pyo3::types::{PyBool, PyByteArray, PyBytes, PyDict, PyFloat, PyInt, PyList, PyMapping, PySequence, PyString};
use rnic_scenario::write::Toml;
use rnic_spec::settings::SECTIONS;
use rnic_transport::settings::Kind;
use toml::Spanned;
use toml::de::{DeTable, DeValue};

/// Maximum depth of nested values.
const DEPTH: usize = 32;

/// Maximum of an integer to which a decimal number is converted: all integers up to 2^53 are exact as `f64`.
const MAX_EXACT: f64 = 9_007_199_254_740_992.0;

/// The TOML value of a Python value; `at` is its name for error messages. Mappings become tables with a heading.
pub(crate) fn toml(value: &Bound<'_, PyAny>, at: &str) -> PyResult<Toml> {
    convert(value, at, 0)
}

fn convert(value: &Bound<'_, PyAny>, at: &str, depth: usize) -> PyResult<Toml> {
    const ACCEPTED: &str = "accepted: str, int, float, bool, a path, a list, tuple or range, or a dict of these";
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
        let number: Option<i128> = value.extract().ok();
        let fits = number.filter(|number| (i128::from(i64::MIN)..=i128::from(u64::MAX)).contains(number));
        return match fits {
            Some(number) => Ok(Toml::Scalar(number.to_string())),
            None => Err(PyValueError::new_err(format!("`{at}` does not fit into 64 bits: {value}"))),
        };
    }
    if value.is_instance_of::<PyFloat>() {
        return Ok(number(value.extract()?, at));
    }
    if let Ok(table) = value.cast::<PyMapping>() {
        let mut entries = Vec::with_capacity(table.len()?);
        for entry in table.items()?.iter() {
            let (key, value): (Bound<'_, PyAny>, Bound<'_, PyAny>) = entry.extract()?;
            let Ok(key) = key.cast::<PyString>() else {
                return Err(PyTypeError::new_err(format!("`{at}` has the key {}; a key is a str", key.repr()?)));
            };
            let key = key.to_str()?.to_string();
            let below = if at.is_empty() { key.clone() } else { format!("{at}.{key}") };
            entries.push((key, convert(&value, &below, depth + 1)?));
        }
        return Ok(Toml::Table { entries, inline: false });
    }
    let is_bytes = value.is_instance_of::<PyBytes>() || value.is_instance_of::<PyByteArray>();
    if !is_bytes && value.cast::<PySequence>().is_ok() {
        let elements = value
            .try_iter()?
            .enumerate()
            .map(|(index, element)| convert(&element?, &format!("{at}.{index}"), depth + 1));
        return Ok(Toml::Array(elements.collect::<PyResult<_>>()?));
    }
    // Scalars and arrays of numpy and pandas, and paths.
    for method in ["tolist", "item", "__fspath__"] {
        if let Ok(plain) = value.call_method0(method)
            && !plain.is(value)
            && !plain.is_none()
        {
            return convert(&plain, at, depth + 1);
        }
    }
    Err(PyTypeError::new_err(format!("`{at}` is of the type {}; {ACCEPTED}", value.get_type().name()?)))
}

/// A decimal number. Division and numpy make whole numbers such as `8.0`, which a key for an integer accepts.
fn number(value: f64, at: &str) -> Toml {
    if value.fract() == 0.0 && value.abs() <= MAX_EXACT && is_count(at) {
        return Toml::Scalar(format!("{value:.0}"));
    }
    Toml::Scalar(toml::Value::Float(value).to_string())
}

/// Whether a table declares the key at the end of a path as an integer. Indices of lists are skipped. A key of the same
/// name for decimal numbers accepts integers, too.
fn is_count(path: &str) -> bool {
    let is_index = |name: &&str| name.bytes().all(|byte| byte.is_ascii_digit());
    let Some(key) = path.rsplit('.').find(|name| !is_index(name)) else { return false };
    let mut settings = SECTIONS.iter().flat_map(|section| section.settings);
    settings.any(|setting| setting.key == key && has_count(&setting.kind))
}

fn has_count(kind: &Kind) -> bool {
    match kind {
        Kind::Count { .. } => true,
        Kind::List(element) => has_count(element),
        Kind::Either(kinds) => kinds.iter().any(has_count),
        _ => false,
    }
}

/// The tables of a TOML text as a dictionary, in the order of the text.
pub(crate) fn dictionary<'py>(py: Python<'py>, text: &str) -> PyResult<Bound<'py, PyDict>> {
    let table = DeTable::parse(text).map_err(|error| PyValueError::new_err(error.to_string()))?;
    of_table(py, table.get_ref())
}

fn of_table<'py>(py: Python<'py>, table: &DeTable<'_>) -> PyResult<Bound<'py, PyDict>> {
    let mut entries: Vec<_> = table.iter().collect();
    entries.sort_by_key(|(key, _)| key.span().start);
    let dictionary = PyDict::new(py);
    for (key, value) in entries {
        let name: &str = key.get_ref();
        dictionary.set_item(name, of_value(py, value)?)?;
    }
    Ok(dictionary)
}

fn of_value<'py>(py: Python<'py>, value: &Spanned<DeValue<'_>>) -> PyResult<Bound<'py, PyAny>> {
    Ok(match value.get_ref() {
        DeValue::String(text) => PyString::new(py, text).into_any(),
        DeValue::Boolean(flag) => PyBool::new(py, *flag).to_owned().into_any(),
        DeValue::Float(digits) => {
            let number: f64 = digits.as_str().parse().map_err(|_| PyValueError::new_err("not a number"))?;
            PyFloat::new(py, number).into_any()
        }
        DeValue::Integer(digits) => {
            let number = i128::from_str_radix(digits.as_str(), digits.radix());
            number.map_err(|_| PyValueError::new_err("not an integer"))?.into_pyobject(py)?.into_any()
        }
        DeValue::Array(values) => {
            let elements = values.iter().map(|value| of_value(py, value));
            PyList::new(py, elements.collect::<PyResult<Vec<_>>>()?)?.into_any()
        }
        DeValue::Table(table) => of_table(py, table)?.into_any(),
        other @ DeValue::Datetime(_) => {
            return Err(PyValueError::new_err(format!("a scenario has no {}", other.type_str())));
        }
    })
}
