//! The command `rnic lint`, which checks the running configuration of a fleet.

use crate::service::{self, MetricsPage};
use clap::{Args, ValueEnum};
use rnic_metrics::exposition::Kind;
use rnic_simulator::error::CliError;
use rnic_simulator::interrupt::Interruption;
use rnic_simulator::output::{self, note};
use rnic_untrusted::text::escaped;
use rnic_watch::input::{InputError, read_file};
use rnic_watch::lint::{Common, Desired, FailOn, Fleet, Report, Severity, State, check, fix_commands, scenario};
use std::collections::BTreeSet;
use std::fmt::Write as _;
use std::io::Write;
use std::net::SocketAddr;
use std::path::{Path, PathBuf};
use std::time::Duration;

/// Maximum number of unknown keys that the table lists.
const UNKNOWN: usize = 20;

#[derive(Args, Debug)]
#[command(after_help = "Examples:\n  \
    rnic lint examples/fleet/devices --desired examples/fleet/desired.toml\n  \
    rnic lint dumps --desired fleet.toml --links links.csv --state lint-state.json\n  \
    rnic lint leaf1.tar.gz --format json | jq '.findings[] | select(.severity == \"danger\")'\n  \
    rnic lint dumps --desired fleet.toml --scenario fabric.toml && rnic run fabric.toml\n  \
    rnic lint dumps --desired fleet.toml --watch --listen 0.0.0.0:9479\n  \
    rnic lint dumps --desired fleet.toml --fix-commands      # proposed changes, to be reviewed\n  \
    rnic lint dumps --fail-on unchecked                      # in CI: fail also if a check was impossible\n\n\
    Exit codes: 0 nothing found; 1 a finding of --fail-on that is not accepted; 2 invalid input.")]
pub(crate) struct LintArgs {
    /// Folders or tar archives with the configuration of a device each, or folders of these
    #[arg(value_name = "DEVICES", required = true)]
    devices: Vec<PathBuf>,

    /// The desired state of the fleet; without it, only dangers are found
    #[arg(long, value_name = "FILE.toml")]
    desired: Option<PathBuf>,

    /// All links of the fleet, one `device,port,device,port` with an optional length in metres per line
    #[arg(long, value_name = "FILE.csv")]
    links: Option<PathBuf>,

    /// Keep in this file since when findings exist
    #[arg(long, value_name = "FILE.json")]
    state: Option<PathBuf>,

    /// Also write a scenario of this fabric, for `rnic run`
    #[arg(long, value_name = "OUT.toml", conflicts_with = "watch")]
    scenario: Option<PathBuf>,

    /// Check repeatedly, print changes, and serve metrics at --listen
    #[arg(long, conflicts_with = "format")]
    watch: bool,

    /// Time between two checks of --watch
    #[arg(long, value_name = "TIME", default_value = "60s", value_parser = service::interval, requires = "watch")]
    every: Duration,

    /// Address at which --watch serves the page /metrics
    #[arg(long, value_name = "ADDRESS:PORT", default_value = "127.0.0.1:9479", requires = "watch")]
    listen: SocketAddr,

    /// Format of the standard output
    #[arg(long, value_enum, default_value_t = LintFormat::Table)]
    format: LintFormat,

    /// Print a script with proposed changes instead of the findings: a patch of the configuration for each SONiC
    /// switch, commands for each host. rnic never applies it
    #[arg(long, conflicts_with_all = ["watch", "format"])]
    fix_commands: bool,

    /// The findings that make the exit code 1; accepted findings never do
    #[arg(long, value_enum, default_value_t = FailOnArg::Danger, conflicts_with = "watch")]
    fail_on: FailOnArg,
}

/// Output formats of `rnic lint`.
#[derive(ValueEnum, Clone, Copy, PartialEq, Eq, Debug)]
enum LintFormat {
    /// A text table
    Table,
    /// One JSON document
    Json,
    /// SARIF 2.1.0, which code review tools show
    Sarif,
    /// JUnit XML, which CI servers show: one test case per device and check
    Junit,
}

/// The findings that make the exit code 1.
#[derive(ValueEnum, Clone, Copy, PartialEq, Eq, Debug)]
enum FailOnArg {
    /// Also warnings, and checks that were impossible
    Unchecked,
    /// Also warnings
    Warning,
    /// Dangers and differences from the desired state
    Danger,
}

impl From<FailOnArg> for FailOn {
    fn from(argument: FailOnArg) -> FailOn {
        match argument {
            FailOnArg::Unchecked => FailOn::Unchecked,
            FailOnArg::Warning => FailOn::Warning,
            FailOnArg::Danger => FailOn::Danger,
        }
    }
}

