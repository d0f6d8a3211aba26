//! Memory windows: which accesses each kind admits, how it is bound and invalidated, and in which order.

use crate::common::{Fate, Pair, REGION, Setup, pattern};
use rnic_transport::Time;
use rnic_verbs::{
    Access, Bind, Connection, Data, Dropped, MrId, Opcode, QpInit, Qpn, SendFlags, SendOp, SendRequest, Service, State,
    Status, VerbsError, WindowInfo, WindowKind,
};
use rnic_wire::Operation;

const RELIABLE: [Service; 2] = [Service::Rc, Service::Irn];
const WRITE: Access = Access { remote_write: true, ..Access::LOCAL_READ };
const REMOTE: Access = Access { remote_write: true, remote_read: true, remote_atomic: true, ..Access::LOCAL_READ };

/// A window of side B, which it binds to parts of its region.
struct Owner {
    window: WindowInfo,
    /// A region to which peers have no access of their own.
    region: MrId,
    addr: u64,
}

impl Owner {
    fn new(pair: &mut Pair, kind: WindowKind) -> Owner {
        let side = &mut pair.sides[1];
        let access = Access { bind_window: true, ..Access::LOCAL };
        let region = side.device.register(side.pd, vec![0; REGION], Some(0x70_0000), access).unwrap();
        Owner { window: side.device.allocate_window(side.pd, kind).unwrap(), region: region.id, addr: region.addr }
    }

    /// A request to bind `len` bytes of the region, from byte `offset` on.
    fn request(&self, pair: &mut Pair, offset: u64, len: u64, access: Access) -> Bind {
        let rkey = pair.sides[1].device.next_window_rkey(self.window.id).unwrap();
        let (window, region, addr) = (self.window.id, Some(self.region), self.addr + offset);
        Bind { window, rkey, region, addr, len, access, zero_based: false }
    }

    /// Binds the window; returns its remote key and the status of the completion.
    fn bind(&self, pair: &mut Pair, offset: u64, len: u64, access: Access) -> (u32, Status) {
        let bind = self.request(pair, offset, len, access);
        (bind.rkey, posted(pair, SendOp::Bind, Data::Bind(&bind)))
    }

    #[track_caller]
    fn bound(&self, pair: &mut Pair, offset: u64, len: u64, access: Access) -> u32 {
        let (rkey, status) = self.bind(pair, offset, len, access);
        assert_eq!(status, Status::Success);
        rkey
    }
}

/// Posts a local operation to B's queue pair, and returns the status of its completion.
fn posted(pair: &mut Pair, op: SendOp, data: Data<'_>) -> Status {
    let side = &mut pair.sides[1];
    let request = SendRequest { wr_id: 77, op, data, flags: SendFlags::SIGNALED };
    side.device.post_send(side.qpn, &request).unwrap();
    pair.run();
    let side = &mut pair.sides[1];
    let completions = side.poll(side.send_cq);
    let [completion] = completions[..] else { panic!("{completions:?}") };
    let opcode = if op == SendOp::Bind { Opcode::Bind } else { Opcode::LocalInvalidate };
    assert_eq!((completion.wr_id, completion.qpn), (77, pair.sides[1].qpn));
    if completion.status == Status::Success {
        assert_eq!((completion.opcode, completion.byte_len), (opcode, 0));
    }
    completion.status
}

/// The status of an operation of side A.
fn tried(pair: &mut Pair, op: SendOp, len: u32) -> Status {
    pair.post(0, 1, op, len);
    pair.run();
    pair.sides[0].sent()[0].1
}

/// Checks that an operation of A is refused by B with a NAK, and that it changes no memory of B.
#[track_caller]
fn refused(pair: &mut Pair, owner: &Owner, op: SendOp, len: u32) {
    let before = pair.sides[1].device.bytes(owner.region).unwrap().to_vec();
    let status = tried(pair, op, len);
    assert_eq!(status, Status::RemoteAccess, "{op:?}: {}", pair.trace.join("\n"));
    assert!(pair.trace.iter().any(|line| line.starts_with("B NAK remote access error")), "{:?}", pair.trace);
    assert_eq!(pair.sides[1].device.bytes(owner.region).unwrap(), before);
}

