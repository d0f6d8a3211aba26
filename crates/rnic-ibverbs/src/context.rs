//! An opened device: operations, asynchronous events.

use crate::abi::*;
use crate::channel::{Address, Mailbox};
use crate::devices::Device;
use crate::domain;
use crate::entry::{Unacknowledged, entry, lock, object, set_errno, status};
use crate::environment::Environment;
use crate::hosts::HostAddress;
use crate::manager::Mads;
use crate::progress::Progress;
use crate::{cq, cq_ex, post, qp, query, srq, trace, window};
use libc::c_int;
use rnic_endpoint::idle::IdleConfig;
use rnic_endpoint::port::shared_address::{
    Claims, ConnectionList, MadPort, MadSender, SLOTS, SharedAddressPort, TakeoverReport, observe_takeovers,
};
use rnic_endpoint::port::{CaptureFile, CapturePort, Faults, FaultyPort, Port};
use rnic_endpoint::{Acknowledge, Clock, Config, DeviceClock, Mode, Security, Time, TimeSource};
use rnic_verbs::{Completion, CqId, Event, Notify, Qpn, SrqId, Status, VerbsError};
use std::collections::{BTreeMap, VecDeque};
use std::fs::File;
use std::net::IpAddr;
use std::os::fd::AsRawFd;
use std::sync::atomic::{AtomicU32, Ordering};
use std::sync::{Arc, Mutex, OnceLock, Weak};
use std::task::{Wake, Waker};

/// Number of entries in the table of GIDs. All are the device's address, because programs and scripts use different
/// indices.
pub(crate) const GIDS: usize = 4;

#[repr(C)]
pub(crate) struct Context {
    c: verbs_context,
    state: ContextState,
    _null: File,
}

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

/// The asynchronous events of a device, and the objects to which they belong.
pub(crate) struct Events {
    mailbox: Mailbox<ibv_async_event>,
    objects: Mutex<Objects>,
    device: rnic_endpoint::Device,
    /// Makes the descriptor readable.
    bell: Waker,
}

#[derive(Default)]
struct Objects {
    qps: BTreeMap<u32, Address>,
    cqs: BTreeMap<CqId, Address>,
    srqs: BTreeMap<SrqId, Address>,
}

struct EventBell(Weak<Events>);

impl Wake for EventBell {
    fn wake(self: Arc<Self>) {
        if let Some(events) = self.0.upgrade() {
            events.mailbox.ring();
        }
    }
}

impl Events {
    fn new(device: rnic_endpoint::Device) -> Result<Arc<Events>, c_int> {
        let mailbox = Mailbox::new()?;
        let events = Arc::new_cyclic(|events: &Weak<Events>| Events {
            mailbox,
            objects: Mutex::default(),
            device,
            bell: Waker::from(Arc::new(EventBell(events.clone()))),
        });
        events.watch();
        Ok(events)
    }

    /// The descriptor becomes readable at the next event. Returns whether events wait already.
    fn watch(&self) -> bool {
        matches!(self.device.watch(None, Notify::Any, &self.bell), Ok(false))
    }

    /// Adds the events of the device.
    fn refill(&self, queue: &mut VecDeque<ibv_async_event>) {
        loop {
            while let Some(event) = self.device.event() {
                queue.extend(self.translate(&event));
            }
            // An event that comes after the loop rings. One that came in between does not, so the loop goes on.
            if !self.watch() {
                return;
            }
        }
    }

    pub(crate) fn add_qp(&self, qpn: Qpn, qp: Address) {
        lock(&self.objects).qps.insert(qpn.0, qp);
    }
    pub(crate) fn add_cq(&self, id: CqId, cq: Address) {
        lock(&self.objects).cqs.insert(id, cq);
    }
    pub(crate) fn add_srq(&self, id: SrqId, srq: Address) {
        lock(&self.objects).srqs.insert(id, srq);
    }
    pub(crate) fn remove_qp(&self, qpn: Qpn) {
        let gone = lock(&self.objects).qps.remove(&qpn.0);
        self.forget(gone);
    }
    pub(crate) fn remove_cq(&self, id: CqId) {
        let gone = lock(&self.objects).cqs.remove(&id);
        self.forget(gone);
    }
    pub(crate) fn remove_srq(&self, id: SrqId) {
        let gone = lock(&self.objects).srqs.remove(&id);
        self.forget(gone);
    }
    fn forget(&self, object: Option<Address>) {
        let Some(Address(object)) = object else { return };
        self.mailbox.remove(|event| event.element.addr() == object, |queue| self.refill(queue));
    }

