//! Channels of host transports over sockets: what they survive, and how they end.

use crate::common::message;
use rnic_endpoint::clock::{Clock, TimeSource as _};
use rnic_endpoint::exchange;
use rnic_endpoint::host::{
    Builtin, Channel, ChannelError, Failure, HostError, MultipathConfig, PathOptions, PathPolicy, RogueConfig,
};
use rnic_endpoint::port::{Faults, FaultyPort, Probability, UdpConfig};
use rnic_endpoint::{
    Access, Completion, Config, Device, MemoryRegion, Mode, Opcode, ProtectionDomain, Security, SendFlags, SendOp,
    Status, Time, UdpPort,
};
use rnic_netns::{Pair, with_pair};
use rnic_verbs::{Data, SendRequest};
use std::net::SocketAddr;

const BYTES: usize = 300_000;

struct Side {
    device: Device,
    domain: ProtectionDomain,
    region: MemoryRegion,
}

impl Side {
    fn open(mode: Mode, security: Security, faults: Faults, seed: u64) -> Side {
        Side::open_at(SocketAddr::from(([127, 0, 0, 1], 0)), mode, security, faults, seed)
    }

    fn open_at(address: SocketAddr, mode: Mode, security: Security, faults: Faults, seed: u64) -> Side {
        let config = Config { mode, security, ..Config::default() };
        let port = UdpPort::bind(address, &UdpConfig::default()).unwrap();
        let config = config.fitted_to(&port).unwrap();
        let port = FaultyPort::new(port, Faults::default(), faults, seed);
        let device = Device::on_port(Box::new(port), config).unwrap();
        let domain = device.protection_domain();
        let region = domain.register(vec![0; BYTES], Access::ALL).unwrap();
        Side { device, domain, region }
    }
}

#[derive(Clone, Copy, PartialEq, Debug)]
enum Kind {
    Rogue,
    Multipath,
}

fn channel(kind: Kind, side: &Side, patience: Time) -> Channel {
    match kind {
        Kind::Rogue => Channel::rogue(&side.domain, RogueConfig { patience, ..RogueConfig::default() }),
        Kind::Multipath => {
            let config = MultipathConfig { paths: 8, patience, ..MultipathConfig::default() };
            Channel::multipath(&side.domain, config, Box::new(Builtin::new(PathPolicy::PowerOfTwo)))
        }
    }
    .unwrap()
}

fn connect(channels: &[Channel; 2]) {
    connect_with(channels, 4_096);
}

fn connect_with(channels: &[Channel; 2], mtu: u32) {
    let path = PathOptions { mtu: Some(mtu), ..PathOptions::default() };
    channels[0].connect(&channels[1].address(), &path).unwrap();
    channels[1].connect(&channels[0].address(), &path).unwrap();
}

/// Writes all bytes of the first end to the second end, with a message; returns when both ends have completed it.
fn round(sides: &[Side; 2], channels: &[Channel; 2], number: u32) {
    let bytes = message(BYTES, number.into());
    sides[0].region.write(0, &bytes).unwrap();
    channels[1].post_recv(number.into(), &sides[1].region, 0..0).unwrap();
    let op = SendOp::Write { addr: sides[1].region.addr(), rkey: sides[1].region.rkey() };
    let local = [sides[0].region.slice(0, BYTES).unwrap()];
    let flags = SendFlags { signaled: false, ..SendFlags::default() };
    let write = SendRequest { wr_id: 1, op, data: Data::Gather(&local), flags };
    let flags = SendFlags::SIGNALED;
    let about = SendRequest { wr_id: 2, op: SendOp::SendImm(number), data: Data::Inline(&[]), flags };
    assert_eq!(channels[0].post_sends(&[write, about]).unwrap(), 2);
    let clock = Clock::start();
    let mut found: [Option<Completion>; 2] = [None; 2];
    while found.iter().any(Option::is_none) {
        for (channel, found) in channels.iter().zip(&mut found) {
            let mut out = [Completion::BLANK];
            // In polled mode one thread serves both ends, so it must not wait long for one of them, and must also serve
            // the one that is done, which acknowledges.
            if found.is_some() {
                channel.poll(&mut []).unwrap();
            } else if channel.wait(&mut out, Time::from_us(200)).unwrap() > 0 {
                *found = Some(out[0]);
            }
        }
        assert!(clock.now() < Time::from_ms(30_000), "{:?}", channels.each_ref().map(Channel::failure));
    }
    let [sent, received] = found.map(Option::unwrap);
    let why = channels.each_ref().map(|channel| (channel.failure(), channel.counters()));
    assert_eq!((sent.wr_id, sent.status, sent.opcode), (2, Status::Success, Opcode::Send), "{why:?}");
    assert_eq!((received.wr_id, received.imm, received.status), (number.into(), Some(number), Status::Success));
    sides[1].region.with(|written| assert!(written == bytes, "round {number}"));
}

