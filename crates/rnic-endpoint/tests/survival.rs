//! Tests of the network conditions that channels of host transports survive or use: bursts of losses, CE marks, several
//! UDP source ports, credit.

use crate::common::message;
use rnic_endpoint::clock::{Clock, TimeSource as _};
use rnic_endpoint::host::{Builtin, Channel, Control, Credit, MultipathConfig, PathOptions, PathPolicy, RogueConfig};
use rnic_endpoint::port::{Batch, Counters, Interest, Limits, SendError, UdpConfig};
use rnic_endpoint::{
    Access, Arrival, BitRate, Completion, Config, Device, MemoryRegion, Port, ProtectionDomain, SendOp, Status, Time,
    UdpPort,
};
use rnic_netns::{Pair, mark_some_packets, with_pair};
use std::collections::BTreeSet;
use std::io;
use std::net::{IpAddr, SocketAddr};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex};
use std::task::Waker;
use std::time::Duration;

const BYTES: usize = 1 << 20;

/// What a test does to a port, and what it sees of it.
#[derive(Clone, Default)]
struct Gate {
    /// While it is set, all datagrams that arrive are lost.
    closed: Arc<AtomicBool>,
    /// UDP source ports of the datagrams that arrived.
    sources: Arc<Mutex<BTreeSet<u16>>>,
}

/// A UDP port behind a gate.
struct Gated {
    port: UdpPort,
    gate: Gate,
}

impl Port for Gated {
    fn local_addr(&self) -> SocketAddr {
        self.port.local_addr()
    }
    fn source_port(&self, hash: u32) -> u16 {
        self.port.source_port(hash)
    }
    fn limits(&self) -> Limits {
        self.port.limits()
    }
    fn longest_datagram(&self, destination: SocketAddr) -> io::Result<usize> {
        self.port.longest_datagram(destination)
    }
    fn send(&mut self, batch: &Batch<'_>) -> Result<usize, SendError> {
        self.port.send(batch)
    }
    fn receive(&mut self) -> io::Result<Option<Arrival<'_>>> {
        if self.gate.closed.load(Ordering::Relaxed) {
            while self.port.receive()?.is_some() {}
            return Ok(None);
        }
        let arrival = self.port.receive()?;
        if let Some(arrival) = &arrival {
            self.gate.sources.lock().unwrap().insert(arrival.meta.source.port());
        }
        Ok(arrival)
    }
    fn wait(&mut self, interest: Interest, timeout: Option<Time>) -> io::Result<()> {
        self.port.wait(interest, timeout)
    }
    fn waker(&self) -> Waker {
        self.port.waker()
    }
    fn counters(&self) -> Counters {
        self.port.counters()
    }
}

struct Side {
    _device: Device,
    domain: ProtectionDomain,
    region: MemoryRegion,
    gate: Gate,
}

fn side(address: SocketAddr, source_ports: usize, rate: BitRate) -> Side {
    let mut config = Config::default();
    config.verbs.line_rate = rate;
    let port = UdpPort::bind(address, &UdpConfig { source_ports, ..UdpConfig::default() }).unwrap();
    let config = config.fitted_to(&port).unwrap();
    let gate = Gate::default();
    let device = Device::on_port(Box::new(Gated { port, gate: gate.clone() }), config).unwrap();
    let domain = device.protection_domain();
    let region = domain.register(vec![0; BYTES], Access::ALL).unwrap();
    Side { _device: device, domain, region, gate }
}

fn loopback() -> SocketAddr {
    SocketAddr::from(([127, 0, 0, 1], 0))
}

fn multipath(side: &Side, config: &MultipathConfig) -> Channel {
    Channel::multipath(&side.domain, config.clone(), Box::new(Builtin::new(PathPolicy::RoundRobin))).unwrap()
}

