//! The state of a mesh that the page and the metrics show: of a running controller, or of a recording.

use crate::inventory::Inventory;
use crate::registry::Registry;
use crate::verdict::Mesh;
use parking_lot::{Mutex, MutexGuard};
use std::sync::Arc;
use std::sync::atomic::AtomicU64;
use std::time::Instant;

/// Reading of the mesh's clock in ms when a controller starts: results of the hours before have times as well.
pub(crate) const START_MS: u64 = 2 * 3_600_000;

/// The state of a mesh.
pub struct MeshState {
    pub(crate) inventory: Arc<Inventory>,
    pub(crate) mesh: Mutex<Mesh>,
    pub(crate) registry: Mutex<Registry>,
    clock: Clock,
    /// A sentence about a recording, for the page.
    pub(crate) note: Option<String>,
    /// The reason why the disk does not take results; `None` while it does.
    pub(crate) storage_error: Mutex<Option<String>>,
    /// Number of refused batches and requests.
    pub(crate) refused: AtomicU64,
}

/// The clock of the verdicts, which never goes back.
enum Clock {
    /// It reads [`START_MS`] at this instant.
    Running(Instant),
    /// It always shows this time in ms.
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
        let inventory = mesh.inventory().clone();
        let (mesh, registry, storage_error) = (Mutex::new(mesh), Mutex::new(registry), Mutex::new(None));
        MeshState { inventory, mesh, registry, clock, note, storage_error, refused: AtomicU64::new(0) }
    }

    /// The results, locked.
    pub fn mesh(&self) -> MutexGuard<'_, Mesh> {
        self.mesh.lock()
    }

    /// The sentence about a recording; empty for a running controller.
    pub fn note(&self) -> &str {
        self.note.as_deref().unwrap_or_default()
    }

    /// Appends text to the sentence about a recording.
    pub fn append_note(&mut self, text: &str) {
        self.note.get_or_insert_default().push_str(text);
    }

    /// The time of the verdicts in ms.
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
