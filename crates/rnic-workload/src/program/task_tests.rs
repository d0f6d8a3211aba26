//! Tasks and training steps on an ideal network, on which every message takes the same time.

use super::tests::{network, run, run_slower};
use super::*;
use rnic_spec::{Algorithm, CollectiveOperation, Model, OperationRecord, PathRecord, PipelineSchedule, StepRecord};
use rnic_transport::{BitRate, Bytes};
use smallvec::SmallVec;
use std::sync::Arc;

pub(super) const REACTION: Time = Time::from_ns(200);
pub(super) const DELIVERY: Time = Time::from_us(10);
pub(super) const BACK: Time = Time::from_us(1);

fn deployment(ranks: u32) -> Deployment {
    Deployment {
        ranks,
        placement: Placement::Linear,
        placed: [].into(),
        server: None,
        reaction: REACTION,
        timeline: None,
    }
}

/// A model of 4 layers that is so small that tests are fast; a layer has 12 x 64 x 64 parameters.
const SMALL: Model = Model {
    layers: 4,
    hidden: 64,
    heads: 8,
    kv_heads: 8,
    feed_forward: 256,
    gated: false,
    sequence: 32,
    vocabulary: 128,
    experts: 1,
    active_experts: 1,
    parameter_bytes: 2,
    gradient_bytes: 4,
};

fn training(ranks: u32, tensor: u32, pipeline: u32) -> Training {
    Training {
        model: SMALL,
        tensor,
        pipeline,
        context: 1,
        expert: 1,
        micro_batch: 1,
        micro_batches: 4,
        schedule: PipelineSchedule::OneForwardOneBackward,
        overlap: true,
        bucket: Bytes(100_000),
        sharded: false,
        accelerator_tflops: 1.0,
        efficiency: 0.5,
        steps: 1,
        warmup_steps: 0,
        algorithm: Algorithm::Ring,
        channels: 1,
        chunk: Bytes(1_000_000),
        outstanding: 8,
        deployment: deployment(ranks),
    }
}

fn program_of(training: Training) -> Program {
    training.check().unwrap();
    let pattern = TrafficPattern::Training(Box::new(training.clone()));
    let traffic = Traffic { name: "t".into(), pattern, warmup: 0, cooldown: 0, start: Time::ZERO, priority: 0 };
    let network = network(training.deployment.ranks);
    Program::check(&traffic, &network).unwrap();
    Program::new(&[traffic], &network, 1, |_| 7).unwrap()
}

/// The flows and records of a training.
fn simulate(training: Training) -> (Vec<FlowSpec>, Vec<StepRecord>, Vec<OperationRecord>) {
    let mut program = program_of(training.clone());
    let flows = run(&mut program, DELIVERY, BACK, 0);
    assert_eq!(program.waiting(), Vec::<String>::new());
    assert_eq!(Some(flows.len() as u64), program.total());
    assert!(flows.iter().all(|flow| flow.bytes <= Program::largest_of_training(&training)));
    let ProgramRecords { steps, operations, .. } = program.take_records();
    assert_eq!(steps.len(), training.steps as usize);
    assert!(steps.iter().all(|step| step.end.is_some()));
    (flows, steps, operations)
}

fn bytes(flows: &[FlowSpec]) -> u64 {
    flows.iter().map(|flow| flow.bytes).sum()
}

/// Kind, number and bytes of operations.
fn counts(operations: &[OperationRecord]) -> Vec<(&str, u64, u64)> {
    operations.iter().map(|record| (record.label.as_str(), record.count, record.bytes)).collect()
}

/// Bytes of the activations of a micro-batch of [`SMALL`].
const ACTIVATIONS: u64 = 32 * 64 * 2;

#[test]
fn built_in_models_have_the_published_numbers_of_parameters() {
    let parameters = |name| Model::named(name).unwrap().parameters() as f64 / 1e9;
    // GPT-3 shares its embedding with the output layer, so one of the two does not count.
    let gpt = parameters("gpt3-13b") - 50_257.0 * 5_120.0 / 1e9;
    assert!((gpt - 12.85).abs() < 0.01, "{gpt}; the paper says 13.0 billion");
    assert!((parameters("llama2-7b") - 6.738).abs() < 0.001, "as the model card says");
    assert!((parameters("mixtral-8x7b") - 46.7).abs() < 0.05, "as the paper says");
}

