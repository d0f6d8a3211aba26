//! The key `extends`: a scenario file inherits another scenario file and states only the differences.

use super::reader::Result;
use super::tree::{Documents, Entry, Node, Value};
use rnic_spec::settings;
use std::path::{Component, Path, PathBuf};

/// Where to find the files that scenarios refer to.
#[derive(Clone, Copy)]
pub(super) enum Files<'f> {
    /// In the file system.
    Disk,
    /// In memory: pairs of a path and the text of the file. Absolute paths are paths in the file system.
    Embedded(&'f [(&'f str, &'f str)]),
}

impl Files<'_> {
    /// Reads a file: its text, or the reason why it cannot be read.
    pub(super) fn read(&self, path: &Path) -> std::result::Result<String, String> {
        match self {
            Files::Disk => rnic_workload::read_text(path).map_err(|error| error.to_string()),
            Files::Embedded(files) => {
                let wanted = normal(path);
                let found = files.iter().find(|(name, _)| normal(Path::new(name)) == wanted);
                match found {
                    Some((_, text)) => Ok(text.to_string()),
                    None if path.is_absolute() => Files::Disk.read(path),
                    None => Err(only(files, &wanted)),
                }
            }
        }
    }

    /// A form of a file's path that is the same for all paths to this file, so that a cycle of `extends` is found.
    fn identity(&self, path: &Path) -> PathBuf {
        match self {
            Files::Disk => path.canonicalize().unwrap_or_else(|_| normal(path)),
            Files::Embedded(_) => normal(path),
        }
    }
}

/// Says which embedded files are in the folder of the path `wanted`.
fn only(files: &[(&str, &str)], wanted: &Path) -> String {
    let beside = files.iter().map(|(name, _)| Path::new(name)).filter(|name| name.parent() == wanted.parent());
    let names: Vec<String> = beside.filter_map(|name| Some(name.file_name()?.to_string_lossy().into_owned())).collect();
    let outside = "a file that is not built in needs an absolute path";
    if names.is_empty() {
        format!("there is no such built-in folder; {outside}")
    } else {
        format!("there are only {}; {outside}", names.join(", "))
    }
}

/// The path `path` without its components `.`, and without `..` where a folder precedes it.
fn normal(path: &Path) -> PathBuf {
    let mut normal = PathBuf::new();
    for component in path.components() {
        let after_folder = matches!(normal.components().next_back(), Some(Component::Normal(_)));
        match component {
            Component::CurDir => {}
            Component::ParentDir if after_folder => {
                normal.pop();
            }
            other => normal.push(other),
        }
    }
    normal
}

/// Parses the scenario file `name` into a tree and merges it over the files that it extends, directly and indirectly.
pub(super) fn tree(documents: &mut Documents, files: Files<'_>, name: &str, text: &str, folder: &Path) -> Result<Node> {
    let document = documents.add_file(name, text, folder);
    let mut tree = documents.parse(document)?;
    let mut chain = vec![files.identity(&folder.join(Path::new(name).file_name().unwrap_or_default()))];
    while let Some(extends) = take(&mut tree, "extends") {
        const HELP: &str = "write the path of a scenario file, for example `extends = \"default.toml\"`";
        let Value::String(written) = &extends.value else {
            let message = format!("`extends` must be a string, not {}", extends.value.kind());
            return Err(documents.mistake(&extends.at, message, Some(HELP.to_string())));
        };
        let path = documents.folder_at(&extends.at).join(written);
        let identity = files.identity(&path);
        if chain.contains(&identity) {
            let message = format!("`extends` leads back to `{}`", path.display());
            let help = "a scenario cannot inherit from itself: a chain of `extends` has to end".to_string();
            return Err(documents.mistake(&extends.at, message, Some(help)));
        }
        chain.push(identity);
        let text = files.read(&path).map_err(|why| {
            let message = format!("cannot read `{}`: {why}", path.display());
            documents.mistake(&extends.at, message, Some(format!("{HELP}, relative to this file's folder")))
        })?;
        let folder = path.parent().unwrap_or(Path::new(""));
        let document = documents.add_file(&path.to_string_lossy(), &text, folder);
        let mut inherited = documents.parse(document)?;
        take(&mut inherited, "title");
        tree = inherit(documents, inherited, tree);
    }
    Ok(tree)
}

