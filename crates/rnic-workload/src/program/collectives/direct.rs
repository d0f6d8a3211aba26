//! All-to-all in which each rank sends to each other rank: first to its successor, then to the rank after it and so on,
//! with a limited number of messages at the same time.

use super::{Operation, Ranks, Schedule, Tag, after, part, send};
use crate::program::operation::{Action, After, Mark};
use rnic_spec::Collective;

/// The part of one rank.
#[derive(Debug)]
pub(super) struct Direct {
    collective: Collective,
    position: u32,
}

impl Direct {
    pub(super) fn new(collective: &Collective, position: u32) -> Direct {
        Direct { collective: *collective, position }
    }
}

impl Schedule for Direct {
    fn len(&self) -> u64 {
        self.collective.group.into()
    }

    fn operation(&self, ranks: &Ranks, repeat: u32, index: u64) -> Operation {
        let Collective { size, group, outstanding, .. } = self.collective;
        let tag = Tag::Any(Tag::number(repeat, 0));
        if index == 0 {
            let action = Action::Gather { messages: group - 1, tag };
            return Operation { action, after: After::Nothing, mark: Mark::None };
        }
        let to = (self.position + index as u32) % group;
        let bytes = part(size.0, group.into(), to.into());
        let outstanding = u64::from(outstanding);
        let depends = if index <= outstanding { After::Nothing } else { after(outstanding) };
        send(ranks.at(to), bytes, tag, 0, depends)
    }

    fn ahead(&self) -> usize {
        self.collective.outstanding as usize + 2
    }
}
