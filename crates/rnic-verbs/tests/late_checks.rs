//! Send requests that the device accepts and completes with an error, as NICs do
//! ([`late_checks`](rnic_verbs::DeviceConfig::late_checks)), and regions with one key for both purposes.

use crate::common::{Pair, Setup};
use rnic_verbs::{
    Access, AddressHandle, Data, DatagramAttributes, Recipient, SendAttributes, SendFlags, SendOp, SendRequest,
    Service, State, Status, VerbsError,
};

fn late(service: Service) -> Setup {
    let mut setup = Setup::new(service);
    setup.config.late_checks = true;
    setup
}

type Op = fn(&Pair) -> SendOp;

/// The request completes after all earlier requests, and later ones are flushed. With unreliable connections only the
/// send queue fails.
#[test]
fn requests_that_cannot_be_executed_complete_in_order() {
    let (invalid, length, operation) = (Status::RemoteInvalidRequest, Status::LocalLength, Status::LocalQpOperation);
    let cases: [(Service, Op, u32, Status); 8] = [
        (Service::Rc, |pair| pair.add_op(1, 4, 1), 8, invalid),
        (Service::Irn, |pair| pair.swap_op(1, 1, 1, 2), 8, invalid),
        (Service::Rc, |pair| pair.add_op(1, 0, 1), 9, length),
        (Service::Irn, |pair| pair.swap_op(1, 0, 1, 2), 7, length),
        (Service::Uc, |pair| pair.read_op(1, 0), 8, operation),
        (Service::Uc, |pair| pair.add_op(1, 0, 1), 8, operation),
        (Service::Uc, |_| SendOp::SendInv(7), 8, operation),
        (Service::Uc, |pair| pair.swap_op(1, 0, 1, 2), 7, operation),
    ];
    for (service, op, len, status) in cases {
        let mut pair = late(service).build();
        let op = op(&pair);
        pair.post(0, 1, pair.write_op(1, 40_000), 3_000);
        pair.post_with(0, 2, op, 0, len, SendFlags::default());
        pair.post(0, 3, pair.write_op(1, 40_000), 8);
        let before = pair.sides[1].bytes(0, 64).to_vec();
        pair.run();
        let expected = [(1, Status::Success), (2, status), (3, Status::WorkRequestFlushed)];
        assert_eq!(pair.sides[0].sent(), expected, "{service:?} {op:?}");
        let states = pair.sides.each_ref().map(|side| side.device.state(side.qpn).unwrap());
        let receiver = if status == invalid { State::Error } else { State::ReadyToSend };
        let sender = if service == Service::Uc { State::SendQueueError } else { State::Error };
        assert_eq!(states, [sender, receiver], "{service:?} {op:?}");
        assert_eq!(pair.sides[1].bytes(0, 64), before);
    }
}

#[test]
fn a_connection_without_reads_completes_them_with_an_error() {
    for service in [Service::Rc, Service::Irn] {
        let mut setup = late(service);
        setup.attributes.max_rd_atomic = 0;
        let mut pair = setup.build();
        pair.post(0, 1, pair.read_op(1, 0), 8);
        pair.run();
        assert_eq!(pair.sides[0].sent(), [(1, Status::LocalQpOperation)], "{service:?}");
    }
}

