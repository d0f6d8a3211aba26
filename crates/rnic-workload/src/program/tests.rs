//! Collective operations on an ideal network: every message takes the same time, and no link limits anything.

use super::*;
use proptest::prelude::*;
use rnic_spec::{Algorithm, CollectiveOperation};
use rnic_transport::{BitRate, Bytes};

const REACTION: Time = Time::from_ns(200);
const DELIVERY: Time = Time::from_us(10);

pub(super) fn network(hosts: u32) -> Network {
    let host_rate = vec![BitRate::from_gbps(40); hosts as usize];
    Network { hosts, host_rate, mtu: 1_024, wire_overhead: 82, ..Network::default() }
}

fn collective(operation: CollectiveOperation, algorithm: Algorithm, ranks: u32, size: u64) -> Collective {
    Collective {
        operation,
        algorithm,
        size: Bytes(size),
        ranks,
        group: ranks,
        grouping: Grouping::Consecutive,
        placement: Placement::Linear,
        placed: [].into(),
        matrix: [].into(),
        skew: None,
        repeats: 1,
        channels: 1,
        chunk: Bytes(1_000_000_000),
        outstanding: 8,
        compute: Time::ZERO,
        straggler: None,
        server: None,
        reaction: REACTION,
    }
}

fn program(collective: Collective, hosts: u32, seed: u64) -> Program {
    let pattern = TrafficPattern::Collective(collective);
    let traffic = Traffic { name: "t".into(), pattern, warmup: 0, cooldown: 0, start: Time::ZERO, priority: 0 };
    Program::check(&traffic, &network(hosts)).unwrap();
    Program::new(&[traffic], &network(hosts), seed, |_| 7).unwrap()
}

/// Runs a program on a network on which a message arrives `delivery` after its start, and its sender learns this
/// `back` later. Completions are reported in a scrambled order, window by window of simulated time.
pub(super) fn run(program: &mut Program, delivery: Time, back: Time, scramble: usize) -> Vec<FlowSpec> {
    run_slower(program, delivery, (delivery, back), scramble)
}

/// As [`run`], on a network on which the ideal time of a message is `ideal`.
pub(super) fn run_slower(
    program: &mut Program, ideal: Time, (delivery, back): (Time, Time), scramble: usize,
) -> Vec<FlowSpec> {
    let (mut all, mut open) = (Vec::new(), Vec::new());
    let mut slot = 0;
    loop {
        let next = program.next_event();
        let earliest = open.iter().map(|(_, at): &(u32, Time)| *at).min().unwrap_or(Time::MAX);
        if next.min(earliest) == Time::MAX {
            return all;
        }
        let end = next.min(earliest) + REACTION;
        program.advance(end);
        while program.head().is_some_and(|(start, _)| start < end) {
            let (flow, origin) = program.take().unwrap();
            assert!(origin.stream);
            program.place(slot, origin.member);
            open.push((slot, flow.start + delivery));
            all.push(flow);
            slot += 1;
            program.advance(end);
        }
        let (mut done, rest): (Vec<_>, Vec<_>) = open.into_iter().partition(|(_, at)| *at < end);
        open = rest;
        while !done.is_empty() {
            let (slot, at) = done.remove(scramble % done.len());
            assert!(program.holds(slot));
            program.complete(slot, Completion { delivered: at, known: at + back, ideal, delays: None });
            assert!(!program.holds(slot));
        }
        assert!(program.next_event() >= end, "no event within the window of its cause");
    }
}

/// The flows and the time of one operation.
fn simulate(collective: Collective) -> (Vec<FlowSpec>, Time) {
    let mut program = program(collective.clone(), collective.ranks, 1);
    let flows = run(&mut program, DELIVERY, Time::from_us(1), 0);
    assert_eq!(Some(flows.len() as u64), program.total());
    assert_eq!(program.waiting(), Vec::<String>::new());
    let records = program.take_records().collectives;
    let end = records.iter().map(|record| record.end.expect("complete")).max().unwrap();
    (flows, end)
}