#[test]
fn data_parallelism_by_hand() {
    // 4 data ranks: the gradients of all parameters in a ring, 2 (n - 1) / n of the size from each of n ranks.
    let (flows, _, operations) = simulate(training(4, 1, 1));
    let gradients = SMALL.parameters() * 4;
    assert_eq!(SMALL.parameters(), 4 * 12 * 64 * 64 + 2 * 128 * 64);
    assert_eq!(bytes(&flows), 2 * 3 * gradients);
    // Gradients of the output layer and a layer are 229,376 B, more than a bucket; the embedding is with the last
    // layer.
    assert_eq!(counts(&operations), [("gradients", 5, gradients)]);
}

#[test]
fn tensor_parallelism_by_hand() {
    // 2 tensor ranks: two all-reduces in each direction of each layer, of the activations, which each rank sends once.
    let (flows, _, operations) = simulate(training(2, 2, 1));
    let number = 4 * 4 * 4;
    assert_eq!(counts(&operations), [("tensor", number, number * ACTIVATIONS)]);
    assert_eq!(bytes(&flows), 2 * number * ACTIVATIONS);
    let server = Server { accelerators: 2, rate: BitRate::from_gbps(3_200), latency: Time::from_ns(900) };
    let inside = Training { deployment: Deployment { server: Some(server), ..deployment(2) }, ..training(2, 2, 1) };
    let (flows, _, operations) = simulate(inside);
    assert_eq!((flows.len(), operations[0].count), (0, number), "inside a server");
}

#[test]
fn all_kinds_of_parallelism_together_by_hand() {
    // 8 ranks: 2 tensor ranks, 2 data ranks, 2 stages.
    for (schedule, overlap) in [(PipelineSchedule::GPipe, true), (PipelineSchedule::OneForwardOneBackward, false)] {
        let (flows, _, operations) = simulate(Training { schedule, overlap, ..training(8, 2, 2) });
        let tensor = 4 * 4 * 4 * 2;
        let messages = 2 * 4 * 4;
        let found = counts(&operations);
        assert_eq!(found[0], ("tensor", tensor, tensor * ACTIVATIONS));
        assert_eq!(found[1], ("pipeline", messages, messages * ACTIVATIONS / 2));
        assert_eq!((found[2].0, found[2].2), ("gradients", SMALL.parameters() * 4));
        let gradients = 2 * SMALL.parameters() * 4;
        assert_eq!(bytes(&flows), 2 * tensor * ACTIVATIONS + messages * ACTIVATIONS / 2 + gradients);
    }
}

#[test]
fn experts_by_hand() {
    // 4 data ranks, 8 experts on 2 of them each: an all-to-all before and after the experts, in both directions.
    let model = Model { experts: 8, active_experts: 2, ..SMALL };
    let (flows, _, operations) = simulate(Training { model, expert: 2, ..training(4, 1, 1) });
    let number = 4 * 2 * 2 * 4 * 2;
    let found = counts(&operations);
    assert_eq!(found[0], ("expert", number, number * 2 * ACTIVATIONS));
    // Two groups of data ranks have different experts; the gradients of all other parameters are those of all ranks.
    let experts = 4 * 8 * model.expert() * 4;
    let others = (model.parameters() - 4 * 8 * model.expert()) * 4;
    assert_eq!((found[1].2, found[2].2), (others, experts));
    // Each rank sends half of its all-to-all to the other rank.
    assert_eq!(bytes(&flows), number * 2 * ACTIVATIONS + 2 * 3 * others + 2 * experts);
}

#[test]
fn a_sharded_optimiser_by_hand() {
    let (flows, _, operations) = simulate(Training { sharded: true, ..training(4, 1, 1) });
    let parameters = SMALL.parameters();
    let found = counts(&operations);
    assert_eq!((found[0].0, found[0].2), ("gradients", parameters * 4));
    assert_eq!((found[1].0, found[1].2), ("parameters", parameters * 2));
    assert_eq!(bytes(&flows), 3 * parameters * (4 + 2));
}

