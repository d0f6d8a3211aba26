//! Parses the JSON of SONiC's `config_db.json`: tables of entries, which consist of fields.
//!
//! Three forms are accepted: the file `config_db.json` itself, entries named `TABLE|key` without tables, and the output
//! of `sonic-db-dump -n CONFIG_DB`, in which the entry `TABLE|key` has its fields in the member `value`.
//!
//! A key that occurs twice is refused, because JSON readers disagree about which of the two values is valid. A key that
//! is not an entry of a table, such as a Redis string in a dump, costs only this key.

use crate::input::{InputError, Place, shown};
use serde::de::{DeserializeSeed, Deserializer, Error, IgnoredAny, MapAccess, SeqAccess, Visitor};
use std::collections::BTreeMap;
use std::fmt;

/// The fields of an entry. In SONiC every value is text, or a list of texts.
pub(crate) type Entry = BTreeMap<String, Value>;

/// A value of a field.
#[derive(Clone, PartialEq, Debug)]
pub(crate) enum Value {
    /// Text; numbers and booleans are converted to text.
    Text(String),
    /// A list of texts.
    List(Vec<String>),
    /// A table or another kind of value that no field of CONFIG_DB has.
    Other,
}

impl Value {
    /// The text of the value; the texts of a list are joined by commas.
    pub(crate) fn text(&self) -> Option<String> {
        match self {
            Value::Text(text) => Some(text.clone()),
            Value::List(list) => Some(list.join(",")),
            Value::Other => None,
        }
    }
}

/// A parsed `config_db.json`.
#[derive(Clone, PartialEq, Debug, Default)]
pub(crate) struct ConfigDb {
    pub(crate) tables: BTreeMap<String, BTreeMap<String, Entry>>,
    /// Keys that are not entries of a table: (path, description). They are not in `tables`.
    pub(crate) skipped: Vec<(String, String)>,
    /// Whether the text is a dump of a running switch's Redis, which also has the entries that SONiC makes at run time.
    pub(crate) is_dump: bool,
    /// The text, and the name of its file, for the lines of findings.
    pub(crate) source: String,
    pub(crate) file: String,
}

/// The Redis types that `sonic-db-dump` prints.
const REDIS_TYPES: [&str; 6] = ["hash", "string", "list", "set", "zset", "stream"];
/// Redis strings that every running switch has, and that no check needs.
const STRINGS: [&str; 1] = ["CONFIG_DB_INITIALIZED"];

impl ConfigDb {
    /// Parses the text of a file with the name `file`.
    pub(crate) fn parse(text: &str, file: &str) -> Result<ConfigDb, InputError> {
        let mut reader = serde_json::Deserializer::from_str(text);
        let level = Map { what: "a table of CONFIG_DB" };
        let read = level.deserialize(&mut reader).and_then(|tables| reader.end().map(|()| tables));
        let nodes = read.map_err(|error| {
            let message = error.to_string();
            let message = message.split(" at line ").next().unwrap_or(&message).to_string();
            InputError::new(file, Place::Column(error.line(), error.column()), message)
        })?;
        let mut db = ConfigDb { source: text.to_string(), file: file.to_string(), ..ConfigDb::default() };
        for (name, level) in nodes {
            match level {
                Level::Entries(nodes) => db.add(name, nodes),
                Level::Value => db.skip(name, "is not a table; accepted: an object with an entry for each key"),
            }
        }
        if db.tables.contains_key("localhost") && db.tables.contains_key("asic0") {
            let message = "is the configuration of a switch with several ASICs; give the file of each ASIC as a device";
            return Err(InputError::new(file, Place::File, message));
        }
        Ok(db)
    }

    fn skip(&mut self, path: String, text: &str) {
        self.skipped.push((path, text.to_string()));
    }

    /// Adds a key of the top level: a table, or an entry `TABLE|key`.
    fn add(&mut self, name: String, mut nodes: BTreeMap<String, Node>) {
        if let Some(kind) = redis_type(&nodes) {
            self.is_dump = true;
            return match (name.split_once('|'), nodes.remove("value")) {
                (Some((table, key)), Some(Node::Fields(fields))) => self.insert(table, key, fields),
                (None, Some(Node::Fields(_))) => self.skip(name, "is a hash without a table in its name"),
                _ if STRINGS.contains(&name.as_str()) => {}
                _ => self.skip(name, &format!("is a key of the type {kind}; accepted: hash")),
            };
        }
        if let Some((table, key)) = name.split_once('|') {
            let fields = nodes.into_iter().map(|(field, node)| match node {
                Node::Fields(_) => (field, Value::Other),
                Node::Value(value) => (field, value),
            });
            return self.insert(table, key, fields.collect());
        }
        self.tables.entry(name.clone()).or_default();
        for (key, node) in nodes {
            match node {
                Node::Fields(fields) => self.insert(&name, &key, fields),
                // Old versions store the version of the schema here.
                Node::Value(_) if name == "VERSIONS" => {}
                Node::Value(_) => {
                    let message = "is not an entry; accepted: an object with text for each field";
                    self.skip(format!("{name}|{key}"), message);
                }
            }
        }
    }

