//! Reads the deliberate faults of a fabric: routes that leave the shortest paths (`[[fabric.route]]`) and pause storms
//! (`[[fabric.storm]]`).

use super::graph;
use super::reader::{Item, Result, Table};
use rnic_fabric::config::{FabricSpec, NamedRoute, Paths, SwitchSpec, TopologySpec};
use rnic_fabric::{Routes, Topology, TopologyError};
use rnic_run::{FabricSetup, Storm};
use rnic_transport::Bytes;

/// The keys of `[[fabric.route]]`.
pub(super) const ROUTE_KEYS: [&str; 3] = ["at", "to", "via"];
/// The keys of `[[fabric.storm]]`.
pub(super) const STORM_KEYS: [&str; 4] = ["host", "start", "duration", "priority"];

/// A replaced route, and the `[[fabric.route]]` table that defines it.
pub(super) type Route<'a> = (NamedRoute, Table<'a>);

/// Reads every `[[fabric.route]]`. [`check_routes`] later checks that the named nodes exist.
pub(super) fn read_routes<'a>(table: &Table<'a>) -> Result<Vec<Route<'a>>> {
    let Some(item) = table.get("route") else {
        return Ok(Vec::new());
    };
    let read = |table: Table<'a>| {
        table.accept(&ROUTE_KEYS)?;
        let route = NamedRoute {
            at: table.require("at", "at = \"s0\"")?.name("s0")?.to_string(),
            to: names(&table.require("to", "to = \"h1\"")?)?,
            via: table.require("via", "via = \"s1\"")?.name("s1")?.to_string(),
        };
        Ok((route, table))
    };
    item.tables("fabric.route")?.into_iter().map(read).collect()
}

/// Reads the key `to` of a route, the hosts for which it holds: one name, or a list of names.
fn names(item: &Item<'_>) -> Result<Vec<String>> {
    if !item.is_array() {
        return Ok(vec![item.name("h1")?.to_string()]);
    }
    let items = item.array("[\"h1\", \"h2\"]")?;
    if items.is_empty() {
        return Err(item.wrong("`to` names no host", "write for example [\"h1\", \"h2\"]"));
    }
    items.iter().map(|item| Ok(item.name("h1")?.to_string())).collect()
}

/// Checks that each `[[fabric.route]]` names an existing switch, hosts and neighbour, and that packets still reach
/// their hosts with these routes.
pub(super) fn check_routes(fabric: &FabricSetup, routes: &[Route<'_>]) -> Result<()> {
    if routes.is_empty() {
        return Ok(());
    }
    let spec = FabricSpec {
        topology: fabric.topology.clone(),
        link: fabric.link,
        links: fabric.links.clone(),
        routes: Vec::new(),
        switch: SwitchSpec::input_queued(Bytes(0)),
        paths: Paths::Ecmp,
        frame_gap: 0,
        clocks: Default::default(),
    };
    // Errors of the topology itself are reported later, when the run is set up.
    let Ok(topology) = Topology::build(&spec) else {
        return Ok(());
    };
    match Routes::check(&topology, &fabric.routes) {
        Err(TopologyError::Route { index, reason }) => {
            let (message, help) = reason.split_once("; ").unwrap_or((&reason, "a route is { at, to, via }"));
            Err(routes[index].1.error(message, help))
        }
        _ => Ok(()),
    }
}

/// Reads every `[[fabric.storm]]`: a host's NIC that pauses its switch.
pub(super) fn read_storms(table: &Table<'_>, topology: &TopologySpec) -> Result<Vec<Storm>> {
    let Some(item) = table.get("storm") else {
        return Ok(Vec::new());
    };
    let read = |table: Table<'_>| {
        table.accept(&STORM_KEYS)?;
        let item = table.require("host", "host = \"h3\"")?;
        let name = item.name("h3")?;
        let unknown = || item.error(format!("there is no host \"{name}\""), "a storm comes from a host's NIC");
        Ok(Storm {
            host: graph::host(topology, name).ok_or_else(unknown)?,
            start: table.require("start", "start = \"1 ms\"")?.time("1 ms")?,
            duration: table.get("duration").map(|item| item.positive_time("1 ms")).transpose()?,
            priority: table.get("priority").map(|item| item.integer(0..=7)).transpose()?.map(|p| p as u8),
        })
    };
    item.tables("fabric.storm")?.into_iter().map(read).collect()
}