/// Bytes that each rank sends.
fn sent(flows: &[FlowSpec], ranks: u32) -> Vec<u64> {
    let of = |rank| flows.iter().filter(|flow| flow.src == rank).map(|flow| flow.bytes).sum();
    (0..ranks).map(of).collect()
}

#[test]
fn a_ring_all_reduce_by_hand() {
    // 4 ranks, 400 B: 6 steps in which each rank sends 100 B. A step takes the delivery and the reaction; the last rank
    // ends when its sender learns of the last arrival.
    let (flows, end) = simulate(collective(CollectiveOperation::AllReduce, Algorithm::Ring, 4, 400));
    assert_eq!(sent(&flows, 4), [600; 4], "2 (n - 1) / n of the size");
    assert!(flows.iter().all(|flow| flow.dst == (flow.src + 1) % 4 && flow.bytes == 100 && flow.request == 7));
    assert_eq!(end, (DELIVERY + REACTION) * 5 + DELIVERY + Time::from_us(1) + REACTION);
    let starts: Vec<Time> = flows.iter().filter(|flow| flow.src == 2).map(|flow| flow.start).collect();
    assert_eq!(starts, (0..6).map(|step| (DELIVERY + REACTION) * step).collect::<Vec<_>>());
}

#[test]
fn messages_of_a_chunk_pipeline() {
    // 2 ranks, 400 B: 2 steps with a segment of 200 B, in messages of at most 60 B: 4 of 50 B. All leave at once, and
    // each is sent on when it arrives.
    let chunk = Bytes(60);
    let (flows, end) =
        simulate(Collective { chunk, ..collective(CollectiveOperation::AllReduce, Algorithm::Ring, 2, 400) });
    assert_eq!((flows.len(), flows.iter().all(|flow| flow.bytes == 50)), (16, true));
    assert_eq!(end, (DELIVERY + REACTION) * 2 + Time::from_us(1));
}

#[test]
fn other_rings_by_hand() {
    for operation in [CollectiveOperation::ReduceScatter, CollectiveOperation::AllGather] {
        let (flows, end) = simulate(collective(operation, Algorithm::Ring, 4, 400));
        assert_eq!(sent(&flows, 4), [300; 4]);
        assert_eq!(end, (DELIVERY + REACTION) * 3 + Time::from_us(1));
    }
    let (flows, end) = simulate(collective(CollectiveOperation::Broadcast, Algorithm::Ring, 4, 400));
    assert_eq!(sent(&flows, 4), [400, 400, 400, 0]);
    assert_eq!(end, (DELIVERY + REACTION) * 3 + Time::from_us(1));
}

#[test]
fn a_tree_all_reduce_by_hand() {
    // 4 ranks at places 1 to 4 of the first tree: 4 is the root, 2 is its child, 1 and 3 are the leaves. In the second,
    // mirrored tree rank 0 is the root. Messages go two links up and two down.
    let (flows, end) = simulate(collective(CollectiveOperation::AllReduce, Algorithm::Tree, 4, 400));
    let edges: Vec<(u32, u32)> = flows.iter().filter(|flow| flow.start == Time::ZERO).map(|f| (f.src, f.dst)).collect();
    assert_eq!(edges, [(0, 1), (1, 2), (2, 1), (3, 2)]);
    assert!(flows.iter().all(|flow| flow.bytes == 200));
    // Three edges of each tree, in both directions.
    assert_eq!((flows.len(), end), (12, (DELIVERY + REACTION) * 4 + Time::from_us(1)));
}

