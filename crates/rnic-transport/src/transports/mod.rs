//! The transports that users can choose, each in its own file. A transport declares its name and parameters, and
//! configures a loss recovery or a transport program with the parameters' values.
//!
//! A transport is either a [`FlowTransport`], which combines a loss recovery with a separate congestion control, or a
//! [`MessageTransport`], a program for the NIC of the NanoTransport architecture ([`crate::message`]). Its
//! [`TransportDeclaration`] has the properties that do not depend on settings, and its implementation of [`Transport`]
//! says what the settings mean. To add a transport, write its file and add a line to [`visit_transports`]. Scenario
//! files, the simulator and `rnic list` then know the new transport. The transports in host software above a NIC are
//! declared here too; the crate `rnic-host` implements them.

mod flow;
mod homa;
mod host;
mod hpcc;
mod irn;
mod iwarp;
mod message;
mod ndp;
mod roce;
mod spray;
mod tcp;
mod uet;

pub use flow::SAFETY_TIMEOUT;
pub use homa::{Homa, HomaTr};
pub use host::HOST_PARAMETERS;
pub use hpcc::Hpcc;
pub use irn::{IRN_PIPELINE_CYCLES, Irn};
pub use iwarp::Iwarp;
pub use message::nic_config;
pub use ndp::Ndp;
pub use roce::Roce;
pub use tcp::{OFFLOAD, Tcp};
pub use uet::Uet;

use crate::config::FlowConfig;
use crate::headers::{MESSAGE_HEADER, ROCE_ACK, ROCE_DATA, TELEMETRY};
use crate::message::Pipeline;
use crate::message::nic::Order;
use crate::recovery::Protocol;
use crate::settings::{Kind, Parameter, Settings};
use crate::{BitRate, Time};
use std::fmt;
use std::ops::Deref;

/// Calls `visitor` with the type of every transport. To register a transport, add a line here.
///
/// ```
/// use rnic_transport::registry::visit_transports;
/// use rnic_transport::transports::{FlowTransport, MessageTransport, TransportVisitor};
///
/// struct Names(Vec<&'static str>);
/// impl TransportVisitor for Names {
///     fn flow_transport<F: FlowTransport>(&mut self) {
///         self.0.push(F::DECLARATION.name);
///     }
///     fn message_transport<M: MessageTransport>(&mut self) {
///         self.0.push(M::DECLARATION.name);
///     }
/// }
///
/// let mut names = Names(Vec::new());
/// visit_transports(&mut names);
/// assert!(names.0.starts_with(&["roce", "irn"]));
/// ```
pub fn visit_transports<V: TransportVisitor>(visitor: &mut V) {
    visitor.flow_transport::<Roce>();
    visitor.flow_transport::<Irn>();
    visitor.flow_transport::<Iwarp>();
    visitor.flow_transport::<Tcp>();
    visitor.flow_transport::<Uet>();
    visitor.message_transport::<Ndp>();
    visitor.message_transport::<Homa>();
    visitor.message_transport::<HomaTr>();
    visitor.message_transport::<Hpcc>();
}

/// The declarations of all transports: the transports of [`visit_transports`] in its order, then the transports in host
/// software.
pub fn transports() -> Vec<TransportDeclaration> {
    struct Declarations(Vec<TransportDeclaration>);
    impl TransportVisitor for Declarations {
        fn flow_transport<F: FlowTransport>(&mut self) {
            let recovery = |settings: &Settings| Some(F::select(settings, NameOfRecovery));
            self.0.push(TransportDeclaration { recovery, ..F::DECLARATION });
        }
        fn message_transport<M: MessageTransport>(&mut self) {
            self.0.push(M::DECLARATION);
        }
    }
    let mut declarations = Declarations(Vec::new());
    visit_transports(&mut declarations);
    declarations.0.extend(host::DECLARATIONS);
    declarations.0
}

/// A function that is generic over the type of a transport. [`visit_transports`] calls it for every transport.
pub trait TransportVisitor {
    /// Called once for each transport of flows, such as RoCE.
    fn flow_transport<F: FlowTransport>(&mut self);
    /// Called once for each transport of messages, such as NDP.
    fn message_transport<M: MessageTransport>(&mut self);
}

