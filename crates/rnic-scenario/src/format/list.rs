//! Reads flow lists in three formats: CSV, the flow file of the HPCC simulator, and the connection matrix of htsim
//! (module `connections`).
//!
//! **CSV** starts with a header line that names the columns, in any order. The columns `start_us`, `src`, `dst` and
//! `bytes` are required. The columns `request` (a number, or empty), `measured` (1 or 0, default 1) and `hash` (a
//! number, or empty) are optional.
//! Any other column is an error. Start times are in microseconds with up to six decimals, exact to the picosecond.
//! Lines that begin with `#` are comments.
//!
//! **HPCC**: the first line is the number of flows; then each line is a flow, `src dst priority port bytes seconds`.
//! Later forks of the HPCC simulator leave out the port. A line of five numbers is read as
//! `src dst priority bytes seconds` if the last number has a decimal point or an exponent, which the traffic generators
//! of these forks always write. rnic ignores priority and port. As in the HPCC simulator, text after the announced
//! number of flows is ignored, further flows included: people switch flows off by a lower number. Start times are
//! rounded to picoseconds. Sources and destinations are numbers of nodes: hosts usually have the first numbers, but a
//! [topology file](super::import) may number them otherwise.

use super::connections;
pub(crate) use super::connections::Matrix;
use super::decimal::{self, MICROSECONDS, SECONDS};
use rnic_spec::FlowSpec;
use rnic_transport::settings::{MAX_BYTES, MAX_TIME};
use rnic_transport::{Bytes, Time};
use std::collections::BTreeMap;
use std::path::Path;

/// File formats of flow lists that can be read.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug)]
pub enum ListFormat {
    /// Comma-separated values with a header line.
    Csv,
    /// The flow file of the HPCC simulator.
    Hpcc,
    /// The connection matrix of htsim (`.cm`).
    Htsim,
}

impl ListFormat {
    /// The format of the flow list `content`, judged by the name of its file and by its first line that is neither
    /// empty nor a comment: a name that ends in `.csv`, a comma or a name of a column is CSV, and a word such as
    /// `Nodes` or a connection `0->1` is htsim's format.
    pub fn guess(path: &Path, content: &str) -> ListFormat {
        let first = content.lines().map(str::trim).find(|line| !line.is_empty() && !line.starts_with('#'));
        let word = first.and_then(|line| line.split_whitespace().next()).unwrap_or("");
        if path.extension().is_some_and(|extension| extension == "csv") {
            ListFormat::Csv
        } else if connections::HEADERS.contains(&word) || word.contains("->") || word == "trigger" || word == "failure"
        {
            ListFormat::Htsim
        } else if first.is_some_and(|line| line.contains(',')) || COLUMNS.contains(&word) {
            ListFormat::Csv
        } else {
            ListFormat::Hpcc
        }
    }
}

/// The hosts that the flows of a list may name.
#[derive(Clone, Copy, Debug)]
pub(crate) enum Hosts<'h> {
    /// This number of hosts, which are numbered from 0.
    Count(u32),
    /// The hosts of an imported topology: the number of each host in the file of the topology, in ascending order. The
    /// flow files of the HPCC simulator and its forks use the same numbers.
    Numbered(&'h [u32]),
}

impl Hosts<'_> {
    /// The number of hosts.
    pub(crate) fn count(self) -> u32 {
        match self {
            Hosts::Count(count) => count,
            Hosts::Numbered(numbers) => numbers.len() as u32,
        }
    }
}

/// Maximum size of a flow, 1,000 TB: its transmission takes 2.3 days at 40 Gbps, far below an overflow of [`Time`].
pub const LARGEST_FLOW: Bytes = Bytes(MAX_BYTES);

/// Latest start of a flow: after 30 days, which leaves 183 days until [`Time`] overflows.
const LATEST_START: Time = MAX_TIME;

/// The columns of the CSV format of flow lists: the first four are required.
const COLUMNS: [&str; 7] = ["start_us", "src", "dst", "bytes", "request", "measured", "hash"];

