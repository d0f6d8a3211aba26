//! Opened devices. Each has a communication manager, and a thread that receives its messages and keeps its times.

use crate::channel;
use crate::verbs::*;
use libc::c_int;
use rnic_cabi::entry::{counted, entry, free_list, lock};
use rnic_cabi::pointer::Out;
use rnic_cabi::verbs::*;
use rnic_cm::ip;
use rnic_cm::manager::{Limits, Manager};
use rnic_transport::Time;
use std::fs::File;
use std::io::Read;
use std::net::IpAddr;
use std::sync::atomic::{AtomicU32, Ordering};
use std::sync::{Mutex, OnceLock};
use std::time::Instant;

/// How long the thread sleeps at most while nothing happens.
const SLEEP: Time = Time::from_ms(10_000);

/// A device that this library has opened. It stays open until the process ends, as programs expect.
pub(crate) struct Device {
    pub(crate) context: *mut ibv_context,
    pub(crate) ip: IpAddr,
    /// GUID, in the byte order of this host.
    pub(crate) guid: u64,
    /// Path MTU of the port: 1 (256 bytes) to 5 (4096 bytes).
    pub(crate) mtu: u8,
    /// Maximum of outstanding reads and atomics.
    pub(crate) max_reads: u8,
    /// Maximum of requests in a queue, and of 65,534.
    pub(crate) max_requests: u16,
    manager: Mutex<Manager>,
    mads: *mut Mads,
    /// The protection domain of queue pairs for which the program gives none.
    pd: OnceLock<Result<Address, c_int>>,
    /// The process that has opened it.
    process: u32,
}

/// A pointer of libibverbs, which threads can share. Only handed back to libibverbs or C.
#[derive(Clone, Copy)]
struct Address(*mut ibv_pd);

// SAFETY: the pointer is only handed over.
unsafe impl Send for Address {}
// SAFETY: as above.
unsafe impl Sync for Address {}

// SAFETY: the pointers are those of libibverbs, whose functions may be called from all threads.
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

/// The addresses of all devices, with the devices of libibverbs, which stay until the process ends.
fn listed() -> Result<Vec<(IpAddr, *mut ibv_device)>, c_int> {
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

/// The device of an address.
///
/// # Errors
/// `ENODEV` if there is none; the error of opening it.
pub(crate) fn of(ip: IpAddr) -> Result<&'static Device, c_int> {
    let device = listed()?.into_iter().find(|(own, _)| *own == ip).ok_or(libc::ENODEV)?;
    open(device)
}

/// All devices that can be opened.
///
/// # Errors
/// `ENODEV` if there is none.
pub(crate) fn all() -> Result<Vec<&'static Device>, c_int> {
    let devices: Vec<_> = listed()?.into_iter().filter_map(|device| open(device).ok()).collect();
    if devices.is_empty() { Err(libc::ENODEV) } else { Ok(devices) }
}

/// The addresses of all devices, whether opened or not.
pub(crate) fn addresses() -> Vec<IpAddr> {
    listed().unwrap_or_default().into_iter().map(|(ip, _)| ip).collect()
}

fn open((ip, device): (IpAddr, *mut ibv_device)) -> Result<&'static Device, c_int> {
    let mut opened = lock(&OPENED);
    // Those of the parent have no threads in a child that `fork` made.
    opened.retain(|device| !device.is_of_parent());
    if let Some(device) = opened.iter().find(|device| device.ip == ip) {
        return Ok(device);
    }
    // SAFETY: the device is one of libibverbs, and the results are valid.
    let new = unsafe {
        let context = made(ibv_open_device(device))?;
        let mut about: ibv_device_attr = std::mem::zeroed();
        check(ibv_query_device(context, &mut about))?;
        let mut port = ibv_port_attr::default();
        check(ibv_query_port(context, 1, &mut port))?;
        let mut manager_id = 0;
        let mads = made(rnic_mads_open(context, &mut manager_id))?;
        Device {
            context,
            ip,
            guid: u64::from_be(ibv_get_device_guid(device)),
            mtu: port.active_mtu as u8,
            max_reads: about.max_qp_rd_atom.clamp(0, 254) as u8,
            max_requests: about.max_qp_wr.clamp(16, 0xfffe) as u16,
            manager: Mutex::new(Manager::new(ip, manager_id, Limits::default(), seed()?)),
            mads,
            pd: OnceLock::new(),
            process: std::process::id(),
        }
    };
    let new: &'static Device = Box::leak(Box::new(new));
    let thread = rnic_cabi::thread::spawn("rnic-cm", move || new.run());
    thread.map_err(|_| libc::EAGAIN)?;
    // A child has the exit handlers of its parent.
    if PROCESS.swap(std::process::id(), Ordering::Relaxed) == 0 {
        // SAFETY: the function has the right type, and stays.
        unsafe { libc::atexit(end) };
    }
    opened.push(new);
    Ok(new)
}

