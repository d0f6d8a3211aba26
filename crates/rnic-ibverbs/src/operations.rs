//! The table of functions of a context, which the inline functions of the header call, and the opening of devices,
//! which makes the table. This module is in a layer above all these functions, so that objects do not depend on the
//! table.

use crate::abi::*;
use crate::objects::context::Context;
use crate::objects::device::Device;
use crate::verbs::{cq, cq_ex, domain, post, qp, query, srq, window};
use libc::c_int;
use rnic_cabi::entry::object;
use rnic_cabi::exported;
use rnic_cabi::pointer::Handle;

#[unsafe(no_mangle)]
pub extern "C" fn ibv_open_device(device: Handle<Device>) -> *mut ibv_context {
    object(|| {
        let operations = |cmd_fd, async_fd| operations(device.as_ptr(), cmd_fd, async_fd);
        Context::open(device, operations).map(Handle::as_ptr)
    })
}

fn operations(device: *mut ibv_device, cmd_fd: c_int, async_fd: c_int) -> verbs_context {
    let ops = ibv_context_ops {
        compat_1: [0; 7],
        alloc_mw: exported!(window::alloc_mw, _, _),
        bind_mw: exported!(window::bind_mw, _, _, _),
        dealloc_mw: exported!(window::dealloc_mw, _),
        compat_2: 0,
        poll_cq: exported!(unsafe cq::poll_cq, _, _, _),
        req_notify_cq: exported!(cq::req_notify_cq, _, _),
        compat_3: [0; 7],
        post_srq_recv: exported!(unsafe post::post_srq_recv, _, _, _),
        compat_4: [0; 4],
        post_send: exported!(unsafe post::post_send, _, _, _),
        post_recv: exported!(unsafe post::post_recv, _, _, _),
        compat_5: [0; 5],
    };
    verbs_context {
        query_port: exported!(unsafe query::query_port, _, _, _, _),
        advise_mr: exported!(domain::advise_mr, _, _, _, _, _),
        alloc_null_mr: 0,
        counters: [0; 4],
        device_memory: [0; 3],
        flow_actions: [0; 3],
        modify_qp_rate_limit: exported!(qp::modify_qp_rate_limit, _, _),
        alloc_parent_domain: exported!(domain::alloc_parent_domain, _, _),
        dealloc_td: exported!(unsafe domain::dealloc_td, _),
        alloc_td: exported!(domain::alloc_td, _, _),
        modify_cq: 0,
        post_srq_ops: 0,
        work_queues: [0; 5],
        query_rt_values: exported!(query::query_rt_values, _, _),
        create_cq_ex: exported!(cq_ex::create_cq_ex, _, _),
        private: 0,
        query_device_ex: exported!(unsafe query::query_device_ex, _, _, _, _),
        destroy_flow: 0,
        placeholder_2: 0,
        create_flow: 0,
        placeholder_1: 0,
        open_qp: 0,
        create_qp_ex: exported!(qp::create_qp_ex, _, _),
        get_srq_num: 0,
        create_srq_ex: exported!(srq::create_srq_ex, _, _),
        xrc: [0; 2],
        placeholder_3: 0,
        sz: size_of::<verbs_context>(),
        context: ibv_context {
            device,
            ops,
            cmd_fd,
            async_fd,
            num_comp_vectors: 1,
            mutex: libc::PTHREAD_MUTEX_INITIALIZER,
            abi_compat: VERBS_ABI_IS_EXTENDED,
        },
    }
}
