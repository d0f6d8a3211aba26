//! Adaptive routing: each packet takes the port of equal cost with the fewest queued bytes.

use super::{Candidates, ecmp};

/// The index of the candidate for whose port the fewest bytes wait, in the packet's priority. If several ports have the
/// fewest bytes, the packet's hash chooses among them as ECMP would, so that the packets of a flow keep their port
/// while the queues are equal.
pub(super) fn select(flow_hash: u32, candidates: Candidates<'_>, queued: impl Fn(u32) -> u64) -> u32 {
    let load = |index: u32| queued(candidates.port(index));
    let (mut fewest, mut ties) = (u64::MAX, 0);
    for bytes in (0..candidates.len).map(load) {
        if bytes < fewest {
            (fewest, ties) = (bytes, 0);
        }
        ties += u32::from(bytes == fewest);
    }
    let chosen = ecmp::index(flow_hash, candidates.salt, ties);
    let mut tied = (0..candidates.len).filter(|index| load(*index) == fewest);
    tied.nth(chosen as usize).unwrap_or(0)
}

#[cfg(test)]
mod tests {
    use super::*;

    const FOUR: Candidates<'_> = Candidates { ports: None, first: 10, len: 4, salt: 99 };

    #[test]
    fn the_port_with_the_fewest_bytes_is_taken() {
        let loads = [3_000, 1_000, 2_000, 1_001];
        for hash in 0..100 {
            assert_eq!(select(hash, FOUR, |port| loads[port as usize - 10]), 1);
        }
    }

    #[test]
    fn equal_ports_are_chosen_by_the_hash() {
        let loads = [500, 0, 0, 500];
        let mut taken = [0; 4];
        for hash in 0..1_000 {
            let index = select(hash, FOUR, |port| loads[port as usize - 10]);
            assert_eq!(index, 1 + ecmp::index(hash, 99, 2));
            taken[index as usize] += 1;
        }
        // 1,000 draws from 2 ports: 500 each, with a standard deviation of 16.
        assert!(taken[1] > 420 && taken[2] > 420 && taken[0] + taken[3] == 0, "{taken:?}");
        // Without queues the port is that of ECMP.
        assert!((0..100).all(|hash| select(hash, FOUR, |_| 0) == FOUR.by_hash(hash)));
    }

    #[test]
    fn listed_ports_are_asked_by_their_numbers() {
        let listed = Candidates { ports: Some(&[7, 3, 9]), first: 1, len: 2, salt: 0 };
        assert_eq!(select(5, listed, |port| if port == 9 { 0 } else { 64 }), 1);
    }
}
