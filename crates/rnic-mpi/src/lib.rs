//! The ranks of one simulation on several machines, connected by MPI: [`start`] finds out whether `mpirun` or another
//! launcher has started this process as one of several, and returns its connection to the others.
//!
//! Without the feature `mpi` the crate has no MPI, and [`start`] only notices such a launch.

#[cfg(feature = "mpi")]
mod session;

#[cfg(feature = "mpi")]
pub use session::Session;

#[cfg(not(feature = "mpi"))]
use rnic_fabric::RankGroup;
use std::fmt;

/// Stands for a connection to other ranks in a program without MPI; no value of it exists.
#[cfg(not(feature = "mpi"))]
#[derive(Debug)]
pub enum Session {}

#[cfg(not(feature = "mpi"))]
impl Session {
    /// The group of all ranks.
    pub fn group(&self) -> RankGroup {
        match *self {}
    }
}

/// The variables in which launchers tell a process the number of processes: Open MPI, and MPICH with its relatives.
const SIZES: [&str; 2] = ["OMPI_COMM_WORLD_SIZE", "PMI_SIZE"];

/// Why this process cannot be a rank.
#[derive(Debug)]
pub struct NoRank(String);

impl fmt::Display for NoRank {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

impl std::error::Error for NoRank {}

/// Number of processes that the launcher of this process has started together; `None` if none has.
#[expect(
    clippy::disallowed_methods,
    reason = "the launcher tells its processes by variables; no result depends on them"
)]
fn launched() -> Option<usize> {
    SIZES.iter().find_map(|name| std::env::var(name).ok()?.trim().parse().ok())
}

/// This process's connection to the other processes of its MPI job; `None` if no launcher of MPI has started it. Must
/// be called at most once, on the thread that will simulate runs.
///
/// # Errors
/// The process is one of several, but this program was built without MPI, or MPI cannot be used.
pub fn start() -> Result<Option<Session>, NoRank> {
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
