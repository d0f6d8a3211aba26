//! Shared receive queues.

use super::domain::Domain;
use super::{Address, InContext};
use crate::abi::*;
use crate::error::refused;
use crate::trace;
use libc::{c_int, c_void};
use rnic_cabi::entry::Unacknowledged;
use rnic_cabi::pointer::Handle;
use rnic_verbs::SrqId;

#[repr(C)]
pub(crate) struct Srq {
    c: ibv_srq,
    state: SrqState,
}

rnic_cabi::object!(Srq { c: ibv_srq, state: SrqState });

pub(crate) struct SrqState {
    pub(crate) id: SrqId,
    /// Asynchronous events that the program has not acknowledged.
    pub(crate) events: Unacknowledged,
}

impl Srq {
    /// Creates a shared receive queue. Sets `attr.max_sge` to the number that the queue has.
    pub(crate) fn create(
        pd: Handle<Domain>, srq_context: *mut c_void, attr: &mut ibv_srq_attr,
    ) -> Result<Handle<Srq>, c_int> {
        let (max_wr, max_sge) = (attr.max_wr, attr.max_sge.max(1));
        let (context, pd_id) = (pd.context(), pd.state().id);
        let made = context.device.with_verbs_quietly(|verbs| verbs.create_srq(pd_id, max_wr, max_sge));
        let id = made.map_err(refused("ibv_create_srq"))?;
        attr.max_sge = max_sge;
        let c = ibv_srq {
            context: pd.context_ptr(),
            srq_context,
            pd: pd.as_ptr(),
            handle: context.handle(),
            mutex: libc::PTHREAD_MUTEX_INITIALIZER,
            cond: libc::PTHREAD_COND_INITIALIZER,
            events_completed: 0,
        };
        let srq = Handle::create(Srq { c, state: SrqState { id, events: Unacknowledged::default() } });
        context.events.add_srq(id, Address::of(srq));
        trace::line(format_args!("ibv_create_srq of {max_wr} receives = SRQ {:x}", srq.as_ptr().addr()));
        Ok(srq)
    }
}
