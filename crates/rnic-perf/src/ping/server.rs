//! The responder of a ping on devices.
//!
//! A thread for each TCP connection opens a session, and closes it when the connection ends. A thread for each local
//! address at which probers reach this host answers the probes.

use super::connected::{Connections, GREETING, RECEIVE};
use super::message::{Kind, MAX_PROBE, Message};
use super::prober::since;
use super::responder::{Answer, MAX_SESSIONS, Responder, ResponderCounters};
use super::{Control, Outbox, PingError, VERSION, same_version, unexpected};
use crate::perf::{Place, accept};
use rnic_endpoint::exchange::{Channel, Credentials, Speaker};
use rnic_endpoint::port::ROCE_PORT;
use rnic_endpoint::{
    Access, Capacities, Completion, CompletionQueue, Config, Data, DatagramAddress, DatagramOptions, Device, Error,
    GRH_LEN, MemoryRegion, Mode, Opcode, QpOptions, QueuePair, Security, SendFlags, SendOp, SendRequest, Service,
    Status, TimeSource, VerbsError,
};
use rnic_transport::Time;
use serde::de::IgnoredAny;
use std::cell::RefCell;
use std::collections::BTreeMap;
use std::io::{self, Read};
use std::net::{IpAddr, SocketAddr, TcpListener, TcpStream};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::mpsc::{self, Sender};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::thread::JoinHandle;

/// Options of [`respond`].
#[derive(Clone, Debug)]
pub struct RespondOptions {
    /// UDP port of the responder's devices; 0 stands for any free port.
    pub roce_port: u16,
    /// What probers must show, over TLS. With `None` everyone may probe this host.
    pub credentials: Option<Credentials>,
}

impl Default for RespondOptions {
    fn default() -> RespondOptions {
        RespondOptions { roce_port: ROCE_PORT, credentials: None }
    }
}

/// What [`respond`] tells while it runs.
#[derive(Debug)]
pub enum RespondEvent {
    /// A prober at this address has opened a session.
    Opened(SocketAddr),
    /// A prober at this address has closed its session.
    Closed(SocketAddr),
    /// A prober at this address got no session, for this reason.
    Failed(SocketAddr, PingError),
}

/// Maximum number of local addresses at which probers are answered.
const MAX_STATIONS: usize = 16;
/// Number of receives that are posted.
const RECEIVES: usize = 512;
/// Maximum number of responses that have been posted and have not left.
const ANSWERS: usize = 256;
/// Bits in the identifier of a work request: a response, a report. Without them it is a receive.
const RESPONSE: u64 = 1 << 32;
const REPORT: u64 = 1 << 33;
/// Time without a response of a prober after which a reliable connection ends. It sends nothing but ACKs.
const SERVED: Time = Time::from_ms(60_000);
/// Maximum time between two looks at the flag that ends the responder.
const LOOK: Time = Time::from_ms(100);
/// Length of a receive in bytes.
const SLOT: usize = GRH_LEN as usize + MAX_PROBE;

fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

/// Answers the probes of [`ping`](super::ping) until `stop` is set. Tells `event` what happens. Returns the counters of
/// all probes.
///
/// # Errors
/// An error of `listener` when it accepts a connection.
pub fn respond(
    listener: &TcpListener, options: RespondOptions, stop: &AtomicBool, event: impl FnMut(RespondEvent),
) -> io::Result<ResponderCounters> {
    let (events, told) = mpsc::channel();
    let host = Arc::new(Host {
        options,
        stations: Mutex::new(BTreeMap::new()),
        speakers: Mutex::new(BTreeMap::new()),
        ended: AtomicBool::new(false),
    });
    let places = Arc::default();
    let event = RefCell::new(event);
    let tell = || told.try_iter().for_each(|told| (event.borrow_mut())(told));
    // `accept` looks several times a second whether it shall end.
    let ends = || {
        tell();
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
        let Some(place) = Place::take(&places, peer.ip().to_canonical(), MAX_SESSIONS) else { continue };
        let (host, events) = (host.clone(), events.clone());
        let serve = move || {
            host.serve(stream, peer, &events);
            drop(place);
        };
        // Without a thread the prober is turned away.
        let _ = std::thread::Builder::new().name("rnic-ping-peer".to_string()).spawn(serve);
    }
    let counters = host.end();
    tell();
    accepted.map(|()| counters)
}

