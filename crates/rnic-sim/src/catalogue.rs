//! The congestion controls that a scenario can name: those of this project, and whatever a program adds.
//!
//! An entry holds everything of an algorithm that is needed by name: its parameters, and the simulator compiled for it.

use crate::in_band::InBand;
use crate::resolve::Stack;
use crate::run::{Job, simulate_captured, simulate_messages};
use rnic_run::{CongestionDeclaration, RunOutput, Vocabulary};
use rnic_transport::congestion::{CongestionControl, Marking, Settings};
use rnic_transport::recovery::{GoBackN, Irn, Tcp};
use rnic_transport::registry::{Visitor, visit_congestion_controls};
use rnic_transport::telemetry::Telemetry;
use rnic_transport::{FlowConfig, Time};

/// What a congestion control asks of the fabric and of the receiving NIC in a run.
#[derive(Clone, Copy, PartialEq, Debug)]
pub(crate) struct Demands {
    /// Default marking thresholds; `None` if its packets are not to be marked.
    pub(crate) marking: Option<Marking>,
    /// Shortest time between two congestion notifications.
    pub(crate) cnp_interval: Option<Time>,
}

/// One congestion control by name, with the simulator compiled for it.
#[derive(Clone, Copy, Debug)]
pub struct CongestionEntry {
    /// Its name, parameters and needs.
    pub declaration: CongestionDeclaration,
    pub(crate) demands: fn(&Settings, &FlowConfig) -> Result<Demands, String>,
    pub(crate) simulate: fn(Job<'_, '_>) -> RunOutput,
}

/// Entries are told apart by name.
impl PartialEq for CongestionEntry {
    fn eq(&self, other: &CongestionEntry) -> bool {
        self.declaration == other.declaration
    }
}

impl CongestionEntry {
    /// The entry of an algorithm.
    pub fn of<C: CongestionControl>() -> CongestionEntry {
        CongestionEntry::carrying::<C, ()>()
    }

    /// The entry of an algorithm that works with in-band telemetry.
    pub fn with_telemetry<C: CongestionControl>() -> CongestionEntry {
        CongestionEntry::carrying::<C, Telemetry>()
    }

    fn carrying<C: CongestionControl, T: InBand>() -> CongestionEntry {
        CongestionEntry {
            declaration: CongestionDeclaration::of::<C>(T::TELEMETRY),
            demands: |settings, flow| {
                let cnp_interval = C::cnp_interval(&C::params(settings, flow)?);
                Ok(Demands { marking: C::marking(flow), cnp_interval })
            },
            simulate: simulate_named::<C, T>,
        }
    }
}

/// Picks the transport: from here on everything is compiled for it, for `C`, and for packets with room for `T`.
fn simulate_named<C: CongestionControl, T: InBand>(job: Job<'_, '_>) -> RunOutput {
    if let Some(plan) = &job.resolved.messages {
        return simulate_messages(plan, job);
    }
    let Job { resolved, settings, seed, flows, loops, events, capture, sharing } = job;
    let (flows, how) = ((flows, loops), (seed, sharing));
    let params = match C::params(settings, &resolved.flow) {
        Ok(params) => params,
        Err(reason) => return RunOutput::not_started(reason),
    };
    match resolved.stack {
        Stack::GoBackN => simulate_captured::<GoBackN, C, _, T>(resolved, params, how, flows, events, capture),
        Stack::Irn => simulate_captured::<Irn, C, _, T>(resolved, params, how, flows, events, capture),
        Stack::Tcp => simulate_captured::<Tcp, C, _, T>(resolved, params, how, flows, events, capture),
    }
}

/// The congestion controls that scenarios are read with.
#[derive(Clone, Debug)]
pub struct Catalogue {
    congestion: Vec<CongestionEntry>,
    /// Has entries from outside this project.
    extended: bool,
}

impl Catalogue {
    /// Those of this project.
    pub fn standard() -> Catalogue {
        let mut catalogue = Catalogue { congestion: Vec::new(), extended: false };
        visit_congestion_controls(&mut catalogue);
        catalogue
    }

    /// And one more; it takes the place of one that has the same name.
    pub fn with<C: CongestionControl>(mut self) -> Catalogue {
        self.congestion.retain(|entry| entry.declaration.name != C::NAME);
        self.congestion.push(CongestionEntry::of::<C>());
        self.extended = true;
        self
    }

    /// As [`Catalogue::with`], for one that works with in-band telemetry.
    pub fn with_telemetry<C: CongestionControl>(mut self) -> Catalogue {
        self.congestion.retain(|entry| entry.declaration.name != C::NAME);
        self.congestion.push(CongestionEntry::with_telemetry::<C>());
        self.extended = true;
        self
    }

    /// All of them, in order of registration.
    pub fn congestion_controls(&self) -> &[CongestionEntry] {
        &self.congestion
    }

    /// The congestion control of this name.
    pub fn congestion_control(&self, name: &str) -> Option<&CongestionEntry> {
        self.congestion.iter().find(|entry| entry.declaration.name == name)
    }

    /// Whether it has entries from outside this project: then this project's code alone does not determine results.
    pub fn is_extended(&self) -> bool {
        self.extended
    }

    /// The names that scenarios can use with this catalogue.
    pub fn vocabulary(&self) -> Vocabulary {
        let declarations = self.congestion.iter().map(|entry| entry.declaration);
        declarations.fold(Vocabulary::standard(), Vocabulary::with)
    }
}

impl Default for Catalogue {
    fn default() -> Catalogue {
        Catalogue::standard()
    }
}

impl Visitor for Catalogue {
    fn visit<C: CongestionControl>(&mut self) {
        self.congestion.push(CongestionEntry::of::<C>());
    }
    fn visit_with_telemetry<C: CongestionControl>(&mut self) {
        self.congestion.push(CongestionEntry::with_telemetry::<C>());
    }
}
