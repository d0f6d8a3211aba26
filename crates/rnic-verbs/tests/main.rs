//! All tests of the crate in one program, which is much faster to build than a program for each file.

mod common;

mod changes;
mod conformance;
mod dead_peer;
mod drops;
mod epochs;
mod errors;
mod extras;
mod foreign;
mod hostile;
mod hostile_irn;
mod irn;
mod late_checks;
mod offer;
mod queues;
mod rc;
mod rc_reads;
mod states;
mod statistics;
mod uc;
mod ud;
mod windows;
