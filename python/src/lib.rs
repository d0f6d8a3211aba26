//! The extension module `rnic._rnic`, on which the Python package `rnic` is built. The package's Python code checks
//! and names its arguments; this module has the calls into the other crates.

#![deny(unsafe_code)]

mod arrow;
mod campaign;
mod command;
mod congestion;
mod convert;
mod error;
mod flows;
mod identity;
mod model;
mod packets;
mod results;
mod run;
mod scenario;
mod simulation;
mod stored;
mod stream;
mod tables;

use pyo3::prelude::*;

/// The part of the package `rnic` that is written in Rust.
#[pymodule]
mod _rnic {
    #[pymodule_export]
    use super::arrow::Table;
    #[pymodule_export]
    use super::campaign::{Campaign, CampaignFolder, Coordinator, Stop, code, estimate, metrics, work};
    #[pymodule_export]
    use super::command::command;
    #[pymodule_export]
    use super::congestion::{AckSample, Flow};
    #[pymodule_export]
    use super::error::{RunError, ScenarioError};
    #[pymodule_export]
    use super::flows::Flows;
    #[pymodule_export]
    use super::model::{buffers, dcqcn_fixed_points, dcqcn_solve, timely_solve};
    #[pymodule_export]
    use super::packets::decode;
    #[pymodule_export]
    use super::results::Results;
    #[pymodule_export]
    use super::scenario::{Scenario, builtin_scenarios};
    #[pymodule_export]
    use super::simulation::Simulation;
    #[pymodule_export]
    use super::stream::Stream;
    #[pymodule_export]
    use super::tables::table_of_columns;

    use super::*;

    #[pymodule_init]
    fn init(module: &Bound<'_, PyModule>) -> PyResult<()> {
        module.add("__version__", env!("CARGO_PKG_VERSION"))
    }
}
