//! Reads the meshes of probes of a scenario: `[[fabric.mesh]]`.

use super::graph;
use super::reader::{Item, Result, Table};
use rnic_fabric::config::TopologySpec;
use rnic_run::{MAX_PAIRS, Mesh, MeshPairs, StackDelay};
use rnic_transport::{Bytes, Time};

/// The keys of `[[fabric.mesh]]`.
pub(super) const KEYS: [&str; 11] =
    ["name", "pairs", "from", "to", "interval", "start", "payload", "priority", "window", "stack_median", "stack_p99"];

/// Reads every `[[fabric.mesh]]`.
pub(super) fn read(table: &Table<'_>, topology: &TopologySpec) -> Result<Vec<Mesh>> {
    let Some(item) = table.get("mesh") else { return Ok(Vec::new()) };
    item.tables("fabric.mesh")?.into_iter().map(|table| read_mesh(&table, topology)).collect()
}

fn read_mesh(table: &Table<'_>, topology: &TopologySpec) -> Result<Mesh> {
    table.accept(&KEYS)?;
    let interval = table.require("interval", "interval = \"1 ms\"")?.positive_time("1 ms")?;
    let time = |key: &str| table.get(key).map(|item| item.positive_time("100 us")).transpose();
    let (median, p99) = (time("stack_median")?, time("stack_p99")?);
    table.ordered(("stack_median", median), ("stack_p99", p99), "")?;
    let stack = match (median, p99) {
        (Some(median), p99) => Some(StackDelay { median, p99: p99.unwrap_or(median) }),
        (None, None) => None,
        (None, Some(_)) => {
            return Err(table.error_at("stack_p99", "`stack_p99` needs `stack_median`", "write both, or neither"));
        }
    };
    Ok(Mesh {
        name: table.get("name").map_or(Ok("mesh"), |item| item.name("mesh"))?.to_string(),
        pairs: pairs(table, topology)?,
        interval,
        start: table.get("start").map_or(Ok(Time::ZERO), |item| item.time("1 ms"))?,
        payload: table.get("payload").map_or(Ok(Bytes(512)), |item| item.bytes(1..=9_000, "512 B"))?,
        priority: table.get("priority").map_or(Ok(0), |item| item.integer(0..=7))? as u8,
        window: time("window")?.unwrap_or(Time::from_ms(1)),
        stack,
    })
}

/// Reads the pairs: a number of random pairs (`pairs`), or two lists of hosts of equal length (`from` and `to`).
fn pairs(table: &Table<'_>, topology: &TopologySpec) -> Result<MeshPairs> {
    const HELP: &str = "write `pairs = 20` for random pairs, or two lists of hosts: `from = [\"h0\"]`, `to = [\"h1\"]`";
    let hosts = |item: &Item<'_>| -> Result<Vec<u32>> {
        let host = |name: &String| {
            let unknown = || item.error(format!("there is no host \"{name}\""), "name hosts of the topology");
            graph::host(topology, name).ok_or_else(unknown)
        };
        item.names("[\"h0\"]")?.iter().map(host).collect()
    };
    match (table.get("pairs"), table.get("from"), table.get("to")) {
        (Some(item), None, None) => Ok(MeshPairs::Random(item.count(MAX_PAIRS as u32)?)),
        (None, Some(from), Some(to)) => {
            let (probers, responders) = (hosts(&from)?, hosts(&to)?);
            let lengths = (probers.len(), responders.len());
            if lengths.0 != lengths.1 || lengths.0 == 0 || lengths.0 as u64 > MAX_PAIRS {
                let message = format!("`from` names {} hosts, `to` {}", lengths.0, lengths.1);
                return Err(to.error(message, format!("accepted: 1 to {MAX_PAIRS} hosts in both")));
            }
            if let Some((host, _)) = probers.iter().zip(&responders).find(|(a, b)| a == b) {
                return Err(
                    to.error(format!("host {host} would probe itself"), "name two different hosts for each pair")
                );
            }
            Ok(MeshPairs::Listed(probers.into_iter().zip(responders).collect()))
        }
        _ => Err(table.error("a mesh needs pairs of hosts", HELP)),
    }
}