#[test]
fn halving_and_doubling_by_hand() {
    let (flows, end) = simulate(collective(CollectiveOperation::AllReduce, Algorithm::HalvingDoubling, 8, 800));
    let of_rank_5: Vec<(u32, u64)> = flows.iter().filter(|flow| flow.src == 5).map(|f| (f.dst, f.bytes)).collect();
    assert_eq!(of_rank_5, [(1, 400), (7, 200), (4, 100), (4, 100), (7, 200), (1, 400)]);
    assert_eq!(sent(&flows, 8), [1_400; 8]);
    assert_eq!(end, (DELIVERY + REACTION) * 6 + Time::from_us(1));
}

#[test]
fn all_to_all_by_hand() {
    // 5 ranks with two outstanding messages each: two rounds of a delivery, the way back and the reaction.
    let collective = collective(CollectiveOperation::AllToAll, Algorithm::Direct, 5, 1_000);
    let (flows, end) = simulate(Collective { outstanding: 2, ..collective });
    let of_rank_3: Vec<(u32, Time)> = flows.iter().filter(|flow| flow.src == 3).map(|f| (f.dst, f.start)).collect();
    let round = DELIVERY + Time::from_us(1) + REACTION;
    assert_eq!(of_rank_3, [(4, Time::ZERO), (0, Time::ZERO), (1, round), (2, round)]);
    assert_eq!((sent(&flows, 5), end), (vec![800; 5], round * 2));
}

#[test]
fn ranks_compute_before_each_operation() {
    let collective = collective(CollectiveOperation::AllReduce, Algorithm::Ring, 2, 200);
    let collective = Collective { compute: Time::from_us(50), repeats: 3, ..collective };
    let mut program = program(collective, 2, 1);
    run(&mut program, DELIVERY, Time::from_us(1), 0);
    let records = program.take_records().collectives;
    let operation = (DELIVERY + REACTION) * 2 + Time::from_us(1);
    for (repeat, record) in (0u64..).zip(&records) {
        let start = Time::from_us(50) * (repeat + 1) + operation * repeat;
        assert_eq!((record.start, record.last_start, record.end), (start, start, Some(start + operation)));
    }
    assert_eq!(records.len(), 3);
}

#[test]
fn groups_and_placements() {
    let mut two = collective(CollectiveOperation::AllReduce, Algorithm::Ring, 6, 600);
    two.group = 3;
    let pairs = |collective: Collective, hosts, seed| {
        let flows = run(&mut program(collective, hosts, seed), DELIVERY, Time::from_us(1), 0);
        let mut pairs: Vec<(u32, u32)> = flows.iter().map(|flow| (flow.src, flow.dst)).collect();
        pairs.sort_unstable();
        pairs.dedup();
        pairs
    };
    assert_eq!(pairs(two.clone(), 6, 1), [(0, 1), (1, 2), (2, 0), (3, 4), (4, 5), (5, 3)]);
    two.grouping = Grouping::Strided;
    assert_eq!(pairs(two.clone(), 6, 1), [(0, 2), (1, 3), (2, 4), (3, 5), (4, 0), (5, 1)]);
    two.placement = Placement::Random;
    let random = pairs(two.clone(), 40, 1);
    assert_eq!((random.len(), random.iter().all(|(src, dst)| src != dst && *src < 40)), (6, true));
    assert!(random != pairs(two.clone(), 40, 2) && random == pairs(two.clone(), 40, 1));
}

#[test]
fn a_message_that_nobody_sends() {
    #[derive(Debug)]
    struct Once(Option<Operation>);
    impl Operations for Once {
        fn next(&mut self) -> Option<Operation> {
            self.0.take()
        }
        fn ahead(&self) -> usize {
            4
        }
    }
    let mut program = program(collective(CollectiveOperation::AllReduce, Algorithm::Ring, 3, 300), 3, 1);
    let receive = Action::Receive { from: 2, tag: Tag::From(0) };
    let operation = Operation { action: receive, after: After::Nothing, mark: Mark::None };
    program.ranks[1] = Rank::new(0, Box::new(Once(Some(operation))));
    run(&mut program, DELIVERY, Time::from_us(1), 0);
    let waiting = program.waiting();
    assert_eq!(waiting[1], "rank 1 of traffic `t` waits for a message from rank 2");
    assert!(waiting[0].starts_with("rank 0 of traffic `t` waits for a message from rank 2"));
    assert!(program.take_records().collectives.iter().all(|record| record.end.is_none()));
}

