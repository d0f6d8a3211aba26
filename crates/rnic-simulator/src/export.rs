//! The commands `rnic flows` and `rnic topology`, which print the flows or the topology of a run in the formats of
//! other tools.

use crate::args::{FlowList, FlowsArgs, TopologyArgs, TopologyFile};
use crate::error::CliError;
use crate::{load_selected, output, select, set_up};
use rnic_fabric::Topology;
use rnic_scenario::format::{FatTreeShape, FlowExport, Graph, Link, Node, TopologyExport};
use rnic_scenario::format::{write_flows, write_topology};
use rnic_sim::Catalogue;
use rnic_spec::{RunSpec, TrafficPattern};
use rnic_transport::Time;
use rnic_workload::generate;
use std::io::Write;

/// Prints the flows of a run in order of their start.
pub(crate) fn flows(arguments: &FlowsArgs, catalogue: &Catalogue) -> Result<(), CliError> {
    let scenario = load_selected(catalogue, &arguments.selection)?;
    let run = select(&scenario, arguments.run.as_deref())?;
    let network = set_up(catalogue, run)?.network;
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

/// Prints a warning about the output. An error of the standard error output is ignored.
fn warn(text: &str) {
    let _ = writeln!(std::io::stderr(), "warning: {text}");
}

/// The rates of links that the telemetry of the HPCC simulator can state.
const TELEMETRY_RATES: [u64; 5] = [25, 50, 100, 200, 400];

/// Prints the topology of a run.
pub(crate) fn topology(arguments: &TopologyArgs, catalogue: &Catalogue) -> Result<(), CliError> {
    let scenario = load_selected(catalogue, &arguments.selection)?;
    let run = select(&scenario, arguments.run.as_deref())?;
    let resolved = set_up(catalogue, run)?;
    let (fabric, graph) = (resolved.fabric, graph(&resolved.topology));
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
    let format = match arguments.format {
        TopologyFile::Hpcc => TopologyExport::Hpcc,
        TopologyFile::Htsim => TopologyExport::Htsim,
        TopologyFile::Dot => TopologyExport::Dot,
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