#[test]
fn context_parallelism_by_hand() {
    // 4 context ranks with 8 of 32 tokens each: keys and values of a block have 2 x 64 values of 2 B for each token.
    let block = 2 * 64 * 2 * 8;
    let (flows, steps, operations) = simulate(Training { context: 4, ..training(4, 1, 1) });
    // In each of 4 layers and 4 micro-batches each rank sends 3 blocks forward, and backward 3 with their gradients
    // and a gradient alone.
    let layers = 4 * 4 * 4;
    let found = counts(&operations);
    assert_eq!((found[0].0, found[0].2), ("gradients", SMALL.parameters() * 4), "as data ranks");
    assert_eq!(found[1], ("context", layers * 7, layers * (3 + 3 * 2 + 1) * block));
    assert_eq!(bytes(&flows), layers * 10 * block + 2 * 3 * SMALL.parameters() * 4);
    // The four ranks compute together what one would.
    let layer = 2 * 12 * 64 * 64 + 4 * 32 * 64;
    let operations = 3 * 4 * 32 * (4 * layer + 2 * 128 * 64);
    let expected = f64::from(operations) / 0.5e12 * 1e6;
    assert!((steps[0].compute.as_us() - expected).abs() < 1e-2, "{} {expected}", steps[0].compute.as_us());
}

#[test]
fn a_ring_of_context_ranks_takes_its_time() {
    // Two ranks, one layer, one micro-batch, forward and backward. A block leaves when the matrices are done and
    // arrives during the attention to the own block, if this is longer than a message.
    let model = Model { layers: 1, hidden: 1_024, feed_forward: 1, sequence: 4_096, vocabulary: 1, ..SMALL };
    let own = Training { model, context: 2, micro_batches: 1, overlap: false, ..training(2, 1, 1) };
    let (_, steps, operations) = simulate(own.clone());
    let known = DELIVERY + BACK + REACTION;
    let of_context = operations.iter().find(|record| record.label == "context").unwrap();
    assert_eq!((of_context.count, of_context.total_time, of_context.longest), (6, known * 6, known));
    let gradients = operations.iter().find(|record| record.label == "gradients").unwrap();
    // Backward, the ranks wait for two messages, one after the other; then for the gradients.
    let waits = (DELIVERY + REACTION) * 2 + gradients.total_time;
    let time = steps[0].end.unwrap().saturating_sub(steps[0].start);
    assert_eq!(time.saturating_sub(Time::from_ps(steps[0].compute.as_ps() / 2)), waits);
}

#[test]
fn algorithms_of_all_reduces_by_hand() {
    // 8 ranks in servers of 4, all with the same parameters.
    let server = Some(Server { accelerators: 4, rate: BitRate::from_gbps(3_200), latency: Time::from_ns(900) });
    let gradients = SMALL.parameters() * 4;
    let all = |algorithm, tensor| {
        let deployment = Deployment { server, ..deployment(8) };
        bytes(&simulate(Training { algorithm, deployment, ..training(8, tensor, 1) }).0)
    };
    // The ring crosses between servers twice; of two trees each has at least one link between the servers.
    assert_eq!(all(Algorithm::Ring, 1), 2 * (2 * 7) * gradients / 8);
    // Each rank exchanges a quarter with the rank of the same number in the other server: 2 (2 - 1) / 2 of it.
    assert_eq!(all(Algorithm::Hierarchical, 1), 8 * gradients / 4);
    // Data ranks with two in each server: two pieces of half the parameters of a rank each.
    assert_eq!(all(Algorithm::Hierarchical, 2), 2 * 4 * gradients / 2 / 2);
    // Data ranks that are alone in their servers form a ring: 2 (2 - 1) / 2 of the parameters of each rank.
    assert_eq!(all(Algorithm::Hierarchical, 4), 8 * gradients / 4);
    let alone = Training { algorithm: Algorithm::Hierarchical, ..training(8, 1, 1) };
    assert!(alone.check().unwrap_err().contains("set `accelerators`"));
    let direct = Training { algorithm: Algorithm::Direct, ..training(8, 1, 1) };
    assert!(direct.check().unwrap_err().ends_with("accepted: \"ring\", \"tree\", \"hierarchical\", \"nvls\""));
    // The ranks of both servers: the rings between them, as with "hierarchical".
    assert_eq!(all(Algorithm::Nvls, 1), 8 * gradients / 4);
    // Data ranks 0 and 2 of each server are two numbers apart.
    assert_eq!(all(Algorithm::Nvls, 2), 2 * 4 * gradients / 2 / 2);
    assert_eq!(all(Algorithm::Nvls, 4), 8 * gradients / 4);
}

