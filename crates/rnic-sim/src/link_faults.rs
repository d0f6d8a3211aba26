//! Links that fail, return or lose a part of their rate (keys of `[[fabric.link]]`), and what routing does about it.
//!
//! A change of a link takes effect at once. Frames that are on the link arrive, and every later frame is lost until the
//! link returns. Switches learn of a failure, and of the return, in two steps: those at its ends after `local_repair`,
//! all others after `convergence`.

use crate::host::{Observer, RunHosts};
use rnic_fabric::config::NamedRoute;
use rnic_fabric::{Body, Fabric, LinkState, PortId, Routes, Topology};
use rnic_spec::{FabricSetup, Faults, LinkFault, QueueingSetup};
use rnic_transport::{BitRate, Time};
use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

/// Why the faults of a run's links cannot be simulated.
#[derive(Clone, PartialEq, Debug, thiserror::Error)]
pub enum LinkFaultError {
    /// No such link exists, or routes around it are not possible, for this reason.
    #[error("{0}")]
    Reason(String),
    /// A link would have a higher rate during a fault than before.
    #[error("`slow_rate` of the link from {from} to {to} is {rate}; accepted: at most the link's own rate, {own}")]
    Rate {
        /// One end of the link.
        from: String,
        /// The other end.
        to: String,
        /// The rate during the fault.
        rate: BitRate,
        /// The rate of the link.
        own: BitRate,
    },
    /// The queues of a slow link shall shrink, but switches have no buffers of outputs.
    #[error(
        "`slow_queues` of the link from {from} to {to} needs buffers of the outputs; accepted: queueing = \"output\" in `[fabric.switch]`, or `slow_queues = false`"
    )]
    Queues {
        /// One end of the link.
        from: String,
        /// The other end.
        to: String,
    },
}

/// The link faults of a run, with the ports that they concern.
#[derive(Clone, PartialEq, Debug, Default)]
pub(crate) struct LinkPlan {
    /// The faults, and for each of its links the port with the lower number: all faults of a link have the same port.
    faults: Vec<(LinkFault, Vec<PortId>)>,
    routes: Vec<NamedRoute>,
    convergence: Time,
    local_repair: Option<Time>,
}

/// Maximum number of distinct sets of failed links that are examined for warnings.
const MAX_EXAMINED: usize = 64;

impl LinkPlan {
    /// Finds the links that the faults name.
    ///
    /// # Errors
    /// No such link; a rate above the link's; queues that shrink without buffers of outputs; named routes that make a
    /// routing loop once routing avoids a failed link.
    pub(crate) fn resolve(
        fabric: &FabricSetup, topology: &Topology, nominal: &Routes,
    ) -> Result<LinkPlan, LinkFaultError> {
        let faults = &fabric.faults;
        let mut plan = LinkPlan {
            routes: fabric.routes.clone(),
            convergence: faults.convergence.unwrap_or(Faults::CONVERGENCE),
            local_repair: faults.local_repair,
            ..LinkPlan::default()
        };
        for fault in &faults.links {
            let ports = crate::link::ports(topology, &format!("{}:{}", fault.from, fault.to))
                .map_err(LinkFaultError::Reason)?;
            let own = ports.iter().map(|port| topology.port(*port).link.rate).min().unwrap_or_default();
            if let Some(rate) = fault.rate.filter(|rate| *rate > own) {
                return Err(LinkFaultError::Rate { from: fault.from.clone(), to: fault.to.clone(), rate, own });
            }
            if fault.scales_queues && !matches!(fabric.switch.queueing, QueueingSetup::Output(_)) {
                return Err(LinkFaultError::Queues { from: fault.from.clone(), to: fault.to.clone() });
            }
            // Two faults of a link may name its ends in either order.
            let one_end = |port: PortId| port.min(topology.port(port).peer);
            plan.faults.push((fault.clone(), ports.into_iter().map(one_end).collect()));
        }
        if !plan.routes.is_empty() {
            for down in plan.failures() {
                let around = nominal.around(topology, &plan.routes, &both_ends(topology, &down));
                around.map_err(|error| LinkFaultError::Reason(error.to_string()))?;
            }
        }
        Ok(plan)
    }

