//! Results as tables.

use crate::arrow::Table;
use arrow_array::builder::{BooleanBuilder, Float64Builder, Int64Builder, StringBuilder, UInt32Builder, UInt64Builder};
use arrow_array::types::Int32Type;
use arrow_array::{
    ArrayRef, BooleanArray, DictionaryArray, Float64Array, Int32Array, Int64Array, RecordBatch, StringArray,
};
use arrow_schema::{ArrowError, DataType, Field, Schema};
use pyo3::exceptions::PyValueError;
use pyo3::prelude::*;
use rnic_results::columns::ColumnKind;
use rnic_results::flow_files::{COLUMNS, goodput, request, rounded_slowdown, source};
use rnic_results::stats;
use rnic_spec::{FlowRecord, RunRecord, RunSpec, Scenario};
use rnic_transport::Time;
use serde_json::{Map, Value};
use std::collections::BTreeMap;
use std::io;
use std::ops::Range;
use std::sync::Arc;

/// Maximum number of rows of a record batch.
const ROWS: usize = 1 << 20;

/// The records of the flows of `runs`, with the columns of `flows.csv`. The names of runs and of traffic sources are
/// dictionaries.
pub(crate) fn flows(scenario: &Scenario, records: &[RunRecord], runs: Range<usize>) -> io::Result<Table> {
    let mut names: Vec<&str> = Vec::new();
    for run in &scenario.runs {
        names.push(&run.name);
    }
    let mut sources: Vec<&str> = vec![""];
    for traffic in scenario.runs.iter().flat_map(|run| &run.traffic) {
        if !sources.contains(&traffic.name.as_str()) {
            sources.push(&traffic.name);
        }
    }
    let text = |texts: &[&str]| Arc::new(StringArray::from_iter_values(texts)) as ArrayRef;
    let (run_names, source_names) = (text(&names), text(&sources));
    let (mut batches, mut schema) = (Vec::new(), None);
    for index in runs {
        let (Some(run), Some(record)) = (scenario.runs.get(index), records.get(index)) else { continue };
        let log = &record.output.flows;
        for first in (0..log.len().max(1)).step_by(ROWS) {
            let (first, last) = (first as u32, (first as u32).saturating_add(ROWS as u32 - 1));
            let mut columns = FlowColumns::default();
            for flow in log.range(first, last) {
                columns.push(run, &flow, (record.output.end, record.output.fidelity.is_packet()), &sources);
            }
            let batch = columns.finish(index as i32, &run_names, &source_names)?;
            schema.get_or_insert_with(|| batch.schema());
            batches.push(batch);
        }
        log.check()?;
    }
    let schema = match schema {
        Some(schema) => schema,
        None => FlowColumns::default().finish(0, &run_names, &source_names)?.schema(),
    };
    Ok(Table::new(schema, batches))
}

/// Builders of the columns of flows, in the order of [`COLUMNS`] without `run`.
#[derive(Default)]
struct FlowColumns {
    flow: UInt32Builder,
    src: UInt32Builder,
    dst: UInt32Builder,
    bytes: UInt64Builder,
    start_us: Float64Builder,
    finish_us: Float64Builder,
    fct_us: Float64Builder,
    ideal_us: Float64Builder,
    slowdown: Float64Builder,
    retransmitted: UInt32Builder,
    timeouts: UInt32Builder,
    request: UInt32Builder,
    traffic: Vec<i32>,
    measured: BooleanBuilder,
    delivered_bytes: UInt64Builder,
    goodput_bps: Float64Builder,
}

impl FlowColumns {
    /// Adds a flow of `run`, whose simulation had packets or not (`is_packet`).
    fn push(&mut self, run: &RunSpec, flow: &FlowRecord, (end, is_packet): (Time, bool), sources: &[&str]) {
        self.flow.append_value(flow.id);
        self.src.append_value(flow.src);
        self.dst.append_value(flow.dst);
        self.bytes.append_value(flow.bytes);
        self.start_us.append_value(flow.start.as_us());
        self.finish_us.append_option(flow.finish.map(|time| time.as_us()));
        self.fct_us.append_option(stats::fct_us(flow));
        self.ideal_us.append_value(flow.ideal.as_us());
        self.slowdown.append_option(rounded_slowdown(flow));
        self.retransmitted.append_option(is_packet.then_some(flow.retransmitted));
        self.timeouts.append_option(is_packet.then_some(flow.timeouts));
        self.request.append_option(request(flow));
        let source = source(run, flow);
        self.traffic.push(sources.iter().position(|name| *name == source).unwrap_or(0) as i32);
        self.measured.append_value(flow.measured);
        self.delivered_bytes.append_value(flow.delivered);
        self.goodput_bps.append_option(goodput(flow, end));
    }

