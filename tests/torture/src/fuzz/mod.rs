//! Fuzzing of devices and the P4 compiler with invalid inputs. No input may cause a panic, an access to memory without
//! permission, or a wrong completion.

pub mod p4;
pub mod packets;
pub mod verbs;

/// Counts of a fuzzing run.
#[derive(Clone, Copy, Default, Debug, PartialEq, Eq)]
pub struct Summary {
    /// Number of steps executed.
    pub steps: u64,
    /// Number of packets that arrived at a device.
    pub packets: u64,
    /// Number of packets that a device accepted.
    pub taken: u64,
    /// Number of work requests completed successfully.
    pub completed: u64,
    /// Number of work requests that completed with an error.
    pub failed: u64,
    /// Number of times that queue pairs entered the error state and were reset.
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
