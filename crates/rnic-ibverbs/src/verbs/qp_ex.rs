//! The work requests of extended queue pairs: a program builds requests by calls of `ibv_wr_*` functions, and posts
//! them together.

use crate::abi::*;
use crate::error::Refused;
use crate::objects::InContext;
use crate::objects::ah::AddressHandle;
use crate::objects::qp::ExtendedQp;
use crate::objects::window;
use crate::objects::work::{self, Inline, Request, Requests, Sges};
use crate::trace;
use libc::{c_int, c_void, size_t};
use rnic_cabi::entry::{entry, set_errno};
use rnic_cabi::pointer::Handle;
use rnic_cabi::{exported, get};
use rnic_verbs::{Recipient, SendOp, Sge};

/// The structure of a queue pair that C sees, with its table of functions.
pub(crate) fn structure(qp_base: ibv_qp) -> ibv_qp_ex {
    ibv_qp_ex {
        qp_base,
        comp_mask: 0,
        wr_id: 0,
        wr_flags: 0,
        wr_atomic_cmp_swp: exported!(atomic_cmp_swp, _, _, _, _, _),
        wr_atomic_fetch_add: exported!(atomic_fetch_add, _, _, _, _),
        wr_bind_mw: exported!(unsafe bind_mw, _, _, _, _),
        wr_local_inv: exported!(local_inv, _, _),
        wr_rdma_read: exported!(rdma_read, _, _, _),
        wr_rdma_write: exported!(rdma_write, _, _, _),
        wr_rdma_write_imm: exported!(rdma_write_imm, _, _, _, _),
        wr_send: exported!(send, _),
        wr_send_imm: exported!(send_imm, _, _),
        wr_send_inv: exported!(send_inv, _, _),
        wr_send_tso: 0,
        wr_set_ud_addr: exported!(set_ud_addr, _, _, _, _),
        wr_set_xrc_srqn: 0,
        wr_set_inline_data: exported!(unsafe set_inline_data, _, _, _),
        wr_set_inline_data_list: exported!(unsafe set_inline_data_list, _, _, _),
        wr_set_sge: exported!(set_sge, _, _, _, _),
        wr_set_sge_list: exported!(unsafe set_sge_list, _, _, _),
        wr_start: exported!(start, _),
        wr_complete: exported!(complete, _),
        wr_abort: exported!(abort, _),
        wr_atomic_write: 0,
    }
}

/// Runs `work` on the requests that the program is building. The program is between `ibv_wr_start` and
/// `ibv_wr_complete`.
fn building(qp: Handle<ExtendedQp>, work: impl FnOnce(&mut Requests)) {
    // SAFETY: the calling thread is the one that has called `ibv_wr_start`, as libibverbs demands.
    entry((), || unsafe { qp.state().requests(work) });
}

/// Changes the request that was begun last.
fn last(qp: Handle<ExtendedQp>, change: impl FnOnce(&mut Request) -> Result<(), Refused>) {
    building(qp, |requests| requests.change_last(change));
}

/// Begins a request with the identifier and the flags that the program has written into the structure.
fn begin(qp: Handle<ExtendedQp>, op: SendOp) {
    let (wr_id, flags) = (get!(qp.wr_id), work::flags(get!(qp.wr_flags)));
    building(qp, |requests| requests.begin(wr_id, flags, op));
}

extern "C" fn start(qp: Handle<ExtendedQp>) {
    entry((), || qp.state().start_building());
}

extern "C" fn abort(qp: Handle<ExtendedQp>) {
    building(qp, |requests| *requests = Requests::default());
    qp.state().stop_building();
}