/// Sizes of a transport's frames in bytes, from the Ethernet header up to and including the frame check sequence.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct FrameSizes {
    /// Size of the headers and trailers around the payload of a data packet.
    pub data_header: u32,
    /// Size of an ACK, or of any control packet of a message transport.
    pub ack: u32,
    /// Size of a NACK.
    pub nack: u32,
}

/// Properties of the fabric from which a transport of flows derives its configuration.
#[derive(Clone, Copy, PartialEq, Debug)]
pub struct FabricFacts {
    /// Payload bytes of a full packet.
    pub mtu: u32,
    /// Size of the headers and trailers of a data packet in bytes: the run's setting `header`, or the transport's own
    /// size.
    pub header: u32,
    /// Rate of the fastest host link.
    pub line_rate: BitRate,
    /// Round-trip time of a full packet and its ACK over the longest path of an empty fabric.
    pub base_rtt: Time,
    /// Bandwidth-delay product of the longest path in packets. Its delay is the propagation in both directions.
    pub bdp: u32,
    /// Number of full packets in flight with which a flow fills the path between any two hosts of an empty fabric.
    pub fill: u32,
    /// Round-trip propagation of the longest path, plus the time to send a full buffer of the largest switch over one
    /// link. It is the default `RTO_high` (IRN, section 4.1).
    pub congested_rtt: Time,
    /// Whether the fabric never drops a packet: PFC is on with enough headroom, and there is no random loss.
    pub lossless: bool,
    /// Whether PFC is on and there is no random loss, while the headroom may be too small.
    pub meant_lossless: bool,
    /// Whether the run's congestion control works only with acknowledgements, or its traffic sends several messages on
    /// a queue pair, as with RDMA Writes.
    pub needs_acks: bool,
    /// Whether switches trim data packets that they have no room for.
    pub trims: bool,
}

/// Settings of a simulation run, printed for the reader of its results: pairs of a key and a value with its unit.
pub type Description = Vec<(&'static str, String)>;

/// The format of a transport's packets in capture files.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum WireFormat {
    /// RoCEv2 packets of the reliable connection (RC) service, as in the InfiniBand specification.
    Roce,
    /// RoCEv2 with the headers of IRN: a RETH in every packet of a Write, and selective acknowledgements.
    Irn,
    /// RoCEv2 packets of the simulated RDMA NIC below a transport in host software: the simulator has their headers.
    Nic,
    /// Another format, whose frames rnic cannot write.
    Other,
}

/// What the settings of a transport mean. Every method has a default, so a transport implements only the methods that
/// concern it. The properties that do not depend on settings are in its [`TransportDeclaration`].
pub trait Transport: Sync + 'static {
    /// Settings that have no effect because of other settings: (name of the parameter, reason). The user gets a message
    /// about them.
    fn unused_settings(&self, _settings: &Settings) -> Vec<(&'static str, &'static str)> {
        Vec::new()
    }

    /// The feature in these settings that works only with acknowledgements, in words for a message to the user; `None`
    /// if no feature does.
    fn needs_acks(&self, _settings: &Settings) -> Option<&'static str> {
        None
    }

    /// Whether the receiver acknowledges every data packet. `needs_acks` says whether the run's congestion control
    /// or traffic needs that.
    fn acknowledges(&self, _settings: &Settings, _needs_acks: bool) -> bool {
        true
    }

    /// The configuration of the run's flows. For a transport of messages, only the values that follow from the fabric
    /// have a meaning.
    ///
    /// # Errors
    /// If settings contradict each other. The error is one sentence.
    fn configure(&self, _settings: &Settings, fabric: &FabricFacts) -> Result<FlowConfig, String> {
        Ok(FlowConfig::from(fabric))
    }

    /// The settings of a transport of flows, as the description of a simulation run shows them. The first list is shown
    /// before the settings of the congestion control, the second list after them.
    fn describe_flows(&self, _settings: &Settings, _cfg: &FlowConfig) -> (Description, Description) {
        (Vec::new(), Vec::new())
    }

    /// The settings of a transport of messages, as the description of a simulation run shows them.
    fn describe_messages(&self, _settings: &Settings, _fabric: &MessageFacts) -> Description {
        Vec::new()
    }

    /// Whether the loss recovery that these settings select is go-back-N.
    fn is_go_back_n(&self, _settings: &Settings) -> bool {
        false
    }

    /// Whether these settings cap a flow's packets in flight.
    fn is_capped(&self, _settings: &Settings) -> bool {
        false
    }

    /// Whether the loss recovery that these settings select tolerates that packets overtake each other.
    fn tolerates_reordering(&self, _settings: &Settings) -> bool {
        false
    }

    /// Number of priorities that the packets of a message transport use, 1 to 8; `None` for a transport of flows.
    fn priorities(&self, _settings: &Settings) -> Option<u8> {
        None
    }
}

