//! Reads the fat-tree file of htsim (`.topo`), which describes a regular tree of two or three tiers of switches.
//!
//! The file begins with `Nodes`, `Tiers` and `Podsize`. For each tier from the hosts upwards follow `Tier N` and
//! `Downlink_speed_Gbps`, `Downlink_Latency_ns`, `Radix_Down`, `Radix_Up` (not in the highest tier), and optionally
//! `Switch_Latency_ns`, `Oversubscribed` and `Bundle`, the number of parallel links to each switch below. Keys may be
//! in upper or lower case; lines that begin with `#` are comments. Sizes of queues (`Queue_...`) are ignored:
//! `[fabric.switch]` has the buffers.
//!
//! A top-of-rack switch (`tor`) connects to each aggregation switch (`agg`) of its pod, or of the whole tree with two
//! tiers. The aggregation switch at position p of a pod with n of them connects to the core switches p, p + n, p + 2 n,
//! and so on.
//!
//! Switches of rnic have no latency. So half of the latency of a switch is added to the delay of each of its links, and
//! every path of the tree has the same propagation delay as in htsim.

use super::super::decimal;
use super::super::list::AtLine;
use super::super::topology::{Graph, Link, Node};
use super::MAX_LINKS;
use rnic_spec::settings::MAX_HOSTS;
use rnic_transport::settings::{Kind, Value};
use rnic_transport::{BitRate, Time};

/// Keys of the header and of a tier, in lower case.
const HEADER: [&str; 4] = ["nodes", "tiers", "podsize", "tier"];
const OF_TIER: [&str; 7] = [
    "downlink_speed_gbps",
    "downlink_latency_ns",
    "radix_down",
    "radix_up",
    "switch_latency_ns",
    "oversubscribed",
    "bundle",
];

/// Whether a line of an htsim file may begin with this word.
pub(super) fn is_key(word: &str) -> bool {
    let word = word.to_ascii_lowercase();
    HEADER.contains(&word.as_str()) || OF_TIER.contains(&word.as_str())
}

/// A value and its line.
type Given<T> = Option<(u64, T)>;

/// The settings of a file.
#[derive(Default)]
struct Settings {
    nodes: Given<u32>,
    tiers: Given<u32>,
    podsize: Given<u32>,
    tier: [Tier; 3],
}

/// The settings of a tier.
#[derive(Clone, Copy, Default)]
struct Tier {
    speed: Given<BitRate>,
    delay: Given<Time>,
    down: Given<u32>,
    up: Given<u32>,
    latency: Given<Time>,
    oversubscribed: Given<u32>,
    bundle: Given<u32>,
}

/// Reads a fat-tree file of htsim: the topology, and the numbers of its hosts.
pub(super) fn read(content: &str) -> Result<(Graph, Vec<u32>), AtLine> {
    let settings = read_settings(content)?;
    let shape = Shape::of(&settings)?;
    Ok((shape.graph(), (0..shape.hosts).collect()))
}

fn read_settings(content: &str) -> Result<Settings, AtLine> {
    let mut settings = Settings::default();
    let mut current: Option<usize> = None;
    let lines = (1..).zip(content.lines()).map(|(number, line)| (number, line.trim()));
    for (line, text) in lines.filter(|(_, text)| !text.is_empty() && !text.starts_with('#')) {
        let words: Vec<&str> = text.split_whitespace().collect();
        let [key, value] = words[..] else {
            return Err((line, format!("`{text}` is not a setting; write a key and a value, such as `Nodes 16`")));
        };
        set(&mut settings, &mut current, line, key, value).map_err(|error| (line, error))?;
    }
    Ok(settings)
}

