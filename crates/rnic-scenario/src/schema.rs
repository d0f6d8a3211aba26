//! A JSON Schema of scenario files, for editors that complete and check TOML.
//!
//! Keys, kinds, ranges, defaults and descriptions come from the declarations of settings ([`rnic_spec::settings`]) and
//! of transports and congestion controls.

use super::{overrides, transport};
use rnic_spec::settings::{self, CONSTANT, Preset, SECTIONS, Section, Setting};
use rnic_spec::{P4_PREFIX, Vocabulary};
use rnic_transport::settings::{BUFFER_CLASS, Kind, Parameter};
use serde_json::{Map, Value, json};

/// The JSON Schema (draft 7) of scenario files that name the transports and congestion controls of `vocabulary`.
///
/// The schema knows keys, kinds of values and words. Rules that connect several keys, and most ranges, are checked when
/// the scenario is read.
pub fn schema(vocabulary: &Vocabulary) -> Value {
    let mut definitions = Map::new();
    for section in SECTIONS.into_iter().filter(|section| !section.is_open) {
        let mut schema = object(properties(section));
        if let Some(selector) = section.selector {
            let of_variant = |variant: &settings::Variant| {
                let keys = section.keys(variant.name);
                let narrower = keys.iter().filter(|key| kinds(section, key).len() > 1);
                let narrower = narrower.filter_map(|key| section.setting(key, variant.name));
                let narrower = narrower.map(|setting| (setting.key.to_string(), of_kind(&setting.kind))).collect();
                (variant.name, keys, narrower)
            };
            schema["allOf"] = conditions(selector.key, selector.variants.iter().map(of_variant));
        }
        definitions.insert(section.table.to_string(), schema);
    }
    definitions.insert("transport".to_string(), object(settings_of_all(vocabulary)));
    definitions.insert("run".to_string(), run(vocabulary, "run"));
    definitions.insert("run.beside".to_string(), run(vocabulary, "run.beside"));
    let tables = overrides::tables_of_runs();
    definitions.insert("set".to_string(), paths(&tables));
    let mut sweep = paths(&[&["mode", "seed", "run"], &tables[..]].concat());
    sweep["properties"] = properties_of("sweep").into();
    definitions.insert("sweep".to_string(), sweep);

    let Some(mut root) = definitions.remove("") else { return Value::Null };
    root["$schema"] = "http://json-schema.org/draft-07/schema#".into();
    root["title"] = "rnic scenario".into();
    root["description"] = "What rnic simulates: a fabric, traffic, and the runs to compare".into();
    root["definitions"] = definitions.into();
    root
}

/// The properties of a table of settings.
fn properties(section: &Section) -> Map<String, Value> {
    let property = |key: &'static str| {
        let own: Vec<&Setting> = section.settings.iter().filter(|setting| setting.key == key).collect();
        let mut schemas: Vec<Value> = kinds(section, key).iter().map(of_kind).collect();
        let schema = if schemas.len() == 1 { schemas.remove(0) } else { json!({ "anyOf": schemas }) };
        let about = match own[..] {
            [setting] => description(setting),
            _ => {
                let each = own.iter().map(|setting| format!("{}: {}", setting.only.join(", "), description(setting)));
                each.collect::<Vec<_>>().join(". ")
            }
        };
        (key.to_string(), described(schema, &about))
    };
    section.all_keys().into_iter().map(property).collect()
}

fn properties_of(table: &str) -> Map<String, Value> {
    settings::section(table).map_or(Map::new(), properties)
}

/// The different kinds of the settings called `key` of a table's variants.
fn kinds(section: &Section, key: &str) -> Vec<Kind> {
    let mut kinds: Vec<Kind> = Vec::new();
    for setting in section.settings.iter().filter(|setting| setting.key == key) {
        if !kinds.contains(&setting.kind) {
            kinds.push(setting.kind);
        }
    }
    kinds
}

/// Description of a setting with its default, and with its range if a schema cannot express the range.
fn description(setting: &Setting) -> String {
    let default = setting.default_text().map_or(String::new(), |text| format!("; default: {text}"));
    without_links(&format!("{}{}{default}", setting.about, range(&setting.kind)))
}

