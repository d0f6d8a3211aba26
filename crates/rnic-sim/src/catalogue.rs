//! The catalogue: the congestion controls that a scenario can name. Some are part of rnic; a program that uses this
//! crate can add others.
//!
//! An entry of the catalogue contains the parameters of an algorithm and the simulator compiled for this algorithm.

use crate::in_band::InBand;
use crate::p4;
use crate::resolve::{CongestionError, CongestionNeeds, Demands};
use crate::run::{
    BuildStack, Job, Simulator, build_stack, select_recovery, simulate_captured, simulate_host, simulate_messages,
    simulate_several,
};
use rnic_host::Control;
use rnic_spec::{CongestionDeclaration, CongestionSpec, RunOutput, Vocabulary};
use rnic_transport::FlowConfig;
use rnic_transport::congestion::{CongestionControl, Settings};
use rnic_transport::recovery::Protocol;
use rnic_transport::registry::{Visitor, visit_congestion_controls};
use rnic_transport::telemetry::Telemetry;
use rnic_transport::transports::ProtocolVisitor;
use std::marker::PhantomData;

/// One entry of the [`Catalogue`]: a congestion control, and the simulator compiled for it.
#[derive(Clone, Copy, Debug)]
pub struct CongestionEntry {
    /// Name and parameters of the congestion control, and whether it needs ACKs and telemetry.
    pub declaration: CongestionDeclaration,
    pub(crate) demands: fn(&Settings, &FlowConfig) -> Result<Demands, String>,
    pub(crate) simulate: fn(Job<'_, '_>) -> RunOutput,
    /// Makes the hosts of one of several transports of a run; `None` if the congestion control cannot share hosts.
    pub(crate) build: Option<BuildStack>,
}

/// Two entries are equal if the names of their congestion controls are equal.
impl PartialEq for CongestionEntry {
    fn eq(&self, other: &CongestionEntry) -> bool {
        self.declaration == other.declaration
    }
}

impl CongestionEntry {
    /// The catalogue entry of the congestion control `C`.
    pub fn of<C: CongestionControl>() -> CongestionEntry {
        CongestionEntry { build: Some(build_stack::<C>), ..CongestionEntry::carrying::<C, ()>() }
    }

    /// The catalogue entry of the congestion control `C`, which needs in-band telemetry in packets.
    pub fn with_telemetry<C: CongestionControl>() -> CongestionEntry {
        CongestionEntry::carrying::<C, Telemetry>()
    }

    /// The catalogue entry of the congestion control `C`, which only transports in host software use.
    pub fn of_host<C: CongestionControl>() -> CongestionEntry {
        let declaration = CongestionDeclaration::of_host::<C>();
        CongestionEntry { declaration, demands: demands::<C>, simulate: simulate_in_host::<C>, build: None }
    }

    fn carrying<C: CongestionControl, T: InBand>() -> CongestionEntry {
        CongestionEntry {
            declaration: CongestionDeclaration::of::<C>(T::TELEMETRY),
            demands: demands::<C>,
            simulate: simulate_named::<C, T>,
            build: None,
        }
    }
}

/// What the congestion control `C` demands with these settings.
pub(crate) fn demands<C: CongestionControl>(settings: &Settings, flow: &FlowConfig) -> Result<Demands, String> {
    let params = C::params(settings, flow)?;
    let unset = C::PARAMETERS.iter().filter(|parameter| settings.value(parameter.name).is_none());
    let derived = unset.filter_map(|p| Some((p.name, C::derived(&params, p.name)?))).collect();
    Ok(Demands {
        marking: C::marking(&params, flow),
        cnp_interval: C::cnp_interval(&params),
        nic_cnp_interval: C::nic_cnp_interval(&params),
        derived,
    })
}

/// Simulates a run of a transport in host software, with the congestion control `C`.
fn simulate_in_host<C: CongestionControl>(job: Job<'_, '_>) -> RunOutput {
    let Some(plan) = &job.resolved.software else {
        let name = C::NAME;
        return RunOutput::not_started(format!("cc \"{name}\" is for transports in host software only"));
    };
    simulate_host(plan, Control::of::<C>(job.resolved.transport.cc.settings.clone()), job)
}

/// Simulates a run with the transport that its settings name. The code of the simulation is compiled for this
/// transport, for the congestion control `C` and for packets that carry telemetry of type `T`.
fn simulate_named<C: CongestionControl, T: InBand>(job: Job<'_, '_>) -> RunOutput {
    if job.resolved.software.is_some() {
        return simulate_in_host::<C>(job);
    }
    if let Some(plan) = &job.resolved.messages {
        return simulate_messages(plan, job);
    }
    let params = match C::params(&job.resolved.transport.cc.settings, &job.resolved.flow) {
        Ok(params) => params,
        Err(reason) => return RunOutput::not_started(reason),
    };
    let (resolved, name) = (job.resolved, job.resolved.transport.declaration.name);
    let flows = Flows::<C, T> { job, params, in_band: PhantomData };
    select_recovery(name, &resolved.transport.settings, flows)
        .unwrap_or_else(|| RunOutput::not_started(format!("there is no transport \"{name}\"")))
}