/// Datagrams behind a request that fails are flushed. After the transition to RTS the queue sends to the recipients of
/// later requests.
#[test]
fn datagrams_that_cannot_be_sent_fail_the_send_queue() {
    let fits: (SendOp, u32, bool) = (SendOp::Send, 100, true);
    let cases: [((SendOp, u32, bool), Status); 4] = [
        ((SendOp::Send, 300, true), Status::LocalLength),
        ((SendOp::Write { addr: 0, rkey: 1 }, 8, false), Status::LocalQpOperation),
        ((SendOp::Read { addr: 0, rkey: 1 }, 8, true), Status::LocalQpOperation),
        ((SendOp::FetchAdd { addr: 0, rkey: 1, add: 1 }, 8, false), Status::LocalQpOperation),
    ];
    for (bad, status) in cases {
        let mut pair = late(Service::Ud).unconnected();
        for side in &mut pair.sides {
            side.device.to_init(side.qpn, Access::default()).unwrap();
            let attributes = DatagramAttributes { qkey: 7, path_mtu: 256 };
            side.device.to_datagrams(side.qpn, attributes, pair.now).unwrap();
            side.device.to_rts(side.qpn, SendAttributes::default(), pair.now).unwrap();
        }
        let path = AddressHandle::to(pair.setup.peers[1]);
        let right = Recipient { path, qpn: pair.sides[1].qpn, qkey: 7 };
        let wrong = Recipient { qkey: 8, ..right };
        let send = |pair: &mut Pair, wr_id, (op, len, has_recipient): (SendOp, u32, bool), to: Recipient| {
            let side = &mut pair.sides[0];
            let sges = [side.sge(0, len)];
            let request = SendRequest { wr_id, op, data: Data::Gather(&sges), flags: SendFlags::SIGNALED };
            match has_recipient {
                true => side.device.post_datagram(side.qpn, &request, &to).unwrap(),
                false => side.device.post_send(side.qpn, &request).unwrap(),
            }
        };
        for wr_id in 0..4 {
            pair.recv(1, wr_id, 1_000, 200);
        }
        for (wr_id, what, to) in [(1, fits, wrong), (2, fits, right), (3, bad, wrong), (4, fits, wrong)] {
            send(&mut pair, wr_id, what, to);
        }
        pair.run();
        let done = |wr_id| (wr_id, Status::Success);
        let expected = [done(1), done(2), (3, status), (4, Status::WorkRequestFlushed)];
        assert_eq!(pair.sides[0].sent(), expected, "{bad:?}");
        assert_eq!(pair.sides[1].received(), [(0, Status::Success, 140)], "{bad:?}");
        let side = &mut pair.sides[0];
        assert_eq!(side.device.state(side.qpn), Ok(State::SendQueueError));
        side.device.to_rts(side.qpn, SendAttributes::default(), pair.now).unwrap();
        send(&mut pair, 5, fits, right);
        pair.run();
        assert_eq!(pair.sides[0].sent(), [done(5)], "{bad:?}");
        assert_eq!(pair.sides[1].received(), [(1, Status::Success, 140)], "{bad:?}");
    }
}

/// Without late checks the request of a UD queue pair needs a recipient, whatever its operation.
#[test]
fn requests_are_refused_when_posted_by_default() {
    let mut pair = Pair::new(Service::Uc);
    let refused = pair.try_post(0, 1, pair.read_op(1, 0), 0, 8, SendFlags::default());
    assert!(matches!(refused, Err(VerbsError::Unsupported(_))), "{refused:?}");
}

/// The peer's Write with Immediate has taken a receive: it completes with the status for the access to local memory.
#[test]
fn the_receive_of_a_refused_write_completes_with_a_local_access_error() {
    for service in [Service::Rc, Service::Irn] {
        let mut pair = Pair::new(service);
        pair.recv(1, 7, 0, 64);
        let (addr, rkey) = pair.target(1);
        pair.post(0, 1, SendOp::WriteImm { addr, rkey: rkey ^ 1, imm: 3 }, 8);
        pair.run();
        assert_eq!(pair.sides[0].sent(), [(1, Status::RemoteAccess)], "{service:?}");
        assert_eq!(pair.sides[1].received(), [(7, Status::LocalAccess, 0)], "{service:?}");
    }
}

#[test]
fn a_region_with_remote_rights_has_one_key_if_the_device_says_so() {
    let mut setup = Setup::new(Service::Rc);
    setup.config.one_key = true;
    let mut pair = setup.build();
    let memory = pair.sides[1].memory;
    assert_eq!(memory.lkey, memory.rkey);
    pair.post(0, 1, SendOp::Write { addr: memory.addr, rkey: memory.lkey }, 8);
    pair.run();
    assert_eq!(pair.sides[0].sent(), [(1, Status::Success)]);
    let side = &mut pair.sides[1];
    let rights = [
        (Access { remote_read: true, ..Access::LOCAL_READ }, true),
        (Access { remote_write: true, ..Access::LOCAL }, true),
        (Access { remote_atomic: true, ..Access::LOCAL }, true),
        (Access { bind_window: true, remote_invalidate: true, ..Access::LOCAL }, false),
        (Access::LOCAL_READ, false),
    ];
    for (access, one) in rights {
        let region = side.device.register(side.pd, vec![0; 64], None, access).unwrap();
        assert_eq!(region.lkey == region.rkey, one, "{access:?}");
        side.device.deregister(region.id).unwrap();
    }
    // By default the keys differ.
    let memory = Pair::new(Service::Rc).sides[1].memory;
    assert_ne!(memory.lkey, memory.rkey);
}
