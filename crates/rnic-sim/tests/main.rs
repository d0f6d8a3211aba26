//! All tests of the crate in one program, which is much faster to build than a program for each file.

mod common;

mod behaviour;
mod closed_loops;
mod collectives;
mod completion_times;
mod credit;
mod deadlock;
mod determinism;
#[cfg(feature = "p4")]
mod documents;
mod duration;
mod excess;
#[cfg(feature = "p4")]
mod explicit_settings;
mod fast_forward;
mod flow_state;
mod fluid;
mod frames;
mod host_stack;
mod host_transports;
mod hpcc;
mod link_faults;
mod lists;
mod loss_recovery;
#[cfg(feature = "p4")]
mod messages;
mod notifications;
mod output_queues;
mod outside;
mod overload;
#[cfg(feature = "p4")]
mod p4_twins;
mod packet_life;
mod partitions;
mod pathologies;
mod paths;
mod random_scenarios;
mod ranks;
#[cfg(feature = "p4")]
mod resolved;
mod settings;
mod several;
mod stages;
mod switches;
mod traces;
mod watch;
mod watchdogs;
