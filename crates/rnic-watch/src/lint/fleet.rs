//! The devices of a fleet, and their links.

use super::config_db::ConfigDb;
use super::host::{self, Host};
use super::neighbours::{self, End, Neighbours, PlannedLink};
use super::sonic;
use super::switch::Switch;
use super::{Device, Unknown};
use crate::dump::{Dump, archive_name};
use crate::input::{InputError, Place, read_file};
use std::collections::{BTreeMap, BTreeSet};
use std::path::{Path, PathBuf};

/// The configurations of all devices of a fleet.
#[derive(Default)]
pub struct Fleet {
    pub(crate) switches: BTreeMap<String, Switch>,
    /// The tables of CONFIG_DB of each switch.
    pub(crate) databases: BTreeMap<String, ConfigDb>,
    pub(crate) hosts: BTreeMap<String, Host>,
    /// The folder or archive of each host.
    pub(crate) folders: BTreeMap<String, String>,
    /// The LLDP neighbours, by device.
    pub(crate) seen: BTreeMap<String, Neighbours>,
    /// The links from the file with all links.
    pub(crate) planned: Vec<PlannedLink>,
    /// Mistakes in the inputs. The rest of the fleet is still checked.
    pub errors: Vec<InputError>,
    /// Keys, lines and files that no reader knows.
    pub unknown: Vec<Unknown>,
}

/// A link between ports of two known devices. The ends are sorted by name.
#[derive(Clone, PartialEq, Eq, Debug)]
pub(crate) struct Link {
    pub(crate) ends: [End; 2],
    /// Length in metres.
    pub(crate) length: Option<u64>,
}

impl Fleet {
    /// Reads the devices below the given folders. A folder is either a device or a folder of devices; an archive is a
    /// device. `links` is a file with all links of the fleet.
    pub fn read(paths: &[PathBuf], links: Option<&Path>) -> Fleet {
        let mut fleet = Fleet::default();
        for path in paths {
            fleet.read_path(path);
        }
        if let Some(path) = links {
            let read = read_file(path).and_then(|text| neighbours::parse_links(&text, &path.display().to_string()));
            match read {
                Ok(links) => fleet.planned = links,
                Err(error) => fleet.errors.push(error),
            }
        }
        if fleet.switches.is_empty() && fleet.hosts.is_empty() && fleet.errors.is_empty() {
            let paths: Vec<String> = paths.iter().map(|path| path.display().to_string()).collect();
            let message = "no device found: accepted are folders and tar archives of devices, or folders of these";
            fleet.errors.push(InputError::new(paths.join(", "), Place::File, message));
        }
        fleet
    }

    fn read_path(&mut self, path: &Path) {
        let file = |path: &Path| path.file_name().map(|name| name.to_string_lossy().into_owned()).unwrap_or_default();
        let absolute = path.canonicalize().unwrap_or_else(|_| path.to_path_buf());
        let name = file(&absolute);
        if !path.is_dir() {
            let name = archive_name(&name).unwrap_or(&name).to_string();
            return self.read_device(path, &name);
        }
        let entries: BTreeSet<PathBuf> =
            std::fs::read_dir(path).into_iter().flatten().flatten().map(|entry| entry.path()).collect();
        let is_device = |name: &str| {
            name == "config_db.json" || name == "sys" || name.starts_with("mlnx_qos-") || name.starts_with("ethtool-")
        };
        if entries.iter().any(|entry| is_device(&file(entry))) {
            return self.read_device(path, &name);
        }
        for entry in entries {
            let name = file(&entry);
            if name.starts_with('.') {
                continue;
            }
            match archive_name(&name) {
                _ if entry.is_dir() => self.read_device(&entry, &name),
                Some(device) => self.read_device(&entry, device),
                None => self.unknown.push(Unknown {
                    device: Device(String::new()),
                    path: entry.display().to_string(),
                    text: "neither a folder nor a tar archive of a device".to_string(),
                }),
            }
        }
    }

    fn read_device(&mut self, path: &Path, name: &str) {
        if self.switches.contains_key(name) || self.hosts.contains_key(name) {
            let message = format!("the device `{name}` was already read from another path");
            return self.errors.push(InputError::new(path.display().to_string(), Place::File, message));
        }
        if let Err(error) = Dump::open(path, name).and_then(|dump| self.read_dump(&dump, path)) {
            self.errors.push(error);
        }
    }

    fn read_dump(&mut self, dump: &Dump, folder: &Path) -> Result<(), InputError> {
        let neighbours = neighbours::read(dump);
        match neighbours {
            Ok((neighbours, skipped)) => {
                let device = || Device(dump.name.clone());
                self.unknown.extend(skipped.into_iter().map(|(path, text)| Unknown { device: device(), path, text }));
                if !neighbours.is_empty() {
                    self.seen.insert(dump.name.clone(), neighbours);
                }
            }
            Err(error) => self.errors.push(error),
        }
        if let Some(text) = dump.read("config_db.json")? {
            let file = dump.called("config_db.json");
            let mut db = ConfigDb::parse(&text, &file)?;
            db.file = folder.join("config_db.json").display().to_string();
            let switch = sonic::read(&dump.name, &file, &db, &mut self.errors, &mut self.unknown);
            for file in dump
                .list("")
                .into_iter()
                .filter(|file| !["config_db.json", "lldp.json", "lldp.txt"].contains(&file.as_str()))
            {
                let text = "no format of this name is known".to_string();
                self.unknown.push(Unknown { device: Device(dump.name.clone()), path: file, text });
            }
            self.switches.insert(dump.name.clone(), switch);
            self.databases.insert(dump.name.clone(), db);
        } else {
            let host = host::read(dump, &mut self.errors, &mut self.unknown);
            if !host.is_empty() {
                self.hosts.insert(dump.name.clone(), host);
                self.folders.insert(dump.name.clone(), folder.display().to_string());
            }
        }
        Ok(())
    }

