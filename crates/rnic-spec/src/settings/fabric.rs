//! Declarations of the settings of `[fabric]`, `[[fabric.link]]` and `[[fabric.route]]`.

use super::{Effect, Section, Selector, Setting, Variant, names};
use rnic_fabric::config::PATHS;
use rnic_transport::Time;
use rnic_transport::settings::Kind;

/// Maximum number of hosts of a fabric, and maximum of each other count of a topology, such as its leaves.
pub const MAX_HOSTS: u32 = 1_000_000;
/// Maximum number of links between the switches of a topology.
pub const MAX_UPLINKS: u64 = 10_000_000;

const COUNT: Kind = Kind::Count { min: 1, max: MAX_HOSTS as u64 };
const LOSS: Kind = Kind::NumberBelow { min: 0.0, max: 1.0 };
const RATIO: Kind = Kind::NumberAbove { min: 0.0, max: f64::INFINITY };
const NAMES: Kind = Kind::List(&Kind::Text);

const TOPOLOGIES: [Variant; 9] = [
    Variant { name: "fat-tree", about: "three tiers of k-port switches, k^3/4 hosts" },
    Variant { name: "leaf-spine", about: "every leaf connects to every spine" },
    Variant { name: "leaf-spine-core", about: "pods of leaves and spines, and cores above them in planes" },
    Variant { name: "single-switch", about: "all hosts on one switch" },
    Variant { name: "dumbbell", about: "two switches joined by one link" },
    Variant { name: "dragonfly", about: "groups of routers, with links between all groups" },
    Variant { name: "multi-plane", about: "several leaf-spine fabrics side by side; a rank has a host in each" },
    Variant { name: "graph", about: "any graph, with one `[[fabric.link]]` per link" },
    Variant { name: "file", about: "the topology in a file of HPCC, ConWeave, SimAI, htsim or ASTRA-sim" },
];
const TOPOLOGY_NAMES: [&str; TOPOLOGIES.len()] = names(&TOPOLOGIES);

const PATH_NAMES: [&str; PATHS.len()] = {
    let mut names = [""; PATHS.len()];
    let mut index = 0;
    while index < names.len() {
        names[index] = PATHS[index].name;
        index += 1;
    }
    names
};

const CLOS: &[&str] = &["leaf-spine", "leaf-spine-core", "multi-plane"];
const LEAVES: &[&str] = &["leaf-spine", "multi-plane"];
const PLANES: &[&str] = &["multi-plane"];
const PODS: &[&str] = &["leaf-spine-core"];
/// The topologies whose links have the rate and the delay of `[fabric]`.
const DESCRIBED: &[&str] =
    &["fat-tree", "leaf-spine", "leaf-spine-core", "single-switch", "dumbbell", "dragonfly", "multi-plane", "graph"];
const DRAGONFLY: &[&str] = &["dragonfly"];
const FILE: &[&str] = &["file"];