#[test]
fn too_many_ranks_are_refused() {
    let pattern = TrafficPattern::Collective(collective(CollectiveOperation::AllReduce, Algorithm::Ring, 9, 900));
    let traffic = Traffic { name: "t".into(), pattern, warmup: 0, cooldown: 0, start: Time::ZERO, priority: 0 };
    assert_eq!(Program::check(&traffic, &network(8)).unwrap_err(), "ranks is 9; accepted: 2 to 8, the number of hosts");
}

#[test]
fn messages_take_the_planes_in_turn() {
    // 4 ranks on 2 planes of 5 hosts: rank n is host n of each plane. Each rank sends 6 messages of a ring, three over
    // each plane, in turn.
    let collective = collective(CollectiveOperation::AllReduce, Algorithm::Ring, 4, 400);
    let pattern = TrafficPattern::Collective(collective);
    let traffic = Traffic { name: "t".into(), pattern, warmup: 0, cooldown: 0, start: Time::ZERO, priority: 0 };
    let two = Network { planes: 2, ..network(10) };
    let own = std::slice::from_ref(&traffic);
    crate::check(own, &two).unwrap();
    let mut program = Program::new(own, &two, 1, |_| 0).unwrap();
    let flows = run(&mut program, DELIVERY, Time::from_us(1), 0);
    assert_eq!(sent(&flows, 10), [300, 300, 300, 300, 0, 300, 300, 300, 300, 0]);
    for rank in 0..4 {
        let own = flows.iter().filter(|flow| flow.src % 5 == rank);
        let planes: Vec<(u32, u32)> = own.map(|flow| (flow.src / 5, flow.dst / 5)).collect();
        assert_eq!(planes, [(0, 0), (1, 1), (0, 0), (1, 1), (0, 0), (1, 1)]);
    }
    assert!(flows.iter().all(|flow| flow.dst % 5 == (flow.src % 5 + 1) % 4));
    let error = crate::check(&[traffic], &Network { planes: 5, ..network(10) }).unwrap_err();
    assert_eq!(error, "traffic `t`: ranks is 4; accepted: 2 to 2, the number of hosts of a plane");
}

#[test]
fn flows_between_planes_are_refused() {
    let two = Network { planes: 2, ..network(10) };
    let check = |pattern| {
        let source = Traffic { name: "t".into(), pattern, warmup: 0, cooldown: 0, start: Time::ZERO, priority: 0 };
        crate::check(&[source], &two)
    };
    let (request, start) = (FlowSpec::NO_REQUEST, Time::ZERO);
    let flow = |src, dst| FlowSpec { start, src, dst, bytes: 1, request, traffic: 0, measured: true, hash: None };
    assert_eq!(check(TrafficPattern::List { flows: [flow(5, 9)].into() }), Ok(()));
    assert_eq!(
        check(TrafficPattern::List { flows: [flow(4, 5)].into() }).unwrap_err(),
        "traffic `t`: a flow from host 4 in plane 0 to host 5 in plane 1 has no path; accepted: hosts of one plane"
    );
    let outside = TrafficPattern::Outside { largest: Bytes(1), reaction: None };
    assert_eq!(
        check(outside).unwrap_err(),
        "traffic `t`: the fabric has 2 planes without a path between them; accepted: the patterns collective, training, \
         inference and trace, and lists of flows within a plane"
    );
}

