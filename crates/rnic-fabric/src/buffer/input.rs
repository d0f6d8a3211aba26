//! The buffer of the input-queued switch of the IRN paper (section 4.1), with virtual output queues.
//!
//! A packet waits at its input in a queue for its output. When the output is free, the arbiter chooses the input that
//! sends ([`InputArbiter`]). An input may feed several outputs at the same time, as in a crossbar with enough speed-up.
//! A packet leaves its input buffer when its transmission begins. Each input port has `buffer` bytes per priority; the
//! switch drops a packet that does not fit. With PFC, an occupancy above `xoff` pauses the upstream transmitter in that
//! priority. When the occupancy has fallen to `xon`, the transmitter resumes. Packets that still arrive before the
//! pause takes effect are stored in `headroom` bytes above `xoff`.

use super::arbiter::{Arbiter, ArbiterSpec};
use super::cells::{Cells, Queue};
use super::{Buffer, Shape, Stored};
use crate::packet::Packet;
use crate::scheduler::Head;
use rnic_transport::Bytes;

/// The buffers of an input-queued switch: one for each input port and priority.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct InputSpec {
    /// Size of the buffer of each input port and priority without PFC. With PFC this field has no effect: the size is
    /// `xoff` plus `headroom`.
    pub buffer: Bytes,
    /// PFC, or `None` for a lossy fabric.
    pub pfc: Option<PfcThresholds>,
    /// How an output chooses among the inputs that have packets for it.
    pub arbiter: ArbiterSpec,
    /// Hysteresis of a full buffer: after an input port has dropped a packet, it drops all packets of that priority
    /// until this many bytes of its buffer are free. 0: it accepts every packet that fits.
    pub drop_until_free: Bytes,
}

impl InputSpec {
    /// Whether the inputs take turns, and a full buffer has no hysteresis.
    pub(crate) fn is_plain(&self) -> bool {
        matches!(self.arbiter, ArbiterSpec::RoundRobin(_)) && self.drop_until_free == Bytes(0)
    }

    /// A buffer of this size for each input port and priority, without PFC. The inputs take turns of one packet; for
    /// longer turns, set [`InputSpec::arbiter`].
    pub fn lossy(buffer: Bytes) -> InputSpec {
        InputSpec { buffer, pfc: None, arbiter: ArbiterSpec::PACKET_BY_PACKET, drop_until_free: Bytes(0) }
    }
}

/// Priority flow control (IEEE 802.1Qbb): thresholds in bytes of an input port's occupancy in one priority.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct PfcThresholds {
    /// Pause threshold: an occupancy above `xoff` pauses the upstream transmitter.
    pub xoff: Bytes,
    /// Resume threshold: an occupancy that has fallen to `xon` or below resumes the upstream transmitter.
    pub xon: Bytes,
    /// Buffer reserved above `xoff` for packets that arrive after the pause threshold was crossed; the switch drops a
    /// packet that does not fit into the headroom.
    pub headroom: Bytes,
}

/// Size and PFC thresholds of each buffer, in bytes; without PFC, `xoff` is so large that no occupancy reaches it.
#[derive(Clone, Copy)]
struct Thresholds {
    buffer: u32,
    xoff: u32,
    xon: u32,
    /// Occupancy at or below which a port that drops all packets, because of [`InputSpec::drop_until_free`], accepts
    /// packets again.
    accept: u32,
}

/// The buffers of all inputs of a switch. `HYSTERESIS`: `drop_until_free` may be set.
pub(crate) struct InputBuffer<B, A, const HYSTERESIS: bool> {
    ports: usize,
    priorities: usize,
    thresholds: Thresholds,
    /// Virtual output queues, per (output, priority, input).
    queues: Vec<Queue>,
    /// The arbiter, with one lane per (output, priority).
    arbiter: A,
    /// Per output: bitmap of priorities with a non-empty queue.
    backlog: Vec<u8>,
    /// Per (input, priority): bytes queued.
    occupancy: Vec<u32>,
    /// Per (input, priority): whether the input drops all packets until enough bytes are free. The vector is empty
    /// unless `drop_until_free` is set.
    drops: Vec<bool>,
    /// Per (output, priority): bytes at all inputs that wait for the output. The vector is empty unless ECN, telemetry
    /// or a path selection reads it.
    egress: Vec<u64>,
    cells: Cells<Packet<B>>,
}

