//! Flows that are messages, of message transports and of transports in host software: their ends, and what becomes of
//! them.

use super::ends::{FlowEnds, FlowHashes, ReceivingEnd, SendingEnd};
use super::hosts::{Hosts, NicKind};
use super::ids::{EndSlot, FlowId};
use super::partition::Notice;
use rnic_fabric::HostId;
use rnic_spec::FlowSpec;
use rnic_workload::Loops;
use std::collections::BTreeSet;

/// The sending end of a message, on the sending host.
pub(crate) struct SendEnd {
    pub(super) flow: FlowId,
    /// Receiving host.
    pub(super) dst: HostId,
    pub(super) bytes: u64,
    /// Slot of the message's receiving end on that host.
    pub(super) receive_slot: EndSlot,
    pub(super) data_hash: u32,
    pub(super) retransmitted: u32,
    pub(super) timeouts: u32,
    /// Whether the sender is done with the message: its NIC has left a note that the message is sent or aborted, and
    /// [`Hosts`](super::hosts::Hosts) has processed this note. The receiver's NIC leaves a note, too. Notes are
    /// processed host by host, not in order of time, so either of the two notes may be processed first.
    pub(super) ended: bool,
}

impl SendingEnd for SendEnd {
    fn data_hash(&self) -> u32 {
        self.data_hash
    }
    /// The hash of the data packets, because control packets of message transports have one hash per pair of hosts and
    /// not per flow.
    fn control_hash(&self) -> u32 {
        self.data_hash
    }
    fn retransmitted(&self) -> u32 {
        self.retransmitted
    }
    fn timeouts(&self) -> u32 {
        self.timeouts
    }
    /// Does nothing: when a message retires, the NIC has no timer and no packet left that refers to the message's slot.
    fn forget(&mut self) {}
}

/// The receiving end of a message, on the receiving host.
pub(crate) struct ReceiveEnd {
    pub(super) flow: FlowId,
    /// Sending host.
    pub(super) src: HostId,
    pub(super) bytes: u64,
    /// Hash of the message's data packets. Packets of an earlier message that used the same slot on the host have
    /// another hash.
    pub(super) data_hash: u32,
    /// Number of payload bytes of the message that have arrived.
    pub(super) delivered: u64,
    /// Whether all bytes of the message have arrived.
    pub(super) done: bool,
}

impl ReceivingEnd for ReceiveEnd {
    fn is_done(&self, _flow: FlowId) -> bool {
        self.done
    }
    /// Always 0: flow records do not count timeouts at the receivers of messages.
    fn timeouts(&self) -> u32 {
        0
    }
    fn forget(&mut self) {
        self.data_hash = !self.data_hash;
    }
}

/// The messages of a run, as far as senders are concerned.
#[derive(Default)]
pub(crate) struct Messages {
    /// Number of started flows whose sender does not know yet that all bytes have arrived.
    sending: u64,
    /// Flows that their senders have aborted. These flows keep their ids until the run ends, because the rest of their
    /// bytes may still arrive.
    aborted: BTreeSet<FlowId>,
}

impl Messages {
    /// Whether the senders of all finished flows are done with these flows.
    pub(super) fn is_idle(&self) -> bool {
        self.sending == 0
    }
    pub(super) fn is_aborted(&self, flow: FlowId) -> bool {
        self.aborted.contains(&flow)
    }
    /// Number of flows that their senders have aborted.
    pub(super) fn aborted(&self) -> u64 {
        self.aborted.len() as u64
    }
}

/// A kind of NIC whose flows are messages.
pub(crate) trait CarriesMessages: NicKind<SendEnd = SendEnd, ReceiveEnd = ReceiveEnd> {
    /// The messages of the run.
    fn messages(&mut self) -> &mut Messages;
}

impl<K: CarriesMessages, S: Iterator<Item = FlowSpec>> Hosts<'_, K, S> {
    /// Creates both ends of the message `spec`; returns the id of its flow, and the slots of the ends.
    pub(super) fn open_message(&mut self, spec: &FlowSpec, hashes: FlowHashes) -> (FlowId, FlowEnds) {
        let flow = self.flows.insert(FlowEnds::default());
        let ends = self.next_ends(spec);
        let send = SendEnd {
            flow,
            dst: HostId(spec.dst),
            bytes: spec.bytes,
            receive_slot: ends.receiver.slot,
            data_hash: hashes.data,
            retransmitted: 0,
            timeouts: 0,
            ended: false,
        };
        let (src, bytes, data_hash) = (HostId(spec.src), spec.bytes, hashes.data);
        let receive = ReceiveEnd { flow, src, bytes, data_hash, delivered: 0, done: false };
        self.note(flow, spec, FlowHashes { control: hashes.data, ..hashes }, Loops::NONE);
        let (sends, receives) = (self.is_here(HostId(spec.src)), self.is_here(HostId(spec.dst)));
        self.insert_here(flow, spec, ends, sends.then_some(send), receives.then_some(receive));
        self.kind.messages().sending += 1;
        (flow, ends)
    }

    /// Processes a note about a message.
    pub(super) fn process_message(&mut self, notice: Notice) {
        match notice {
            // A message that its sender has aborted counts as unfinished even if all its bytes have arrived.
            Notice::Finished { flow, .. } if self.kind.messages().is_aborted(flow) => {}
            Notice::Finished { flow, at } => {
                let control_hash = self.hashes(flow).control;
                self.table.finish(flow, control_hash, at);
                self.retire_flow(flow);
            }
            Notice::Sent { flow } => {
                self.end_sending(flow);
                self.retire_flow(flow);
            }
            Notice::Aborted { flow } => {
                self.end_sending(flow);
                if self.table.record(flow).finish.is_none() {
                    self.table.abort();
                    self.kind.messages().aborted.insert(flow);
                } else {
                    self.retire_flow(flow);
                }
            }
        }
    }

    /// Records that the NIC of the sender is done with the flow.
    fn end_sending(&mut self, flow: FlowId) {
        self.kind.messages().sending -= 1;
        match &mut self.ranks {
            Some(ranks) => ranks.flow_mut(flow).ended = true,
            None => self.send_end_mut(flow).ended = true,
        }
    }

    /// Retires a flow if both its sender and its receiver are done with it.
    fn retire_flow(&mut self, flow: FlowId) {
        let ended = self.ranks.as_ref().map_or_else(|| self.send_end(flow).ended, |ranks| ranks.flow(flow).ended);
        if ended && self.table.record(flow).finish.is_some() {
            self.retire_record(flow);
            self.release_ends(flow);
            self.flows.release(flow);
        }
    }
}
