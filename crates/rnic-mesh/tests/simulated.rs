//! Tests of a mesh on a simulated fabric: the same agents, pinglists, verdicts and localisation as on real hosts, over
//! the packets of the simulator. The simulation knows which links are faulty, so the test can check the localisation.

use rnic_endpoint::DatagramAddress;
use rnic_fabric::config::FabricSpec;
use rnic_fabric::config::{LinkSpec, NamedLink, SwitchSpec, TopologySpec};
use rnic_fabric::rng::{Purpose, mix};
use rnic_fabric::{
    Body, Fabric, HostId, HostPartition, MIN_FRAME, Packet, PartitionedHosts, SlotId, Topology, TopologyError,
};
use rnic_mesh::agent::{Agent, Limits, ProbeId};
use rnic_mesh::evaluation::evaluate;
use rnic_mesh::inventory::Inventory;
use rnic_mesh::inventory::Scope;
use rnic_mesh::presence::Presence;
use rnic_mesh::record::{Fetched, Health, PROTOCOL, Registration};
use rnic_mesh::recorded::{host_address, switch_address};
use rnic_mesh::registry::Registry;
use rnic_mesh::verdict::Mesh;
use rnic_mesh::verdict::Symptom;
use rnic_mesh::window::Window;
use rnic_probe::responder::Reply;
use rnic_transport::Time;
use rnic_transport::{BitRate, Bytes};
use std::collections::VecDeque;
use std::net::IpAddr;
use std::ops::ControlFlow;
use std::sync::Arc;

/// First UDP source port of the simulated agents.
const SOURCE_PORT: u16 = 50_000;
/// Length of the headers of a probe in a frame: Ethernet, IPv4, UDP, BTH, DETH, ICRC and frame check sequence.
const HEADERS: usize = 18 + 20 + 8 + 12 + 8 + 4;
/// Time between two reports of an agent.
const REPORT: Time = Time::from_ms(1_000);
/// Reading of the verdicts' clock at simulated time 0, in ms.
const START_MS: u64 = 7_200_000;

/// A host that is slow by itself: its software answers later.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
struct SlowHost {
    /// The host.
    host: HostId,
    /// The time between the arrival of a probe and its response.
    delay: Time,
}

/// A datagram of a ping as the body of a packet.
#[derive(Clone, Copy, PartialEq, Eq, Default, Debug)]
struct Datagram {
    message: [u8; 32],
    len: u16,
    from: u32,
}

impl Body for Datagram {}

/// The inventory of a topology: each host is below the switch at its link.
fn inventory(topology: &Topology, mesh: &str) -> Inventory {
    let name = |node: u32| topology.names[node as usize].as_str();
    let host = |host: HostId| (name(host.0), name(topology.peer_node(topology.host_port(host))));
    let switches = (topology.hosts..topology.nodes()).map(name);
    rnic_mesh::recorded::inventory(topology.host_ids().map(host), switches, mesh).unwrap()
}

fn address(host: u32) -> DatagramAddress {
    DatagramAddress { addr: (host_address(host), 4_791).into(), qpn: 0x11, qkey: 1 }
}

/// A packet that waits for the transmitter.
enum Queued {
    Probe(ProbeId, Packet<Datagram>),
    /// The answer, when the probe arrived, when the response may leave, and the response.
    Response(Reply, Time, Time, Packet<Datagram>),
    Report(Packet<Datagram>),
}

struct Node {
    agent: Agent,
    queue: VecDeque<Queued>,
    delay: Time,
}

struct Nodes {
    nodes: Vec<Node>,
    seed: u64,
}

impl Nodes {
    fn packet(&self, from: u32, to: u32, path: u16, message: [u8; 32], len: usize) -> Packet<Datagram> {
        Packet {
            dst: HostId(to),
            flow_hash: flow_hash(self.seed, from, to, path),
            bytes: ((len + HEADERS) as u16).max(MIN_FRAME),
            body: Datagram { message, len: len as u16, from },
            ..Packet::default()
        }
    }
}

/// The hash of the addresses and UDP ports of a path.
fn flow_hash(seed: u64, from: u32, to: u32, path: u16) -> u32 {
    mix(seed, Purpose::Mesh, &[from.into(), to.into(), path.into()]) as u32
}

fn index(ip: IpAddr) -> u32 {
    match ip {
        IpAddr::V4(ip) => ip.to_bits().wrapping_sub(0x0a00_0001),
        IpAddr::V6(_) => u32::MAX,
    }
}