    fn finish(mut self, run: i32, runs: &ArrayRef, sources: &ArrayRef) -> io::Result<RecordBatch> {
        let entries = |keys: Vec<i32>, values: &ArrayRef| {
            DictionaryArray::<Int32Type>::try_new(Int32Array::from(keys), values.clone()).map_err(io::Error::other)
        };
        let rows = self.traffic.len();
        let arrays: [ArrayRef; 17] = [
            Arc::new(entries(vec![run; rows], runs)?),
            Arc::new(self.flow.finish()),
            Arc::new(self.src.finish()),
            Arc::new(self.dst.finish()),
            Arc::new(self.bytes.finish()),
            Arc::new(self.start_us.finish()),
            Arc::new(self.finish_us.finish()),
            Arc::new(self.fct_us.finish()),
            Arc::new(self.ideal_us.finish()),
            Arc::new(self.slowdown.finish()),
            Arc::new(self.retransmitted.finish()),
            Arc::new(self.timeouts.finish()),
            Arc::new(self.request.finish()),
            Arc::new(entries(self.traffic, sources)?),
            Arc::new(self.measured.finish()),
            Arc::new(self.delivered_bytes.finish()),
            Arc::new(self.goodput_bps.finish()),
        ];
        let can_be_null = ["finish_us", "fct_us", "slowdown", "retransmitted", "timeouts", "request", "goodput_bps"];
        let field = |(name, array): (&&str, &ArrayRef)| {
            Field::new(*name, array.data_type().clone(), can_be_null.contains(name))
        };
        let fields: Vec<Field> = COLUMNS.iter().zip(&arrays).map(field).collect();
        RecordBatch::try_new(Arc::new(Schema::new(fields)), arrays.to_vec()).map_err(io::Error::other)
    }
}

/// The type of a column of results, from its name.
fn kind(name: &str) -> DataType {
    match ColumnKind::of(name) {
        ColumnKind::Text => DataType::Utf8,
        ColumnKind::Count => DataType::Int64,
        ColumnKind::Number => DataType::Float64,
        ColumnKind::Flag => DataType::Boolean,
    }
}

/// The table in the text of a result file. The type of a column depends on its name alone; a column of numbers that
/// has other text, as a swept key may, is text.
pub(crate) fn of_csv(csv: &[u8]) -> io::Result<Table> {
    let mut reader = csv::Reader::from_reader(csv);
    let names: Vec<String> = reader.headers()?.iter().map(str::to_string).collect();
    let rows: Vec<csv::StringRecord> = reader.records().collect::<Result<_, _>>()?;
    let mut fields = Vec::with_capacity(names.len());
    let mut arrays = Vec::with_capacity(names.len());
    for (index, name) in names.iter().enumerate() {
        let cells = || rows.iter().map(|row| row.get(index).filter(|cell| !cell.is_empty()));
        let array = array(kind(name), cells).unwrap_or_else(|| texts(cells()));
        fields.push(Field::new(name, array.data_type().clone(), true));
        arrays.push(array);
    }
    let schema = Arc::new(Schema::new(fields));
    let batch = RecordBatch::try_new(schema.clone(), arrays).map_err(io::Error::other)?;
    Ok(Table::new(schema, vec![batch]))
}

fn texts<'c>(cells: impl Iterator<Item = Option<&'c str>>) -> ArrayRef {
    let mut column = StringBuilder::new();
    cells.for_each(|cell| column.append_option(cell));
    Arc::new(column.finish())
}

