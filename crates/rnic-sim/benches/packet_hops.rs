//! Packet-hops per CPU-second: every transmission of a data or control packet on a link, over the CPU time of the run.
//!
//! `cargo bench` runs each case in a process of its own, so that peak memory is the case's, three times, and prints the median with the
//! smallest and largest. `cargo bench -- --quick` runs each once; `cargo bench -- 1024` only cases whose name contains the text.
#![allow(missing_docs, reason = "a program, not a library")]

use rnic_sim::run::{Progress, RunOptions, RunProgress, run_scenario};
use rnic_sim::scenario;
use std::path::Path;
use std::process::{Command, ExitCode};

/// Scenario file, run, and what the table calls it.
const CASES: [(&str, &str, &str); 8] = [
    ("irn/default.toml", "RoCE + PFC", "54 hosts, 40 Gbps, IRN default case: RoCE + PFC"),
    ("irn/default.toml", "IRN", "54 hosts, 40 Gbps, IRN default case: IRN"),
    ("bench/websearch-54.toml", "RoCE + PFC", "54 hosts, 40 Gbps, WebSearch: RoCE + PFC"),
    ("bench/websearch-54.toml", "IRN", "54 hosts, 40 Gbps, WebSearch: IRN"),
    ("bench/permutation-1024.toml", "RoCE + PFC", "1024 hosts, 100 Gbps, permutation: RoCE + PFC"),
    ("bench/permutation-1024.toml", "IRN", "1024 hosts, 100 Gbps, permutation: IRN"),
    ("bench/poisson-1024.toml", "RoCE + PFC", "1024 hosts, 100 Gbps, heavy-tailed: RoCE + PFC"),
    ("bench/poisson-1024.toml", "IRN", "1024 hosts, 100 Gbps, heavy-tailed: IRN"),
];

struct Silent;
impl Progress for Silent {
    fn update(&self, _run: usize, _state: RunProgress) {}
}

/// One measurement.
#[derive(Clone, Copy)]
struct Sample {
    hops: u64,
    cpu_s: f64,
    peak_rss: u64,
}

impl Sample {
    fn rate(&self) -> f64 {
        self.hops as f64 / self.cpu_s / 1e6
    }
}

/// Runs one case in this process and prints its sample for the parent.
fn measure(case: usize) -> Result<(), String> {
    let (file, run, _) = CASES.get(case).ok_or("no such case")?;
    let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../scenarios").join(file);
    let mut scenario = scenario::load(&path, &[], None).map_err(|error| error.to_string())?;
    scenario.runs.retain(|r| r.name == *run);
    let reports =
        run_scenario(&scenario, &RunOptions { threads: 1 }, &Silent).map_err(|(_, error)| error.to_string())?;
    let report = reports.first().ok_or("the scenario has no such run")?;
    println!("{} {} {}", report.output.totals.hops, report.cpu_s, report.peak_rss_bytes);
    Ok(())
}

/// Measures one case in a child process.
fn sample(case: usize) -> Result<Sample, String> {
    let program = std::env::current_exe().map_err(|error| error.to_string())?;
    let output =
        Command::new(program).args(["--case", &case.to_string()]).output().map_err(|error| error.to_string())?;
    let text = String::from_utf8_lossy(&output.stdout).into_owned();
    let fields: Vec<&str> = text.split_whitespace().collect();
    let failed = || format!("case {case} failed: {}{text}", String::from_utf8_lossy(&output.stderr));
    let [hops, cpu_s, peak_rss] = fields[..] else { return Err(failed()) };
    let parse = |text: &str| text.parse::<f64>().map_err(|_| failed());
    Ok(Sample { hops: parse(hops)? as u64, cpu_s: parse(cpu_s)?, peak_rss: parse(peak_rss)? as u64 })
}

fn main() -> ExitCode {
    let arguments: Vec<String> = std::env::args().skip(1).collect();
    if let Some(at) = arguments.iter().position(|a| a == "--case") {
        let case = arguments.get(at + 1).and_then(|n| n.parse().ok()).unwrap_or(usize::MAX);
        return match measure(case) {
            Ok(()) => ExitCode::SUCCESS,
            Err(error) => {
                eprintln!("{error}");
                ExitCode::FAILURE
            }
        };
    }
    let rounds = if arguments.iter().any(|a| a == "--quick") { 1 } else { 3 };
    let wanted: Vec<&String> = arguments.iter().filter(|a| !a.starts_with("--")).collect();
    println!("{:<54}{:>12}{:>9}{:>26}{:>11}", "case", "packet-hops", "CPU s", "M hops per CPU s", "peak MB");
    for (case, (_, _, name)) in CASES.iter().enumerate() {
        if !wanted.is_empty() && !wanted.iter().any(|w| name.contains(w.as_str())) {
            continue;
        }
        let samples: Result<Vec<Sample>, String> = (0..rounds).map(|_| sample(case)).collect();
        let mut samples = match samples {
            Ok(samples) => samples,
            Err(error) => {
                eprintln!("{error}");
                return ExitCode::FAILURE;
            }
        };
        samples.sort_by(|a, b| a.rate().total_cmp(&b.rate()));
        let (median, low, high) = (samples[rounds / 2], samples[0].rate(), samples[rounds - 1].rate());
        println!(
            "{name:<54}{:>12}{:>9.2}{:>10.1} ({low:>5.1}..{high:>5.1}){:>11.1}",
            median.hops,
            median.cpu_s,
            median.rate(),
            median.peak_rss as f64 / 1e6
        );
    }
    ExitCode::SUCCESS
}
