//! Runs a program that sees files of the devices in `/dev/infiniband` and `/sys/class/infiniband`:
//! `with_files PROGRAM ...`. The command `rnic verbs run --files` also gives the program the libraries.

use std::os::unix::process::CommandExt;
use std::process::{Command, ExitCode};

fn main() -> ExitCode {
    let mut words = std::env::args_os().skip(1);
    let Some(program) = words.next() else {
        eprintln!("usage: with_files PROGRAM ...");
        return ExitCode::from(2);
    };
    if let Err(why) = rnic_ibverbs::files::show() {
        eprintln!("{why}");
        return ExitCode::FAILURE;
    }
    let error = Command::new(&program).args(words).exec();
    eprintln!("{} cannot be run: {error}", program.to_string_lossy());
    ExitCode::FAILURE
}