#[test]
fn a_window_gives_access_to_its_part_of_the_region() {
    for (service, kind) in RELIABLE.into_iter().flat_map(|s| [(s, WindowKind::Type1), (s, WindowKind::Type2)]) {
        let fresh = || {
            let mut pair = Pair::new(service);
            let owner = Owner::new(&mut pair, kind);
            let rkey = owner.bound(&mut pair, 1_000, 2_000, REMOTE);
            (pair, owner, rkey)
        };
        let (mut pair, owner, rkey) = fresh();
        let (at, data) = (owner.addr + 1_000, pattern(2_000, 3));
        pair.sides[0].fill(0, &data);
        // The whole window, in eight packets.
        assert_eq!(tried(&mut pair, SendOp::Write { addr: at, rkey }, 2_000), Status::Success);
        let bytes = pair.sides[1].device.bytes(owner.region).unwrap();
        assert!(bytes[1_000..3_000] == data && bytes[..1_000].iter().chain(&bytes[3_000..]).all(|byte| *byte == 0));
        pair.sides[0].fill(0, &[0; 2_000]);
        assert_eq!(tried(&mut pair, SendOp::Read { addr: at + 7, rkey }, 1_993), Status::Success);
        assert_eq!(pair.sides[0].bytes(0, 1_993), &data[7..]);
        assert_eq!(tried(&mut pair, SendOp::FetchAdd { addr: at, rkey, add: 5 }, 8), Status::Success);
        let value = |bytes: &[u8]| u64::from_ne_bytes(bytes[..8].try_into().unwrap());
        let now = pair.sides[1].device.bytes(owner.region).unwrap()[1_000..].to_vec();
        assert_eq!(value(&now), value(&data).wrapping_add(5));
        // One byte before, one behind, and far away; the key of the window before it was bound; a key nearby.
        let cases: [(u64, u32, u32); 6] = [
            (at - 1, rkey, 8),
            (at + 1_993, rkey, 8),
            (at, rkey, 2_001),
            (u64::MAX - 3, rkey, 8),
            (at, owner.window.rkey, 8),
            (at, rkey ^ 0x100, 8),
        ];
        for (addr, rkey, len) in cases {
            for op in [SendOp::Write { addr, rkey }, SendOp::Read { addr, rkey }] {
                let (mut pair, owner, own) = fresh();
                // The keys are those of this pair, which is equal to the first one.
                assert_eq!(own & !0xff, owner.window.rkey);
                refused(&mut pair, &owner, op, len);
            }
        }
    }
}

#[test]
fn the_rights_are_those_of_the_window() {
    let rights: [(Access, [bool; 3]); 3] = [
        (WRITE, [true, false, false]),
        (Access { remote_read: true, ..Access::LOCAL_READ }, [false, true, false]),
        (Access { remote_atomic: true, ..Access::LOCAL_READ }, [false, false, true]),
    ];
    for (access, admitted) in rights {
        for (number, admits) in admitted.into_iter().enumerate() {
            let mut pair = Pair::new(Service::Rc);
            let owner = Owner::new(&mut pair, WindowKind::Type1);
            let rkey = owner.bound(&mut pair, 0, 64, access);
            let addr = owner.addr;
            let op =
                [SendOp::Write { addr, rkey }, SendOp::Read { addr, rkey }, SendOp::FetchAdd { addr, rkey, add: 1 }]
                    [number];
            match admits {
                true => assert_eq!(tried(&mut pair, op, 8), Status::Success),
                false => refused(&mut pair, &owner, op, 8),
            }
        }
    }
}

