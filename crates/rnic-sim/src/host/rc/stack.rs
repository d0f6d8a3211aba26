//! The network stack in the kernel of a simulated host: latencies, and cores that process messages and packets one
//! after the other.
//!
//! A packet that arrives waits for `receive_latency`, then for the core of its flow, and costs this core time before
//! the transport gets it. The core does other work during the latency. A flow that starts costs its core time, and its
//! first packet leaves after `send_latency`. Each further packet costs the core its share of a segment of [`OFFLOAD`]
//! bytes; the NIC may be ahead of the core by one such segment, because the core prepares a segment while the NIC sends
//! the previous one.

use crate::host::config::StackConfig;
use rnic_transport::Time;
use rnic_transport::transports::OFFLOAD;
use std::collections::VecDeque;

/// One core.
struct Core<P> {
    /// When it will have done all work that it has begun or that waits for it.
    busy: Time,
    /// Packets in their `receive_latency`: when it ends, and the CPU time that they will cost.
    coming: VecDeque<(Time, Time, P)>,
    /// Packets that the core has not processed, with the times when it will have.
    waiting: VecDeque<(Time, P)>,
}

impl<P> Core<P> {
    /// When a packet's latency ends or a packet is processed.
    fn next(&self) -> Time {
        let coming = self.coming.front().map_or(Time::MAX, |(ready, ..)| *ready);
        let waiting = self.waiting.front().map_or(Time::MAX, |(due, _)| *due);
        coming.min(waiting)
    }

    /// The core gets the packets whose latency has ended by `now`.
    fn admit(&mut self, now: Time) {
        while let Some((ready, cost, packet)) = self.coming.pop_front_if(|(ready, ..)| *ready <= now) {
            self.busy = self.busy.max(ready) + cost;
            self.waiting.push_back((self.busy, packet));
        }
    }
}

/// The network stack of one host, whose packets have the type `P`.
pub(super) struct Stack<P> {
    config: StackConfig,
    cores: Vec<Core<P>>,
    /// When a packet's latency ends or a packet is processed; [`Time::MAX`] if there is none.
    next: Time,
}

impl<P> Stack<P> {
    pub(super) fn new(config: StackConfig) -> Stack<P> {
        let core = || Core { busy: Time::ZERO, coming: VecDeque::new(), waiting: VecDeque::new() };
        Stack { config, cores: (0..config.cores).map(|_| core()).collect(), next: Time::MAX }
    }

    fn core(&mut self, hash: u32) -> &mut Core<P> {
        let count = self.cores.len();
        &mut self.cores[hash as usize % count]
    }

    /// The share that `bytes` bytes have of the cost of a segment.
    fn share(cost: Time, bytes: u32) -> Time {
        Time::from_ps((u128::from(cost.as_ps()) * u128::from(bytes) / u128::from(OFFLOAD)) as u64)
    }

    /// A flow starts. Returns when its first packet may leave, and the CPU time.
    pub(super) fn begin(&mut self, hash: u32, now: Time) -> (Time, Time) {
        let StackConfig { message, send_latency, .. } = self.config;
        let core = self.core(hash);
        core.busy = core.busy.max(now) + message;
        (core.busy.max(now + send_latency), message)
    }

    /// A packet with `payload` bytes leaves. Returns the CPU time.
    pub(super) fn send(&mut self, hash: u32, now: Time, payload: u32) -> Time {
        let cost = Self::share(self.config.send, payload);
        let core = self.core(hash);
        core.busy = core.busy.max(now) + cost;
        cost
    }

    /// When the next packet of a flow may leave.
    pub(super) fn may_send(&self, hash: u32) -> Time {
        self.cores[hash as usize % self.cores.len()].busy.saturating_sub(self.config.send)
    }

    /// A packet of the flow arrives, with `payload` bytes, or, at the sender, with an acknowledgement of `acked` bytes.
    /// Returns the CPU time.
    pub(super) fn arrive(&mut self, hash: u32, now: Time, (payload, acked): (u32, u32), packet: P) -> Time {
        let StackConfig { receive, receive_latency, message, .. } = self.config;
        let cost = Self::share(receive, payload) + Self::share(message, acked);
        let ready = now + receive_latency;
        self.core(hash).coming.push_back((ready, cost, packet));
        self.next = self.next.min(ready);
        cost
    }

