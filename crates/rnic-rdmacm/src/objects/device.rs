//! Opened devices. Each has a communication manager, and a thread that receives its messages and handles its timeouts.

use crate::verbs::*;
use libc::c_int;
use rnic_cabi::entry::{entry, lock};
use rnic_cabi::verbs::*;
use rnic_cm::manager::{Limits, Manager};
use rnic_cm::{Event, ip};
use rnic_transport::Time;
use std::fs::File;
use std::io::Read;
use std::net::IpAddr;
use std::sync::atomic::{AtomicU32, Ordering};
use std::sync::{Mutex, OnceLock};
use std::time::Instant;

/// Maximum time for which the thread sleeps while nothing happens.
const MAX_SLEEP: Time = Time::from_ms(10_000);

/// Delivers an event of a communication manager. Returns the connection if the event is a request whose listener no
/// longer exists.
pub(super) type Deliver = fn(&'static Device, Event) -> Option<u32>;

/// A device that this library has opened. It stays open until the process ends, as programs expect.
pub(crate) struct Device {
    pub(crate) context: *mut ibv_context,
    pub(crate) ip: IpAddr,
    /// GUID, in the byte order of this host.
    pub(crate) guid: u64,
    /// Path MTU of the port: 1 (256 bytes) to 5 (4096 bytes).
    pub(crate) mtu: u8,
    /// Maximum number of outstanding reads and atomics.
    pub(crate) max_reads: u8,
    /// Maximum number of requests in a queue, at most 65,534.
    pub(crate) max_requests: u16,
    manager: Mutex<Manager>,
    mads: &'static Mads,
    deliver: Deliver,
    /// The protection domain of queue pairs for which the program passes no domain.
    pd: OnceLock<Result<DomainPtr, c_int>>,
    /// The process that has opened the device.
    process: u32,
}

/// A protection domain of libibverbs.
#[derive(Clone, Copy)]
struct DomainPtr(*mut ibv_pd);

// SAFETY: the pointer is only passed on to libibverbs, whose functions may be called from all threads.
unsafe impl Send for DomainPtr {}
// SAFETY: as above.
unsafe impl Sync for DomainPtr {}

// SAFETY: the context is only passed on to libibverbs, whose functions may be called from all threads.
unsafe impl Send for Device {}
// SAFETY: as above.
unsafe impl Sync for Device {}

static OPENED: Mutex<Vec<&'static Device>> = Mutex::new(Vec::new());

fn now() -> Time {
    static BEGIN: OnceLock<Instant> = OnceLock::new();
    #[expect(clippy::disallowed_methods, reason = "the times of the communication manager are real")]
    let now = Instant::now();
    Time::from_ns((now - *BEGIN.get_or_init(|| now)).as_nanos() as u64)
}

/// Random bytes from the system.
fn seed() -> Result<[u8; 32], c_int> {
    let mut seed = [0; 32];
    File::open("/dev/urandom").and_then(|mut file| file.read_exact(&mut seed)).map_err(|_| libc::EIO)?;
    Ok(seed)
}

/// Returns the addresses of all devices, with the devices of libibverbs, which exist until the process ends.
pub(super) fn list() -> Result<Vec<(IpAddr, *mut ibv_device)>, c_int> {
    let mut count = 0;
    // SAFETY: the list has `count` devices, and is freed once.
    unsafe {
        let list = made(ibv_get_device_list(&mut count))?;
        let devices = (0..count as usize).map(|at| {
            let device = *list.add(at);
            let mut gid = ibv_gid::default();
            rnic_device_gid(device, &mut gid);
            (ip::address(gid.raw), device)
        });
        let devices = devices.collect();
        ibv_free_device_list(list);
        Ok(devices)
    }
}

/// Opens a device of [`list`], unless it is open.
pub(super) fn open((ip, device): (IpAddr, *mut ibv_device), deliver: Deliver) -> Result<&'static Device, c_int> {
    let mut opened = lock(&OPENED);
    // A child made by `fork` does not have the threads of its parent's devices.
    opened.retain(|device| !device.is_of_parent());
    if let Some(device) = opened.iter().find(|device| device.ip == ip) {
        return Ok(device);
    }
    // SAFETY: the device belongs to libibverbs, and the results can be written. Queue pair 1 exists until the process
    // ends.
    let new = unsafe {
        let context = made(ibv_open_device(device))?;
        let mut about: ibv_device_attr = std::mem::zeroed();
        check(ibv_query_device(context, &mut about))?;
        let mut port = ibv_port_attr::default();
        check(ibv_query_port(context, 1, &mut port))?;
        let mut manager_id = 0;
        let mads = &*made(rnic_mads_open(context, &mut manager_id))?;
        Device {
            context,
            ip,
            guid: u64::from_be(ibv_get_device_guid(device)),
            mtu: port.active_mtu as u8,
            max_reads: about.max_qp_rd_atom.clamp(0, 254) as u8,
            max_requests: about.max_qp_wr.clamp(16, 0xfffe) as u16,
            manager: Mutex::new(Manager::new(ip, manager_id, Limits::default(), seed()?)),
            mads,
            deliver,
            pd: OnceLock::new(),
            process: std::process::id(),
        }
    };
    let new: &'static Device = Box::leak(Box::new(new));
    let thread = rnic_cabi::thread::spawn("rnic-cm", move || new.run());
    thread.map_err(|_| libc::EAGAIN)?;
    // A child made by `fork` inherits the exit handlers of its parent, so it does not register the handler again.
    if PROCESS.swap(std::process::id(), Ordering::Relaxed) == 0 {
        // SAFETY: the function has the right type, and stays.
        unsafe { libc::atexit(at_exit) };
    }
    opened.push(new);
    Ok(new)
}

