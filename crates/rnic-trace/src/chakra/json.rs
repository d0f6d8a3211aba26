//! Reads Chakra traces in the two JSON formats: the sequence of messages that Chakra's jsonizer writes (with fields
//! such as `ctrlDeps`, `durationMicros`, `COMM_COLL_NODE`), or one object with a list `workload_graph` that Chakra's
//! feeder reads (with `Id`, `NodeType`, `runtime`).

use super::{Attribute, Node};
use serde_json::{Deserializer, Map, StreamDeserializer, Value, de::IoRead};
use std::io::{BufReader, Read};

/// Maximum length of a file with a list of nodes, which is read into memory as a whole.
const MAX_LIST: u64 = 1 << 30;

/// The nodes of a file, one after the other.
pub(super) struct Nodes {
    messages: StreamDeserializer<'static, IoRead<BufReader<Box<dyn Read + Send>>>, Value>,
    /// The nodes of the list that have not been taken.
    list: std::vec::IntoIter<Value>,
    is_begun: bool,
}

impl std::fmt::Debug for Nodes {
    fn fmt(&self, formatter: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        formatter.write_str("Nodes")
    }
}

impl Nodes {
    /// The nodes of a text of `length` bytes.
    pub(super) fn new(text: Box<dyn Read + Send>, length: u64) -> Result<Nodes, String> {
        if length > MAX_LIST {
            return Err(format!("the file has {length} bytes; accepted: at most {MAX_LIST} as JSON"));
        }
        let messages = Deserializer::from_reader(BufReader::new(text)).into_iter();
        Ok(Nodes { messages, list: Vec::new().into_iter(), is_begun: false })
    }

    /// The next node; `None` after the last one.
    pub(super) fn next(&mut self) -> Result<Option<Node>, String> {
        loop {
            if let Some(node) = self.list.next() {
                return node_of(&node).map(Some);
            }
            let Some(message) = self.messages.next() else {
                return if self.is_begun { Ok(None) } else { Err("the file is empty".to_string()) };
            };
            let mut message = message.map_err(|error| error.to_string())?;
            let is_first = !std::mem::replace(&mut self.is_begun, true);
            if let Some(Value::Array(list)) = message.get_mut("workload_graph").map(Value::take) {
                self.list = list.into_iter();
            } else if !(is_first && message.get("id").is_none() && message.get("type").is_none()) {
                return node_of(&message).map(Some);
            }
        }
    }
}

/// A whole number, which protobuf writes as a string if it has 64 bits.
fn number(value: &Value) -> Option<u64> {
    value.as_u64().or_else(|| value.as_str()?.parse().ok())
}

/// The value of the first of these keys, a whole number; `None` without any.
fn field(node: &Map<String, Value>, keys: &[&str]) -> Result<Option<u64>, String> {
    let Some((key, value)) = keys.iter().find_map(|key| Some((key, node.get(*key)?))) else { return Ok(None) };
    number(value).map(Some).ok_or_else(|| format!("`{key}` is not a whole number"))
}

fn numbers(node: &Map<String, Value>, keys: &[&str]) -> Result<Vec<u64>, String> {
    let Some((key, value)) = keys.iter().find_map(|key| Some((key, node.get(*key)?))) else { return Ok(Vec::new()) };
    let all = value.as_array().and_then(|list| list.iter().map(number).collect::<Option<Vec<u64>>>());
    all.ok_or_else(|| format!("`{key}` is not a list of whole numbers"))
}

fn node_of(value: &Value) -> Result<Node, String> {
    const TYPES: [&str; 8] = [
        "INVALID_NODE",
        "METADATA_NODE",
        "MEM_LOAD_NODE",
        "MEM_STORE_NODE",
        "COMP_NODE",
        "COMM_SEND_NODE",
        "COMM_RECV_NODE",
        "COMM_COLL_NODE",
    ];
    let node = value.as_object().ok_or("a node is not an object")?;
    let id = field(node, &["id", "Id"])?.unwrap_or(0);
    let name = ["name", "Name"].iter().find_map(|key| node.get(*key)?.as_str()).unwrap_or_default().to_string();
    let wrong = |error: String| format!("node {id} (\"{}\"): {error}", name.escape_debug());
    let kind = match ["type", "NodeType"].iter().find_map(|key| node.get(*key)) {
        Some(Value::String(word)) => TYPES.iter().position(|name| name == word).map(|kind| kind as i32),
        Some(value) => value.as_u64().and_then(|kind| i32::try_from(kind).ok()),
        None => Some(0),
    };
    let kind = kind.ok_or_else(|| wrong(format!("the type is unknown; accepted: {}", TYPES[1..].join(", "))))?;
    let list = |keys: &[&str]| numbers(node, keys).map_err(wrong);
    let mut attributes = Vec::new();
    for attribute in node.get("attr").and_then(Value::as_array).into_iter().flatten() {
        let Some(name) = attribute.get("name").and_then(Value::as_str) else {
            return Err(wrong("an attribute has no name".to_string()));
        };
        let value = attribute.as_object().into_iter().flatten().find(|(key, _)| key.ends_with("Val"));
        attributes.extend(value.and_then(|(_, value)| of_value(name, value)));
    }
    // The feeder's form has attributes as keys of the node.
    let others = node.iter().filter(|(key, _)| key.starts_with("comm_") || *key == "num_ops" || *key == "pg_name");
    attributes.extend(others.filter_map(|(key, value)| of_value(key, value)));
    Ok(Node {
        ctrl_deps: list(&["ctrlDeps", "ctrl_deps"])?,
        data_deps: list(&["dataDeps", "data_deps"])?,
        duration_micros: field(node, &["durationMicros", "duration_micros", "runtime"]).map_err(wrong)?.unwrap_or(0),
        id,
        name: name.clone(),
        kind,
        attributes,
    })
}

/// An attribute with a number or a text as its value.
fn of_value(name: &str, value: &Value) -> Option<Attribute> {
    let name = name.to_string();
    match value {
        Value::String(text) => Some(Attribute { name, string: Some(text.clone()), ..Attribute::default() }),
        Value::Number(number) => Some(Attribute { name, uint64: number.as_u64(), ..Attribute::default() }),
        Value::Bool(flag) => Some(Attribute { name, bool: Some(*flag), ..Attribute::default() }),
        _ => None,
    }
}
