//! The client of `rnic perf`: it connects to a server and runs the measurements of a plan.

use super::bandwidth::Client;
use super::control::{Control, Message, Setup, greet, receive, receive_within, unexpected};
use super::counters::difference;
use super::end::{End, memory};
use super::latency::{self, Ball};
use super::plan::{Amount, Plan, PlanError};
use super::report::process_cpu_time;
use super::{Latencies, PerfError, Report, Row, Side, Verified};
use crate::Op;
use rnic_endpoint::config::Mode;
use rnic_endpoint::exchange::{Channel, RemoteMemory};
use rnic_transport::{BitRate, Time};
use rnic_verbs::{Service, Status};
use std::net::{SocketAddr, ToSocketAddrs};
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

/// Maximum time for which a client waits until the server has allocated its memory.
const PREPARATION: Duration = Duration::from_secs(60);

/// Runs all measurements of `plan` with the server `host`, which runs [`serve`](super::serve). Passes each result to
/// `row` as soon as the measurement of its message size ends.
///
/// # Errors
/// When the plan is invalid, the server does not respond, has another version or closes the connection, a work request
/// fails, or `stop` is set before any message was measured. If `stop` is set later, the report is marked as interrupted
/// ([`Report::interrupted`]), and its last row has the results up to the interruption.
pub fn run(
    host: impl ToSocketAddrs + ToString, plan: &Plan, stop: &AtomicBool, mut row: impl FnMut(&Report, &Row),
) -> Result<Report, PerfError> {
    plan.check()?;
    let setup = setup(plan);
    let memory = memory(&setup, u64::MAX)?;
    let mut channel = match &plan.credentials {
        None => Channel::connect(host)?,
        Some(credentials) => Channel::connect_secured(host, credentials)?,
    };
    greet(&mut channel)?;
    let (mut local, peer) = (channel.local_addr(), channel.peer_addr());
    local.set_port(plan.roce_port);
    let end = End::open(local, &setup, 0, memory, (plan.live.clone(), plan.capture.clone()))?;
    let own = end.path_mtu(peer)?;
    if let Some(asked) = plan.mtu
        && asked > own
    {
        let why = format!("an MTU of {asked} is too large: the path to {} carries at most {own}", peer.ip());
        return Err(PlanError(why).into());
    }
    let client = end.introduction(plan.mtu.unwrap_or(own));
    channel.send(&Message::Hello { setup: Box::new(setup), client, mtu_fixed: plan.mtu.is_some() })?;
    let server = match receive_within(&mut channel, PREPARATION)? {
        Message::Welcome { server } => server,
        message => return Err(unexpected(peer, &message)),
    };
    let mtu = server.mtu;
    end.connect(peer, &server, mtu)?;
    if plan.latency {
        for _ in 0..end.receives() {
            end.post_recv(0, end.setup.slots - 1)?;
        }
    }
    channel.send(&Message::Ready)?;
    match receive(&mut channel)? {
        Message::Ready => {}
        message => return Err(unexpected(peer, &message)),
    }
    let mut report = Report::new(plan, mtu, end.device.local_addr(), SocketAddr::new(peer.ip(), server.roce_port));
    let mut control = Control::new(channel, end.device.clone())?;
    for size in &plan.sizes {
        let result = measure(&end, &mut control, server.memory, *size, plan, mtu, stop);
        let result = result.map_err(|error| end.explain(error, report.server));
        let measured = match result {
            Ok(measured) => Some(measured).filter(|row| row.messages > 0),
            Err(PerfError::Interrupted) => None,
            Err(error) => {
                control.refuse(&error);
                return Err(error);
            }
        };
        report.interrupted = stop.load(Ordering::Relaxed);
        if let Some(measured) = measured {
            row(&report, &measured);
            report.rows.push(measured);
        }
        if report.interrupted {
            control.refuse(&PerfError::Interrupted);
            break;
        }
    }
    if report.rows.is_empty() { Err(PerfError::Interrupted) } else { Ok(report) }
}

fn setup(plan: &Plan) -> Setup {
    Setup {
        op: plan.op,
        latency: plan.latency,
        service: plan.service.name().to_string(),
        channel: plan.channel,
        queue_pairs: plan.queue_pairs,
        depth: plan.depth,
        slots: plan.slots(),
        stride: plan.stride(),
        congestion: plan.congestion.clone(),
        settings: plan.settings.clone(),
        line_rate: plan.line_rate.map(BitRate::as_bps),
        in_flight: plan.in_flight,
        verify: plan.verify,
        seed: plan.faults.seed,
        faults: plan.faults,
        polled: plan.mode == Mode::Polled,
        give_up_after_us: (plan.service != Service::Uc.into()).then(|| plan.timeout().as_ps() / 1_000_000),
        security: plan.security,
    }
}

