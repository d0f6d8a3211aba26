//! Inferences on an ideal network, on which every message takes the same time. Times are computed by hand.

use super::tests::{network, run};
use super::*;
use rnic_spec::{Algorithm, AnsweredRequest, Model, OperationRecord};
use rnic_transport::{BitRate, Bytes};

const REACTION: Time = Time::from_ns(200);
const DELIVERY: Time = Time::from_us(10);
const BACK: Time = Time::from_us(1);

/// A layer has 16,384 parameters in its attention and 32,768 in its feed-forward network; the output layer has 8,192.
const SMALL: Model = Model {
    layers: 4,
    hidden: 64,
    heads: 8,
    kv_heads: 8,
    feed_forward: 256,
    gated: false,
    sequence: 1,
    vocabulary: 128,
    experts: 1,
    active_experts: 1,
    parameter_bytes: 2,
    gradient_bytes: 1,
};

/// Instances of accelerators that need 2 ps for an operation, and no time for memory.
fn inference(ranks: u32, tensor: u32) -> Inference {
    Inference {
        model: SMALL,
        tensor,
        prefill: 0,
        requests: ranks / tensor,
        rate: None,
        prompt: 32,
        output: 3,
        batch: 256,
        kv_parts: 1,
        accelerator_tflops: 1.0,
        efficiency: 0.5,
        memory_gb_per_s: 1e12,
        algorithm: Algorithm::Ring,
        channels: 1,
        chunk: Bytes(1_000_000),
        deployment: Deployment {
            ranks,
            placement: Placement::Linear,
            placed: [].into(),
            server: None,
            timeline: None,
            reaction: REACTION,
        },
    }
}

fn program_of(inference: Inference, seed: u64) -> Program {
    let pattern = TrafficPattern::Inference(Box::new(inference.clone()));
    let traffic = Traffic { name: "t".into(), pattern, warmup: 0, cooldown: 0, start: Time::ZERO, priority: 0 };
    let network = network(inference.deployment.ranks);
    Program::check(&traffic, &network).unwrap();
    Program::new(&[traffic], &network, seed, |_| 7).unwrap()
}

fn simulate(inference: Inference) -> (Vec<FlowSpec>, Vec<AnsweredRequest>, Vec<OperationRecord>) {
    let mut program = program_of(inference.clone(), 1);
    let flows = run(&mut program, DELIVERY, BACK, 0);
    assert_eq!(program.waiting(), Vec::<String>::new());
    assert!(flows.iter().all(|flow| flow.bytes <= Program::largest_of_inference(&inference)));
    let ProgramRecords { answered, operations, .. } = program.take_records();
    assert_eq!(answered.len(), inference.requests as usize);
    (flows, answered, operations)
}

/// Times of beginning, first token and end, in picoseconds.
fn times(request: &AnsweredRequest) -> [u64; 3] {
    [request.begin, request.first_token, request.end].map(|time| time.unwrap().as_ps())
}

/// Operations of the prompt: in each layer 2 x 16,384 x 32 and 4 x 64 x 32 x 32 in the attention, 2 x 32,768 x 32 in
/// the feed-forward network; 2 x 8,192 in the output layer for one token. An operation takes 2 ps.
const LAYERS: u64 = 2 * 4 * (2 * 16_384 * 32 + 4 * 64 * 32 * 32 + 2 * 32_768 * 32);
const OUTPUT: u64 = 2 * 2 * 8_192;

/// Time of one token of a request in picoseconds, to which `before` tokens precede.
fn token(before: u64) -> u64 {
    2 * 4 * (2 * 16_384 + 4 * 64 * before + 2 * 32_768) + OUTPUT
}

#[test]
fn one_request_by_hand() {
    // Two instances of one rank, with a request each. The second token follows 32 of the prompt and one more.
    let (flows, answered, _) = simulate(inference(2, 1));
    assert_eq!(flows, []);
    let first = LAYERS + OUTPUT;
    assert_eq!(first, 27_295_744);
    for request in &answered {
        assert_eq!(times(request), [0, first, first + token(33) + token(34)]);
    }
}

#[test]
fn requests_join_a_batch() {
    // Each instance has two requests. Both prompts go before the tokens of the first request; then both get tokens
    // together: matrices have twice the operations, and the caches of both are read.
    let (_, answered, _) = simulate(Inference { requests: 4, ..inference(2, 1) });
    let first = LAYERS + OUTPUT;
    let end = 2 * first + 2 * token(33) + 2 * token(34);
    assert_eq!(times(&answered[0]), [0, first, end]);
    assert_eq!(times(&answered[2]), [first, 2 * first, end]);
    // A batch of one: the second request waits for the end of the first.
    let (_, answered, _) = simulate(Inference { requests: 4, batch: 1, ..inference(2, 1) });
    let end = first + token(33) + token(34);
    assert_eq!(times(&answered[0]), [0, first, end]);
    assert_eq!(times(&answered[2]), [end, end + first, 2 * end]);
}

#[test]
fn memory_limits_tokens() {
    // 10^11 bytes per second: a layer reads 32,768 B and 256 B for each of 33 tokens, and 65,536 B; the output layer
    // 16,384 B. 10 ps for a byte.
    let (_, answered, _) = simulate(Inference { memory_gb_per_s: 100.0, output: 2, ..inference(2, 1) });
    let [_, first, end] = times(&answered[0]);
    assert_eq!(end - first, 10 * (4 * (32_768 + 256 * 33 + 65_536) + 16_384));
    // The prompt is limited by computations, the output layer by its memory.
    assert_eq!(first, LAYERS + 10 * 16_384);
    // A token reads as many experts as are active.
    let model = Model { experts: 8, active_experts: 2, ..SMALL };
    let (_, answered, _) = simulate(Inference { model, memory_gb_per_s: 100.0, output: 2, ..inference(2, 1) });
    let [_, first, end] = times(&answered[0]);
    assert_eq!(end - first, 10 * (4 * (32_768 + 256 * 33 + 2 * 65_536) + 16_384));
}

