//! Reads connection matrices of the simulator htsim (`.cm`) as flow lists.
//!
//! The file begins with headers: `Nodes N`, `Connections N`, and perhaps `Triggers N` and `Failures N`. Each further
//! line is a connection: `src->dst`, then pairs of a word and a value, `start PICOSECONDS size BYTES` and optionally
//! `id N` and `prio N`, which rnic ignores. Empty lines and lines that begin with `#` are comments. A connection that a
//! trigger starts, and failures of links, are errors: the flows of a list start at fixed times.

use super::decimal::{self, PICOSECONDS};
use super::list::{AtLine, Hosts, flow, number};
use rnic_spec::FlowSpec;

/// The words with which the header lines of a connection matrix begin.
pub(super) const HEADERS: [&str; 4] = ["Nodes", "Connections", "Triggers", "Failures"];

/// Reads the flows of a connection matrix, for a network of `hosts` hosts.
pub(super) fn read(content: &str, hosts: u32) -> Result<Vec<FlowSpec>, AtLine> {
    let lines = (1..).zip(content.lines()).map(|(number, line)| (number, line.trim()));
    let (mut flows, mut announced) = (Vec::new(), None);
    for (line, text) in lines.filter(|(_, text)| !text.is_empty() && !text.starts_with('#')) {
        let words: Vec<&str> = text.split_whitespace().collect();
        match words[..] {
            [header, count] if HEADERS.contains(&header) => {
                let count = number(header, count, u64::MAX).map_err(|error| (line, error))?;
                check_header(header, count, hosts).map_err(|error| (line, error))?;
                if header == "Connections" {
                    announced = Some((line, count));
                }
            }
            [ends, ref rest @ ..] if ends.contains("->") => {
                flows.push(connection(ends, rest, hosts).map_err(|error| (line, error))?);
            }
            ["trigger", ..] => return Err((line, no_triggers("this line defines a trigger"))),
            ["failure", ..] => return Err((line, NO_FAILURES.to_string())),
            _ => {
                return Err((
                    line,
                    format!("`{text}` is not a connection; write for example `0->5 start 12500000 size 1000000`"),
                ));
            }
        }
    }
    match announced {
        Some((line, count)) if count != flows.len() as u64 => {
            Err((line, format!("{count} connections are announced, but the file has {}", flows.len())))
        }
        Some(_) => Ok(flows),
        None => Err((1, "there is no line `Connections N`; write the number of connections".to_string())),
    }
}

/// Checks a header line of the file.
fn check_header(header: &str, count: u64, hosts: u32) -> Result<(), String> {
    match header {
        "Nodes" if count > u64::from(hosts) => {
            Err(format!("the file is for {count} nodes; the fabric has {hosts} hosts, too few"))
        }
        "Triggers" if count > 0 => Err(no_triggers(&format!("the file has {count} triggers"))),
        "Failures" if count > 0 => Err(NO_FAILURES.to_string()),
        _ => Ok(()),
    }
}

/// The error that rnic has no triggers; `what` says where the file has one.
fn no_triggers(what: &str) -> String {
    format!("{what}, but the flows of a list start at fixed times, not when others end; give each connection a `start`")
}

const NO_FAILURES: &str =
    "a flow list has no failures of links; write `down = true` in a [[fabric.link]] of the scenario";

