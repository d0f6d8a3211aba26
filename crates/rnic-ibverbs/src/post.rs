//! Work requests, as C posts them.

use crate::abi::*;
use crate::ah;
use crate::context;
use crate::entry::{entry, number, set_errno};
use crate::qp;
use crate::srq;
use crate::trace;
use crate::window;
use libc::c_int;
use rnic_verbs::{Data, Device, Qpn, Recipient, RecvRequest, SendFlags, SendOp, SendRequest, Sge, VerbsError};
use std::mem::MaybeUninit;

/// Maximum number of scatter-gather elements of a request; the device has the same limit.
const MAX_SGE: usize = 32;

/// Why a request is not posted.
pub(crate) enum Refused {
    Verbs(VerbsError),
    Number(c_int, &'static str),
}

impl From<VerbsError> for Refused {
    fn from(error: VerbsError) -> Refused {
        Refused::Verbs(error)
    }
}

impl Refused {
    pub(crate) fn number(&self) -> c_int {
        match self {
            Refused::Verbs(error) => number(error),
            Refused::Number(number, _) => *number,
        }
    }
}

impl std::fmt::Display for Refused {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self {
            Refused::Verbs(error) => write!(f, "{error}"),
            Refused::Number(_, text) => f.write_str(text),
        }
    }
}

/// The scatter-gather elements of a request.
pub(crate) struct Sges {
    list: [Sge; MAX_SGE],
    len: usize,
}

impl Sges {
    /// # Safety
    /// By the contract of libibverbs there are `count` elements.
    pub(crate) unsafe fn read(list: *const ibv_sge, count: impl TryInto<usize>) -> Result<Sges, Refused> {
        let len = count.try_into().unwrap_or(usize::MAX);
        if len > MAX_SGE {
            return Err(Refused::Number(libc::EINVAL, "a request has 0 to 32 scatter-gather elements"));
        }
        let mut sges = Sges { list: [Sge::default(); MAX_SGE], len };
        for (at, to) in sges.list[..len].iter_mut().enumerate() {
            // SAFETY: the caller's promise.
            let sge = unsafe { list.add(at).read() };
            *to = Sge { addr: sge.addr, len: sge.length, lkey: sge.lkey };
        }
        Ok(sges)
    }

    pub(crate) fn list(&self) -> &[Sge] {
        &self.list[..self.len]
    }
}

/// Maximum bytes of inline data that are copied for one request; the device has the same limit.
const MAX_INLINE: u64 = 1_024;

/// The inline data of a request.
pub(crate) struct Inline {
    bytes: [MaybeUninit<u8>; MAX_INLINE as usize],
    len: usize,
}

impl Inline {
    pub(crate) const EMPTY: Inline = Inline { bytes: [MaybeUninit::uninit(); MAX_INLINE as usize], len: 0 };

    /// Appends the bytes of these buffers. The copy goes through raw pointers, because the bytes may be in a memory
    /// region that peers write.
    ///
    /// # Safety
    /// By the contract of libibverbs the bytes are readable.
    pub(crate) unsafe fn gather(
        &mut self, buffers: impl Iterator<Item = (*const u8, usize)>,
    ) -> Result<&[u8], Refused> {
        for (from, len) in buffers {
            let Some(room) = self.bytes[self.len..].get_mut(..len) else {
                return Err(VerbsError::Limit { what: "bytes of inline data", limit: MAX_INLINE }.into());
            };
            // SAFETY: there is room for `len` bytes, which are readable by the caller's promise.
            unsafe { std::ptr::copy_nonoverlapping(from, room.as_mut_ptr().cast(), len) };
            self.len += len;
        }
        // SAFETY: the first `len` bytes were written.
        Ok(unsafe { std::slice::from_raw_parts(self.bytes.as_ptr().cast(), self.len) })
    }
}

