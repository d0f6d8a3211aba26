//! Tables of rows whose columns are not known in advance, as Parquet or CSV. The rows are read twice: first to find the
//! columns, then to write the values. Only a part of the table is in memory at any time.

use parquet::basic::{Compression, LogicalType, Repetition, Type as PhysicalType};
use parquet::data_type::{BoolType, ByteArray, ByteArrayType, DataType, DoubleType, Int64Type};
use parquet::file::properties::WriterProperties;
use parquet::file::writer::{SerializedColumnWriter, SerializedFileWriter};
use parquet::schema::types::Type;
use serde_json::{Map, Value};
use std::collections::BTreeMap;
use std::io::{self, Write};
use std::sync::Arc;

/// Number of rows in a row group of a Parquet file; at most this many rows are in memory.
const GROUP: usize = 1 << 12;

/// The type of a column, which follows from its values. A column without values has the type [`Kind::Text`].
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Kind {
    /// Integers.
    Count,
    /// Numbers.
    Number,
    /// `true` and `false`.
    Flag,
    /// Text, or values of several types.
    Text,
}

impl Kind {
    fn of(value: &Value) -> Option<Kind> {
        match value {
            Value::Null => None,
            Value::Bool(_) => Some(Kind::Flag),
            value if value.is_i64() => Some(Kind::Count),
            Value::Number(_) => Some(Kind::Number),
            _ => Some(Kind::Text),
        }
    }

    fn joined(self, other: Kind) -> Kind {
        match (self, other) {
            (a, b) if a == b => a,
            (Kind::Count | Kind::Number, Kind::Count | Kind::Number) => Kind::Number,
            _ => Kind::Text,
        }
    }
}

/// The names and types of the columns of a table, in the order in which the rows name them first.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub struct Columns {
    columns: Vec<(String, Option<Kind>)>,
    index: BTreeMap<String, usize>,
}

impl Columns {
    /// The columns of these rows.
    pub fn of(rows: impl Iterator<Item = Map<String, Value>>) -> Columns {
        let mut columns = Columns::default();
        rows.for_each(|row| columns.add(&row));
        columns
    }

    fn add(&mut self, row: &Map<String, Value>) {
        // A column that is missing in the first rows is inserted after the column that precedes it in its row.
        let mut after = 0;
        for (name, value) in row {
            let at = match self.index.get(name) {
                Some(at) => *at,
                None => {
                    self.columns.insert(after, (name.clone(), None));
                    let positions = self.columns.iter().enumerate().map(|(at, (name, _))| (name.clone(), at));
                    self.index = positions.collect();
                    after
                }
            };
            let kind = &mut self.columns[at].1;
            *kind = match (*kind, Kind::of(value)) {
                (Some(a), Some(b)) => Some(a.joined(b)),
                (a, b) => a.or(b),
            };
            after = at + 1;
        }
    }

    /// The names of the columns.
    pub fn names(&self) -> impl Iterator<Item = &str> {
        self.columns.iter().map(|(name, _)| name.as_str())
    }
}

/// The value as text: empty if it is missing.
fn text(value: Option<&Value>) -> String {
    match value {
        None | Some(Value::Null) => String::new(),
        Some(Value::String(text)) => text.clone(),
        Some(value) => value.to_string(),
    }
}

/// Writes the rows as CSV with a line of names. Missing values are empty.
///
/// # Errors
/// `out` cannot be written.
pub fn write_csv(out: impl Write, columns: &Columns, rows: impl Iterator<Item = Map<String, Value>>) -> io::Result<()> {
    let mut csv = csv::Writer::from_writer(out);
    csv.write_record(columns.names())?;
    for row in rows {
        csv.write_record(columns.names().map(|name| text(row.get(name))))?;
    }
    csv.flush()
}

