//! Captures the frames of one simulated link as a pcapng file, for `rnic run --pcap`.
//!
//! During the run the fabric records the packets that the ports of the captured link transmit ([`Fabric::tap`]). After
//! the run the capture finds the flow of each packet, and writes the frame that a real RNIC would send. The frames in
//! the file have the length of real frames. The simulator computes with frames that are a little shorter: they have no
//! padding, no RETH in the first packet of a RoCE Write, and not all headers of an IRN ACK.
//!
//! The packets of simulated NICs, below transports in host software, have all headers already. They belong to the NICs'
//! connections, and not to flows. The packets of programs in P4 are the bytes that the program's deparser emits, from
//! the Ethernet header on, with zeros as payload.

mod life;

pub use life::{Event, PacketEvent};

use crate::host::{EndAddress, FlowAddress, Framing, MessageSegment, NicSegment, Segment};
use crate::in_band::InBand;
use crate::resolve::{Resolved, SetupError};
use rnic_fabric::{Body, Fabric, Fate, HostId, Packet as SimulatedPacket, PortId, TapFilter, Tapped, Topology};
use rnic_spec::RunSpec;
use rnic_spec::{FlowLog, FlowRecord};
use rnic_transport::message::PacketHeader;
use rnic_transport::paths::flow_hash;
use rnic_transport::transports::WireFormat;
use rnic_transport::{Pdu, PduKind, Psn, Time};
use rnic_wire::pcapng::Writer;
use rnic_wire::{
    Aeth, Bth, Envelope, Extra, Headers, Ip, Ipv4, MAX_24, MacAddr, NakCode, Opcode, Operation, Packet, Pfc, Position,
    Reth, SackEth, Service, Syndrome,
};
use std::collections::BTreeMap;
use std::io::{self, Write};
use std::net::Ipv4Addr;
use std::sync::Arc;

/// Maximum length of an RDMA message in bytes. The capture shows a longer flow as several messages.
const MAX_MESSAGE: u64 = 1 << 31;
/// Maximum path MTU of InfiniBand, in bytes.
const MAX_MTU: u32 = 4_096;
/// Maximum bytes of a packet's payload in the simulator.
const MAX_PAYLOAD: usize = 1 << 16;
/// Maximum length of a payload whose bytes the capture keeps: the messages between layers of host software. The payload
/// of data is zeros.
const MAX_KEPT: usize = 64;
/// ECN codepoints in the IP header: ECN-capable transport (ECT, here), and congestion experienced (CE, below).
const ECN_CAPABLE: u8 = 2;
const ECN_EXPERIENCED: u8 = 3;
/// Duration of a pause in the captured PFC pause frames, in quanta of 512 bit times. A simulated pause lasts until an
/// XON frame, so the captured frames have the maximum duration.
const PAUSE_QUANTA: u16 = u16::MAX;

/// A capture of the frames on one link. Before the run it has the ports to record; after the run also their frames.
///
/// ```
/// use rnic_sim::{Catalogue, Events, Sharing, capture::Capture, resolve::resolve, run::run};
/// # let text = r#"
/// #     [fabric]
/// #     topology = "single-switch"
/// #     hosts = 2
/// #     rate = "100 Gbps"
/// #     delay = "1 us"
/// #     [traffic]
/// #     pattern = "permutation"
/// #     sizes = "fixed 64 KB"
/// #     repeats = 1
/// #     interval = "1 ms"
/// #     [[run]]
/// #     name = "IRN"
/// #     transport = "irn"
/// # "#;
/// # let scenario = rnic_scenario::from_str(text, "example.toml", "".as_ref(), &[], None).unwrap();
/// # let spec = &scenario.runs[0];
/// let catalogue = Catalogue::standard();
/// let resolved = resolve(&catalogue, spec).unwrap();
/// let mut capture = Capture::new(spec, &resolved, "h0:s0").unwrap();
/// let record = run(&catalogue, spec, &resolved, Some(&mut capture), &Sharing::among(1), &Events::ignored());
/// let mut pcapng = Vec::new();
/// capture.write(&mut pcapng, &record.output.flows).unwrap();
/// assert!(capture.frames() > 0 && pcapng.starts_with(&[0x0a, 0x0d, 0x0d, 0x0a]));
/// ```
#[derive(Clone, Debug)]
pub struct Capture {
    irn: bool,
    acks: bool,
    mtu: u32,
    /// PSN of each flow's first packet; the index in this list is the id of the flow's record.
    first_psn: Vec<Psn>,
    /// ECN codepoint of a captured data packet without a CE mark.
    ecn: u8,
    /// Bitmap of the priorities that the run's switches use.
    priorities: u8,
    /// The ports at both ends of each captured link; each port is an interface of the pcapng file.
    ports: Vec<PortId>,
    /// Name of each port in `ports`, for the pcapng file.
    interfaces: Vec<String>,
    /// Index of the node of each port in `ports`.
    nodes: Vec<u32>,
    /// The frames that the taps record.
    filter: TapFilter,
    /// The flow whose packets alone are captured.
    flow: Option<u32>,
    /// Whether `ports` are all ports on which packets of the flow can be.
    is_everywhere: bool,
    topology: Arc<Topology>,
    frames: Vec<Frame>,
    /// Headers, and payload up to [`MAX_KEPT`] bytes, of the packets of simulated NICs; headers of the packets of
    /// programs.
    kept: Vec<u8>,
    /// Whether frames are missing because of the filter's limit.
    is_full: bool,
}

