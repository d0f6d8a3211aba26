//! Declarations of the settings of faults (`[[fabric.storm]]`, `[[fabric.drop]]`, `[[fabric.dead]]`,
//! `[[fabric.receiver]]`), of watchdogs, and of meshes of probes.

use super::{Section, Setting};
use rnic_transport::settings::Kind;

/// Maximum number of pairs of hosts of a mesh of probes.
pub const MAX_MESH_PAIRS: u64 = 100_000;

const PRIORITY: Kind = Kind::Count { min: 0, max: 7 };
const SIZE: Kind = Kind::Size { min: 1, max: 1_000_000_000_000 };
const NAMES: Kind = Kind::List(&Kind::Text);

pub(super) const STORM: Section = Section {
    table: "fabric.storm",
    document: "fabric.storms[]",
    selector: None,
    is_open: false,
    settings: &[
        Setting::new("host", Kind::Text, "\"h3\"", "the host of the NIC").required().nowhere(),
        Setting::new(
            "start",
            Kind::Delay,
            "\"1 ms\"",
            "time at which the NIC sends the pause frame; if its transmitter is busy, the frame leaves as soon as the \
             transmitter is free",
        )
        .required(),
        Setting::new(
            "duration",
            Kind::Time,
            "\"1 ms\"",
            "time from `start` until the NIC sends XON, which ends the pause",
        )
        .derived("until the end of the run"),
        Setting::new("priority", PRIORITY, "0", "the only priority that the NIC pauses")
            .derived("all priorities in use"),
    ],
};

pub(super) const DROP: Section = Section {
    table: "fabric.drop",
    document: "fabric.faults.drops[]",
    selector: None,
    is_open: false,
    settings: &[
        Setting::new("at", Kind::Text, "\"s0\"", "the switch").required(),
        Setting::new("from", Kind::Text, "\"h0\"", "the neighbour from which the packets arrive").required(),
        Setting::new(
            "every",
            Kind::Count { min: 1, max: 1_000_000_000 },
            "256",
            "the switch drops the last of every so many data packets",
        )
        .required(),
    ],
};

pub(super) const DEAD: Section = Section {
    table: "fabric.dead",
    document: "fabric.faults.dead[]",
    selector: None,
    is_open: false,
    settings: &[
        Setting::new(
            "host",
            Kind::Text,
            "\"h3\"",
            "the dead host. It receives no packet; the scenario should not make it send any",
        )
        .required()
        .nowhere(),
        Setting::new("start", Kind::Delay, "\"1 ms\"", "time from which the MAC table entry is missing")
            .default("0 us"),
        Setting::new(
            "duration",
            Kind::Time,
            "\"1 ms\"",
            "time from `start` until the host is back, and the switch has learned its address again",
        )
        .derived("until the end of the run"),
        Setting::new(
            "unknown_mac",
            Kind::Choice(&["flood", "drop"]),
            "\"flood\"",
            "what the switch does with packets for the host. `\"flood\"`: it sends a copy to every port except the one \
             on which the packet arrived. Each copy takes its own room in the buffer; hosts and switches that receive \
             a copy discard it. `\"drop\"`: it drops the packet",
        )
        .default("flood"),
    ],
};

pub(super) const RECEIVER: Section = Section {
    table: "fabric.receiver",
    document: "fabric.faults.receivers[]",
    selector: None,
    is_open: false,
    settings: &[
        Setting::new(
            "hosts",
            NAMES,
            "[\"h0\"]",
            "list of the hosts; `\"h8-h15\"` stands for all hosts from `h8` to `h15`",
        )
        .required()
        .nowhere(),
        Setting::new("page", SIZE, "\"4 KiB\"", "memory that one entry covers").required(),
        Setting::new(
            "entries",
            Kind::Count { min: 1, max: 1_000_000 },
            "2048",
            "number of entries that the cache holds",
        )
        .required(),
        Setting::new("miss", Kind::Time, "\"1 us\"", "time to fetch an entry").required(),
        Setting::new("memory", SIZE, "\"4 MB\"", "memory of each flow; the packets of the flow write it in a circle")
            .required(),
        Setting::new(
            "buffer",
            SIZE,
            "\"256 KB\"",
            "size of the receive buffer. The NIC drops packets that do not fit; the run warns if more packets may \
             arrive before a pause takes effect",
        )
        .required(),
        Setting::new("xoff", SIZE, "\"128 KB\"", "pause threshold, at most `buffer`").derived("half of `buffer`"),
        Setting::new(
            "xon",
            Kind::Size { min: 0, max: 1_000_000_000_000 },
            "\"64 KB\"",
            "the NIC ends the pause when the receive buffer holds at most this; at most `xoff`",
        )
        .derived("half of `xoff`"),
    ],
};

