//! Reads the transport of a run: the keys of `[[run]]`, and their defaults in `[transport]`. The declarations of the
//! transports and congestion controls determine which keys exist.

use super::extends::Files;
use super::reader::{Item, Result, Table, Variant};
use rnic_run::{CongestionDeclaration, CongestionSpec, P4_PREFIX, TransportSpec, Vocabulary};
use rnic_transport::message::buffers::BufferClass;
use rnic_transport::settings::{Kind, MIN_TIMEOUT, Parameter, Settings, Value};
use rnic_transport::transports::{
    COMMON_PARAMETERS, FLOW_PARAMETERS, HOST_PARAMETERS, MESSAGE_PARAMETERS, TransportDeclaration,
};
use rnic_transport::{Bytes, Time};
use std::collections::BTreeMap;

/// Keys of a run that exist with every transport, because no transport declares them. The names of the congestion
/// controls are further such keys.
const COMMON: [&str; 2] = ["cc", "pfc"];

/// Keys that only the transport `p4:FILE` has: `constants` replaces the values of constants in its program.
const P4_KEYS: [&str; 1] = ["constants"];

/// Pairs of transport settings of which the first must be at most the second.
const ORDERED: [(&str, &str); 2] = [("rto_low", "rto_high"), ("rto_min", "rto_max")];

/// Lookup of a run's settings: first in the run's own table, then in the defaults of `[transport]`. Only keys of the
/// run's transport are looked up, so the defaults may have keys of other transports.
struct Layers<'t, 'a> {
    run: &'t Table<'a>,
    defaults: Option<&'t Table<'a>>,
}

impl<'a> Layers<'_, 'a> {
    fn get(&self, key: &str) -> Option<Item<'a>> {
        self.run.get(key).or_else(|| self.defaults?.get(key))
    }
}

/// Names of the congestion controls that have parameters. Each name is a key whose table holds the parameters.
pub(super) fn parameter_tables(vocabulary: &Vocabulary) -> impl Iterator<Item = &'static str> {
    vocabulary.congestion_controls().iter().filter(|cc| !cc.parameters.is_empty()).map(|cc| cc.name)
}

/// The keys that only the transport of `declaration` has, and not every transport of its kind (flows or messages).
fn own_keys(declaration: &TransportDeclaration) -> Vec<&'static str> {
    let own = declaration.own_parameters.iter().map(|parameter| parameter.name);
    own.chain(if declaration.name == "p4" { &P4_KEYS[..] } else { &[] }.iter().copied()).collect()
}

/// The keys of the transport of `declaration`, without the keys that all transports have.
pub(super) fn keys(declaration: &TransportDeclaration) -> Vec<&'static str> {
    let [_, of_kind, _] = declaration.parameters();
    of_kind.iter().map(|parameter| parameter.name).chain(own_keys(declaration)).collect()
}

/// The keys that every run has, whatever its transport.
pub(super) fn common_keys() -> Vec<&'static str> {
    COMMON.into_iter().chain(COMMON_PARAMETERS.iter().map(|parameter| parameter.name)).collect()
}

/// Checks every key and value of the `[transport]` table (defaults for all runs), whatever transports the runs use.
pub(super) fn check_defaults(table: &Table<'_>, vocabulary: &Vocabulary) -> Result<()> {
    let mut known: Vec<&str> = common_keys();
    let shared =
        [FLOW_PARAMETERS, MESSAGE_PARAMETERS, HOST_PARAMETERS].into_iter().flatten().map(|parameter| parameter.name);
    for key in vocabulary.transports().iter().flat_map(own_keys).chain(shared) {
        if !known.contains(&key) {
            known.push(key);
        }
    }
    table.accept(&known.iter().copied().chain(parameter_tables(vocabulary)).collect::<Vec<_>>())?;
    let mut given: Vec<(&str, Value)> = Vec::new();
    for key in known.iter().filter(|key| !COMMON.contains(key) && !P4_KEYS.contains(key)) {
        let Some(item) = table.get(key) else { continue };
        let declared: Vec<&Parameter> = vocabulary.transports().iter().filter_map(|t| t.parameter(key)).collect();
        given.push((key, read_any(&declared, &item)?));
    }
    read_common(&Layers { run: table, defaults: None }, vocabulary)?;
    if let Some(item) = table.get("constants") {
        constants(&item)?;
    }
    for cc in vocabulary.congestion_controls() {
        read_parameters(cc, table.get(cc.name), &mut Settings::new(cc.parameters))?;
    }
    let value = |name: &str| given.iter().find(|(key, _)| *key == name).map(|(_, value)| value.clone());
    check_order(table, None, &value)
}