pub(super) const FABRIC: Section = Section {
    table: "fabric",
    document: "fabric",
    selector: Some(Selector { key: "topology", variants: &TOPOLOGIES }),
    is_open: false,
    settings: &[
        Setting::new("topology", Kind::Choice(&TOPOLOGY_NAMES), "\"fat-tree\"", "shape of the fabric")
            .required()
            .nowhere()
            .well_known(),
        Setting::new("rate", Kind::Rate, "\"40 Gbps\"", "rate of every link, in each direction")
            .required()
            .only(DESCRIBED)
            .fields(&["link.rate"])
            .well_known()
            .inherited(),
        Setting::new("delay", Kind::Time, "\"2 us\"", "propagation delay of every link, in each direction")
            .required()
            .only(DESCRIBED)
            .fields(&["link.delay"])
            .well_known()
            .inherited(),
        Setting::new("loss", LOSS, "0.001", "probability that a link loses a frame")
            .default("0")
            .only(DESCRIBED)
            .fields(&["link.loss"])
            .inherited(),
        Setting::new("mtu", Kind::Size { min: 64, max: 9_000 }, "\"1024 B\"", "payload of a full packet")
            .default("1024 B")
            .well_known()
            .inherited(),
        Setting::new(
            "frame_gap",
            Kind::Size { min: 0, max: 1_000 },
            "\"20 B\"",
            "bytes that each frame takes on the link in addition to its own length (preamble and inter-packet gap)",
        )
        .default("20 B")
        .well_known()
        .inherited(),
        Setting::new(
            "clock_skew_ppm",
            Kind::Count { min: 0, max: 100_000 },
            "100",
            "maximum difference of the [clock](../concepts/fabric.md#clocks) of a host or switch from its nominal \
             rate, in parts per million",
        )
        .default("0")
        .fields(&["clocks.skew_ppm"])
        .well_known()
        .inherited(),
        Setting::new(
            "clock_jitter",
            Kind::Span { min: Time::ZERO, max: Time::from_ms(1) },
            "\"1 ns\"",
            "maximum random delay of each frame on each link, in addition to `delay`",
        )
        .default("0 ns")
        .fields(&["clocks.jitter"])
        .well_known()
        .inherited(),
        Setting::new(
            "paths",
            Kind::Choice(&PATH_NAMES),
            "\"ecmp\"",
            "selection among several shortest paths. `\"ecmp\"`: all packets of a flow take the same path. `\"spray\"`: \
             each packet takes a random path. `\"adaptive\"`: each packet takes the port with the fewest queued bytes. \
             `\"flowlet\"`: a burst of a flow keeps its path, the next one takes a random path \
             ([details](../concepts/paths.md))",
        )
        .derived("the transport's own choice: `\"ecmp\"` for most, `\"spray\"` for ndp, homa and homa-tr")
        .well_known()
        .inherited(),
        Setting::new(
            "flowlet_gap",
            Kind::Span { min: Time::ZERO, max: Time::from_ms(1_000) },
            "\"50 us\"",
            "`paths = \"flowlet\"`: time without a packet of a flow after which its next packet may take another path",
        )
        .derived("`\"500 us\"` (CONGA)")
        .well_known()
        .inherited(),
        Setting::new("switch", Kind::Table("fabric.switch"), "{}", "buffer, scheduler and ECN marking of all switches")
            .nowhere()
            .inherited(),
        Setting::new("link", Kind::Tables("fabric.link"), "[]", "links of a graph, or changes of single links").nowhere(),
        Setting::new(
            "convergence",
            Kind::Delay,
            "\"10 ms\"",
            "time from the failure or the return of a link to new routes in all switches \
             ([details](../concepts/fabric.md#links-that-fail))",
        )
        .default("10 ms")
        .fields(&["faults.convergence"])
        .inherited(),
        Setting::new(
            "local_repair",
            Kind::Delay,
            "\"100 us\"",
            "time after which the switches at both ends of a failed link stop using it where another port of equal cost \
             is left, at most `convergence`",
        )
        .derived("they learn of the failure with all other switches")
        .fields(&["faults.local_repair"])
        .inherited(),
        Setting::new("route", Kind::Tables("fabric.route"), "[]", "routes that replace shortest paths").nowhere(),
        Setting::new("storm", Kind::Tables("fabric.storm"), "[]", "hosts whose NICs pause their switches").nowhere(),
        Setting::new(
            "drop",
            Kind::Tables("fabric.drop"),
            "[]",
            "switches that drop one data packet in a given number",
        )
        .nowhere(),
        Setting::new("dead", Kind::Tables("fabric.dead"), "[]", "dead hosts, whose MAC table entry is missing").nowhere(),
        Setting::new(
            "receiver",
            Kind::Tables("fabric.receiver"),
            "[]",
            "hosts whose NICs process received packets slowly",
        )
        .nowhere()
        .effect(Effect::WithPfc),
        Setting::new("watchdog", Kind::Table("fabric.watchdog"), "{}", "PFC watchdog of all switches")
            .nowhere()
            .effect(Effect::WithPfc),
        Setting::new(
            "nic_watchdog",
            Kind::Table("fabric.nic_watchdog"),
            "{}",
            "watchdog of all NICs against their own pause storms",
        )
        .nowhere()
        .effect(Effect::WithStorm),
        Setting::new("mesh", Kind::Tables("fabric.mesh"), "[]", "hosts that probe each other, like an RDMA Pingmesh")
            .nowhere(),
        Setting::new(
            "k",
            Kind::Count { min: 2, max: 64 },
            "6",
            "number of ports of each switch, even. The fabric has k^3/4 hosts",
        )
        .required()
        .only(&["fat-tree"])
        .fields(&["topology.k"]),
        Setting::new("pods", COUNT, "4", "number of pods; [Pods and planes](#pods-and-planes) explains the topology")
            .required()
            .only(PODS)
            .fields(&["topology.pods"]),
        Setting::new("leaves_per_pod", COUNT, "4", "number of leaf switches of each pod")
            .required()
            .only(PODS)
            .fields(&["topology.leaves_per_pod"]),
        Setting::new("spines_per_pod", COUNT, "4", "number of spine switches of each pod, and number of planes")
            .required()
            .only(PODS)
            .fields(&["topology.spines_per_pod"]),
        Setting::new("cores_per_plane", COUNT, "4", "number of core switches of each plane")
            .required()
            .only(PODS)
            .fields(&["topology.cores_per_plane"]),
        Setting::new("planes", Kind::Count { min: 2, max: 64 }, "2", "number of [planes](#planes-of-a-rank), each with its own leaves, spines and hosts")
            .required()
            .only(PLANES)
            .fields(&["topology.planes"]),
        Setting::new("leaves", COUNT, "4", "number of leaf switches (of each plane)")
            .required()
            .only(LEAVES)
            .fields(&["topology.leaves"]),
        Setting::new("spines", COUNT, "4", "number of spine switches (of each plane)")
            .required()
            .only(LEAVES)
            .fields(&["topology.spines"]),
        Setting::new("hosts_per_leaf", COUNT, "4", "number of hosts below each leaf")
            .required()
            .only(CLOS)
            .fields(&["topology.hosts_per_leaf"]),
        Setting::new("uplink_rate", Kind::Rate, "\"40 Gbps\"", "rate of the links between leaves and spines")
            .derived("the rate of the hosts' links")
            .only(CLOS)
            .fields(&["topology.uplink_rate"]),
        Setting::new("uplink_delay", Kind::Time, "\"2 us\"", "propagation delay of the links between leaves and spines")
            .derived("the delay of the hosts' links")
            .only(CLOS)
            .fields(&["topology.uplink_delay"]),
        Setting::new(
            "oversubscription",
            RATIO,
            "2.0",
            "instead of `uplink_rate`: bandwidth of a leaf's links down divided by the bandwidth of its links up, which \
             is at most 10 Tbps for each",
        )
        .only(CLOS)
        .nowhere(),
        Setting::new("core_rate", Kind::Rate, "\"40 Gbps\"", "rate of the links between spines and cores")
            .derived("the rate of the links between leaves and spines")
            .only(PODS)
            .fields(&["topology.core_rate"]),
        Setting::new("core_delay", Kind::Time, "\"2 us\"", "propagation delay of the links between spines and cores")
            .derived("the delay of the links between leaves and spines")
            .only(PODS)
            .fields(&["topology.core_delay"]),
        Setting::new(
            "core_oversubscription",
            RATIO,
            "2.0",
            "instead of `core_rate`: bandwidth of a spine's links down divided by the bandwidth of its links up, which \
             is at most 10 Tbps for each",
        )
        .only(PODS)
        .nowhere(),
        Setting::new("hosts", COUNT, "4", "number of hosts")
            .required()
            .only(&["single-switch"])
            .fields(&["topology.hosts"])
            .well_known(),
        Setting::new("groups", COUNT, "9", "number of groups: more than `global_links`, at most `routers_per_group` x `global_links` + 1")
            .required()
            .only(DRAGONFLY)
            .fields(&["topology.groups"]),
        Setting::new("routers_per_group", COUNT, "4", "number of routers of each group; all are joined with each other")
            .required()
            .only(DRAGONFLY)
            .fields(&["topology.routers_per_group"]),
        Setting::new("global_links", COUNT, "2", "number of links from each router to other groups")
            .required()
            .only(DRAGONFLY)
            .fields(&["topology.global_links"]),
        Setting::new("hosts_per_router", COUNT, "2", "number of hosts on each router")
            .required()
            .only(DRAGONFLY)
            .fields(&["topology.hosts_per_router"]),
        Setting::new("local_rate", Kind::Rate, "\"40 Gbps\"", "rate of the links inside a group")
            .derived("the rate of the hosts' links")
            .only(DRAGONFLY)
            .fields(&["topology.local_rate"]),
        Setting::new("local_delay", Kind::Time, "\"200 ns\"", "propagation delay of the links inside a group")
            .derived("the delay of the hosts' links")
            .only(DRAGONFLY)
            .fields(&["topology.local_delay"]),
        Setting::new("global_rate", Kind::Rate, "\"40 Gbps\"", "rate of the links between groups")
            .derived("the rate of the links inside a group")
            .only(DRAGONFLY)
            .fields(&["topology.global_rate"]),
        Setting::new("global_delay", Kind::Time, "\"2 us\"", "propagation delay of the links between groups")
            .derived("the delay of the links inside a group")
            .only(DRAGONFLY)
            .fields(&["topology.global_delay"]),
        Setting::new("left", COUNT, "4", "number of hosts on the left side")
            .required()
            .only(&["dumbbell"])
            .fields(&["topology.left"]),
        Setting::new("right", COUNT, "4", "number of hosts on the right side")
            .required()
            .only(&["dumbbell"])
            .fields(&["topology.right"]),
        Setting::new("bottleneck_rate", Kind::Rate, "\"40 Gbps\"", "rate of the link between the two switches")
            .derived("the rate of the hosts' links")
            .only(&["dumbbell"])
            .fields(&["topology.bottleneck_rate"]),
        Setting::new(
            "bottleneck_delay",
            Kind::Time,
            "\"2 us\"",
            "propagation delay of the link between the two switches",
        )
        .derived("the delay of the hosts' links")
        .only(&["dumbbell"])
        .fields(&["topology.bottleneck_delay"]),
        Setting::new(
            "hosts",
            Kind::Either(&[COUNT, NAMES]),
            "4",
            "number of hosts, which are then called `h0`.., or a list of their names",
        )
        .required()
        .only(&["graph"])
        .fields(&["topology.hosts"]),
        Setting::new(
            "switches",
            Kind::Either(&[COUNT, NAMES]),
            "2",
            "number of switches, which are then called `s0`.., or a list of their names",
        )
        .required()
        .only(&["graph"])
        .fields(&["topology.switches"]),
        Setting::new("file", Kind::Text, "\"topology.txt\"", "path of the [topology file](formats.md#topologies)")
            .required()
            .only(FILE)
            .nowhere(),
        Setting::new("format", Kind::Choice(&["hpcc", "simai", "htsim", "astra-sim"]), "\"hpcc\"", "format of the topology file")
            .derived("judged by the first line of the file")
            .only(FILE)
            .nowhere(),
        Setting::new(
            "nvswitches",
            Kind::Choice(&["keep", "omit"]),
            "\"omit\"",
            "the NVSwitches of a file of SimAI: switches like others, or left out with their links",
        )
        .default("keep")
        .only(FILE)
        .nowhere(),
    ],
};

