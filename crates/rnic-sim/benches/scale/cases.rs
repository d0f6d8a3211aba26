//! The measured runs.

/// Runs of one scenario.
pub(crate) struct Group {
    /// Its name in the tables; the number of hosts comes first.
    pub(crate) hosts: u32,
    pub(crate) traffic: &'static str,
    /// The scenario, in `scenarios/bench`.
    file: &'static str,
    /// Names of its measured runs.
    runs: &'static [&'static str],
}

/// One run.
#[derive(Clone, Copy)]
pub(crate) struct Case {
    pub(crate) hosts: u32,
    pub(crate) traffic: &'static str,
    pub(crate) file: &'static str,
    pub(crate) run: &'static str,
}

const TRANSPORTS: &[&str] = &["RoCE + PFC", "IRN", "RoCE + PFC + DCQCN", "IRN + DCQCN", "NDP", "Homa", "HPCC"];
const TWO: &[&str] = &["RoCE + PFC", "IRN"];

/// In the order of the table.
pub(crate) const CASES: &[Group] = &[
    Group { hosts: 54, traffic: "heavy-tailed, 40 Gbps", file: "scale-54.toml", runs: TRANSPORTS },
    Group { hosts: 54, traffic: "WebSearch, 40 Gbps", file: "websearch-54.toml", runs: TWO },
    Group { hosts: 128, traffic: "heavy-tailed, 100 Gbps", file: "scale-128.toml", runs: TRANSPORTS },
    Group { hosts: 1_024, traffic: "heavy-tailed, 100 Gbps", file: "scale-1024.toml", runs: TRANSPORTS },
    Group { hosts: 1_024, traffic: "permutation, 100 Gbps", file: "permutation-1024.toml", runs: TWO },
    Group { hosts: 8_192, traffic: "heavy-tailed, 400 Gbps", file: "scale-8192.toml", runs: TRANSPORTS },
    Group { hosts: 8_192, traffic: "all-to-all, 400 Gbps", file: "all-to-all-8192.toml", runs: TRANSPORTS },
    Group { hosts: 16_384, traffic: "heavy-tailed, 400 Gbps", file: "scale-16384.toml", runs: TRANSPORTS },
];

/// A run for the memory of a flow that is under way.
pub(crate) const FLOWS_UNDER_WAY: Group =
    Group { hosts: 128, traffic: "flows under way", file: "flows-128.toml", runs: TRANSPORTS };

impl Group {
    pub(crate) fn cases(&self) -> impl Iterator<Item = Case> {
        let Group { hosts, traffic, file, runs } = *self;
        runs.iter().map(move |run| Case { hosts, traffic, file, run })
    }
}

impl Case {
    /// The name that selects a case.
    pub(crate) fn name(&self) -> String {
        format!("{} hosts, {}: {}", self.hosts, self.traffic, self.run)
    }
}
