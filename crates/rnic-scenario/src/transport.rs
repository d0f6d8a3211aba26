//! How the hosts of a run send: the keys of `[[run]]` and their defaults in `[transport]`.

use super::extends::Files;
use super::message;
use super::names::names;
use super::reader::{Item, Result, Table, Variant};
use rnic_run::{CongestionDeclaration, Vocabulary};
use rnic_run::{Recovery, TransportSpec};
use rnic_transport::congestion::{Kind, Parameter, Settings, Value};
use rnic_transport::registry::{FLOWS, TRANSPORTS};
use rnic_transport::{NackPolicy, Time};

/// Keys that every transport uses, beside the congestion controls' names.
const COMMON: [&str; 4] = ["cc", "pfc", "header", "ack_size"];
/// Keys of the transports that are reliable flows.
const FLOW: [&str; 6] = ["rto_min", "nack_size", "cnp_size", "control_priority", "nic_burst", "max_rate"];
/// Keys that only some use.
const VARIANTS: [Variant<'static>; 8] = [
    Variant { name: "roce", keys: &["timeouts", "rto", "rto_high", "acks", "nacks", "bdp_fc", "bdp_cap"] },
    Variant {
        name: "irn",
        keys: &["recovery", "timeouts", "rto", "rto_high", "rto_low", "rto_low_packets", "nacks", "bdp_fc", "bdp_cap"],
    },
    Variant {
        name: "iwarp",
        keys: &[
            "recovery",
            "rto_initial",
            "rto_max",
            "initial_window",
            "receive_window",
            "delayed_acks",
            "delayed_ack_timeout",
            "handshake",
        ],
    },
    Variant { name: "ndp", keys: &["paced_nacks"] },
    Variant { name: "homa", keys: &HOMA },
    Variant { name: "homa-tr", keys: &HOMA },
    Variant { name: "hpcc", keys: &["eta", "max_stage", "w_ai"] },
    Variant { name: "p4", keys: &["constants"] },
];
/// Keys of Homa.
const HOMA: [&str; 3] = ["unscheduled_levels", "scheduled_levels", "overcommitment"];

/// Keys of a kind of transport that all of the kind use.
fn kind_keys(transport: &str) -> &'static [&'static str] {
    if FLOWS.contains(&transport) { &FLOW } else { &message::KEYS }
}

/// What `transport` begins with where it names a P4 program.
const P4: &str = "p4:";
/// What `recovery` can be, for whom.
const RECOVERIES: [(&str, &str, Recovery); 5] = [
    ("irn", "selective", Recovery::Selective),
    ("irn", "no-sack", Recovery::NoSack),
    ("irn", "go-back-n", Recovery::GoBackN),
    ("iwarp", "sack", Recovery::Sack),
    ("iwarp", "newreno", Recovery::NewReno),
];
/// Most packets in flight: half of the 24-bit packet sequence numbers.
const MOST_IN_FLIGHT: u32 = (1 << 23) - 1;

/// Shortest timeout: less than any round trip, and few enough timers that a run still comes to its end.
const SHORTEST_TIMEOUT: Time = Time::from_ns(100);

/// A run's own table over the defaults; keys that its transport does not use are not looked up.
struct Layers<'t, 'a> {
    run: &'t Table<'a>,
    defaults: Option<&'t Table<'a>>,
    used: Vec<&'static str>,
}

impl<'a> Layers<'_, 'a> {
    fn get(&self, key: &str) -> Option<Item<'a>> {
        if !self.used.contains(&key) {
            return None;
        }
        self.run.get(key).or_else(|| self.defaults?.get(key))
    }
}

/// Names of the congestion controls that have parameters: each is a key that holds a table of them.
fn parameter_tables(vocabulary: &Vocabulary) -> impl Iterator<Item = &'static str> {
    vocabulary.congestion_controls().iter().filter(|cc| !cc.parameters.is_empty()).map(|cc| cc.name)
}

