//! Decoding of capture files.

use crate::arrow::Table;
use crate::tables;
use pyo3::exceptions::{PyOSError, PyValueError};
use pyo3::prelude::*;
use rnic_cli::Undecodable;
use std::path::PathBuf;

/// The RoCE packets and PFC frames of a capture file, a row for each, with a column for each field of their headers.
#[pyfunction]
pub(crate) fn decode(py: Python<'_>, path: PathBuf, checksums: bool) -> PyResult<Table> {
    let table = py.detach(|| rnic_cli::decode_file(&path, checksums).map(|packets| tables::of_documents(&packets)));
    match table {
        Ok(table) => table.map_err(|error| PyValueError::new_err(error.to_string())),
        Err(Undecodable::Io(error)) => Err(match error.raw_os_error() {
            Some(errno) => PyOSError::new_err((errno, error.to_string(), path.into_os_string())),
            None => PyOSError::new_err(error.to_string()),
        }),
        Err(Undecodable::Wrong(why)) => {
            Err(PyValueError::new_err(format!("cannot decode `{}`: {why}", path.display())))
        }
    }
}
