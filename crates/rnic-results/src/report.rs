//! HTML reports. Each report is a single file that works offline, in print and on a phone. Its tables need no
//! JavaScript.
//!
//! [`render`] makes the report of one scenario's runs, [`render_study`] the report of several experiments. Both write
//! tables as static HTML. Figures ([`figure`]) are embedded as JSON, and one script in the page draws them. This JSON
//! also contains `summary.json` in a scenario's report. Reports do not depend on the machine: the same input gives the
//! same bytes.
//!
//! [`svg`] draws line figures as an SVG picture instead.

mod board;
mod counts;
mod distributions;
pub mod figure;
mod happened;
mod html;
mod over_time;
mod overview;
pub(crate) mod page;
mod pauses;
mod runs;
mod scale;
mod settings;
mod steps;
mod study;
pub mod svg;
mod sweep;
mod timeline;
mod verdict;

pub use runs::{boards, tails};
pub use study::{Experiment, Study, render_study};
pub use verdict::{Verdict, Within};

use super::summary::ScenarioSummary;
use figure::Board;
pub(crate) use html::escape;
use rnic_spec::RunRecord;
use rnic_spec::Scenario;
use serde_json::{Value, json};

/// Name of the file with the runs over time, next to the report.
pub(crate) const REPLAY_FILE: &str = "replay.html";

/// The report of a scenario's runs as one HTML file. `summary` must be the summary of `scenario` and `reports`.
pub fn render(scenario: &Scenario, summary: &ScenarioSummary, reports: &[RunRecord]) -> String {
    render_with(scenario, summary, reports, &[])
}

/// Does the same as [`render`], and puts a table of verdicts (a paper's statements compared with results) at the top.
pub(crate) fn render_with(
    scenario: &Scenario, summary: &ScenarioSummary, reports: &[RunRecord], verdicts: &[Verdict],
) -> String {
    let boards = runs::Boards::of(scenario, summary, reports);
    let pauses = pauses::boards(scenario, summary, reports);
    let groups = [boards.main, boards.details, boards.over_time, pauses];
    let mut number = 0;
    let [main, details, over_time, paused] = groups.each_ref().map(|boards| {
        let section = |(heading, board): &(String, Board)| {
            number += 1;
            format!(
                "<section class=\"figures\"><h2>{}</h2>\n{}{}</section>\n",
                escape(heading),
                overview::again(summary, heading),
                board::frame(number - 1, board, false)
            )
        };
        boards.iter().map(section).collect::<String>()
    });
    // A reader finds the answer first: the conclusion, the table, the main comparison. Details of single runs follow.
    let results = overview::results(summary);
    let is_long = summary.runs.len() > overview::LONG;
    let [before, after] = if is_long { [main, results] } else { [results, main] };
    let sections = [
        overview::header(summary),
        "<main>".to_string(),
        overview::failures(summary),
        overview::answer(summary),
        verdict::section(verdicts, false, |_| None),
        before,
        after,
        happened::section(summary, reports),
        counts::traffic(summary),
        settings::section(summary, &settings::Settings::of(scenario, summary)),
        details,
        over_time,
        paused,
        pauses::section(summary),
        pauses::watchdogs(summary),
        counts::sizes(summary),
        counts::counts(summary),
        counts::tiers(summary),
        counts::ports(summary, reports),
        overview::definitions(),
        "</main>".to_string(),
    ];
    let data = json!({
        "summary": summary.to_json(false),
        "boards": groups.iter().flatten().map(|(_, board)| board.to_json()).collect::<Vec<Value>>(),
    });
    page::report(&summary.title, &sections.concat(), &data)
}

#[cfg(test)]
mod tests {
    use super::super::{fixture, summarise};
    use super::*;
    use rnic_spec::RunStatus;
    use rnic_spec::{BufferCycle, PauseRecords, PauseRoot, PauseSpan, RootKind, Victim};
    use rnic_transport::Time;

