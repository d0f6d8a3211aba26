//! The hosts of one fabric partition, which one thread simulates at a time.

use super::config::HostTotals;
use super::hosts::NicKind;
use super::ids::{EndSlot, FlowId};
use super::slab::Slab;
use rnic_fabric::HostId;
use rnic_transport::Time;
use std::collections::VecDeque;

/// The start of a flow in the current window.
#[derive(Clone, Copy)]
pub(crate) struct Start {
    pub(crate) at: Time,
    pub(crate) slot: EndSlot,
    /// Whether `slot` holds the receiving end of the flow; otherwise it holds the sending end.
    pub(crate) receiving: bool,
}

/// One host: the ends of its flows, and its NIC. A host has only its own end of a flow. The flow's packets, and the end
/// itself, contain the id of the other host and the slot there.
pub(crate) struct Host<K: NicKind> {
    pub(crate) id: HostId,
    /// Flows that start in the current window, in order of time.
    pub(crate) starts: VecDeque<Start>,
    pub(crate) senders: Slab<EndSlot, K::SendEnd>,
    pub(crate) receivers: Slab<EndSlot, K::ReceiveEnd>,
    pub(crate) nic: K::Nic,
}

impl<K: NicKind> Host<K> {
    pub(crate) fn new(id: HostId, nic: K::Nic) -> Self {
        Host { id, starts: VecDeque::new(), senders: Slab::new(), receivers: Slab::new(), nic }
    }

    /// Time of the next start of a flow; [`Time::MAX`] if there is none.
    #[inline]
    pub(crate) fn next_start(&self) -> Time {
        self.starts.front().map_or(Time::MAX, |start| start.at)
    }
}

/// A note that a NIC leaves during a window. [`Hosts`](super::Hosts) processes it between windows.
#[derive(Clone, Copy, Debug)]
pub(crate) enum Notice {
    /// All bytes of the flow have arrived, at time `at`.
    Finished { flow: FlowId, at: Time },
    /// The sender of the message knows that all bytes have arrived.
    Sent { flow: FlowId },
    /// The sender of the message has aborted it.
    Aborted { flow: FlowId },
}

/// The hosts of one fabric partition, with their NICs.
pub(crate) struct NicPartition<K: NicKind> {
    pub(crate) hosts: Vec<Host<K>>,
    /// Settings and state that the NICs of the partition share.
    pub(crate) shared: K::Shared,
    pub(crate) totals: HostTotals,
    /// Time of the latest progress of a flow in this partition.
    pub(crate) last_progress: Time,
    /// Notes that NICs left since the window began, each with its host.
    pub(crate) notices: Vec<(HostId, Notice)>,
}

impl<K: NicKind> NicPartition<K> {
    pub(crate) fn new(hosts: Vec<Host<K>>, shared: K::Shared) -> Self {
        NicPartition { hosts, shared, totals: HostTotals::default(), last_progress: Time::ZERO, notices: Vec::new() }
    }
}
