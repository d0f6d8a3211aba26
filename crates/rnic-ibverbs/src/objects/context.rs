//! Opened devices.

use super::device::Device;
use super::endpoint;
use super::events::Events;
use crate::abi::*;
use crate::hosts::HostAddress;
use crate::progress::Progress;
use crate::trace;
use libc::c_int;
use rnic_cabi::pointer::Handle;
use rnic_endpoint::{DeviceClock, Time, TimeSource};
use rnic_verbs::{Completion, CqId, VerbsError};
use std::fs::File;
use std::net::IpAddr;
use std::os::fd::AsRawFd;
use std::sync::Arc;
use std::sync::atomic::{AtomicU32, Ordering};

/// Number of entries in the table of GIDs. All entries contain the device's address, because programs and scripts use
/// different indices.
pub(crate) const GIDS: usize = 4;

#[repr(C)]
pub(crate) struct Context {
    c: verbs_context,
    state: ContextState,
    _null: File,
}

rnic_cabi::object!(Context { c.context: ibv_context, state: ContextState });

/// The state of an opened device.
pub(crate) struct ContextState {
    progress: Progress,
    pub(crate) device: rnic_endpoint::Device,
    pub(crate) address: HostAddress,
    pub(crate) events: Arc<Events>,
    clock: DeviceClock,
    handles: AtomicU32,
    pub(crate) guid: u64,
    /// The process that has opened the device.
    process: u32,
}

impl Context {
    /// Opens a device. `operations` makes the structure that C sees, from two descriptors: the descriptor that programs
    /// take for the descriptor of a kernel device, and the descriptor of asynchronous events.
    ///
    /// # Errors
    /// The error in C; a message was printed.
    pub(crate) fn open(
        device: Handle<Device>, operations: impl FnOnce(c_int, c_int) -> verbs_context,
    ) -> Result<Handle<Context>, c_int> {
        let about = device.state();
        let endpoint = endpoint::open(&about.address).map_err(|(number, why)| {
            eprintln!("rnic: cannot open rnic{} ({}): {why}", about.index, about.address.ip);
            number
        })?;
        let events = Events::new(endpoint.clone())?;
        trace::line(format_args!("ibv_open_device rnic{} ({})", about.index, about.address.ip));
        let state = ContextState {
            progress: Progress::start(endpoint.clone()).map_err(|_| libc::EAGAIN)?,
            clock: endpoint.clock(),
            device: endpoint,
            address: about.address.clone(),
            events,
            handles: AtomicU32::new(1),
            guid: about.guid(),
            process: std::process::id(),
        };
        // Programs keep and duplicate the descriptor of the kernel device. No kernel device exists, so `/dev/null`
        // stands for it.
        let null = File::open("/dev/null").map_err(|_| libc::EMFILE)?;
        let c = operations(null.as_raw_fd(), state.events.mailbox.raw_fd());
        Ok(Handle::create(Context { c, state, _null: null }))
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

    /// The address as a GID.
    pub(crate) fn gid(&self) -> ibv_gid {
        gid(self.address.ip)
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

/// Nanoseconds since 1970.
pub(crate) fn realtime_ns() -> u64 {
    use std::time::{SystemTime, UNIX_EPOCH};
    #[expect(clippy::disallowed_methods, reason = "the interface asks for the time of day of a completion")]
    SystemTime::now().duration_since(UNIX_EPOCH).map_or(0, |since| since.as_nanos() as u64)
}
