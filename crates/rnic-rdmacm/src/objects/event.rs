//! Events that the program has received.

use libc::{c_int, c_void};
use rnic_cabi::cma::*;
use rnic_cabi::entry::Unacknowledged;
use rnic_cabi::get;
use rnic_cabi::live::Live;
use rnic_cabi::pointer::Handle;
use std::sync::Arc;

/// An event that the program has received.
#[repr(C)]
pub(crate) struct Delivered {
    c: rdma_cm_event,
    state: DeliveredState,
}

rnic_cabi::object!(Delivered { c: rdma_cm_event, state: DeliveredState });

pub(crate) struct DeliveredState {
    /// The counter of the identifier's events, which waits for the acknowledgement.
    owner: Arc<Unacknowledged>,
    /// The private data, to which the structure points.
    data: Vec<u8>,
}

/// The events that the program has received and not acknowledged.
static LIVE: Live = Live::new();

/// Acknowledges and frees an event of the program.
///
/// # Errors
/// `EINVAL` if no event exists at this address: it was acknowledged already, or never was an event.
pub(crate) fn acknowledge(event: *mut rdma_cm_event) -> Result<(), c_int> {
    if !LIVE.remove(event) {
        return Err(libc::EINVAL);
    }
    // SAFETY: the event existed until now, and no other call frees it.
    let event: Box<Delivered> = unsafe { Handle::new(event).destroy() };
    let owner = event.state.owner.clone();
    drop(event);
    owner.acknowledge(1);
    Ok(())
}

/// The event behind a pointer; `None` if no event exists at this address.
pub(crate) fn live(event: *mut rdma_cm_event) -> Option<Handle<Delivered>> {
    // SAFETY: the event exists, and the program does not acknowledge it during the call.
    LIVE.has(event).then(|| unsafe { Handle::new(event) })
}

/// The parameters of a new event.
#[derive(Default)]
pub(super) struct About {
    pub(super) event: c_int,
    pub(super) status: c_int,
    pub(super) data: Vec<u8>,
    pub(super) conn: Option<rdma_conn_param>,
    pub(super) ud: Option<rdma_ud_param>,
}

impl About {
    pub(super) fn new(event: c_int, status: c_int) -> About {
        About { event, status, ..About::default() }
    }
}

pub(super) const NO_CONN: rdma_conn_param = rdma_conn_param {
    private_data: std::ptr::null(),
    private_data_len: 0,
    responder_resources: 0,
    initiator_depth: 0,
    flow_control: 0,
    retry_count: 0,
    rnr_retry_count: 0,
    srq: 0,
    qp_num: 0,
};

/// Makes an event of the identifier `id` for the program. If a listening identifier has the event, it is `listener`,
/// otherwise null. The identifier with the counter `owner` is not destroyed before the event is acknowledged.
pub(super) fn create(
    listener: *mut rdma_cm_id, id: *mut rdma_cm_id, owner: Arc<Unacknowledged>, about: About,
) -> Handle<Delivered> {
    let data = about.data;
    let private_data: *const c_void = if data.is_empty() { std::ptr::null() } else { data.as_ptr().cast() };
    let private_data_len = data.len() as u8;
    let param = match about.ud {
        Some(ud) => rdma_event_param { ud: rdma_ud_param { private_data, private_data_len, ..ud } },
        None => {
            let conn = about.conn.unwrap_or(NO_CONN);
            rdma_event_param { conn: rdma_conn_param { private_data, private_data_len, ..conn } }
        }
    };
    let c = rdma_cm_event { id, listen_id: listener, event: about.event, status: about.status, param };
    let event = Handle::create(Delivered { c, state: DeliveredState { owner, data } });
    LIVE.add(event.as_ptr());
    event
}

/// A copy of an event of a connection.
pub(crate) struct Outcome {
    pub(crate) kind: c_int,
    pub(crate) data: Vec<u8>,
    pub(crate) conn: rdma_conn_param,
}

impl Outcome {
    pub(crate) fn of(event: Handle<Delivered>) -> Outcome {
        Outcome { kind: get!(event.event), data: event.state().data.clone(), conn: get!(event.param.conn) }
    }
}

/// The name of an event.
pub(crate) fn name(event: c_int) -> &'static str {
    crate::names::event(event).to_str().unwrap_or_default()
}
