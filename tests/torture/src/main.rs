//! Runs worlds of queue pairs with one seed after the other; prints what came of them, or the seed that fails.

use clap::Parser;
use rnic_torture::{Plan, Report, World};
use std::process::ExitCode;

/// Random RDMA operations over a network that loses, repeats, reorders and corrupts, checked against a plain model.
#[derive(Parser)]
#[command(name = "rnic-torture")]
struct Args {
    /// First seed; everything follows from it
    #[arg(long, default_value_t = 1)]
    seed: u64,
    /// Operations in each world
    #[arg(long, default_value_t = 10_000)]
    steps: u64,
    /// Worlds, with seeds that follow one another
    #[arg(long, default_value_t = 1)]
    worlds: u64,
}

fn main() -> ExitCode {
    let args = Args::parse();
    let mut sum = Report::default();
    for seed in args.seed..args.seed.saturating_add(args.worlds) {
        match World::new(Plan { seed, steps: args.steps }).run() {
            Ok(report) => {
                sum = sum.plus(report);
                if args.worlds <= 20 {
                    println!("seed {seed}: {report:?}");
                }
            }
            Err(what) => {
                eprintln!("error: {what}");
                eprintln!(
                    "repeat it with: cargo run --release -p rnic-torture -- --seed {seed} --steps {}",
                    args.steps
                );
                return ExitCode::from(1);
            }
        }
    }
    println!("{} worlds: {sum:?}", args.worlds);
    println!("{} operations, no difference from the model", sum.posted);
    ExitCode::SUCCESS
}