/// Reads the flows in the file at `path`, for a network of `hosts` hosts. The result is sorted by start, then by
/// sending host; flows that are equal in both keep the order of the file.
///
/// # Errors
/// The file cannot be read or is not a valid flow list. The error is one sentence: file, line, what is wrong and what
/// would be accepted.
pub fn read_flow_list(path: &Path, format: ListFormat, hosts: u32) -> Result<Vec<FlowSpec>, String> {
    parse_flow_list(&read_text(path)?, path, format, hosts)
}

/// Reads the text of the flow list in the file at `path`.
pub(crate) fn read_text(path: &Path) -> Result<String, String> {
    rnic_workload::read_text(path).map_err(|error| match error.kind() {
        std::io::ErrorKind::NotFound => format!("{}: this flow list does not exist", path.display()),
        _ => format!("{}: cannot read this flow list: {error}", path.display()),
    })
}

/// As [`read_flow_list`], for the text `content` of a file; `path` is used in error messages only.
///
/// # Errors
/// As for [`read_flow_list`].
pub fn parse_flow_list(content: &str, path: &Path, format: ListFormat, hosts: u32) -> Result<Vec<FlowSpec>, String> {
    parse(content, path, format, Hosts::Count(hosts))
}

/// As [`parse_flow_list`], for hosts that may have other numbers in HPCC files.
fn parse(content: &str, path: &Path, format: ListFormat, hosts: Hosts<'_>) -> Result<Vec<FlowSpec>, String> {
    match parse_list(content, path, format, hosts)? {
        FlowList::Fixed(flows) => Ok(flows),
        FlowList::Matrix(_) => {
            let error =
                "this connection matrix has triggers or failures; accepted here: flows that start at fixed times";
            Err(format!("{}: {error}", path.display()))
        }
    }
}

/// What a flow list contains.
pub(crate) enum FlowList {
    /// Flows that start at fixed times, sorted by start and sending host.
    Fixed(Vec<FlowSpec>),
    /// A connection matrix of htsim with triggers or failures.
    Matrix(Matrix),
}

/// As [`parse`], for lists that may have triggers and failures.
pub(crate) fn parse_list(content: &str, path: &Path, format: ListFormat, hosts: Hosts<'_>) -> Result<FlowList, String> {
    let shown = path.display().to_string();
    let flows = match format {
        ListFormat::Csv => read_csv(content, Hosts::Count(hosts.count())),
        ListFormat::Hpcc => read_hpcc(content, hosts),
        ListFormat::Htsim => match connections::read(content, hosts.count()) {
            Ok(matrix) => match matrix.fixed().filter(|_| matrix.failures.is_empty()) {
                Some(flows) => Ok(flows),
                None => return Ok(FlowList::Matrix(matrix)),
            },
            Err(error) => Err(error),
        },
    };
    let mut flows = flows.map_err(|(line, error)| format!("{shown}:{line}: {error}"))?;
    if flows.is_empty() {
        return Err(format!("{shown}: has no flows; give at least one"));
    }
    flows.sort_by_key(|flow| (flow.start, flow.src));
    Ok(FlowList::Fixed(flows))
}

/// An error in a flow list: the number of the line, and the message.
pub(super) type AtLine = (u64, String);