/// A captured frame, as the fabric recorded it.
#[derive(Clone, Copy, Debug)]
struct Frame {
    at: Time,
    /// Index in [`Capture::ports`] of the port that sent the frame.
    interface: u32,
    content: Content,
    fate: Fate,
    /// Length in bytes, as the simulator computes with it.
    bytes: u16,
    /// Bitmap of [`SimulatedPacket`]'s flags.
    flags: u8,
}

#[derive(Clone, Copy, Debug)]
enum Content {
    /// A PFC pause frame, with the bitmap of the priorities that it pauses.
    Pause(u8),
    /// A packet of the flow whose record has the id `record`.
    Packet { record: u32, hash: u32, priority: u8, marked: bool, pdu: Pdu },
    /// A packet of a simulated NIC.
    Nic(NicPacket),
    /// A packet of a program in P4.
    Program(ProgramPacket),
}

/// A packet of a program in P4: headers that its deparser has emitted, and payload.
#[derive(Clone, Copy, Debug)]
struct ProgramPacket {
    priority: u8,
    is_control: bool,
    /// Place of the headers in [`Capture::kept`], and their length.
    at: usize,
    headers: usize,
    /// Bytes of payload.
    payload: usize,
}

/// A packet of a simulated NIC.
#[derive(Clone, Copy, Debug)]
struct NicPacket {
    src: HostId,
    dst: HostId,
    hash: u32,
    priority: u8,
    is_marked: bool,
    is_control: bool,
    /// Place of the headers, and of a short payload, in [`Capture::kept`].
    at: usize,
    /// Bytes of payload.
    payload: usize,
}

impl Capture {
    /// Creates a capture for the run `run`, of every link between two nodes. `link` is the names of these nodes with a
    /// colon between them, for example `h0:s0`.
    ///
    /// # Errors
    /// No such link exists, the run's transport does not send RoCE packets, or the MTU is not possible in RoCE.
    pub fn new(run: &RunSpec, resolved: &Resolved, link: &str) -> Result<Capture, SetupError> {
        let ports = |topology: &Topology| find_ports(topology, link);
        Capture::on(run, resolved, ports, TapFilter::ALL)
    }

    /// As [`Capture::new`], with the life of each frame: drops are recorded too. The capture ends after `max` records.
    ///
    /// # Errors
    /// As [`Capture::new`]. Also if the packets do not belong to flows, as those of transports in host software.
    pub fn of_link(run: &RunSpec, resolved: &Resolved, link: &str, max: usize) -> Result<Capture, SetupError> {
        needs_flows(run)?;
        let ports = |topology: &Topology| find_ports(topology, link);
        Capture::on(run, resolved, ports, TapFilter { hosts: None, max })
    }

    /// Creates a capture of the packets of one flow on all links of the fabric, with their drops. `flow` is the record
    /// of the flow from another simulation of the same run, which has the same flows. The capture ends after `max`
    /// records of packets to one of the flow's hosts.
    ///
    /// # Errors
    /// As [`Capture::of_link`].
    pub fn of_flow(run: &RunSpec, resolved: &Resolved, flow: &FlowRecord, max: usize) -> Result<Capture, SetupError> {
        needs_flows(run)?;
        let hosts = Some([HostId(flow.src), HostId(flow.dst)]);
        let ports = |topology: &Topology| Ok(topology.port_ids().collect());
        let capture = Capture::on(run, resolved, ports, TapFilter { hosts, max })?;
        Ok(Capture { flow: Some(flow.id), is_everywhere: true, ..capture })
    }

