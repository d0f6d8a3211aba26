//! Reads connection matrices of the simulator htsim (`.cm`) as flow lists.
//!
//! The file begins with headers: `Nodes N`, `Connections N`, and perhaps `Triggers N` and `Failures N`. Each further
//! line is one of these:
//!
//! - A connection: `src->dst`, then pairs of a word and a value. `size BYTES` is required, and either
//!   `start PICOSECONDS` or `trigger N`, the trigger that starts the connection. `send_done_trigger N` and
//!   `recv_done_trigger N` are the triggers that its end activates, at the sender and at the receiver. `id N` and
//!   `prio N` have no effect.
//! - A trigger: `trigger id N` and `oneshot`, `multishot`, or `barrier count N`.
//! - A link that is down: `failure switch_type AGG switch_id N link_id N`.
//!
//! Empty lines and lines that begin with `#` are comments.

use super::decimal::{self, PICOSECONDS};
use super::import::{Imported, TopologyFormat};
use super::list::{AtLine, Hosts, flow, number};
use rnic_spec::{Begin, FlowSpec, Trigger, TriggerKind, Triggered, TriggeredFlow, TriggeredPart};
use rnic_transport::Time;
use std::collections::{BTreeMap, BTreeSet};

/// The words with which the header lines of a connection matrix begin.
pub(super) const HEADERS: [&str; 4] = ["Nodes", "Connections", "Triggers", "Failures"];

/// A connection matrix.
#[derive(Clone, PartialEq, Debug, Default)]
pub(crate) struct Matrix {
    /// The connections, in the order of the file.
    pub flows: Vec<TriggeredFlow>,
    /// The triggers, in the order of the file.
    pub triggers: Vec<Trigger>,
    /// The links that are down.
    pub failures: Vec<Failure>,
    /// The lines of the connections and of the triggers.
    lines: [Vec<u64>; 2],
}

/// A link above an aggregation switch that is down from the beginning.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) struct Failure {
    /// Line of the file.
    line: u64,
    /// Number of the aggregation switch.
    switch: u32,
    /// Number of the link.
    link: u32,
}

/// A name of a trigger in a connection, whose definition may follow later in the file.
#[derive(Clone, Copy, Default)]
struct Names {
    begin: Option<u32>,
    sent: Option<u32>,
    received: Option<u32>,
}

/// Reads a connection matrix, for a network of `hosts` hosts.
pub(super) fn read(content: &str, hosts: u32) -> Result<Matrix, AtLine> {
    let lines = (1..).zip(content.lines()).map(|(number, line)| (number, line.trim()));
    let (mut matrix, mut names) = (Matrix::default(), Vec::new());
    let mut announced: BTreeMap<&str, (u64, u64)> = BTreeMap::new();
    for (line, text) in lines.filter(|(_, text)| !text.is_empty() && !text.starts_with('#')) {
        let words: Vec<&str> = text.split_whitespace().collect();
        let at = |error: String| (line, error);
        match words[..] {
            [header, count] if HEADERS.contains(&header) => {
                let count = number(header, count, u64::MAX).map_err(at)?;
                if header == "Nodes" && count > u64::from(hosts) {
                    return Err((
                        line,
                        format!("the file is for {count} nodes; the fabric has {hosts} hosts, too few"),
                    ));
                }
                announced.insert(header, (line, count));
            }
            [ends, ref rest @ ..] if ends.contains("->") => {
                let (flow, own) = connection(ends, rest, hosts).map_err(at)?;
                matrix.flows.push(flow);
                matrix.lines[0].push(line);
                names.push(own);
            }
            ["trigger", ref rest @ ..] => {
                let trigger = trigger(rest).map_err(at)?;
                if let Some(first) = matrix.triggers.iter().position(|other| other.id == trigger.id) {
                    let first = matrix.lines[1][first];
                    return Err((line, format!("trigger {} is defined twice, first on line {first}", trigger.id)));
                }
                matrix.triggers.push(trigger);
                matrix.lines[1].push(line);
            }
            ["failure", ref rest @ ..] => matrix.failures.push(failure(rest, line).map_err(at)?),
            _ => {
                return Err((
                    line,
                    format!("`{text}` is not a connection; write for example `0->5 start 12500000 size 1000000`"),
                ));
            }
        }
    }
    let counts = [
        ("Connections", "connections", matrix.flows.len()),
        ("Triggers", "triggers", matrix.triggers.len()),
        ("Failures", "failures", matrix.failures.len()),
    ];
    for (header, what, count) in counts {
        match announced.get(header) {
            Some((line, announced)) if *announced != count as u64 => {
                return Err((*line, format!("the line announces {announced} {what}, but the file has {count}")));
            }
            None if header == "Connections" || count > 0 => {
                return Err((1, format!("there is no line `{header} N`; write the number of {what}")));
            }
            _ => {}
        }
    }
    matrix.resolve(&names)?;
    Ok(matrix)
}

