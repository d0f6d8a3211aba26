//! The results of a sweep as one table with a row per run: `sweep.csv` and `sweep.parquet`.

use super::json::status;
use super::stats::Distribution;
use super::summary::{RunSummary, ScenarioSummary};
use super::text::round6;
use parquet::basic::{Compression, LogicalType, Repetition, Type as PhysicalType};
use parquet::data_type::{BoolType, ByteArray, ByteArrayType, DoubleType, Int64Type};
use parquet::file::properties::WriterProperties;
use parquet::file::writer::{SerializedColumnWriter, SerializedFileWriter};
use parquet::schema::types::Type;
use rnic_transport::Time;
use std::io::{self, Write};
use std::sync::Arc;

/// The columns of `sweep.csv` and `sweep.parquet` that follow the columns of the swept keys, in order.
pub(crate) const COLUMNS: [&str; 34] = [
    "run",
    "base",
    "transport",
    "cc",
    "pfc",
    "seed",
    "status",
    "flows_offered",
    "flows_completed",
    "flows_measured",
    "slowdown_mean",
    "slowdown_p50",
    "slowdown_p95",
    "slowdown_p99",
    "slowdown_p999",
    "fct_us_mean",
    "fct_us_p50",
    "fct_us_p95",
    "fct_us_p99",
    "fct_us_p999",
    "rct_us_mean",
    "drop_rate",
    "data",
    "retransmitted",
    "dropped",
    "lost",
    "marked",
    "pause_frames",
    "pause_time_us",
    "timeouts",
    "hops",
    "sim_time_us",
    "trimmed",
    "returned",
];

/// The values of one column of the table of a sweep, one per run.
enum Cells {
    Text(Vec<String>),
    Count(Vec<u64>),
    Number(Vec<Option<f64>>),
    Flag(Vec<bool>),
}

impl Cells {
    /// The value in `row` as text for the CSV file; empty if the value is missing.
    fn text(&self, row: usize) -> String {
        match self {
            Cells::Text(texts) => texts[row].clone(),
            Cells::Count(counts) => counts[row].to_string(),
            Cells::Number(numbers) => numbers[row].map_or(String::new(), |number| number.to_string()),
            Cells::Flag(flags) => flags[row].to_string(),
        }
    }

    /// The Parquet type of the column: physical type, logical type, and whether values may be missing.
    fn kind(&self) -> (PhysicalType, Option<LogicalType>, Repetition) {
        let unsigned = LogicalType::integer(64, false);
        match self {
            Cells::Text(_) => (PhysicalType::BYTE_ARRAY, Some(LogicalType::String), Repetition::REQUIRED),
            Cells::Count(_) => (PhysicalType::INT64, Some(unsigned), Repetition::REQUIRED),
            Cells::Number(_) => (PhysicalType::DOUBLE, None, Repetition::OPTIONAL),
            Cells::Flag(_) => (PhysicalType::BOOLEAN, None, Repetition::REQUIRED),
        }
    }

    fn write(&self, mut column: SerializedColumnWriter<'_>) -> parquet::errors::Result<()> {
        match self {
            Cells::Text(texts) => {
                let texts: Vec<ByteArray> = texts.iter().map(|text| ByteArray::from(text.as_str())).collect();
                column.typed::<ByteArrayType>().write_batch(&texts, None, None)?;
            }
            Cells::Count(counts) => {
                // Parquet stores unsigned numbers as signed numbers with the same bits.
                let counts: Vec<i64> = counts.iter().map(|count| *count as i64).collect();
                column.typed::<Int64Type>().write_batch(&counts, None, None)?;
            }
            Cells::Number(numbers) => {
                let defined: Vec<i16> = numbers.iter().map(|number| i16::from(number.is_some())).collect();
                let numbers: Vec<f64> = numbers.iter().flatten().copied().collect();
                column.typed::<DoubleType>().write_batch(&numbers, Some(&defined), None)?;
            }
            Cells::Flag(flags) => {
                column.typed::<BoolType>().write_batch(flags, None, None)?;
            }
        }
        column.close()
    }
}

