//! How the hosts of a run send: the declarations and settings of the run's transport and congestion control.

use crate::congestion::{CongestionDeclaration, CongestionSpec};
use crate::p4::P4Program;
use rnic_fabric::config::Paths;
use rnic_transport::congestion::RogueDelay;
use rnic_transport::headers::CNP;
use rnic_transport::message::Order;
use rnic_transport::registry::transports;
use rnic_transport::settings::{Settings, Value};
use rnic_transport::transports::{FrameSizes, TransportDeclaration, TransportKind};

/// Prefix of the name of a transport in P4; the rest of the name is the file of the program (`p4:FILE`).
pub const P4_PREFIX: &str = "p4:";

/// How the hosts of a run send: the keys `transport`, `cc` and `pfc` of a scenario, and the settings of transport and
/// congestion control. Only settings that the transport declares can be set.
///
/// ```
/// use rnic_spec::TransportSpec;
///
/// let mut irn = TransportSpec::named("irn").expect("IRN is built in");
/// irn.set("recovery", "go-back-n")?;
/// assert!(irn.set("delayed_acks", true).is_err(), "iWARP has that");
/// assert_eq!(irn.header_bytes(), 78);
/// # Ok::<(), String>(())
/// ```
#[derive(Clone, PartialEq, Debug)]
pub struct TransportSpec {
    /// Name of the transport, one of `rnic list transports`, or `p4:FILE`.
    pub name: String,
    /// Declaration of the transport: its kind (flows or messages), the settings that it accepts, and its frame sizes.
    pub declaration: TransportDeclaration,
    /// Values of the transport's settings.
    pub settings: Settings,
    /// Whether the switches send PFC pauses.
    pub pfc: bool,
    /// The congestion control and its settings; `none` with a message transport.
    pub cc: CongestionSpec,
    /// The P4 program, if the transport is `p4:FILE`.
    pub program: Option<P4Program>,
}

impl TransportSpec {
    /// The built-in transport called `name` with its default settings, without PFC and congestion control; `None` if no
    /// built-in transport has this name.
    pub fn named(name: &str) -> Option<TransportSpec> {
        let declaration = transports().into_iter().find(|declaration| declaration.name == name)?;
        Some(TransportSpec::of(declaration))
    }

    /// The transport of `declaration` with its default settings, without PFC and congestion control; a transport in
    /// host software has RoGUE's response.
    pub fn of(declaration: TransportDeclaration) -> TransportSpec {
        let is_host = declaration.kind == TransportKind::Host;
        let cc =
            if is_host { CongestionDeclaration::of_host::<RogueDelay>() } else { CongestionDeclaration::default() };
        TransportSpec {
            name: declaration.name.to_string(),
            settings: declaration.settings(),
            declaration,
            pfc: false,
            cc: CongestionSpec::of(cc),
            program: None,
        }
    }

    /// Gives the transport's setting called `name` a value.
    ///
    /// # Errors
    /// See [`Settings::set`].
    pub fn set(&mut self, name: &str, value: impl Into<Value>) -> Result<(), String> {
        self.settings.set(name, value.into())
    }

    /// Whether this is a message transport such as NDP or Homa, instead of a transport of reliable flows.
    pub fn is_message(&self) -> bool {
        self.declaration.kind == TransportKind::Messages
    }

    /// Whether this is a transport in host software, such as RoGUE.
    pub fn is_host(&self) -> bool {
        self.declaration.kind == TransportKind::Host
    }

    /// Why the transport and the congestion control do not fit; `None` if they do.
    pub fn misfit(&self) -> Option<String> {
        let cc = self.cc.declaration;
        if self.is_message() && cc.name != "none" {
            return Some(format!("transport \"{}\" controls congestion itself", self.name));
        }
        if cc.host_only && !self.is_host() {
            return Some(format!(
                "cc \"{}\" responds to chunks of host software, and transport \"{}\" has none",
                cc.name, self.name
            ));
        }
        if cc.needs_credit && !self.declaration.grants_credit {
            return Some(format!(
                "cc \"{}\" needs credit of receivers, which transport \"{}\" does not grant; accepted: transport \"uet\"",
                cc.name, self.name
            ));
        }
        (self.is_host() && cc.telemetry).then(|| {
            format!(
                "cc \"{}\" needs in-band telemetry, which host software above transport \"{}\" cannot see",
                cc.name, self.name
            )
        })
    }

    /// Number of priorities that a message transport uses; `None` for a transport of flows.
    pub fn priorities(&self) -> Option<u8> {
        match &self.program {
            Some(program) => Some(program.priorities),
            None => self.declaration.priorities(&self.settings),
        }
    }

    /// How packets choose their paths if the scenario does not set `paths`.
    pub fn default_paths(&self) -> Paths {
        match &self.program {
            Some(program) => program.paths,
            None if self.declaration.spray => Paths::Spray,
            None => Paths::Ecmp,
        }
    }

    /// Order in which a NIC serves its outstanding messages if the scenario does not set it.
    pub fn default_order(&self) -> Order {
        self.program.as_ref().map_or(self.declaration.order, |program| program.order)
    }

    /// Name of the congestion control or feature that needs acknowledgements in this run; `None` if nothing needs them.
    pub fn needs_acks(&self) -> Option<String> {
        if self.cc.declaration.needs_acks {
            return Some(format!("cc \"{}\"", self.cc.name()));
        }
        self.declaration.needs_acks(&self.settings).map(str::to_string)
    }

    /// Whether data packets, ACKs and NACKs carry in-band telemetry.
    pub fn carries_telemetry(&self) -> bool {
        let of_program = self.program.as_ref().is_some_and(|program| program.telemetry);
        self.cc.declaration.telemetry || self.declaration.telemetry || of_program
    }

    /// Whether the receiver sends acknowledgements for data packets.
    pub fn acknowledged(&self) -> bool {
        self.declaration.acknowledges(&self.settings, self.cc.declaration.needs_acks)
    }

    /// Whether ACKs, NACKs and CNPs travel in a higher priority than data.
    pub fn control_priority(&self) -> bool {
        self.settings.flag("control_priority").unwrap_or(self.declaration.control_first)
    }

    /// Length of the headers and trailers of a data packet, in bytes: the run's `header` setting, else the transport's
    /// default.
    pub fn header_bytes(&self) -> u64 {
        self.settings.bytes("header").unwrap_or(self.own_frames().data_header.into())
    }

    /// Length of an ACK frame in bytes: the run's `ack_size` setting, else the transport's default.
    pub fn ack_bytes(&self) -> u64 {
        self.settings.bytes("ack_size").unwrap_or(self.own_frames().ack.into())
    }

    /// Length of a NACK frame in bytes: the run's `nack_size` setting, else the transport's default.
    pub fn nack_bytes(&self) -> u64 {
        self.settings.bytes("nack_size").unwrap_or(self.own_frames().nack.into())
    }

    /// Length of a congestion notification packet (CNP) in bytes: the run's `cnp_size` setting, else 78.
    pub fn cnp_bytes(&self) -> u64 {
        self.settings.bytes("cnp_size").unwrap_or(CNP.into())
    }

    fn own_frames(&self) -> FrameSizes {
        self.declaration.frames(self.carries_telemetry())
    }
}