#[test]
fn the_bubble_of_a_pipeline() {
    // p stages and m micro-batches: (p - 1) / (m + p - 1) of the time is idle if the network takes no time. Layers
    // compute for milliseconds, messages take microseconds; the output layer has one token.
    let model = Model { hidden: 1_024, feed_forward: 4_096, sequence: 512, vocabulary: 1, ..SMALL };
    for (stages, micro_batches) in [(2, 4), (4, 8), (4, 2)] {
        for schedule in PipelineSchedule::ALL {
            let training = Training { model, micro_batches, schedule, ..training(stages, 1, stages) };
            let (_, steps, _) = simulate(training);
            let time = steps[0].end.unwrap().saturating_sub(steps[0].start).as_us() * f64::from(stages);
            let idle = 1.0 - steps[0].compute.as_us() / time;
            let expected = f64::from(stages - 1) / f64::from(micro_batches + stages - 1);
            assert!((idle - expected).abs() < 0.003, "{stages} {micro_batches} {schedule:?}: {idle}, not {expected}");
        }
    }
}

#[test]
fn the_time_of_computations_by_hand() {
    // One data rank of 2: 4 layers, 4 micro-batches, 3 times the forward operations.
    let (_, steps, _) = simulate(training(2, 1, 1));
    let layer = 2 * 12 * 64 * 64 + 4 * 32 * 64;
    let operations = 3 * 4 * 32 * (4 * layer + 2 * 128 * 64);
    let expected = 2.0 * f64::from(operations) / 0.5e12 * 1e6;
    assert!((steps[0].compute.as_us() - expected).abs() < 1e-3, "{} {expected}", steps[0].compute.as_us());
}

#[test]
fn gradients_overlap_with_the_backward_pass() {
    let model = Model { hidden: 256, feed_forward: 1_024, ..SMALL };
    let time = |overlap| {
        let (_, steps, _) = simulate(Training { model, overlap, ..training(4, 1, 1) });
        steps[0].end.unwrap()
    };
    let (with, without) = (time(true), time(false));
    assert!(with < without, "{with} {without}");
}

#[test]
fn steps_follow_each_other() {
    let (_, steps, _) = simulate(Training { steps: 3, warmup_steps: 1, ..training(4, 2, 1) });
    assert_eq!(
        steps.iter().map(|step| (step.step, step.is_measured)).collect::<Vec<_>>(),
        [(0, false), (1, true), (2, true)]
    );
    let times: Vec<Time> = steps.iter().map(|step| step.end.unwrap().saturating_sub(step.start)).collect();
    assert!(times[1] == times[2], "{times:?}");
    assert!(steps.windows(2).all(|two| two[1].start <= two[0].end.unwrap()));
    // Also in a pipeline, whose later stages wait for messages: a step starts when the first stage begins it.
    let (_, steps, _) = simulate(Training { steps: 3, ..training(4, 1, 2) });
    for step in &steps {
        let PathRecord { late, compute, network, excess, .. } = step.path;
        assert_eq!(late + compute + network + excess, step.end.unwrap().saturating_sub(step.start));
    }
    let times: Vec<Time> = steps.iter().map(|step| step.end.unwrap().saturating_sub(step.start)).collect();
    assert!(times[1] == times[2] && times[1] < times[0] * 2, "{times:?}");
}

#[test]
fn the_order_of_reports_changes_nothing() {
    let model = Model { experts: 4, active_experts: 2, ..SMALL };
    let training = Training { model, expert: 2, steps: 2, ..training(16, 2, 2) };
    let (mut one, mut other) = (program_of(training.clone()), program_of(training.clone()));
    assert_eq!(run(&mut one, DELIVERY, BACK, 0), run(&mut other, DELIVERY, BACK, 5));
    assert_eq!(one.take_records(), other.take_records());
}

#[test]
fn impossible_divisions_are_refused() {
    let error = |training: Training| training.check().unwrap_err();
    assert_eq!(
        error(training(8, 3, 1)),
        "tensor = 3 does not divide the number of heads (8); accepted: a divisor of 8"
    );
    assert_eq!(
        error(training(8, 1, 3)),
        "pipeline = 3 does not divide the number of layers (4); accepted: a divisor of 4"
    );
    assert_eq!(
        error(training(6, 2, 2)),
        "tensor x pipeline = 4 does not divide 6 ranks; accepted: a product that divides 6"
    );
    assert_eq!(
        error(Training { expert: 2, ..training(8, 1, 1) }),
        "expert = 2 does not divide the number of experts (1); accepted: a divisor of 1"
    );
    let model = Model { experts: 8, active_experts: 9, ..SMALL };
    assert_eq!(error(Training { model, ..training(8, 1, 1) }), "active_experts is 9; accepted: 1 to 8");
    assert!(error(Training { warmup_steps: 1, ..training(8, 1, 1) }).contains("leaves none of 1 steps"));
}

