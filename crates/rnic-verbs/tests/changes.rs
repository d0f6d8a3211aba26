//! Tests of objects that change while they are in use: regions with other rights or other memory, completion queues of
//! another size; and of memory that is checked when it is used.

use crate::common::{Pair, Setup, pattern};
use rnic_verbs::{
    Access, Completion, ForeignMemory, RecvRequest, SendFlags, SendOp, Service, Sge, SrqInfo, Status, VerbsError,
};

/// Memory of the application that lives until the process ends.
fn leaked() -> *mut u8 {
    Box::leak(Box::new([0u64; 512])).as_mut_ptr().cast()
}

fn memory(start: *mut u8) -> ForeignMemory {
    // SAFETY: the memory has 4,096 bytes and is never freed, and no reference to it exists.
    unsafe { ForeignMemory::new(start, 4_096) }
}

fn bytes(start: *mut u8, len: usize) -> Vec<u8> {
    // SAFETY: within the memory; one thread uses it.
    (0..len).map(|at| unsafe { start.add(at).read() }).collect()
}

#[test]
fn memory_can_be_checked_when_it_is_used() {
    for service in [Service::Rc, Service::Irn] {
        let mut setup = Setup::new(service);
        setup.config.late_checks = true;
        let mut pair = setup.clone().build();
        let op = pair.write_op(1, 0);
        let wrong = Sge { lkey: pair.sides[0].memory.lkey ^ 1, ..pair.sides[0].sge(0, 8) };
        let (flags, data) = (SendFlags::SIGNALED, rnic_verbs::Data::Gather(&[wrong]));
        let side = &mut pair.sides[0];
        side.device.post_send(side.qpn, &rnic_verbs::SendRequest { wr_id: 1, op, data, flags }).unwrap();
        pair.run();
        assert_eq!(pair.sides[0].sent(), [(1, Status::LocalProtection)], "{service:?}");

        // A receive with memory beyond the region: the sender's request fails, and the receive.
        let mut pair = setup.build();
        let side = &mut pair.sides[1];
        let beyond = Sge { addr: side.memory.addr + side.memory.len, ..side.sge(0, 8) };
        side.device.post_recv(side.qpn, &RecvRequest { wr_id: 7, scatter: &[beyond] }).unwrap();
        pair.post(0, 2, SendOp::Send, 8);
        pair.run();
        assert_eq!(pair.sides[0].sent(), [(2, Status::RemoteOperation)], "{service:?}");
        assert_eq!(pair.sides[1].received()[0].1, Status::LocalProtection, "{service:?}");
    }
    // By default the request is refused, and says why.
    let mut pair = Pair::new(Service::Rc);
    let side = &mut pair.sides[1];
    let wrong = Sge { lkey: side.memory.lkey ^ 1, ..side.sge(0, 8) };
    let refused = side.device.post_recv(side.qpn, &RecvRequest { wr_id: 7, scatter: &[wrong] });
    assert!(matches!(refused, Err(VerbsError::Memory { index: 0, .. })));
}

#[test]
fn a_region_gets_other_memory_and_keeps_its_keys() {
    for service in [Service::Rc, Service::Irn] {
        let (first, second) = (leaked(), leaked());
        let mut pair = Pair::new(service);
        let side = &mut pair.sides[1];
        let old = side.device.register_foreign(side.pd, memory(first), Some(0x4000), Access::ALL).unwrap();
        let posted = Sge { addr: 0x4000, len: 64, lkey: old.lkey };
        side.device.post_recv(side.qpn, &RecvRequest { wr_id: 7, scatter: &[posted] }).unwrap();
        let again = side.device.reregister_foreign(old.id, side.pd, memory(second), Some(0x8000), Access::ALL);
        let new = again.unwrap();
        assert_eq!((new.lkey, new.rkey, new.addr), (old.lkey, old.rkey, 0x8000));
        assert_eq!(side.device.deregister(old.id).unwrap_err(), VerbsError::Unknown("such memory region"));

        pair.sides[0].fill(0, &pattern(100, 9));
        pair.post(0, 1, SendOp::Write { addr: 0x8000, rkey: new.rkey }, 100);
        pair.run();
        assert_eq!(pair.sides[0].sent(), [(1, Status::Success)], "{service:?}");
        assert_eq!(bytes(second, 100), pattern(100, 9));
        assert_eq!(bytes(first, 100), [0; 100]);

        // The receive refers to the memory of before.
        pair.post(0, 2, SendOp::Send, 8);
        pair.run();
        assert_eq!(pair.sides[0].sent(), [(2, Status::RemoteOperation)], "{service:?}");
        assert_eq!(bytes(first, 100), [0; 100]);
    }
}

