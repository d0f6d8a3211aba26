//! The registered agents and their pinglists. This module uses neither sockets nor clocks.
//!
//! Probers and targets learn each other's addresses from the controller. The list of a prober includes a target only
//! after the target has confirmed a list that admits this prober. Otherwise the target would not respond to the first
//! probes, and they would count as lost.

use crate::inventory::Inventory;
use crate::pinglist::Pinglists;
use crate::presence::Presence;
use crate::record::{Admit, Fetched, PROTOCOL, Pinglist, Registration, Target};
use crate::renewal::Renumbering;
use crate::suspects::{Finding, Symptom};
use aws_lc_rs::hmac;
use std::collections::BTreeMap;
use std::hash::{DefaultHasher, Hash, Hasher};
use std::sync::Arc;

/// A registered agent.
#[derive(Clone, Debug)]
pub struct Agent {
    /// Its latest registration.
    pub registration: Registration,
    /// Time of its latest request in ms, by a monotonic clock; for a restored agent, the time of the restart.
    pub seen_ms: u64,
    /// Whether this controller has received a request from the agent.
    pub has_contacted: bool,
    /// [`Registry::version`] at the time when the agent registered with its current address.
    version: u64,
}

/// The agents of a mesh.
pub struct Registry {
    inventory: Arc<Inventory>,
    lists: Pinglists,
    agents: Vec<Option<Agent>>,
    version: u64,
    /// Number of the current rotation of source ports, which is in all lists.
    rotation: u64,
    secret: hmac::Key,
    /// The pairs of peers that an earlier inventory of this controller did not have, with [`Registry::version`] at the
    /// time when they became peers. The list of a prober includes a target of such a pair only after the target has
    /// confirmed a list of this version.
    new_pairs: BTreeMap<(u32, u32), u64>,
}

impl Registry {
    /// A registry without agents. Session numbers are derived from the secret.
    pub fn new(inventory: Arc<Inventory>, secret: &[u8]) -> Registry {
        let lists = Pinglists::new(&inventory);
        let agents = vec![None; inventory.hosts.len()];
        // Versions of an earlier controller are never larger: it had one for each registration.
        let version = 1;
        let secret = hmac::Key::new(hmac::HMAC_SHA256, secret);
        Registry { inventory, lists, agents, version, rotation: 0, secret, new_pairs: BTreeMap::new() }
    }

    /// Changes to another inventory. Agents of hosts that are in both inventories remain registered, and probe each
    /// other without an interruption.
    pub fn renew(&mut self, inventory: Arc<Inventory>, numbers: &Renumbering) {
        let lists = Pinglists::new(&inventory);
        self.version += 1;
        let mut known = BTreeMap::new();
        for (old, _) in (0..).zip(&self.agents) {
            for peer in self.lists.of_host(old) {
                if let (Some(a), Some(b)) = (numbers.host(old), numbers.host(peer.host)) {
                    known.insert((a, b), self.new_pairs.get(&(old, peer.host)).copied());
                }
            }
        }
        self.new_pairs.clear();
        for host in 0..inventory.hosts.len() as u32 {
            for peer in lists.of_host(host) {
                let since = known.get(&(host, peer.host)).copied().unwrap_or(Some(self.version));
                self.new_pairs.extend(since.map(|since| ((host, peer.host), since)));
            }
        }
        self.agents = numbers.moved(std::mem::take(&mut self.agents), &inventory, None);
        (self.inventory, self.lists) = (inventory, lists);
    }

    /// Whether a target has confirmed a list that admits a prober.
    fn has_admitted(&self, (prober, own): (u32, &Agent), (target, other): (u32, &Agent)) -> bool {
        let confirmed = other.registration.list_version;
        let is_new_pair = |since: &u64| confirmed == u64::MAX || confirmed < *since;
        confirmed >= own.version && !self.new_pairs.get(&(prober, target)).is_some_and(is_new_pair)
    }

    /// Restores an agent that had registered with an earlier controller, unless its host is no longer in the inventory.
    pub fn restore(&mut self, registration: Registration, now: u64) {
        let index = self.inventory.index(&registration.host);
        let fits = |index: &u32| registration.address.addr.ip().to_canonical() == self.inventory.host(*index).address;
        if let Some(index) = index.filter(fits) {
            self.version += 1;
            let version = self.version;
            // The agent's list admits all agents that the earlier controller knew.
            let registration = Registration { list_version: u64::MAX, ..registration };
            self.agents[index as usize] = Some(Agent { registration, seen_ms: now, has_contacted: false, version });
        }
    }

