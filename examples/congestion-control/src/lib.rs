//! The congestion control `gentle`, an example to start from; see `docs/guides/write-a-congestion-control.md` of rnic.

mod gentle;

pub use gentle::Gentle;