fn read_csv(content: &str, hosts: Hosts<'_>) -> Result<Vec<FlowSpec>, AtLine> {
    let mut reader = csv::ReaderBuilder::new()
        .trim(csv::Trim::All)
        .comment(Some(b'#'))
        .flexible(true)
        .from_reader(content.as_bytes());
    let header = reader.headers().map_err(|error| (1, error.to_string()))?.clone();
    let header_line = header.position().map_or(1, csv::Position::line);
    let columns = find_columns(&header).map_err(|error| (header_line, error))?;
    let mut flows = Vec::new();
    // The line of each flow with a `hash`, by its hosts and its hash.
    let mut hashes: BTreeMap<(u32, u32, u32), u64> = BTreeMap::new();
    for record in reader.records() {
        let record = record.map_err(|error| (header_line, error.to_string()))?;
        let line = record.position().map_or(0, csv::Position::line);
        if record.len() != header.len() {
            let error = format!("{} fields, but the header has {} columns", record.len(), header.len());
            return Err((line, error));
        }
        let flow = csv_flow(&record, &columns, hosts).map_err(|error| (line, error))?;
        if let Some(hash) = flow.hash
            && let Some(first) = hashes.insert((flow.src, flow.dst, hash), line)
        {
            let (src, dst) = (flow.src, flow.dst);
            let error = format!(
                "a second flow from host {src} to host {dst} has the hash {hash}, as line {first}; give each flow \
                 between the same hosts another hash"
            );
            return Err((line, error));
        }
        flows.push(flow);
    }
    Ok(flows)
}

/// The position of each of [`COLUMNS`] in the header line of a CSV file; `None` for an optional column that is missing.
fn find_columns(header: &csv::StringRecord) -> Result<[Option<usize>; COLUMNS.len()], String> {
    let unknown: Vec<String> =
        header.iter().filter(|name| !COLUMNS.contains(name)).map(|name| format!("`{name}`")).collect();
    let required = "start_us, src, dst and bytes are required, request, measured and hash optional";
    if !unknown.is_empty() {
        return Err(format!("unknown column {}; {required}", unknown.join(", ")));
    }
    let places = COLUMNS.map(|column| header.iter().position(|name| name == column));
    if let Some(missing) = (0..4).find(|&column| places[column].is_none()) {
        return Err(format!("column `{}` is missing; {required}", COLUMNS[missing]));
    }
    if let Some(twice) = COLUMNS.iter().find(|column| header.iter().filter(|name| name == *column).count() > 1) {
        return Err(format!("column `{twice}` is there twice; once is enough"));
    }
    Ok(places)
}

fn csv_flow(
    record: &csv::StringRecord, columns: &[Option<usize>; COLUMNS.len()], hosts: Hosts<'_>,
) -> Result<FlowSpec, String> {
    let field = |column: usize| columns[column].and_then(|place| record.get(place)).unwrap_or("");
    let start = decimal::parse(field(0), MICROSECONDS).map_err(|error| format!("start_us {error}"))?;
    let flow = flow([field(1), field(2), field(3)], start, hosts)?;
    let request = match field(4) {
        "" => FlowSpec::NO_REQUEST,
        text => number("request", text, u64::from(FlowSpec::NO_REQUEST) - 2)? as u32,
    };
    let measured = match field(5) {
        "" | "1" => true,
        "0" => false,
        text => return Err(format!("measured `{text}` is not 1 or 0")),
    };
    let hash = match field(6) {
        "" => None,
        text => Some(number("hash", text, u32::MAX.into())? as u32),
    };
    Ok(FlowSpec { request, measured, hash, ..flow })
}

fn read_hpcc(content: &str, hosts: Hosts<'_>) -> Result<Vec<FlowSpec>, AtLine> {
    let mut lines = (1..).zip(content.lines()).map(|(number, line)| (number, line.trim()));
    let announced = match lines.next() {
        Some((line, text)) if text.contains(',') => {
            let error = format!(
                "number of flows `{text}` is not a whole number, and looks like a line of CSV; write \
                 `format = \"csv\"`, or use a file whose name ends in .csv"
            );
            return Err((line, error));
        }
        Some((line, text)) => number("number of flows", text, u64::MAX).map_err(|error| (line, error))?,
        None => {
            return Err((1, "the file is empty; its first line is the number of flows".to_string()));
        }
    };
    let mut flows = Vec::new();
    let mut last_line = 1;
    for (line, text) in lines.filter(|(_, text)| !text.is_empty()) {
        let fields: Vec<&str> = text.split_whitespace().collect();
        if flows.len() as u64 == announced {
            break;
        }
        flows.push(hpcc_flow(&fields, text, hosts).map_err(|error| (line, error))?);
        last_line = line;
    }
    if (flows.len() as u64) < announced {
        return Err((last_line, format!("{announced} flows are announced, but the file ends after {}", flows.len())));
    }
    Ok(flows)
}

