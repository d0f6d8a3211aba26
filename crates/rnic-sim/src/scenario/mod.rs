//! Scenarios: what to simulate, read from a TOML file.

pub mod model;

pub use model::{
    FabricSetup, Limits, RunSpec, Scenario, SwitchSetup, Traffic, TrafficPattern, TransportSpec,
};
