//! Tests of the readers of topology files, with small files of each format.

use super::*;
use crate::format::{FatTreeShape, TopologyExport, write_topology};
use proptest::prelude::*;
use rnic_fabric::Topology;
use rnic_fabric::config::{FabricSpec, LinkSpec, SwitchSpec, TopologySpec};
use rnic_transport::{BitRate, Bytes, Time};

/// Four hosts on two switches, one of them with another rate and loss; then text that the simulator ignores.
const HPCC: &str = "6 2 5\n4 5\n0 4 100Gbps 1000ns 0.000000\n1 4 100Gbps 1000ns 0\n2 5 100Gbps 1us 0\n3 5 25Gb/s 0.001ms 0\n\
                    4 5 2.5GBps 217200ps 0.001\n\nThe first line has nodes, switches and links\n";

/// Two servers with two GPUs each: an NVSwitch in each server, a switch for each rail, and one above.
const SIMAI: &str = "9 2 2 3 10 H100\n4 5 6 7 8 \n0 4 2880Gbps 0.000025ms 0\n0 6 400Gbps 0.0005ms 0\n1 4 2880Gbps 0.000025ms 0\n\
                     1 7 400Gbps 0.0005ms 0\n2 5 2880Gbps 0.000025ms 0\n2 6 400Gbps 0.0005ms 0\n3 5 2880Gbps 0.000025ms 0\n\
                     3 7 400Gbps 0.0005ms 0\n6 8 400Gbps 0.0005ms 0\n7 8 400Gbps 0.0005ms 0\n";

/// Eight hosts in two pods, with faster links and slower switches higher up, and two links to each core switch.
const HTSIM: &str = "# mine\nNodes 8\nTiers 3\nPodsize 4\n\nTier 0\nDownlink_speed_Gbps 100\nRadix_Down 2\nRadix_Up 2\n\
                     Downlink_Latency_ns 1000\nSwitch_Latency_ns 100\nOversubscribed 1\nQueue_Down 1000\n\nTier 1\n\
                     downlink_speed_gbps 100\nRadix_Down 2\nRadix_Up 4\nDownlink_Latency_ns 2000\nSwitch_Latency_ns 300\n\n\
                     Tier 2\nDownlink_speed_Gbps 400\nRadix_Down 4\nBundle 2\nDownlink_Latency_ns 3000\n";

fn read(content: &str) -> Result<Imported, String> {
    parse_topology(content, Path::new("f"), None, Nvswitches::Keep)
}

fn names(imported: &Imported) -> String {
    imported.graph.nodes.iter().map(|node| node.name.as_str()).collect::<Vec<_>>().join(" ")
}

/// The links with the names of their ends, rates in Mbps and delays in picoseconds.
fn links(imported: &Imported) -> Vec<String> {
    let name = |end: u32| &imported.graph.nodes[end as usize].name;
    let link = |link: &crate::format::Link| {
        let [a, b] = link.ends;
        format!("{}-{} {} {} {}", name(a), name(b), link.rate.as_bps() / 1_000_000, link.delay.as_ps(), link.loss)
    };
    imported.graph.links.iter().map(link).collect()
}

#[test]
fn hpcc_files_are_read() {
    let imported = read(HPCC).unwrap();
    assert_eq!((imported.format, &imported.numbers[..]), (TopologyFormat::Hpcc, &[0, 1, 2, 3][..]));
    assert_eq!(names(&imported), "h0 h1 h2 h3 s4 s5");
    let expected = [
        "h0-s4 100000 1000000 0",
        "h1-s4 100000 1000000 0",
        "h2-s5 100000 1000000 0",
        "h3-s5 25000 1000000 0",
        "s4-s5 20000 217200 0.001",
    ];
    assert_eq!(links(&imported), expected);
}

#[test]
fn switches_may_have_the_first_numbers() {
    let imported = read("4 1 3\n0\n0 1 10Gbps 1us 0\n3 0 10Gbps 1us 0 2 0 10Gbps 1us 0").unwrap();
    assert_eq!((names(&imported).as_str(), &imported.numbers[..]), ("h1 h2 h3 s0", &[1, 2, 3][..]));
    assert_eq!(links(&imported)[1], "h3-s0 10000 1000000 0");
}

