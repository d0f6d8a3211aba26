//! The report's tables of details: statistics by flow size and by traffic source, packet counts, and the ports with the
//! most pauses and drops.

use super::super::stats::Distribution;
use super::super::summary::{Group, RunSummary, ScenarioSummary, Utilisation};
use super::super::text::{count, percent, three_digits};
use super::html::{escape, exact, row, table, time};
use super::settings::ROWS_FROM;
use rnic_spec::PortRecord;
use rnic_spec::RunRecord;

/// Maximum number of ports in a list of ports with most pauses or drops.
const TOP: usize = 8;
/// Maximum number of ports in a list of ports with most pauses or drops, if the report has many runs.
const TOP_OF_MANY: usize = 3;
/// Maximum number of rows of a table that is open when the page loads. Longer tables are folded.
const LONG: usize = 60;

const GROUP_HEAD: [&str; 8] = [
    "Flows",
    "Average slowdown",
    "Median slowdown",
    "99th perc. slowdown",
    "Average FCT",
    "Median FCT",
    "99th perc. FCT",
    "99.9th perc. FCT",
];

/// The table of slowdown and FCT by flow size, with one row per size class and run.
pub(super) fn sizes(summary: &ScenarioSummary) -> String {
    let classes = |run: &RunSummary| {
        run.sizes.iter().map(|c| (c.min_bytes, c.name.replace("<=", "\u{2264}"), c.group)).collect::<Vec<_>>()
    };
    groups("sizes", "By flow size", "Size", summary, classes)
}

/// The table of slowdown and FCT by traffic source; empty if there is only one source.
pub(super) fn traffic(summary: &ScenarioSummary) -> String {
    let classes = |run: &RunSummary| {
        run.traffic.iter().enumerate().map(|(i, c)| (i as u64, c.name.clone(), c.group)).collect::<Vec<_>>()
    };
    groups("traffic", "By traffic source", "Source", summary, classes)
}

fn groups(
    id: &str, title: &str, first: &str, summary: &ScenarioSummary,
    classes: impl Fn(&RunSummary) -> Vec<(u64, String, Group)>,
) -> String {
    let runs = summary.runs.iter().enumerate().filter(|(_, run)| run.fct_us.is_some());
    let mut rows: Vec<(u64, usize, String, String)> = Vec::new();
    for (index, run) in runs {
        for (order, class, group) in classes(run) {
            rows.push((order, index, class, row_of_group(&run.name, &group)));
        }
    }
    if rows.is_empty() {
        return String::new();
    }
    rows.sort_by_key(|(order, index, ..)| (*order, *index));
    let mut lines = Vec::new();
    let mut last = None;
    for (_, _, class, line) in rows {
        if last.as_ref() != Some(&class) {
            let columns = GROUP_HEAD.len() + 1;
            lines.push(format!(
                "<tr class=\"group\"><th scope=\"rowgroup\" colspan=\"{columns}\"><span>{}</span></th></tr>\n",
                escape(&class)
            ));
        }
        lines.push(line);
        last = Some(class);
    }
    let mut head = vec![format!("{first}, run")];
    head.extend(GROUP_HEAD.map(String::from));
    format!(
        "<section id=\"{id}\"><h2>{title}</h2>\n{}</section>\n",
        folded(lines.len(), table("groups", title, &head, &lines))
    )
}

/// Folds `table` into a closed `details` element if it has more than [`LONG`] rows.
fn folded(rows: usize, table: String) -> String {
    if rows <= LONG { table } else { format!("<details><summary>{rows} rows</summary>\n{table}</details>\n") }
}

fn row_of_group(run: &str, group: &Group) -> String {
    let slowdown = |pick: fn(&Distribution) -> f64| cell(group.slowdown.as_ref().map(pick), three_digits, "");
    let fct = |pick: fn(&Distribution) -> f64| cell(group.fct_us.as_ref().map(pick), time, " \u{b5}s");
    row(
        &escape(run),
        &[
            count(group.flows),
            slowdown(|d| d.mean),
            slowdown(|d| d.p50),
            slowdown(|d| d.p99),
            fct(|d| d.mean),
            fct(|d| d.p50),
            fct(|d| d.p99),
            fct(|d| d.p999),
        ],
    )
}

