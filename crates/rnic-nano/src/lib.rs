//! A compiler and runtime for message transports that are programmed in P4_16.
//!
//! The compiler turns a P4 program into a [`message::Pipeline`](rnic_transport::message::Pipeline): the code that a NIC
//! runs for each arriving and each departing packet. The simulator runs this pipeline in the same way as a transport
//! written in Rust.
//!
//! | module | holds |
//! |---|---|
//! | `compile` | the compiler driver: source text to executable program |
//! | [`source`] | source files and positions |
//! | [`diagnostic`] | error messages with positions |
//! | [`parser`] | the front end: preprocessor, lexer, parser |
//! | [`ast`] | the abstract syntax tree that the parser returns |
//! | [`sema`] | semantic analysis: name resolution, type checking, constant folding, translation to HIR |
//! | [`hir`] | the high-level intermediate representation (HIR): a checked program with scalar variables |
//! | `lower` | code generation: instructions, optimisation, register allocation |
//! | `program` | a compiled program, which can run on any number of NICs: [`Program`] |
//! | `pipeline` | a compiled program loaded into one NIC: [`P4Pipeline`] |
//! | [`runtime`] | registers, schedulers, tables and the control plane's access to tables |
//! | [`interpret`] | an interpreter of the HIR, for tests and traces |
//! | [`trace`] | what a program does with each packet, for its author |
//! | [`cost`] | a model of the program's cost in hardware |
//!
//! # Examples
//! This example compiles a transport, loads it into a NIC, and lets it write the headers of a data packet:
//! ```
//! use rnic_nano::{NicParameters, P4Pipeline, compile_file};
//! use rnic_transport::message::{Departure, Pipeline, flags};
//! use std::path::Path;
//!
//! let program = compile_file(Path::new(concat!(env!("CARGO_MANIFEST_DIR"), "/../../p4/window.p4")), &[])?;
//! let nic = NicParameters { ip: 0x0a00_0001, rtt_pkts: 10, mtu: 1000, ..NicParameters::default() };
//! let mut pipeline = P4Pipeline::<64>::new(&program, &nic)?;
//!
//! let departure = Departure { dst_ip: 0x0a00_0002, flags: flags::DATA, payload: 1000, ..Departure::default() };
//! let header = pipeline.egress(&departure).header;
//! assert_eq!(header.bytes[30..34], [10, 0, 0, 2], "the destination address in the IPv4 header");
//! assert_eq!(usize::from(header.len), 14 + 20 + 21, "Ethernet, IPv4 and the program's own header");
//! # Ok::<(), Box<dyn std::error::Error>>(())
//! ```

mod arithmetic;
pub mod ast;
mod compile;
pub mod corpus;
pub mod cost;
pub mod diagnostic;
pub mod hir;
pub mod interpret;
mod lexer;
mod lower;
pub mod parser;
mod pipeline;
mod preprocess;
mod program;
pub mod rtl;
pub mod runtime;
pub mod sema;
pub mod source;
pub mod trace;
mod vm;

pub use compile::{CompileError, Rejected, compile, compile_file};
pub use pipeline::{NicParameters, P4Header, P4Pipeline};
pub use program::Program;
