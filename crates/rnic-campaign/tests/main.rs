//! All tests of the crate in one program, which is much faster to build than a program for each file.

mod campaign;
mod code;
mod manifest;
