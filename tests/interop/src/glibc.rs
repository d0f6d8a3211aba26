//! The function `rand` of the GNU C library, with which perftest fills its memory.

/// Returns the bytes that `count` calls of `(char)rand()` give after `srand(seed)`.
pub fn random_bytes(seed: u32, count: usize) -> Vec<u8> {
    // glibc uses an additive feedback generator, x^31 + x^3 + 1. The minimal generator of Park and Miller fills its
    // initial state, and its first 310 values are discarded.
    let mut state = vec![seed.max(1)];
    for at in 1..31 {
        state.push((u64::from(state[at - 1]) * 16_807 % 0x7fff_ffff) as u32);
    }
    for at in 31..34 {
        state.push(state[at - 31]);
    }
    for at in 34..344 + count {
        state.push(state[at - 3].wrapping_add(state[at - 31]));
    }
    state[344..].iter().map(|value| (value >> 1) as u8).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_known_start() {
        // rand() without srand(): 1804289383, 846930886, 1681692777, 1714636915, 1957747793.
        let expected = [1_804_289_383_u32, 846_930_886, 1_681_692_777, 1_714_636_915, 1_957_747_793];
        assert_eq!(random_bytes(1, 5), expected.map(|value| value as u8));
    }
}
