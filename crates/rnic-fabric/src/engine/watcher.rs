//! Watchers: observers of a simulation run, which for example sample its queues.

use super::Fabric;
use crate::hosts::{BodyOf, PartitionedHosts};
use rnic_transport::Time;

/// Observes a run of a fabric at instants that the watcher chooses.
///
/// The engine, which simulates one window of simulated time after the other, ends a window at each of these instants:
/// every node has then processed exactly the events before the instant. An observation that leaves the fabric unchanged
/// does not change any result.
///
/// ```
/// use rnic_fabric::{BodyOf, Fabric, PartitionedHosts, PortId, Watcher};
/// use rnic_transport::Time;
///
/// /// Samples the egress queue of a port every 10 us.
/// struct QueueSamples {
///     port: PortId,
///     next: Time,
///     bytes: Vec<u64>,
/// }
///
/// impl<H: PartitionedHosts> Watcher<H> for QueueSamples {
///     fn next(&self) -> Time {
///         self.next
///     }
///     fn observe(&mut self, now: Time, fabric: &mut Fabric<BodyOf<H>>, _hosts: &mut H) {
///         self.bytes.push(fabric.egress(self.port, 0));
///         self.next = now + Time::from_us(10);
///     }
/// }
/// ```
pub trait Watcher<H: PartitionedHosts> {
    /// The next instant to observe; [`Time::MAX`] means never.
    fn next(&self) -> Time;
    /// Observes the fabric at `now`, the instant that [`Watcher::next`] announced. Afterwards [`Watcher::next`] must
    /// return a later instant. A change that the watcher makes to the fabric takes effect at `now`. A frame that this
    /// change causes must take at least the engine's lookahead (the minimum time of a frame on any link) to arrive, as
    /// every other frame does.
    fn observe(&mut self, now: Time, fabric: &mut Fabric<BodyOf<H>>, hosts: &mut H);
    /// Whether a later observation can cause events. If so, a run in which no other event is left continues to that
    /// observation.
    fn acts(&self) -> bool {
        false
    }
}

/// Stands for no watcher: it never observes.
impl<H: PartitionedHosts> Watcher<H> for () {
    fn next(&self) -> Time {
        Time::MAX
    }
    fn observe(&mut self, _now: Time, _fabric: &mut Fabric<BodyOf<H>>, _hosts: &mut H) {}
}
