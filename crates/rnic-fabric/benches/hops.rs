//! Measures the speed of the fabric alone: a fat-tree under full load, with hosts that know no transport. Each host has
//! `WINDOW` packets outstanding to random other hosts, which answer each packet with a small packet.
//!
//! `cargo bench -p rnic-fabric -- K MILLION_HOPS THREADS [pfc|output|input] [PARTS]`, all arguments are optional. The
//! program prints packet-hops per second.
#![allow(missing_docs, reason = "a program, not a library")]

use rnic_fabric::config::{
    BufferSpec, ClockSpec, FabricSpec, InputSpec, LinkSpec, OutputBuffers, OutputSpec, Paths, PfcThresholds,
    SwitchSpec, TopologySpec,
};
use rnic_fabric::{Body, Fabric, HostId, HostPartition, Packet, PartitionPlan, PartitionedHosts, SlotId, Topology};
use rnic_transport::{BitRate, Bytes, Time};
use std::collections::VecDeque;
use std::ops::ControlFlow;
use std::sync::Arc;

/// Number of outstanding packets of each host.
const WINDOW: u32 = 64;

/// Body of a packet: its sender, and padding to the size of a transport's packet body.
#[derive(Clone, Copy, Default)]
struct Load {
    src: u32,
    _rest: [u32; 3],
}
impl Body for Load {}

struct Host {
    number: u32,
    credits: u32,
    replies: VecDeque<u32>,
    state: u64,
    started: bool,
}

struct Hosts {
    hosts: Vec<Host>,
    all: u32,
}

impl HostPartition for Hosts {
    type Body = Load;
    fn receive(&mut self, host: SlotId, _now: Time, packet: &Packet<Load>) {
        let host = &mut self.hosts[host.index()];
        if packet.flags & Packet::<Load>::CONTROL != 0 {
            host.credits += 1;
        } else {
            host.replies.push_back(packet.body.src);
        }
    }
    fn next_wake(&self, host: SlotId) -> Time {
        let host = &self.hosts[host.index()];
        if host.started { Time::MAX } else { Time::from_ns(u64::from(host.number % 512)) }
    }
    fn wake(&mut self, host: SlotId, _now: Time) {
        let host = &mut self.hosts[host.index()];
        (host.started, host.credits) = (true, WINDOW);
    }
    fn wants_to_transmit(&self, host: SlotId) -> bool {
        let host = &self.hosts[host.index()];
        host.credits > 0 || !host.replies.is_empty()
    }
    fn transmit(&mut self, host: SlotId, _now: Time, paused: u8) -> Option<Packet<Load>> {
        if paused != 0 {
            return None;
        }
        let host = &mut self.hosts[host.index()];
        host.state = host.state.wrapping_mul(0x5851_f42d_4c95_7f2d).wrapping_add(0x1405_7b7e_f767_814f);
        let hash = (host.state >> 32) as u32;
        let body = Load { src: host.number, _rest: [0; 3] };
        if let Some(dst) = host.replies.pop_front() {
            return Some(Packet {
                dst: HostId(dst),
                flow_hash: hash,
                bytes: 64,
                flags: Packet::<Load>::CONTROL,
                body,
                ..Packet::default()
            });
        }
        host.credits -= 1;
        let other = ((u64::from(hash) * u64::from(self.all - 1)) >> 32) as u32;
        let dst = HostId(if other >= host.number { other + 1 } else { other });
        Some(Packet { dst, flow_hash: hash, bytes: 1_086, body, ..Packet::default() })
    }
}

struct All {
    partitions: Vec<Hosts>,
    most: u64,
}

impl PartitionedHosts for All {
    type Partition = Hosts;
    fn partitions(&mut self) -> &mut Vec<Hosts> {
        &mut self.partitions
    }
    fn next_start(&self) -> Time {
        if self.partitions.iter().any(|partition| partition.hosts.iter().any(|host| !host.started)) {
            Time::ZERO
        } else {
            Time::MAX
        }
    }
    fn open_window(&mut self, _end: Time, wake: &mut dyn FnMut(HostId, Time)) {
        for host in self.partitions.iter().flat_map(|partition| &partition.hosts).filter(|host| !host.started) {
            wake(HostId(host.number), Time::from_ns(u64::from(host.number % 512)));
        }
    }
    fn close_window(&mut self, _end: Time, hops: u64) -> ControlFlow<()> {
        if hops >= self.most { ControlFlow::Break(()) } else { ControlFlow::Continue(()) }
    }
}

#[expect(clippy::disallowed_methods, reason = "a benchmark measures time")]
fn main() {
    let arguments: Vec<String> = std::env::args().skip(1).filter(|argument| !argument.starts_with("--")).collect();
    let number = |at: usize, default: u64| arguments.get(at).and_then(|text| text.parse().ok()).unwrap_or(default);
    let (k, most, threads) = (number(0, 6) as u32, number(1, 10) * 1_000_000, number(2, 1) as usize);
    let kind = arguments.get(3).map_or("", String::as_str);
    let (rate, delay) = if k > 16 { (400, 1_000) } else { (100, 2_000) };
    let (size, xoff) = (Bytes(600_000), Bytes(200_000));
    let buffer = match kind {
        "output" => {
            BufferSpec::Output(OutputSpec { buffers: OutputBuffers::Equal(size), trim: None, count_in_service: false })
        }
        _ => {
            let pfc = PfcThresholds { xoff, xon: xoff, headroom: Bytes(400_000) };
            BufferSpec::Input(InputSpec { pfc: (kind == "pfc").then_some(pfc), ..InputSpec::lossy(size) })
        }
    };
    let spec = FabricSpec {
        topology: TopologySpec::FatTree { k },
        link: LinkSpec { rate: BitRate::from_gbps(rate), delay: Time::from_ns(delay), loss: 0.0 },
        links: Vec::new(),
        routes: Vec::new(),
        switch: SwitchSpec::new(buffer),
        paths: Paths::Ecmp,
        flowlet_gap: Paths::FLOWLET_GAP,
        frame_gap: 20,
        clocks: ClockSpec::default(),
    };
    let begin = std::time::Instant::now();
    let partitions = number(4, if threads > 1 { 4 * threads as u64 } else { 1 }) as usize;
    let mut fabric = Fabric::partitioned(Arc::new(Topology::build(&spec).unwrap()), &spec, 1, threads, |topology| {
        PartitionPlan::balanced(topology, partitions)
    })
    .unwrap();
    let all = fabric.topology().hosts;
    let host = |id: &HostId| Host {
        number: id.0,
        credits: 0,
        replies: VecDeque::new(),
        state: u64::from(id.0),
        started: false,
    };
    let plan = fabric.plan().clone();
    let partition = |partition| Hosts { hosts: plan.hosts_of(partition).iter().map(host).collect(), all };
    let mut hosts = All { partitions: (0..plan.partitions()).map(partition).collect(), most };
    let set_up = begin.elapsed().as_secs_f64();
    let begin = std::time::Instant::now();
    fabric.run(&mut hosts);
    let wall = begin.elapsed().as_secs_f64();
    let drops: u64 = fabric.topology().port_ids().flat_map(|port| fabric.counters(port)).map(|cell| cell.drops).sum();
    println!(
        "{all} hosts, {} partitions, {threads} threads: {} packet-hops ({drops} drops) in {wall:.2} s, {:.2} million/s; set up in {set_up:.2} s",
        plan.partitions(),
        fabric.hops(),
        fabric.hops() as f64 / wall / 1e6
    );
}