/// Writes the rows as a Parquet file with Snappy compression and a row group for every 4,096 rows.
///
/// # Errors
/// `out` cannot be written.
pub fn write_parquet<W: Write + Send>(
    out: W, columns: &Columns, rows: impl Iterator<Item = Map<String, Value>>,
) -> io::Result<()> {
    let properties = WriterProperties::builder()
        .set_compression(Compression::SNAPPY)
        .set_created_by(concat!("rnic ", env!("CARGO_PKG_VERSION")).to_string())
        .build();
    let field = |(name, kind): &(String, Option<Kind>)| {
        let (physical, logical) = match kind.unwrap_or(Kind::Text) {
            Kind::Count => (PhysicalType::INT64, None),
            Kind::Number => (PhysicalType::DOUBLE, None),
            Kind::Flag => (PhysicalType::BOOLEAN, None),
            Kind::Text => (PhysicalType::BYTE_ARRAY, Some(LogicalType::String)),
        };
        let field = Type::primitive_type_builder(name, physical).with_logical_type(logical);
        field.with_repetition(Repetition::OPTIONAL).build().map(Arc::new)
    };
    let fields = columns.columns.iter().map(field).collect::<Result<_, _>>()?;
    let schema = Arc::new(Type::group_type_builder("rows").with_fields(fields).build()?);
    let mut writer = SerializedFileWriter::new(out, schema, Arc::new(properties))?;
    let mut rows = rows.peekable();
    while rows.peek().is_some() {
        let batch: Vec<Map<String, Value>> = rows.by_ref().take(GROUP).collect();
        let mut group = writer.next_row_group()?;
        for (name, kind) in &columns.columns {
            if let Some(column) = group.next_column()? {
                let values: Vec<Option<&Value>> = batch.iter().map(|row| row.get(name)).collect();
                write_column(column, kind.unwrap_or(Kind::Text), &values)?;
            }
        }
        group.close()?;
    }
    writer.close()?;
    Ok(())
}

fn write_column(column: SerializedColumnWriter<'_>, kind: Kind, values: &[Option<&Value>]) -> io::Result<()> {
    match kind {
        Kind::Count => write::<Int64Type>(column, values, Value::as_i64),
        Kind::Number => write::<DoubleType>(column, values, Value::as_f64),
        Kind::Flag => write::<BoolType>(column, values, Value::as_bool),
        Kind::Text => write::<ByteArrayType>(column, values, |value| match value {
            Value::Null => None,
            value => Some(ByteArray::from(text(Some(value)).as_str())),
        }),
    }
}

fn write<T: DataType>(
    mut column: SerializedColumnWriter<'_>, values: &[Option<&Value>], of: impl Fn(&Value) -> Option<T::T>,
) -> io::Result<()> {
    let values: Vec<Option<T::T>> = values.iter().map(|value| value.and_then(&of)).collect();
    let defined: Vec<i16> = values.iter().map(|value| i16::from(value.is_some())).collect();
    let values: Vec<T::T> = values.into_iter().flatten().collect();
    column.typed::<T>().write_batch(&values, Some(&defined), None)?;
    column.close()?;
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;
    use parquet::file::reader::{FileReader, SerializedFileReader};
    use serde_json::json;

    fn rows() -> Vec<Map<String, Value>> {
        let rows = [
            json!({"name": "a", "count": 1, "mixed": 1, "empty": null}),
            json!({"name": "b, c", "new": true, "count": -2, "mixed": "x", "share": 0.5}),
            json!({"share": 2}),
        ];
        rows.into_iter().map(|row| row.as_object().cloned().unwrap()).collect()
    }

    #[test]
    fn columns_have_the_type_of_their_values_and_the_order_of_the_rows() {
        let columns = Columns::of(rows().into_iter());
        assert_eq!(columns.names().collect::<Vec<_>>(), ["name", "new", "count", "mixed", "share", "empty"]);
        let kinds: Vec<_> = columns.columns.iter().map(|(_, kind)| *kind).collect();
        let (text, number) = (Some(Kind::Text), Some(Kind::Number));
        assert_eq!(kinds, [text, Some(Kind::Flag), Some(Kind::Count), text, number, None]);
        let mut csv = Vec::new();
        write_csv(&mut csv, &columns, rows().into_iter()).unwrap();
        let expected = "name,new,count,mixed,share,empty\na,,1,1,,\n\"b, c\",true,-2,x,0.5,\n,,,,2,\n";
        assert_eq!(String::from_utf8(csv).unwrap(), expected);
    }

    #[test]
    fn parquet_has_the_values_in_row_groups() {
        let many = || (0..GROUP + 1).map(|n| json!({"n": n, "half": n as f64 / 2.0}).as_object().cloned().unwrap());
        let columns = Columns::of(many());
        let file = tempfile::tempfile().unwrap();
        write_parquet(&file, &columns, many()).unwrap();
        let reader = SerializedFileReader::new(file).unwrap();
        assert_eq!((reader.num_row_groups(), reader.metadata().file_metadata().num_rows()), (2, GROUP as i64 + 1));
        let last = reader.get_row_iter(None).unwrap().last().unwrap().unwrap().to_string();
        assert_eq!(last, "{n: 4096, half: 2048.0}");
        let file = tempfile::tempfile().unwrap();
        write_parquet(&file, &Columns::of(rows().into_iter()), rows().into_iter()).unwrap();
        let reader = SerializedFileReader::new(file).unwrap();
        let first = reader.get_row_iter(None).unwrap().next().unwrap().unwrap().to_string();
        assert_eq!(first, r#"{name: "a", new: null, count: 1, mixed: "1", share: null, empty: null}"#);
    }
}
