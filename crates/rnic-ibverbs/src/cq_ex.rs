//! Extended completion queues: completions are read field by field, with timestamps.

use crate::abi::*;
use crate::context::{self, ContextState};
use crate::cq::{self, Cq, CqState};
use crate::entry::{entry, number, object};
use crate::trace;
use libc::{c_int, c_uint};
use rnic_verbs::Completion;
use std::sync::atomic::Ordering;

/// The flags of completions that a queue can have.
const WC_FLAGS: u64 =
    IBV_WC_STANDARD_FLAGS | IBV_WC_EX_WITH_COMPLETION_TIMESTAMP | IBV_WC_EX_WITH_COMPLETION_TIMESTAMP_WALLCLOCK;

/// The attributes that a program may give.
const KNOWN: u32 = IBV_CQ_INIT_ATTR_MASK_FLAGS | IBV_CQ_INIT_ATTR_MASK_PD;

/// The extended structure of a queue.
pub(crate) fn extended(base: ibv_cq) -> ibv_cq_ex {
    ibv_cq_ex {
        base,
        comp_mask: 0,
        status: 0,
        wr_id: 0,
        start_poll: Some(start_poll),
        next_poll: Some(next_poll),
        end_poll: Some(end_poll),
        read_opcode: Some(read_opcode),
        read_vendor_err: Some(read_zero),
        read_byte_len: Some(read_byte_len),
        read_imm_data: Some(read_imm_data),
        read_qp_num: Some(read_qp_num),
        read_src_qp: Some(read_src_qp),
        read_wc_flags: Some(read_wc_flags),
        read_slid: Some(read_zero),
        read_sl: Some(read_sl),
        read_dlid_path_bits: Some(read_zero_byte),
        read_completion_ts: Some(read_completion_ts),
        read_cvlan: 0,
        read_flow_tag: 0,
        read_tm_info: 0,
        read_completion_wallclock_ns: Some(read_wallclock),
    }
}

/// # Safety
/// By the contract of libibverbs.
pub(crate) unsafe extern "C" fn create_cq_ex(
    context: *mut ibv_context, attributes: *mut ibv_cq_init_attr_ex,
) -> *mut ibv_cq_ex {
    object(|| {
        // SAFETY: by the contract of libibverbs.
        let attr = unsafe { &*attributes };
        if attr.wc_flags & !WC_FLAGS != 0 || attr.comp_mask & !KNOWN != 0 {
            trace::line(format_args!("ibv_create_cq_ex refused: it has no wc_flags {:#x}", attr.wc_flags & !WC_FLAGS));
            return Err(libc::EOPNOTSUPP);
        }
        // A queue that overflows loses completions, and says so.
        let flags = if attr.comp_mask & IBV_CQ_INIT_ATTR_MASK_FLAGS != 0 { attr.flags } else { 0 };
        if flags & !IBV_CREATE_CQ_ATTR_SINGLE_THREADED != 0 {
            trace::line(format_args!("ibv_create_cq_ex refused: it has no flags {flags:#x}, but SINGLE_THREADED (1)"));
            return Err(libc::EOPNOTSUPP);
        }
        let made = "ibv_create_cq_ex";
        // SAFETY: by the contract of libibverbs.
        unsafe {
            cq::create(made, context, attr.cqe, attr.cq_context, attr.channel, attr.comp_vector).map(<*mut Cq>::cast)
        }
    })
}

/// The context and the state of a queue.
///
/// # Safety
/// By the contract of libibverbs.
unsafe fn parts<'a>(cq: *mut ibv_cq_ex) -> (&'a ContextState, &'a CqState) {
    // SAFETY: by the contract of libibverbs; no reference covers the part that C may write.
    unsafe { (context::state((*cq).base.context), cq::state(cq.cast())) }
}

/// The completion that is being read.
///
/// # Safety
/// The caller is between `ibv_start_poll` and `ibv_end_poll`, as the contract of libibverbs says.
unsafe fn current<'a>(cq: *mut ibv_cq_ex) -> &'a Completion {
    // SAFETY: only the thread that polls uses the completion.
    unsafe { &*parts(cq).1.current.get() }
}

