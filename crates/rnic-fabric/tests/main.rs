//! All tests of the crate in one program, which is much faster to build than a program for each file.

mod common;

mod composition;
mod computed_routes;
mod diagnose;
mod dragonfly;
mod ecmp;
mod input;
mod link_faults;
mod loss;
mod output;
mod pfc;
mod planes;
mod routing;
mod shared;
mod spray;
mod tap;
mod telemetry;
mod timing;
mod watcher;