/// A transport of reliable flows: a loss recovery that is combined with a separate congestion control.
pub trait FlowTransport: Transport {
    /// The transport's properties that do not depend on settings.
    const DECLARATION: TransportDeclaration;

    /// Calls `visitor` with the type of the loss recovery that these settings select.
    fn select<V: ProtocolVisitor>(settings: &Settings, visitor: V) -> V::Output;
}

/// A function that is generic over the type of a loss recovery. [`FlowTransport::select`] calls it with one type.
pub trait ProtocolVisitor {
    /// Result of the function.
    type Output;
    /// Called with the type of the loss recovery that the settings select.
    fn visit<P: Protocol>(self) -> Self::Output;
}

/// Properties of the fabric from which a message transport derives the configuration of its program.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct MessageFacts {
    /// Payload bytes of a full packet.
    pub mtu: u32,
    /// Number of packets that a message may send before the first response of the receiver.
    pub rtt_pkts: u32,
    /// Round-trip time of a full packet over the longest path of an empty fabric, in nanoseconds; at least 1.
    pub base_rtt_ns: u32,
    /// Maximum number of switches on a path.
    pub max_hops: u8,
}

/// A transport of messages: a program for the NIC of [`crate::message`]. The program includes the congestion control.
pub trait MessageTransport: Transport {
    /// The transport's properties that do not depend on settings.
    const DECLARATION: TransportDeclaration;

    /// Calls `visitor` with a function that creates the transport's program for a NIC.
    fn select<V: ProgramVisitor>(settings: &Settings, fabric: &MessageFacts, visitor: V) -> V::Output;
}

/// A function that is generic over the type of a transport program. [`MessageTransport::select`] calls it with one
/// type.
pub trait ProgramVisitor {
    /// Result of the function.
    type Output;
    /// Called if the program's packets carry no in-band telemetry. `program` creates the program of the NIC with a
    /// given address.
    fn visit<P: Pipeline + 'static>(self, program: impl Fn(u32) -> P) -> Self::Output;
    /// Called instead of [`visit`](ProgramVisitor::visit) if the program's packets carry in-band telemetry.
    fn visit_with_telemetry<P: Pipeline + 'static>(self, program: impl Fn(u32) -> P) -> Self::Output;
}

/// Maximum number of packets in flight that a setting accepts: 2^23 - 1, half of the 24-bit sequence number space, as
/// [`Psn::MAX_WINDOW`](crate::Psn::MAX_WINDOW).
pub(crate) const MAX_IN_FLIGHT: u64 = (1 << 23) - 1;

/// Range that the settings for the size of a frame or header accept, in bytes.
const FRAME: Kind = Kind::Size { min: 1, max: 9_000 };

/// Parameters of every transport.
pub const COMMON_PARAMETERS: &[Parameter] = &[
    Parameter::derived("header", FRAME, "headers and trailers of a data packet; the transport's own"),
    Parameter::derived("ack_size", FRAME, "length of an ACK frame; the transport's own"),
];

/// Parameters of every transport of flows, in addition to [`COMMON_PARAMETERS`].
pub const FLOW_PARAMETERS: &[Parameter] = &[
    Parameter::derived("rto_min", Kind::Timeout, "minimum of a computed timeout; 100 us, iWARP 1 ms"),
    Parameter::derived("nack_size", FRAME, "length of a NACK frame; the transport's own"),
    Parameter::derived("cnp_size", FRAME, "length of a congestion notification packet; 78 B (RoCEv2, annex A17.9.3)"),
    Parameter::derived(
        "control_priority",
        Kind::Flag,
        "ACKs, NACKs and CNPs travel in a higher priority than data; uet yes, others no",
    ),
    Parameter::derived(
        "nic_burst",
        Kind::Count { min: 1, max: MAX_IN_FLIGHT },
        "packets of one flow before the NIC's next ready flow; 64 KB of packets, 1 with a congestion control",
    ),
    Parameter::derived("max_rate", Kind::Rate, "maximum rate of a lone flow; the host link's rate"),
];

