//! Simulates runs of message transports. The code is compiled for each transport program.

use super::Job;
use super::engine::run_hosts;
use crate::host::{FlowTable, MessageHosts, MessageSegment};
use crate::in_band::InBand;
use crate::resolve::message::MessagePlan;
use rnic_nano::{NicParameters, P4Pipeline};
use rnic_run::{P4Program, RunOutput};
use rnic_transport::message::Pipeline;
use rnic_transport::registry::visit_transports;
use rnic_transport::telemetry::Telemetry;
use rnic_transport::transports::{FlowTransport, MessageTransport, ProgramVisitor, TransportVisitor};

/// Simulates a run with the code that is compiled for its transport program, in Rust or in P4.
pub(crate) fn simulate_messages(plan: &MessagePlan, job: Job<'_, '_>) -> RunOutput {
    if let Some((p4, nic)) = &plan.p4 {
        return match (p4.program.header_room(), p4.telemetry) {
            (64, false) => simulate::<_, ()>(plan, job, |ip| p4_pipeline::<64>(p4, nic, ip)),
            (..=192, true) => simulate::<_, Telemetry>(plan, job, |ip| p4_pipeline::<192>(p4, nic, ip)),
            (_, false) => simulate::<_, ()>(plan, job, |ip| p4_pipeline::<256>(p4, nic, ip)),
            (_, true) => simulate::<_, Telemetry>(plan, job, |ip| p4_pipeline::<256>(p4, nic, ip)),
        };
    }
    let name = job.resolved.transport.declaration.name;
    let mut choice = Choice { plan, job: Some(job), output: None };
    visit_transports(&mut choice);
    choice.output.unwrap_or_else(|| RunOutput::not_started(format!("there is no transport \"{name}\"")))
}

/// A visitor that is shown all transports, and simulates a run when it is shown the run's message transport.
struct Choice<'a, 'o> {
    plan: &'a MessagePlan,
    /// The run; `None` after the visitor has been shown the run's transport.
    job: Option<Job<'a, 'o>>,
    output: Option<RunOutput>,
}

impl TransportVisitor for Choice<'_, '_> {
    fn flow_transport<F: FlowTransport>(&mut self) {}

    fn message_transport<M: MessageTransport>(&mut self) {
        if let Some(job) = self.job.take_if(|job| job.resolved.transport.declaration.name == M::DECLARATION.name) {
            let settings = &job.resolved.transport.settings;
            self.output = Some(M::select(settings, &self.plan.facts, Messages { plan: self.plan, job }));
        }
    }
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

/// The pipeline that executes a P4 program on the NIC with the IP address `ip`, for headers of up to `N` bytes.
fn p4_pipeline<const N: usize>(p4: &P4Program, nic: &NicParameters, ip: u32) -> P4Pipeline<N> {
    // The MAC addresses are locally administered. The last four bytes of a host's MAC address are its IP address.
    let nic = NicParameters { ip, mac: 0x0200_0000_0000 | u64::from(ip), switch_mac: 0x0200_ffff_ffff, ..*nic };
    P4Pipeline::new(&p4.program, &nic).expect("N is at least the program's header room")
}

/// Simulates a run of a message transport. `program` creates the transport program of a host from the host's IP
/// address; `T` is the telemetry field of packets.
fn simulate<P: Pipeline, T: InBand>(plan: &MessagePlan, job: Job<'_, '_>, program: impl Fn(u32) -> P) -> RunOutput {
    let Job { resolved, seed, flows, loops, events, sharing, .. } = job;
    let mut fabric = match sharing.fabric::<MessageSegment<P::Header, T>>(resolved, seed) {
        Ok(fabric) => fabric,
        Err(error) => return RunOutput::not_started(error.to_string()),
    };
    let table = FlowTable::new(resolved.host_config, resolved.flow.mtu, &fabric, flows, loops, events);
    let partitions = fabric.plan().clone();
    let mut hosts = MessageHosts::<P, T, _>::new(plan.nic.clone(), plan.framing, program, partitions, table);
    let mut output = run_hosts(&mut fabric, resolved, &mut hosts, events);
    hosts.warn(&mut output.warnings);
    sharing.done(&fabric);
    output
}