/// Reads the value of a key of `[transport]` that several transports declare. If the value is one of a list of words,
/// the words of all these transports are accepted.
fn read_any(declared: &[&Parameter], item: &Item<'_>) -> Result<Value> {
    let mut words: Vec<&'static str> = Vec::new();
    for parameter in declared {
        if let Kind::Choice(own) = parameter.kind {
            words.extend(own.iter().filter(|word| !words.contains(word)).copied().collect::<Vec<_>>());
        }
    }
    match declared.first() {
        Some(_) if !words.is_empty() => item.choice(&words).map(Value::choice),
        Some(parameter) => read_value(parameter, item),
        None => Ok(Value::Flag(item.boolean()?)),
    }
}

/// Reads the keys `pfc` and `cc` of a run; without `cc` the transport has its default congestion control.
fn read_common(layers: &Layers<'_, '_>, vocabulary: &Vocabulary) -> Result<(bool, Option<CongestionSpec>)> {
    let pfc = layers.get("pfc").map_or(Ok(false), |item| item.boolean())?;
    let names: Vec<&'static str> = vocabulary.congestion_controls().iter().map(|cc| cc.name).collect();
    let cc = layers.get("cc").map(|item| item.choice(&names)).transpose()?;
    let declaration = cc.and_then(|name| vocabulary.congestion_control(name)).copied();
    Ok((pfc, declaration.map(CongestionSpec::of)))
}

/// Reads the transport of the `[[run]]` table `run`. `own` are the keys of the table that belong to no transport;
/// `files` says where P4 programs are read.
pub(super) fn read(
    run: &Table<'_>, defaults: Option<&Table<'_>>, own: &[&str], vocabulary: &Vocabulary, files: Files<'_>,
) -> Result<TransportSpec> {
    let named = run.require("transport", "transport = \"irn\"")?;
    let file = named.text().and_then(|text| text.strip_prefix(P4_PREFIX));
    let declarations = vocabulary.transports();
    let name = if file.is_some() {
        "p4"
    } else {
        let names: Vec<&str> = declarations.iter().map(|t| if t.name == "p4" { "p4:FILE" } else { t.name }).collect();
        named.choice(&names)?
    };
    let Some(declaration) = vocabulary.transport(name) else {
        return Err(named.error("a P4 program without its file", "accepted: \"p4:FILE\""));
    };
    let tables: Vec<&str> = parameter_tables(vocabulary).collect();
    let all_keys: Vec<(&str, Vec<&str>)> = declarations.iter().map(|t| (t.name, keys(t))).collect();
    let variants: Vec<Variant<'_>> = all_keys.iter().map(|(name, keys)| Variant { name, keys }).collect();
    run.accept_variant(&[own, &common_keys(), &tables].concat(), "transport", declaration.name, &variants)?;

    let layers = Layers { run, defaults };
    let mut spec = TransportSpec::of(*declaration);
    let (pfc, cc) = read_common(&layers, vocabulary)?;
    spec.pfc = pfc;
    spec.cc = cc.unwrap_or(spec.cc);
    for parameter in declaration.parameters().into_iter().flatten() {
        read_setting(parameter, &layers, &mut spec.settings)?;
    }
    if let Some(file) = file {
        spec.name = format!("{P4_PREFIX}{file}");
        let constants = layers.get("constants").map_or(Ok(BTreeMap::new()), |item| constants(&item))?;
        spec.program = Some(super::p4::read(&named, file, constants, files)?);
    }
    for table in [defaults, Some(run)].into_iter().flatten() {
        read_parameters(&spec.cc.declaration, table.get(spec.cc.name()), &mut spec.cc.settings)?;
    }
    let cc = spec.cc.name();
    if let Some((name, item)) = tables.iter().filter(|name| **name != cc).find_map(|n| Some((n, run.get(n)?))) {
        let message = format!("`{name}` holds parameters of cc \"{name}\", but this run has cc \"{cc}\"");
        return Err(item.error(message, format!("set cc = \"{name}\", or move the parameters to [transport.{name}]")));
    }
    check_order(run, defaults, &|name| spec.settings.is_set(name).then(|| spec.settings.value(name))?)?;
    check_acks(&layers, &spec)?;
    check_idle(run, &spec)?;
    check_congestion(&layers, &spec)?;
    Ok(spec)
}

