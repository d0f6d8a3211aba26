//! Opens the endpoint's device of an address, and queue pair 1, as the environment says.

use super::manager::Mads;
use crate::environment::Environment;
use crate::hosts::HostAddress;
use crate::trace;
use libc::c_int;
use rnic_endpoint::idle::IdleConfig;
use rnic_endpoint::port::shared_address::{
    Claims, ConnectionList, MadPort, MadSender, SLOTS, SharedAddressPort, TakeoverReport, observe_takeovers,
};
use rnic_endpoint::port::{CaptureFailure, CaptureFile, CapturePort, Faults, FaultyPort, Port};
use rnic_endpoint::{Acknowledge, Clock, Config, Device, Mode, Security, Time};
use rnic_verbs::Limits;
use std::net::IpAddr;
use std::sync::{Arc, OnceLock};

/// Returns the capture file of this process; `None` if the environment sets no capture file.
fn capture() -> Result<Option<CaptureFile>, String> {
    static FILE: OnceLock<Result<Option<CaptureFile>, String>> = OnceLock::new();
    let create = || match &Environment::get().as_ref().map_err(Clone::clone)?.pcap {
        None => Ok(None),
        Some(path) => CaptureFile::create(path, |CaptureFailure { error, packets }| {
            let path = path.display();
            eprintln!("rnic: RNIC_PCAP: cannot write {path}: {error}; it ends after {packets} packets")
        })
        .map(Some)
        .map_err(|why| format!("RNIC_PCAP: cannot write {}: {why}", path.display())),
    };
    FILE.get_or_init(create).clone()
}

/// Makes the thread that moves packets sleep as soon as no packets arrive. On a host with few cores, a thread that
/// spins would take the cores from the programs.
fn idle() -> IdleConfig {
    let cores = std::thread::available_parallelism().map_or(1, usize::from);
    if cores > 4 { IdleConfig::default() } else { IdleConfig { spin: Time::ZERO, slack: Time::ZERO } }
}

/// The limits of a device, which `ibv_query_device` reports.
pub(crate) fn limits() -> Limits {
    // A device draws random queue pair numbers among 16,384: half of them stay free, so that it finds one at once, and
    // the number of a destroyed queue pair is not used again soon.
    Limits { queue_pairs: (1 << 24) / SLOTS / 2, ..Limits::default() }
}

/// Opens the endpoint's device of an address. An error is a sentence, with its number in C.
pub(super) fn open(address: &HostAddress) -> Result<Device, (c_int, String)> {
    /// Converts the error of a system call.
    fn system(error: &std::io::Error) -> (c_int, String) {
        (error.raw_os_error().unwrap_or(libc::EIO), error.to_string())
    }
    observe_takeovers(trace_takeover);
    let environment = Environment::get().as_ref().map_err(|why| (libc::EINVAL, why.clone()))?;
    let mut port = SharedAddressPort::open(address.ip).map_err(|error| (error.errno(), error.to_string()))?;
    if environment.within_host && environment.faults.is_none() && environment.pcap.is_none() {
        port = port.with_path_within_host();
    }
    let mut config = Config { mode: Mode::Polled, idle: idle(), security: Security::None, ..Config::default() };
    // The ACK of a message is sent by the program's next poll, so that the program's reply to the message leaves before
    // the ACK. If the program does not poll, the library's thread sends the ACK ([`crate::progress`]).
    config.acknowledge = Acknowledge::WithNextPoll;
    config.verbs.late_checks = true;
    config.verbs.one_key = true;
    config.verbs.limits = limits();
    config.verbs.shard = port.shard();
    let config = config.fitted_to(port.udp()).map_err(|error| system(&error))?;
    let slot = port.shard().index;
    // For example, the file of a capture cannot be written.
    let port = with_faults_and_capture(port, slot).map_err(|why| (libc::EIO, why))?;
    Device::on_port(port, config).map_err(|error| match &error {
        rnic_endpoint::Error::Io(error) => system(error),
        other => (libc::EIO, other.to_string()),
    })
}

fn trace_takeover(report: TakeoverReport) {
    let TakeoverReport { ip, connections, unanswered } = report;
    trace::line(format_args!(
        "a process on {ip} has gone: {connections} connections were ended, {unanswered} of them without a response"
    ));
}

/// Wraps a port in the faults and the capture that the environment sets. Ports with different values of `lane` lose
/// different packets.
fn with_faults_and_capture(port: impl Port + 'static, lane: u32) -> Result<Box<dyn Port>, String> {
    let environment = Environment::get().as_ref().map_err(Clone::clone)?;
    let mut port: Box<dyn Port> = Box::new(port);
    if let Some((faults, seed)) = environment.faults {
        let seed = seed.wrapping_mul(u64::from(SLOTS)).wrapping_add(lane.into());
        port = Box::new(FaultyPort::with_clock(port, Faults::default(), faults, seed, Clock::start()));
    }
    if let Some(file) = capture()? {
        port = Box::new(CapturePort::new(port, file));
    }
    Ok(port)
}

/// Opens queue pair 1 of an address for the communication manager of this process.
///
/// # Errors
/// A sentence: the system lacks a UDP port or descriptors, or the process that receives for the address does not
/// respond.
pub(crate) fn open_manager(ip: IpAddr) -> Result<Mads, String> {
    let sender = MadSender::open(ip, capture()?).map_err(|error| error.to_string())?;
    let claims = Arc::<Claims>::default();
    // If the system has no files in memory, there is no list, and peers detect the end of this process by their probes.
    let list = ConnectionList::create().ok().map(Arc::new);
    let port = MadPort::open(ip, sender.manager_id(), claims.clone(), list.clone());
    let port = port.map_err(|error| error.to_string())?;
    // The manager and the device lose different packets: the lane of the device is its slot.
    let receiver = with_faults_and_capture(port, SLOTS / 2)?;
    Ok(Mads::new(sender, receiver, claims, list))
}
