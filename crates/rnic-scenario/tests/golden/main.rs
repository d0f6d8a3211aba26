//! Golden tests of the error texts of wrong scenarios and documents. `UPDATE_EXPECT=1 cargo test -p rnic-scenario
//! --test golden` rewrites the expected file. The documents of all scenarios of the repository are in `rnic-sim/tests`,
//! because scenarios with P4 programs need the compiler.

mod refused;
