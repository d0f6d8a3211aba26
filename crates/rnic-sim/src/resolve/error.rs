//! Why a run cannot be set up, by part of its setup.

use crate::link_faults::LinkFaultError;
use rnic_fabric::TopologyError;
use rnic_spec::P4Error;
use rnic_transport::{BitRate, Bytes};

/// Why a run cannot be set up.
#[derive(Clone, PartialEq, Debug, thiserror::Error)]
pub enum SetupError {
    /// The fabric of the run cannot be built from its topology, links and routes.
    #[error(transparent)]
    Fabric(#[from] TopologyError),
    /// A packet of the run is longer than a frame can be.
    #[error("{what} of {bytes} bytes is too long; a frame has at most {} bytes", u16::MAX)]
    Frame {
        /// The kind of packet.
        what: &'static str,
        /// Length of its frame.
        bytes: u64,
    },
    /// The sender chooses the entropy of each packet, but switches ignore it.
    #[error(
        "path_selection = \"{sender}\" has no effect with `paths` = \"{switch}\" in [fabric], which ignores what the \
         sender chooses; write paths = \"ecmp\", or leave `path_selection` out"
    )]
    Entropy {
        /// Path selection of the sender.
        sender: &'static str,
        /// Path selection of the switches.
        switch: &'static str,
    },
    /// Receivers grant credit at one rate, but hosts have links of different rates.
    #[error(
        "cc \"{cc}\" grants credit at one rate, but hosts have links of {slowest} to {fastest}; accepted: hosts with links of the same rate"
    )]
    CreditRates {
        /// Name of the congestion control.
        cc: String,
        /// Rate of the slowest link of a host.
        slowest: BitRate,
        /// Rate of the fastest link of a host.
        fastest: BitRate,
    },
    /// The traffic cannot be generated on this fabric, for this reason.
    #[error("{0}")]
    Traffic(String),
    /// The traffic source of this name has no end, and the run has no duration.
    #[error("traffic `{0}` has no end, and the run no `duration` in [limits]")]
    Endless(String),
    /// The switches cannot be built.
    #[error(transparent)]
    Switch(#[from] SwitchError),
    /// ECN marking contradicts itself or the congestion control.
    #[error(transparent)]
    Ecn(#[from] EcnError),
    /// The faults of the run contradict each other or the fabric.
    #[error(transparent)]
    Fault(#[from] FaultError),
    /// The transport cannot be configured.
    #[error(transparent)]
    Transport(#[from] TransportError),
    /// The congestion control cannot be configured.
    #[error(transparent)]
    Congestion(#[from] CongestionError),
    /// The P4 program of the transport cannot be compiled.
    #[error(transparent)]
    Program(#[from] P4Error),
    /// The queues or flows to sample do not exist, for this reason.
    #[error("[watch]: {0}")]
    Watch(String),
    /// The run needs packets (`fidelity = "packet"`), for this reason.
    #[error("{0}; fidelity = \"flow\" simulates no packets: write fidelity = \"packet\"")]
    NeedsPackets(String),
    /// Simulated time cannot be skipped (`fast_forward`), for this reason.
    #[error("{0}; fast_forward skips simulated time in which everything repeats: leave `fast_forward` out")]
    NoFastForward(String),
    /// The frames of a link cannot be captured, for this reason.
    #[error("{0}")]
    Capture(String),
}

/// Why the switches of a run cannot be built.
#[derive(Clone, PartialEq, Debug, thiserror::Error)]
pub enum SwitchError {
    /// The run needs more priorities than a fabric has.
    #[error(
        "transport \"{transport}\" needs {used} priorities, those of trimmed headers included; a fabric has at most {max}"
    )]
    Priorities {
        /// Name of the transport.
        transport: String,
        /// Number of priorities that the run needs.
        used: u8,
        /// Maximum number of priorities.
        max: u8,
    },
    /// The run needs more priorities than the scenario gives.
    #[error("`priorities` = {given}, but with {why} {used} are in use")]
    GivenPriorities {
        /// Number of priorities that the scenario gives.
        given: u8,
        /// What needs more.
        why: String,
        /// Number of priorities that the run needs.
        used: u8,
    },
    /// The list of weights has another length than the list of priorities.
    #[error(
        "`weights` has {weights} entries, but the switches have {priorities} priorities; accepted: one weight for each of them, the lowest first"
    )]
    Weights {
        /// Number of weights.
        weights: u8,
        /// Number of priorities.
        priorities: u8,
    },
    /// The buffer of an input port cannot hold a packet.
    #[error("a switch buffer of {buffer} cannot hold one packet of {packet} bytes")]
    Buffer {
        /// Size of the buffer.
        buffer: Bytes,
        /// Length of the longest packet.
        packet: u32,
    },
    /// `drop_until_free` exceeds the buffer.
    #[error("drop_until_free = \"{drop_until_free}\" is more than the buffer of {buffer}")]
    DropUntilFree {
        /// The setting.
        drop_until_free: Bytes,
        /// Size of the buffer.
        buffer: Bytes,
    },
    /// The buffer of an input port has no room above the PFC headroom.
    #[error(
        "a switch buffer of {buffer} is too small for PFC with a headroom of {headroom}; set a larger `buffer`, or `xoff` by hand"
    )]
    Headroom {
        /// Size of the buffer.
        buffer: Bytes,
        /// The headroom.
        headroom: Bytes,
    },
    /// `xoff` exceeds the buffer.
    #[error(
        "xoff = \"{xoff}\" is above the buffer of {buffer}; accepted: at most the buffer, so set a larger `buffer` or a smaller `xoff`"
    )]
    XoffAboveBuffer {
        /// Occupancy at which a pause begins.
        xoff: Bytes,
        /// Size of the buffer.
        buffer: Bytes,
    },
    /// `xon` exceeds `xoff`.
    #[error("xon = \"{xon}\" is above xoff, which follows from the buffer as \"{xoff}\"")]
    Xon {
        /// Occupancy at which a pause ends.
        xon: Bytes,
        /// Occupancy at which a pause begins.
        xoff: Bytes,
    },
    /// `xoff` and headroom of an input port cannot hold a packet.
    #[error("xoff = \"{xoff}\" and headroom = \"{headroom}\" together cannot hold one packet of {packet} bytes")]
    Xoff {
        /// Occupancy at which a pause begins.
        xoff: Bytes,
        /// The headroom.
        headroom: Bytes,
        /// Length of the longest packet.
        packet: u32,
    },
    /// A shared buffer has no room for the PFC headroom of all ports and priorities.
    #[error(
        "a shared buffer of {buffer} has no room for a headroom of {headroom} for each of {ports} ports in {priorities} priorities, {reserved} in all; set a larger `buffer`, fewer `priorities` or a smaller `headroom`"
    )]
    SharedHeadroom {
        /// Size of the buffer.
        buffer: Bytes,
        /// Headroom of a port and priority.
        headroom: Bytes,
        /// Number of ports.
        ports: u64,
        /// Number of priorities that PFC protects.
        priorities: u32,
        /// The headroom of all.
        reserved: Bytes,
    },
    /// `xoff` exceeds what the headroom leaves of a shared buffer.
    #[error("xoff = \"{xoff}\" is more than the {pool} that the headroom leaves of a shared buffer of {buffer}")]
    SharedXoff {
        /// Occupancy at which a pause begins.
        xoff: Bytes,
        /// Size of the buffer without the headroom.
        pool: Bytes,
        /// Size of the buffer.
        buffer: Bytes,
    },
    /// `xon_offset` exceeds `xoff`.
    #[error("xon_offset = \"{xon_offset}\" is more than xoff = \"{xoff}\"")]
    XonOffset {
        /// Difference between the occupancies at which a pause begins and ends.
        xon_offset: Bytes,
        /// Occupancy at which a pause begins.
        xoff: Bytes,
    },
    /// A shared buffer cannot hold a packet.
    #[error("a shared buffer of {buffer} cannot hold one packet of {packet} bytes")]
    SharedBuffer {
        /// Size of the buffer.
        buffer: Bytes,
        /// Length of the longest packet.
        packet: u32,
    },
    /// Output-queued switches have no PFC.
    #[error("`queueing` = \"output\" has no PFC, but the run has `pfc` = true")]
    OutputPfc,
    /// The buffer of an output cannot hold a packet.
    #[error("the buffer of {buffer} in priority {priority} cannot hold one packet of {packet} bytes")]
    OutputBuffer {
        /// Size of the buffer.
        buffer: Bytes,
        /// The priority of the buffer.
        priority: usize,
        /// Length of the longest packet of the priority.
        packet: u32,
    },
}

