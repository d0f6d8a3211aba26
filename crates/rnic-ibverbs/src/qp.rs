//! Queue pairs: creation, states and attributes.

use crate::abi::*;
use crate::channel::Address;
use crate::context::{self, ContextState};
use crate::entry::{Unacknowledged, lock, object, refused, status};
use crate::environment::Environment;
use crate::qp_ex::{self, Requests};
use crate::{ah, cq, domain, srq, states, trace};
use libc::c_int;
use rnic_endpoint::{BitRate, Time};
use rnic_verbs::{
    Access, Capacities, Connection, CqId, DatagramAttributes, Extras, MAX_IN_FLIGHT, QpChange, QpInit, Qpn,
    SendAttributes, Service, Transition, Verbs, VerbsError,
};
use std::cell::UnsafeCell;
use std::sync::Mutex;
use std::sync::atomic::{AtomicBool, Ordering};

/// A queue pair: what C sees, and the state of this crate. Every queue pair has the extended structure.
#[repr(C)]
pub(crate) struct Qp {
    c: ibv_qp_ex,
    state: QpState,
}

pub(crate) struct QpState {
    pub(crate) qpn: Qpn,
    pub(crate) kind: c_int,
    /// The completion queues of sends and of receives.
    queues: [CqId; 2],
    init: InitAttributes,
    /// The attributes that the program has set.
    attributes: Mutex<ibv_qp_attr>,
    pub(crate) events: Unacknowledged,
    /// Whether the queue pair was created with the operations of extended queue pairs.
    extended: bool,
    /// Whether a thread is between `ibv_wr_start` and `ibv_wr_complete`; that thread alone uses `requests`.
    pub(crate) building: AtomicBool,
    pub(crate) requests: UnsafeCell<Requests>,
}

/// What `ibv_query_qp` returns about the creation.
struct InitAttributes {
    capacities: ibv_qp_cap,
    signal_all: c_int,
}

/// The state behind a pointer of C.
///
/// # Safety
/// The pointer is that of a queue pair of this library which is not destroyed.
pub(crate) unsafe fn state<'a>(qp: *mut ibv_qp) -> &'a QpState {
    // SAFETY: the reference does not cover the part that C may write.
    unsafe { &(*qp.cast::<Qp>()).state }
}

/// # Safety
/// By the contract of libibverbs.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn ibv_create_qp(pd: *mut ibv_pd, attributes: *mut ibv_qp_init_attr) -> *mut ibv_qp {
    // SAFETY: by the contract of libibverbs.
    object(|| unsafe { create("ibv_create_qp", pd, &mut *attributes, None) })
}

pub(crate) unsafe extern "C" fn create_qp_ex(_: *mut ibv_context, attributes: *mut ibv_qp_init_attr_ex) -> *mut ibv_qp {
    object(|| {
        // SAFETY: by the contract of libibverbs.
        let attr = unsafe { &mut *attributes };
        let known = IBV_QP_INIT_ATTR_PD | IBV_QP_INIT_ATTR_SEND_OPS_FLAGS | IBV_QP_INIT_ATTR_CREATE_FLAGS;
        let has = |bit| attr.comp_mask & bit != 0;
        let operations = if has(IBV_QP_INIT_ATTR_SEND_OPS_FLAGS) { Some(attr.send_ops_flags) } else { None };
        if attr.comp_mask & !known != 0 || has(IBV_QP_INIT_ATTR_CREATE_FLAGS) && attr.create_flags != 0 {
            trace::line(format_args!("ibv_create_qp_ex refused: no attributes {:#x}", attr.comp_mask & !known));
            return Err(libc::EOPNOTSUPP);
        }
        if !has(IBV_QP_INIT_ATTR_PD) {
            return Err(libc::EINVAL);
        }
        if operations.unwrap_or(0) & !SEND_OPS != 0 {
            return Err(libc::EOPNOTSUPP);
        }
        // SAFETY: by the contract of libibverbs.
        unsafe {
            let ibv_qp_init_attr_ex { qp_context, send_cq, recv_cq, srq, cap, qp_type, sq_sig_all, .. } = *attr;
            let mut usual = ibv_qp_init_attr { qp_context, send_cq, recv_cq, srq, cap, qp_type, sq_sig_all };
            let qp = create("ibv_create_qp_ex", attr.pd, &mut usual, operations)?;
            attr.cap = usual.cap;
            Ok(qp)
        }
    })
}