/// The flags of a send request.
pub(crate) fn flags(flags: u32) -> SendFlags {
    SendFlags {
        signaled: flags & IBV_SEND_SIGNALED != 0,
        solicited: flags & IBV_SEND_SOLICITED != 0,
        fence: flags & IBV_SEND_FENCE != 0,
    }
}

/// Posts one send request.
///
/// # Safety
/// By the contract of libibverbs the request is valid.
unsafe fn send(verbs: &mut Device, qp: &qp::QpState, wr: *const ibv_send_wr) -> Result<(), Refused> {
    // SAFETY: the caller's promise. Which part of a union is valid depends on the operation and the type of the queue
    // pair, and any bytes are values of all parts.
    let (wr, rdma, atomic, ud) = unsafe { (&*wr, (*wr).wr.rdma, (*wr).wr.atomic, (*wr).wr.ud) };
    let (addr, rkey, imm) = (rdma.remote_addr, rdma.rkey, u32::from_be(wr.imm_data));
    let op = match wr.opcode {
        IBV_WR_RDMA_WRITE => SendOp::Write { addr, rkey },
        IBV_WR_RDMA_WRITE_WITH_IMM => SendOp::WriteImm { addr, rkey, imm },
        IBV_WR_SEND => SendOp::Send,
        IBV_WR_SEND_WITH_IMM => SendOp::SendImm(imm),
        IBV_WR_RDMA_READ => SendOp::Read { addr, rkey },
        IBV_WR_ATOMIC_CMP_AND_SWP => {
            let wr_atomic { remote_addr: addr, compare_add: compare, swap, rkey } = atomic;
            SendOp::CompareSwap { addr, rkey, compare, swap }
        }
        IBV_WR_ATOMIC_FETCH_AND_ADD => {
            SendOp::FetchAdd { addr: atomic.remote_addr, rkey: atomic.rkey, add: atomic.compare_add }
        }
        IBV_WR_SEND_WITH_INV => SendOp::SendInv(wr.imm_data),
        IBV_WR_LOCAL_INV => SendOp::LocalInv(wr.imm_data),
        IBV_WR_BIND_MW if qp.kind != IBV_QPT_UD => {
            let wr_bind_mw { mw, rkey, bind_info } = wr.bind_mw;
            // SAFETY: the caller's promise.
            let bind = unsafe { window::second_kind(mw, rkey, &bind_info) }?;
            let (wr_id, flags) = (wr.wr_id, flags(wr.send_flags));
            let request = SendRequest { wr_id, op: SendOp::Bind, data: Data::Bind(&bind), flags };
            return Ok(verbs.post_send(qp.qpn, &request)?);
        }
        _ => return Err(Refused::Number(libc::EOPNOTSUPP, "there is no such operation")),
    };
    // SAFETY: the caller's promise.
    let sges = unsafe { Sges::read(wr.sg_list, wr.num_sge) }?;
    let mut inline = Inline::EMPTY;
    let data = if op.is_local() {
        Data::Gather(&[])
    } else if wr.send_flags & IBV_SEND_INLINE != 0 && !op.is_fetching() {
        let buffers = sges.list().iter();
        let buffers = buffers.map(|sge| (std::ptr::with_exposed_provenance(sge.addr as usize), sge.len as usize));
        // SAFETY: the caller's promise.
        Data::Inline(unsafe { inline.gather(buffers) }?)
    } else {
        Data::Gather(sges.list())
    };
    let request = SendRequest { wr_id: wr.wr_id, op, data, flags: flags(wr.send_flags) };
    if qp.kind == IBV_QPT_UD {
        if ud.ah.is_null() {
            return Err(Refused::Number(libc::EINVAL, "a datagram needs an address handle"));
        }
        // SAFETY: the caller's promise.
        let path = unsafe { ah::path(ud.ah) };
        let to = Recipient { path, qpn: Qpn(ud.remote_qpn), qkey: ud.remote_qkey };
        return Ok(verbs.post_datagram(qp.qpn, &request, &to)?);
    }
    Ok(verbs.post_send(qp.qpn, &request)?)
}