impl<B: Copy, A: Arbiter, const HYSTERESIS: bool> InputBuffer<B, A, HYSTERESIS> {
    pub(crate) fn new(spec: &InputSpec, shape: Shape) -> InputBuffer<B, A, HYSTERESIS> {
        let Shape { ports, priorities, reads_egress } = shape;
        let limit = |bytes: u64| bytes.min(u64::from(u32::MAX / 2)) as u32;
        let buffer = limit(spec.pfc.map_or(spec.buffer.0, |pfc| pfc.xoff.0 + pfc.headroom.0));
        let thresholds = Thresholds {
            buffer,
            xoff: spec.pfc.map_or(u32::MAX, |pfc| limit(pfc.xoff.0)),
            xon: spec.pfc.map_or(0, |pfc| limit(pfc.xon.0)),
            accept: buffer.saturating_sub(limit(spec.drop_until_free.0)),
        };
        let hysteresis = spec.drop_until_free > Bytes(0);
        InputBuffer {
            ports,
            priorities,
            thresholds,
            queues: vec![Queue::EMPTY; ports * priorities * ports],
            arbiter: A::new(spec.arbiter, ports * priorities, ports),
            backlog: vec![0; ports],
            occupancy: vec![0; ports * priorities],
            drops: vec![false; if hysteresis { ports * priorities } else { 0 }],
            egress: vec![0; if reads_egress { ports * priorities } else { 0 }],
            cells: Cells::new(),
        }
    }
}

impl<B: Copy, A, const HYSTERESIS: bool> InputBuffer<B, A, HYSTERESIS> {
    /// The bytes in the queues of a lane (output and priority), counted packet by packet.
    fn walk(&self, lane: usize) -> u64 {
        let queues = &self.queues[lane * self.ports..(lane + 1) * self.ports];
        queues.iter().flat_map(|queue| self.cells.iter(queue)).map(|packet| u64::from(packet.bytes)).sum()
    }

    /// Adds the bytes of an input in a priority to `held`, by outputs.
    ///
    /// The function takes one packet of each queue in turn, until one queue is left: this queue has the rest of the
    /// input's bytes. So the number of packets depends on the second longest queue, and is small where most packets
    /// wait for the same output.
    fn held_of(&self, input: usize, priority: usize, held: &mut [u64]) {
        let cell = input * self.priorities + priority;
        let mut rest = u64::from(self.occupancy[cell]);
        if rest == 0 {
            return;
        }
        let queue = |output: usize| &self.queues[(output * self.priorities + priority) * self.ports + input];
        let waits = |output: &usize| self.backlog[*output] & 1 << priority != 0 && !queue(*output).is_empty();
        let outputs = (0..self.ports).filter(waits);
        let mut queues: Vec<_> = outputs.map(|output| (output, self.cells.iter(queue(output)))).collect();
        while queues.len() > 1 {
            queues.retain_mut(|(output, packets)| {
                let bytes = packets.next().map(|packet| u64::from(packet.bytes));
                held[*output] += bytes.unwrap_or(0);
                rest -= bytes.unwrap_or(0);
                bytes.is_some()
            });
        }
        if let [(output, _)] = queues.as_slice() {
            held[*output] += rest;
        }
    }
}

impl<B: Copy, A: Arbiter, const HYSTERESIS: bool> Buffer<B> for InputBuffer<B, A, HYSTERESIS> {
    #[inline(always)]
    fn admits(&self, input: usize, _output: usize, packet: &Packet<B>) -> bool {
        let cell = input * self.priorities + packet.priority as usize;
        let fits = self.occupancy[cell] + u32::from(packet.bytes) <= self.thresholds.buffer;
        fits && !(HYSTERESIS && self.drops.get(cell).is_some_and(|drops| *drops))
    }

    fn refused(&mut self, input: usize, priority: usize) {
        if let Some(drops) = self.drops.get_mut(input * self.priorities + priority) {
            *drops = true;
        }
    }

    #[inline(always)]
    fn egress(&self, output: usize, priority: usize) -> u64 {
        self.egress.get(output * self.priorities + priority).copied().unwrap_or(0)
    }

    fn add_queued(&self, priority: usize, queued: &mut [u64]) {
        if self.egress.is_empty() {
            (0..self.ports).for_each(|input| self.held_of(input, priority, queued));
        } else {
            queued.iter_mut().enumerate().for_each(|(output, bytes)| *bytes += self.egress(output, priority));
        }
    }

    fn queued_bytes(&self, output: usize, priority: usize) -> u64 {
        let lane = output * self.priorities + priority;
        self.egress.get(lane).copied().unwrap_or_else(|| self.walk(lane))
    }

