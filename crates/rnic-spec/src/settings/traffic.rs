//! Declarations of the settings of `[traffic]`.

use super::{Section, Selector, Setting, Variant, names};
use crate::collective::{Algorithm, CollectiveOperation, Grouping, Placement};
use crate::training::{Model, PipelineSchedule};
use rnic_transport::settings::Kind;

/// The names of all variants of an enum that has `ALL` and `name`.
macro_rules! names_of {
    ($choice:ident) => {{
        let mut names = [""; $choice::ALL.len()];
        let mut index = 0;
        while index < names.len() {
            names[index] = $choice::ALL[index].name();
            index += 1;
        }
        names
    }};
}

/// Maximum number of flows of one traffic source, so that the flow ids of several sources fit into 32 bits.
pub const MAX_FLOWS: u64 = 1_000_000_000;
/// Maximum number of pairs of hosts of the pattern `pairs`.
pub const MAX_PAIRS: u32 = 1_000_000;
/// Value of an incast's `interval` for a closed loop: the next request starts when the previous request is complete.
pub const COMPLETION: &str = "completion";
/// Values of an incast's `receiver` with which the receiver changes from request to request.
pub const ROTATIONS: [&str; 2] = ["round-robin", "random"];

const COUNT: Kind = Kind::Count { min: 1, max: u32::MAX as u64 };
const FRACTION: Kind = Kind::Number { min: 0.0, max: 1.0 };
const FLOWS_OR_NONE: Kind = Kind::Count { min: 0, max: MAX_FLOWS };

const PATTERNS: [Variant; 11] = [
    Variant { name: "poisson", about: "every host starts flows at random times towards random hosts" },
    Variant { name: "incast", about: "one request striped over many senders" },
    Variant { name: "permutation", about: "every host sends to one other and receives from one other" },
    Variant { name: "all-to-all", about: "every host sends to every other host, at the same time or in turn" },
    Variant { name: "pairs", about: "random pairs send message after message" },
    Variant { name: "list", about: "the flows of a file" },
    Variant { name: "collective", about: "ranks of a distributed program repeat an operation such as an all-reduce" },
    Variant { name: "training", about: "ranks carry out training steps of a large language model" },
    Variant { name: "inference", about: "instances of a large language model answer requests" },
    Variant { name: "trace", about: "ranks of a distributed program carry out the tasks of a file" },
    Variant { name: "outside", about: "another program submits the flows while the simulation runs" },
];
const OPERATIONS: [&str; 5] = names_of!(CollectiveOperation);
const ALGORITHMS: [&str; 6] = names_of!(Algorithm);
const GROUPINGS: [&str; 2] = names_of!(Grouping);
const PLACEMENTS: [&str; 4] = names_of!(Placement);
const SCHEDULES: [&str; 2] = names_of!(PipelineSchedule);
const MODELS: [&str; Model::BUILT_IN.len()] = {
    let mut names = [""; Model::BUILT_IN.len()];
    let mut index = 0;
    while index < names.len() {
        names[index] = Model::BUILT_IN[index].0;
        index += 1;
    }
    names
};
const SMALL: Kind = Kind::Count { min: 1, max: 10_000 };
const WIDE: Kind = Kind::Count { min: 1, max: 1 << 24 };
const PATTERN_NAMES: [&str; PATTERNS.len()] = names(&PATTERNS);

