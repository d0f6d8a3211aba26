//! The server of a measurement with plain datagrams: it counts received datagrams, or sends them back.

use super::control::{Control, RawError, field};
use super::{Mode, UdpConfig};
use crate::reception;
use rnic_endpoint::clock::{Clock, TimeSource, thread_cpu_time};
use rnic_endpoint::exchange::Admission;
use rnic_endpoint::idle::{Idle, IdleConfig};
use rnic_endpoint::port::{Batch, Interest, Port, TrafficClass, UdpPort};
use rnic_transport::Time;
use std::io::IoSlice;
use std::net::{SocketAddr, TcpListener, TcpStream};
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

/// Time for which the server waits for further datagrams after the sender's message `done`.
const AFTERMATH: Time = Time::from_ms(20);

/// Interval in which the server checks whether accepting clients has failed.
const CHECK_INTERVAL: Duration = Duration::from_millis(100);

/// Serves one client after another, without end. If serving a client fails, it passes the error to `report` and
/// continues with the next client. While it serves a client, it receives the first requests of further clients.
///
/// # Errors
///
/// An error of `listener` when it accepts a connection.
pub fn serve(listener: &TcpListener, mut report: impl FnMut(RawError)) -> std::io::Result<()> {
    let (reception, clients) = reception::queue();
    std::thread::scope(|scope| {
        let reception = scope.spawn(|| reception.run(listener, || false, first_request));
        while !reception.is_finished() {
            let Some((_, client)) = clients.next(CHECK_INTERVAL) else { continue };
            let serve = |((control, request), _admission)| serve_client(control, request);
            if let Err(error) = client.and_then(serve) {
                report(error);
            }
        }
        reception.join().unwrap_or_else(|panic| std::panic::resume_unwind(panic))
    })
}

/// Receives the first request of a client; `None` if the client closed the connection.
fn first_request(
    stream: TcpStream, peer: SocketAddr, admission: &Admission,
) -> Result<(Control, Option<String>), RawError> {
    let mut control = Control::over(stream, peer)?;
    let request = control.next_line()?;
    if let Some(request) = &request {
        check(request)?;
    }
    admission.prove()?;
    admission.on_eviction(control.closer()?);
    Ok((control, request))
}

/// Checks the kind of a request.
fn check(request: &str) -> Result<(), RawError> {
    match request.split(' ').next() {
        Some("throughput" | "round-trips") => Ok(()),
        _ => Err(RawError::Protocol(format!("`{request}` is not a request"))),
    }
}

fn serve_client(mut control: Control, first: Option<String>) -> Result<(), RawError> {
    let mut next = first;
    while let Some(request) = next {
        check(&request)?;
        if request.starts_with("throughput") {
            receive(&mut control, &request)?;
        } else {
            echo(&mut control, &request)?;
        }
        next = control.next_line()?;
    }
    Ok(())
}

fn open(control: &mut Control, config: &UdpConfig) -> Result<UdpPort, RawError> {
    let port = UdpPort::bind(SocketAddr::new(control.local.ip(), 0), config)?;
    control.say(&format!("ready port={}", port.local_addr().port()))?;
    Ok(port)
}

/// Runs `work` on the port in a separate thread. Sets the first flag that was passed to `work` when the client sends
/// `done`, closes the connection, or is inactive; `work` sets the second flag when a datagram arrives.
fn until_done<T: Send>(
    control: &mut Control, port: &mut UdpPort,
    work: impl FnOnce(&mut UdpPort, &AtomicBool, &AtomicBool) -> Result<T, RawError> + Send,
) -> Result<T, RawError> {
    let (done, active, waker) = (AtomicBool::new(false), AtomicBool::new(false), port.waker());
    std::thread::scope(|threads| {
        let worker = threads.spawn(|| work(port, &done, &active));
        let word = control.line_while(|| active.swap(false, Ordering::Relaxed));
        done.store(true, Ordering::Release);
        waker.wake();
        let result = worker.join().unwrap_or_else(|panic| std::panic::resume_unwind(panic))?;
        match word? {
            Some(line) if line == "done" => Ok(result),
            other => Err(RawError::Protocol(format!("expected `done`, not `{}`", other.unwrap_or_default()))),
        }
    })
}