/// Reads one setting of the run's transport. A default from `[transport]` is ignored if it is a word that only another
/// transport accepts.
fn read_setting(parameter: &'static Parameter, layers: &Layers<'_, '_>, settings: &mut Settings) -> Result<()> {
    let Some(item) = layers.get(parameter.name) else { return Ok(()) };
    let inherited = layers.run.get(parameter.name).is_none();
    if let (Kind::Choice(words), true) = (parameter.kind, inherited)
        && item.text().is_some_and(|text| !words.contains(&text))
    {
        return Ok(());
    }
    let value = read_value(parameter, &item)?;
    settings.set(parameter.name, value).map_err(|sentence| item.sentence(&sentence))
}

/// Reads the table of parameters of a congestion control, such as `[transport.dcqcn]`, into `settings`.
fn read_parameters(cc: &CongestionDeclaration, item: Option<Item<'_>>, settings: &mut Settings) -> Result<()> {
    let Some(item) = item else {
        return Ok(());
    };
    let table = item.table(&format!("`{}`", cc.name))?;
    let names: Vec<&str> = cc.parameters.iter().map(|parameter| parameter.name).collect();
    table.accept(&names)?;
    for parameter in cc.parameters {
        if let Some(item) = table.get(parameter.name) {
            let value = read_value(parameter, &item)?;
            settings.set(parameter.name, value).map_err(|sentence| item.sentence(&sentence))?;
        }
    }
    Ok(())
}

/// Reads the value of a parameter of a transport or congestion control.
fn read_value(parameter: &Parameter, item: &Item<'_>) -> Result<Value> {
    let example = |otherwise: &str| parameter.default_value().map_or(otherwise.to_string(), |value| value.to_string());
    Ok(match parameter.kind {
        Kind::Rate => Value::Rate(item.rate()?),
        Kind::Time => Value::Time(item.positive_time(&example("50 us"))?),
        Kind::Timeout => Value::Time(read_timeout(parameter.name, item, &example("320 us"))?),
        Kind::Delay => Value::Time(item.time("100 ns")?),
        Kind::Bytes => Value::Bytes(item.bytes(1..=1_000_000_000_000_000, &example("16 KB"))?),
        Kind::Size { min, max } => Value::Bytes(item.bytes(min..=max, if max > 9_000 { "4 KB" } else { "66 B" })?),
        Kind::Flag => Value::Flag(item.boolean()?),
        Kind::Count { min, max } => Value::Count(item.integer(min..=max)?),
        Kind::Choice(words) => Value::choice(item.choice(words)?),
        Kind::Buffers => Value::Buffers(buffers(item)?),
        Kind::Number { min, max } => {
            let number = item.number(&example("0.5"))?;
            if !(min..=max).contains(&number) {
                let message = format!("`{}` is out of range: {number}", parameter.name);
                return Err(item.wrong(message, format!("accepted: {min} to {max}")));
            }
            Value::Number(number)
        }
    })
}

