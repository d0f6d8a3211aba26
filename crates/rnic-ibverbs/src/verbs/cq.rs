//! Completion queues.

use super::cq_ex;
use crate::abi::*;
use crate::error::{number, refused};
use crate::objects::InContext;
use crate::objects::context::Context;
use crate::objects::cq::{Cq, trace_completion, wc};
use crate::trace;
use libc::{c_int, c_void};
use rnic_cabi::entry::{entry, object, set_errno, status};
use rnic_cabi::pointer::Handle;
use rnic_cabi::set;
use rnic_verbs::{Completion, Notify};
use std::sync::atomic::Ordering;

#[unsafe(no_mangle)]
pub extern "C" fn ibv_create_cq(
    context: Handle<Context>, cqe: c_int, cq_context: *mut c_void, channel: *mut ibv_comp_channel, comp_vector: c_int,
) -> *mut ibv_cq {
    object(|| {
        let cqe = u32::try_from(cqe).map_err(|_| libc::EINVAL)?;
        let vector = u32::try_from(comp_vector).map_err(|_| libc::EINVAL)?;
        // SAFETY: the channel is null, or exists until the queue is destroyed.
        let channel = unsafe { Handle::new_unless_null(channel) };
        let cq = Cq::create("ibv_create_cq", context, cqe, cq_context, channel, vector, cq_ex::structure)?;
        Ok(cq.as_ptr())
    })
}

#[unsafe(no_mangle)]
pub extern "C" fn ibv_destroy_cq(cq: Handle<Cq>) -> c_int {
    status(|| {
        let (context, state) = (cq.context(), cq.state());
        if context.is_of_parent("ibv_destroy_cq") {
            return Ok(());
        }
        state.ending.store(true, Ordering::Release);
        let destroyed = context.device.with_verbs_quietly(|verbs| verbs.destroy_cq(state.id));
        destroyed.inspect_err(|_| state.ending.store(false, Ordering::Release)).map_err(refused("ibv_destroy_cq"))?;
        if let Some(notification) = state.notification.get() {
            notification.target.close();
            notification.channel.state().remove_queue();
        }
        context.events.remove_cq(state.id);
        state.unacknowledged.wait();
        state.events.wait();
        // Not earlier, because a thread with an unacknowledged event may have called `ibv_req_notify_cq` until here.
        context.device.unwatch(state.id);
        trace::line(format_args!("ibv_destroy_cq {:x}", cq.as_ptr().addr()));
        // SAFETY: the program does not use the queue afterwards, and no event of it is unacknowledged.
        drop(unsafe { cq.destroy() });
        Ok(())
    })
}

#[unsafe(no_mangle)]
pub extern "C" fn ibv_resize_cq(cq: Handle<Cq>, cqe: c_int) -> c_int {
    status(|| {
        let entries = u32::try_from(cqe).map_err(|_| libc::EINVAL)?;
        let (context, state) = (cq.context(), cq.state());
        // Completions that are due count.
        context.device.settle();
        let resized = context.device.with_verbs_quietly(|verbs| verbs.resize_cq(state.id, entries));
        resized.map_err(refused("ibv_resize_cq"))?;
        trace::line(format_args!("ibv_resize_cq {:x} to {entries} entries", cq.as_ptr().addr()));
        set!(cq.cqe = cqe);
        Ok(())
    })
}

/// # Safety
/// `out` has room for `entries` completions.
pub(crate) unsafe extern "C" fn poll_cq(cq: Handle<Cq>, entries: c_int, out: *mut ibv_wc) -> c_int {
    entry(-1, || {
        let max = usize::try_from(entries).unwrap_or(0);
        // Most programs that wait for a message ask for one completion.
        // SAFETY: the caller promises the conditions of this function.
        unsafe { if max == 1 { poll_in_batches::<1>(cq, 1, out) } else { poll_in_batches::<16>(cq, max, out) } }
    })
}

/// Takes at most `max` completions, up to `BATCH` of them under one lock.
///
/// # Safety
/// `out` has room for `max` completions.
unsafe fn poll_in_batches<const BATCH: usize>(cq: Handle<Cq>, max: usize, out: *mut ibv_wc) -> c_int {
    let (context, state) = (cq.context(), cq.state());
    let mut completions = [Completion::BLANK; BATCH];
    let mut done = 0;
    while done < max {
        let room = BATCH.min(max - done);
        let count = match context.poll(state.id, &mut completions[..room]) {
            Ok(count) => count,
            Err(_) if state.ending.load(Ordering::Acquire) => break,
            // Completions were lost. The program first gets the completions that are left.
            Err(_) if done > 0 => break,
            Err(error) => {
                trace::line(format_args!("ibv_poll_cq refused: {error}"));
                set_errno(number(&error));
                return -1;
            }
        };
        for completion in &completions[..count] {
            trace_completion("ibv_poll_cq", completion);
            // SAFETY: `done` is less than `max`.
            unsafe { out.add(done).write(wc(completion, context)) };
            done += 1;
        }
        if count < room {
            break;
        }
    }
    done as c_int
}

pub(crate) extern "C" fn req_notify_cq(cq: Handle<Cq>, solicited_only: c_int) -> c_int {
    status(|| {
        let (context, state) = (cq.context(), cq.state());
        if trace::is_on() {
            let solicited = solicited_only != 0;
            trace::line(format_args!("ibv_req_notify_cq {:x}, solicited only: {solicited}", cq.as_ptr().addr()));
        }
        let notify = if solicited_only != 0 { Notify::Solicited } else { Notify::Any };
        let armed = match state.notification.get() {
            Some(notification) => {
                context.will_sleep();
                let watched = context.device.watch(Some(state.id), notify, &notification.waker);
                watched.map(|_| ()).map_err(|_| libc::EIO)
            }
            None => context
                .device
                .with_verbs_quietly(|verbs| verbs.arm_cq(state.id, notify))
                .map_err(refused("req_notify_cq")),
        };
        if state.ending.load(Ordering::Acquire) { Ok(()) } else { armed }
    })
}
