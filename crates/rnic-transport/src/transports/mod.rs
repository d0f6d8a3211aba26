//! The transports, a file each: what a transport declares to users, and how it configures the recovery or program that
//! runs.
//!
//! A transport is either a [`FlowTransport`], which combines a loss recovery with a separate congestion control, or a
//! [`MessageTransport`], a program of the message engine ([`crate::message`]). To add one, write its file and add its
//! line to [`visit_transports`]: scenarios, the simulator, listings and documentation follow.

mod flow;
mod homa;
mod hpcc;
mod irn;
mod iwarp;
mod message;
mod ndp;
mod roce;

pub use flow::SAFETY_TIMEOUT;
pub use homa::{Homa, HomaTr};
pub use hpcc::Hpcc;
pub use irn::Irn;
pub use iwarp::Iwarp;
pub use message::nic_config;
pub use ndp::Ndp;
pub use roce::Roce;

use crate::config::FlowConfig;
use crate::headers::{MESSAGE_HEADER, TELEMETRY};
use crate::message::Pipeline;
use crate::message::nic::Order;
use crate::recovery::Protocol;
use crate::settings::{Kind, Parameter, Settings};
use crate::{BitRate, Time};
use std::fmt;

/// Calls `visitor` with the type of every transport. To register a transport, add a line here.
///
/// ```
/// use rnic_transport::registry::visit_transports;
/// use rnic_transport::transports::{FlowTransport, MessageTransport, TransportVisitor};
///
/// struct Names(Vec<&'static str>);
/// impl TransportVisitor for Names {
///     fn flow_transport<F: FlowTransport>(&mut self) {
///         self.0.push(F::NAME);
///     }
///     fn message_transport<M: MessageTransport>(&mut self) {
///         self.0.push(M::NAME);
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
    visitor.message_transport::<Ndp>();
    visitor.message_transport::<Homa>();
    visitor.message_transport::<HomaTr>();
    visitor.message_transport::<Hpcc>();
}

/// The declarations of all transports, in order of registration.
pub fn transports() -> Vec<TransportDeclaration> {
    struct Declarations(Vec<TransportDeclaration>);
    impl TransportVisitor for Declarations {
        fn flow_transport<F: FlowTransport>(&mut self) {
            self.0.push(TransportDeclaration::of_flows::<F>());
        }
        fn message_transport<M: MessageTransport>(&mut self) {
            self.0.push(TransportDeclaration::of_messages::<M>());
        }
    }
    let mut declarations = Declarations(Vec::new());
    visit_transports(&mut declarations);
    declarations.0
}

/// A function that is generic over the type of a transport; see [`visit_transports`].
pub trait TransportVisitor {
    /// Called once for each transport of flows.
    fn flow_transport<F: FlowTransport>(&mut self);
    /// Called once for each transport of messages.
    fn message_transport<M: MessageTransport>(&mut self);
}

/// Frame sizes of a transport in bytes, from the Ethernet header to the frame check sequence.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct FrameSizes {
    /// Headers and trailers around the payload of a data packet.
    pub data_header: u32,
    /// An ACK, or any control packet of a message transport.
    pub ack: u32,
    /// A NACK.
    pub nack: u32,
}

/// What a transport's configuration takes from the fabric.
#[derive(Clone, Copy, PartialEq, Debug)]
pub struct FabricFacts {
    /// Payload bytes of a full packet.
    pub mtu: u32,
    /// Headers and trailers of a data packet in bytes, as the run has them.
    pub header: u32,
    /// Rate of the fastest host link.
    pub line_rate: BitRate,
    /// Round-trip time of a full packet and its ACK over the longest path of an empty fabric.
    pub base_rtt: Time,
    /// Bandwidth-delay product of the longest path in packets.
    pub bdp: u32,
    /// Round-trip propagation of the longest path, plus the time to send all that the largest switch can hold over one
    /// link: the default `RTO_high` (IRN, section 4.1).
    pub congested_rtt: Time,
    /// Nothing can be dropped: PFC with enough headroom, and no random loss.
    pub lossless: bool,
    /// PFC is on and there is no random loss, but the headroom may be too small.
    pub meant_lossless: bool,
    /// The run's congestion control works only with acknowledgements.
    pub cc_needs_acks: bool,
}

/// Settings as a reader of results wants them: (key, value with unit).
pub type Description = Vec<(&'static str, String)>;

/// The format of a transport's packets on a wire.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum WireFormat {
    /// RoCEv2 of the InfiniBand specification, as RC sends it.
    Roce,
    /// RoCEv2 with the headers of IRN: a RETH in every packet of a Write, and selective acknowledgements.
    Irn,
    /// Another format, of which this project writes no frames.
    Other,
}

