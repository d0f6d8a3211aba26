//! Checks the tables and marking thresholds in `docs/reference/congestion-control.md` against the code.

use rnic_transport::congestion::{CongestionControl, Marking, Settings, Value};
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

impl Compare {
    /// The table of those parameters that differ between the profiles of a congestion control, and of its marking
    /// thresholds; empty without profiles.
    fn profiles<C: CongestionControl>(&mut self) -> String {
        let Some(selector) = C::PARAMETERS.iter().find(|parameter| !parameter.profiles.is_empty()) else {
            return String::new();
        };
        let flow = FlowConfig::default();
        let with_params = |name: &str| {
            let mut settings = Settings::new(C::PARAMETERS);
            settings.set(selector.name, Value::choice(name)).unwrap();
            let params = C::params(&settings, &flow).unwrap();
            (settings, params)
        };
        let profiles: Vec<_> = selector.profiles.iter().map(|profile| with_params(profile.name)).collect();
        let names: Vec<String> = selector.profiles.iter().map(|profile| format!("`{}`", profile.name)).collect();
        let mut table = format!("| key | {} |\n|---|{}\n", names.join(" | "), "---|".repeat(names.len()));
        for parameter in C::PARAMETERS.iter().filter(|parameter| parameter.name != selector.name) {
            let value = |(settings, params): &(Settings, C::Params)| match settings.value(parameter.name) {
                Some(value) => value.to_string(),
                None => format!("{} at {}", C::derived(params, parameter.name).unwrap(), flow.line_rate),
            };
            let values: Vec<String> = profiles.iter().map(value).collect();
            if values.iter().any(|value| *value != values[0]) {
                let _ = writeln!(table, "| `{}` | {} |", parameter.name, values.join(" | "));
                self.rows += 1;
            }
        }
        let marking = profiles.iter().map(|(_, params)| {
            let Marking { kmin, kmax, pmax } = C::marking(params, &flow).unwrap();
            format!("{kmin}, {kmax}, {pmax}")
        });
        let _ = writeln!(table, "| ECN at {} | {} |", flow.line_rate, marking.collect::<Vec<_>>().join(" | "));
        table
    }
}

impl Visitor for Compare {
    fn visit<C: CongestionControl>(&mut self) {
        let profiles = self.profiles::<C>();
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
        let at_rate = |line_rate| {
            let flow = FlowConfig { line_rate, ..FlowConfig::default() };
            let params = C::params(&Settings::new(C::PARAMETERS), &flow).expect("the defaults are accepted");
            C::marking(&params, &flow)
        };
        if let Some(marking) = at_rate(BitRate::from_gbps(40)) {
            let Marking { kmin, kmax, pmax } = marking;
            let at = if at_rate(BitRate::from_gbps(100)) == Some(marking) { "every line rate" } else { "40 Gbps" };
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
        for expected in [expected, profiles] {
            if section.is_empty() || !section.contains(&expected) {
                let _ = writeln!(self.missing, "{heading}\n{expected}");
            }
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
    // RoGUE's response is in `rnic-host`, which is above this crate.
    let rest = compare.page.split("\n## `rogue`").collect::<Vec<_>>();
    let rogue = rest.get(1).map_or("", |text| text.split("\n## ").next().unwrap_or(""));
    let rows = |text: &str| text.lines().filter(|line| line.starts_with("| `")).count();
    let tables = rows(&compare.page) - rows(rogue);
    assert_eq!(tables, compare.rows as usize, "the page has parameters that do not exist");
}