unsafe fn create(
    verb: &str, pd: *mut ibv_pd, attr: &mut ibv_qp_init_attr, operations: Option<u64>,
) -> Result<*mut ibv_qp, c_int> {
    let service = match attr.qp_type {
        IBV_QPT_RC => Service::Rc,
        IBV_QPT_UC => Service::Uc,
        IBV_QPT_UD => Service::Ud,
        other => {
            trace::line(format_args!("{verb} refused: there are queue pairs of type RC, UC and UD, not {other}"));
            return Err(libc::EOPNOTSUPP);
        }
    };
    if pd.is_null() || attr.send_cq.is_null() || attr.recv_cq.is_null() {
        trace::line(format_args!("{verb} refused: a queue pair needs a protection domain and completion queues"));
        return Err(libc::EINVAL);
    }
    // SAFETY: by the contract of libibverbs the objects exist.
    let (context, state, init) = unsafe {
        let init = QpInit {
            service,
            send_cq: cq::state(attr.send_cq).id,
            recv_cq: cq::state(attr.recv_cq).id,
            srq: if attr.srq.is_null() { None } else { Some(srq::state(attr.srq).id) },
            capacities: capacities(&mut attr.cap, !attr.srq.is_null(), service),
            signal_all: attr.sq_sig_all != 0,
        };
        ((*pd).context, context::state((*pd).context), init)
    };
    let queues = [init.send_cq, init.recv_cq];
    // SAFETY: as above.
    let id = unsafe { domain::id(pd) };
    // A device does not open if the environment has mistakes.
    let offer_irn = service == Service::Rc && Environment::get().as_ref().is_ok_and(|settings| settings.offer_irn);
    let made = state.device.with_verbs_quietly(|verbs| {
        let qpn = verbs.create_qp(id, init)?;
        if offer_irn {
            verbs.set_extras(qpn, Extras { offer_irn, ..Extras::default() })?;
        }
        Ok(qpn)
    });
    let qpn = made.map_err(refused(verb))?;
    let base = ibv_qp {
        context,
        qp_context: attr.qp_context,
        pd,
        send_cq: attr.send_cq,
        recv_cq: attr.recv_cq,
        srq: attr.srq,
        handle: state.handle(),
        qp_num: qpn.0,
        state: IBV_QPS_RESET,
        qp_type: attr.qp_type,
        mutex: libc::PTHREAD_MUTEX_INITIALIZER,
        cond: libc::PTHREAD_COND_INITIALIZER,
        events_completed: 0,
    };
    let qp = Box::into_raw(Box::new(Qp {
        c: qp_ex::extended(base),
        state: QpState {
            qpn,
            kind: attr.qp_type,
            queues,
            init: InitAttributes { capacities: attr.cap, signal_all: attr.sq_sig_all },
            attributes: Mutex::new(ibv_qp_attr { cap: attr.cap, ..ibv_qp_attr::default() }),
            events: Unacknowledged::default(),
            extended: operations.is_some(),
            building: AtomicBool::new(false),
            requests: UnsafeCell::default(),
        },
    }));
    state.events.add_qp(qpn, Address(qp.expose_provenance()));
    trace::line(format_args!("{verb} {} = QP {:#x}", service.name(), qpn.0));
    Ok(qp.cast())
}

/// Minimum bytes of inline data of a UD queue pair. UCX asks for 64, and its request for a connection has 68: it then
/// leaves the request in the send buffer, which it uses again as soon as the peer's own request arrives, although the
/// send has not completed. A NIC has read the buffer long before. Here the queue pair may have to wait for a core, and
/// would send whatever is in the buffer by then to the wrong peer. Inline data is copied when it is posted.
const MIN_INLINE_UD: u32 = 128;

