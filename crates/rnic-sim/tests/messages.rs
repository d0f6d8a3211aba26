//! Simulated runs of message transports.

use crate::common::{outputs, read_scenario, scenario};
use rnic_sim::Catalogue;
use rnic_sim::resolve::resolve;
use rnic_spec::{RunOutput, RunStatus, Scenario};
use rnic_transport::Time;
use std::path::Path;

const WINDOW: &str = "p4:../../p4/window.p4";
const ALL: [&str; 8] = [
    "ndp",
    "homa",
    "homa-tr",
    "hpcc",
    WINDOW,
    "p4:../../p4/dcqcn.p4",
    "p4:../../p4/swift.p4",
    "p4:../../p4/ndp-dcqcn.p4",
];

const TREE: &str = r#"
[fabric]
topology = "fat-tree"
k = 4
rate = "40 Gbps"
delay = "1 us"
"#;
const STAR: &str = r#"
[fabric]
topology = "single-switch"
hosts = 3
rate = "40 Gbps"
delay = "2 us"
mtu = "1000 B"
frame_gap = "0 B"
"#;

/// Checks that all messages have arrived and that every packet is accounted for (otherwise the run would have failed).
fn check(scenario: &Scenario, output: &RunOutput, run: usize) {
    let name = &scenario.runs[run].name;
    assert_eq!(output.status, RunStatus::Completed, "{name}");
    assert!(!output.flows.is_empty(), "{name}");
    assert!(output.flows.iter().all(|flow| flow.finish.is_some() && flow.delivered == flow.bytes), "{name}");
    assert_eq!(output.totals.aborted, 0, "{name}");
}

#[test]
fn every_transport_in_every_pattern() {
    for traffic in [
        "pattern = \"poisson\"\nload = 0.7\nsizes = \"irn-heavy-tailed\"\nflows = 150",
        "pattern = \"incast\"\nsenders = 12\ntotal = \"1500 KB\"\nrepeats = 2",
        "pattern = \"incast\"\nsenders = 12\ntotal = \"600 KB\"\nrepeats = 2\ninterval = \"completion\"",
        "pattern = \"permutation\"\nsizes = \"uniform 1 B - 200 KB\"\nrepeats = 2\ninterval = \"50 us\"",
        "pattern = \"all-to-all\"\nsizes = \"fixed 9 KB\"\nrepeats = 1\ninterval = \"50 us\"",
        "pattern = \"pairs\"\npairs = 20\nsizes = \"fixed 30 KB\"\nmessages = 3",
    ] {
        let scenario = scenario(&format!("{TREE}\n[traffic]\n{traffic}"), &ALL, "").unwrap();
        for (run, output) in outputs(&scenario, 2).iter().enumerate() {
            check(&scenario, output, run);
        }
    }
}

/// All messages arrive with small buffers, with and without trimming, and with links that lose packets.
#[test]
fn everything_arrives_in_bad_weather() {
    let traffic = "[traffic]\npattern = \"incast\"\nsenders = 12\ntotal = \"1500 KB\"\nrepeats = 2";
    let mut trimmed = 0;
    for switch in [
        "switch = { buffer = \"30 KB\" }",
        "switch = { queueing = \"output\", buffer = \"20 KB\" }",
        "switch = { queueing = \"output\", buffer = \"20 KB\", trim = true }",
        "switch = { queueing = \"output\", buffer = \"9 KB\", trim = { return_to_sender = true } }\nloss = 0.01",
    ] {
        // The transport with a window of fixed size has no congestion control, so some of its messages wait long and
        // need many timeouts.
        let scenario = scenario(&format!("{TREE}\n{switch}\n{traffic}"), &ALL, "max_timeouts = 1000").unwrap();
        for (run, output) in outputs(&scenario, 2).iter().enumerate() {
            check(&scenario, output, run);
            assert!(output.totals.retransmitted > 0, "{}: {switch}", scenario.runs[run].name);
            trimmed += output.totals.trimmed;
        }
    }
    assert!(trimmed > 0);
}