/// The range of a kind of quantities, which are strings.
fn range(kind: &Kind) -> String {
    let is_quantity = *kind == Kind::Rate || kind.times().is_some() || kind.sizes().is_some();
    if is_quantity { format!("; accepted: {}", kind.range()) } else { String::new() }
}

/// The text of Markdown with links, without their targets.
fn without_links(text: &str) -> String {
    let mut plain = String::new();
    let mut rest = text;
    while let Some((before, after)) = rest.split_once("](") {
        let (start, label) = before.rsplit_once('[').unwrap_or(("", before));
        plain.extend([start, label]);
        rest = after.split_once(')').map_or("", |(_, rest)| rest);
    }
    plain + rest
}

fn object(properties: Map<String, Value>) -> Value {
    json!({ "type": "object", "properties": properties, "additionalProperties": false })
}

/// What holds for one value of a selecting key: the value, the keys that the table then has, and schemas for keys that
/// take fewer kinds in this case.
type Condition<'k> = (&'k str, Vec<&'k str>, Map<String, Value>);

fn conditions<'k>(selector: &str, variants: impl Iterator<Item = Condition<'k>>) -> Value {
    let condition = |(value, keys, narrower): Condition<'_>| {
        let is_value = json!({ "properties": { selector: { "const": value } }, "required": [selector] });
        let mut then = json!({ "propertyNames": { "enum": keys } });
        if !narrower.is_empty() {
            then["properties"] = narrower.into();
        }
        json!({ "if": is_value, "then": then })
    };
    variants.map(condition).collect()
}

/// A table whose keys are paths that begin with one of `first`.
fn paths(first: &[&str]) -> Value {
    let pattern = format!("^({})(\\.|$)", first.join("|"));
    json!({ "type": "object", "propertyNames": { "pattern": pattern } })
}

/// The settings that a run or `[transport]` can have, of all transports and congestion controls.
fn settings_of_all(vocabulary: &Vocabulary) -> Map<String, Value> {
    let controls = vocabulary.congestion_controls();
    let words: Vec<&str> = controls.iter().map(|cc| cc.name).collect();
    let mut all = Map::new();
    let about = |key: &str| {
        let setting = settings::section("transport").and_then(|section| section.setting(key, ""));
        setting.map_or(String::new(), description)
    };
    let common = transport::common_keys();
    let keys = vocabulary.transports().iter().flat_map(|declaration| transport::keys(declaration));
    for key in common.into_iter().chain(keys) {
        let declared = vocabulary.transports().iter().filter_map(|transport| transport.parameter(key));
        let mut schemas: Vec<Value> = Vec::new();
        for schema in declared.map(parameter) {
            if !schemas.contains(&schema) {
                schemas.push(schema);
            }
        }
        let schema = match (key, schemas.len()) {
            ("cc", _) => described(json!({ "enum": words }), &about(key)),
            ("pfc", _) => described(of_kind(&Kind::Flag), &about(key)),
            ("constants", _) => {
                described(json!({ "type": "object", "additionalProperties": of_kind(&CONSTANT) }), &about(key))
            }
            (_, 1) => schemas.remove(0),
            _ => json!({ "anyOf": schemas }),
        };
        all.insert(key.to_string(), schema);
    }
    for cc in controls.iter().filter(|cc| !cc.parameters.is_empty()) {
        let own = cc.parameters.iter().map(|one| (one.name.to_string(), parameter(one))).collect();
        all.insert(cc.name.to_string(), described(object(own), cc.about));
    }
    all
}

