//! Reads the deliberate faults of a fabric: routes that leave the shortest paths (`[[fabric.route]]`), pause storms
//! (`[[fabric.storm]]`), drop rules (`[[fabric.drop]]`), dead hosts (`[[fabric.dead]]`) and slow receivers
//! (`[[fabric.receiver]]`); and the watchdogs against storms (`[fabric.watchdog]`, `[fabric.nic_watchdog]`).

use super::graph;
use super::reader::{Item, Result, Table};
use rnic_fabric::config::{FabricSpec, NamedRoute, Paths, SwitchSpec, TopologySpec};
use rnic_fabric::{Routes, Topology, TopologyError};
use rnic_run::{DeadHost, DropRule, FabricSetup, Faults, NicWatchdog, SlowReceiver, Storm, SwitchWatchdog, Watchdogs};
use rnic_transport::{Bytes, Time};

/// A replaced route, and the `[[fabric.route]]` table that defines it.
pub(super) type Route<'a> = (NamedRoute, Table<'a>);

/// Reads every `[[fabric.route]]`. [`check_routes`] later checks that the named nodes exist.
pub(super) fn read_routes<'a>(table: &Table<'a>) -> Result<Vec<Route<'a>>> {
    let read = |table: Table<'a>| {
        let route = NamedRoute { at: table.value("at")?, to: names(&table.require("to")?)?, via: table.value("via")? };
        Ok((route, table))
    };
    table.tables("route")?.into_iter().map(read).collect()
}

/// Reads the key `to` of a route, the hosts for which it holds: one name, or a list of names.
fn names(item: &Item<'_>) -> Result<Vec<String>> {
    if !item.is_array() {
        return Ok(vec![item.typed()?]);
    }
    let items = item.array()?;
    if items.is_empty() {
        return Err(item.wrong("`to` names no host", "write for example [\"h1\", \"h2\"]"));
    }
    items.iter().map(Item::typed).collect()
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
    let read = |table: Table<'_>| {
        Ok(Storm {
            host: host(&table.require("host")?, topology, "a storm comes from a host's NIC")?,
            start: table.value("start")?,
            duration: table.given("duration")?,
            priority: table.given("priority")?,
        })
    };
    table.tables("storm")?.into_iter().map(read).collect()
}

/// Reads every `[[fabric.drop]]`, `[[fabric.dead]]` and `[[fabric.receiver]]`. The simulator checks that the switch and
/// the neighbour of a drop rule exist.
pub(super) fn read_faults(table: &Table<'_>, topology: &TopologySpec) -> Result<Faults> {
    let drop = |table: Table<'_>| {
        Ok(DropRule { at: table.value("at")?, from: table.value("from")?, every: table.value("every")? })
    };
    let dead = |table: Table<'_>| {
        Ok(DeadHost {
            host: host(&table.require("host")?, topology, NAME_A_HOST)?,
            start: table.value("start")?,
            duration: table.given("duration")?,
            unknown_mac: table.word("unknown_mac")?,
        })
    };
    Ok(Faults {
        drops: table.tables("drop")?.into_iter().map(drop).collect::<Result<_>>()?,
        dead: table.tables("dead")?.into_iter().map(dead).collect::<Result<_>>()?,
        receivers: table
            .tables("receiver")?
            .iter()
            .map(|table| read_receiver(table, topology))
            .collect::<Result<_>>()?,
    })
}

const NAME_A_HOST: &str = "name a host of the topology";

/// The index of the host that `item` names.
fn host(item: &Item<'_>, topology: &TopologySpec, help: &str) -> Result<u32> {
    let name: String = item.typed()?;
    graph::host(topology, &name).ok_or_else(|| item.error(format!("there is no host \"{name}\""), help))
}

fn read_receiver(table: &Table<'_>, topology: &TopologySpec) -> Result<SlowReceiver> {
    let hosts = table.require("hosts")?;
    let buffer: Bytes = table.value("buffer")?;
    let xoff = table.given("xoff")?.unwrap_or(Bytes((buffer.0 / 2).max(1)));
    let xon = table.given("xon")?.unwrap_or(Bytes(xoff.0 / 2));
    table.ordered(("xon", Some(xon)), ("xoff", Some(xoff)), "")?;
    table.ordered(("xoff", Some(xoff)), ("buffer", Some(buffer)), "")?;
    let named = hosts.names()?;
    let number = |name: &String| {
        let unknown = || hosts.error(format!("there is no host \"{name}\""), NAME_A_HOST);
        graph::host(topology, name).ok_or_else(unknown)
    };
    Ok(SlowReceiver {
        hosts: named.iter().map(number).collect::<Result<_>>()?,
        page: table.value("page")?,
        entries: table.value("entries")?,
        miss: table.value("miss")?,
        memory: table.value("memory")?,
        buffer,
        xoff,
        xon,
    })
}

/// Reads `[fabric.watchdog]` and `[fabric.nic_watchdog]`.
pub(super) fn read_watchdogs(table: &Table<'_>) -> Result<Watchdogs> {
    let nic = |table: Table<'_>| -> Result<_> { Ok(NicWatchdog { detection: table.value("detection")? }) };
    let switch = |table: Table<'_>| -> Result<_> {
        let (detection, interval): (Time, Time) = (table.value("detection")?, table.value("interval")?);
        Ok(SwitchWatchdog {
            detection,
            restoration: table.value("restoration")?,
            interval: if table.get("interval").is_some() { interval } else { interval.min(detection) },
            action: table.word("action")?,
            ports: table.word("ports")?,
        })
    };
    Ok(Watchdogs {
        nic: table.table("nic_watchdog")?.map(nic).transpose()?,
        switch: table.table("watchdog")?.map(switch).transpose()?,
    })
}
