//! The switches of one partition (a part of the fabric that one thread simulates), compiled separately for each kind of
//! buffer.

use super::{Guard, Mitigation, Switch};
use crate::buffer::{Buffer, BufferSpec, InputBuffer, OtherArbiter, OutputBuffer, RoundRobin, Shape, SharedBuffer};
use crate::config::FabricSpec;
use crate::event::EventList;
use crate::packet::Body;
use crate::partition_plan::PartitionPlan;
use crate::port::Ports;
use crate::routing::Routes;
use crate::topology::Topology;

/// The switches of one partition of a fabric; all switches of a fabric have the same kind of buffer.
pub(crate) enum Switches<B> {
    /// Inputs that take turns.
    Input(Vec<Switch<B, InputBuffer<B, RoundRobin, false>>>),
    /// Another arbiter, or hysteresis.
    InputOther(Vec<Switch<B, InputBuffer<B, OtherArbiter, true>>>),
    Shared(Vec<Switch<B, SharedBuffer<B>>>),
    Output(Vec<Switch<B, OutputBuffer<B, false>>>),
    /// Buffers at the outputs that count the packet in service.
    OutputInService(Vec<Switch<B, OutputBuffer<B, true>>>),
}

/// Evaluates `$body` with `$switches` bound to the vector of switches, for every kind of buffer.
macro_rules! each_kind {
    ($of:expr, $switches:ident => $body:expr) => {
        match $of {
            Switches::Input($switches) => $body,
            Switches::InputOther($switches) => $body,
            Switches::Shared($switches) => $body,
            Switches::Output($switches) => $body,
            Switches::OutputInService($switches) => $body,
        }
    };
}

impl<B: Body> Switches<B> {
    pub(crate) fn new(
        topology: &Topology, plan: &PartitionPlan, partition: usize, spec: &FabricSpec, seed: u64,
    ) -> Switches<B> {
        let build = Builder { topology, plan, partition, spec, seed };
        match &spec.switch.buffer {
            BufferSpec::Input(input) if input.is_plain() => {
                Switches::Input(build.switches(|shape| InputBuffer::new(input, shape)))
            }
            BufferSpec::Input(input) => Switches::InputOther(build.switches(|shape| InputBuffer::new(input, shape))),
            BufferSpec::Shared(shared) => Switches::Shared(build.switches(|shape| SharedBuffer::new(shared, shape))),
            BufferSpec::Output(output) if output.count_in_service => {
                Switches::OutputInService(build.switches(|shape| OutputBuffer::new(output, shape)))
            }
            BufferSpec::Output(output) => Switches::Output(build.switches(|shape| OutputBuffer::new(output, shape))),
        }
    }

    /// Simulates every event of the switches before `end`; no event may be earlier than `start`. The first switch is
    /// node `first` of its partition of the fabric.
    #[inline(always)]
    pub(crate) fn run<L: EventList>(
        &mut self, first: usize, links: &mut Ports<B>, routes: &Routes, events: &mut L, start: u64, end: u64,
    ) {
        each_kind!(self, switches => run(switches, first, links, routes, events, start, end));
    }

    /// Calls `inspect` with the buffer of the switch with this index.
    pub(crate) fn inspect<R>(&self, index: usize, inspect: impl FnOnce(&dyn Buffer<B>) -> R) -> R {
        each_kind!(self, switches => inspect(&switches[index].buffer))
    }

    /// Calls `change` with the guard of the switch with this index, which gets one if it has none.
    pub(crate) fn guard<R>(&mut self, index: usize, change: impl FnOnce(&mut Guard) -> R) -> R {
        each_kind!(self, switches => change(switches[index].guard()))
    }

    /// Prepares the ports of the switch with this index for a change at `now`.
    pub(crate) fn settle(&mut self, index: usize, links: &mut Ports<B>, now: u64) {
        each_kind!(self, switches => switches[index].settle(links, now));
    }

    /// Forgets the pauses of the peer of a port, numbered within the switch with this index.
    pub(crate) fn forget_pauses(&mut self, index: usize, port: usize, now: u64) {
        each_kind!(self, switches => if let Some(guard) = &mut switches[index].guard {
            guard.receive_pause(port, 0, now);
        });
    }

    /// Changes the queues of an output of the switch with this index to this share of their size.
    pub(crate) fn scale_queues(&mut self, index: usize, output: usize, share: f64) {
        each_kind!(self, switches => {
            let switch = &mut switches[index];
            switch.buffer.scale(output, share);
            if let Some(marker) = &mut switch.marker {
                marker.scale(output, share);
            }
        });
    }

    /// Begins the mitigation of a storm on a port of the switch with this index.
    pub(crate) fn mitigate(
        &mut self, index: usize, links: &mut Ports<B>, (port, priority): (usize, usize), mitigation: Mitigation,
        now: u64,
    ) {
        each_kind!(self, switches => switches[index].mitigate(links, port, priority, mitigation, now));
    }

    /// Number of copies made of flooded packets, minus the number of flooded packets, over all switches.
    pub(crate) fn copies(&self) -> i64 {
        each_kind!(self, switches => switches.iter().filter_map(|s| s.guard.as_ref()).map(|guard| guard.copies).sum())
    }

    /// Number of packets in the buffers of all switches.
    pub(crate) fn queued(&self) -> usize {
        each_kind!(self, switches => switches.iter().map(|switch| switch.buffer.queued()).sum())
    }
}

/// The inputs from which a partition's switches are built.
struct Builder<'s> {
    topology: &'s Topology,
    plan: &'s PartitionPlan,
    partition: usize,
    spec: &'s FabricSpec,
    seed: u64,
}

impl Builder<'_> {
    fn switches<B: Body, U: Buffer<B>>(&self, buffer: impl Fn(Shape) -> U) -> Vec<Switch<B, U>> {
        let spec = &self.spec.switch;
        let switch = |node: &u32| {
            let ports = self.plan.ports_of(self.topology, *node);
            let shape = Shape {
                ports: ports.len(),
                priorities: spec.priorities as usize,
                reads_egress: spec.ecn.is_some() || B::TELEMETRY || self.spec.paths.reads_queues(),
            };
            let first_of_all = self.topology.first_port[*node as usize].index();
            let paths = (self.spec.paths, self.spec.flowlet_gap);
            Switch::new(*node, ports, first_of_all, buffer(shape), spec, paths, self.seed)
        };
        self.plan.switches_of(self.partition).iter().map(switch).collect()
    }
}

fn run<B: Body, U: Buffer<B>, L: EventList>(
    switches: &mut [Switch<B, U>], first: usize, links: &mut Ports<B>, routes: &Routes, events: &mut L, start: u64,
    end: u64,
) {
    for (index, switch) in switches.iter_mut().enumerate() {
        if links.next_event[first + index] < end {
            let next = switch.run(links, routes, events, start, end);
            links.next_event[first + index] = next;
        }
    }
}
