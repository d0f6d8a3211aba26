//! The commands of `rnic` that simulate, with one more congestion control.
//!
//! ```sh
//! cargo run --release --features simulator -- list congestion
//! ```

use my_congestion_control::Gentle;
use rnic_simulator::Catalogue;
use std::process::ExitCode;

fn main() -> ExitCode {
    rnic_simulator::main(Catalogue::standard().with::<Gentle>())
}