    fn on(
        run: &RunSpec, resolved: &Resolved, ports: impl FnOnce(&Topology) -> Result<Vec<PortId>, String>,
        filter: TapFilter,
    ) -> Result<Capture, SetupError> {
        let impossible = |why: String| Err(SetupError::Capture(why));
        if !run.fidelity.is_packet() {
            return impossible("a capture has packets, and a run with fidelity = \"flow\" simulates none".to_string());
        }
        if !run.beside.is_empty() {
            return impossible(
                "a capture needs a run whose traffic has one priority, without [[run.beside]]".to_string(),
            );
        }
        if run.fast_forward > 0.0 {
            return impossible("a capture has every frame, and `fast_forward` skips some: leave it out".to_string());
        }
        if resolved.splits_excess {
            return impossible(
                "a capture and `[watch] excess` need the same records of frames: leave one out".to_string(),
            );
        }
        // The headers of a program in P4 are bytes.
        let is_program = resolved.messages.as_ref().is_some_and(|plan| plan.p4.is_some());
        if run.transport.declaration.wire == WireFormat::Other && !is_program {
            let transport = &run.transport.name;
            return impossible(format!("a capture has RoCE frames, and transport = \"{transport}\" sends none"));
        }
        let mtu = resolved.flow.mtu;
        if !is_program && (!mtu.is_multiple_of(4) || mtu > MAX_MTU) {
            return impossible(format!(
                "a capture needs an mtu that is a multiple of 4 bytes and at most {MAX_MTU} bytes, not {mtu} bytes"
            ));
        }
        let topology = &resolved.topology;
        let ports = ports(topology).map_err(SetupError::Capture)?;
        let marking = resolved.fabric.switch.ecn.is_some();
        Ok(Capture {
            irn: run.transport.declaration.wire == WireFormat::Irn,
            acks: resolved.flow.acks,
            mtu,
            first_psn: Vec::new(),
            ecn: if marking { ECN_CAPABLE } else { 0 },
            priorities: ((1_u16 << resolved.fabric.switch.priorities) - 1) as u8,
            interfaces: ports.iter().map(|port| topology.port_name(*port)).collect(),
            nodes: ports.iter().map(|port| topology.port(*port).node).collect(),
            ports,
            filter,
            flow: None,
            is_everywhere: false,
            topology: topology.clone(),
            frames: Vec::new(),
            kept: Vec::new(),
            is_full: false,
        })
    }

    /// Before the run: makes the fabric record the frames of the captured link.
    pub(crate) fn begin<B: Body>(&self, fabric: &mut Fabric<B>) {
        self.ports.iter().for_each(|port| fabric.tap(*port, self.filter));
    }

    /// After the run: takes the recorded frames from the fabric and finds the flow of each packet. `addresses`
    /// identifies the packets of each flow; `flows` has the records of the flows.
    pub(crate) fn end<T: InBand>(&mut self, fabric: &Fabric<Segment<T>>, addresses: &[FlowAddress], flows: &FlowLog) {
        // Ids of flow records, by the destination and the hash of the flow's packets, in order of the flows' starts.
        let mut data: BTreeMap<(EndAddress, u32), Vec<u32>> = BTreeMap::new();
        let mut replies: BTreeMap<(EndAddress, u32), Vec<u32>> = BTreeMap::new();
        for (record, flow) in (0..).zip(addresses) {
            data.entry((flow.receiver, flow.hashes.data)).or_default().push(record);
            replies.entry((flow.sender, flow.hashes.control)).or_default().push(record);
        }
        let content = |packet: &SimulatedPacket<Segment<T>>, at: Time| {
            if packet.is_pause() {
                return Some(Content::Pause(packet.paused_priorities()));
            }
            let pdu = packet.body.pdu;
            let flows_of = if pdu.kind() == PduKind::Data { &data } else { &replies };
            // After a flow has retired, another flow takes its slot on the host. The packet therefore belongs to the
            // last flow with this destination and hash that had started by then. On a persistent connection it may
            // belong to an earlier flow of the connection.
            let end = EndAddress { host: packet.dst, slot: packet.body.slot };
            // Packets of a sprayed flow have entropy in their hash; applied twice, the entropy cancels out.
            let path = if pdu.kind() == PduKind::Data { pdu.path() } else { 0 };
            let own_hash = flow_hash(packet.flow_hash, path);
            let candidates = flows_of.get(&(end, own_hash)).map_or(&[][..], Vec::as_slice);
            let started = candidates.partition_point(|record| flows.get(*record).is_some_and(|flow| flow.start <= at));
            let record = of_connection(&candidates[..started], addresses, pdu);
            let (hash, priority, marked) = (packet.flow_hash, packet.priority, packet.is_marked());
            Some(Content::Packet { record: record?, hash, priority, marked, pdu })
        };
        for (interface, port) in (0..).zip(&self.ports) {
            let noted = fabric.tapped(*port);
            self.frames.extend(noted.iter().filter_map(|frame| {
                let content = content(&frame.packet, frame.at)?;
                let is_wanted = match content {
                    Content::Packet { record, .. } => self.flow.is_none_or(|flow| flow == record),
                    Content::Pause(_) | Content::Nic(_) | Content::Program(_) => self.flow.is_none(),
                };
                let (bytes, flags) = (frame.packet.bytes, frame.packet.flags);
                is_wanted.then_some(Frame { at: frame.at, interface, content, fate: frame.fate, bytes, flags })
            }));
            self.is_full |= noted.len() >= self.filter.max;
        }
        self.sort();
        self.first_psn = addresses.iter().map(|flow| flow.first_psn).collect();
    }

