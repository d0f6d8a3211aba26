//! The data file of a study or benchmark.

use crate::claim::number;
use crate::host;
use serde_json::{Map, Value, json};
use std::fmt::Write;
use std::io;
use std::path::Path;

/// Version of the format.
pub const SCHEMA: u64 = 1;

/// Recorded numbers with their origin: the contents of one file of `docs/results/data`.
#[derive(Clone, PartialEq, Debug, Default)]
pub struct Record {
    /// What was measured, for people.
    pub title: String,
    /// The command that measured the numbers.
    pub command: String,
    /// Date of the measurement, `YYYY-MM-DD`; the latest one if there were several.
    pub date: String,
    /// Version of rnic.
    pub version: String,
    /// Commit of rnic, with `+` if files were changed; `None` if it is not known.
    pub commit: Option<String>,
    /// The machine that measured the numbers.
    pub machine: String,
    /// Whether the numbers were copied from a page that was written before the numbers were recorded.
    pub imported: bool,
    /// Whether the numbers are those of a short test, which must not be published.
    pub quick: bool,
    /// Single values by name: numbers or texts.
    pub values: Map<String, Value>,
    /// Tables by name.
    pub tables: Vec<(String, Table)>,
}

/// A table of a record.
#[derive(Clone, PartialEq, Debug, Default)]
pub struct Table {
    /// The columns.
    pub columns: Vec<Column>,
    /// The rows. Each has a cell per column: a text, a number, `null` for an empty cell, `[LOW, HIGH]`,
    /// `[MEDIAN, LOW, HIGH]`, or `{"mean": M, "half_width": H, "seeds": N}`.
    pub rows: Vec<Vec<Value>>,
}

/// A column of a table. In a file, a column that has only a name is its name.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub struct Column {
    /// Heading of the column.
    pub name: String,
    /// Number of decimals with which numbers are shown.
    pub decimals: Option<usize>,
    /// Number of significant digits with which numbers are shown; not together with `decimals`.
    pub digits: Option<usize>,
    /// Text after each number, for example ` Gbit/s`.
    pub suffix: String,
    /// Whether the column is aligned to the right.
    pub right: bool,
    /// Whether numbers have commas between thousands.
    pub thousands: bool,
}

impl Column {
    /// A column with this heading.
    pub fn new(name: impl Into<String>) -> Column {
        Column { name: name.into(), ..Column::default() }
    }

    /// The same column, whose numbers have this number of decimals.
    pub fn decimals(self, decimals: usize) -> Column {
        Column { decimals: Some(decimals), ..self }
    }

    /// The same column, whose numbers have this number of significant digits.
    pub fn digits(self, digits: usize) -> Column {
        Column { digits: Some(digits), ..self }
    }

    /// The same column, with this text after each number.
    pub fn suffix(self, suffix: impl Into<String>) -> Column {
        Column { suffix: suffix.into(), ..self }
    }

    /// The same column, aligned to the right.
    pub fn right(self) -> Column {
        Column { right: true, ..self }
    }

    /// The same column, whose numbers have commas between thousands.
    pub fn thousands(self) -> Column {
        Column { thousands: true, ..self }
    }

    fn to_json(&self) -> Value {
        let mut map = Map::new();
        map.insert("name".into(), json!(self.name));
        self.decimals.map(|decimals| map.insert("decimals".into(), json!(decimals)));
        self.digits.map(|digits| map.insert("digits".into(), json!(digits)));
        if !self.suffix.is_empty() {
            map.insert("suffix".into(), json!(self.suffix));
        }
        for (key, holds) in [("right", self.right), ("thousands", self.thousands)] {
            if holds {
                map.insert(key.into(), json!(true));
            }
        }
        if map.len() == 1 { json!(self.name) } else { Value::Object(map) }
    }

    fn from_json(value: &Value) -> Result<Column, String> {
        if let Some(name) = value.as_str() {
            return Ok(Column::new(name));
        }
        let name = value.get("name").and_then(Value::as_str);
        let name = name.ok_or_else(|| format!("the column `{value}` is neither a text nor an object with a name"))?;
        let count = |key: &str| value.get(key).and_then(Value::as_u64).map(|count| count as usize);
        let holds = |key: &str| value.get(key).and_then(Value::as_bool).unwrap_or(false);
        Ok(Column {
            name: name.to_string(),
            decimals: count("decimals"),
            digits: count("digits"),
            suffix: value.get("suffix").and_then(Value::as_str).unwrap_or("").to_string(),
            right: holds("right"),
            thousands: holds("thousands"),
        })
    }
}

impl Table {
    /// An empty table with these columns.
    pub fn new(columns: Vec<Column>) -> Table {
        Table { columns, rows: Vec::new() }
    }

    /// An empty table whose columns have only names.
    pub fn named(names: &[&str]) -> Table {
        Table::new(names.iter().map(|name| Column::new(*name)).collect())
    }