/// A responder.
struct Host {
    options: RespondOptions,
    /// What answers probes, by local address.
    stations: Mutex<BTreeMap<IpAddr, Arc<Station>>>,
    /// The connections with a session, by its number.
    speakers: Mutex<BTreeMap<u64, Speaker>>,
    ended: AtomicBool,
}

impl Host {
    /// Opens a session for the prober at the other end of a TCP connection, and closes it when the connection ends.
    fn serve(&self, stream: TcpStream, peer: SocketAddr, events: &Sender<RespondEvent>) {
        let tell = |event| {
            // Nobody listens any more once the responder has ended.
            let _ = events.send(event);
        };
        match self.open(stream) {
            Err(why) => tell(RespondEvent::Failed(peer, why)),
            Ok((mut channel, station, session)) => {
                tell(RespondEvent::Opened(peer));
                // The prober says nothing more; whatever it says, the session ends with it.
                let _ = channel.receive_within::<IgnoredAny>(None);
                self.close(&station, session);
                channel.speaker().hang_up();
                tell(RespondEvent::Closed(peer));
            }
        }
    }

    fn open(&self, stream: TcpStream) -> Result<(Channel, Arc<Station>, u64), PingError> {
        let mut channel = match &self.options.credentials {
            None => Channel::over(stream)?,
            Some(credentials) => Channel::accept_secured(stream, credentials)?,
        };
        let Control::Hello { ping, prober } = channel.receive()? else { return Err(unexpected(&channel).into()) };
        let opened = same_version(&channel, ping).map_err(PingError::from).and_then(|()| self.enter(&channel, prober));
        match opened {
            Ok((station, session)) => {
                let welcome = Control::Welcome { ping: VERSION, session, responder: station.address };
                if let Err(why) = channel.send(&welcome) {
                    self.close(&station, session);
                    return Err(why.into());
                }
                Ok((channel, station, session))
            }
            Err(why) => {
                // The prober may have gone.
                let _ = channel.send(&Control::Refused { why: why.to_string() });
                Err(why)
            }
        }
    }

    /// Opens a session for `prober`, which must be at the address from which its TCP connection comes: otherwise it
    /// could make this host send packets to a third party.
    fn enter(&self, channel: &Channel, prober: DatagramAddress) -> Result<(Arc<Station>, u64), PingError> {
        let refuse = |why: String| Err(PingError::Refused(why));
        let (told, peer) = (prober.addr.ip().to_canonical(), channel.peer_addr().ip());
        if told != peer {
            return refuse(format!("the prober has its device on {told}; it must be on {peer}"));
        }
        if prober.addr.port() == 0 || prober.qpn >= 0xff_ffff {
            return refuse("the prober has no UDP port or no queue pair".to_string());
        }
        let prober = DatagramAddress { addr: SocketAddr::new(peer, prober.addr.port()), ..prober };
        let station = self.station(channel.local_addr().ip())?;
        let session = random().map_err(Error::from)?;
        let now = station.device.clock().now();
        lock(&station.responder).open(session, prober, now).map_err(PingError::Refused)?;
        lock(&self.speakers).insert(session, channel.speaker());
        if self.ended.load(Ordering::Acquire) {
            self.close(&station, session);
            return refuse("the responder ends".to_string());
        }
        Ok((station, session))
    }

    fn close(&self, station: &Station, session: u64) {
        lock(&station.responder).close(session);
        if let Some(connections) = &mut *lock(&station.connections) {
            connections.retain(|_| true, |served| served != session);
        }
        lock(&self.speakers).remove(&session);
    }

    /// What answers probes at the local address `ip`.
    fn station(&self, ip: IpAddr) -> Result<Arc<Station>, PingError> {
        let mut stations = lock(&self.stations);
        if let Some(station) = stations.get(&ip).filter(|station| !station.ended.load(Ordering::Acquire)) {
            return Ok(station.clone());
        }
        if stations.len() >= MAX_STATIONS {
            let why = format!("the responder answers at {MAX_STATIONS} addresses of its host, and at no other");
            return Err(PingError::Refused(why));
        }
        let station = Station::open(SocketAddr::new(ip, self.options.roce_port))?;
        stations.insert(ip, station.clone());
        Ok(station)
    }

