//! The state of a mesh that the page and the metrics show, either of a running controller or of a recording.

use crate::credentials::Fingerprint;
use crate::inventory::Inventory;
use crate::registry::Registry;
use crate::verdict::Mesh;
use parking_lot::{Mutex, MutexGuard, RwLock, RwLockReadGuard};
use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;
use std::sync::atomic::AtomicU64;
use std::time::Instant;

/// Reading in ms of the mesh's clock when a controller starts. It is above 0, so that results of the preceding hours,
/// which the controller reads from disk, have times too.
pub(crate) const START_MS: u64 = 2 * 3_600_000;

/// The state of a mesh.
pub struct MeshState {
    /// The inventory. A thread that uses indices of hosts or ToR switches keeps it locked while it uses them, so that
    /// the indices remain valid: a reload of the inventory changes them.
    pub(crate) inventory: RwLock<Arc<Inventory>>,
    pub(crate) mesh: Mutex<Mesh>,
    pub(crate) registry: Mutex<Registry>,
    clock: Clock,
    /// A sentence that describes the recording, for the page; `None` for a running controller.
    pub(crate) note: Option<String>,
    /// The reason why the controller cannot write results to the disk; `None` while it can.
    pub(crate) storage_error: Mutex<Option<String>>,
    /// Number of refused batches and requests.
    pub(crate) refused: AtomicU64,
    /// Fingerprints of withdrawn certificates.
    pub(crate) denied: RwLock<BTreeSet<Fingerprint>>,
    /// Expiry times of certificates in seconds since 1970: the controller's, and the agents' by the names of their
    /// hosts.
    pub(crate) ends: Mutex<BTreeMap<String, i64>>,
    /// Time in ms of the latest verdict.
    pub(crate) evaluated: AtomicU64,
}

/// The monotonic clock for windows, alarms and suspects.
enum Clock {
    /// A running clock, which read [`START_MS`] at this instant.
    Running(Instant),
    /// A stopped clock, which always reads this time in ms.
    Stopped(u64),
}

impl MeshState {
    /// The state of a controller that starts now.
    pub(crate) fn running(mesh: Mesh, registry: Registry) -> MeshState {
        MeshState::new(mesh, registry, Clock::Running(instant()), None)
    }

    /// The state at the end of a recording: its agents, the time in ms, and a sentence about it for the page.
    pub fn recorded(mesh: Mesh, registry: Registry, now: u64, note: String) -> MeshState {
        MeshState::new(mesh, registry, Clock::Stopped(now), Some(note))
    }

    fn new(mesh: Mesh, registry: Registry, clock: Clock, note: Option<String>) -> MeshState {
        let inventory = RwLock::new(mesh.inventory().clone());
        let (mesh, registry, storage_error) = (Mutex::new(mesh), Mutex::new(registry), Mutex::new(None));
        let (refused, evaluated) = (AtomicU64::new(0), AtomicU64::new(0));
        let (denied, ends) = Default::default();
        MeshState { inventory, mesh, registry, clock, note, storage_error, refused, denied, ends, evaluated }
    }

    /// The inventory, locked against a reload.
    pub(crate) fn inventory(&self) -> RwLockReadGuard<'_, Arc<Inventory>> {
        // A thread that has the lock already must not wait for a reload that waits for this thread.
        self.inventory.read_recursive()
    }

    /// Whether a certificate was withdrawn.
    pub(crate) fn is_denied(&self, fingerprint: &Fingerprint) -> bool {
        self.denied.read().contains(fingerprint)
    }

    /// The results, locked.
    pub fn mesh(&self) -> MutexGuard<'_, Mesh> {
        self.mesh.lock()
    }

    /// The sentence that describes a recording; empty for a running controller.
    pub fn note(&self) -> &str {
        self.note.as_deref().unwrap_or_default()
    }

    /// Appends text to the sentence that describes a recording.
    pub fn append_note(&mut self, text: &str) {
        self.note.get_or_insert_default().push_str(text);
    }

    /// The current time in ms, by the monotonic clock for windows, alarms and suspects.
    pub fn now(&self) -> u64 {
        match self.clock {
            Clock::Running(start) => (instant() - start).as_millis() as u64 + START_MS,
            Clock::Stopped(now) => now,
        }
    }
}

#[expect(clippy::disallowed_methods, reason = "a service measures real time")]
fn instant() -> Instant {
    Instant::now()
}