fn any_collective() -> impl Strategy<Value = Collective> {
    let operations = prop::sample::select(CollectiveOperation::ALL.to_vec());
    let numbers = (1u32..17, 1u32..4, 1u32..4, 1u64..100_000, 1u64..20_000, 1u32..20);
    (operations, any::<prop::sample::Index>(), numbers).prop_map(|(operation, algorithm, numbers)| {
        let (ranks, groups, channels, extra, chunk, outstanding) = numbers;
        let algorithm = operation.algorithms()[algorithm.index(operation.algorithms().len())];
        let group = match algorithm {
            Algorithm::HalvingDoubling => (ranks + 1).next_power_of_two(),
            Algorithm::Hierarchical => 3 * (ranks + 1),
            Algorithm::Nvls => 3 * ranks,
            _ => ranks + 1,
        };
        let server = Server { accelerators: 3, rate: BitRate::from_gbps(3_200), latency: Time::from_ns(900) };
        let channels = if algorithm == Algorithm::Ring { channels } else { 1 };
        let size = u64::from(group * channels) + extra;
        Collective {
            ranks: group * groups,
            group,
            repeats: 2,
            channels,
            // Not so small that a test has millions of messages.
            chunk: Bytes(chunk.max(size / 100)),
            outstanding,
            server: matches!(algorithm, Algorithm::Hierarchical | Algorithm::Nvls).then_some(server),
            ..collective(operation, algorithm, group, size)
        }
    })
}

proptest! {
    /// Every rank sends what the operation needs, whatever the algorithm, and the order in which a window's completions
    /// are reported changes nothing.
    #[test]
    fn operations_complete_and_move_the_right_bytes(collective in any_collective(), scramble in 0usize..7) {
        let mut one = program(collective.clone(), collective.ranks, 1);
        let flows = run(&mut one, DELIVERY, Time::from_us(1), 0);
        prop_assert_eq!(Some(flows.len() as u64), one.total());
        prop_assert_eq!(one.waiting(), Vec::<String>::new());
        prop_assert!(flows.iter().all(|flow| flow.bytes <= Program::largest(&collective)));
        let repeats = u64::from(collective.groups()) * u64::from(collective.repeats);
        let total: u64 = flows.iter().map(|flow| flow.bytes).sum();
        let group = u64::from(collective.group);
        let expected = match collective.operation {
            // Only the rings between servers are flows of a hierarchical all-reduce and of NVLS.
            CollectiveOperation::AllReduce => 2 * (group / u64::from(collective.accelerators()) - 1) * collective.size.0,
            CollectiveOperation::ReduceScatter | CollectiveOperation::AllGather | CollectiveOperation::Broadcast => {
                (group - 1) * collective.size.0
            }
            // The part of a rank for itself stays.
            CollectiveOperation::AllToAll => group * collective.size.0 - collective.size.0,
        };
        prop_assert_eq!(total, expected * repeats);
        let mut other = program(collective.clone(), collective.ranks, 1);
        prop_assert_eq!(&flows, &run(&mut other, DELIVERY, Time::from_us(1), scramble));
        let records = one.take_records().collectives;
        prop_assert_eq!(&records, &other.take_records().collectives);
        prop_assert_eq!(records.len() as u64, repeats);
        prop_assert!(records.iter().all(|record| record.end.is_some_and(|end| end > record.start)));
    }
}

/// Servers with 2 accelerators, whose ports send 1 B in 1 ns with a latency of 100 ns.
fn servers() -> Option<Server> {
    Some(Server { accelerators: 2, rate: BitRate::from_gbps(8), latency: Time::from_ns(100) })
}

