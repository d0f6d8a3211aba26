//! Fuzzing with invalid inputs: there must be no panic, no access to memory without permission, and no wrong
//! completion.

pub mod p4;
pub mod packets;
pub mod verbs;

/// The results of a run.
#[derive(Clone, Copy, Default, Debug, PartialEq, Eq)]
pub struct Summary {
    /// Steps executed.
    pub steps: u64,
    /// Packets that arrived.
    pub packets: u64,
    /// Packets that were accepted.
    pub taken: u64,
    /// Work requests completed successfully.
    pub completed: u64,
    /// Work requests that failed.
    pub failed: u64,
    /// Queue pairs that entered the error state and were reset.
    pub restarted: u64,
}

impl Summary {
    /// Returns the sum of two summaries.
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
