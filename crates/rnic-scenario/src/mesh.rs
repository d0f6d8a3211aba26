//! Reads the meshes of probes of a scenario: `[[fabric.mesh]]`.

use super::faults;
use super::graph;
use super::reader::{Item, Result, Table};
use rnic_fabric::config::TopologySpec;
use rnic_spec::settings::MAX_MESH_PAIRS;
use rnic_spec::{Mesh, MeshPairs, StackDelay};
use rnic_transport::Time;

/// Reads every `[[fabric.mesh]]`.
pub(super) fn read(table: &Table<'_>, topology: &TopologySpec) -> Result<Vec<Mesh>> {
    table.tables("mesh")?.iter().map(|table| read_mesh(table, topology)).collect()
}

fn read_mesh(table: &Table<'_>, topology: &TopologySpec) -> Result<Mesh> {
    let (median, p99): (Option<Time>, Option<Time>) = (table.given("stack_median")?, table.given("stack_p99")?);
    table.ordered(("stack_median", median), ("stack_p99", p99), "")?;
    let stack = match (median, p99) {
        (Some(median), p99) => Some(StackDelay { median, p99: p99.unwrap_or(median) }),
        (None, None) => None,
        (None, Some(_)) => {
            return Err(table.error_at("stack_p99", "`stack_p99` needs `stack_median`", "write both, or neither"));
        }
    };
    Ok(Mesh {
        name: table.value("name")?,
        pairs: pairs(table, topology)?,
        interval: table.value("interval")?,
        start: table.value("start")?,
        payload: table.value("payload")?,
        priority: table.value("priority")?,
        window: table.value("window")?,
        rto: table.given("rto")?,
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
        let mut all = Vec::new();
        for name in item.names()? {
            for name in faults::range(item, name, topology)? {
                all.push(host(&name)?);
            }
        }
        Ok(all)
    };
    match (table.get("pairs"), table.get("from"), table.get("to")) {
        (Some(item), None, None) => Ok(MeshPairs::Random(item.typed()?)),
        (None, Some(from), Some(to)) => {
            let (probers, responders) = (hosts(&from)?, hosts(&to)?);
            let lengths = (probers.len(), responders.len());
            if lengths.0 != lengths.1 || lengths.0 == 0 || lengths.0 as u64 > MAX_MESH_PAIRS {
                let message = format!("`from` names {} hosts, `to` {}", lengths.0, lengths.1);
                return Err(to.error(message, format!("accepted: 1 to {MAX_MESH_PAIRS} hosts in both")));
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
