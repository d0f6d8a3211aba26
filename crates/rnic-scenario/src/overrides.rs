//! Changes to the values of a scenario, which are a tree: `--set path=value`, and the `set` table of a run.
//!
//! The names in the path of a changed value are separated by dots; a name in `"..."` or `'...'` may contain dots. An
//! element of an array is named by its index from 0, or by its `name`. If the new value is a table, it replaces the
//! previous table as a whole.

use super::error::ScenarioError;
use super::reader::{Result, Table};
use super::tree::{At, Documents, Entry, Node, Value};
use rnic_spec::settings;
use rnic_transport::settings::Kind;

/// One name of a dotted path (such as `load` in `traffic.load`), and its position in the text.
#[derive(Clone, Debug)]
pub(super) struct Step {
    pub(super) name: String,
    pub(super) at: At,
}

/// The tables and keys at the top level of a scenario that determine a run, apart from the run's own: a run may change
/// them with its `set`, and a sweep may vary them.
pub(super) fn tables_of_runs() -> Vec<&'static str> {
    let root = settings::section("").map_or(&[][..], |root| root.settings);
    let is_table = |kind: &Kind| matches!(kind, Kind::Table(_) | Kind::Either([Kind::Table(_), ..]));
    let tables = root.iter().filter(|setting| is_table(&setting.kind)).map(|setting| setting.key);
    tables.filter(|key| *key != "sweep").chain(["fidelity", "fidelity_quantum", "fast_forward"]).collect()
}

/// Applies each `--set` in `overrides` to the tree `root`, in order. The texts of the arguments are added to
/// `documents`, so that errors can point at them.
pub(super) fn apply_arguments(
    documents: &mut Documents, root: &mut Node, overrides: &[(String, String)],
) -> Result<()> {
    for (path, value) in overrides {
        let text = format!("{path}={value}");
        let document = documents.add_override(&text);
        let value = documents.parse_value(document, path.len() + 1..text.len())?;
        let whole = documents.at(document, 0..path.len());
        let spans = split(path).map_err(|problem| documents.mistake(&whole, problem, Some(path_help())))?;
        let steps: Vec<Step> = spans
            .into_iter()
            .map(|(name, start)| Step { at: documents.at(document, start..start + name.len()), name })
            .collect();
        assign(documents, root, &steps, value)?;
    }
    Ok(())
}

/// Applies a run's `set` table to `root`, the run's own copy of the scenario's tree.
pub(super) fn apply_run_set(documents: &Documents, root: &mut Node, set: &Table<'_>) -> Result<()> {
    let (mut changes, tables) = (Vec::new(), tables_of_runs());
    let inline = |node: &Node| documents.text_at(&node.at).starts_with(['{', '[']);
    collect(documents, set.entries(), &[], &inline, &mut changes)?;
    for (steps, value) in changes {
        if let Some(first) = steps.first().filter(|step| !tables.contains(&step.name.as_str())) {
            let message = format!("{} cannot change `{}`", set.label(), first.name);
            let help = format!("a path in `set` begins with one of {}", tables.join(", "));
            return Err(documents.mistake(&first.at, message, Some(help)));
        }
        assign(documents, root, &steps, value)?;
    }
    Ok(())
}

/// Flattens a table such as a run's `set`, whose keys are dotted paths, into pairs of path and value. It makes no
/// difference whether a path is quoted. A table for which `whole` returns true counts as one value.
pub(super) fn collect(
    documents: &Documents, entries: &[Entry], before: &[Step], whole: &dyn Fn(&Node) -> bool,
    into: &mut Vec<(Vec<Step>, Node)>,
) -> Result<()> {
    for entry in entries {
        let names =
            split(&entry.key).map_err(|problem| documents.mistake(&entry.key_at, problem, Some(path_help())))?;
        let mut steps = before.to_vec();
        steps.extend(names.into_iter().map(|(name, _)| Step { name, at: entry.key_at.clone() }));
        match &entry.node.value {
            Value::Table(below) if !whole(&entry.node) => {
                collect(documents, below, &steps, whole, into)?;
            }
            _ => into.push((steps, entry.node.clone())),
        }
    }
    Ok(())
}

fn path_help() -> String {
    "write a dotted path, for example `fabric.switch.buffer` or `run.\"IRN 2.0\".bdp_cap`".to_string()
}

/// Splits a dotted path into names, each with its byte offset in the path.
fn split(path: &str) -> std::result::Result<Vec<(String, usize)>, String> {
    let mut names = Vec::new();
    let mut at = 0;
    loop {
        let rest = &path[at..];
        let (name, start, length) = match rest.chars().next() {
            Some(quote @ ('"' | '\'')) => {
                let closed = rest[1..].find(quote).ok_or_else(|| format!("the path `{path}` has an open quote"))?;
                (&rest[1..1 + closed], at + 1, closed + 2)
            }
            _ => {
                let length = rest.find('.').unwrap_or(rest.len());
                (&rest[..length], at, length)
            }
        };
        if name.is_empty() {
            return Err(format!("the path `{path}` has an empty part"));
        }
        names.push((name.to_string(), start));
        at += length;
        match path[at..].chars().next() {
            None => return Ok(names),
            Some('.') => at += 1,
            Some(_) => return Err(format!("the path `{path}` has text after a closing quote")),
        }
    }
}