#[test]
fn a_window_of_type_1_is_bound_again_with_another_key() {
    let mut pair = Pair::new(Service::Rc);
    let owner = Owner::new(&mut pair, WindowKind::Type1);
    let first = owner.bound(&mut pair, 0, 64, WRITE);
    let second = owner.bound(&mut pair, 64, 64, WRITE);
    assert_ne!(first, second);
    assert_eq!(tried(&mut pair, SendOp::Write { addr: owner.addr + 64, rkey: second }, 8), Status::Success);
    refused(&mut pair, &owner, SendOp::Write { addr: owner.addr, rkey: first }, 8);
    // A length of 0 ends the binding.
    let mut pair = Pair::new(Service::Rc);
    let owner = Owner::new(&mut pair, WindowKind::Type1);
    owner.bound(&mut pair, 0, 64, WRITE);
    let (rkey, status) = owner.bind(&mut pair, 0, 0, WRITE);
    assert_eq!(status, Status::Success);
    refused(&mut pair, &owner, SendOp::Write { addr: owner.addr, rkey }, 8);
}

#[test]
fn windows_of_type_2_are_invalidated_and_bound_again() {
    for service in RELIABLE {
        let mut pair = Pair::new(service);
        let owner = Owner::new(&mut pair, WindowKind::Type2);
        let rkey = owner.bound(&mut pair, 0, 64, WRITE);
        assert_eq!(posted(&mut pair, SendOp::LocalInv(rkey), Data::Gather(&[])), Status::Success);
        let rkey = owner.bound(&mut pair, 0, 64, WRITE);
        assert_eq!(tried(&mut pair, SendOp::Write { addr: owner.addr, rkey }, 8), Status::Success);
        // The peer invalidates it with its last message.
        pair.recv(1, 9, 0, 64);
        assert_eq!(tried(&mut pair, SendOp::SendInv(rkey), 3), Status::Success);
        let side = &mut pair.sides[1];
        let received = side.poll(side.recv_cq);
        assert_eq!((received[0].status, received[0].invalidated), (Status::Success, Some(rkey)));
        refused(&mut pair, &owner, SendOp::Write { addr: owner.addr, rkey }, 8);
    }
}

#[test]
fn who_may_not_invalidate_does_not() {
    // A window of type 1, one that is not bound, and a key of nothing: by the peer.
    for case in 0..3 {
        let mut pair = Pair::new(Service::Rc);
        let kind = if case == 0 { WindowKind::Type1 } else { WindowKind::Type2 };
        let owner = Owner::new(&mut pair, kind);
        let rkey = match case {
            0 => owner.bound(&mut pair, 0, 64, WRITE),
            1 => owner.window.rkey,
            _ => owner.window.rkey ^ 0x5000,
        };
        pair.recv(1, 9, 0, 64);
        assert_eq!(tried(&mut pair, SendOp::SendInv(rkey), 3), Status::RemoteAccess);
        assert_eq!(pair.sides[1].received(), [(9, Status::RemoteAccess, 0)]);
        // And by its owner.
        let mut pair = Pair::new(Service::Rc);
        let owner = Owner::new(&mut pair, kind);
        if case == 0 {
            owner.bound(&mut pair, 0, 64, WRITE);
        }
        assert_eq!(posted(&mut pair, SendOp::LocalInv(rkey), Data::Gather(&[])), Status::WindowBind);
        assert_eq!(pair.sides[1].device.state(pair.sides[1].qpn), Ok(State::Error));
    }
}

/// A queue pair of B besides that of the pair, connected to a peer that never answers.
fn other_queue_pair(pair: &mut Pair) -> Qpn {
    let (connection, attributes) = (pair.connection(1), pair.attributes(1));
    let side = &mut pair.sides[1];
    let init = QpInit {
        service: Service::Rc,
        send_cq: side.send_cq,
        recv_cq: side.recv_cq,
        srq: None,
        capacities: pair.setup.capacities,
        signal_all: true,
    };
    let qpn = side.device.create_qp(side.pd, init).unwrap();
    side.device.to_init(qpn, Access::ALL).unwrap();
    side.device.to_rtr(qpn, Connection { peer_qpn: Qpn(99), ..connection }, pair.now).unwrap();
    side.device.to_rts(qpn, attributes, pair.now).unwrap();
    qpn
}

