//! Checks the values of a run's JSON document against the declarations of the settings.

use super::SECTIONS;
use crate::spec::{RunSpec, Traffic, TrafficPattern};
use crate::triggered::Triggered;
use rnic_transport::Bytes;
use rnic_transport::settings::{self, Kind};
use serde_json::{Map, Value, json};
use std::sync::Arc;

/// Checks that every value of `run` for which a setting is declared is in the range of this setting.
///
/// # Errors
/// A value is out of range. The error is one sentence with the path of the value in the document and the accepted
/// values.
pub(crate) fn check<T>(run: &RunSpec<T>) -> Result<(), String> {
    let values = values(run).map_err(|error| error.to_string())?;
    for (path, kinds) in declared() {
        each(&values, &path, "run".to_string(), &mut |at, value| accept(&kinds, at, value))?;
    }
    Ok(())
}

/// All paths of settings in the document of a run, in the order of the declarations, each with the kinds of the
/// settings that have it.
pub(crate) fn declared() -> Vec<(String, Vec<Kind>)> {
    let mut declared: Vec<(String, Vec<Kind>)> = Vec::new();
    for section in SECTIONS {
        for setting in section.settings {
            for path in section.paths(setting) {
                match declared.iter_mut().find(|(other, _)| *other == path) {
                    Some((_, kinds)) if kinds.contains(&setting.kind) => {}
                    Some((_, kinds)) => kinds.push(setting.kind),
                    None => declared.push((path, vec![setting.kind])),
                }
            }
        }
    }
    declared
}

/// The values of a run as its document has them, without transports, and without patterns that are lists of flows, of
/// which a run may have millions.
fn values<T>(run: &RunSpec<T>) -> serde_json::Result<Value> {
    let source = |source: &Traffic| match &source.pattern {
        TrafficPattern::List { .. } => {
            let pattern = TrafficPattern::List { flows: Arc::new([]) };
            let mut values = serde_json::to_value(Traffic { pattern, name: source.name.clone(), ..*source })?;
            values["pattern"] = Value::Null;
            Ok(values)
        }
        TrafficPattern::Triggered(Triggered { reaction, .. }) => {
            let pattern = TrafficPattern::List { flows: Arc::new([]) };
            let mut values = serde_json::to_value(Traffic { pattern, name: source.name.clone(), ..*source })?;
            values["pattern"] = json!({ "reaction": reaction });
            Ok(values)
        }
        _ => serde_json::to_value(source),
    };
    let traffic: Vec<Value> = run.traffic.iter().map(source).collect::<Result<_, _>>()?;
    let beside: Vec<Value> = run.beside.iter().map(|beside| json!({ "priority": beside.priority })).collect();
    let mut values = Map::new();
    values.insert("seed".to_string(), run.seed.into());
    values.insert("fabric".to_string(), serde_json::to_value(&run.fabric)?);
    values.insert("traffic".to_string(), traffic.into());
    values.insert("beside".to_string(), beside.into());
    values.insert("limits".to_string(), serde_json::to_value(run.limits)?);
    values.insert("watch".to_string(), serde_json::to_value(&run.watch)?);
    values.insert("fidelity".to_string(), serde_json::to_value(run.fidelity)?);
    values.insert("fidelity_quantum".to_string(), serde_json::to_value(run.fidelity_quantum)?);
    values.insert("fast_forward".to_string(), serde_json::to_value(run.fast_forward)?);
    Ok(values.into())
}