fn cell(value: Option<f64>, show: fn(f64) -> String, unit: &str) -> String {
    value.map_or("&ndash;".to_string(), |v| format!("<span data-tip=\"{}\">{}</span>", exact(v, unit), show(v)))
}

/// A counted quantity: its name, and a function that formats its value in a run.
type Quantity = (&'static str, fn(&RunSummary) -> String);

/// A count that only a simulation of packets has.
fn modelled(run: &RunSummary, value: u64) -> String {
    run.modelled(value).map_or("not modelled".to_string(), count)
}

/// The table of packet counts and other totals of each run. It has a row per quantity and a column per run; if there
/// are many runs, it has a row per run instead.
pub(super) fn counts(summary: &ScenarioSummary) -> String {
    let mut quantities: Vec<Quantity> = vec![
        ("Transport", |r| escape(&r.transport)),
        ("Congestion control", |r| escape(&r.cc)),
        ("PFC", |r| if r.pfc { "on" } else { "off" }.to_string()),
        ("Flows measured", |r| count(r.flows.measured)),
        ("Data packets sent", |r| count(r.totals.data)),
        ("Data packets retransmitted", |r| modelled(r, r.totals.retransmitted)),
        ("Control packets sent", |r| count(r.totals.control)),
        ("Packets dropped at full buffers", |r| modelled(r, r.totals.dropped)),
        ("Packets lost on links", |r| modelled(r, r.totals.lost)),
        ("Packets CE-marked (ECN)", |r| modelled(r, r.totals.marked)),
        ("Timeouts", |r| modelled(r, r.timeouts)),
        ("Pause frames", |r| modelled(r, r.totals.pause_frames)),
        ("Utilisation of host links: mean, maximum", |r| utilisation(r.host_utilisation)),
        ("Utilisation of all links: mean, maximum", |r| utilisation(r.link_utilisation)),
        ("Simulated time", |r| time(r.sim_time.as_us())),
    ];
    if summary.runs.iter().any(|run| run.totals.trimmed > 0) {
        let dropped = quantities.iter().position(|(name, _)| name.starts_with("Packets dropped"));
        let trimmed: [Quantity; 2] = [
            ("Packets trimmed to their headers", |r| modelled(r, r.totals.trimmed)),
            ("Headers returned to their senders", |r| modelled(r, r.totals.returned)),
        ];
        let after = dropped.map_or(quantities.len(), |index| index + 1);
        quantities.splice(after..after, trimmed);
    }
    if summary.runs.iter().any(|run| !run.fidelity.is_packet()) {
        quantities.insert(0, ("Simulated", |r| r.modelled("packets").unwrap_or("flows as fluids").to_string()));
    }
    let names = summary.runs.iter().map(|run| escape(&run.name));
    let (head, rows): (Vec<String>, Vec<String>) = if summary.runs.len() >= ROWS_FROM {
        let head = std::iter::once("Run").chain(quantities.iter().map(|(name, _)| *name)).map(String::from).collect();
        let cells = |run: &RunSummary| quantities.iter().map(|(_, show)| show(run)).collect::<Vec<_>>();
        (head, summary.runs.iter().map(|run| row(&escape(&run.name), &cells(run))).collect())
    } else {
        let cells = |show: &fn(&RunSummary) -> String| summary.runs.iter().map(show).collect::<Vec<_>>();
        let head = std::iter::once("Quantity".to_string()).chain(names).collect();
        (head, quantities.iter().map(|(name, show)| row(name, &cells(show))).collect())
    };
    let table = table("counts", "Counts of the fabric", &head, &rows);
    format!("<section id=\"counts\"><h2>Fabric</h2>\n{table}</section>\n")
}

/// The table of the links of each run by tier and direction; empty if no run has statistics of links.
pub(super) fn tiers(summary: &ScenarioSummary) -> String {
    let mut lines = Vec::new();
    for run in summary.runs.iter().filter(|run| !run.tiers.is_empty()) {
        lines.push(format!(
            "<tr class=\"group\"><th scope=\"rowgroup\" colspan=\"6\"><span>{}</span></th></tr>\n",
            escape(&run.name)
        ));
        lines.extend(run.tiers.iter().map(|tier| {
            let name = format!("{} to {}", escape(&tier.from), escape(&tier.to));
            let [mean, max] = [tier.utilisation.mean, tier.utilisation.max].map(|share| escape(&percent(share)));
            let bytes = super::figure::Unit::Bytes.text(tier.bytes as f64);
            row(&name, &[count(tier.links), bytes, mean, max, escape(&tier.busiest)])
        }));
    }
    if lines.is_empty() {
        return String::new();
    }
    let head = ["Tier", "Links", "Bytes sent", "Mean utilisation", "Maximum", "Busiest link"].map(String::from);
    let table = folded(lines.len(), table("groups", "Links by tier", &head, &lines));
    format!("<section id=\"tiers\"><h2>Links by tier</h2>\n{table}</section>\n")
}

fn utilisation(of: Option<Utilisation>) -> String {
    of.map_or("&ndash;".to_string(), |u| format!("{}, {}", escape(&percent(u.mean)), escape(&percent(u.max))))
}

/// For each run, a list of the ports that were paused longest, and a list of the ports that dropped most packets.
pub(super) fn ports(summary: &ScenarioSummary, reports: &[RunRecord]) -> String {
    let many = summary.runs.len() >= ROWS_FROM;
    let top = if many { TOP_OF_MANY } else { TOP };
    let mut body = String::new();
    for (run, report) in summary.runs.iter().zip(reports) {
        if run.modelled(()).is_none() {
            body += &format!("<h3>{}</h3><p>Pauses and drops are not modelled.</p>\n", escape(&run.name));
            continue;
        }
        let ports = &report.output.ports;
        let duration = run.sim_time.as_ps().max(1) as f64;
        let paused = |ps: u64| (time(ps as f64 / 1e6), percent(ps as f64 / duration));
        let dropped = |drops: u64| (count(drops), percent(drops as f64 / run.totals.dropped.max(1) as f64));
        body += &format!(
            "<h3>{}</h3><div class=\"row of2\">{}{}</div>\n",
            escape(&run.name),
            list(
                "Paused longest",
                "No port was paused.",
                ["Paused", "Share of the run"],
                ports,
                top,
                paused_ps,
                paused
            ),
            list(
                "Most drops",
                "No port dropped a packet.",
                ["Dropped", "Share of all drops"],
                ports,
                top,
                drops,
                dropped
            ),
        );
    }
    if body.is_empty() {
        return String::new();
    }
    if many {
        body = format!("<details><summary>Ports of {} runs</summary>\n{body}</details>\n", summary.runs.len());
    }
    format!("<section id=\"ports\"><h2>Ports</h2>\n{body}</section>\n")
}

fn paused_ps(port: &PortRecord) -> u64 {
    port.priorities.iter().map(|p| p.paused_ps).sum()
}

fn drops(port: &PortRecord) -> u64 {
    port.priorities.iter().map(|p| p.drops).sum()
}

/// A list of the `top` ports with the largest `value`, with bars relative to the largest value. Ports with equal values
/// keep the order of `ports`.
fn list(
    title: &str, none: &str, columns: [&str; 2], ports: &[PortRecord], top: usize, value: fn(&PortRecord) -> u64,
    show: impl Fn(u64) -> (String, String),
) -> String {
    let mut ranked: Vec<(u64, &PortRecord)> = ports.iter().map(|p| (value(p), p)).filter(|p| p.0 > 0).collect();
    ranked.sort_by_key(|(value, _)| std::cmp::Reverse(*value));
    let Some(&(largest, _)) = ranked.first() else {
        return format!("<div class=\"none\"><h4>{title}</h4><p>{none}</p></div>");
    };
    let line = |&(value, port): &(u64, &PortRecord)| {
        let (text, share) = show(value);
        let width = 100.0 * value as f64 / largest as f64;
        let bar = format!("<span class=\"track\"><i style=\"width:{width:.2}%\"></i></span>");
        let name = format!("{}:{} \u{2192} {}", escape(&port.node), port.port, escape(&port.peer));
        row(&name, &[bar, text, escape(&share)])
    };
    let rows: Vec<String> = ranked.iter().take(top).map(line).collect();
    let head = [format!("Port ({} affected)", count(ranked.len() as u64)), String::new()]
        .into_iter()
        .chain(columns.map(String::from))
        .collect::<Vec<_>>();
    format!("<div><h4>{title}</h4>{}</div>", table("ports", title, &head, &rows))
}
