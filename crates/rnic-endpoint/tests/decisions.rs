//! Channels over sockets make the same decisions as a channel without sockets that gets the same requests, times and
//! results. `rnic-sim` has the same test for channels on a simulated fabric. Together the tests show that a simulation
//! and sockets run the same code.

use rnic_endpoint::{Config, Device, Mode};
use rnic_host::multipath::PathPolicy;
use rnic_host::record::{Recordable, Recorded};
use rnic_host::{Link, multipath, rogue};
use rnic_transport::Time;
use rnic_verbs::{
    Access, Completion, Data, MrInfo, Pd, Qpn, SendFlags, SendOp, SendRequest, Sge, Status, Transition, Verbs,
};
use std::net::SocketAddr;
use std::time::Duration;

const BYTES: u64 = 400_000;
/// Number of Writes of all bytes, each followed by a message.
const ROUNDS: u64 = 4;

struct Side<C: Recordable> {
    nic: Device,
    region: MrInfo,
    channel: Recorded<C>,
}

fn open<C: Recordable>(config: impl Fn(u64) -> C::Config) -> [Side<C>; 2] {
    [0, 1].map(|side| {
        let settings = Config { mode: Mode::Thread, ..Config::default() };
        let mut nic = Device::open_at(SocketAddr::from(([127, 0, 0, 1], 0)), settings).unwrap();
        let pd: Pd = nic.create_pd().unwrap();
        let region = nic.register(pd, vec![0; BYTES as usize], None, Access::ALL).unwrap();
        let channel = Recorded::open(&mut nic, pd, config(side)).unwrap();
        Side { nic, region, channel }
    })
}

/// Writes over two connected channels, of which a queue pair dies in each round; then replays both.
fn check<C: Recordable>(mut sides: [Side<C>; 2], address: impl Fn(&C) -> C::Address, victim: impl Fn(&C, u64) -> Qpn) {
    let addresses = sides.each_ref().map(|side| address(side.channel.channel()));
    let local = sides.each_ref().map(|side| side.nic.local_addr());
    for at in 0..2 {
        let Side { nic, channel, .. } = &mut sides[at];
        let now = nic.now();
        channel.connect(nic, Link::new(local[1 - at], 1_024), &addresses[1 - at], now).unwrap();
    }
    let sges = [Sge { addr: sides[0].region.addr, len: BYTES as u32, lkey: sides[0].region.lkey }];
    let to = SendOp::Write { addr: sides[1].region.addr, rkey: sides[1].region.rkey };
    for round in 0..ROUNDS {
        let bytes: Vec<u8> = (0..BYTES).map(|at| (at ^ round.wrapping_mul(0x9d)) as u8).collect();
        let Side { nic, region, channel } = &mut sides[1];
        channel.post_recv(nic, round, region, 0, 0).unwrap();
        let Side { nic, region, channel } = &mut sides[0];
        nic.write_memory(region.id, 0, &bytes).unwrap();
        let flags = SendFlags { signaled: false, ..SendFlags::default() };
        channel.post_send(&SendRequest { wr_id: round, op: to, data: Data::Gather(&sges), flags }).unwrap();
        let (op, flags) = (SendOp::SendImm(round as u32), SendFlags::SIGNALED);
        channel.post_send(&SendRequest { wr_id: round, op, data: Data::Inline(&[]), flags }).unwrap();
        let (mut found, mut counts) = ([Completion::BLANK; 2], [0; 2]);
        let limit = nic.now() + Time::from_ms(30_000);
        for step in 0_u32.. {
            for (at, side) in sides.iter_mut().enumerate() {
                let now = side.nic.now();
                side.channel.progress(&mut side.nic, now).unwrap();
                counts[at] += side.channel.poll(&mut found[at..=at]);
            }
            if counts == [1, 1] {
                break;
            }
            if step == 2 {
                let side = &mut sides[round as usize % 2];
                let qpn = victim(side.channel.channel(), round);
                side.nic.modify_qp(qpn, Transition::Error).unwrap();
            }
            assert!(sides[0].nic.now() < limit, "round {round}: {counts:?}");
            std::thread::park_timeout(Duration::from_micros(100));
        }
        assert_eq!(found.map(|completion| completion.status), [Status::Success; 2]);
        let mut written = vec![0; BYTES as usize];
        sides[1].nic.read_memory(sides[1].region.id, 0, &mut written).unwrap();
        assert!(written == bytes, "round {round}");
    }
    for side in &sides {
        assert!(side.channel.trace().len() > 100, "{} calls", side.channel.trace().len());
        assert_eq!(side.channel.replay(), Ok(()));
    }
}

#[test]
fn the_decisions_of_rogue_over_sockets_are_those_of_a_replay() {
    let sides = open::<rogue::Channel>(|seed| rogue::Config { seed, ..rogue::Config::default() });
    check(sides, rogue::Channel::address, |channel, _| channel.primary());
}

#[test]
fn the_decisions_of_multipath_over_sockets_are_those_of_a_replay() {
    let config = |seed| multipath::Config { paths: 4, seed, ..multipath::Config::default() };
    let sides = open::<multipath::Channel>(|seed| (config(seed), PathPolicy::PowerOfTwo));
    check(sides, multipath::Channel::address, |channel, round| channel.address().outbound[round as usize % 4]);
}