/// Tasks in a list.
#[derive(Debug)]
struct Listed(std::vec::IntoIter<Task>);

impl Tasks for Listed {
    fn next(&mut self) -> Result<Option<Task>, String> {
        Ok(self.0.next())
    }
}

/// A program of the tasks of each rank, given as (id, after, work).
pub(super) fn listed(ranks: &[&[(u64, &[u64], Work)]], communicators: &[&[u32]]) -> Program {
    let task = |(id, after, work): &(u64, &[u64], Work)| Task {
        id: *id,
        after: SmallVec::from_slice(after),
        work: *work,
        step: 0,
        label: 1,
    };
    let tasks = ranks
        .iter()
        .map(|tasks| -> Box<dyn Tasks> { Box::new(Listed(tasks.iter().map(task).collect::<Vec<_>>().into_iter())) });
    let graph = Graph {
        communicators: communicators.iter().map(|ranks| Arc::from(*ranks)).collect(),
        labels: vec![String::new(), "part".into()],
        tasks: tasks.collect(),
    };
    let count = ranks.len() as u32;
    let plan = training(count, 1, 1).plan();
    let pattern = TrafficPattern::List { flows: [].into() };
    let traffic = Traffic { name: "t".into(), pattern, warmup: 0, cooldown: 0, start: Time::ZERO, priority: 0 };
    let network = network(count);
    let mut program = Program::empty(&network);
    program.add_graph((0, &traffic, Some(0)), graph, (plan, 0, Some(0)), &network, 1);
    program
}

/// A run of the tasks of a graph: the flows, and the end.
fn simulate_graph(graph: Graph, plan: Collective) -> (Vec<FlowSpec>, Time) {
    let pattern = TrafficPattern::List { flows: [].into() };
    let traffic = Traffic { name: "t".into(), pattern, warmup: 0, cooldown: 0, start: Time::ZERO, priority: 0 };
    let mut program = Program::empty(&network(plan.ranks));
    program.add_graph((0, &traffic, None), graph, (plan.clone(), 0, None), &network(plan.ranks), 1);
    let flows = run(&mut program, DELIVERY, BACK, 0);
    assert_eq!(program.waiting(), Vec::<String>::new());
    (flows, program.take_records().steps[0].end.unwrap())
}

#[test]
fn expanded_operations_send_the_same_messages_at_the_same_time() {
    let server = Some(Server { accelerators: 2, rate: BitRate::from_gbps(3_200), latency: Time::from_ns(900) });
    for (operation, algorithm) in CollectiveOperation::ALL
        .iter()
        .flat_map(|operation| operation.algorithms().iter().map(move |algorithm| (*operation, *algorithm)))
        // Sums in switches are no messages.
        .filter(|(_, algorithm)| *algorithm != Algorithm::Nvls)
    {
        // Few messages, so that the limited number of open operations does not matter.
        let deployment = Deployment { server, ..deployment(8) };
        let collective = Collective {
            operation,
            algorithm,
            size: Bytes(8_000),
            chunk: Bytes(400),
            repeats: 2,
            compute: Time::from_us(3),
            ..Training { deployment, ..training(8, 1, 1) }.plan()
        };
        let pattern = TrafficPattern::Collective(collective.clone());
        let traffic = Traffic { name: "t".into(), pattern, warmup: 0, cooldown: 0, start: Time::ZERO, priority: 0 };
        let graph = || Program::graph(&traffic).unwrap();
        let (as_operations, end) = simulate_graph(graph().0, graph().1);
        let (graph, plan) = graph();
        let (as_messages, other_end) = simulate_graph(Program::expand(graph, &plan), plan);
        let of = |flows: &[FlowSpec]| {
            let mut all: Vec<_> = flows.iter().map(|flow| (flow.start, flow.src, flow.dst, flow.bytes)).collect();
            all.sort_unstable();
            all
        };
        assert!(of(&as_operations) == of(&as_messages), "{operation:?} {algorithm:?}");
        assert_eq!(end, other_end, "{operation:?} {algorithm:?}");
    }
}

