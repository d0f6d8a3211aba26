//! Traces: the tasks of files, on simulated networks.

use crate::common::*;
use rnic_fabric::config::TopologySpec;
use rnic_sim::Catalogue;
use rnic_sim::resolve::resolve;
use rnic_sim::run::{Sharing, simulate_run, simulate_run_shared};
use rnic_spec::{
    Algorithm, Collective, CollectiveOperation, Deployment, Grouping, Placement, Straggler, Trace, TraceFormat,
};
use rnic_spec::{FlowRecord, RunOutput, RunSpec, RunStatus, Traffic, TrafficPattern};
use rnic_transport::{Bytes, Time};
use std::fmt::Write;
use std::path::Path;

/// Serialisation time of a minimum-size frame (64 bytes + 20 bytes of gap) on a 40 Gbps link, in picoseconds.
const LEAST: u64 = 16_800;
const REACTION: u64 = 200_000;

fn trace(path: &Path, format: TraceFormat) -> Trace {
    let file = path.to_str().unwrap().to_string();
    let content = rnic_trace::survey(&file, format).unwrap();
    Trace {
        file,
        format,
        content,
        algorithm: Algorithm::Ring,
        channels: 1,
        chunk: Bytes(1_000_000),
        outstanding: 8,
        compute_scale: 1.0,
        straggler: None,
        deployment: Deployment {
            ranks: content.ranks,
            placement: Placement::Linear,
            placed: [].into(),
            server: None,
            reaction: Time::from_ps(REACTION),
            timeline: None,
        },
    }
}

/// A trace in CSV with the columns `rank,id,kind,peer,bytes,tag,group,time_ns,after`.
fn csv(folder: &Path, rows: &str) -> Trace {
    let path = folder.join("trace.csv");
    std::fs::write(&path, format!("rank,id,kind,peer,bytes,tag,group,time_ns,after\n{rows}")).unwrap();
    trace(&path, TraceFormat::Csv)
}

fn spec(hosts: u32, transport: &str, pattern: TrafficPattern) -> RunSpec {
    let mut spec = run_on(TopologySpec::SingleSwitch { hosts }, transport);
    spec.traffic = vec![Traffic { name: "t".into(), pattern, warmup: 0, cooldown: 0, start: Time::ZERO, priority: 0 }];
    spec
}

fn simulate(hosts: u32, transport: &str, trace: Trace) -> RunOutput {
    let spec = spec(hosts, transport, TrafficPattern::Trace(Box::new(trace)));
    simulate_run(&Catalogue::standard(), &spec, &resolve(&Catalogue::standard(), &spec).unwrap())
}

fn flows(output: &RunOutput) -> Vec<FlowRecord> {
    assert_eq!(output.status, RunStatus::Completed);
    output.flows.iter().collect()
}

#[test]
fn an_answer_by_hand() {
    let folder = tempfile::tempdir().unwrap();
    // The server computes for 3 us and answers with another message.
    let rows = "0,1,send,1,1024,5,,,\n0,2,receive,1,,6,,,\n1,10,receive,0,,5,,,\n1,11,compute,,,,,3000,10\n1,12,send,0,1024,6,,,11\n";
    let trace = csv(folder.path(), rows);
    let there = 2 * D + 2 * ROCE;
    let of = |trace: Trace| -> Vec<(u64, u64)> {
        let output = simulate(2, "roce", trace);
        flows(&output).iter().map(|flow| (flow.start.as_ps(), fct(flow))).collect()
    };
    assert_eq!(of(trace.clone()), [(0, there), (there + REACTION + 3_000_000, there)]);
    let slower = Trace { compute_scale: 0.5, straggler: Some(Straggler { rank: 1, delay: Time::from_us(7) }), ..trace };
    assert_eq!(of(slower)[1].0, there + REACTION + 8_500_000);
}

#[test]
fn a_step_ends_when_senders_know_that_messages_have_arrived() {
    let folder = tempfile::tempdir().unwrap();
    let output = simulate(2, "roce", csv(folder.path(), "0,1,send,1,1024,5,,,\n1,10,receive,0,,5,,,\n"));
    let [step] = output.steps[..] else { panic!("one step") };
    let known = 2 * D + 2 * ROCE + 2 * D + 2 * LEAST + REACTION;
    assert_eq!((step.start, step.end), (Time::ZERO, Some(Time::from_ps(known))));
}

