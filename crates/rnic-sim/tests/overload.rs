//! Warnings about links to which the traffic offers more than their rates, with values worked out by hand.

use crate::common::{outputs, scenario};
use rnic_sim::Catalogue;
use rnic_sim::resolve::resolve;

/// Four leaves of 24 hosts with 25 Gbps, two uplinks of 100 Gbps for each leaf: 3:1.
const POD: &str = r#"
[fabric]
topology = "leaf-spine"
leaves = 4
spines = 2
hosts_per_leaf = 24
rate = "25 Gbps"
delay = "500 ns"
mtu = "4096 B"
uplink_rate = "100 Gbps"
switch = { queueing = "shared" }
"#;

const POISSON: &str = "[traffic]\npattern = \"poisson\"\nload = 0.8\nsizes = \"websearch\"\nflows = 100\n";

/// The warnings about overload of a run with RoCE.
fn warnings(text: &str) -> Vec<String> {
    let scenario = scenario(text, &["roce"], "").unwrap();
    let resolved = resolve(&Catalogue::standard(), &scenario.runs[0]).unwrap();
    resolved.warnings.into_iter().filter(|warning| warning.contains("overload: ")).collect()
}

/// The first part of the only warning.
fn warning(text: &str) -> String {
    let mut all = warnings(text);
    assert_eq!(all.len(), 1, "{all:?}");
    let only = all.remove(0);
    let (first, consequence) = only.split_once("; ").unwrap();
    assert_eq!(
        consequence,
        "queues grow for as long as flows start, so completion times depend on the number of flows, and do not describe a steady state"
    );
    first.to_string()
}

#[test]
fn uniform_traffic_overloads_the_uplinks_of_an_oversubscribed_fabric() {
    // 24 hosts of a leaf send 20 Gbps each, 72 / 95 of it to other leaves: 363.8 Gbps over two uplinks.
    let text = format!("{POD}{POISSON}");
    assert_eq!(
        warning(&text),
        "overload: the traffic offers 182 Gbps on average to the link leaf0:spine0 of 100 Gbps, 182 % of its rate, and too \
         much to 15 other links"
    );
    // At a load of 0.4 the uplinks have 91 Gbps each.
    assert_eq!(warnings(&text.replace("load = 0.8", "load = 0.4")), [""; 0]);
}

#[test]
fn a_failed_link_leaves_its_load_to_the_others() {
    let link = |keys: &str| format!("{POD}[[fabric.link]]\nfrom = \"leaf0\"\nto = \"spine1\"\n{keys}\n{POISSON}");
    // All of leaf 0's traffic goes up one link.
    assert_eq!(
        warning(&link("down = true")),
        "while leaf0:spine1 is down, overload: the traffic offers 364 Gbps on average to the link leaf0:spine0 of 100 Gbps, \
         364 % of its rate, and too much to 13 other links"
    );
    // Later the failure makes the overload worse, so it has a sentence of its own.
    let later = warnings(&link("down_at = \"1 ms\"\nup_at = \"2 ms\""));
    assert_eq!(later.len(), 2, "{later:?}");
    assert!(later[0].starts_with("overload: the traffic offers 182 Gbps"), "{later:?}");
    assert!(later[1].starts_with("while leaf0:spine1 is down, overload: the traffic offers 364 Gbps"), "{later:?}");
    // A link of a tenth of its rate.
    let slow = warnings(&link("slow_rate = \"10 Gbps\"").replace("load = 0.8", "load = 0.4"));
    assert!(slow[0].starts_with("while leaf0:spine1 is slow, overload: the traffic offers 90.9 Gbps"), "{slow:?}");
    assert!(slow[0].contains("of 10 Gbps, 909 % of its rate, and too much to another link"), "{slow:?}");
}

#[test]
fn routes_by_hand_are_followed() {
    let route = "[[fabric.route]]\nat = \"leaf1\"\nto = \"h0-h23\"\nvia = \"spine0\"\n";
    let text = format!("{POD}{route}{POISSON}").replace("load = 0.8", "load = 0.4");
    // A third of leaf 1's 181.9 Gbps is for leaf 0 and takes one uplink, the rest both: 60.6 + 121.3 / 2.
    assert!(warning(&text).starts_with(
        "overload: the traffic offers 121 Gbps on average to the link leaf1:spine0 of 100 Gbps, 121 % of its rate"
    ));
}

#[test]
fn incasts_overload_the_link_of_their_receiver() {
    let incast = |interval: &str| {
        format!(
            "{POD}[[traffic]]\nname = \"storage\"\npattern = \"incast\"\nsenders = 48\ntotal = \"2 MB\"\nrepeats = 50\n\
             receiver = 0\ninterval = \"{interval}\"\n"
        )
    };
    // 48 flows of 41,667 bytes have 11 packets of 82 bytes of headers and gap: 2,043,296 bytes in 500 us.
    assert_eq!(
        warning(&incast("500 us")),
        "overload: the traffic offers 32.7 Gbps on average to the link leaf0:h0 of 25 Gbps, 131 % of its rate"
    );
    assert_eq!(warnings(&incast("700 us")), [""; 0]);
    // Sources add up: 20 Gbps of the Poisson source come to each host besides.
    let both = incast("2 ms") + &POISSON.replace("[traffic]", "[[traffic]]").replace("load = 0.8", "load = 0.39");
    assert_eq!(warnings(&both), [""; 0], "8.2 + 9.75 Gbps");
    let both = both.replace("interval = \"2 ms\"", "interval = \"1 ms\"");
    assert!(warning(&both).contains("26.1 Gbps on average to the link leaf0:h0"), "16.3 + 9.75 Gbps");
}

#[test]
fn closed_loops_and_single_bursts_have_no_offered_load() {
    let pairs = "[traffic]\npattern = \"pairs\"\npairs = 200\nsizes = \"fixed 1 MB\"\nmessages = 2\n";
    let burst = "[traffic]\npattern = \"all-to-all\"\nsizes = \"fixed 1 MB\"\n";
    for traffic in [pairs, burst] {
        assert_eq!(warnings(&format!("{POD}{traffic}")), [""; 0], "{traffic}");
    }
}

/// The loads are those that a long run measures, below the rates of all links.
#[test]
fn a_run_measures_the_load_that_was_computed() {
    let star = "[fabric]\ntopology = \"single-switch\"\nhosts = 4\nrate = \"40 Gbps\"\ndelay = \"1 us\"\n";
    let traffic = "[traffic]\npattern = \"poisson\"\nload = 0.6\nsizes = \"fixed 20 KB\"\nflows = 6000\n";
    let output = outputs(&scenario(&format!("{star}{traffic}"), &["irn"], "").unwrap(), 1).remove(0);
    let seconds = output.end.as_ps() as f64 / 1e12;
    let sent: u64 = output.ports.iter().filter(|port| port.node == "s0").map(|p| p.priorities[0].tx_bytes).sum();
    let packets: u64 = output.ports.iter().filter(|port| port.node == "s0").map(|p| p.priorities[0].tx_packets).sum();
    // IRN's packets have 16 bytes more than those of `load`, and every packet has an ACK of 66 bytes; gaps of 20 bytes.
    let (payload, frame) = (20_000.0, 20_000.0 + 20.0 * 98.0);
    let offered = 0.6 * 40e9 * 4.0 * (frame + 20.0 * 86.0) / (payload + 20.0 * 82.0);
    let measured = (sent + 20 * packets) as f64 * 8.0 / seconds;
    assert!((measured / offered - 1.0).abs() < 0.05, "{measured} {offered}");
}
