//! Posting of work requests.

use crate::abi::*;
use crate::error::Refused;
use crate::objects::InContext;
use crate::objects::qp::Qp;
use crate::objects::srq::Srq;
use crate::objects::work;
use crate::trace;
use libc::c_int;
use rnic_cabi::entry::{entry, set_errno};
use rnic_cabi::pointer::{Handle, Out};

/// Reports the first request of a list that was refused.
fn report<T>(verb: &str, refused: Option<(*mut T, Refused)>, bad: Out<*mut T>) -> c_int {
    let Some((request, why)) = refused else { return 0 };
    trace::line(format_args!("{verb} refused: {why}"));
    bad.write(request);
    set_errno(why.number());
    why.number()
}

/// # Safety
/// The requests of the list can be read, and so can their lists and inline data. Objects in the requests exist.
pub(crate) unsafe extern "C" fn post_send(
    qp: Handle<Qp>, first: *mut ibv_send_wr, bad: Out<*mut ibv_send_wr>,
) -> c_int {
    entry(libc::EIO, || {
        let state = qp.state();
        // SAFETY: the caller promises the conditions of this function.
        let refused =
            qp.context().device.with_verbs(|verbs| unsafe { work::post_sends(verbs, state.qpn, state.kind, first) });
        if trace::is_on() {
            trace::line(format_args!("ibv_post_send to QP {:#x}", state.qpn.0));
        }
        report("ibv_post_send", refused, bad)
    })
}

/// # Safety
/// The requests of the list can be read, and so can their lists.
pub(crate) unsafe extern "C" fn post_recv(
    qp: Handle<Qp>, first: *mut ibv_recv_wr, bad: Out<*mut ibv_recv_wr>,
) -> c_int {
    entry(libc::EIO, || {
        let qpn = qp.state().qpn;
        if trace::is_on() {
            trace::line(format_args!("ibv_post_recv to QP {:#x}", qpn.0));
        }
        let refused = qp.context().device.with_verbs_quietly(|verbs| {
            // SAFETY: the caller promises the conditions of this function.
            unsafe { work::post_receives(verbs, first, |verbs, request| verbs.post_recv(qpn, request)) }
        });
        report("ibv_post_recv", refused, bad)
    })
}

/// # Safety
/// As [`post_recv`].
pub(crate) unsafe extern "C" fn post_srq_recv(
    srq: Handle<Srq>, first: *mut ibv_recv_wr, bad: Out<*mut ibv_recv_wr>,
) -> c_int {
    entry(libc::EIO, || {
        let id = srq.state().id;
        if trace::is_on() {
            trace::line(format_args!("ibv_post_srq_recv to SRQ {:x}", srq.as_ptr().addr()));
        }
        let refused = srq.context().device.with_verbs_quietly(|verbs| {
            // SAFETY: the caller promises the conditions of this function.
            unsafe { work::post_receives(verbs, first, |verbs, request| verbs.post_srq_recv(id, request)) }
        });
        report("ibv_post_srq_recv", refused, bad)
    })
}
