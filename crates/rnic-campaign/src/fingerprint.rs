//! What determines the results of a run.

use crate::hash::Fnv1a;
use rnic_run::{FlowSpec, RunSpec, Traffic, TrafficPattern};
use serde::{Deserialize, Serialize};
use std::fmt::{self, Debug, Write};

/// Version and hash of the code that determines results; the build script computes it from the sources.
pub const CODE: &str = env!("RNIC_CODE");

/// The hash of each part of what determines a run's results: of the program, and of everything that the run says but its name.
///
/// Two runs with the same fingerprint have the same results. What files say that a scenario names is in it, where they are is not.
#[derive(Clone, PartialEq, Eq, PartialOrd, Ord, Debug, Default, Serialize, Deserialize)]
pub struct Fingerprint {
    /// As (what it is of, hash).
    parts: Vec<(String, u128)>,
}

impl Fingerprint {
    /// The fingerprint of a run. `program` tells this program from any other that might simulate differently although its code is the same,
    /// because it has another congestion control of the same name; empty for the standard catalogue.
    pub fn of(run: &RunSpec, program: &str) -> Fingerprint {
        // Names do not reach the results of the run itself.
        let RunSpec { name: _, base: _, point: _, seed, fabric, traffic, transport, limits, watch } = run;
        let parts = [
            ("program", hash(&(CODE, program))),
            ("seed", hash(seed)),
            ("[fabric]", hash(fabric)),
            ("[traffic]", hash_traffic(traffic)),
            ("transport or setting of it", hash(transport)),
            ("[limits]", hash(limits)),
            ("[watch]", hash(watch)),
        ];
        Fingerprint { parts: parts.map(|(name, hash)| (name.to_string(), hash)).into() }
    }

    /// All of it as 32 hexadecimal digits.
    pub fn key(&self) -> String {
        format!("{:032x}", hash(&self.parts))
    }

    /// The parts in which `other` differs, in words.
    pub fn differences<'f>(&self, other: &'f Fingerprint) -> Vec<&'f str> {
        let differs = |part: &&(String, u128)| !self.parts.contains(part);
        other.parts.iter().filter(differs).map(|(name, _)| name.as_str()).collect()
    }
}

/// The hash of a value as it is shown in full.
fn hash(value: &dyn Debug) -> u128 {
    write_to_hash(|hash| write!(hash, "{value:?}"))
}

fn write_to_hash(write: impl FnOnce(&mut Fnv1a) -> fmt::Result) -> u128 {
    let mut hash = Fnv1a::new();
    // A hash takes everything.
    let _ = write(&mut hash);
    hash.finish()
}

/// As [`hash`], but faster where there are millions of flows in a list.
fn hash_traffic(traffic: &[Traffic]) -> u128 {
    write_to_hash(|hash| {
        for source in traffic {
            let Traffic { name, pattern, warmup, cooldown, start } = source;
            write!(hash, "{name:?} {warmup} {cooldown} {start:?} ")?;
            match pattern {
                TrafficPattern::List { flows } => {
                    write!(hash, "list {} ", flows.len())?;
                    flows.iter().for_each(|flow| absorb(hash, flow));
                }
                pattern => write!(hash, "{pattern:?} ")?,
            }
        }
        Ok(())
    })
}

fn absorb(hash: &mut Fnv1a, flow: &FlowSpec) {
    let FlowSpec { start, src, dst, bytes, request, traffic, measured } = *flow;
    hash.absorb(&start.as_ps().to_le_bytes());
    hash.absorb(&bytes.to_le_bytes());
    for number in [src, dst, request, u32::from(traffic), u32::from(measured)] {
        hash.absorb(&number.to_le_bytes());
    }
}
