//! Declarations of the settings of `[fabric.switch]`, `[fabric.switch.ecn]` and `[fabric.switch.trim]`.

use super::{Effect, Section, Selector, Setting, Variant, names};
use rnic_fabric::config::SCHEDULERS;
use rnic_transport::settings::Kind;

const MAX: u64 = 1_000_000_000_000;
const SIZE: Kind = Kind::Size { min: 1, max: MAX };
const SIZE_OR_ZERO: Kind = Kind::Size { min: 0, max: MAX };
const FACTOR: Kind = Kind::NumberAbove { min: 0.0, max: 1e6 };
const PRIORITIES: Kind = Kind::Count { min: 1, max: 8 };

const INPUT: &[&str] = &["input"];
const SHARED: &[&str] = &["shared"];
const OUTPUT: &[&str] = &["output"];

const QUEUEING: [Variant; 3] = [
    Variant { name: "input", about: "virtual output queues at the inputs" },
    Variant { name: "shared", about: "queues at the outputs, and one buffer for all ports" },
    Variant { name: "output", about: "queues at the outputs, and a buffer for each output and priority" },
];
const QUEUEING_NAMES: [&str; QUEUEING.len()] = names(&QUEUEING);

const SCHEDULER_NAMES: [&str; SCHEDULERS.len()] = {
    let mut names = [""; SCHEDULERS.len()];
    let mut index = 0;
    while index < names.len() {
        names[index] = SCHEDULERS[index].name;
        index += 1;
    }
    names
};