pub(super) const TRAFFIC: Section = Section {
    table: "traffic",
    document: "traffic[]",
    selector: Some(Selector { key: "pattern", variants: &PATTERNS }),
    is_open: false,
    settings: &[
        Setting::new("pattern", Kind::Choice(&PATTERN_NAMES), "\"poisson\"", "how flows are generated")
            .required()
            .nowhere()
            .well_known(),
        Setting::new(
            "name",
            Kind::Text,
            "\"background\"",
            "name of the traffic source in the results; unique in the scenario",
        )
        .derived("name of the pattern"),
        Setting::new(
            "warmup",
            FLOWS_OR_NONE,
            "2000",
            "number of the source's first flows that do not count in the statistics; with `cooldown` fewer than all \
             flows of the source",
        )
        .default("0")
        .well_known(),
        Setting::new(
            "cooldown",
            FLOWS_OR_NONE,
            "2000",
            "number of the source's last flows that do not count in the statistics",
        )
        .default("0"),
        Setting::new("start", Kind::Delay, "\"0 us\"", "time at which the traffic source starts its first flows")
            .default("0 us"),
        Setting::new(
            "priority",
            Kind::Count { min: 0, max: 7 },
            "1",
            "priority of all packets of the source, and of its [transport](#several-transports-in-one-run)",
        )
        .default("0"),
        Setting::new(
            "load",
            Kind::NumberAbove { min: 0.0, max: 1.0 },
            "0.7",
            "average fraction of each host's link that data frames take (plain RoCEv2 headers and frame gap included)",
        )
        .required()
        .only(&["poisson"])
        .fields(&["pattern.load"])
        .well_known(),
        Setting::new("pairs", Kind::Count { min: 1, max: MAX_PAIRS as u64 }, "20", "number of pairs")
            .required()
            .only(&["pairs"])
            .fields(&["pattern.pairs"]),
        Setting::new("senders", COUNT, "30", "number of senders of a request, fewer than the hosts")
            .required()
            .only(&["incast"])
            .fields(&["pattern.senders", "pattern.incast.senders"])
            .well_known(),
        Setting::new(
            "total",
            Kind::Size { min: 1, max: 100_000_000_000_000 },
            "\"150 MB\"",
            "bytes of one request over all senders, at least one for each flow",
        )
        .required()
        .only(&["incast"])
        .fields(&["pattern.total", "pattern.incast.total"]),
        Setting::new(
            "sizes",
            Kind::Text,
            "\"irn-heavy-tailed\"",
            "sizes of the flows or messages: the name of a distribution from `rnic list workloads`, one size like \
             `\"fixed 1 MB\"`, a range like `\"uniform 500 KB - 5 MB\"`, or the path of a [CDF file](formats.md)",
        )
        .required()
        .only(&["poisson", "permutation", "all-to-all", "pairs"])
        .nowhere()
        .well_known(),
        Setting::new("flows", Kind::Count { min: 1, max: MAX_FLOWS }, "20000", "total number of flows")
            .required()
            .only(&["poisson"])
            .fields(&["pattern.flows"])
            .well_known(),
        Setting::new(
            "locality",
            FRACTION,
            "0.5",
            "fraction of the flows whose receiver is attached to the switch of their sender \
             ([details](../concepts/traffic.md#locality))",
        )
        .derived("receivers are uniformly distributed over all other hosts; 0 with `pod_locality`")
        .only(&["poisson"])
        .fields(&["pattern.locality.leaf"]),
        Setting::new(
            "pod_locality",
            FRACTION,
            "0.3",
            "fraction of the flows whose receiver is in the pod of their sender, attached to another switch, in a \
             `fat-tree` or `leaf-spine-core`; with `locality` at most 1. All other flows leave the pod",
        )
        .derived("all flows that leave their switch are uniformly distributed")
        .only(&["poisson"])
        .fields(&["pattern.locality.pod"]),
        Setting::new(
            "arrivals",
            Kind::Choice(&["poisson", "log-normal", "on-off"]),
            "\"log-normal\"",
            "[process](../concepts/traffic.md#arrivals) in which a host starts its flows",
        )
        .default("poisson")
        .only(&["poisson"])
        .fields(&["pattern.arrivals.process"]),
        Setting::new(
            "cv",
            Kind::NumberAbove { min: 0.0, max: 100.0 },
            "2.0",
            "with `arrivals` other than `\"poisson\"`, required: coefficient of variation of the times between the \
             flows of a host; at least 1.1 for `\"on-off\"`",
        )
        .only(&["poisson"])
        .fields(&["pattern.arrivals.cv"]),
        Setting::new(
            "on_share",
            Kind::Number { min: 0.01, max: 0.99 },
            "0.2",
            "with `arrivals = \"on-off\"`: fraction of the time in which a host is on",
        )
        .default("0.5")
        .only(&["poisson"])
        .fields(&["pattern.arrivals.on_share"]),
        Setting::new("messages", COUNT, "100", "number of messages of each pair")
            .derived("no end")
            .only(&["pairs"])
            .fields(&["pattern.messages"]),
        Setting::new("repeats", COUNT, "10", "number of requests")
            .derived("1; in a [closed loop](#closed-loops) no end")
            .only(&["incast"])
            .fields(&["pattern.repeats"]),
        Setting::new("repeats", COUNT, "10", "number of repetitions")
            .default("1")
            .only(&["permutation", "all-to-all"])
            .fields(&["pattern.repeats"]),
        Setting::new("repeats", COUNT, "10", "number of operations of each group, one after the other")
            .default("1")
            .only(&["collective"])
            .fields(&["pattern.repeats"]),
        Setting::new(
            "receiver",
            Kind::Either(&[Kind::Count { min: 0, max: u32::MAX as u64 }, Kind::Choice(&ROTATIONS)]),
            "0",
            "number of the receiving host. `\"round-robin\"`: request n goes to host n modulo the number of hosts. \
             `\"random\"`: each request draws its receiver",
        )
        .default("0")
        .only(&["incast"])
        .fields(&["pattern.receiver", "pattern.incast.receiver"]),
        Setting::new("connections", COUNT, "2", "number of flows of each sender in a request")
            .default("1")
            .only(&["incast"])
            .fields(&["pattern.connections", "pattern.incast.connections"]),
        Setting::new(
            "interval",
            Kind::Either(&[Kind::Time, Kind::Choice(&[COMPLETION])]),
            "\"1 ms\"",
            "time between the starts of two requests; `\"completion\"` makes a [closed loop](#closed-loops)",
        )
        .derived("four times the time that the receiver's link needs for one request")
        .only(&["incast"])
        .fields(&["pattern.interval"]),
        Setting::new("interval", Kind::Time, "\"1 ms\"", "time between the starts of two repetitions")
            .default("1 ms")
            .only(&["permutation", "all-to-all"])
            .fields(&["pattern.interval"]),
        Setting::new(
            "outstanding",
            COUNT,
            "8",
            "number of messages that a host has in progress at a time, fewer than the hosts; makes a [closed \
             loop](#closed-loops), without `interval`",
        )
        .derived("all flows at the same time")
        .only(&["all-to-all"])
        .fields(&["pattern.outstanding"]),
        Setting::new("operation", Kind::Choice(&OPERATIONS), "\"all-reduce\"", "the [collective operation](../concepts/collectives.md)")
            .required()
            .only(&["collective"])
            .fields(&["pattern.operation"]),
        Setting::new("algorithm", Kind::Choice(&ALGORITHMS), "\"ring\"", "how the ranks carry out the operation")
            .derived("`\"direct\"` for `all-to-all`, else `\"ring\"`")
            .only(&["collective", "training", "inference", "trace"])
            .fields(&["pattern.algorithm"]),
        Setting::new(
            "size",
            Kind::Size { min: 1, max: 100_000_000_000_000 },
            "\"1 GB\"",
            "bytes of the operation as nccl-tests counts them: the buffer of one rank, or the gathered buffer of an \
             all-gather; at least 1 B for each rank of a group",
        )
        .derived("required without `matrix`")
        .only(&["collective"])
        .fields(&["pattern.size"]),
        Setting::new(
            "ranks",
            Kind::Count { min: 2, max: u32::MAX as u64 },
            "64",
            "number of ranks (in all groups), at most the number of hosts; each rank has a host of its own",
        )
        .derived("number of hosts")
        .only(&["collective", "training", "inference"])
        .fields(&["pattern.ranks", "pattern.deployment.ranks"]),
        Setting::new("group", Kind::Count { min: 2, max: u32::MAX as u64 }, "8", "number of ranks of a group; divides `ranks`")
            .derived("`ranks`: one group")
            .only(&["collective"])
            .fields(&["pattern.group"]),
        Setting::new(
            "grouping",
            Kind::Choice(&GROUPINGS),
            "\"strided\"",
            "which ranks form a group: `\"consecutive\"` ranks, or with n groups every n-th rank (`\"strided\"`)",
        )
        .default("consecutive")
        .only(&["collective"])
        .fields(&["pattern.grouping"]),
        Setting::new(
            "placement",
            Kind::Choice(&PLACEMENTS),
            "\"random\"",
            "host of each rank: rank n on host n (`\"linear\"`), servers at random places (`\"random\"`), or the ranks with \
             the same number in all servers on neighbouring hosts (`\"rail\"`), or as `placement_file` says (`\"file\"`)",
        )
        .default("linear")
        .only(&["collective", "training", "inference", "trace"])
        .fields(&["pattern.placement", "pattern.deployment.placement"]),
        Setting::new(
            "placement_file",
            Kind::Text,
            "\"ranks.csv\"",
            "with `placement = \"file\"`: path of a CSV file with the columns `rank` and `host`, a row for each rank",
        )
        .derived("required with `placement = \"file\"`")
        .only(&["collective", "training", "inference", "trace"])
        .fields(&["pattern.placed", "pattern.deployment.placed"]),
        Setting::new(
            "matrix",
            Kind::Text,
            "\"matrix.csv\"",
            "for `all-to-all`: path of a CSV file with the bytes from each rank of a group to each rank, a row for each \
             sender; replaces `size`",
        )
        .derived("all messages have the same size")
        .only(&["collective"])
        .fields(&["pattern.matrix"]),
        Setting::new(
            "skew",
            Kind::NumberAbove { min: 0.0, max: 10.0 },
            "1.0",
            "for `all-to-all`: exponent of a Zipf distribution over the ranks of a group, in a random order, by which some \
             ranks receive more bytes than others, as popular experts of a model do",
        )
        .derived("all ranks receive the same number of bytes")
        .only(&["collective"])
        .fields(&["pattern.skew"]),
        Setting::new(
            "channels",
            Kind::Count { min: 1, max: 64 },
            "4",
            "number of independent parts of an operation along a ring, each with its own connections",
        )
        .default("1")
        .only(&["collective", "training", "inference", "trace"])
        .fields(&["pattern.channels"]),
        Setting::new(
            "chunk",
            Kind::Size { min: 1, max: 1_000_000_000_000 },
            "\"128 KiB\"",
            "maximum bytes of a message of `ring` and `tree`, which a rank forwards as soon as the message has arrived; the \
             default is NCCL's (4 MiB of buffer in 8 slots)",
        )
        .default("512 KiB")
        .only(&["collective", "training", "inference", "trace"])
        .fields(&["pattern.chunk"]),
        Setting::new(
            "outstanding",
            COUNT,
            "16",
            "number of messages that a rank of an `all-to-all`, or the root of a `broadcast`, sends at a time",
        )
        .default("8")
        .only(&["collective", "training", "trace"])
        .fields(&["pattern.outstanding"]),
        Setting::new(
            "accelerators",
            COUNT,
            "8",
            "number of ranks of a server, which communicate in a domain of the server and not over the fabric; divides `ranks`",
        )
        .default("1")
        .only(&["collective", "training", "inference", "trace"])
        .fields(&["pattern.server.accelerators", "pattern.deployment.server.accelerators"]),
        Setting::new(
            "server_file",
            Kind::Text,
            "\"topo.xml\"",
            "path of a [file that describes the server](formats.md#servers), of NCCL or ASTRA-sim: number of accelerators, \
             rate of the domain, and the NIC of each accelerator",
        )
        .derived("none")
        .only(&["collective", "training", "inference", "trace"])
        .nowhere(),
        Setting::new("domain_rate", Kind::Rate, "\"3.6 Tbps\"", "rate of each rank's port in the domain of its server")
            .default("3.2 Tbps")
            .only(&["collective", "training", "inference", "trace"])
            .fields(&["pattern.server.rate", "pattern.deployment.server.rate"]),
        Setting::new(
            "domain_latency",
            Kind::Time,
            "\"1 us\"",
            "latency of a message in the domain of a server; rate and latency are by default those with which ASTRA-sim \
             models a server with 8 H100",
        )
        .default("936.25 ns")
        .only(&["collective", "training", "inference", "trace"])
        .fields(&["pattern.server.latency", "pattern.deployment.server.latency"]),
        Setting::new("straggler", Kind::Count { min: 0, max: u32::MAX as u64 }, "3", "number of a rank that computes longer than the others")
            .derived("none")
            .only(&["collective", "trace"])
            .fields(&["pattern.straggler.rank"]),
        Setting::new("straggler_delay", Kind::Time, "\"50 us\"", "additional time for which the straggler computes before each operation")
            .derived("required with `straggler`")
            .only(&["collective", "trace"])
            .fields(&["pattern.straggler.delay"]),
        Setting::new(
            "timeline",
            Kind::Count { min: 0, max: u32::MAX as u64 },
            "0",
            "number of a step: `timeline.csv` and the report have its tasks of each rank, at most 200,000",
        )
        .derived("none")
        .only(&["training", "trace"])
        .fields(&["pattern.deployment.timeline"]),
        Setting::new("compute", Kind::Delay, "\"100 us\"", "time for which each rank computes before each operation")
            .default("0 us")
            .only(&["collective"])
            .fields(&["pattern.compute"]),
        Setting::new(
            "reaction",
            Kind::Time,
            "\"1 us\"",
            "time between the arrival of a message (or of its acknowledgement) and the reaction of the rank; the default is \
             the overhead of the LogGOPS parameters with which ATLAHS models clusters for AI; a time below that of a frame \
             on the shortest link makes the simulation slower",
        )
        .default("200 ns")
        .only(&["collective", "training", "inference", "trace"])
        .fields(&["pattern.reaction", "pattern.deployment.reaction"]),
        Setting::new(
            "reaction",
            Kind::Time,
            "\"1 us\"",
            "with the triggers of a [connection matrix](formats.md#htsim): time between the end of a flow and the start of the \
             flows that wait for it; htsim needs no time, and a time below that of a frame on the shortest link makes the \
             simulation slower",
        )
        .default("200 ns")
        .only(&["list"])
        .fields(&["pattern.reaction"]),
        Setting::new(
            "model",
            Kind::Choice(&MODELS),
            "\"llama2-7b\"",
            "a [built-in model](../concepts/training.md#models), of which the following keys replace numbers",
        )
        .derived("none: `layers`, `hidden`, `heads`, `feed_forward`, `vocabulary`, and for `training` `sequence` are required")
        .only(&["training", "inference"])
        .nowhere(),
        Setting::new("layers", SMALL, "40", "number of layers")
            .derived("the number of the `model`; required without one")
            .only(&["training", "inference"])
            .fields(&["pattern.model.layers"]),
        Setting::new("hidden", WIDE, "5120", "number of values that represent a token")
            .derived("the number of the `model`; required without one")
            .only(&["training", "inference"])
            .fields(&["pattern.model.hidden"]),
        Setting::new("heads", WIDE, "40", "number of attention heads, a divisor of `hidden`")
            .derived("the number of the `model`; required without one")
            .only(&["training", "inference"])
            .fields(&["pattern.model.heads"]),
        Setting::new("kv_heads", WIDE, "8", "number of heads of keys and values, a divisor of `heads`")
            .derived("the number of the `model`; `heads` without one")
            .only(&["training", "inference"])
            .fields(&["pattern.model.kv_heads"]),
        Setting::new("feed_forward", WIDE, "20480", "number of values in the inner layer of the feed-forward network")
            .derived("the number of the `model`; required without one")
            .only(&["training", "inference"])
            .fields(&["pattern.model.feed_forward"]),
        Setting::new("sequence", WIDE, "2048", "number of tokens of a sequence")
            .derived("the number of the `model`; required without one")
            .only(&["training"])
            .fields(&["pattern.model.sequence"]),
        Setting::new("vocabulary", WIDE, "50257", "number of different tokens")
            .derived("the number of the `model`; required without one")
            .only(&["training", "inference"])
            .fields(&["pattern.model.vocabulary"]),
        Setting::new("gated", Kind::Flag, "true", "whether the feed-forward network has three matrices instead of two")
            .derived("the number of the `model`; `false` without one")
            .only(&["training", "inference"])
            .fields(&["pattern.model.gated"]),
        Setting::new("experts", WIDE, "8", "number of experts of each layer")
            .derived("the number of the `model`; 1 without one")
            .only(&["training", "inference"])
            .fields(&["pattern.model.experts"]),
        Setting::new("active_experts", WIDE, "2", "number of experts to which each token goes, at most `experts`")
            .derived("the number of the `model`; 1 without one")
            .only(&["training", "inference"])
            .fields(&["pattern.model.active_experts"]),
        Setting::new("parameter_bytes", Kind::Count { min: 1, max: 16 }, "2", "bytes of a parameter and of an activation")
            .default("2")
            .only(&["training", "inference"])
            .fields(&["pattern.model.parameter_bytes"]),
        Setting::new("gradient_bytes", Kind::Count { min: 1, max: 16 }, "2", "bytes of a gradient when it is reduced")
            .default("4")
            .only(&["training"])
            .fields(&["pattern.model.gradient_bytes"]),
        Setting::new("tensor", COUNT, "8", "number of ranks among which each layer is divided")
            .default("1")
            .only(&["training", "inference"])
            .fields(&["pattern.tensor"]),
        Setting::new("pipeline", COUNT, "4", "number of stages among which the layers are divided; there are `ranks` / (`tensor` x `context` x `pipeline`) data ranks")
            .default("1")
            .only(&["training"])
            .fields(&["pattern.pipeline"]),
        Setting::new("context", COUNT, "2", "number of ranks among which the tokens of a sequence are divided, in a ring")
            .default("1")
            .only(&["training"])
            .fields(&["pattern.context"]),
        Setting::new("expert", COUNT, "8", "number of data ranks among which the experts of a layer are divided")
            .default("1")
            .only(&["training"])
            .fields(&["pattern.expert"]),
        Setting::new("micro_batch", SMALL, "1", "number of sequences of a micro-batch")
            .default("1")
            .only(&["training"])
            .fields(&["pattern.micro_batch"]),
        Setting::new("micro_batches", SMALL, "16", "number of micro-batches of each data rank in a step")
            .default("8")
            .only(&["training"])
            .fields(&["pattern.micro_batches"]),
        Setting::new("schedule", Kind::Choice(&SCHEDULES), "\"gpipe\"", "order of the passes of a stage: forward and backward in turn, or all forward passes first")
            .default("1f1b")
            .only(&["training"])
            .fields(&["pattern.schedule"]),
        Setting::new("overlap", Kind::Flag, "false", "whether gradients are reduced during the backward pass of earlier layers")
            .default("true")
            .only(&["training"])
            .fields(&["pattern.overlap"]),
        Setting::new("bucket", Kind::Size { min: 1, max: 1_000_000_000_000 }, "\"100 MB\"", "minimum bytes of gradients of one operation; the default is that of PyTorch")
            .default("25 MiB")
            .only(&["training"])
            .fields(&["pattern.bucket"]),
        Setting::new("sharded", Kind::Flag, "true", "whether the data ranks divide the state of the optimiser: a reduce-scatter of gradients and an all-gather of parameters instead of an all-reduce")
            .default("false")
            .only(&["training"])
            .fields(&["pattern.sharded"]),
        Setting::new("accelerator_tflops", Kind::NumberAbove { min: 0.0, max: 1_000_000.0 }, "312.0", "peak rate of an accelerator in 10^12 operations per second; the default is that of an H100 with 16-bit numbers")
            .default("989.4")
            .only(&["training", "inference"])
            .fields(&["pattern.accelerator_tflops"]),
        Setting::new("efficiency", Kind::NumberAbove { min: 0.0, max: 1.0 }, "0.5", "fraction of the peak rate that computations reach; the default is that of the training of Llama 3")
            .default("0.4")
            .only(&["training", "inference"])
            .fields(&["pattern.efficiency"]),
        Setting::new("steps", COUNT, "3", "number of steps")
            .default("1")
            .only(&["training"])
            .fields(&["pattern.steps"]),
        Setting::new("warmup_steps", Kind::Count { min: 0, max: u32::MAX as u64 }, "1", "number of first steps whose flows do not count in the statistics")
            .default("0")
            .only(&["training"])
            .fields(&["pattern.warmup_steps"]),
        Setting::new(
            "prefill",
            Kind::Count { min: 0, max: u32::MAX as u64 },
            "1",
            "number of instances (of `tensor` ranks) that only process prompts; all others only generate tokens, and \
             receive keys and values over the fabric. With 0, every instance does both",
        )
        .default("0")
        .only(&["inference"])
        .fields(&["pattern.prefill"]),
        Setting::new("requests", Kind::Count { min: 1, max: 10_000_000 }, "100", "number of requests")
            .required()
            .only(&["inference"])
            .fields(&["pattern.requests"]),
        Setting::new(
            "request_rate",
            Kind::NumberAbove { min: 0.0, max: 1e9 },
            "20.0",
            "mean number of requests per second, which arrive as a Poisson process",
        )
        .derived("all requests arrive at the start")
        .only(&["inference"])
        .fields(&["pattern.rate"]),
        Setting::new("prompt", WIDE, "1024", "number of tokens of the prompt of a request")
            .required()
            .only(&["inference"])
            .fields(&["pattern.prompt"]),
        Setting::new("output", Kind::Count { min: 2, max: 1 << 24 }, "128", "number of tokens that a request generates")
            .required()
            .only(&["inference"])
            .fields(&["pattern.output"]),
        Setting::new(
            "batch",
            Kind::Count { min: 1, max: 1 << 20 },
            "64",
            "maximum number of requests for which an instance generates tokens at the same time; the default is vLLM's \
             (`max_num_seqs`)",
        )
        .default("256")
        .only(&["inference"])
        .fields(&["pattern.batch"]),
        Setting::new(
            "kv_parts",
            Kind::Count { min: 1, max: 256 },
            "8",
            "number of messages in which a rank sends the keys and values of a prompt, each as soon as its layers are done",
        )
        .default("1")
        .only(&["inference"])
        .fields(&["pattern.kv_parts"]),
        Setting::new(
            "memory_gb_per_s",
            Kind::NumberAbove { min: 0.0, max: 1e9 },
            "2039.0",
            "rate at which an accelerator reads its memory, in 10^9 bytes per second; the default is that of an H100",
        )
        .default("3350")
        .only(&["inference"])
        .fields(&["pattern.memory_gb_per_s"]),
        Setting::new(
            "largest",
            Kind::Size { min: 1, max: 1_000_000_000_000_000 },
            "\"1 GB\"",
            "bytes of the largest flow that the program may submit",
        )
        .default("1 GB")
        .only(&["outside"])
        .fields(&["pattern.largest"]),
        Setting::new(
            "reaction",
            Kind::Time,
            "\"1 us\"",
            "minimum time between the completion of a flow and the time at which the program knows of it; a shorter time \
             makes the simulation slower",
        )
        .derived("one window of simulated time: the time of a minimum frame on the shortest link, delay included")
        .only(&["outside"])
        .fields(&["pattern.reaction"]),
        Setting::new(
            "think_time",
            Kind::Delay,
            "\"10 us\"",
            "in a [closed loop](#closed-loops): time between the completion of a message or request and the next",
        )
        .default("0 us")
        .only(&["incast", "all-to-all", "pairs"])
        .fields(&["pattern.think_time"]),
        Setting::new(
            "persistent_connections",
            Kind::Flag,
            "true",
            "in a [closed loop](#closed-loops): whether the flows of a sender share connections",
        )
        .default("false")
        .only(&["incast", "pairs"])
        .fields(&["pattern.persistent"]),
        Setting::new(
            "file",
            Kind::Text,
            "\"flows.csv\"",
            "path of the [flow list](formats.md) or of the [trace](traces.md); of a Chakra trace without `.RANK.et`",
        )
        .required()
        .only(&["list", "trace"])
            .nowhere(),
        Setting::new(
            "format",
            Kind::Choice(&["csv", "hpcc", "htsim", "goal", "chakra"]),
            "\"csv\"",
            "format of the file: `\"csv\"`, `\"hpcc\"` or `\"htsim\"` for a list; `\"csv\"`, `\"goal\"` or `\"chakra\"` for a trace",
        )
        .derived("for a list, `\"csv\"` if the file name ends in `.csv`, else judged by the first line of the file; for a trace, judged by the name of the file")
        .only(&["list", "trace"])
        .nowhere(),
        Setting::new("compute_scale", Kind::Number { min: 0.0, max: 1e6 }, "0.5", "factor of the length of every computation")
            .default("1")
            .only(&["trace"])
            .fields(&["pattern.compute_scale"]),
    ],
};
