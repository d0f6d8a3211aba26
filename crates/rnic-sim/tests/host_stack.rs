//! TCP in the hosts' kernel: what its declared costs allow, by hand.

use crate::common::*;
use rnic_sim::Catalogue;
use rnic_sim::resolve::resolve;
use rnic_sim::run::simulate_run;
use rnic_spec::{RunOutput, RunStatus};
use rnic_transport::Time;

/// Endless flows to the last host of a switch with a shared buffer of 12 MB, and the payload that arrived in 20 ms, in
/// Gbps.
fn gbps(senders: u32, settings: &str) -> f64 {
    let text = format!(
        "[fabric]\ntopology = \"single-switch\"\nhosts = {}\nrate = \"40 Gbps\"\ndelay = \"500 ns\"\n\
         switch = {{ queueing = \"shared\" }}\n[limits]\nduration = \"20 ms\"\n[traffic]\npattern = \"incast\"\n\
         senders = {senders}\nreceiver = {senders}\ntotal = \"100 GB\"",
        senders + 1
    );
    let run = &scenario(&text, &["tcp"], settings).unwrap().runs[0];
    let catalogue = Catalogue::standard();
    let output: RunOutput = simulate_run(&catalogue, run, &resolve(&catalogue, run).unwrap());
    assert_eq!(output.status, RunStatus::Completed, "{:?}", output.warnings);
    assert_accounts(&output);
    let delivered: u64 = output.flows.iter().map(|flow| flow.delivered).sum();
    delivered as f64 * 8_000.0 / Time::from_ms(20).as_ps() as f64
}

/// With the default costs a core sends 89 Gbps and receives 42 Gbps. So the link of 40 Gbps limits one flow as well as
/// three: of 1,024 + 70 + 20 bytes 1,024 are payload, 36.8 Gbps.
#[test]
fn the_link_limits_the_flows() {
    for senders in [1, 3] {
        let (all, link) = (gbps(senders, ""), 40.0 * 1_024.0 / 1_114.0);
        assert!(all > 0.97 * link && all <= link, "{senders} senders: {all} Gbps of {link}");
    }
}

/// A core that needs 64 us for 64 KB moves 8.19 Gbps, whether it sends or receives. Latencies take no time of it.
#[test]
fn a_core_limits_its_flow() {
    for cost in ["send_cost", "receive_cost"] {
        let all = gbps(1, &format!("{cost} = \"64 us\"\nreceive_latency = \"50 us\""));
        let core = 65_536.0 * 8.0 / 64_000.0;
        assert!(all > 0.95 * core && all < 1.01 * core, "{cost}: {all} Gbps of {core}");
    }
}
