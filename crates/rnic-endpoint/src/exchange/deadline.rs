//! The time by which a message must have arrived.

use std::time::{Duration, Instant};

/// A time by which something must have happened.
#[derive(Clone, Copy)]
pub(super) struct Deadline(Instant);

impl Deadline {
    /// The time that lies `patience` after now.
    pub(super) fn after(patience: Duration) -> Deadline {
        Deadline(now() + patience)
    }

    /// The time until the deadline; zero after it.
    pub(super) fn left(self) -> Duration {
        self.0.saturating_duration_since(now())
    }
}

#[expect(clippy::disallowed_methods, reason = "a peer is waited for")]
fn now() -> Instant {
    Instant::now()
}