/// Reads a connection: `ends` are its hosts, `rest` are its further words.
fn connection(ends: &str, rest: &[&str], hosts: u32) -> Result<FlowSpec, String> {
    let (src, dst) = ends.split_once("->").unwrap_or((ends, ""));
    let (mut start, mut size) = (None, None);
    for pair in rest.chunks(2) {
        let [word, value] = *pair else {
            return Err(format!("`{}` has no value", pair.concat()));
        };
        match word {
            "start" => start = Some(value),
            "size" => size = Some(value),
            "id" | "prio" => {
                number(word, value, u64::MAX)?;
            }
            "trigger" => return Err(no_triggers(&format!("trigger {value} starts this connection"))),
            "send_done_trigger" | "recv_done_trigger" => {
                return Err(no_triggers(&format!("the end of this connection fires trigger {value}")));
            }
            _ => return Err(format!("unknown word `{word}`; accepted: start, size, id, prio")),
        }
    }
    let missing = |word: &str| format!("the connection has no `{word}`; write for example `start 0 size 1000000`");
    let start = start.ok_or_else(|| missing("start"))?;
    let start = decimal::parse(start, PICOSECONDS).map_err(|error| format!("start {error}"))?;
    flow([src, dst, size.ok_or_else(|| missing("size"))?], start, Hosts::Count(hosts))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::format::{FlowExport, ListFormat, write_flows};
    use proptest::prelude::*;
    use rnic_transport::Time;

    fn flow_at(ps: u64, src: u32, dst: u32, bytes: u64) -> FlowSpec {
        let (start, request) = (Time::from_ps(ps), FlowSpec::NO_REQUEST);
        FlowSpec { start, src, dst, bytes, request, traffic: 0, measured: true, hash: None }
    }

    #[test]
    fn connections_are_flows() {
        let content = "# a test\nNodes 4\nConnections 3\nTriggers 0\n\n0->3 start 0 size 2000000\n\
                       2->1 id 7 start 1e6 size 64 prio 3\r\n1->0 size 5 start 12500000.4 id 2\n";
        let expected = [flow_at(0, 0, 3, 2_000_000), flow_at(1_000_000, 2, 1, 64), flow_at(12_500_000, 1, 0, 5)];
        assert_eq!(read(content, 4).unwrap(), expected);
    }

    #[test]
    fn what_rnic_cannot_simulate_is_refused_by_name() {
        let fixed = "but the flows of a list start at fixed times, not when others end; give each connection a `start`";
        let header = "Nodes 4\nConnections 1\n";
        for (content, line, error) in [
            (format!("{header}0->1 id 1 trigger 3 size 5\n"), 3, format!("trigger 3 starts this connection, {fixed}")),
            (
                format!("{header}0->1 id 1 start 0 size 5 send_done_trigger 2\n"),
                3,
                format!("the end of this connection fires trigger 2, {fixed}"),
            ),
            (format!("{header}Triggers 2\n"), 3, format!("the file has 2 triggers, {fixed}")),
            (format!("{header}trigger id 1 barrier count 2\n"), 3, format!("this line defines a trigger, {fixed}")),
            (format!("{header}failure switch_type TOR switch_id 0 link_id 1\n"), 3, NO_FAILURES.to_string()),
            ("Nodes 4\nFailures 1\n".to_string(), 2, NO_FAILURES.to_string()),
        ] {
            assert_eq!(read(&content, 4), Err((line, error)), "{content}");
        }
    }

    #[test]
    fn bad_matrices_say_where_and_what() {
        for (content, line, error) in [
            ("Nodes 16\n", 1, "the file is for 16 nodes; the fabric has 4 hosts, too few"),
            ("Nodes x\n", 1, "Nodes `x` is not a whole number from 0 to 18446744073709551615"),
            ("Connections 2\n0->1 start 0 size 5\n", 1, "2 connections are announced, but the file has 1"),
            ("0->1 start 0 size 5\n", 1, "there is no line `Connections N`; write the number of connections"),
            (
                "Connections 1\n0-1 start 0\n",
                2,
                "`0-1 start 0` is not a connection; write for example `0->5 start 12500000 size 1000000`",
            ),
            (
                "Connections 1\n0->1 size 5\n",
                2,
                "the connection has no `start`; write for example `start 0 size 1000000`",
            ),
            (
                "Connections 1\n0->1 start 0\n",
                2,
                "the connection has no `size`; write for example `start 0 size 1000000`",
            ),
            ("Connections 1\n0->1 start 0 size\n", 2, "`size` has no value"),
            ("Connections 1\n0->1 start 0 color 5\n", 2, "unknown word `color`; accepted: start, size, id, prio"),
            ("Connections 1\n0->1 start -1 size 5\n", 2, "start `-1` is negative; times count from 0"),
            ("Connections 1\n0->0 start 0 size 5\n", 2, "a flow from host 0 to itself; src and dst must differ"),
            ("Connections 1\n0->4 start 0 size 5\n", 2, "dst is host 4, but there are 4 hosts, numbered from 0"),
        ] {
            assert_eq!(read(content, 4), Err((line, error.to_string())), "{content}");
        }
    }

    proptest! {
        #[test]
        fn matrices_come_back_as_they_were(
            drawn in proptest::collection::vec((0u64..1_000_000_000_000, 0u32..6, 1u32..6, 1u64..1_000_000), 1..20),
        ) {
            let flow = |(ps, src, step, bytes): (u64, u32, u32, u64)| flow_at(ps, src, (src + step) % 6, bytes);
            let mut flows: Vec<FlowSpec> = drawn.into_iter().map(flow).collect();
            flows.sort_by_key(|flow| (flow.start, flow.src));
            let mut out = Vec::new();
            write_flows(&mut out, FlowExport::Htsim, flows.iter().copied(), 6, flows.len() as u64).unwrap();
            let text = String::from_utf8(out).unwrap();
            let path = std::path::Path::new("f");
            prop_assert_eq!(crate::format::list::parse_flow_list(&text, path, ListFormat::Htsim, 6), Ok(flows));
        }

        /// Changes single bytes of a valid matrix.
        #[test]
        fn damaged_matrices_never_panic(changes in proptest::collection::vec((any::<u16>(), any::<u8>()), 0..6)) {
            let valid = "Nodes 4\nConnections 2\n0->3 id 1 start 0 size 2000\n2->1 id 2 start 1e6 size 64\n";
            let mut bytes = valid.as_bytes().to_vec();
            for (at, byte) in changes {
                let at = usize::from(at) % bytes.len();
                bytes[at] = byte;
            }
            let _ = read(&String::from_utf8_lossy(&bytes), 4);
        }
    }
}