    /// As [`Capture::end`], for a fabric of simulated NICs, whose packets have their headers.
    pub(crate) fn end_of_nics<B: NicSegment>(&mut self, fabric: &Fabric<B>) {
        self.take(fabric, Capture::keep);
    }

    /// As [`Capture::end`], for the packets of a program in P4, whose headers are the bytes that its deparser has
    /// emitted.
    pub(crate) fn end_of_programs<H: PacketHeader, T: InBand>(
        &mut self, fabric: &Fabric<MessageSegment<H, T>>, framing: &Framing,
    ) {
        self.take(fabric, |capture, frame| {
            let packet = &frame.packet;
            if packet.is_pause() {
                return Some(Content::Pause(packet.paused_priorities()));
            }
            let bytes = packet.body.header.bytes()?;
            let at = capture.kept.len();
            capture.kept.extend_from_slice(bytes);
            let is_control = packet.flags & SimulatedPacket::<H>::CONTROL != 0;
            let around = framing.header.max(bytes.len() as u32) as usize;
            let payload = if is_control { 0 } else { usize::from(packet.bytes).saturating_sub(around) };
            let (headers, priority) = (bytes.len(), packet.priority);
            Some(Content::Program(ProgramPacket { priority, is_control, at, headers, payload }))
        });
    }

    /// Takes the recorded frames from the fabric. `keep` returns the content of a frame.
    fn take<B: Body>(&mut self, fabric: &Fabric<B>, keep: impl Fn(&mut Capture, &Tapped<B>) -> Option<Content>) {
        for interface in 0..self.ports.len() {
            let noted = fabric.tapped(self.ports[interface]);
            for frame in noted {
                let Some(content) = keep(self, frame) else { continue };
                let Tapped { at, packet, fate } = frame;
                let (bytes, flags) = (packet.bytes, packet.flags);
                self.frames.push(Frame { at: *at, interface: interface as u32, content, fate: *fate, bytes, flags });
            }
            self.is_full |= noted.len() >= self.filter.max;
        }
        self.sort();
    }

    /// Keeps the headers of a packet of a simulated NIC. `None` if the body is not a packet.
    fn keep<B: NicSegment>(&mut self, frame: &Tapped<B>) -> Option<Content> {
        let packet = &frame.packet;
        if packet.is_pause() {
            return Some(Content::Pause(packet.paused_priorities()));
        }
        let parsed = packet.body.packet()?;
        let (at, headers) = (self.kept.len(), parsed.headers.len());
        self.kept.resize(at + headers, 0);
        parsed.headers.emit(&mut self.kept[at..]);
        if parsed.payload.len() <= MAX_KEPT {
            self.kept.extend_from_slice(parsed.payload);
        }
        Some(Content::Nic(NicPacket {
            src: packet.body.src(),
            dst: packet.dst,
            hash: packet.flow_hash,
            priority: packet.priority,
            is_marked: packet.is_marked(),
            is_control: packet.flags & SimulatedPacket::<B>::CONTROL != 0,
            at,
            payload: parsed.payload.len(),
        }))
    }

    /// The packet of a simulated NIC, whose headers were kept.
    fn nic_packet<'z>(&'z self, packet: &NicPacket, zeros: &'z [u8]) -> Option<Packet<'z>> {
        let headers = Headers::parse(&self.kept[packet.at..]).ok()?;
        let at = packet.at + headers.len();
        let kept = packet.payload <= MAX_KEPT;
        Some(Packet::new(headers, if kept { &self.kept[at..at + packet.payload] } else { &zeros[..packet.payload] }))
    }

    /// Brings the frames into the order of time, and limits their number.
    fn sort(&mut self) {
        self.frames.sort_by_key(|frame| (frame.at, frame.interface));
        self.is_full |= self.frames.len() > self.filter.max;
        self.frames.truncate(self.filter.max);
    }

