//! The work requests of extended queue pairs: a program builds requests by calls of `ibv_wr_*` functions, and posts
//! them together.

use crate::abi::*;
use crate::ah;
use crate::context;
use crate::entry::{entry, set_errno};
use crate::post::{self, Inline, Refused, Sges};
use crate::qp;
use crate::trace;
use crate::window;
use libc::{c_int, c_void, size_t};
use rnic_verbs::{Bind, Data, Device, Qpn, Recipient, SendFlags, SendOp, SendRequest, Sge, VerbsError};
use std::sync::atomic::Ordering;

/// The requests between `ibv_wr_start` and `ibv_wr_complete`.
#[derive(Default)]
pub(crate) struct Requests {
    list: Vec<Request>,
    /// The first error, which `ibv_wr_complete` returns.
    error: Option<Refused>,
}

struct Request {
    wr_id: u64,
    op: SendOp,
    flags: SendFlags,
    sges: Vec<Sge>,
    inline: Option<Vec<u8>>,
    to: Option<Recipient>,
    bind: Option<Bind>,
}

/// The extended structure of a queue pair.
pub(crate) fn extended(qp_base: ibv_qp) -> ibv_qp_ex {
    ibv_qp_ex {
        qp_base,
        comp_mask: 0,
        wr_id: 0,
        wr_flags: 0,
        wr_atomic_cmp_swp: Some(atomic_cmp_swp),
        wr_atomic_fetch_add: Some(atomic_fetch_add),
        wr_bind_mw: Some(bind_mw),
        wr_local_inv: Some(local_inv),
        wr_rdma_read: Some(rdma_read),
        wr_rdma_write: Some(rdma_write),
        wr_rdma_write_imm: Some(rdma_write_imm),
        wr_send: Some(send),
        wr_send_imm: Some(send_imm),
        wr_send_inv: Some(send_inv),
        wr_send_tso: 0,
        wr_set_ud_addr: Some(set_ud_addr),
        wr_set_xrc_srqn: 0,
        wr_set_inline_data: Some(set_inline_data),
        wr_set_inline_data_list: Some(set_inline_data_list),
        wr_set_sge: Some(set_sge),
        wr_set_sge_list: Some(set_sge_list),
        wr_start: Some(start),
        wr_complete: Some(complete),
        wr_abort: Some(abort),
        wr_atomic_write: 0,
    }
}

type Qx = *mut ibv_qp_ex;

/// Runs `work` on the requests that are being built.
///
/// # Safety
/// By the contract of libibverbs the caller is between `ibv_wr_start` and `ibv_wr_complete`, so no other thread uses
/// the requests.
unsafe fn building(qp: Qx, work: impl FnOnce(&mut Requests)) {
    // SAFETY: the caller's promise.
    entry((), || work(unsafe { &mut *qp::state(qp.cast()).requests.get() }));
}

/// Runs `work` on the last request.
///
/// # Safety
/// As [`building`].
unsafe fn last(qp: Qx, work: impl FnOnce(&mut Request) -> Result<(), Refused>) {
    // SAFETY: the caller's promise.
    unsafe {
        building(qp, |requests| {
            let done = match requests.list.last_mut() {
                Some(request) => work(request),
                None => Err(Refused::Number(libc::EINVAL, "data or an address come after an operation")),
            };
            if let Err(why) = done {
                requests.error.get_or_insert(why);
            }
        });
    }
}

/// Begins a request.
///
/// # Safety
/// As [`building`].
unsafe fn begin(qp: Qx, op: SendOp) {
    // SAFETY: the caller's promise; the fields are those that the program has set for this request.
    unsafe {
        let (wr_id, flags) = ((*qp).wr_id, post::flags((*qp).wr_flags));
        building(qp, |requests| {
            requests.list.push(Request { wr_id, op, flags, sges: Vec::new(), inline: None, to: None, bind: None });
        });
    }
}

unsafe extern "C" fn start(qp: Qx) {
    // SAFETY: by the contract of libibverbs.
    entry((), || unsafe { qp::state(qp.cast()) }.begin());
}

unsafe extern "C" fn abort(qp: Qx) {
    // SAFETY: by the contract of libibverbs.
    unsafe {
        building(qp, |requests| *requests = Requests::default());
        qp::state(qp.cast()).building.store(false, Ordering::Release);
    }
}

unsafe extern "C" fn complete(qp: Qx) -> c_int {
    entry(libc::EIO, || {
        // SAFETY: by the contract of libibverbs.
        let (context, state) = unsafe { (context::state((*qp).qp_base.context), qp::state(qp.cast())) };
        // SAFETY: as for `building`.
        let requests = std::mem::take(unsafe { &mut *state.requests.get() });
        state.building.store(false, Ordering::Release);
        let posted = match requests.error {
            Some(why) => Err(why),
            None => context.device.with_verbs(|verbs| post_all(verbs, state.qpn, &requests.list)),
        };
        match posted {
            Ok(()) => {
                if trace::is_on() {
                    let count = requests.list.len();
                    trace::line(format_args!("ibv_wr_complete to QP {:#x}, {count} requests", state.qpn.0));
                }
                0
            }
            Err(why) => {
                trace::line(format_args!("ibv_wr_complete refused: {why}"));
                set_errno(why.number());
                why.number()
            }
        }
    })
}

