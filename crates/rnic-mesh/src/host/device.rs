//! The agent's device in software: one UD queue pair that sends and receives probes and responses.

use super::{CONNECTION_TIMEOUT, Shared};
use crate::agent::{Outgoing, ProbeId};
use rnic_endpoint::clock::ContinuousClock;
use rnic_endpoint::port::UdpConfig;
use rnic_endpoint::{
    Access, Capacities, Completion, CompletionQueue, Config, Data, DatagramAddress, DatagramOptions, Error, GRH_LEN,
    MemoryRegion, Mode, Opcode, QpOptions, QueuePair, Security, SendFlags, SendOp, SendRequest, Service, Status,
    TimeSource, VerbsError,
};
use rnic_probe::connections::{CONNECT_LEN, CONNECTED, Posting, RECEIVE};
use rnic_probe::endpoint::EndpointConnections;
use rnic_probe::message::{Kind, MAX_PROBE, MIN_PROBE, Message};
use rnic_probe::responder::Reply;
use rnic_probe::{Carrier, Outbox, is_posted, no_arrival_times};
use rnic_transport::Time;
use rnic_verbs::{AddressHandle, Recipient};
use std::net::{IpAddr, SocketAddr};
use std::sync::atomic::Ordering;

/// Number of posted receives.
const RECEIVES: usize = 512;
/// Maximum number of outstanding sends of each kind (probes and responses).
const SENDS: usize = 256;
/// Length of a receive in bytes.
const SLOT: usize = GRH_LEN as usize + MAX_PROBE;
/// Bits in the identifier of a work request that give its kind. A work request without these bits is a receive.
const PROBE: u64 = 1 << 62;
const RESPONSE: u64 = 1 << 61;
const REPORT: u64 = 1 << 60;
/// Maximum time between two checks of the flag that ends the agent.
const STOP_CHECK_INTERVAL: Time = Time::from_ms(100);

/// An open device.
pub(super) struct Device {
    device: rnic_endpoint::Device,
    clock: ContinuousClock,
    cq: CompletionQueue,
    qp: QueuePair,
    /// The address to which peers send.
    pub(super) address: DatagramAddress,
    inbox: MemoryRegion,
    /// Memory of the slots of probes, followed by the slots of responses.
    outbox: Outbox,
}

impl Device {
    pub(super) fn open(local: SocketAddr, paths: u16) -> Result<Device, Error> {
        let udp = UdpConfig { source_ports: paths.into(), arrival_times: true, ..UdpConfig::default() };
        let config = Config { mode: Mode::Polled, security: Security::None, udp, ..Config::default() };
        let device = rnic_endpoint::Device::open_at(local, config)?;
        let cq = device.completion_queue((RECEIVES + 3 * SENDS + EndpointConnections::COMPLETIONS) as u32 + 16)?;
        let pd = device.protection_domain();
        let (send_wr, recv_wr) = (3 * SENDS as u32, RECEIVES as u32);
        let capacities = Capacities { send_wr, recv_wr, ..Capacities::default() };
        let qp = pd.queue_pair(&QpOptions { service: Service::Ud, capacities, ..QpOptions::new(&cq) })?;
        let address = qp.open_datagrams(&DatagramOptions { qkey: None, mtu: MAX_PROBE as u32 })?;
        let inbox = pd.allocate(RECEIVES * SLOT, Access::LOCAL)?;
        let outbox = Outbox { region: pd.allocate(Outbox::len(2 * SENDS), Access::LOCAL)?, slots: 2 * SENDS };
        let clock = ContinuousClock::start(device.clock());
        let device = Device { device, clock, cq, qp, address, inbox, outbox };
        for slot in 0..RECEIVES {
            device.receive_into(slot)?;
        }
        Ok(device)
    }

    pub(super) fn now(&self) -> Time {
        self.clock.now()
    }

    /// Why the device does not know when the kernel received the packets; `None` if it knows.
    pub(super) fn no_arrival_times(&self) -> Option<String> {
        no_arrival_times(self.device.arrival_times())
    }

    pub(super) fn interrupt(&self) {
        self.device.interrupt();
    }

    pub(super) fn source_ports(&self, paths: u16) -> Vec<u16> {
        (0..paths).map(|path| self.device.source_port(path.into())).collect()
    }

    fn receive_into(&self, slot: usize) -> Result<(), Error> {
        self.qp.post_recv(slot as u64, &[self.inbox.slice(slot * SLOT, SLOT)?])
    }
}

