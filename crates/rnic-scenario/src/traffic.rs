//! Reads the traffic sources of a scenario: one `[traffic]` table, or several `[[traffic]]` tables.

use super::extends::Files;
use super::fabric::LONGEST_TRAFFIC;
use super::names::{PATTERNS, names};
use super::reader::{Item, Result, Table, Variant};
use crate::format::list::{self, LARGEST_FLOW, ListFormat};
use rnic_run::{FlowSpec, SizeDistribution};
use rnic_run::{Incast, Traffic, TrafficPattern};
use rnic_transport::{Bytes, Time};
use rnic_workload::{Loops, sizes};
use std::cell::RefCell;
use std::collections::BTreeMap;
use std::path::PathBuf;
use std::sync::Arc;

/// Maximum number of flows of one traffic source, so that the flow ids of several sources fit into 32 bits.
const MOST_FLOWS: u64 = 1_000_000_000;

pub(super) const COMMON: [&str; 6] = ["pattern", "name", "warmup", "cooldown", "start", "priority"];
pub(super) const VARIANTS: [Variant; 6] = [
    Variant { name: "poisson", keys: &["load", "sizes", "flows"] },
    Variant {
        name: "incast",
        keys: &["senders", "total", "repeats", "receiver", "connections", "interval", "think_time", PERSISTENT],
    },
    Variant { name: "permutation", keys: &["sizes", "repeats", "interval"] },
    Variant { name: "all-to-all", keys: &["sizes", "repeats", "interval", "outstanding", "think_time"] },
    Variant { name: "pairs", keys: &["pairs", "sizes", "messages", "think_time", PERSISTENT] },
    Variant { name: "list", keys: &["file", "format"] },
];

/// Context in which the traffic of a run is read: the number of hosts of the run's fabric, and the flow lists that
/// earlier runs have read.
pub(super) struct Context<'a> {
    pub(super) hosts: u32,
    pub(super) lists: &'a Lists<'a>,
}

/// Where to read flow lists (traffic in files), and a cache of the lists that earlier runs of the scenario have read.
pub(super) struct Lists<'f> {
    pub(super) files: Files<'f>,
    read: RefCell<BTreeMap<ListKey, Arc<[FlowSpec]>>>,
}

