//! The congestion controls that a scenario can name: those of this project, and whatever a program adds.
//!
//! An entry holds everything of an algorithm that is needed by name: its parameters, and the simulator compiled for it.

use crate::capture::Capture;
use crate::in_band::InBand;
use crate::message_hosts::simulate_messages;
use crate::resolve::{Resolved, Stack};
use crate::results::RunOutput;
use crate::run::{Observer, Sharing, simulate_captured};
use crate::workload::{FlowStream, Loops};
use rnic_transport::congestion::{CongestionControl, Marking, NoCongestionControl, Parameter, Settings};
use rnic_transport::recovery::{GoBackN, Irn, Tcp};
use rnic_transport::registry::{Visitor, visit_congestion_controls};
use rnic_transport::telemetry::Telemetry;
use rnic_transport::{FlowConfig, Time};
use std::fmt;

/// What a congestion control asks of the fabric and of the receiving NIC in a run.
#[derive(Clone, Copy, PartialEq, Debug)]
pub(crate) struct Demands {
    /// Default marking thresholds; `None` if its packets are not to be marked.
    pub(crate) marking: Option<Marking>,
    /// Shortest time between two congestion notifications.
    pub(crate) cnp_interval: Option<Time>,
}

/// What a run simulates.
pub(crate) struct Job<'a, 'o> {
    pub(crate) resolved: &'a Resolved,
    pub(crate) settings: &'a Settings,
    pub(crate) seed: u64,
    pub(crate) flows: FlowStream,
    pub(crate) loops: Option<Loops>,
    pub(crate) observer: Observer<'o>,
    pub(crate) capture: Option<&'a mut Capture>,
    pub(crate) sharing: &'a Sharing<'a>,
}

/// One congestion control by name.
#[derive(Clone, Copy)]
pub struct CongestionEntry {
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
    pub(crate) demands: fn(&Settings, &FlowConfig) -> Result<Demands, String>,
    pub(crate) simulate: fn(Job<'_, '_>) -> RunOutput,
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
            name: C::NAME,
            about: C::ABOUT,
            parameters: C::PARAMETERS,
            needs_acks: C::NEEDS_ACKS,
            telemetry: T::TELEMETRY,
            demands: |settings, flow| {
                let cnp_interval = C::cnp_interval(&C::params(settings, flow)?);
                Ok(Demands { marking: C::marking(flow), cnp_interval })
            },
            simulate: simulate_named::<C, T>,
        }
    }
}

/// Entries are told apart by name.
impl PartialEq for CongestionEntry {
    fn eq(&self, other: &CongestionEntry) -> bool {
        self.name == other.name
    }
}

impl fmt::Debug for CongestionEntry {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.name)
    }
}

/// `none`.
impl Default for CongestionEntry {
    fn default() -> CongestionEntry {
        CongestionEntry::of::<NoCongestionControl>()
    }
}

/// Picks the transport: from here on everything is compiled for it, for `C`, and for packets with room for `T`.
fn simulate_named<C: CongestionControl, T: InBand>(job: Job<'_, '_>) -> RunOutput {
    if let Some(plan) = &job.resolved.messages {
        return simulate_messages(plan, job);
    }
    let Job { resolved, settings, seed, flows, loops, observer, capture, sharing } = job;
    let (flows, how) = ((flows, loops), (seed, sharing));
    let params = match C::params(settings, &resolved.flow) {
        Ok(params) => params,
        Err(reason) => return RunOutput::not_started(reason),
    };
    match resolved.stack {
        Stack::GoBackN => simulate_captured::<GoBackN, C, _, T>(resolved, params, how, flows, observer, capture),
        Stack::Irn => simulate_captured::<Irn, C, _, T>(resolved, params, how, flows, observer, capture),
        Stack::Tcp => simulate_captured::<Tcp, C, _, T>(resolved, params, how, flows, observer, capture),
    }
}

/// The congestion controls that scenarios are read with.
#[derive(Clone, Debug)]
pub struct Catalogue {
    congestion: Vec<CongestionEntry>,
}

impl Catalogue {
    /// Those of this project.
    pub fn standard() -> Catalogue {
        let mut catalogue = Catalogue { congestion: Vec::new() };
        visit_congestion_controls(&mut catalogue);
        catalogue
    }

    /// And one more; it takes the place of one that has the same name.
    pub fn with<C: CongestionControl>(mut self) -> Catalogue {
        self.congestion.retain(|entry| entry.name != C::NAME);
        self.congestion.push(CongestionEntry::of::<C>());
        self
    }

    /// As [`Catalogue::with`], for one that works with in-band telemetry.
    pub fn with_telemetry<C: CongestionControl>(mut self) -> Catalogue {
        self.congestion.retain(|entry| entry.name != C::NAME);
        self.congestion.push(CongestionEntry::with_telemetry::<C>());
        self
    }

    /// All of them, in order of registration.
    pub fn congestion_controls(&self) -> &[CongestionEntry] {
        &self.congestion
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
