//! Observers of a run: what samples its fabric and its hosts, or acts on them, at instants that it chooses.

use super::hosts::RunHosts;
use rnic_fabric::{Body, BodyOf, Fabric, PartitionedHosts, Watcher};
use rnic_transport::Time;

/// A [`Watcher`] that does not know the type of the hosts. So it is compiled for each type of packets, not for each
/// pair of a loss recovery and a congestion control.
pub(crate) trait Observer<B: Body> {
    /// See [`Watcher::next`].
    fn next(&self) -> Time;
    /// See [`Watcher::observe`].
    fn observe(&mut self, now: Time, fabric: &mut Fabric<B>, hosts: &mut dyn RunHosts<B>);
    /// See [`Watcher::acts`].
    fn acts(&self) -> bool {
        false
    }
}

/// Several observers of the same run.
impl<B: Body> Observer<B> for Vec<&mut dyn Observer<B>> {
    fn next(&self) -> Time {
        self.iter().map(|observer| observer.next()).min().unwrap_or(Time::MAX)
    }
    fn observe(&mut self, now: Time, fabric: &mut Fabric<B>, hosts: &mut dyn RunHosts<B>) {
        for observer in self.iter_mut().filter(|observer| observer.next() <= now) {
            observer.observe(now, fabric, hosts);
        }
    }
    fn acts(&self) -> bool {
        self.iter().any(|observer| observer.acts())
    }
}

/// An observer, as the engine calls it.
pub(crate) struct Observed<'o, B>(pub(crate) &'o mut dyn Observer<B>);

impl<H: PartitionedHosts + RunHosts<BodyOf<H>>> Watcher<H> for Observed<'_, BodyOf<H>> {
    fn next(&self) -> Time {
        self.0.next()
    }
    fn observe(&mut self, now: Time, fabric: &mut Fabric<BodyOf<H>>, hosts: &mut H) {
        self.0.observe(now, fabric, hosts);
    }
    fn acts(&self) -> bool {
        self.0.acts()
    }
}