impl<'f> Lists<'f> {
    pub(super) fn new(files: Files<'f>) -> Lists<'f> {
        Lists { files, read: RefCell::default() }
    }
}

/// Key of a cached flow list: path of the file, whether its format is CSV, and the number of hosts of the fabric.
type ListKey = (PathBuf, bool, u32);

/// Reads all traffic sources of a run from one `[traffic]` table or several `[[traffic]]` tables.
pub(super) fn read(item: &Item<'_>, context: &Context<'_>) -> Result<Vec<Traffic>> {
    let tables = if item.is_array() { item.tables("traffic")? } else { vec![item.table("[traffic]")?] };
    if tables.is_empty() {
        return Err(item.error("there is no traffic", "write [traffic] with a `pattern`"));
    }
    let mut sources: Vec<Traffic> = Vec::new();
    for table in &tables {
        let traffic = read_source(table, context)?;
        if sources.iter().any(|other| other.name == traffic.name) {
            let message = format!("two traffic sources are called \"{}\"", traffic.name);
            return Err(table.error_at("name", message, "give each its own `name`"));
        }
        sources.push(traffic);
    }
    if sources.len() > usize::from(u16::MAX) {
        return Err(item.error("there are too many traffic sources", format!("accepted: at most {}", u16::MAX)));
    }
    Ok(sources)
}

fn read_source(table: &Table<'_>, context: &Context<'_>) -> Result<Traffic> {
    let chosen = table.require("pattern", "pattern = \"poisson\"")?.choice(&names(PATTERNS))?;
    table.accept_variant(&COMMON, "pattern", chosen, &VARIANTS)?;
    let count = |key: &str| table.get(key).map_or(Ok(0), |item| item.integer(0..=MOST_FLOWS));
    let traffic = Traffic {
        name: table.get("name").map_or(Ok(chosen), |item| item.name("background"))?.to_string(),
        pattern: read_pattern(table, chosen, context)?,
        warmup: count("warmup")?,
        cooldown: count("cooldown")?,
        start: table.get("start").map_or(Ok(Time::ZERO), |item| item.time("0 us"))?,
        priority: table.get("priority").map_or(Ok(0), |item| item.integer(0..=7))? as u8,
    };
    check_flows(table, &traffic, context.hosts)?;
    Ok(traffic)
}

fn read_pattern(table: &Table<'_>, chosen: &str, context: &Context<'_>) -> Result<TrafficPattern> {
    let sizes = || read_sizes(&table.require("sizes", "sizes = \"irn-heavy-tailed\"")?, context.lists.files);
    let repeats = || table.get("repeats").map_or(Ok(1), |item| item.count(u32::MAX));
    let every = || table.get("interval").map_or(Ok(Time::from_ms(1)), |item| item.positive_time("1 ms"));
    Ok(match chosen {
        "poisson" => TrafficPattern::Poisson {
            load: read_load(&table.require("load", "load = 0.7")?)?,
            sizes: sizes()?,
            flows: table.require("flows", "flows = 20000")?.integer(1..=MOST_FLOWS)?,
        },
        "incast" => read_incast(table, context.hosts)?,
        "pairs" => TrafficPattern::Pairs {
            pairs: table.require("pairs", "pairs = 20")?.count(Loops::MAX_PAIRS)?,
            sizes: sizes()?,
            messages: table.get("messages").map(|item| item.count(u32::MAX)).transpose()?,
            think_time: read_think_time(table)?,
            persistent: read_persistent(table)?,
        },
        "permutation" => TrafficPattern::Permutation { sizes: sizes()?, repeats: repeats()?, interval: every()? },
        "all-to-all" => match table.get("outstanding") {
            None => {
                refuse_loop_keys(table, &["think_time"], "messages start at fixed times", "set `outstanding`")?;
                TrafficPattern::AllToAll { sizes: sizes()?, repeats: repeats()?, interval: every()? }
            }
            Some(outstanding) => {
                if let Some(item) = table.get("interval") {
                    let help = "with `outstanding` a host's next message starts when an earlier one has arrived: remove one of them";
                    return Err(item.wrong("`interval` and `outstanding` are both given", help));
                }
                let outstanding = outstanding.integer(1..=u64::from(context.hosts) - 1)? as u32;
                TrafficPattern::AllToAllLoop {
                    sizes: sizes()?,
                    repeats: repeats()?,
                    outstanding,
                    think_time: read_think_time(table)?,
                }
            }
        },
        _ => TrafficPattern::List { flows: read_list(table, context)? },
    })
}

fn read_load(item: &Item<'_>) -> Result<f64> {
    let load = item.number("0.7")?;
    if load > 0.0 && load <= 1.0 {
        return Ok(load);
    }
    let help = "accepted: a fraction of the host links' rate, more than 0 and at most 1";
    Err(item.wrong(format!("`load` is out of range: {load}"), help))
}

fn read_sizes(item: &Item<'_>, files: Files<'_>) -> Result<SizeDistribution> {
    let text = item.name("irn-heavy-tailed")?;
    let embedded = match files {
        Files::Embedded(_) => files.read(&item.folder().join(text)).ok(),
        Files::Disk => None,
    };
    let sizes = match embedded {
        Some(content) => sizes::of_cdf(text, &content),
        None => sizes::parse(text, item.folder()),
    };
    let sizes = sizes.map_err(|sentence| item.wrong_sentence(&sentence))?;
    match sizes.points.last() {
        Some((bytes, _)) if *bytes > LARGEST_FLOW.0 as f64 => {
            let message = format!("`sizes` has flows of up to {}", Bytes(*bytes as u64));
            Err(item.wrong(message, "accepted: at most 1000 TB"))
        }
        _ => Ok(sizes),
    }
}

fn read_incast(table: &Table<'_>, hosts: u32) -> Result<TrafficPattern> {
    let senders_item = table.require("senders", "senders = 30")?;
    let senders = senders_item.count(u32::MAX)?;
    if senders >= hosts {
        let message = format!("{senders} senders do not fit: the fabric has {hosts} hosts and one receives");
        return Err(senders_item.error(message, format!("accepted: 1 to {}", hosts - 1)));
    }
    let receiver = table.get("receiver").map_or(Ok(0), |item| item.integer(0..=u64::from(hosts) - 1))? as u32;
    let connections = table.get("connections").map_or(Ok(1), |item| item.count(u32::MAX))?;
    let total_item = table.require("total", "total = \"150 MB\"")?;
    let least = u64::from(senders) * u64::from(connections);
    let total = total_item.bytes(least..=100_000_000_000_000, "150 MB")?;
    let repeats = table.get("repeats").map(|item| item.count(u32::MAX)).transpose()?;
    let interval = table.get("interval");
    if interval.as_ref().is_some_and(|item| item.string("").is_ok_and(|text| text == COMPLETION)) {
        let incast = Incast { senders, total, receiver, connections };
        let (think_time, persistent) = (read_think_time(table)?, read_persistent(table)?);
        return Ok(TrafficPattern::IncastLoop { incast, repeats, think_time, persistent });
    }
    let instead = format!("set `interval = \"{COMPLETION}\"`");
    refuse_loop_keys(table, &["think_time", PERSISTENT], "requests start at fixed times", &instead)?;
    if let Some(item) = &interval
        && let Some(text) = item.string("").ok().filter(|text| !text.contains(|c: char| c.is_ascii_digit()))
    {
        let help = format!("write a time, for example \"1 ms\", or \"{COMPLETION}\"");
        return Err(item.wrong(format!("`interval`: `{text}` is no time"), help));
    }
    let interval = interval.map(|item| item.positive_time("1 ms")).transpose()?;
    let repeats = repeats.unwrap_or(1);
    Ok(TrafficPattern::Incast { senders, total, repeats, receiver, connections, interval })
}

/// Value of an incast's `interval` for a closed loop: the next request starts when the previous request is complete.
const COMPLETION: &str = "completion";

/// The key that says whether the flows of a closed loop share persistent connections.
const PERSISTENT: &str = "persistent_connections";

fn read_persistent(table: &Table<'_>) -> Result<bool> {
    table.get(PERSISTENT).map_or(Ok(false), |item| item.boolean())
}

/// Fails if the traffic table has one of `keys`, which only closed loops have. `why` and `instead` are parts of the
/// error message.
fn refuse_loop_keys(table: &Table<'_>, keys: &[&str], why: &str, instead: &str) -> Result<()> {
    match keys.iter().find_map(|key| Some((key, table.get(key)?))) {
        None => Ok(()),
        Some((key, item)) => {
            let help = format!("{instead}, or remove `{key}`");
            Err(item.error(format!("`{key}` has no meaning where {why}"), help))
        }
    }
}

fn read_think_time(table: &Table<'_>) -> Result<Time> {
    table.get("think_time").map_or(Ok(Time::ZERO), |item| item.time("10 us"))
}

/// Fails if a traffic source never ends and the run has no `duration`, so that nothing would end the run.
pub(super) fn check_end(item: &Item<'_>, traffic: &[Traffic], duration: Option<Time>) -> Result<()> {
    match traffic.iter().find(|source| source.pattern.is_endless() && duration.is_none()) {
        None => Ok(()),
        Some(source) => {
            let key = if matches!(source.pattern, TrafficPattern::Pairs { .. }) { "messages" } else { "repeats" };
            let message = format!("traffic \"{}\" never ends", source.name);
            Err(item.error(message, format!("give it `{key}`, or the run a `duration` in [limits]")))
        }
    }
}

fn read_list(table: &Table<'_>, context: &Context<'_>) -> Result<Arc<[FlowSpec]>> {
    let item = table.require("file", "file = \"flows.csv\"")?;
    let path = item.folder().join(item.name("flows.csv")?);
    let is_csv = match table.get("format") {
        Some(format) => format.choice(&["csv", "hpcc"])? == "csv",
        None => path.extension().is_some_and(|extension| extension == "csv"),
    };
    let format = if is_csv { ListFormat::Csv } else { ListFormat::Hpcc };
    let key = (path, is_csv, context.hosts);
    if let Some(flows) = context.lists.read.borrow().get(&key) {
        return Ok(flows.clone());
    }
    let flows = match context.lists.files {
        Files::Disk => list::read_flow_list(&key.0, format, context.hosts),
        files => files.read(&key.0).and_then(|text| list::parse_flow_list(&text, &key.0, format, context.hosts)),
    };
    let flows = flows.map_err(|sentence| item.sentence(&sentence))?;
    if flows.is_empty() {
        return Err(item.wrong("the file has no flows", "a flow list has at least one flow"));
    }
    let flows: Arc<[FlowSpec]> = flows.into();
    context.lists.read.borrow_mut().insert(key, flows.clone());
    Ok(flows)
}

/// The number of flows of a traffic pattern ([`u128::MAX`] for endless traffic), and the time in picoseconds between
/// the starts of its first and last flow (0 if the settings do not determine it).
fn extent(pattern: &TrafficPattern, hosts: u32) -> (u128, u128) {
    let hosts = u128::from(hosts);
    let span = |repeats: u32, interval: Time| u128::from(repeats - 1) * u128::from(interval.as_ps());
    match pattern {
        TrafficPattern::Poisson { flows, .. } => (u128::from(*flows), 0),
        TrafficPattern::Incast { senders, repeats, connections, interval, .. } => {
            let flows = u128::from(*senders) * u128::from(*connections) * u128::from(*repeats);
            (flows, span(*repeats, interval.unwrap_or(Time::ZERO)))
        }
        TrafficPattern::Permutation { repeats, interval, .. } => {
            (hosts * u128::from(*repeats), span(*repeats, *interval))
        }
        TrafficPattern::AllToAll { repeats, interval, .. } => {
            (hosts * (hosts - 1) * u128::from(*repeats), span(*repeats, *interval))
        }
        TrafficPattern::AllToAllLoop { repeats, .. } => (hosts * (hosts - 1) * u128::from(*repeats), 0),
        TrafficPattern::List { flows } => (flows.len() as u128, 0),
        TrafficPattern::Pairs { pairs, messages, .. } => {
            (messages.map_or(u128::MAX, |messages| u128::from(*pairs) * u128::from(messages)), 0)
        }
        TrafficPattern::IncastLoop { incast, repeats, .. } => {
            let flows = u128::from(incast.senders) * u128::from(incast.connections);
            (repeats.map_or(u128::MAX, |repeats| flows * u128::from(repeats)), 0)
        }
    }
}

/// Checks that the number of flows of a traffic source is within the limit, and that `warmup` and `cooldown` leave
/// flows for the statistics.
fn check_flows(table: &Table<'_>, traffic: &Traffic, hosts: u32) -> Result<()> {
    let (flows, span) = extent(&traffic.pattern, hosts);
    if traffic.pattern.is_endless() {
        return match table.get("cooldown").filter(|_| traffic.cooldown > 0) {
            None => Ok(()),
            Some(item) => {
                Err(item.error("`cooldown` has no meaning: this traffic has no last flows", "remove `cooldown`"))
            }
        };
    }
    if flows > u128::from(MOST_FLOWS) {
        let help = format!("accepted: at most {MOST_FLOWS} flows in one source");
        return Err(table.error(format!("this traffic has {flows} flows"), &help));
    }
    if span > u128::from(LONGEST_TRAFFIC.as_ps()) {
        return Err(table.error("`repeats` times `interval` is too long", "accepted: at most 60 days"));
    }
    if u128::from(traffic.warmup + traffic.cooldown) < flows {
        return Ok(());
    }
    let message = if traffic.cooldown == 0 {
        format!("a `warmup` of {} leaves none of the {flows} flows to measure", traffic.warmup)
    } else {
        format!(
            "`warmup` and `cooldown` of {} leave none of the {flows} flows to measure",
            traffic.warmup + traffic.cooldown
        )
    };
    let help = "together they must be fewer than the flows";
    let key = if table.get("warmup").is_some() { "warmup" } else { "cooldown" };
    Err(table.error_at(key, message, help))
}
