//! The report: one HTML file that works offline, on paper, on a phone and, but for its curves, without JavaScript.
//!
//! Tables and bars are static HTML; the script draws the curves from the JSON that the file carries, which is
//! `summary.json` and the points of the curves. No network, no fonts, nothing of the machine: same bytes each time.

mod counts;
mod curves;
mod figures;
mod html;
mod overview;

use super::summary::ScenarioSummary;
use crate::run::RunReport;
use crate::scenario::Scenario;
use html::{escape, script_json};
use serde_json::json;

const STYLE: &str = include_str!("report/style.css");
const SCRIPT: &str = include_str!("report/script.js");

/// The whole file. `summary` is that of `scenario` and `reports`.
pub fn render(scenario: &Scenario, summary: &ScenarioSummary, reports: &[RunReport]) -> String {
    let data = json!({
        "summary": summary.to_json(false),
        "curves": curves::curves(scenario, summary, reports),
    });
    let sections = [
        overview::header(summary),
        "<main>".to_string(),
        overview::parameters(summary),
        overview::results(summary),
        figures::section(summary),
        counts::sizes(summary),
        counts::traffic(summary),
        counts::counts(summary),
        counts::ports(summary, reports),
        overview::definitions(),
        "</main>".to_string(),
    ];
    format!(
        "<!doctype html>\n<html lang=\"en\">\n<head>\n<meta charset=\"utf-8\">\n\
         <meta name=\"viewport\" content=\"width=device-width, initial-scale=1\">\n\
         <meta http-equiv=\"Content-Security-Policy\" content=\"default-src 'none'; style-src 'unsafe-inline'; \
         script-src 'unsafe-inline'\">\n\
         <meta name=\"color-scheme\" content=\"light dark\">\n<title>{title}</title>\n\
         <style>\n{STYLE}</style>\n</head>\n<body>\n{body}\n\
         <script type=\"application/json\" id=\"data\">{data}</script>\n<script>\n{SCRIPT}</script>\n</body>\n</html>\n",
        title = escape(&summary.title),
        body = sections.concat(),
        data = script_json(&data),
    )
}

#[cfg(test)]
mod tests {
    use super::super::{RunStatus, fixture, summarise};
    use super::*;
    use serde_json::Value;

    fn rendered(scenario: &Scenario, reports: &[RunReport]) -> String {
        render(scenario, &summarise(scenario, reports), reports)
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
        reports[1].output.status = RunStatus::Failed(nasty.into());
        let html = rendered(&scenario, &reports);
        assert!(!html.contains("<b>") && !html.contains("<!--"));
        assert_eq!(html.matches("</script>").count(), 2);
        assert!(html.contains("&lt;b&gt;&quot;x&quot;&lt;/b&gt;"));
        assert_eq!(data(&html)["summary"]["scenario"], nasty);
    }

    #[test]
    fn reaches_for_nothing_outside_itself() {
        let (scenario, reports) = fixture::two_runs();
        let html = rendered(&scenario, &reports).replace("http://www.w3.org/2000/svg", "");
        for outside in ["http:", "https:", "//cdn", " src=", "@import", "url(", "fetch("] {
            assert!(!html.contains(outside), "{outside}");
        }
    }

    #[test]
    fn a_failed_run_is_marked_and_has_no_bar() {
        let (scenario, mut reports) = fixture::two_runs();
        reports[1].output.status = RunStatus::Failed("flow 3 is stuck".into());
        let html = rendered(&scenario, &reports);
        assert!(html.contains("FAILED") && html.contains("flow 3 is stuck"));
        assert!(html.contains("class=\"bar\" data-run=\"0\"") && !html.contains("class=\"bar\" data-run=\"1\""));
        assert_eq!(data(&html)["curves"][1]["sizes"], json!([]));
    }

    #[test]
    fn a_large_report_renders() {
        let (scenario, reports) = fixture::showcase();
        let html = rendered(&scenario, &reports);
        assert!(html.len() < 400_000, "{}", html.len());
        let curve = &data(&html)["curves"][0];
        assert_eq!(curve["tail"].as_array().unwrap().len(), 100);
        assert!(curve["sizes"].as_array().unwrap().len() > 5);
    }

    #[test]
    #[ignore = "writes target/showcase and target/tiny, to be looked at"]
    fn write_reports_to_look_at() {
        for (name, (scenario, reports)) in [("showcase", fixture::showcase()), ("tiny", fixture::two_runs())] {
            let dir = std::path::Path::new(env!("CARGO_MANIFEST_DIR")).join("../../target").join(name);
            let summary = summarise(&scenario, &reports);
            crate::results::write_all(&dir, &scenario, &reports, &summary, &[]).unwrap();
            println!("{}", crate::results::table::render(&summary, 80));
        }
    }

    #[test]
    fn nothing_measured_still_renders() {
        let (scenario, reports) = fixture::empty();
        let html = rendered(&scenario, &reports);
        let body = &html[html.find("<body>").unwrap()..html.find("<script").unwrap()];
        assert!(!body.contains("NaN") && !body.contains("inf") && body.contains("no flow was measured"));
        let no_runs = rendered(&fixture::scenario(Vec::new()), &[]);
        assert!(no_runs.contains("</html>"));
    }
}
