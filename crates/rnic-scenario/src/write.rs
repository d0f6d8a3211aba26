//! Writes scenarios as TOML.

use super::error::Mistake;
use super::extends::{self, Files};
use super::overrides;
use super::read::{self, Text};
use super::reader::Result;
use super::tree::{Documents, Node, Value};
use crate::format::Graph;
use rnic_fabric::config::LinkSpec;
use rnic_spec::{Vocabulary, settings};
use std::path::Path;

/// A TOML value to write. Unlike [`toml::Table`] it keeps the order of keys, which is the order of the values that a
/// `[sweep]` combines.
#[derive(Clone, PartialEq, Debug)]
pub enum Toml {
    /// A string, number, boolean or date, as TOML writes it.
    Scalar(String),
    /// An array.
    Array(Vec<Toml>),
    /// A table.
    Table {
        /// Keys and values, in the order of the text.
        entries: Vec<(String, Toml)>,
        /// Whether the table is written as `{ key = value }` and not under a heading. In a scenario an inline table
        /// replaces the table that it overrides; other tables are merged.
        inline: bool,
    },
}

impl Toml {
    /// A TOML string with the characters of `text`.
    pub fn string(text: &str) -> Toml {
        Toml::Scalar(toml::Value::String(text.to_string()).to_string())
    }

    /// The value on one line, as after `key = `.
    pub fn inline(&self) -> String {
        match self {
            Toml::Scalar(text) => text.clone(),
            Toml::Array(elements) => {
                format!("[{}]", elements.iter().map(Toml::inline).collect::<Vec<_>>().join(", "))
            }
            Toml::Table { entries, .. } if entries.is_empty() => "{}".to_string(),
            Toml::Table { entries, .. } => {
                let pairs: Vec<String> =
                    entries.iter().map(|(name, value)| format!("{} = {}", key(name), value.inline())).collect();
                format!("{{ {} }}", pairs.join(", "))
            }
        }
    }

    /// Whether the value is written under headings of its own: a table, or an array of tables.
    fn has_heading(&self) -> bool {
        match self {
            Toml::Scalar(_) => false,
            Toml::Array(elements) => !elements.is_empty() && elements.iter().all(Toml::has_heading_as_element),
            Toml::Table { inline, .. } => !inline,
        }
    }

    fn has_heading_as_element(&self) -> bool {
        matches!(self, Toml::Table { inline: false, .. })
    }
}

/// The text of a TOML document whose root table has these entries.
pub fn document(entries: &[(String, Toml)]) -> String {
    let mut text = String::new();
    table(&mut text, "", entries);
    text
}

/// Appends a table, whose heading is `path` and is in the text already.
fn table(text: &mut String, path: &str, entries: &[(String, Toml)]) {
    let below = |name: &str| if path.is_empty() { key(name) } else { format!("{path}.{}", key(name)) };
    for (name, value) in entries.iter().filter(|(_, value)| !value.has_heading()) {
        text.push_str(&format!("{} = {}\n", key(name), value.inline()));
    }
    let heading = |text: &mut String, heading: String, value: &Toml| {
        let Toml::Table { entries, .. } = value else { return };
        if !text.is_empty() {
            text.push('\n');
        }
        text.push_str(&heading);
        text.push('\n');
        // The heading without its brackets.
        table(text, heading.trim_matches(['[', ']']), entries);
    };
    for (name, value) in entries.iter().filter(|(_, value)| value.has_heading()) {
        match value {
            Toml::Array(elements) => {
                elements.iter().for_each(|element| heading(text, format!("[[{}]]", below(name)), element));
            }
            other => heading(text, format!("[{}]", below(name)), other),
        }
    }
}

/// A key as TOML writes it: in quotes if it has characters other than letters, digits, `_` and `-`.
fn key(name: &str) -> String {
    let is_bare = |c: char| c.is_ascii_alphanumeric() || c == '_' || c == '-';
    if !name.is_empty() && name.chars().all(is_bare) {
        return name.to_string();
    }
    let mut quoted = String::from("\"");
    for c in name.chars() {
        match c {
            '"' | '\\' => quoted.extend(['\\', c]),
            c if c.is_control() => quoted.push_str(&format!("\\u{:04X}", u32::from(c))),
            c => quoted.push(c),
        }
    }
    quoted + "\""
}

