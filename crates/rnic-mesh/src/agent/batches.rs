//! The results of an agent, in batches that the agent keeps until the controller has confirmed them.

use super::Agent;
use crate::record::{Batch, MAX_PROBES, PROTOCOL, ProbeRecord, Trace};
use rnic_transport::Time;
use std::net::IpAddr;

impl Agent {
    /// Stores the routers that a trace found on a path.
    pub fn traced(&mut self, session: u64, path: u16, hops: Vec<Option<IpAddr>>) {
        if let Some(series) = self.series.get(&session) {
            self.traces.push_back(Trace { target: series.number, path, hops });
            if self.traces.len() > MAX_PROBES {
                self.traces.pop_front();
            }
        }
    }

    /// Puts all results and traces since the last batch into new batches; makes none if nothing was measured. `wall`
    /// converts a time of the agent into microseconds since 1970.
    pub fn close_batch(&mut self, wall: impl Fn(Time) -> u64) {
        while !self.records.is_empty() || !self.traces.is_empty() {
            let count = self.records.len().min(MAX_PROBES);
            let probes: Vec<ProbeRecord> = self.records.drain(..count).collect();
            let probes = probes.into_iter().map(|probe| {
                let at = Time::from_us(probe.at_us);
                ProbeRecord { at_us: wall(at), ..probe }
            });
            let batch = Batch {
                protocol: PROTOCOL,
                host: self.host.clone(),
                incarnation: self.incarnation,
                sequence: self.next_batch,
                targets: self.targets.clone(),
                source_ports: self.source_ports.clone(),
                probes: probes.collect(),
                traces: self.traces.drain(..).collect(),
            };
            self.next_batch += 1;
            self.in_batches += batch.probes.len();
            self.batches.push_back(batch);
        }
        while self.in_batches > self.limits.waiting
            && let Some(oldest) = self.batches.pop_front()
        {
            self.in_batches -= oldest.probes.len();
            self.health.discarded += oldest.probes.len() as u64;
        }
    }

    /// The oldest batch that the controller has not confirmed.
    pub fn batch(&self) -> Option<&Batch> {
        self.batches.front()
    }

    /// The oldest batch after the one with this number.
    pub fn batch_after(&self, sequence: u64) -> Option<&Batch> {
        self.batches.iter().find(|batch| batch.sequence > sequence)
    }

    /// Removes batch number `sequence`, because the controller confirmed that its content is on disk.
    pub fn confirmed(&mut self, sequence: u64) {
        while let Some(first) = self.batches.front().filter(|batch| batch.sequence <= sequence) {
            self.in_batches -= first.probes.len();
            self.batches.pop_front();
        }
    }

    /// Discards batch number `sequence`, because the controller will never accept it. Otherwise it would keep all later
    /// batches waiting.
    pub fn discard(&mut self, sequence: u64) {
        if let Some(first) = self.batches.pop_front_if(|batch| batch.sequence == sequence) {
            self.in_batches -= first.probes.len();
            self.health.discarded += first.probes.len() as u64;
        }
    }
}