impl HostPartition for Nodes {
    type Body = Datagram;

    fn receive(&mut self, host: SlotId, now: Time, packet: &Packet<Datagram>) {
        let Datagram { message, len, from } = packet.body;
        let mut bytes = message.to_vec();
        bytes.resize(len.into(), 0);
        let node = &mut self.nodes[host.index()];
        if let Some(answer) = node.agent.received(now, now, (host_address(from), 0x11), &bytes) {
            let to = index(answer.to.path.peer.ip());
            let ready = now + node.delay;
            let response = self.packet(host.0, to, answer.to.path.flow as u16, answer.response.emit(), answer.len);
            self.nodes[host.index()].queue.push_back(Queued::Response(answer, now, ready, response));
        }
    }

    fn next_wake(&self, host: SlotId) -> Time {
        let node = &self.nodes[host.index()];
        let response = node.queue.iter().filter_map(|queued| match queued {
            Queued::Response(_, _, ready, _) => Some(*ready),
            _ => None,
        });
        node.agent.next_time().into_iter().chain(response).min().unwrap_or(Time::MAX)
    }

    fn wake(&mut self, host: SlotId, now: Time) {
        while let Some(probe) = self.nodes[host.index()].agent.poll_send(now) {
            let to = index(probe.to.addr.ip());
            let packet = self.packet(host.0, to, probe.path, probe.message.emit(), probe.len);
            self.nodes[host.index()].queue.push_back(Queued::Probe(probe.id, packet));
        }
    }

    fn wants_to_transmit(&self, host: SlotId) -> bool {
        !self.nodes[host.index()].queue.is_empty()
    }

    fn transmit(&mut self, host: SlotId, now: Time, paused: u8) -> Option<Packet<Datagram>> {
        if paused & 1 != 0 {
            return None;
        }
        let ready = |queued: &Queued| !matches!(queued, Queued::Response(_, _, ready, _) if *ready > now);
        let node = &mut self.nodes[host.index()];
        let at = node.queue.iter().position(ready)?;
        match node.queue.remove(at)? {
            Queued::Probe(id, packet) => {
                node.agent.sent(id, now);
                Some(packet)
            }
            Queued::Response(answer, arrived, _, packet) => {
                let report = answer.report(now.saturating_sub(arrived)).emit();
                let report = self.packet(host.0, packet.dst.0, answer.to.path.flow as u16, report, 32);
                self.nodes[host.index()].queue.push_front(Queued::Report(report));
                Some(packet)
            }
            Queued::Report(packet) => Some(packet),
        }
    }
}

/// All hosts, and the controller that judges their reports.
struct Hosts<'a> {
    partitions: Vec<Nodes>,
    started: bool,
    mesh: &'a mut Mesh,
    report_at: Time,
    evaluate: Time,
    evaluate_at: Time,
    end: Time,
}

impl Hosts<'_> {
    /// All agents report to the controller.
    fn report(&mut self, now: Time) {
        let ms = START_MS + now.as_ps() / 1_000_000_000;
        for node in self.partitions.iter_mut().flat_map(|partition| &mut partition.nodes) {
            node.agent.close_batch(|at| at.as_ps() / 1_000_000);
            while let Some(batch) = node.agent.batch() {
                let sequence = batch.sequence;
                self.mesh.add(batch, ms, |_, _| Presence::Up);
                node.agent.confirmed(sequence);
            }
        }
    }
}

impl PartitionedHosts for Hosts<'_> {
    type Partition = Nodes;

    fn partitions(&mut self) -> &mut Vec<Nodes> {
        &mut self.partitions
    }

    fn next_start(&self) -> Time {
        if self.started { Time::MAX } else { Time::ZERO }
    }

    fn open_window(&mut self, _end: Time, wake: &mut dyn FnMut(HostId, Time)) {
        self.started = true;
        for (host, node) in (0..).zip(&self.partitions[0].nodes) {
            if let Some(at) = node.agent.next_time() {
                wake(HostId(host), at);
            }
        }
    }

    fn close_window(&mut self, end: Time, _hops: u64) -> ControlFlow<()> {
        if end >= self.report_at {
            self.report_at = end + REPORT;
            self.report(end);
        }
        if end >= self.evaluate_at {
            self.evaluate_at = end + self.evaluate;
            evaluate(self.mesh, START_MS + end.as_ps() / 1_000_000_000);
        }
        if end >= self.end { ControlFlow::Break(()) } else { ControlFlow::Continue(()) }
    }
}