    fn rendered(scenario: &Scenario, reports: &[RunRecord]) -> String {
        render(scenario, &summarise(scenario, reports), reports)
    }

    /// Pauses of port 0, which is paused from 10 to 30 us and at the end of the run. The port is its own root (cause).
    fn paused() -> PauseRecords {
        let us = Time::from_us;
        let root =
            PauseRoot { kind: RootKind::Congestion, port: 0, priority: 0, first: us(10), samples: 3, max_ports: 1 };
        let span = |from, to| PauseSpan { port: 0, priority: 0, from: us(from), to: us(to), root: Some(0) };
        PauseRecords {
            interval: us(10),
            samples: 9,
            roots: vec![root],
            max_paused: 1,
            cycle: Some(BufferCycle { first: us(80), ports: vec![0], at_end: true, truncated: false }),
            victims: vec![Victim { flow: 0, src: 0, dst: 1, samples: 2, root: 0, finished: true, goodput: 5e9 }],
            victim_count: 1,
            spans: vec![span(10, 30), span(80, 90)],
            ..PauseRecords::default()
        }
    }

    #[test]
    fn pauses_have_a_figure_and_tables() {
        let (scenario, mut reports) = fixture::two_runs();
        assert!(!rendered(&scenario, &reports).contains("id=\"pauses\""));
        reports[0].output.pauses = Some(paused());
        let html = rendered(&scenario, &reports);
        let boards = data(&html)["boards"].clone();
        // Results come before pauses.
        let figure = &boards.as_array().unwrap().last().unwrap()["figures"][0];
        assert_eq!(figure["kind"], "spans");
        assert!(html.find("id=\"results\"").unwrap() < html.find("Pauses: RoCE + PFC").unwrap());
        // The first row of the figure belongs to the root (the cause of the pauses), the second row to the paused port.
        assert_eq!(figure["rows"].as_array().unwrap().len(), 2);
        assert_eq!((&figure["rows"][0]["root"], &figure["rows"][1]["root"]), (&json!(0), &Value::Null));
        assert_eq!(figure["rows"][1]["spans"], json!([[0, 10.0, 30.0], [0, 80.0, 90.0]]));
        assert_eq!(figure["marks"][0], json!({"value": 80.0, "name": "deadlock: the cycle is closed"}));
        let section = &html[html.find("id=\"pauses\"").unwrap()..];
        assert!(
            section.contains("deadlock from 80.0 us on") && section.contains("flow 0, ") && section.contains("5.00")
        );
        // The report shows the figure of pauses for failed runs too.
        reports.iter_mut().for_each(|report| report.output.status = RunStatus::Failed("stuck".into()));
        assert_eq!(data(&rendered(&scenario, &reports))["boards"].as_array().unwrap().len(), 1);
    }

    fn data(html: &str) -> Value {
        let start = html.find("id=\"data\">").unwrap() + "id=\"data\">".len();
        let length = html[start..].find("</script>").unwrap();
        serde_json::from_str(&html[start..start + length]).unwrap()
    }

    #[test]
    fn carries_the_summary_unchanged() {
        let (scenario, reports) = fixture::two_runs();
        let html = rendered(&scenario, &reports);
        assert_eq!(data(&html)["summary"], summarise(&scenario, &reports).to_json(false));
        assert_eq!(html, rendered(&scenario, &reports));
    }

    #[test]
    fn names_cannot_become_markup() {
        let (mut scenario, mut reports) = fixture::two_runs();
        let nasty = "<b>\"x\"</b></script><!--";
        scenario.title = nasty.into();
        scenario.name = nasty.into();
        for run in &mut scenario.runs {
            run.name += nasty;
            run.traffic[0].name = nasty.into();
        }
        reports[0].output.parameters.push((nasty.into(), nasty.into()));
        reports[0].output.warnings.push(nasty.into());
        reports[0].output.ports[0].node = nasty.into();
        reports[0].output.pauses = Some(paused());
        reports[1].output.status = RunStatus::Failed(nasty.into());
        let html = rendered(&scenario, &reports);
        assert!(!html.contains("<b>") && !html.contains("<!--"));
        assert_eq!(html.matches("</script>").count(), 2);
        assert!(html.contains("&lt;b&gt;&quot;x&quot;&lt;/b&gt;"));
        assert_eq!(data(&html)["summary"]["scenario"], nasty);
    }

