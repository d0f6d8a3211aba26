//! The responder of a ping on devices.
//!
//! For each TCP connection, a thread opens a session, and closes it when the connection ends. For each local address
//! that probers use, a thread sends the responses.

use crate::connections::{CONNECT_LEN, RECEIVE};
use crate::endpoint::EndpointConnections;
use crate::message::{Kind, MAX_PROBE, Message};
use crate::responder::{MAX_SESSIONS, Reply, Responder, ResponderCounters};
use crate::{Control, Outbox, PingError, VERSION, check_version, is_posted, no_arrival_times, random, unexpected};
use nix::sys::resource::{Resource, getrlimit};
use parking_lot::Mutex;
use rnic_endpoint::clock::since;
use rnic_endpoint::exchange::{Admission, Admissions, Channel, Credentials, Limit, Speaker, accept, admit};
use rnic_endpoint::port::{ROCE_PORT, UdpConfig};
use rnic_endpoint::{
    Access, Capacities, Completion, CompletionQueue, Config, Data, DatagramAddress, DatagramOptions, Device, Error,
    GRH_LEN, MemoryRegion, Mode, Opcode, QpOptions, QueuePair, Security, SendFlags, SendOp, SendRequest, Service,
    Status, TimeSource,
};
use rnic_transport::Time;
use serde::de::IgnoredAny;
use std::cell::RefCell;
use std::collections::BTreeMap;
use std::io;
use std::net::{IpAddr, SocketAddr, TcpListener, TcpStream};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::mpsc::{self, SyncSender};
use std::thread::JoinHandle;

/// Options of [`respond`].
#[derive(Clone, Debug)]
pub struct RespondOptions {
    /// UDP port of the responder's devices; 0 stands for any free port.
    pub roce_port: u16,
    /// The credentials for TLS, with which probers must authenticate. With `None` every host may probe this host.
    pub credentials: Option<Credentials>,
}

impl Default for RespondOptions {
    fn default() -> RespondOptions {
        RespondOptions { roce_port: ROCE_PORT, credentials: None }
    }
}

/// An event of [`respond`].
#[derive(Debug)]
pub enum RespondEvent {
    /// A prober at this address has opened a session.
    Opened(SocketAddr),
    /// A prober at this address has closed its session.
    Closed(SocketAddr),
    /// A prober at this address could not open a session, for this reason.
    Failed(SocketAddr, PingError),
    /// The responder's device at this local address does not know when the kernel received the probes, for this reason.
    NoArrivalTimes(IpAddr, String),
}

/// Maximum number of TCP connections that have not opened a session. If a limit is reached, the server closes another
/// such connection and accepts the new one ([`Admissions`]).
const MAX_UNPROVED: Limit = Limit { of_all: 64, of_host: 8 };
/// Estimate of the file descriptors that the responder needs for everything except sessions: two for each connection
/// without a session, its devices, and the files of the program.
const OTHER_FILES: usize = 256;
/// Maximum number of events that wait to be reported; further ones are not reported. Each connection causes at most
/// two.
const MAX_EVENTS: usize = 2 * (MAX_SESSIONS[0] + MAX_UNPROVED.of_all);
/// Maximum number of local addresses that probers can use.
const MAX_LOCAL_ADDRESSES: usize = 16;
/// Number of posted receives.
const RECEIVES: usize = 512;
/// Maximum number of outstanding sends of responses.
const MAX_RESPONSES: usize = 256;
/// Bits in the identifier of a work request that mark a response or a report. A work request without these bits is a
/// receive.
const RESPONSE: u64 = 1 << 32;
const REPORT: u64 = 1 << 33;
/// Time without a response of the prober after which the responder aborts a reliable connection. The responder sends
/// only ACKs on it.
const CONNECTION_TIMEOUT: Time = Time::from_ms(60_000);
/// Maximum time between two checks of the flag that ends the responder.
const STOP_CHECK_INTERVAL: Time = Time::from_ms(100);
/// Length of a receive buffer in bytes.
const SLOT: usize = GRH_LEN as usize + MAX_PROBE;

