//! The ranks of one simulation on several machines, connected by MPI: [`start`] finds out whether `mpirun` or another
//! launcher has started this process as one of several, and returns its connection to the others.
//!
//! Without the feature `mpi` the program has no MPI, and [`start`] only detects such a launch.

#[cfg(feature = "mpi")]
mod session;

#[cfg(feature = "mpi")]
pub(super) use session::Session;

#[cfg(not(feature = "mpi"))]
use rnic_fabric::RankGroup;
use std::fmt;

/// Replaces the connection to other ranks in a program without MPI. It has no values.
#[cfg(not(feature = "mpi"))]
#[derive(Debug)]
pub(super) enum Session {}

#[cfg(not(feature = "mpi"))]
impl Session {
    /// The group of all ranks.
    pub(super) fn group(&self) -> RankGroup {
        match *self {}
    }
}

/// Environment variables with the number of processes of an MPI job, for Open MPI, and for MPICH and its derivatives.
const SIZES: [&str; 2] = ["OMPI_COMM_WORLD_SIZE", "PMI_SIZE"];

/// The reason why this process cannot be a rank.
#[derive(Debug)]
pub(super) struct NoRank(String);

impl fmt::Display for NoRank {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

impl std::error::Error for NoRank {}

/// Number of processes of the MPI job; `None` if no MPI launcher started this process.
#[expect(
    clippy::disallowed_methods,
    reason = "MPI launchers pass the number of processes in variables; no result depends on them"
)]
fn launched() -> Option<usize> {
    SIZES.iter().find_map(|name| std::env::var(name).ok()?.trim().parse().ok())
}

/// Returns this process's connection to the other processes of its MPI job; `None` if no MPI launcher has started the
/// process. Must be called at most once, on the thread that will simulate runs.
///
/// # Errors
/// The process is one of several, but this program was built without MPI, or MPI cannot be used.
pub(super) fn start() -> Result<Option<Session>, NoRank> {
    match launched() {
        None => Ok(None),
        #[cfg(feature = "mpi")]
        Some(_) => Session::new().map(Some),
        #[cfg(not(feature = "mpi"))]
        Some(0 | 1) => Ok(None),
        #[cfg(not(feature = "mpi"))]
        Some(size) => Err(NoRank(format!(
            "{size} processes were started together ({}), but this rnic was built without MPI: build it with `cargo build \
             -p rnic-cli --release --features mpi`, or start each process for itself with `env -u {} -u {}`",
            SIZES[0], SIZES[0], SIZES[1]
        ))),
    }
}
