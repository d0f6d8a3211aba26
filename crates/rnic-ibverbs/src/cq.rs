//! Completion queues.

use crate::abi::*;
use crate::channel::{Address, Bell, Channel};
use crate::context;
use crate::entry::{Unacknowledged, entry, number, object, refused, status};
use crate::{names, trace};
use libc::{c_int, c_void};
use rnic_verbs::{Completion, CqId, Notify, Opcode, Status, VerbsError};
use std::cell::UnsafeCell;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::task::Waker;

/// A completion queue: what C sees, and the state of this crate. Every queue has the extended structure.
#[repr(C)]
pub(crate) struct Cq {
    pub(crate) c: ibv_cq_ex,
    pub(crate) state: CqState,
}

pub(crate) struct CqState {
    pub(crate) id: CqId,
    /// What is woken for a completion, if the queue has a channel.
    pub(crate) bell: Option<(Arc<Bell>, Waker)>,
    pub(crate) unacknowledged: Unacknowledged,
    /// Asynchronous events that are not acknowledged.
    pub(crate) events: Unacknowledged,
    /// Whether the queue is being destroyed. Until all its events are acknowledged, a thread that has got one may still
    /// use the queue, which is empty.
    pub(crate) ending: AtomicBool,
    /// Whether a thread is between `ibv_start_poll` and `ibv_end_poll`; that thread alone uses `current`.
    pub(crate) polling: AtomicBool,
    pub(crate) current: UnsafeCell<Completion>,
}

/// The state behind a pointer of C.
///
/// # Safety
/// The pointer is that of a completion queue of this library which is not destroyed.
pub(crate) unsafe fn state<'a>(cq: *mut ibv_cq) -> &'a CqState {
    // SAFETY: the reference does not cover the part that C may write.
    unsafe { &(*cq.cast::<Cq>()).state }
}

/// What the field `sl` has in the completion of a datagram. RoCE has no service level, and NVIDIA's NICs put the type
/// of the packet there: UDP (8) with IPv6 (1) or IPv4 (2). UCX relies on it.
fn packet_type(completion: &Completion, context: &context::ContextState) -> u8 {
    match completion.source {
        Some(_) => 8 | if context.address.ip.is_ipv4() { 2 } else { 1 },
        None => 0,
    }
}

/// The completion of a queue of `context` as C sees it.
pub(crate) fn wc(completion: &Completion, context: &context::ContextState) -> ibv_wc {
    let (imm_data, with) = match (completion.imm, completion.invalidated) {
        (Some(imm), _) => (imm.to_be(), IBV_WC_WITH_IMM),
        (None, Some(rkey)) => (rkey, IBV_WC_WITH_INV),
        (None, None) => (0, 0),
    };
    let grh = if completion.source.is_some() { IBV_WC_GRH } else { 0 };
    ibv_wc {
        wr_id: completion.wr_id,
        status: wc_status(completion.status),
        opcode: wc_opcode(completion.opcode),
        vendor_err: 0,
        byte_len: completion.byte_len,
        imm_data,
        qp_num: completion.qpn.0,
        src_qp: completion.source.map_or(0, |source| source.qpn().0),
        wc_flags: with | grh,
        sl: packet_type(completion, context),
        ..ibv_wc::default()
    }
}

fn wc_status(status: Status) -> c_int {
    match status {
        Status::Success => IBV_WC_SUCCESS,
        Status::LocalLength => IBV_WC_LOC_LEN_ERR,
        Status::LocalQpOperation => IBV_WC_LOC_QP_OP_ERR,
        Status::LocalProtection => IBV_WC_LOC_PROT_ERR,
        Status::WorkRequestFlushed => IBV_WC_WR_FLUSH_ERR,
        Status::BadResponse => IBV_WC_BAD_RESP_ERR,
        Status::RemoteInvalidRequest => IBV_WC_REM_INV_REQ_ERR,
        Status::RemoteAccess => IBV_WC_REM_ACCESS_ERR,
        Status::RemoteOperation => IBV_WC_REM_OP_ERR,
        Status::TransportRetryExceeded => IBV_WC_RETRY_EXC_ERR,
        Status::RnrRetryExceeded => IBV_WC_RNR_RETRY_EXC_ERR,
        Status::WindowBind => IBV_WC_MW_BIND_ERR,
    }
}

fn wc_opcode(opcode: Opcode) -> c_int {
    match opcode {
        Opcode::Send => IBV_WC_SEND,
        Opcode::Write => IBV_WC_RDMA_WRITE,
        Opcode::Read => IBV_WC_RDMA_READ,
        Opcode::FetchAdd => IBV_WC_FETCH_ADD,
        Opcode::CompareSwap => IBV_WC_COMP_SWAP,
        Opcode::Recv => IBV_WC_RECV,
        Opcode::RecvWithImmediate => IBV_WC_RECV_RDMA_WITH_IMM,
        Opcode::Bind => IBV_WC_BIND_MW,
        Opcode::LocalInvalidate => IBV_WC_LOCAL_INV,
    }
}

