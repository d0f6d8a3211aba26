//! A packet-level data-center fabric: event engine, links, switches, topologies and routing.

pub mod config;
