//! Benchmark of the simulator on fabrics of 54 hosts to tens of thousands of hosts: set-up time, packet-hops per second
//! and memory.
//!
//! `cargo bench -p rnic-sim --bench scale` prints the tables of `docs/performance-tables.md`. A packet-hop is the
//! transmission of a data or control packet on a link. Each measurement is a separate process, so that its peak
//! memory is the memory of one case. Measurements with different numbers of threads alternate, so that other programs
//! disturb all of them alike. Arguments after `--`:
//!
//! - `--quick`: one round of measurements per case instead of three;
//! - `--record FILE`: also writes the tables as data for `cargo run -p rnic-pages`, for example to
//!   `docs/results/data/scale.json`;
//! - `--threads 1,2,4`: other numbers of threads than 1 and 2;
//! - any other argument: only cases whose name contains one of these texts, such as `54`, `"1024 hosts, heavy-tailed"`
//!   or `Homa`.
#![allow(missing_docs, reason = "a program, not a library")]

mod cases;
mod sample;
mod table;

use cases::{CASES, Case, FLOWS_UNDER_WAY, Group};
use rnic_record::Record;
use sample::{Sample, Task};
use std::path::PathBuf;
use std::process::ExitCode;
use table::Table;

/// The command line arguments.
struct Arguments {
    rounds: usize,
    threads: Vec<usize>,
    wanted: Vec<String>,
    record: Option<PathBuf>,
    /// The arguments as they were given.
    given: String,
}

impl Arguments {
    fn parse(given: &[String]) -> Result<Arguments, String> {
        let mut arguments =
            Arguments { rounds: 3, threads: vec![1, 2], wanted: Vec::new(), record: None, given: String::new() };
        let mut words = given.iter();
        while let Some(word) = words.next() {
            match word.as_str() {
                "--bench" => {}
                "--quick" => arguments.rounds = 1,
                "--record" => {
                    let file = words.next().ok_or("--record needs a file")?;
                    arguments.record = Some(PathBuf::from(file));
                    continue;
                }
                "--threads" => arguments.threads = threads(words.next().map_or("", String::as_str))?,
                option if option.starts_with("--") => {
                    return Err(format!("{option} is no option; there are --quick, --threads and --record"));
                }
                text => arguments.wanted.push(text.to_string()),
            }
        }
        let shown: Vec<&str> = given.iter().map(String::as_str).filter(|word| *word != "--bench").collect();
        if !shown.is_empty() {
            arguments.given = format!(" -- {}", shown.join(" "));
        }
        Ok(arguments)
    }

    fn wants(&self, name: &str) -> bool {
        self.wanted.is_empty() || self.wanted.iter().any(|wanted| name.contains(wanted.as_str()))
    }
}

/// Parses the numbers of threads. The first is always 1, to which the speeds of the others are compared.
fn threads(list: &str) -> Result<Vec<usize>, String> {
    let numbers: Result<Vec<usize>, _> = list.split(',').map(str::parse).collect();
    match numbers {
        Ok(numbers) if numbers.first() == Some(&1) && !numbers.contains(&0) => Ok(numbers),
        _ => Err(format!("--threads \"{list}\": a list that begins with 1 is accepted, such as 1,2")),
    }
}

fn main() -> ExitCode {
    let words: Vec<String> = std::env::args().skip(1).collect();
    let outcome = match words.first() {
        Some(word) if word == sample::CHILD => sample::child(&words[1..]),
        _ => Arguments::parse(&words).and_then(|arguments| measure(&arguments)),
    };
    match outcome {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            eprintln!("{error}");
            ExitCode::FAILURE
        }
    }
}

/// Measures all selected cases and prints each when it is complete. A case that fails does not stop the others.
fn measure(arguments: &Arguments) -> Result<(), String> {
    let mut failures = Vec::new();
    let mut scale = Table::default();
    for case in CASES.iter().flat_map(Group::cases).filter(|case| arguments.wants(&case.name())) {
        match measure_case(&case, arguments) {
            Ok(measured) => scale.row(&case, table::scale(&case, &measured)),
            Err(error) => failures.push(error),
        }
    }
    println!();
    let mut flows_table = Table::default();
    for case in FLOWS_UNDER_WAY.cases().filter(|case| arguments.wants(&case.name())) {
        match bytes_per_flow(&case) {
            Ok((flows, bytes)) => flows_table.row(&case, table::flows(flows, bytes)),
            Err(error) => failures.push(error),
        }
    }
    if let Some(path) = &arguments.record {
        let command = format!("cargo bench -p rnic-sim --bench scale{}", arguments.given);
        let mut record = Record::now("Speed and memory of the simulator", command);
        record.put("scale", scale.recorded);
        record.put("flows", flows_table.recorded);
        if let Err(error) = record.write(path) {
            failures.push(format!("cannot write `{}`: {error}", path.display()));
        }
    }
    if failures.is_empty() { Ok(()) } else { Err(failures.join("\n")) }
}

/// The measurements of one case: of the set-up, and of whole runs for each number of threads. All lists have the same
/// length.
struct Measured {
    set_up: Vec<Sample>,
    runs: Vec<(usize, Vec<Sample>)>,
}

fn measure_case(case: &Case, arguments: &Arguments) -> Result<Measured, String> {
    let mut measured =
        Measured { set_up: Vec::new(), runs: arguments.threads.iter().map(|n| (*n, Vec::new())).collect() };
    for _ in 0..arguments.rounds {
        measured.set_up.push(sample::of(case, &Task::set_up())?);
        for (threads, samples) in &mut measured.runs {
            samples.push(sample::of(case, &Task::whole(*threads))?);
        }
    }
    let mut hops = measured.runs.iter().flat_map(|(_, samples)| samples.iter().map(|sample| sample.hops));
    let first = hops.next();
    if hops.any(|hops| Some(hops) != first) {
        return Err(format!("{}: the number of packet-hops is not the same in each run", case.name()));
    }
    Ok(measured)
}

/// Measures the memory per active flow by two runs of different size. Returns the active flows of the larger run, and
/// the difference in peak memory divided by the difference in active flows.
fn bytes_per_flow(case: &Case) -> Result<(u64, f64), String> {
    let few = sample::of(case, &Task::repeated(1))?;
    let many = sample::of(case, &Task::repeated(5))?;
    if many.under_way <= few.under_way {
        return Err(format!("{}: {} flows under way after {}", case.name(), many.under_way, few.under_way));
    }
    let bytes = many.peak_bytes as f64 - few.peak_bytes as f64;
    Ok((many.under_way, bytes / (many.under_way - few.under_way) as f64))
}