#[test]
fn channels_carry_writes_and_messages_in_all_modes() {
    let loss = Faults { loss: Probability::new(0.01).unwrap(), ..Faults::default() };
    for kind in [Kind::Rogue, Kind::Multipath] {
        for (modes, security, faults) in [
            ([Mode::Thread; 2], [Security::Authenticated; 2], Faults::default()),
            ([Mode::Polled; 2], [Security::Encrypted, Security::Authenticated], Faults::default()),
            ([Mode::Thread, Mode::Polled], [Security::None; 2], loss),
            ([Mode::Thread; 2], [Security::Encrypted; 2], loss),
        ] {
            let sides = [0, 1].map(|at| Side::open(modes[at], security[at], faults, at as u64));
            let channels = sides.each_ref().map(|side| channel(kind, side, Time::from_ms(10_000)));
            connect(&channels);
            (0..6).for_each(|number| round(&sides, &channels, number));
            let counters = channels[0].counters();
            assert!(counters.parts >= 6 * BYTES as u64 / 65_536 && counters.samples > 0, "{kind:?}: {counters:?}");
        }
    }
}

/// A peer that stops for longer than queue pairs wait, and comes back.
#[test]
fn channels_survive_a_peer_that_stops() {
    for kind in [Kind::Rogue, Kind::Multipath] {
        let sides =
            [Mode::Thread, Mode::Polled].map(|mode| Side::open(mode, Security::Authenticated, Faults::default(), 1));
        let channels = sides.each_ref().map(|side| channel(kind, side, Time::from_ms(20_000)));
        connect(&channels);
        round(&sides, &channels, 0);
        // The second side does not poll, so it neither receives nor answers.
        let op = SendOp::Write { addr: sides[1].region.addr(), rkey: sides[1].region.rkey() };
        channels[0].post(9, op, &[sides[0].region.slice(0, BYTES).unwrap()]).unwrap();
        let failed = channels[0].wait_one(Time::from_ms(1_500)).unwrap_err();
        assert!(failed.to_string().starts_with("nothing completed within"), "{failed}");
        let clock = Clock::start();
        let mut out = [Completion::BLANK];
        while channels[0].poll(&mut out).unwrap() == 0 {
            channels[1].wait(&mut out, Time::from_us(200)).unwrap();
            assert!(clock.now() < Time::from_ms(30_000), "{kind:?}: {:?}", channels[0].counters());
        }
        assert_eq!((out[0].wr_id, out[0].status), (9, Status::Success), "{kind:?}");
        (1..4).for_each(|number| round(&sides, &channels, number));
        if kind == Kind::Rogue {
            assert!(channels[0].counters().recoveries > 0, "the queue pair has aborted in between");
        }
    }
}

