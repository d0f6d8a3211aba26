//! The command `rnic-attack`: attacks connections of each kind, and prints a table of the results.

use clap::Parser;
use rnic_attack::attacker::Attack;
use rnic_attack::{Case, HEAD, carry_out};
use rnic_endpoint::{Security, Service};
use rnic_netns::Pair;
use std::process::ExitCode;
use std::time::Duration;

/// Attacks connections of the endpoint with forged, repeated and altered packets. Needs root or user namespaces.
#[derive(Parser)]
#[command(name = "rnic-attack")]
struct Args {
    /// Seconds of each attack
    #[arg(long, default_value_t = 5.0)]
    seconds: f64,
    /// Seed of the attacker's random numbers
    #[arg(long, default_value_t = 1)]
    seed: u64,
}

fn main() -> ExitCode {
    let args = Args::parse();
    let pair = match Pair::new(1_500) {
        Ok(pair) => pair,
        Err(error) => {
            eprintln!("error: {error}");
            return ExitCode::FAILURE;
        }
    };
    println!("{HEAD}");
    let mut broken = 0;
    for attack in Attack::ALL {
        for service in [Service::Irn, Service::Rc] {
            for security in Security::ALL {
                let case = Case { attack, service, security };
                match carry_out(&pair, case, Duration::from_secs_f64(args.seconds.max(0.01)), args.seed) {
                    Ok(finding) => {
                        println!("{finding}");
                        broken += u32::from(case.must_hold() && !finding.held());
                    }
                    Err(error) => {
                        eprintln!("error: {case:?}: {error}");
                        broken += 1;
                    }
                }
            }
        }
    }
    if broken == 0 { ExitCode::SUCCESS } else { ExitCode::FAILURE }
}
