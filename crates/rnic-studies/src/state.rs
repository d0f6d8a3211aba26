//! The state of an experiment's definition: hashes that say whether recorded data are older than the study.

use super::{Measured, Measurement, Plan, Planned};
use rnic_record::Digest;
use rnic_transport::congestion::{CongestionControl, NoCongestionControl};
use std::collections::BTreeSet;

/// The recorded table of the simulator's behaviour. Every change of simulated results changes it.
pub const BEHAVIOUR: &str = include_str!("../../rnic-sim/tests/behaviour.txt");

/// The state of one experiment's definition.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct ExperimentState {
    /// Name of the experiment.
    pub experiment: String,
    /// Hash of the settings of all runs with seed 1, and of all claims: metric, statement, rule and unit.
    pub plan: String,
    /// Transports of the experiment's runs, as `NAME` or `NAME, CONGESTION CONTROL`, sorted.
    pub transports: Vec<String>,
}

impl ExperimentState {
    /// Hash of the rows of [`BEHAVIOUR`] for the experiment's transports; `None` if it has none.
    pub fn behaviour(&self) -> Option<String> {
        rnic_record::behaviour(BEHAVIOUR, &self.transports)
    }
}

impl Plan {
    /// The states of the experiments in this plan. The number of seeds does not influence them.
    pub fn states(&self) -> Vec<ExperimentState> {
        self.experiments.iter().map(|planned| self.state(planned)).collect()
    }

    fn state(&self, planned: &Planned) -> ExperimentState {
        let mut digest = Digest::default();
        let mut transports = BTreeSet::new();
        for (key, number) in planned.keys.iter().filter(|(key, _)| key.seed == 1) {
            let job = &self.jobs[*number];
            for text in [key.file, &key.run, key.cc, &key.point, &job.fingerprint.settings()] {
                digest.add(text);
            }
            let beside = job.run.beside.iter().map(|beside| &beside.transport);
            for transport in std::iter::once(&job.run.transport).chain(beside) {
                let cc = transport.cc.name();
                let name = &transport.name;
                transports.insert(if cc == NoCongestionControl::NAME { name.clone() } else { format!("{name}, {cc}") });
            }
        }
        // The rows of failed runs have all claims, and no values.
        let failed = Measurement::failed("not simulated".to_string());
        let results = planned.keys.keys().map(|key| (key, &failed)).collect();
        let missing = planned.jobs.as_ref().err().map(String::as_str);
        let measured = Measured::new(results, &planned.points, missing);
        for row in (planned.experiment.rows)(&measured) {
            for text in [&row.metric, &row.stated, &row.claim.to_json().to_string(), row.unit.name()] {
                digest.add(text);
            }
        }
        ExperimentState {
            experiment: planned.experiment.name.to_string(),
            plan: digest.text(),
            transports: transports.into_iter().collect(),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{Request, STUDIES, dcqcn, irn};

    fn state(
        study: &'static crate::Study, experiment: &str, set: &[(&str, &str)], seeds: Option<u32>,
    ) -> ExperimentState {
        let request = Request {
            experiments: vec![experiment.to_string()],
            seeds,
            set: set.iter().map(|(key, value)| (key.to_string(), value.to_string())).collect(),
            ..Request::default()
        };
        Plan::new(study, &request).unwrap().states().remove(0)
    }

    /// The file has a line per experiment: study, experiment, hash of the plan, and transports. `rnic-pages` compares
    /// the recorded data with it without compiling the simulator. `UPDATE_EXPECT=1 cargo test -p rnic-studies states`
    /// rewrites it.
    #[test]
    fn states_are_as_recorded() {
        let mut text = String::new();
        for study in STUDIES {
            let plan = Plan::new(study, &Request { seeds: Some(1), ..Request::default() }).unwrap();
            for state in plan.states() {
                text +=
                    &format!("{} {} {} {}\n", study.name, state.experiment, state.plan, state.transports.join("; "));
            }
        }
        expect_test::expect_file!["../states.txt"].assert_eq(&text);
    }

    #[test]
    fn settings_and_claims_change_the_plan_and_seeds_do_not() {
        let before = state(&irn::STUDY, "fig1", &[], Some(1));
        assert_eq!(before, state(&irn::STUDY, "fig1", &[], Some(3)));
        assert_ne!(before.plan, state(&irn::STUDY, "fig1", &[("traffic.load", "0.6")], Some(1)).plan);
        // Figures 1 and 2 share runs of IRN, and differ in other runs and in their claims.
        assert_ne!(before.plan, state(&irn::STUDY, "fig2", &[], Some(1)).plan);
        assert_eq!(before.transports, ["irn", "roce"]);
        assert!(before.behaviour().is_some());
        assert!(state(&dcqcn::STUDY, "fig3", &[], Some(1)).transports.contains(&"roce, dcqcn".to_string()));
    }
}