/// The schema of a table with a transport and its settings: a run, or a transport beside the run's own.
fn run(vocabulary: &Vocabulary, table: &str) -> Value {
    let own = settings::section(table).map_or(&[][..], |section| section.settings);
    let required: Vec<&str> =
        own.iter().filter(|setting| setting.default == Preset::Required).map(|setting| setting.key).collect();
    let own: Vec<&'static str> = own.iter().map(|setting| setting.key).collect();
    let tables: Vec<&str> = transport::parameter_tables(vocabulary).collect();
    let names = || vocabulary.transports().iter().map(|transport| transport.name).filter(|name| *name != "p4");
    let mut all = properties_of(table);
    all["transport"]["anyOf"] =
        json!([{ "enum": names().collect::<Vec<_>>() }, { "type": "string", "pattern": format!("^{P4_PREFIX}.") }]);
    if let Some(transport) = all["transport"].as_object_mut() {
        transport.retain(|key, _| ["anyOf", "description"].contains(&key.as_str()));
    }
    all.extend(settings_of_all(vocabulary));
    let mut schema = object(all);
    schema["required"] = json!(required);
    let declarations = vocabulary.transports().iter().filter(|transport| transport.name != "p4");
    let keys = |settings: Vec<&'static str>| [&own[..], &transport::common_keys(), &tables, &settings].concat();
    let of_transport = declarations.map(|one| (one.name, keys(transport::keys(one)), Map::new()));
    schema["allOf"] = conditions("transport", of_transport);
    schema
}

/// The schema of a parameter of a transport or congestion control.
fn parameter(parameter: &Parameter) -> Value {
    let default = parameter.default_value().map_or(String::new(), |default| format!("; default: {default}"));
    let about = format!("{}{}{default}", parameter.about, range(&parameter.kind));
    described(of_kind(&parameter.kind), &about)
}

fn described(mut schema: Value, about: &str) -> Value {
    // Next to a reference, draft 7 ignores other keys.
    if schema.get("$ref").is_some() {
        schema = json!({ "allOf": [schema] });
    }
    schema["description"] = about.into();
    schema
}

/// A quantity with one of these units, as a regular expression.
fn quantity(units: &str, example: &str) -> Value {
    let pattern = format!(r"^\s*[-+]?[0-9._]*\s*({units})\s*$");
    json!({ "type": "string", "pattern": pattern, "examples": [example] })
}

/// The schema of a value of this kind.
fn of_kind(kind: &Kind) -> Value {
    match kind {
        Kind::Title => json!({ "type": "string" }),
        Kind::Text => json!({ "type": "string", "pattern": r"\S" }),
        Kind::Flag => json!({ "type": "boolean" }),
        Kind::Count { min, max } => json!({ "type": "integer", "minimum": min, "maximum": max }),
        Kind::Number { min, max } => json!({ "type": "number", "minimum": min, "maximum": max }),
        Kind::NumberAbove { min, max } if max.is_infinite() => json!({ "type": "number", "exclusiveMinimum": min }),
        Kind::NumberAbove { min, max } => json!({ "type": "number", "exclusiveMinimum": min, "maximum": max }),
        Kind::NumberBelow { min, max } => json!({ "type": "number", "minimum": min, "exclusiveMaximum": max }),
        Kind::Rate => quantity("[KkMGT]?bps", "40 Gbps"),
        Kind::Time | Kind::Timeout | Kind::Delay | Kind::Span { .. } => quantity("[pnumµμ]?s", "2 us"),
        Kind::Bytes | Kind::Size { .. } => quantity("[KkMGT]?B|[KkMG]iB", "240 KB"),
        Kind::Choice(words) => json!({ "enum": words }),
        Kind::List(kind) => json!({ "type": "array", "items": of_kind(kind) }),
        Kind::Table(name) => json!({ "$ref": format!("#/definitions/{name}") }),
        Kind::Tables(name) => json!({ "type": "array", "items": { "$ref": format!("#/definitions/{name}") } }),
        Kind::Either(kinds) => json!({ "anyOf": kinds.iter().map(of_kind).collect::<Vec<_>>() }),
        Kind::Buffers => {
            let class = BUFFER_CLASS.map(|parameter| (parameter.name.to_string(), of_kind(&parameter.kind)));
            json!({ "type": "array", "items": object(class.into_iter().collect()), "minItems": 1 })
        }
    }
}

#[cfg(test)]
mod tests;