    /// The event as C sees it; `None` if its object is destroyed.
    fn translate(&self, event: &Event) -> Option<ibv_async_event> {
        let objects = lock(&self.objects);
        let (object, event_type) = match event {
            Event::CommunicationEstablished(qpn) => (objects.qps.get(&qpn.0), IBV_EVENT_COMM_EST),
            Event::SendQueueDrained(qpn) => (objects.qps.get(&qpn.0), IBV_EVENT_SQ_DRAINED),
            Event::QueuePairError(qpn, why) => {
                let kind = match why {
                    Status::RemoteAccess => IBV_EVENT_QP_ACCESS_ERR,
                    Status::LocalQpOperation | Status::LocalLength => IBV_EVENT_QP_REQ_ERR,
                    _ => IBV_EVENT_QP_FATAL,
                };
                (objects.qps.get(&qpn.0), kind)
            }
            Event::CompletionQueueOverflow(id) => (objects.cqs.get(id), IBV_EVENT_CQ_ERR),
            Event::SharedReceiveLimit(id) => (objects.srqs.get(id), IBV_EVENT_SRQ_LIMIT_REACHED),
            Event::LastReceiveTaken(qpn) => (objects.qps.get(&qpn.0), IBV_EVENT_QP_LAST_WQE_REACHED),
        };
        let element = std::ptr::with_exposed_provenance_mut(object?.0);
        Some(ibv_async_event { element, event_type })
    }
}

impl ContextState {
    /// A number for a new object.
    pub(crate) fn handle(&self) -> u32 {
        self.handles.fetch_add(1, Ordering::Relaxed)
    }

    /// Moves completions into `out`; returns their number.
    pub(crate) fn poll(&self, cq: CqId, out: &mut [Completion]) -> Result<usize, VerbsError> {
        self.progress.poll(cq, out)
    }

    /// Whether `fork` made this process after another one had opened the device. Such a child has copies of the
    /// objects, but not the threads, and locks may be taken for ever. A handler that runs when the child exits may
    /// destroy objects all the same: they stay those of the parent.
    pub(crate) fn is_of_parent(&self, verb: &str) -> bool {
        let is_of_parent = self.process != std::process::id();
        if is_of_parent {
            trace::line(format_args!("{verb} in a child of the process that opened the device: nothing happens"));
        }
        is_of_parent
    }

    /// The program is going to sleep until there is a completion.
    pub(crate) fn will_sleep(&self) {
        self.progress.program_sleeps();
    }

    /// The reading of the clock of the timestamps in completions.
    pub(crate) fn now(&self) -> Time {
        self.clock.now()
    }

    /// The address as a GID.
    pub(crate) fn gid(&self) -> ibv_gid {
        gid(self.address.ip)
    }
}

/// An address as a GID, as RoCEv2 writes it.
pub(crate) fn gid(ip: IpAddr) -> ibv_gid {
    ibv_gid { raw: rnic_cm::ip::gid(ip) }
}

/// The address in a GID.
pub(crate) fn ip(gid: &ibv_gid) -> IpAddr {
    rnic_cm::ip::address(gid.raw)
}

/// The state behind a pointer of C.
///
/// # Safety
/// The pointer is that of a context of this library which is not closed.
pub(crate) unsafe fn state<'a>(context: *mut ibv_context) -> &'a ContextState {
    // SAFETY: the context of C is a part of `Context`; the reference does not cover the part that C may write.
    unsafe { &(*of(context)).state }
}

fn of(context: *mut ibv_context) -> *mut Context {
    const OFFSET: usize = std::mem::offset_of!(Context, c) + std::mem::offset_of!(verbs_context, context);
    context.wrapping_byte_sub(OFFSET).cast()
}

/// Nanoseconds since 1970.
pub(crate) fn realtime_ns() -> u64 {
    use std::time::{SystemTime, UNIX_EPOCH};
    #[expect(clippy::disallowed_methods, reason = "the interface asks for the time of day of a completion")]
    SystemTime::now().duration_since(UNIX_EPOCH).map_or(0, |since| since.as_nanos() as u64)
}