impl Matrix {
    /// Replaces the numbers of triggers in the file by their indices.
    fn resolve(&mut self, names: &[Names]) -> Result<(), AtLine> {
        let indices: BTreeMap<u32, u32> =
            (0..).zip(&self.triggers).map(|(index, trigger)| (trigger.id, index)).collect();
        for ((flow, names), line) in self.flows.iter_mut().zip(names).zip(&self.lines[0]) {
            let index = |id: u32| {
                let missing = || format!("trigger {id} is not defined; write for example `trigger id {id} oneshot`");
                indices.get(&id).copied().ok_or_else(|| (*line, missing()))
            };
            if let Some(id) = names.begin {
                flow.begin = Begin::Trigger(index(id)?);
            }
            flow.sent = names.sent.map(index).transpose()?;
            flow.received = names.received.map(index).transpose()?;
        }
        Ok(())
    }

    /// The flows that start at fixed times; `None` if the file has triggers.
    pub(crate) fn fixed(&self) -> Option<Vec<FlowSpec>> {
        let fixed = |flow: &TriggeredFlow| {
            let TriggeredFlow { src, dst, bytes, begin, .. } = *flow;
            let Begin::At(start) = begin else { return None };
            let request = FlowSpec::NO_REQUEST;
            Some(FlowSpec { start, src, dst, bytes, request, traffic: 0, measured: true, hash: None })
        };
        if self.triggers.is_empty() { self.flows.iter().map(fixed).collect() } else { None }
    }

    /// The flows with their triggers, which react to the end of a flow after `reaction`.
    ///
    /// # Errors
    /// A flow never starts, or a trigger has too few or too many activations.
    pub(crate) fn triggered(&self, reaction: Time, hosts: u32) -> Result<Triggered, AtLine> {
        let list =
            Triggered { flows: self.flows.as_slice().into(), triggers: self.triggers.as_slice().into(), reaction };
        list.check(hosts).map_err(|(part, error)| match part {
            TriggeredPart::Flow(index) => (self.lines[0][index], error),
            TriggeredPart::Trigger(index) => (self.lines[1][index], error),
            TriggeredPart::Whole => (1, error),
        })?;
        Ok(list)
    }

    /// The two ends of each link that is down, by their names in the topology file of htsim.
    ///
    /// # Errors
    /// The topology is not a file of htsim with three tiers, or has no such link.
    pub(crate) fn down_links(&self, imported: Option<&Imported>) -> Result<Vec<[String; 2]>, AtLine> {
        let Some(first) = self.failures.first() else { return Ok(Vec::new()) };
        let tree = imported.filter(|imported| imported.format == TopologyFormat::Htsim);
        let tree = tree.ok_or_else(|| {
            let error = "a failure names a switch of htsim's fat-tree, but the fabric is another one";
            (first.line, format!("{error}; accepted: `topology = \"file\"` with a topology file of htsim (.topo)"))
        })?;
        let uplinks = Uplinks::of(tree);
        let (mut links, mut seen) = (Vec::new(), BTreeSet::new());
        for failure in &self.failures {
            let link = uplinks.link(*failure).map_err(|error| (failure.line, error))?;
            if !seen.insert(link.clone()) {
                let [agg, core] = link;
                return Err((failure.line, format!("the link from {agg} to {core} is down twice; once is enough")));
            }
            links.push(link);
        }
        Ok(links)
    }
}