extern "C" fn complete(qp: Handle<ExtendedQp>) -> c_int {
    entry(libc::EIO, || {
        let state = qp.state();
        // SAFETY: as in `building`.
        let requests = unsafe { state.requests(std::mem::take) };
        state.stop_building();
        match qp.context().device.with_verbs(|verbs| requests.post(verbs, state.qpn)) {
            Ok(count) => {
                if trace::is_on() {
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

extern "C" fn atomic_cmp_swp(qp: Handle<ExtendedQp>, rkey: u32, addr: u64, compare: u64, swap: u64) {
    begin(qp, SendOp::CompareSwap { addr, rkey, compare, swap });
}

extern "C" fn atomic_fetch_add(qp: Handle<ExtendedQp>, rkey: u32, addr: u64, add: u64) {
    begin(qp, SendOp::FetchAdd { addr, rkey, add });
}

extern "C" fn rdma_read(qp: Handle<ExtendedQp>, rkey: u32, addr: u64) {
    begin(qp, SendOp::Read { addr, rkey });
}

extern "C" fn rdma_write(qp: Handle<ExtendedQp>, rkey: u32, addr: u64) {
    begin(qp, SendOp::Write { addr, rkey });
}

extern "C" fn rdma_write_imm(qp: Handle<ExtendedQp>, rkey: u32, addr: u64, imm: u32) {
    begin(qp, SendOp::WriteImm { addr, rkey, imm: u32::from_be(imm) });
}

extern "C" fn send(qp: Handle<ExtendedQp>) {
    begin(qp, SendOp::Send);
}

extern "C" fn send_imm(qp: Handle<ExtendedQp>, imm: u32) {
    begin(qp, SendOp::SendImm(u32::from_be(imm)));
}

extern "C" fn send_inv(qp: Handle<ExtendedQp>, rkey: u32) {
    begin(qp, SendOp::SendInv(rkey));
}

/// # Safety
/// The structure at `info` can be read. The window `mw` and the region in `info` are null, or exist.
unsafe extern "C" fn bind_mw(qp: Handle<ExtendedQp>, mw: *mut ibv_mw, rkey: u32, info: *const ibv_mw_bind_info) {
    begin(qp, SendOp::Bind);
    last(qp, |request| {
        // SAFETY: the caller promises the conditions of this function.
        request.bind = Some(unsafe { window::bind_type_2(mw, rkey, &*info) }?);
        Ok(())
    });
}

extern "C" fn local_inv(qp: Handle<ExtendedQp>, rkey: u32) {
    begin(qp, SendOp::LocalInv(rkey));
}

extern "C" fn set_ud_addr(qp: Handle<ExtendedQp>, ah: Handle<AddressHandle>, qpn: u32, qkey: u32) {
    last(qp, |request| {
        request.to = Some(Recipient { path: ah.state().path, qpn: work::low_24_bits(qpn), qkey });
        Ok(())
    });
}

extern "C" fn set_sge(qp: Handle<ExtendedQp>, lkey: u32, addr: u64, len: u32) {
    last(qp, |request| {
        request.sges = vec![Sge { addr, len, lkey }];
        Ok(())
    });
}

/// # Safety
/// `list` has `count` elements.
unsafe extern "C" fn set_sge_list(qp: Handle<ExtendedQp>, count: size_t, list: *const ibv_sge) {
    last(qp, |request| {
        // SAFETY: the caller promises the conditions of this function.
        request.sges = unsafe { Sges::read(list, count) }?.list().to_vec();
        Ok(())
    });
}

/// Sets the inline data of the last request.
///
/// # Safety
/// The bytes of each buffer can be read.
unsafe fn set_inline(qp: Handle<ExtendedQp>, buffers: impl Iterator<Item = (*const u8, usize)>) {
    last(qp, |request| {
        let mut inline = Inline::EMPTY;
        // SAFETY: the caller promises the conditions of this function.
        request.inline = Some(unsafe { inline.gather(buffers) }?.to_vec());
        Ok(())
    });
}

/// # Safety
/// The memory has `len` bytes.
unsafe extern "C" fn set_inline_data(qp: Handle<ExtendedQp>, addr: *mut c_void, len: size_t) {
    // SAFETY: the caller promises the conditions of this function.
    unsafe { set_inline(qp, std::iter::once((addr.cast_const().cast(), len))) };
}

/// # Safety
/// `list` has `count` elements, and the bytes of each buffer can be read.
unsafe extern "C" fn set_inline_data_list(qp: Handle<ExtendedQp>, count: size_t, list: *const ibv_data_buf) {
    // SAFETY: the caller promises the conditions of this function.
    unsafe {
        let buffers = (0..count).map(|at| list.add(at).read());
        set_inline(qp, buffers.map(|buffer| (buffer.addr.cast_const().cast(), buffer.length)));
    }
}