/// The sizes of the queues. The program gets to know those that it gets, which are at least those it asked for.
fn capacities(cap: &mut ibv_qp_cap, shared: bool, service: Service) -> Capacities {
    if service == Service::Ud {
        cap.max_inline_data = cap.max_inline_data.max(MIN_INLINE_UD);
    }
    cap.max_send_wr = cap.max_send_wr.max(1);
    // Programs ask for sizes that only some work requests need.
    cap.max_send_sge = cap.max_send_sge.max(1);
    if shared {
        (cap.max_recv_wr, cap.max_recv_sge) = (0, 0);
    }
    Capacities {
        send_wr: cap.max_send_wr,
        recv_wr: cap.max_recv_wr,
        send_sge: cap.max_send_sge,
        recv_sge: cap.max_recv_sge,
        inline: cap.max_inline_data,
    }
}

/// # Safety
/// By the contract of libibverbs.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn ibv_destroy_qp(qp: *mut ibv_qp) -> c_int {
    status(|| {
        // SAFETY: by the contract of libibverbs.
        let (context, state) = unsafe { (context::state((*qp).context), state(qp)) };
        if context.is_of_parent("ibv_destroy_qp") {
            return Ok(());
        }
        // The last ACK may wait still, and the peer for it.
        context.device.settle();
        let gone = context.device.with_verbs(|verbs| {
            let info = verbs.query_qp(state.qpn)?;
            verbs.destroy_qp(state.qpn)?;
            Ok(info.service)
        });
        let service = gone.map_err(refused("ibv_destroy_qp"))?;
        state.forget_completions(context);
        context.events.remove_qp(state.qpn);
        state.events.wait();
        trace::line(format_args!("ibv_destroy_qp {:#x}, {}", state.qpn.0, service.name()));
        // SAFETY: it was made by `Box::into_raw`, and the program does not use it any more.
        drop(unsafe { Box::from_raw(qp.cast::<Qp>()) });
        Ok(())
    })
}

/// # Safety
/// By the contract of libibverbs.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn ibv_qp_to_qp_ex(qp: *mut ibv_qp) -> *mut ibv_qp_ex {
    // SAFETY: by the contract of libibverbs.
    if unsafe { state(qp) }.extended { qp.cast() } else { std::ptr::null_mut() }
}

/// # Safety
/// By the contract of libibverbs.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn ibv_modify_qp(qp: *mut ibv_qp, attributes: *mut ibv_qp_attr, mask: c_int) -> c_int {
    status(|| {
        // SAFETY: by the contract of libibverbs.
        let (context, state, attr) = unsafe { (context::state((*qp).context), state(qp), &*attributes) };
        modify(context, state, attr, mask).inspect_err(|error| {
            trace::line(format_args!("ibv_modify_qp {:#x} refused: {error}", state.qpn.0));
        })?;
        if mask & IBV_QP_STATE != 0 {
            // SAFETY: as above.
            unsafe { (*qp).state = attr.qp_state };
            trace::line(format_args!("ibv_modify_qp {:#x} to state {}", state.qpn.0, attr.qp_state));
        }
        Ok(())
    })
}

/// Why a change of attributes is refused.
enum Refused {
    Verbs(VerbsError),
    Text(String),
    /// The trace says why already.
    Number(c_int),
}

impl std::fmt::Display for Refused {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self {
            Refused::Verbs(error) => write!(f, "{error}"),
            Refused::Text(text) => f.write_str(text),
            Refused::Number(number) => write!(f, "error {number}"),
        }
    }
}

impl From<Refused> for c_int {
    fn from(refused: Refused) -> c_int {
        match refused {
            Refused::Verbs(error) => crate::entry::number(&error),
            Refused::Text(_) => libc::EINVAL,
            Refused::Number(number) => number,
        }
    }
}

impl From<VerbsError> for Refused {
    fn from(error: VerbsError) -> Refused {
        Refused::Verbs(error)
    }
}

