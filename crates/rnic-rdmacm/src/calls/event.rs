//! Taking and acknowledging events; waiting for the end of a step.

use crate::objects::channel::{self, EventChannel, What};
use crate::objects::event::{self, Delivered};
use crate::objects::id::{self, Id};
use crate::objects::translate::translate;
use crate::verbs::{call, trace};
use libc::c_int;
use rnic_cabi::cma::*;
use rnic_cabi::entry::lock;
use rnic_cabi::pointer::{Handle, Out};
use rnic_cabi::{get, set};

/// Takes the next event of a channel; waits for it, unless the descriptor of the channel is non-blocking.
///
/// # Errors
/// `EAGAIN` without an event, `EINTR` after a signal.
pub(super) fn take(channel: Handle<EventChannel>) -> Result<Handle<Delivered>, c_int> {
    let queue = channel.state().clone();
    loop {
        let raw = queue.take(|_| (), |_| ())?;
        let Some((id, events)) = channel::hold(raw.token) else {
            // The identifier was destroyed in the meantime, and its removal from the registry has not seen the event.
            if let What::Manager(device, event) = raw.what
                && channel::is_request(&event)
            {
                device.with(|manager, now| manager.destroy(now, event.connection()));
            }
            continue;
        };
        // SAFETY: the identifier is not destroyed before the event that `hold` has counted is acknowledged.
        let id: Handle<Id> = unsafe { Handle::new(id) };
        if let Some(event) = translate(id, events.clone(), raw.what) {
            let (kind, status) = (get!(event.event), get!(event.status));
            trace(format_args!("rdma_get_cm_event = {}, status {status}", event::name(kind)));
            return Ok(event);
        }
        events.acknowledge(1);
    }
}

#[unsafe(no_mangle)]
pub extern "C" fn rdma_get_cm_event(channel: *mut rdma_event_channel, out: Out<*mut rdma_cm_event>) -> c_int {
    call(|| {
        let channel = channel::live(channel)?;
        let out = out.unless_null().ok_or(libc::EINVAL)?;
        out.write(take(channel)?.as_ptr());
        Ok(())
    })
}

#[unsafe(no_mangle)]
pub extern "C" fn rdma_ack_cm_event(event: *mut rdma_cm_event) -> c_int {
    call(|| event::acknowledge(event))
}

/// Waits for the end of a step, if the program has passed no channel for the identifier. The identifier keeps the event
/// of this step until its next step.
///
/// # Errors
/// The error of the step.
pub(crate) fn complete(id: Handle<Id>) -> Result<(), c_int> {
    if !lock(&id.state().inner).sync {
        return Ok(());
    }
    id::acknowledge_event(id);
    let event = take(id::channel(id))?;
    set!(id.event = event.as_ptr());
    match (get!(event.event), get!(event.status)) {
        (_, 0) => Ok(()),
        (RDMA_CM_EVENT_REJECTED, _) => Err(libc::ECONNREFUSED),
        (_, status) => Err(status.abs()),
    }
}
