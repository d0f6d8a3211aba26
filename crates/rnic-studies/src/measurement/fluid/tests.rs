//! Compares the fluid model of DCQCN with packet-level runs.

use super::*;
use rnic_model::series::FlowSeries;
use rnic_scenario::from_str;
use rnic_sim::Catalogue;
use rnic_sim::resolve::resolve;
use rnic_sim::run::simulate_run;
use std::path::Path;

const SWITCH: &str = r#"fabric = { topology = "single-switch", hosts = 5, rate = "40 Gbps", delay = "500 ns", mtu = "1438 B", switch = { queueing = "shared", ecn = { mark_on = "dequeue" } } }"#;
const INCAST: &str = r#"traffic = { pattern = "incast", senders = 2, total = "10 GB" }"#;
const WATCH: &str = r#"watch = { interval = "500 us", queues = ["s0:h0"], flows = true }"#;

fn run(fabric: &str, traffic: &str, watch: &str, keys: &str) -> Result<FluidComparison, String> {
    let text = format!(
        "{fabric}\n{watch}\nlimits = {{ duration = \"60 ms\" }}\n{traffic}\n[[run]]\nname = \"it\"\ntransport = \"roce\"\n{keys}\n"
    );
    let scenario = from_str(&text, "test.toml", Path::new("."), &[], None).unwrap();
    let run = &scenario.runs[0];
    let resolved = resolve(&Catalogue::standard(), run).unwrap();
    let samples = simulate_run(&Catalogue::standard(), run, &resolved).samples.unwrap();
    compare_with_fluid(run, &resolved, &samples)
}

const DCQCN: &str = "cc = \"dcqcn\"";

#[test]
fn parameters_by_hand() {
    let both = run(SWITCH, INCAST, WATCH, DCQCN).unwrap();
    // A frame takes 1,520 bytes on the link, and 1,500 of them count in the model: 40 Gbps x 1,500 / 1,520.
    assert_eq!(both.model.rate, BitRate::from_bps(39_473_684_210));
    assert_eq!(both.model.packet, Bytes(1_500));
    // Each of the two links adds twice 500 ns of delay, and 1,520 bytes of data and 98 bytes of CNP at 200 ps per byte.
    assert_eq!(both.model.delay, Time::from_ps(2 * (1_000_000 + 304_000 + 19_600)));
    assert_eq!((both.model.cnp_interval, both.model.rate_timer), (Time::from_us(50), Time::from_us(55)));
    assert_eq!((both.bottleneck.as_str(), both.flows.len(), both.times.len()), ("s0:h0", 2, 119));
    assert!((both.share / 1e9 - 40.0 * 1_438.0 / 1_520.0 / 2.0).abs() < 1e-6);
    // With marking on enqueue, a marked packet waits in the queue: the delay grows by the time to drain the fixed
    // point's queue at 39.47 Gbps.
    let enqueue = run(&SWITCH.replace("dequeue", "enqueue"), INCAST, WATCH, DCQCN).unwrap();
    let wait = (enqueue.model.delay - both.model.delay).as_secs();
    assert!((wait - both.fixed_point.queue * 8.0 / 39.4737e9).abs() < 1e-9, "{wait}");
}

/// In the steady state, run and model have nearly the same goodput per flow, sum of goodputs and queue length.
#[test]
fn run_and_model_agree_in_the_steady_state() {
    for senders in [2, 4] {
        let traffic = INCAST.replace("senders = 2", &format!("senders = {senders}"));
        let both = run(SWITCH, &traffic, WATCH, DCQCN).unwrap();
        for flow in &both.flows {
            assert!((flow.model_steady / both.share - 1.0).abs() < 0.02, "{senders}: {flow:?}");
            assert!((flow.packets_steady / both.share - 1.0).abs() < 0.15, "{senders}: {flow:?}");
        }
        let sum: f64 = both.flows.iter().map(|flow| flow.packets_steady).sum();
        assert!((0.97..=1.001).contains(&(sum / both.share / f64::from(senders))), "{senders}: {sum}");
        assert!(both.fixed_point.is_valid());
        assert!((both.queue.model_steady / both.fixed_point.queue - 1.0).abs() < 0.1, "{senders}: {:?}", both.queue);
        let packets = both.queue.packets_steady.unwrap() / both.fixed_point.queue;
        assert!((0.6..1.6).contains(&packets), "{senders}: {packets}");
        assert!(both.difference < 0.25, "{senders}: {}", both.difference);
    }
}

/// The second flow starts later; until then, the first flow has the bottleneck for itself.
#[test]
fn a_later_flow() {
    let list = r#"[[traffic]]
name = "first"
pattern = "incast"
senders = 1
total = "10 GB"
[[traffic]]
name = "second"
pattern = "incast"
senders = 1
total = "10 GB"
start = "20 ms""#;
    let both = run(SWITCH, list, WATCH, DCQCN).unwrap();
    // The first flow has the whole bottleneck before the second one starts.
    assert!((both.flows[0].model[38] / (2.0 * both.share) - 1.0).abs() < 1e-6);
    assert!((both.flows[0].packets[38] / (2.0 * both.share) - 1.0).abs() < 0.01);
    assert_eq!((both.flows[1].model[38], both.flows[1].packets[38]), (0.0, 0.0));
    assert_eq!(both.flows[1].start, Time::from_ms(20));
    // The steady state is the second half of the 80 intervals after 20 ms, when both flows are active.
    assert_eq!(both.steady_from, 40 + 39);
    // When the second flow starts, the alpha of the first flow has decayed in the model but not in the run. The model's
    // flow therefore reduces its rate later.
    assert!(both.difference < 0.35, "{}", both.difference);
}

