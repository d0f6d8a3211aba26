//! A value that is out of a setting's range is refused in a scenario file and in a document of a run; a value in range
//! is refused by neither for its range. Python gives scenarios to the reader as the text of a file.

use super::*;
use rnic_spec::RunSpec;
use rnic_transport::settings::MAX_RATE;

/// Values at both bounds of a kind and one step beyond, each with whether it is in range.
fn bounds(kind: &Kind) -> Vec<(Toml, bool)> {
    let count = |value: i128| i64::try_from(value).ok().map(Toml::from);
    let quantities = |unit: &str, min: u64, max: u64| {
        let text = |value: u64| Toml::from(format!("{value} {unit}"));
        let below = min.checked_sub(1).map(|value| (text(value), false));
        [(text(min), true), (text(max), true), (text(max + 1), false)].into_iter().chain(below).collect::<Vec<_>>()
    };
    match kind {
        Kind::Rate => quantities("bps", 1, MAX_RATE.as_bps()),
        Kind::Count { min, max } => {
            let (min, max) = (i128::from(*min), i128::from(*max));
            let values = [(min, true), (max, true), (min - 1, false), (max + 1, false)];
            values.into_iter().filter_map(|(value, fits)| Some((count(value)?, fits))).collect()
        }
        Kind::Number { min, max } => {
            [(*min, true), (*max, true), (min.next_down(), false), (max.next_up(), false), (f64::NAN, false)]
                .map(|(value, fits)| (Toml::from(value), fits))
                .to_vec()
        }
        Kind::NumberAbove { min, max } => {
            let values = [(*min, false), (min.next_up(), true), (*max, true), (max.next_up(), max.is_infinite())];
            values
                .into_iter()
                .filter(|(value, _)| value.is_finite())
                .map(|(value, fits)| (value.into(), fits))
                .collect()
        }
        Kind::NumberBelow { min, max } => {
            [(*min, true), (min.next_down(), false), (max.next_down(), true), (*max, false)]
                .map(|(value, fits)| (Toml::from(value), fits))
                .to_vec()
        }
        Kind::Flag => [true, false].map(|flag| (flag.into(), true)).to_vec(),
        Kind::Choice(words) => {
            let words = words.iter().map(|word| (Toml::from(*word), true));
            words.chain([("nonsense".into(), false)]).collect()
        }
        Kind::Title => vec![("".into(), true), ("two\nlines".into(), false)],
        Kind::Text => vec![("x".into(), true), (" ".into(), false), ("two\nlines".into(), false)],
        Kind::List(kind) => bounds(kind).into_iter().map(|(value, fits)| (Toml::Array(vec![value]), fits)).collect(),
        Kind::Either(kinds) => kinds.iter().flat_map(bounds).collect(),
        Kind::Table(_) | Kind::Tables(_) => Vec::new(),
        kind => match (kind.times(), kind.sizes()) {
            (Some((min, max)), _) => quantities("ps", min.as_ps(), max.as_ps()),
            (_, Some((min, max))) => quantities("B", min, max),
            _ => panic!("no bounds of {kind:?}"),
        },
    }
}

/// The texts of the ranges of a kind.
fn ranges(kind: &Kind) -> Vec<String> {
    match kind {
        Kind::Either(kinds) => kinds.iter().flat_map(ranges).collect(),
        Kind::List(kind) => ranges(kind),
        kind => vec![format!("accepted: {}", kind.range())],
    }
}

/// Whether an error of the reader is about the range of the value of a setting, and not about other settings.
fn is_about_range(error: &str, setting: &Setting) -> bool {
    let key = setting.key;
    let is_named = |end: &str| error.contains(&format!("`{key}` {end}"));
    let of_numbers = ranges(&setting.kind).iter().any(|range| error.contains(range));
    let of_words = error.contains(&format!("unknown {key} \"")) || error.contains("is no time");
    let of_names = is_named("is empty")
        || is_named("has an empty name")
        || is_named("contains a line break")
        || error.contains("a node's name is a string");
    let others = ["is too long", "is too short", "is zero", "must be an array"];
    (is_named("is out of range") && of_numbers) || of_words || of_names || others.into_iter().any(is_named)
}

/// The values at a path of a document of a run.
fn places<'v>(value: &'v mut Value, path: &str) -> Vec<&'v mut Value> {
    let (step, rest) = path.split_once('.').map_or((path, None), |(step, rest)| (step, Some(rest)));
    let (name, is_list) = step.strip_suffix("[]").map_or((step, false), |name| (name, true));
    let Some(value) = value.get_mut(name).filter(|value| !value.is_null()) else { return Vec::new() };
    let values = if is_list { value.as_array_mut().unwrap().iter_mut().collect() } else { vec![value] };
    match rest {
        Some(rest) => values.into_iter().flat_map(|value| places(value, rest)).collect(),
        None => values,
    }
}