/// The datagrams that have been posted and whose sends have not completed, by slot.
struct Leaving<'a> {
    device: &'a Device,
    probes: Vec<Option<ProbeId>>,
    /// Each response, with the arrival time of its probe (T3).
    responses: Vec<Option<(Reply, Time)>>,
    free_probes: Vec<usize>,
    free_responses: Vec<usize>,
    /// Reliable connections; created when the first one is needed.
    connections: Option<EndpointConnections>,
    /// Time at which the connections of closed sessions were last closed.
    closed: Time,
}

impl Leaving<'_> {
    fn connections(&mut self) -> Result<&mut EndpointConnections, Error> {
        if self.connections.is_none() {
            self.connections =
                Some(EndpointConnections::new(&self.device.device.protection_domain(), &self.device.cq)?);
        }
        self.connections.as_mut().ok_or(Error::Verbs(VerbsError::Unsupported("there are no connections")))
    }
}

/// Sends and receives datagrams until the agent ends.
pub(super) fn run(shared: &Shared, device: &Device) -> Result<(), Error> {
    let mut found = [Completion::BLANK; 64];
    let mut leaving = Leaving {
        device,
        probes: vec![None; SENDS],
        responses: vec![None; SENDS],
        free_probes: (0..SENDS).collect(),
        free_responses: (0..SENDS).collect(),
        connections: None,
        closed: shared.now(),
    };
    let mut datagram = vec![0; MAX_PROBE];
    while !shared.ended.load(Ordering::Acquire) {
        let now = shared.now();
        while !leaving.free_probes.is_empty() {
            let Some(probe) = shared.agent().poll_send(now) else { break };
            send(shared, &mut leaving, &probe, now)?;
        }
        if now.saturating_sub(leaving.closed) > Time::from_ms(1_000) {
            leaving.closed = now;
            if let Some(connections) = &mut leaving.connections {
                let agent = shared.agent();
                connections.retain(|key| agent.uses(key), |session| agent.serves(session));
            }
        }
        let next = shared.agent().next_time();
        let wait = next.map_or(STOP_CHECK_INTERVAL, |next| next.saturating_sub(shared.now()).min(STOP_CHECK_INTERVAL));
        let count = device.cq.wait(&mut found, wait)?;
        for completion in &found[..count] {
            completed(shared, &mut leaving, completion, &mut datagram)?;
        }
    }
    Ok(())
}

/// Posts a probe.
fn send(shared: &Shared, leaving: &mut Leaving<'_>, probe: &Outgoing, now: Time) -> Result<(), Error> {
    let device = leaving.device;
    let to = probe.to.recipient();
    let to = Recipient { path: AddressHandle { flow: probe.path.into(), dscp: probe.dscp, ..to.path }, ..to };
    if probe.carrier != Carrier::Ud {
        let key = (probe.id.session, probe.path);
        match leaving.connections()?.probe(probe.carrier, key, &probe.message, probe.len, now)? {
            Posting::Posted | Posting::Waiting => {}
            Posting::Full => shared.agent().unsendable(probe.id, now),
            Posting::Connect(connect) => {
                let mut bytes = [0; MIN_PROBE];
                bytes[..CONNECT_LEN].copy_from_slice(&connect);
                let (op, data, flags) = (SendOp::Send, Data::Inline(&bytes), SendFlags::default());
                // If the connect datagram is lost, a later probe repeats it.
                is_posted(device.qp.post_datagram(&SendRequest { wr_id: REPORT, op, data, flags }, &to))?;
            }
        }
        return Ok(());
    }
    let Some(slot) = leaving.free_probes.pop() else {
        shared.agent().unsendable(probe.id, now);
        return Ok(());
    };
    let gather = device.outbox.write(slot, &probe.message.emit(), probe.len)?;
    let (op, data, flags) = (SendOp::Send, Data::Gather(&gather), SendFlags::SIGNALED);
    let request = SendRequest { wr_id: PROBE | slot as u64, op, data, flags };
    if is_posted(device.qp.post_datagram(&request, &to))? {
        leaving.probes[slot] = Some(probe.id);
    } else {
        leaving.free_probes.push(slot);
        shared.agent().unsendable(probe.id, now);
    }
    Ok(())
}

