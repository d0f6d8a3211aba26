//! Execution traces of MLCommons Chakra, schema 1.0.0: one file `PREFIX.RANK.et` for each rank, with protobuf messages,
//! each after its length, uncompressed or compressed by gzip; or one file `PREFIX.RANK.json` for each rank.
//!
//! A computation takes `duration_micros`. The bytes of a collective are `comm_size`. For an all-gather, `comm_size` is
//! the part of one rank, as in ASTRA-sim. The group of a collective is named by `pg_name`; `PREFIX.groups.json` lists
//! the ranks of each group, as `{"0": [0, 1]}`. Without a name, all ranks form the group.

mod json;

use super::order::{Ordered, Unordered};
use super::task::{Graph, Named, Task, Tasks, Work};
use super::{MAX_BYTES, MAX_RANKS};
use flate2::read::MultiGzDecoder;
use prost::Message;
use rnic_spec::CollectiveOperation;
use rnic_transport::Time;
use std::collections::BTreeMap;
use std::fs::File;
use std::io::{BufReader, Read};
use std::sync::Arc;

/// Maximum length of a node in bytes. Nodes of real traces have some hundred bytes.
const MAX_NODE: u64 = 4 << 20;

#[derive(Clone, PartialEq, Message)]
struct Node {
    #[prost(uint64, tag = "1")]
    id: u64,
    #[prost(string, tag = "2")]
    name: String,
    #[prost(int32, tag = "3")]
    kind: i32,
    #[prost(uint64, repeated, tag = "4")]
    ctrl_deps: Vec<u64>,
    #[prost(uint64, repeated, tag = "5")]
    data_deps: Vec<u64>,
    #[prost(uint64, tag = "7")]
    duration_micros: u64,
    #[prost(message, repeated, tag = "10")]
    attributes: Vec<Attribute>,
}

/// An attribute; one of the values is there.
#[derive(Clone, PartialEq, Message)]
struct Attribute {
    #[prost(string, tag = "1")]
    name: String,
    #[prost(int32, optional, tag = "7")]
    int32: Option<i32>,
    #[prost(int64, optional, tag = "9")]
    int64: Option<i64>,
    #[prost(uint32, optional, tag = "11")]
    uint32: Option<u32>,
    #[prost(uint64, optional, tag = "13")]
    uint64: Option<u64>,
    #[prost(bool, optional, tag = "27")]
    bool: Option<bool>,
    #[prost(string, optional, tag = "29")]
    string: Option<String>,
}

/// The message before the nodes.
#[derive(Clone, PartialEq, Message)]
struct GlobalMetadata {
    #[prost(string, tag = "1")]
    version: String,
}

impl Node {
    /// An attribute as a whole number, whatever its type.
    fn number(&self, name: &str) -> Option<u64> {
        let attribute = self.attributes.iter().find(|attribute| attribute.name == name)?;
        let signed = attribute.int64.or(attribute.int32.map(i64::from)).and_then(|value| u64::try_from(value).ok());
        let text = || attribute.string.as_ref().and_then(|text| text.parse().ok());
        attribute.uint64.or(attribute.uint32.map(u64::from)).or(signed).or_else(text)
    }

    fn required(&self, name: &str) -> Result<u64, String> {
        self.number(name).ok_or_else(|| format!("the attribute `{name}` is missing or no whole number"))
    }

    /// Bytes of a message or operation.
    fn bytes(&self) -> Result<u64, String> {
        let bytes = self.required("comm_size")?;
        match bytes <= MAX_BYTES {
            true => Ok(bytes.max(1)),
            false => Err(format!("`comm_size` is {bytes}; accepted: at most {MAX_BYTES}")),
        }
    }

    fn group_name(&self) -> String {
        let attribute = self.attributes.iter().find(|attribute| attribute.name == "pg_name");
        attribute.and_then(|attribute| attribute.string.clone()).unwrap_or_default()
    }
}

/// The endings of files, behind the rank.
const ENDINGS: [&str; 2] = ["et", "json"];

/// The first file of a trace, if it exists.
pub(super) fn first_file(prefix: &str) -> Option<String> {
    let names = ENDINGS.iter().map(|ending| format!("{prefix}.0.{ending}"));
    names.into_iter().find(|name| std::path::Path::new(name).exists())
}

/// The files of a trace, by rank.
pub(super) fn files(prefix: &str) -> Result<Vec<String>, String> {
    let is_json = first_file(prefix).is_some_and(|name| name.ends_with(".json"));
    let ending = ENDINGS[usize::from(is_json)];
    let names = (0..=MAX_RANKS).map(|rank| format!("{prefix}.{rank}.{ending}"));
    let names: Vec<String> = names.take_while(|name| std::path::Path::new(name).exists()).collect();
    match names.len() {
        0 => Err(format!(
            "there is no file {prefix}.0.et; accepted: the path of the files without .RANK.et or .RANK.json"
        )),
        count if count > MAX_RANKS as usize => Err(format!("there are more than {MAX_RANKS} files")),
        _ => Ok(names),
    }
}

