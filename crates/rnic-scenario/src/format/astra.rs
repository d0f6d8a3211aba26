//! Reads network files of ASTRA-sim's analytical network (`network.yml`): for each dimension a topology, a number of
//! NPUs, a bandwidth in GB/s (10^9 bytes per second), and a latency of a link in nanoseconds.
//!
//! ASTRA-sim gives each NPU a port in each dimension. A host of rnic has one link, so a file may have at most two
//! dimensions: the first one of two is inside a server, and the last one is the fabric. Both are switches, because the
//! other topologies need several ports of an NPU in one dimension. A message crosses two links of a switch.

use super::decimal;
use super::list::{AtLine, number};
use super::server::ServerShape;
use super::topology::{Graph, Link, Node};
use rnic_spec::settings::MAX_HOSTS;
use rnic_transport::settings::{Kind, Value};
use rnic_transport::{BitRate, Time};
use std::collections::BTreeMap;

/// Keys of a file.
const KEYS: [&str; 4] = ["topology", "npus_count", "bandwidth", "latency"];

/// Whether a file of ASTRA-sim may begin with this line.
pub(super) fn is_first(line: &str) -> bool {
    line.split_once(':').is_some_and(|(key, _)| KEYS.contains(&key.trim()))
}

/// A dimension of the network: a switch.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
struct Dimension {
    npus: u32,
    rate: BitRate,
    /// Latency of a link.
    latency: Time,
}

/// The values of the keys, each with the line of the key.
fn lists(content: &str) -> Result<BTreeMap<&str, (u64, Vec<&str>)>, AtLine> {
    let mut lists: BTreeMap<&str, (u64, Vec<&str>)> = BTreeMap::new();
    let mut current: Option<&str> = None;
    for (line, text) in (1..).zip(content.lines()) {
        let text = text.split('#').next().unwrap_or("").trim();
        if text.is_empty() || text == "---" {
            continue;
        }
        let wrong =
            |what: &str| (line, format!("`{}` {what}; write for example `npus_count: [ 8, 4 ]`", text.escape_debug()));
        if let Some(value) = text.strip_prefix("- ") {
            let list = current.and_then(|key| lists.get_mut(key)).ok_or_else(|| wrong("belongs to no key"))?;
            list.1.push(value.trim());
            continue;
        }
        let (key, value) = text.split_once(':').ok_or_else(|| wrong("is not a key with a list"))?;
        let (key, value) = (key.trim(), value.trim());
        if !KEYS.contains(&key) {
            return Err((line, format!("unknown key `{}`; accepted: {}", key.escape_debug(), KEYS.join(", "))));
        }
        let values = match (value.strip_prefix('[').and_then(|rest| rest.strip_suffix(']')), value) {
            (Some(inner), _) => inner.split(',').map(str::trim).filter(|value| !value.is_empty()).collect(),
            (None, "") => Vec::new(),
            (None, _) => return Err(wrong("is not a list")),
        };
        if let Some((first, _)) = lists.insert(key, (line, values)) {
            return Err((line, format!("`{key}` is there twice, first on line {first}; once is enough")));
        }
        current = Some(key);
    }
    Ok(lists)
}

