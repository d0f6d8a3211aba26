//! The service IDs of the connection managers of an address.

use std::collections::BTreeMap;

/// Maximum number of claims that all managers of the address have together.
const MAX_CLAIMS: usize = 65_536;

/// A manager that has claimed a service ID.
struct Owner {
    manager: u16,
    /// Whether other managers may claim the service ID too: all of them have bound it with `RDMA_OPTION_ID_REUSEADDR`,
    /// and none of them listens.
    shared: bool,
}

/// The owners of each claimed service ID.
#[derive(Default)]
pub(super) struct Services {
    owners: BTreeMap<u64, Vec<Owner>>,
    /// Number of owners of all service IDs.
    claims: usize,
}

impl Services {
    /// Claims a service ID for a manager. Returns whether the claim is granted: the service ID has no other owner, or
    /// this claim and all other owners are `shared`.
    pub(super) fn claim(&mut self, service: u64, manager: u16, shared: bool) -> bool {
        let owners = self.owners.get(&service).map_or(&[][..], Vec::as_slice);
        let has_it = owners.iter().any(|owner| owner.manager == manager);
        let mut others = owners.iter().filter(|owner| owner.manager != manager);
        let admitted = if shared { others.all(|owner| owner.shared) } else { others.next().is_none() };
        if !admitted || !has_it && self.claims >= MAX_CLAIMS {
            return false;
        }
        self.release(service, manager);
        self.owners.entry(service).or_default().push(Owner { manager, shared });
        self.claims += 1;
        true
    }

    /// Releases a service ID of a manager.
    pub(super) fn release(&mut self, service: u64, manager: u16) {
        if let Some(owners) = self.owners.get_mut(&service) {
            let before = owners.len();
            owners.retain(|owner| owner.manager != manager);
            self.claims -= before - owners.len();
            if owners.is_empty() {
                self.owners.remove(&service);
            }
        }
    }

    /// Releases all service IDs of a manager.
    pub(super) fn release_all(&mut self, manager: u16) {
        self.owners.retain(|_, owners| {
            let before = owners.len();
            owners.retain(|owner| owner.manager != manager);
            self.claims -= before - owners.len();
            !owners.is_empty()
        });
    }

    /// The manager that receives the requests for a service ID: the first one that has claimed it.
    pub(super) fn owner(&self, service: u64) -> Option<u16> {
        self.owners.get(&service)?.first().map(|owner| owner.manager)
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
        for service in 0..MAX_CLAIMS as u64 {
            assert!(services.claim(service, 1, true));
        }
        assert!(!services.claim(1 << 40, 2, false) && !services.claim(0, 2, true), "the table is full");
        assert!(services.claim(0, 1, true), "the manager has this claim already");
        services.release_all(1);
        assert!(services.claim(1 << 40, 2, false) && services.claims == 1);
    }
}
