//! Reads the `[fabric]` table of a scenario.

use super::faults;
use super::graph;
use super::mesh;
use super::reader::{Item, Result, Table};
use super::switch;
use super::topology_file;
use crate::format::Imported;
use rnic_fabric::config::{ClockSpec, LinkSpec, NamedLink, Paths, TopologySpec};
use rnic_spec::settings::{MAX_HOSTS, MAX_UPLINKS};
use rnic_spec::{FabricSetup, SwitchSetup};
use rnic_transport::settings::MAX_RATE;
use rnic_transport::{BitRate, Time};

/// Reads the `[fabric]` table of a scenario. `imported` is the topology in the file that the table names.
pub(super) fn read(table: &Table<'_>, imported: Option<&Imported>) -> Result<FabricSetup> {
    let chosen = table.require("topology")?;
    let (link, topology) = match imported {
        Some(imported) => (topology_file::base(imported), topology_file::topology(imported)),
        None => {
            let (rate, delay) = (table.value("rate")?, table.value("delay")?);
            (LinkSpec { rate, delay, loss: table.value("loss")? }, read_topology(table, rate)?)
        }
    };
    check_hosts(&topology, &chosen)?;
    let links = read_links(table)?;
    let all_links = match imported {
        Some(imported) => topology_file::links(imported, link, &links)?,
        None => {
            graph::check(table, &topology, &links)?;
            links.iter().map(|(link, _)| link.clone()).collect()
        }
    };
    let routes = faults::read_routes(table, &topology)?;
    let fabric = FabricSetup {
        routes: routes.iter().map(|(route, _)| route.clone()).collect(),
        storms: faults::read_storms(table, &topology)?,
        faults: faults::read_faults(table, &topology, &links)?,
        watchdogs: faults::read_watchdogs(table)?,
        meshes: mesh::read(table, &topology)?,
        topology,
        link,
        links: all_links,
        mtu: table.value("mtu")?,
        frame_gap: table.value("frame_gap")?,
        clocks: ClockSpec { skew_ppm: table.value("clock_skew_ppm")?, jitter: table.value("clock_jitter")? },
        paths: table.given_word("paths")?,
        flowlet_gap: read_flowlet_gap(table)?,
        switch: table.table("switch")?.map_or(Ok(SwitchSetup::default()), |table| switch::read(&table))?,
    };
    faults::check_routes(&fabric, &routes)?;
    Ok(fabric)
}

/// The rate of the links of all hosts; `None` if single links differ from the fabric's rate.
pub(super) fn host_rate(fabric: &FabricSetup) -> Option<BitRate> {
    fabric.links.iter().all(|link| link.rate.is_none()).then_some(fabric.link.rate)
}

/// `flowlet_gap`, which has an effect with `paths = "flowlet"` only.
fn read_flowlet_gap(table: &Table<'_>) -> Result<Option<Time>> {
    let (paths, gap): (Option<Paths>, _) = (table.given_word("paths")?, table.given("flowlet_gap")?);
    match table.get("flowlet_gap") {
        Some(item) if paths != Some(Paths::Flowlet) => {
            let why = "only paths = \"flowlet\" has flowlets; write it, or leave `flowlet_gap` out";
            Err(item.error("`flowlet_gap` has no effect here", why))
        }
        _ => Ok(gap),
    }
}

fn read_topology(table: &Table<'_>, rate: BitRate) -> Result<TopologySpec> {
    Ok(match table.variant() {
        "fat-tree" => TopologySpec::FatTree { k: read_k(table)? },
        "leaf-spine" => read_leaves(table, rate)?,
        "multi-plane" => read_planes(table, rate)?,
        "leaf-spine-core" => read_pods(table, rate)?,
        "single-switch" => TopologySpec::SingleSwitch { hosts: table.value("hosts")? },
        "dumbbell" => TopologySpec::Dumbbell {
            left: table.value("left")?,
            right: table.value("right")?,
            bottleneck_rate: table.given("bottleneck_rate")?,
            bottleneck_delay: table.given("bottleneck_delay")?,
        },
        "dragonfly" => read_dragonfly(table)?,
        _ => TopologySpec::Graph {
            hosts: read_names(&table.require("hosts")?, 'h')?,
            switches: read_names(&table.require("switches")?, 's')?,
        },
    })
}

