//! Observation of a measurement while it runs: its counters, and the faults that the observer changes.
//!
//! A [`Live`] joins the threads that measure with one observer. The threads that measure add to a few atomic counters
//! and never wait for the observer; the observer reads the counters at an interval with a [`Meter`].

use super::counters::{Counts, counts};
use super::plan::{FaultPlan, PlanError};
use parking_lot::Mutex;
use rnic_endpoint::clock::{Clock, TimeSource};
use rnic_endpoint::device::Device;
use rnic_endpoint::port::{FaultCounters, Faults, Probability};
use rnic_transport::Time;
use rnic_verbs::{QpStatistics, SenderState};
use serde::{Deserialize, Serialize};
use std::sync::Arc;
use std::sync::atomic::{AtomicU32, AtomicU64, Ordering};

/// Faults that an observer sets while a measurement runs. The default is no fault.
#[derive(Clone, Copy, PartialEq, Debug, Default, Serialize, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub struct LiveFaults {
    /// Percentage of packets lost, 0 to [`LiveFaults::MAX_LOSS`].
    pub loss: f64,
    /// Percentage of packets that later packets overtake, 0 to [`LiveFaults::MAX_REORDER`].
    pub reorder: f64,
    /// Percentage of packets delivered twice, 0 to [`LiveFaults::MAX_DUPLICATE`].
    pub duplicate: f64,
    /// Maximum of the random delay of each packet in milliseconds, 0 to [`LiveFaults::MAX_DELAY`].
    pub delay: f64,
}

/// Error: a fault is out of range.
#[derive(Clone, PartialEq, Debug, thiserror::Error)]
#[error("{name} is {value}; accepted: 0 to {max}{unit}")]
pub struct FaultError {
    name: &'static str,
    value: f64,
    max: f64,
    unit: &'static str,
}

impl LiveFaults {
    /// Maximum loss in percent. With more loss a connection soon exhausts its retries.
    pub const MAX_LOSS: f64 = 20.0;
    /// Maximum reordering in percent.
    pub const MAX_REORDER: f64 = 50.0;
    /// Maximum duplication in percent.
    pub const MAX_DUPLICATE: f64 = 20.0;
    /// Maximum delay in milliseconds.
    pub const MAX_DELAY: f64 = 20.0;

    /// Converts the faults to the configuration of a port.
    ///
    /// # Errors
    /// A value is out of range or not a number.
    pub fn faults(&self) -> Result<Faults, FaultError> {
        let check = |name, value: f64, max, unit| match value {
            value if (0.0..=max).contains(&value) => Ok(value),
            value => Err(FaultError { name, value, max, unit }),
        };
        let percent = |name, value, max| {
            let value = check(name, value, max, " %")?;
            Probability::new(value / 100.0).map_err(|_| FaultError { name, value, max, unit: " %" })
        };
        let delay = check("delay", self.delay, LiveFaults::MAX_DELAY, " ms")?;
        Ok(Faults {
            loss: percent("loss", self.loss, LiveFaults::MAX_LOSS)?,
            reordering: percent("reorder", self.reorder, LiveFaults::MAX_REORDER)?,
            reordering_depth: FaultPlan::DEPTH,
            duplication: percent("duplicate", self.duplicate, LiveFaults::MAX_DUPLICATE)?,
            delay: if delay > 0.0 { Probability::ALWAYS } else { Probability::NEVER },
            longest_delay: Time::from_us((delay * 1e3).round() as u64),
            ..Faults::default()
        })
    }
}

impl TryFrom<&FaultPlan> for LiveFaults {
    type Error = PlanError;

    fn try_from(plan: &FaultPlan) -> Result<LiveFaults, PlanError> {
        if plan.corrupt > 0.0 {
            return Err(PlanError("a measurement with sliders has no --corrupt; use --loss".to_string()));
        }
        let FaultPlan { loss, reorder, duplicate, .. } = *plan;
        let faults = LiveFaults { loss, reorder, duplicate, delay: 0.0 };
        faults.faults().map_err(|error| PlanError(error.to_string()))?;
        Ok(faults)
    }
}

