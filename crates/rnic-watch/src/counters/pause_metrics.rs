//! Reads the pause times of transmitters from metrics of exporters, as input for [`suspects`](super::suspects).

use super::suspects::Transmitter;
use crate::input::{InputError, Place, read_file, shown};
use crate::lint::{LinkEnd, links};
use std::collections::BTreeMap;
use std::path::{Path, PathBuf};

/// The metric for the share of the last interval in which a transmitter was paused.
const METRIC: &str = "rnic_pfc_paused_ratio";
/// A node with at most this many links counts as a host.
const HOST_LINKS: usize = 2;

/// Identifies a transmitter: run (empty for real devices), node, port and priority.
type Key = (String, String, String, u8);

/// The transmitters of all nodes, by simulated run. The run is the label `run` of the metric; it is empty for metrics
/// of real devices, which do not have this label.
pub type Transmitters = BTreeMap<String, Vec<Transmitter>>;

/// Reads the last value of each transmitter from files in the format of Prometheus or OpenMetrics. Each file has the
/// metrics of one or several nodes. `cabling` is a file with all links, as for `rnic lint`. Without it, the name of a
/// port must contain both ends of its link as in a simulated run, `0->leaf1`.
///
/// # Errors
/// A file cannot be read or is malformed, or the link of a paused transmitter is unknown.
pub fn read(files: &[PathBuf], cabling: Option<&Path>) -> Result<Transmitters, InputError> {
    let mut values: BTreeMap<Key, (f64, usize)> = BTreeMap::new();
    for (file, path) in files.iter().enumerate() {
        for (number, line) in (1..).zip(read_file(path)?.lines()) {
            let Some(sample) = line.strip_prefix(METRIC) else { continue };
            let malformed = || {
                let message = format!("this is no sample of {METRIC} with the labels node, port and priority");
                InputError::line(&path.display().to_string(), number, message)
            };
            let (key, paused) = parse(sample).ok_or_else(malformed)?;
            // Samples of a simulated run are in order of time, so the last one is the latest.
            values.insert(key, (paused, file));
        }
    }
    let cabling = match cabling {
        Some(path) => Some((path, links(&read_file(path)?, &path.display().to_string())?)),
        None => None,
    };
    let peers: Option<BTreeMap<&LinkEnd, &str>> = cabling
        .as_ref()
        .map(|(_, links)| links.iter().flat_map(|[a, b]| [(a, b.0.as_str()), (b, a.0.as_str())]).collect());
    let mut transmitters = Transmitters::new();
    for ((run, node, port, priority), (paused, file)) in &values {
        let peer = match &peers {
            Some(peers) => peers.get(&(node.clone(), port.clone())).copied(),
            None => port.split_once("->").map(|(_, peer)| peer),
        };
        let Some(peer) = peer else {
            let help = match &cabling {
                Some((path, _)) => format!("{} has no such link", path.display()),
                None => "give a file with all links by --cabling".to_string(),
            };
            let message = format!("the peer of port {} of {} is not known: {help}", shown(port), shown(node));
            return Err(InputError::new(files[*file].display().to_string(), Place::File, message));
        };
        let (node, peer) = (node.clone(), peer.to_string());
        let one = Transmitter { node, peer, peer_is_host: false, priority: *priority, paused: *paused };
        transmitters.entry(run.clone()).or_default().push(one);
    }
    for of_run in transmitters.values_mut() {
        mark_hosts(of_run, cabling.as_ref().map(|(_, links)| links.as_slice()));
    }
    Ok(transmitters)
}

/// Marks the peers that are hosts: a node with few links is a host. Without the cabling, only links with metrics are
/// known. A node without metrics then also counts as a host if it is the peer of only one link.
fn mark_hosts(transmitters: &mut [Transmitter], links: Option<&[[LinkEnd; 2]]>) {
    let mut degrees: BTreeMap<String, Vec<String>> = BTreeMap::new();
    let mut joined = |a: &str, b: &str| {
        let peers = degrees.entry(a.to_string()).or_default();
        if !peers.iter().any(|peer| peer == b) {
            peers.push(b.to_string());
        }
    };
    match links {
        Some(links) => links.iter().for_each(|[a, b]| {
            joined(&a.0, &b.0);
            joined(&b.0, &a.0);
        }),
        None => transmitters.iter().for_each(|one| {
            joined(&one.node, &one.peer);
            joined(&one.peer, &one.node);
        }),
    }
    let most = if links.is_some() { HOST_LINKS } else { 1 };
    for one in transmitters {
        one.peer_is_host = degrees.get(&one.peer).is_none_or(|peers| peers.len() <= most);
    }
}

