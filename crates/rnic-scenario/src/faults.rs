//! Reads the deliberate faults of a fabric: routes that leave the shortest paths (`[[fabric.route]]`), pause storms
//! (`[[fabric.storm]]`), drop rules (`[[fabric.drop]]`), dead hosts (`[[fabric.dead]]`), slow receivers
//! (`[[fabric.receiver]]`) and links that fail (`[[fabric.link]]`); and the watchdogs against storms
//! (`[fabric.watchdog]`, `[fabric.nic_watchdog]`).

use super::graph::{self, Link};
use super::reader::{Item, Result, Table};
use rnic_fabric::config::{FabricSpec, NamedLink, NamedRoute, Paths, SwitchSpec, TopologySpec};
use rnic_fabric::{Routes, Topology, TopologyError};
use rnic_spec::{
    DeadHost, DropRule, FabricSetup, Faults, LinkFault, NicWatchdog, SlowReceiver, Storm, SwitchWatchdog, Watchdogs,
};
use rnic_transport::{Bytes, Time};

/// A replaced route, and the `[[fabric.route]]` table that defines it.
pub(super) type Route<'a> = (NamedRoute, Table<'a>);

/// Reads every `[[fabric.route]]`. [`check_routes`] later checks that the named nodes exist.
pub(super) fn read_routes<'a>(table: &Table<'a>, topology: &TopologySpec) -> Result<Vec<Route<'a>>> {
    let read = |table: Table<'a>| {
        let to = names(&table.require("to")?, topology)?;
        let route = NamedRoute { at: table.value("at")?, to, via: table.value("via")? };
        Ok((route, table))
    };
    table.tables("route")?.into_iter().map(read).collect()
}

/// Reads the key `to` of a route, the hosts for which it holds: one name or range of names, or a list of these.
fn names(item: &Item<'_>, topology: &TopologySpec) -> Result<Vec<String>> {
    if !item.is_array() {
        return range(item, item.typed()?, topology);
    }
    let items = item.array()?;
    if items.is_empty() {
        return Err(item.wrong("`to` names no host", "write for example [\"h1\", \"h2\"]"));
    }
    let mut names = Vec::new();
    for item in &items {
        names.append(&mut range(item, item.typed()?, topology)?);
    }
    Ok(names)
}

/// The hosts that `name`, a part of the value `item`, stands for: all hosts of a range such as `h24-h95`, or one host.
pub(super) fn range(item: &Item<'_>, name: String, topology: &TopologySpec) -> Result<Vec<String>> {
    let Some((first, last)) = name.split_once('-').filter(|_| graph::host(topology, &name).is_none()) else {
        return Ok(vec![name]);
    };
    let numbered = |name: &str| {
        let digits = name.len() - name.bytes().rev().take_while(u8::is_ascii_digit).count();
        let (prefix, number) = name.split_at(digits);
        Some((prefix.to_string(), number.parse::<u32>().ok()?))
    };
    let (Some((prefix, from)), Some((other, to))) = (numbered(first), numbered(last)) else {
        return Ok(vec![name]);
    };
    if prefix != other || from > to {
        let help = "a range is two hosts of the same kind, the lower number first, for example \"h24-h95\"";
        return Err(item.wrong(format!("\"{name}\" is not a range of hosts"), help));
    }
    if to - from >= rnic_spec::hosts(topology) {
        let message = format!("\"{name}\" stands for more hosts than the {} of the fabric", rnic_spec::hosts(topology));
        return Err(item.wrong(message, "a range is for example \"h24-h95\""));
    }
    if let Some(host) = [first, last].into_iter().find(|host| graph::host(topology, host).is_none()) {
        return Err(item.error(format!("there is no host \"{host}\""), NAME_A_HOST));
    }
    Ok((from..=to).map(|number| format!("{prefix}{number}")).collect())
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
        flowlet_gap: Paths::FLOWLET_GAP,
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

/// Reads every `[[fabric.drop]]`, `[[fabric.dead]]` and `[[fabric.receiver]]`, and the faults of `links`. The simulator
/// checks that the switch and the neighbour of a drop rule exist.
pub(super) fn read_faults(table: &Table<'_>, topology: &TopologySpec, links: &[Link<'_>]) -> Result<Faults> {
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
    let mut faults = Vec::new();
    for (link, link_table) in links {
        faults.extend(read_link_faults(link, link_table)?);
    }
    let (convergence, local_repair) = (table.given("convergence")?, table.given("local_repair")?);
    if faults.is_empty()
        && let Some((key, item)) =
            ["convergence", "local_repair"].into_iter().find_map(|key| Some((key, table.get(key)?)))
    {
        let help = "give a [[fabric.link]] `down`, `down_at` or `slow_rate`, or remove the key";
        return Err(item.error(format!("`{key}` has no effect: no link has a fault"), help));
    }
    table.ordered(
        ("local_repair", local_repair),
        ("convergence", Some(convergence.unwrap_or(Faults::CONVERGENCE))),
        "",
    )?;
    Ok(Faults {
        links: faults,
        convergence,
        local_repair,
        drops: table.tables("drop")?.into_iter().map(drop).collect::<Result<_>>()?,
        dead: table.tables("dead")?.into_iter().map(dead).collect::<Result<_>>()?,
        receivers: table
            .tables("receiver")?
            .iter()
            .map(|table| read_receiver(table, topology))
            .collect::<Result<_>>()?,
    })
}