/// Checks a `[transport]` table by itself: every key and value, whichever transport uses it.
pub(super) fn check_defaults(table: &Table<'_>, vocabulary: &Vocabulary) -> Result<()> {
    let mut used: Vec<&'static str> = COMMON.to_vec();
    for key in VARIANTS.iter().flat_map(|variant| variant.keys).chain(&FLOW).chain(&message::KEYS) {
        if !used.contains(key) {
            used.push(key);
        }
    }
    let layers = Layers { run: table, defaults: None, used };
    let keys: Vec<&str> = layers.used.iter().copied().chain(parameter_tables(vocabulary)).collect();
    table.accept(&keys)?;
    for cc in vocabulary.congestion_controls() {
        read_parameters(cc, table.get(cc.name), &mut Settings::new(cc.parameters))?;
    }
    check_timeouts(table, None, &read_settings("", &layers, vocabulary)?)
}

/// Reads a run's transport; `own` are the keys of a run that belong to no transport, `files` those of P4 programs.
pub(super) fn read(
    run: &Table<'_>, defaults: Option<&Table<'_>>, own: &[&str], vocabulary: &Vocabulary, files: Files<'_>,
) -> Result<TransportSpec> {
    let named = run.require("transport", "transport = \"irn\"")?;
    let file = named.text().and_then(|text| text.strip_prefix(P4));
    let transport = if file.is_some() { "p4" } else { named.choice(&[names(TRANSPORTS), vec!["p4:FILE"]].concat())? };
    let tables: Vec<&str> = parameter_tables(vocabulary).collect();
    let all_keys = VARIANTS.map(|variant| (variant.name, [kind_keys(variant.name), variant.keys].concat()));
    let variants: Vec<Variant<'_>> = all_keys.iter().map(|(name, keys)| Variant { name, keys }).collect();
    run.accept_variant(&[own, &COMMON, &tables].concat(), "transport", transport, &variants)?;
    let specific = VARIANTS.iter().filter(|variant| variant.name == transport).flat_map(|variant| variant.keys);
    let used = COMMON.iter().chain(kind_keys(transport)).chain(specific).copied().collect();
    let layers = Layers { run, defaults, used };
    let mut spec = read_settings(transport, &layers, vocabulary)?;
    if let Some(file) = file {
        spec.transport = format!("{P4}{file}");
        spec.program = Some(super::p4::read(&named, file, &spec.message.constants, files)?);
    }
    spec.cc_settings = Settings::new(spec.cc.parameters);
    for table in [defaults, Some(run)].into_iter().flatten() {
        read_parameters(&spec.cc, table.get(spec.cc.name), &mut spec.cc_settings)?;
    }
    if let Some((name, item)) = tables.iter().filter(|name| **name != spec.cc.name).find_map(|n| Some((n, run.get(n)?)))
    {
        let message = format!("`{name}` holds parameters of cc \"{name}\", but this run has cc \"{}\"", spec.cc.name);
        return Err(item.error(message, format!("set cc = \"{name}\", or move the parameters to [transport.{name}]")));
    }
    check_timeouts(run, defaults, &spec)?;
    check_acks(&layers, &spec)?;
    check_idle(run, &spec)?;
    check_messages(&layers, &spec)?;
    Ok(spec)
}

