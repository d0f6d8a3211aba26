//! The C interface of the simulator, `librnic_sim_c`: [`rnic_sim::Simulation`] for programs in C and C++. Its reference
//! is the header `include/rnic_sim.h`.
//!
//! No pointer of a program is trusted that need not be: a simulation's pointer is a number in a table of open
//! simulations, so a null pointer, and the pointer of a closed simulation, are errors. Panics end in an error, too.
//!
//! | module | contents |
//! |---|---|
//! | `open` | the open simulations, and reading of scenarios |
//! | `calls` | the functions of the header |
//!
//! # Unsafe code
//!
//! The functions of `calls` read and write the arrays and texts of C programs, whose lengths the program states.

mod calls;
mod open;
