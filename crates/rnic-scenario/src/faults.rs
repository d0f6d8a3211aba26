//! Reads the deliberate faults of a fabric: routes that leave the shortest paths (`[[fabric.route]]`), pause storms
//! (`[[fabric.storm]]`), drop rules (`[[fabric.drop]]`), dead hosts (`[[fabric.dead]]`) and slow receivers
//! (`[[fabric.receiver]]`); and the watchdogs against storms (`[fabric.watchdog]`, `[fabric.nic_watchdog]`).

use super::graph;
use super::reader::{Item, Result, Table};
use rnic_fabric::config::{FabricSpec, NamedRoute, Paths, SwitchSpec, TopologySpec};
use rnic_fabric::{Routes, Topology, TopologyError};
use rnic_run::{
    DeadHost, DropRule, FabricSetup, Faults, NIC_DETECTION, NicWatchdog, SlowReceiver, Storm, SwitchWatchdog,
    UnknownMacAction, WatchdogAction, Watchdogs, WatchedPorts,
};
use rnic_transport::{Bytes, Time};

/// The keys of `[[fabric.route]]`.
pub(super) const ROUTE_KEYS: [&str; 3] = ["at", "to", "via"];
/// The keys of `[[fabric.storm]]`.
pub(super) const STORM_KEYS: [&str; 4] = ["host", "start", "duration", "priority"];

/// The keys of `[[fabric.drop]]`.
pub(super) const DROP_KEYS: [&str; 3] = ["at", "from", "every"];
/// The keys of `[[fabric.dead]]`.
pub(super) const DEAD_KEYS: [&str; 4] = ["host", "start", "duration", "unknown_mac"];
/// The keys of `[[fabric.receiver]]`.
pub(super) const RECEIVER_KEYS: [&str; 8] = ["hosts", "page", "entries", "miss", "memory", "buffer", "xoff", "xon"];
/// The keys of `[fabric.watchdog]`.
pub(super) const WATCHDOG_KEYS: [&str; 5] = ["detection", "restoration", "interval", "action", "ports"];
/// The keys of `[fabric.nic_watchdog]`.
pub(super) const NIC_WATCHDOG_KEYS: [&str; 1] = ["detection"];
/// The values of the key `action` of `[fabric.watchdog]`.
pub(super) const ACTIONS: [&str; 3] = ["drop", "forward", "alert"];
/// The values of the key `ports` of `[fabric.watchdog]`.
pub(super) const PORTS: [&str; 2] = ["hosts", "all"];
/// The values of the key `unknown_mac` of `[[fabric.dead]]`.
pub(super) const UNKNOWN_MAC: [&str; 2] = ["flood", "drop"];

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

/// Reads every `[[fabric.drop]]`, `[[fabric.dead]]` and `[[fabric.receiver]]`. The simulator checks that the switch and
/// the neighbour of a drop rule exist.
pub(super) fn read_faults(table: &Table<'_>, topology: &TopologySpec) -> Result<Faults> {
    let drop = |table: Table<'_>| {
        table.accept(&DROP_KEYS)?;
        Ok(DropRule {
            at: table.require("at", "at = \"s0\"")?.name("s0")?.to_string(),
            from: table.require("from", "from = \"h0\"")?.name("h0")?.to_string(),
            every: table.require("every", "every = 256")?.integer(1..=1_000_000_000)?,
        })
    };
    let dead = |table: Table<'_>| {
        table.accept(&DEAD_KEYS)?;
        let item = table.require("host", "host = \"h3\"")?;
        Ok(DeadHost {
            host: host(&item, topology, item.name("h3")?)?,
            start: table.get("start").map_or(Ok(Time::ZERO), |item| item.time("1 ms"))?,
            duration: table.get("duration").map(|item| item.positive_time("1 ms")).transpose()?,
            unknown_mac: match table.get("unknown_mac").map_or(Ok("flood"), |item| item.choice(&UNKNOWN_MAC))? {
                "drop" => UnknownMacAction::Drop,
                _ => UnknownMacAction::Flood,
            },
        })
    };
    let tables = |key: &str| {
        let item = table.get(key);
        item.map_or(Ok(Vec::new()), |item| item.tables(&format!("fabric.{key}")))
    };
    Ok(Faults {
        drops: tables("drop")?.into_iter().map(drop).collect::<Result<_>>()?,
        dead: tables("dead")?.into_iter().map(dead).collect::<Result<_>>()?,
        receivers: tables("receiver")?
            .into_iter()
            .map(|table| read_receiver(&table, topology))
            .collect::<Result<_>>()?,
        ..Faults::default()
    })
}