/// Ten senders of NDP send ten packets of 1,064 bytes each; a packet takes 212.8 ns. Each sends
/// three packets unasked, so the receiver sends 70 PULLs, with 69 intervals between them.
#[test]
fn receivers_pull_at_the_given_rate() {
    let fabric = STAR.replace("hosts = 3", "hosts = 11");
    let traffic = "[traffic]\npattern = \"incast\"\nsenders = 10\ntotal = \"100 KB\"\nreceiver = 10";
    let text = format!("{fabric}\nswitch = {{ queueing = \"output\", trim = true }}\n{traffic}");
    let last = |rate: &str| {
        let scenario = scenario(&text, &["ndp", "p4:../../p4/ndp.p4"], &format!("rtt_packets = 3\n{rate}")).unwrap();
        let outputs = outputs(&scenario, 1);
        assert_eq!(outputs[0].flows, outputs[1].flows, "the P4 program has the same pace");
        outputs[0].flows.iter().map(|flow| flow.finish.unwrap()).max().unwrap()
    };
    assert_eq!(last("pull_rate = 1"), last(""));
    let (slow, half) = (last("pull_rate = 0.5"), last("pull_rate = 0.25"));
    assert!(last("") < slow);
    // From 0.5 to 0.25 of the line rate, each of the 69 intervals between PULLs grows by 425.6 ns.
    assert_eq!(half - slow, Time::from_ps(69 * 425_600));
    let refused = |rate: &str| scenario(&text, &["ndp"], rate).unwrap_err();
    assert!(refused("pull_rate = 0").contains("`pull_rate`"), "{}", refused("pull_rate = 0"));
}

/// A trimmed packet of Homa-Tr is retransmitted when its NACK arrives, or with the next GRANT of its message.
#[test]
fn a_trimmed_packet_may_wait_for_a_grant() {
    let fabric = STAR.replace("hosts = 3", "hosts = 11");
    let traffic = "[traffic]\npattern = \"incast\"\nsenders = 10\ntotal = \"400 KB\"\nreceiver = 10";
    let switch = "switch = { queueing = \"output\", buffer = \"40 KB\", trim = { headers = \"below\" } }";
    let text = format!("{fabric}\n{switch}\n{traffic}");
    let run = |keys: &str| {
        let scenario = scenario(&text, &["homa-tr"], &format!("rtt_packets = 9\n{keys}")).unwrap();
        let outputs = outputs(&scenario, 1);
        check(&scenario, &outputs[0], 0);
        assert!(outputs[0].totals.trimmed > 0);
        outputs.into_iter().next().unwrap().flows
    };
    assert_eq!(run(""), run("retransmit_on_grant = false"));
    assert_ne!(run(""), run("retransmit_on_grant = true"));
}

/// With PFC no packet is lost, so no packet is retransmitted.
#[test]
fn pauses_prevent_loss() {
    let traffic = "[traffic]\npattern = \"incast\"\nsenders = 12\ntotal = \"1500 KB\"\nrepeats = 1";
    let fabric = format!("{TREE}\nswitch = {{ buffer = \"120 KB\" }}\n{traffic}");
    let scenario = scenario(&fabric, &ALL, "pfc = true\nrto_high = \"50 ms\"").unwrap();
    for (run, output) in outputs(&scenario, 2).iter().enumerate() {
        check(&scenario, output, run);
        assert_eq!((output.totals.dropped, output.totals.retransmitted), (0, 0), "{}", scenario.runs[run].name);
    }
}