/// Why switches cannot mark packets as the run says.
#[derive(Clone, PartialEq, Debug, thiserror::Error)]
pub enum EcnError {
    /// A setting needs thresholds, and neither the scenario nor the congestion control has them.
    #[error(
        "`{key}` in [fabric.switch.ecn] needs both `kmin` and `kmax`, because cc \"{cc}\" has no thresholds of its own; for runs with another cc alone, write `set = {{ \"fabric.switch.ecn.{key}\" = ... }}` in these runs"
    )]
    Thresholds {
        /// The setting.
        key: &'static str,
        /// Name of the congestion control.
        cc: &'static str,
    },
    /// `kmin` exceeds `kmax`.
    #[error("kmin = \"{kmin}\" is above kmax = \"{kmax}\"")]
    Order {
        /// Lower threshold.
        kmin: Bytes,
        /// Upper threshold.
        kmax: Bytes,
    },
    /// The congestion control responds to marks, which the transport's software does not see.
    #[error(
        "cc \"{cc}\" responds to ECN marks, which host software above transport \"{transport}\" does not see; use one that responds to round-trip times or losses, or transport \"multipath\" with `nic_marks = true`"
    )]
    Unseen {
        /// Name of the congestion control.
        cc: &'static str,
        /// Name of the transport.
        transport: String,
    },
    /// Two transports of a run need different thresholds.
    #[error(
        "cc \"{cc}\" of transport \"{transport}\" and cc \"{other}\" have different thresholds of ECN; write `kmin` and `kmax` in [fabric.switch.ecn]"
    )]
    Differ {
        /// Congestion control of the further transport.
        cc: &'static str,
        /// Name of the further transport.
        transport: String,
        /// Congestion control of the run's own transport.
        other: &'static str,
    },
}