/// The dimensions of a file.
fn dimensions(content: &str) -> Result<Vec<Dimension>, AtLine> {
    let lists = lists(content)?;
    let list =
        |key: &str| lists.get(key).ok_or_else(|| (0, format!("`{key}` is missing; write a value for each dimension")));
    let (line, topologies) = list("topology")?;
    let count = topologies.len();
    if !(1..=2).contains(&count) {
        let error = format!("the file has {count} dimensions; accepted: 1, or 2 of which the first is inside a server");
        return Err((*line, error));
    }
    for key in KEYS {
        let (line, values) = list(key)?;
        if values.len() != count {
            return Err((
                *line,
                format!("`{key}` has {} values for {count} dimensions; accepted: one for each", values.len()),
            ));
        }
    }
    let values = |key: &str| list(key).map(|(line, values)| (*line, values.as_slice()));
    let (npus, bandwidth, latency) = (values("npus_count")?, values("bandwidth")?, values("latency")?);
    let dimension = |index: usize| {
        let max = u64::from(MAX_HOSTS);
        let own = number("npus_count", npus.1[index], max).map_err(|error| (npus.0, error))?;
        if own < 2 {
            return Err((npus.0, format!("`npus_count` is {own}; accepted: 2 to {max}")));
        }
        check_kind(topologies[index], own).map_err(|error| (*line, error))?;
        // A gigabyte has 8 x 10^9 bits.
        let rate = decimal::scaled(bandwidth.1[index], 9, true).ok().and_then(|bytes| bytes.checked_mul(8));
        let rate = rate.map(BitRate::from_bps).filter(|rate| Kind::Rate.accepts(&Value::Rate(*rate)));
        let wrong = |key: &str, text: &str, kind: Kind| {
            format!("`{key}` is `{}`; accepted: {}", text.escape_debug(), kind.range())
        };
        let rate = rate.ok_or_else(|| {
            (bandwidth.0, wrong("bandwidth", bandwidth.1[index], Kind::Rate) + ", in GB/s (1 GB/s is 8 Gbps)")
        })?;
        let time = decimal::scaled(latency.1[index], 3, true).ok().map(Time::from_ps);
        let time = time.filter(|time| Kind::Time.accepts(&Value::Time(*time)));
        let time = time.ok_or_else(|| (latency.0, wrong("latency", latency.1[index], Kind::Time) + ", in ns"))?;
        Ok(Dimension { npus: own as u32, rate, latency: time })
    };
    (0..count).map(dimension).collect()
}

/// Checks that a dimension is a switch.
fn check_kind(kind: &str, npus: u64) -> Result<(), String> {
    match kind.trim_matches(['"', '\'']) {
        "Switch" => Ok(()),
        kind @ ("Ring" | "FullyConnected") => Err(format!(
            "the topology {kind} of {npus} NPUs needs several ports of an NPU, and in rnic each has one port; accepted: Switch"
        )),
        other => Err(format!("the topology `{}` is unknown; accepted: Switch", other.escape_debug())),
    }
}

/// Reads the fabric: a switch with a host for each NPU of all dimensions; its links are those of the last dimension.
pub(super) fn read(content: &str) -> Result<(Graph, Vec<u32>), AtLine> {
    let dimensions = dimensions(content)?;
    let hosts = dimensions.iter().map(|dimension| u64::from(dimension.npus)).product::<u64>();
    if hosts > u64::from(MAX_HOSTS) {
        return Err((0, format!("the file has {hosts} NPUs; accepted: at most {MAX_HOSTS}")));
    }
    let hosts = hosts as u32;
    let Dimension { rate, latency: delay, .. } = dimensions[dimensions.len() - 1];
    let host = |number| Node { name: format!("h{number}"), is_switch: false };
    let switch = Node { name: "s0".to_string(), is_switch: true };
    let nodes = (0..hosts).map(host).chain([switch]).collect();
    let links = (0..hosts).map(|host| Link { ends: [host, hosts], rate, delay, loss: 0.0 }).collect();
    Ok((Graph { nodes, links }, (0..hosts).collect()))
}