#[test]
fn messages_inside_a_server_never_reach_the_fabric() {
    // 4 ranks in 2 servers: of the ring, rank 1 to 2 and rank 3 to 0 are flows. A segment of 100 B takes 100 ns and the
    // latency inside a server, far less than on the fabric, so each step takes as long as the fabric.
    let collective = collective(CollectiveOperation::AllReduce, Algorithm::Ring, 4, 400);
    let (flows, end) = simulate(Collective { server: servers(), ..collective });
    assert_eq!(sent(&flows, 4), [0, 600, 0, 600]);
    // The longest chain alternates between the two kinds of steps: three of each.
    let inside = Time::from_ns(200);
    let fabric = (DELIVERY + REACTION) * 3;
    assert!(end > fabric && end < fabric + (inside + REACTION) * 4 + Time::from_us(2), "{end}");
}

#[test]
fn ports_of_a_server_take_one_message_at_a_time() {
    // Rank 0 sends 300 B to rank 1 in messages of 100 B, one after the other: 3 x 100 ns, the latency, and the
    // reaction.
    let inside = collective(CollectiveOperation::Broadcast, Algorithm::Ring, 2, 300);
    let (flows, end) = simulate(Collective { server: servers(), chunk: Bytes(100), ..inside });
    assert_eq!((flows.len(), end), (0, Time::from_ns(3 * 100 + 100) + REACTION));
}

#[test]
fn a_hierarchical_all_reduce_by_hand() {
    // 4 ranks in 2 servers, 400 B: each rank sends 200 B to the other rank of its server, then two steps of 100 B to
    // the rank with the same number in the other server, then 200 B inside the server.
    let collective = collective(CollectiveOperation::AllReduce, Algorithm::Hierarchical, 4, 400);
    let (flows, end) = simulate(Collective { server: servers(), ..collective });
    let mut pairs: Vec<(u32, u32, u64)> = flows.iter().map(|flow| (flow.src, flow.dst, flow.bytes)).collect();
    pairs.sort_unstable();
    pairs.dedup();
    assert_eq!(pairs, [(0, 2, 100), (1, 3, 100), (2, 0, 100), (3, 1, 100)]);
    let inside = Time::from_ns(200 + 100) + REACTION;
    // The last part inside the server (500 ns) is over before the sender of the ring's last message knows of its
    // arrival (after 1 us).
    assert_eq!(end, inside + (DELIVERY + REACTION) * 2 + Time::from_us(1));
}

#[test]
fn an_all_reduce_in_the_switch_by_hand() {
    // One server and one piece of 1,600 B, at 1 B in 1 ns. Each rank sends its n parts to the switch, which takes 1,600
    // ns. The owner of the first part has the sum early, but its port is busy until 1,600 ns; then the switch copies
    // the n parts, one after the other, to all ports: 1,600 ns. The latency of 100 ns and the reaction follow.
    for ranks in [2, 4, 8] {
        let server = servers().map(|server| Server { accelerators: ranks, ..server });
        let collective = collective(CollectiveOperation::AllReduce, Algorithm::Nvls, ranks, 1_600);
        let (flows, end) = simulate(Collective { server, ..collective });
        assert_eq!((flows.len(), end), (0, Time::from_ns(1_600 + 1_600 + 100) + REACTION), "{ranks} ranks");
    }
    // Two pieces of 1,600 B with two ranks. At 3,200 ns the ports have sent all bytes for sums, and the copies begin:
    // four parts of 800 B.
    let collective = collective(CollectiveOperation::AllReduce, Algorithm::Nvls, 2, 3_200);
    let (_, end) = simulate(Collective { server: servers(), chunk: Bytes(800), ..collective.clone() });
    assert_eq!(end, Time::from_ns(3_200 + 3_200 + 100) + REACTION);
    // With many pieces, sums and copies overlap: 1 + 1 / 2 times the size at least, and less than twice the size.
    let (_, end) = simulate(Collective { server: servers(), chunk: Bytes(10), ..collective });
    assert!((4_800..6_000).contains(&(end.as_ps() / 1_000)), "{end}");
}

