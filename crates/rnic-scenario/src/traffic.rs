//! Reads the traffic sources of a scenario: one `[traffic]` table, or several `[[traffic]]` tables.

use super::deployment::{self, read_ranks, read_straggler};
use super::extends::Files;
use super::fabric::LONGEST_TRAFFIC;
use super::list::{self, Context};
use super::reader::{Item, Result, Table};
use crate::format::list::LARGEST_FLOW;
use rnic_spec::settings::{COMPLETION, MAX_FLOWS, ROTATIONS};
use rnic_spec::{
    Algorithm, Arrivals, Collective, CollectiveOperation, Deployment, Incast, Locality, Receiver, Rotation,
    SizeDistribution, Traffic, TrafficPattern, row_sum,
};
use rnic_transport::settings::Kind;
use rnic_transport::{Bytes, Time};
use rnic_workload::{Program, sizes};

/// Reads all traffic sources of a run from one `[traffic]` table or several `[[traffic]]` tables.
pub(super) fn read(item: &Item<'_>, context: &Context<'_>) -> Result<Vec<Traffic>> {
    let tables = if item.is_array() { item.tables()? } else { vec![item.table()?] };
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
    let traffic = Traffic {
        name: table.given("name")?.unwrap_or_else(|| table.variant().to_string()),
        pattern: read_pattern(table, context)?,
        warmup: table.value("warmup")?,
        cooldown: table.value("cooldown")?,
        start: table.value("start")?,
        priority: table.value("priority")?,
    };
    check_flows(table, &traffic, context.hosts)?;
    Ok(traffic)
}

fn read_pattern(table: &Table<'_>, context: &Context<'_>) -> Result<TrafficPattern> {
    let sizes = || read_sizes(&table.require("sizes")?, context.lists.files);
    if table.get("server_file").is_some() {
        deployment::check_nics(table, context.rate, context.lists.files)?;
    }
    Ok(match table.variant() {
        "poisson" => TrafficPattern::Poisson {
            load: table.value("load")?,
            sizes: sizes()?,
            flows: table.value("flows")?,
            locality: read_locality(table)?,
            arrivals: read_arrivals(table)?,
        },
        "incast" => read_incast(table, context.hosts)?,
        "pairs" => TrafficPattern::Pairs {
            pairs: table.value("pairs")?,
            sizes: sizes()?,
            messages: table.given("messages")?,
            think_time: table.value("think_time")?,
            persistent: table.value(PERSISTENT)?,
        },
        "permutation" => TrafficPattern::Permutation {
            sizes: sizes()?,
            repeats: table.value("repeats")?,
            interval: table.value("interval")?,
        },
        "all-to-all" => match table.get("outstanding") {
            None => {
                refuse_keys(table, &["think_time"], "messages start at fixed times", "set `outstanding`")?;
                let (repeats, interval) = (table.value("repeats")?, table.value("interval")?);
                TrafficPattern::AllToAll { sizes: sizes()?, repeats, interval }
            }
            Some(outstanding) => {
                if let Some(item) = table.get("interval") {
                    let help = "with `outstanding` a host's next message starts when an earlier one has arrived: remove one of them";
                    return Err(item.wrong("`interval` and `outstanding` are both given", help));
                }
                let others = Kind::Count { min: 1, max: u64::from(context.hosts) - 1 };
                TrafficPattern::AllToAllLoop {
                    outstanding: outstanding.narrowed(others).typed()?,
                    sizes: sizes()?,
                    repeats: table.value("repeats")?,
                    think_time: table.value("think_time")?,
                }
            }
        },
        "collective" => TrafficPattern::Collective(read_collective(table, context.places, context.lists.files)?),
        "outside" => {
            refuse_keys(table, &["start", "cooldown"], "another program submits the flows", "let the program decide")?;
            TrafficPattern::Outside { largest: table.value("largest")?, reaction: table.given("reaction")? }
        }
        "trace" => TrafficPattern::Trace(Box::new(super::trace::read(
            table,
            context.places,
            context.lists.files,
            &context.lists.surveyed,
        )?)),
        "inference" => {
            TrafficPattern::Inference(Box::new(super::inference::read(table, context.places, context.lists.files)?))
        }
        "training" => {
            TrafficPattern::Training(Box::new(super::training::read(table, context.places, context.lists.files)?))
        }
        _ => list::read(table, context)?,
    })
}

/// Reads which fractions of the flows stay near their sender. The simulator checks that the fabric has such hosts.
fn read_locality(table: &Table<'_>) -> Result<Locality> {
    let locality = Locality { leaf: table.given("locality")?, pod: table.given("pod_locality")? };
    let near = locality.leaf.unwrap_or(0.0) + locality.pod.unwrap_or(0.0);
    if near > 1.0 + f64::EPSILON {
        let message = format!("`locality` and `pod_locality` are {near} together");
        return Err(table.error_at("pod_locality", message, "accepted: at most 1; all other flows leave the pod"));
    }
    Ok(locality)
}

