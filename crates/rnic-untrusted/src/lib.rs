//! Protection against untrusted input, for every part of rnic that listens or prints what others wrote.
//!
//! | module | contents |
//! |---|---|
//! | [`text`] | text of peers, files and devices, made safe for terminals and logs |
//! | [`admission`] | which connections a server keeps, while their peers have not proved who they are and afterwards |

#![forbid(unsafe_code)]

pub mod admission;
pub mod text;
