//! The topologies and traffic patterns that a scenario can name, with one line of description each. `rnic list` prints
//! them.

/// All topologies that a scenario can name, as (name, description).
pub const TOPOLOGIES: &[(&str, &str)] = &[
    ("fat-tree", "three tiers of k-port switches, k^3/4 hosts: `k`"),
    (
        "leaf-spine",
        "every leaf connects to every spine: `leaves`, `spines`, `hosts_per_leaf`, `uplink_rate` or `oversubscription`",
    ),
    (
        "leaf-spine-core",
        "pods of leaves and spines, and cores above them in planes: `pods`, `leaves_per_pod`, `spines_per_pod`, `cores_per_plane`, \
         `hosts_per_leaf`, `uplink_rate` or `oversubscription`, `core_rate` or `core_oversubscription`",
    ),
    ("single-switch", "all hosts on one switch: `hosts`"),
    ("dumbbell", "two switches joined by one link: `left`, `right`, `bottleneck_rate`, `bottleneck_delay`"),
    ("graph", "any graph: `hosts`, `switches`, and one `[[fabric.link]]` per link"),
];

/// All traffic patterns that a scenario can name, as (name, description).
pub const PATTERNS: &[(&str, &str)] = &[
    ("poisson", "every host starts flows at random times towards random hosts: `load`, `sizes`, `flows`"),
    (
        "incast",
        "one request striped over many senders: `senders`, `total`, `repeats`, `receiver`, `connections`, `interval` (a time or \"completion\"), \
         `think_time`, `persistent_connections`",
    ),
    ("permutation", "every host sends to one other and receives from one other: `sizes`, `repeats`, `interval`"),
    (
        "all-to-all",
        "every host sends to every other host: `sizes`, `repeats`, `interval`, or in turn: `outstanding`, `think_time`",
    ),
    (
        "pairs",
        "random pairs send message after message: `pairs`, `sizes`, `messages`, `think_time`, `persistent_connections`",
    ),
    ("list", "the flows of a file: `file`, `format`"),
];

/// The names in a list of (name, description) such as [`TOPOLOGIES`], in the order of the list.
pub(super) fn names(list: &[(&'static str, &'static str)]) -> Vec<&'static str> {
    list.iter().map(|(name, _)| *name).collect()
}