/// The links above the aggregation switches of htsim's tree.
struct Uplinks<'t> {
    /// For each aggregation switch, the core switches to which it has links, and the number of links.
    cores: BTreeMap<&'t str, BTreeMap<&'t str, u32>>,
    /// Number of aggregation switches of a pod.
    per_pod: u32,
}

impl Uplinks<'_> {
    fn of(tree: &Imported) -> Uplinks<'_> {
        let (mut cores, mut of_first) = (BTreeMap::<&str, BTreeMap<&str, u32>>::new(), BTreeSet::new());
        for link in &tree.graph.links {
            let [lower, upper] = link.ends.map(|end| tree.graph.nodes[end as usize].name.as_str());
            if lower.starts_with("agg") {
                *cores.entry(lower).or_default().entry(upper).or_default() += 1;
            } else if lower == "tor0" {
                of_first.insert(upper);
            }
        }
        Uplinks { cores, per_pod: of_first.len() as u32 }
    }

    /// The ends of a link that is down, as htsim finds them: of the aggregation switch at position p of a pod with n of
    /// them, link l leads to the core switch with the number p n + l, if it has a link to this switch.
    fn link(&self, failure: Failure) -> Result<[String; 2], String> {
        if self.cores.is_empty() {
            return Err("the topology has two tiers; a failure needs links above aggregation switches".to_string());
        }
        let (agg, position) = (format!("agg{}", failure.switch), failure.switch % self.per_pod.max(1));
        let cores = self.cores.get(agg.as_str());
        let cores =
            cores.ok_or_else(|| format!("switch_id is {}; accepted: 0 to {}", failure.switch, self.cores.len() - 1))?;
        let core = |link: u32| format!("core{}", u64::from(position) * u64::from(self.per_pod) + u64::from(link));
        let ports = cores.values().sum::<u32>();
        let parallel = |link: u32| cores.get(core(link).as_str()).copied().filter(|_| link < ports);
        match parallel(failure.link) {
            Some(1) => Ok([agg, core(failure.link)]),
            Some(parallel) => Err(format!(
                "{agg} and {} have {parallel} parallel links, of which htsim fails one; accepted: `Bundle 1`",
                core(failure.link)
            )),
            None => {
                let fitting: Vec<String> =
                    (0..ports).filter(|link| parallel(*link).is_some()).map(|link| link.to_string()).collect();
                Err(format!(
                    "htsim takes link_id {} of {agg} as its link to {}, which does not exist; accepted: {}",
                    failure.link,
                    core(failure.link),
                    if fitting.is_empty() { "no link_id".to_string() } else { fitting.join(", ") }
                ))
            }
        }
    }
}

/// The pairs of a word and a value.
fn pairs<'t>(rest: &'t [&'t str]) -> impl Iterator<Item = Result<(&'t str, &'t str), String>> {
    rest.chunks(2).map(|pair| match *pair {
        [word, value] => Ok((word, value)),
        _ => Err(format!("`{}` has no value", pair.concat())),
    })
}

/// Puts the value of a word into its place, which must be empty.
fn once<T>(place: &mut Option<T>, word: &str, value: T) -> Result<(), String> {
    match place.replace(value) {
        None => Ok(()),
        Some(_) => Err(format!("`{word}` is there twice; once is enough")),
    }
}

/// Parses the number of a trigger. htsim has no trigger 0.
fn trigger_id(word: &str, value: &str) -> Result<u32, String> {
    match number(word, value, u32::MAX.into())? {
        0 => Err(format!("{word} is 0; triggers count from 1")),
        id => Ok(id as u32),
    }
}

