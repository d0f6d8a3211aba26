//! All tests of the crate in one program, which is much faster to build than a program for each file.

mod common;

mod channels;
mod conformance;
mod congestion;
mod corruption;
mod datagrams;
mod decisions;
mod examples;
mod exchange;
mod farewell;
mod faulty;
mod host_transports;
mod link;
mod loopback;
mod memory;
mod order;
mod ready;
mod reset;
mod security;
mod shards;
mod shared_address;
mod statistics;
mod survival;
mod udp;
mod verbs;
mod within_host;
