//! The links of a run's fabric and their clocks: topology, lengths of frames, and what follows from the longest path.

use super::{Resolved, SetupError};
use rnic_fabric::config::{FabricSpec, Paths, SwitchSpec, TopologySpec};
use rnic_fabric::{
    MIN_FRAME, PathFacts, RoundTripFrames, Routes, Topology, TopologyError, buffer_cycle, frames_to_fill, longest_path,
    lossless_headroom,
};
use rnic_spec::RunSpec;
use rnic_transport::headers::ROCE_DATA;
use rnic_transport::{Bytes, FlowConfig, Psn, Time};
use rnic_workload::Network;
use std::sync::Arc;

/// The configuration of a run's fabric, without the buffers of its switches, which have `priorities` priorities.
pub(super) fn fabric(run: &RunSpec, priorities: u8) -> FabricSpec {
    FabricSpec {
        topology: run.fabric.topology.clone(),
        link: run.fabric.link,
        links: run.fabric.links.clone(),
        routes: run.fabric.routes.clone(),
        switch: SwitchSpec { priorities, ..SwitchSpec::input_queued(Bytes(0)) },
        paths: run.fabric.paths.unwrap_or_else(|| run.transport.default_paths()),
        flowlet_gap: run.fabric.flowlet_gap.unwrap_or(Paths::FLOWLET_GAP),
        frame_gap: run.fabric.frame_gap.0 as u32,
        clocks: run.fabric.clocks,
    }
}

/// The topology of `fabric`. If another run, `previous`, has the same nodes and links, both runs share one topology in
/// memory.
pub(super) fn topology(fabric: &FabricSpec, previous: Option<&Resolved>) -> Result<Arc<Topology>, TopologyError> {
    let same = |spec: &FabricSpec| {
        (&spec.topology, &spec.link, &spec.links) == (&fabric.topology, &fabric.link, &fabric.links)
    };
    match previous.filter(|previous| same(&previous.fabric)) {
        Some(previous) => Ok(previous.topology.clone()),
        None => Topology::build(fabric).map(Arc::new),
    }
}

/// The routes of `fabric` at the start of a run. If the run `previous` has the same topology and named routes, both
/// share them in memory, except for the ECMP salts.
pub(super) fn routes(
    run: &RunSpec, fabric: &FabricSpec, topology: &Arc<Topology>, previous: Option<&Resolved>,
) -> Result<Arc<Routes>, TopologyError> {
    let same =
        |previous: &&Resolved| Arc::ptr_eq(&previous.topology, topology) && previous.fabric.routes == fabric.routes;
    match previous.filter(same) {
        Some(previous) => Ok(Arc::new(previous.routes.reseeded(topology, run.seed))),
        None => Routes::with(topology, &fabric.routes, run.seed).map(Arc::new),
    }
}

/// Facts about the network for traffic generators.
pub(super) fn network(run: &RunSpec, fabric: &FabricSpec, topology: &Topology) -> Network {
    Network {
        hosts: topology.hosts,
        host_rate: topology.host_ids().map(|host| topology.port(topology.host_port(host)).link.rate).collect(),
        mtu: run.fabric.mtu.0 as u32,
        wire_overhead: ROCE_DATA + fabric.frame_gap,
        leaf: topology.host_ids().map(|host| topology.peer_node(topology.host_port(host))).collect(),
        planes: topology.planes(),
        pod: topology.host_ids().filter_map(|host| topology.pod_of(host)).collect(),
    }
}

/// Frame lengths of the run's packets, in bytes.
#[derive(Clone, Copy, Debug)]
pub(super) struct Frames {
    pub(super) header: u32,
    /// Frame length of a data packet with full payload (MTU).
    pub(super) data: u32,
    pub(super) ack: u32,
    pub(super) nack: u32,
    pub(super) cnp: u32,
    /// Length of the longest frame of the run, whatever its kind of packet.
    pub(super) longest: u32,
    pub(super) gap: u32,
}