    fn insert(&mut self, table: &str, key: &str, fields: Entry) {
        self.tables.entry(table.to_string()).or_default().insert(key.to_string(), fields);
    }

    /// The entries of a table; empty if the table is absent.
    pub(crate) fn table(&self, name: &str) -> impl Iterator<Item = (&String, &Entry)> {
        self.tables.get(name).into_iter().flatten()
    }

    /// The value at the path `TABLE|key|field`. The key may itself contain `|`.
    pub(crate) fn at(&self, path: &str) -> Option<String> {
        let (table, rest) = path.split_once('|')?;
        let (key, field) = rest.rsplit_once('|')?;
        self.tables.get(table)?.get(key)?.get(field)?.text()
    }
}

/// The Redis type of a key in the output of `sonic-db-dump`; `None` if the nodes do not have the form of this output.
fn redis_type(nodes: &BTreeMap<String, Node>) -> Option<&'static str> {
    let Some(Node::Value(Value::Text(kind))) = nodes.get("type") else { return None };
    nodes.get("value")?;
    REDIS_TYPES.into_iter().find(|known| known == kind)
}

/// The value of a key of the top level.
enum Level {
    /// A table, or the fields of an entry.
    Entries(BTreeMap<String, Node>),
    /// Another kind of value.
    Value,
}

/// The value of a key of a table.
enum Node {
    /// An entry.
    Fields(Entry),
    /// A value without an entry, as in the flat forms.
    Value(Value),
}

/// Reads a map of maps of fields. Each level has its own type, so that the nesting depth of the input is bounded.
struct Map {
    what: &'static str,
}

/// Reads the next entry of a map and refuses a key that is already in `seen`.
fn insert<V, E: Error>(seen: &mut BTreeMap<String, V>, key: String, value: V) -> Result<(), E> {
    let name = shown(&key);
    match seen.insert(key, value) {
        None => Ok(()),
        Some(_) => Err(E::custom(format!("the key `{name}` occurs twice"))),
    }
}

impl<'de> DeserializeSeed<'de> for Map {
    type Value = BTreeMap<String, Level>;
    fn deserialize<D: Deserializer<'de>>(self, reader: D) -> Result<Self::Value, D::Error> {
        reader.deserialize_map(self)
    }
}

impl<'de> Visitor<'de> for Map {
    type Value = BTreeMap<String, Level>;
    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.what)
    }
    fn visit_map<A: MapAccess<'de>>(self, mut map: A) -> Result<Self::Value, A::Error> {
        let mut tables = BTreeMap::new();
        while let Some(name) = map.next_key::<String>()? {
            let entries = map.next_value_seed(Entries)?;
            insert(&mut tables, name, entries)?;
        }
        Ok(tables)
    }
}

struct Entries;

impl<'de> DeserializeSeed<'de> for Entries {
    type Value = Level;
    fn deserialize<D: Deserializer<'de>>(self, reader: D) -> Result<Self::Value, D::Error> {
        reader.deserialize_any(self)
    }
}

impl<'de> Visitor<'de> for Entries {
    type Value = Level;
    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("a table: an object with an entry for each key")
    }
    fn visit_map<A: MapAccess<'de>>(self, mut map: A) -> Result<Level, A::Error> {
        let mut entries = BTreeMap::new();
        while let Some(key) = map.next_key::<String>()? {
            let fields = map.next_value_seed(Fields)?;
            insert(&mut entries, key, fields)?;
        }
        Ok(Level::Entries(entries))
    }
    fn visit_str<E: Error>(self, _: &str) -> Result<Level, E> {
        Ok(Level::Value)
    }
    fn visit_bool<E: Error>(self, _: bool) -> Result<Level, E> {
        Ok(Level::Value)
    }
    fn visit_u64<E: Error>(self, _: u64) -> Result<Level, E> {
        Ok(Level::Value)
    }
    fn visit_i64<E: Error>(self, _: i64) -> Result<Level, E> {
        Ok(Level::Value)
    }
    fn visit_f64<E: Error>(self, _: f64) -> Result<Level, E> {
        Ok(Level::Value)
    }
    fn visit_unit<E: Error>(self) -> Result<Level, E> {
        Ok(Level::Value)
    }
    fn visit_seq<A: SeqAccess<'de>>(self, mut list: A) -> Result<Level, A::Error> {
        while list.next_element::<IgnoredAny>()?.is_some() {}
        Ok(Level::Value)
    }
}