/// Measures one message size; returns its row of the report.
fn measure(
    end: &End, control: &mut Control, memory: RemoteMemory, size: u32, plan: &Plan, mtu: u32, stop: &AtomicBool,
) -> Result<Row, PerfError> {
    end.region.with_mut(|bytes| bytes.fill(0));
    control.say(&Message::Begin { size })?;
    match control.wait_for_message(&end.device, stop)? {
        Message::Began => {}
        message => return Err(unexpected(control.peer(), &message)),
    }
    let (before, cpu) = (end.counts(), process_cpu_time());
    let mut latency = None;
    let (messages, elapsed, peak, mut verified) = if plan.latency {
        let times = latency::measure(&Ball::new(end, memory, size, mtu, stop), control, plan.amount)?;
        let (count, elapsed) = (times.len() as u64, times.iter().fold(Time::ZERO, |sum, time| sum + *time));
        // Sends and Writes are measured as a ping-pong: the latency is half of the round trip.
        let parts = if plan.op.is_fetching() { 1.0 } else { 2.0 };
        latency = Latencies::new(times, parts);
        (vec![count], elapsed, 0.0, Verified::default())
    } else {
        let outcome = Client { end, control, memory, size, stop }.run(plan.amount)?;
        (outcome.messages, outcome.elapsed, outcome.peak, outcome.verified)
    };
    let interrupted = stop.load(Ordering::Relaxed);
    let cpu = process_cpu_time().saturating_sub(cpu);
    let client = Side { cpu_seconds: cpu.as_secs(), counts: difference(end.counts(), &before) };
    let sent: u64 = messages.iter().sum();
    control.say(&Message::End { messages })?;
    let (server, arrived) = match ended(control, end, interrupted, stop) {
        Ok((side, arrived, theirs)) => {
            verified += theirs;
            (Some(side), arrived)
        }
        // After an interruption, the user need not wait for a server that does not respond.
        Err(_) if interrupted => (None, sent),
        Err(error) => return Err(error),
    };
    // Only the receiver knows how many messages an unreliable connection delivered.
    let carried = if plan.service == Service::Uc.into() && !plan.latency { arrived } else { sent };
    let seconds = elapsed.as_secs().max(1e-9);
    let rate = carried as f64 / seconds;
    let peak = if plan.service == Service::Uc.into() { rate } else { peak.max(rate) };
    Ok(Row {
        bytes: size,
        messages: sent,
        arrived: carried,
        seconds,
        bytes_per_second: rate * f64::from(size),
        peak_bytes_per_second: peak * f64::from(size),
        messages_per_second: rate,
        latency,
        verified: plan.verify.then_some(verified),
        client: Some(client),
        server,
    })
}

/// Time for which the client waits for the server's result of an interrupted measurement.
const AFTER_INTERRUPTION: Time = Time::from_ms(1_000);

/// Waits for the server's part of the result: its counters, the number of messages that arrived, and the result of its
/// verification.
fn ended(
    control: &Control, end: &End, interrupted: bool, stop: &AtomicBool,
) -> Result<(Side, u64, Verified), PerfError> {
    loop {
        let message = match interrupted {
            false => control.wait_for_message(&end.device, stop),
            true => control.wait_for_message_within(AFTER_INTERRUPTION, &end.device, &AtomicBool::new(false)),
        };
        match message? {
            Message::Ended { side, arrived, verified } => return Ok((side, arrived, verified)),
            // The measurement was interrupted while the client waited for this message.
            Message::Checked if interrupted => {}
            message => return Err(unexpected(control.peer(), &message)),
        }
    }
}

impl End {
    /// Replaces a timeout at the client by `PerfError::Blocked` if no packet of the server has ever arrived.
    fn explain(&self, error: PerfError, server: SocketAddr) -> PerfError {
        let is_silence =
            matches!(error, PerfError::Failed { status: Status::TransportRetryExceeded, .. } | PerfError::Lost { .. });
        if is_silence && self.device.counters().port.received_segments == 0 {
            return PerfError::Blocked { server };
        }
        error
    }
}

impl Plan {
    /// perftest's default number of messages: 5,000 for bandwidth, 1,000 for latency and atomic operations.
    pub fn usual_messages(op: Op, latency: bool) -> Amount {
        Amount::Messages(if latency || op.is_atomic() { 1_000 } else { 5_000 })
    }
}