/// The capture file of this process; `None` without one.
fn capture() -> Result<Option<CaptureFile>, String> {
    static FILE: OnceLock<Result<Option<CaptureFile>, String>> = OnceLock::new();
    let begin = || match &Environment::get().as_ref().map_err(Clone::clone)?.pcap {
        None => Ok(None),
        Some(path) => CaptureFile::create(path).map(Some).map_err(|why| format!("RNIC_PCAP: cannot write {}: {why}", path.display())),
    };
    FILE.get_or_init(begin).clone()
}

/// The thread that moves packets sleeps at once while there are none. On a host with few cores it would take them from
/// the programs if it went on looking.
fn idle() -> IdleConfig {
    let cores = std::thread::available_parallelism().map_or(1, usize::from);
    if cores > 4 { IdleConfig::default() } else { IdleConfig { spin: Time::ZERO, slack: Time::ZERO } }
}

/// Opens the endpoint's device of an address. An error is a sentence, with its number in C.
fn open(address: &HostAddress) -> Result<rnic_endpoint::Device, (c_int, String)> {
    /// The address is free, but the file of a capture cannot be written, for example.
    fn other(error: impl ToString) -> (c_int, String) {
        (libc::EIO, error.to_string())
    }
    observe_takeovers(trace_takeover);
    let port = SharedAddressPort::open(address.ip).map_err(|error| (error.errno(), error.to_string()))?;
    let mut config = Config { mode: Mode::Polled, idle: idle(), security: Security::None, ..Config::default() };
    // The program's next poll sends the ACKs, and the reply to a message leaves before them. If there is no poll, the
    // library's thread sends them ([`crate::progress`]).
    config.acknowledge = Acknowledge::WithNextPoll;
    config.verbs.late_memory_checks = true;
    config.verbs.shard = port.shard();
    let config = config.fitted_to(port.udp()).map_err(other)?;
    let slot = port.shard().index;
    rnic_endpoint::Device::on_port(as_the_environment_says(port, slot).map_err(other)?, config).map_err(other)
}

fn trace_takeover(report: TakeoverReport) {
    let TakeoverReport { ip, connections, unanswered } = report;
    trace::line(format_args!(
        "a process on {ip} has gone: {connections} connections were ended, {unanswered} of them without a response"
    ));
}