/// An interface that goes down while messages are outstanding, for longer than the timeouts of queue pairs, and goes up
/// again.
#[test]
fn channels_survive_an_interface_that_goes_down() {
    with_pair(1_500, |pair| {
        for kind in [Kind::Rogue, Kind::Multipath] {
            let open = |ip| {
                let (mode, security) = (Mode::Thread, Security::Authenticated);
                Side::open_at(SocketAddr::new(ip, 4_791), mode, security, Faults::default(), 1)
            };
            let sides = [pair.a.run(|| open(Pair::A4)), pair.b.run(|| open(Pair::B4))];
            let channels = sides.each_ref().map(|side| channel(kind, side, Time::from_ms(20_000)));
            connect_with(&channels, 1_024);
            round(&sides, &channels, 0);
            pair.b.ip("link set veth down").unwrap();
            let op = SendOp::Write { addr: sides[1].region.addr(), rkey: sides[1].region.rkey() };
            channels[0].post(9, op, &[sides[0].region.slice(0, BYTES).unwrap()]).unwrap();
            let failed = channels[0].wait_one(Time::from_ms(1_000)).unwrap_err();
            assert!(failed.to_string().starts_with("nothing completed within"), "{failed}");
            pair.b.ip("link set veth up").unwrap();
            assert_eq!(channels[0].wait_one(Time::from_ms(20_000)).unwrap().wr_id, 9, "{kind:?}");
            (1..4).for_each(|number| round(&sides, &channels, number));
        }
    });
}

#[test]
fn a_dead_peer_ends_a_channel_within_its_patience() {
    for kind in [Kind::Rogue, Kind::Multipath] {
        let sides = [0, 1].map(|_| Side::open(Mode::Thread, Security::Authenticated, Faults::default(), 1));
        let channels = sides.each_ref().map(|side| channel(kind, side, Time::from_ms(300)));
        connect(&channels);
        round(&sides, &channels, 0);
        sides[1].device.shut_down();
        let op = SendOp::Write { addr: sides[1].region.addr(), rkey: sides[1].region.rkey() };
        for wr_id in [1, 2] {
            channels[0].post(wr_id, op, &[sides[0].region.slice(0, BYTES).unwrap()]).unwrap();
        }
        let statuses = [1, 2].map(|wr_id| {
            let mut out = [Completion::BLANK];
            assert_eq!(channels[0].wait(&mut out, Time::from_ms(10_000)).unwrap(), 1, "{kind:?}");
            assert_eq!(out[0].wr_id, wr_id);
            out[0].status
        });
        assert_eq!(statuses, [Status::TransportRetryExceeded, Status::WorkRequestFlushed], "{kind:?}");
        assert_eq!(channels[0].failure(), Some(Failure::PeerSilent(Time::from_ms(300))));
        let refused = channels[0].post(3, op, &[]).unwrap_err();
        assert!(matches!(refused, ChannelError::Host(HostError::Ended(_))), "{refused}");
    }
}

#[test]
fn a_closed_channel_ends_the_other_side() {
    for kind in [Kind::Rogue, Kind::Multipath] {
        let sides = [0, 1].map(|_| Side::open(Mode::Thread, Security::Authenticated, Faults::default(), 1));
        let channels = sides.each_ref().map(|side| channel(kind, side, Time::from_ms(5_000)));
        connect(&channels);
        round(&sides, &channels, 0);
        channels[1].post_recv(7, &sides[1].region, 0..100).unwrap();
        channels[0].close().unwrap();
        let mut out = [Completion::BLANK];
        assert_eq!(channels[1].wait(&mut out, Time::from_ms(10_000)).unwrap(), 1);
        assert_eq!((out[0].wr_id, out[0].status), (7, Status::WorkRequestFlushed));
        assert_eq!(channels.each_ref().map(Channel::failure), [Some(Failure::Closed), Some(Failure::Peer)]);
    }
}

