//! The hosts of one fabric partition: a part of the fabric, which one thread at a time simulates.

use super::config::HostTotals;
use super::hosts::NicKind;
use super::ids::{EndSlot, FlowId};
use super::slab::Slab;
use rnic_fabric::HostId;
use rnic_transport::Time;
use std::collections::VecDeque;

/// The start of a flow in the current window of simulated time, for one of the flow's two hosts.
#[derive(Clone, Copy)]
pub(crate) struct Start {
    pub(crate) at: Time,
    pub(crate) slot: EndSlot,
    /// Whether the slot `slot` of the host holds the receiving end of the flow; otherwise it holds the sending end.
    pub(crate) receiving: bool,
}

/// One host: the ends of its flows, and its NIC. A host has only its own end of a flow, the sending or the receiving
/// one. This end contains the id of the other host and the slot of the flow's other end there.
pub(crate) struct Host<K: NicKind> {
    pub(crate) id: HostId,
    /// Flows of the host that start in the current window of simulated time, in order of time.
    pub(crate) starts: VecDeque<Start>,
    pub(crate) senders: Slab<EndSlot, K::SendEnd>,
    pub(crate) receivers: Slab<EndSlot, K::ReceiveEnd>,
    pub(crate) nic: K::Nic,
}

impl<K: NicKind> Host<K> {
    pub(crate) fn new(id: HostId, nic: K::Nic) -> Self {
        Host { id, starts: VecDeque::new(), senders: Slab::new(), receivers: Slab::new(), nic }
    }

    /// Time of the next start of a flow of this host in the current window; [`Time::MAX`] if there is none.
    #[inline]
    pub(crate) fn next_start(&self) -> Time {
        self.starts.front().map_or(Time::MAX, |start| start.at)
    }
}

/// A note about a flow that a NIC leaves during a window of simulated time. [`Hosts`](super::Hosts) processes it after
/// the window.
#[derive(Clone, Copy, Debug)]
pub(crate) enum Notice {
    /// All bytes of the flow have arrived, at time `at`.
    Finished { flow: FlowId, at: Time },
    /// The sender of a message (the flow) knows that all bytes have arrived.
    Sent { flow: FlowId },
    /// The sender of a message (the flow) has aborted it.
    Aborted { flow: FlowId },
}

/// The hosts of one fabric partition, with their NICs.
pub(crate) struct NicPartition<K: NicKind> {
    pub(crate) hosts: Vec<Host<K>>,
    /// Settings and state that all NICs of the partition share.
    pub(crate) shared: K::Shared,
    pub(crate) totals: HostTotals,
    /// Time of the latest progress of any flow in this partition.
    pub(crate) last_progress: Time,
    /// Notes that NICs left since the current window of simulated time began, each with the NIC's host.
    pub(crate) notices: Vec<(HostId, Notice)>,
}

impl<K: NicKind> NicPartition<K> {
    pub(crate) fn new(hosts: Vec<Host<K>>, shared: K::Shared) -> Self {
        NicPartition { hosts, shared, totals: HostTotals::default(), last_progress: Time::ZERO, notices: Vec::new() }
    }
}
