//! The client of a measurement with plain datagrams: it sends them and computes the result.

use super::control::{Control, RawError, field};
use super::{Case, Mode, RoundTrips, Throughput};
use rnic_endpoint::clock::{Clock, TimeSource, thread_cpu_time};
use rnic_endpoint::idle::{Idle, IdleConfig};
use rnic_endpoint::port::{Batch, Interest, Port, SendError, TrafficClass, UdpPort};
use rnic_transport::Time;
use std::io::IoSlice;
use std::net::SocketAddr;

/// Number of reports that the receiver sends per window (maximum bytes in flight). A report contains the number of
/// bytes that have arrived.
const REPORTS_PER_WINDOW: u64 = 4;
/// Maximum datagrams in flight in a measurement with a window. The kernel uses far more buffer space for a short
/// datagram than its bytes, so a limit in bytes is not sufficient.
const MAX_IN_FLIGHT: u64 = 4_096;
/// Time without a report after which the sender counts the datagrams in flight as lost.
const TIMEOUT: Time = Time::from_ms(100);

/// Measures the throughput of datagrams to the host `server`, which runs [`super::serve`].
///
/// # Errors
///
/// The host does not accept the TCP connection, a datagram does not fit in the path MTU, or no datagram arrives.
pub fn throughput(server: SocketAddr, case: &Case) -> Result<Throughput, RawError> {
    let mut control = Control::connect(server)?;
    let mut port = open(&control, case.mode)?;
    let longest = port.longest_datagram(control.peer).map_err(RawError::Port)?;
    if case.size > longest {
        return Err(SendError::TooLong { length: case.size, destination: control.peer }.into());
    }
    let window = case.window.map(|window| window.min(MAX_IN_FLIGHT * case.size as u64));
    let every = window.map_or(0, |window| (window / REPORTS_PER_WINDOW).max(1));
    let own = port.local_addr();
    control.say(&format!("throughput mode={} every={every} port={}", case.mode, own.port()))?;
    let destination = ready(&mut control)?;

    let start_cpu = thread_cpu_time();
    let sent = send(&mut port, destination, case, window)?;
    let sender_cpu = thread_cpu_time().saturating_sub(start_cpu);

    control.say("done")?;
    let result = control.receive_line()?;
    let received = field(&result, "datagrams")?;
    if received == 0 {
        return Err(RawError::Nothing { from: own, to: destination });
    }
    Ok(Throughput {
        sent,
        received,
        received_bytes: field(&result, "bytes")?,
        elapsed: from_ns(field(&result, "elapsed_ns")?),
        sender_cpu,
        receiver_cpu: from_ns(field(&result, "cpu_ns")?),
    })
}

/// Converts nanoseconds to a [`Time`], at most [`Time::MAX`]. The number comes from the server, so it may be too large
/// for a [`Time`].
fn from_ns(ns: u64) -> Time {
    Time::from_ps(ns.saturating_mul(1_000))
}

fn open(control: &Control, mode: Mode) -> Result<UdpPort, RawError> {
    Ok(UdpPort::bind(SocketAddr::new(control.local.ip(), 0), &mode.config())?)
}

/// Waits for the server's message that its UDP port is open; returns the address of this port.
fn ready(control: &mut Control) -> Result<SocketAddr, RawError> {
    let reply = control.receive_line()?;
    Ok(SocketAddr::new(control.peer.ip(), field(&reply, "port")?))
}

