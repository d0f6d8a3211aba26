//! The inventory file of a mesh: hosts and their locations, switches and their addresses, settings of the mesh, and
//! alarm rules.

use crate::alarm::Rule;
use crate::credentials::{CONTROLLER, OPERATOR};
pub use crate::scope::Scope;
use rnic_probe::Carrier;
use rnic_probe::message::{MAX_PROBE, MIN_PROBE};
use rnic_transport::Time;
use serde::Deserialize;
use std::collections::BTreeMap;
use std::net::IpAddr;

/// Maximum number of hosts.
pub const MAX_HOSTS: usize = 50_000;
/// Maximum length of a name.
const MAX_NAME: usize = 63;

/// A host of the mesh.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Host {
    /// Name, which is also the name in the certificate of its agent.
    pub name: String,
    /// IP address at which the host's agent sends and receives probes.
    pub address: IpAddr,
    /// Index of its ToR switch in [`Inventory::tors`].
    pub tor: u32,
}

/// A ToR switch and its location.
#[derive(Clone, PartialEq, Eq, PartialOrd, Ord, Debug)]
pub struct Tor {
    /// Name.
    pub name: String,
    /// Name of the podset.
    pub podset: String,
    /// Name of the data center.
    pub datacenter: String,
}

/// Settings of a mesh.
#[derive(Clone, PartialEq, Debug)]
pub struct Settings {
    /// Name of the mesh, for the page; it can be empty.
    pub name: String,
    /// Time between two probes of a pair of hosts below the same ToR switch.
    pub tor_interval: Time,
    /// Time between two probes of a pair of hosts below different ToR switches.
    pub interval: Time,
    /// Number of peers of each host in other ToRs of the podset, other podsets of the data center, and other data
    /// centers. Peers are symmetric, so an odd number is rounded up.
    pub peers: [u32; 3],
    /// Number of paths (UDP source ports) to each target.
    pub paths: u16,
    /// Time after which a fifth of the paths change their source port; `None`: source ports do not change.
    pub rotate: Option<Time>,
    /// Transport of the probes.
    pub transport: Carrier,
    /// Payload bytes of a probe.
    pub size: u16,
    /// Differentiated services code point.
    pub dscp: u8,
    /// Time after which a probe without a response counts as lost.
    pub timeout: Time,
    /// Maximum probes per second of one host.
    pub host_rate: f64,
    /// Time between two fetches of the pinglist.
    pub refresh: Time,
    /// Time between two reports of an agent to the controller.
    pub report: Time,
    /// Time between two traces of a path.
    pub trace: Time,
    /// Time between two evaluations of alarms and suspects.
    pub evaluate: Time,
    /// Number of hours for which results are stored. Hours without results do not count.
    pub retention_hours: u32,
}

