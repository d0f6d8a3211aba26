//! The state of a fabric at successive instants of a run, for pictures that move: replays, live views and traces.

use crate::record::RootKind;
use rnic_transport::Time;

/// The state of a fabric at an instant. Ports are written only if they changed since the previous frame, so a reader
/// keeps the latest state of each port.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub struct Frame {
    /// The instant: every event before it has been simulated.
    pub time: Time,
    /// The ports whose state differs from the previous frame, in order of the topology. Before the first frame, all
    /// ports are as [`FramePort::default`].
    pub ports: Vec<FramePort>,
    /// All transmitters that PFC pauses at the instant, in order of port and priority.
    pub pauses: Vec<FramePause>,
    /// Ports of a cycle of pauses: each waits for the next, and the last for the first. Empty without such a cycle.
    pub cycle: Vec<u32>,
    /// The flows that are under way now and were not at the previous frame, in order of their ids.
    pub started: Vec<FrameFlow>,
    /// The flows that have ended since the previous frame, in order of their ids, at most [`Frame::MAX_ENDED`]. Flows
    /// that also started since then are in no `started`. A flow may be missing in `delivered` one frame earlier.
    pub ended: Vec<FrameEnd>,
    /// Id and payload bytes that have arrived so far of each flow that is under way, in order of ids.
    pub delivered: Vec<(u32, u64)>,
}

impl Frame {
    /// Maximum number of flows that end between two frames; further ones are in no frame.
    pub const MAX_ENDED: usize = 1 << 20;
}

/// The state of a port at the instant of a frame. Counters begin at 0 at the start of the run.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct FramePort {
    /// Index of the port in the topology.
    pub port: u32,
    /// Bytes in the switch's buffer that wait for this output; 0 for a port of a host.
    pub queued: u64,
    /// Time for which the port has been sending, in picoseconds.
    pub busy_ps: u64,
    /// Packets that arrived at this port and that the switch dropped.
    pub dropped: u64,
    /// Packets that this port sent and that the link lost.
    pub lost: u64,
    /// Packets that the switch trimmed, or whose header it returned, because this output had no room.
    pub trimmed: u64,
    /// Packets that the switch marked "congestion experienced" at this output.
    pub marked: u64,
}

/// A transmitter that PFC pauses at the instant of a frame.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct FramePause {
    /// Index of the paused port.
    pub port: u32,
    /// The paused priority.
    pub priority: u8,
    /// Start of the pause.
    pub since: Time,
    /// The paused port for which the packets of this port wait: the next element of the chain to the root cause.
    /// `None` if the root cause itself pauses this port, or if no cause is left.
    pub waits_for: Option<u32>,
    /// Kind and port of the root cause; `None` if no cause is left and the resume frame is on its way.
    pub root: Option<(RootKind, u32)>,
}

/// A flow that is under way.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct FrameFlow {
    /// Id of the flow's record.
    pub flow: u32,
    /// Sending host.
    pub src: u32,
    /// Receiving host.
    pub dst: u32,
    /// Its payload bytes.
    pub bytes: u64,
    /// Its start.
    pub start: Time,
    /// Priority of its data packets.
    pub priority: u8,
    /// Hash of its data packets, which decides its path where switches select paths by hash
    /// ([`Routes::path`](rnic_fabric::Routes::path)).
    pub data_hash: u32,
}

/// A flow that has ended.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct FrameEnd {
    /// Id of the flow's record.
    pub flow: u32,
    /// Sending host.
    pub src: u32,
    /// Receiving host.
    pub dst: u32,
    /// Payload bytes that have arrived; 0 for a flow that was aborted, of which earlier frames have them.
    pub bytes: u64,
    /// When the last byte arrived; `None` if the flow was aborted.
    pub finish: Option<Time>,
}
