//! The NICs of hosts with several transports, in one partition of the fabric.

use super::turns::{Sharing, Turns};
use crate::host::rc::segment::Segment;
use crate::in_band::Several;
use rnic_fabric::{HostPartition, Packet, SlotId};
use rnic_transport::Time;
use std::any::Any;

/// A packet of a run with several transports.
type SharedPacket = Packet<Segment<Several>>;

/// The NICs of one transport on the hosts of a partition. They believe that they are alone: all their packets have
/// priority 0.
pub(crate) trait StackNics: HostPartition<Body = Segment<Several>> {
    /// The NICs as the value of their own type.
    fn as_any(&mut self) -> &mut dyn Any;
}

impl<N: HostPartition<Body = Segment<Several>> + 'static> StackNics for N {
    fn as_any(&mut self) -> &mut dyn Any {
        self
    }
}

/// The hosts of one partition. The packets of each transport have a priority of their own, by which a receiver knows
/// the transport of a packet.
pub(crate) struct SharedPartition {
    pub(super) stacks: Vec<Box<dyn StackNics>>,
    priorities: Vec<u8>,
    /// The transport of the packets of each priority.
    stack_of: [u8; 8],
    sharing: Sharing,
    turns: Vec<Turns>,
}

impl SharedPartition {
    /// The partition of `hosts` hosts, whose transports have these priorities.
    pub(super) fn new(stacks: Vec<Box<dyn StackNics>>, priorities: &[u8], sharing: Sharing, hosts: usize) -> Self {
        let mut stack_of = [0; 8];
        for (stack, priority) in priorities.iter().enumerate() {
            stack_of[usize::from(*priority)] = stack as u8;
        }
        SharedPartition {
            stacks,
            priorities: priorities.to_vec(),
            stack_of,
            sharing,
            turns: vec![Turns::default(); hosts],
        }
    }
}

impl HostPartition for SharedPartition {
    type Body = Segment<Several>;

    fn receive(&mut self, host: SlotId, now: Time, packet: &SharedPacket) {
        let stack = self.stack_of[usize::from(packet.priority)];
        self.stacks[usize::from(stack)].receive(host, now, packet);
    }

    fn next_wake(&self, host: SlotId) -> Time {
        self.stacks.iter().map(|stack| stack.next_wake(host)).min().unwrap_or(Time::MAX)
    }

    fn wake(&mut self, host: SlotId, now: Time) {
        if let Some(stack) = self.stacks.iter_mut().find(|stack| stack.next_wake(host) <= now) {
            stack.wake(host, now);
        }
    }

    fn wants_to_transmit(&self, host: SlotId) -> bool {
        self.stacks.iter().any(|stack| stack.wants_to_transmit(host))
    }

    fn transmit(&mut self, host: SlotId, now: Time, paused: u8) -> Option<SharedPacket> {
        let SharedPartition { stacks, priorities, sharing, turns, .. } = self;
        let send = |stack: usize| {
            let is_paused = paused & (1 << priorities[stack]) != 0;
            let packet = stacks[stack].transmit(host, now, u8::from(is_paused))?;
            Some((packet, packet.bytes))
        };
        let (stack, packet) = turns[host.index()].next(sharing, send)?;
        Some(Packet { priority: priorities[stack], ..packet })
    }
}