#[test]
fn a_window_of_type_2_belongs_to_one_queue_pair() {
    for kind in [WindowKind::Type1, WindowKind::Type2] {
        let mut pair = Pair::new(Service::Rc);
        let owner = Owner::new(&mut pair, kind);
        let other = other_queue_pair(&mut pair);
        let bind = owner.request(&mut pair, 0, 64, WRITE);
        let side = &mut pair.sides[1];
        let request = SendRequest { wr_id: 5, op: SendOp::Bind, data: Data::Bind(&bind), flags: SendFlags::SIGNALED };
        side.device.post_send(other, &request).unwrap();
        assert_eq!(side.sent(), [(5, Status::Success)]);
        let op = SendOp::Write { addr: owner.addr, rkey: bind.rkey };
        if kind == WindowKind::Type1 {
            assert_eq!(tried(&mut pair, op, 8), Status::Success);
            continue;
        }
        refused(&mut pair, &owner, op, 8);
        // It is in use until the queue pair is gone.
        let side = &mut pair.sides[1];
        assert!(matches!(side.device.deregister(owner.region), Err(VerbsError::Busy { .. })));
        side.device.destroy_qp(other).unwrap();
        side.device.deregister(owner.region).unwrap();
    }
}

#[test]
fn a_region_with_windows_stays() {
    let mut pair = Pair::new(Service::Rc);
    let owner = Owner::new(&mut pair, WindowKind::Type2);
    let rkey = owner.bound(&mut pair, 0, 64, WRITE);
    let side = &mut pair.sides[1];
    let why = side.device.deregister(owner.region).unwrap_err();
    assert_eq!(why.to_string(), "the memory region is in use by a memory window");
    assert!(matches!(side.device.change_access(owner.region, Access::LOCAL), Err(VerbsError::Busy { .. })));
    assert!(matches!(side.device.destroy_pd(side.pd), Err(VerbsError::Busy { .. })));
    assert_eq!(tried(&mut pair, SendOp::Write { addr: owner.addr, rkey }, 8), Status::Success);
    let side = &mut pair.sides[1];
    side.device.free_window(owner.window.id).unwrap();
    assert_eq!(side.device.free_window(owner.window.id), Err(VerbsError::Unknown("such memory window")));
    side.device.deregister(owner.region).unwrap();
}

#[test]
fn freeing_and_resetting_take_the_access_away() {
    for by_reset in [false, true] {
        let mut pair = Pair::new(Service::Rc);
        let owner = Owner::new(&mut pair, WindowKind::Type2);
        let rkey = owner.bound(&mut pair, 0, 64, WRITE);
        if by_reset {
            for at in 0..2 {
                let side = &mut pair.sides[at];
                side.device.to_reset(side.qpn).unwrap();
                pair.connect(at);
            }
        } else {
            pair.sides[1].device.free_window(owner.window.id).unwrap();
        }
        refused(&mut pair, &owner, SendOp::Write { addr: owner.addr, rkey }, 8);
    }
}