    /// Index of the column with this name.
    pub fn column(&self, name: &str) -> Option<usize> {
        self.columns.iter().position(|column| column.name == name)
    }

    /// The cell of a row in the column with this name; `None` if the table has no such column.
    pub fn cell<'t>(&self, row: &'t [Value], name: &str) -> Option<&'t Value> {
        row.get(self.column(name)?)
    }

    /// The text of a row in the column with this name; empty if there is none.
    pub fn text<'t>(&self, row: &'t [Value], name: &str) -> &'t str {
        self.cell(row, name).and_then(Value::as_str).unwrap_or("")
    }

    /// The number of a row in the column with this name.
    pub fn number(&self, row: &[Value], name: &str) -> Option<f64> {
        self.cell(row, name).and_then(Value::as_f64)
    }
}

/// Cells of numbers, with six significant digits; a number that is not finite is an empty cell.
pub fn cells(values: &[f64]) -> Value {
    let one = |value: &f64| if value.is_finite() { number(rounded(*value)) } else { Value::Null };
    match values {
        [only] => one(only),
        several => Value::Array(several.iter().map(one).collect()),
    }
}

/// The number with six significant digits.
pub(crate) fn rounded(value: f64) -> f64 {
    format!("{value:.5e}").parse().unwrap_or(value)
}

impl Record {
    /// A record of numbers that are measured now, on this machine, by this version of rnic.
    pub fn now(title: impl Into<String>, command: impl Into<String>) -> Record {
        Record {
            title: title.into(),
            command: command.into(),
            date: host::date(),
            version: env!("CARGO_PKG_VERSION").to_string(),
            commit: host::commit(),
            machine: host::machine(),
            ..Record::default()
        }
    }

    /// The table with this name.
    pub fn table(&self, name: &str) -> Option<&Table> {
        self.tables.iter().find(|(own, _)| own == name).map(|(_, table)| table)
    }

    /// Adds a table, or replaces the table of the same name.
    pub fn put(&mut self, name: &str, table: Table) {
        match self.tables.iter_mut().find(|(own, _)| own == name) {
            Some((_, old)) => *old = table,
            None => self.tables.push((name.to_string(), table)),
        }
    }

    /// The record as JSON text: a line for each property and for each row, so that differences can be read.
    pub fn to_text(&self) -> String {
        let mut text = String::from("{\n");
        let mut property = |key: &str, value: Value| {
            let _ = writeln!(text, "  {}: {},", json!(key), spaced(&value));
        };
        property("schema", json!(SCHEMA));
        property("title", json!(self.title));
        property("command", json!(self.command));
        property("date", json!(self.date));
        property("version", json!(self.version));
        property("commit", json!(self.commit));
        property("machine", json!(self.machine));
        for (key, holds) in [("imported", self.imported), ("quick", self.quick)] {
            if holds {
                property(key, json!(true));
            }
        }
        text += "  \"values\": {";
        lines(&mut text, "    ", self.values.iter().map(|(name, value)| format!("{}: {}", json!(name), spaced(value))));
        text += if self.values.is_empty() { "},\n  \"tables\": {" } else { "\n  },\n  \"tables\": {" };
        for (index, (name, table)) in self.tables.iter().enumerate() {
            let comma = if index == 0 { "" } else { "," };
            let _ = write!(text, "{comma}\n    {}: {{\n      \"columns\": [", json!(name));
            lines(&mut text, "        ", table.columns.iter().map(|column| spaced(&column.to_json())));
            text += "\n      ],\n      \"rows\": [";
            lines(&mut text, "        ", table.rows.iter().map(|row| spaced(&Value::Array(row.clone()))));
            text += if table.rows.is_empty() { "]\n    }" } else { "\n      ]\n    }" };
        }
        text += if self.tables.is_empty() { "}\n}\n" } else { "\n  }\n}\n" };
        text
    }