    /// Registers an agent, and returns its pinglist, and whether the agent is new or its address has changed.
    ///
    /// # Errors
    /// Returns a sentence, which the controller sends to the agent.
    pub fn fetch(&mut self, registration: Registration, now: u64) -> Result<(Fetched, bool), String> {
        if registration.protocol != PROTOCOL {
            let protocol = registration.protocol;
            return Err(format!(
                "the agent speaks version {protocol} of the protocol, and this controller version {PROTOCOL}; upgrade the \
                 older one"
            ));
        }
        let host = &registration.host;
        let index = self.inventory.index(host).ok_or_else(|| format!("the inventory has no host {host}"))?;
        let (address, known) = (registration.address.addr.ip().to_canonical(), self.inventory.host(index).address);
        if address != known {
            return Err(format!("the inventory has {host} at {known}, and its agent probes from {address}"));
        }
        if registration.address.addr.port() == 0 || registration.address.qpn >= 0xff_ffff {
            return Err("the agent has no UDP port or no queue pair".to_string());
        }
        let slot = &mut self.agents[index as usize];
        let same = |agent: &Agent| {
            let old = &agent.registration;
            (old.incarnation, old.address) == (registration.incarnation, registration.address)
        };
        let old =
            slot.as_ref().filter(|agent| same(agent)).map(|agent| (agent.version, agent.registration.list_version));
        let is_new = old.is_none();
        if is_new {
            self.version += 1;
        }
        let version = old.map_or(self.version, |(version, _)| version);
        let digest = registration.digest;
        // List versions of an earlier controller have no meaning for this one, which knows only the restored lists.
        let list_version = match old {
            Some((_, u64::MAX)) if registration.list_version != 0 => u64::MAX,
            _ => registration.list_version.min(self.version),
        };
        let registration = Registration { list_version, ..registration };
        *slot = Some(Agent { registration, seen_ms: now, has_contacted: true, version });
        let list = self.list(index, now);
        if list.digest == digest {
            if let Some(agent) = &mut self.agents[index as usize] {
                // The agent's list is the current one, so it admits all probers of the current version.
                agent.registration.list_version = self.version;
            }
            return Ok((Fetched::Unchanged(self.version), is_new));
        }
        if let Some(agent) = &mut self.agents[index as usize]
            && agent.registration.list_version == u64::MAX
        {
            // This fetch returns the first list of this controller, and the agent confirms the list with its next
            // fetch.
            agent.registration.list_version = 0;
        }
        Ok((Fetched::List(Box::new(list)), is_new))
    }

    /// Sets the number of the rotation of source ports: the time of day divided by [`Settings::rotate`]. If the clock
    /// jumps, the source ports only change once more.
    ///
    /// [`Settings::rotate`]: crate::inventory::Settings::rotate
    pub fn rotate(&mut self, unix_us: u64) {
        let every = self.inventory.settings.rotate.map(|every| every.as_ps() / 1_000_000);
        self.rotation = every.map_or(0, |every| 1 + unix_us / every.max(1));
    }

    /// The agent of a host.
    pub fn agent(&self, host: u32) -> Option<&Agent> {
        self.agents.get(host as usize)?.as_ref()
    }

    /// All registrations, to be saved.
    pub fn registrations(&self) -> Vec<Registration> {
        self.agents.iter().flatten().map(|agent| agent.registration.clone()).collect()
    }

    /// The peers of a host.
    pub fn peers(&self, host: u32) -> &[crate::pinglist::Peer] {
        self.lists.of_host(host)
    }

    /// The presence of a host's agent with this incarnation. The agent is up if it still has this incarnation, and its
    /// latest request is recent; a lost probe to any other agent is not a loss of the network. The presence of a
    /// restored agent is unknown until its first request.
    pub fn presence(&self, host: u32, incarnation: u64, now: u64) -> Presence {
        let timeout = 3 * self.inventory.settings.refresh.as_ps() / 1_000_000_000;
        let fits = |agent: &&Agent| {
            agent.registration.incarnation == incarnation && now.saturating_sub(agent.seen_ms) <= timeout
        };
        match self.agent(host).filter(fits) {
            Some(agent) if agent.has_contacted => Presence::Up,
            Some(_) => Presence::Unknown,
            None => Presence::Down,
        }
    }

