//! The summary of a scenario's runs as a table on the terminal.

use super::compare::{self, Metric};
use super::notes::{FEW, partial, truncations, warnings};
use super::report::figure::Unit;
use super::stats::Goodput;
use super::summary::{RunSummary, ScenarioSummary};
use super::text::{count, duration, percent, rate, three_digits};
use super::{mesh, watchdog};
use comfy_table::{Cell, CellAlignment, ColumnConstraint, ContentArrangement, LineStyle, Table, TableStyle, Width};
use rnic_spec::short_keys;

/// Minimum terminal width, in characters, for one table with metrics and counts. A narrower terminal shows two tables.
const ONE_TABLE: usize = 110;
/// Maximum number of sampled queues of a run that are listed below the table. If a run has more sampled queues, none of
/// its queues is listed.
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

/// The summary as plain text without colour codes. Lines have at most `width` characters; a `width` below 60 counts as
/// 60. If the results are partial, the first line says so. The text consists of a table with a row per run, sentences
/// that compare the runs with the first one, failures, and warnings.
pub fn render(summary: &ScenarioSummary, width: usize) -> String {
    let width = width.clamp(NARROWEST, usize::from(u16::MAX));
    let mut metrics = vec![SLOWDOWN, AVERAGE_FCT, P99_FCT];
    if summary.runs.iter().any(|run| run.requests.is_some()) {
        metrics.push(RCT);
    }
    let mut counts = COUNTS.to_vec();
    if summary.runs.iter().any(|run| run.totals.lost > 0) {
        counts.insert(1, LOST);
    }
    let mut text = partial(summary).map_or(String::new(), |note| wrap(&note, width));
    if summary.runs.len() > FEW {
        counts.pop(); // the flows finished
        text += &compact(summary, &metrics, &counts, width);
    } else if width >= ONE_TABLE + if counts.len() > COUNTS.len() { LOST_WIDTH } else { 0 } {
        metrics.extend(counts);
        text += &table(summary, &metrics, STYLE, width);
    } else {
        text += &table(summary, &metrics, STYLE, width);
        text += &table(summary, &counts, BELOW, width);
    }
    if summary.runs.iter().any(|run| run.about_goodput) {
        text += &goodput(summary, width);
    }
    for note in notes(summary) {
        text += &wrap(&note, width);
    }
    text
}

