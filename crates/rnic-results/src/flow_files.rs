//! The records of all flows of all runs as files: `flows.csv` and `flows.parquet`.

use super::stats;
use super::text::{exact_us, round6};
use parquet::basic::Compression;
use parquet::data_type::{BoolType, ByteArray, ByteArrayType, DataType, DoubleType, Int32Type, Int64Type};
use parquet::errors::ParquetError;
use parquet::file::properties::WriterProperties;
use parquet::file::writer::{SerializedFileWriter, SerializedRowGroupWriter};
use parquet::schema::parser::parse_message_type;
use rnic_spec::FlowRecord;
use rnic_spec::RunRecord;
use rnic_spec::{Fidelity, FlowLog};
use rnic_spec::{RunSpec, Scenario};
use rnic_transport::Time;
use std::io::{self, Write};
use std::sync::Arc;

/// Columns of `flows.csv` and `flows.parquet`, one row per flow, in order of run and start. `slowdown` is `fct_us /
/// ideal_us`. An unfinished flow has no `finish_us`, `fct_us` and `slowdown`. A flow that is not part of a request has
/// no `request`. `traffic` is the name of the traffic source; `measured` says whether the flow counts in the
/// statistics. `delivered_bytes` is the payload that the receiver had accepted by the end of the run; `goodput_bps` is
/// this payload divided by the flow's lifetime.
pub const COLUMNS: [&str; 17] = [
    "run",
    "flow",
    "src",
    "dst",
    "bytes",
    "start_us",
    "finish_us",
    "fct_us",
    "ideal_us",
    "slowdown",
    "retransmitted",
    "timeouts",
    "request",
    "traffic",
    "measured",
    "delivered_bytes",
    "goodput_bps",
];

/// Writes `flows.csv`. Times are exact decimals, slowdown and goodput have six significant digits, missing values are
/// empty.
pub fn write_csv(out: impl Write, scenario: &Scenario, reports: &[RunRecord]) -> io::Result<()> {
    let mut csv = csv::Writer::from_writer(out);
    csv.write_record(COLUMNS)?;
    for (run, report) in scenario.runs.iter().zip(reports) {
        let modelled = |count: u32| if report.output.fidelity.is_packet() { count.to_string() } else { String::new() };
        for flow in &report.output.flows {
            let flow = &flow;
            csv.write_record([
                run.name.as_str(),
                &flow.id.to_string(),
                &flow.src.to_string(),
                &flow.dst.to_string(),
                &flow.bytes.to_string(),
                &exact_us(flow.start),
                &flow.finish.map_or(String::new(), exact_us),
                &stats::fct(flow).map_or(String::new(), exact_us),
                &exact_us(flow.ideal),
                &rounded_slowdown(flow).map_or(String::new(), |s| s.to_string()),
                &modelled(flow.retransmitted),
                &modelled(flow.timeouts),
                &request(flow).map_or(String::new(), |r| r.to_string()),
                source(run, flow),
                if flow.measured { "true" } else { "false" },
                &flow.delivered.to_string(),
                &goodput(flow, report.output.end).map_or(String::new(), |g| g.to_string()),
            ])?;
        }
    }
    csv.flush()
}

/// The slowdown of a flow as the files have it, with six significant digits; `None` if the flow has not finished.
pub fn rounded_slowdown(flow: &FlowRecord) -> Option<f64> {
    stats::slowdown(flow).map(round6)
}

/// Payload delivered per second of the flow's life in bit/s, with six significant digits; `end` is the end of the run.
pub fn goodput(flow: &FlowRecord, end: Time) -> Option<f64> {
    flow.goodput_bps(end).map(round6)
}

/// The request to which a flow belongs; `None` if it belongs to none.
pub fn request(flow: &FlowRecord) -> Option<u32> {
    (flow.request != u32::MAX).then_some(flow.request)
}

/// Name of the traffic source that generated `flow`.
pub fn source<'a>(run: &'a RunSpec, flow: &FlowRecord) -> &'a str {
    run.traffic.get(usize::from(flow.traffic)).map_or("", |source| &source.name)
}

