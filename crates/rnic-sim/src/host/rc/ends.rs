//! The sending and the receiving end of a flow of an RC-like transport (reliable flows).

use super::stream::{ReceiveStream, SendStream};
use crate::host::ends::{FlowHashes, ReceivingEnd, SendingEnd};
use crate::host::ids::{EndSlot, FlowId};
use rnic_fabric::HostId;
use rnic_transport::congestion::CongestionControl;
use rnic_transport::recovery::Protocol;
use rnic_transport::{Psn, Receiver, Sender, Time};

/// State of the sending end of a flow.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Phase {
    /// The flow has started, and no later flow of its persistent connection has started.
    Active,
    /// The next flow of the persistent connection has started before the sender knew that all bytes of this flow had
    /// arrived.
    Followed,
    /// The flow has retired, or it has not started yet and will continue the persistent connection of an earlier flow.
    Idle,
}

/// State of a persistent connection on its sending host.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Connection {
    /// Slot of the connection's latest flow, which holds the state of the connection. No flow of another connection
    /// takes this slot.
    pub(crate) slot: EndSlot,
    /// PSN of the first packet of the connection's next flow. Packets of earlier flows have earlier PSNs.
    pub(crate) next: Psn,
}

/// What each end of a flow knows: the identity of the flow, and the address of the flow's other end.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Peer {
    /// Id of the flow; [`FlowId::NONE`] after its slots have been released.
    pub(crate) flow: FlowId,
    /// The host at the other end of the flow.
    pub(crate) host: HostId,
    /// Slot of the flow's other end on that host.
    pub(crate) slot: EndSlot,
    pub(crate) hashes: FlowHashes,
}

impl Peer {
    fn forget(&mut self) {
        self.flow = FlowId::NONE;
        self.hashes.invalidate();
    }
}

/// The sending end of a reliable flow, on the sending host.
pub(crate) struct SendEnd<P: Protocol, C: CongestionControl> {
    pub(crate) sender: Sender<P, C>,
    pub(crate) peer: Peer,
    /// Time of this end's pending entry in the heap of timers; [`Time::MAX`] if there is none.
    pub(crate) armed: Time,
    /// Whether the flow is in the NIC's queue of ready flows, or waits for its pacing time.
    pub(crate) queued: bool,
    pub(crate) phase: Phase,
    /// Index of the flow's persistent connection on its sending host; [`Loops::NONE`](rnic_workload::Loops::NONE) if
    /// the flow has none.
    pub(crate) connection: u32,
    /// The messages of a stream; `None` for an end with one flow.
    pub(crate) stream: Option<Box<SendStream>>,
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

/// The receiving end of a reliable flow, on the receiving host.
pub(crate) struct ReceiveEnd<P: Protocol> {
    pub(crate) receiver: Receiver<P>,
    pub(crate) peer: Peer,
    /// Time of this end's pending entry in the heap of timers; [`Time::MAX`] if there is none.
    pub(crate) armed: Time,
    /// Whether all bytes of the flow have arrived.
    pub(crate) done: bool,
    /// The messages of a stream; `None` for an end with one flow.
    pub(crate) stream: Option<Box<ReceiveStream>>,
    pub(crate) timeouts: u32,
}

impl<P: Protocol> ReceivingEnd for ReceiveEnd<P> {
    fn is_done(&self, flow: FlowId) -> bool {
        self.stream.as_ref().map_or(self.done, |stream| stream.is_done(flow))
    }
    fn timeouts(&self) -> u32 {
        self.timeouts
    }
    fn forget(&mut self) {
        self.peer.forget();
    }
}
