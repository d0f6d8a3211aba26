//! The formats in which commands print results on standard output.

use clap::ValueEnum;

/// Output formats of `rnic run` and `rnic reproduce`.
#[derive(ValueEnum, Clone, Copy, PartialEq, Eq, Debug)]
pub enum Format {
    /// A text table
    Table,
    /// One JSON document
    Json,
}