fn hpcc_flow(fields: &[&str], line: &str, hosts: Hosts<'_>) -> Result<FlowSpec, String> {
    let (src, dst, bytes, start) = match *fields {
        [src, dst, _, _, bytes, start] => (src, dst, bytes, start),
        [src, dst, _, bytes, start] if start.contains(['.', 'e', 'E']) => (src, dst, bytes, start),
        _ => {
            return Err(format!(
                "`{line}` is not a flow; write source, destination, priority, port, bytes and start in seconds, \
                 for example `0 5 3 100 1000000 2.000001`"
            ));
        }
    };
    for (name, text) in [("priority", fields[2]), ("port", if fields.len() == 6 { fields[3] } else { "0" })] {
        number(name, text, u64::MAX)?;
    }
    let start = decimal::parse(start, SECONDS).map_err(|error| format!("start {error}"))?;
    flow([src, dst, bytes], start, hosts)
}

/// Makes a flow from its start time and the texts of its fields `src`, `dst` and `bytes`.
pub(super) fn flow([src, dst, bytes]: [&str; 3], start: Time, hosts: Hosts<'_>) -> Result<FlowSpec, String> {
    let (src, dst) = (host("src", src, hosts)?, host("dst", dst, hosts)?);
    if src == dst {
        return Err(format!("a flow from host {src} to itself; src and dst must differ"));
    }
    let bytes = number("bytes", bytes, u64::MAX)?;
    if bytes == 0 {
        return Err("bytes is 0; a flow has at least 1".to_string());
    }
    if bytes > LARGEST_FLOW.0 {
        return Err(format!("bytes is {bytes}; a flow has at most 1000 TB"));
    }
    if start > LATEST_START {
        return Err(format!("start {start} is too late; a flow starts within the first 30 days"));
    }
    Ok(FlowSpec { start, src, dst, bytes, request: FlowSpec::NO_REQUEST, traffic: 0, measured: true, hash: None })
}

/// Parses the number of a host, and returns the host's index; `name` is the field's name for the error.
fn host(name: &str, text: &str, hosts: Hosts<'_>) -> Result<u32, String> {
    let host = number(name, text, u64::MAX)?;
    let index = match hosts {
        Hosts::Count(count) => u32::try_from(host).ok().filter(|host| *host < count),
        Hosts::Numbered(numbers) => {
            let found = u32::try_from(host).ok().and_then(|host| numbers.binary_search(&host).ok());
            found.map(|index| index as u32)
        }
    };
    index.ok_or_else(|| match hosts {
        Hosts::Count(count) => format!("{name} is host {host}, but there are {count} hosts, numbered from 0"),
        Hosts::Numbered(_) => format!("{name} is node {host}, which is no host of the topology file"),
    })
}

