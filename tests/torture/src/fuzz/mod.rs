//! Inputs that no sane peer or application makes: there must be no panic, no touched byte that was not granted, no wrong completion.

pub mod p4;
pub mod packets;
pub mod verbs;

/// What a run has done.
#[derive(Clone, Copy, Default, Debug, PartialEq, Eq)]
pub struct Summary {
    /// Steps.
    pub steps: u64,
    /// Packets handed in, and those of them that were taken.
    pub packets: u64,
    /// Packets that were taken.
    pub taken: u64,
    /// Work requests completed with success.
    pub completed: u64,
    /// Work requests that failed.
    pub failed: u64,
    /// Queue pairs that went into error and began again.
    pub restarted: u64,
}

impl Summary {
    /// The sum of both.
    pub fn plus(self, other: Summary) -> Summary {
        Summary {
            steps: self.steps + other.steps,
            packets: self.packets + other.packets,
            taken: self.taken + other.taken,
            completed: self.completed + other.completed,
            failed: self.failed + other.failed,
            restarted: self.restarted + other.restarted,
        }
    }
}