    /// Number of frames captured so far.
    pub fn frames(&self) -> usize {
        self.frames.len()
    }

    /// Writes the capture as a pcapng file with one interface per port. `flows` has the records of the run's flows.
    ///
    /// # Errors
    /// `out` cannot be written, or the flow records cannot be read.
    pub fn write(&self, out: impl Write, flows: &FlowLog) -> io::Result<()> {
        let names: Vec<&str> = self.interfaces.iter().map(String::as_str).collect();
        let mut file = Writer::new(out, &names)?;
        let mut bytes = vec![0; MAX_PAYLOAD + 256];
        let zeros = vec![0; MAX_PAYLOAD];
        let mut progress = vec![0; flows.len()];
        // A frame that a node dropped is in the capture of the port that transmitted it.
        let on_links = |frame: &&Frame| matches!(frame.fate, Fate::Arrives(_) | Fate::Lost);
        for frame in self.frames.iter().filter(on_links) {
            let ns = frame.at.as_ps() / 1_000;
            match frame.content {
                Content::Pause(mask) => {
                    let source = mac(self.nodes[frame.interface as usize]);
                    file.frame(frame.interface, ns, &self.pause(mask).emit(source))?;
                }
                Content::Nic(nic) => {
                    let Some(packet) = self.nic_packet(&nic, &zeros) else { continue };
                    let ecn = if nic.is_control { 0 } else { self.ecn };
                    let ecn = if nic.is_marked { ECN_EXPERIENCED } else { ecn };
                    let envelope = envelope((nic.src.0, nic.dst.0), nic.hash, nic.priority << 5 | ecn);
                    let len = envelope.emit(&packet, &mut bytes);
                    file.frame(frame.interface, ns, &bytes[..len])?;
                }
                Content::Program(packet) => {
                    let end = packet.headers + packet.payload;
                    bytes[..packet.headers].copy_from_slice(&self.kept[packet.at..packet.at + packet.headers]);
                    bytes[packet.headers..end].fill(0);
                    file.frame(frame.interface, ns, &bytes[..end])?;
                }
                Content::Packet { record, hash, priority, marked, pdu } => {
                    let Some(flow) = &flows.get(record) else { continue };
                    let is_data = pdu.kind() == PduKind::Data;
                    let index = self.index(record, pdu, &mut progress[record as usize]);
                    let packet = match pdu.kind() {
                        PduKind::Data => self.data(flow, pdu.psn(), index, &zeros),
                        PduKind::Ack | PduKind::Nack => Packet::new(self.acknowledgement(flow, pdu, index), &[]),
                        PduKind::Cnp => Packet::cnp(requester_qp(flow)),
                    };
                    let ecn = match (is_data, marked) {
                        (true, true) => ECN_EXPERIENCED,
                        (true, false) => self.ecn,
                        (false, _) => 0,
                    };
                    let ends = if is_data { (flow.src, flow.dst) } else { (flow.dst, flow.src) };
                    let envelope = envelope(ends, hash, priority << 5 | ecn);
                    let len = envelope.emit(&packet, &mut bytes);
                    file.frame(frame.interface, ns, &bytes[..len])?;
                }
            }
        }
        flows.check()?;
        file.finish().map(|_| ())
    }

    fn pause(&self, mask: u8) -> Pfc {
        let quanta = |priority: usize| if mask >> priority & 1 == 1 { PAUSE_QUANTA } else { 0 };
        Pfc { enabled: self.priorities, quanta: std::array::from_fn(quanta) }
    }

    /// The index of a packet among the packets of the flow `record`, counted from 0. Unlike the PSN, it does not wrap:
    /// of all indices that have the packet's PSN, it is the nearest to `last`, the index of the flow's previous packet
    /// on this link. A CNP has no PSN and gets the index `last`.
    fn index(&self, record: u32, pdu: Pdu, last: &mut u64) -> u64 {
        if pdu.kind() != PduKind::Cnp {
            let first = self.first_psn[record as usize];
            let distance = pdu.psn().distance_from(first.plus((*last & u64::from(MAX_24)) as u32));
            *last = last.saturating_add_signed(distance.into());
        }
        *last
    }

    /// Maximum number of packets of an RDMA message in the capture.
    fn message_packets(&self) -> u64 {
        MAX_MESSAGE / u64::from(self.mtu)
    }

    fn packets(&self, flow: &FlowRecord) -> u64 {
        flow.bytes.div_ceil(u64::from(self.mtu)).max(1)
    }