/// Sends the responses to the probes of [`ping`](crate::ping) until `stop` is set. Reports sessions to `event`. Returns
/// the counters of all probes.
///
/// # Errors
/// An error of `listener` when it accepts a connection.
pub fn respond(
    listener: &TcpListener, options: RespondOptions, stop: &AtomicBool, event: impl FnMut(RespondEvent),
) -> io::Result<ResponderCounters> {
    let (events, received) = mpsc::sync_channel(MAX_EVENTS);
    let server = Arc::new(Server {
        options,
        responders: Mutex::new(BTreeMap::new()),
        speakers: Mutex::new(BTreeMap::new()),
        ended: AtomicBool::new(false),
    });
    let [of_all, of_host] = MAX_SESSIONS;
    let of_all = of_all.min(files_for_sessions());
    let admissions = Admissions::new(MAX_UNPROVED, Limit { of_all, of_host });
    let event = RefCell::new(event);
    let report = || received.try_iter().for_each(|received| (event.borrow_mut())(received));
    // `accept` calls this closure about ten times per second.
    let ends = || {
        report();
        stop.load(Ordering::Relaxed)
    };
    let mut accepted = Ok(());
    loop {
        let (stream, peer) = match accept(listener, &ends) {
            Ok(Some(client)) => client,
            Ok(None) => break,
            Err(error) => {
                accepted = Err(error);
                break;
            }
        };
        let Some(admission) = admit(&admissions, &stream, peer) else { continue };
        let (server, events) = (server.clone(), events.clone());
        let serve = move || server.serve(stream, peer, &admission, &events);
        // If no thread can be started, the prober is refused.
        let _ = std::thread::Builder::new().name("rnic-ping-peer".to_string()).spawn(serve);
    }
    let counters = server.end();
    report();
    accepted.map(|()| counters)
}

/// Number of sessions for which the file descriptors of this process suffice. When all sessions are in use, the
/// responder closes a session in favour of a new host. It needs a free descriptor to accept the new host's connection.
fn files_for_sessions() -> usize {
    let files = getrlimit(Resource::RLIMIT_NOFILE).map_or(MAX_SESSIONS[0] as u64, |(soft, _)| soft);
    usize::try_from(files).unwrap_or(usize::MAX).saturating_sub(OTHER_FILES).max(1)
}

/// Checks the address of a prober. It must be the address from which its TCP connection comes: otherwise the prober
/// could make this host send packets to a third party.
fn check_prober(channel: &Channel, prober: &DatagramAddress) -> Result<(), PingError> {
    let (address, peer) = (prober.addr.ip().to_canonical(), channel.peer_addr().ip());
    if address != peer {
        let why = format!("the prober has its device on {address}; it must be on {peer}");
        return Err(PingError::Refused(why));
    }
    if prober.addr.port() == 0 || prober.qpn >= 0xff_ffff {
        return Err(PingError::Refused("the prober has no UDP port or no queue pair".to_string()));
    }
    Ok(())
}

/// Reports an event, unless too many wait or the responder has ended.
fn report(events: &SyncSender<RespondEvent>, event: RespondEvent) {
    let _ = events.try_send(event);
}

/// The responder of a host.
struct Server {
    options: RespondOptions,
    /// The responders, by local address.
    responders: Mutex<BTreeMap<IpAddr, Arc<LocalResponder>>>,
    /// The TCP connections with a session, by the number of the session.
    speakers: Mutex<BTreeMap<u64, Speaker>>,
    ended: AtomicBool,
}

impl Server {
    /// Opens a session for the prober at the other end of a TCP connection, and closes it when the connection ends.
    fn serve(
        self: &Arc<Self>, stream: TcpStream, peer: SocketAddr, admission: &Admission, events: &SyncSender<RespondEvent>,
    ) {
        let report = |event| report(events, event);
        match self.open(stream, admission, events) {
            // The connection made room for another one.
            Err(_) if admission.is_evicted() => {}
            Err(why) => report(RespondEvent::Failed(peer, why)),
            Ok((mut channel, local, session)) => {
                report(RespondEvent::Opened(peer));
                // The prober sends no further message. If it does, the session ends as well.
                let _ = channel.receive_within::<IgnoredAny>(None);
                self.close(&local, session);
                channel.speaker().hang_up();
                report(RespondEvent::Closed(peer));
            }
        }
    }