/// A run of a flow transport, before the code for its loss recovery has been selected.
struct Flows<'a, 'o, C: CongestionControl, T> {
    job: Job<'a, 'o>,
    params: C::Params,
    in_band: PhantomData<T>,
}

impl<C: CongestionControl, T: InBand> ProtocolVisitor for Flows<'_, '_, C, T> {
    type Output = RunOutput;

    fn visit<P: Protocol>(self) -> RunOutput {
        let Job { resolved, seed, flows, source, events, capture, sharing, .. } = self.job;
        let (flows, how) = ((flows, source), (seed, sharing));
        simulate_captured::<P, C, _, T>(resolved, self.params, how, flows, events, capture)
    }
}

/// The congestion controls that scenarios can name, each with the simulator compiled for it.
#[derive(Clone, Debug)]
pub struct Catalogue {
    congestion: Vec<CongestionEntry>,
    /// Whether the catalogue has congestion controls that are not part of rnic.
    extended: bool,
}

impl Catalogue {
    /// A catalogue of the congestion controls that are part of rnic.
    pub fn standard() -> Catalogue {
        let mut catalogue = Catalogue { congestion: Vec::new(), extended: false };
        visit_congestion_controls(&mut catalogue);
        catalogue
    }

    /// Adds the congestion control `C` to the catalogue. It replaces an entry with the same name.
    pub fn with<C: CongestionControl>(mut self) -> Catalogue {
        self.congestion.retain(|entry| entry.declaration.name != C::NAME);
        self.congestion.push(CongestionEntry::of::<C>());
        self.extended = true;
        self
    }

    /// As [`Catalogue::with`], for a congestion control that uses in-band telemetry.
    pub fn with_telemetry<C: CongestionControl>(mut self) -> Catalogue {
        self.congestion.retain(|entry| entry.declaration.name != C::NAME);
        self.congestion.push(CongestionEntry::with_telemetry::<C>());
        self.extended = true;
        self
    }

    /// All entries of the catalogue, in order of registration.
    pub fn congestion_controls(&self) -> &[CongestionEntry] {
        &self.congestion
    }

    /// The entry of the congestion control called `name`.
    pub fn congestion_control(&self, name: &str) -> Option<&CongestionEntry> {
        self.congestion.iter().find(|entry| entry.declaration.name == name)
    }

    /// Whether the catalogue has congestion controls that are not part of rnic. Then results also depend on the code of
    /// these congestion controls. The run's fingerprint (a hash under which results are cached) does not cover this
    /// code, so the results must not be cached.
    pub fn is_extended(&self) -> bool {
        self.extended
    }

    /// The vocabulary of scenarios for this catalogue: the transports and congestion controls that a scenario can name,
    /// and the compiler of transports in P4 unless the cargo feature `p4` is off.
    pub fn vocabulary(&self) -> Vocabulary {
        let declarations = self.congestion.iter().map(|entry| entry.declaration);
        let vocabulary = declarations.fold(Vocabulary::standard(), Vocabulary::with);
        match p4::COMPILER {
            Some(compiler) => vocabulary.with_p4(compiler),
            None => vocabulary,
        }
    }
}

impl CongestionNeeds for Catalogue {
    fn demands(&self, cc: &CongestionSpec, flow: &FlowConfig) -> Result<Demands, CongestionError> {
        let name = cc.name();
        let entry = self.congestion_control(name).ok_or_else(|| {
            let known = self.congestion.iter().map(|entry| entry.declaration.name).collect();
            CongestionError::Unknown { name, known }
        })?;
        (entry.demands)(&cc.settings, flow).map_err(|reason| CongestionError::Settings { name, reason })
    }
}

impl Simulator for Catalogue {
    fn simulate(&self, job: Job<'_, '_>) -> RunOutput {
        if !job.resolved.stacks.is_empty() {
            return simulate_several(job, |cc| self.congestion_control(cc)?.build);
        }
        let name = job.resolved.transport.cc.name();
        match self.congestion_control(name) {
            Some(entry) => (entry.simulate)(job),
            None => RunOutput::not_started(format!("there is no cc \"{name}\"")),
        }
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
    fn visit_in_host<C: CongestionControl>(&mut self) {
        self.congestion.push(CongestionEntry::of_host::<C>());
    }
}