/// Creates a queue for at least `cqe` completions.
///
/// # Safety
/// The pointers are valid, or null in the case of `channel`.
pub(crate) unsafe fn create(
    verb: &str, context: *mut ibv_context, cqe: u32, cq_context: *mut c_void, channel: *mut ibv_comp_channel,
    comp_vector: u32,
) -> Result<*mut Cq, c_int> {
    // SAFETY: by the contract of libibverbs.
    let context_state = unsafe { context::state(context) };
    if comp_vector != 0 || cqe == 0 {
        trace::line(format_args!("{verb} refused: the completion vector must be 0, and the number of entries not 0"));
        return Err(libc::EINVAL);
    }
    let id = context_state.device.with_verbs_quietly(|verbs| verbs.create_cq(cqe)).map_err(refused(verb))?;
    let base = ibv_cq {
        context,
        channel,
        cq_context,
        handle: context_state.handle(),
        cqe: cqe as c_int,
        mutex: libc::PTHREAD_MUTEX_INITIALIZER,
        cond: libc::PTHREAD_COND_INITIALIZER,
        comp_events_completed: 0,
        async_events_completed: 0,
    };
    let cq = Box::into_raw(Box::new(Cq {
        c: crate::cq_ex::extended(base),
        state: CqState {
            id,
            bell: None,
            unacknowledged: Unacknowledged::default(),
            events: Unacknowledged::default(),
            ending: AtomicBool::new(false),
            polling: AtomicBool::new(false),
            current: UnsafeCell::new(Completion::BLANK),
        },
    }));
    let address = Address(cq.expose_provenance());
    if !channel.is_null() {
        // SAFETY: by the contract of libibverbs the channel exists; nobody else knows the queue yet.
        unsafe {
            let (events, queues) = Channel::state(channel);
            queues.fetch_add(1, Ordering::AcqRel);
            let bell = Arc::new(Bell { channel: events.clone(), queue: address, gate: false.into() });
            let waker = Waker::from(bell.clone());
            (*cq).state.bell = Some((bell, waker));
        }
    }
    context_state.events.add_cq(id, address);
    trace::line(format_args!("{verb} of {cqe} entries = CQ {address:x?}", address = address.0));
    Ok(cq)
}

/// # Safety
/// By the contract of libibverbs.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn ibv_create_cq(
    context: *mut ibv_context, cqe: c_int, cq_context: *mut c_void, channel: *mut ibv_comp_channel, comp_vector: c_int,
) -> *mut ibv_cq {
    object(|| {
        let cqe = u32::try_from(cqe).map_err(|_| libc::EINVAL)?;
        let vector = u32::try_from(comp_vector).map_err(|_| libc::EINVAL)?;
        // SAFETY: by the contract of libibverbs.
        unsafe { create("ibv_create_cq", context, cqe, cq_context, channel, vector).map(<*mut Cq>::cast) }
    })
}

/// # Safety
/// By the contract of libibverbs.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn ibv_destroy_cq(cq: *mut ibv_cq) -> c_int {
    status(|| {
        // SAFETY: by the contract of libibverbs.
        let (context, channel, state) = unsafe { (context::state((*cq).context), (*cq).channel, state(cq)) };
        if context.is_of_parent("ibv_destroy_cq") {
            return Ok(());
        }
        state.ending.store(true, Ordering::Release);
        let destroyed = context.device.with_verbs_quietly(|verbs| verbs.destroy_cq(state.id));
        destroyed.inspect_err(|_| state.ending.store(false, Ordering::Release)).map_err(refused("ibv_destroy_cq"))?;
        if let Some((bell, _)) = &state.bell {
            bell.close();
            // SAFETY: a channel with queues is not destroyed.
            unsafe { Channel::state(channel) }.1.fetch_sub(1, Ordering::AcqRel);
        }
        context.events.remove_cq(state.id);
        state.unacknowledged.wait();
        state.events.wait();
        // Only now, since a thread with an event may have called `ibv_req_notify_cq` until here.
        context.device.unwatch(state.id);
        trace::line(format_args!("ibv_destroy_cq {:x}", cq.addr()));
        // SAFETY: the queue was made by `Box::into_raw`, and the program does not use it any more.
        drop(unsafe { Box::from_raw(cq.cast::<Cq>()) });
        Ok(())
    })
}