/// Handles a datagram about a reliable connection: another agent requests one, or has accepted one.
fn on_connection_message(
    shared: &Shared, leaving: &mut Leaving<'_>, now: Time, source: (IpAddr, u32), message: &Message, datagram: &[u8],
) -> Result<(), Error> {
    let device = leaving.device;
    if message.kind == Kind::Connect {
        let admitted = shared.agent().connect(now, source, datagram);
        let Some((answer, prober)) = admitted else { return Ok(()) };
        let accept = leaving.connections()?.serve(message, datagram, prober, (CONNECTION_TIMEOUT, 0))?;
        if let Some(accept) = accept {
            let (op, data, flags) = (SendOp::Send, Data::Inline(&accept), SendFlags::default());
            is_posted(device.qp.post_datagram(&SendRequest { wr_id: REPORT, op, data, flags }, &answer.to))?;
        }
        return Ok(());
    }
    let (target, path) = {
        let agent = shared.agent();
        let list = agent.list().map_or((1_000, 0), |list| (list.timeout_ms, list.dscp));
        (agent.target(message.session, source), (Time::from_ms(list.0), list.1))
    };
    let Some(target) = target else { return Ok(()) };
    let session = message.session;
    for sequence in leaving.connections()?.accepted((session, message.path), datagram, target, path)? {
        let waiting = shared.agent().waiting(ProbeId { session, sequence });
        if let Some(probe) = waiting.filter(|probe| probe.path == message.path) {
            send(shared, leaving, &probe, now)?;
        }
    }
    Ok(())
}

fn completed(
    shared: &Shared, leaving: &mut Leaving<'_>, completion: &Completion, datagram: &mut [u8],
) -> Result<(), Error> {
    let device = leaving.device;
    let &Completion { wr_id, status, time, .. } = completion;
    if let Some(connections) = leaving.connections.as_mut().filter(|_| wr_id & (CONNECTED | RECEIVE) != 0) {
        if wr_id & RECEIVE != 0 {
            return connections.received(wr_id);
        }
        let ok = status == Status::Success;
        if let Some(posted) = connections.completed(wr_id, ok).filter(|_| ok) {
            let (arrived, now) = (device.clock.time(time), shared.now());
            let id = ProbeId { session: posted.key.0, sequence: posted.sequence };
            shared.agent().acknowledged(id, posted.at, arrived, now);
        }
        return Ok(());
    }
    if status != Status::Success {
        return Err(Error::Failed { wr_id, status });
    }
    let at = (wr_id & 0xffff_ffff) as usize;
    if completion.opcode == Opcode::Recv {
        let source = completion.source.map(|source| (source.ip(), source.qpn().0));
        if let (Some(source), Some(&slot)) = (source, leaving.free_responses.last()) {
            let len = (completion.byte_len as usize).saturating_sub(GRH_LEN as usize).min(MAX_PROBE);
            // The bytes after a connect datagram's fields are zeros.
            let head = len.min(CONNECT_LEN);
            device.inbox.read(at * SLOT + GRH_LEN as usize, &mut datagram[..head])?;
            let (arrived, now) = (device.clock.time(time), shared.now());
            let message = Message::parse(&datagram[..head]);
            if let Some(message) = message.filter(|m| matches!(m.kind, Kind::Connect | Kind::Accept)) {
                on_connection_message(shared, leaving, now, source, &message, &datagram[..len])?;
                return device.receive_into(at);
            }
            let answer = shared.agent().received(arrived, now, source, &datagram[..len]);
            if let Some(answer) = answer {
                let gather = device.outbox.write(SENDS + slot, &answer.response.emit(), answer.len)?;
                let (op, data, flags) = (SendOp::Send, Data::Gather(&gather), SendFlags::SIGNALED);
                let request = SendRequest { wr_id: RESPONSE | slot as u64, op, data, flags };
                if is_posted(device.qp.post_datagram(&request, &answer.to))? {
                    leaving.free_responses.pop();
                    leaving.responses[slot] = Some((answer, arrived));
                }
            }
        }
        return device.receive_into(at);
    }
    if wr_id & PROBE != 0
        && let Some(id) = leaving.probes.get_mut(at).and_then(Option::take)
    {
        leaving.free_probes.push(at);
        let time = device.clock.time(time);
        shared.agent().sent(id, time);
    } else if wr_id & RESPONSE != 0
        && let Some((answer, arrived)) = leaving.responses.get_mut(at).and_then(Option::take)
    {
        leaving.free_responses.push(at);
        let delay = device.clock.time(time).saturating_sub(arrived);
        let report = answer.report(delay).emit();
        let (op, data, flags) = (SendOp::Send, Data::Inline(&report), SendFlags::default());
        let request = SendRequest { wr_id: REPORT, op, data, flags };
        is_posted(device.qp.post_datagram(&request, &answer.to))?;
    }
    Ok(())
}