#[test]
fn sums_in_switches_are_no_messages() {
    let server = Some(Server { accelerators: 2, rate: BitRate::from_gbps(3_200), latency: Time::from_ns(900) });
    let deployment = Deployment { server, ..deployment(8) };
    let plan = Training { algorithm: Algorithm::Nvls, deployment, ..training(8, 1, 1) }.plan();
    let pattern = TrafficPattern::Collective(Collective { size: Bytes(8_000), ..plan });
    let traffic = Traffic { name: "t".into(), pattern, warmup: 0, cooldown: 0, start: Time::ZERO, priority: 0 };
    let (graph, plan) = Program::graph(&traffic).unwrap();
    let mut expanded = Program::expand(graph, &plan);
    let error = expanded.tasks[3].next().unwrap_err();
    assert_eq!(
        error,
        "an all-reduce with \"nvls\" is carried out by the switch of a server, not by messages; accepted: another `algorithm`"
    );
}

#[test]
fn an_expanded_training_has_no_operations() {
    let own = Training { chunk: Bytes(100_000), sharded: true, ..training(8, 2, 2) };
    let (flows, steps, _) = simulate(own.clone());
    let pattern = TrafficPattern::Training(Box::new(own.clone()));
    let traffic = Traffic { name: "t".into(), pattern, warmup: 0, cooldown: 0, start: Time::ZERO, priority: 0 };
    let (graph, plan) = Program::graph(&traffic).unwrap();
    let (expanded, end) = simulate_graph(Program::expand(graph, &plan), plan);
    assert_eq!((expanded.len(), bytes(&expanded)), (flows.len(), bytes(&flows)));
    assert_eq!(end, steps[0].end.unwrap());
    let list = TrafficPattern::List { flows: [].into() };
    let error = Program::graph(&Traffic { pattern: list, ..traffic }).unwrap_err();
    assert_eq!(error, "traffic `t` has no tasks; accepted: the patterns collective, training and trace");
}

const ALL_REDUCE: CollectiveOperation = CollectiveOperation::AllReduce;

#[test]
fn communicators_work_at_the_same_time_and_beside_computations() {
    let sum = |communicator| Work::Collective { communicator, operation: ALL_REDUCE, bytes: 200 };
    let compute = Work::Compute { time: Time::from_us(5), processor: 0 };
    // Two operations on different communicators and a computation take as long as one operation; a second one on the
    // same communicator takes twice as long.
    let time = |tasks: &[(u64, &[u64], Work)]| {
        let mut program = listed(&[tasks, tasks], &[&[0, 1], &[1, 0]]);
        run(&mut program, DELIVERY, BACK, 0);
        assert_eq!(program.waiting(), Vec::<String>::new());
        program.take_records().steps[0].end.unwrap()
    };
    let one = time(&[(1, &[], sum(0))]);
    assert_eq!(one, (DELIVERY + REACTION) * 2 + BACK);
    assert_eq!(time(&[(1, &[], sum(0)), (2, &[], sum(1)), (3, &[], compute)]), one);
    assert_eq!(time(&[(1, &[], sum(0)), (2, &[], sum(0))]), one * 2);
    assert_eq!(time(&[(1, &[], compute), (2, &[1], sum(0)), (3, &[], compute)]), one + Time::from_us(5));
}

#[test]
fn processors_compute_at_the_same_time() {
    let compute = |processor| Work::Compute { time: Time::from_us(5), processor };
    let end = |tasks: &[(u64, &[u64], Work)]| {
        let mut program = listed(&[tasks], &[]);
        run(&mut program, DELIVERY, BACK, 0);
        program.take_records().steps[0].end.unwrap()
    };
    assert_eq!(end(&[(1, &[], compute(0)), (2, &[], compute(0))]), Time::from_us(10));
    assert_eq!(end(&[(1, &[], compute(0)), (2, &[], compute(7)), (3, &[], compute(7))]), Time::from_us(10));
    assert_eq!(end(&[(1, &[], compute(0)), (2, &[], compute(7)), (3, &[1], compute(255))]), Time::from_us(10));
    assert_eq!(end(&[(1, &[], compute(0)), (2, &[], compute(7))]), Time::from_us(5));
}

#[test]
fn messages_match_by_sender_and_tag() {
    let send = |to, tag| Work::Send { to, bytes: 50, tag };
    let receive = |from, tag| Work::Receive { from, tag };
    let first: &[_] = &[(1, &[][..], send(1, 4)), (2, &[], send(1, 5))];
    let second: &[_] = &[(7, &[][..], receive(Some(0), 5)), (8, &[7], receive(None, 4))];
    let mut program = listed(&[first, second], &[]);
    assert_eq!(run(&mut program, DELIVERY, BACK, 0).len(), 2);
    assert_eq!(program.waiting(), Vec::<String>::new());
}