/// Sends datagrams for the duration of `case`; returns their number.
fn send(port: &mut UdpPort, destination: SocketAddr, case: &Case, window: Option<u64>) -> Result<u64, RawError> {
    let clock = Clock::start();
    let data = vec![0; port.limits().bytes];
    let (source_port, traffic_class, segment) = (port.source_port(0), TrafficClass::default(), case.size);
    let (mut sent, mut arrived, mut last_report) = (0, 0, Time::ZERO);
    let mut idle = Idle::new(IdleConfig::default());
    loop {
        let now = clock.now();
        if now >= case.duration {
            return Ok(sent);
        }
        let limits = port.limits();
        let bytes = (limits.bytes / segment.max(1)).clamp(1, limits.segments) * segment;
        let in_flight = sent * segment as u64 - arrived;
        if window.is_some_and(|window| in_flight > 0 && in_flight + bytes as u64 > window) {
            if let Some(total) = report(port)? {
                (arrived, last_report) = (total.max(arrived), now);
                idle.worked(now);
            } else if now.saturating_sub(last_report) > TIMEOUT {
                (arrived, last_report) = (sent * segment as u64, now);
            } else {
                idle.rest(port, now, Interest::Arrival, Some(last_report + TIMEOUT)).map_err(RawError::Port)?;
            }
            continue;
        }
        let data = [IoSlice::new(&data[..bytes.min(data.len())])];
        let batch = Batch { destination, source_port, source_address: None, traffic_class, segment, data: &data };
        match port.send(&batch)? {
            0 => port.wait(Interest::ArrivalOrRoom, Some(case.duration.saturating_sub(now))).map_err(RawError::Port)?,
            taken => sent += taken as u64,
        }
    }
}

/// Returns the number of received bytes, according to the receiver's latest report; `None` if no report has arrived.
fn report(port: &mut UdpPort) -> Result<Option<u64>, RawError> {
    let arrival = port.receive().map_err(RawError::Port)?;
    let last = arrival.and_then(|arrival| arrival.segments().last());
    Ok(last.and_then(|datagram| Some(u64::from_be_bytes(datagram.try_into().ok()?))))
}

/// Measures `count` round trips of datagrams of `size` bytes to the host `server`, which runs [`super::serve`]. It
/// sends each datagram when the previous one has returned, or is lost.
///
/// # Errors
///
/// The same errors as [`throughput`]. A `size` below 8 is not an error: the datagrams then have 8 bytes.
pub fn round_trips(server: SocketAddr, size: usize, count: u32) -> Result<RoundTrips, RawError> {
    let mut control = Control::connect(server)?;
    let mut port = open(&control, Mode::Plain)?;
    control.say(&format!("round-trips port={}", port.local_addr().port()))?;
    let destination = ready(&mut control)?;
    let clock = Clock::start();
    let mut data = vec![0; size.max(8)];
    let mut trips = RoundTrips { sorted: Vec::with_capacity(count as usize), lost: 0 };
    for number in 0..u64::from(count) {
        data[..8].copy_from_slice(&number.to_be_bytes());
        match round_trip(&mut port, destination, &data, &clock)? {
            Some(time) => trips.sorted.push(time),
            None => trips.lost += 1,
        }
    }
    control.say("done")?;
    control.receive_line()?;
    if trips.sorted.is_empty() {
        return Err(RawError::Nothing { from: port.local_addr(), to: destination });
    }
    trips.sorted.sort_unstable();
    Ok(trips)
}

/// Sends a datagram and waits until it returns. Returns the round-trip time, or `None` if the datagram does not return
/// within the timeout.
fn round_trip(
    port: &mut UdpPort, destination: SocketAddr, data: &[u8], clock: &Clock,
) -> Result<Option<Time>, RawError> {
    let (source_port, traffic_class, segment) = (port.source_port(0), TrafficClass::default(), data.len());
    let slices = [IoSlice::new(data)];
    let start = clock.now();
    port.send(&Batch { destination, source_port, source_address: None, traffic_class, segment, data: &slices })?;
    loop {
        let back = port.receive().map_err(RawError::Port)?.is_some_and(|arrival| arrival.data == data);
        let spent = clock.now() - start;
        if back {
            return Ok(Some(spent));
        }
        if spent > TIMEOUT {
            return Ok(None);
        }
        std::hint::spin_loop();
    }
}