    /// The ports at both ends of all links that have faults.
    pub(crate) fn ports(&self, topology: &Topology) -> Vec<PortId> {
        let own = self.faults.iter().flat_map(|(_, ports)| ports).copied();
        let both = own.flat_map(|port| [port, topology.port(port).peer]);
        both.collect::<BTreeSet<_>>().into_iter().collect()
    }

    /// Whether the run has link faults.
    pub(crate) fn is_empty(&self) -> bool {
        self.faults.is_empty()
    }

    /// The ports, one at each link, whose links are down at `now`.
    fn down(&self, now: Time) -> Vec<PortId> {
        let failed = self.faults.iter().filter(|(fault, _)| fault.rate.is_none() && fault.is_active(now));
        failed.flat_map(|(_, ports)| ports).copied().collect::<BTreeSet<_>>().into_iter().collect()
    }

    /// The failures that routing knows of at `now` if it learns of each after `delay`; of those at the start of the run
    /// it knows from the start.
    fn known(&self, now: Time, delay: Time) -> Vec<PortId> {
        self.down(now.saturating_sub(delay))
    }

    /// The states of all links that have faults at `now`.
    fn states(&self, topology: &Topology, now: Time) -> BTreeMap<PortId, LinkState> {
        let mut states = BTreeMap::new();
        for (fault, ports) in &self.faults {
            for port in ports {
                let info = topology.port(*port);
                let state = states.entry(*port).or_insert(LinkState::up(info.link.rate));
                if !fault.is_active(now) {
                    continue;
                }
                state.is_up &= fault.rate.is_some();
                state.scales_queues |= fault.scales_queues;
                let begins_here = topology.names[info.node as usize] == fault.from;
                for (rate, is_forward) in state.rates.iter_mut().zip([begins_here, !begins_here]) {
                    if is_forward || !fault.one_way {
                        *rate = (*rate).min(fault.rate.unwrap_or(*rate));
                    }
                }
            }
        }
        states
    }

    /// The first instant after `now` at which a link changes.
    fn next_change(&self, now: Time) -> Time {
        self.faults.iter().map(|(fault, _)| fault.next_change(now)).min().unwrap_or(Time::MAX)
    }

    /// The first instant after `now` at which a link or a route changes.
    fn next(&self, now: Time) -> Time {
        let learned = |delay: Time| match self.next_change(now.saturating_sub(delay)) {
            Time::MAX => Time::MAX,
            change => change + delay,
        };
        let delays = [Some(self.convergence), self.local_repair];
        let routes = delays.into_iter().flatten().map(learned);
        routes.fold(self.next_change(now), Time::min)
    }

    /// The states that the links have during the run, the state at the start first; at most [`MAX_CASES`].
    pub(crate) fn cases(&self, topology: &Topology) -> Vec<LinkCase> {
        let mut cases: Vec<LinkCase> = Vec::new();
        let mut now = Time::ZERO;
        for _ in 0..4 * MAX_CASES {
            let case = LinkCase { states: self.states(topology, now), named: self.routes.clone() };
            if !cases.iter().any(|known| known.states == case.states) {
                cases.push(case);
            }
            now = self.next_change(now);
            if now == Time::MAX || cases.len() == MAX_CASES {
                break;
            }
        }
        cases
    }

    /// The distinct sets of links that are down at the same time, at most [`MAX_EXAMINED`].
    fn failures(&self) -> BTreeSet<Vec<PortId>> {
        let mut sets = BTreeSet::new();
        let mut now = Time::ZERO;
        for _ in 0..4 * MAX_EXAMINED {
            sets.insert(self.down(now));
            now = self.next_change(now);
            if now == Time::MAX || sets.len() > MAX_EXAMINED {
                break;
            }
        }
        sets.remove(&Vec::new());
        sets
    }