#[test]
fn sums_in_switches_and_a_ring_between_servers_by_hand() {
    // 4 ranks in 2 servers, 400 B: each rank sends 2 x 200 B for the sums. Rank 0 has its sum at 200 + 100 ns and the
    // reaction, rank 1 at 400 + 100. Then two steps of 100 B to the other server, and a copy of 200 B to both ranks.
    let collective = collective(CollectiveOperation::AllReduce, Algorithm::Nvls, 4, 400);
    let (flows, end) = simulate(Collective { server: servers(), ..collective });
    let mut starts: Vec<(Time, u32, u32, u64)> =
        flows.iter().map(|flow| (flow.start, flow.src, flow.dst, flow.bytes)).collect();
    starts.sort_unstable();
    let (first, second) = (Time::from_ns(300) + REACTION, Time::from_ns(500) + REACTION);
    let step = DELIVERY + REACTION;
    let sends = |start: Time, rank: u32| [(start, rank, rank + 2, 100), (start, rank + 2, rank, 100)];
    let expected = [sends(first, 0), sends(second, 1), sends(first + step, 0), sends(second + step, 1)];
    assert_eq!(starts, expected.concat());
    // The sender of the ring's last message learns of its arrival after 1 us, later than the last copy is over (300 ns
    // and the reaction after the arrival).
    assert_eq!(end, second + step + step + Time::from_us(1));
}

#[test]
fn rails_and_random_servers() {
    let mut rails =
        Collective { server: servers(), ..collective(CollectiveOperation::AllReduce, Algorithm::Ring, 6, 600) };
    rails.placement = Placement::Rail;
    assert_eq!(hosts(&rails.deployment(), 0, 6, 1), [0, 3, 1, 4, 2, 5], "rank 1 of each server on hosts 3 to 5");
    rails.placement = Placement::Random;
    let random = hosts(&rails.deployment(), 0, 40, 1);
    assert!(random.chunks(2).take(3).all(|server| server[0] % 2 == 0 && server[1] == server[0] + 1), "{random:?}");
}

#[test]
fn a_straggler_delays_the_others_through_its_messages() {
    let all = collective(CollectiveOperation::AllReduce, Algorithm::Ring, 4, 400);
    let straggler = Some(rnic_spec::Straggler { rank: 2, delay: Time::from_us(70) });
    let ((_, without), (_, with)) = (simulate(all.clone()), simulate(Collective { straggler, ..all.clone() }));
    assert_eq!(with, without + Time::from_us(70));
    let mut late = program(Collective { straggler, ..all.clone() }, 4, 1);
    run(&mut late, DELIVERY, Time::from_us(1), 0);
    let record = late.take_records().collectives[0];
    assert_eq!((record.start, record.last_start), (Time::ZERO, Time::from_us(70)));
}

#[test]
fn an_all_to_all_of_a_matrix_by_hand() {
    // Rank 0 sends 100 B to rank 1 and 50 B to rank 2, rank 1 nothing, rank 2 7 B to rank 0; what a rank sends to
    // itself does not count.
    let matrix: Arc<[u64]> = [9, 100, 50, 0, 9, 0, 7, 0, 9].into();
    let own = |size| Collective {
        matrix: matrix.clone(),
        repeats: 2,
        ..collective(CollectiveOperation::AllToAll, Algorithm::Direct, 3, size)
    };
    assert_eq!(own(151).check(), Err("size is 151 B; accepted: 150 B, the largest sum of a row".to_string()));
    let (flows, end) = simulate(own(150));
    let of = |flow: &FlowSpec| (flow.start, flow.src, flow.dst, flow.bytes);
    let first: Vec<_> = flows.iter().take(3).map(of).collect();
    assert_eq!(first, [(Time::ZERO, 0, 1, 100), (Time::ZERO, 0, 2, 50), (Time::ZERO, 2, 0, 7)]);
    // Rank 1 has received its message before the others know that theirs have arrived.
    assert_eq!(end, (DELIVERY + Time::from_us(1) + REACTION) * 2);
    assert_eq!(flows.len(), 6);
    // A rank that neither sends nor receives ends at once.
    let alone = Collective { matrix: [0, 5, 0, 0, 0, 0, 0, 0, 0].into(), ..own(5) };
    let (flows, _) = simulate(alone);
    assert_eq!(flows.len(), 2);
    let wrong = Collective { matrix: [0, 5].into(), ..own(5) };
    assert!(wrong.check().unwrap_err().starts_with("the matrix has 2 numbers; accepted: 9"));
    let other = Collective { matrix, ..collective(CollectiveOperation::AllReduce, Algorithm::Ring, 3, 150) };
    assert!(other.check().unwrap_err().contains("accepted: \"all-to-all\""));
}