fn connect(channels: &[Channel; 2], mtu: u32) {
    let path = PathOptions { mtu: Some(mtu), ..PathOptions::default() };
    channels[0].connect(&channels[1].address(), &path).unwrap();
    channels[1].connect(&channels[0].address(), &path).unwrap();
}

/// Posts a Write of all bytes.
fn post(sides: &[Side; 2], channels: &[Channel; 2], wr_id: u64) {
    let op = SendOp::Write { addr: sides[1].region.addr(), rkey: sides[1].region.rkey() };
    channels[0].post(wr_id, op, &[sides[0].region.slice(0, BYTES).unwrap()]).unwrap();
}

/// Waits for the Write, and compares all bytes.
fn await_bytes(sides: &[Side; 2], channels: &[Channel; 2], wr_id: u64) {
    let mut out = [Completion::BLANK];
    let count = channels[0].wait(&mut out, Time::from_ms(30_000)).unwrap();
    let why = (channels[0].failure(), channels[0].counters());
    assert_eq!((count, out[0].wr_id, out[0].status), (1, wr_id, Status::Success), "{why:?}");
    let sent = sides[0].region.with(<[u8]>::to_vec);
    sides[1].region.with(|bytes| assert!(bytes == sent));
}

/// All datagrams in both directions are lost for 150 ms, repeatedly, in the middle of Writes: longer than the 67 ms for
/// which RC retries (eight timeouts of 8.4 ms), so queue pairs fail. No channel ends, and every byte is right.
#[test]
fn bursts_of_losses_beyond_the_retries_of_the_nic_are_survived() {
    for is_rogue in [true, false] {
        let sides = [0, 1].map(|_| side(loopback(), 16, BitRate::from_gbps(100)));
        let channels = sides.each_ref().map(|side| match is_rogue {
            true => Channel::rogue(&side.domain, RogueConfig::default()).unwrap(),
            false => multipath(side, &MultipathConfig { paths: 8, ..MultipathConfig::default() }),
        });
        connect(&channels, 4_096);
        for round in 0..5 {
            sides[0].region.write(0, &message(BYTES, round)).unwrap();
            sides[1].gate.closed.store(true, Ordering::Relaxed);
            sides[0].gate.closed.store(true, Ordering::Relaxed);
            post(&sides, &channels, round);
            std::thread::park_timeout(Duration::from_millis(150));
            sides.iter().for_each(|side| side.gate.closed.store(false, Ordering::Relaxed));
            await_bytes(&sides, &channels, round);
        }
        let counters = channels[0].counters();
        assert!(counters.recoveries >= 3, "RoGUE {is_rogue}: {counters:?}");
        assert_eq!(channels.each_ref().map(Channel::failure), [None; 2]);
    }
}

/// With one queue pair and an entropy per request, the packets of one channel have the source ports of all its paths,
/// and the receiver accepts the chunks in any order.
#[test]
fn the_paths_of_one_queue_pair_have_source_ports_of_their_own() {
    let sides = [0, 1].map(|_| side(loopback(), 8, BitRate::from_gbps(100)));
    let config = MultipathConfig { paths: 64, spread: true, ..MultipathConfig::default() };
    let channels = sides.each_ref().map(|side| multipath(side, &config));
    connect(&channels, 4_096);
    for round in 0..4 {
        sides[0].region.write(0, &message(BYTES, round)).unwrap();
        post(&sides, &channels, round);
        await_bytes(&sides, &channels, round);
    }
    assert_eq!(sides[1].gate.sources.lock().unwrap().len(), 8, "64 entropies over eight source ports");
    // Without entropy per request, the queue pair of the only path and the control queue pair have one port each.
    let sides = [0, 1].map(|_| side(loopback(), 8, BitRate::from_gbps(100)));
    let config = MultipathConfig { paths: 1, ..MultipathConfig::default() };
    let channels = sides.each_ref().map(|side| multipath(side, &config));
    connect(&channels, 4_096);
    post(&sides, &channels, 9);
    await_bytes(&sides, &channels, 9);
    assert!(sides[1].gate.sources.lock().unwrap().len() <= 2);
}

