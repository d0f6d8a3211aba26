//! Which of a host's transports sends next, if several have a packet.
//!
//! The transports take turns as the priorities do at an output of the switches: by the same scheduler with the same
//! weights. A switch sees the length of a packet before it chooses; here a transport hands over a packet when it has
//! been chosen. So a transport may send while its deficit is above zero, and a packet that is longer leaves a debt for
//! its next turn (surplus round robin; Adiseshu, Parulkar and Varghese, SIGCOMM 1996). In the long run the shares are
//! those of deficit round robin.

use rnic_fabric::config::SchedulerSpec;

/// Quantum of a weight of 1 in bytes, as in the deficit round robin of the switches.
const QUANTUM: i64 = 1_600;

/// How the transports of a host share its link.
#[derive(Clone, Copy, PartialEq, Debug)]
pub(crate) struct Sharing {
    /// What a transport may send in a turn, by stack; 0 for a transport that goes before all others with a quantum.
    quantum: [i64; 8],
    /// Whether the quantum is a number of bytes; otherwise it is a number of packets.
    in_bytes: bool,
    stacks: u8,
}

impl Sharing {
    /// Sharing by the scheduler of the switches. `priorities` are those of the stacks, in ascending order.
    pub(crate) fn new(scheduler: &SchedulerSpec, priorities: &[u8]) -> Sharing {
        let mut quantum = [0; 8];
        for (stack, priority) in priorities.iter().enumerate() {
            quantum[stack] = match scheduler {
                SchedulerSpec::Strict { .. } => 0,
                SchedulerSpec::RoundRobin => 1,
                SchedulerSpec::DeficitRoundRobin(weights) => i64::from(weights[usize::from(*priority)]) * QUANTUM,
                SchedulerSpec::WeightedRoundRobin(weights) => i64::from(weights[usize::from(*priority)]),
            };
        }
        let in_bytes = matches!(scheduler, SchedulerSpec::DeficitRoundRobin(_));
        Sharing { quantum, in_bytes, stacks: priorities.len() as u8 }
    }
}

/// The state of the turns at one host.
#[derive(Clone, Copy, Default)]
pub(super) struct Turns {
    /// What each transport may still send in its turn.
    deficit: [i64; 8],
    turn: u8,
}

impl Turns {
    /// Asks the transports for a packet in the order of their turns. `send` returns the packet of a transport and its
    /// length in bytes, or `None` if it has none.
    pub(super) fn next<P>(
        &mut self, sharing: &Sharing, mut send: impl FnMut(usize) -> Option<(P, u16)>,
    ) -> Option<(usize, P)> {
        let stacks = usize::from(sharing.stacks);
        // Strict priority: the highest first.
        for stack in (0..stacks).rev().filter(|stack| sharing.quantum[*stack] == 0) {
            if let Some((packet, _)) = send(stack) {
                return Some((stack, packet));
            }
        }
        let mut empty = (0..stacks).filter(|stack| sharing.quantum[*stack] == 0).count();
        let mut asked = [false; 8];
        while empty < stacks {
            let stack = usize::from(self.turn);
            if sharing.quantum[stack] > 0 && !asked[stack] && self.deficit[stack] > 0 {
                match send(stack) {
                    Some((packet, bytes)) => {
                        self.deficit[stack] -= if sharing.in_bytes { i64::from(bytes) } else { 1 };
                        return Some((stack, packet));
                    }
                    None => {
                        // A transport without packets keeps no deficit.
                        self.deficit[stack] = 0;
                        (asked[stack], empty) = (true, empty + 1);
                    }
                }
            }
            self.turn = if stack + 1 == stacks { 0 } else { self.turn + 1 };
            let next = usize::from(self.turn);
            if !asked[next] {
                self.deficit[next] += sharing.quantum[next];
            }
        }
        None
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The stacks that send, if those in `ready` always have packets of these lengths.
    fn order(sharing: &Sharing, lengths: &[Option<u16>], packets: usize) -> Vec<usize> {
        let mut turns = Turns::default();
        let mut next = || turns.next(sharing, |stack| Some(((), lengths[stack]?)));
        (0..packets).map_while(|_| Some(next()?.0)).collect()
    }

    #[test]
    fn bytes_are_shared_by_weights() {
        let drr = SchedulerSpec::DeficitRoundRobin([1, 3, 0, 0, 0, 0, 0, 0]);
        // Packets of 1,600 bytes are one quantum: three of the second stack for each of the first.
        let sharing = Sharing::new(&drr, &[0, 1]);
        assert_eq!(order(&sharing, &[Some(1_600), Some(1_600)], 8), [1, 1, 1, 0, 1, 1, 1, 0]);
        // Packets of 3,200 bytes of the first stack leave a debt of 1,600: one in every second round.
        let sent = order(&sharing, &[Some(3_200), Some(1_600)], 70);
        assert_eq!(sent.iter().filter(|stack| **stack == 0).count(), 10);
    }

    #[test]
    fn packets_are_shared_by_weights() {
        let wrr = SchedulerSpec::WeightedRoundRobin([2, 0, 1, 0, 0, 0, 0, 0]);
        let sharing = Sharing::new(&wrr, &[0, 2]);
        assert_eq!(order(&sharing, &[Some(64), Some(9_000)], 6), [1, 0, 0, 1, 0, 0]);
        assert_eq!(order(&Sharing::new(&SchedulerSpec::RoundRobin, &[0, 1]), &[Some(64), Some(64)], 4), [1, 0, 1, 0]);
    }

    #[test]
    fn the_highest_priority_goes_first() {
        let sharing = Sharing::new(&SchedulerSpec::STRICT, &[0, 3]);
        assert_eq!(order(&sharing, &[Some(64), Some(64)], 2), [1, 1]);
        assert_eq!(order(&sharing, &[Some(64), None], 2), [0, 0]);
        // A weight of 0 is strict, too.
        let sharing = Sharing::new(&SchedulerSpec::DeficitRoundRobin([0, 1, 0, 0, 0, 0, 0, 0]), &[0, 1]);
        assert_eq!(order(&sharing, &[Some(64), Some(64)], 2), [0, 0]);
    }

    #[test]
    fn a_link_is_never_idle_while_a_transport_has_packets() {
        let sharing = Sharing::new(&SchedulerSpec::DeficitRoundRobin([1, 1, 0, 0, 0, 0, 0, 0]), &[0, 1]);
        assert_eq!(order(&sharing, &[Some(9_000), None], 3), [0, 0, 0]);
        assert!(order(&sharing, &[None, None], 3).is_empty());
    }
}
