//! Tables as values of Python that pickle stores. Numbers are their bytes, little-endian.

use arrow_array::cast::AsArray;
use arrow_array::types::{ArrowPrimitiveType, Float64Type, Int32Type, Int64Type, UInt32Type, UInt64Type};
use arrow_array::{Array, ArrayRef, BooleanArray, DictionaryArray, PrimitiveArray, RecordBatch, StringArray};
use arrow_schema::{DataType, Field, Schema, SchemaRef};
use pyo3::exceptions::{PyTypeError, PyValueError};
use pyo3::prelude::*;
use pyo3::types::PyBytes;
use std::sync::Arc;

/// A table: name of each column, its type, and whether values may be missing; then the columns of each batch.
pub(crate) type State<'py> = (Vec<(String, String, bool)>, Vec<Vec<Column<'py>>>);

/// A column of a batch: its values as bytes (the keys of a dictionary), a byte for each value that is 1 unless the
/// value is missing (empty if none is), and texts: the values, or the entries of a dictionary.
type Column<'py> = (Bound<'py, PyBytes>, Bound<'py, PyBytes>, Vec<Option<String>>);

/// The types of columns, with their names in a stored table.
const TYPES: [(&str, DataType); 6] = [
    ("f64", DataType::Float64),
    ("i64", DataType::Int64),
    ("u64", DataType::UInt64),
    ("u32", DataType::UInt32),
    ("bool", DataType::Boolean),
    ("text", DataType::Utf8),
];

const DICTIONARY: &str = "dictionary";

fn dictionary() -> DataType {
    DataType::Dictionary(Box::new(DataType::Int32), Box::new(DataType::Utf8))
}

fn damaged() -> PyErr {
    PyValueError::new_err("the stored table is damaged, or of another version of rnic")
}

/// The stored state of a table.
pub(crate) fn state<'py>(py: Python<'py>, schema: &Schema, batches: &[RecordBatch]) -> PyResult<State<'py>> {
    let column = |field: &Arc<Field>| {
        let known = TYPES.iter().find(|(_, kind)| kind == field.data_type()).map(|(name, _)| *name);
        let name = known.or_else(|| (*field.data_type() == dictionary()).then_some(DICTIONARY));
        let name =
            name.ok_or_else(|| PyTypeError::new_err(format!("a column of {} is not stored", field.data_type())))?;
        Ok((field.name().clone(), name.to_string(), field.is_nullable()))
    };
    let columns = schema.fields().iter().map(column).collect::<PyResult<_>>()?;
    let of_batch = |batch: &RecordBatch| batch.columns().iter().map(|array| of_array(py, array)).collect();
    Ok((columns, batches.iter().map(of_batch).collect::<PyResult<_>>()?))
}

fn of_array<'py>(py: Python<'py>, array: &ArrayRef) -> PyResult<Column<'py>> {
    macro_rules! numbers {
        ($type:ty) => {
            array.as_primitive::<$type>().values().iter().flat_map(|value| value.to_le_bytes()).collect()
        };
    }
    let texts = |array: &StringArray| array.iter().map(|text| text.map(str::to_string)).collect();
    let (values, texts): (Vec<u8>, Vec<Option<String>>) = match array.data_type() {
        DataType::Float64 => (numbers!(Float64Type), Vec::new()),
        DataType::Int64 => (numbers!(Int64Type), Vec::new()),
        DataType::UInt64 => (numbers!(UInt64Type), Vec::new()),
        DataType::UInt32 => (numbers!(UInt32Type), Vec::new()),
        DataType::Boolean => (array.as_boolean().iter().map(|flag| u8::from(flag == Some(true))).collect(), Vec::new()),
        DataType::Utf8 => (Vec::new(), texts(array.as_string::<i32>())),
        _ => {
            let dictionary = array.as_dictionary::<Int32Type>();
            let keys = dictionary.keys().values().iter().flat_map(|key| key.to_le_bytes()).collect();
            (keys, texts(dictionary.values().as_string::<i32>()))
        }
    };
    let valid: Vec<u8> = match array.null_count() {
        0 => Vec::new(),
        _ => (0..array.len()).map(|row| u8::from(array.is_valid(row))).collect(),
    };
    Ok((PyBytes::new(py, &values), PyBytes::new(py, &valid), texts))
}

/// The table of a stored table.
pub(crate) fn of_state((columns, batches): State<'_>) -> PyResult<(SchemaRef, Vec<RecordBatch>)> {
    let field = |(name, kind, is_nullable): &(String, String, bool)| {
        let known = TYPES.iter().find(|(word, _)| word == kind).map(|(_, kind)| kind.clone());
        let kind = known.or_else(|| (kind == DICTIONARY).then(dictionary)).ok_or_else(damaged)?;
        Ok(Field::new(name, kind, *is_nullable))
    };
    let schema = Arc::new(Schema::new(columns.iter().map(field).collect::<PyResult<Vec<_>>>()?));
    let of_batch = |stored: &Vec<Column<'_>>| {
        let arrays = schema.fields().iter().zip(stored).map(|(field, column)| to_array(field.data_type(), column));
        RecordBatch::try_new(schema.clone(), arrays.collect::<PyResult<_>>()?).map_err(|_| damaged())
    };
    let batches = batches.iter().map(of_batch).collect::<PyResult<_>>()?;
    Ok((schema, batches))
}

fn to_array(kind: &DataType, (values, valid, texts): &Column<'_>) -> PyResult<ArrayRef> {
    let (values, valid) = (values.as_bytes(), valid.as_bytes());
    let is_valid = |row: usize| valid.is_empty() || valid.get(row) == Some(&1);
    macro_rules! numbers {
        ($type:ty, $native:ty) => {
            numbers::<$type, { size_of::<$native>() }>(values, &is_valid, <$native>::from_le_bytes)
        };
    }
    Ok(match kind {
        DataType::Float64 => Arc::new(numbers!(Float64Type, f64)),
        DataType::Int64 => Arc::new(numbers!(Int64Type, i64)),
        DataType::UInt64 => Arc::new(numbers!(UInt64Type, u64)),
        DataType::UInt32 => Arc::new(numbers!(UInt32Type, u32)),
        DataType::Boolean => {
            let flags = values.iter().enumerate().map(|(row, flag)| is_valid(row).then_some(*flag == 1));
            Arc::new(flags.collect::<BooleanArray>())
        }
        DataType::Utf8 => Arc::new(texts.iter().collect::<StringArray>()),
        _ => {
            let keys = numbers!(Int32Type, i32);
            let entries: StringArray = texts.iter().collect();
            Arc::new(DictionaryArray::try_new(keys, Arc::new(entries)).map_err(|_| damaged())?)
        }
    })
}

fn numbers<T: ArrowPrimitiveType, const SIZE: usize>(
    bytes: &[u8], is_valid: &dyn Fn(usize) -> bool, read: fn([u8; SIZE]) -> T::Native,
) -> PrimitiveArray<T> {
    let (numbers, _) = bytes.as_chunks::<SIZE>();
    numbers.iter().enumerate().map(|(row, number)| is_valid(row).then(|| read(*number))).collect()
}
