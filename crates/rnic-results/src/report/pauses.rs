//! The figure of paused ports over time, and the tables of pause roots, victims and pause trees. A root is a cause of
//! pauses, such as a congested output; a pause tree is the tree of ports that it keeps paused. A victim is a delayed
//! flow whose path does not contain the root.

use super::super::pauses::{PauseSummary, host_name, port_name, root_name};
use super::super::summary::{RunSummary, ScenarioSummary};
use super::super::watchdog::WatchdogSummary;
use super::figure::{Axis, Board, Figure, Reference, Scale, Span, SpanRow, Spans, Unit};
use super::html::{escape, row, table, time};
use rnic_spec::RunRecord;
use rnic_spec::{PauseRecords, PauseSpan, PortRecord};
use rnic_spec::{RunSpec, Scenario};
use rnic_transport::Time;
use std::collections::BTreeMap;

/// Maximum number of runs with figures and tables of pauses. Runs after these have none.
const RUNS: usize = 8;
/// Maximum number of paused ports that a figure shows.
const ROWS: usize = 40;
/// Maximum number of roots (causes of pauses) that have their own colour in a figure.
const ROOTS: usize = 6;
/// Maximum number of rows of the table of roots (causes of pauses).
const TOP: usize = 8;
/// A gap between two pauses is not drawn if it is shorter than the length of the figure divided by this number.
const FINEST: u64 = 1_200;

/// The boards (figures with a legend) of all runs in which pauses were recorded.
pub(super) fn boards(scenario: &Scenario, summary: &ScenarioSummary, reports: &[RunRecord]) -> Vec<(String, Board)> {
    let runs = scenario.runs.iter().zip(&summary.runs).zip(reports).take(RUNS);
    let board = |((spec, run), report): ((&RunSpec, &RunSummary), &RunRecord)| {
        let records = report.output.pauses.as_ref().filter(|records| !records.spans.is_empty())?;
        Some((format!("Pauses: {}", run.name), board(spec, records, report)))
    };
    runs.filter_map(board).collect()
}

/// The series (colour) of each root of pauses. The roots with the most samples have a series each; all other roots
/// share one more series.
struct Colours {
    names: Vec<String>,
    of_root: BTreeMap<u32, usize>,
    others: usize,
}

impl Colours {
    fn new(records: &PauseRecords, report: &RunRecord) -> Colours {
        let ports = &report.output.ports;
        let mut order: Vec<(u32, u64)> = (0..).zip(records.roots.iter().map(|root| root.samples)).collect();
        order.sort_by_key(|(_, samples)| std::cmp::Reverse(*samples));
        order.truncate(ROOTS);
        let mut names: Vec<String> =
            order.iter().map(|(root, _)| root_name(ports, &records.roots[*root as usize])).collect();
        let of_root = (0..).zip(&order).map(|(series, (root, _))| (*root, series)).collect();
        let others = names.len();
        if records.spans.iter().any(|span| !Self::known(&of_root, span.root)) {
            names.push("another root, or an XON frame on its way".to_string());
        }
        Colours { names, of_root, others }
    }

    fn known(of_root: &BTreeMap<u32, usize>, root: Option<u32>) -> bool {
        root.is_some_and(|root| of_root.contains_key(&root))
    }

    fn of(&self, root: Option<u32>) -> usize {
        root.and_then(|root| self.of_root.get(&root).copied()).unwrap_or(self.others)
    }
}

