//! Small synthetic results whose statistics are computed by hand in the tests.

use super::model::{FlowRecord, PortRecord, PriorityCounters, RunOutput, RunStatus, Totals};
use crate::run::RunReport;
use crate::scenario::{
    FabricSetup, Limits, RunSpec, Scenario, SwitchSetup, Traffic, TrafficPattern, TransportSpec,
};
use rnic_fabric::config::{LinkSpec, TopologySpec};
use rnic_transport::{BitRate, Bytes, Time};

/// A measured flow that started at 0 and took 10 us, twice its ideal time.
pub(crate) fn flow(id: u32, bytes: u64) -> FlowRecord {
    FlowRecord {
        id,
        src: 0,
        dst: 1,
        bytes,
        start: Time::ZERO,
        finish: Some(Time::from_us(10)),
        ideal: Time::from_us(5),
        retransmitted: 0,
        timeouts: 0,
        request: u32::MAX,
        traffic: 0,
        measured: true,
    }
}

/// `RoCE + PFC`, with slowdowns 2, 4, 6 and 8, and `IRN` with half of each; one request over two flows.
pub(crate) fn two_runs() -> (Scenario, Vec<RunReport>) {
    let traffic = vec![source("background"), source("incast")];
    let runs = vec![
        run("RoCE + PFC", "roce", true, &traffic),
        run("IRN", "irn", false, &traffic),
    ];
    let reports = vec![report(output(1)), report(output(2))];
    (scenario(runs), reports)
}

/// One run in which no flow ever started.
pub(crate) fn empty() -> (Scenario, Vec<RunReport>) {
    let nothing = RunOutput {
        flows: Vec::new(),
        ports: Vec::new(),
        totals: Totals::default(),
        end: Time::ZERO,
        parameters: Vec::new(),
        warnings: Vec::new(),
        ..output(1)
    };
    (
        scenario(vec![run("nothing", "irn", false, &[source("background")])]),
        vec![report(nothing)],
    )
}

pub(crate) fn scenario(runs: Vec<RunSpec>) -> Scenario {
    Scenario {
        title: "A tiny case".into(),
        name: "tiny".into(),
        seed: 7,
        runs,
    }
}

pub(crate) fn report(output: RunOutput) -> RunReport {
    RunReport {
        output,
        wall_s: 1.25,
        cpu_s: 1.5,
        peak_rss_bytes: 1 << 20,
    }
}

/// Times of `output(1)` divided by `faster`.
fn output(faster: u64) -> RunOutput {
    let timed = |id, bytes, start, fct: u64, ideal, request, traffic| FlowRecord {
        start: Time::from_us(start),
        finish: Some(Time::from_us(start + fct / faster)),
        ideal: Time::from_us(ideal),
        request,
        traffic,
        ..flow(id, bytes)
    };
    let flows = vec![
        timed(0, 1_000, 0, 10, 5, u32::MAX, 0),
        timed(1, 5_000, 1, 40, 10, u32::MAX, 0),
        FlowRecord {
            timeouts: 2,
            ..timed(2, 200_000, 100, 300, 50, 0, 1)
        },
        FlowRecord {
            retransmitted: 6,
            ..timed(3, 200_000, 110, 400, 50, 0, 1)
        },
        FlowRecord {
            measured: false,
            ..timed(4, 1_000, 120, 200, 5, u32::MAX, 0)
        },
    ];
    let end = Time::from_ps(600_000_001);
    RunOutput {
        status: RunStatus::Completed,
        flows,
        ports: ports(),
        totals: totals(),
        end,
        parameters: vec![
            ("rate".into(), "40 Gbps".into()),
            ("buffer".into(), "240 KB".into()),
        ],
        warnings: vec!["the clock is fictional".into()],
    }
}

/// Busy for a half, a quarter and a quarter of the run.
fn ports() -> Vec<PortRecord> {
    let port = |node: &str, port, peer: &str, busy_us, drops, paused_ps| PortRecord {
        node: node.into(),
        port,
        peer: peer.into(),
        rate: BitRate::from_gbps(40),
        busy: Time::from_us(busy_us),
        priorities: vec![PriorityCounters {
            tx_packets: 300,
            tx_bytes: 318_600,
            drops,
            lost: 1,
            pause_sent: 2,
            pause_received: 3,
            paused_ps,
            queue_high_water: 231_003,
        }],
    };
    vec![
        port("h0", 0, "s0", 300, 0, 12_500_000),
        port("s0", 1, "h1", 150, 4, 0),
        port("s0", 2, "s1", 150, 1, 87_500),
    ]
}

fn totals() -> Totals {
    Totals {
        data: 600,
        control: 20,
        retransmitted: 6,
        dropped: 5,
        dropped_data: 4,
        lost: 1,
        marked: 2,
        hops: 1_200,
        delivered: 610,
        in_flight: 4,
        pause_frames: 3,
        paused_ps: 12_500_000,
    }
}

pub(crate) fn source(name: &str) -> Traffic {
    Traffic {
        name: name.into(),
        pattern: TrafficPattern::List { flows: [].into() },
        warmup: 0,
        cooldown: 0,
        start: Time::ZERO,
    }
}

pub(crate) fn run(name: &str, transport: &str, pfc: bool, traffic: &[Traffic]) -> RunSpec {
    let link = LinkSpec {
        rate: BitRate::from_gbps(40),
        delay: Time::from_us(2),
        loss: 0.0,
    };
    RunSpec {
        name: name.into(),
        fabric: FabricSetup {
            topology: TopologySpec::SingleSwitch { hosts: 3 },
            link,
            links: Vec::new(),
            mtu: Bytes(1_000),
            frame_gap: Bytes(20),
            switch: SwitchSetup::default(),
        },
        traffic: traffic.to_vec(),
        transport: transport_spec(transport, pfc),
        limits: Limits {
            max_time: None,
            stall_time: Time::from_ms(1_000),
        },
    }
}

fn transport_spec(transport: &str, pfc: bool) -> TransportSpec {
    TransportSpec {
        transport: transport.into(),
        cc: "none".into(),
        pfc,
        timeouts: None,
        rto_high: None,
        rto_low: None,
        rto_low_packets: None,
        bdp_cap: None,
        acks: None,
        header: None,
        ack_size: None,
        nack_size: None,
        control_priority: false,
        max_rate: None,
    }
}