impl Frames {
    fn new(run: &RunSpec, fabric: &FabricSpec) -> Result<Frames, SetupError> {
        let header = run.transport.header_bytes();
        let frame = |what: &'static str, bytes: u64| match u16::try_from(bytes.max(u64::from(MIN_FRAME))) {
            Ok(bytes) => Ok(u32::from(bytes)),
            Err(_) => Err(SetupError::Frame { what, bytes }),
        };
        let data = frame("a full data packet", run.fabric.mtu.0.saturating_add(header))?;
        let ack = frame("an ACK", run.transport.ack_bytes())?;
        let nack = frame("a NACK", run.transport.nack_bytes())?;
        let cnp = frame("a CNP", run.transport.cnp_bytes())?;
        let longest = data.max(ack).max(nack).max(cnp);
        Ok(Frames { header: header as u32, data, ack, nack, cnp, longest, gap: fabric.frame_gap })
    }
}

/// Facts about the links of a run's fabric.
#[derive(Clone, Copy, Debug)]
pub(super) struct Links {
    pub(super) frames: Frames,
    /// Number of hops, delay and rate of the longest path.
    pub(super) longest: PathFacts,
    /// Minimum PFC headroom that prevents drops.
    pub(super) headroom: Bytes,
    /// Number of full packets in flight with which a flow fills the path between any two hosts, at most a window of
    /// PSNs.
    pub(super) fill: u32,
    /// Maximum number of ports of a switch.
    pub(super) ports: u64,
    /// Whether a link loses packets at random.
    pub(super) random_loss: bool,
}

impl Links {
    pub(super) fn new(run: &RunSpec, fabric: &FabricSpec, topology: &Topology) -> Result<Links, SetupError> {
        let frames = Frames::new(run, fabric)?;
        let round_trip = RoundTripFrames {
            data: frames.data + frames.gap,
            ack: frames.ack + frames.gap,
            jitter: fabric.clocks.jitter,
            processing: super::transport::processing_of_round_trip(run),
        };
        let ports = (topology.hosts..topology.nodes()).map(|node| topology.ports_of(node).len()).max().unwrap_or(1);
        Ok(Links {
            frames,
            longest: longest_path(topology),
            fill: frames_to_fill(topology, &round_trip).min(Psn::MAX_WINDOW.into()) as u32,
            headroom: lossless_headroom(topology, frames.longest, frames.gap, &fabric.clocks),
            ports: ports as u64,
            random_loss: topology.ports.iter().any(|port| port.link.loss > 0.0),
        })
    }

    /// Round-trip time of one full packet and its ACK over the longest path of an empty fabric.
    pub(super) fn base_rtt(&self) -> Time {
        let Links { frames, longest, .. } = self;
        let both = longest.rate.time_for(u64::from(frames.data + frames.gap))
            + longest.rate.time_for(u64::from(frames.ack + frames.gap));
        longest.delay * 2 + both * u64::from(longest.hops)
    }

    /// Bandwidth-delay product of the longest path in full packets of `mtu` bytes, at most a window of PSNs.
    pub(super) fn bdp(&self, mtu: u32) -> u32 {
        let bytes = self.longest.rate.bytes_in(self.longest.delay * 2);
        let packets = bytes.div_ceil(u64::from(mtu + ROCE_DATA)).max(1);
        packets.min(u64::from(Psn::MAX_WINDOW)) as u32
    }

    /// The round-trip time over the longest path with one congested link: propagation in both directions, plus the time
    /// to send all bytes that a switch of `switch` can hold for one output.
    pub(super) fn congested_rtt(&self, switch: &SwitchSpec) -> Time {
        self.longest.delay * 2 + self.longest.rate.time_for(super::switch::most_ahead(switch, self.ports))
    }
}

