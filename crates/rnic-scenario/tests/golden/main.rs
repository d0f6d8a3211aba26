//! Golden tests of scenario files: the documents of the runs of every scenario of the repository, and the error texts
//! of wrong scenarios and documents. `UPDATE_EXPECT=1 cargo test -p rnic-scenario --test golden` rewrites the expected
//! files.

mod documents;
mod refused;