    /// The data packet with the number `index` of a flow, as a packet of the RDMA Writes that the capture shows for the
    /// flow.
    fn data<'z>(&self, flow: &FlowRecord, psn: Psn, index: u64, zeros: &'z [u8]) -> Packet<'z> {
        let mtu = u64::from(self.mtu);
        let (message, within) = (index / self.message_packets(), index % self.message_packets());
        let offset = index * mtu;
        let payload = flow.bytes.saturating_sub(offset).min(mtu);
        let begin = message * self.message_packets() * mtu;
        let message_bytes = (flow.bytes - begin.min(flow.bytes)).min(self.message_packets() * mtu);
        let ends = index + 1 >= self.packets(flow) || within + 1 == self.message_packets();
        let position = match (within == 0, ends) {
            (true, true) => Position::Only,
            (true, false) => Position::First,
            (false, true) => Position::Last,
            (false, false) => Position::Middle,
        };
        let service = if self.irn { Service::Irn } else { Service::Rc };
        let opcode =
            Opcode::new(service, Operation::Write, position, Extra::None).expect("RC and IRN have every Write");
        let bth = Bth { ack_request: self.acks || self.irn, ..Bth::new(opcode, responder_qp(flow), psn.value()) };
        let has_reth = self.irn || opcode.starts_message();
        let dma_len = (message_bytes - within * mtu) as u32;
        let reth = has_reth.then_some(Reth { va: offset, rkey: responder_qp(flow), dma_len });
        Packet::new(Headers { reth, ..Headers::new(bth) }, &zeros[..payload as usize])
    }

    /// The headers of a captured ACK or NACK. `index` is the index of the data packet that the receiver expects next.
    fn acknowledgement(&self, flow: &FlowRecord, pdu: Pdu, index: u64) -> Headers {
        let is_nack = pdu.kind() == PduKind::Nack;
        let expected = pdu.psn();
        let before = Psn::new(expected.value().wrapping_sub(1));
        let complete = index == self.packets(flow) && !index.is_multiple_of(self.message_packets());
        let msn = (index / self.message_packets() + u64::from(complete)) as u32;
        let (syndrome, psn, arrived) = match is_nack {
            true => (Syndrome::Nak(NakCode::PsnSequenceError), expected, pdu.trigger()),
            false => (Syndrome::ACK, before, before),
        };
        let opcode = if self.irn { Opcode::IRN_ACKNOWLEDGE } else { Opcode::RC_ACKNOWLEDGE };
        Headers {
            aeth: Some(Aeth { syndrome, msn }),
            sack: self.irn.then_some(SackEth { psn: arrived.value(), before: 0 }),
            ..Headers::new(Bth::new(opcode, requester_qp(flow), psn.value()))
        }
    }
}

/// Finds the flow of a captured packet among the flows of one persistent connection, whose packets have the same
/// addresses and hashes. `records` has the ids of these flows in order of start. Each flow's PSNs follow those of the
/// previous flow. An ACK has the PSN after the packets that it acknowledges. A CNP has no PSN and is attributed to the
/// last flow.
fn of_connection(records: &[u32], addresses: &[FlowAddress], pdu: Pdu) -> Option<u32> {
    let (last, earlier) = records.split_last()?;
    let min = i32::from(pdu.kind() == PduKind::Ack);
    let is_of = |record: &u32| pdu.psn().distance_from(addresses[*record as usize].first_psn) >= min;
    if earlier.is_empty() || pdu.kind() == PduKind::Cnp || is_of(last) {
        return Some(*last);
    }
    Some(*earlier.iter().rfind(|record| is_of(record)).unwrap_or(last))
}

/// Fails if the packets of a run do not belong to flows.
fn needs_flows(run: &RunSpec) -> Result<(), SetupError> {
    let transport = &run.transport.name;
    let why = match run.transport.declaration.wire {
        WireFormat::Nic => "belong to connections of NICs, not to flows",
        WireFormat::Other if run.transport.declaration.reads_program => {
            "have the headers of a program, which names no flows"
        }
        _ => return Ok(()),
    };
    Err(SetupError::Capture(format!("the packets of transport = \"{transport}\" {why}; --pcap captures them")))
}

/// The ports at both ends of every link between the two nodes that `link` names.
fn find_ports(topology: &Topology, link: &str) -> Result<Vec<PortId>, String> {
    let mut ports = crate::link::ports(topology, link)?;
    ports.extend(ports.clone().into_iter().map(|port| topology.port(port).peer));
    ports.sort_unstable();
    Ok(ports)
}

