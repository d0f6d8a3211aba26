//! CPU time of connections that transfer nothing: `cargo bench -p rnic-endpoint --bench idle`.
//!
//! Two devices of this process have connected queue pairs, and each device has a progress thread. The columns show the
//! share of one core that both devices use together: without keep-alive, and with probes at two intervals.
#![allow(missing_docs, reason = "a program, not a library")]

use nix::sys::resource::{UsageWho, getrusage};
use rnic_endpoint::{Config, Device, Mode, PathOptions, QpOptions, QueuePair, Service, Time};
use std::error::Error;
use std::time::Duration;

const IDLE: Duration = Duration::from_secs(5);

/// CPU time of this process in seconds.
fn used() -> Result<f64, Box<dyn Error>> {
    let usage = getrusage(UsageWho::RUSAGE_SELF)?;
    let seconds = |time: nix::sys::time::TimeVal| time.tv_sec() as f64 + time.tv_usec() as f64 / 1e6;
    Ok(seconds(usage.user_time()) + seconds(usage.system_time()))
}

fn measure(service: Service, connections: usize, keep_alive: Option<Time>) -> Result<f64, Box<dyn Error>> {
    let config = || Config { mode: Mode::Thread, ..Config::default() };
    let open = || Device::open_at(([127, 0, 0, 1], 0).into(), config());
    let devices = [open()?, open()?];
    let mut ends: [Vec<QueuePair>; 2] = Default::default();
    for (device, ends) in devices.iter().zip(&mut ends) {
        let (domain, cq) = (device.protection_domain(), device.completion_queue(16)?);
        for _ in 0..connections {
            ends.push(domain.queue_pair(&QpOptions { service, ..QpOptions::new(&cq) })?);
        }
    }
    let options = PathOptions { keep_alive, mtu: Some(1_024), ..PathOptions::default() };
    for (a, b) in ends[0].iter().zip(&ends[1]) {
        a.connect(&b.address(), &options)?;
        b.connect(&a.address(), &options)?;
    }
    std::thread::park_timeout(Duration::from_millis(500));
    let before = used()?;
    std::thread::park_timeout(IDLE);
    let share = (used()? - before) / IDLE.as_secs_f64() * 100.0;
    if let Some(event) = devices.iter().find_map(Device::event) {
        return Err(format!("{connections} connections, {keep_alive:?}: {event:?}").into());
    }
    if keep_alive.is_some() && devices.iter().any(|device| device.counters().verbs.packets_sent == 0) {
        return Err(format!("{connections} connections, {keep_alive:?}: no probes").into());
    }
    Ok(share)
}

fn main() -> Result<(), Box<dyn Error>> {
    println!("{:<24}{:>12}{:>16}{:>16}", "CPU of both ends, %", "no probes", "every 5 s", "every second");
    for service in [Service::Irn, Service::Rc] {
        for connections in [1, 100, 1_000] {
            let probes = [None, Some(Time::from_ms(5_000)), Some(Time::from_ms(1_000))];
            let [none, rarely, often] = probes.map(|keep_alive| measure(service, connections, keep_alive));
            println!("{service:?}, {connections:<16}{:>14.2}{:>16.2}{:>16.2}", none?, rarely?, often?);
        }
    }
    Ok(())
}