#[test]
fn links_of_steps_by_hand() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("trace.csv");
    // Step 0: a message of one packet. Step 1 begins when rank 1 has received it and waits for a message of two
    // packets, which rank 0 sends when it knows that the first message has arrived.
    let rows = "0,1,send,1,1024,5,,0\n0,2,send,1,2048,6,1,1\n1,10,receive,0,,5,,0\n1,11,receive,0,,6,10,1\n";
    std::fs::write(&path, format!("rank,id,kind,peer,bytes,tag,after,step\n{rows}")).unwrap();
    let output = simulate(2, "roce", trace(&path, TraceFormat::Csv));
    let there = 2 * D + 2 * ROCE + REACTION;
    let back = 2 * D + 2 * LEAST;
    let steps: Vec<_> = output.step_links.steps.iter().map(|of| (of.step, of.start.as_ps(), of.end.as_ps())).collect();
    assert_eq!(steps, [(0, 0, there + back), (1, there, there + back + 2 * D + 3 * ROCE + REACTION + back)]);
    let links = |step: usize| -> Vec<(&str, u64, u64)> {
        let links = output.step_links.steps[step].links.iter();
        links.map(|link| (link.name.as_str(), link.bytes, link.busy.as_ps())).collect()
    };
    // Frames have 62 B of headers, and a gap of 20 B, which `busy` includes.
    assert_eq!(links(0)[..2], [("h0:s0", 1_086, ROCE), ("s0:h1", 1_086, ROCE)]);
    assert_eq!(links(1)[..2], [("h0:s0", 2 * 1_086, 2 * ROCE), ("s0:h1", 2 * 1_086, 2 * ROCE)]);
    let all = &output.step_links.measured[0];
    assert_eq!((all.steps, all.links[0].bytes, all.links[0].busy.as_ps()), (2, 3 * 1_086, 3 * ROCE));
    assert_eq!(
        all.time,
        output.step_links.steps.iter().fold(Time::ZERO, |sum, of| sum + of.end.saturating_sub(of.start))
    );
    assert!(!output.step_links.is_truncated);
}

#[test]
fn collective_operations_of_a_trace_are_those_of_the_pattern() {
    let folder = tempfile::tempdir().unwrap();
    for (operation, algorithm) in [
        (CollectiveOperation::AllReduce, Algorithm::Ring),
        (CollectiveOperation::AllReduce, Algorithm::Tree),
        (CollectiveOperation::AllToAll, Algorithm::Direct),
        (CollectiveOperation::Broadcast, Algorithm::Ring),
    ] {
        let rows: String = (0..4).fold(String::new(), |mut rows, rank| {
            let _ = writeln!(rows, "{rank},1,{},,40000,,all,,", operation.name());
            rows
        });
        let mut own = csv(folder.path(), &rows);
        own.algorithm = if algorithm == Algorithm::Tree { algorithm } else { Algorithm::Ring };
        let collective = Collective {
            operation,
            algorithm,
            size: Bytes(40_000),
            ranks: 4,
            group: 4,
            grouping: Grouping::Consecutive,
            placement: Placement::Linear,
            placed: [].into(),
            matrix: [].into(),
            skew: None,
            repeats: 1,
            channels: 1,
            chunk: own.chunk,
            outstanding: own.outstanding,
            compute: Time::ZERO,
            straggler: None,
            server: None,
            reaction: own.deployment.reaction,
        };
        let pattern = spec(4, "irn", TrafficPattern::Collective(collective));
        let expected =
            simulate_run(&Catalogue::standard(), &pattern, &resolve(&Catalogue::standard(), &pattern).unwrap());
        let of = |output: &RunOutput| -> Vec<(u32, u32, u64, Time, u64)> {
            flows(output).iter().map(|flow| (flow.src, flow.dst, flow.bytes, flow.start, fct(flow))).collect()
        };
        assert_eq!(of(&simulate(4, "irn", own)), of(&expected), "{operation:?} {algorithm:?}");
    }
}

/// A protobuf message behind its length.
fn delimited(content: &[u8]) -> Vec<u8> {
    let mut all = varint(content.len() as u64);
    all.extend(content);
    all
}

fn varint(mut value: u64) -> Vec<u8> {
    let mut bytes = Vec::new();
    while value >= 0x80 {
        bytes.push(value as u8 | 0x80);
        value >>= 7;
    }
    bytes.push(value as u8);
    bytes
}

/// A field with a number, or with bytes.
fn number(field: u64, value: u64) -> Vec<u8> {
    [varint(field << 3), varint(value)].concat()
}

fn bytes(field: u64, value: &[u8]) -> Vec<u8> {
    [varint(field << 3 | 2), delimited(value)].concat()
}

/// A node of a Chakra trace: id, type, dependencies, microseconds, attributes.
fn node(id: u64, kind: u64, after: &[u64], micros: u64, attributes: &[(&str, u64)]) -> Vec<u8> {
    let mut all = [number(1, id), bytes(2, b"n"), number(3, kind)].concat();
    after.iter().for_each(|earlier| all.extend(number(5, *earlier)));
    all.extend(number(7, micros));
    for (name, value) in attributes {
        all.extend(bytes(10, &[bytes(1, name.as_bytes()), number(9, *value)].concat()));
    }
    delimited(&all)
}

