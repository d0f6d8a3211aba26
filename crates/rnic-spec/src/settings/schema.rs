//! Adds the ranges of the declared settings to the JSON Schema of a run's document.

use super::document::declared;
use rnic_transport::settings::Kind;
use serde_json::{Value, json};

/// Adds the range of every setting to the schema of its field: numbers get a minimum and a maximum, and the
/// descriptions of strings name the accepted values.
pub(crate) fn add_ranges(schema: &mut Value) {
    for (path, kinds) in declared() {
        for pointer in fields(schema, "/properties/run", &path) {
            if let Some(field) = schema.pointer_mut(&pointer) {
                kinds.iter().for_each(|kind| add(field, kind));
            }
        }
    }
}

/// JSON pointers of the schemas of the fields at `path` below the schema at `pointer`.
pub(super) fn fields(schema: &Value, pointer: &str, path: &str) -> Vec<String> {
    let (step, rest) = path.split_once('.').map_or((path, None), |(step, rest)| (step, Some(rest)));
    let (name, is_list) = step.strip_suffix("[]").map_or((step, false), |name| (name, true));
    let mut found = Vec::new();
    for object in alternatives(schema, pointer.to_string()) {
        let field = format!("{object}/properties/{name}");
        if schema.pointer(&field).is_none() {
            continue;
        }
        let places = match is_list {
            false => vec![field],
            true => alternatives(schema, field).into_iter().map(|list| format!("{list}/items")).collect(),
        };
        for place in places.into_iter().filter(|place| schema.pointer(place).is_some()) {
            match rest {
                Some(rest) => found.extend(fields(schema, &place, rest)),
                None => found.push(place),
            }
        }
    }
    found
}

/// The schema at `pointer`, the schema to which it refers, and the alternatives of both.
fn alternatives(schema: &Value, pointer: String) -> Vec<String> {
    let Some(own) = schema.pointer(&pointer) else { return Vec::new() };
    let referred = own.get("$ref").and_then(Value::as_str).and_then(|target| target.strip_prefix('#'));
    let mut all: Vec<String> = referred.map_or(Vec::new(), |target| alternatives(schema, target.to_string()));
    for keyword in ["anyOf", "oneOf", "allOf"] {
        let count = own.get(keyword).and_then(Value::as_array).map_or(0, Vec::len);
        all.extend((0..count).flat_map(|index| alternatives(schema, format!("{pointer}/{keyword}/{index}"))));
    }
    all.push(pointer);
    all
}

/// Adds the range of `kind` to the schema of a field.
fn add(field: &mut Value, kind: &Kind) {
    // One variant of a type may have a list where another has a number of the same name.
    if field["type"] == "array" && !matches!(kind, Kind::List(_) | Kind::Either(_)) {
        return;
    }
    match kind {
        Kind::Count { min, max } => {
            field["minimum"] = json!(min);
            field["maximum"] = json!(max);
        }
        Kind::Number { min, max } => {
            field["minimum"] = json!(min);
            field["maximum"] = json!(max);
        }
        Kind::NumberAbove { min, max } => {
            field["exclusiveMinimum"] = json!(min);
            field["maximum"] = json!(max);
        }
        Kind::NumberBelow { min, max } => {
            field["minimum"] = json!(min);
            field["exclusiveMaximum"] = json!(max);
        }
        Kind::Size { min, max } if field["type"] == "integer" => {
            field["minimum"] = json!(min);
            field["maximum"] = json!(max);
        }
        Kind::List(kind) if field["items"].is_object() => add(&mut field["items"], kind),
        Kind::Either(kinds) => kinds.iter().for_each(|kind| add(field, kind)),
        Kind::Rate | Kind::Time | Kind::Timeout | Kind::Delay | Kind::Span { .. } | Kind::Bytes | Kind::Size { .. } => {
            let about = field.get("description").and_then(Value::as_str).unwrap_or("").trim_end_matches('.');
            let separator = if about.is_empty() { "" } else { "; " };
            field["description"] = json!(format!("{about}{separator}accepted: {}", kind.range()));
        }
        _ => {}
    }
}
