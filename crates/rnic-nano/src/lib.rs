//! Transports programmed in P4.
//!
//! A program in P4_16 becomes a [`message::Pipeline`](rnic_transport::message::Pipeline) that runs in the simulator as a transport
//! written in Rust does.
//!
//! | module | holds |
//! |---|---|
//! | [`compile`](mod@compile) | text into a program that runs: all of what follows |
//! | [`source`] | files, positions |
//! | [`diagnostic`] | what is wrong with a program, and where |
//! | [`ast`] | a program as it is written |
//! | [`parser`] | text into a program as it is written: preprocessor, lexer, parser |
//! | [`sema`] | from the one to the other: names, types, constants, lowering |
//! | [`hir`] | a program as it is meant: names resolved, types checked, everything in scalar slots |
//! | [`lower`] | from there to instructions that run |
//! | [`program`] | a compiled program |
//! | [`pipeline`] | a program on a NIC |
//! | [`runtime`] | registers, schedulers, tables and their control plane |
//! | [`cost`] | what a program would cost as hardware |

mod arithmetic;
pub mod ast;
pub mod compile;
pub mod cost;
pub mod diagnostic;
pub mod hir;
mod lexer;
pub mod lower;
pub mod parser;
pub mod pipeline;
mod preprocess;
pub mod program;
pub mod runtime;
pub mod sema;
pub mod source;
mod vm;

pub use compile::{CompileError, Rejected, compile, compile_file};
pub use pipeline::{NicParameters, P4Header, P4Pipeline};
pub use program::Program;
