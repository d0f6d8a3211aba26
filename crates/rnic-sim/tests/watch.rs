//! Tests of `[watch]`: samples of queues, links and flows.

use rnic_campaign::run_scenario;
use rnic_scenario::from_str;
use rnic_spec::RunOutput;
use std::path::Path;

/// Two hosts start at the same time to send 1 MB each to a third host.
fn scenario(transport: &str, watch: &str) -> String {
    format!(
        r#"
fabric = {{ topology = "single-switch", hosts = 3, rate = "40 Gbps", delay = "1 us", switch = {{ buffer = "3 MB" }} }}
traffic = {{ pattern = "incast", senders = 2, total = "2 MB", repeats = 1 }}
{watch}
[[run]]
name = "it"
transport = "{transport}"
"#
    )
}

fn run(text: &str) -> RunOutput {
    let scenario = from_str(text, "test.toml", Path::new("."), &[], None).unwrap();
    let mut reports = run_scenario(&scenario, 1).unwrap();
    reports.remove(0).output
}

const WATCH: &str = "watch = { interval = '10 us', start = '5 us', queues = ['s0:h0'], flows = true }";

#[test]
fn queues_grow_by_what_comes_less_what_goes() {
    // IRN without congestion control and BDP cap: both senders transmit at line rate until each has sent 1 MB.
    let text = scenario("irn", WATCH) + "bdp_fc = false\n";
    let output = run(&text);
    let samples = output.samples.unwrap();
    // Of every 1,122 bytes on the link, 1,024 are payload. The last packet of a sender leaves after 977 * 1,122 * 0.2
    // ns = 219 us.
    let queue = &samples.queues[0];
    assert_eq!(queue.name, "s0:h0");
    // From 5 us to 215 us, two packets arrive for each packet that leaves. Between two samples, 10 us apart, the queue
    // therefore grows by 10 us / 224.4 ns = 44.56 packets of 1,102 bytes.
    let packets: Vec<f64> = queue.bytes.iter().map(|bytes| f64::from(*bytes) / 1_102.0).collect();
    for (index, pair) in packets.windows(2).take(20).enumerate() {
        assert!((pair[1] - pair[0] - 44.56).abs() <= 1.0, "sample {index}: {pair:?}");
    }
    assert!(packets.iter().take(21).all(|packets| packets.fract() == 0.0), "whole packets");
    assert!(*packets.last().unwrap() < 45.0, "at the end little is left");
}

#[test]
fn flows_deliver_what_they_are() {
    for transport in ["irn", "roce", "iwarp"] {
        let output = run(&scenario(transport, WATCH));
        let samples = output.samples.as_ref().unwrap();
        assert_eq!(samples.flows.len(), 2);
        for flow in &samples.flows {
            assert_eq!(flow.first, 0);
            assert!(flow.delivered.is_sorted(), "{transport}");
            let record = &output.flows.get(flow.flow).unwrap();
            let ended = samples.at(flow.first + flow.delivered.len() as u32 - 1) > record.finish.unwrap();
            assert_eq!(*flow.delivered.last().unwrap() == record.bytes, ended, "{transport}");
        }
        // Both flows share the receiver's link. The payload is 1,024 of 1,106 bytes on the link with RoCE, of 1,122
        // bytes with IRN, and of 1,134 bytes with iWARP.
        let at = |index: usize| samples.flows.iter().map(|flow| flow.delivered[index]).sum::<u64>() as f64;
        let gbps = (at(20) - at(10)) * 8.0 / 100_000.0;
        let wire = match transport {
            "roce" => 1_106.0,
            "irn" => 1_122.0,
            _ => 1_134.0,
        };
        assert!((gbps - 40.0 * 1_024.0 / wire).abs() < 0.2, "{transport}: {gbps}");
    }
}

#[test]
fn watching_changes_nothing() {
    for transport in ["irn", "roce", "iwarp"] {
        let without = run(&scenario(transport, ""));
        let with = run(&scenario(transport, WATCH));
        assert_eq!((&without.flows, &without.ports, without.totals), (&with.flows, &with.ports, with.totals));
        assert_eq!((without.samples, without.end), (None, with.end));
    }
}

