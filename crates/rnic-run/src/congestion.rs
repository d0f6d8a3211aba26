//! A congestion control by name.

use rnic_transport::congestion::{CongestionControl, NoCongestionControl, Parameter};
use rnic_transport::settings::Settings;
use std::fmt;

/// What is known of a congestion control without running it.
#[derive(Clone, Copy)]
pub struct CongestionDeclaration {
    /// What a scenario's `cc` calls it.
    pub name: &'static str,
    /// One line on what it is.
    pub about: &'static str,
    /// The keys that a scenario may set under its name.
    pub parameters: &'static [Parameter],
    /// Whether it works only with acknowledgements.
    pub needs_acks: bool,
    /// Whether its packets carry in-band telemetry.
    pub telemetry: bool,
}

impl CongestionDeclaration {
    /// The declaration of an algorithm; `telemetry`: its packets carry in-band telemetry.
    pub const fn of<C: CongestionControl>(telemetry: bool) -> CongestionDeclaration {
        CongestionDeclaration {
            name: C::NAME,
            about: C::ABOUT,
            parameters: C::PARAMETERS,
            needs_acks: C::NEEDS_ACKS,
            telemetry,
        }
    }
}

/// Declarations are told apart by name.
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

/// `none`.
impl Default for CongestionDeclaration {
    fn default() -> CongestionDeclaration {
        CongestionDeclaration::of::<NoCongestionControl>(false)
    }
}

/// The congestion control of a run and its settings.
#[derive(Clone, PartialEq, Debug)]
pub struct CongestionSpec {
    /// What the congestion control declares.
    pub declaration: CongestionDeclaration,
    /// Its settings.
    pub settings: Settings,
}

impl CongestionSpec {
    /// A congestion control with its default settings.
    pub fn of(declaration: CongestionDeclaration) -> CongestionSpec {
        CongestionSpec { declaration, settings: Settings::new(declaration.parameters) }
    }

    /// Its name, as a scenario's `cc` has it.
    pub fn name(&self) -> &'static str {
        self.declaration.name
    }
}

/// `none`.
impl Default for CongestionSpec {
    fn default() -> CongestionSpec {
        CongestionSpec::of(CongestionDeclaration::default())
    }
}