    /// The hosts whose agents had registered and are silent. If all registered agents below a ToR switch are silent,
    /// and more than one is registered, the ToR switch is the suspect.
    pub fn silent(&self, now: u64) -> Vec<Finding> {
        let mut tors: BTreeMap<u32, (u64, Vec<u32>)> = BTreeMap::new();
        for (index, agent) in (0..).zip(&self.agents) {
            let Some(agent) = agent else { continue };
            let (known, silent) = tors.entry(self.inventory.host(index).tor).or_default();
            *known += 1;
            if self.presence(index, agent.registration.incarnation, now) == Presence::Down {
                silent.push(index);
            }
        }
        let finding = |part: String, probes: u64, bad: u64| Finding {
            symptom: Symptom::Silent,
            parts: vec![part],
            probes,
            bad,
            score: bad as f64,
            worst: None,
        };
        let mut findings = Vec::new();
        for (tor, (known, silent)) in tors {
            if silent.len() > 1 && silent.len() as u64 == known {
                let name = self.inventory.tors.get(tor as usize).map_or("?", |tor| &tor.name);
                findings.push(finding(format!("switch {name}"), known, known));
            } else {
                let hosts = silent.iter().map(|host| &self.inventory.host(*host).name);
                findings.extend(hosts.map(|name| finding(format!("host {name}"), 1, 1)));
            }
        }
        findings
    }

    /// Whether a host's agent with this incarnation is known to be up.
    pub fn is_up(&self, host: u32, incarnation: u64, now: u64) -> bool {
        self.presence(host, incarnation, now) != Presence::Down
    }

    fn session(&self, prober: &Registration, target: &Registration) -> u64 {
        let text = format!("{} {} {} {}", prober.host, prober.incarnation, target.host, target.incarnation);
        let tag = hmac::sign(&self.secret, text.as_bytes());
        tag.as_ref().iter().take(8).fold(0, |number, byte| number << 8 | u64::from(*byte))
    }