/// Stores `value` in the tree `root` at the path `steps`, and creates the missing tables along the path.
pub(super) fn assign(documents: &Documents, root: &mut Node, steps: &[Step], value: Node) -> Result<()> {
    let mut node = root;
    let mut path = String::new();
    for step in steps {
        node = descend(documents, node, step, &path)?;
        if !path.is_empty() {
            path.push('.');
        }
        path.push_str(&step.name);
    }
    *node = value;
    Ok(())
}

/// The child `step` of the tree node `node`, whose path is `path`. If the node is a table without this key, the child
/// is created as an empty table.
fn descend<'n>(documents: &Documents, node: &'n mut Node, step: &Step, path: &str) -> Result<&'n mut Node> {
    match &mut node.value {
        Value::Table(entries) => {
            let position = entries.iter().position(|entry| entry.key == step.name).unwrap_or_else(|| {
                let node = Node { value: Value::Table(Vec::new()), at: step.at.clone() };
                entries.push(Entry { key: step.name.clone(), key_at: step.at.clone(), node });
                entries.len() - 1
            });
            Ok(&mut entries[position].node)
        }
        Value::Array(elements) => match position(elements, &step.name) {
            Some(position) => Ok(&mut elements[position]),
            None => Err(no_element(documents, elements, step, path)),
        },
        other => {
            let message = format!("`{path}` is {}, so it has no `{}`", other.kind(), step.name);
            Err(documents.mistake(&step.at, message, Some(format!("set `{path}` itself"))))
        }
    }
}

/// The node of the tree `root` at the path `steps`; `None` if a step of the path does not exist.
pub(super) fn find<'n>(root: &'n Node, steps: &[Step]) -> Option<&'n Node> {
    steps.iter().try_fold(root, |node, step| match &node.value {
        Value::Table(entries) => entries.iter().find(|entry| entry.key == step.name).map(|entry| &entry.node),
        Value::Array(elements) => elements.get(position(elements, &step.name)?),
        _ => None,
    })
}

/// The index of the array element that the name `name` in a path means: the name of an element, or an index as text.
fn position(elements: &[Node], name: &str) -> Option<usize> {
    let by_name = elements.iter().position(|element| name_of(element).is_some_and(|own| own == name));
    by_name.or_else(|| name.parse().ok().filter(|number| *number < elements.len()))
}

fn no_element(documents: &Documents, elements: &[Node], step: &Step, path: &str) -> ScenarioError {
    let names: Vec<String> = elements
        .iter()
        .enumerate()
        .map(|(number, element)| match name_of(element) {
            Some(name) => format!("{number} (\"{name}\")"),
            None => number.to_string(),
        })
        .collect();
    let help = if names.is_empty() { "there are none".to_string() } else { format!("there are: {}", names.join(", ")) };
    documents.mistake(&step.at, format!("nothing in `{path}` is called or numbered `{}`", step.name), Some(help))
}

/// The name of a table in an array of tables: its key `name`, else its key `pattern` (for traffic without a name).
fn name_of(node: &Node) -> Option<&String> {
    let Value::Table(entries) = &node.value else {
        return None;
    };
    let text = |key: &str| {
        entries.iter().find(|entry| entry.key == key).and_then(|entry| match &entry.node.value {
            Value::String(text) => Some(text),
            _ => None,
        })
    };
    text("name").or_else(|| text("pattern"))
}

#[cfg(test)]
mod tests {
    use super::split;

    #[test]
    fn paths_split_at_dots_outside_quotes() {
        let names = |path: &str| split(path).map(|parts| parts.into_iter().map(|part| part.0).collect::<Vec<_>>());
        assert_eq!(names("fabric.switch.buffer").unwrap(), ["fabric", "switch", "buffer"]);
        assert_eq!(names("run.RoCE + PFC.pfc").unwrap(), ["run", "RoCE + PFC", "pfc"]);
        assert_eq!(names("run.\"IRN 2.0\".pfc").unwrap(), ["run", "IRN 2.0", "pfc"]);
        assert_eq!(split("run.'a.b'.pfc").unwrap()[1], ("a.b".to_string(), 5));
    }

    #[test]
    fn malformed_paths_say_why() {
        assert_eq!(split("").unwrap_err(), "the path `` has an empty part");
        assert_eq!(split("a..b").unwrap_err(), "the path `a..b` has an empty part");
        assert_eq!(split("a.").unwrap_err(), "the path `a.` has an empty part");
        assert_eq!(split("run.\"a.b").unwrap_err(), "the path `run.\"a.b` has an open quote");
        assert_eq!(split("\"a\"b").unwrap_err(), "the path `\"a\"b` has text after a closing quote");
    }
}
