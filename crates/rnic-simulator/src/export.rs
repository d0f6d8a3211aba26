//! The commands `rnic flows` and `rnic topology`, which print the flows or the topology of a run in the formats of
//! other tools.

use crate::args::{FlowList, FlowsArgs, TopologyArgs, TopologyFile};
use crate::error::CliError;
use crate::output::note;
use crate::{builtin, load_selected, output, select, set_up};
use rnic_fabric::Topology;
use rnic_scenario::format::{FatTreeShape, FlowExport, Graph, Link, Node, TopologyExport};
use rnic_scenario::format::{write_flows, write_topology};
use rnic_scenario::{Origin, read_with, to_graph_toml};
use rnic_sim::Catalogue;
use rnic_spec::{LinkFault, RunSpec, Scenario, Traffic, TrafficPattern};
use rnic_transport::Time;
use rnic_workload::generate;
use std::path::Path;

/// Prints the flows of a run in order of their start.
pub(crate) fn flows(arguments: &FlowsArgs, catalogue: &Catalogue) -> Result<(), CliError> {
    let scenario = load_selected(catalogue, &arguments.selection)?;
    let run = select(&scenario, arguments.run.as_deref())?;
    let network = set_up(catalogue, run)?.network;
    let is_outside = |source: &&Traffic| matches!(source.pattern, TrafficPattern::Outside { .. });
    if let Some(source) = run.traffic.iter().find(is_outside) {
        return Err(CliError::Input(format!(
            "the flows of traffic \"{}\" come from another program while the simulation runs",
            source.name
        )));
    }
    if let Some(source) = run.traffic.iter().find(|source| source.pattern.is_closed()) {
        return Err(CliError::Input(format!(
            "the flows of traffic \"{}\" start when earlier flows complete; `rnic run --flows csv` writes them after a simulation",
            source.name
        )));
    }
    let flows = generate(&run.traffic, &network, run.seed);
    let total = flows.total();
    let format = match arguments.format {
        FlowList::Csv => FlowExport::Csv { hash: has_hashes(run) },
        FlowList::Hpcc => FlowExport::Hpcc,
        FlowList::Conweave => FlowExport::Conweave,
        FlowList::Htsim => FlowExport::Htsim,
    };
    let mut late = false;
    let flows = flows.inspect(|flow| late |= flow.start > Time::ZERO);
    output::print(|out| write_flows(out, format, flows, network.hosts, total))?;
    // htsim has programs for several transports that rnic also has; only its program for NDP uses the start times.
    if late && format == FlowExport::Htsim && run.transport.name != "ndp" {
        warn(
            "htsim's programs for RoCE, HPCC and TCP start all flows at 0, and its program for Swift reads picoseconds \
             as microseconds; only those for NDP and EQDS start flows at the times in the file",
        );
    }
    Ok(())
}

/// Whether a flow list of the run has the column `hash`.
fn has_hashes(run: &RunSpec) -> bool {
    run.traffic.iter().any(|source| match &source.pattern {
        TrafficPattern::List { flows } => flows.iter().any(|flow| flow.hash.is_some()),
        _ => false,
    })
}

/// Prints a warning about the output.
fn warn(text: &str) {
    note(&format!("warning: {text}"));
}

/// The rates of links that the telemetry of the HPCC simulator can state.
const TELEMETRY_RATES: [u64; 5] = [25, 50, 100, 200, 400];