/// Simulates a mesh on a fabric for some time, and returns the controller's state after its last verdict, and its clock
/// in ms.
///
/// # Errors
/// If the fabric is not possible.
fn simulate(
    spec: &FabricSpec, inventory: &Arc<Inventory>, slow: &[SlowHost], time: Time, seed: u64,
) -> Result<(Mesh, u64), TopologyError> {
    let mut fabric: Fabric<Datagram> = Fabric::new(spec, seed)?;
    let (topology, routes) = (fabric.topology().clone(), fabric.routes().clone());
    let paths = inventory.settings.paths;
    let mut registry = Registry::new(inventory.clone(), &seed.to_le_bytes());
    let mut nodes: Vec<Node> = (0..)
        .zip(&inventory.hosts)
        .map(|(number, host)| {
            let ports = (0..paths).map(|path| SOURCE_PORT + path).collect();
            let delay = slow.iter().find(|slow| slow.host.0 == number).map_or(Time::ZERO, |slow| slow.delay);
            let agent = Agent::new(&host.name, 1, ports, Limits::default(), Time::ZERO);
            Node { agent, queue: VecDeque::new(), delay }
        })
        .collect();
    // The third fetch of an agent has all targets: all agents have confirmed that it is admitted.
    for turn in 0..4_u64 {
        for (number, node) in (0..).zip(&mut nodes) {
            let (list_version, digest) = node.agent.current_list();
            let registration = Registration {
                protocol: PROTOCOL,
                host: inventory.host(number).name.clone(),
                incarnation: 1,
                address: address(number),
                list_version,
                digest,
                health: Health::default(),
            };
            // The registrations are those of the inventory.
            match registry.fetch(registration, START_MS) {
                Ok((Fetched::List(list), _)) => {
                    let mut draw = 0;
                    let phase = || {
                        draw += 1;
                        let random = mix(seed, Purpose::Mesh, &[number.into(), turn, draw, 7]);
                        (random >> 11) as f64 / (1u64 << 53) as f64
                    };
                    let taken = node.agent.set_pinglist(*list, Time::ZERO, phase);
                    debug_assert_eq!(taken, Ok(()));
                }
                Ok((Fetched::Unchanged(version), _)) => node.agent.unchanged(version, Time::ZERO),
                Err(why) => debug_assert!(false, "{why}"),
            }
        }
    }
    for number in 0..nodes.len() as u32 {
        for (session, to, paths) in nodes[number as usize].agent.paths() {
            for path in paths {
                let (src, dst) = (HostId(number), HostId(index(to.ip())));
                let ports = routes.path(&topology, src, dst, flow_hash(seed, src.0, dst.0, path));
                let hops = ports[1..]
                    .iter()
                    .map(|port| Some(switch_address(topology.port(*port).node - topology.hosts)))
                    .collect();
                nodes[number as usize].agent.traced(session, path, hops);
            }
        }
    }
    let mut mesh = Mesh::new(inventory.clone());
    let settings = inventory.settings.clone();
    let mut hosts = Hosts {
        partitions: vec![Nodes { nodes, seed }],
        started: false,
        mesh: &mut mesh,
        report_at: REPORT,
        evaluate: settings.evaluate,
        evaluate_at: settings.evaluate,
        end: time,
    };
    fabric.run(&mut hosts);
    hosts.report(time);
    let now = START_MS + time.as_ps() / 1_000_000_000;
    evaluate(&mut mesh, now);
    Ok((mesh, now))
}

fn spec(links: Vec<NamedLink>) -> FabricSpec {
    let link = LinkSpec { rate: BitRate::from_gbps(40), delay: Time::from_us(2), loss: 0.0 };
    let (uplink_rate, uplink_delay) = (None, None);
    let shape = TopologySpec::LeafSpine { leaves: 4, spines: 4, hosts_per_leaf: 5, uplink_rate, uplink_delay };
    FabricSpec { links, ..FabricSpec::new(shape, link, SwitchSpec::input_queued(Bytes(240_000))) }
}

fn faulty(from: &str, to: &str, loss: Option<f64>, delay: Option<Time>) -> NamedLink {
    NamedLink { from: from.to_string(), to: to.to_string(), rate: None, delay, loss }
}

