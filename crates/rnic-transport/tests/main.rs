//! All tests of the crate in one program, which is much faster to build than a program for each file.

mod common;
mod network;

mod adversary;
mod aimd;
mod conformance;
mod connection;
mod cubic;
mod dcqcn;
mod dctcp;
mod go_back_n;
mod hpcc;
mod irn;
mod irn_reordering;
mod messages;
mod programs;
mod reference;
mod rto;
mod sizes;
mod sprayed;
mod swift;
mod tcp;
mod timely;
mod weather;
mod wrap;