fn modify(context: &ContextState, qp: &QpState, attr: &ibv_qp_attr, mask: c_int) -> Result<(), Refused> {
    let mut known = lock(&qp.attributes);
    let now = context.device.with_verbs_quietly(|verbs| verbs.state(qp.qpn))?;
    let from = states::of(now);
    let to = if mask & IBV_QP_STATE != 0 { attr.qp_state } else { from };
    if mask & IBV_QP_CUR_STATE != 0 && attr.cur_qp_state != from {
        return Err(Refused::Text(format!("the current state is {from} and not {}", attr.cur_qp_state)));
    }
    states::check(qp.kind, from, to, mask).map_err(Refused::Text)?;
    if mask & IBV_QP_PORT != 0 && attr.port_num != 1 {
        return Err(Refused::Text("a device has one port, number 1".into()));
    }
    if mask & IBV_QP_PKEY_INDEX != 0 && attr.pkey_index != 0 {
        return Err(Refused::Text("the table of partition keys has one entry, with index 0".into()));
    }
    if mask & (IBV_QP_ALT_PATH | IBV_QP_PATH_MIG_STATE) != 0 {
        return Err(Refused::Text("there are no alternate paths".into()));
    }
    // More reads than the device says are accepted: perftest asks for as many as its peer has, 128 with rdma_rxe.
    let merged = merge(&known, attr, mask);
    for transition in transitions(context, qp, &merged, mask, from, to)? {
        context.device.with_verbs(|verbs| verbs.modify_qp(qp.qpn, transition))?;
    }
    if to == IBV_QPS_RESET {
        qp.forget_completions(context);
    }
    *known = merged;
    if to == IBV_QPS_RESET {
        *known = ibv_qp_attr { cap: known.cap, ..ibv_qp_attr::default() };
    }
    Ok(())
}

/// The attributes after a change.
fn merge(known: &ibv_qp_attr, attr: &ibv_qp_attr, mask: c_int) -> ibv_qp_attr {
    let mut all = *known;
    let has = |bit| mask & bit != 0;
    macro_rules! take {
        ($($bit:ident => $field:ident),* $(,)?) => { $(if has($bit) { all.$field = attr.$field; })* };
    }
    take! {
        IBV_QP_EN_SQD_ASYNC_NOTIFY => en_sqd_async_notify,
        IBV_QP_ACCESS_FLAGS => qp_access_flags,
        IBV_QP_PKEY_INDEX => pkey_index,
        IBV_QP_PORT => port_num,
        IBV_QP_QKEY => qkey,
        IBV_QP_AV => ah_attr,
        IBV_QP_PATH_MTU => path_mtu,
        IBV_QP_TIMEOUT => timeout,
        IBV_QP_RETRY_CNT => retry_cnt,
        IBV_QP_RNR_RETRY => rnr_retry,
        IBV_QP_RQ_PSN => rq_psn,
        IBV_QP_MAX_QP_RD_ATOMIC => max_rd_atomic,
        IBV_QP_MIN_RNR_TIMER => min_rnr_timer,
        IBV_QP_SQ_PSN => sq_psn,
        IBV_QP_MAX_DEST_RD_ATOMIC => max_dest_rd_atomic,
        IBV_QP_DEST_QPN => dest_qp_num,
    }
    all
}

/// Time without a response after which a reliable connection fails: as long as the timeouts and retries of the program
/// take, but at least [`SHORTEST`].
fn give_up_after(kind: c_int, all: &ibv_qp_attr) -> Option<Time> {
    /// NICs respond whatever their host does. Here the peer is a program, which a busy host, such as one that runs
    /// tests, may not run for a second.
    const SHORTEST: Time = Time::from_ms(2_000);
    const LONGEST: Time = Time::from_ms(86_400_000);
    if kind != IBV_QPT_RC || all.timeout == 0 {
        return None;
    }
    let timeout = Time::from_ns(4_096 << u32::from(all.timeout.min(31)));
    let retries = u64::from(all.retry_cnt.min(7)) + 1;
    Some(Time::from_ps(timeout.as_ps().saturating_mul(retries)).clamp(SHORTEST, LONGEST))
}

