//! The agent on a real host: a device that sends and receives the probes, traces of their paths, and requests to the
//! controller.
//!
//! Three threads share the state of the [`Agent`]: one sends and receives datagrams, one traces paths, and one sends
//! requests to the controller. The first thread never waits for network traffic of the other two.

mod client;
mod device;
mod nic;
mod trace;

pub use client::{Client, ClientError};

use crate::agent::{Agent, Limits};
use crate::credentials::Files;
use crate::record::{Fetched, MAX_PATHS, PROTOCOL, Registration};
use parking_lot::{Mutex, MutexGuard};
use rnic_endpoint::DatagramAddress;
use rnic_probe::random;
use rnic_transport::Time;
use std::io;
use std::net::{IpAddr, SocketAddr};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, SystemTime, UNIX_EPOCH};

/// Options of [`run`].
#[derive(Clone, Debug)]
pub struct Options {
    /// Name of this host in the inventory and in its certificate.
    pub host: String,
    /// IP address and UDP port of the device; port 0 stands for any free port.
    pub address: SocketAddr,
    /// Address of the controller, `https://HOST:PORT`.
    pub controller: String,
    /// Certificates.
    pub files: Files,
    /// Bounds that no pinglist can exceed.
    pub limits: Limits,
    /// Whether paths are traced.
    pub trace: bool,
    /// Whether a real NIC sends and receives the probes.
    pub nic: NicChoice,
    /// Which time stamps of a real NIC are used.
    pub nic_times: NicTimes,
    /// If this is set, the agent clears it and reads its certificates again.
    pub reload: Arc<AtomicBool>,
}

/// Time without a response of the prober after which the responder aborts the prober's reliable connection. The
/// responder sends only ACKs on it.
const CONNECTION_TIMEOUT: Time = Time::from_ms(60_000);

/// Time after which the agent restarts itself, because its clock overflows after 213 days.
const LIFETIME: Time = Time::from_ms(100 * 24 * 3_600_000);

/// Time in seconds before the end of its certificate at which the agent warns, once a day.
const WARN: i64 = 30 * 86_400;

/// Whether a real NIC, of libibverbs, carries the probes, or the endpoint in software.
#[derive(Clone, Copy, PartialEq, Eq, Default, Debug)]
#[cfg_attr(feature = "clap", derive(clap::ValueEnum))]
pub enum NicChoice {
    /// If libibverbs.so.1 and such a device are there; otherwise rnic's endpoint in software.
    #[default]
    Auto,
    /// Never: rnic's endpoint.
    Never,
    /// Always: an error without such a device.
    Require,
}

/// Which time stamps of a real NIC the times of probes are.
#[derive(Clone, Copy, PartialEq, Eq, Default, Debug)]
#[cfg_attr(feature = "clap", derive(clap::ValueEnum))]
pub enum NicTimes {
    /// Those of its hardware, if it makes some.
    #[default]
    Hardware,
    /// Those of its driver, also if the device is software.
    Any,
    /// None: the times at which the agent sees completions.
    Software,
}

/// An event of a running agent.
#[derive(Clone, PartialEq, Debug)]
pub enum Event {
    /// The device is open; the address at which it receives.
    Open(SocketAddr),
    /// A real NIC sends and receives the probes: its name, and whether its time stamps are used.
    Nic(String, bool),
    /// No real NIC can be used for the probes, for this reason.
    NoNic(String),
    /// The endpoint in software does not know when the kernel received the packets, for this reason.
    NoArrivalTimes(String),
    /// A new pinglist: number of targets and of admitted probers.
    List(usize, usize),
    /// A request to the controller failed or was refused, for this reason.
    Unreachable(String),
    /// The controller will never accept some results, for this reason; the agent has discarded them.
    Discarded(String),
    /// The agent stops probing, because three fetches in a row failed.
    Stopped,
    /// Requests to the controller succeed again.
    Reachable,
    /// The certificates were read again.
    Certificates,
    /// The certificates cannot be used, for this reason; the agent continues with the certificates that it has read
    /// before.
    NotReloaded(String),
    /// The agent's certificate ends soon or has ended; its end in seconds since 1970.
    CertificateEnds(i64),
    /// The agent cannot trace paths, for this reason.
    NoTraces(String),
}