/// The model takes the bottleneck and the control delay from the explicit routes of the run.
#[test]
fn the_model_uses_the_routes_of_the_run() {
    let triangle = |route: &str| {
        format!(
            r#"fabric = {{ topology = "graph", hosts = 3, switches = 3, rate = "40 Gbps", delay = "500 ns", mtu = "1438 B", switch = {{ queueing = "shared", ecn = {{ mark_on = "dequeue" }} }}, link = [{}]{route} }}"#,
            [("h0", "s0"), ("h1", "s0"), ("h2", "s1"), ("s0", "s1"), ("s1", "s2"), ("s2", "s0")]
                .map(|(from, to)| format!("{{ from = \"{from}\", to = \"{to}\" }}"))
                .join(", ")
        )
    };
    let incast = INCAST.replace("senders = 2", "senders = 2, receiver = 2");
    let around = r#", route = [{ at = "s0", to = "h2", via = "s2" }]"#;
    let watch = WATCH.replace("s0:h0", "s1:h2");
    let both = [run(&triangle(""), &incast, &watch, DCQCN), run(&triangle(around), &incast, &watch, DCQCN)];
    let [short, long] = both.map(Result::unwrap);
    assert_eq!((short.bottleneck.as_str(), long.bottleneck.as_str()), ("s0:s1", "s0:s2"));
}

#[test]
fn runs_outside_the_model_are_refused() {
    let reason = |fabric: &str, traffic: &str, watch: &str, keys: &str| run(fabric, traffic, watch, keys).unwrap_err();
    assert_eq!(
        reason(SWITCH, INCAST, WATCH, "cc = \"dctcp\""),
        "the run has cc \"dctcp\", but the model covers only cc \"dcqcn\""
    );
    let no_flows = WATCH.replace("true", "false");
    assert!(reason(SWITCH, INCAST, &no_flows, DCQCN).starts_with("too few samples"));
    let short = INCAST.replace("10 GB", "20 MB");
    assert!(
        reason(SWITCH, &short, WATCH, DCQCN).ends_with(" finishes in the run, but flows of the model never finish")
    );
    let unmarked = SWITCH.replace("{ mark_on = \"dequeue\" }", "false");
    assert_eq!(reason(&unmarked, INCAST, WATCH, DCQCN), "the switches of the run do not mark packets (ECN is off)");
    assert_eq!(
        reason(SWITCH, INCAST, WATCH, &format!("{DCQCN}\nmax_rate = \"10 Gbps\"")),
        "the run has max_rate = \"10 Gbps\", but flows of the model send at up to the bottleneck's rate"
    );
    assert_eq!(
        reason(SWITCH, INCAST, WATCH, &format!("{DCQCN}\nbdp_cap = 100")),
        "the run limits the packets in flight, but the model does not"
    );
    let lossy = SWITCH.replace("delay", "loss = 0.001, delay");
    assert!(reason(&lossy, INCAST, WATCH, DCQCN).ends_with("loses packets, but the model has no loss"));
    let slow = SWITCH.replace("switch =", "link = [{ from = \"h0\", to = \"s0\", rate = \"10 Gbps\" }], switch =");
    assert_eq!(
        reason(&slow, INCAST, WATCH, DCQCN),
        "a host's link has 40 Gbps, the bottleneck 10 Gbps; the model has one rate for both"
    );
    let closed = INCAST.replace("10 GB\"", "10 GB\", interval = \"completion\"");
    assert_eq!(
        reason(SWITCH, &closed, WATCH, DCQCN),
        "traffic \"incast\" is a closed loop, but flows of the model start at given times"
    );
    let storm =
        SWITCH.replace("switch =", "storm = [{ host = \"h0\", start = \"1 ms\", duration = \"1 ms\" }], switch =");
    assert_eq!(
        reason(&storm, INCAST, WATCH, &format!("{DCQCN}\npfc = true")),
        "the run has a pause storm (`[[fabric.storm]]`), but the model has no pauses"
    );
    let permutation = r#"traffic = { pattern = "permutation", sizes = "fixed 10 GB" }"#;
    assert_eq!(reason(SWITCH, permutation, WATCH, DCQCN), "the flows have no common output of a switch");
}

#[test]
fn means_of_a_broken_line_by_hand() {
    let time = [0.0, 1.0, 3.0];
    let values = [0.0, 4.0, 2.0];
    // From 0.5 to 1 the value rises from 2 to 4, which is an area of 1.5. From 1 to 2 it falls from 4 to 3, which
    // is an area of 3.5.
    assert_eq!(mean_between(&time, &values, 0.5, 2.0), 5.0 / 1.5);
    // From 2 to 3 the area is 2.5. From 3 to 5 the value is constant, which is an area of 4.
    assert_eq!(mean_between(&time, &values, 2.0, 5.0), (2.5 + 4.0) / 3.0);
    assert_eq!(mean_between(&time, &values, 1.0, 3.0), 3.0);
}

#[test]
fn the_bottleneck_is_shared_in_proportion_to_arrivals() {
    let flow = |count, rate: [f64; 3]| FlowSeries { count, rate: rate.to_vec(), state: Vec::new() };
    let series = Series {
        time: vec![0.0, 1.0, 2.0],
        queue: vec![0.0, 0.0, 5.0],
        marking: Vec::new(),
        flows: vec![flow(1, [4.0, 10.0, 2.0]), flow(2, [1.0, 5.0, 3.0])],
    };
    // At the first time, packets arrive at a rate of 6, below the capacity of 10; at the second time, at 20, above
    // the capacity; at the third time, at 8, but a queue is being drained, so packets leave at 10.
    assert_eq!(delivered(&series, 10.0), [[4.0, 5.0, 2.5], [1.0, 2.5, 3.75]]);
}