/// The process that has opened the devices.
static PROCESS: AtomicU32 = AtomicU32::new(0);

/// The process ends: its peers are told, as the kernel does for its programs. A child that `fork` made may end; the
/// connections are those of its parent.
extern "C" fn end() {
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
    /// Whether `fork` made this process after another one had opened the device.
    pub(crate) fn is_of_parent(&self) -> bool {
        self.process != std::process::id()
    }

    /// Changes the state of the communication manager; sends what it wants to send, and hands out its events.
    pub(crate) fn with<R>(&'static self, change: impl FnOnce(&mut Manager, Time) -> R) -> R {
        let mut manager = lock(&self.manager);
        let before = manager.deadline();
        let result = change(&mut manager, now());
        self.flush(&mut manager);
        let after = manager.deadline();
        drop(manager);
        if after.is_some_and(|after| before.is_none_or(|before| after < before)) {
            // SAFETY: it is open.
            unsafe { rnic_mads_wake(self.mads) };
        }
        result
    }

    fn flush(&'static self, manager: &mut Manager) {
        while let Some((slot, entry)) = manager.poll_connection_list() {
            // SAFETY: all pointers are valid.
            unsafe { rnic_mads_list_connection(self.mads, slot, &entry) };
        }
        while let Some(message) = manager.poll_transmit() {
            let peer = ibv_gid { raw: ip::gid(message.peer) };
            // SAFETY: all pointers are valid. A message that cannot be sent is as good as lost.
            unsafe { rnic_mads_send(self.mads, &peer, &message.mad) };
        }
        while let Some(event) = manager.poll_event() {
            if let Some(unwanted) = channel::deliver(self, event) {
                manager.destroy(now(), unwanted);
            }
        }
        // What the destroyed connections want to say.
        while let Some(message) = manager.poll_transmit() {
            let peer = ibv_gid { raw: ip::gid(message.peer) };
            // SAFETY: as above.
            unsafe { rnic_mads_send(self.mads, &peer, &message.mad) };
        }
    }

    fn run(&'static self) {
        let mut next = SLEEP;
        loop {
            let (mut peer, mut mad) = (ibv_gid::default(), [0; 256]);
            let timeout = next.as_ps() / Time::from_ns(1).as_ps() + 1;
            // SAFETY: all pointers are valid.
            let got = unsafe { rnic_mads_receive(self.mads, timeout, &mut peer, &mut mad) };
            if got < 0 {
                return;
            }
            let mut manager = lock(&self.manager);
            if got > 0 {
                manager.handle(now(), ip::address(peer.raw), &mad);
            }
            manager.on_deadline(now());
            self.flush(&mut manager);
            next = manager.deadline().map_or(SLEEP, |at| at.saturating_sub(now()).min(SLEEP));
        }
    }

    /// Claims a service ID for an identifier, `shared` with others that say so.
    ///
    /// # Errors
    /// `EADDRINUSE` if another identifier has it, of this process or of another one.
    pub(crate) fn claim(&self, service: u64, shared: bool) -> Result<(), c_int> {
        // SAFETY: it is open.
        check(unsafe { rnic_mads_claim(self.mads, service, shared.into()) })
    }

    /// Makes a claimed service ID exclusive.
    ///
    /// # Errors
    /// `EADDRINUSE` if others share it.
    pub(crate) fn listen(&self, service: u64) -> Result<(), c_int> {
        // SAFETY: it is open.
        check(unsafe { rnic_mads_listen(self.mads, service) })
    }

    /// Gives a service ID back.
    pub(crate) fn release(&self, service: u64) {
        // SAFETY: it is open.
        unsafe { rnic_mads_release(self.mads, service) };
    }

    /// The protection domain of queue pairs for which the program gives none.
    pub(crate) fn pd(&self) -> Result<*mut ibv_pd, c_int> {
        // SAFETY: the context is open.
        let alloc = || made(unsafe { ibv_alloc_pd(self.context) }).map(Address);
        match self.pd.get_or_init(alloc) {
            Ok(Address(pd)) => Ok(*pd),
            Err(error) => Err(*error),
        }
    }
}

/// # Safety
/// By the contract of librdmacm.
#[unsafe(no_mangle)]
pub extern "C" fn rdma_get_devices(count: Out<c_int>) -> *mut *mut ibv_context {
    counted(|| Ok(all()?.iter().map(|device| device.context).collect()), count.unless_null())
}

/// # Safety
/// By the contract of librdmacm.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn rdma_free_devices(list: *mut *mut ibv_context) {
    // SAFETY: by the contract of librdmacm the list is one of `rdma_get_devices`.
    unsafe { free_list(list) }
}