#[test]
fn ranks_that_wait_for_ever_are_named() {
    let receive = Work::Receive { from: Some(0), tag: 9 };
    let sum = Work::Collective { communicator: 0, operation: ALL_REDUCE, bytes: 200 };
    let outside = Work::Send { to: 5, bytes: 1, tag: 0 };
    let mut program =
        listed(&[&[(1, &[], sum)], &[(3, &[], receive), (4, &[3], sum)], &[(1, &[], outside)]], &[&[0, 1]]);
    run(&mut program, DELIVERY, BACK, 0);
    assert_eq!(
        program.waiting(),
        [
            "rank 0 of traffic `t` waits for an operation \"all-reduce\": a message from rank 1, in task 1 (part) of step 0",
            "rank 1 of traffic `t` waits for a message from rank 0 with the tag 9, in task 3 (part) of step 0",
            "rank 2 of traffic `t` waits for a task that cannot be carried out: task 1: rank 5 does not exist; accepted: \
             0 to 2",
        ]
    );
    assert!(program.take_records().steps.iter().all(|step| step.end.is_none()));
}

/// The record of the only step of these tasks, if a message takes [`DELIVERY`] and `ideal` on an empty fabric.
fn only_step(mut program: Program, ideal: Time) -> StepRecord {
    run_slower(&mut program, ideal, (DELIVERY, BACK), 0);
    assert_eq!(program.waiting(), Vec::<String>::new());
    let steps = program.take_records().steps;
    assert_eq!(steps.len(), 1);
    let PathRecord { late, compute, network, excess, .. } = steps[0].path;
    assert_eq!(late + compute + network + excess, steps[0].end.unwrap().saturating_sub(steps[0].start));
    steps[0]
}

#[test]
fn the_critical_path_of_two_ranks_by_hand() {
    // Rank 0 computes for 30 us and sends; rank 1 computes for 20 us, receives, and computes for 5 us. A message takes
    // 10 us, of which 6 us are ideal.
    let us = Time::from_us;
    let compute = |time| Work::Compute { time: us(time), processor: 0 };
    let first: &[_] = &[(1, &[][..], compute(30)), (2, &[1], Work::Send { to: 1, bytes: 50, tag: 4 })];
    let second: &[_] =
        &[(1, &[][..], compute(20)), (2, &[1], Work::Receive { from: Some(0), tag: 4 }), (3, &[2], compute(5))];
    let step = only_step(listed(&[first, second], &[]), us(6));
    assert_eq!(step.end, Some(us(45) + REACTION));
    let path =
        PathRecord { late: Time::ZERO, compute: us(35), network: us(6) + REACTION, excess: us(4), excess_parts: None };
    assert_eq!((step.path, step.compute, step.longest_compute), (path, us(55), us(30)));
    // A receiver that computes until the message is there is on the path itself.
    let second: &[_] = &[(1, &[][..], compute(50)), (2, &[1], Work::Receive { from: Some(0), tag: 4 })];
    let step = only_step(listed(&[first, second], &[]), us(6));
    let path = PathRecord { compute: us(50), ..PathRecord::default() };
    assert_eq!((step.path, step.longest_compute), (path, us(50)));
}

#[test]
fn a_computation_that_waits_for_another_one_is_on_its_path() {
    // Both computations can begin at 0; the second one begins when the first one has ended.
    let compute = |time| Work::Compute { time: Time::from_us(time), processor: 0 };
    let tasks: &[_] = &[(1, &[][..], compute(30)), (2, &[], compute(20))];
    let step = only_step(listed(&[tasks, &[(1, &[], compute(1))]], &[]), DELIVERY);
    assert_eq!(step.path, PathRecord { compute: Time::from_us(50), ..PathRecord::default() });
}

