//! The server of `rnic perf`: it accepts clients and takes part in their measurements.

use super::control::{Control, Message, Setup, greet, hear, refuse, unexpected};
use super::counters::difference;
use super::end::End;
use super::latency::{self, Ball};
use super::report::process_cpu_time;
use super::{PerfError, Side, Verified, bandwidth};
use nix::poll::{PollFd, PollFlags, PollTimeout, poll};
use rnic_endpoint::device::Device;
use rnic_endpoint::exchange::{Channel, ExchangeError, RemoteMemory};
use rnic_transport::Time;
use std::io;
use std::net::{SocketAddr, TcpListener, TcpStream};
use std::os::fd::AsFd;
use std::sync::atomic::{AtomicBool, Ordering};

/// Options of [`serve`].
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct ServeOptions {
    /// UDP port of the server's device; 0 stands for any free port.
    pub roce_port: u16,
    /// Whether the server stops after its first client.
    pub once: bool,
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
const LOOK: u8 = 100;

/// Serves one client after another until `stop` is set, or only one with [`ServeOptions::once`]. The result for each
/// client is passed to `report`. An error with one client does not end the server.
///
/// # Errors
/// An error of `listener` when it accepts a connection.
pub fn serve(
    listener: &TcpListener, options: ServeOptions, stop: &AtomicBool, mut report: impl FnMut(Served),
) -> io::Result<()> {
    while let Some((stream, peer)) = accept(listener, stop)? {
        let result = serve_client(stream, options, stop);
        report(Served { peer, result });
        if options.once {
            break;
        }
    }
    Ok(())
}

/// Waits for the next client; returns `None` when `stop` is set.
fn accept(listener: &TcpListener, stop: &AtomicBool) -> io::Result<Option<(TcpStream, SocketAddr)>> {
    listener.set_nonblocking(true)?;
    loop {
        if stop.load(Ordering::Relaxed) {
            return Ok(None);
        }
        match listener.accept() {
            Ok(client) => return Ok(Some(client)),
            // Either no client is waiting, or the client has already closed its connection.
            Err(error) if matches!(error.kind(), io::ErrorKind::WouldBlock | io::ErrorKind::ConnectionAborted) => {}
            Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
            Err(error) => return Err(error),
        }
        match poll(&mut [PollFd::new(listener.as_fd(), PollFlags::POLLIN)], PollTimeout::from(LOOK)) {
            Ok(_) | Err(nix::errno::Errno::EINTR) => {}
            Err(error) => return Err(error.into()),
        }
    }
}

fn serve_client(stream: TcpStream, options: ServeOptions, stop: &AtomicBool) -> Result<u32, PerfError> {
    let mut channel = Channel::over(stream)?;
    greet(&mut channel)?;
    // A copy of the sending half, to tell the client why a measurement failed if the client is still connected.
    let mut speaker = channel.speaker()?;
    let result = converse(channel, options, stop);
    if let Err(error) = &result {
        refuse(&mut speaker, error);
    }
    speaker.hang_up();
    result
}

fn converse(mut channel: Channel, options: ServeOptions, stop: &AtomicBool) -> Result<u32, PerfError> {
    let peer = channel.peer_addr();
    let (setup, client, mtu_fixed) = match hear(&mut channel)? {
        Message::Hello { setup, client, mtu_fixed } => (setup, client, mtu_fixed),
        message => return Err(unexpected(peer, &message)),
    };
    let end = open(channel.local_addr(), options.roce_port, &setup)?;
    let own = end.path_mtu(peer)?;
    if mtu_fixed && own < client.mtu {
        let why = format!("an MTU of {} is too large: the path to {} carries at most {own}", client.mtu, peer.ip());
        return Err(super::PlanError(why).into());
    }
    let mtu = own.min(client.mtu);
    end.connect(peer, &client, mtu)?;
    channel.send(&Message::Welcome { server: end.introduction(mtu) })?;
    match hear(&mut channel)? {
        Message::Ready => {}
        message => return Err(unexpected(peer, &message)),
    }
    for queue_pair in 0..end.queue_pairs.len() {
        for number in 0..end.receives() {
            end.post_recv(queue_pair, if setup.verify { number } else { setup.slots - 1 })?;
        }
    }
    channel.send(&Message::Ready)?;
    let mut control = Control::new(channel, end.device.clone())?;
    let result = attend(&end, &mut control, client.memory, mtu, stop);
    if let Err(error) = &result {
        control.refuse(error);
    }
    result
}

/// Takes part in one measurement after another until the client closes the connection; returns their number.
fn attend(
    end: &End, control: &mut Control, memory: RemoteMemory, mtu: u32, stop: &AtomicBool,
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
        let (arrived, verified) = if end.setup.latency {
            latency::attend(&Ball::new(end, memory, size, mtu, stop), control)?;
            (0, Verified::default())
        } else {
            bandwidth::attend(end, control, size, stop)?
        };
        let cpu = process_cpu_time().saturating_sub(cpu);
        let side = Side { cpu_seconds: cpu.as_secs(), counts: difference(end.counts(), &before) };
        control.say(&Message::Ended { side, arrived, verified })?;
        sizes += 1;
    }
}

fn open(local: SocketAddr, roce_port: u16, setup: &Setup) -> Result<End, PerfError> {
    let mut local = local;
    local.set_port(roce_port);
    End::open(local, setup, 1)
}

/// Waits without a timeout for the client's next message. Returns `None` when the client closes the connection, which
/// between two measurements means that it has finished.
fn next(control: &Control, device: &Device, stop: &AtomicBool) -> Result<Option<Message>, PerfError> {
    loop {
        match control.heard() {
            Ok(Some(message)) => return Ok(Some(message)),
            Ok(None) => {}
            Err(PerfError::Exchange(ExchangeError::Gone { .. })) => return Ok(None),
            Err(error) => return Err(error),
        }
        if stop.load(Ordering::Relaxed) {
            return Err(PerfError::Interrupted);
        }
        // The device must go on sending and receiving packets: if the last ACKs were lost, the client retransmits, and
        // needs new ACKs.
        device.wait(Time::from_ms(10))?;
    }
}
