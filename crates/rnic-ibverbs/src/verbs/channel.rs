//! Completion channels.

use crate::abi::{ibv_comp_channel, ibv_cq};
use crate::objects::Address;
use crate::objects::channel::Channel;
use crate::objects::context::Context;
use crate::objects::cq::Cq;
use crate::trace;
use libc::{c_int, c_uint, c_void};
use rnic_cabi::entry::{entry, object, set_errno, status};
use rnic_cabi::get;
use rnic_cabi::pointer::{Handle, Out};

#[unsafe(no_mangle)]
pub extern "C" fn ibv_create_comp_channel(context: Handle<Context>) -> *mut ibv_comp_channel {
    object(|| Channel::create(context.as_ptr()).map(Handle::as_ptr))
}

#[unsafe(no_mangle)]
pub extern "C" fn ibv_destroy_comp_channel(channel: Handle<Channel>) -> c_int {
    status(|| {
        if channel.state().has_queues() {
            trace::line(format_args!("ibv_destroy_comp_channel refused: a completion queue uses it"));
            return Err(libc::EBUSY);
        }
        trace::line(format_args!("ibv_destroy_comp_channel fd {}", get!(channel.fd)));
        // A thread may still wait in `ibv_get_cq_event`.
        channel.state().events.close();
        // SAFETY: no queue uses the channel, and the program does not use it afterwards.
        drop(unsafe { channel.destroy() });
        Ok(())
    })
}

/// The queue with this address.
///
/// # Safety
/// The queue exists.
unsafe fn queue(address: Address) -> Handle<Cq> {
    // SAFETY: the caller promises the conditions of this function.
    unsafe { Handle::new(address.as_ptr()) }
}

#[unsafe(no_mangle)]
pub extern "C" fn ibv_get_cq_event(channel: Handle<Channel>, cq: Out<*mut ibv_cq>, context: Out<*mut c_void>) -> c_int {
    entry(-1, || {
        let events = channel.state().events.clone();
        // A queue that is being destroyed leaves the channel, and then waits for its events.
        // SAFETY: so the queue exists while its event is in the channel.
        let count = |address: &Address| unsafe { queue(*address) }.state().unacknowledged.add();
        match events.take(|_| (), count) {
            Ok(address) => {
                trace::line(format_args!("ibv_get_cq_event = CQ {address:x}"));
                // SAFETY: the queue exists until the event is acknowledged.
                let queue = unsafe { queue(address) };
                cq.write(queue.as_ptr());
                context.write(get!(queue.cq_context));
                0
            }
            Err(error) => {
                set_errno(error);
                -1
            }
        }
    })
}

#[unsafe(no_mangle)]
pub extern "C" fn ibv_ack_cq_events(cq: Handle<Cq>, events: c_uint) {
    trace::line(format_args!("ibv_ack_cq_events CQ {:x}, {events} events", cq.as_ptr().addr()));
    entry((), || cq.state().unacknowledged.acknowledge(events));
}
