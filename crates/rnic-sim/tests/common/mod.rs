//! Helpers for the simulator's tests: runs with explicit lists of flows.

#![allow(dead_code)] // each test file uses its own part

use rnic_fabric::config::{LinkSpec, NamedLink, TopologySpec};
use rnic_scenario::{Origin, read_with};
use rnic_sim::resolve::{Resolved, resolve};
use rnic_sim::run::{simulate_on, simulate_run};
use rnic_sim::{Catalogue, Events, Segment};
use rnic_spec::FlowSpec;
use rnic_spec::{FabricSetup, Limits, RunSpec, Scenario, SwitchSetup, Traffic, TrafficPattern, TransportSpec};
use rnic_spec::{FlowRecord, RunOutput, RunStatus};
use rnic_transport::congestion::NoCongestionControl;
use rnic_transport::recovery::{GoBackN, Irn};
use rnic_transport::{BitRate, Bytes, Time};
use std::path::Path;

/// Serialisation time of a full RoCEv2 frame (1,024 + 62 bytes + 20 bytes of gap) on a 40 Gbps link, in picoseconds.
pub(crate) const ROCE: u64 = 221_200;
/// Serialisation time of a full IRN frame (16 bytes more than RoCEv2) on a 40 Gbps link, in picoseconds.
pub(crate) const IRN: u64 = 224_400;
/// Propagation delay of a link, in picoseconds.
pub(crate) const D: u64 = 2_000_000;

/// A run with the links of the IRN paper's default case: 40 Gbps, a delay of 2 us, an MTU of 1,024 B.
pub(crate) fn run_on(topology: TopologySpec, transport: &str) -> RunSpec {
    RunSpec {
        name: "run".to_string(),
        base: "run".to_string(),
        point: Vec::new(),
        seed: 1,
        fabric: FabricSetup {
            topology,
            link: LinkSpec { rate: BitRate::from_gbps(40), delay: Time::from_us(2), loss: 0.0 },
            links: Vec::new(),
            routes: Vec::new(),
            storms: Vec::new(),
            faults: Default::default(),
            watchdogs: Default::default(),
            meshes: Vec::new(),
            mtu: Bytes(1_024),
            frame_gap: Bytes(20),
            clocks: Default::default(),
            paths: None,
            flowlet_gap: None,
            switch: SwitchSetup::default(),
        },
        traffic: Vec::new(),
        transport: TransportSpec::named(transport).expect("a built-in transport"),
        beside: Vec::new(),
        limits: Limits { duration: None, max_time: None, stall_time: Time::from_ms(1_000) },
        watch: None,
        fidelity: Default::default(),
        fidelity_quantum: Time::ZERO,
        fast_forward: 0.0,
    }
}

/// A scenario with one run for each transport; `keys` is added to each run. Files are looked for in the folder of
/// the crate.
pub(crate) fn scenario(text: &str, transports: &[&str], keys: &str) -> Result<Scenario, String> {
    let runs = transports.iter().map(|t| format!("[[run]]\nname = \"{t}\"\ntransport = \"{t}\"\n{keys}\n"));
    let text = format!("{text}\n{}", runs.collect::<String>());
    read_scenario(&text, Path::new(env!("CARGO_MANIFEST_DIR")))
}

/// Reads a scenario whose transports may be in P4. Paths in it start at `folder`.
pub(crate) fn read_scenario(text: &str, folder: &Path) -> Result<Scenario, String> {
    let origin = Origin::Text { text, name: "test.toml", folder };
    read_with(&Catalogue::standard().vocabulary(), &origin, &[], None).map_err(|error| error.to_string())
}

/// The results of all runs of a scenario.
pub(crate) fn outputs(scenario: &Scenario, threads: usize) -> Vec<RunOutput> {
    let reports = rnic_campaign::run_scenario(scenario, threads).unwrap();
    reports.into_iter().map(|report| report.output).collect()
}

/// A run on the 54-host fat-tree.
pub(crate) fn fat_tree(transport: &str) -> RunSpec {
    run_on(TopologySpec::FatTree { k: 6 }, transport)
}

/// A link with the default rate, delay and loss of the fabric.
pub(crate) fn link_between(from: &str, to: &str) -> NamedLink {
    NamedLink { from: from.to_string(), to: to.to_string(), rate: None, delay: None, loss: None }
}

/// A run on a ring of `n` switches with one host on each switch: h0 on s0, and so on.
pub(crate) fn ring(n: usize, transport: &str) -> RunSpec {
    let names = |prefix: &str| (0..n).map(|i| format!("{prefix}{i}")).collect::<Vec<_>>();
    let (hosts, switches) = (names("h"), names("s"));
    let mut run = run_on(TopologySpec::Graph { hosts: hosts.clone(), switches: switches.clone() }, transport);
    for i in 0..n {
        run.fabric.links.push(link_between(&hosts[i], &switches[i]));
        run.fabric.links.push(link_between(&switches[i], &switches[(i + 1) % n]));
    }
    run
}

