//! Fingerprints: hashes of everything that determines the result of a run.

use crate::hash::Fnv1a;
use rnic_spec::{FlowSpec, RunSpec, Traffic, TrafficPattern};
use serde::{Deserialize, Serialize};
use std::io;

/// Version of rnic, and a hash of the source code that determines the results of runs; part of every fingerprint. The
/// build script computes the hash.
pub const CODE: &str = env!("RNIC_CODE");

/// Hashes of everything that determines the result of a run: one hash for the program, and one for each part of the
/// run's specification except its name.
///
/// Two runs with the same fingerprint have the same result. The fingerprint covers the contents of the files that a
/// scenario names, but not their paths.
///
/// ```
/// # let text = r#"
/// #     [fabric]
/// #     topology = "single-switch"
/// #     hosts = 4
/// #     rate = "100 Gbps"
/// #     delay = "1 us"
/// #     [traffic]
/// #     pattern = "permutation"
/// #     sizes = "fixed 64 KB"
/// #     [[run]]
/// #     name = "IRN"
/// #     transport = "irn"
/// # "#;
/// # let scenario = rnic_scenario::from_str(text, "example.toml", "".as_ref(), &[], None).unwrap();
/// use rnic_campaign::Fingerprint;
///
/// let mut run = scenario.runs[0].clone();
/// let before = Fingerprint::of(&run, "");
/// run.name = "another name".into();
/// assert_eq!(Fingerprint::of(&run, ""), before);
/// run.seed += 1;
/// assert_eq!(before.differences(&Fingerprint::of(&run, "")), ["seed"]);
/// ```
#[derive(Clone, PartialEq, Eq, PartialOrd, Ord, Debug, Default, Serialize, Deserialize)]
pub struct Fingerprint {
    /// The parts of the fingerprint, as (name of the part, hash).
    parts: Vec<(String, u128)>,
}

impl Fingerprint {
    /// The fingerprint of a run. `program` distinguishes programs that have the same code but different catalogues
    /// (lists of available congestion controls and transports). For example, two programs may have different congestion
    /// controls of the same name. `program` is empty for the standard catalogue.
    pub fn of(run: &RunSpec, program: &str) -> Fingerprint {
        // Names do not influence the result of a run.
        let RunSpec {
            name: _,
            base: _,
            point: _,
            seed,
            fabric,
            traffic,
            transport,
            beside,
            limits,
            watch,
            fidelity,
            fidelity_quantum,
            fast_forward,
        } = &run.to_document();
        let parts = [
            ("program", hash(&(CODE, program))),
            ("seed", hash(seed)),
            ("[fabric]", hash(fabric)),
            ("[traffic]", hash_traffic(traffic)),
            ("transport or transport setting", hash(&(transport, beside))),
            ("[limits]", hash(limits)),
            ("[watch]", hash(watch)),
        ];
        let mut parts: Vec<(String, u128)> = parts.map(|(name, hash)| (name.to_string(), hash)).into();
        // Fingerprints of runs of packets are older than this setting.
        if !fidelity.is_packet() {
            parts.push(("fidelity".to_string(), hash(&(fidelity, fidelity_quantum))));
        }
        if *fast_forward > 0.0 {
            parts.push(("fast_forward".to_string(), hash(fast_forward)));
        }
        Fingerprint { parts }
    }

    /// The fingerprint as 32 hexadecimal digits, from which the result's file has its name.
    pub fn key(&self) -> String {
        format!("{:032x}", self.number())
    }

    /// The key as a number.
    pub(crate) fn number(&self) -> u128 {
        hash(&self.parts)
    }

    /// The hash of the run's settings alone, without the program, as 32 hexadecimal digits. It stays the same when only
    /// the code changes.
    pub fn settings(&self) -> String {
        let parts: Vec<&(String, u128)> = self.parts.iter().filter(|(name, _)| name != "program").collect();
        format!("{:032x}", hash(&parts))
    }

    /// Names of the parts in which `other` differs from this fingerprint.
    pub fn differences<'f>(&self, other: &'f Fingerprint) -> Vec<&'f str> {
        let differs = |part: &&(String, u128)| !self.parts.contains(part);
        other.parts.iter().filter(differs).map(|(name, _)| name.as_str()).collect()
    }
}

/// The hash of a value's JSON document.
fn hash(value: &impl Serialize) -> u128 {
    write_to_hash(|hash| serde_json::to_writer(hash, value).map_err(io::Error::other))
}

fn write_to_hash(write: impl FnOnce(&mut Fnv1a) -> io::Result<()>) -> u128 {
    let mut hash = Fnv1a::new();
    // Writing to a hash never fails, and JSON can represent every number of a run.
    let _ = write(&mut hash);
    hash.finish()
}

/// The hash of the traffic sources. It does not use JSON for flow lists, because they may have millions of flows.
fn hash_traffic(traffic: &[Traffic]) -> u128 {
    write_to_hash(|hash| {
        for source in traffic {
            let Traffic { name, pattern, warmup, cooldown, start, priority } = source;
            serde_json::to_writer(&mut *hash, &(name, warmup, cooldown, start, priority))?;
            match pattern {
                TrafficPattern::List { flows } => {
                    hash.absorb(&flows.len().to_le_bytes());
                    flows.iter().for_each(|flow| absorb(hash, flow));
                }
                pattern => serde_json::to_writer(&mut *hash, pattern)?,
            }
        }
        Ok(())
    })
}

fn absorb(hash: &mut Fnv1a, flow: &FlowSpec) {
    let FlowSpec { start, src, dst, bytes, request, traffic, measured, hash: path } = *flow;
    hash.absorb(&start.as_ps().to_le_bytes());
    hash.absorb(&bytes.to_le_bytes());
    for number in [src, dst, request, u32::from(traffic), u32::from(measured)] {
        hash.absorb(&number.to_le_bytes());
    }
    if let Some(path) = path {
        hash.absorb(b"hash");
        hash.absorb(&path.to_le_bytes());
    }
}