/// The process that has opened the devices.
static PROCESS: AtomicU32 = AtomicU32::new(0);

/// Ends the connections before the process ends, as the kernel does for its programs. The connections in a child made
/// by `fork` belong to the parent, so the child does not end them.
extern "C" fn at_exit() {
    if PROCESS.load(Ordering::Relaxed) != std::process::id() {
        return;
    }
    entry((), || {
        for device in lock(&OPENED).iter() {
            device.with(|manager, now| manager.end_all(now));
        }
    });
}

impl Device {
    /// Whether `fork` made this process after its parent had opened the device.
    pub(crate) fn is_of_parent(&self) -> bool {
        self.process != std::process::id()
    }

    /// Changes the state of the communication manager. Then sends its messages, and delivers its events.
    pub(crate) fn with<R>(&'static self, change: impl FnOnce(&mut Manager, Time) -> R) -> R {
        let mut manager = lock(&self.manager);
        let before = manager.deadline();
        let result = change(&mut manager, now());
        self.flush(&mut manager);
        let after = manager.deadline();
        drop(manager);
        if after.is_some_and(|after| before.is_none_or(|before| after < before)) {
            rnic_mads_wake(self.mads);
        }
        result
    }

    fn send_messages(&self, manager: &mut Manager) {
        while let Some(message) = manager.poll_transmit() {
            // A message that cannot be sent is handled like a lost message.
            rnic_mads_send(self.mads, &ibv_gid { raw: ip::gid(message.peer) }, &message.mad);
        }
    }

    fn flush(&'static self, manager: &mut Manager) {
        while let Some((slot, list_entry)) = manager.poll_connection_list() {
            rnic_mads_list_connection(self.mads, slot, &list_entry);
        }
        self.send_messages(manager);
        while let Some(event) = manager.poll_event() {
            if let Some(unwanted) = (self.deliver)(self, event) {
                manager.destroy(now(), unwanted);
            }
        }
        // Send the messages about the connections that were just destroyed.
        self.send_messages(manager);
    }

    fn run(&'static self) {
        let mut next = MAX_SLEEP;
        loop {
            let (mut peer, mut mad) = (ibv_gid::default(), [0; 256]);
            let timeout = next.as_ps() / Time::from_ns(1).as_ps() + 1;
            let received = rnic_mads_receive(self.mads, timeout, &mut peer, &mut mad);
            if received < 0 {
                return;
            }
            let mut manager = lock(&self.manager);
            if received > 0 {
                manager.handle(now(), ip::address(peer.raw), &mad);
            }
            manager.on_deadline(now());
            self.flush(&mut manager);
            next = manager.deadline().map_or(MAX_SLEEP, |at| at.saturating_sub(now()).min(MAX_SLEEP));
        }
    }

    /// Claims a service ID for an identifier. `shared` allows other identifiers to claim the service ID as shared too.
    ///
    /// # Errors
    /// `EADDRINUSE` if another identifier, of this process or of another process, has the service ID.
    pub(crate) fn claim(&self, service: u64, shared: bool) -> Result<(), c_int> {
        check(rnic_mads_claim(self.mads, service, shared.into()))
    }

    /// Makes a claimed service ID exclusive.
    ///
    /// # Errors
    /// `EADDRINUSE` if other identifiers share the service ID.
    pub(crate) fn listen(&self, service: u64) -> Result<(), c_int> {
        check(rnic_mads_listen(self.mads, service))
    }

    /// Releases a service ID.
    pub(crate) fn release(&self, service: u64) {
        rnic_mads_release(self.mads, service);
    }

    /// Returns the protection domain of queue pairs for which the program passes no domain.
    pub(crate) fn pd(&self) -> Result<*mut ibv_pd, c_int> {
        // SAFETY: the context is open.
        let alloc = || made(unsafe { ibv_alloc_pd(self.context) }).map(DomainPtr);
        match self.pd.get_or_init(alloc) {
            Ok(DomainPtr(pd)) => Ok(*pd),
            Err(error) => Err(*error),
        }
    }
}
