//! Closing of devices, and asynchronous events. [`operations`](crate::operations) opens devices.

use crate::abi::*;
use crate::objects::context::Context;
use crate::objects::cq::Cq;
use crate::objects::qp::Qp;
use crate::objects::srq::Srq;
use crate::{names, progress, trace};
use libc::c_int;
use rnic_cabi::entry::{Unacknowledged, entry, set_errno, status};
use rnic_cabi::pointer::{Handle, In, Out};

#[unsafe(no_mangle)]
pub extern "C" fn ibv_close_device(context: Handle<Context>) -> c_int {
    status(|| {
        if context.state().is_of_parent("ibv_close_device") {
            return Ok(());
        }
        trace::line(format_args!("ibv_close_device"));
        // A thread may still wait in `ibv_get_async_event`.
        context.state().events.mailbox.close();
        // SAFETY: the program closes the device, and uses neither it nor its objects afterwards.
        drop(unsafe { context.destroy() });
        // Another device of this process may have the UDP port of the address: it closes its connection to this one.
        progress::tend();
        Ok(())
    })
}

#[unsafe(no_mangle)]
pub extern "C" fn ibv_get_async_event(context: Handle<Context>, event: Out<ibv_async_event>) -> c_int {
    entry(-1, || {
        // The context may be closed while the thread waits.
        let events = context.state().events.clone();
        // An object that is being destroyed leaves the mailbox, and then waits for its events.
        let count = |event: &ibv_async_event| {
            // SAFETY: so the object exists while its event is in the mailbox.
            unsafe { with_unacknowledged(event, Unacknowledged::add) };
        };
        match events.mailbox.take(|queue| events.refill(queue), count) {
            Ok(taken) => {
                trace::line(format_args!("ibv_get_async_event = {}", names::event(taken.event_type)));
                event.write(taken);
                0
            }
            Err(error) => {
                set_errno(error);
                -1
            }
        }
    })
}

/// Runs `work` with the counter of the events of an event's object.
///
/// # Safety
/// The object of the event exists.
unsafe fn with_unacknowledged(event: &ibv_async_event, work: impl FnOnce(&Unacknowledged)) {
    // SAFETY: the type of the event determines the type of its object.
    unsafe {
        match event.event_type {
            IBV_EVENT_CQ_ERR => work(&Handle::<Cq>::new(event.element.cast()).state().events),
            IBV_EVENT_SRQ_LIMIT_REACHED => work(&Handle::<Srq>::new(event.element.cast()).state().events),
            _ => work(&Handle::<Qp>::new(event.element.cast()).state().events),
        }
    }
}

#[unsafe(no_mangle)]
pub extern "C" fn ibv_ack_async_event(event: In<ibv_async_event>) {
    trace::line(format_args!("ibv_ack_async_event"));
    // SAFETY: `ibv_get_async_event` has returned the event; its object exists until the event is acknowledged.
    entry((), || unsafe { with_unacknowledged(&event.read(), |events| events.acknowledge(1)) });
}
