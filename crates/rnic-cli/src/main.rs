//! The `rnic` command.

fn main() {}
