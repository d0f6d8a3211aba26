//! What a fabric needs from the hosts attached to it.

use crate::engine::Fabric;
use crate::packet::{Body, Packet};
use rnic_transport::Time;
use std::ops::ControlFlow;

/// All hosts of a fabric. The fabric calls the methods of one host in order of time; between hosts there is no order but the
/// windows of the engine, so a method must touch only the state of the host that it is called for.
pub trait Endpoint {
    /// What a packet carries for the hosts.
    type Body: Body;

    /// A packet arrived.
    fn receive(&mut self, host: u32, now: Time, packet: &Packet<Self::Body>);
    /// When the host wants [`Endpoint::wake`], [`Time::MAX`] for never.
    fn next_wake(&self, host: u32) -> Time;
    /// The time has come.
    fn wake(&mut self, host: u32, now: Time);
    /// Whether the host may have a packet to send, now or when it is resumed.
    fn wants_to_transmit(&self, host: u32) -> bool;
    /// The transmitter is free: the next packet, of a priority that is not in the mask `paused`.
    fn transmit(&mut self, host: u32, now: Time, paused: u8) -> Option<Packet<Self::Body>>;

    /// The earliest start of a flow that no host knows of yet, [`Time::MAX`] for none.
    fn next_start(&self) -> Time;
    /// Every flow that starts before `end` must now be known to its hosts; `wake` tells the fabric that a host has something to do
    /// at a time.
    fn open_window(&mut self, end: Time, wake: &mut dyn FnMut(u32, Time));
    /// Everything before `end` has happened, `hops` packet transmissions in all. `Break` ends the run.
    fn close_window(&mut self, end: Time, hops: u64) -> ControlFlow<()>;
}

/// Looks at a run from outside, at instants that it chooses. The engine cuts its windows there: every node has then handled exactly
/// what happens before the instant. Looking changes no result.
pub trait Watcher<E: Endpoint> {
    /// The next instant at which it wants to look, [`Time::MAX`] for never.
    fn next(&self) -> Time;
    /// The instant has come; [`Watcher::next`] must be later afterwards. A change that it makes to the fabric takes effect now; what
    /// that sends must need at least the engine's lookahead to arrive, as every frame does.
    fn look(&mut self, now: Time, fabric: &mut Fabric<E::Body>, endpoint: &mut E);
    /// Whether what it will do at a later instant can make something happen, so that a run in which nothing is left must go on.
    fn acts(&self) -> bool {
        false
    }
}

/// Never looks.
impl<E: Endpoint> Watcher<E> for () {
    fn next(&self) -> Time {
        Time::MAX
    }
    fn look(&mut self, _now: Time, _fabric: &mut Fabric<E::Body>, _endpoint: &mut E) {}
}

/// Several that look at the same run.
impl<E: Endpoint> Watcher<E> for Vec<&mut dyn Watcher<E>> {
    fn next(&self) -> Time {
        self.iter().map(|watcher| watcher.next()).min().unwrap_or(Time::MAX)
    }
    fn look(&mut self, now: Time, fabric: &mut Fabric<E::Body>, endpoint: &mut E) {
        for watcher in self.iter_mut().filter(|watcher| watcher.next() <= now) {
            watcher.look(now, fabric, endpoint);
        }
    }
    fn acts(&self) -> bool {
        self.iter().any(|watcher| watcher.acts())
    }
}
