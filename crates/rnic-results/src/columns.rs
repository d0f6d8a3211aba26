//! The types of the columns of result files, and tables as Parquet files.

use parquet::basic::{Compression, LogicalType, Repetition, Type as PhysicalType};
use parquet::data_type::{BoolType, ByteArray, ByteArrayType, DataType, DoubleType, Int64Type};
use parquet::file::properties::WriterProperties;
use parquet::file::writer::{SerializedColumnWriter, SerializedFileWriter};
use parquet::schema::types::Type;
use std::io::{self, Read, Write};
use std::sync::Arc;

/// The type of the values of a column.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum ColumnKind {
    /// Text.
    Text,
    /// Whole numbers.
    Count,
    /// Numbers.
    Number,
    /// `true` or `false`.
    Flag,
}

/// The columns of result files that hold text.
const TEXT: [&str; 20] = [
    "run",
    "node",
    "peer",
    "queue",
    "root_kind",
    "root",
    "mesh",
    "action",
    "traffic",
    "transport",
    "cc",
    "status",
    "failure",
    "base",
    "name",
    "operation",
    "algorithm",
    "kind",
    "task",
    "link",
];

/// The columns of whole numbers without a unit in their name.
const COUNTS: [&str; 30] = [
    "port",
    "priority",
    "tx_packets",
    "tx_bytes",
    "drops",
    "lost",
    "pause_sent",
    "pause_received",
    "queue_high_water_bytes",
    "trimmed",
    "returned",
    "bytes",
    "flow",
    "src",
    "dst",
    "probes",
    "unanswered",
    "dropped",
    "request",
    "ranks",
    "group",
    "repeat",
    "step",
    "rank",
    "messages",
    "first_src",
    "last_src",
    "first_dst",
    "last_dst",
    "links",
];

impl ColumnKind {
    /// The type of the column with this name in any result file.
    ///
    /// ```
    /// use rnic_results::columns::ColumnKind;
    /// assert_eq!(ColumnKind::of("traffic"), ColumnKind::Text);
    /// assert_eq!(ColumnKind::of("bytes"), ColumnKind::Count);
    /// assert_eq!(ColumnKind::of("time_us"), ColumnKind::Number);
    /// ```
    pub fn of(name: &str) -> ColumnKind {
        match name {
            "finished" | "measured" => ColumnKind::Flag,
            _ if TEXT.contains(&name) => ColumnKind::Text,
            _ if COUNTS.contains(&name) => ColumnKind::Count,
            _ => ColumnKind::Number,
        }
    }

    fn parquet(self) -> (PhysicalType, Option<LogicalType>) {
        match self {
            ColumnKind::Text => (PhysicalType::BYTE_ARRAY, Some(LogicalType::String)),
            ColumnKind::Count => (PhysicalType::INT64, Some(LogicalType::integer(64, true))),
            ColumnKind::Number => (PhysicalType::DOUBLE, None),
            ColumnKind::Flag => (PhysicalType::BOOLEAN, None),
        }
    }
}

/// Maximum number of rows of a row group.
const GROUP: usize = 1 << 16;

/// Writes the table that `csv` writes as CSV in the format Parquet, with Snappy compression. The type of a column
/// depends on its name ([`ColumnKind::of`]); an empty cell is a missing value. The memory does not grow with the number
/// of rows.
///
/// # Errors
/// `csv` or `out` returns an error, or a cell is not of the type of its column.
pub(crate) fn write_parquet<W: Write + Send>(
    out: W, csv: impl FnOnce(&mut dyn Write) -> io::Result<()> + Send,
) -> io::Result<()> {
    let (reader, mut writer) = io::pipe()?;
    std::thread::scope(|scope| {
        let written = scope.spawn(move || csv(&mut writer));
        let converted = convert(out, reader);
        // If the conversion fails, the pipe is closed, and writing ends with another error.
        let written = written.join().unwrap_or_else(|_| Err(io::Error::other("writing a table panicked")));
        converted.and(written)
    })
}

