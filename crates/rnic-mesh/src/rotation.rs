//! Which UDP source ports a pair of hosts uses, and how they change over time.
//!
//! An agent has [`MAX_PATHS`] source ports, and a pair of hosts uses some of them. If ECMP hashes one port to a bad
//! link, the fault is not detected as long as no pair uses this port. So the ports of a pair change: at each rotation a
//! fifth of all paths change their port, as in R-Pingmesh (20 % per hour). Both hosts of a pair use the same path
//! numbers at any time, because a response uses the path number of its probe, and the localisation combines the traces
//! of both hosts.

use crate::record::MAX_PATHS;

/// Number of rotations until every path has changed.
pub const ROUNDS: u64 = 5;

/// A hash of 64 bits: FNV-1a with the finaliser of SplitMix64 (Steele, Lea, Flood, 2014).
fn hash(text: &[&str], number: u64) -> u64 {
    let bytes = text.iter().flat_map(|text| text.bytes().chain([0])).chain(number.to_le_bytes());
    let z = bytes.fold(0xcbf2_9ce4_8422_2325_u64, |hash, byte| (hash ^ u64::from(byte)).wrapping_mul(0x100_0000_01b3));
    let z = (z ^ (z >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
    let z = (z ^ (z >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
    z ^ (z >> 31)
}

/// The numbers of the paths between two hosts at a rotation. The order of the hosts does not matter. With `rotation` 0,
/// which means that the mesh does not rotate, the numbers are 0, 1, 2 and so on.
pub fn paths(a: &str, b: &str, rotation: u64, count: u16) -> Vec<u16> {
    if rotation == 0 {
        return (0..count).collect();
    }
    let pair = [a.min(b), a.max(b)];
    // Each path has its own set of numbers, through which it rotates.
    let own = u64::from(MAX_PATHS / count.max(1)).max(1);
    let path = |index: u16| {
        let (phase, start) = (hash(&pair, u64::from(index)), hash(&pair, 1 << 32 | u64::from(index)));
        // The sum may wrap around; the path then changes once more.
        let turn = rotation.wrapping_add(phase % ROUNDS) / ROUNDS;
        let number = (start % own).wrapping_add(turn) % own;
        index + (number as u16) * count
    };
    (0..count).map(path).collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::collections::BTreeSet;

    #[test]
    fn a_fifth_of_the_paths_changes_each_time() {
        let pairs: Vec<(String, String)> = (0..200).map(|n| (format!("a{n}"), format!("b{n}"))).collect();
        for rotation in 1..30 {
            let mut changed = 0;
            for (a, b) in &pairs {
                let (now, next) = (paths(a, b, rotation, 4), paths(b, a, rotation + 1, 4));
                let different: BTreeSet<u16> = now.iter().copied().collect();
                assert!(different.len() == 4 && now.iter().all(|path| *path < MAX_PATHS), "{now:?}");
                changed += now.iter().zip(&next).filter(|(a, b)| a != b).count();
            }
            assert!((120..200).contains(&changed), "{changed} of 800");
        }
    }

    /// Over time a pair uses all ports.
    #[test]
    fn every_port_is_used() {
        let used: BTreeSet<u16> = (1..=16 * ROUNDS).flat_map(|rotation| paths("x", "y", rotation, 4)).collect();
        assert_eq!(used.len(), usize::from(MAX_PATHS));
        assert_eq!(paths("x", "y", 0, 3), [0, 1, 2]);
        assert_eq!(paths("x", "y", 77, MAX_PATHS).len(), 64);
    }
}