/// A device of the measurement.
pub(super) struct Observed {
    pub(super) device: Device,
    pub(super) faults: Arc<Mutex<FaultCounters>>,
}

/// Maximum number of latencies that wait for the observer; further ones are not recorded.
const MAX_LATENCIES: usize = 4_096;

/// Maximum number of queue pairs that are read for a point; some may have no reliable connection.
const MAX_READ: usize = 64;

/// The connection between a measurement and its observer.
#[derive(Default)]
pub struct Live {
    affects_sent: bool,
    faults: Mutex<Faults>,
    /// Increases with each change of `faults`.
    version: AtomicU32,
    /// The devices of the client and of the server; `None` for a device of another process.
    ends: [Mutex<Option<Observed>>; 2],
    messages: AtomicU64,
    bytes: AtomicU64,
    latencies: Mutex<Vec<Time>>,
}

impl std::fmt::Debug for Live {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Live").finish_non_exhaustive()
    }
}

impl Live {
    /// An observer whose faults affect the packets that arrive at the devices, and with `affects_sent` also the packets
    /// that they send. The faults of sent packets are for a client whose server is another process; they make sending
    /// slower, because each packet is a system call.
    pub fn new(affects_sent: bool) -> Live {
        Live { affects_sent, ..Live::default() }
    }

    /// Sets the faults. The devices use them from their next packet on.
    ///
    /// # Errors
    /// A value is out of range. The faults then stay as they were.
    pub fn set_faults(&self, faults: &LiveFaults) -> Result<(), FaultError> {
        *self.faults.lock() = faults.faults()?;
        self.version.fetch_add(1, Ordering::Release);
        Ok(())
    }

    /// The faults of sent and of received packets, if they have changed since `version`.
    pub(super) fn changed(&self, version: &mut u32) -> Option<(Faults, Faults)> {
        let now = self.version.load(Ordering::Acquire);
        if now == *version {
            return None;
        }
        *version = now;
        let faults = *self.faults.lock();
        Some((if self.affects_sent { faults } else { Faults::default() }, faults))
    }

    pub(super) fn affects_sent(&self) -> bool {
        self.affects_sent
    }

    /// Observes the device of the client (`side` 0) or of the server (1).
    pub(super) fn observe(&self, side: u64, observed: Observed) {
        *self.ends[usize::from(side != 0)].lock() = Some(observed);
    }

    /// Stops observing the device of the client (`side` 0) or of the server (1).
    pub(super) fn forget(&self, side: u64) {
        *self.ends[usize::from(side != 0)].lock() = None;
    }

    /// The client's queue pairs with a reliable connection.
    fn queue_pairs(&self) -> Vec<QueuePairPoint> {
        let found = self.ends[0].lock().as_ref().map(|observed| observed.device.observer().statistics(MAX_READ));
        let point = |qp: &QpStatistics| {
            let SenderState { window, in_flight, rtt, .. } = qp.sender?;
            Some(QueuePairPoint { qpn: qp.qpn.0, rtt_us: rtt.map(|rtt| rtt.as_us()), window, in_flight })
        };
        found.unwrap_or_default().iter().filter_map(point).take(Point::MAX_QUEUE_PAIRS).collect()
    }

    fn counts(&self) -> [Counts; 2] {
        [0, 1].map(|side| {
            let observed = self.ends[side].lock();
            let read = |observed: &Observed| {
                let counters = observed.device.counters();
                counts(&counters, &observed.faults.lock(), None)
            };
            observed.as_ref().map(read).unwrap_or_default()
        })
    }
}

/// The client's part of a [`Live`]: it counts completed messages, and measures the latency of one message at a time,
/// from the posting of its request to its completion.
pub(super) struct Timed {
    live: Arc<Live>,
    size: u32,
    /// Number of messages of the first queue pair up to and including the measured message, and the time at which the
    /// measured message was posted.
    measured: Option<(u64, Time)>,
}

impl Timed {
    pub(super) fn new(live: Arc<Live>, size: u32) -> Timed {
        Timed { live, size, measured: None }
    }

    /// Notes that the first queue pair has posted `messages` messages in total.
    pub(super) fn posted(&mut self, clock: &Clock, messages: u64) {
        if self.measured.is_none() {
            self.measured = Some((messages, clock.now()));
        }
    }

