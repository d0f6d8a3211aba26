//! The hosts of one partition of the fabric.

use super::config::HostTotals;
use super::hosts::NicKind;
use super::ids::{EndSlot, FlowId};
use super::slab::Slab;
use rnic_fabric::HostId;
use rnic_transport::Time;
use std::collections::VecDeque;

/// A flow that starts in the current window.
#[derive(Clone, Copy)]
pub(crate) struct Start {
    pub(crate) at: Time,
    pub(crate) slot: EndSlot,
    /// The slot is the slot of the receiving end.
    pub(crate) receiving: bool,
}

/// One host: the ends of its flows, and its NIC. It knows only its own end of a flow; the packets and the end itself
/// name the other host and the slot there.
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

    /// Time of the next start, [`Time::MAX`] for none.
    #[inline]
    pub(crate) fn next_start(&self) -> Time {
        self.starts.front().map_or(Time::MAX, |start| start.at)
    }
}

/// A note of a host for the time between windows, when [`Hosts`](super::Hosts) processes it.
#[derive(Clone, Copy, Debug)]
pub(crate) enum Notice {
    /// Everything of the flow has arrived.
    Finished { flow: FlowId, at: Time },
    /// The sender of the message knows that everything has arrived.
    Sent { flow: FlowId },
    /// The sender of the message has aborted it.
    Aborted { flow: FlowId },
}

/// The hosts of one partition.
pub(crate) struct NicPartition<K: NicKind> {
    pub(crate) hosts: Vec<Host<K>>,
    /// Settings and state that the NICs of the partition share.
    pub(crate) shared: K::Shared,
    pub(crate) totals: HostTotals,
    /// When a flow last progressed here.
    pub(crate) last_progress: Time,
    /// Notes since the window began, each with its host.
    pub(crate) notices: Vec<(HostId, Notice)>,
}

impl<K: NicKind> NicPartition<K> {
    pub(crate) fn new(hosts: Vec<Host<K>>, shared: K::Shared) -> Self {
        NicPartition { hosts, shared, totals: HostTotals::default(), last_progress: Time::ZERO, notices: Vec::new() }
    }
}