    #[inline(always)]
    fn push(&mut self, input: usize, output: usize, packet: Packet<B>) -> Stored {
        let priority = packet.priority as usize;
        let lane = output * self.priorities + priority;
        if let Some(bytes) = self.egress.get_mut(lane) {
            *bytes += u64::from(packet.bytes);
        }
        let queue = &mut self.queues[lane * self.ports + input];
        let is_first = queue.is_empty();
        if is_first {
            self.backlog[output] |= 1 << priority;
        }
        self.arbiter.pushed(lane, input, is_first);
        self.cells.push(queue, packet);
        let occupancy = &mut self.occupancy[input * self.priorities + priority];
        *occupancy += u32::from(packet.bytes);
        Stored { occupancy: u64::from(*occupancy), pause: *occupancy > self.thresholds.xoff }
    }

    #[inline(always)]
    fn head(&self, output: usize, priority: usize) -> Head {
        let lane = output * self.priorities + priority;
        let queue = &self.queues[lane * self.ports + self.arbiter.next(lane)];
        let is_last = queue.is_single() && self.arbiter.is_single(lane);
        Head { bytes: self.cells.first(queue).bytes, is_last }
    }

    #[inline(always)]
    fn pop(&mut self, output: usize, priority: usize) -> (Packet<B>, usize) {
        let lane = output * self.priorities + priority;
        let input = self.arbiter.next(lane);
        let queue = &mut self.queues[lane * self.ports + input];
        let packet = self.cells.pop(queue);
        if let Some(bytes) = self.egress.get_mut(lane) {
            *bytes -= u64::from(packet.bytes);
        }
        if self.arbiter.popped(lane, input, packet.bytes, queue.is_empty()) {
            self.backlog[output] &= !(1 << priority);
        }
        let cell = input * self.priorities + priority;
        self.occupancy[cell] -= u32::from(packet.bytes);
        if HYSTERESIS && let Some(drops) = self.drops.get_mut(cell) {
            *drops &= self.occupancy[cell] > self.thresholds.accept;
        }
        (packet, input)
    }

    #[inline(always)]
    fn passed(&mut self, input: usize, output: usize, packet: &Packet<B>) {
        self.arbiter.passed(output * self.priorities + packet.priority as usize, input, packet.bytes);
    }

    #[inline(always)]
    fn may_resume(&self, input: usize, priority: usize) -> bool {
        self.occupancy[input * self.priorities + priority] <= self.thresholds.xon
    }

    #[inline(always)]
    fn backlog(&self, output: usize) -> u8 {
        self.backlog[output]
    }

    fn queued(&self) -> usize {
        self.cells.used()
    }

    fn occupancy(&self, input: usize, priority: usize) -> u64 {
        u64::from(self.occupancy[input * self.priorities + priority])
    }

    fn held(&self, inputs: &[usize], priority: usize, held: &mut [u64]) {
        for (input, row) in inputs.iter().zip(held.chunks_exact_mut(self.ports)) {
            self.held_of(*input, priority, row);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::super::RoundRobin;
    use super::*;
    use proptest::prelude::*;

    proptest! {
        /// For any sequence of arrivals and departures, the bytes of each input are known by outputs.
        #[test]
        fn the_bytes_of_an_input_are_counted_by_outputs(
            steps in prop::collection::vec((0usize..4, 0usize..4, 0u8..2, 64u16..1_600, any::<bool>()), 1..400),
        ) {
            let shape = Shape { ports: 4, priorities: 2, reads_egress: false };
            let mut buffer = InputBuffer::<u32, RoundRobin, false>::new(&InputSpec::lossy(Bytes(50_000)), shape);
            let mut model = [[[0; 4]; 4]; 2];
            for (input, output, priority, bytes, leaves) in steps {
                let packet = Packet { bytes, priority, ..Packet::default() };
                if leaves && buffer.backlog(output) & 1 << priority != 0 {
                    let (packet, input) = buffer.pop(output, usize::from(priority));
                    model[usize::from(priority)][input][output] -= u64::from(packet.bytes);
                } else if buffer.admits(input, output, &packet) {
                    buffer.push(input, output, packet);
                    model[usize::from(priority)][input][output] += u64::from(bytes);
                }
                for (priority, model) in model.iter().enumerate() {
                    let mut queued = [0; 4];
                    buffer.add_queued(priority, &mut queued);
                    let sums: [u64; 4] = std::array::from_fn(|output| model.iter().map(|by| by[output]).sum());
                    prop_assert_eq!(queued, sums);
                    let mut held = [1; 2 * 4];
                    buffer.held(&[3, 0], priority, &mut held);
                    prop_assert_eq!(held.map(|bytes| bytes - 1).to_vec(), [model[3], model[0]].concat());
                }
            }
        }
    }
}
