//! Reads the `[fabric]` table of a scenario.

use super::error::ScenarioError;
use super::faults;
use super::graph;
use super::mesh;
use super::names::{TOPOLOGIES, names};
use super::reader::{Item, Result, Table, Variant};
use super::switch;
use rnic_fabric::config::{ClockSpec, LinkSpec, NamedLink, PATHS, Paths, TopologySpec};
use rnic_run::{FabricSetup, MAX_JITTER, MAX_SKEW_PPM, SwitchSetup};
use rnic_transport::{BitRate, Bytes, Time};

/// Maximum number of hosts of a topology, and maximum of each other count, such as leaves or spines.
const MAX: u32 = 1_000_000;
/// Maximum number of links between the switches of a topology.
const MAX_UPLINKS: u64 = 10_000_000;
/// Maximum `k` of a fat-tree: 65,536 hosts.
const MAX_K: u64 = 64;

pub(super) const COMMON: [&str; 19] = [
    "topology",
    "rate",
    "delay",
    "loss",
    "mtu",
    "frame_gap",
    "clock_skew_ppm",
    "clock_jitter",
    "paths",
    "switch",
    "link",
    "route",
    "storm",
    "drop",
    "dead",
    "receiver",
    "watchdog",
    "nic_watchdog",
    "mesh",
];
pub(super) const VARIANTS: [Variant; 6] = [
    Variant { name: "fat-tree", keys: &["k"] },
    Variant {
        name: "leaf-spine",
        keys: &["leaves", "spines", "hosts_per_leaf", "uplink_rate", "uplink_delay", "oversubscription"],
    },
    Variant {
        name: "leaf-spine-core",
        keys: &[
            "pods",
            "leaves_per_pod",
            "spines_per_pod",
            "cores_per_plane",
            "hosts_per_leaf",
            "uplink_rate",
            "uplink_delay",
            "oversubscription",
            "core_rate",
            "core_delay",
            "core_oversubscription",
        ],
    },
    Variant { name: "single-switch", keys: &["hosts"] },
    Variant { name: "dumbbell", keys: &["left", "right", "bottleneck_rate", "bottleneck_delay"] },
    Variant { name: "graph", keys: &["hosts", "switches"] },
];

/// The keys of `[[fabric.link]]`.
pub(super) const LINK_KEYS: [&str; 5] = ["from", "to", "rate", "delay", "loss"];

/// Reads the `[fabric]` table of a scenario.
pub(super) fn read(table: &Table<'_>) -> Result<FabricSetup> {
    let chosen = table.require("topology", "topology = \"fat-tree\"")?;
    let topology = chosen.choice(&names(TOPOLOGIES))?;
    table.accept_variant(&COMMON, "topology", topology, &VARIANTS)?;
    let link = LinkSpec {
        rate: table.require("rate", "rate = \"40 Gbps\"")?.rate()?,
        delay: table.require("delay", "delay = \"2 us\"")?.positive_time("2 us")?,
        loss: table.get("loss").map_or(Ok(0.0), |item| loss(&item))?,
    };
    let topology = read_topology(table, topology, link.rate)?;
    check_hosts(&topology, &chosen)?;
    let links = read_links(table)?;
    graph::check(table, &topology, &links)?;
    let routes = faults::read_routes(table)?;
    let fabric = FabricSetup {
        routes: routes.iter().map(|(route, _)| route.clone()).collect(),
        storms: faults::read_storms(table, &topology)?,
        faults: faults::read_faults(table, &topology)?,
        watchdogs: faults::read_watchdogs(table)?,
        meshes: mesh::read(table, &topology)?,
        topology,
        link,
        links: links.into_iter().map(|(link, _)| link).collect(),
        mtu: table.get("mtu").map_or(Ok(Bytes(1_024)), |item| item.bytes(64..=9_000, "1024 B"))?,
        frame_gap: table.get("frame_gap").map_or(Ok(Bytes(20)), |item| item.bytes(0..=1_000, "20 B"))?,
        clocks: read_clocks(table)?,
        paths: table.get("paths").map(|item| paths(&item)).transpose()?,
        switch: match table.get("switch") {
            Some(item) => switch::read(&item.table("[fabric.switch]")?)?,
            None => SwitchSetup::default(),
        },
    };
    faults::check_routes(&fabric, &routes)?;
    Ok(fabric)
}

