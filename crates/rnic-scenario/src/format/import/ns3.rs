//! Reads the topology files of simulators on ns-3: HPCC, its forks, and SimAI.
//!
//! Like these simulators, the readers read word after word, and ignore lines and whatever follows the last link.

use super::super::decimal::{self, NotDecimal};
use super::super::list::AtLine;
use super::super::topology::{Graph, Link, Node};
use super::{MAX_LINKS, Nvswitches};
use rnic_spec::settings::MAX_HOSTS;
use rnic_transport::settings::{Kind, Value};
use rnic_transport::{BitRate, Time};
use std::collections::BTreeMap;

/// Maximum number of nodes of a file: as many switches as hosts.
const MAX_NODES: u64 = 2 * MAX_HOSTS as u64;

/// A topology and the numbers of its hosts in the file.
type Read = (Graph, Vec<u32>);

/// Reads a topology file of the HPCC simulator.
pub(super) fn read_hpcc(content: &str) -> Result<Read, AtLine> {
    let mut words = Words::new(content);
    let nodes = words.count("the number of nodes", MAX_NODES)?;
    let switches = words.count("the number of switches", nodes)?;
    let links = words.count("the number of links", MAX_LINKS)?;
    let mut kinds = Kinds::new(nodes);
    words.switches(switches, Role::Switch, &mut kinds)?;
    words.links(links, &kinds, Nvswitches::Keep)
}

/// Reads a topology file of SimAI.
pub(super) fn read_simai(content: &str, nvswitches: Nvswitches) -> Result<Read, AtLine> {
    let mut words = Words::new(content);
    let nodes = words.count("the number of nodes", MAX_NODES)?;
    words.count("the number of GPUs per server", nodes)?;
    let servers = words.count("the number of NVSwitches", nodes)?;
    let switches = words.count("the number of switches", nodes - servers)?;
    let links = words.count("the number of links", MAX_LINKS)?;
    words.next("the type of the GPUs")?;
    let mut kinds = Kinds::new(nodes);
    words.switches(servers, Role::Nvswitch, &mut kinds)?;
    words.switches(switches, Role::Switch, &mut kinds)?;
    words.links(links, &kinds, nvswitches)
}

/// What a node is.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
enum Role {
    Host,
    Switch,
    Nvswitch,
}

/// The role of each node: a host unless the file lists it as a switch.
struct Kinds {
    nodes: u64,
    switches: BTreeMap<u32, Role>,
}

impl Kinds {
    fn new(nodes: u64) -> Kinds {
        Kinds { nodes, switches: BTreeMap::new() }
    }

    fn of(&self, node: u32) -> Role {
        self.switches.get(&node).copied().unwrap_or(Role::Host)
    }

    /// The name of a node: its number in the file after a letter for its role.
    fn name(&self, node: u32) -> String {
        match self.of(node) {
            Role::Host => format!("h{node}"),
            Role::Switch => format!("s{node}"),
            Role::Nvswitch => format!("nv{node}"),
        }
    }

    /// The nodes of the topology, hosts first, and the numbers of the hosts. `has` says which switches it has.
    fn graph(&self, has: impl Fn(Role) -> bool) -> Result<Read, String> {
        let hosts = self.nodes - self.switches.len() as u64;
        if hosts > u64::from(MAX_HOSTS) {
            return Err(format!("the topology has {hosts} hosts; accepted: at most {MAX_HOSTS}"));
        }
        let numbers: Vec<u32> = (0..self.nodes as u32).filter(|node| self.of(*node) == Role::Host).collect();
        let node = |node: &u32, is_switch| Node { name: self.name(*node), is_switch };
        let switches = self.switches.iter().filter(|(_, role)| has(**role)).map(|(number, _)| number);
        let nodes = numbers.iter().map(|host| node(host, false)).chain(switches.map(|switch| node(switch, true)));
        Ok((Graph { nodes: nodes.collect(), links: Vec::new() }, numbers))
    }
}

/// The words of a file.
struct Words<'c> {
    words: Box<dyn Iterator<Item = (u64, &'c str)> + 'c>,
    /// The line of the latest word.
    line: u64,
}