fn run(links: Vec<NamedLink>, slow: &[SlowHost], seconds: u64) -> (Mesh, u64) {
    let spec = spec(links);
    let mesh = "tor_interval = \"200 ms\"\ninterval = \"200 ms\"\npaths = 8\ntimeout = \"100 ms\"\nevaluate = \"2 s\"";
    let inventory = Arc::new(inventory(&Topology::build(&spec).unwrap(), mesh));
    simulate(&spec, &inventory, slow, Time::from_ms(1_000 * seconds), 3).unwrap()
}

fn found(mesh: &Mesh) -> Vec<(Symptom, Vec<String>)> {
    let mut found: Vec<_> = mesh.findings().iter().map(|f| (f.symptom, f.parts.clone())).collect();
    found.sort();
    found
}

/// The round-trip time of the network is the sum of the delays of the links: 2 x 2 or 2 x 4 links, each with 2 us and
/// the transmission time of a frame (582 + 20 bytes of a probe, 478 + 20 of a response, at 5 bytes per ns).
#[test]
fn a_healthy_mesh_measures_the_fabric() {
    let (mesh, now) = run(Vec::new(), &[], 5);
    assert_eq!(found(&mesh), []);
    for (scope, links) in [(Scope::Tor, 2.0), (Scope::Podset, 4.0)] {
        let cell = mesh.scope(scope, Window::Minute, now);
        let frames = (582.0 + 20.0 + 478.0 + 20.0) / 5.0 / 1e3;
        let expected = links * (2.0 * 2.0 + frames);
        let median = cell.quantile_us(0.5).unwrap();
        assert!((median / expected - 1.0).abs() < 0.02, "{scope:?}: {median} {expected}");
        assert!(cell.lost == 0 && cell.probes > 1_000, "{cell:?}");
    }
}

/// The localisation finds all faults: a lossy link, a blackholed ECMP path, a slow link of a host, and a host whose
/// software is slow, all at the same time.
#[test]
fn the_localisation_finds_the_truth() {
    let links = vec![
        faulty("leaf0", "spine1", Some(0.05), None),
        faulty("leaf2", "spine3", Some(1.0), None),
        faulty("h13", "leaf2", None, Some(Time::from_ms(1))),
    ];
    let slow = [SlowHost { host: HostId(6), delay: Time::from_ms(5) }];
    let (mesh, _) = run(links, &slow, 25);
    let part = |name: &str| vec![name.to_string()];
    let expected = [
        (Symptom::Loss, part("link leaf0 - spine1")),
        (Symptom::Loss, part("link leaf2 - spine3")),
        (Symptom::Delay, part("host h13")),
        (Symptom::SlowHost, part("host h6")),
    ];
    assert_eq!(found(&mesh), expected);
}

/// Each link and switch is faulty alone, once as a blackhole and once with a loss of 5 %: the localisation names this
/// link or switch, and nothing else.
#[test]
fn every_part_is_found() {
    let mut wrong = Vec::new();
    for (from, to) in [("leaf0", "spine0"), ("leaf1", "spine2"), ("leaf3", "spine3"), ("h0", "leaf0"), ("h19", "leaf3")]
    {
        for loss in [1.0, 0.05] {
            let (mesh, _) = run(vec![faulty(from, to, Some(loss), None)], &[], 12);
            let name = if from.starts_with('h') { format!("host {from}") } else { format!("link {from} - {to}") };
            if found(&mesh) != [(Symptom::Loss, vec![name.clone()])] {
                wrong.push((name, loss, found(&mesh)));
            }
        }
    }
    for switch in ["spine1", "spine2"] {
        let links = ["leaf0", "leaf1", "leaf2", "leaf3"].map(|leaf| faulty(leaf, switch, Some(0.3), None)).to_vec();
        let (mesh, _) = run(links, &[], 12);
        if found(&mesh) != [(Symptom::Loss, vec![format!("switch {switch}")])] {
            wrong.push((switch.to_string(), 0.3, found(&mesh)));
        }
    }
    assert!(wrong.is_empty(), "{wrong:#?}");
}

#[test]
fn the_same_seed_gives_the_same_mesh() {
    let verdict = || {
        let (mesh, now) = run(vec![faulty("leaf1", "spine2", Some(0.1), None)], &[], 4);
        format!("{:?} {:?}", mesh.findings(), mesh.scope(Scope::Podset, Window::Hour, now))
    };
    assert_eq!(verdict(), verdict());
}