#[test]
fn popular_ranks_receive_more() {
    // Zipf with exponent 1 over 4 ranks: 1, 1/2, 1/3 and 1/4 of 25/12, that is 48, 24, 16 and 12 % of the bytes.
    let own = Collective { skew: Some(1.0), ..collective(CollectiveOperation::AllToAll, Algorithm::Direct, 4, 10_000) };
    let received = |seed| {
        let mut program = program(own.clone(), 4, seed);
        let flows = run(&mut program, DELIVERY, Time::from_us(1), 0);
        assert_eq!(Some(flows.len() as u64), program.total());
        assert!(flows.iter().all(|flow| flow.bytes <= Program::largest(&own)));
        (0..4).map(|rank| flows.iter().find(|flow| flow.dst == rank).unwrap().bytes).collect::<Vec<u64>>()
    };
    let mut sorted = received(1);
    sorted.sort_unstable();
    assert_eq!(sorted, [1_200, 1_600, 2_400, 4_800]);
    assert_eq!(received(1), received(1));
    assert!((2..20).any(|seed| received(seed) != received(1)), "the order depends on the seed");
}

#[test]
fn ranks_run_where_a_file_says() {
    let mut own = collective(CollectiveOperation::Broadcast, Algorithm::Ring, 3, 300);
    own.placement = Placement::File;
    own.placed = [7, 2, 5].into();
    let mut all = program(own.clone(), 8, 1);
    let flows = run(&mut all, DELIVERY, Time::from_us(1), 0);
    assert_eq!(flows.iter().map(|flow| (flow.src, flow.dst)).collect::<Vec<_>>(), [(7, 2), (2, 5)]);
    let error = |placed: &[u32]| {
        own.deployment()
            .check_places(8)
            .and_then(|()| Deployment { placed: placed.into(), ..own.deployment() }.check_places(8))
    };
    assert_eq!(
        error(&[7, 2]),
        Err("the placement has 2 ranks, and the traffic 3; accepted: a host for each rank".into())
    );
    assert_eq!(error(&[7, 2, 8]), Err("rank 2 is on host 8; accepted: 0 to 7".into()));
    assert_eq!(error(&[7, 2, 7]), Err("ranks 0 and 2 are both on host 7; accepted: a host for each rank".into()));
}

#[test]
fn the_critical_path_of_a_collective_operation() {
    // A ring of 4 ranks on a network that delivers in 10 us instead of 7: each of 6 steps is 3 us too slow. One rank
    // begins 40 us later than the others.
    let us = Time::from_us;
    let mut ring = collective(CollectiveOperation::AllReduce, Algorithm::Ring, 4, 400);
    ring.straggler = Some(rnic_spec::Straggler { rank: 2, delay: us(40) });
    ring.repeats = 2;
    let mut program = program(ring, 4, 1);
    run_slower(&mut program, us(7), (DELIVERY, us(1)), 0);
    for record in program.take_records().collectives {
        let path = record.path;
        assert_eq!(path.late + path.network + path.excess, record.end.unwrap().saturating_sub(record.start));
        assert_eq!((path.compute, path.excess), (Time::ZERO, us(18)));
        assert_eq!(path.late, record.last_start.saturating_sub(record.start));
    }
}