fn board(spec: &RunSpec, records: &PauseRecords, report: &RunRecord) -> Board {
    let (ports, end) = (&report.output.ports, report.output.end);
    let colours = Colours::new(records, report);
    let mut by_port: BTreeMap<(u32, u8), Vec<&PauseSpan>> = BTreeMap::new();
    for span in &records.spans {
        by_port.entry((span.port, span.priority)).or_default().push(span);
    }
    let all = by_port.len();
    let length = |spans: &[&PauseSpan]| spans.iter().map(|span| (span.to - span.from).as_ps()).sum::<u64>();
    let mut longest: Vec<(&(u32, u8), &Vec<&PauseSpan>)> = by_port.iter().collect();
    longest.sort_by_key(|(cell, spans)| (std::cmp::Reverse(length(spans)), **cell));
    longest.truncate(ROWS);
    longest.sort_by_key(|(cell, spans)| (spans[0].from, **cell));
    let gap = Time::from_ps(end.saturating_sub(records.start).as_ps() / FINEST);
    let several = ports.first().is_some_and(|port| port.priorities.len() > 1);
    let paused = longest.iter().map(|((port, priority), spans)| {
        let name = port_name(ports, *port);
        let pieces = spans.iter().map(|span| (colours.of(span.root), span.from, span.to));
        SpanRow {
            name: if several { format!("{name} ({priority})") } else { name },
            root: None,
            spans: joined(pieces, gap),
        }
    });
    let roots = colours.of_root.iter().map(|(root, series)| {
        let mut pieces: Vec<_> = records.spans.iter().filter(|span| span.root == Some(*root)).collect();
        pieces.sort_by_key(|span| span.from);
        SpanRow {
            name: port_name(ports, records.roots[*root as usize].port),
            root: Some(*series),
            spans: joined(pieces.iter().map(|span| (*series, span.from, span.to)), gap),
        }
    });
    let mut rows: Vec<SpanRow> = roots.collect();
    rows.sort_by_key(|row| row.root);
    rows.extend(paused);
    let shown =
        if all > ROWS { format!("; the {ROWS} of {all} ports that were paused longest") } else { String::new() };
    Board {
        series: colours.names,
        shown: 0,
        rows: vec![vec![Figure::Spans(Spans {
            title: "Paused ports".to_string(),
            caption: format!(
                "a bar where the port was paused, sampled every {}, in the colour of the root of the pause; bold rows are the \
                 roots, with bars where they kept other ports paused{shown}",
                records.interval
            ),
            x: Axis { name: "Time".into(), unit: Unit::Time, scale: Scale::Linear },
            reach: [records.start.as_us(), end.as_us()],
            rows,
            marks: marks(spec, records, ports, end),
        })]],
    }
}

/// Joins adjacent intervals of the same series if the gap between them is shorter than `gap`: the figure could not show
/// such a gap.
fn joined(pieces: impl Iterator<Item = (usize, Time, Time)>, gap: Time) -> Vec<Span> {
    let mut joined: Vec<(usize, Time, Time)> = Vec::new();
    for (series, from, to) in pieces {
        match joined.last_mut().filter(|(last, _, until)| *last == series && from <= *until + gap) {
            Some((_, _, until)) => *until = to.max(*until),
            None => joined.push((series, from, to)),
        }
    }
    joined.iter().map(|(series, from, to)| Span { series: *series, from: from.as_us(), to: to.as_us() }).collect()
}

/// Instants that the figure marks with a line: the starts of pause storms, and the first cycle of ports that wait for
/// each other.
fn marks(spec: &RunSpec, records: &PauseRecords, ports: &[PortRecord], end: Time) -> Vec<Reference> {
    let storms = spec.fabric.storms.iter().filter(|storm| spec.transport.pfc && storm.start <= end);
    let mut marks: Vec<Reference> = storms
        .map(|storm| Reference {
            value: storm.start.as_us(),
            name: format!("the NIC of {} pauses its switch", host_name(ports, storm.host)),
        })
        .collect();
    if let Some(cycle) = &records.cycle {
        let name = match (cycle.at_end, cycle.truncated) {
            (true, false) => "deadlock: the cycle is closed",
            (true, true) => "a cycle until the end of the run",
            (false, _) => "a cycle, which dissolved",
        };
        marks.push(Reference { value: cycle.first.as_us(), name: name.to_string() });
    }
    marks
}

/// The tables of pause roots (causes of pauses), victims (flows that a root delays although the root is not on their
/// path) and the largest pause tree, for each run that recorded pauses.
pub(super) fn section(summary: &ScenarioSummary) -> String {
    let runs = summary.runs.iter().take(RUNS).filter_map(|run| Some((run, run.pauses.as_ref()?)));
    let parts: String = runs.map(|(run, pauses)| part(&run.name, pauses)).collect();
    if parts.is_empty() { parts } else { format!("<section id=\"pauses\"><h2>Pauses</h2>\n{parts}</section>\n") }
}

/// Maximum number of storms of a run that the report lists.
const STORMS: usize = 20;