    fn open(
        self: &Arc<Self>, stream: TcpStream, admission: &Admission, events: &SyncSender<RespondEvent>,
    ) -> Result<(Channel, Arc<LocalResponder>, u64), PingError> {
        let mut channel = match &self.options.credentials {
            None => Channel::over(stream)?,
            Some(credentials) => Channel::accept_secured(stream, credentials)?,
        };
        let Control::Hello { ping, prober } = channel.receive()? else { return Err(unexpected(&channel).into()) };
        let admitted = || admission.prove().map_err(|refusal| PingError::Refused(refusal.to_string()));
        let opened = check_version(&channel, ping)
            .map_err(PingError::from)
            .and_then(|()| check_prober(&channel, &prober))
            // An eviction that this causes closes the session of the evicted prober, so its number is free.
            .and_then(|()| admitted())
            .and_then(|()| self.open_session(&channel, prober, events));
        match opened {
            Ok((local, session)) => {
                let (server, own, speaker) = (self.clone(), local.clone(), channel.speaker());
                admission.on_eviction(move || {
                    speaker.hang_up();
                    server.close(&own, session);
                });
                let welcome = Control::Welcome { ping: VERSION, session, responder: local.address };
                if let Err(why) = channel.send(&welcome) {
                    self.close(&local, session);
                    return Err(why.into());
                }
                Ok((channel, local, session))
            }
            Err(why) => {
                // This fails if the prober has ended.
                let _ = channel.send(&Control::Refused { why: why.to_string() });
                Err(why)
            }
        }
    }

    /// Opens a session for `prober`, which [`check_prober`] has checked.
    fn open_session(
        &self, channel: &Channel, prober: DatagramAddress, events: &SyncSender<RespondEvent>,
    ) -> Result<(Arc<LocalResponder>, u64), PingError> {
        let peer = channel.peer_addr().ip();
        let prober = DatagramAddress { addr: SocketAddr::new(peer, prober.addr.port()), ..prober };
        let local = self.local(channel.local_addr().ip(), events)?;
        let session = u64::from_ne_bytes(random().map_err(Error::from)?);
        let now = local.device.clock().now();
        local.responder.lock().open(session, prober, now).map_err(PingError::Refused)?;
        self.speakers.lock().insert(session, channel.speaker());
        if self.ended.load(Ordering::Acquire) {
            self.close(&local, session);
            return Err(PingError::Refused("the responder ends".to_string()));
        }
        Ok((local, session))
    }

    fn close(&self, local: &LocalResponder, session: u64) {
        local.responder.lock().close(session);
        if let Some(connections) = &mut *local.connections.lock() {
            connections.retain(|_| true, |served| served != session);
        }
        self.speakers.lock().remove(&session);
    }

    /// The responder at the local address `ip`, which the first call creates.
    fn local(&self, ip: IpAddr, events: &SyncSender<RespondEvent>) -> Result<Arc<LocalResponder>, PingError> {
        let mut responders = self.responders.lock();
        if let Some(local) = responders.get(&ip).filter(|local| !local.ended.load(Ordering::Acquire)) {
            return Ok(local.clone());
        }
        if responders.len() >= MAX_LOCAL_ADDRESSES {
            let why = format!("the responder answers at {MAX_LOCAL_ADDRESSES} addresses of its host, and at no other");
            return Err(PingError::Refused(why));
        }
        let local = LocalResponder::open(SocketAddr::new(ip, self.options.roce_port))?;
        responders.insert(ip, local.clone());
        if let Some(why) = no_arrival_times(local.device.arrival_times()) {
            report(events, RespondEvent::NoArrivalTimes(ip, why));
        }
        Ok(local)
    }

