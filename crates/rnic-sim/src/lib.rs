//! Simulates the hosts and transports of a run on the simulated fabric: a [`RunSpec`](rnic_spec::RunSpec) goes in, a
//! [`RunRecord`](rnic_spec::RunRecord) comes out.
//!
//! [`resolve`] computes the settings that the run's specification leaves open, and [`run::run`] simulates the run:
//!
//! ```
//! use rnic_sim::{Catalogue, Events, Sharing, resolve::resolve, run::run};
//! let text = r#"
//!     [fabric]
//!     topology = "single-switch"
//!     hosts = 4
//!     rate = "100 Gbps"
//!     delay = "1 us"
//!     [traffic]
//!     pattern = "incast"
//!     senders = 3
//!     total = "300 KB"
//!     [[run]]
//!     name = "RoCE"
//!     transport = "roce"
//! "#;
//! let scenario = rnic_scenario::from_str(text, "example.toml", "".as_ref(), &[], None).unwrap();
//! let catalogue = Catalogue::standard();
//! let resolved = resolve(&catalogue, &scenario.runs[0]).unwrap();
//! let record = run(&catalogue, &scenario.runs[0], &resolved, None, &Sharing::among(1), &Events::ignored());
//! assert_eq!(record.output.flows.iter().filter(|flow| flow.finish.is_some()).count(), 3);
//! ```

pub mod capture;
mod catalogue;
mod dead;
mod events;
mod fast_forward;
mod frame_listener;
mod frames;
mod host;
mod in_band;
mod link;
mod link_faults;
mod mesh;
#[cfg(feature = "p4")]
mod p4;
#[cfg(not(feature = "p4"))]
#[path = "no_p4.rs"]
mod p4;
mod pauses;
pub mod resolve;
pub mod run;
mod simulation;
mod step_links;
mod storm;
mod watch;
mod watchdog;

pub use catalogue::{Catalogue, CongestionEntry};
pub use events::{Events, MeshProbe};
pub use frame_listener::{FrameListener, FramePlan};
pub use host::{FlowHashes, Segment, flow_hashes};
pub use rnic_workload::FlowCompletion;
pub use run::Sharing;
pub use simulation::{FlowRequest, PortUse, Simulation, SimulationError};