/// Reads a connection: `ends` are its hosts, `rest` are its further words.
fn connection(ends: &str, rest: &[&str], hosts: u32) -> Result<(TriggeredFlow, Names), String> {
    let (src, dst) = ends.split_once("->").unwrap_or((ends, ""));
    let (mut start, mut size, mut names) = (None, None, Names::default());
    for pair in pairs(rest) {
        let (word, value) = pair?;
        match word {
            "start" => once(&mut start, word, value)?,
            "size" => once(&mut size, word, value)?,
            "id" | "prio" => drop(number(word, value, u64::MAX)?),
            "trigger" => once(&mut names.begin, word, trigger_id(word, value)?)?,
            "send_done_trigger" => once(&mut names.sent, word, trigger_id(word, value)?)?,
            "recv_done_trigger" => once(&mut names.received, word, trigger_id(word, value)?)?,
            _ => {
                return Err(format!(
                    "unknown word `{word}`; accepted: start, trigger, size, send_done_trigger, recv_done_trigger, id, prio"
                ));
            }
        }
    }
    let missing = |word: &str| format!("the connection has no `{word}`; write for example `start 0 size 1000000`");
    let begin = match (start, names.begin) {
        (None, None) => return Err(missing("start")),
        (Some(_), Some(_)) => return Err("`start` and `trigger` are both given; accepted: one of them".to_string()),
        (None, Some(_)) => Time::ZERO,
        (Some(start), None) => decimal::parse(start, PICOSECONDS).map_err(|error| format!("start {error}"))?,
    };
    let FlowSpec { start, src, dst, bytes, .. } =
        flow([src, dst, size.ok_or_else(|| missing("size"))?], begin, Hosts::Count(hosts))?;
    Ok((TriggeredFlow { src, dst, bytes, begin: Begin::At(start), sent: None, received: None }, names))
}

/// Reads a trigger: its number, and when it starts its connections.
fn trigger(rest: &[&str]) -> Result<Trigger, String> {
    let (mut id, mut kind, mut count) = (None, None, None);
    let mut words = rest.iter();
    while let Some(word) = words.next() {
        match *word {
            "id" | "count" => {
                let value = words.next().ok_or_else(|| format!("`{word}` has no value"))?;
                let place = if *word == "id" { &mut id } else { &mut count };
                once(place, word, trigger_id(word, value)?)?;
            }
            "oneshot" | "multishot" | "barrier" => once(&mut kind, "type", *word)?,
            _ => {
                return Err(format!(
                    "unknown word `{word}`; accepted: id, count, and one of oneshot, multishot, barrier"
                ));
            }
        }
    }
    let id = id.ok_or("the trigger has no `id`; write for example `trigger id 1 oneshot`")?;
    let kind = match (kind, count) {
        (Some("barrier"), Some(count)) => TriggerKind::Barrier(count),
        (Some("barrier"), None) => {
            return Err(format!("the barrier {id} has no `count`; write the number of activations"));
        }
        (Some(kind), Some(_)) => {
            return Err(format!("`count` has no effect on trigger {id}, which is `{kind}`; remove it"));
        }
        (Some("oneshot"), None) => TriggerKind::Oneshot,
        (Some(_), None) => TriggerKind::Multishot,
        (None, _) => return Err(format!("trigger {id} has no type; accepted: oneshot, multishot, barrier")),
    };
    Ok(Trigger { id, kind })
}

