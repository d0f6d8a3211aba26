//! Records of the collective operations of tasks, on an ideal network.

use super::task_tests::{BACK, DELIVERY, REACTION, listed};
use super::tests::{run, run_slower};
use super::*;
use rnic_spec::{Algorithm, CollectiveOperation, TaskCollective};

const ALL_REDUCE: CollectiveOperation = CollectiveOperation::AllReduce;

fn compute(us: u64) -> Work {
    Work::Compute { time: Time::from_us(us), processor: 0 }
}

fn sum(communicator: u32, bytes: u64) -> Work {
    Work::Collective { communicator, operation: ALL_REDUCE, bytes }
}

#[test]
fn an_operation_of_tasks_has_a_row_by_hand() {
    // Three ranks compute for 20 us, the straggler for 50 us; then 4 ranks reduce in a ring of 6 messages, each of
    // which takes 10 us, of which 6 us are ideal.
    let us = Time::from_us;
    let of = |time| [(1, &[][..], compute(time)), (2, &[1][..], sum(0, 400))];
    let (usual, slow) = (of(20), of(50));
    let mut program = listed(&[&usual, &slow, &usual, &usual], &[&[0, 1, 2, 3]]);
    run_slower(&mut program, us(6), (DELIVERY, BACK), 0);
    let records = program.take_records();
    let [record] = records.task_collectives.records[..] else { panic!("one operation") };
    let end = us(50) + (DELIVERY + REACTION) * 6 + BACK;
    let path = PathRecord {
        late: us(30),
        compute: Time::ZERO,
        network: (us(6) + REACTION) * 6 + BACK,
        excess: us(4) * 6,
        excess_parts: None,
    };
    let expected = TaskCollective {
        traffic: 0,
        communicator: 0,
        number: 0,
        step: 0,
        label: 1,
        operation: ALL_REDUCE,
        algorithm: Algorithm::Ring,
        bytes: 400,
        ranks: 4,
        start: us(20),
        last_start: us(50),
        end: Some(end),
        path,
    };
    assert_eq!(record, expected);
    assert_eq!(records.task_collectives.label(&record), "part");
    let [operation] = &records.operations[..] else { panic!("one kind") };
    assert_eq!((operation.ranks, operation.count, operation.total_time), (4, 1, end.saturating_sub(us(20))));
}

#[test]
fn operations_of_a_kind_with_different_numbers_of_ranks_are_apart() {
    // Ranks 0 and 1 reduce twice, then all three ranks; rank 2 alone is no communication.
    let pair = [(1, &[][..], sum(0, 200)), (2, &[1][..], sum(0, 200)), (3, &[2][..], sum(1, 300))];
    let third = [(1, &[][..], sum(2, 100)), (3, &[1][..], sum(1, 300))];
    let mut program = listed(&[&pair, &pair, &third], &[&[0, 1], &[0, 1, 2], &[2]]);
    run(&mut program, DELIVERY, BACK, 0);
    let records = program.take_records();
    let kinds: Vec<_> = records.operations.iter().map(|kind| (kind.ranks, kind.count, kind.bytes)).collect();
    assert_eq!(kinds, [(1, 1, 100), (2, 2, 400), (3, 1, 300)]);
    let rows: Vec<_> =
        records.task_collectives.records.iter().map(|row| (row.communicator, row.number, row.start)).collect();
    let one = (DELIVERY + REACTION) * 2 + BACK;
    // Rank 2 begins at 0 to reduce with the others.
    assert_eq!(rows, [(0, 0, Time::ZERO), (1, 0, Time::ZERO), (0, 1, one)]);
}

#[test]
fn an_operation_that_a_rank_does_not_begin_has_no_end() {
    let first = [(1, &[][..], sum(0, 200))];
    let mut program = listed(&[&first, &[(1, &[], compute(7))]], &[&[0, 1]]);
    run(&mut program, DELIVERY, BACK, 0);
    assert_eq!(program.waiting().len(), 1);
    let records = program.take_records();
    let [record] = records.task_collectives.records[..] else { panic!("one operation") };
    assert_eq!((record.start, record.end, record.path), (Time::ZERO, None, PathRecord::default()));
    assert!(records.operations.is_empty());
}