#[test]
fn bindings_are_checked() {
    type Change = fn(&mut Pair, &Owner, &mut Bind);
    let cases: [(&str, WindowKind, Change); 8] = [
        ("beyond the region", WindowKind::Type1, |_, _, bind| bind.len = REGION as u64 + 1),
        ("before the region", WindowKind::Type1, |_, _, bind| bind.addr -= 1),
        ("beyond 2^64", WindowKind::Type1, |_, _, bind| (bind.addr, bind.len) = (u64::MAX - 3, 8)),
        ("no right to bind", WindowKind::Type1, |pair, owner, _| {
            pair.sides[1].device.change_access(owner.region, Access::LOCAL).unwrap();
        }),
        ("writes to read-only memory", WindowKind::Type1, |pair, owner, _| {
            let access = Access { bind_window: true, ..Access::LOCAL_READ };
            pair.sides[1].device.change_access(owner.region, access).unwrap();
        }),
        ("another domain", WindowKind::Type1, |pair, _, bind| {
            let device = &mut pair.sides[1].device;
            let pd = device.create_pd();
            bind.region = Some(device.register(pd, vec![0; 64], Some(bind.addr), Access::ALL).unwrap().id);
        }),
        ("no region", WindowKind::Type2, |_, _, bind| bind.region = None),
        ("type 1 from address 0", WindowKind::Type1, |_, _, bind| bind.zero_based = true),
    ];
    for (what, kind, change) in cases {
        let mut pair = Pair::new(Service::Rc);
        let owner = Owner::new(&mut pair, kind);
        let mut bind = owner.request(&mut pair, 0, 64, WRITE);
        change(&mut pair, &owner, &mut bind);
        assert_eq!(posted(&mut pair, SendOp::Bind, Data::Bind(&bind)), Status::WindowBind, "{what}");
        assert_eq!(pair.sides[1].device.state(pair.sides[1].qpn), Ok(State::Error), "{what}");
    }
    // A window of type 2 that is bound.
    let mut pair = Pair::new(Service::Rc);
    let owner = Owner::new(&mut pair, WindowKind::Type2);
    owner.bound(&mut pair, 0, 64, WRITE);
    assert_eq!(owner.bind(&mut pair, 0, 64, WRITE).1, Status::WindowBind);
    // With an unreliable connection only the send queue fails.
    let mut pair = Pair::new(Service::Uc);
    let owner = Owner::new(&mut pair, WindowKind::Type2);
    owner.bound(&mut pair, 0, 64, WRITE);
    assert_eq!(owner.bind(&mut pair, 0, 64, WRITE).1, Status::WindowBind);
    assert_eq!(pair.sides[1].device.state(pair.sides[1].qpn), Ok(State::SendQueueError));
}

/// The owner chooses the low eight bits of the key; the window keeps its upper 24 bits.
#[test]
fn only_the_low_bits_of_a_key_are_chosen() {
    for kind in [WindowKind::Type1, WindowKind::Type2] {
        let mut pair = Pair::new(Service::Rc);
        let owner = Owner::new(&mut pair, kind);
        let bind = Bind { rkey: 0x455, ..owner.request(&mut pair, 0, 64, WRITE) };
        assert_eq!(posted(&mut pair, SendOp::Bind, Data::Bind(&bind)), Status::Success);
        let rkey = owner.window.rkey | 0x55;
        assert_eq!(tried(&mut pair, SendOp::Write { addr: owner.addr, rkey }, 8), Status::Success);
        refused(&mut pair, &owner, SendOp::Write { addr: owner.addr, rkey: 0x455 }, 8);
    }
}

#[test]
fn what_is_not_a_binding_is_refused_when_posted() {
    let mut pair = Pair::new(Service::Rc);
    let owner = Owner::new(&mut pair, WindowKind::Type1);
    let bind = owner.request(&mut pair, 0, 64, WRITE);
    let sge = [pair.sides[1].sge(0, 8)];
    let side = &mut pair.sides[1];
    for (op, data) in [
        (SendOp::Bind, Data::Gather(&[])),
        (SendOp::Bind, Data::Inline(&[])),
        (SendOp::Send, Data::Bind(&bind)),
        (SendOp::LocalInv(1), Data::Gather(&sge)),
    ] {
        let request = SendRequest { wr_id: 1, op, data, flags: SendFlags::SIGNALED };
        assert!(matches!(side.device.post_send(side.qpn, &request), Err(VerbsError::Unsupported(_))), "{op:?}");
    }
    side.device.free_window(owner.window.id).unwrap();
    let request = SendRequest { wr_id: 1, op: SendOp::Bind, data: Data::Bind(&bind), flags: SendFlags::SIGNALED };
    let why = side.device.post_send(side.qpn, &request).unwrap_err();
    assert_eq!(why.to_string(), "there is no such memory window");
}

