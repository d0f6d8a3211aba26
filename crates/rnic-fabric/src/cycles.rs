//! Depth-first search for cycles in directed graphs, which finds routing loops and cycles of PFC pauses.

/// Finds a cycle that can be reached from one of the nodes `starts` of a directed graph, and returns the nodes along
/// the cycle. `edges` holds the successors of each node.
pub(crate) fn find_cycle(edges: &[Vec<usize>], starts: impl Iterator<Item = usize>) -> Option<Vec<usize>> {
    // State of each node: 0 is not visited, 1 is on the current path, 2 is done.
    let mut state = vec![0u8; edges.len()];
    for start in starts {
        if state[start] != 0 {
            continue;
        }
        let mut path = vec![(start, 0)];
        state[start] = 1;
        while let Some((node, tried)) = path.last_mut() {
            let Some(next) = edges[*node].get(*tried).copied() else {
                state[*node] = 2;
                path.pop();
                continue;
            };
            *tried += 1;
            if state[next] == 1 {
                let from = path.iter().position(|(n, _)| *n == next)?;
                return Some(path[from..].iter().map(|(n, _)| *n).collect());
            }
            if state[next] == 0 {
                state[next] = 1;
                path.push((next, 0));
            }
        }
    }
    None
}

#[cfg(test)]
mod tests {
    use super::find_cycle;

    #[test]
    fn cycles_are_found_and_only_cycles() {
        assert_eq!(find_cycle(&[vec![1, 2], vec![3], vec![3], vec![]], 0..4), None);
        assert_eq!(find_cycle(&[vec![1], vec![2], vec![3], vec![1]], 0..4), Some(vec![1, 2, 3]));
        assert_eq!(find_cycle(&[vec![], vec![1]], 0..2), Some(vec![1]));
        assert_eq!(find_cycle(&[vec![], vec![1]], 0..1), None, "not reached");
    }
}
