//! The desired state of a fleet: one TOML file with settings for all switches and hosts, and overrides for roles,
//! devices and ports.

mod read;

use super::settings::{HOST, SWITCH, Setting};
use crate::input::InputError;
use rnic_transport::Time;
use std::collections::{BTreeMap, BTreeSet};

/// The desired state of a fleet.
#[derive(Clone, PartialEq, Debug, Default)]
pub struct Desired {
    pub(crate) rdma: Rdma,
    switches: Layers,
    hosts: Layers,
    pub(crate) accepted: Vec<Accepted>,
}

/// The attributes of RDMA traffic on the wire.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub(crate) struct Rdma {
    /// DSCPs of RDMA packets. If empty, they are derived from the configurations.
    pub(crate) dscp: BTreeSet<u8>,
    /// DSCP of congestion notification packets.
    pub(crate) cnp_dscp: Option<u8>,
    /// Length in metres of links whose length is not configured.
    pub(crate) length: Option<u64>,
    /// Time until a peer reacts to a pause. `None` stands for the maximum of IEEE 802.3 at the rate of the link.
    pub(crate) reaction: Option<Time>,
}

/// A finding that the operator accepts, with a reason.
#[derive(Clone, PartialEq, Eq, Debug)]
pub(crate) struct Accepted {
    pub(crate) check: String,
    /// Pattern of devices.
    pub(crate) device: String,
    /// Pattern of ports.
    pub(crate) port: String,
    pub(crate) reason: String,
    pub(crate) line: usize,
}

/// A desired value.
#[derive(Clone, PartialEq, Eq, Debug)]
pub(crate) struct Wanted {
    pub(crate) value: String,
    /// Line in the file of the desired state.
    pub(crate) line: usize,
}

/// The settings of one table: settings for the device or all its ports, and settings for some ports.
#[derive(Clone, PartialEq, Debug, Default)]
struct Layer {
    settings: BTreeMap<String, Wanted>,
    /// Pattern of ports and their settings, in the order of the file.
    ports: Vec<(String, BTreeMap<String, Wanted>)>,
}

/// The layers of switches or of hosts; later layers override earlier ones.
#[derive(Clone, PartialEq, Debug, Default)]
struct Layers {
    all: Layer,
    /// (name, patterns of devices, layer)
    roles: Vec<(String, Vec<String>, Layer)>,
    devices: BTreeMap<String, Layer>,
}

/// Whether `name` matches `pattern`, in which `*` stands for any text.
pub(crate) fn matches(pattern: &str, name: &str) -> bool {
    match pattern.split_once('*') {
        None => pattern == name,
        Some((before, rest)) => name.strip_prefix(before).is_some_and(|name| {
            let ends = name.char_indices().map(|(at, _)| at).chain([name.len()]);
            // A pattern has few stars, so trying every position is fast enough.
            ends.into_iter().any(|at| matches(rest, &name[at..]))
        }),
    }
}

impl Desired {
    /// Parses the text of the file with the name `file`.
    ///
    /// # Errors
    /// One error for each mistake, with line and column.
    pub fn parse(text: &str, file: &str) -> Result<Desired, Vec<InputError>> {
        read::desired(text, file)
    }

    /// The settings that a switch should have. `ports` are the ports to which settings of ports apply.
    pub(crate) fn of_switch<'p>(
        &self, name: &str, ports: impl Iterator<Item = &'p String>,
    ) -> BTreeMap<(String, String), Wanted> {
        self.switches.of(name, &SWITCH, ports)
    }

    /// The settings that a host should have.
    pub(crate) fn of_host<'p>(
        &self, name: &str, interfaces: impl Iterator<Item = &'p String>,
    ) -> BTreeMap<(String, String), Wanted> {
        self.hosts.of(name, &HOST, interfaces)
    }

    /// The role of a device; `None` if it has none.
    pub(crate) fn role_of(&self, name: &str) -> Option<&str> {
        self.switches.role_of(name).or_else(|| self.hosts.role_of(name))
    }

    /// The roles that match a device of this kind, in the order of the file. The device has the first of them.
    pub(crate) fn roles_of(&self, name: &str, is_switch: bool) -> Vec<&str> {
        let layers = if is_switch { &self.switches } else { &self.hosts };
        let matching = layers.roles.iter().filter(|(_, patterns, _)| patterns.iter().any(|one| matches(one, name)));
        matching.map(|(role, _, _)| role.as_str()).collect()
    }

    /// The devices that must exist: devices with their own table, and devices that a role lists without a `*`.
    pub(crate) fn expected(&self) -> BTreeSet<String> {
        let layers = || [&self.switches, &self.hosts].into_iter();
        let named = layers().flat_map(|layers| layers.devices.keys());
        let patterns = layers().flat_map(|layers| &layers.roles).flat_map(|(_, patterns, _)| patterns);
        named.chain(patterns.filter(|pattern| !pattern.contains('*'))).cloned().collect()
    }
}

impl Layers {
    fn role_of(&self, name: &str) -> Option<&str> {
        let found = self.roles.iter().find(|(_, patterns, _)| patterns.iter().any(|pattern| matches(pattern, name)));
        found.map(|(role, _, _)| role.as_str())
    }

    fn of<'p>(
        &self, name: &str, settings: &[Setting], ports: impl Iterator<Item = &'p String>,
    ) -> BTreeMap<(String, String), Wanted> {
        let role = self.role_of(name);
        let role = self.roles.iter().find(|(known, _, _)| Some(known.as_str()) == role).map(|(_, _, layer)| layer);
        let layers = [Some(&self.all), role, self.devices.get(name)];
        let ports: Vec<&String> = ports.collect();
        let mut wanted = BTreeMap::new();
        for layer in layers.into_iter().flatten() {
            for (path, value) in &layer.settings {
                if is_per_port(settings, path) {
                    for port in &ports {
                        wanted.insert(((*port).clone(), path.clone()), value.clone());
                    }
                } else {
                    wanted.insert((String::new(), path.clone()), value.clone());
                }
            }
            for (pattern, values) in &layer.ports {
                let all = ports.iter().filter(|port| matches(pattern, port)).map(|port| (*port).clone());
                let mut all: Vec<String> = all.collect();
                // A port that is named without a `*` and does not exist is a difference, too.
                if all.is_empty() && !pattern.contains('*') {
                    all.push(pattern.clone());
                }
                for port in all {
                    for (path, value) in values {
                        wanted.insert((port.clone(), path.clone()), value.clone());
                    }
                }
            }
        }
        wanted
    }
}

fn is_per_port(settings: &[Setting], path: &str) -> bool {
    let first = path.split('.').next();
    settings.iter().any(|setting| setting.per_port && setting.path.split('.').next() == first)
}

#[cfg(test)]
mod tests;