/// Takes one line of the file.
fn set(settings: &mut Settings, current: &mut Option<usize>, line: u64, key: &str, value: &str) -> Result<(), String> {
    let key = key.to_ascii_lowercase();
    match key.as_str() {
        "nodes" => return once(&mut settings.nodes, line, &key, count(&key, value, MAX_HOSTS)?),
        "tiers" => return once(&mut settings.tiers, line, &key, count(&key, value, 3)?),
        "podsize" => return once(&mut settings.podsize, line, &key, count(&key, value, MAX_HOSTS)?),
        "tier" => {
            *current =
                Some(value.parse().ok().filter(|tier| *tier < 3).ok_or_else(|| {
                    format!("tier `{value}` is unknown; accepted: 0, the tier above the hosts, to 2")
                })?);
            return Ok(());
        }
        _ if key.starts_with("queue_") => return Ok(()),
        _ if !OF_TIER.contains(&key.as_str()) => {
            return Err(format!("unknown key `{key}`; accepted: {}, {}", HEADER.join(", "), OF_TIER.join(", ")));
        }
        _ => {}
    }
    let Some(tier) = current.map(|tier| &mut settings.tier[tier]) else {
        return Err(format!("`{key}` belongs to a tier; write `Tier 0` first"));
    };
    match key.as_str() {
        "downlink_speed_gbps" => once(&mut tier.speed, line, &key, rate(value)?),
        "downlink_latency_ns" => once(&mut tier.delay, line, &key, time(&key, value, Kind::Time)?),
        "switch_latency_ns" => once(&mut tier.latency, line, &key, time(&key, value, Kind::Delay)?),
        "radix_down" => once(&mut tier.down, line, &key, count(&key, value, MAX_HOSTS)?),
        "radix_up" => once(&mut tier.up, line, &key, count(&key, value, MAX_HOSTS)?),
        "oversubscribed" => once(&mut tier.oversubscribed, line, &key, count(&key, value, MAX_HOSTS)?),
        _ => once(&mut tier.bundle, line, &key, count(&key, value, MAX_HOSTS)?),
    }
}

fn once<T>(place: &mut Given<T>, line: u64, key: &str, value: T) -> Result<(), String> {
    match place.replace((line, value)) {
        Some((earlier, _)) => Err(format!("`{key}` is there twice, first on line {earlier}; once is enough")),
        None => Ok(()),
    }
}

/// Parses a count from 1 to `max`.
fn count(key: &str, value: &str, max: u32) -> Result<u32, String> {
    let count = value.parse().ok().filter(|count| (1..=max).contains(count));
    count.ok_or_else(|| format!("`{key}` is `{value}`; accepted: a whole number from 1 to {max}"))
}

fn rate(value: &str) -> Result<BitRate, String> {
    let bps = decimal::scaled(value, 9, true).ok().map(BitRate::from_bps);
    let rate = bps.filter(|rate| Kind::Rate.accepts(&Value::Rate(*rate)));
    rate.ok_or_else(|| format!("`downlink_speed_gbps` is `{value}`; accepted: a rate of {}", Kind::Rate.range()))
}

fn time(key: &str, value: &str, kind: Kind) -> Result<Time, String> {
    let time = decimal::scaled(value, 3, true).ok().map(Time::from_ps);
    let time = time.filter(|time| kind.accepts(&Value::Time(*time)));
    time.ok_or_else(|| format!("`{key}` is `{value}`; accepted: a time in nanoseconds, {}", kind.range()))
}

/// The shape of the tree.
struct Shape {
    hosts: u32,
    pods: u32,
    tors_per_pod: u32,
    hosts_per_tor: u32,
    aggs_per_pod: u32,
    /// Number of core switches above each aggregation switch; 0 in a tree of two tiers.
    cores_per_agg: u32,
    /// Number of parallel links between two switches: below aggregation switches, and below core switches.
    bundles: [u32; 2],
    /// Rate and delay of the links below each tier.
    links: Vec<(BitRate, Time)>,
}

/// A setting that the file must have.
fn needed<T>(given: Given<T>, key: &str, tier: Option<usize>) -> Result<(u64, T), AtLine> {
    let of = tier.map_or(String::new(), |tier| format!(" of tier {tier}"));
    given.ok_or_else(|| (0, format!("`{key}`{of} is missing; write it in the file")))
}

