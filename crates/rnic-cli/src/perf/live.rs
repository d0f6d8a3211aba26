//! `rnic perf --serve`: a measurement on a live page, with sliders that change the injected faults.
//!
//! Threads measure and one thread reads the counters at an interval. The page asks for the points of the intervals; a
//! browser that asks rarely, or never, does not slow the measurement down, because the points are in one bounded list.

mod page;

use super::{MeasureArgs, endpoint, failure, plan};
use crate::service;
use page::{Page, Row};
use rnic_endpoint::Mode;
use rnic_endpoint::port::ROCE_PORT;
use rnic_http::{Limits, Server};
use rnic_perf::{
    Amount, Carrier, DEFAULT_PORT, Live, LiveFaults, Meter, PerfError, Plan, ServeOptions, Served, run, serve,
};
use rnic_simulator::error::CliError;
use rnic_simulator::interrupt::Interruption;
use rnic_simulator::output::note;
use rnic_transport::Time;
use rnic_verbs::Service;
use std::net::{SocketAddr, TcpListener};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

/// Time between two points of a line.
const INTERVAL: Duration = Duration::from_millis(250);
/// Time after which a failed measurement begins again.
const PAUSE: Duration = Duration::from_millis(500);
/// Duration of one measurement if the user states none; the next one follows it.
const UNLIMITED: Time = Time::from_ms(86_400_000);
/// One line of the page: the measurement of one transport.
struct Series {
    plan: Plan,
    live: Arc<Live>,
    /// The listener of the server, if client and server run in this process.
    listener: Option<TcpListener>,
    /// The server's address.
    server: String,
}

/// Measures and serves the page, until the user interrupts, or until the time of `--duration` has passed.
pub(super) fn live(address: SocketAddr, arguments: &MeasureArgs, interruption: &Interruption) -> Result<(), CliError> {
    let series = series(arguments)?;
    let faults = LiveFaults::try_from(&plan(arguments).faults).map_err(|error| CliError::Input(error.to_string()))?;
    let names = series.iter().map(|series| series.plan.service.name().to_string()).collect();
    let lives: Vec<Arc<Live>> = series.iter().map(|series| series.live.clone()).collect();
    let page = Page::new(names, lives, faults)
        .map_err(|error| CliError::Io { doing: "cannot make the token of the page".to_string(), error })?;
    let listener = TcpListener::bind(address)
        .map_err(|error| CliError::Io { doing: format!("cannot serve the page at {address}"), error })?;
    let server = Server::start(listener, page::router(page.clone()), Limits::default())
        .map_err(|error| CliError::Io { doing: "cannot serve the page".to_string(), error })?;
    if !server.address().ip().is_loopback() {
        note("the page is served over plain HTTP to other hosts: anyone who sees the traffic can read its token");
    }
    note(&format!("live page at http://{}/#{} (Ctrl-C ends)", server.address(), page.token()));
    let stop = AtomicBool::new(false);
    let limit = arguments.duration.map(|time| time.as_ps() / 1_000);
    std::thread::scope(|scope| {
        let threads: Vec<_> = series
            .iter()
            .enumerate()
            .map(|(index, series)| {
                let (stop, page) = (&stop, &page);
                if let Some(listener) = &series.listener {
                    scope.spawn(move || accept(listener, series, stop));
                }
                scope.spawn(move || measure(series, stop, |error| page.fail(index, error)))
            })
            .collect();
        observe(&series, &page, interruption, |now| {
            limit.is_some_and(|limit| now >= limit) || threads.iter().any(|thread| thread.is_finished())
        });
        stop.store(true, Ordering::Relaxed);
        let results = threads.into_iter().map(|thread| {
            thread.join().unwrap_or_else(|_| Err(CliError::Failed(vec!["a thread that measures panicked".to_string()])))
        });
        results.collect::<Result<Vec<()>, CliError>>()
    })?;
    Ok(())
}