/// Reads the process in which a host starts its flows.
fn read_arrivals(table: &Table<'_>) -> Result<Arrivals> {
    let process: String = table.value("arrivals")?;
    let cv: Option<f64> = table.given("cv")?;
    let on_share = table.value("on_share")?;
    let refuse = |keys: &[&str], others: &str| {
        let why = format!("`arrivals` is \"{process}\"");
        refuse_keys(table, keys, &why, &format!("set `arrivals` to {others}"))
    };
    match (process.as_str(), cv) {
        ("poisson", _) => {
            refuse(&["cv", "on_share"], "\"log-normal\" or \"on-off\"")?;
            Ok(Arrivals::Poisson)
        }
        (_, None) => {
            let help = "add the coefficient of variation of the times between flows, for example `cv = 2.0`";
            Err(table.error_at("arrivals", format!("`arrivals` = \"{process}\" needs `cv`"), help))
        }
        ("log-normal", Some(cv)) => {
            refuse(&["on_share"], "\"on-off\"")?;
            Ok(Arrivals::LogNormal { cv })
        }
        (_, Some(cv)) if cv < Arrivals::MIN_ON_OFF_CV => {
            let help = format!("accepted: {} to 100; \"log-normal\" has any", Arrivals::MIN_ON_OFF_CV);
            Err(table.error_at("cv", format!("an on-off process cannot have a `cv` of {cv}"), &help))
        }
        (_, Some(cv)) => Ok(Arrivals::OnOff { cv, on_share }),
    }
}

fn read_sizes(item: &Item<'_>, files: Files<'_>) -> Result<SizeDistribution> {
    let text = item.name()?;
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
    let senders: u32 = table.value("senders")?;
    if senders >= hosts {
        let message = format!("{senders} senders do not fit: the fabric has {hosts} hosts and one receives");
        return Err(table.error_at("senders", message, &format!("accepted: 1 to {}", hosts - 1)));
    }
    let receiver = read_receiver(table, hosts)?;
    let connections: u32 = table.value("connections")?;
    let total_item = table.require("total")?;
    // Each flow has at least one byte.
    let min = u64::from(senders) * u64::from(connections);
    let max = total_item.kind().sizes().map_or(min, |(_, max)| max);
    let total = total_item.narrowed(Kind::Size { min, max }).typed()?;
    let repeats: Option<u32> = table.given("repeats")?;
    let interval = table.get("interval");
    if interval.as_ref().is_some_and(|item| item.text() == Some(COMPLETION)) {
        let incast = Incast { senders, total, receiver, connections };
        let (think_time, persistent) = (table.value("think_time")?, table.value(PERSISTENT)?);
        return Ok(TrafficPattern::IncastLoop { incast, repeats, think_time, persistent });
    }
    let instead = format!("set `interval = \"{COMPLETION}\"`");
    refuse_keys(table, &["think_time", PERSISTENT], "requests start at fixed times", &instead)?;
    if let Some(item) = &interval
        && let Some(text) = item.string().ok().filter(|text| !text.contains(|c: char| c.is_ascii_digit()))
    {
        let help = format!("write a time, for example \"1 ms\", or \"{COMPLETION}\"");
        return Err(item.wrong(format!("`interval`: `{text}` is no time"), help));
    }
    let interval = interval.map(|item| item.typed()).transpose()?;
    let repeats = repeats.unwrap_or(1);
    Ok(TrafficPattern::Incast { senders, total, repeats, receiver, connections, interval })
}

/// Reads the receiver of an incast: the number of a host, or a word with which the receiver changes.
fn read_receiver(table: &Table<'_>, hosts: u32) -> Result<Receiver> {
    let Some(item) = table.get("receiver") else { return Ok(Receiver::Host(table.value("receiver")?)) };
    if item.is_string() {
        return Ok(Receiver::Changing(match item.one_of(&ROTATIONS)? {
            "random" => Rotation::Random,
            _ => Rotation::RoundRobin,
        }));
    }
    let one_of_them = Kind::Count { min: 0, max: u64::from(hosts) - 1 };
    Ok(Receiver::Host(item.narrowed(one_of_them).typed()?))
}

