//! Checks that all ranks of one simulation (processes that simulate runs together) have the same program and runs.

use crate::fingerprint::{CODE, Fingerprint};
use rnic_fabric::RankGroup;
use rnic_spec::Scenario;
use serde::{Deserialize, Serialize};

/// The program and the runs that a rank is about to simulate.
#[derive(Serialize, Deserialize)]
struct Identity {
    /// Version of rnic, with the hash of its source code.
    code: String,
    /// Name and fingerprint of each run.
    runs: Vec<(String, Fingerprint)>,
    /// Why the rank cannot begin.
    error: Option<String>,
}

/// Checks that all ranks have the same program and the same runs before they simulate them. `scenario` is what this
/// rank has read; `threads` must be equal on all ranks. All ranks must call this function, including ranks with an
/// error.
///
/// # Errors
/// A rank cannot begin, or differs from rank 0: one sentence, the same on every rank.
pub fn agree(
    group: &RankGroup, scenario: Result<&Scenario, String>, program: &str, threads: usize,
) -> Result<(), String> {
    let fingerprints = |scenario: &Scenario| {
        scenario.runs.iter().map(|run| (run.name.clone(), Fingerprint::of(run, program))).collect()
    };
    let own = Identity {
        code: format!("{CODE} with {threads} threads"),
        runs: scenario.as_ref().map_or(Vec::new(), |scenario| fingerprints(scenario)),
        error: scenario.err(),
    };
    let own = serde_json::to_vec(&own).map_err(|error| error.to_string())?;
    let mut all = Vec::new();
    group.gather(&own, &mut all).map_err(|error| error.to_string())?;
    let mut identities = Vec::new();
    for (rank, message) in all.iter().enumerate() {
        let identity: Identity = serde_json::from_slice(message)
            .map_err(|_| format!("rank {rank} runs another version of rnic than this one, {CODE}"))?;
        identities.push(identity);
    }
    let Some((root, others)) = identities.split_first() else { return Ok(()) };
    if let Some((rank, error)) = identities.iter().enumerate().find_map(|(rank, one)| Some((rank, one.error.as_ref()?)))
    {
        return Err(format!("rank {rank}: {error}"));
    }
    for (rank, other) in (1..).zip(others) {
        if other.code != root.code {
            return Err(format!("rank {rank} is rnic {}, but rank 0 is rnic {}", other.code, root.code));
        }
        let names = |identity: &Identity| identity.runs.iter().map(|(name, _)| name.clone()).collect::<Vec<_>>();
        if names(other) != names(root) {
            return Err(format!(
                "rank {rank} has other runs than rank 0: {} and {}",
                other.runs.len(),
                root.runs.len()
            ));
        }
        for ((name, its), (_, roots)) in other.runs.iter().zip(&root.runs) {
            if its != roots {
                let parts = roots.differences(its).join(", ");
                return Err(format!("rank {rank} has another run \"{name}\" than rank 0: they differ in {parts}"));
            }
        }
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;
    use rnic_fabric::local_ranks;

    const TEXT: &str = "[fabric]\ntopology = \"single-switch\"\nhosts = 4\nrate = \"100 Gbps\"\ndelay = \"1 us\"\n[traffic]\n\
        pattern = \"permutation\"\nsizes = \"fixed 64 KB\"\n[[run]]\nname = \"IRN\"\ntransport = \"irn\"\n";

    /// The results of `agree` on three ranks. The last rank has the given scenario and number of threads.
    fn found(last: Result<String, String>, program: &str, threads: usize) -> Vec<Result<(), String>> {
        let scenario = |text: &str| rnic_scenario::from_str(text, "test.toml", "".as_ref(), &[], None).unwrap();
        let usual = scenario(TEXT);
        let last = last.map(|text| scenario(&text));
        std::thread::scope(|scope| {
            let usual = &usual;
            let last = &last;
            let rank = |(rank, ranks)| {
                scope.spawn(move || {
                    let group = RankGroup::new(ranks);
                    match rank {
                        2 => agree(&group, last.as_ref().map_err(String::clone), program, threads),
                        _ => agree(&group, Ok(usual), "", 1),
                    }
                })
            };
            let threads: Vec<_> = local_ranks(3).into_iter().enumerate().map(rank).collect();
            threads.into_iter().map(|thread| thread.join().unwrap()).collect()
        })
    }

    #[test]
    fn a_rank_that_differs_is_named_on_every_rank() {
        let cases = [
            (Ok(TEXT.to_string()), "", 1, None),
            (
                Ok(TEXT.replace("64 KB", "65 KB")),
                "",
                1,
                Some("rank 2 has another run \"IRN\" than rank 0: they differ in [traffic]"),
            ),
            (
                Ok(TEXT.replace("name = \"IRN\"", "name = \"other\"")),
                "",
                1,
                Some("rank 2 has other runs than rank 0: 1 and 1"),
            ),
            (Ok(TEXT.to_string()), "x", 1, Some("rank 2 has another run \"IRN\" than rank 0: they differ in program")),
            (Err("cannot read `a.toml`".to_string()), "", 1, Some("rank 2: cannot read `a.toml`")),
        ];
        for (last, program, threads, message) in cases {
            for found in found(last.clone(), program, threads) {
                assert_eq!(found.err().as_deref(), message);
            }
        }
        let with_threads = found(Ok(TEXT.to_string()), "", 2);
        assert!(
            with_threads
                .iter()
                .all(|found| found.as_ref().is_err_and(|why| why.contains("with 2 threads, but rank 0")))
        );
    }
}
