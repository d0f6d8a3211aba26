//! The summary of a scenario's runs as text on the terminal: conclusion, warnings, tables, notes.

use super::compare::{self, Change, Metric};
use super::conclusion::{Conclusion, conclusion};
use super::estimate::Estimate;
use super::notes::{FEW, partial, truncations, warnings};
use super::report::figure::Unit;
use super::seeds::{self, Replicates, over_seeds};
use super::stats::Goodput;
use super::summary::{Group, LinkSummary, RunSummary, ScenarioSummary};
use super::text::{count, duration, percent, rate, three_digits};
use super::{answered, collectives, fidelity, mesh, steps, watchdog};
use comfy_table::{Cell, CellAlignment, ColumnConstraint, ContentArrangement, LineStyle, Table, TableStyle, Width};
use rnic_spec::short_keys;

/// Minimum terminal width, in characters, for one table with metrics and counts. A narrower terminal shows two tables.
const ONE_TABLE: usize = 110;
/// Maximum number of sampled queues, and of sampled links, of a run that are listed below the table. If a run has more
/// sampled queues, none of its queues is listed; if it has more sampled links, only the busiest link is listed.
const QUEUES: usize = 4;
/// Minimum width of a table in characters; narrower terminals get this width too.
const NARROWEST: usize = 60;

/// Style of a table: horizontal rules above the table, below the header and below the table, but no vertical rules.
/// Spaces separate the columns, so that the table fits in 80 characters.
const STYLE: TableStyle = TableStyle::new().top_border(RULE).header_separator(RULE).bottom_border(RULE);
const RULE: LineStyle = LineStyle { left: None, fill: Some('─'), junction: Some('─'), right: None };

/// Style of a table directly below another table. It has no top rule, because the last rule of the upper table already
/// separates the two tables.
const BELOW: TableStyle = TableStyle::new().header_separator(RULE).bottom_border(RULE);

/// A column of the table: its title, and a function that formats a run's cell. The arguments of `cell` are the
/// reference run, with which the run is compared, and the run itself.
#[derive(Clone, Copy)]
struct Column {
    title: &'static str,
    cell: fn(&RunSummary, &RunSummary) -> String,
}

/// Maximum number of warnings above the table. Further warnings are below it.
const WARNINGS: usize = 8;

/// The summary as plain text without colour codes. Lines have at most `width` characters; a `width` below 60 counts as
/// 60. If the results are partial, the first line states this. Then follow the conclusion, its limitations (failures,
/// unfinished flows, warnings), a table with a row per run, and sentences that compare the runs with the first one.
/// With several seeds, a row contains the means over the seeds.
pub fn render(summary: &ScenarioSummary, width: usize) -> String {
    let width = width.clamp(NARROWEST, usize::from(u16::MAX));
    let warned: Vec<String> =
        warnings(summary).into_iter().map(|(runs, warning)| format!("warning: {runs}: {warning}")).collect();
    let (first, further) = warned.split_at(warned.len().min(WARNINGS));
    let Conclusion { main, notes: limits } = conclusion(summary);
    let mut lines: Vec<String> = partial(summary).into_iter().chain(main).chain(limits).collect();
    lines.extend(failures(summary));
    lines.extend(truncations(summary));
    lines.extend_from_slice(first);
    let mut text: String = lines.iter().map(|line| wrap(line, width)).collect();
    text += &tables(summary, width);
    text += &fidelity::render(summary, width, STYLE);
    for note in notes(summary).iter().chain(further) {
        text += &wrap(note, width);
    }
    text
}

fn tables(summary: &ScenarioSummary, width: usize) -> String {
    let mut metrics = vec![SLOWDOWN, AVERAGE_FCT, P99_FCT];
    if summary.runs.iter().any(|run| run.requests.is_some()) {
        metrics.push(RCT);
    }
    let mut counts = COUNTS.to_vec();
    if summary.runs.iter().any(|run| run.totals.lost > 0) {
        counts.insert(1, LOST);
    }
    let groups = over_seeds(summary);
    let mut text = String::new();
    if groups.iter().any(|group| group.runs.len() > 1) {
        text += &averaged(summary, &groups, width);
    } else if summary.runs.len() > FEW {
        counts.pop(); // the flows finished
        text += &compact(summary, &metrics, &counts, width);
    } else if width >= ONE_TABLE + if counts.len() > COUNTS.len() { LOST_WIDTH } else { 0 } {
        metrics.extend(counts);
        text += &table(summary, &metrics, STYLE, width);
    } else {
        text += &table(summary, &metrics, STYLE, width);
        text += &table(summary, &counts, BELOW, width);
    }
    if summary.runs.len() <= FEW && groups.len() == summary.runs.len() {
        text += &sources(summary, width);
    }
    if summary.runs.iter().any(|run| run.about_goodput) {
        text += &goodput(summary, width);
    }
    text
}