#[test]
fn three_formats_of_one_program_give_the_same_result() {
    let folder = tempfile::tempdir().unwrap();
    const RANKS: u64 = 6;
    let (mut rows, mut goal) = (String::new(), format!("num_ranks {RANKS}\n"));
    for rank in 0..RANKS {
        let (next, previous) = ((rank + 1) % RANKS, (rank + RANKS - 1) % RANKS);
        let (micros, size) = (rank + 1, 9_000 + 1_000 * rank);
        let _ = writeln!(rows, "{rank},0,compute,,,,,{micros}000,\n{rank},1,send,{next},{size},7,,,0");
        let _ = writeln!(rows, "{rank},2,receive,{previous},,7,,,\n{rank},3,compute,,,,,2000,1 2");
        let _ = writeln!(
            goal,
            "rank {rank} {{\nl0: calc {micros}000\nl1: send {size}b to {next} tag 7\nl1 requires l0\nl2: recv 1b from {previous} \
             tag 7\nl3: calc 2000\nl3 requires l1\nl3 requires l2\n}}"
        );
        let mut file = delimited(&bytes(1, b"1.0.0"));
        file.extend(node(0, 4, &[], micros, &[]));
        file.extend(node(1, 5, &[0], 0, &[("comm_dst", next), ("comm_size", size), ("comm_tag", 7)]));
        file.extend(node(2, 6, &[], 0, &[("comm_src", previous), ("comm_size", size), ("comm_tag", 7)]));
        file.extend(node(3, 4, &[1, 2], 2, &[]));
        std::fs::write(folder.path().join(format!("c.{rank}.et")), file).unwrap();
    }
    std::fs::write(folder.path().join("p.goal"), goal).unwrap();
    let traces = [
        csv(folder.path(), &rows),
        trace(&folder.path().join("p.goal"), TraceFormat::Goal),
        trace(&folder.path().join("c"), TraceFormat::Chakra),
    ];
    let catalogue = Catalogue::standard();
    let outputs = traces.map(|trace| {
        let spec = spec(RANKS as u32, "irn", TrafficPattern::Trace(Box::new(trace)));
        let resolved = resolve(&catalogue, &spec).unwrap();
        let output = simulate_run(&catalogue, &spec, &resolved);
        assert_eq!(output, simulate_run_shared(&catalogue, &spec, &resolved, &Sharing::among(2)), "two threads");
        assert_eq!((output.status.clone(), output.flows.len() as u64), (RunStatus::Completed, RANKS));
        output
    });
    assert_eq!(outputs[0], outputs[1]);
    assert_eq!(outputs[0], outputs[2]);
}

#[test]
fn receives_far_ahead_of_their_messages_do_not_stop_a_program() {
    let folder = tempfile::tempdir().unwrap();
    // Each rank posts more receive operations than a rank looks ahead, before its first send.
    const MESSAGES: u64 = 10_000;
    let mut rows = String::new();
    for rank in 0..2 {
        for message in 0..MESSAGES {
            let _ = writeln!(rows, "{rank},{message},receive,{},,1,,,", 1 - rank);
        }
        for message in 0..MESSAGES {
            let _ = writeln!(rows, "{rank},{},send,{},64,1,,,", MESSAGES + message, 1 - rank);
        }
    }
    let output = simulate(2, "roce", csv(folder.path(), &rows));
    assert_eq!(flows(&output).len() as u64, 2 * MESSAGES);
}

#[test]
fn a_program_that_cannot_go_on_names_what_it_waits_for() {
    let folder = tempfile::tempdir().unwrap();
    let rows = "0,1,receive,1,,5,,,\n0,2,send,1,100,6,,,1\n1,1,receive,0,,6,,,\n1,2,send,0,100,5,,,1\n";
    let output = simulate(2, "roce", csv(folder.path(), rows));
    let RunStatus::Failed(reason) = output.status else { panic!("{:?}", output.status) };
    assert!(
        reason.contains("rank 0 of traffic `t` waits for a message from rank 1 with the tag 5, in task 1"),
        "{reason}"
    );
    assert!(
        reason.contains("rank 1 of traffic `t` waits for a message from rank 0 with the tag 6, in task 1"),
        "{reason}"
    );
}

#[test]
fn a_trace_that_has_changed_is_refused() {
    let folder = tempfile::tempdir().unwrap();
    let trace = csv(folder.path(), "0,1,compute,,,,,10,\n1,1,compute,,,,,10,\n");
    csv(folder.path(), "0,1,compute,,,,,11,\n1,1,compute,,,,,10,\n");
    let RunStatus::Failed(reason) = simulate(2, "roce", trace).status else { panic!("the run must fail") };
    assert!(reason.contains("has changed since the scenario was read"), "{reason}");
}