/// The quotient of two numbers that must be divisible.
fn quotient(line: u64, dividend: (&str, u32), divisor: (&str, u32)) -> Result<u32, AtLine> {
    if dividend.1.is_multiple_of(divisor.1) {
        return Ok(dividend.1 / divisor.1);
    }
    let (a, b) = (format!("{}, {}", dividend.0, dividend.1), format!("{}, {}", divisor.0, divisor.1));
    Err((line, format!("the {a}, is no multiple of the {b}; accepted: a multiple")))
}

impl Shape {
    fn of(settings: &Settings) -> Result<Shape, AtLine> {
        let (_, hosts) = needed(settings.nodes, "Nodes", None)?;
        let (at_tiers, tiers) = needed(settings.tiers, "Tiers", None)?;
        let (at_pods, podsize) = needed(settings.podsize, "Podsize", None)?;
        if tiers < 2 {
            return Err((at_tiers, format!("`tiers` is {tiers}; accepted: 2 or 3")));
        }
        let tiers = tiers as usize;
        let pods = quotient(at_pods, ("number of nodes", hosts), ("size of a pod", podsize))?;
        if tiers == 2 && pods != 1 {
            let error = format!("a tree of two tiers has one pod, but {podsize} hosts are a pod, not all {hosts}");
            return Err((at_pods, format!("{error}; write `Podsize {hosts}`")));
        }
        let tier = &settings.tier[..tiers];
        let bundle = |tier: usize| settings.tier[tier].bundle.map_or(1, |(_, bundle)| bundle);
        if let Some((line, bundle)) = tier[0].bundle.filter(|(_, bundle)| *bundle != 1) {
            return Err((line, format!("a host has {bundle} links; a host of rnic has exactly one")));
        }
        let (line, hosts_per_tor) = needed(tier[0].down, "Radix_Down", Some(0))?;
        let tors_per_pod = quotient(line, ("size of a pod", podsize), ("number of hosts of a switch", hosts_per_tor))?;
        let (line, up) = needed(tier[0].up, "Radix_Up", Some(0))?;
        let aggs_per_pod = quotient(line, ("radix_up of tier 0", up), ("bundle of tier 1", bundle(1)))?;
        below(&tier[1], 1, tors_per_pod, bundle(1))?;
        let mut cores_per_agg = 0;
        if tiers == 3 {
            let (line, up) = needed(tier[1].up, "Radix_Up", Some(1))?;
            cores_per_agg = quotient(line, ("radix_up of tier 1", up), ("bundle of tier 2", bundle(2)))?;
            below(&tier[2], 2, pods, bundle(2))?;
        }
        if let Some((line, _)) = tier[tiers - 1].up {
            return Err((line, "the highest tier has no links up; remove its `Radix_Up`".to_string()));
        }
        for pair in 1..tiers {
            check_oversubscription(&tier[pair - 1], &tier[pair], pair)?;
        }
        let links = (0..tiers).map(|number| link(tier, number)).collect::<Result<_, _>>()?;
        let bundles = [bundle(1), bundle(2)];
        let shape = Shape { hosts, pods, tors_per_pod, hosts_per_tor, aggs_per_pod, cores_per_agg, bundles, links };
        match shape.count_links() {
            count if count > MAX_LINKS => {
                Err((0, format!("the topology has {count} links; accepted: at most {MAX_LINKS}")))
            }
            _ => Ok(shape),
        }
    }

    fn count_links(&self) -> u64 {
        let [of_aggs, of_cores] = self.bundles.map(u64::from);
        let (pods, aggs) = (u64::from(self.pods), u64::from(self.aggs_per_pod));
        let lower = (pods * u64::from(self.tors_per_pod)).saturating_mul(aggs).saturating_mul(of_aggs);
        let upper = (pods * aggs).saturating_mul(u64::from(self.cores_per_agg)).saturating_mul(of_cores);
        u64::from(self.hosts).saturating_add(lower).saturating_add(upper)
    }