/// Checks the fleet once, or repeatedly with `--watch`.
pub(crate) fn lint(arguments: &LintArgs) -> Result<(), CliError> {
    if arguments.watch {
        return watch(arguments);
    }
    let desired = read_desired(arguments).map_err(refused)?;
    let mut state = read_state(arguments)?;
    let (fleet, report) = checked(arguments, desired.as_ref(), &mut state);
    if let (Some(state), Some(path)) = (&state, &arguments.state) {
        state
            .write(path)
            .map_err(|error| CliError::Io { doing: format!("cannot write `{}`", path.display()), error })?;
    }
    let text = match arguments.format {
        LintFormat::Table if arguments.fix_commands => fix_commands(&fleet, &report),
        LintFormat::Table => table(&report),
        LintFormat::Json => format!("{:#}\n", report.to_json()),
        LintFormat::Sarif => format!("{:#}\n", rnic_watch::lint::sarif(&report)),
        LintFormat::Junit => rnic_watch::lint::junit(&report, arguments.fail_on.into()),
    };
    output::print(|out| write!(out, "{text}"))?;
    if let Some(path) = &arguments.scenario {
        write_scenario(path, &fleet, desired.as_ref(), &report)?;
    }
    if !report.errors.is_empty() {
        return Err(refused(report.errors));
    }
    if report.fails(arguments.fail_on.into()) {
        return Err(CliError::Failed(vec![summary(&report)]));
    }
    Ok(())
}

fn refused(errors: Vec<InputError>) -> CliError {
    CliError::Inputs(errors.iter().map(ToString::to_string).collect())
}

fn read_desired(arguments: &LintArgs) -> Result<Option<Desired>, Vec<InputError>> {
    let Some(path) = &arguments.desired else { return Ok(None) };
    let text = read_file(path).map_err(|error| vec![error])?;
    Desired::parse(&text, &path.display().to_string()).map(Some)
}

fn read_state(arguments: &LintArgs) -> Result<Option<State>, CliError> {
    arguments.state.as_ref().map(|path| State::read(path)).transpose().map_err(|error| refused(vec![error]))
}

fn checked(arguments: &LintArgs, desired: Option<&Desired>, state: &mut Option<State>) -> (Fleet, Report) {
    let fleet = Fleet::read(&arguments.devices, arguments.links.as_deref());
    let mut report = check(&fleet, desired);
    if let Some(state) = state {
        state.update(&mut report.findings, service::unix_seconds());
    }
    (fleet, report)
}

fn write_scenario(path: &Path, fleet: &Fleet, desired: Option<&Desired>, report: &Report) -> Result<(), CliError> {
    let twin = scenario(fleet, desired, report)
        .map_err(|reason| CliError::Input(format!("--scenario: no scenario can be written: {reason}")))?;
    let doing = || format!("cannot write `{}`", path.display());
    rnic_results::files::write_atomically(path, |out| out.write_all(twin.scenario.as_bytes()))
        .map_err(|error| CliError::Io { doing: doing(), error })?;
    note(&format!("wrote {}", path.display()));
    for difference in &twin.differences {
        note(&format!("difference from the fabric: {difference}"));
    }
    Ok(())
}

/// A count with its noun, in the singular or in the plural.
fn counted(count: usize, one: &str, many: &str) -> String {
    format!("{count} {}", if count == 1 { one } else { many })
}

fn summary(report: &Report) -> String {
    let count = |severity| report.count(severity);
    format!(
        "{}, {}, {}, {}",
        counted(count(Severity::Danger), "danger", "dangers"),
        counted(count(Severity::Drift), "difference from the desired state", "differences from the desired state"),
        counted(count(Severity::Warning), "warning", "warnings"),
        counted(count(Severity::Note), "note", "notes"),
    )
}

fn table(report: &Report) -> String {
    let mut text = String::new();
    for common in report.by_finding() {
        text += &describe(&common);
    }
    for unknown in report.unknown.iter().take(UNKNOWN) {
        let device = if unknown.device.0.is_empty() { String::new() } else { format!("{} ", unknown.device.0) };
        text += &line(&format!("unknown  {device}{}: {}", unknown.path, unknown.text));
    }
    if report.unknown.len() > UNKNOWN {
        let _ = writeln!(text, "unknown  {} more (--format json lists all)", report.unknown.len() - UNKNOWN);
    }
    let (switches, hosts, links) = report.devices;
    let dscps: Vec<String> = report.dscps.iter().map(u8::to_string).collect();
    let dscps = if dscps.is_empty() { "unknown".to_string() } else { dscps.join(", ") };
    let _ = writeln!(
        text,
        "{}, {}, {}; DSCP of RDMA: {dscps}",
        counted(switches, "switch", "switches"),
        counted(hosts, "host", "hosts"),
        counted(links, "link", "links")
    );
    let accepted = report.findings.iter().filter(|finding| finding.accepted.is_some()).count();
    let unknown = counted(report.unknown.len(), "unknown key", "unknown keys");
    let _ = writeln!(text, "{}, {accepted} accepted, {unknown}", summary(report));
    let unchecked = report.unchecked();
    if !unchecked.is_empty() {
        let count = counted(unchecked.len(), "device", "devices");
        let shown: Vec<&str> = unchecked.iter().copied().take(8).collect();
        let more = if unchecked.len() > 8 { ", ..." } else { "" };
        text += &line(&format!(
            "not wholly checked: {count} ({}{more}); --fail-on unchecked makes this an error",
            shown.join(", ")
        ));
    }
    text
}