/// Calls `check` for each value at `path` below `value`, which has the path `at`, with the whole path of the value.
fn each<E>(
    value: &Value, path: &str, at: String, check: &mut impl FnMut(&str, &Value) -> Result<(), E>,
) -> Result<(), E> {
    let (step, rest) = path.split_once('.').map_or((path, None), |(step, rest)| (step, Some(rest)));
    let (name, is_list) = step.strip_suffix("[]").map_or((step, false), |name| (name, true));
    let Some(value) = value.get(name).filter(|value| !value.is_null()) else { return Ok(()) };
    let at = format!("{at}.{name}");
    let mut below = |value: &Value, at: String| match rest {
        Some(rest) => each(value, rest, at, check),
        None => check(&at, value),
    };
    match value {
        Value::Array(elements) if is_list => {
            elements.iter().enumerate().try_for_each(|(index, element)| below(element, format!("{at}[{index}]")))
        }
        value => below(value, at),
    }
}

/// Fails if none of `kinds` accepts the value at the path `at`.
fn accept(kinds: &[Kind], at: &str, value: &Value) -> Result<(), String> {
    let kinds = suitable(kinds, value);
    if kinds.iter().any(|kind| accepts(kind, value)) {
        return Ok(());
    }
    // Of a list, the error names the element.
    if let (Value::Array(elements), [Kind::List(kind), ..]) = (value, &kinds[..])
        && let Some(index) = elements.iter().position(|element| !accepts(kind, element))
    {
        return accept(&[**kind], &format!("{at}[{index}]"), &elements[index]);
    }
    if let Value::String(text) = value
        && text.contains(char::is_control)
    {
        return Err(format!("{at} is {text:?}; accepted: text without line breaks and other control characters"));
    }
    let shown = match value {
        Value::String(text) if text.trim().is_empty() => "empty".to_string(),
        Value::String(text) => text.clone(),
        value => value.to_string(),
    };
    let ranges: Vec<String> = kinds.iter().map(Kind::range).collect();
    Err(format!("{at} is {shown}; accepted: {}", ranges.join("; or ")))
}

/// The kinds of which a value can be by its JSON type, each once; all kinds if it can be of none. A number is a size in
/// bytes only where no number is declared.
fn suitable(kinds: &[Kind], value: &Value) -> Vec<Kind> {
    let mut all: Vec<Kind> = Vec::new();
    let flat =
        kinds.iter().flat_map(|kind| if let Kind::Either(kinds) = kind { *kinds } else { std::slice::from_ref(kind) });
    for kind in flat {
        if !all.contains(kind) {
            all.push(*kind);
        }
    }
    let is_number = |kind: &Kind| {
        matches!(kind, Kind::Count { .. } | Kind::Number { .. } | Kind::NumberAbove { .. } | Kind::NumberBelow { .. })
    };
    let has_numbers = all.iter().any(is_number);
    let suits = |kind: &&Kind| match value {
        Value::Number(_) => is_number(kind) || (!has_numbers && kind.sizes().is_some()),
        Value::String(text) => !is_number(kind) && kind.parse(text).is_ok(),
        Value::Array(_) => matches!(kind, Kind::List(_)),
        Value::Bool(_) => matches!(kind, Kind::Flag),
        _ => false,
    };
    let suitable: Vec<Kind> = all.iter().filter(suits).copied().collect();
    if suitable.is_empty() { all } else { suitable }
}

fn accepts(kind: &Kind, value: &Value) -> bool {
    match (kind, value) {
        (Kind::List(kind), Value::Array(elements)) => elements.iter().all(|element| accepts(kind, element)),
        (Kind::Number { .. } | Kind::NumberAbove { .. } | Kind::NumberBelow { .. }, Value::Number(number)) => {
            number.as_f64().is_some_and(|number| kind.accepts(&settings::Value::Number(number)))
        }
        (kind, Value::Number(number)) => number.as_u64().is_some_and(|number| {
            kind.accepts(&settings::Value::Count(number)) || kind.accepts(&settings::Value::Bytes(Bytes(number)))
        }),
        (kind, Value::String(text)) => kind.parse(text).is_ok_and(|value| kind.accepts(&value)),
        (kind, Value::Bool(flag)) => kind.accepts(&settings::Value::Flag(*flag)),
        _ => false,
    }
}