fn read_timeout(key: &str, item: &Item<'_>, example: &str) -> Result<Time> {
    let time = item.positive_time(example)?;
    if time < MIN_TIMEOUT {
        let help = format!("accepted: {MIN_TIMEOUT} to 30 days, for example {example:?}");
        return Err(item.wrong(format!("`{key}` is too short: {time}"), help));
    }
    Ok(time)
}

/// Reads the message buffers of a NIC (`tx_buffers`, `rx_buffers`): a list of sizes, each with the number of buffers of
/// this size.
fn buffers(item: &Item<'_>) -> Result<Vec<BufferClass>> {
    const EXAMPLE: &str = "[{ size = \"2 KB\", count = 32 }, { size = \"39 KB\", count = 16 }]";
    let mut classes = Vec::new();
    for class in item.array(EXAMPLE)? {
        let table = class.table("a class of buffers")?;
        table.accept(&["size", "count"])?;
        let Bytes(bytes) = table.require("size", "size = \"2 KB\"")?.bytes(1..=u64::from(u32::MAX), "2 KB")?;
        let count = table.require("count", "count = 32")?.count(1_000_000)?;
        classes.push(BufferClass { bytes: bytes as u32, count });
    }
    if classes.is_empty() {
        return Err(item.wrong("no buffers at all", format!("accepted: {EXAMPLE}; without the key there is no limit")));
    }
    Ok(classes)
}

/// Reads the values that override constants of a P4 program, by the constant's name.
fn constants(item: &Item<'_>) -> Result<BTreeMap<String, u64>> {
    let table = item.table("`constants`")?;
    let mut constants = BTreeMap::new();
    for entry in table.entries() {
        let Some(value) = table.get(&entry.key) else { continue };
        let value = match value.boolean() {
            Ok(flag) => u64::from(flag),
            Err(_) => value.integer(0..=i64::MAX as u64)?,
        };
        constants.insert(entry.key.clone(), value);
    }
    Ok(constants)
}

/// Checks the pairs of settings in [`ORDERED`]: the first setting must not exceed the second. One setting of a pair may
/// be in the `[[run]]` table and the other setting in `[transport]`.
fn check_order(run: &Table<'_>, defaults: Option<&Table<'_>>, value: &dyn Fn(&str) -> Option<Value>) -> Result<()> {
    let time = |name: &str| match value(name) {
        Some(Value::Time(time)) => Some(time),
        _ => None,
    };
    for (low, high) in ORDERED {
        let table = if run.get(low).or(run.get(high)).is_some() { run } else { defaults.unwrap_or(run) };
        table.ordered((low, time(low)), (high, time(high)), "")?;
    }
    Ok(())
}

/// Checks that `acks` is not false if the congestion control or a feature of the transport needs acknowledgements.
fn check_acks(layers: &Layers<'_, '_>, spec: &TransportSpec) -> Result<()> {
    match (spec.needs_acks(), layers.get("acks")) {
        (Some(who), Some(item)) if spec.settings.flag("acks") == Ok(false) => {
            Err(item.error(format!("{who} needs acknowledgements"), "write `acks = true`, or leave `acks` out"))
        }
        _ => Ok(()),
    }
}

/// Checks that the `[[run]]` table has no setting that other settings of the run make ineffective.
fn check_idle(run: &Table<'_>, spec: &TransportSpec) -> Result<()> {
    for (key, why) in spec.declaration.unused_settings(&spec.settings) {
        if let Some(item) = run.get(key) {
            return Err(item.error(format!("`{key}` has no effect in {}", run.label()), why));
        }
    }
    Ok(())
}

/// Checks that the run's transport and its congestion control fit: a message transport controls congestion itself, and
/// some congestion controls are for transports in host software only.
fn check_congestion(layers: &Layers<'_, '_>, spec: &TransportSpec) -> Result<()> {
    match (layers.get("cc"), spec.misfit()) {
        (Some(item), Some(why)) => Err(item.error(why, "leave `cc` out in this run, or write cc = \"none\"")),
        _ => Ok(()),
    }
}
