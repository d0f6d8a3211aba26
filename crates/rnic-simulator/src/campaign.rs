//! The command `rnic campaign`: many runs, on any number of machines.

mod plan;
mod run;
mod show;
mod submit;

use crate::error::CliError;
use crate::format::Format;
use crate::selection::Selection;
use clap::{Args, Subcommand, ValueEnum};
use rnic_campaign::campaign::{CampaignError, Shard, Until};
use rnic_sim::Catalogue;
use std::path::{Path, PathBuf};

#[derive(Args, Debug)]
pub(crate) struct CampaignArgs {
    #[command(subcommand)]
    command: CampaignCommand,
}

#[derive(Subcommand, Debug)]
enum CampaignCommand {
    /// Write a manifest: the list of a campaign's runs
    Plan(PlanArgs),
    /// Simulate the runs of a manifest that have no result yet
    Run(RunArgs),
    /// Write, or submit, the job of a cluster that simulates the runs of a manifest
    Submit(SubmitArgs),
    /// Print the numbers of runs that are done, missing, failed and in progress
    Status(StatusArgs),
    /// Print or write the results
    Results(ResultsArgs),
    /// Remove results that no campaign contains, damaged files, and journals of workers that have ended
    Gc(GcArgs),
}

#[derive(Args, Debug)]
#[command(after_help = "Examples:\n  \
    rnic campaign plan sweep.toml --out sweep.jsonl\n  \
    rnic campaign plan irn/default --set traffic.flows=2000 --set traffic.warmup=200 --until 'slowdown.mean ± 5 %' --out irn.jsonl\n  \
    rnic campaign run irn.jsonl && rnic campaign results irn.results\n\n\
    Each run of the scenario, with each point of its [sweep], is a point of the campaign.")]
struct PlanArgs {
    #[command(flatten)]
    selection: Selection,

    /// Only the run with this name; may be repeated
    #[arg(long = "run", value_name = "NAME")]
    runs: Vec<String>,

    /// The file of the manifest
    #[arg(long, value_name = "FILE.jsonl")]
    out: PathBuf,

    /// Replace FILE.jsonl, even if it is not a manifest of this campaign
    #[arg(long)]
    replace: bool,

    /// Name of the campaign [default: name of the file without its ending]
    #[arg(long, value_name = "NAME")]
    name: Option<String>,

    /// Number of seeds of each point; with --until the number with which it begins [default: 1, with --until 5]
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u32).range(1..=1_000_000), allow_negative_numbers = true)]
    seeds: Option<u32>,

    /// Add seeds until the confidence interval of a metric's mean is narrow enough: 'slowdown.mean ± 5 %'
    ///
    /// The metric is a number of summary.json with its keys joined by dots. Without %, the width is in the metric's
    /// unit; +- is the same as ±.
    #[arg(long, value_name = "METRIC ± WIDTH")]
    until: Option<Until>,

    /// Maximum number of seeds of a point with --until
    #[arg(long, value_name = "N", default_value_t = Until::MAX_SEEDS, requires = "until", value_parser = clap::value_parser!(u32).range(2..=1_000_000), allow_negative_numbers = true)]
    max_seeds: u32,

    /// Probability that the interval of --until contains the mean over all seeds
    #[arg(long, value_name = "P", default_value_t = Until::CONFIDENCE, requires = "until")]
    confidence: f64,

    /// Store the complete record of each run too, with its flows (64 bytes each)
    #[arg(long)]
    records: bool,
}

#[derive(Args, Debug)]
#[command(after_help = "Examples:\n  \
    rnic campaign run sweep.jsonl\n  \
    rnic campaign run sweep.jsonl --store /scratch/sweep --shard 3/100 --threads 4\n\n\
    The same command continues after an interruption: a run with a result is not simulated again. Any number of these\n\
    commands may use one folder at the same time, on any number of machines.\n\
    Exit codes: 0 all runs completed; 1 runs failed, or a result cannot be stored; 2 invalid input; 130 interrupted.")]
struct RunArgs {
    /// The manifest
    #[arg(value_name = "MANIFEST")]
    manifest: PathBuf,

    /// Folder of the results [default: the manifest's name with the ending .results]
    #[arg(long, value_name = "DIR")]
    store: Option<PathBuf>,

    /// Simulate only part i of n, from 1/n to n/n
    #[arg(long, value_name = "i/n", default_value = "1/1")]
    shard: Shard,

    /// Number of simultaneous simulations [default: number of processors]
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u16).range(1..), allow_negative_numbers = true)]
    threads: Option<u16>,

    /// How often a run is started again whose worker was killed
    #[arg(long, value_name = "N", default_value_t = 2, value_parser = clap::value_parser!(u32).range(0..=1000), allow_negative_numbers = true)]
    retries: u32,

    /// Simulate runs again that are stored as failed or lost
    #[arg(long)]
    retry_failed: bool,

    /// Replace the campaign with this name in the folder by this manifest; results of runs that both contain are used
    #[arg(long)]
    replace: bool,

    /// Do not print progress
    #[arg(long)]
    quiet: bool,
}

/// The engines of clusters.
#[derive(ValueEnum, Clone, Copy, PartialEq, Eq, Debug)]
enum Engine {
    /// A job array of Slurm (`sbatch`)
    Slurm,
    /// A task array of HyperQueue (`hq submit`)
    Hq,
}

#[derive(Args, Debug)]
#[command(after_help = "Examples:\n  \
    rnic campaign submit sweep.jsonl --engine slurm --shards 100 --time 2:00:00 --option=--partition=cpu > job.sh\n  \
    rnic campaign submit sweep.jsonl --engine slurm --shards 5000 --max-parallel 200 --mem 4G --go\n  \
    rnic campaign submit sweep.jsonl --engine hq --shards 100 --go\n\n\
    The job is a script in bash, whose tasks execute `rnic campaign run MANIFEST --shard i/n`. All tasks need the manifest,\n\
    the folder of the results and the command rnic at the same paths, as on a shared file system.")]
