//! Tables in Arrow's format, which other libraries read without copies: the PyCapsule interface of Arrow.
//!
//! This is the only module with `unsafe` code: it takes the stream of another library out of its capsule.

#![allow(unsafe_code)]

use crate::stored::{self, State};
use arrow_array::cast::AsArray;
use arrow_array::ffi_stream::{FFI_ArrowArrayStream, RecordBatchStreamReader};
use arrow_array::types::{Float64Type, Int32Type, Int64Type, UInt32Type, UInt64Type};
use arrow_array::{Array, ArrayRef, RecordBatch, RecordBatchIterator, RecordBatchReader};
use arrow_schema::{ArrowError, DataType, SchemaRef, ffi::FFI_ArrowSchema};
use pyo3::exceptions::{PyKeyError, PyTypeError};
use pyo3::prelude::*;
use pyo3::types::{PyCapsule, PyCapsuleMethods, PyList};
use std::ffi::CStr;

const STREAM: &CStr = c"arrow_array_stream";
const SCHEMA: &CStr = c"arrow_schema";

/// A table with named columns.
#[pyclass(frozen, module = "rnic._rnic")]
#[derive(Debug)]
pub(crate) struct Table {
    schema: SchemaRef,
    batches: Vec<RecordBatch>,
}

impl Table {
    pub(crate) fn new(schema: SchemaRef, batches: Vec<RecordBatch>) -> Table {
        Table { schema, batches }
    }
}

#[pymethods]
impl Table {
    /// The table as an Arrow stream. The columns are shared, not copied.
    #[pyo3(signature = (requested_schema=None))]
    fn __arrow_c_stream__<'py>(
        &self, py: Python<'py>, requested_schema: Option<Bound<'py, PyAny>>,
    ) -> PyResult<Bound<'py, PyCapsule>> {
        // The protocol allows a producer to ignore the schema that the consumer would prefer.
        let _ = requested_schema;
        let batches: Vec<Result<RecordBatch, ArrowError>> = self.batches.iter().cloned().map(Ok).collect();
        let reader = RecordBatchIterator::new(batches, self.schema.clone());
        PyCapsule::new_with_value(py, FFI_ArrowArrayStream::new(Box::new(reader)), STREAM)
    }

    fn __arrow_c_schema__<'py>(&self, py: Python<'py>) -> PyResult<Bound<'py, PyCapsule>> {
        let schema =
            FFI_ArrowSchema::try_from(&*self.schema).map_err(|error| PyTypeError::new_err(error.to_string()))?;
        PyCapsule::new_with_value(py, schema, SCHEMA)
    }

    #[getter]
    fn num_rows(&self) -> usize {
        self.batches.iter().map(RecordBatch::num_rows).sum()
    }

    #[getter]
    fn column_names(&self) -> Vec<&str> {
        self.schema.fields().iter().map(|field| field.name().as_str()).collect()
    }

    /// The values of a column as a list of Python values.
    fn column<'py>(&self, py: Python<'py>, name: &str) -> PyResult<Bound<'py, PyList>> {
        let Ok(index) = self.schema.index_of(name) else {
            let known = self.column_names().join(", ");
            // Earlier versions had these columns in the tables of campaigns.
            let renamed = if name == "base" && self.schema.index_of("point").is_ok() {
                "`base` is now `run`, and the name with the swept values is `point`; "
            } else {
                ""
            };
            return Err(PyKeyError::new_err(format!("there is no column \"{name}\"; {renamed}accepted: {known}")));
        };
        let values = PyList::empty(py);
        for batch in &self.batches {
            append(py, &values, batch.column(index))?;
        }
        Ok(values)
    }

    /// The state from which `of_state` makes an equal table, also in another process.
    fn state<'py>(&self, py: Python<'py>) -> PyResult<State<'py>> {
        stored::state(py, &self.schema, &self.batches)
    }

    #[staticmethod]
    fn of_state(state: State<'_>) -> PyResult<Table> {
        let (schema, batches) = stored::of_state(state)?;
        Ok(Table { schema, batches })
    }

    /// Whether both tables have the same columns with the same values.
    fn equals(&self, py: Python<'_>, other: &Bound<'_, Table>) -> bool {
        let other = other.get();
        py.detach(|| self.schema == other.schema && self.batches == other.batches)
    }
}

fn append(py: Python<'_>, list: &Bound<'_, PyList>, array: &ArrayRef) -> PyResult<()> {
    macro_rules! numbers {
        ($type:ty) => {
            array.as_primitive::<$type>().iter().try_for_each(|value| list.append(value))
        };
    }
    match array.data_type() {
        DataType::Float64 => numbers!(Float64Type),
        DataType::Int64 => numbers!(Int64Type),
        DataType::UInt64 => numbers!(UInt64Type),
        DataType::UInt32 => numbers!(UInt32Type),
        DataType::Boolean => array.as_boolean().iter().try_for_each(|value| list.append(value)),
        DataType::Utf8 => array.as_string::<i32>().iter().try_for_each(|value| list.append(value)),
        DataType::Dictionary(..) => {
            let dictionary = array.as_dictionary::<Int32Type>();
            let texts = dictionary.values().as_string::<i32>();
            // One string object for each entry of the dictionary.
            let entries: Vec<Py<PyAny>> =
                texts.iter().map(|text| Ok(text.into_pyobject(py)?.unbind())).collect::<PyResult<_>>()?;
            let entry = |key: Option<i32>| key.and_then(|key| entries.get(key as usize));
            dictionary.keys().iter().try_for_each(|key| list.append(entry(key)))
        }
        other => Err(PyTypeError::new_err(format!("a column of the type {other} cannot be a list"))),
    }
}

/// The record batches of an object with `__arrow_c_stream__`.
pub(crate) fn reader(source: &Bound<'_, PyAny>) -> PyResult<impl RecordBatchReader> {
    let capsule = source.call_method0("__arrow_c_stream__")?;
    let capsule =
        capsule.cast::<PyCapsule>().map_err(|_| PyTypeError::new_err("`__arrow_c_stream__` returns no capsule"))?;
    let pointer = capsule.pointer_checked(Some(STREAM))?.cast::<FFI_ArrowArrayStream>();
    // SAFETY: a capsule of this name holds a pointer to a valid stream of Arrow's C interface. The stream is moved out
    // of it, as the interface demands: the capsule keeps a released stream.
    let stream = unsafe { FFI_ArrowArrayStream::from_raw(pointer.as_ptr()) };
    RecordBatchStreamReader::try_new(stream).map_err(|error| PyTypeError::new_err(error.to_string()))
}