/// Reads the keys `clock_skew_ppm` and `clock_jitter`.
fn read_clocks(table: &Table<'_>) -> Result<ClockSpec> {
    let jitter = |item: Item<'_>| match item.time("1 ns")? {
        jitter if jitter <= MAX_JITTER => Ok(jitter),
        jitter => {
            Err(item.wrong(format!("`clock_jitter` is out of range: {jitter}"), format!("accepted: 0 to {MAX_JITTER}")))
        }
    };
    Ok(ClockSpec {
        skew_ppm: table.get("clock_skew_ppm").map_or(Ok(0), |item| item.integer(0..=MAX_SKEW_PPM))? as u32,
        jitter: table.get("clock_jitter").map_or(Ok(Time::ZERO), jitter)?,
    })
}

fn paths(item: &Item<'_>) -> Result<Paths> {
    let name = item.choice(&PATHS.map(|entry| entry.name))?;
    Ok(PATHS.iter().find(|entry| entry.name == name).map(|entry| entry.paths).unwrap_or_default())
}

fn loss(item: &Item<'_>) -> Result<f64> {
    let loss = item.number("0.001")?;
    if (0.0..1.0).contains(&loss) {
        return Ok(loss);
    }
    Err(item.wrong(format!("`loss` is out of range: {loss}"), "accepted: a probability of at least 0 and less than 1"))
}

fn read_topology(table: &Table<'_>, topology: &str, rate: BitRate) -> Result<TopologySpec> {
    let count = |key: &str| table.require(key, &format!("{key} = 4"))?.count(MAX);
    let rate_of = |key: &str| table.get(key).map(|item| item.rate()).transpose();
    let delay_of = |key: &str| table.get(key).map(|item| item.positive_time("2 us")).transpose();
    Ok(match topology {
        "fat-tree" => TopologySpec::FatTree { k: read_k(table)? },
        "leaf-spine" => {
            let (leaves, spines, hosts_per_leaf) = (count("leaves")?, count("spines")?, count("hosts_per_leaf")?);
            if u64::from(leaves) * u64::from(spines) > MAX_UPLINKS {
                return Err(too_many_links(table, &format!("{leaves} leaves and {spines} spines")));
            }
            let uplink_rate = read_uplink(table, UPLINK, (hosts_per_leaf, rate), spines)?;
            let uplink_delay = delay_of("uplink_delay")?;
            TopologySpec::LeafSpine { leaves, spines, hosts_per_leaf, uplink_rate, uplink_delay }
        }
        "leaf-spine-core" => read_pods(table, rate)?,
        "single-switch" => TopologySpec::SingleSwitch { hosts: count("hosts")? },
        "dumbbell" => TopologySpec::Dumbbell {
            left: count("left")?,
            right: count("right")?,
            bottleneck_rate: rate_of("bottleneck_rate")?,
            bottleneck_delay: delay_of("bottleneck_delay")?,
        },
        _ => {
            let hosts = read_names(&table.require("hosts", "hosts = 4")?, 'h')?;
            let switches = read_names(&table.require("switches", "switches = 2")?, 's')?;
            TopologySpec::Graph { hosts, switches }
        }
    })
}

fn read_k(table: &Table<'_>) -> Result<u32> {
    let item = table.require("k", "k = 6")?;
    let k = item.integer(2..=MAX_K)?;
    if !k.is_multiple_of(2) {
        return Err(
            item.wrong(format!("`k` is odd: {k}"), format!("a fat-tree needs an even number, for example {}", k + 1))
        );
    }
    Ok(k as u32)
}

/// Keys of `[fabric]` for the uplinks of a leaf: their rate, or the oversubscription from which the rate follows. The
/// constant `CORE` has the corresponding keys for the uplinks of a spine.
const UPLINK: [&str; 2] = ["uplink_rate", "oversubscription"];
const CORE: [&str; 2] = ["core_rate", "core_oversubscription"];

fn read_pods(table: &Table<'_>, rate: BitRate) -> Result<TopologySpec> {
    let count = |key: &str| table.require(key, &format!("{key} = 4"))?.count(MAX);
    let delay_of = |key: &str| table.get(key).map(|item| item.positive_time("2 us")).transpose();
    let (pods, leaves_per_pod, spines_per_pod) = (count("pods")?, count("leaves_per_pod")?, count("spines_per_pod")?);
    let (cores_per_plane, hosts_per_leaf) = (count("cores_per_plane")?, count("hosts_per_leaf")?);
    let of_a_spine = u64::from(leaves_per_pod) + u64::from(cores_per_plane);
    if (u64::from(pods) * u64::from(spines_per_pod)).saturating_mul(of_a_spine) > MAX_UPLINKS {
        let what = format!(
            "{pods} pods of {leaves_per_pod} leaves and {spines_per_pod} spines with {cores_per_plane} cores in each plane"
        );
        return Err(too_many_links(table, &what));
    }
    let uplink_rate = read_uplink(table, UPLINK, (hosts_per_leaf, rate), spines_per_pod)?;
    let of_leaves = (leaves_per_pod, uplink_rate.unwrap_or(rate));
    Ok(TopologySpec::LeafSpineCore {
        pods,
        leaves_per_pod,
        spines_per_pod,
        cores_per_plane,
        hosts_per_leaf,
        uplink_rate,
        uplink_delay: delay_of("uplink_delay")?,
        core_rate: read_uplink(table, CORE, of_leaves, cores_per_plane)?,
        core_delay: delay_of("core_delay")?,
    })
}

