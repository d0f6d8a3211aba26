//! A NIC whose logic is hardware: blocks that begin an operation in each cycle, but for one queue pair only after its
//! previous operation.
//!
//! One block serves the sending ends of flows (a packet that leaves, an ACK or NACK that arrives), the other the
//! receiving ends (a data packet that arrives). The transport gets an arriving packet when its operation is done.

use crate::host::config::PipelineConfig;
use crate::host::ids::EndSlot;
use rnic_transport::Time;
use std::collections::VecDeque;

/// A block: its operations that are under way.
#[derive(Default)]
struct Block {
    /// When the next operation may begin.
    free: Time,
    /// Ends with an operation, and when the next operation of the end may begin, in the order of times.
    busy: VecDeque<(Time, EndSlot)>,
}

impl Block {
    /// When an operation of an end may begin.
    fn next(&mut self, slot: EndSlot, now: Time) -> Time {
        while self.busy.front().is_some_and(|(until, _)| *until <= now) {
            self.busy.pop_front();
        }
        let own = self.busy.iter().rev().find(|(_, other)| *other == slot);
        own.map_or(Time::ZERO, |(until, _)| *until).max(self.free).max(now)
    }

    /// Begins an operation as soon as possible, and returns when.
    fn begin(&mut self, config: &PipelineConfig, slot: EndSlot, now: Time) -> Time {
        let at = self.next(slot, now);
        self.free = at + config.cycle;
        self.busy.push_back((at + config.latency + config.cycle, slot));
        at
    }
}

/// The blocks of one NIC, whose packets have the type `P`.
pub(super) struct Pipeline<P> {
    config: PipelineConfig,
    senders: Block,
    receivers: Block,
    /// Packets whose operation is not done, with the times when it will be: those for sending and for receiving ends.
    arrived: [VecDeque<(Time, P)>; 2],
}

impl<P> Pipeline<P> {
    pub(super) fn new(config: PipelineConfig) -> Pipeline<P> {
        Pipeline {
            config,
            senders: Block::default(),
            receivers: Block::default(),
            arrived: [VecDeque::new(), VecDeque::new()],
        }
    }

    /// Begins the operation of a sending end whose packet leaves.
    ///
    /// # Errors
    /// If the block or the end is busy: when the operation may begin.
    pub(super) fn send(&mut self, slot: EndSlot, now: Time) -> Result<(), Time> {
        let at = self.senders.next(slot, now);
        if at > now {
            return Err(at);
        }
        self.senders.begin(&self.config, slot, now);
        Ok(())
    }

    /// A packet arrives for the end in `slot`.
    pub(super) fn arrive(&mut self, slot: EndSlot, receiving: bool, now: Time, packet: P) {
        let block = if receiving { &mut self.receivers } else { &mut self.senders };
        let at = block.begin(&self.config, slot, now);
        self.arrived[usize::from(receiving)].push_back((at + self.config.latency, packet));
    }

    /// When the operation of the next packet is done; [`Time::MAX`] if there is none.
    pub(super) fn next(&self) -> Time {
        self.arrived.iter().filter_map(|packets| packets.front()).map(|(at, _)| *at).min().unwrap_or(Time::MAX)
    }

    /// Takes the next packet whose operation is done by `now`.
    pub(super) fn take(&mut self, now: Time) -> Option<P> {
        let next = self.next();
        let packets = self.arrived.iter_mut().find(|packets| packets.front().is_some_and(|(at, _)| *at == next))?;
        let (_, packet) = packets.pop_front_if(|(at, _)| *at <= now)?;
        Some(packet)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn operations_by_hand() {
        let ns = Time::from_ns;
        let mut pipeline = Pipeline::new(PipelineConfig { cycle: ns(4), latency: ns(24) });
        let [a, b] = [EndSlot(0), EndSlot(1)];
        // An operation of one end waits for six cycles and one, that of another end for a cycle.
        assert_eq!(pipeline.send(a, ns(100)), Ok(()));
        assert_eq!((pipeline.send(a, ns(101)), pipeline.send(b, ns(101))), (Err(ns(128)), Err(ns(104))));
        assert_eq!(pipeline.send(b, ns(104)), Ok(()));
        // The ACK's operation begins at 128 and ends at 152. The receiving end in the same slot is in another block.
        pipeline.arrive(a, false, ns(110), "ACK");
        pipeline.arrive(a, true, ns(112), "data");
        pipeline.arrive(b, true, ns(112), "more data");
        assert_eq!((pipeline.next(), pipeline.take(ns(135))), (ns(136), None));
        assert_eq!((pipeline.take(ns(136)), pipeline.next()), (Some("data"), ns(140)));
        assert_eq!((pipeline.take(ns(140)), pipeline.next()), (Some("more data"), ns(152)));
        assert_eq!((pipeline.take(ns(152)), pipeline.next()), (Some("ACK"), Time::MAX));
        assert_eq!(pipeline.take(ns(1_000)), None);
    }
}
