//! The congestion control of a run: the declaration of its algorithm (name, parameters, needs), and its settings.

use rnic_transport::congestion::{CongestionControl, NoCongestionControl, Parameter};
use rnic_transport::settings::Settings;
use std::fmt;

/// Name, description, parameters and needs of a congestion control, without its implementation.
#[derive(Clone, Copy)]
pub struct CongestionDeclaration {
    /// Name of the congestion control, as in a scenario's `cc`.
    pub name: &'static str,
    /// Description of the algorithm, one line.
    pub about: &'static str,
    /// The parameters of the algorithm: keys of the scenario table that has its name.
    pub parameters: &'static [Parameter],
    /// Whether the algorithm needs acknowledgements of data packets.
    pub needs_acks: bool,
    /// Whether the algorithm needs credit that receivers grant.
    pub needs_credit: bool,
    /// Whether data packets must carry in-band telemetry (INT) for the algorithm.
    pub telemetry: bool,
    /// Whether the algorithm responds to chunks, so that only transports in host software can use it.
    pub host_only: bool,
}

impl CongestionDeclaration {
    /// The declaration of the congestion control `C`; `telemetry` says whether its data packets carry in-band
    /// telemetry.
    pub const fn of<C: CongestionControl>(telemetry: bool) -> CongestionDeclaration {
        CongestionDeclaration {
            name: C::NAME,
            about: C::ABOUT,
            parameters: C::PARAMETERS,
            needs_acks: C::NEEDS_ACKS,
            needs_credit: C::CREDIT,
            telemetry,
            host_only: false,
        }
    }

    /// The declaration of a congestion control that only transports in host software can use.
    pub const fn of_host<C: CongestionControl>() -> CongestionDeclaration {
        CongestionDeclaration { host_only: true, ..CongestionDeclaration::of::<C>(false) }
    }
}

/// Two declarations are equal if the names of their congestion controls are equal.
impl PartialEq for CongestionDeclaration {
    fn eq(&self, other: &CongestionDeclaration) -> bool {
        self.name == other.name
    }
}

impl fmt::Debug for CongestionDeclaration {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.name)
    }
}

/// The default is `none`: no congestion control.
impl Default for CongestionDeclaration {
    fn default() -> CongestionDeclaration {
        CongestionDeclaration::of::<NoCongestionControl>(false)
    }
}

/// The congestion control of a run and its settings.
#[derive(Clone, PartialEq, Debug)]
pub struct CongestionSpec {
    /// Declaration of the congestion control: its name, parameters and needs.
    pub declaration: CongestionDeclaration,
    /// Values of the parameters of the congestion control.
    pub settings: Settings,
}

impl CongestionSpec {
    /// The congestion control of `declaration` with its default settings.
    pub fn of(declaration: CongestionDeclaration) -> CongestionSpec {
        CongestionSpec { declaration, settings: Settings::new(declaration.parameters) }
    }

    /// Name of the congestion control, as in a scenario's `cc`.
    pub fn name(&self) -> &'static str {
        self.declaration.name
    }
}

/// The default is `none`: no congestion control.
impl Default for CongestionSpec {
    fn default() -> CongestionSpec {
        CongestionSpec::of(CongestionDeclaration::default())
    }
}
