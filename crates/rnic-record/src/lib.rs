//! Recorded numbers: what studies and benchmarks measured, as data from which the documentation is generated.
//!
//! A [`Record`] is one file of `docs/results/data`: the command that measured the numbers, its date, version, commit
//! and machine, single values, and tables. The numbers are raw; the package `rnic-pages` formats them when it generates
//! the pages. [`judge`] is the one rule that compares a measured value with the claim of a paper. It is in this crate,
//! so that recorded rows can be judged again without a simulation.
//!
//! ```
//! use rnic_record::{Claim, Measured, Outcome, judge};
//!
//! let claim = Claim::Between { low: 1.35, high: 3.5, neutral: 1.0 };
//! let wide = Measured { mean: 2.86, half_width: Some(2.56), exact: false };
//! assert_eq!(judge(&claim, &wide), Outcome::Inconclusive);
//! ```

mod claim;
mod host;
mod record;
mod state;

pub use claim::{Claim, MARGIN, Measured, Outcome, Unit, judge};
pub use host::{commit, date, machine};
pub use record::{Column, Record, SCHEMA, Table, cells};
pub use state::{Digest, behaviour};