/// Numbers of datagrams and bytes that the server received, the times of the first and last arrival, and CPU time.
#[derive(Default)]
struct Received {
    datagrams: u64,
    bytes: u64,
    first: Option<Time>,
    last: Time,
    cpu: Time,
}

fn receive(control: &mut Control, request: &str) -> Result<(), RawError> {
    let mode: Mode = field(request, "mode")?;
    let every: u64 = field(request, "every")?;
    let answer_to = SocketAddr::new(control.peer.ip(), field(request, "port")?);
    let mut port = open(control, &mode.config())?;
    let received = until_done(control, &mut port, |port, done, active| count(port, (done, active), answer_to, every))?;
    let elapsed = received.last.saturating_sub(received.first.unwrap_or_default());
    let (nanoseconds, cpu) = (elapsed.as_ps() / 1_000, received.cpu.as_ps() / 1_000);
    control.say(&format!(
        "received datagrams={} bytes={} elapsed_ns={nanoseconds} cpu_ns={cpu}",
        received.datagrams, received.bytes
    ))
}

/// Counts received datagrams until the sender has finished. Reports the number of received bytes to the sender after
/// each `every` bytes; sends no reports if `every` is 0.
fn count(
    port: &mut UdpPort, (done, active): (&AtomicBool, &AtomicBool), answer_to: SocketAddr, every: u64,
) -> Result<Received, RawError> {
    let (clock, mut received, mut reported) = (Clock::start(), Received::default(), 0);
    let mut idle = Idle::new(IdleConfig::default());
    let start_cpu = thread_cpu_time();
    loop {
        let ending = done.load(Ordering::Acquire);
        let arrival = port.receive().map_err(RawError::Port)?;
        let arrived = arrival.map(|arrival| (arrival.segments().len() as u64, arrival.data.len() as u64));
        let now = clock.now();
        if let Some((datagrams, bytes)) = arrived {
            active.store(true, Ordering::Relaxed);
            received.datagrams += datagrams;
            received.bytes += bytes;
            received.first.get_or_insert(now);
            received.last = now;
            idle.worked(now);
            if every > 0 && received.bytes - reported >= every {
                reported = received.bytes;
                send_report(port, answer_to, &reported.to_be_bytes())?;
            }
        } else if ending && now.saturating_sub(received.last) >= AFTERMATH {
            received.cpu = thread_cpu_time().saturating_sub(start_cpu);
            return Ok(received);
        } else if ending {
            port.wait(Interest::Arrival, Some(AFTERMATH)).map_err(RawError::Port)?;
        } else {
            idle.rest(port, now, Interest::Arrival, None).map_err(RawError::Port)?;
        }
    }
}

/// Sends one datagram. If the send buffer is full, the datagram is lost; the measurement tolerates this like a loss in
/// a switch.
fn send_report(port: &mut UdpPort, destination: SocketAddr, data: &[u8]) -> Result<(), RawError> {
    let (source_port, segment, traffic_class) = (port.source_port(0), data.len(), TrafficClass::default());
    let data = [IoSlice::new(data)];
    port.send(&Batch { destination, source_port, source_address: None, traffic_class, segment, data: &data })?;
    Ok(())
}

/// Sends all datagrams from the client's IP address back to the client's port. It polls without sleeping.
fn echo(control: &mut Control, request: &str) -> Result<(), RawError> {
    let answer_to = SocketAddr::new(control.peer.ip(), field(request, "port")?);
    let mut port = open(control, &Mode::Plain.config())?;
    until_done(control, &mut port, |port, done, active| {
        let mut copy = Vec::new();
        while !done.load(Ordering::Relaxed) {
            copy.clear();
            match port.receive().map_err(RawError::Port)? {
                Some(arrival) if arrival.meta.source.ip() == answer_to.ip() => copy.extend_from_slice(arrival.data),
                _ => std::hint::spin_loop(),
            }
            if !copy.is_empty() {
                active.store(true, Ordering::Relaxed);
                send_report(port, answer_to, &copy)?;
            }
        }
        Ok(())
    })?;
    control.say("echoed")
}