/// Reads the server: the first of two dimensions.
pub(super) fn server(content: &str) -> Result<ServerShape, AtLine> {
    let dimensions = dimensions(content)?;
    let [Dimension { npus, rate, latency }, last] = dimensions[..] else {
        return Err((0, "the file has 1 dimension; a server is the first of 2 dimensions".to_string()));
    };
    // A message crosses a link to the switch, and one from it.
    let latency = Some(latency.saturating_add(latency));
    Ok(ServerShape { accelerators: npus, nics: (0..npus).collect(), rate: Some(rate), latency, speed: Some(last.rate) })
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    const TWO: &str = "# servers of 8\ntopology: [ Switch, Switch ]\nnpus_count: [ 8, 4 ]\nbandwidth: [ 400.0, 50 ]  # GB/s\n\
                       latency: [ 936.25, 500.0 ]  # ns\n";

    #[test]
    fn two_dimensions_are_servers_and_a_fabric() {
        let (graph, numbers) = read(TWO).unwrap();
        assert_eq!((graph.nodes.len(), graph.links.len(), numbers.len()), (33, 32, 32));
        let expected = Link { ends: [5, 32], rate: BitRate::from_gbps(400), delay: Time::from_ns(500), loss: 0.0 };
        assert_eq!(graph.links[5], expected);
        let server = server(TWO).unwrap();
        assert_eq!((server.accelerators, server.rate), (8, Some(BitRate::from_gbps(3_200))));
        assert_eq!((server.latency, server.speed), (Some(Time::from_ps(1_872_500)), Some(BitRate::from_gbps(400))));
        // Lists of lines mean the same.
        let lines = "topology:\n  - Switch\nnpus_count:\n  - 4\nbandwidth: [ 50 ]\nlatency:\n  - 500\n";
        assert_eq!(read(lines).unwrap().0.links.len(), 4);
    }

    #[test]
    fn what_has_no_meaning_is_refused() {
        let error = |from: &str, to: &str| read(&TWO.replacen(from, to, 1)).unwrap_err();
        for (from, to, line, message) in [
            (
                "Switch, Switch",
                "Switch, Ring",
                2,
                "the topology Ring of 4 NPUs needs several ports of an NPU, and in rnic each has one port; accepted: Switch",
            ),
            ("Switch, Switch", "Switch, Torus", 2, "the topology `Torus` is unknown; accepted: Switch"),
            (
                "Switch, Switch",
                "Switch, Switch, Switch",
                2,
                "the file has 3 dimensions; accepted: 1, or 2 of which the first is inside a server",
            ),
            ("8, 4", "8", 3, "`npus_count` has 1 values for 2 dimensions; accepted: one for each"),
            ("8, 4", "8, 1", 3, "`npus_count` is 1; accepted: 2 to 1000000"),
            ("8, 4", "8, x", 3, "npus_count `x` is not a whole number from 0 to 1000000"),
            ("8, 4", "100000, 100000", 0, "the file has 10000000000 NPUs; accepted: at most 1000000"),
            (
                "50 ]",
                "0 ]",
                4,
                "`bandwidth` is `0`; accepted: more than zero, at most 10 Tbps, in GB/s (1 GB/s is 8 Gbps)",
            ),
            ("500.0", "0", 5, "`latency` is `0`; accepted: more than zero, at most 30 days, in ns"),
            ("latency:", "delay:", 5, "unknown key `delay`; accepted: topology, npus_count, bandwidth, latency"),
            ("latency:", "bandwidth:", 5, "`bandwidth` is there twice, first on line 4; once is enough"),
            ("[ 8, 4 ]", "8", 3, "`npus_count: 8` is not a list; write for example `npus_count: [ 8, 4 ]`"),
        ] {
            assert_eq!(error(from, to), (line, message.to_string()), "{from} {to}");
        }
        let one = "topology: [ Switch ]\nnpus_count: [ 4 ]\nbandwidth: [ 50 ]\nlatency: [ 500 ]\n";
        assert_eq!(server(one).unwrap_err().1, "the file has 1 dimension; a server is the first of 2 dimensions");
    }

    proptest! {
        #[test]
        fn damaged_files_never_panic(changes in proptest::collection::vec((any::<u16>(), any::<u8>()), 0..6)) {
            let mut bytes = TWO.replace("8, 4", "2, 2").into_bytes();
            for (at, byte) in changes {
                let at = usize::from(at) % bytes.len();
                bytes[at] = byte;
            }
            let _ = server(&String::from_utf8_lossy(&bytes));
        }
    }
}
