//! The server of `rnic perf`: it accepts clients and takes part in their measurements.

use super::control::{Control, Introduction, MESSAGE_TIMEOUT, Message, Setup, greet, receive, refuse, unexpected};
use super::counters::difference;
use super::end::{End, Watch, memory};
use super::latency::{self, Ball};
use super::live::Live;
use super::report::process_cpu_time;
use super::{PerfError, Side, Verified, bandwidth};
use crate::reception;
use rnic_endpoint::clock::{Clock, TimeSource};
use rnic_endpoint::device::Device;
use rnic_endpoint::exchange::{Admission, Channel, Credentials, ExchangeError, RemoteMemory};
use rnic_endpoint::port::CaptureFile;
use rnic_transport::Time;
use rnic_untrusted::text::brief;
use std::io;
use std::net::{SocketAddr, TcpListener, TcpStream};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

/// Default of [`ServeOptions::max_memory`]: 512 MiB.
pub const DEFAULT_MAX_MEMORY: u64 = 512 << 20;

/// Default of [`ServeOptions::idle_timeout`].
const IDLE_TIMEOUT: Time = Time::from_ms(60_000);

/// Options of [`serve`].
#[derive(Clone, Debug)]
pub struct ServeOptions {
    /// UDP port of the server's device; 0 stands for any free port.
    pub roce_port: u16,
    /// Whether the server stops after its first client.
    pub once: bool,
    /// Maximum bytes of memory that a client may request from the server.
    pub max_memory: u64,
    /// Maximum time during a measurement in which the client sends neither a packet nor a message. After this time the
    /// server ends the measurement and serves the next client. The default is 60 s.
    pub idle_timeout: Time,
    /// The credentials for TLS, with which clients must authenticate. With `None` the server serves every client over
    /// plain TCP.
    pub credentials: Option<Credentials>,
    /// The observer of the measurements, which also changes the faults of the server's device.
    pub live: Option<Arc<Live>>,
    /// The file into which the packets that the server sends and receives are captured.
    pub capture: Option<CaptureFile>,
}

impl Default for ServeOptions {
    fn default() -> ServeOptions {
        let roce_port = rnic_endpoint::port::ROCE_PORT;
        ServeOptions {
            roce_port,
            once: false,
            max_memory: DEFAULT_MAX_MEMORY,
            idle_timeout: IDLE_TIMEOUT,
            credentials: None,
            live: None,
            capture: None,
        }
    }
}

/// The result of the measurements with one client.
#[derive(Debug)]
pub struct Served {
    /// The TCP address of the client.
    pub peer: SocketAddr,
    /// The number of measurements, one for each message size, or the error that ended them.
    pub result: Result<u32, PerfError>,
}

/// Interval in milliseconds at which a server that waits for a client checks whether it should stop.
const STOP_CHECK_INTERVAL: u8 = 100;
/// Maximum length in characters of a name in a client's setup. No valid name is as long.
const MAX_NAME: usize = 60;

/// Serves one client after another until `stop` is set, or only one with [`ServeOptions::once`]. Passes the result for
/// each client to `report`. An error with one client does not end the server. While it serves a client, the server
/// receives the first messages of further clients.
///
/// # Errors
/// An error of `listener` when it accepts a connection.
pub fn serve(
    listener: &TcpListener, options: ServeOptions, stop: &AtomicBool, mut report: impl FnMut(Served),
) -> io::Result<()> {
    let (done, (reception, clients)) = (AtomicBool::new(false), reception::queue());
    let credentials = options.credentials.clone();
    let first = move |stream, _, admission: &Admission| receive_hello(stream, credentials.as_ref(), admission);
    std::thread::scope(|scope| {
        let reception = scope.spawn(|| {
            let ends = || stop.load(Ordering::Relaxed) || done.load(Ordering::Relaxed);
            reception.run(listener, ends, first)
        });
        let interval = Duration::from_millis(STOP_CHECK_INTERVAL.into());
        while !stop.load(Ordering::Relaxed) && !reception.is_finished() {
            let Some((peer, hello)) = clients.next(interval) else { continue };
            let serve = |((channel, hello), _admission)| serve_client(channel, hello, &options, stop);
            let result = hello.and_then(serve);
            report(Served { peer, result });
            if options.once {
                break;
            }
        }
        done.store(true, Ordering::Relaxed);
        reception.join().unwrap_or_else(|_| Err(io::Error::other("the thread that accepts clients panicked")))
    })
}

/// The first message of a client.
struct Hello {
    setup: Box<Setup>,
    client: Introduction,
    mtu_fixed: bool,
}

/// Receives the first messages of a client, and moves the client to the queue of clients that wait to be served.
fn receive_hello(
    stream: TcpStream, credentials: Option<&Credentials>, admission: &Admission,
) -> Result<(Channel, Hello), PerfError> {
    let mut channel = match credentials {
        None => Channel::over(stream)?,
        Some(credentials) => Channel::accept_secured(stream, credentials)?,
    };
    greet(&mut channel)?;
    let (setup, client, mtu_fixed) = match receive(&mut channel)? {
        Message::Hello { setup, client, mtu_fixed } => (setup, client, mtu_fixed),
        message => return Err(unexpected(channel.peer_addr(), &message)),
    };
    let mut speaker = channel.speaker();
    let mut refuse = |why: String| {
        refuse(&mut speaker, &super::PlanError(why.clone()).into());
        PerfError::from(super::PlanError(why))
    };
    admission.prove().map_err(|refusal| refuse(refusal.to_string()))?;
    let evicted = channel.speaker();
    admission.on_eviction(move || evicted.hang_up());
    Ok((channel, Hello { setup: Box::new(with_short_names(*setup)), client, mtu_fixed }))
}

