//! The prober of a ping on a device.

use crate::connections::{CONNECT_LEN, CONNECTED, Carrier, Posting, RECEIVE};
use crate::endpoint::EndpointConnections;
use crate::message::{Kind, MAX_PROBE, MIN_PROBE, Message};
use crate::prober::{Outcome, ProbeError, Prober, ProberConfig};
use crate::summary::{About, Summary, Tally};
use crate::{Control, Outbox, PingError, VERSION, check_version, no_arrival_times, unexpected};
use rnic_endpoint::clock::ContinuousClock;
use rnic_endpoint::exchange::{Channel, Credentials, ExchangeError};
use rnic_endpoint::port::{ROCE_PORT, UdpConfig};
use rnic_endpoint::{
    Access, Capacities, Completion, CompletionQueue, Config, Data, DatagramAddress, DatagramOptions, Device, GRH_LEN,
    MemoryRegion, Mode, Opcode, QpOptions, QueuePair, Recipient, Security, SendFlags, SendOp, SendRequest, Service,
    Status, TimeSource, VerbsError,
};
use rnic_transport::Time;
use rnic_untrusted::text::{MAX_CHARS, brief};
use rnic_verbs::AddressHandle;
use serde::de::IgnoredAny;
use std::net::{IpAddr, SocketAddr};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

/// Options of [`ping`].
#[derive(Clone, Debug)]
pub struct PingOptions {
    /// Number of probes; `None`: until `stop` is set, for at most 200 days.
    pub count: Option<u64>,
    /// Time between two probes, 1 ms to 1 hour.
    pub interval: Time,
    /// Time after which a probe without a response counts as lost, 1 ms to 1 minute.
    pub timeout: Time,
    /// Payload bytes of a probe, 136 to the path MTU of datagrams, which is at most 4096.
    pub size: usize,
    /// Number of paths, 1 to 256. Each path has its own UDP source port, and the probes use the paths in turn.
    pub paths: u16,
    /// Differentiated services code point of the probes, 0 to 63.
    pub dscp: u8,
    /// UDP port of the prober's device; 0 stands for any free port.
    pub roce_port: u16,
    /// The carrier of the probes.
    pub carrier: Carrier,
    /// The credentials of both ends for TLS. With `None` the exchange is plain TCP.
    pub credentials: Option<Credentials>,
}

impl Default for PingOptions {
    fn default() -> PingOptions {
        PingOptions {
            count: None,
            interval: Time::from_ms(1_000),
            timeout: Time::from_ms(1_000),
            size: 512,
            paths: 1,
            dscp: 0,
            roce_port: ROCE_PORT,
            carrier: Carrier::Ud,
            credentials: None,
        }
    }
}

impl PingOptions {
    fn check(&self) -> Result<(), PingError> {
        let refuse = |why: String| Err(PingError::Option(why));
        let (ms, minute) = (Time::from_ms(1), Time::from_ms(60_000));
        if !(ms..=Time::from_ms(3_600_000)).contains(&self.interval) {
            return refuse(format!("an interval of {} is not possible; it must be 1 ms to 1 hour", self.interval));
        }
        if !(ms..=minute).contains(&self.timeout) {
            return refuse(format!("a timeout of {} is not possible; it must be 1 ms to 1 minute", self.timeout));
        }
        if !(MIN_PROBE..=MAX_PROBE).contains(&self.size) {
            let size = self.size;
            return refuse(format!("a probe of {size} bytes is not possible; it must have {MIN_PROBE} to {MAX_PROBE}"));
        }
        if !(1..=256).contains(&self.paths) {
            return refuse(format!("{} paths are not possible; there must be 1 to 256", self.paths));
        }
        if self.count == Some(0) {
            return refuse("0 probes are not possible; there must be at least 1".to_string());
        }
        if self.dscp > 63 {
            return refuse(format!("a DSCP of {} is not possible; it must be 0 to 63", self.dscp));
        }
        Ok(())
    }
}

