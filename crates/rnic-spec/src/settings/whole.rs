//! Declarations of the settings of the top level, of runs and transports as far as no transport declares them, and of
//! `[limits]`, `[watch]` and `[sweep]`.

use super::{Section, Selector, Setting};
use rnic_transport::settings::Kind;

/// Value of a constant of a P4 program.
pub const CONSTANT: Kind = Kind::Either(&[Kind::Count { min: 0, max: i64::MAX as u64 }, Kind::Flag]);

pub(super) const ROOT: Section = Section {
    table: "",
    document: "",
    selector: None,
    is_open: false,
    settings: &[
        Setting::new("title", Kind::Title, "\"IRN and RoCE\"", "title that tables and reports show")
            .derived("the file name")
            .nowhere(),
        Setting::new(
            "seed",
            Kind::Count { min: 0, max: u64::MAX },
            "1",
            "seed of all pseudo-random numbers of the runs; the option `--seed` overrides it",
        )
        .default("1"),
        Setting::new(
            "fidelity",
            Kind::Choice(&["packet", "flow"]),
            "\"flow\"",
            "what the runs simulate. `\"packet\"`: every packet. `\"flow\"`: [flows as fluids](../concepts/fidelity.md) \
             with max-min fair rates, much faster, without queues, drops and pauses",
        )
        .default("packet"),
        Setting::new(
            "fidelity_quantum",
            Kind::Delay,
            "\"1 us\"",
            "with `fidelity = \"flow\"`: compute rates only at multiples of this simulated time, for many flows that start \
             or end at slightly different times; 0: whenever a flow starts or ends",
        )
        .default("0 us"),
        Setting::new(
            "fast_forward",
            Kind::Number { min: 0.0, max: 0.1 },
            "0.01",
            "[skip simulated time](../concepts/fidelity.md#fast-forward) in which the set of flows, their rates and all \
             queues repeat, up to this relative difference; 0: simulate everything",
        )
        .default("0"),
        Setting::new("fabric", Kind::Table("fabric"), "{}", "topology, links and switches").required().nowhere(),
        Setting::new(
            "traffic",
            Kind::Either(&[Kind::Table("traffic"), Kind::Tables("traffic")]),
            "{}",
            "the traffic, one source or several",
        )
        .required()
        .nowhere(),
        Setting::new("transport", Kind::Table("transport"), "{}", "settings for all runs whose transport has them")
            .nowhere(),
        Setting::new("run", Kind::Tables("run"), "[]", "the runs to compare").required().nowhere(),
        Setting::new("limits", Kind::Table("limits"), "{}", "when a run ends").nowhere(),
        Setting::new(
            "sweep",
            Kind::Table("sweep"),
            "{}",
            "lists of values for any keys; every run is simulated at every point",
        )
        .nowhere(),
        Setting::new(
            "extends",
            Kind::Text,
            "\"default.toml\"",
            "name of [another scenario file](#extends), of which this file states only the differences",
        )
        .nowhere(),
        Setting::new("watch", Kind::Table("watch"), "{}", "what to sample during a run").nowhere(),
    ],
};

pub(super) const RUN: Section = Section {
    table: "run",
    document: "",
    selector: Some(Selector { key: "transport", variants: &[] }),
    is_open: true,
    settings: &[
        // Runs that only a program uses may have no name.
        Setting::new("name", Kind::Text, "\"IRN\"", "unique name of the run").required().nowhere(),
        Setting::new("transport", Kind::Text, "\"irn\"", "transport of the run: a name, or p4:FILE")
            .required()
            .nowhere(),
        Setting::new("set", Kind::Table("set"), "{}", "changes for this run: dotted paths and values").nowhere(),
        Setting::new(
            "beside",
            Kind::Tables("run.beside"),
            "[]",
            "further transports of the hosts, each for the traffic of one priority",
        )
        .nowhere(),
    ],
};

pub(super) const BESIDE: Section = Section {
    table: "run.beside",
    document: "beside[]",
    selector: Some(Selector { key: "transport", variants: &[] }),
    is_open: true,
    settings: &[
        Setting::new(
            "priority",
            Kind::Count { min: 1, max: 7 },
            "1",
            "the priority of the traffic that uses this transport; at least one traffic source must have it",
        )
        .required(),
        Setting::new("transport", Kind::Text, "\"tcp\"", "a transport of reliable flows").required().nowhere(),
    ],
};