#[test]
fn a_registration_that_fails_leaves_the_region_as_it_was() {
    let start = leaked();
    let mut pair = Pair::new(Service::Rc);
    let side = &mut pair.sides[1];
    let old = side.device.register_foreign(side.pd, memory(start), None, Access::ALL).unwrap();
    let rights = Access { local_write: false, ..Access::ALL };
    assert!(side.device.reregister_foreign(old.id, side.pd, memory(start), None, rights).is_err());
    assert!(side.device.change_access(old.id, rights).is_err());
    pair.post(0, 1, SendOp::Write { addr: old.addr, rkey: old.rkey }, 8);
    pair.run();
    assert_eq!(pair.sides[0].sent(), [(1, Status::Success)]);
}

#[test]
fn rights_can_be_taken_away_and_given_back() {
    let mut pair = Pair::new(Service::Rc);
    let id = pair.sides[1].memory.id;
    pair.sides[1].device.change_access(id, Access { remote_write: false, ..Access::ALL }).unwrap();
    pair.sides[1].device.change_access(id, Access::ALL).unwrap();
    pair.post(0, 1, pair.write_op(1, 0), 8);
    pair.run();
    pair.sides[1].device.change_access(id, Access { remote_write: false, ..Access::ALL }).unwrap();
    pair.post(0, 2, pair.write_op(1, 0), 8);
    pair.run();
    assert_eq!(pair.sides[0].sent(), [(1, Status::Success), (2, Status::RemoteAccess)]);
    // Read-only memory never gets the right to be written.
    // SAFETY: the memory is never freed and never written.
    let constant = unsafe { ForeignMemory::read_only([7u8; 64].as_slice().to_vec().leak().as_ptr(), 64) };
    let side = &mut pair.sides[1];
    let region = side.device.register_foreign(side.pd, constant, None, Access::LOCAL_READ).unwrap();
    assert!(matches!(side.device.change_access(region.id, Access::LOCAL), Err(VerbsError::Unsupported(_))));
}

#[test]
fn a_completion_queue_gets_another_size() {
    let mut pair = Setup { cq: 2, ..Setup::new(Service::Rc) }.build();
    let cq = pair.sides[0].send_cq;
    for wr_id in 0..2 {
        pair.post(0, wr_id, pair.write_op(1, 0), 8);
    }
    pair.run();
    let device = &mut pair.sides[0].device;
    assert!(matches!(device.resize_cq(cq, 1), Err(VerbsError::Range { .. })), "two completions wait");
    assert!(matches!(device.resize_cq(cq, u32::MAX), Err(VerbsError::Range { .. })));
    device.resize_cq(cq, 3).unwrap();
    pair.post(0, 2, pair.write_op(1, 0), 8);
    pair.run();
    let sent: Vec<u64> = pair.sides[0].sent().into_iter().map(|(wr_id, _)| wr_id).collect();
    assert_eq!(sent, [0, 1, 2]);
    // The new size counts: of four completions one is lost, and the queue cannot change any more.
    for wr_id in 3..7 {
        pair.post(0, wr_id, pair.write_op(1, 0), 8);
    }
    pair.run();
    assert_eq!(pair.sides[0].device.resize_cq(cq, 10), Err(VerbsError::Overflow));
}

#[test]
fn completions_of_one_queue_pair_are_forgotten() {
    let mut pair = Pair::new(Service::Rc);
    pair.post(0, 1, pair.write_op(1, 0), 8);
    pair.run();
    let (cq, qpn) = (pair.sides[0].send_cq, pair.sides[0].qpn);
    let device = &mut pair.sides[0].device;
    device.forget_completions(cq, rnic_verbs::Qpn(qpn.0 ^ 1)).unwrap();
    let mut out = [Completion::BLANK; 4];
    assert_eq!(device.cq_len(cq), 1, "those of another queue pair stay");
    device.forget_completions(cq, qpn).unwrap();
    assert_eq!(device.poll_cq(cq, &mut out), Ok(0));
}

#[test]
fn a_shared_receive_queue_tells_its_state() {
    let mut pair = Setup { srq: Some(8), ..Setup::new(Service::Rc) }.build();
    pair.srq_recv(1, 0, 8);
    pair.srq_recv(2, 0, 8);
    let side = &mut pair.sides[1];
    let srq = side.srq.unwrap();
    side.device.arm_srq(srq, 2).unwrap();
    let all = SrqInfo { capacity: 8, max_sge: 4, limit: 2, receives: 2 };
    assert_eq!(side.device.query_srq(srq), Ok(all));
    pair.post(0, 1, SendOp::Send, 8);
    pair.run();
    // The event has reset the limit.
    assert_eq!(pair.sides[1].device.query_srq(srq), Ok(SrqInfo { limit: 0, receives: 1, ..all }));
}
