//! Flows from Python. They are in a temporary file, a flow list in CSV, which the reader of scenarios reads.

use crate::arrow;
use arrow_array::cast::AsArray;
use arrow_array::types::{
    Float32Type, Float64Type, Int8Type, Int16Type, Int32Type, Int64Type, UInt8Type, UInt16Type, UInt32Type, UInt64Type,
};
use arrow_array::{Array, ArrayRef, RecordBatch, RecordBatchReader};
use arrow_schema::DataType;
use pyo3::exceptions::{PyTypeError, PyValueError};
use pyo3::prelude::*;
use pyo3::types::{PyBytes, PyDict, PyFloat};
use rnic_results::flow_files::COLUMNS;
use std::fs::File;
use std::io::{BufWriter, Write};
use std::path::Path;
use std::sync::Arc;
use tempfile::TempPath;

/// The columns of a flow list: the first four are required.
const LIST: [&str; 6] = ["start_us", "src", "dst", "bytes", "request", "measured"];

const REQUIRED: &str = "start_us, src, dst and bytes are required, request and measured optional";

/// A flow list in a temporary file, which is removed with the last scenario that uses it.
#[pyclass(frozen, module = "rnic._rnic")]
#[derive(Clone, Debug)]
pub(crate) struct Flows(Arc<TempPath>);

impl Flows {
    pub(crate) fn path(&self) -> &Path {
        &self.0
    }

    /// Creates the file, and calls `write` to write into it.
    fn create(write: impl FnOnce(&mut BufWriter<File>) -> PyResult<()>) -> PyResult<Flows> {
        let (file, path) = tempfile::Builder::new().prefix("rnic-flows-").suffix(".csv").tempfile()?.into_parts();
        let mut out = BufWriter::new(file);
        write(&mut out)?;
        out.flush()?;
        Ok(Flows(Arc::new(path)))
    }
}

#[pymethods]
impl Flows {
    /// The flows of an iterable of tuples or dictionaries.
    #[staticmethod]
    fn of_rows(rows: &Bound<'_, PyAny>) -> PyResult<Flows> {
        Flows::create(|out| some(csv_of_rows(rows, out)?))
    }

    /// The flows of an object with `__arrow_c_stream__`, such as a DataFrame.
    #[staticmethod]
    fn of_arrow(source: &Bound<'_, PyAny>) -> PyResult<Flows> {
        Flows::create(|out| some(csv_of_arrow(source, out)?))
    }

    /// The flows of the bytes that `content` returned.
    #[staticmethod]
    pub(crate) fn from_bytes(content: &[u8]) -> PyResult<Flows> {
        Flows::create(|out| Ok(out.write_all(content)?))
    }

    /// The flow list as CSV.
    pub(crate) fn content<'py>(&self, py: Python<'py>) -> PyResult<Bound<'py, PyBytes>> {
        Ok(PyBytes::new(py, &std::fs::read(self.path())?))
    }

    /// The path of the temporary file.
    #[getter(path)]
    fn path_for_python(&self) -> &Path {
        self.path()
    }
}

fn some(count: u64) -> PyResult<()> {
    if count == 0 { Err(PyValueError::new_err("there are no flows; give at least one")) } else { Ok(()) }
}

/// Writes the columns and rows of a flow list.
struct List<'o>(&'o mut BufWriter<File>);

