//! The `rnic` command with one more congestion control.
//!
//! ```sh
//! cargo run --release --features simulator -- list congestion
//! ```

use my_congestion_control::Gentle;
use rnic_cli::Catalogue;
use std::process::ExitCode;

fn main() -> ExitCode {
    rnic_cli::main(Catalogue::standard().with::<Gentle>())
}