    /// Ends all sessions and responders; returns the sums of their counters.
    fn end(&self) -> ResponderCounters {
        self.ended.store(true, Ordering::Release);
        self.speakers.lock().values().for_each(Speaker::hang_up);
        let responders = std::mem::take(&mut *self.responders.lock());
        let mut sum = ResponderCounters::default();
        for local in responders.values() {
            local.end();
            let counters = local.responder.lock().counters();
            sum.answered += counters.answered;
            sum.limited += counters.limited;
            sum.unexpected += counters.unexpected;
        }
        sum
    }
}

/// Sends responses from one local address, in its own thread.
struct LocalResponder {
    device: Device,
    cq: CompletionQueue,
    qp: QueuePair,
    address: DatagramAddress,
    inbox: MemoryRegion,
    outbox: Outbox,
    responder: Mutex<Responder>,
    /// Reliable connections of probers; created when a prober first requests one.
    connections: Mutex<Option<EndpointConnections>>,
    ended: AtomicBool,
    thread: Mutex<Option<JoinHandle<()>>>,
}

impl LocalResponder {
    fn open(local: SocketAddr) -> Result<Arc<LocalResponder>, PingError> {
        let udp = UdpConfig { arrival_times: true, ..UdpConfig::default() };
        let config = Config { mode: Mode::Polled, security: Security::None, udp, ..Config::default() };
        let device = Device::open_at(local, config)?;
        let cq =
            device.completion_queue((RECEIVES + 2 * MAX_RESPONSES + EndpointConnections::COMPLETIONS) as u32 + 16)?;
        let pd = device.protection_domain();
        let (send_wr, recv_wr) = (2 * MAX_RESPONSES as u32, RECEIVES as u32);
        let capacities = Capacities { send_wr, recv_wr, ..Capacities::default() };
        let qp = pd.queue_pair(&QpOptions { service: Service::Ud, capacities, ..QpOptions::new(&cq) })?;
        let address = qp.open_datagrams(&DatagramOptions { qkey: None, mtu: MAX_PROBE as u32 })?;
        let inbox = pd.allocate(RECEIVES * SLOT, Access::LOCAL)?;
        let outbox = Outbox { region: pd.allocate(Outbox::len(MAX_RESPONSES), Access::LOCAL)?, slots: MAX_RESPONSES };
        let responder = Mutex::new(Responder::new(device.clock().now()));
        let (ended, thread, connections) = (AtomicBool::new(false), Mutex::new(None), Mutex::new(None));
        let local =
            Arc::new(LocalResponder { device, cq, qp, address, inbox, outbox, responder, connections, ended, thread });
        for slot in 0..RECEIVES {
            local.receive_into(slot)?;
        }
        let own = local.clone();
        let run = move || {
            // On an error the device has failed; a later prober gets a new device.
            let _ = own.run();
            own.ended.store(true, Ordering::Release);
        };
        let started = std::thread::Builder::new().name("rnic-ping".to_string()).spawn(run);
        *local.thread.lock() = Some(started.map_err(Error::from)?);
        Ok(local)
    }

    fn receive_into(&self, slot: usize) -> Result<(), Error> {
        self.qp.post_recv(slot as u64, &[self.inbox.slice(slot * SLOT, SLOT)?])
    }

    /// Ends the thread.
    fn end(&self) {
        self.ended.store(true, Ordering::Release);
        self.device.interrupt();
        if let Some(thread) = self.thread.lock().take() {
            // If the thread panicked, the panic was reported there.
            let _ = thread.join();
        }
    }