#[test]
fn simai_files_are_read_with_or_without_nvswitches() {
    let error = "f:4: host h0 has two links, to nv4 (line 3) and to s6 (line 4); a host has one link: with `nvswitches = \
                 \"omit\"` the NVSwitches are left out, and packets within a server cross the network";
    assert_eq!(read(SIMAI), Err(error.to_string()));
    let imported = parse_topology(SIMAI, Path::new("f"), None, Nvswitches::Omit).unwrap();
    assert_eq!((imported.format, names(&imported).as_str()), (TopologyFormat::Simai, "h0 h1 h2 h3 s6 s7 s8"));
    assert_eq!(links(&imported)[..2], ["h0-s6 400000 500000 0", "h1-s7 400000 500000 0"]);
    assert_eq!(links(&imported)[5], "s7-s8 400000 500000 0");
    // A file with NVSwitches alone: they are switches.
    let servers = "4 3 1 0 3 H20\n3\n0 3 900Gbps 25ns 0\n1 3 900Gbps 25ns 0\n2 3 900Gbps 25ns 0\n";
    assert_eq!(names(&read(servers).unwrap()), "h0 h1 h2 nv3");
}

#[test]
fn two_links_to_the_network_are_refused() {
    let dual = "4 1 0 2 3 H100\n2 3\n0 2 400Gbps 1us 0\n0 3 400Gbps 1us 0\n1 2 400Gbps 1us 0\n";
    let error = "f:4: host h0 has two links, to s2 (line 3) and to s3 (line 4); a host has one link";
    assert_eq!(read(dual), Err(error.to_string()));
}

#[test]
fn htsim_files_are_read() {
    let imported = read(HTSIM).unwrap();
    assert_eq!(imported.format, TopologyFormat::Htsim);
    assert_eq!(
        names(&imported),
        "h0 h1 h2 h3 h4 h5 h6 h7 tor0 tor1 tor2 tor3 agg0 agg1 agg2 agg3 core0 core1 core2 core3"
    );
    let links = links(&imported);
    // 8 links of hosts, 8 of four top-of-rack switches to two others each, 16 of four switches to two cores, twice.
    assert_eq!(links.len(), 8 + 8 + 16);
    // Half of a latency of 100 ns, or of 100 ns and 300 ns, or of 300 ns is added.
    assert_eq!(links[2], "h2-tor1 100000 1050000 0");
    assert_eq!(links[8..10], ["tor0-agg0 100000 2200000 0", "tor0-agg1 100000 2200000 0"]);
    assert_eq!(links[14], "tor3-agg2 100000 2200000 0");
    let of_agg1 = ["agg1-core1 400000 3150000 0", "agg1-core1 400000 3150000 0", "agg1-core3 400000 3150000 0"];
    assert_eq!(links[20..23], of_agg1);
    // From h0 to h7: links of 1, 2, 3, 3, 2 and 1 us, and switches of 100, 300, 0, 300 and 100 ns.
    let delay = 2 * (1_050_000 + 2_200_000 + 3_150_000);
    assert_eq!(delay, 12_800_000);
}