/// The text of a scenario with everything that it extends, and with its overrides.
pub(super) fn merged(
    vocabulary: &Vocabulary, text: &Text<'_>, overrides: &[(String, String)], seed: Option<u64>,
) -> Result<String> {
    merged_entries(vocabulary, text, overrides, seed).map(|entries| document(&entries))
}

/// The entries of [`merged`].
fn merged_entries(
    vocabulary: &Vocabulary, text: &Text<'_>, overrides: &[(String, String)], seed: Option<u64>,
) -> Result<Vec<(String, Toml)>> {
    let mut documents = Documents::default();
    let mut tree = extends::tree(&mut documents, text.files, text.name, text.text, text.folder)?;
    overrides::apply_arguments(&mut documents, &mut tree, overrides)?;
    // A scenario may inherit keys that have no effect, but may not have them itself.
    documents.own_all();
    for mistake in read::without_effect(vocabulary, text, &documents, &tree) {
        remove(&documents, &mut tree, &mistake);
    }
    let Toml::Table { mut entries, .. } = of(&documents, text.files, &tree) else {
        return Ok(Vec::new());
    };
    if let Some(seed) = seed {
        entries.retain(|(name, _)| name != "seed");
        entries.insert(0, ("seed".to_string(), Toml::Scalar(seed.to_string())));
    }
    Ok(entries)
}

/// The text of a scenario, as [`merged`], whose fabric is the graph `graph`: each of its links is a `[[fabric.link]]`.
/// With `run`, the text has only the run of this name. Links have the properties `base` unless their tables give
/// others. The faults of a link must be of different kinds, because a graph has one table for each link.
pub(super) fn as_graph(
    vocabulary: &Vocabulary, text: &Text<'_>, overrides: &[(String, String)], seed: Option<u64>, run: Option<&str>,
    base: &LinkSpec, graph: &Graph,
) -> Result<String> {
    let mut entries = merged_entries(vocabulary, text, overrides, seed)?;
    for (name, value) in &mut entries {
        match (name.as_str(), value, run) {
            ("fabric", Toml::Table { entries, inline }, _) => {
                *inline = false;
                replace_topology(entries, base, graph);
            }
            ("run", Toml::Array(runs), Some(run)) => runs.retain(|one| name_of(one) == Some(Toml::string(run))),
            _ => {}
        }
    }
    Ok(document(&entries))
}

/// The `name` of a table.
fn name_of(table: &Toml) -> Option<Toml> {
    let Toml::Table { entries, .. } = table else { return None };
    entries.iter().find(|(key, _)| key == "name").map(|(_, name)| name.clone())
}

/// Keys of a `[[fabric.link]]` that say which link the table is about, and which properties the link has.
const LINK_KEYS: [&str; 5] = ["from", "to", "rate", "delay", "loss"];