/// A transport of reliable flows: a loss recovery, with a congestion control beside it.
pub trait FlowTransport: 'static {
    /// The name in a scenario's `transport`.
    const NAME: &'static str;
    /// Description of one line.
    const ABOUT: &'static str;
    /// Parameters that only this transport, or not every transport of flows, has. Those of all flow transports are
    /// [`FLOW_PARAMETERS`].
    const PARAMETERS: &'static [Parameter];

    /// Frame sizes without settings of the run.
    fn frames() -> FrameSizes;

    /// Settings that have no effect because of others: (name of the idle parameter, reason).
    fn idle(settings: &Settings) -> Vec<(&'static str, &'static str)>;

    /// The feature of these settings that needs acknowledgements, if any.
    fn needs_acks(_settings: &Settings) -> Option<&'static str> {
        None
    }

    /// Whether every data packet is acknowledged; `cc_needs_acks`: the run's congestion control works only with
    /// acknowledgements.
    fn acknowledges(_settings: &Settings, _cc_needs_acks: bool) -> bool {
        true
    }

    /// Configuration of the run's flows.
    ///
    /// # Errors
    /// One sentence if settings contradict each other.
    fn configure(settings: &Settings, facts: &FabricFacts) -> Result<FlowConfig, String>;

    /// Settings to show before those of the congestion control, and after them.
    fn describe(settings: &Settings, cfg: &FlowConfig) -> (Description, Description);

    /// Whether to warn if the cap on packets in flight keeps a lone flow below line rate.
    const WARNS_OF_SMALL_CAP: bool = false;

    /// The format of its packets on a wire, for captures.
    const WIRE: WireFormat;

    /// Calls `visitor` with the loss recovery that these settings ask for.
    fn select<V: ProtocolVisitor>(settings: &Settings, visitor: V) -> V::Output;
}

/// A function that is generic over a loss recovery.
pub trait ProtocolVisitor {
    /// Result of the function.
    type Output;
    /// Called with the loss recovery.
    fn visit<P: Protocol>(self) -> Self::Output;
}

/// What the program of a message transport takes from the fabric.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct MessageFacts {
    /// Payload bytes of a full packet.
    pub mtu: u32,
    /// Packets that a message may send before the first response.
    pub rtt_pkts: u32,
    /// Round-trip time of a full packet over the longest path of an empty fabric, in nanoseconds; at least 1.
    pub base_rtt_ns: u32,
}

/// A transport of messages: a program of the message engine. It controls congestion itself.
pub trait MessageTransport: 'static {
    /// The name in a scenario's `transport`.
    const NAME: &'static str;
    /// Description of one line.
    const ABOUT: &'static str;
    /// Parameters that not every message transport has. Those of all are [`MESSAGE_PARAMETERS`].
    const PARAMETERS: &'static [Parameter];
    /// Whether switches write in-band telemetry into its data packets.
    const TELEMETRY: bool = false;
    /// Whether each packet takes a path of its own if the scenario does not say.
    const SPRAY: bool = false;
    /// Order in which a NIC sends the packets of its messages if the scenario does not say.
    const ORDER: Order = Order::RoundRobin;

    /// Number of priorities that its packets use, 1 to 8.
    fn priorities(_settings: &Settings) -> u8 {
        2
    }

    /// Settings of its own to show.
    fn describe(settings: &Settings, facts: &MessageFacts) -> Description;

    /// Calls `visitor` with a constructor of the program.
    fn select<V: ProgramVisitor>(settings: &Settings, facts: &MessageFacts, visitor: V) -> V::Output;
}

/// A function that is generic over a message program.
pub trait ProgramVisitor {
    /// Result of the function.
    type Output;
    /// Called with a function that makes the program of the NIC with an IP address.
    fn visit<P: Pipeline + 'static>(self, program: impl Fn(u32) -> P) -> Self::Output;
    /// The same for a program whose packets carry in-band telemetry.
    fn visit_with_telemetry<P: Pipeline + 'static>(self, program: impl Fn(u32) -> P) -> Self::Output;
}

/// Maximum number of packets in flight: half of the 24-bit packet sequence numbers.
pub(crate) const MAX_IN_FLIGHT: u64 = (1 << 23) - 1;

/// Sizes that a frame or header can be set to, in bytes.
const FRAME: Kind = Kind::Size { min: 1, max: 9_000 };

