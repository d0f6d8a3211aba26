//! Transports in P4 (`transport = "p4:FILE"`): compiles the program of a run, and executes it on each NIC.

use rnic_nano::source::SourceFile;
use rnic_nano::{NicParameters, P4Pipeline, Program, Rejected, compile};
use rnic_spec::{P4Compiler, P4Error, P4Program, P4Rejected, P4Source};
use rnic_transport::FlowConfig;
use rnic_transport::transports::{MessageFacts, ProgramVisitor};

/// The compiler for the vocabulary of scenarios.
pub(crate) const COMPILER: Option<P4Compiler> = Some(annotations);

/// The compiled program of a run's transport, and the parameters of its NICs without the NICs' addresses.
#[derive(Clone, Debug)]
pub(crate) struct P4Plan {
    program: Program,
    telemetry: bool,
    nic: NicParameters,
}

/// Two plans are equal if their programs are equal after compilation; comments do not count.
impl PartialEq for P4Plan {
    fn eq(&self, other: &P4Plan) -> bool {
        self.program.hir() == other.program.hir() && self.telemetry == other.telemetry && self.nic == other.nic
    }
}

impl P4Plan {
    /// Compiles the program of a run's transport.
    pub(crate) fn new(p4: &P4Program, facts: &MessageFacts, flow: &FlowConfig) -> Result<P4Plan, P4Error> {
        let include = |path: &str| p4.source.includes.get(path).cloned();
        let program = compiled(&p4.source, &include).map_err(P4Error::Rejected)?;
        let nic = NicParameters {
            rtt_pkts: facts.rtt_pkts,
            mtu: flow.mtu as u16,
            line_rate_mbps: (flow.line_rate.as_bps() / 1_000_000).min(u64::from(u32::MAX)) as u32,
            base_rtt_ns: facts.base_rtt_ns,
            ..NicParameters::default()
        };
        Ok(P4Plan { program, telemetry: p4.telemetry, nic })
    }

    /// The compiler's warnings about the program, one sentence each, with the position in the program.
    pub(crate) fn warnings(&self) -> impl Iterator<Item = String> + '_ {
        let sources = self.program.sources();
        self.program.hir().warnings.iter().map(move |warning| {
            let file = sources.files.get(usize::from(warning.span.file)).map_or("", |file| file.name.as_str());
            let (line, column) = sources.position(warning.span);
            let help = warning.help.as_ref().map_or(String::new(), |help| format!("; {help}"));
            format!("{file}:{line}:{column}: {}{help}", warning.message)
        })
    }

    /// Calls `visitor` with the pipeline that executes the program, whose headers have the size that the program needs.
    pub(crate) fn select<V: ProgramVisitor>(&self, visitor: V) -> V::Output {
        match (self.program.header_room(), self.telemetry) {
            (64, false) => visitor.visit(|ip| self.pipeline::<64>(ip)),
            (..=192, true) => visitor.visit_with_telemetry(|ip| self.pipeline::<192>(ip)),
            (_, false) => visitor.visit(|ip| self.pipeline::<256>(ip)),
            (_, true) => visitor.visit_with_telemetry(|ip| self.pipeline::<256>(ip)),
        }
    }

    /// The pipeline that executes the program on the NIC with the IP address `ip`, for headers of up to `N` bytes.
    fn pipeline<const N: usize>(&self, ip: u32) -> P4Pipeline<N> {
        // The MAC addresses are locally administered. The last four bytes of a host's MAC address are its IP address.
        let mac = 0x0200_0000_0000 | u64::from(ip);
        let nic = NicParameters { ip, mac, switch_mac: 0x0200_ffff_ffff, ..self.nic };
        P4Pipeline::new(&self.program, &nic).expect("N is at least the program's header room")
    }
}

/// Compiles a program, and returns the annotations of its package instance `main`.
fn annotations(
    source: &P4Source, include: &dyn Fn(&str) -> Option<String>,
) -> Result<Vec<(String, String)>, P4Rejected> {
    compiled(source, include).map(|program| program.hir().annotations.clone())
}

fn compiled(source: &P4Source, include: &dyn Fn(&str) -> Option<String>) -> Result<Program, P4Rejected> {
    let constants: Vec<(String, u128)> =
        source.constants.iter().map(|(name, value)| (name.clone(), (*value).into())).collect();
    let main = SourceFile { name: source.file.clone(), text: source.text.clone() };
    let rejected = |rejected: Rejected| P4Rejected { count: rejected.errors.len(), text: rejected.to_string() };
    compile(main, include, &constants).map_err(rejected)
}
