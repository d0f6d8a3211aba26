//! Reads fabrics whose topology is a file of another simulator (`topology = "file"`), as graphs.

use super::extends::Files;
use super::graph::{self, Link};
use super::reader::{Result, Table};
use crate::format::import::{self, Imported, Nvswitches, TopologyFormat};
use rnic_fabric::config::{LinkSpec, NamedLink, TopologySpec};
use std::cell::RefCell;
use std::collections::BTreeMap;
use std::path::PathBuf;
use std::sync::Arc;

/// Where to read topology files, and a cache of the files that earlier runs of the scenario have read.
pub(super) struct Topologies<'f> {
    files: Files<'f>,
    read: RefCell<BTreeMap<Key, Arc<Imported>>>,
}

/// Path, given format, and treatment of NVSwitches of a cached topology.
type Key = (PathBuf, Option<TopologyFormat>, Nvswitches);

impl<'f> Topologies<'f> {
    pub(super) fn new(files: Files<'f>) -> Topologies<'f> {
        Topologies { files, read: RefCell::default() }
    }

    /// Reads the topology that `[fabric]` names; `None` if `[fabric]` describes the topology itself.
    pub(super) fn of(&self, table: &Table<'_>) -> Result<Option<Arc<Imported>>> {
        if table.variant() != "file" {
            return Ok(None);
        }
        let item = table.require("file")?;
        let path = item.folder().join(item.name()?);
        let format = table.given::<String>("format")?.map(|format| match format.as_str() {
            "hpcc" => TopologyFormat::Hpcc,
            "simai" => TopologyFormat::Simai,
            "htsim" => TopologyFormat::Htsim,
            _ => TopologyFormat::AstraSim,
        });
        let nvswitches = match table.value::<String>("nvswitches")?.as_str() {
            "omit" => Nvswitches::Omit,
            _ => Nvswitches::Keep,
        };
        let key = (path, format, nvswitches);
        if let Some(imported) = self.read.borrow().get(&key) {
            return Ok(Some(imported.clone()));
        }
        let read = match self.files {
            Files::Disk => import::read_topology(&key.0, format, nvswitches),
            files => {
                let text = files.read(&key.0).map_err(|why| format!("{}: {why}", key.0.display()));
                text.and_then(|text| import::parse_topology(&text, &key.0, format, nvswitches))
            }
        };
        let imported = Arc::new(read.map_err(|sentence| item.sentence(&sentence))?);
        self.read.borrow_mut().insert(key, imported.clone());
        Ok(Some(imported))
    }
}

/// The names of the topology's hosts and switches.
pub(super) fn topology(imported: &Imported) -> TopologySpec {
    let names = |is_switch| {
        let nodes = imported.graph.nodes.iter().filter(move |node| node.is_switch == is_switch);
        nodes.map(|node| node.name.clone()).collect()
    };
    TopologySpec::Graph { hosts: names(false), switches: names(true) }
}

/// The properties that links have unless [`links`] gives others: those of the first link, without loss.
pub(super) fn base(imported: &Imported) -> LinkSpec {
    let first = imported.graph.links.first();
    let (rate, delay) = first.map_or_else(Default::default, |link| (link.rate, link.delay));
    LinkSpec { rate, delay, loss: 0.0 }
}

/// The links of the topology, with the changes that the tables `[[fabric.link]]` make: `changes`. A change applies to
/// all links between its two nodes.
pub(super) fn links(imported: &Imported, base: LinkSpec, changes: &[Link<'_>]) -> Result<Vec<NamedLink>> {
    let nodes = &imported.graph.nodes;
    let named = |link: &crate::format::Link| {
        let [from, to] = link.ends.map(|end| nodes[end as usize].name.clone());
        NamedLink {
            from,
            to,
            rate: Some(link.rate).filter(|rate| *rate != base.rate),
            delay: Some(link.delay).filter(|delay| *delay != base.delay),
            loss: Some(link.loss).filter(|loss| *loss != base.loss),
        }
    };
    let mut links: Vec<NamedLink> = imported.graph.links.iter().map(named).collect();
    for (change, table) in changes {
        let joins =
            |link: &NamedLink| [(&link.from, &link.to), (&link.to, &link.from)].contains(&(&change.from, &change.to));
        let mut found = false;
        for link in links.iter_mut().filter(|link| joins(link)) {
            link.rate = change.rate.or(link.rate);
            link.delay = change.delay.or(link.delay);
            link.loss = change.loss.or(link.loss);
            found = true;
        }
        if !found {
            return Err(graph::no_link(table, change, |name| nodes.iter().any(|node| node.name == name)));
        }
    }
    Ok(links)
}