    /// Ends all sessions and stations; returns the sum of the counters.
    fn end(&self) -> ResponderCounters {
        self.ended.store(true, Ordering::Release);
        lock(&self.speakers).values().for_each(Speaker::hang_up);
        let stations = std::mem::take(&mut *lock(&self.stations));
        let mut sum = ResponderCounters::default();
        for station in stations.values() {
            station.end();
            let counters = lock(&station.responder).counters();
            sum.answered += counters.answered;
            sum.limited += counters.limited;
            sum.strange += counters.strange;
        }
        sum
    }
}

/// A random number from the system.
fn random() -> io::Result<u64> {
    let mut bytes = [0; 8];
    std::fs::File::open("/dev/urandom")?.read_exact(&mut bytes)?;
    Ok(u64::from_ne_bytes(bytes))
}

/// Answers probes at one local address, in a thread of its own.
struct Station {
    device: Device,
    cq: CompletionQueue,
    qp: QueuePair,
    address: DatagramAddress,
    inbox: MemoryRegion,
    outbox: Outbox,
    responder: Mutex<Responder>,
    /// Reliable connections of probers, once one has asked for a connection.
    connections: Mutex<Option<Connections>>,
    ended: AtomicBool,
    thread: Mutex<Option<JoinHandle<()>>>,
}

impl Station {
    fn open(local: SocketAddr) -> Result<Arc<Station>, PingError> {
        let config = Config { mode: Mode::Polled, security: Security::None, ..Config::default() };
        let device = Device::open_at(local, config)?;
        let cq = device.completion_queue((RECEIVES + 2 * ANSWERS + Connections::COMPLETIONS) as u32 + 16)?;
        let pd = device.protection_domain();
        let (send_wr, recv_wr) = (2 * ANSWERS as u32, RECEIVES as u32);
        let capacities = Capacities { send_wr, recv_wr, ..Capacities::default() };
        let qp = pd.queue_pair(&QpOptions { service: Service::Ud, capacities, ..QpOptions::new(&cq) })?;
        let address = qp.open_datagrams(&DatagramOptions { qkey: None, mtu: MAX_PROBE as u32 })?;
        let inbox = pd.allocate(RECEIVES * SLOT, Access::LOCAL)?;
        let outbox = Outbox { region: pd.allocate(Outbox::len(ANSWERS), Access::LOCAL)?, slots: ANSWERS };
        let responder = Mutex::new(Responder::new(device.clock().now()));
        let (ended, thread, connections) = (AtomicBool::new(false), Mutex::new(None), Mutex::new(None));
        let station =
            Arc::new(Station { device, cq, qp, address, inbox, outbox, responder, connections, ended, thread });
        for slot in 0..RECEIVES {
            station.receive_into(slot)?;
        }
        let own = station.clone();
        let run = move || {
            // An error means that the device has failed; a later prober gets another one.
            let _ = own.run();
            own.ended.store(true, Ordering::Release);
        };
        let started = std::thread::Builder::new().name("rnic-ping".to_string()).spawn(run);
        *lock(&station.thread) = Some(started.map_err(Error::from)?);
        Ok(station)
    }

    fn receive_into(&self, slot: usize) -> Result<(), Error> {
        self.qp.post_recv(slot as u64, &[self.inbox.slice(slot * SLOT, SLOT)?])
    }

    /// Ends the thread.
    fn end(&self) {
        self.ended.store(true, Ordering::Release);
        self.device.interrupt();
        if let Some(thread) = lock(&self.thread).take() {
            // A panic was reported in that thread.
            let _ = thread.join();
        }
    }