#[test]
fn bad_files_say_where_and_what() {
    for (content, error) in [
        (
            "hello",
            "f: the format of this topology file is unknown; the first line of HPCC's files has three numbers, of \
             SimAI's five numbers and a type of GPU, htsim's files begin with `Nodes`, and ASTRA-sim's with `topology:`",
        ),
        ("3 1 2\n", "f:1: the file ends before switch 1 of 1"),
        ("3 1 2\n2\n0 2 1Gbps 1us 0\n", "f:3: the file ends before link 2 of 2"),
        ("3 4 2\n", "f:1: the number of switches is `4`; accepted: a whole number from 0 to 3"),
        ("99999999999 4 2\n", "f:1: the number of nodes is `99999999999`; accepted: a whole number from 0 to 2000000"),
        ("3 1 99999999999\n", "f:1: the number of links is `99999999999`; accepted: a whole number from 0 to 10000000"),
        ("3 1 2\n3\n", "f:2: switch 1 of 1 is node `3`, but there are 3 nodes, numbered from 0"),
        ("3 2 2\n2 2\n", "f:2: the switch 2 is listed twice; once is enough"),
        ("3 1 1\n2\n0 1 1Gbps 1us 0\n", "f:3: link 1 of 1: joins the hosts h0 and h1; a host's link goes to a switch"),
        ("3 1 1\n2\n0 0 1Gbps 1us 0\n", "f:3: link 1 of 1: joins node 0 to itself; a link joins two nodes"),
        ("3 1 1\n2\n0 2 fast 1us 0\n", "f:3: link 1 of 1: `fast` is no rate; write for example `100Gbps`"),
        ("3 1 1\n2\n0 2 1Gbit 1us 0\n", "f:3: link 1 of 1: `1Gbit` is no rate; write for example `100Gbps`"),
        (
            "3 1 1\n2\n0 2 11Tbps 1us 0\n",
            "f:3: link 1 of 1: the rate `11Tbps` is out of range; accepted: more than zero, at most 10 Tbps",
        ),
        ("3 1 1\n2\n0 2 1Gbps 1000 0\n", "f:3: link 1 of 1: `1000` is no delay; write for example `1000ns`"),
        (
            "3 1 1\n2\n0 2 1Gbps 0ns 0\n",
            "f:3: link 1 of 1: the delay `0ns` is out of range; accepted: more than zero, at most 30 days",
        ),
        (
            "3 1 1\n2\n0 2 1Gbps 1us 1\n",
            "f:3: link 1 of 1: the error rate is `1`; accepted: a number of at least 0, below 1",
        ),
        (
            "3 1 1\n2\n0 2 1Gbps 1us nan\n",
            "f:3: link 1 of 1: the error rate is `nan`; accepted: a number of at least 0, below 1",
        ),
        ("3 1 1\n2\n0 2 1Gbps 1us 0\n", "f: the host h1 has no link; each host has exactly one"),
        (
            "4 2 2\n2 3\n0 2 1Gbps 1us 0\n1 3 1Gbps 1us 0\n",
            "f: no path joins the hosts h0 and h1; every host must reach every other",
        ),
        ("2 1 1\n1\n0 1 1Gbps 1us 0\n", "f: the topology has 1 hosts; a flow needs a sender and a receiver"),
        ("Nodes 4\n", "f: `Tiers` is missing; write it in the file"),
        ("Nodes 4\nTiers 1\nPodsize 4\n", "f:2: `tiers` is 1; accepted: 2 or 3"),
        ("Nodes 4\nTiers 4\nPodsize 4\n", "f:2: `tiers` is `4`; accepted: a whole number from 1 to 3"),
        ("Nodes 4\nNodes 4\n", "f:2: `nodes` is there twice, first on line 1; once is enough"),
        ("Nodes 4\nRadix_Up 4\n", "f:2: `radix_up` belongs to a tier; write `Tier 0` first"),
        ("Nodes 4\nTier 3\n", "f:2: tier `3` is unknown; accepted: 0, the tier above the hosts, to 2"),
        (
            "Nodes 4\nColor 3\n",
            "f:2: unknown key `color`; accepted: nodes, tiers, podsize, tier, downlink_speed_gbps, downlink_latency_ns, \
             radix_down, radix_up, switch_latency_ns, oversubscribed, bundle",
        ),
        ("Nodes 4 5\nTiers 2\n", "f:1: `Nodes 4 5` is not a setting; write a key and a value, such as `Nodes 16`"),
    ] {
        let format = content.starts_with("Nodes").then_some(TopologyFormat::Htsim);
        let read = parse_topology(content, Path::new("f"), format, Nvswitches::Keep);
        assert_eq!(read, Err(error.to_string()), "{content}");
    }
    let error = "f: `nvswitches` has no effect; only SimAI's topology files have NVSwitches";
    assert_eq!(parse_topology(HPCC, Path::new("f"), None, Nvswitches::Omit), Err(error.to_string()));
}