    #[test]
    fn the_command_of_figures_is_on_the_page() {
        let (scenario, mut reports) = fixture::two_runs();
        reports[0].output.pauses = Some(paused());
        let command = Some("rnic run 'a b.toml'".to_string());
        let summary = ScenarioSummary { command, ..summarise(&scenario, &reports) };
        let html = render(&scenario, &summary, &reports);
        assert!(html.contains("All figures and tables again: <code>rnic run &#39;a b.toml&#39;</code>"));
        let of_run = "These figures again: <code>rnic run &#39;a b.toml&#39; --run &#39;RoCE + PFC&#39;</code>";
        assert_eq!(html.matches(of_run).count(), 1);
        assert!(!rendered(&scenario, &reports).contains("figures again"));
    }

    #[test]
    fn refers_to_no_other_resource() {
        let (scenario, reports) = fixture::two_runs();
        let html = rendered(&scenario, &reports).replace("http://www.w3.org/2000/svg", "");
        for outside in ["http:", "https:", "//cdn", " src=", "@import", "url(", "fetch("] {
            assert!(!html.contains(outside), "{outside}");
        }
    }

    #[test]
    fn a_truncated_run_has_its_unfinished_flows() {
        let (scenario, mut reports) = fixture::two_runs();
        let noted = |page: &str| {
            page.contains("<li class=\"warning\">truncated at 600 us: IRN: 0 of 5 flows unfinished, 3 not started;")
        };
        assert!(!noted(&rendered(&scenario, &reports)));
        let at = rnic_transport::Time::from_us(600);
        reports[1].output.truncated = Some(rnic_spec::Truncation { at, not_started: Some(3) });
        assert!(noted(&rendered(&scenario, &reports)));
    }

    #[test]
    fn a_failed_run_is_marked_and_has_no_bar() {
        let (scenario, mut reports) = fixture::two_runs();
        reports[1].output.status = RunStatus::Failed("flow 3 is stuck".into());
        let html = rendered(&scenario, &reports);
        assert!(html.contains("FAILED") && html.contains("flow 3 is stuck"));
        let boards = data(&html)["boards"].clone();
        // The first two figures are by traffic source, the next ones about all flows.
        let figure = &boards[0]["figures"][2];
        assert_eq!(figure["groups"][0]["bars"][0]["value"], 5.0);
        assert_eq!(figure["groups"][0]["bars"][1]["value"], Value::Null);
        let sizes = boards[1]["figures"].as_array().unwrap().last().unwrap();
        assert_eq!(sizes["views"][0]["lines"][1]["points"], json!([]));
    }

    #[test]
    fn several_traffic_sources_have_a_figure() {
        let (scenario, reports) = fixture::two_runs();
        let figure = data(&rendered(&scenario, &reports))["boards"][0]["figures"][0].clone();
        let groups: Vec<(&Value, &Value, &Value)> = figure["groups"]
            .as_array()
            .unwrap()
            .iter()
            .map(|group| (&group["name"], &group["bars"][0]["value"], &group["bars"][1]["value"]))
            .collect();
        let expected = [("background", 3.0, 1.5), ("incast", 7.0, 3.5)];
        assert_eq!(groups.len(), 2);
        for ((name, first, second), (source, roce, irn)) in groups.into_iter().zip(expected) {
            assert_eq!((name, first, second), (&json!(source), &json!(roce), &json!(irn)));
        }
    }