    /// The known device that a neighbour calls `name`: the device with this name, or with its first part before a dot.
    fn device(&self, name: &str) -> Option<&str> {
        let known = |name: &str| {
            let switch = self.switches.get_key_value(name).map(|(name, _)| name.as_str());
            switch.or_else(|| self.hosts.get_key_value(name).map(|(name, _)| name.as_str()))
        };
        known(name).or_else(|| known(name.split('.').next().unwrap_or(name)))
    }

    /// The port of a known device that has one of `names` as its name or alias; returns the port's name.
    fn port(&self, device: &str, names: &[String]) -> Option<String> {
        if let Some(switch) = self.switches.get(device) {
            return names.iter().find_map(|name| {
                let by_alias = || {
                    let ports = &mut switch.ports.iter();
                    ports.find(|(_, port)| port.alias.as_ref() == Some(name)).map(|(name, _)| name.clone())
                };
                if switch.ports.contains_key(name) { Some(name.clone()) } else { by_alias() }
            });
        }
        let host = self.hosts.get(device)?;
        names.iter().find(|name| host.interfaces.contains_key(*name)).cloned()
    }

    /// The other end of each port, as LLDP reports it.
    pub(crate) fn observed(&self) -> BTreeMap<End, End> {
        let mut ends = BTreeMap::new();
        for (device, neighbours) in &self.seen {
            for (local, neighbour) in neighbours {
                let Some(other) = self.device(&neighbour.device) else { continue };
                // A host's LLDP may identify a port by its address, which is not a port name; the other end may report
                // the name.
                if let (Some(port), Some(local)) =
                    (self.port(other, &neighbour.ports), self.port(device, std::slice::from_ref(local)))
                {
                    let (a, b) = (End::new(device, &local), End::new(other, &port));
                    ends.entry(b.clone()).or_insert_with(|| a.clone());
                    ends.insert(a, b);
                }
            }
        }
        ends
    }

    /// The planned other end of each port, from the file with all links or from the switches' DEVICE_NEIGHBOR.
    pub(crate) fn plan(&self) -> BTreeMap<End, End> {
        let mut ends = BTreeMap::new();
        for (name, switch) in &self.switches {
            for (port, config) in switch.used() {
                let Some((device, other)) = &config.neighbour else { continue };
                let Some(device) = self.device(device) else { continue };
                let Some(other) = other.as_ref().and_then(|other| self.port(device, std::slice::from_ref(other)))
                else {
                    continue;
                };
                let (a, b) = (End::new(name, port), End::new(device, &other));
                ends.entry(b.clone()).or_insert_with(|| a.clone());
                ends.insert(a, b);
            }
        }
        for PlannedLink { ends: [a, b], .. } in &self.planned {
            let known = |end: &End| {
                let device = self.device(&end.device)?;
                Some(End::new(device, &self.port(device, std::slice::from_ref(&end.port))?))
            };
            if let (Some(a), Some(b)) = (known(a), known(b)) {
                ends.insert(a.clone(), b.clone());
                ends.insert(b, a);
            }
        }
        ends
    }

    /// The links between known devices: from LLDP, and for ports without LLDP from the plan.
    pub(crate) fn links(&self) -> Vec<Link> {
        let mut ends = self.plan();
        let observed = self.observed();
        // If LLDP reports the link of a port, planned links of this port are ignored.
        ends.retain(|a, b| !observed.contains_key(a) && !observed.contains_key(b));
        ends.extend(observed);
        let mut planned = BTreeMap::new();
        for link in &self.planned {
            for end in &link.ends {
                planned.insert(end, link);
            }
        }
        let mut links: Vec<Link> = Vec::new();
        for (a, b) in &ends {
            if a < b && ends.get(b) == Some(a) {
                links.push(Link { ends: [a.clone(), b.clone()], length: self.length(&planned, a, b) });
            }
        }
        links
    }

    /// Length of a link in metres: from the file with all links, else from a switch, else from a host.
    fn length(&self, planned: &BTreeMap<&End, &PlannedLink>, a: &End, b: &End) -> Option<u64> {
        let planned = planned.get(a).or_else(|| planned.get(b)).and_then(|link| link.length);
        let of_switch = |end: &End| self.switches.get(&end.device)?.ports.get(&end.port)?.length;
        planned.or_else(|| of_switch(a)).or_else(|| of_switch(b))
    }

    /// Ports of known devices in the file with all links that the device does not have, with their line numbers.
    pub(crate) fn unknown_ends(&self) -> Vec<(usize, End)> {
        let ends = self.planned.iter().flat_map(|link| link.ends.iter().map(|end| (link.line, end.clone())));
        let missing = |end: &End| {
            self.device(&end.device).is_some_and(|device| self.port(device, std::slice::from_ref(&end.port)).is_none())
        };
        ends.filter(|(_, end)| missing(end)).collect()
    }
}
