//! Writes flow lists in four formats: CSV, the flow files of the HPCC simulator and of its fork for ConWeave, and the
//! connection matrix of htsim.
//!
//! The CSV format of flow lists has the columns `start_us` (microseconds, exact to the picosecond), `src`, `dst`,
//! `bytes`, `request` (empty for a flow that belongs to no incast request), `measured` (1 or 0: whether the flow counts
//! in the statistics) and, if wanted, `hash` (empty for a flow whose hash depends on its start).
//! [`read_flow_list`](super::read_flow_list) reads CSV, the HPCC file and the ConWeave file. Only CSV contains
//! `request`, `measured` and `hash`.

use super::decimal::{self, MICROSECONDS, SECONDS};
use rnic_spec::FlowSpec;
use std::io::{self, ErrorKind, Write};

/// File formats in which a flow list can be written.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum FlowExport {
    /// Comma-separated values with a header line.
    Csv {
        /// Whether the file has the column `hash`.
        hash: bool,
    },
    /// The flow file of the HPCC simulator (ns-3): the number of flows, then one line
    /// `src dst priority port bytes seconds` per flow.
    Hpcc,
    /// The flow file of the simulator of ConWeave (ns-3), a fork of the HPCC simulator: the number of flows, then one
    /// line `src dst priority bytes seconds` per flow.
    Conweave,
    /// The connection matrix of htsim: the numbers of nodes and connections, then one line
    /// `src->dst id N start PICOSECONDS size BYTES` per flow.
    ///
    /// htsim reads the start of a flow as a 32-bit floating-point number, so it keeps about seven digits.
    Htsim,
}

/// Priority and destination port of each flow in the HPCC file: the values that the traffic generator of the HPCC
/// simulator writes.
const HPCC_CLASS: &str = "3 100";

/// Priority of each flow in the ConWeave file: the value that the traffic generator of this simulator writes.
const CONWEAVE_CLASS: &str = "3";

/// Writes a list of `total` flows (`flows`) in `format`, for a network with `hosts` hosts.
///
/// # Errors
/// Errors of `out`; `InvalidInput` if the format cannot represent a flow; `InvalidData` if the number of flows is not
/// `total`.
pub fn write_flows(
    out: &mut dyn Write, format: FlowExport, flows: impl Iterator<Item = FlowSpec>, hosts: u32, total: u64,
) -> io::Result<()> {
    match format {
        FlowExport::Csv { hash: false } => writeln!(out, "start_us,src,dst,bytes,request,measured")?,
        FlowExport::Csv { hash: true } => writeln!(out, "start_us,src,dst,bytes,request,measured,hash")?,
        FlowExport::Hpcc | FlowExport::Conweave => writeln!(out, "{total}")?,
        FlowExport::Htsim => {
            htsim_integer("number of hosts", u64::from(hosts))?;
            htsim_integer("number of flows", total)?;
            writeln!(out, "Nodes {hosts}\nConnections {total}")?;
        }
    }
    let mut written = 0;
    for flow in flows {
        written += 1;
        match format {
            FlowExport::Csv { hash } => write_csv(out, &flow, hash)?,
            FlowExport::Hpcc => write_ns3(out, &flow, HPCC_CLASS)?,
            FlowExport::Conweave => write_ns3(out, &flow, CONWEAVE_CLASS)?,
            FlowExport::Htsim => write_htsim(out, &flow, written)?,
        }
    }
    if written != total {
        let error = format!("{total} flows were announced, {written} came; the file is not usable");
        return Err(io::Error::new(ErrorKind::InvalidData, error));
    }
    Ok(())
}

fn write_csv(out: &mut dyn Write, flow: &FlowSpec, with_hash: bool) -> io::Result<()> {
    let FlowSpec { src, dst, bytes, .. } = flow;
    let start = decimal::format(flow.start, MICROSECONDS, 0);
    let measured = u8::from(flow.measured);
    match flow.request {
        FlowSpec::NO_REQUEST => write!(out, "{start},{src},{dst},{bytes},,{measured}")?,
        request => write!(out, "{start},{src},{dst},{bytes},{request},{measured}")?,
    }
    match flow.hash.filter(|_| with_hash) {
        Some(hash) => writeln!(out, ",{hash}"),
        None if with_hash => writeln!(out, ","),
        None => writeln!(out),
    }
}

