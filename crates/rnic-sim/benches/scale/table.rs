//! Prints the tables of the benchmark in Markdown, and keeps them as data.

use crate::Measured;
use crate::cases::Case;
use crate::sample::Sample;
use rnic_pages::table::cell;
use rnic_record::Column;
use serde_json::{Value, json};

/// A table that is printed row by row. Every row has the same columns; the first row prints the header before it.
#[derive(Default)]
pub(crate) struct Table {
    /// The rows so far.
    pub(crate) recorded: rnic_record::Table,
}

/// A column, and its value in one row.
pub(crate) type Cell = (Column, Value);

impl Table {
    /// Prints a row for `case`, with the case's hosts, traffic and run in the first columns.
    pub(crate) fn row(&mut self, case: &Case, cells: Vec<Cell>) {
        let which = [Column::new("hosts").right(), Column::new("traffic"), Column::new("transport")];
        let texts: Vec<String> = cells.iter().map(|(column, value)| cell(column, value)).collect();
        if self.recorded.columns.is_empty() {
            self.recorded.columns = which.into_iter().chain(cells.iter().map(|(column, _)| column.clone())).collect();
            line(["hosts", "traffic", "transport"], cells.iter().map(|(column, _)| column.name.clone()));
            let rules = cells
                .iter()
                .zip(&texts)
                .map(|((column, _), text)| format!("{}:", "-".repeat(column.name.len().max(text.len()) - 1)));
            line(["-----:", &"-".repeat(WHICH[1]), &"-".repeat(WHICH[2])], rules);
        }
        let values = cells.iter().zip(&texts).map(|((column, _), text)| format!("{text:>0$}", column.name.len()));
        line([&case.hosts.to_string(), case.traffic, case.run], values);
        let which = [json!(case.hosts), json!(case.traffic), json!(case.run)];
        self.recorded.rows.push(which.into_iter().chain(cells.into_iter().map(|(_, value)| value)).collect());
    }
}

/// Numbers of threads for which the speed-up is predicted.
const PREDICTED: [u32; 2] = [8, 16];

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
        number("M packet-hops", 1, &[alone[0].hops as f64 / 1e6]),
        number("start-up s", 3, &[set_up(|s| s.total_s)]),
        number("KB per host", 1, &[per_host / 1e3]),
    ];
    for (threads, samples) in &measured.runs {
        let name = format!("M hops per CPU s, {}", counted(*threads));
        cells.push(number(&name, 1, &spread(samples.iter().map(per_cpu).collect())));
    }
    for (threads, samples) in &measured.runs {
        let rate = median(samples.iter().map(per_second).collect());
        cells.push(number(&format!("per s, {}", counted(*threads)), 1, &[rate]));
    }
    for (threads, samples) in &measured.runs[1..] {
        // Compare measurements of the same round, because other programs disturb consecutive measurements alike.
        let ratios = samples.iter().zip(alone).map(|(many, one)| per_second(many) / per_second(one));
        let speed_up = median(ratios.collect());
        cells.push(number(&format!("speed-up on {threads}"), 2, &[speed_up]));
    }
    for (threads, samples) in &measured.runs[1..] {
        let serial_s = |sample: &Sample| (sample.wall_s - sample.together_s - set_up_wall).max(0.0);
        let share = |sample: &Sample| 100.0 * serial_s(sample) / (sample.wall_s - set_up_wall).max(1e-9);
        cells.push(number(&format!("alone on {threads}, %"), 1, &[median(samples.iter().map(share).collect())]));
        for many in PREDICTED {
            // What one thread does alone on several takes as long on any number; the rest is divided evenly.
            let predict = |(sample, one): (&Sample, &Sample)| {
                let (serial, all) = (serial_s(sample), one.wall_s - set_up_wall);
                all / (serial + (all - serial).max(0.0) / f64::from(many))
            };
            let ratio = median(samples.iter().zip(alone).map(predict).collect());
            cells.push(number(&format!("at most on {many} (predicted)"), 1, &[ratio]));
        }
    }
    for (threads, samples) in &measured.runs {
        let peak = samples.iter().map(|sample| sample.peak_bytes).max().unwrap_or(0);
        cells.push(number(&format!("peak MB, {}", counted(*threads)), 0, &[peak as f64 / 1e6]));
    }
    cells
}

/// The columns for the memory of active flows: their number, and the bytes per flow.
pub(crate) fn flows(flows: u64, bytes: f64) -> Vec<Cell> {
    vec![number("active flows", 0, &[flows as f64]), number("bytes per flow", 0, &[bytes])]
}

/// A cell with one value, or with median, minimum and maximum.
fn number(name: &str, decimals: usize, values: &[f64]) -> Cell {
    (Column::new(name).decimals(decimals).right(), rnic_record::cells(values))
}

fn counted(threads: usize) -> String {
    format!("{threads} thread{}", if threads == 1 { "" } else { "s" })
}

/// The median, followed by minimum and maximum if there are several values.
fn spread(mut values: Vec<f64>) -> Vec<f64> {
    values.sort_by(f64::total_cmp);
    match values[..] {
        [low, .., high] => vec![median(values), low, high],
        _ => vec![median(values)],
    }
}

/// The median; of an even number of values, the higher of the two middle values.
fn median(mut values: Vec<f64>) -> f64 {
    values.sort_by(f64::total_cmp);
    values.get(values.len() / 2).copied().unwrap_or(f64::NAN)
}