/// The reason why an agent cannot run.
#[derive(Debug, thiserror::Error)]
pub enum HostError {
    /// The device failed.
    #[error(transparent)]
    Device(#[from] rnic_endpoint::Error),
    /// The NIC failed, or no NIC has the address.
    #[error(transparent)]
    Nic(#[from] rnic_probe::nic::NicError),
    /// A certificate cannot be used, or the controller's address is wrong.
    #[error("{0}")]
    Setup(String),
    /// The system refuses an operation.
    #[error("{doing}: {error}")]
    System {
        /// The operation.
        doing: &'static str,
        /// The reason.
        error: io::Error,
    },
}

/// The device that sends and receives the probes.
enum Device {
    Endpoint(device::Device),
    Nic(Box<nic::Device>),
}

impl Device {
    fn address(&self) -> DatagramAddress {
        match self {
            Device::Endpoint(device) => device.address,
            Device::Nic(device) => device.address,
        }
    }

    fn now(&self) -> Time {
        match self {
            Device::Endpoint(device) => device.now(),
            Device::Nic(device) => device.now(),
        }
    }

    fn interrupt(&self) {
        match self {
            Device::Endpoint(device) => device.interrupt(),
            Device::Nic(device) => device.interrupt(),
        }
    }

    fn source_ports(&self, paths: u16) -> Vec<u16> {
        match self {
            Device::Endpoint(device) => device.source_ports(paths),
            Device::Nic(device) => device.source_ports(paths),
        }
    }

    /// Whether the times of probes are time stamps of the NIC.
    fn has_hardware_times(&self) -> bool {
        match self {
            Device::Endpoint(_) => false,
            Device::Nic(device) => device.clock.is_some(),
        }
    }

    /// Maximum payload bytes of a datagram, if this is less than the maximum size of a probe.
    fn longest_datagram(&self) -> Option<usize> {
        match self {
            Device::Endpoint(_) => None,
            Device::Nic(device) => Some(device.mtu),
        }
    }
}

/// State that the threads share.
struct Shared {
    agent: Mutex<Agent>,
    device: Device,
    ended: AtomicBool,
}

impl Shared {
    fn agent(&self) -> MutexGuard<'_, Agent> {
        self.agent.lock()
    }

    fn now(&self) -> Time {
        self.device.now()
    }
}

#[expect(clippy::disallowed_methods, reason = "an agent says when it measured")]
fn unix_us() -> u64 {
    SystemTime::now().duration_since(UNIX_EPOCH).map_or(0, |time| time.as_micros() as u64)
}

/// Runs the agent of this host until `stop` is set. Reports to `event`.
///
/// # Errors
/// If the device cannot be opened or fails, or the certificates cannot be used. A controller that cannot be reached is
/// not an error.
pub fn run(options: &Options, stop: &AtomicBool, mut event: impl FnMut(Event)) -> Result<(), HostError> {
    loop {
        run_once(options, stop, &mut event)?;
        if stop.load(Ordering::Relaxed) {
            return Ok(());
        }
    }
}

/// Runs the agent until `stop` is set, or for [`LIFETIME`].
fn run_once(options: &Options, stop: &AtomicBool, mut event: impl FnMut(Event)) -> Result<(), HostError> {
    let client = Client::new(&options.controller, &options.files).map_err(HostError::Setup)?;
    let system = |doing| move |error| HostError::System { doing, error };
    let device = match nic::Device::open(options.address, options.nic, options.nic_times)? {
        Ok(nic) => {
            event(Event::Nic(nic.name.clone(), nic.clock.is_some()));
            Device::Nic(Box::new(nic))
        }
        Err(why) => {
            if options.nic == NicChoice::Auto {
                event(Event::NoNic(why));
            }
            let device = device::Device::open(options.address, MAX_PATHS)?;
            if let Some(why) = device.no_arrival_times() {
                event(Event::NoArrivalTimes(why));
            }
            Device::Endpoint(device)
        }
    };
    let local = device.address().addr;
    event(Event::Open(local));
    let incarnation = u64::from_ne_bytes(random().map_err(system("cannot read random numbers"))?);
    let now = device.now();
    let ports = device.source_ports(MAX_PATHS);
    let mut agent = Agent::new(&options.host, incarnation, ports, options.limits, now);
    agent.longest_datagram(device.longest_datagram());
    let tracer = if options.trace { trace::Tracer::open(local.ip()).map(Some) } else { Ok(None) };
    let tracer = tracer.unwrap_or_else(|why| {
        event(Event::NoTraces(why));
        None
    });
    let traces = tracer.is_some();
    let shared = Arc::new(Shared { agent: Mutex::new(agent), device, ended: AtomicBool::new(false) });
    let mut threads = Vec::new();
    let probe_loop = shared.clone();
    let failure: Arc<Mutex<Option<HostError>>> = Arc::new(Mutex::new(None));
    let failed = failure.clone();
    let start = |name: &str, work: Box<dyn FnOnce() + Send>| {
        std::thread::Builder::new().name(name.to_string()).spawn(work).map_err(system("cannot start a thread"))
    };
    threads.push(start(
        "mesh-probes",
        Box::new(move || {
            let moved = match &probe_loop.device {
                Device::Endpoint(device) => device::run(&probe_loop, device).map_err(HostError::from),
                Device::Nic(device) => nic::run(&probe_loop, device).map_err(HostError::from),
            };
            if let Err(why) = moved {
                *failed.lock() = Some(why);
            }
            probe_loop.ended.store(true, Ordering::Release);
        }),
    )?);
    if let Some(tracer) = tracer {
        let shared = shared.clone();
        threads.push(start("mesh-traces", Box::new(move || trace::run(&shared, tracer)))?);
    }
    let mut requests = Requests { client, shared: shared.clone(), options, incarnation, traces };
    requests.run(stop, &mut event);
    shared.ended.store(true, Ordering::Release);
    shared.device.interrupt();
    for thread in threads {
        // If the thread panicked, the panic was reported there.
        let _ = thread.join();
    }
    let failed = failure.lock().take();
    failed.map_or(Ok(()), Err)
}

/// The requests to the controller.
struct Requests<'a> {
    client: Client,
    shared: Arc<Shared>,
    options: &'a Options,
    incarnation: u64,
    traces: bool,
}