#[test]
fn a_straggler_is_on_the_critical_path() {
    // Three ranks compute for 20 us, the straggler for 50 us; then 4 ranks reduce in a ring of 6 messages.
    let us = Time::from_us;
    let work = |time| {
        [
            (1, Work::Compute { time: us(time), processor: 0 }),
            (2, Work::Collective { communicator: 0, operation: ALL_REDUCE, bytes: 400 }),
        ]
    };
    let tasks = |time| work(time).map(|(id, work)| (id, if id == 2 { &[1u64][..] } else { &[][..] }, work));
    let (usual, slow) = (tasks(20), tasks(50));
    let step = only_step(listed(&[&usual, &slow, &usual, &usual], &[&[0, 1, 2, 3]]), DELIVERY);
    assert_eq!(step.start, Time::ZERO);
    let PathRecord { late, compute, network, excess, .. } = step.path;
    assert_eq!((late, compute, excess, step.longest_compute), (Time::ZERO, us(50), Time::ZERO, us(50)));
    assert_eq!(network, (DELIVERY + REACTION) * 6 + BACK);
}

#[test]
fn messages_behind_others_of_their_sender_are_not_slower_than_ideal() {
    // Two messages of 100,000 B leave one NIC of 40 Gbps one after the other; each is ideally there after 21 us, the
    // second one 21 us after the first one has left, at (98 x 82 + 100,000) B x 0.2 ns. The second send ends the step.
    let us = Time::from_us;
    let leaves = Time::from_ps((98 * 82 + 100_000) * 200);
    let send = |tag| Work::Send { to: 1, bytes: 100_000, tag };
    let both = |last: Time| {
        let receive = |tag| Work::Receive { from: Some(0), tag };
        let first: &[_] = &[(1, &[][..], send(1)), (2, &[], send(2))];
        let mut program = listed(&[first, &[(1, &[], receive(1)), (2, &[1], receive(2))]], &[]);
        run_slower(&mut program, us(21), (last, BACK), 0);
        program.take_records().steps[0].path.excess
    };
    assert_eq!([us(0), us(3)].map(|more| both(us(21) + leaves + more)), [us(0), us(3)]);
    assert_eq!(both(us(21)), Time::ZERO);
}

#[test]
fn a_pipelines_bubble_is_computation_of_other_ranks() {
    // 4 stages and 8 micro-batches, all stages alike: the path computes 11 / 8 of the time of a rank.
    let model = Model { hidden: 1_024, feed_forward: 4_096, sequence: 512, vocabulary: 1, ..SMALL };
    let (_, steps, _) = simulate(Training { model, micro_batches: 8, ..training(4, 1, 4) });
    let of_rank = steps[0].longest_compute.as_us();
    let ratio = steps[0].path.compute.as_us() / of_rank;
    assert!((ratio - 11.0 / 8.0).abs() < 0.001, "{ratio}");
    assert!((steps[0].compute.as_us() / 4.0 / of_rank - 1.0).abs() < 0.001);
}

#[test]
fn the_timeline_has_every_task_of_the_step() {
    use rnic_spec::TaskKind;
    let us = Time::from_us;
    let compute = |time| Work::Compute { time: us(time), processor: 0 };
    let first: &[_] =
        &[(1, &[][..], compute(30)), (2, &[], compute(5)), (3, &[1], Work::Send { to: 1, bytes: 50, tag: 4 })];
    let second: &[_] = &[(1, &[][..], Work::Receive { from: Some(0), tag: 4 }), (2, &[1], Work::Nothing)];
    let mut program = listed(&[first, second], &[]);
    run(&mut program, DELIVERY, BACK, 0);
    let timeline = program.take_records().timeline;
    let spans: Vec<_> = timeline.spans.iter().map(|span| (span.rank, span.start, span.end, span.kind)).collect();
    let arrival = us(30) + DELIVERY + REACTION;
    let expected = [
        (0, Time::ZERO, us(30), TaskKind::Compute),
        (0, us(30), us(35), TaskKind::Compute),
        (0, us(30), arrival + BACK, TaskKind::Send),
        (1, Time::ZERO, arrival, TaskKind::Receive),
    ];
    assert_eq!(spans, expected);
    assert_eq!((timeline.labels, timeline.left_out), (vec![String::new(), "part".to_string()], 0));
    // Without the key, nothing is recorded.
    let mut program = program_of(training(2, 1, 1));
    run(&mut program, DELIVERY, BACK, 0);
    assert_eq!(program.take_records().timeline, rnic_spec::Timeline::default());
    let timeline = Deployment { timeline: Some(1), ..deployment(2) };
    let late = Training { deployment: timeline, ..training(2, 1, 1) };
    assert_eq!(late.check().unwrap_err(), "timeline is step 1; accepted: 0 to 0, the last step");
}
