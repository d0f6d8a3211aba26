//! Queue pairs: creation and changes of attributes.

use super::context::ContextState;
use super::cq::Cq;
use super::domain::{self, Domain};
use super::srq::Srq;
use super::work::Requests;
use super::{Address, InContext, ah, states};
use crate::abi::*;
use crate::environment::Environment;
use crate::error::refused;
use crate::trace;
use libc::c_int;
use rnic_cabi::entry::{Unacknowledged, lock};
use rnic_cabi::pointer::Handle;
use rnic_endpoint::Time;
use rnic_verbs::{
    Access, Capacities, Connection, CqId, DatagramAttributes, Extras, MAX_IN_FLIGHT, QpChange, QpInit, Qpn,
    SendAttributes, Service, Transition, Verbs, VerbsError,
};
use std::cell::UnsafeCell;
use std::sync::Mutex;
use std::sync::atomic::{AtomicBool, Ordering};

/// A queue pair. Every queue pair has the extended structure.
#[repr(C)]
pub(crate) struct Qp {
    c: ibv_qp_ex,
    state: QpState,
}

rnic_cabi::object!(Qp { c.qp_base: ibv_qp, state: QpState });

/// A queue pair, as the functions of extended queue pairs get it.
#[repr(transparent)]
pub(crate) struct ExtendedQp {
    qp: Qp,
}

rnic_cabi::object!(ExtendedQp { qp.c: ibv_qp_ex, qp.state: QpState });

impl InContext for Handle<ExtendedQp> {
    fn context_ptr(&self) -> *mut ibv_context {
        rnic_cabi::get!(self.qp_base.context)
    }
}

pub(crate) struct QpState {
    pub(crate) qpn: Qpn,
    /// The type of the queue pair in C.
    pub(crate) kind: c_int,
    /// The completion queues of sends and of receives.
    queues: [CqId; 2],
    pub(crate) init: InitAttributes,
    /// The attributes that the program has set.
    pub(crate) attributes: Mutex<ibv_qp_attr>,
    /// Asynchronous events that the program has not acknowledged.
    pub(crate) events: Unacknowledged,
    /// Whether the queue pair was created with the operations of extended queue pairs.
    pub(crate) extended: bool,
    /// Whether a thread is between `ibv_wr_start` and `ibv_wr_complete`; that thread alone uses `requests`.
    building: AtomicBool,
    requests: UnsafeCell<Requests>,
}

/// The attributes from the creation of a queue pair that `ibv_query_qp` returns.
pub(crate) struct InitAttributes {
    pub(crate) capacities: ibv_qp_cap,
    pub(crate) signal_all: c_int,
}