pub(super) const LINK: Section = Section {
    table: "fabric.link",
    document: "fabric.links[]",
    selector: None,
    is_open: false,
    settings: &[
        Setting::new("from", Kind::Text, "\"h0\"", "name of one node").required(),
        Setting::new("to", Kind::Text, "\"s0\"", "name of the other node").required(),
        Setting::new("rate", Kind::Rate, "\"40 Gbps\"", "rate of this link").derived("unchanged"),
        Setting::new("delay", Kind::Time, "\"2 us\"", "propagation delay of this link").derived("unchanged"),
        Setting::new("loss", LOSS, "0.001", "probability that this link loses a frame").derived("unchanged"),
        Setting::new(
            "down",
            Kind::Flag,
            "true",
            "whether the link is [down](../concepts/fabric.md#links-that-fail) for the whole run, like all links between \
             the two nodes. Routing knows it from the start",
        )
        .default("false")
        .nowhere(),
        Setting::new("down_at", Kind::Delay, "\"1 ms\"", "time at which the link fails")
            .fields(&["/fabric.faults.links[].start"]),
        Setting::new("up_at", Kind::Time, "\"5 ms\"", "time at which the link returns, after `down_at`")
            .derived("never")
            .fields(&["/fabric.faults.links[].duration"]),
        Setting::new(
            "flap_every",
            Kind::Time,
            "\"10 ms\"",
            "the link fails again each time this interval has passed since `down_at`, for the time from `down_at` to \
             `up_at`",
        )
        .derived("it fails once")
        .fields(&["/fabric.faults.links[].every"]),
        Setting::new(
            "slow_rate",
            Kind::Rate,
            "\"10 Gbps\"",
            "rate of the link from `slow_at` to `slow_until`, at most its rate before",
        )
        .fields(&["/fabric.faults.links[].rate"]),
        Setting::new("slow_at", Kind::Delay, "\"1 ms\"", "time from which the link has the rate `slow_rate`")
            .default("0 us")
            .nowhere(),
        Setting::new("slow_until", Kind::Time, "\"5 ms\"", "time until which the link has the rate `slow_rate`")
            .derived("until the end of the run")
            .nowhere(),
        Setting::new("slow_one_way", Kind::Flag, "true", "whether only the direction from `from` to `to` is slow")
            .default("false")
            .fields(&["/fabric.faults.links[].one_way"]),
        Setting::new(
            "slow_queues",
            Kind::Flag,
            "true",
            "whether buffers and mark thresholds of the slow outputs shrink in proportion to the rate; needs queueing = \"output\"",
        )
        .default("false")
        .fields(&["/fabric.faults.links[].scales_queues"]),
    ],
};

pub(super) const ROUTE: Section = Section {
    table: "fabric.route",
    document: "fabric.routes[]",
    selector: None,
    is_open: false,
    settings: &[
        Setting::new("at", Kind::Text, "\"s0\"", "the switch").required(),
        Setting::new(
            "to",
            Kind::Either(&[Kind::Text, NAMES]),
            "\"h1\"",
            "the destination, or several; `\"h24-h95\"` stands for all hosts from `h24` to `h95`",
        )
        .required(),
        Setting::new(
            "via",
            Kind::Text,
            "\"s1\"",
            "the neighbour to which the switch sends packets for the destination",
        )
        .required(),
    ],
};
