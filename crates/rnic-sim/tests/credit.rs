//! Credit of receivers (RCCC) in whole runs.

use crate::common::*;
use rnic_sim::Catalogue;
use rnic_sim::resolve::resolve;
use rnic_spec::{RunOutput, RunStatus};

/// One switch with trimming, hosts of 100 Gbps, packets of 4,000 bytes with headers; 2 us from host to host.
fn text(hosts: u32, traffic: &str) -> String {
    format!(
        "title = \"t\"\nseed = 3\n[fabric]\ntopology = \"single-switch\"\nhosts = {hosts}\nrate = \"100 Gbps\"\n\
         delay = \"1 us\"\nmtu = \"3900 B\"\nframe_gap = \"0 B\"\n[fabric.switch]\nqueueing = \"output\"\n\
         trim = {{ in_a_row = 0 }}\nbuffers = [\"100 KB\", \"100 KB\"]\n[traffic]\n{traffic}\n[transport]\nheader = \"100 B\"\n\
         ack_size = \"64 B\"\nnack_size = \"64 B\""
    )
}

fn run(text: &str, keys: &str, threads: usize) -> RunOutput {
    let [output] = <[RunOutput; 1]>::try_from(outputs(&scenario(text, &["uet"], keys).unwrap(), threads)).unwrap();
    assert!(matches!(output.status, RunStatus::Completed), "{:?}", output.status);
    assert_counts(&output);
    output
}

fn incast(senders: u32) -> String {
    let total = senders * 390;
    let pattern = format!("senders = {senders}\ntotal = \"{total} KB\"\nreceiver = \"random\"");
    text(senders + 1, &format!("pattern = \"incast\"\n{pattern}\nrepeats = 1\ninterval = \"1 s\""))
}

fn last_us(output: &RunOutput) -> f64 {
    output.flows.iter().filter_map(|flow| flow.finish).max().unwrap().as_ps() as f64 / 1e6
}

/// 100 packets of 320 ns each. Without speculative credit, the request (64 bytes over two links) needs 2,010.24 ns and
/// so does each grant. The pacer grants 4 packets each 4 x 320 / 0.99 ns = 1,292.929 ns; the last of 25 quanta leaves
/// 24 quanta after the first one. Its 4 packets follow each other at 320 ns, and the last one needs 2 x (1,000 + 320)
/// ns.
#[test]
fn a_lone_flow_by_hand() {
    let output = run(&incast(1), "cc = \"rccc\"\nrccc = { speculative = 0 }", 1);
    let expected = 2.01024 + 24.0 * 1.292_929 + 2.01024 + 3.0 * 0.32 + 2.64;
    assert!((last_us(&output) - expected).abs() < 0.002, "{} is not {expected}", last_us(&output));
    assert_eq!((output.totals.trimmed, output.totals.retransmitted), (0, 0));
}

/// Credit for n senders together is the link's rate: nothing is trimmed, and the last flow ends when n flows of 100
/// packets have passed at 0.99 of the link's rate.
#[test]
fn an_incast_shares_the_rate_without_trimming() {
    for senders in [2u32, 5, 20] {
        let output = run(&incast(senders), "cc = \"rccc\"\nrccc = { speculative = 0 }", 1);
        assert_eq!((output.totals.trimmed, output.totals.retransmitted), (0, 0), "{senders}");
        let quanta = f64::from(senders * 25);
        let expected = 2.01024 + (quanta - 1.0) * 1.292_929 + 2.01024 + 3.0 * 0.32 + 2.64;
        assert!((last_us(&output) - expected).abs() < 1.5, "{senders}: {} is not {expected}", last_us(&output));
        let first = output.flows.iter().filter_map(|flow| flow.finish).min().unwrap().as_ps() as f64 / 1e6;
        let apart = last_us(&output) - first;
        assert!(apart <= f64::from(senders) * 2.6, "{senders}: turns, so all end in the last two rounds: {apart}");
    }
}

/// Speculative packets may be trimmed, and are retransmitted with credit. NSCC beside it changes what is sent.
#[test]
fn trimmed_packets_are_retransmitted_with_credit() {
    let credit = run(&incast(20), "cc = \"rccc\"", 1);
    assert!(credit.totals.trimmed > 0 && credit.totals.retransmitted == credit.totals.trimmed, "{:?}", credit.totals);
    let both = run(&incast(20), "cc = \"rccc\"\nrccc = { nscc = true }", 1);
    assert_ne!(both, credit);
    let nscc = run(&incast(20), "cc = \"nscc\"", 1);
    assert!(nscc.totals.retransmitted > credit.totals.retransmitted, "{:?}", nscc.totals);
}

/// Links that lose data, requests and grants.
#[test]
fn lost_requests_and_grants_are_repeated() {
    let text = incast(8).replace("[fabric.switch]", "loss = 0.03\n[fabric.switch]");
    for keys in ["cc = \"rccc\"", "cc = \"rccc\"\nrccc = { speculative = 0, nscc = true }"] {
        let output = run(&text, keys, 1);
        assert!(output.totals.lost > 100, "{:?}", output.totals);
        assert_eq!(run(&text, keys, 3), output);
    }
}

#[test]
fn what_cannot_grant_credit_is_refused() {
    let refusal = |text: &str, transport: &str| match scenario(text, &[transport], "cc = \"rccc\"") {
        Err(error) => error,
        Ok(scenario) => resolve(&Catalogue::standard(), &scenario.runs[0]).err().unwrap().to_string(),
    };
    let error = refusal(&incast(3), "irn");
    let expected =
        "cc \"rccc\" needs credit of receivers, which transport \"irn\" does not grant; accepted: transport \"uet\"";
    assert!(error.contains(expected), "{error}");
    let graph = "title = \"t\"\n[fabric]\ntopology = \"graph\"\nhosts = 2\nswitches = 1\nrate = \"40 Gbps\"\n\
                 delay = \"1 us\"\nlink = [{ from = \"h0\", to = \"s0\" }, { from = \"h1\", to = \"s0\", rate = \"10 Gbps\" }]\n\
                 [traffic]\npattern = \"permutation\"\nsizes = \"fixed 9 KB\"\nrepeats = 1\ninterval = \"1 s\"";
    let expected = "cc \"rccc\" grants credit at one rate, but hosts have links of 10 Gbps to 40 Gbps; accepted: hosts with \
                    links of the same rate";
    assert_eq!(refusal(graph, "uet"), expected);
}