/// A value of a scenario file as the document has it: a size is a number where `like` is one, and a list has the
/// length of `like`.
fn in_document(value: &Toml, like: &Value) -> Value {
    match (value, like) {
        (Toml::String(text), Value::Number(_)) => {
            text.trim_end_matches(" B").parse::<u64>().map_or(json!(text), Value::from)
        }
        (Toml::Array(elements), Value::Array(likes)) => {
            let first = elements.iter().zip(likes).map(|(element, like)| in_document(element, like));
            first.chain(likes.iter().skip(elements.len()).cloned()).collect()
        }
        (value, _) => serde_json::to_value(value).unwrap(),
    }
}

#[test]
fn files_and_documents_have_the_same_ranges() {
    let (folder, vocabulary) = (folder(), Vocabulary::standard());
    let read = |scenario: &toml::Table| {
        let text = toml::to_string(scenario).unwrap();
        crate::from_str(&text, "a.toml", folder.path(), &[], None).map_err(|error| error.to_string())
    };
    let (mut in_files, mut in_documents, mut wrong) = (0, 0, Vec::new());
    for (section, setting) in all_settings() {
        let name = format!("[{}] {}", section.table, setting.key);
        // The names of transports and files have rules of their own.
        if ["transport", "sizes", "file"].contains(&setting.key) {
            continue;
        }
        let mut found = section.paths(setting).is_empty();
        for base in bases(section, setting) {
            for (value, fits) in bounds(&setting.kind) {
                let error = read(&change(&base, section, setting, value.clone())).err().unwrap_or_default();
                let is_refused = is_about_range(&error, setting);
                // Other settings narrow the range of a key further, or forbid the key in the base scenario.
                let others = ["is out of range", "a mesh needs pairs", "has no meaning where"];
                if is_refused == fits && (fits || !others.iter().any(|other| error.contains(other))) {
                    wrong.push(format!("{name} = {value}: {error}"));
                }
                in_files += 1;
            }
            let example: toml::Table = format!("x = {}", setting.example).parse().unwrap();
            let with_example = read(&change(&base, section, setting, example["x"].clone()));
            let Ok(scenario) = with_example.or_else(|_| read(&change_nothing(&base, section))) else { continue };
            let document: Value = serde_json::from_str(&scenario.runs[0].to_json(false).unwrap()).unwrap();
            for path in section.paths(setting) {
                for (value, fits) in bounds(&setting.kind) {
                    let mut changed = document.clone();
                    let places = places(&mut changed["run"], &path);
                    if places.is_empty() || !has_type(places[0], &value) {
                        continue;
                    }
                    found = true;
                    places.into_iter().for_each(|place| *place = in_document(&value, place));
                    let error = RunSpec::from_json(&changed.to_string(), &vocabulary).err();
                    let error = error.map_or(String::new(), |error| error.to_string());
                    let is_refused = match fits {
                        true => ranges(&setting.kind).iter().any(|range| error.ends_with(range)),
                        false => !error.is_empty(),
                    };
                    if is_refused == fits {
                        wrong.push(format!("{name} = {value}, {path}: {error}"));
                    }
                    in_documents += 1;
                }
            }
        }
        if !found {
            wrong.push(format!("no document has {name}"));
        }
    }
    assert!(wrong.is_empty(), "{wrong:#?}");
    assert!(in_files > 500 && in_documents > 350, "{in_files}, {in_documents}");
}

/// Whether a document that has `like` can have `value` in its place: a document has only one of several kinds.
fn has_type(like: &Value, value: &Toml) -> bool {
    match (like, value) {
        (Value::String(_), Toml::String(_))
        | (Value::Bool(_), Toml::Boolean(_))
        | (Value::Array(_), Toml::Array(_)) => true,
        (Value::Number(_), Toml::Integer(_)) => true,
        (Value::Number(_), Toml::Float(number)) => number.is_finite(),
        (Value::Number(_), Toml::String(text)) => text.ends_with(" B"),
        _ => false,
    }
}

/// The base scenario with the table of `section`, which has only the keys that it needs.
fn change_nothing(base: &toml::Table, section: &Section) -> toml::Table {
    let mut scenario = base.clone();
    put(&mut scenario, section.table, "nothing", 0.into());
    let mut at = &mut scenario;
    for step in section.table.split('.').filter(|step| !step.is_empty()) {
        at = match at.get_mut(step).unwrap() {
            Toml::Array(tables) => tables[0].as_table_mut().unwrap(),
            node => node.as_table_mut().unwrap(),
        };
    }
    at.remove("nothing");
    scenario
}
