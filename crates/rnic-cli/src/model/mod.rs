//! The command `rnic model`, which computes models without simulating packets.

mod buffers;
mod dcqcn;
mod figures;
mod of_scenario;
mod report;
mod timely;

use clap::{Args, Subcommand, ValueEnum};
use rnic_model::ModelError;
use rnic_model::series::{Group, Run};
use rnic_simulator::Catalogue;
use rnic_simulator::error::CliError;
use rnic_transport::{BitRate, Time};
use std::path::{Path, PathBuf};

#[derive(Args, Debug)]
pub(crate) struct ModelArgs {
    #[command(subcommand)]
    what: Model,
}

#[derive(Subcommand, Debug)]
enum Model {
    /// Compute headroom, PFC thresholds and ECN thresholds of a switch with a shared buffer, or check the switches of a
    /// scenario
    Buffers(Box<buffers::BuffersArgs>),
    /// Solve the fluid model of DCQCN: fixed point, rates and queue over time, sweeps
    Dcqcn(Box<dcqcn::DcqcnArgs>),
    /// Solve the fluid model of TIMELY, or of patched TIMELY with its fixed point
    Timely(Box<timely::TimelyArgs>),
}

/// Output formats of `rnic model`.
#[derive(ValueEnum, Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum ModelFormat {
    /// Text tables
    Table,
    /// One JSON document
    Json,
    /// Comma-separated values
    Csv,
}

/// Arguments that say how to solve a fluid model, and how to show the solution.
#[derive(Args, Debug)]
struct SolveArgs {
    /// Solve the model from time 0 to this time
    #[arg(long, value_name = "TIME", default_value = "200ms", allow_hyphen_values = true)]
    duration: Time,

    /// Maximum step of the solver; the actual step is a divisor of the delay
    #[arg(long, value_name = "TIME", default_value = "1us", allow_hyphen_values = true)]
    step: Time,

    /// Time between printed and plotted values
    #[arg(long, value_name = "TIME", default_value = "100us", allow_hyphen_values = true)]
    sample: Time,

    /// Exclude this much time from the start in statistics
    #[arg(long, value_name = "TIME", default_value = "10ms", allow_hyphen_values = true)]
    skip: Time,

    /// Also solve with a half and a quarter of the step, and print the differences
    #[arg(long)]
    check_step: bool,

    /// Also plot the curves to this file (SVG)
    #[arg(long, value_name = "FILE.svg")]
    plot: Option<PathBuf>,

    /// Format of the standard output
    #[arg(long, value_enum, default_value_t = ModelFormat::Table)]
    format: ModelFormat,
}

impl SolveArgs {
    fn run(&self) -> Result<Run, CliError> {
        if self.skip >= self.duration {
            let Self { skip, duration, .. } = self;
            return Err(CliError::Input(format!(
                "--skip {skip} is too long: it must be less than --duration, which is {duration}"
            )));
        }
        Ok(Run { duration: self.duration, step: self.step, sample: self.sample })
    }
}

/// Arguments that describe the flows of a fluid model.
#[derive(Args, Debug)]
struct FlowArgs {
    /// Number of flows; flows are identical unless --start or --begin has several values [default: that number, else 2]
    #[arg(short = 'N', long, value_name = "N")]
    flows: Option<u32>,

    /// Initial rate of each flow, or one rate for all flows [default: line rate, TIMELY: fair share]
    #[arg(long, value_name = "RATE,...", value_delimiter = ',', allow_hyphen_values = true)]
    start: Vec<BitRate>,

    /// Start time of each flow, or one time for all flows [default: 0]
    #[arg(long, value_name = "TIME,...", value_delimiter = ',', allow_hyphen_values = true)]
    begin: Vec<Time>,
}

impl FlowArgs {
    /// Number of flows with their own initial rate or start time; 0 if all flows are identical.
    fn apart(&self) -> usize {
        match self.start.len().max(self.begin.len()) {
            0 | 1 => 0,
            count => count,
        }
    }

    /// The number of flows: `flows` if given, else the number of values in `--start` or `--begin`, else 2.
    fn count(&self, flows: Option<u32>) -> u32 {
        flows.unwrap_or(if self.apart() > 0 { self.apart() as u32 } else { 2 })
    }

    /// The flows in groups of identical flows. Flows start at the rate `default` if `--start` is not given.
    fn groups(&self, flows: Option<u32>, default: BitRate) -> Result<Vec<Group>, CliError> {
        let count = self.count(flows);
        for (what, values) in [("--start", self.start.len()), ("--begin", self.begin.len())] {
            if values > 1 && values != count as usize {
                return Err(CliError::Input(format!(
                    "{what} has {values} values for {count} flows; write one value per flow, or one for all"
                )));
            }
        }
        let rate = |i: usize| self.start.get(i).or(self.start.first()).copied().unwrap_or(default);
        let start = |i: usize| self.begin.get(i).or(self.begin.first()).copied().unwrap_or(Time::ZERO);
        Ok(match self.apart() {
            0 => vec![Group { count, rate: rate(0), start: start(0) }],
            apart => (0..apart).map(|i| Group { count: 1, rate: rate(i), start: start(i) }).collect(),
        })
    }
}