const SCHEMA: &str = "message flows {
    REQUIRED BYTE_ARRAY run (STRING);
    REQUIRED INT32 flow (INTEGER(32, false));
    REQUIRED INT32 src (INTEGER(32, false));
    REQUIRED INT32 dst (INTEGER(32, false));
    REQUIRED INT64 bytes (INTEGER(64, false));
    REQUIRED DOUBLE start_us;
    OPTIONAL DOUBLE finish_us;
    OPTIONAL DOUBLE fct_us;
    REQUIRED DOUBLE ideal_us;
    OPTIONAL DOUBLE slowdown;
    REQUIRED INT32 retransmitted (INTEGER(32, false));
    REQUIRED INT32 timeouts (INTEGER(32, false));
    OPTIONAL INT32 request (INTEGER(32, false));
    REQUIRED BYTE_ARRAY traffic (STRING);
    REQUIRED BOOLEAN measured;
    REQUIRED INT64 delivered_bytes (INTEGER(64, false));
    OPTIONAL DOUBLE goodput_bps;
}";

/// Maximum number of rows in one row group of the Parquet file.
const GROUP: usize = 1 << 20;
/// Number of rows that are passed to a Parquet column writer in one call.
const BATCH: usize = 1 << 16;

/// Writes `flows.parquet` with Snappy compression. There is one row group per run, or one for every 1,048,576 flows of
/// a larger run. The values equal those of `flows.csv`. The flows are read once for each column.
pub fn write_parquet<W: Write + Send>(out: W, scenario: &Scenario, reports: &[RunRecord]) -> io::Result<()> {
    write_groups(out, scenario, reports, GROUP)
}

/// As [`write_parquet`], with row groups of up to `rows` rows.
fn write_groups<W: Write + Send>(out: W, scenario: &Scenario, reports: &[RunRecord], rows: usize) -> io::Result<()> {
    let properties = WriterProperties::builder()
        .set_compression(Compression::SNAPPY)
        .set_created_by(concat!("rnic ", env!("CARGO_PKG_VERSION")).to_string())
        .build();
    // Counts that a simulation of flows as fluids does not have may be missing, but only if the file has such a run.
    let missing = reports.iter().any(|report| !report.output.fidelity.is_packet());
    let schema = ["retransmitted", "timeouts"].iter().fold(SCHEMA.to_string(), |schema, name| match missing {
        true => schema.replace(&format!("REQUIRED INT32 {name} "), &format!("OPTIONAL INT32 {name} ")),
        false => schema,
    });
    let schema = Arc::new(parse_message_type(&schema)?);
    let mut writer = SerializedFileWriter::new(out, schema, Arc::new(properties))?;
    for (run, report) in scenario.runs.iter().zip(reports) {
        let output = &report.output;
        for first in (0..output.flows.len().max(1)).step_by(rows) {
            let (first, last) = (first as u32, (first as u32).saturating_add(rows as u32 - 1));
            let mut columns = Columns { group: writer.next_row_group()?, flows: &output.flows, first, last };
            let counts = if missing { Counts::Optional(output.fidelity) } else { Counts::Required };
            columns.write(run, output.end, counts)?;
            columns.group.close()?;
        }
    }
    writer.close()?;
    Ok(())
}

/// How a row group stores the counts that only a simulation of packets has.
#[derive(Clone, Copy)]
enum Counts {
    /// All runs of the file have them.
    Required,
    /// They may be missing; what the run of the row group simulated.
    Optional(Fidelity),
}

/// Writer of the columns of one row group; the row group holds the flows of index `first` to `last`.
struct Columns<'a, W: Write> {
    group: SerializedRowGroupWriter<'a, W>,
    flows: &'a FlowLog,
    first: u32,
    last: u32,
}