/// Removes the key `key` from a table of the tree and returns its value.
fn take(table: &mut Node, key: &str) -> Option<Node> {
    let Value::Table(entries) = &mut table.value else {
        return None;
    };
    let position = entries.iter().position(|entry| entry.key == key)?;
    Some(entries.remove(position).node)
}

/// Merges the tree of a scenario (`own`) over the tree of the scenario that it extends (`inherited`): keys of `own`
/// replace inherited keys.
fn inherit(documents: &Documents, mut inherited: Node, own: Node) -> Node {
    // `[sweep]` replaces the inherited `[sweep]` as a whole, and so does `[traffic]` with another pattern: a mixture of
    // own and inherited keys would be neither of the two.
    if get(&own, "sweep").is_some() {
        take(&mut inherited, "sweep");
    }
    if differs(&inherited, &own, "traffic", "pattern") {
        take(&mut inherited, "traffic");
    }
    if differs(&inherited, &own, "fabric", "topology")
        && let Some(Entry { node: Node { value: Value::Table(entries), .. }, .. }) = entry(&mut inherited, "fabric")
    {
        let topology = chosen(&own, "fabric", "topology").unwrap_or("");
        let is_inherited = |key: &str| {
            let setting = settings::section("fabric").and_then(|fabric| fabric.setting(key, topology));
            setting.is_some_and(|setting| setting.is_inherited)
        };
        entries.retain(|entry| is_inherited(&entry.key));
    }
    merge(documents, inherited, own)
}

/// Merges a scenario's own value over the inherited value of the same key. Tables are merged key by key; every other
/// value, inline tables included, is replaced.
fn merge(documents: &Documents, inherited: Node, own: Node) -> Node {
    let (Value::Table(mut entries), Value::Table(changes)) = (inherited.value, own.value.clone()) else {
        return own;
    };
    for change in changes {
        let inline = documents.text_at(&change.node.at).starts_with('{');
        match entries.iter_mut().find(|entry| entry.key == change.key) {
            Some(entry) if is_table(&change.node) && !inline => {
                entry.node = merge(documents, entry.node.clone(), change.node);
                entry.key_at = change.key_at;
            }
            Some(entry) => *entry = change,
            None => entries.push(change),
        }
    }
    Node { value: Value::Table(entries), at: own.at }
}

fn is_table(node: &Node) -> bool {
    matches!(node.value, Value::Table(_))
}

fn get<'n>(table: &'n Node, key: &str) -> Option<&'n Node> {
    match &table.value {
        Value::Table(entries) => entries.iter().find(|entry| entry.key == key).map(|entry| &entry.node),
        _ => None,
    }
}

fn entry<'n>(table: &'n mut Node, key: &str) -> Option<&'n mut Entry> {
    match &mut table.value {
        Value::Table(entries) => entries.iter_mut().find(|entry| entry.key == key),
        _ => None,
    }
}

/// Whether a scenario (`own`) and the scenario that it extends (`inherited`) both have the table `table`, with
/// different values of the key `selector` in it.
fn differs(inherited: &Node, own: &Node, table: &str, selector: &str) -> bool {
    let chosen = |root| chosen(root, table, selector);
    chosen(inherited).zip(chosen(own)).is_some_and(|(inherited, own)| inherited != own)
}

/// The word that the key `selector` of the table `table` has in the scenario `root`.
fn chosen<'n>(root: &'n Node, table: &str, selector: &str) -> Option<&'n str> {
    match get(get(root, table)?, selector).map(|node| &node.value) {
        Some(Value::String(text)) => Some(text),
        _ => None,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn paths_to_the_same_file_are_the_same() {
        for (path, expected) in
            [("a/b.toml", "a/b.toml"), ("./a/../b.toml", "b.toml"), ("../b.toml", "../b.toml"), ("a/./../../b", "../b")]
        {
            assert_eq!(normal(Path::new(path)), Path::new(expected), "{path}");
        }
    }
}