    fn graph(&self) -> Graph {
        let (tors, aggs) = (self.pods * self.tors_per_pod, self.pods * self.aggs_per_pod);
        let cores = self.aggs_per_pod * self.cores_per_agg;
        let mut graph = Graph::default();
        for (prefix, count) in [("h", self.hosts), ("tor", tors), ("agg", aggs), ("core", cores)] {
            let is_switch = prefix != "h";
            graph.nodes.extend((0..count).map(|number| Node { name: format!("{prefix}{number}"), is_switch }));
        }
        let (first_tor, first_agg, first_core) = (self.hosts, self.hosts + tors, self.hosts + tors + aggs);
        let mut join = |a: u32, b: u32, tier: usize, bundle: u32| {
            let (rate, delay) = self.links[tier];
            graph.links.extend((0..bundle).map(|_| Link { ends: [a, b], rate, delay, loss: 0.0 }));
        };
        for host in 0..self.hosts {
            join(host, first_tor + host / self.hosts_per_tor, 0, 1);
        }
        for tor in 0..tors {
            let pod = tor / self.tors_per_pod;
            for agg in 0..self.aggs_per_pod {
                join(first_tor + tor, first_agg + pod * self.aggs_per_pod + agg, 1, self.bundles[0]);
            }
        }
        for agg in 0..aggs {
            for core in 0..self.cores_per_agg {
                let core = agg % self.aggs_per_pod + core * self.aggs_per_pod;
                join(first_agg + agg, first_core + core, 2, self.bundles[1]);
            }
        }
        graph
    }
}

/// Checks that a switch of tier `number` has ports for `switches` switches below it, with `bundle` links to each.
fn below(tier: &Tier, number: usize, switches: u32, bundle: u32) -> Result<(), AtLine> {
    let (line, down) = needed(tier.down, "Radix_Down", Some(number))?;
    let ports = u64::from(switches) * u64::from(bundle);
    if u64::from(down) == ports {
        return Ok(());
    }
    let links = if bundle == 1 { String::new() } else { format!(" with {bundle} links each") };
    Err((
        line,
        format!(
            "a switch of tier {number} has {down} ports down for {switches} switches{links}; accepted: {ports} ports"
        ),
    ))
}

/// Checks that the oversubscription that the file states for a tier follows from its ports and rates.
fn check_oversubscription(lower: &Tier, upper: &Tier, above: usize) -> Result<(), AtLine> {
    let Some((line, stated)) = lower.oversubscribed else { return Ok(()) };
    let tier = above - 1;
    let (_, speed) = needed(lower.speed, "Downlink_speed_Gbps", Some(tier))?;
    let (_, uplink) = needed(upper.speed, "Downlink_speed_Gbps", Some(above))?;
    let (_, down) = needed(lower.down, "Radix_Down", Some(tier))?;
    let (_, up) = needed(lower.up, "Radix_Up", Some(tier))?;
    let below = u128::from(down) * u128::from(speed.as_bps());
    let beyond = u128::from(up) * u128::from(uplink.as_bps());
    if below == beyond * u128::from(stated) {
        return Ok(());
    }
    let error = format!("tier {tier} is said to be oversubscribed {stated}:1, but {down} ports of {speed} lead down");
    Err((line, format!("{error} and {up} ports of {uplink} up; correct one of them")))
}

/// Rate and delay of the links below tier `number`, with half of the latencies of the switches at their ends.
fn link(tiers: &[Tier], number: usize) -> Result<(BitRate, Time), AtLine> {
    let latency = |tier: Option<usize>| {
        tier.and_then(|tier| tiers[tier].latency).map_or(Time::ZERO, |(_, time)| Time::from_ps(time.as_ps() / 2))
    };
    let (_, rate) = needed(tiers[number].speed, "Downlink_speed_Gbps", Some(number))?;
    let (_, delay) = needed(tiers[number].delay, "Downlink_Latency_ns", Some(number))?;
    Ok((rate, delay + latency(Some(number)) + latency(number.checked_sub(1))))
}