struct Fields;

impl<'de> DeserializeSeed<'de> for Fields {
    type Value = Node;
    fn deserialize<D: Deserializer<'de>>(self, reader: D) -> Result<Node, D::Error> {
        reader.deserialize_any(self)
    }
}

impl<'de> Visitor<'de> for Fields {
    type Value = Node;
    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("an entry: an object with text for each field")
    }
    fn visit_map<A: MapAccess<'de>>(self, mut map: A) -> Result<Node, A::Error> {
        let mut fields = BTreeMap::new();
        while let Some(field) = map.next_key::<String>()? {
            let value = map.next_value_seed(Field)?;
            insert(&mut fields, field, value)?;
        }
        Ok(Node::Fields(fields))
    }
    fn visit_str<E: Error>(self, text: &str) -> Result<Node, E> {
        Field.visit_str(text).map(Node::Value)
    }
    fn visit_bool<E: Error>(self, value: bool) -> Result<Node, E> {
        Field.visit_bool(value).map(Node::Value)
    }
    fn visit_u64<E: Error>(self, value: u64) -> Result<Node, E> {
        Field.visit_u64(value).map(Node::Value)
    }
    fn visit_i64<E: Error>(self, value: i64) -> Result<Node, E> {
        Field.visit_i64(value).map(Node::Value)
    }
    fn visit_f64<E: Error>(self, value: f64) -> Result<Node, E> {
        Field.visit_f64(value).map(Node::Value)
    }
    fn visit_unit<E: Error>(self) -> Result<Node, E> {
        Ok(Node::Value(Value::Other))
    }
    fn visit_seq<A: SeqAccess<'de>>(self, list: A) -> Result<Node, A::Error> {
        Field.visit_seq(list).map(Node::Value)
    }
}

struct Field;

impl<'de> DeserializeSeed<'de> for Field {
    type Value = Value;
    fn deserialize<D: Deserializer<'de>>(self, reader: D) -> Result<Self::Value, D::Error> {
        reader.deserialize_any(self)
    }
}