impl<W: Write + Send> Columns<'_, W> {
    /// Writes every column of the row group, in the order of [`SCHEMA`]. Parquet stores unsigned numbers as signed
    /// numbers with the same bits.
    fn write(&mut self, run: &RunSpec, end: Time, counts: Counts) -> Result<(), ParquetError> {
        let run_name = ByteArray::from(run.name.as_str());
        let sources: Vec<ByteArray> = run.traffic.iter().map(|t| ByteArray::from(t.name.as_str())).collect();
        let no_source = ByteArray::from("");
        let source = |f: &FlowRecord| sources.get(usize::from(f.traffic)).unwrap_or(&no_source).clone();
        self.required::<ByteArrayType>(|_| run_name.clone())?;
        self.required::<Int32Type>(|f| f.id as i32)?;
        self.required::<Int32Type>(|f| f.src as i32)?;
        self.required::<Int32Type>(|f| f.dst as i32)?;
        self.required::<Int64Type>(|f| f.bytes as i64)?;
        self.required::<DoubleType>(|f| f.start.as_us())?;
        self.optional::<DoubleType>(|f| f.finish.map(|t| t.as_us()))?;
        self.optional::<DoubleType>(stats::fct_us)?;
        self.required::<DoubleType>(|f| f.ideal.as_us())?;
        self.optional::<DoubleType>(rounded_slowdown)?;
        for count in [|f: &FlowRecord| f.retransmitted as i32, |f: &FlowRecord| f.timeouts as i32] {
            match counts {
                Counts::Required => self.required::<Int32Type>(count)?,
                Counts::Optional(of) => self.optional::<Int32Type>(|f| of.is_packet().then(|| count(f)))?,
            }
        }
        self.optional::<Int32Type>(|f| request(f).map(|r| r as i32))?;
        self.required::<ByteArrayType>(source)?;
        self.required::<BoolType>(|f| f.measured)?;
        self.required::<Int64Type>(|f| f.delivered as i64)?;
        self.optional::<DoubleType>(|f| goodput(f, end))
    }

    fn required<D: DataType>(&mut self, value: impl Fn(&FlowRecord) -> D::T) -> Result<(), ParquetError> {
        self.column::<D>(|flow| Some(value(flow)), false)
    }

    fn optional<D: DataType>(&mut self, value: impl Fn(&FlowRecord) -> Option<D::T>) -> Result<(), ParquetError> {
        self.column::<D>(value, true)
    }

    fn column<D: DataType>(
        &mut self, value: impl Fn(&FlowRecord) -> Option<D::T>, optional: bool,
    ) -> Result<(), ParquetError> {
        let Some(mut column) = self.group.next_column()? else {
            return Err(ParquetError::General("the schema has too few columns".to_string()));
        };
        let mut flows = self.flows.range(self.first, self.last).peekable();
        let (mut values, mut defined) = (Vec::new(), Vec::new());
        while flows.peek().is_some() {
            values.clear();
            defined.clear();
            for flow in flows.by_ref().take(BATCH) {
                let value = value(&flow);
                defined.push(i16::from(value.is_some()));
                values.extend(value);
            }
            column.typed::<D>().write_batch(&values, optional.then_some(&defined), None)?;
        }
        column.close()
    }
}

#[cfg(test)]
mod tests {
    use super::super::fixture;
    use super::*;
    use parquet::file::reader::{FileReader, SerializedFileReader};
    use parquet::record::Field;
    use std::fs::File;

    fn unfinished() -> (Scenario, Vec<RunRecord>) {
        let (scenario, mut reports) = fixture::two_runs();
        let flows = &mut reports[1].output.flows;
        flows.edit(1, |flow| flow.finish = None);
        flows.edit(0, |flow| (flow.finish, flow.bytes) = (Some(Time::from_ps(5_087_500)), u64::MAX));
        (scenario, reports)
    }

    fn csv_text(scenario: &Scenario, reports: &[RunRecord]) -> String {
        let mut bytes = Vec::new();
        write_csv(&mut bytes, scenario, reports).unwrap();
        String::from_utf8(bytes).unwrap()
    }

