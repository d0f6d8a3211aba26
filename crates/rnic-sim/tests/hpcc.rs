//! HPCC on fabrics whose switches write in-band telemetry of their queues into packets.

use rnic_campaign::run_scenario;
use rnic_scenario::from_str;
use rnic_sim::Catalogue;
use rnic_sim::resolve::resolve;
use rnic_spec::Scenario;
use rnic_spec::{RunOutput, RunStatus};
use rnic_transport::Time;
use std::path::Path;

fn scenario(switch: &str, more: &str) -> Scenario {
    let text = format!(
        r#"
[fabric]
topology = "dumbbell"
left = 8
right = 1
rate = "100 Gbps"
delay = "1 us"
switch = {{ {switch} }}
{more}
[traffic]
pattern = "incast"
senders = 8
total = "16 MB"
receiver = 8
[watch]
interval = "5 us"
queues = ["left:right"]
[[run]]
name = "none"
transport = "irn"
bdp_fc = false
[[run]]
name = "hpcc"
transport = "irn"
bdp_fc = false
cc = "hpcc"
[[run]]
name = "roce"
transport = "roce"
cc = "hpcc"
"#
    );
    from_str(&text, "test.toml", Path::new("."), &[], None).unwrap()
}

fn outputs(scenario: &Scenario, threads: usize) -> Vec<RunOutput> {
    let reports = run_scenario(scenario, threads).unwrap();
    reports.into_iter().map(|report| report.output).collect()
}

#[test]
fn telemetry_takes_room_in_packets() {
    let scenario = scenario("buffer = \"20 MB\"", "");
    let [none, hpcc, roce] = [0, 1, 2].map(|run| resolve(&Catalogue::standard(), &scenario.runs[run]).unwrap());
    assert_eq!((none.flow.header, hpcc.flow.header, roce.flow.header), (78, 78 + 42, 62 + 42));
    assert_eq!((hpcc.host_config.ack_bytes, hpcc.host_config.nack_bytes), (66 + 42, 70 + 42));
    assert!(roce.flow.acks, "HPCC needs acknowledgements");
}

/// Eight senders start at the same time. Without congestion control, the bottleneck's queue holds all of the 16 MB that
/// it has not sent yet. With HPCC, flows begin at line rate too, but then the queue is near zero with every kind of
/// switch, and the link stays busy.
#[test]
fn an_incast_leaves_the_queue_near_zero() {
    for switch in
        ["buffer = \"20 MB\"", "queueing = \"shared\", buffer = \"40 MB\"", "queueing = \"output\", buffer = \"20 MB\""]
    {
        let scenario = scenario(switch, "");
        let outputs = outputs(&scenario, 2);
        let queue = |run: usize| &outputs[run].samples.as_ref().unwrap().queues[0].bytes;
        assert!(*queue(0).iter().max().unwrap() > 13_000_000, "{switch}");
        for run in [1, 2] {
            assert_eq!((&outputs[run].status, outputs[run].totals.dropped), (&RunStatus::Completed, 0), "{switch}");
            // Use the samples from 100 us on, which is after about 20 round trips.
            let later = &queue(run)[20..];
            let mean = later.iter().map(|bytes| u64::from(*bytes)).sum::<u64>() / later.len() as u64;
            assert!(mean < 30_000, "{switch}, run {run}: {mean} bytes on average");
            // The incast has 16 MB. In frames of 1,148 bytes, gap included, with 1,024 bytes of payload (RoCE), it
            // takes 1.43 ms at full rate, and 1.51 ms at 95 % of the rate.
            assert!(outputs[run].end < Time::from_us(1_800), "{switch}, run {run}: {}", outputs[run].end);
        }
    }
}

#[test]
fn spraying_is_warned_of_and_threads_change_nothing() {
    let scenario = scenario("buffer = \"20 MB\"", "paths = \"spray\"");
    assert_eq!(
        resolve(&Catalogue::standard(), &scenario.runs[1]).unwrap().warnings,
        ["`paths` = \"spray\": cc \"hpcc\" takes what it hears of several links for one"]
    );
    assert_eq!(outputs(&scenario, 1), outputs(&scenario, 3));
}
