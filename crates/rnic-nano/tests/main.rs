//! All tests of the crate in one program, which is much faster to build than a program for each file.

#[path = "../../rnic-transport/tests/network/mod.rs"]
mod network;

mod compile;
mod congestion;
mod cost;
mod execution;
mod guide;
mod language;
mod lowering;
mod meaning;
mod syntax;
mod syntax_properties;
mod twins;
mod warnings;