/// # Safety
/// By the contract of libibverbs.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn ibv_resize_cq(cq: *mut ibv_cq, cqe: c_int) -> c_int {
    status(|| {
        let entries = u32::try_from(cqe).map_err(|_| libc::EINVAL)?;
        // SAFETY: by the contract of libibverbs.
        let (context, state) = unsafe { (context::state((*cq).context), state(cq)) };
        // Completions that are due count.
        context.device.settle();
        let resized = context.device.with_verbs_quietly(|verbs| verbs.resize_cq(state.id, entries));
        resized.map_err(refused("ibv_resize_cq"))?;
        trace::line(format_args!("ibv_resize_cq {:x} to {entries} entries", cq.addr()));
        // SAFETY: as above.
        unsafe { (*cq).cqe = cqe };
        Ok(())
    })
}

/// # Safety
/// By the contract of libibverbs.
pub(crate) unsafe extern "C" fn poll_cq(cq: *mut ibv_cq, entries: c_int, out: *mut ibv_wc) -> c_int {
    entry(-1, || {
        // SAFETY: by the contract of libibverbs there is room for `entries` completions.
        unsafe {
            let wanted = usize::try_from(entries).unwrap_or(0);
            // Most programs that wait for a message ask for one completion.
            if wanted == 1 { poll_in_batches::<1>(cq, 1, out) } else { poll_in_batches::<16>(cq, wanted, out) }
        }
    })
}

/// Takes completions, up to `BATCH` of them under one lock.
///
/// # Safety
/// The queue exists, and `out` has room for `wanted` completions.
unsafe fn poll_in_batches<const BATCH: usize>(cq: *mut ibv_cq, wanted: usize, out: *mut ibv_wc) -> c_int {
    // SAFETY: the caller's promise.
    let (context, state) = unsafe { (context::state((*cq).context), state(cq)) };
    let mut completions = [Completion::BLANK; BATCH];
    let mut done = 0;
    while done < wanted {
        let room = BATCH.min(wanted - done);
        let count = match context.poll(state.id, &mut completions[..room]) {
            Ok(count) => count,
            Err(_) if state.ending.load(Ordering::Acquire) => break,
            // Completions were lost. Those that are left come first.
            Err(_) if done > 0 => break,
            Err(error) => {
                trace::line(format_args!("ibv_poll_cq refused: {error}"));
                crate::entry::set_errno(number(&error));
                return -1;
            }
        };
        for completion in &completions[..count] {
            trace_completion("ibv_poll_cq", completion);
            // SAFETY: the caller's promise.
            unsafe { out.add(done).write(wc(completion, context)) };
            done += 1;
        }
        if count < room {
            break;
        }
    }
    done as c_int
}

/// # Safety
/// By the contract of libibverbs.
pub(crate) unsafe extern "C" fn req_notify_cq(cq: *mut ibv_cq, solicited_only: c_int) -> c_int {
    status(|| {
        // SAFETY: by the contract of libibverbs.
        let (context, state) = unsafe { (context::state((*cq).context), state(cq)) };
        if trace::is_on() {
            trace::line(format_args!("ibv_req_notify_cq {:x}, solicited only: {}", cq.addr(), solicited_only != 0));
        }
        let notify = if solicited_only != 0 { Notify::Solicited } else { Notify::Any };
        let armed = match &state.bell {
            Some((_, waker)) => {
                context.will_sleep();
                let watched = context.device.watch(Some(state.id), notify, waker);
                watched.map(|_| ()).map_err(|_| libc::EIO)
            }
            None => context
                .device
                .with_verbs_quietly(|verbs| verbs.arm_cq(state.id, notify))
                .map_err(refused("req_notify_cq")),
        };
        if state.ending.load(Ordering::Acquire) { Ok(()) } else { armed }
    })
}

/// Writes a line about a completion with an error that the program gets, if the program is traced. Lines for all
/// completions would slow the program down.
fn trace_completion(verb: &str, completion: &Completion) {
    if completion.status != Status::Success && trace::is_on() {
        let Completion { qpn, wr_id, status, .. } = completion;
        let status = names::status(wc_status(*status));
        trace::line(format_args!("{verb} = QP {:#x}, wr_id {wr_id:#x}, {status}", qpn.0));
    }
}

/// Takes one completion.
pub(crate) fn poll_one(context: &context::ContextState, state: &CqState) -> Result<Option<Completion>, VerbsError> {
    let mut out = [Completion::BLANK];
    match context.poll(state.id, &mut out) {
        Ok(count) => {
            if count > 0 {
                trace_completion("ibv_start_poll or ibv_next_poll", &out[0]);
            }
            Ok((count > 0).then(|| out[0]))
        }
        Err(_) if state.ending.load(Ordering::Acquire) => Ok(None),
        Err(error) => Err(error),
    }
}