/// Maximum number of devices whose names the table lists for one finding.
const DEVICES: usize = 8;

/// Describes a finding: its check and place, then its text and the first position in a file. An accepted finding has a
/// line with the reason.
fn describe(common: &Common<'_>) -> String {
    let finding = common.finding;
    let place = finding.place_of(&common.devices);
    let place = if place.is_empty() { "the fleet".to_string() } else { place };
    let since = finding.since.map_or(String::new(), |since| format!(", since {}", service::utc(since)));
    let severity = finding.check.severity.name();
    let mut text = line(&format!("{severity:<8} {}: {place}{since}", finding.check.name));
    text += &line(&format!("         {}", finding.text));
    if common.devices.len() > 4 {
        let names = common.devices.iter().take(DEVICES).copied().collect::<Vec<_>>().join(", ");
        let more = common.devices.len().saturating_sub(DEVICES);
        let more = if more > 0 { format!(" and {more} more (--format json lists all)") } else { String::new() };
        text += &line(&format!("         on {names}{more}"));
    }
    if let Some(position) = finding.positions.first() {
        let number = position.line.map_or(String::new(), |line| format!(":{line}"));
        let pointer = if position.pointer.is_empty() { String::new() } else { format!(" {}", position.pointer) };
        text += &line(&format!("         at {}{number}{pointer}", position.file));
    }
    if let Some(reason) = &finding.accepted {
        text += &line(&format!("         accepted: {reason}"));
    }
    text
}

/// A line of the table. Names of devices and ports come from the dumps, so control characters are escaped.
fn line(text: &str) -> String {
    format!("{}\n", escaped(text))
}

fn watch(arguments: &LintArgs) -> Result<(), CliError> {
    let mut desired = read_desired(arguments).map_err(refused)?;
    let mut state = Some(read_state(arguments)?.unwrap_or_default());
    let interruption = Interruption::listen()?;
    let page = MetricsPage::serve(arguments.listen)?;
    let mut before = BTreeSet::new();
    while interruption.exit_code().is_none() {
        let begin = service::unix_seconds();
        // A mistake in the file must not end the watch: the last valid desired state still applies.
        let mistakes = match read_desired(arguments) {
            Ok(read) => {
                desired = read;
                Vec::new()
            }
            Err(mistakes) => mistakes,
        };
        let (_, mut report) = checked(arguments, desired.as_ref(), &mut state);
        report.errors.extend(mistakes);
        let mut metrics = report.metrics();
        let time = "Time of the last check, in seconds since 1970.";
        metrics.add("rnic_lint_last_check_timestamp_seconds", Kind::Gauge, time, &[], begin);
        page.set(&metrics);
        let now: BTreeSet<String> = lines(&report).collect();
        output::print(|out| {
            for line in now.difference(&before) {
                writeln!(out, "{} new: {line}", service::utc(begin))?;
            }
            for line in before.difference(&now) {
                writeln!(out, "{} gone: {line}", service::utc(begin))?;
            }
            Ok(())
        })?;
        before = now;
        if let (Some(state), Some(path)) = (&state, &arguments.state)
            && let Err(error) = state.write(path)
        {
            // The disk may be full for a while, so the watch continues.
            note(&format!("error: cannot write `{}`: {error}", path.display()));
        }
        service::wait(arguments.every, &interruption);
    }
    Ok(())
}

/// The findings that are not accepted and the errors of a report, a line each.
fn lines(report: &Report) -> impl Iterator<Item = String> {
    let findings = report.findings.iter().filter(|finding| finding.accepted.is_none()).map(|finding| {
        format!("{} {}: {}: {}", finding.check.severity, finding.check.name, finding.place(), finding.text)
    });
    let lines = findings.chain(report.errors.iter().map(|error| format!("error {error}")));
    lines.map(|line| escaped(&line).into_owned())
}