fn read_settings(transport: &str, layers: &Layers<'_, '_>, vocabulary: &Vocabulary) -> Result<TransportSpec> {
    let flag = |key: &str| layers.get(key).map(|item| item.boolean()).transpose();
    let timeout = |key: &str, example: &str| layers.get(key).map(|item| read_timeout(key, &item, example)).transpose();
    let size = |key: &str| layers.get(key).map(|item| item.bytes(1..=9_000, "66 B")).transpose();
    let choice = |key: &str, names: &[&'static str]| layers.get(key).map(|item| item.choice(names)).transpose();
    let packets = |key: &str, least: u32| {
        let range = u64::from(least)..=u64::from(MOST_IN_FLIGHT);
        layers.get(key).map(|item| item.integer(range).map(|packets| packets as u32)).transpose()
    };
    let congestion = vocabulary.congestion_controls();
    let cc = choice("cc", &congestion.iter().map(|cc| cc.name).collect::<Vec<_>>())?;
    let spec = TransportSpec {
        transport: transport.to_string(),
        cc: congestion.iter().find(|entry| Some(entry.name) == cc).copied().unwrap_or_default(),
        cc_settings: Settings::default(),
        recovery: read_recovery(transport, layers)?,
        pfc: flag("pfc")?.unwrap_or(false),
        timeouts: flag("timeouts")?,
        dynamic_rto: choice("rto", &["fixed", "dynamic"])? == Some("dynamic"),
        rto_min: timeout("rto_min", "100 us")?,
        rto_initial: timeout("rto_initial", "1 ms")?,
        rto_max: timeout("rto_max", "60 ms")?,
        initial_window: packets("initial_window", 1)?,
        receive_window: layers.get("receive_window").map(|item| item.bytes(1..=2_000_000_000, "4 MB")).transpose()?,
        delayed_acks: flag("delayed_acks")?.unwrap_or(false),
        delayed_ack_timeout: timeout("delayed_ack_timeout", "500 us")?,
        handshake: flag("handshake")?.unwrap_or(false),
        rto_high: timeout("rto_high", "320 us")?,
        rto_low: timeout("rto_low", "100 us")?,
        rto_low_packets: packets("rto_low_packets", 0)?,
        bdp_fc: flag("bdp_fc")?,
        bdp_cap: packets("bdp_cap", 1)?,
        acks: flag("acks")?,
        nacks: match choice("nacks", &["first", "every"])? {
            Some("every") => NackPolicy::Every,
            _ => NackPolicy::First,
        },
        header: size("header")?,
        ack_size: size("ack_size")?,
        nack_size: size("nack_size")?,
        cnp_size: size("cnp_size")?,
        control_priority: flag("control_priority")?.unwrap_or(false),
        nic_burst: packets("nic_burst", 1)?,
        max_rate: layers.get("max_rate").map(|item| item.rate()).transpose()?,
        message: message::read(&|key| layers.get(key))?,
        program: None,
    };
    Ok(spec)
}

fn read_timeout(key: &str, item: &Item<'_>, example: &str) -> Result<Time> {
    let time = item.positive_time(example)?;
    if time < SHORTEST_TIMEOUT {
        let help = format!("accepted: {SHORTEST_TIMEOUT} to 30 days, for example {example:?}");
        return Err(item.error(format!("`{key}` is too short: {time}"), help));
    }
    Ok(time)
}

/// Reads `recovery`; a default of another transport does not concern this one.
fn read_recovery(transport: &str, layers: &Layers<'_, '_>) -> Result<Recovery> {
    let own = || RECOVERIES.iter().filter(|r| r.0 == transport);
    let all: Vec<&'static str> = RECOVERIES.iter().map(|r| r.1).collect();
    let name = match (layers.get("recovery"), layers.run.get("recovery")) {
        (Some(item), None) => Some(item.choice(&all)?),
        (Some(_), Some(item)) if transport.is_empty() => Some(item.choice(&all)?),
        (Some(_), Some(item)) => Some(item.choice(&own().map(|r| r.1).collect::<Vec<_>>())?),
        (None, _) => None,
    };
    let default = match transport {
        "roce" => Recovery::GoBackN,
        "iwarp" => Recovery::Sack,
        _ => Recovery::Selective,
    };
    Ok(name.and_then(|name| own().find(|r| r.1 == name)).map_or(default, |r| r.2))
}

/// Reads the table that holds a congestion control's parameters.
fn read_parameters(cc: &CongestionDeclaration, item: Option<Item<'_>>, settings: &mut Settings) -> Result<()> {
    let Some(item) = item else {
        return Ok(());
    };
    let table = item.table(&format!("`{}`", cc.name))?;
    let names: Vec<&str> = cc.parameters.iter().map(|parameter| parameter.name).collect();
    table.accept(&names)?;
    for parameter in cc.parameters {
        if let Some(item) = table.get(parameter.name) {
            let value = read_parameter(parameter, &item)?;
            settings.set(parameter.name, value).map_err(|sentence| item.sentence(&sentence))?;
        }
    }
    Ok(())
}

fn read_parameter(parameter: &Parameter, item: &Item<'_>) -> Result<Value> {
    let example = |otherwise: &str| parameter.default.map_or(otherwise.to_string(), |value| value.to_string());
    Ok(match parameter.kind {
        Kind::Rate => Value::Rate(item.rate()?),
        Kind::Time => Value::Time(item.positive_time(&example("50 us"))?),
        Kind::Bytes => Value::Bytes(item.bytes(1..=1_000_000_000_000_000, &example("16 KB"))?),
        Kind::Flag => Value::Flag(item.boolean()?),
        Kind::Count { min, max } => Value::Count(item.integer(min..=max)?),
        Kind::Number { min, max } => {
            let number = item.number(&example("0.5"))?;
            if !(min..=max).contains(&number) {
                let message = format!("`{}` is out of range: {number}", parameter.name);
                return Err(item.error(message, format!("accepted: {min} to {max}")));
            }
            Value::Number(number)
        }
    })
}

/// Checks that the short timeout is not the longer one; the two may stand in different tables.
fn check_timeouts(run: &Table<'_>, defaults: Option<&Table<'_>>, spec: &TransportSpec) -> Result<()> {
    let table = if run.get("rto_low").or(run.get("rto_high")).is_some() { run } else { defaults.unwrap_or(run) };
    table.ordered(("rto_low", spec.rto_low), ("rto_high", spec.rto_high), "")?;
    let table = if run.get("rto_min").or(run.get("rto_max")).is_some() { run } else { defaults.unwrap_or(run) };
    table.ordered(("rto_min", spec.rto_min), ("rto_max", spec.rto_max), "")
}

/// Checks that whoever needs acknowledgements has them.
fn check_acks(layers: &Layers<'_, '_>, spec: &TransportSpec) -> Result<()> {
    match (spec.needs_acks(), layers.get("acks")) {
        (Some(who), Some(item)) if spec.acks == Some(false) => {
            Err(item.error(format!("{who} needs acknowledgements"), "write `acks = true`, or leave `acks` out"))
        }
        _ => Ok(()),
    }
}

/// Checks that a run itself writes nothing that its other keys make meaningless.
fn check_idle(run: &Table<'_>, spec: &TransportSpec) -> Result<()> {
    let fixed = spec.transport != "iwarp" && !spec.dynamic_rto;
    for (key, idle, why) in [
        ("bdp_cap", spec.bdp_fc == Some(false), "with bdp_fc = false there is no cap"),
        ("nacks", spec.transport == "irn" && spec.recovery != Recovery::GoBackN, "only go-back-N has this choice"),
        ("rto_low", spec.dynamic_rto, "a dynamic timeout has no short one"),
        ("rto_low_packets", spec.dynamic_rto, "a dynamic timeout has no short one"),
        ("rto_min", fixed, "a fixed timeout has no minimum; write rto = \"dynamic\", or set rto_high"),
        ("delayed_ack_timeout", !spec.delayed_acks, "acknowledgements are delayed only with delayed_acks = true"),
    ] {
        if let Some(item) = run.get(key).filter(|_| idle) {
            return Err(item.error(format!("`{key}` has no effect in {}", run.label()), why));
        }
    }
    Ok(())
}

/// Checks what a message transport excludes: it is a congestion control itself.
fn check_messages(layers: &Layers<'_, '_>, spec: &TransportSpec) -> Result<()> {
    match layers.get("cc").filter(|_| spec.is_message() && spec.cc.name != "none") {
        Some(item) => {
            let message = format!("transport \"{}\" controls congestion itself", spec.transport);
            Err(item.error(message, "leave `cc` out in this run, or write cc = \"none\""))
        }
        None => Ok(()),
    }
}
