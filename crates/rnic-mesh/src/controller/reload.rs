//! Reading the inventory, the certificates and the list of withdrawn certificates again, without a restart.

use super::{Controller, Event, Options, Server};
use crate::credentials::{CONTROLLER, denied, end_of};
use crate::inventory::Inventory;
use crate::renewal::Renumbering;
use rustls::ServerConfig;
use std::collections::BTreeMap;
use std::sync::Arc;

/// Time in seconds before the end of a certificate at which the controller warns.
const WARN: i64 = 30 * 86_400;
/// Maximum length in bytes of the list of withdrawn certificates.
const MAX_DENIED: u64 = 16 << 20;

/// Reads everything again. A file that cannot be used changes nothing.
pub(super) fn reload(options: &Options, controller: &Controller, server: &Server) {
    match (options.reload.inventory)() {
        Ok(inventory) => renew(controller, inventory),
        Err(why) => controller.emit(Event::NotReloaded(why)),
    }
    match certificates(options, controller) {
        Ok(config) => {
            *server.config.write() = config;
            controller.emit(Event::Certificates(controller.state.denied.read().len()));
        }
        Err(why) => controller.emit(Event::NotReloaded(why)),
    }
}

/// Reads the certificates and the list of withdrawn certificates. Returns the TLS configuration.
pub(super) fn certificates(options: &Options, controller: &Controller) -> Result<Arc<ServerConfig>, String> {
    let credentials = options.files.read()?;
    let end = credentials.chain.first().and_then(end_of);
    let config = credentials.server()?;
    if let Some(path) = &options.denied {
        let wrong = |why: &dyn std::fmt::Display| format!("{}: {why}", path.display());
        let length = std::fs::metadata(path).map_err(|error| wrong(&error))?.len();
        if length > MAX_DENIED {
            return Err(wrong(&format!("{length} bytes are too many; accepted: up to {MAX_DENIED}")));
        }
        let text = std::fs::read_to_string(path).map_err(|error| wrong(&error))?;
        *controller.state.denied.write() = denied(&text).map_err(|why| wrong(&why))?;
    }
    if let Some(end) = end {
        controller.state.ends.lock().insert(CONTROLLER.to_string(), end);
    }
    Ok(Arc::new(config))
}

/// Changes to another inventory.
fn renew(controller: &Controller, inventory: Inventory) {
    let state = &controller.state;
    // No thread can use indices of the old inventory until all parts have the new one.
    let mut known = state.inventory.write();
    let new = Arc::new(inventory);
    let numbers = Renumbering::new(&known, &new);
    controller.quota.renew(&new, &numbers, state.now());
    state.registry.lock().renew(new.clone(), &numbers);
    state.mesh.lock().renew(new.clone(), &numbers);
    controller.converter.set_retention(new.settings.retention_hours as usize);
    state.ends.lock().retain(|name, _| name == CONTROLLER || new.index(name).is_some());
    *known = new.clone();
    drop(known);
    controller.dirty.store(true, std::sync::atomic::Ordering::Relaxed);
    controller.emit(Event::Inventory(new.hosts.len(), numbers.added(), numbers.removed()));
}

/// The warnings about certificates that end soon: one per certificate and day.
#[derive(Default)]
pub(super) struct Warnings {
    day: i64,
    warned: BTreeMap<String, i64>,
}

impl Warnings {
    /// Emits the warnings that are due.
    pub(super) fn warn(&mut self, controller: &Controller) {
        let now = (controller.clock.unix_us() / 1_000_000) as i64;
        if self.day != now / 86_400 {
            self.day = now / 86_400;
            self.warned.clear();
        }
        let ends = controller.state.ends.lock();
        for (name, end) in ends.iter().filter(|(_, end)| **end < now + WARN) {
            if self.warned.insert(name.clone(), *end) != Some(*end) {
                controller.emit(Event::CertificateEnds(name.clone(), *end));
            }
        }
    }
}