    /// Answers probes until the station ends.
    fn run(&self) -> Result<(), Error> {
        let mut found = [Completion::BLANK; 64];
        // The responses that have not left, by slot: the answer, and when its probe arrived (T3).
        let mut leaving: Vec<Option<(Answer, Time)>> = vec![None; ANSWERS];
        let mut free: Vec<usize> = (0..ANSWERS).collect();
        let mut datagram = vec![0; MAX_PROBE];
        while !self.ended.load(Ordering::Acquire) {
            let count = self.cq.wait(&mut found, LOOK)?;
            for completion in &found[..count] {
                let &Completion { wr_id, status, time, .. } = completion;
                if wr_id & RECEIVE != 0 {
                    // A message of a prober has filled it; the NIC has acknowledged it.
                    if let Some(connections) = &*lock(&self.connections) {
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
                        match self.answer(at, completion, &mut datagram)? {
                            Some(answer) => leaving[at] = Some((answer, time)),
                            None => free.push(at),
                        }
                    }
                    self.receive_into(slot)?;
                } else if wr_id & RESPONSE != 0 {
                    let at = (wr_id & 0xffff_ffff) as usize % ANSWERS;
                    if let Some((answer, arrived)) = leaving[at].take() {
                        free.push(at);
                        self.report(&answer, since(time, arrived))?;
                    }
                }
            }
        }
        Ok(())
    }

    /// Posts the response to a probe in slot `at`; `None` if it gets none.
    fn answer(&self, at: usize, probe: &Completion, datagram: &mut [u8]) -> Result<Option<Answer>, Error> {
        let Some(source) = probe.source.map(|source| (source.ip(), source.qpn().0)) else { return Ok(None) };
        let len = (probe.byte_len as usize).saturating_sub(GRH_LEN as usize).min(MAX_PROBE);
        // Only the message and a greeting are read; the rest of a probe says nothing.
        let head = len.min(GREETING);
        self.inbox.read(probe.wr_id as usize * SLOT + GRH_LEN as usize, &mut datagram[..head])?;
        if let Some(message) = Message::parse(&datagram[..head]).filter(|message| message.kind == Kind::Connect) {
            self.connect(probe.time, source, &message, &datagram[..len])?;
            return Ok(None);
        }
        let Some(answer) = lock(&self.responder).answer(probe.time, source, &datagram[..len]) else { return Ok(None) };
        let gather = self.outbox.write(at, &answer.response.emit(), answer.len)?;
        let (op, data, flags) = (SendOp::Send, Data::Gather(&gather), SendFlags::SIGNALED);
        let request = SendRequest { wr_id: RESPONSE | at as u64, op, data, flags };
        Ok(posted(self.qp.post_datagram(&request, &answer.to))?.then_some(answer))
    }

    /// Opens a reliable connection for a prober, if it has a session.
    fn connect(&self, now: Time, source: (IpAddr, u32), message: &Message, datagram: &[u8]) -> Result<(), Error> {
        let (answer, prober) = {
            let mut responder = lock(&self.responder);
            (responder.connect(now, source, datagram), responder.prober(message.session))
        };
        let (Some(answer), Some(prober)) = (answer, prober) else { return Ok(()) };
        let mut connections = lock(&self.connections);
        if connections.is_none() {
            *connections = Some(Connections::new(&self.device.protection_domain(), &self.cq)?);
        }
        let Some(connections) = &mut *connections else { return Ok(()) };
        if let Some(accept) = connections.serve(message, datagram, prober, (SERVED, 0))? {
            let (op, data, flags) = (SendOp::Send, Data::Inline(&accept), SendFlags::default());
            posted(self.qp.post_datagram(&SendRequest { wr_id: REPORT, op, data, flags }, &answer.to))?;
        }
        Ok(())
    }

    fn report(&self, answer: &Answer, delay: Time) -> Result<(), Error> {
        let report = answer.report(delay).emit();
        let (op, data, flags) = (SendOp::Send, Data::Inline(&report), SendFlags::default());
        posted(self.qp.post_datagram(&SendRequest { wr_id: REPORT, op, data, flags }, &answer.to)).map(drop)
    }
}

/// Whether a datagram was posted. A full send queue and a recipient that does not exist lose the datagram, and are no
/// failure of the responder.
fn posted(result: Result<(), Error>) -> Result<bool, Error> {
    match result {
        Ok(()) => Ok(true),
        Err(Error::Verbs(VerbsError::Full(_) | VerbsError::Unsupported(_) | VerbsError::Range { .. })) => Ok(false),
        Err(why) => Err(why),
    }
}
