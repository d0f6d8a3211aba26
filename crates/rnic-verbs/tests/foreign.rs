//! Tests of regions of foreign memory. Every operation works on them, no access goes beyond their bounds, and no access
//! happens after deregistration.

use crate::common::{Fate, Pair, pattern};
use rnic_verbs::{
    Access, AccessError, Data, ForeignMemory, MrInfo, RecvRequest, SendFlags, SendOp, SendRequest, Service, Sge,
    Status, VerbsError,
};
use rnic_wire::Operation;

/// Memory of the application: 4,096 bytes, which the test accesses only through a raw pointer. The memory is freed when
/// the value is dropped. A test declares it before the devices, so that it is dropped after them.
struct Buffer(*mut [u64; 512]);

impl Buffer {
    const LEN: usize = 4_096;

    fn new() -> Buffer {
        Buffer(Box::into_raw(Box::new([0; 512])))
    }

    /// Foreign memory of `len` bytes, from byte `offset` of the buffer on.
    fn memory(&self, offset: usize, len: usize) -> ForeignMemory {
        assert!(offset + len <= Buffer::LEN);
        // SAFETY: within the buffer, which outlives the devices, and no reference to the bytes exists.
        unsafe { ForeignMemory::new(self.0.cast::<u8>().add(offset), len) }
    }

    fn fill(&self, offset: usize, bytes: &[u8]) {
        assert!(offset + bytes.len() <= Buffer::LEN);
        // SAFETY: within the buffer; one thread uses it.
        unsafe { self.0.cast::<u8>().add(offset).copy_from(bytes.as_ptr(), bytes.len()) };
    }

    fn bytes(&self, offset: usize, len: usize) -> Vec<u8> {
        assert!(offset + len <= Buffer::LEN);
        // SAFETY: within the buffer; one thread uses it.
        (offset..offset + len).map(|at| unsafe { self.0.cast::<u8>().add(at).read() }).collect()
    }
}

impl Drop for Buffer {
    fn drop(&mut self) {
        // SAFETY: `Box::into_raw` returned the pointer, and the devices are dropped.
        drop(unsafe { Box::from_raw(self.0) });
    }
}

const SERVICES: [Service; 2] = [Service::Rc, Service::Irn];

/// Registers `len` bytes of the buffer, from byte `offset` on, at side `at`.
fn register(pair: &mut Pair, at: usize, buffer: &Buffer, offset: usize, len: usize) -> MrInfo {
    let side = &mut pair.sides[at];
    side.device.register_foreign(side.pd, buffer.memory(offset, len), None, Access::ALL).unwrap()
}

fn sge(region: &MrInfo, offset: u64, len: u32) -> Sge {
    Sge { addr: region.addr + offset, len, lkey: region.lkey }
}

fn post(pair: &mut Pair, wr_id: u64, op: SendOp, local: Sge) {
    let side = &mut pair.sides[0];
    let request = SendRequest { wr_id, op, data: Data::Gather(&[local]), flags: SendFlags::SIGNALED };
    side.device.post_send(side.qpn, &request).unwrap();
}

#[test]
fn every_operation_works_on_memory_of_both_applications() {
    for service in SERVICES {
        let (here, there) = (Buffer::new(), Buffer::new());
        let mut pair = Pair::new(service);
        let local = register(&mut pair, 0, &here, 0, Buffer::LEN);
        let remote = register(&mut pair, 1, &there, 0, Buffer::LEN);
        assert_eq!((local.addr, local.len), (here.0 as u64, 4_096));
        here.fill(0, &pattern(700, 1));
        there.fill(2_000, &pattern(600, 2));
        there.fill(3_000, &40u64.to_ne_bytes());

        let target = |offset| (remote.addr + offset, remote.rkey);
        let (addr, rkey) = target(100);
        post(&mut pair, 1, SendOp::Write { addr, rkey }, sge(&local, 0, 700));
        let (addr, rkey) = target(2_000);
        post(&mut pair, 2, SendOp::Read { addr, rkey }, sge(&local, 1_000, 600));
        let (addr, rkey) = target(3_000);
        post(&mut pair, 3, SendOp::FetchAdd { addr, rkey, add: 2 }, sge(&local, 2_000, 8));
        post(&mut pair, 4, SendOp::CompareSwap { addr, rkey, compare: 42, swap: 9 }, sge(&local, 2_008, 8));
        let side = &mut pair.sides[1];
        let scatter = [sge(&remote, 3_500, 100), sge(&remote, 3_700, 300)];
        side.device.post_recv(side.qpn, &RecvRequest { wr_id: 9, scatter: &scatter }).unwrap();
        post(&mut pair, 5, SendOp::Send, sge(&local, 0, 300));
        pair.run();

        assert_eq!(pair.sides[0].sent(), (1..=5).map(|wr_id| (wr_id, Status::Success)).collect::<Vec<_>>());
        assert_eq!(pair.sides[1].received(), [(9, Status::Success, 300)]);
        assert_eq!(there.bytes(100, 700), pattern(700, 1));
        assert_eq!((there.bytes(99, 1), there.bytes(800, 1)), (vec![0], vec![0]));
        assert_eq!(here.bytes(1_000, 600), pattern(600, 2));
        assert_eq!((here.bytes(999, 1), here.bytes(1_600, 1)), (vec![0], vec![0]));
        assert_eq!(here.bytes(2_000, 16), [40u64.to_ne_bytes(), 42u64.to_ne_bytes()].concat());
        assert_eq!(there.bytes(3_000, 8), 9u64.to_ne_bytes());
        assert_eq!(there.bytes(3_500, 100), &pattern(300, 1)[..100]);
        assert_eq!(there.bytes(3_700, 200), &pattern(300, 1)[100..]);
        assert_eq!(there.bytes(3_900, 196), vec![0; 196]);
    }
}

