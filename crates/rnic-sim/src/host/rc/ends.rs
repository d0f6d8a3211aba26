//! The ends of an RC-like flow.

use crate::host::ends::{FlowHashes, ReceivingEnd, SendingEnd};
use crate::host::ids::{EndSlot, FlowId};
use rnic_fabric::HostId;
use rnic_transport::congestion::CongestionControl;
use rnic_transport::recovery::Protocol;
use rnic_transport::{Psn, Receiver, Sender, Time};

/// State of a sending end.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Phase {
    /// The flow sends.
    Active,
    /// The next flow of its connection has started before the sender learned that everything has arrived.
    Followed,
    /// The flow has retired, or is about to start on a connection that has the state of an earlier flow.
    Idle,
}

/// A persistent connection as its sending host knows it.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Connection {
    /// Slot of its latest flow, which holds the state of the connection. No other flow takes the slot.
    pub(crate) slot: EndSlot,
    /// PSN of the next flow's first packet. Packets of earlier flows have earlier PSNs.
    pub(crate) next: Psn,
}

/// What both ends of a flow know of it.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Peer {
    /// Id of the flow; [`FlowId::NONE`] after its slots have been released.
    pub(crate) flow: FlowId,
    /// The other host.
    pub(crate) host: HostId,
    /// Slot of the other end there.
    pub(crate) slot: EndSlot,
    pub(crate) hashes: FlowHashes,
}

impl Peer {
    fn forget(&mut self) {
        self.flow = FlowId::NONE;
        self.hashes.invalidate();
    }
}

/// The sending end of a flow.
pub(crate) struct SendEnd<P: Protocol, C: CongestionControl> {
    pub(crate) sender: Sender<P, C>,
    pub(crate) peer: Peer,
    /// Time of the pending timer entry, [`Time::MAX`] for none.
    pub(crate) armed: Time,
    /// The flow is in the host's queue of ready flows, or waits for its pacing time.
    pub(crate) queued: bool,
    pub(crate) phase: Phase,
    /// Index of the flow's persistent connection in its host, [`Loops::NONE`](rnic_workload::Loops::NONE) for none.
    pub(crate) connection: u32,
    pub(crate) retransmitted: u32,
    pub(crate) timeouts: u32,
}

impl<P: Protocol, C: CongestionControl> SendingEnd for SendEnd<P, C> {
    fn data_hash(&self) -> u32 {
        self.peer.hashes.data
    }
    fn control_hash(&self) -> u32 {
        self.peer.hashes.control
    }
    fn retransmitted(&self) -> u32 {
        self.retransmitted
    }
    fn timeouts(&self) -> u32 {
        self.timeouts
    }
    fn forget(&mut self) {
        self.peer.forget();
    }
}

/// The receiving end of a flow.
pub(crate) struct ReceiveEnd<P: Protocol> {
    pub(crate) receiver: Receiver<P>,
    pub(crate) peer: Peer,
    /// Time of the pending timer entry, [`Time::MAX`] for none.
    pub(crate) armed: Time,
    /// Everything has arrived.
    pub(crate) done: bool,
    pub(crate) timeouts: u32,
}

impl<P: Protocol> ReceivingEnd for ReceiveEnd<P> {
    fn is_done(&self) -> bool {
        self.done
    }
    fn timeouts(&self) -> u32 {
        self.timeouts
    }
    fn forget(&mut self) {
        self.peer.forget();
    }
}