/// Parses the rest of a sample after its name: labels, value, and a time stamp, which is ignored.
fn parse(text: &str) -> Option<(Key, f64)> {
    let mut rest = text.strip_prefix('{')?;
    let mut labels: BTreeMap<&str, String> = BTreeMap::new();
    while !rest.starts_with('}') {
        let (name, quoted) = rest.split_once("=\"")?;
        let mut value = String::new();
        let mut chars = quoted.char_indices();
        let end = loop {
            match chars.next()? {
                (at, '"') => break at,
                (_, '\\') => match chars.next()?.1 {
                    'n' => value.push('\n'),
                    other => value.push(other),
                },
                (_, other) => value.push(other),
            }
        };
        labels.insert(name.trim_start_matches(','), value);
        rest = &quoted[end + 1..];
    }
    let paused: f64 = rest[1..].split_whitespace().next()?.parse().ok()?;
    let run = labels.remove("run").unwrap_or_default();
    let key = (run, labels.remove("node")?, labels.remove("port")?, labels.remove("priority")?.parse().ok()?);
    paused.is_finite().then_some((key, paused))
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn sample(node: &str, port: &str, paused: &str) -> String {
        format!("{METRIC}{{node=\"{node}\",port=\"{port}\",priority=\"3\",method=\"measured\"}} {paused}\n")
    }

    #[test]
    fn transmitters_are_read_with_their_peers() {
        let folder = tempfile::tempdir().unwrap();
        let file = |name: &str, text: &str| {
            let path = folder.path().join(name);
            std::fs::write(&path, text).unwrap();
            path
        };
        let text =
            ["# HELP x\n", &sample("leaf1", "Ethernet0", "0.5"), &sample("leaf1", "Ethernet0", "0.95 12.5")].concat();
        let metrics = [file("leaf1.txt", &text)];
        let cabling = "leaf1,Ethernet0,h1,eth0\nleaf1,Ethernet4,spine1,Ethernet0\nspine1,Ethernet4,leaf2,Ethernet4\n\
                       spine1,Ethernet8,leaf3,Ethernet4\n";
        let cabling = file("cabling.csv", cabling);
        let found = &read(&metrics, Some(&cabling)).unwrap()[""];
        assert_eq!(
            (found.len(), found[0].peer.as_str(), found[0].peer_is_host, found[0].paused),
            (1, "h1", true, 0.95)
        );
        let error = read(&metrics, None).unwrap_err().to_string();
        assert!(
            error
                .ends_with("the peer of port Ethernet0 of leaf1 is not known: give a file with all links by --cabling")
        );
        let unknown = [file("x.txt", &sample("x", "y", "1"))];
        assert!(read(&unknown, Some(&cabling)).unwrap_err().to_string().ends_with("cabling.csv has no such link"));
        let wrong = [file("wrong.txt", &format!("{METRIC}{{node=\"a\"}} 1\n"))];
        assert!(read(&wrong, None).unwrap_err().to_string().contains("wrong.txt:1: this is no sample"));
        let simulated = [file(
            "run.txt",
            &[sample("h0", "0->s0", "1"), sample("s0", "0->h0", "0"), sample("s0", "1->h1", "1")].concat(),
        )];
        let found = &read(&simulated, None).unwrap()[""];
        let hosts: Vec<_> = found.iter().map(|one| (one.node.as_str(), one.peer.as_str(), one.peer_is_host)).collect();
        assert_eq!(hosts, [("h0", "s0", false), ("s0", "h0", true), ("s0", "h1", true)]);
    }

    #[test]
    fn labels_may_contain_anything() {
        let text = "{run=\"a, \\\"b\\\"}\",node=\"x\\\\y\",port=\"p\\nq\",priority=\"0\"} 1";
        let ((run, node, port, priority), value) = parse(text).unwrap();
        assert_eq!(
            (run.as_str(), node.as_str(), port.as_str(), priority, value),
            ("a, \"b\"}", "x\\y", "p\nq", 0, 1.0)
        );
        for wrong in [
            "",
            "{",
            "{}",
            "{} 1",
            "{node=\"a\"",
            "{node=\"a\",port=\"b\",priority=\"3\"}",
            "{node=\"a\",port=\"b\",priority=\"300\"} 1",
        ] {
            assert_eq!(parse(wrong), None, "{wrong}");
        }
    }

    proptest! {
        #[test]
        fn any_text(text in "\\PC*") {
            let _ = parse(&text);
            let _ = parse(&format!("{{{text}"));
        }
    }
}