#[test]
fn trees_that_do_not_fit_together_are_refused() {
    for (old, new, error) in [
        (
            "Nodes 8",
            "Nodes 9",
            "f:4: the number of nodes, 9, is no multiple of the size of a pod, 4; accepted: a multiple",
        ),
        (
            "Radix_Down 2\nRadix_Up 2",
            "Radix_Down 3\nRadix_Up 2",
            "f:8: the size of a pod, 4, is no multiple of the number of hosts of a switch, 3; accepted: a multiple",
        ),
        (
            "Radix_Down 4\nBundle 2",
            "Radix_Down 2\nBundle 2",
            "f:24: a switch of tier 2 has 2 ports down for 2 switches with 2 links each; accepted: 4 ports",
        ),
        (
            "Oversubscribed 1",
            "Oversubscribed 2",
            "f:12: tier 0 is said to be oversubscribed 2:1, but 2 ports of 100 Gbps lead down and 2 ports of 100 Gbps \
             up; correct one of them",
        ),
        ("Bundle 2", "Bundle 2\nRadix_Up 2", "f:26: the highest tier has no links up; remove its `Radix_Up`"),
        ("Downlink_Latency_ns 3000", "", "f: `Downlink_Latency_ns` of tier 2 is missing; write it in the file"),
        ("Queue_Down 1000", "Bundle 2", "f:13: a host has 2 links; a host of rnic has exactly one"),
        (
            "Tiers 3",
            "Tiers 2",
            "f:4: a tree of two tiers has one pod, but 4 hosts are a pod, not all 8; write `Podsize 8`",
        ),
    ] {
        let content = HTSIM.replacen(old, new, 1);
        assert_ne!(content, HTSIM);
        assert_eq!(read(&content).unwrap_err(), error, "{content}");
    }
    let large = "Nodes 1000000\nTiers 2\nPodsize 1000000\nTier 0\nDownlink_speed_Gbps 1\nDownlink_Latency_ns 1\nRadix_Down 1\n\
                 Radix_Up 1000000\nTier 1\nDownlink_speed_Gbps 1\nDownlink_Latency_ns 1\nRadix_Down 1000000\n";
    let error = "f: the topology has 1000001000000 links; accepted: at most 10000000";
    assert_eq!(read(large), Err(error.to_string()));
}

/// The built topology as a graph.
fn built(topology: &TopologySpec, link: LinkSpec) -> Graph {
    let spec = FabricSpec::new(topology.clone(), link, SwitchSpec::input_queued(Bytes(0)));
    let built = Topology::build(&spec).unwrap();
    let node =
        |(number, name): (u32, &String)| crate::format::Node { name: name.clone(), is_switch: !built.is_host(number) };
    let link = |link: &rnic_fabric::topology::Link| crate::format::Link {
        ends: [link.a, link.b],
        rate: link.spec.rate,
        delay: link.spec.delay,
        loss: link.spec.loss,
    };
    Graph { nodes: (0..).zip(&built.names).map(node).collect(), links: built.links.iter().map(link).collect() }
}