/// The content of an inventory file.
#[derive(Clone, PartialEq, Debug)]
pub struct Inventory {
    /// The hosts.
    pub hosts: Vec<Host>,
    /// The ToR switches, in the order in which hosts name them.
    pub tors: Vec<Tor>,
    /// Names of the switches, by IP address.
    pub switches: BTreeMap<IpAddr, String>,
    /// Settings.
    pub settings: Settings,
    /// Rules of the alarms.
    pub rules: Vec<Rule>,
    names: BTreeMap<String, u32>,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct File {
    #[serde(default)]
    mesh: RawSettings,
    #[serde(default)]
    host: Vec<RawHost>,
    #[serde(default)]
    switch: Vec<RawSwitch>,
    alarm: Option<Vec<Rule>>,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct RawHost {
    name: String,
    address: IpAddr,
    tor: String,
    #[serde(default)]
    podset: String,
    #[serde(default)]
    datacenter: String,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct RawSwitch {
    name: String,
    addresses: Vec<IpAddr>,
}

#[derive(Deserialize, Default)]
#[serde(deny_unknown_fields)]
struct RawSettings {
    name: Option<String>,
    tor_interval: Option<String>,
    interval: Option<String>,
    podset_peers: Option<u32>,
    datacenter_peers: Option<u32>,
    global_peers: Option<u32>,
    paths: Option<u16>,
    size: Option<u16>,
    dscp: Option<u8>,
    timeout: Option<String>,
    host_rate: Option<f64>,
    refresh: Option<String>,
    report: Option<String>,
    trace: Option<String>,
    rotate: Option<String>,
    #[serde(default)]
    transport: Carrier,
    evaluate: Option<String>,
    retention_hours: Option<u32>,
}

impl RawSettings {
    fn read(self) -> Result<Settings, String> {
        let time = |key: &str, text: Option<String>, default_ms: u64, min_ms: u64, max_ms: u64| {
            let Some(text) = text else { return Ok(Time::from_ms(default_ms)) };
            let time: Time = text.parse().map_err(|error| format!("mesh.{key}: {error}"))?;
            if (Time::from_ms(min_ms)..=Time::from_ms(max_ms)).contains(&time) {
                return Ok(time);
            }
            let (min, max) = (Time::from_ms(min_ms), Time::from_ms(max_ms));
            Err(format!("mesh.{key}: {time} is out of range; accepted: {min} to {max}"))
        };
        let within = |key: &str, value: u64, min: u64, max: u64| {
            let fits = (min..=max).contains(&value);
            if fits { Ok(()) } else { Err(format!("mesh.{key}: {value} is out of range; accepted: {min} to {max}")) }
        };
        let hour = 3_600_000;
        let name = self.name.unwrap_or_default();
        if name.chars().count() > MAX_NAME || name.chars().any(char::is_control) {
            return Err(format!(
                "mesh.name: {name:?}; accepted: up to {MAX_NAME} characters without control characters"
            ));
        }
        let settings = Settings {
            name,
            tor_interval: time("tor_interval", self.tor_interval, 1_000, 10, hour)?,
            interval: time("interval", self.interval, 1_000, 10, hour)?,
            peers: [self.podset_peers.unwrap_or(8), self.datacenter_peers.unwrap_or(8), self.global_peers.unwrap_or(4)],
            paths: self.paths.unwrap_or(4),
            rotate: match self.rotate.as_deref() {
                Some("never") => None,
                rotate => Some(time("rotate", rotate.map(str::to_string), hour, 1_000, 30 * 24 * hour)?),
            },
            transport: self.transport,
            size: self.size.unwrap_or(512),
            dscp: self.dscp.unwrap_or(0),
            timeout: time("timeout", self.timeout, 1_000, 1, 60_000)?,
            host_rate: self.host_rate.unwrap_or(200.0),
            refresh: time("refresh", self.refresh, 5_000, 100, 600_000)?,
            report: time("report", self.report, 2_000, 100, 600_000)?,
            trace: time("trace", self.trace, 300_000, 1_000, 24 * hour)?,
            evaluate: time("evaluate", self.evaluate, 10_000, 500, 600_000)?,
            retention_hours: self.retention_hours.unwrap_or(168),
        };
        for (key, value) in ["podset_peers", "datacenter_peers", "global_peers"].into_iter().zip(settings.peers) {
            within(key, value.into(), 0, 128)?;
        }
        within("paths", settings.paths.into(), 1, crate::record::MAX_PATHS.into())?;
        let most = crate::record::MAX_PATHS / 2;
        if settings.rotate.is_some() && settings.paths > most {
            return Err(format!(
                "mesh.paths: with {} paths no source port is left to change to; accepted: up to {most}, or rotate = \"never\"",
                settings.paths
            ));
        }
        within("size", settings.size.into(), MIN_PROBE as u64, MAX_PROBE as u64)?;
        within("dscp", settings.dscp.into(), 0, 63)?;
        within("retention_hours", settings.retention_hours.into(), 1, 100_000)?;
        if !(0.1..=1_000.0).contains(&settings.host_rate) {
            return Err(format!("mesh.host_rate: {} is out of range; accepted: 0.1 to 1000", settings.host_rate));
        }
        Ok(settings)
    }
}

impl Inventory {
    /// Reads an inventory.
    ///
    /// # Errors
    /// Returns a sentence that describes the first mistake.
    pub fn parse(text: &str) -> Result<Inventory, String> {
        let file: File = toml::from_str(text).map_err(|error| error.to_string().trim().to_string())?;
        let settings = file.mesh.read()?;
        if file.host.is_empty() {
            return Err("there is no host; add a table [[host]] with name, address and tor for each".to_string());
        }
        if file.host.len() > MAX_HOSTS {
            return Err(format!("{} hosts are too many: at most {MAX_HOSTS}", file.host.len()));
        }
        let mut tors: Vec<Tor> = Vec::new();
        let mut tor_of: BTreeMap<String, u32> = BTreeMap::new();
        let mut names = BTreeMap::new();
        let mut addresses: BTreeMap<IpAddr, String> = BTreeMap::new();
        let mut hosts = Vec::with_capacity(file.host.len());
        for host in file.host {
            check_name("host", &host.name)?;
            check_name("tor", &host.tor)?;
            if [CONTROLLER, OPERATOR].contains(&host.name.as_str()) {
                return Err(format!(
                    "no host can be called {}: certificates have this name for another role",
                    host.name
                ));
            }
            if names.insert(host.name.clone(), hosts.len() as u32).is_some() {
                return Err(format!("there are two hosts with the name {}", host.name));
            }
            let address = host.address.to_canonical();
            if let Some(other) = addresses.insert(address, host.name.clone()) {
                return Err(format!("the hosts {other} and {} have the same address {address}", host.name));
            }
            let place = Tor { name: host.tor.clone(), podset: host.podset, datacenter: host.datacenter };
            let tor = *tor_of.entry(host.tor).or_insert_with(|| {
                tors.push(place.clone());
                (tors.len() - 1) as u32
            });
            let known = &tors[tor as usize];
            if *known != place {
                return Err(format!(
                    "host {}: the ToR switch {} is in podset \"{}\" of data center \"{}\", and for an earlier host \
                     in podset \"{}\" of \"{}\"",
                    host.name, place.name, place.podset, place.datacenter, known.podset, known.datacenter
                ));
            }
            hosts.push(Host { name: host.name, address, tor });
        }
        let mut switches = BTreeMap::new();
        for switch in file.switch {
            check_name("switch", &switch.name)?;
            for address in switch.addresses {
                if let Some(other) = switches.insert(address.to_canonical(), switch.name.clone()) {
                    return Err(format!("the switches {other} and {} have the same address {address}", switch.name));
                }
            }
        }
        let rules = file.alarm.unwrap_or_else(Rule::defaults);
        for rule in &rules {
            rule.check()?;
        }
        Ok(Inventory { hosts, tors, switches, settings, rules, names })
    }

    /// The index of the host with this name.
    pub fn index(&self, name: &str) -> Option<u32> {
        self.names.get(name).copied()
    }

    /// The host with this index.
    pub fn host(&self, index: u32) -> &Host {
        &self.hosts[index as usize]
    }

    /// The ToR switch of a host.
    pub fn tor_of(&self, host: u32) -> &Tor {
        &self.tors[self.hosts[host as usize].tor as usize]
    }

    /// How far apart two hosts are.
    pub fn scope(&self, a: u32, b: u32) -> Scope {
        self.tor_of(a).scope(self.tor_of(b))
    }
}

impl Tor {
    /// How far apart the hosts below two ToR switches are.
    pub fn scope(&self, other: &Tor) -> Scope {
        if self.name == other.name {
            Scope::Tor
        } else if (&self.datacenter, &self.podset) == (&other.datacenter, &other.podset) {
            Scope::Podset
        } else if self.datacenter == other.datacenter {
            Scope::Datacenter
        } else {
            Scope::Global
        }
    }
}

/// Checks that a name is a DNS label, because names become parts of certificates, metric labels and pages.
fn check_name(what: &str, name: &str) -> Result<(), String> {
    let fits = |byte: u8| byte.is_ascii_alphanumeric() || matches!(byte, b'-' | b'_' | b'.');
    let edge = |byte: Option<&u8>| byte.is_some_and(u8::is_ascii_alphanumeric);
    let bytes = name.as_bytes();
    if bytes.len() <= MAX_NAME && bytes.iter().all(|byte| fits(*byte)) && edge(bytes.first()) && edge(bytes.last()) {
        return Ok(());
    }
    Err(format!(
        "the {what} name {name:?} is not possible; accepted: 1 to {MAX_NAME} letters, digits, '-', '_' and '.', \
         with a letter or digit at both ends"
    ))
}

#[cfg(test)]
mod tests {
    use super::*;

    const TWO: &str = r#"
        [mesh]
        interval = "500 ms"
        [[host]]
        name = "a"
        address = "10.0.0.1"
        tor = "t1"
        podset = "p"
        [[host]]
        name = "b"
        address = "10.0.1.1"
        tor = "t2"
        podset = "p"
        [[switch]]
        name = "t1"
        addresses = ["10.0.0.254"]
    "#;

    #[test]
    fn an_inventory_is_read() {
        let inventory = Inventory::parse(TWO).unwrap();
        assert_eq!((inventory.hosts.len(), inventory.tors.len()), (2, 2));
        assert_eq!(
            (inventory.index("b"), inventory.scope(0, 1), inventory.scope(0, 0)),
            (Some(1), Scope::Podset, Scope::Tor)
        );
        assert_eq!(inventory.settings.interval, Time::from_ms(500));
        assert!(!inventory.rules.is_empty());
    }

    #[test]
    fn mistakes_get_a_sentence() {
        for (wrong, sentence) in [
            (String::new(), "there is no host"),
            (TWO.replace("\"b\"", "\"a\""), "two hosts with the name a"),
            (TWO.replace("10.0.1.1", "10.0.0.1"), "the hosts a and b have the same address 10.0.0.1"),
            (
                TWO.replace("\"t2\"\n        podset = \"p\"", "\"t1\"\n        podset = \"q\""),
                "host b: the ToR switch t1",
            ),
            (TWO.replace("500 ms", "1 ms"), "mesh.interval: 1 ms is out of range; accepted: 10 ms to"),
            (TWO.replace("interval", "intervall"), "unknown field `intervall`"),
            (TWO.replace("\"b\"", "\"b c\""), "the host name \"b c\" is not possible"),
            (TWO.replace("10.0.1.1", "10.0.1"), "invalid IP address"),
        ] {
            let error = Inventory::parse(&wrong).unwrap_err();
            assert!(error.contains(sentence), "{error}");
        }
    }
}
