//! The parts of the network (hosts, switches and links) with their names, and the routes that probes take.
//!
//! Agents report the addresses of the routers on a path, so both tables are bounded: an agent that invents addresses
//! fills a table, and its further traces are ignored.

use crate::inventory::Inventory;
use std::collections::BTreeMap;
use std::net::IpAddr;
use std::sync::Arc;

/// Maximum number of parts.
const MAX_PARTS: usize = 1_000_000;
/// Number of routes at which `Routes::retain` removes routes without a path for the first time.
const ROUTES: usize = 200_000;

/// The parts of a network.
pub(crate) struct Parts {
    names: Vec<String>,
    /// Numbers of the switches, by name.
    pub(crate) switches: BTreeMap<String, u32>,
    /// Numbers of the routers that have answered, by address.
    pub(crate) routers: BTreeMap<IpAddr, u32>,
    links: BTreeMap<(u32, u32), u32>,
    /// The ToR switch of each host.
    tor_of: Vec<u32>,
    /// Whether the inventory lists an address of each host's ToR switch. If it does, a trace to the host is complete
    /// only if it ends with this ToR switch.
    tor_answers: Vec<bool>,
}

impl Parts {
    /// Creates the parts for the hosts of an inventory and for their ToR switches. A host's part number is its index in
    /// the inventory.
    pub(crate) fn new(inventory: &Inventory) -> Parts {
        let names = inventory.hosts.iter().map(|host| format!("host {}", host.name)).collect();
        let mut parts = Parts {
            names,
            switches: BTreeMap::new(),
            routers: BTreeMap::new(),
            links: BTreeMap::new(),
            tor_of: Vec::new(),
            tor_answers: Vec::new(),
        };
        let known: std::collections::BTreeSet<&String> = inventory.switches.values().collect();
        for host in 0..inventory.hosts.len() as u32 {
            let tor = &inventory.tor_of(host).name;
            let number = parts.switch(tor).unwrap_or_default();
            parts.tor_of.push(number);
            parts.tor_answers.push(known.contains(tor));
        }
        parts
    }

    /// The name of a part.
    pub(crate) fn name(&self, part: u32) -> &str {
        self.names.get(part as usize).map_or("?", String::as_str)
    }

    /// Number of parts.
    pub(crate) fn len(&self) -> usize {
        self.names.len()
    }

    /// The ToR switch of a host.
    pub(crate) fn tor_of(&self, host: u32) -> u32 {
        self.tor_of[host as usize]
    }

    fn add(&mut self, name: String) -> Option<u32> {
        if self.names.len() >= MAX_PARTS {
            return None;
        }
        self.names.push(name);
        Some((self.names.len() - 1) as u32)
    }

    pub(crate) fn switch(&mut self, name: &str) -> Option<u32> {
        if let Some(number) = self.switches.get(name) {
            return Some(*number);
        }
        let number = self.add(format!("switch {name}"))?;
        self.switches.insert(name.to_string(), number);
        Some(number)
    }

    pub(crate) fn router(&mut self, inventory: &Inventory, address: IpAddr) -> Option<u32> {
        if let Some(number) = self.routers.get(&address) {
            return Some(*number);
        }
        let number = match inventory.switches.get(&address) {
            Some(name) => self.switch(name)?,
            None => self.switch(&address.to_string())?,
        };
        self.routers.insert(address, number);
        Some(number)
    }

    fn link(&mut self, a: u32, b: u32) -> Option<u32> {
        let ends = (a.min(b), a.max(b));
        if let Some(number) = self.links.get(&ends) {
            return Some(*number);
        }
        let name = |part| self.name(part).strip_prefix("switch ").unwrap_or("?");
        let mut names = [name(a), name(b)];
        names.sort_unstable();
        let number = self.add(format!("link {} - {}", names[0], names[1]))?;
        self.links.insert(ends, number);
        Some(number)
    }

    /// Maps the addresses of a trace to `target` to switches, and removes hops without a response from its end. Also
    /// returns whether the trace is complete: every hop has responded, and the last hop is the target's ToR switch, if
    /// the inventory lists an address of this switch.
    pub(crate) fn hops(
        &mut self, inventory: &Inventory, target: u32, hops: &[Option<IpAddr>],
    ) -> (Vec<Option<u32>>, bool) {
        let mut hops: Vec<Option<u32>> =
            hops.iter().map(|hop| hop.and_then(|address| self.router(inventory, address.to_canonical()))).collect();
        while hops.last() == Some(&None) {
            hops.pop();
        }
        let ends = !self.tor_answers[target as usize] || hops.last() == Some(&Some(self.tor_of(target)));
        let complete = hops.iter().all(Option::is_some) && !hops.is_empty() && ends;
        (hops, complete)
    }
}

/// Route number of a path that was not traced.
pub(crate) const UNTRACED: u32 = u32::MAX;