fn too_many_links(table: &Table<'_>, what: &str) -> ScenarioError {
    let help = format!("accepted: at most {MAX_UPLINKS} links between them");
    table.error(format!("{what} need too many links"), &help)
}

/// Reads the rate of each of the `up` uplinks of a switch; `None` if the table has neither of `keys`. The first key is
/// the rate itself. The second key is the oversubscription: the bandwidth of the switch's downlinks divided by the
/// bandwidth of its uplinks. `down` is the number and the rate of the downlinks.
fn read_uplink(table: &Table<'_>, keys: [&str; 2], down: (u32, BitRate), up: u32) -> Result<Option<BitRate>> {
    let [rate, oversubscription] = keys;
    let Some(item) = table.get(oversubscription) else {
        return table.get(rate).map(|item| item.rate()).transpose();
    };
    if table.get(rate).is_some() {
        let help = "the one follows from the other: remove one of them";
        return Err(item.wrong(format!("`{oversubscription}` and `{rate}` are both given"), help));
    }
    let ratio = item.number("2.0")?;
    let uplink = f64::from(down.0) * down.1.as_bps() as f64 / (f64::from(up) * ratio);
    if ratio.is_finite() && ratio > 0.0 && (1.0..=1e13).contains(&uplink.round()) {
        return Ok(Some(BitRate::from_bps(uplink.round() as u64)));
    }
    let help = "accepted: a ratio of more than zero that leaves each uplink at most 10 Tbps, for example 2.0";
    Err(item.wrong(format!("`{oversubscription}` is out of range: {ratio}"), help))
}

/// Reads the names of the hosts or switches of a graph: a list such as `["a", "b"]`, or a count. With the letter `h`,
/// the count 3 stands for the names `h0`, `h1` and `h2`.
fn read_names(item: &Item<'_>, letter: char) -> Result<Vec<String>> {
    if !item.is_array() {
        return Ok((0..item.count(MAX)?).map(|number| format!("{letter}{number}")).collect());
    }
    let name = |name: &Item<'_>| {
        let nameless =
            || name.error("a node's name is a string that is not empty", format!("for example \"{letter}0\""));
        name.text().map(str::to_string).ok_or_else(nameless)
    };
    item.array("[]")?.iter().map(name).collect()
}

fn check_hosts(topology: &TopologySpec, chosen: &Item<'_>) -> Result<()> {
    match rnic_run::hosts(topology) {
        0 | 1 => Err(chosen.error("the fabric has fewer than two hosts", "a flow needs a sender and a receiver")),
        count if count > MAX => {
            Err(chosen.error(format!("the fabric has {count} hosts"), format!("accepted: at most {MAX}")))
        }
        _ => Ok(()),
    }
}

fn read_links<'a>(table: &Table<'a>) -> Result<Vec<(NamedLink, Table<'a>)>> {
    let Some(item) = table.get("link") else {
        return Ok(Vec::new());
    };
    let read = |table: Table<'a>| {
        table.accept(&LINK_KEYS)?;
        let link = NamedLink {
            from: table.require("from", "from = \"h0\"")?.name("h0")?.to_string(),
            to: table.require("to", "to = \"s0\"")?.name("s0")?.to_string(),
            rate: table.get("rate").map(|item| item.rate()).transpose()?,
            delay: table.get("delay").map(|item| item.positive_time("2 us")).transpose()?,
            loss: table.get("loss").map(|item| loss(&item)).transpose()?,
        };
        Ok((link, table))
    };
    item.tables("fabric.link")?.into_iter().map(read).collect()
}

/// Maximum time between the starts of the first and the last flow of a traffic source: 60 days, so that sums of times
/// cannot overflow.
pub(super) const LONGEST_TRAFFIC: Time = Time::from_ms(60 * 24 * 3_600 * 1_000);