    fn list(&self, host: u32, now: u64) -> Pinglist {
        let settings = &self.inventory.settings;
        let ms = |time: rnic_transport::Time| time.as_ps() / 1_000_000_000;
        let mut list = Pinglist {
            version: self.version,
            digest: 0,
            refresh_ms: ms(settings.refresh),
            report_ms: ms(settings.report),
            trace_ms: ms(settings.trace),
            timeout_ms: ms(settings.timeout),
            size: settings.size,
            paths: settings.paths,
            rotation: self.rotation,
            transport: settings.transport,
            dscp: settings.dscp,
            targets: Vec::new(),
            admit: Vec::new(),
        };
        let Some(own) = self.agent(host) else { return list };
        // An agent whose latest request is older than this counts as down. No agent probes it, because lost probes to
        // it would not show anything about the network.
        let timeout = 10 * list.refresh_ms;
        for peer in self.lists.of_host(host) {
            let Some(other) = self.agent(peer.host) else { continue };
            list.admit.push(Admit {
                session: self.session(&other.registration, &own.registration),
                prober: other.registration.address,
            });
            let admitted = self.has_admitted((host, own), (peer.host, other));
            if admitted && now.saturating_sub(other.seen_ms) <= timeout {
                list.targets.push(Target {
                    host: other.registration.host.clone(),
                    incarnation: other.registration.incarnation,
                    address: other.registration.address,
                    session: self.session(&own.registration, &other.registration),
                    interval_ms: ms(peer.interval),
                });
            }
        }
        let mut hasher = DefaultHasher::new();
        let parts = (&list.refresh_ms, &list.report_ms, &list.trace_ms, &list.timeout_ms, &list.size);
        (parts, list.paths, list.dscp, list.rotation, list.transport.name()).hash(&mut hasher);
        for target in &list.targets {
            (target.session, target.interval_ms).hash(&mut hasher);
        }
        for admit in &list.admit {
            admit.session.hash(&mut hasher);
        }
        // A digest of 0 means that the agent has no list.
        list.digest = hasher.finish().max(1);
        list
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::record::Health;
    use rnic_endpoint::DatagramAddress;

    fn inventory() -> Arc<Inventory> {
        let host = |n: u32| format!("[[host]]\nname=\"h{n}\"\naddress=\"10.0.0.{n}\"\ntor=\"t\"\n");
        Arc::new(Inventory::parse(&[1, 2, 3].map(host).concat()).unwrap())
    }

    fn registration(n: u8, incarnation: u64, list: (u64, u64)) -> Registration {
        Registration {
            protocol: PROTOCOL,
            host: format!("h{n}"),
            incarnation,
            address: DatagramAddress { addr: ([10, 0, 0, n], 4_791).into(), qpn: 5, qkey: 6 },
            list_version: list.0,
            digest: list.1,
            health: Health::default(),
        }
    }

    /// Fetches an agent's list, and stores it in `list`. Returns the numbers of targets and of admitted probers.
    fn fetch(registry: &mut Registry, n: u8, incarnation: u64, list: &mut Option<Pinglist>) -> (usize, usize) {
        let have = list.as_ref().map_or((0, 0), |list| (list.version, list.digest));
        match (registry.fetch(registration(n, incarnation, have), 0).unwrap().0, &mut *list) {
            (Fetched::List(new), list) => *list = Some(*new),
            (Fetched::Unchanged(version), Some(list)) => list.version = version,
            (Fetched::Unchanged(_), None) => panic!("an agent without a list gets one"),
        }
        list.as_ref().map_or((0, 0), |list| (list.targets.len(), list.admit.len()))
    }

    /// No agent's list includes a target that does not admit the agent yet.
    #[test]
    fn targets_follow_admission() {
        let mut registry = Registry::new(inventory(), &[1; 32]);
        let (mut one, mut two) = (None, None);
        assert_eq!(fetch(&mut registry, 1, 10, &mut one), (0, 0));
        assert_eq!(fetch(&mut registry, 2, 20, &mut two), (0, 1), "h1 does not know h2 yet");
        assert_eq!(fetch(&mut registry, 1, 10, &mut one), (0, 1), "h2 has not confirmed");
        assert_eq!(fetch(&mut registry, 2, 20, &mut two), (0, 1), "h1 has not confirmed");
        // Both have confirmed lists that admit the other.
        assert_eq!(fetch(&mut registry, 1, 10, &mut one), (1, 1));
        assert_eq!(fetch(&mut registry, 2, 20, &mut two), (1, 1));
        let (target, admitted) = (one.as_ref().unwrap().targets[0].session, two.as_ref().unwrap().admit[0].session);
        assert_eq!(target, admitted);
        // h2 restarts: h1 stops probing the old incarnation, and probes the new one after it has confirmed that it
        // admits h1.
        let mut again = None;
        fetch(&mut registry, 2, 21, &mut again);
        assert_eq!(fetch(&mut registry, 1, 10, &mut one), (0, 1));
        fetch(&mut registry, 2, 21, &mut again);
        assert_eq!(fetch(&mut registry, 1, 10, &mut one), (1, 1));
        assert_eq!(one.unwrap().targets[0].incarnation, 21);
    }

    /// After a restart, the controller gives each agent the list that the agent already has.
    #[test]
    fn a_restart_disturbs_nobody() {
        let mut registry = Registry::new(inventory(), &[1; 32]);
        let mut lists = [(0, 0); 3];
        for _ in 0..4 {
            for n in 1..=3 {
                if let Fetched::List(list) = registry.fetch(registration(n, 9, lists[usize::from(n) - 1]), 0).unwrap().0
                {
                    lists[usize::from(n) - 1] = (list.version, list.digest);
                }
            }
        }
        let mut again = Registry::new(inventory(), &[1; 32]);
        for registration in registry.registrations() {
            again.restore(registration, 0);
        }
        for turn in 0..3 {
            for n in 1..=3 {
                let (fetched, is_new) = again.fetch(registration(n, 9, lists[usize::from(n) - 1]), 0).unwrap();
                assert!(matches!(fetched, Fetched::Unchanged(_)) && !is_new, "{turn} {n}");
            }
        }
    }

    /// A new inventory without h1 and with h4: h2 and h3 probe each other all the time, and probe h4 after it has
    /// confirmed that it admits them.
    #[test]
    fn a_new_inventory_disturbs_nobody() {
        let mut registry = Registry::new(inventory(), &[1; 32]);
        let mut lists: [Option<Pinglist>; 5] = Default::default();
        let mut turn = |registry: &mut Registry, hosts: [u8; 3]| {
            hosts.map(|n| fetch(registry, n, 9, &mut lists[usize::from(n)]).0)
        };
        turn(&mut registry, [1, 2, 3]);
        turn(&mut registry, [1, 2, 3]);
        turn(&mut registry, [1, 2, 3]);
        assert_eq!(turn(&mut registry, [1, 2, 3]), [2, 2, 2]);
        let host = |n: u32| format!("[[host]]\nname=\"h{n}\"\naddress=\"10.0.0.{n}\"\ntor=\"t\"\n");
        let new = Arc::new(Inventory::parse(&[4, 3, 2].map(host).concat()).unwrap());
        let numbers = Renumbering::new(&inventory(), &new);
        assert_eq!((numbers.added(), numbers.removed()), (1, 1));
        registry.renew(new, &numbers);
        assert_eq!(turn(&mut registry, [2, 3, 4]), [1, 1, 0], "h4 has not registered");
        assert_eq!(turn(&mut registry, [2, 3, 4]), [1, 1, 0], "h2 and h3 have not confirmed that they admit h4");
        assert_eq!(turn(&mut registry, [2, 3, 4]), [2, 2, 2]);
        assert!(registry.fetch(registration(1, 9, (0, 0)), 0).unwrap_err().contains("no host h1"));
    }

    /// Versions of rnic with the same protocol work together, even if one of them sends more than the other knows; an
    /// agent with another protocol gets an error, and does not disturb the other agents.
    #[test]
    fn versions_are_mixed_during_an_upgrade() {
        let mut registry = Registry::new(inventory(), &[1; 32]);
        let mut newer = serde_json::to_value(registration(1, 9, (0, 0))).unwrap();
        newer["future"] = serde_json::json!({"a": 1});
        newer["health"]["future"] = serde_json::json!(2);
        let newer: Registration = serde_json::from_value(newer).unwrap();
        let (fetched, is_new) = registry.fetch(newer, 0).unwrap();
        assert!(is_new);
        let mut list = serde_json::to_value(&fetched).unwrap();
        list["list"]["future"] = serde_json::json!(true);
        assert!(serde_json::from_value::<Fetched>(list).is_ok());
        for protocol in [PROTOCOL - 1, PROTOCOL + 1] {
            let other = Registration { protocol, ..registration(2, 9, (0, 0)) };
            let why = registry.fetch(other, 0).unwrap_err();
            assert_eq!(
                why,
                format!(
                    "the agent speaks version {protocol} of the protocol, and this controller version {PROTOCOL}; \
                     upgrade the older one"
                )
            );
        }
        assert!(registry.agent(1).is_none() && registry.agent(0).is_some());
    }

    /// A host whose agent is silent is a suspect until it sends requests again. If all hosts below a ToR switch are
    /// silent, the switch is the suspect.
    #[test]
    fn silent_hosts_are_suspects() {
        let mut registry = Registry::new(inventory(), &[1; 32]);
        let mut at = |hosts: &[u8], now| {
            hosts.iter().for_each(|n| drop(registry.fetch(registration(*n, 9, (0, 0)), now).unwrap()));
            registry.silent(now).into_iter().flat_map(|finding| finding.parts).collect::<Vec<String>>()
        };
        assert_eq!(at(&[1, 2], 0), Vec::<String>::new(), "h3 has never registered");
        assert_eq!(at(&[1], 20_000), ["host h2"]);
        assert_eq!(at(&[1], 10_000_000), ["host h2"]);
        assert_eq!(at(&[2], 10_000_000), Vec::<String>::new());
        assert_eq!(at(&[], 20_000_000), ["switch t"]);
    }

    /// After a restart, the controller does not know which agents are up. An agent that sends no request is down after
    /// a timeout.
    #[test]
    fn a_restored_agent_is_unknown_until_it_speaks() {
        let mut registry = Registry::new(inventory(), &[1; 32]);
        registry.restore(registration(1, 9, (0, 0)), 1_000);
        registry.restore(registration(2, 9, (0, 0)), 1_000);
        assert_eq!(
            (registry.presence(0, 9, 1_000), registry.presence(0, 8, 1_000)),
            (Presence::Unknown, Presence::Down)
        );
        registry.fetch(registration(1, 9, (0, 0)), 2_000).unwrap();
        assert_eq!((registry.presence(0, 9, 2_000), registry.presence(1, 9, 2_000)), (Presence::Up, Presence::Unknown));
        // Three fetches, one every 5 s, have passed.
        assert_eq!((registry.presence(0, 9, 16_001), registry.presence(1, 9, 16_001)), (Presence::Up, Presence::Down));
        assert_eq!(registry.presence(2, 9, 1_000), Presence::Down);
    }

    #[test]
    fn strangers_are_refused() {
        let mut registry = Registry::new(inventory(), &[1; 32]);
        let elsewhere = DatagramAddress { addr: "10.9.9.9:4791".parse().unwrap(), qpn: 5, qkey: 6 };
        for (wrong, sentence) in [
            (Registration { host: "x".to_string(), ..registration(1, 1, (0, 0)) }, "the inventory has no host x"),
            (Registration { protocol: 9, ..registration(1, 1, (0, 0)) }, "version 1"),
            (Registration { address: elsewhere, ..registration(1, 1, (0, 0)) }, "its agent probes from 10.9.9.9"),
        ] {
            assert!(registry.fetch(wrong, 0).unwrap_err().contains(sentence));
        }
    }
}