    /// Sends responses until the responder ends.
    fn run(&self) -> Result<(), Error> {
        let mut found = [Completion::BLANK; 64];
        // The responses whose sends have not completed, by slot, with the arrival times of their probes (T3).
        let mut leaving: Vec<Option<(Reply, Time)>> = vec![None; MAX_RESPONSES];
        let mut free: Vec<usize> = (0..MAX_RESPONSES).collect();
        let mut datagram = vec![0; MAX_PROBE];
        while !self.ended.load(Ordering::Acquire) {
            let count = self.cq.wait(&mut found, STOP_CHECK_INTERVAL)?;
            for completion in &found[..count] {
                let &Completion { wr_id, status, time, .. } = completion;
                if wr_id & RECEIVE != 0 {
                    // A message of a prober has consumed this receive; the NIC has already acknowledged the message.
                    if let Some(connections) = &*self.connections.lock() {
                        connections.received(wr_id)?;
                    }
                    continue;
                }
                if status != Status::Success {
                    return Err(Error::Failed { wr_id, status });
                }
                if completion.opcode == Opcode::Recv {
                    let slot = wr_id as usize;
                    if let Some(at) = free.pop() {
                        match self.respond(at, completion, &mut datagram)? {
                            Some(reply) => leaving[at] = Some((reply, time)),
                            None => free.push(at),
                        }
                    }
                    self.receive_into(slot)?;
                } else if wr_id & RESPONSE != 0 {
                    let at = (wr_id & 0xffff_ffff) as usize % MAX_RESPONSES;
                    if let Some((reply, arrived)) = leaving[at].take() {
                        free.push(at);
                        self.report(&reply, since(time, arrived))?;
                    }
                }
            }
        }
        Ok(())
    }

    /// Posts the response to a probe in slot `at`; returns `None` if the probe gets no response.
    fn respond(&self, at: usize, probe: &Completion, datagram: &mut [u8]) -> Result<Option<Reply>, Error> {
        let Some(source) = probe.source.map(|source| (source.ip(), source.qpn().0)) else { return Ok(None) };
        let len = (probe.byte_len as usize).saturating_sub(GRH_LEN as usize).min(MAX_PROBE);
        // Only the fields of a connect datagram are read; its remaining bytes are zeros.
        let head = len.min(CONNECT_LEN);
        self.inbox.read(probe.wr_id as usize * SLOT + GRH_LEN as usize, &mut datagram[..head])?;
        if let Some(message) = Message::parse(&datagram[..head]).filter(|message| message.kind == Kind::Connect) {
            self.connect(self.device.clock().now(), source, &message, &datagram[..len])?;
            return Ok(None);
        }
        let now = self.device.clock().now();
        let Some(reply) = self.responder.lock().on_probe(now, source, &datagram[..len]) else { return Ok(None) };
        let gather = self.outbox.write(at, &reply.response.emit(), reply.len)?;
        let (op, data, flags) = (SendOp::Send, Data::Gather(&gather), SendFlags::SIGNALED);
        let request = SendRequest { wr_id: RESPONSE | at as u64, op, data, flags };
        Ok(is_posted(self.qp.post_datagram(&request, &reply.to))?.then_some(reply))
    }

    /// Opens a reliable connection for a prober, if it has a session.
    fn connect(&self, now: Time, source: (IpAddr, u32), message: &Message, datagram: &[u8]) -> Result<(), Error> {
        let (reply, prober) = {
            let mut responder = self.responder.lock();
            (responder.on_connect(now, source, datagram), responder.prober(message.session))
        };
        let (Some(reply), Some(prober)) = (reply, prober) else { return Ok(()) };
        let mut connections = self.connections.lock();
        if connections.is_none() {
            *connections = Some(EndpointConnections::new(&self.device.protection_domain(), &self.cq)?);
        }
        let Some(connections) = &mut *connections else { return Ok(()) };
        if let Some(accept) = connections.serve(message, datagram, prober, (CONNECTION_TIMEOUT, 0))? {
            let (op, data, flags) = (SendOp::Send, Data::Inline(&accept), SendFlags::default());
            is_posted(self.qp.post_datagram(&SendRequest { wr_id: REPORT, op, data, flags }, &reply.to))?;
        }
        Ok(())
    }

    fn report(&self, reply: &Reply, delay: Time) -> Result<(), Error> {
        let report = reply.report(delay).emit();
        let (op, data, flags) = (SendOp::Send, Data::Inline(&report), SendFlags::default());
        is_posted(self.qp.post_datagram(&SendRequest { wr_id: REPORT, op, data, flags }, &reply.to)).map(drop)
    }
}
