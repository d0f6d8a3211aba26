//! The Parquet file of an hour: one row per probe, in order of arrival.

use super::log::Entry;
use crate::record::ProbeResult;
use parquet::basic::Compression;
use parquet::data_type::{ByteArray, ByteArrayType, DataType, Int32Type, Int64Type};
use parquet::errors::ParquetError;
use parquet::file::properties::WriterProperties;
use parquet::file::writer::{SerializedFileWriter, SerializedRowGroupWriter};
use parquet::schema::parser::parse_message_type;
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

/// Writes the batches as a Parquet file with Snappy compression.
pub(super) fn write(file: &File, entries: impl Iterator<Item = Entry>) -> io::Result<()> {
    let properties = WriterProperties::builder()
        .set_compression(Compression::SNAPPY)
        .set_created_by(concat!("rnic ", env!("CARGO_PKG_VERSION")).to_string())
        .build();
    let schema = Arc::new(parse_message_type(SCHEMA)?);
    let mut writer = SerializedFileWriter::new(file, schema, Arc::new(properties))?;
    let mut rows = Vec::new();
    for Entry { received_us, batch } in entries {
        let names: Vec<ByteArray> = batch.targets.iter().map(|(name, _)| ByteArray::from(name.as_str())).collect();
        let prober = ByteArray::from(batch.host.as_str());
        for probe in &batch.probes {
            rows.push(Row {
                received: received_us as i64,
                at: probe.at_us as i64,
                prober: prober.clone(),
                target: names[usize::from(probe.target)].clone(),
                path: probe.path.into(),
                source_port: batch.source_ports[usize::from(probe.path)].into(),
                result: probe.result,
                batch: batch.sequence as i64,
            });
        }
        if rows.len() >= GROUP {
            group(&mut writer, &rows)?;
            rows.clear();
        }
    }
    if !rows.is_empty() {
        group(&mut writer, &rows)?;
    }
    writer.close()?;
    Ok(())
}

fn group(writer: &mut SerializedFileWriter<&File>, rows: &[Row]) -> Result<(), ParquetError> {
    let mut group = writer.next_row_group()?;
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
    column::<Int64Type>(group_ref, rows, |row| row.result.network_ns().map(|ns| ns as i64), true)?;
    column::<Int64Type>(group_ref, rows, |row| answered(row).map(|(_, ns, _)| ns as i64), true)?;
    column::<Int64Type>(group_ref, rows, |row| answered(row).and_then(|(.., split)| Some(split?.0 as i64)), true)?;
    column::<Int64Type>(group_ref, rows, |row| answered(row).map(|(ns, ..)| ns as i64), true)?;
    column::<Int64Type>(group_ref, rows, |row| Some(row.batch), false)?;
    group.close()?;
    Ok(())
}

fn column<D: DataType>(
    group: &mut SerializedRowGroupWriter<'_, &File>, rows: &[Row], value: impl Fn(&Row) -> Option<D::T>, optional: bool,
) -> Result<(), ParquetError> {
    let Some(mut column) = group.next_column()? else {
        return Err(ParquetError::General("the schema has too few columns".to_string()));
    };
    let values: Vec<Option<D::T>> = rows.iter().map(value).collect();
    let defined: Vec<i16> = values.iter().map(|value| i16::from(value.is_some())).collect();
    let values: Vec<D::T> = values.into_iter().flatten().collect();
    column.typed::<D>().write_batch(&values, optional.then_some(&defined), None)?;
    column.close()
}