impl<'c> Words<'c> {
    fn new(content: &'c str) -> Words<'c> {
        let lines = (1..).zip(content.lines());
        let words = lines.flat_map(|(line, text)| text.split_whitespace().map(move |word| (line, word)));
        Words { words: Box::new(words), line: 1 }
    }

    /// The next word, which is `what`.
    fn next(&mut self, what: &str) -> Result<&'c str, AtLine> {
        match self.words.next() {
            Some((line, word)) => {
                self.line = line;
                Ok(word)
            }
            None => Err((self.line, format!("the file ends before {what}"))),
        }
    }

    /// The next word as a whole number of at most `max`.
    fn count(&mut self, what: &str, max: u64) -> Result<u64, AtLine> {
        let word = self.next(what)?;
        let count = word.parse().ok().filter(|count| *count <= max);
        count.ok_or_else(|| (self.line, format!("{what} is `{word}`; accepted: a whole number from 0 to {max}")))
    }

    /// The next word as the number of a node.
    fn node(&mut self, what: &str, kinds: &Kinds) -> Result<u32, AtLine> {
        let word = self.next(what)?;
        let node = word.parse().ok().filter(|node| u64::from(*node) < kinds.nodes);
        let nodes = kinds.nodes;
        node.ok_or_else(|| {
            (self.line, format!("{what} is node `{word}`, but there are {nodes} nodes, numbered from 0"))
        })
    }

    /// Reads the numbers of `count` switches.
    fn switches(&mut self, count: u64, role: Role, kinds: &mut Kinds) -> Result<(), AtLine> {
        for index in 0..count {
            let what = format!("switch {} of {count}", index + 1);
            let node = self.node(&what, kinds)?;
            if kinds.switches.insert(node, role).is_some() {
                return Err((self.line, format!("the switch {node} is listed twice; once is enough")));
            }
        }
        Ok(())
    }

    /// Reads `count` links, and builds the topology.
    fn links(&mut self, count: u64, kinds: &Kinds, nvswitches: Nvswitches) -> Result<Read, AtLine> {
        let has = |role| role != Role::Nvswitch || nvswitches == Nvswitches::Keep;
        let (mut graph, numbers) = kinds.graph(has).map_err(|error| (1, error))?;
        let mut places: BTreeMap<u32, u32> = numbers.iter().copied().zip(0..).collect();
        let kept = kinds.switches.iter().filter(|(_, role)| has(**role)).map(|(number, _)| *number);
        places.extend(kept.zip(numbers.len() as u32..));
        // For each host, the line of its link and the other end.
        let mut links_of: BTreeMap<u32, (u64, u32)> = BTreeMap::new();
        for index in 0..count {
            let (ends, link) = self.link(&format!("link {} of {count}", index + 1), kinds)?;
            let [Some(a), Some(b)] = ends.map(|end| places.get(&end).copied()) else {
                continue; // the link of an NVSwitch that is left out
            };
            for (host, peer) in [(ends[0], ends[1]), (ends[1], ends[0])] {
                if kinds.of(host) == Role::Host
                    && let Some((line, other)) = links_of.insert(host, (self.line, peer))
                {
                    return Err((self.line, second_link(kinds, host, [(line, other), (self.line, peer)])));
                }
            }
            graph.links.push(Link { ends: [a, b], ..link });
        }
        Ok((graph, numbers))
    }

    /// Reads a link: its ends, rate, delay and loss. The ends in the returned `Link` are not valid yet.
    fn link(&mut self, what: &str, kinds: &Kinds) -> Result<([u32; 2], Link), AtLine> {
        let ends = [self.node(what, kinds)?, self.node(what, kinds)?];
        let at = |line: u64| move |error: String| (line, format!("{what}: {error}"));
        let names = || ends.map(|end| kinds.name(end));
        if ends[0] == ends[1] {
            return Err(at(self.line)(format!("joins node {} to itself; a link joins two nodes", ends[0])));
        }
        if ends.iter().all(|end| kinds.of(*end) == Role::Host) {
            let [a, b] = names();
            return Err(at(self.line)(format!("joins the hosts {a} and {b}; a host's link goes to a switch")));
        }
        let rate = self.next(what)?;
        let rate = parse_rate(rate).map_err(at(self.line))?;
        let delay = self.next(what)?;
        let delay = parse_delay(delay).map_err(at(self.line))?;
        let loss = self.next(what)?;
        let loss = parse_loss(loss).map_err(at(self.line))?;
        Ok((ends, Link { ends, rate, delay, loss }))
    }
}

