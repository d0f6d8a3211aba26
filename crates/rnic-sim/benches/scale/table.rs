//! The tables, in Markdown.

use crate::Measured;
use crate::cases::Case;
use crate::sample::Sample;

/// Width of the columns that say which case a row is.
const WHICH: [usize; 3] = [6, 22, 18];

/// Begins the table of speed.
pub(crate) fn scale_head(threads: &[usize]) {
    let mut cells = vec!["M packet-hops".to_string(), "start-up s".to_string(), "KB per host".to_string()];
    cells.push(format!("{:<20}", "M hops per CPU s"));
    for threads in threads {
        cells.push(format!("per s, {threads} thread{}", if *threads == 1 { "" } else { "s" }));
    }
    for threads in &threads[1..] {
        cells.push(format!("speed-up on {threads}"));
        cells.push("efficiency".to_string());
    }
    cells.push("peak MB".to_string());
    row(["hosts", "traffic", "transport"], &cells);
    let rules: Vec<String> = cells.iter().map(|cell| format!("{}:", "-".repeat(cell.len() - 1))).collect();
    let which = WHICH.map(|width| "-".repeat(width));
    row([&which[0], &which[1], &which[2]], &rules);
}

/// One case. Rates leave out what setting up takes, which has a column of its own.
pub(crate) fn scale_row(case: &Case, measured: &Measured) {
    let set_up = |of: fn(&Sample) -> f64| median(measured.set_up.iter().map(of).collect());
    let (set_up_cpu, set_up_wall) = (set_up(|s| s.cpu_s), set_up(|s| s.wall_s));
    let per_second = |sample: &Sample| sample.hops as f64 / (sample.wall_s - set_up_wall).max(1e-9) / 1e6;
    let (_, alone) = &measured.runs[0];
    let mut per_cpu: Vec<f64> =
        alone.iter().map(|sample| sample.hops as f64 / (sample.cpu_s - set_up_cpu).max(1e-9) / 1e6).collect();
    per_cpu.sort_by(f64::total_cmp);
    let (low, high) = (per_cpu[0], per_cpu[per_cpu.len() - 1]);

    let per_host = set_up(|s| s.peak_bytes.saturating_sub(s.base_bytes) as f64) / f64::from(case.hosts);
    let mut cells = vec![
        format!("{:>13.1}", alone[0].hops as f64 / 1e6),
        format!("{:>10.3}", set_up(|s| s.total_s)),
        format!("{:>11.1}", per_host / 1e3),
        format!("{:>20}", format!("{:.1} ({low:.1} to {high:.1})", median(per_cpu))),
    ];
    for (_, samples) in &measured.runs {
        cells.push(format!("{:>15.1}", median(samples.iter().map(per_second).collect())));
    }
    for (threads, samples) in &measured.runs[1..] {
        // Within each round: other programs disturb neighbours alike.
        let ratios = samples.iter().zip(alone).map(|(many, one)| per_second(many) / per_second(one));
        let speed_up = median(ratios.collect());
        cells.push(format!("{speed_up:>13.2}"));
        cells.push(format!("{:>8.0} %", speed_up / *threads as f64 * 100.0));
    }
    let peak = measured.runs.iter().flat_map(|(_, samples)| samples).map(|sample| sample.peak_bytes).max();
    cells.push(format!("{:>7.0}", peak.unwrap_or(0) as f64 / 1e6));
    row([&case.hosts.to_string(), case.traffic, case.run], &cells);
}

/// Begins the table of memory for flows.
pub(crate) fn flows_head() {
    println!();
    let cells = ["flows under way", "bytes per flow"].map(str::to_string);
    row(["hosts", "traffic", "transport"], &cells);
    let which = WHICH.map(|width| "-".repeat(width));
    row([&which[0], &which[1], &which[2]], &cells.map(|cell| format!("{}:", "-".repeat(cell.len() - 1))));
}

/// Flows under way, and bytes for each.
pub(crate) fn flows_row(case: &Case, flows: u64, bytes: f64) {
    row([&case.hosts.to_string(), case.traffic, case.run], &[format!("{flows:>15}"), format!("{bytes:>14.0}")]);
}

fn row(which: [&str; 3], cells: &[String]) {
    let [hosts, traffic, transport] = WHICH;
    println!("| {:hosts$} | {:traffic$} | {:transport$} | {} |", which[0], which[1], which[2], cells.join(" | "));
}

/// The middle one, of an even number the higher of the two.
fn median(mut values: Vec<f64>) -> f64 {
    values.sort_by(f64::total_cmp);
    values.get(values.len() / 2).copied().unwrap_or(f64::NAN)
}