fn read_collective(table: &Table<'_>, hosts: u32, files: Files<'_>) -> Result<Collective> {
    let operation: CollectiveOperation = table.word("operation")?;
    let ranks = read_ranks(table, hosts)?;
    let Deployment { placement, placed, server, reaction, .. } = deployment::read(table, ranks, hosts, files)?;
    let group = table.given("group")?.unwrap_or(ranks);
    for key in ["matrix", "skew"] {
        if let Some(item) = table.get(key).filter(|_| operation != CollectiveOperation::AllToAll) {
            let message = format!("`{key}` has no effect on \"{}\"", operation.name());
            return Err(item.error(message, format!("remove `{key}`")));
        }
    }
    let matrix = deployment::read_matrix(table, group, files)?;
    let size =
        match (table.get("size"), matrix.chunks(group as usize).zip(0..).map(|(row, own)| row_sum(row, own)).max()) {
            (None, Some(largest)) => Bytes(largest),
            (Some(item), Some(_)) => {
                return Err(item.error("`size` has no effect with a `matrix`", "remove one of them"));
            }
            _ => table.require("size")?.typed()?,
        };
    let collective = Collective {
        operation,
        algorithm: table.given_word("algorithm")?.unwrap_or(operation.algorithms()[0]),
        size,
        ranks,
        group,
        grouping: table.word("grouping")?,
        placement,
        placed,
        matrix: matrix.into(),
        skew: table.given("skew")?,
        repeats: table.value("repeats")?,
        channels: table.value("channels")?,
        chunk: table.value("chunk")?,
        outstanding: table.value("outstanding")?,
        compute: table.value("compute")?,
        straggler: read_straggler(table)?,
        server,
        reaction,
    };
    refuse_idle_keys(table, &collective)?;
    collective.check().map_err(|error| table.error(error, "see docs/concepts/collectives.md"))?;
    Ok(collective)
}

/// Fails if the table of a collective operation has a key that its algorithm does not use.
fn refuse_idle_keys(table: &Table<'_>, collective: &Collective) -> Result<()> {
    let is_broadcast = collective.operation == CollectiveOperation::Broadcast;
    let (chunk, outstanding, channels) = match collective.algorithm {
        Algorithm::Ring => (true, is_broadcast, true),
        Algorithm::Hierarchical | Algorithm::Nvls => (true, false, false),
        Algorithm::Tree => (true, true, false),
        Algorithm::HalvingDoubling => (false, false, false),
        Algorithm::Direct => (false, true, false),
    };
    let used = [("chunk", chunk), ("outstanding", outstanding), ("channels", channels)];
    for (key, _) in used.iter().filter(|(_, used)| !used) {
        if let Some(item) = table.get(key) {
            let (algorithm, operation) = (collective.algorithm.name(), collective.operation.name());
            let message = format!("`{key}` has no effect on \"{operation}\" with the algorithm \"{algorithm}\"");
            return Err(item.error(message, format!("remove `{key}`")));
        }
    }
    match table.get("grouping").filter(|_| collective.groups() == 1) {
        None => Ok(()),
        Some(item) => Err(item.error("`grouping` has no effect on one group", "set `group`, or remove `grouping`")),
    }
}

/// The key that says whether the flows of a closed loop share persistent connections.
const PERSISTENT: &str = "persistent_connections";

/// Fails if the traffic table has one of `keys`, which have no meaning there. `why` and `instead` are parts of the
/// error message.
fn refuse_keys(table: &Table<'_>, keys: &[&str], why: &str, instead: &str) -> Result<()> {
    match keys.iter().find_map(|key| Some((key, table.get(key)?))) {
        None => Ok(()),
        Some((key, item)) => {
            let help = format!("{instead}, or remove `{key}`");
            Err(item.error(format!("`{key}` has no meaning where {why}"), help))
        }
    }
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
        TrafficPattern::Triggered(list) => (list.flows.len() as u128, 0),
        TrafficPattern::Collective(collective) => (Program::flows(collective), 0),
        TrafficPattern::Outside { .. } => (u128::from(MAX_FLOWS), 0),
        // How many messages collective operations have is not known before.
        TrafficPattern::Trace(trace) => (trace.content.tasks.into(), 0),
        TrafficPattern::Inference(inference) => (inference.requests.into(), 0),
        TrafficPattern::Training(training) => (Program::flows_of_training(training), 0),
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
    if let TrafficPattern::Trace(_) | TrafficPattern::Inference(_) = traffic.pattern {
        return match ["warmup", "cooldown"].iter().find_map(|key| Some((key, table.get(key)?))) {
            None => Ok(()),
            Some((key, item)) => Err(item.error(
                format!(
                    "`{key}` has no meaning for {}",
                    if matches!(traffic.pattern, TrafficPattern::Trace(_)) { "a trace" } else { "an inference" }
                ),
                format!("remove `{key}`"),
            )),
        };
    }
    if flows > u128::from(MAX_FLOWS) {
        let help = format!("accepted: at most {MAX_FLOWS} flows in one source");
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
