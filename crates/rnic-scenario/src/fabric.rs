//! The `[fabric]` table.

use super::error::ScenarioError;
use super::faults;
use super::graph;
use super::names::{TOPOLOGIES, names};
use super::output;
use super::reader::{Item, Result, Table, Variant};
use rnic_fabric::config::{LinkSpec, NamedLink, Paths, TopologySpec};
use rnic_run::{EcnSetup, FabricSetup, QueueingSetup, SharedSetup, SwitchSetup};
use rnic_transport::{BitRate, Bytes, Time};

/// Most hosts, and most of anything else that is counted in a topology.
const MOST: u32 = 1_000_000;
/// Most cables between switches.
const MOST_UPLINKS: u64 = 10_000_000;
/// Largest `k` of a fat-tree: 65,536 hosts.
const LARGEST_K: u64 = 64;

const COMMON: [&str; 11] =
    ["topology", "rate", "delay", "loss", "mtu", "frame_gap", "paths", "switch", "link", "route", "storm"];
const VARIANTS: [Variant; 6] = [
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

const SWITCH_COMMON: [&str; 3] = ["queueing", "buffer", "ecn"];
const SWITCH_VARIANTS: [Variant; 3] = [
    Variant { name: "input", keys: &["xoff", "headroom", "xon"] },
    Variant {
        name: "shared",
        keys: &["xoff", "headroom", "beta", "resume", "egress_alpha", "mark", "classes", "weights"],
    },
    Variant { name: "output", keys: &output::KEYS },
];

/// Reads the `[fabric]` table.
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
        topology,
        link,
        links: links.into_iter().map(|(link, _)| link).collect(),
        mtu: table.get("mtu").map_or(Ok(Bytes(1_024)), |item| item.bytes(64..=9_000, "1024 B"))?,
        frame_gap: table.get("frame_gap").map_or(Ok(Bytes(20)), |item| item.bytes(0..=1_000, "20 B"))?,
        paths: table.get("paths").map(|item| paths(&item)).transpose()?,
        switch: match table.get("switch") {
            Some(item) => read_switch(&item.table("[fabric.switch]")?)?,
            None => SwitchSetup::default(),
        },
    };
    faults::check_routes(&fabric, &routes)?;
    Ok(fabric)
}

fn paths(item: &Item<'_>) -> Result<Paths> {
    Ok(if item.choice(&["ecmp", "spray"])? == "spray" { Paths::Spray } else { Paths::Ecmp })
}

fn loss(item: &Item<'_>) -> Result<f64> {
    let loss = item.number("0.001")?;
    if (0.0..1.0).contains(&loss) {
        return Ok(loss);
    }
    Err(item.error(format!("`loss` is out of range: {loss}"), "accepted: a probability of at least 0 and less than 1"))
}