pub(super) const SWITCH: Section = Section {
    table: "fabric.switch",
    document: "fabric.switch",
    selector: Some(Selector { key: "queueing", variants: &QUEUEING }),
    is_open: false,
    settings: &[
        Setting::new(
            "queueing",
            Kind::Choice(&QUEUEING_NAMES),
            "\"input\"",
            "organisation of the buffer. `\"input\"`: virtual output queues at the inputs. `\"shared\"`: queues at the \
             outputs, and one buffer for all ports. `\"output\"`: queues at the outputs, and a buffer for each output \
             and priority",
        )
        .default("input")
        .nowhere()
        .well_known(),
        Setting::new(
            "buffer",
            SIZE,
            "\"240 KB\"",
            "bytes of buffer per input port and priority; at least one full packet",
        )
        .derived("twice the bandwidth-delay product of the longest path, at least 16 full frames")
        .only(INPUT)
        .well_known(),
        Setting::new(
            "buffer",
            SIZE,
            "\"12 MB\"",
            "size of the buffer of the whole switch, including the headroom of all ports and priorities",
        )
        .derived("12 MB")
        .only(SHARED),
        Setting::new(
            "buffer",
            SIZE,
            "\"240 KB\"",
            "bytes of buffer for each output and priority; at least one full packet",
        )
        .derived("twice the bandwidth-delay product of the longest path, at least 16 full frames")
        .only(OUTPUT),
        Setting::new(
            "scheduler",
            Kind::Choice(&SCHEDULER_NAMES),
            "\"strict\"",
            "which priority an output serves next. `\"strict\"`: the highest priority with a packet. `\"round-robin\"`: \
             one packet of each priority in turn. `\"drr\"`: deficit round robin, bytes in proportion to the `weights`. \
             `\"wrr\"`: weighted round robin, packets in proportion to the `weights`",
        )
        .derived("`\"strict\"`; with `weights` `\"drr\"`")
        .nowhere(),
        Setting::new(
            "weights",
            Kind::List(&Kind::Count { min: 0, max: 1_000 }),
            "[1, 4]",
            "for `\"drr\"` and `\"wrr\"`, and only for these: one integer for each priority in use, beginning with the \
             lowest priority. A priority of weight 0 goes strictly before all others",
        )
        .fields(&["scheduler.spec.deficit-round-robin", "scheduler.spec.weighted-round-robin"]),
        Setting::new(
            "ecn",
            Kind::Either(&[Kind::Flag, Kind::Table("fabric.switch.ecn")]),
            "true",
            "CE marking. `false`: the switch marks no packets. `true`: it marks by the default thresholds of the run's \
             congestion control (`cc`), if this reacts to marks. A table, `[fabric.switch.ecn]`, sets some of its keys. \
             With both `kmin` and `kmax` the switch marks packets in every run, whatever its transport and `cc`",
        )
        .default("true")
        .nowhere()
        .well_known(),
        Setting::new(
            "xoff",
            SIZE,
            "\"220 KB\"",
            "PFC pause threshold: the switch pauses its peer when the occupancy of an input buffer is above this value; \
             at most `buffer`",
        )
        .derived("`buffer` minus `headroom`")
        .only(INPUT)
        .effect(Effect::WithPfc)
        .well_known(),
        Setting::new(
            "xoff",
            SIZE,
            "\"220 KB\"",
            "static pause threshold for the bytes that a port and priority holds, instead of the dynamic threshold of \
             `beta`",
        )
        .only(SHARED)
        .effect(Effect::WithPfc),
        Setting::new(
            "headroom",
            SIZE_OR_ZERO,
            "\"20 KB\"",
            "buffer above `xoff` for packets that arrive before the pause takes effect. The switch drops a packet for \
             which the headroom has no space",
        )
        .derived("the minimum that prevents drops, but at least `buffer` minus `xoff`")
        .only(INPUT)
        .effect(Effect::WithPfc)
        .well_known(),
        Setting::new(
            "headroom",
            SIZE_OR_ZERO,
            "\"20 KB\"",
            "bytes of buffer that are reserved for each port and priority, for packets that arrive before a pause takes \
             effect",
        )
        .derived("the minimum for a lossless fabric")
        .only(SHARED)
        .effect(Effect::WithPfc),
        Setting::new(
            "xon",
            SIZE,
            "\"200 KB\"",
            "PFC resume threshold: the switch resumes its peer when the occupancy of the input buffer has fallen to this \
             value; at most `xoff`",
        )
        .derived("`xoff`")
        .only(INPUT)
        .effect(Effect::WithPfc)
        .well_known(),
        Setting::new(
            "arbiter",
            Kind::Choice(&["round-robin", "oldest-first"]),
            "\"round-robin\"",
            "which input sends the next packet to an output, among the inputs with packets of the priority that the \
             scheduler has chosen. `\"round-robin\"`: the inputs take turns. `\"oldest-first\"`: the input whose packet \
             arrived first",
        )
        .default("round-robin")
        .only(INPUT)
        .nowhere()
        .well_known(),
        Setting::new(
            "arbiter_quantum",
            Kind::Either(&[Kind::Count { min: 1, max: 1_000_000 }, Kind::Size { min: 1, max: 1_000_000_000 }]),
            "\"9 KB\"",
            "length of an input's turn: a number of packets, or a size such as `\"9 KB\"` (the turn ends with the packet \
             that reaches this number of bytes). Only with `arbiter = \"round-robin\"`",
        )
        .derived("`\"64 KB\"`")
        .only(INPUT)
        .fields(&["queueing.arbiter.round-robin.packets", "queueing.arbiter.round-robin.bytes"])
        .well_known(),
        Setting::new(
            "drop_until_free",
            SIZE_OR_ZERO,
            "\"60 KB\"",
            "hysteresis of a full buffer: an input port that has dropped a packet drops every packet of this priority \
             until this many bytes of its buffer are free; at most `buffer`",
        )
        .default("0 B")
        .only(INPUT)
        .fields(&["queueing.drop_until_free"]),
        Setting::new(
            "beta",
            FACTOR,
            "8",
            "dynamic pause threshold: the switch pauses a port and priority that holds more than `beta` times the free \
             bytes of the pool, divided by `priorities`",
        )
        .derived("8 if there is no `xoff`")
        .only(SHARED)
        .fields(&["queueing.beta"])
        .effect(Effect::WithPfc),
        Setting::new(
            "xon_offset",
            SIZE_OR_ZERO,
            "\"3 KB\"",
            "a paused peer resumes when the bytes that its port and priority holds in the buffer have fallen this far \
             below the pause threshold",
        )
        .derived("two full frames")
        .only(SHARED)
        .fields(&["queueing.xon_offset"])
        .effect(Effect::WithPfc),
        Setting::new(
            "egress_alpha",
            FACTOR,
            "8",
            "in priorities without PFC: maximum length of a queue, as a multiple of the free bytes of the pool",
        )
        .derived("none")
        .only(SHARED)
        .fields(&["queueing.egress_alpha"])
        .effect(Effect::WithoutPfc),
        Setting::new(
            "priorities",
            PRIORITIES,
            "2",
            "number of priorities for which headroom is reserved, and by which the threshold of `beta` is divided. With \
             `control_priority` the highest priority is for control packets; otherwise control packets have the priority \
             of data",
        )
        .derived("the priorities in use: 1, or 2 with `control_priority`")
        .only(SHARED)
        .fields(&["queueing.priorities"]),
        Setting::new(
            "priorities",
            PRIORITIES,
            "2",
            "number of priorities of each output, at least as many as the run needs. With `control_priority` the highest \
             priority is for control packets; otherwise control packets have the priority of data",
        )
        .derived("the number of `buffers`; without `buffers`, 2 with `trim` or `control_priority`, else 1")
        .only(OUTPUT)
        .fields(&["queueing.priorities"]),
        Setting::new(
            "buffers",
            Kind::List(&Kind::Size { min: 64, max: MAX }),
            "[\"100 KB\", \"20 KB\"]",
            "instead of `buffer`: one size for each priority, beginning with the lowest: `[\"8704 B\", \"17408 B\"]`. Each \
             size is at least one full packet; with `trim` the size of the highest priority is at least one control \
             packet",
        )
        .derived("`buffer` for each priority")
        .only(OUTPUT)
        .nowhere(),
        Setting::new(
            "trim",
            Kind::Either(&[Kind::Flag, Kind::Table("fabric.switch.trim")]),
            "true",
            "treatment of a data packet that does not fit into the buffer. `false`: the switch drops the packet. `true`: \
             the switch removes the payload and forwards the [header](../concepts/fabric.md#trimming). A table, \
             `[fabric.switch.trim]`, sets some of its keys",
        )
        .default("false")
        .only(OUTPUT)
        .nowhere()
        .well_known(),
        Setting::new(
            "count_in_service",
            Kind::Flag,
            "true",
            "whether the packet that an output is transmitting still counts in the queue of its priority when the switch \
             decides whether another packet fits, as in htsim. ECN, `queues` and results never count this packet",
        )
        .default("false")
        .only(OUTPUT)
        .fields(&["queueing.count_in_service"]),
    ],
};