/// A message of three packets of 1,064, 1,064 and 564 bytes crosses a switch. A full packet takes 212.8 ns per link,
/// the last packet 112.8 ns, and each of the two links adds 2 us.
#[test]
fn a_lone_message_takes_what_its_bytes_take() {
    let list = |flows: &str| {
        format!("{STAR}\n[traffic]\npattern = \"poisson\"\nload = 0.0001\nsizes = \"{flows}\"\nflows = 1")
    };
    let scenario = scenario(&list("fixed 2500 B"), &ALL, "").unwrap();
    for (run, output) in outputs(&scenario, 1).iter().enumerate() {
        check(&scenario, output, run);
        let header = if scenario.runs[run].name == "hpcc" { 106 } else { 64 };
        let time = |payload: u64| (payload + header) * 200;
        let flow = output.flows.get(0).unwrap();
        // The switch stores and forwards packets: the last packet leaves after the full packets before it.
        let expected = 4_000_000 + 3 * time(1_000) + time(500);
        let taken = flow.finish.unwrap().saturating_sub(flow.start);
        assert_eq!(taken, Time::from_ps(expected), "{}", scenario.runs[run].name);
        assert_eq!((output.totals.data, output.totals.retransmitted), (3, 0));
    }
}

/// With one send buffer, the second message of a host starts when the sender knows that the first message has arrived.
#[test]
fn messages_wait_for_buffers() {
    let traffic = "[traffic]\npattern = \"incast\"\nsenders = 1\nconnections = 2\ntotal = \"20 KB\"\nreceiver = 1";
    let two = scenario(&format!("{STAR}\n{traffic}"), &ALL, "").unwrap();
    let one = scenario(&format!("{STAR}\n{traffic}"), &ALL, "tx_buffers = [{ size = \"10 KB\", count = 1 }]").unwrap();
    for (run, (two_buffers, one_buffer)) in outputs(&two, 1).iter().zip(outputs(&one, 1)).enumerate() {
        check(&two, two_buffers, run);
        check(&one, &one_buffer, run);
        let last = |output: &RunOutput| output.flows.iter().filter_map(|flow| flow.finish).max().unwrap();
        let waited = last(&one_buffer).saturating_sub(last(two_buffers));
        assert!(waited > Time::from_us(8), "a round trip of propagation at least, not {waited}");
    }
}

/// With one receive buffer and a long first message, the sender of the second message aborts it after `max_timeouts`
/// timeouts, and the run continues.
#[test]
fn messages_without_a_buffer_are_aborted() {
    let traffic = "[traffic]\npattern = \"incast\"\nsenders = 2\ntotal = \"4 MB\"\nreceiver = 0";
    let keys =
        "rx_buffers = [{ size = \"2 MB\", count = 1 }]\nrto_high = \"20 us\"\nmax_timeouts = 3\nrx_timeout = \"10 ms\"";
    let scenario = scenario(&format!("{STAR}\n{traffic}"), &ALL, keys).unwrap();
    for (run, output) in outputs(&scenario, 2).iter().enumerate() {
        let name = &scenario.runs[run].name;
        assert_eq!((&output.status, output.totals.aborted), (&RunStatus::Completed, 1), "{name}");
        let finished = output.flows.iter().filter(|flow| flow.finish.is_some()).count();
        assert_eq!(finished, 1, "{name}");
        let told = |what: &str| output.warnings.iter().any(|warning| warning.contains(what));
        assert!(told("1 message was aborted after 3 timeouts"), "{name}: {:?}", output.warnings);
        assert!(told("packets found no buffer"), "{name}");
    }
}

/// The output is the same on any number of threads, and differs with another seed.
#[test]
fn results_do_not_depend_on_threads() {
    let text = format!(
        "{TREE}\nswitch = {{ queueing = \"output\", buffer = \"30 KB\", trim = true }}\n[traffic]\npattern = \"poisson\"\nload = 0.8\nsizes = \"irn-heavy-tailed\"\nflows = 150"
    );
    let mut scenario = scenario(&text, &ALL, "").unwrap();
    let one = outputs(&scenario, 1);
    assert_eq!(one, outputs(&scenario, 2));
    scenario.runs.iter_mut().for_each(|run| run.seed = 2);
    assert!(outputs(&scenario, 2).iter().zip(&one).all(|(other, first)| other.flows != first.flows));
}