#[test]
fn no_byte_outside_of_the_region_can_be_written_or_read() {
    for service in SERVICES {
        // The region is the middle of the buffer.
        let buffer = Buffer::new();
        buffer.fill(0, &[7; Buffer::LEN]);
        for (start, len) in [(1_023, 8), (3_065, 8), (3_072, 1), (0, 8), (1_024, 2_049)] {
            let mut pair = Pair::new(service);
            let region = register(&mut pair, 1, &buffer, 1_024, 2_048);
            let op = SendOp::Write { addr: buffer.0 as u64 + start, rkey: region.rkey };
            pair.post(0, 1, op, len);
            pair.run();
            assert_eq!(pair.sides[0].sent(), [(1, Status::RemoteAccess)], "{start} {len}");
            assert_eq!(buffer.bytes(0, Buffer::LEN), [7; Buffer::LEN]);
        }
    }
}

#[test]
fn regions_may_overlap_each_with_keys_of_its_own() {
    let buffer = Buffer::new();
    let mut pair = Pair::new(Service::Rc);
    let first = register(&mut pair, 1, &buffer, 0, 1_000);
    let second = register(&mut pair, 1, &buffer, 496, 1_000);
    pair.sides[0].fill(0, &pattern(8, 1));
    let addr = buffer.0 as u64 + 600;
    pair.post(0, 1, SendOp::Write { addr, rkey: first.rkey }, 8);
    pair.run();
    let mut seen = [0; 8];
    pair.sides[1].device.read_memory(second.id, 104, &mut seen).unwrap();
    assert_eq!(seen[..], pattern(8, 1));
    // Deregistration of one region does not affect the other region of the same memory.
    assert_eq!(pair.sides[1].device.deregister(first.id), Ok(Vec::new()));
    pair.post(0, 2, SendOp::Write { addr, rkey: second.rkey }, 4);
    pair.run();
    pair.post(0, 3, SendOp::Write { addr, rkey: first.rkey }, 4);
    pair.run();
    let statuses = [Status::Success, Status::Success, Status::RemoteAccess];
    assert_eq!(pair.sides[0].sent(), statuses.into_iter().zip(1..).map(|(s, id)| (id, s)).collect::<Vec<_>>());
}

/// The responder deregisters its region while a Write of three packets is in flight. The application may free the
/// memory immediately.
#[test]
fn a_region_deregistered_under_a_write_is_not_touched_any_more() {
    for service in SERVICES {
        let buffer = Buffer::new();
        let mut pair = Pair::new(service);
        let region = register(&mut pair, 1, &buffer, 0, Buffer::LEN);
        pair.sides[0].fill(0, &[5; 700]);
        pair.script(|seen| if seen.number == 0 { Fate::Arrives } else { Fate::Late(crate::common::DELAY) });
        pair.post(0, 1, SendOp::Write { addr: region.addr, rkey: region.rkey }, 700);
        pair.step(rnic_transport::Time::MAX);
        // IRN divides 700 B equally: no count of packets up to 3 divides them into words, so they are 236, 236 and 228
        // B.
        let first = if service == Service::Irn { 236 } else { 256 };
        assert_eq!(buffer.bytes(0, 700), [vec![5; first], vec![0; 700 - first]].concat());
        pair.sides[1].device.deregister(region.id).unwrap();
        drop(buffer);
        pair.run();
        assert_eq!(pair.sides[0].sent(), [(1, Status::RemoteAccess)]);
    }
}

