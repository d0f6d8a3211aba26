//! The `rnic` command with one more congestion control; see `docs/guides/write-a-congestion-control.md`.
//!
//! ```sh
//! cargo run --release -p my-congestion-control -- run scenarios/irn/default.toml --set transport.cc=gentle
//! ```

mod gentle;

use gentle::Gentle;
use rnic_sim::Catalogue;
use std::process::ExitCode;

fn main() -> ExitCode {
    rnic_cli::main(Catalogue::standard().with::<Gentle>())
}
