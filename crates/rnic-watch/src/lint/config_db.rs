//! Parses the JSON of SONiC's `config_db.json`: tables of entries, which consist of fields.
//!
//! Three forms are accepted: the file `config_db.json` itself, entries named `TABLE|key` without tables, and the output
//! of `sonic-db-dump -n CONFIG_DB`, in which the entry `TABLE|key` has its fields in the member `value`.
//!
//! A key that occurs twice is refused, because JSON readers disagree about which of the two values is valid.

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
}

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
        let mut tables: BTreeMap<String, BTreeMap<String, Entry>> = BTreeMap::new();
        for (name, nodes) in nodes {
            match name.split_once('|') {
                Some((table, key)) => {
                    let mut fields = Entry::new();
                    for (field, node) in nodes {
                        match node {
                            Node::Fields(value) if field == "value" => fields = value,
                            Node::Fields(_) => {
                                fields.insert(field, Value::Other);
                            }
                            Node::Value(value) => {
                                fields.insert(field, value);
                            }
                        }
                    }
                    tables.entry(table.to_string()).or_default().insert(key.to_string(), fields);
                }
                None => {
                    let table = tables.entry(name.clone()).or_default();
                    for (key, node) in nodes {
                        match node {
                            Node::Fields(fields) => {
                                table.insert(key, fields);
                            }
                            // Old versions store the version of the schema here.
                            Node::Value(_) if name == "VERSIONS" => {}
                            Node::Value(_) => {
                                let message = "is not an entry; accepted: an object with text for each field";
                                let path = Place::Path(format!("{name}|{key}"));
                                return Err(InputError::new(file, path, message));
                            }
                        }
                    }
                }
            }
        }
        if tables.contains_key("localhost") && tables.contains_key("asic0") {
            let message = "is the configuration of a switch with several ASICs; give the file of each ASIC as a device";
            return Err(InputError::new(file, Place::File, message));
        }
        Ok(ConfigDb { tables })
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
    type Value = BTreeMap<String, BTreeMap<String, Node>>;
    fn deserialize<D: Deserializer<'de>>(self, reader: D) -> Result<Self::Value, D::Error> {
        reader.deserialize_map(self)
    }
}

impl<'de> Visitor<'de> for Map {
    type Value = BTreeMap<String, BTreeMap<String, Node>>;
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
    type Value = BTreeMap<String, Node>;
    fn deserialize<D: Deserializer<'de>>(self, reader: D) -> Result<Self::Value, D::Error> {
        reader.deserialize_map(self)
    }
}

impl<'de> Visitor<'de> for Entries {
    type Value = BTreeMap<String, Node>;
    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("a table: an object with an entry for each key")
    }
    fn visit_map<A: MapAccess<'de>>(self, mut map: A) -> Result<Self::Value, A::Error> {
        let mut entries = BTreeMap::new();
        while let Some(key) = map.next_key::<String>()? {
            let fields = map.next_value_seed(Fields)?;
            insert(&mut entries, key, fields)?;
        }
        Ok(entries)
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
        let parsed = ConfigDb::parse(nested, "leaf1").unwrap();
        assert_eq!(ConfigDb::parse(flat, "leaf1").unwrap(), parsed);
        assert_eq!(ConfigDb::parse(dump, "leaf1").unwrap(), parsed);
        assert_eq!(
            error(r#"{"PORT": {"Ethernet0": "up"}}"#),
            "leaf1: PORT|Ethernet0: is not an entry; accepted: an object with text for each field"
        );
    }

    #[test]
    fn a_mistake_has_a_line_and_a_column() {
        assert_eq!(error("{\n \"PORT\": {\n"), "leaf1:3:0: EOF while parsing an object");
        assert_eq!(
            error("{\"PORT\": {\"E0\": {\"mtu\": \"1\",\n \"mtu\": \"2\"}}}"),
            "leaf1:2:12: the key `mtu` occurs twice"
        );
        assert!(error("{\"PORT\": 3}").starts_with("leaf1:1:10: invalid type: integer `3`, expected a table"));
        assert!(error("[]").contains("expected a table of CONFIG_DB"));
        assert!(error("{} x").starts_with("leaf1:1:4: trailing characters"));
        let deep = format!("{{\"T\": {{\"k\": {{\"f\": {}1{}}}}}}}", "[".repeat(100_000), "]".repeat(100_000));
        assert!(error(&deep).contains("recursion limit"), "{}", error(&deep));
    }
}
