//! The PFC watchdog of the switches (`[fabric.watchdog]`), which works like that of SONiC.
//!
//! The watchdog checks all watched queues (port and priority) at a fixed interval. A queue is stuck at a check if it
//! has packets, has sent none since the previous check, and its port is paused or has been paused since then. A queue
//! that was stuck at consecutive checks for the detection time is in a storm. The watchdog then acts, and restores the
//! port when the peer has sent no pause for the restoration time.

use crate::host::{Observer, RunHosts};
use rnic_fabric::{Body, Fabric, Mitigation, PortId, Topology};
use rnic_spec::{SwitchWatchdog, WatchdogAction, WatchdogRecord, WatchedPorts};
use rnic_transport::Time;

/// Maximum number of records of a run. A watchdog that has reached this number still acts, but records nothing more.
const MAX_RECORDS: usize = 100_000;

/// A watched queue: an egress queue of a switch.
struct Queue {
    port: PortId,
    priority: u8,
    /// Packets that the queue had sent at the previous check.
    sent: u64,
    /// Pauses that the port had received at the previous check.
    pauses: u64,
    /// Time for which the queue has been stuck, by the checks.
    stuck: Time,
    /// The storm that the watchdog has found: index of its record (`None` if there was no room), and the packets that
    /// earlier actions on this queue had dropped.
    storm: Option<(Option<usize>, u64)>,
}

/// The PFC watchdog of all switches of a run.
pub(crate) struct Watchdog<'s> {
    settings: &'s SwitchWatchdog,
    next: Time,
    queues: Vec<Queue>,
    pub(crate) records: Vec<WatchdogRecord>,
    /// Packets that had been transmitted in the whole fabric at the previous check.
    hops: u64,
    /// Whether the previous check found the fabric at rest: nothing transmitted since the check before, and nothing for
    /// the watchdog to do.
    is_at_rest: bool,
}

impl<'s> Watchdog<'s> {
    pub(crate) fn new(settings: &'s SwitchWatchdog, topology: &Topology, priorities: u8) -> Watchdog<'s> {
        let is_watched = |port: &PortId| {
            let to_host = topology.is_host(topology.peer_node(*port));
            !topology.is_host(topology.port(*port).node) && (to_host || settings.ports == WatchedPorts::All)
        };
        let queue = |port| {
            (0..priorities).map(move |priority| Queue {
                port,
                priority,
                sent: 0,
                pauses: 0,
                stuck: Time::ZERO,
                storm: None,
            })
        };
        Watchdog {
            settings,
            next: settings.interval,
            queues: topology.port_ids().filter(is_watched).flat_map(queue).collect(),
            records: Vec::new(),
            hops: 0,
            is_at_rest: false,
        }
    }

    /// The records of the run's storms, complete with the packets dropped by actions that last until its end.
    pub(crate) fn finish<B: Body>(mut self, fabric: &mut Fabric<B>) -> Vec<WatchdogRecord> {
        for queue in &self.queues {
            if let Some((Some(record), before)) = queue.storm {
                self.records[record].dropped = fabric.discarded(queue.port, queue.priority) - before;
            }
        }
        self.records
    }
}

impl Queue {
    /// Checks a queue without a storm at `now`; returns whether a storm has been found.
    fn check<B: Body>(&mut self, settings: &SwitchWatchdog, fabric: &Fabric<B>) -> bool {
        let counters = fabric.counters(self.port)[usize::from(self.priority)];
        let moved = counters.tx_packets != std::mem::replace(&mut self.sent, counters.tx_packets);
        let paused = counters.pause_received != std::mem::replace(&mut self.pauses, counters.pause_received)
            || fabric.paused(self.port) & (1 << self.priority) != 0;
        if moved || !paused || fabric.egress(self.port, usize::from(self.priority)) == 0 {
            self.stuck = Time::ZERO;
            return false;
        }
        self.stuck += settings.interval;
        self.stuck >= settings.detection
    }
}

impl<B: Body> Observer<B> for Watchdog<'_> {
    fn next(&self) -> Time {
        self.next
    }

    fn observe(&mut self, now: Time, fabric: &mut Fabric<B>, _hosts: &mut dyn RunHosts<B>) {
        self.check(now, fabric);
    }

    fn acts(&self) -> bool {
        !self.is_at_rest
    }
}

impl Watchdog<'_> {
    /// Checks all queues at `now`.
    fn check<B: Body>(&mut self, now: Time, fabric: &mut Fabric<B>) {
        let mut at_work = false;
        for queue in &mut self.queues {
            let (port, priority) = (queue.port, queue.priority);
            if let Some((record, before)) = queue.storm {
                let (pauses, since) = fabric.peer_pauses(port, priority);
                // A storm whose pauses never end needs no further check in a fabric at rest.
                at_work |= !pauses;
                if pauses || now.saturating_sub(since) < self.settings.restoration {
                    continue;
                }
                if let Some(record) = record {
                    let record = &mut self.records[record];
                    record.restored = Some(now);
                    record.dropped = fabric.discarded(port, priority) - before;
                }
                queue.storm = None;
                if self.settings.action != WatchdogAction::Alert {
                    fabric.end_mitigation(port, priority);
                }
                queue.check(self.settings, fabric);
            } else if queue.check(self.settings, fabric) {
                queue.stuck = Time::ZERO;
                let record = (self.records.len() < MAX_RECORDS).then_some(self.records.len());
                queue.storm = Some((record, fabric.discarded(port, priority)));
                let action = self.settings.action;
                if record.is_some() {
                    self.records.push(WatchdogRecord {
                        port: port.0,
                        priority: Some(priority),
                        action: Some(action),
                        detected: now,
                        restored: None,
                        dropped: 0,
                    });
                }
                match action {
                    WatchdogAction::Drop => fabric.begin_mitigation(port, priority, Mitigation::Drop),
                    WatchdogAction::Forward => fabric.begin_mitigation(port, priority, Mitigation::Forward),
                    WatchdogAction::Alert => {}
                }
            }
            at_work |= queue.stuck > Time::ZERO;
        }
        let hops = fabric.hops();
        self.is_at_rest = !at_work && hops == self.hops;
        self.hops = hops;
        self.next = now.saturating_add(self.settings.interval);
    }
}