#[test]
fn written_topologies_come_back() {
    let link = LinkSpec { rate: BitRate::from_gbps(100), delay: Time::from_ps(217_200), loss: 0.001 };
    for topology in [
        TopologySpec::FatTree { k: 4 },
        TopologySpec::Dumbbell { left: 2, right: 3, bottleneck_rate: None, bottleneck_delay: Some(Time::from_us(9)) },
    ] {
        let graph = built(&topology, link);
        let mut out = Vec::new();
        write_topology(&mut out, TopologyExport::Hpcc, &graph, None).unwrap();
        let imported = read(&String::from_utf8(out).unwrap()).unwrap();
        assert_eq!((&imported.graph.links, imported.graph.hosts()), (&graph.links, graph.hosts()));
    }
    let link = LinkSpec { loss: 0.0, delay: Time::from_us(1), ..link };
    let leaves = TopologySpec::LeafSpine {
        leaves: 4,
        spines: 2,
        hosts_per_leaf: 8,
        uplink_rate: None,
        uplink_delay: Some(Time::from_us(3)),
    };
    for topology in [TopologySpec::FatTree { k: 6 }, leaves] {
        let (graph, mut out) = (built(&topology, link), Vec::new());
        let shape = FatTreeShape::of(&topology, &link);
        write_topology(&mut out, TopologyExport::Htsim, &graph, shape.as_ref()).unwrap();
        let imported = read(&String::from_utf8(out).unwrap()).unwrap();
        // The core switches of a fat-tree have other numbers in htsim.
        let ends = |graph: &Graph| {
            let mut links: Vec<_> = graph.links.iter().map(|link| (link.ends[0], link.rate, link.delay)).collect();
            links.sort();
            links
        };
        assert_eq!(ends(&imported.graph), ends(&graph));
        assert_eq!(imported.graph.tiers(), graph.tiers());
    }
}

#[test]
fn quantities_of_ns3_are_exact() {
    for (text, bps) in [
        ("100Gbps", 100_000_000_000),
        ("0.1Mb/s", 100_000),
        ("2.5e3Kbps", 2_500_000),
        ("8bps", 8),
        ("1KiB/s", 8_192),
        ("1MBps", 8_000_000),
    ] {
        assert_eq!(super::ns3::parse_rate(text), Ok(BitRate::from_bps(bps)), "{text}");
    }
    for (text, ps) in [("1000ns", 1_000_000), ("0.000025ms", 25_000), ("1e-06s", 1_000_000), ("3ps", 3)] {
        assert_eq!(super::ns3::parse_delay(text), Ok(Time::from_ps(ps)), "{text}");
    }
    for text in ["", "Gbps", "1", "-1Gbps", "0bps", "1gbps", "1Gb", "1bits", "1é", "99999999999999999999Gbps"] {
        assert!(super::ns3::parse_rate(text).is_err(), "{text}");
    }
}

proptest! {
    /// Changes single bytes of valid files.
    #[test]
    fn damaged_files_never_panic(
        which in 0usize..3, omit: bool, changes in proptest::collection::vec((any::<u16>(), any::<u8>()), 0..8),
    ) {
        let mut bytes = [HPCC, SIMAI, HTSIM][which].as_bytes().to_vec();
        for (at, byte) in changes {
            let at = usize::from(at) % bytes.len();
            bytes[at] = byte;
        }
        let format = [TopologyFormat::Hpcc, TopologyFormat::Simai, TopologyFormat::Htsim][which];
        let nvswitches = if omit && which == 1 { Nvswitches::Omit } else { Nvswitches::Keep };
        let text = String::from_utf8_lossy(&bytes);
        if let Ok(imported) = parse_topology(&text, Path::new("f"), Some(format), nvswitches) {
            // What is read can be built.
            prop_assert_eq!(imported.graph.hosts(), imported.numbers.len());
            let nodes = imported.graph.nodes.len() as u32;
            prop_assert!(imported.graph.links.iter().all(|link| link.ends.iter().all(|end| *end < nodes)));
        }
        let _ = read(&text);
    }

    /// Replaces numbers of valid files by others.
    #[test]
    fn other_numbers_never_panic(which in 0usize..3, at in any::<u16>(), number in any::<u64>(), shift in 0u32..64) {
        let text = [HPCC, SIMAI, HTSIM][which];
        let is_number = |word: &&str| word.bytes().all(|byte| byte.is_ascii_digit());
        let words: Vec<&str> = text.split_whitespace().filter(is_number).collect();
        let word = words[usize::from(at) % words.len()];
        let changed = text.replacen(word, &(number >> shift).to_string(), 1 + usize::from(at % 3));
        let _ = read(&changed);
    }

    #[test]
    fn arbitrary_text_never_panics(content in "(Nodes|Tier|[0-9 .\n-]){0,60}") {
        let _ = read(&content);
    }
}