    /// Reads a record from JSON text.
    ///
    /// # Errors
    /// One sentence if the text is not a record of this version of the format.
    pub fn from_text(text: &str) -> Result<Record, String> {
        let document: Value = serde_json::from_str(text).map_err(|error| format!("not JSON: {error}"))?;
        let schema = document.get("schema").and_then(Value::as_u64);
        if schema != Some(SCHEMA) {
            return Err(format!("`schema` must be {SCHEMA}, the version of the format that this program reads"));
        }
        let text = |key: &str| {
            let value = document.get(key).and_then(Value::as_str).map(ToString::to_string);
            value.ok_or_else(|| format!("`{key}` must be a text"))
        };
        let holds = |key: &str| document.get(key).and_then(Value::as_bool).unwrap_or(false);
        let object = |key: &str| {
            let value = document.get(key).and_then(Value::as_object);
            value.ok_or_else(|| format!("`{key}` must be an object"))
        };
        let mut tables = Vec::new();
        for (name, table) in object("tables")? {
            let list = |key: &str| {
                let value = table.get(key).and_then(Value::as_array);
                value.ok_or_else(|| format!("the table `{name}` has no list `{key}`"))
            };
            let columns = list("columns")?.iter().map(Column::from_json).collect::<Result<Vec<_>, _>>()?;
            let mut rows = Vec::new();
            for row in list("rows")? {
                let cells = row.as_array().filter(|cells| cells.len() == columns.len());
                let cells = cells.ok_or_else(|| {
                    format!("the row `{row}` of the table `{name}` is no list of {} cells", columns.len())
                })?;
                rows.push(cells.clone());
            }
            tables.push((name.clone(), Table { columns, rows }));
        }
        Ok(Record {
            title: text("title")?,
            command: text("command")?,
            date: text("date")?,
            version: text("version")?,
            commit: document.get("commit").and_then(Value::as_str).map(ToString::to_string),
            machine: text("machine")?,
            imported: holds("imported"),
            quick: holds("quick"),
            values: object("values")?.clone(),
            tables,
        })
    }

    /// Reads the record in a file.
    ///
    /// # Errors
    /// One sentence with the path if the file cannot be read or is not a record.
    pub fn read(path: &Path) -> Result<Record, String> {
        let text =
            std::fs::read_to_string(path).map_err(|error| format!("cannot read `{}`: {error}", path.display()))?;
        Record::from_text(&text).map_err(|why| format!("`{}` is no record: {why}", path.display()))
    }

    /// Writes the record to a file. The folder must exist.
    ///
    /// # Errors
    /// The file cannot be written.
    pub fn write(&self, path: &Path) -> io::Result<()> {
        std::fs::write(path, self.to_text())
    }
}

/// Writes each text on its own line, separated by commas.
fn lines(text: &mut String, indent: &str, items: impl Iterator<Item = String>) {
    for (index, item) in items.enumerate() {
        let comma = if index == 0 { "" } else { "," };
        let _ = write!(text, "{comma}\n{indent}{item}");
    }
}

/// A JSON value on one line, with a blank after commas and colons.
fn spaced(value: &Value) -> String {
    match value {
        Value::Array(items) => format!("[{}]", items.iter().map(spaced).collect::<Vec<_>>().join(", ")),
        Value::Object(map) => {
            let one = |(key, value): (&String, &Value)| format!("{}: {}", json!(key), spaced(value));
            format!("{{{}}}", map.iter().map(one).collect::<Vec<_>>().join(", "))
        }
        other => other.to_string(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn record() -> Record {
        let mut table =
            Table::new(vec![Column::new("run"), Column::new("rate").decimals(2).suffix(" GB/s").right().thousands()]);
        table.rows.push(vec![json!("a \"quoted\""), cells(&[6.47, 6.46, 6.49])]);
        table.rows.push(vec![json!("b"), Value::Null]);
        let mut record = Record { date: "2026-11-22".into(), imported: true, ..Record::default() };
        record.values.insert("total".into(), json!(3));
        record.put("rates", table);
        record.put("empty", Table::named(&["a"]));
        record
    }

    #[test]
    fn a_record_is_read_as_it_was_written_and_has_a_line_per_row() {
        let text = record().to_text();
        assert_eq!(Record::from_text(&text), Ok(record()), "{text}");
        assert!(
            text.contains("\n        [\"a \\\"quoted\\\"\", [6.47, 6.46, 6.49]],\n        [\"b\", null]\n"),
            "{text}"
        );
        assert!(
            text.contains("\n        {\"name\": \"rate\", \"decimals\": 2, \"suffix\": \" GB/s\", \"right\": true, \"thousands\": true}\n")
        );
        let empty = Record::default();
        assert_eq!(Record::from_text(&empty.to_text()), Ok(empty));
    }

    #[test]
    fn a_file_that_is_no_record_is_one_sentence() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("a.json");
        record().write(&path).unwrap();
        assert_eq!(Record::read(&path), Ok(record()));
        for (from, to, part) in [
            ("\"schema\": 1", "\"schema\": 2", "`schema` must be 1"),
            ("\"date\": \"2026-11-22\"", "\"date\": 5", "`date` must be a text"),
            ("[\"b\", null]", "[\"b\"]", "list of 2 cells"),
            ("{\n", "", "not JSON"),
        ] {
            std::fs::write(&path, record().to_text().replacen(from, to, 1)).unwrap();
            let error = Record::read(&path).unwrap_err();
            assert!(error.contains(part) && error.contains("a.json"), "{error}");
        }
    }

    #[test]
    fn numbers_have_six_digits() {
        assert_eq!(cells(&[1.234_567_89]), json!(1.23457));
        assert_eq!(cells(&[2_000_000.4, f64::NAN]), json!([2_000_000, null]));
    }
}
