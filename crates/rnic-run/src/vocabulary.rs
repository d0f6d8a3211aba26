//! The transports and congestion controls that a run specification can name, with what each of them declares.

use crate::congestion::CongestionDeclaration;
use crate::transport::P4_PREFIX;
use rnic_host::RogueDelay;
use rnic_transport::congestion::CongestionControl;
use rnic_transport::registry::{Visitor, transports, visit_congestion_controls};
use rnic_transport::transports::TransportDeclaration;

/// The transports and congestion controls that a run can name, with their parameters.
///
/// ```
/// let vocabulary = rnic_run::Vocabulary::standard();
/// let dcqcn = vocabulary.congestion_control("dcqcn").expect("DCQCN is built in");
/// assert!(dcqcn.parameters.iter().any(|parameter| parameter.name == "g"));
/// ```
#[derive(Clone, Debug, PartialEq)]
pub struct Vocabulary {
    congestion: Vec<CongestionDeclaration>,
    transports: Vec<TransportDeclaration>,
}

impl Vocabulary {
    /// The transports and congestion controls that are part of rnic.
    pub fn standard() -> Vocabulary {
        let p4 = TransportDeclaration::of_programs("p4", "a transport of messages in P4: `p4:FILE`");
        let transports = transports().into_iter().chain([p4]).collect();
        let mut vocabulary = Vocabulary { congestion: Vec::new(), transports };
        visit_congestion_controls(&mut vocabulary);
        vocabulary.congestion.push(CongestionDeclaration::of_host::<RogueDelay>());
        vocabulary
    }

    /// Adds the congestion control of `declaration`. It replaces a congestion control of the same name.
    pub fn with(mut self, declaration: CongestionDeclaration) -> Vocabulary {
        self.congestion.retain(|known| known.name != declaration.name);
        self.congestion.push(declaration);
        self
    }

    /// The declarations of all transports, in order of registration. The last is `p4`, which stands for every transport
    /// whose program is in a P4 file.
    pub fn transports(&self) -> &[TransportDeclaration] {
        &self.transports
    }

    /// The declaration of the transport called `name`; for every `p4:FILE` it is the declaration `p4`.
    pub fn transport(&self, name: &str) -> Option<&TransportDeclaration> {
        let name = if name.starts_with(P4_PREFIX) { "p4" } else { name };
        self.transports.iter().find(|declaration| declaration.name == name)
    }

    /// The declarations of all congestion controls, in order of registration.
    pub fn congestion_controls(&self) -> &[CongestionDeclaration] {
        &self.congestion
    }

    /// The declaration of the congestion control called `name`.
    pub fn congestion_control(&self, name: &str) -> Option<&CongestionDeclaration> {
        self.congestion.iter().find(|declaration| declaration.name == name)
    }
}

impl Default for Vocabulary {
    fn default() -> Vocabulary {
        Vocabulary::standard()
    }
}

impl Visitor for Vocabulary {
    fn visit<C: CongestionControl>(&mut self) {
        self.congestion.push(CongestionDeclaration::of::<C>(false));
    }
    fn visit_with_telemetry<C: CongestionControl>(&mut self) {
        self.congestion.push(CongestionDeclaration::of::<C>(true));
    }
}