impl<'de> Visitor<'de> for Field {
    type Value = Value;
    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("text or a list of texts")
    }
    fn visit_str<E: Error>(self, text: &str) -> Result<Value, E> {
        Ok(Value::Text(text.to_string()))
    }
    fn visit_bool<E: Error>(self, value: bool) -> Result<Value, E> {
        Ok(Value::Text(value.to_string()))
    }
    fn visit_u64<E: Error>(self, value: u64) -> Result<Value, E> {
        Ok(Value::Text(value.to_string()))
    }
    fn visit_i64<E: Error>(self, value: i64) -> Result<Value, E> {
        Ok(Value::Text(value.to_string()))
    }
    fn visit_f64<E: Error>(self, value: f64) -> Result<Value, E> {
        Ok(Value::Text(value.to_string()))
    }
    fn visit_unit<E: Error>(self) -> Result<Value, E> {
        Ok(Value::Other)
    }
    fn visit_seq<A: SeqAccess<'de>>(self, mut list: A) -> Result<Value, A::Error> {
        let mut texts = Vec::new();
        while let Some(text) = list.next_element::<serde_json::Value>()? {
            texts.push(text.as_str().map_or_else(|| text.to_string(), str::to_string));
        }
        Ok(Value::List(texts))
    }
    fn visit_map<A: MapAccess<'de>>(self, mut map: A) -> Result<Value, A::Error> {
        while map.next_entry::<IgnoredAny, IgnoredAny>()?.is_some() {}
        Ok(Value::Other)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn error(text: &str) -> String {
        ConfigDb::parse(text, "leaf1").unwrap_err().to_string()
    }

    #[test]
    fn values_are_text() {
        let text = r#"{"PORT": {"Ethernet0": {"mtu": "9100", "index": 1, "lanes": ["1", 2], "x": {"y": [1]}}}}"#;
        let db = ConfigDb::parse(text, "leaf1").unwrap();
        assert_eq!(db.at("PORT|Ethernet0|mtu").unwrap(), "9100");
        assert_eq!(db.at("PORT|Ethernet0|index").unwrap(), "1");
        assert_eq!(db.at("PORT|Ethernet0|lanes").unwrap(), "1,2");
        assert_eq!(db.at("PORT|Ethernet0|x"), None);
        assert_eq!(db.table("PORT").count(), 1);
    }

    #[test]
    fn entries_without_tables_are_read() {
        let nested = r#"{"PORT": {"Ethernet0": {"mtu": "9100"}}, "QUEUE": {"Ethernet0|3": {"scheduler": "s"}}}"#;
        let flat = r#"{"PORT|Ethernet0": {"mtu": "9100"}, "QUEUE|Ethernet0|3": {"scheduler": "s"}}"#;
        let dump = r#"{"PORT|Ethernet0": {"expireat": 1.5, "ttl": -0.001, "type": "hash", "value": {"mtu": "9100"}},
            "QUEUE|Ethernet0|3": {"type": "hash", "value": {"scheduler": "s"}}}"#;
        let parse = |text| ConfigDb { source: String::new(), ..ConfigDb::parse(text, "leaf1").unwrap() };
        let parsed = parse(nested);
        assert_eq!(parse(flat), parsed);
        assert_eq!(parse(dump), ConfigDb { is_dump: true, ..parsed });
    }

    /// A key that is not an entry costs this key, whatever its type is.
    #[test]
    fn keys_of_other_types_are_skipped() {
        let skipped = |text: &str| {
            let db = ConfigDb::parse(text, "leaf1").unwrap();
            assert_eq!(db.at("PORT|Ethernet0|mtu").as_deref(), Some("9100"), "{text}");
            db.skipped.into_iter().map(|(path, text)| format!("{path}: {text}")).collect::<Vec<_>>()
        };
        let with = |other: &str| {
            format!(r#"{{"PORT|Ethernet0": {{"ttl": -0.001, "type": "hash", "value": {{"mtu": "9100"}}}}, {other}}}"#)
        };
        assert_eq!(skipped(&with(r#""CONFIG_DB_INITIALIZED": {"type": "string", "value": "1"}"#)), [""; 0]);
        assert_eq!(
            skipped(&with(r#""NEW_FLAG": {"expireat": 1.5, "type": "string", "value": "1"}"#)),
            ["NEW_FLAG: is a key of the type string; accepted: hash"]
        );
        assert_eq!(
            skipped(&with(r#""KEYS": {"type": "set", "value": ["a"]}, "A|b": {"type": "list", "value": ["c"]}"#)),
            ["A|b: is a key of the type list; accepted: hash", "KEYS: is a key of the type set; accepted: hash"]
        );
        assert_eq!(
            skipped(&with(r#""ALONE": {"type": "hash", "value": {"a": "b"}}"#)),
            ["ALONE: is a hash without a table in its name"]
        );
        assert_eq!(
            skipped(r#"{"PORT": {"Ethernet0": {"mtu": "9100"}, "Ethernet4": "up"}, "platform": "x86", "n": null}"#),
            [
                "PORT|Ethernet4: is not an entry; accepted: an object with text for each field",
                "n: is not a table; accepted: an object with an entry for each key",
                "platform: is not a table; accepted: an object with an entry for each key"
            ]
        );
        // A pool has a field `type`, but it is not a dump.
        let db = ConfigDb::parse(r#"{"BUFFER_POOL|p": {"type": "ingress", "size": "5"}}"#, "leaf1").unwrap();
        assert_eq!((db.at("BUFFER_POOL|p|type").as_deref(), db.is_dump), (Some("ingress"), false));
    }

    #[test]
    fn a_mistake_has_a_line_and_a_column() {
        assert_eq!(error("{\n \"PORT\": {\n"), "leaf1:3:0: EOF while parsing an object");
        assert_eq!(
            error("{\"PORT\": {\"E0\": {\"mtu\": \"1\",\n \"mtu\": \"2\"}}}"),
            "leaf1:2:12: the key `mtu` occurs twice"
        );
        assert!(error("[]").contains("expected a table of CONFIG_DB"));
        assert!(error("{} x").starts_with("leaf1:1:4: trailing characters"));
        let deep = format!("{{\"T\": {{\"k\": {{\"f\": {}1{}}}}}}}", "[".repeat(100_000), "]".repeat(100_000));
        assert!(error(&deep).contains("recursion limit"), "{}", error(&deep));
    }
}
