//! Work requests, as C posts them.

use super::ah::AddressHandle;
use super::window::{self, Type2};
use crate::abi::*;
use crate::error::Refused;
use libc::c_int;
use rnic_cabi::pointer::Handle;
use rnic_verbs::{Data, Device, Qpn, Recipient, RecvRequest, SendFlags, SendOp, SendRequest, Sge, VerbsError};
use std::mem::MaybeUninit;

/// Maximum number of scatter-gather elements of a request; the device has the same limit.
const MAX_SGE: usize = 32;

/// The scatter-gather elements of a request.
pub(crate) struct Sges {
    list: [Sge; MAX_SGE],
    len: usize,
}

impl Sges {
    /// # Safety
    /// `list` has `count` elements that can be read.
    pub(crate) unsafe fn read(list: *const ibv_sge, count: impl TryInto<usize>) -> Result<Sges, Refused> {
        let len = count.try_into().unwrap_or(usize::MAX);
        if len > MAX_SGE {
            return Err(Refused::Number(libc::EINVAL, "a request has 0 to 32 scatter-gather elements"));
        }
        let mut sges = Sges { list: [Sge::default(); MAX_SGE], len };
        for (at, to) in sges.list[..len].iter_mut().enumerate() {
            // SAFETY: the list has more than `at` elements.
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
    /// The bytes of each buffer can be read.
    pub(crate) unsafe fn gather(
        &mut self, buffers: impl Iterator<Item = (*const u8, usize)>,
    ) -> Result<&[u8], Refused> {
        for (from, len) in buffers {
            let Some(room) = self.bytes[self.len..].get_mut(..len) else {
                return Err(VerbsError::Limit { what: "bytes of inline data", limit: MAX_INLINE }.into());
            };
            // SAFETY: there is room for `len` bytes, which the caller promises to be readable.
            unsafe { std::ptr::copy_nonoverlapping(from, room.as_mut_ptr().cast(), len) };
            self.len += len;
        }
        // SAFETY: the first `len` bytes were written.
        Ok(unsafe { std::slice::from_raw_parts(self.bytes.as_ptr().cast(), self.len) })
    }
}

/// The queue pair number of a recipient, which has 24 bits in a packet. Programs leave other bits in the upper byte.
pub(crate) fn low_24_bits(qpn: u32) -> Qpn {
    Qpn(qpn & 0xff_ffff)
}

/// The flags of a send request.
pub(crate) fn flags(flags: u32) -> SendFlags {
    SendFlags {
        signaled: flags & IBV_SEND_SIGNALED != 0,
        solicited: flags & IBV_SEND_SOLICITED != 0,
        fence: flags & IBV_SEND_FENCE != 0,
    }
}

/// Posts one send request to a queue pair of the type `kind`.
///
/// # Safety
/// The request can be read, and so can its lists and inline data; the objects in it exist.
unsafe fn post_send(verbs: &mut Device, qpn: Qpn, kind: c_int, wr: *const ibv_send_wr) -> Result<(), Refused> {
    // SAFETY: the request can be read. Which part of a union is valid depends on the operation and the type of the
    // queue pair, and any bytes are values of all parts.
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
        IBV_WR_BIND_MW if kind != IBV_QPT_UD => {
            let wr_bind_mw { mw, rkey, bind_info } = wr.bind_mw;
            // SAFETY: the objects in the request exist.
            let type_2 = unsafe { window::bind_type_2(mw, rkey, &bind_info) }?;
            let (wr_id, flags) = (wr.wr_id, flags(wr.send_flags));
            let request = SendRequest { wr_id, op: SendOp::Bind, data: Data::Bind(&type_2.bind), flags };
            verbs.post_send(qpn, &request)?;
            // SAFETY: the objects in the request exist.
            unsafe { type_2.show_key() };
            return Ok(());
        }
        _ => return Err(Refused::Number(libc::EOPNOTSUPP, "there is no such operation")),
    };
    // SAFETY: the list of the request can be read.
    let sges = unsafe { Sges::read(wr.sg_list, wr.num_sge) }?;
    let mut inline = Inline::EMPTY;
    let data = if op.is_local() {
        Data::Gather(&[])
    } else if wr.send_flags & IBV_SEND_INLINE != 0 && !op.is_fetching() {
        let buffers = sges.list().iter();
        let buffers = buffers.map(|sge| (std::ptr::with_exposed_provenance(sge.addr as usize), sge.len as usize));
        // SAFETY: the inline data can be read.
        Data::Inline(unsafe { inline.gather(buffers) }?)
    } else {
        Data::Gather(sges.list())
    };
    let request = SendRequest { wr_id: wr.wr_id, op, data, flags: flags(wr.send_flags) };
    // Other operations fail, and their address handle is where datagrams have it, or is not.
    if kind == IBV_QPT_UD && matches!(op, SendOp::Send | SendOp::SendImm(_)) {
        // SAFETY: the objects in the request exist.
        let ah: Option<Handle<AddressHandle>> = unsafe { Handle::new_unless_null(ud.ah) };
        let Some(ah) = ah else {
            return Err(Refused::Number(libc::EINVAL, "a datagram needs an address handle"));
        };
        let to = Recipient { path: ah.state().path, qpn: low_24_bits(ud.remote_qpn), qkey: ud.remote_qkey };
        return Ok(verbs.post_datagram(qpn, &request, &to)?);
    }
    Ok(verbs.post_send(qpn, &request)?)
}

/// Posts a list of send requests to a queue pair of the type `kind`. Returns the first request that is refused.
///
/// # Safety
/// Each request of the list can be read, and so can its lists and inline data; the objects in the requests exist.
pub(crate) unsafe fn post_sends(
    verbs: &mut Device, qpn: Qpn, kind: c_int, first: *mut ibv_send_wr,
) -> Option<(*mut ibv_send_wr, Refused)> {
    let mut wr = first;
    while !wr.is_null() {
        // SAFETY: each request meets the conditions that the caller promises.
        if let Err(why) = unsafe { post_send(verbs, qpn, kind, wr) } {
            return Some((wr, why));
        }
        // SAFETY: the request can be read.
        wr = unsafe { (*wr).next };
    }
    None
}

/// Posts a list of receives: calls `post` for each receive. Returns the first request that is refused.
///
/// # Safety
/// Each request of the list can be read, and so can its scatter list.
pub(crate) unsafe fn post_receives(
    verbs: &mut Device, first: *mut ibv_recv_wr, post: impl Fn(&mut Device, &RecvRequest<'_>) -> Result<(), VerbsError>,
) -> Option<(*mut ibv_recv_wr, Refused)> {
    let mut wr = first;
    while !wr.is_null() {
        // SAFETY: the request and its list can be read.
        let (wr_id, sges, next) = unsafe { ((*wr).wr_id, Sges::read((*wr).sg_list, (*wr).num_sge), (*wr).next) };
        let posted = sges.and_then(|sges| Ok(post(verbs, &RecvRequest { wr_id, scatter: sges.list() })?));
        if let Err(why) = posted {
            return Some((wr, why));
        }
        wr = next;
    }
    None
}

/// The send requests that a program builds by the functions `ibv_wr_*`, between `ibv_wr_start` and `ibv_wr_complete`.
#[derive(Default)]
pub(crate) struct Requests {
    list: Vec<Request>,
    /// The first error, which `ibv_wr_complete` returns.
    error: Option<Refused>,
}

/// A send request that is being built.
pub(crate) struct Request {
    wr_id: u64,
    op: SendOp,
    flags: SendFlags,
    pub(crate) sges: Vec<Sge>,
    pub(crate) inline: Option<Vec<u8>>,
    pub(crate) to: Option<Recipient>,
    pub(crate) bind: Option<Type2>,
}

impl Requests {
    /// Begins a request.
    pub(crate) fn begin(&mut self, wr_id: u64, flags: SendFlags, op: SendOp) {
        self.list.push(Request { wr_id, op, flags, sges: Vec::new(), inline: None, to: None, bind: None });
    }

    /// Changes the request that was begun last.
    pub(crate) fn change_last(&mut self, change: impl FnOnce(&mut Request) -> Result<(), Refused>) {
        let changed = match self.list.last_mut() {
            Some(request) => change(request),
            None => Err(Refused::Number(libc::EINVAL, "data or an address come after an operation")),
        };
        if let Err(why) = changed {
            self.error.get_or_insert(why);
        }
    }

    /// Posts the requests; returns their number. If the queue does not have room for all requests, or building a
    /// request has failed, no request is posted.
    pub(crate) fn post(self, verbs: &mut Device, qpn: Qpn) -> Result<usize, Refused> {
        if let Some(why) = self.error {
            return Err(why);
        }
        let info = verbs.query_qp(qpn)?;
        if info.sends as usize + self.list.len() > info.capacities.send_wr as usize {
            return Err(VerbsError::Full("send queue").into());
        }
        for request in &self.list {
            let data = match (&request.inline, &request.bind) {
                (_, Some(type_2)) => Data::Bind(&type_2.bind),
                (Some(bytes), None) => Data::Inline(bytes),
                (None, None) => Data::Gather(&request.sges),
            };
            let send = SendRequest { wr_id: request.wr_id, op: request.op, data, flags: request.flags };
            match &request.to {
                Some(to) => verbs.post_datagram(qpn, &send, to)?,
                None => verbs.post_send(qpn, &send)?,
            }
            if let Some(type_2) = &request.bind {
                // SAFETY: the program has just built the request, and frees the window after the binding at the
                // earliest.
                unsafe { type_2.show_key() };
            }
        }
        Ok(self.list.len())
    }
}
