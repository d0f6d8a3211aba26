//! Simulated hosts with message transports (NDP, Homa, HPCC, programs in P4): each flow is a message, which a
//! [`MessageNic`](rnic_transport::message::nic::MessageNic) sends.

mod nic;
mod packet;

pub(crate) use packet::{Framing, MessageSegment};

use super::ends::FlowHashes;
use super::flow_table::FlowTable;
use super::hosts::{Hosts, NicKind};
use super::ids::FlowId;
use super::messages::{CarriesMessages, Messages, ReceiveEnd, SendEnd};
use super::partition::{Host, Notice};
use crate::in_band::InBand;
use nic::{HostNic, InvalidActions, MessageShared};
use packet::ip;
use rnic_fabric::{HostId, PartitionPlan};
use rnic_spec::FlowSpec;
use rnic_transport::message::Pipeline;
use rnic_transport::message::nic::{Counters, NicConfig};
use rnic_workload::Origin;
use std::marker::PhantomData;
use std::sync::Arc;

/// Maximum number of kinds of faults that a transport program counts.
const MAX_FAULTS: usize = 16;

/// The kind of NIC that sends messages, with the state of the run's flows that only this kind needs.
pub(crate) struct MessageNics<P, T> {
    messages: Messages,
    nics: PhantomData<fn() -> (P, T)>,
}

impl<P: Pipeline, T: InBand> CarriesMessages for MessageNics<P, T> {
    fn messages(&mut self) -> &mut Messages {
        &mut self.messages
    }
}

/// All hosts of a run with a message transport.
pub(crate) type MessageHosts<'a, P, T, S> = Hosts<'a, MessageNics<P, T>, S>;

impl<'a, P: Pipeline, T: InBand, S: Iterator<Item = FlowSpec>> MessageHosts<'a, P, T, S> {
    /// Hosts that will start the flows of `table`. `program` creates the transport program of a host from the host's IP
    /// address.
    pub(crate) fn new(
        cfg: NicConfig, framing: Framing, program: impl Fn(u32) -> P, plan: Arc<PartitionPlan>, table: FlowTable<'a, S>,
    ) -> Self {
        let kind = MessageNics { messages: Messages::default(), nics: PhantomData };
        let all_hosts = table.hosts();
        let shared = || MessageShared { cfg: cfg.clone(), framing, all_hosts, invalid: InvalidActions::default() };
        Hosts::with(kind, plan, table, shared, |host| HostNic::new(&cfg, program(ip(host))))
    }

    /// All hosts of the run, in order of their ids.
    fn in_order(&self) -> impl Iterator<Item = &Host<MessageNics<P, T>>> {
        (0..self.shared().all_hosts)
            .filter(|host| self.is_here(HostId(*host)))
            .map(|host| self.host(self.plan.node(host)))
    }

    /// Adds warnings of aborted messages, missing message buffers and faults of the transport programs.
    pub(crate) fn warn(&self, warnings: &mut Vec<String>) {
        let sum = |of: fn(&Counters) -> u64| self.in_order().map(|host| of(&host.nic.engine.counters())).sum::<u64>();
        let invalid = |of: fn(&InvalidActions) -> u64| -> u64 {
            self.partitions.iter().map(|partition| of(&partition.shared.invalid)).sum()
        };
        let mut counts = [
            sum(|counters| counters.rx_failures),
            sum(|counters| counters.expired),
            sum(|counters| counters.program_errors),
            invalid(|invalid| invalid.unknown_address),
            invalid(|invalid| invalid.invalid_priority),
            invalid(|invalid| invalid.unknown_flow),
        ];
        let mut faults = self.program_faults();
        if let Some(ranks) = &self.ranks {
            // The programs of all hosts have the same list of faults. An error ends the run elsewhere.
            let mut of_program = [0; MAX_FAULTS];
            of_program.iter_mut().zip(&faults).for_each(|(sum, (count, _))| *sum = *count);
            let _ = ranks.group.sum(&mut counts);
            let _ = ranks.group.sum(&mut of_program);
            faults.iter_mut().zip(of_program).for_each(|((count, _), sum)| *count = sum);
        }
        let [rx_failures, expired, program_errors, unknown_address, invalid_priority, unknown_flow] = counts;
        let aborted = self.kind.messages.aborted();
        if aborted > 0 {
            let messages = if aborted == 1 { "1 message was".to_string() } else { format!("{aborted} messages were") };
            let timeouts = self.shared().cfg.max_timeouts;
            warnings.push(format!("{messages} aborted after {timeouts} timeouts in a row without a response"));
        }
        for (count, what) in [
            (rx_failures, "packets found no buffer for their message"),
            (expired, "messages expired at their receivers"),
            (program_errors, "packets got a verdict from the program that contradicts the reassembly block"),
            (unknown_address, "packets of the program were for no host"),
            (invalid_priority, "packets of the program had a priority beyond the last one"),
            (unknown_flow, "packets or messages of the program belong to no flow"),
        ] {
            if count > 0 {
                warnings.push(format!("{count} {what}"));
            }
        }
        for (count, what) in faults.into_iter().filter(|(count, _)| *count > 0) {
            warnings.push(format!("{count} {what}"));
        }
    }

    /// Faults that the transport programs of the hosts have counted themselves, summed by the text of the fault.
    fn program_faults(&self) -> Vec<(u64, &'static str)> {
        let mut sums: Vec<(u64, &'static str)> = Vec::new();
        for (count, what) in self.in_order().flat_map(|host| host.nic.engine.program().faults()) {
            match sums.iter_mut().find(|(_, known)| *known == what) {
                Some((sum, _)) => *sum += count,
                None => sums.push((count, what)),
            }
        }
        sums
    }
}

impl<P: Pipeline, T: InBand> NicKind for MessageNics<P, T> {
    type SendEnd = SendEnd;
    type ReceiveEnd = ReceiveEnd;
    type Nic = HostNic<P, T>;
    type Shared = MessageShared;

    fn open<S: Iterator<Item = FlowSpec>>(
        hosts: &mut MessageHosts<'_, P, T, S>, spec: &FlowSpec, hashes: FlowHashes, _origin: Origin,
    ) -> FlowId {
        hosts.open_message(spec, hashes).0
    }

    fn wakes_receivers(_shared: &MessageShared) -> bool {
        false
    }

    fn process<S: Iterator<Item = FlowSpec>>(hosts: &mut MessageHosts<'_, P, T, S>, notice: Notice) {
        hosts.process_message(notice);
    }

    /// Does nothing, because flows of message transports retire as soon as the notes about them are processed.
    fn retire<S: Iterator<Item = FlowSpec>>(_hosts: &mut MessageHosts<'_, P, T, S>) {}

    fn is_idle(&self) -> bool {
        self.messages.is_idle()
    }
    fn is_aborted(&self, flow: FlowId) -> bool {
        self.messages.is_aborted(flow)
    }
    fn aborted(&self) -> u64 {
        self.messages.aborted()
    }
    fn delivered(_shared: &MessageShared, end: &ReceiveEnd, _flow: FlowId, _bytes: u64) -> u64 {
        end.delivered
    }
}