impl Qp {
    /// Creates a queue pair. Sets the capacities in `attr` to the capacities of the new queue pair. `operations` are
    /// the send operations of an extended queue pair; `extended` makes the structure that the C program gets.
    ///
    /// # Errors
    /// An error number of C (`EINVAL` and others). A line in the trace gives the reason.
    ///
    /// # Safety
    /// The pointers of queues in `attr` are null, or the pointers of objects that exist.
    pub(crate) unsafe fn create(
        verb: &str, pd: Option<Handle<Domain>>, attr: &mut ibv_qp_init_attr, operations: Option<u64>,
        extended: fn(ibv_qp) -> ibv_qp_ex,
    ) -> Result<Handle<Qp>, c_int> {
        let service = match attr.qp_type {
            IBV_QPT_RC => Service::Rc,
            IBV_QPT_UC => Service::Uc,
            IBV_QPT_UD => Service::Ud,
            other => {
                trace::line(format_args!("{verb} refused: there are queue pairs of type RC, UC and UD, not {other}"));
                return Err(libc::EOPNOTSUPP);
            }
        };
        // SAFETY: the caller promises the conditions of this function.
        let cq = |cq: *mut ibv_cq| -> Option<Handle<Cq>> { unsafe { Handle::new_unless_null(cq) } };
        let (send_cq, recv_cq) = (cq(attr.send_cq), cq(attr.recv_cq));
        // SAFETY: as above.
        let srq: Option<Handle<Srq>> = unsafe { Handle::new_unless_null(attr.srq) };
        let (Some(pd), Some(send_cq), Some(recv_cq)) = (pd, send_cq, recv_cq) else {
            trace::line(format_args!("{verb} refused: a queue pair needs a protection domain and completion queues"));
            return Err(libc::EINVAL);
        };
        let queues = [send_cq.state().id, recv_cq.state().id];
        let init = QpInit {
            service,
            send_cq: queues[0],
            recv_cq: queues[1],
            srq: srq.map(|srq| srq.state().id),
            capacities: capacities(&mut attr.cap, srq.is_some(), service),
            signal_all: attr.sq_sig_all != 0,
        };
        let context = pd.context();
        // The environment is valid here: a device does not open if the environment has mistakes.
        let offer_irn = service == Service::Rc && Environment::get().as_ref().is_ok_and(|settings| settings.offer_irn);
        let made = context.device.with_verbs_quietly(|verbs| {
            let qpn = verbs.create_qp(pd.state().id, init)?;
            if offer_irn {
                verbs.set_extras(qpn, Extras { offer_irn, ..Extras::default() })?;
            }
            Ok(qpn)
        });
        let qpn = made.map_err(refused(verb))?;
        let base = ibv_qp {
            context: pd.context_ptr(),
            qp_context: attr.qp_context,
            pd: pd.as_ptr(),
            send_cq: attr.send_cq,
            recv_cq: attr.recv_cq,
            srq: attr.srq,
            handle: context.handle(),
            qp_num: qpn.0,
            state: IBV_QPS_RESET,
            qp_type: attr.qp_type,
            mutex: libc::PTHREAD_MUTEX_INITIALIZER,
            cond: libc::PTHREAD_COND_INITIALIZER,
            events_completed: 0,
        };
        let qp = Handle::create(Qp {
            c: extended(base),
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
        });
        context.events.add_qp(qpn, Address::of(qp));
        trace::line(format_args!("{verb} {} = QP {:#x}", service.name(), qpn.0));
        Ok(qp)
    }
}

/// Minimum bytes of inline data of a UD queue pair. UCX asks for 64 bytes, but its connection request has 68 bytes, so
/// it leaves the request in the send buffer. As soon as the peer's own request arrives, UCX uses this buffer again,
/// although the send has not completed. A NIC has read the buffer long before. Here the queue pair may have to wait for
/// a core, and would send the new content of the buffer to the wrong peer. Inline data avoids this, because it is
/// copied when the send is posted.
const MIN_INLINE_UD: u32 = 128;

/// Increases the capacities in `cap` to the capacities that the queue pair gets, and returns them.
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

