//! The links that bound the steps of programs of tasks: those that were sending for the largest fraction of a step, in
//! `summary.json`, as a sentence, and in `step_links.csv`.

use super::text::{exact_us, percent, round6};
use rnic_spec::{LinkOfStep, RunOutput, RunRecord, Scenario};
use rnic_transport::Time;
use serde_json::{Value, json};
use std::io::{self, Write};

/// Columns of `step_links.csv`, one row per run, step and link, the busiest links of each step first.
const COLUMNS: [&str; 9] = ["run", "traffic", "step", "link", "bytes", "busy_us", "utilisation", "start_us", "end_us"];

/// A direction of a link in the measured steps of a traffic source.
#[derive(Clone, PartialEq, Debug)]
pub struct StepLink {
    /// The sending and the receiving node, such as `leaf0:spine1`.
    pub name: String,
    /// Bytes of frames per step on average, over all parallel links.
    pub bytes: f64,
    /// Fraction of the time of the steps for which the link was sending, from 0 to 1.
    pub utilisation: f64,
}

/// The busiest links of the measured steps of the traffic source with this index.
pub(super) fn of_source(output: &RunOutput, index: usize) -> Vec<StepLink> {
    let own = output.step_links.measured.iter().find(|steps| usize::from(steps.traffic) == index);
    let Some(steps) = own else { return Vec::new() };
    let link = |link: &LinkOfStep| StepLink {
        name: link.name.clone(),
        bytes: link.bytes as f64 / f64::from(steps.steps.max(1)),
        utilisation: link.utilisation(steps.time),
    };
    steps.links.iter().map(link).collect()
}

/// A link as a JSON object.
pub(super) fn to_json(link: &StepLink) -> Value {
    json!({ "link": link.name, "bytes": round6(link.bytes), "utilisation": round6(link.utilisation) })
}

/// A link that was sending for at least this fraction of the time of the busiest link is as busy.
const AS_BUSY: f64 = 0.99;

/// A sentence about the links that bound the steps.
pub(super) fn sentence(traffic: &str, links: &[StepLink]) -> Option<String> {
    let busiest = links.first()?;
    let alike = links.iter().filter(|link| link.utilisation >= AS_BUSY * busiest.utilisation).count();
    let others = match alike {
        1 => links
            .get(1)
            .map_or(String::new(), |next| format!("; {} follows with {}", next.name, percent(next.utilisation))),
        _ if alike == links.len() => format!(", and at least {} others as long", alike - 1),
        2 => format!(", and {} as long", links[1].name),
        _ => format!(", and {} others as long", alike - 1),
    };
    let utilisation = percent(busiest.utilisation);
    Some(format!("busiest link of a step (`{traffic}`): {} sends for {utilisation} of the time{others}", busiest.name))
}

/// Whether a run has records of links of steps.
pub(super) fn any(reports: &[RunRecord]) -> bool {
    reports.iter().any(|report| !report.output.step_links.steps.is_empty())
}

/// A warning if steps are missing in the records of links.
pub(super) fn missing(output: &RunOutput) -> Option<String> {
    let links = &output.step_links;
    links.is_truncated.then(|| {
        format!("steps are missing in step_links.csv and in the links of steps, which have {}", links.steps.len())
    })
}

/// Writes `step_links.csv`.
pub(super) fn write(out: impl Write, scenario: &Scenario, reports: &[RunRecord]) -> io::Result<()> {
    let mut csv = csv::Writer::from_writer(out);
    csv.write_record(COLUMNS)?;
    for (run, report) in scenario.runs.iter().zip(reports) {
        for step in &report.output.step_links.steps {
            let time: Time = step.end.saturating_sub(step.start);
            for link in &step.links {
                csv.write_record([
                    run.name.as_str(),
                    run.traffic.get(usize::from(step.traffic)).map_or("", |source| &source.name),
                    &step.step.to_string(),
                    &link.name,
                    &link.bytes.to_string(),
                    &exact_us(link.busy),
                    &round6(link.utilisation(time)).to_string(),
                    &exact_us(step.start),
                    &exact_us(step.end),
                ])?;
            }
        }
    }
    csv.flush()
}

#[cfg(test)]
mod tests {
    use super::super::fixture;
    use super::*;
    use rnic_spec::{LinksOfStep, LinksOfSteps, StepLinks};

    fn link(name: &str, transmitters: u32, bytes: u64, busy: u64) -> LinkOfStep {
        LinkOfStep { name: name.into(), transmitters, bytes, busy: Time::from_us(busy) }
    }

    #[test]
    fn links_of_steps_by_hand() {
        let (scenario, mut reports) = fixture::two_runs();
        assert!(!any(&reports));
        let us = Time::from_us;
        // Two steps of 10 and 30 us; the link of two transmitters sends for half of the first step.
        let links = vec![link("a:b", 2, 5_000, 10), link("b:c", 1, 2_000, 4)];
        reports[0].output.step_links = StepLinks {
            steps: vec![LinksOfStep { traffic: 0, step: 3, start: us(20), end: us(30), links }],
            measured: vec![LinksOfSteps { traffic: 0, steps: 2, time: us(40), links: vec![link("a:b", 2, 9_000, 20)] }],
            is_truncated: true,
        };
        let mut out = Vec::new();
        write(&mut out, &scenario, &reports).unwrap();
        let text = String::from_utf8(out).unwrap();
        let names = format!("{},{}", scenario.runs[0].name, scenario.runs[0].traffic[0].name);
        let expected = [format!("{names},3,a:b,5000,10,0.5,20,30"), format!("{names},3,b:c,2000,4,0.4,20,30")];
        assert_eq!(text.lines().skip(1).collect::<Vec<_>>(), expected);
        let summary = of_source(&reports[0].output, 0);
        assert_eq!(summary, [StepLink { name: "a:b".into(), bytes: 4_500.0, utilisation: 0.25 }]);
        assert_eq!(to_json(&summary[0]).to_string(), r#"{"link":"a:b","bytes":4500.0,"utilisation":0.25}"#);
        let warning = "steps are missing in step_links.csv and in the links of steps, which have 1";
        assert_eq!(missing(&reports[0].output).as_deref(), Some(warning));
    }

    #[test]
    fn a_sentence_names_the_busiest_link() {
        let link = |name: &str, utilisation| StepLink { name: name.into(), bytes: 1.0, utilisation };
        let of = |shares: &[f64]| {
            let links: Vec<StepLink> = ["a:b", "b:c", "c:d"].iter().zip(shares).map(|(n, u)| link(n, *u)).collect();
            sentence("t", &links).unwrap().replace("busiest link of a step (`t`): a:b sends for ", "")
        };
        assert_eq!(of(&[0.8, 0.4, 0.1]), "80.0 % of the time; b:c follows with 40.0 %");
        assert_eq!(of(&[0.8, 0.8, 0.1]), "80.0 % of the time, and b:c as long");
        assert_eq!(of(&[0.8, 0.8, 0.8]), "80.0 % of the time, and at least 2 others as long");
        assert_eq!(of(&[0.8]), "80.0 % of the time");
        assert_eq!(sentence("t", &[]), None);
    }
}
