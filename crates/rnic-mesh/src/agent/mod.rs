//! The agent of a host: it probes the targets of its pinglist and responds to the probers that the list admits. It uses
//! neither sockets nor clocks, so that a simulated host runs the same code as a real one.
//!
//! An agent limits the traffic that its pinglist can demand: each pair and the whole host have maximum rates
//! ([`Limits`]). After three consecutive fetches without a response of the controller, the agent stops probing until a
//! fetch succeeds.

mod batches;
mod list;
mod probes;
#[cfg(test)]
mod tests;

use crate::record::{Batch, Health, Pinglist, ProbeRecord, Target, Trace};
use rnic_endpoint::DatagramAddress;
use rnic_probe::Carrier;
use rnic_probe::message::Message;
use rnic_probe::prober::Prober;
use rnic_probe::responder::Responder;
use rnic_transport::Time;
use std::collections::{BTreeMap, BTreeSet, VecDeque};

/// Number of consecutive fetches without a response after which an agent stops probing.
pub const MAX_FAILED_FETCHES: u32 = 3;

/// Bounds that no pinglist can exceed.
#[derive(Clone, Copy, PartialEq, Debug)]
pub struct Limits {
    /// Maximum probes per second of this host.
    pub rate: f64,
    /// Minimum time between two probes of a pair.
    pub interval: Time,
    /// Maximum number of results that wait for the controller. If there are more, the agent discards the oldest.
    pub waiting: usize,
}

impl Default for Limits {
    fn default() -> Limits {
        Limits { rate: 1_000.0, interval: Time::from_ms(10), waiting: 1_000_000 }
    }
}

/// A probe to be sent now.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Outgoing {
    /// Identifies the probe in [`Agent::sent`].
    pub id: ProbeId,
    /// The target.
    pub to: DatagramAddress,
    /// The carrier of the probe.
    pub carrier: Carrier,
    /// Flow label, which selects the UDP source port.
    pub path: u16,
    /// Differentiated services code point.
    pub dscp: u8,
    /// The message.
    pub message: Message,
    /// Payload bytes of the datagram.
    pub len: usize,
}

/// A probe of an agent.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug)]
pub struct ProbeId {
    /// Session with the target.
    pub session: u64,
    /// Number of the probe in the session.
    pub sequence: u64,
}

struct Series {
    target: Target,
    prober: Prober,
    due: Option<Time>,
    /// Number of the target in [`Agent::targets`].
    number: u16,
    /// Numbers of the paths.
    paths: Vec<u16>,
}

/// The state of an agent.
pub struct Agent {
    host: String,
    incarnation: u64,
    limits: Limits,
    version: u64,
    list: Option<Pinglist>,
    failed_fetches: u32,
    /// The targets, by session.
    series: BTreeMap<u64, Series>,
    /// The time of the next action of each series.
    due: BTreeSet<(Time, u64)>,
    responder: Responder,
    /// Number of probes that the host's rate limit currently allows, and the time at which this number was computed.
    allowance: (f64, Time),
    source_ports: Vec<u16>,
    /// Maximum bytes of a probe, if the device has no reliable connections.
    longest_datagram: Option<usize>,
    /// Names and incarnations of targets that records refer to.
    targets: Vec<(String, u64)>,
    records: VecDeque<ProbeRecord>,
    traces: VecDeque<Trace>,
    /// Batches that the controller has not confirmed, in order.
    batches: VecDeque<Batch>,
    in_batches: usize,
    next_batch: u64,
    health: Health,
}

impl Agent {
    /// An agent without a pinglist. `source_ports` has the UDP source port of each path; `incarnation` is random.
    pub fn new(host: &str, incarnation: u64, source_ports: Vec<u16>, limits: Limits, now: Time) -> Agent {
        Agent {
            host: host.to_string(),
            incarnation,
            limits,
            version: 0,
            list: None,
            failed_fetches: 0,
            series: BTreeMap::new(),
            due: BTreeSet::new(),
            responder: Responder::new(now),
            allowance: (1.0, now),
            source_ports,
            longest_datagram: None,
            targets: Vec::new(),
            records: VecDeque::new(),
            traces: VecDeque::new(),
            batches: VecDeque::new(),
            in_batches: 0,
            next_batch: 1,
            health: Health::default(),
        }
    }

    /// Sets the maximum bytes of a datagram of the device; `None`: any probe fits.
    pub fn longest_datagram(&mut self, max: Option<usize>) {
        self.longest_datagram = max;
    }

    /// Handles the controller's response that the agent's list is current; `version` is the list's new version.
    pub fn unchanged(&mut self, version: u64, now: Time) {
        self.version = version;
        if self.resume(now) {
            self.schedule();
        }
    }

    /// Notes that a fetch succeeded, and returns whether the agent had stopped. Each series keeps its phase, so that
    /// the probes never all leave at the same time.
    fn resume(&mut self, now: Time) -> bool {
        let stopped = self.stopped();
        self.failed_fetches = 0;
        if stopped {
            self.series.values_mut().for_each(|series| series.prober.skip_missed(now));
        }
        stopped
    }

    /// Counts a fetch without a response of the controller.
    pub fn fetch_failed(&mut self) {
        self.failed_fetches = self.failed_fetches.saturating_add(1);
        if self.stopped() {
            self.schedule();
        }
    }

    /// Whether the agent has stopped probing because it cannot reach the controller.
    pub fn stopped(&self) -> bool {
        self.failed_fetches >= MAX_FAILED_FETCHES
    }

    /// Version and digest of the pinglist, for the registration; zeros without a list.
    pub fn current_list(&self) -> (u64, u64) {
        (self.version, self.list.as_ref().map_or(0, |list| list.digest))
    }

    /// The list.
    pub fn list(&self) -> Option<&Pinglist> {
        self.list.as_ref()
    }

    /// The counters.
    pub fn health(&self) -> Health {
        let counters = self.responder.counters();
        Health {
            waiting: (self.records.len() + self.in_batches) as u64,
            answered: counters.answered,
            limited: counters.limited,
            unexpected: counters.unexpected,
            ..self.health
        }
    }

    /// When the owner should call [`Agent::poll_send`] next.
    pub fn next_time(&self) -> Option<Time> {
        self.due.first().map(|(at, _)| *at)
    }

    /// The targets: session, address, and numbers of the paths in use.
    pub fn paths(&self) -> Vec<(u64, std::net::SocketAddr, Vec<u16>)> {
        let of = |(session, series): (&u64, &Series)| (*session, series.target.address.addr, series.paths.clone());
        self.series.iter().map(of).collect()
    }

    /// The UDP source port of a path.
    pub fn source_port(&self, path: u16) -> u16 {
        self.source_ports.get(usize::from(path)).copied().unwrap_or(0)
    }

    /// Ends the agent. Outstanding probes get no result.
    pub fn end(&mut self) {
        self.series.clear();
        self.due.clear();
    }

    fn schedule(&mut self) {
        self.due.clear();
        let stopped = self.stopped();
        for (session, series) in &mut self.series {
            // A stopped agent sends no probes; it only waits for the outstanding ones.
            series.due = if stopped { None } else { series.prober.next_time() };
            self.due.extend(series.due.map(|due| (due, *session)));
        }
    }
}
