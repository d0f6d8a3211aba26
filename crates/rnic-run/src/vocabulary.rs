//! The names that run specifications can use, and what each of them declares.

use crate::congestion::CongestionDeclaration;
use rnic_transport::congestion::CongestionControl;
use rnic_transport::registry::{Visitor, visit_congestion_controls};

/// The congestion controls that a scenario can name, with their parameters.
///
/// ```
/// let vocabulary = rnic_run::Vocabulary::standard();
/// let dcqcn = vocabulary.congestion_control("dcqcn").expect("DCQCN is built in");
/// assert!(dcqcn.parameters.iter().any(|parameter| parameter.name == "g"));
/// ```
#[derive(Clone, Debug, PartialEq)]
pub struct Vocabulary {
    congestion: Vec<CongestionDeclaration>,
}

impl Vocabulary {
    /// The congestion controls of this project.
    pub fn standard() -> Vocabulary {
        let mut vocabulary = Vocabulary { congestion: Vec::new() };
        visit_congestion_controls(&mut vocabulary);
        vocabulary
    }

    /// The same with one more congestion control, which replaces one of the same name.
    pub fn with(mut self, declaration: CongestionDeclaration) -> Vocabulary {
        self.congestion.retain(|known| known.name != declaration.name);
        self.congestion.push(declaration);
        self
    }

    /// All congestion controls, in order of registration.
    pub fn congestion_controls(&self) -> &[CongestionDeclaration] {
        &self.congestion
    }

    /// The congestion control of this name.
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