struct SubmitArgs {
    /// The manifest
    #[arg(value_name = "MANIFEST")]
    manifest: PathBuf,

    /// The engine of the cluster
    #[arg(long, value_enum)]
    engine: Engine,

    /// Number of tasks into which the campaign is divided
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u32).range(1..=1_000_000), allow_negative_numbers = true)]
    shards: u32,

    /// Folder of the results [default: the manifest's name with the ending .results]
    #[arg(long, value_name = "DIR")]
    store: Option<PathBuf>,

    /// Processors of a task, and number of its simultaneous simulations
    #[arg(long, value_name = "N", default_value_t = 1, value_parser = clap::value_parser!(u16).range(1..), allow_negative_numbers = true)]
    cpus: u16,

    /// Maximum time of a task, in the engine's notation
    #[arg(long, value_name = "TIME")]
    time: Option<String>,

    /// Memory of a task, in the engine's notation, as in 4G
    #[arg(long, value_name = "SIZE")]
    mem: Option<String>,

    /// Maximum number of tasks that run at the same time [default: no limit]; with Slurm only
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u32).range(1..))]
    max_parallel: Option<u32>,

    /// Maximum number of tasks of one job array; more tasks become several arrays. Slurm's MaxArraySize is one more;
    /// `scontrol show config` prints it; with Slurm only [default: 1000]
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u32).range(1..))]
    array_size: Option<u32>,

    /// A further option of the engine's submit command; may be repeated: --option=--partition=cpu
    #[arg(long = "option", value_name = "OPTION", allow_hyphen_values = true)]
    options: Vec<String>,

    /// The command that the tasks execute as rnic [default: this program]
    #[arg(long, value_name = "COMMAND")]
    command: Option<String>,

    /// Write the script to this file instead of standard output
    #[arg(long, value_name = "FILE")]
    out: Option<PathBuf>,

    /// Submit the script
    #[arg(long, conflicts_with = "out")]
    go: bool,
}

#[derive(Args, Debug)]
struct StatusArgs {
    /// Folder of the results
    #[arg(value_name = "DIR")]
    store: PathBuf,

    /// Only the campaign with this name
    #[arg(long, value_name = "NAME")]
    name: Option<String>,

    /// Format of the standard output
    #[arg(long, value_enum, default_value_t = Format::Table)]
    format: Format,
}

#[derive(Args, Debug)]
#[command(after_help = "Examples:\n  \
    rnic campaign results sweep.results\n  \
    rnic campaign results sweep.results --metric fct_us.p99\n  \
    rnic campaign results sweep.results --out sweep.parquet\n\n\
    The table has a row for each point: the mean of the metric over the seeds, with the 95 % confidence interval. The file\n\
    has a row for each run, with all metrics.")]
struct ResultsArgs {
    /// Folder of the results
    #[arg(value_name = "DIR")]
    store: PathBuf,

    /// Only the campaign with this name
    #[arg(long, value_name = "NAME")]
    name: Option<String>,

    /// The metric of the table [default: that of the campaign's --until, else slowdown.mean]
    #[arg(long, value_name = "METRIC", conflicts_with = "out")]
    metric: Option<String>,

    /// Format of the standard output
    #[arg(long, value_enum, default_value_t = Format::Table, conflicts_with = "out")]
    format: Format,

    /// Write the results of all runs to this file, as Parquet or CSV by its ending
    #[arg(long, value_name = "FILE")]
    out: Option<PathBuf>,

    /// Also write where and when each run was simulated
    #[arg(long, requires = "out")]
    provenance: bool,
}

#[derive(Args, Debug)]
struct GcArgs {
    /// Folder of the results
    #[arg(value_name = "DIR")]
    store: PathBuf,

    /// Only print what would be removed
    #[arg(long)]
    dry_run: bool,
}

/// Executes a subcommand of `rnic campaign`.
pub(crate) fn campaign(arguments: &CampaignArgs, catalogue: &Catalogue) -> Result<(), CliError> {
    match &arguments.command {
        CampaignCommand::Plan(arguments) => plan::plan(arguments, catalogue),
        CampaignCommand::Run(arguments) => run::run(arguments, catalogue),
        CampaignCommand::Submit(arguments) => submit::submit(arguments, catalogue),
        CampaignCommand::Status(arguments) => show::status(arguments, catalogue),
        CampaignCommand::Results(arguments) => show::results(arguments, catalogue),
        CampaignCommand::Gc(arguments) => show::gc(arguments, catalogue),
    }
}

impl From<CampaignError> for CliError {
    fn from(error: CampaignError) -> CliError {
        match error {
            CampaignError::Input(sentence) => CliError::Input(sentence),
            CampaignError::Io { doing, error } => CliError::Io { doing, error },
        }
    }
}

/// The folder for the results of a manifest: `store` if it is given, else a folder next to the manifest.
fn store_of(manifest: &Path, store: Option<&PathBuf>) -> PathBuf {
    store.cloned().unwrap_or_else(|| manifest.with_extension("results"))
}

/// The text that distinguishes a program with additional congestion controls in fingerprints; empty for the standard
/// ones.
fn program(catalogue: &Catalogue) -> Result<String, CliError> {
    let reading = |error| CliError::Io { doing: "cannot read this program's own file".to_string(), error };
    if catalogue.is_extended() { crate::program::identity().map_err(reading) } else { Ok(String::new()) }
}
