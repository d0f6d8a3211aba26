//! The command `rnic top`: what the queue pairs of the processes of this host do.

mod rows;
mod screen;
mod table;

use crate::service;
use clap::{Args, ValueEnum};
use rnic_endpoint::statistics::{Processes, processes};
use rnic_simulator::error::CliError;
use rnic_simulator::interrupt::Interruption;
use rnic_simulator::output;
use rows::{Meter, Row};
use std::io;
use std::time::Duration;

/// Maximum time for which a reading waits for processes that do not answer.
const TIMEOUT: Duration = Duration::from_millis(500);

/// Arguments of `rnic top`.
#[derive(Args, Debug)]
#[command(after_help = "A process publishes its queue pairs if it has opened a device of rnic's libibverbs (`rnic \
    verbs`), or is a measurement of `rnic perf` or `rnic pingpong`. Root sees the processes of all users of this network \
    namespace, other users see their own. RNIC_STATS=off keeps a program out.\n\n\
    Examples:\n  \
    rnic top                                  # keys: s sort, / filter, q quit\n  \
    rnic top --once --sort rtt\n  \
    rnic top --process ib_write_bw --process 4711\n  \
    rnic top --json --interval 10s | jq -c '.queue_pairs[] | {pid, qpn, bytes_sent_per_s}'\n\n\
    Exit codes: 0 ended, also by a signal; 1 the statistics cannot be read; 2 no terminal, or invalid arguments.")]
pub(crate) struct TopArgs {
    /// Show only these processes: a process ID, or a part of the program's name; repeatable
    #[arg(short, long, value_name = "PID|NAME")]
    process: Vec<String>,

    /// Order of the queue pairs: the highest value first
    #[arg(short, long, value_enum, value_name = "COLUMN", default_value_t = Key::Traffic)]
    sort: Key,

    /// Time between two readings
    #[arg(short, long, value_name = "TIME", default_value = "1s", value_parser = service::interval)]
    interval: Duration,

    /// Print one table and end, after one interval
    #[arg(long)]
    once: bool,

    /// Print a JSON document in a line after each interval; with --once, one document
    #[arg(long)]
    json: bool,
}

/// What the queue pairs are sorted by.
#[derive(ValueEnum, Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Key {
    /// Bytes sent and received per second
    Traffic,
    /// Bytes sent per second
    Send,
    /// Bytes received per second
    Receive,
    /// Retransmissions per second
    Retransmissions,
    /// Round-trip time
    Rtt,
    /// Outstanding send requests
    Outstanding,
    /// Process ID, ascending
    Process,
}

impl Key {
    /// The name on the command line.
    fn name(self) -> String {
        self.to_possible_value().map_or_else(String::new, |value| value.get_name().to_string())
    }

    /// The next key, in the order of the declaration; the first one after the last.
    fn next(self) -> Key {
        let all = Key::value_variants();
        all[(self as usize + 1) % all.len()]
    }
}

/// Which queue pairs are shown, and in which order.
#[derive(Clone, PartialEq, Debug)]
struct Choice {
    /// Process IDs and parts of programs' names; empty for all processes.
    processes: Vec<String>,
    sort: Key,
}

impl Choice {
    /// Selects and sorts.
    fn apply(&self, rows: &mut Vec<Row>) {
        rows.retain(|row| self.shows(row.pid, &row.program));
        rows::sort(rows, self.sort);
    }

    fn shows(&self, pid: Option<u32>, program: &str) -> bool {
        let fits = |wanted: &String| match wanted.parse::<u32>() {
            Ok(wanted) => pid == Some(wanted),
            Err(_) => program.contains(wanted.as_str()),
        };
        self.processes.is_empty() || self.processes.iter().any(fits)
    }
}

/// One reading: the queue pairs, and what else is to be said.
struct Reading {
    rows: Vec<Row>,
    all: Processes,
}

/// Reads the statistics of all processes.
fn read(meter: &mut Meter) -> Result<Reading, CliError> {
    let doing = "cannot list the processes that publish statistics".to_string();
    let all = processes(TIMEOUT).map_err(|error| CliError::Io { doing, error })?;
    Ok(Reading { rows: meter.rows(&all), all })
}

/// Runs the command.
pub(crate) fn top(arguments: &TopArgs) -> Result<(), CliError> {
    let choice = Choice { processes: arguments.process.clone(), sort: arguments.sort };
    if arguments.process.iter().any(String::is_empty) {
        return Err(CliError::Input("--process is empty; accepted: a process ID, or a part of a name".to_string()));
    }
    if !arguments.once && !arguments.json {
        return screen::run(choice, arguments.interval);
    }
    let interruption = Interruption::listen()?;
    let mut meter = Meter::default();
    read(&mut meter)?;
    loop {
        service::wait(arguments.interval, &interruption);
        if interruption.exit_code().is_some() {
            return Ok(());
        }
        let mut reading = read(&mut meter)?;
        choice.apply(&mut reading.rows);
        print(&reading, &choice, arguments)?;
        if arguments.once {
            return Ok(());
        }
    }
}

fn print(reading: &Reading, choice: &Choice, arguments: &TopArgs) -> Result<(), CliError> {
    if !arguments.json {
        let lines = table::lines(&reading.rows).into_iter().chain(table::notes(&reading.all, choice));
        return output::print(|out| lines.into_iter().try_for_each(|line| writeln!(out, "{line}")));
    }
    let document = table::document(&reading.rows, &reading.all, arguments.interval);
    let text = serde_json::to_string(&document)
        .map_err(|error| CliError::Io { doing: "cannot write JSON".to_string(), error: io::Error::other(error) })?;
    output::print(|out| writeln!(out, "{text}"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn processes_are_chosen_by_number_or_by_a_part_of_the_name() {
        let choice = |wanted: &[&str]| Choice {
            processes: wanted.iter().map(ToString::to_string).collect(),
            sort: Key::Traffic,
        };
        let shows = |wanted: &[&str]| {
            [(Some(12), "ib_write_bw"), (Some(123), "python3"), (None, "ucx_12")]
                .map(|(pid, program)| choice(wanted).shows(pid, program))
        };
        assert_eq!(shows(&[]), [true, true, true]);
        assert_eq!(shows(&["12"]), [true, false, false]);
        assert_eq!(shows(&["write", "123"]), [true, true, false]);
        assert_eq!(shows(&["ucx"]), [false, false, true]);
    }

    #[test]
    fn every_key_has_its_name_and_follows_another() {
        let mut key = Key::Traffic;
        for expected in Key::value_variants() {
            assert_eq!(key, *expected);
            assert_eq!(Key::from_str(&key.name(), false), Ok(key));
            key = key.next();
        }
        assert_eq!(key, Key::Traffic);
    }
}