/// An event of [`ping`].
#[derive(Clone, Copy, Debug)]
pub enum PingEvent<'a> {
    /// The session is open: IP address, UDP port and queue pair number of the responder.
    Open(SocketAddr, u32),
    /// The prober does not know when the kernel received the responses, for this reason.
    NoArrivalTimes(&'a str),
    /// The outcome of a probe.
    Outcome(&'a Outcome),
}

/// Number of posted receives, and number of slots for outgoing probes.
const SLOTS: usize = 128;
/// Bit in the identifier of a work request that marks a Send of a probe.
const SENT: u64 = 1 << 63;
/// Maximum duration of a ping, because its clock overflows after 213 days.
const MAX_LENGTH: Time = Time::from_ms(200 * 24 * 3_600_000);
/// Maximum time between two checks of `stop`.
const STOP_CHECK_INTERVAL: Time = Time::from_ms(100);

/// Probes the responder at `host` ("host:port") until all probes have an outcome, the responder has ended, or `stop` is
/// set. Calls `event` for each event, with the UDP source port of the path for an outcome, and with 0 for other events.
///
/// # Errors
/// If the session cannot be opened, for example because no responder listens at `host`, or if the local device fails.
/// Lost probes are not an error.
pub fn ping(
    host: &str, options: &PingOptions, stop: &AtomicBool, mut event: impl FnMut(PingEvent<'_>, u16),
) -> Result<Summary, PingError> {
    options.check()?;
    let mut channel = match &options.credentials {
        None => Channel::connect(host)?,
        Some(credentials) => Channel::connect_secured(host, credentials)?,
    };
    let mut end = ProbeDevice::open(channel.local_addr().ip(), channel.peer_addr().ip(), options)?;
    let (session, responder) = open_session(&mut channel, end.address)?;
    event(PingEvent::Open(responder.addr, responder.qpn), 0);
    if let Some(why) = no_arrival_times(end.device.arrival_times()) {
        event(PingEvent::NoArrivalTimes(&why), 0);
    }
    let ports: Vec<u16> = (0..options.paths).map(|path| end.device.source_port(path.into())).collect();
    let speaker = channel.speaker();
    let has_ended = Arc::new(AtomicBool::new(false));
    let watch = {
        let (has_ended, device) = (has_ended.clone(), end.device.clone());
        move || {
            // The responder sends no further message, so this returns when one of the two ends closes the connection.
            let _ = channel.receive_within::<IgnoredAny>(None);
            has_ended.store(true, Ordering::Release);
            device.interrupt();
        }
    };
    let watcher = std::thread::Builder::new().name("rnic-ping".to_string()).spawn(watch);
    watcher.map_err(|error| PingError::Device(error.into()))?;
    let config = ProberConfig {
        session,
        paths: options.paths,
        interval: options.interval,
        timeout: options.timeout,
        count: options.count,
    };
    let mut tally = Tally::new(&ports);
    let mut prober = Prober::new(config, end.clock.now());
    let result = end.run(&mut prober, session, responder, options, (stop, &has_ended), |outcome| {
        tally.add(outcome);
        event(PingEvent::Outcome(outcome), ports.get(usize::from(outcome.path)).copied().unwrap_or(0));
    });
    let responder_ended = has_ended.load(Ordering::Acquire);
    speaker.hang_up();
    result?;
    let interrupted = stop.load(Ordering::Relaxed);
    let (size, carrier, stray) = (options.size, options.carrier, prober.unexpected() + end.unexpected);
    let (qpn, responder) = (responder.qpn, responder.addr);
    Ok(tally.summary(About { host, responder, qpn, carrier, size, stray, interrupted, responder_ended }))
}

/// Opens a session with the responder.
fn open_session(channel: &mut Channel, prober: DatagramAddress) -> Result<(u64, DatagramAddress), PingError> {
    channel.send(&Control::Hello { ping: VERSION, prober })?;
    match channel.receive()? {
        Control::Welcome { ping, session, responder } => {
            check_version(channel, ping)?;
            let peer = channel.peer_addr();
            if responder.addr.ip().to_canonical() != peer.ip() {
                let why = format!("{peer} has its device on {}; it must be on {}", responder.addr.ip(), peer.ip());
                return Err(ExchangeError::Disagreement(why).into());
            }
            Ok((session, DatagramAddress { addr: SocketAddr::new(peer.ip(), responder.addr.port()), ..responder }))
        }
        Control::Refused { why } => Err(PingError::Refused(brief(&why, MAX_CHARS).into_owned())),
        Control::Hello { .. } => Err(unexpected(channel).into()),
    }
}

/// The device of a prober.
struct ProbeDevice {
    device: Device,
    clock: ContinuousClock,
    cq: CompletionQueue,
    qp: QueuePair,
    address: DatagramAddress,
    outbox: Outbox,
    inbox: MemoryRegion,
    /// Reliable connections, if the probes use them.
    connections: Option<EndpointConnections>,
    /// Length of a receive buffer in bytes.
    slot: usize,
    /// Number of datagrams from other senders than the responder.
    unexpected: u64,
    /// Number of batches of packets that the system has refused to send so far.
    unsendable: u64,
}

impl ProbeDevice {
    fn open(local: IpAddr, peer: IpAddr, options: &PingOptions) -> Result<ProbeDevice, PingError> {
        let udp = UdpConfig { source_ports: options.paths.into(), arrival_times: true, ..UdpConfig::default() };
        let config = Config { mode: Mode::Polled, security: Security::None, udp, ..Config::default() };
        let device = Device::open_at(SocketAddr::new(local, options.roce_port), config)?;
        let cq = device.completion_queue((4 * SLOTS + EndpointConnections::COMPLETIONS) as u32)?;
        let pd = device.protection_domain();
        let capacities = Capacities { send_wr: SLOTS as u32, recv_wr: SLOTS as u32, ..Capacities::default() };
        let qp = pd.queue_pair(&QpOptions { service: Service::Ud, capacities, ..QpOptions::new(&cq) })?;
        let mtu = qp.path_mtu(SocketAddr::new(peer, ROCE_PORT))?;
        if options.size > mtu as usize {
            return Err(PingError::Option(format!(
                "a probe of {} bytes is too long: a datagram on the path to {peer} has at most {mtu}",
                options.size
            )));
        }
        let address = qp.open_datagrams(&DatagramOptions { qkey: None, mtu })?;
        let outbox = Outbox { region: pd.allocate(Outbox::len(SLOTS), Access::LOCAL)?, slots: SLOTS };
        let slot = GRH_LEN as usize + options.size;
        let inbox = pd.allocate(SLOTS * slot, Access::LOCAL)?;
        let connections = match options.carrier {
            Carrier::Ud => None,
            Carrier::RcSend | Carrier::RcWrite => Some(EndpointConnections::new(&pd, &cq)?),
        };
        let clock = ContinuousClock::start(device.clock());
        let (unexpected, unsendable) = (0, 0);
        let end =
            ProbeDevice { device, clock, cq, qp, address, outbox, inbox, connections, slot, unexpected, unsendable };
        for slot in 0..SLOTS {
            end.receive_into(slot)?;
        }
        Ok(end)
    }

    fn receive_into(&self, slot: usize) -> Result<(), PingError> {
        Ok(self.qp.post_recv(slot as u64, &[self.inbox.slice(slot * self.slot, self.slot)?])?)
    }

    /// Sends probes and receives responses until the caller sets `stop`, or the responder has ended.
    fn run(
        &mut self, prober: &mut Prober, session: u64, responder: DatagramAddress, options: &PingOptions,
        (stop, has_ended): (&AtomicBool, &AtomicBool), mut report: impl FnMut(&Outcome),
    ) -> Result<(), PingError> {
        let mut found = [Completion::BLANK; 32];
        loop {
            let now = self.clock.now();
            if stop.load(Ordering::Relaxed) || now >= MAX_LENGTH {
                prober.abandon();
            } else if has_ended.load(Ordering::Acquire) {
                prober.end(ProbeError::Gone);
            }
            prober.on_time(now);
            self.send(prober, responder.recipient(), options)?;
            while let Some(mut outcome) = prober.poll_outcome() {
                if outcome.result == Err(ProbeError::Timeout) && self.was_unsendable() {
                    outcome.result = Err(ProbeError::Unreachable);
                }
                report(&outcome);
            }
            let Some(next) = prober.next_time() else { return Ok(()) };
            let wait = next.saturating_sub(self.clock.now()).min(STOP_CHECK_INTERVAL);
            let count = self.cq.wait(&mut found, wait)?;
            for completion in &found[..count] {
                self.completed(prober, session, &responder, options, completion)?;
            }
        }
    }

    /// Posts the next probe if it is due.
    fn send(&mut self, prober: &mut Prober, to: Recipient, options: &PingOptions) -> Result<(), PingError> {
        let Some(probe) = prober.poll_send(self.clock.now()) else { return Ok(()) };
        if options.carrier != Carrier::Ud {
            return self.send_connected(prober, &probe.message, to, options);
        }
        let gather = self.outbox.write(probe.sequence as usize, &probe.message.emit(), options.size)?;
        let (op, data, flags) = (SendOp::Send, Data::Gather(&gather), SendFlags::SIGNALED);
        let request = SendRequest { wr_id: SENT | probe.sequence, op, data, flags };
        let path = AddressHandle { flow: probe.path.into(), dscp: options.dscp, ..to.path };
        match self.qp.post_datagram(&request, &Recipient { path, ..to }) {
            Ok(()) => Ok(()),
            // The send queue is full, because the system does not accept the probes that were posted before.
            Err(rnic_endpoint::Error::Verbs(VerbsError::Full(_))) => {
                prober.failed(probe.sequence, ProbeError::Unreachable);
                Ok(())
            }
            Err(why) => Err(why.into()),
        }
    }

    /// Posts a probe on the reliable connection of its path. If the connection is not open, sends a connect datagram to
    /// the responder.
    fn send_connected(
        &mut self, prober: &mut Prober, message: &Message, to: Recipient, options: &PingOptions,
    ) -> Result<(), PingError> {
        let Some(connections) = &mut self.connections else { return Ok(()) };
        let (key, now) = ((message.session, message.path), self.clock.now());
        match connections.probe(options.carrier, key, message, options.size, now)? {
            Posting::Posted | Posting::Waiting => {}
            Posting::Full => prober.failed(message.sequence, ProbeError::Unreachable),
            Posting::Connect(connect) => {
                let mut bytes = [0; MIN_PROBE];
                bytes[..CONNECT_LEN].copy_from_slice(&connect);
                let (op, data, flags) = (SendOp::Send, Data::Inline(&bytes), SendFlags::default());
                let path = AddressHandle { flow: message.path.into(), dscp: options.dscp, ..to.path };
                match self.qp.post_datagram(&SendRequest { wr_id: 0, op, data, flags }, &Recipient { path, ..to }) {
                    // If the connect datagram is lost, a later probe repeats it.
                    Ok(()) | Err(rnic_endpoint::Error::Verbs(VerbsError::Full(_))) => {}
                    Err(why) => return Err(why.into()),
                }
            }
        }
        Ok(())
    }

    /// Posts the probes that wait for a connection, after the responder has accepted it.
    fn accepted(
        &mut self, prober: &mut Prober, message: &Message, datagram: &[u8], responder: &DatagramAddress,
        options: &PingOptions,
    ) -> Result<(), PingError> {
        let Some(connections) = &mut self.connections else { return Ok(()) };
        let key = (message.session, message.path);
        let path = (options.timeout, options.dscp);
        for sequence in connections.accepted(key, datagram, *responder, path)? {
            if prober.path_of(sequence) == Some(message.path) {
                let message = Message { kind: Kind::Probe, sequence, ..*message };
                self.send_connected(prober, &message, responder.recipient(), options)?;
            }
        }
        Ok(())
    }

    fn completed(
        &mut self, prober: &mut Prober, session: u64, responder: &DatagramAddress, options: &PingOptions,
        completion: &Completion,
    ) -> Result<(), PingError> {
        if completion.wr_id & SENT == 0
            && completion.wr_id & (CONNECTED | RECEIVE) != 0
            && let Some(connections) = &mut self.connections
        {
            if completion.wr_id & RECEIVE != 0 {
                // Peers send no messages to a prober, so this receive was flushed when its queue pair was closed.
                return Ok(());
            }
            let ok = completion.status == Status::Success;
            if let Some(posted) = connections.completed(completion.wr_id, ok).filter(|_| ok) {
                prober.acknowledged(posted.sequence, posted.at, self.clock.time(completion.time), self.clock.now());
            }
            return Ok(());
        }
        if completion.status != Status::Success {
            let (wr_id, status) = (completion.wr_id, completion.status);
            return Err(rnic_endpoint::Error::Failed { wr_id, status }.into());
        }
        if completion.opcode == Opcode::Send {
            prober.sent(completion.wr_id & !SENT, self.clock.time(completion.time));
            return Ok(());
        }
        let slot = completion.wr_id as usize;
        let is_responder = completion
            .source
            .is_some_and(|source| source.ip().to_canonical() == responder.addr.ip() && source.qpn().0 == responder.qpn);
        if is_responder {
            let mut datagram = [0; CONNECT_LEN];
            let len = (completion.byte_len as usize).saturating_sub(GRH_LEN as usize).min(CONNECT_LEN);
            self.inbox.read(slot * self.slot + GRH_LEN as usize, &mut datagram[..len])?;
            match Message::parse(&datagram[..len]) {
                Some(message) if message.kind == Kind::Accept && message.session == session => {
                    self.accepted(prober, &message, &datagram[..len], responder, options)?;
                }
                _ => prober.received(self.clock.time(completion.time), self.clock.now(), &datagram[..len]),
            }
        } else {
            self.unexpected += 1;
        }
        self.receive_into(slot)
    }

    /// Whether the system has refused to send packets since the last call.
    fn was_unsendable(&mut self) -> bool {
        let now = self.device.counters().driver.unsendable;
        std::mem::replace(&mut self.unsendable, now) < now
    }
}
