//! A JSON Schema of scenario files, for editors that complete and check TOML.
//!
//! The keys, the topologies, traffic patterns, transports and congestion controls come from the tables with which the
//! reader checks a scenario. This module adds the kind and a description of each key; the tests compare both with the
//! reader.

use super::names::{PATTERNS, TOPOLOGIES, names};
use super::reader::Variant;
use super::{beside, fabric, faults, mesh, output, overrides, read, sweep, switch, traffic, transport};
use rnic_fabric::config::{PATHS, SCHEDULERS};
use rnic_run::{P4_PREFIX, Vocabulary};
use rnic_transport::settings::{self, Parameter};
use serde_json::{Map, Value, json};

/// What a key takes.
#[derive(Clone, Copy)]
enum Kind {
    /// Any string.
    Title,
    /// A string that is not empty.
    Text,
    /// `true` or `false`.
    Flag,
    /// An integer from the first number to the second.
    Integer(u64, u64),
    /// A number, with or without a fraction.
    Number,
    /// A rate such as `"40 Gbps"`.
    Rate,
    /// A time such as `"2 us"`.
    Time,
    /// A size such as `"9 KB"`.
    Bytes,
    /// One of these words.
    Word(&'static [&'static str]),
    /// One of the words that the function returns.
    Listed(fn() -> Vec<&'static str>),
    /// An array of values of this kind.
    List(&'static Kind),
    /// The table of this name.
    Table(&'static str),
    /// An array of tables of this name.
    Tables(&'static str),
    /// A value of one of these kinds.
    Either(&'static [Kind]),
}

use Kind::{Bytes, Either, Flag, Integer, List, Listed, Number, Rate, Table, Tables, Text, Time, Title, Word};

/// An integer of at least 1.
const COUNT: Kind = Integer(1, u32::MAX as u64);
/// Names, or a number of nodes.
const NODES: Kind = Either(&[COUNT, List(&Text)]);

/// A key of a table: the table, the key, what the key takes, and a description.
struct Key(&'static str, &'static str, Kind, &'static str);

/// The keys of all tables, except the parameters of transports and congestion controls, which declare themselves.
const KEYS: &[Key] = &[
    Key("", "title", Title, "title that tables and reports show; default: the file name"),
    Key("", "seed", Integer(0, i64::MAX as u64), "seed of all pseudo-random numbers of the runs; default: 1"),
    Key("", "extends", Text, "path of another scenario file, of which this file states only the differences"),
    Key("", "fabric", Table("fabric"), "topology, links and switches"),
    Key("", "traffic", Either(&[Table("traffic"), Tables("traffic")]), "the traffic, one source or several"),
    Key("", "transport", Table("transport"), "settings for all runs whose transport has them"),
    Key("", "run", Tables("run"), "the runs to compare"),
    Key("", "limits", Table("limits"), "when a run ends"),
    Key("", "sweep", Table("sweep"), "lists of values for any keys; every run is simulated at every point"),
    Key("", "watch", Table("watch"), "what to sample during a run"),
    Key("fabric", "topology", Listed(|| names(TOPOLOGIES)), "shape of the fabric"),
    Key("fabric", "rate", Rate, "rate of every link, in each direction"),
    Key("fabric", "delay", Time, "propagation delay of every link, more than zero"),
    Key("fabric", "loss", Number, "probability that a link loses a frame, at least 0 and less than 1; default: 0"),
    Key("fabric", "mtu", Bytes, "payload of a full packet, 64 B to 9 KB; default: 1024 B"),
    Key("fabric", "frame_gap", Bytes, "bytes that each frame takes on a link in addition to its length; default: 20 B"),
    Key(
        "fabric",
        "clock_skew_ppm",
        Integer(0, rnic_run::MAX_SKEW_PPM),
        "maximum difference of a node's clock from its nominal rate, in parts per million; default: 0",
    ),
    Key("fabric", "clock_jitter", Time, "maximum random delay of each frame on each link; default: 0 ns"),
    Key(
        "fabric",
        "paths",
        Listed(|| PATHS.iter().map(|entry| entry.name).collect()),
        "selection among several shortest paths; default: ecmp",
    ),
    Key("fabric", "switch", Table("fabric.switch"), "buffer, scheduler and ECN marking of all switches"),
    Key("fabric", "link", Tables("fabric.link"), "links of a graph, or changes of single links"),
    Key("fabric", "route", Tables("fabric.route"), "routes that replace shortest paths"),
    Key("fabric", "storm", Tables("fabric.storm"), "hosts whose NICs pause their switches"),
    Key("fabric", "drop", Tables("fabric.drop"), "switches that drop one data packet in a given number"),
    Key("fabric", "dead", Tables("fabric.dead"), "dead hosts, whose MAC table entry is missing"),
    Key("fabric", "receiver", Tables("fabric.receiver"), "hosts whose NICs process received packets slowly"),
    Key("fabric", "watchdog", Table("fabric.watchdog"), "PFC watchdog of all switches"),
    Key("fabric", "nic_watchdog", Table("fabric.nic_watchdog"), "watchdog of all NICs against their own pause storms"),
    Key("fabric", "mesh", Tables("fabric.mesh"), "hosts that probe each other, like an RDMA Pingmesh"),
    Key("fabric", "k", Integer(2, 64), "number of ports of each switch, even"),
    Key("fabric", "leaves", COUNT, "number of leaf switches"),
    Key("fabric", "spines", COUNT, "number of spine switches"),
    Key("fabric", "hosts_per_leaf", COUNT, "number of hosts below each leaf"),
    Key(
        "fabric",
        "uplink_rate",
        Rate,
        "rate of the links between leaves and spines; default: that of the hosts' links",
    ),
    Key("fabric", "uplink_delay", Time, "propagation delay of the links between leaves and spines"),
    Key("fabric", "oversubscription", Number, "bandwidth of a leaf's links down divided by that of its links up"),
    Key("fabric", "pods", COUNT, "number of pods"),
    Key("fabric", "leaves_per_pod", COUNT, "number of leaf switches of each pod"),
    Key("fabric", "spines_per_pod", COUNT, "number of spine switches of each pod, and number of planes"),
    Key("fabric", "cores_per_plane", COUNT, "number of core switches of each plane"),
    Key("fabric", "core_rate", Rate, "rate of the links between spines and cores"),
    Key("fabric", "core_delay", Time, "propagation delay of the links between spines and cores"),
    Key("fabric", "core_oversubscription", Number, "bandwidth of a spine's links down divided by that of its links up"),
    Key("fabric", "hosts", NODES, "number of hosts; in a graph also a list of their names"),
    Key("fabric", "left", COUNT, "number of hosts on the left side"),
    Key("fabric", "right", COUNT, "number of hosts on the right side"),
    Key("fabric", "bottleneck_rate", Rate, "rate of the link between the two switches"),
    Key("fabric", "bottleneck_delay", Time, "propagation delay of the link between the two switches"),
    Key("fabric", "switches", NODES, "number of switches, or a list of their names"),
    Key("fabric.link", "from", Text, "name of one node"),
    Key("fabric.link", "to", Text, "name of the other node"),
    Key("fabric.link", "rate", Rate, "rate of this link"),
    Key("fabric.link", "delay", Time, "propagation delay of this link"),
    Key("fabric.link", "loss", Number, "probability that this link loses a frame"),
    Key("fabric.route", "at", Text, "the switch"),
    Key("fabric.route", "to", Either(&[Text, List(&Text)]), "the destination, or several"),
    Key("fabric.route", "via", Text, "the neighbour to which the switch sends packets for the destination"),
    Key("fabric.storm", "host", Text, "the host whose NIC sends pause frames"),
    Key("fabric.storm", "start", Time, "time of the pause frame"),
    Key("fabric.storm", "duration", Time, "time until XON; default: until the end of the run"),
    Key("fabric.storm", "priority", Integer(0, 7), "the only priority that the NIC pauses; default: all in use"),
    Key("fabric.mesh", "name", Text, "name of the mesh in results; default: mesh"),
    Key("fabric.mesh", "pairs", Integer(1, rnic_run::MAX_PAIRS), "number of random pairs of hosts"),
    Key("fabric.mesh", "from", List(&Text), "instead of pairs: the host that probes, for each pair"),
    Key("fabric.mesh", "to", List(&Text), "instead of pairs: the host that responds, for each pair"),
    Key("fabric.mesh", "interval", Time, "time between two probes of a pair"),
    Key("fabric.mesh", "start", Time, "time from which the pairs probe; default: 0"),
    Key("fabric.mesh", "payload", Bytes, "payload of probes and responses; default: 512 B"),
    Key("fabric.mesh", "priority", Integer(0, 7), "priority of probes and responses; default: 0, that of data"),
    Key("fabric.mesh", "window", Time, "length of the windows with percentiles of their own; default: 1 ms"),
    Key("fabric.mesh", "stack_median", Time, "median of the delay in the software of both hosts; default: none"),
    Key("fabric.mesh", "stack_p99", Time, "99th percentile of that delay; default: the median"),
    Key("fabric.drop", "at", Text, "the switch"),
    Key("fabric.drop", "from", Text, "the neighbour from which the packets arrive"),
    Key("fabric.drop", "every", Integer(1, 1_000_000_000), "the switch drops the last of this many data packets"),
    Key("fabric.dead", "host", Text, "the dead host"),
    Key("fabric.dead", "start", Time, "time from which its MAC table entry is missing; default: 0"),
    Key("fabric.dead", "duration", Time, "time until the host is back; default: until the end of the run"),
    Key(
        "fabric.dead",
        "unknown_mac",
        Word(&faults::UNKNOWN_MAC),
        "what the switch does with packets for the host; default: flood",
    ),
    Key("fabric.receiver", "hosts", List(&Text), "the hosts"),
    Key("fabric.receiver", "page", Bytes, "memory that one entry of the NIC's translation table covers"),
    Key("fabric.receiver", "entries", Integer(1, 1_000_000), "entries of the translation table that the NIC caches"),
    Key("fabric.receiver", "miss", Time, "time for which a missing entry stops the receive pipeline"),
    Key("fabric.receiver", "memory", Bytes, "memory that each flow writes in a circle"),
    Key("fabric.receiver", "buffer", Bytes, "receive buffer of the NIC"),
    Key("fabric.receiver", "xoff", Bytes, "pause threshold of the receive buffer; default: half of it"),
    Key("fabric.receiver", "xon", Bytes, "resume threshold of the receive buffer; default: half of xoff"),
    Key(
        "fabric.watchdog",
        "detection",
        Time,
        "time for which a queue is stuck before the watchdog acts; default: 200 ms",
    ),
    Key("fabric.watchdog", "restoration", Time, "time without pauses before it restores the port; default: 200 ms"),
    Key("fabric.watchdog", "interval", Time, "time between two checks; default: 200 ms, at most detection"),
    Key("fabric.watchdog", "action", Word(&faults::ACTIONS), "what the watchdog does about a storm; default: drop"),
    Key("fabric.watchdog", "ports", Word(&faults::PORTS), "the ports that it watches; default: hosts"),
    Key(
        "fabric.nic_watchdog",
        "detection",
        Time,
        "time for which the receive pipeline is stopped before the NIC stops pausing; default: 100 ms",
    ),
    Key(
        "fabric.switch",
        "queueing",
        Listed(|| switch::VARIANTS.iter().map(|variant| variant.name).collect()),
        "input: virtual output queues at the inputs; shared: one buffer for all ports; output: a buffer for each output and priority; \
         default: input",
    ),
    Key(
        "fabric.switch",
        "buffer",
        Bytes,
        "size of the buffer: per input port and priority, of the switch, or per output and priority",
    ),
    Key(
        "fabric.switch",
        "scheduler",
        Listed(|| SCHEDULERS.iter().map(|entry| entry.name).collect()),
        "which priority an output serves next; default: strict, with weights drr",
    ),
    Key(
        "fabric.switch",
        "weights",
        List(&Integer(0, 1_000)),
        "one weight for each priority, the lowest priority first",
    ),
    Key(
        "fabric.switch",
        "ecn",
        Either(&[Flag, Table("fabric.switch.ecn")]),
        "whether and when the switch CE-marks packets",
    ),
    Key("fabric.switch", "xoff", Bytes, "PFC pause threshold"),
    Key("fabric.switch", "xon", Bytes, "PFC resume threshold; default: xoff"),
    Key("fabric.switch", "headroom", Bytes, "buffer above xoff for packets that arrive before a pause takes effect"),
    Key(
        "fabric.switch",
        "arbiter",
        Word(&["round-robin", "oldest-first"]),
        "which input sends the next packet to an output",
    ),
    Key(
        "fabric.switch",
        "arbiter_quantum",
        Either(&[Integer(1, 1_000_000), Bytes]),
        "length of an input's turn: packets, or a size",
    ),
    Key(
        "fabric.switch",
        "drop_until_free",
        Bytes,
        "a port that has dropped a packet drops until this much is free; default: 0 B",
    ),
    Key("fabric.switch", "beta", Number, "dynamic pause threshold, as a multiple of the free bytes of the pool"),
    Key("fabric.switch", "xon_offset", Bytes, "a paused peer resumes this far below the pause threshold"),
    Key(
        "fabric.switch",
        "egress_alpha",
        Number,
        "without PFC: maximum queue, as a multiple of the free bytes of the pool",
    ),
    Key("fabric.switch", "priorities", Integer(1, 8), "number of priorities"),
    Key("fabric.switch", "buffers", List(&Bytes), "one size of buffer for each priority, the lowest priority first"),
    Key(
        "fabric.switch",
        "trim",
        Either(&[Flag, Table("fabric.switch.trim")]),
        "whether a full queue trims packets to their headers",
    ),
    Key(
        "fabric.switch",
        "count_in_service",
        Flag,
        "whether the packet in transmission still counts in its queue; default: false",
    ),
    Key("fabric.switch.ecn", "kmin", Bytes, "no packet is marked while the queue is at most this long"),
    Key("fabric.switch.ecn", "kmax", Bytes, "every packet is marked while the queue is longer than this"),
    Key("fabric.switch.ecn", "pmax", Number, "probability of a mark when the queue is kmax, 0 to 1"),
    Key("fabric.switch.ecn", "mark_on", Word(&["dequeue", "enqueue"]), "which length of the queue decides"),
    Key("fabric.switch.trim", "to", Bytes, "length of a trimmed packet; default: 64 B"),
    Key(
        "fabric.switch.trim",
        "headers",
        Word(&["highest", "above", "below"]),
        "priority of trimmed packets; default: highest",
    ),
    Key(
        "fabric.switch.trim",
        "in_a_row",
        Integer(0, 1_000_000),
        "maximum number of packets of the highest priority in a row",
    ),
    Key(
        "fabric.switch.trim",
        "return_to_sender",
        Flag,
        "whether a trimmed packet that finds no room returns to its sender",
    ),
    Key("traffic", "pattern", Listed(|| names(PATTERNS)), "how flows are generated"),
    Key("traffic", "name", Text, "name of the traffic source; default: the pattern"),
    Key("traffic", "warmup", Integer(0, 1_000_000_000), "number of first flows that do not count; default: 0"),
    Key("traffic", "cooldown", Integer(0, 1_000_000_000), "number of last flows that do not count; default: 0"),
    Key("traffic", "start", Time, "time at which the source starts its first flows; default: 0 us"),
    Key(
        "traffic",
        "priority",
        Integer(0, 7),
        "priority of the packets, and of the transport that carries them; default: 0",
    ),
    Key("traffic", "load", Number, "fraction of each host's link, more than 0 and at most 1"),
    Key(
        "traffic",
        "sizes",
        Text,
        "irn-heavy-tailed, websearch, `fixed 1 MB`, `uniform 500 KB - 5 MB`, or the path of a CDF file",
    ),
    Key("traffic", "flows", Integer(1, 1_000_000_000), "total number of flows"),
    Key("traffic", "senders", COUNT, "number of senders of a request, fewer than the hosts"),
    Key("traffic", "total", Bytes, "bytes of one request, over all senders"),
    Key("traffic", "repeats", COUNT, "number of requests or repetitions; default: 1, in a closed loop without end"),
    Key("traffic", "receiver", Integer(0, u32::MAX as u64), "number of the receiving host; default: 0"),
    Key("traffic", "connections", COUNT, "number of flows of each sender in a request; default: 1"),
    Key(
        "traffic",
        "interval",
        Either(&[Time, Word(&["completion"])]),
        "time between two starts; for an incast also completion",
    ),
    Key(
        "traffic",
        "think_time",
        Time,
        "closed loop: time between the completion of a message and the next; default: 0 us",
    ),
    Key("traffic", "persistent_connections", Flag, "closed loop: whether the flows share connections; default: false"),
    Key("traffic", "outstanding", COUNT, "number of messages of a host at the same time; makes a closed loop"),
    Key("traffic", "pairs", COUNT, "number of pairs"),
    Key("traffic", "messages", COUNT, "number of messages of each pair; default: no end"),
    Key("traffic", "file", Text, "path of the flow list, relative to this file's folder"),
    Key("traffic", "format", Word(&["csv", "hpcc"]), "format of the flow list"),
    Key("run", "name", Text, "unique name of the run"),
    Key("run", "transport", Text, "transport of the run"),
    Key("run", "set", Table("set"), "changes for this run: dotted paths and values"),
    Key("run", "beside", Tables("run.beside"), "further transports of the hosts, each for the traffic of one priority"),
    Key("run.beside", "priority", Integer(1, 7), "priority of the traffic that uses this transport"),
    Key("run.beside", "transport", Text, "transport of flows, such as tcp"),
    Key("limits", "duration", Time, "simulated time at which every run ends"),
    Key("limits", "max_time", Time, "simulated time after which a run has failed"),
    Key("limits", "stall_time", Time, "time without progress after which a run has failed; default: 1 s"),
    Key("watch", "interval", Time, "time between two samples"),
    Key("watch", "start", Time, "time of the first sample; default: 0"),
    Key(
        "watch",
        "queues",
        Either(&[Word(&["all"]), List(&Text)]),
        "ports whose queues are sampled, such as s0:h0, or all",
    ),
    Key("watch", "flows", Flag, "whether to sample the goodput of the flows; default: false"),
    Key("watch", "pauses", Flag, "whether to sample pauses; default: false"),
];

/// Keys that take fewer kinds in one variant of their table: the table, the variant, the key, and what it takes there.
const NARROWER: &[(&str, &str, &str, Kind)] = &[
    ("fabric", "single-switch", "hosts", COUNT),
    ("traffic", "permutation", "interval", Time),
    ("traffic", "all-to-all", "interval", Time),
];

/// The keys of the tables that are not variants of each other, as the reader checks them.
fn plain_tables() -> [(&'static str, &'static [&'static str]); 14] {
    [
        ("", &read::ROOT_KEYS),
        ("fabric.link", &fabric::LINK_KEYS),
        ("fabric.route", &faults::ROUTE_KEYS),
        ("fabric.storm", &faults::STORM_KEYS),
        ("fabric.drop", &faults::DROP_KEYS),
        ("fabric.mesh", &mesh::KEYS),
        ("fabric.dead", &faults::DEAD_KEYS),
        ("fabric.receiver", &faults::RECEIVER_KEYS),
        ("fabric.watchdog", &faults::WATCHDOG_KEYS),
        ("fabric.nic_watchdog", &faults::NIC_WATCHDOG_KEYS),
        ("fabric.switch.ecn", &switch::ECN_KEYS),
        ("fabric.switch.trim", &output::TRIM_KEYS),
        ("limits", &read::LIMIT_KEYS),
        ("watch", &read::WATCH_KEYS),
    ]
}

/// A table whose further keys depend on the value of one key.
struct Varying {
    table: &'static str,
    selector: &'static str,
    common: &'static [&'static str],
    variants: &'static [Variant<'static>],
}

fn varying_tables() -> [Varying; 3] {
    let varying = |table, selector, common, variants| Varying { table, selector, common, variants };
    [
        varying("fabric", "topology", &fabric::COMMON, &fabric::VARIANTS),
        varying("fabric.switch", "queueing", &switch::COMMON, &switch::VARIANTS),
        varying("traffic", "pattern", &traffic::COMMON, &traffic::VARIANTS),
    ]
}

/// The JSON Schema (draft 7) of scenario files that name the transports and congestion controls of `vocabulary`.
///
/// The schema knows keys, kinds of values and words. Rules that connect several keys, and most ranges, are checked when
/// the scenario is read.
pub fn schema(vocabulary: &Vocabulary) -> Value {
    let mut definitions = Map::new();
    for (table, keys) in plain_tables() {
        definitions.insert(table.to_string(), object(properties(table, keys)));
    }
    for Varying { table, selector, common, variants } in varying_tables() {
        let mut keys: Vec<&str> = common.to_vec();
        for key in variants.iter().flat_map(|variant| variant.keys) {
            if !keys.contains(key) {
                keys.push(key);
            }
        }
        let mut schema = object(properties(table, &keys));
        let of_variant = |variant: &Variant<'_>| {
            let narrower = NARROWER.iter().filter(|(of, name, ..)| (*of, *name) == (table, variant.name));
            let narrower = narrower.map(|(_, _, key, kind)| (key.to_string(), kind.schema())).collect();
            (variant.name, [common, variant.keys].concat(), narrower)
        };
        schema["allOf"] = conditions(selector, variants.iter().map(of_variant));
        definitions.insert(table.to_string(), schema);
    }
    definitions.insert("transport".to_string(), object(settings_of_all(vocabulary)));
    definitions.insert("run".to_string(), run(vocabulary, "run", &read::RUN_KEYS, &["name", "transport"]));
    let beside = run(vocabulary, "run.beside", &beside::KEYS, &["priority", "transport"]);
    definitions.insert("run.beside".to_string(), beside);
    definitions.insert("set".to_string(), paths(&overrides::RUN_MAY_SET));
    let swept: Vec<&str> = [&["mode", "seed", "run"], &sweep::SWEPT[..]].concat();
    let mut sweep = paths(&swept);
    sweep["properties"] = json!({
        "mode": { "enum": ["grid", "zip"], "description": "combine every value with every value, or the lists in step" },
    });
    definitions.insert("sweep".to_string(), sweep);

    let Some(mut root) = definitions.remove("") else { return Value::Null };
    root["$schema"] = "http://json-schema.org/draft-07/schema#".into();
    root["title"] = "rnic scenario".into();
    root["description"] = "What rnic simulates: a fabric, traffic, and the runs to compare".into();
    root["definitions"] = definitions.into();
    root
}

/// The properties of a table with these keys.
fn properties(table: &str, keys: &[&str]) -> Map<String, Value> {
    let schema = |name: &str| {
        let row = KEYS.iter().find(|Key(of, key, ..)| (*of, *key) == (table, name));
        row.map_or(json!({}), |Key(_, _, kind, about)| described(kind.schema(), about))
    };
    keys.iter().map(|key| (key.to_string(), schema(key))).collect()
}

fn object(properties: Map<String, Value>) -> Value {
    json!({ "type": "object", "properties": properties, "additionalProperties": false })
}

/// What holds for one value of a selecting key: the value, the keys that the table then has, and schemas for keys that
/// take fewer kinds in this case.
type Condition<'k> = (&'k str, Vec<&'k str>, Map<String, Value>);

fn conditions<'k>(selector: &str, variants: impl Iterator<Item = Condition<'k>>) -> Value {
    let condition = |(value, keys, narrower): Condition<'_>| {
        let is_value = json!({ "properties": { selector: { "const": value } }, "required": [selector] });
        let mut then = json!({ "propertyNames": { "enum": keys } });
        if !narrower.is_empty() {
            then["properties"] = narrower.into();
        }
        json!({ "if": is_value, "then": then })
    };
    variants.map(condition).collect()
}

/// A table whose keys are paths that begin with one of `first`.
fn paths(first: &[&str]) -> Value {
    let pattern = format!("^({})(\\.|$)", first.join("|"));
    json!({ "type": "object", "propertyNames": { "pattern": pattern } })
}

/// The settings that a run or `[transport]` can have, of all transports and congestion controls.
fn settings_of_all(vocabulary: &Vocabulary) -> Map<String, Value> {
    let controls = vocabulary.congestion_controls();
    let words: Vec<&str> = controls.iter().map(|cc| cc.name).collect();
    let mut all = Map::new();
    let common = transport::common_keys();
    let keys = vocabulary.transports().iter().flat_map(|declaration| transport::keys(declaration));
    for key in common.into_iter().chain(keys) {
        let declared = vocabulary.transports().iter().filter_map(|transport| transport.parameter(key));
        let mut schemas: Vec<Value> = Vec::new();
        for schema in declared.map(parameter) {
            if !schemas.contains(&schema) {
                schemas.push(schema);
            }
        }
        let schema = match (key, schemas.len()) {
            ("cc", _) => described(
                json!({ "enum": words }),
                "congestion control; default: none, of a transport in host software rogue",
            ),
            ("pfc", _) => described(Flag.schema(), "whether switches send PFC pause frames; default: false"),
            ("constants", _) => json!({
                "type": "object",
                "additionalProperties": { "type": ["integer", "boolean"] },
                "description": "values for constants of the P4 program",
            }),
            (_, 1) => schemas.remove(0),
            _ => json!({ "anyOf": schemas }),
        };
        all.insert(key.to_string(), schema);
    }
    for cc in controls.iter().filter(|cc| !cc.parameters.is_empty()) {
        let own = cc.parameters.iter().map(|one| (one.name.to_string(), parameter(one))).collect();
        all.insert(cc.name.to_string(), described(object(own), cc.about));
    }
    all
}

/// The schema of a table with a transport and its settings: a run, or a transport beside the run's own.
fn run(vocabulary: &Vocabulary, table: &str, own: &'static [&'static str], required: &[&str]) -> Value {
    let tables: Vec<&str> = transport::parameter_tables(vocabulary).collect();
    let names = || vocabulary.transports().iter().map(|transport| transport.name).filter(|name| *name != "p4");
    let mut all = properties(table, own);
    all["transport"] = json!({
        "anyOf": [{ "enum": names().collect::<Vec<_>>() }, { "type": "string", "pattern": format!("^{P4_PREFIX}.") }],
        "description": "transport of the run: a name, or p4:FILE",
    });
    all.extend(settings_of_all(vocabulary));
    let mut schema = object(all);
    schema["required"] = json!(required);
    let declarations = vocabulary.transports().iter().filter(|transport| transport.name != "p4");
    let keys = |settings: Vec<&'static str>| [own, &transport::common_keys(), &tables, &settings].concat();
    let of_transport = declarations.map(|one| (one.name, keys(transport::keys(one)), Map::new()));
    schema["allOf"] = conditions("transport", of_transport);
    schema
}

/// The schema of a parameter of a transport or congestion control.
fn parameter(parameter: &Parameter) -> Value {
    let mut schema = match parameter.kind {
        settings::Kind::Rate => Rate.schema(),
        settings::Kind::Time | settings::Kind::Timeout | settings::Kind::Delay => Time.schema(),
        settings::Kind::Bytes | settings::Kind::Size { .. } => Bytes.schema(),
        settings::Kind::Number { min, max } => json!({ "type": "number", "minimum": min, "maximum": max }),
        settings::Kind::Count { min, max } => Integer(min, max).schema(),
        settings::Kind::Flag => Flag.schema(),
        settings::Kind::Choice(words) => json!({ "enum": words }),
        settings::Kind::Buffers => {
            let class = object(
                [("size", Bytes), ("count", COUNT)]
                    .map(|(k, kind)| (k.to_string(), kind.schema()))
                    .into_iter()
                    .collect(),
            );
            json!({ "type": "array", "items": class, "minItems": 1 })
        }
    };
    let about = match parameter.default_value() {
        Some(default) => format!("{}; default: {default}", parameter.about),
        None => parameter.about.to_string(),
    };
    schema["description"] = about.into();
    schema
}

fn described(mut schema: Value, about: &str) -> Value {
    // Next to a reference, draft 7 ignores other keys.
    if schema.get("$ref").is_some() {
        schema = json!({ "allOf": [schema] });
    }
    schema["description"] = about.into();
    schema
}

/// A quantity with one of these units, as a regular expression.
fn quantity(units: &str, example: &str) -> Value {
    let pattern = format!(r"^\s*[-+]?[0-9._]*\s*({units})\s*$");
    json!({ "type": "string", "pattern": pattern, "examples": [example] })
}

impl Kind {
    fn schema(&self) -> Value {
        match self {
            Title => json!({ "type": "string" }),
            Text => json!({ "type": "string", "pattern": r"\S" }),
            Flag => json!({ "type": "boolean" }),
            Integer(min, max) => json!({ "type": "integer", "minimum": min, "maximum": max }),
            Number => json!({ "type": "number" }),
            Rate => quantity("[KkMmGgTt]?[Bb][Pp][Ss]", "40 Gbps"),
            Time => quantity("[PpNnUuMmµ]?[Ss]", "2 us"),
            Bytes => quantity("[KkMmGgTt]?B|[KkMmGg][Ii]B", "240 KB"),
            Word(words) => json!({ "enum": words }),
            Listed(words) => json!({ "enum": words() }),
            List(kind) => json!({ "type": "array", "items": kind.schema() }),
            Table(name) => json!({ "$ref": format!("#/definitions/{name}") }),
            Tables(name) => json!({ "type": "array", "items": { "$ref": format!("#/definitions/{name}") } }),
            Either(kinds) => json!({ "anyOf": kinds.iter().map(Kind::schema).collect::<Vec<_>>() }),
        }
    }
}

#[cfg(test)]
mod tests;