/// CE marks of the network reach the sender's congestion control above unreliable connections, over IPv4 and IPv6, with
/// one queue pair for each path and with one queue pair for all paths. Without the setting, packets are not
/// ECN-capable.
#[test]
fn marks_of_the_network_reach_the_software() {
    with_pair(1_500, |pair| {
        if !mark_some_packets(&pair.a) {
            return;
        }
        let open = |from: IpAddr, to: IpAddr| {
            let at = |ip| side(SocketAddr::new(ip, 4_791), 8, BitRate::from_gbps(10));
            [pair.a.run(|| at(from)), pair.b.run(|| at(to))]
        };
        for (from, to) in [(Pair::A4, Pair::B4), (Pair::A6, Pair::B6)] {
            for spread in [false, true] {
                let control = Control::named("dctcp", &[]).unwrap();
                let config = MultipathConfig { paths: 8, spread, ecn: true, control, ..MultipathConfig::default() };
                for ecn in [true, false] {
                    let sides = open(from, to);
                    let config = MultipathConfig { ecn, ..config.clone() };
                    let channels = sides.each_ref().map(|side| multipath(side, &config));
                    connect(&channels, 1_024);
                    sides[0].region.write(0, &message(BYTES, 1)).unwrap();
                    // The filter marks a tenth, and the kernel may pass several parts as one packet: a single message
                    // may have no mark.
                    for message in 1..=9 {
                        post(&sides, &channels, message);
                        await_bytes(&sides, &channels, message);
                    }
                    let counters = channels[0].counters();
                    // The filter sees the packets of a chunk as one, because the kernel segments them after it.
                    let expected = if ecn { 1..counters.parts / 2 } else { 0..1 };
                    assert!(expected.contains(&counters.marked), "{to}, spread {spread}, ecn {ecn}: {counters:?}");
                }
            }
        }
    });
}

/// Two senders share the rate at which the receiver's device grants credit, and none of them waits for the other.
#[test]
fn the_receiver_grants_the_rate_of_its_link_to_all_senders() {
    let rate = BitRate::from_bps(400_000_000);
    let receiver = side(loopback(), 8, rate);
    let senders = [0, 1].map(|_| side(loopback(), 8, BitRate::from_gbps(100)));
    let regions = [0, 1].map(|_| receiver.domain.register(vec![0; BYTES], Access::ALL).unwrap());
    let config = MultipathConfig {
        paths: 4,
        control: Control::named("none", &[]).unwrap(),
        credit: Some(Credit { unsolicited: 65_536 }),
        ..MultipathConfig::default()
    };
    let channels = senders.each_ref().map(|side| {
        let ends = [multipath(side, &config), multipath(&receiver, &config)];
        connect(&ends, 4_096);
        ends
    });
    let clock = Clock::start();
    for (at, (side, [own, _])) in senders.iter().zip(&channels).enumerate() {
        side.region.write(0, &message(BYTES, at as u64)).unwrap();
        let op = SendOp::Write { addr: regions[at].addr(), rkey: regions[at].rkey() };
        own.post(1, op, &[side.region.slice(0, BYTES).unwrap()]).unwrap();
    }
    let times = channels.each_ref().map(|[own, _]| {
        let completion = own.wait_one(Time::from_ms(30_000)).unwrap();
        assert_eq!(completion.wr_id, 1);
        clock.now()
    });
    for (side, region) in senders.iter().zip(&regions) {
        let sent = side.region.with(<[u8]>::to_vec);
        region.with(|bytes| assert!(bytes == sent));
    }
    // All but the unsolicited bytes and the last chunks need credit at 400 Mbps: 38 ms for both, 19 ms for one alone.
    let least = rate.time_for(2 * (BYTES as u64 - 65_536 - 32_768));
    let last = times[0].max(times[1]);
    assert!(last > least, "{last}, at least {least}");
}