/// Reports the first request of a list that was refused.
///
/// # Safety
/// By the contract of libibverbs `bad` is valid.
unsafe fn report<T>(verb: &str, refused: Option<(*mut T, Refused)>, bad: *mut *mut T) -> c_int {
    let Some((request, why)) = refused else { return 0 };
    trace::line(format_args!("{verb} refused: {why}"));
    // SAFETY: the caller's promise.
    unsafe { *bad = request };
    set_errno(why.number());
    why.number()
}

/// # Safety
/// By the contract of libibverbs.
pub(crate) unsafe extern "C" fn post_send(
    qp: *mut ibv_qp, first: *mut ibv_send_wr, bad: *mut *mut ibv_send_wr,
) -> c_int {
    entry(libc::EIO, || {
        // SAFETY: by the contract of libibverbs, for the requests too.
        unsafe {
            let (context, qp) = (context::state((*qp).context), qp::state(qp));
            let refused = context.device.with_verbs(|verbs| {
                let mut wr = first;
                while !wr.is_null() {
                    if let Err(why) = send(verbs, qp, wr) {
                        return Some((wr, why));
                    }
                    wr = (*wr).next;
                }
                None
            });
            if trace::is_on() {
                trace::line(format_args!("ibv_post_send to QP {:#x}", qp.qpn.0));
            }
            report("ibv_post_send", refused, bad)
        }
    })
}

/// Posts a list of receives by `post`, which gets each.
///
/// # Safety
/// By the contract of libibverbs.
unsafe fn post_list(
    context: &context::ContextState, first: *mut ibv_recv_wr,
    post: impl Fn(&mut Device, &RecvRequest<'_>) -> Result<(), VerbsError>,
) -> Option<(*mut ibv_recv_wr, Refused)> {
    context.device.with_verbs_quietly(|verbs| {
        let mut wr = first;
        while !wr.is_null() {
            // SAFETY: the caller's promise.
            let (wr_id, sges, next) = unsafe { ((*wr).wr_id, Sges::read((*wr).sg_list, (*wr).num_sge), (*wr).next) };
            let posted = sges.and_then(|sges| Ok(post(verbs, &RecvRequest { wr_id, scatter: sges.list() })?));
            if let Err(why) = posted {
                return Some((wr, why));
            }
            wr = next;
        }
        None
    })
}

/// # Safety
/// By the contract of libibverbs.
pub(crate) unsafe extern "C" fn post_recv(
    qp: *mut ibv_qp, first: *mut ibv_recv_wr, bad: *mut *mut ibv_recv_wr,
) -> c_int {
    entry(libc::EIO, || {
        // SAFETY: by the contract of libibverbs.
        unsafe {
            let (context, qp) = (context::state((*qp).context), qp::state(qp));
            if trace::is_on() {
                trace::line(format_args!("ibv_post_recv to QP {:#x}", qp.qpn.0));
            }
            let refused = post_list(context, first, |verbs, request| verbs.post_recv(qp.qpn, request));
            report("ibv_post_recv", refused, bad)
        }
    })
}

/// # Safety
/// By the contract of libibverbs.
pub(crate) unsafe extern "C" fn post_srq_recv(
    srq: *mut ibv_srq, first: *mut ibv_recv_wr, bad: *mut *mut ibv_recv_wr,
) -> c_int {
    entry(libc::EIO, || {
        // SAFETY: by the contract of libibverbs.
        unsafe {
            if trace::is_on() {
                trace::line(format_args!("ibv_post_srq_recv to SRQ {:x}", srq.addr()));
            }
            let (context, srq) = (context::state((*srq).context), srq::state(srq));
            let refused = post_list(context, first, |verbs, request| verbs.post_srq_recv(srq.id, request));
            report("ibv_post_srq_recv", refused, bad)
        }
    })
}