/// The index of the host that `item` names.
fn host(item: &Item<'_>, topology: &TopologySpec, name: &str) -> Result<u32> {
    let unknown = || item.error(format!("there is no host \"{name}\""), "name a host of the topology");
    graph::host(topology, name).ok_or_else(unknown)
}

fn read_receiver(table: &Table<'_>, topology: &TopologySpec) -> Result<SlowReceiver> {
    table.accept(&RECEIVER_KEYS)?;
    let hosts = table.require("hosts", "hosts = [\"h0\"]")?;
    let size = |key: &str, example: &str| table.require(key, example)?.bytes(1..=1_000_000_000_000, "4 KiB");
    let buffer = size("buffer", "buffer = \"256 KB\"")?;
    let xoff = table.get("xoff").map_or(Ok(Bytes(buffer.0 / 2)), |item| item.bytes(1..=1_000_000_000_000, "128 KB"))?;
    let xon = table.get("xon").map_or(Ok(Bytes(xoff.0 / 2)), |item| item.bytes(0..=1_000_000_000_000, "64 KB"))?;
    table.ordered(("xon", Some(xon)), ("xoff", Some(xoff)), "")?;
    table.ordered(("xoff", Some(xoff)), ("buffer", Some(buffer)), "")?;
    Ok(SlowReceiver {
        hosts: hosts.names("[\"h0\"]")?.iter().map(|name| host(&hosts, topology, name)).collect::<Result<_>>()?,
        page: size("page", "page = \"4 KiB\"")?,
        entries: table.require("entries", "entries = 2048")?.count(1_000_000)?,
        miss: table.require("miss", "miss = \"1 us\"")?.positive_time("1 us")?,
        memory: size("memory", "memory = \"4 MB\"")?,
        buffer,
        xoff,
        xon,
    })
}

/// Reads `[fabric.watchdog]` and `[fabric.nic_watchdog]`.
pub(super) fn read_watchdogs(table: &Table<'_>) -> Result<Watchdogs> {
    let nic = |item: Item<'_>| -> Result<NicWatchdog> {
        let table = item.table("[fabric.nic_watchdog]")?;
        table.accept(&NIC_WATCHDOG_KEYS)?;
        let detection = table.get("detection").map(|item| item.positive_time("100 ms")).transpose()?;
        Ok(NicWatchdog { detection: detection.unwrap_or(NIC_DETECTION) })
    };
    let switch = |item: Item<'_>| -> Result<SwitchWatchdog> {
        let table = item.table("[fabric.watchdog]")?;
        table.accept(&WATCHDOG_KEYS)?;
        let default = SwitchWatchdog::default();
        let time = |key: &str| table.get(key).map(|item| item.positive_time("200 ms")).transpose();
        let detection = time("detection")?.unwrap_or(default.detection);
        Ok(SwitchWatchdog {
            detection,
            restoration: time("restoration")?.unwrap_or(default.restoration),
            interval: time("interval")?.unwrap_or(default.interval.min(detection)),
            action: match table.get("action").map_or(Ok("drop"), |item| item.choice(&ACTIONS))? {
                "forward" => WatchdogAction::Forward,
                "alert" => WatchdogAction::Alert,
                _ => WatchdogAction::Drop,
            },
            ports: match table.get("ports").map_or(Ok("hosts"), |item| item.choice(&PORTS))? {
                "all" => WatchedPorts::All,
                _ => WatchedPorts::Hosts,
            },
        })
    };
    Ok(Watchdogs {
        nic: table.get("nic_watchdog").map(nic).transpose()?,
        switch: table.get("watchdog").map(switch).transpose()?,
    })
}