/// Writes the line of one flow for the HPCC simulator or a fork of it. `class` are the fields between the destination
/// and the size. These simulators read the size as an unsigned 32-bit integer, and no flow after a larger one.
fn write_ns3(out: &mut dyn Write, flow: &FlowSpec, class: &str) -> io::Result<()> {
    let FlowSpec { src, dst, bytes, .. } = flow;
    if *bytes > u64::from(u32::MAX) {
        let error = format!(
            "the size of a flow in bytes is {bytes}; the HPCC simulator and its forks read at most {}",
            u32::MAX
        );
        return Err(io::Error::new(ErrorKind::InvalidInput, error));
    }
    writeln!(out, "{src} {dst} {class} {bytes} {}", decimal::format(flow.start, SECONDS, 9))
}

/// Writes the line of one flow in htsim's connection matrix. `id` counts from 1, because htsim refuses 0.
fn write_htsim(out: &mut dyn Write, flow: &FlowSpec, id: u64) -> io::Result<()> {
    let FlowSpec { src, dst, bytes, .. } = flow;
    htsim_integer("size of a flow in bytes", *bytes)?;
    writeln!(out, "{src}->{dst} id {id} start {} size {bytes}", flow.start.as_ps())
}

/// Checks that htsim can read the integer `value`: it reads signed 32-bit integers and stops at larger ones.
fn htsim_integer(what: &str, value: u64) -> io::Result<()> {
    if value > i32::MAX as u64 {
        let error = format!("the {what} is {value}; htsim reads at most {}", i32::MAX);
        return Err(io::Error::new(ErrorKind::InvalidInput, error));
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;
    use rnic_transport::Time;

    fn flows() -> Vec<FlowSpec> {
        let flow = FlowSpec {
            start: Time::from_ps(12_500_000),
            src: 0,
            dst: 5,
            bytes: 1_000_000,
            request: FlowSpec::NO_REQUEST,
            traffic: 0,
            measured: true,
            hash: Some(9),
        };
        vec![
            flow,
            FlowSpec {
                start: Time::from_ps(13_000_001),
                src: 3,
                dst: 1,
                bytes: 1,
                request: 7,
                measured: false,
                hash: None,
                ..flow
            },
        ]
    }

    fn written(format: FlowExport) -> String {
        let mut out = Vec::new();
        write_flows(&mut out, format, flows().into_iter(), 6, 2).unwrap();
        String::from_utf8(out).unwrap()
    }

    #[test]
    fn each_format_is_as_its_tool_reads_it() {
        assert_eq!(
            written(FlowExport::Csv { hash: false }),
            "start_us,src,dst,bytes,request,measured\n12.5,0,5,1000000,,1\n13.000001,3,1,1,7,0\n"
        );
        assert_eq!(
            written(FlowExport::Csv { hash: true }),
            "start_us,src,dst,bytes,request,measured,hash\n12.5,0,5,1000000,,1,9\n13.000001,3,1,1,7,0,\n"
        );
        assert_eq!(written(FlowExport::Hpcc), "2\n0 5 3 100 1000000 0.000012500\n3 1 3 100 1 0.000013000001\n");
        assert_eq!(written(FlowExport::Conweave), "2\n0 5 3 1000000 0.000012500\n3 1 3 1 0.000013000001\n");
        assert_eq!(
            written(FlowExport::Htsim),
            "Nodes 6\nConnections 2\n0->5 id 1 start 12500000 size 1000000\n3->1 id 2 start 13000001 size 1\n"
        );
    }

    #[test]
    fn what_cannot_be_written_is_an_error() {
        let write = |format, flows: Vec<FlowSpec>, total| {
            write_flows(&mut Vec::new(), format, flows.into_iter(), 6, total).unwrap_err().to_string()
        };
        let large = vec![FlowSpec { bytes: 1 << 31, ..flows()[0] }];
        let error = "the size of a flow in bytes is 2147483648; htsim reads at most 2147483647";
        assert_eq!(write(FlowExport::Htsim, large, 1), error);
        let large = vec![FlowSpec { bytes: 1 << 32, ..flows()[0] }];
        let error =
            "the size of a flow in bytes is 4294967296; the HPCC simulator and its forks read at most 4294967295";
        assert_eq!(write(FlowExport::Hpcc, large.clone(), 1), error);
        assert_eq!(write(FlowExport::Conweave, large, 1), error);
        let error = "3 flows were announced, 2 came; the file is not usable";
        assert_eq!(write(FlowExport::Hpcc, flows(), 3), error);
    }
}