/// Posts requests. If there is no room for all of them, none is posted.
fn post_all(verbs: &mut Device, qpn: Qpn, requests: &[Request]) -> Result<(), Refused> {
    let info = verbs.query_qp(qpn)?;
    if info.sends as usize + requests.len() > info.capacities.send_wr as usize {
        return Err(VerbsError::Full("send queue").into());
    }
    for request in requests {
        let data = match (&request.inline, &request.bind) {
            (_, Some(bind)) => Data::Bind(bind),
            (Some(bytes), None) => Data::Inline(bytes),
            (None, None) => Data::Gather(&request.sges),
        };
        let send = SendRequest { wr_id: request.wr_id, op: request.op, data, flags: request.flags };
        match &request.to {
            Some(to) => verbs.post_datagram(qpn, &send, to)?,
            None => verbs.post_send(qpn, &send)?,
        }
    }
    Ok(())
}

unsafe extern "C" fn atomic_cmp_swp(qp: Qx, rkey: u32, addr: u64, compare: u64, swap: u64) {
    // SAFETY: by the contract of libibverbs, as for all functions below.
    unsafe { begin(qp, SendOp::CompareSwap { addr, rkey, compare, swap }) };
}

unsafe extern "C" fn atomic_fetch_add(qp: Qx, rkey: u32, addr: u64, add: u64) {
    // SAFETY: as above.
    unsafe { begin(qp, SendOp::FetchAdd { addr, rkey, add }) };
}

unsafe extern "C" fn rdma_read(qp: Qx, rkey: u32, addr: u64) {
    // SAFETY: as above.
    unsafe { begin(qp, SendOp::Read { addr, rkey }) };
}

unsafe extern "C" fn rdma_write(qp: Qx, rkey: u32, addr: u64) {
    // SAFETY: as above.
    unsafe { begin(qp, SendOp::Write { addr, rkey }) };
}

unsafe extern "C" fn rdma_write_imm(qp: Qx, rkey: u32, addr: u64, imm: u32) {
    // SAFETY: as above.
    unsafe { begin(qp, SendOp::WriteImm { addr, rkey, imm: u32::from_be(imm) }) };
}

unsafe extern "C" fn send(qp: Qx) {
    // SAFETY: as above.
    unsafe { begin(qp, SendOp::Send) };
}

unsafe extern "C" fn send_imm(qp: Qx, imm: u32) {
    // SAFETY: as above.
    unsafe { begin(qp, SendOp::SendImm(u32::from_be(imm))) };
}

unsafe extern "C" fn send_inv(qp: Qx, rkey: u32) {
    // SAFETY: as above.
    unsafe { begin(qp, SendOp::SendInv(rkey)) };
}

unsafe extern "C" fn bind_mw(qp: Qx, mw: *mut ibv_mw, rkey: u32, info: *const ibv_mw_bind_info) {
    // SAFETY: as above; the window exists, and so does the region.
    unsafe {
        begin(qp, SendOp::Bind);
        last(qp, |request| {
            request.bind = Some(window::second_kind(mw, rkey, &*info)?);
            Ok(())
        });
    }
}

unsafe extern "C" fn local_inv(qp: Qx, rkey: u32) {
    // SAFETY: as above.
    unsafe { begin(qp, SendOp::LocalInv(rkey)) };
}

unsafe extern "C" fn set_ud_addr(qp: Qx, handle: *mut ibv_ah, qpn: u32, qkey: u32) {
    // SAFETY: as above; the address handle exists.
    unsafe {
        let path = ah::path(handle);
        last(qp, |request| {
            request.to = Some(Recipient { path, qpn: Qpn(qpn), qkey });
            Ok(())
        });
    }
}

unsafe extern "C" fn set_sge(qp: Qx, lkey: u32, addr: u64, len: u32) {
    // SAFETY: as above.
    unsafe {
        last(qp, |request| {
            request.sges = vec![Sge { addr, len, lkey }];
            Ok(())
        });
    }
}

unsafe extern "C" fn set_sge_list(qp: Qx, count: size_t, list: *const ibv_sge) {
    // SAFETY: as above; there are `count` elements.
    unsafe {
        last(qp, |request| {
            request.sges = Sges::read(list, count)?.list().to_vec();
            Ok(())
        });
    }
}

/// Adds inline data to the last request.
///
/// # Safety
/// By the contract of libibverbs the buffers are readable.
unsafe fn set_inline(qp: Qx, buffers: impl Iterator<Item = (*const u8, usize)>) {
    // SAFETY: the caller's promise.
    unsafe {
        last(qp, |request| {
            let mut inline = Inline::EMPTY;
            request.inline = Some(inline.gather(buffers)?.to_vec());
            Ok(())
        });
    }
}

unsafe extern "C" fn set_inline_data(qp: Qx, addr: *mut c_void, len: size_t) {
    // SAFETY: as above.
    unsafe { set_inline(qp, std::iter::once((addr.cast_const().cast(), len))) };
}

unsafe extern "C" fn set_inline_data_list(qp: Qx, count: size_t, list: *const ibv_data_buf) {
    // SAFETY: as above; there are `count` buffers.
    unsafe {
        let buffers = (0..count).map(|at| list.add(at).read());
        set_inline(qp, buffers.map(|buffer| (buffer.addr.cast_const().cast(), buffer.length)));
    }
}