/// Names and values of all columns: first the swept keys, then [`COLUMNS`]. A swept seed has no additional column,
/// because [`COLUMNS`] always contains the seed.
fn columns(summary: &ScenarioSummary) -> Vec<(String, Cells)> {
    let runs = &summary.runs;
    let texts = |of: fn(&RunSummary) -> &str| Cells::Text(runs.iter().map(|run| of(run).to_string()).collect());
    let counts = |of: fn(&RunSummary) -> u64| Cells::Count(runs.iter().map(of).collect());
    let numbers =
        |of: &dyn Fn(&RunSummary) -> Option<f64>| Cells::Number(runs.iter().map(|run| of(run).map(round6)).collect());
    // Counts that a simulation of flows as fluids does not have are missing there.
    let packets = |of: fn(&RunSummary) -> u64| match runs.iter().all(|run| run.fidelity.is_packet()) {
        true => Cells::Count(runs.iter().map(of).collect()),
        false => Cells::Number(runs.iter().map(|run| run.modelled(of(run) as f64)).collect()),
    };
    let fields: [fn(Distribution) -> f64; 5] = [|d| d.mean, |d| d.p50, |d| d.p95, |d| d.p99, |d| d.p999];
    let mut cells = vec![
        texts(|run| &run.name),
        texts(|run| &run.base),
        texts(|run| &run.transport),
        texts(|run| &run.cc),
        Cells::Flag(runs.iter().map(|run| run.pfc).collect()),
        counts(|run| run.seed),
        texts(status),
        counts(|run| run.flows.offered),
        counts(|run| run.flows.completed),
        counts(|run| run.flows.measured),
    ];
    cells.extend(fields.map(|field| numbers(&|run| run.slowdown.map(field))));
    cells.extend(fields.map(|field| numbers(&|run| run.fct_us.map(field))));
    cells.extend([
        numbers(&|run| run.requests.map(|requests| requests.mean)),
        numbers(&|run| run.drop_rate),
        counts(|run| run.totals.data),
        packets(|run| run.totals.retransmitted),
        packets(|run| run.totals.dropped),
        packets(|run| run.totals.lost),
        packets(|run| run.totals.marked),
        packets(|run| run.totals.pause_frames),
        Cells::Number(runs.iter().map(|run| run.modelled(Time::from_ps(run.totals.paused_ps).as_us())).collect()),
        packets(|run| run.timeouts),
        counts(|run| run.totals.hops),
        Cells::Number(runs.iter().map(|run| Some(run.sim_time.as_us())).collect()),
        packets(|run| run.totals.trimmed),
        packets(|run| run.totals.returned),
    ]);
    let fixed = COLUMNS.iter().map(|name| name.to_string()).zip(cells);
    let swept = summary.swept().into_iter().enumerate().filter(|(_, key)| *key != "seed");
    swept.map(|(axis, key)| (key.to_string(), swept_cells(runs, axis))).chain(fixed).collect()
}

/// The values of the swept key with index `axis`: numbers if all values are numbers, else text.
fn swept_cells(runs: &[RunSummary], axis: usize) -> Cells {
    let texts: Vec<&str> = runs.iter().map(|run| run.point.get(axis).map_or("", |(_, text)| text.as_str())).collect();
    let plain = |text: &&str| text.replace('_', "");
    if let Ok(counts) = texts.iter().map(|text| plain(text).parse()).collect::<Result<Vec<u64>, _>>() {
        return Cells::Count(counts);
    }
    let number = |text: &&str| plain(text).parse().ok().filter(|number: &f64| number.is_finite());
    match texts.iter().map(number).collect::<Option<Vec<f64>>>() {
        Some(numbers) => Cells::Number(numbers.into_iter().map(Some).collect()),
        None => Cells::Text(texts.into_iter().map(str::to_string).collect()),
    }
}

/// Writes the table of the sweep as `sweep.csv`.
pub(crate) fn write_csv(out: impl Write, summary: &ScenarioSummary) -> io::Result<()> {
    let columns = columns(summary);
    let mut csv = csv::Writer::from_writer(out);
    csv.write_record(columns.iter().map(|(name, _)| name))?;
    for row in 0..summary.runs.len() {
        csv.write_record(columns.iter().map(|(_, cells)| cells.text(row)))?;
    }
    csv.flush()
}