/// Parameters of every transport.
pub const COMMON_PARAMETERS: &[Parameter] = &[
    Parameter::derived("header", FRAME, "headers and trailers of a data packet; the transport's own"),
    Parameter::derived("ack_size", FRAME, "length of an ACK frame; the transport's own"),
];

/// Parameters of every transport of flows, beside [`COMMON_PARAMETERS`].
pub const FLOW_PARAMETERS: &[Parameter] = &[
    Parameter::derived("rto_min", Kind::Timeout, "minimum of a computed timeout; 100 us, iWARP 1 ms"),
    Parameter::derived("nack_size", FRAME, "length of a NACK frame; the transport's own"),
    Parameter::derived("cnp_size", FRAME, "length of a congestion notification packet; 78 B (RoCEv2, annex A17.9.3)"),
    Parameter::flag("control_priority", false, "ACKs, NACKs and CNPs travel in a higher priority than data; no"),
    Parameter::count("nic_burst", 1, 1, MAX_IN_FLIGHT, "packets of one flow before the NIC's next ready flow; 1"),
    Parameter::derived("max_rate", Kind::Rate, "maximum rate of a lone flow; the host link's rate"),
];

/// Parameters of every transport of messages, beside [`COMMON_PARAMETERS`].
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
    Parameter {
        name: "timer_granularity",
        kind: Kind::Delay,
        default: Some(crate::settings::DefaultValue::Time(Time::ZERO)),
        about: "timers fire at multiples of this time; 0: exactly",
    },
    Parameter::flag("probe", true, "retransmit the last packet at a timeout with nothing else to send; yes"),
    Parameter::derived(
        "send_order",
        Kind::Choice(&["round-robin", "shortest-first"]),
        "which message a NIC sends of; the transport's own",
    ),
    Parameter::derived("tx_buffers", Kind::Buffers, "buffers of messages being sent; without limit"),
    Parameter::derived("rx_buffers", Kind::Buffers, "buffers of messages being received; without limit"),
];

/// Whether a transport carries flows or messages.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum TransportKind {
    /// Reliable flows, with a congestion control beside the loss recovery.
    Flows,
    /// Messages; the transport controls congestion itself.
    Messages,
}

/// All that is known of a transport without running it.
#[derive(Clone, Copy)]
pub struct TransportDeclaration {
    /// The name in a scenario's `transport`.
    pub name: &'static str,
    /// Description of one line.
    pub about: &'static str,
    /// Flows or messages.
    pub kind: TransportKind,
    /// Parameters of its own.
    pub own_parameters: &'static [Parameter],
    /// Whether switches write in-band telemetry into its packets, whatever the congestion control.
    pub telemetry: bool,
    /// Whether each packet takes a path of its own if the scenario does not say.
    pub spray: bool,
    /// Order in which a NIC sends the packets of its messages if the scenario does not say.
    pub order: Order,
    /// The format of its packets on a wire.
    pub wire: WireFormat,
    /// Whether to warn if the cap on packets in flight keeps a lone flow below line rate.
    pub warns_of_small_cap: bool,
    frames: fn() -> FrameSizes,
    configure: fn(&Settings, &FabricFacts) -> Result<FlowConfig, String>,
    describe_flows: fn(&Settings, &FlowConfig) -> (Description, Description),
    describe_messages: fn(&Settings, &MessageFacts) -> Description,
    idle: fn(&Settings) -> Vec<(&'static str, &'static str)>,
    needs_acks: fn(&Settings) -> Option<&'static str>,
    acknowledges: fn(&Settings, bool) -> bool,
    priorities: fn(&Settings) -> Option<u8>,
    recovery: fn(&Settings) -> Option<&'static str>,
}

/// Frames of every message transport (NanoTransport, section 5.1).
fn message_frames() -> FrameSizes {
    FrameSizes { data_header: MESSAGE_HEADER, ack: MESSAGE_HEADER, nack: MESSAGE_HEADER }
}

impl TransportDeclaration {
    /// The declaration of a transport of flows.
    pub fn of_flows<F: FlowTransport>() -> TransportDeclaration {
        TransportDeclaration {
            name: F::NAME,
            about: F::ABOUT,
            kind: TransportKind::Flows,
            own_parameters: F::PARAMETERS,
            telemetry: false,
            spray: false,
            order: Order::RoundRobin,
            wire: F::WIRE,
            warns_of_small_cap: F::WARNS_OF_SMALL_CAP,
            frames: F::frames,
            configure: F::configure,
            describe_flows: F::describe,
            describe_messages: |_, _| Vec::new(),
            idle: F::idle,
            needs_acks: F::needs_acks,
            acknowledges: F::acknowledges,
            priorities: |_| None,
            recovery: |settings| Some(F::select(settings, NameOfRecovery)),
        }
    }

