//! The command `rnic check`: prints a summary of a scenario without simulating it.

use crate::args::CheckArgs;
use crate::error::CliError;
use crate::{cannot_be_set_up_all, load_runs, output};
use rnic_fabric::config::TopologySpec;
use rnic_sim::Catalogue;
use rnic_sim::resolve::resolve_all;
use rnic_spec::hosts;
use rnic_spec::{Arrivals, QueueingSetup, Receiver, Rotation, RunSpec, Traffic, TrafficPattern};

/// Prints the scenario's title, seed and number of runs, and for each run one line and its warnings. With `--settings`,
/// it also prints the settings of the run.
pub(crate) fn check(arguments: &CheckArgs, catalogue: &Catalogue) -> Result<(), CliError> {
    let scenario = load_runs(catalogue, &arguments.selection, &arguments.runs)?;
    let resolved = resolve_all(catalogue, &scenario.runs)
        .map_err(|first| cannot_be_set_up_all(catalogue, &scenario.runs, first))?;
    let plural = if scenario.runs.len() == 1 { "" } else { "s" };
    output::print(|out| {
        writeln!(out, "{}: seed {}, {} run{plural}", scenario.title, scenario.seed, scenario.runs.len())?;
        for (run, resolved) in scenario.runs.iter().zip(&resolved) {
            writeln!(out, "{}: {}", run.name, describe(run))?;
            if arguments.settings {
                resolved.parameters.iter().try_for_each(|(key, value)| writeln!(out, "  {key}: {value}"))?;
            }
            resolved.warnings.iter().try_for_each(|warning| writeln!(out, "  warning: {warning}"))?;
        }
        Ok(())
    })
}

/// A run in one line: transport, congestion control, PFC, fabric and traffic.
fn describe(run: &RunSpec) -> String {
    let pfc = if run.transport.pfc { "PFC" } else { "no PFC" };
    let cc = match run.transport.cc.name() {
        "none" => "no congestion control",
        name => name,
    };
    let traffic: Vec<String> = run.traffic.iter().map(describe_traffic).collect();
    // Equal traffic sources are described once, with their number.
    let alike = traffic.chunk_by(|a, b| a == b).map(|alike| match alike.len() {
        1 => alike[0].clone(),
        count => format!("{count} x ({})", alike[0]),
    });
    let traffic: Vec<String> = alike.collect();
    format!("{}, {cc}, {pfc}; {}; {}", run.transport.name, describe_fabric(run), traffic.join(" + "))
}

fn describe_fabric(run: &RunSpec) -> String {
    let topology = match &run.fabric.topology {
        TopologySpec::FatTree { k } => format!("fat-tree k={k}"),
        TopologySpec::LeafSpine { leaves, spines, .. } => format!("leaf-spine {leaves}x{spines}"),
        TopologySpec::MultiPlane { planes, leaves, spines, .. } => format!("{planes} planes of {leaves}x{spines}"),
        TopologySpec::LeafSpineCore { pods, leaves_per_pod, spines_per_pod, cores_per_plane, .. } => {
            format!("leaf-spine-core {pods}x({leaves_per_pod}x{spines_per_pod})x{cores_per_plane}")
        }
        TopologySpec::SingleSwitch { .. } => "single switch".to_string(),
        TopologySpec::Dumbbell { left, right, .. } => format!("dumbbell {left}+{right}"),
        TopologySpec::Dragonfly { groups, routers_per_group, .. } => format!("dragonfly {groups}x{routers_per_group}"),
        TopologySpec::Graph { switches, .. } => format!("graph of {} switches", switches.len()),
    };
    let hosts = hosts(&run.fabric.topology);
    let buffer = match (run.fabric.switch.queueing, run.fabric.switch.buffer) {
        (QueueingSetup::Input(_), Some(buffer)) => format!("{buffer} buffers"),
        (QueueingSetup::Input(_), None) => "default buffers".to_string(),
        (QueueingSetup::Shared(_), Some(buffer)) => format!("shared buffers of {buffer}"),
        (QueueingSetup::Shared(_), None) => "shared buffers".to_string(),
        (QueueingSetup::Output(_), Some(buffer)) => format!("{buffer} buffers at outputs"),
        (QueueingSetup::Output(_), None) => "buffers at outputs".to_string(),
    };
    format!("{topology}, {hosts} hosts, {}, {} per link, {buffer}", run.fabric.link.rate, run.fabric.link.delay)
}