/// The measurements that the arguments ask for.
fn series(arguments: &MeasureArgs) -> Result<Vec<Series>, CliError> {
    let base = Plan { amount: Amount::Duration(UNLIMITED), ..plan(arguments) };
    let io = |error| CliError::Io { doing: "cannot listen on a TCP port of 127.0.0.1".to_string(), error };
    if let Some(host) = &arguments.host {
        let plan = Plan { credentials: arguments.trust.credentials()?, ..base };
        let server = endpoint(host, arguments.port);
        return Ok(vec![one(plan, Live::new(true), None, server)]);
    }
    if arguments.port != DEFAULT_PORT || arguments.roce_port != ROCE_PORT || arguments.trust.credentials()?.is_some() {
        let why = "--serve without HOST runs both sides in this process, so that --port, --roce-port and credentials \
                   have no effect; name a HOST, or leave them out";
        return Err(CliError::Input(why.to_string()));
    }
    let services: Vec<Carrier> = match arguments.service {
        Some(service) => vec![service.into()],
        None => vec![Service::Irn.into(), Service::Rc.into()],
    };
    let open = |service| {
        let listener = TcpListener::bind("127.0.0.1:0").map_err(io)?;
        let server = listener.local_addr().map_err(io)?.to_string();
        // Four threads that poll would keep each other from the processor.
        let plan = Plan { service, mode: Mode::Thread, roce_port: 0, ..base.clone() };
        Ok(one(plan, Live::new(false), Some(listener), server))
    };
    services.into_iter().map(open).collect()
}

fn one(plan: Plan, live: Live, listener: Option<TcpListener>, server: String) -> Series {
    let live = Arc::new(live);
    // The observer sets all faults.
    let faults = rnic_perf::FaultPlan { seed: plan.faults.seed, ..rnic_perf::FaultPlan::default() };
    Series { plan: Plan { live: Some(live.clone()), faults, ..plan }, live, listener, server }
}

/// Runs the server of a measurement whose client is in this process too.
fn accept(listener: &TcpListener, series: &Series, stop: &AtomicBool) {
    let options = ServeOptions { roce_port: 0, live: Some(series.live.clone()), ..ServeOptions::default() };
    // The client has the reason of a failure, too.
    if let Err(error) = serve(listener, options, stop, |_: Served| {}) {
        note(&format!("cannot accept connections: {error}"));
    }
}

/// Runs the client repeatedly. A measurement that fails, for example because every retransmission was lost, is reported
/// to `failed` and on standard error, and begins again.
///
/// # Errors
/// The plan is impossible, or the last measurement failed.
#[expect(clippy::disallowed_methods, reason = "a failed measurement begins again after a pause")]
fn measure(series: &Series, stop: &AtomicBool, failed: impl Fn(Option<String>)) -> Result<(), CliError> {
    let mut last = None;
    while !stop.load(Ordering::Relaxed) {
        match run(series.server.as_str(), &series.plan, stop, |_, _| {}) {
            Ok(_) => last = None,
            Err(PerfError::Interrupted) => return Ok(()),
            Err(error @ PerfError::Plan(_)) => return Err(failure(error)),
            // The server may end first, and then refuses the client.
            Err(_) if stop.load(Ordering::Relaxed) => break,
            Err(error) => {
                let why = Some(error.to_string());
                if why != last {
                    note(&format!("{}: {error}; the measurement begins again", series.plan.service.name()));
                }
                last = why;
                failed(last.clone());
                std::thread::sleep(PAUSE);
                continue;
            }
        }
        failed(None);
    }
    last.map_or(Ok(()), |why| Err(CliError::Failed(vec![why])))
}

/// Reads the counters at an interval, until the user interrupts or `ends` returns true.
fn observe(series: &[Series], page: &Page, interruption: &Interruption, ends: impl Fn(u64) -> bool) {
    let clock = service::Clock::start();
    let mut meters: Vec<Meter> = series.iter().map(|series| Meter::new(series.live.clone())).collect();
    let mut before = 0;
    while interruption.exit_code().is_none() && !ends(before) {
        service::wait(INTERVAL, interruption);
        let now = clock.nanoseconds();
        let seconds = (now - before) as f64 / 1e9;
        before = now;
        let points = meters.iter_mut().map(|meter| meter.read(seconds)).collect();
        page.add(Row { seconds: now as f64 / 1e9, points });
    }
}