/// A table of the storms that watchdogs found, for each run that has some.
pub(super) fn watchdogs(summary: &ScenarioSummary) -> String {
    let runs = summary.runs.iter().filter(|run| !run.watchdog.is_empty()).take(RUNS);
    let part = |run: &RunSummary| {
        let head = ["Port", "Action", "Found", "Restored", "Packets dropped"].map(String::from);
        let cells = |storm: &WatchdogSummary| {
            let restored = storm.restored.map_or("never".to_string(), |at| time(at.as_us()));
            row(
                &escape(&storm.port),
                &[storm.action.to_string(), time(storm.detected.as_us()), restored, storm.dropped.to_string()],
            )
        };
        let rows: Vec<String> = run.watchdog.iter().take(STORMS).map(cells).collect();
        let mut html = table("counts", &format!("Storms found: {}", escape(&run.name)), &head, &rows);
        if run.watchdog.len() > STORMS {
            html += &format!("<p class=\"tally\">{} more storms.</p>\n", run.watchdog.len() - STORMS);
        }
        html
    };
    let parts: String = runs.map(part).collect();
    if parts.is_empty() { parts } else { format!("<section id=\"watchdogs\"><h2>Watchdogs</h2>\n{parts}</section>\n") }
}

fn part(run: &str, pauses: &PauseSummary) -> String {
    let mut html = format!("<h3>{}</h3>\n", escape(run));
    if pauses.roots.is_empty() && pauses.cycle.is_none() {
        return html + "<p>No transmitter was paused at any sample.</p>\n";
    }
    let sentences = pauses.sentences();
    let items: String = sentences.iter().map(|sentence| format!("<li>{}.</li>", escape(sentence))).collect();
    html += &format!("<ul class=\"notes\">{items}</ul>\n");
    let head = ["Root", "First seen", "Kept ports paused for", "Max. ports paused"].map(String::from);
    let rows: Vec<String> = pauses
        .roots
        .iter()
        .take(TOP)
        .map(|root| {
            row(&escape(&root.name), &[time(root.first.as_us()), time(root.held.as_us()), root.max_ports.to_string()])
        })
        .collect();
    html += &table("counts", "Roots of pauses", &head, &rows);
    if pauses.roots.len() > TOP {
        html += &format!(
            "<p class=\"tally\">{} more roots kept ports paused for a shorter time.</p>\n",
            pauses.roots.len() - TOP
        );
    }
    if !pauses.longest.is_empty() {
        let head = ["Victim", "Delayed for", "By", "Goodput, Gbps"].map(String::from);
        let rows: Vec<String> = pauses
            .longest
            .iter()
            .map(|victim| {
                let end = if victim.finished { "" } else { "<small>did not finish</small>" };
                let goodput = super::super::text::three_digits(victim.goodput / 1e9);
                row(
                    &format!("flow {}, {} to {}", victim.flow, escape(&victim.src), escape(&victim.dst)),
                    &[time(victim.time.as_us()), escape(&victim.root), format!("{goodput}{end}")],
                )
            })
            .collect();
        html += &table("counts", "Victims", &head, &rows);
    }
    html + &tree(pauses)
}

/// The table of the ports in the largest pause tree, ordered by root (cause of the pauses) and distance from the root.
fn tree(pauses: &PauseSummary) -> String {
    let Some(worst) = &pauses.worst else { return String::new() };
    let head = ["Port", "Waits for", "Hops from root", "Root", "Paused since", "Queued at its peer"].map(String::from);
    let mut ports: Vec<_> = worst.ports.iter().collect();
    ports.sort_by_key(|port| (port.root.clone(), port.depth));
    let rows: Vec<String> = ports
        .iter()
        .map(|port| {
            let since = if port.paused { time(port.since.as_us()) } else { "not paused".to_string() };
            row(
                &escape(&port.port),
                &[
                    port.waits_for.as_deref().map_or("&ndash;".to_string(), escape),
                    port.depth.to_string(),
                    port.root.as_deref().map_or("&ndash;".to_string(), escape),
                    since,
                    Unit::Bytes.text(port.held as f64),
                ],
            )
        })
        .collect();
    let more =
        if worst.paused as usize > ports.len() { format!(", {} ports shown", ports.len()) } else { String::new() };
    format!(
        "<details><summary>Largest pause tree: {} paused transmitters at {}{more}</summary>\n{}</details>\n",
        worst.paused,
        time(worst.at.as_us()),
        table("counts", "Pause tree", &head, &rows)
    )
}
