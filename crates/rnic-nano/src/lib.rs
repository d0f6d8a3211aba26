//! Transports programmed in P4.
//!
//! A program in P4_16 becomes a [`message::Pipeline`](rnic_transport::message::Pipeline) that runs in the simulator as a transport
//! written in Rust does.
//!
//! | module | holds |
//! |---|---|
//! | [`source`] | files, positions |
//! | [`diagnostic`] | what is wrong with a program, and where |
//! | [`ast`] | a program as it is written |
//! | [`parser`] | text into a program as it is written: preprocessor, lexer, parser |
//! | [`hir`] | a program as it is meant: names resolved, types checked, everything in scalar slots |

pub mod ast;
pub mod diagnostic;
pub mod hir;
mod lexer;
pub mod parser;
mod preprocess;
pub mod source;
