//! Collective operations along two binary trees, each for half of the data (Sanders, Speck, Traeff: Two-tree algorithms
//! for full bandwidth broadcast, reduction and scan, Parallel Computing 35, 2009).
//!
//! Each tree has the ranks in order from left to right, so ranks at odd places are its leaves. In the second tree the
//! places are mirrored (an even number of ranks) or shifted by one (an odd number), so that a rank is an inner node of
//! at most one tree. In an all-reduce, messages go from the leaves to the root and back; a rank sends a message on as
//! soon as it has arrived from all of its children, or from its parent. In a broadcast the first rank of the group
//! sends to the roots of two trees of the other ranks.

use super::{Operation, Ranks, Schedule, Tag, part, pieces, receive, send};
use crate::program::operation::{After, Distances};
use rnic_spec::{Collective, CollectiveOperation};

/// The part of one rank.
#[derive(Debug)]
pub(super) struct Tree {
    collective: Collective,
    /// The rank's operations for one message of each tree.
    steps: Vec<Step>,
    /// Number of messages of a tree.
    pieces: u64,
}

/// An operation for one message of a tree.
#[derive(Clone, PartialEq, Eq, Debug)]
struct Step {
    tree: u8,
    sends: bool,
    /// Position of the other rank in the group.
    peer: u32,
    /// Whether the message goes from a child to its parent.
    up: bool,
    /// Operations that must complete before, by distance.
    after: Distances,
}

/// Place of the parent of the node at `place` in a tree of `nodes` places, from 1 on; `None` for the root.
///
/// The height of a node is the number of zeros at the end of its place. A parent beyond the last place is left out.
fn parent(place: u32, nodes: u32) -> Option<u32> {
    let height = 1 << place.trailing_zeros();
    let right = (place ^ height) | height << 1;
    let parent = if right <= nodes { right } else { place ^ height };
    (parent != 0).then_some(parent)
}

/// Places of the children of the node at `place` in a tree of `nodes` places, left child first.
fn children(place: u32, nodes: u32) -> Vec<u32> {
    let height = place.trailing_zeros();
    // The left child, and the largest right subtree that is not empty.
    let left = (height > 0).then(|| place - (1 << (height - 1)));
    let right = (0..height).rev().map(|lower| place + (1 << lower)).find(|child| *child <= nodes);
    left.into_iter().chain(right).collect()
}

/// The place of a node in tree `tree` (0 or 1) of `nodes` nodes, from 1 on.
fn place(node: u32, tree: u8, nodes: u32) -> u32 {
    match tree {
        0 => node + 1,
        _ if nodes.is_multiple_of(2) => nodes - node,
        _ => (node + 1) % nodes + 1,
    }
}

/// The node at a place: the inverse of [`place`].
fn node(place: u32, tree: u8, nodes: u32) -> u32 {
    match tree {
        0 => place - 1,
        _ if nodes.is_multiple_of(2) => nodes - place,
        _ => (place + nodes - 2) % nodes,
    }
}

/// Parent and children of a rank in a tree, as positions in the group.
fn neighbours(operation: CollectiveOperation, position: u32, tree: u8, group: u32) -> (Option<u32>, Vec<u32>) {
    // In a broadcast, the first rank is above the trees of the others.
    let outside = u32::from(operation == CollectiveOperation::Broadcast);
    let nodes = group - outside;
    let position_at = |at: u32| node(at, tree, nodes) + outside;
    if position < outside {
        let root = (1..=nodes).find(|at| parent(*at, nodes).is_none());
        return (None, root.map(position_at).into_iter().collect());
    }
    let own = place(position - outside, tree, nodes);
    let above = parent(own, nodes).map(position_at).or((outside == 1).then_some(0));
    (above, children(own, nodes).into_iter().map(position_at).collect())
}