/// Peers may count from the first byte of a window of type 2. Atomics must be aligned in the memory, too.
#[test]
fn addresses_may_count_from_the_window() {
    for (offset, aligned) in [(512, true), (516, false)] {
        let mut pair = Pair::new(Service::Rc);
        let owner = Owner::new(&mut pair, WindowKind::Type2);
        let bind = Bind { zero_based: true, ..owner.request(&mut pair, offset, 64, REMOTE) };
        assert_eq!(posted(&mut pair, SendOp::Bind, Data::Bind(&bind)), Status::Success);
        let rkey = bind.rkey;
        pair.sides[0].fill(0, &[7; 64]);
        assert_eq!(tried(&mut pair, SendOp::Write { addr: 0, rkey }, 64), Status::Success);
        let at = offset as usize;
        assert_eq!(pair.sides[1].device.bytes(owner.region).unwrap()[at..at + 64], [7; 64]);
        let add = SendOp::FetchAdd { addr: 8, rkey, add: 1 };
        let expected = if aligned { Status::Success } else { Status::RemoteInvalidRequest };
        assert_eq!(tried(&mut pair, add, 8), expected);
    }
}

/// A binding waits for the requests before it, and those behind it wait for the binding. So a message that tells the
/// peer the key arrives when the key is valid.
#[test]
fn bindings_are_executed_in_order() {
    for service in [Service::Rc, Service::Irn, Service::Uc] {
        let mut pair = Pair::new(service);
        let owner = Owner::new(&mut pair, WindowKind::Type2);
        let bind = owner.request(&mut pair, 0, 64, WRITE);
        pair.recv(0, 1, 0, 64);
        pair.recv(0, 2, 64, 64);
        pair.post(1, 1, SendOp::Send, 3);
        let side = &mut pair.sides[1];
        let request = SendRequest { wr_id: 2, op: SendOp::Bind, data: Data::Bind(&bind), flags: SendFlags::SIGNALED };
        side.device.post_send(side.qpn, &request).unwrap();
        pair.post(1, 3, SendOp::Send, 4);
        // The first message is not acknowledged (UC: not sent) yet, so the window is not bound, and the region can go.
        pair.sides[1].device.deregister(owner.region).unwrap();
        pair.run();
        let expected = [(1, Status::Success), (2, Status::WindowBind), (3, Status::WorkRequestFlushed)];
        assert_eq!(pair.sides[1].sent(), expected, "{service:?}");
    }
    for service in [Service::Rc, Service::Irn, Service::Uc] {
        let mut pair = Pair::new(service);
        let owner = Owner::new(&mut pair, WindowKind::Type2);
        pair.recv(0, 1, 0, 64);
        pair.recv(0, 2, 64, 64);
        let bind = owner.request(&mut pair, 0, 64, WRITE);
        pair.post(1, 1, SendOp::Send, 3);
        let side = &mut pair.sides[1];
        for (wr_id, op, data) in
            [(2, SendOp::Bind, Data::Bind(&bind)), (3, SendOp::LocalInv(bind.rkey), Data::Gather(&[]))]
        {
            let request = SendRequest { wr_id, op, data, flags: SendFlags::SIGNALED };
            side.device.post_send(side.qpn, &request).unwrap();
        }
        pair.post(1, 4, SendOp::Send, 4);
        pair.run();
        let all = [1, 2, 3, 4].map(|wr_id| (wr_id, Status::Success));
        assert_eq!(pair.sides[1].sent(), all, "{service:?}");
        assert_eq!(pair.sides[0].received().len(), 2);
    }
}

