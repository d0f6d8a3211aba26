//! `rnic flows` and `rnic topology`: a run's input in the formats of other tools.

use crate::args::{FlowList, FlowsArgs, TopologyArgs, TopologyFile};
use crate::error::CliError;
use crate::{load_selected, output};
use rnic_sim::format::{FlowListFormat, TopologyFormat, write_flows, write_topology};
use rnic_sim::scenario::{RunSpec, Scenario, hosts};
use rnic_sim::workload::{FlowSpec, Network, generate};
use rnic_transport::headers::ROCE_DATA;

/// Prints the flows of a run.
pub(crate) fn flows(arguments: &FlowsArgs) -> Result<(), CliError> {
    let scenario = load_selected(&arguments.selection)?;
    let run = select(&scenario, arguments.run.as_deref())?;
    let flows = flows_of(run, scenario.seed);
    let format = match arguments.format {
        FlowList::Csv => FlowListFormat::Csv,
        FlowList::Hpcc => FlowListFormat::Hpcc,
        FlowList::Htsim => FlowListFormat::Htsim,
    };
    output::print(|out| write_flows(out, format, &flows, hosts(&run.fabric.topology)))
}

/// Prints the fabric of a run.
pub(crate) fn topology(arguments: &TopologyArgs) -> Result<(), CliError> {
    let scenario = load_selected(&arguments.selection)?;
    let run = select(&scenario, arguments.run.as_deref())?;
    let format = match arguments.format {
        TopologyFile::Hpcc => TopologyFormat::Hpcc,
        TopologyFile::Htsim => TopologyFormat::Htsim,
        TopologyFile::Dot => TopologyFormat::Dot,
    };
    output::print(|out| write_topology(out, format, &run.fabric))
}

/// The flows that the run starts.
fn flows_of(run: &RunSpec, seed: u64) -> Vec<FlowSpec> {
    let hosts = hosts(&run.fabric.topology);
    let network = Network {
        hosts,
        host_rate: vec![run.fabric.link.rate; hosts as usize],
        mtu: run.fabric.mtu.0 as u32,
        wire_overhead: ROCE_DATA + run.fabric.frame_gap.0 as u32,
    };
    generate(&run.traffic, &network, seed).collect()
}

/// The run of this name, or the first.
fn select<'s>(scenario: &'s Scenario, name: Option<&str>) -> Result<&'s RunSpec, CliError> {
    let run = match name {
        Some(name) => scenario.runs.iter().find(|run| run.name == name),
        None => scenario.runs.first(),
    };
    run.ok_or_else(|| {
        let names: Vec<String> = scenario
            .runs
            .iter()
            .map(|run| format!("\"{}\"", run.name))
            .collect();
        let name = name.unwrap_or_default();
        CliError::Input(format!(
            "no run is called \"{name}\"; there are: {}",
            names.join(", ")
        ))
    })
}