fn read_k(table: &Table<'_>) -> Result<u32> {
    let k: u32 = table.value("k")?;
    if !k.is_multiple_of(2) {
        let help = format!("a fat-tree needs an even number, for example {}", k + 1);
        return Err(table.require("k")?.wrong(format!("`k` is odd: {k}"), help));
    }
    Ok(k)
}

fn read_dragonfly(table: &Table<'_>) -> Result<TopologySpec> {
    let (groups, routers_per_group) = (table.value("groups")?, table.value("routers_per_group")?);
    let global_links = table.value("global_links")?;
    let topology = TopologySpec::Dragonfly {
        groups,
        routers_per_group,
        global_links,
        hosts_per_router: table.value("hosts_per_router")?,
        local_rate: table.given("local_rate")?,
        local_delay: table.given("local_delay")?,
        global_rate: table.given("global_rate")?,
        global_delay: table.given("global_delay")?,
    };
    let ports = u64::from(routers_per_group) * u64::from(global_links);
    if groups <= global_links || u64::from(groups) > ports + 1 {
        let message =
            format!("{groups} groups of {routers_per_group} routers with {global_links} global links each do not fit");
        return Err(table.error_at(
            "groups",
            message,
            &format!("accepted: {} to {} groups", global_links + 1, ports + 1),
        ));
    }
    check_links(table, &topology, || format!("{groups} groups of {routers_per_group} routers"))?;
    Ok(topology)
}

/// Keys of `[fabric]` for the uplinks of a leaf: their rate, or the oversubscription from which the rate follows. The
/// constant `CORE` has the corresponding keys for the uplinks of a spine.
const UPLINK: [&str; 2] = ["uplink_rate", "oversubscription"];
const CORE: [&str; 2] = ["core_rate", "core_oversubscription"];

fn read_leaves(table: &Table<'_>, rate: BitRate) -> Result<TopologySpec> {
    read_leaves_and_spines(table, rate, None)
}

fn read_planes(table: &Table<'_>, rate: BitRate) -> Result<TopologySpec> {
    for key in ["route", "mesh"] {
        if let Some(item) = table.get(key) {
            let message = format!("`{key}` is not possible with several planes, between which no path leads");
            return Err(item.error(message, format!("remove `{key}`")));
        }
    }
    read_leaves_and_spines(table, rate, Some(table.value("planes")?))
}

/// Reads a leaf-spine fabric, or the fabric of each of several planes.
fn read_leaves_and_spines(table: &Table<'_>, rate: BitRate, planes: Option<u32>) -> Result<TopologySpec> {
    let (leaves, spines) = (table.value("leaves")?, table.value("spines")?);
    let hosts_per_leaf = table.value("hosts_per_leaf")?;
    let topology = |uplink_rate, uplink_delay| match planes {
        None => TopologySpec::LeafSpine { leaves, spines, hosts_per_leaf, uplink_rate, uplink_delay },
        Some(planes) => TopologySpec::MultiPlane { planes, leaves, spines, hosts_per_leaf, uplink_rate, uplink_delay },
    };
    let of_planes = planes.map_or_else(String::new, |planes| format!("{planes} planes of "));
    check_links(table, &topology(None, None), || format!("{of_planes}{leaves} leaves and {spines} spines"))?;
    let uplink_rate = read_uplink(table, UPLINK, (hosts_per_leaf, rate), spines)?;
    Ok(topology(uplink_rate, table.given("uplink_delay")?))
}

fn read_pods(table: &Table<'_>, rate: BitRate) -> Result<TopologySpec> {
    let (pods, leaves_per_pod, spines_per_pod) =
        (table.value("pods")?, table.value("leaves_per_pod")?, table.value("spines_per_pod")?);
    let (cores_per_plane, hosts_per_leaf) = (table.value("cores_per_plane")?, table.value("hosts_per_leaf")?);
    let topology = |uplink_rate, uplink_delay, core_rate, core_delay| TopologySpec::LeafSpineCore {
        pods,
        leaves_per_pod,
        spines_per_pod,
        cores_per_plane,
        hosts_per_leaf,
        uplink_rate,
        uplink_delay,
        core_rate,
        core_delay,
    };
    check_links(table, &topology(None, None, None, None), || {
        format!(
            "{pods} pods of {leaves_per_pod} leaves and {spines_per_pod} spines with {cores_per_plane} cores in each plane"
        )
    })?;
    let uplink_rate = read_uplink(table, UPLINK, (hosts_per_leaf, rate), spines_per_pod)?;
    let of_leaves = (leaves_per_pod, uplink_rate.unwrap_or(rate));
    let uplink_delay = table.given("uplink_delay")?;
    let core_rate = read_uplink(table, CORE, of_leaves, cores_per_plane)?;
    Ok(topology(uplink_rate, uplink_delay, core_rate, table.given("core_delay")?))
}

