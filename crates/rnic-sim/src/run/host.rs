//! Simulates runs of transports in host software, which is compiled once for each kind of channel.

use super::Job;
use super::engine::run_hosts;
use crate::host::{FlowTable, HostChannel, VerbsConfig, VerbsHosts};
use crate::resolve::host::{HostKind, HostPlan};
use rnic_host::{Control, HostError};
use rnic_spec::{RunOutput, RunStatus};

/// Simulates a run with the transport of `plan` and the congestion control `control`.
pub(crate) fn simulate_host(plan: &HostPlan, control: Control, job: Job<'_, '_>) -> RunOutput {
    match plan.kind {
        HostKind::Rogue(_) => simulate(plan.rogue(control, job.seed), job),
        HostKind::Multipath { .. } => simulate(plan.multipath(control, job.seed), job),
    }
}

fn simulate<X: HostChannel>(config: Result<VerbsConfig<X>, HostError>, job: Job<'_, '_>) -> RunOutput {
    let config = match config {
        Ok(config) => config,
        Err(error) => return RunOutput::not_started(error.to_string()),
    };
    let Job { resolved, seed, flows, source, events, capture, sharing, .. } = job;
    let mut fabric = match sharing.fabric(resolved, seed) {
        Ok(fabric) => fabric,
        Err(error) => return RunOutput::not_started(error.to_string()),
    };
    let table = FlowTable::new(resolved.host_config, resolved.flow.mtu, &fabric, flows, source, events);
    let plan = fabric.plan().clone();
    let mut hosts = VerbsHosts::<X, _>::new(&config, &resolved.network.host_rate, plan, table);
    if let Some(capture) = &capture {
        capture.begin(&mut fabric);
    }
    let mut output = run_hosts(&mut fabric, resolved, &mut hosts, events);
    if let Some(capture) = capture {
        capture.end_of_nics(&fabric);
    }
    hosts.warn(&mut output.warnings);
    if let Some(why) = hosts.error() {
        output.status = RunStatus::Failed(why);
    }
    sharing.done(&fabric);
    output
}