/// Parses a whole number from 0 to `largest`; `name` is the field's name for the error.
pub(super) fn number(name: &str, text: &str, largest: u64) -> Result<u64, String> {
    let value = text.parse().ok().filter(|&value| value <= largest);
    value.ok_or_else(|| format!("{name} `{text}` is not a whole number from 0 to {largest}"))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::format::{FlowExport, write_flows};
    use proptest::prelude::*;

    /// Writes `content` to a file `f` and reads this file as a flow list.
    fn read(format: ListFormat, content: &str) -> Result<Vec<FlowSpec>, String> {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("f");
        std::fs::write(&path, content).unwrap();
        read_flow_list(&path, format, 6).map_err(|error| error.replace(&path.display().to_string(), "f"))
    }

    fn flow_at(ps: u64, src: u32, dst: u32, bytes: u64) -> FlowSpec {
        let (start, request) = (Time::from_ps(ps), FlowSpec::NO_REQUEST);
        FlowSpec { start, src, dst, bytes, request, traffic: 0, measured: true, hash: None }
    }

    #[test]
    fn csv_columns_come_in_any_order() {
        let content = "# mine\ndst, bytes ,start_us,src,request\n1,500,2.5,0,\n0,1,0.000001,5,3\n";
        let expected = vec![FlowSpec { request: 3, ..flow_at(1, 5, 0, 1) }, flow_at(2_500_000, 0, 1, 500)];
        assert_eq!(read(ListFormat::Csv, content), Ok(expected));
    }

    #[test]
    fn hpcc_files_of_both_generations_are_understood() {
        let expected = Ok(vec![flow_at(2_000_000_000_000, 2, 1, 200), flow_at(2_000_000_001_000, 0, 1, 7)]);
        let six = "2 \n2 1 3 100 200 2\n0 1 3 100 7 2.000000001\n\nFirst line: # of flows\n";
        let five = "2\n2 1 3 200 2.0\n0 1 3 7 2.000000001\n";
        assert_eq!(read(ListFormat::Hpcc, six), expected);
        assert_eq!(read(ListFormat::Hpcc, five), expected);
    }

    #[test]
    fn a_lower_number_switches_flows_off() {
        let content = "2\n2 1 3 100 200000 2\n3 1 3 100 200000 2\n4 1 3 100 150000 2\n5 1 3 100 5000 2\n";
        let two_seconds = 2_000_000_000_000;
        let expected = vec![flow_at(two_seconds, 2, 1, 200_000), flow_at(two_seconds, 3, 1, 200_000)];
        assert_eq!(read(ListFormat::Hpcc, content), Ok(expected));
    }

    #[test]
    fn starts_may_be_in_scientific_notation() {
        let expected = |list: &[u64]| {
            let flow = |(src, us): (u32, &u64)| flow_at(us * 1_000_000, src, 3, 1_000);
            Ok((0..).zip(list).map(flow).collect::<Vec<_>>())
        };
        let six = "3\n0 3 3 100 1000 5e-06\n1 3 3 100 1000 1.3e-05\n2 3 3 100 1000 2.0e+00\n";
        assert_eq!(read(ListFormat::Hpcc, six), expected(&[5, 13, 2_000_000]));
        assert_eq!(read(ListFormat::Hpcc, "1\n0 3 3 1000 5e-06\n"), expected(&[5]));
        assert_eq!(read(ListFormat::Csv, "start_us,src,dst,bytes\n5e0,0,3,1000\n"), expected(&[5]));
    }

    #[test]
    fn hosts_of_a_topology_file_keep_their_numbers() {
        let read = |format, content| parse(content, Path::new("f"), format, Hosts::Numbered(&[1, 2, 7]));
        let expected = Ok(vec![flow_at(0, 2, 0, 5)]);
        assert_eq!(read(ListFormat::Hpcc, "1\n7 1 3 100 5 0\n"), expected);
        // The other formats number the hosts themselves.
        assert_eq!(read(ListFormat::Csv, "start_us,src,dst,bytes\n0,2,0,5\n"), expected);
        assert_eq!(read(ListFormat::Htsim, "Connections 1\n2->0 start 0 size 5\n"), expected);
        let error = "f:2: dst is node 0, which is no host of the topology file";
        assert_eq!(read(ListFormat::Hpcc, "1\n7 0 3 100 5 0\n"), Err(error.to_string()));
    }

    #[test]
    fn the_format_follows_from_name_and_content() {
        for (name, content, format) in [
            ("a.csv", "", ListFormat::Csv),
            ("flows", "# mine\nstart_us,src,dst,bytes\n", ListFormat::Csv),
            ("flows", "0,1,2,3\n", ListFormat::Csv),
            ("flow.txt", "2\n0 1 3 100 5 2\n", ListFormat::Hpcc),
            ("flow.txt", "", ListFormat::Hpcc),
            ("perm.cm", "\n# from a script\nNodes 16\nConnections 1\n", ListFormat::Htsim),
            ("perm.cm", "0->1 start 0 size 5\n", ListFormat::Htsim),
            ("b.cm", "trigger id 1 oneshot\n", ListFormat::Htsim),
        ] {
            assert_eq!(ListFormat::guess(Path::new(name), content), format, "{name} {content}");
        }
    }

    #[test]
    fn bad_csv_files_say_where_and_what() {
        let required = "start_us, src, dst and bytes are required, request, measured and hash optional";
        for (content, error) in [
            ("", format!("f:1: column `start_us` is missing; {required}")),
            ("start_us,src,dst\n", format!("f:1: column `bytes` is missing; {required}")),
            ("start_us,src,dst,bytes,size,color\n", format!("f:1: unknown column `size`, `color`; {required}")),
            ("start_us,src,dst,bytes,src\n", "f:1: column `src` is there twice; once is enough".into()),
            ("start_us,src,dst,bytes\n", "f: has no flows; give at least one".into()),
            ("start_us,src,dst,bytes\n0,0,1\n", "f:2: 3 fields, but the header has 4 columns".into()),
            (
                "start_us,src,dst,bytes\n0,0,1,1\n0,2,2,1\n",
                "f:3: a flow from host 2 to itself; src and dst must differ".into(),
            ),
            ("start_us,src,dst,bytes\n0,0,6,1\n", "f:2: dst is host 6, but there are 6 hosts, numbered from 0".into()),
            (
                "start_us,src,dst,bytes\n0,h0,1,1\n",
                "f:2: src `h0` is not a whole number from 0 to 18446744073709551615".into(),
            ),
            ("start_us,src,dst,bytes\n0,0,1,0\n", "f:2: bytes is 0; a flow has at least 1".into()),
            ("start_us,src,dst,bytes\n-3,0,1,1\n", "f:2: start_us `-3` is negative; times count from 0".into()),
            (
                "start_us,src,dst,bytes\nsoon,0,1,1\n",
                "f:2: start_us `soon` is not a number; write for example 12.5".into(),
            ),
            (
                "start_us,src,dst,bytes,request\n0,0,1,1,x\n",
                "f:2: request `x` is not a whole number from 0 to 4294967293".into(),
            ),
            ("start_us,src,dst,bytes,measured\n0,0,1,1,yes\n", "f:2: measured `yes` is not 1 or 0".into()),
            (
                "start_us,src,dst,bytes,hash\n0,0,1,1,4294967296\n",
                "f:2: hash `4294967296` is not a whole number from 0 to 4294967295".into(),
            ),
            (
                "start_us,src,dst,bytes,hash\n0,0,1,1,7\n0,0,2,1,7\n5,0,1,1,7\n",
                "f:4: a second flow from host 0 to host 1 has the hash 7, as line 2; give each flow between the same \
                 hosts another hash"
                    .into(),
            ),
        ] {
            assert_eq!(read(ListFormat::Csv, content), Err(error), "{content}");
        }
    }

    #[test]
    fn bad_hpcc_files_say_where_and_what() {
        let form = "is not a flow; write source, destination, priority, port, bytes and start in seconds, \
                    for example `0 5 3 100 1000000 2.000001`";
        for (content, error) in [
            ("", "f:1: the file is empty; its first line is the number of flows".into()),
            ("0\n", "f: has no flows; give at least one".into()),
            (
                "start_us,src,dst,bytes\n0,0,1,1\n",
                "f:1: number of flows `start_us,src,dst,bytes` is not a whole number, and looks like a line of CSV; \
                 write `format = \"csv\"`, or use a file whose name ends in .csv"
                    .into(),
            ),
            ("two\n", "f:1: number of flows `two` is not a whole number from 0 to 18446744073709551615".into()),
            ("1\n0 1 3 100 5000\n", format!("f:2: `0 1 3 100 5000` {form}")),
            ("2\n0 1 3 100 5 2\n", "f:2: 2 flows are announced, but the file ends after 1".into()),
            ("1\n0 0 3 100 5 2\n", "f:2: a flow from host 0 to itself; src and dst must differ".into()),
            ("1\n9 0 3 100 5 2\n", "f:2: src is host 9, but there are 6 hosts, numbered from 0".into()),
            ("1\n1 0 3 100 0 2\n", "f:2: bytes is 0; a flow has at least 1".into()),
            ("1\n1 0 3 100 5 -2\n", "f:2: start `-2` is negative; times count from 0".into()),
            ("1\n1 0 3 100 1000000000000001 2\n", "f:2: bytes is 1000000000000001; a flow has at most 1000 TB".into()),
            (
                "1\n1 0 3 100 5 2592000.1\n",
                "f:2: start 2592000.1 s is too late; a flow starts within the first 30 days".into(),
            ),
        ] {
            assert_eq!(read(ListFormat::Hpcc, content), Err(error), "{content}");
        }
        assert!(read(ListFormat::Hpcc, "1\n1 0 3 100 1000000000000000 2592000\n").is_ok(), "both at their limits");
    }

    #[test]
    fn a_missing_file_is_said() {
        let error = read_flow_list(Path::new("no-such-file.csv"), ListFormat::Csv, 6).unwrap_err();
        assert_eq!(error, "no-such-file.csv: this flow list does not exist");
    }

    fn any_flows() -> impl Strategy<Value = Vec<FlowSpec>> {
        let (latest, largest) = (LATEST_START.as_ps(), LARGEST_FLOW.0);
        let optional = (proptest::option::of(0..u32::MAX - 2), any::<bool>(), proptest::option::of(any::<u32>()));
        let flow = (0..=latest, 0u32..6, 1u32..6, 1..=largest, optional);
        let flow = flow.prop_map(|(ps, src, step, bytes, (request, measured, hash))| {
            let request = request.unwrap_or(FlowSpec::NO_REQUEST);
            FlowSpec { request, measured, hash, ..flow_at(ps, src, (src + step) % 6, bytes) }
        });
        proptest::collection::vec(flow, 1..20).prop_map(|mut flows| {
            flows.sort_by_key(|flow| (flow.start, flow.src));
            flows
        })
    }

    fn written(format: FlowExport, flows: &[FlowSpec]) -> String {
        let mut out = Vec::new();
        write_flows(&mut out, format, flows.iter().copied(), 6, flows.len() as u64).unwrap();
        String::from_utf8(out).unwrap()
    }

    proptest! {
        #[test]
        fn csv_comes_back_as_it_was(flows in any_flows()) {
            let hash = flows.iter().any(|flow| flow.hash.is_some());
            prop_assert_eq!(read(ListFormat::Csv, &written(FlowExport::Csv { hash }, &flows)), Ok(flows));
        }

        /// HPCC and ConWeave files have no requests, and no flows of more than 2^32 - 1 bytes.
        #[test]
        fn ns3_files_come_back_but_for_requests(mut flows in any_flows(), conweave: bool) {
            for flow in &mut flows {
                (flow.request, flow.measured, flow.hash) = (FlowSpec::NO_REQUEST, true, None);
                flow.bytes = flow.bytes.min(u64::from(u32::MAX));
            }
            let format = if conweave { FlowExport::Conweave } else { FlowExport::Hpcc };
            prop_assert_eq!(read(ListFormat::Hpcc, &written(format, &flows)), Ok(flows));
        }

        #[test]
        fn arbitrary_text_never_panics(content in "[0-9 .,\n-]{0,60}", header: bool) {
            let header = if header { "start_us,src,dst,bytes\n" } else { "" };
            let _ = read_csv(&format!("{header}{content}"), Hosts::Count(6));
            let _ = read_hpcc(&content, Hosts::Count(6));
        }
    }
}
