//! Checks the tables and marking thresholds in `docs/reference/congestion-control.md` against the code.

use rnic_transport::congestion::{CongestionControl, Marking};
use rnic_transport::registry::{Visitor, visit_congestion_controls};
use rnic_transport::{BitRate, FlowConfig};
use std::fmt::Write as _;

const PAGE: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/../../docs/reference/congestion-control.md");

/// Compares the page with the tables that the code requires, and collects the tables that are missing from the page.
struct Compare {
    page: String,
    missing: String,
    rows: u32,
}

impl Visitor for Compare {
    fn visit<C: CongestionControl>(&mut self) {
        // Compare section by section, so that a row under the heading of another congestion control does not count.
        let heading = format!("\n## `{}`\n", C::NAME);
        let section = self.page.split_once(&heading).map_or("", |(_, rest)| rest);
        let section = section.split("\n## ").next().unwrap_or_default();
        let mut expected = if C::PARAMETERS.is_empty() {
            String::new()
        } else {
            "| key | default | meaning | source |\n|---|---|---|---|\n".to_string()
        };
        for parameter in C::PARAMETERS {
            let default = parameter.default_value().map_or("derived".to_string(), |value| value.to_string());
            let (meaning, source) = parameter.about.split_once("; ").unwrap_or((parameter.about, ""));
            assert_ne!(source, "", "{}: where does the default of `{}` come from?", C::NAME, parameter.name);
            let _ = writeln!(expected, "| `{}` | {default} | {meaning} | {source} |", parameter.name);
            self.rows += 1;
        }
        if let Some(marking) = C::marking(&FlowConfig::default()) {
            let Marking { kmin, kmax, pmax } = marking;
            let faster = FlowConfig { line_rate: BitRate::from_gbps(100), ..FlowConfig::default() };
            let at = if C::marking(&faster) == Some(marking) { "every line rate" } else { "40 Gbps" };
            let _ = if kmin == kmax {
                let above = format!("every packet while the queue is longer than {kmax}");
                writeln!(expected, "\nAt {at}, switches mark {above}, and no packet otherwise.")
            } else {
                let below = format!("no packets while the queue is at most {kmin}");
                let between = format!("the marking probability grows linearly to {pmax} at {kmax}");
                let above = "every packet is marked while the queue is longer";
                writeln!(expected, "\nAt {at}, switches mark {below}. Above that, {between}, and {above}.")
            };
        }
        if section.is_empty() || !section.contains(&expected) {
            let _ = writeln!(self.missing, "{heading}\n{expected}");
        }
    }
    fn visit_with_telemetry<C: CongestionControl>(&mut self) {
        self.visit::<C>();
    }
}

#[test]
fn the_page_names_every_parameter_and_default() {
    let page = std::fs::read_to_string(PAGE).unwrap();
    let mut compare = Compare { page, missing: String::new(), rows: 0 };
    visit_congestion_controls(&mut compare);
    assert!(compare.missing.is_empty(), "the page does not have:\n{}", compare.missing);
    assert!(compare.rows > 30);
    let tables = compare.page.lines().filter(|line| line.starts_with("| `")).count();
    assert_eq!(tables, compare.rows as usize, "the page has parameters that do not exist");
}
