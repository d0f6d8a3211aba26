//! The side of a process that publishes its devices.

#![expect(clippy::disallowed_methods, reason = "readers wait for each other, and a reader has a limited time")]

use super::{DeviceReport, MAX_DEVICES, MAX_NAME, MAX_QUEUE_PAIRS, QueuePairReport, Report, prefix};
use crate::clock::{Clock, TimeSource};
use crate::device::{Device, Observer};
use crate::port::shared_address::socket;
use crate::sync::lock;
use std::io;
use std::net::IpAddr;
use std::os::fd::OwnedFd;
use std::sync::{Arc, Mutex};
use std::time::{Duration, Instant};

/// Minimum time between two reports of a process.
const INTERVAL: Duration = Duration::from_millis(10);
/// Time for which a reader may take to receive a report.
const READER_TIMEOUT: Duration = Duration::from_secs(1);
/// Bytes of a report in one message of the socket.
const PIECE: usize = 32 << 10;

/// A published device.
#[derive(Clone)]
struct Published {
    id: u64,
    name: String,
    address: IpAddr,
    observer: Observer,
}

/// The published devices of a process.
#[derive(Default)]
struct Registry {
    /// The process that publishes: a child that `fork` has made publishes its own devices only.
    process: u32,
    devices: Vec<Published>,
    next_id: u64,
    /// The socket at which the thread of `process` listens.
    listener: Option<Arc<OwnedFd>>,
}

static REGISTRY: Mutex<Registry> = Mutex::new(Registry { process: 0, devices: Vec::new(), next_id: 0, listener: None });

/// Publishes the statistics of `device` under the name `name` until the device is closed. For the first device of a
/// process, `spawn` starts a thread that runs its argument, which does not return.
///
/// # Errors
/// The system has no socket or thread for the statistics. The device is not affected.
pub fn publish(
    device: &Device, name: &str, spawn: impl FnOnce(Box<dyn FnOnce() + Send>) -> io::Result<()>,
) -> io::Result<()> {
    let mut registry = lock(&REGISTRY);
    let process = std::process::id();
    if registry.process != process {
        *registry = Registry { process, ..Registry::default() };
    }
    if registry.listener.is_none() {
        let name = format!("{}/{:016x}", prefix(), crate::device::random_seed()?);
        let listener = Arc::new(socket::listen_with_blocking(&name)?);
        let theirs = listener.clone();
        spawn(Box::new(move || serve(&theirs)))?;
        registry.listener = Some(listener);
    }
    registry.devices.retain(|device| device.observer.is_open());
    registry.next_id += 1;
    let (id, name) = (registry.next_id, name.chars().take(MAX_NAME).collect());
    registry.devices.push(Published { id, name, address: device.local_addr().ip(), observer: device.observer() });
    Ok(())
}

/// Writes a report to each process of this user or of root that connects.
fn serve(listener: &OwnedFd) {
    let clock = Clock::start();
    loop {
        if let Some(reader) = socket::accept_reader(listener) {
            let report = report(&clock);
            write(&reader, &serde_json::to_vec(&report).unwrap_or_default());
        }
        // Connections of other users cost no more than those of readers.
        std::thread::sleep(INTERVAL);
    }
}

/// The report of this process.
fn report(clock: &Clock) -> Report {
    let published = lock(&REGISTRY).devices.clone();
    let (mut devices, mut left, mut is_truncated) = (Vec::new(), MAX_QUEUE_PAIRS, false);
    for Published { id, name, address, observer } in published {
        // One more than fits shows whether queue pairs are missing.
        let mut found = observer.statistics(left + 1);
        if found.is_empty() && !observer.is_open() {
            continue;
        }
        if devices.len() == MAX_DEVICES {
            is_truncated = true;
            break;
        }
        is_truncated |= found.len() > left;
        found.truncate(left);
        left -= found.len();
        devices.push(DeviceReport {
            id,
            name,
            address,
            queue_pairs: found.iter().map(QueuePairReport::from).collect(),
        });
    }
    Report { program: program(), time_ns: clock.now().as_ps() / 1_000, devices, is_truncated }
}

/// The name of this program.
fn program() -> String {
    let name = std::fs::read("/proc/self/comm").unwrap_or_default();
    String::from_utf8_lossy(&name).trim_end().chars().take(MAX_NAME).collect()
}

/// Writes a report in pieces, and gives up a reader that takes too long.
fn write(reader: &OwnedFd, report: &[u8]) {
    let end = Instant::now() + READER_TIMEOUT;
    for piece in report.chunks(PIECE) {
        let left = end.saturating_duration_since(Instant::now());
        if left.is_zero() || socket::send_within(reader, piece, left).is_err() {
            return;
        }
    }
}
