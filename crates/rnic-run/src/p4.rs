//! A transport written in P4: `transport = "p4:FILE"`.
//!
//! What a program needs of its NIC and of the network, beside what it computes, stands in annotations of its package's instance:
//!
//! | annotation | meaning | without |
//! |---|---|---|
//! | `@priorities(N)` | it uses bands 0 to N - 1 | 2 |
//! | `@order("shortest-first")` | which message sends next | `"round-robin"` |
//! | `@paths("spray")` | each packet takes a path of its own | `"ecmp"` |
//! | `@telemetry` | switches write telemetry into its data packets | they do not |

use rnic_fabric::config::Paths;
use rnic_nano::Program;
use rnic_transport::message::Order;

/// A compiled program and what it needs.
#[derive(Clone, Debug)]
pub struct P4Program {
    /// The program.
    pub program: Program,
    /// Bands that it uses, 1 to 8.
    pub bands: u8,
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
    /// Takes what the program needs out of its annotations.
    ///
    /// # Errors
    /// The annotation that is wrong, and what is accepted.
    pub fn of(program: Program) -> std::result::Result<P4Program, (String, &'static str)> {
        let (mut bands, mut order, mut paths, mut telemetry) = (2, Order::RoundRobin, Paths::Ecmp, false);
        for (number, (name, argument)) in program.hir().annotations.iter().enumerate() {
            if program.hir().annotations[..number].iter().any(|(before, _)| before == name) {
                return Err((format!("@{name} twice"), "each annotation once"));
            }
            let refused = |accepted| (format!("@{name}({argument})"), accepted);
            match (name.as_str(), argument.as_str()) {
                ("bands", _) => return Err(refused("@priorities, the new name of @bands")),
                ("priorities", number) => {
                    let number = number.parse().ok().filter(|number| (1..=8).contains(number));
                    bands = number.ok_or_else(|| refused("@priorities(1) to @priorities(8)"))?;
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
        Ok(P4Program { program, bands, order, paths, telemetry })
    }
}
