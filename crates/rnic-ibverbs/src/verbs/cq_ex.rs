//! Extended completion queues: completions are read field by field, with timestamps.

use crate::abi::*;
use crate::error::number;
use crate::objects::InContext;
use crate::objects::context::Context;
use crate::objects::cq::{self, Cq, ExtendedCq};
use crate::trace;
use libc::{c_int, c_uint};
use rnic_cabi::entry::{entry, object};
use rnic_cabi::pointer::{Handle, In};
use rnic_cabi::{exported, get, set};
use rnic_verbs::Completion;
use std::sync::atomic::Ordering;

/// The flags of completions that a queue can have.
const WC_FLAGS: u64 =
    IBV_WC_STANDARD_FLAGS | IBV_WC_EX_WITH_COMPLETION_TIMESTAMP | IBV_WC_EX_WITH_COMPLETION_TIMESTAMP_WALLCLOCK;

/// The attributes that a program may give.
const KNOWN: u32 = IBV_CQ_INIT_ATTR_MASK_FLAGS | IBV_CQ_INIT_ATTR_MASK_PD;

/// The structure of a queue that C sees, with its table of functions.
pub(crate) fn structure(base: ibv_cq) -> ibv_cq_ex {
    ibv_cq_ex {
        base,
        comp_mask: 0,
        status: 0,
        wr_id: 0,
        start_poll: exported!(start_poll, _, _),
        next_poll: exported!(next_poll, _),
        end_poll: exported!(end_poll, _),
        read_opcode: exported!(read_opcode, _),
        read_vendor_err: exported!(read_zero, _),
        read_byte_len: exported!(read_byte_len, _),
        read_imm_data: exported!(read_imm_data, _),
        read_qp_num: exported!(read_qp_num, _),
        read_src_qp: exported!(read_src_qp, _),
        read_wc_flags: exported!(read_wc_flags, _),
        read_slid: exported!(read_zero, _),
        read_sl: exported!(read_sl, _),
        read_dlid_path_bits: exported!(read_zero_byte, _),
        read_completion_ts: exported!(read_completion_ts, _),
        read_cvlan: 0,
        read_flow_tag: 0,
        read_tm_info: 0,
        read_completion_wallclock_ns: exported!(read_wallclock, _),
    }
}

pub(crate) extern "C" fn create_cq_ex(context: Handle<Context>, attr: In<ibv_cq_init_attr_ex>) -> *mut ibv_cq_ex {
    object(|| {
        let (wc_flags, comp_mask) = (get!(attr.wc_flags), get!(attr.comp_mask));
        if wc_flags & !WC_FLAGS != 0 || comp_mask & !KNOWN != 0 {
            trace::line(format_args!("ibv_create_cq_ex refused: it has no wc_flags {:#x}", wc_flags & !WC_FLAGS));
            return Err(libc::EOPNOTSUPP);
        }
        // A queue that overflows loses completions, and reports the error.
        let flags = if comp_mask & IBV_CQ_INIT_ATTR_MASK_FLAGS != 0 { get!(attr.flags) } else { 0 };
        if flags & !IBV_CREATE_CQ_ATTR_SINGLE_THREADED != 0 {
            trace::line(format_args!("ibv_create_cq_ex refused: it has no flags {flags:#x}, but SINGLE_THREADED (1)"));
            return Err(libc::EOPNOTSUPP);
        }
        // SAFETY: the channel is null, or exists until the queue is destroyed.
        let channel = unsafe { Handle::new_unless_null(get!(attr.channel)) };
        let (cqe, vector) = (get!(attr.cqe), get!(attr.comp_vector));
        let created = Cq::create("ibv_create_cq_ex", context, cqe, get!(attr.cq_context), channel, vector, structure);
        Ok(cq::extended(created?).as_ptr())
    })
}

/// The completion that is being read. The program is between `ibv_start_poll` and `ibv_end_poll`.
fn current(cq: &Handle<ExtendedCq>) -> &Completion {
    // SAFETY: only the thread that polls uses the completion, as libibverbs demands.
    unsafe { &*cq.state().current.get() }
}

/// [`current`] as C sees it.
fn current_wc(cq: Handle<ExtendedCq>) -> ibv_wc {
    cq::wc(current(&cq), cq.context())
}

/// Takes the next completion. Returns `ENOENT` if the queue is empty.
fn advance(cq: Handle<ExtendedCq>) -> c_int {
    match cq::poll_one(cq.context(), cq.state()) {
        Ok(Some(completion)) => {
            let wc = cq::wc(&completion, cq.context());
            set!(cq.status = wc.status);
            set!(cq.wr_id = wc.wr_id);
            // SAFETY: only the thread that polls uses the completion.
            unsafe { *cq.state().current.get() = completion };
            0
        }
        Ok(None) => libc::ENOENT,
        Err(error) => number(&error),
    }
}

extern "C" fn start_poll(cq: Handle<ExtendedCq>, attributes: In<u32>) -> c_int {
    entry(libc::EIO, || {
        if attributes.unless_null().is_some_and(|attributes| attributes.read() != 0) {
            return libc::EINVAL;
        }
        while cq.state().polling.swap(true, Ordering::Acquire) {
            std::thread::yield_now();
        }
        let result = advance(cq);
        if result != 0 {
            cq.state().polling.store(false, Ordering::Release);
        }
        result
    })
}

extern "C" fn next_poll(cq: Handle<ExtendedCq>) -> c_int {
    entry(libc::EIO, || advance(cq))
}

extern "C" fn end_poll(cq: Handle<ExtendedCq>) {
    cq.state().polling.store(false, Ordering::Release);
}

extern "C" fn read_opcode(cq: Handle<ExtendedCq>) -> c_int {
    current_wc(cq).opcode
}

extern "C" fn read_byte_len(cq: Handle<ExtendedCq>) -> u32 {
    current(&cq).byte_len
}

extern "C" fn read_imm_data(cq: Handle<ExtendedCq>) -> u32 {
    current_wc(cq).imm_data
}

extern "C" fn read_qp_num(cq: Handle<ExtendedCq>) -> u32 {
    current(&cq).qpn.0
}

extern "C" fn read_src_qp(cq: Handle<ExtendedCq>) -> u32 {
    current_wc(cq).src_qp
}

extern "C" fn read_wc_flags(cq: Handle<ExtendedCq>) -> c_uint {
    current_wc(cq).wc_flags
}

extern "C" fn read_completion_ts(cq: Handle<ExtendedCq>) -> u64 {
    current(&cq).time.as_ps() / 1_000
}

extern "C" fn read_wallclock(cq: Handle<ExtendedCq>) -> u64 {
    cq.context().time_of_day_ns(current(&cq).time)
}

extern "C" fn read_sl(cq: Handle<ExtendedCq>) -> u8 {
    current_wc(cq).sl
}

extern "C" fn read_zero(_: Handle<ExtendedCq>) -> u32 {
    0
}

extern "C" fn read_zero_byte(_: Handle<ExtendedCq>) -> u8 {
    0
}
