//! Campaigns: many runs whose results are files in one folder. The folder has the same form for every engine.
//!
//! - A [`Manifest`] is the list of the runs, a file that every worker can read. Each of its runs is a *point*: it is
//!   simulated with one seed or more. With [`Until`] the number of seeds depends on the results.
//! - A [`Folder`] has the results, under the fingerprints of their runs, so each run is simulated once, also if several
//!   campaigns contain it.
//! - [`execute`] simulates the runs of a list and stores their results. Every engine calls it, each engine in other
//!   processes or on other machines. [`run_campaign`] calls it for all missing runs of a manifest or of one shard.
//! - [`Replication`] determines which runs are missing, and which further seeds a point needs.
//! - Each worker writes a [journal](Worker). A run that a worker started but did not finish is a *lost* run: the worker
//!   was killed, or its machine stopped.

mod error;
mod execute;
mod folder;
mod journal;
mod manifest;
mod replication;
mod result;
mod rows;
mod run_campaign;
mod status;
mod until;

pub use error::CampaignError;
pub use execute::{CampaignListener, Place, Progress, execute};
pub use folder::{Folder, Removed, used};
pub use journal::{Current, Worker};
pub use manifest::{Manifest, is_name};
pub use replication::{Replica, Replication, Shard, Verdict};
pub use result::{Provenance, RunResult, RunState};
pub use rows::{Row, estimates, rows};
pub use run_campaign::{Limits, MissingRun, Outcomes, run_campaign};
pub use status::{Failure, Standing, status};
pub use until::{METRICS, Until};