#[test]
fn sides_that_do_not_fit_are_refused() {
    let sides = [Security::Authenticated, Security::None, Security::Authenticated]
        .map(|security| Side::open(Mode::Thread, security, Faults::default(), 1));
    let patience = Time::from_ms(1_000);
    let refusal = |own: &Channel, peer: &Channel| own.connect(&peer.address(), &PathOptions::default()).unwrap_err();
    let (rogue, plain) = (channel(Kind::Rogue, &sides[0], patience), channel(Kind::Rogue, &sides[1], patience));
    let multipath = channel(Kind::Multipath, &sides[2], patience);
    assert_eq!(
        refusal(&rogue, &plain).to_string(),
        "this device has the security `authenticated` and the peer `none`; either both protect packets or neither does"
    );
    assert_eq!(
        refusal(&rogue, &multipath).to_string(),
        "this side has a RoGUE channel over rc and the peer a multipath channel without credit; both must be the same"
    );
    let paths = MultipathConfig { paths: 9_000, ..MultipathConfig::default() };
    let refused =
        Channel::multipath(&sides[0].domain, paths, Box::new(Builtin::new(PathPolicy::Single))).err().unwrap();
    assert!(refused.to_string().starts_with("the number of paths is 9000; it must be 1 to 256"), "{refused}");
}

/// All messages of a peer are untrusted: for example, an address with queue pairs, keys or numbers that do not belong
/// to the channel.
#[test]
fn a_hostile_address_does_not_panic() {
    let sides = [0, 1].map(|_| Side::open(Mode::Thread, Security::Authenticated, Faults::default(), 1));
    let patience = Time::from_ms(1_000);
    for kind in [Kind::Rogue, Kind::Multipath] {
        let honest = serde_json::to_value(channel(kind, &sides[1], patience).address()).unwrap();
        let broken = |change: &dyn Fn(&mut serde_json::Value)| {
            let mut address = honest.clone();
            change(&mut address);
            let Ok(address) = serde_json::from_value(address) else { return };
            let own = channel(kind, &sides[0], patience);
            let result = own.connect(&address, &PathOptions { mtu: Some(1_024), ..PathOptions::default() });
            assert!(result.is_err(), "{kind:?}: {address:?}");
        };
        broken(&|address| address["queue_pairs"] = serde_json::json!([]));
        broken(&|address| address["queue_pairs"][0]["key"] = serde_json::Value::Null);
        broken(&|address| address["queue_pairs"][0]["key"] = "00".repeat(32).into());
        broken(&|address| address["queue_pairs"][0]["qpn"] = serde_json::json!(u32::MAX));
        broken(&|address| address["kind"]["control"] = serde_json::json!(u32::MAX));
        for numbers in ["outbound", "inbound", "qpns"] {
            broken(&|address| {
                if address["kind"][numbers].is_array() {
                    address["kind"][numbers] = serde_json::json!([1, 2]);
                } else {
                    address["addr"] = "[::1]:4791".into();
                }
            });
        }
    }
}

#[test]
fn channels_are_connected_by_the_exchange() {
    let listener = std::net::TcpListener::bind("127.0.0.1:0").unwrap();
    let to = listener.local_addr().unwrap();
    let there = std::thread::spawn(move || {
        let side = Side::open(Mode::Thread, Security::Encrypted, Faults::default(), 1);
        let channel = channel(Kind::Rogue, &side, Time::from_ms(5_000));
        let mut tcp = exchange::Channel::over(listener.accept().unwrap().0).unwrap();
        let path = PathOptions { mtu: Some(2_048), ..PathOptions::default() };
        channel.post_recv(5, &side.region, 0..100).unwrap();
        assert_eq!(exchange::connect_channel(&mut tcp, &channel, &path).unwrap(), 2_048);
        let received = channel.wait_one(Time::from_ms(10_000)).unwrap();
        side.region.with(|bytes| bytes[..received.byte_len as usize].to_vec())
    });
    let side = Side::open(Mode::Thread, Security::Encrypted, Faults::default(), 1);
    let channel = channel(Kind::Rogue, &side, Time::from_ms(5_000));
    let mut tcp = exchange::Channel::connect(to).unwrap();
    let path = PathOptions { mtu: Some(4_096), ..PathOptions::default() };
    assert_eq!(exchange::connect_channel(&mut tcp, &channel, &path).unwrap(), 2_048);
    side.region.write(0, b"hello").unwrap();
    channel.post(1, SendOp::Send, &[side.region.slice(0, 5).unwrap()]).unwrap();
    channel.wait_one(Time::from_ms(10_000)).unwrap();
    assert_eq!(there.join().unwrap(), b"hello");
}
