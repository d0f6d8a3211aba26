//! The transports of `rnic-host` over sockets of this host: the same code as in virtual time, while queue pairs fail.

use rnic_endpoint::{Config, Device, Mode};
use rnic_host::multipath::{Builtin, PathPolicy};
use rnic_host::{Link, multipath, rogue};
use rnic_transport::Time;
use rnic_verbs::{
    Access, Completion, Data, MrInfo, Pd, RecvRequest, SendFlags, SendOp, SendRequest, Sge, Status, Transition, Verbs,
};
use std::net::SocketAddr;

const BYTES: u64 = 2_000_000;
const MTU: u32 = 4_096;
/// Number of Writes of all bytes, each followed by a message.
const ROUNDS: u64 = 12;

struct Side {
    nic: Device,
    pd: Pd,
    region: MrInfo,
}

fn sides(mode: Mode) -> [Side; 2] {
    [0, 1].map(|_| {
        let config = Config { mode, ..Config::default() };
        let mut nic = Device::open_at(SocketAddr::from(([127, 0, 0, 1], 0)), config).unwrap();
        let pd = nic.create_pd().unwrap();
        let region = nic.register(pd, vec![0; BYTES as usize], None, Access::ALL).unwrap();
        Side { nic, pd, region }
    })
}

/// The bytes of a round: no two rounds have the same.
fn pattern(round: u64) -> Vec<u8> {
    (0..BYTES).map(|at| (at.wrapping_mul(31) ^ round.wrapping_mul(0x9d)) as u8).collect()
}

/// The requests of a round: a Write of all bytes, and a message that announces it.
fn requests(sides: &[Side; 2], round: u64, sges: &[Sge; 1], mut post: impl FnMut(&SendRequest<'_>)) {
    let op = SendOp::Write { addr: sides[1].region.addr, rkey: sides[1].region.rkey };
    let flags = SendFlags { signaled: false, ..SendFlags::default() };
    post(&SendRequest { wr_id: round, op, data: Data::Gather(sges), flags });
    let (op, flags) = (SendOp::SendImm(round as u32), SendFlags::SIGNALED);
    post(&SendRequest { wr_id: round, op, data: Data::Inline(&[]), flags });
}

fn check(sides: &mut [Side; 2], round: u64, sent: &Completion, received: &Completion) {
    assert_eq!((sent.wr_id, sent.status), (round, Status::Success));
    assert_eq!((received.imm, received.status), (Some(round as u32), Status::Success));
    let mut bytes = vec![0; BYTES as usize];
    sides[1].nic.read_memory(sides[1].region.id, 0, &mut bytes).unwrap();
    assert!(bytes == pattern(round), "round {round}");
}

fn rogue(mode: Mode) {
    let mut sides = sides(mode);
    let mut ends = [0, 1].map(|side| {
        let config = rogue::Config { seed: side as u64, ..rogue::Config::default() };
        let Side { nic, pd, .. } = &mut sides[side];
        rogue::Channel::open(nic, *pd, config).unwrap()
    });
    let addresses = [ends[0].address(), ends[1].address()];
    for side in 0..2 {
        let link = Link::new(sides[1 - side].nic.local_addr(), MTU);
        let now = sides[side].nic.now();
        ends[side].connect(&mut sides[side].nic, link, addresses[1 - side], now).unwrap();
    }
    let sges = [Sge { addr: sides[0].region.addr, len: BYTES as u32, lkey: sides[0].region.lkey }];
    for round in 0..ROUNDS {
        let id = sides[0].region.id;
        sides[0].nic.write_memory(id, 0, &pattern(round)).unwrap();
        ends[1].post_recv(&mut sides[1].nic, &RecvRequest { wr_id: round, scatter: &[] }).unwrap();
        requests(&sides, round, &sges, |request| ends[0].post_send(request).unwrap());
        let (mut found, mut counts) = ([Completion::BLANK; 2], [0; 2]);
        let (mut steps, mut dies_at) = (0_u32, 20 + 7 * round as u32);
        let limit = sides[0].nic.now() + Time::from_ms(20_000);
        while counts != [1, 1] {
            for side in 0..2 {
                let now = sides[side].nic.now();
                assert!(now < limit || side == 1, "round {round}: {:?}", ends.each_ref().map(|end| end.failure()));
                ends[side].progress(&mut sides[side].nic, now).unwrap();
                counts[side] += ends[side].poll(&mut found[side..=side]);
            }
            steps += 1;
            if steps >= dies_at {
                // The primary of one side dies in the middle of the round.
                dies_at = u32::MAX;
                let side = round as usize % 2;
                let qpn = ends[side].primary();
                sides[side].nic.modify_qp(qpn, Transition::Error).unwrap();
            }
        }
        check(&mut sides, round, &found[0], &found[1]);
    }
    let counters = ends[0].counters();
    assert!(counters.recoveries > 2 && counters.replayed > 0 && counters.samples > 100, "{counters:?}");
}

#[test]
fn rogue_over_polled_sockets() {
    rogue(Mode::Polled);
}

#[test]
fn rogue_with_progress_threads() {
    rogue(Mode::Thread);
}

#[test]
fn multipath_over_sockets() {
    let mut sides = sides(Mode::Polled);
    let mut ends = [0, 1].map(|side| {
        let config = multipath::Config { paths: 16, seed: side as u64, ..multipath::Config::default() };
        let Side { nic, pd, .. } = &mut sides[side];
        multipath::Channel::open(nic, *pd, config, Box::new(Builtin::new(PathPolicy::PowerOfTwo))).unwrap()
    });
    let addresses = [ends[0].address(), ends[1].address()];
    for side in 0..2 {
        let link = Link::new(sides[1 - side].nic.local_addr(), MTU);
        let now = sides[side].nic.now();
        ends[side].connect(&mut sides[side].nic, link, &addresses[1 - side], now).unwrap();
    }
    let sges = [Sge { addr: sides[0].region.addr, len: BYTES as u32, lkey: sides[0].region.lkey }];
    for round in 0..ROUNDS {
        let id = sides[0].region.id;
        sides[0].nic.write_memory(id, 0, &pattern(round)).unwrap();
        ends[1].post_recv(round, &sides[1].region, 0, 0).unwrap();
        requests(&sides, round, &sges, |request| ends[0].post_send(request).unwrap());
        let (mut found, mut counts) = ([Completion::BLANK; 2], [0; 2]);
        let limit = sides[0].nic.now() + Time::from_ms(20_000);
        // A queue pair of each end fails while chunks are outstanding.
        let path = round as usize % 16;
        sides[0].nic.modify_qp(addresses[0].outbound[path], Transition::Error).unwrap();
        sides[1].nic.modify_qp(addresses[1].inbound[15 - path], Transition::Error).unwrap();
        while counts != [1, 1] {
            for side in 0..2 {
                let now = sides[side].nic.now();
                assert!(now < limit || side == 1, "round {round}: {:?}", ends.each_ref().map(|end| end.failure()));
                ends[side].progress(&mut sides[side].nic, now).unwrap();
                counts[side] += ends[side].poll(&mut found[side..=side]);
            }
        }
        check(&mut sides, round, &found[0], &found[1]);
    }
    let counters = ends[0].counters();
    assert!(counters.resets > 2 && counters.samples > 100, "{counters:?}");
    assert_eq!(ends[1].counters().duplicates, 0);
}