    /// The declaration of a transport of messages.
    pub fn of_messages<M: MessageTransport>() -> TransportDeclaration {
        TransportDeclaration {
            name: M::NAME,
            about: M::ABOUT,
            own_parameters: M::PARAMETERS,
            telemetry: M::TELEMETRY,
            spray: M::SPRAY,
            order: M::ORDER,
            priorities: |settings| Some(M::priorities(settings)),
            describe_messages: M::describe,
            ..TransportDeclaration::of_programs("", "")
        }
    }

    /// The declaration of transports whose programs are read from files, such as P4: whatever differs between programs
    /// is with the program.
    pub fn of_programs(name: &'static str, about: &'static str) -> TransportDeclaration {
        TransportDeclaration {
            name,
            about,
            kind: TransportKind::Messages,
            own_parameters: &[],
            telemetry: false,
            spray: false,
            order: Order::RoundRobin,
            wire: WireFormat::Other,
            warns_of_small_cap: false,
            frames: message_frames,
            configure: |_, facts| Ok(FlowConfig::from(facts)),
            describe_flows: |_, _| (Vec::new(), Vec::new()),
            describe_messages: |_, _| Vec::new(),
            idle: |_| Vec::new(),
            needs_acks: |_| None,
            acknowledges: |_, _| true,
            priorities: |_| Some(2),
            recovery: |_| None,
        }
    }

    /// All of its parameters: those of every transport, those of its kind, and its own.
    pub fn parameters(&self) -> [&'static [Parameter]; 3] {
        let of_kind = match self.kind {
            TransportKind::Flows => FLOW_PARAMETERS,
            TransportKind::Messages => MESSAGE_PARAMETERS,
        };
        [COMMON_PARAMETERS, of_kind, self.own_parameters]
    }

    /// The parameter of this name.
    pub fn parameter(&self, name: &str) -> Option<&'static Parameter> {
        self.parameters().into_iter().flatten().find(|parameter| parameter.name == name)
    }

    /// Default settings.
    pub fn settings(&self) -> Settings {
        Settings::of(&self.parameters())
    }

    /// Frame sizes; `telemetry`: data packets, ACKs and NACKs carry in-band telemetry.
    pub fn frames(&self, telemetry: bool) -> FrameSizes {
        let FrameSizes { data_header, ack, nack } = (self.frames)();
        let more = if telemetry { TELEMETRY } else { 0 };
        FrameSizes { data_header: data_header + more, ack: ack + more, nack: nack + more }
    }

    /// Configuration of the run's flows; of a transport of messages only what follows from the fabric has a meaning.
    ///
    /// # Errors
    /// One sentence if settings contradict each other.
    pub fn configure(&self, settings: &Settings, facts: &FabricFacts) -> Result<FlowConfig, String> {
        (self.configure)(settings, facts)
    }

    /// Settings of a transport of flows to show before those of the congestion control, and after them.
    pub fn describe_flows(&self, settings: &Settings, cfg: &FlowConfig) -> (Description, Description) {
        (self.describe_flows)(settings, cfg)
    }

    /// Settings of a transport of messages to show.
    pub fn describe_messages(&self, settings: &Settings, facts: &MessageFacts) -> Description {
        (self.describe_messages)(settings, facts)
    }

    /// Settings that have no effect because of others: (name of the idle parameter, reason).
    pub fn idle(&self, settings: &Settings) -> Vec<(&'static str, &'static str)> {
        (self.idle)(settings)
    }

    /// The feature of these settings that needs acknowledgements, if any.
    pub fn needs_acks(&self, settings: &Settings) -> Option<&'static str> {
        (self.needs_acks)(settings)
    }

    /// Whether every data packet is acknowledged; `cc_needs_acks`: the congestion control works only with
    /// acknowledgements.
    pub fn acknowledges(&self, settings: &Settings, cc_needs_acks: bool) -> bool {
        (self.acknowledges)(settings, cc_needs_acks)
    }

    /// Number of priorities that a message transport uses; `None` for a transport of flows.
    pub fn priorities(&self, settings: &Settings) -> Option<u8> {
        (self.priorities)(settings)
    }

    /// Name of the type of the loss recovery that these settings select, which tells recoveries apart within one
    /// program; `None` for a transport of messages.
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

impl fmt::Debug for TransportDeclaration {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.name)
    }
}

/// Declarations are told apart by name.
impl PartialEq for TransportDeclaration {
    fn eq(&self, other: &TransportDeclaration) -> bool {
        self.name == other.name
    }
}
