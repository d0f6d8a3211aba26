//! Reading of a device's statistics from a thread that does not keep the device open.

use super::shared::Shared;
use crate::Device;
use crate::sync::lock;
use rnic_verbs::QpStatistics;
use std::sync::{Arc, Mutex, Weak};

/// Reads the statistics of a device as long as the device is open. An observer does not keep the device open: when the
/// last handle of the device has been dropped, the device's port is closed.
#[derive(Clone)]
pub struct Observer(Arc<Mutex<Weak<Shared>>>);

impl Observer {
    pub(super) fn new(shared: &Arc<Shared>) -> Observer {
        Observer(Arc::new(Mutex::new(Arc::downgrade(shared))))
    }

    /// Ends the observation. Waits for a thread that is reading, so that no other thread has the device afterwards.
    pub(super) fn end(&self) {
        *lock(&self.0) = Weak::new();
    }

    /// Appends the statistics of queue pairs to `found`, as [`rnic_verbs::Device::statistics_from`] does. Locks the
    /// device for the time that `max` queue pairs take.
    ///
    /// # Errors
    /// The device is closed.
    pub fn statistics_from(
        &self, first: usize, max: usize, found: &mut Vec<QpStatistics>,
    ) -> Result<Option<usize>, Closed> {
        let device = lock(&self.0);
        let shared = device.upgrade().ok_or(Closed)?;
        shared.alive().map_err(|_| Closed)?;
        Ok(shared.verbs().statistics_from(first, max, found))
    }

    /// The statistics of at most `max` queue pairs, in any order. Locks the device for a few queue pairs at a time.
    /// Empty if the device is closed.
    pub fn statistics(&self, max: usize) -> Vec<QpStatistics> {
        /// Number of queue pairs for which the device is locked at a time: about a microsecond.
        const AT_A_TIME: usize = 32;
        let (mut found, mut next) = (Vec::new(), Some(0));
        while let Some(first) = next.filter(|_| found.len() < max) {
            next = self.statistics_from(first, AT_A_TIME, &mut found).unwrap_or(None);
        }
        found.truncate(max);
        found
    }

    /// Whether the device is open.
    pub fn is_open(&self) -> bool {
        lock(&self.0).upgrade().is_some_and(|shared| shared.alive().is_ok())
    }
}

/// The device is closed.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Closed;

impl Device {
    /// An observer of this device.
    pub fn observer(&self) -> Observer {
        self.0.1.clone()
    }
}