/// A flow of `bytes` from `src` to `dst` that starts at `start` picoseconds.
pub(crate) fn flow(start: u64, src: u32, dst: u32, bytes: u64) -> FlowSpec {
    FlowSpec {
        start: Time::from_ps(start),
        src,
        dst,
        bytes,
        request: FlowSpec::NO_REQUEST,
        traffic: 0,
        measured: true,
        hash: None,
    }
}

/// A traffic source with exactly these flows.
pub(crate) fn list(flows: &[FlowSpec]) -> Vec<Traffic> {
    vec![Traffic {
        name: "list".to_string(),
        pattern: TrafficPattern::List { flows: flows.into() },
        warmup: 0,
        cooldown: 0,
        start: Time::ZERO,
        priority: 0,
    }]
}

/// Resolves the settings of the run with `flows` as its traffic.
pub(crate) fn resolved(run: &RunSpec, flows: &[FlowSpec]) -> Resolved {
    let run = RunSpec { traffic: list(flows), ..run.clone() };
    resolve(&Catalogue::standard(), &run).unwrap()
}

/// Simulates the run with exactly these flows.
pub(crate) fn outcome(run: &RunSpec, flows: &[FlowSpec]) -> RunOutput {
    outcome_of(run, &resolved(run, flows), flows)
}

/// Simulates the run with exactly these flows and the settings `resolved`.
pub(crate) fn outcome_of(run: &RunSpec, resolved: &Resolved, flows: &[FlowSpec]) -> RunOutput {
    let run = RunSpec { traffic: list(flows), ..run.clone() };
    simulate_run(&Catalogue::standard(), &run, resolved)
}

/// Simulates the run with these flows on a fabric that loses chosen frames. An entry of `losses` has a host and the
/// indices of the frames to lose, counted from 0 over all frames that the host transmits.
pub(crate) fn outcome_with_losses(run: &RunSpec, flows: &[FlowSpec], losses: &[(u32, &[u64])]) -> RunOutput {
    let resolved = resolved(run, flows);
    let mut fabric = rnic_fabric::Fabric::<Segment>::new(&resolved.fabric, 1).unwrap();
    for (host, frames) in losses {
        let port = fabric.topology().host_port(rnic_fabric::HostId(*host));
        fabric.lose_frames(port, frames);
    }
    let flows = flows.iter().copied();
    let events = &Events::ignored();
    if run.transport.name == "irn" {
        simulate_on::<Irn, NoCongestionControl, _>(fabric, &resolved, (), flows, events)
    } else {
        simulate_on::<GoBackN, NoCongestionControl, _>(fabric, &resolved, (), flows, events)
    }
}

/// Flow completion time in picoseconds; the flow must have finished.
pub(crate) fn fct(record: &FlowRecord) -> u64 {
    (record.finish.unwrap() - record.start).as_ps()
}

/// The reason of a run's failure; the run must have failed.
pub(crate) fn failure(output: &RunOutput) -> &str {
    match &output.status {
        RunStatus::Failed(reason) => reason,
        status => panic!("the run did not fail: {status:?}"),
    }
}

/// Checks that all packets and flows of a run, completed or failed, are accounted for.
pub(crate) fn assert_accounts(output: &RunOutput) {
    assert_counts(output);
    for record in &output.flows {
        if record.finish.is_some() {
            assert!(fct(&record) >= record.ideal.as_ps(), "faster than alone: {record:?}");
        }
    }
}

/// As [`assert_accounts`], for sprayed flows: on paths of its own a short last packet overtakes a long one, so such a
/// flow can be faster than alone on one path.
pub(crate) fn assert_counts(output: &RunOutput) {
    let t = &output.totals;
    assert_eq!(t.data + t.control + t.probes + t.flooded, t.delivered + t.dropped + t.lost + t.in_flight);
    let cells = || output.ports.iter().flat_map(|p| &p.priorities);
    assert_eq!(cells().map(|c| c.tx_packets).sum::<u64>(), t.hops);
    assert_eq!(cells().map(|c| c.drops).sum::<u64>(), t.dropped);
    assert_eq!(cells().map(|c| c.lost).sum::<u64>(), t.lost);
    assert_eq!(cells().map(|c| c.paused_ps).sum::<u64>(), t.paused_ps);
    let retransmitted: u64 = output.flows.iter().map(|f| u64::from(f.retransmitted)).sum();
    assert_eq!(retransmitted, t.retransmitted);
    if output.status == RunStatus::Completed && output.truncated.is_none() {
        assert!(output.flows.iter().all(|f| f.finish.is_some()));
    }
}

/// The scenario files in `folder` and its subfolders.
pub(crate) fn scenario_files(folder: &std::path::Path, files: &mut Vec<std::path::PathBuf>) {
    for path in std::fs::read_dir(folder).unwrap().map(|entry| entry.unwrap().path()) {
        if path.is_dir() {
            scenario_files(&path, files);
        } else if path.extension().is_some_and(|extension| extension == "toml") {
            files.push(path);
        }
    }
}

/// The transport, or the one whose receivers grant credit if the congestion control needs that.
pub(crate) fn transport_with(cc: &rnic_spec::CongestionDeclaration, transport: &'static str) -> &'static str {
    if cc.needs_credit { "uet" } else { transport }
}
