//! Completion queues.

use super::channel::{Channel, CompletionWaker};
use super::context::{Context, ContextState};
use super::{Address, InContext};
use crate::abi::*;
use crate::error::refused;
use crate::{names, trace};
use libc::{c_int, c_void};
use rnic_cabi::entry::Unacknowledged;
use rnic_cabi::pointer::Handle;
use rnic_verbs::{Completion, CqId, Opcode, Status, VerbsError};
use std::cell::UnsafeCell;
use std::sync::Arc;
use std::sync::OnceLock;
use std::sync::atomic::{AtomicBool, Ordering};
use std::task::Waker;

/// A completion queue. Every queue has the extended structure.
#[repr(C)]
pub(crate) struct Cq {
    c: ibv_cq_ex,
    state: CqState,
}

rnic_cabi::object!(Cq { c.base: ibv_cq, state: CqState });

/// A completion queue, as the functions of extended queues get it.
#[repr(transparent)]
pub(crate) struct ExtendedCq {
    cq: Cq,
}

rnic_cabi::object!(ExtendedCq { cq.c: ibv_cq_ex, cq.state: CqState });

/// Converts a completion queue to an extended completion queue, which has the same pointer.
pub(crate) fn extended(cq: Handle<Cq>) -> Handle<ExtendedCq> {
    // SAFETY: every queue has the extended structure, which begins with the structure of a plain queue.
    unsafe { Handle::new(cq.as_ptr().cast()) }
}

impl InContext for Handle<ExtendedCq> {
    fn context_ptr(&self) -> *mut ibv_context {
        rnic_cabi::get!(self.base.context)
    }
}

pub(crate) struct CqState {
    pub(crate) id: CqId,
    /// The waker for completions, if the queue has a channel.
    pub(crate) notification: OnceLock<Notification>,
    /// Events of the channel that the program has not acknowledged.
    pub(crate) unacknowledged: Unacknowledged,
    /// Asynchronous events that the program has not acknowledged.
    pub(crate) events: Unacknowledged,
    /// Whether the queue is being destroyed. Until all events of the queue are acknowledged, a thread that has received
    /// such an event may still use the queue, which is empty.
    pub(crate) ending: AtomicBool,
    /// Whether a thread is between `ibv_start_poll` and `ibv_end_poll`; that thread alone uses `current`.
    pub(crate) polling: AtomicBool,
    pub(crate) current: UnsafeCell<Completion>,
}

/// The parts of a queue with a channel that notify the channel of a completion.
pub(crate) struct Notification {
    /// The channel, which exists as long as it has queues.
    pub(crate) channel: Handle<Channel>,
    pub(crate) target: Arc<CompletionWaker>,
    pub(crate) waker: Waker,
}

impl Cq {
    /// Creates a queue for at least `cqe` completions. `extended` makes the structure that the C program gets.
    ///
    /// # Errors
    /// An error number of C (`EINVAL` and others). A line in the trace gives the reason.
    pub(crate) fn create(
        verb: &str, context: Handle<Context>, cqe: u32, cq_context: *mut c_void, channel: Option<Handle<Channel>>,
        comp_vector: u32, extended: fn(ibv_cq) -> ibv_cq_ex,
    ) -> Result<Handle<Cq>, c_int> {
        let state = context.state();
        if comp_vector != 0 || cqe == 0 {
            trace::line(format_args!(
                "{verb} refused: the completion vector must be 0, and the number of entries not 0"
            ));
            return Err(libc::EINVAL);
        }
        let id = state.device.with_verbs_quietly(|verbs| verbs.create_cq(cqe)).map_err(refused(verb))?;
        let base = ibv_cq {
            context: context.as_ptr(),
            channel: channel.map_or(std::ptr::null_mut(), Handle::as_ptr),
            cq_context,
            handle: state.handle(),
            cqe: cqe as c_int,
            mutex: libc::PTHREAD_MUTEX_INITIALIZER,
            cond: libc::PTHREAD_COND_INITIALIZER,
            comp_events_completed: 0,
            async_events_completed: 0,
        };
        let cq = Handle::create(Cq {
            c: extended(base),
            state: CqState {
                id,
                notification: OnceLock::new(),
                unacknowledged: Unacknowledged::default(),
                events: Unacknowledged::default(),
                ending: AtomicBool::new(false),
                polling: AtomicBool::new(false),
                current: UnsafeCell::new(Completion::BLANK),
            },
        });
        let address = Address::of(cq);
        if let Some(channel) = channel {
            channel.state().add_queue();
            let target = Arc::new(CompletionWaker::new(channel.state(), address));
            let waker = Waker::from(target.clone());
            let _ = cq.state().notification.set(Notification { channel, target, waker });
        }
        state.events.add_cq(id, address);
        trace::line(format_args!("{verb} of {cqe} entries = CQ {address:x}"));
        Ok(cq)
    }
}

/// The field `sl` of the completion of a datagram. RoCE has no service level, and NVIDIA's NICs report the type of the
/// packet there: UDP (8) with IPv6 (1) or IPv4 (2). UCX relies on it.
fn packet_type(completion: &Completion, context: &ContextState) -> u8 {
    match completion.source {
        Some(_) => 8 | if context.address.ip.is_ipv4() { 2 } else { 1 },
        None => 0,
    }
}

/// Converts a completion of a queue of `context` to the structure that the C program gets.
pub(crate) fn wc(completion: &Completion, context: &ContextState) -> ibv_wc {
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
        Status::LocalAccess => IBV_WC_LOC_ACCESS_ERR,
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

/// Writes a line about a completion with an error that the program gets, if the program is traced. Lines for all
/// completions would slow the program down.
pub(crate) fn trace_completion(verb: &str, completion: &Completion) {
    if completion.status != Status::Success && trace::is_on() {
        let Completion { qpn, wr_id, status, .. } = completion;
        let status = names::status(wc_status(*status));
        trace::line(format_args!("{verb} = QP {:#x}, wr_id {wr_id:#x}, {status}", qpn.0));
    }
}

/// Takes one completion.
pub(crate) fn poll_one(context: &ContextState, state: &CqState) -> Result<Option<Completion>, VerbsError> {
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