fn read_topology(table: &Table<'_>, topology: &str, rate: BitRate) -> Result<TopologySpec> {
    let count = |key: &str| table.require(key, &format!("{key} = 4"))?.count(MOST);
    let rate_of = |key: &str| table.get(key).map(|item| item.rate()).transpose();
    let delay_of = |key: &str| table.get(key).map(|item| item.positive_time("2 us")).transpose();
    Ok(match topology {
        "fat-tree" => TopologySpec::FatTree { k: read_k(table)? },
        "leaf-spine" => {
            let (leaves, spines, hosts_per_leaf) = (count("leaves")?, count("spines")?, count("hosts_per_leaf")?);
            if u64::from(leaves) * u64::from(spines) > MOST_UPLINKS {
                return Err(too_many_cables(table, &format!("{leaves} leaves and {spines} spines")));
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
    let k = item.integer(2..=LARGEST_K)?;
    if !k.is_multiple_of(2) {
        return Err(
            item.error(format!("`k` is odd: {k}"), format!("a fat-tree needs an even number, for example {}", k + 1))
        );
    }
    Ok(k as u32)
}

/// Keys of a switch's cables upwards: their rate, and the oversubscription that it follows from.
const UPLINK: [&str; 2] = ["uplink_rate", "oversubscription"];
const CORE: [&str; 2] = ["core_rate", "core_oversubscription"];

fn read_pods(table: &Table<'_>, rate: BitRate) -> Result<TopologySpec> {
    let count = |key: &str| table.require(key, &format!("{key} = 4"))?.count(MOST);
    let delay_of = |key: &str| table.get(key).map(|item| item.positive_time("2 us")).transpose();
    let (pods, leaves_per_pod, spines_per_pod) = (count("pods")?, count("leaves_per_pod")?, count("spines_per_pod")?);
    let (cores_per_plane, hosts_per_leaf) = (count("cores_per_plane")?, count("hosts_per_leaf")?);
    let of_a_spine = u64::from(leaves_per_pod) + u64::from(cores_per_plane);
    if (u64::from(pods) * u64::from(spines_per_pod)).saturating_mul(of_a_spine) > MOST_UPLINKS {
        let what = format!(
            "{pods} pods of {leaves_per_pod} leaves and {spines_per_pod} spines with {cores_per_plane} cores in each plane"
        );
        return Err(too_many_cables(table, &what));
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

fn too_many_cables(table: &Table<'_>, what: &str) -> ScenarioError {
    let help = format!("accepted: at most {MOST_UPLINKS} cables between them");
    table.error(format!("{what} need too many cables"), &help)
}

/// The rate of each of `up` cables of a switch upwards: as one of `keys` says it, or so that the bandwidth of the cables `down`, so many
/// of such a rate, is the wanted multiple of theirs.
fn read_uplink(table: &Table<'_>, keys: [&str; 2], down: (u32, BitRate), up: u32) -> Result<Option<BitRate>> {
    let [rate, oversubscription] = keys;
    let Some(item) = table.get(oversubscription) else {
        return table.get(rate).map(|item| item.rate()).transpose();
    };
    if table.get(rate).is_some() {
        let help = "the one follows from the other: remove one of them";
        return Err(item.error(format!("`{oversubscription}` and `{rate}` are both given"), help));
    }
    let ratio = item.number("2.0")?;
    let uplink = f64::from(down.0) * down.1.as_bps() as f64 / (f64::from(up) * ratio);
    if ratio.is_finite() && ratio > 0.0 && (1.0..=1e13).contains(&uplink.round()) {
        return Ok(Some(BitRate::from_bps(uplink.round() as u64)));
    }
    let help = "accepted: a ratio of more than zero that leaves each uplink at most 10 Tbps, for example 2.0";
    Err(item.error(format!("`{oversubscription}` is out of range: {ratio}"), help))
}

/// `["a", "b"]`, or a count that names them by letter and number.
fn read_names(item: &Item<'_>, letter: char) -> Result<Vec<String>> {
    if !item.is_array() {
        return Ok((0..item.count(MOST)?).map(|number| format!("{letter}{number}")).collect());
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
        count if count > MOST => {
            Err(chosen.error(format!("the fabric has {count} hosts"), format!("accepted: at most {MOST}")))
        }
        _ => Ok(()),
    }
}

fn read_links<'a>(table: &Table<'a>) -> Result<Vec<(NamedLink, Table<'a>)>> {
    let Some(item) = table.get("link") else {
        return Ok(Vec::new());
    };
    let read = |table: Table<'a>| {
        table.accept(&["from", "to", "rate", "delay", "loss"])?;
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

fn read_switch(table: &Table<'_>) -> Result<SwitchSetup> {
    let queueing = table.get("queueing").map_or(Ok("input"), |item| item.choice(&["input", "shared", "output"]))?;
    table.accept_variant(&SWITCH_COMMON, "queueing", queueing, &SWITCH_VARIANTS)?;
    let queueing = match queueing {
        "shared" => QueueingSetup::Shared(read_shared(table)?),
        "output" => QueueingSetup::Output(output::read(table)?),
        _ => QueueingSetup::Input,
    };
    let at_least =
        |least: u64, key: &str| table.get(key).map(|item| item.bytes(least..=1_000_000_000_000, "240 KB")).transpose();
    let size = |key: &str| at_least(1, key);
    let ecn = table.get("ecn").map_or(Ok(EcnSetup::default()), |item| read_ecn(&item))?;
    let switch = SwitchSetup {
        queueing,
        buffer: size("buffer")?,
        xoff: size("xoff")?,
        xon: size("xon")?,
        headroom: at_least(0, "headroom")?,
        ecn,
    };
    const OR_ELSE: &str = ": change both, or leave it out";
    table.ordered(("xoff", switch.xoff), ("buffer", switch.buffer), OR_ELSE)?;
    table.ordered(("xon", switch.xon), ("xoff", switch.xoff), OR_ELSE)?;
    table.ordered(("xon", switch.xon), ("buffer", switch.buffer), OR_ELSE)?;
    Ok(switch)
}

fn read_shared(table: &Table<'_>) -> Result<SharedSetup> {
    let factor = |key: &str| {
        let positive = |item: Item<'_>| match item.number("8")? {
            factor if factor > 0.0 && factor <= 1e6 => Ok(factor),
            factor => {
                let help = "accepted: more than 0, at most 1000000";
                Err(item.error(format!("`{key}` is out of range: {factor}"), help))
            }
        };
        table.get(key).map(positive).transpose()
    };
    if let (Some(beta), Some(_)) = (table.get("beta"), table.get("xoff")) {
        let help = "`beta` makes PFC's threshold dynamic, `xoff` static: remove one of them";
        return Err(beta.error("`beta` and `xoff` are both given", help));
    }
    let classes = table.get("classes").map(|item| item.integer(1..=8)).transpose()?.map(|classes| classes as u8);
    Ok(SharedSetup {
        beta: factor("beta")?,
        resume: table.get("resume").map(|item| item.bytes(0..=1_000_000_000_000, "3 KB")).transpose()?,
        egress_alpha: factor("egress_alpha")?,
        mark_departures: table.get("mark").map(|item| item.choice(&["arrivals", "departures"])).transpose()?
            != Some("arrivals"),
        classes,
        weights: table.get("weights").map(|item| weights(&item, classes)).transpose()?,
    })
}

/// `weights = [1, 4, 0]`, one for each class.
fn weights(item: &Item<'_>, classes: Option<u8>) -> Result<[u32; 8]> {
    let items = item.array("[1, 0]")?;
    let wanted = classes.map_or(1..=8, |classes| usize::from(classes)..=usize::from(classes));
    if !wanted.contains(&items.len()) {
        let help = match classes {
            Some(classes) => format!("accepted: one for each of the {classes} classes, the lowest first"),
            None => "accepted: one for each class, the lowest first, 8 at most".to_string(),
        };
        return Err(item.error(format!("`weights` has {} entries", items.len()), help));
    }
    let mut weights = [0; 8];
    for (weight, item) in weights.iter_mut().zip(items) {
        *weight = item.integer(0..=1_000)? as u32;
    }
    Ok(weights)
}

/// `ecn = false`, or a table of thresholds.
fn read_ecn(item: &Item<'_>) -> Result<EcnSetup> {
    if !item.is_table() {
        let off = !item.boolean()?;
        return Ok(EcnSetup { off, ..EcnSetup::default() });
    }
    let table = item.table("[fabric.switch.ecn]")?;
    table.accept(&["kmin", "kmax", "pmax"])?;
    let size = |key: &str| table.get(key).map(|item| item.bytes(0..=1_000_000_000_000, "5 KB")).transpose();
    let pmax = |item: Item<'_>| match item.number("0.01")? {
        pmax if (0.0..=1.0).contains(&pmax) => Ok(pmax),
        pmax => {
            Err(item.error(format!("`pmax` is out of range: {pmax}"), "accepted: a probability, 0 to 1".to_string()))
        }
    };
    let ecn = EcnSetup {
        off: false,
        kmin: size("kmin")?,
        kmax: size("kmax")?,
        pmax: table.get("pmax").map(pmax).transpose()?,
    };
    table.ordered(("kmin", ecn.kmin), ("kmax", ecn.kmax), "")?;
    Ok(ecn)
}

/// Checks that a switch's buffer, where given, holds one full packet of `mtu` and `header`.
pub(super) fn check_buffer(table: &Table<'_>, fabric: &FabricSetup, header: Bytes) -> Result<()> {
    let buffer_item = table.get("switch").and_then(|item| item.table("[fabric.switch]").ok()?.get("buffer"));
    let packet = Bytes(fabric.mtu.0 + header.0);
    match (fabric.switch.buffer, buffer_item) {
        (Some(buffer), Some(item)) if buffer < packet => {
            let message = format!("`buffer` of {buffer} does not hold one full packet");
            let help = format!("a packet takes {packet} (mtu {} and headers of {header})", fabric.mtu);
            Err(item.error(message, help))
        }
        _ => Ok(()),
    }
}

/// Longest time that a whole traffic source may span, so that sums of times stay far from overflow.
pub(super) const LONGEST_TRAFFIC: Time = Time::from_ms(60 * 24 * 3_600 * 1_000);