pub(super) const TRANSPORT: Section = Section {
    table: "transport",
    document: "transport",
    selector: None,
    is_open: true,
    settings: &[
        Setting::new("cc", Kind::Text, "\"dcqcn\"", "congestion control")
            .derived("`\"none\"`; of a transport in host software `\"rogue\"`")
            .nowhere(),
        Setting::new("pfc", Kind::Flag, "true", "whether switches send PFC pause frames").default("false"),
        Setting::new(
            "constants",
            Kind::Table("constants"),
            "{ OVERCOMMITMENT = 1 }",
            "values that override constants of the P4 program",
        )
        .nowhere(),
    ],
};

pub(super) const LIMITS: Section = Section {
    table: "limits",
    document: "limits",
    selector: None,
    is_open: false,
    settings: &[
        Setting::new(
            "duration",
            Kind::Time,
            "\"200 ms\"",
            "simulated time at which the run ends and counts as completed, even with unfinished flows; at most \
             `max_time`. Statistics of slowdown and completion time then exclude the unfinished flows. If all flows finish \
             earlier, the run ends with the last flow",
        )
        .derived("none")
        .well_known(),
        Setting::new("max_time", Kind::Time, "\"1 s\"", "simulated time at which a run with unfinished flows fails")
            .derived("none")
            .well_known(),
        Setting::new(
            "stall_time",
            Kind::Time,
            "\"1 s\"",
            "the run fails if, for this simulated time, no flow starts and no flow receives a useful packet",
        )
        .default("1 s")
        .well_known(),
    ],
};

pub(super) const WATCH: Section = Section {
    table: "watch",
    document: "watch",
    selector: None,
    is_open: false,
    settings: &[
        Setting::new("interval", Kind::Time, "\"10 us\"", "time between two samples; required to take samples")
            .derived("none"),
        Setting::new("start", Kind::Delay, "\"1 ms\"", "time of the first sample; before the run's `duration`")
            .default("0 us"),
        Setting::new(
            "queues",
            Kind::Either(&[Kind::List(&Kind::Text), Kind::Choice(&["all"])]),
            "[\"s0:h0\"]",
            "egress queues to sample: `\"all\"`, or a list of queues, each named by the switch and the node to which the \
             queue sends, like `[\"s0:h0\", \"edge1:agg0\"]`",
        )
        .derived("none")
        .fields(&["queues.named"]),
        Setting::new(
            "links",
            Kind::Either(&[Kind::List(&Kind::Text), Kind::Choice(&["all"])]),
            "[\"leaf0:spine1\"]",
            "links whose utilisation to sample: `\"all\"`, or a list of directions, each named by the sending and the \
             receiving node, like `[\"leaf0:spine1\", \"h0:leaf0\"]`",
        )
        .derived("none")
        .fields(&["links.named"]),
        Setting::new("flows", Kind::Flag, "true", "whether to sample the payload that each flow has delivered")
            .default("false"),
        Setting::new(
            "pauses",
            Kind::Flag,
            "true",
            "whether to find out which ports are [paused](../concepts/pfc.md) and why, which flows are victims of pauses, \
             and whether pauses form a cycle",
        )
        .default("false"),
        Setting::new(
            "excess",
            Kind::Flag,
            "true",
            "whether to divide the time by which messages on [critical paths](../concepts/training.md#parts-of-the-excess) \
             are slower into queueing, pauses and retransmission, which makes the simulation slower",
        )
        .default("false"),
    ],
};

pub(super) const SWEEP: Section = Section {
    table: "sweep",
    document: "",
    selector: None,
    is_open: true,
    settings: &[Setting::new(
        "mode",
        Kind::Choice(&["grid", "zip"]),
        "\"grid\"",
        "how the lists are combined. `\"grid\"`: every combination of values; the first key varies slowest. `\"zip\"`: the \
         first values of all lists together, then the second values, and so on; all lists must have the same length",
    )
    .default("grid")
    .nowhere()],
};
