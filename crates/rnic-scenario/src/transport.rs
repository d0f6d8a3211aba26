//! Reads the transport of a run: the keys of `[[run]]`, and their defaults in `[transport]`. The declarations of the
//! transports and congestion controls determine which keys exist.

use super::extends::Files;
use super::reader::{Item, Result, Table, Variant};
use rnic_spec::settings::{self, CONSTANT};
use rnic_spec::{CongestionDeclaration, CongestionSpec, P4_PREFIX, TransportSpec, Vocabulary};
use rnic_transport::Bytes;
use rnic_transport::message::buffers::BufferClass;
use rnic_transport::settings::{BUFFER_CLASS, Kind, Parameter, Settings, Value};
use rnic_transport::transports::{
    COMMON_PARAMETERS, FLOW_PARAMETERS, HOST_PARAMETERS, MESSAGE_PARAMETERS, TransportDeclaration,
};
use std::collections::BTreeMap;

/// The key that only the transport `p4:FILE` has: it replaces the values of constants in its program.
const CONSTANTS: &str = "constants";

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
        let item = self.run.get(key).or_else(|| self.defaults?.get(key))?;
        let setting = settings::section("transport").and_then(|section| section.setting(key, ""));
        Some(setting.map_or(item, |setting| item.of(setting)))
    }
}

/// The keys of a run that exist with every transport, because no transport declares them. The names of the congestion
/// controls are further such keys.
fn of_every_transport() -> impl Iterator<Item = &'static str> {
    let keys = settings::section("transport").map_or(Vec::new(), |section| section.all_keys());
    keys.into_iter().filter(|key| *key != CONSTANTS)
}

/// Names of the congestion controls that have parameters. Each name is a key whose table holds the parameters.
pub(super) fn parameter_tables(vocabulary: &Vocabulary) -> impl Iterator<Item = &'static str> {
    vocabulary.congestion_controls().iter().filter(|cc| !cc.parameters.is_empty()).map(|cc| cc.name)
}

/// The keys that only the transport of `declaration` has, and not every transport of its kind (flows or messages).
fn own_keys(declaration: &TransportDeclaration) -> Vec<&'static str> {
    let own = declaration.own_parameters.iter().map(|parameter| parameter.name);
    own.chain((declaration.name == "p4").then_some(CONSTANTS)).collect()
}

/// The keys of the transport of `declaration`, without the keys that all transports have.
pub(super) fn keys(declaration: &TransportDeclaration) -> Vec<&'static str> {
    let [_, of_kind, _] = declaration.parameters();
    of_kind.iter().map(|parameter| parameter.name).chain(own_keys(declaration)).collect()
}

/// The keys that every run has, whatever its transport.
pub(super) fn common_keys() -> Vec<&'static str> {
    of_every_transport().chain(COMMON_PARAMETERS.iter().map(|parameter| parameter.name)).collect()
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
    for key in known.iter().filter(|key| !of_every_transport().any(|own| own == **key) && **key != CONSTANTS) {
        let Some(item) = table.get(key) else { continue };
        let declared: Vec<&Parameter> = vocabulary.transports().iter().filter_map(|t| t.parameter(key)).collect();
        given.push((key, read_any(&declared, &item)?));
    }
    read_common(&Layers { run: table, defaults: None }, vocabulary)?;
    if let Some(item) = table.get(CONSTANTS) {
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
        Some(_) if !words.is_empty() => item.one_of(&words).map(Value::choice),
        Some(parameter) => read_value(parameter, item),
        None => item.narrowed(Kind::Flag).value(),
    }
}

/// Reads the keys `pfc` and `cc` of a run; without `cc` the transport has its default congestion control.
fn read_common(layers: &Layers<'_, '_>, vocabulary: &Vocabulary) -> Result<(bool, Option<CongestionSpec>)> {
    let pfc = layers.get("pfc").map_or(Ok(false), |item| item.typed())?;
    let names: Vec<&'static str> = vocabulary.congestion_controls().iter().map(|cc| cc.name).collect();
    let cc = layers.get("cc").map(|item| item.one_of(&names)).transpose()?;
    let declaration = cc.and_then(|name| vocabulary.congestion_control(name)).copied();
    Ok((pfc, declaration.map(CongestionSpec::of)))
}

/// Reads the transport of the `[[run]]` or `[[run.beside]]` table `run`, with settings of its own and of the transport.
/// `files` says where P4 programs are read.
pub(super) fn read(
    run: &Table<'_>, defaults: Option<&Table<'_>>, vocabulary: &Vocabulary, files: Files<'_>,
) -> Result<TransportSpec> {
    let named = run.require("transport")?;
    let file = named.text().and_then(|text| text.strip_prefix(P4_PREFIX));
    let declarations = vocabulary.transports();
    let name = if file.is_some() {
        "p4"
    } else {
        let names: Vec<&str> = declarations.iter().map(|t| if t.name == "p4" { "p4:FILE" } else { t.name }).collect();
        named.one_of(&names)?
    };
    let Some(declaration) = vocabulary.transport(name) else {
        return Err(named.error("a P4 program without its file", "accepted: \"p4:FILE\""));
    };
    let tables: Vec<&str> = parameter_tables(vocabulary).collect();
    let all_keys: Vec<(&str, Vec<&str>)> = declarations.iter().map(|t| (t.name, keys(t))).collect();
    let variants: Vec<Variant<'_>> = all_keys.iter().map(|(name, keys)| Variant { name, keys }).collect();
    let own: Vec<&str> = run.settings().map(|setting| setting.key).collect();
    run.accept_variant(&[own, common_keys(), tables.clone()].concat(), "transport", declaration.name, &variants)?;

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
        let constants = layers.get(CONSTANTS).map_or(Ok(BTreeMap::new()), |item| constants(&item))?;
        spec.program = Some(super::p4::read(&named, file, constants, vocabulary, files)?);
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
    let table = item.plain_table(&format!("`{}`", cc.name))?;
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
    let item = item.of_parameter(parameter);
    if parameter.kind == Kind::Buffers { buffers(&item).map(Value::Buffers) } else { item.value() }
}

/// Reads the message buffers of a NIC (`tx_buffers`, `rx_buffers`): a list of sizes, each with the number of buffers of
/// this size.
fn buffers(item: &Item<'_>) -> Result<Vec<BufferClass>> {
    let mut classes = Vec::new();
    for class in item.array()? {
        let table = class.plain_table("a class of buffers")?;
        table.accept(&BUFFER_CLASS.map(|parameter| parameter.name))?;
        let [size, count] = BUFFER_CLASS.map(|parameter| table.parameter(&parameter));
        let Bytes(bytes) = size?.typed()?;
        classes.push(BufferClass { bytes: bytes as u32, count: count?.typed()? });
    }
    if classes.is_empty() {
        let example = Kind::Buffers.example();
        return Err(item.wrong("no buffers at all", format!("accepted: {example}; without the key there is no limit")));
    }
    Ok(classes)
}

/// Reads the values that override constants of a P4 program, by the constant's name.
fn constants(item: &Item<'_>) -> Result<BTreeMap<String, u64>> {
    let table = item.plain_table("`constants`")?;
    let mut constants = BTreeMap::new();
    for entry in table.entries() {
        let Some(value) = table.get(&entry.key) else { continue };
        let value = match value.narrowed(CONSTANT).value()? {
            Value::Flag(flag) => u64::from(flag),
            Value::Count(count) => count,
            _ => continue,
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
