//! The service IDs of the connection managers of an address.

use std::collections::BTreeMap;

/// Maximum number of service IDs that all managers of the address have together.
const MAX_SERVICES: usize = 65_536;

/// A manager that has claimed a service ID.
struct Owner {
    manager: u16,
    /// Whether other managers may claim the service ID too: all of them have bound it with `RDMA_OPTION_ID_REUSEADDR`,
    /// and none of them listens.
    shared: bool,
}

/// The owners of each claimed service ID.
#[derive(Default)]
pub(super) struct Services(BTreeMap<u64, Vec<Owner>>);

impl Services {
    /// Claims a service ID for a manager. Returns whether the claim is granted: the service ID has no other owner, or
    /// this claim and all other owners are `shared`.
    pub(super) fn claim(&mut self, service: u64, manager: u16, shared: bool) -> bool {
        let full = self.0.len() >= MAX_SERVICES;
        let others = self.0.get(&service).into_iter().flatten().filter(|owner| owner.manager != manager);
        let admitted = if shared { others.clone().all(|owner| owner.shared) } else { others.count() == 0 };
        if !admitted || full && !self.0.contains_key(&service) {
            return false;
        }
        let owners = self.0.entry(service).or_default();
        owners.retain(|owner| owner.manager != manager);
        owners.push(Owner { manager, shared });
        true
    }

    /// Releases a service ID of a manager.
    pub(super) fn release(&mut self, service: u64, manager: u16) {
        if let Some(owners) = self.0.get_mut(&service) {
            owners.retain(|owner| owner.manager != manager);
            if owners.is_empty() {
                self.0.remove(&service);
            }
        }
    }

    /// Releases all service IDs of a manager.
    pub(super) fn release_all(&mut self, manager: u16) {
        self.0.retain(|_, owners| {
            owners.retain(|owner| owner.manager != manager);
            !owners.is_empty()
        });
    }

    /// The manager that receives the requests for a service ID: the first one that has claimed it.
    pub(super) fn owner(&self, service: u64) -> Option<u16> {
        self.0.get(&service)?.first().map(|owner| owner.manager)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn shared_service_ids_have_several_owners_and_exclusive_ones_have_one() {
        let mut services = Services::default();
        assert!(services.claim(7, 1, true) && services.claim(7, 2, true) && services.claim(7, 1, true));
        assert_eq!(services.owner(7), Some(2), "the manager that claimed again is the last one");
        assert!(!services.claim(7, 3, false) && !services.claim(7, 1, false), "another manager has it");
        services.release(7, 2);
        assert!(services.claim(7, 1, false) && !services.claim(7, 3, true));
        services.release_all(1);
        assert_eq!(services.owner(7), None);
        for service in 0..MAX_SERVICES as u64 {
            assert!(services.claim(service, 1, false));
        }
        assert!(!services.claim(1 << 40, 2, false) && services.claim(0, 1, true), "the table is full");
    }
}