pub(super) const WATCHDOG: Section = Section {
    table: "fabric.watchdog",
    document: "fabric.watchdogs.switch",
    selector: None,
    is_open: false,
    settings: &[
        Setting::new(
            "detection",
            Kind::Time,
            "\"200 ms\"",
            "the watchdog acts when a queue has been stuck for this time",
        )
        .default("200 ms"),
        Setting::new(
            "restoration",
            Kind::Time,
            "\"200 ms\"",
            "the watchdog restores a port when its peer has sent no pause for this time",
        )
        .default("200 ms"),
        Setting::new(
            "interval",
            Kind::Time,
            "\"200 ms\"",
            "time between two checks of all queues; the default is at most `detection`",
        )
        .default("200 ms"),
        Setting::new(
            "action",
            Kind::Choice(&["drop", "forward", "alert"]),
            "\"drop\"",
            "`\"drop\"`: the switch ignores the pauses, drops the packets of the priority that wait for the port, and \
             drops all further packets of the priority to and from the port. `\"forward\"`: the switch ignores the \
             pauses. `\"alert\"`: the watchdog only reports the storm",
        )
        .default("drop"),
        Setting::new(
            "ports",
            Kind::Choice(&["hosts", "all"]),
            "\"hosts\"",
            "the watched ports: those to `\"hosts\"`, or `\"all\"`",
        )
        .default("hosts"),
    ],
};

pub(super) const NIC_WATCHDOG: Section = Section {
    table: "fabric.nic_watchdog",
    document: "fabric.watchdogs.nic",
    selector: None,
    is_open: false,
    settings: &[Setting::new(
        "detection",
        Kind::Time,
        "\"100 ms\"",
        "time for which the receive pipeline is stopped before the NIC stops pausing, as in the NICs of \"RDMA over \
         Commodity Ethernet at Scale\" (section 4.3)",
    )
    .default("100 ms")],
};

pub(super) const MESH: Section = Section {
    table: "fabric.mesh",
    document: "fabric.meshes[]",
    selector: None,
    is_open: false,
    settings: &[
        Setting::new("name", Kind::Text, "\"mesh\"", "name of the mesh in results").default("mesh"),
        Setting::new(
            "pairs",
            Kind::Count { min: 1, max: MAX_MESH_PAIRS },
            "20",
            "number of random pairs of hosts",
        )
        .fields(&["pairs.random"]),
        Setting::new(
            "from",
            NAMES,
            "[\"h0\"]",
            "instead of `pairs`: list of the hosts that probe, as long as `to`; its first host probes the first host of \
             `to`, and so on",
        )
        .nowhere(),
        Setting::new("to", NAMES, "[\"h1\"]", "instead of `pairs`: list of the hosts that respond; ranges such as `\"h8-h15\"` are possible in both lists").nowhere(),
        Setting::new(
            "interval",
            Kind::Time,
            "\"1 ms\"",
            "time between two probes of a pair. The first probe is at a random time within the first interval",
        )
        .required(),
        Setting::new("start", Kind::Delay, "\"1 ms\"", "time from which pairs probe").default("0 us"),
        Setting::new(
            "payload",
            Kind::Size { min: 1, max: 9_000 },
            "\"512 B\"",
            "payload of a probe and of its response; the headers of a RoCE packet (62 B) come on top",
        )
        .default("512 B"),
        Setting::new(
            "priority",
            PRIORITY,
            "0",
            "priority of probes and responses. Data packets have priority 0. A higher priority is a traffic class of \
             its own; set `scheduler` and `weights` of `[fabric.switch]`",
        )
        .default("0"),
        Setting::new("window", Kind::Time, "\"1 ms\"", "the results have percentiles for each window of this length")
            .default("1 ms"),
        Setting::new(
            "rto",
            Kind::Time,
            "\"1 ms\"",
            "time after which a probe without a response is retransmitted, as by TCP; it doubles with each transmission. The \
             round-trip time counts from the first transmission",
        )
        .derived("never"),
        Setting::new(
            "stack_median",
            Kind::Time,
            "\"100 us\"",
            "median of the delay that the software of both hosts adds to a round trip, as with TCP: a log-normal \
             distribution",
        )
        .derived("no delay")
        .fields(&["stack.median"]),
        Setting::new("stack_p99", Kind::Time, "\"100 us\"", "99th percentile of this delay, at least the median")
            .derived("`stack_median`")
            .fields(&["stack.p99"]),
    ],
};