/// The changes of the endpoint's queue pair that a change of attributes needs, in order.
fn transitions(
    context: &ContextState, qp: &QpState, all: &ibv_qp_attr, mask: c_int, from: c_int, to: c_int,
) -> Result<Vec<Transition>, Refused> {
    let has = |bit| mask & bit != 0;
    let rights = || domain::access(all.qp_access_flags).map_err(Refused::Number);
    // What the peer may do: the engine wants the rights of regions, where writing needs `local_write`.
    let rights = || rights().map(|rights| Access { local_write: true, ..rights });
    let path = || ah::of("ibv_modify_qp", &all.ah_attr, context).map_err(Refused::Number);
    let mtu = || match all.path_mtu {
        mtu @ 1..=5 if 128 << mtu > context.address.path_mtu() => Err(Refused::Text(format!(
            "path_mtu is {mtu} ({} bytes), but that of the port is {} bytes",
            128 << mtu,
            context.address.path_mtu()
        ))),
        mtu @ 1..=5 => Ok(128 << mtu),
        other => Err(Refused::Text(format!("path_mtu is {other}; it must be 1 (256 bytes) to 5 (4096 bytes)"))),
    };
    let mut changes = Vec::new();
    match (from, to) {
        (_, IBV_QPS_RESET) => changes.push(Transition::Reset),
        (_, IBV_QPS_ERR) => changes.push(Transition::Error),
        (IBV_QPS_RESET | IBV_QPS_INIT, IBV_QPS_INIT) => changes.push(Transition::Init(rights()?)),
        (IBV_QPS_INIT, IBV_QPS_RTR) if qp.kind == IBV_QPT_UD => {
            let path_mtu = context.address.path_mtu();
            changes.push(Transition::ReceiveDatagrams(DatagramAttributes { qkey: all.qkey, path_mtu }));
        }
        (IBV_QPS_INIT, IBV_QPS_RTR) => {
            if has(IBV_QP_ACCESS_FLAGS) {
                changes.push(Transition::Init(rights()?));
            }
            let path = path()?;
            changes.push(Transition::ReadyToReceive(Connection {
                peer: path.peer,
                peer_source_port: None,
                peer_in_flight: MAX_IN_FLIGHT,
                protected: false,
                peer_qpn: Qpn(all.dest_qp_num),
                path_mtu: mtu()?,
                recv_psn: all.rq_psn & 0xff_ffff,
                max_dest_rd_atomic: all.max_dest_rd_atomic,
                min_rnr_timer: all.min_rnr_timer,
                dscp: path.dscp,
            }));
        }
        (IBV_QPS_RTR | IBV_QPS_SQD | IBV_QPS_SQE, IBV_QPS_RTS) => {
            changes.push(Transition::ReadyToSend(SendAttributes {
                send_psn: all.sq_psn & 0xff_ffff,
                timeout: all.timeout,
                retry_count: all.retry_cnt,
                rnr_retry: all.rnr_retry,
                max_rd_atomic: all.max_rd_atomic,
                give_up_after: give_up_after(qp.kind, all),
                ..SendAttributes::default()
            }));
        }
        (IBV_QPS_RTS, IBV_QPS_SQD) => changes.push(Transition::SendQueueDrain),
        _ => {}
    }
    let connected = [IBV_QPS_RTS, IBV_QPS_SQD].contains(&to) && from != IBV_QPS_INIT;
    if connected {
        let value = |bit, value: u8| has(bit).then_some(value);
        let new_path = if has(IBV_QP_AV) { Some(path()?) } else { None };
        let reads = from == to;
        let change = QpChange {
            access: if has(IBV_QP_ACCESS_FLAGS) { Some(rights()?) } else { None },
            min_rnr_timer: value(IBV_QP_MIN_RNR_TIMER, all.min_rnr_timer),
            peer: new_path.map(|path| path.peer),
            dscp: new_path.map(|path| path.dscp),
            timeout: value(IBV_QP_TIMEOUT, all.timeout).filter(|_| reads),
            retry_count: value(IBV_QP_RETRY_CNT, all.retry_cnt).filter(|_| reads),
            rnr_retry: value(IBV_QP_RNR_RETRY, all.rnr_retry).filter(|_| reads),
            max_rd_atomic: value(IBV_QP_MAX_QP_RD_ATOMIC, all.max_rd_atomic).filter(|_| reads),
            max_dest_rd_atomic: value(IBV_QP_MAX_DEST_RD_ATOMIC, all.max_dest_rd_atomic),
            qkey: has(IBV_QP_QKEY).then_some(all.qkey),
        };
        if change != QpChange::default() {
            changes.push(Transition::Change(change));
        }
    }
    Ok(changes)
}