/// Replaces the topology in the entries of `[fabric]` by a graph. Faults of links stay, in the tables of these links.
fn replace_topology(entries: &mut Vec<(String, Toml)>, base: &LinkSpec, graph: &Graph) {
    let changes = entries.iter().find(|(key, _)| key == "link").map(|(_, links)| links.clone());
    let stays = |key: &str| {
        let setting = settings::section("fabric").and_then(|fabric| fabric.setting(key, "graph"));
        setting.is_some() && !["topology", "hosts", "switches", "link", "rate", "delay", "loss"].contains(&key)
    };
    entries.retain(|(key, _)| stays(key));
    let names = |is_switch, prefix: &str| {
        let nodes = graph.nodes.iter().filter(|node| node.is_switch == is_switch);
        let names: Vec<&str> = nodes.map(|node| node.name.as_str()).collect();
        let is_numbered = (0..).zip(&names).all(|(number, name): (usize, _)| **name == format!("{prefix}{number}"));
        match is_numbered {
            true => Toml::Scalar(names.len().to_string()),
            false => Toml::Array(names.into_iter().map(Toml::string).collect()),
        }
    };
    let quantity = |value: &dyn std::fmt::Display| Toml::string(&value.to_string());
    let mut head = vec![
        ("topology".to_string(), Toml::string("graph")),
        ("hosts".to_string(), names(false, "h")),
        ("switches".to_string(), names(true, "s")),
        ("rate".to_string(), quantity(&base.rate)),
        ("delay".to_string(), quantity(&base.delay)),
    ];
    if base.loss > 0.0 {
        head.push(("loss".to_string(), Toml::Scalar(base.loss.to_string())));
    }
    entries.splice(0..0, head);
    let mut faults = faults_of(changes.as_ref());
    let mut links = Vec::new();
    for link in &graph.links {
        let [from, to] = link.ends.map(|end| graph.nodes[end as usize].name.as_str());
        let mut table = vec![("from".to_string(), Toml::string(from)), ("to".to_string(), Toml::string(to))];
        if link.rate != base.rate {
            table.push(("rate".to_string(), quantity(&link.rate)));
        }
        if link.delay != base.delay {
            table.push(("delay".to_string(), quantity(&link.delay)));
        }
        if link.loss != base.loss {
            table.push(("loss".to_string(), Toml::Scalar(link.loss.to_string())));
        }
        let ends = [Toml::string(from), Toml::string(to)];
        let is_this = |[a, b]: &[Toml; 2]| [[a, b], [b, a]].contains(&[&ends[0], &ends[1]]);
        for (_, keys) in faults.extract_if(.., |(ends, _)| is_this(ends)) {
            table.extend(keys);
        }
        links.push(Toml::Table { entries: table, inline: false });
    }
    entries.push(("link".to_string(), Toml::Array(links)));
}

/// The ends of links with faults, and the keys about their faults.
type LinkFaults = Vec<([Toml; 2], Vec<(String, Toml)>)>;

/// The faults in the tables `[[fabric.link]]` of a scenario.
fn faults_of(changes: Option<&Toml>) -> LinkFaults {
    let Some(Toml::Array(tables)) = changes else { return Vec::new() };
    let fault = |table: &Toml| {
        let Toml::Table { entries, .. } = table else { return None };
        let value = |key: &str| entries.iter().find(|(other, _)| other == key).map(|(_, value)| value.clone());
        let keys = entries.iter().filter(|(key, _)| !LINK_KEYS.contains(&key.as_str())).cloned();
        Some(([value("from")?, value("to")?], keys.collect::<Vec<_>>()))
    };
    tables.iter().filter_map(fault).filter(|(_, keys)| !keys.is_empty()).collect()
}

/// Removes the entry at whose value the mistake points.
fn remove(documents: &Documents, node: &mut Node, mistake: &Mistake) {
    match &mut node.value {
        Value::Table(entries) => {
            entries.retain(|entry| !documents.is_at(mistake, &entry.node.at));
            entries.iter_mut().for_each(|entry| remove(documents, &mut entry.node, mistake));
        }
        Value::Array(elements) => elements.iter_mut().for_each(|element| remove(documents, element, mistake)),
        _ => {}
    }
}

fn of(documents: &Documents, files: Files<'_>, node: &Node) -> Toml {
    match &node.value {
        Value::String(text) => Toml::string(&absolute(files, documents.folder_at(&node.at), text)),
        // As the text has them, because the names of a sweep's runs have the texts of their values. No key of a
        // scenario is a date: the reader refuses it.
        Value::Integer(_) | Value::Float(_) | Value::Boolean(_) | Value::Datetime => {
            Toml::Scalar(documents.text_at(&node.at).to_string())
        }
        Value::Array(elements) => Toml::Array(elements.iter().map(|element| of(documents, files, element)).collect()),
        Value::Table(entries) => Toml::Table {
            entries: entries.iter().map(|entry| (entry.key.clone(), of(documents, files, &entry.node))).collect(),
            inline: documents.text_at(&node.at).starts_with('{'),
        },
    }
}