pub(super) const ECN: Section = Section {
    table: "fabric.switch.ecn",
    document: "fabric.switch.ecn",
    selector: None,
    is_open: false,
    settings: &[
        Setting::new("kmin", SIZE_OR_ZERO, "\"5 KB\"", "the switch marks no packet while the egress queue is at most this long")
            .derived("the threshold of the run's `cc`; required if the `cc` has none"),
        Setting::new(
            "kmax",
            SIZE_OR_ZERO,
            "\"50 KB\"",
            "the switch marks every packet while the egress queue is longer than this",
        )
        .derived("the threshold of the run's `cc`; required if the `cc` has none"),
        Setting::new(
            "pmax",
            Kind::Number { min: 0.0, max: 1.0 },
            "0.01",
            "probability of a mark when the queue is `kmax`",
        )
        .derived("the probability of the run's `cc`, else 1"),
        Setting::new(
            "mark_on",
            Kind::Choice(&["dequeue", "enqueue"]),
            "\"dequeue\"",
            "which queue length decides about the mark of a packet. `\"enqueue\"`: the length of the queue that the packet \
             joins. `\"dequeue\"`: the length of the queue that the packet leaves behind",
        )
        .derived("`\"enqueue\"`; with `\"shared\"` and `\"output\"` `\"dequeue\"`"),
    ],
};

pub(super) const TRIM: Section = Section {
    table: "fabric.switch.trim",
    document: "fabric.switch.queueing.trim",
    selector: None,
    is_open: false,
    settings: &[
        Setting::new("to", Kind::Size { min: 64, max: 9_000 }, "\"64 B\"", "length of a trimmed packet").default("64 B"),
        Setting::new(
            "headers",
            Kind::Choice(&["highest", "above", "below"]),
            "\"highest\"",
            "priority of trimmed packets: the `\"highest\"` priority, the priority `\"above\"` the untrimmed packet's, or \
             the priority `\"below\"` it (the lowest priority has none below; its headers stay in it)",
        )
        .default("highest"),
        Setting::new(
            "in_a_row",
            Kind::Count { min: 0, max: 1_000_000 },
            "10",
            "with `scheduler = \"strict\"`: maximum number of packets of the highest priority that an output sends in a \
             row while other packets wait, as NDP's switches do; 0 for no maximum",
        )
        .derived("10; 0 with `headers = \"above\"` or `\"below\"`")
        .fields(&["/fabric.switch.scheduler.spec.strict.max_in_a_row"]),
        Setting::new(
            "return_to_sender",
            Kind::Flag,
            "true",
            "whether a trimmed header that does not fit into the buffer either returns to its sender, instead of being \
             dropped; only for transports whose packets name their sender",
        )
        .default("false"),
    ],
};
