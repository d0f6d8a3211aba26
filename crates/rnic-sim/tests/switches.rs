//! The composition of a switch: default settings, settings shown in the results, and combinations that are refused when
//! the run is set up.

use rnic_campaign::run_scenario;
use rnic_fabric::config::{MarkOn, SchedulerSpec};
use rnic_scenario::from_str;
use rnic_sim::Catalogue;
use rnic_sim::resolve::{Resolved, SetupError, resolve};
use rnic_spec::{RunStatus, Scenario};
use std::path::Path;

/// An incast on four hosts at one switch, with ECN. `switch` is the body of `[fabric.switch]`, `transport` is the body
/// of `[transport]`.
fn scenario(switch: &str, transport: &str) -> Scenario {
    let text = format!(
        r#"
[fabric]
topology = "single-switch"
hosts = 4
rate = "40 Gbps"
delay = "1 us"
[fabric.switch]
{switch}
[traffic]
pattern = "incast"
senders = 3
total = "300 KB"
repeats = 1
[transport]
{transport}
[[run]]
name = "irn"
transport = "irn"
cc = "dctcp"
"#
    );
    from_str(&text, "test.toml", Path::new("."), &[], None).unwrap()
}

fn resolved(switch: &str, transport: &str) -> Result<Resolved, SetupError> {
    resolve(&Catalogue::standard(), &scenario(switch, transport).runs[0])
}

const TWO: &str = "control_priority = true";

#[test]
fn marks_are_made_at_the_end_of_the_queue_that_is_usual_for_the_buffer() {
    for (switch, mark_on) in [
        ("", MarkOn::Enqueue),
        ("queueing = \"shared\"", MarkOn::Dequeue),
        ("queueing = \"output\"", MarkOn::Dequeue),
        ("ecn = { mark_on = \"dequeue\" }", MarkOn::Dequeue),
        ("queueing = \"shared\"\necn = { mark_on = \"enqueue\" }", MarkOn::Enqueue),
        ("queueing = \"output\"\necn = { mark_on = \"enqueue\" }", MarkOn::Enqueue),
    ] {
        let ecn = resolved(switch, "").unwrap().fabric.switch.ecn.unwrap();
        assert_eq!(ecn.mark_on, mark_on, "{switch}");
    }
    assert_eq!(resolved("ecn = false", "").unwrap().fabric.switch.ecn, None);
}

#[test]
fn weights_need_one_entry_for_each_priority_in_use() {
    for switch in ["weights = [1, 2, 3]", "queueing = \"output\"\nscheduler = \"wrr\"\nweights = [1, 2, 3]"] {
        let Err(error) = resolved(switch, TWO) else { panic!("{switch}") };
        assert_eq!(
            error.to_string(),
            "`weights` has 3 entries, but the switches have 2 priorities; accepted: one weight for each of them, the lowest first"
        );
    }
    let weights = [1, 3, 0, 0, 0, 0, 0, 0];
    for switch in ["", "queueing = \"shared\"\n", "queueing = \"output\"\n"] {
        let scheduler = |keys: &str| resolved(&format!("{switch}{keys}"), TWO).unwrap().fabric.switch.scheduler;
        assert_eq!(scheduler("weights = [1, 3]"), SchedulerSpec::DeficitRoundRobin(weights));
        assert_eq!(scheduler("scheduler = \"wrr\"\nweights = [1, 3]"), SchedulerSpec::WeightedRoundRobin(weights));
        assert_eq!(scheduler("scheduler = \"round-robin\""), SchedulerSpec::RoundRobin);
        assert_eq!(scheduler(""), SchedulerSpec::STRICT);
    }
}

/// Control packets have a priority of their own with `control_priority` only, however many priorities switches have.
#[test]
fn control_packets_have_the_priority_that_the_run_says() {
    let control = |switch: &str, transport: &str| {
        let resolved = resolved(switch, transport).unwrap();
        (resolved.fabric.switch.priorities, resolved.host_config.control_priority)
    };
    for (switch, own, data) in [
        ("", (2, 1), (1, 0)),
        ("queueing = \"shared\"", (2, 1), (1, 0)),
        ("queueing = \"shared\"\npriorities = 4", (4, 3), (4, 0)),
        ("queueing = \"output\"", (2, 1), (1, 0)),
        ("queueing = \"output\"\npriorities = 4", (4, 3), (4, 0)),
    ] {
        assert_eq!(control(switch, TWO), own, "{switch}");
        assert_eq!(control(switch, "control_priority = false"), data, "{switch}");
        assert_eq!(control(switch, ""), data, "{switch}");
    }
}

/// Priorities that no packet has change no result.
#[test]
fn unused_priorities_change_nothing() {
    let run = |switch: &str, transport: &str| {
        let reports = run_scenario(&scenario(switch, transport), 1).unwrap();
        let output = reports.into_iter().next().unwrap().output;
        let in_priority = |priority: usize| -> u64 {
            output.ports.iter().filter_map(|port| port.priorities.get(priority)).map(|one| one.tx_packets).sum()
        };
        let packets = [0, 3].map(in_priority);
        let times: Vec<_> = output.flows.iter().map(|flow| (flow.start, flow.finish)).collect();
        (times, packets)
    };
    let shared = "queueing = \"shared\"\nbuffer = \"120 KB\"";
    let (times, [all, _]) = run(shared, "");
    let (with_unused, packets) = run(&format!("{shared}\npriorities = 4"), "");
    assert_eq!((with_unused, packets), (times, [all, 0]));
    let (_, [data, control]) = run(&format!("{shared}\npriorities = 4"), TWO);
    assert!(data > 0 && control > 0, "{data} {control}");
}

#[test]
fn a_scheduler_with_nothing_to_schedule_is_told() {
    let one = resolved("scheduler = \"round-robin\"", "").unwrap();
    assert_eq!(one.warnings, ["`scheduler` = \"round-robin\" changes nothing: the switches have one priority"]);
    assert_eq!(resolved("scheduler = \"round-robin\"", TWO).unwrap().warnings, [""; 0]);
}

#[test]
fn results_name_what_differs_from_the_usual() {
    let settings = |switch: &str| {
        let scenario = scenario(switch, TWO);
        let reports = run_scenario(&scenario, 1).unwrap();
        assert_eq!(reports[0].output.status, RunStatus::Completed, "{switch}");
        resolve(&Catalogue::standard(), &scenario.runs[0]).unwrap().parameters
    };
    let value = |settings: &[(String, String)], key: &str| {
        settings.iter().find(|(name, _)| name == key).map(|(_, value)| value.clone())
    };
    let keys = ["scheduler", "weights", "ecn.mark_on", "priorities", "xon_offset"];
    for (switch, expected) in [
        ("", [None; 5]),
        ("weights = [1, 3]", [Some("drr"), Some("[1, 3]"), None, None, None]),
        (
            "queueing = \"shared\"\nscheduler = \"round-robin\"",
            [Some("round-robin"), None, Some("dequeue"), Some("2"), None],
        ),
        (
            "queueing = \"output\"\nscheduler = \"wrr\"\nweights = [2, 1]\ntrim = true",
            [Some("wrr"), Some("[2, 1]"), Some("dequeue"), Some("2"), None],
        ),
    ] {
        let settings = settings(switch);
        assert_eq!(keys.map(|key| value(&settings, key)), expected.map(|value| value.map(str::to_string)), "{switch}");
        assert!(value(&settings, "in_a_row").is_none());
    }
}