/// The table of a sweep over seeds: a line for each run and point, with means over the seeds and half the width of
/// their 95 % confidence intervals. If the table is wider than `width`, its last columns are left out.
fn averaged(summary: &ScenarioSummary, groups: &[Replicates<'_>], width: usize) -> String {
    /// Title of a column, its value in a run, and the value as text.
    type Averaged = (&'static str, fn(&RunSummary) -> Option<f64>, fn(f64) -> String);
    let mut metrics: Vec<Averaged> = vec![
        ("average\nslowdown", |run| Metric::AverageSlowdown.value(run), three_digits),
        ("average\nFCT", |run| Metric::AverageFct.value(run), duration),
        ("99th perc.\nFCT", |run| Metric::P99Fct.value(run), duration),
    ];
    if summary.runs.iter().any(|run| run.requests.is_some()) {
        metrics.push(("request\ntime", |run| Metric::AverageRct.value(run), duration));
    }
    metrics.push(("dropped", |run| run.drop_rate, percent));
    let swept: Vec<&str> = summary.swept().into_iter().filter(|key| *key != seeds::SEED).collect();
    let right = |text: &str| Cell::new(text).set_alignment(CellAlignment::Right);
    fit(width, metrics.len(), |columns| {
        let metrics = &metrics[..columns];
        let header = short_keys(&swept).into_iter().map(Cell::new).chain([Cell::new("run"), right("seeds")]);
        let header: Vec<Cell> = header.chain(metrics.iter().map(|(title, ..)| right(title))).collect();
        let rows = groups.iter().map(|group| {
            let point = group.point().into_iter().map(|(_, value)| Cell::new(value));
            let failed = group.runs.iter().filter(|run| mark(run).is_some()).count();
            let seeds = match failed {
                0 => group.runs.len().to_string(),
                failed => format!("{} of {}", group.runs.len() - failed, group.runs.len()),
            };
            let cells = metrics.iter().map(|(_, value, show)| right(&with_interval(group.estimate(value), *show)));
            point.chain([Cell::new(group.base), right(&seeds)]).chain(cells).collect()
        });
        (header, rows.collect(), swept.len())
    })
}

/// A mean as text; with several seeds, with half the width of its confidence interval.
fn with_interval(estimate: Option<Estimate>, show: fn(f64) -> String) -> String {
    match estimate {
        None => "-".to_string(),
        Some(Estimate { mean, half_width: Some(half), .. }) => format!("{} \u{b1} {}", show(mean), show(half)),
        Some(Estimate { mean, .. }) => show(mean),
    }
}

/// A table whose lines are not wrapped, with as many of `columns` columns as fit into `width`, and at least 3. `draw`
/// returns the header and the rows of a table with the given number of columns, and the number of left-aligned columns.
fn fit(width: usize, columns: usize, draw: impl Fn(usize) -> (Vec<Cell>, Vec<Vec<Cell>>, usize)) -> String {
    let mut columns = columns;
    loop {
        let (header, rows, left) = draw(columns);
        let mut table = Table::new();
        table.load_style(STYLE).set_content_arrangement(ContentArrangement::Disabled).force_no_tty();
        table.set_header(header);
        table.add_rows(rows);
        for (number, column) in table.column_iter_mut().enumerate() {
            column.set_padding(if number <= left { (0, 2) } else { (1, 0) });
        }
        let text = table.trim_fmt() + "\n";
        let widest = text.lines().map(|line| line.chars().count()).max().unwrap_or(0);
        if widest <= width || columns <= 3 {
            return text;
        }
        columns -= 1;
    }
}

/// The table of metrics by traffic source, with the comparison with the reference run; empty if there is only one
/// source.
fn sources(summary: &ScenarioSummary, width: usize) -> String {
    /// Title of a column, its value for the flows of a source, and the value as text.
    type OfSource = (&'static str, fn(&Group) -> Option<f64>, fn(f64) -> String);
    let metrics: [OfSource; 3] = [
        ("average\nslowdown", |of| Some(of.slowdown?.mean), three_digits),
        ("average\nFCT", |of| Some(of.fct_us?.mean), duration),
        ("99th perc.\nFCT", |of| Some(of.fct_us?.p99), duration),
    ];
    let names: Vec<&str> = summary
        .runs
        .iter()
        .map(|run| run.traffic.as_slice())
        .max_by_key(|sources| sources.len())
        .map_or(Vec::new(), |sources| sources.iter().map(|source| source.name.as_str()).collect());
    if names.is_empty() {
        return String::new();
    }
    let mut table = Table::new();
    table.load_style(BELOW).set_content_arrangement(ContentArrangement::Dynamic).set_width(width as u16).force_no_tty();
    let right = |text: &str| Cell::new(text).set_alignment(CellAlignment::Right);
    table.set_header(
        [Cell::new("traffic source, run")].into_iter().chain(metrics.iter().map(|(title, ..)| right(title))),
    );
    for (index, name) in names.iter().enumerate() {
        for run in &summary.runs {
            let group = |run: &RunSummary| run.traffic.get(index).map(|source| source.group);
            let reference = summary.reference(run).filter(|reference| !std::ptr::eq(*reference, run));
            let cell = |(_, value, show): &OfSource| {
                let Some(own) = group(run).and_then(|group| value(&group)) else { return "-".to_string() };
                let change = reference.and_then(group).and_then(|group| Change::of(value(&group)?, own));
                change.map_or(show(own), |change| format!("{}\n{change}", show(own)))
            };
            let cells = metrics.iter().map(|metric| right(&cell(metric)));
            table.add_row([Cell::new(format!("{name}, {}", run.name))].into_iter().chain(cells));
        }
    }
    only_names_wrap(&mut table);
    table.trim_fmt() + "\n"
}

/// The table for many runs, with one line per run: swept values, name in the scenario file, metrics. If the table is
/// wider than `width`, its last columns are left out.
fn compact(summary: &ScenarioSummary, metrics: &[Column], counts: &[Column], width: usize) -> String {
    let keys = summary.swept();
    let swept = short_keys(&keys);
    let all: Vec<&Column> = metrics.iter().chain(counts).collect();
    fit(width, all.len(), |columns| {
        let columns = &all[..columns];
        let right = |text: &str| Cell::new(text).set_alignment(CellAlignment::Right);
        let header = swept.iter().map(Cell::new).chain([Cell::new("run")]);
        let header = header.chain(columns.iter().map(|column| right(column.title))).collect();
        let rows = summary.runs.iter().map(|run| {
            let point = run.point.iter().map(|(_, value)| Cell::new(value));
            let name = if keys.is_empty() { &run.name } else { &run.base };
            let name = mark(run).map_or(name.clone(), |mark| format!("{name} {mark}"));
            // Passing the run as its own reference suppresses the comparison. The first line of a cell is the value.
            let cell = |column: &&Column| match (column.cell)(run, run).as_str() {
                NOT_MODELLED => right("not modelled"),
                text => right(text.lines().next().unwrap_or("")),
            };
            point.chain([Cell::new(name)]).chain(columns.iter().map(cell)).collect()
        });
        (header, rows.collect(), swept.len())
    })
}

const SLOWDOWN: Column =
    Column { title: "average\nslowdown", cell: |first, run| metric(Metric::AverageSlowdown, three_digits, first, run) };
const AVERAGE_FCT: Column =
    Column { title: "average\nFCT", cell: |first, run| metric(Metric::AverageFct, duration, first, run) };
const P99_FCT: Column =
    Column { title: "99th perc.\nFCT", cell: |first, run| metric(Metric::P99Fct, duration, first, run) };
const RCT: Column =
    Column { title: "request\ntime", cell: |first, run| metric(Metric::AverageRct, duration, first, run) };
/// Width of the column [`LOST`] in characters.
const LOST_WIDTH: usize = 9;
/// Packets that links lost, for scenarios with lossy links.
const LOST: Column =
    Column { title: "lost on\nlinks", cell: |_, run| run.loss_rate().map_or("-".to_string(), percent) };
const COUNTS: [Column; 4] = [
    Column { title: "dropped", cell: |_, run| modelled(run, || run.drop_rate.map_or("-".to_string(), percent)) },
    Column { title: "retrans-\nmitted", cell: |_, run| modelled(run, || retransmitted(run)) },
    Column { title: "pauses", cell: |_, run| modelled(run, || pauses(run)) },
    Column {
        title: "flows\nfinished",
        cell: |_, run| format!("{}\nof {}", count(run.flows.completed), count(run.flows.offered)),
    },
];

/// The run's value of `metric`, and on a second line the comparison with the reference run `first`.
fn metric(metric: Metric, show: fn(f64) -> String, first: &RunSummary, run: &RunSummary) -> String {
    let Some(value) = metric.value(run) else {
        return "-".to_string();
    };
    match metric.change(first, run) {
        Some(change) if !std::ptr::eq(first, run) => format!("{}\n{change}", show(value)),
        _ => show(value),
    }
}

/// The cell of a value that only a simulation of packets has.
const NOT_MODELLED: &str = "not\nmodelled";

/// The text of a value that only a simulation of packets has.
fn modelled(run: &RunSummary, text: impl FnOnce() -> String) -> String {
    run.modelled(()).map_or_else(|| NOT_MODELLED.to_string(), |()| text())
}

fn retransmitted(run: &RunSummary) -> String {
    if run.failure.is_some() || run.totals.data == 0 {
        return "-".to_string();
    }
    percent(run.totals.retransmitted as f64 / run.totals.data as f64)
}

/// Number of pause frames, and total time for which PFC paused transmitters.
fn pauses(run: &RunSummary) -> String {
    match (run.totals.pause_frames, run.totals.paused_ps) {
        (0, 0) => "0".to_string(),
        (frames, ps) => format!("{}\n{}", count(frames), duration(ps as f64 / 1e6)),
    }
}

fn table(summary: &ScenarioSummary, columns: &[Column], style: TableStyle, width: usize) -> String {
    let mut table = Table::new();
    table.load_style(style).set_content_arrangement(ContentArrangement::Dynamic).set_width(width as u16).force_no_tty();
    let mut header = vec![Cell::new("run")];
    header.extend(columns.iter().map(|c| Cell::new(c.title).set_alignment(CellAlignment::Right)));
    table.set_header(header);
    for run in &summary.runs {
        let reference = summary.reference(run).unwrap_or(run);
        let mut row = vec![Cell::new(name(run))];
        row.extend(columns.iter().map(|c| Cell::new((c.cell)(reference, run)).set_alignment(CellAlignment::Right)));
        table.add_row(row);
    }
    only_names_wrap(&mut table);
    table.trim_fmt() + "\n"
}

/// Lets only the first column, with the names of runs, wrap over several lines. The columns of numbers keep their
/// width.
fn only_names_wrap(table: &mut Table) {
    let widths = table.column_max_content_widths();
    for (column, width) in table.column_iter_mut().zip(widths).skip(1) {
        column.set_padding((1, 0));
        column.set_constraint(ColumnConstraint::LowerBoundary(Width::Fixed(width + 1)));
    }
    if let Some(column) = table.column_mut(0) {
        column.set_padding((0, 1));
    }
}

/// The table of goodputs: one line per run, or one line per run and traffic source if there are several sources.
fn goodput(summary: &ScenarioSummary, width: usize) -> String {
    type Number = fn(Goodput) -> f64;
    let all: [(&str, Number); 5] = [
        ("goodput\nmean", |g| g.mean),
        ("10th\nperc.", |g| g.p10),
        ("median", |g| g.p50),
        ("min", |g| g.min),
        ("max", |g| g.max),
    ];
    let numbers = if width >= ONE_TABLE { &all[..] } else { &all[..3] };
    let mut table = Table::new();
    table.load_style(BELOW).set_content_arrangement(ContentArrangement::Dynamic).set_width(width as u16).force_no_tty();
    let right = |text: &str| Cell::new(text).set_alignment(CellAlignment::Right);
    let titles = ["flows", "unfin-\nished"].into_iter().chain(numbers.iter().map(|(title, _)| *title));
    table.set_header([Cell::new("run")].into_iter().chain(titles.map(right)));
    let mut add = |name: &str, unfinished: u64, goodput: Option<Goodput>| {
        let counts = [count(goodput.map_or(0, |g| g.flows as u64)), count(unfinished)];
        let rates = numbers.iter().map(|(_, of)| goodput.map_or("-".to_string(), |g| rate(of(g))));
        let cells = counts.into_iter().chain(rates).map(|text| right(&text));
        table.add_row([Cell::new(name)].into_iter().chain(cells));
    };
    for run in &summary.runs {
        if run.traffic.is_empty() {
            add(&run.name, run.flows.offered - run.flows.completed, run.goodput);
        }
        for source in &run.traffic {
            add(&format!("{}: {}", run.name, source.name), source.unfinished, source.goodput);
        }
    }
    only_names_wrap(&mut table);
    table.trim_fmt() + "\n"
}

fn name(run: &RunSummary) -> String {
    mark(run).map_or(run.name.clone(), |mark| format!("{}\n{mark}", run.name))
}

/// The mark behind the name of a run that did not complete.
fn mark(run: &RunSummary) -> Option<&'static str> {
    match (&run.failure, run.interrupted) {
        (Some(_), _) => Some("FAILED"),
        (None, true) => Some("PARTIAL"),
        (None, false) => None,
    }
}

/// A sentence for each failed run.
fn failures(summary: &ScenarioSummary) -> impl Iterator<Item = String> {
    summary.runs.iter().filter_map(|run| Some(format!("FAILED: {}: {}", run.name, run.failure.as_ref()?)))
}

/// The notes below the table: comparisons, queues, links, pauses.
fn notes(summary: &ScenarioSummary) -> Vec<String> {
    let mut notes = Vec::new();
    if summary.runs.len() <= FEW {
        let compared = summary.runs.iter().filter_map(|run| Some((summary.reference(run)?, run)));
        let others = compared.filter(|(reference, run)| !std::ptr::eq(*reference, *run));
        notes.extend(others.filter_map(|(reference, run)| compare::sentence(reference, run)));
    }
    for run in summary.runs.iter().filter(|run| run.queues.len() <= QUEUES && summary.runs.len() <= FEW) {
        notes.extend(run.queues.iter().map(|queue| {
            let bytes = queue.bytes;
            let [median, high, max] = [bytes.p50, bytes.p95, bytes.max].map(|bytes| Unit::Bytes.text(bytes));
            format!("{}: queue {}: median {median}, 95th percentile {high}, maximum {max}", run.name, queue.name)
        }));
    }
    for run in summary.runs.iter().filter(|_| summary.runs.len() <= FEW) {
        notes.extend(busiest_links(run));
    }
    for (run, pauses) in summary.runs.iter().filter_map(|run| Some((run, run.pauses.as_ref()?))) {
        if summary.runs.len() <= FEW {
            notes.extend(pauses.sentences().into_iter().map(|sentence| format!("{}: {sentence}", run.name)));
        }
    }
    for run in summary.runs.iter().filter(|_| summary.runs.len() <= FEW) {
        let sentences = mesh::sentences(&run.meshes).into_iter().chain(watchdog::sentences(&run.watchdog));
        let sentences = collectives::sentences(&run.collectives).into_iter().chain(sentences);
        let sentences = answered::sentences(&run.inference).into_iter().chain(sentences);
        let sentences = steps::sentences(&run.steps).into_iter().chain(sentences);
        notes.extend(sentences.map(|sentence| format!("{}: {sentence}", run.name)));
    }
    notes
}

/// A sentence about each sampled link if few links are sampled, otherwise about the link with the highest mean
/// utilisation.
fn busiest_links(run: &RunSummary) -> Vec<String> {
    let sentence = |link: &LinkSummary, which: &str| {
        let [mean, high, max] = [link.utilisation.mean, link.utilisation.p95, link.utilisation.max].map(percent);
        format!(
            "{}: {which}link {}: utilisation: mean {mean}, 95th percentile {high}, maximum {max}",
            run.name, link.name
        )
    };
    if run.links.len() <= QUEUES {
        return run.links.iter().map(|link| sentence(link, "")).collect();
    }
    let busiest = run.links.iter().max_by(|a, b| a.utilisation.mean.total_cmp(&b.utilisation.mean));
    busiest.map(|link| sentence(link, "busiest ")).into_iter().collect()
}

/// Breaks `text` into lines of at most `width` characters between words, and indents all lines but the first. A word
/// that is longer than a line is not broken.
fn wrap(text: &str, width: usize) -> String {
    let mut wrapped = String::new();
    let mut column = 0;
    for word in text.split_whitespace() {
        let length = word.chars().count();
        if column > 0 && column + 1 + length > width {
            wrapped += "\n  ";
            column = 2;
        } else if column > 0 {
            wrapped.push(' ');
            column += 1;
        }
        wrapped += word;
        column += length;
    }
    wrapped + "\n"
}

#[cfg(test)]
mod tests {
    use super::super::{fixture, summarise};
    use super::*;
    use rnic_spec::{RunStatus, Truncation};
    use rnic_transport::Time;

    fn fits(text: &str, width: usize) {
        for line in text.lines() {
            assert!(line.chars().count() <= width, "{} > {width}: {line}\n{text}", line.chars().count());
        }
        assert!(!text.contains('\u{1b}') && !text.contains("NaN") && !text.contains("inf"), "{text}");
    }

    #[test]
    fn wide() {
        let (scenario, reports) = fixture::two_runs();
        let text = render(&summarise(&scenario, &reports), 120);
        fits(&text, 120);
        assert_eq!(text, WIDE);
    }

    const WIDE: &str = "\
background: IRN has the lowest average slowdown, 1.50: 2.0x better than RoCE + PFC (3.00).
incast: IRN has the lowest average slowdown, 3.50: 2.0x better than RoCE + PFC (7.00).
One seed, so no confidence interval: small differences may be chance.
warning: all runs: the clock is fictional
warning: all runs: only 4 flows were measured: the 99th percentile is the maximum
──────────────────────────────────────────────────────────────────────────────────────────────────────────────
run              average      average   99th perc.      request  dropped  lost on  retrans-   pauses     flows
                slowdown          FCT          FCT         time             links    mitted           finished
──────────────────────────────────────────────────────────────────────────────────────────────────────────────
RoCE + PFC          5.00       188 us       400 us       410 us   0.67 %   0.16 %    1.00 %        3         5
                                                                                             12.5 us      of 5
IRN                 2.50      93.8 us       200 us       210 us   0.67 %   0.16 %    1.00 %        3         5
             2.0x better  2.0x better  2.0x better  2.0x better                              12.5 us      of 5
──────────────────────────────────────────────────────────────────────────────────────────────────────────────
traffic source, run          average      average   99th perc.
                            slowdown          FCT          FCT
──────────────────────────────────────────────────────────────
background, RoCE + PFC          3.00      25.0 us      40.0 us
background, IRN                 1.50      12.5 us      20.0 us
                         2.0x better  2.0x better  2.0x better
incast, RoCE + PFC              7.00       350 us       400 us
incast, IRN                     3.50       175 us       200 us
                         2.0x better  2.0x better  2.0x better
──────────────────────────────────────────────────────────────
IRN: 2.0x better average slowdown, 2.0x better average FCT, 2.0x better 99th percentile FCT, 2.0x better average request
  completion time than RoCE + PFC
";

    #[test]
    fn narrow_has_two_tables_with_the_same_runs() {
        let (scenario, reports) = fixture::two_runs();
        let text = render(&summarise(&scenario, &reports), 80);
        fits(&text, 80);
        assert_eq!(text, NARROW);
    }

    const NARROW: &str = "\
background: IRN has the lowest average slowdown, 1.50: 2.0x better than RoCE +
  PFC (3.00).
incast: IRN has the lowest average slowdown, 3.50: 2.0x better than RoCE + PFC
  (7.00).
One seed, so no confidence interval: small differences may be chance.
warning: all runs: the clock is fictional
warning: all runs: only 4 flows were measured: the 99th percentile is the
  maximum
───────────────────────────────────────────────────────────────
run              average      average   99th perc.      request
                slowdown          FCT          FCT         time
───────────────────────────────────────────────────────────────
RoCE + PFC          5.00       188 us       400 us       410 us
IRN                 2.50      93.8 us       200 us       210 us
             2.0x better  2.0x better  2.0x better  2.0x better
───────────────────────────────────────────────────────────────
run          dropped  lost on  retrans-   pauses     flows
                        links    mitted           finished
──────────────────────────────────────────────────────────
RoCE + PFC    0.67 %   0.16 %    1.00 %        3         5
                                         12.5 us      of 5
IRN           0.67 %   0.16 %    1.00 %        3         5
                                         12.5 us      of 5
──────────────────────────────────────────────────────────
traffic source, run          average      average   99th perc.
                            slowdown          FCT          FCT
──────────────────────────────────────────────────────────────
background, RoCE + PFC          3.00      25.0 us      40.0 us
background, IRN                 1.50      12.5 us      20.0 us
                         2.0x better  2.0x better  2.0x better
incast, RoCE + PFC              7.00       350 us       400 us
incast, IRN                     3.50       175 us       200 us
                         2.0x better  2.0x better  2.0x better
──────────────────────────────────────────────────────────────
IRN: 2.0x better average slowdown, 2.0x better average FCT, 2.0x better 99th
  percentile FCT, 2.0x better average request completion time than RoCE + PFC
";

    #[test]
    fn a_truncated_run_shows_goodput_and_unfinished_flows() {
        let (scenario, mut reports) = fixture::two_runs();
        let output = &mut reports[1].output;
        output.truncated = Some(Truncation { at: Time::from_us(600), not_started: Some(7) });
        output.flows.edit(3, |flow| (flow.finish, flow.delivered) = (None, 0));
        for width in [60, 80, 120] {
            fits(&render(&summarise(&scenario, &reports), width), width);
        }
        let text = render(&summarise(&scenario, &reports), 120);
        let note = "truncated at 600 us: IRN: 1 of 5 flows unfinished, 7 not started; slowdown and FCT cover finished flows only\n";
        assert!(text.contains(note), "{text}");
        let lines: Vec<String> =
            text.lines().map(|line| line.split_whitespace().collect::<Vec<_>>().join(" ")).collect();
        // One flow delivered 200 KB in 150 us, the other one nothing until the end of the run.
        assert!(lines.contains(&"IRN: incast 2 1 5.33 Gbps 0 bps 0 bps 0 bps 10.7 Gbps".to_string()), "{text}");
    }

    #[test]
    fn failed_runs_are_marked_and_show_no_statistics() {
        let (scenario, mut reports) = fixture::two_runs();
        reports[1].output.status = RunStatus::Failed("no flow progressed for 1 s: flow 3 waits for PSN 17".into());
        let text = render(&summarise(&scenario, &reports), 80);
        fits(&text, 80);
        assert!(text.contains("FAILED: IRN: no flow progressed for 1 s: flow 3 waits for PSN 17\n"), "{text}");
        assert!(!text.contains("better") && !text.contains("2.50"), "{text}");
    }

    /// A sweep of one key over five values, with two runs per value. One of the runs failed.
    fn swept() -> ScenarioSummary {
        let (mut scenario, mut reports) = fixture::two_runs();
        let values = ["0.3", "0.5", "0.7", "0.9", "1"];
        let runs = values.iter().flat_map(|load| scenario.runs.iter().map(move |run| (load, run.clone())));
        let runs: Vec<_> = runs
            .map(|(load, mut run)| {
                run.name += &format!(", load={load}");
                run.point = vec![("traffic.load".to_string(), load.to_string())];
                run
            })
            .collect();
        reports = values.iter().flat_map(|_| reports.clone()).collect();
        scenario.runs = runs;
        reports[3].output.status = RunStatus::Failed("stuck".into());
        summarise(&scenario, &reports)
    }

    #[test]
    fn many_runs_have_a_line_each() {
        let text = render(&swept(), 100);
        fits(&text, 100);
        assert!(text.contains(COMPACT), "{text}");
        let conclusion = "background: lowest average slowdown at the 5 points: IRN at 4 (2.0x better than RoCE + PFC),\n  \
                          inconclusive or no difference at 1 (load=0.5).\n";
        assert!(text.starts_with(conclusion), "{text}");
        assert!(text.contains("\nFAILED: IRN, load=0.5: stuck\n"), "{text}");
        let narrow = render(&swept(), 60);
        fits(&narrow, 60);
        assert!(!narrow.contains("pauses") && narrow.contains("99th"), "{narrow}");
    }

    const COMPACT: &str = "\
───────────────────────────────────────────────────────────────────────────────────────────────
load   run            average  average  99th perc.  request  dropped  lost on  retrans-  pauses
                     slowdown      FCT         FCT     time             links    mitted
───────────────────────────────────────────────────────────────────────────────────────────────
0.3    RoCE + PFC        5.00   188 us      400 us   410 us   0.67 %   0.16 %    1.00 %       3
0.3    IRN               2.50  93.8 us      200 us   210 us   0.67 %   0.16 %    1.00 %       3
0.5    RoCE + PFC        5.00   188 us      400 us   410 us   0.67 %   0.16 %    1.00 %       3
0.5    IRN FAILED           -        -           -        -        -        -         -       3
";

    #[test]
    fn seeds_are_averaged_with_an_interval() {
        let summary = fixture::sweep(&["0.3", "0.7"], &[1, 2, 3], |run, _, seed| {
            seed as f64 * if run == "IRN" { 1.0 } else { 2.0 }
        });
        let text = render(&summary, 100);
        fits(&text, 100);
        // The standard deviation of 1, 2 and 3 is 1: the half-width is t(2) / sqrt(3) = 2.48.
        for line in ["0.3    RoCE + PFC        3  4.00 \u{b1} 4.97", "0.7    IRN               3  2.00 \u{b1} 2.48"] {
            assert!(text.contains(line), "{text}");
        }
        let words = text.split_whitespace().collect::<Vec<_>>().join(" ");
        assert!(words.contains("IRN at 2 (2.0x better than RoCE + PFC)") && !words.contains("One seed"), "{text}");
    }

    #[test]
    fn many_warnings_continue_below_the_table() {
        let (scenario, mut reports) = fixture::two_runs();
        reports[0].output.warnings = (0..20).map(|number| format!("warning number {number}")).collect();
        let text = render(&summarise(&scenario, &reports), 120);
        let table = text.find("average").unwrap();
        assert!(text.find("number 7").unwrap() < text.rfind("retrans-").unwrap());
        assert!(text.find("number 8").unwrap() > table && text.contains("number 19"), "{text}");
    }

    #[test]
    fn a_small_sweep_compares_at_each_point() {
        let mut summary = swept();
        summary.runs.truncate(8);
        let text = render(&summary, 120);
        assert!(text.contains("than RoCE + PFC, load=0.3\n") && text.contains("than RoCE + PFC, load=0.7\n"), "{text}");
    }

    #[test]
    fn partial_results_say_so() {
        let (scenario, mut reports) = fixture::two_runs();
        let at = rnic_transport::Time::from_ns(80_312_456);
        reports[1].output.status = RunStatus::Interrupted;
        reports[1].output.truncated = Some(rnic_spec::Truncation { at, not_started: Some(7) });
        let mut summary = summarise(&scenario, &reports);
        summary.not_started = vec!["a".into(), "b".into()];
        let text = render(&summary, 120);
        let first = "PARTIAL RESULTS: of 4 runs, 1 ended, 1 was interrupted, 2 did not start\n";
        assert!(text.starts_with(first) && text.contains("\nPARTIAL "), "{text}");
        assert!(text.contains("interrupted at 80.3 ms: IRN: 0 of 5 flows unfinished, 7 not started;"), "{text}");
        summary.not_started.clear();
        summary.runs.remove(0);
        assert!(render(&summary, 120).starts_with("PARTIAL RESULTS: the run was interrupted\n"));
    }

    #[test]
    fn failed_first_run_leaves_nothing_to_compare_with() {
        let (scenario, mut reports) = fixture::two_runs();
        reports[0].output.status = RunStatus::Failed("stuck".into());
        let text = render(&summarise(&scenario, &reports), 120);
        assert!(text.contains("2.50") && !text.contains("better") && !text.contains("worse"), "{text}");
    }

    #[test]
    fn long_names_wrap_and_nothing_measured_is_a_dash() {
        let (mut scenario, reports) = fixture::empty();
        scenario.runs[0].name = "RoCE without PFC but with a very long explanation in its name".into();
        for width in [0, 60, 80, 120] {
            let text = render(&summarise(&scenario, &reports), width);
            fits(&text, width.max(60));
            let words = text.split_whitespace().collect::<Vec<_>>().join(" ");
            assert!(words.contains(" - ") && words.contains("no flow was measured"), "{text}");
        }
    }
}