    #[test]
    fn csv_is_exact() {
        let (scenario, reports) = unfinished();
        let text = csv_text(&scenario, &reports);
        let lines: Vec<&str> = text.lines().collect();
        assert_eq!(lines.len(), 11);
        assert_eq!(lines[0], COLUMNS.join(","));
        assert_eq!(lines[3], "RoCE + PFC,2,0,1,200000,100,400,300,50,6,0,2,0,incast,true,200000,5333330000");
        assert_eq!(lines[5], "RoCE + PFC,4,0,1,1000,120,320,200,5,40,0,0,,background,false,1000,40000000");
        assert_eq!(
            lines[6],
            "IRN,0,0,1,18446744073709551615,0,5.0875,5.0875,5,1.0175,0,0,,background,true,1000,1572480000"
        );
        assert_eq!(lines[7], "IRN,1,0,1,5000,1,,,10,,0,0,,background,true,5000,66778000");
    }

    #[test]
    fn csv_quotes_names() {
        let (mut scenario, reports) = fixture::two_runs();
        scenario.runs[0].name = "a, \"b\"".into();
        let text = csv_text(&scenario, &reports);
        assert!(text.lines().nth(1).unwrap().starts_with("\"a, \"\"b\"\"\",0,"), "{text}");
    }

    fn parquet_of(scenario: &Scenario, reports: &[RunRecord]) -> SerializedFileReader<File> {
        let file = tempfile::tempfile().unwrap();
        write_parquet(&file, scenario, reports).unwrap();
        SerializedFileReader::new(file).unwrap()
    }

    /// A Parquet value formatted as in the CSV file.
    fn as_csv(field: &Field) -> String {
        match field {
            Field::Null => String::new(),
            Field::Str(text) => text.clone(),
            Field::Bool(b) => b.to_string(),
            Field::UInt(n) => n.to_string(),
            Field::ULong(n) => n.to_string(),
            Field::Double(x) => x.to_string(),
            other => panic!("unexpected type {other:?}"),
        }
    }

    #[test]
    fn parquet_has_the_values_of_csv() {
        let (scenario, reports) = unfinished();
        let reader = parquet_of(&scenario, &reports);
        let text = csv_text(&scenario, &reports);
        let mut lines = text.lines();
        let mut rows = 0;
        let header = lines.next().unwrap();
        for (row, line) in reader.get_row_iter(None).unwrap().zip(lines) {
            let row = row.unwrap();
            let names: Vec<&str> = row.get_column_iter().map(|(name, _)| name.as_str()).collect();
            assert_eq!(names.join(","), header);
            let fields: Vec<String> = row.get_column_iter().map(|(_, field)| as_csv(field)).collect();
            assert_eq!(fields.join(","), line);
            rows += 1;
        }
        assert_eq!((rows, reader.metadata().num_row_groups()), (10, 2));
    }

    /// 10,020 flows exceed one row group of 10,000 rows, so the Parquet file has two row groups.
    #[test]
    fn parquet_of_many_flows_has_several_row_groups() {
        let (scenario, mut reports) = fixture::empty();
        reports[0].output.flows = (0..10_020).map(|id| fixture::flow(id, u64::from(id) % 5_000)).collect();
        let file = tempfile::tempfile().unwrap();
        write_groups(&file, &scenario, &reports, 10_000).unwrap();
        let reader = SerializedFileReader::new(file).unwrap();
        let groups = reader.metadata().row_groups();
        assert_eq!(groups.iter().map(|group| group.num_rows()).collect::<Vec<_>>(), [10_000, 20]);
        let row = reader.get_row_iter(None).unwrap().nth(10_001).unwrap().unwrap();
        let fields: Vec<String> = row.get_column_iter().map(|(_, field)| as_csv(field)).collect();
        assert_eq!(fields[1..5], ["10001", "0", "1", "1"]);
    }

    #[test]
    fn parquet_without_flows_is_a_valid_file() {
        let (scenario, reports) = fixture::empty();
        let reader = parquet_of(&scenario, &reports);
        assert_eq!(reader.metadata().file_metadata().num_rows(), 0);
        assert_eq!(reader.get_row_iter(None).unwrap().count(), 0);
    }
}
