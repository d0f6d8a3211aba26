//! The runs that the benchmark measures.

/// The measured runs of one scenario.
pub(crate) struct Group {
    /// Number of hosts. In the tables, hosts and traffic are the name of the scenario.
    pub(crate) hosts: u32,
    pub(crate) traffic: &'static str,
    /// File name of the scenario in `scenarios/bench`.
    file: &'static str,
    /// Names of the scenario's runs that are measured.
    runs: &'static [&'static str],
}

/// One run to measure.
#[derive(Clone, Copy)]
pub(crate) struct Case {
    pub(crate) hosts: u32,
    pub(crate) traffic: &'static str,
    pub(crate) file: &'static str,
    pub(crate) run: &'static str,
}

const TRANSPORTS: &[&str] = &["RoCE + PFC", "IRN", "RoCE + PFC + DCQCN", "IRN + DCQCN", "NDP", "Homa", "HPCC"];
const TWO: &[&str] = &["RoCE + PFC", "IRN"];

/// All cases, in the order of the table.
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

/// Runs that measure the memory of an active flow.
pub(crate) const FLOWS_UNDER_WAY: Group =
    Group { hosts: 128, traffic: "flows under way", file: "flows-128.toml", runs: TRANSPORTS };

impl Group {
    pub(crate) fn cases(&self) -> impl Iterator<Item = Case> {
        let Group { hosts, traffic, file, runs } = *self;
        runs.iter().map(move |run| Case { hosts, traffic, file, run })
    }
}

impl Case {
    /// Name of the case; an argument that is part of it selects the case.
    pub(crate) fn name(&self) -> String {
        format!("{} hosts, {}: {}", self.hosts, self.traffic, self.run)
    }
}