/// The groups that `PREFIX.groups.json` names; none if there is no such file.
fn read_groups(prefix: &str, ranks: u32) -> Result<BTreeMap<String, Vec<u32>>, String> {
    let name = format!("{prefix}.groups.json");
    let text = match std::fs::read_to_string(&name) {
        Ok(text) => text,
        Err(error) if error.kind() == std::io::ErrorKind::NotFound => return Ok(BTreeMap::new()),
        Err(error) => return Err(format!("{name}: {error}")),
    };
    let groups: BTreeMap<String, Vec<u32>> =
        serde_json::from_str(&text).map_err(|error| format!("{name}: {error}; accepted: {{\"NAME\": [0, 1]}}"))?;
    for (group, members) in &groups {
        let distinct: std::collections::BTreeSet<&u32> = members.iter().collect();
        if members.is_empty() || distinct.len() != members.len() || members.iter().any(|rank| *rank >= ranks) {
            return Err(format!(
                "{name}: the group \"{}\" is empty, has a rank twice, or a rank above {}",
                group.escape_debug(),
                ranks - 1
            ));
        }
    }
    Ok(groups)
}

pub(super) fn open(prefix: &str) -> Result<Graph, String> {
    let names = files(prefix)?;
    let ranks = names.len() as u32;
    let named = read_groups(prefix, ranks)?;
    let mut communicators: Vec<Arc<[u32]>> = vec![(0..ranks).collect()];
    let mut of_name: BTreeMap<String, u32> = BTreeMap::from([(String::new(), 0)]);
    for (name, members) in named {
        of_name.insert(name, communicators.len() as u32);
        communicators.push(members.into());
    }
    let of_name = Arc::new(of_name);
    let sizes: Arc<[u32]> = communicators.iter().map(|ranks| ranks.len() as u32).collect();
    let nodes = |(rank, name): (u32, String)| {
        let nodes = Nodes { name, reader: None, groups: of_name.clone(), sizes: sizes.clone() };
        Box::new(Ordered::new(rank, nodes)) as Box<dyn Tasks>
    };
    let tasks = (0..).zip(names).map(nodes).collect();
    Ok(Graph { communicators, labels: vec![String::new()], tasks })
}

/// The bytes of a file, decompressed if it is compressed.
enum Bytes {
    Plain(BufReader<File>),
    Compressed(Box<BufReader<MultiGzDecoder<BufReader<File>>>>),
}

impl std::fmt::Debug for Bytes {
    fn fmt(&self, formatter: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        formatter.write_str("Bytes")
    }
}

impl Read for Bytes {
    fn read(&mut self, buffer: &mut [u8]) -> std::io::Result<usize> {
        match self {
            Bytes::Plain(reader) => reader.read(buffer),
            Bytes::Compressed(reader) => reader.read(buffer),
        }
    }
}

/// The messages of a file.
#[derive(Debug)]
enum Messages {
    Protobuf(Bytes),
    Json(Box<json::Nodes>),
}

/// The nodes of one rank.
#[derive(Debug)]
struct Nodes {
    name: String,
    /// `None` until the first node is read.
    reader: Option<Messages>,
    groups: Arc<BTreeMap<String, u32>>,
    /// Number of ranks of each group.
    sizes: Arc<[u32]>,
}

fn open_file(name: &str) -> Result<Bytes, String> {
    let open = || File::open(name).map_err(|error| error.to_string());
    let mut magic = [0; 2];
    let compressed = open()?.read_exact(&mut magic).is_ok() && magic == [0x1f, 0x8b];
    let file = BufReader::with_capacity(8 << 10, open()?);
    Ok(match compressed {
        true => Bytes::Compressed(Box::new(BufReader::with_capacity(8 << 10, MultiGzDecoder::new(file)))),
        false => Bytes::Plain(file),
    })
}

/// Reads a message behind its length; `None` at the end of the file.
fn read_message(reader: &mut Bytes) -> Result<Option<Vec<u8>>, String> {
    let mut length: u64 = 0;
    for shift in (0..=63).step_by(7) {
        let mut byte = [0];
        match reader.read_exact(&mut byte) {
            Ok(()) => {}
            Err(error) if error.kind() == std::io::ErrorKind::UnexpectedEof && shift == 0 => return Ok(None),
            Err(error) if error.kind() == std::io::ErrorKind::UnexpectedEof => {
                return Err("the file ends in the length of a node".to_string());
            }
            Err(error) => return Err(error.to_string()),
        }
        length |= u64::from(byte[0] & 0x7f) << shift;
        if byte[0] & 0x80 == 0 {
            if length > MAX_NODE {
                return Err(format!("a node has {length} bytes; accepted: at most {MAX_NODE}"));
            }
            let mut message = Vec::new();
            let read = reader.take(length).read_to_end(&mut message).map_err(|error| error.to_string())?;
            return match read as u64 == length {
                true => Ok(Some(message)),
                false => Err(format!("the file ends after {read} of {length} bytes of a node")),
            };
        }
    }
    Err("the length of a node has more than 64 bits".to_string())
}