/// The error that a host has two links.
fn second_link(kinds: &Kinds, host: u32, links: [(u64, u32); 2]) -> String {
    let [(first, a), (second, b)] = links;
    let (a, b) = (kinds.name(a), kinds.name(b));
    let message = format!("host h{host} has two links, to {a} (line {first}) and to {b} (line {second})");
    if a.starts_with("nv") != b.starts_with("nv") {
        format!(
            "{message}; a host has one link: with `nvswitches = \"omit\"` the NVSwitches are left out, and packets within a \
             server cross the network"
        )
    } else {
        format!("{message}; a host has one link")
    }
}

/// Parses a rate as ns-3 writes it: `100Gbps`, `2500Mbps`, `1.5Gb/s`, `12.5GBps` (bytes).
pub(super) fn parse_rate(text: &str) -> Result<BitRate, String> {
    let wrong = || format!("`{text}` is no rate; write for example `100Gbps`");
    let (number, unit) = split_unit(text);
    let unit = unit.strip_suffix("ps").or_else(|| unit.strip_suffix("/s")).ok_or_else(wrong)?;
    let (prefix, bits) = match (unit.strip_suffix('b'), unit.strip_suffix('B')) {
        (Some(prefix), _) => (prefix, 1),
        (_, Some(prefix)) => (prefix, 8),
        _ => return Err(wrong()),
    };
    let (decimals, binary) = match prefix {
        "" => (0, 1),
        "k" | "K" => (3, 1),
        "M" => (6, 1),
        "G" => (9, 1),
        "T" => (12, 1),
        "Ki" => (0, 1 << 10),
        "Mi" => (0, 1 << 20),
        "Gi" => (0, 1 << 30),
        _ => return Err(wrong()),
    };
    let number = decimal::scaled(number, decimals, true).map_err(|_| wrong())?;
    let bps = u128::from(number) * bits * binary;
    let rate = u64::try_from(bps).ok().map(BitRate::from_bps);
    let rate = rate.filter(|rate| Kind::Rate.accepts(&Value::Rate(*rate)));
    rate.ok_or_else(|| format!("the rate `{text}` is out of range; accepted: {}", Kind::Rate.range()))
}

/// Parses a delay as ns-3 writes it: `1000ns`, `0.0005ms`.
pub(super) fn parse_delay(text: &str) -> Result<Time, String> {
    let wrong = || format!("`{text}` is no delay; write for example `1000ns`");
    let (number, unit) = split_unit(text);
    let decimals = match unit {
        "ps" => 0,
        "ns" => 3,
        "us" => 6,
        "ms" => 9,
        "s" => 12,
        _ => return Err(wrong()),
    };
    let range = || format!("the delay `{text}` is out of range; accepted: {}", Kind::Time.range());
    match decimal::scaled(number, decimals, true) {
        Ok(ps) => Some(Time::from_ps(ps)).filter(|delay| Kind::Time.accepts(&Value::Time(*delay))).ok_or_else(range),
        Err(NotDecimal::Large | NotDecimal::Negative) => Err(range()),
        Err(NotDecimal::Syntax | NotDecimal::Finer) => Err(wrong()),
    }
}

/// Parses the probability that a link loses a packet.
fn parse_loss(text: &str) -> Result<f64, String> {
    let loss = text.parse().ok().filter(|loss| (0.0..1.0).contains(loss));
    loss.ok_or_else(|| format!("the error rate is `{text}`; accepted: a number of at least 0, below 1"))
}

/// Splits a quantity into its number and its unit. The `e` of an exponent belongs to the number.
fn split_unit(text: &str) -> (&str, &str) {
    let is_number = |c: char| c.is_ascii_digit() || matches!(c, '.' | '+' | '-' | 'e' | 'E');
    text.split_at(text.find(|c: char| !is_number(c)).unwrap_or(text.len()))
}