/// The value of a key. If it is the relative path of an existing file, or of a P4 program, the path becomes absolute.
fn absolute(files: Files<'_>, folder: &Path, text: &str) -> String {
    let (scheme, path) = text.strip_prefix("p4:").map_or(("", text), |path| ("p4:", path));
    let is_path = path.contains(['.', '/']) && Path::new(path).is_relative();
    if let Files::Disk = files
        && is_path
        && let Ok(found) = folder.join(path).canonicalize()
        && found.is_file()
    {
        return format!("{scheme}{}", found.display());
    }
    text.to_string()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{Origin, to_toml};

    #[test]
    fn documents_are_toml_and_keep_their_order() {
        let table = |entries: &[(&str, Toml)], inline| Toml::Table {
            entries: entries.iter().map(|(name, value)| (name.to_string(), value.clone())).collect(),
            inline,
        };
        let number = || Toml::Scalar("1".to_string());
        let run = table(&[("a.b \"c\"\n", number()), ("set", table(&[("z", number())], false))], false);
        let entries = [
            ("z".to_string(), table(&[("y", number()), ("x", Toml::string("\"µ\\"))], false)),
            ("a".to_string(), Toml::Array(vec![number(), table(&[("q", number())], true)])),
            ("run".to_string(), Toml::Array(vec![run.clone(), run])),
        ];
        let text = document(&entries);
        let read: toml::Table = text.parse().unwrap_or_else(|error| panic!("{error}\n{text}"));
        assert!(text.starts_with("a = [1, { q = 1 }]\n\n[z]\ny = 1\nx = "), "{text}");
        assert_eq!(read["z"]["x"].as_str(), Some("\"µ\\"));
        assert_eq!(read["run"][1]["a.b \"c\"\n"].as_integer(), Some(1));
        assert_eq!(read["run"][1]["set"]["z"].as_integer(), Some(1));
    }

    #[test]
    fn every_scenario_of_the_repository_keeps_its_meaning() {
        let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../scenarios");
        // Takes every P4 program as it is.
        let vocabulary = Vocabulary::standard().with_p4(|_, _| Ok(Vec::new()));
        let (mut count, mut exact) = (0, 0);
        for topic in std::fs::read_dir(folder).unwrap().map(|entry| entry.unwrap().path()).filter(|path| path.is_dir())
        {
            for path in std::fs::read_dir(topic).unwrap().map(|entry| entry.unwrap().path()) {
                if path.extension().is_none_or(|extension| extension != "toml") {
                    continue;
                }
                let expected = crate::load_with(&vocabulary, &path, &[], Some(7)).unwrap();
                let text = to_toml(&vocabulary, &Origin::File(&path), &[], Some(7)).unwrap();
                assert!(!text.contains("extends"), "{text}");
                let name = path.to_string_lossy();
                let origin = Origin::Text { text: &text, name: &name, folder: Path::new("/nowhere") };
                let mut read = crate::read_with(&vocabulary, &origin, &[], Some(7))
                    .unwrap_or_else(|error| panic!("{error}\n{text}"));
                read.title.clone_from(&expected.title);
                for (own, other) in read.runs.iter_mut().zip(&expected.runs) {
                    // The name of a P4 program's file is a part of the specification.
                    if format!("{:?}", own.transport).contains(".p4") {
                        own.transport.clone_from(&other.transport);
                    }
                }
                // The specification has the names of files of flow sizes, which are absolute now.
                let folder = format!("{}/", path.parent().unwrap().canonicalize().unwrap().display());
                let shown = format!("{read:?}").replace(&folder, "");
                // Inherited keys without effect are left out.
                let without = |text: &str| {
                    let parts = text.split("xoff: ").map(|part| part.split_once(", ").map_or(part, |(_, rest)| rest));
                    parts.collect::<String>()
                };
                assert!(without(&shown) == without(&format!("{expected:?}")), "{}\n{text}", path.display());
                exact += u32::from(shown == format!("{expected:?}"));
                count += 1;
            }
        }
        assert!(count > 40 && exact > count / 2, "{exact} of {count}");
    }

    #[test]
    fn overrides_are_in_the_text() {
        let set = [("fabric.switch.buffer".to_string(), "1 MB".to_string()), ("run.A.pfc".into(), "true".into())];
        let origin =
            Origin::Text { text: "[fabric]\nk = 4\n[[run]]\nname = \"A\"\n", name: "a.toml", folder: Path::new("") };
        let text = to_toml(&Vocabulary::standard(), &origin, &set, Some(3)).unwrap();
        let expected =
            "seed = 3\n\n[fabric]\nk = 4\n\n[fabric.switch]\nbuffer = \"1 MB\"\n\n[[run]]\nname = \"A\"\npfc = true\n";
        assert_eq!(text, expected);
    }
}
