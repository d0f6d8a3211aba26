//! All tests of the crate in one program, which is much faster to build than a program for each file.

mod live;
mod perf;
mod perftest;
mod pingpong;
mod raw;