impl<'o> List<'o> {
    fn begin(out: &'o mut BufWriter<File>) -> PyResult<List<'o>> {
        writeln!(out, "{}", LIST.join(","))?;
        Ok(List(out))
    }

    fn push(&mut self, flow: &[String; 6]) -> PyResult<()> {
        Ok(writeln!(self.0, "{}", flow.join(","))?)
    }
}

/// Writes the rows of an object with `__arrow_c_stream__`, such as a DataFrame. Returns the number of flows.
fn csv_of_arrow(source: &Bound<'_, PyAny>, out: &mut BufWriter<File>) -> PyResult<u64> {
    let reader = arrow::reader(source)?;
    let schema = reader.schema();
    let unknown: Vec<String> = schema
        .fields()
        .iter()
        .filter(|field| !LIST.contains(&field.name().as_str()) && !COLUMNS.contains(&field.name().as_str()))
        .map(|field| format!("`{}`", field.name()))
        .collect();
    if !unknown.is_empty() {
        return Err(PyValueError::new_err(format!("unknown column {}; {REQUIRED}", unknown.join(", "))));
    }
    if let Some(missing) = LIST[..4].iter().find(|name| schema.index_of(name).is_err()) {
        return Err(PyValueError::new_err(format!("column `{missing}` is missing; {REQUIRED}")));
    }
    let (mut list, mut count) = (List::begin(out)?, 0);
    for batch in reader {
        let batch = batch.map_err(|error| PyValueError::new_err(error.to_string()))?;
        let columns: Vec<Vec<String>> = LIST.iter().map(|name| cells(&batch, name)).collect::<PyResult<_>>()?;
        for row in 0..batch.num_rows() {
            let flow = [0, 1, 2, 3, 4, 5].map(|column: usize| columns[column].get(row).cloned().unwrap_or_default());
            if let Some(empty) = (0..4).find(|column| flow[*column].is_empty()) {
                return Err(PyValueError::new_err(format!("flow {count} has no `{}`", LIST[empty])));
            }
            list.push(&flow)?;
            count += 1;
        }
    }
    Ok(count)
}

/// The cells of a column as text; empty if there is no such column.
fn cells(batch: &RecordBatch, name: &str) -> PyResult<Vec<String>> {
    let Some(column) = batch.column_by_name(name) else { return Ok(Vec::new()) };
    let texts: Vec<Option<String>> = texts(column).ok_or_else(|| {
        PyTypeError::new_err(format!("column `{name}` has the type {}; accepted: numbers", column.data_type()))
    })?;
    Ok(texts.into_iter().map(|text| text.map_or(String::new(), |text| number(name, &text))).collect())
}

/// Integers of DataFrames with missing values are decimals: `3.0` is written as `3`. Times have six decimals.
fn number(name: &str, text: &str) -> String {
    match text.parse::<f64>() {
        Ok(value) if value.is_nan() => String::new(),
        Ok(value) if name == "start_us" && value.is_finite() => time(value, text),
        Ok(value) if value.fract() == 0.0 && text.contains('.') => format!("{value:.0}"),
        _ => text.to_string(),
    }
}

/// A time in microseconds, rounded to picoseconds. Text without exponent and with at most six decimals stays exact.
fn time(value: f64, text: &str) -> String {
    let decimals = text.split_once('.').map_or(0, |(_, decimals)| decimals.len());
    let is_plain = text.bytes().all(|byte| byte.is_ascii_digit() || byte == b'.');
    if is_plain && decimals <= 6 { text.to_string() } else { format!("{value:.6}") }
}

fn texts(column: &ArrayRef) -> Option<Vec<Option<String>>> {
    macro_rules! numbers {
        ($type:ty) => {
            column.as_primitive::<$type>().iter().map(|value| value.map(|value| value.to_string())).collect()
        };
    }
    Some(match column.data_type() {
        DataType::Float64 => numbers!(Float64Type),
        DataType::Float32 => numbers!(Float32Type),
        DataType::Int8 => numbers!(Int8Type),
        DataType::Int16 => numbers!(Int16Type),
        DataType::Int32 => numbers!(Int32Type),
        DataType::Int64 => numbers!(Int64Type),
        DataType::UInt8 => numbers!(UInt8Type),
        DataType::UInt16 => numbers!(UInt16Type),
        DataType::UInt32 => numbers!(UInt32Type),
        DataType::UInt64 => numbers!(UInt64Type),
        DataType::Boolean => {
            let bit = |value: Option<bool>| value.map(|value| u8::from(value).to_string());
            column.as_boolean().iter().map(bit).collect()
        }
        _ => return None,
    })
}

/// Writes the flows of an iterable of tuples (start_us, src, dst, bytes[, request[, measured]]) or of dictionaries with
/// these keys. Returns the number of flows.
fn csv_of_rows(rows: &Bound<'_, PyAny>, out: &mut BufWriter<File>) -> PyResult<u64> {
    let (mut list, mut count) = (List::begin(out)?, 0);
    for row in rows.try_iter()? {
        let row = row?;
        let flow = of_row(&row).map_err(|error| {
            PyErr::from_type(error.get_type(row.py()), (format!("flow {count}: {}", error.value(row.py())),))
        })?;
        list.push(&flow)?;
        count += 1;
        if count % 4096 == 0 {
            row.py().check_signals()?;
        }
    }
    Ok(count)
}

fn of_row(row: &Bound<'_, PyAny>) -> PyResult<[String; 6]> {
    let mut flow = [const { String::new() }; 6];
    if let Ok(row) = row.cast::<PyDict>() {
        for (key, value) in row {
            let key: String = key.extract()?;
            let Some(column) = LIST.iter().position(|name| *name == key) else {
                return Err(PyValueError::new_err(format!("unknown key `{key}`; {REQUIRED}")));
            };
            flow[column] = cell(LIST[column], &value)?;
        }
    } else {
        for (index, value) in row.try_iter()?.enumerate() {
            let Some(name) = LIST.get(index) else {
                return Err(PyValueError::new_err(format!("it has more than six values; {REQUIRED}")));
            };
            flow[index] = cell(name, &value?)?;
        }
    }
    match (0..4).find(|column| flow[*column].is_empty()) {
        Some(missing) => Err(PyValueError::new_err(format!("it has no `{}`; {REQUIRED}", LIST[missing]))),
        None => Ok(flow),
    }
}

fn cell(name: &str, value: &Bound<'_, PyAny>) -> PyResult<String> {
    if value.is_none() {
        return Ok(String::new());
    }
    if let Ok(flag) = value.extract::<bool>() {
        return Ok(u8::from(flag).to_string());
    }
    if !value.is_instance_of::<PyFloat>()
        && let Ok(whole) = value.extract::<i64>()
    {
        return Ok(whole.to_string());
    }
    let decimal: f64 = value.extract().map_err(|_| {
        PyTypeError::new_err(format!("`{name}` is of the type {}; accepted: a number", value.get_type()))
    })?;
    Ok(number(name, &decimal.to_string()))
}