fn convert<W: Write + Send>(out: W, csv: impl Read) -> io::Result<()> {
    let mut reader = csv::Reader::from_reader(csv);
    let names: Vec<String> = reader.headers()?.iter().map(str::to_string).collect();
    let field = |name: &String| {
        let (physical, logical) = ColumnKind::of(name).parquet();
        let field = Type::primitive_type_builder(name, physical).with_logical_type(logical);
        field.with_repetition(Repetition::OPTIONAL).build().map(Arc::new)
    };
    let fields = names.iter().map(field).collect::<Result<_, _>>()?;
    let schema = Arc::new(Type::group_type_builder("table").with_fields(fields).build()?);
    let properties = WriterProperties::builder()
        .set_compression(Compression::SNAPPY)
        .set_created_by(concat!("rnic ", env!("CARGO_PKG_VERSION")).to_string())
        .build();
    let mut writer = SerializedFileWriter::new(out, schema, Arc::new(properties))?;
    let mut records = reader.into_records();
    loop {
        let rows: Vec<csv::StringRecord> = records.by_ref().take(GROUP).collect::<Result<_, _>>()?;
        if rows.is_empty() {
            break;
        }
        let mut group = writer.next_row_group()?;
        for (index, name) in names.iter().enumerate() {
            let column = group.next_column()?.ok_or_else(|| io::Error::other("a column is missing"))?;
            write_column(column, name, &rows, index)?;
        }
        group.close()?;
    }
    writer.close()?;
    Ok(())
}

fn write_column(
    mut column: SerializedColumnWriter<'_>, name: &str, rows: &[csv::StringRecord], index: usize,
) -> io::Result<()> {
    let cells = || rows.iter().map(|row| row.get(index).filter(|cell| !cell.is_empty()));
    let defined: Vec<i16> = cells().map(|cell| i16::from(cell.is_some())).collect();
    match ColumnKind::of(name) {
        ColumnKind::Text => {
            let texts: Vec<ByteArray> = cells().flatten().map(ByteArray::from).collect();
            column.typed::<ByteArrayType>().write_batch(&texts, Some(&defined), None)?;
        }
        ColumnKind::Count => write_parsed::<Int64Type, _>(&mut column, name, cells(), &defined)?,
        ColumnKind::Number => write_parsed::<DoubleType, _>(&mut column, name, cells(), &defined)?,
        ColumnKind::Flag => write_parsed::<BoolType, _>(&mut column, name, cells(), &defined)?,
    }
    Ok(column.close()?)
}

fn write_parsed<'c, D: DataType<T: std::str::FromStr>, I: Iterator<Item = Option<&'c str>>>(
    column: &mut SerializedColumnWriter<'_>, name: &str, cells: I, defined: &[i16],
) -> io::Result<()> {
    let parse = |cell: &str| {
        let wrong = || io::Error::other(format!("\"{cell}\" is not a value of the column {name}"));
        cell.parse::<D::T>().map_err(|_| wrong())
    };
    let values: Vec<D::T> = cells.flatten().map(parse).collect::<io::Result<_>>()?;
    column.typed::<D>().write_batch(&values, Some(defined), None)?;
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;
    use parquet::file::reader::{FileReader, SerializedFileReader};
    use parquet::record::Field;

    fn rows(csv: &'static str) -> io::Result<Vec<Vec<Field>>> {
        let file = tempfile::tempfile()?;
        write_parquet(&file, |pipe| pipe.write_all(csv.as_bytes()))?;
        let reader = SerializedFileReader::new(file)?;
        let rows = reader.get_row_iter(None)?.map(|row| row.map(|row| row.into_columns()));
        Ok(rows.map(|row| row.unwrap().into_iter().map(|(_, value)| value).collect()).collect())
    }

    #[test]
    fn a_table_has_the_values_of_its_text() {
        let text = "run,bytes,time_us,measured\n\"a, b\",5,0.25,true\nc,,1e3,\n";
        let expected = [
            vec![Field::Str("a, b".into()), Field::Long(5), Field::Double(0.25), Field::Bool(true)],
            vec![Field::Str("c".into()), Field::Null, Field::Double(1_000.0), Field::Null],
        ];
        assert_eq!(rows(text).unwrap(), expected);
        assert_eq!(rows("run,bytes\n").unwrap(), Vec::<Vec<Field>>::new());
    }

    #[test]
    fn a_cell_of_another_type_is_an_error() {
        let error = rows("run,bytes\na,many\n").unwrap_err();
        assert_eq!(error.to_string(), "\"many\" is not a value of the column bytes");
    }
}