/// Makes the names in a client's setup safe for messages and logs. This changes only names that are not valid.
fn with_short_names(mut setup: Setup) -> Setup {
    let names = [&mut setup.service, &mut setup.congestion];
    let settings = setup.settings.iter_mut().flat_map(|(key, value)| [key, value]);
    for name in names.into_iter().chain(settings) {
        *name = brief(name, MAX_NAME).into_owned();
    }
    setup
}

fn serve_client(channel: Channel, hello: Hello, options: &ServeOptions, stop: &AtomicBool) -> Result<u32, PerfError> {
    // A copy of the sending half, to send the client the reason of a failure if the client is still connected.
    let mut speaker = channel.speaker();
    let result = converse(channel, hello, options, stop);
    if let Err(error) = &result {
        refuse(&mut speaker, error);
    }
    speaker.hang_up();
    result
}

fn converse(mut channel: Channel, hello: Hello, options: &ServeOptions, stop: &AtomicBool) -> Result<u32, PerfError> {
    let peer = channel.peer_addr();
    let Hello { setup, client, mtu_fixed } = hello;
    let local = SocketAddr::new(channel.local_addr().ip(), options.roce_port);
    let watched = (options.live.clone(), options.capture.clone());
    let end = End::open(local, &setup, 1, memory(&setup, options.max_memory)?, watched)?;
    let own = end.path_mtu(peer)?;
    if mtu_fixed && own < client.mtu {
        let why = format!("an MTU of {} is too large: the path to {} carries at most {own}", client.mtu, peer.ip());
        return Err(super::PlanError(why).into());
    }
    let mtu = own.min(client.mtu);
    end.connect(peer, &client, mtu)?;
    channel.send(&Message::Welcome { server: end.introduction(mtu) })?;
    match receive(&mut channel)? {
        Message::Ready => {}
        message => return Err(unexpected(peer, &message)),
    }
    for queue_pair in 0..end.lanes.count() {
        for number in 0..end.receives() {
            end.post_recv(queue_pair, if setup.verify { number } else { setup.slots - 1 })?;
        }
    }
    channel.send(&Message::Ready)?;
    let mut control = Control::new(channel, end.device.clone())?;
    let result = attend(&end, &mut control, client.memory, mtu, stop, options.idle_timeout);
    if let Err(error) = &result {
        control.refuse(error);
    }
    result
}

/// Takes part in one measurement after another until the client closes the connection; returns their number.
fn attend(
    end: &End, control: &mut Control, memory: RemoteMemory, mtu: u32, stop: &AtomicBool, idle_timeout: Time,
) -> Result<u32, PerfError> {
    let mut sizes = 0;
    loop {
        let size = match next(control, &end.device, stop)? {
            None => return Ok(sizes),
            Some(Message::Begin { size }) if (1..=end.setup.stride).contains(&size) => size,
            Some(message) => return Err(unexpected(control.peer(), &message)),
        };
        end.region.with_mut(|bytes| bytes.fill(0));
        let (before, cpu) = (end.counts(), process_cpu_time());
        control.say(&Message::Began)?;
        let mut watch = Watch::new(end, idle_timeout);
        let (arrived, verified) = if end.setup.latency {
            latency::attend(&Ball::new(end, memory, size, mtu, stop), control, &mut watch)?;
            (0, Verified::default())
        } else {
            bandwidth::attend(end, control, size, stop, &mut watch)?
        };
        let cpu = process_cpu_time().saturating_sub(cpu);
        let side = Side { cpu_seconds: cpu.as_secs(), counts: difference(end.counts(), &before) };
        control.say(&Message::Ended { side, arrived, verified })?;
        sizes += 1;
    }
}

/// Waits for the client's next message. Returns `None` if the client closes the connection. Between two measurements
/// this means that the client has finished.
fn next(control: &Control, device: &Device, stop: &AtomicBool) -> Result<Option<Message>, PerfError> {
    let clock = Clock::start();
    loop {
        if clock.now() > MESSAGE_TIMEOUT {
            return Err(control.silent(MESSAGE_TIMEOUT));
        }
        match control.try_receive() {
            Ok(Some(message)) => return Ok(Some(message)),
            Ok(None) => {}
            Err(PerfError::Exchange(ExchangeError::Gone { .. })) => return Ok(None),
            Err(error) => return Err(error),
        }
        if stop.load(Ordering::Relaxed) {
            return Err(PerfError::Interrupted);
        }
        // The device must continue to send and receive packets: if the last ACKs were lost, the client retransmits, and
        // needs new ACKs.
        device.wait(Time::from_ms(10))?;
    }
}