    #[test]
    fn the_conclusion_comes_first() {
        let (scenario, mut reports) = fixture::two_runs();
        reports[1].output.warnings.push("bdp_cap = 4 holds a lone flow on the longest path to 73 %".into());
        let html = rendered(&scenario, &reports);
        let places = [
            "id=\"answer\"",
            "bdp_cap = 4 holds",
            "id=\"results\"",
            "class=\"figures\"",
            "id=\"traffic\"",
            "class=\"parameters\"",
        ];
        let places = places.map(|text| html.find(text).unwrap_or_else(|| panic!("{text}")));
        assert!(places.is_sorted(), "{places:?}");
        assert!(
            html.contains("<p class=\"lead\">background: IRN has the lowest average slowdown, 1.50: 2.0x better than")
        );
    }

    #[test]
    fn runs_of_a_sweep_are_curves_with_means_over_seeds() {
        let (scenario, reports) = fixture::sweep_records(&["0.3", "0.7"], &[1, 2, 3], |run, load, seed| {
            seed as f64 + if run == "IRN" { 1.0 } else { 2.0 } + if load == "0.7" { 10.0 } else { 0.0 }
        });
        let html = rendered(&scenario, &reports);
        assert!(html.contains("means over the seeds with their 95 % confidence intervals (Student&#39;s t)"));
        let boards = data(&html)["boards"].clone();
        assert_eq!(boards[0]["series"], json!(["RoCE + PFC", "IRN"]));
        // The sources are in the first row, the metrics in the second one.
        let figure = &boards[0]["figures"][2];
        assert_eq!((&figure["title"], &figure["x"]["name"]), (&json!("Average slowdown"), &json!("traffic.load")));
        let points = &figure["views"][0]["lines"][1]["points"];
        assert_eq!((&points[0][0], &points[0][1], &points[1][1]), (&json!(0.3), &json!(3.0), &json!(13.0)));
        // The values of three seeds are 2, 3 and 4: the half-width is t(2) / sqrt(3) = 2.484.
        assert!((points[0][2][0].as_f64().unwrap() - 0.51586).abs() < 1e-4, "{points}");
        assert_eq!(points[0][3], "mean of 3 seeds");
    }

    #[test]
    fn runs_of_a_sweep_are_compared_at_their_point() {
        let slowdown = |run: &str, _: &str, _| if run == "IRN" { 1.0 } else { 2.0 };
        let (scenario, reports) = fixture::sweep_records(&["0.3", "0.32"], &[7], slowdown);
        let html = rendered(&scenario, &reports);
        assert!(html.contains("Each run is compared with RoCE + PFC at the same point of the sweep."), "{html}");
        assert!(html.contains("than RoCE + PFC, load=0.32, seed=7."));
        assert!(!html.contains(
            "load=0.32, seed=7: 2.0x better average slowdown, 2.0x better average FCT, than RoCE + PFC, load=0.3,"
        ));
    }

    #[test]
    fn a_large_report_renders() {
        let (scenario, reports) = fixture::showcase();
        let html = rendered(&scenario, &reports);
        assert!(html.len() < 400_000, "{}", html.len());
        let figures = &data(&html)["boards"][1]["figures"];
        assert_eq!(figures[0]["views"][0]["lines"][0]["points"].as_array().unwrap().len(), 100);
        assert!(figures[1]["views"][2]["lines"][0]["points"].as_array().unwrap().len() > 5);
    }

    #[test]
    #[ignore = "writes target/showcase and target/tiny, for inspection"]
    fn write_reports_for_inspection() {
        for (name, (scenario, reports)) in [("showcase", fixture::showcase()), ("tiny", fixture::two_runs())] {
            let dir = std::path::Path::new(env!("CARGO_MANIFEST_DIR")).join("../../target").join(name);
            let summary = summarise(&scenario, &reports);
            crate::write_all(&dir, &scenario, &reports, &summary, &[]).unwrap();
            println!("{}", crate::table::render(&summary, 80));
        }
        let study = std::path::Path::new(env!("CARGO_MANIFEST_DIR")).join("../../target/study.html");
        std::fs::write(study, render_study(&fixture::study())).unwrap();
    }

