//! Event channels.

use crate::objects::channel;
use rnic_cabi::cma::rdma_event_channel;
use rnic_cabi::entry::object;
use rnic_cabi::pointer::Handle;

#[unsafe(no_mangle)]
pub extern "C" fn rdma_create_event_channel() -> *mut rdma_event_channel {
    object(|| channel::create().map(Handle::as_ptr))
}

#[unsafe(no_mangle)]
pub extern "C" fn rdma_destroy_event_channel(channel: *mut rdma_event_channel) {
    channel::destroy(channel);
}