/// A region is deregistered while work requests need it: the region that a read addresses, or the local memory of the
/// requester's work requests. The work requests fail, and nothing accesses the memory.
#[test]
fn a_region_deregistered_under_work_that_names_it_fails_the_work() {
    for service in SERVICES {
        let buffer = Buffer::new();
        let mut pair = Pair::new(service);
        let region = register(&mut pair, 1, &buffer, 0, Buffer::LEN);
        // The first packet of the response is lost, and the retransmitted request finds no region.
        pair.lose_once(|seen| seen.is(1, Operation::ReadResponse, seen.headers.bth.psn));
        pair.post_with(0, 1, SendOp::Read { addr: region.addr, rkey: region.rkey }, 8_000, 100, SendFlags::SIGNALED);
        while !pair.trace.iter().any(|packet| packet.ends_with("lost")) {
            pair.step(rnic_transport::Time::MAX);
        }
        pair.sides[1].device.deregister(region.id).unwrap();
        drop(buffer);
        pair.run();
        let [(1, status)] = pair.sides[0].sent()[..] else { panic!("one completion") };
        assert_ne!(status, Status::Success, "{service:?}");

        let buffer = Buffer::new();
        let mut pair = Pair::new(service);
        let region = register(&mut pair, 0, &buffer, 0, Buffer::LEN);
        let (op, local) = (pair.write_op(1, 0), sge(&region, 0, 600));
        post(&mut pair, 1, op, local);
        pair.sides[0].device.deregister(region.id).unwrap();
        drop(buffer);
        pair.run();
        assert_eq!(pair.sides[0].sent(), [(1, Status::LocalProtection)]);
    }
}

#[test]
fn an_iova_replaces_the_address_of_the_memory() {
    let buffer = Buffer::new();
    let mut pair = Pair::new(Service::Rc);
    let side = &mut pair.sides[1];
    let odd = side.device.register_foreign(side.pd, buffer.memory(0, 64), Some(0x5004), Access::ALL);
    assert!(matches!(odd, Err(VerbsError::Range { value: 0x5004, .. })), "{odd:?}");
    let region = side.device.register_foreign(side.pd, buffer.memory(0, 64), Some(0x5000), Access::ALL).unwrap();
    pair.sides[0].fill(0, &pattern(64, 4));
    pair.post(0, 1, SendOp::Write { addr: 0x5000, rkey: region.rkey }, 64);
    pair.run();
    assert_eq!(buffer.bytes(0, 64), pattern(64, 4));
}

#[test]
fn read_only_memory_can_be_sent_and_read_but_not_written() {
    let bytes = pattern(300, 6);
    let mut pair = Pair::new(Service::Rc);
    let side = &mut pair.sides[1];
    // SAFETY: the vector outlives the device, and no thread writes it.
    let memory = || unsafe { ForeignMemory::read_only(bytes.as_ptr(), bytes.len()) };
    for access in [Access::LOCAL, Access { remote_write: true, ..Access::LOCAL_READ }, Access::ALL] {
        let refused = side.device.register_foreign(side.pd, memory(), None, access);
        assert!(matches!(refused, Err(VerbsError::Unsupported(_))), "{access:?}");
    }
    let access = Access { remote_read: true, ..Access::LOCAL_READ };
    let region = side.device.register_foreign(side.pd, memory(), None, access).unwrap();
    assert_eq!(side.device.write_memory(region.id, 0, &[1]), Err(VerbsError::Access(AccessError::Rights)));
    assert!(side.device.bytes(region.id).is_none() && side.device.bytes_mut(region.id).is_none());
    pair.post(0, 1, SendOp::Read { addr: region.addr, rkey: region.rkey }, 300);
    pair.run();
    assert_eq!(pair.sides[0].sent(), [(1, Status::Success)]);
    assert_eq!(pair.sides[0].bytes(0, 300), pattern(300, 6));
}

#[test]
fn the_owner_copies_within_the_bounds() {
    let buffer = Buffer::new();
    let mut pair = Pair::new(Service::Rc);
    let foreign = register(&mut pair, 0, &buffer, 0, 64);
    for id in [foreign.id, pair.sides[0].memory.id] {
        let len = if id == foreign.id { 64 } else { crate::common::REGION };
        let device = &mut pair.sides[0].device;
        device.write_memory(id, len - 2, &[1, 2]).unwrap();
        let mut out = [0; 3];
        device.read_memory(id, len - 3, &mut out).unwrap();
        assert_eq!(out, [0, 1, 2]);
        let beyond = Err(VerbsError::Access(AccessError::Bounds));
        assert_eq!(device.read_memory(id, len - 2, &mut out), beyond);
        assert_eq!(device.write_memory(id, usize::MAX, &[1]), beyond);
    }
    let device = &mut pair.sides[0].device;
    device.deregister(foreign.id).unwrap();
    assert!(matches!(device.read_memory(foreign.id, 0, &mut []), Err(VerbsError::Unknown(_))));
}
