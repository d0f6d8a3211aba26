//! A transport written in P4: in a scenario, `transport = "p4:FILE"`.
//!
//! Annotations on the package instance (`main`) of the P4 program state what the program needs of its NIC and of the
//! network:
//!
//! | annotation | meaning | default |
//! |---|---|---|
//! | `@priorities(N)` | the program uses the priorities 0 to N - 1 | 2 |
//! | `@order("shortest-first")` | order in which the NIC serves its messages | `"round-robin"` |
//! | `@paths("spray")` | path selection: here, a random path for each packet | `"ecmp"` |
//! | `@telemetry` | switches write in-band telemetry into data packets | no telemetry |

use rnic_fabric::config::Paths;
use rnic_nano::source::SourceFile;
use rnic_nano::{Program, Rejected, compile};
use rnic_transport::message::Order;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use std::cell::RefCell;
use std::collections::BTreeMap;

/// Source text of a P4 program, with the texts of all files that it includes.
#[derive(Clone, PartialEq, Eq, Debug, Default, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct P4Source {
    /// Name of the program's file, for error messages.
    pub file: String,
    /// Text of the program's file.
    pub text: String,
    /// Texts of the files that the program includes with `#include "PATH"`, by their `PATH`.
    #[serde(default)]
    pub includes: BTreeMap<String, String>,
    /// Values that override constants of the program, by the constant's name.
    #[serde(default)]
    pub constants: BTreeMap<String, u64>,
}

impl P4Source {
    /// Compiles the program `text`, which error messages call `file`. `include` returns the text of a file that the
    /// program includes; the returned [`P4Source`] contains these texts.
    ///
    /// # Errors
    /// The program does not compile. [`Rejected`] has all errors with their positions.
    pub fn compile(
        file: &str, text: String, include: &dyn Fn(&str) -> Option<String>, constants: BTreeMap<String, u64>,
    ) -> Result<(P4Source, Program), Rejected> {
        let includes = RefCell::new(BTreeMap::new());
        let keep = |path: &str| {
            let text = include(path)?;
            includes.borrow_mut().insert(path.to_string(), text.clone());
            Some(text)
        };
        let given: Vec<(String, u128)> =
            constants.iter().map(|(name, value)| (name.clone(), (*value).into())).collect();
        let program = compile(SourceFile { name: file.to_string(), text: text.clone() }, &keep, &given)?;
        Ok((P4Source { file: file.to_string(), text, includes: includes.into_inner(), constants }, program))
    }
}

/// A compiled P4 program of a transport, and what its annotations state about NIC and network.
#[derive(Clone, Debug)]
pub struct P4Program {
    /// Source text of the program.
    pub source: P4Source,
    /// The compiled program.
    pub program: Program,
    /// Number of priorities that the program uses, 1 to 8.
    pub priorities: u8,
    /// Order in which the NIC serves its outstanding messages.
    pub order: Order,
    /// How packets choose among several shortest paths.
    pub paths: Paths,
    /// Whether switches write in-band telemetry into data packets.
    pub telemetry: bool,
}

/// Two P4 programs are equal if they are equal after compilation; file names and comments do not count.
impl PartialEq for P4Program {
    fn eq(&self, other: &P4Program) -> bool {
        self.program.hir() == other.program.hir()
    }
}

impl P4Program {
    /// Compiles the P4 program of a transport and reads its annotations.
    ///
    /// # Errors
    /// The program or one of its annotations is invalid. The text says where and why, on several lines.
    pub fn compile(source: &P4Source) -> Result<P4Program, String> {
        let include = |path: &str| source.includes.get(path).cloned();
        let compiled = P4Source::compile(&source.file, source.text.clone(), &include, source.constants.clone());
        let (source, program) = compiled.map_err(|rejected| rejected.to_string())?;
        let file = source.file.clone();
        P4Program::of(source, program).map_err(|(annotation, accepted)| {
            format!("the P4 program `{file}` has the annotation {annotation}; accepted: {accepted}")
        })
    }

    /// Reads from the program's annotations what it needs of its NIC and of the network.
    ///
    /// # Errors
    /// An annotation is invalid. The error has the annotation, and what would be accepted.
    pub fn of(source: P4Source, program: Program) -> std::result::Result<P4Program, (String, &'static str)> {
        let (mut priorities, mut order, mut paths, mut telemetry) = (2, Order::RoundRobin, Paths::Ecmp, false);
        for (number, (name, argument)) in program.hir().annotations.iter().enumerate() {
            if program.hir().annotations[..number].iter().any(|(before, _)| before == name) {
                return Err((format!("@{name} twice"), "each annotation once"));
            }
            let refused = |accepted| (format!("@{name}({argument})"), accepted);
            match (name.as_str(), argument.as_str()) {
                ("bands", _) => return Err(refused("@priorities, the new name of @bands")),
                ("priorities", number) => {
                    let number = number.parse().ok().filter(|number| (1..=8).contains(number));
                    priorities = number.ok_or_else(|| refused("@priorities(1) to @priorities(8)"))?;
                }
                ("order", "round-robin") => order = Order::RoundRobin,
                ("order", "shortest-first") => order = Order::ShortestFirst,
                ("order", _) => return Err(refused("@order(\"round-robin\"), @order(\"shortest-first\")")),
                ("paths", "ecmp") => paths = Paths::Ecmp,
                ("paths", "spray") => paths = Paths::Spray,
                ("paths", _) => return Err(refused("@paths(\"ecmp\"), @paths(\"spray\")")),
                ("telemetry", "") => telemetry = true,
                _ => return Err(refused("@priorities, @order, @paths, @telemetry")),
            }
        }
        Ok(P4Program { source, program, priorities, order, paths, telemetry })
    }
}
