//! What a fabric needs from the hosts attached to it.

use crate::engine::Fabric;
use crate::packet::{Body, Packet};
use rnic_transport::Time;
use std::ops::ControlFlow;

/// The hosts of one part of a fabric, numbered within it ([`Partition::hosts_of`](crate::Partition::hosts_of)). The
/// fabric calls the methods of one host in order of time; between hosts there is no order but the windows of the
/// engine, so a method must touch only the state of the host that it is called for, and what is in no order: counts.
pub trait Endpoint: Send {
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
}

/// All hosts of a fabric, and what happens between windows, when nothing else goes on.
pub trait Endpoints {
    /// The hosts of a part.
    type Part: Endpoint;

    /// One entry for each part of the fabric's partition, in order. While a window goes on, the fabric has them.
    fn parts(&mut self) -> &mut Vec<Self::Part>;
    /// The earliest start of a flow that no host knows of yet, [`Time::MAX`] for none.
    fn next_start(&self) -> Time;
    /// Every flow that starts before `end` must now be known to its hosts; `wake` tells the fabric that a host
    /// (numbered over all parts) has something to do at a time.
    fn open_window(&mut self, end: Time, wake: &mut dyn FnMut(u32, Time));
    /// Everything before `end` has happened, `hops` packet transmissions in all. `Break` ends the run.
    fn close_window(&mut self, end: Time, hops: u64) -> ControlFlow<()>;
}

/// What packets carry for the hosts of `E`.
pub type BodyOf<E> = <<E as Endpoints>::Part as Endpoint>::Body;

/// Looks at a run from outside, at instants that it chooses. The engine cuts its windows there: every node has then
/// handled exactly what happens before the instant. Looking changes no result.
pub trait Watcher<E: Endpoints> {
    /// The next instant at which it wants to look, [`Time::MAX`] for never.
    fn next(&self) -> Time;
    /// The instant has come; [`Watcher::next`] must be later afterwards. A change that it makes to the fabric takes
    /// effect now; what that sends must need at least the engine's lookahead to arrive, as every frame does.
    fn look(&mut self, now: Time, fabric: &mut Fabric<BodyOf<E>>, endpoints: &mut E);
    /// Whether what it will do at a later instant can make something happen, so that a run in which nothing is left
    /// must go on.
    fn acts(&self) -> bool {
        false
    }
}

/// Never looks.
impl<E: Endpoints> Watcher<E> for () {
    fn next(&self) -> Time {
        Time::MAX
    }
    fn look(&mut self, _now: Time, _fabric: &mut Fabric<BodyOf<E>>, _endpoints: &mut E) {}
}

/// Several that look at the same run.
impl<E: Endpoints> Watcher<E> for Vec<&mut dyn Watcher<E>> {
    fn next(&self) -> Time {
        self.iter().map(|watcher| watcher.next()).min().unwrap_or(Time::MAX)
    }
    fn look(&mut self, now: Time, fabric: &mut Fabric<BodyOf<E>>, endpoints: &mut E) {
        for watcher in self.iter_mut().filter(|watcher| watcher.next() <= now) {
            watcher.look(now, fabric, endpoints);
        }
    }
    fn acts(&self) -> bool {
        self.iter().any(|watcher| watcher.acts())
    }
}