/// Parameters of every transport of messages, in addition to [`COMMON_PARAMETERS`].
pub const MESSAGE_PARAMETERS: &[Parameter] = &[
    Parameter::derived(
        "rtt_packets",
        Kind::Count { min: 1, max: 1_000_000 },
        "packets that a new message may send at once; those of the longest path's round trip at line rate",
    ),
    Parameter::derived("rto_high", Kind::Timeout, "retransmission timeout of a message; a congested round trip"),
    Parameter::count("max_timeouts", 10, 1, 1_000_000, "consecutive timeouts after which a message is aborted; 10"),
    Parameter::derived(
        "rx_timeout",
        Kind::Time,
        "time without a packet of a message after which its reception expires; as long as a sender retries",
    ),
    Parameter::delay("timer_granularity", Time::ZERO, "timers fire at multiples of this time; 0: exactly"),
    Parameter::flag("probe", true, "retransmit the last packet at a timeout with nothing else to send; yes"),
    Parameter::derived(
        "send_order",
        Kind::Choice(&["round-robin", "shortest-first"]),
        "which message a NIC sends of; the transport's own",
    ),
    Parameter::derived("tx_buffers", Kind::Buffers, "buffers of messages being sent; without limit"),
    Parameter::derived("rx_buffers", Kind::Buffers, "buffers of messages being received; without limit"),
];

/// What a transport carries, and where it runs.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum TransportKind {
    /// Reliable flows: a loss recovery that is combined with a separate congestion control.
    Flows,
    /// Messages: the transport's program includes the congestion control.
    Messages,
    /// Messages through a transport in host software, above the verbs of a NIC, with a congestion control that responds
    /// to round-trip times.
    Host,
}

/// The declaration of a transport: its properties that do not depend on settings. It dereferences to the [`Transport`],
/// whose methods say what the settings mean.
#[derive(Clone, Copy)]
pub struct TransportDeclaration {
    /// The name of the transport. In a scenario file the key `transport` with this value selects it.
    pub name: &'static str,
    /// Description of the transport in one line, for the command `rnic list`.
    pub about: &'static str,
    /// Whether the transport carries flows or messages, and whether it runs in host software.
    pub kind: TransportKind,
    /// Parameters of this transport only.
    pub own_parameters: &'static [Parameter],
    /// Default frame sizes, without in-band telemetry. The settings of a simulation run may change them.
    pub frame_sizes: FrameSizes,
    /// Whether switches write in-band telemetry into the transport's data packets, even if no separate congestion
    /// control needs it.
    pub telemetry: bool,
    /// Whether switches choose a path for each packet (packet spraying), unless the scenario sets the path selection.
    pub spray: bool,
    /// Order in which a NIC sends the packets of its messages, unless the scenario sets `send_order`.
    pub order: Order,
    /// The format of the transport's packets in capture files.
    pub wire: WireFormat,
    /// Whether the simulator warns if the cap on packets in flight keeps a lone flow below line rate.
    pub warns_of_small_cap: bool,
    /// Whether the transport responds to packets that switches have trimmed; otherwise it treats them as lost.
    pub handles_trimming: bool,
    /// Whether NICs of this transport can grant credit to senders ([`crate::credit`]).
    pub grants_credit: bool,
    /// Whether control packets have a priority of their own, unless the scenario sets `control_priority`.
    pub control_first: bool,
    /// Whether a program that the user writes is the transport, so that its name is followed by a file.
    pub reads_program: bool,
    transport: &'static dyn Transport,
    recovery: fn(&Settings) -> Option<&'static str>,
}

/// Frame sizes of every message transport (section 5.1 of the NanoTransport paper).
const MESSAGE_FRAMES: FrameSizes =
    FrameSizes { data_header: MESSAGE_HEADER, ack: MESSAGE_HEADER, nack: MESSAGE_HEADER };