/// The same as C sees it.
///
/// # Safety
/// As for [`current`].
unsafe fn current_wc(cq: *mut ibv_cq_ex) -> ibv_wc {
    // SAFETY: the caller's promise.
    unsafe { cq::wc(current(cq), parts(cq).0) }
}

/// Takes the next completion; returns `ENOENT` if there is none.
unsafe fn advance(cq: *mut ibv_cq_ex) -> c_int {
    // SAFETY: by the contract of libibverbs.
    let (context, state) = unsafe { parts(cq) };
    match cq::poll_one(context, state) {
        Ok(Some(completion)) => {
            let wc = cq::wc(&completion, context);
            // SAFETY: only the thread that polls uses the completion, and these fields of the structure.
            unsafe {
                (*cq).status = wc.status;
                (*cq).wr_id = wc.wr_id;
                *state.current.get() = completion;
            }
            0
        }
        Ok(None) => libc::ENOENT,
        Err(error) => number(&error),
    }
}

unsafe extern "C" fn start_poll(cq: *mut ibv_cq_ex, attributes: *mut u32) -> c_int {
    entry(libc::EIO, || {
        // SAFETY: by the contract of libibverbs the attributes are null or valid.
        if !attributes.is_null() && unsafe { *attributes } != 0 {
            return libc::EINVAL;
        }
        // SAFETY: by the contract of libibverbs.
        let (_, state) = unsafe { parts(cq) };
        while state.polling.swap(true, Ordering::Acquire) {
            std::thread::yield_now();
        }
        // SAFETY: this thread polls now.
        let result = unsafe { advance(cq) };
        if result != 0 {
            state.polling.store(false, Ordering::Release);
        }
        result
    })
}

unsafe extern "C" fn next_poll(cq: *mut ibv_cq_ex) -> c_int {
    // SAFETY: by the contract of libibverbs this thread polls.
    entry(libc::EIO, || unsafe { advance(cq) })
}

unsafe extern "C" fn end_poll(cq: *mut ibv_cq_ex) {
    // SAFETY: by the contract of libibverbs this thread polls.
    unsafe { parts(cq) }.1.polling.store(false, Ordering::Release);
}

unsafe extern "C" fn read_opcode(cq: *mut ibv_cq_ex) -> c_int {
    // SAFETY: as for `current`; this holds for all functions below.
    unsafe { current_wc(cq) }.opcode
}

unsafe extern "C" fn read_byte_len(cq: *mut ibv_cq_ex) -> u32 {
    // SAFETY: as above.
    unsafe { current(cq) }.byte_len
}

unsafe extern "C" fn read_imm_data(cq: *mut ibv_cq_ex) -> u32 {
    // SAFETY: as above.
    unsafe { current_wc(cq) }.imm_data
}

unsafe extern "C" fn read_qp_num(cq: *mut ibv_cq_ex) -> u32 {
    // SAFETY: as above.
    unsafe { current(cq) }.qpn.0
}

unsafe extern "C" fn read_src_qp(cq: *mut ibv_cq_ex) -> u32 {
    // SAFETY: as above.
    unsafe { current_wc(cq) }.src_qp
}

unsafe extern "C" fn read_wc_flags(cq: *mut ibv_cq_ex) -> c_uint {
    // SAFETY: as above.
    unsafe { current_wc(cq) }.wc_flags
}

unsafe extern "C" fn read_completion_ts(cq: *mut ibv_cq_ex) -> u64 {
    // SAFETY: as above.
    unsafe { current(cq) }.time.as_ps() / 1_000
}

unsafe extern "C" fn read_wallclock(cq: *mut ibv_cq_ex) -> u64 {
    // SAFETY: as above.
    let (completed, (context, _)) = unsafe { (current(cq).time, parts(cq)) };
    let age = context.now().saturating_sub(completed).as_ps() / 1_000;
    context::realtime_ns().saturating_sub(age)
}

unsafe extern "C" fn read_sl(cq: *mut ibv_cq_ex) -> u8 {
    // SAFETY: as above.
    unsafe { current_wc(cq) }.sl
}

unsafe extern "C" fn read_zero(_: *mut ibv_cq_ex) -> u32 {
    0
}

unsafe extern "C" fn read_zero_byte(_: *mut ibv_cq_ex) -> u8 {
    0
}