    /// Notes that `messages` messages have completed by `now`, and `first` messages of the first queue pair in total.
    pub(super) fn completed(&mut self, now: Time, messages: u64, first: u64) {
        self.live.messages.fetch_add(messages, Ordering::Relaxed);
        self.live.bytes.fetch_add(messages * u64::from(self.size), Ordering::Relaxed);
        if let Some((_, posted)) = self.measured.filter(|(message, _)| *message <= first) {
            self.measured = None;
            let mut latencies = self.live.latencies.lock();
            if latencies.len() < MAX_LATENCIES {
                latencies.push(now.saturating_sub(posted));
            }
        }
    }
}

/// What happened in one interval: rates per second, and latencies.
#[derive(Clone, PartialEq, Debug, Default, Serialize)]
pub struct Point {
    /// Payload of completed messages in Gbps (10^9 bits per second). Retransmissions do not count.
    pub gbps: f64,
    /// Completed messages per second.
    pub messages: f64,
    /// Median time in microseconds from the posting of a request to its completion; `None` if no message completed.
    pub p50_us: Option<f64>,
    /// 99th percentile of the time from the posting of a request to its completion, in microseconds.
    pub p99_us: Option<f64>,
    /// Packets sent per second by the client, retransmissions included.
    pub sent: f64,
    /// Data packets per second that were retransmitted.
    pub retransmitted: f64,
    /// Expired retransmission timeouts per second.
    pub timeouts: f64,
    /// NAKs per second that arrived for missing packets.
    pub naks: f64,
    /// Packets per second that had been received before.
    pub duplicates: f64,
    /// Packets per second that fault injection dropped.
    pub lost: f64,
    /// The client's queue pairs with a reliable connection at the end of the interval, at most
    /// [`Point::MAX_QUEUE_PAIRS`].
    pub queue_pairs: Vec<QueuePairPoint>,
}

impl Point {
    /// Maximum number of queue pairs in a point.
    pub const MAX_QUEUE_PAIRS: usize = 8;
}

/// A queue pair at the end of an interval.
#[derive(Clone, PartialEq, Debug, Serialize)]
pub struct QueuePairPoint {
    /// Queue pair number.
    pub qpn: u32,
    /// Smoothed round-trip time in microseconds; `None` before the first measurement.
    pub rtt_us: Option<f64>,
    /// Maximum number of packets in flight.
    pub window: u32,
    /// Packets sent and not acknowledged.
    pub in_flight: u32,
}

/// Reads the counters of a [`Live`] at an interval.
pub struct Meter {
    live: Arc<Live>,
    counts: [Counts; 2],
    messages: u64,
    bytes: u64,
}

impl Meter {
    /// Begins to observe.
    pub fn new(live: Arc<Live>) -> Meter {
        Meter { live, counts: Default::default(), messages: 0, bytes: 0 }
    }

    /// Returns what happened since the last call, which was `seconds` ago.
    pub fn read(&mut self, seconds: f64) -> Point {
        let counts = self.live.counts();
        let messages = self.live.messages.load(Ordering::Relaxed);
        let bytes = self.live.bytes.load(Ordering::Relaxed);
        let mut latencies = std::mem::take(&mut *self.live.latencies.lock());
        latencies.sort_unstable();
        // The median of a few latencies is their upper median, and the 99th percentile their maximum.
        let quantile = |share: f64| latencies.get((latencies.len() as f64 * share) as usize).map(|time| time.as_us());
        let seconds = seconds.max(1e-3);
        let rate = |name| [0, 1].map(|side| increase(&counts[side], &self.counts[side], name)).iter().sum::<u64>();
        let per_second = |name| rate(name) as f64 / seconds;
        let point = Point {
            gbps: (bytes - self.bytes) as f64 * 8e-9 / seconds,
            messages: (messages - self.messages) as f64 / seconds,
            p50_us: quantile(0.5),
            p99_us: quantile(0.99),
            sent: increase(&counts[0], &self.counts[0], "packets_sent") as f64 / seconds,
            retransmitted: per_second("retransmitted"),
            timeouts: per_second("timeouts"),
            naks: per_second("naks_received"),
            duplicates: per_second("duplicates"),
            lost: per_second("injected_losses"),
            queue_pairs: self.live.queue_pairs(),
        };
        (self.counts, self.messages, self.bytes) = (counts, messages, bytes);
        point
    }
}