fn describe_receiver(receiver: Receiver) -> &'static str {
    match receiver {
        Receiver::Host(_) => "",
        Receiver::Changing(Rotation::RoundRobin) => " to all hosts in turn",
        Receiver::Changing(Rotation::Random) => " to random hosts",
    }
}

fn describe_traffic(traffic: &Traffic) -> String {
    let what = match &traffic.pattern {
        TrafficPattern::Poisson { load, sizes, flows, locality, arrivals } => {
            let process = match arrivals {
                Arrivals::Poisson => "poisson".to_string(),
                Arrivals::LogNormal { cv } => format!("log-normal arrivals (cv {cv})"),
                Arrivals::OnOff { cv, on_share } => format!("on-off arrivals (cv {cv}, on for {on_share} of the time)"),
            };
            let near = match (locality.leaf, locality.pod) {
                (None, None) => String::new(),
                (Some(leaf), None) => format!(", {leaf} of them to the same switch"),
                (leaf, Some(pod)) => {
                    format!(", {} of them to the same switch, {pod} to others of the pod", leaf.unwrap_or(0.0))
                }
            };
            format!("{process} at load {load}, {}, {flows} flows{near}", sizes.name)
        }
        TrafficPattern::Incast { senders, total, repeats, receiver, .. } => {
            format!("incast of {total} from {senders} senders{}, {repeats} times", describe_receiver(*receiver))
        }
        TrafficPattern::Permutation { sizes, repeats, .. } => {
            format!("permutation, {}, {repeats} times", sizes.name)
        }
        TrafficPattern::AllToAll { sizes, repeats, .. } => {
            format!("all-to-all, {}, {repeats} times", sizes.name)
        }
        TrafficPattern::AllToAllLoop { sizes, repeats, outstanding, .. } => {
            format!("all-to-all, {}, {repeats} times, {outstanding} outstanding per host", sizes.name)
        }
        TrafficPattern::Pairs { pairs, sizes, messages, .. } => {
            let messages = messages.map_or("endless messages".to_string(), |count| format!("{count} messages each"));
            format!("{pairs} pairs, {}, {messages}", sizes.name)
        }
        TrafficPattern::IncastLoop { incast, repeats, .. } => {
            let repeated =
                repeats.map_or("endless".to_string(), |repeats| format!("{repeats} times one after another"));
            let receiver = describe_receiver(incast.receiver);
            format!("incast of {} from {} senders{receiver}, {repeated}", incast.total, incast.senders)
        }
        TrafficPattern::Collective(collective) => format!(
            "{} of {} ({}) among {} ranks in groups of {}, {} times",
            collective.operation.name(),
            collective.size,
            collective.algorithm.name(),
            collective.ranks,
            collective.group,
            collective.repeats
        ),
        TrafficPattern::Outside { largest, .. } => format!("flows of up to {largest} from another program"),
        TrafficPattern::Trace(trace) => format!(
            "trace {} ({}): {} tasks of {} ranks",
            trace.file,
            trace.format.name(),
            trace.content.tasks,
            trace.content.ranks
        ),
        TrafficPattern::Inference(inference) => format!(
            "inference of {:.3} billion parameters on {} ranks ({} instances of {}{}), {} requests",
            inference.model.parameters() as f64 / 1e9,
            inference.deployment.ranks,
            inference.instances(),
            inference.tensor,
            if inference.prefill > 0 { format!(", {} for prompts", inference.prefill) } else { String::new() },
            inference.requests
        ),
        TrafficPattern::Training(training) => format!(
            "training of {:.3} billion parameters on {} ranks (tensor {}, pipeline {}, data {}), {} steps",
            training.model.parameters() as f64 / 1e9,
            training.deployment.ranks,
            training.tensor,
            training.pipeline,
            training.data(),
            training.steps
        ),
        TrafficPattern::Triggered(list) => {
            format!("list of {} flows with {} triggers", list.flows.len(), list.triggers.len())
        }
        TrafficPattern::List { flows } => format!("list of {} flows", flows.len()),
    };
    match traffic.warmup + traffic.cooldown {
        0 => what,
        unmeasured => format!("{what} ({unmeasured} not measured)"),
    }
}