/// A route: its hops in order, and the switches and links on it.
struct Route {
    hops: Arc<[Option<u32>]>,
    parts: Arc<[u32]>,
}

/// The routes of all paths. Paths of many pairs of hosts cross the same switches, so each path stores only the number
/// of its route.
pub(crate) struct Routes {
    routes: Vec<Route>,
    numbers: BTreeMap<Arc<[Option<u32>]>, u32>,
    /// Number of routes at which routes without a path are removed.
    limit: usize,
    generation: u64,
}

impl Default for Routes {
    fn default() -> Routes {
        Routes { routes: Vec::new(), numbers: BTreeMap::new(), limit: ROUTES, generation: 0 }
    }
}

impl Routes {
    /// The number of the route over these switches. A new route gets a new number.
    pub(crate) fn number(&mut self, parts: &mut Parts, hops: &[Option<u32>]) -> u32 {
        if hops.is_empty() {
            return UNTRACED;
        }
        if let Some(number) = self.numbers.get(hops) {
            return *number;
        }
        let mut crossed: Vec<u32> = hops.iter().flatten().copied().collect();
        for ends in hops.windows(2) {
            if let [Some(a), Some(b)] = ends {
                crossed.extend(parts.link(*a, *b));
            }
        }
        let number = self.routes.len() as u32;
        let hops: Arc<[Option<u32>]> = hops.into();
        self.routes.push(Route { hops: hops.clone(), parts: crossed.into() });
        self.numbers.insert(hops, number);
        number
    }

    /// The switches of a route.
    pub(crate) fn hops(&self, number: u32) -> &[Option<u32>] {
        self.routes.get(number as usize).map_or(&[], |route| &route.hops)
    }

    /// The switches of all routes, in the order of their numbers.
    pub(crate) fn all_hops(&self) -> impl Iterator<Item = &[Option<u32>]> {
        self.routes.iter().map(|route| &*route.hops)
    }

    /// Notes that these routes replace others, with other numbers.
    pub(crate) fn succeed(&mut self, old: &Routes) {
        self.generation = old.generation + 1;
        self.limit = old.limit;
    }

    /// The switches and links of all routes.
    pub(crate) fn parts(&self) -> Vec<Arc<[u32]>> {
        self.routes.iter().map(|route| route.parts.clone()).collect()
    }

    /// Changes whenever the numbers of routes change.
    pub(crate) fn generation(&self) -> u64 {
        self.generation
    }

    /// Whether the number of routes has reached the limit, so that routes without a path should be removed.
    pub(crate) fn is_full(&self) -> bool {
        self.routes.len() >= self.limit
    }

    /// Keeps only the routes to which `paths` refer, renumbers them, and writes the new route numbers into `paths`.
    pub(crate) fn retain<'a>(&mut self, paths: impl Iterator<Item = &'a mut u32>) {
        let old = std::mem::take(self);
        for number in paths {
            let Some(route) = old.routes.get(*number as usize) else { continue };
            let next = self.routes.len() as u32;
            *number = *self.numbers.entry(route.hops.clone()).or_insert(next);
            if *number == next {
                self.routes.push(Route { hops: route.hops.clone(), parts: route.parts.clone() });
            }
        }
        self.generation = old.generation + 1;
        self.limit = (2 * self.routes.len()).max(ROUTES);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn routes_are_shared_and_unused_ones_go() {
        let text = "[[host]]\nname = \"a\"\naddress = \"10.0.0.1\"\ntor = \"t\"\n[[switch]]\nname = \"t\"\naddresses = \
                    [\"10.9.0.1\"]\n";
        let inventory = Inventory::parse(text).unwrap();
        let mut parts = Parts::new(&inventory);
        let ip = |last: u8| Some(IpAddr::from([10, 9, 0, last]));
        let (there, complete) = parts.hops(&inventory, 0, &[ip(7), ip(1), None]);
        assert!(complete && there.len() == 2);
        assert!(!parts.hops(&inventory, 0, &[ip(1), ip(7)]).1, "it does not end at the ToR switch");
        let mut routes = Routes::default();
        let first = routes.number(&mut parts, &there);
        let other = routes.number(&mut parts, &[there[0]]);
        assert_eq!((routes.number(&mut parts, &there), routes.number(&mut parts, &[])), (first, UNTRACED));
        let names: Vec<&str> = routes.parts()[first as usize].iter().map(|part| parts.name(*part)).collect();
        assert_eq!(names, ["switch 10.9.0.7", "switch t", "link 10.9.0.7 - t"]);
        let mut paths = [other, UNTRACED, other];
        routes.retain(paths.iter_mut());
        assert_eq!((paths, routes.parts().len(), routes.generation()), ([0, UNTRACED, 0], 1, 1));
        assert_eq!(routes.hops(0), [there[0]]);
    }
}