/// Reads a failure of a link.
fn failure(rest: &[&str], line: u64) -> Result<Failure, String> {
    let (mut kind, mut switch, mut link) = (None, None, None);
    for pair in pairs(rest) {
        let (word, value) = pair?;
        match word {
            "switch_type" => once(&mut kind, word, value)?,
            "switch_id" => once(&mut switch, word, number(word, value, u32::MAX.into())? as u32)?,
            "link_id" => once(&mut link, word, number(word, value, u32::MAX.into())? as u32)?,
            _ => return Err(format!("unknown word `{word}`; accepted: switch_type, switch_id, link_id")),
        }
    }
    let missing =
        |word| format!("the failure has no `{word}`; write for example `switch_type AGG switch_id 0 link_id 0`");
    match kind.ok_or_else(|| missing("switch_type"))? {
        "AGG" => {
            let (switch, link) = (switch.ok_or_else(|| missing("switch_id"))?, link.ok_or_else(|| missing("link_id"))?);
            Ok(Failure { line, switch, link })
        }
        other => {
            Err(format!("switch_type is `{other}`; accepted: AGG, as in htsim, whose failures are links above them"))
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::format::{FlowExport, ListFormat, write_flows};
    use proptest::prelude::*;

    fn flow_at(ps: u64, src: u32, dst: u32, bytes: u64) -> FlowSpec {
        let (start, request) = (Time::from_ps(ps), FlowSpec::NO_REQUEST);
        FlowSpec { start, src, dst, bytes, request, traffic: 0, measured: true, hash: None }
    }

    #[test]
    fn connections_are_flows() {
        let content = "# a test\nNodes 4\nConnections 3\nTriggers 0\n\n0->3 start 0 size 2000000\n\
                       2->1 id 7 start 1e6 size 64 prio 3\r\n1->0 size 5 start 12500000.4 id 2\n";
        let expected = [flow_at(0, 0, 3, 2_000_000), flow_at(1_000_000, 2, 1, 64), flow_at(12_500_000, 1, 0, 5)];
        assert_eq!(read(content, 4).unwrap().fixed().unwrap(), expected);
    }

    #[test]
    fn triggers_start_connections() {
        let content = "Nodes 4\nConnections 4\nTriggers 2\n0->1 id 1 start 5 size 10 send_done_trigger 7\n\
                       1->2 id 2 trigger 7 size 20 recv_done_trigger 3\n2->3 id 3 start 0 size 30 recv_done_trigger 3\n\
                       3->0 id 4 trigger 3 size 40\ntrigger id 3 barrier count 2\ntrigger id 7 oneshot\n";
        let matrix = read(content, 4).unwrap();
        assert_eq!(matrix.fixed(), None);
        let list = matrix.triggered(Time::from_ns(200), 4).unwrap();
        let flow =
            |src, bytes, begin, sent, received| TriggeredFlow { src, dst: (src + 1) % 4, bytes, begin, sent, received };
        let expected = [
            flow(0, 10, Begin::At(Time::from_ps(5)), Some(1), None),
            flow(1, 20, Begin::Trigger(1), None, Some(0)),
            flow(2, 30, Begin::At(Time::ZERO), None, Some(0)),
            flow(3, 40, Begin::Trigger(0), None, None),
        ];
        assert_eq!(list.flows[..], expected);
        let kinds: Vec<_> = list.triggers.iter().map(|trigger| (trigger.id, trigger.kind)).collect();
        assert_eq!(kinds, [(3, TriggerKind::Barrier(2)), (7, TriggerKind::Oneshot)]);
    }

    #[test]
    fn bad_triggers_say_where_and_what() {
        let header = "Nodes 4\nConnections 2\nTriggers 1\n0->1 id 1 start 0 size 5 send_done_trigger 2\n";
        let error = |rest: &str| {
            let matrix = read(&format!("{header}{rest}"), 4);
            matrix.and_then(|matrix| matrix.triggered(Time::from_ns(200), 4)).unwrap_err()
        };
        let second = "1->2 id 2 trigger 2 size 5\n";
        for (rest, line, message) in [
            (
                format!("{second}trigger id 2 bar\n"),
                6,
                "unknown word `bar`; accepted: id, count, and one of oneshot, multishot, barrier",
            ),
            (
                format!("{second}trigger id 2 barrier\n"),
                6,
                "the barrier 2 has no `count`; write the number of activations",
            ),
            (
                format!("{second}trigger id 2 oneshot count 1\n"),
                6,
                "`count` has no effect on trigger 2, which is `oneshot`; remove it",
            ),
            (format!("{second}trigger id 0 oneshot\n"), 6, "id is 0; triggers count from 1"),
            (format!("{second}trigger id 2\n"), 6, "trigger 2 has no type; accepted: oneshot, multishot, barrier"),
            (
                format!("{second}trigger oneshot\n"),
                6,
                "the trigger has no `id`; write for example `trigger id 1 oneshot`",
            ),
            (format!("{second}trigger id 2 oneshot multishot\n"), 6, "`type` is there twice; once is enough"),
            (
                format!("{second}trigger id 3 oneshot\n"),
                4,
                "trigger 2 is not defined; write for example `trigger id 2 oneshot`",
            ),
            (second.to_string(), 3, "the line announces 1 triggers, but the file has 0"),
            (
                format!("{second}trigger id 2 barrier count 2\n"),
                6,
                "1 flows activate trigger 2, which is a `barrier` of 2; accepted: exactly 2 flows",
            ),
            (
                "1->2 id 2 start 0 trigger 2 size 5\n".to_string(),
                5,
                "`start` and `trigger` are both given; accepted: one of them",
            ),
            (
                format!("{second}trigger id 2 oneshot\ntrigger id 2 oneshot\n"),
                7,
                "trigger 2 is defined twice, first on line 6",
            ),
        ] {
            assert_eq!(error(&rest), (line, message.to_string()), "{rest}");
        }
    }

    #[test]
    fn failures_are_links_above_aggregation_switches() {
        let tiers = |lowest: &str| {
            format!(
                "Nodes 16\nTiers 3\nPodsize 4\nTier 0\nDownlink_speed_Gbps 100\nRadix_Down 2\nRadix_Up 2\nDownlink_Latency_ns 1000\n\
                 Tier 1\nDownlink_speed_Gbps 100\nRadix_Down 2\nRadix_Up {lowest}\nDownlink_Latency_ns 1000\n\
                 Tier 2\nDownlink_speed_Gbps 100\nRadix_Down 4\nDownlink_Latency_ns 1000\n"
            )
        };
        let path = std::path::Path::new("t.topo");
        let tree = crate::format::import::parse_topology(&tiers("2"), path, None, Default::default()).unwrap();
        let header = "Nodes 16\nConnections 1\nFailures 1\n0->5 start 0 size 5\n";
        let links = |failure: &str, tree: Option<&Imported>| {
            read(&format!("{header}failure {failure}\n"), 16).and_then(|matrix| matrix.down_links(tree))
        };
        let link = |agg: &str, core: &str| Ok(vec![[agg.to_string(), core.to_string()]]);
        // Switch 2 has position 0 of its pod and links to the core switches 0 and 2; switch 3 has 1 and 3.
        assert_eq!(links("switch_type AGG switch_id 2 link_id 0", Some(&tree)), link("agg2", "core0"));
        assert_eq!(links("switch_type AGG switch_id 3 link_id 1", Some(&tree)), link("agg3", "core3"));
        for (failure, tree, error) in [
            (
                "switch_type AGG switch_id 2 link_id 1",
                Some(&tree),
                "htsim takes link_id 1 of agg2 as its link to core1, which does not exist; accepted: 0",
            ),
            ("switch_type AGG switch_id 8 link_id 1", Some(&tree), "switch_id is 8; accepted: 0 to 7"),
            (
                "switch_type TOR switch_id 0 link_id 1",
                Some(&tree),
                "switch_type is `TOR`; accepted: AGG, as in htsim, whose failures are links above them",
            ),
            (
                "switch_type AGG switch_id 0",
                Some(&tree),
                "the failure has no `link_id`; write for example `switch_type AGG switch_id 0 link_id 0`",
            ),
            ("switch_type AGG where 0", Some(&tree), "unknown word `where`; accepted: switch_type, switch_id, link_id"),
            (
                "switch_type AGG switch_id 0 link_id 0",
                None,
                "a failure names a switch of htsim's fat-tree, but the fabric is another one; accepted: `topology = \"file\"` \
                 with a topology file of htsim (.topo)",
            ),
        ] {
            assert_eq!(links(failure, tree), Err((5, error.to_string())), "{failure}");
        }
    }

    #[test]
    fn bad_matrices_say_where_and_what() {
        for (content, line, error) in [
            ("Nodes 16\n", 1, "the file is for 16 nodes; the fabric has 4 hosts, too few"),
            ("Nodes x\n", 1, "Nodes `x` is not a whole number from 0 to 18446744073709551615"),
            ("Connections 2\n0->1 start 0 size 5\n", 1, "the line announces 2 connections, but the file has 1"),
            ("0->1 start 0 size 5\n", 1, "there is no line `Connections N`; write the number of connections"),
            (
                "Connections 1\n0-1 start 0\n",
                2,
                "`0-1 start 0` is not a connection; write for example `0->5 start 12500000 size 1000000`",
            ),
            (
                "Connections 1\n0->1 size 5\n",
                2,
                "the connection has no `start`; write for example `start 0 size 1000000`",
            ),
            (
                "Connections 1\n0->1 start 0\n",
                2,
                "the connection has no `size`; write for example `start 0 size 1000000`",
            ),
            ("Connections 1\n0->1 start 0 size\n", 2, "`size` has no value"),
            (
                "Connections 1\n0->1 start 0 color 5\n",
                2,
                "unknown word `color`; accepted: start, trigger, size, send_done_trigger, recv_done_trigger, id, prio",
            ),
            ("Connections 1\n0->1 start -1 size 5\n", 2, "start `-1` is negative; times count from 0"),
            ("Connections 1\n0->0 start 0 size 5\n", 2, "a flow from host 0 to itself; src and dst must differ"),
            ("Connections 1\n0->4 start 0 size 5\n", 2, "dst is host 4, but there are 4 hosts, numbered from 0"),
        ] {
            assert_eq!(read(content, 4).unwrap_err(), (line, error.to_string()), "{content}");
        }
    }

    proptest! {
        #[test]
        fn matrices_come_back_as_they_were(
            drawn in proptest::collection::vec((0u64..1_000_000_000_000, 0u32..6, 1u32..6, 1u64..1_000_000), 1..20),
        ) {
            let flow = |(ps, src, step, bytes): (u64, u32, u32, u64)| flow_at(ps, src, (src + step) % 6, bytes);
            let mut flows: Vec<FlowSpec> = drawn.into_iter().map(flow).collect();
            flows.sort_by_key(|flow| (flow.start, flow.src));
            let mut out = Vec::new();
            write_flows(&mut out, FlowExport::Htsim, flows.iter().copied(), 6, flows.len() as u64).unwrap();
            let text = String::from_utf8(out).unwrap();
            let path = std::path::Path::new("f");
            prop_assert_eq!(crate::format::list::parse_flow_list(&text, path, ListFormat::Htsim, 6), Ok(flows));
        }

        /// Changes single bytes of a valid matrix.
        #[test]
        fn damaged_matrices_never_panic(changes in proptest::collection::vec((any::<u16>(), any::<u8>()), 0..6)) {
            let valid = "Nodes 4\nConnections 2\nTriggers 1\n0->3 id 1 start 0 size 2000 send_done_trigger 1\n\
                         2->1 id 2 trigger 1 size 64\ntrigger id 1 oneshot\n";
            let mut bytes = valid.as_bytes().to_vec();
            for (at, byte) in changes {
                let at = usize::from(at) % bytes.len();
                bytes[at] = byte;
            }
            let matrix = read(&String::from_utf8_lossy(&bytes), 4);
            let _ = matrix.and_then(|matrix| matrix.triggered(Time::from_ns(200), 4));
        }
    }
}