fn check_links(table: &Table<'_>, topology: &TopologySpec, what: impl FnOnce() -> String) -> Result<()> {
    if rnic_spec::uplinks(topology) <= MAX_UPLINKS {
        return Ok(());
    }
    let help = format!("accepted: at most {MAX_UPLINKS} links between them");
    Err(table.error(format!("{} need too many links", what()), &help))
}

/// Reads the rate of each of the `up` uplinks of a switch; `None` if the table has neither of `keys`. The first key is
/// the rate itself. The second key is the oversubscription: the bandwidth of the switch's downlinks divided by the
/// bandwidth of its uplinks. `down` is the number and the rate of the downlinks.
fn read_uplink(table: &Table<'_>, keys: [&str; 2], down: (u32, BitRate), up: u32) -> Result<Option<BitRate>> {
    let [rate, oversubscription] = keys;
    let Some(item) = table.get(oversubscription) else {
        return table.given(rate);
    };
    if table.get(rate).is_some() {
        let help = "the one follows from the other: remove one of them";
        return Err(item.wrong(format!("`{oversubscription}` and `{rate}` are both given"), help));
    }
    let ratio: f64 = item.typed()?;
    let uplink = f64::from(down.0) * down.1.as_bps() as f64 / (f64::from(up) * ratio);
    if ratio.is_finite() && (1.0..=MAX_RATE.as_bps() as f64).contains(&uplink.round()) {
        return Ok(Some(BitRate::from_bps(uplink.round() as u64)));
    }
    let help = "accepted: a ratio of more than zero that leaves each uplink at most 10 Tbps, for example 2.0";
    Err(item.wrong(format!("`{oversubscription}` is out of range: {ratio}"), help))
}

/// Reads the names of the hosts or switches of a graph: a list such as `["a", "b"]`, or a count. With the letter `h`,
/// the count 3 stands for the names `h0`, `h1` and `h2`.
fn read_names(item: &Item<'_>, letter: char) -> Result<Vec<String>> {
    if !item.is_array() {
        return Ok((0..item.typed::<u32>()?).map(|number| format!("{letter}{number}")).collect());
    }
    let name = |name: &Item<'_>| {
        let nameless = || {
            name.error("a node's name is a string of one line that is not empty", format!("for example \"{letter}0\""))
        };
        let is_line = |text: &&str| !text.contains(char::is_control);
        name.text().filter(is_line).map(str::to_string).ok_or_else(nameless)
    };
    item.array()?.iter().map(name).collect()
}

fn check_hosts(topology: &TopologySpec, chosen: &Item<'_>) -> Result<()> {
    match rnic_spec::hosts(topology) {
        0 | 1 => Err(chosen.error("the fabric has fewer than two hosts", "a flow needs a sender and a receiver")),
        count if count > MAX_HOSTS => {
            Err(chosen.error(format!("the fabric has {count} hosts"), format!("accepted: at most {MAX_HOSTS}")))
        }
        _ => Ok(()),
    }
}

fn read_links<'a>(table: &Table<'a>) -> Result<Vec<(NamedLink, Table<'a>)>> {
    let read = |table: Table<'a>| {
        let link = NamedLink {
            from: table.value("from")?,
            to: table.value("to")?,
            rate: table.given("rate")?,
            delay: table.given("delay")?,
            loss: table.given("loss")?,
        };
        Ok((link, table))
    };
    table.tables("link")?.into_iter().map(read).collect()
}

/// Maximum time between the starts of the first and the last flow of a traffic source: 60 days, so that sums of times
/// cannot overflow.
pub(super) const LONGEST_TRAFFIC: Time = Time::from_ms(60 * 24 * 3_600 * 1_000);