/// Each packet is checked, not only the first one of its message.
#[test]
fn a_window_that_is_invalidated_ends_messages_in_progress() {
    for service in RELIABLE {
        // The owner frees the window when the first of three packets has arrived.
        let mut pair = Pair::new(service);
        let owner = Owner::new(&mut pair, WindowKind::Type2);
        let rkey = owner.bound(&mut pair, 0, 4_096, REMOTE);
        pair.sides[0].fill(0, &[9; 768]);
        let mut packets = 0;
        pair.script(move |seen| {
            packets += u32::from(seen.from == 0 && seen.headers.bth.opcode.operation() == Operation::Write);
            if packets > 1 { Fate::Late(Time::from_us(500)) } else { Fate::Arrives }
        });
        pair.post(0, 1, SendOp::Write { addr: owner.addr, rkey }, 768);
        pair.run_for(Time::from_us(100));
        assert_eq!(pair.sides[1].device.bytes(owner.region).unwrap()[..256], [9; 256]);
        pair.sides[1].device.free_window(owner.window.id).unwrap();
        pair.run();
        assert_eq!(pair.sides[0].sent()[0].1, Status::RemoteAccess, "{service:?}");
        assert_eq!(pair.sides[1].device.bytes(owner.region).unwrap()[256..768], [0; 512]);
        // The response to a read ends, too.
        let mut pair = Pair::new(service);
        let owner = Owner::new(&mut pair, WindowKind::Type2);
        let rkey = owner.bound(&mut pair, 0, 4_096, REMOTE);
        pair.sides[1].device.set_rate(pair.sides[1].qpn, Some(rnic_transport::BitRate::from_bps(100_000_000))).unwrap();
        pair.post(0, 1, SendOp::Read { addr: owner.addr, rkey }, 2_560);
        pair.run_for(Time::from_us(60));
        let responses = pair.trace.iter().filter(|line| line.contains("READ Response")).count();
        assert!((1..10).contains(&responses), "{:?}", pair.trace);
        pair.sides[1].device.free_window(owner.window.id).unwrap();
        pair.run();
        assert_eq!(pair.sides[0].sent()[0].1, Status::RemoteAccess, "{service:?}");
    }
}

/// Random keys, addresses and lengths of a peer that knows the window's index: nothing outside of the window changes,
/// and nothing is stored.
#[test]
fn guessing_peers_find_nothing() {
    let mut random = 0x9e37_79b9_u64;
    let mut next = move || {
        random ^= random << 13;
        random ^= random >> 7;
        random ^= random << 17;
        random
    };
    let mut hits = 0;
    for _ in 0..300 {
        let mut pair = Setup::new(Service::Rc).build();
        let owner = Owner::new(&mut pair, WindowKind::Type2);
        let rkey = owner.bound(&mut pair, 1_024, 512, WRITE);
        pair.sides[0].fill(0, &[0xee; 600]);
        let guess = if next() % 4 == 0 { rkey } else { owner.window.rkey | next() as u32 & 0xff };
        let (addr, len) = (owner.addr + next() % 2_048, (next() % 600) as u32 + 1);
        let inside = addr >= owner.addr + 1_024 && addr + u64::from(len) <= owner.addr + 1_536 && guess == rkey;
        let status = tried(&mut pair, SendOp::Write { addr, rkey: guess }, len);
        assert_eq!(status == Status::Success, inside);
        hits += u32::from(inside);
        let bytes = pair.sides[1].device.bytes(owner.region).unwrap();
        assert!(bytes[..1_024].iter().chain(&bytes[1_536..]).all(|byte| *byte == 0));
        if !inside {
            assert!(bytes.iter().all(|byte| *byte == 0));
            assert_eq!(pair.sides[1].dropped(Dropped::Refused), 1);
        }
    }
    assert!(hits > 3, "{hits}");
}

#[test]
fn the_number_of_windows_is_limited() {
    let mut setup = Setup::new(Service::Rc);
    setup.config.limits.windows = 2;
    let mut pair = setup.build();
    let side = &mut pair.sides[1];
    let windows = [0, 1].map(|_| side.device.allocate_window(side.pd, WindowKind::Type1).unwrap());
    let why = side.device.allocate_window(side.pd, WindowKind::Type2).unwrap_err();
    assert_eq!(why.to_string(), "at most 2 memory windows are possible");
    side.device.free_window(windows[0].id).unwrap();
    side.device.allocate_window(side.pd, WindowKind::Type2).unwrap();
}
