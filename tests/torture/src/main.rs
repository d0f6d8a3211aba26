//! The command `rnic-torture`: runs simulated worlds of queue pairs with consecutive seeds. It prints a summary, or the
//! seed of the world that failed.

use clap::{Parser, ValueEnum};
use rnic_torture::fuzz;
use rnic_torture::network::Dice;
use rnic_torture::{Packets, Plan, Report, World};
use std::fmt::Debug;
use std::process::ExitCode;

/// Random RDMA operations over a network that drops, duplicates, reorders and corrupts packets, checked against a
/// reference model.
#[derive(Parser)]
#[command(name = "rnic-torture")]
struct Args {
    /// Seed of the first world; all random choices derive from it
    #[arg(long, default_value_t = 1)]
    seed: u64,
    /// Number of operations in each world
    #[arg(long, default_value_t = 10_000)]
    steps: u64,
    /// Number of worlds, which have consecutive seeds
    #[arg(long, default_value_t = 1)]
    worlds: u64,
    /// How packets are protected: `plain`, `protected`, or `attacked`, that is protected with an attacker who alters,
    /// forges and repeats packets
    #[arg(long, default_value = "plain", conflicts_with = "fuzz")]
    packets: Protect,
    /// Feed invalid inputs of this kind instead of running worlds
    #[arg(long)]
    fuzz: Option<Fuzz>,
}

#[derive(Clone, Copy, ValueEnum)]
enum Fuzz {
    /// Packets that are nearly valid, duplicated, or random bytes
    Packets,
    /// Verbs in any order
    Verbs,
    /// P4 programs that are correct, nearly correct, or random text
    P4,
}

#[derive(Clone, Copy, ValueEnum)]
enum Protect {
    Plain,
    Protected,
    Attacked,
}

impl Args {
    /// The protection of packets, and its name.
    fn packets(&self) -> (Packets, &'static str) {
        match self.packets {
            Protect::Plain => (Packets::Plain, "plain"),
            Protect::Protected => (Packets::Protected, "protected"),
            Protect::Attacked => (Packets::Attacked, "attacked"),
        }
    }
}

fn main() -> ExitCode {
    let args = Args::parse();
    let steps = args.steps;
    let seeds = args.seed..args.seed.saturating_add(args.worlds);
    let done = match args.fuzz {
        None => worlds(&args, seeds),
        Some(Fuzz::Packets) => {
            fuzz("packets", seeds, fuzz::Summary::plus, |seed| fuzz::packets::run(Dice::new(seed), steps))
        }
        Some(Fuzz::Verbs) => fuzz("verbs", seeds, fuzz::Summary::plus, |seed| fuzz::verbs::run(Dice::new(seed), steps)),
        Some(Fuzz::P4) => fuzz("P4", seeds, fuzz::p4::Summary::plus, |seed| fuzz::p4::run(Dice::new(seed), steps)),
    };
    if let Err((seed, what)) = done {
        let fuzz = match args.fuzz {
            None => format!(" --packets {}", args.packets().1),
            Some(Fuzz::Packets) => " --fuzz packets".to_string(),
            Some(Fuzz::Verbs) => " --fuzz verbs".to_string(),
            Some(Fuzz::P4) => " --fuzz p4".to_string(),
        };
        eprintln!("error: {what}");
        eprintln!("repeat it with: cargo run --release -p rnic-torture -- --seed {seed} --steps {}{fuzz}", args.steps);
        return ExitCode::from(1);
    }
    ExitCode::SUCCESS
}

type Failure = (u64, String);

fn worlds(args: &Args, seeds: std::ops::Range<u64>) -> Result<(), Failure> {
    let mut sum = Report::default();
    for seed in seeds {
        let report = World::new(Plan { seed, steps: args.steps, packets: args.packets().0 })
            .run()
            .map_err(|what| (seed, what))?;
        if args.worlds <= 20 {
            println!("seed {seed}: {report:?}");
        }
        sum = sum.plus(report);
    }
    println!("{} worlds: {sum:?}", args.worlds);
    println!("{} operations, no difference from the model", sum.posted);
    Ok(())
}

fn fuzz<S: Default + Debug>(
    what: &str, seeds: std::ops::Range<u64>, plus: impl Fn(S, S) -> S, run: impl Fn(u64) -> Result<S, String>,
) -> Result<(), Failure> {
    let mut sum = S::default();
    for seed in seeds {
        sum = plus(sum, run(seed).map_err(|what| (seed, what))?);
    }
    println!("{what}: {sum:?}");
    Ok(())
}