/// Reads the keys of a `[[fabric.link]]` about faults: none, one or two, a failure and a lower rate.
fn read_link_faults(link: &NamedLink, table: &Table<'_>) -> Result<Vec<LinkFault>> {
    let fault = |rate, start, duration, every| LinkFault {
        from: link.from.clone(),
        to: link.to.clone(),
        rate,
        one_way: false,
        scales_queues: false,
        start,
        duration,
        every,
    };
    let mut faults = Vec::new();
    let down_at: Option<Time> = table.given("down_at")?;
    if table.value("down")? {
        for key in ["down_at", "up_at", "flap_every"] {
            if let Some(item) = table.get(key) {
                return Err(item.error(format!("`{key}` of a link that is always down"), "remove it or `down`"));
            }
        }
        faults.push(fault(None, Time::ZERO, None, None));
    } else if let Some(start) = down_at {
        let duration = until(table, ("down_at", start), "up_at")?;
        let every: Option<Time> = table.given("flap_every")?;
        if let (Some(item), Some(every)) = (table.get("flap_every"), every) {
            match duration {
                None => {
                    return Err(item.error("`flap_every` without `up_at`", "a link that flaps returns: add `up_at`"));
                }
                Some(down) if down >= every => {
                    let help = format!("accepted: more than {down}, the time from `down_at` to `up_at`");
                    return Err(item.wrong(format!("`flap_every` is out of range: {every}"), help));
                }
                Some(_) => {}
            }
        }
        faults.push(fault(None, start, duration, every));
    } else if let Some((key, item)) = ["up_at", "flap_every"].into_iter().find_map(|key| Some((key, table.get(key)?))) {
        return Err(item.error(format!("`{key}` without `down_at`"), "add `down_at`, the time at which the link fails"));
    }
    if let Some(rate) = table.given("slow_rate")? {
        let start = table.value("slow_at")?;
        let slow = fault(Some(rate), start, until(table, ("slow_at", start), "slow_until")?, None);
        let (one_way, scales_queues) = (table.value("slow_one_way")?, table.value("slow_queues")?);
        faults.push(LinkFault { one_way, scales_queues, ..slow });
    } else if let Some((key, item)) = ["slow_at", "slow_until", "slow_one_way", "slow_queues"]
        .into_iter()
        .find_map(|key| Some((key, table.get(key)?)))
    {
        return Err(item.error(format!("`{key}` without `slow_rate`"), "add `slow_rate`, the rate in this time"));
    }
    Ok(faults)
}

/// The time from `start`, the value of the key `from`, to the value of the key `to`; `None` without this key.
fn until(table: &Table<'_>, (from, start): (&str, Time), to: &str) -> Result<Option<Time>> {
    match (table.given::<Time>(to)?, table.get(to)) {
        (Some(end), Some(item)) if end <= start => {
            Err(item.wrong(format!("`{to}` is out of range: {end}"), format!("accepted: later than `{from}`, {start}")))
        }
        (end, _) => Ok(end.map(|end| end - start)),
    }
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
    let mut named = Vec::new();
    for name in hosts.names()? {
        named.append(&mut range(&hosts, name, topology)?);
    }
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
