//! The counters of one end in the report of a measurement.

use rnic_endpoint::device::Counters;
use rnic_endpoint::port::FaultCounters;
use rnic_verbs::Dropped;
use std::collections::BTreeMap;

/// Values of counters by name.
pub type Counts = BTreeMap<String, u64>;

/// Returns all counters of a device and of its injected faults, with their names in the report.
///
/// `channels` has the counters of all channels: parts posted to the NIC, retransmitted parts, recoveries, and CE-marked
/// parts.
pub(super) fn counts(counters: &Counters, faults: &FaultCounters, channels: Option<[u64; 4]>) -> Counts {
    let Counters { verbs, driver, port } = counters;
    let plain = [
        ("packets_sent", verbs.packets_sent),
        ("packets_received", verbs.packets_received),
        ("payload_bytes_sent", verbs.bytes_sent),
        ("retransmitted", verbs.retransmitted),
        ("duplicates", verbs.duplicates),
        ("acks_sent", verbs.acks_sent),
        ("naks_sent", verbs.naks_sent),
        ("naks_received", verbs.naks_received),
        ("implied_naks", verbs.implied_naks),
        ("rnr_naks_sent", verbs.rnr_naks_sent),
        ("rnr_naks_received", verbs.rnr_naks_received),
        ("timeouts", verbs.timeouts),
        ("cnps_sent", verbs.cnps_sent),
        ("cnps_received", verbs.cnps_received),
        ("marked", verbs.marked),
        ("queue_pair_errors", verbs.queue_pair_errors),
        ("events_lost", verbs.events_lost),
        ("bad_icrc", driver.bad_icrc),
        ("forged", driver.forged),
        ("replayed", driver.replayed),
        ("unsendable_batches", driver.unsendable),
        ("port_sent_batches", port.sent_batches),
        ("port_received_batches", port.received_batches),
        ("port_blocked", port.blocked),
        ("port_starved", port.starved),
        ("port_overflowed", port.overflowed),
        ("port_handed_over", port.handed_over),
        ("port_malformed", port.malformed),
        ("injected_losses", faults.lost),
        ("injected_duplicates", faults.duplicated),
        ("injected_corruptions", faults.corrupted),
        ("injected_reorderings", faults.reordered),
    ];
    let dropped = Dropped::ALL.map(|why| (format!("dropped_{}", why.label()), verbs.dropped(why)));
    let names = ["channel_parts", "channel_repeated", "channel_recoveries", "channel_marked"];
    let channels = channels.map(|counts| names.into_iter().zip(counts));
    let plain = plain.into_iter().chain(channels.into_iter().flatten());
    plain.map(|(name, count)| (name.to_string(), count)).chain(dropped).collect()
}

/// Returns the increase of each counter from `before` to `after`.
pub(super) fn difference(after: Counts, before: &Counts) -> Counts {
    after.into_iter().map(|(name, count)| (name.clone(), count - before.get(&name).copied().unwrap_or(0))).collect()
}