    /// The last byte of a flow has arrived. Returns when the flow's application has it, and the CPU time.
    pub(super) fn finish(&mut self, hash: u32, now: Time) -> (Time, Time) {
        let StackConfig { message, wake_latency, .. } = self.config;
        let core = self.core(hash);
        core.busy = core.busy.max(now) + message;
        (core.busy + wake_latency, message)
    }

    /// When [`Stack::take`] has something to do; [`Time::MAX`] if there is nothing.
    pub(super) fn next(&self) -> Time {
        self.next
    }

    /// Takes the next packet that is processed by `now`. Packets whose latency has ended get their turns on the cores.
    pub(super) fn take(&mut self, now: Time) -> Option<P> {
        if self.next > now {
            return None;
        }
        self.cores.iter_mut().for_each(|core| core.admit(now));
        let due = |core: &Core<P>| core.waiting.front().map_or(Time::MAX, |(due, _)| *due);
        let first = (0..self.cores.len()).min_by_key(|at| due(&self.cores[*at]))?;
        let taken = self.cores[first].waiting.pop_front_if(|(due, _)| *due <= now);
        self.next = self.cores.iter().map(Core::next).min().unwrap_or(Time::MAX);
        taken.map(|(_, packet)| packet)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const CONFIG: StackConfig = StackConfig {
        send_latency: Time::from_us(6),
        receive_latency: Time::from_us(8),
        wake_latency: Time::from_us(10),
        message: Time::from_us(2),
        send: Time::from_us(64),
        receive: Time::from_us(128),
        cores: 2,
    };

    #[test]
    fn a_message_of_one_packet_by_hand() {
        let us = Time::from_us;
        let mut sender = Stack::<u32>::new(CONFIG);
        // 2 us of CPU time are within the latency of 6 us.
        assert_eq!(sender.begin(0, us(100)), (us(106), us(2)));
        // 1,024 bytes are a 64th of a segment.
        assert_eq!(sender.send(0, us(106), 1_024), us(1));
        assert_eq!(sender.may_send(0), us(107).saturating_sub(us(64)), "the NIC is ahead by a segment");

        let mut receiver = Stack::new(CONFIG);
        assert_eq!(receiver.arrive(0, us(110), (1_024, 0), 7), us(2));
        assert_eq!((receiver.take(us(117)), receiver.next()), (None, us(118)), "its latency of 8 us");
        assert_eq!((receiver.take(us(118)), receiver.next()), (None, us(120)), "2 us of the core");
        assert_eq!(receiver.take(us(120)), Some(7));
        assert_eq!(receiver.finish(0, us(120)), (us(132), us(2)));
        assert_eq!(receiver.next(), Time::MAX);
    }

    /// The latency of an interrupt is no work: a packet in it keeps no other from the core.
    #[test]
    fn a_core_works_during_the_latency_of_a_packet() {
        let us = Time::from_us;
        let mut stack = Stack::new(CONFIG);
        // An acknowledgement arrives at 100 us, and the core may send at once, ahead by a segment of 64 us.
        stack.arrive(0, us(100), (0, 2_048), 'a');
        assert!(stack.may_send(0) <= us(100));
        // The core has work until 130 us; at 108 us the acknowledgement waits behind it, for its share of a message.
        for _ in 0..30 {
            stack.send(0, us(100), 1_024);
        }
        assert_eq!((stack.take(us(108)), stack.next()), (None, us(130) + Time::from_ps(62_500)));
        assert_eq!(stack.take(stack.next()), Some('a'));
    }

    #[test]
    fn packets_wait_for_the_core_of_their_flow() {
        let us = Time::from_us;
        let mut stack = Stack::new(CONFIG);
        for (hash, packet) in [(0, 'a'), (0, 'b'), (1, 'c'), (2, 'd')] {
            stack.arrive(hash, us(0), (2_048, 0), packet);
        }
        // A packet costs 4 us. Flows 0 and 2 share a core.
        let mut order = Vec::new();
        for now in [8, 12, 16, 20] {
            while let Some(packet) = stack.take(us(now)) {
                order.push((now, packet));
            }
        }
        assert_eq!(order, [(12, 'a'), (12, 'c'), (16, 'b'), (20, 'd')]);
    }
}