/// The column of this type; `None` if a cell has another type.
fn array<'c, I: Iterator<Item = Option<&'c str>>>(kind: DataType, cells: impl Fn() -> I) -> Option<ArrayRef> {
    fn parsed<T: std::str::FromStr>(cell: Option<&str>) -> Option<Option<T>> {
        cell.map_or(Some(None), |cell| cell.parse().ok().map(Some))
    }
    Some(match kind {
        DataType::Boolean => {
            let mut column = BooleanBuilder::new();
            for cell in cells() {
                column.append_option(parsed(cell)?);
            }
            Arc::new(column.finish())
        }
        DataType::Int64 => {
            let mut column = Int64Builder::new();
            for cell in cells() {
                column.append_option(parsed(cell)?);
            }
            Arc::new(column.finish())
        }
        DataType::Float64 => {
            let mut column = Float64Builder::new();
            for cell in cells() {
                column.append_option(parsed(cell)?);
            }
            Arc::new(column.finish())
        }
        _ => texts(cells()),
    })
}

/// A table of these columns, which have the same length.
pub(crate) fn of_columns(columns: impl Iterator<Item = (String, ArrayRef)>) -> Result<Table, ArrowError> {
    let (fields, arrays): (Vec<Field>, Vec<ArrayRef>) =
        columns.map(|(name, array)| (Field::new(name, array.data_type().clone(), true), array)).unzip();
    let schema = Arc::new(Schema::new(fields));
    let batch = RecordBatch::try_new(schema.clone(), arrays)?;
    Ok(Table::new(schema, vec![batch]))
}

/// A table with a row for each JSON document. The keys of nested objects are joined with dots. A column is of numbers
/// or booleans if all its values are, else of text.
pub(crate) fn of_documents(documents: &[Map<String, Value>]) -> Result<Table, ArrowError> {
    let mut columns: Vec<(String, Vec<Value>)> = Vec::new();
    let mut index: BTreeMap<String, usize> = BTreeMap::new();
    let mut put = |row: usize, name: String, value: &Value| {
        let column = *index.entry(name).or_insert_with_key(|name| {
            columns.push((name.clone(), Vec::new()));
            columns.len() - 1
        });
        columns[column].1.resize(row, Value::Null);
        columns[column].1.push(value.clone());
    };
    for (row, document) in documents.iter().enumerate() {
        for (key, value) in document {
            match value {
                Value::Object(fields) => {
                    fields.iter().for_each(|(name, value)| put(row, format!("{key}.{name}"), value));
                }
                value => put(row, key.clone(), value),
            }
        }
    }
    of_columns(columns.into_iter().map(|(name, mut values)| {
        values.resize(documents.len(), Value::Null);
        (name, of_values(&values))
    }))
}

/// A value of a table from Python.
#[derive(FromPyObject)]
pub(crate) enum Cell {
    Flag(bool),
    Count(i64),
    Number(f64),
    Text(String),
}

impl From<Cell> for Value {
    fn from(cell: Cell) -> Value {
        match cell {
            Cell::Flag(flag) => flag.into(),
            Cell::Count(count) => count.into(),
            Cell::Number(number) => number.into(),
            Cell::Text(text) => text.into(),
        }
    }
}

/// A table with these columns, each a name and its values.
#[pyfunction]
pub(crate) fn table_of_columns(columns: Vec<(String, Vec<Option<Cell>>)>) -> PyResult<Table> {
    let column = |(name, cells): (String, Vec<Option<Cell>>)| {
        let values: Vec<Value> = cells.into_iter().map(|cell| cell.map_or(Value::Null, Value::from)).collect();
        (name, of_values(&values))
    };
    of_columns(columns.into_iter().map(column)).map_err(|error| PyValueError::new_err(error.to_string()))
}

fn of_values(values: &[Value]) -> ArrayRef {
    let all = |is: fn(&Value) -> bool| values.iter().all(|value| value.is_null() || is(value));
    if values.iter().all(Value::is_null) {
        return texts(values.iter().map(|_| None));
    }
    if all(Value::is_boolean) {
        return Arc::new(values.iter().map(Value::as_bool).collect::<BooleanArray>());
    }
    if all(Value::is_i64) {
        return Arc::new(values.iter().map(Value::as_i64).collect::<Int64Array>());
    }
    if all(Value::is_number) {
        return Arc::new(values.iter().map(Value::as_f64).collect::<Float64Array>());
    }
    let text = |value: &Value| match value {
        Value::Null => None,
        Value::String(text) => Some(text.clone()),
        other => Some(other.to_string()),
    };
    Arc::new(values.iter().map(text).collect::<StringArray>())
}
