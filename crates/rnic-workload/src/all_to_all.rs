//! All-to-all traffic: in each repetition, every host sends a flow to every other host, all at the same time.

use super::network::Network;
use super::rng::Stream;
use super::{FlowSpec, SizeDistribution};
use rnic_transport::Time;

/// A source of all-to-all traffic. It creates its flows one by one, so its memory does not grow with the square of the
/// number of hosts.
#[derive(Debug)]
pub(crate) struct AllToAll {
    traffic: u16,
    seed: u64,
    hosts: u32,
    sizes: SizeDistribution,
    interval: Time,
    repeats: u32,
    /// Start of the current repetition, or of all repetitions if they start at the same time.
    start: Time,
    /// Random streams for flow sizes, one for each repetition that starts at `start`.
    streams: Vec<Stream>,
    next_round: u32,
    /// Sender of the next flow; equal to `hosts` if the current repetitions have no flow left.
    src: u32,
    /// The repetition of the next flow, as an index into `streams`.
    round: usize,
    /// Receiver of the next flow.
    dst: u32,
}

impl AllToAll {
    /// Creates a source of all-to-all traffic with `repeats` repetitions. The first starts at `start`, and each other
    /// starts one `interval` after the previous repetition.
    pub(crate) fn new(
        index: u16, start: Time, sizes: &SizeDistribution, (repeats, interval): (u32, Time), network: &Network,
        seed: u64,
    ) -> AllToAll {
        AllToAll {
            traffic: index,
            seed,
            hosts: network.hosts,
            sizes: sizes.clone(),
            interval,
            repeats,
            start,
            streams: Vec::new(),
            next_round: 0,
            src: network.hosts,
            round: 0,
            dst: 0,
        }
    }

    /// Number of flows in all repetitions together.
    pub(crate) fn total(hosts: u32, repeats: u32) -> u64 {
        (u64::from(hosts) * u64::from(hosts - 1)).saturating_mul(u64::from(repeats))
    }

    /// Returns the next flow; flows are ordered by start, sender, repetition and receiver.
    pub(crate) fn next(&mut self) -> Option<FlowSpec> {
        if self.src == self.hosts && !self.begin() {
            return None;
        }
        let bytes = self.sizes.sample(self.streams[self.round].unit());
        let request = FlowSpec::NO_REQUEST;
        let (start, src, dst, traffic) = (self.start, self.src, self.dst, self.traffic);
        self.advance();
        Some(FlowSpec { start, src, dst, bytes, request, traffic, measured: true, hash: None })
    }

    /// Begins the next repetition of the all-to-all traffic, or all repetitions if they start at the same time; returns
    /// `false` if no repetition is left.
    fn begin(&mut self) -> bool {
        if self.next_round == self.repeats {
            return false;
        }
        self.start += if self.next_round > 0 { self.interval } else { Time::ZERO };
        let together = if self.interval > Time::ZERO { 1 } else { self.repeats };
        let rounds = self.next_round..self.next_round + together;
        self.streams = rounds.map(|round| Stream::new(self.seed, self.traffic, u64::from(round))).collect();
        self.next_round += together;
        (self.src, self.round, self.dst) = (0, 0, 1);
        true
    }

    /// Moves from the current flow to the flow to the next receiver. After the last receiver it moves to the next
    /// repetition, and after the last repetition to the next sender.
    fn advance(&mut self) {
        self.dst += 1;
        self.dst += u32::from(self.dst == self.src);
        if self.dst < self.hosts {
            return;
        }
        self.round += 1;
        if self.round == self.streams.len() {
            (self.src, self.round) = (self.src + 1, 0);
        }
        self.dst = u32::from(self.src == 0);
    }
}
