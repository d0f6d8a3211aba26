//! RDMA Pingmesh: the hosts of a data center probe each other, and a controller raises alarms and finds faulty parts of
//! the network from the results.
//!
//! | module | holds |
//! |---|---|
//! | [`inventory`] | the file with hosts, switches, settings and alarm rules |
//! | [`scope`] | how far apart two hosts are |
//! | [`pinglist`] | which hosts probe each other |
//! | [`record`] | the messages between agents and the controller |
//! | [`rotation`] | which source ports a pair uses, over time |
//! | [`agent`] | the agent of a host, without sockets and clocks |
//! | [`registry`] | the agents that have registered, and the pinglists they get |
//! | [`histogram`], [`window`] | results over the last minute, ten minutes and hour |
//! | [`alarm`] | rules with hysteresis |
//! | [`localise`] | which part of the network failing paths have in common |
//! | `parts` | hosts, switches and links, and the routes over them |
//! | [`evaluation`] | the evaluation of alarms and suspects, in steps between which other threads can use the mesh |
//! | [`verdict`] | results, alarms and suspects, without sockets and clocks |
//! | [`suspects`] | the suspects, since when a part of the network is one, and the suspects of the past |
//! | [`renewal`] | the change to another inventory while the controller runs |
//! | [`store`] | results on disk: a log, and Parquet files by hour |
//! | [`credentials`] | certificates, and the actions that each of them permits |
//! | [`controller`] | the service: agents' requests over TLS, page, metrics |
//! | [`host`] | the agent on a real host: device, traces of paths, requests to the controller |
//! | [`state`] | the state that the page and the metrics show: of a controller, or of a recording |
//! | [`recorded`] | the probes of a simulated run, for the page |

pub mod agent;
pub mod alarm;
pub mod controller;
pub mod credentials;
pub mod evaluation;
pub mod histogram;
pub mod host;
pub mod inventory;
pub mod localise;
mod parts;
pub mod pinglist;
pub mod presence;
pub mod record;
pub mod recorded;
pub mod registry;
pub mod renewal;
pub mod rotation;
pub mod scope;
pub mod state;
pub mod store;
pub mod suspects;
pub mod verdict;
pub mod window;
