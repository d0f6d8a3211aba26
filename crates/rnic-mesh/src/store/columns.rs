//! The Parquet file of an hour: one row per probe, in order of arrival.

use super::log::Entry;
use super::pages::{self, Pages};
use crate::record::ProbeResult;
use axum::body::Bytes;
use parquet::basic::Compression;
use parquet::column::reader::get_typed_column_reader;
use parquet::column::writer::{get_column_writer, get_typed_column_writer};
use parquet::data_type::{ByteArray, ByteArrayType, DataType, Int32Type, Int64Type};
use parquet::errors::ParquetError;
use parquet::file::properties::{WriterProperties, WriterPropertiesPtr};
use parquet::file::reader::{FileReader, RowGroupReader, SerializedFileReader};
use parquet::file::writer::{SerializedFileWriter, SerializedRowGroupWriter};
use parquet::schema::parser::parse_message_type;
use parquet::schema::types::{ColumnDescPtr, SchemaDescriptor};
use std::fs::File;
use std::io;
use std::sync::Arc;

/// Times are in UTC. `received` is by the controller's clock, `at` by the prober's, when the result was known.
const SCHEMA: &str = "message probes {
    REQUIRED INT64 received (TIMESTAMP(MICROS, true));
    REQUIRED INT64 at (TIMESTAMP(MICROS, true));
    REQUIRED BYTE_ARRAY prober (STRING);
    REQUIRED BYTE_ARRAY target (STRING);
    REQUIRED INT32 path (INTEGER(16, false));
    REQUIRED INT32 source_port (INTEGER(16, false));
    REQUIRED BYTE_ARRAY result (STRING);
    OPTIONAL INT64 network_ns;
    OPTIONAL INT64 prober_ns;
    OPTIONAL INT64 responder_ns;
    OPTIONAL INT64 total_ns;
    REQUIRED INT64 batch (INTEGER(64, false));
}";

/// Number of columns.
const COLUMNS: usize = 12;
/// Number of rows of a row group, above which the next one begins with the next batch.
const GROUP: usize = 1 << 18;

/// A row.
struct Row {
    received: i64,
    at: i64,
    prober: ByteArray,
    target: ByteArray,
    path: i32,
    source_port: i32,
    result: ProbeResult,
    batch: i64,
}

/// Writes the batches as a Parquet file with Snappy compression and checksums, and returns the number of rows. The file
/// must be empty and open for reading and writing.
pub(super) fn write(file: &mut File, entries: impl Iterator<Item = Entry>) -> io::Result<u64> {
    let properties = WriterProperties::builder()
        .set_compression(Compression::SNAPPY)
        .set_created_by(concat!("rnic ", env!("CARGO_PKG_VERSION")).to_string())
        .set_key_value_metadata(Some(vec![pages::key()]))
        .build();
    let properties = Arc::new(properties);
    let schema = Arc::new(parse_message_type(SCHEMA)?);
    let columns = SchemaDescriptor::new(schema.clone());
    let mut writer = SerializedFileWriter::new(&*file, schema, properties.clone())?;
    let mut rows = Vec::new();
    let mut count = 0;
    for Entry { received_us, batch } in entries {
        let names: Vec<ByteArray> = batch.targets.iter().map(|(name, _)| ByteArray::from(name.as_str())).collect();
        let prober = ByteArray::from(batch.host.as_str());
        for probe in &batch.probes {
            rows.push(Row {
                received: signed(received_us),
                at: signed(probe.at_us),
                prober: prober.clone(),
                target: names[usize::from(probe.target)].clone(),
                path: probe.path.into(),
                source_port: batch.source_ports[usize::from(probe.path)].into(),
                result: probe.result,
                batch: batch.sequence as i64,
            });
        }
        if rows.len() >= GROUP {
            count += rows.len() as u64;
            group(&mut writer, (&columns, &properties), &rows)?;
            rows.clear();
        }
    }
    if !rows.is_empty() {
        count += rows.len() as u64;
        group(&mut writer, (&columns, &properties), &rows)?;
    }
    writer.close()?;
    pages::seal(file)?;
    Ok(count)
}

/// A number as Parquet stores it. Larger numbers become the maximum: logs of rnic 0.2.0 and earlier may have them.
fn signed(number: u64) -> i64 {
    i64::try_from(number).unwrap_or(i64::MAX)
}

/// A row group to which columns are appended.
struct Group<'g, 'w> {
    writer: SerializedRowGroupWriter<'w, &'g File>,
    columns: std::slice::Iter<'g, ColumnDescPtr>,
    properties: &'g WriterPropertiesPtr,
}

fn group<'g>(
    writer: &mut SerializedFileWriter<&'g File>,
    (columns, properties): (&'g SchemaDescriptor, &'g WriterPropertiesPtr), rows: &[Row],
) -> Result<(), ParquetError> {
    let mut group = Group { writer: writer.next_row_group()?, columns: columns.columns().iter(), properties };
    let group_ref = &mut group;
    column::<Int64Type>(group_ref, rows, |row| Some(row.received), false)?;
    column::<Int64Type>(group_ref, rows, |row| Some(row.at), false)?;
    column::<ByteArrayType>(group_ref, rows, |row| Some(row.prober.clone()), false)?;
    column::<ByteArrayType>(group_ref, rows, |row| Some(row.target.clone()), false)?;
    column::<Int32Type>(group_ref, rows, |row| Some(row.path), false)?;
    column::<Int32Type>(group_ref, rows, |row| Some(row.source_port), false)?;
    column::<ByteArrayType>(group_ref, rows, |row| Some(ByteArray::from(row.result.code())), false)?;
    let answered = |row: &Row| match row.result {
        ProbeResult::Answered { total_ns, prober_ns, split_ns } => Some((total_ns, prober_ns, split_ns)),
        _ => None,
    };
    column::<Int64Type>(group_ref, rows, |row| row.result.network_ns().map(signed), true)?;
    column::<Int64Type>(group_ref, rows, |row| answered(row).map(|(_, ns, _)| signed(ns)), true)?;
    column::<Int64Type>(group_ref, rows, |row| answered(row).and_then(|(.., split)| Some(signed(split?.0))), true)?;
    column::<Int64Type>(group_ref, rows, |row| answered(row).map(|(ns, ..)| signed(ns)), true)?;
    column::<Int64Type>(group_ref, rows, |row| Some(row.batch), false)?;
    group.writer.close()?;
    Ok(())
}

