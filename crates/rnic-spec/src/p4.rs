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
use rnic_transport::message::Order;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
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

/// A P4 compiler, which readers of runs call to check a program: see
/// [`Vocabulary::with_p4`](crate::Vocabulary::with_p4).
///
/// It compiles the program's text; the second argument returns the text of a file that the program includes with
/// `#include "PATH"`. The result has the annotations of the package instance `main`, as (name, argument).
pub type P4Compiler = fn(&P4Source, &dyn Fn(&str) -> Option<String>) -> Result<Vec<(String, String)>, P4Rejected>;

/// The errors of a P4 program that does not compile.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct P4Rejected {
    /// Number of errors.
    pub count: usize,
    /// All errors with their positions, on several lines.
    pub text: String,
}

/// Why a P4 program cannot be the transport of a run.
#[derive(Clone, PartialEq, Eq, Debug, thiserror::Error)]
pub enum P4Error {
    /// The vocabulary has no P4 compiler.
    #[error("the P4 program `{file}` needs the P4 compiler, which this build does not have; {}", P4Error::REMEDY)]
    NoCompiler {
        /// Name of the program's file.
        file: String,
    },
    /// The program does not compile.
    #[error("{}", .0.text)]
    Rejected(P4Rejected),
    /// One of the program's annotations is invalid.
    #[error("the P4 program `{file}` has the annotation {annotation}; accepted: {accepted}")]
    Annotation {
        /// Name of the program's file.
        file: String,
        /// The annotation with its argument.
        annotation: String,
        /// What would be accepted.
        accepted: &'static str,
    },
}

impl P4Error {
    /// What a user can do if a build has no P4 compiler.
    pub const REMEDY: &'static str = "build rnic with the cargo feature `p4`, which is on by default";
}

/// A P4 program of a transport, and what its annotations state about NIC and network.
#[derive(Clone, Debug)]
pub struct P4Program {
    /// Source text of the program.
    pub source: P4Source,
    /// Number of priorities that the program uses, 1 to 8.
    pub priorities: u8,
    /// Order in which the NIC serves its outstanding messages.
    pub order: Order,
    /// How packets choose among several shortest paths.
    pub paths: Paths,
    /// Whether switches write in-band telemetry into data packets.
    pub telemetry: bool,
}

/// Two P4 programs are equal if their texts and constants are equal; the file's name does not count.
impl PartialEq for P4Program {
    fn eq(&self, other: &P4Program) -> bool {
        let P4Source { file: _, text, includes, constants } = &self.source;
        (text, includes, constants) == (&other.source.text, &other.source.includes, &other.source.constants)
    }
}

impl P4Program {
    /// The program `source`, which compiles, with what its annotations state about NIC and network. `annotations` are
    /// the annotations of the package instance `main`, as (name, argument).
    ///
    /// # Errors
    /// [`P4Error::Annotation`]: an annotation is invalid.
    ///
    /// ```
    /// use rnic_spec::{P4Program, P4Source};
    /// let annotation = ("priorities".to_string(), "3".to_string());
    /// let program = P4Program::of(P4Source::default(), &[annotation]).expect("1 to 8 priorities are possible");
    /// assert_eq!((program.priorities, program.telemetry), (3, false));
    /// ```
    pub fn of(source: P4Source, annotations: &[(String, String)]) -> Result<P4Program, P4Error> {
        let mut program =
            P4Program { source, priorities: 2, order: Order::RoundRobin, paths: Paths::Ecmp, telemetry: false };
        for (number, (name, argument)) in annotations.iter().enumerate() {
            let is_repeated = annotations[..number].iter().any(|(before, _)| before == name);
            let refused = match is_repeated {
                true => Err((format!("@{name} twice"), "each annotation once")),
                false => {
                    program.annotate(name, argument).map_err(|accepted| (format!("@{name}({argument})"), accepted))
                }
            };
            if let Err((annotation, accepted)) = refused {
                return Err(P4Error::Annotation { file: program.source.file, annotation, accepted });
            }
        }
        Ok(program)
    }

    /// Applies one annotation. The error says what would be accepted.
    fn annotate(&mut self, name: &str, argument: &str) -> Result<(), &'static str> {
        match (name, argument) {
            ("bands", _) => return Err("@priorities, the new name of @bands"),
            ("priorities", number) => {
                let number = number.parse().ok().filter(|number| (1..=8).contains(number));
                self.priorities = number.ok_or("@priorities(1) to @priorities(8)")?;
            }
            ("order", "round-robin") => self.order = Order::RoundRobin,
            ("order", "shortest-first") => self.order = Order::ShortestFirst,
            ("order", _) => return Err("@order(\"round-robin\"), @order(\"shortest-first\")"),
            ("paths", "ecmp") => self.paths = Paths::Ecmp,
            ("paths", "spray") => self.paths = Paths::Spray,
            ("paths", _) => return Err("@paths(\"ecmp\"), @paths(\"spray\")"),
            ("telemetry", "") => self.telemetry = true,
            _ => return Err("@priorities, @order, @paths, @telemetry"),
        }
        Ok(())
    }
}