/// Warns if PFC pauses can deadlock. A deadlock needs a graph, a dragonfly or changed routes (`[[fabric.route]]`). In
/// every other topology the default routes go up the tiers of switches and then down, so no deadlock is possible.
pub(super) fn warn_of_cycle(fabric: &FabricSpec, topology: &Topology, routes: &Routes, warnings: &mut Vec<String>) {
    let up_and_down = !matches!(fabric.topology, TopologySpec::Graph { .. } | TopologySpec::Dragonfly { .. });
    let regular = up_and_down && fabric.routes.is_empty();
    if !fabric.switch.buffer.has_pfc() || regular {
        return;
    }
    if let Some(cycle) = buffer_cycle(topology, routes) {
        let ports: Vec<String> = cycle.iter().take(8).map(|port| topology.port_name(*port)).collect();
        let more =
            if cycle.len() > ports.len() { format!(" and {} more", cycle.len() - ports.len()) } else { String::new() };
        warnings.push(format!(
            "the routes allow a deadlock under PFC: {}{more} can wait for each other in a circle",
            ports.join(", ")
        ));
    }
}

/// Refuses a path selection of the sender that the path selection of the switches ignores.
pub(super) fn check_entropy(fabric: &FabricSpec, flow: &FlowConfig) -> Result<(), SetupError> {
    match flow.paths.sprays() && !fabric.paths.follows_entropy() {
        true => Err(SetupError::Entropy { sender: flow.paths.selection.name(), switch: fabric.paths.name() }),
        false => Ok(()),
    }
}

/// Warns of transport features that assume one path per flow, if the packets of a flow take different paths.
pub(super) fn warn_of_many_paths(run: &RunSpec, fabric: &FabricSpec, warnings: &mut Vec<String>) {
    if fabric.paths.is_per_flow() {
        return;
    }
    let paths = fabric.paths.name();
    let transport = &run.transport;
    let declaration = transport.declaration;
    let takes_tolerance = declaration.parameter("reorder_tolerance").is_some();
    if fabric.paths != Paths::Spray && takes_tolerance && !declaration.tolerates_reordering(&transport.settings) {
        warnings.push(format!(
            "`paths` = \"{paths}\": transport \"{}\" takes a packet that another one has overtaken for lost; set \
             `reorder_tolerance` to prevent that",
            transport.name
        ));
    }
    if run.watch.as_ref().is_some_and(|watch| watch.pauses) {
        warnings.push(format!("`paths` = \"{paths}\": victims of pauses are judged by one of each flow's paths"));
    }
    if run.transport.cc.declaration.telemetry {
        let name = run.transport.cc.name();
        warnings.push(format!("`paths` = \"{paths}\": cc \"{name}\" takes what it hears of several links for one"));
    }
}

/// Passes the size of the fabric and its changed routes to `put`, for the run's results.
pub(super) fn put_topology(
    fabric: &FabricSpec, topology: &Topology, longest: &PathFacts, put: &mut impl FnMut(&str, String),
) {
    put("hosts", topology.hosts.to_string());
    put("switches", (topology.nodes() - topology.hosts).to_string());
    put("longest path", format!("{} links, {} one way, {}", longest.hops, longest.delay, longest.rate));
    for route in &fabric.routes {
        put("route", format!("at {} to {} via {}", route.at, route.to.join(", "), route.via));
    }
}

/// Passes the settings of the links, their frames and clocks to `put`, for the run's results.
pub(super) fn put_links(fabric: &FabricSpec, flow: &FlowConfig, put: &mut impl FnMut(&str, String)) {
    put("base_rtt", flow.base_rtt.to_string());
    put("mtu", Bytes(u64::from(flow.mtu)).to_string());
    put("header", Bytes(u64::from(flow.header)).to_string());
    put("frame_gap", Bytes(u64::from(fabric.frame_gap)).to_string());
    if fabric.clocks.skew_ppm > 0 {
        put("clock_skew", format!("up to {} ppm", fabric.clocks.skew_ppm));
    }
    if fabric.clocks.jitter > Time::ZERO {
        put("clock_jitter", format!("up to {}", fabric.clocks.jitter));
    }
    if !fabric.paths.is_per_flow() {
        put("paths", fabric.paths.name().to_string());
    }
    if fabric.paths == Paths::Flowlet {
        put("flowlet_gap", fabric.flowlet_gap.to_string());
    }
}
