//! Opened devices.

use super::device::Device;
use super::endpoint;
use super::events::Events;
use crate::abi::*;
use crate::environment::Environment;
use crate::hosts::HostAddress;
use crate::progress::Progress;
use crate::required;
use crate::{report, trace};
use libc::c_int;
use rnic_cabi::entry::lock;
use rnic_cabi::pointer::Handle;
use rnic_endpoint::statistics;
use rnic_endpoint::{DeviceClock, Time, TimeSource};
use rnic_verbs::{Completion, CqId, VerbsError};
use std::fs::File;
use std::net::IpAddr;
use std::os::fd::AsRawFd;
use std::sync::atomic::{AtomicU32, Ordering};
use std::sync::{Arc, Mutex};

/// Number of entries in the table of GIDs. All entries contain the device's address, because programs and scripts use
/// different indices.
pub(crate) const GIDS: usize = 4;

#[repr(C)]
pub(crate) struct Context {
    c: verbs_context,
    state: ContextState,
}

rnic_cabi::object!(Context { c.context: ibv_context, state: ContextState });

/// The state of an opened device.
pub(crate) struct ContextState {
    progress: Progress,
    pub(crate) device: rnic_endpoint::Device,
    pub(crate) address: HostAddress,
    pub(crate) events: Arc<Events>,
    clock: DeviceClock,
    /// The time of day when the system's monotonic clock was 0, in nanoseconds since 1970. It stays as it was when the
    /// device was opened, so that timestamps of completions never go back.
    day_ns: u64,
    handles: AtomicU32,
    pub(crate) guid: u64,
    /// The process that has opened the device.
    process: u32,
}

impl Context {
    /// Opens a device. `operations` makes the structure that the C program gets, from two descriptors: the descriptor
    /// that stands for a kernel device, and the descriptor of asynchronous events.
    ///
    /// # Errors
    /// An error number of C (`EINVAL` and others); a message was printed.
    pub(crate) fn open(
        device: Handle<Device>, operations: impl FnOnce(c_int, c_int) -> verbs_context,
    ) -> Result<Handle<Context>, c_int> {
        let about = device.state();
        let endpoint = endpoint::open(&about.address).map_err(|(number, why)| {
            report::once(&format!("cannot open {} ({}): {why}", about.name(), about.address.ip));
            number
        })?;
        publish(&endpoint, &about.name());
        let events = Events::new(endpoint.clone())?;
        trace::line(format_args!("ibv_open_device {} ({})", about.name(), about.address.ip));
        let clock = endpoint.clock();
        let state = ContextState {
            progress: Progress::start(endpoint.clone()).map_err(|_| libc::EAGAIN)?,
            day_ns: realtime_ns().wrapping_sub(clock.monotonic_ns(clock.now())),
            clock,
            device: endpoint,
            address: about.address.clone(),
            events,
            handles: AtomicU32::new(1),
            guid: about.guid(),
            process: std::process::id(),
        };
        let c = operations(command_descriptor()?, state.events.mailbox.raw_fd());
        required::note_device();
        Ok(Handle::create(Context { c, state }))
    }
}

impl ContextState {
    /// Returns a number for a new object.
    pub(crate) fn handle(&self) -> u32 {
        self.handles.fetch_add(1, Ordering::Relaxed)
    }

    /// Moves completions into `out`; returns their number.
    pub(crate) fn poll(&self, cq: CqId, out: &mut [Completion]) -> Result<usize, VerbsError> {
        self.progress.poll(cq, out)
    }

    /// Whether `fork` made this process after its parent had opened the device. Such a child has copies of the objects,
    /// but not the threads, and a lock may stay held for ever. An exit handler in the child may nevertheless call
    /// functions that destroy objects. These calls have no effect, because the objects belong to the parent.
    pub(crate) fn is_of_parent(&self, verb: &str) -> bool {
        let is_of_parent = self.process != std::process::id();
        if is_of_parent {
            trace::line(format_args!("{verb} in a child of the process that opened the device: nothing happens"));
        }
        is_of_parent
    }

    /// Handles that the program is going to sleep until a completion arrives.
    pub(crate) fn will_sleep(&self) {
        self.progress.program_sleeps();
    }

    /// Reads the clock of the timestamps in completions.
    pub(crate) fn now(&self) -> Time {
        self.clock.now()
    }

    /// Converts a time of the device's clock to nanoseconds since 1970.
    pub(crate) fn time_of_day_ns(&self, time: Time) -> u64 {
        self.day_ns.wrapping_add(self.clock.monotonic_ns(time))
    }

    /// The address as a GID.
    pub(crate) fn gid(&self) -> ibv_gid {
        gid(self.address.ip)
    }
}

/// Publishes the statistics of a device for `rnic top`, unless the environment says otherwise. A process that has no
/// descriptor or thread for them runs without.
fn publish(endpoint: &rnic_endpoint::Device, name: &str) {
    if !Environment::get().as_ref().is_ok_and(|environment| environment.stats) {
        return;
    }
    let start = |run| rnic_cabi::thread::spawn("rnic stats", run).map(drop);
    if let Err(error) = statistics::publish(endpoint, name, start) {
        trace::line(format_args!("no statistics of {name}: {error}"));
    }
}

/// An address as a GID of RoCEv2.
pub(crate) fn gid(ip: IpAddr) -> ibv_gid {
    ibv_gid { raw: rnic_cm::ip::gid(ip) }
}

/// The address in a GID.
pub(crate) fn ip(gid: &ibv_gid) -> IpAddr {
    rnic_cm::ip::address(gid.raw)
}

/// The descriptor that stands for a kernel device. Programs may keep or duplicate it. No kernel device exists, so
/// `/dev/null` stands for it. All devices of a process share this descriptor, which stays open.
fn command_descriptor() -> Result<c_int, c_int> {
    static NULL: Mutex<Option<File>> = Mutex::new(None);
    let mut null = lock(&NULL);
    if null.is_none() {
        *null = Some(File::open("/dev/null").map_err(|error| error.raw_os_error().unwrap_or(libc::EIO))?);
    }
    null.as_ref().map(File::as_raw_fd).ok_or(libc::EIO)
}

/// Nanoseconds since 1970.
fn realtime_ns() -> u64 {
    use std::time::{SystemTime, UNIX_EPOCH};
    #[expect(clippy::disallowed_methods, reason = "the interface asks for the time of day of a completion")]
    SystemTime::now().duration_since(UNIX_EPOCH).map_or(0, |since| since.as_nanos() as u64)
}
