//! The number of results that a host may store: a host with a certificate must not fill the disk.

use crate::agent::Limits;
use crate::inventory::{Inventory, Settings};
use crate::renewal::Renumbering;
use parking_lot::Mutex;

/// Ratio of the rate at which a host may report to the rate at which it may probe. Traces are reported too, and the
/// clocks of the two machines differ.
const MARGIN: f64 = 1.25;

/// A token bucket per host. It holds as many results as an agent keeps while it cannot reach the controller.
pub(super) struct Quota {
    max: f64,
    state: Mutex<State>,
}

struct State {
    /// Results per millisecond.
    rate: f64,
    /// Number of results that each host may store now, and the time in ms at which this number was computed.
    hosts: Vec<(f64, u64)>,
}

impl Quota {
    pub(super) fn new(settings: &Settings, hosts: usize, now: u64) -> Quota {
        let max = Limits::default().waiting as f64;
        let (rate, hosts) = (rate(settings), vec![(max, now); hosts]);
        Quota { max, state: Mutex::new(State { rate, hosts }) }
    }

    /// Changes to another inventory.
    pub(super) fn renew(&self, inventory: &Inventory, numbers: &Renumbering, now: u64) {
        let mut state = self.state.lock();
        state.rate = rate(&inventory.settings);
        state.hosts = numbers.moved(std::mem::take(&mut state.hosts), inventory, (self.max, now));
    }

    /// Takes `count` results from the quota of a host.
    ///
    /// # Errors
    /// A sentence, if this exceeds the number that the host may store now.
    pub(super) fn take(&self, host: u32, count: usize, now: u64) -> Result<(), String> {
        let mut state = self.state.lock();
        let rate = state.rate;
        let Some((left, at)) = state.hosts.get_mut(host as usize) else { return Ok(()) };
        *left = (*left + now.saturating_sub(*at) as f64 * rate).min(self.max);
        *at = now;
        if *left < count as f64 {
            let per_second = rate * 1e3;
            return Err(format!(
                "a report of {count} results, after too many others; accepted: {} now, and {per_second} per second",
                left.floor()
            ));
        }
        *left -= count as f64;
        Ok(())
    }

    /// Returns results that were not stored.
    pub(super) fn give_back(&self, host: u32, count: usize) {
        if let Some((left, _)) = self.state.lock().hosts.get_mut(host as usize) {
            *left = (*left + count as f64).min(self.max);
        }
    }
}

/// Results per millisecond that a host may store.
fn rate(settings: &Settings) -> f64 {
    settings.host_rate * MARGIN / 1e3
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_host_stores_what_its_probes_can_make() {
        let text = "[mesh]\nhost_rate = 80.0\n[[host]]\nname = \"a\"\naddress = \"10.0.0.1\"\ntor = \"t\"\n";
        let quota = Quota::new(&Inventory::parse(text).unwrap().settings, 2, 5_000);
        // An agent that could not reach the controller reports the results that it has kept.
        assert!((0..125).all(|_| quota.take(0, 8_000, 5_000).is_ok()));
        let why = quota.take(0, 101, 6_000).unwrap_err();
        assert_eq!(why, "a report of 101 results, after too many others; accepted: 100 now, and 100 per second");
        assert!(quota.take(0, 100, 6_000).is_ok() && quota.take(0, 1, 6_000).is_err());
        quota.give_back(0, 100);
        assert!(quota.take(0, 100, 6_000).is_ok() && quota.take(0, 1, 6_000).is_err());
        assert!(quota.take(1, 1_000_000, 6_000).is_ok(), "each host has its own quota");
        assert!(quota.take(0, 1_000_001, u64::MAX).is_err() && quota.take(0, 1_000_000, u64::MAX).is_ok());
    }
}