impl TransportDeclaration {
    /// The declaration of a transport of flows, with the default of every further property.
    pub const fn flows(
        transport: &'static dyn Transport, name: &'static str, about: &'static str,
    ) -> TransportDeclaration {
        TransportDeclaration {
            name,
            about,
            kind: TransportKind::Flows,
            own_parameters: &[],
            frame_sizes: FrameSizes { data_header: ROCE_DATA, ack: ROCE_ACK, nack: ROCE_ACK },
            telemetry: false,
            spray: false,
            order: Order::RoundRobin,
            wire: WireFormat::Other,
            warns_of_small_cap: false,
            handles_trimming: false,
            grants_credit: false,
            control_first: false,
            reads_program: false,
            transport,
            recovery: |_| None,
        }
    }

    /// The declaration of a transport of messages, with the default of every further property.
    pub const fn messages(
        transport: &'static dyn Transport, name: &'static str, about: &'static str,
    ) -> TransportDeclaration {
        let kind = TransportKind::Messages;
        TransportDeclaration {
            kind,
            frame_sizes: MESSAGE_FRAMES,
            handles_trimming: true,
            ..TransportDeclaration::flows(transport, name, about)
        }
    }

    /// The declaration of a transport in host software, with the default of every further property.
    const fn host(transport: &'static dyn Transport, name: &'static str, about: &'static str) -> TransportDeclaration {
        let (kind, wire) = (TransportKind::Host, WireFormat::Nic);
        TransportDeclaration { kind, wire, ..TransportDeclaration::flows(transport, name, about) }
    }

    /// The declaration of a transport whose programs are read from files, such as P4 programs. The transport's own
    /// parameter is the rate of paced control packets; each program brings further parameters.
    pub fn of_programs(name: &'static str, about: &'static str) -> TransportDeclaration {
        let own_parameters = &[message::PULL_RATE];
        TransportDeclaration {
            own_parameters,
            reads_program: true,
            ..TransportDeclaration::messages(&message::Programs, name, about)
        }
    }

    /// The settings of a transport in host software, as the description of a simulation run shows them, without those
    /// that the simulator derives from the fabric.
    pub fn describe_host(&self, settings: &Settings) -> Description {
        host::describe(self.own_parameters, settings)
    }

    /// All parameters of the transport: the parameters of every transport, those of every transport of its kind, and
    /// its own.
    pub fn parameters(&self) -> [&'static [Parameter]; 3] {
        let of_kind = match self.kind {
            TransportKind::Flows => FLOW_PARAMETERS,
            TransportKind::Messages => MESSAGE_PARAMETERS,
            TransportKind::Host => HOST_PARAMETERS,
        };
        [COMMON_PARAMETERS, of_kind, self.own_parameters]
    }

    /// The declaration of the parameter called `name`.
    pub fn parameter(&self, name: &str) -> Option<&'static Parameter> {
        self.parameters().into_iter().flatten().find(|parameter| parameter.name == name)
    }

    /// Settings in which all parameters have their defaults.
    pub fn settings(&self) -> Settings {
        Settings::of(&self.parameters())
    }

    /// Default frame sizes. `telemetry` says whether data packets, ACKs and NACKs carry in-band telemetry.
    pub fn frames(&self, telemetry: bool) -> FrameSizes {
        let FrameSizes { data_header, ack, nack } = self.frame_sizes;
        let more = if telemetry { TELEMETRY } else { 0 };
        FrameSizes { data_header: data_header + more, ack: ack + more, nack: nack + more }
    }

    /// Name of the Rust type of the loss recovery that these settings select, with which a caller can find out whether
    /// two runs use the same one; `None` for a transport of messages.
    pub fn recovery(&self, settings: &Settings) -> Option<&'static str> {
        (self.recovery)(settings)
    }
}

struct NameOfRecovery;

impl ProtocolVisitor for NameOfRecovery {
    type Output = &'static str;

    fn visit<P: Protocol>(self) -> &'static str {
        std::any::type_name::<P>()
    }
}

impl Deref for TransportDeclaration {
    type Target = dyn Transport;

    fn deref(&self) -> &(dyn Transport + 'static) {
        self.transport
    }
}

impl fmt::Debug for TransportDeclaration {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.name)
    }
}

/// Two declarations are equal if their transports have the same name.
impl PartialEq for TransportDeclaration {
    fn eq(&self, other: &TransportDeclaration) -> bool {
        self.name == other.name
    }
}
