//! Data types for the inputs and outputs of simulation runs.
//!
//! A [`RunSpec`] determines a run completely; a [`RunRecord`] contains everything that the run yields. Neither of these
//! types depends on the simulator. Crates that describe runs (scenario files), distribute runs (campaigns) or evaluate
//! results therefore need this crate alone.

mod beside;
mod check;
mod collective;
mod congestion;
mod document;
mod event;
mod faults;
mod flow;
mod flow_log;
mod frame;
mod inference;
mod keys;
mod mesh;
mod p4;
mod program_record;
mod record;
pub mod settings;
mod sizes;
mod spec;
mod stored;
mod trace;
mod training;
mod transport;
mod triggered;
mod vocabulary;

pub use collective::*;
pub use congestion::*;
pub use document::*;
pub use event::*;
pub use faults::*;
pub use flow::*;
pub use flow_log::*;
pub use frame::*;
pub use inference::*;
pub use keys::*;
pub use mesh::*;
pub use p4::*;
pub use program_record::*;
pub use record::*;
pub use sizes::*;
pub use spec::*;
pub use trace::*;
pub use training::*;
pub use transport::*;
pub use triggered::*;
pub use vocabulary::*;
