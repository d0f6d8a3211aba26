//! Skips simulated time in which what happens repeats.

use super::Fabric;
use crate::packet::Body;
use crate::port::PriorityCounters;
use rnic_transport::Time;

/// The counters of all ports at one instant of a run, for [`Fabric::skip`].
#[derive(Clone, Debug, Default)]
pub struct Counted {
    /// For each partition: the counters of its ports and priorities, and its transmitted frames.
    partitions: Vec<(Vec<PriorityCounters>, u64)>,
}

impl<B: Body> Fabric<B> {
    /// The counters of all ports now.
    pub fn counted(&self) -> Counted {
        let of = |partition: &super::Partition<B>| (partition.links.counters.clone(), partition.links.hops);
        Counted { partitions: self.partitions.iter().map(of).collect() }
    }

    /// Skips `span` of simulated time, in which what has been counted since `since` happens `repeats` times more:
    /// [`Fabric::now`] advances by `span`, and each counter by `repeats` times what it has advanced since then. Frames
    /// that are queued or on links stay where they are. A watcher may call it, if no event of the hosts and no
    /// observation is due within `span`.
    ///
    /// # Panics
    /// `since` is of another fabric.
    pub fn skip(&mut self, span: Time, since: &Counted, repeats: u64) {
        assert_eq!(since.partitions.len(), self.partitions.len(), "the counters of this fabric");
        for (partition, (counters, hops)) in self.partitions.iter_mut().zip(&since.partitions) {
            let links = &mut partition.links;
            for (now, before) in links.counters.iter_mut().zip(counters) {
                repeat(now, before, repeats);
            }
            links.hops += repeats * (links.hops - hops);
        }
        self.skipped += span.as_ps();
    }

    /// Frames that have been dropped in switches, and lost on links, so far.
    pub fn vanished(&self) -> u64 {
        let counters = self.partitions.iter().flat_map(|partition| &partition.links.counters);
        counters.map(|counters| counters.drops + counters.lost).sum()
    }

    /// The engine's time at the simulated time `at`; [`Time::MAX`] stays.
    pub(super) fn unskipped(&self, at: Time) -> u64 {
        if at == Time::MAX { u64::MAX } else { at.as_ps().saturating_sub(self.skipped) }
    }
}

/// Adds to each counter `repeats` times what it has advanced since `before`. The high-water mark stays.
fn repeat(now: &mut PriorityCounters, before: &PriorityCounters, repeats: u64) {
    let more = |now: &mut u64, before: u64| *now += repeats * (*now - before);
    let PriorityCounters {
        tx_packets,
        tx_bytes,
        drops,
        control_drops,
        lost,
        marked,
        pause_sent,
        pause_received,
        paused_ps,
        queue_high_water: _,
        trimmed,
        returned,
    } = now;
    more(tx_packets, before.tx_packets);
    more(tx_bytes, before.tx_bytes);
    more(drops, before.drops);
    more(control_drops, before.control_drops);
    more(lost, before.lost);
    more(marked, before.marked);
    more(pause_sent, before.pause_sent);
    more(pause_received, before.pause_received);
    more(paused_ps, before.paused_ps);
    more(trimmed, before.trimmed);
    more(returned, before.returned);
}