/// Prints the topology of a run.
pub(crate) fn topology(arguments: &TopologyArgs, catalogue: &Catalogue) -> Result<(), CliError> {
    let scenario = load_selected(catalogue, &arguments.selection)?;
    let run = select(&scenario, arguments.run.as_deref())?;
    let resolved = set_up(catalogue, run)?;
    let (fabric, graph) = (resolved.fabric, graph(&resolved.topology));
    let format = match arguments.format {
        TopologyFile::Hpcc => TopologyExport::Hpcc,
        TopologyFile::Htsim => TopologyExport::Htsim,
        TopologyFile::Dot => TopologyExport::Dot,
        TopologyFile::Scenario => {
            let text = as_scenario(arguments, catalogue, &scenario, run, &graph)?;
            return output::print(|out| write!(out, "{text}"));
        }
    };
    let left_out = [("[[fabric.route]]", fabric.routes.is_empty()), ("[[fabric.storm]]", run.fabric.storms.is_empty())];
    for (key, _) in left_out.iter().filter(|(_, none)| !none) {
        warn(&format!("the output does not contain the run's `{key}`: topology files have no such entries"));
    }
    // If the scenario changes single links of the fat-tree, the fat-tree is not regular. Its shape alone then does not
    // describe the topology.
    let shape = match fabric.links.is_empty() {
        true => FatTreeShape::of(&fabric.topology, &fabric.link),
        false => None,
    };
    output::print(|out| write_topology(out, format, &graph, shape.as_ref()))?;
    let telemetry = run.transport.cc.declaration.telemetry || run.transport.declaration.telemetry;
    let unknown = |link: &&Link| !TELEMETRY_RATES.contains(&(link.rate.as_bps() / 1_000_000_000));
    if let Some(link) = graph.links.iter().find(unknown).filter(|_| telemetry && format == TopologyExport::Hpcc) {
        warn(&format!(
            "the telemetry of the HPCC simulator knows links of 25, 50, 100, 200 and 400 Gbps only; with CC_MODE 3 its \
             senders take a link of {} as one of 25 Gbps (ConWeave's fork also knows 40 Gbps)",
            link.rate
        ));
    }
    Ok(())
}

/// The scenario with the topology `graph` of `run` as a graph.
fn as_scenario(
    arguments: &TopologyArgs, catalogue: &Catalogue, scenario: &Scenario, run: &RunSpec, graph: &Graph,
) -> Result<String, CliError> {
    let fabric = &run.fabric;
    let faults = &fabric.faults.links;
    let is_same = |a: &LinkFault, b: &LinkFault| {
        let ends = [(&a.from, &a.to), (&a.to, &a.from)].contains(&(&b.from, &b.to));
        ends && a.rate.is_some() == b.rate.is_some()
    };
    let twice = faults.iter().enumerate().find(|(index, fault)| faults[..*index].iter().any(|b| is_same(fault, b)));
    if let Some((_, LinkFault { from, to, .. })) = twice {
        return Err(CliError::Input(format!(
            "two tables [[fabric.link]] let the link of {from} and {to} fail or slow down; a graph has one table for a \
             link: remove one of them"
        )));
    }
    let selected = |other: &&RunSpec| arguments.run.is_none() || other.base == run.base;
    let differs = |other: &&RunSpec| {
        let of = |run: &RunSpec| (run.fabric.topology.clone(), run.fabric.link, run.fabric.links.clone());
        of(other) != of(run)
    };
    if let Some(other) = scenario.runs.iter().filter(selected).find(differs) {
        return Err(CliError::Input(format!(
            "runs \"{}\" and \"{}\" have different topologies, of which one graph shows only one; choose a run with --run, \
             or give the key that differs one value with --set",
            run.name, other.name
        )));
    }
    let kept = arguments.run.as_ref().map(|_| run.base.as_str());
    let origin = builtin::origin(&arguments.selection.scenario);
    let (set, seed, vocabulary) = (&arguments.selection.set, arguments.selection.seed, catalogue.vocabulary());
    let text = to_graph_toml(&vocabulary, &origin, set, seed, kept, &fabric.link, graph)?;
    // Only a key of the topology in the `set` of a run or in [sweep] makes the text invalid.
    let name = arguments.selection.scenario.to_string_lossy();
    let written = Origin::Text { text: &text, name: &name, folder: Path::new("") };
    read_with(&vocabulary, &written, &[], None).map_err(|error| {
        CliError::Input(format!(
            "a run or the sweep sets a key of the topology, so the topology cannot be a graph: {error}"
        ))
    })?;
    Ok(text)
}

/// Converts the topology to the graph of nodes and links that the file formats need.
fn graph(topology: &Topology) -> Graph {
    let node = |(number, name): (u32, &String)| Node { name: name.clone(), is_switch: !topology.is_host(number) };
    let link = |link: &rnic_fabric::topology::Link| Link {
        ends: [link.a, link.b],
        rate: link.spec.rate,
        delay: link.spec.delay,
        loss: link.spec.loss,
    };
    Graph { nodes: (0..).zip(&topology.names).map(node).collect(), links: topology.links.iter().map(link).collect() }
}