/// Computes the selected model and prints the result.
pub(crate) fn model(arguments: &ModelArgs, catalogue: &Catalogue) -> Result<(), CliError> {
    match &arguments.what {
        Model::Buffers(arguments) => buffers::buffers(arguments, catalogue),
        Model::Dcqcn(arguments) => dcqcn::dcqcn(arguments),
        Model::Timely(arguments) => timely::timely(arguments),
    }
}

fn refused(error: ModelError) -> CliError {
    CliError::Input(error.to_string())
}

/// Splits `key=value` at the first equals sign.
fn parse_setting(text: &str) -> Result<(String, String), String> {
    let (key, value) =
        text.split_once('=').ok_or("there is no `=`; write a key and a value, for example dcqcn.g=0.0625")?;
    Ok((key.trim().to_string(), value.trim().to_string()))
}

/// Parses a number or a fraction such as `1/256`.
fn number(text: &str) -> Result<f64, String> {
    let parse = |text: &str| text.trim().parse::<f64>().ok().filter(|value| value.is_finite());
    let value = match text.split_once('/') {
        Some((above, below)) => parse(above).zip(parse(below)).map(|(above, below)| above / below),
        None => parse(text),
    };
    value
        .filter(|value| value.is_finite())
        .ok_or_else(|| format!("`{text}` is not a number; write for example 0.0625 or 1/16"))
}

fn write(path: &Path, text: &str) -> Result<(), CliError> {
    std::fs::write(path, text)
        .map_err(|error| CliError::Io { doing: format!("cannot write the plot into `{}`", path.display()), error })
}

/// Formats rows of cells as a text table. The first `names` columns are left-aligned, the others right-aligned.
fn aligned(rows: &[Vec<String>], names: usize) -> String {
    let lines = crate::columns::aligned(rows, |column| column >= names).into_iter();
    lines.map(|line| if line.is_empty() { "\n".to_string() } else { format!("  {line}\n") }).collect()
}

/// A number of bytes as text: `20.200 KB`.
fn size(bytes: f64) -> String {
    match bytes.abs() {
        b if b >= 999_950.0 => format!("{:.3} MB", bytes / 1e6),
        _ => format!("{:.3} KB", bytes / 1e3),
    }
}

/// A bit rate, given in bit/s, as text in Gbps.
fn gbps(bps: f64) -> String {
    format!("{:.4} Gbps", bps / 1e9)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn numbers_may_be_fractions() {
        assert_eq!((number("1/256"), number("0.5"), number(" 1e-3 ")), (Ok(1.0 / 256.0), Ok(0.5), Ok(1e-3)));
        for text in ["1/0", "x", "", "1/", "nan", "inf"] {
            assert!(number(text).is_err(), "{text}");
        }
    }

    #[test]
    fn flows_with_different_values_are_separate_groups() {
        let args = |start: &[u64], begin: &[u64]| FlowArgs {
            flows: None,
            start: start.iter().map(|gbps| BitRate::from_gbps(*gbps)).collect(),
            begin: begin.iter().map(|us| Time::from_us(*us)).collect(),
        };
        let line = BitRate::from_gbps(40);
        let groups = |args: FlowArgs, flows| {
            args.groups(flows, line).map(|groups| {
                groups
                    .iter()
                    .map(|group| (group.count, group.rate.as_bps() / 1_000_000_000, group.start))
                    .collect::<Vec<_>>()
            })
        };
        assert_eq!(groups(args(&[], &[]), Some(8)).unwrap(), [(8, 40, Time::ZERO)]);
        assert_eq!(groups(args(&[5], &[]), Some(3)).unwrap(), [(3, 5, Time::ZERO)]);
        assert_eq!(groups(args(&[40, 0], &[7]), None).unwrap(), [(1, 40, Time::from_us(7)), (1, 0, Time::from_us(7))]);
        assert_eq!(groups(args(&[1, 2, 3], &[]), None).unwrap().len(), 3);
        let error = groups(args(&[1, 2, 3], &[]), Some(4)).unwrap_err().to_string();
        assert_eq!(error, "--start has 3 values for 4 flows; write one value per flow, or one for all");
        assert!(groups(args(&[1, 2, 3], &[1, 2]), None).is_err());
    }

    #[test]
    fn columns_are_aligned() {
        let rows = [vec!["a".to_string(), "10".to_string()], vec!["bcd".to_string(), "1".to_string()]];
        assert_eq!(aligned(&rows, 1), "  a    10\n  bcd   1\n");
        assert_eq!(aligned(&rows, 2), "  a    10\n  bcd  1\n");
    }
}
