//! The transports and congestion controls that a run specification can name, with what each of them declares.

use crate::congestion::CongestionDeclaration;
use crate::p4::{P4Compiler, P4Error, P4Program, P4Source};
use crate::transport::P4_PREFIX;
use rnic_transport::congestion::CongestionControl;
use rnic_transport::registry::{Visitor, transports, visit_congestion_controls};
use rnic_transport::transports::TransportDeclaration;
use std::cell::RefCell;
use std::collections::BTreeMap;

/// The transports and congestion controls that a run can name, with their parameters.
///
/// ```
/// let vocabulary = rnic_spec::Vocabulary::standard();
/// let dcqcn = vocabulary.congestion_control("dcqcn").expect("DCQCN is built in");
/// assert!(dcqcn.parameters.iter().any(|parameter| parameter.name == "g"));
/// ```
#[derive(Clone, Debug)]
pub struct Vocabulary {
    congestion: Vec<CongestionDeclaration>,
    transports: Vec<TransportDeclaration>,
    p4: Option<P4Compiler>,
}

impl Vocabulary {
    /// The transports and congestion controls that are part of rnic. The vocabulary has no P4 compiler, so that runs
    /// with the transport `p4:FILE` cannot be read: the vocabulary of the simulator's catalogue has one.
    pub fn standard() -> Vocabulary {
        let p4 = TransportDeclaration::of_programs("p4", "a transport of messages in P4: `p4:FILE`");
        let transports = transports().into_iter().chain([p4]).collect();
        let mut vocabulary = Vocabulary { congestion: Vec::new(), transports, p4: None };
        visit_congestion_controls(&mut vocabulary);
        vocabulary
    }

    /// Adds the congestion control of `declaration`. It replaces a congestion control of the same name.
    pub fn with(mut self, declaration: CongestionDeclaration) -> Vocabulary {
        self.congestion.retain(|known| known.name != declaration.name);
        self.congestion.push(declaration);
        self
    }

    /// Adds a P4 compiler, so that the transport of a run can be `p4:FILE`.
    pub fn with_p4(self, compiler: P4Compiler) -> Vocabulary {
        Vocabulary { p4: Some(compiler), ..self }
    }

    /// Compiles the P4 program of a transport and reads its annotations. `include` returns the text of a file that the
    /// program includes; the returned program has these texts.
    ///
    /// # Errors
    /// The vocabulary has no P4 compiler, or the program or one of its annotations is invalid.
    pub fn compile_p4(&self, source: P4Source, include: &dyn Fn(&str) -> Option<String>) -> Result<P4Program, P4Error> {
        let Some(compile) = self.p4 else { return Err(P4Error::NoCompiler { file: source.file }) };
        let includes = RefCell::new(BTreeMap::new());
        let keep = |path: &str| {
            let text = include(path)?;
            includes.borrow_mut().insert(path.to_string(), text.clone());
            Some(text)
        };
        let annotations = compile(&source, &keep).map_err(P4Error::Rejected)?;
        P4Program::of(P4Source { includes: includes.into_inner(), ..source }, &annotations)
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
    fn visit_in_host<C: CongestionControl>(&mut self) {
        self.congestion.push(CongestionDeclaration::of_host::<C>());
    }
}