    /// One sentence for each set of failed links that separates hosts.
    pub(crate) fn warnings(&self, topology: &Topology) -> Vec<String> {
        let sentence = |down: &Vec<PortId>| {
            let islands = islands(topology, &both_ends(topology, down));
            let largest = islands.iter().map(Vec::len).max()?;
            let lonely = islands.iter().filter(|island| island.len() < largest).flatten().collect::<Vec<_>>();
            // Islands of one size: the hosts that are not on the first.
            let lonely = if lonely.is_empty() { islands.iter().skip(1).flatten().collect() } else { lonely };
            (!lonely.is_empty()).then(|| {
                let links = list(&down.iter().map(|port| link_name(topology, *port)).collect::<Vec<_>>());
                let hosts = list(&lonely.iter().map(|host| topology.names[**host as usize].clone()).collect::<Vec<_>>());
                let is = if down.len() == 1 { "is" } else { "are" };
                format!(
                    "while {links} {is} down, no path leads to {hosts} ({} of {} hosts); packets for them are lost, and flows wait",
                    lonely.len(),
                    topology.hosts
                )
            })
        };
        self.failures().iter().filter_map(sentence).collect()
    }
}

/// Maximum number of different states of all links whose loads are computed.
const MAX_CASES: usize = 8;

/// The states of all links that have faults, at one time of a run.
pub(crate) struct LinkCase {
    states: BTreeMap<PortId, LinkState>,
    named: Vec<NamedRoute>,
}

impl LinkCase {
    /// The ports, one at each link, whose links are down.
    fn down(&self) -> Vec<PortId> {
        self.states.iter().filter(|(_, state)| !state.is_up).map(|(port, _)| *port).collect()
    }

    /// The routes around the links that are down; `None` if all are up, or if there are no routes around them.
    pub(crate) fn routes(&self, topology: &Topology, nominal: &Routes) -> Option<Routes> {
        let down = self.down();
        if down.is_empty() { None } else { nominal.around(topology, &self.named, &both_ends(topology, &down)).ok() }
    }

    /// The rate of the link of a port.
    pub(crate) fn rate(&self, topology: &Topology, port: PortId) -> BitRate {
        let info = topology.port(port);
        let backward = usize::from(info.peer < port);
        self.states.get(&port.min(info.peer)).map_or(info.link.rate, |state| state.rates[backward])
    }

    /// Which links are down or slow, as "while leaf0:spine1 is down"; `None` if no link is.
    pub(crate) fn describe(&self, topology: &Topology) -> Option<String> {
        let name = |port: &PortId| link_name(topology, *port);
        let down: Vec<String> = self.down().iter().map(name).collect();
        let is_slow =
            |(port, state): &(&PortId, &LinkState)| state.is_up && state.rates != [topology.port(**port).link.rate; 2];
        let slow: Vec<String> = self.states.iter().filter(is_slow).map(|(port, _)| name(port)).collect();
        let part = |links: &[String], how: &str| {
            let is = if links.len() == 1 { "is" } else { "are" };
            (!links.is_empty()).then(|| format!("{} {is} {how}", list(links)))
        };
        let parts: Vec<String> = [part(&down, "down"), part(&slow, "slow")].into_iter().flatten().collect();
        (!parts.is_empty()).then(|| format!("while {}", parts.join(" and ")))
    }
}

/// A link as results name it: `leaf0:spine1`, the transmitting node first.
pub(crate) fn link_name(topology: &Topology, port: PortId) -> String {
    let (node, peer) = (topology.port(port).node, topology.peer_node(port));
    format!("{}:{}", topology.names[node as usize], topology.names[peer as usize])
}

/// The first three names, and how many follow.
fn list(names: &[String]) -> String {
    match names.len() {
        0..=4 => names.join(", "),
        more => format!("{} and {} more", names[..3].join(", "), more - 3),
    }
}

/// The ports at both ends of the links of `down`, as [`Routes::around`] takes them.
fn both_ends(topology: &Topology, down: &[PortId]) -> Vec<bool> {
    let mut ports = vec![false; topology.ports.len()];
    for port in down {
        ports[port.index()] = true;
        ports[topology.port(*port).peer.index()] = true;
    }
    ports
}

/// The hosts in groups that paths join without the links in `down`; hosts do not forward packets.
fn islands(topology: &Topology, down: &[bool]) -> Vec<Vec<u32>> {
    let mut seen = vec![false; topology.nodes() as usize];
    let mut islands = Vec::new();
    for host in 0..topology.hosts {
        if seen[host as usize] {
            continue;
        }
        seen[host as usize] = true;
        let (mut open, mut hosts) = (vec![host], Vec::new());
        while let Some(node) = open.pop() {
            if topology.is_host(node) {
                hosts.push(node);
            }
            for port in topology.ports_of(node).filter(|port| !down[port.index()]) {
                let peer = topology.peer_node(port);
                if !std::mem::replace(&mut seen[peer as usize], true) {
                    open.push(peer);
                }
            }
        }
        islands.push(hosts);
    }
    islands
}