#[test]
fn what_cannot_be_watched_is_said() {
    let mistake = |watch: &str| {
        let text = scenario("irn", watch);
        match from_str(&text, "test.toml", Path::new("."), &[], None) {
            Err(error) => error.to_string(),
            Ok(scenario) => {
                let (_, error) = run_scenario(&scenario, 1).unwrap_err();
                error.to_string()
            }
        }
    };
    for (watch, expected) in [
        ("watch = { queues = 'all' }", "`interval` is missing"),
        ("watch = { interval = '0 us', queues = 'all' }", "interval"),
        ("watch = { interval = '1 us' }", "has nothing to look at"),
        ("watch = { interval = '1 us', queue = 'all' }", "unknown key `queue`"),
        ("watch = { interval = '1 us', queues = 'some' }", "queues"),
        (
            "watch = { interval = '1 us', queues = [3] }",
            "`queues` must list names, not an integer; write for example `queues = [\"s0:h0\"]`",
        ),
        (
            "watch = { interval = '1 us', queues = [' '] }",
            "`queues` has an empty name; write for example `queues = [\"s0:h0\"]`",
        ),
        (
            "limits = { duration = '1 ms' }\nwatch = { interval = '1 us', start = '1 ms', queues = 'all' }",
            "no sample would be taken: the run ends at its `duration` of 1 ms; let `start` be before `duration`",
        ),
        ("watch = { interval = '1 us', queues = ['s0'] }", "\"s0\" names no link"),
        ("watch = { interval = '1 us', queues = ['s0:h9'] }", "no node is called \"h9\""),
        ("watch = { interval = '1 us', queues = ['h0:h1'] }", "no link joins h0 and h1"),
        (
            "watch = { interval = '1 us', queues = ['h0:s0'] }",
            "\"h0:s0\" is a port of a host; write a port of a switch, such as s0:h0",
        ),
        ("watch = { interval = '1 us', queues = ['s0:h0', 's0:h0'] }", "queue \"s0:h0\" is named twice"),
        ("watch = { interval = '1 us', links = [] }", "has nothing to look at"),
        ("watch = { interval = '1 us', links = ['s0:h0', 's0:h0'] }", "link \"s0:h0\" is named twice"),
        ("watch = { interval = '1 us', links = ['h0:h1'] }", "no link joins h0 and h1"),
        ("watch = { interval = '1 us', links = ['s0'] }", "\"s0\" names no link"),
    ] {
        let text = mistake(watch);
        assert!(text.contains(expected), "{watch}: {text}");
    }
}

/// A single flow of 1,000 packets from h1 to h0 over a switch.
const ALONE: &str = r#"
fabric = { topology = "single-switch", hosts = 2, rate = "40 Gbps", delay = "1 us" }
traffic = { pattern = "incast", senders = 1, total = "1024 KB", repeats = 1 }
watch = { interval = "10 us", links = LINKS }
[[run]]
name = "it"
transport = "roce"
"#;

#[test]
fn one_flow_fills_the_links_on_its_path() {
    let output = run(&ALONE.replace("LINKS", "[\"h1:s0\", \"s0:h0\"]"));
    let samples = output.samples.as_ref().unwrap();
    let names: Vec<&str> = samples.links.iter().map(|link| link.name.as_str()).collect();
    assert_eq!(names, ["h1:s0", "s0:h0"]);
    // A packet has 1,024 bytes of payload, 62 of headers and a gap of 20: 1,106 bytes, or 221.2 ns. The host sends
    // 1,000 packets without a pause, from 0 to 221.2 us.
    let busy = |link: usize, index: usize| samples.links[link].busy_ps[index];
    for index in 0..=22 {
        assert_eq!(busy(0, index), index as u64 * 10_000_000, "sample {index}");
    }
    // The first packet arrives at the switch after its 221.2 ns and 1 us, so the switch sends from 1.2212 us on.
    assert_eq!((busy(1, 0), busy(1, 1), busy(1, 22)), (0, 10_000_000 - 1_221_200, 220_000_000 - 1_221_200));
    let utilisation = |link: usize| {
        let values = samples.links[link].utilisation(samples.interval).map(|(_, value)| value);
        values.collect::<Vec<f64>>()
    };
    assert_eq!(utilisation(0), [1.0; 22]);
    assert_eq!((utilisation(1)[0], utilisation(1)[1]), (0.87788, 1.0));
}

#[test]
fn all_links_are_both_directions_of_every_link() {
    let output = run(&ALONE.replace("LINKS", "\"all\""));
    let samples = output.samples.as_ref().unwrap();
    let names: Vec<&str> = samples.links.iter().map(|link| link.name.as_str()).collect();
    assert_eq!(names, ["h0:s0", "h1:s0", "s0:h0", "s0:h1"]);
    // At the end of the run the samples agree with the counters of the ports.
    for link in &samples.links {
        let port = output.ports.iter().find(|port| format!("{}:{}", port.node, port.peer) == link.name).unwrap();
        let last = *link.busy_ps.last().unwrap();
        assert!(link.busy_ps.is_sorted() && last <= port.busy.as_ps(), "{}", link.name);
    }
    let without = run(&ALONE.lines().filter(|line| !line.starts_with("watch")).collect::<Vec<_>>().join("\n"));
    assert_eq!((&without.flows, &without.ports, without.totals), (&output.flows, &output.ports, output.totals));
}
