//! Prints the tables of the benchmark in Markdown.

use crate::Measured;
use crate::cases::Case;
use crate::sample::Sample;

/// A table that is printed row by row. Every row has the same columns; the first row prints the header before it.
#[derive(Default)]
pub(crate) struct Table {
    begun: bool,
}

/// Name of a column, and its value in one row.
pub(crate) type Cell = (String, String);

impl Table {
    /// Prints a row for `case`, with the case's hosts, traffic and run in the first columns.
    pub(crate) fn row(&mut self, case: &Case, cells: &[Cell]) {
        if !self.begun {
            self.begun = true;
            line(["hosts", "traffic", "transport"], cells.iter().map(|(head, _)| head.clone()));
            let rules = cells.iter().map(|(head, value)| format!("{}:", "-".repeat(head.len().max(value.len()) - 1)));
            line(["-----:", &"-".repeat(WHICH[1]), &"-".repeat(WHICH[2])], rules);
        }
        let values = cells.iter().map(|(head, value)| format!("{value:>0$}", head.len()));
        line([&case.hosts.to_string(), case.traffic, case.run], values);
    }
}

/// Widths of the first three columns: hosts, traffic and run.
const WHICH: [usize; 3] = [6, 22, 18];

fn line(which: [&str; 3], cells: impl Iterator<Item = String>) {
    let [hosts, traffic, transport] = WHICH;
    let cells: Vec<String> = cells.collect();
    println!("| {:>hosts$} | {:traffic$} | {:transport$} | {} |", which[0], which[1], which[2], cells.join(" | "));
}

/// Speed and memory of one case. The time of the set-up has its own column and does not count in the rates.
pub(crate) fn scale(case: &Case, measured: &Measured) -> Vec<Cell> {
    let set_up = |of: fn(&Sample) -> f64| median(measured.set_up.iter().map(of).collect());
    let (set_up_cpu, set_up_wall) = (set_up(|s| s.cpu_s), set_up(|s| s.wall_s));
    let per_cpu = |sample: &Sample| sample.hops as f64 / (sample.cpu_s - set_up_cpu).max(1e-9) / 1e6;
    let per_second = |sample: &Sample| sample.hops as f64 / (sample.wall_s - set_up_wall).max(1e-9) / 1e6;
    let per_host = set_up(|s| s.peak_bytes.saturating_sub(s.base_bytes) as f64) / f64::from(case.hosts);
    let (_, alone) = &measured.runs[0];

    let mut cells = vec![
        cell("M packet-hops", format!("{:.1}", alone[0].hops as f64 / 1e6)),
        cell("start-up s", format!("{:.3}", set_up(|s| s.total_s))),
        cell("KB per host", format!("{:.1}", per_host / 1e3)),
    ];
    for (threads, samples) in &measured.runs {
        let name = format!("M hops per CPU s, {}", counted(*threads));
        cells.push((name, spread(samples.iter().map(per_cpu).collect())));
    }
    for (threads, samples) in &measured.runs {
        let rate = median(samples.iter().map(per_second).collect());
        cells.push((format!("per s, {}", counted(*threads)), format!("{rate:.1}")));
    }
    for (threads, samples) in &measured.runs[1..] {
        // Compare measurements of the same round, because other programs disturb consecutive measurements alike.
        let ratios = samples.iter().zip(alone).map(|(many, one)| per_second(many) / per_second(one));
        let speed_up = median(ratios.collect());
        cells.push((format!("speed-up on {threads}"), format!("{speed_up:.2}")));
        cells.push(cell("efficiency", format!("{:.0} %", speed_up / *threads as f64 * 100.0)));
    }
    for (threads, samples) in &measured.runs {
        let peak = samples.iter().map(|sample| sample.peak_bytes).max().unwrap_or(0);
        cells.push((format!("peak MB, {}", counted(*threads)), format!("{:.0}", peak as f64 / 1e6)));
    }
    cells
}

/// The columns for the memory of active flows: their number, and the bytes per flow.
pub(crate) fn flows(flows: u64, bytes: f64) -> Vec<Cell> {
    vec![cell("flows under way", flows.to_string()), cell("bytes per flow", format!("{bytes:.0}"))]
}

fn cell(name: &str, value: String) -> Cell {
    (name.to_string(), value)
}

fn counted(threads: usize) -> String {
    format!("{threads} thread{}", if threads == 1 { "" } else { "s" })
}

/// The median as text, followed by minimum and maximum if there are several values.
fn spread(mut values: Vec<f64>) -> String {
    values.sort_by(f64::total_cmp);
    match values[..] {
        [low, .., high] => format!("{:.1} ({low:.1} to {high:.1})", median(values)),
        _ => format!("{:.1}", median(values)),
    }
}

/// The median; of an even number of values, the higher of the two middle values.
fn median(mut values: Vec<f64>) -> f64 {
    values.sort_by(f64::total_cmp);
    values.get(values.len() / 2).copied().unwrap_or(f64::NAN)
}
