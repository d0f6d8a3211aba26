//! A new pinglist: it ends probing some targets, begins probing others, and names the probers to which the agent
//! responds.

use super::{Agent, Series};
use crate::record::{MAX_PATHS, MAX_TARGETS, Pinglist, ns};
use crate::rotation;
use rnic_endpoint::DatagramAddress;
use rnic_probe::Carrier;
use rnic_probe::message::{MAX_PROBE, MIN_PROBE};
use rnic_probe::prober::{ProbeError, Prober, ProberConfig};
use rnic_transport::Time;
use std::collections::BTreeMap;

impl Agent {
    /// Takes a new pinglist. Targets that were in the previous list keep their probes and schedule. `phase` returns a
    /// number from 0 to 1 for each new target, so that hosts do not probe at the same times.
    ///
    /// # Errors
    /// Returns a sentence if the list demands something that an agent does not do. The agent then keeps its previous
    /// list.
    pub fn set_pinglist(&mut self, list: Pinglist, now: Time, mut phase: impl FnMut() -> f64) -> Result<(), String> {
        if self.resume(now) {
            // If the list is refused, the agent continues with the list that it has.
            self.schedule();
        }
        let size = usize::from(list.size);
        if !(MIN_PROBE..=MAX_PROBE).contains(&size) {
            return Err(format!("the pinglist has probes of {size} bytes; possible are {MIN_PROBE} to {MAX_PROBE}"));
        }
        if let Some(max) = self.longest_datagram.filter(|max| list.transport == Carrier::Ud && size > *max) {
            return Err(format!("the pinglist has probes of {size} bytes; datagrams of the NIC have at most {max}"));
        }
        let paths = usize::from(list.paths);
        if paths == 0 || paths > self.source_ports.len() {
            let own = self.source_ports.len();
            return Err(format!("the pinglist has {paths} paths; this agent has 1 to {own}"));
        }
        if list.rotation > 0 && self.source_ports.len() < usize::from(MAX_PATHS) {
            return Err("the pinglist changes source ports; this agent has too few".to_string());
        }
        if list.targets.len() > MAX_TARGETS || !(1..=60_000).contains(&list.timeout_ms) || list.dscp > 63 {
            return Err("the pinglist has too many targets, or a timeout or DSCP out of range".to_string());
        }
        let same = |series: &Series| {
            let settings = self.list.as_ref().map(|old| (old.paths, old.timeout_ms, old.transport));
            settings == Some((list.paths, list.timeout_ms, list.transport)) && list.targets.contains(&series.target)
        };
        let (kept, ended): (BTreeMap<_, _>, BTreeMap<_, _>) =
            std::mem::take(&mut self.series).into_iter().partition(|(_, series)| same(series));
        self.series = kept;
        for mut series in ended.into_values() {
            // The target's agent may have ended, so a missing response to an outstanding probe is not a failure of the
            // network.
            series.prober.end(ProbeError::Gone);
            self.collect(&mut series, now);
        }
        for target in &list.targets {
            if self.series.contains_key(&target.session) {
                continue;
            }
            let interval = Time::from_ms(target.interval_ms.min(3_600_000)).max(self.limits.interval);
            let config = ProberConfig {
                session: target.session,
                paths: list.paths,
                interval,
                timeout: Time::from_ms(list.timeout_ms),
                count: None,
            };
            let start = now + interval.scale(phase().clamp(0.0, 1.0));
            let number = self.number(&target.host, target.incarnation);
            let prober = Prober::new(config, start);
            let series = Series { target: target.clone(), prober, due: None, number, paths: Vec::new() };
            self.series.insert(target.session, series);
        }
        for series in self.series.values_mut() {
            series.paths = rotation::paths(&self.host, &series.target.host, list.rotation, list.paths);
            series.prober.set_paths(series.paths.clone());
        }
        let admitted: BTreeMap<u64, DatagramAddress> = list.admit.iter().map(|a| (a.session, a.prober)).collect();
        let closed: Vec<u64> = self
            .responder
            .sessions()
            .filter(|number| admitted.get(number) != self.responder.prober(*number).as_ref())
            .collect();
        closed.into_iter().for_each(|number| self.responder.close(number));
        for (number, prober) in admitted {
            if self.responder.prober(number).is_none() {
                // A prober beyond the maximum number is not answered; its host sees a timeout.
                let _ = self.responder.open(number, prober, now);
            }
        }
        self.version = list.version;
        self.list = Some(list);
        self.schedule();
        Ok(())
    }

    /// The index of a target in `Agent::targets`, to which the records of batches refer.
    fn number(&mut self, host: &str, incarnation: u64) -> u16 {
        let found = self.targets.iter().position(|(name, inc)| name == host && *inc == incarnation);
        if let Some(at) = found {
            return at as u16;
        }
        if self.targets.len() >= MAX_TARGETS {
            // The table is full of targets of earlier lists. The results so far refer to this table, so they leave in a
            // batch with it before the table is cleared.
            self.close_batch(|time| ns(time) / 1_000);
            self.targets = Vec::new();
            let names: Vec<(u64, String, u64)> =
                self.series.iter().map(|(id, s)| (*id, s.target.host.clone(), s.target.incarnation)).collect();
            for (session, host, incarnation) in names {
                self.targets.push((host, incarnation));
                if let Some(series) = self.series.get_mut(&session) {
                    series.number = (self.targets.len() - 1) as u16;
                }
            }
        }
        self.targets.push((host.to_string(), incarnation));
        (self.targets.len() - 1) as u16
    }
}
