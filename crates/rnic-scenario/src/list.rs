//! Reads traffic sources with the pattern `list`: the flows of a file. [`Context`] is what all patterns are read with.

use super::extends::Files;
use super::reader::{Result, Table};
use super::topology_file::Topologies;
use super::trace::Surveyed;
use crate::format::Imported;
use crate::format::list::{self, FlowList, Hosts, ListFormat, Matrix};
use rnic_spec::{FabricSetup, FlowSpec, LinkFault, TrafficPattern};
use rnic_transport::{BitRate, Time};
use std::cell::RefCell;
use std::collections::BTreeMap;
use std::path::PathBuf;
use std::sync::Arc;

/// Context in which the traffic of a run is read: the number of hosts of the run's fabric, the numbers that they have
/// in the file of an imported topology, and the flow lists that earlier runs have read.
pub(super) struct Context<'a> {
    pub(super) hosts: u32,
    /// Number of hosts on which ranks may be placed: those of a plane.
    pub(super) places: u32,
    /// Rate of the links of all hosts; `None` if they may differ.
    pub(super) rate: Option<BitRate>,
    pub(super) imported: Option<&'a Imported>,
    pub(super) lists: &'a Lists<'a>,
    /// The links of the fabric that flow lists say are down, by the names of their ends.
    pub(super) down: RefCell<Vec<[String; 2]>>,
}

/// Where to read the files that a scenario names, and a cache of the flow lists and topologies that earlier runs of the
/// scenario have read.
pub(super) struct Lists<'f> {
    pub(super) files: Files<'f>,
    pub(super) topologies: Topologies<'f>,
    read: RefCell<BTreeMap<ListKey, List>>,
    pub(super) surveyed: Surveyed,
}

impl<'f> Lists<'f> {
    pub(super) fn new(files: Files<'f>) -> Lists<'f> {
        Lists { files, topologies: Topologies::new(files), read: RefCell::default(), surveyed: Surveyed::default() }
    }
}

/// A flow list that has been read.
#[derive(Clone)]
enum List {
    /// Flows that start at fixed times.
    Fixed(Arc<[FlowSpec]>),
    /// A connection matrix of htsim with triggers or failures.
    Matrix(Arc<Matrix>),
}

/// Key of a cached flow list: path of the file, the format that the scenario gives, the number of hosts of the fabric,
/// and their numbers in the file of its topology.
type ListKey = (PathBuf, Option<ListFormat>, u32, Option<Vec<u32>>);

/// Reads a traffic source with the pattern `list`. Links that the file says are down are added to `context.down`.
pub(super) fn read(table: &Table<'_>, context: &Context<'_>) -> Result<TrafficPattern> {
    let item = table.require("file")?;
    let path = item.folder().join(item.name()?);
    let reaction: Time = table.value("reaction")?;
    let without_triggers = |pattern: TrafficPattern| match table.get("reaction") {
        None => Ok(pattern),
        Some(item) => {
            let message = "`reaction` has no effect: the list has no triggers, with which flows start when others end";
            Err(item.error(message, "remove `reaction`"))
        }
    };
    let matrix = match read_file(table, context, path.clone())? {
        List::Fixed(flows) => return without_triggers(TrafficPattern::List { flows }),
        List::Matrix(matrix) => matrix,
    };
    let located = |(line, error): (u64, String)| item.sentence(&format!("{}:{line}: {error}", path.display()));
    context.down.borrow_mut().extend(matrix.down_links(context.imported).map_err(located)?);
    match matrix.fixed() {
        Some(flows) => {
            let mut flows = flows;
            flows.sort_by_key(|flow| (flow.start, flow.src));
            without_triggers(TrafficPattern::List { flows: flows.into() })
        }
        None => Ok(TrafficPattern::Triggered(matrix.triggered(reaction, context.hosts).map_err(located)?)),
    }
}

fn read_file(table: &Table<'_>, context: &Context<'_>, path: PathBuf) -> Result<List> {
    let item = table.require("file")?;
    let given = table.given::<String>("format")?.map(|format| match format.as_str() {
        "csv" => ListFormat::Csv,
        "hpcc" => ListFormat::Hpcc,
        _ => ListFormat::Htsim,
    });
    if let Some(format) = table.given::<String>("format")?.filter(|format| ["goal", "chakra"].contains(&&**format)) {
        let message = format!("\"{format}\" is a format of traces");
        return Err(table.error_at("format", message, "set `pattern` to \"trace\""));
    }
    // Usually the hosts have the numbers from 0 on in the file, too.
    let numbers = context.imported.map(|imported| &imported.numbers);
    let numbers = numbers.filter(|numbers| !numbers.iter().copied().eq(0..context.hosts));
    let key = (path, given, context.hosts, numbers.cloned());
    if let Some(list) = context.lists.read.borrow().get(&key) {
        return Ok(list.clone());
    }
    let text = match context.lists.files {
        Files::Disk => list::read_text(&key.0),
        files => files.read(&key.0),
    };
    let hosts = numbers.map_or(Hosts::Count(context.hosts), |numbers| Hosts::Numbered(numbers));
    let list = text.and_then(|text| {
        let format = given.unwrap_or_else(|| ListFormat::guess(&key.0, &text));
        list::parse_list(&text, &key.0, format, hosts)
    });
    let list = match list.map_err(|sentence| item.sentence(&sentence))? {
        FlowList::Fixed(flows) => List::Fixed(flows.into()),
        FlowList::Matrix(matrix) => List::Matrix(Arc::new(matrix)),
    };
    context.lists.read.borrow_mut().insert(key, list.clone());
    Ok(list)
}

/// Adds the links that flow lists say are down, by the names of their ends, to the faults of the fabric.
pub(super) fn add_faults(fabric: &mut FabricSetup, down: Vec<[String; 2]>) {
    let is_down = |fault: &LinkFault, ends: &[String; 2]| {
        let same = [[&fault.from, &fault.to], [&fault.to, &fault.from]].contains(&[&ends[0], &ends[1]]);
        same && fault.rate.is_none() && fault.start == Time::ZERO && fault.duration.is_none()
    };
    for ends in down {
        if fabric.faults.links.iter().any(|fault| is_down(fault, &ends)) {
            continue;
        }
        let [from, to] = ends;
        let (one_way, scales_queues) = (false, false);
        let (start, duration, every) = (Time::ZERO, None, None);
        fabric.faults.links.push(LinkFault { from, to, rate: None, one_way, scales_queues, start, duration, every });
    }
}