/// Queue pair number that the capture shows for the flow's requester. Each flow has its own queue pair at each end. The
/// numbers start at 16, because the lowest numbers are reserved for management.
fn requester_qp(flow: &FlowRecord) -> u32 {
    16 + (2 * u64::from(flow.id) % u64::from(MAX_24 - 32)) as u32
}

fn responder_qp(flow: &FlowRecord) -> u32 {
    requester_qp(flow) + 1
}

/// The locally administered MAC address that the capture shows for a node.
fn mac(node: u32) -> MacAddr {
    let [_, a, b, c] = node.to_be_bytes();
    MacAddr([2, 0, 0, a, b, c])
}

/// The IP address that the capture shows for a host; host 0 has 10.0.0.1.
fn address(host: u32) -> Ipv4Addr {
    let [_, a, b, c] = (host + 1).to_be_bytes();
    Ipv4Addr::new(10, a, b, c)
}

/// The headers around a packet from one host to another.
fn envelope((source, destination): (u32, u32), hash: u32, tos: u8) -> Envelope {
    let ip = Ip::V4(Ipv4 { tos, ..Ipv4::new(address(source), address(destination)) });
    Envelope::new(mac(destination), mac(source), ip, 0xc000 | hash as u16 & 0x3fff)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::host::{EndSlot, FlowHashes};
    use rnic_fabric::config::{FabricSpec, LinkSpec, SwitchSpec, TopologySpec};
    use rnic_transport::{BitRate, Bytes};

    fn capture(irn: bool) -> Capture {
        let link = LinkSpec { rate: BitRate::from_gbps(100), delay: Time::from_us(1), loss: 0.0 };
        let switch = SwitchSpec::input_queued(Bytes(240_000));
        let spec = FabricSpec::new(TopologySpec::SingleSwitch { hosts: 2 }, link, switch);
        Capture {
            irn,
            acks: false,
            mtu: 4096,
            first_psn: Vec::new(),
            ecn: 0,
            priorities: 1,
            ports: Vec::new(),
            interfaces: Vec::new(),
            nodes: Vec::new(),
            filter: TapFilter::ALL,
            flow: None,
            is_everywhere: false,
            topology: Arc::new(Topology::build(&spec).unwrap()),
            frames: Vec::new(),
            kept: Vec::new(),
            is_full: false,
        }
    }

    fn flow(id: u32, bytes: u64) -> FlowRecord {
        FlowRecord {
            id,
            src: 0,
            dst: 1,
            bytes,
            start: Time::ZERO,
            finish: None,
            ideal: Time::ZERO,
            delivered: 0,
            retransmitted: 0,
            timeouts: 0,
            request: u32::MAX,
            traffic: 0,
            measured: true,
        }
    }

    fn data(capture: &Capture, flow: &FlowRecord, index: u64) -> (Opcode, Option<Reth>, usize) {
        let packet = capture.data(flow, Psn::new(index as u32), index, &[0; 4096]);
        (packet.headers.bth.opcode, packet.headers.reth, packet.payload.len())
    }

    /// An RDMA message has at most 2^31 bytes, which are 2^19 packets of 4 KiB.
    #[test]
    fn a_long_flow_is_several_messages() {
        let (rc, irn) = (capture(false), capture(true));
        let flow = flow(0, (1 << 31) + 4096 + 5);
        let (edge, rkey) = (1 << 19, 17);
        let reth = |va, dma_len| Some(Reth { va, rkey, dma_len });
        assert_eq!(data(&rc, &flow, 0), (Opcode::RC_WRITE_FIRST, reth(0, 1 << 31), 4096));
        assert_eq!(data(&rc, &flow, 1), (Opcode::RC_WRITE_MIDDLE, None, 4096));
        assert_eq!(data(&rc, &flow, edge - 1), (Opcode::RC_WRITE_LAST, None, 4096));
        assert_eq!(data(&rc, &flow, edge), (Opcode::RC_WRITE_FIRST, reth(1 << 31, 4101), 4096));
        assert_eq!(data(&rc, &flow, edge + 1), (Opcode::RC_WRITE_LAST, None, 5));
        assert_eq!(data(&irn, &flow, 1), (Opcode::IRN_WRITE_MIDDLE, reth(4096, (1 << 31) - 4096), 4096));
        assert_eq!(data(&irn, &flow, edge - 1), (Opcode::IRN_WRITE_LAST, reth((1 << 31) - 4096, 4096), 4096));
        assert_eq!(data(&irn, &flow, edge + 1), (Opcode::IRN_WRITE_LAST, reth((1 << 31) + 4096, 5), 5));
    }

    #[test]
    fn a_flow_of_one_packet() {
        let reth = Some(Reth { va: 0, rkey: 23, dma_len: 1 });
        assert_eq!(data(&capture(false), &flow(3, 1), 0), (Opcode::RC_WRITE_ONLY, reth, 1));
        assert_eq!(data(&capture(true), &flow(3, 1), 0), (Opcode::IRN_WRITE_ONLY, reth, 1));
    }

    #[test]
    fn acknowledgements_count_messages() {
        let flow = flow(0, (1 << 31) + 4096 + 5);
        let of = |index: u64| {
            capture(true).acknowledgement(&flow, Pdu::ack(Psn::new(index as u32), Default::default()), index)
        };
        let msn = |index| of(index).aeth.map(|aeth| aeth.msn);
        let edge = 1 << 19;
        assert_eq!([0, 1, edge - 1, edge, edge + 1, edge + 2].map(msn), [0, 0, 0, 1, 1, 2].map(Some));
        let ack = of(9);
        assert_eq!((ack.bth.psn, ack.bth.dest_qp, ack.sack), (8, 16, Some(SackEth { psn: 8, before: 0 })));
        let nack = Pdu::nack(Psn::new(9), Psn::new(12), Default::default());
        let nack = capture(true).acknowledgement(&flow, nack, 9);
        let syndrome = Syndrome::Nak(NakCode::PsnSequenceError);
        assert_eq!(
            (nack.bth.psn, nack.aeth, nack.sack),
            (9, Some(Aeth { syndrome, msn: 0 }), Some(SackEth { psn: 12, before: 0 }))
        );
        let plain = capture(false).acknowledgement(&flow, Pdu::ack(Psn::new(0), Default::default()), 0);
        assert_eq!((plain.bth.opcode, plain.bth.psn, plain.sack), (Opcode::RC_ACKNOWLEDGE, MAX_24, None));
    }

    #[test]
    fn packets_are_counted_on_when_the_psn_wraps() {
        let capture = Capture { first_psn: vec![Psn::new(MAX_24)], ..capture(false) };
        let mut last = 0;
        let mut index = |psn: u32| capture.index(0, Pdu::data(Psn::new(psn), false, Time::ZERO), &mut last);
        assert_eq!([MAX_24, 0, 1, MAX_24, 3].map(&mut index), [0, 1, 2, 0, 4]);
        for step in 1..5 {
            assert_eq!(index((step << 22) - 1), u64::from(step) << 22);
        }
        assert_eq!(index(4), (1 << 24) + 5);
    }

    #[test]
    fn psns_tell_the_flows_of_a_connection_apart() {
        // The first flow has the PSNs -2 and -1 (modulo 2^24), the second flow the PSNs 0 to 3, and the third flow all
        // PSNs from 4 on.
        let address = |first| FlowAddress {
            receiver: EndAddress { host: HostId(1), slot: EndSlot(0) },
            sender: EndAddress { host: HostId(0), slot: EndSlot(0) },
            hashes: FlowHashes { data: 1, control: 2 },
            first_psn: Psn::new(MAX_24).plus(first),
        };
        let addresses = [address(u32::MAX), address(1), address(5)];
        let of = |records: &[u32], pdu| of_connection(records, &addresses, pdu);
        let psn = |number: u32| Psn::new(number.wrapping_sub(2));
        let data = |number| Pdu::data(psn(number), false, Time::ZERO);
        let ack = |number| Pdu::ack(psn(number), Default::default());
        let nack = |number| Pdu::nack(psn(number), psn(number + 1), Default::default());
        assert_eq!([0, 1, 2, 5, 6, 99].map(|n| of(&[0, 1, 2], data(n))), [0, 0, 1, 1, 2, 2].map(Some));
        assert_eq!([1, 2, 3, 6, 7].map(|n| of(&[0, 1, 2], ack(n))), [0, 0, 1, 1, 2].map(Some));
        assert_eq!([1, 2, 6].map(|n| of(&[0, 1, 2], nack(n))), [0, 1, 2].map(Some));
        assert_eq!(of(&[0, 1], data(6)), Some(1), "the third flow has not started");
        assert_eq!(of(&[0, 1, 2], Pdu::cnp()), Some(2));
        // One flow alone may have more packets than PSNs can order.
        assert_eq!(of(&[0], data(0x80_0001)), Some(0));
    }

    #[test]
    fn queue_pairs_are_never_those_for_management_or_multicast() {
        for id in [0, 1, (1 << 23) - 17, (1 << 23) - 16, u32::MAX] {
            let flow = flow(id, 1);
            assert!((16..MAX_24).contains(&requester_qp(&flow)) && (16..MAX_24).contains(&responder_qp(&flow)), "{id}");
        }
    }
}