/// The operations of a rank for one message of a tree.
fn steps_of(operation: CollectiveOperation, position: u32, tree: u8, group: u32) -> Vec<Step> {
    let (parent, children) = neighbours(operation, position, tree, group);
    let mut steps = Vec::new();
    let step = |sends, peer, up, after| Step { tree, sends, peer, up, after };
    let count = children.len() as u32;
    let reduces = operation == CollectiveOperation::AllReduce;
    if reduces {
        steps.extend(children.iter().map(|child| step(false, *child, true, Distances::new())));
        if let Some(parent) = parent {
            steps.push(step(true, parent, true, (1..=count).collect()));
        }
    }
    if let Some(parent) = parent {
        steps.push(step(false, parent, false, Distances::new()));
    }
    for (index, child) in (0..count).zip(&children) {
        let after = match parent {
            Some(_) => [index + 1].into_iter().collect(),
            // The root of an all-reduce sends when all children have sent.
            None if reduces => (1..=count).map(|distance| distance + index).collect(),
            None => Distances::new(),
        };
        steps.push(step(true, *child, false, after));
    }
    steps
}

/// Number of messages of a tree, which has half of the data.
fn pieces_of(collective: &Collective) -> u64 {
    let half = collective.size.0.div_ceil(2);
    pieces(half, collective.chunk.0).min((collective.size.0 / 2).max(1))
}

impl Tree {
    pub(super) fn new(collective: &Collective, position: u32) -> Tree {
        let steps = |tree| steps_of(collective.operation, position, tree, collective.group);
        let steps = (0..2).flat_map(steps).collect();
        Tree { collective: collective.clone(), steps, pieces: pieces_of(collective) }
    }

    /// Number of flows of a group in one repetition. `crosses` returns 1 if a message from one position to another is a
    /// flow, else 0.
    pub(super) fn flows(collective: &Collective, crosses: impl Fn(u32, u32) -> u128) -> u128 {
        let Collective { operation, group, .. } = *collective;
        let above = |position, tree| neighbours(operation, position, tree, group).0.map(|parent| (position, parent));
        let edges = (0..group).flat_map(|position| [0, 1].map(|tree| above(position, tree))).flatten();
        let edges: u128 = edges.map(|(position, parent)| crosses(position, parent)).sum();
        let ways = if operation == CollectiveOperation::AllReduce { 2 } else { 1 };
        edges * ways * u128::from(pieces_of(collective))
    }
}

impl Schedule for Tree {
    fn len(&self) -> u64 {
        self.pieces * self.steps.len() as u64
    }

    fn operation(&self, ranks: &Ranks, repeat: u32, index: u64) -> Operation {
        let count = self.steps.len() as u64;
        let piece = index / count;
        let Step { tree, sends, peer, up, after } = self.steps[(index % count) as usize].clone();
        let tag = Tag::From(Tag::number(repeat, (piece * 2 + u64::from(tree)) * 2 + u64::from(up)));
        if !sends {
            return receive(ranks.at(peer), tag);
        }
        let half = part(self.collective.size.0, 2, tree.into());
        let bytes = part(half, self.pieces, piece);
        send(ranks.at(peer), bytes, tag, tree.into(), After::Earlier(after))
    }

    fn ahead(&self) -> usize {
        4 * self.steps.len() * self.collective.outstanding as usize
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn trees_by_hand() {
        // Places 1 to 6: 4 is the root; 2 has 1 and 3; 6 has 5.
        assert_eq!([1, 2, 3, 4, 5, 6].map(|place| parent(place, 6)), [2, 4, 2, 0, 6, 4].map(|p| (p > 0).then_some(p)));
        assert_eq!([2, 4, 6].map(|place| children(place, 6)), [vec![1, 3], vec![2, 6], vec![5]]);
        // Places 1 to 5: the right child of 4 is 5, because 6 does not exist.
        assert_eq!((parent(5, 5), children(4, 5)), (Some(4), vec![2, 5]));
    }

    #[test]
    fn every_rank_is_an_inner_node_of_at_most_one_tree() {
        for nodes in 2..70 {
            for tree in 0..2 {
                let mut reached = 0;
                for own in 0..nodes {
                    let at = place(own, tree, nodes);
                    assert_eq!(node(at, tree, nodes), own);
                    for child in children(at, nodes) {
                        assert_eq!(parent(child, nodes), Some(at), "{child} of {nodes}");
                        reached += 1;
                    }
                }
                assert_eq!(reached, nodes - 1, "one edge fewer than nodes");
            }
            let inner = |own, tree| !children(place(own, tree, nodes), nodes).is_empty();
            let both = (0..nodes).filter(|own| inner(*own, 0) && inner(*own, 1)).count();
            assert!(both == 0, "{both} of {nodes}");
        }
    }
}