/// Writes the table of the sweep as `sweep.parquet` with Snappy compression. The values equal those of `sweep.csv`.
pub(crate) fn write_parquet<W: Write + Send>(out: W, summary: &ScenarioSummary) -> io::Result<()> {
    let columns = columns(summary);
    let properties = WriterProperties::builder()
        .set_compression(Compression::SNAPPY)
        .set_created_by(concat!("rnic ", env!("CARGO_PKG_VERSION")).to_string())
        .build();
    let field = |(name, cells): &(String, Cells)| {
        let (physical, logical, repetition) = cells.kind();
        let field = Type::primitive_type_builder(name, physical);
        field.with_logical_type(logical).with_repetition(repetition).build().map(Arc::new)
    };
    let fields = columns.iter().map(field).collect::<Result<_, _>>()?;
    let schema = Arc::new(Type::group_type_builder("sweep").with_fields(fields).build()?);
    let mut writer = SerializedFileWriter::new(out, schema, Arc::new(properties))?;
    let mut group = writer.next_row_group()?;
    for (_, cells) in &columns {
        if let Some(column) = group.next_column()? {
            cells.write(column)?;
        }
    }
    group.close()?;
    writer.close()?;
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::super::{fixture, summarise};
    use super::*;
    use parquet::file::reader::{FileReader, SerializedFileReader};
    use parquet::record::Field;
    use rnic_spec::RunStatus;

    /// A sweep over two values with two runs each. At the second value, the second run failed.
    fn swept() -> ScenarioSummary {
        let (mut scenario, mut reports) = fixture::two_runs();
        scenario.runs.extend(scenario.runs.clone());
        reports.extend(reports.clone());
        reports[3].output.status = RunStatus::Failed("stuck".into());
        for (number, run) in scenario.runs.iter_mut().enumerate() {
            let values = [["0.3", "10 Gbps", "8"], ["1", "40 Gbps", "18446744073709551615"]][number / 2];
            let keys = ["traffic.load", "fabric.rate", "seed"];
            run.point = keys.iter().zip(values).map(|(key, value)| (key.to_string(), value.to_string())).collect();
            run.seed = values[2].parse().unwrap();
            run.name += &format!(", load={}", values[0]);
        }
        summarise(&scenario, &reports)
    }

    fn csv_text(summary: &ScenarioSummary) -> String {
        let mut bytes = Vec::new();
        write_csv(&mut bytes, summary).unwrap();
        String::from_utf8(bytes).unwrap()
    }

    #[test]
    fn csv_by_hand() {
        let text = csv_text(&swept());
        let lines: Vec<&str> = text.lines().collect();
        assert_eq!(lines.len(), 5);
        assert_eq!(lines[0], format!("traffic.load,fabric.rate,{}", COLUMNS.join(",")));
        assert_eq!(
            lines[1],
            "0.3,10 Gbps,\"RoCE + PFC, load=0.3\",RoCE + PFC,roce,none,true,8,completed,5,5,4,5,4,8,8,8,187.5,40,400,\
             400,400,410,0.00666667,600,6,5,1,2,3,12.5,2,1200,600.000001,0,0"
        );
        assert_eq!(
            lines[4],
            "1,40 Gbps,\"IRN, load=1\",IRN,irn,none,false,18446744073709551615,failed,5,5,4,,,,,,,,,,,,,600,6,5,1,2,3,\
             12.5,2,1200,600.000001,0,0"
        );
    }

    #[test]
    fn both_files_have_the_values_of_the_summary() {
        let summary = swept();
        let json = summary.to_json(false);
        let file = tempfile::tempfile().unwrap();
        write_parquet(&file, &summary).unwrap();
        let reader = SerializedFileReader::new(file).unwrap();
        let rows = reader.get_row_iter(None).unwrap().map(Result::unwrap);
        let text = csv_text(&summary);
        let mut csv = csv::Reader::from_reader(text.as_bytes());
        let header = csv.headers().unwrap().clone();
        let mut count = 0;
        for ((row, record), run) in rows.zip(csv.records()).zip(json["runs"].as_array().unwrap()) {
            let record = record.unwrap();
            for ((name, field), (column, cell)) in row.get_column_iter().zip(header.iter().zip(&record)) {
                let value = match field {
                    Field::Null => String::new(),
                    Field::Str(text) => text.clone(),
                    Field::Bool(flag) => flag.to_string(),
                    Field::ULong(count) => count.to_string(),
                    Field::Double(number) => number.to_string(),
                    other => panic!("unexpected type {other:?}"),
                };
                assert_eq!((name.as_str(), value.as_str()), (column, cell));
                let told = match name.split_once('_') {
                    Some(("flows", part)) => &run["flows"][part],
                    Some(("slowdown", part)) => &run["slowdown"][part],
                    Some(("fct", part)) => &run["fct_us"][part.trim_start_matches("us_")],
                    Some(("pause", part)) => &run["pause"][part],
                    _ => match name.as_str() {
                        "run" => &run["name"],
                        "rct_us_mean" => &run["rct_us"],
                        "data" | "retransmitted" | "dropped" | "lost" | "marked" | "hops" | "trimmed" | "returned" => {
                            &run["packets"][name]
                        }
                        "traffic.load" | "fabric.rate" => &run["point"][name],
                        _ => &run[name],
                    },
                };
                let told = match told {
                    serde_json::Value::String(text) => text.clone(),
                    serde_json::Value::Null => String::new(),
                    number => number.to_string().trim_end_matches(".0").to_string(),
                };
                assert_eq!(told, cell, "{name}");
            }
            count += 1;
        }
        assert_eq!(count, 4);
    }

    #[test]
    fn a_column_is_numeric_if_all_values_are_numbers() {
        let mut summary = swept();
        assert!(matches!(swept_cells(&summary.runs, 0), Cells::Number(_)));
        assert!(matches!(swept_cells(&summary.runs, 1), Cells::Text(_)));
        assert!(matches!(swept_cells(&summary.runs, 2), Cells::Count(_)));
        summary.runs[0].point[0].1 = "1_000".into();
        assert_eq!(swept_cells(&summary.runs, 0).text(0), "1000");
        summary.runs[0].point[0].1 = "inf".into();
        assert!(matches!(swept_cells(&summary.runs, 0), Cells::Text(_)));
    }
}