impl Nodes {
    fn read_node(&mut self) -> Result<Option<Named>, String> {
        if self.reader.is_none() {
            let mut reader = open_file(&self.name)?;
            self.reader = Some(if self.name.ends_with(".json") {
                let length = std::fs::metadata(&self.name).map_err(|error| error.to_string())?.len();
                Messages::Json(Box::new(json::Nodes::new(Box::new(reader), length)?))
            } else {
                let metadata = read_message(&mut reader)?.ok_or("the file is empty")?;
                GlobalMetadata::decode(&*metadata).map_err(|error| format!("the first message: {error}"))?;
                Messages::Protobuf(reader)
            });
        }
        let node = match &mut self.reader {
            None => None,
            Some(Messages::Json(nodes)) => nodes.next()?,
            Some(Messages::Protobuf(reader)) => {
                let node = read_message(reader)?.map(|message| Node::decode(&*message)).transpose();
                node.map_err(|error| format!("a node is no protobuf message: {error}"))?
            }
        };
        let Some(node) = node else { return Ok(None) };
        let after = node.ctrl_deps.iter().chain(&node.data_deps).copied().collect();
        let work = self
            .work(&node)
            .map_err(|error| format!("node {} (\"{}\"): {error}", node.id, node.name.escape_debug()))?;
        let name = node.name.chars().take(80).collect::<String>().into_boxed_str();
        Ok(Some(Named { task: Task { id: node.id, after, work, step: 0, label: 0 }, name }))
    }

    fn work(&self, node: &Node) -> Result<Work, String> {
        let rank = |name: &str| u32::try_from(node.required(name)?).map_err(|_| format!("`{name}` is no rank"));
        Ok(match node.kind {
            // Metadata, and computations without a length, such as joins.
            1 => Work::Nothing,
            4 if node.duration_micros == 0 && node.number("num_ops").is_some_and(|operations| operations > 0) => {
                return Err("the computation has a number of operations and no duration, which is needed".to_string());
            }
            4 => {
                let ps = node.duration_micros.checked_mul(1_000_000).ok_or("the duration is too long")?;
                Work::Compute { time: Time::from_ps(ps), processor: 0 }
            }
            5 => Work::Send { to: rank("comm_dst")?, bytes: node.bytes()?, tag: node.number("comm_tag").unwrap_or(0) },
            6 => Work::Receive { from: Some(rank("comm_src")?), tag: node.number("comm_tag").unwrap_or(0) },
            7 => {
                let (operation, factor) = match node.required("comm_type")? {
                    0 => (CollectiveOperation::AllReduce, 1),
                    2 => (CollectiveOperation::AllGather, u64::from(self.ranks_of_group(node)?)),
                    5 => (CollectiveOperation::Broadcast, 1),
                    6 => (CollectiveOperation::AllToAll, 1),
                    7 | 8 => (CollectiveOperation::ReduceScatter, 1),
                    9 => return self.collective(node, CollectiveOperation::AllReduce, 1),
                    other => {
                        return Err(format!(
                            "collectives of type {other} are not simulated; accepted: all-reduce (0), all-gather (2), \
                             broadcast (5), all-to-all (6), reduce-scatter (7, 8), barrier (9)"
                        ));
                    }
                };
                let bytes = node.bytes()?.checked_mul(factor).ok_or("`comm_size` is too large")?;
                self.collective(node, operation, bytes)?
            }
            other => {
                return Err(format!(
                    "nodes of type {other} are not simulated; accepted: metadata (1), computation (4), send (5), receive (6), \
                     collective (7)"
                ));
            }
        })
    }

    fn group(&self, node: &Node) -> Result<u32, String> {
        let name = node.group_name();
        let unknown = || {
            format!(
                "the group \"{}\" (`pg_name`) is not in the file of groups, PREFIX.groups.json",
                name.escape_debug()
            )
        };
        self.groups.get(&name).copied().ok_or_else(unknown)
    }

    /// Number of ranks of the group of a collective.
    fn ranks_of_group(&self, node: &Node) -> Result<u32, String> {
        Ok(self.sizes[self.group(node)? as usize])
    }

    fn collective(&self, node: &Node, operation: CollectiveOperation, bytes: u64) -> Result<Work, String> {
        Ok(Work::Collective { communicator: self.group(node)?, operation, bytes })
    }
}

impl Unordered for Nodes {
    fn read(&mut self) -> Result<Option<Named>, String> {
        self.read_node().map_err(|error| format!("{}: {error}", self.name))
    }
}