#[test]
fn keys_and_values_move_to_another_instance() {
    // The keys and values of 32 tokens have 256 B in each layer. They leave when the layers are done, before the output
    // layer, and the other instance begins when it has received them.
    for kv_parts in [1, 4] {
        let own = Inference { prefill: 1, requests: 1, output: 2, kv_parts, ..inference(2, 1) };
        let (flows, answered, operations) = simulate(own.clone());
        assert_eq!(flows.len(), kv_parts as usize);
        assert!(
            flows.iter().all(|flow| (flow.src, flow.dst, flow.bytes * u64::from(kv_parts)) == (0, 1, 4 * 32 * 256))
        );
        let arrival = LAYERS + (DELIVERY + REACTION).as_ps();
        assert_eq!(times(&answered[0]), [0, LAYERS + OUTPUT, arrival + token(33)]);
        assert_eq!((operations[0].label.as_str(), operations[0].bytes), ("keys and values", 4 * 32 * 256));
    }
}

#[test]
fn tensor_ranks_work_together_by_hand() {
    // One instance of two ranks, two requests of three at a time: prompts 0 and 1, three tokens for both, then the last
    // request: 3 prompts and 6 iterations for tokens, and the end.
    let server = Some(Server { accelerators: 2, rate: BitRate::from_gbps(3_200), latency: Time::from_ns(900) });
    for server in [None, server] {
        let deployment = Deployment { server, ..inference(2, 2).deployment };
        let own = Inference { requests: 3, output: 4, batch: 2, deployment, ..inference(2, 2) };
        let (flows, answered, operations) = simulate(own.clone());
        assert!(answered.iter().all(|request| request.end.is_some()));
        let counts: Vec<_> =
            operations.iter().map(|record| (record.label.as_str(), record.count, record.bytes)).collect();
        let tokens = 3 * 32 + 3 * 2 + 3;
        assert_eq!(counts, [("tensor", 9 * 8, tokens * 64 * 2 * 8), ("control", 10, 10)]);
        let sent: u64 = flows.iter().map(|flow| flow.bytes).sum();
        assert_eq!(sent, if server.is_some() { 0 } else { 2 * tokens * 64 * 2 * 8 + 10 });
    }
}

#[test]
fn separate_instances_of_several_ranks() {
    // Two instances for prompts and one for tokens, of two ranks each; each rank sends half of the keys and values, and
    // the second rank of the last instance reports each request to the first.
    let own = Inference { prefill: 2, requests: 5, output: 3, batch: 2, kv_parts: 2, ..inference(6, 2) };
    let (flows, answered, operations) = simulate(own.clone());
    assert!(answered.iter().all(|request| request.end > request.first_token));
    let kv = operations.iter().find(|record| record.label == "keys and values").unwrap();
    assert_eq!((kv.count, kv.bytes), (5 * 2 * 2, 5 * 4 * 32 * 256));
    let of_kv = flows.iter().filter(|flow| flow.bytes == 2 * 32 * 128);
    assert!(of_kv.clone().all(|flow| flow.src < 4 && flow.dst == 4 + flow.src % 2));
    assert_eq!(of_kv.count(), 20);
}

#[test]
fn requests_arrive_as_a_poisson_process() {
    let own = Inference { requests: 2_000, rate: Some(50_000.0), ..inference(2, 1) };
    let (_, answered, _) = simulate(own.clone());
    assert!(answered.iter().all(|request| request.begin >= Some(request.arrival)));
    let mean = answered.last().unwrap().arrival.as_us() / 1_999.0;
    assert!((mean - 20.0).abs() < 1.5, "{mean}");
    // The instances are busy for three fourths of the time, so requests wait.
    assert!(answered.iter().any(|request| request.begin > Some(request.arrival)));
    let mut other = program_of(own.clone(), 2);
    run(&mut other, DELIVERY, BACK, 0);
    assert_ne!(other.take_records().answered, answered);
}

#[test]
fn the_order_of_reports_changes_nothing() {
    let own = Inference { prefill: 1, requests: 20, rate: Some(20_000.0), kv_parts: 4, batch: 4, ..inference(8, 2) };
    let (mut one, mut other) = (program_of(own.clone(), 3), program_of(own.clone(), 3));
    assert_eq!(run(&mut one, DELIVERY, BACK, 0), run(&mut other, DELIVERY, BACK, 5));
    let records = one.take_records();
    assert!(records.answered.iter().all(|request| request.end.is_some()));
    assert_eq!(records, other.take_records());
}

#[test]
fn impossible_inferences_are_refused() {
    let error = |inference: Inference| inference.check().unwrap_err();
    assert_eq!(
        error(Inference { prefill: 4, ..inference(8, 2) }),
        "prefill = 4 leaves none of 4 instances to generate tokens; accepted: at most 3"
    );
    assert_eq!(error(Inference { output: 1, ..inference(2, 1) }), "output is 1; accepted: 2 to 16777216");
    assert_eq!(error(Inference { kv_parts: 5, ..inference(2, 1) }), "kv_parts is 5; accepted: 1 to 4");
    assert_eq!(error(inference(8, 3)), "tensor = 3 does not divide the number of heads (8); accepted: a divisor of 8");
}
