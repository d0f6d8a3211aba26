//! `rnic flows` and `rnic topology`: a run's input in the formats of other tools.

use crate::args::{FlowList, FlowsArgs, TopologyArgs, TopologyFile};
use crate::error::CliError;
use crate::{load_selected, output};
use rnic_fabric::Topology;
use rnic_fabric::config::{FabricSpec, SwitchSpec};
use rnic_sim::format::{Cable, FatTreeShape, FlowExport, Graph, Node, TopologyExport};
use rnic_sim::format::{write_flows, write_topology};
use rnic_sim::scenario::{FabricSetup, RunSpec, Scenario};
use rnic_sim::workload::{Network, check, generate};
use rnic_transport::Bytes;
use rnic_transport::headers::ROCE_DATA;

/// Prints the flows of a run.
pub(crate) fn flows(arguments: &FlowsArgs) -> Result<(), CliError> {
    let scenario = load_selected(&arguments.selection)?;
    let run = select(&scenario, arguments.run.as_deref())?;
    let network = network(&run.fabric, &build(&run.fabric)?);
    check(&run.traffic, &network).map_err(CliError::Input)?;
    let flows = generate(&run.traffic, &network, scenario.seed);
    let total = flows.total();
    let format = match arguments.format {
        FlowList::Csv => FlowExport::Csv,
        FlowList::Hpcc => FlowExport::Hpcc,
        FlowList::Htsim => FlowExport::Htsim,
    };
    output::print(|out| write_flows(out, format, flows, network.hosts, total))
}

/// Prints the fabric of a run.
pub(crate) fn topology(arguments: &TopologyArgs) -> Result<(), CliError> {
    let scenario = load_selected(&arguments.selection)?;
    let fabric = &select(&scenario, arguments.run.as_deref())?.fabric;
    let graph = graph(&build(fabric)?);
    // Single cables that differ make a tree irregular.
    let shape = match fabric.links.is_empty() {
        true => FatTreeShape::of(&fabric.topology, &fabric.link),
        false => None,
    };
    let format = match arguments.format {
        TopologyFile::Hpcc => TopologyExport::Hpcc,
        TopologyFile::Htsim => TopologyExport::Htsim,
        TopologyFile::Dot => TopologyExport::Dot,
    };
    output::print(|out| write_topology(out, format, &graph, shape.as_ref()))
}

/// The wiring; what switches do does not matter to it.
fn build(fabric: &FabricSetup) -> Result<Topology, CliError> {
    let spec = FabricSpec {
        topology: fabric.topology.clone(),
        link: fabric.link,
        links: fabric.links.clone(),
        switch: SwitchSpec { buffer: Bytes(0), pfc: None, priorities: 1 },
        frame_gap: fabric.frame_gap.0 as u32,
    };
    Topology::build(&spec).map_err(|error| CliError::Input(error.to_string()))
}

/// What the traffic must know of the fabric.
fn network(fabric: &FabricSetup, topology: &Topology) -> Network {
    let rate = |host| topology.ports[topology.host_port(host)].link.rate;
    Network {
        hosts: topology.hosts,
        host_rate: (0..topology.hosts).map(rate).collect(),
        mtu: fabric.mtu.0 as u32,
        wire_overhead: ROCE_DATA + fabric.frame_gap.0 as u32,
    }
}

/// The wiring as the formats want it.
fn graph(topology: &Topology) -> Graph {
    let node = |(number, name): (u32, &String)| Node { name: name.clone(), is_switch: !topology.is_host(number) };
    let cable = |cable: &rnic_fabric::topology::Cable| Cable {
        ends: [cable.a, cable.b],
        rate: cable.link.rate,
        delay: cable.link.delay,
        loss: cable.link.loss,
    };
    Graph { nodes: (0..).zip(&topology.names).map(node).collect(), cables: topology.cables.iter().map(cable).collect() }
}

/// The run of this name, or the first.
fn select<'s>(scenario: &'s Scenario, name: Option<&str>) -> Result<&'s RunSpec, CliError> {
    let run = match name {
        Some(name) => scenario.runs.iter().find(|run| run.name == name),
        None => scenario.runs.first(),
    };
    run.ok_or_else(|| {
        let names: Vec<String> = scenario.runs.iter().map(|run| format!("\"{}\"", run.name)).collect();
        let name = name.unwrap_or_default();
        CliError::Input(format!("no run is called \"{name}\"; there are: {}", names.join(", ")))
    })
}