/// Wrong and impossible settings yield errors that name the setting.
#[test]
fn mistakes_are_named() {
    let traffic = "[traffic]\npattern = \"incast\"\nsenders = 2\ntotal = \"40 KB\"";
    let wrong = |transport: &str, keys: &str| match scenario(&format!("{STAR}\n{traffic}"), &[transport], keys) {
        Err(error) => error,
        Ok(scenario) => match resolve(&Catalogue::standard(), &scenario.runs[0]) {
            Err(error) => error.to_string(),
            Ok(_) => "accepted".to_string(),
        },
    };
    for (transport, keys, expected) in [
        ("ndp", "cc = \"dcqcn\"", "transport \"ndp\" controls congestion itself"),
        ("homa", "bdp_cap = 3", "`bdp_cap` belongs to transport \"roce\" or \"irn\" or \"uet\", not to \"homa\""),
        ("ndp", "overcommitment = 2", "`overcommitment` belongs to transport \"homa\" or \"homa-tr\", not to \"ndp\""),
        ("irn", "probe = true", "`probe` belongs to transport \"ndp\" or \"homa\""),
        ("ndp", "rtt_packets = 0", "`rtt_packets` is out of range: 0"),
        ("ndp", "tx_buffers = []", "no buffers at all"),
        ("ndp", "tx_buffers = [{ size = \"2 KB\" }]", "`count` is missing in a class of buffers"),
        (
            "ndp",
            "rx_buffers = [{ size = \"2 KB\", count = 9 }]",
            "a flow of 20000 bytes has no buffer: the largest of `rx_buffers` has 2000 bytes",
        ),
        ("hpcc", "eta = 1.5", "`eta` is out of range: 1.5"),
        ("homa", "unscheduled_priorities = 4\nscheduled_priorities = 5", "transport \"homa\" needs 9 priorities"),
        ("p4:nowhere.p4", "", "cannot read the P4 program `nowhere.p4`"),
        ("p4:Cargo.toml", "", "the P4 program `Cargo.toml` has"),
        (WINDOW, "constants = { NOTHING = 3 }", "the P4 program `../../p4/window.p4` has an error"),
        ("p5", "", "unknown"),
    ] {
        let error = wrong(transport, keys);
        assert!(error.contains(expected), "{transport}, {keys}: {error}");
    }
}

/// A faulty program may send wrong responses, send to unknown addresses, split a message, or send no header. The run
/// ends, and its warnings say what happened.
#[test]
fn a_program_may_do_anything() {
    let window = include_str!("../../../p4/window.p4");
    let folder = Path::new(env!("CARGO_TARGET_TMPDIR"));
    let own_message =
        "departure.tx_msg_id + (departure.pkt_offset << 16), (bit<32>) departure.payload,\n            0,";
    for (name, part, instead, told) in [
        ("reassembles-answers", "ACK : acknowledgement();", "ACK : data();", "belong to no flow"),
        (
            "answers-nobody",
            "ctrl_pkt_event({\n                    hdr.ipv4.src,",
            "ctrl_pkt_event({\n                    0,",
            "for no host",
        ),
        (
            "renames",
            "departure.tx_msg_id, departure.msg_len,\n            departure.pkt_offset,",
            own_message,
            "belong to no flow",
        ),
        ("beyond", "link.priority = 0;", "link.priority = 200;", "beyond the last one"),
        // A warning of the compiler.
        ("never-emits", "packet.emit(hdr.window);", "", "the deparser never emits it"),
    ] {
        assert!(window.contains(part), "{name}");
        std::fs::write(folder.join(format!("{name}.p4")), window.replace(part, instead)).unwrap();
        let text = format!(
            "{STAR}\n[traffic]\npattern = \"incast\"\nsenders = 2\ntotal = \"40 KB\"\n[limits]\nstall_time = \"1 ms\"\n[[run]]\nname = \"{name}\"\ntransport = \"p4:{name}.p4\"\nmax_timeouts = 3"
        );
        let scenario = read_scenario(&text, folder).unwrap();
        let output = &outputs(&scenario, 1)[0];
        assert!(output.warnings.iter().any(|warning| warning.contains(told)), "{name}: {:?}", output.warnings);
        assert!(output.flows.iter().all(|flow| flow.delivered <= flow.bytes), "{name}");
    }
}