/// The increase of a counter. A counter that is lower than before belongs to a new device, and counts from 0.
fn increase(now: &Counts, before: &Counts, name: &str) -> u64 {
    let [now, before] = [now, before].map(|counts| counts.get(name).copied().unwrap_or(0));
    if now < before { now } else { now - before }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn values_out_of_range_are_refused_and_change_nothing() {
        let live = Live::new(false);
        live.set_faults(&LiveFaults { loss: 5.0, delay: 1.5, ..LiveFaults::default() }).unwrap();
        let good = *live.faults.lock();
        assert_eq!(good.loss, Probability::new(0.05).unwrap());
        assert_eq!((good.delay, good.longest_delay), (Probability::ALWAYS, Time::from_us(1_500)));
        for bad in [
            LiveFaults { loss: 20.1, ..LiveFaults::default() },
            LiveFaults { loss: -1.0, ..LiveFaults::default() },
            LiveFaults { reorder: f64::NAN, ..LiveFaults::default() },
            LiveFaults { duplicate: f64::INFINITY, ..LiveFaults::default() },
            LiveFaults { delay: 1e300, ..LiveFaults::default() },
        ] {
            assert!(live.set_faults(&bad).is_err(), "{bad:?}");
            assert_eq!(*live.faults.lock(), good);
        }
        let error = live.set_faults(&LiveFaults { loss: 30.0, ..LiveFaults::default() }).unwrap_err();
        assert_eq!(error.to_string(), "loss is 30; accepted: 0 to 20 %");
    }

    #[test]
    fn a_port_learns_of_each_change_once() {
        let (live, mut version) = (Live::new(true), 0);
        assert_eq!(live.changed(&mut version), None);
        live.set_faults(&LiveFaults { loss: 1.0, ..LiveFaults::default() }).unwrap();
        let (sending, receiving) = live.changed(&mut version).unwrap();
        assert_eq!((sending, sending.loss), (receiving, Probability::new(0.01).unwrap()));
        assert_eq!(live.changed(&mut version), None);
        let (live, mut version) = (Live::new(false), 0);
        live.set_faults(&LiveFaults { loss: 1.0, ..LiveFaults::default() }).unwrap();
        assert!(live.changed(&mut version).unwrap().0.none());
    }

    #[test]
    fn a_meter_computes_rates_by_hand() {
        let live = Arc::new(Live::new(false));
        let mut meter = Meter::new(live.clone());
        let mut timed = Timed::new(live.clone(), 1_000_000);
        timed.measured = Some((1, Time::from_us(100)));
        timed.completed(Time::from_us(350), 1, 1);
        timed.completed(Time::from_us(400), 1, 2);
        let point = meter.read(0.5);
        // 2 messages of 8 million bits in half a second.
        assert!((point.gbps - 0.032).abs() < 1e-12 && (point.messages - 4.0).abs() < 1e-12, "{point:?}");
        assert_eq!((point.p50_us, point.p99_us), (Some(250.0), Some(250.0)));
        assert_eq!(meter.read(0.5), Point::default(), "nothing more happened");
    }

    #[test]
    fn counters_of_a_new_device_begin_at_zero() {
        let of = |count| Counts::from([("retransmitted".to_string(), count)]);
        assert_eq!(increase(&of(7), &of(5), "retransmitted"), 2);
        assert_eq!(increase(&of(3), &of(5), "retransmitted"), 3);
        assert_eq!(increase(&Counts::new(), &of(5), "retransmitted"), 0);
    }

    #[test]
    fn latencies_that_no_observer_takes_are_bounded() {
        let live = Arc::new(Live::new(false));
        let mut timed = Timed::new(live.clone(), 1);
        for _ in 0..MAX_LATENCIES + 10 {
            timed.measured = Some((1, Time::ZERO));
            timed.completed(Time::from_us(1), 1, 1);
        }
        assert_eq!(live.latencies.lock().len(), MAX_LATENCIES);
    }
}
