//! Raw.