/// # Safety
/// By the contract of libibverbs.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn ibv_query_qp(
    qp: *mut ibv_qp, attributes: *mut ibv_qp_attr, _: c_int, init: *mut ibv_qp_init_attr,
) -> c_int {
    status(|| {
        // SAFETY: by the contract of libibverbs.
        let (context, state) = unsafe { (context::state((*qp).context), state(qp)) };
        let asked = context.device.with_verbs_quietly(|verbs| verbs.query_qp(state.qpn));
        let info = asked.map_err(refused("ibv_query_qp"))?;
        trace::line(format_args!("ibv_query_qp {:#x} = state {}", state.qpn.0, states::of(info.state)));
        let mut all = *lock(&state.attributes);
        all.qp_state = states::of(info.state);
        all.cur_qp_state = all.qp_state;
        all.cap = state.init.capacities;
        all.sq_draining = u8::from(all.qp_state == IBV_QPS_SQD && info.sends > 0);
        // SAFETY: as above.
        unsafe {
            (*qp).state = all.qp_state;
            attributes.write(all);
            init.write(ibv_qp_init_attr {
                qp_context: (*qp).qp_context,
                send_cq: (*qp).send_cq,
                recv_cq: (*qp).recv_cq,
                srq: (*qp).srq,
                cap: state.init.capacities,
                qp_type: state.kind,
                sq_sig_all: state.init.signal_all,
            });
        }
        Ok(())
    })
}

/// # Safety
/// By the contract of libibverbs.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn ibv_query_qp_data_in_order(_: *mut ibv_qp, _: c_int, _: u32) -> c_int {
    // A program that polls the last byte of a message may see it before the others: the copy has no order.
    0
}

/// Limits the rate; the attributes begin with the rate in kbit/s, 0 for no limit.
pub(crate) unsafe extern "C" fn modify_qp_rate_limit(qp: *mut ibv_qp, attributes: *mut u32) -> c_int {
    status(|| {
        // SAFETY: by the contract of libibverbs.
        let (context, state, kbps) = unsafe { (context::state((*qp).context), state(qp), *attributes) };
        let rate = (kbps > 0).then(|| BitRate::from_bps(u64::from(kbps) * 1_000));
        let limited = context.device.with_verbs(|verbs| verbs.set_rate(state.qpn, rate));
        limited.map_err(refused("ibv_modify_qp_rate_limit"))?;
        trace::line(format_args!("ibv_modify_qp_rate_limit {:#x} to {kbps} kbit/s", state.qpn.0));
        Ok(())
    })
}

/// # Safety
/// By the contract of libibverbs.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn ibv_attach_mcast(_: *mut ibv_qp, _: *const ibv_gid, _: u16) -> c_int {
    status(|| {
        trace::line(format_args!("ibv_attach_mcast refused: there is no multicast"));
        Err(libc::EOPNOTSUPP)
    })
}

/// # Safety
/// By the contract of libibverbs.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn ibv_detach_mcast(_: *mut ibv_qp, _: *const ibv_gid, _: u16) -> c_int {
    libc::EOPNOTSUPP
}

/// The enhanced connection establishment of some vendors: there are no options.
///
/// # Safety
/// By the contract of libibverbs.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn ibv_set_ece(_: *mut ibv_qp, ece: *mut ibv_ece) -> c_int {
    // SAFETY: by the contract of libibverbs.
    status(|| if unsafe { (*ece).vendor_id } == 0 { Ok(()) } else { Err(libc::EOPNOTSUPP) })
}

/// # Safety
/// By the contract of libibverbs.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn ibv_query_ece(_: *mut ibv_qp, ece: *mut ibv_ece) -> c_int {
    // SAFETY: by the contract of libibverbs.
    unsafe { ece.write(ibv_ece { vendor_id: 0, options: 0, comp_mask: 0 }) };
    0
}

impl QpState {
    /// Removes the queue pair's completions from its queues.
    fn forget_completions(&self, context: &ContextState) {
        context.device.with_verbs_quietly(|verbs| {
            for cq in self.queues {
                // A queue that the program has destroyed before has no completions.
                let _ = verbs.forget_completions(cq, self.qpn);
            }
        });
    }

    /// Waits until no other thread builds requests, and lets this thread do so.
    pub(crate) fn begin(&self) {
        while self.building.swap(true, Ordering::Acquire) {
            std::thread::yield_now();
        }
    }
}