fn column<D: DataType>(
    group: &mut Group<'_, '_>, rows: &[Row], value: impl Fn(&Row) -> Option<D::T>, optional: bool,
) -> Result<(), ParquetError> {
    let Some(column) = group.columns.next() else {
        return Err(ParquetError::General("the schema has too few columns".to_string()));
    };
    let values: Vec<Option<D::T>> = rows.iter().map(value).collect();
    let defined: Vec<i16> = values.iter().map(|value| i16::from(value.is_some())).collect();
    let values: Vec<D::T> = values.into_iter().flatten().collect();
    let mut bytes = Vec::new();
    let pages = Box::new(Pages(&mut bytes));
    let mut writer = get_typed_column_writer::<D>(get_column_writer(column.clone(), group.properties.clone(), pages));
    writer.write_batch(&values, optional.then_some(&defined), None)?;
    let closed = writer.close()?;
    group.writer.append_column(&Bytes::from(bytes), closed)
}

/// A result that was read from a Parquet file.
#[derive(Clone, PartialEq, Debug)]
pub struct Stored {
    /// When the controller received it, in microseconds since 1970.
    pub received_us: u64,
    /// Name of the prober.
    pub prober: ByteArray,
    /// Name of the target.
    pub target: ByteArray,
    /// Number of the path, and its UDP source port.
    pub path: (u16, u16),
    /// What became of the probe.
    pub result: ProbeResult,
}

/// Number of rows of each row group of a file of [`write`]. Compares the file with its checksum.
pub(super) fn groups(mut file: File) -> Result<Vec<usize>, ParquetError> {
    let reader = SerializedFileReader::new(file.try_clone()?)?;
    let metadata = reader.metadata();
    pages::verify(&mut file, metadata.file_metadata().key_value_metadata())?;
    if metadata.file_metadata().schema_descr().num_columns() != COLUMNS {
        return Err(ParquetError::General("it has other columns than those of a mesh".to_string()));
    }
    Ok(metadata.row_groups().iter().map(|group| usize::try_from(group.num_rows()).unwrap_or(0)).collect())
}

/// Reads the row groups of a file of [`write`] after the first `skip` ones.
pub(super) fn read(file: File, skip: usize, mut row: impl FnMut(Stored)) -> Result<(), ParquetError> {
    let reader = SerializedFileReader::new(file)?;
    for number in skip..reader.num_row_groups() {
        let group = reader.get_row_group(number)?;
        let rows = usize::try_from(group.metadata().num_rows()).unwrap_or(0);
        let group = group.as_ref();
        let received = values::<Int64Type>(group, 0, rows)?;
        let (prober, target) = (values::<ByteArrayType>(group, 2, rows)?, values::<ByteArrayType>(group, 3, rows)?);
        let (path, port) = (values::<Int32Type>(group, 4, rows)?, values::<Int32Type>(group, 5, rows)?);
        let code = values::<ByteArrayType>(group, 6, rows)?;
        let times = [7, 8, 9, 10].map(|column| values::<Int64Type>(group, column, rows));
        let [network, own, responder, total] = times;
        let (network, own, responder, total) = (network?, own?, responder?, total?);
        let number = |value: Option<i64>| value.and_then(|value| u64::try_from(value).ok());
        for at in 0..rows {
            let result = match code[at].as_ref().map(ByteArray::data) {
                Some(b"answered") => ProbeResult::Answered {
                    total_ns: number(total[at]).unwrap_or(0),
                    prober_ns: number(own[at]).unwrap_or(0),
                    split_ns: number(responder[at]).zip(number(network[at])),
                },
                Some(b"timeout") => ProbeResult::Timeout,
                Some(b"unreachable") => ProbeResult::Unreachable,
                _ => ProbeResult::Gone,
            };
            if let (Some(prober), Some(target), Some(received)) = (&prober[at], &target[at], number(received[at])) {
                let path = (path[at].unwrap_or(0) as u16, port[at].unwrap_or(0) as u16);
                row(Stored { received_us: received, prober: prober.clone(), target: target.clone(), path, result });
            }
        }
    }
    Ok(())
}

/// The values of a column.
fn values<D: DataType>(
    group: &dyn RowGroupReader, column: usize, rows: usize,
) -> Result<Vec<Option<D::T>>, ParquetError> {
    let optional = group.metadata().column(column).column_descr().max_def_level() > 0;
    let mut reader = get_typed_column_reader::<D>(group.get_column_reader(column)?);
    let (mut levels, mut found) = (Vec::new(), Vec::new());
    let (read, ..) = reader.read_records(rows, optional.then_some(&mut levels), None, &mut found)?;
    if read != rows {
        return Err(ParquetError::General(format!("column {column} has {read} of {rows} values")));
    }
    if !optional {
        return Ok(found.into_iter().map(Some).collect());
    }
    let mut found = found.into_iter();
    Ok(levels.into_iter().map(|level| if level > 0 { found.next() } else { None }).collect())
}