/// Why the faults of a run are impossible.
#[derive(Clone, PartialEq, Debug, thiserror::Error)]
pub enum FaultError {
    /// A rule names a link that does not exist, for this reason.
    #[error("[[fabric.drop]]: {0}")]
    NoLink(String),
    /// A rule names this host instead of a switch.
    #[error("[[fabric.drop]]: \"{0}\" is a host; `at` names a switch")]
    DropAtHost(String),
    /// Two rules are for the same packets.
    #[error("[[fabric.drop]]: two rules are for packets from {from} at {at}")]
    DropTwice {
        /// The node from which the packets come.
        from: String,
        /// The switch.
        at: String,
    },
    /// The transport of this name does not support dead hosts.
    #[error("transport \"{0}\" does not support `dead` hosts; transports of flows do, such as roce and irn")]
    DeadHosts(String),
    /// Two tables describe the receive pipeline of this host.
    #[error("[[fabric.receiver]]: two tables name the host {0}")]
    ReceiverTwice(String),
    /// This host has a storm and a slow receive pipeline.
    #[error("{0} has both a [[fabric.storm]] and a [[fabric.receiver]]; accepted: one of them")]
    StormAndReceiver(String),
    /// A fault of a link cannot be simulated.
    #[error("[[fabric.link]]: {0}")]
    Link(#[from] LinkFaultError),
}

/// Why the transport of a run cannot be configured.
#[derive(Clone, PartialEq, Debug, thiserror::Error)]
pub enum TransportError {
    /// The transport and the congestion control do not fit, or transports cannot share the hosts, for this reason.
    #[error("{0}")]
    Misfit(String),
    /// The settings of the transport contradict each other or the fabric, for this reason.
    #[error("{0}")]
    Settings(String),
    /// A transport in host software refuses its configuration.
    #[error("transport \"{transport}\": {reason}")]
    Refused {
        /// Name of the transport.
        transport: String,
        /// Its reason.
        reason: String,
    },
    /// A flow is longer than a message can be.
    #[error("a flow of {0} bytes; a message transport takes up to {max} bytes", max = u32::MAX)]
    Message(u64),
    /// No message buffer of the NIC can hold a flow.
    #[error("a flow of {bytes} bytes has no buffer: the largest of `{key}` has {max} bytes")]
    MessageBuffer {
        /// Length of the longest flow.
        bytes: u64,
        /// The setting with the sizes of the buffers.
        key: &'static str,
        /// Size of the largest buffer.
        max: u64,
    },
}

/// Why the congestion control of a run cannot be configured.
#[derive(Clone, PartialEq, Debug, thiserror::Error)]
pub enum CongestionError {
    /// No congestion control has this name.
    #[error("there is no cc \"{name}\"; there are: {}", known.join(", "))]
    Unknown {
        /// The name.
        name: &'static str,
        /// The names of all congestion controls.
        known: Vec<&'static str>,
    },
    /// The settings of the congestion control contradict each other.
    #[error("cc \"{name}\": {reason}")]
    Settings {
        /// Name of the congestion control.
        name: &'static str,
        /// Its reason.
        reason: String,
    },
}