/// The failures that the switches at their ends, and all switches, know of.
type Knowledge = (Vec<PortId>, Vec<PortId>);

/// Executes the plan during a run.
pub(crate) struct LinkFaults<'p> {
    plan: &'p LinkPlan,
    next: Time,
    states: BTreeMap<PortId, LinkState>,
    known: Knowledge,
    /// The routes without failures, and those computed so far for each state of knowledge.
    nominal: Arc<Routes>,
    computed: BTreeMap<Knowledge, Arc<Routes>>,
}

/// Maximum number of sets of routes that a run keeps: links that flap lead to the same few repeatedly.
const MAX_KEPT: usize = 16;

impl<'p> LinkFaults<'p> {
    pub(crate) fn new(plan: &'p LinkPlan, topology: &Topology, nominal: Arc<Routes>) -> LinkFaults<'p> {
        let states = plan.states(topology, Time::ZERO).into_keys();
        let up = |port: PortId| (port, LinkState::up(topology.port(port).link.rate));
        LinkFaults {
            plan,
            next: Time::ZERO,
            states: states.map(up).collect(),
            known: Knowledge::default(),
            nominal,
            computed: BTreeMap::new(),
        }
    }

    fn routes(&mut self, topology: &Topology) -> Arc<Routes> {
        let (local, all) = &self.known;
        if local.is_empty() && all.is_empty() {
            return self.nominal.clone();
        }
        if let Some(routes) = self.computed.get(&self.known) {
            return routes.clone();
        }
        let around = self.nominal.around(topology, &self.plan.routes, &both_ends(topology, all));
        // A routing loop was an error before the run; beyond the examined sets, the old routes stay.
        let around = around.unwrap_or_else(|_| (*self.nominal).clone());
        let routes =
            Arc::new(if local == all { around } else { around.repaired(topology, &both_ends(topology, local)) });
        if self.computed.len() >= MAX_KEPT {
            self.computed.clear();
        }
        self.computed.insert(self.known.clone(), routes.clone());
        routes
    }
}

/// What a step of the plan changes.
pub(crate) struct LinkStep {
    /// The links that change, by the port with the lower number, with their new states.
    pub(crate) links: Vec<(PortId, LinkState)>,
    /// The new routes, if they change.
    pub(crate) routes: Option<Arc<Routes>>,
}

impl LinkFaults<'_> {
    /// Time of the next change; [`Time::MAX`] after the last one.
    pub(crate) fn next_change(&self) -> Time {
        self.next
    }

    /// What changes at `now`.
    pub(crate) fn step(&mut self, now: Time, topology: &Topology) -> LinkStep {
        let states = self.plan.states(topology, now);
        let changed = states.iter().filter(|(port, state)| self.states.get(port) != Some(state));
        let links = changed.map(|(port, state)| (*port, *state)).collect();
        self.states = states;
        let all = self.plan.known(now, self.plan.convergence);
        let local = self.plan.local_repair.map_or_else(|| all.clone(), |delay| self.plan.known(now, delay));
        let mut routes = None;
        if self.known != (local.clone(), all.clone()) {
            self.known = (local, all);
            routes = Some(self.routes(topology));
        }
        self.next = self.plan.next(now);
        LinkStep { links, routes }
    }
}

impl<B: Body> Observer<B> for LinkFaults<'_> {
    fn next(&self) -> Time {
        self.next
    }

    fn observe(&mut self, now: Time, fabric: &mut Fabric<B>, _hosts: &mut dyn RunHosts<B>) {
        let topology = fabric.topology().clone();
        let LinkStep { links, routes } = self.step(now, &topology);
        for (port, state) in links {
            fabric.set_link(port, state);
        }
        if let Some(routes) = routes {
            fabric.set_routes(routes);
        }
    }

    /// A link that fails or returns ends the pauses of the past. A run without other events does not wait for a fault
    /// that comes repeatedly.
    fn acts(&self) -> bool {
        self.next < Time::MAX && self.plan.faults.iter().all(|(fault, _)| fault.every.is_none())
    }
}