/// The table for many runs, with one line per run: swept values, name in the scenario file, metrics. If the table is
/// wider than `width`, its last columns are left out.
fn compact(summary: &ScenarioSummary, metrics: &[Column], counts: &[Column], width: usize) -> String {
    let keys = summary.swept();
    let swept = short_keys(&keys);
    let mut columns: Vec<&Column> = metrics.iter().chain(counts).collect();
    loop {
        let mut table = Table::new();
        table.load_style(STYLE).set_content_arrangement(ContentArrangement::Disabled).force_no_tty();
        let right = |text: &str| Cell::new(text).set_alignment(CellAlignment::Right);
        let header = swept.iter().map(Cell::new).chain([Cell::new("run")]);
        table.set_header(header.chain(columns.iter().map(|column| right(column.title))));
        for run in &summary.runs {
            let point = run.point.iter().map(|(_, value)| Cell::new(value));
            let name = if keys.is_empty() { &run.name } else { &run.base };
            let name = mark(run).map_or(name.clone(), |mark| format!("{name} {mark}"));
            // Passing the run as its own reference suppresses the comparison. The first line of a cell is the value.
            let cell = |column: &&Column| right((column.cell)(run, run).lines().next().unwrap_or(""));
            table.add_row(point.chain([Cell::new(name)]).chain(columns.iter().map(cell)));
        }
        for (number, column) in table.column_iter_mut().enumerate() {
            column.set_padding(if number <= swept.len() { (0, 2) } else { (1, 0) });
        }
        let text = table.trim_fmt() + "\n";
        let widest = text.lines().map(|line| line.chars().count()).max().unwrap_or(0);
        if widest <= width || columns.len() <= 3 {
            return text;
        }
        columns.pop();
    }
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
    Column { title: "dropped", cell: |_, run| run.drop_rate.map_or("-".to_string(), percent) },
    Column { title: "retrans-\nmitted", cell: |_, run| retransmitted(run) },
    Column { title: "pauses", cell: |_, run| pauses(run) },
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

/// The notes below the table: comparisons, truncated runs, queues, pauses, failures, warnings.
fn notes(summary: &ScenarioSummary) -> Vec<String> {
    let mut notes = Vec::new();
    if summary.runs.len() <= FEW {
        let compared = summary.runs.iter().filter_map(|run| Some((summary.reference(run)?, run)));
        let others = compared.filter(|(reference, run)| !std::ptr::eq(*reference, *run));
        notes.extend(others.filter_map(|(reference, run)| compare::sentence(reference, run)));
    }
    notes.extend(truncations(summary));
    for run in summary.runs.iter().filter(|run| run.queues.len() <= QUEUES && summary.runs.len() <= FEW) {
        notes.extend(run.queues.iter().map(|queue| {
            let bytes = queue.bytes;
            let [median, high, max] = [bytes.p50, bytes.p95, bytes.max].map(|bytes| Unit::Bytes.text(bytes));
            format!("{}: queue {}: median {median}, 95th percentile {high}, maximum {max}", run.name, queue.name)
        }));
    }
    for (run, pauses) in summary.runs.iter().filter_map(|run| Some((run, run.pauses.as_ref()?))) {
        if summary.runs.len() <= FEW {
            notes.extend(pauses.sentences().into_iter().map(|sentence| format!("{}: {sentence}", run.name)));
        }
    }
    for run in summary.runs.iter().filter(|_| summary.runs.len() <= FEW) {
        let sentences = mesh::sentences(&run.meshes).into_iter().chain(watchdog::sentences(&run.watchdog));
        notes.extend(sentences.map(|sentence| format!("{}: {sentence}", run.name)));
    }
    for run in &summary.runs {
        if let Some(reason) = &run.failure {
            notes.push(format!("FAILED: {}: {reason}", run.name));
        }
    }
    notes.extend(warnings(summary).into_iter().map(|(runs, warning)| format!("warning: {runs}: {warning}")));
    notes
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
──────────────────────────────────────────────────────────────────────────────────────────────────────────────
run              average      average   99th perc.      request  dropped  lost on  retrans-   pauses     flows
                slowdown          FCT          FCT         time             links    mitted           finished
──────────────────────────────────────────────────────────────────────────────────────────────────────────────
RoCE + PFC          5.00       188 us       400 us       410 us   0.67 %   0.16 %    1.00 %        3         5
                                                                                             12.5 us      of 5
IRN                 2.50      93.8 us       200 us       210 us   0.67 %   0.16 %    1.00 %        3         5
             2.0x better  2.0x better  2.0x better  2.0x better                              12.5 us      of 5
──────────────────────────────────────────────────────────────────────────────────────────────────────────────
IRN: 2.0x better average slowdown, 2.0x better average FCT, 2.0x better 99th percentile FCT, 2.0x better average request
  completion time than RoCE + PFC
warning: all runs: the clock is fictional
warning: all runs: only 4 flows were measured: the 99th percentile is the maximum
";

    #[test]
    fn narrow_has_two_tables_with_the_same_runs() {
        let (scenario, reports) = fixture::two_runs();
        let text = render(&summarise(&scenario, &reports), 80);
        fits(&text, 80);
        assert_eq!(text, NARROW);
    }

    const NARROW: &str = "\
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
IRN: 2.0x better average slowdown, 2.0x better average FCT, 2.0x better 99th
  percentile FCT, 2.0x better average request completion time than RoCE + PFC
warning: all runs: the clock is fictional
warning: all runs: only 4 flows were measured: the 99th percentile is the
  maximum
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
        assert!(text.contains("\nFAILED: IRN: no flow progressed for 1 s: flow 3 waits for PSN 17\n"), "{text}");
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
        let lines: Vec<&str> = text.lines().collect();
        assert_eq!(&lines[..8], COMPACT.lines().collect::<Vec<_>>(), "{text}");
        assert!(text.contains("\nFAILED: IRN, load=0.5: stuck\n"), "{text}");
        assert!(!text.contains("better"), "{text}");
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
