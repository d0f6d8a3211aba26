//! All-to-all in which each rank sends to each other rank: first to its successor, then to the rank after it and so on,
//! with a limited number of messages at the same time. The messages may have different sizes: those of a matrix, or
//! fractions of the size that depend on the receiver.

use super::{Operation, Ranks, Schedule, Tag, after, part, send};
use crate::program::operation::{Action, After, Mark};
use rnic_spec::Collective;
use std::sync::Arc;

/// The part of one rank.
#[derive(Debug)]
pub(super) struct Direct {
    collective: Collective,
    position: u32,
    /// Fraction of the bytes that each position receives; `None` if the parts are equal, or those of the matrix.
    weights: Option<Arc<[f64]>>,
    /// With a matrix, the distances to the positions to which the rank sends, and the number of messages for the rank.
    sparse: Option<(Vec<u32>, u32)>,
}

/// Bytes from one position of a group to another, of the matrix.
pub(super) fn entry(collective: &Collective, from: u32, to: u32) -> u64 {
    collective.matrix[from as usize * collective.group as usize + to as usize]
}

impl Direct {
    pub(super) fn new(collective: &Collective, position: u32) -> Direct {
        let group = collective.group;
        let sparse = (!collective.matrix.is_empty()).then(|| {
            let to = |distance: &u32| entry(collective, position, (position + distance) % group) > 0;
            let from = |other: &u32| *other != position && entry(collective, *other, position) > 0;
            ((1..group).filter(to).collect(), (0..group).filter(from).count() as u32)
        });
        Direct { collective: collective.clone(), position, weights: None, sparse }
    }

    /// An all-to-all in which position n receives the fraction `weights[n]` of the bytes that each rank sends.
    pub(super) fn skewed(collective: &Collective, position: u32, weights: Arc<[f64]>) -> Direct {
        Direct { weights: Some(weights), ..Direct::new(collective, position) }
    }

    /// Bytes of the message to a position.
    fn bytes(&self, to: u32) -> u64 {
        let Collective { size, group, .. } = self.collective;
        match (&self.weights, &self.sparse) {
            (Some(weights), _) => ((size.0 as f64 * weights[to as usize]).round() as u64).max(1),
            (None, Some(_)) => entry(&self.collective, self.position, to),
            (None, None) => part(size.0, group.into(), to.into()),
        }
    }
}

impl Schedule for Direct {
    fn len(&self) -> u64 {
        self.sparse.as_ref().map_or(self.collective.group.into(), |(distances, _)| distances.len() as u64 + 1)
    }

    fn operation(&self, ranks: &Ranks, repeat: u32, index: u64) -> Operation {
        let Collective { group, outstanding, .. } = self.collective;
        let tag = Tag::Any(Tag::number(repeat, 0));
        if index == 0 {
            let messages = self.sparse.as_ref().map_or(group - 1, |(_, messages)| *messages);
            let action = if messages > 0 { Action::Gather { messages, tag } } else { Action::Join };
            return Operation { action, after: After::Nothing, mark: Mark::None };
        }
        let distance = self.sparse.as_ref().map_or(index as u32, |(distances, _)| distances[index as usize - 1]);
        let to = (self.position + distance) % group;
        let outstanding = u64::from(outstanding);
        let depends = if index <= outstanding { After::Nothing } else { after(outstanding) };
        send(ranks.at(to), self.bytes(to), tag, 0, depends)
    }

    fn ahead(&self) -> usize {
        self.collective.outstanding as usize + 2
    }
}