    #[test]
    fn a_study_carries_its_verdicts_and_figures() {
        let study = fixture::study();
        let html = render_study(&study);
        assert_eq!(html, render_study(&study));
        for text in [
            "<h1>The IRN paper, reproduced</h1>",
            "2 inside the stated range, 1 outside, 1 without a stated number",
            "<a href=\"#experiment-1\">Figure 9</a>",
            "<code>nic_burst</code> matters",
            "rnic reproduce irn --seeds 5",
        ] {
            assert!(html.contains(text), "{text}");
        }
        let boards = &data(&html)["boards"];
        assert_eq!(boards[0]["figures"][0]["groups"][0]["stated"], json!([2.8, 3.7]));
        assert_eq!(boards[0]["figures"][0]["groups"][1]["bars"][0]["interval"], json!([1.53, 1.87]));
        assert_eq!(
            boards[1]["figures"][0]["views"][0]["lines"][0]["points"][0],
            json!([10.0, 0.965, [0.948889, 0.974286], ""])
        );
    }

    #[test]
    fn verdicts_about_rough_results_have_no_colours() {
        let (study, coloured) = (fixture::study(), ["class=\"mark inside\"", "class=\"mark outside\""]);
        let page = render_study(&study);
        assert!(coloured.iter().all(|mark| page.contains(mark)));
        let neutral = render_study(&Study { neutral: true, ..study });
        assert!(!coloured.iter().any(|mark| neutral.contains(mark)));
        assert!(neutral.contains(">inside</span>") && neutral.contains("the verdicts say nothing about the paper"));
    }

    #[test]
    fn names_in_a_study_cannot_become_markup() {
        let nasty = "<b>\"x\"</b></script><!--";
        let mut study = fixture::study();
        (study.title, study.command, study.version) = (nasty.into(), nasty.into(), nasty.into());
        study.facts.push((nasty.into(), nasty.into()));
        study.introduction.push(nasty.into());
        study.verdicts[0].note = nasty.into();
        study.verdicts[0].experiment = nasty.into();
        study.experiments[0].name = nasty.into();
        study.experiments[0].boards[0].series[0] = nasty.into();
        if let figure::Figure::Bars(bars) = &mut study.experiments[0].boards[0].rows[0][0] {
            (bars.title, bars.caption, bars.groups[0].name) = (nasty.into(), nasty.into(), nasty.into());
        }
        let html = render_study(&study);
        assert!(!html.contains("<b>\"") && !html.contains("<!--"));
        assert_eq!(html.matches("</script>").count(), 2);
    }

    #[test]
    fn verdicts_are_at_the_top_of_a_report() {
        let (scenario, reports) = fixture::two_runs();
        let summary = summarise(&scenario, &reports);
        assert!(!render(&scenario, &summary, &reports).contains("id=\"verdicts\""));
        let html = render_with(&scenario, &summary, &reports, &fixture::study().verdicts);
        assert!(html.find("id=\"verdicts\"").unwrap() < html.find("class=\"figures\"").unwrap());
    }

    #[test]
    fn a_sweep_of_fifty_runs_stays_small() {
        let (mut scenario, reports) = fixture::showcase();
        let (mut runs, mut many) = (Vec::new(), Vec::new());
        for number in 0..50 {
            let mut run = scenario.runs[number % 3].clone();
            run.name = format!("{}, load {number}", run.name);
            runs.push(run);
            many.push(reports[number % 3].clone());
        }
        scenario.runs = runs;
        let html = rendered(&scenario, &many);
        assert!(html.len() < 600_000, "{}", html.len());
    }

    #[test]
    fn runs_without_measured_flows_render() {
        let (scenario, reports) = fixture::empty();
        let html = rendered(&scenario, &reports);
        let body = &html[html.find("<body>").unwrap()..html.find("<script").unwrap()];
        assert!(!body.contains("NaN") && !body.contains("inf") && body.contains("no flow was measured"));
        let no_runs = rendered(&fixture::scenario(Vec::new()), &[]);
        assert!(no_runs.contains("</html>"));
    }
}
