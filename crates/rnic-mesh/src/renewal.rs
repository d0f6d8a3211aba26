//! The change to another inventory while the controller runs. Hosts and ToR switches have other indices in the new
//! inventory; results of hosts that are in both inventories are kept.

use crate::alarm::Subject;
use crate::inventory::Inventory;
use crate::parts::{Parts, Routes, UNTRACED};
use crate::presence::Held;
use crate::verdict::Mesh;
use std::collections::BTreeMap;
use std::sync::Arc;

/// The new indices of the hosts and ToR switches of an old inventory; `None` for removed hosts and switches. A host
/// that has another address or another ToR switch counts as removed and added.
pub struct Renumbering {
    hosts: Vec<Option<u32>>,
    tors: Vec<Option<u32>>,
    added: usize,
}

impl Renumbering {
    /// The change from `old` to `new`.
    pub fn new(old: &Inventory, new: &Inventory) -> Renumbering {
        let by_place: BTreeMap<_, u32> = new.tors.iter().zip(0..).collect();
        let tors: Vec<Option<u32>> = old.tors.iter().map(|tor| by_place.get(tor).copied()).collect();
        let host = |host: &crate::inventory::Host| {
            let index = new.index(&host.name)?;
            let now = new.host(index);
            let tor = tors.get(host.tor as usize).copied().flatten();
            (now.address == host.address && Some(now.tor) == tor).then_some(index)
        };
        let hosts: Vec<Option<u32>> = old.hosts.iter().map(host).collect();
        let added = new.hosts.len() - hosts.iter().flatten().count();
        Renumbering { hosts, tors, added }
    }

    /// The new index of a host.
    pub fn host(&self, old: u32) -> Option<u32> {
        self.hosts.get(old as usize).copied().flatten()
    }

    /// The new index of a ToR switch.
    pub fn tor(&self, old: u32) -> Option<u32> {
        self.tors.get(old as usize).copied().flatten()
    }

    /// Number of added hosts.
    pub fn added(&self) -> usize {
        self.added
    }

    /// Number of removed hosts.
    pub fn removed(&self) -> usize {
        self.hosts.iter().filter(|host| host.is_none()).count()
    }

    /// Moves the values of the hosts to their new indices; an added host gets `empty`.
    pub(crate) fn moved<T: Clone>(&self, values: Vec<T>, new: &Inventory, empty: T) -> Vec<T> {
        let mut moved = vec![empty; new.hosts.len()];
        for (old, value) in (0..).zip(values) {
            if let Some(slot) = self.host(old).and_then(|new| moved.get_mut(new as usize)) {
                *slot = value;
            }
        }
        moved
    }

    fn ends(&self, (a, b): (u32, u32)) -> Option<(u32, u32)> {
        Some((self.host(a)?, self.host(b)?))
    }
}

impl Mesh {
    /// Changes to another inventory. The counts of scopes are kept as they are.
    pub fn renew(&mut self, inventory: Arc<Inventory>, numbers: &Renumbering) {
        let old = std::mem::replace(&mut self.inventory, inventory.clone());
        let tor_pair = |(a, b): (u32, u32)| Some((numbers.tor(a)?, numbers.tor(b)?));
        let tor_pairs = std::mem::take(&mut self.tor_pairs).into_iter();
        self.tor_pairs = tor_pairs.filter_map(|(pair, value)| Some((tor_pair(pair)?, value))).collect();
        let pairs = std::mem::take(&mut self.pairs).into_iter();
        self.pairs = pairs.filter_map(|(ends, pair)| Some((numbers.ends(ends)?, pair))).collect();
        self.software = numbers.moved(std::mem::take(&mut self.software), &inventory, Default::default());
        let counted = std::mem::take(&mut self.counted).into_iter();
        self.counted = counted.filter_map(|(host, last)| Some((numbers.host(host)?, last))).collect();
        self.waiting.renumber(|held| Some(Held { ends: numbers.ends(held.ends)?, ..held }));
        self.alarms.renumber(&old.rules, &inventory.rules, |subject| match subject {
            Subject::TorPair(a, b) => tor_pair((a, b)).map(|(a, b)| Subject::TorPair(a, b)),
            scope => Some(scope),
        });
        let mut parts = Parts::new(&inventory);
        let switches = self.parts.switches_in(&mut parts, &inventory);
        let (routes, new_routes) = self.routes.renumbered(&mut parts, &switches);
        for path in self.pairs.values_mut().flat_map(|pair| &mut pair.paths) {
            path.route = new_routes.get(path.route as usize).copied().unwrap_or(UNTRACED);
        }
        (self.parts, self.routes) = (parts, routes);
    }
}

impl Parts {
    /// Adds the switches of these parts to `new`. Returns each switch's number in `new`, by its number in these parts.
    fn switches_in(&self, new: &mut Parts, inventory: &Inventory) -> BTreeMap<u32, u32> {
        let mut numbers = BTreeMap::new();
        for (address, old) in &self.routers {
            // The new inventory may have a name for this address.
            numbers.extend(new.router(inventory, *address).map(|number| (*old, number)));
        }
        for (name, old) in &self.switches {
            if !numbers.contains_key(old) {
                numbers.extend(new.switch(name).map(|number| (*old, number)));
            }
        }
        numbers
    }
}

impl Routes {
    /// Returns the same routes over the parts of a new inventory, and the new number of each route.
    fn renumbered(&self, parts: &mut Parts, switches: &BTreeMap<u32, u32>) -> (Routes, Vec<u32>) {
        let mut routes = Routes::default();
        let numbers = self.all_hops().map(|hops| {
            let hops: Vec<Option<u32>> =
                hops.iter().map(|hop| hop.and_then(|part| switches.get(&part).copied())).collect();
            routes.number(parts, &hops)
        });
        let numbers = numbers.collect();
        routes.succeed(self);
        (routes, numbers)
    }
}