/// A port with the faults and the capture that the environment asks for. Ports with another `lane` lose other packets.
fn as_the_environment_says(port: impl Port + 'static, lane: u32) -> Result<Box<dyn Port>, String> {
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

impl ContextState {
    /// Opens queue pair 1 of the device for the communication manager of this process.
    pub(crate) fn open_manager(&self) -> Result<Mads, String> {
        let sender = MadSender::open(self.address.ip, capture()?).map_err(|error| error.to_string())?;
        let claims = Arc::<Claims>::default();
        // Without files in memory, peers depend on probes.
        let list = ConnectionList::create().ok().map(Arc::new);
        let port = MadPort::open(self.address.ip, sender.manager_id(), claims.clone(), list.clone());
        let port = port.map_err(|error| error.to_string())?;
        // The manager and the device lose different packets: the device has the lane of its slot.
        let receiver = as_the_environment_says(port, SLOTS / 2)?;
        Ok(Mads::new(sender, receiver, claims, list))
    }
}

/// # Safety
/// By the contract of libibverbs.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn ibv_open_device(device: *mut ibv_device) -> *mut ibv_context {
    object(|| {
        // SAFETY: by the contract of libibverbs.
        let about = unsafe { Device::of(device) };
        let endpoint = open(&about.address).map_err(|(number, why)| {
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
        // Programs keep the descriptor of the kernel's device. There is none; that of /dev/null can be duplicated too.
        let null = File::open("/dev/null").map_err(|_| libc::EMFILE)?;
        let c = operations(device, null.as_raw_fd(), state.events.mailbox.raw_fd());
        let context = Box::into_raw(Box::new(Context { c, state, _null: null }));
        // SAFETY: the pointer was made just now.
        Ok(unsafe { &raw mut (*context).c.context })
    })
}

fn operations(device: *mut ibv_device, cmd_fd: c_int, async_fd: c_int) -> verbs_context {
    let ops = ibv_context_ops {
        compat_1: [0; 7],
        alloc_mw: Some(window::alloc_mw),
        bind_mw: Some(window::bind_mw),
        dealloc_mw: Some(window::dealloc_mw),
        compat_2: 0,
        poll_cq: Some(cq::poll_cq),
        req_notify_cq: Some(cq::req_notify_cq),
        compat_3: [0; 7],
        post_srq_recv: Some(post::post_srq_recv),
        compat_4: [0; 4],
        post_send: Some(post::post_send),
        post_recv: Some(post::post_recv),
        compat_5: [0; 5],
    };
    verbs_context {
        query_port: Some(query::query_port),
        advise_mr: Some(domain::advise_mr),
        alloc_null_mr: 0,
        counters: [0; 4],
        device_memory: [0; 3],
        flow_actions: [0; 3],
        modify_qp_rate_limit: Some(qp::modify_qp_rate_limit),
        alloc_parent_domain: Some(domain::alloc_parent_domain),
        dealloc_td: Some(domain::dealloc_td),
        alloc_td: Some(domain::alloc_td),
        modify_cq: 0,
        post_srq_ops: 0,
        work_queues: [0; 5],
        query_rt_values: Some(query::query_rt_values),
        create_cq_ex: Some(cq_ex::create_cq_ex),
        private: 0,
        query_device_ex: Some(query::query_device_ex),
        destroy_flow: 0,
        placeholder_2: 0,
        create_flow: 0,
        placeholder_1: 0,
        open_qp: 0,
        create_qp_ex: Some(qp::create_qp_ex),
        get_srq_num: 0,
        create_srq_ex: Some(srq::create_srq_ex),
        xrc: [0; 2],
        placeholder_3: 0,
        sz: size_of::<verbs_context>(),
        context: ibv_context {
            device,
            ops,
            cmd_fd,
            async_fd,
            num_comp_vectors: 1,
            mutex: libc::PTHREAD_MUTEX_INITIALIZER,
            abi_compat: VERBS_ABI_IS_EXTENDED,
        },
    }
}

/// # Safety
/// By the contract of libibverbs.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn ibv_close_device(context: *mut ibv_context) -> c_int {
    status(|| {
        // SAFETY: by the contract of libibverbs the context is open.
        if unsafe { state(context) }.is_of_parent("ibv_close_device") {
            return Ok(());
        }
        trace::line(format_args!("ibv_close_device"));
        // SAFETY: the context was made by `Box::into_raw`, and the program does not use it any more.
        unsafe {
            // A thread may still wait in `ibv_get_async_event`.
            state(context).events.mailbox.close();
            drop(Box::from_raw(of(context)));
        }
        Ok(())
    })
}

/// # Safety
/// By the contract of libibverbs.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn ibv_get_async_event(context: *mut ibv_context, event: *mut ibv_async_event) -> c_int {
    entry(-1, || {
        // The context may be closed while the thread waits.
        // SAFETY: by the contract of libibverbs.
        let events = unsafe { state(context) }.events.clone();
        // An object that is being destroyed leaves the mailbox, and then waits for its events.
        // SAFETY: so it exists while its event is in the mailbox.
        let taken = events.mailbox.take(|queue| events.refill(queue), |event| unsafe { unacknowledged(event) }.add());
        match taken {
            Ok(taken) => {
                trace::line(format_args!("ibv_get_async_event = {}", crate::names::event(taken.event_type)));
                // SAFETY: by the contract of libibverbs the result is valid.
                unsafe { *event = taken };
                0
            }
            Err(error) => {
                set_errno(error);
                -1
            }
        }
    })
}

/// Where the events of an event's object are counted.
///
/// # Safety
/// The object is not destroyed.
unsafe fn unacknowledged(event: &ibv_async_event) -> &'static Unacknowledged {
    // SAFETY: the type of the event tells the type of its object.
    unsafe {
        match event.event_type {
            IBV_EVENT_CQ_ERR => &cq::state(event.element.cast()).events,
            IBV_EVENT_SRQ_LIMIT_REACHED => &srq::state(event.element.cast()).events,
            _ => &qp::state(event.element.cast()).events,
        }
    }
}

/// # Safety
/// By the contract of libibverbs.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn ibv_ack_async_event(event: *mut ibv_async_event) {
    trace::line(format_args!("ibv_ack_async_event"));
    // SAFETY: by the contract of libibverbs the event is one of `ibv_get_async_event`, and its object is there.
    entry((), || unsafe { unacknowledged(&*event).acknowledge(1) });
}
