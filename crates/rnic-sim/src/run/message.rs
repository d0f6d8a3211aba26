//! Simulates runs of message transports. The code is compiled for each transport program.

use super::Job;
use super::engine::run_hosts;
use super::select::select_program;
use crate::host::{FlowTable, MessageHosts, MessageSegment};
use crate::in_band::InBand;
use crate::resolve::message::MessagePlan;
use rnic_spec::RunOutput;
use rnic_transport::message::Pipeline;
use rnic_transport::telemetry::Telemetry;
use rnic_transport::transports::ProgramVisitor;

/// Simulates a run with the code that is compiled for its transport program, in Rust or in P4.
pub(crate) fn simulate_messages(plan: &MessagePlan, job: Job<'_, '_>) -> RunOutput {
    if let Some(p4) = &plan.p4 {
        return p4.select(Messages { plan, job });
    }
    let (resolved, name) = (job.resolved, job.resolved.transport.declaration.name);
    let output = select_program(name, &resolved.transport.settings, &plan.facts, Messages { plan, job });
    output.unwrap_or_else(|| RunOutput::not_started(format!("there is no transport \"{name}\"")))
}

/// A run of a message transport, before the code for its transport program has been selected.
struct Messages<'a, 'o> {
    plan: &'a MessagePlan,
    job: Job<'a, 'o>,
}

impl ProgramVisitor for Messages<'_, '_> {
    type Output = RunOutput;

    fn visit<P: Pipeline + 'static>(self, program: impl Fn(u32) -> P) -> RunOutput {
        simulate::<_, ()>(self.plan, self.job, program)
    }

    fn visit_with_telemetry<P: Pipeline + 'static>(self, program: impl Fn(u32) -> P) -> RunOutput {
        simulate::<_, Telemetry>(self.plan, self.job, program)
    }
}

/// Simulates a run of a message transport. `program` creates the transport program of a host from the host's IP
/// address; `T` is the telemetry field of packets.
fn simulate<P: Pipeline, T: InBand>(plan: &MessagePlan, job: Job<'_, '_>, program: impl Fn(u32) -> P) -> RunOutput {
    let Job { resolved, seed, flows, source, events, capture, sharing, .. } = job;
    let mut fabric = match sharing.fabric::<MessageSegment<P::Header, T>>(resolved, seed) {
        Ok(fabric) => fabric,
        Err(error) => return RunOutput::not_started(error.to_string()),
    };
    let table = FlowTable::new(resolved.host_config, resolved.flow.mtu, &fabric, flows, source, events);
    let partitions = fabric.plan().clone();
    let mut hosts = MessageHosts::<P, T, _>::new(plan.nic.clone(), plan.framing, program, partitions, table);
    if let Some(capture) = &capture {
        capture.begin(&mut fabric);
    }
    let mut output = run_hosts(&mut fabric, resolved, &mut hosts, events);
    if let Some(capture) = capture {
        capture.end_of_programs(&fabric, &plan.framing);
    }
    hosts.warn(&mut output.warnings);
    sharing.done(&fabric);
    output
}
