//! Short labels for the keys that a sweep varies.

/// For each dotted path in `keys`, the shortest suffix that no other path of `keys` has. Names of runs show these
/// suffixes as labels for the keys of a sweep.
///
/// ```
/// assert_eq!(rnic_spec::short_keys(&["traffic.a.load", "traffic.b.load", "seed"]), ["a.load", "b.load", "seed"]);
/// ```
pub fn short_keys(keys: &[&str]) -> Vec<String> {
    let ends_in = |key: &str, end: &str| key == end || key.ends_with(&format!(".{end}"));
    let short = |key: &&str| {
        let starts = key.char_indices().rev().filter(|(_, c)| *c == '.').map(|(at, _)| at + 1).chain([0]);
        let mut ends = starts.map(|start| &key[start..]);
        ends.find(|end| keys.iter().filter(|other| ends_in(other, end)).count() == 1).unwrap_or(key).to_string()
    };
    keys.iter().map(short).collect()
}

#[cfg(test)]
mod tests {
    use super::short_keys;

    #[test]
    fn labels_are_as_short_as_they_can_be() {
        assert_eq!(short_keys(&["traffic.load", "fabric.k", "seed"]), ["load", "k", "seed"]);
        assert_eq!(short_keys(&["traffic.a.load", "traffic.b.load"]), ["a.load", "b.load"]);
        assert_eq!(short_keys(&["fabric.rate", "fabric.switch.rate"]), ["fabric.rate", "switch.rate"]);
        assert_eq!(short_keys(&[]), [""; 0]);
    }
}
