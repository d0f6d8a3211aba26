//! Writes scenarios as TOML.

use super::error::Mistake;
use super::extends::{self, Files};
use super::overrides;
use super::read::{self, Text};
use super::reader::Result;
use super::tree::{Documents, Node, Value};
use rnic_spec::Vocabulary;
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
    let mut documents = Documents::default();
    let mut tree = extends::tree(&mut documents, text.files, text.name, text.text, text.folder)?;
    overrides::apply_arguments(&mut documents, &mut tree, overrides)?;
    // A scenario may inherit keys that have no effect, but may not have them itself.
    documents.own_all();
    for mistake in read::without_effect(vocabulary, text, &documents, &tree) {
        remove(&documents, &mut tree, &mistake);
    }
    let Toml::Table { mut entries, .. } = of(&documents, text.files, &tree) else {
        return Ok(String::new());
    };
    if let Some(seed) = seed {
        entries.retain(|(name, _)| name != "seed");
        entries.insert(0, ("seed".to_string(), Toml::Scalar(seed.to_string())));
    }
    Ok(document(&entries))
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
