//! A transport written in P4: `transport = "p4:FILE"`.
//!
//! What a program needs of its NIC and of the network, beside what it computes, stands in annotations of its package's
//! instance:
//!
//! | annotation | meaning | without |
//! |---|---|---|
//! | `@priorities(N)` | it uses bands 0 to N - 1 | 2 |
//! | `@order("shortest-first")` | which message sends next | `"round-robin"` |
//! | `@paths("spray")` | each packet takes a path of its own | `"ecmp"` |
//! | `@telemetry` | switches write telemetry into its data packets | they do not |

use rnic_fabric::config::Paths;
use rnic_nano::source::SourceFile;
use rnic_nano::{Program, Rejected, compile};
use rnic_transport::message::Order;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use std::cell::RefCell;
use std::collections::BTreeMap;

/// The text of a P4 program, with everything that it includes.
#[derive(Clone, PartialEq, Eq, Debug, Default, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct P4Source {
    /// Name of the file, for messages.
    pub file: String,
    /// Its text.
    pub text: String,
    /// Texts of the files that it includes with quotes, by the path that it includes them by.
    #[serde(default)]
    pub includes: BTreeMap<String, String>,
    /// Other values for constants of the program.
    #[serde(default)]
    pub constants: BTreeMap<String, u64>,
}

impl P4Source {
    /// Compiles the text in `text`, called `file` in messages, and keeps what it includes; `include` gives the text of
    /// a file beside it.
    ///
    /// # Errors
    /// What is wrong with the program, and where.
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

/// A compiled program and what it needs.
#[derive(Clone, Debug)]
pub struct P4Program {
    /// Its text.
    pub source: P4Source,
    /// The compiled program.
    pub program: Program,
    /// Number of priorities that it uses, 1 to 8.
    pub priorities: u8,
    /// Which message sends next.
    pub order: Order,
    /// Whether packets are sprayed.
    pub paths: Paths,
    /// Whether switches write telemetry.
    pub telemetry: bool,
}

/// Programs are the same if they do the same.
impl PartialEq for P4Program {
    fn eq(&self, other: &P4Program) -> bool {
        self.program.hir() == other.program.hir()
    }
}

impl P4Program {
    /// Compiles a program.
    ///
    /// # Errors
    /// What is wrong with it, on several lines.
    pub fn compile(source: &P4Source) -> Result<P4Program, String> {
        let include = |path: &str| source.includes.get(path).cloned();
        let compiled = P4Source::compile(&source.file, source.text.clone(), &include, source.constants.clone());
        let (source, program) = compiled.map_err(|rejected| rejected.to_string())?;
        let file = source.file.clone();
        P4Program::of(source, program).map_err(|(annotation, accepted)| {
            format!("the P4 program `{file}` has the annotation {annotation}; accepted: {accepted}")
        })
    }

    /// Takes what the program needs out of its annotations.
    ///
    /// # Errors
    /// The annotation that is wrong, and what is accepted.
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