/// Why a change of attributes is refused.
pub(crate) enum Refused {
    Verbs(VerbsError),
    Text(String),
    /// The trace already contains the reason.
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
            Refused::Verbs(error) => crate::error::number(&error),
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

/// Changes the attributes of a queue pair that `mask` names.
pub(crate) fn modify(context: &ContextState, qp: &QpState, attr: &ibv_qp_attr, mask: c_int) -> Result<(), Refused> {
    let mut known = lock(&qp.attributes);
    let now = context.device.with_verbs_quietly(|verbs| verbs.state(qp.qpn))?;
    let from = states::number(now);
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
    // `max_rd_atomic` may exceed the limit that the device reports: perftest sets it to the limit of its peer, 128 with
    // rdma_rxe.
    let merged = merge(&known, attr, mask);
    for transition in transitions(context, qp, &merged, mask, from, to)? {
        context.device.with_verbs(|verbs| verbs.modify_qp(qp.qpn, transition))?;
    }
    if to == IBV_QPS_RESET {
        qp.remove_completions(context);
    }
    *known = merged;
    if to == IBV_QPS_RESET {
        *known = ibv_qp_attr { cap: known.cap, ..ibv_qp_attr::default() };
    }
    Ok(())
}

/// Returns the attributes of the queue pair after a change.
fn merge(known: &ibv_qp_attr, attr: &ibv_qp_attr, mask: c_int) -> ibv_qp_attr {
    let mut all = *known;
    let has = |bit| mask & bit != 0;
    macro_rules! merge {
        ($($bit:ident => $field:ident),* $(,)?) => { $(if has($bit) { all.$field = attr.$field; })* };
    }
    merge! {
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
    // PSNs and queue pair numbers have 24 bits. Programs compute them with more bits.
    for number in [&mut all.rq_psn, &mut all.sq_psn, &mut all.dest_qp_num] {
        *number &= 0xff_ffff;
    }
    all
}

/// Time without a response after which a reliable connection fails: the timeouts and retries of the program together,
/// but at least the time that the environment sets.
fn give_up_after(kind: c_int, all: &ibv_qp_attr, min: Time) -> Option<Time> {
    /// Minimum and maximum that the device admits.
    const MIN: Time = Time::from_ms(1);
    const MAX: Time = Time::from_ms(86_400_000);
    if kind != IBV_QPT_RC || all.timeout == 0 {
        return None;
    }
    let timeout = Time::from_ns(4_096 << u32::from(all.timeout.min(31)));
    let retries = u64::from(all.retry_cnt.min(7)) + 1;
    Some(Time::from_ps(timeout.as_ps().saturating_mul(retries)).max(min).clamp(MIN, MAX))
}

/// `RNIC_MIN_TIMEOUT`. The environment is valid here: a device does not open if the environment has mistakes.
fn min_timeout() -> Time {
    Environment::get().as_ref().map_or(Time::ZERO, |settings| settings.min_timeout)
}

/// Returns the access rights of the peer. The engine checks the rights of regions, where writing needs `local_write`.
fn peer_access(flags: std::ffi::c_uint) -> Result<Access, Refused> {
    let access = domain::access(flags).map_err(Refused::Number)?;
    Ok(Access { local_write: true, ..access })
}

/// The path MTU in bytes.
fn path_mtu(context: &ContextState, code: c_int) -> Result<u32, Refused> {
    let max = context.address.path_mtu();
    match code {
        mtu @ 1..=5 if 128 << mtu > max => {
            Err(Refused::Text(format!("path_mtu is {mtu} ({} bytes); the port's maximum is {max} bytes", 128 << mtu)))
        }
        mtu @ 1..=5 => Ok(128 << mtu),
        other => Err(Refused::Text(format!("path_mtu is {other}; it must be 1 (256 bytes) to 5 (4096 bytes)"))),
    }
}

/// Returns the transitions of the endpoint's queue pair that a change of attributes needs, in order.
fn transitions(
    context: &ContextState, qp: &QpState, all: &ibv_qp_attr, mask: c_int, from: c_int, to: c_int,
) -> Result<Vec<Transition>, Refused> {
    let has = |bit| mask & bit != 0;
    let access = || peer_access(all.qp_access_flags);
    let path = || ah::path("ibv_modify_qp", &all.ah_attr, context).map_err(Refused::Number);
    let mut changes = Vec::new();
    match (from, to) {
        (_, IBV_QPS_RESET) => changes.push(Transition::Reset),
        (_, IBV_QPS_ERR) => changes.push(Transition::Error),
        (IBV_QPS_RESET | IBV_QPS_INIT, IBV_QPS_INIT) => changes.push(Transition::Init(access()?)),
        (IBV_QPS_INIT, IBV_QPS_RTR) if qp.kind == IBV_QPT_UD => {
            let path_mtu = context.address.path_mtu();
            changes.push(Transition::ReceiveDatagrams(DatagramAttributes { qkey: all.qkey, path_mtu }));
        }
        (IBV_QPS_INIT, IBV_QPS_RTR) => {
            if has(IBV_QP_ACCESS_FLAGS) {
                changes.push(Transition::Init(access()?));
            }
            let path = path()?;
            changes.push(Transition::ReadyToReceive(Connection {
                peer: path.peer,
                peer_source_port: None,
                peer_in_flight: MAX_IN_FLIGHT,
                protected: false,
                peer_qpn: Qpn(all.dest_qp_num),
                path_mtu: path_mtu(context, all.path_mtu)?,
                recv_psn: all.rq_psn,
                max_dest_rd_atomic: all.max_dest_rd_atomic,
                min_rnr_timer: all.min_rnr_timer,
                dscp: path.dscp,
            }));
        }
        (IBV_QPS_RTR | IBV_QPS_SQD | IBV_QPS_SQE, IBV_QPS_RTS) => {
            changes.push(Transition::ReadyToSend(SendAttributes {
                send_psn: all.sq_psn,
                timeout: all.timeout,
                retry_count: all.retry_cnt,
                rnr_retry: all.rnr_retry,
                max_rd_atomic: all.max_rd_atomic,
                give_up_after: give_up_after(qp.kind, all, min_timeout()),
                ..SendAttributes::default()
            }));
        }
        (IBV_QPS_RTS, IBV_QPS_SQD) => changes.push(Transition::SendQueueDrain),
        _ => {}
    }
    let is_connected = [IBV_QPS_RTS, IBV_QPS_SQD].contains(&to) && from != IBV_QPS_INIT;
    if is_connected {
        let value = |bit, value: u8| has(bit).then_some(value);
        // A transition to another state sets these attributes itself.
        let stays_in_state = from == to;
        let value_in_state = |bit, value: u8| (has(bit) && stays_in_state).then_some(value);
        let new_path = if has(IBV_QP_AV) { Some(path()?) } else { None };
        let change = QpChange {
            access: if has(IBV_QP_ACCESS_FLAGS) { Some(access()?) } else { None },
            min_rnr_timer: value(IBV_QP_MIN_RNR_TIMER, all.min_rnr_timer),
            peer: new_path.map(|path| path.peer),
            dscp: new_path.map(|path| path.dscp),
            timeout: value_in_state(IBV_QP_TIMEOUT, all.timeout),
            retry_count: value_in_state(IBV_QP_RETRY_CNT, all.retry_cnt),
            rnr_retry: value_in_state(IBV_QP_RNR_RETRY, all.rnr_retry),
            max_rd_atomic: value_in_state(IBV_QP_MAX_QP_RD_ATOMIC, all.max_rd_atomic),
            max_dest_rd_atomic: value(IBV_QP_MAX_DEST_RD_ATOMIC, all.max_dest_rd_atomic),
            qkey: has(IBV_QP_QKEY).then_some(all.qkey),
        };
        if change != QpChange::default() {
            changes.push(Transition::Change(change));
        }
    }
    Ok(changes)
}

impl QpState {
    /// Removes the queue pair's completions from its queues.
    pub(crate) fn remove_completions(&self, context: &ContextState) {
        context.device.with_verbs_quietly(|verbs| {
            for cq in self.queues {
                // A queue that the program has destroyed before has no completions.
                let _ = verbs.forget_completions(cq, self.qpn);
            }
        });
    }

    /// Waits until no other thread builds requests. Then this thread may use [`QpState::requests`] until
    /// [`QpState::stop_building`].
    pub(crate) fn start_building(&self) {
        while self.building.swap(true, Ordering::Acquire) {
            std::thread::yield_now();
        }
    }

    /// Lets other threads build requests.
    pub(crate) fn stop_building(&self) {
        self.building.store(false, Ordering::Release);
    }

    /// Runs `work` on the requests that are being built.
    ///
    /// # Safety
    /// The calling thread is between [`QpState::start_building`] and [`QpState::stop_building`], so that no other
    /// thread uses the requests.
    pub(crate) unsafe fn requests<R>(&self, work: impl FnOnce(&mut Requests) -> R) -> R {
        // SAFETY: the caller promises the conditions of this function.
        work(unsafe { &mut *self.requests.get() })
    }
}