impl Requests<'_> {
    /// Reads the certificates again.
    fn reload(&mut self, event: &mut impl FnMut(Event)) {
        match Client::new(&self.options.controller, &self.options.files) {
            Ok(client) => {
                self.client = client;
                event(Event::Certificates);
            }
            Err(why) => event(Event::NotReloaded(why)),
        }
    }

    fn run(&mut self, stop: &AtomicBool, event: &mut impl FnMut(Event)) {
        let shared = self.shared.clone();
        let ends = || {
            let is_old = shared.now() >= LIFETIME;
            stop.load(Ordering::Relaxed) || shared.ended.load(Ordering::Acquire) || is_old
        };
        let mut warned = None;
        let mut fetch_at = self.shared.now();
        let mut report_at = fetch_at;
        let mut failure: Option<String> = None;
        let mut shown = 0;
        while !ends() {
            if self.options.reload.swap(false, Ordering::Relaxed) {
                self.reload(event);
                // The controller may refuse the old certificate.
                fetch_at = Time::ZERO;
            }
            let (end, day) = (self.client.end, unix_us() / 86_400_000_000);
            if end < (unix_us() / 1_000_000) as i64 + WARN && warned != Some((end, day)) {
                warned = Some((end, day));
                event(Event::CertificateEnds(end));
            }
            let now = self.shared.now();
            if now >= fetch_at {
                let result = self.fetch(event);
                let refresh = self.shared.agent().list().map_or(1_000, |list| list.refresh_ms.clamp(100, 600_000));
                fetch_at = self.shared.now() + Time::from_ms(refresh);
                match result {
                    Ok(()) if failure.take().is_some() => event(Event::Reachable),
                    Ok(()) => {}
                    Err(why) => {
                        let why = why.to_string();
                        let before = self.shared.agent().stopped();
                        self.shared.agent().fetch_failed();
                        if failure.as_ref() != Some(&why) {
                            event(Event::Unreachable(why.clone()));
                        }
                        failure = Some(why);
                        if !before && self.shared.agent().stopped() {
                            event(Event::Stopped);
                        }
                    }
                }
                self.shared.device.interrupt();
            }
            if now >= report_at {
                let every = self.shared.agent().list().map_or(1_000, |list| list.report_ms.clamp(100, 600_000));
                report_at = now + Time::from_ms(every);
                self.close_batch();
                if failure.is_none() {
                    self.report(&mut shown, &ends).into_iter().for_each(|why| event(Event::Discarded(why)));
                }
            }
            let wait = fetch_at.min(report_at).saturating_sub(self.shared.now());
            pause(wait.min(Time::from_ms(100)));
        }
        // If the controller can be reached, this sends the last results before the agent ends.
        self.close_batch();
        if failure.is_none() {
            self.report(&mut shown, &|| false).into_iter().for_each(|why| event(Event::Discarded(why)));
        }
    }

    fn fetch(&self, event: &mut impl FnMut(Event)) -> Result<(), ClientError> {
        let (list_version, digest, health) = {
            let agent = self.shared.agent();
            let (list_version, digest) = agent.current_list();
            (list_version, digest, agent.health())
        };
        let registration = Registration {
            protocol: PROTOCOL,
            host: self.options.host.clone(),
            incarnation: self.incarnation,
            address: self.shared.device.address(),
            list_version,
            digest,
            health: crate::record::Health {
                traces: self.traces,
                hardware_times: self.shared.device.has_hardware_times(),
                ..health
            },
        };
        match self.client.fetch(&registration)? {
            Fetched::Unchanged(version) => {
                let now = self.shared.now();
                self.shared.agent().unchanged(version, now);
                Ok(())
            }
            Fetched::List(list) => {
                let sizes = (list.targets.len(), list.admit.len());
                let mut seed = u64::from_ne_bytes(random().unwrap_or([7; 8]));
                let phase = || {
                    // SplitMix64 (Steele, Lea, Flood, 2014).
                    seed = seed.wrapping_add(0x9e37_79b9_7f4a_7c15);
                    let z = (seed ^ (seed >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
                    ((z ^ (z >> 27)) >> 11) as f64 / (1u64 << 53) as f64
                };
                let now = self.shared.now();
                self.shared.agent().set_pinglist(*list, now, phase).map_err(ClientError::Refused)?;
                event(Event::List(sizes.0, sizes.1));
                Ok(())
            }
        }
    }

    fn close_batch(&self) {
        let (now, wall) = (self.shared.now(), unix_us());
        self.shared.agent().close_batch(|at| wall.saturating_sub(now.saturating_sub(at).as_ps() / 1_000_000));
    }

    /// Sends the waiting batches until one fails or the agent ends. A batch that the controller does not accept keeps
    /// waiting. If the controller's disk is full, the agent shows the batches to the controller, which uses them for
    /// alarms and suspects without storing them. `shown` is the number of the last shown batch. If the controller will
    /// never accept a batch, the agent discards it, and this returns the reason.
    fn report(&self, shown: &mut u64, ends: &dyn Fn() -> bool) -> Option<String> {
        let mut discarded = None;
        while !ends() {
            let next = self.shared.agent().batch().map(|batch| (batch.sequence, batch.emit()));
            let Some((sequence, bytes)) = next else { break };
            let reported = self.client.report(&bytes);
            match reported {
                Ok(()) => self.shared.agent().confirmed(sequence),
                Err(ClientError::Full(_)) => {
                    // The controller counts a reported batch for alarms and suspects even if it cannot store it.
                    *shown = sequence.max(*shown);
                    self.show(shown, ends);
                    break;
                }
                Err(ClientError::Invalid(why)) => {
                    self.shared.agent().discard(sequence);
                    discarded = Some(why);
                }
                Err(_) => break,
            }
        }
        discarded
    }

    /// Shows the batches after `shown` to the controller.
    fn show(&self, shown: &mut u64, ends: &dyn Fn() -> bool) {
        while !ends() {
            let next = self.shared.agent().batch_after(*shown).map(|batch| (batch.sequence, batch.emit()));
            match next.map(|(sequence, bytes)| (sequence, self.client.show(&bytes))) {
                Some((sequence, Ok(()))) => *shown = sequence,
                _ => return,
            }
        }
    }
}

#[expect(clippy::disallowed_methods, reason = "an agent waits in real time")]
fn pause(time: Time) {
    std::thread::sleep(Duration::from_nanos(time.as_ps() / 1_000));
}

/// The local address from which a packet to `to` leaves.
///
/// # Errors
/// The host has no route to `to`.
pub fn local_address(to: IpAddr) -> io::Result<IpAddr> {
    let any: IpAddr = if to.is_ipv4() { [0, 0, 0, 0].into() } else { [0u16; 8].into() };
    let socket = std::net::UdpSocket::bind((any, 0))?;
    socket.connect((to, 9))?;
    Ok(socket.local_addr()?.ip())
}
